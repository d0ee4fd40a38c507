//! Public ids at the door of the library: what leaves, what comes back, and what the store guards.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use mintage::{
    AcceptError, BuildError, Config, Environment, Id, Minter, PublicId, Registry, RegistryBuilder,
    public::{
        EncodeError, FileKeys, KeyChange, KeyError, KeySource, Keyring, MASTER_LEN, Malformed, PublicIdError, StartAt,
    },
};
use mintage_core::{ManualClock, StoreErrorKind};

use crate::{Document, Event, NOW_MS, Order, Token, Upload, User, config_in, shipped_in};

const DAY_MS: u64 = 86_400_000;

fn builder(clock: &ManualClock) -> RegistryBuilder {
    Registry::builder().builtins().clock(clock.clone()).environment(Environment::default())
}

async fn build(config: Config) -> Result<Registry, BuildError> {
    builder(&ManualClock::at(NOW_MS)).build(config).await
}

/// `entities` on a database in `folder`, with the key file beside it.
fn with_key(folder: &Path, entities: &str) -> Config {
    let text =
        format!("version = 1\n{entities}\n[stores.main]\nurl = \"sqlite:ids.db\"\n[keys.main]\nfile = \"the.keys\"\n");
    config_in(folder, &text)
}

fn keys_in(folder: &Path) -> FileKeys {
    FileKeys::new(folder.join("the.keys"))
}

#[track_caller]
fn mismatch(built: Result<Registry, BuildError>) -> String {
    match built.unwrap_err() {
        BuildError::Store { source, .. } if source.kind() == StoreErrorKind::FormatMismatch => source.to_string(),
        other => unreachable!("{other:?}"),
    }
}

const USERS: &str = "[entities.users]\nscheme = \"uuidv7\"";
const ORDERS: &str = "[entities.orders]\nscheme = \"segment\"";
const EVENTS: &str = "[entities.events]\nscheme = \"snowflake\"\nepoch = \"2026-01-01T00:00:00Z\"\n\
                      layout = { time = 41, worker = 10, sequence = 12 }\nworker = { pool = \"main\" }\n[workers.main]";

// ---- out and in again ----

async fn there_and_back<E: mintage::Entity>(registry: &Registry, prefix: &str, len: usize) {
    let minter: Minter<E> = registry.minter().unwrap();
    for _ in 0..20 {
        let id = minter.mint_ready().await.unwrap();
        let public = minter.publish(id).unwrap();
        let text = public.to_string();
        assert!(text.starts_with(prefix) && text.len() == len, "{text}");
        assert_ne!(text, minter.text(id));
        assert_eq!(minter.resolve(&text), Ok(id));
        assert_eq!(minter.resolve(public), Ok(id), "as it is");
        assert_eq!(minter.publish(id), Ok(public), "one text for each id");
        assert_eq!(text.parse(), Ok(public));
        let json = serde_json::to_string(&public).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<PublicId<E>>(&json).unwrap(), public);
        assert_eq!(minter.resolve_human(&format!(" {} ", text.to_uppercase())), Ok(id));
        assert_eq!(minter.normalise_human(&format!(" {}\n", text.to_uppercase())), Ok(public));
        assert_eq!(minter.resolve_legacy(&text), Err(PublicIdError::Rejected), "nothing was reissued");
    }
}

#[tokio::test]
async fn every_entity_of_the_shipped_config_goes_out_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let registry = build(shipped_in(folder.path())).await.unwrap();
    there_and_back::<User>(&registry, "usr_", 4 + 39).await;
    there_and_back::<Order>(&registry, "", 12).await;
    there_and_back::<Event>(&registry, "events_", 7 + 26).await;
    there_and_back::<Document>(&registry, "documents_", 10 + 39).await;
    there_and_back::<Upload>(&registry, "uploads_", 8 + 52).await;
    let notices = registry.notices();
    assert!(notices.len() == 1 && notices[0].contains("keep a copy"), "{notices:?}");
    registry.close().await.unwrap();
}

