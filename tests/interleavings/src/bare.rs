//! Two wrong ways that no file ever went: a bound that is only looked at, and a restart where the stop was.

use std::{ops::Range, sync::Arc};

use loom::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

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
        let taken: Vec<Range<u64>> = own.into_iter().chain(other.join().unwrap()).collect();
        assert!(taken.iter().all(|range| range.end <= 14), "at or above 14: {taken:?}");
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
