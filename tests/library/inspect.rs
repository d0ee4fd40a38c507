//! Reading ids: the reading to believe comes first, its reasons are told, and no time is invented.
//!
//! The clock is pinned: what is likely depends on what is still to come.

use std::path::Path;

use mintage::{BuildError, Environment, Inspection, Registry, RegistryBuilder, Witness, time};
use mintage_core::{AnyId, ManualClock, Role};
use serde_json::{Value, json};

use crate::{EVERY_SCHEME, Event, Order, config_in, shipped_in};

/// 2026-11-30T12:00:00Z in Unix ms.
const NOW_MS: u64 = 1_796_040_000_000;

fn builder(now_ms: u64, folder: &Path) -> RegistryBuilder {
    let store = format!("sqlite:{}", folder.join("mintage.db").display());
    let environment = Environment::of([("MINTAGE_STORE", store)]);
    Registry::builder().builtins().clock(ManualClock::at(now_ms)).environment(environment)
}

/// What the shipped config makes of a text, without any store.
fn shipped_at(now_ms: u64, text: &str) -> Inspection {
    let builder = builder(now_ms, Path::new("nowhere"));
    let checked = builder.check(&shipped_in(Path::new("nowhere"))).unwrap();
    builder.inspector(&checked).inspect(text)
}

fn shipped(text: &str) -> Inspection {
    shipped_at(NOW_MS, text)
}

/// Entity or scheme of the best reading, and its time.
fn best(inspection: &Inspection) -> (String, String) {
    let Some(best) = inspection.best() else { return ("nothing".to_owned(), String::new()) };
    let told = best.anatomy.time.map(|made| time::rfc3339(made.unix_ms, made.unit_ms)).unwrap_or_default();
    (best.entity.clone().unwrap_or_else(|| best.scheme.clone()), told)
}

/// The reading as `scheme`.
fn as_scheme<'i>(inspection: &'i Inspection, scheme: &str) -> &'i mintage::Candidate {
    let found = inspection.candidates.iter().find(|candidate| candidate.scheme == scheme);
    found.unwrap_or_else(|| unreachable!("{} as {scheme}: {:?}", inspection.input, names(inspection)))
}

fn names(inspection: &Inspection) -> Vec<String> {
    let name = |candidate: &mintage::Candidate| candidate.entity.clone().unwrap_or_else(|| candidate.scheme.clone());
    inspection.candidates.iter().map(name).collect()
}

fn of(name: &str, time: &str) -> (String, String) {
    (name.to_owned(), time.to_owned())
}

// ---- ids with known times ----

#[test]
fn published_ids_are_read_as_what_they_are() {
    for (text, name, time) in [
        // Discord's documentation.
        ("175928847299117063", "discord", "2016-04-30T11:18:25.796Z"),
        // The ULID specification.
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "documents", "2016-07-30T23:54:10.259Z"),
        // B61: the KSUID reference vectors.
        ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", "uploads", "2017-10-10T04:00:47Z"),
        ("0ujzPyRiIAffKhBux4PvQdDqMHY", "uploads", "2017-10-10T04:46:20Z"),
        // B24: RFC 9562, A.6.
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "users", "2022-02-22T19:22:22.000Z"),
        // RFC 9562, A.1 and A.5: another version is not our entity.
        ("c232ab00-9414-11ec-b3c8-9f6bdeced846", "uuidv1", "2022-02-22T19:22:22.000Z"),
        ("1ec9414c-232a-6b00-b3c8-9f6bdeced846", "uuidv6", "2022-02-22T19:22:22.000Z"),
    ] {
        assert_eq!(best(&shipped(text)), of(name, time), "{text}: {:?}", names(&shipped(text)));
    }
}

