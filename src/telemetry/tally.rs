//! Counts what is minted: one addition to an integer for each call, told only when somebody asks.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, AnyScheme, IdBits, IdScheme, MintError, NumberRun, ParseError, ReadyError, SchemeInfo, SupplyHealth,
};

/// Why a mint was refused, as a label.
const REASONS: [&str; 7] =
    ["exhausted", "lease_lapsed", "clock_backwards", "clock_before_epoch", "spent", "closed", "other"];

/// What an entity has minted so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    minted: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

/// A scheme that counts.
#[derive(Debug)]
struct Counted<B: IdBits> {
    inner: Arc<dyn IdScheme<Bits = B>>,
    tally: Arc<Tally>,
}

/// The scheme, counted.
pub(crate) fn counted(scheme: AnyScheme) -> (AnyScheme, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let for_scheme = Arc::clone(&tally);
    let scheme = match scheme {
        AnyScheme::Int(inner) => AnyScheme::Int(Arc::new(Counted { inner, tally: for_scheme })),
        AnyScheme::Wide(inner) => AnyScheme::Wide(Arc::new(Counted { inner, tally: for_scheme })),
        AnyScheme::Long(inner) => AnyScheme::Long(Arc::new(Counted { inner, tally: for_scheme })),
        other => other,
    };
    (scheme, tally)
}

impl Tally {
    /// Tells the counts, and how long the time field lasts.
    pub(crate) fn tell(&self, entity: &str, scheme: &AnyScheme, now_ms: u64) {
        let labels = [("entity", entity.to_owned()), ("scheme", scheme.info().name.to_string())];
        metrics::counter!("mintage_ids_minted_total", &labels).absolute(self.minted.load(Ordering::Relaxed));
        for (count, reason) in self.refused.iter().zip(REASONS) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let scheme = scheme.info().name.to_string();
                metrics::counter!("mintage_mint_errors_total", "entity" => entity.to_owned(), "scheme" => scheme, "reason" => reason)
                    .absolute(count);
            }
        }
        if let Some(end_ms) = scheme.runs_out() {
            let left_ms = end_ms.saturating_sub(i64::try_from(now_ms).unwrap_or(i64::MAX));
            #[expect(clippy::cast_precision_loss, reason = "decades in milliseconds are below 2^53")]
            metrics::gauge!("mintage_timestamp_horizon_seconds", &labels).set(left_ms as f64 / 1e3);
        }
    }

    fn note<T>(&self, outcome: &Result<T, MintError>, count: impl FnOnce(&T) -> u64) {
        match outcome {
            Ok(made) => self.minted.fetch_add(count(made), Ordering::Relaxed),
            Err(error) => {
                let reason = match error {
                    MintError::Exhausted { .. } => 0,
                    MintError::LeaseLapsed => 1,
                    MintError::ClockBackwards { .. } => 2,
                    MintError::ClockBeforeEpoch => 3,
                    MintError::Spent => 4,
                    MintError::Closed => 5,
                    _ => REASONS.len() - 1,
                };
                self.refused.get(reason).map_or(0, |count| count.fetch_add(1, Ordering::Relaxed))
            }
        };
    }
}

#[async_trait]
impl<B: IdBits> IdScheme for Counted<B> {
    type Bits = B;

    fn info(&self) -> &SchemeInfo {
        self.inner.info()
    }

    fn mint(&self) -> Result<B, MintError> {
        let outcome = self.inner.mint();
        self.tally.note(&outcome, |_| 1);
        outcome
    }

    fn mint_batch(&self, out: &mut [B]) -> Result<usize, MintError> {
        let outcome = self.inner.mint_batch(out);
        self.tally.note(&outcome, |made| *made as u64);
        outcome
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        self.inner.ready().await
    }

    fn format(&self, bits: B, out: &mut dyn fmt::Write) -> fmt::Result {
        self.inner.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<B, ParseError> {
        self.inner.parse(text)
    }

    fn anatomy(&self, bits: B) -> Anatomy {
        self.inner.anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(B, B)> {
        self.inner.range_at(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        self.inner.runs_out()
    }

    async fn take_range(&self, count: NonZeroU32) -> Result<NumberRun, ReadyError> {
        let taken = self.inner.take_range(count).await;
        let outcome = taken.as_ref().map(NumberRun::count_left).map_err(ReadyError::kind);
        self.tally.note(&outcome, |count| *count);
        taken
    }

    fn supply(&self) -> Option<SupplyHealth> {
        self.inner.supply()
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.inner.close().await
    }
}
