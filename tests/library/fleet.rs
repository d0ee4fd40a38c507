//! A process among others: which worker id it takes, whose clocks it is compared with, what it does without its store.

use std::{collections::HashSet, path::Path, process::Command, sync::Arc, time::Duration};

use mintage::{AnyMinter, BuildError, EXIT_LEASE_LOST, Environment, LeaseHealth, Registry};
use mintage_core::{
    AnyId, Clock, Holder, LeaseStore, LeaseTerms, ManualClock, MintError, PoolLimits, StoreErrorKind, WorkerChoice,
    WorkerPool,
};

use crate::{
    NOW_MS, config_in,
    faulty::{Call, Fault, Faulty, builder},
    pass, settle,
};

const RENEW_MS: u64 = 3_000;
const WINDOW_MS: u64 = 60_000;

/// `POOL` is what stands in `[workers.main]`, `WORKER` in `worker = { … }`.
const CONFIG: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main"WORKER }
[workers.main]
POOL
[stores.main]
url = "STORE"
timeout = "5s"
"#;

fn config(store: &str, worker: &str, pool: &str) -> String {
    CONFIG.replace("WORKER", worker).replace("POOL", pool).replace("STORE", store)
}

async fn build(clock: &ManualClock, text: &str, variables: &[(&str, &str)]) -> Result<Registry, BuildError> {
    let environment = Environment::of(variables.iter().copied());
    builder(clock).environment(environment).build(config_in(Path::new("."), text)).await
}

fn worker_of(id: AnyId) -> u64 {
    let AnyId::Int(number) = id else { unreachable!("a snowflake has 64 bits") };
    number >> 12 & 0x3ff
}

fn events(registry: &Registry) -> AnyMinter {
    registry.any_minter("events").unwrap()
}

fn only(registry: &Registry) -> LeaseHealth {
    registry.leases().remove(0)
}

fn pool() -> WorkerPool {
    let mut pool = WorkerPool::new("main", 0..1024);
    pool.limits = PoolLimits::new(WINDOW_MS, 2_000, 1_000);
    pool
}

// ---- the number of the replica ----

