//! What befalls the fleet, and when: by seed, though the machine decides what it meets.

use std::{path::Path, process::Child, thread, time::Duration};

use mintage_core::StoreError;
use mintage_schemes::Entropy;
use mintage_servers_for_tests::{Fault, Way};
use tokio::{runtime::Runtime, time::Instant};

use crate::{
    fleet::{Fleet, faketime},
    mutant::Mutant,
    oracle::{self, Catch},
    settings::Settings,
    store::{Kind, Operator, Store, TIMES},
};

/// Ids of all kinds that one member makes in a second, unless it cannot.
const RATE: u64 = 150_000;
/// Between two events.
const PAUSE_MS: (u64, u64) = (50, 200);
/// Between two events that befall the store.
const STORE_EVERY_MS: u64 = 4_000;
/// Longer than the others wait for their leader before they elect another: a second of etcd's, a second and a half of ZooKeeper's.
const LEADER_STOP_MS: u64 = 2_500;
/// How long the fleet is left in peace at first: pools, sequences and records are made.
const CALM_MS: u64 = 1_500;
/// How long it may take until everybody who can mints again, once all faults are over.
const RECOVERY_MS_MAX: u64 = 30_000;
/// Clocks go wrong by a tick of a time server, by a leap second and more, by a wrong time zone.
const STEPS_MS: [u64; 3] = [5, 2_000, 3_600_000];
/// Where a process's own clock is the store's: a clock an hour ahead keeps a worker id from everybody for so long.
const SMALL_STEPS_MS: [u64; 3] = [5, 50, 250];

/// As long as a worker id takes from one holder to the next: what a lease without windows does not survive.
const LEASE_STEPS_MS: [u64; 3] = [500, 1_000, 2_000];

/// What a hunt on one store came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hunted {
    pub(crate) catch: Catch,
    pub(crate) claims: Vec<u64>,
    pub(crate) kills: u64,
    pub(crate) restarts: u64,
    pub(crate) pauses: u64,
    pub(crate) longest_pause_ms: u64,
    pub(crate) steps: u64,
    pub(crate) largest_step_ms: u64,
    pub(crate) partitions: u64,
    /// Those of the partitions in which packets were lost, not connections held.
    pub(crate) cables: u64,
    pub(crate) store_crashes: u64,
    pub(crate) store_pauses: u64,
    /// Leaders that moved and stores that forgot.
    pub(crate) failovers: u64,
    pub(crate) seconds: u64,
    pub(crate) recovered: bool,
    pub(crate) trouble: Vec<String>,
}

struct Nemesis<'a> {
    store: &'a mut Store,
    fleet: Fleet,
    operator: Operator,
    runtime: &'a Runtime,
    dice: Entropy,
    mutant: Option<Mutant>,
    /// What ends by itself: when, and what.
    due: Vec<(Instant, Due)>,
    retired: Vec<Child>,
    hunted: Hunted,
}

enum Due {
    Continue(usize),
    Heal(usize),
    Start(usize),
}

/// Hunts on one store. `None` where its server is not installed.
pub(crate) fn hunt(
    kind: Kind,
    settings: &Settings,
    seed: u64,
    mutant: Option<Mutant>,
    folder: &Path,
    runtime: &Runtime,
) -> Option<Hunted> {
    let mut store = Store::start(kind)?;
    let _in_runtime = runtime.enter();
    let fleet = Fleet::new(&store, folder, settings.processes, RATE, mutant);
    let operator = Operator::of(&store);
    let dice = Entropy::seeded(seed);
    let (due, retired, hunted) = (Vec::new(), Vec::new(), Hunted::default());
    let nemesis = Nemesis { store: &mut store, fleet, operator, runtime, dice, mutant, due, retired, hunted };
    Some(nemesis.run(settings, folder))
}

