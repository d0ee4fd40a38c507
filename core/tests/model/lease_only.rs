//! The usual way, which Mintage does not go: a lease with a time to live, and a high-water mark that each renewal reports.
//!
//! The holder may stamp while its lease lasts, on a timer that is exact. A successor starts above the mark. That is safe as long
//! as nobody pauses and all clocks agree, and no longer.

use crate::search::Model;

/// Ticks a lease lasts.
const TTL: u8 = 2;

/// The last tick of a run.
const TICK_MAX: u8 = 6;

pub(crate) struct LeaseOnly {
    /// How far each process's clock is off, in ticks.
    pub(crate) skew: [u8; 2],
    /// Whether a process may pause after it has looked whether its lease still lasts.
    pub(crate) pauses: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    tick: u8,
    holder: Option<usize>,
    expires: u8,
    /// No id of this or a later tick has been reported.
    mark: u8,
    processes: [Process; 2],
    stamped: u64,
    duplicate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Process {
    /// When its lease is over; 0 without one.
    until: u8,
    /// The tick after the last one stamped.
    next: u8,
    /// It has looked, and found that its lease lasts.
    looked: bool,
}

/// What can happen; the number is that of the process.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Tick,
    Claim(usize),
    Renew(usize),
    Look(usize),
    Stamp(usize),
}

#[rustfmt::skip]
const STEPS: &[Step] = {
    use Step::*;
    &[Tick, Claim(0), Renew(0), Look(0), Stamp(0), Claim(1), Renew(1), Look(1), Stamp(1)]
};

impl Model for LeaseOnly {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let processes = [Process::default(); 2];
        State { tick: 0, holder: None, expires: 0, mark: 0, processes, stamped: 0, duplicate: false }
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn take(&self, state: &State, step: Step) -> Option<State> {
        match step {
            // Without pauses, whoever has looked stamps before time passes.
            Step::Tick if !self.pauses && state.processes.iter().any(|process| process.looked) => None,
            Step::Tick => (state.tick < TICK_MAX).then(|| State { tick: state.tick + 1, ..*state }),
            Step::Claim(who) => claim(*state, who),
            Step::Renew(who) => renew(*state, who),
            Step::Look(who) => look(*state, who),
            Step::Stamp(who) => self.stamp(*state, who),
        }
    }

    fn duplicate(&self, state: &State) -> bool {
        state.duplicate
    }

    fn describe(&self, step: Step, after: &State) -> String {
        match step {
            Step::Tick => format!("tick {}", after.tick),
            Step::Claim(who) => format!("P{who} claims until {}", after.expires),
            Step::Renew(who) => format!("P{who} renews until {} and reports {}", after.expires, after.mark),
            Step::Look(who) => format!("P{who} sees that its lease lasts"),
            Step::Stamp(who) => format!("P{who} stamps {}", after.processes[who].next - 1),
        }
    }

    fn visit(&self, _: &State) {}
}

impl LeaseOnly {
    /// The id gets the time of the process's clock.
    fn stamp(&self, mut state: State, who: usize) -> Option<State> {
        let process = &mut state.processes[who];
        let clock = state.tick + self.skew[who];
        if !process.looked || clock < process.next {
            return None;
        }
        *process = Process { next: clock + 1, looked: false, ..*process };
        state.duplicate = state.stamped & (1 << clock) != 0;
        state.stamped |= 1 << clock;
        Some(state)
    }
}

fn claim(mut state: State, who: usize) -> Option<State> {
    if state.holder.is_some() && state.tick < state.expires {
        return None;
    }
    state.holder = Some(who);
    state.processes[who].next = state.processes[who].next.max(state.mark);
    Some(prolonged(state, who))
}

fn renew(mut state: State, who: usize) -> Option<State> {
    if state.holder != Some(who) || state.tick >= state.expires {
        return None;
    }
    state.mark = state.mark.max(state.processes[who].next);
    Some(prolonged(state, who))
}

fn prolonged(mut state: State, who: usize) -> State {
    state.expires = state.tick + TTL;
    state.processes[who].until = state.expires;
    state
}

fn look(mut state: State, who: usize) -> Option<State> {
    let process = &mut state.processes[who];
    if state.tick >= process.until || process.looked {
        return None;
    }
    process.looked = true;
    Some(state)
}
