//! The ranges a segment holds, in the order they are spent, and the news about them.
//!
//! The standby range is the successor of the current one, so going over to it is one compare-and-swap, and there is no
//! moment in which both look empty. Ranges come in at the far end only, under the lock that closing takes: a range is either
//! sealed with the others or handed back to whoever fetched it.
//!
//! Minting allocates nothing, going over to the standby included; only the first mint of each thread lets `arc_swap` allocate
//! that thread's slot, once.

use std::{
    iter::successors,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use mintage_core::{IdRange, MintError, NumberRun, ReadyError, StoreError, StoreErrorKind};
use tokio::sync::Notify;

use super::{
    Stride,
    run::{Run, Taken},
};
use crate::sync::{
    ArcSwap, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64},
};

/// How soon a fetch on its way may answer, for `Exhausted`: a store trip takes some milliseconds.
const TRIP_MS_GUESS: u32 = 10;

#[derive(Debug)]
pub(super) struct Supply {
    current: ArcSwap<Run>,
    refill_at: Option<f64>,
    /// Somebody waits for a range although none runs low.
    demanded: AtomicBool,
    /// No range will come any more, ever.
    spent: AtomicBool,
    /// In how many milliseconds the next fetch may bring something.
    retry_ms: AtomicU32,
    refills: AtomicU64,
    /// How many numbers came in so far.
    fetched: AtomicU64,
    ledger: Mutex<Ledger>,
    /// Wakes the refill task.
    wanted: Notify,
    /// Wakes everybody who waits in `wait`.
    changed: Notify,
}

#[derive(Debug)]
struct Ledger {
    /// Where the next range is put.
    last: Arc<Run>,
    closed: bool,
    trouble: Option<Arc<StoreError>>,
    /// Nobody fetches any more, although the segment is not closed.
    deserted: bool,
}

impl Supply {
    /// Holds one range.
    pub(super) fn of(first: Fetched, refill_at: Option<f64>) -> Self {
        let spent = first.is_last;
        Self {
            spent: AtomicBool::new(spent),
            refills: AtomicU64::new(1),
            fetched: AtomicU64::new(first.numbers()),
            ..Self::around(first.into_run(refill_at), refill_at)
        }
    }

    /// Holds nothing and never will.
    pub(super) fn none() -> Self {
        let supply = Self::around(Run::sealed(), None);
        supply.seal();
        supply
    }

