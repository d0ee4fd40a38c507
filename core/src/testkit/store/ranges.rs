//! The laws of [`RangeStore`]: a range once allocated is never handed out again.

use std::num::NonZeroU32;

use super::{Trial, join_all, must, must_not};
use crate::{
    IdRange, IdempotencyKey, RANGE_END, RangeHistory, RangeStore, Sequence, SequenceRow, StoreErrorKind,
    protocol::{UNLISTED, raises},
};

/// Every law of ranges.
///
/// # Panics
/// When one is broken.
pub async fn all(store: &dyn RangeStore, trial: Trial) {
    disjoint(store, trial).await;
    creating_is_idempotent(store).await;
    missing_is_refused(store).await;
    older_than_the_caller_is_rolled_back(store).await;
    only_an_untouched_tail_is_taken_back(store).await;
    raising_never_lowers(store).await;
    raising_is_told_by_the_version(store).await;
    a_key_repeats_its_range(store, trial).await;
    a_tail_behind_a_key_is_not_doubled(store).await;
    the_end_is_orderly(store).await;
    the_last_number_alone(store).await;
    listed_by_name(store).await;
    history_knows_who_got_a_number(store).await;
    no_sequence_has_the_name_of_all_others(store).await;
    stopped_until_raised(store).await;
}

/// Ranges allocated at once share no number, lie above the start and are as long as asked.
///
/// # Panics
/// When not.
pub async fn disjoint(store: &dyn RangeStore, trial: Trial) {
    const LAW: &str = "ranges are disjoint";
    let sequence = made(LAW, store, "law-disjoint", 1_000).await;
    let ask = |nth: u32| {
        let (store, sequence) = (store, sequence.clone());
        async move {
            let len = 1 + nth % 7;
            let range = must(LAW, store.allocate(&sequence, count(len), None).await);
            assert_eq!(range.count(), u64::from(len), "{LAW}: {range:?} is not as long as asked");
            range
        }
    };
    let mut ranges = Vec::new();
    for round in 0..3 {
        ranges.extend(join_all((0..trial.at_once).map(|nth| ask(round + nth))).await);
    }
    assert_disjoint(LAW, &mut ranges);
    assert!(
        ranges.first().is_some_and(|first| first.start >= 1_000),
        "{LAW}: {:?} lies below the start",
        ranges.first()
    );
}

/// A sequence that exists is not changed by making it again, whatever the start.
///
/// # Panics
/// When it is.
pub async fn creating_is_idempotent(store: &dyn RangeStore) {
    const LAW: &str = "creating is idempotent and never lowers";
    let mut sequence = made(LAW, store, "law-create", 100).await;
    let first = must(LAW, store.allocate(&sequence, count(10), None).await);
    assert_eq!((first.start, first.end), (100, 110), "{LAW}: the first range begins at the start");
    for start in [1, 100, 1_000_000] {
        sequence.start = start;
        let before = row(LAW, store, &sequence).await;
        must(LAW, store.create(&sequence).await);
        assert_eq!(row(LAW, store, &sequence).await, before, "{LAW}: made again with start {start}");
    }
    let creators = join_all((0..8).map(|_| store.create(&sequence))).await;
    creators.into_iter().for_each(|made| must(LAW, made));
    let second = must(LAW, store.allocate(&sequence, count(10), None).await);
    assert_eq!(second.start, 110, "{LAW}: the next range");
    for start in [RANGE_END, u64::MAX] {
        must_not(LAW, StoreErrorKind::Refused, store.create(&Sequence::new("law-create-above", start)).await);
    }
}

/// A sequence that is not there is refused, and asking does not make it.
///
/// # Panics
/// When it is made.
pub async fn missing_is_refused(store: &dyn RangeStore) {
    const LAW: &str = "a missing sequence is refused";
    let sequence = Sequence::new("law-missing", 1);
    for _ in 0..2 {
        must_not(LAW, StoreErrorKind::Refused, store.allocate(&sequence, count(1), None).await);
        must_not(LAW, StoreErrorKind::Refused, store.allocate(&sequence, count(1), Some(&key("law-missing"))).await);
        must_not(LAW, StoreErrorKind::Refused, store.raise(&sequence, 5).await);
        let taken = must(LAW, store.give_back(IdRange::new("law-missing", 1, 2, 1)).await);
        assert!(!taken, "{LAW}: something was given back to it");
    }
    let rows = must(LAW, store.sequences().await);
    assert!(rows.iter().all(|row| row.name != sequence.name), "{LAW}: it was made by asking");
}

