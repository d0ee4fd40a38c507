//! Formats are pinned at first use, and rows that went missing are never made again in silence.

use std::path::Path;

use mintage::{BuildError, Registry};
use mintage_core::{ManualClock, RangeStore, StoreError, StoreErrorKind};
use sqlx::Connection;

use crate::{
    EVERY_SCHEME, NOW_MS, SCHEMES, config_in, every_scheme_in,
    faulty::{Faulty, builder},
};

const EVENTS: &str = r#"scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }"#;
const ORDERS: &str = "scheme = \"segment\"\nrange = 100";

/// Each field that decides what an id means: entity, the lines as they were, as they are now, and the field as it is told.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    // B78: the ids of one epoch are those of another, a day later.
    (
        "events",
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
        "epoch_ms is 1767312000000 in the config and 1767225600000",
    ),
    // B77: worker 1 of the one layout is worker 4 of the other.
    (
        "events",
        "worker = 10, sequence = 12",
        "worker = 12, sequence = 10",
        "layout is time:41 worker:12 sequence:10 unit:1ms in the config and time:41 worker:10 sequence:12 unit:1ms",
    ),
    ("events", "sequence = 12 }", "sequence = 12, unit = \"10ms\" }", "unit:10ms in the config"),
    (
        "events",
        "sequence = 12 }",
        "sequence = 12, fields = [\"time\", \"sequence\", \"worker\"] }",
        "layout is time:41 sequence:12 worker:10",
    ),
    ("events", "sequence = 12 }", "sequence = 12, region = 2 }", "layout is "),
    (
        "events",
        EVENTS,
        "scheme = \"snowflake\"\nlayout = \"twitter\"\nworker = { pool = \"main\" }",
        "epoch_ms is 1288834974657",
    ),
    ("events", "worker = {", "text = \"base62\"\nworker = {", "text is base62 in the config and decimal in the store"),
    (
        "events",
        "{ pool = \"main\" }\n[entities.d",
        "{ pool = \"other\" }\n[entities.d",
        "pool is other in the config and main",
    ),
    ("orders", "range = 100", "range = 100\nstart = 5", "start is 5 in the config and 1 in the store"),
    ("orders", "range = 100", "sequence = \"invoices\"", "sequence is invoices in the config and orders in the store"),
    ("orders", "range = 100", "text = \"crockford\"", "text is crockford in the config and decimal in the store"),
];

fn mismatch(error: BuildError) -> StoreError {
    match error {
        BuildError::Store { source, .. } if source.kind() == StoreErrorKind::FormatMismatch => source,
        other => unreachable!("a mismatch was expected, not {other:?}"),
    }
}

/// A config with a second pool, so that an entity could move.
fn before(store: &Faulty) -> String {
    EVERY_SCHEME.replace("STORE", &store.url()).replace("[workers.main]", "[workers.other]\n[workers.main]")
}

#[tokio::test]
async fn each_field_that_changes_the_meaning_of_an_id_is_refused_by_name() {
    for (entity, old, new, told) in CHANGES {
        let clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&clock);
        let before = before(&store);
        let build = async |text: &str| builder(&clock).build(config_in(Path::new("."), text)).await;
        build(&before).await.unwrap().close().await.unwrap();
        let calls = store.calls();
        let sequences = store.healthy().sequences().await.unwrap();

        assert!(before.contains(old), "{old}");
        let after = before.replacen(old, new, 1);
        let error = mismatch(build(&after).await.unwrap_err()).to_string();
        assert!(error.contains(&format!("entities.{entity}:")) && error.contains(told), "{entity}, {told}: {error}");
        assert_eq!(store.calls(), calls, "{told}: nothing was claimed, allocated or recorded");
        assert_eq!(store.healthy().sequences().await.unwrap(), sequences, "{told}: no sequence was made");
        // The old value is welcome as before.
        build(&before).await.unwrap().close().await.unwrap();
    }
}

#[tokio::test]
async fn no_scheme_turns_into_another() {
    let lines = |scheme: &str| match scheme {
        "snowflake" => EVENTS.to_owned(),
        "segment" => ORDERS.to_owned(),
        other => format!("scheme = \"{other}\""),
    };
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let before = before(&store);
    builder(&clock).build(config_in(Path::new("."), &before)).await.unwrap().close().await.unwrap();
    let calls = store.calls();
    for (entity, scheme) in SCHEMES {
        let old = format!("[entities.{entity}]\n{}", lines(scheme));
        assert!(before.contains(&old), "{old}");
        for (_, other) in SCHEMES.into_iter().filter(|(_, other)| *other != scheme) {
            let after = before.replace(&old, &format!("[entities.{entity}]\n{}", lines(other)));
            let error = builder(&clock).build(config_in(Path::new("."), &after)).await.unwrap_err();
            let error = mismatch(error).to_string();
            let told = format!("entities.{entity}: ");
            let field = format!("scheme is {other} in the config and {scheme} in the store");
            assert!(error.contains(&told) && error.contains(&field), "{error}");
        }
    }
    assert_eq!(store.calls(), calls, "nothing was claimed, allocated or recorded");
}

