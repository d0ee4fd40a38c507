//! Today's code beside a process of an earlier Mintage, in one database; and the tables as they are today, which the next version must
//! read and go on from.

use std::ops::Range;

use mintage_backends::{DatabaseStore, Dialect};
use mintage_core::{IdRange, Lease, LeaseStore, RangeHistory, RangeStore, Sequence, StoreErrorKind, WorkerPool};

use crate::{Kind, Server, assert_disjoint, claim, claim_in_time, count, holder, on_both, open, pool, terms};

on_both!(
    numbers_are_shared_with_an_older_process,
    windows_are_shared_with_an_older_process,
    the_tables_are_those_of_schema_1
);

const DATABASE: [&str; 2] = ["older_numbers", "older_windows"];

/// The tables of schema 1. To be left as they are: what differs from them is schema 2.
fn tables_of_schema_1(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => include_str!("../../../tests/vectors/stores/postgres-1.sql"),
        Kind::MariaDb => include_str!("../../../tests/vectors/stores/mysql-1.sql"),
    }
}

/// A process of the last commit before ranges had a history (5f28e11): its statements, as it ran them, and its arithmetic, written
/// out. Nothing here follows today's rules, or it would move with them.
struct Older<'a> {
    server: &'a Server,
    database: &'a str,
}

/// A lease as that process holds it.
#[derive(Clone, Debug)]
struct Held {
    worker: u32,
    inc: u64,
    epoch: u64,
    token: u8,
    window: Range<u64>,
}

