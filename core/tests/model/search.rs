//! Breadth-first search over all states a model can reach, so that the first duplicate found has a shortest trace.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// A small world: where it starts, what can happen in it, and when it has gone wrong.
pub(crate) trait Model {
    type State: Copy + Eq + Hash;
    type Step: Copy + 'static;

    fn start(&self) -> Self::State;
    /// Every kind of step there is.
    fn steps(&self) -> &'static [Self::Step];
    /// The state after `step`; `None` where it cannot happen.
    fn take(&self, state: &Self::State, step: Self::Step) -> Option<Self::State>;
    /// The same for states that differ only in names: one of them is enough.
    fn key(&self, state: &Self::State) -> Self::State {
        *state
    }
    /// Whether two ids are the same.
    fn duplicate(&self, state: &Self::State) -> bool;
    /// What `step`, which led to `after`, was: for people.
    fn describe(&self, step: Self::Step, after: &Self::State) -> String;
    /// Called once with every state.
    fn visit(&self, state: &Self::State);
}

pub(crate) struct Outcome {
    /// How many different states were seen.
    pub(crate) states: usize,
    /// Steps to the first duplicate, or to the state furthest from the start.
    pub(crate) steps: usize,
    /// The steps to the first duplicate.
    pub(crate) trace: Option<Vec<String>>,
}

/// A state and how it was reached: the index of the state before, and the step.
type Reached<M> = (<M as Model>::State, usize, Option<<M as Model>::Step>);

/// Follows every step from every state until none is new, or a duplicate is found.
pub(crate) fn search<M: Model>(model: &M) -> Outcome {
    let start = model.start();
    let mut seen: HashSet<M::State, BuildHasherDefault<Mix>> = HashSet::default();
    seen.insert(model.key(&start));
    let mut reached: Vec<Reached<M>> = vec![(start, 0, None)];
    let mut next = 0;
    while let Some((state, _, _)) = reached.get(next).copied() {
        model.visit(&state);
        if model.duplicate(&state) {
            let trace = trace(model, &reached, next);
            return Outcome { states: seen.len(), steps: trace.len(), trace: Some(trace) };
        }
        for step in model.steps() {
            if let Some(after) = model.take(&state, *step).filter(|after| seen.insert(model.key(after))) {
                reached.push((after, next, Some(*step)));
            }
        }
        next += 1;
    }
    Outcome { states: seen.len(), steps: trace(model, &reached, next - 1).len(), trace: None }
}

/// The steps that lead from the start to state number `last`.
fn trace<M: Model>(model: &M, reached: &[Reached<M>], last: usize) -> Vec<String> {
    let mut steps = Vec::new();
    let mut at = last;
    while let (state, before, Some(step)) = reached[at] {
        steps.push(model.describe(step, &state));
        at = before;
    }
    steps.reverse();
    steps
}

/// A hash that is cheap without optimisation, as tests run. States are a few dozen small numbers.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value.cast_unsigned() as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        // The last multiplication leaves the low bits weak, and the table uses them.
        self.0 ^ (self.0 >> 32)
    }
}
