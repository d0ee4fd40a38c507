//! One range and how far it is spent: a single atomic cursor.
//!
//! Every number of a range is taken by one successful compare-and-swap of its cursor, and the cursor only goes up, so no
//! number is taken twice and a refused request leaves no trace. Sealing swaps the cursor for a value outside every range:
//! what it was is the first number nobody has taken, and a thread in the middle of taking one fails.

use std::sync::{Arc, atomic::Ordering};

use mintage_core::{IdRange, protocol::raises};

use super::Stride;
use crate::sync::{OnceLock, atomic::AtomicU64};

/// The cursor of a sealed range. Ranges end at 2^63 at most, so it is no number of theirs.
const SEALED: u64 = u64::MAX;
/// The mark of a range that never runs low.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Run {
    span: IdRange,
    /// Which lane it came from.
    lane: usize,
    /// The first number of its stride.
    first: u64,
    step: u64,
    /// The first number not taken, or `SEALED`. `Relaxed` throughout: nothing else is published through it.
    next: AtomicU64,
    /// Whoever takes the cursor from below this to it or beyond asks for the next range. Only one can.
    mark: u64,
    /// The range to go on with. Set once.
    successor: OnceLock<Arc<Run>>,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// `count` numbers from `first`; `low` if this request is the one that must ask for the next range.
    Numbers { first: u64, count: u64, low: bool },
    /// All taken: go on with the successor.
    Empty,
    /// Sealed.
    Sealed,
}

impl Run {
    /// A range of which nothing is taken. It runs low when at most `refill_at` of it is left; never, if that is `None`.
    pub(super) fn new(span: IdRange, lane: usize, stride: Stride, refill_at: Option<f64>) -> Self {
        let (first, step) = (stride.first_from(span.start), u64::from(stride.step()));
        let count = span.end.saturating_sub(first).div_ceil(step);
        let mark = refill_at.map_or(NEVER, |refill_at| {
            // Whole below 2^32, which a float holds exactly.
            let reserve = (count as f64 * refill_at).floor() as u64;
            // Between the first number and the last, so that exactly one request passes it whatever the share is. A range that
            // holds no number of its stride is low from the start.
            let spent = count.saturating_sub(reserve).max(1).min(count);
            first.saturating_add(spent.saturating_mul(step))
        });
        Self { next: AtomicU64::new(first), span, lane, first, step, mark, successor: OnceLock::new() }
    }

    /// One that never had a number.
    pub(super) fn sealed() -> Self {
        let run = Self::new(IdRange::new("", 0, 0, 0), 0, Stride::EVERY, None);
        run.seal();
        run
    }

    /// Takes 1 to `n` numbers in a row, `step` apart. `n` is at least 1.
    #[inline]
    pub(super) fn take(&self, n: u64) -> Taken {
        let mut at = self.next.load(Ordering::Relaxed);
        loop {
            let room = self.span.end.saturating_sub(at);
            if room == 0 {
                return if at == SEALED { Taken::Sealed } else { Taken::Empty };
            }
            // The last of them must lie before the end. A division only where it does not.
            let fits = n.saturating_mul(self.step).saturating_sub(self.step) < room;
            let count = if fits { n } else { room.div_ceil(self.step) };
            let after = at + count * self.step;
            match self.next.compare_exchange_weak(at, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Taken::Numbers { first: at, count, low: at < self.mark && after >= self.mark },
                Err(seen) => at = seen,
            }
        }
    }

    /// How many numbers are left.
    pub(super) fn left(&self) -> u64 {
        self.span.end.saturating_sub(self.next.load(Ordering::Relaxed)).div_ceil(self.step)
    }

    /// The distance from one number to the next.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Whether it is time for the next range.
    pub(super) fn is_low(&self) -> bool {
        self.mark != NEVER && self.next.load(Ordering::Relaxed) >= self.mark
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.next.load(Ordering::Relaxed) == SEALED
    }

    pub(super) fn successor(&self) -> Option<&Arc<Run>> {
        self.successor.get()
    }

    /// Puts the next range behind this one. The caller makes sure that it happens once.
    pub(super) fn follow_with(&self, next: Arc<Run>) {
        let first_time = self.successor.set(next).is_ok();
        debug_assert!(first_time, "a range has one successor");
    }

    /// Which lane it came from.
    pub(super) fn lane(&self) -> usize {
        self.lane
    }

    /// How often its sequence had been raised when it was cut.
    pub(super) fn raises(&self) -> u64 {
        raises(self.span.version)
    }

    /// Leaves what is not taken as a gap. The range is empty then, as if it had been spent.
    pub(super) fn abandon(&self) {
        // Where the cursor of a range is whose last number was taken, whatever its stride.
        let end = self.span.end + self.step - 1;
        let leave = |at| (at < self.span.end).then_some(end);
        // A sealed range stays sealed.
        let _ = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
    }

    /// Makes taking impossible and says what nobody has taken, and of which lane. Empty the second time.
    pub(super) fn seal(&self) -> (usize, IdRange) {
        let from = match self.next.swap(SEALED, Ordering::Relaxed) {
            SEALED => self.span.end,
            untouched if untouched == self.first => self.span.start,
            // One past the last number taken: what lies between two of them is nobody's.
            next => (next - self.step + 1).min(self.span.end),
        };
        (self.lane, IdRange::new(self.span.sequence.clone(), from, self.span.end, self.span.version))
    }
}

