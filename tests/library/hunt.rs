//! A hunt for duplicates: several processes on one store, in virtual time, and everything that can happen to them, by seed.
//!
//! A hunt that finds nothing proves nothing unless it finds what was planted: the last test plants a broken store.

use std::{collections::HashMap, path::Path, sync::Arc};

use mintage::{AnyMinter, Registry};
use mintage_core::{AnyId, Clock, LeaseStore, ManualClock, PoolLimits, WorkerPool};
use mintage_schemes::Entropy;

use crate::{
    NOW_MS, config_in,
    faulty::{Fault, Faulty, builder},
    settle,
};

/// Fewer worker ids than claims, so that each is used again and again.
const CONFIG: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 1, sequence = 6 }
worker = { pool = "main" }
clock = { max_drift = "50ms" }
[entities.orders]
scheme = "segment"
range = 20
[workers.main]
lease = { renew = "100ms", ttl = "400ms", window = "1s", max_ahead = "800ms", guard = "100ms", quarantine = "50ms" }
clock = { refuse_start = "1d", release = "RELEASE" }
[stores.main]
url = "STORE"
timeout = "300ms"
"#;

/// Two more worker ids, in a second store.
const RESERVE: &str = r#"
[workers.spare]
store = "reserve"
region = "eu-spare"
lease = { renew = "100ms", ttl = "400ms", window = "1s", max_ahead = "800ms", guard = "100ms", quarantine = "50ms" }
clock = { refuse_start = "1d", release = "RELEASE" }
[regions]
eu = "0..2"
eu-spare = "2..4"
[stores.reserve]
url = "SPARE"
timeout = "300ms"
"#;

/// The config of a process, whose clock limits differ from hunt to hunt.
fn config(line: &Faulty, spare: Option<&Faulty>, release: &str) -> String {
    let mut text = CONFIG.to_owned();
    if let Some(spare) = spare {
        text = text
            .replace("worker = 1,", "worker = 2,")
            .replace(
                "worker = { pool = \"main\" }",
                "store = \"main\"\nworker = { pool = \"main\" }\nfallback = { pool = \"spare\" }",
            )
            .replace("[workers.main]", "[workers.main]\nstore = \"main\"\nregion = \"eu\"")
            .replace("scheme = \"segment\"", "store = \"reserve\"\nscheme = \"segment\"")
            + &RESERVE.replace("SPARE", &spare.url());
    }
    text.replace("STORE", &line.url()).replace("RELEASE", release)
}

const PROCESSES: usize = 3;
const STEPS: usize = 400;
/// Short enough for the keepers.
const TICK_MS: u64 = 25;

/// One process: its own clock, its own line to the store, and a registry while it runs.
struct Process {
    clock: ManualClock,
    line: Arc<Faulty>,
    /// Its line to the reserve, where there is one.
    spare: Option<Arc<Faulty>>,
    running: Option<(Registry, [AnyMinter; 2])>,
}

/// What a hunt saw.
#[derive(Debug, Default)]
struct Catch {
    ids: HashMap<(&'static str, AnyId), usize>,
    twice: Vec<String>,
    refusals: u64,
    starts: u64,
    /// Ids that were minted by a lease of the reserve.
    of_reserve: u64,
}

struct Hunt {
    dice: Entropy,
    store: Arc<Faulty>,
    /// The store's own clock.
    clock: ManualClock,
    healthy: Fault,
    /// `clock.release` of every process.
    release: &'static str,
    processes: Vec<Process>,
    caught: Catch,
}

impl Hunt {
    /// `healthy` is the store as it is between faults: without any, or with a planted one.
    fn new(seed: u64, healthy: Fault) -> Self {
        let clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&clock);
        let process = || {
            let line = store.line();
            line.set(healthy);
            Process { clock: ManualClock::at(NOW_MS), line, spare: None, running: None }
        };
        let processes = (0..PROCESSES).map(|_| process()).collect();
        let release = if seed.is_multiple_of(2) { "100ms" } else { "1d" };
        Self { dice: Entropy::seeded(seed), store, clock, healthy, release, processes, caught: Catch::default() }
    }

    /// With a second store, which is in trouble as often as the first. `planted` is what is wrong with both.
    fn with_reserve(seed: u64, planted: Fault) -> Self {
        let mut hunt = Self::new(seed, planted);
        let reserve = Faulty::new(&hunt.clock);
        for process in &mut hunt.processes {
            let line = reserve.line();
            line.set(planted);
            process.spare = Some(line);
        }
        hunt
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.draw_u64().unwrap() % sides
    }

    async fn run(mut self) -> Catch {
        for _ in 0..STEPS {
            self.let_time_pass().await;
            let which = self.roll(PROCESSES as u64) as usize;
            match self.roll(100) {
                // A reserve serves where its own store is down for longer than a window.
                0..=9 => self.processes[which].line.set(Fault::Down),
                10..=11 if self.processes[which].spare.is_some() => self.trouble_the_reserve(which),
                12..=13 if self.processes[which].spare.is_some() => self.wait_long().await,
                10..=14 => self.processes[which].line.set(Fault::AnswerLost),
                15..=17 => self.processes[which].line.set(Fault::Hang),
                18..=19 => self.processes[which].line.set(Fault::Slow(150)),
                20..=34 => self.processes[which].line.set(self.healthy),
                35..=39 => self.step_clock(which),
                40..=49 => self.processes[which].clock.step_to(self.clock.unix_ms()),
                // A crash, and a clean end.
                50..=57 => drop(self.processes[which].running.take()),
                58..=64 => self.close(which).await,
                // Rare, because nobody can claim for two windows after it.
                65 => drop(self.store.healthy().bump(&pool()).await),
                _ => self.start(which).await,
            }
            self.mint();
        }
        self.caught
    }

