#![doc = include_str!("../README.md")]

mod builtin;
pub mod config;
mod id;
mod inspect;
mod instance;
mod keeper;
mod lanes;
mod minter;
pub mod public;
mod public_id;
mod publish;
mod redraw;
mod regions;
mod registry;
mod series;
mod telemetry;
pub mod time;
mod tokens;
mod witness;

pub use builtin::Builtins;
pub use config::{Config, ConfigErrors, Environment};
pub use id::{Entity, Id, Kind, kind, raw};
pub use inspect::{Candidate, Inspection, Inspector, role_name};
pub use keeper::LeaseHealth;
pub use minter::{AcceptError, AnyMinter, Minter};
pub use public_id::PublicId;
pub use redraw::{RedrawError, insert_or_redraw};
pub use registry::{BuildError, EXIT_LEASE_LOST, Health, MinterError, Registry, RegistryBuilder};
pub use series::{Period, Restart, Series, SeriesError, SeriesFormat, SeriesNumber};
pub use telemetry::METRICS;
pub use tokens::{Expiry, Issue, IssueError, Tokens, TokensError, Unauthorized, VerifyError};
pub use witness::Witness;

pub use mintage_core as core;
pub use mintage_schemes as schemes;
