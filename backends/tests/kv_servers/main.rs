//! Redis, etcd and ZooKeeper as they are: each test starts its own server, and says so and ends where there is none.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod etcd;
#[path = "../golden/mod.rs"]
mod golden;
mod redis;
mod versions;
mod zookeeper;

use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use mintage_backends::Builtin;
use mintage_core::{
    Clock, Format, Holder, IdRange, Lease, LeaseTerms, PoolLimits, Sequence, StoreError, StoreErrorKind, SystemClock,
    WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin, Secret},
    testkit::store::{Trial, formats, leases, ranges},
};
use mintage_servers_for_tests::{Fault, Proxy, Server};
use tokio::net::{TcpListener, TcpStream};

const TIMEOUT_MS: u64 = 20_000;
const WINDOW_MS: u64 = 1_000;
const GUARD_MS: u64 = 100;
/// Longer than any clock of this machine differs from another.
const AHEAD_MS: u64 = 200;

/// Opens `url` as the registry does.
async fn open_within(url: &str, clock: Arc<dyn Clock>, timeout_ms: u64) -> Result<Backend, StoreError> {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let factory = catalog.backend_of(url).cloned().unwrap();
    let mut address = Address::new(url, Path::new("."), clock);
    address.timeout_ms = timeout_ms;
    factory.check(url).map_err(|told| StoreError::new(StoreErrorKind::Refused, told))?;
    factory.open(&address).await
}

/// What opens `url`, and the address it is opened at.
fn at(url: &str) -> (Arc<dyn BackendFactory>, Address) {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let factory = catalog.backend_of(url).cloned().unwrap();
    let mut address = Address::new(url, Path::new("."), Arc::new(SystemClock));
    address.timeout_ms = TIMEOUT_MS;
    (factory, address)
}

/// Readers make nothing; `init` makes it once, and says so; then whoever comes finds it.
async fn readers_make_nothing(url: &str, is_empty: impl Fn() -> bool) {
    let (factory, address) = at(url);
    assert!(factory.open_existing(&address).await.unwrap().is_none());
    assert!(is_empty(), "a reader made something");
    assert!(factory.init(&address).await.unwrap() && !factory.init(&address).await.unwrap());
    assert!(!is_empty());
    let store = factory.open_existing(&address).await.unwrap().unwrap();
    assert!(store.leases.unwrap().leases(&pool("main", 4)).await.unwrap().is_empty());
}

/// The password stands beside the URL. Without it, or with another, the user is refused, and nothing shows it.
async fn a_password_beside_the_url(url: &str) {
    let (factory, mut address) = at(url);
    for password in [None, Some("wr0ng")] {
        address.password = password.map(Secret::new);
        let told = factory.init(&address).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Refused, "{told}");
        let told = format!("{told} {told:?} {address:?}");
        assert!(!told.contains("wr0ng") && !told.contains("s3cret"), "{told}");
    }
    address.password = Some(Secret::new("s3cret"));
    factory.init(&address).await.unwrap();
    let store = factory.open(&address).await.unwrap();
    claim(&store, &pool("main", 2), 1).await.unwrap();
    let told = format!("{store:?} {address:?}");
    assert!(!told.contains("s3cret"), "{told}");
}

/// The record of some worker ids was deleted by hand. A window of before is not granted again.
async fn a_deleted_record_of_worker_ids(url: &str, delete: impl Fn()) {
    let pool = pool("main", 4);
    let lease = claim(&open(url).await.unwrap(), &pool, 1).await.unwrap();
    delete();
    let store = open(url).await.unwrap();
    // What an operator does with another of them does not hide it.
    let leases = store.leases.as_ref().unwrap();
    leases.revoke(&pool, lease.worker + 1).await.unwrap();
    leases.free(&pool, lease.worker + 1).await.unwrap();
    let told = leases.renew(&lease, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Fenced, "{told}");
    let next = claim_at_last(&store, &pool, 2).await;
    assert_eq!(next.worker, lease.worker);
    assert_windows_disjoint(&[lease, next]);
}

/// Another version of Mintage wrote the records, before this process came or while it runs.
async fn another_schema_is_left_alone(url: &str, set: impl Fn(u32)) {
    let store = open(url).await.unwrap();
    let pool = pool("main", 2);
    claim(&store, &pool, 1).await.unwrap();
    for (schema, kind, words) in
        [(2, StoreErrorKind::Refused, "newer Mintage"), (0, StoreErrorKind::Corrupt, "never existed")]
    {
        set(schema);
        for told in [open(url).await.unwrap_err(), claim(&store, &pool, 2).await.unwrap_err()] {
            assert!(told.kind() == kind && told.to_string().contains(words), "{told}");
        }
    }
    set(1);
    claim(&store, &pool, 2).await.unwrap();
}

