//! One run: processes, a store, a network and the faults that come over them, in virtual time, all of it by seed.

use std::{
    error::Error as _,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use mintage::{AnyMinter, Config, Registry};
use mintage_core::{AnyId, Clock, IdScheme, RangeStore, Sequence};
use mintage_schemes::{Entropy, Segment, SegmentSettings};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    clock::SkewedClock,
    fork,
    line::{Line, Network, SimulatedStores, Weather, locked, publish},
    mutants::Rules,
    oracle::{Ids, Last, Verdict, judge_the_log},
    setting::{RANGE_LEN, Setting},
    store::{Disk, Doom, Handover, LOST_WRITES_MAX, Loss, Store},
};

/// How many things happen in a run.
const EVENTS: usize = 700;

/// Clocks go wrong by a tick of a time server, by a leap second, by a wrong time zone, by a dead battery.
const WALL_STEPS_MS: [u64; 7] = [1, 20, 300, 1_000, 60_000, 3_600_000, 24 * 3_600_000];

pub(crate) struct World {
    setting: Setting,
    rules: Rules,
    dice: Entropy,
    began: Instant,
    store: Arc<Mutex<Store>>,
    processes: Vec<Process>,
    /// Whom no change of weather reaches until the store has failed over.
    /// Its worker id is the second number.
    cut_off: Option<(usize, u32)>,
    ids: Ids,
    lives: usize,
    verdict: Verdict,
}

/// A machine: its clock and its network stay, its process comes and goes.
struct Process {
    clock: SkewedClock,
    network: Arc<Network>,
    state: State,
    /// Since when it is paused: what its clock showed.
    paused: Option<u64>,
}

enum State {
    Dead,
    Starting(JoinHandle<Result<Running, String>>, Arc<Line>, usize),
    Alive(Running, Life),
    /// It may mint on until it cannot.
    Ending(JoinHandle<()>, Minters, Life),
}

struct Running {
    registry: Registry,
    minters: Minters,
}

#[derive(Clone)]
pub(crate) struct Minters {
    pub(crate) events: AnyMinter,
    pub(crate) orders: Arc<Segment>,
}

struct Life {
    number: usize,
    line: Arc<Line>,
    last: Last,
    minted: [u64; 2],
}

impl World {
    /// Must be made in a runtime whose time is paused.
    pub(crate) fn new(seed: u64, rules: Rules) -> Self {
        let dice = Entropy::seeded(seed);
        let setting = Setting::of(&dice, rules.fixed);
        let began = Instant::now();
        let store = Store::new(SkewedClock::right(began), rules, seed ^ (1 << 63));
        let store = Arc::new(Mutex::new(store));
        let processes = (0..setting.processes as u64)
            .map(|number| Process {
                clock: SkewedClock::right(began),
                network: Network::new(
                    Arc::clone(&store),
                    seed ^ ((number + 1) << 48),
                    setting.timeout_ms,
                    2 * setting.window_ms,
                    rules,
                    setting.unit_ms,
                ),
                state: State::Dead,
                paused: None,
            })
            .collect();
        Self {
            setting,
            rules,
            dice,
            began,
            store,
            processes,
            cut_off: None,
            ids: Ids::default(),
            lives: 0,
            verdict: Verdict::default(),
        }
    }

    pub(crate) async fn run(mut self) -> Verdict {
        self.begin().await;
        for _ in 0..EVENTS {
            self.let_time_pass().await;
            self.let_something_happen();
            self.mint_everywhere();
        }
        self.recover().await;
        let claims = {
            let store = locked(&self.store);
            judge_the_log(&store.log, &mut self.verdict);
            store.log.claims.len()
        };
        self.verdict.claims = claims as u64;
        self.verdict
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.draw_u64().unwrap() % sides
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let at_ms = self.now_ms();
        self.verdict.note(at_ms, what);
    }

