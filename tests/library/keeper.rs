//! Leases through everything that happens to them. The clock is moved by hand and the runtime's time with it, so minutes of
//! outage take milliseconds.

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use mintage::{AnyMinter, BuildError, Registry};
use mintage_core::{
    AnyId, Clock as _, Holder, LeaseStore, LeaseTerms, ManualClock, MintError, PoolLimits, StoreErrorKind,
    WorkerChoice, WorkerPool,
};
use tokio::time::Instant;

use crate::{
    NOW_MS, config_in,
    faulty::{Fault, Faulty, builder},
    pass, settle,
};

/// The defaults of a lease, as the config has them.
const WINDOW_MS: u64 = 60_000;
const RENEW_MS: u64 = 3_000;
/// A renewal comes up to a tenth early.
const RENEW_MS_MIN: u64 = 2_700;
/// After a failure the store is asked again within this time.
const RETRY_MS_MAX: u64 = RENEW_MS;
const TTL_MS: u64 = 10_000;
const AHEAD_MS: u64 = 2_000;
const GUARD_MS: u64 = 1_000;
const STRICT: &str = "stop = \"8s\"";
const STOP_MS: u64 = 8_000;

/// A registry with one snowflake entity on a faulty store.
struct Stage {
    clock: ManualClock,
    store: Arc<Faulty>,
    registry: Registry,
    events: AnyMinter,
}

impl Stage {
    async fn new() -> Self {
        Self::with("").await
    }

    /// `lease` is what stands in the config's `lease = { … }`.
    async fn with(lease: &str) -> Self {
        let clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&clock);
        Self::on(clock, store, lease).await
    }

    async fn on(clock: ManualClock, store: Arc<Faulty>, lease: &str) -> Self {
        let registry = start(&clock, &store, lease).await.unwrap();
        let events = registry.any_minter("events").unwrap();
        // The keeper's first pause begins now.
        settle().await;
        Self { clock, store, registry, events }
    }

    async fn pass(&self, ms: u64) {
        pass(&self.clock, ms).await;
    }

    fn since_start_ms(&self) -> u64 {
        self.clock.unix_ms() - NOW_MS
    }

    /// Lets time pass up to so many milliseconds after the start.
    async fn pass_until(&self, ms_after_start: u64) {
        self.pass(ms_after_start - self.since_start_ms()).await;
    }

    fn worker(&self) -> u64 {
        worker_of(self.events.mint().unwrap())
    }

    fn window_end_ms(&self) -> u64 {
        self.registry.leases()[0].window_end_ms
    }
}

async fn start(clock: &ManualClock, store: &Faulty, lease: &str) -> Result<Registry, BuildError> {
    let config = format!(
        r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = {{ time = 41, worker = 10, sequence = 12 }}
worker = {{ pool = "main" }}
[workers.main]
lease = {{ quarantine = "0s", {lease} }}
[stores.main]
url = "{}"
timeout = "5s"
"#,
        store.url()
    );
    builder(clock).build(config_in(Path::new("."), &config.replace(", }", " }"))).await
}

fn number(id: AnyId) -> u64 {
    let AnyId::Int(number) = id else { unreachable!("a snowflake has 64 bits") };
    number
}

fn worker_of(id: AnyId) -> u64 {
    number(id) >> 12 & 0x3ff
}

/// Milliseconds after the start that an id is stamped with.
fn ms_of(id: AnyId) -> i64 {
    const EPOCH_MS: u64 = 1_767_225_600_000;
    (number(id) >> 22) as i64 + EPOCH_MS as i64 - NOW_MS as i64
}

fn pool() -> WorkerPool {
    let mut pool = WorkerPool::new("main", 0..1024);
    pool.limits = PoolLimits::new(WINDOW_MS, AHEAD_MS, GUARD_MS);
    pool
}

fn terms() -> LeaseTerms {
    LeaseTerms::new(WINDOW_MS, TTL_MS, 0, AHEAD_MS)
}

