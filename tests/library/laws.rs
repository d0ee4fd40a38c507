//! The laws of the test kit on every scheme as the registry opens it, whatever the config says beside.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use mintage::Registry;
use mintage_core::{
    Anatomy, AnyScheme, IdBits, IdScheme, MintError, ParseError, ReadyError, SchemeInfo, testkit::scheme,
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config as Trials, TestRunner},
};

use crate::config_in;

/// A scheme behind its trait object, which is how an application has it.
#[derive(Debug)]
struct Behind<B: IdBits>(Arc<dyn IdScheme<Bits = B>>);

#[async_trait]
impl<B: IdBits> IdScheme for Behind<B> {
    type Bits = B;

    fn info(&self) -> &SchemeInfo {
        self.0.info()
    }

    fn mint(&self) -> Result<B, MintError> {
        self.0.mint()
    }

    fn mint_batch(&self, out: &mut [B]) -> Result<usize, MintError> {
        self.0.mint_batch(out)
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        self.0.ready().await
    }

    fn format(&self, bits: B, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<B, ParseError> {
        self.0.parse(text)
    }

    fn anatomy(&self, bits: B) -> Anatomy {
        self.0.anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(B, B)> {
        self.0.range_at(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        self.0.runs_out()
    }
}

fn keeps_the_laws(opened: &AnyScheme) {
    match opened {
        AnyScheme::Int(opened) => scheme::all(&Behind(Arc::clone(opened))),
        AnyScheme::Wide(opened) => scheme::all(&Behind(Arc::clone(opened))),
        AnyScheme::Long(opened) => scheme::all(&Behind(Arc::clone(opened))),
        other => unreachable!("{other:?}"),
    }
}

/// The lines of an entity, any that its factory takes.
fn entity() -> impl Strategy<Value = String> {
    prop_oneof![snowflake(), segment(), random()]
}

/// Widths with room for the laws' sample in the time they have, in any order of the fields.
fn snowflake() -> impl Strategy<Value = String> {
    let orders = select(vec![
        "\"time\", \"worker\", \"sequence\"",
        "\"time\", \"sequence\", \"worker\"",
        "\"worker\", \"time\", \"sequence\"",
    ]);
    let units = select(vec![("1ms", 41..=42_u32, 9..=12_u32), ("10ms", 38..=40, 12..=14), ("1s", 31..=33, 16..=20)]);
    let layouts = (units, any::<[u8; 3]>()).prop_map(|((unit, times, sequences), [time, sequence, worker])| {
        let within = |range: std::ops::RangeInclusive<u32>, dice: u8| {
            range.start() + u32::from(dice) % (range.end() - range.start() + 1)
        };
        let (time, sequence) = (within(times, time), within(sequences, sequence));
        (unit, time, sequence, within(1..=(63 - time - sequence).min(10), worker))
    });
    let clocks =
        select(vec!["", "on_overflow = \"wait\"", "on_step = \"wait\", max_wait = \"20ms\"", "max_drift = \"1s\""]);
    (layouts, orders, clocks, texts(), select(vec!["zero", "random"])).prop_map(
        |((unit, time, sequence, worker), order, clock, text, start)| {
            // A unit of a second borrows a second.
            let clock = if unit == "1s" && !clock.contains("max_drift") { "max_drift = \"2s\"" } else { clock };
            format!(
                "scheme = \"snowflake\"\nepoch = \"2024-01-01T00:00:00Z\"\n\
                 layout = {{ time = {time}, worker = {worker}, sequence = {sequence}, unit = \"{unit}\", fields = [{order}] }}\n\
                 worker = {{ pool = \"main\" }}\nclock = {{ {clock} }}\nsequence_start = \"{start}\"\n\
                 allow = [\"short-life\"]\n{text}"
            )
        },
    )
}

fn segment() -> impl Strategy<Value = String> {
    let starts = select(vec![0, 1, 9_007_199_254_740_991, i64::MAX - 100_000]);
    (1..=5_000_i64, starts, select(vec![0.0, 0.2, 1.0]), 1..=8_u32, texts()).prop_map(
        |(range, start, refill_at, initial, text)| {
            format!(
                "scheme = \"segment\"\ndurability = \"weak\"\nrange = {range}\nstart = {start}\nrefill_at = {refill_at:?}\n\
                 initial_ranges = {initial}\n{text}"
            )
        },
    )
}

fn random() -> impl Strategy<Value = String> {
    let schemes = select(vec!["uuidv7", "ulid", "ksuid", "uuidv4"]);
    let clocks = select(vec!["", "on_step = \"refuse\"", "max_drift = \"0ms\"", "max_drift = \"1h\""]);
    (schemes, select(vec!["strict", "time"]), clocks).prop_map(|(scheme, order, clock)| match scheme {
        "uuidv4" => "scheme = \"uuidv4\"".to_owned(),
        ordered => format!("scheme = \"{ordered}\"\norder = \"{order}\"\nclock = {{ {clock} }}"),
    })
}

fn texts() -> impl Strategy<Value = &'static str> {
    select(vec!["", "text = \"decimal\"", "text = \"base62\"", "text = \"crockford\""])
}

#[test]
fn every_scheme_keeps_them_whatever_the_config() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let trials = Trials { cases: 40, failure_persistence: None, ..Trials::default() };
    let law = |lines: String| {
        runtime.block_on(async {
            let text =
                format!("version = 1\n[entities.things]\n{lines}\n[workers.main]\n[stores.main]\nurl = \"memory:\"\n");
            let registry = Registry::builder().builtins().build(config_in(Path::new("."), &text)).await.unwrap();
            let opened = registry.any_minter("things").unwrap().scheme().clone();
            // Spins while it waits, as callers may: the refill runs on the other thread.
            tokio::task::spawn_blocking(move || keeps_the_laws(&opened)).await.unwrap();
            registry.close().await.unwrap();
        });
        Ok(())
    };
    TestRunner::new(trials).run(&entity(), law).unwrap();
}

/// Each scheme at least once, as the shipped config has it.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_config_keeps_them() {
    let text = include_str!("../../mintage.toml")
        .replace("sqlite:mintage.db", "memory:")
        .replace("\"segment\"", "\"segment\"\ndurability = \"weak\"");
    let environment = mintage::Environment::default();
    let registry = Registry::builder().builtins().environment(environment);
    let folder = tempfile::tempdir().unwrap();
    let registry = registry.build(config_in(folder.path(), &text)).await.unwrap();
    for name in ["users", "orders", "events", "documents", "uploads"] {
        let opened = registry.any_minter(name).unwrap().scheme().clone();
        tokio::task::spawn_blocking(move || keeps_the_laws(&opened)).await.unwrap();
    }
    registry.close().await.unwrap();
}