    /// One process makes the pool, the sequence and the records, which no crash loses: a fleet that is new is not looked at.
    async fn begin(&mut self) {
        self.start(0);
        while !matches!(self.processes[0].state, State::Alive(..)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.reap();
            assert!(!matches!(self.processes[0].state, State::Dead), "{}", self.verdict.story());
        }
        locked(&self.store).settle();
    }

    async fn let_time_pass(&mut self) {
        let ms = 1 + self.roll(60 * self.setting.scale);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.reap();
    }

    fn let_something_happen(&mut self) {
        let which = self.roll(self.setting.processes as u64) as usize;
        match self.roll(116) {
            0..=21 | 47..=58 if self.cut_off.is_some_and(|(cut_off, _)| cut_off == which) => {}
            0..=9 => self.change_the_weather(which),
            10..=21 => self.processes[which].network.set(Weather::FINE),
            22..=26 => self.step_clock(which),
            27..=32 => self.processes[which].clock.set_error_ms(0),
            33..=37 => self.pause(which),
            38..=46 => self.resume(which),
            47..=52 => self.crash(which),
            53..=58 => self.close(which),
            59..=60 if self.setting.fails_over => self.crash_the_store(),
            61..=68 => self.restart_the_store(),
            69 => self.step_the_stores_clock(),
            70..=74 => self.raise(),
            75 => self.spoil_the_disk(),
            76..=85 => locked(&self.store).disk = Disk::Fine,
            // Dear: the operating system copies the program.
            86 if self.roll(3) == 0 => self.fork(which),
            _ => self.start(which),
        }
    }

    fn change_the_weather(&mut self, which: usize) {
        let timeout_ms = self.setting.timeout_ms;
        let weather = match self.roll(6) {
            0 => Weather::CUT_OFF,
            1 => Weather { answers_lost: 100, ..Weather::FINE },
            2 => Weather { answers_lost: 50, repeated: 50, requests_lost: 10, delay_ms_max: timeout_ms },
            3 => Weather { delay_ms_max: 3 * timeout_ms, repeated: 30, ..Weather::FINE },
            4 => Weather { repeated: 100, delay_ms_max: timeout_ms / 4, ..Weather::FINE },
            _ => Weather { requests_lost: 30, answers_lost: 30, repeated: 30, delay_ms_max: timeout_ms / 2 },
        };
        self.note(|| format!("process {which}: {weather:?}"));
        self.processes[which].network.set(weather);
    }

    fn step_clock(&mut self, which: usize) {
        let step_ms = WALL_STEPS_MS[self.roll(WALL_STEPS_MS.len() as u64) as usize] as i64;
        let by_ms = if self.roll(2) == 0 { step_ms } else { -step_ms };
        let clock = &self.processes[which].clock;
        clock.set_error_ms(clock.error_ms() + by_ms);
        self.verdict.steps += 1;
        self.note(|| format!("process {which}: its clock steps by {by_ms} ms"));
    }

    fn pause(&mut self, which: usize) {
        let process = &mut self.processes[which];
        if process.paused.is_none() {
            process.paused = Some(process.clock.unix_ms());
            process.network.pause(true);
            self.verdict.pauses += 1;
            self.note(|| format!("process {which} is paused"));
        }
    }

    /// A thread that had read the clock before the pause uses what it read after it.
    fn resume(&mut self, which: usize) {
        let process = &mut self.processes[which];
        let Some(stale_ms) = process.paused.take() else { return };
        process.network.pause(false);
        let clock = process.clock.clone();
        self.note(|| format!("process {which} goes on"));
        clock.reading_stale(stale_ms, || self.mint(which, 1));
    }

    fn crash(&mut self, which: usize) {
        let process = &mut self.processes[which];
        if matches!(process.state, State::Dead) {
            return;
        }
        if let State::Starting(task, ..) = &process.state {
            task.abort();
        }
        if let State::Ending(task, ..) = &process.state {
            task.abort();
        }
        process.state = State::Dead;
        process.paused = None;
        process.network.pause(false);
        self.verdict.crashes += 1;
        self.note(|| format!("process {which} crashes"));
    }

