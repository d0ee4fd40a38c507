// The snowflake minter under its keeper: a claim that moves, a window that grows, a release, an end. Included once for the file as it
// is and once for each wrong twin, beside a module `snowflake`.

use std::{collections::BTreeSet, sync::Arc};

use loom::thread;
use mintage_core::{IdScheme as _, Leased as _, ManualClock, MintError};

use self::snowflake::{Snowflake, SnowflakeReader, SnowflakeSettings};
use crate::{layout::Layout, three_threads};

const EPOCH_MS: u64 = 1_000_000;
const NOW_MS: u64 = EPOCH_MS + 100;

/// One bit of worker id and one of sequence: two ids fill a unit.
fn minter() -> (Arc<Snowflake<ManualClock>>, Layout) {
    let layout = Layout::new(40, 1, 1).unwrap();
    let reader = SnowflakeReader::new(layout, EPOCH_MS);
    let minter = Snowflake::new(reader, SnowflakeSettings::default(), ManualClock::at(NOW_MS)).unwrap();
    (Arc::new(minter), layout)
}

fn distinct(ids: &[u64]) {
    let set: BTreeSet<&u64> = ids.iter().collect();
    assert_eq!(set.len(), ids.len(), "an id twice: {ids:?}");
}

/// The keeper moves to another worker id while a thread mints: each id carries a worker id together with a unit of the window
/// that was granted for it.
pub fn a_claim_moves_under_a_minter() {
    loom::model(|| {
        let (minter, layout) = minter();
        minter.grant(0, NOW_MS..NOW_MS + 2, u64::MAX);
        let other = {
            let minter = Arc::clone(&minter);
            thread::spawn(move || [minter.mint(), minter.mint()])
        };
        minter.grant(1, NOW_MS + 2..NOW_MS + 4, u64::MAX);
        let ids: Vec<u64> = other.join().unwrap().into_iter().chain([minter.mint()]).flatten().collect();
        distinct(&ids);
        for id in ids {
            let parts = layout.split(id);
            let window = if parts.worker == 0 { 100..102 } else { 102..104 };
            assert!(window.contains(&parts.time), "worker id {} in unit {}", parts.worker, parts.time);
        }
    });
}

/// The window grows while a thread mints: what it mints lies inside the larger one, and what it is refused is refused as a
/// window that is over.
pub fn a_window_grows_under_a_minter() {
    loom::model(|| {
        let (minter, layout) = minter();
        minter.grant(1, NOW_MS..NOW_MS + 1, u64::MAX);
        let other = {
            let minter = Arc::clone(&minter);
            thread::spawn(move || [minter.mint(), minter.mint()])
        };
        minter.extend(NOW_MS + 2, u64::MAX);
        let all: Vec<Result<u64, MintError>> = other.join().unwrap().into_iter().chain([minter.mint()]).collect();
        let ids: Vec<u64> = all.iter().flatten().copied().collect();
        distinct(&ids);
        assert_eq!(ids.len(), 3, "none is refused: two fit in the first unit, the third is made after the growth");
        assert!(ids.iter().all(|id| (100..102).contains(&layout.split(*id).time)));
    });
}

/// Two threads mint while the keeper halts for its release: all they made lies before what it gives back.
pub fn a_release_gives_back_only_what_nobody_used() {
    three_threads(|| {
        let (minter, layout) = minter();
        minter.grant(1, NOW_MS..NOW_MS + 5, u64::MAX);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let minter = Arc::clone(&minter);
                thread::spawn(move || minter.mint())
            })
            .collect();
        let first_unused_ms = minter.halt();
        let ids: Vec<u64> = others.into_iter().filter_map(|other| other.join().unwrap().ok()).collect();
        distinct(&ids);
        let unused_unit = first_unused_ms.map_or(100, |first_unused_ms| first_unused_ms - EPOCH_MS);
        for id in ids {
            let time = layout.split(id).time;
            assert!(time < unused_unit, "unit {time} was given back from {unused_unit} on");
        }
    });
}

/// The keeper gives its worker id back and moves to another, whose window goes over the same time, while a thread mints: nothing
/// carries the old id from where it was given back on.
pub fn a_move_leaves_alone_what_was_given_back() {
    loom::model(|| {
        let (minter, layout) = minter();
        minter.grant(0, NOW_MS..NOW_MS + 4, u64::MAX);
        let other = {
            let minter = Arc::clone(&minter);
            thread::spawn(move || minter.mint())
        };
        let first_unused_ms = minter.halt().unwrap_or(NOW_MS);
        minter.grant(1, NOW_MS + 2..NOW_MS + 6, u64::MAX);
        let ids: Vec<u64> = [other.join().unwrap(), minter.mint()].into_iter().flatten().collect();
        distinct(&ids);
        for id in ids {
            let parts = layout.split(id);
            let theirs = if parts.worker == 0 { 100..first_unused_ms - EPOCH_MS } else { 102..106 };
            assert!(theirs.contains(&parts.time), "worker id {} in unit {}", parts.worker, parts.time);
        }
    });
}

/// A late grant and the end cross each other while a thread mints: in the end nothing can be minted, for good.
pub fn nothing_is_minted_after_the_end() {
    three_threads(|| {
        let (minter, layout) = minter();
        minter.grant(0, NOW_MS..NOW_MS + 2, u64::MAX);
        let keeper = {
            let minter = Arc::clone(&minter);
            thread::spawn(move || minter.grant(1, NOW_MS + 2..NOW_MS + 4, u64::MAX))
        };
        let other = {
            let minter = Arc::clone(&minter);
            thread::spawn(move || minter.mint())
        };
        minter.shut();
        let after = minter.mint();
        keeper.join().unwrap();
        let id = other.join().unwrap();
        assert_eq!(after, Err(MintError::Closed));
        assert_eq!(minter.mint(), Err(MintError::Closed), "a grant that comes late opens nothing");
        if let Ok(id) = id {
            let parts = layout.split(id);
            assert_eq!(parts.worker == 0, parts.time < 102, "worker id {} in unit {}", parts.worker, parts.time);
        }
    });
}
