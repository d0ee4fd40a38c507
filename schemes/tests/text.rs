//! The shared vectors: known texts of every scheme, their values and times, and every text that must be refused.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use mintage_core::{AnyId, IdBits, IdScheme, ParseError};
use mintage_schemes::{
    Ksuid, TextForm, Ulid, UuidV4, UuidV7, ksuid_anatomy, parse_ksuid, parse_ulid, parse_uuid, parse_uuid_lenient,
    ulid_anatomy, uuid_anatomy,
};
use proptest::prelude::*;
use serde_json::Value;
use svix_ksuid::KsuidLike;

fn vectors(name: &str) -> Value {
    let path = format!("{}/../tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list<'a>(vectors: &'a Value, key: &str) -> &'a [Value] {
    let list = vectors[key].as_array().unwrap();
    assert!(!list.is_empty());
    list
}

fn text_of<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_else(|| panic!("{key} in {entry}"))
}

fn canonical(entry: &Value) -> &str {
    entry["canonical"].as_str().unwrap_or_else(|| text_of(entry, "text"))
}

/// The word for a fault that the vectors use.
fn why(error: &ParseError) -> &'static str {
    match error {
        ParseError::Empty => "empty",
        ParseError::Length { .. } => "length",
        ParseError::Character { .. } => "character",
        ParseError::LeadingZero => "leading zero",
        ParseError::OutOfRange => "range",
        ParseError::Hyphens => "hyphens",
        ParseError::Group { .. } => "group",
        _ => "other",
    }
}

fn assert_refused<T: std::fmt::Debug>(entry: &Value, parsed: Result<T, ParseError>) {
    let text = text_of(entry, "text");
    let error = parsed.expect_err(text);
    assert_eq!(why(&error), text_of(entry, "why"), "{text:?}: {error}");
    if let ParseError::Character { at, found } = error {
        assert_eq!(text[at..].chars().next(), Some(found), "{text:?}");
    }
}

fn format<S: IdScheme>(scheme: &S, bits: S::Bits) -> String {
    let mut text = String::new();
    scheme.format(bits, &mut text).unwrap();
    text
}

