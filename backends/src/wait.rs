//! Waiting for a lock that another process holds.

use std::{hash::BuildHasher, time::Duration};

/// Longest pause, in milliseconds. A holder needs a few milliseconds for its commit; longer pauses would only add delay.
const PAUSE_MAX_MS: u64 = 16;

/// Pauses that grow to [`PAUSE_MAX_MS`] and differ from process to process, so that those who wait do not wake together.
///
/// It knows no end: the caller's timeout is the end.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pauses: u32,
}

impl Backoff {
    pub(crate) async fn pause(&mut self) {
        let longest_ms = PAUSE_MAX_MS.min(1 << self.pauses.min(8));
        self.pauses = self.pauses.saturating_add(1);
        // The standard library seeds each of these from the operating system; nothing else here needs chance.
        let chance = std::hash::RandomState::new().hash_one(self.pauses);
        tokio::time::sleep(Duration::from_millis(1 + chance % longest_ms)).await;
    }
}
