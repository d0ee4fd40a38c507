//! Faults that users of public-id libraries met, each as its whole kind. Names carry the number of the case.
#![expect(clippy::unwrap_used, reason = "tests")]

use mintage::public::{
    Alphabet, Codec, Keyring, MASTER_LEN, Malformed, PublicForm, PublicIdCodec, PublicIdError, PublicText, Redundancy,
    UuidPlain,
};
use mintage_core::{AnyId, Bits};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEYS: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn ring() -> Keyring {
    Keyring::parse(KEYS, "test").unwrap()
}

fn codec(form: &PublicForm) -> Codec {
    Codec::new(form, "order", "live", &ring()).unwrap()
}

fn token() -> PublicForm {
    PublicForm::token("ord", Bits::Int).unwrap()
}

/// The forms of 64-bit ids.
fn forms() -> Vec<PublicForm> {
    vec![
        token(),
        token().in_alphabet(Alphabet::Base62).unwrap(),
        token().in_alphabet(Alphabet::NoVowel).unwrap(),
        PublicForm::short("ord", Redundancy::Bits32).unwrap(),
        PublicForm::short("ord", Redundancy::None).unwrap(),
        PublicForm::uuid(UuidPlain::I64),
    ]
}

/// B168: `P` and junk, `P` with another last character, `P` twice, chance texts of the same symbols: nothing opens.
#[test]
fn b168_one_text_opens_one_record() {
    for form in forms().into_iter().filter(PublicForm::authenticates).chain([PublicForm::number(12, 1).unwrap()]) {
        let codec = codec(&form);
        let text = codec.encode(AnyId::Int(3168), b"").unwrap().to_string();
        let mut wrong: Vec<String> =
            ["x", " ", "\n", "\0", "0", "_", "é"].iter().map(|junk| format!("{text}{junk}")).collect();
        wrong.extend([format!("{text}{text}"), format!(" {text}"), text[1..].to_owned(), String::new()]);
        let last = text.chars().last().unwrap();
        wrong.extend(
            "0123456789abcdefghjkmnpqrstvwxyz"
                .chars()
                .filter(|c| *c != last)
                .map(|c| format!("{}{c}", &text[..text.len() - 1])),
        );
        for text in wrong {
            assert!(codec.decode(&text, b"").is_err(), "{text:?}");
        }
    }
}

/// B169: a text whose value does not fit is refused, never wrapped around.
#[test]
fn b169_a_text_beyond_the_width_is_refused() {
    for form in forms() {
        let codec = codec(&form);
        for text in ["001011100A010", "ord_zzzzzzzzzzzzz", "ord_zzzzzzzzzzzzzzzzzzzz", "ord_zzzzzzzzzzzzzzzzzzzzzzzzzz"]
        {
            assert!(matches!(codec.decode(text, b""), Err(PublicIdError::Malformed(_))), "{text}");
        }
    }
    let short = |redundancy| codec(&PublicForm::short("ord", redundancy).unwrap());
    assert_eq!(short(Redundancy::None).decode("ord_g000000000000", b""), Err(Malformed::NonCanonical.into()));
    assert!(short(Redundancy::None).decode("ord_fzzzzzzzzzzzz", b"").is_ok(), "2^64 - 1 is the last text");
    assert_eq!(short(Redundancy::Bits32).decode("ord_20000000000000000000", b""), Err(Malformed::NonCanonical.into()));
}

/// B171: every part of a secret counts. Masters have one length, so that none can be cut, and any bit changes every text.
#[test]
fn b171_no_part_of_a_secret_is_ignored() {
    for form in forms() {
        let one = codec(&form);
        for at in 0..MASTER_LEN {
            let mut master: [u8; MASTER_LEN] = std::array::from_fn(|byte| byte as u8);
            master[at] ^= 0x80;
            let mut other = Keyring::default();
            other.insert(1, &master).unwrap();
            let other = Codec::new(&form, "order", "live", &other).unwrap();
            for id in [0, 1, 42, u64::MAX] {
                assert_ne!(one.encode(AnyId::Int(id), b""), other.encode(AnyId::Int(id), b""), "byte {at}");
            }
        }
    }
    // 36 bytes and four more, as in the report: refused, not cut.
    assert!(Keyring::parse("1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjWFhYWFg=", "test").is_err());
}