#[tokio::test(start_paused = true)]
async fn renewal_moves_the_window_on() {
    let stage = Stage::new().await;
    assert_eq!(stage.window_end_ms(), NOW_MS + WINDOW_MS);
    stage.pass(RENEW_MS_MIN - 50).await;
    assert_eq!(stage.window_end_ms(), NOW_MS + WINDOW_MS, "not yet");
    stage.pass(RENEW_MS - RENEW_MS_MIN + 50).await;
    let renewed = NOW_MS + RENEW_MS_MIN + WINDOW_MS..=NOW_MS + RENEW_MS + WINDOW_MS;
    assert!(renewed.contains(&stage.window_end_ms()));
    let mut seen = HashSet::new();
    for _ in 0..200 {
        stage.pass(RENEW_MS).await;
        assert!(seen.insert(stage.events.mint().unwrap()));
    }
    assert_eq!(stage.store.claims(), 1, "ten minutes on one claim");
    let health = &stage.registry.leases()[0];
    assert!(health.live && health.worker == 0 && health.trouble.is_none(), "{health:?}");
    stage.registry.close().await.unwrap();
}

/// R11: an outage of the coordinator stops nobody before the window is over, and everybody then.
#[tokio::test(start_paused = true)]
async fn an_outage_stops_minting_at_the_end_of_the_window_and_not_before() {
    let stage = Stage::new().await;
    stage.pass(RENEW_MS + 500).await;
    stage.store.set(Fault::Down);
    let end_ms = stage.window_end_ms() - NOW_MS;
    stage.pass_until(end_ms - 1).await;
    let last = stage.events.mint().unwrap();
    assert_eq!(ms_of(last) as u64, end_ms - 1);
    let health = &stage.registry.leases()[0];
    assert!(health.live && health.trouble.as_deref().is_some_and(|why| why.contains("down for renew")), "{health:?}");

    stage.pass(1).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
    assert!(!stage.registry.leases()[0].live);
    let error = stage.events.mint_ready().await.unwrap_err();
    assert_eq!(error.kind(), MintError::LeaseLapsed);
    assert_eq!(
        error.store_error().unwrap().kind(),
        StoreErrorKind::Unavailable,
        "ready carries the store's last error"
    );
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));

    // Back: nobody took the worker id, so the same claim goes on.
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    let first = stage.events.mint().unwrap();
    assert!(first > last && worker_of(first) == 0, "{first:?} after {last:?}");
    assert!(stage.registry.leases()[0].trouble.is_none());
    assert_eq!(stage.store.claims(), 1);
}

/// A store that is down is asked less and less often, and still several times before minting stops.
#[tokio::test(start_paused = true)]
async fn tries_become_rarer_and_still_fit_before_the_stop() {
    let stage = Stage::with(STRICT).await;
    stage.pass(RENEW_MS).await;
    stage.store.set(Fault::Down);
    let sent_ms = stage.window_end_ms() - WINDOW_MS - NOW_MS;
    stage.pass_until(sent_ms + STOP_MS - 1).await;
    stage.events.mint().unwrap();
    // Some fit however the waits fall, and these did not fall at their longest.
    let in_time = stage.store.refused();
    assert!((4..=30).contains(&in_time), "{in_time} in five seconds");
    stage.pass(1).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
    let before = stage.store.refused();
    stage.pass(60_000).await;
    let later = stage.store.refused() - before;
    assert!((20..=200).contains(&later), "{later} in a minute");
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    stage.events.mint().unwrap();
}

/// Whoever waits gets an id as soon as the store is back, without asking again.
#[tokio::test(start_paused = true)]
async fn a_waiting_caller_is_woken_when_the_store_is_back() {
    let stage = Stage::new().await;
    stage.store.set(Fault::Down);
    stage.pass(WINDOW_MS).await;
    let waiting = tokio::spawn({
        let events = stage.events.clone();
        async move { events.mint_ready().await }
    });
    stage.pass(3_000).await;
    assert!(!waiting.is_finished());
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    assert!(waiting.is_finished());
    waiting.await.unwrap().unwrap();
}

/// Another holder took the worker id while we were cut off. Its window begins where ours ends, and we go on with another.
#[tokio::test(start_paused = true)]
async fn a_fenced_holder_claims_another_worker_id() {
    let stage = Stage::new().await;
    stage.store.set(Fault::Down);
    let rival = Holder::new(99, "rival", NOW_MS);
    stage.pass(WINDOW_MS - AHEAD_MS).await;
    let theirs = stage.store.healthy().acquire(&pool(), WorkerChoice::Exactly(0), &rival, &terms()).await.unwrap();
    assert_eq!(theirs.window.start, NOW_MS + WINDOW_MS, "it begins where ours ends");
    let before = stage.events.mint().unwrap();
    assert_eq!(worker_of(before), 0, "our window is not over");

    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    let after = stage.events.mint().unwrap();
    assert_eq!(worker_of(after), 1, "another worker id");
    assert!(after > before);
    assert_eq!(stage.registry.leases()[0].worker, 1);
    assert!(ms_of(before) < WINDOW_MS as i64, "never inside the rival's window");
    stage.registry.close().await.unwrap();
    let theirs = stage.store.healthy().renew(&theirs, &rival, &terms()).await.unwrap();
    assert_eq!(theirs.worker, 0, "our close left the rival's lease alone");
}

