//! Redis: the laws, and the ways in which it forgets.

use mintage_core::{IdempotencyKey, RANGE_END, plugin::Tls, protocol::UNLISTED};
use mintage_servers_for_tests::{Certificates, Redis};

use super::*;

/// A primary that stops by itself soon after its replicas are gone.
const FEW_REPLICAS: [&str; 2] = ["min-replicas-to-write 1", "min-replicas-max-lag 1"];
/// As long as such a primary may go on beside another.
const GUARDED_MS: u64 = 3_000;

/// A pool for it.
fn guarded(len: u32) -> WorkerPool {
    let mut pool = pool("main", len);
    pool.limits = PoolLimits::new(WINDOW_MS, AHEAD_MS, GUARDED_MS);
    pool
}

fn new(server: &Redis) -> String {
    format!("{}?init=yes", server.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_keeps_the_laws() {
    let Some(server) = Redis::start() else { return };
    let store = open(&new(&server)).await.unwrap();
    assert!(store.leases.as_ref().unwrap().has_clock());
    keeps_the_laws(store, sleep, Trial { at_once: 64, cycles: 200 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_name_their_process() {
    let Some(server) = Redis::start() else { return };
    who_got_a_number(&new(&server)).await;
}

/// There are as many pages as there may be, planted: the oldest goes, and whoever asks is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_ranges_are_dropped_and_it_is_told() {
    let Some(server) = Redis::start() else { return };
    let store = open(&new(&server)).await.unwrap().ranges.unwrap();
    let orders = Sequence::new("orders", 1_000_000);
    store.create(&orders).await.unwrap();
    let now_ms = SystemClock.unix_ms();
    let pages: Vec<String> = (0..256)
        .map(|nth| format!(r#"{{"number":{nth},"start":{},"end":{},"at_ms":{now_ms}}}"#, nth * 32, nth * 32 + 32))
        .collect();
    let list = format!(r#"1 {{"pages":[{}],"dropped":false}}"#, pages.join(","));
    assert_eq!(server.command(&["SET", "{mintage}:ranges:orders:pages", &list]), "OK");
    let row = |nth: u32| format!(r#"{{"start":{nth},"end":{},"instance":"gone","at_ms":1}}"#, nth + 1);
    for page in [0, 1] {
        let rows = format!(r#"1 {{"rows":[{}]}}"#, row(page * 32));
        assert_eq!(server.command(&["SET", &format!("{{mintage}}:ranges:orders:{page}"), &rows]), "OK");
    }
    let held = async |number: u64| store.range_history("orders", number).await.unwrap();
    assert!(held(0).await.grants.len() == 1 && held(0).await.lack.is_none());
    for _ in 0..33 {
        store.allocate(&orders, count(1), None).await.unwrap();
    }
    let lack = held(0).await.lack.unwrap();
    assert!(held(0).await.grants.is_empty() && lack.contains("the last 8192 ranges of a sequence"), "{lack}");
    assert_eq!((held(32).await.grants.len(), held(1_000_032).await.grants.len()), (1, 1));
    assert_eq!(server.command(&["EXISTS", "{mintage}:ranges:orders:0"]), "0", "the page itself is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_at_once() {
    let Some(server) = Redis::start() else { return };
    many_at_once(&new(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused() {
    let Some(server) = Redis::start() else { return };
    a_server_that_refuses_is_tried_again(&new(&server), server.port()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped() {
    let Some(server) = Redis::start() else { return };
    a_stopped_server_is_cut_off(&server, &new(&server)).await;
}

/// Both questions are scripts. The one that changes something names the life of the store: its run id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_lost() {
    let Some(server) = Redis::start() else { return };
    let info = server.command(&["INFO", "server"]);
    let run = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")).unwrap();
    an_answer_is_lost(&new(&server), server.port(), run.as_bytes()).await;
}

/// A new run may have forgotten: worker ids rest, and a sequence waits until somebody has raised it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed() {
    let Some(server) = Redis::start() else { return };
    a_kill_keeps_what_was_acknowledged(&server, &new(&server)).await;
    let store = open(server.url()).await.unwrap();
    let orders = Sequence::new("killed", 1);
    for _ in 0..2 {
        let told = allocate(&store, &orders, 1).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::RolledBack, "{told}");
    }
    let ranges = store.ranges.as_ref().unwrap();
    assert_eq!(ranges.raise(&orders, RANGE_END + 1).await.unwrap_err().kind(), StoreErrorKind::Refused);
    assert_eq!(allocate(&store, &orders, 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    ranges.raise(&orders, 1).await.unwrap();
    assert_eq!(allocate(&store, &orders, 1).await.unwrap().start, 501);
}

/// The primary acknowledges a claim and a range that its replica never hears of, and dies; the replica takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_loses_a_write() {
    let Some(primary) = Redis::start_with(&FEW_REPLICAS) else { return };
    let link = Proxy::start(primary.port());
    let replica = Redis::replica_through(&primary, link.port());
    assert_eq!(replica.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    let front = Proxy::start(primary.port());
    let url = front.url_of(&new(&primary));
    let store = open(&url).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), guarded(2));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    let kept = allocate(&store, &orders, 100).await.unwrap();
    let mut leases = vec![claim(&store, &pool, 1).await.unwrap()];
    replica.catch_up_with(&primary);
    link.set(Fault::Blackhole(mintage_servers_for_tests::Way::Both));
    let lost = allocate(&store, &orders, 100).await.unwrap();
    let lost_lease = claim(&store, &pool, 2).await.unwrap();
    let held = leases[0].clone();
    let longer = store.leases.as_ref().unwrap().renew(&held, &holder(1), &terms()).await.unwrap();
    leases[0] = longer.clone();
    leases.push(lost_lease.clone());
    primary.kill9();
    replica.promote();

    let after = open(replica.url()).await.unwrap();
    let ranges = after.ranges.as_ref().unwrap();
    let row = &ranges.sequences().await.unwrap()[0];
    assert_eq!(row.next, kept.end, "the write was not lost: this test shows nothing");
    for _ in 0..2 {
        let told = allocate(&after, &orders, 100).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::RolledBack, "{told}");
    }
    // A tail of the range that nobody remembers is not taken back, not even after the raise.
    let tail = IdRange::new("orders", lost.start + 50, lost.end, lost.version);
    assert!(!ranges.give_back(tail.clone()).await.unwrap());
    ranges.raise(&orders, lost.end).await.unwrap();
    assert!(!ranges.give_back(tail).await.unwrap());
    assert_disjoint(vec![kept, lost, allocate(&after, &orders, 100).await.unwrap()]);

    // The holders of before are fenced, and who comes after them waits for all that was lost.
    for (lease, nth) in [(&longer, 1), (&lost_lease, 2)] {
        let told = after.leases.as_ref().unwrap().renew(lease, &holder(nth), &terms()).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Fenced, "{told}");
    }
    assert_eq!(claim(&after, &pool, 3).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    leases.push(claim_at_last(&after, &pool, 4).await);
    leases.push(claim_at_last(&after, &pool, 5).await);
    assert_windows_disjoint(&leases);
    assert!(leases[2].fence.inc > leases[0].fence.inc);
}

/// The replica lacks the records that came last: a first pool, a sequence of a new period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_loses_what_was_new() {
    let Some(primary) = Redis::start_with(&FEW_REPLICAS) else { return };
    let link = Proxy::start(primary.port());
    let replica = Redis::replica_through(&primary, link.port());
    assert_eq!(replica.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    let store = open(&new(&primary)).await.unwrap();
    let (today, pool) = (Sequence::new("invoices/2027-01-01", 1), guarded(1));
    replica.catch_up_with(&primary);
    link.set(Fault::Blackhole(mintage_servers_for_tests::Way::Both));
    store.ranges.as_ref().unwrap().create(&today).await.unwrap();
    let lost = allocate(&store, &today, 10).await.unwrap();
    let lost_lease = claim(&store, &pool, 1).await.unwrap();
    primary.kill9();
    replica.promote();

    let after = open(replica.url()).await.unwrap();
    let ranges = after.ranges.as_ref().unwrap();
    assert!(ranges.sequences().await.unwrap().is_empty(), "nothing was lost: this test shows nothing");
    let told = ranges.create(&today).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::RolledBack && told.to_string().contains(&today.name), "{told}");
    assert_eq!(ranges.waiting().await.unwrap(), [UNLISTED]);
    // That says nothing of worker ids.
    ranges.raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    assert_eq!(claim(&after, &pool, 2).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker);
    let next = claim_at_last(&after, &pool, 2).await;
    assert!(next.fence.inc > lost_lease.fence.inc);
    assert_windows_disjoint(&[lost_lease, next]);
    ranges.restore(&Sequence::new(&today.name, lost.end)).await.unwrap();
    assert_disjoint(vec![lost, allocate(&after, &today, 10).await.unwrap()]);
    ranges.create(&Sequence::new("invoices/2027-01-02", 1)).await.unwrap();
}

/// The address leads to the new primary, and then back to the old one, which still takes itself for the only one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_to_the_old_primary() {
    let Some(old) = Redis::start_with(&["min-replicas-to-write 0"]) else { return };
    let Some(new_one) = Redis::start() else { return };
    let address = Proxy::start(old.port());
    let url = format!("{}?init=yes", address.url_of(old.url()));
    let lead_to = |server: &Redis| {
        address.lead_to(server.port());
        address.cut();
    };
    let store = open(&url).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), pool("main", 1));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    let first = claim(&store, &pool, 1).await.unwrap();
    // What a replica has when it is promoted, without making the old one another life.
    for key in ["registry", "sequences", "sequence:orders", "pool:main", "workers:main::0"] {
        let key = format!("{{mintage}}:{key}");
        let value = old.command(&["GET", &key]);
        assert_eq!(new_one.command(&["SET", &key, &value]), "OK");
    }
    lead_to(&new_one);
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    store.ranges.as_ref().unwrap().raise(&orders, 500).await.unwrap();
    let given = allocate(&store, &orders, 10).await.unwrap();
    let there = claim_at_last(&store, &pool, 2).await;
    assert!(there.fence.inc == 2 && there.window.start >= first.window.end, "{there:?}");

    lead_to(&old);
    let told = allocate(&store, &orders, 10).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::RolledBack, "{told}");
    let told = store.leases.as_ref().unwrap().renew(&there, &holder(2), &terms()).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Fenced, "{told}");
    let back = claim_at_last(&store, &pool, 3).await;
    assert_eq!(back.fence.inc, 3, "{back:?}");
    assert_windows_disjoint(&[first, there, back]);
    store.ranges.as_ref().unwrap().raise(&orders, given.end).await.unwrap();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap().start, given.end);
}

/// With `replicas=1` an answer that no replica has is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_acknowledgements() {
    let Some(primary) = Redis::start() else { return };
    let link = Proxy::start(primary.port());
    let _replica = Redis::replica_through(&primary, link.port());
    let url = format!("{}&replicas=1", new(&primary));
    let store = open_within(&url, Arc::new(SystemClock), 2_000).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), pool("main", 4));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    link.set(Fault::Blackhole(mintage_servers_for_tests::Way::Both));
    let told = allocate(&store, &orders, 10).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Unavailable);
    assert!(told.to_string().contains("0 of 1 replicas"), "{told}");
    assert_eq!(claim(&store, &pool, 1).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    // Nor one that was made by another call, and of which this one changes nothing.
    let (key, format) = (IdempotencyKey::new("again").unwrap(), Format::of("segment"));
    let ranges = store.ranges.as_ref().unwrap();
    let invoices = Sequence::new("invoices", 1);
    let formats = store.formats.as_ref().unwrap();
    for nth in 0..2 {
        let told = ranges.allocate(&orders, count(10), Some(&key)).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "asked {nth} times before: {told}");
        let told = ranges.create(&invoices).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "asked {nth} times before: {told}");
        let told = formats.pin("orders", &format).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "asked {nth} times before: {told}");
    }
    link.heal();
    let mut next = allocate(&store, &orders, 10).await;
    for _ in 0..50 {
        if next.is_ok() {
            break;
        }
        sleep(100).await;
        next = allocate(&store, &orders, 10).await;
    }
    assert!(next.unwrap().start >= 21, "the discarded range is a gap");
    let answered = ranges.allocate(&orders, count(10), Some(&key)).await.unwrap();
    assert_eq!(ranges.allocate(&orders, count(10), Some(&key)).await.unwrap(), answered);
    ranges.create(&invoices).await.unwrap();
    formats.pin("orders", &format).await.unwrap();
}

