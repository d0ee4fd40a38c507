//! Today's code beside a process of an earlier Mintage, in one Redis; and the records as they are today, on etcd, which the next version
//! must read and go on from.

use std::ops::Range;

use mintage_core::{IdempotencyKey, ManualClock, RangeHistory};
use mintage_servers_for_tests::{Etcd, Redis};
use serde_json::{Value, json};

use super::{etcd::base64, *};

/// A record of each kind. To be left as they are: what differs from them is another schema, and has a file of its own.
const SCHEMA_1: &str = include_str!("../../../tests/vectors/stores/cells-1.json");

/// A process of the last commit before ranges had a history (5f28e11): the records that it wrote, and its arithmetic, written out.
/// Nothing here follows today's rules, or it would move with them.
struct Older<'a> {
    server: &'a Redis,
}

/// A lease as that process holds it.
#[derive(Clone, Debug)]
struct Held {
    worker: u64,
    inc: u64,
    epoch: u64,
    token: u64,
    window: Range<u64>,
}

impl Older<'_> {
    /// A record and its version. That process refused what it did not know: so these fields and no others.
    fn read(&self, key: &str, fields: &[&str]) -> (u64, Value) {
        let text = self.server.command(&["GET", &format!("{{mintage}}:{key}")]);
        let (version, json) = text.split_once(' ').unwrap();
        let record: Value = serde_json::from_str(json).unwrap();
        assert_eq!(names(&record), fields, "{key}");
        (version.parse().unwrap(), record)
    }

    fn write(&self, key: &str, version: u64, record: &Value) {
        let (key, text) = (format!("{{mintage}}:{key}"), format!("{} {record}", version + 1));
        assert_eq!(self.server.command(&["SET", &key, &text]), "OK");
    }

    /// What it made of an empty Redis, with a sequence from 1.
    fn make(&self) {
        let life = self.life();
        self.write("registry", 0, &json!({"id": "0249e65d77a0c70467da9c52b8d9421b", "schema": 1}));
        self.write("sequences", 0, &json!({"names": ["orders"]}));
        let row = json!({"name": "orders", "next": 1, "version": 0});
        self.write("sequence:orders", 0, &json!({"row": row, "life": life, "keyed": false}));
        let row = json!({"block_start": 0, "block_len": 2, "inc": 1, "floor_min_ms": 0, "window_max_ms": WINDOW_MS,
            "ahead_max_ms": AHEAD_MS, "guard_ms": GUARD_MS, "granted_at_ms": 0});
        self.write("pool:main", 0, &json!({"regions": {"": {"row": row, "life": life, "chunks": [0]}}}));
        self.write("workers:main::0", 0, &json!({"workers": {}, "granted_at_ms": 0, "pages": []}));
    }

    fn life(&self) -> String {
        let info = self.server.command(&["INFO", "replication"]) + &self.server.command(&["INFO", "server"]);
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        format!("{}:{}", line("master_replid:"), line("run_id:"))
    }

    fn sequence(&self) -> (u64, Value) {
        let (version, record) = self.read("sequence:orders", &["keyed", "life", "row"]);
        assert_eq!(names(&record["row"]), ["name", "next", "version"]);
        assert_eq!(record["life"], self.life(), "it would wait to be raised");
        (version, record)
    }

    fn allocate(&self, len: u64) -> IdRange {
        let (version, mut record) = self.sequence();
        let (start, cut) = (number(&record["row"]["next"]), number(&record["row"]["version"]) + 1);
        record["row"]["next"] = json!(start + len);
        record["row"]["version"] = json!(cut);
        record["keyed"] = json!(false);
        self.write("sequence:orders", version, &record);
        IdRange::new("orders", start, start + len, cut)
    }

    fn give_back(&self, tail: &IdRange) -> bool {
        let (version, mut record) = self.sequence();
        if (number(&record["row"]["next"]), number(&record["row"]["version"])) != (tail.end, tail.version) {
            return false;
        }
        record["row"]["next"] = json!(tail.start);
        record["row"]["version"] = json!(tail.version + 1);
        self.write("sequence:orders", version, &record);
        true
    }

    fn pool(&self) -> Value {
        let (_, record) = self.read("pool:main", &["regions"]);
        let region = record["regions"][""].clone();
        assert_eq!(names(&region), ["chunks", "life", "row"]);
        assert_eq!(region["life"], self.life(), "it would bump the pool");
        region["row"].clone()
    }

    fn workers(&self) -> (u64, Value) {
        self.read("workers:main::0", &["granted_at_ms", "pages", "workers"])
    }

    /// Takes this worker id as soon as its last window is over.
    async fn claim(&self, worker: u64, token: u64) -> Held {
        let pool = self.pool();
        let (mut version, mut record) = self.workers();
        let free_ms = |record: &Value| {
            let row = &record["workers"][worker.to_string()];
            let held_until = if row["holder"].is_null() { 0 } else { number(&row["expires_ms"]) };
            let floor_ms = row["floor_ms"].as_u64().unwrap_or(0).max(number(&pool["floor_min_ms"]));
            held_until.max(floor_ms).max(row["free_after_ms"].as_u64().unwrap_or(0))
        };
        while free_ms(&record) > SystemClock.unix_ms() {
            sleep(20).await;
            (version, record) = self.workers();
        }
        let now_ms = SystemClock.unix_ms();
        let before = record["workers"][worker.to_string()].clone();
        let (inc, epoch) = (number(&pool["inc"]), before["epoch"].as_u64().unwrap_or(0) + 1);
        let held = Held { worker, inc, epoch, token, window: now_ms..now_ms + WINDOW_MS };
        if epoch > 1 {
            self.keep_grant(&mut record, &before);
        }
        record["workers"][worker.to_string()] = held.row(Some(token), now_ms);
        record["granted_at_ms"] = json!(now_ms);
        self.write("workers:main::0", version, &record);
        held
    }

    /// The first page of past grants holds all that this test needs.
    fn keep_grant(&self, record: &mut Value, row: &Value) {
        let key = "grants:main::0:0";
        let (version, mut page) = match record["pages"].as_array().unwrap().first() {
            Some(page) => {
                assert_eq!(names(page), ["from_ms", "len", "number", "to_ms"]);
                self.read(key, &["grants"])
            }
            None => {
                record["pages"] = json!([{"number": 0, "len": 0, "from_ms": u64::MAX, "to_ms": 0}]);
                (0, json!({"grants": []}))
            }
        };
        let (from_ms, to_ms) = (number(&row["start_ms"]), number(&row["floor_ms"]));
        page["grants"]
            .as_array_mut()
            .unwrap()
            .push(json!({"worker": row["worker"], "inc": row["inc"], "epoch": row["epoch"],
            "instance": row["instance"], "from_ms": from_ms, "to_ms": to_ms}));
        self.write(key, version, &page);
        let listed = &mut record["pages"][0];
        listed["len"] = json!(page["grants"].as_array().unwrap().len());
        listed["from_ms"] = json!(number(&listed["from_ms"]).min(from_ms));
        listed["to_ms"] = json!(number(&listed["to_ms"]).max(to_ms));
    }

    /// `None` where another has the worker id.
    fn renew(&self, held: &Held) -> Option<Held> {
        let (version, mut record) = self.workers();
        let row = &record["workers"][held.worker.to_string()];
        let current = row["epoch"] == held.epoch && row["holder"] == held.token;
        if !current || self.pool()["inc"] != held.inc {
            return None;
        }
        let now_ms = SystemClock.unix_ms();
        let longer = Held { window: held.window.start..held.window.end.max(now_ms + WINDOW_MS), ..held.clone() };
        record["workers"][held.worker.to_string()] = longer.row(Some(held.token), now_ms);
        record["granted_at_ms"] = json!(now_ms);
        self.write("workers:main::0", version, &record);
        Some(longer)
    }

    fn release(&self, held: &Held, first_unused_ms: u64) -> Held {
        let (version, mut record) = self.workers();
        let used = Held { window: held.window.start..first_unused_ms, ..held.clone() };
        record["workers"][held.worker.to_string()] = used.row(None, SystemClock.unix_ms());
        self.write("workers:main::0", version, &record);
        used
    }
}

