//! etcd: the laws, alone and in a cluster that loses its leader.

use mintage_core::{ManualClock, plugin::Tls, protocol::UNLISTED};
use mintage_servers_for_tests::{Certificates, Etcd};
use serde_json::json;

use super::*;

/// Time is each process's own here, so the laws need not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_keeps_the_laws() {
    let Some(server) = Etcd::start() else { return };
    let clock = ManualClock::at(SystemClock.unix_ms());
    let store = open_within(server.url(), Arc::new(clock.clone()), TIMEOUT_MS).await.unwrap();
    keeps_the_laws(store, async |ms| clock.advance(ms), Trial { at_once: 64, cycles: 200 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_name_their_process() {
    let Some(server) = Etcd::start() else { return };
    who_got_a_number(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_at_once() {
    let Some(server) = Etcd::start() else { return };
    many_at_once(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused() {
    let Some(server) = Etcd::start() else { return };
    a_server_that_refuses_is_tried_again(server.url(), server.port()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped() {
    let Some(server) = Etcd::start() else { return };
    a_stopped_server_is_cut_off(&server, server.url()).await;
}

/// Only a transaction that changes something compares the registry's revision, and only such a one holds its JSON.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_lost() {
    let Some(server) = Etcd::start() else { return };
    an_answer_is_lost(server.url(), server.port(), b"{\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed() {
    let Some(server) = Etcd::start() else { return };
    a_kill_keeps_what_was_acknowledged(&server, server.url()).await;
    // The cluster is the same, so nothing has to be raised.
    let store = open(server.url()).await.unwrap();
    assert_eq!(allocate(&store, &Sequence::new("killed", 1), 1).await.unwrap().start, 501);
}

/// A process whose clock is late does not fall behind the others, and one whose clock is hours fast takes nobody along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_of_processes() {
    let Some(server) = Etcd::start() else { return };
    let now_ms = SystemClock.unix_ms();
    let at =
        async |clock_ms: u64| open_within(server.url(), Arc::new(ManualClock::at(clock_ms)), TIMEOUT_MS).await.unwrap();
    let pool = pool("clocks", 8);
    let mut leases = Vec::new();
    for nth in 0..3 {
        leases.push(claim(&at(now_ms).await, &pool, nth).await.unwrap());
    }
    let fast = claim(&at(now_ms + 8 * 3_600_000).await, &pool, 3).await.unwrap();
    assert_eq!(fast.window.start, now_ms + 8 * 3_600_000);
    let late = claim(&at(now_ms - 8 * 3_600_000).await, &pool, 4).await.unwrap();
    assert_eq!((late.store_now_ms, late.window.start), (now_ms, now_ms));
    leases.extend([fast, late]);
    assert_windows_disjoint(&leases);
}

/// A sequence rested for longer than history is kept, after a time in which much was cut. etcd takes 128 changes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_ranges_go_a_few_pages_at_a_time() {
    const PAGES: u64 = 200;
    let Some(server) = Etcd::start() else { return };
    let store = open(server.url()).await.unwrap().ranges.unwrap();
    let orders = Sequence::new("orders", 1_000_000);
    store.create(&orders).await.unwrap();
    let put = |key: &str, value: &str| {
        let request = json!({"key": base64(&format!("mintage/{key}")), "value": base64(value)});
        server.post("/v3/kv/put", &request).unwrap();
    };
    let mut pages = Vec::new();
    for nth in 0..PAGES {
        let (start, end) = (nth * 32, nth * 32 + 32);
        pages.push(format!(r#"{{"number":{nth},"start":{start},"end":{end},"at_ms":1}}"#));
        let row = format!(r#"{{"start":{start},"end":{end},"instance":"gone","at_ms":1}}"#);
        put(&format!("ranges:orders:{nth}"), &format!(r#"{{"rows":[{row}]}}"#));
    }
    put("ranges:orders:pages", &format!(r#"{{"pages":[{}],"dropped":false}}"#, pages.join(",")));
    assert_eq!(store.range_history("orders", 0).await.unwrap().grants.len(), 1, "it is planted");
    for _ in 0..70 {
        store.allocate(&orders, count(1), None).await.unwrap();
    }
    let held = async |number: u64| store.range_history("orders", number).await.unwrap();
    assert!(held(0).await.grants.is_empty() && held(0).await.lack.is_none());
    assert_eq!((held(PAGES * 32 - 1).await.grants.len(), held(1_000_000).await.grants.len()), (1, 1));
}

/// A bump goes by the clock of the machine it is made on. One that is behind what the store has seen is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_clock_bumps_nothing() {
    const TEN_MINUTES_MS: u64 = 600_000;
    let Some(server) = Etcd::start() else { return };
    let now_ms = SystemClock.unix_ms();
    let at =
        async |clock_ms: u64| open_within(server.url(), Arc::new(ManualClock::at(clock_ms)), TIMEOUT_MS).await.unwrap();
    let pool = pool("bumped", 8);
    let before = claim(&at(now_ms).await, &pool, 1).await.unwrap();
    let late = at(now_ms - TEN_MINUTES_MS).await.leases.unwrap();
    assert!(!late.has_clock());
    let told = late.bump(&pool).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::Refused);
    assert!(told.to_string().contains("600000 ms later: set the clock"), "{told}");
    // As far behind as a successor of the store may be.
    let store = at(now_ms - pool.limits.guard_ms).await;
    store.leases.as_ref().unwrap().bump(&pool).await.unwrap();
    let early = claim(&at(now_ms + 1).await, &pool, 2).await.unwrap_err();
    assert_eq!(early.kind(), StoreErrorKind::NoFreeWorker, "above all that can have been granted, which is not yet");
    let after = claim(&at(now_ms + TEN_MINUTES_MS).await, &pool, 3).await.unwrap();
    assert_eq!(after.fence.inc, before.fence.inc + 1);
}

/// An operator with a right clock bumps. The next process is hours slow: what was forgotten was granted before the operator's time,
/// not before that of this process, and that of a fast one spoils no pool for hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bump_goes_by_the_clock_of_whoever_made_it() {
    const HOURS_MS: u64 = 3 * 3_600_000;
    let Some(server) = Etcd::start() else { return };
    let now_ms = SystemClock.unix_ms();
    let at =
        async |clock_ms: u64| open_within(server.url(), Arc::new(ManualClock::at(clock_ms)), TIMEOUT_MS).await.unwrap();
    let used = pool("used", 8);
    claim(&at(now_ms - 2 * HOURS_MS).await, &used, 1).await.unwrap();
    assert!(at(now_ms).await.leases.unwrap().bump_all().await.unwrap());
    // The second is not in the store: it may have been forgotten.
    for (pool, first_ms) in
        [(used, now_ms - HOURS_MS), (pool("forgotten", 8), now_ms - HOURS_MS), (pool("fast", 8), now_ms + HOURS_MS)]
    {
        let reach_ms = pool.limits.window_max_ms + pool.limits.ahead_max_ms + pool.limits.guard_ms;
        let first = claim(&at(first_ms).await, &pool, 2).await;
        if first_ms < now_ms {
            assert_eq!(first.unwrap_err().kind(), StoreErrorKind::NoFreeWorker, "{}", pool.name);
            let early = claim(&at(now_ms + 1).await, &pool, 3).await.unwrap_err();
            assert_eq!(early.kind(), StoreErrorKind::NoFreeWorker, "{}", pool.name);
        }
        let lease = claim(&at(now_ms + reach_ms).await, &pool, 4).await.unwrap();
        assert!(lease.window.start >= now_ms + reach_ms, "{}: {lease:?}", pool.name);
    }
    // Nor does the word that no number is in use say anything about worker ids.
    at(now_ms).await.ranges.unwrap().raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    let told = claim(&at(now_ms + 1).await, &pool("lost", 8), 5).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::NoFreeWorker, "{told}");
}

/// What an operator declared in one life says nothing of what a later one has forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bump_of_long_ago() {
    const DAYS_MS: u64 = 30 * 86_400_000;
    let (Some(server), Some(rebuilt)) = (Etcd::start(), Etcd::start()) else { return };
    let now_ms = SystemClock.unix_ms();
    let at = async |server: &Etcd, clock_ms: u64| {
        open_within(server.url(), Arc::new(ManualClock::at(clock_ms)), TIMEOUT_MS).await.unwrap()
    };
    let before = at(&server, now_ms - DAYS_MS).await;
    assert!(before.leases.unwrap().bump_all().await.unwrap());
    before.ranges.unwrap().raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    // As from a snapshot: another cluster, with the records of before.
    let all = json!({"key": base64("mintage/"), "range_end": base64("mintage0")});
    for record in server.post("/v3/kv/range", &all).unwrap()["kvs"].as_array().unwrap() {
        rebuilt.post("/v3/kv/put", &json!({"key": record["key"], "value": record["value"]})).unwrap();
    }
    let pool = pool("forgotten", 8);
    let told = claim(&at(&rebuilt, now_ms).await, &pool, 1).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::NoFreeWorker, "{told}");
    let reach_ms = pool.limits.window_max_ms + pool.limits.ahead_max_ms + pool.limits.guard_ms;
    let after = at(&rebuilt, now_ms + reach_ms).await;
    assert!(claim(&after, &pool, 1).await.unwrap().window.start >= now_ms + reach_ms);
}

/// A process that was hours fast and alone has crashed. Its row passes for the time, so others are refused, and moves no floor of
/// theirs; an operator takes its worker id away, and they start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_holder_that_crashed_is_released_by_hand() {
    let Some(server) = Etcd::start() else { return };
    let now_ms = SystemClock.unix_ms();
    let at =
        async |clock_ms: u64| open_within(server.url(), Arc::new(ManualClock::at(clock_ms)), TIMEOUT_MS).await.unwrap();
    let pool = pool("fast", 8);
    let fast = claim(&at(now_ms + 8 * 3_600_000).await, &pool, 1).await.unwrap();
    let right = at(now_ms).await.leases.unwrap();
    let mut holder = Holder::new(2, "right", now_ms);
    holder.start_max_ms = Some(now_ms + AHEAD_MS);
    let told = right.acquire(&pool, WorkerChoice::Any, &holder, &terms()).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::Refused && told.to_string().contains("28800000 ms less"), "{told}");
    assert_eq!(right.leases(&pool).await.unwrap().len(), 1);
    right.free(&pool, fast.worker).await.unwrap();
    let lease = right.acquire(&pool, WorkerChoice::Any, &holder, &terms()).await.unwrap();
    assert_eq!(lease.window.start, now_ms);
    assert_windows_disjoint(&[fast, lease]);
}

/// Everything is deleted under a process that uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied() {
    let Some(server) = Etcd::start() else { return };
    let store = open(server.url()).await.unwrap();
    let orders = Sequence::new("orders", 1);
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    allocate(&store, &orders, 10).await.unwrap();
    // From the first key to the end: a zero byte as both ends, in base64.
    server.post("/v3/kv/deleterange", &json!({"key": "AA==", "range_end": "AA=="})).unwrap();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    open(server.url()).await.unwrap();
    assert_eq!(allocate(&store, &orders, 10).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    assert_eq!(claim(&store, &pool("main", 2), 1).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
}

/// The leader of three stops answering: calls go on within their timeout, and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_stops() {
    let Some(cluster) = Etcd::cluster(3) else { return };
    let leader = cluster.leader().unwrap();
    // Named first, it is the one that is asked.
    let others = cluster.members().iter().filter(|member| member.port() != leader.port());
    let hosts: Vec<String> = others.map(|member| format!("127.0.0.1:{}", member.port())).collect();
    let url = format!("etcd://127.0.0.1:{},{}", leader.port(), hosts.join(","));
    let store = open_within(&url, Arc::new(SystemClock), 15_000).await.unwrap();
    let (orders, pool) = (Sequence::new("orders", 1), pool("main", 8));
    store.ranges.as_ref().unwrap().create(&orders).await.unwrap();
    let mut ranges = vec![allocate(&store, &orders, 10).await.unwrap()];
    let mut leases = vec![claim(&store, &pool, 0).await.unwrap()];
    leader.stop();
    ranges.push(allocate(&store, &orders, 10).await.unwrap());
    leases.push(claim(&store, &pool, 1).await.unwrap());
    leader.cont();
    for nth in 2..5 {
        ranges.push(allocate(&store, &orders, 10).await.unwrap());
        leases.push(claim(&store, &pool, nth).await.unwrap());
    }
    assert_disjoint(ranges);
    assert_windows_disjoint(&leases);
}

/// Base64 of a text, as the gateway wants keys and values.
pub(super) fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let bits = bytes.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - bytes.len()));
        (0..4)
            .map(
                |nth| if nth > bytes.len() { '=' } else { char::from(LETTERS[(bits >> (18 - 6 * nth)) as usize & 63]) },
            )
            .collect::<String>()
    };
    text.as_bytes().chunks(3).map(group).collect()
}

fn keys_in(server: &Etcd) -> u64 {
    let all = json!({"key": "AA==", "range_end": "AA==", "count_only": true});
    let count = server.post("/v3/kv/range", &all).unwrap()["count"].clone();
    count.as_str().and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored() {
    let Some(server) = Etcd::start() else { return };
    a_restored_data_folder_repeats_nothing(&server, server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_makes_nothing() {
    let Some(server) = Etcd::start() else { return };
    readers_make_nothing(server.url(), || keys_in(&server) == 0).await;
}

/// A user with a role over the prefix and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password() {
    let Some(server) = Etcd::start() else { return };
    let post = |path: &str, request: serde_json::Value| {
        let answer = server.post(&format!("/v3/auth/{path}"), &request).unwrap();
        assert!(answer["error"].is_null(), "{path}: {answer}");
    };
    post("role/add", json!({"name": "root"}));
    post("user/add", json!({"name": "root", "password": "r00t"}));
    post("user/grant", json!({"user": "root", "role": "root"}));
    post("role/add", json!({"name": "mintage"}));
    let prefix = json!({"permType": "READWRITE", "key": base64("mintage/"), "range_end": base64("mintage0")});
    post("role/grant", json!({"name": "mintage", "perm": prefix}));
    post("user/add", json!({"name": "app", "password": "s3cret"}));
    post("user/grant", json!({"user": "app", "role": "mintage"}));
    post("enable", json!({}));
    a_password_beside_the_url(&server.url().replace("://", "://app@")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_worker_ids() {
    let Some(server) = Etcd::start() else { return };
    a_deleted_record_of_worker_ids(server.url(), || {
        let answer = server.post("/v3/kv/deleterange", &json!({"key": base64("mintage/workers:main::0")})).unwrap();
        assert_eq!(answer["deleted"], "1", "{answer}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_schema() {
    let Some(server) = Etcd::start() else { return };
    let key = base64("mintage/registry");
    let found = || server.post("/v3/kv/range", &json!({"key": key})).unwrap()["kvs"][0]["value"].clone();
    open(server.url()).await.unwrap();
    let first = found();
    // The id, of 32 digits, stands at a place that base64 does not move: only what follows differs.
    let kept = first.as_str().unwrap().get(..52).unwrap().to_owned();
    let text = |schema: u32| format!("{kept}{}", base64(&format!("\",\"schema\":{schema}}}")));
    assert!(first.as_str().unwrap()[52..].starts_with(&base64("\",\"schema\":1")), "{first}");
    another_schema_is_left_alone(server.url(), |schema| {
        server.post("/v3/kv/put", &json!({"key": key, "value": text(schema)})).unwrap();
    })
    .await;
}

/// The member proves who it is to whoever trusts its authority, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted() {
    let Some(certificates) = Certificates::make() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (certificate, key) = (certificates.certificate(), certificates.key());
    // The last of two such options would win, so both addresses stand in one; the harness asks on the first.
    let settings = [format!("--cert-file={}", certificate.display()), format!("--key-file={}", key.display())];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = Etcd::start_with_also(&settings, &format!("https://127.0.0.1:{port}")) else { return };
    let (factory, mut address) = at(&format!("etcd://127.0.0.1:{port}"));
    address.timeout_ms = 3_000;
    for tls in [None, Some(Tls::default())] {
        address.tls = tls;
        assert_eq!(factory.init(&address).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    address.tls = Some(Tls::trusting(Some(certificates.authority())));
    assert!(factory.init(&address).await.unwrap());
    drop(server);
}
