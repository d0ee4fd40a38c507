//! Ranges: half-open runs of numbers that a store hands out once.

use std::{fmt, iter::FusedIterator, num::NonZeroU32, sync::Arc};

use async_trait::async_trait;

use crate::StoreError;

/// One past the largest number a sequence can reach: ids are kept in signed 64-bit columns.
pub const RANGE_END: u64 = 1 << 63;

/// A counter per sequence, from which ranges are cut.
///
/// The invariant: a range once allocated is never handed out again. Gaps are allowed, repeats are not, after a crash, a
/// timeout or a retry.
#[async_trait]
pub trait RangeStore: fmt::Debug + Send + Sync + 'static {
    /// Makes the sequence if it is not there, with its first number at `sequence.start`. Changes nothing otherwise.
    ///
    /// # Errors
    /// `Unavailable`; `Refused` for a start outside `0..2^63` and for the name `*`; `RolledBack` when the store may have forgotten
    /// that it was there: [`restore`](Self::restore) makes it then, or `raise` of `*` says that nothing was forgotten.
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError>;

    /// Cuts the next `len` numbers; fewer only at the end of the sequence.
    ///
    /// With a `key`, a repeat of the same request returns the same range.
    ///
    /// # Errors
    /// `Refused` when the sequence does not exist (it is never made again by itself: it would repeat); `RolledBack` when
    /// it stands below `sequence.floor`; `Spent` at its end; `Unavailable` when the outcome is unknown, which costs at
    /// most a gap.
    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError>;

    /// Makes a sequence that the store may have forgotten, at `sequence.start`, on somebody's word that every number below may be in
    /// use and none from there on is. Changes nothing where it is there.
    ///
    /// # Errors
    /// As [`create`](Self::create), without its `RolledBack`.
    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.create(sequence).await
    }

    /// Takes an unused tail back, if nothing was allocated, raised or given back since: a compare-and-swap on the
    /// sequence's next number and version. One attempt, never retried. `false` if it came too late: a gap.
    ///
    /// # Errors
    /// `Unavailable`: the tail is lost, or taken back; never both.
    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError>;

    /// Moves the next number up to `floor`. Never lowers it. Even where it does not move, ranges of before may hold numbers below
    /// `floor`: their tails are taken back no more, and their holders hear of it by [`protocol::raises`](crate::protocol::raises). A
    /// sequence that was stopped goes on from there.
    ///
    /// Of the name `*` it says that no number of a sequence that is not there is in use or held by a process: from then on new
    /// sequences are made again. `floor` means nothing then.
    ///
    /// # Errors
    /// `Refused` above 2^63, or where the sequence does not exist; `Unavailable`.
    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError>;

    /// Declares that the store may have forgotten its last writes: no sequence gives a number, and none is made, until it was
    /// raised. `false`: this kind of store cannot.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn stop_all(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The sequences that wait to be raised, by name; first `*`, where that is one of them.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// One sequence, if it is there. Asked once a minute by whoever holds numbers of it.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        Ok(self.sequences().await?.into_iter().find(|row| row.name == name))
    }

    /// The sequences there are, by name.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError>;

    /// Who was given the range that holds `number`. Written with each range, in the change that cuts it, and shortened where a
    /// tail was taken back.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        let _ = (sequence, number);
        Ok(RangeHistory::lacking("this kind of store keeps no history of ranges"))
    }

    /// Why the store keeps no history of ranges although its kind does, and what to do; told to the operator at each start.
    fn history_trouble(&self) -> Option<String> {
        None
    }
}

/// A named counter, and what the caller knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sequence {
    /// Its name in the store.
    pub name: String,
    /// The first number, used when it is made.
    pub start: u64,
    /// No number below this may be handed to this caller: one past the largest it has been given so far. A store whose
    /// counter stands lower has gone back in time.
    pub floor: u64,
}

impl Sequence {
    /// A sequence that begins at `start`.
    pub fn new(name: impl Into<String>, start: u64) -> Self {
        Self { name: name.into(), start, floor: 0 }
    }
}

/// What a store keeps of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SequenceRow {
    /// Its name.
    pub name: String,
    /// The next number to hand out, at most 2^63.
    pub next: u64,
    /// Grows with every change, so that a late [`give_back`](RangeStore::give_back) is noticed, and tells how often it was raised:
    /// [`protocol::raises`](crate::protocol::raises).
    pub version: u64,
}

/// A half-open run of numbers, ours alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdRange {
    /// The sequence it was cut from.
    pub sequence: String,
    /// First number.
    pub start: u64,
    /// One past the last number; at most 2^63.
    pub end: u64,
    /// The sequence's version just after it was cut.
    pub version: u64,
}