/// B135, B136: Twitter's epoch, and a number from before its snowflakes. At a time when Discord's reading of them is still to
/// come, Twitter's is the only one.
#[test]
fn twitter_ids_come_first_as_twitter() {
    /// 2026-01-02T00:00:00Z.
    const EARLY_2026_MS: u64 = 1_767_312_000_000;
    for (text, time) in [
        ("1593572310593806338", "2022-11-18T11:50:20.644Z"),
        ("1821504102737842437", "2024-08-08T11:09:54.659Z"),
        ("1462917477411741696", "2021-11-22T22:54:40.964Z"),
        ("1567881733600600065", "2022-09-08T14:25:09.781Z"),
    ] {
        assert_eq!(best(&shipped_at(EARLY_2026_MS, text)), of("twitter", time), "{text}");
    }
    let inspection = shipped_at(EARLY_2026_MS, "1593572310593806338");
    let twitter = as_scheme(&inspection, "twitter");
    assert_eq!((twitter.anatomy.worker, twitter.anatomy.sequence), (Some(378), Some(2)));
    // Two readings are possible by now, and both are told.
    let both = shipped("1462917477411741696");
    assert_eq!(names(&both)[..2], ["discord", "twitter"]);
    assert_eq!(both.candidates[0].rank, both.candidates[1].rank);

    // Older than Twitter's snowflakes: a plain number, and the naive time is flagged.
    let old = shipped_at(EARLY_2026_MS, "13179370605");
    let twitter = as_scheme(&old, "twitter");
    assert_eq!(twitter.anatomy.time.unwrap().unix_ms, 1_288_834_977_799);
    assert!(twitter.reasons.iter().any(|why| why.contains("within 30 days of its epoch")), "{:?}", twitter.reasons);
    assert_eq!(best(&old), of("orders", ""));
}

/// B140, B141: Instagram's shift, and an epoch of 1970 by an entity of one's own.
#[test]
fn other_layouts() {
    let instagram = shipped("2384288897814875714");
    let found = as_scheme(&instagram, "instagram");
    assert_eq!((found.anatomy.worker, found.anatomy.sequence), (Some(2675), Some(578)));
    assert_eq!(time::rfc3339(found.anatomy.time.unwrap().unix_ms, 1), "2020-08-26T13:43:27.313Z");

    let text = EVERY_SCHEME.replace("STORE", "sqlite:ids.db").replace("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
    let builder = builder(NOW_MS, Path::new("nowhere"));
    let checked = builder
        .check(&config_in(
            Path::new("."),
            &text.replace("sequence = 12 }", "sequence = 12 }\nallow = [\"short-life\"]"),
        ))
        .unwrap();
    let inspection = builder.inspector(&checked).inspect("7102577116159582209");
    assert_eq!(best(&inspection), of("events", "2023-08-30T09:05:43.994Z"));
    assert_eq!(inspection.candidates[0].anatomy.worker, Some(42));
}

/// B138: one number is an id under several layouts. All are listed with their times; none is left out in silence.
#[test]
fn every_reading_is_listed() {
    let inspection = shipped("175928847299117063");
    let told: Vec<(String, String)> = ["discord", "twitter", "instagram", "sonyflake", "mastodon"]
        .map(|scheme| as_scheme(&inspection, scheme))
        .map(|candidate| {
            let made = candidate.anatomy.time.unwrap();
            (candidate.scheme.clone(), time::rfc3339(made.unix_ms, made.unit_ms))
        })
        .to_vec();
    assert_eq!(told[0], of("discord", "2016-04-30T11:18:25.796Z"));
    assert_eq!(told[1], of("twitter", "2012-03-03T13:01:20.453Z"));
    let events = inspection.candidates.iter().find(|candidate| candidate.entity.as_deref() == Some("events")).unwrap();
    assert!(events.reasons.iter().any(|why| why.contains("still to come")), "{:?}", events.reasons);
    assert!(inspection.candidates.iter().all(|candidate| !candidate.reasons.is_empty()), "each says why");
    assert!(inspection.candidates.is_sorted_by_key(|candidate| std::cmp::Reverse(candidate.rank)));
    assert!(inspection.candidates.iter().any(|candidate| candidate.entity.as_deref() == Some("orders")));
}

/// B25, B27, B33, B50: the time of the standard, none where there is none, none that overflows, and seconds are noticed.
#[test]
fn times_are_neither_invented_nor_misread() {
    for (text, name, time) in [
        ("018e3f04-0218-7f62-8f86-6a3cfe5a42fb", "users", "2024-03-14T22:10:11.096Z"),
        ("017F21CF-D130-7CC3-98C4-DC0C0C07398F", "users", "2022-02-22T14:22:22.000Z"),
        ("550e8400-e29b-41d4-a716-446655440000", "uuidv4", ""),
        ("5df41881-3aed-3515-88a7-2f4a814cf09e", "uuidv3", ""),
        ("ffffffff-ffff-7fff-bfff-ffffffffffff", "users", "year 10889"),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "documents", ""),
        ("7ZZZZZZZZZ0000000000000000", "documents", "year 10889"),
        ("aWgEPTl1tmebfsQzFP4bxwgy80V", "uploads", "2150-06-19T23:21:35Z"),
    ] {
        assert_eq!(best(&shipped(text)), of(name, time), "{text}");
    }
    let seconds = shipped("0001EH8YAEP8CXP4AMWCHHDBHJ");
    assert_eq!(best(&seconds), of("documents", "1970-01-19T01:47:02.862Z"));
    let why = &seconds.candidates[0].reasons;
    let hint = "implausibly old: the value looks like seconds (2019-06-27T08:07:42Z)";
    assert!(why.iter().any(|why| why == hint), "{why:?}");
}

