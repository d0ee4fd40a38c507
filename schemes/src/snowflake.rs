//! Snowflake: 64-bit ids of time, worker and sequence.
//!
//! Two invariants make them unique. Inside one minter the packed `(time ‖ sequence)` only rises, whatever the clock does: that is
//! [`Timeline`](crate::timeline). Between minters a worker id is stamped only on time units that lie wholly inside the window
//! its lease grants, and windows of one worker id never overlap: that is [`mintage_core::protocol`]. So `mint` compares the
//! unit it is about to stamp with one atomic bound, and needs no second clock read.

use std::{
    fmt,
    ops::Range,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, Bits, Clock, IdScheme, Leased, MintError, Order, Pace, ParseError, ReadyError, SchemeInfo, StoreError,
    SystemClock,
};
use tokio::sync::Notify;

use crate::{
    Entropy, Layout, Part, Parts, TextForm,
    fork::Birth,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64},
    },
    timeline::{Ahead, Ask, Overflow, Refusal, Timeline},
};

/// How long `ready` waits for the keeper to get a lease before it reports why there is none.
pub const LEASE_WAIT_MS: u64 = 10_000;

/// How long `ready` waits for a full unit to pass or a window to open: both come by themselves, a window within `max_ahead`.
const CLOCK_WAIT_MS: u64 = 10_000;

/// Ids whose time lies this close to the epoch are remarked on: real ones are older than their makers' first month only once,
/// but plain counters read as snowflakes always are.
const YOUNG_MS: u64 = 30 * 24 * 3600 * 1000;

/// Mints snowflakes inside the windows it is granted.
///
/// Without a registry, grant a window yourself, once you know that nobody else uses the worker id in that time:
///
/// ```
/// use mintage_core::{Clock, IdScheme, Leased, SystemClock};
/// use mintage_schemes::{Layout, Snowflake, SnowflakeReader, SnowflakeSettings};
///
/// let reader = SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), 1_767_225_600_000);
/// let ids = Snowflake::new(reader, SnowflakeSettings::default(), SystemClock).unwrap();
/// let now = SystemClock.unix_ms();
/// ids.grant(7, now..now + 60_000, u64::MAX);
/// assert!(ids.mint().unwrap() < ids.mint().unwrap());
/// ```
#[derive(Debug)]
pub struct Snowflake<C: Clock = SystemClock> {
    info: SchemeInfo,
    reader: SnowflakeReader,
    settings: SnowflakeSettings,
    entropy: Entropy,
    clock: C,
    birth: Birth,
    timeline: Timeline,
    /// The worker field, already shifted into place.
    worker_bits: AtomicU64,
    /// First unit that must not be stamped: the window's end, or the wall time at which the keeper says stop.
    bound: AtomicU64,
    /// Where the timeline stood when this claim began. Read only to explain a refusal, and at its end.
    began: AtomicU64,
    /// Highest wall clock seen; kept only where a step back must be told from a borrowed unit.
    seen_ms: AtomicU64,
    closed: AtomicBool,
    tenure: Mutex<Tenure>,
    granted: Notify,
}

/// The keeper's side of the state.
#[derive(Debug, Default)]
struct Tenure {
    /// Where the timeline stood when it was last stopped.
    before: u64,
    /// Why there is no lease.
    trouble: Option<Arc<StoreError>>,
}

/// What a snowflake minter does when the clock steps back or a unit is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnowflakeSettings {
    /// When the wall clock steps back.
    pub on_step: OnStep,
    /// When a time unit has no sequence number left.
    pub on_overflow: OnOverflow,
    /// How far ids may run ahead of the wall clock, in milliseconds.
    pub max_drift_ms: u64,
    /// How long `ready` waits for the clock, in milliseconds.
    pub max_wait_ms: u64,
    /// Where the sequence starts in each unit.
    pub sequence_start: SequenceStart,
}

/// What to do when the wall clock steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStep {
    /// Go on in the unit reached, up to `max_drift` ahead of the clock; beyond that refuse.
    Borrow,
    /// Refuse; `ready` waits for the clock, up to `max_wait`.
    Wait,
    /// Refuse, and let the caller decide.
    Refuse,
}

/// What to do when a unit is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOverflow {
    /// Go on in the next unit, up to `max_drift` ahead of the clock.
    Borrow,
    /// Refuse; `ready` waits for the next unit.
    Wait,
}