    fn start(&mut self, which: usize) {
        let process = &mut self.processes[which];
        if !matches!(process.state, State::Dead) || process.paused.is_some() {
            return;
        }
        self.lives += 1;
        let life = self.lives;
        let line = Line::new(&process.network);
        let name = format!("{which}");
        publish(&name, &line);
        let config = Config::parse(&self.setting.config(&format!("sim:{name}")), "mintage.toml").unwrap();
        let starting = start(config, process.clock.clone(), Arc::clone(&line), life as u64);
        process.state = State::Starting(tokio::spawn(starting), line, life);
        self.note(|| format!("process {which} starts as life {life}"));
    }

    fn close(&mut self, which: usize) {
        let process = &mut self.processes[which];
        if process.paused.is_some() || !matches!(process.state, State::Alive(..)) {
            return;
        }
        let State::Alive(running, life) = std::mem::replace(&mut process.state, State::Dead) else { return };
        let Running { registry, minters } = running;
        let orders = Arc::clone(&minters.orders);
        let ending = async move {
            // What fails here is lost: a gap, or a worker id that rests.
            let _ = orders.close().await;
            let _ = registry.close().await;
        };
        process.state = State::Ending(tokio::spawn(ending), minters, life);
        self.note(|| format!("process {which} ends"));
    }

    /// Now; or soon after a holder that is cut off has lost its worker id to another. Whoever takes over the store may know
    /// neither.
    fn crash_the_store(&mut self) {
        if self.cut_off.is_some() || locked(&self.store).is_down {
            return;
        }
        if self.roll(4) == 0 {
            locked(&self.store).is_down = true;
            return self.note(|| "the store crashes".to_owned());
        }
        // The lowest worker id is claimed before the others.
        let Some((worker, which)) = self.holders().min() else { return };
        let writes = [0, 0, self.roll(20) as usize][self.roll(3) as usize];
        locked(&self.store).doom = Doom::AfterTakeoverOf(worker, writes);
        self.processes[which].network.set(Weather::CUT_OFF);
        self.cut_off = Some((which, worker));
        self.note(|| {
            format!("process {which} is cut off; the store will crash {writes} writes after worker id {worker} changes hands")
        });
    }

    /// Who believes to hold which worker id, the worker id first.
    fn holders(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.processes.iter().enumerate().filter_map(|(which, process)| match &process.state {
            State::Alive(running, _) => Some((running.registry.leases().first()?.worker, which)),
            _ => None,
        })
    }

    fn restart_the_store(&mut self) {
        if !locked(&self.store).is_down {
            return;
        }
        let loss = match self.roll(6) {
            0..=2 => Loss::Takeover,
            3 => Loss::Writes(LOST_WRITES_MAX),
            4 => Loss::Writes(20),
            _ => Loss::Writes(self.roll(4) as usize),
        };
        let behind_ms_max = (self.rules.behind_ms_max)(&self.setting);
        let behind_ms = [0, behind_ms_max, self.roll(behind_ms_max + 1)][self.roll(3) as usize];
        let late_ms_max = [0, self.setting.window_ms][self.roll(2) as usize];
        let mut store = locked(&self.store);
        let lost = store.fail_over(loss, Handover { behind_ms, late_ms_max });
        store.is_down = false;
        drop(store);
        self.verdict.failovers += 1;
        self.note(|| format!("another store takes over and lacks {lost} writes"));
        // What cut processes off may be what felled the store: then they all find the new one at the same time, or all but the
        // one that knows what the new one has forgotten.
        let cut_off = self.cut_off.take();
        let unaware =
            self.holders().find(|(worker, which)| cut_off.is_some_and(|(old, id)| *worker == id && *which != old));
        let mended = self.roll(3);
        if mended > 0 {
            self.processes.iter().for_each(|process| process.network.set(Weather::FINE));
            self.note(|| "the network is mended".to_owned());
        }
        if let Some((worker, which)) = unaware.filter(|_| mended > 1) {
            self.processes[which].network.set(Weather::CUT_OFF);
            self.note(|| format!("except for process {which}, which goes on with worker id {worker}"));
        }
    }