/// B12–B27, B112, B116, B119.
#[test]
fn uuid() {
    let vectors = vectors("uuid");
    for entry in list(&vectors, "good") {
        let text = text_of(entry, "text");
        let uuid = parse_uuid(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let bits = uuid.as_u128();
        assert_eq!(bits.to_any().to_hex(), text_of(entry, "hex"), "{text}");
        assert_eq!(parse_uuid_lenient(text), Ok(uuid));
        let anatomy = uuid_anatomy(uuid);
        assert_eq!(anatomy.width(), 128, "{text}");
        assert_eq!(anatomy.time.map(|time| time.unix_ms), entry["unix_ms"].as_i64(), "{text}");
        let version = anatomy.fields.iter().find(|field| field.name == "version").map(|field| field.value as u64);
        assert_eq!(version, entry["version"].as_u64(), "{text}");
        let put_together = anatomy
            .fields
            .iter()
            .fold(0, |all, field| if field.width == 128 { field.value } else { all << field.width | field.value });
        assert_eq!(put_together, bits, "{text}");
        for (expected, parsed, written) in [
            (4, UuidV4::new().parse(text), format(&UuidV4::new(), bits)),
            (7, UuidV7::new().parse(text), format(&UuidV7::new(), bits)),
        ] {
            assert_eq!(written, canonical(entry));
            match (entry["note"].as_str(), version) {
                (Some("nil"), _) => assert_eq!(parsed, Err(ParseError::Special("nil"))),
                (Some("max" | "max, upper case"), _) => assert_eq!(parsed, Err(ParseError::Special("max"))),
                (_, None) => assert_eq!(parsed, Err(ParseError::Variant), "{text}"),
                (_, Some(found)) if found == expected => assert_eq!(parsed, Ok(bits), "{text}"),
                (_, Some(found)) => {
                    let (found, expected) = (found as u8, expected as u8);
                    assert_eq!(parsed, Err(ParseError::Version { found, expected }), "{text}");
                }
            }
        }
    }
    for entry in list(&vectors, "bad") {
        let text = text_of(entry, "text");
        assert_refused(entry, parse_uuid(text));
        assert_refused(entry, UuidV7::new().parse(text));
        assert_refused(entry, UuidV4::new().parse(text));
    }
    for entry in list(&vectors, "lenient") {
        let uuid = parse_uuid_lenient(text_of(entry, "text")).unwrap_or_else(|error| panic!("{entry}: {error}"));
        assert_eq!(uuid.as_u128().to_any().to_hex(), text_of(entry, "hex"));
    }
    for entry in list(&vectors, "lenient_bad") {
        assert_refused(entry, parse_uuid_lenient(text_of(entry, "text")));
    }
}

/// B01, B02, B04, B06, B07, B09, B43, B50, B51.
#[test]
fn ulid() {
    let vectors = vectors("ulid");
    let scheme = Ulid::new();
    for entry in list(&vectors, "good") {
        let text = text_of(entry, "text");
        let ulid = parse_ulid(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(scheme.parse(text), Ok(ulid.0));
        assert_eq!(ulid.0.to_any().to_hex(), text_of(entry, "hex"), "{text}");
        assert_eq!(format(&scheme, ulid.0), canonical(entry));
        assert_eq!(ulid.to_string(), canonical(entry), "the ulid crate writes the same");
        let anatomy = ulid_anatomy(ulid);
        assert_eq!(anatomy.width(), 128);
        assert_eq!(anatomy.time.map(|time| time.unix_ms), entry["unix_ms"].as_i64(), "{text}");
    }
    for entry in list(&vectors, "bad") {
        assert_refused(entry, scheme.parse(text_of(entry, "text")));
        assert_refused(entry, parse_ulid(text_of(entry, "text")));
    }
}

/// B53, B54, B58, B59, B61, B62, B104, B113.
#[test]
fn ksuid() {
    let vectors = vectors("ksuid");
    let scheme = Ksuid::new();
    let mut by_bytes = Vec::new();
    for entry in list(&vectors, "good") {
        let text = text_of(entry, "text");
        let ksuid = parse_ksuid(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(scheme.parse(text), Ok(*ksuid.bytes()));
        assert_eq!(ksuid.bytes().to_any().to_hex(), text_of(entry, "hex"), "{text}");
        assert_eq!(format(&scheme, *ksuid.bytes()), text);
        assert_eq!(ksuid.to_string(), text, "the svix-ksuid crate writes the same");
        let anatomy = ksuid_anatomy(*ksuid.bytes());
        assert_eq!(anatomy.width(), 160);
        assert_eq!(
            anatomy.time.map(|time| (time.unix_ms, time.unit_ms)),
            entry["unix_ms"].as_i64().map(|ms| (ms, 1000)),
            "{text}"
        );
        by_bytes.push((*ksuid.bytes(), text));
    }
    by_bytes.sort_by_key(|(bytes, _)| *bytes);
    assert!(by_bytes.is_sorted_by_key(|(_, text)| *text), "bytes and text sort alike");
    for entry in list(&vectors, "bad") {
        assert_refused(entry, scheme.parse(text_of(entry, "text")));
        assert_refused(entry, parse_ksuid(text_of(entry, "text")));
    }
}

/// B99, B103, B104, B105, B129, B131.
#[test]
fn text64() {
    let vectors = vectors("text64");
    let form = |entry: &Value| TextForm::named(text_of(entry, "form")).unwrap();
    let bits = |entry: &Value| u32::try_from(entry["bits"].as_u64().unwrap()).unwrap();
    for entry in list(&vectors, "good") {
        let value =
            form(entry).parse(text_of(entry, "text"), bits(entry)).unwrap_or_else(|error| panic!("{entry}: {error}"));
        assert_eq!(AnyId::Int(value).to_hex(), text_of(entry, "hex"));
        let mut written = String::new();
        form(entry).format(value, &mut written).unwrap();
        assert_eq!(written, canonical(entry));
    }
    for entry in list(&vectors, "bad") {
        assert_refused(entry, form(entry).parse(text_of(entry, "text"), bits(entry)));
    }
}

/// B61, and what the other fields of known ids are.
#[test]
fn known_fields() {
    let field = |anatomy: &mintage_core::Anatomy, name: &str| {
        anatomy.fields.iter().find(|field| field.name == name).map(|field| field.value)
    };
    // B24.
    let v7 = uuid_anatomy(parse_uuid("017f22e2-79b0-7cc3-98c4-dc0c0c07398f").unwrap());
    assert_eq!(
        (field(&v7, "rand_a"), field(&v7, "variant"), field(&v7, "rand_b")),
        (Some(0xcc3), Some(2), Some(0x18c4_dc0c_0c07_398f))
    );
    let v1 = uuid_anatomy(parse_uuid("c232ab00-9414-11ec-b3c8-9f6bdeced846").unwrap());
    assert_eq!((field(&v1, "clock_seq"), field(&v1, "node")), (Some(0x33c8), Some(0x9f6b_dece_d846)));
    // B27: nothing invented.
    let v4 = uuid_anatomy(parse_uuid("550e8400-e29b-41d4-a716-446655440000").unwrap());
    assert_eq!((v4.time, v4.notes.len()), (None, 0));
    let ksuid = parse_ksuid("0ujtsYcgvSTl8PAuAdqWYSMnLOv").unwrap();
    assert_eq!(ksuid.bytes().to_any().to_hex(), "0669f7efb5a1cd34b5f99d1154fb6853345c9735");
    let anatomy = ksuid_anatomy(*ksuid.bytes());
    assert_eq!(
        (field(&anatomy, "time"), field(&anatomy, "payload")),
        (Some(107_608_047), Some(0xb5a1_cd34_b5f9_9d11_54fb_6853_345c_9735))
    );
}

/// B23: nil and max are named; near misses are neither.
#[test]
fn nil_and_max_are_remarked_on() {
    let notes = |text: &str| uuid_anatomy(parse_uuid(text).unwrap()).notes.concat();
    assert_eq!(notes("00000000-0000-0000-0000-000000000000"), "nil UUID");
    assert_eq!(notes("ffffffff-ffff-ffff-ffff-ffffffffffff"), "max UUID");
    assert!(notes("ffffffff-ffff-ffff-ffff-fffffffffffe").starts_with("reserved variant"));
    assert!(notes("00000000-0000-0000-0000-000000000001").starts_with("variant of the Apollo NCS"));
    assert!(notes("00112233-4455-f677-8899-aabbccddeeff").contains("version 15 is not defined"));
    assert_eq!(ulid_anatomy(ulid::Ulid(0)).notes.concat(), "nil ULID");
    assert_eq!(ulid_anatomy(ulid::Ulid(u128::MAX)).notes.concat(), "max ULID");
    assert_eq!(ksuid_anatomy([0; 20]).notes.concat(), "nil KSUID");
    assert_eq!(ksuid_anatomy([0xff; 20]).notes.concat(), "max KSUID");
}

/// B50: seconds taken for milliseconds.
#[test]
fn seconds_are_remarked_on() {
    let from_seconds = ulid_anatomy(parse_ulid("0001EH8YAEP8CXP4AMWCHHDBHJ").unwrap());
    assert_eq!(from_seconds.time.map(|time| time.unix_ms), Some(1_561_622_862));
    assert_eq!(from_seconds.notes.concat(), "implausibly old: the value looks like seconds (Unix second 1561622862)");
    assert!(ulid_anatomy(parse_ulid("01DEBZKP5G0000000000000000").unwrap()).notes.is_empty());
    let v7 = uuid_anatomy(UuidV7::from_parts(1_561_622_862, 0).unwrap());
    assert!(v7.notes.concat().contains("1561622862"));
}

/// B21: what the message says is what is wrong.
#[test]
fn messages_name_the_fault() {
    for (text, message) in [
        ("urn:uuid:550e8400-e29b-41d4-a716-446655440000abc", "group 5 of the UUID has 15 characters, 12 expected"),
        ("{550e8400-e29b-41d4-a716-44665544}", "group 5 of the UUID has 8 characters, 12 expected"),
        ("{550e8400-e29b-41d4-a716-44665544000x}", "character 'x' at byte 36 is not allowed here"),
        ("urn:uuid:550e8400-e29b-41d4-a716-44665544000x", "character 'x' at byte 44 is not allowed here"),
        (" 550e8400e29b41d4a71644665544000", "31 characters, 32 expected"),
    ] {
        assert_eq!(parse_uuid_lenient(text).unwrap_err().to_string(), message, "{text}");
    }
    let hyphens = parse_uuid("550e8400e29b41d4a716446655440000").unwrap_err().to_string();
    assert!(hyphens.contains("8-4-4-4-12"), "{hyphens}");
    assert_eq!(
        parse_uuid("00006ffa-fffd604-73b3-0-6ffad60473b3").unwrap_err().to_string(),
        "group 2 of the UUID has 7 characters, 4 expected"
    );
}

proptest! {
    /// B13, B104: no text makes a reader panic, and what it takes it writes back.
    #[test]
    fn any_text_is_safe(text in ".{0,64}") {
        let _ = (parse_uuid_lenient(&text), TextForm::Decimal.parse(&text, 63));
        if let Ok(uuid) = parse_uuid(&text) {
            prop_assert_eq!(uuid.hyphenated().to_string(), text.to_ascii_lowercase());
        }
        if let Ok(ulid) = parse_ulid(&text) {
            prop_assert_eq!(ulid.to_string(), text.to_ascii_uppercase());
        }
        if let Ok(ksuid) = parse_ksuid(&text) {
            prop_assert_eq!(ksuid.to_string(), text.clone());
        }
    }

    /// B07: exactly the texts of the specification are taken.
    #[test]
    fn ulid_by_the_specification(text in "[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}") {
        prop_assert_eq!(parse_ulid(&text).is_ok(), text.as_bytes()[0] <= b'7');
    }

    /// One wrong character anywhere is found where it is.
    #[test]
    fn one_wrong_character(bits: u128, tail: u32, at in 0usize..26, wrong in "[^0-9A-Za-z-]") {
        let ulid = format(&Ulid::new(), bits);
        let spoiled = format!("{}{wrong}{}", &ulid[..at], &ulid[at + 1..]);
        let found = wrong.chars().next().unwrap();
        prop_assert_eq!(parse_ulid(&spoiled), Err(ParseError::Character { at, found }));
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&bits.to_be_bytes());
        bytes[16..].copy_from_slice(&tail.to_be_bytes());
        let ksuid = format(&Ksuid::new(), bytes);
        let spoiled = format!("{}{wrong}{}", &ksuid[..at], &ksuid[at + 1..]);
        prop_assert_eq!(parse_ksuid(&spoiled).map_err(|error| why(&error)), Err("character"));
        let uuid = format(&UuidV4::new(), bits);
        let spoiled = format!("{}{wrong}{}", &uuid[..at], &uuid[at + 1..]);
        prop_assert_eq!(parse_uuid(&spoiled), Err(ParseError::Character { at, found }));
    }

    /// Text and value sort alike, and come back.
    #[test]
    fn there_and_back(one: [u8; 20], two: [u8; 20], a: u128, b: u128, x: u64, y: u64) {
        let ksuid = Ksuid::new();
        prop_assert_eq!(ksuid.parse(&format(&ksuid, one)), Ok(one));
        prop_assert_eq!(format(&ksuid, one).cmp(&format(&ksuid, two)), one.cmp(&two));
        prop_assert_eq!(svix_ksuid::Ksuid::from_bytes(one).to_base62(), format(&ksuid, one));
        let ulid = Ulid::new();
        prop_assert_eq!(ulid.parse(&format(&ulid, a)), Ok(a));
        prop_assert_eq!(format(&ulid, a).cmp(&format(&ulid, b)), a.cmp(&b));
        prop_assert_eq!(parse_uuid(&format(&UuidV4::new(), a)).map(|uuid| uuid.as_u128()), Ok(a));
        for form in TextForm::ALL {
            let [mut first, mut second] = [String::new(), String::new()];
            form.format(x, &mut first).unwrap();
            form.format(y, &mut second).unwrap();
            prop_assert_eq!(form.parse(&first, 64), Ok(x));
            prop_assert_eq!(form.parse(&first, 63).is_ok(), x < 1 << 63);
            if form != TextForm::Decimal {
                prop_assert_eq!(first.cmp(&second), x.cmp(&y));
            }
        }
    }
}
