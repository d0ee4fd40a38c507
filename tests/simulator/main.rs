//! A fleet in virtual time: the real registry, keeper, snowflake and segment over a store in memory, while clocks step, messages
//! are lost, late, repeated and out of order, processes are paused and die, and the store fails over and forgets.
//!
//! Everything follows from a seed, and the same seed does the same again.
//!
//! | to find | open |
//! |---|---|
//! | what happens to the fleet | `world.rs` |
//! | what the network does | `line.rs` |
//! | what the store keeps, and loses | `store.rs` |
//! | what must hold | `oracle.rs` |
//! | wrong rules that must be found | `mutants.rs` |
//!
//! ```console
//! $ MINTAGE_SIMULATOR_SEEDS=100000 cargo test --release --test simulator -- --nocapture
//! $ MINTAGE_SIMULATOR_SEED=17 cargo test --test simulator one_seed -- --nocapture
//! ```
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clock;
mod line;
mod mutants;
mod oracle;
mod setting;
mod store;
mod world;

use std::{
    env,
    io::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use mintage_schemes::Entropy;
use mutants::{Mutant, Rules};
use oracle::Verdict;
use world::World;

/// How many seeds are run where nobody asks for more.
const SEEDS: u64 = 200;

/// A wrong rule that is not found by so many seeds would not be found at all.
const SEEDS_PER_MUTANT: u64 = 100;

#[test]
fn whatever_happens_no_id_is_made_twice() {
    let seeds = number("MINTAGE_SIMULATOR_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(1);
    let sum = Mutex::new(Verdict::default());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    #[expect(clippy::disallowed_methods, reason = "how long the simulator takes")]
    let began = std::time::Instant::now();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        break;
                    }
                    let verdict = holds(seed);
                    line::locked(&sum).add(&verdict);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    let rate = seeds as f64 / began.elapsed().as_secs_f64();
    tell(&format!(
        "{seeds} seeds, {rate:.0} a second: {} ids, 0 twice; {} refusals, {} claims, {} crashes, {} pauses, {} clock steps, \
         {} failovers",
        sum.ids, sum.refusals, sum.claims, sum.crashes, sum.pauses, sum.steps, sum.failovers
    ));
    // It was a simulation of something: ids were made, and things did go wrong.
    let each = |count: u64| count / seeds;
    assert!(each(sum.ids) > 2_000 && each(sum.refusals) > 100 && each(sum.claims) > 10, "{sum:?}");
    assert!(
        each(sum.crashes) > 5 && each(sum.pauses) > 5 && each(sum.steps) > 5 && sum.failovers > seeds / 2,
        "{sum:?}"
    );
}

#[test]
fn one_seed_that_nobody_has_chosen() {
    let drawn = Entropy::os().draw_u64().unwrap() % 1_000_000_000;
    let seed = number("MINTAGE_SIMULATOR_SEED").unwrap_or(drawn);
    tell(&format!("seed {seed}"));
    holds(seed);
}

#[test]
fn a_seed_does_the_same_again() {
    for seed in 1..=3 {
        let [one, other] = [0, 1].map(|_| format!("{:?}", run(seed, Rules::default(), None)));
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn every_wrong_rule_is_found() {
    let mutants = mutants::all();
    let missed = Mutex::new(Vec::new());
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    match first_duplicate(mutant) {
                        Some((seed, told)) => tell(&format!("{}: found by seed {seed}: {told}", mutant.name)),
                        None => line::locked(&missed).push(mutant.name),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found within {SEEDS_PER_MUTANT} seeds: {missed:?}");
}

/// The first seed that finds a duplicate, and the duplicate.
fn first_duplicate(mutant: &Mutant) -> Option<(u64, String)> {
    (mutant.first_seed..mutant.first_seed + SEEDS_PER_MUTANT).find_map(|seed| {
        let verdict = run(seed, mutant.rules, mutant.unit_ms);
        verdict.duplicates.into_iter().next().map(|told| (seed, told))
    })
}

/// Runs a seed with the real rules, and fails with its story if anything is wrong.
fn holds(seed: u64) -> Verdict {
    let verdict = run(seed, Rules::default(), None);
    assert!(
        verdict.is_clean(),
        "seed {seed}: {}\nagain: MINTAGE_SIMULATOR_SEED={seed} cargo test --test simulator one_seed",
        verdict.story()
    );
    verdict
}

fn run(seed: u64, rules: Rules, unit_ms: Option<u64>) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let verdict = runtime.block_on(async { World::new(seed, rules, unit_ms, rules.strict).run().await });
    runtime.shutdown_timeout(Duration::ZERO);
    verdict
}

/// Not captured: a seed must be known when a run hangs.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "simulator: {text}");
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number was expected")))
}
