//! ULID: Unix milliseconds, then 80 bits of count and chance; 26 characters that sort as the bytes do.

use std::fmt;

use async_trait::async_trait;
use mintage_core::{
    Anatomy, Clock, Field, IdScheme, MintError, Pace, ParseError, ReadyError, Role, SchemeInfo, SystemClock,
};

use crate::{
    entropy::Entropy,
    strict::{self, RandomOrder, RandomStep, Shape, StampError, Strict, builder},
    text::{CROCKFORD_128_WIDTH, crockford, parse_crockford_128, write_ascii},
};

/// Mints ids that sort by time as bytes and as text, and strictly so within one minter.
///
/// ```
/// use mintage_schemes::Ulid;
///
/// let documents = Ulid::new();
/// assert!(documents.mint_ulid()? < documents.mint_ulid()?);
/// # Ok::<(), mintage_core::MintError>(())
/// ```
#[derive(Debug)]
pub struct Ulid<C: Clock = SystemClock> {
    strict: Strict<Shape128, C>,
}

builder!(Ulid);

impl Ulid {
    /// The ULID of a Unix millisecond and a tail of 80 bits.
    ///
    /// # Errors
    /// [`ParseError::Time`] before 1970 or from 2^48 ms on, [`ParseError::OutOfRange`] for a wider tail: never wrapped bits.
    pub fn from_parts(unix_ms: i64, tail: u128) -> Result<ulid::Ulid, ParseError> {
        strict::from_parts::<Shape128>(unix_ms, tail).map(ulid::Ulid)
    }
}

impl<C: Clock> Ulid<C> {
    /// One id, as the `ulid` crate's type.
    ///
    /// # Errors
    /// As [`mint`](IdScheme::mint).
    #[inline]
    pub fn mint_ulid(&self) -> Result<ulid::Ulid, MintError> {
        self.strict.mint().map(ulid::Ulid)
    }

    /// An id of a given Unix millisecond, for rows that are older than their ids. It takes no part in the order.
    ///
    /// # Errors
    /// [`ParseError::Time`] for a time that cannot be stamped; otherwise as [`mint`](IdScheme::mint).
    pub fn at(&self, unix_ms: i64) -> Result<ulid::Ulid, StampError> {
        self.strict.at(unix_ms).map(ulid::Ulid)
    }
}

#[async_trait]
impl<C: Clock> IdScheme for Ulid<C> {
    type Bits = u128;

    fn info(&self) -> &SchemeInfo {
        self.strict.info()
    }

    #[inline]
    fn mint(&self) -> Result<u128, MintError> {
        self.strict.mint()
    }

    fn mint_batch(&self, out: &mut [u128]) -> Result<usize, MintError> {
        self.strict.mint_batch(out)
    }

    /// Sleeps on the tokio runtime when the millisecond is full.
    async fn ready(&self) -> Result<(), ReadyError> {
        self.strict.ready().await
    }

    fn format(&self, bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
        write_ascii(&crockford::<CROCKFORD_128_WIDTH>(bits), out)
    }

    fn parse(&self, text: &str) -> Result<u128, ParseError> {
        parse_crockford_128(text)
    }

    fn anatomy(&self, bits: u128) -> Anatomy {
        ulid_anatomy(ulid::Ulid(bits))
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u128, u128)> {
        strict::range_at::<Shape128>(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        Some(strict::last_ms::<Shape128>())
    }

    fn pace(&self) -> Option<Pace> {
        self.strict.pace()
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.strict.close();
        Ok(())
    }
}

/// Reads a ULID: 26 characters of Crockford's base 32 in either case, without I, L, O and U, at most `7ZZ…Z`.
///
/// `ulid::Ulid::from_string` takes texts above that and drops their top bits.
///
/// # Errors
/// [`ParseError`] names the fault; `OutOfRange` above `7ZZ…Z`.
pub fn parse_ulid(text: &str) -> Result<ulid::Ulid, ParseError> {
    parse_crockford_128(text).map(ulid::Ulid)
}

/// What a ULID tells: its time. Times that were written in seconds by mistake are remarked on.
pub fn ulid_anatomy(ulid: ulid::Ulid) -> Anatomy {
    let ulid::Ulid(bits) = ulid;
    let unix_ms = (bits >> Shape128::TAIL_BITS) as u64;
    let anatomy = Anatomy::of(vec![
        Field::new("time", Role::Time, Shape128::TIME_BITS, u128::from(unix_ms)),
        Field::new("random", Role::Random, Shape128::TAIL_BITS, bits & ((1 << Shape128::TAIL_BITS) - 1)),
    ]);
    match bits {
        0 => return anatomy.noting("nil ULID"),
        u128::MAX => return anatomy.noting("max ULID"),
        _ => {}
    }
    // 48 bits.
    let anatomy = anatomy.made_at(unix_ms as i64, 1);
    match strict::seconds_remark(unix_ms) {
        Some(remark) => anatomy.noting(remark),
        None => anatomy,
    }
}

#[derive(Debug)]
struct Shape128;

impl Shape for Shape128 {
    type Bits = u128;
    const NAME: &'static str = "ulid";
    const EPOCH_MS: u64 = 0;
    const UNIT_MS: u64 = 1;
    const TIME_BITS: u32 = 48;
    const TAIL_BITS: u32 = 80;
    /// More ids in a millisecond than a core can make, and 60 bits of chance below them.
    const COUNT_BITS: u32 = 20;

    #[inline]
    fn join(time: u64, tail: u128) -> u128 {
        u128::from(time) << Self::TAIL_BITS | tail
    }
}