/// Unlinks what follows one by one: a thread that slept while others went through a million ranges wakes up holding the
/// first of them, and dropping each inside the one before would overflow its stack.
impl Drop for Run {
    fn drop(&mut self) {
        let mut next = self.successor.take();
        while let Some(run) = next {
            next = Arc::into_inner(run).and_then(|mut run| run.successor.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, end: u64, refill_at: f64) -> Run {
        Run::new(IdRange::new("orders", start, end, 7), 0, Stride::EVERY, Some(refill_at))
    }

    fn striding(start: u64, end: u64, step: u32, offset: u32) -> Run {
        let stride = Stride::new(step, offset).unwrap();
        Run::new(IdRange::new("orders", start, end, 7), 3, stride, Some(0.2))
    }

    /// Every number that `run` still has.
    fn drain(run: &Run, batch: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Taken::Numbers { first, count, .. } = run.take(batch) {
            numbers.extend((0..count).map(|nth| first + nth * run.step()));
        }
        numbers
    }

    #[test]
    fn strides_take_their_own_numbers_of_a_range_and_all_of_them() {
        for (start, end, step, offset) in
            [(1, 21, 2, 1), (1, 21, 2, 2), (0, 20, 2, 2), (7, 8, 2, 2), (7, 8, 2, 1), (5, 6, 7, 5), (3, 100, 7, 2)]
        {
            for batch in [1, 2, 3, 50, u64::MAX] {
                let run = striding(start, end, step, offset);
                let own: Vec<u64> =
                    (start..end).filter(|at| at % u64::from(step) == u64::from(offset % step)).collect();
                assert_eq!(run.left(), own.len() as u64);
                assert_eq!(drain(&run, batch), own, "{start}..{end} by {step} from {offset}");
                assert_eq!((run.left(), run.is_low(), run.take(1)), (0, true, Taken::Empty));
            }
        }
        let end = mintage_core::RANGE_END;
        assert_eq!(drain(&striding(end - 4, end, 2, 2), 9), [end - 4, end - 2]);
    }

    #[test]
    fn a_stride_gives_back_all_that_it_has_not_passed() {
        for (taken, from) in [(0, 1), (1, 3), (2, 5), (10, 21)] {
            let run = striding(1, 21, 2, 2);
            if taken > 0 {
                assert!(matches!(run.take(taken), Taken::Numbers { first: 2, .. }));
            }
            assert_eq!(run.seal(), (3, IdRange::new("orders", from, 21, 7)), "{taken}");
            assert_eq!(run.seal().1.count(), 0);
        }
    }

    #[test]
    fn a_stride_runs_low_when_a_fifth_of_its_own_numbers_is_left() {
        let run = striding(1, 201, 2, 2);
        let mut asked_at = Vec::new();
        while let Taken::Numbers { low, .. } = run.take(1) {
            assert_eq!(run.is_low(), run.left() <= 20);
            if low {
                asked_at.push(run.left());
            }
        }
        assert_eq!(asked_at, [20]);
    }

    #[test]
    fn runs_low_exactly_once_and_exactly_there() {
        for (count, refill_at, reserve) in [
            (1000, 0.2, 200),
            (1000, 0.0, 0),
            (1000, 1.0, 999),
            (50, 0.2, 10),
            (7, 0.2, 1),
            (1, 0.2, 0),
            (1, 1.0, 0),
            (3, 0.5, 1),
        ] {
            let run = run(100, 100 + count, refill_at);
            let mut asked_at = Vec::new();
            while let Taken::Numbers { low, .. } = run.take(1) {
                assert_eq!(run.is_low(), run.left() <= reserve, "{count} {refill_at}");
                if low {
                    asked_at.push(run.left());
                }
            }
            assert_eq!(asked_at, [reserve], "{count} {refill_at}");
        }
    }

    #[test]
    fn a_fifth_is_a_fifth_whatever_the_length() {
        for count in (1..100_000).chain((0..1000).map(|less| u64::from(u32::MAX) - less)) {
            assert_eq!(run(0, count, 0.2).mark, count - (count / 5).min(count - 1), "{count}");
        }
    }

    #[test]
    fn a_batch_that_jumps_over_the_mark_asks() {
        let run = run(0, 1000, 0.2);
        assert_eq!(run.take(799), Taken::Numbers { first: 0, count: 799, low: false });
        assert_eq!(run.take(500), Taken::Numbers { first: 799, count: 201, low: true });
        assert_eq!(run.take(1), Taken::Empty);
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let run = run(5, 6, 0.2);
        assert!(matches!(run.take(9), Taken::Numbers { first: 5, count: 1, .. }));
        for _ in 0..1_000_000 {
            assert_eq!(run.take(u64::MAX), Taken::Empty);
        }
        assert_eq!(run.next.load(Ordering::Relaxed), 6);
        assert_eq!(run.seal(), (0, IdRange::new("orders", 6, 6, 7)));
    }

    #[test]
    fn sealing_says_what_is_unused_and_only_once() {
        let run = run(5, 10, 0.2);
        assert!(matches!(run.take(2), Taken::Numbers { first: 5, count: 2, .. }));
        assert_eq!(run.seal(), (0, IdRange::new("orders", 7, 10, 7)));
        assert_eq!(run.take(1), Taken::Sealed);
        assert_eq!((run.seal().1.count(), run.left()), (0, 0));
    }

    #[test]
    fn a_million_ranges_are_dropped_without_recursion() {
        let first = Arc::new(run(0, 1, 0.2));
        let mut last = Arc::clone(&first);
        for start in 1..1_000_000 {
            let next = Arc::new(run(start, start + 1, 0.2));
            last.follow_with(Arc::clone(&next));
            last = next;
        }
        let watched = Arc::downgrade(&last);
        drop(last);
        drop(first);
        assert_eq!(watched.strong_count(), 0);
    }
}