/// A replica is promoted while the old primary still answers some: what the two grant before the old one stops never meets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_primaries_at_once() {
    let Some(old) = Redis::start_with(&FEW_REPLICAS) else { return };
    let link = Proxy::start(old.port());
    let promoted = Redis::replica_through(&old, link.port());
    assert_eq!(promoted.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    let store = open(&new(&old)).await.unwrap();
    let told = claim(&store, &pool("short", 1), 1).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::Refused && told.to_string().contains("a guard of 100 ms"), "{told}");
    let pool = guarded(1);
    let mut of_old = claim(&store, &pool, 1).await.unwrap();
    promoted.catch_up_with(&old);
    link.set(Fault::Blackhole(mintage_servers_for_tests::Way::Both));
    promoted.promote();

    let after = open(promoted.url()).await.unwrap();
    let taking_over = tokio::spawn(async move { claim_at_last(&after, &guarded(1), 2).await });
    let since = tokio::time::Instant::now();
    let mut renewed = 0;
    let told = loop {
        assert!(since.elapsed() < Duration::from_millis(GUARDED_MS), "it never stops: {renewed} renewals");
        match store.leases.as_ref().unwrap().renew(&of_old, &holder(1), &terms()).await {
            Ok(longer) => of_old = longer,
            Err(error) => break error,
        }
        renewed += 1;
        sleep(20).await;
    };
    assert!(renewed > 0 && told.to_string().contains("too few replicas"), "{renewed} renewals, then {told}");
    let of_new = taking_over.await.unwrap();
    assert!(of_new.window.start >= of_old.window.end, "{of_old:?} and {of_new:?}");
    assert!(of_new.fence.inc > of_old.fence.inc);
}

