//! `kill -9` at any moment: it may cost a gap, and a worker id may rest for a window; no id ever comes again.

use std::{thread, time::Duration};

use crate::folder::{Dice, Folder, Ran, SHIPPED, assert_distinct, numbers_in, until};

/// Eight worker ids, so that the dead ones are missed.
pub(crate) fn narrow_config() -> String {
    let narrow = SHIPPED
        .replace(
            "layout = { time = 41, worker = 10, sequence = 12 }",
            "layout = { time = 41, worker = 3, sequence = 12 }",
        )
        .replace("eu = \"0..256\"\nus = \"256..512\"", "eu = \"0..8\"");
    assert!(narrow.contains("worker = 3") && narrow.contains("0..8"));
    narrow
}

/// The longest window that `new events` asks for: a second, and five units around the one it needs.
const WINDOW_MS: u64 = 1_006;

#[test]
fn kills_in_the_middle_cost_gaps_and_repeat_nothing() {
    kill_in_the_middle(&Folder::shipped(), 120);
}

#[test]
fn kills_in_the_middle_cost_gaps_and_repeat_nothing_with_files() {
    let shipped = SHIPPED.replace("sqlite:mintage.db", "file:ids");
    kill_in_the_middle(&Folder::with(&shipped), 60);
}

/// Runs that are killed and runs that end, of orders and of events, in any order.
fn kill_in_the_middle(folder: &Folder, rounds: u64) {
    let mut dice = Dice(rounds);
    let mut killed = 0;
    let mut files = Vec::new();
    for round in 0..rounds {
        let entity = if dice.below(2) == 0 { "orders" } else { "events" };
        let name = format!("{entity}.{round}");
        files.push(name.clone());
        if dice.below(3) == 0 {
            let count = (1 + dice.below(300)).to_string();
            folder.start(&name, &["new", entity, "-n", &count]).end().expect(0);
            continue;
        }
        let mut running = folder.start(&name, &["new", entity, "-n", "5000000"]);
        if dice.below(4) > 0 {
            running.wait_for_output();
        }
        thread::sleep(Duration::from_micros(dice.below(15_000)));
        killed += u64::from(running.kill());
    }
    assert!(killed > rounds / 3, "only {killed} were killed in the middle");
    for entity in ["orders", "events"] {
        let names = files.iter().filter(|name| name.starts_with(entity));
        let mut ids: Vec<u64> = names.flat_map(|name| numbers_in(&folder.path(name))).collect();
        assert!(ids.len() > 10_000, "{} {entity} came out", ids.len());
        ids.extend(folder.run(&["new", entity, "-n", "100"]).expect(0).numbers());
        assert_distinct(ids);
    }
}

#[test]
fn after_three_hundred_kills_a_claim_succeeds_within_one_window() {
    let folder = Folder::with(&narrow_config());
    let mut dice = Dice(2);
    let mut files = Vec::new();
    let mut refused = 0;
    let mut killed = 0;
    while killed < 300 {
        let name = format!("events.{}", files.len());
        files.push(name.clone());
        let mut running = folder.start(&name, &["new", "events", "-n", "100000"]);
        if dice.below(2) == 0 {
            running.wait_for_output();
        }
        thread::sleep(Duration::from_micros(dice.below(8_000)));
        killed += usize::from(running.kill());
    }
    let mut ids = Vec::new();
    until("a worker id is free", || {
        let ran = folder.run(&["new", "events", "-n", "50"]);
        match ran.code {
            0 => ids.extend(ran.numbers()),
            _ => {
                refused += 1;
                let free_in_ms = free_in_ms(&ran.expect(4));
                // The dead asked for 100 000 ids, which fit into 25 ms more than one needs.
                assert!(free_in_ms <= WINDOW_MS + 25, "{free_in_ms} ms");
            }
        }
        !ids.is_empty()
    });
    ids.extend(files.iter().flat_map(|name| numbers_in(&folder.path(name))));
    assert!(ids.len() > 1_000, "{} ids, {refused} refusals", ids.len());
    assert_distinct(ids);
}

/// When a refused claim can succeed, by its message.
pub(crate) fn free_in_ms(refused: &Ran) -> u64 {
    let (_, rest) = refused.err.split_once("free in ").unwrap_or_else(|| panic!("{refused:?} does not say until when"));
    rest.split(' ').next().unwrap().parse().unwrap()
}
