//! KSUID: seconds since 2014-05-13T16:53:20Z, then 128 bits of count and chance; 27 characters that sort as the bytes do.

use std::fmt;

use async_trait::async_trait;
use mintage_core::{
    Anatomy, Clock, Field, IdScheme, MintError, Pace, ParseError, ReadyError, Role, SchemeInfo, SystemClock,
};
use svix_ksuid::KsuidLike;

use crate::{
    entropy::Entropy,
    strict::{self, RandomOrder, RandomStep, Shape, StampError, Strict, builder},
    text::{base62_long, parse_base62_long, write_ascii},
};

/// Unix seconds at which KSUIDs begin: 2014-05-13T16:53:20Z. Earlier times cannot be stamped.
pub const KSUID_EPOCH_S: u64 = 1_400_000_000;

/// Mints 20-byte ids that sort by the second as bytes and as text, and strictly so within one minter.
///
/// ```
/// use mintage_schemes::Ksuid;
///
/// let uploads = Ksuid::new();
/// assert!(uploads.mint_ksuid()? < uploads.mint_ksuid()?);
/// # Ok::<(), mintage_core::MintError>(())
/// ```
#[derive(Debug)]
pub struct Ksuid<C: Clock = SystemClock> {
    strict: Strict<Shape160, C>,
}

builder!(Ksuid);

impl Ksuid {
    /// The KSUID of a Unix millisecond, cut to its second, and a payload.
    ///
    /// # Errors
    /// [`ParseError::Time`] before 2014-05-13T16:53:20Z or after 2150-06-19T23:21:35Z: never wrapped bits.
    pub fn from_parts(unix_ms: i64, payload: [u8; 16]) -> Result<svix_ksuid::Ksuid, ParseError> {
        strict::from_parts::<Shape160>(unix_ms, u128::from_be_bytes(payload)).map(svix_ksuid::Ksuid::from_bytes)
    }
}

impl<C: Clock> Ksuid<C> {
    /// One id, as the `svix-ksuid` crate's type.
    ///
    /// # Errors
    /// As [`mint`](IdScheme::mint).
    #[inline]
    pub fn mint_ksuid(&self) -> Result<svix_ksuid::Ksuid, MintError> {
        self.strict.mint().map(svix_ksuid::Ksuid::from_bytes)
    }

    /// An id of a given Unix millisecond, for rows that are older than their ids. It takes no part in the order.
    ///
    /// # Errors
    /// [`ParseError::Time`] for a time that cannot be stamped; otherwise as [`mint`](IdScheme::mint).
    pub fn at(&self, unix_ms: i64) -> Result<svix_ksuid::Ksuid, StampError> {
        self.strict.at(unix_ms).map(svix_ksuid::Ksuid::from_bytes)
    }
}

#[async_trait]
impl<C: Clock> IdScheme for Ksuid<C> {
    type Bits = [u8; 20];

    fn info(&self) -> &SchemeInfo {
        self.strict.info()
    }

    #[inline]
    fn mint(&self) -> Result<[u8; 20], MintError> {
        self.strict.mint()
    }

    fn mint_batch(&self, out: &mut [[u8; 20]]) -> Result<usize, MintError> {
        self.strict.mint_batch(out)
    }

    /// Sleeps on the tokio runtime when the second is full.
    async fn ready(&self) -> Result<(), ReadyError> {
        self.strict.ready().await
    }

    fn format(&self, bits: [u8; 20], out: &mut dyn fmt::Write) -> fmt::Result {
        write_ksuid(bits, out)
    }

    fn parse(&self, text: &str) -> Result<[u8; 20], ParseError> {
        parse_base62_long(text)
    }

    fn anatomy(&self, bits: [u8; 20]) -> Anatomy {
        ksuid_anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<([u8; 20], [u8; 20])> {
        strict::range_at::<Shape160>(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        Some(strict::last_ms::<Shape160>())
    }

    fn pace(&self) -> Option<Pace> {
        self.strict.pace()
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.strict.close();
        Ok(())
    }
}

/// Reads a KSUID: exactly 27 characters of `0-9A-Za-z`, at most `aWgEPTl1tmebfsQzFP4bxwgy80V`. Letter case matters.
///
/// # Errors
/// [`ParseError`] names the fault; `OutOfRange` above the largest.
pub fn parse_ksuid(text: &str) -> Result<svix_ksuid::Ksuid, ParseError> {
    parse_base62_long(text).map(svix_ksuid::Ksuid::from_bytes)
}

/// Writes the 27 characters of a KSUID, without allocating.
///
/// # Errors
/// Only those of `out`.
pub fn write_ksuid(bytes: [u8; 20], out: &mut dyn fmt::Write) -> fmt::Result {
    write_ascii(&base62_long(&bytes), out)
}

/// What the 20 bytes of a KSUID tell: the second it was made in.
pub fn ksuid_anatomy(bytes: [u8; 20]) -> Anatomy {
    let number = |bytes: &[u8]| bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let (time, payload) = bytes.split_at(4);
    let (time, payload) = (number(time), number(payload));
    let anatomy = Anatomy::of(vec![
        Field::new("time", Role::Time, Shape160::TIME_BITS, time),
        Field::new("payload", Role::Random, Shape160::TAIL_BITS, payload),
    ]);
    // 32 bits of seconds: far below 2^63 ms.
    let unix_ms = (time as u64 + KSUID_EPOCH_S) * Shape160::UNIT_MS;
    let anatomy = anatomy.made_at(unix_ms as i64, Shape160::UNIT_MS as u32);
    match (time, payload) {
        (0, 0) => anatomy.noting("nil KSUID"),
        (0xffff_ffff, u128::MAX) => anatomy.noting("max KSUID"),
        _ => anatomy,
    }
}

#[derive(Debug)]
struct Shape160;

impl Shape for Shape160 {
    type Bits = [u8; 20];
    const NAME: &'static str = "ksuid";
    const EPOCH_MS: u64 = KSUID_EPOCH_S * 1000;
    const UNIT_MS: u64 = 1000;
    const TIME_BITS: u32 = 32;
    const TAIL_BITS: u32 = 128;
    /// With the 32 bits of the time, all that the timeline holds: at least 2^30 ids a second, and 97 bits of chance below.
    const COUNT_BITS: u32 = 31;

    #[inline]
    fn join(time: u64, tail: u128) -> [u8; 20] {
        let mut bytes = [0; 20];
        let [.., a, b, c, d] = time.to_be_bytes();
        bytes[..4].copy_from_slice(&[a, b, c, d]);
        bytes[4..].copy_from_slice(&tail.to_be_bytes());
        bytes
    }
}
