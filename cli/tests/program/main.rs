//! The program itself, as a user runs it: what it prints, how it ends, and that no id ever comes twice.
//!
//! Every test has a folder of its own, and every run in it is checked for what must never be: a panic, an end by a signal
//! nobody sent, escape codes where no terminal reads. A test that needs something the machine lacks prints
//! `SKIPPED: name: reason`, and fails instead where `MINTAGE_REQUIRE_ALL=1` is set.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bad_input;
mod cases;
mod clock;
mod crowd;
mod doctor;
mod facts;
mod folder;
mod inspect;
mod kills;
mod mishaps;
mod new;
mod places;
#[cfg(feature = "postgres")]
mod postgres;
mod public;
mod refusals;
mod sequences;
mod stops;
mod terminal;
mod tokens;
mod workers;