    fn spoil_the_disk(&mut self) {
        let disk = [Disk::Full, Disk::Failing][self.roll(2) as usize];
        locked(&self.store).disk = disk;
        self.verdict.full_disks += 1;
        self.note(|| format!("the store's disk: {disk:?}"));
    }

    /// Parent and child go on at the same moment, with the same minters.
    fn fork(&mut self, which: usize) {
        let process = &self.processes[which];
        let (minters, life) = match &process.state {
            State::Alive(running, life) => (&running.minters, life),
            State::Ending(_, minters, life) => (minters, life),
            _ => return,
        };
        if process.paused.is_some() {
            return;
        }
        let report = fork::go_on_in_a_child(minters, &process.clock, self.rules.notices_forks);
        let Some(report) = report else { return };
        let (number, line) = (life.number, Arc::clone(&life.line));
        self.verdict.forks += 1;
        self.note(|| format!("life {number} forks"));
        let mut last = Last::default();
        for id in report.snowflakes() {
            self.ids.snowflake(&self.setting, &mut self.verdict, id, number, &line, &mut last);
        }
        for id in report.numbers() {
            self.ids.number(&mut self.verdict, id, number, &mut last);
        }
        if !report.is_as_it_should_be() {
            self.verdict.violations.push(format!("a child of life {number} went on with its minters: {report:?}"));
        }
        self.mint(which, 2);
    }

    /// Within a window either way: what it grants too far ahead keeps worker ids from everybody for so long.
    fn step_the_stores_clock(&mut self) {
        let error_ms = self.roll(2 * self.setting.window_ms + 1) as i64 - self.setting.window_ms as i64;
        locked(&self.store).clock.set_error_ms(error_ms);
        self.note(|| format!("the store's clock is now off by {error_ms} ms"));
    }

    /// The operator knows what was handed out, or takes care to stay above it.
    fn raise(&mut self) {
        let mut store = locked(&self.store);
        if store.is_down || !store.is_waiting_for_a_raise() {
            return;
        }
        let held_end = store.numbers_end();
        let floor = if self.rules.raise_above_what_is_held { held_end } else { self.ids.numbers_end };
        let raised = store.raise_all(floor);
        drop(store);
        self.note(|| format!("an operator raises the sequence to {floor}: {raised:?}"));
    }

    /// Takes note of what has started and what has ended.
    fn reap(&mut self) {
        for which in 0..self.processes.len() {
            let process = &mut self.processes[which];
            let is_done = match &process.state {
                State::Starting(task, ..) => task.is_finished(),
                State::Ending(task, ..) => task.is_finished(),
                _ => false,
            };
            if !is_done {
                continue;
            }
            match std::mem::replace(&mut process.state, State::Dead) {
                State::Starting(task, line, number) => match result_of(task) {
                    Some(Ok(running)) => {
                        let life = Life { number, line, last: Last::default(), minted: [0; 2] };
                        process.state = State::Alive(running, life);
                        self.note(|| format!("life {number} has started"));
                    }
                    Some(Err(told)) => self.note(|| format!("life {number} did not start: {told}")),
                    None => {}
                },
                State::Ending(_, minters, life) if minters.events.mint().is_ok() || minters.orders.mint().is_ok() => {
                    self.verdict.violations.push(format!("life {} mints after its end", life.number));
                }
                _ => {}
            }
        }
    }

    fn mint_everywhere(&mut self) {
        for which in 0..self.processes.len() {
            if self.processes[which].paused.is_none() {
                let burst = [1, 2, 4, 40][self.roll(4) as usize];
                self.mint(which, burst);
            }
        }
    }

