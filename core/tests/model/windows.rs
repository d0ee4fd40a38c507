//! The model: a store that runs the real functions of [`mintage_core::protocol`], two processes that mint, and everything that
//! can happen between them. One tick is one millisecond of the protocol.
//!
//! A process mints in two steps, between which anything may happen: it chooses a time unit inside the window it knows, then it
//! stamps. It stamps each unit once, so a second id of the same unit and worker id is a duplicate. Time passes only in the step
//! `Tick`, so every other step may come as late as one likes: that is how pauses and slow answers are in the model.

use std::cell::Cell;

use mintage_core::{
    Fence, Holder, Lease, LeaseTerms, PoolLimits, StoreError, WorkerChoice, WorkerPool,
    protocol::{self, PoolRow, WorkerRow},
};

use crate::{
    mutants::{Bump, Extend, Release},
    rows::{Store, WORKERS_MAX, small},
    search::Model,
};

/// Ticks in a window, and until a lease runs out.
pub(crate) const WINDOW: u8 = 2;

/// Which functions the store runs. `choose` and `claim` are always the real ones.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) extend: Extend,
    pub(crate) release: Release,
    pub(crate) bump: Bump,
}

impl Default for Rules {
    fn default() -> Self {
        Self { extend: protocol::extend, release: protocol::release, bump: protocol::bump }
    }
}

/// How a minter whose time unit is longer than a millisecond treats units that lie partly in its window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edges {
    /// It stamps only units that lie wholly inside, and a release gives back from the end of the last unit used.
    Inside,
    /// It stamps every unit that the window touches.
    Touching,
    /// It begins with the unit in which the window begins, and a release gives back from one tick after the last unit's start.
    UnalignedTrim,
}

/// What is possible in a run.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) rules: Rules,
    pub(crate) workers: u8,
    pub(crate) tick_max: u8,
    pub(crate) claims_max: u8,
    /// How far each process's clock is off, in ticks.
    pub(crate) skew: [i8; 2],
    /// Whether processes release.
    pub(crate) trim: bool,
    /// How far after the store's now a window may start.
    pub(crate) ahead: u8,
    /// How far a promoted store's clock is taken to be behind, at most.
    pub(crate) guard: u8,
    /// How often the store fails over, each time losing its last write.
    pub(crate) failovers: u8,
    /// How far a promoted store's clock is really behind.
    pub(crate) falls_back: u8,
    /// Ticks in a time unit of the ids.
    pub(crate) unit: u8,
    pub(crate) edges: Edges,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            workers: 1,
            tick_max: 6,
            claims_max: 4,
            skew: [0, 0],
            trim: false,
            ahead: 0,
            guard: 0,
            failovers: 0,
            falls_back: 0,
            unit: 1,
            edges: Edges::Inside,
        }
    }
}

/// A setting, with the fixed half of what the real functions want to be given.
pub(crate) struct Windows {
    setting: Setting,
    pool: WorkerPool,
    pool_row: PoolRow,
    terms: LeaseTerms,
    /// Any lease: its fields are set for each call.
    lease: Lease,
    /// The most ticks without faults after which something could be claimed, over all states visited.
    pub(crate) longest_wait: Cell<u8>,
}

/// Everything, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// True time.
    tick: u8,
    /// How far the store's clock is behind it.
    behind: u8,
    /// Claims made so far; the next token is one more. Never lost, as tokens are random in life.
    claims: u8,
    failovers: u8,
    store: Store,
    /// The store before its last write.
    before: Option<Store>,
    processes: [Process; 2],
    /// A release on the wire. It arrives late, twice, or never, even after its sender's death, until another takes its place.
    parting: Option<(Held, u8)>,
    /// The units stamped so far, as bits, per worker id.
    stamped: [u64; WORKERS_MAX],
    duplicate: bool,
}

/// The memory of a process, and what is on the way to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Process {
    held: Option<Held>,
    /// The unit after the last one stamped in this life.
    next: u8,
    /// The unit chosen, not yet stamped.
    chosen: Option<u8>,
    /// The store's last answer, not yet heard. The next one replaces it: then it was lost.
    answer: Option<Held>,
}

