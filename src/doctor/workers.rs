//! Who holds which worker id, whether one is held twice, how many are left, and whose clock is off.

use std::collections::BTreeMap;

use mintage_core::{LeaseRow, WorkerChoice, WorkerPool};

use super::{Doctor, counted, stores::clock_told};
use crate::{
    Stood,
    config::PoolConfig,
    instance,
    keeper::clocks::{Clocks, Offset},
};

/// From so many hundredths of a pool on, a rolling restart may find no free worker id.
const FULL_PERCENT: usize = 80;

/// The worker ids of a pool in one region, as the store has them.
struct Held {
    pool: String,
    region: String,
    rows: Vec<LeaseRow>,
    now_ms: u64,
}

impl Held {
    /// Those that a process renews.
    fn live(&self) -> impl Iterator<Item = &LeaseRow> {
        self.rows.iter().filter(|row| Stood::of(row, self.now_ms) == Stood::Held)
    }

    fn path(&self) -> String {
        path_of(&self.pool, &self.region)
    }
}

impl Doctor<'_> {
    pub(super) async fn look_at_workers(&mut self) {
        let pools = self.checked.pools.clone();
        let mut all = Vec::new();
        for pool in &pools {
            for whole in self.checked.regions_of(pool) {
                if let Some(held) = self.rows_of(pool, &whole).await {
                    self.tell_room(&held, &whole);
                    self.tell_holders(pool, &held);
                    self.tell_clocks(pool, &held);
                    all.push(held);
                }
            }
            self.tell_own(pool, &all);
        }
        self.tell_duplicates(&all);
    }

    /// `None` where the store keeps no leases yet, or did not answer.
    async fn rows_of(&mut self, pool: &PoolConfig, whole: &WorkerPool) -> Option<Held> {
        let place = self.places.get(&pool.store)?;
        let leases = place.backend.leases.clone()?;
        let own_ms = self.builder.clock_shared().unix_ms();
        let now_ms = place
            .vitals
            .answer
            .and_then(|answer| Some(answer.store_now_ms?.saturating_add(own_ms.saturating_sub(answer.asked_ms))));
        let answer = leases.leases(whole).await;
        let rows = self.unanswered(path_of(&pool.name, &whole.region), answer)?;
        Some(Held { pool: pool.name.clone(), region: whole.region.clone(), rows, now_ms: now_ms.unwrap_or(own_ms) })
    }

    fn tell_room(&mut self, held: &Held, whole: &WorkerPool) {
        let path = held.path();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in held.rows.iter().filter(|row| whole.block.contains(&row.worker)) {
            *counts.entry(Stood::of(row, held.now_ms).name()).or_default() += 1;
        }
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        let capacity = whole.block.len();
        let used: usize = ["held", "expired", "resting", "revoked"].into_iter().map(count).sum();
        let told: Vec<String> = ["expired", "resting", "revoked"]
            .into_iter()
            .filter(|name| count(name) > 0)
            .map(|name| format!(", {} {name}", count(name)))
            .collect();
        let told = format!("{} of {capacity} worker ids held{}", count("held"), told.concat());
        if capacity > 0 && used >= capacity {
            let remedy = "give the pool a larger block or layout, release revoked worker ids, or run fewer processes";
            self.wrong(&path, format!("{told}: a process that starts now gets none"), remedy);
        } else if used * 100 >= capacity * FULL_PERCENT && capacity > 0 {
            let remedy = "a rolling restart needs free ones: give the pool a larger block or layout";
            self.warn(&path, format!("{told}: {} free", capacity - used), remedy);
        } else {
            self.ok(&path, told);
        }
        let strays: Vec<String> =
            held.live().filter(|row| !whole.block.contains(&row.worker)).map(|row| row.worker.to_string()).collect();
        if !strays.is_empty() && capacity > 0 {
            let told = format!(
                "worker ids outside {}..{} are held: {}",
                whole.block.start,
                whole.block.end,
                strays.join(", ")
            );
            self.wrong(&path, told, "another config runs with another block: write the same one everywhere");
        }
    }

    /// Processes of one machine share its name; a name that was given is for one process.
    fn tell_holders(&mut self, pool: &PoolConfig, held: &Held) {
        let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for row in held.live() {
            by_name.entry(&row.instance).or_default().push(row.worker);
        }
        let mut told = Vec::new();
        for (name, workers) in by_name.into_iter().filter(|(_, workers)| workers.len() > 1) {
            let ids = workers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            told.push((is_of_a_machine(name), name.to_owned(), counted(workers.len(), "process", "processes"), ids));
        }
        for (of_machine, name, processes, ids) in told {
            let message = format!("{processes} called {name} hold worker ids {ids}");
            if of_machine {
                self.ok(held.path(), message);
            } else {
                let remedy = format!(
                    "give each its own name (MINTAGE_INSTANCE, or workers.{}.instance): nobody can tell them apart in the history",
                    pool.name
                );
                self.warn(held.path(), message, remedy);
            }
        }
    }

    /// A config that insists on a worker id, and somebody else who has it.
    fn tell_own(&mut self, pool: &PoolConfig, all: &[Held]) {
        if let Some(why) = &pool.no_ordinal {
            self.wrong(path_of(&pool.name, ""), why.clone(), "without it no process starts on this machine");
        }
        let WorkerChoice::Exactly(first) = pool.which else { return };
        let own = pool.instance.clone().unwrap_or_else(instance::name);
        let region = pool.region.clone().unwrap_or_default();
        let Some(held) = all.iter().find(|held| held.pool == pool.name && held.region == region) else { return };
        let wanted = first..first.saturating_add(pool.count);
        let others: Vec<(u32, String)> = held
            .live()
            .filter(|row| wanted.contains(&row.worker) && row.instance.split('#').next() != Some(own.as_str()))
            .map(|row| (row.worker, row.instance.clone()))
            .collect();
        for (worker, holder) in others {
            let told =
                format!("this config insists on worker id {worker}, and {holder} holds it: here no process starts");
            self.warn(held.path(), told, "give each machine a worker id of its own, or leave `id` out");
        }
    }

    fn tell_clocks(&mut self, pool: &PoolConfig, held: &Held) {
        let answer = self.places.get(&pool.store).and_then(|place| place.vitals.answer);
        let answer = answer.and_then(|answer| Some((answer, answer.store_now_ms?)));
        let Some((answer, store_now_ms)) = answer.filter(|_| !self.is_local(&pool.store)) else { return };
        let (limits, own) = (pool.clock, Offset::between(answer.asked_ms, answer.took_ms, store_now_ms));
        let clocks = Clocks::new(limits);
        clocks.look(&held.rows, held.now_ms, 0);
        let comparison = clocks.compare(own);
        let Some(skew_ms) = comparison.skew_ms else {
            self.ok(held.path(), "nobody else holds a lease: no clock to compare with");
            return;
        };
        let told = clock_told(skew_ms, &format!("the median of the {} holders", comparison.peers));
        let off_ms = skew_ms.unsigned_abs();
        if off_ms > limits.refuse_start_ms {
            let told = format!("{told}, more than {} ms: no process starts here", limits.refuse_start_ms);
            self.wrong(held.path(), told, "set the clock that is wrong");
        } else if off_ms > limits.alert_ms {
            self.warn(held.path(), told, "set the clock that is wrong");
        } else {
            self.ok(held.path(), told);
        }
        self.tell_peers(pool, held, own, answer.took_ms);
    }

    /// Each holder's clock beside the median of all others, this machine among them.
    fn tell_peers(&mut self, pool: &PoolConfig, held: &Held, own: Offset, took_ms: u64) {
        let limits = pool.clock;
        let live: Vec<&LeaseRow> = held.live().collect();
        let mut told = Vec::new();
        for (at, row) in live.iter().enumerate() {
            let others = live.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, row)| row.clock_offset_ms);
            let mut others: Vec<i64> = others.chain([own.least_ms / 2 + own.most_ms / 2]).collect();
            others.sort_unstable();
            let median_ms = others.get(others.len() / 2).copied().unwrap_or_default();
            let off_ms = row.clock_offset_ms.saturating_sub(median_ms);
            // What a renewal took is in its figure: as much as an answer takes now is nobody's fault.
            let beyond_ms = off_ms.unsigned_abs().saturating_sub(took_ms);
            if beyond_ms > limits.alert_ms {
                let way = if off_ms < 0 { "behind" } else { "ahead of" };
                let message = format!(
                    "the clock of {} (worker id {}) was {beyond_ms} ms {way} the other holders' at its last renewal",
                    row.instance, row.worker
                );
                told.push((message, beyond_ms > limits.refuse_start_ms));
            }
        }
        for (message, refused) in told {
            if refused {
                let message = format!("{message}, more than {} ms: it would not start again", limits.refuse_start_ms);
                self.wrong(held.path(), message, "set that machine's clock");
            } else {
                self.warn(held.path(), message, "set that machine's clock");
            }
        }
    }

    /// One worker id, held twice by processes that mint for one entity: in two regions, or in a pool and its reserve.
    fn tell_duplicates(&mut self, all: &[Held]) {
        let mut told = Vec::new();
        for pool in self.checked.pools.iter().filter(|pool| pool.region.is_some() || pool.fallback.is_some()) {
            let mut holders: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            let related = |held: &&Held| held.pool == pool.name || Some(&held.pool) == pool.fallback.as_ref();
            for held in all.iter().filter(related) {
                for row in held.live() {
                    holders.entry(row.worker).or_default().push(format!("{} in {}", row.instance, held.path()));
                }
            }
            for (worker, holders) in holders.into_iter().filter(|(_, holders)| holders.len() > 1) {
                told.push((
                    path_of(&pool.name, ""),
                    format!("worker id {worker} is held twice: by {}", holders.join(" and by ")),
                ));
            }
        }
        for (path, message) in told {
            let remedy = "stop one of them at once, and write the same [regions] everywhere: both can mint the same id";
            self.wrong(path, message, remedy);
        }
    }
}

/// Whether a name was made from a host and its boot, as it is where nobody gives one.
fn is_of_a_machine(name: &str) -> bool {
    let boot = name.rsplit_once('/').map(|(_, boot)| boot);
    boot.is_some_and(|boot| boot.len() == 8 && boot.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn path_of(pool: &str, region: &str) -> String {
    if region.is_empty() { format!("workers.{pool}") } else { format!("workers.{pool} {region}") }
}