/// A store that may have forgotten is bumped: the old window is used to its end, and the new one begins above everything that
/// can have been granted.
#[tokio::test(start_paused = true)]
async fn after_a_bump_the_new_window_begins_above_everything() {
    // A lower worker id is free, so that getting one's own back is no accident.
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let lower = start(&clock, &store, "").await.unwrap();
    let stage = Stage::on(clock, store, "").await;
    lower.close().await.unwrap();
    stage.pass(RENEW_MS).await;
    let granted_end_ms = stage.window_end_ms() - NOW_MS;
    stage.store.healthy().bump(&pool()).await.unwrap();
    stage.pass(RENEW_MS).await;
    let health = &stage.registry.leases()[0];
    assert!(health.live, "the old window is still ours: {health:?}");
    assert_eq!(health.worker, 1);
    let mut seen = HashSet::new();
    stage.pass_until(granted_end_ms - 1).await;
    assert!(seen.insert(stage.events.mint().unwrap()));
    stage.pass(1).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));

    let floor_ms = RENEW_MS + WINDOW_MS + AHEAD_MS + GUARD_MS;
    stage.pass_until(floor_ms).await;
    let after = stage.events.mint().unwrap();
    assert!(seen.insert(after));
    assert!(ms_of(after) >= floor_ms as i64, "{} is below {floor_ms}", ms_of(after));
    assert_eq!(worker_of(after), 1, "its own worker id back, by naming its previous token");
    let claims = stage.store.leases_granted();
    let last = claims.last().unwrap();
    assert_eq!(last.fence.inc, 2);
    assert_eq!(last.window.start, NOW_MS + floor_ms);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_worker_id_is_left() {
    let stage = Stage::new().await;
    assert_eq!(stage.worker(), 0);
    stage.store.healthy().revoke(&pool(), 0).await.unwrap();
    stage.pass(RENEW_MS).await;
    assert_eq!(stage.worker(), 1);
    stage.pass(10 * WINDOW_MS).await;
    assert_eq!(stage.worker(), 1, "for good");
    assert_eq!(stage.store.claims(), 2);
}

/// A claim whose answer was lost is abandoned: whoever guessed would mint in a window that nobody vouches for.
#[tokio::test(start_paused = true)]
async fn lost_answers_cost_a_worker_id_and_no_more() {
    let stage = Stage::new().await;
    stage.store.set(Fault::AnswerLost);
    stage.pass(WINDOW_MS + 2 * RENEW_MS).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed), "renewals happened, and nobody knows");
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    assert_eq!(stage.worker(), 0, "the same claim: a renewal can be asked again");

    stage.store.healthy().revoke(&pool(), 0).await.unwrap();
    stage.store.set(Fault::AnswerLost);
    stage.pass(RENEW_MS + 2_500).await;
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    let claims = stage.store.claims();
    assert!(claims > 2, "some claims were lost: {claims}");
    assert_eq!(stage.worker(), claims as u64 - 1, "the first whose answer came");
}

// ---- the strict rule ----

/// `stop = "8s"`: from before the last renewal was sent, whatever its answer took.
#[tokio::test(start_paused = true)]
async fn the_strict_rule_counts_from_before_sending() {
    let stage = Stage::with(STRICT).await;
    stage.store.set(Fault::Slow(2_000));
    stage.pass_until(RENEW_MS + 2_000).await;
    let sent_ms = stage.window_end_ms() - WINDOW_MS - 2_000 - NOW_MS;
    assert!((RENEW_MS_MIN..=RENEW_MS).contains(&sent_ms), "the renewal was answered 2 s after it was sent: {sent_ms}");
    stage.store.set(Fault::Down);
    stage.pass_until(sent_ms + STOP_MS - 1).await;
    assert_eq!(ms_of(stage.events.mint().unwrap()) as u64, sent_ms + STOP_MS - 1);
    stage.pass(1).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed), "although the window goes on for a minute");
    assert!(!stage.registry.leases()[0].live, "and the health says so");
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    stage.events.mint().unwrap();
}

