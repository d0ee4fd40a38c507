//! The laws of windows: what makes ids unique, whoever crashes, sleeps, or answers late.

use super::{AHEAD_MS, GUARD_MS, TTL_MS, WINDOW_MS, claim, claimed, listed, must, must_not, pool, terms};
use crate::{Fence, Lease, LeaseStore, LeaseTerms, StoreErrorKind, WorkerChoice};

/// Every law of windows.
///
/// # Panics
/// When one is broken.
pub async fn all(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    successors_are_disjoint(store, tick).await;
    renewals_are_contiguous(store, tick).await;
    a_stale_fence_changes_nothing(store).await;
    a_delayed_release_changes_nothing(store, tick).await;
    a_release_trims(store, tick).await;
    a_release_stops_at_its_own_start(store, tick).await;
    a_bump_passes_everything(store, tick).await;
    history_names_the_holder(store, tick).await;
}

/// Holders of one id that crash, one after the other, never share a millisecond.
///
/// # Panics
/// When they do.
pub async fn successors_are_disjoint(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "windows of successive holders are disjoint";
    let pool = pool("law-windows", 0..1);
    let mut before: Option<Lease> = None;
    for round in 0..4_u64 {
        let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
        assert!(lease.window.start >= lease.store_now_ms, "{LAW}: {lease:?} begins in the past");
        assert!(lease.window.start <= lease.store_now_ms + AHEAD_MS, "{LAW}: {lease:?} begins too far ahead");
        assert!(lease.window.end - lease.window.start <= WINDOW_MS, "{LAW}: {lease:?} is longer than asked");
        if let Some(before) = &before {
            assert!(lease.window.start >= before.window.end, "{LAW}: {lease:?} overlaps {before:?}");
            assert!(lease.fence.epoch > before.fence.epoch, "{LAW}: {lease:?} counts no higher than {before:?}");
        }
        // Some of them renew before they crash.
        let last = if round % 2 == 0 { lease } else { must(LAW, store.renew(&lease, &holder, &terms()).await) };
        let expired_ms = last.store_now_ms + TTL_MS + 1;
        tick(TTL_MS + 1).await;
        must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
        // From just within max_ahead to well after the window.
        tick((last.window.end - AHEAD_MS).saturating_sub(expired_ms) + round * AHEAD_MS).await;
        before = Some(last);
    }
}

