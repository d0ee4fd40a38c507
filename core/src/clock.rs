//! Where time comes from. The only file of this crate that reads a clock.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Two clocks: the wall, which may step, and the time since boot, which may not.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z. May step back or stand still.
    fn unix_ms(&self) -> u64;
    /// Milliseconds since some fixed point of this boot. Never steps, and counts suspend where the system can.
    /// Only the keeper reads it, and whoever measures how long a range lasts.
    fn boot_ms(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn unix_ms(&self) -> u64 {
        (**self).unix_ms()
    }
    fn boot_ms(&self) -> u64 {
        (**self).boot_ms()
    }
}

/// The machine's clocks.
///
/// `boot_ms` is `CLOCK_BOOTTIME` on Linux (it counts suspend); elsewhere `Instant`, which on macOS stops during suspend,
/// so there a sleeping laptop notices a lapsed lease at its first renewal rather than at its first mint. Uniqueness
/// does not depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn unix_ms(&self) -> u64 {
        // A clock before 1970 reads as 0: every scheme's epoch is later, so it is refused there, never wrapped.
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    #[cfg(target_os = "linux")]
    fn boot_ms(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    fn boot_ms(&self) -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        u64::try_from(START.get_or_init(std::time::Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until told otherwise. Clones share the hands.
#[derive(Clone, Debug)]
pub struct ManualClock {
    hands: Arc<Hands>,
}

#[derive(Debug)]
struct Hands {
    unix_ms: AtomicU64,
    boot_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `unix_ms`.
    pub fn at(unix_ms: u64) -> Self {
        Self { hands: Arc::new(Hands { unix_ms: AtomicU64::new(unix_ms), boot_ms: AtomicU64::new(0) }) }
    }

    /// Lets `by_ms` pass, on both clocks.
    pub fn advance(&self, by_ms: u64) {
        self.hands.unix_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.hands.boot_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Steps the wall clock to `unix_ms`; the time since boot does not notice.
    pub fn step_to(&self, unix_ms: u64) {
        self.hands.unix_ms.store(unix_ms, Ordering::SeqCst);
    }

    /// Steps the wall clock by `by_ms`, down to 1970 at the lowest.
    pub fn step(&self, by_ms: i64) {
        self.step_to(self.unix_ms().saturating_add_signed(by_ms));
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.hands.unix_ms.load(Ordering::SeqCst)
    }
    fn boot_ms(&self) -> u64 {
        self.hands.boot_ms.load(Ordering::SeqCst)
    }
}