/// B23: nil and max are what they are, at any spelling, without a time; a near miss is neither.
#[test]
fn nil_and_max() {
    for (text, scheme, note) in [
        ("00000000-0000-0000-0000-000000000000", "nil UUID", "nil UUID"),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", "max UUID", "max UUID"),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "max UUID", "max UUID"),
        ("00000000000000000000000000000000", "nil UUID", "nil UUID"),
    ] {
        let inspection = shipped(text);
        assert_eq!(best(&inspection), of(scheme, ""), "{text}");
        assert!(inspection.candidates[0].anatomy.notes.iter().any(|told| told == note), "{text}");
    }
    let near = shipped("ffffffff-ffff-ffff-ffff-fffffffffffe");
    assert_ne!(best(&near).0, "max UUID");
    assert_eq!(best(&near).1, "");
}

/// B119: the same 16 bytes, in the same order, in both spellings; and it names no version.
#[test]
fn a_ulid_as_a_uuid_and_back() {
    let (ulid, uuid) = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01563e3a-b5d3-d676-4c61-efb99302bd5b");
    let inspection = shipped(ulid);
    assert!(inspection.candidates[0].spellings.contains(&("uuid", uuid.to_owned())));
    assert!(inspection.candidates[0].spellings.contains(&("hex", "01563e3ab5d3d6764c61efb99302bd5b".to_owned())));
    let back = shipped(uuid);
    assert!(back.candidates[0].spellings.contains(&("ulid", ulid.to_owned())));
    assert_eq!(best(&back).1, "", "its variant is not that of the RFC, so it has no time as a UUID");
}

#[test]
fn one_value_in_all_its_spellings() {
    let inspection = shipped("175928847299117063");
    let spellings = &inspection.candidates[0].spellings;
    for spelling in [("decimal", "175928847299117063"), ("hex", "0271065ac1020007")] {
        assert!(spellings.contains(&(spelling.0, spelling.1.to_owned())), "{spellings:?}");
    }
    for (name, len) in [("base62", 11), ("crockford", 13)] {
        let text = &spellings.iter().find(|(spelling, _)| *spelling == name).unwrap().1;
        assert_eq!(text.len(), len, "{name}: {text}");
    }
    // Spaces around it, braces and URNs are a person's paste, not another id.
    for pasted in ["  175928847299117063\n", "175928847299117063 "] {
        assert_eq!(shipped(pasted).candidates[0].id, AnyId::Int(175_928_847_299_117_063));
    }
    for pasted in [
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
        "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e279b07cc398c4dc0c0c07398f",
    ] {
        assert_eq!(best(&shipped(pasted)).1, "2022-02-22T19:22:22.000Z", "{pasted}");
    }
}

// ---- what is no id ----

