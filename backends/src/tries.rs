//! Trying to reach a server that refuses, as one does that starts again.

use crate::wait::Backoff;

/// How often a server that refuses is tried: over half a second, and a second at most. Most start again in that time, and whoever names
/// one that is gone is told soon.
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

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn they_end_by_themselves_within_a_second() {
        let (mut tries, began, mut count) = (Tries::default(), Instant::now(), 1);
        while tries.another().await {
            count += 1;
        }
        assert_eq!(count, TRIES_MAX);
        let took = began.elapsed();
        assert!((Duration::from_millis(50)..Duration::from_millis(1_100)).contains(&took), "{took:?}");
    }
}
