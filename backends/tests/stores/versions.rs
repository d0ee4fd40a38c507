//! Today's code beside a process of an earlier Mintage, in one SQLite database; and what today's stores write, which the next version
//! must read and go on from.

use std::{ops::Range, path::Path};

use mintage_backends::SqliteFactory;
use mintage_core::{
    Clock, IdRange, ManualClock, RangeHistory, Sequence, StoreErrorKind, TablePrefix, WorkerChoice,
    plugin::BackendFactory,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};

use crate::{NOW_MS, assert_disjoint, count, golden, holder, open, pool, terms};

/// What the last commit before ranges had a history (5f28e11) made.
const OLDER: &str = include_str!("../../../tests/vectors/stores/sqlite-2.sql");

/// A process of that commit that has the database open: its statements, as it ran them, and its arithmetic, written out. Nothing
/// here follows today's rules, or it would move with them.
struct Older {
    conn: SqliteConnection,
    clock: ManualClock,
}

/// A lease as that process holds it.
#[derive(Clone, Debug)]
struct Held {
    worker: i64,
    inc: i64,
    epoch: i64,
    token: i64,
    window: Range<i64>,
}

impl Older {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.unix_ms()).unwrap()
    }

    async fn row(&mut self, sql: &'static str) -> SqliteRow {
        sqlx::query(sql).fetch_one(&mut self.conn).await.unwrap()
    }

    async fn allocate(&mut self, len: i64) -> IdRange {
        let row = self.row("SELECT name, last, version FROM mintage_sequence WHERE name = 'orders'").await;
        let (last, version): (i64, i64) = (row.get("last"), row.get("version"));
        self.replace(last + len, version).await;
        range(last + 1, last + len + 1, version + 1)
    }

    async fn give_back(&mut self, tail: &IdRange) -> bool {
        let row = self.row("SELECT name, last, version FROM mintage_sequence WHERE name = 'orders'").await;
        let (last, version): (i64, i64) = (row.get("last"), row.get("version"));
        if (tail.end, tail.version) != (last as u64 + 1, version as u64) {
            return false;
        }
        self.replace(tail.start as i64 - 1, version).await;
        true
    }

    async fn replace(&mut self, last: i64, version: i64) {
        sqlx::query("UPDATE mintage_sequence SET last = ?, version = ? WHERE name = ? AND version = ?")
            .bind(last)
            .bind(version + 1)
            .bind("orders")
            .bind(version)
            .execute(&mut self.conn)
            .await
            .unwrap();
    }

    /// Takes this worker id, whose last window is over.
    async fn claim(&mut self, worker: i64, token: i64) -> Held {
        let pool = "SELECT region, block_start, block_len, inc, floor_min_ms, window_max_ms, ahead_max_ms, guard_ms, granted_at_ms
                    FROM mintage_pool WHERE pool = 'main'";
        let inc: i64 = self.row(pool).await.get("inc");
        let known = sqlx::query(
            "SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked,
                    holder_clock_ms, renewed_ms
             FROM mintage_worker WHERE pool = 'main' AND region = '' AND worker = ?",
        );
        let known = known.bind(worker).fetch_optional(&mut self.conn).await.unwrap();
        let epoch = known.as_ref().map_or(1, |row| row.get::<i64, _>("epoch") + 1);
        let floor_ms = known.as_ref().map_or(0, |row| row.get("floor_ms"));
        let start = self.now_ms().max(floor_ms);
        let held = Held { worker, inc, epoch, token, window: start..start + 60_000 };
        self.put(&held, Some(token)).await;
        sqlx::query("INSERT INTO mintage_grant (pool, region, worker, inc, epoch, instance, from_ms, to_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
            .bind("main")
            .bind("")
            .bind(worker)
            .bind(inc)
            .bind(epoch)
            .bind("older")
            .bind(held.window.start)
            .bind(held.window.end)
            .execute(&mut self.conn)
            .await
            .unwrap();
        held
    }

    async fn renew(&mut self, held: &Held) -> Held {
        let end = held.window.end.max(self.now_ms() + 60_000);
        let longer = Held { window: held.window.start..end, ..held.clone() };
        self.put(&longer, Some(held.token)).await;
        self.end_grant(&longer).await;
        longer
    }

    async fn release(&mut self, held: &Held, first_unused_ms: i64) {
        let used = Held { window: held.window.start..first_unused_ms, ..held.clone() };
        self.put(&used, None).await;
        self.end_grant(&used).await;
    }

    async fn put(&mut self, held: &Held, token: Option<i64>) {
        let now_ms = self.now_ms();
        sqlx::query(
            "INSERT OR REPLACE INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms,
                                                    expires_ms, free_after_ms, revoked, holder_clock_ms, renewed_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind("main")
        .bind("")
        .bind(held.worker)
        .bind(held.inc)
        .bind(held.epoch)
        .bind(token.map(|token| u128::try_from(token).unwrap().to_be_bytes().to_vec()))
        .bind("older")
        .bind(held.window.start)
        .bind(held.window.end)
        .bind(if token.is_some() { now_ms + 10_000 } else { 0 })
        .bind(if token.is_some() { 0 } else { now_ms })
        .bind(0)
        .bind(now_ms)
        .bind(now_ms)
        .execute(&mut self.conn)
        .await
        .unwrap();
        sqlx::query(
            "UPDATE mintage_pool SET granted_at_ms = max(granted_at_ms, ?) WHERE pool = 'main' AND region = ''",
        )
        .bind(now_ms)
        .execute(&mut self.conn)
        .await
        .unwrap();
    }

    async fn end_grant(&mut self, held: &Held) {
        sqlx::query(
            "UPDATE mintage_grant SET to_ms = ? WHERE pool = ? AND region = ? AND worker = ? AND inc = ? AND epoch = ?",
        )
        .bind(held.window.end)
        .bind("main")
        .bind("")
        .bind(held.worker)
        .bind(held.inc)
        .bind(held.epoch)
        .execute(&mut self.conn)
        .await
        .unwrap();
    }
}

/// A database with these statements run in it.
async fn make(path: &Path, sql: &str) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut conn = options.connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    conn
}