async fn open(url: &str) -> Result<Backend, StoreError> {
    open_within(url, Arc::new(SystemClock), TIMEOUT_MS).await
}

async fn sleep(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Every law of the test kit.
async fn keeps_the_laws(store: Backend, tick: impl AsyncFn(u64), trial: Trial) {
    // The laws let a store be one that cannot free.
    let freed = pool("freed", 1);
    claim(&store, &freed, 1).await.unwrap();
    store.leases.as_ref().unwrap().free(&freed, 0).await.unwrap();
    ranges::all(&*store.ranges.unwrap(), trial).await;
    formats::all(&*store.formats.unwrap(), trial).await;
    leases::all(&*store.leases.unwrap(), tick, trial).await;
}

fn count(len: u32) -> NonZeroU32 {
    NonZeroU32::new(len).unwrap()
}

fn pool(name: &str, len: u32) -> WorkerPool {
    let mut pool = WorkerPool::new(name, 0..len);
    pool.limits = PoolLimits::new(WINDOW_MS, AHEAD_MS, GUARD_MS);
    pool
}

fn terms() -> LeaseTerms {
    LeaseTerms::new(WINDOW_MS, WINDOW_MS, 0, AHEAD_MS)
}

fn holder(nth: u32) -> Holder {
    Holder::new(u128::from(nth) + 1, format!("host-{nth}"), SystemClock.unix_ms())
}

async fn claim(store: &Backend, pool: &WorkerPool, nth: u32) -> Result<Lease, StoreError> {
    store.leases.as_ref().unwrap().acquire(pool, WorkerChoice::Any, &holder(nth), &terms()).await
}

/// Claims as soon as there is something to claim.
async fn claim_at_last(store: &Backend, pool: &WorkerPool, nth: u32) -> Lease {
    for _ in 0..400 {
        match claim(store, pool, nth).await {
            Ok(lease) => return lease,
            Err(error) if error.kind() == StoreErrorKind::NoFreeWorker => sleep(25).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no worker id comes free");
}

async fn allocate(store: &Backend, sequence: &Sequence, len: u32) -> Result<IdRange, StoreError> {
    store.ranges.as_ref().unwrap().allocate(sequence, count(len), None).await
}

fn assert_disjoint(mut ranges: Vec<IdRange>) {
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{:?} and {:?} share numbers", pair[0], pair[1]);
    }
}

fn assert_windows_disjoint(leases: &[Lease]) {
    for (nth, one) in leases.iter().enumerate() {
        for other in leases.iter().skip(nth + 1).filter(|other| other.worker == one.worker) {
            let apart = one.window.end <= other.window.start || other.window.end <= one.window.start;
            assert!(apart, "{one:?} and {other:?} share milliseconds");
        }
    }
}

/// The process that got a number is named, also once later ranges have filled pages; and a tail that came back is nobody's.
async fn who_got_a_number(url: &str) {
    let (factory, mut address) = at(url);
    let mut named = async |instance: &str| {
        instance.clone_into(&mut address.instance);
        factory.open(&address).await.unwrap().ranges.unwrap()
    };
    let (one, two) = (named("billing-3").await, named("web-1").await);
    let orders = Sequence::new("orders", 1);
    one.create(&orders).await.unwrap();
    for nth in 0..150_u32 {
        let store = if nth.is_multiple_of(3) { &two } else { &one };
        let range = store.allocate(&orders, count(10), None).await.unwrap();
        if nth == 64 {
            // The first of its page.
            assert!(store.give_back(IdRange::new("orders", range.start + 4, range.end, range.version)).await.unwrap());
        }
    }
    let grants = async |number: u64| {
        let history = two.range_history("orders", number).await.unwrap();
        assert_eq!(history.lack, None);
        let told = history.grants.into_iter().map(|grant| (grant.start, grant.end, grant.instance));
        told.collect::<Vec<_>>()
    };
    let of = |start: u64, end: u64, instance: &str| vec![(start, end, instance.to_owned())];
    assert_eq!(grants(1).await, of(1, 11, "web-1"));
    assert_eq!(grants(640).await, of(631, 641, "web-1"));
    assert_eq!(grants(644).await, of(641, 645, "billing-3"));
    assert_eq!(grants(645).await, of(645, 655, "billing-3"), "who got the tail after");
    assert_eq!(grants(1_494).await, of(1_485, 1_495, "billing-3"));
    assert_eq!((grants(0).await, grants(1_495).await), (vec![], vec![]));
    // A tail of forty ranges, which are on three pages.
    let last = one.allocate(&orders, count(10), None).await.unwrap();
    assert!(one.give_back(IdRange::new("orders", last.end - 404, last.end, last.version)).await.unwrap());
    let start = last.end - 404;
    assert_eq!((grants(start - 1).await.len(), grants(start).await, grants(last.start).await), (1, vec![], vec![]));
    one.allocate(&orders, count(500), None).await.unwrap();
    for number in [start, start + 200, start + 499] {
        assert_eq!(grants(number).await, of(start, start + 500, "billing-3"));
    }
    assert_eq!(grants(1).await, of(1, 11, "web-1"));
}

/// 1,024 worker ids and 64 stores at once, as 64 processes would be: distinct ids, disjoint ranges.
async fn many_at_once(url: &str) {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..64 {
        let url = url.to_owned();
        tasks.spawn(async move {
            let store = open_within(&url, Arc::new(SystemClock), 60_000).await.unwrap();
            let orders = Sequence::new("many", 1);
            store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
            let mut pool = pool("many", 1024);
            pool.limits = PoolLimits::default();
            let claim = store.leases.as_ref().unwrap();
            let lease = claim.acquire(&pool, WorkerChoice::Any, &holder(nth), &LeaseTerms::default()).await.unwrap();
            let mut ranges = Vec::new();
            for len in 1..=4 {
                ranges.push(allocate(&store, &orders, len).await.unwrap());
            }
            (lease, ranges)
        });
    }
    let (leases, ranges): (Vec<Lease>, Vec<Vec<IdRange>>) = tasks.join_all().await.into_iter().unzip();
    let mut workers: Vec<u32> = leases.iter().map(|lease| lease.worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, (0..64).collect::<Vec<_>>());
    let ranges: Vec<IdRange> = ranges.into_iter().flatten().collect();
    assert_eq!(ranges.iter().map(|range| range.end).max(), Some(1 + 64 * (1 + 2 + 3 + 4)));
    assert_disjoint(ranges);
}

/// A stopped server is cut off at the timeout, and goes on when it does.
async fn a_stopped_server_is_cut_off(server: &Server, url: &str) {
    let store = open_within(url, Arc::new(SystemClock), 1_000).await.unwrap();
    let orders = Sequence::new("stopped", 1);
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    let first = allocate(&store, &orders, 10).await.unwrap();
    let lease = claim(&store, &pool("stopped", 4), 1).await.unwrap();
    server.stop();
    #[expect(clippy::disallowed_methods, reason = "measures how long a real call takes")]
    let begun = Instant::now();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    let renewed = store.leases.as_ref().unwrap().renew(&lease, &holder(1), &terms()).await;
    assert_eq!(renewed.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert!(begun.elapsed() < Duration::from_millis(3_000), "cut after {:?}", begun.elapsed());
    server.cont();
    let mut next = allocate(&store, &orders, 10).await;
    for _ in 0..20 {
        if next.is_ok() {
            break;
        }
        sleep(100).await;
        next = allocate(&store, &orders, 10).await;
    }
    assert_disjoint(vec![first, next.unwrap()]);
}

/// A server that starts again refuses for a moment. Nobody has to notice; and whoever names one that is gone for good is told soon,
/// and never later than the timeout.
async fn a_server_that_refuses_is_tried_again(url: &str, port: u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap().port();
    let url = url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{here}"));
    let opening = tokio::spawn({
        let url = url.clone();
        async move { open(&url).await }
    });
    for _ in 0..3 {
        drop(listener.accept().await.unwrap());
    }
    let serving = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                // An end on either side ends both.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    opening.await.unwrap().unwrap();
    serving.abort();
    let _ = serving.await;
    for (timeout_ms, most_ms) in [(TIMEOUT_MS, 3_000), (100, 900)] {
        #[expect(clippy::disallowed_methods, reason = "measures how long a real call takes")]
        let begun = Instant::now();
        let told = open_within(&url, Arc::new(SystemClock), timeout_ms).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "{told}");
        assert!(begun.elapsed() < Duration::from_millis(most_ms), "told after {:?}", begun.elapsed());
    }
}

/// The server did it, and nobody heard of it: asking again never repeats anything.
async fn an_answer_is_lost(url: &str, port: u16, request: &[u8]) {
    let proxy = Proxy::start(port);
    let store = open_within(&proxy.url_of(url), Arc::new(SystemClock), 2_000).await.unwrap();
    let orders = Sequence::new("lost-answer", 1);
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    let pool = pool("lost-answer", 8);
    let mut ranges = vec![allocate(&store, &orders, 10).await.unwrap()];
    let mut leases = vec![claim(&store, &pool, 0).await.unwrap()];
    for round in 1..4 {
        let lost = proxy.answers_lost();
        proxy.set(Fault::LoseAnswerTo(request.to_vec()));
        let told = allocate(&store, &orders, 10).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "{told}");
        assert_eq!(proxy.answers_lost(), lost + 1, "no answer was lost");
        ranges.push(allocate(&store, &orders, 10).await.unwrap());
        proxy.set(Fault::LoseAnswerTo(request.to_vec()));
        let told = claim(&store, &pool, 2 * round).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Unavailable, "{told}");
        leases.push(claim(&store, &pool, 2 * round + 1).await.unwrap());
    }
    // Ranges whose answer was lost are gaps: the server had cut them. Not each of the three on a busy machine: etcd's protocol says
    // that a request has arrived before it answers, and a connection that is cut between the two takes the request back.
    let last = ranges.last().map_or(0, |range| range.start);
    assert!([41, 51, 61].contains(&last), "{last}: no answer was lost after the change");
    assert_disjoint(ranges);
    assert_windows_disjoint(&leases);
    proxy.set(Fault::LoseAnswerTo(request.to_vec()));
    let (held, by) = (leases.pop().unwrap(), holder(7));
    let store = store.leases.as_ref().unwrap();
    assert_eq!(store.renew(&held, &by, &terms()).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    let renewed = store.renew(&held, &by, &terms()).await.unwrap();
    assert!(renewed.window.start == held.window.start && renewed.window.end >= held.window.end);
}

/// What was acknowledged is there after `kill -9` and a restart.
async fn a_kill_keeps_what_was_acknowledged(server: &Server, url: &str) {
    let store = open(url).await.unwrap();
    let orders = Sequence::new("killed", 1);
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    store.formats.as_ref().unwrap().pin("killed", &Format::of("segment")).await.unwrap();
    let pool = pool("killed", 2);
    let mut leases = vec![claim(&store, &pool, 1).await.unwrap(), claim(&store, &pool, 2).await.unwrap()];
    let before = allocate(&store, &orders, 500).await.unwrap();
    server.kill9();
    server.restart();
    // The same store, whose connection is dead, goes on.
    leases.push(claim_at_last(&store, &pool, 3).await);
    leases.push(claim_at_last(&store, &pool, 4).await);
    assert_windows_disjoint(&leases);
    let rows = store.ranges.as_ref().unwrap().sequences().await.unwrap();
    assert_eq!(rows.iter().find(|row| row.name == "killed").map(|row| row.next), Some(before.end));
    let other = Format::of("snowflake");
    let told = store.formats.as_ref().unwrap().pin("killed", &other).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::FormatMismatch);
}