/// A counter below what the caller has been given means that the store went back in time.
///
/// # Panics
/// When it is not noticed, or when noticing changes the counter.
pub async fn older_than_the_caller_is_rolled_back(store: &dyn RangeStore) {
    const LAW: &str = "a store that went back in time says so";
    let mut sequence = made(LAW, store, "law-floor", 1).await;
    let range = must(LAW, store.allocate(&sequence, count(10), None).await);
    sequence.floor = range.end + 1;
    must_not(LAW, StoreErrorKind::RolledBack, store.allocate(&sequence, count(10), None).await);
    must_not(LAW, StoreErrorKind::RolledBack, store.allocate(&sequence, count(10), Some(&key("law-floor"))).await);
    sequence.floor = range.end;
    let next = must(LAW, store.allocate(&sequence, count(10), None).await);
    assert_eq!(next.start, range.end, "{LAW}: the refusals changed the counter");
}

/// A tail goes back only while nothing has happened since it was cut, and only once.
///
/// # Panics
/// When a tail is taken back that somebody else could have.
pub async fn only_an_untouched_tail_is_taken_back(store: &dyn RangeStore) {
    const LAW: &str = "only an untouched tail is taken back";
    let sequence = made(LAW, store, "law-tail", 1).await;
    let cut = async || must(LAW, store.allocate(&sequence, count(100), None).await);
    let give = async |tail: IdRange| must(LAW, store.give_back(tail).await);
    let tail_of = |range: &IdRange| IdRange::new(range.sequence.clone(), range.start + 40, range.end, range.version);

    let first = cut().await;
    assert!(give(tail_of(&first)).await, "{LAW}: an untouched tail was not taken");
    assert!(!give(tail_of(&first)).await, "{LAW}: a replayed request took it twice");
    let second = cut().await;
    assert_eq!(second.start, first.start + 40, "{LAW}: the tail is handed out next");
    assert!(!give(tail_of(&first)).await, "{LAW}: a delayed request took numbers of somebody else");

    let third = cut().await;
    assert!(!give(tail_of(&second)).await, "{LAW}: taken although a range was allocated since");
    must(LAW, store.raise(&sequence, third.end + 1_000).await);
    assert!(!give(tail_of(&third)).await, "{LAW}: taken although the sequence was raised since");

    // After a give-back and a new cut of the same length the numbers agree again: only the version tells them apart.
    let old = cut().await;
    assert!(give(IdRange::new(old.sequence.clone(), old.start, old.end, old.version)).await, "{LAW}: a whole range");
    let new = cut().await;
    assert_eq!((new.start, new.end), (old.start, old.end), "{LAW}: a whole range given back is handed out next");
    assert!(!give(tail_of(&old)).await, "{LAW}: a delayed request took numbers of a later range with the same end");

    for (start, end) in [(new.end, new.end), (new.end + 5, new.end), (new.start, new.end + 1)] {
        let odd = IdRange::new(new.sequence.clone(), start, end, new.version);
        assert!(!give(odd).await, "{LAW}: {start}..{end} is no tail of {new:?}");
    }
    let last = cut().await;
    assert_eq!(last.start, new.end, "{LAW}: the refused tails changed the counter");
}

/// Raising moves up, to 2^63 at most, and never down.
///
/// # Panics
/// When it lowers.
pub async fn raising_never_lowers(store: &dyn RangeStore) {
    const LAW: &str = "raising never lowers";
    let sequence = made(LAW, store, "law-raise", 1).await;
    let take = async || must(LAW, store.allocate(&sequence, count(1), None).await).start;
    must(LAW, store.raise(&sequence, 500).await);
    assert_eq!(take().await, 500, "{LAW}: the next number");
    for floor in [0, 1, 500] {
        must(LAW, store.raise(&sequence, floor).await);
    }
    assert_eq!(take().await, 501, "{LAW}: lowered");
    for floor in [RANGE_END + 1, u64::MAX] {
        must_not(LAW, StoreErrorKind::Refused, store.raise(&sequence, floor).await);
    }
    assert_eq!(take().await, 502, "{LAW}: a refused raise changed the counter");
    must(LAW, store.raise(&sequence, RANGE_END).await);
    must_not(LAW, StoreErrorKind::Spent, store.allocate(&sequence, count(1), None).await);
}

