//! The words of Mintage: what an id is, who makes it, who keeps numbers and leases, and what can go wrong.
//!
//! A third party's scheme or store depends on this crate alone. It does no I/O, spawns nothing, has no unsafe code
//! and reads the time only in [`SystemClock`].
//!
//! ```
//! use mintage_core::{Anatomy, Bits, IdScheme, MintError, Order, ParseError, SchemeInfo};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// Counts from one: the smallest scheme there is. (It forgets everything at exit: never use it for stored rows.)
//! #[derive(Debug)]
//! struct Counter { info: SchemeInfo, last: AtomicU64 }
//!
//! #[async_trait::async_trait]
//! impl IdScheme for Counter {
//!     type Bits = u64;
//!     fn info(&self) -> &SchemeInfo { &self.info }
//!     fn mint(&self) -> Result<u64, MintError> { Ok(self.last.fetch_add(1, Ordering::Relaxed) + 1) }
//!     fn format(&self, bits: u64, out: &mut dyn std::fmt::Write) -> std::fmt::Result { write!(out, "{bits}") }
//!     fn parse(&self, text: &str) -> Result<u64, ParseError> { mintage_core::parse_decimal(text, 63) }
//!     fn anatomy(&self, bits: u64) -> Anatomy { Anatomy::number(bits) }
//! }
//!
//! let ids = Counter { info: SchemeInfo::new("counter", Bits::Int, 63).ordered(Order::Minter), last: AtomicU64::new(0) };
//! assert_eq!(ids.mint(), Ok(1));
//! assert_eq!(ids.mint(), Ok(2));
//! ```
//!
//! | to find | open |
//! |---|---|
//! | the scheme trait | [`scheme`](IdScheme) |
//! | the rules that make leases safe | [`protocol`] |
//! | the store traits | [`RangeStore`], [`LeaseStore`], [`FormatStore`], [`TokenStore`] |
//! | the laws as tests | `testkit` (feature `testkit`) |
#![forbid(unsafe_code)]

mod anatomy;
mod bits;
mod clock;
mod decimal;
mod error;
mod format;
mod gapless;
mod lease;
pub mod plugin;
pub mod protocol;
mod range;
mod scheme;
mod tables;
#[cfg(feature = "testkit")]
pub mod testkit;
mod token;
mod vitals;

pub use anatomy::{Anatomy, Field, IdTime, Role};
pub use bits::{AnyId, Bits, IdBits};
pub use clock::{Clock, ManualClock, SystemClock};
pub use decimal::parse_decimal;
pub use error::{MintError, ParseError, ReadyError, StoreError, StoreErrorKind};
pub use format::{Format, FormatStore};
pub use gapless::{GaplessStore, Reservation, ReservationState};
pub use lease::{
    Fence, Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, Leased, PoolLimits, WorkerChoice, WorkerPool,
};
pub use range::{
    IdRange, IdempotencyKey, NumberRun, RANGE_END, RangeGrant, RangeHistory, RangeStore, Sequence, SequenceRow,
    StoreHealth, SupplyHealth,
};
pub use scheme::{AnyScheme, IdScheme, Order, Pace, SchemeInfo};
pub use tables::TablePrefix;
pub use token::{TokenRow, TokenState, TokenStore};
pub use vitals::{Answer, Concern, StoreSetting, Vitals};