/// The machine slept. Its timers did not run, so only the clock can tell.
#[tokio::test(start_paused = true)]
async fn a_suspended_machine_stops_under_the_strict_rule() {
    let stage = Stage::with(STRICT).await;
    stage.pass(RENEW_MS).await;
    stage.store.set(Fault::Down);
    // Neither the keeper's task nor any timer runs.
    stage.clock.advance(STOP_MS);
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
}

/// The wall clock was set back while the machine slept: the time since boot still counts, as soon as the keeper runs.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_the_wall_clock_hides_stops_at_the_next_attempt() {
    let stage = Stage::with(STRICT).await;
    stage.pass(RENEW_MS).await;
    stage.events.mint().unwrap();
    stage.store.set(Fault::Down);
    stage.clock.advance(STOP_MS);
    stage.clock.step(-(STOP_MS as i64));
    tokio::time::advance(Duration::from_millis(RENEW_MS)).await;
    settle().await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
    // And it is not for ever.
    stage.store.set(Fault::None);
    stage.pass(RETRY_MS_MAX).await;
    stage.events.mint().unwrap();
}

/// By default a suspend stops nobody whose window is not over: the window makes ids unique, not the stop.
#[tokio::test(start_paused = true)]
async fn without_the_strict_rule_a_sleeper_mints_inside_its_window_only() {
    let stage = Stage::new().await;
    stage.clock.advance(WINDOW_MS - 1);
    stage.events.mint().unwrap();
    stage.clock.advance(1);
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
}

// ---- closing ----

#[tokio::test(start_paused = true)]
async fn close_says_how_far_it_got_and_the_next_claim_may_start_there() {
    let stage = Stage::new().await;
    // A clock that stands still: the first unit is full, so the next is borrowed.
    let ids = stage.events.mint_many(5_000).await.unwrap();
    let last = *ids.last().unwrap();
    assert_eq!(ms_of(last), 1);
    let (clock, store) = (stage.clock, stage.store);
    stage.registry.close().await.unwrap();
    assert_eq!(store.last_release(), Some((0, NOW_MS + 2)));
    assert_eq!(stage.events.mint(), Err(MintError::Closed));
    let row = &store.healthy().leases(&pool()).await.unwrap()[0];
    assert!(!row.held && row.floor_ms == NOW_MS + 2, "{row:?}");

    // The same worker id at the same moment: above all that was used, with no wait.
    let rival = Holder::new(99, "next", NOW_MS);
    let next = store.healthy().acquire(&pool(), WorkerChoice::Exactly(0), &rival, &terms()).await.unwrap();
    assert_eq!(next.window.start, NOW_MS + 2);
    drop(clock);
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_minted_nothing_gives_its_whole_window_back() {
    let stage = Stage::new().await;
    stage.pass(2 * RENEW_MS).await;
    stage.registry.close().await.unwrap();
    assert_eq!(stage.store.last_release(), Some((0, NOW_MS)));
    let row = &stage.store.healthy().leases(&pool()).await.unwrap()[0];
    assert_eq!(row.floor_ms, NOW_MS);
}

/// A process that ended minting by itself still knows how far it got: less, and the next holder would repeat it.
#[tokio::test(start_paused = true)]
async fn whatever_stopped_minting_first_close_says_how_far_it_got() {
    // `on_lease_lost = "exit"` with a hook that lets the process live on.
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let config =
        TWO_UNITS.replace("STORE", &store.url()).replace("[workers.main]", "[workers.main]\non_lease_lost = \"exit\"");
    let registry = builder(&clock).on_lease_lost(|_| {}).build(config_in(Path::new("."), &config)).await.unwrap();
    settle().await;
    let fine = registry.any_minter("fine").unwrap();
    store.set(Fault::Down);
    pass(&clock, WINDOW_MS - 1).await;
    fine.mint().unwrap();
    pass(&clock, 1_000).await;
    assert_eq!(fine.mint(), Err(MintError::Closed), "it has ended");
    store.set(Fault::None);
    registry.close().await.unwrap();
    assert_eq!(store.last_release(), Some((0, NOW_MS + WINDOW_MS)));

    // The application closed the scheme by itself.
    let stage = Stage::new().await;
    stage.events.mint().unwrap();
    stage.pass(100).await;
    stage.events.mint().unwrap();
    let mintage_core::AnyScheme::Int(scheme) = stage.events.scheme() else { unreachable!("64 bits") };
    scheme.close().await.unwrap();
    stage.registry.close().await.unwrap();
    assert_eq!(stage.store.last_release(), Some((0, NOW_MS + 101)));
}

/// The store hangs: neither the renewal on its way nor the release may hold the process up for ever.
#[tokio::test(start_paused = true)]
async fn close_ends_while_a_renewal_hangs() {
    let stage = Stage::new().await;
    stage.store.set(Fault::Hang);
    stage.pass(RENEW_MS + 100).await;
    let began = Instant::now();
    let error = stage.registry.close().await.unwrap_err();
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(6), "the store's timeout of 5 s, and a little: {took:?}");
    let BuildError::Store { store, source } = error else { unreachable!("the store is to blame: {error}") };
    assert_eq!((store.as_str(), source.kind()), ("main", StoreErrorKind::Unavailable));
    assert_eq!(stage.events.mint(), Err(MintError::Closed));
}