impl IdRange {
    /// The run `start..end` of `sequence`, cut at `version`.
    pub fn new(sequence: impl Into<String>, start: u64, end: u64, version: u64) -> Self {
        Self { sequence: sequence.into(), start, end, version }
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// One line of the range history: who got which numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeGrant {
    /// First number.
    pub start: u64,
    /// One past the last number; at most 2^63.
    pub end: u64,
    /// Who: the name that the store was opened with, [`Address::instance`](crate::plugin::Address::instance).
    pub instance: String,
    /// When, Unix ms on the store's clock.
    pub at_ms: u64,
}

impl RangeGrant {
    /// The numbers `start..end`, cut for `instance` at `at_ms`.
    pub fn new(start: u64, end: u64, instance: impl Into<String>, at_ms: u64) -> Self {
        Self { start, end, instance: instance.into(), at_ms }
    }
}

/// What a store's history knows of one number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeHistory {
    /// The ranges that hold the number, the first cut first. More than one only where somebody set the sequence back by hand.
    pub grants: Vec<RangeGrant>,
    /// Why a range may be missing here, for people to read; `None` where every range of the last 400 days is kept.
    pub lack: Option<String>,
}

impl RangeHistory {
    /// All that there is to know.
    pub fn of(grants: Vec<RangeGrant>) -> Self {
        Self { grants, lack: None }
    }

    /// Nothing, and why.
    pub fn lacking(why: impl Into<String>) -> Self {
        Self { grants: Vec::new(), lack: Some(why.into()) }
    }
}

/// Numbers that were taken together, in ascending order and at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRun {
    next: u64,
    left: u64,
    step: u64,
}

impl NumberRun {
    /// `count` numbers from `first` on, `step` apart; the last of them at most `u64::MAX`.
    pub fn new(first: u64, count: u64, step: u64) -> Self {
        Self { next: first, left: count, step }
    }

    /// The smallest of those left.
    pub fn smallest(&self) -> Option<u64> {
        (self.left > 0).then_some(self.next)
    }

    /// The largest of those left.
    pub fn largest(&self) -> Option<u64> {
        Some(self.next.saturating_add((self.left.checked_sub(1)?).saturating_mul(self.step)))
    }

    /// How many are left.
    pub fn count_left(&self) -> u64 {
        self.left
    }

    /// The distance from one to the next: 1, unless several stores share the numbers.
    pub fn step(&self) -> u64 {
        self.step
    }
}

impl Iterator for NumberRun {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        // After the last one nobody reads it.
        self.next = number.saturating_add(self.step);
        Some(number)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl FusedIterator for NumberRun {}

/// How a scheme that spends ranges stands. A moment's view.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SupplyHealth {
    /// How many numbers can be minted without a store.
    pub remaining: u64,
    /// How many numbers the next trip to a store asks for.
    pub range_len: u32,
    /// How long a trip takes, the slowest of late, in milliseconds.
    pub trip_ms: u64,
    /// The stores, in the order of the config.
    pub stores: Vec<StoreHealth>,
}

impl SupplyHealth {
    /// What is in hand, and where more comes from.
    pub fn new(remaining: u64, range_len: u32, stores: Vec<StoreHealth>) -> Self {
        Self { remaining, range_len, trip_ms: 0, stores }
    }

    /// With how long a trip takes, in milliseconds.
    #[must_use]
    pub fn with_trip_ms(mut self, trip_ms: u64) -> Self {
        self.trip_ms = trip_ms;
        self
    }

    /// Whether every store answered when it was last asked.
    pub fn is_whole(&self) -> bool {
        self.stores.iter().all(|store| store.trouble.is_none())
    }
}

/// How a store of ranges stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreHealth {
    /// Its name in the config.
    pub name: String,
    /// Why its last range did not come; `None` once one came again.
    pub trouble: Option<Arc<StoreError>>,
    /// Its sequence has come to its end.
    pub is_spent: bool,
}

impl StoreHealth {
    /// A store by name.
    pub fn new(name: impl Into<String>, trouble: Option<Arc<StoreError>>, is_spent: bool) -> Self {
        Self { name: name.into(), trouble, is_spent }
    }
}

/// Names one request, so that a retry after a lost answer gets the answer, not a second range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Longest key, in bytes: it is an index column in every store.
    pub const LEN_MAX: usize = 200;

    /// A key of 1 to 200 printable ASCII characters.
    ///
    /// # Errors
    /// `Refused` says which rule it breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, StoreError> {
        let text = text.into();
        if text.is_empty() || text.len() > Self::LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(StoreError::new(
                crate::StoreErrorKind::Refused,
                format!("an idempotency key has 1 to {} printable ASCII characters without spaces", Self::LEN_MAX),
            ));
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