/// B143: recognised by alphabet and range, never by length alone.
#[test]
fn length_makes_no_id() {
    for text in [
        "JGL-24423/TL",
        "5fd0f17e8e840df1c9687f37",
        "",
        " ",
        "hello",
        "-1",
        "+5",
        "1e9",
        "0x1f",
        "１２３",
        "007",
        "18446744073709551616",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzz",
        "aWgEPTl1tmebfsQzFP4bxwgy80W",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2_79b0_7cc3_98c4_dc0c0c07398f",
        "\u{1f980}\u{1f980}\u{1f980}",
    ] {
        let inspection = shipped(text);
        assert!(inspection.candidates.is_empty(), "{text:?}: {:?}", names(&inspection));
        assert!(!inspection.refusals.is_empty(), "{text:?}: the refusals say why");
        assert!(inspection.to_json().get("refusals").is_some_and(Value::is_object), "{text:?}");
    }
    let long = shipped(&"1".repeat(1_000_000));
    assert!(long.candidates.is_empty() && long.refusals.len() == 1, "looked at no further");

    // What has the alphabet as well is a candidate, however unlikely, and says so.
    let ones = shipped(&"1".repeat(26));
    assert_eq!(best(&ones), of("documents", "3120-11-30T20:50:33.633Z"));
    assert!(ones.candidates[0].reasons.iter().any(|why| why.contains("still to come")));
    assert_eq!(best(&shipped("123456789012")).0, "orders");
    assert_eq!(names(&shipped(&"Z".repeat(27))), ["uploads"]);
}

/// The refusal of the scheme whose shape it has says what is wrong.
#[test]
fn a_near_miss_says_what_is_wrong() {
    let told = |text: &str, scheme: &str| {
        let inspection = shipped(text);
        let refusal = inspection.refusals.iter().find(|(name, _)| name == scheme);
        refusal.unwrap_or_else(|| unreachable!("{text}: {:?}", inspection.refusals)).1.to_string()
    };
    assert!(told("01ARZ3NDEKTSV4RRFFQ69G5FAU", "ulid").contains("'U' at byte 25"));
    assert!(told("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "ulid").contains("out of range"));
    assert!(told("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", "uuid").contains("'g' at byte 35"));
    assert!(told("aWgEPTl1tmebfsQzFP4bxwgy80W", "ksuid").contains("out of range"));
    // What fits best stands first: who pastes it should not have to search.
    let nearest = |text: &str| shipped(text).refusals.swap_remove(0).0;
    assert_eq!(nearest("18446744073709551616"), "orders");
    assert_eq!(nearest("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), "documents");
    assert_eq!(nearest("017f22e2-79b0-7cc3-98c4-dc0c0c07398"), "users");
    assert_eq!(nearest("aWgEPTl1tmebfsQzFP4bxwgy80W"), "uploads");
}

/// A text that begins like a public id was meant as one, and is told why it opens nothing.
#[tokio::test]
async fn a_public_id_that_does_not_open_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let keyless = builder(NOW_MS, folder.path()).witness(&shipped_in(folder.path())).await.unwrap();
    let (entity, why) = keyless.inspect("usr_0649fzkkq87q7a47").await.refusals.swap_remove(0);
    assert!(entity == "users" && why.contains("the key that opens its public ids is not here"), "{entity}: {why}");

    let (registry, _) = witnessed(folder.path()).await;
    let user = registry.any_minter("users").unwrap();
    let text = user.publish(user.mint().unwrap(), b"").unwrap().to_string();
    let witness = builder(NOW_MS, folder.path()).witness(&shipped_in(folder.path())).await.unwrap();
    assert_eq!(witness.inspect(&text).await.candidates.len(), 1);
    for edited in [&text[..text.len() - 1], &format!("{text}0"), "usr_", "USR_x"] {
        let inspection = witness.inspect(edited).await;
        let (entity, why) = &inspection.refusals[0];
        assert!(inspection.candidates.is_empty() && entity == "users", "{edited}: {inspection:?}");
        assert!(why.contains("its prefix, but no public id of it"), "{edited}: {why}");
    }
    assert!(!witness.inspect("usrx_5").await.refusals[0].1.contains("prefix"));
}

#[test]
fn any_text_is_safe() {
    use proptest::prelude::*;
    let builder = builder(NOW_MS, Path::new("nowhere"));
    let checked = builder.check(&shipped_in(Path::new("nowhere"))).unwrap();
    let inspector = builder.inspector(&checked);
    let alphabets = prop_oneof![
        "\\PC{0,60}",
        "[0-9]{1,20}",
        "[0-9A-HJKMNP-TV-Za-z]{26}",
        "[0-9A-Za-z]{27}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ];
    let mut runner = proptest::test_runner::TestRunner::new(proptest::test_runner::Config {
        cases: 500,
        failure_persistence: None,
        ..Default::default()
    });
    runner
        .run(&alphabets, |text| {
            let inspection = inspector.inspect(&text);
            let json = inspection.to_json();
            prop_assert!(json.is_object());
            for candidate in &inspection.candidates {
                let drawn = match candidate.id {
                    AnyId::Int(_) => 64,
                    AnyId::Wide(_) => 128,
                    _ => 160,
                };
                prop_assert_eq!(candidate.anatomy.width(), drawn);
            }
            Ok(())
        })
        .unwrap();
}

// ---- with the stores behind it ----

/// A registry that has minted on the shipped config, and the witness of its database.
async fn witnessed(folder: &Path) -> (Registry, Witness) {
    let registry = builder(NOW_MS, folder).build(shipped_in(folder)).await.unwrap();
    let witness = builder(NOW_MS, folder).witness(&shipped_in(folder)).await.unwrap();
    (registry, witness)
}

#[tokio::test]
async fn a_fresh_event_is_ours_and_its_holder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, witness) = witnessed(folder.path()).await;
    let event = registry.minter::<Event>().unwrap().mint().unwrap();
    let inspection = witness.inspect(&event.raw().to_string()).await;
    assert_eq!(best(&inspection), of("events", "2026-11-30T12:00:00.000Z"), "{:?}", names(&inspection));
    let first = &inspection.candidates[0];
    assert_eq!(first.minted_by.len(), 1);
    let instance = &first.minted_by[0].instance;
    assert!(
        !instance.is_empty() && first.reasons.contains(&format!("worker 0 was leased to {instance} then")),
        "{:?}",
        first.reasons
    );
    assert!(inspection.candidates[1].rank < first.rank);
    // Still known when the holder has closed, and to a witness that comes later.
    registry.close().await.unwrap();
    let later = builder(NOW_MS + 86_400_000, folder.path()).witness(&shipped_in(folder.path())).await.unwrap();
    let inspection = later.inspect(&event.raw().to_string()).await;
    assert_eq!(inspection.candidates[0].minted_by.len(), 1);

    // A worker id that nobody held then is nobody's, and ranks lower.
    let stranger = event.raw() | 77 << 12;
    let inspection = later.inspect(&stranger.to_string()).await;
    assert_eq!(best(&inspection).0, "events");
    assert!(inspection.candidates[0].minted_by.is_empty() && inspection.candidates[0].rank < first.rank);
}

#[tokio::test]
async fn a_number_is_an_order_if_the_sequence_has_come_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, witness) = witnessed(folder.path()).await;
    let orders = registry.minter::<Order>().unwrap();
    for _ in 0..10 {
        orders.mint().unwrap();
    }
    registry.close().await.unwrap();
    for handed_out in ["1", "10"] {
        let inspection = witness.inspect(handed_out).await;
        assert_eq!(best(&inspection), of("orders", ""), "{handed_out}");
        let why = &inspection.candidates[0].reasons;
        assert!(why.iter().any(|why| why == "the sequence has come as far as 10"), "{why:?}");
    }
    for beyond in ["11", "175928847299117063"] {
        let inspection = witness.inspect(beyond).await;
        let orders = inspection.candidates.iter().find(|found| found.entity.as_deref() == Some("orders")).unwrap();
        let why = &orders.reasons;
        assert!(why.iter().any(|why| why == "not handed out yet: the sequence stands at 11"), "{why:?}");
        assert!(orders.rank < 30, "{beyond}: {}", orders.rank);
    }
    assert_eq!(best(&witness.inspect("175928847299117063").await).0, "discord");
}