/// What does not change the meaning of an id may change at any time.
#[tokio::test]
async fn settings_of_operation_are_free() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let mut text = before(&store);
    let free = [
        ("range = 100", "range = 7\nrefill_at = 0.5\ninitial_ranges = 1"),
        (
            "worker = { pool = \"main\" }",
            "worker = { pool = \"main\", id = 3 }\nclock = { max_drift = \"1s\", on_step = \"wait\" }",
        ),
        ("scheme = \"ulid\"", "scheme = \"ulid\"\norder = \"time\""),
        ("lease = { quarantine = \"0s\" }", "lease = { quarantine = \"2s\", window = \"30s\" }"),
        ("[entities.tokens]\nscheme = \"uuidv4\"\n", ""),
    ];
    let mut orders = 0;
    for (old, new) in [("", "")].into_iter().chain(free) {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
        let registry = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap();
        let id = registry.minter::<crate::Order>().unwrap().mint().unwrap();
        orders += 1;
        assert_eq!(id.raw(), orders, "{new}");
        registry.close().await.unwrap();
        clock.advance(5_000);
    }
}

/// Two pools lease the same worker id at the same time, so an entity that moved between them would be minted twice by it.
#[tokio::test]
async fn an_entity_stays_with_its_pool() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let logs = "[entities.logs]\nscheme = \"snowflake\"\nlayout = \"twitter\"\nworker = { pool = \"other\" }\n[entities.documents]";
    let before = before(&store).replace("[entities.documents]", logs);
    let build = async |text: &str| builder(&clock).build(config_in(Path::new("."), text)).await;
    let _one = build(&before).await.unwrap();
    let two = builder(&clock).only(["events"]).build(config_in(Path::new("."), &before)).await.unwrap();
    let event = two.minter::<crate::Event>().unwrap().mint().unwrap();

    let moved = before.replacen("worker = { pool = \"main\" }", "worker = { pool = \"other\" }", 1);
    if let Ok(third) = builder(&clock).only(["events"]).build(config_in(Path::new("."), &moved)).await {
        let again = third.minter::<crate::Event>().unwrap().mint().unwrap();
        assert_ne!(again, event, "the same id from two processes");
    }
    let error = mismatch(build(&moved).await.unwrap_err()).to_string();
    assert!(error.contains("pool is other in the config and main in the store"), "{error}");
}

/// B167: whatever makes the process read its config again, minting goes on where it was.
#[tokio::test]
async fn building_again_goes_on_where_the_last_one_was() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let build = async || {
        Registry::builder().builtins().clock(clock.clone()).build(every_scheme_in(folder.path())).await.unwrap()
    };
    let mut events = std::collections::HashSet::new();
    let mut orders = std::collections::HashSet::new();
    let mut running = build().await;
    for round in 0..30 {
        // The clock stands still for most of the rounds: nothing but the store tells one build from the next.
        if round % 10 == 9 {
            clock.advance(5);
        }
        let reread = build().await;
        for registry in [&running, &reread] {
            for _ in 0..50 {
                let event = registry.minter::<crate::Event>().unwrap().mint_ready().await.unwrap();
                assert!(events.insert(event), "round {round}: {event:?} again");
                let order = registry.minter::<crate::Order>().unwrap().mint_ready().await.unwrap();
                assert!(orders.insert(order), "round {round}: {order:?} again");
            }
        }
        // Some are closed, some are dropped as a crash would.
        if round % 3 == 0 {
            drop(running)
        } else {
            running.close().await.unwrap()
        }
        running = reread;
    }
    running.close().await.unwrap();
    assert_eq!((events.len(), orders.len()), (3_000, 3_000));
}

/// One after the other, with a clean end, there is not even a gap.
#[tokio::test]
async fn clean_ends_leave_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let text =
        EVERY_SCHEME.replace("STORE", "sqlite:ids.db").replace("{ pool = \"main\" }", "{ pool = \"main\", id = 7 }");
    let mut last = None;
    for round in 1..=8 {
        let builder = Registry::builder().builtins().clock(clock.clone());
        let registry = builder.build(config_in(folder.path(), &text)).await.unwrap();
        assert_eq!(registry.minter::<crate::Order>().unwrap().mint().unwrap().raw(), round);
        let events = registry.minter::<crate::Event>().unwrap();
        // The same worker id within the same standing millisecond: each build begins one unit later.
        let event = events.mint().unwrap();
        assert_eq!(events.anatomy(event).worker, Some(7));
        assert!(Some(event) > last, "{event:?} after {last:?}");
        last = Some(event);
        registry.close().await.unwrap();
    }
}