/// A process may have looked at the server while its replica was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_comes_later() {
    let Some(primary) = Redis::start() else { return };
    let store = open(&new(&primary)).await.unwrap();
    let _replica = Redis::replica_of(&primary);
    let told = claim(&store, &pool("main", 1), 1).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::Refused && told.to_string().contains("min-replicas-to-write 1"), "{told}");
}

/// A primary that goes on without its replicas is one of two for as long as nothing stops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_nobody_waits_for() {
    let Some(primary) = Redis::start() else { return };
    let _replica = Redis::replica_of(&primary);
    let told = open(&new(&primary)).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Refused, "{told}");
    for words in ["min-replicas-to-write 1", "replicas=1", "durability=weak"] {
        assert!(told.to_string().contains(words), "{told}");
    }
    open(&format!("{}&durability=weak", new(&primary))).await.unwrap();
    open(&format!("{}&replicas=1", new(&primary))).await.unwrap();
    assert_eq!(primary.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]), "OK");
    open(&new(&primary)).await.unwrap();
}

/// A process that used the store notices, and so does one that comes new and was not told that the store is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed() {
    let Some(server) = Redis::start() else { return };
    let store = open(&new(&server)).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), pool("main", 4));
    let ranges = store.ranges.as_ref().unwrap();
    ranges.create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    let lease = claim(&store, &pool, 1).await.unwrap();
    assert_eq!(server.command(&["FLUSHALL"]), "OK");
    for anew in [false, true] {
        if anew {
            open(&new(&server)).await.unwrap();
        } else {
            assert_eq!(open(server.url()).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
        }
        let kinds = [
            allocate(&store, &orders, 10).await.unwrap_err().kind(),
            ranges.create(&orders).await.unwrap_err().kind(),
            ranges.raise(&orders, 100).await.unwrap_err().kind(),
            claim(&store, &pool, 2).await.unwrap_err().kind(),
            store.leases.as_ref().unwrap().renew(&lease, &holder(1), &terms()).await.unwrap_err().kind(),
            store.formats.as_ref().unwrap().pin("orders", &Format::of("segment")).await.unwrap_err().kind(),
        ];
        assert_eq!(kinds, [StoreErrorKind::RolledBack; 6], "made anew: {anew}");
    }
}

