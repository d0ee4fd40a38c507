#![doc = include_str!("../README.md")]

mod builtin;
pub mod config;
mod gapless;
mod id;
mod inspect;
mod instance;
mod keeper;
mod minter;
pub mod public;
mod public_id;
mod publish;
mod redraw;
mod registry;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sequences;
mod series;
pub mod time;
mod tokens;
mod witness;

pub use builtin::Builtins;
pub use config::{Config, ConfigErrors, Environment};
pub use gapless::GaplessError;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use gapless::{GaplessDatabase, Transaction};
pub use id::{Entity, Id, Kind, kind, raw};
pub use inspect::{Candidate, Inspection, Inspector, role_name};
pub use keeper::LeaseHealth;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use mintage_backends::{Gaps, NumberColumn};
pub use minter::{AcceptError, AnyMinter, Minter};
pub use public_id::PublicId;
pub use redraw::{RedrawError, insert_or_redraw};
pub use registry::{BuildError, MinterError, Registry, RegistryBuilder};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sequences::{SequenceError, SequenceOwner, SequenceState, Sequences, Unused};
pub use series::{Period, Restart, Series, SeriesError, SeriesFormat, SeriesNumber};
pub use tokens::{Expiry, Issue, IssueError, Tokens, TokensError, Unauthorized, VerifyError};
pub use witness::Witness;

pub use mintage_core as core;
pub use mintage_schemes as schemes;

/// The examples of the document are tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/numbers.md")]
mod numbers_document {}