#[tokio::test]
async fn what_does_not_belong_here_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let live = build(with_key(folder.path(), &format!("{USERS}\n{ORDERS}"))).await.unwrap();
    let (users, orders): (Minter<User>, Minter<Order>) = (live.minter().unwrap(), live.minter().unwrap());
    let text = orders.publish(orders.mint_ready().await.unwrap()).unwrap();
    assert_eq!(users.resolve(text), Err(Malformed::Prefix.into()));
    assert_eq!(users.resolve(text.as_str().replace("orders", "users")), Err(Malformed::Length.into()));
    let user = users.mint().unwrap();
    assert_eq!(users.resolve(users.text(user)), Err(Malformed::Separator.into()), "never a raw id");
    assert_eq!(orders.resolve("1"), Err(Malformed::Separator.into()), "never a raw id");
    // Another realm with the same key file, on a store of its own.
    let test = tempfile::tempdir().unwrap();
    fs::copy(folder.path().join("the.keys"), test.path().join("the.keys")).unwrap();
    let test = build(with_key(test.path(), &format!("realm = \"test\"\n{USERS}\n{ORDERS}"))).await.unwrap();
    let elsewhere: Minter<Order> = test.minter().unwrap();
    assert_eq!(elsewhere.resolve(text), Err(PublicIdError::Rejected));
}

/// What stands in a path or a form is a text of a sane size, and what it is, is only known with the key.
#[test]
fn a_public_id_is_read_from_any_short_text() {
    let read = |text: &str| text.parse::<PublicId<Order>>();
    assert_eq!(read("nonsense").unwrap().as_str(), "nonsense");
    assert_eq!(read(&"x".repeat(95)).unwrap().as_str().len(), 95);
    assert_eq!(read(""), Err(Malformed::Length.into()));
    assert_eq!(read(&"x".repeat(96)), Err(Malformed::Length.into()));
    for strange in ["two words", "tab\t", "é", "nul\0", "\u{200b}x"] {
        assert_eq!(read(strange), Err(Malformed::Alphabet.into()), "{strange:?}");
        assert!(serde_json::from_value::<PublicId<Order>>(strange.into()).is_err());
    }
    assert!(serde_json::from_str::<PublicId<Order>>("687865368056").is_err(), "a JSON number was rounded by then");
    assert_eq!(format!("{:?}", read("usr_7").unwrap()), "orders(usr_7)");
    assert_eq!(read("687865368056").unwrap().grouped(4).to_string(), "6878 6536 8056");
}

#[tokio::test]
async fn without_a_public_line_one_key_makes_tokens_and_any_other_number_none() {
    let folder = tempfile::tempdir().unwrap();
    let registry = build(with_key(folder.path(), ORDERS)).await.unwrap();
    let orders: Minter<Order> = registry.minter().unwrap();
    let id = orders.mint_ready().await.unwrap();
    assert!(orders.publish(id).unwrap().as_str().starts_with("orders_"));
    for keys in ["", "[keys.main]\nfile = \"the.keys\"\n[keys.other]\nfile = \"other.keys\"\n"] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("version = 1\n{ORDERS}\n[stores.main]\nurl = \"sqlite:ids.db\"\n{keys}");
        let registry = build(config_in(folder.path(), &text)).await.unwrap();
        let orders: Minter<Order> = registry.minter().unwrap();
        let none = || PublicIdError::from(EncodeError::NoForm);
        let id = orders.mint_ready().await.unwrap();
        assert_eq!(orders.publish(id).unwrap_err(), none(), "{keys}");
        assert_eq!(orders.publish_for(id, b"tenant").unwrap_err(), none());
        assert_eq!(orders.resolve("1"), Err(none()), "a raw id does not pass for a public one");
        assert_eq!(orders.resolve_human("1"), Err(none()));
        assert_eq!(orders.normalise_human("1").unwrap_err(), none());
        assert_eq!(orders.resolve_legacy("1"), Err(none()));
        assert!(fs::read_dir(folder.path()).unwrap().all(|file| !file.unwrap().path().ends_with("the.keys")));
    }
}