/// Whoever holds a range learns from any later version that the sequence was raised since, and only then.
///
/// # Panics
/// When not.
pub async fn raising_is_told_by_the_version(store: &dyn RangeStore) {
    const LAW: &str = "a raise is told by the version";
    let sequence = made(LAW, store, "law-raise-told", 1).await;
    let cut = async || must(LAW, store.allocate(&sequence, count(10), None).await);
    let before = cut().await;
    must(LAW, store.raise(&sequence, 5).await);
    let tail = IdRange { start: 3, ..before.clone() };
    assert!(!must(LAW, store.give_back(tail).await), "{LAW}: a tail of before a raise may lie below it");
    let unmoved = cut().await;
    assert_eq!(unmoved.start, before.end, "{LAW}: a raise to less moves nothing");
    assert!(raises(unmoved.version) > raises(before.version), "{LAW}: who holds numbers below it must hear of it");
    must(LAW, store.raise(&sequence, 1_000).await);
    let told = must(LAW, store.sequence(&sequence.name).await);
    let told = told.unwrap_or_else(|| panic!("{LAW}: the sequence is not found by its name"));
    assert_eq!(told, row(LAW, store, &sequence).await, "{LAW}: found by name as in the list");
    assert!(raises(told.version) > raises(unmoved.version), "{LAW}: {told:?} after {unmoved:?}");
    let after = cut().await;
    assert_eq!(after.start, 1_000, "{LAW}: the next range");
    assert_eq!(raises(after.version), raises(told.version), "{LAW}: by ranges too");
    assert!(must(LAW, store.give_back(after).await), "{LAW}: a tail goes back as ever");
    assert_eq!(must(LAW, store.sequence("law-raise-nobody").await), None, "{LAW}: a sequence that is not there");
}

/// The same request with the same key gets the same range, at once and later; another key or sequence gets another one.
///
/// # Panics
/// When a repeat costs a range, or a key is answered with a range of another length.
pub async fn a_key_repeats_its_range(store: &dyn RangeStore, trial: Trial) {
    const LAW: &str = "an idempotency key repeats its range";
    let sequence = made(LAW, store, "law-key", 1).await;
    let other = made(LAW, store, "law-key-other", 7_000).await;
    let (one, two) = (key("law-1"), key("law-2"));
    let mut answers = join_all((0..trial.at_once.min(16)).map(|_| store.allocate(&sequence, count(10), Some(&one))))
        .await
        .into_iter()
        .map(|answer| must(LAW, answer));
    let Some(range) = answers.next() else { return };
    assert!(answers.all(|answer| answer == range), "{LAW}: repeats at once got different ranges");

    let apart = must(LAW, store.allocate(&sequence, count(10), Some(&two)).await);
    let plain = must(LAW, store.allocate(&sequence, count(10), None).await);
    assert_disjoint(LAW, &mut [range.clone(), apart, plain]);
    let elsewhere = must(LAW, store.allocate(&other, count(10), Some(&one)).await);
    assert_eq!(
        (elsewhere.sequence.as_str(), elsewhere.start),
        ("law-key-other", 7_000),
        "{LAW}: a key is one sequence's"
    );

    must_not(LAW, StoreErrorKind::Refused, store.allocate(&sequence, count(11), Some(&one)).await);
    let before = row(LAW, store, &sequence).await;
    let again = must(LAW, store.allocate(&sequence, count(10), Some(&one)).await);
    assert_eq!(again, range, "{LAW}: a later repeat");
    assert_eq!(row(LAW, store, &sequence).await, before, "{LAW}: a repeat changed the counter");
}

/// Giving back what a key can still ask for must not put its numbers into two hands.
///
/// # Panics
/// When it does.
pub async fn a_tail_behind_a_key_is_not_doubled(store: &dyn RangeStore) {
    const LAW: &str = "a tail that a key can ask for again is not handed out";
    let sequence = made(LAW, store, "law-key-tail", 1).await;
    let one = key("law-tail");
    let range = must(LAW, store.allocate(&sequence, count(100), Some(&one)).await);
    let tail = IdRange::new(range.sequence.clone(), range.start + 1, range.end, range.version);
    // Taking it is allowed if the key's answer shrinks with it.
    must(LAW, store.give_back(tail).await);
    let fresh = must(LAW, store.allocate(&sequence, count(100), None).await);
    let again = must(LAW, store.allocate(&sequence, count(100), Some(&one)).await);
    assert_disjoint(LAW, &mut [fresh, again]);
}

