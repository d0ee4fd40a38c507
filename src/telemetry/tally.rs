//! Counts what is minted: one addition to an integer for each call, told only when somebody asks.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, AnyScheme, Clock, IdBits, IdScheme, MintError, NumberRun, Pace, ParseError, ReadyError, SchemeInfo,
    SupplyHealth,
};

use crate::public::PublicIdError;

/// Why a mint was refused, as a label.
const REASONS: [&str; 7] =
    ["exhausted", "lease_lapsed", "clock_backwards", "clock_before_epoch", "spent", "closed", "other"];

/// Shortest time over which a rate is measured, in milliseconds: several who ask at once get one answer.
const RATE_MS_MIN: u64 = 1_000;

/// What an entity has minted so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    minted: AtomicU64,
    /// Taken from the store at once for imports: minted too, but not out of what is in hand.
    imported: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
    /// How often somebody waited for room in a time unit.
    waits: AtomicU64,
    malformed: AtomicU64,
    rejected: AtomicU64,
    duplicates: AtomicU64,
    rate: Mutex<Rate>,
}

/// How many ids a second, between two looks.
#[derive(Debug, Default)]
struct Rate {
    /// When it was looked at last, and how many there were.
    seen: Option<(u64, u64)>,
    ids_per_s: Option<f64>,
}

/// A scheme that counts.
#[derive(Debug)]
struct Counted<B: IdBits> {
    inner: Arc<dyn IdScheme<Bits = B>>,
    tally: Arc<Tally>,
    entity: String,
    clock: Arc<dyn Clock>,
}

/// The scheme, counted.
pub(crate) fn counted(entity: &str, scheme: AnyScheme, clock: &Arc<dyn Clock>) -> (AnyScheme, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let scheme = match scheme {
        AnyScheme::Int(inner) => AnyScheme::Int(Counted::around(entity, inner, &tally, clock)),
        AnyScheme::Wide(inner) => AnyScheme::Wide(Counted::around(entity, inner, &tally, clock)),
        AnyScheme::Long(inner) => AnyScheme::Long(Counted::around(entity, inner, &tally, clock)),
        other => other,
    };
    (scheme, tally)
}

impl<B: IdBits> Counted<B> {
    fn around(
        entity: &str,
        inner: Arc<dyn IdScheme<Bits = B>>,
        tally: &Arc<Tally>,
        clock: &Arc<dyn Clock>,
    ) -> Arc<dyn IdScheme<Bits = B>> {
        Arc::new(Self { inner, tally: Arc::clone(tally), entity: entity.to_owned(), clock: Arc::clone(clock) })
    }
}