/// Closed on another runtime, while nobody drives the one that the keeper's task was started on.
#[test]
fn close_needs_no_runtime_but_its_own() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let idle = runtime();
    let stage = idle.block_on(Stage::new());
    let closing = Duration::from_secs(5);
    runtime().block_on(async { tokio::time::timeout(closing, stage.registry.close()).await }).unwrap().unwrap();
    assert_eq!(stage.events.mint(), Err(MintError::Closed));
    assert_eq!(stage.store.last_release(), Some((0, NOW_MS)));
}

/// One call that is never answered must not be the keeper's last.
#[tokio::test(start_paused = true)]
async fn a_store_that_hung_is_asked_again() {
    let stage = Stage::new().await;
    stage.store.set(Fault::Hang);
    stage.pass(WINDOW_MS).await;
    assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
    let trouble = stage.registry.leases()[0].trouble.clone().unwrap();
    assert!(trouble.contains("no answer"), "{trouble}");
    stage.store.set(Fault::None);
    stage.pass(10_000).await;
    stage.events.mint().unwrap();
}

/// Only the task that renews died. The bound that mint compares with needs no task.
#[test]
fn without_the_renewing_task_mint_stops_at_the_bound() {
    let paused = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let keepers = paused();
    let stage = keepers.block_on(async {
        let stage = Stage::new().await;
        stage.pass(RENEW_MS).await;
        stage
    });
    drop(keepers);
    paused().block_on(async {
        let end_ms = stage.window_end_ms() - NOW_MS;
        stage.pass_until(end_ms - 1).await;
        stage.events.mint().unwrap();
        stage.pass(1).await;
        assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
        stage.pass(10 * WINDOW_MS).await;
        assert_eq!(stage.events.mint(), Err(MintError::LeaseLapsed));
        assert_eq!(stage.store.claims(), 1);
        // Closing needs no task either.
        stage.registry.close().await.unwrap();
        assert_eq!(stage.store.last_release(), Some((0, NOW_MS + end_ms)));
    });
}

// ---- one lease for all, and none left ----

const TWO_UNITS: &str = r#"
version = 1
[entities.fine]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[entities.coarse]
scheme = "snowflake"
epoch = "2025-06-01T00:00:00Z"
layout = { time = 32, worker = 12, sequence = 12, unit = "1s" }
worker = { pool = "main" }
[workers.main]
lease = { quarantine = "0s" }
[stores.main]
url = "STORE"
"#;

#[tokio::test(start_paused = true)]
async fn two_layouts_share_a_lease_and_the_latest_used_unit_decides() {
    let clock = ManualClock::at(NOW_MS + 300);
    let store = Faulty::new(&clock);
    let config = TWO_UNITS.replace("STORE", &store.url());
    let build = async || builder(&clock).build(config_in(Path::new("."), &config)).await.unwrap();

    let registry = build().await;
    assert_eq!((registry.leases().len(), store.claims()), (1, 1), "one lease for both");
    let (fine, coarse) = (registry.any_minter("fine").unwrap(), registry.any_minter("coarse").unwrap());
    let made = (fine.mint().unwrap(), coarse.mint().unwrap());
    // The second in which the window begins would be shared with the holder before, so the next one was stamped.
    let told = coarse.scheme().anatomy(made.1).unwrap();
    assert_eq!(told.time.unwrap().unix_ms as u64, NOW_MS + 1_000);
    assert_eq!(told.worker, Some(0));
    registry.close().await.unwrap();
    assert_eq!(store.last_release(), Some((0, NOW_MS + 2_000)), "the end of the second, not of the millisecond");
    assert_eq!((fine.mint(), coarse.mint()), (Err(MintError::Closed), Err(MintError::Closed)));

    // The next holder of the same id, at the same instant.
    let rival = Holder::new(99, "next", NOW_MS);
    let next = store.healthy().acquire(&pool(), WorkerChoice::Exactly(0), &rival, &terms()).await.unwrap();
    assert_eq!(next.window.start, NOW_MS + 2_000);
}