/// A lease as its holder knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Held {
    worker: u8,
    inc: u8,
    epoch: u8,
    token: u8,
    start: u8,
    end: u8,
}

/// What can happen; the number is that of the process.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Tick,
    Claim(usize),
    Renew(usize),
    Hear(usize),
    Choose(usize),
    Stamp(usize),
    Release(usize),
    Crash(usize),
    Arrive,
    Failover,
}

#[rustfmt::skip]
const STEPS: &[Step] = {
    use Step::*;
    &[
        Tick, Arrive, Failover,
        Claim(0), Renew(0), Hear(0), Choose(0), Stamp(0), Release(0), Crash(0),
        Claim(1), Renew(1), Hear(1), Choose(1), Stamp(1), Release(1), Crash(1),
    ]
};

impl Model for Windows {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            tick: 0,
            behind: 0,
            claims: 0,
            failovers: 0,
            store: Store::default().with(&self.pool_row, None),
            before: None,
            processes: [Process::default(); 2],
            parting: None,
            stamped: [0; WORKERS_MAX],
            duplicate: false,
        }
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn take(&self, state: &State, step: Step) -> Option<State> {
        match step {
            Step::Tick => (state.tick < self.setting.tick_max).then(|| State { tick: state.tick + 1, ..*state }),
            Step::Claim(who) => self.claim(*state, who),
            Step::Renew(who) => self.renew(*state, who),
            Step::Hear(who) => hear(*state, who),
            Step::Choose(who) => self.choose_unit(*state, who),
            Step::Stamp(who) => stamp(*state, who),
            Step::Release(who) => self.release(*state, who),
            Step::Arrive => self.arrive(*state),
            Step::Crash(who) => crash(*state, who),
            Step::Failover => self.fail_over(*state),
        }
    }

    /// Processes with equal clocks may change places.
    fn key(&self, state: &State) -> State {
        let mut key = *state;
        if self.setting.skew[0] == self.setting.skew[1] {
            key.processes.sort_unstable();
        }
        key
    }

    fn duplicate(&self, state: &State) -> bool {
        state.duplicate
    }

    fn describe(&self, step: Step, after: &State) -> String {
        let answer = |who: usize| after.processes[who].answer.map_or_else(String::new, |held| held.window());
        let held = |who: usize| after.processes[who].held.map_or_else(String::new, |held| held.window());
        match step {
            Step::Tick => format!("tick {}", after.tick),
            Step::Claim(who) => format!("P{who} claims, granted {}", answer(who)),
            Step::Renew(who) => format!("P{who} renews, granted {}", answer(who)),
            Step::Hear(who) => format!("P{who} hears it holds {}", held(who)),
            Step::Choose(who) => format!("P{who} chooses {}", after.processes[who].chosen.unwrap_or_default()),
            Step::Stamp(who) => format!("P{who} stamps {}", after.processes[who].next - 1),
            Step::Release(who) => {
                format!("P{who} stops and sends a release from {}", after.parting.map_or(0, |sent| sent.1))
            }
            Step::Arrive => "the release arrives".to_owned(),
            Step::Crash(who) => format!("P{who} crashes"),
            Step::Failover => {
                format!("the store fails over, losing its last write; floor_min {}", after.store.floor_min)
            }
        }
    }

    /// Liveness: were all faults to stop here, a new process could claim within [`Windows::wait_max`] ticks.
    fn visit(&self, state: &State) {
        while !self.claimable_in(state, self.longest_wait.get()) {
            self.longest_wait.update(|ticks| ticks + 1);
            assert!(self.longest_wait.get() <= self.wait_max(), "no worker id is free {} ticks later", self.wait_max());
        }
    }
}

