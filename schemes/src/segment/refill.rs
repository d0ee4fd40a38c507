//! The one task that fetches ranges, and the give-back at its end.
//!
//! It is the only caller of [`RangeStore::allocate`] once a segment is open, so there is never more than one fetch on its way.
//! A range whose answer was lost is never used: that costs a gap. It lives until [`Refill::finish`], or is aborted when dropped.

use std::{future::poll_fn, num::NonZeroU32, sync::Arc, task::Poll, time::Duration};

use mintage_core::{IdRange, RANGE_END, RangeStore, Sequence, StoreError, StoreErrorKind};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};

use super::supply::Supply;
use crate::{Entropy, fork::Birth};

/// Bound of the first wait after a failure: some store trips.
const RETRY_MS_FIRST: u32 = 50;
/// Bound of every later wait: soon enough after an outage, and a thousand processes ask a recovering store a few hundred
/// times a second.
const RETRY_MS_MAX: u32 = 5_000;
/// After how long a fetch without an answer is given up. Stores have a shorter limit of their own; this one is for those
/// that have none, because a fetch that hangs for ever would be the last one.
const FETCH_MS_MAX: u64 = 30_000;

/// Where ranges come from, and what has come so far.
#[derive(Debug)]
pub(super) struct Source {
    store: Arc<dyn RangeStore>,
    sequence: Sequence,
    len: NonZeroU32,
    /// For the pauses after failures.
    dice: Entropy,
}

impl Source {
    pub(super) fn new(store: Arc<dyn RangeStore>, sequence: Sequence, len: NonZeroU32, dice: Entropy) -> Self {
        Self { store, sequence, len, dice }
    }

    /// Fetches the next range. From then on the store must stand above it.
    pub(super) async fn fetch(&mut self) -> Result<IdRange, StoreError> {
        let answer =
            timeout(Duration::from_millis(FETCH_MS_MAX), self.store.allocate(&self.sequence, self.len, None)).await;
        let range = answer.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!("the store has not answered within {FETCH_MS_MAX} ms: see whether it is up and reachable"),
            ))
        })?;
        self.admit(&range)?;
        self.sequence.floor = range.end;
        Ok(range)
    }

    /// Believes no store blindly: a range that was ours before, or is none, must not be spent.
    fn admit(&self, range: &IdRange) -> Result<(), StoreError> {
        let Sequence { name, floor, .. } = &self.sequence;
        let IdRange { start, end, .. } = range;
        if range.sequence != *name || start >= end || *end > RANGE_END || range.count() > u64::from(self.len.get()) {
            return Err(StoreError::new(
                StoreErrorKind::Corrupt,
                format!(
                    "asked for {} numbers of sequence {name}, the store answered {start}..{end} of {}: it breaks the \
                     contract of a range store, use another",
                    self.len, range.sequence
                ),
            ));
        }
        if start < floor {
            return Err(StoreError::new(
                StoreErrorKind::RolledBack,
                format!(
                    "sequence {name}: the store answered {start}..{end}, but {} was handed out already: it was emptied or \
                     restored. Raise the sequence above every number in use, then start again",
                    floor - 1
                ),
            ));
        }
        Ok(())
    }
}

/// The running task. Dropping it aborts the task; nothing is given back then.
#[derive(Debug)]
pub(super) struct Refill {
    store: Arc<dyn RangeStore>,
    task: JoinHandle<Option<IdRange>>,
}

impl Refill {
    pub(super) fn spawn(runtime: &Handle, supply: Arc<Supply>, source: Source, birth: Birth) -> Self {
        let store = Arc::clone(&source.store);
        let mut work = Box::pin(keep_supplied(Watch(supply), source));
        // In a forked child the task stays where it was: what it awaits belongs to the parent.
        let task = poll_fn(move |context| if birth.forked() { Poll::Pending } else { work.as_mut().poll(context) });
        Self { store, task: runtime.spawn(task) }
    }

    /// Awaits the end of the task of a sealed supply, a fetch on its way included, and gives the unused numbers back.
    pub(super) async fn finish(mut self, mut tails: Vec<IdRange>, birth: &Birth) -> Result<(), StoreError> {
        // A task that was shut down with its runtime has nothing to hand over.
        tails.extend((&mut self.task).await.ok().flatten());
        match join_tails(tails) {
            Some(tail) if !birth.forked() => self.store.give_back(tail).await.map(drop),
            _ => Ok(()),
        }
    }
}

