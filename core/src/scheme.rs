//! The one trait that every way of making ids implements.

use std::{borrow::Cow, fmt, num::NonZeroU32, sync::Arc};

use async_trait::async_trait;

use crate::{Anatomy, AnyId, Bits, IdBits, MintError, NumberRun, ParseError, ReadyError, SupplyHealth};

/// A way of making ids.
///
/// The mint half is sync, never waits, never allocates and does no I/O; the ready half is async. Call `mint`; when it
/// says `Exhausted` or `LeaseLapsed`, await `ready` and call again, in a loop, because others may drain what `ready` saw.
#[async_trait]
pub trait IdScheme: fmt::Debug + Send + Sync + 'static {
    /// The width of the ids: `u64`, `u128` or `[u8; 20]`.
    type Bits: IdBits;

    /// Name, width and the order it promises.
    fn info(&self) -> &SchemeInfo;

    /// Makes one id.
    ///
    /// # Errors
    /// [`MintError`] says why not and what to do. A refused mint leaves the state as it was.
    fn mint(&self) -> Result<Self::Bits, MintError>;

    /// Fills a prefix of `out` and says how long it is; `Ok(0)` only for an empty `out`.
    ///
    /// # Errors
    /// As [`mint`](Self::mint), when not even one id could be made.
    fn mint_batch(&self, out: &mut [Self::Bits]) -> Result<usize, MintError> {
        for (made, slot) in out.iter_mut().enumerate() {
            match self.mint() {
                Ok(bits) => *slot = bits,
                Err(error) if made == 0 => return Err(error),
                Err(_) => return Ok(made),
            }
        }
        Ok(out.len())
    }

    /// Waits until `mint` has a good chance, or says why it will not.
    ///
    /// # Errors
    /// [`ReadyError`] carries the store's last error.
    async fn ready(&self) -> Result<(), ReadyError> {
        Ok(())
    }

    /// Writes the one canonical text of `bits`.
    ///
    /// # Errors
    /// Only those of `out`.
    fn format(&self, bits: Self::Bits, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Reads the one canonical text of an id (letter case aside where the scheme's text ignores it).
    ///
    /// # Errors
    /// [`ParseError`] names the first fault.
    fn parse(&self, text: &str) -> Result<Self::Bits, ParseError>;

    /// What `bits` tells whoever holds it.
    fn anatomy(&self, bits: Self::Bits) -> Anatomy;

    /// The smallest and the largest id of the Unix milliseconds `from_ms..=to_ms`, for WHERE clauses.
    ///
    /// `None` where ids carry no time, where `from_ms > to_ms`, or where no part of the span can be stamped.
    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(Self::Bits, Self::Bits)> {
        let _ = (from_ms, to_ms);
        None
    }

    /// Unix milliseconds of the last instant it can stamp; `None` where it never ends or carries no time.
    fn runs_out(&self) -> Option<i64> {
        None
    }

    /// Takes `count` numbers in a row from the store, past what is in hand: for an import that brings its own rows.
    ///
    /// # Errors
    /// `NoRanges` where the scheme has none; `Spent` where fewer are left, which then stay; else [`ReadyError`] carries the
    /// store's error.
    async fn take_range(&self, count: NonZeroU32) -> Result<NumberRun, ReadyError> {
        let _ = count;
        Err(MintError::NoRanges.into())
    }

    /// How its ranges and the stores of them stand; `None` where it has none.
    fn supply(&self) -> Option<SupplyHealth> {
        None
    }

    /// How its time stands against the clock; `None` where it keeps none.
    fn pace(&self) -> Option<Pace> {
        None
    }

    /// Gives back what is unused; afterwards `mint` says `Closed`. Safe to call twice.
    ///
    /// # Errors
    /// [`ReadyError`] when the store could not be told: that costs a gap, never a repeat.
    async fn close(&self) -> Result<(), ReadyError> {
        Ok(())
    }
}

/// How the time in the ids of one minter stands against its clock. A moment's view, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pace {
    /// How far the last id is ahead of the clock, in milliseconds. 0 where it is not, and before the first.
    pub ahead_ms: u64,
    /// How far ids may be ahead, in milliseconds.
    pub ahead_ms_max: u64,
    /// Whether a mint would be refused just now because there is no room in the time unit.
    pub is_full: bool,
    /// How much time was begun ahead of the clock so far, in milliseconds: units that were full, and steps of the clock.
    pub borrowed_ms: u64,
    /// How many ids a second there is room for, at least.
    pub ids_per_s: u64,
}

impl Pace {
    /// Nothing minted yet: room for `ids_per_s`, at most `ahead_ms_max` ahead of the clock.
    pub fn new(ids_per_s: u64, ahead_ms_max: u64) -> Self {
        Self { ahead_ms: 0, ahead_ms_max, is_full: false, borrowed_ms: 0, ids_per_s }
    }

