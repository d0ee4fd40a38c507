// The double buffer of a segment: one range and its cursor, and the way from one range to the next. Included once for the files as they
// are and once for each wrong twin, beside modules `run` and `supply`.

use std::sync::Arc;

use loom::thread;
use mintage_core::{IdRange, MintError};
use mintage_schemes::Stride;

use self::{
    run::{Run, Taken},
    supply::{Fetched, Supply},
};
use crate::three_threads;

fn range(start: u64, end: u64, version: u64) -> IdRange {
    IdRange::new("orders", start, end, version)
}

fn fetched(start: u64, end: u64, version: u64) -> Fetched {
    Fetched { lane: 0, stride: Stride::EVERY, range: range(start, end, version), is_last: false }
}

/// Each number once: minted, or given back, or handed back because it came too late.
fn judge(minted: Vec<u64>, given_back: &[IdRange], all: std::ops::Range<u64>) {
    let mut numbers = minted;
    numbers.extend(given_back.iter().flat_map(|tail| tail.start..tail.end));
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(all.clone()), "{numbers:?} are not {all:?}");
}

/// Two threads take from one range while a third seals it, all with relaxed atomics; one of them, and only one, is told to
/// fetch the next range if the mark is passed.
pub fn a_range_is_taken_once() {
    three_threads(|| {
        let run = Arc::new(Run::new(range(10, 14, 1), 0, Stride::EVERY, Some(0.5)));
        let others: Vec<_> = [1, 2]
            .map(|count| {
                let run = Arc::clone(&run);
                thread::spawn(move || run.take(count))
            })
            .into_iter()
            .collect();
        let own = run.take(1);
        let (_, tail) = run.seal();
        assert_eq!(run.take(1), Taken::Sealed);
        let mut minted = Vec::new();
        let mut asked = 0;
        for taken in others.into_iter().map(|other| other.join().unwrap()).chain([own]) {
            if let Taken::Numbers { first, count, low } = taken {
                minted.extend(first..first + count);
                asked += u32::from(low);
            }
        }
        assert_eq!(asked, u32::from(tail.start >= 12), "the mark was passed once, or not at all");
        judge(minted, &[tail], 10..14);
    });
}

/// A thread mints over the end of the current range, the refill task puts the next one behind it, and the segment is closed:
/// no number is lost to nobody, and none is made twice.
pub fn a_standby_is_linked_while_others_take_and_close() {
    three_threads(|| {
        let supply = Arc::new(Supply::of(fetched(10, 12, 1), Some(0.5)));
        let minter = {
            let supply = Arc::clone(&supply);
            thread::spawn(move || (0..3).map(|_| supply.take(1)).collect::<Vec<_>>())
        };
        let refill = {
            let supply = Arc::clone(&supply);
            thread::spawn(move || supply.link(fetched(12, 14, 2)).err())
        };
        let own = supply.take(1);
        let mut back: Vec<IdRange> = supply.seal().into_iter().map(|(_, tail)| tail).collect();
        assert!(matches!(supply.take(1), Err(MintError::Closed)));
        let minted = minter.join().unwrap().into_iter().chain([own]).flatten().flatten().collect();
        back.extend(refill.join().unwrap().map(|late| late.range));
        judge(minted, &back, 10..14);
    });
}

/// The sequence is raised: the refill task puts the first range above the floor in its place and drops the one below, while two
/// threads mint. What was dropped is minted by nobody, and after the link nobody mints below the floor.
pub fn a_raise_drops_a_range_under_a_minter() {
    three_threads(|| {
        let supply = Arc::new(Supply::of(fetched(10, 13, 1), Some(0.5)));
        let minter = {
            let supply = Arc::clone(&supply);
            thread::spawn(move || (0..2).map(|_| supply.take(1)).collect::<Vec<_>>())
        };
        let own = supply.take(1);
        // The upper half of a version counts raises.
        assert!(supply.link(fetched(50, 53, 1 << 32)).is_ok());
        let after: Vec<u64> = supply.take(1).into_iter().flatten().collect();
        assert!(after.iter().all(|number| *number >= 50), "{after:?} was minted below the floor");
        let minted = minter.join().unwrap();
        let tails = supply.seal();
        let mut numbers: Vec<u64> = minted.into_iter().chain([own]).flatten().flatten().chain(after).collect();
        numbers.extend(tails.iter().flat_map(|(_, tail)| tail.start..tail.end));
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "no number twice");
        assert!(
            [50, 51, 52].iter().all(|number| numbers.contains(number)),
            "nothing above the floor is lost: {numbers:?}"
        );
    });
}