#[tokio::test]
async fn a_bound_id_opens_in_its_context_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let bound = format!("{USERS}\npublic = {{ form = \"token\", prefix = \"usr\", context = true }}");
    let registry = build(with_key(folder.path(), &bound)).await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    let id = users.mint().unwrap();
    assert_eq!(users.publish(id).unwrap_err(), EncodeError::Context.into(), "never bound to nobody by mistake");
    let text = users.publish_for(id, b"tenant-42").unwrap();
    assert_eq!(users.resolve_for(text, b"tenant-42"), Ok(id));
    assert_eq!(users.resolve_human_for(&text.as_str().to_uppercase(), b"tenant-42"), Ok(id));
    for (context, text) in [(&b"tenant-43"[..], text), (b"", text)] {
        assert_eq!(users.resolve_for(text, context), Err(PublicIdError::Rejected));
        assert_eq!(users.resolve_human_for(text.as_str(), context), Err(PublicIdError::Rejected));
    }
    assert_eq!(users.resolve(text), Err(PublicIdError::Rejected));
    registry.close().await.unwrap();
    // Its key leaks: the old text is known as such, in its context only.
    keys_in(folder.path()).apply(&KeyChange::Reissue { old: 1 }).unwrap();
    let registry = build(with_key(folder.path(), &bound)).await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    assert_eq!(users.resolve_for(text, b"tenant-42"), Err(PublicIdError::Rejected));
    assert_eq!(users.resolve_legacy_for(text.as_str(), b"tenant-42"), Ok(id));
    assert_eq!(users.resolve_legacy_for(text.as_str(), b"tenant-43"), Err(PublicIdError::Rejected));
    assert_eq!(users.resolve_legacy(text.as_str()), Err(PublicIdError::Rejected));
}

// ---- ids that clients made ----

#[tokio::test]
async fn ids_of_clients_are_taken_if_they_can_be_ours() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}\n[entities.tokens]\nscheme = \"uuidv4\"\n", include_str!("../../mintage.toml"));
    let registry = build(config_in(folder.path(), &text)).await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    let v7 = |unix_ms: u64| uuid::Uuid::from_u128(u128::from(unix_ms) << 80 | 7 << 76 | 0b10 << 62 | 5);
    let accept = |unix_ms| users.accept(v7(unix_ms), NOW_MS);
    for unix_ms in [NOW_MS, NOW_MS - 365 * DAY_MS, NOW_MS + 60_000, 1_262_304_000_000] {
        assert_eq!(accept(unix_ms).map(Id::raw), Ok(v7(unix_ms)), "{unix_ms}");
    }
    assert_eq!(accept(NOW_MS + 60_001), Err(AcceptError::Future { ahead_ms: 60_001 }));
    assert_eq!(accept(1_262_303_999_999), Err(AcceptError::Past { unix_ms: 1_262_303_999_999 }));
    assert_eq!(accept(0), Err(AcceptError::Past { unix_ms: 0 }));
    assert!(matches!(accept((1 << 48) - 1), Err(AcceptError::Future { .. })));
    let v4 = uuid::Uuid::from_u128(0xf47a_c10b_58cc_4372_a567_0e02_b2c3_d479);
    for other in [v4, uuid::Uuid::nil(), uuid::Uuid::max(), uuid::Uuid::from_u128(v7(NOW_MS).as_u128() ^ 1 << 63)] {
        assert!(matches!(users.accept(other, NOW_MS), Err(AcceptError::Parse(_))), "{other}");
    }
    assert!(users.accept(v7(5), u64::MAX).is_err(), "a clock beyond the end does not overflow");
    let tokens: Minter<Token> = registry.minter().unwrap();
    assert_eq!(tokens.accept(v4, NOW_MS).map(Id::raw), Ok(v4), "it carries no time to judge");
    assert!(matches!(tokens.accept(v7(NOW_MS), NOW_MS), Err(AcceptError::Parse(_))));

    let events: Minter<Event> = registry.minter().unwrap();
    let event = events.mint().unwrap();
    assert_eq!(events.accept(event.raw(), NOW_MS), Ok(event));
    assert!(matches!(events.accept(event.raw(), NOW_MS - DAY_MS), Err(AcceptError::Future { .. })));
    assert!(matches!(events.accept(u64::MAX, NOW_MS), Err(AcceptError::Parse(_))), "beyond 63 bits");
    let documents: Minter<Document> = registry.minter().unwrap();
    let document = documents.mint().unwrap();
    assert_eq!(documents.accept(document.raw(), NOW_MS), Ok(document));
    assert!(matches!(documents.accept(ulid::Ulid(u128::MAX - 1), NOW_MS), Err(AcceptError::Future { .. })));
    for no_record in [0, u128::MAX] {
        assert_eq!(documents.accept(ulid::Ulid(no_record), NOW_MS), Err(AcceptError::Timeless));
    }
    let uploads: Minter<Upload> = registry.minter().unwrap();
    let upload = uploads.mint().unwrap();
    assert_eq!(uploads.accept(upload.raw(), NOW_MS), Ok(upload));
    let told = accept(NOW_MS + DAY_MS).unwrap_err().to_string();
    assert!(told.contains("86400000 ms ahead"), "{told}");
}

