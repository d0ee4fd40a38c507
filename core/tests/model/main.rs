//! Can two processes ever make the same id? Here everything that could happen to a few claims and ticks is tried, one state at a
//! time, with the functions of [`mintage_core::protocol`] that run in production.
//!
//! The proof has three parts. Read them in this order:
//!
//! 1. [`windows`] says what a process may do and what may happen to it: pauses, crashes, lost and late messages, wrong clocks, a
//!    store that forgets its last write.
//! 2. [`search`] visits every state that can be reached so. `hold` below asserts that no duplicate is among them, and that from
//!    each of them a worker id can soon be claimed again.
//! 3. [`mutants`] and [`lease_only`] are rules that look right and are wrong. `fall` asserts that the same search finds a
//!    duplicate for each: a search that finds nothing in them would prove nothing.
//!
//! Every run prints its row of the table in `docs/evidence.md`, and fails where the document says otherwise.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod lease_only;
mod mutants;
mod rows;
mod search;
mod windows;

use lease_only::LeaseOnly;
use search::{Model, Outcome, search};
use windows::{Edges, Setting, Windows};

#[test]
fn windows_alone() {
    let some = Setting { tick_max: 5, claims_max: 3, ..Setting::default() };
    let trim = Setting { trim: true, tick_max: 3, ..some };
    hold("B1", "exact clocks", some);
    hold("B1t", "exact clocks, releases", trim);
    hold("B2", "a clock 2 ahead", Setting { skew: [0, 2], ..some });
    hold("B3", "a clock 2 behind", Setting { skew: [0, -2], ..some });
    hold("B4", "windows start up to 1 ahead", Setting { ahead: 1, tick_max: 4, ..some });
    hold("B4t", "windows start up to 1 ahead, releases", Setting { ahead: 1, ..trim });
}

#[test]
fn two_worker_ids() {
    let two = Setting { workers: 2, tick_max: 2, claims_max: 3, ..Setting::default() };
    hold("W1", "two worker ids", two);
    hold("W2", "two worker ids, releases", Setting { trim: true, tick_max: 1, ..two });
    hold("W3", "two worker ids, 1 failover", Setting { failovers: 1, claims_max: 2, ..two });
}

#[test]
fn stores_that_forget() {
    let lossy = Setting { failovers: 1, tick_max: 4, claims_max: 3, ..Setting::default() };
    let late = Setting { skew: [0, -3], ..lossy };
    hold("D4", "2 failovers, a clock 3 behind", Setting { failovers: 2, ..late });
    hold("D4t", "2 failovers, a clock 3 behind, releases", Setting { failovers: 2, tick_max: 3, trim: true, ..late });
    hold(
        "D7",
        "1 failover to a store 1 behind, guard 1, a clock 3 behind",
        Setting { falls_back: 1, guard: 1, ..late },
    );
    hold(
        "D9",
        "1 failover, windows start up to 1 ahead, releases",
        Setting { ahead: 1, tick_max: 3, trim: true, ..lossy },
    );
}

#[test]
fn units_longer_than_a_millisecond() {
    let seconds = Setting { unit: 2, trim: true, tick_max: 4, claims_max: 3, ..Setting::default() };
    hold("U0", "time units of 2 ticks, releases", seconds);
    fall_windows(
        "U1",
        "a unit of 2 ticks is stamped where the window only touches it",
        Setting { edges: Edges::Touching, ..seconds },
    );
    fall_windows(
        "U2",
        "a release from the middle of a unit of 2 ticks, and a successor that starts with that unit",
        Setting { edges: Edges::UnalignedTrim, ..seconds },
    );
}

#[test]
fn leases_without_windows() {
    let calm = LeaseOnly { pauses: false, skew: [0, 0] };
    stand(row("A0", "lease and high-water mark, no fault at all", "6, any", &search(&calm), ""));
    fall("A1", "lease and high-water mark, one pause", "6, any", &LeaseOnly { pauses: true, ..calm });
    fall("A2", "lease and high-water mark, a clock 1 ahead", "6, any", &LeaseOnly { skew: [1, 0], ..calm });
}

#[test]
fn wrong_rules() {
    let some = Setting { tick_max: 4, claims_max: 3, ..Setting::default() };
    let trim = Setting { trim: true, ..some };
    let lossy = Setting { failovers: 1, ..some };
    let late = Setting { skew: [0, -3], ..lossy };
    fall_windows("C1", "a release needs no fence", Setting { rules: mutants::release_unfenced(), ..trim });
    fall_windows("D1", "no bump after a failover", Setting { rules: mutants::no_bump(), ..lossy });
    let parting = Setting { trim: true, tick_max: 2, ..lossy };
    let by_epoch = Setting { rules: mutants::release_by_epoch(), ..parting };
    fall_windows("D2", "a release ignores the store's life and the token: the epoch alone fences", by_epoch);
    let by_token = Setting { rules: mutants::release_across_lives(), ..parting };
    hold("D2t", "a release ignores the store's life, but not the token", by_token);
    let across = mutants::extend_across_lives();
    fall_windows("D3", "a renewal ignores the store's life", Setting { rules: across, ..lossy });
    fall_windows("D6", "failover to a store 1 behind, guard 0", Setting { falls_back: 1, ..late });
    let short = mutants::bump_without_ahead();
    fall_windows(
        "D8",
        "a bump leaves out `max_ahead`",
        Setting { rules: short, ahead: 1, trim: true, tick_max: 3, ..lossy },
    );
}

/// Asserts that no duplicate can be reached, and that something can be claimed again within `wait_max` ticks from everywhere.
fn hold(name: &str, what: &str, setting: Setting) {
    let model = Windows::new(setting);
    let outcome = search(&model);
    assert!(outcome.trace.is_none(), "{name}: {}", outcome.trace.unwrap_or_default().join("\n"));
    stand(row(name, what, &bounds(&setting), &outcome, &model.longest_wait.get().to_string()));
}

fn fall_windows(name: &str, what: &str, setting: Setting) {
    fall(name, what, &bounds(&setting), &Windows::new(setting));
}

/// Asserts that a duplicate is found, and prints how it comes about.
fn fall(name: &str, what: &str, bounds: &str, model: &impl Model) {
    let outcome = search(model);
    let Some(trace) = &outcome.trace else { panic!("{name}: no duplicate in {} states", outcome.states) };
    stand(format!("{}\n    {}", row(name, what, bounds, &outcome, ""), trace.join("; ")));
}

fn bounds(setting: &Setting) -> String {
    format!("{}, {}", setting.tick_max, setting.claims_max)
}

/// One row of the table: name, what is allowed, ticks and claims, states, result, steps, longest wait.
fn row(name: &str, what: &str, bounds: &str, outcome: &Outcome, wait: &str) -> String {
    let result = if outcome.trace.is_some() { "DUPLICATE" } else { "none" };
    format!("| {name} | {what} | {bounds} | {} | {result} | {} | {wait} |", outcome.states, outcome.steps)
}

/// Prints a result, and asserts that the document has its first line.
fn stand(result: String) {
    println!("{result}");
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence.md")).unwrap();
    let row = result.lines().next().unwrap_or_default();
    assert!(
        document.contains(row),
        "docs/evidence.md does not say: {row}\nUnderstand why that changed, then write it there."
    );
}
