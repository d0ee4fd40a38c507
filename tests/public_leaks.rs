//! Nothing that leaves the house holds an id of the house, in any spelling, and no `Debug` holds a key.
//!
//! Ids of every scheme are minted, published in every form and written by everything that writes public ids. Each output is
//! searched for each id in decimal, hex, base32, base62 and bytes, and for the time it was made. The form `plain`, which
//! hides nothing, shows that the search finds what is there.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use base64ct::{Base64, Encoding as _};
use mintage::{
    Config, Environment, Id, Minter, PublicId, Registry, entity,
    public::{
        BearerFormat, Codec, EnvKeys, FileKeys, KeySource as _, Keyring, MASTER_LEN, PublicForm, PublicIdCodec,
        PublicText,
    },
};
use mintage_core::{AnyId, Bits, IdBits as _, ManualClock};
use serde::Serialize;

/// 2027-01-15T08:00:00Z.
const NOW_MS: u64 = 1_800_000_000_000;
const CONTEXT: &str = "tenant-42";
/// Small numbers would be found in anything.
const START: u64 = 5_871_236_409;
const IDS: usize = 200;

entity! {
    Order: Int = "orders";
    User: Uuid = "users";
    Event: Int = "events";
    Document: Ulid = "documents";
    Upload: Ksuid = "uploads";
}

/// One entity of each scheme and form. `plain` stands apart.
const EVERY_FORM: &[(&str, &str)] = &[
    ("segment", "form = \"token\", prefix = \"x1\""),
    ("segment", "form = \"token\", prefix = \"x2\", alphabet = \"base62\", case_sensitive = true"),
    ("segment", "form = \"token\", prefix = \"x3\", alphabet = \"novowel\""),
    ("segment", "form = \"token\", prefix = \"x4\", context = true"),
    ("segment", "form = \"short\", prefix = \"x5\""),
    ("segment", "form = \"short\", prefix = \"x6\", allow_unauthenticated = true"),
    ("segment", "form = \"number\", digits = 12"),
    ("segment", "form = \"number\", digits = 15, group = 5"),
    ("segment", "form = \"uuid\""),
    ("snowflake", "form = \"token\", prefix = \"y1\""),
    ("snowflake", "form = \"short\", prefix = \"y2\""),
    ("snowflake", "form = \"uuid\""),
    ("uuidv7", "form = \"token\", prefix = \"z1\""),
    ("uuidv7", "form = \"token\", prefix = \"z2\", context = true"),
    ("uuidv7", "form = \"uuid\", uuid = \"u7\""),
    ("uuidv7", "form = \"uuid\", uuid = \"u7k4\""),
    ("ulid", "form = \"token\", prefix = \"z3\""),
    ("ulid", "form = \"uuid\", uuid = \"ulid42\""),
    ("ksuid", "form = \"token\", prefix = \"z4\""),
    ("uuidv4", "form = \"token\", prefix = \"z5\""),
    ("code", "form = \"token\", prefix = \"z6\""),
];

fn config_of(folder: &Path, entities: &[(&str, &str)]) -> Config {
    let mut text =
        "version = 1\n[stores.main]\nurl = \"memory:\"\n[keys.main]\nfile = \"the.keys\"\n[workers.main]\n".to_owned();
    for (number, (scheme, public)) in entities.iter().enumerate() {
        let more = match *scheme {
            "segment" => format!("start = {START}\ndurability = \"weak\""),
            "snowflake" => "epoch = \"2026-01-01T00:00:00Z\"\nlayout = { time = 41, worker = 10, sequence = 12 }\n\
                            worker = { pool = \"main\" }"
                .to_owned(),
            "code" => "length = 10".to_owned(),
            _ => String::new(),
        };
        text.push_str(&format!("[entities.e{number}]\nscheme = \"{scheme}\"\n{more}\npublic = {{ {public} }}\n"));
    }
    config_in(folder, &text)
}

fn config_in(folder: &Path, text: &str) -> Config {
    Config::parse(text, folder.join("mintage.toml").display().to_string()).unwrap()
}