/// The reading as an order of a text that is a number.
async fn as_order(witness: &Witness, number: &str) -> mintage::Candidate {
    let candidates = witness.inspect(number).await.candidates;
    candidates.into_iter().find(|found| found.entity.as_deref() == Some("orders")).unwrap()
}

#[tokio::test]
async fn a_number_names_the_process_that_got_its_range() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, witness) = witnessed(folder.path()).await;
    let event = registry.minter::<Event>().unwrap().mint().unwrap();
    let holder = witness.inspect(&event.raw().to_string()).await.candidates[0].minted_by[0].instance.clone();
    let orders = registry.minter::<Order>().unwrap();
    for _ in 0..10 {
        orders.mint().unwrap();
    }
    let held = as_order(&witness, "10").await;
    let [(store, grant)] = &held.ranges[..] else { panic!("{held:?}") };
    assert_eq!((store.as_str(), grant.start, grant.instance == holder, grant.at_ms), ("main", 1, true, NOW_MS));
    assert!(grant.end > 11, "what it holds is its own: {grant:?}");

    // What it gave back is nobody's, and the next process is named for what it got of it.
    registry.close().await.unwrap();
    let environment = Environment::of([
        ("MINTAGE_STORE", format!("sqlite:{}", folder.path().join("mintage.db").display())),
        ("MINTAGE_INSTANCE", "billing-3".to_owned()),
    ]);
    let next = builder(NOW_MS + 5_000, folder.path()).environment(environment).once(3);
    let next = next.build(shipped_in(folder.path())).await.unwrap();
    assert_eq!(next.minter::<Order>().unwrap().mint_ready().await.unwrap().raw(), 11);
    next.close().await.unwrap();
    let [first, second] = [as_order(&witness, "10").await, as_order(&witness, "11").await];
    assert_eq!((first.ranges[0].1.end, first.ranges[0].1.instance == holder), (11, true), "{first:?}");
    assert_eq!((second.ranges.len(), second.ranges[0].1.instance.as_str()), (1, "billing-3"), "{second:?}");
    let told = "stores.main gave 11 to 11 to billing-3 on 2026-11-30T12:00:05.000Z";
    assert!(second.reasons.iter().any(|why| why == told), "{:?}", second.reasons);
    let json = witness.inspect("11").await.to_json();
    assert_eq!(
        json["minted_by"],
        json!([{"owner": "billing-3", "store": "main", "first": "11", "last": "11", "at": "2026-11-30T12:00:05.000Z"}])
    );
    assert!(as_order(&witness, "12").await.ranges.is_empty(), "not handed out yet");
}

