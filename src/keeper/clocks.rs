//! Whether this machine's clock agrees with those of the other holders, and whether it stepped back.
//!
//! Every holder tells the store its clock with each call, and the store keeps how far that was from its own. So everybody's
//! distance to one common clock is known, and a distance from the median of the others is one's own fault, or at least one's
//! own problem. Nothing here makes ids unique: it keeps their times right.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mintage_core::{Clock, LeaseRow};

use crate::config::ClockLimits;

/// How long one row of the pool keeps the next look away, in milliseconds. The rows are read with each renewal where holders are
/// few, and less often where a thousand processes would read a thousand rows each.
const PAUSE_A_ROW_MS: u64 = 100;

/// How far the own clock is from the store's. The store read its clock at some time between the question and the answer, so it
/// is known within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    /// Least: the own clock when the question was sent, less the store's.
    pub(crate) least_ms: i64,
    /// Most: the own clock when the answer came, less the store's.
    pub(crate) most_ms: i64,
}

/// What the last comparison found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) offset_ms: Option<i64>,
    /// Own clock less the median of the others', as far as no slow answer explains it. `None` without others.
    pub(crate) skew_ms: Option<i64>,
    pub(crate) peers: usize,
}

/// What the lanes of one process know of the others in its pool.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub(crate) limits: ClockLimits,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The worker ids of this process: their clocks prove nothing about its own.
    own: BTreeSet<u32>,
    median_ms: Option<i64>,
    peers: usize,
    /// How many worker ids were held, ours among them.
    held: Option<usize>,
    next_look_boot_ms: u64,
}

/// Both clocks at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    wall_ms: u64,
    boot_ms: u64,
}

impl Offset {
    /// `sent_ms` is the own wall clock before asking, `took_ms` how long the answer took.
    pub(crate) fn between(sent_ms: u64, took_ms: u64, store_now_ms: u64) -> Self {
        let least_ms = signed(sent_ms).saturating_sub(signed(store_now_ms));
        Self { least_ms, most_ms: least_ms.saturating_add(signed(took_ms)) }
    }

    /// The least distance from `median_ms` that is possible; positive where the own clock is ahead.
    pub(crate) fn beyond(self, median_ms: i64) -> i64 {
        if median_ms < self.least_ms {
            self.least_ms.saturating_sub(median_ms)
        } else if median_ms > self.most_ms {
            self.most_ms.saturating_sub(median_ms)
        } else {
            0
        }
    }
}

impl Clocks {
    pub(crate) fn new(limits: ClockLimits) -> Self {
        Self { limits, known: Mutex::default() }
    }

    /// Remembers that a worker id is this process's own.
    pub(crate) fn claimed(&self, worker: u32) {
        self.known().own.insert(worker);
    }

    /// Forgets one that was lost or given back: somebody else may hold it next.
    pub(crate) fn left(&self, worker: u32) {
        self.known().own.remove(&worker);
    }

    /// Whether the rows of the pool should be read again.
    pub(crate) fn due(&self, boot_ms: u64) -> bool {
        boot_ms >= self.known().next_look_boot_ms
    }

    /// Takes in the rows of the pool as they stood at the store's `store_now_ms`.
    pub(crate) fn look(&self, rows: &[LeaseRow], store_now_ms: u64, boot_ms: u64) {
        let mut known = self.known();
        let mut offsets: Vec<i64> = rows
            .iter()
            .filter(|row| row.held && row.expires_ms > store_now_ms && !known.own.contains(&row.worker))
            .map(|row| row.clock_offset_ms)
            .collect();
        offsets.sort_unstable();
        known.peers = offsets.len();
        known.held = Some(rows.iter().filter(|row| row.held && row.expires_ms > store_now_ms).count());
        known.median_ms = offsets.get(offsets.len() / 2).copied();
        let pause_ms = PAUSE_A_ROW_MS.saturating_mul(rows.len() as u64);
        known.next_look_boot_ms = boot_ms.saturating_add(pause_ms);
    }

    /// How many worker ids of the pool were held when they were last counted.
    pub(crate) fn held(&self) -> Option<usize> {
        self.known().held
    }

    /// Compares the own clock with the others as they were last seen.
    pub(crate) fn compare(&self, own: Offset) -> Comparison {
        let known = self.known();
        Comparison {
            offset_ms: Some(own.least_ms),
            skew_ms: known.median_ms.map(|median_ms| own.beyond(median_ms)),
            peers: known.peers,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sight {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { wall_ms: clock.unix_ms(), boot_ms: clock.boot_ms() }
    }

    /// How far the wall clock has stepped back since `earlier`, judged by the clock that never steps.
    pub(crate) fn back_since_ms(self, earlier: Self) -> u64 {
        let elapsed_ms = self.boot_ms.saturating_sub(earlier.boot_ms);
        earlier.wall_ms.saturating_add(elapsed_ms).saturating_sub(self.wall_ms)
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slow_answer_explains_is_no_skew() {
        // Sent at 1000, answered at 1300; the store read 1100 in between.
        let own = Offset::between(1_000, 300, 1_100);
        assert_eq!(own, Offset { least_ms: -100, most_ms: 200 });
        for (median_ms, skew_ms) in [(0, 0), (-100, 0), (200, 0), (-150, 50), (250, -50), (-3_600_000, 3_599_900)] {
            assert_eq!(own.beyond(median_ms), skew_ms, "{median_ms}");
        }
    }

    #[test]
    fn a_step_back_is_told_from_time_that_passed() {
        let sight = |wall_ms, boot_ms| Sight { wall_ms, boot_ms };
        let before = sight(10_000, 500);
        assert_eq!(sight(13_000, 3_500).back_since_ms(before), 0);
        assert_eq!(sight(12_900, 3_500).back_since_ms(before), 100);
        assert_eq!(sight(9_000, 500).back_since_ms(before), 1_000);
        assert_eq!(sight(99_000, 3_500).back_since_ms(before), 0, "a step ahead is none");
    }
}