impl Windows {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut pool = WorkerPool::new("", 0..setting.workers.into());
        pool.limits = PoolLimits::new(WINDOW.into(), setting.ahead.into(), setting.guard.into());
        let pool_row = PoolRow::new(&pool).unwrap();
        let terms = LeaseTerms::new(WINDOW.into(), WINDOW.into(), 0, setting.ahead.into());
        let holder = Holder::new(1, "", 0);
        let (lease, _) =
            protocol::claim(&mut pool_row.clone(), &mut WorkerRow::unused(0), &pool, &holder, &terms, 0).unwrap();
        Self { setting, pool, pool_row, terms, lease, longest_wait: Cell::new(0) }
    }

    /// Within how many ticks without faults something can be claimed: a window is over, or a bump has been waited out. A store
    /// clock that fell back has that to catch up as well.
    fn wait_max(&self) -> u8 {
        let Setting { failovers, falls_back, guard, .. } = self.setting;
        WINDOW + if failovers > 0 { guard + falls_back } else { 0 }
    }

    /// The store answers a claim. The process goes on with what it has until it hears.
    fn claim(&self, state: State, who: usize) -> Option<State> {
        if state.claims == self.setting.claims_max {
            return None;
        }
        let mut holder = Holder::new((state.claims + 1).into(), "", 0);
        holder.previous = state.processes[who].held.map(|held| held.token.into());
        let (mut pool, rows) = state.store.rows(&self.pool_row);
        let now = state.store_now();
        let worker = protocol::choose(&pool, &rows, WorkerChoice::Any, &holder, &self.terms, now).ok()?;
        let row = rows.into_iter().find(|row| row.worker == worker);
        let mut row = row.unwrap_or_else(|| WorkerRow::unused(worker));
        let (lease, _) = protocol::claim(&mut pool, &mut row, &self.pool, &holder, &self.terms, now).unwrap();
        let mut after = self.commit(state, state.store.with(&pool, Some(&row)));
        after.claims += 1;
        after.processes[who].answer = Some(Held::of(&lease));
        Some(after)
    }

    /// The store answers a renewal. Its outcome may be unknown to the process, and it may ask again.
    fn renew(&self, state: State, who: usize) -> Option<State> {
        let held = state.processes[who].held?;
        let holder = Holder::new(held.token.into(), "", 0);
        let (mut answer, mut after) = (None, state);
        self.write(&mut after, held, |pool, row, lease, now| {
            answer = Some((self.setting.rules.extend)(pool, row, lease, &holder, &self.terms, now)?);
            Ok(())
        })?;
        after.processes[who].answer = answer.map(|lease| Held::of(&lease));
        Some(after)
    }

    /// The process makes further minting impossible, then sends its release.
    fn release(&self, mut state: State, who: usize) -> Option<State> {
        let process = &mut state.processes[who];
        let held = process.held.filter(|_| self.setting.trim)?;
        let unit = self.setting.unit;
        let first_unused = match self.setting.edges {
            Edges::UnalignedTrim if process.next > 0 => (process.next - 1) * unit + 1,
            _ => process.next * unit,
        };
        *process = Process { next: process.next, ..Process::default() };
        state.parting = Some((held, first_unused.max(held.start)));
        Some(state)
    }

    /// A release arrives, for the first time or again.
    fn arrive(&self, mut state: State) -> Option<State> {
        let (held, first_unused) = state.parting?;
        self.write(&mut state, held, |pool, row, lease, now| {
            (self.setting.rules.release)(pool, row, lease, first_unused.into(), &self.terms, now).map(drop)
        })?;
        Some(state)
    }

    /// First half of a mint: the unit to stamp, by the clock, above all stamped before, inside the window.
    fn choose_unit(&self, mut state: State, who: usize) -> Option<State> {
        let process = &mut state.processes[who];
        let held = process.held.filter(|_| process.chosen.is_none())?;
        let unit = self.setting.unit;
        let units = match self.setting.edges {
            Edges::Inside => held.start.div_ceil(unit)..held.end / unit,
            Edges::Touching => held.start / unit..held.end.div_ceil(unit),
            Edges::UnalignedTrim => held.start / unit..held.end / unit,
        };
        let clock = state.tick.saturating_add_signed(self.setting.skew[who]);
        let chosen = (clock / unit).max(process.next).max(units.start);
        process.chosen = Some(chosen).filter(|chosen| *chosen < units.end);
        process.chosen.is_some().then_some(state)
    }

    /// Another instance of the store takes over, without the last write. At first contact it is told so.
    fn fail_over(&self, mut state: State) -> Option<State> {
        if state.failovers == self.setting.failovers {
            return None;
        }
        state.store = state.before.take()?;
        state.failovers += 1;
        state.behind += self.setting.falls_back;
        let (mut pool, _) = state.store.rows(&self.pool_row);
        (self.setting.rules.bump)(&mut pool, state.store_now());
        Some(self.commit(state, state.store.with(&pool, None)))
    }

    /// Runs one of the rules that need a lease in a transaction; `None` where the store refuses.
    fn write(
        &self,
        state: &mut State,
        held: Held,
        rule: impl FnOnce(&mut PoolRow, &mut WorkerRow, &Lease, u64) -> Result<(), StoreError>,
    ) -> Option<()> {
        let (mut pool, mut rows) = state.store.rows(&self.pool_row);
        let row = rows.iter_mut().find(|row| row.worker == held.worker.into())?;
        rule(&mut pool, row, &self.lease_of(held), state.store_now()).ok()?;
        *state = self.commit(*state, state.store.with(&pool, Some(row)));
        Some(())
    }

    /// Keeps the store of before, where it can still matter.
    fn commit(&self, mut state: State, store: Store) -> State {
        if store != state.store {
            state.before = (state.failovers < self.setting.failovers).then_some(state.store);
            state.store = store;
        }
        state
    }

    fn lease_of(&self, held: Held) -> Lease {
        let mut lease = self.lease.clone();
        lease.worker = held.worker.into();
        lease.fence = Fence { inc: held.inc.into(), epoch: held.epoch.into(), token: held.token.into() };
        lease.window = held.start.into()..held.end.into();
        lease
    }

    fn claimable_in(&self, state: &State, ticks: u8) -> bool {
        let (pool, rows) = state.store.rows(&self.pool_row);
        let newcomer = Holder::new(u128::MAX, "", 0);
        let now = state.store_now() + u64::from(ticks);
        protocol::choose(&pool, &rows, WorkerChoice::Any, &newcomer, &self.terms, now).is_ok()
    }
}