    /// Mints up to `count` ids of each kind.
    fn mint(&mut self, which: usize, count: u64) {
        let (setting, verdict, ids) = (&self.setting, &mut self.verdict, &mut self.ids);
        let (minters, life) = match &mut self.processes[which].state {
            State::Alive(running, life) => (&running.minters, life),
            State::Ending(_, minters, life) => (&*minters, life),
            _ => return,
        };
        for _ in 0..count {
            match minters.events.mint() {
                Ok(AnyId::Int(id)) => {
                    ids.snowflake(setting, verdict, id, life.number, &life.line, &mut life.last);
                    life.minted[0] += 1;
                }
                _ => {
                    verdict.refusals += 1;
                    break;
                }
            }
        }
        for _ in 0..count.min(10) {
            let Ok(number) = minters.orders.mint() else {
                verdict.refusals += 1;
                break;
            };
            ids.number(verdict, number, life.number, &mut life.last);
            life.minted[1] += 1;
        }
    }

    /// All faults are over: as many processes as there are worker ids must soon mint again.
    async fn recover(&mut self) {
        self.restart_the_store();
        {
            let mut store = locked(&self.store);
            store.clock.set_error_ms(0);
            store.disk = Disk::Fine;
            store.doom = Doom::Never;
        }
        self.raise();
        for which in 0..self.processes.len() {
            self.processes[which].network.set(Weather::FINE);
            self.processes[which].clock.set_error_ms(0);
            self.resume(which);
        }
        let fleet = self.setting.worker_ids().min(self.setting.processes);
        for which in fleet..self.processes.len() {
            self.crash(which);
        }
        self.note(|| "all faults are over".to_owned());
        let over_ms = self.now_ms();
        let mut waiting: Vec<usize> = (0..fleet).collect();
        let mut before = vec![None; fleet];
        while !waiting.is_empty() {
            if self.now_ms() - over_ms > self.setting.recovery_ms_max() {
                let told = format!("processes {waiting:?} do not mint again: {:?}", self.setting);
                self.verdict.violations.push(told);
                return;
            }
            tokio::time::sleep(Duration::from_millis(50 * self.setting.scale)).await;
            self.reap();
            for which in 0..fleet {
                self.start(which);
                self.mint(which, 3);
            }
            waiting.retain(|which| {
                let State::Alive(_, life) = &self.processes[*which].state else { return true };
                // From here on, in this life.
                let (number, first) = before[*which].unwrap_or((life.number, life.minted));
                let since = if number == life.number { first } else { [0; 2] };
                before[*which] = Some((number, since));
                !(life.minted[0] > since[0] && life.minted[1] > since[1])
            });
        }
    }
}

/// What a process does first.
async fn start(config: Config, clock: SkewedClock, line: Arc<Line>, seed: u64) -> Result<Running, String> {
    let builder = Registry::builder().builtins().plugin::<SimulatedStores>().clock(clock);
    let registry = builder.build(config).await.map_err(|error| format!("{error}: {:?}", error.source()))?;
    let events = registry.any_minter("events").unwrap();
    match open_orders(line, seed).await {
        Ok(orders) => Ok(Running { minters: Minters { events, orders: Arc::new(orders) }, registry }),
        Err(told) => {
            // What fails here lets a worker id rest.
            let _ = registry.close().await;
            Err(told)
        }
    }
}

async fn open_orders(line: Arc<Line>, seed: u64) -> Result<Segment, String> {
    let sequence = Sequence::new("orders", 1);
    line.create(&sequence).await.map_err(|error| error.to_string())?;
    let settings = SegmentSettings::default().range_len(RANGE_LEN.try_into().unwrap()).seeded(seed);
    Segment::open(line, sequence, settings).await.map_err(|error| format!("{error}: {:?}", error.source()))
}

/// What a task came to that is finished; `None` if it was aborted.
fn result_of<T>(task: JoinHandle<T>) -> Option<T> {
    match pin!(task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(done)) => Some(done),
        _ => None,
    }
}