impl Drop for Refill {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fetches whenever the supply wants a range, until it is closed. Returns the range that came too late, if one did.
async fn keep_supplied(watch: Watch, mut source: Source) -> Option<IdRange> {
    let Watch(supply) = &watch;
    let mut failures = 0;
    while !supply.is_closed() {
        if !supply.is_wanting() {
            supply.wanted().await;
            continue;
        }
        match source.fetch().await {
            Ok(range) => {
                failures = 0;
                if let Err(late) = supply.link(range) {
                    return Some(late);
                }
            }
            Err(error) => {
                let wait_ms = retry_wait_ms(failures, &source.dice);
                failures += 1;
                supply.fail(error, wait_ms);
                let _ = timeout(Duration::from_millis(wait_ms.into()), supply.closed()).await;
            }
        }
    }
    None
}

/// Says so if the task ends before the supply is closed, even if it never began: its runtime was shut down, or the store
/// panicked.
struct Watch(Arc<Supply>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.desert();
    }
}

/// How long to wait after so many failures in a row and one more: anything up to a bound that doubles each time, so that
/// processes that failed together do not come back together.
fn retry_wait_ms(failures: u32, dice: &Entropy) -> u32 {
    let bound = RETRY_MS_FIRST.saturating_mul(1 << failures.min(16)).min(RETRY_MS_MAX);
    // Without chance there is still the bound. The remainder is at most the bound.
    dice.draw_u64().map_or(bound, |drawn| 1 + (drawn % u64::from(bound)) as u32)
}

/// The longest run of unused numbers that ends where the last range ends, to be given back in one piece.
///
/// Ranges are joined only where nobody changed the sequence between the two cuts: then the store still counts from the
/// end of the last one, and all below it down to the first is ours.
fn join_tails(mut tails: Vec<IdRange>) -> Option<IdRange> {
    let mut joined = tails.pop()?;
    let mut cut_at = joined.version;
    while let Some(before) = tails.pop() {
        if before.end != joined.start || cut_at.checked_sub(1) != Some(before.version) {
            break;
        }
        joined.start = before.start;
        cut_at = before.version;
    }
    (joined.count() > 0).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(start: u64, end: u64, version: u64) -> IdRange {
        IdRange::new("orders", start, end, version)
    }

    #[test]
    fn tails_are_joined_only_where_nobody_came_between() {
        let cases = [
            (vec![], None),
            (vec![tail(6, 6, 1)], None),
            (vec![tail(6, 11, 1)], Some(tail(6, 11, 1))),
            (vec![tail(6, 11, 1), tail(11, 21, 2)], Some(tail(6, 21, 2))),
            (vec![tail(11, 11, 1), tail(11, 21, 2)], Some(tail(11, 21, 2))),
            (vec![tail(11, 11, 1), tail(13, 21, 2)], Some(tail(13, 21, 2))),
            (vec![tail(6, 11, 1), tail(21, 31, 3)], Some(tail(21, 31, 3))),
            // Somebody took a range in between and gave it back.
            (vec![tail(6, 11, 1), tail(11, 21, 4)], Some(tail(11, 21, 4))),
            (vec![tail(6, 11, 1), tail(11, 21, 2), tail(21, 31, 3)], Some(tail(6, 31, 3))),
            (vec![tail(6, 11, 1), tail(21, 31, 3), tail(31, 41, 4)], Some(tail(21, 41, 4))),
            (vec![tail(6, 11, u64::MAX), tail(11, 21, 0)], Some(tail(11, 21, 0))),
        ];
        for (tails, expected) in cases {
            assert_eq!(join_tails(tails.clone()), expected, "{tails:?}");
        }
    }

    #[test]
    fn waits_grow_and_stay_bounded() {
        for (failures, bound) in [(0, 50), (1, 100), (2, 200), (6, 3200), (7, 5000), (40, 5000), (u32::MAX, 5000)] {
            let waits: Vec<u32> = (0..2000).map(|_| retry_wait_ms(failures, &Entropy::os())).collect();
            assert!(waits.iter().all(|wait| (1..=bound).contains(wait)), "{failures}");
            assert!(waits.iter().any(|wait| *wait > bound / 2), "{failures}");
            assert!(waits.iter().any(|wait| *wait <= bound / 2), "spread out: {failures}");
        }
    }
}