// ---- where keys come from ----

/// A key service that counts how often it is asked.
#[derive(Clone, Debug, Default)]
struct Service {
    asked: Arc<AtomicU32>,
    down: bool,
}

#[async_trait]
impl KeySource for Service {
    fn place(&self) -> String {
        "kms://keys/mintage".to_owned()
    }

    async fn load(&self) -> Result<Keyring, KeyError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.down {
            return Err(KeyError::Service { place: self.place(), source: "connection refused".into() });
        }
        let mut ring = Keyring::default();
        let master: [u8; MASTER_LEN] = std::array::from_fn(|at| at as u8);
        ring.insert(1, &master).map_err(|fault| KeyError::Refused { place: self.place(), fault: fault.to_owned() })?;
        Ok(ring)
    }
}

#[tokio::test]
async fn a_key_service_stands_in_for_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::default();
    let with_service = || builder(&ManualClock::at(NOW_MS)).keys("main", service.clone());
    let registry = with_service().build(with_key(folder.path(), USERS)).await.unwrap();
    assert_eq!(service.asked.load(Ordering::Relaxed), 1, "once, while it is built");
    let users: Minter<User> = registry.minter().unwrap();
    let id = users.mint().unwrap();
    let text = users.publish(id).unwrap();
    assert_eq!((users.resolve(text), service.asked.load(Ordering::Relaxed)), (Ok(id), 1));
    assert!(!folder.path().join("the.keys").exists() && registry.notices().is_empty());
    let witness = with_service().witness(&with_key(folder.path(), USERS)).await.unwrap();
    let inspection = witness.inspect(text.as_str()).await;
    assert_eq!(inspection.best().and_then(|best| best.entity.as_deref()), Some("users"), "the inspector asks it too");
    registry.close().await.unwrap();

    // Without the service the key is missed, and no file is made in its place.
    let told = build(with_key(folder.path(), USERS)).await.unwrap_err();
    assert!(matches!(told, BuildError::Keys { source: KeyError::Lost { .. }, .. }), "{told:?}");
    assert!(!folder.path().join("the.keys").exists());
    let down = Service { down: true, ..Service::default() };
    let told = builder(&ManualClock::at(NOW_MS)).keys("main", down).build(with_key(folder.path(), USERS)).await;
    assert!(matches!(told, Err(BuildError::Keys { source: KeyError::Service { .. }, .. })));
}

