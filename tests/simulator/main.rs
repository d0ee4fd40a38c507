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
//! | what a forked child does | `fork.rs` |
//! | what must hold | `oracle.rs` |
//! | wrong rules that must be found | `mutants.rs` |
//!
//! ```console
//! $ MINTAGE_SIMULATOR_SEEDS=100000 cargo test --release -p mintage --all-features --test simulator -- --nocapture
//! $ MINTAGE_SIMULATOR_SEED=17 cargo test -p mintage --all-features --test simulator one_seed -- --nocapture
//! $ MINTAGE_SIMULATOR_RATES=200 cargo test --release -p mintage --all-features --test simulator wrong_rule -- --nocapture
//! ```
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clock;
mod fork;
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

/// Among how many seeds a wrong rule must show.
const SEEDS_PER_MUTANT: u64 = 200;

/// How many of them must find it. One could be luck.
const FOUND_MIN: usize = 3;

#[test]
fn whatever_happens_no_id_is_made_twice() {
    let seeds = number("MINTAGE_SIMULATOR_SEEDS").unwrap_or(SEEDS);
    let first = number("MINTAGE_SIMULATOR_FIRST").unwrap_or(1);
    let next = AtomicU64::new(first);
    let sum = Mutex::new(Verdict::default());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    #[expect(clippy::disallowed_methods, reason = "how long the simulator takes")]
    let began = std::time::Instant::now();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
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
         {} failovers, {} full disks, {} forks",
        sum.ids, sum.refusals, sum.claims, sum.crashes, sum.pauses, sum.steps, sum.failovers, sum.full_disks, sum.forks
    ));
    // It was a simulation of something: ids were made, and things did go wrong.
    let each = |count: u64| count / seeds;
    assert!(each(sum.ids) > 2_000 && each(sum.refusals) > 100 && each(sum.claims) > 10, "{sum:?}");
    assert!(
        each(sum.crashes) > 5 && each(sum.pauses) > 5 && each(sum.steps) > 5 && sum.failovers > seeds / 2,
        "{sum:?}"
    );
    assert!(each(sum.full_disks) > 2, "{sum:?}");
    #[cfg(unix)]
    assert!(sum.forks > seeds / 2, "{sum:?}");
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
    // The last three once did not.
    for seed in [1, 2, 3, 13, 35, 82] {
        let [one, other] = [0, 1].map(|_| format!("{:?}", run(seed, Rules::default())));
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn every_wrong_rule_is_found() {
    // With a number: by how many of so many seeds each is found.
    let rates = number("MINTAGE_SIMULATOR_RATES");
    let mutants = mutants::all();
    let missed = Mutex::new(Vec::new());
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let (seeds, enough) = rates.map_or((SEEDS_PER_MUTANT, FOUND_MIN), |seeds| (seeds, usize::MAX));
                    let found = found_by(mutant, seeds, enough);
                    let doubles = found.iter().filter(|find| find.duplicates > 0).count();
                    let first =
                        found.iter().take(FOUND_MIN).map(|find| find.seed.to_string()).collect::<Vec<_>>().join(", ");
                    tell(&format!(
                        "{}: found by {} seeds ({first}), {doubles} of them by an id made twice; such as {}",
                        mutant.name,
                        found.len(),
                        found.first().map_or("", |find| &find.told)
                    ));
                    if found.len() < FOUND_MIN {
                        line::locked(&missed).push(mutant.name);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found by {FOUND_MIN} of {SEEDS_PER_MUTANT} seeds: {missed:?}");
}

/// What a seed has found in a wrong rule.
struct Find {
    seed: u64,
    duplicates: usize,
    told: String,
}

/// The seeds that find something, until there are `enough`.
fn found_by(mutant: &Mutant, seeds: u64, enough: usize) -> Vec<Find> {
    let finds = (1..=seeds).filter_map(|seed| {
        let verdict = run(seed, mutant.rules);
        let duplicates = verdict.duplicates.len();
        let told = verdict.duplicates.into_iter().chain(verdict.overlaps).next()?;
        Some(Find { seed, duplicates, told })
    });
    finds.take(enough).collect()
}

/// Runs a seed with the real rules, and fails with its story if anything is wrong.
fn holds(seed: u64) -> Verdict {
    let verdict = run(seed, Rules::default());
    assert!(
        verdict.is_clean(),
        "seed {seed}: {}\nagain: MINTAGE_SIMULATOR_SEED={seed} cargo test -p mintage --all-features --test simulator one_seed",
        verdict.story()
    );
    verdict
}

fn run(seed: u64, rules: Rules) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let verdict = runtime.block_on(async { World::new(seed, rules).run().await });
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
