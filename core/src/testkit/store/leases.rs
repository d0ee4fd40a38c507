//! The laws of [`LeaseStore`]: each millisecond of a worker id is granted once.
//!
//! They are in two files: who gets which id (here), and what its windows may be ([`windows`]).

pub mod windows;

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Trial, join_all, must, must_not};
use crate::{
    Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, PoolLimits, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
};

/// The laws' window. Long enough for a slow server to answer within it.
pub(super) const WINDOW_MS: u64 = 4_000;
/// Shorter than the window, so that an id can have expired while its window is not over.
pub(super) const TTL_MS: u64 = 2_000;
/// How far ahead of the store's now a window may start.
pub(super) const AHEAD_MS: u64 = 500;
/// The laws' guard.
pub(super) const GUARD_MS: u64 = 300;

/// Every law of leases.
///
/// # Panics
/// When one is broken.
pub async fn all(store: &dyn LeaseStore, tick: impl AsyncFn(u64), trial: Trial) {
    // The laws of ranges end with the word that nothing was forgotten: new pools rest for so long after that.
    tick(WINDOW_MS + AHEAD_MS + GUARD_MS).await;
    windows::all(store, &tick).await;
    lowest_free_first(store).await;
    distinct_at_once(store, trial).await;
    exhaustion_says_until_when(store, &tick).await;
    wishes(store).await;
    own_id_back(store, &tick).await;
    idle_before_resting(store).await;
    quarantine(store, &tick).await;
    revoked_is_barred(store, &tick).await;
    freed_keeps_its_floor(store, &tick).await;
    blocks_are_fixed(store).await;
    limits_are_fixed(store).await;
    a_known_pool_is_not_made_again(store).await;
    the_last_id_of_16_bits(store).await;
    cycles_stay_inside_the_block(store, &tick, trial).await;
    windows::a_bump_of_all_passes_everything(store, &tick).await;
}