/// Older data is put back under the server. Those who were granted more than it remembers notice; once the operator has done what
/// the documents say, nothing is granted again.
async fn a_restored_data_folder_repeats_nothing(server: &Server, url: &str) {
    let store = open(url).await.unwrap();
    let mut orders = Sequence::new("restored", 1);
    let (ranges, leases) = (store.ranges.as_ref().unwrap(), store.leases.as_ref().unwrap());
    ranges.create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    let pool = pool("restored", 2);
    let first = claim(&store, &pool, 1).await.unwrap();
    let backup = tempfile::tempdir().unwrap();
    server.kill9();
    copy(&server.data_dir(), &backup.path().join("data"));
    server.restart();
    // A server that counts each start as a life of its own wants to hear that nothing was lost.
    ranges.raise(&orders, 11).await.unwrap();
    let range = allocate(&store, &orders, 10).await.unwrap();
    let longer = leases.renew(&first, &holder(1), &terms()).await;
    let lost = claim_at_last(&store, &pool, 2).await;

    server.kill9();
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    copy(&backup.path().join("data"), &server.data_dir());
    server.restart();
    orders.floor = range.end;
    let error = allocate(&store, &orders, 10).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    let error = leases.renew(&lost, &holder(2), &terms()).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::Fenced | StoreErrorKind::RolledBack), "{error:?}");
    // A new process, as the operator's is: the old one may never trust this server again.
    let store = open(url).await.unwrap();
    store.ranges.as_ref().unwrap().raise(&orders, range.end).await.unwrap();
    store.leases.as_ref().unwrap().bump(&pool).await.unwrap();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap().start, range.end);
    let before = [Some(first), longer.ok(), Some(lost)].into_iter().flatten();
    let latest_ms = before.map(|lease| lease.window.end).max().unwrap();
    for nth in 3..5 {
        let next = claim_at_last(&store, &pool, nth).await;
        assert!(next.window.start >= latest_ms, "{next:?} begins before {latest_ms}");
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}