/// What the history does not know is told with the reason.
#[tokio::test]
async fn where_nobody_can_be_named_it_says_why() {
    const CONFIG: &str =
        "version = 1\n[entities.orders]\nscheme = \"segment\"\nKEYS\n[stores.main]\nurl = \"sqlite:mintage.db\"\n";
    let reasons = async |keys: &str, number: &str, tamper: &'static str| {
        let folder = tempfile::tempdir().unwrap();
        let config = config_in(folder.path(), &CONFIG.replace("KEYS", keys));
        let builder = || Registry::builder().builtins().clock(ManualClock::at(NOW_MS));
        let registry = builder().build(config.clone()).await.unwrap();
        registry.close().await.unwrap();
        let mut sequences = builder().sequences(&config).await.unwrap();
        let orders = sequences.find("orders", None).await.unwrap();
        sequences.raise(&orders, 100).await.unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("mintage.db"));
        let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::raw_sql(tamper).execute(&mut conn).await.unwrap();
        let witness = builder().witness(&config).await.unwrap();
        let found = as_order(&witness, number).await;
        assert!(found.ranges.is_empty(), "{found:?}");
        found.reasons.join("; ")
    };
    let told = reasons("", "50", "").await;
    assert!(told.contains("the sequence has come as far as 99; which process had it is not known"), "{told}");
    assert!(told.contains("stores.main: no range in its history holds it: it was passed over by a raise"), "{told}");
    let told = reasons("", "50", "DROP TABLE mintage_range").await;
    assert!(told.contains("not known: stores.main: the database was made by a Mintage that kept no history"), "{told}");
    let told = reasons("gapless = true", "50", "").await;
    assert!(told.contains("it is gapless") && told.contains("the row that has it"), "{told}");
    let told = reasons("increment = 10\noffset = 3", "50", "").await;
    assert!(told.contains("none of ours: this config mints every 10th number from 3 on"), "{told}");
    let told = reasons("increment = 10\noffset = 3", "53", "").await;
    assert!(told.contains("passed over by a raise"), "{told}");
    let told = reasons("", "100", "").await;
    assert!(
        told.contains("not handed out yet: the sequence stands at 100") && !told.contains("which process"),
        "{told}"
    );
}