type Labels = [(&'static str, String); 2];

fn labels(entity: &str, info: &SchemeInfo) -> Labels {
    [("entity", entity.to_owned()), ("scheme", info.name.to_string())]
}

/// As metrics are: seconds, a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "decades in milliseconds are below 2^53")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

fn seconds_of(ms: u64) -> f64 {
    seconds(i64::try_from(ms).unwrap_or(i64::MAX))
}

impl Tally {
    /// Tells the counts, and how the scheme stands: its time, its ranges. `publishes` says whether it has public ids.
    pub(crate) fn tell(&self, entity: &str, scheme: &AnyScheme, publishes: bool, clock: &dyn Clock) {
        let labels = labels(entity, scheme.info());
        let imported = self.imported.load(Ordering::Relaxed);
        let minted = self.minted.load(Ordering::Relaxed);
        metrics::counter!("mintage_ids_minted_total", &labels).absolute(minted.saturating_add(imported));
        for (count, reason) in self.refused.iter().zip(REASONS) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                count_by_reason("mintage_mint_errors_total", &labels, reason, count);
            }
        }
        metrics::counter!("mintage_duplicate_keys_total", &labels).absolute(self.duplicates.load(Ordering::Relaxed));
        if publishes {
            for (count, reason) in [(&self.malformed, "malformed"), (&self.rejected, "rejected")] {
                let count = count.load(Ordering::Relaxed);
                count_by_reason("mintage_public_decode_failures_total", &labels, reason, count);
            }
        }
        let ids_per_s = self.rate(clock.boot_ms(), minted);
        tell_time_field(&labels, scheme, clock.unix_ms());
        if let Some(pace) = scheme.pace() {
            self.tell_pace(&labels, pace, ids_per_s);
        }
        if let Some(supply) = scheme.supply() {
            tell_supply(&labels, &supply, ids_per_s);
        }
    }

    fn tell_pace(&self, labels: &Labels, pace: Pace, ids_per_s: Option<f64>) {
        metrics::counter!("mintage_sequence_waits_total", labels).absolute(self.waits.load(Ordering::Relaxed));
        metrics::counter!("mintage_borrowed_milliseconds_total", labels).absolute(pace.borrowed_ms);
        metrics::gauge!("mintage_clock_drift_seconds", labels).set(seconds_of(pace.ahead_ms));
        metrics::gauge!("mintage_clock_drift_limit_seconds", labels).set(seconds_of(pace.ahead_ms_max));
        if let (Some(ids_per_s), 1..) = (ids_per_s, pace.ids_per_s) {
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            metrics::gauge!("mintage_sequence_saturation_ratio", labels).set(ids_per_s / pace.ids_per_s as f64);
        }
    }

    /// Ids a second since the last look; `None` at the first.
    fn rate(&self, now_ms: u64, minted: u64) -> Option<f64> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let (then_ms, before) = rate.seen.unwrap_or((now_ms, minted));
        let elapsed_ms = now_ms.saturating_sub(then_ms);
        if elapsed_ms >= RATE_MS_MIN {
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let ids = minted.saturating_sub(before) as f64;
            rate.ids_per_s = Some(ids / seconds_of(elapsed_ms));
        }
        if rate.seen.is_none() || elapsed_ms >= RATE_MS_MIN {
            rate.seen = Some((now_ms, minted));
        }
        rate.ids_per_s
    }

    /// Counts a public id that could not be opened.
    pub(crate) fn note_unopened(&self, error: &PublicIdError) {
        match error {
            PublicIdError::Malformed(_) => self.malformed.fetch_add(1, Ordering::Relaxed),
            PublicIdError::Rejected => self.rejected.fetch_add(1, Ordering::Relaxed),
            // The config is at fault, or we are, not the text.
            _ => 0,
        };
    }

    /// Counts an id that a unique index refused.
    #[cfg(feature = "sqlx")]
    pub(crate) fn note_duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    fn note<T>(&self, outcome: &Result<T, MintError>, count: impl FnOnce(&T) -> u64) {
        match outcome {
            Ok(made) => {
                self.minted.fetch_add(count(made), Ordering::Relaxed);
            }
            Err(error) => self.note_refusal(*error),
        }
    }

    fn note_refusal(&self, error: MintError) {
        let reason = match error {
            MintError::Exhausted { .. } => 0,
            MintError::LeaseLapsed => 1,
            MintError::ClockBackwards { .. } => 2,
            MintError::ClockBeforeEpoch => 3,
            MintError::Spent => 4,
            MintError::Closed => 5,
            _ => REASONS.len() - 1,
        };
        if let Some(count) = self.refused.get(reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn count_by_reason(name: &'static str, [entity, scheme]: &Labels, reason: &'static str, count: u64) {
    let labels = [entity.clone(), scheme.clone(), ("reason", reason.to_owned())];
    metrics::counter!(name, &labels).absolute(count);
}

/// How long the time field lasts, and how much of it has gone by.
fn tell_time_field(labels: &Labels, scheme: &AnyScheme, now_ms: u64) {
    let Some(end_ms) = scheme.runs_out() else { return };
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let left_ms = end_ms.saturating_sub(now_ms);
    metrics::gauge!("mintage_timestamp_horizon_seconds", labels).set(seconds(left_ms));
    // The time of the smallest id is that of its epoch. Where the time does not come first, nobody can say.
    let first = scheme.range_at(0, end_ms).and_then(|(first, _)| scheme.anatomy(first)?.time);
    if let Some(life_ms) = first.map(|first| end_ms.saturating_sub(first.unix_ms)).filter(|life_ms| *life_ms > 0) {
        let used = 1.0 - seconds(left_ms) / seconds(life_ms);
        metrics::gauge!("mintage_timestamp_used_ratio", labels).set(used);
    }
}

fn tell_supply(labels: &Labels, supply: &SupplyHealth, ids_per_s: Option<f64>) {
    #[expect(clippy::cast_precision_loss, reason = "ranges are below 2^53")]
    let remaining = supply.remaining as f64;
    metrics::gauge!("mintage_range_remaining", labels).set(remaining);
    metrics::gauge!("mintage_range_refill_seconds", labels).set(seconds_of(supply.trip_ms));
    if let Some(ids_per_s) = ids_per_s {
        // Infinite where nothing is minted.
        let left = if remaining == 0.0 { 0.0 } else { remaining / ids_per_s };
        metrics::gauge!("mintage_range_seconds_left", labels).set(left);
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
        if !self.inner.pace().is_some_and(|pace| pace.is_full) {
            return self.inner.ready().await;
        }
        self.tally.waits.fetch_add(1, Ordering::Relaxed);
        let began_ms = self.clock.boot_ms();
        let ready = self.inner.ready().await;
        let waited_ms = self.clock.boot_ms().saturating_sub(began_ms);
        let labels = labels(&self.entity, self.info());
        metrics::histogram!("mintage_sequence_wait_seconds", &labels).record(seconds_of(waited_ms));
        ready
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
        match &taken {
            Ok(numbers) => {
                self.tally.imported.fetch_add(numbers.count_left(), Ordering::Relaxed);
            }
            Err(error) => self.tally.note_refusal(error.kind()),
        }
        taken
    }

    fn supply(&self) -> Option<SupplyHealth> {
        self.inner.supply()
    }

    fn pace(&self) -> Option<Pace> {
        self.inner.pace()
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.inner.close().await
    }
}