    fn around(run: Run, refill_at: Option<f64>) -> Self {
        let last = Arc::new(run);
        Self {
            current: ArcSwap::new(Arc::clone(&last)),
            refill_at,
            demanded: AtomicBool::new(false),
            spent: AtomicBool::new(false),
            retry_ms: AtomicU32::new(TRIP_MS_GUESS),
            refills: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            ledger: Mutex::new(Ledger { last, closed: false, trouble: None, deserted: false }),
            wanted: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// Takes 1 to `n` numbers in a row.
    #[inline]
    pub(super) fn take(&self, n: u64) -> Result<NumberRun, MintError> {
        loop {
            let run = self.current.load();
            match run.take(n) {
                Taken::Numbers { first, count, low } => {
                    if low && run.successor().is_none() {
                        self.wanted.notify_one();
                    }
                    return Ok(NumberRun::new(first, count, run.step()));
                }
                Taken::Sealed => return Err(MintError::Closed),
                Taken::Empty => {}
            }
            let shortage = self.shortage();
            let Some(next) = run.successor() else { return Err(shortage) };
            self.current.compare_and_swap(&run, Arc::clone(next));
        }
    }

    /// What to say when there is no successor. Must be asked before looking for one: the last range is put in its place
    /// before `spent` is set, so whoever sees `spent` first and no successor then knows that none will come.
    fn shortage(&self) -> MintError {
        if self.spent.load(Ordering::Acquire) {
            MintError::Spent
        } else {
            MintError::Exhausted { retry_ms: self.retry_ms.load(Ordering::Relaxed) }
        }
    }

    /// Whether a mint would succeed, or what it would say.
    pub(super) fn outlook(&self) -> Result<(), MintError> {
        let shortage = self.shortage();
        let current = self.current.load();
        if current.is_sealed() {
            return Err(MintError::Closed);
        }
        if runs(&current).any(|run| run.left() > 0) { Ok(()) } else { Err(shortage) }
    }

    /// Waits until there are numbers or none can be hoped for.
    pub(super) async fn wait(&self) -> Result<(), ReadyError> {
        loop {
            // Made before looking: what changes from here on wakes it.
            let changed = self.changed.notified();
            match self.outlook() {
                Ok(()) => return Ok(()),
                Err(MintError::Exhausted { .. }) if self.may_recover() => {
                    self.demanded.store(true, Ordering::Release);
                    self.wanted.notify_one();
                    changed.await;
                }
                Err(kind) => return Err(self.complaint(kind)),
            }
        }
    }

    /// Whether waiting may help: not where a person must act first.
    fn may_recover(&self) -> bool {
        use StoreErrorKind::{Corrupt, FormatMismatch, Refused, RolledBack};
        let ledger = self.ledger();
        let lasting = |error: &Arc<StoreError>| matches!(error.kind(), Corrupt | FormatMismatch | Refused | RolledBack);
        !ledger.deserted && !ledger.trouble.as_ref().is_some_and(lasting)
    }

    /// `kind`, and the store's last error behind it.
    pub(super) fn complaint(&self, kind: MintError) -> ReadyError {
        match self.trouble() {
            Some(trouble) if matches!(kind, MintError::Exhausted { .. } | MintError::Spent) => {
                ReadyError::with_source(kind, trouble)
            }
            _ => ReadyError::new(kind),
        }
    }

    /// Whether the next range should be fetched: the current one is low, or empty and somebody waits, and nothing stands by.
    pub(super) fn is_wanting(&self) -> bool {
        let current = self.current.load();
        let low = current.is_low() || (self.demanded.load(Ordering::Acquire) && current.left() == 0);
        !self.is_spent() && low && current.successor().is_none()
    }

    /// Waits until `is_wanting` may have become true, or the segment was closed.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until the segment is closed. A wish for a range in between changes nothing: there is one task.
    pub(super) async fn closed(&self) {
        while !self.is_closed() {
            self.wanted().await;
        }
    }

    /// Puts a fresh range behind the last one, or hands it back if the segment was closed meanwhile.
    pub(super) fn link(&self, fetched: Fetched) -> Result<(), Fetched> {
        let mut ledger = self.ledger();
        if ledger.closed {
            return Err(fetched);
        }
        let (ends, numbers, lane) = (fetched.is_last, fetched.numbers(), fetched.lane);
        let run = Arc::new(fetched.into_run(self.refill_at));
        let raises = run.raises();
        ledger.last.follow_with(Arc::clone(&run));
        ledger.last = run;
        ledger.trouble = None;
        drop(ledger);
        // After the new range is in its place, so that nobody finds none.
        self.abandon_below(lane, raises);
        self.demanded.store(false, Ordering::Release);
        self.refills.fetch_add(1, Ordering::Relaxed);
        self.fetched.fetch_add(numbers, Ordering::Relaxed);
        self.retry_ms.store(TRIP_MS_GUESS, Ordering::Relaxed);
        if ends {
            self.spent.store(true, Ordering::Release);
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// Leaves every range of a lane that was cut before its sequence was raised for the `raises`th time: the numbers lie below the
    /// floor.
    pub(super) fn abandon_below(&self, lane: usize, raises: u64) {
        runs(&self.current.load()).filter(|run| run.lane() == lane && run.raises() < raises).for_each(Run::abandon);
        loop {
            let run = self.current.load();
            let Some(next) = run.successor().filter(|_| run.left() == 0) else { break };
            self.current.compare_and_swap(&run, Arc::clone(next));
        }
    }

    /// Takes in what a fetch at the start came to. Says whether another is worth while.
    pub(super) fn stock(&self, fetched: Result<Fetched, StoreError>) -> bool {
        match fetched {
            Ok(range) => self.link(range).is_ok(),
            Err(error) => {
                self.fail(error, TRIP_MS_GUESS);
                false
            }
        }
    }

    /// Notes that a fetch failed, and in how many milliseconds it is tried again.
    pub(super) fn fail(&self, error: StoreError, retry_ms: u32) {
        let spent = error.kind() == StoreErrorKind::Spent;
        self.ledger().trouble = Some(Arc::new(error));
        self.retry_ms.store(retry_ms, Ordering::Relaxed);
        if spent {
            self.spent.store(true, Ordering::Release);
        }
        self.changed.notify_waiters();
    }

    /// Notes that the refill task ended without being asked to. Numbers held can still be minted.
    pub(super) fn desert(&self) {
        let mut ledger = self.ledger();
        if ledger.closed {
            return;
        }
        ledger.deserted = true;
        ledger.trouble = Some(Arc::new(StoreError::new(
            StoreErrorKind::Unavailable,
            "the task that fetches ranges is gone: its tokio runtime was shut down, or the store panicked. Open the \
             segment on a runtime that lives as long as it is used",
        )));
        drop(ledger);
        self.changed.notify_waiters();
    }

    /// Makes minting impossible, and says what is unused of each range, in order. Nothing the second time.
    pub(super) fn seal(&self) -> Vec<(usize, IdRange)> {
        let mut ledger = self.ledger();
        ledger.closed = true;
        let tails = runs(&self.current.load()).map(Run::seal).collect();
        drop(ledger);
        self.wanted.notify_one();
        self.changed.notify_waiters();
        tails
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ledger().closed
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Acquire)
    }

    pub(super) fn remaining(&self) -> u64 {
        runs(&self.current.load()).map(Run::left).sum()
    }

    /// How many numbers were minted so far. A moment's view.
    pub(super) fn minted(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed).saturating_sub(self.remaining())
    }

    pub(super) fn refills(&self) -> u64 {
        self.refills.load(Ordering::Relaxed)
    }

    pub(super) fn trouble(&self) -> Option<Arc<StoreError>> {
        self.ledger().trouble.clone()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range as it came, and where from.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) lane: usize,
    pub(super) stride: Stride,
    pub(super) range: IdRange,
    /// No lane can bring another.
    pub(super) is_last: bool,
}

impl Fetched {
    fn numbers(&self) -> u64 {
        let first = self.stride.first_from(self.range.start);
        self.range.end.saturating_sub(first).div_ceil(self.stride.step().into())
    }

    fn into_run(self, refill_at: Option<f64>) -> Run {
        Run::new(self.range, self.lane, self.stride, refill_at)
    }
}

/// A range and those behind it.
fn runs(first: &Run) -> impl Iterator<Item = &Run> {
    successors(Some(first), |run| run.successor().map(Arc::as_ref))
}