/// The coarse unit borrowed far ahead, the fine one did not.
#[tokio::test(start_paused = true)]
async fn what_one_layout_borrowed_counts_for_all() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let config = TWO_UNITS.replace("STORE", &store.url());
    let registry = builder(&clock).build(config_in(Path::new("."), &config)).await.unwrap();
    let coarse = registry.any_minter("coarse").unwrap();
    assert_eq!(coarse.mint_many(4096 + 1).await.unwrap().len(), 4097);
    registry.any_minter("fine").unwrap().mint().unwrap();
    registry.close().await.unwrap();
    assert_eq!(store.last_release(), Some((0, NOW_MS + 2_000)));
}

#[tokio::test(start_paused = true)]
async fn no_free_worker_at_the_start_says_until_when() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let config = TWO_UNITS
        .replace("STORE", &store.url())
        .replace("time = 41, worker = 10", "time = 41, worker = 1")
        .replace("time = 32, worker = 12", "time = 32, worker = 1");
    let build = async || builder(&clock).build(config_in(Path::new("."), &config)).await;
    let (first, second) = (build().await.unwrap(), build().await.unwrap());
    let BuildError::Store { store: name, source } = build().await.unwrap_err() else { unreachable!("a store's no") };
    assert_eq!((name.as_str(), source.kind()), ("main", StoreErrorKind::NoFreeWorker));
    let until_ms = source.retry_at_ms().unwrap();
    assert!(source.to_string().contains(&format!("free in {} ms", until_ms - NOW_MS)), "{source}");
    // As it said, if nobody renews.
    store.set(Fault::Down);
    drop((first, second));
    pass(&clock, until_ms - NOW_MS).await;
    store.set(Fault::None);
    build().await.unwrap().close().await.unwrap();
}

/// A restarted process has no token, and one kept on disk would not let it in sooner: what a crash leaves is a floor, the end of
/// the window, and it lies later than the end of the lease.
#[tokio::test(start_paused = true)]
async fn naming_the_token_of_before_does_not_shorten_the_rest_of_a_crash() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let mut holder = Holder::new(1, "host", NOW_MS);
    store.healthy().acquire(&pool(), WorkerChoice::Exactly(0), &holder, &terms()).await.unwrap();
    let mut free_after_ms = Vec::new();
    for previous in [None, Some(1)] {
        holder = Holder::new(2, "host", NOW_MS);
        holder.previous = previous;
        let error = store.healthy().acquire(&pool(), WorkerChoice::Exactly(0), &holder, &terms()).await.unwrap_err();
        free_after_ms.push(error.retry_at_ms().unwrap() - NOW_MS);
    }
    assert_eq!(free_after_ms, [WINDOW_MS - AHEAD_MS; 2]);
}

/// What a store fixed when the pool was made stays. The way out that the error names leads out: a new store, after the wait.
#[tokio::test(start_paused = true)]
async fn a_longer_window_than_was_fixed_is_had_in_a_new_store() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = start(&clock, &store, "").await.unwrap();
    let events = registry.any_minter("events").unwrap();
    let mut seen = HashSet::from([events.mint().unwrap()]);
    registry.close().await.unwrap();
    let longer = "window = \"10m\"";
    let BuildError::Store { source, .. } = start(&clock, &store, longer).await.unwrap_err() else {
        unreachable!("a no")
    };
    assert_eq!(source.kind(), StoreErrorKind::Refused);
    let (wait_ms, told) = (WINDOW_MS + AHEAD_MS + GUARD_MS, source.to_string());
    assert!(told.contains(&format!("wait for {wait_ms} ms")) && told.contains("in a new store"), "{told}");
    pass(&clock, wait_ms).await;
    let new = Faulty::new(&clock);
    let registry = start(&clock, &new, longer).await.unwrap();
    assert_eq!(registry.leases()[0].window_end_ms, NOW_MS + wait_ms + 600_000);
    assert!(seen.insert(registry.any_minter("events").unwrap().mint().unwrap()));
}
