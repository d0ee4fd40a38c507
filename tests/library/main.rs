//! The assembly as an application meets it: a config goes in, ids come out, and nothing is ever made twice.
//!
//! | to find | open |
//! |---|---|
//! | building, closing, several registries | `registry.rs` |
//! | what a minter does beside minting | `minter.rs` |
//! | formats that are pinned, rows that went missing | `formats.rs` |
//! | ranges: size, stride, several stores, imports | `ranges.rs` |
//! | a machine that remembers what a store gave it | `seen.rs` |
//! | leases through outages, fences, suspends | `keeper.rs`, and by chance `hunt.rs` |
//! | replicas, clocks, reserves, regions | `fleet.rs` |
//! | a layout that follows another | `layouts.rs` |
//! | metrics | `telemetry.rs` |
//! | events | `events.rs` |
//! | typed ids and serde | `ids.rs` |
//! | public ids, their keys and what the store guards | `public.rs` |
//! | forked children | `../fork.rs`, a program of its own |
//! | reading ids | `inspect.rs` |
//! | strangers' schemes and stores | `plugins.rs` |
//! | mint allocates nothing | `allocation.rs` |
//! | the laws of the test kit on every scheme | `laws.rs` |
//! | a store that fails on demand | `faulty.rs` |
#![expect(clippy::unwrap_used, reason = "tests")]

mod allocation;
mod events;
mod faulty;
mod fleet;
mod formats;
mod hunt;
mod ids;
mod inspect;
mod keeper;
mod laws;
mod layouts;
mod minter;
mod plugins;
mod public;
mod ranges;
mod registry;
mod seen;
mod telemetry;

use std::{path::Path, time::Duration};

use mintage::{Config, entity};
use mintage_core::ManualClock;

entity! {
    pub(crate) Order: Int = "orders";
    pub(crate) User: Uuid = "users";
    pub(crate) Event: Int = "events";
    pub(crate) Document: Ulid = "documents";
    pub(crate) Upload: Ksuid = "uploads";
    pub(crate) Token: Uuid = "tokens";
}

/// 2027-01-15T08:00:00Z in Unix ms: a whole second, after every epoch in these tests.
const NOW_MS: u64 = 1_800_000_000_000;

/// One entity of each scheme on one store. `STORE` stands for its URL.
const EVERY_SCHEME: &str = r#"
version = 1
[entities.users]
scheme = "uuidv7"
[entities.orders]
scheme = "segment"
range = 100
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[entities.documents]
scheme = "ulid"
[entities.uploads]
scheme = "ksuid"
[entities.tokens]
scheme = "uuidv4"
[workers.main]
lease = { quarantine = "0s" }
[stores.main]
url = "STORE"
"#;

/// Their names, with the scheme of each.
const SCHEMES: [(&str, &str); 6] = [
    ("users", "uuidv7"),
    ("orders", "segment"),
    ("events", "snowflake"),
    ("documents", "ulid"),
    ("uploads", "ksuid"),
    ("tokens", "uuidv4"),
];

/// A config whose file would be in `folder`.
fn config_in(folder: &Path, text: &str) -> Config {
    Config::parse(text, folder.join("mintage.toml").display().to_string()).unwrap()
}

/// Every scheme on an SQLite database in `folder`.
fn every_scheme_in(folder: &Path) -> Config {
    config_in(folder, &EVERY_SCHEME.replace("STORE", "sqlite:ids.db"))
}

/// The config that comes with Mintage, as if its file were in `folder`: keys and databases are made there.
fn shipped_in(folder: &Path) -> Config {
    config_in(folder, include_str!("../../mintage.toml"))
}

/// Lets time pass for the clock and the runtime alike, in steps so small that no timer is late. The runtime's time must be
/// paused.
async fn pass(clock: &ManualClock, ms: u64) {
    const STEP_MS: u64 = 50;
    let mut left_ms = ms;
    while left_ms > 0 {
        let step_ms = left_ms.min(STEP_MS);
        clock.advance(step_ms);
        tokio::time::advance(Duration::from_millis(step_ms)).await;
        settle().await;
        left_ms -= step_ms;
    }
}

/// Lets every task that can go on do so. A call to a store in memory takes a few turns.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}
