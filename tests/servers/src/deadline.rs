//! How long to wait for something real.

use std::{
    thread,
    time::{Duration, Instant},
};

/// A server on a busy machine starts in seconds, not minutes.
pub(crate) const START_S_MAX: u64 = 60;

/// Short against any start-up, long against the cost of asking.
const ASK_EVERY_MS: u64 = 20;

/// A point in real time: servers run on no other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "real servers run on real time")]
    pub(crate) fn in_seconds(seconds: u64) -> Self {
        Self(Instant::now() + Duration::from_secs(seconds))
    }

    #[expect(clippy::disallowed_methods, reason = "real servers run on real time")]
    pub(crate) fn passed(self) -> bool {
        Instant::now() >= self.0
    }

    /// Asks until the answer is yes. `false` if it never was.
    pub(crate) fn until(self, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.passed() {
                return false;
            }
            thread::sleep(Duration::from_millis(ASK_EVERY_MS));
        }
    }
}