/// One record alone is lost, by somebody's DEL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_was_deleted() {
    let Some(server) = Redis::start() else { return };
    let store = open(&new(&server)).await.unwrap();
    let (orders, mut pool) = (Sequence::new("orders", 1), pool("main", 4));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    claim(&store, &pool, 1).await.unwrap();
    assert_eq!(server.command(&["DEL", "{mintage}:sequence:orders", "{mintage}:pool:main"]), "2");
    assert_eq!(allocate(&store, &orders, 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    assert_eq!(claim(&store, &pool, 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    // A process that has not seen the record before.
    let store = open(server.url()).await.unwrap();
    assert_eq!(allocate(&store, &orders, 1).await.unwrap_err().kind(), StoreErrorKind::Refused);
    let told = store.ranges.as_ref().unwrap().create(&orders).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::RolledBack, "{told}");
    pool.known = true;
    assert_eq!(claim(&store, &pool, 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_forget_are_refused() {
    for (setting, weak_is_enough) in
        [("maxmemory-policy allkeys-lru", false), ("appendfsync everysec", true), ("appendonly no", true)]
    {
        let Some(server) = Redis::start_with(&[setting]) else { return };
        let told = open(&new(&server)).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Refused, "{setting}");
        assert!(told.to_string().contains(setting.split(' ').next().unwrap()), "{told}");
        let weak = open(&format!("{}&durability=weak", new(&server))).await;
        assert_eq!(weak.is_ok(), weak_is_enough, "{setting}");
        if let Ok(weak) = weak {
            assert!(weak.ranges.is_none(), "ranges on a store that forgets");
            claim(&weak, &pool("main", 2), 1).await.unwrap();
        }
    }
}

#[tokio::test]
async fn passwords_stay_out_of_sight() {
    let Some(server) = Redis::start() else { return };
    assert_eq!(server.command(&["CONFIG", "SET", "requirepass", "s3cret"]), "OK");
    let url = format!("redis://:s3cret@127.0.0.1:{}?init=yes", server.port());
    let store = open(&url).await.unwrap();
    assert!(!format!("{store:?}").contains("s3cret"), "{store:?}");
    for wrong in [
        format!("redis://:wr0ng@127.0.0.1:{}?init=yes", server.port()),
        "redis://:wr0ng@127.0.0.1:1".to_owned(),
        "redis://:wr0ng@127.0.0.1:x".to_owned(),
        "redis://:wr0ng@127.0.0.1:1?nonsense=1".to_owned(),
    ] {
        let told = open_within(&wrong, Arc::new(SystemClock), 2_000).await.unwrap_err();
        assert!(!format!("{told} {told:?}").contains("wr0ng"), "{told:?}");
    }
    let told = open(&format!("redis://127.0.0.1:{}?init=yes", server.port())).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Refused, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored() {
    let Some(server) = Redis::start() else { return };
    a_restored_data_folder_repeats_nothing(&server, &new(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_makes_nothing() {
    let Some(server) = Redis::start() else { return };
    readers_make_nothing(server.url(), || server.command(&["DBSIZE"]) == "0").await;
    // Made by `init`, it needs no init=yes in its URL.
    open(server.url()).await.unwrap();
}

/// An ACL user who may do what the documents say, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password() {
    let Some(server) = Redis::start() else { return };
    let rules = "on >s3cret ~{mintage}:* resetchannels -@all +get +set +del +eval +evalsha +script|load +time +info +wait +config|get";
    let command: Vec<&str> = ["ACL", "SETUSER", "app"].into_iter().chain(rules.split(' ')).collect();
    assert_eq!(server.command(&command), "OK");
    assert_eq!(server.command(&["ACL", "SETUSER", "default", "off"]), "OK");
    a_password_beside_the_url(&server.url().replace("://", "://app@")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_worker_ids() {
    let Some(server) = Redis::start() else { return };
    a_deleted_record_of_worker_ids(&new(&server), || {
        assert_eq!(server.command(&["DEL", "{mintage}:workers:main::0"]), "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_schema() {
    let Some(server) = Redis::start() else { return };
    another_schema_is_left_alone(&new(&server), |schema| {
        let script = format!("local old = redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], (string.gsub(old, '\"schema\":%d+', '\"schema\":{schema}')))");
        assert_eq!(server.command(&["EVAL", &script, "1", "{mintage}:registry"]), "OK");
    })
    .await;
}

/// The server proves who it is to whoever trusts its authority, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted() {
    let Some(certificates) = Certificates::make() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [
        format!("tls-port {port}"),
        format!("tls-cert-file {}", certificates.certificate().display()),
        format!("tls-key-file {}", certificates.key().display()),
        format!("tls-ca-cert-file {}", certificates.authority().display()),
        "tls-auth-clients no".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = Redis::start_with(&settings) else { return };
    let (factory, mut address) = at(&format!("redis://127.0.0.1:{port}"));
    address.timeout_ms = 3_000;
    // Neither in the clear nor on the word of the system's authorities.
    for tls in [None, Some(Tls::default())] {
        address.tls = tls;
        assert_eq!(factory.init(&address).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    address.tls = Some(Tls::trusting(Some(certificates.key())));
    assert_eq!(factory.init(&address).await.unwrap_err().kind(), StoreErrorKind::Refused, "no certificate");
    address.tls = Some(Tls::trusting(Some(certificates.authority())));
    assert!(factory.init(&address).await.unwrap());
    let store = factory.open(&address).await.unwrap();
    claim(&store, &pool("main", 2), 1).await.unwrap();
    drop(server);
}
