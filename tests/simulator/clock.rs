//! The clocks of a simulation. All of them follow the paused time of the runtime, each with an error of its own.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use mintage_core::Clock;
use tokio::time::Instant;

/// 2027-01-15T08:00:00Z in Unix ms, when every simulation begins: a whole second.
pub(crate) const BEGIN_MS: u64 = 1_800_000_000_000;

/// A machine's clock: true time and an error that can be changed while it runs. Clones share the error.
#[derive(Clone, Debug)]
pub(crate) struct SkewedClock {
    began: Instant,
    hands: Arc<Hands>,
}

#[derive(Debug, Default)]
struct Hands {
    error_ms: AtomicI64,
    /// What a thread has read that was stopped before it used it; 0 for nothing.
    stale_ms: AtomicU64,
}

impl SkewedClock {
    /// A clock that is right. `began` is the instant at which the simulation began.
    pub(crate) fn right(began: Instant) -> Self {
        Self { began, hands: Arc::default() }
    }

    pub(crate) fn right_ms(&self) -> u64 {
        BEGIN_MS + self.elapsed_ms()
    }

    pub(crate) fn error_ms(&self) -> i64 {
        self.hands.error_ms.load(Ordering::SeqCst)
    }

    pub(crate) fn set_error_ms(&self, error_ms: i64) {
        self.hands.error_ms.store(error_ms, Ordering::SeqCst);
    }

    /// What `act` does with a reading taken long ago.
    pub(crate) fn reading_stale<T>(&self, stale_ms: u64, act: impl FnOnce() -> T) -> T {
        self.hands.stale_ms.store(stale_ms, Ordering::SeqCst);
        let done = act();
        self.hands.stale_ms.store(0, Ordering::SeqCst);
        done
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }
}

impl Clock for SkewedClock {
    fn unix_ms(&self) -> u64 {
        match self.hands.stale_ms.load(Ordering::SeqCst) {
            0 => self.right_ms().saturating_add_signed(self.error_ms()),
            stale_ms => stale_ms,
        }
    }

    fn boot_ms(&self) -> u64 {
        self.elapsed_ms()
    }
}
