//! What can go wrong, by plane: minting, waiting, reading a text, talking to a store.

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

/// Why no id was minted. Nothing changed: the next call starts from the same state.
///
/// Eight bytes and `Copy`, so that the mint path stays cheap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The wall clock stands behind ids that were made already, further than allowed.
    #[error(
        "the clock went back {by_ms} ms and at most {limit_ms} ms are allowed: wait until it has caught up, \
         or raise `clock.max_drift` if such steps are normal here"
    )]
    ClockBackwards {
        /// How far behind, in milliseconds; saturates at `u32::MAX`.
        by_ms: u32,
        /// The limit, in milliseconds; saturates at `u16::MAX`.
        limit_ms: u16,
    },
    /// The clock shows a time before the scheme's epoch.
    #[error("the clock shows a time before the epoch of this scheme: set the clock")]
    ClockBeforeEpoch,
    /// No number is left just now; more will come.
    #[error("no number left just now, more in about {retry_ms} ms: call `ready` and mint again")]
    Exhausted {
        /// A guess at when to try again, in milliseconds.
        retry_ms: u32,
    },
    /// The lease's window is over, or there is none.
    #[error("the lease on a worker id has lapsed: the keeper is asking for a new one, call `ready` to wait for it")]
    LeaseLapsed,
    /// The time field or the sequence is used up for good.
    #[error("this scheme has no number left for good: plan a new layout or a new sequence (`mintage explain`)")]
    Spent,
    /// The numbers of this entity are gapless.
    #[error("gapless numbers are assigned inside your transaction: call `next_in` with it")]
    Gapless,
    /// This process was forked from the one that built the registry.
    #[error("this process was forked: build a registry of its own after the fork")]
    Forked,
    /// `close` was called.
    #[error("the registry is closed: build a new one")]
    Closed,
    /// A range was asked of a scheme that has none.
    #[error("this scheme has no ranges: take one from an entity with `scheme = \"segment\"`, or mint ids one by one")]
    NoRanges,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: check that getrandom or /dev/urandom is allowed here")]
    NoEntropy,
}

const _: () = assert!(size_of::<MintError>() == 8);

/// Why `ready` or `close` gave up. Its source is the store's last error, where a store was involved.
#[derive(Debug)]
pub struct ReadyError {
    kind: MintError,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ReadyError {
    /// Nothing more is known than what `mint` says.
    pub fn new(kind: MintError) -> Self {
        Self { kind, source: None }
    }

    /// With the error behind it.
    pub fn with_source(kind: MintError, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// What `mint` said last.
    pub fn kind(&self) -> MintError {
        self.kind
    }

    /// The store's error, if a store is to blame.
    pub fn store_error(&self) -> Option<&StoreError> {
        let source = self.source.as_deref()?;
        source.downcast_ref().or_else(|| source.downcast_ref::<Arc<StoreError>>().map(Arc::as_ref))
    }
}

impl fmt::Display for ReadyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl Error for ReadyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<MintError> for ReadyError {
    fn from(kind: MintError) -> Self {
        Self::new(kind)
    }
}

/// Why a text is not an id. The same type at every door: library, serde, SQL, command line, HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing there.
    #[error("empty: an id was expected")]
    Empty,
    /// Too short or too long.
    #[error("{found} characters, {expected} expected")]
    Length {
        /// Characters found.
        found: usize,
        /// Characters expected.
        expected: usize,
    },
    /// A character outside the alphabet.
    #[error("character {found:?} at byte {at} is not allowed here")]
    Character {
        /// Byte offset in the text.
        at: usize,
        /// The character.
        found: char,
    },
    /// A second spelling of a number that has one already.
    #[error("leading zero: each id has exactly one text")]
    LeadingZero,
    /// Above the largest id of this kind, or outside the layout.
    #[error("out of range: larger than any id of this kind")]
    OutOfRange,
    /// The check digit is another one.
    #[error("the check digit does not fit: a digit is wrong, or two are swapped")]
    CheckDigit,
    /// A UUID without its hyphens, or with hyphens elsewhere.
    #[error("not hyphenated as 8-4-4-4-12: a UUID is 36 characters with hyphens after 8, 13, 18 and 23")]
    Hyphens,
    /// A group of a UUID has the wrong length.
    #[error("group {group} of the UUID has {found} characters, {expected} expected")]
    Group {
        /// 1 to 5.
        group: usize,
        /// Characters found.
        found: usize,
        /// Characters expected.
        expected: usize,
    },
    /// A UUID of another version.
    #[error("a version {found} UUID, version {expected} expected")]
    Version {
        /// The version found.
        found: u8,
        /// The version expected.
        expected: u8,
    },
    /// A UUID whose variant bits are not those of RFC 9562.
    #[error("not an RFC 9562 UUID: its variant bits differ")]
    Variant,
    /// The nil or max UUID where an id was expected.
    #[error("the {0} UUID is not an id")]
    Special(&'static str),
    /// The time given lies outside what the scheme can stamp.
    #[error("{unix_ms} ms since 1970 lies outside the times this scheme can stamp ({from_ms} to {to_ms})")]
    Time {
        /// The time asked for, Unix milliseconds.
        unix_ms: i64,
        /// First stampable millisecond.
        from_ms: i64,
        /// Last stampable millisecond.
        to_ms: i64,
    },
    /// The text is an id of another width than the type it was read into.
    #[error("an id of another kind: {found} bits, {expected} expected")]
    Kind {
        /// Bits found.
        found: u32,
        /// Bits expected.
        expected: u32,
    },
}

/// What a store said no with.
///
/// `Display` says what happened and what to do; the driver's own error is the source.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Cow<'static, str>,
    retry_at_ms: Option<u64>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kinds of store error: they decide what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Somebody else holds what was asked for by name.
    Conflict,
    /// The fence is stale: another holder came after. The old lease or range must not be written again.
    Fenced,
    /// Every worker id of the block is taken or resting.
    NoFreeWorker,
    /// The store did not answer, or not in time. The outcome may be unknown; asking again is safe.
    Unavailable,
    /// The store went back in time: it no longer knows what it once confirmed.
    RolledBack,
    /// The recorded format differs from the configured one.
    FormatMismatch,
    /// What is stored makes no sense.
    Corrupt,
    /// The request itself is out of bounds.
    Refused,
    /// The sequence has reached its end.
    Spent,
}

impl StoreError {
    /// An error of `kind`; the message says what happened and what to do.
    pub fn new(kind: StoreErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), retry_at_ms: None, source: None }
    }

    /// With the driver's error behind it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// With the store's time (Unix milliseconds) from which the same request can succeed.
    #[must_use]
    pub fn until(mut self, retry_at_ms: u64) -> Self {
        self.retry_at_ms = Some(retry_at_ms);
        self
    }

    /// What kind of no.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// When the same request can succeed, if that is known: Unix milliseconds on the store's clock.
    pub fn retry_at_ms(&self) -> Option<u64> {
        self.retry_at_ms
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
