//! The known answers of the format contract, and the texts it refuses, as data.
//!
//! They were computed by an independent program: agreeing with them is agreeing with other implementations.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mintage::public::{
    Alphabet, BearerFormat, Codec, Keyring, MASTER_LEN, Malformed, PublicForm, PublicIdCodec, PublicIdError,
    Redundancy, Stage, UuidPlain,
};
use mintage_core::{AnyId, Bits};
use serde_json::Value;

/// Where the known answers lie.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/public-ids.json");
const VECTORS_COUNT: usize = 64;
const REFUSALS_COUNT: usize = 45;

fn vectors() -> Value {
    serde_json::from_str(&std::fs::read_to_string(VECTORS).unwrap()).unwrap()
}

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    assert_eq!(hex.len(), 2 * N, "{hex}");
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
}

/// The masters of the vectors: version 1 owns every id, or (where `reissued`) version 2 does.
fn ring(all: &Value, reissued: bool) -> Keyring {
    let line = |version: &str| {
        let master: [u8; MASTER_LEN] = bytes(all["master"][version].as_str().unwrap());
        format!("{version} = {}\n", base64(&master))
    };
    let text = line("1") + &line("2") + if reissued { "2.reissues = 1\n" } else { "" };
    Keyring::parse(&text, "the vectors").unwrap()
}

fn base64(bytes: &[u8]) -> String {
    use base64ct::{Base64, Encoding};
    Base64::encode_string(bytes)
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap_or_else(|| panic!("no {field} in {vector}"))
}

fn id(vector: &Value, bits: Bits) -> AnyId {
    if let Some(offset) = vector["offset"].as_u64() {
        return AnyId::Int(offset);
    }
    let hex = vector["id_hex"].as_str();
    match (bits, hex) {
        (Bits::Int, Some(hex)) => AnyId::Int(u64::from_str_radix(hex, 16).unwrap()),
        (Bits::Int, None) => AnyId::Int(text(vector, "id").parse().unwrap()),
        (Bits::Wide, Some(hex)) => AnyId::Wide(u128::from_str_radix(hex, 16).unwrap()),
        (Bits::Wide, None) => AnyId::Wide(uuid::Uuid::parse_str(text(vector, "id")).unwrap().as_u128()),
        (_, hex) => AnyId::Long(bytes(hex.unwrap())),
    }
}

fn stages(params: &str) -> PublicForm {
    let field = |name: &str| {
        let (_, rest) = params.split_once(&format!("{name}=")).unwrap();
        rest.split(';').next().unwrap().parse().unwrap()
    };
    PublicForm::stages(vec![Stage { base: 0, lo: field("lo"), hi: field("hi"), key: None }]).unwrap()
}

/// Every form that a scheme and its parameters stand for, and the field of a vector that it writes.
fn forms(scheme: &str, params: &str, prefix: &str) -> Vec<(PublicForm, &'static str)> {
    let bits = match params.split(';').next() {
        Some("w128") => Bits::Wide,
        Some("w160") => Bits::Long,
        _ => Bits::Int,
    };
    let token = || PublicForm::token(prefix, bits).unwrap();
    let uuid = |plain| vec![(PublicForm::uuid(plain), "v8")];
    match (scheme, params) {
        ("tok-kwp", _) => vec![
            (token(), "b32"),
            (token().in_alphabet(Alphabet::Base62).unwrap(), "b62"),
            (token().in_alphabet(Alphabet::NoVowel).unwrap(), "novowel"),
        ],
        ("tok-siv", _) => vec![(token().with_context().unwrap(), "b32")],
        ("tok-ff1", "w64") => vec![(PublicForm::short(prefix, Redundancy::None).unwrap(), "b32")],
        ("tok-ff1", "w64;r32") => vec![(PublicForm::short(prefix, Redundancy::Bits32).unwrap(), "b32")],
        ("num-ff1", params) => vec![(stages(params), "text")],
        ("uuid-ff1", "i64") => uuid(UuidPlain::I64),
        ("uuid-ff1", "u7") => uuid(UuidPlain::U7),
        ("uuid-ff1", "u7k4") => uuid(UuidPlain::U7K4),
        ("uuid-ff1", "ulid42") => uuid(UuidPlain::Ulid42),
        other => panic!("{other:?} is new: say which form it stands for"),
    }
}

fn prefix_of(entity: &str) -> &'static str {
    match entity {
        "order" => "ord",
        "user" => "usr",
        other => panic!("{other} is new"),
    }
}