#[tokio::test]
async fn a_variable_holds_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!("version = 1\n{USERS}\n[stores.main]\nurl = \"sqlite:ids.db\"\n[keys.main]\nenv = \"SHOP_KEYS\"\n");
    let one = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let with = |value: &str| {
        let environment = Environment::of([("SHOP_KEYS", value)]);
        let config = config_in(folder.path(), &text);
        Registry::builder().builtins().clock(ManualClock::at(NOW_MS)).environment(environment).build(config)
    };
    let registry = with(one).await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    let id = users.mint().unwrap();
    assert_eq!(users.resolve(users.publish(id).unwrap()), Ok(id));
    registry.close().await.unwrap();
    let told = with("").await.unwrap_err();
    assert!(matches!(told, BuildError::Keys { source: KeyError::Missing { .. }, .. }), "{told:?}");
    let told = mismatch(with(&one.replace("AAEC", "AAED")).await);
    assert!(told.contains("version 1 is not the key"), "{told}");
    for secret in ["AAEC", "AAED"] {
        assert!(!told.contains(secret));
    }
}

// ---- what the store guards ----

#[tokio::test]
async fn a_lost_key_file_is_missed_and_not_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let two_stores = "[entities.users]\nscheme = \"uuidv7\"\nstore = \"old\"\npublic = { form = \"token\", key = \"main\" }\n\
         [entities.documents]\nscheme = \"ulid\"\nstore = \"a_new_one\"\npublic = { form = \"token\", key = \"main\" }\n\
         [stores.old]\nurl = \"sqlite:old.db\"\n[stores.a_new_one]\nurl = \"sqlite:new.db\"\n";
    let config = || config_in(folder.path(), &format!("version = 1\n{two_stores}\n[keys.main]\nfile = \"the.keys\"\n"));
    let builder = || builder(&ManualClock::at(NOW_MS));
    builder().only(["users"]).build(config()).await.unwrap().close().await.unwrap();
    let kept = fs::read(folder.path().join("the.keys")).unwrap();
    fs::remove_file(folder.path().join("the.keys")).unwrap();
    // A store that never saw the key does not make up for one that did, whichever is asked first.
    for only in [&["users"][..], &["documents"], &["documents", "users"]] {
        let told = builder().only(only.iter().copied()).build(config()).await.unwrap_err();
        assert!(matches!(told, BuildError::Keys { source: KeyError::Lost { .. }, .. }), "{only:?}: {told:?}");
        assert!(!folder.path().join("the.keys").exists(), "{only:?}");
    }
    fs::write(folder.path().join("the.keys"), kept).unwrap();
    builder().build(config()).await.unwrap();
}

#[tokio::test]
async fn another_key_or_an_old_file_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("the.keys");
    let start = || build(with_key(folder.path(), USERS));
    start().await.unwrap().close().await.unwrap();
    let first = fs::read(&file).unwrap();
    let other = tempfile::tempdir().unwrap();
    keys_in(other.path()).make().unwrap();
    fs::copy(other.path().join("the.keys"), &file).unwrap();
    let told = mismatch(start().await);
    assert!(told.contains("version 1 is not the key with which public ids were written"), "{told}");

    fs::write(&file, &first).unwrap();
    let ahead = StartAt::Time { unix_ms: (NOW_MS + DAY_MS) as i64 };
    keys_in(folder.path()).apply(&KeyChange::Rotate { starts: vec![ahead] }).unwrap();
    start().await.unwrap().close().await.unwrap();
    let second = fs::read(&file).unwrap();
    fs::write(&file, &first).unwrap();
    let told = mismatch(start().await);
    assert!(told.contains("version 2 of this key, and it is missing here"), "{told}");
    // The recorded start is as fixed as the key.
    let moved = String::from_utf8(second.clone()).unwrap().replace("2027-01-16", "2027-01-17");
    assert_ne!(moved.as_bytes(), second, "the start is written as a day");
    fs::write(&file, moved).unwrap();
    let told = mismatch(start().await);
    assert!(told.contains("from.2"), "{told}");
    fs::write(&file, second).unwrap();
    start().await.unwrap();
}

