//! The peers' side: clocks and layouts equal to ours.

use std::time::Duration;

use ferroid::time::{MonotonicClock, TimeSource};
use mintage_core::{Clock, SystemClock};

pub(crate) use ids::WideId;

/// Bits of time, worker and sequence: 268 million ids a millisecond, more than any machine makes, and half a year of time.
pub(crate) const WIDE_LAYOUT: [u32; 3] = [34, 1, 28];

mod ids {
    ferroid::define_snowflake_id!(
        /// `WIDE_LAYOUT`, for ferroid.
        WideId, u64,
        reserved: 1,
        timestamp: 34,
        machine_id: 1,
        sequence: 28
    );
}

/// The clock that our schemes read, for peers that let a caller choose one.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    epoch_ms: u64,
}

impl WallClock {
    pub(crate) fn since(epoch_ms: u64) -> Self {
        Self { epoch_ms }
    }
}

impl TimeSource<u64> for WallClock {
    fn current_millis(&self) -> u64 {
        SystemClock.unix_ms() - self.epoch_ms
    }
}

impl TimeSource<u128> for WallClock {
    fn current_millis(&self) -> u128 {
        (SystemClock.unix_ms() - self.epoch_ms).into()
    }
}

/// ferroid's own clock: a thread that copies the time into memory a thousand times a second.
pub(crate) fn ticker(epoch_ms: u64) -> MonotonicClock {
    MonotonicClock::with_epoch(Duration::from_millis(epoch_ms))
}

/// What ferroid's documentation does while a unit is full or another thread was first.
pub(crate) fn yields<T>(_: T) {
    std::thread::yield_now();
}