/// Of two stores the one that gave the number is asked, and named.
#[tokio::test]
async fn a_number_of_two_stores_is_named_by_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\n[entities.orders]\nscheme = \"segment\"\nstores = [\"a\", \"b\"]\nrange = 10\n\
                [stores.a]\nurl = \"sqlite:a.db\"\n[stores.b]\nurl = \"file:b\"\n";
    let config = config_in(folder.path(), text);
    let registry = Registry::builder().builtins().build(config.clone()).await.unwrap();
    let orders = registry.minter::<Order>().unwrap();
    let mut minted = Vec::new();
    for _ in 0..12 {
        minted.push(orders.mint_ready().await.unwrap().raw());
    }
    let witness = Registry::builder().builtins().witness(&config).await.unwrap();
    for number in minted {
        let found = as_order(&witness, &number.to_string()).await;
        let [(store, grant)] = &found.ranges[..] else { panic!("{number}: {found:?}") };
        assert_eq!(store, if number % 2 == 1 { "a" } else { "b" }, "{number}");
        assert!((grant.start..grant.end).contains(&number), "{number}: {grant:?}");
    }
    registry.close().await.unwrap();
}

/// Looking must change nothing: no store is made, no worker id claimed, no format recorded.
#[tokio::test]
async fn looking_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let witness = builder(NOW_MS, folder.path()).witness(&shipped_in(folder.path())).await.unwrap();
    assert!(witness.troubles().is_empty());
    assert_eq!(best(&witness.inspect("5").await).0, "orders");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "not even an empty database");
}

/// A store that cannot be opened is passed over, and told.
#[tokio::test]
async fn a_broken_store_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("mintage.db"),
        "this is no database, and it is long enough to be seen as one".repeat(50),
    )
    .unwrap();
    let witness = builder(NOW_MS, folder.path()).witness(&shipped_in(folder.path())).await.unwrap();
    assert!(
        matches!(witness.troubles(), [BuildError::Store { store, .. }] if store == "main"),
        "{:?}",
        witness.troubles()
    );
    assert_eq!(best(&witness.inspect("175928847299117063").await).0, "discord");
}

// ---- the shape of the answer ----

#[tokio::test]
async fn json_has_the_keys_that_every_surface_uses() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, witness) = witnessed(folder.path()).await;
    let event = registry.minter::<Event>().unwrap().mint().unwrap().raw();
    let answer = witness.inspect(&format!(" {event} ")).await.to_json();
    registry.close().await.unwrap();
    assert_eq!(answer["id"], json!(event.to_string()));
    assert_eq!(answer["entity"], "events");
    assert_eq!(answer["scheme"], "snowflake");
    assert_eq!(answer["created_at"], "2026-11-30T12:00:00.000Z");
    assert_eq!(answer["created_at_ms"], json!(NOW_MS));
    assert_eq!((&answer["machine_id"], &answer["worker_id"]), (&json!(0), &json!(0)));
    assert_eq!(answer["region"], Value::Null);
    assert_eq!(answer["sequence"], "0", "numbers that could be large are strings");
    assert_eq!(answer["minted_by"][0]["machine_id"], 0);
    assert!(answer["minted_by"][0]["owner"].is_string() && answer["minted_by"][0]["epoch"] == 1);
    let layout: Vec<(&str, u64)> = answer["layout"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| (field["name"].as_str().unwrap(), field["bits"].as_u64().unwrap()))
        .collect();
    assert_eq!(layout, [("sign", 1), ("time", 41), ("worker", 10), ("sequence", 12)]);
    assert_eq!(answer["spellings"]["decimal"], json!(event.to_string()));
    assert!(answer["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()));
    let candidates = answer["candidates"].as_array().unwrap();
    assert!(candidates.len() >= 5);
    assert_eq!(candidates[0]["entity"], "events", "the first one is repeated at the top");
    assert!(answer.get("refusals").is_none(), "an id needs no excuse");

    // Without a time, a worker or a sequence the keys are there, and null.
    let token = shipped("f47ac10b-58cc-4372-a567-0e02b2c3d479").to_json();
    for key in ["created_at", "created_at_ms", "machine_id", "worker_id", "region", "sequence", "entity"] {
        assert_eq!(token.get(key), Some(&Value::Null), "{key}");
    }
    // 128 bits would be rounded as a number anywhere.
    let wide = shipped("01ARZ3NDEKTSV4RRFFQ69G5FAV").to_json();
    assert!(wide["layout"].as_array().unwrap().iter().all(|field| field["value"].is_string()));
}

#[test]
fn roles_have_one_name_everywhere() {
    let roles = [Role::Time, Role::Worker, Role::Sequence, Role::Random, Role::Fixed];
    assert_eq!(roles.map(mintage::role_name), ["time", "worker", "sequence", "random", "fixed"]);
}