/// The last range is shorter, then the sequence is spent; 2^63 and above are never handed out.
///
/// # Panics
/// When it ends in another way.
pub async fn the_end_is_orderly(store: &dyn RangeStore) {
    const LAW: &str = "a sequence ends in order";
    let start = 9_223_372_036_854_775_001;
    let sequence = made(LAW, store, "law-end", start).await;
    let last = must(LAW, store.allocate(&sequence, count(1_000), Some(&key("law-end"))).await);
    assert_eq!((last.start, last.end, last.count()), (start, RANGE_END, 807), "{LAW}: the last range");
    for _ in 0..2 {
        must_not(LAW, StoreErrorKind::Spent, store.allocate(&sequence, count(1), None).await);
    }
    let again = must(LAW, store.allocate(&sequence, count(1_000), Some(&key("law-end"))).await);
    assert_eq!(again, last, "{LAW}: a repeat at the end");
    assert_eq!(row(LAW, store, &sequence).await.next, RANGE_END, "{LAW}: where it stands");

    let sequence = made(LAW, store, "law-end-tail", start).await;
    let last = must(LAW, store.allocate(&sequence, NonZeroU32::MAX, None).await);
    let tail = IdRange::new(last.sequence.clone(), RANGE_END - 7, RANGE_END, last.version);
    assert!(must(LAW, store.give_back(tail).await), "{LAW}: the last tail was not taken back");
    let last = must(LAW, store.allocate(&sequence, count(100), None).await);
    assert_eq!((last.start, last.end), (RANGE_END - 7, RANGE_END), "{LAW}: the last tail");
}

/// The smallest and the largest start: 0 is a number like any other, and 2^63 - 1 gives one number.
///
/// # Panics
/// When not.
pub async fn the_last_number_alone(store: &dyn RangeStore) {
    const LAW: &str = "any start from 0 to 2^63 - 1 works";
    let zero = made(LAW, store, "law-zero", 0).await;
    assert_eq!(must(LAW, store.allocate(&zero, count(2), None).await).start, 0, "{LAW}: start 0");
    let last = made(LAW, store, "law-last", RANGE_END - 1).await;
    let range = must(LAW, store.allocate(&last, count(5), None).await);
    assert_eq!((range.start, range.end), (RANGE_END - 1, RANGE_END), "{LAW}: start 2^63 - 1");
    must_not(LAW, StoreErrorKind::Spent, store.allocate(&last, count(5), None).await);
}