    /// Two minters that stand in for each other, as one.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self {
            ahead_ms: self.ahead_ms.max(other.ahead_ms),
            ahead_ms_max: self.ahead_ms_max.max(other.ahead_ms_max),
            is_full: self.is_full && other.is_full,
            borrowed_ms: self.borrowed_ms.saturating_add(other.borrowed_ms),
            ids_per_s: self.ids_per_s.saturating_add(other.ids_per_s),
        }
    }
}

/// What is true of every id of a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemeInfo {
    /// Its name in the config, such as `snowflake`.
    pub name: Cow<'static, str>,
    /// The width it is kept in.
    pub kind: Bits,
    /// How many bits carry something.
    pub bits: u32,
    /// The order it promises.
    pub order: Order,
}

/// The order a scheme promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// None: chance.
    Chance,
    /// By the time unit; within one unit, chance.
    Time,
    /// Strictly ascending for each thread of one minter; among threads by the time unit.
    Thread,
    /// Strictly ascending from one minter.
    Minter,
}

impl SchemeInfo {
    /// A scheme without order.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: Bits, bits: u32) -> Self {
        Self { name: name.into(), kind, bits, order: Order::Chance }
    }

    /// With the order it promises.
    #[must_use]
    pub fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }
}

/// A scheme whose width is known at run time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyScheme {
    /// 64 bits.
    Int(Arc<dyn IdScheme<Bits = u64>>),
    /// 128 bits.
    Wide(Arc<dyn IdScheme<Bits = u128>>),
    /// 160 bits.
    Long(Arc<dyn IdScheme<Bits = [u8; 20]>>),
}

/// Calls the same method whatever the width.
macro_rules! each {
    ($self:expr, $scheme:ident => $call:expr) => {
        match $self {
            AnyScheme::Int($scheme) => $call,
            AnyScheme::Wide($scheme) => $call,
            AnyScheme::Long($scheme) => $call,
        }
    };
}

impl AnyScheme {
    /// Name, width and order.
    pub fn info(&self) -> &SchemeInfo {
        each!(self, scheme => scheme.info())
    }

    /// [`IdScheme::mint`].
    ///
    /// # Errors
    /// As there.
    pub fn mint(&self) -> Result<AnyId, MintError> {
        each!(self, scheme => scheme.mint().map(IdBits::to_any))
    }

    /// [`IdScheme::ready`].
    ///
    /// # Errors
    /// As there.
    pub async fn ready(&self) -> Result<(), ReadyError> {
        each!(self, scheme => scheme.ready().await)
    }

    /// The canonical text; `None` if `id` has another width.
    pub fn format(&self, id: AnyId) -> Option<String> {
        let mut text = String::new();
        // Writing into a String cannot fail.
        each!(self, scheme => scheme.format(IdBits::from_any(id)?, &mut text).ok().map(|()| text))
    }

    /// [`IdScheme::parse`].
    ///
    /// # Errors
    /// As there.
    pub fn parse(&self, text: &str) -> Result<AnyId, ParseError> {
        each!(self, scheme => scheme.parse(text).map(IdBits::to_any))
    }

    /// [`IdScheme::anatomy`]; `None` if `id` has another width.
    pub fn anatomy(&self, id: AnyId) -> Option<Anatomy> {
        each!(self, scheme => Some(scheme.anatomy(IdBits::from_any(id)?)))
    }

    /// [`IdScheme::range_at`].
    pub fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(AnyId, AnyId)> {
        each!(self, scheme => scheme.range_at(from_ms, to_ms).map(|(first, last)| (first.to_any(), last.to_any())))
    }

    /// [`IdScheme::runs_out`].
    pub fn runs_out(&self) -> Option<i64> {
        each!(self, scheme => scheme.runs_out())
    }

    /// [`IdScheme::take_range`].
    ///
    /// # Errors
    /// As there.
    pub async fn take_range(&self, count: NonZeroU32) -> Result<NumberRun, ReadyError> {
        each!(self, scheme => scheme.take_range(count).await)
    }

    /// [`IdScheme::supply`].
    pub fn supply(&self) -> Option<SupplyHealth> {
        each!(self, scheme => scheme.supply())
    }

    /// [`IdScheme::pace`].
    pub fn pace(&self) -> Option<Pace> {
        each!(self, scheme => scheme.pace())
    }

    /// [`IdScheme::close`].
    ///
    /// # Errors
    /// As there.
    pub async fn close(&self) -> Result<(), ReadyError> {
        each!(self, scheme => scheme.close().await)
    }
}
