//! Waiting for a lock that another process holds, or for a server that is not there yet.

use std::{hash::BuildHasher, time::Duration};

/// Longest pause for a lock of this machine, in milliseconds. A holder needs a few milliseconds for its commit; longer pauses
/// would only add delay.
const PAUSE_MAX_MS: u64 = 16;

/// Pauses that grow to a longest one and differ from process to process, so that those who wait do not wake together.
///
/// It knows no end: the caller's timeout is the end.
#[derive(Debug)]
pub(crate) struct Backoff {
    pauses: u32,
    pause_max_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(PAUSE_MAX_MS)
    }
}

impl Backoff {
    /// The longest pause is `pause_max_ms`.
    pub(crate) fn up_to(pause_max_ms: u64) -> Self {
        Self { pauses: 0, pause_max_ms }
    }

    pub(crate) async fn pause(&mut self) {
        let longest_ms = self.pause_max_ms.min(1 << self.pauses.min(8));
        self.pauses = self.pauses.saturating_add(1);
        // The standard library seeds each of these from the operating system; nothing else here needs chance.
        let chance = std::hash::RandomState::new().hash_one(self.pauses);
        tokio::time::sleep(Duration::from_millis(1 + chance % longest_ms)).await;
    }
}