impl Nemesis<'_> {
    fn run(mut self, settings: &Settings, folder: &Path) -> Hunted {
        let began = Instant::now();
        let count = settings.processes;
        // The first one makes what all need.
        self.fleet.start(0);
        thread::sleep(Duration::from_millis(CALM_MS));
        (1..count).for_each(|which| self.fleet.start(which));
        thread::sleep(Duration::from_millis(CALM_MS));
        let mut store_next = Instant::now() + Duration::from_millis(STORE_EVERY_MS / 2);
        let mut told = Instant::now();
        loop {
            let (least, most) = PAUSE_MS;
            thread::sleep(Duration::from_millis(least + self.roll(most - least)));
            self.settle(false);
            let which = self.roll(count as u64) as usize;
            self.befall(which);
            if Instant::now() >= store_next {
                self.befall_the_store();
                // Each time the store forgets is a chance for the rule that leaves it unsaid.
                let often = if matches!(self.mutant, Some(Mutant::NoBump | Mutant::NoBumpInFailover)) { 2 } else { 1 };
                store_next = Instant::now() + Duration::from_millis(STORE_EVERY_MS / often);
            }
            let ids = oracle::ids_so_far(folder);
            if told.elapsed() >= Duration::from_secs(10) {
                told = Instant::now();
                println!(
                    "  {:>4} s  {ids} ids, {} kills, {} pauses",
                    began.elapsed().as_secs(),
                    self.hunted.kills,
                    self.hunted.pauses
                );
            }
            if began.elapsed() >= Duration::from_secs(settings.seconds) && ids >= settings.ids {
                break;
            }
        }
        self.hunted.recovered = self.recover(folder);
        self.hunted.seconds = began.elapsed().as_secs();
        self.fleet.end();
        for mut member in std::mem::take(&mut self.retired) {
            let _ = member.kill();
            let _ = member.wait();
        }
        match self.runtime.block_on(self.operator.claims()) {
            Ok(claims) => self.hunted.claims = claims,
            Err(error) => self.hunted.trouble.push(format!("the store does not tell its claims: {error}")),
        }
        match oracle::judge(folder) {
            Ok(catch) => self.hunted.catch = catch,
            Err(error) => self.hunted.trouble.push(format!("the ids cannot be read: {error}")),
        }
        self.hunted
    }

    fn roll(&self, sides: u64) -> u64 {
        // Seeded, so it does not fail.
        self.dice.draw_u64().unwrap_or(0) % sides.max(1)
    }

    fn later(&mut self, ms: u64, due: Due) {
        self.due.push((Instant::now() + Duration::from_millis(ms), due));
    }

    /// Ends what is due; all of it, if `at_once`.
    fn settle(&mut self, at_once: bool) {
        let now = Instant::now();
        let (due, wait): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.due).into_iter().partition(|(when, _)| at_once || *when <= now);
        self.due = wait;
        for (_, due) in due {
            match due {
                Due::Start(which) => self.fleet.start(which),
                Due::Continue(which) => self.with(which, |slot| slot.stop(false)),
                Due::Heal(which) => self.with(which, |slot| slot.heal()),
            }
        }
        self.retired.retain_mut(|member| matches!(member.try_wait(), Ok(None)));
    }

    fn with(&mut self, which: usize, act: impl FnOnce(&mut crate::fleet::Slot)) {
        self.fleet.slots.get_mut(which).map(act).unwrap_or_default();
    }

    fn befall(&mut self, which: usize) {
        let Some(slot) = self.fleet.slots.get_mut(which) else { return };
        if !slot.is_alive() || slot.is_stopped {
            return;
        }
        // Where a wrong rule shows: in changes of hands, and with wrong clocks.
        let sides = match self.mutant {
            Some(Mutant::NoBump | Mutant::NoBumpInFailover) => 20,
            Some(Mutant::LeaseOnly) => 40,
            _ => 100,
        };
        match self.roll(sides) {
            0..=19 => self.kill(which),
            20..=44 => self.step_clock(which),
            45..=64 => self.pause(which),
            65..=84 => self.partition(which),
            85..=92 => self.restart(which),
            _ => self.with(which, |slot| slot.fork()),
        }
    }

    fn kill(&mut self, which: usize) {
        self.with(which, |slot| slot.kill9());
        self.hunted.kills += 1;
        let ms = self.roll(300);
        self.later(ms, Due::Start(which));
    }

    fn pause(&mut self, which: usize) {
        let tenths = [1, 5, 12, 30][self.roll(4) as usize & 3];
        let ms = TIMES.ttl_ms * tenths / 10;
        self.with(which, |slot| slot.stop(true));
        self.hunted.pauses += 1;
        self.hunted.longest_pause_ms = self.hunted.longest_pause_ms.max(ms);
        self.later(ms, Due::Continue(which));
    }

    fn step_clock(&mut self, which: usize) {
        if faketime().is_none() {
            return;
        }
        let steps = match self.mutant {
            Some(Mutant::LeaseOnly) => LEASE_STEPS_MS,
            _ if self.store.kind.trusts_the_process() => SMALL_STEPS_MS,
            _ => STEPS_MS,
        };
        let by_ms = steps.get(self.roll(3) as usize).copied().unwrap_or(0);
        let error_ms = match self.roll(3) {
            0 => by_ms as i64,
            1 => -(by_ms as i64),
            _ => 0,
        };
        let mut step_ms = 0;
        self.with(which, |slot| {
            step_ms = slot.error_ms.abs_diff(error_ms);
            slot.set_clock(error_ms);
        });
        self.hunted.steps += u64::from(step_ms > 0);
        self.hunted.largest_step_ms = self.hunted.largest_step_ms.max(step_ms);
    }

    fn partition(&mut self, which: usize) {
        let fault = match self.roll(6) {
            0 => Some(Fault::Blackhole(Way::Both)),
            1 => Some(Fault::Blackhole(Way::ToServer)),
            2 => Some(Fault::Blackhole(Way::ToClient)),
            3 => Some(Fault::LoseAnswer),
            4 => Some(Fault::Delay { ms: 200 }),
            _ => None,
        };
        let ms = 200 + self.roll(2 * TIMES.window_ms);
        let Some(slot) = self.fleet.slots.get(which) else { return };
        let pulled = fault.is_none() && slot.unplug();
        if pulled || slot.cut_off(&fault.unwrap_or(Fault::Blackhole(Way::Both))) {
            self.hunted.partitions += 1;
            self.hunted.cables += u64::from(pulled);
            self.later(ms, Due::Heal(which));
        }
    }

    fn restart(&mut self, which: usize) {
        let mut member = None;
        self.with(which, |slot| member = slot.retire());
        self.retired.extend(member);
        self.hunted.restarts += 1;
        self.fleet.start(which);
    }

    fn befall_the_store(&mut self) {
        match self.store.kind {
            Kind::Sqlite | Kind::File => {}
            // The store is well, and still it happens.
            _ if self.mutant == Some(Mutant::LeaseOnly) => {}
            Kind::EtcdThree | Kind::ZooKeeperThree => self.move_the_leader(),
            _ if self.mutant == Some(Mutant::NoBumpInFailover) => self.promote_unseen(),
            _ if self.mutant.is_some() => self.restore_a_backup(),
            Kind::PostgresPair | Kind::RedisPair => match self.roll(4) {
                0 => self.crash_the_store(),
                1 => self.pause_the_store(),
                2 if self.store.kind == Kind::RedisPair => self.promote_beside_the_primary(),
                _ => self.promote_the_standby(),
            },
            _ => match self.roll(3) {
                0 => self.crash_the_store(),
                1 => self.pause_the_store(),
                _ => self.restore_a_backup(),
            },
        }
    }

    fn crash_the_store(&mut self) {
        let Some(server) = self.store.server() else { return };
        let next = self.runtime.block_on(self.operator.next_number());
        server.kill9();
        thread::sleep(Duration::from_millis(200));
        server.restart();
        self.store.wait_for_the_standby();
        self.hunted.store_crashes += 1;
        // Some stores let nobody count on before that.
        let raised = next.and_then(|next| self.runtime.block_on(self.operator.raise_above(next)));
        self.note("raise after a crash", raised);
    }

    fn pause_the_store(&mut self) {
        let Some(server) = self.store.server() else { return };
        server.stop();
        thread::sleep(Duration::from_millis(300 + self.roll(1_200)));
        if let Some(server) = self.store.server() {
            server.cont();
        }
        self.hunted.store_pauses += 1;
    }

    /// The first time a backup is made; then it is what the store comes back from, with everything since forgotten.
    fn restore_a_backup(&mut self) {
        if !self.store.has_backup() {
            let next = self.runtime.block_on(self.operator.next_number());
            self.store.back_up();
            self.hunted.store_crashes += 1;
            let raised = next.and_then(|next| self.runtime.block_on(self.operator.raise_above(next)));
            self.note("raise after a backup", raised);
            return;
        }
        self.fleet.slots.iter().for_each(|slot| slot.disconnect());
        let next = self.runtime.block_on(self.operator.next_number());
        self.store.restore();
        let taken_over = next.and_then(|next| self.runtime.block_on(self.operator.take_over(next, self.mutant)));
        if taken_over.is_ok() {
            self.hunted.failovers += 1;
        }
        self.note("take over from a backup", taken_over);
        self.fleet.slots.iter().for_each(|slot| slot.heal());
    }

    /// What was acknowledged while the standby heard of nothing is forgotten. The store sees for itself that its life has ended, and
    /// nobody bumps it; the numbers are raised, as it then asks.
    fn promote_the_standby(&mut self) {
        self.store.cut_off_the_standby();
        thread::sleep(Duration::from_millis(100 + self.roll(2 * TIMES.window_ms)));
        let next = self.runtime.block_on(self.operator.next_number());
        let Some(port) = self.store.promote_the_standby() else { return };
        self.fleet.slots.iter().for_each(|slot| slot.lead_to(port));
        self.operator = Operator::of(self.store);
        self.store.add_a_standby();
        let raised = next.and_then(|next| self.runtime.block_on(self.operator.raise_above(next)));
        self.note("raise after a failover", raised);
        self.hunted.failovers += 1;
    }

    /// The same where nothing is bumped. A process that remembers more than the new primary knows has it bumped nevertheless: so those
    /// who were there before are kept from it for the rest of their windows, and others come that remember nothing.
    fn promote_unseen(&mut self) {
        self.store.cut_off_the_standby();
        let fresh: Vec<usize> = (0..self.fleet.slots.len()).filter(|which| which % 2 == 0).collect();
        fresh.iter().for_each(|which| self.with(*which, |slot| slot.kill9()));
        // What the new primary knows of is over when they come, and what it does not know of is not.
        thread::sleep(Duration::from_millis(TIMES.ttl_ms - 300 + self.roll(200)));
        let next = self.runtime.block_on(self.operator.next_number());
        let Some(port) = self.store.promote_the_standby_unseen() else { return };
        // First of all: nobody starts while numbers wait.
        self.operator = Operator::of(self.store);
        let raised = next.and_then(|next| self.runtime.block_on(self.operator.raise_above(next)));
        self.note("raise after a failover", raised);
        for which in 0..self.fleet.slots.len() {
            let cut_off = !fresh.contains(&which);
            self.with(which, |slot| {
                slot.lead_to(port);
                if cut_off {
                    slot.cut_off(&Fault::Blackhole(Way::Both));
                }
            });
            self.later(
                if cut_off { TIMES.window_ms } else { 0 },
                if cut_off { Due::Heal(which) } else { Due::Start(which) },
            );
        }
        self.settle(false);
        thread::sleep(Duration::from_millis(TIMES.window_ms));
        self.settle(false);
        self.store.add_a_standby();
        self.hunted.failovers += 1;
    }

    /// Two primaries at once: some processes are led to the new one, the others find the old one, which goes on until it misses its
    /// replica. Only then can somebody say above which number all is free.
    fn promote_beside_the_primary(&mut self) {
        self.store.cut_off_the_standby();
        thread::sleep(Duration::from_millis(self.roll(500)));
        let Some(port) = self.store.promote_beside_the_primary() else { return };
        self.fleet.slots.iter().step_by(2).for_each(|slot| slot.lead_to(port));
        thread::sleep(Duration::from_millis(TIMES.pair_guard_ms));
        let next = self.runtime.block_on(self.operator.next_number());
        self.fleet.slots.iter().for_each(|slot| slot.lead_to(port));
        self.store.end_the_former();
        self.operator = Operator::of(self.store);
        self.store.add_a_standby();
        let raised = next.and_then(|next| self.runtime.block_on(self.operator.raise_above(next)));
        self.note("raise after two primaries", raised);
        self.hunted.failovers += 1;
    }

    fn move_the_leader(&mut self) {
        let kills = self.roll(2) == 0;
        let Some(leader) = self.store.leader() else { return };
        if kills {
            leader.kill9();
            thread::sleep(Duration::from_millis(1_500));
            leader.restart();
        } else {
            leader.stop();
            thread::sleep(Duration::from_millis(LEADER_STOP_MS));
            leader.cont();
        }
        self.hunted.failovers += 1;
        self.hunted.store_crashes += u64::from(kills);
        self.hunted.store_pauses += u64::from(!kills);
    }

    /// All faults are over. Whether as many members as there are worker ids mint again.
    fn recover(&mut self, folder: &Path) -> bool {
        self.settle(true);
        for slot in &mut self.fleet.slots {
            slot.heal();
            slot.stop(false);
            slot.set_clock(0);
        }
        (0..self.fleet.slots.len()).for_each(|which| self.fleet.start(which));
        let deadline = Instant::now() + Duration::from_millis(RECOVERY_MS_MAX);
        let wanted = self.fleet.slots.len().min(TIMES.worker_ids as usize);
        while Instant::now() < deadline {
            let before = oracle::files_of_events(folder);
            thread::sleep(Duration::from_millis(1_000));
            let after = oracle::files_of_events(folder);
            let growing =
                after.iter().filter(|(file, len)| before.get(*file).is_none_or(|before| before < len)).count();
            if growing >= wanted {
                return true;
            }
        }
        self.hunted.trouble.push("not everybody who can mints again".to_owned());
        false
    }

    fn note(&mut self, what: &str, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            self.hunted.trouble.push(format!("{what}: {error}"));
        }
    }
}