#[tokio::test(start_paused = true)]
async fn a_replica_prefers_the_worker_id_of_its_number() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let text = config(&store.url(), ", ordinal = true", "");
    let mut running = Vec::new();
    for (variables, worker) in [
        (&[("HOSTNAME", "api-3")][..], 3),
        (&[("HOSTNAME", "api-7.api.default.svc")], 7),
        (&[("HOSTNAME", "api-3"), ("MINTAGE_ORDINAL", "5")], 5),
        // Held already: preferring is not insisting.
        (&[("HOSTNAME", "api-3")], 0),
    ] {
        let registry = build(&clock, &text, variables).await.unwrap();
        assert_eq!(only(&registry).worker, worker, "{variables:?}");
        running.push(registry);
    }
    for (variables, told) in [
        (&[("HOSTNAME", "laptop")][..], "\"laptop\" does not end in `-` and a number"),
        (&[("HOSTNAME", "api-")], "does not end in"),
        (&[("HOSTNAME", "api-x2")], "does not end in"),
        (&[("HOSTNAME", "api-3"), ("MINTAGE_ORDINAL", "two")], "MINTAGE_ORDINAL is \"two\""),
        (&[("MINTAGE_ORDINAL", "-1")], "MINTAGE_ORDINAL is"),
    ] {
        let error = build(&clock, &text, variables).await.unwrap_err();
        assert!(matches!(error, BuildError::Ordinal { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    assert_eq!(store.claims(), 4, "never worker id 0 instead");
    let error = build(&clock, &text, &[("MINTAGE_ORDINAL", "1024")]).await.unwrap_err();
    assert!(error.to_string().contains("replica 1024 has no worker id: the pool owns 0..1024"), "{error}");
}

/// In a region the replicas count from the start of its block.
#[tokio::test(start_paused = true)]
async fn replicas_of_a_region_count_in_its_block() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let regions = "region = \"us\"\ncount = 2\n[regions]\neu = \"0..256\"\nus = \"256..512\"";
    let text = config(&store.url(), ", ordinal = true", regions);
    let registry = build(&clock, &text, &[("MINTAGE_ORDINAL", "2")]).await.unwrap();
    let workers: Vec<u32> = registry.leases().iter().map(|lease| lease.worker).collect();
    assert_eq!(workers, [260, 261], "two for each replica");
    let error = build(&clock, &text, &[("MINTAGE_ORDINAL", "128")]).await.unwrap_err();
    assert!(error.to_string().contains("replica 128 has no worker id"), "{error}");
}

/// Another worker id of a store that only this machine has may be another machine's: there a number is insisted on.
#[tokio::test]
async fn a_local_store_gives_a_replica_its_own_worker_id_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let text = config("file:ids", ", ordinal = true", "");
    let variables = [("MINTAGE_ORDINAL", "3")];
    let start = async || {
        let builder = Registry::builder().builtins().environment(Environment::of(variables));
        builder.build(config_in(folder.path(), &text)).await
    };
    let first = start().await.unwrap();
    assert_eq!(only(&first).worker, 3);
    let BuildError::Store { source, .. } = start().await.unwrap_err() else { unreachable!("the store refuses") };
    assert_eq!(source.kind(), StoreErrorKind::Conflict);
    let checked = Registry::builder().builtins().environment(Environment::of(variables));
    let checked = checked.check(&config_in(folder.path(), &text)).unwrap();
    assert!(
        checked.warnings.to_string().contains("nothing keeps another machine from using it"),
        "{}",
        checked.warnings
    );
    // What the first one minted is in its folder, written before it was used: a new start goes on above it.
    let last = events(&first).mint().unwrap();
    first.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let next = events(&start().await.unwrap()).mint_ready().await.unwrap();
    assert!(next > last && worker_of(next) == 3);
}

// ---- several worker ids in one process ----

#[tokio::test(start_paused = true)]
async fn several_worker_ids_make_as_many_times_the_ids() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = build(&clock, &config(&store.url(), "", "count = 3"), &[]).await.unwrap();
    let leases = registry.leases();
    assert_eq!(leases.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [0, 1, 2]);
    let minter = events(&registry);
    let mut seen = HashSet::new();
    // The clock stands still: nothing is borrowed, each worker id fills its millisecond.
    for _ in 0..3 * 4096 {
        assert!(seen.insert(minter.mint().unwrap()));
    }
    assert_eq!(minter.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
    let workers: HashSet<u64> = seen.iter().map(|id| worker_of(*id)).collect();
    assert_eq!(workers, HashSet::from([0, 1, 2]));
    clock.advance(1);
    let batch = minter.mint_many(5_000).await.unwrap();
    assert!(batch.iter().all(|id| seen.insert(*id)));

    // Each is a lease of its own: one may be lost while the others go on.
    settle().await;
    store.healthy().revoke(&pool(), 1).await.unwrap();
    pass(&clock, RENEW_MS).await;
    let workers: Vec<u32> = registry.leases().iter().map(|lease| lease.worker).collect();
    assert_eq!(workers, [0, 3, 2]);
    registry.close().await.unwrap();
    assert_eq!(minter.mint(), Err(MintError::Closed));
    let rows = store.healthy().leases(&pool()).await.unwrap();
    assert!(rows.iter().all(|row| !row.held || row.revoked), "{rows:?}");
}

// ---- a lost lease ends the process, if it should ----

#[tokio::test(start_paused = true)]
async fn a_lost_lease_calls_the_hook_and_mints_no_more() {
    for lapse in [false, true] {
        let clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&clock);
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let hook = Arc::clone(&told);
        let builder = builder(&clock).on_lease_lost(move |why| hook.lock().unwrap().push(why.to_owned()));
        let text = config(&store.url(), "", "on_lease_lost = \"exit\"");
        let registry = builder.build(config_in(Path::new("."), &text)).await.unwrap();
        settle().await;
        if lapse {
            store.set(Fault::Down);
            pass(&clock, WINDOW_MS - 100).await;
            assert!(told.lock().unwrap().is_empty(), "the window is not over");
            pass(&clock, RENEW_MS).await;
        } else {
            store.healthy().revoke(&pool(), 0).await.unwrap();
            pass(&clock, RENEW_MS).await;
        }
        let told = told.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("pool main: the lease on worker id 0 is lost: "), "{told:?}");
        assert_eq!(events(&registry).mint(), Err(MintError::Closed));
        assert_eq!(store.claims(), 1, "no other is claimed");
    }
}

/// The test below runs this one in a process of its own.
#[tokio::test(start_paused = true)]
#[ignore = "ends its process"]
async fn a_process_that_loses_its_lease() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = build(&clock, &config(&store.url(), "", "on_lease_lost = \"exit\""), &[]).await.unwrap();
    settle().await;
    store.healthy().revoke(&pool(), 0).await.unwrap();
    pass(&clock, 2 * RENEW_MS).await;
    drop(registry);
}

#[test]
fn without_a_hook_the_process_ends_and_says_why() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "fleet::a_process_that_loses_its_lease"])
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(EXIT_LEASE_LOST), "{child:?}");
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(told.contains("mintage: pool main: the lease on worker id 0 is lost"), "{told}");
}

// ---- clocks ----

