//! What only SQLite goes through: commits that fail, foreign and damaged databases, rows that something else wrote.

use std::{fs, path::Path, sync::Arc, time::Duration};

use mintage_backends::SqliteStore;
use mintage_core::{
    Format, FormatStore, GaplessStore, IdempotencyKey, LeaseStore, ManualClock, RangeStore, Sequence, StoreError,
    StoreErrorKind, TablePrefix, TokenRow, TokenStore, WorkerChoice,
};
use sqlx::{ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{NOW_MS, count, holder, pool, terms};

/// A connection that is none of the store's.
pub(crate) async fn connect(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

async fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Arc::new(ManualClock::at(NOW_MS)), Duration::from_secs(20)).await
}

async fn tamper(path: &Path, sql: &'static str) {
    let mut conn = connect(path).await;
    sqlx::raw_sql("PRAGMA ignore_check_constraints = ON").execute(&mut conn).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
}

/// People copy and move the file that has the name. After a commit it is whole, also of a process that was killed.
#[tokio::test]
async fn the_file_alone_holds_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let store = used(&path).await;
    for round in 1..=20 {
        let range = store.allocate(&Sequence::new("orders", 1), count(10), None).await.unwrap();
        let copy = folder.path().join(format!("copy-{round}.db"));
        fs::copy(&path, &copy).unwrap();
        let copied = open(&copy).await.unwrap();
        let next = copied.allocate(&Sequence::new("orders", 1), count(10), None).await.unwrap();
        assert_eq!(next.start, range.end, "round {round}: numbers would repeat");
    }
}

/// A database with some of everything in it.
async fn used(path: &Path) -> SqliteStore {
    let store = open(path).await.unwrap();
    let key = IdempotencyKey::new("request-1").unwrap();
    store.create(&Sequence::new("orders", 1)).await.unwrap();
    store.allocate(&Sequence::new("orders", 1), count(10), Some(&key)).await.unwrap();
    store.acquire(&pool("main", 0..4), WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
    store.pin("events", &Format::of("snowflake")).await.unwrap();
    store.insert(&token()).await.unwrap();
    store
}

fn token() -> TokenRow {
    let mut token = TokenRow::new("api_keys", "7km1dzhm", [7; 32], NOW_MS);
    token.scopes = vec!["orders:read".to_owned(), "orders:write".to_owned()];
    token
}

/// The commit itself is refused by the database, after every statement before it went well: nothing may be believed.
#[tokio::test]
async fn an_answer_whose_commit_fails_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let store = used(&path).await;
    let (sequence, pool) = (Sequence::new("orders", 1), pool("main", 0..4));
    let lease = store.acquire(&pool, WorkerChoice::Any, &holder(2), &terms()).await.unwrap();
    let before = (store.sequences().await.unwrap(), store.leases(&pool).await.unwrap());
    // A foreign key that is checked at the commit only, and violated by any change.
    tamper(
        &path,
        "CREATE TABLE planted (id INTEGER REFERENCES nobody (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE nobody (id INTEGER PRIMARY KEY);
         CREATE TRIGGER planted_1 AFTER UPDATE ON mintage_sequence BEGIN INSERT INTO planted VALUES (1); END;
         CREATE TRIGGER planted_2 AFTER INSERT ON mintage_worker BEGIN INSERT INTO planted VALUES (1); END;
         CREATE TRIGGER planted_3 AFTER INSERT ON mintage_format BEGIN INSERT INTO planted VALUES (1); END;",
    )
    .await;
    for _ in 0..2 {
        let errors = [
            store.allocate(&sequence, count(10), None).await.map(drop).unwrap_err(),
            store.raise(&sequence, 1_000).await.unwrap_err(),
            store.acquire(&pool, WorkerChoice::Any, &holder(3), &terms()).await.map(drop).unwrap_err(),
            store.renew(&lease, &holder(2), &terms()).await.map(drop).unwrap_err(),
            store.release(lease.clone(), lease.window.start, &terms()).await.unwrap_err(),
            store.pin("others", &Format::of("ulid")).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains("FOREIGN KEY"), "{cause}");
        }
    }
    assert_eq!(
        (store.sequences().await.unwrap(), store.leases(&pool).await.unwrap()),
        before,
        "and nothing was changed"
    );
    assert_eq!(store.pinned("others").await.unwrap(), None);

    tamper(&path, "DROP TRIGGER planted_1; DROP TRIGGER planted_2; DROP TRIGGER planted_3").await;
    assert_eq!(store.allocate(&sequence, count(10), None).await.unwrap().start, 11, "it goes on where it stood");
    store.renew(&lease, &holder(2), &terms()).await.unwrap();
}

