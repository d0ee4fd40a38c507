//! How long the keeper waits: from one renewal to the next, and between its tries while a store does not answer.
//!
//! Processes that started together, or lost their store together, must not come back to it together: each wait is drawn by
//! chance. What is drawn follows from the worker id and its epoch, which no two holders share: so they draw apart, and a
//! simulation can be repeated.

use std::hash::{DefaultHasher, Hash, Hasher};

use mintage_schemes::Entropy;

use super::KeeperPlan;

/// Bound of the first wait after a failure: some store trips.
const RETRY_MS_FIRST: u64 = 100;
/// Bound of every later wait: soon enough after an outage, and a thousand processes ask a recovering store a few hundred times a
/// second.
const RETRY_MS_MAX: u64 = 5_000;
/// So many tries are made at least from a renewal that failed at once to the time at which minting stops.
const TRIES_MIN: u64 = 4;
/// A renewal comes at most this part of `renew` early, and never late.
const EARLY_PART: u64 = 10;

/// The waits of one keeper.
#[derive(Debug)]
pub(super) struct Pauses {
    /// In a row.
    failures: u32,
    dice: Entropy,
}

impl Pauses {
    /// Those of the holder of `worker`, in a life of its pool and a tenure of that id.
    pub(super) fn of(pool: &str, worker: u32, life: u64, epoch: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (pool, worker, life, epoch).hash(&mut hasher);
        Self { failures: 0, dice: Entropy::seeded(hasher.finish()) }
    }

    /// To the next renewal, after one that was granted.
    pub(super) fn renewal_ms(&mut self, plan: &KeeperPlan) -> u64 {
        self.failures = 0;
        plan.renew_ms - self.draw(plan.renew_ms / EARLY_PART)
    }

    /// To the next try after one that failed: anything up to a bound that doubles each time.
    pub(super) fn retry_ms(&mut self, plan: &KeeperPlan) -> u64 {
        let doubled_ms = RETRY_MS_FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        1 + self.draw(doubled_ms.min(retry_ms_max(plan)) - 1)
    }

    /// From 0 to `most`.
    fn draw(&self, most: u64) -> u64 {
        // A seeded generator does not fail.
        self.dice.draw_u64().map_or(most, |drawn| drawn % (most + 1))
    }
}

/// The longest wait, 1 at least: some tries must still fit before minting stops.
fn retry_ms_max(plan: &KeeperPlan) -> u64 {
    let stops_ms = plan.terms.window_ms.min(plan.stop_ms.unwrap_or(u64::MAX));
    let left_ms = stops_ms.saturating_sub(plan.renew_ms);
    RETRY_MS_MAX.min(plan.renew_ms).min(left_ms / TRIES_MIN).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use mintage_backends::Memory;
    use mintage_core::{LeaseTerms, ManualClock, WorkerChoice, WorkerPool};

    use super::*;
    use crate::keeper::Records;

    fn plan(renew_ms: u64, window_ms: u64, stop_ms: Option<u64>) -> KeeperPlan {
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        KeeperPlan {
            store: Arc::new(Memory::new(clock.clone())),
            pool: WorkerPool::new("main", 0..1024),
            which: WorkerChoice::Any,
            terms: LeaseTerms::new(window_ms, window_ms, 0, 0),
            renew_ms,
            timeout_ms: 2_000,
            stop_ms,
            instance: "one".to_owned(),
            clock,
            records: Records {
                entities: Vec::new(),
                others: Vec::new(),
                regions: Default::default(),
                mark: None,
                settled: AtomicBool::new(true),
            },
            clocks: None,
        }
    }

    fn of(worker: u32) -> Pauses {
        Pauses::of("main", worker, 1, 1)
    }

    /// Some tries fit between the renewal that failed first and the end, however the waits fall.
    #[test]
    fn tries_grow_apart_and_still_fit_into_the_window() {
        for (renew_ms, window_ms, stop_ms, bounds) in [
            (3_000, 60_000, None, [100, 200, 400, 800, 1_600, 3_000, 3_000]),
            (3_000, 60_000, Some(8_000), [100, 200, 400, 800, 1_250, 1_250, 1_250]),
            (10_000, 600_000, None, [100, 200, 400, 800, 1_600, 3_200, 5_000]),
            (100, 1_000, None, [100; 7]),
            (20, 60, None, [10; 7]),
            (1, 3, None, [1; 7]),
            (3_000, 60_000, Some(3_001), [1; 7]),
        ] {
            let plan = plan(renew_ms, window_ms, stop_ms);
            let mut longest = [0; 7];
            for worker in 0..1_000 {
                let mut pauses = of(worker);
                let waits = bounds.map(|_| pauses.retry_ms(&plan));
                assert!(waits.iter().zip(bounds).all(|(wait, bound)| (1..=bound).contains(wait)), "{waits:?}");
                longest = std::array::from_fn(|nth| longest[nth].max(waits[nth]));
            }
            assert!(
                longest.iter().zip(bounds).all(|(wait, bound)| *wait * 10 >= bound * 9),
                "{longest:?} of {bounds:?}"
            );
            let tries: u64 = bounds.iter().take(4).sum();
            let left_ms = window_ms.min(stop_ms.unwrap_or(u64::MAX)) - renew_ms;
            assert!(tries <= left_ms.max(4), "{tries} ms of {left_ms}");
        }
    }

    #[test]
    fn a_renewal_is_never_late_and_ends_the_row_of_failures() {
        let plan = plan(3_000, 60_000, None);
        let mut pauses = of(0);
        let waits: Vec<u64> = (0..2_000).map(|_| pauses.renewal_ms(&plan)).collect();
        assert!(waits.iter().all(|wait| (2_700..=3_000).contains(wait)));
        assert!(waits.iter().any(|wait| *wait < 2_750) && waits.iter().any(|wait| *wait > 2_950));
        for _ in 0..100 {
            pauses.retry_ms(&plan);
        }
        pauses.renewal_ms(&plan);
        assert!(pauses.retry_ms(&plan) <= RETRY_MS_FIRST);
    }

    /// A thousand workers that lost their store at the same moment. In no tenth of a second do more of them come than a store
    /// can take, once they have waited a little.
    #[test]
    fn a_thousand_workers_are_no_herd() {
        let plan = plan(3_000, 60_000, None);
        let mut came = vec![0; 600];
        for worker in 0..1_000 {
            let (mut pauses, mut now_ms) = (of(worker), 0);
            while now_ms < 50_000 {
                now_ms += pauses.retry_ms(&plan);
                came[now_ms as usize / 100] += 1;
            }
        }
        let most = came[100..450].iter().max().unwrap();
        assert!(*most < 120, "{most} in a tenth of a second");
    }

    /// No two holders draw the same, and the same holder draws the same again.
    #[test]
    fn chance_follows_from_the_lease() {
        let plan = plan(3_000, 60_000, None);
        let drawn = |mut pauses: Pauses| [(); 8].map(|()| pauses.renewal_ms(&plan));
        assert_eq!(drawn(of(5)), drawn(of(5)));
        assert_ne!(drawn(of(5)), drawn(of(6)));
        assert_ne!(drawn(of(5)), drawn(Pauses::of("main", 5, 1, 2)));
    }
}