fn range(start: i64, end: i64, version: i64) -> IdRange {
    IdRange::new("orders", start as u64, end as u64, version as u64)
}

#[tokio::test]
async fn numbers_and_windows_are_shared_with_an_older_process() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("ids.db"), ManualClock::at(NOW_MS));
    let mut older = Older { conn: make(&path, OLDER).await, clock: clock.clone() };
    let made =
        "INSERT INTO mintage_sequence (name, last, version) VALUES ('orders', 0, 0) ON CONFLICT (name) DO NOTHING";
    sqlx::raw_sql(made).execute(&mut older.conn).await.unwrap();
    let first = older.allocate(10).await;
    // Brings the database to schema 3, under the process that has it open.
    let store = open("sqlite:ids.db", folder.path(), &clock).await.unwrap();
    let (leases, ranges) = (store.leases.unwrap(), store.ranges.unwrap());
    let orders = Sequence::new("orders", 1);

    let mut all = vec![first, ranges.allocate(&orders, count(10), None).await.unwrap()];
    let whole = older.allocate(10).await;
    let tail = IdRange::new("orders", whole.start + 4, whole.end, whole.version);
    assert!(older.give_back(&tail).await && !ranges.give_back(tail.clone()).await.unwrap());
    all.push(IdRange::new("orders", whole.start, tail.start, whole.version));
    let whole = ranges.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!(whole.start, tail.start);
    let tail = IdRange::new("orders", whole.start + 4, whole.end, whole.version);
    assert!(ranges.give_back(tail.clone()).await.unwrap() && !older.give_back(&tail).await);
    all.push(IdRange::new("orders", whole.start, tail.start, whole.version));
    all.push(older.allocate(3).await);
    ranges.raise(&orders, 1_000).await.unwrap();
    all.push(older.allocate(3).await);
    assert_eq!(all.last().unwrap().start, 1_000);
    for (nth, range) in all.iter().enumerate() {
        let told = ranges.range_history("orders", range.end - 1).await.unwrap();
        match nth {
            1 | 3 => assert_eq!(told.grants.iter().map(|grant| grant.start).collect::<Vec<_>>(), [range.start]),
            // Without a process, and without a reason to doubt the others.
            _ => assert_eq!(told, RangeHistory::default(), "{range:?}"),
        }
    }
    assert_disjoint(all);

    let main = pool("main", 0..2);
    let claim = async |nth: u32| leases.acquire(&main, WorkerChoice::Any, &holder(nth), &terms()).await;
    let one = claim(1).await.unwrap();
    let two = older.claim(1, 2).await;
    clock.advance(1_000);
    let two = older.renew(&two).await;
    assert_eq!(claim(3).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    older.release(&two, two.window.start + 1_000).await;
    let three = claim(3).await.unwrap();
    assert_eq!((three.worker, three.window.start as i64), (1, two.window.start + 1_000));
    leases.release(one.clone(), one.window.start + 1_000, &terms()).await.unwrap();
    let four = older.claim(0, 4).await;
    assert_eq!((four.window.start as u64, four.epoch as u64), (one.window.start + 1_000, one.fence.epoch + 1));
    assert_eq!(leases.renew(&one, &holder(1), &terms()).await.unwrap_err().kind(), StoreErrorKind::Fenced);
    // What it let expire is granted above its window.
    clock.advance(70_000);
    let five = claim(5).await.unwrap();
    assert_eq!(five.worker, 0);
    assert!(five.window.start as i64 >= four.window.end);
    let named = leases.history(&main, four.window.start as u64).await.unwrap();
    assert!(named.iter().any(|grant| grant.instance == "older"), "{named:?}");

    // What came with schema 3 it does not know: a sequence that an operator has stopped goes on for it. It must end before.
    assert!(ranges.stop_all().await.unwrap());
    assert_eq!(ranges.allocate(&orders, count(1), None).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    assert_eq!(older.allocate(1).await.start, 1_003);
}

/// To be left as they are: what differs from them is another schema, and has a file of its own beside these.
#[tokio::test]
async fn what_was_stored_goes_on() {
    for (url, file) in [("sqlite:ids.db", "sqlite-3.sql"), ("file:ids", "file-3.json")] {
        let folder = tempfile::tempdir().unwrap();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/stores").join(file);
        let kept = std::fs::read_to_string(kept).unwrap();
        if url.starts_with("sqlite") {
            make(&folder.path().join("ids.db"), &kept).await;
        } else {
            std::fs::create_dir(folder.path().join("ids")).unwrap();
            std::fs::write(folder.path().join("ids/state.json"), &kept).unwrap();
        }
        let store = open(url, folder.path(), &ManualClock::at(golden::NOW_MS + 5_000)).await.unwrap();
        golden::goes_on(&store).await;
        let token = store.tokens.unwrap().find("api_keys", &[7; 32]).await.unwrap().unwrap();
        assert_eq!((token.id.as_str(), token.scopes.as_slice()), ("7km1dzhm", &["orders:read".to_owned()][..]));
        if let Ok(written) = std::fs::read_to_string(folder.path().join("ids/state.json")) {
            golden::has_no_other_fields(
                &serde_json::from_str(&written).unwrap(),
                &serde_json::from_str(&kept).unwrap(),
            );
        }
    }
}

/// A table that changes is another schema, of which an older process is told: not a change of this file.
#[tokio::test]
async fn the_tables_are_those_of_schema_3() {
    let tables = async |sql: String| {
        let mut conn = make(Path::new(":memory:"), &sql).await;
        let sql = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name";
        sqlx::query_scalar::<_, String>(sql).fetch_all(&mut conn).await.unwrap()
    };
    let today = SqliteFactory.ddl(&TablePrefix::default()).unwrap();
    let kept = include_str!("../../../tests/vectors/stores/sqlite-3.sql");
    assert_eq!(tables(today.replace("PRAGMA journal_mode = WAL;", "")).await, tables(kept.to_owned()).await);
}
