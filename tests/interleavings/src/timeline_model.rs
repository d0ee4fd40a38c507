//! The logical clock by itself: the packed state, the bound and the stop.

use std::{ops::Range, sync::Arc};

use loom::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use crate::{
    three_threads,
    timeline::{Ahead, Ask, Overflow, Timeline},
};

const COUNT_BITS: u32 = 1;

fn ask(now: u64, end: u64) -> Ask {
    Ask { now, end, drift: 1, overflow: Overflow::Borrow, ahead: Ahead::Refuse }
}

fn take(timeline: &Timeline, now: u64, end: u64) -> Option<Range<u64>> {
    let taken = timeline.reserve(1, || 0, || (ask(now, end), ()));
    taken.ok().map(|(run, ())| run.first..run.first + run.len)
}

/// No value twice, none at or above the end.
fn judge(taken: impl IntoIterator<Item = Range<u64>>, below: u64) -> Vec<u64> {
    let mut values: Vec<u64> = taken.into_iter().flatten().collect();
    values.sort_unstable();
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "twice: {values:?}");
    assert!(values.iter().all(|value| *value < below), "at or above {below}: {values:?}");
    values
}

/// Two threads take while a third stops the timeline: what the stop says lies above all that was taken, and what is taken after
/// a restart lies above it.
pub fn a_stop_knows_what_was_taken() {
    three_threads(|| {
        let timeline = Arc::new(Timeline::stopped(COUNT_BITS));
        timeline.restart(0, 5);
        let takers: Vec<_> = [5, 6]
            .map(|now| {
                let timeline = Arc::clone(&timeline);
                thread::spawn(move || take(&timeline, now, 7))
            })
            .into_iter()
            .collect();
        let before = timeline.stop().unwrap();
        let began = timeline.restart(before, 6);
        let last = take(&timeline, 6, 7);
        let others: Vec<_> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
        assert!(began > before, "a restart never repeats a state");
        if let Some(last) = &last {
            assert!(last.start >= began);
        }
        let all = others.into_iter().chain(last);
        let values = judge(all, 7 << COUNT_BITS);
        assert!(values.iter().all(|value| *value < before || *value >= began), "{before} {began} {values:?}");
    });
}

/// The wrong twin: a look at the bound and a bare addition. Two threads that both look first go past the bound.
pub fn a_bare_addition_creeps_past_the_bound() {
    loom::model(|| {
        let state = Arc::new(AtomicU64::new(13));
        let add = |state: &AtomicU64| {
            let within = state.load(Ordering::Acquire) < 14;
            within.then(|| state.fetch_add(1, Ordering::AcqRel)).map(|first| first..first + 1)
        };
        let other = {
            let state = Arc::clone(&state);
            thread::spawn(move || add(&state))
        };
        let own = add(&state);
        judge(own.into_iter().chain(other.join().unwrap()), 14);
    });
}

/// The wrong twin of a restart: it begins where the stop was, so a state occurs twice. A thread that read it before the stop
/// succeeds after the restart, by a bound that is no longer its own.
pub fn a_restart_that_repeats_a_state() {
    loom::model(|| {
        let state = Arc::new(AtomicU64::new(13));
        let worker = Arc::new(AtomicU64::new(1));
        let other = {
            let (state, worker) = (Arc::clone(&state), Arc::clone(&worker));
            thread::spawn(move || {
                let seen = state.load(Ordering::Acquire);
                let of = worker.load(Ordering::Acquire);
                let done = state.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire);
                done.is_ok().then_some((seen, of))
            })
        };
        let before = state.swap(u64::MAX, Ordering::AcqRel);
        worker.store(2, Ordering::Release);
        state.store(before, Ordering::Release);
        if let Some((value, of)) = other.join().unwrap().filter(|(value, _)| *value != u64::MAX) {
            // Taken before the stop it is worker 1's; a value from the restart on is worker 2's.
            assert!(value < before || of == 2, "{value} was stamped with worker id {of}");
        }
    });
}