/// Where the sequence starts in each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequenceStart {
    /// At zero: up to `2^sequence` ids a unit, and an id's sequence tells how many came before it.
    Zero,
    /// Anywhere in the lower half: hides the rate, and leaves at least half the unit.
    Random,
}

impl Default for SnowflakeSettings {
    fn default() -> Self {
        Self {
            on_step: OnStep::Borrow,
            on_overflow: OnOverflow::Borrow,
            max_drift_ms: 10,
            max_wait_ms: 5,
            sequence_start: SequenceStart::Zero,
        }
    }
}

impl<C: Clock> Snowflake<C> {
    /// A minter without a window: `mint` says `LeaseLapsed` until [`grant`](Leased::grant).
    ///
    /// # Errors
    /// A sentence that says which setting contradicts the layout.
    pub fn new(reader: SnowflakeReader, settings: SnowflakeSettings, clock: C) -> Result<Self, String> {
        let layout = reader.layout;
        if layout.bits() > crate::layout::MINT_BITS_MAX || layout.worker_bits() == 0 {
            return Err(format!("the layout {layout} can only be read: a minted id has 63 bits and a worker field"));
        }
        let unit_ms = layout.unit().ms();
        let borrows = settings.on_step == OnStep::Borrow || settings.on_overflow == OnOverflow::Borrow;
        if borrows && settings.max_drift_ms < unit_ms {
            return Err(format!(
                "max_drift of {} ms is less than one time unit of {unit_ms} ms: nothing could be borrowed; raise it, or choose \
                 wait for on_step and on_overflow",
                settings.max_drift_ms
            ));
        }
        Ok(Self {
            info: SchemeInfo::new("snowflake", Bits::Int, layout.bits()).ordered(Order::Minter),
            timeline: Timeline::stopped(layout.sequence_bits()),
            reader,
            settings,
            entropy: Entropy::os(),
            clock,
            birth: Birth::here(),
            worker_bits: AtomicU64::new(0),
            bound: AtomicU64::new(0),
            began: AtomicU64::new(0),
            seen_ms: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            tenure: Mutex::default(),
            granted: Notify::new(),
        })
    }

    /// Draws chance from `entropy`; only `sequence_start = "random"` uses any.
    #[must_use]
    pub fn with_entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// The layout, epoch and text.
    pub fn reader(&self) -> &SnowflakeReader {
        &self.reader
    }

    #[inline]
    fn reserve(&self, n: u64) -> Result<(u64, u64, u64), MintError> {
        if self.birth.forked() {
            return Err(MintError::Forked);
        }
        let now = self.now()?;
        let drawn = match self.settings.sequence_start {
            SequenceStart::Zero => 0,
            SequenceStart::Random => self.entropy.draw_u64()? & (self.reader.layout.max(Part::Sequence) >> 1),
        };
        let taken = self.timeline.reserve(n, || drawn, || (self.ask(now), self.worker_bits.load(Ordering::Acquire)));
        match taken {
            Ok((run, worker_bits)) => Ok((run.first, run.len, worker_bits)),
            Err(refusal) => Err(self.explain(refusal)),
        }
    }

    /// The wall clock in units since the epoch.
    #[inline]
    fn now(&self) -> Result<u64, MintError> {
        let now_ms = self.clock.unix_ms();
        if self.settings.on_step != OnStep::Borrow {
            self.refuse_steps(now_ms)?;
        }
        self.reader.unit_at(now_ms).ok_or(MintError::ClockBeforeEpoch)
    }

    /// Where steps are not borrowed, any reading below the highest one so far is refused.
    fn refuse_steps(&self, now_ms: u64) -> Result<(), MintError> {
        let seen_ms = self.seen_ms.fetch_max(now_ms, Ordering::AcqRel);
        if now_ms >= seen_ms {
            return Ok(());
        }
        let limit_ms = if self.settings.on_step == OnStep::Wait { self.settings.max_wait_ms } else { 0 };
        Err(backwards(seen_ms - now_ms, limit_ms))
    }

    #[inline]
    fn ask(&self, now: u64) -> Ask {
        let layout = &self.reader.layout;
        Ask {
            now,
            end: self.bound.load(Ordering::Acquire).min(layout.max(Part::Time) + 1),
            drift: self.settings.max_drift_ms / layout.unit().ms(),
            overflow: match self.settings.on_overflow {
                OnOverflow::Borrow => Overflow::Borrow,
                OnOverflow::Wait => Overflow::Wait,
            },
            ahead: Ahead::Refuse,
        }
    }