/// Claims take the lowest free ids of the block; the list names them by number.
///
/// # Panics
/// When not.
pub async fn lowest_free_first(store: &dyn LeaseStore) {
    const LAW: &str = "the lowest free worker id first";
    let pool = pool("law-lowest", 10..14);
    assert!(must(LAW, store.leases(&pool).await).is_empty(), "{LAW}: an unknown pool has no leases");
    for expected in 10..13 {
        let (lease, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
        assert_eq!(lease.worker, expected, "{LAW}");
        assert_eq!((lease.pool.as_str(), lease.region.as_str()), ("law-lowest", ""), "{LAW}: what the lease is of");
        assert!(
            lease.fence.epoch > 0 && lease.fence.inc > 0,
            "{LAW}: claims and lives count from 1: {:?}",
            lease.fence
        );
    }
    let rows = must(LAW, store.leases(&pool).await);
    let listed: Vec<u32> = rows.iter().map(|row| row.worker).collect();
    assert_eq!(listed, [10, 11, 12], "{LAW}: the list");
    assert!(
        rows.iter().all(|row| row.held && !row.revoked && row.instance.starts_with("law-host-")),
        "{LAW}: {rows:?}"
    );
}

/// Claims at once get distinct ids, and one too many is refused.
///
/// # Panics
/// When not.
pub async fn distinct_at_once(store: &dyn LeaseStore, trial: Trial) {
    const LAW: &str = "claims at once get distinct worker ids";
    let pool = pool("law-at-once", 100..100 + trial.at_once);
    let claims = (0..trial.at_once).map(|_| claimed(LAW, store, &pool, WorkerChoice::Any));
    let mut workers: Vec<u32> = join_all(claims).await.into_iter().map(|(lease, _)| lease.worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, pool.block.clone().collect::<Vec<_>>(), "{LAW}");
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
}

/// A full pool says from when an id is free, and from then on one is.
///
/// # Panics
/// When not.
pub async fn exhaustion_says_until_when(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a full pool says until when";
    let pool = pool("law-full", 0..2);
    let (first, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let (second, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let error = must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
    let until_ms = error.retry_at_ms().unwrap_or(0);
    assert!(until_ms > second.store_now_ms, "{LAW}: until {until_ms}, which is not later than now");
    // Expired by then, but its window is not over.
    tick(TTL_MS + 1).await;
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
    tick(until_ms - first.store_now_ms).await;
    let (third, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let before = if third.worker == first.worker { first } else { second };
    assert!(third.window.start >= before.window.end, "{LAW}: {third:?} overlaps {before:?}");
}

/// `Prefer` takes another id where its own is held, `Exactly` says Conflict.
///
/// # Panics
/// When not.
pub async fn wishes(store: &dyn LeaseStore) {
    const LAW: &str = "a wish for a worker id";
    let pool = pool("law-wish", 0..4);
    let take = async |which| claimed(LAW, store, &pool, which).await.0.worker;
    assert_eq!(take(WorkerChoice::Exactly(2)).await, 2, "{LAW}: a free one, insisted on");
    assert_eq!(take(WorkerChoice::Prefer(3)).await, 3, "{LAW}: a free one, preferred");
    assert_eq!(take(WorkerChoice::Prefer(3)).await, 0, "{LAW}: a held one, preferred");
    let error = must_not(LAW, StoreErrorKind::Conflict, claim(store, &pool, WorkerChoice::Exactly(2), None).await);
    assert!(error.retry_at_ms().is_some(), "{LAW}: a held one, insisted on, says until when");
    for outside in [4, u32::MAX] {
        for which in [WorkerChoice::Exactly(outside), WorkerChoice::Prefer(outside)] {
            must_not(LAW, StoreErrorKind::Refused, claim(store, &pool, which, None).await);
        }
    }
    assert_eq!(take(WorkerChoice::Any).await, 1, "{LAW}: any, after all that");
}

/// A process that names the token of its claim before gets its own id back, even before a lower free one, even while it
/// still counts as held, and even after a bump; with a window of its own.
///
/// # Panics
/// When not.
pub async fn own_id_back(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a process gets its own worker id back";
    let pool = pool("law-own", 0..3);
    let long = LeaseTerms { ttl_ms: 10 * WINDOW_MS, ..terms() };
    let ask = async |which, previous: Option<&Holder>| {
        let mut holder = holder();
        holder.previous = previous.map(|previous| previous.token);
        store.acquire(&pool, which, &holder, &long).await.map(|lease| (lease, holder))
    };
    let (low, _) = must(LAW, ask(WorkerChoice::Any, None).await);
    let (own, first) = must(LAW, ask(WorkerChoice::Any, None).await);
    assert_eq!((low.worker, own.worker), (0, 1), "{LAW}: two claims");
    let unused_ms = low.window.start;
    must(LAW, store.release(low, unused_ms, &terms()).await);
    tick(WINDOW_MS).await;
    must_not(LAW, StoreErrorKind::Conflict, ask(WorkerChoice::Exactly(1), None).await);
    let (again, second) = must(LAW, ask(WorkerChoice::Any, Some(&first)).await);
    assert_eq!(again.worker, 1, "{LAW}: rather than the lower free id");
    assert!(again.window.start >= own.window.end, "{LAW}: {again:?} overlaps {own:?}");
    must_not(LAW, StoreErrorKind::Fenced, store.renew(&own, &first, &long).await);

    must(LAW, store.bump(&pool).await);
    let until_ms =
        must_not(LAW, StoreErrorKind::NoFreeWorker, ask(WorkerChoice::Any, Some(&second)).await).retry_at_ms();
    tick(until_ms.unwrap_or(0).saturating_sub(again.store_now_ms)).await;
    let (after_bump, _) = must(LAW, ask(WorkerChoice::Any, Some(&second)).await);
    assert_eq!(after_bump.worker, 1, "{LAW}: after a bump");
    assert!(after_bump.window.start >= again.window.end, "{LAW}: {after_bump:?} overlaps {again:?}");
}

/// An idle id comes before a lower one whose last window is not over.
///
/// # Panics
/// When not.
pub async fn idle_before_resting(store: &dyn LeaseStore) {
    const LAW: &str = "an idle worker id before one whose window is not over";
    let pool = pool("law-idle", 0..2);
    let (lease, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let used_until_ms = lease.store_now_ms + AHEAD_MS - 10;
    must(LAW, store.release(lease, used_until_ms, &terms()).await);
    assert_eq!(claimed(LAW, store, &pool, WorkerChoice::Any).await.0.worker, 1, "{LAW}: the idle one");
    let (resting, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    assert_eq!(resting.worker, 0, "{LAW}: the other one, since its window begins within max_ahead");
    assert!(resting.window.start >= used_until_ms, "{LAW}: {resting:?} begins before {used_until_ms}");
}

/// A released id rests as long as the terms say.
///
/// # Panics
/// When not.
pub async fn quarantine(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a released worker id rests";
    let pool = pool("law-rest", 0..2);
    let (lease, _) = claimed(LAW, store, &pool, WorkerChoice::Exactly(0)).await;
    let unused_ms = lease.window.start;
    must(LAW, store.release(lease, unused_ms, &LeaseTerms { quarantine_ms: WINDOW_MS, ..terms() }).await);
    must_not(LAW, StoreErrorKind::Conflict, claim(store, &pool, WorkerChoice::Exactly(0), None).await);
    assert_eq!(claimed(LAW, store, &pool, WorkerChoice::Any).await.0.worker, 1, "{LAW}: another one meanwhile");
    let row = listed(LAW, store, &pool, 0).await;
    assert!(!row.held && row.instance.starts_with("law-host-"), "{LAW}: the list names the last holder: {row:?}");
    tick(WINDOW_MS).await;
    claimed(LAW, store, &pool, WorkerChoice::Exactly(0)).await;
}

/// An id taken from its holder is fenced at once, and its next window begins after the last one; freeing lifts a bar. A store that
/// cannot free says so.
///
/// # Panics
/// When not.
pub async fn freed_keeps_its_floor(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a freed worker id keeps its floor";
    let pool = pool("law-free", 0..1);
    must_not(LAW, StoreErrorKind::Refused, store.free(&pool, 0).await);
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    if store.free(&pool, 0).await.is_err_and(|error| error.kind() == StoreErrorKind::Refused) {
        assert!(listed(LAW, store, &pool, 0).await.held, "{LAW}: refused, and done all the same");
        return;
    }
    let row = listed(LAW, store, &pool, 0).await;
    assert!(!row.held && row.floor_ms >= lease.window.end, "{LAW}: {row:?}");
    must_not(LAW, StoreErrorKind::Fenced, store.renew(&lease, &holder, &terms()).await);
    must_not(LAW, StoreErrorKind::Fenced, store.release(lease.clone(), lease.window.start, &terms()).await);
    must(LAW, store.revoke(&pool, 0).await);
    must(LAW, store.free(&pool, 0).await);
    must(LAW, store.free(&pool, 0).await);
    must_not(LAW, StoreErrorKind::Refused, store.free(&pool, 1).await);
    tick(2 * WINDOW_MS).await;
    let (next, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    assert!(next.window.start >= lease.window.end, "{LAW}: {next:?} overlaps {lease:?}");
}

/// A revoked id, claimed before or not, is never granted again, and its holder cannot renew.
///
/// # Panics
/// When it is.
pub async fn revoked_is_barred(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a revoked worker id is barred";
    let pool = pool("law-revoke", 0..3);
    must_not(LAW, StoreErrorKind::Refused, store.revoke(&pool, 0).await);
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    for worker in [0, 1] {
        must(LAW, store.revoke(&pool, worker).await);
        assert!(listed(LAW, store, &pool, worker).await.revoked, "{LAW}: the list says so");
    }
    must_not(LAW, StoreErrorKind::Refused, store.revoke(&pool, 3).await);
    must_not(LAW, StoreErrorKind::Fenced, store.renew(&lease, &holder, &terms()).await);
    for _ in 0..2 {
        assert_eq!(claimed(LAW, store, &pool, WorkerChoice::Any).await.0.worker, 2, "{LAW}: the only one left");
        must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
        must_not(LAW, StoreErrorKind::Conflict, claim(store, &pool, WorkerChoice::Exactly(1), None).await);
        must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, Some(&holder)).await);
        tick(2 * WINDOW_MS).await;
    }
    must(LAW, store.revoke(&pool, 2).await);
    let error = must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
    assert_eq!(error.retry_at_ms(), None, "{LAW}: when all are, waiting does not help");
}

/// The block of a pool never changes, and no two regions of a pool share an id.
///
/// # Panics
/// When they may.
pub async fn blocks_are_fixed(store: &dyn LeaseStore) {
    const LAW: &str = "the blocks of a pool's regions are fixed and disjoint";
    let region = |region: &str, block: Range<u32>| WorkerPool { region: region.to_owned(), ..pool("law-block", block) };
    let ask = async |pool: WorkerPool| claim(store, &pool, WorkerChoice::Any, None).await.map(|(lease, _)| lease);
    let (eu, us) = (must(LAW, ask(region("eu", 0..8)).await), must(LAW, ask(region("us", 8..16)).await));
    assert_eq!((eu.worker, us.worker, us.region.as_str()), (0, 8, "us"), "{LAW}: two regions");
    for block in [0..7, 0..9, 1..8, 8..16, 16..24] {
        must_not(LAW, StoreErrorKind::Refused, ask(region("eu", block)).await);
    }
    for block in [0..1, 7..8, 15..17, 0..64, 3..3] {
        must_not(LAW, StoreErrorKind::Refused, ask(region("asia", block)).await);
    }
    assert!(must(LAW, store.leases(&region("asia", 0..1)).await).is_empty(), "{LAW}: a refused region was made");
    assert_eq!(must(LAW, ask(region("asia", 16..17)).await).worker, 16, "{LAW}: a third region");
}

/// Terms above the limits with which the pool was made are refused, by claims and by renewals, whatever the caller's config
/// now says.
///
/// # Panics
/// When a longer window is granted.
pub async fn limits_are_fixed(store: &dyn LeaseStore) {
    const LAW: &str = "the limits of a pool are fixed";
    let mut pool = pool("law-limits", 0..4);
    let odd = [
        LeaseTerms { window_ms: WINDOW_MS + 1, ..terms() },
        LeaseTerms { max_ahead_ms: AHEAD_MS + 1, ..terms() },
        LeaseTerms { window_ms: 0, ..terms() },
    ];
    for terms in &odd {
        must_not(LAW, StoreErrorKind::Refused, store.acquire(&pool, WorkerChoice::Any, &holder(), terms).await);
    }
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    pool.limits = PoolLimits::new(1_000_000, 1_000_000, 0);
    for terms in &odd {
        must_not(LAW, StoreErrorKind::Refused, store.acquire(&pool, WorkerChoice::Any, &holder, terms).await);
        must_not(LAW, StoreErrorKind::Refused, store.renew(&lease, &holder, terms).await);
    }
    // A bump counts on the recorded one, so a longer one would be a promise that nobody keeps.
    let longer = WorkerPool { limits: PoolLimits::new(WINDOW_MS, AHEAD_MS, GUARD_MS + 1), ..pool.clone() };
    let error = must_not(LAW, StoreErrorKind::Refused, claim(store, &longer, WorkerChoice::Any, None).await);
    assert!(error.to_string().contains("guard"), "{LAW}: {error}");
    assert_eq!(listed(LAW, store, &pool, 0).await.floor_ms, lease.window.end, "{LAW}: a refusal moved the window");
    let senseless = WorkerPool { limits: PoolLimits::new(0, 0, 0), ..self::pool("law-limits-zero", 0..4) };
    must_not(LAW, StoreErrorKind::Refused, claim(store, &senseless, WorkerChoice::Any, None).await);
}

/// A pool that has been used before and is not in the store was lost with it.
///
/// # Panics
/// When it is made again.
pub async fn a_known_pool_is_not_made_again(store: &dyn LeaseStore) {
    const LAW: &str = "a known pool without records is not made again";
    let fresh = pool("law-known", 0..4);
    let known = WorkerPool { known: true, ..fresh.clone() };
    for _ in 0..2 {
        must_not(LAW, StoreErrorKind::RolledBack, claim(store, &known, WorkerChoice::Any, None).await);
    }
    must_not(LAW, StoreErrorKind::Refused, store.bump(&fresh).await);
    claimed(LAW, store, &fresh, WorkerChoice::Any).await;
    claimed(LAW, store, &known, WorkerChoice::Any).await;
}

/// Worker ids of 16 bits reach 65535 and stop there.
///
/// # Panics
/// When not.
pub async fn the_last_id_of_16_bits(store: &dyn LeaseStore) {
    const LAW: &str = "the last worker id of 16 bits";
    let whole = pool("law-16-bits", 0..65_536);
    assert_eq!(claimed(LAW, store, &whole, WorkerChoice::Exactly(65_535)).await.0.worker, 65_535, "{LAW}");
    assert_eq!(claimed(LAW, store, &whole, WorkerChoice::Any).await.0.worker, 0, "{LAW}: the lowest");
    must_not(LAW, StoreErrorKind::Refused, claim(store, &whole, WorkerChoice::Exactly(65_536), None).await);
    let end = pool("law-16-bits-end", 65_535..65_536);
    assert_eq!(claimed(LAW, store, &end, WorkerChoice::Any).await.0.worker, 65_535, "{LAW}: alone");
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &end, WorkerChoice::Any, None).await);
}

/// Claims and releases without end stay inside the block, and no id's windows overlap.
///
/// # Panics
/// When an id leaves the block, or a window begins before its predecessor's used end.
pub async fn cycles_stay_inside_the_block(store: &dyn LeaseStore, tick: &impl AsyncFn(u64), trial: Trial) {
    const LAW: &str = "claims and releases stay inside the block";
    let pool = pool("law-cycles", 5..9);
    let mut used_until_ms = [0_u64; 4];
    for cycle in 0..trial.cycles {
        let (lease, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
        let nth = usize::try_from(lease.worker).ok().and_then(|worker| worker.checked_sub(5));
        let used = nth.and_then(|nth| used_until_ms.get_mut(nth));
        let Some(used) = used else { panic!("{LAW}: cycle {cycle} got worker id {}", lease.worker) };
        assert!(lease.window.start >= *used, "{LAW}: cycle {cycle}: {lease:?} begins before {used}");
        *used = lease.window.start + 1;
        must(LAW, store.release(lease, *used, &terms()).await);
        tick(1).await;
    }
    assert!(must(LAW, store.leases(&pool).await).len() <= 4, "{LAW}: the list");
}

/// A pool with the laws' limits.
pub(super) fn pool(name: &str, block: Range<u32>) -> WorkerPool {
    WorkerPool { limits: PoolLimits::new(WINDOW_MS, AHEAD_MS, GUARD_MS), ..WorkerPool::new(name, block) }
}

/// The laws' terms, without quarantine.
pub(super) fn terms() -> LeaseTerms {
    LeaseTerms::new(WINDOW_MS, TTL_MS, 0, AHEAD_MS)
}

/// Somebody who has not asked before.
pub(super) fn holder() -> Holder {
    static ASKED: AtomicU64 = AtomicU64::new(1);
    let nth = ASKED.fetch_add(1, Ordering::Relaxed);
    // Both halves, so that a store that keeps only 64 bits of a token is noticed.
    let token = (u128::from(nth) << 64) | u128::from(nth % 3);
    Holder::new(token, format!("law-host-{nth}"), 0)
}

pub(super) async fn claim(
    store: &dyn LeaseStore,
    pool: &WorkerPool,
    which: WorkerChoice,
    previous: Option<&Holder>,
) -> Result<(Lease, Holder), StoreError> {
    let mut holder = holder();
    holder.previous = previous.map(|previous| previous.token);
    store.acquire(pool, which, &holder, &terms()).await.map(|lease| (lease, holder))
}

pub(super) async fn claimed(
    law: &str,
    store: &dyn LeaseStore,
    pool: &WorkerPool,
    which: WorkerChoice,
) -> (Lease, Holder) {
    must(law, claim(store, pool, which, None).await)
}

pub(super) async fn listed(law: &str, store: &dyn LeaseStore, pool: &WorkerPool, worker: u32) -> LeaseRow {
    let rows = must(law, store.leases(pool).await);
    let row = rows.into_iter().find(|row| row.worker == worker);
    row.unwrap_or_else(|| panic!("{law}: worker id {worker} is not listed"))
}
