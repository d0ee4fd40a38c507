//! The law of stores that can be put back: a process that uses the store notices.

use super::{
    leases::{AHEAD_MS, GUARD_MS, WINDOW_MS, claim, claimed, pool, terms},
    must, must_not,
};
use crate::{LeaseStore, RangeStore, Sequence, StoreErrorKind, WorkerChoice};

/// A backup is put in the place of a store under a running process, which nobody told: it is given no number and no window a second
/// time. `save` makes the backup, `restore` puts it back; the stores stay open meanwhile.
///
/// # Panics
/// When something comes twice.
pub async fn a_restored_backup_is_noticed(
    ranges: &dyn RangeStore,
    leases: &dyn LeaseStore,
    tick: impl AsyncFn(u64),
    save: impl AsyncFn(),
    restore: impl AsyncFn(),
) {
    const LAW: &str = "a backup in the place of a store is noticed";
    let count = std::num::NonZeroU32::MIN.saturating_add(9);
    let sequence = Sequence::new("law-restored", 1);
    let pool = pool("law-restored", 0..2);
    must(LAW, ranges.create(&sequence).await);
    must(LAW, ranges.allocate(&sequence, count, None).await);
    let (kept, holder) = claimed(LAW, leases, &pool, WorkerChoice::Any).await;
    save().await;
    tick(100).await;
    let lost = must(LAW, ranges.allocate(&sequence, count, None).await);
    let kept = must(LAW, leases.renew(&kept, &holder, &terms()).await);
    let (lost_lease, lost_holder) = claimed(LAW, leases, &pool, WorkerChoice::Any).await;
    let latest_ms = lost_lease.store_now_ms;
    restore().await;

    for _ in 0..2 {
        must_not(LAW, StoreErrorKind::RolledBack, ranges.allocate(&sequence, count, None).await);
    }
    must(LAW, ranges.raise(&sequence, lost.end).await);
    assert_eq!(must(LAW, ranges.allocate(&sequence, count, None).await).start, lost.end, "{LAW}: raised");

    let error = must_not(LAW, StoreErrorKind::NoFreeWorker, claim(leases, &pool, WorkerChoice::Any, None).await);
    must_not(LAW, StoreErrorKind::Fenced, leases.renew(&kept, &holder, &terms()).await);
    must_not(LAW, StoreErrorKind::Fenced, leases.renew(&lost_lease, &lost_holder, &terms()).await);
    tick(error.retry_at_ms().unwrap_or(0).saturating_sub(latest_ms)).await;
    for _ in 0..2 {
        let (lease, _) = claimed(LAW, leases, &pool, WorkerChoice::Any).await;
        let all_ms = latest_ms + WINDOW_MS + AHEAD_MS + GUARD_MS;
        assert!(lease.window.start >= all_ms, "{LAW}: {lease:?} begins before {all_ms}");
        assert!(lease.fence.inc > lost_lease.fence.inc, "{LAW}: {lease:?} is of the life before");
    }
}