/// B173: there and back over the whole range, at every power of two and of ten and beside it.
#[test]
fn b173_every_id_comes_back() {
    let mut ids =
        vec![0, 1, 1 << 31, (1 << 31) - 1, 1 << 32, 10_000_000_000, (1 << 53) + 1, 1 << 62, u64::MAX >> 1, u64::MAX];
    ids.extend((0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, (1u64 << bit) + 1]));
    ids.extend((0..20).map(|power| 10u64.pow(power)));
    for form in forms() {
        let codec = codec(&form);
        for id in &ids {
            let text = codec.encode(AnyId::Int(*id), b"").unwrap();
            assert_eq!(codec.decode(&text, b""), Ok(AnyId::Int(*id)), "{form:?} {id}");
        }
    }
    for digits in 8..=15 {
        let codec = codec(&PublicForm::number(digits, 1).unwrap());
        let room = 9 * 10u64.pow(digits - 2);
        for id in ids.iter().copied().chain([room]).filter(|id| (1..=room).contains(id)) {
            let text = codec.encode(AnyId::Int(id), b"").unwrap();
            assert_eq!((text.len(), codec.decode(&text, b"")), (digits as usize, Ok(AnyId::Int(id))));
            assert!(!text.starts_with('0'));
        }
    }
}

/// B176: neighbours differ in most symbols, and an equal digit does not stay an equal digit.
#[test]
fn b176_neighbours_share_no_structure() {
    for form in forms().into_iter().chain([PublicForm::number(12, 1).unwrap()]) {
        let codec = codec(&form);
        let body = |id| {
            let text = codec.encode(AnyId::Int(id), b"").unwrap();
            text[text.rfind('_').map_or(0, |at| at + 1)..].to_owned().into_bytes()
        };
        let (mut same, mut all) = (0, 0);
        for id in 1000..2000 {
            let (one, next) = (body(id), body(id + 1));
            all += one.len();
            same += one.iter().zip(&next).filter(|(a, b)| a == b).count();
        }
        // By chance one symbol in ten (digits) or fewer is equal; a UUID has five fixed characters of 36 besides.
        let limit = if form.name() == "uuid" { 0.25 } else { 0.12 };
        assert!((same as f64) < limit * all as f64, "{form:?}: {same} of {all} symbols equal");
    }
    // 1111, 2222, …: each digit of the id repeats, those of the number do not in step.
    let number = codec(&PublicForm::number(12, 1).unwrap());
    let repeats = (1..10u64).filter(|digit| {
        let text = number.encode(AnyId::Int(digit * 1_111_111_111), b"").unwrap();
        text.bytes().all(|symbol| symbol == text.as_bytes()[0])
    });
    assert_eq!(repeats.count(), 0);
}

/// B99, B101, B103: fixed width, leading zeros kept, values above the width refused, in every alphabet.
#[test]
fn b101_b103_bodies_have_one_width() {
    for form in forms().into_iter().filter(|form| form.prefix().is_some()) {
        let codec = codec(&form);
        let lens: std::collections::HashSet<usize> =
            (0..5000).map(|id| codec.encode(AnyId::Int(id), b"").unwrap().len()).collect();
        assert_eq!(lens.len(), 1, "{form:?}");
        // A text that begins with the alphabet's zero, with it left out.
        let zero = if form == token().in_alphabet(Alphabet::NoVowel).unwrap() { "ord_2" } else { "ord_0" };
        let padded = (0..5000).map(|id| codec.encode(AnyId::Int(id), b"").unwrap()).find(|text| text.starts_with(zero));
        let short = padded.unwrap().replacen(zero, "ord_", 1);
        assert_eq!(codec.decode(&short, b""), Err(Malformed::Length.into()));
    }
}