#[test]
fn every_known_answer_both_ways() {
    let all = vectors();
    let list = all["vectors"].as_array().unwrap();
    assert_eq!(list.len(), VECTORS_COUNT);
    let mut texts = 0;
    for vector in list {
        if text(vector, "scheme") == "bearer" {
            bearer(vector);
            texts += 1;
            continue;
        }
        let (entity, params) = (text(vector, "entity"), text(vector, "params"));
        let ring = ring(&all, vector["ver"] == 2);
        let context = vector["ad"].as_str().unwrap_or_default().as_bytes();
        let mut seen = 0;
        for (form, field) in forms(text(vector, "scheme"), params, prefix_of(entity)) {
            let Some(expected) = vector[field].as_str() else { continue };
            let codec = Codec::new(&form, entity, text(vector, "realm"), &ring).unwrap();
            let id = id(vector, form.bits());
            assert_eq!(codec.encode(id, context).unwrap(), expected, "{vector}");
            assert_eq!(codec.decode(expected, context), Ok(id), "{vector}");
            seen += 1;
        }
        assert!(seen > 0, "{vector}: no text was compared");
        texts += seen;
    }
    // Every text of the file but the `v4` readings of UUIDs, which this library does not write.
    let fields = ["b32", "b62", "novowel", "text", "v8", "token"];
    let known: usize =
        list.iter().map(|vector| fields.iter().filter(|field| vector[**field].is_string()).count()).sum();
    assert_eq!(texts, known);
}

fn bearer(vector: &Value) {
    let format = BearerFormat::new(text(vector, "prefix")).unwrap();
    let token = format.parse(text(vector, "token")).unwrap();
    assert_eq!(token.hash().as_bytes(), &bytes::<32>(text(vector, "store_hash")));
    let body_only = text(vector, "prefix").to_owned() + text(vector, "body") + text(vector, "github_style_body_only");
    assert_eq!(format.parse(&body_only).unwrap_err(), PublicIdError::Malformed(Malformed::CheckDigit));
}

#[test]
fn every_refusal_is_of_its_class() {
    let all = vectors();
    let list = all["reject"].as_array().unwrap();
    assert_eq!(list.len(), REFUSALS_COUNT);
    for refusal in list {
        let (scheme, rest) = text(refusal, "scheme").split_once([' ', '/']).unwrap();
        let told = match scheme {
            "bearer" => BearerFormat::new(rest).unwrap().parse(text(refusal, "text")).unwrap_err(),
            _ => codec_of(scheme, rest, &ring(&all, false)).decode(text(refusal, "text"), b"").unwrap_err(),
        };
        let class = match told {
            PublicIdError::Malformed(_) => "Malformed",
            PublicIdError::Rejected => "Rejected",
            other => panic!("{other:?} for {refusal}"),
        };
        assert_eq!(class, text(refusal, "class"), "{refusal}: {told:?}");
    }
}

/// `tok-kwp` and `w64 entity=order realm=live`, `tok-kwp` and `w64 base62`, `num-ff1` and `lo=…;hi=…`, `uuid-ff1` and `v8`.
fn codec_of(scheme: &str, rest: &str, ring: &Keyring) -> Codec {
    let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let named = |name: &str, default| rest.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or(default);
    let (entity, realm) = (named("entity=", "order"), named("realm=", "live"));
    let params = if first == "v8" { "u7" } else { first };
    let field = if rest == "base62" { "b62" } else { "b32" };
    let forms = forms(scheme, params, prefix_of(entity));
    let (form, _) = forms.iter().find(|(_, writes)| forms.len() == 1 || *writes == field).unwrap();
    Codec::new(form, entity, realm, ring).unwrap()
}

#[test]
fn what_people_type_comes_out_right_and_opens() {
    let all = vectors();
    let ring = ring(&all, false);
    let order = Codec::new(&PublicForm::token("ord", Bits::Int).unwrap(), "order", "live", &ring).unwrap();
    let number = Codec::new(&stages("lo=100000000;hi=1000000000"), "order", "live", &ring).unwrap();
    let list = all["human_normalise"].as_array().unwrap();
    assert_eq!(list.len(), 5);
    for typed in list {
        let canonical = text(typed, "canonical");
        let codec = if canonical.starts_with("ord_") { &order } else { &number };
        assert_eq!(codec.normalise_human(text(typed, "input")).unwrap(), canonical);
        assert_eq!(codec.decode_human(text(typed, "input"), b""), codec.decode(canonical, b""));
        assert!(codec.decode(canonical, b"").is_ok());
        assert!(matches!(codec.decode(text(typed, "input"), b""), Err(PublicIdError::Malformed(_))));
    }
}

#[test]
fn check_values_tell_masters_apart() {
    let all = vectors();
    let ring = ring(&all, false);
    for (version, value) in all["kcv"].as_object().unwrap() {
        let version: u32 = version.parse().unwrap();
        assert_eq!(ring.check_value(version).unwrap().to_string(), value.as_str().unwrap());
    }
    assert_eq!(ring.check_value(3), None);
}
