//! The logical clock under every scheme that is ordered by time: one atomic integer, `(unit ‖ count)`.
//!
//! It never goes back; the wall clock only pulls it forward. Adding one is a mint, adding n is a batch, and a full unit
//! carries into the next by itself. A refused request leaves it exactly as it was, because it is only ever changed by a
//! compare-and-swap that succeeds together with the ids it pays for: a bare `fetch_add` would creep on refusals.
//!
//! Safety rests on two facts that hold whatever the clock does: each value is handed out at most once, and no value at or
//! beyond `end` is handed out at all.

use std::sync::atomic::Ordering;

use crate::sync::atomic::AtomicU64;

/// The state of a stopped timeline. Packed values have 63 bits at most, so it is none of them.
const STOPPED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Timeline {
    count_bits: u32,
    state: AtomicU64,
    /// How many units were begun ahead of the wall clock. Nothing is decided by it.
    borrowed: AtomicU64,
}

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The wall clock, in units.
    pub(crate) now: u64,
    /// First unit that must not be stamped: the end of the window or of the time field.
    pub(crate) end: u64,
    /// How many units ahead of the wall clock an id may be.
    pub(crate) drift: u64,
    /// What happens when a unit is full.
    pub(crate) overflow: Overflow,
    /// What happens when the timeline is further ahead of the wall clock than `drift`.
    pub(crate) ahead: Ahead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// Go on in the next unit, as far as the drift allows.
    Borrow,
    /// Refuse until the wall clock has moved on.
    Wait,
    /// As `Wait`, except while the timeline is held ahead of a clock that stepped back: then go on in the next unit.
    WaitUnlessHeld,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Refuse until the wall clock has caught up.
    Refuse,
    /// Go back to the wall clock. Only for schemes whose uniqueness rests on chance.
    Follow,
}

/// `len` consecutive values from `first`, which carry from one unit into the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The timeline is this many units ahead of the wall clock, because the clock stepped back.
    Behind { units: u64 },
    /// Everything within the drift is used up; the wall clock must advance this many units.
    Full { units: u64 },
    /// The next value lies at or beyond `end`.
    Ended,
    /// `stop` was called.
    Stopped,
}

impl Timeline {
    /// A timeline at zero whose units hold `2^count_bits` values.
    pub(crate) fn running(count_bits: u32) -> Self {
        Self::at(count_bits, 0)
    }

    /// One that hands out nothing until `restart`.
    pub(crate) fn stopped(count_bits: u32) -> Self {
        Self::at(count_bits, STOPPED)
    }

    fn at(count_bits: u32, state: u64) -> Self {
        Self { count_bits, state: AtomicU64::new(state), borrowed: AtomicU64::new(0) }
    }

    /// Splits a packed value into unit and count.
    pub(crate) const fn split(&self, packed: u64) -> (u64, u64) {
        (packed >> self.count_bits, packed & ((1 << self.count_bits) - 1))
    }