/// B104: no decoder counts characters where it means bytes.
#[test]
fn b104_text_that_is_not_ascii_is_refused() {
    let forms = forms().into_iter().chain([PublicForm::number(12, 1).unwrap(), PublicForm::number(8, 1).unwrap()]);
    for form in forms {
        let codec = codec(&form);
        let good = codec.encode(AnyId::Int(7), b"").unwrap().to_string();
        for strange in ["é", "₿", "\u{0660}", "９", "\u{200b}", "𝟗"] {
            for at in 0..good.len() {
                let text = format!("{}{strange}{}", &good[..at], good.get(at + strange.len()..).unwrap_or_default());
                assert!(matches!(codec.decode(&text, b""), Err(PublicIdError::Malformed(_))), "{text}");
            }
            for repeat in [13, 20, 26, 36] {
                assert!(codec.decode(&strange.repeat(repeat), b"").is_err());
            }
        }
    }
}

/// B123: a public id is a string in every format, never a number that a reader rounds.
#[test]
fn b123_a_number_is_sent_as_a_string() {
    let text = codec(&PublicForm::number(15, 1).unwrap()).encode(AnyId::Int(1), b"").unwrap();
    let json = serde_json::to_string(&text).unwrap();
    assert_eq!(json, format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<PublicText>(&json).unwrap(), text);
    assert!(serde_json::from_str::<PublicText>(&text).is_err(), "a JSON number is refused");
}

/// B121: text in every format, the binary ones included, and read back as it was written.
#[test]
fn b121_text_in_json_is_text_in_cbor() {
    let text = codec(&token()).encode(AnyId::Int(5), b"").unwrap();
    let mut bytes = Vec::new();
    ciborium::into_writer(&text, &mut bytes).unwrap();
    // A text of 30 bytes, and no array of numbers.
    assert_eq!((bytes[..2].to_vec(), &bytes[2..]), (vec![0x78, 30], text.as_bytes()));
    assert_eq!(ciborium::from_reader::<PublicText, _>(bytes.as_slice()).unwrap(), text);
    let mut number = Vec::new();
    ciborium::into_writer(&687_865_368_056_u64, &mut number).unwrap();
    assert!(ciborium::from_reader::<PublicText, _>(number.as_slice()).is_err(), "a number is none");
}

/// B122: inside flattened, tagged and untagged structs a public id stays the text it is, and a number stays refused.
#[test]
fn b122_a_public_id_inside_other_structs() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        id: PublicText,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        inner: Inner,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        X(Inner),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Other { number: u64 },
        Id { id: PublicText },
    }
    let id = codec(&PublicForm::number(15, 1).unwrap()).encode(AnyId::Int(1), b"").unwrap();
    let (plain, tagged) = (json!({ "id": id.as_str() }), json!({ "type": "x", "id": id.as_str() }));
    assert_eq!(serde_json::from_value::<Flat>(plain.clone()).unwrap(), Flat { inner: Inner { id } });
    assert_eq!(serde_json::to_value(Flat { inner: Inner { id } }).unwrap(), plain);
    assert_eq!(serde_json::from_value::<Untagged>(plain).unwrap(), Untagged::Id { id });
    let tagged_as_x = json!({ "type": "X", "id": id.as_str() });
    assert_eq!(serde_json::from_value::<Tagged>(tagged_as_x.clone()).unwrap(), Tagged::X(Inner { id }));
    assert_eq!(serde_json::to_value(Tagged::X(Inner { id })).unwrap(), tagged_as_x);
    assert!(serde_json::from_value::<Tagged>(tagged).is_err(), "another tag");
    let number: serde_json::Value = serde_json::from_str(&format!("{{\"type\":\"X\",\"id\":{id}}}")).unwrap();
    assert!(serde_json::from_value::<Flat>(number.clone()).is_err());
    assert!(serde_json::from_value::<Tagged>(number.clone()).is_err());
    assert!(serde_json::from_value::<Untagged>(number).is_err());
}