impl Older<'_> {
    fn sql(&self, sql: &str) -> String {
        self.server.sql(self.database, sql)
    }

    /// The rows that a statement answers, of whole numbers.
    fn rows<const N: usize>(&self, sql: &str) -> Vec<[u64; N]> {
        let text = self.sql(sql);
        let row = |line: &str| -> [u64; N] {
            let numbers: Vec<u64> = line.split(['|', '\t']).map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        };
        text.lines().filter(|line| !line.is_empty()).map(row).collect()
    }

    fn row<const N: usize>(&self, sql: &str) -> [u64; N] {
        self.rows(sql)[0]
    }

    fn now_ms(&self) -> u64 {
        let [now_ms] = self.row(match self.server {
            Server::Postgres(_) => "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
            Server::MariaDb(_) => "SELECT CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)",
        });
        now_ms
    }

    fn token(&self, token: u8) -> String {
        match self.server {
            Server::Postgres(_) => format!("'\\x{token:032x}'"),
            Server::MariaDb(_) => format!("X'{token:032x}'"),
        }
    }

    /// The name of the server, as the row of a table of today says it.
    fn life(&self) -> String {
        self.sql("SELECT incarnation FROM mintage_sequence WHERE name = '*'").trim().to_owned()
    }

    fn create(&self, start: u64) {
        let (life, last) = (self.life(), start - 1);
        self.sql(&format!(
            "INSERT INTO mintage_sequence (name, incarnation, last, version) VALUES ('orders', '{life}', {last}, 0)"
        ));
    }

    fn allocate(&self, len: u64) -> IdRange {
        let [last, version] = self.row("SELECT last, version FROM mintage_sequence WHERE name = 'orders' FOR UPDATE");
        self.replace(last + len, version);
        IdRange::new("orders", last + 1, last + len + 1, version + 1)
    }

    fn give_back(&self, tail: &IdRange) -> bool {
        let [last, version] = self.row("SELECT last, version FROM mintage_sequence WHERE name = 'orders' FOR UPDATE");
        if (last + 1, version) != (tail.end, tail.version) {
            return false;
        }
        self.replace(tail.start - 1, version);
        true
    }

    fn replace(&self, last: u64, version: u64) {
        let (life, next) = (self.life(), version + 1);
        self.sql(&format!(
            "UPDATE mintage_sequence SET incarnation = '{life}', last = {last}, version = {next} \
             WHERE name = 'orders' AND version = {version}"
        ));
    }

    /// Takes a worker id of `main` as soon as one is free, its last window over.
    async fn claim(&self, token: u8) -> Held {
        for _ in 0..200 {
            if let Some(held) = self.claim_now(token) {
                return held;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("no worker id in ten seconds");
    }

    fn claim_now(&self, token: u8) -> Option<Held> {
        let [block_len, inc, floor_min_ms] = self.row(
            "SELECT block_len, inc, floor_min_ms FROM mintage_pool WHERE pool = 'main' AND region = '' FOR UPDATE",
        );
        let rows: Vec<[u64; 6]> = self.rows(
            "SELECT worker, epoch, CASE WHEN holder IS NULL THEN 0 ELSE 1 END, floor_ms, expires_ms, free_after_ms \
             FROM mintage_worker WHERE pool = 'main' AND region = '' AND revoked = 0 ORDER BY worker",
        );
        let now_ms = self.now_ms();
        let idle = rows.iter().find(|[_, _, held, floor_ms, expires_ms, free_after_ms]| {
            (*held == 0 || *expires_ms <= now_ms) && *free_after_ms <= now_ms && (*floor_ms).max(floor_min_ms) <= now_ms
        });
        let unused = (0..block_len).find(|worker| rows.iter().all(|row| row[0] != *worker));
        let unused = unused.filter(|_| floor_min_ms <= now_ms);
        let (worker, epoch) = match (idle, unused) {
            (Some([worker, epoch, ..]), _) => (*worker, epoch + 1),
            (None, worker) => (worker?, 1),
        };
        let window = now_ms..now_ms + 2_000;
        let (holder, end, expires_ms) = (self.token(token), window.end, now_ms + 1_000);
        self.sql(&if epoch == 1 {
            format!(
                "INSERT INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, \
                 free_after_ms, revoked, holder_clock_ms, renewed_ms) VALUES ('main', '', {worker}, {inc}, {epoch}, {holder}, \
                 'older', {now_ms}, {end}, {expires_ms}, 0, 0, {now_ms}, {now_ms})"
            )
        } else {
            format!(
                "UPDATE mintage_worker SET inc = {inc}, epoch = {epoch}, holder = {holder}, instance = 'older', start_ms = {now_ms}, \
                 floor_ms = {end}, expires_ms = {expires_ms}, free_after_ms = 0, revoked = 0, holder_clock_ms = {now_ms}, \
                 renewed_ms = {now_ms} WHERE pool = 'main' AND region = '' AND worker = {worker}"
            )
        });
        self.granted(inc, floor_min_ms, now_ms);
        self.sql(&format!(
            "INSERT INTO mintage_grant (pool, region, worker, inc, epoch, instance, from_ms, to_ms) \
             VALUES ('main', '', {worker}, {inc}, {epoch}, 'older', {now_ms}, {end})"
        ));
        self.sql("DELETE FROM mintage_grant WHERE pool = 'main' AND region = '' AND to_ms < 1");
        Some(Held { worker: worker as u32, inc, epoch, token, window })
    }

    /// `None` where another has the worker id, or the pool was bumped.
    fn renew(&self, held: &Held) -> Option<Held> {
        let floor_min_ms = self.fence(held)?;
        let now_ms = self.now_ms();
        let renewed = Held { window: held.window.start..held.window.end.max(now_ms + 2_000), ..held.clone() };
        let (end, expires_ms) = (renewed.window.end, now_ms + 1_000);
        self.put(
            held,
            &format!("floor_ms = {end}, expires_ms = {expires_ms}, holder_clock_ms = {now_ms}, renewed_ms = {now_ms}"),
        );
        self.granted(held.inc, floor_min_ms, now_ms);
        self.end_grant(held, end);
        Some(renewed)
    }

    /// Gives it back, used up to `first_unused_ms`.
    fn release(&self, held: &Held, first_unused_ms: u64) {
        self.fence(held).unwrap();
        let now_ms = self.now_ms();
        self.put(
            held,
            &format!("floor_ms = {first_unused_ms}, holder = NULL, expires_ms = 0, free_after_ms = {now_ms}"),
        );
        self.end_grant(held, first_unused_ms);
    }

    fn fence(&self, held: &Held) -> Option<u64> {
        let Held { worker, inc, epoch, token, .. } = held;
        let token = self.token(*token);
        let [pool_inc, floor_min_ms] =
            self.row("SELECT inc, floor_min_ms FROM mintage_pool WHERE pool = 'main' AND region = '' FOR UPDATE");
        let [current] = self.row(&format!(
            "SELECT count(*) FROM mintage_worker WHERE pool = 'main' AND region = '' AND worker = {worker} AND inc = {inc} \
             AND epoch = {epoch} AND holder = {token} AND revoked = 0"
        ));
        (pool_inc == *inc && current == 1).then_some(floor_min_ms)
    }

    fn put(&self, held: &Held, values: &str) {
        self.sql(&format!(
            "UPDATE mintage_worker SET {values} WHERE pool = 'main' AND region = '' AND worker = {}",
            held.worker
        ));
    }

    fn granted(&self, inc: u64, floor_min_ms: u64, now_ms: u64) {
        let life = self.life();
        self.sql(&format!(
            "UPDATE mintage_pool SET incarnation = '{life}', inc = {inc}, floor_min_ms = {floor_min_ms}, granted_at_ms = {now_ms} \
             WHERE pool = 'main' AND region = ''"
        ));
    }

    fn end_grant(&self, held: &Held, end_ms: u64) {
        let Held { worker, inc, epoch, .. } = held;
        self.sql(&format!(
            "UPDATE mintage_grant SET to_ms = {end_ms} \
             WHERE pool = 'main' AND region = '' AND worker = {worker} AND inc = {inc} AND epoch = {epoch}"
        ));
    }
}

/// Tables of before, today's process, and the older one.
async fn both<'a>(server: &'a Server, kind: Kind, database: &'a str) -> (DatabaseStore, Older<'a>) {
    let url = server.database(database);
    server.sql(database, tables_of_schema_1(kind));
    (open(&url).await, Older { server, database })
}