#[tokio::test]
async fn the_database_is_as_durable_as_promised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let _store = used(&path).await;
    let mode = sqlx::query("PRAGMA journal_mode").fetch_one(&mut connect(&path).await).await.unwrap();
    assert_eq!(mode.get::<String, _>(0), "wal");
    let tables = sqlx::query("SELECT name FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL")
        .fetch_all(&mut connect(&path).await)
        .await
        .unwrap();
    assert_eq!(tables.len(), 15);
    assert!(tables.iter().all(|table| table.get::<String, _>(0).starts_with("mintage_")), "every name has the prefix");
}

#[tokio::test]
async fn files_that_are_no_database_are_corrupt_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    for foreign in
        [b"x".to_vec(), b"a diary, not a database".to_vec(), vec![0xff; 8_192], b"SQLite format 2\0".repeat(64)]
    {
        fs::write(&path, &foreign).unwrap();
        let error = open(&path).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("ids.db"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), foreign, "the file was touched");
    }
}

#[tokio::test]
async fn a_damaged_database_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    drop(used(&path).await);
    // Closing is done by another thread; a last connection moves everything into the one file.
    tamper(&path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let good = fs::read(&path).unwrap();
    let scribbled: Vec<u8> = good.iter().enumerate().map(|(at, byte)| if at < 100 { *byte } else { 0xa5 }).collect();
    for bad in [&good[..good.len() / 2], &good[..4_096], scribbled.as_slice()] {
        let path = folder.path().join("copy.db");
        fs::write(&path, bad).unwrap();
        let error = match open(&path).await {
            Ok(store) => store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn schemas_of_other_versions_are_refused() {
    for (sql, kind, told) in [
        ("UPDATE mintage_schema SET version = 4", StoreErrorKind::Refused, "newer Mintage (schema 4"),
        ("UPDATE mintage_schema SET version = 0", StoreErrorKind::Corrupt, "never existed"),
        ("DELETE FROM mintage_schema", StoreErrorKind::Corrupt, "0 rows"),
        ("INSERT INTO mintage_schema VALUES (3)", StoreErrorKind::Corrupt, "2 rows"),
        ("DROP TABLE mintage_schema", StoreErrorKind::Corrupt, "not as Mintage made them"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.db");
        drop(used(&path).await);
        tamper(&path, sql).await;
        let error = open(&path).await.expect_err(sql);
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.to_string().contains(told), "{sql}: {error}");
    }
}

/// A database of the first version gets the table of tokens, once, and keeps all it had; of processes that open it at once,
/// one does the work.
#[tokio::test]
async fn a_database_of_version_1_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    drop(used(&path).await);
    tamper(&path, "DROP TABLE mintage_token; DROP TABLE mintage_stopped; UPDATE mintage_schema SET version = 1").await;
    let opened = tokio::join!(open(&path), open(&path), open(&path), open(&path));
    let store = opened.0.unwrap();
    for other in [opened.1, opened.2, opened.3] {
        other.unwrap();
    }
    assert_eq!(store.list("api_keys").await.unwrap(), []);
    store.insert(&token()).await.unwrap();
    assert_eq!(store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap().start, 11);
    assert_eq!(open(&path).await.unwrap().find("api_keys", &[7; 32]).await.unwrap(), Some(token()));
    let mut conn = connect(&path).await;
    let version: i64 = sqlx::query_scalar("SELECT version FROM mintage_schema").fetch_one(&mut conn).await.unwrap();
    assert_eq!(version, 3);
}

/// An upgrade that fails half way leaves the database as it was.
#[tokio::test]
async fn an_upgrade_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    drop(used(&path).await);
    tamper(&path, "DROP TABLE mintage_token; DROP TABLE mintage_stopped; CREATE VIEW mintage_token_by_hash AS SELECT 1; UPDATE mintage_schema SET version = 1")
        .await;
    let error = open(&path).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    let mut conn = connect(&path).await;
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = 'mintage_token'")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(tables, 0);
    tamper(&path, "DROP VIEW mintage_token_by_hash").await;
    assert_eq!(open(&path).await.unwrap().list("api_keys").await.unwrap(), []);
}

#[tokio::test]
async fn senseless_tokens_are_corrupt() {
    for sql in [
        "UPDATE mintage_token SET hash = x'07'",
        "UPDATE mintage_token SET scopes = 'orders:read  orders:write'",
        "UPDATE mintage_token SET scopes = 'Orders'",
        "UPDATE mintage_token SET label = char(27) || '[2J'",
        "UPDATE mintage_token SET id = 'ONE'",
        "UPDATE mintage_token SET issued_ms = -1",
        "UPDATE mintage_token SET expires_ms = -1",
        "UPDATE mintage_token SET revoked_ms = -9223372036854775808",
        "DROP TABLE mintage_token",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.db");
        let store = used(&path).await;
        tamper(&path, sql).await;
        let error = store.list("api_keys").await.expect_err(sql);
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{sql}: {error}");
    }
}

/// Whatever stands in a column: an error, never a panic, never a number from it.
#[tokio::test]
async fn senseless_values_are_corrupt() {
    const LOOSE: &str =
        "ALTER TABLE mintage_sequence RENAME TO old; CREATE TABLE mintage_sequence (name, last, version);";
    for sql in [
        "UPDATE mintage_sequence SET last = -2",
        "UPDATE mintage_sequence SET last = -9223372036854775808",
        "UPDATE mintage_sequence SET version = -1",
        "UPDATE mintage_sequence SET version = 9223372036854775807",
        "UPDATE mintage_range_key SET asked = 4294967296",
        "UPDATE mintage_range_key SET first = 100",
        "INSERT INTO mintage_sequence VALUES ('orders', NULL, 1)",
        "INSERT INTO mintage_sequence VALUES ('orders', 'eleven', 1)",
        "INSERT INTO mintage_sequence VALUES ('orders', 10.5, 1)",
        "INSERT INTO mintage_sequence VALUES ('orders', x'0a', 1)",
        "UPDATE mintage_pool SET block_start = 4294967295",
        "UPDATE mintage_pool SET block_start = -1",
        "UPDATE mintage_pool SET block_len = 0",
        "UPDATE mintage_pool SET block_len = 4294967296",
        "UPDATE mintage_pool SET inc = 9223372036854775807",
        "UPDATE mintage_pool SET granted_at_ms = 9223372036854775807",
        "UPDATE mintage_pool SET guard_ms = 9223372036854775807",
        "UPDATE mintage_worker SET epoch = 9223372036854775807",
        "UPDATE mintage_worker SET epoch = -1",
        "UPDATE mintage_worker SET floor_ms = -1",
        "UPDATE mintage_worker SET holder = x'01'",
        "UPDATE mintage_worker SET revoked = 2",
        "UPDATE mintage_worker SET worker = -1",
        "UPDATE mintage_format SET format = 'nonsense'",
        "DROP TABLE mintage_sequence",
        "DROP TABLE mintage_worker",
        "DROP TABLE mintage_range_key",
        "DROP TABLE mintage_format",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.db");
        let store = used(&path).await;
        if sql.starts_with("INSERT") {
            tamper(&path, LOOSE).await;
        }
        tamper(&path, sql).await;
        let (sequence, key) = (Sequence::new("orders", 1), IdempotencyKey::new("request-1").unwrap());
        let error = if sql.contains("_sequence") || sql.contains("_range_key") {
            store.allocate(&sequence, count(10), Some(&key)).await.map(drop)
        } else if sql.contains("_worker SET") {
            store.leases(&pool("main", 0..4)).await.map(drop)
        } else if sql.contains("_format") {
            store.pin("events", &Format::of("snowflake")).await
        } else {
            store.acquire(&pool("main", 0..4), WorkerChoice::Any, &holder(2), &terms()).await.map(drop)
        };
        let error = error.expect_err(sql);
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_deleted_row_is_missed_and_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let store = used(&path).await;
    tamper(&path, "DELETE FROM mintage_sequence; DELETE FROM mintage_worker").await;
    let error = store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(store.sequences().await.unwrap().is_empty());
    tamper(&path, "DELETE FROM mintage_pool").await;
    let mut known = pool("main", 0..4);
    known.known = true;
    let error = store.acquire(&known, WorkerChoice::Any, &holder(2), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
}

/// An open database lives on after its file was deleted or replaced: going on would repeat the numbers of the new one.
#[cfg(unix)]
#[tokio::test]
async fn a_database_that_was_deleted_or_replaced_while_open_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let sequence = Sequence::new("orders", 1);
    let store = used(&path).await;
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(folder.path().join(format!("ids.db{suffix}"))).unwrap();
    }
    for _ in 0..2 {
        let error = store.allocate(&sequence, count(1), None).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    }
    assert!(!path.exists(), "a call made the file again");
    let new = used(&path).await;
    new.allocate(&sequence, count(1), None).await.unwrap();
    let error = store.allocate(&sequence, count(1), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    assert!(error.to_string().contains("replaced"), "{error}");
}

/// Of 65536 rows a claim reads the few that can win.
#[tokio::test]
async fn a_claim_from_a_full_16_bit_pool_finds_the_one_free_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let store = open(&path).await.unwrap();
    let pool = pool("wide", 0..65_536);
    store.acquire(&pool, WorkerChoice::Any, &holder(0), &terms()).await.unwrap();
    tamper(
        &path,
        "INSERT INTO mintage_worker
         WITH RECURSIVE ids (id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM ids WHERE id < 65535)
         SELECT pool, region, id, inc, epoch, randomblob(16), instance, start_ms, floor_ms, expires_ms, free_after_ms,
                revoked, holder_clock_ms, renewed_ms
         FROM mintage_worker, ids WHERE id <> 40000",
    )
    .await;
    let lease = store.acquire(&pool, WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
    assert_eq!(lease.worker, 40_000);
    let full = store.acquire(&pool, WorkerChoice::Any, &holder(2), &terms()).await.unwrap_err();
    assert_eq!(full.kind(), StoreErrorKind::NoFreeWorker, "{full}");
}

/// The history of grants remembers what the row did.
#[tokio::test]
async fn a_deleted_worker_id_keeps_its_floor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let clock = ManualClock::at(NOW_MS);
    let store = SqliteStore::open(&path, Arc::new(clock.clone()), Duration::from_secs(20)).await.unwrap();
    let pool = pool("main", 0..2);
    let before = store.acquire(&pool, WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
    clock.advance(500);
    let before = store.renew(&before, &holder(1), &terms()).await.unwrap();
    tamper(&path, "DELETE FROM mintage_worker").await;
    // What an operator does with it makes no id of it that nobody used.
    LeaseStore::revoke(&store, &pool, 0).await.unwrap();
    store.free(&pool, 0).await.unwrap();
    let other = store.acquire(&pool, WorkerChoice::Any, &holder(2), &terms()).await.unwrap();
    assert_eq!(other.worker, 1, "the id whose window is not over comes last");
    clock.advance(before.window.end - clock_now(&clock));
    let after = store.acquire(&pool, WorkerChoice::Exactly(0), &holder(3), &terms()).await.unwrap();
    assert!(after.window.start >= before.window.end, "{after:?} overlaps {before:?}");
    assert!(after.fence.epoch > before.fence.epoch);
}

fn clock_now(clock: &ManualClock) -> u64 {
    mintage_core::Clock::unix_ms(clock)
}

/// An application's own database stays as it is: no table, no other journal, no upgrade.
#[tokio::test]
async fn reading_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let clock: Arc<ManualClock> = Arc::new(ManualClock::at(NOW_MS));
    let look = async || SqliteStore::open_existing(&path, clock.clone(), Duration::from_secs(20)).await;
    assert!(look().await.unwrap().is_none() && !path.exists());
    let mut conn = SqliteConnectOptions::new().filename(&path).create_if_missing(true).connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE app (id INTEGER)").execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
    let before = fs::read(&path).unwrap();
    assert!(look().await.unwrap().is_none());
    assert_eq!(fs::read(&path).unwrap(), before);

    used(&path).await;
    tamper(&path, "DROP TABLE mintage_token; DROP TABLE mintage_stopped; UPDATE mintage_schema SET version = 1").await;
    let store = look().await.unwrap().unwrap();
    assert_eq!(store.leases(&pool("main", 0..4)).await.unwrap().len(), 1);
    let mut conn = connect(&path).await;
    let version: i64 = sqlx::query("SELECT version FROM mintage_schema").fetch_one(&mut conn).await.unwrap().get(0);
    assert_eq!(version, 1, "a reader upgraded it");
    assert!(store.waiting().await.unwrap().is_empty());
    // Whoever makes a sequence, bumps or raises changes the database anyway.
    store.create(&Sequence::new("bills", 1)).await.unwrap();
    assert!(store.stop_all().await.unwrap() && store.bump_all().await.unwrap());
    assert_eq!(store.waiting().await.unwrap(), ["*", "bills", "orders"]);
    let version: i64 = sqlx::query("SELECT version FROM mintage_schema").fetch_one(&mut conn).await.unwrap().get(0);
    assert_eq!(version, 3);
    tamper(&path, "UPDATE mintage_schema SET version = 9").await;
    assert_eq!(look().await.unwrap_err().kind(), StoreErrorKind::Refused);
}

/// Two installations in one file, told apart by what their tables are called.
#[tokio::test]
async fn two_prefixes_are_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let clock: Arc<ManualClock> = Arc::new(ManualClock::at(NOW_MS));
    let patience = Duration::from_secs(20);
    let prefix = |text: &str| TablePrefix::new(text).unwrap();
    let open = async |text: &str| SqliteStore::open_named(&path, clock.clone(), patience, prefix(text)).await.unwrap();
    let (ours, theirs) = (open("billing_ids_").await, open("mintage_two_").await);
    let usual = SqliteStore::open_existing(&path, clock.clone(), patience).await.unwrap();
    assert!(usual.is_none(), "no table under the usual name");
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..4));
    for store in [&ours, &theirs] {
        store.create(&orders).await.unwrap();
        let key = IdempotencyKey::new("once").unwrap();
        let first = store.allocate(&orders, count(5), Some(&key)).await.unwrap();
        assert_eq!((first.start, first.end), (1, 6));
        let next = store.allocate(&orders, count(5), None).await.unwrap();
        assert!(store.give_back(next).await.unwrap());
        let lease = store.acquire(&main, WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
        assert_eq!(lease.worker, 0);
        assert_eq!(store.leases(&main).await.unwrap().len(), 1);
        assert_eq!(store.history(&main, lease.window.start).await.unwrap().len(), 1);
        LeaseStore::revoke(store, &main, 3).await.unwrap();
        store.free(&main, 3).await.unwrap();
        store.bump(&main).await.unwrap();
        assert!(store.pinned("orders").await.unwrap().is_none());
        store.pin("orders", &Format::of("segment")).await.unwrap();
        store.insert(&TokenRow::new("api_keys", "7km1dzhm", [7; 32], 1)).await.unwrap();
        GaplessStore::prepare(store).await.unwrap();
        assert!(store.reservations("orders").await.unwrap().is_empty());
    }
    ours.raise(&orders, 900).await.unwrap();
    assert_eq!(theirs.sequence("orders").await.unwrap().unwrap().next, 6);
    let ours = SqliteStore::open_existing_named(&path, clock.clone(), patience, prefix("billing_ids_")).await.unwrap();
    assert_eq!(ours.unwrap().sequence("orders").await.unwrap().unwrap().next, 900);
    tamper(&path, "UPDATE billing_ids_schema SET version = 9").await;
    let error = SqliteStore::open_named(&path, clock.clone(), patience, prefix("billing_ids_")).await.unwrap_err();
    assert!(error.to_string().contains("newer Mintage"), "{error}");
    open("mintage_two_").await;
}