#[tokio::test]
async fn a_setting_that_would_change_public_ids_is_refused() {
    let public = |line: &str| format!("{ORDERS}\npublic = {{ {line} }}");
    let first = "form = \"token\", prefix = \"ord\"";
    for (realm, other) in [
        ("live", "form = \"token\", prefix = \"order\""),
        ("live", "form = \"token\", prefix = \"ord\", context = true"),
        ("live", "form = \"token\", prefix = \"ord\", alphabet = \"novowel\""),
        ("live", "form = \"short\", prefix = \"ord\""),
        ("live", "form = \"number\", digits = 12"),
        ("live", "form = \"uuid\""),
        ("live", "form = \"plain\""),
        ("test", first),
    ] {
        let folder = tempfile::tempdir().unwrap();
        build(with_key(folder.path(), &public(first))).await.unwrap().close().await.unwrap();
        let changed = with_key(folder.path(), &format!("realm = \"{realm}\"\n{}", public(other)));
        let told = mismatch(build(changed).await);
        assert!(told.contains("in the config and") && told.contains("public"), "{other}: {told}");
    }
    // What changes no text may change.
    let folder = tempfile::tempdir().unwrap();
    let number = "form = \"number\", digits = 12";
    build(with_key(folder.path(), &public(number))).await.unwrap().close().await.unwrap();
    let free = public(&format!("{number}, group = 4, max_fill = 0.01"));
    build(with_key(folder.path(), &free)).await.unwrap();
}

#[tokio::test]
async fn a_form_may_be_chosen_for_ids_that_had_none() {
    let folder = tempfile::tempdir().unwrap();
    let plain = format!("version = 1\n{ORDERS}\n[stores.main]\nurl = \"sqlite:ids.db\"\n");
    build(config_in(folder.path(), &plain)).await.unwrap().close().await.unwrap();
    build(with_key(folder.path(), ORDERS)).await.unwrap().close().await.unwrap();
    let chosen = |digits| format!("{ORDERS}\npublic = {{ form = \"number\", digits = {digits} }}");
    build(with_key(folder.path(), &chosen(12))).await.unwrap().close().await.unwrap();
    build(with_key(folder.path(), &chosen(12))).await.unwrap().close().await.unwrap();
    mismatch(build(with_key(folder.path(), &chosen(11))).await);
    // Chosen and used: it may not go missing again.
    mismatch(build(with_key(folder.path(), ORDERS)).await);
}

// ---- rotation ----

#[tokio::test]
async fn a_rotation_changes_no_public_id_that_is_out() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let entities = format!("{ORDERS}\nrange = 10\n{EVENTS}");
    let start = || builder(&clock).build(with_key(folder.path(), &entities));
    let registry = start().await.unwrap();
    let (events, orders): (Minter<Event>, Minter<Order>) = (registry.minter().unwrap(), registry.minter().unwrap());
    let before = (events.mint_ready().await.unwrap(), orders.mint_ready().await.unwrap());
    let texts = (events.publish(before.0).unwrap(), orders.publish(before.1).unwrap());
    registry.close().await.unwrap();

    let starts = vec![
        StartAt::Time { unix_ms: (NOW_MS + DAY_MS) as i64 },
        StartAt::Number { entity: "orders".to_owned(), from: 1_000 },
    ];
    keys_in(folder.path()).apply(&KeyChange::Rotate { starts }).unwrap();
    let registry = start().await.unwrap();
    registry.close().await.unwrap();
    // Recorded ahead of its time, it takes over when its time comes, in every process that starts later.
    clock.advance(2 * DAY_MS);
    let registry = start().await.unwrap();
    let (events, orders): (Minter<Event>, Minter<Order>) = (registry.minter().unwrap(), registry.minter().unwrap());
    assert_eq!((events.publish(before.0), orders.publish(before.1)), (Ok(texts.0), Ok(texts.1)));
    assert_eq!((events.resolve(texts.0), orders.resolve(texts.1)), (Ok(before.0), Ok(before.1)));
    let after = events.mint_ready().await.unwrap();
    assert_eq!(events.resolve(events.publish(after).unwrap()), Ok(after));
    registry.close().await.unwrap();

    // A third version: its start has passed, or its number is handed out.
    let kept = fs::read(folder.path().join("the.keys")).unwrap();
    for (late, place) in [
        (StartAt::Time { unix_ms: (NOW_MS + 2 * DAY_MS) as i64 }, "2027-01-17T08:00:00.000Z"),
        (StartAt::Number { entity: "orders".to_owned(), from: 1 }, "orders 1"),
    ] {
        keys_in(folder.path()).apply(&KeyChange::Rotate { starts: vec![late] }).unwrap();
        let told = mismatch(start().await);
        assert!(told.contains(place) && told.contains("version 3") && told.contains("later start"), "{told}");
        fs::write(folder.path().join("the.keys"), &kept).unwrap();
    }
    start().await.unwrap();
}