async fn numbers_are_shared_with_an_older_process(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let (store, older) = both(server, kind, DATABASE[0]).await;
    let orders = Sequence::new("orders", 1);
    let today = async |len: u32| store.allocate(&orders, count(len), None).await.unwrap();
    older.create(1);
    store.create(&orders).await.unwrap();
    let mut ranges = vec![older.allocate(10), today(10).await, older.allocate(10)];
    // Each gives a tail back, and the other goes on from there.
    for by_older in [true, false] {
        let whole = ranges.pop().unwrap();
        let middle = whole.start + 4;
        let tail = IdRange::new("orders", middle, whole.end, whole.version);
        assert!(if by_older { older.give_back(&tail) } else { store.give_back(tail.clone()).await.unwrap() });
        assert!(!older.give_back(&tail) && !store.give_back(tail).await.unwrap(), "a second time");
        ranges.push(IdRange::new("orders", whole.start, middle, whole.version));
        ranges.push(if by_older { today(10).await } else { older.allocate(10) });
        assert_eq!(ranges.last().unwrap().start, middle);
    }
    // Neither takes back what the other has cut from.
    let last = ranges.last().unwrap().clone();
    ranges.push(today(1).await);
    assert!(!older.give_back(&last));
    store.raise(&orders, 1_000).await.unwrap();
    ranges.push(older.allocate(3));
    assert_eq!(ranges.last().unwrap().start, 1_000);
    // What today's took is named; of the rest the history has no range, and none of another.
    for (nth, range) in ranges.iter().enumerate() {
        let by_today = [1, 3, 5].contains(&nth);
        for number in [range.start, range.end - 1] {
            let told = store.range_history("orders", number).await.unwrap();
            match by_today {
                true => assert_eq!(told.grants.iter().map(|grant| grant.start).collect::<Vec<_>>(), [range.start]),
                false => assert_eq!(told, RangeHistory::default(), "{range:?}"),
            }
        }
    }
    assert_disjoint(ranges);
}

async fn windows_are_shared_with_an_older_process(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let (store, older) = both(server, kind, DATABASE[1]).await;
    let main: WorkerPool = pool("main", 0..2);
    let mut used: Vec<(u32, Range<u64>)> = Vec::new();
    let one = claim(&store, &main, 1).await.unwrap();
    let two = older.claim(2).await;
    assert_eq!((one.worker, two.worker), (0, 1));
    let one = store.renew(&one, &holder(1), &terms()).await.unwrap();
    let two = older.renew(&two).unwrap();
    assert_eq!(claim(&store, &main, 3).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    assert!(older.claim_now(3).is_none(), "both are held");
    // Each takes what the other gave back, above what it used.
    let (first_unused_ms, worker) = (two.window.start + 300, two.worker);
    older.release(&two, first_unused_ms);
    used.push((two.worker, two.window.start..first_unused_ms));
    let three = claim_in_time(&store, &main, 3).await;
    assert_eq!(three.worker, worker);
    used.push((one.worker, one.window.start..one.window.start + 300));
    store.release(one.clone(), one.window.start + 300, &terms()).await.unwrap();
    let four = older.claim(4).await;
    assert_eq!(four.worker, one.worker);
    assert_eq!(store.renew(&one, &holder(1), &terms()).await.unwrap_err().kind(), StoreErrorKind::Fenced);
    assert!(older.renew(&two).is_none());
    let held = store.leases(&main).await.unwrap();
    assert_eq!(
        held.iter().map(|row| (row.instance.as_str(), row.held)).collect::<Vec<_>>(),
        [("older", true), ("host-3", true)]
    );
    // And what the other let expire.
    let four = older.renew(&four).unwrap();
    let five = claim_in_time(&store, &main, 5).await;
    used.extend([&three, &five].map(|lease: &Lease| (lease.worker, lease.window.clone())));
    used.push((four.worker, four.window.clone()));
    // An operator of today bumps the pool: the older process is fenced, and waits as everybody does.
    let six = older.claim(6).await;
    store.bump(&main).await.unwrap();
    assert!(older.renew(&six).is_none() && older.claim_now(7).is_none());
    let seven = older.claim(7).await;
    assert!(seven.window.start > six.window.end && seven.inc == six.inc + 1);
    used.extend([six, seven].map(|held| (held.worker, held.window)));
    for (nth, (worker, window)) in used.iter().enumerate() {
        for (other, later) in used.iter().skip(nth + 1).filter(|(other, _)| other == worker) {
            assert!(window.end <= later.start || later.end <= window.start, "{worker} {window:?}, {other} {later:?}");
        }
    }
    // What today's code tells of the past names the older process.
    let at_ms = used.last().unwrap().1.start;
    let named = store.history(&main, at_ms).await.unwrap();
    assert!(named.iter().any(|grant| grant.instance == "older" && grant.window.contains(&at_ms)), "{named:?}");
}

/// A table that changes is another schema, which today's processes must be told of: not a change of this file.
async fn the_tables_are_those_of_schema_1(kind: Kind) {
    let dialect = match kind {
        Kind::Postgres => Dialect::Postgres,
        Kind::MariaDb => Dialect::MySql,
    };
    // The history of ranges came without a schema of its own: who does not know the table leaves it alone.
    assert_eq!(dialect.ddl(), format!("{}{}", dialect.range_ddl(), tables_of_schema_1(kind)));
}