    #[cold]
    fn explain(&self, refusal: Refusal) -> MintError {
        let unit_ms = self.reader.layout.unit().ms();
        match refusal {
            Refusal::Stopped if self.closed.load(Ordering::Acquire) => MintError::Closed,
            Refusal::Stopped => MintError::LeaseLapsed,
            Refusal::Ended if self.bound.load(Ordering::Acquire) > self.reader.layout.max(Part::Time) => {
                MintError::Spent
            }
            Refusal::Ended => MintError::LeaseLapsed,
            Refusal::Full { units } => exhausted(units * unit_ms),
            // Ahead of the clock before the first id, because the window has not begun: that is no step.
            Refusal::Behind { units } if self.timeline.stands_at(self.began.load(Ordering::Acquire)) => {
                exhausted(units.saturating_sub(self.settings.max_drift_ms / unit_ms) * unit_ms)
            }
            Refusal::Behind { units } => backwards(units * unit_ms, self.settings.max_drift_ms),
        }
    }

    fn id_of(&self, packed: u64, worker_bits: u64) -> u64 {
        let (time, sequence) = self.timeline.split(packed);
        let layout = &self.reader.layout;
        (time << layout.shift(Part::Time)) | worker_bits | (sequence << layout.shift(Part::Sequence))
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure> {
        // The critical sections below cannot panic half-way.
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time units that lie wholly inside `window`: a unit that straddles its edge would be shared with the
    /// holder before or after.
    fn units_inside(&self, window: &Range<u64>) -> Range<u64> {
        let unit_ms = self.reader.layout.unit().ms();
        let first = window.start.saturating_sub(self.reader.epoch_ms).div_ceil(unit_ms);
        let end = window.end.saturating_sub(self.reader.epoch_ms) / unit_ms;
        first..end
    }

    /// The first unit not to be stamped: the end of the window, or the unit of the wall time `stop_ms`.
    fn bound_of(&self, window_end_ms: u64, stop_ms: u64) -> u64 {
        let unit_ms = self.reader.layout.unit().ms();
        window_end_ms.min(stop_ms).saturating_sub(self.reader.epoch_ms) / unit_ms
    }
}

#[async_trait]
impl<C: Clock> IdScheme for Snowflake<C> {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    #[inline]
    fn mint(&self) -> Result<u64, MintError> {
        self.reserve(1).map(|(first, _, worker_bits)| self.id_of(first, worker_bits))
    }

    fn mint_batch(&self, out: &mut [u64]) -> Result<usize, MintError> {
        if out.is_empty() {
            return Ok(0);
        }
        let (first, len, worker_bits) = self.reserve(out.len() as u64)?;
        let mut filled = 0;
        for (slot, packed) in out.iter_mut().zip(first..first + len) {
            *slot = self.id_of(packed, worker_bits);
            filled += 1;
        }
        Ok(filled)
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        let mut waited_ms = 0;
        loop {
            // Before the look, so that a grant in between is not missed.
            let granted = self.granted.notified();
            let Some(refusal) = self.refusal() else { return Ok(()) };
            let (wait_ms, patience_ms) = match refusal {
                MintError::LeaseLapsed => {
                    let patience = Duration::from_millis(LEASE_WAIT_MS);
                    if tokio::time::timeout(patience, granted).await.is_err() {
                        return Err(self.without_lease());
                    }
                    continue;
                }
                MintError::ClockBackwards { by_ms, limit_ms } => match self.settings.on_step {
                    OnStep::Borrow => (u64::from(by_ms).saturating_sub(limit_ms.into()), self.settings.max_wait_ms),
                    OnStep::Wait => (u64::from(by_ms), self.settings.max_wait_ms),
                    OnStep::Refuse => return Err(refusal.into()),
                },
                MintError::Exhausted { retry_ms } => (u64::from(retry_ms), CLOCK_WAIT_MS),
                other => return Err(other.into()),
            };
            if waited_ms + wait_ms > patience_ms {
                return Err(refusal.into());
            }
            let pause_ms = wait_ms.max(1);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            waited_ms += pause_ms;
        }
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.reader.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.reader.parse(text)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        self.reader.anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u64, u64)> {
        self.reader.range_at(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        self.reader.runs_out()
    }

    /// Room is counted with the sequence from zero; `sequence_start = "random"` leaves half of it at least.
    fn pace(&self) -> Option<Pace> {
        let layout = &self.reader.layout;
        let unit_ms = layout.unit().ms();
        let ids_per_s = (layout.max(Part::Sequence) + 1).saturating_mul(1000) / unit_ms;
        let mut pace = Pace::new(ids_per_s, self.settings.max_drift_ms);
        pace.borrowed_ms = self.timeline.borrowed().saturating_mul(unit_ms);
        let Some(now) = self.reader.unit_at(self.clock.unix_ms()) else { return Some(pace) };
        pace.is_full = matches!(self.timeline.probe(&self.ask(now)), Err(Refusal::Full { .. }));
        if !self.timeline.stands_at(self.began.load(Ordering::Acquire)) {
            let ahead = self.timeline.last_unit().map_or(0, |last| last.saturating_sub(now));
            pace.ahead_ms = ahead.saturating_mul(unit_ms);
        }
        Some(pace)
    }

    async fn close(&self) -> Result<(), ReadyError> {
        if !self.birth.forked() {
            self.shut();
        }
        Ok(())
    }
}

impl<C: Clock> Leased for Snowflake<C> {
    fn workers(&self) -> u64 {
        self.reader.layout.max(Part::Worker) + 1
    }

    fn grant(&self, worker: u32, window: Range<u64>, stop_ms: u64) {
        let mut tenure = self.tenure();
        if self.closed.load(Ordering::Acquire) || u64::from(worker) >= self.workers() {
            return;
        }
        if let Some(before) = self.timeline.stop() {
            tenure.before = before;
        }
        let units = self.units_inside(&window);
        self.worker_bits.store(u64::from(worker) << self.reader.layout.shift(Part::Worker), Ordering::Release);
        self.bound.store(self.bound_of(window.end, stop_ms), Ordering::Release);
        self.began.store(self.timeline.restart(tenure.before, units.start), Ordering::Release);
        tenure.trouble = None;
        self.granted.notify_waiters();
    }

    fn extend(&self, end_ms: u64, stop_ms: u64) {
        let tenure = self.tenure();
        self.bound.store(self.bound_of(end_ms, stop_ms), Ordering::Release);
        self.granted.notify_waiters();
        drop(tenure);
    }

    fn trouble(&self, error: Arc<StoreError>) {
        self.tenure().trouble = Some(error);
    }

    fn halt(&self) -> Option<u64> {
        let mut tenure = self.tenure();
        self.bound.store(0, Ordering::Release);
        if let Some(before) = self.timeline.stop() {
            tenure.before = before;
        }
        let before = tenure.before;
        let (unit, sequence) = self.timeline.split(before);
        let first_unused = if sequence == 0 { unit } else { unit + 1 };
        (before > self.began.load(Ordering::Acquire))
            .then(|| self.reader.epoch_ms + first_unused * self.reader.layout.unit().ms())
    }

    fn shut(&self) {
        self.closed.store(true, Ordering::Release);
        self.halt();
        self.granted.notify_waiters();
    }

    fn refusal(&self) -> Option<MintError> {
        if self.birth.forked() {
            return Some(MintError::Forked);
        }
        match self.now() {
            Ok(now) => self.timeline.probe(&self.ask(now)).err().map(|refusal| self.explain(refusal)),
            Err(refusal) => Some(refusal),
        }
    }
}

impl<C: Clock> Snowflake<C> {
    fn without_lease(&self) -> ReadyError {
        match &self.tenure().trouble {
            Some(error) => ReadyError::with_source(MintError::LeaseLapsed, Arc::clone(error)),
            None => MintError::LeaseLapsed.into(),
        }
    }
}

/// Reads snowflakes of one layout and epoch, 64 bits wide at most. Mints nothing.
#[derive(Clone, Debug)]
pub struct SnowflakeReader {
    info: SchemeInfo,
    layout: Layout,
    epoch_ms: u64,
    text: TextForm,
}

impl SnowflakeReader {
    /// Ids of `layout`, counted from the Unix millisecond `epoch_ms`, written in decimal.
    pub fn new(layout: Layout, epoch_ms: u64) -> Self {
        let info = SchemeInfo::new("snowflake", Bits::Int, layout.bits());
        let info = if layout.sorts_by_time() { info.ordered(Order::Time) } else { info };
        Self { info, layout, epoch_ms, text: TextForm::Decimal }
    }

    /// Written as `text` says.
    #[must_use]
    pub fn with_text(mut self, text: TextForm) -> Self {
        self.text = text;
        self
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Unix ms of time 0.
    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// How ids are written.
    pub fn text(&self) -> TextForm {
        self.text
    }

    /// Puts an id together from a Unix millisecond, a worker id and a sequence number.
    ///
    /// # Errors
    /// [`ParseError::Time`] outside the time field, [`ParseError::OutOfRange`] for the others: never wrapped bits.
    pub fn id_at(&self, unix_ms: i64, worker: u64, sequence: u64) -> Result<u64, ParseError> {
        let time = u64::try_from(unix_ms).ok().and_then(|unix_ms| self.unit_at(unix_ms));
        let time = time.filter(|time| *time <= self.layout.max(Part::Time)).ok_or_else(|| ParseError::Time {
            unix_ms,
            from_ms: i64::try_from(self.epoch_ms).unwrap_or(i64::MAX),
            to_ms: self.last_ms(),
        })?;
        self.layout.join(Parts { time, worker, sequence }).ok_or(ParseError::OutOfRange)
    }

    #[inline]
    fn unit_at(&self, unix_ms: u64) -> Option<u64> {
        Some(unix_ms.checked_sub(self.epoch_ms)? / self.layout.unit().ms())
    }

    fn ms_of(&self, unit: u64) -> i64 {
        let ms = u128::from(self.epoch_ms) + u128::from(unit) * u128::from(self.layout.unit().ms());
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    fn last_ms(&self) -> i64 {
        self.ms_of(self.layout.max(Part::Time)).saturating_add(i64::try_from(self.layout.unit().ms()).unwrap_or(1) - 1)
    }
}

#[async_trait]
impl IdScheme for SnowflakeReader {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    /// Always `Closed`: a reader has no worker id.
    fn mint(&self) -> Result<u64, MintError> {
        Err(MintError::Closed)
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.text.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.text.parse(text, self.layout.bits())
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        let unit = self.layout.split(bits).time;
        let unit_ms = self.layout.unit().ms();
        let anatomy = self.layout.anatomy(bits).made_at(self.ms_of(unit), u32::try_from(unit_ms).unwrap_or(u32::MAX));
        if self.layout.bits() < 64 && bits >> self.layout.bits() != 0 {
            return anatomy.noting("has bits above this layout: not an id of it");
        }
        if unit.saturating_mul(unit_ms) < YOUNG_MS {
            return anatomy.noting("its time lies within 30 days of the epoch: more likely a plain number");
        }
        anatomy
    }

    /// `None` where the time does not come first, because then the ids of a time span are no range. A span that begins
    /// before the epoch or ends after the last unit is cut to what can be stamped.
    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u64, u64)> {
        let last_ms = self.last_ms();
        let epoch_ms = i64::try_from(self.epoch_ms).ok()?;
        if !self.layout.sorts_by_time() || from_ms > to_ms || to_ms < epoch_ms || from_ms > last_ms {
            return None;
        }
        let unit = |ms: i64| self.unit_at(u64::try_from(ms.clamp(epoch_ms, last_ms)).ok()?);
        let [worker, sequence] = [Part::Worker, Part::Sequence].map(|part| self.layout.max(part));
        let first = self.layout.join(Parts { time: unit(from_ms)?, worker: 0, sequence: 0 })?;
        let last = self.layout.join(Parts { time: unit(to_ms)?, worker, sequence })?;
        Some((first, last))
    }

    fn runs_out(&self) -> Option<i64> {
        Some(self.last_ms())
    }
}

fn exhausted(retry_ms: u64) -> MintError {
    MintError::Exhausted { retry_ms: u32::try_from(retry_ms.max(1)).unwrap_or(u32::MAX) }
}

fn backwards(by_ms: u64, limit_ms: u64) -> MintError {
    MintError::ClockBackwards {
        by_ms: u32::try_from(by_ms).unwrap_or(u32::MAX),
        limit_ms: u16::try_from(limit_ms).unwrap_or(u16::MAX),
    }
}