async fn build(config: Config) -> Registry {
    Registry::builder()
        .builtins()
        .clock(ManualClock::at(NOW_MS))
        .environment(Environment::default())
        .build(config)
        .await
        .unwrap()
}

// ---- what is searched for ----

/// Every spelling of an id that somebody could read it from.
fn spellings(id: AnyId) -> Vec<Vec<u8>> {
    let bytes = match id {
        AnyId::Int(value) => value.to_be_bytes().to_vec(),
        AnyId::Wide(value) => value.to_be_bytes().to_vec(),
        other => u160(other).to_vec(),
    };
    let mut found = vec![bytes.clone(), bytes.iter().rev().copied().collect()];
    for (alphabet, width) in [
        ("0123456789", 0),
        ("0123456789abcdef", bytes.len() * 2),
        ("0123456789ABCDEF", bytes.len() * 2),
        ("0123456789abcdefghjkmnpqrstvwxyz", (bytes.len() * 8).div_ceil(5)),
        ("0123456789ABCDEFGHJKMNPQRSTVWXYZ", (bytes.len() * 8).div_ceil(5)),
        ("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 0),
        ("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 0),
    ] {
        let digits = digits(&bytes, alphabet.as_bytes());
        found.push(digits.clone());
        if digits.len() < width {
            found.push([vec![b'0'; width - digits.len()], digits].concat());
        }
    }
    if let AnyId::Wide(value) = id {
        found.push(uuid::Uuid::from_u128(value).to_string().into_bytes());
        // The first 48 bits are the time of a UUIDv7 and of a ULID.
        found.push(format!("{:012x}", value >> 80).into_bytes());
        found.push(format!("{:08x}-{:04x}", value >> 96, (value >> 80) & 0xffff).into_bytes());
        found.push((value >> 80).to_string().into_bytes());
        found.push(value.to_be_bytes()[..6].to_vec());
    }
    // Shorter ones are found in anything.
    found.retain(|spelling| spelling.len() >= 6);
    found
}

fn u160(id: AnyId) -> [u8; 20] {
    <[u8; 20]>::from_any(id).unwrap()
}

/// The digits of a number of bytes, the first one first, without zeros before them.
fn digits(bytes: &[u8], alphabet: &[u8]) -> Vec<u8> {
    let (mut rest, mut text) = (bytes.to_vec(), Vec::new());
    while rest.iter().any(|byte| *byte != 0) {
        let mut carry = 0usize;
        for byte in &mut rest {
            let value = carry << 8 | usize::from(*byte);
            *byte = u8::try_from(value / alphabet.len()).unwrap();
            carry = value % alphabet.len();
        }
        text.push(alphabet[carry]);
    }
    text.reverse();
    text
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The first spelling of any of `ids` that one of `outputs` holds.
fn leak(ids: &[AnyId], outputs: &[Vec<u8>]) -> Option<String> {
    let spellings: Vec<Vec<u8>> = ids.iter().flat_map(|id| spellings(*id)).collect();
    let found = |output: &Vec<u8>| spellings.iter().find(|spelling| holds(output, spelling)).cloned();
    outputs.iter().find_map(|output| {
        Some(format!("{} in {}", String::from_utf8_lossy(&found(output)?), String::from_utf8_lossy(output)))
    })
}

// ---- what is searched ----

#[derive(Serialize)]
struct Reply<T: Serialize> {
    id: T,
    others: Vec<T>,
}

fn cbor(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

/// Everything that writes a text which left the house.
fn written(text: PublicText) -> Vec<Vec<u8>> {
    let reply = Reply { id: text, others: vec![text, text] };
    vec![
        text.to_string().into_bytes(),
        format!("{text:?} {text:>99} {}", text.grouped(4)).into_bytes(),
        serde_json::to_vec(&reply).unwrap(),
        cbor(&reply),
    ]
}

#[tokio::test]
async fn no_form_lets_an_id_out() {
    let folder = tempfile::tempdir().unwrap();
    let registry = build(config_of(folder.path(), EVERY_FORM)).await;
    let mut searched = 0;
    for (number, (scheme, public)) in EVERY_FORM.iter().enumerate() {
        let minter = registry.any_minter(&format!("e{number}")).unwrap();
        let context = if public.contains("context") { CONTEXT.as_bytes() } else { b"" };
        let ids = minter.mint_many(IDS).await.unwrap();
        for id in &ids {
            let outputs = written(minter.publish(*id, context).unwrap());
            assert_eq!(leak(&[*id], &outputs), None, "{scheme} {public}");
            searched += outputs.len();
        }
        // The other context: what was meant to be refused tells nothing either.
        let refused = minter.publish(ids[0], if context.is_empty() { b"tenant" } else { b"" }).unwrap_err();
        let told = vec![format!("{minter:?} {refused} {refused:?}").into_bytes()];
        assert_eq!(leak(&ids, &told), None, "{scheme} {public}");
    }
    assert_eq!(searched, EVERY_FORM.len() * 4 * IDS);
    let told = format!("{registry:?} {:?}", registry.notices());
    assert!(!told.contains(&START.to_string()[..8]), "{told}");
}

#[tokio::test]
async fn the_search_finds_what_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plain = ["segment", "snowflake", "uuidv7", "ulid", "ksuid"].map(|scheme| (scheme, "form = \"plain\""));
    let registry = build(config_of(folder.path(), &plain)).await;
    for (number, (scheme, _)) in plain.iter().enumerate() {
        let minter = registry.any_minter(&format!("e{number}")).unwrap();
        for id in minter.mint_many(IDS).await.unwrap() {
            for output in written(minter.publish(id, b"").unwrap()) {
                assert!(leak(&[id], &[output]).is_some(), "{scheme} {id:?}");
            }
        }
    }
    // And a time alone, in a text that is otherwise another.
    let id = AnyId::Wide(0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f);
    assert!(leak(&[id], &[b"usr_017f22e279b0".to_vec()]).is_some());
    assert!(leak(&[id], &[b"017f22e2-79b0-8aaa-aaaa-aaaaaaaaaaaa".to_vec()]).is_some());
    assert!(leak(&[AnyId::Int(START)], &[b"order 5871236409".to_vec()]).is_some());
}

/// The shipped config through the typed doors: what is written, and what is said of texts that do not open.
#[tokio::test]
async fn the_shipped_config_lets_no_id_out() {
    async fn scan<E: mintage::Entity>(registry: &Registry) {
        let minter: Minter<E> = registry.minter().unwrap();
        for _ in 0..IDS {
            let id: Id<E> = minter.mint_ready().await.unwrap();
            let public: PublicId<E> = minter.publish(id).unwrap();
            let reply = Reply { id: public, others: vec![public] };
            let mut outputs = vec![format!("{public} {public:?} {} {minter:?}", public.grouped(3)).into_bytes()];
            outputs.extend([serde_json::to_vec(&reply).unwrap(), cbor(&reply)]);
            let text = public.to_string();
            for wrong in [format!("{text}0"), text[1..].to_owned(), text.replace(['7', '1'], "2"), minter.text(id)] {
                let refusals = [minter.resolve(&wrong).err(), minter.resolve_human(&wrong).err()];
                outputs.extend(refusals.into_iter().flatten().map(|error| format!("{error} {error:?}").into_bytes()));
            }
            assert!(outputs.len() > 5, "refusals are among them");
            assert_eq!(leak(&[value(registry, E::NAME, &minter.text(id))], &outputs), None, "{}", E::NAME);
        }
    }
    /// The value behind an id's text.
    fn value(registry: &Registry, entity: &str, text: &str) -> AnyId {
        registry.any_minter(entity).unwrap().scheme().parse(text).unwrap()
    }
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("../mintage.toml").replace("start  = 1\n", &format!("start  = {START}\n"));
    assert!(text.contains(&START.to_string()));
    let registry = build(config_in(folder.path(), &text)).await;
    scan::<Order>(&registry).await;
    scan::<User>(&registry).await;
    scan::<Event>(&registry).await;
    scan::<Document>(&registry).await;
    scan::<Upload>(&registry).await;
    registry.close().await.unwrap();
}

// ---- keys ----

/// Each way in which the bytes of a key come out when somebody prints them.
fn secrets(line: &str, master: &[u8; MASTER_LEN]) -> Vec<String> {
    let hex: String = master.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = |from: usize| format!("{:?}", &master[from..from + 4]).trim_matches(['[', ']']).to_owned();
    let key = line.split('=').nth(1).unwrap().trim();
    let mut parts: Vec<String> = (0..=28).step_by(4).map(list).collect();
    parts.extend(hex.as_bytes().chunks(8).map(|part| String::from_utf8(part.to_vec()).unwrap()));
    parts.extend(hex.to_uppercase().as_bytes().chunks(8).map(|part| String::from_utf8(part.to_vec()).unwrap()));
    parts.extend((0..key.len() - 8).map(|at| key[at..at + 8].to_owned()));
    parts
}

#[tokio::test]
async fn no_debug_shows_a_key() {
    let master: [u8; MASTER_LEN] = std::array::from_fn(|at| (at as u8).wrapping_mul(73).wrapping_add(101));
    let line = format!("1 = {}", Base64::encode_string(&master));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("the.keys"), &line).unwrap();
    let file = FileKeys::new(folder.path().join("the.keys"));
    let environment = Environment::of([("SHOP_KEYS", line.clone())]);
    let builder = || {
        Registry::builder()
            .builtins()
            .clock(ManualClock::at(NOW_MS))
            .environment(environment.clone())
            .keys("main", file.clone())
    };
    let config = config_of(folder.path(), EVERY_FORM);
    let checked = builder().check(&config).unwrap();
    let witness = builder().witness(&config).await.unwrap();
    let mut told = format!("{:?} {environment:?} {config:?} {checked:?} {witness:?}", builder());
    let registry = builder().build(config).await.unwrap();
    told += &format!("{registry:?} {:?}", registry.notices());
    for (number, (_, public)) in EVERY_FORM.iter().enumerate() {
        let minter = registry.any_minter(&format!("e{number}")).unwrap();
        told += &format!("{minter:?} {public}");
    }
    let ring = Keyring::parse(&line, "here").unwrap();
    told += &format!("{ring:?} {ring:#?} {file:?} {:?} {}", EnvKeys::new("SHOP_KEYS"), file.place());
    told += &format!("{:?} {}", ring.check_value(1), ring.check_value(1).unwrap());
    for form in [
        PublicForm::token("ord", Bits::Int).unwrap(),
        PublicForm::token("ord", Bits::Wide).unwrap().with_context().unwrap(),
        PublicForm::short("ord", mintage::public::Redundancy::Bits32).unwrap(),
        PublicForm::number(12, 1).unwrap(),
        PublicForm::uuid(mintage::public::UuidPlain::U7K4),
    ] {
        let codec = Codec::new(&form, "orders", "live", &ring).unwrap();
        told += &format!("{codec:?} {codec:#?} {form:?} {:?} {:?}", codec.facts(), codec.ownership());
        told += &format!("{:?} {}", codec.decode("nonsense", b""), codec.pin(mintage_core::Format::of("segment")));
    }
    // Lines that are wrong in every way still hold the key.
    for wrong in [
        line.replace("1 =", "0 ="),
        line.replace("1 =", "one ="),
        line[4..].to_owned(),
        format!("{line}\n{line}"),
        format!("{line}x"),
    ] {
        let error = Keyring::parse(&wrong, "here").unwrap_err();
        told += &format!("{error} {error:?}");
        fs::write(folder.path().join("the.keys"), &wrong).unwrap();
        let error = builder().build(config_of(folder.path(), EVERY_FORM)).await.unwrap_err();
        told += &format!("{error} {error:?}");
    }
    let bearer = BearerFormat::new("acme_pat_").unwrap();
    let token = bearer.issue().unwrap();
    told += &format!("{bearer:?} {token:?} {:?}", token.hash());
    assert!(told.len() > 5_000, "there is something to search");
    for secret in secrets(&line, &master).iter().chain([&token.reveal()[9..20].to_owned()]) {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let caught = secrets(&line, &master);
    for planted in [format!("{master:?}"), line.clone(), format!("{master:02x?}").replace(", ", "")] {
        assert!(caught.iter().any(|secret| planted.contains(secret)), "the search would find {planted}");
    }
}