/// Of two stores one is ahead of the other: neither's numbers may change hands.
#[tokio::test]
async fn a_version_begins_above_the_numbers_of_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let config = || {
        let text = "version = 1\n[entities.orders]\nscheme = \"segment\"\nstores = [\"a\", \"b\"]\n[stores.a]\nurl = \"sqlite:a.db\"\n\
                    [stores.b]\nurl = \"sqlite:b.db\"\n[keys.main]\nfile = \"the.keys\"\n";
        config_in(folder.path(), text)
    };
    build(config()).await.unwrap().close().await.unwrap();

    let mut sequences = builder(&ManualClock::at(NOW_MS)).sequences(&config()).await.unwrap();
    let listed: Vec<_> = sequences.list().await.unwrap().into_iter().map(|one| (one.store, one.name)).collect();
    assert_eq!(listed, [("a".to_owned(), "orders".to_owned()), ("b".to_owned(), "orders".to_owned())]);
    let told = sequences.find("orders", None).await.unwrap_err().to_string();
    assert!(told.contains("in several stores (a, b)") && told.contains("name the store"), "{told}");
    let of_b = sequences.find("orders", Some("b")).await.unwrap();
    assert_eq!(sequences.raise(&of_b, 2_000).await.unwrap().next, Some(2_000));

    let from = |from| KeyChange::Rotate { starts: vec![StartAt::Number { entity: "orders".to_owned(), from }] };
    let kept = fs::read(folder.path().join("the.keys")).unwrap();
    keys_in(folder.path()).apply(&from(1_000)).unwrap();
    let told = mismatch(build(config()).await);
    assert!(told.contains("orders 1000") && told.contains("later start"), "{told}");
    fs::write(folder.path().join("the.keys"), &kept).unwrap();
    keys_in(folder.path()).apply(&from(2_000)).unwrap();
    build(config()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_leaked_key_is_replaced_and_what_it_wrote_is_known_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let start = || build(with_key(folder.path(), USERS));
    let registry = start().await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    let id = users.mint().unwrap();
    let old = users.publish(id).unwrap();
    registry.close().await.unwrap();
    keys_in(folder.path()).apply(&KeyChange::Reissue { old: 1 }).unwrap();
    let registry = start().await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    let new = users.publish(id).unwrap();
    assert_ne!(new, old);
    assert_eq!((users.resolve(new), users.resolve(old)), (Ok(id), Err(PublicIdError::Rejected)));
    assert_eq!((users.resolve_legacy(old.as_str()), users.resolve_legacy(new.as_str()).is_err()), (Ok(id), true));
    registry.close().await.unwrap();
    keys_in(folder.path()).apply(&KeyChange::Revoke { version: 1 }).unwrap();
    let registry = start().await.unwrap();
    let users: Minter<User> = registry.minter().unwrap();
    assert_eq!((users.resolve(new), users.resolve(old)), (Ok(id), Err(PublicIdError::Rejected)));
    assert_eq!(users.resolve_legacy(old.as_str()), Err(PublicIdError::Rejected));
}