    /// Takes 1 to `n` consecutive values. `start` is asked for the first count of a unit; 0 for schemes that count from
    /// zero. `check` runs between reading the state and changing it: what it reads is consistent with the values taken,
    /// because every `stop` and `restart` in between makes the change fail.
    #[inline]
    pub(crate) fn reserve<T>(
        &self,
        n: u64,
        mut start: impl FnMut() -> u64,
        mut check: impl FnMut() -> (Ask, T),
    ) -> Result<(Run, T), Refusal> {
        let mut current = self.state.load(Ordering::Acquire);
        loop {
            if current == STOPPED {
                return Err(Refusal::Stopped);
            }
            let (ask, found) = check();
            let (run, borrowed) = self.plan(current, n, &ask, &mut start)?;
            match self.state.compare_exchange_weak(current, run.first + run.len, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if borrowed > 0 {
                        self.note_borrowed(borrowed);
                    }
                    return Ok((run, found));
                }
                Err(seen) => current = seen,
            }
        }
    }

    #[cold]
    fn note_borrowed(&self, units: u64) {
        self.borrowed.fetch_add(units, Ordering::Relaxed);
    }

    /// What can be taken from `current`, and how many units that begins ahead of the wall clock.
    #[inline]
    fn plan(&self, current: u64, n: u64, ask: &Ask, start: &mut impl FnMut() -> u64) -> Result<(Run, u64), Refusal> {
        let bits = self.count_bits;
        let mut borrowed = 0;
        let (mut unit, count) = self.split(current);
        let mut first = current;
        if unit < ask.now {
            unit = ask.now;
            if unit >= ask.end {
                return Err(Refusal::Ended);
            }
            first = (unit << bits) + start();
        } else if unit >= ask.end {
            return Err(Refusal::Ended);
        } else if unit > ask.now {
            let ahead = unit - ask.now;
            let rim = count == 0 && ahead <= ask.drift.saturating_add(1);
            let full_units = match ask.overflow {
                Overflow::Wait => ahead,
                Overflow::WaitUnlessHeld if ahead == 1 => 1,
                Overflow::Borrow | Overflow::WaitUnlessHeld => ahead.saturating_sub(ask.drift),
            };
            if rim && full_units > 0 {
                return Err(Refusal::Full { units: full_units });
            }
            if ahead > ask.drift {
                if ask.ahead == Ahead::Refuse {
                    return Err(Refusal::Behind { units: ahead });
                }
                unit = ask.now;
                first = (unit << bits) + start();
            } else if count == 0 {
                first += start();
                borrowed = 1;
            }
        } else if count == 0 {
            first += start();
        }
        let last_unit = if ask.overflow == Overflow::Borrow {
            ask.now.max(unit).max(ask.now.saturating_add(ask.drift)).min(ask.end - 1)
        } else {
            unit
        };
        // Never empty: `first` lies in `unit`, and `unit <= last_unit`.
        let room = ((last_unit + 1) << bits) - first;
        let len = n.min(room);
        if n > 1 {
            // A batch carries on into the units after its first.
            borrowed += self.split(first + len - 1).0 - unit;
        }
        Ok((Run { first, len }, borrowed))
    }

    /// How many units were begun ahead of the wall clock so far.
    pub(crate) fn borrowed(&self) -> u64 {
        self.borrowed.load(Ordering::Relaxed)
    }

    /// The unit of the last value handed out, or one before; `None` while it is stopped, and before the first.
    pub(crate) fn last_unit(&self) -> Option<u64> {
        let last = self.state.load(Ordering::Acquire).checked_sub(1).filter(|last| *last != STOPPED - 1)?;
        Some(self.split(last).0)
    }

    /// Whether `packed` is the next value.
    pub(crate) fn stands_at(&self, packed: u64) -> bool {
        self.state.load(Ordering::Acquire) == packed
    }

    /// Hands out nothing more, and says the next value that would have been handed out. `None` if it was stopped already.
    /// A thread in the middle of `reserve` fails: its compare-and-swap no longer finds what it read.
    pub(crate) fn stop(&self) -> Option<u64> {
        let before = self.state.swap(STOPPED, Ordering::AcqRel);
        (before != STOPPED).then_some(before)
    }

    /// Runs on from a stop, at `unit` or later, above everything handed out before. `before` is what `stop` said. Says where
    /// it stands now.
    ///
    /// It starts strictly above `before`, so that no value of the state occurs twice: a thread that read the state before
    /// the stop cannot succeed after the restart with what it read then.
    pub(crate) fn restart(&self, before: u64, unit: u64) -> u64 {
        let began = (before + 1).max(unit << self.count_bits);
        self.state.store(began, Ordering::Release);
        began
    }

    /// What `reserve` would say, without taking anything.
    pub(crate) fn probe(&self, ask: &Ask) -> Result<(), Refusal> {
        match self.state.load(Ordering::Acquire) {
            STOPPED => Err(Refusal::Stopped),
            current => self.plan(current, 1, ask, &mut || 0).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(now: u64) -> Ask {
        Ask { now, end: u64::MAX >> 20, drift: 10, overflow: Overflow::Borrow, ahead: Ahead::Refuse }
    }

    fn take(timeline: &Timeline, n: u64, ask: Ask) -> Result<Run, Refusal> {
        timeline.reserve(n, || 0, || (ask, ())).map(|(run, ())| run)
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let timeline = Timeline::running(2);
        let drained: u64 = std::iter::from_fn(|| take(&timeline, 1, ask(100)).ok()).map(|run| run.len).sum();
        assert_eq!(drained, 11 * 4, "the unit itself and ten borrowed ones");
        let before = timeline.state.load(Ordering::Relaxed);
        for _ in 0..1000 {
            assert_eq!(take(&timeline, 1, ask(100)), Err(Refusal::Full { units: 1 }));
            assert_eq!(take(&timeline, 1, ask(50)), Err(Refusal::Behind { units: 61 }));
            assert_eq!(take(&timeline, 1, Ask { end: 100, ..ask(100) }), Err(Refusal::Ended));
        }
        assert_eq!(timeline.state.load(Ordering::Relaxed), before);
        assert_eq!(take(&timeline, 1, ask(101)), Ok(Run { first: 111 << 2, len: 1 }));
    }

    #[test]
    fn units_begun_ahead_of_the_clock_are_counted_once() {
        let timeline = Timeline::running(2);
        assert_eq!((timeline.last_unit(), timeline.borrowed()), (None, 0));
        take(&timeline, 4, ask(100)).unwrap();
        assert_eq!(
            (timeline.last_unit(), timeline.borrowed()),
            (Some(100), 0),
            "a full unit is not yet a borrowed one"
        );
        for _ in 0..4 {
            take(&timeline, 1, ask(100)).unwrap();
        }
        assert_eq!((timeline.last_unit(), timeline.borrowed()), (Some(101), 1));
        take(&timeline, 7, ask(100)).unwrap();
        assert_eq!((timeline.last_unit(), timeline.borrowed()), (Some(103), 3), "a batch over two units");
        take(&timeline, 1000, ask(200)).unwrap();
        assert_eq!(timeline.borrowed(), 13, "the ten units of the drift");
        let back = Ask { overflow: Overflow::WaitUnlessHeld, ahead: Ahead::Follow, ..ask(10) };
        take(&timeline, 1, back).unwrap();
        assert_eq!((timeline.last_unit(), timeline.borrowed()), (Some(10), 13), "followed back, not borrowed");
        assert!(timeline.stop().is_some() && timeline.last_unit().is_none());
    }

    #[test]
    fn a_batch_stops_at_the_rim() {
        let timeline = Timeline::running(2);
        assert_eq!(take(&timeline, 1000, ask(5)), Ok(Run { first: 5 << 2, len: 44 }));
        assert_eq!(take(&timeline, 1, Ask { end: 16, ..ask(6) }), Err(Refusal::Ended));
        let waiting = Ask { overflow: Overflow::Wait, ..ask(20) };
        assert_eq!(take(&timeline, 1000, waiting), Ok(Run { first: 20 << 2, len: 4 }));
        assert_eq!(take(&timeline, 1, waiting), Err(Refusal::Full { units: 1 }));
    }

    #[test]
    fn held_ahead_or_followed_back() {
        let timeline = Timeline::running(2);
        let held = Ask { overflow: Overflow::WaitUnlessHeld, ahead: Ahead::Follow, ..ask(100) };
        assert_eq!(take(&timeline, 3, held).map(|run| run.first), Ok(400));
        let back = Ask { now: 95, ..held };
        assert_eq!(take(&timeline, 1, back).map(|run| run.first), Ok(403), "absorbed in the same unit");
        assert_eq!(take(&timeline, 1, back).map(|run| run.first), Ok(404), "held: the next unit");
        let far_back = Ask { now: 10, ..held };
        assert_eq!(take(&timeline, 1, far_back).map(|run| run.first), Ok(40), "followed back");
    }

    #[test]
    fn a_step_of_the_whole_drift_is_held_to_its_end() {
        let timeline = Timeline::running(2);
        let held = Ask { overflow: Overflow::WaitUnlessHeld, ahead: Ahead::Follow, ..ask(100) };
        assert_eq!(take(&timeline, 1, held).map(|run| run.first), Ok(400));
        let back = Ask { now: 90, ..held };
        assert_eq!(take(&timeline, 3, back).map(|run| run.first), Ok(401));
        assert_eq!(take(&timeline, 1, back), Err(Refusal::Full { units: 1 }), "full, and not followed back");
    }

    #[test]
    fn stop_and_restart_never_repeat() {
        let timeline = Timeline::running(2);
        assert_eq!(take(&timeline, 2, ask(7)).map(|run| run.first), Ok(28));
        let before = timeline.stop();
        assert_eq!(before, Some(30));
        assert_eq!(timeline.stop(), None);
        assert_eq!(take(&timeline, 1, ask(7)), Err(Refusal::Stopped));
        timeline.restart(30, 3);
        assert_eq!(take(&timeline, 1, ask(7)).map(|run| run.first), Ok(31));
    }
}