/// The list names every sequence with its next number, in the order of the names, and versions only count up.
///
/// # Panics
/// When not.
pub async fn listed_by_name(store: &dyn RangeStore) {
    const LAW: &str = "sequences are listed by name";
    for name in ["law-list-b", "law-list-a", "law-list-c"] {
        made(LAW, store, name, 5).await;
    }
    let sequence = Sequence::new("law-list-b", 5);
    let before = row(LAW, store, &sequence).await;
    assert_eq!(before.next, 5, "{LAW}: a new sequence stands at its start");
    must(LAW, store.allocate(&sequence, count(3), None).await);
    let after = row(LAW, store, &sequence).await;
    assert!(after.next == 8 && after.version > before.version, "{LAW}: {before:?}, then {after:?}");
    let names: Vec<String> = must(LAW, store.sequences().await).into_iter().map(|row| row.name).collect();
    assert!(names.is_sorted(), "{LAW}: {names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("law-list-")).count(), 3, "{LAW}: {names:?}");
}

/// `*` stands for the sequences that are not there: none is made of that name, and none is listed.
///
/// # Panics
/// When one is.
pub async fn no_sequence_has_the_name_of_all_others(store: &dyn RangeStore) {
    const LAW: &str = "no sequence is named *";
    let unlisted = Sequence::new(UNLISTED, 1);
    must_not(LAW, StoreErrorKind::Refused, store.create(&unlisted).await);
    must_not(LAW, StoreErrorKind::Refused, store.restore(&unlisted).await);
    must_not(LAW, StoreErrorKind::Refused, store.allocate(&unlisted, count(1), None).await);
    must_not(LAW, StoreErrorKind::Refused, store.allocate(&unlisted, count(1), Some(&key("law-unlisted"))).await);
    for tail in [IdRange::new(UNLISTED, 0, 1, 0), IdRange::new(UNLISTED, 0, 0, 0)] {
        assert!(!must(LAW, store.give_back(tail).await), "{LAW}: a tail was taken back");
    }
    assert_eq!(must(LAW, store.sequence(UNLISTED).await), None, "{LAW}");
    assert!(must(LAW, store.sequences().await).iter().all(|row| row.name != UNLISTED), "{LAW}: it is listed");
}

/// Where a store can be told that it may have forgotten: no sequence gives a number until it was raised, whoever asks and by which
/// key, no tail is taken back, and none is made that is not there until somebody has said that it was never there.
///
/// Stops every sequence of the store, and raises them all at its end.
///
/// # Panics
/// When a number comes that may have been given before.
pub async fn stopped_until_raised(store: &dyn RangeStore) {
    const LAW: &str = "a stopped sequence gives nothing until it is raised";
    let one = made(LAW, store, "law-stop-a", 1).await;
    let other = made(LAW, store, "law-stop-b", 1).await;
    let before = must(LAW, store.allocate(&one, count(10), None).await);
    must(LAW, store.allocate(&other, count(10), Some(&key("law-stop"))).await);
    assert!(must(LAW, store.waiting().await).is_empty(), "{LAW}: some wait before any was stopped");
    if !must(LAW, store.stop_all().await) {
        return;
    }
    let new = Sequence::new("law-stop-new", 1);
    let waiting = must(LAW, store.waiting().await);
    for name in [UNLISTED, "law-stop-a", "law-stop-b"] {
        assert!(waiting.iter().any(|one| one == name), "{LAW}: {name} does not wait: {waiting:?}");
    }
    for _ in 0..2 {
        must_not(LAW, StoreErrorKind::RolledBack, store.allocate(&one, count(1), None).await);
        must_not(LAW, StoreErrorKind::RolledBack, store.allocate(&other, count(10), Some(&key("law-stop"))).await);
        must_not(LAW, StoreErrorKind::RolledBack, store.create(&new).await);
        assert!(!must(LAW, store.give_back(before.clone()).await), "{LAW}: a tail was taken back");
        must(LAW, store.create(&one).await);
    }
    must_not(LAW, StoreErrorKind::Refused, store.raise(&one, RANGE_END + 1).await);
    must_not(LAW, StoreErrorKind::RolledBack, store.allocate(&one, count(1), None).await);

    must(LAW, store.raise(&one, 100).await);
    let after = must(LAW, store.allocate(&one, count(10), None).await);
    assert_eq!(after.start, 100, "{LAW}: raised");
    assert!(raises(after.version) > raises(before.version), "{LAW}: who holds a range of before does not learn of it");
    let stopped = row(LAW, store, &other).await;
    must(LAW, store.raise(&other, 0).await);
    let raised = row(LAW, store, &other).await;
    assert!(raised.next == stopped.next && raises(raised.version) > raises(stopped.version), "{LAW}: by nothing");
    must_not(LAW, StoreErrorKind::RolledBack, store.create(&new).await);
    let restored = Sequence::new("law-stop-restored", 50);
    must(LAW, store.restore(&restored).await);
    must(LAW, store.restore(&Sequence { start: 7, ..restored.clone() }).await);
    assert_eq!(must(LAW, store.allocate(&restored, count(1), None).await).start, 50, "{LAW}: made on somebody's word");

    must(LAW, store.raise(&Sequence::new(UNLISTED, 0), 0).await);
    must(LAW, store.create(&new).await);
    assert_eq!(must(LAW, store.allocate(&new, count(1), None).await).start, 1, "{LAW}: a new one");
    for name in must(LAW, store.waiting().await) {
        must(LAW, store.raise(&Sequence::new(name, 0), 0).await);
    }
    assert!(must(LAW, store.waiting().await).is_empty(), "{LAW}: all were raised");
}

/// The history names the range that holds a number, shortened where a tail was taken back, and no other. A store may keep none:
/// then it says so.
///
/// # Panics
/// When it tells another story than the ranges.
pub async fn history_knows_who_got_a_number(store: &dyn RangeStore) {
    const LAW: &str = "the history knows who got a number";
    let name = "law-history";
    let sequence = made(LAW, store, name, 1).await;
    let cut = async |len: u32| must(LAW, store.allocate(&sequence, count(len), None).await);
    let held = async |number: u64| -> Vec<(u64, u64)> {
        let history = must(LAW, store.range_history(name, number).await);
        assert_eq!(history.lack, None, "{LAW}: it keeps a history, and now lacks something");
        history.grants.iter().map(|grant| (grant.start, grant.end)).collect()
    };
    let before = must(LAW, store.range_history(name, 1).await);
    assert!(before.grants.is_empty(), "{LAW}: {before:?} before anything was cut");
    if before.lack.is_some() {
        return;
    }
    let first = cut(100).await;
    for (number, expected) in [(0, vec![]), (1, vec![(1, 101)]), (100, vec![(1, 101)]), (101, vec![])] {
        assert_eq!(held(number).await, expected, "{LAW}: who had {number}");
    }
    assert!(must(LAW, store.range_history("law-history-other", 5).await).grants.is_empty(), "{LAW}: another sequence");
    let at_ms = |history: RangeHistory| history.grants.first().map_or(0, |grant| grant.at_ms);
    assert!(at_ms(must(LAW, store.range_history(name, 1).await)) > 0, "{LAW}: it does not say when");

    let tail = IdRange::new(name, 41, 101, first.version);
    assert!(must(LAW, store.give_back(tail).await), "{LAW}: an untouched tail was not taken back");
    assert_eq!((held(40).await, held(41).await), (vec![(1, 41)], vec![]), "{LAW}: after a tail was taken back");
    let second = cut(10).await;
    assert_eq!((held(40).await, held(41).await), (vec![(1, 41)], vec![(41, 51)]), "{LAW}: who got the tail");
    assert!(must(LAW, store.give_back(second).await), "{LAW}: an untouched range was not taken back");
    assert_eq!(held(41).await, vec![], "{LAW}: a range that was taken back whole");

    // A process that gives back several ranges in a row gives them back as one.
    let (_, third) = (cut(10).await, cut(10).await);
    assert!(
        must(LAW, store.give_back(IdRange::new(name, 44, third.end, third.version)).await),
        "{LAW}: two ranges at once"
    );
    assert_eq!((held(43).await, held(44).await, held(55).await), (vec![(41, 44)], vec![], vec![]), "{LAW}: two ranges");
    let again = cut(1).await;
    assert!(must(LAW, store.give_back(IdRange::new(name, 41, again.end, again.version)).await), "{LAW}: all of them");
    assert_eq!((held(40).await, held(41).await), (vec![(1, 41)], vec![]), "{LAW}: all of them");

    let once = key("law-history");
    let keyed = must(LAW, store.allocate(&sequence, count(5), Some(&once)).await);
    let again = must(LAW, store.allocate(&sequence, count(5), Some(&once)).await);
    assert_eq!(again, keyed, "{LAW}: a repeat of a key");
    assert_eq!(held(43).await, vec![(41, 46)], "{LAW}: a repeat is no second range");
    must(LAW, store.raise(&sequence, RANGE_END - 3).await);
    let last = cut(10).await;
    assert_eq!((last.start, last.end), (RANGE_END - 3, RANGE_END), "{LAW}: the end of the sequence");
    assert_eq!(
        (held(1_000).await, held(RANGE_END - 1).await),
        (vec![], vec![(RANGE_END - 3, RANGE_END)]),
        "{LAW}: the end"
    );
    assert_eq!((held(RANGE_END).await, held(u64::MAX).await), (vec![], vec![]), "{LAW}: beyond the end");
}

async fn made(law: &str, store: &dyn RangeStore, name: &str, start: u64) -> Sequence {
    let sequence = Sequence::new(name, start);
    must(law, store.create(&sequence).await);
    sequence
}

async fn row(law: &str, store: &dyn RangeStore, sequence: &Sequence) -> SequenceRow {
    let rows = must(law, store.sequences().await);
    let row = rows.into_iter().find(|row| row.name == sequence.name);
    row.unwrap_or_else(|| panic!("{law}: sequence {} is not listed", sequence.name))
}

fn assert_disjoint(law: &str, ranges: &mut [IdRange]) {
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        if let [one, two] = pair {
            assert!(one.end <= two.start, "{law}: {one:?} and {two:?} share numbers");
        }
    }
}

fn count(len: u32) -> NonZeroU32 {
    NonZeroU32::new(len).unwrap_or(NonZeroU32::MIN)
}

fn key(text: &str) -> IdempotencyKey {
    must("a key of printable characters", IdempotencyKey::new(text))
}