/// Three processes on one store, each with a clock of its own.
struct Trio {
    store_clock: ManualClock,
    store: Arc<Faulty>,
    clocks: Vec<ManualClock>,
    running: Vec<Registry>,
}

impl Trio {
    /// `offsets_ms` are those of the processes that run already.
    async fn with(offsets_ms: &[i64]) -> Self {
        let store_clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&store_clock);
        Self::on(store_clock, store, offsets_ms).await
    }

    async fn on(store_clock: ManualClock, store: Arc<Faulty>, offsets_ms: &[i64]) -> Self {
        let mut trio = Self { store_clock, store, clocks: Vec::new(), running: Vec::new() };
        for offset_ms in offsets_ms {
            // Nobody is there to refuse the first ones, or they are told to bear with it.
            trio.start(*offset_ms, "clock = { refuse_start = \"1d\" }").await.unwrap();
        }
        trio
    }

    async fn start(&mut self, offset_ms: i64, pool: &str) -> Result<(), BuildError> {
        let clock = ManualClock::at(NOW_MS.saturating_add_signed(offset_ms));
        let registry = build(&clock, &config(&self.store.url(), "", pool), &[]).await?;
        settle().await;
        self.clocks.push(clock);
        self.running.push(registry);
        Ok(())
    }

    async fn pass(&self, ms: u64) {
        for _ in 0..ms / 50 {
            self.store_clock.advance(50);
            self.clocks.iter().for_each(|clock| clock.advance(50));
            tokio::time::advance(Duration::from_millis(50)).await;
            settle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_disagrees_with_the_others_does_not_start() {
    let mut trio = Trio::with(&[3_600_000, 0, 2, -3]).await;
    let told = trio.start(-250, "").await.unwrap_err();
    let BuildError::Clock { skew_ms: -252, limit_ms: 100, peers: 4, .. } = told else { unreachable!("{told:?}") };
    assert!(told.to_string().contains("clock is 252 ms behind that of the 4 other holders"), "{told}");
    let held = trio.store.healthy().leases(&pool()).await.unwrap().iter().filter(|row| row.held).count();
    assert_eq!(held, 4, "what was claimed has been given back");
    assert!(trio.start(103, "").await.unwrap_err().to_string().contains("101 ms ahead of"), "one beyond the limit");
    trio.start(102, "").await.unwrap();
    let health = only(trio.running.last().unwrap());
    assert_eq!((health.clock_skew_ms, health.peers, health.clock_alert), (Some(100), 4, true));
    assert_eq!(health.store_offset_ms, Some(102));
    let health = only(&trio.running[3]);
    assert_eq!((health.clock_skew_ms, health.clock_alert), (Some(-5), false), "as it was at its start, beside three");
}

#[tokio::test(start_paused = true)]
async fn nobody_to_compare_with_is_no_reason_to_stop() {
    // A clock hours off, alone; then one whose peers cannot be asked; then one whose peers have gone.
    let mut trio = Trio::with(&[]).await;
    trio.start(7_200_000, "").await.unwrap();
    assert_eq!((only(&trio.running[0]).peers, only(&trio.running[0]).clock_skew_ms), (0, None));
    trio.store.set(Fault::DownFor("leases"));
    trio.start(0, "").await.unwrap();
    assert_eq!(only(&trio.running[1]).clock_skew_ms, None);
    trio.store.set(Fault::Down);
    drop(std::mem::take(&mut trio.running));
    trio.pass(11_000).await;
    trio.store.set(Fault::None);
    trio.start(50_000, "").await.unwrap();
    assert_eq!(only(&trio.running[0]).peers, 0, "leases that ran out are nobody's");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_drifts_away_is_noticed_at_a_renewal() {
    let trio = Trio::with(&[0, 0, 0]).await;
    trio.pass(RENEW_MS).await;
    assert!(trio.running.iter().all(|one| !only(one).clock_alert && only(one).peers == 2));
    trio.clocks[1].step(6);
    trio.pass(RENEW_MS).await;
    let seen: Vec<_> = trio.running.iter().map(only).map(|lease| (lease.clock_skew_ms, lease.clock_alert)).collect();
    assert_eq!(seen[1], (Some(6), true));
    assert!(trio.running.iter().all(|one| only(one).live), "an alert stops nothing");
    trio.clocks[1].step(-6);
    trio.pass(RENEW_MS).await;
    assert!(!only(&trio.running[1]).clock_alert);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_not_taken_for_a_wrong_clock() {
    let mut trio = Trio::with(&[0, 0]).await;
    trio.store.set(Fault::Slow(400));
    // The question takes 400 ms to get there: the store's clock is 400 ms on when it answers.
    let clock = ManualClock::at(NOW_MS);
    let text = config(&trio.store.url(), "", "");
    let starting = tokio::spawn({
        let clock = clock.clone();
        async move { build(&clock, &text, &[]).await }
    });
    trio.clocks.push(clock);
    settle().await;
    trio.pass(4_000).await;
    let registry = starting.await.unwrap().unwrap();
    let health = only(&registry);
    assert_eq!((health.clock_skew_ms, health.peers), (Some(0), 2), "{health:?}");
}

/// R12: whose clock was set back far gives its worker id up and claims anew; a small step is borrowed over.
#[tokio::test(start_paused = true)]
async fn a_step_back_gives_the_worker_id_up() {
    let trio = Trio::with(&[0]).await;
    let minter = events(&trio.running[0]);
    trio.pass(RENEW_MS).await;
    let mut seen = vec![minter.mint().unwrap()];
    trio.clocks[0].step(-100);
    trio.pass(RENEW_MS).await;
    assert_eq!(trio.store.claims(), 1, "as much as the limit");
    trio.clocks[0].step(-101);
    let claims = trio.store.claims();
    trio.pass(RENEW_MS).await;
    assert_eq!((claims, trio.store.claims()), (1, 2));
    let (worker, first_unused_ms) = trio.store.last_release().unwrap();
    assert_eq!((worker, first_unused_ms), (0, NOW_MS + RENEW_MS + 1), "above all it had stamped");
    trio.pass(RENEW_MS).await;
    seen.push(minter.mint_ready().await.unwrap());
    assert!(seen[1] > seen[0]);
    assert!(trio.running[0].health().ready);
}

/// The store is away when the clock is set back. Nothing is gained by stopping: the window is ours, and a logical clock keeps
/// the order. The worker id is given up when the store is back.
#[tokio::test(start_paused = true)]
async fn a_step_back_while_the_store_is_away_stops_nobody() {
    let trio = Trio::with(&[0]).await;
    let minter = events(&trio.running[0]);
    trio.pass(RENEW_MS).await;
    let mut seen = vec![minter.mint().unwrap()];
    trio.store.set(Fault::Down);
    trio.clocks[0].step(-150);
    for _ in 0..4 {
        trio.pass(RENEW_MS).await;
        seen.push(minter.mint().unwrap());
        assert!(trio.running[0].health().ready);
    }
    assert!(seen.is_sorted_by(|one, next| one < next));
    assert_eq!((trio.store.claims(), trio.store.last_release()), (1, None));

    trio.store.set(Fault::None);
    trio.pass(RENEW_MS).await;
    assert_eq!(trio.store.claims(), 2, "given up as soon as the store could be told");
    let told_ms = trio.store.last_release().unwrap().1;
    let last_ms = minter.scheme().anatomy(*seen.last().unwrap()).unwrap().time.unwrap().unix_ms;
    assert_eq!(told_ms, u64::try_from(last_ms).unwrap() + 1, "above all it had stamped");
    assert!(minter.mint_ready().await.unwrap() > *seen.last().unwrap());
}

/// The worker id is given back, and no other is to be had: whoever asks is told so, and the reserve or the exit are for that.
#[tokio::test(start_paused = true)]
async fn who_gave_its_worker_id_up_and_gets_no_other_is_not_ready() {
    let mut trio = Trio::with(&[]).await;
    let lost = Arc::new(std::sync::Mutex::new(Vec::new()));
    let clock = ManualClock::at(NOW_MS);
    let text = config(&trio.store.url(), "", "on_lease_lost = \"exit\"");
    let told = Arc::clone(&lost);
    let registry = builder(&clock)
        .on_lease_lost(move |why| told.lock().unwrap().push(why.to_owned()))
        .build(config_in(Path::new("."), &text))
        .await
        .unwrap();
    settle().await;
    trio.clocks.push(clock);
    trio.running.push(registry);
    let minter = events(&trio.running[0]);
    trio.pass(RENEW_MS).await;
    trio.store.set(Fault::DownFor("acquire"));
    trio.clocks[0].step(-150);
    trio.pass(RENEW_MS + 100).await;
    assert_eq!(trio.store.last_release().map(|(worker, _)| worker), Some(0));
    assert!(minter.mint().is_err());
    let health = trio.running[0].health();
    assert!(!health.ready && !health.leases[0].live, "{health:?}");
    let told = lost.lock().unwrap().clone();
    assert!(told.len() == 1 && told[0].contains("worker id 0 is lost"), "{told:?}");
}

/// The store's clock is an hour ahead. A window that begins then is of no use for an hour, and its worker id would be spoilt
/// for as long, one at each start.
#[tokio::test(start_paused = true)]
async fn a_window_that_begins_far_ahead_is_refused_and_spoils_no_worker_id() {
    let mut trio = Trio::with(&[0]).await;
    let floors = async |trio: &Trio| -> Vec<u64> {
        trio.store.healthy().leases(&pool()).await.unwrap().iter().map(|row| row.floor_ms).collect()
    };
    let before = floors(&trio).await;
    trio.store_clock.step(3_600_000);
    for _ in 0..3 {
        let BuildError::Store { source, .. } = trio.start(0, "").await.unwrap_err() else { unreachable!("a refusal") };
        assert_eq!(source.kind(), StoreErrorKind::Refused);
        let told = source.to_string();
        for part in ["1800003600000 ms since 1970", "this machine's 1800000000000", "3600000 ms less", "set the clock"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    assert_eq!(floors(&trio).await, before);
    assert_eq!(trio.store.claims(), 1);
    // The clock is set right: everybody starts.
    trio.store_clock.step(-3_600_000);
    trio.start(0, "").await.unwrap();
    events(trio.running.last().unwrap()).mint().unwrap();
}

/// etcd and ZooKeeper have no clock. A process that is eight hours fast and crashes again and again would take one worker id with
/// each start, for eight hours, until the pool is empty.
#[tokio::test(start_paused = true)]
async fn without_a_clock_in_the_store_the_holders_tell_the_time() {
    const EIGHT_HOURS_MS: i64 = 8 * 3_600_000;
    let mut trio = Trio::on(ManualClock::at(NOW_MS), Faulty::without_clock(), &[0, 0]).await;
    trio.pass(RENEW_MS).await;
    let floors = async |trio: &Trio| -> Vec<u64> {
        trio.store.healthy().leases(&pool()).await.unwrap().iter().map(|row| row.floor_ms).collect()
    };
    for _ in 0..3 {
        let clock = ManualClock::at(NOW_MS.saturating_add_signed(EIGHT_HOURS_MS));
        let text = config(&trio.store.url(), "", "");
        let starting = tokio::spawn(async move { build(&clock, &text, &[]).await });
        // It watches for longer than a renewal takes.
        trio.pass(RENEW_MS + 2_000).await;
        let BuildError::Store { source, .. } = starting.await.unwrap().unwrap_err() else { unreachable!("a refusal") };
        assert_eq!(source.kind(), StoreErrorKind::Refused);
        let told = source.to_string();
        assert!(
            told.contains("this machine's clock shows 1800028800000 ms") && told.contains("just renewed"),
            "{told}"
        );
    }
    assert_eq!((trio.store.claims(), floors(&trio).await.len()), (2, 2), "no worker id was touched");
    assert!(floors(&trio).await.iter().all(|floor_ms| *floor_ms < NOW_MS + 2 * WINDOW_MS));
    // Whose clock is right starts at once.
    let claims = trio.store.claims();
    let began = tokio::time::Instant::now();
    let passed_ms = i64::try_from(trio.clocks[0].unix_ms() - NOW_MS).unwrap();
    trio.start(passed_ms, "").await.unwrap();
    assert_eq!((trio.store.claims(), began.elapsed()), (claims + 1, Duration::ZERO));
    events(trio.running.last().unwrap()).mint().unwrap();
}

/// Everybody crashed, hours ago: their rows tell nothing, and a start waits no longer than for one renewal.
#[tokio::test(start_paused = true)]
async fn holders_that_are_gone_keep_nobody_from_starting() {
    let mut trio = Trio::on(ManualClock::at(NOW_MS), Faulty::without_clock(), &[0, 0]).await;
    trio.store.set(Fault::Down);
    trio.running.clear();
    trio.store.set(Fault::None);
    let began = tokio::time::Instant::now();
    trio.start(8 * 3_600_000, "").await.unwrap();
    assert!(began.elapsed() <= Duration::from_millis(RENEW_MS + 1_000), "{:?}", began.elapsed());
    events(&trio.running[0]).mint().unwrap();
}

/// A setting that would do nothing is told, not passed over.
#[test]
fn limits_of_the_clock_on_a_store_of_one_machine_are_told_to_be_idle() {
    let told = |clock: &str, url: &str| {
        let config = config_in(Path::new("."), &config(url, "", clock));
        builder(&ManualClock::at(NOW_MS)).check(&config).unwrap().warnings.to_string()
    };
    let clock = "clock = { release = \"1s\" }";
    for url in ["sqlite:ids.db", "file:ids", "memory:"] {
        let told = told(clock, url);
        assert!(told.contains("workers.main.clock: has no effect: store main is of this machine"), "{told}");
        assert!(told.contains("mintage.toml:9:"), "{told}");
    }
    assert_eq!(told("", "sqlite:ids.db"), "");
    assert_eq!(told(clock, &Faulty::without_clock().url()), "");
}

// ---- the reserve ----

const WITH_RESERVE: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
store = "main"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
fallback = { pool = "spare" }
[workers.main]
store = "main"
region = "eu"
[workers.spare]
store = "reserve"
region = "eu-spare"
[regions]
eu = "0..240"
eu-spare = "240..256"
[stores.main]
url = "MAIN"
timeout = "5s"
[stores.reserve]
url = "RESERVE"
timeout = "5s"
"#;

struct Reserve {
    clock: ManualClock,
    home: Arc<Faulty>,
    spare: Arc<Faulty>,
    text: String,
}

impl Reserve {
    fn new() -> Self {
        let clock = ManualClock::at(NOW_MS);
        let (home, spare) = (Faulty::new(&clock), Faulty::new(&clock));
        let text = WITH_RESERVE.replace("MAIN", &home.url()).replace("RESERVE", &spare.url());
        Self { clock, home, spare, text }
    }

    async fn build(&self) -> Result<Registry, BuildError> {
        let registry = build(&self.clock, &self.text, &[]).await;
        settle().await;
        registry
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_without_its_store_takes_the_reserve_and_says_so() {
    let stage = Reserve::new();
    stage.home.set(Fault::Down);
    let registry = stage.build().await.unwrap();
    let told = registry.notices().join("\n");
    assert!(told.contains("store main cannot be reached") && told.contains("pool spare"), "{told}");
    let health = only(&registry);
    assert_eq!((health.pool.as_str(), health.in_place_of.as_deref()), ("spare", Some("main")));
    assert_eq!(health.worker, 240);
    let minter = events(&registry);
    let mut seen = HashSet::from([minter.mint().unwrap()]);
    // It lives on the reserve as long as it takes.
    pass(&stage.clock, 5 * WINDOW_MS).await;
    assert!(seen.insert(minter.mint().unwrap()));
    assert_eq!(only(&registry).worker, 240);

    // Back home, and the reserve is free again.
    stage.home.set(Fault::None);
    pass(&stage.clock, 40_000).await;
    let health = only(&registry);
    assert_eq!((health.pool.as_str(), health.in_place_of, health.worker), ("main", None, 0));
    assert!(seen.insert(minter.mint().unwrap()));
    assert_eq!(stage.spare.last_release().unwrap().0, 240);
    registry.close().await.unwrap();
    assert_eq!(stage.home.last_release().unwrap().0, 0);

    // The next start finds everything at home.
    let registry = stage.build().await.unwrap();
    assert!(registry.notices().is_empty() && only(&registry).worker < 240);
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_moves_a_running_process_to_the_reserve() {
    let stage = Reserve::new();
    let registry = stage.build().await.unwrap();
    let minter = events(&registry);
    assert_eq!(stage.spare.claims(), 0, "nobody needs the reserve");
    stage.home.set(Fault::Down);
    pass(&stage.clock, WINDOW_MS - 100).await;
    assert_eq!(worker_of(minter.mint().unwrap()), 0, "its own window first");
    pass(&stage.clock, 2_000).await;
    assert_eq!(worker_of(minter.mint().unwrap()), 240);
    assert!(registry.health().ready && only(&registry).in_place_of.is_some());
    stage.home.set(Fault::None);
    pass(&stage.clock, 40_000).await;
    assert_eq!(worker_of(minter.mint().unwrap()), 0);
}

#[tokio::test(start_paused = true)]
async fn without_either_store_the_first_one_is_told() {
    let stage = Reserve::new();
    stage.home.set(Fault::Down);
    stage.spare.set(Fault::Down);
    let BuildError::Store { store, source } = stage.build().await.unwrap_err() else { unreachable!("a store's no") };
    assert_eq!((store.as_str(), source.kind()), ("reserve", StoreErrorKind::Unavailable));
}

/// A store that answers with a refusal is there: nobody goes past it.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_outage() {
    let stage = Reserve::new();
    stage.build().await.unwrap().close().await.unwrap();
    let mut other = Reserve::new();
    other.text = stage.text.replace("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z");
    let error = other.build().await.unwrap_err();
    let BuildError::Store { source, .. } = error else { unreachable!("{error}") };
    assert_eq!(source.kind(), StoreErrorKind::FormatMismatch);
    // And what differs is refused at the reserve as well.
    let stage = Reserve::new();
    stage.home.set(Fault::Down);
    stage.build().await.unwrap().close().await.unwrap();
    let changed = stage.text.replace("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z");
    let BuildError::Store { store, source } = build(&stage.clock, &changed, &[]).await.unwrap_err() else {
        unreachable!("a store's no")
    };
    assert_eq!((store.as_str(), source.kind()), ("reserve", StoreErrorKind::FormatMismatch));
}

/// The first outage finds at the reserve what home has on record: whoever has another config is refused, and not the first.
#[tokio::test(start_paused = true)]
async fn the_reserve_knows_before_the_first_outage_what_home_has_on_record() {
    let stage = Reserve::new();
    let registry = stage.build().await.unwrap();
    let pins = || stage.spare.calls();
    assert_eq!(pins(), ["regions.map", "events"].map(|name| Call::Pin(name.to_owned())));
    assert!(registry.notices().is_empty());
    stage.build().await.unwrap();
    assert_eq!(pins().iter().filter(|call| **call == Call::Pin("events".to_owned())).count(), 1, "known from then on");
    assert_eq!(stage.spare.claims(), 0);

    stage.home.set(Fault::Down);
    let other = stage.text.replace("worker = 10, sequence = 12", "worker = 11, sequence = 11");
    let BuildError::Store { store, source } = build(&stage.clock, &other, &[]).await.unwrap_err() else {
        unreachable!("a store's no")
    };
    assert_eq!((store.as_str(), source.kind()), ("reserve", StoreErrorKind::FormatMismatch));
    assert_eq!(stage.spare.claims(), 0);
    assert_eq!(only(&stage.build().await.unwrap()).worker, 240, "the same config is served");
}

/// What the reserve has on record counts for a start at home as well: others mint by it.
#[tokio::test(start_paused = true)]
async fn a_reserve_with_another_config_is_a_refusal_of_the_start() {
    let stage = Reserve::new();
    stage.home.set(Fault::Down);
    let other = stage.text.replace("worker = 10, sequence = 12", "worker = 11, sequence = 11");
    let running = build(&stage.clock, &other, &[]).await.unwrap();
    settle().await;
    stage.home.set(Fault::None);
    let BuildError::Store { store, source } = stage.build().await.unwrap_err() else { unreachable!("a store's no") };
    assert_eq!((store.as_str(), source.kind()), ("reserve", StoreErrorKind::FormatMismatch));
    assert_eq!(stage.home.last_release().map(|(worker, _)| worker), Some(0), "the claim was given back");
    assert!(!stage.home.calls().contains(&Call::Pin("events".to_owned())), "nothing of it is on record at home");
    drop(running);
}

/// Nobody needs the reserve yet: it is told that it is away, at once, and that is all.
#[tokio::test(start_paused = true)]
async fn a_reserve_that_cannot_be_used_is_told_and_delays_nobody() {
    for fault in [Fault::Down, Fault::Hang, Fault::Slow(600), Fault::DownFor("pin")] {
        let stage = Reserve::new();
        stage.spare.set(fault);
        let began = tokio::time::Instant::now();
        let registry = build(&stage.clock, &stage.text, &[]).await.unwrap();
        assert!(began.elapsed() <= Duration::from_millis(1_000), "{fault:?}: {:?}", began.elapsed());
        let told = registry.notices().join("\n");
        assert!(told.contains("pool spare, the reserve of pool main, could not be used now: store reserve"), "{told}");
        assert_eq!(only(&registry).worker, 0);
        events(&registry).mint().unwrap();
    }
    // In a test with a seed there is no store at all.
    let stage = Reserve::new();
    let config = config_in(Path::new("."), &stage.text.replace("faulty:", "sqlite:nowhere/"));
    let registry = Registry::fixed(config, stage.clock.clone(), 7).await.unwrap();
    assert!(registry.notices().is_empty() && !Path::new("nowhere").exists());
}

/// The reserve could not be told in time, and took another config. Both may have made the same ids: no more than until home says so.
#[tokio::test(start_paused = true)]
async fn a_config_that_changed_meanwhile_stops_when_home_is_back() {
    let changes = [
        // At home the entity has another epoch, and regions other blocks.
        ("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "entities.events: the config disagrees with the format"),
        ("eu = \"0..240\"", "eu = \"0..200\"", "regions.eu: 0..240 in the config"),
        // At home windows are shorter.
        (
            "store = \"main\"\nregion",
            "store = \"main\"\nlease = { window = \"30s\" }\nregion",
            "lease.window of 60000 ms",
        ),
    ];
    for (ours, at_home, why) in changes {
        let stage = Reserve::new();
        stage.spare.set(Fault::Down);
        build(&stage.clock, &stage.text.replace(ours, at_home), &[]).await.unwrap().close().await.unwrap();
        stage.spare.set(Fault::None);
        stage.home.set(Fault::Down);
        let registry = stage.build().await.unwrap();
        let minter = events(&registry);
        pass(&stage.clock, 2 * WINDOW_MS).await;
        assert_eq!(worker_of(minter.mint().unwrap()), 240, "{why}");

        stage.home.set(Fault::None);
        pass(&stage.clock, 40_000).await;
        let refused = |minter: &AnyMinter| assert_eq!(minter.mint(), Err(MintError::LeaseLapsed), "{why}");
        refused(&minter);
        let error = minter.mint_ready().await.unwrap_err();
        assert!(error.store_error().unwrap().to_string().contains(why), "{error:?}");
        let health = registry.health();
        assert!(!health.ready && health.leases[0].trouble.as_ref().unwrap().contains(why), "{health:?}");
        assert_eq!(stage.spare.last_release().unwrap().0, 240, "{why}");
        // Home is away once more: the reserve is no way out.
        stage.home.set(Fault::Down);
        pass(&stage.clock, 2 * WINDOW_MS).await;
        refused(&minter);
        assert_eq!(stage.spare.claims(), 1, "{why}");
    }
}

/// Whoever was at home with this config before, and finds the clocks apart when home is back, lives on at the reserve.
#[tokio::test(start_paused = true)]
async fn clocks_that_are_apart_keep_a_process_on_the_reserve() {
    let mut stage = Reserve::new();
    let store_clock = ManualClock::at(NOW_MS);
    stage.home = Faulty::new(&store_clock);
    stage.text = WITH_RESERVE.replace("MAIN", &stage.home.url()).replace("RESERVE", &stage.spare.url());
    let registry = stage.build().await.unwrap();
    stage.home.set(Fault::Down);
    pass(&stage.clock, WINDOW_MS + 2_000).await;
    store_clock.step(3_600_000);
    stage.home.set(Fault::None);
    pass(&stage.clock, 2 * WINDOW_MS).await;
    assert_eq!(worker_of(events(&registry).mint().unwrap()), 240);
    store_clock.step_to(stage.clock.unix_ms());
    pass(&stage.clock, 40_000).await;
    assert!(worker_of(events(&registry).mint().unwrap()) < 240);
}

// ---- regions ----

#[tokio::test(start_paused = true)]
async fn the_map_of_regions_is_kept_in_every_store() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let with = |pool: &str, regions: &str| {
        config(&store.url(), "", &format!("region = \"eu\"\n[regions]\n{regions}")).replace("main", pool)
    };
    build(&clock, &with("main", "eu = \"0..256\"\nus = \"256..512\""), &[]).await.unwrap();
    // Another service on the same store: a map that is smaller, or grows, and one that overlaps.
    for taken in ["eu = \"0..256\"", "eu = \"0..256\"\nap = \"512..768\""] {
        let text = with("main", taken);
        build(&clock, &text, &[]).await.unwrap();
    }
    for (refused, told) in [
        (
            "eu = \"0..256\"\nsa = \"700..800\"",
            "regions.sa: 700..800 in the config, but the store has region ap with 512..768",
        ),
        ("eu = \"0..255\"", "regions.eu: 0..255 in the config, but the store has region eu with 0..256"),
        ("eu = \"256..300\"", "regions.eu: 256..300 in the config"),
    ] {
        let claims = store.claims();
        let BuildError::Store { source, .. } = build(&clock, &with("main", refused), &[]).await.unwrap_err() else {
            unreachable!("a store's no")
        };
        assert_eq!(source.kind(), StoreErrorKind::FormatMismatch);
        assert!(source.to_string().contains(told), "{source}");
        assert_eq!(store.claims(), claims, "nothing was claimed");
    }
}

// ---- long outages ----

/// A profile with windows of ten minutes: a store that is down for five is not noticed by anybody who mints.
#[tokio::test(start_paused = true)]
async fn ten_minute_windows_ride_out_five_minutes_without_the_store() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let profile = "lease = { window = \"10m\", renew = \"10s\", ttl = \"30s\" }";
    let registry = build(&clock, &config(&store.url(), "", profile), &[]).await.unwrap();
    settle().await;
    let minter = events(&registry);
    let mut seen = HashSet::new();
    for (fault, seconds) in
        [(Fault::None, 60), (Fault::Down, 300), (Fault::None, 60), (Fault::Hang, 300), (Fault::None, 60)]
    {
        store.set(fault);
        for _ in 0..seconds {
            pass(&clock, 1_000).await;
            assert!(seen.insert(minter.mint().unwrap()), "{fault:?}");
        }
    }
    assert_eq!((store.claims(), only(&registry).worker), (1, 0), "one claim for all of it");
    assert_eq!(clock.unix_ms(), NOW_MS + 780_000);
    // Others could not have taken the id meanwhile: its floor is far ahead.
    let rival = Holder::new(9, "rival", NOW_MS);
    let terms = LeaseTerms::new(600_000, 30_000, 1_000, 2_000);
    let mut whole = pool();
    whole.limits = PoolLimits::new(600_000, 2_000, 1_000);
    let error = store.healthy().acquire(&whole, WorkerChoice::Exactly(0), &rival, &terms).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
}
