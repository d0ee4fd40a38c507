//! UUIDv7: Unix milliseconds, then 74 bits of count and chance (RFC 9562, 5.7 and 6.2).

use std::fmt;

use async_trait::async_trait;
use mintage_core::{Anatomy, Clock, IdScheme, MintError, Pace, ParseError, ReadyError, SchemeInfo, SystemClock};
use uuid::Uuid;

use crate::{
    entropy::Entropy,
    strict::{self, RandomOrder, RandomStep, Shape, StampError, Strict, builder},
    uuid_reader::{parse_version, uuid_anatomy},
    uuidv4::write_uuid,
};

/// Mints UUIDs that sort by time, and strictly so within one minter. Share one minter between threads: each thread's ids
/// ascend, and so do those of all threads together in the order in which they were made.
///
/// ```
/// use mintage_schemes::UuidV7;
///
/// let users = UuidV7::new();
/// assert!(users.mint_uuid()? < users.mint_uuid()?);
/// # Ok::<(), mintage_core::MintError>(())
/// ```
#[derive(Debug)]
pub struct UuidV7<C: Clock = SystemClock> {
    strict: Strict<V7, C>,
}

builder!(UuidV7);

impl UuidV7 {
    /// The UUIDv7 of a Unix millisecond and a tail of 74 bits: `rand_a`, then `rand_b`.
    ///
    /// # Errors
    /// [`ParseError::Time`] before 1970 or from 2^48 ms on, [`ParseError::OutOfRange`] for a wider tail: never wrapped bits.
    pub fn from_parts(unix_ms: i64, tail: u128) -> Result<Uuid, ParseError> {
        strict::from_parts::<V7>(unix_ms, tail).map(Uuid::from_u128)
    }
}

impl<C: Clock> UuidV7<C> {
    /// One id, as the `uuid` crate's type.
    ///
    /// # Errors
    /// As [`mint`](IdScheme::mint).
    #[inline]
    pub fn mint_uuid(&self) -> Result<Uuid, MintError> {
        self.strict.mint().map(Uuid::from_u128)
    }

    /// An id of a given Unix millisecond, for rows that are older than their ids. It takes no part in the order.
    ///
    /// # Errors
    /// [`ParseError::Time`] for a time that cannot be stamped; otherwise as [`mint`](IdScheme::mint).
    pub fn at(&self, unix_ms: i64) -> Result<Uuid, StampError> {
        self.strict.at(unix_ms).map(Uuid::from_u128)
    }
}

#[async_trait]
impl<C: Clock> IdScheme for UuidV7<C> {
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
        write_uuid(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u128, ParseError> {
        parse_version(text, 7).map(|uuid| uuid.as_u128())
    }

    fn anatomy(&self, bits: u128) -> Anatomy {
        uuid_anatomy(Uuid::from_u128(bits))
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u128, u128)> {
        strict::range_at::<V7>(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        Some(strict::last_ms::<V7>())
    }

    fn pace(&self) -> Option<Pace> {
        self.strict.pace()
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.strict.close();
        Ok(())
    }
}

#[derive(Debug)]
struct V7;

impl Shape for V7 {
    type Bits = u128;
    const NAME: &'static str = "uuidv7";
    const EPOCH_MS: u64 = 0;
    const UNIT_MS: u64 = 1;
    const TIME_BITS: u32 = 48;
    const TAIL_BITS: u32 = 74;
    /// More ids in a millisecond than a core can make, and 54 bits of chance below them.
    const COUNT_BITS: u32 = 20;

    #[inline]
    fn join(time: u64, tail: u128) -> u128 {
        const RAND_B: u128 = (1 << 62) - 1;
        u128::from(time) << 80 | 7 << 76 | tail >> 62 << 64 | 0b10 << 62 | tail & RAND_B
    }
}
