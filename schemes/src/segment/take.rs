//! Ranges for imports: numbers in a row, straight from a store, past those in hand.
//!
//! The request carries a key of its own, so asking again after a lost answer brings the same range. Nothing is lost by an error,
//! except where the outcome is unknown to the end.

use std::{num::NonZeroU32, time::Duration};

use mintage_core::{IdRange, IdempotencyKey, MintError, NumberRun, ReadyError, StoreError, StoreErrorKind};
use tokio::time::{sleep, timeout};

use super::{lane::Lanes, refill::retry_wait_ms};
use crate::Entropy;

/// How long an offer to take an unused range back may take, in milliseconds.
const GIVE_BACK_MS_MAX: u64 = 2_000;

/// Takes `count` numbers from the first store that has them, and asks again for up to `patience` where none answers.
pub(super) async fn take(lanes: &Lanes, count: NonZeroU32, patience: Duration) -> Result<NumberRun, ReadyError> {
    let step = lanes.iter().map(|open| open.stride().step()).max().unwrap_or(1);
    if count.get().checked_mul(step).is_none() {
        let most = u32::MAX / step;
        let error = StoreError::new(StoreErrorKind::Refused, format!("{count} numbers at once: take at most {most}"));
        return Err(ReadyError::with_source(MintError::Exhausted { retry_ms: 0 }, error));
    }
    let began = tokio::time::Instant::now();
    // One for each store: each counts for itself.
    let keys: Vec<Option<IdempotencyKey>> = lanes.iter().map(|_| fresh_key()).collect();
    let mut failures = 0;
    loop {
        let mut hopeful = None;
        let mut short = None;
        for index in lanes.in_order(0) {
            let (Some(open), Some(key)) = (lanes.at(index), keys.get(index)) else { continue };
            match lanes.fetch(index, count, key.as_ref()).await {
                Ok(range) => {
                    let stride = open.stride();
                    let first = stride.first_from(range.start);
                    let found = range.end.saturating_sub(first).div_ceil(stride.step().into());
                    if found >= count.get().into() {
                        return Ok(NumberRun::new(first, count.get().into(), stride.step().into()));
                    }
                    short = Some(too_few(&range, found, count));
                    // The end of a sequence: what is left of it can still be minted one by one.
                    lanes.put_back(index, range, Duration::from_millis(GIVE_BACK_MS_MAX)).await;
                }
                Err(error) if error.kind() == StoreErrorKind::Spent => short = Some(error),
                Err(error) => hopeful = Some(error),
            }
        }
        let Some(error) = hopeful else {
            let short = short
                .unwrap_or_else(|| StoreError::new(StoreErrorKind::Spent, "no number is left: plan a new sequence"));
            return Err(ReadyError::with_source(MintError::Spent, short));
        };
        let wait_ms = retry_wait_ms(failures, &Entropy::os());
        failures += 1;
        // Without a key the first request may have brought a range, and asking again would take a second one.
        let may_repeat = error.kind() == StoreErrorKind::Unavailable && keys.iter().all(Option::is_some);
        let wait = Duration::from_millis(wait_ms.into());
        if !may_repeat || began.elapsed() + wait > patience {
            return Err(ReadyError::with_source(MintError::Exhausted { retry_ms: wait_ms }, error));
        }
        sleep(wait).await;
    }
}

fn too_few(range: &IdRange, found: u64, count: NonZeroU32) -> StoreError {
    StoreError::new(
        StoreErrorKind::Spent,
        format!(
            "sequence {} has {found} numbers left and {count} were asked for: ask for fewer, or plan a new one",
            range.sequence
        ),
    )
}

/// `None` where the system gives no chance.
fn fresh_key() -> Option<IdempotencyKey> {
    let entropy = Entropy::os();
    let (high, low) = (entropy.draw_u64().ok()?, entropy.draw_u64().ok()?);
    IdempotencyKey::new(format!("take-{high:016x}{low:016x}")).ok()
}

impl Lanes {
    /// Gives a whole range back. If that fails, it is a gap.
    async fn put_back(&self, index: usize, range: IdRange, patience: Duration) {
        let Some(open) = self.at(index) else { return };
        if timeout(patience, open.store().give_back(range.clone()))
            .await
            .is_ok_and(|taken| taken.is_ok_and(|taken| taken))
        {
            open.was_given_back(&range);
        }
    }
}
