//! Trying to reach a server that refuses, as one does that starts again.

use crate::wait::Backoff;

/// How often a server that refuses is tried: over a second or two, the time it takes to start again.
const TRIES_MAX: u32 = 12;

/// Longest pause between tries, in milliseconds.
const TRY_PAUSE_MS_MAX: u64 = 250;

/// The tries to reach a server. They end by themselves, and with the timeout of the call around them.
#[derive(Debug)]
pub(crate) struct Tries {
    failed: u32,
    backoff: Backoff,
}

impl Default for Tries {
    fn default() -> Self {
        Self { failed: 0, backoff: Backoff::up_to(TRY_PAUSE_MS_MAX) }
    }
}

impl Tries {
    /// Whether to try again after one that failed; by then a pause is over.
    pub(crate) async fn another(&mut self) -> bool {
        self.failed += 1;
        if self.failed >= TRIES_MAX {
            return false;
        }
        self.backoff.pause().await;
        true
    }
}
