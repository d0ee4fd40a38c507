//! UUIDv4: 122 random bits, and nothing else.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use mintage_core::{Anatomy, Bits, IdScheme, MintError, ParseError, ReadyError, SchemeInfo};
use uuid::Uuid;

use crate::{
    entropy::{Draw, Entropy},
    text::write_ascii,
    uuid_reader::{parse_version, uuid_anatomy},
};

/// Mints ids that tell nothing, not even when they were made. They have no order, which costs an index dearly.
///
/// ```
/// use mintage_schemes::UuidV4;
///
/// let id = UuidV4::new().mint_uuid()?;
/// assert_eq!(id.get_version_num(), 4);
/// # Ok::<(), mintage_core::MintError>(())
/// ```
#[derive(Debug)]
pub struct UuidV4 {
    info: SchemeInfo,
    entropy: Entropy,
    closed: AtomicBool,
}

impl UuidV4 {
    /// Minter with random bits of the operating system.
    pub fn new() -> Self {
        Self {
            info: SchemeInfo::new("uuidv4", Bits::Wide, 128),
            entropy: Entropy::os(),
            closed: AtomicBool::new(false),
        }
    }

    /// Where random bits come from. Anything but [`Entropy::os`] is for tests.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// One id, as the `uuid` crate's type.
    ///
    /// # Errors
    /// `NoEntropy`, `Closed`.
    pub fn mint_uuid(&self) -> Result<Uuid, MintError> {
        self.mint().map(Uuid::from_u128)
    }

    #[inline]
    fn draw<T>(&self, ids: usize, act: impl FnOnce(&mut Draw<'_>) -> T) -> Result<T, MintError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(MintError::Closed);
        }
        self.entropy.with(2 * ids as u64, act)
    }
}

impl Default for UuidV4 {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl IdScheme for UuidV4 {
    type Bits = u128;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    #[inline]
    fn mint(&self) -> Result<u128, MintError> {
        self.draw(1, |draw| with_version(draw.two_words()))
    }

    fn mint_batch(&self, out: &mut [u128]) -> Result<usize, MintError> {
        if out.is_empty() {
            return Ok(0);
        }
        self.draw(out.len(), |draw| {
            out.iter_mut().for_each(|slot| *slot = with_version(draw.two_words()));
            out.len()
        })
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        Ok(self.draw(0, |_| ())?)
    }

    fn format(&self, bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
        write_uuid(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u128, ParseError> {
        parse_version(text, 4).map(|uuid| uuid.as_u128())
    }

    fn anatomy(&self, bits: u128) -> Anatomy {
        uuid_anatomy(Uuid::from_u128(bits))
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Writes the canonical text: lower case, hyphenated.
pub(crate) fn write_uuid(bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    Uuid::from_u128(bits).hyphenated().encode_lower(&mut text);
    write_ascii(&text, out)
}

/// Version 4, variant of RFC 9562.
#[inline]
fn with_version(random: u128) -> u128 {
    random & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62
}
