//! How many numbers a trip to the store brings, when the config says for how long they are to last.
//!
//! The size doubles when ranges are used up faster than wanted and halves when they last more than twice as long, within bounds.
//! Wanted is the target of the config, or longer where the store is slow: the part of a range that is left when the next one is
//! asked for must outlast the trip.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::RangeSize;

/// How many trips the reserve of a range must outlast.
const TRIPS_MIN: f64 = 2.0;

#[derive(Debug)]
pub(super) struct Sizing {
    size: RangeSize,
    refill_at: f64,
    /// Shared with those who only look.
    len: Arc<AtomicU32>,
    /// How long a trip takes: the slowest of late, forgotten by half with each faster one. Shared likewise.
    trip_ms: Arc<AtomicU64>,
    /// When the last trip began, and how many numbers had been spent by then.
    last: Option<(u64, u64)>,
}

impl Sizing {
    pub(super) fn new(size: RangeSize, refill_at: Option<f64>) -> Self {
        let len = match size {
            RangeSize::Fixed(len) => len.get(),
            RangeSize::Lasting { min, .. } => min.get(),
        };
        // Without a reserve, or with hardly one, the trip is what everybody waits for: no size helps.
        let refill_at = refill_at.unwrap_or(1.0).max(0.01);
        Self { size, refill_at, len: Arc::new(AtomicU32::new(len)), trip_ms: Arc::default(), last: None }
    }

    /// How many numbers to ask for now, `spent` being all that were minted so far.
    pub(super) fn next_len(&mut self, now_ms: u64, spent: u64) -> u32 {
        let len = self.len();
        let RangeSize::Lasting { min, max, target_ms } = self.size else { return len };
        let before = self.last.replace((now_ms, spent));
        let Some((then_ms, then_spent)) = before else { return len };
        let wanted_ms = target_ms.max((self.trip_ms() as f64 * TRIPS_MIN / self.refill_at) as u64);
        // How long a range lasts is len × elapsed / used: compared without dividing.
        let used = u128::from(spent.saturating_sub(then_spent)) * u128::from(wanted_ms);
        let lasts = u128::from(len) * u128::from(now_ms.saturating_sub(then_ms));
        let fitting = if lasts < used {
            len.saturating_mul(2)
        } else if lasts > used.saturating_mul(2) {
            len / 2
        } else {
            len
        };
        let fitting = fitting.clamp(min.get(), max.get());
        self.len.store(fitting, Ordering::Relaxed);
        fitting
    }

    /// A trip took so long.
    pub(super) fn took(&mut self, ms: u64) {
        self.trip_ms.store(ms.max(self.trip_ms().midpoint(ms)), Ordering::Relaxed);
    }

    fn trip_ms(&self) -> u64 {
        self.trip_ms.load(Ordering::Relaxed)
    }

    /// The rate is not known any more: nothing could be minted while the store was away.
    pub(super) fn forget_rate(&mut self) {
        self.last = None;
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn shared_len(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.len)
    }

    pub(super) fn shared_trip_ms(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.trip_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn lasting(min: u32, max: u32, target_ms: u64) -> Sizing {
        let size =
            RangeSize::Lasting { min: NonZeroU32::new(min).unwrap(), max: NonZeroU32::new(max).unwrap(), target_ms };
        Sizing::new(size, Some(0.2))
    }

    /// Asks as often as ranges of the present size run out at `rate` numbers a second, and tells the sizes.
    fn at_rate(sizing: &mut Sizing, clock_ms: &mut u64, spent: &mut u64, rate: u64, trips: usize) -> Vec<u32> {
        (0..trips)
            .map(|_| {
                let len = u64::from(sizing.len());
                *clock_ms += len * 1_000 / rate;
                *spent += len;
                sizing.next_len(*clock_ms, *spent)
            })
            .collect()
    }

    #[test]
    fn doubles_to_the_rate_and_halves_again_within_bounds() {
        let mut sizing = lasting(100, 100_000, 10_000);
        let (mut clock_ms, mut spent) = (0, 0);
        assert_eq!(sizing.next_len(0, 0), 100);
        // 1000 a second for 10 s: at least 10 000.
        let grown = at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000, 12);
        assert_eq!(grown, [200, 400, 800, 1600, 3200, 6400, 12800, 12800, 12800, 12800, 12800, 12800]);
        let fast = at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000_000, 6);
        assert_eq!(fast, [25600, 51200, 100_000, 100_000, 100_000, 100_000], "never above max");
        let slow = at_rate(&mut sizing, &mut clock_ms, &mut spent, 10, 12);
        assert_eq!(slow, [50_000, 25_000, 12_500, 6_250, 3_125, 1_562, 781, 390, 195, 195, 195, 195]);
        let idle = at_rate(&mut sizing, &mut clock_ms, &mut spent, 1, 4);
        assert_eq!(idle, [100, 100, 100, 100], "never below min");
    }

    #[test]
    fn a_slow_store_asks_for_ranges_that_outlast_its_trips() {
        let mut sizing = lasting(100, 1_000_000, 1_000);
        let (mut clock_ms, mut spent) = (0, 0);
        sizing.next_len(0, 0);
        // A fifth of a range is left for a trip of 2 s, twice over: 20 s a range, at 1000 a second.
        sizing.took(2_000);
        let grown = at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000, 12);
        assert_eq!(grown.last(), Some(&25_600));
        // The store is quick again: that is believed by and by.
        for _ in 0..20 {
            sizing.took(1);
        }
        let shrunk = at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000, 12);
        assert_eq!(shrunk.last(), Some(&1_600));
    }

    #[test]
    fn an_outage_is_no_slow_rate() {
        let mut sizing = lasting(100, 100_000, 10_000);
        let (mut clock_ms, mut spent) = (0, 0);
        sizing.next_len(0, 0);
        at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000, 8);
        assert_eq!(sizing.len(), 12_800);
        sizing.forget_rate();
        clock_ms += 3_600_000;
        assert_eq!(sizing.next_len(clock_ms, spent), 12_800);
        assert_eq!(at_rate(&mut sizing, &mut clock_ms, &mut spent, 1_000, 2), [12_800, 12_800]);
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut sizing = Sizing::new(RangeSize::Fixed(NonZeroU32::new(7).unwrap()), Some(0.2));
        sizing.took(10_000);
        assert_eq!((sizing.next_len(0, 0), sizing.next_len(1, 1_000_000), sizing.next_len(1 << 60, 0)), (7, 7, 7));
    }

    #[test]
    fn no_figure_overflows() {
        let mut sizing = lasting(1, u32::MAX, u64::MAX);
        sizing.took(u64::MAX);
        sizing.next_len(0, 0);
        for step in 1..80 {
            sizing.next_len(step, u64::MAX);
        }
        assert!(sizing.next_len(u64::MAX, u64::MAX) >= 1);
    }
}
