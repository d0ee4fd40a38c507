//! The one task that fetches ranges, and the give-back at its end.
//!
//! There is never more than one such fetch on its way; beside it only `take_range` asks. A range whose answer was lost is never
//! used: that costs a gap. The task lives until [`Refill::finish`], or is aborted when dropped.

use std::{future::poll_fn, num::NonZeroU32, sync::Arc, task::Poll, time::Duration};

use mintage_core::{Clock, IdRange, StoreError, StoreErrorKind};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};

use super::{
    lane::Lanes,
    sizing::Sizing,
    supply::{Fetched, Supply},
};
use crate::{Entropy, fork::Birth};

/// Bound of the first wait after a failure: some store trips.
const RETRY_MS_FIRST: u32 = 50;
/// Bound of every later wait: soon enough after an outage, and a thousand processes ask a recovering store a few hundred
/// times a second.
const RETRY_MS_MAX: u32 = 5_000;

/// How often a segment that fetches nothing asks whether its sequence was raised: what it holds lies below the floor then. Once a
/// minute costs a store nothing, and an operator can wait that long.
const WATCH_MS: u64 = 60_000;

/// Where ranges come from: one lane after the other, and how many numbers each time.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) lanes: Arc<Lanes>,
    pub(super) sizing: Sizing,
    pub(super) clock: Arc<dyn Clock>,
    /// The lane whose turn it is.
    pub(super) turn: usize,
    /// For the pauses after failures.
    pub(super) dice: Entropy,
}

impl Source {
    /// Fetches the next range, from the lane whose turn it is; from another, where that one fails. `minted` is how many numbers
    /// were minted so far.
    pub(super) async fn fetch(&mut self, minted: u64) -> Result<Fetched, StoreError> {
        let began_ms = self.clock.boot_ms();
        let len = self.sizing.next_len(began_ms, minted);
        let mut failure: Option<StoreError> = None;
        for index in self.lanes.in_order(self.turn) {
            match self.ask(index, len).await {
                Ok(fetched) => {
                    self.sizing.took(self.clock.boot_ms().saturating_sub(began_ms));
                    return Ok(fetched);
                }
                Err(error) => failure = Some(worse(failure, error)),
            }
        }
        self.sizing.forget_rate();
        Err(failure.unwrap_or_else(|| {
            StoreError::new(StoreErrorKind::Spent, "the sequence has reached 9223372036854775807: plan a new one")
        }))
    }

    /// Asks a store that failed and has rested, once another one has brought a range: nobody waits for it.
    async fn visit(&mut self) -> Option<Fetched> {
        let index = self.lanes.rested()?;
        self.ask(index, self.sizing.len()).await.ok()
    }

    async fn ask(&mut self, lane: usize, len: u32) -> Result<Fetched, StoreError> {
        let stride = self.lanes.at(lane).map(super::lane::Open::stride).unwrap_or(super::Stride::EVERY);
        let range = self.lanes.fetch(lane, NonZeroU32::new(len).unwrap_or(NonZeroU32::MIN), None).await?;
        self.turn = lane + 1;
        Ok(Fetched { lane, stride, range, is_last: self.lanes.are_spent() })
    }
}

/// Of the failures of several stores the one that leaves most hope: waiting helps against it if it helps at all.
fn worse(one: Option<StoreError>, other: StoreError) -> StoreError {
    match one {
        Some(one) if one.kind() == StoreErrorKind::Unavailable || other.kind() == StoreErrorKind::Spent => one,
        _ => other,
    }
}

/// The running task. Dropping it aborts the task; nothing is given back then.
#[derive(Debug)]
pub(super) struct Refill {
    lanes: Arc<Lanes>,
    task: JoinHandle<Option<Fetched>>,
}

impl Refill {
    pub(super) fn spawn(runtime: &Handle, supply: Arc<Supply>, source: Source, birth: Birth) -> Self {
        let lanes = Arc::clone(&source.lanes);
        let mut work = Box::pin(keep_supplied(Watch(supply), source));
        // In a forked child the task stays where it was: what it awaits belongs to the parent.
        let task = poll_fn(move |context| if birth.forked() { Poll::Pending } else { work.as_mut().poll(context) });
        Self { lanes, task: runtime.spawn(task) }
    }

    /// Awaits the end of the task of a sealed supply, a fetch on its way included, and gives the unused numbers back to the
    /// store that each came from.
    pub(super) async fn finish(mut self, mut tails: Vec<(usize, IdRange)>, birth: &Birth) -> Result<(), StoreError> {
        // A task that was shut down with its runtime has nothing to hand over.
        let late = (&mut self.task).await.ok().flatten();
        tails.extend(late.map(|late| (late.lane, late.range)));
        let mut told = Ok(());
        for (index, open) in self.lanes.iter().enumerate() {
            let own = tails.iter().filter(|(lane, _)| *lane == index).map(|(_, tail)| tail.clone());
            if let Some(tail) = join_tails(own.collect()).filter(|_| !birth.forked()) {
                told = told.and(open.store().give_back(tail).await.map(drop));
            }
        }
        told
    }
}

impl Drop for Refill {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fetches whenever the supply wants a range, until it is closed. Returns the range that came too late, if one did.
async fn keep_supplied(watch: Watch, mut source: Source) -> Option<Fetched> {
    let Watch(supply) = &watch;
    let mut failures = 0;
    while !supply.is_closed() {
        if !supply.is_wanting() {
            let idle = timeout(Duration::from_millis(WATCH_MS), supply.wanted()).await.is_err();
            if idle && supply.remaining() > 0 {
                learn_of_raises(supply, &source.lanes).await;
            }
            continue;
        }
        match source.fetch(supply.minted()).await {
            Ok(fetched) => {
                failures = 0;
                if let Err(late) = supply.link(fetched) {
                    return Some(late);
                }
                if let Some(Err(late)) = source.visit().await.map(|fetched| supply.link(fetched)) {
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

/// Drops what is held of each sequence that was raised since. The next range is fetched as if it had been spent.
async fn learn_of_raises(supply: &Supply, lanes: &Lanes) {
    for lane in 0..lanes.len() {
        if let Some(raises) = lanes.raises(lane).await {
            supply.abandon_below(lane, raises);
        }
    }
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
pub(super) fn retry_wait_ms(failures: u32, dice: &Entropy) -> u32 {
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
