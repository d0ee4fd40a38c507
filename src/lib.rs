#![doc = include_str!("../README.md")]

mod builtin;
#[cfg(feature = "sqlx")]
#[doc = include_str!("../docs/columns.md")]
pub mod columns;
pub mod config;
mod doctor;
mod gapless;
mod id;
mod inspect;
mod instance;
mod keeper;
mod lanes;
mod minter;
mod operator;
mod password;
pub mod public;
mod public_id;
mod publish;
mod redraw;
mod regions;
mod registry;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sequences;
mod series;
mod shard_minter;
mod telemetry;
pub mod time;
mod tokens;
mod witness;

pub use builtin::Builtins;
pub use config::{Config, ConfigErrors, Environment};
pub use doctor::{Finding, Severity};
pub use gapless::GaplessError;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use gapless::{GaplessDatabase, Transaction};
pub use id::{Entity, Id, Kind, kind, raw};
pub use inspect::{Candidate, Inspection, Inspector, SeriesReading, role_name};
pub use keeper::LeaseHealth;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use mintage_backends::{Gaps, NumberColumn};
pub use minter::{AcceptError, AnyMinter, IdRun, Minter};
pub use operator::{Bumped, Operator, Stood};
pub use public_id::PublicId;
pub use redraw::{RedrawError, insert_or_redraw};
pub use registry::{BuildError, EXIT_LEASE_LOST, Health, MinterError, Registry, RegistryBuilder};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sequences::{SequenceError, SequenceOwner, SequenceState, Sequences, Unused};
pub use series::{Period, Restart, Series, SeriesError, SeriesFormat, SeriesNumber};
pub use shard_minter::{ShardError, shard_minter};
pub use telemetry::METRICS;
pub use tokens::{Expiry, Issue, IssueError, Tokens, TokensError, Unauthorized, VerifyError};
pub use witness::Witness;

/// The code in the document is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/public-ids.md")]
struct PublicIdsDocument;

pub use mintage_core as core;
pub use mintage_schemes as schemes;

/// The examples of the document are tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/numbers.md")]
mod numbers_document {}