// ---- rows that went missing ----

/// A database that was used, closed, and then tampered with.
async fn tampered(statements: &[&'static str]) -> (tempfile::TempDir, ManualClock) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let registry = build(folder.path(), &clock).await.unwrap();
    assert_eq!(registry.minter::<crate::Order>().unwrap().mint().unwrap().raw(), 1);
    registry.minter::<crate::Event>().unwrap().mint().unwrap();
    registry.close().await.unwrap();
    let mut database = open(folder.path()).await;
    for statement in statements {
        sqlx::query(*statement).execute(&mut database).await.unwrap();
    }
    database.close().await.unwrap();
    (folder, clock)
}

async fn open(folder: &Path) -> sqlx::SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join("ids.db"));
    sqlx::SqliteConnection::connect_with(&options).await.unwrap()
}

async fn build(folder: &Path, clock: &ManualClock) -> Result<Registry, BuildError> {
    Registry::builder().builtins().clock(clock.clone()).build(every_scheme_in(folder)).await
}

#[tokio::test]
async fn a_deleted_sequence_is_refused_and_not_made_again() {
    let (folder, clock) = tampered(&["DELETE FROM mintage_sequence"]).await;
    for _ in 0..2 {
        let error = build(folder.path(), &clock).await.unwrap_err();
        let BuildError::Entity { entity, source } = error else { unreachable!("{error:?}") };
        assert_eq!(entity, "orders");
        let source = source.store_error().unwrap();
        assert_eq!(source.kind(), StoreErrorKind::Refused);
        assert!(source.to_string().contains("no sequence orders"), "{source}");
    }
    let mut database = open(folder.path()).await;
    let made: i64 = sqlx::query_scalar("SELECT count(*) FROM mintage_sequence").fetch_one(&mut database).await.unwrap();
    let held: i64 = sqlx::query_scalar("SELECT count(*) FROM mintage_worker WHERE holder IS NOT NULL")
        .fetch_one(&mut database)
        .await
        .unwrap();
    assert_eq!((made, held), (0, 0), "no sequence was made, and the worker id was given back");
    // The others of the same store are not concerned.
    let registry = Registry::builder().builtins().clock(clock.clone()).only(["events", "users"]);
    registry.build(every_scheme_in(folder.path())).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn deleted_pools_are_a_store_that_went_back_in_time() {
    let (folder, clock) =
        tampered(&["DELETE FROM mintage_grant", "DELETE FROM mintage_worker", "DELETE FROM mintage_pool"]).await;
    let BuildError::Store { store, source } = build(folder.path(), &clock).await.unwrap_err() else { unreachable!() };
    assert_eq!((store.as_str(), source.kind()), ("main", StoreErrorKind::RolledBack));
    assert!(source.to_string().contains("pool main"), "{source}");

    // A new entity on the pool does not make it new: the one that is left out tells.
    let text = EVERY_SCHEME
        .replace("STORE", "sqlite:ids.db")
        .replace("[entities.documents]", &format!("[entities.fresh]\n{EVENTS}\n[entities.documents]"));
    let only = Registry::builder().builtins().clock(clock.clone()).only(["fresh"]);
    let BuildError::Store { source, .. } = only.build(config_in(folder.path(), &text)).await.unwrap_err() else {
        unreachable!()
    };
    assert_eq!(source.kind(), StoreErrorKind::RolledBack);
}

#[tokio::test]
async fn a_lost_format_starts_no_sequence_anew() {
    let (folder, clock) = tampered(&["DELETE FROM mintage_format"]).await;
    let registry = build(folder.path(), &clock).await.unwrap();
    assert_eq!(registry.minter::<crate::Order>().unwrap().mint().unwrap().raw(), 2);
    registry.close().await.unwrap();
}

#[tokio::test]
async fn an_unreadable_format_is_told() {
    let (folder, clock) = tampered(&["UPDATE mintage_format SET format = 'nonsense' WHERE entity = 'users'"]).await;
    let BuildError::Store { source, .. } = build(folder.path(), &clock).await.unwrap_err() else { unreachable!() };
    assert_eq!(source.kind(), StoreErrorKind::Corrupt, "{source}");
}
