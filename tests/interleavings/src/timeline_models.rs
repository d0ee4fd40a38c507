// The logical clock by itself: the packed state, the bound and the stop. Included once for the file as it is and once for each wrong
// twin, beside a module `timeline`.

use std::{ops::Range, sync::Arc};

use loom::thread;

use self::timeline::{Ahead, Ask, Overflow, Timeline};
use crate::three_threads;

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
        assert!(
            values.iter().all(|value| *value < before || *value >= began),
            "{values:?} from between the stop at {before} and the restart at {began}"
        );
    });
}