impl State {
    fn store_now(&self) -> u64 {
        self.tick.saturating_sub(self.behind).into()
    }
}

impl Held {
    fn of(lease: &Lease) -> Self {
        Self {
            worker: small(lease.worker.into()),
            inc: small(lease.fence.inc),
            epoch: small(lease.fence.epoch),
            token: u8::try_from(lease.fence.token).unwrap(),
            start: small(lease.window.start),
            end: small(lease.window.end),
        }
    }

    fn window(self) -> String {
        format!("{}..{} of worker id {}", self.start, self.end, self.worker)
    }
}

/// An answer is heard: a new lease stops a mint under way and replaces the old one, a renewal moves the window's end.
fn hear(mut state: State, who: usize) -> Option<State> {
    let process = &mut state.processes[who];
    let answer = process.answer.take()?;
    match &mut process.held {
        Some(held) if held.token == answer.token => held.end = answer.end,
        held => {
            *held = Some(answer);
            process.chosen = None;
        }
    }
    Some(state)
}

/// Second half of a mint: an id of the chosen unit is out in the world.
fn stamp(mut state: State, who: usize) -> Option<State> {
    let process = &mut state.processes[who];
    let (held, unit) = (process.held?, process.chosen.take()?);
    process.next = unit + 1;
    let stamped = &mut state.stamped[usize::from(held.worker)];
    state.duplicate = *stamped & (1 << unit) != 0;
    *stamped |= 1 << unit;
    Some(state)
}

/// A process dies and another takes its place. What it sent is still on the wire.
fn crash(mut state: State, who: usize) -> Option<State> {
    state.processes[who] = Process::default();
    Some(state)
}