impl Held {
    fn row(&self, holder: Option<u64>, now_ms: u64) -> Value {
        let (expires_ms, free_after_ms) = if holder.is_some() { (now_ms + WINDOW_MS, 0) } else { (0, now_ms) };
        json!({"worker": self.worker, "inc": self.inc, "epoch": self.epoch, "holder": holder, "instance": "older",
            "start_ms": self.window.start, "floor_ms": self.window.end, "expires_ms": expires_ms, "free_after_ms": free_after_ms,
            "revoked": false, "holder_clock_ms": now_ms, "renewed_ms": now_ms})
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn names(record: &Value) -> Vec<&str> {
    record.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_shared_with_an_older_process() {
    let Some(server) = Redis::start() else { return };
    let older = Older { server: &server };
    older.make();
    let first = older.allocate(10);
    let store = open(server.url()).await.unwrap();
    let ranges = store.ranges.as_ref().unwrap();
    let orders = Sequence::new("orders", 1);
    let mut all = vec![first, allocate(&store, &orders, 10).await.unwrap(), older.allocate(10)];
    for by_older in [true, false] {
        let whole = all.pop().unwrap();
        let tail = IdRange::new("orders", whole.start + 4, whole.end, whole.version);
        assert!(if by_older { older.give_back(&tail) } else { ranges.give_back(tail.clone()).await.unwrap() });
        assert!(!older.give_back(&tail) && !ranges.give_back(tail.clone()).await.unwrap(), "a second time");
        all.push(IdRange::new("orders", whole.start, tail.start, whole.version));
        all.push(if by_older { allocate(&store, &orders, 10).await.unwrap() } else { older.allocate(10) });
        assert_eq!(all.last().unwrap().start, tail.start);
    }
    ranges.raise(&orders, 1_000).await.unwrap();
    all.push(older.allocate(3));
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
    // Records of before do not say whether anything is missing; these all name one life of the server, so nothing is.
    ranges.create(&Sequence::new("bills", 1)).await.unwrap();
    let key = IdempotencyKey::new("order-7").unwrap();
    ranges.allocate(&orders, count(1), Some(&key)).await.unwrap();
    records_have_no_other_fields(
        &server,
        &["registry", "sequences", "sequence:orders", "ranges:orders", "answers:orders:59"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_shared_with_an_older_process() {
    let Some(server) = Redis::start() else { return };
    let older = Older { server: &server };
    older.make();
    let store = open(server.url()).await.unwrap();
    let (leases, main) = (store.leases.as_ref().unwrap(), pool("main", 2));
    let mut used: Vec<(u64, Range<u64>)> = Vec::new();
    let one = claim(&store, &main, 1).await.unwrap();
    let two = older.claim(1, 2).await;
    let one = leases.renew(&one, &holder(1), &terms()).await.unwrap();
    let two = older.renew(&two).unwrap();
    assert_eq!(claim(&store, &main, 3).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    // Each takes what the other gave back, above what it used.
    let two = older.release(&two, two.window.start + 300);
    used.push((1, two.window.clone()));
    let three = claim_at_last(&store, &main, 3).await;
    assert_eq!(three.worker, 1);
    let first_unused_ms = one.window.start + 300;
    leases.release(one.clone(), first_unused_ms, &terms()).await.unwrap();
    used.push((0, one.window.start..first_unused_ms));
    let four = older.claim(0, 4).await;
    assert_eq!(leases.renew(&one, &holder(1), &terms()).await.unwrap_err().kind(), StoreErrorKind::Fenced);
    assert!(older.renew(&two).is_none());
    // And what the other let expire.
    let four = older.renew(&four).unwrap();
    let five = claim_at_last(&store, &main, 5).await;
    let six = claim_at_last(&store, &main, 6).await;
    let seven = older.claim(u64::from(five.worker), 7).await;
    used.push((0, four.window.clone()));
    used.extend([&three, &five, &six].map(|lease| (lease.worker.into(), lease.window.clone())));
    used.push((seven.worker, seven.window.clone()));
    for (nth, (worker, window)) in used.iter().enumerate() {
        for (_, later) in used.iter().skip(nth + 1).filter(|(other, _)| other == worker) {
            assert!(window.end <= later.start || later.end <= window.start, "{worker}: {window:?}, {later:?}");
        }
    }
    let named = async |at_ms: u64| leases.history(&main, at_ms).await.unwrap();
    for held in [&four, &seven] {
        let told = named(held.window.start).await;
        assert!(
            told.iter().any(|grant| grant.instance == "older" && u64::from(grant.worker) == held.worker),
            "{told:?}"
        );
    }
    let told = named(one.window.start).await;
    assert!(told.iter().any(|grant| grant.instance == "host-1"), "from the page that both have written: {told:?}");
    store.ranges.as_ref().unwrap().create(&Sequence::new("bills", 1)).await.unwrap();
    // A bump by today's code is another life of the server to the older process: it would bump the pool back, so it must end before.
    leases.bump_all().await.unwrap();
    assert_eq!(claim(&store, &main, 8).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    let (_, pool) = older.read("pool:main", &["regions"]);
    assert_eq!(pool["regions"][""]["life"], format!("{}+1", older.life()));
    records_have_no_other_fields(&server, &["registry", "pool:main", "workers:main::0", "grants:main::0:0"]);
}

fn records_have_no_other_fields(server: &Redis, keys: &[&str]) {
    let kept: Value = serde_json::from_str(SCHEMA_1).unwrap();
    for key in keys {
        let text = server.command(&["GET", &format!("{{mintage}}:{key}")]);
        let written = serde_json::from_str(text.split_once(' ').unwrap().1).unwrap();
        golden::has_no_other_fields(&written, &kept[*key]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_goes_on() {
    let Some(server) = Etcd::start() else { return };
    let records: Value = serde_json::from_str(SCHEMA_1).unwrap();
    let status = server.post("/v3/maintenance/status", &json!({})).unwrap();
    let cluster: u64 = status["header"]["cluster_id"].as_str().unwrap().parse().unwrap();
    let put = |key: &str, record: &Value| {
        let value = record.to_string().replace("LIFE", &format!("{cluster:x}"));
        server.post("/v3/kv/put", &json!({"key": base64(&format!("mintage/{key}")), "value": base64(&value)})).unwrap();
    };
    records.as_object().unwrap().iter().for_each(|(key, record)| put(key, record));
    let (factory, mut address) = at(server.url());
    address.clock = Arc::new(ManualClock::at(golden::NOW_MS + 5_000));
    let store = factory.open(&address).await.unwrap();
    golden::goes_on(&store).await;
    let past = store.leases.as_ref().unwrap().history(&golden::pool(), golden::NOW_MS - 70_000).await.unwrap();
    assert_eq!(past.first().map(|grant| grant.instance.as_str()), Some("host-0"), "from its page");
}