    /// The same for all clocks.
    async fn let_time_pass(&self) {
        for _ in 0..self.roll(12) {
            self.clock.advance(TICK_MS);
            for process in &self.processes {
                process.clock.advance(TICK_MS);
            }
            tokio::time::advance(std::time::Duration::from_millis(TICK_MS)).await;
            settle().await;
        }
    }

    fn trouble_the_reserve(&self, which: usize) {
        let fault = [Fault::Down, Fault::AnswerLost, self.healthy, self.healthy][self.roll(4) as usize];
        if let Some(spare) = &self.processes[which].spare {
            spare.set(fault);
        }
    }

    async fn wait_long(&self) {
        for _ in 0..8 {
            self.let_time_pass().await;
        }
    }

    fn step_clock(&self, which: usize) {
        // Whole ticks, so that clocks that went apart meet again in the same millisecond.
        let ticks = [2, 10, 40, 2_000][self.roll(4) as usize];
        let by_ticks = self.roll(2 * ticks + 1) as i64 - ticks as i64;
        self.processes[which].clock.step(by_ticks * TICK_MS as i64);
    }

    async fn start(&mut self, which: usize) {
        if self.processes[which].running.is_some() {
            return;
        }
        let process = &self.processes[which];
        let text = config(&process.line, process.spare.as_deref(), self.release);
        let config = config_in(Path::new("."), &text);
        let build = builder(&self.processes[which].clock).build(config);
        // A store that hangs for ever in the middle of a start is given up by the caller.
        let built = tokio::time::timeout(std::time::Duration::from_secs(5), build).await;
        if let Ok(Ok(registry)) = built {
            let minters = ["events", "orders"].map(|name| registry.any_minter(name).unwrap());
            self.processes[which].running = Some((registry, minters));
            self.caught.starts += 1;
        }
    }

    async fn close(&mut self, which: usize) {
        if let Some((registry, minters)) = self.processes[which].running.take() {
            drop(registry.close().await);
            assert!(minters.iter().all(|minter| minter.mint().is_err()), "closed");
        }
    }

    fn mint(&mut self) {
        for (which, process) in self.processes.iter().enumerate() {
            let Some((_, minters)) = &process.running else { continue };
            for (name, minter) in ["events", "orders"].into_iter().zip(minters) {
                for _ in 0..8 {
                    let Ok(id) = minter.mint() else {
                        self.caught.refusals += 1;
                        break;
                    };
                    if let (AnyId::Int(number), "events", true) = (id, name, process.spare.is_some()) {
                        self.caught.of_reserve += u64::from(number >> 6 & 3 >= 2);
                    }
                    if let Some(other) = self.caught.ids.insert((name, id), which) {
                        self.caught.twice.push(format!("{name} {id:?} by {other} and {which}"));
                    }
                }
            }
        }
    }
}

fn pool() -> WorkerPool {
    let mut pool = WorkerPool::new("main", 0..2);
    pool.limits = PoolLimits::new(1_000, 800, 100);
    pool
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_no_id_is_made_twice() {
    let (mut ids, mut refusals, mut starts) = (0, 0, 0);
    for seed in 1..=25 {
        let caught = Hunt::new(seed, Fault::None).run().await;
        assert_eq!(caught.twice, Vec::<String>::new(), "seed {seed}");
        ids += caught.ids.len();
        refusals += caught.refusals;
        starts += caught.starts;
    }
    // It was a hunt: ids were made, and things did go wrong.
    assert!(ids > 50_000 && refusals > 5_000 && starts > 300, "{ids} ids, {refusals} refusals, {starts} starts");
}

/// The same with a reserve that serves while the first store is away.
#[tokio::test(start_paused = true)]
async fn a_reserve_makes_no_id_twice_either() {
    let (mut ids, mut of_reserve) = (0, 0);
    for seed in 101..=120 {
        let caught = Hunt::with_reserve(seed, Fault::None).run().await;
        assert_eq!(caught.twice, Vec::<String>::new(), "seed {seed}");
        ids += caught.ids.len();
        of_reserve += caught.of_reserve;
    }
    assert!(ids > 20_000 && of_reserve > 1_000, "{ids} ids, {of_reserve} of the reserve");
}

#[tokio::test(start_paused = true)]
async fn the_hunt_finds_planted_bugs() {
    for planted in [Fault::OneWorkerForAll, Fault::WindowsOverlap] {
        let mut found = 0;
        for seed in 1..=8 {
            let caught = Hunt::new(seed, planted).run().await;
            found += usize::from(!caught.twice.is_empty());
        }
        assert!(found >= 3, "{planted:?}: found by {found} of 8 seeds");
    }
}