/// A renewal keeps the start and the fence and moves the end to `now + window`, never back; asking twice does no harm.
///
/// # Panics
/// When not.
pub async fn renewals_are_contiguous(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "renewals are contiguous and monotone";
    let pool = pool("law-renew", 0..1);
    let (first, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let mut held = first.clone();
    for round in 0..5 {
        tick(700).await;
        // A lost answer: the same request comes again, and again with the arguments of before.
        let sent = if round % 2 == 0 { &held } else { &first };
        let one = must(LAW, store.renew(sent, &holder, &terms()).await);
        let two = must(LAW, store.renew(sent, &holder, &terms()).await);
        for lease in [&one, &two] {
            assert_eq!((lease.worker, lease.fence), (first.worker, first.fence), "{LAW}: another lease came back");
            assert_eq!(lease.window.start, first.window.start, "{LAW}: the start moved");
            assert!(lease.window.end >= held.window.end, "{LAW}: {lease:?} ends before {held:?}");
            assert!(lease.window.end <= lease.store_now_ms + WINDOW_MS, "{LAW}: {lease:?} reaches beyond now + window");
        }
        assert!(two.window.end >= one.window.end, "{LAW}: {two:?} ends before {one:?}");
        held = two;
    }
    assert!(held.window.end >= first.window.end + 5 * 700, "{LAW}: the window did not grow: {held:?}");
    let shorter = LeaseTerms { window_ms: 1, ..terms() };
    let same = must(LAW, store.renew(&held, &holder, &shorter).await);
    assert!(same.window.end >= held.window.end, "{LAW}: a renewal for less took something back");
    assert_eq!(listed(LAW, store, &pool, 0).await.floor_ms, same.window.end, "{LAW}: what the store remembers");
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
}

/// Each part of the fence alone makes a write stale.
///
/// # Panics
/// When a stale write is accepted, or leaves a trace.
pub async fn a_stale_fence_changes_nothing(store: &dyn LeaseStore) {
    const LAW: &str = "a stale fence changes nothing";
    let pool = pool("law-fence", 0..1);
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let Fence { inc, epoch, token } = lease.fence;
    let before = listed(LAW, store, &pool, 0).await;
    let stale = [
        Fence { inc: inc + 1, epoch, token },
        Fence { inc: inc - 1, epoch, token },
        Fence { inc, epoch: epoch + 1, token },
        Fence { inc, epoch: epoch - 1, token },
        Fence { inc, epoch, token: token ^ 1 },
        Fence { inc, epoch, token: token ^ (1 << 64) },
    ];
    for fence in stale {
        let forged = Lease { fence, ..lease.clone() };
        must_not(LAW, StoreErrorKind::Fenced, store.renew(&forged, &holder, &terms()).await);
        must_not(LAW, StoreErrorKind::Fenced, store.release(forged, lease.window.start, &terms()).await);
        assert_eq!(listed(LAW, store, &pool, 0).await, before, "{LAW}: after {fence:?}");
    }
    let elsewhere = [
        Lease { worker: 1, ..lease.clone() },
        Lease { pool: "law-fence-nowhere".to_owned(), ..lease.clone() },
        Lease { region: "nowhere".to_owned(), ..lease.clone() },
    ];
    for forged in elsewhere {
        must_not(LAW, StoreErrorKind::Fenced, store.renew(&forged, &holder, &terms()).await);
        must_not(LAW, StoreErrorKind::Fenced, store.release(forged, lease.window.start, &terms()).await);
    }
    must(LAW, store.renew(&lease, &holder, &terms()).await);
    must(LAW, store.release(lease.clone(), lease.window.start, &terms()).await);
    // Released: now the true fence is stale as well.
    must_not(LAW, StoreErrorKind::Fenced, store.renew(&lease, &holder, &terms()).await);
    must_not(LAW, StoreErrorKind::Fenced, store.release(lease.clone(), lease.window.start, &terms()).await);
}

/// A release that arrives after the next claim must not lower the next holder's floor.
///
/// # Panics
/// When it does.
pub async fn a_delayed_release_changes_nothing(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a delayed release changes nothing";
    let pool = pool("law-delayed", 0..1);
    let (slow, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    tick(WINDOW_MS).await;
    let (next, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let before = listed(LAW, store, &pool, 0).await;
    must_not(LAW, StoreErrorKind::Fenced, store.release(slow.clone(), slow.window.start, &terms()).await);
    assert_eq!(listed(LAW, store, &pool, 0).await, before, "{LAW}");
    tick(WINDOW_MS).await;
    let (last, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    assert!(last.window.start >= next.window.end, "{LAW}: {last:?} overlaps {next:?}");
}

/// A release gives back what was not used, and nothing that was.
///
/// # Panics
/// When the next claim waits for the unused part, or gets a used millisecond.
pub async fn a_release_trims(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a release trims the window to what was used";
    let pool = pool("law-trim", 0..1);
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    tick(300).await;
    let lease = must(LAW, store.renew(&lease, &holder, &terms()).await);
    let (used_until_ms, end_ms) = (lease.store_now_ms + 200, lease.window.end);
    must(LAW, store.release(lease, used_until_ms, &terms()).await);
    let (next, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    assert!(next.window.start >= used_until_ms, "{LAW}: {next:?} gets what was used up to {used_until_ms}");
    assert!(next.window.start < end_ms, "{LAW}: {next:?} waited for {end_ms}");

    // Whoever claims to have used more than it was granted gets no more by that.
    let end_ms = next.window.end;
    must(LAW, store.release(next, end_ms + 1_000_000, &terms()).await);
    assert_eq!(
        listed(LAW, store, &pool, 0).await.floor_ms,
        end_ms,
        "{LAW}: the floor after a release beyond the window"
    );
}

/// A release never reaches below its own window, whatever it says: what lies before belongs to earlier holders.
///
/// # Panics
/// When it does.
pub async fn a_release_stops_at_its_own_start(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a release stops at the start of its window";
    let pool = pool("law-start", 0..1);
    let (crashed, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    tick(WINDOW_MS - AHEAD_MS).await;
    let (lease, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let lease = must(LAW, store.renew(&lease, &holder, &terms()).await);
    // The start is the store's own knowledge, not the caller's word.
    let forged = Lease { window: 0..lease.window.end, ..lease.clone() };
    must(LAW, store.release(forged, 0, &terms()).await);
    let floor_ms = listed(LAW, store, &pool, 0).await.floor_ms;
    assert_eq!(floor_ms, lease.window.start, "{LAW}: the floor after a release of everything");
    let (next, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    assert!(next.window.start >= crashed.window.end, "{LAW}: {next:?} overlaps {crashed:?}");
}

/// After a bump every fence of before is stale, and every window begins above all that can have been granted and forgotten.
///
/// # Panics
/// When not.
pub async fn a_bump_passes_everything(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a bump passes everything that can have been granted";
    let pool = pool("law-bump", 0..3);
    must_not(LAW, StoreErrorKind::Refused, store.bump(&pool).await);
    let (idle, idler) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    let (busy, holder) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
    tick(500).await;
    let busy = must(LAW, store.renew(&busy, &holder, &terms()).await);
    must(LAW, store.bump(&pool).await);

    for (lease, holder) in [(&idle, &idler), (&busy, &holder)] {
        must_not(LAW, StoreErrorKind::Fenced, store.renew(lease, holder, &terms()).await);
        must_not(LAW, StoreErrorKind::Fenced, store.release(lease.clone(), lease.window.start, &terms()).await);
    }
    // Worker id 2 was never claimed as far as the store knows: it, too, may have been.
    let error = must_not(LAW, StoreErrorKind::Conflict, claim(store, &pool, WorkerChoice::Exactly(2), None).await);
    let until_ms = error.retry_at_ms().unwrap_or(0);
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
    tick(until_ms.saturating_sub(busy.store_now_ms)).await;
    let forgotten_ms = busy.store_now_ms + WINDOW_MS + AHEAD_MS + GUARD_MS;
    for _ in 0..3 {
        let (lease, _) = claimed(LAW, store, &pool, WorkerChoice::Any).await;
        assert!(lease.window.start >= forgotten_ms, "{LAW}: {lease:?} begins before {forgotten_ms}");
        assert!(lease.fence.inc > busy.fence.inc, "{LAW}: {lease:?} is of the life before");
    }
    must(LAW, store.bump(&pool).await);
    must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, &pool, WorkerChoice::Any, None).await);
}

/// Where a store can bump all its pools at once: the same for each, and for those that it may have forgotten. One that is made
/// afterwards begins above all that can have been granted from it.
///
/// # Panics
/// When not.
pub async fn a_bump_of_all_passes_everything(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "a bump of all pools passes everything that can have been granted";
    let (one, mut other, forgotten) =
        (pool("law-bump-all-a", 0..1), pool("law-bump-all-b", 0..1), pool("law-bump-all-c", 0..1));
    other.region = "eu".to_owned();
    let mut latest_ms = 0;
    let mut held = Vec::new();
    for pool in [&one, &other] {
        let (lease, holder) = claimed(LAW, store, pool, WorkerChoice::Any).await;
        latest_ms = lease.store_now_ms.max(latest_ms);
        held.push((lease, holder));
    }
    if !must(LAW, store.bump_all().await) {
        return;
    }
    for (lease, holder) in &held {
        must_not(LAW, StoreErrorKind::Fenced, store.renew(lease, holder, &terms()).await);
    }
    let mut until_ms = 0;
    for pool in [&one, &other, &forgotten] {
        let error = must_not(LAW, StoreErrorKind::NoFreeWorker, claim(store, pool, WorkerChoice::Any, None).await);
        until_ms = error.retry_at_ms().unwrap_or(0).max(until_ms);
    }
    tick(until_ms.saturating_sub(latest_ms)).await;
    for pool in [&one, &other, &forgotten] {
        let (lease, _) = claimed(LAW, store, pool, WorkerChoice::Any).await;
        let all_ms = latest_ms + WINDOW_MS + AHEAD_MS + GUARD_MS;
        assert!(lease.window.start >= all_ms, "{LAW}: {lease:?} begins before {all_ms}");
    }
}

/// History names who could stamp an instant, through renewals, releases and successors.
///
/// # Panics
/// When not.
pub async fn history_names_the_holder(store: &dyn LeaseStore, tick: &impl AsyncFn(u64)) {
    const LAW: &str = "history names the holder of an instant";
    let pool = pool("law-history", 0..2);
    let at = async |at_ms: u64| {
        let grants = must(LAW, store.history(&pool, at_ms).await);
        let named = |grant: crate::Grant| {
            assert!(grant.window.contains(&at_ms), "{LAW}: {grant:?} does not hold {at_ms}");
            (grant.worker, grant.epoch, grant.instance)
        };
        grants.into_iter().map(named).collect::<Vec<_>>()
    };
    let (first, early) = claimed(LAW, store, &pool, WorkerChoice::Exactly(0)).await;
    let of_first = (0, first.fence.epoch, early.instance.clone());
    for inside in [first.window.start, first.window.end - 1] {
        assert_eq!(at(inside).await, std::slice::from_ref(&of_first), "{LAW}: at {inside}");
    }
    assert!(at(first.window.start - 1).await.is_empty(), "{LAW}: before the window");
    assert!(at(first.window.end).await.is_empty() && at(u64::MAX).await.is_empty(), "{LAW}: after the window");

    tick(400).await;
    let longer = must(LAW, store.renew(&first, &early, &terms()).await);
    assert_eq!(at(longer.window.end - 1).await, std::slice::from_ref(&of_first), "{LAW}: a renewal moves the end");
    let (beside, neighbour) = claimed(LAW, store, &pool, WorkerChoice::Exactly(1)).await;
    let of_beside = (1, beside.fence.epoch, neighbour.instance);
    assert_eq!(at(beside.window.start).await, [of_first.clone(), of_beside.clone()], "{LAW}: two at once, by worker");

    let used_until_ms = longer.store_now_ms + 100;
    must(LAW, store.release(longer, used_until_ms, &terms()).await);
    assert_eq!(at(used_until_ms - 1).await.first(), Some(&of_first), "{LAW}: the used part after a release");
    assert!(!at(used_until_ms).await.contains(&of_first), "{LAW}: a release moves the end back");
    let (second, late) = claimed(LAW, store, &pool, WorkerChoice::Exactly(0)).await;
    let of_second = (0, second.fence.epoch, late.instance);
    assert_eq!(at(second.window.end - 1).await.first(), Some(&of_second), "{LAW}: the successor");
    assert_eq!(at(first.window.start).await, [of_first], "{LAW}: the predecessor is still known");
}
