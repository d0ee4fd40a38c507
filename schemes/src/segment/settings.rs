//! How a segment asks its store for numbers: the defaults, and the values that are refused.

use std::num::NonZeroU32;

use crate::TextForm;

/// How a [`Segment`](crate::Segment) asks its store for numbers. The default suits most tables.
///
/// ```
/// use mintage_schemes::SegmentSettings;
/// use std::num::NonZeroU32;
///
/// let many = NonZeroU32::new(100_000).ok_or("not 0")?;
/// let settings = SegmentSettings::default().range_len(many).refill_at(0.5)?.initial_ranges(1)?;
/// assert!(settings.refill_at(1.5).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentSettings {
    pub(super) size: RangeSize,
    /// `None`: only when somebody waits.
    pub(super) refill_at: Option<f64>,
    pub(super) initial_ranges: u32,
    pub(super) max_wait_ms: u64,
    pub(super) text: TextForm,
    /// `None`: from the operating system.
    pub(super) seed: Option<u64>,
}

impl SegmentSettings {
    /// How many numbers one store trip brings: so many are lost by a crash, twice over.
    pub const RANGE_LEN: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);
    /// The standby range is fetched when this share of the current one is left: time enough for a store to answer,
    /// late enough that a process that mints little does not hold two ranges for nothing.
    pub const REFILL_AT: f64 = 0.2;
    /// How many ranges are fetched at the start: one to spend, one standing by.
    pub const INITIAL_RANGES: u32 = 2;
    /// Most ranges fetched at the start: all of them are lost by a crash, and each delays the start by a store trip.
    pub const INITIAL_RANGES_MAX: u32 = 8;
    /// How long `ready` waits for numbers, in milliseconds: as long as a person waits for a page.
    pub const MAX_WAIT_MS: u64 = 5_000;

    /// Asks for `len` numbers at a time. Fewer store trips, larger gaps after a crash.
    #[must_use]
    pub fn range_len(mut self, len: NonZeroU32) -> Self {
        self.size = RangeSize::Fixed(len);
        self
    }

    /// Asks for as many numbers as last `target_ms` at the present rate, and longer where the store is slow: `min` at first, then
    /// double or half as many, up to `max`.
    ///
    /// # Errors
    /// [`SegmentFault::Size`] where `min` is above `max`, or the target is 0.
    pub fn range_lasting(mut self, min: NonZeroU32, max: NonZeroU32, target_ms: u64) -> Result<Self, SegmentFault> {
        if min > max || target_ms == 0 {
            return Err(SegmentFault::Size { min: min.get(), max: max.get(), target_ms });
        }
        self.size = RangeSize::Lasting { min, max, target_ms };
        Ok(self)
    }

    /// Fetches the standby range when at most this share of the current one is left.
    ///
    /// 0 waits until nothing is left, so every range ends in a wait; 1 fetches at the first number.
    ///
    /// # Errors
    /// [`SegmentFault::RefillAt`] outside `0..=1`.
    pub fn refill_at(mut self, share: f64) -> Result<Self, SegmentFault> {
        if !(0.0..=1.0).contains(&share) {
            return Err(SegmentFault::RefillAt(share));
        }
        self.refill_at = Some(share);
        Ok(self)
    }

    /// Fetches a range only when `ready` is awaited and none is left: for a process that mints a known count and ends, so that
    /// nothing it does not need is fetched, and nothing can be lost between its runs.
    #[must_use]
    pub fn on_demand(mut self) -> Self {
        self.refill_at = None;
        self.initial_ranges = 1;
        self
    }

    /// Fetches so many ranges at the start. 1 for a process that mints a few numbers and ends.
    ///
    /// # Errors
    /// [`SegmentFault::InitialRanges`] outside `1..=8`.
    pub fn initial_ranges(mut self, count: u32) -> Result<Self, SegmentFault> {
        if !(1..=Self::INITIAL_RANGES_MAX).contains(&count) {
            return Err(SegmentFault::InitialRanges(count));
        }
        self.initial_ranges = count;
        Ok(self)
    }

    /// Lets `ready` wait so long for numbers, in milliseconds. 0 looks once and does not wait.
    #[must_use]
    pub fn max_wait_ms(mut self, max_wait_ms: u64) -> Self {
        self.max_wait_ms = max_wait_ms;
        self
    }

    /// Draws the pauses between failed fetches from `seed`: **for reproducible tests only**, because processes with one seed
    /// come back together.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes and reads ids in this form.
    #[must_use]
    pub fn text(mut self, text: TextForm) -> Self {
        self.text = text;
        self
    }
}

impl Default for SegmentSettings {
    fn default() -> Self {
        Self {
            size: RangeSize::Fixed(Self::RANGE_LEN),
            refill_at: Some(Self::REFILL_AT),
            initial_ranges: Self::INITIAL_RANGES,
            max_wait_ms: Self::MAX_WAIT_MS,
            text: TextForm::Decimal,
            seed: None,
        }
    }
}

/// How many numbers one store trip brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeSize {
    Fixed(NonZeroU32),
    Lasting { min: NonZeroU32, max: NonZeroU32, target_ms: u64 },
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentFault {
    /// The share of a range at which the next one is fetched.
    #[error("refill_at is {0}: write a share of the range from 0 to 1, such as 0.2 for a fifth")]
    RefillAt(f64),
    /// The number of ranges at the start.
    #[error(
        "initial_ranges is {0}: write 1 to {max}; 2 has one range to spend and one standing by",
        max = SegmentSettings::INITIAL_RANGES_MAX
    )]
    InitialRanges(u32),
    /// The bounds of a range, and how long it is to last.
    #[error("ranges of {min} to {max} numbers that last {target_ms} ms: write a min up to max, and a target above 0")]
    Size {
        /// Fewest numbers.
        min: u32,
        /// Most numbers.
        max: u32,
        /// How long a range is to last, in milliseconds.
        target_ms: u64,
    },
    /// Which numbers are ours.
    #[error(
        "every {step}th number from {offset} on: write a step of 1 to {max} and an offset of 1 to the step",
        max = super::Stride::STEP_MAX
    )]
    Stride {
        /// The distance from one number to the next.
        step: u32,
        /// The first number.
        offset: u32,
    },
    /// Several stores that would mint the same numbers.
    #[error("no store, or stores whose numbers meet: give each the same step and an offset of its own")]
    Lanes,
}
