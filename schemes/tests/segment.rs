//! The segment scheme against a store that can be slow, dead, lossy, forgetful or shared.
//!
//! The letters B and a number name real faults of other programs; each is tested as a whole kind.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Bits, IdRange, IdScheme, IdempotencyKey, ManualClock, MintError, Order, ParseError, RANGE_END, RangeStore,
    ReadyError, Sequence, SequenceRow, StoreError, StoreErrorKind, SystemClock, protocol, testkit,
};
use mintage_schemes::{Lane, Segment, SegmentFault, SegmentSettings, Stride, TextForm};
use proptest::prelude::*;
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinSet, yield_now},
    time::{Instant, sleep},
};

/// The largest number there is.
const LAST: u64 = RANGE_END - 1;

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It takes so many milliseconds.
    SlowMs(u64),
    /// It fails and has done nothing.
    Fails,
    /// It has done everything, and its answer is lost.
    AnswerLost,
    /// It never ends and has done nothing.
    Hangs,
    /// It panics.
    Panics,
}

/// A store in memory that follows the rules of `mintage_core::protocol`, with faults on order.
#[derive(Debug, Default)]
struct Shelf {
    rows: Mutex<BTreeMap<String, SequenceRow>>,
    /// Faults of the next calls, first come first served.
    next_faults: Mutex<VecDeque<Fault>>,
    /// The fault of every call, once `next_faults` is used up.
    fault: Mutex<Option<Fault>>,
    /// Every range cut, whether its answer arrived or not.
    cut: Mutex<Vec<IdRange>>,
    /// The answers to requests with a key.
    answers: Mutex<BTreeMap<String, IdRange>>,
    /// Every tail offered, and whether it was taken.
    offered: Mutex<Vec<(IdRange, bool)>>,
    calls: AtomicU64,
    running: AtomicU64,
    running_max: AtomicU64,
}

impl Shelf {
    fn with(name: &str, next: u64) -> Arc<Self> {
        let shelf = Self::default();
        let row = SequenceRow { name: name.to_owned(), next, version: 0 };
        shelf.rows.lock().unwrap().insert(name.to_owned(), row);
        Arc::new(shelf)
    }

    fn orders(next: u64) -> Arc<Self> {
        Self::with("orders", next)
    }

    fn next(&self) -> u64 {
        self.rows.lock().unwrap()["orders"].next
    }

    fn set_next(&self, next: u64) {
        self.rows.lock().unwrap().get_mut("orders").unwrap().next = next;
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn cut(&self) -> Vec<IdRange> {
        self.cut.lock().unwrap().clone()
    }

    fn offered(&self) -> Vec<(u64, u64, bool)> {
        self.offered.lock().unwrap().iter().map(|(tail, taken)| (tail.start, tail.end, *taken)).collect()
    }

    fn always(&self, fault: impl Into<Option<Fault>>) {
        self.next_faults.lock().unwrap().clear();
        *self.fault.lock().unwrap() = fault.into();
    }

    fn once(&self, fault: Fault) {
        self.next_faults.lock().unwrap().push_back(fault);
    }

    /// Another process takes a range.
    fn taken_by_another(&self, len: u32) -> Option<IdRange> {
        let mut rows = self.rows.lock().unwrap();
        protocol::allocate(rows.get_mut("orders")?, &Sequence::new("orders", 1), len).ok()
    }

    /// Runs `act` on the rows as one call of the store, with whatever fault is due.
    async fn call<T>(&self, act: impl FnOnce(&mut BTreeMap<String, SequenceRow>) -> T) -> Result<T, StoreError> {
        let due = self.next_faults.lock().unwrap().pop_front();
        let fault = due.or(*self.fault.lock().unwrap());
        match fault {
            Some(Fault::SlowMs(ms)) => sleep(Duration::from_millis(ms)).await,
            Some(Fault::Fails) => return Err(out_of_reach()),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Panics) => panic!("the store has a bug"),
            Some(Fault::AnswerLost) | None => yield_now().await,
        }
        let done = act(&mut self.rows.lock().unwrap());
        if fault == Some(Fault::AnswerLost) { Err(out_of_reach()) } else { Ok(done) }
    }
}

fn out_of_reach() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the shelf is out of reach: fetch a ladder")
}

/// Counts a call as running until it is dropped.
struct Running<'a>(&'a Shelf);

impl<'a> Running<'a> {
    fn start(shelf: &'a Shelf) -> Self {
        let running = shelf.running.fetch_add(1, Ordering::SeqCst) + 1;
        shelf.running_max.fetch_max(running, Ordering::SeqCst);
        shelf.calls.fetch_add(1, Ordering::SeqCst);
        Self(shelf)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl RangeStore for Shelf {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        let row = protocol::new_sequence(sequence)?;
        self.rows.lock().unwrap().entry(sequence.name.clone()).or_insert(row);
        Ok(())
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let _running = Running::start(self);
        self.call(|rows| {
            let mut answers = self.answers.lock().unwrap();
            if let Some(answer) = key.and_then(|key| answers.get(key.as_str())) {
                return Ok(answer.clone());
            }
            let row = rows.get_mut(&sequence.name).ok_or_else(|| protocol::lost_sequence(sequence))?;
            let range = protocol::allocate(row, sequence, len.get())?;
            self.cut.lock().unwrap().push(range.clone());
            answers.extend(key.map(|key| (key.as_str().to_owned(), range.clone())));
            Ok(range)
        })
        .await?
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.call(|rows| {
            let taken = rows.get_mut(&tail.sequence).is_some_and(|row| protocol::give_back(row, &tail));
            self.offered.lock().unwrap().push((tail, taken));
            taken
        })
        .await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        let mut rows = self.rows.lock().unwrap();
        protocol::raise(rows.get_mut(&sequence.name).ok_or_else(|| protocol::lost_sequence(sequence))?, floor)
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        Ok(self.rows.lock().unwrap().values().cloned().collect())
    }
}

fn ranges_of(len: u32) -> SegmentSettings {
    SegmentSettings::default().range_len(NonZeroU32::new(len).unwrap())
}

/// One range at the start instead of two.
fn single(len: u32) -> SegmentSettings {
    ranges_of(len).initial_ranges(1).unwrap()
}

async fn open(shelf: &Arc<Shelf>, settings: SegmentSettings) -> Segment {
    try_open(shelf, settings).await.unwrap()
}

async fn try_open(shelf: &Arc<Shelf>, settings: SegmentSettings) -> Result<Segment, ReadyError> {
    Segment::open(Arc::clone(shelf) as Arc<dyn RangeStore>, Sequence::new("orders", 1), settings).await
}

/// As callers do it.
async fn mint(segment: &Segment) -> Result<u64, ReadyError> {
    loop {
        match segment.mint() {
            Err(MintError::Exhausted { .. }) => segment.ready().await?,
            other => return other.map_err(ReadyError::from),
        }
    }
}

/// `count` numbers, without a pause in which the refill task could run.
fn mint_now(segment: &Segment, count: u64) -> Vec<u64> {
    (0..count).map(|_| segment.mint().unwrap()).collect()
}

/// Everything there is without the store.
fn drain(segment: &Segment) -> (Vec<u64>, MintError) {
    let mut ids = Vec::new();
    loop {
        match segment.mint() {
            Ok(id) => ids.push(id),
            Err(error) => return (ids, error),
        }
    }
}

/// Lets the refill task do all it can without time passing.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

fn store_kind(error: &ReadyError) -> Option<StoreErrorKind> {
    error.store_error().map(StoreError::kind)
}

fn numbers(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

fn assert_distinct(ids: &[u64]) {
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "a number was minted twice");
}

fn multi_thread(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_time().build().unwrap()
}

/// Two stores with one sequence each, odd and even.
async fn open_two(one: &Arc<Shelf>, two: &Arc<Shelf>, settings: SegmentSettings) -> Result<Segment, ReadyError> {
    let lane = |name: &str, shelf: &Arc<Shelf>, offset| {
        let store = Arc::clone(shelf) as Arc<dyn RangeStore>;
        Lane::new(name, store, Sequence::new("orders", 1)).every(Stride::new(2, offset).unwrap())
    };
    let lanes = vec![lane("one", one, 1), lane("two", two, 2)];
    Segment::open_over(lanes, settings, Arc::new(SystemClock), 0).await
}

mod two_stores {
    use super::*;

    fn troubled(segment: &Segment) -> Vec<String> {
        let health = segment.supply().unwrap();
        assert_eq!(health.is_whole(), health.stores.iter().all(|store| store.trouble.is_none()));
        health.stores.into_iter().filter(|store| store.trouble.is_some()).map(|store| store.name).collect()
    }

    async fn mint_many(segment: &Segment, count: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(mint(segment).await.unwrap());
        }
        ids
    }

    #[tokio::test(start_paused = true)]
    async fn a_raise_drops_the_ranges_of_its_own_store() {
        let (one, two) = (Shelf::orders(1), Shelf::orders(1));
        let segment = open_two(&one, &two, ranges_of(3)).await.unwrap();
        assert_eq!(mint_many(&segment, 1).await, [1]);
        two.raise(&Sequence::new("orders", 1), 1_001).await.unwrap();
        sleep(Duration::from_secs(61)).await;
        settle().await;
        let ids = mint_many(&segment, 8).await;
        assert_eq!(ids[..2], [3, 5], "one's range stays");
        let (even, odd): (Vec<u64>, Vec<u64>) = ids[2..].iter().partition(|id| *id % 2 == 0);
        assert_eq!((even, odd), (vec![1_002, 1_004, 1_006], vec![7, 9, 11]), "2, 4 and 6 are left");
    }

    #[tokio::test(start_paused = true)]
    async fn ranges_take_turns_and_share_no_number() {
        let (one, two) = (Shelf::orders(1), Shelf::orders(1));
        let segment = open_two(&one, &two, ranges_of(3)).await.unwrap();
        assert_eq!(segment.info().order, Order::Chance, "no order is promised");
        let ids = mint_many(&segment, 12).await;
        assert_eq!(ids, [1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12]);
        assert_eq!(troubled(&segment), Vec::<String>::new());
        segment.close().await.unwrap();
        // A clean end leaves no gap in either.
        assert_eq!((one.next(), two.next()), (13, 13));
    }

    #[tokio::test(start_paused = true)]
    async fn either_may_be_lost_and_comes_back() {
        for lost in 0..2 {
            for fault in [Fault::Fails, Fault::Hangs, Fault::AnswerLost] {
                let shelves = [Shelf::orders(1), Shelf::orders(1)];
                let segment = open_two(&shelves[0], &shelves[1], ranges_of(5)).await.unwrap();
                let mut ids = mint_many(&segment, 20).await;
                shelves[lost].always(fault);
                let began = Instant::now();
                ids.extend(mint_many(&segment, 200).await);
                let per_range = began.elapsed() / 40;
                assert!(per_range < Duration::from_millis(500), "{fault:?}: {per_range:?}");
                assert_eq!(troubled(&segment), [["one", "two"][lost]]);
                let late = &ids[120..];
                assert!(late.iter().all(|id| id % 2 == (lost as u64)), "only the other one gives numbers: {late:?}");
                shelves[lost].always(None);
                sleep(Duration::from_secs(6)).await;
                ids.extend(mint_many(&segment, 60).await);
                assert_eq!(troubled(&segment), Vec::<String>::new(), "{fault:?}");
                let back = &ids[ids.len() - 30..];
                assert!(back.iter().any(|id| id % 2 == 0) && back.iter().any(|id| id % 2 == 1), "{back:?}");
                assert_distinct(&ids);
                segment.close().await.unwrap();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn with_both_lost_it_waits_and_goes_on_with_the_first_that_answers() {
        let (one, two) = (Shelf::orders(1), Shelf::orders(1));
        let segment = open_two(&one, &two, ranges_of(4)).await.unwrap();
        one.always(Fault::Fails);
        two.always(Fault::Fails);
        let (mut ids, error) = drain(&segment);
        assert_eq!(ids.len(), 8);
        assert!(matches!(error, MintError::Exhausted { .. }), "{error}");
        assert_eq!(store_kind(&segment.ready().await.unwrap_err()), Some(StoreErrorKind::Unavailable));
        assert_eq!(troubled(&segment), ["one", "two"]);
        two.always(None);
        ids.extend(mint_many(&segment, 12).await);
        assert_eq!(troubled(&segment), ["one"]);
        assert_distinct(&ids);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_with_one_of_two_works_whichever_it_is() {
        for lost in 0..2 {
            let shelves = [Shelf::orders(1), Shelf::orders(1)];
            shelves[lost].always(Fault::Hangs);
            let segment = open_two(&shelves[0], &shelves[1], ranges_of(4)).await.unwrap();
            let ids = mint_many(&segment, 8).await;
            assert!(ids.iter().all(|id| id % 2 == (lost as u64)), "{ids:?}");
        }
        let shelves = [Shelf::orders(1), Shelf::orders(1)];
        shelves.iter().for_each(|shelf| shelf.always(Fault::Fails));
        let error = open_two(&shelves[0], &shelves[1], ranges_of(4)).await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Unavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_went_back_in_time_is_left_out() {
        let (one, two) = (Shelf::orders(1), Shelf::orders(1));
        let segment = open_two(&one, &two, ranges_of(4)).await.unwrap();
        let mut ids = mint_many(&segment, 16).await;
        one.set_next(1);
        ids.extend(mint_many(&segment, 60).await);
        assert_distinct(&ids);
        let health = segment.supply().unwrap();
        assert_eq!(health.stores[0].trouble.as_ref().unwrap().kind(), StoreErrorKind::RolledBack);
        assert!(health.stores[1].trouble.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn one_comes_to_its_end_before_the_other() {
        let (one, two) = (Shelf::orders(LAST - 9), Shelf::orders(LAST - 99));
        let segment = open_two(&one, &two, ranges_of(4)).await.unwrap();
        let mut ids = Vec::new();
        let end = loop {
            match mint(&segment).await {
                Ok(id) => ids.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!(end.kind(), MintError::Spent);
        assert_distinct(&ids);
        let odd = ids.iter().filter(|id| *id % 2 == 1).count();
        assert_eq!((odd, ids.len() - odd), (5, 50), "all there are");
        assert!(segment.supply().unwrap().stores.iter().all(|store| store.is_spent));
    }

    #[tokio::test(start_paused = true)]
    async fn stores_whose_numbers_meet_are_refused() {
        let shelf = Shelf::orders(1);
        let lane = |step, offset| {
            let store = Arc::clone(&shelf) as Arc<dyn RangeStore>;
            Lane::new("s", store, Sequence::new("orders", 1)).every(Stride::new(step, offset).unwrap())
        };
        for lanes in [vec![], vec![lane(2, 1), lane(2, 1)], vec![lane(2, 1), lane(3, 2)], vec![lane(1, 1), lane(1, 1)]]
        {
            let error = Segment::open_over(lanes, ranges_of(4), Arc::new(SystemClock), 0).await.unwrap_err();
            assert_eq!(error.kind(), MintError::Closed);
            let source = std::error::Error::source(&error).unwrap();
            assert_eq!(source.downcast_ref::<SegmentFault>(), Some(&SegmentFault::Lanes));
        }
    }
}

mod taking {
    use super::*;

    fn of(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_range_is_in_a_row_and_what_is_in_hand_stays() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        let first = mint(&segment).await.unwrap();
        let taken = segment.take_range(of(100_000)).await.unwrap();
        assert_eq!((taken.smallest(), taken.largest(), taken.step()), (Some(11), Some(100_010), 1));
        assert_eq!(taken.count_left(), 100_000);
        let mut ids: Vec<u64> = taken.collect();
        ids.push(first);
        ids.extend(drain(&segment).0);
        assert_distinct(&ids);
        assert_eq!(segment.take_range(of(1)).await.unwrap().collect::<Vec<_>>(), [100_011]);
        segment.close().await.unwrap();
        let closed = segment.take_range(of(1)).await.unwrap_err();
        assert_eq!(closed.kind(), MintError::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_asked_for_again_and_not_taken_twice() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::AnswerLost);
        shelf.once(Fault::Fails);
        let taken = segment.take_range(of(50)).await.unwrap();
        assert_eq!((taken.smallest(), taken.largest()), (Some(11), Some(60)));
        assert_eq!(shelf.next(), 61, "no gap");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_after_a_while_and_costs_nothing() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.always(Fault::Fails);
        let began = Instant::now();
        let error = segment.take_range(of(50)).await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Unavailable));
        assert!(began.elapsed() <= Duration::from_millis(SegmentSettings::MAX_WAIT_MS), "{:?}", began.elapsed());
        assert_eq!(shelf.next(), 11);
        // What needs a person is told at once.
        shelf.always(None);
        shelf.set_next(1);
        let (calls, error) = (shelf.calls(), segment.take_range(of(50)).await.unwrap_err());
        assert_eq!(store_kind(&error), Some(StoreErrorKind::RolledBack));
        assert_eq!(shelf.calls(), calls + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_gives_too_few_and_loses_none() {
        let shelf = Shelf::orders(LAST - 29);
        let segment = open(&shelf, single(10)).await;
        let error = segment.take_range(of(21)).await.unwrap_err();
        assert_eq!(error.kind(), MintError::Spent);
        assert_eq!(
            error.store_error().unwrap().to_string(),
            "sequence orders has 20 numbers left and 21 were asked for: ask for fewer, or plan a new one"
        );
        let taken = segment.take_range(of(20)).await.unwrap();
        assert_eq!((taken.smallest(), taken.largest()), (Some(LAST - 19), Some(LAST)));
        assert_eq!(mint_now(&segment, 10), numbers(LAST - 29, LAST - 20));
        assert_eq!(mint(&segment).await.unwrap_err().kind(), MintError::Spent);
        assert_eq!(segment.take_range(of(1)).await.unwrap_err().kind(), MintError::Spent);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_stores_one_is_enough() {
        let (one, two) = (Shelf::orders(1), Shelf::orders(1));
        let segment = open_two(&one, &two, single(10)).await.unwrap();
        let taken = segment.take_range(of(5)).await.unwrap();
        assert_eq!(taken.collect::<Vec<_>>(), [21, 23, 25, 27, 29]);
        one.always(Fault::Hangs);
        let taken = segment.take_range(of(5)).await.unwrap();
        assert_eq!(taken.collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
        let error = segment.take_range(of(u32::MAX)).await.unwrap_err();
        assert_eq!(error.store_error().unwrap().to_string(), "4294967295 numbers at once: take at most 2147483647");
    }

    #[tokio::test]
    async fn a_reader_has_none() {
        let reader = Segment::reader(TextForm::Decimal);
        assert_eq!(reader.take_range(of(1)).await.unwrap_err().kind(), MintError::Closed);
    }
}

mod sizing {
    use super::*;

    async fn pass(clock: &ManualClock, ms: u64) {
        clock.advance(ms);
        tokio::time::advance(Duration::from_millis(ms)).await;
        settle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn ranges_grow_to_the_rate_and_shrink_again() {
        let shelf = Shelf::orders(1);
        let clock = ManualClock::at(1_800_000_000_000);
        let at_most = |count| NonZeroU32::new(count).unwrap();
        let settings = SegmentSettings::default().range_lasting(at_most(10), at_most(1_000), 10_000).unwrap();
        let lane = Lane::new("main", Arc::clone(&shelf) as Arc<dyn RangeStore>, Sequence::new("orders", 1));
        let segment = Segment::open_over(vec![lane], settings, Arc::new(clock.clone()), 0).await.unwrap();
        let len = || segment.supply().unwrap().range_len;
        assert_eq!(len(), 10, "it begins with the fewest");
        // 50 a second.
        for _ in 0..6_000 {
            mint(&segment).await.unwrap();
            pass(&clock, 20).await;
        }
        assert!((500..=1_000).contains(&len()), "ten seconds of fifty, or up to twice as long: {}", len());
        let calls = shelf.calls();
        for _ in 0..1_000 {
            mint(&segment).await.unwrap();
            pass(&clock, 20).await;
        }
        assert!(shelf.calls() <= calls + 3, "a trip every ten seconds or more");
        // One a second.
        for _ in 0..4_000 {
            mint(&segment).await.unwrap();
            pass(&clock, 1_000).await;
        }
        assert!((10..=20).contains(&len()), "{}", len());
        assert!(shelf.cut().iter().all(|range| (10..=1_000).contains(&range.count())), "within the bounds");
    }
}

mod refilling {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn when_a_fifth_is_left_and_only_once() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(1000)).await;
        for round in 1..=3 {
            mint_now(&segment, 799);
            settle().await;
            assert_eq!((shelf.calls(), segment.remaining()), (round, 201), "not before");
            mint_now(&segment, 1);
            settle().await;
            assert_eq!((shelf.calls(), segment.remaining()), (round + 1, 1200), "at 200 of 1000");
            mint_now(&segment, 200);
            settle().await;
            assert_eq!((shelf.calls(), segment.remaining()), (round + 1, 1000), "once, and not on the switch");
        }
        assert_eq!(segment.refills(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn two_ranges_at_the_start_and_none_while_one_stands_by() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(1000)).await;
        assert_eq!((shelf.calls(), segment.remaining(), segment.refills()), (2, 2000, 2));
        let mut ids = mint_now(&segment, 1799);
        settle().await;
        assert_eq!(shelf.calls(), 2, "the second range is not low yet");
        ids.extend(mint_now(&segment, 1));
        settle().await;
        assert_eq!(shelf.calls(), 3);
        assert_eq!(ids, numbers(1, 1800));
    }

    #[tokio::test(start_paused = true)]
    async fn the_share_is_what_the_settings_say() {
        for (share, before) in [(0.0, 100), (0.5, 50), (0.9, 10), (1.0, 1)] {
            let shelf = Shelf::orders(1);
            let segment = open(&shelf, single(100).refill_at(share).unwrap()).await;
            settle().await;
            mint_now(&segment, before - 1);
            settle().await;
            assert_eq!(shelf.calls(), 1, "{share}");
            mint_now(&segment, 1);
            settle().await;
            assert_eq!(shelf.calls(), 2, "{share}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn on_demand_nothing_is_fetched_before_somebody_waits() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10).on_demand()).await;
        assert_eq!(mint_now(&segment, 10), numbers(1, 10));
        settle().await;
        assert_eq!(shelf.calls(), 1, "all spent, and nobody waits");
        assert_eq!(mint(&segment).await.unwrap(), 11);
        settle().await;
        assert_eq!(shelf.calls(), 2);
        segment.close().await.unwrap();
        assert_eq!(shelf.next(), 12, "a clean end leaves no gap");
    }

    #[tokio::test(start_paused = true)]
    async fn many_ranges_at_the_start() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10).initial_ranges(8).unwrap()).await;
        assert_eq!((shelf.calls(), segment.remaining()), (8, 80));
        assert_eq!(mint_now(&segment, 80), numbers(1, 80));
        segment.close().await.unwrap();
    }

    /// B144: a step smaller than the burst.
    #[tokio::test(start_paused = true)]
    async fn a_slow_store_and_a_small_range_still_serve_everybody() {
        let shelf = Shelf::orders(1);
        shelf.always(Fault::SlowMs(20));
        let segment = open(&shelf, ranges_of(50)).await;
        let mut ids = Vec::new();
        for _ in 0..5000 {
            ids.push(mint(&segment).await.unwrap());
        }
        assert_eq!(ids, numbers(1, 5000));
        assert_eq!(shelf.running_max.load(Ordering::SeqCst), 1, "one fetch at a time");

        for range in [1, 2, 10] {
            let shelf = Shelf::orders(1);
            shelf.always(Fault::SlowMs(20));
            let segment = Arc::new(open(&shelf, ranges_of(range)).await);
            let mut callers = JoinSet::new();
            for _ in 0..21 {
                let segment = Arc::clone(&segment);
                callers.spawn(async move { mint(&segment).await.unwrap() });
            }
            let mut ids = callers.join_all().await;
            ids.sort_unstable();
            assert_eq!(ids, numbers(1, 21), "ranges of {range}");
            assert_eq!(shelf.running_max.load(Ordering::SeqCst), 1);
        }
    }

    /// B146: 64 callers find the range empty at once.
    #[tokio::test(start_paused = true)]
    async fn everybody_waits_for_the_same_fetch() {
        for (range, expected_calls) in [(1000, 1), (65, 1), (33, 2), (3, 22)] {
            let shelf = Shelf::orders(1);
            // At 0 the next range is fetched when it is needed, not before.
            let segment = Arc::new(open(&shelf, single(range).refill_at(0.0).unwrap()).await);
            let held = drain(&segment).0;
            shelf.always(Fault::SlowMs(20));
            let before = shelf.calls();
            let mut callers = JoinSet::new();
            for _ in 0..64 {
                let segment = Arc::clone(&segment);
                callers.spawn(async move { mint(&segment).await.unwrap() });
            }
            let mut ids = callers.join_all().await;
            assert_eq!(shelf.calls() - before, expected_calls, "ranges of {range}");
            ids.sort_unstable();
            let first = held.len() as u64 + 1;
            assert_eq!(ids, numbers(first, first + 63), "no gap");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn batches_reserve_in_one_step_and_go_on_in_the_standby() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        assert_eq!(segment.mint_batch(&mut []), Ok(0));
        let mut out = [0; 15];
        assert_eq!(segment.mint_batch(&mut out), Ok(15));
        assert_eq!(out.to_vec(), numbers(1, 15), "across the switch");
        let mut out = [0; 15];
        assert_eq!(segment.mint_batch(&mut out), Ok(5), "a prefix");
        assert_eq!(out.to_vec(), [numbers(16, 20), vec![0; 10]].concat());
        assert!(matches!(segment.mint_batch(&mut out), Err(MintError::Exhausted { .. })));
        assert_eq!(segment.mint_batch(&mut []), Ok(0));
        segment.ready().await.unwrap();
        assert_eq!(segment.mint_batch(&mut out), Ok(10));
        assert_eq!(out[..10].to_vec(), numbers(21, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_leave_no_trace() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(5)).await;
        assert_eq!(drain(&segment).0, numbers(1, 5));
        for _ in 0..1_000_000 {
            assert!(matches!(segment.mint(), Err(MintError::Exhausted { .. })));
        }
        assert_eq!((segment.remaining(), shelf.calls()), (0, 1));
        assert_eq!(mint(&segment).await.unwrap(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn ready_looks_once_if_it_may_not_wait() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(5).max_wait_ms(0)).await;
        drain(&segment);
        let error = segment.ready().await.unwrap_err();
        assert!(matches!(error.kind(), MintError::Exhausted { .. }), "{error}");
        settle().await;
        segment.ready().await.unwrap();
        assert_eq!(segment.mint(), Ok(6));
    }
}

mod threads {
    use super::*;

    /// B90: load, then add as two steps.
    #[test]
    fn sixteen_threads_on_one_range() {
        let runtime = multi_thread(1);
        let shelf = Shelf::orders(1);
        let segment = runtime.block_on(open(&shelf, single(1_600_000)));
        let mut ids = in_threads(16, |_| mint_now(&segment, 100_000));
        ids.sort_unstable();
        assert_eq!(ids, numbers(1, 1_600_000));
    }

    #[test]
    fn sixteen_threads_on_many_ranges() {
        let runtime = multi_thread(1);
        let shelf = Shelf::orders(1);
        let segment = runtime.block_on(open(&shelf, ranges_of(1000)));
        let handle = runtime.handle();
        let mut ids = in_threads(16, |_| {
            let ids: Vec<u64> = (0..100_000).map(|_| handle.block_on(mint(&segment)).unwrap()).collect();
            assert!(ids.is_sorted(), "each thread sees numbers ascend");
            ids
        });
        ids.sort_unstable();
        assert_eq!(ids, numbers(1, 1_600_000), "distinct and without a gap");
        assert_eq!(shelf.running_max.load(Ordering::SeqCst), 1);
    }

    /// Ranges of one to seven numbers: nearly every mint is at a switch.
    #[test]
    fn switches_under_load() {
        let runtime = multi_thread(1);
        for len in [1, 2, 3, 7] {
            let shelf = Shelf::orders(1);
            let segment = runtime.block_on(open(&shelf, ranges_of(len).refill_at(1.0).unwrap()));
            let mut ids = in_threads(4, |number| {
                let mut ids = Vec::new();
                while ids.len() < 5_000 {
                    // Some by one, some in batches that run over several ranges.
                    let mut batch = [0; 5];
                    let wanted = if number % 2 == 0 { 1 } else { batch.len() };
                    match segment.mint_batch(&mut batch[..wanted]) {
                        Ok(made) => ids.extend_from_slice(&batch[..made]),
                        Err(MintError::Exhausted { .. }) => thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
                assert!(ids.is_sorted(), "each thread sees numbers ascend");
                ids
            });
            ids.sort_unstable();
            assert_eq!(ids, numbers(1, ids.len() as u64), "ranges of {len}");
            assert_eq!(shelf.running_max.load(Ordering::SeqCst), 1);
            runtime.block_on(segment.close()).unwrap();
            assert_eq!(shelf.next(), ids.len() as u64 + 1, "all the rest was given back");
            assert_eq!(shelf.calls(), shelf.cut().len() as u64, "one call a range");
        }
    }

    /// `Spent` is said only when the last number is gone, however close the threads are on each other's heels.
    #[test]
    fn the_end_under_load() {
        let runtime = multi_thread(1);
        for round in 0..1000 {
            let shelf = Shelf::orders(RANGE_END - 8);
            let settings = single(4).refill_at(f64::from(round % 2)).unwrap();
            let segment = runtime.block_on(open(&shelf, settings));
            let mut ids = in_threads(3, |_| {
                let mut ids = Vec::new();
                loop {
                    match segment.mint() {
                        Ok(id) => ids.push(id),
                        Err(MintError::Exhausted { .. }) => std::hint::spin_loop(),
                        Err(error) => {
                            assert_eq!((error, segment.mint()), (MintError::Spent, Err(MintError::Spent)));
                            return ids;
                        }
                    }
                }
            });
            ids.sort_unstable();
            assert_eq!(ids, numbers(RANGE_END - 8, LAST), "round {round}");
        }
    }

    #[test]
    fn the_laws_of_schemes_hold() {
        let runtime = multi_thread(1);
        for (len, text) in [(100_000, TextForm::Decimal), (100, TextForm::Base62), (7, TextForm::Crockford)] {
            let shelf = Shelf::orders(1);
            let segment = runtime.block_on(open(&shelf, ranges_of(len).text(text)));
            testkit::scheme::all(&segment);
        }
    }

    fn in_threads(count: usize, work: impl Fn(usize) -> Vec<u64> + Sync) -> Vec<u64> {
        let work = &work;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a minting thread")).collect()
        })
    }
}

mod numbering {
    use super::*;

    /// B149: after a restart the numbers go on above everything reserved, used or not.
    #[tokio::test(start_paused = true)]
    async fn a_restart_never_begins_anew() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(1000)).await;
        assert_eq!(mint_now(&segment, 1500), numbers(1, 1500));
        let reserved = shelf.next();
        drop(segment);
        for _ in 0..3 {
            let reserved_before = shelf.next();
            let segment = open(&shelf, ranges_of(1000)).await;
            assert_eq!(segment.mint(), Ok(reserved_before));
        }
        assert!(reserved > 2000);
    }

    /// B151: the end of the signed 64-bit numbers.
    #[tokio::test(start_paused = true)]
    async fn the_last_number_is_minted_and_then_it_is_over() {
        for initial in [1, 2] {
            let shelf = Shelf::orders(9_223_372_036_854_775_001);
            let segment = open(&shelf, ranges_of(1000).initial_ranges(initial).unwrap()).await;
            assert_eq!(segment.remaining(), 807);
            let (ids, error) = drain(&segment);
            assert_eq!(ids, numbers(9_223_372_036_854_775_001, LAST));
            assert_eq!(error, MintError::Spent, "at once, without asking the store again");
            for _ in 0..3 {
                settle().await;
                sleep(Duration::from_secs(3600)).await;
                assert_eq!(segment.mint(), Err(MintError::Spent));
                assert_eq!(segment.mint_batch(&mut [0; 3]), Err(MintError::Spent));
                assert_eq!(segment.ready().await.unwrap_err().kind(), MintError::Spent);
            }
            assert_eq!((shelf.calls(), shelf.next()), (1, RANGE_END));
            segment.close().await.unwrap();
            assert_eq!(segment.mint(), Err(MintError::Closed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_ends_earlier_is_an_orderly_end_too() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        mint_now(&segment, 5);
        // The row reaches its end by another process.
        shelf.set_next(RANGE_END);
        assert_eq!(drain(&segment).0, numbers(6, 10));
        let error = segment.ready().await.unwrap_err();
        assert_eq!((error.kind(), store_kind(&error)), (MintError::Spent, Some(StoreErrorKind::Spent)));
        assert_eq!(segment.mint(), Err(MintError::Spent));
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(shelf.calls(), 2, "nobody asks again");

        let error = try_open(&shelf, ranges_of(10)).await.unwrap_err();
        assert_eq!((error.kind(), store_kind(&error)), (MintError::Spent, Some(StoreErrorKind::Spent)));
    }

    /// A standby that reaches the end: drained before `Spent` is said.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_lost_at_the_end() {
        let shelf = Shelf::orders(RANGE_END - 25);
        let segment = open(&shelf, ranges_of(10)).await;
        let mut ids = Vec::new();
        let error = loop {
            match mint(&segment).await {
                Ok(id) => ids.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!((ids, error.kind()), (numbers(RANGE_END - 25, LAST), MintError::Spent));
    }

    /// B154: the first range after the start value.
    #[tokio::test(start_paused = true)]
    async fn the_first_range_is_like_every_other() {
        for (start, len) in [(1, 50), (1000, 1), (0, 3), (1, 1000)] {
            let shelf = Arc::new(Shelf::default());
            let sequence = Sequence::new("orders", start);
            shelf.create(&sequence).await.unwrap();
            let segment = Segment::open(shelf, sequence, ranges_of(len)).await.unwrap();
            let mut ids = Vec::new();
            for _ in 0..101 {
                ids.push(mint(&segment).await.unwrap());
            }
            assert_eq!(ids, numbers(start, start + 100), "start {start}, ranges of {len}");
        }
    }

    /// B156: the counter is the store's row, whatever became of the rows that were numbered.
    #[tokio::test(start_paused = true)]
    async fn a_deleted_row_does_not_free_its_number() {
        for closed in [true, false] {
            let shelf = Shelf::orders(1);
            let segment = open(&shelf, ranges_of(1000)).await;
            assert_eq!(mint_now(&segment, 6), numbers(1, 6));
            if closed {
                segment.close().await.unwrap();
            }
            drop(segment);
            let next = open(&shelf, ranges_of(1000)).await.mint().unwrap();
            assert_eq!(next, if closed { 7 } else { 2001 });
        }
    }

    /// B159: the smallest and the largest start.
    #[tokio::test(start_paused = true)]
    async fn starts_at_the_edges() {
        let shelf = Arc::new(Shelf::default());
        for (start, numbers) in [(0, vec![0, 1, 2]), (LAST, vec![LAST]), (LAST - 1, vec![LAST - 1, LAST])] {
            let sequence = Sequence::new(format!("from {start}"), start);
            shelf.create(&sequence).await.unwrap();
            let segment = Segment::open(shelf.clone(), sequence, ranges_of(3)).await.unwrap();
            let mut ids = Vec::new();
            while let (true, Ok(id)) = (ids.len() < 3, mint(&segment).await) {
                ids.push(id);
            }
            assert_eq!(ids, numbers, "start {start}");
        }
        // -1 and -5 as unsigned: outside the numbers there are.
        for start in [RANGE_END, u64::MAX, u64::MAX - 4] {
            assert!(shelf.create(&Sequence::new("below zero", start)).await.is_err());
        }
        assert_eq!(NonZeroU32::new(0), None, "no range of nothing can be asked for");
    }

    #[tokio::test(start_paused = true)]
    async fn several_segments_share_a_sequence() {
        let shelf = Shelf::orders(1);
        let (one, two) = (open(&shelf, ranges_of(10)).await, open(&shelf, ranges_of(7)).await);
        let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            of_one.push(mint(&one).await.unwrap());
            of_two.push(mint(&two).await.unwrap());
        }
        assert!(of_one.is_sorted() && of_two.is_sorted(), "each ascends");
        assert_distinct(&[of_one, of_two].concat());
    }
}

mod failures {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_dead_for_long_costs_nothing_but_time() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(1000)).await;
        shelf.always(Fault::Fails);
        assert_eq!(mint_now(&segment, 2000), numbers(1, 2000), "no mint waits for the store");
        for _ in 0..100 {
            let begun = Instant::now();
            let Err(MintError::Exhausted { retry_ms }) = segment.mint() else { panic!("{:?}", segment.mint()) };
            assert!(retry_ms <= 5000);
            let error = segment.ready().await.unwrap_err();
            assert!(matches!(error.kind(), MintError::Exhausted { .. }));
            assert_eq!(store_kind(&error), Some(StoreErrorKind::Unavailable));
            assert_eq!(begun.elapsed(), Duration::from_secs(5), "waits as long as it may, not longer");
        }
        let tries = shelf.calls() - 2;
        assert!((100..1000).contains(&tries), "500 s, about one try in 2.5 s: {tries}");
        assert_eq!(segment.last_error().unwrap().kind(), StoreErrorKind::Unavailable);

        shelf.always(None);
        segment.ready().await.unwrap();
        assert_eq!(segment.mint(), Ok(2001), "the next success is used");
        assert!(segment.last_error().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_before_the_end_goes_unnoticed() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(1000)).await;
        for _ in 0..3 {
            shelf.once(Fault::Fails);
        }
        mint_now(&segment, 800);
        settle().await;
        assert_eq!(segment.last_error().unwrap().kind(), StoreErrorKind::Unavailable);
        sleep(Duration::from_millis(50 + 100 + 200 + 1)).await;
        assert_eq!(
            (segment.refills(), segment.remaining()),
            (2, 1200),
            "back after three waits of 50, 100 and 200 ms at most"
        );
        assert!(segment.last_error().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_ends_is_given_up() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(1000)).await;
        shelf.once(Fault::Hangs);
        mint_now(&segment, 1000);
        let error = segment.ready().await.unwrap_err();
        assert!(error.store_error().is_none(), "nothing has been said yet");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(segment.mint(), Ok(1001), "the next try succeeded");
        assert_eq!(shelf.calls(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_costs_a_gap() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::AnswerLost);
        shelf.once(Fault::AnswerLost);
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(mint(&segment).await.unwrap());
        }
        assert_eq!(ids, [numbers(1, 10), numbers(31, 40)].concat());
    }

    /// B158: the row is deleted while the segment is in use.
    #[tokio::test(start_paused = true)]
    async fn a_deleted_sequence_is_said_and_not_made_again() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        shelf.rows.lock().unwrap().clear();
        assert_eq!(mint_now(&segment, 20), numbers(1, 20), "what is held goes on");
        settle().await;
        let begun = Instant::now();
        for _ in 0..100 {
            let error = segment.ready().await.unwrap_err();
            assert_eq!(store_kind(&error), Some(StoreErrorKind::Refused));
            assert!(error.store_error().unwrap().to_string().contains("orders"), "{error:?}");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "waiting would not help");
        assert_eq!(shelf.calls(), 3, "and nobody asks in a loop");

        // Made anew from 1: that would repeat.
        shelf.create(&Sequence::new("orders", 1)).await.unwrap();
        sleep(Duration::from_secs(6)).await;
        let error = segment.ready().await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::RolledBack));

        shelf.raise(&Sequence::new("orders", 1), 21).await.unwrap();
        sleep(Duration::from_secs(6)).await;
        assert_eq!(segment.mint(), Ok(21), "put right by an operator, it goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_went_back_in_time_is_not_believed() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        shelf.set_next(1);
        assert_eq!(drain(&segment).0, numbers(1, 20), "what is held goes on");
        let error = segment.ready().await.unwrap_err();
        assert!(matches!(error.kind(), MintError::Exhausted { .. }));
        assert_eq!(store_kind(&error), Some(StoreErrorKind::RolledBack));
        for next in [2, 10, 20] {
            shelf.set_next(next);
            sleep(Duration::from_secs(6)).await;
            assert!(matches!(segment.mint(), Err(MintError::Exhausted { .. })), "{next}");
            assert_eq!(segment.last_error().unwrap().kind(), StoreErrorKind::RolledBack);
        }
        assert_eq!(shelf.cut().len(), 2, "the store refused, nothing was cut");
    }

    /// A store that breaks its contract.
    #[derive(Debug)]
    struct Liar {
        answers: Mutex<VecDeque<IdRange>>,
    }

    #[async_trait]
    impl RangeStore for Liar {
        async fn create(&self, _: &Sequence) -> Result<(), StoreError> {
            Ok(())
        }
        async fn allocate(
            &self,
            _: &Sequence,
            _: NonZeroU32,
            _: Option<&IdempotencyKey>,
        ) -> Result<IdRange, StoreError> {
            self.answers.lock().unwrap().pop_front().ok_or_else(out_of_reach)
        }
        async fn give_back(&self, _: IdRange) -> Result<bool, StoreError> {
            Ok(false)
        }
        async fn raise(&self, _: &Sequence, _: u64) -> Result<(), StoreError> {
            Ok(())
        }
        async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_cannot_be_true_is_not_spent() {
        use StoreErrorKind::{Corrupt, RolledBack};
        let first = || IdRange::new("orders", 100, 110, 1);
        let lies = [
            (IdRange::new("orders", 100, 110, 1), RolledBack),
            (IdRange::new("orders", 109, 119, 2), RolledBack),
            (IdRange::new("orders", 1, 11, 2), RolledBack),
            (IdRange::new("users", 110, 120, 2), Corrupt),
            (IdRange::new("orders", 120, 120, 2), Corrupt),
            (IdRange::new("orders", 120, 110, 2), Corrupt),
            (IdRange::new("orders", 110, 121, 2), Corrupt),
            (IdRange::new("orders", LAST, LAST + 2, 2), Corrupt),
        ];
        for (lie, kind) in lies {
            let store = Liar { answers: Mutex::new(VecDeque::from([first(), lie.clone(), lie.clone()])) };
            let segment = Segment::open(Arc::new(store), Sequence::new("orders", 1), ranges_of(10)).await.unwrap();
            assert_eq!(drain(&segment).0, numbers(100, 109), "{lie:?}");
            assert_eq!(segment.last_error().unwrap().kind(), kind, "{lie:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_without_a_range_is_an_error() {
        let empty = Arc::new(Shelf::default());
        let error = try_open(&empty, ranges_of(10)).await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Refused), "the sequence does not exist");

        let dead = Shelf::orders(1);
        dead.always(Fault::Fails);
        let error = try_open(&dead, ranges_of(10)).await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Unavailable));
        assert_eq!(dead.calls(), 1, "one attempt");

        let hanging = Shelf::orders(1);
        hanging.always(Fault::Hangs);
        let error = try_open(&hanging, ranges_of(10)).await.unwrap_err();
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Unavailable), "in bounded time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_with_one_range_of_two_works() {
        let shelf = Shelf::orders(1);
        shelf.once(Fault::SlowMs(1));
        shelf.once(Fault::Fails);
        let segment = open(&shelf, ranges_of(10)).await;
        assert_eq!(segment.last_error().unwrap().kind(), StoreErrorKind::Unavailable);
        let mut ids = Vec::new();
        for _ in 0..30 {
            ids.push(mint(&segment).await.unwrap());
        }
        assert_eq!(ids, numbers(1, 30));
    }

    #[test]
    fn without_a_runtime_it_does_not_open() {
        let shelf = Shelf::orders(1);
        let mut opening = Box::pin(try_open(&shelf, ranges_of(10)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(opened) = opening.as_mut().poll(&mut context) else { panic!("it waits") };
        assert!(opened.is_err());
        assert_eq!(shelf.calls(), 0);
    }

    #[test]
    fn a_runtime_that_is_gone_is_named() {
        let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
        // Gone before its refill task began, and after.
        for begun in [false, true] {
            let shelf = Shelf::orders(1);
            let segment = runtime().block_on(async {
                let segment = open(&shelf, ranges_of(10)).await;
                if begun {
                    settle().await;
                }
                segment
            });
            assert_eq!(drain(&segment).0, numbers(1, 20), "what is held goes on");
            runtime().block_on(async {
                let error = segment.ready().await.unwrap_err();
                assert!(error.store_error().unwrap().to_string().contains("runtime"), "{error:?}");
                segment.close().await.unwrap();
            });
            assert_eq!(segment.mint(), Err(MintError::Closed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_panics_is_named() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        shelf.once(Fault::Panics);
        assert_eq!(drain(&segment).0, numbers(1, 20));
        let error = segment.ready().await.unwrap_err();
        assert!(error.store_error().unwrap().to_string().contains("panicked"), "{error:?}");
    }
}

mod raising {
    use super::*;

    /// An operator moves the counter up.
    async fn raise(shelf: &Shelf, floor: u64) {
        shelf.raise(&Sequence::new("orders", 1), floor).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_fetch_drops_what_lies_below() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        assert_eq!(mint_now(&segment, 8), numbers(1, 8));
        raise(&shelf, 1_000).await;
        // The standby range is still there: no fetch is due, and the operator's minute is not over.
        assert_eq!(mint_now(&segment, 10), numbers(9, 18));
        settle().await;
        assert_eq!(mint_now(&segment, 3), numbers(1_000, 1_002), "19 and 20 are left");
        segment.close().await.unwrap();
        assert_eq!(shelf.next(), 1_003, "and only the new range goes back");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_segment_learns_within_a_minute() {
        for settings in [ranges_of(10), single(10)] {
            let shelf = Shelf::orders(1);
            let segment = open(&shelf, settings).await;
            assert_eq!(mint_now(&segment, 3), numbers(1, 3));
            raise(&shelf, 1_000).await;
            sleep(Duration::from_secs(59)).await;
            settle().await;
            assert_eq!(mint_now(&segment, 1), [4]);
            // The timer began anew with nothing: taking a number asks for no range.
            sleep(Duration::from_secs(2)).await;
            settle().await;
            assert_eq!(mint_now(&segment, 2), [1_000, 1_001]);
            segment.close().await.unwrap();
            assert_eq!(shelf.next(), 1_002);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fetches_on_demand_learns_as_well() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10).on_demand()).await;
        assert_eq!(mint_now(&segment, 3), numbers(1, 3));
        raise(&shelf, 1_000).await;
        sleep(Duration::from_secs(61)).await;
        settle().await;
        assert!(matches!(segment.mint(), Err(MintError::Exhausted { .. })), "dropped, and nothing is fetched unasked");
        assert_eq!(mint(&segment).await.unwrap(), 1_000);
        segment.close().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_dropped_without_a_raise_or_an_answer() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        assert_eq!(mint_now(&segment, 3), numbers(1, 3));
        // Another process takes ranges, and the store is down for an hour.
        shelf.taken_by_another(500).unwrap();
        sleep(Duration::from_secs(61)).await;
        shelf.always(Fault::Fails);
        sleep(Duration::from_secs(3600)).await;
        settle().await;
        assert_eq!(mint_now(&segment, 17), numbers(4, 20));
    }

    /// The counter has passed the number, and this process has not: it holds some from below.
    #[tokio::test(start_paused = true)]
    async fn a_raise_that_moves_nothing_is_heard_of() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        assert_eq!(mint_now(&segment, 3), numbers(1, 3));
        raise(&shelf, 15).await;
        sleep(Duration::from_secs(61)).await;
        settle().await;
        assert_eq!(mint(&segment).await.unwrap(), 21);
        segment.close().await.unwrap();
        assert!(shelf.next() >= 21, "what lies below does not come back");
    }

    /// Sixteen threads mint while the counter is raised again and again: each number once, and none below a floor that was known.
    #[test]
    fn raises_under_load() {
        let runtime = multi_thread(2);
        let shelf = Shelf::orders(1);
        let segment = runtime.block_on(open(&shelf, ranges_of(50)));
        let ids: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        let handle = runtime.handle();
                        (0..500).map(|_| handle.block_on(mint(&segment)).unwrap()).collect::<Vec<u64>>()
                    })
                })
                .collect();
            for nth in 1..=20 {
                thread::yield_now();
                runtime.block_on(raise(&shelf, nth * 1_000_000));
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 8_000);
        assert_distinct(&ids);
        let last = runtime.block_on(async {
            while segment.remaining() > 0 {
                segment.mint().unwrap();
            }
            mint(&segment).await.unwrap()
        });
        assert!(last >= 20_000_000, "{last}");
        runtime.block_on(segment.close()).unwrap();
    }
}

mod closing {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_everything_unused_back_in_one_piece() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(1000)).await;
        mint_now(&segment, 5);
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), [(6, 2001, true)]);
        assert_eq!(shelf.next(), 6);
        assert_eq!(segment.mint(), Err(MintError::Closed));
        assert_eq!(segment.mint_batch(&mut [0; 3]), Err(MintError::Closed));
        assert_eq!(segment.ready().await.unwrap_err().kind(), MintError::Closed);
        assert_eq!(segment.remaining(), 0);
        segment.close().await.unwrap();
        assert_eq!(shelf.offered().len(), 1, "the second time nothing happens");
    }

    #[tokio::test(start_paused = true)]
    async fn gives_back_only_what_is_certainly_unused() {
        // Between our two ranges another process took one: only the second is given back.
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        mint_now(&segment, 7);
        shelf.taken_by_another(10);
        mint_now(&segment, 1);
        settle().await;
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), [(21, 31, true)]);

        // Another process took one and gave it back: contiguous, but not known to be ours throughout.
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        let foreign = shelf.taken_by_another(10).unwrap();
        assert!(shelf.give_back(foreign).await.unwrap());
        mint_now(&segment, 8);
        settle().await;
        segment.close().await.unwrap();
        assert_eq!(shelf.offered()[1..], [(11, 21, true)]);

        // Another process came after both.
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        shelf.taken_by_another(10);
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), [(1, 21, false)], "too late is a gap, not an error");
        assert_eq!(shelf.next(), 31);

        // Spent into the standby range.
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        mint_now(&segment, 15);
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), [(16, 21, true)]);

        // Nothing left: nothing is offered.
        let shelf = Shelf::orders(LAST);
        let segment = open(&shelf, ranges_of(10)).await;
        drain(&segment);
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn awaits_the_fetch_on_its_way_and_gives_that_back_too() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::SlowMs(1000));
        mint_now(&segment, 8);
        settle().await;
        let begun = Instant::now();
        let closing = segment.close();
        tokio::pin!(closing);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut closing).await.is_err(), "it waits");
        assert_eq!(segment.mint(), Err(MintError::Closed), "minting is impossible from the first moment");
        closing.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        assert_eq!(shelf.offered(), [(9, 21, true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn takes_a_bounded_time_whatever_the_store_does() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::Hangs);
        mint_now(&segment, 8);
        settle().await;
        let begun = Instant::now();
        let error = segment.close().await.unwrap_err();
        assert_eq!((error.kind(), store_kind(&error)), (MintError::Closed, Some(StoreErrorKind::Unavailable)));
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert_eq!(segment.mint(), Err(MintError::Closed));
        settle().await;
        assert_eq!(shelf.running.load(Ordering::SeqCst), 0, "the task is gone, its call with it");

        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::Hangs);
        let begun = Instant::now();
        assert!(segment.close().await.is_err());
        assert_eq!(begun.elapsed(), Duration::from_secs(5), "a give-back that hangs");
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_wait_for_the_next_try() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        for _ in 0..20 {
            shelf.once(Fault::Fails);
        }
        mint_now(&segment, 8);
        sleep(Duration::from_secs(10)).await;
        let calls = shelf.calls();
        shelf.always(None);
        let begun = Instant::now();
        segment.close().await.unwrap();
        assert_eq!((begun.elapsed(), shelf.calls()), (Duration::ZERO, calls));
        assert_eq!(shelf.offered(), [(9, 11, true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_give_back_is_tried_once_and_told() {
        for (fault, offers) in [(Fault::Fails, 0), (Fault::AnswerLost, 1)] {
            let shelf = Shelf::orders(1);
            let segment = open(&shelf, ranges_of(10)).await;
            shelf.once(fault);
            let error = segment.close().await.unwrap_err();
            assert_eq!((error.kind(), store_kind(&error)), (MintError::Closed, Some(StoreErrorKind::Unavailable)));
            segment.close().await.unwrap();
            settle().await;
            assert_eq!(shelf.offered().len(), offers, "never retried");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn twice_at_once_gives_back_once() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, ranges_of(10)).await;
        shelf.once(Fault::SlowMs(100));
        let begun = Instant::now();
        let (one, two) = tokio::join!(segment.close(), segment.close());
        one.unwrap();
        two.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(100), "the second waits for the first");
        assert_eq!(shelf.offered(), [(1, 21, true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_close_stays_closed() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::Hangs);
        mint_now(&segment, 8);
        settle().await;
        assert!(tokio::time::timeout(Duration::from_millis(1), segment.close()).await.is_err());
        settle().await;
        assert_eq!(shelf.running.load(Ordering::SeqCst), 0, "the task does not outlive it");
        assert_eq!(segment.mint(), Err(MintError::Closed));
        segment.close().await.unwrap();
        assert_eq!(shelf.offered(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_those_who_wait() {
        let shelf = Shelf::orders(1);
        let segment = Arc::new(open(&shelf, single(10)).await);
        shelf.always(Fault::Fails);
        drain(&segment);
        let waiting = tokio::spawn({
            let segment = Arc::clone(&segment);
            async move { segment.ready().await }
        });
        settle().await;
        let begun = Instant::now();
        segment.close().await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), MintError::Closed);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_ends_the_task_and_gives_nothing_back() {
        let shelf = Shelf::orders(1);
        let segment = open(&shelf, single(10)).await;
        shelf.once(Fault::Hangs);
        mint_now(&segment, 8);
        settle().await;
        assert_eq!(shelf.running.load(Ordering::SeqCst), 1);
        drop(segment);
        settle().await;
        assert_eq!(shelf.running.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&shelf), 1, "nobody holds the store any more");
        assert_eq!((shelf.offered(), shelf.next()), (vec![], 11));
    }

    /// No number is both minted and given back, whenever the close comes, and none is lost: every number below the
    /// store's next one was minted.
    #[test]
    fn races_with_minting() {
        const ROUNDS: u64 = 3000;
        let runtime = multi_thread(1);
        let mut given_back = 0;
        for round in 0..ROUNDS {
            let shelf = Shelf::orders(1);
            let segment = runtime.block_on(open(&shelf, ranges_of(1 + (round % 40) as u32)));
            let mut minted = thread::scope(|scope| {
                let minting: Vec<_> = (0..3)
                    .map(|size| {
                        scope.spawn({
                            let segment = &segment;
                            move || mint_until_closed(segment, size)
                        })
                    })
                    .collect();
                while segment.refills() < 2 + round % 7 {
                    thread::yield_now();
                }
                runtime.block_on(segment.close()).unwrap();
                minting.into_iter().flat_map(|thread| thread.join().expect("a minting thread")).collect::<Vec<_>>()
            });
            minted.sort_unstable();
            assert_eq!(minted, numbers(1, shelf.next() - 1), "round {round}: {:?}", shelf.offered());
            assert!(shelf.offered().iter().all(|(.., taken)| *taken));
            given_back += shelf.offered().len();
        }
        assert!(given_back > 0, "some rounds had something to give back");
    }

    /// One by one for `size` 0, else in batches.
    fn mint_until_closed(segment: &Segment, size: usize) -> Vec<u64> {
        let mut minted = Vec::new();
        let mut batch = vec![0; 1 + 4 * size];
        loop {
            match segment.mint_batch(&mut batch) {
                Ok(made) => minted.extend_from_slice(&batch[..made]),
                Err(MintError::Exhausted { .. }) => thread::yield_now(),
                Err(MintError::Closed) => return minted,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

mod reading {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_reads_and_mints_nothing() {
        for (form, text) in
            [(TextForm::Decimal, "42"), (TextForm::Base62, "0000000000g"), (TextForm::Crockford, "000000000001A")]
        {
            let reader = Segment::reader(form);
            let mut written = String::new();
            reader.format(42, &mut written).unwrap();
            assert_eq!((written.as_str(), reader.parse(text)), (text, Ok(42)));
            assert_eq!(reader.mint(), Err(MintError::Closed));
            assert_eq!(reader.mint_batch(&mut [0; 2]), Err(MintError::Closed));
            assert_eq!(reader.ready().await.unwrap_err().kind(), MintError::Closed);
            assert_eq!((reader.remaining(), reader.refills(), reader.last_error().is_none()), (0, 0, true));
            reader.close().await.unwrap();
        }
    }

    #[test]
    fn ids_are_63_bits_and_say_nothing_of_time() {
        let reader = Segment::reader(TextForm::Decimal);
        assert_eq!(reader.parse("9223372036854775807"), Ok(LAST));
        assert_eq!(reader.parse("9223372036854775808"), Err(ParseError::OutOfRange));
        assert_eq!(reader.parse("007"), Err(ParseError::LeadingZero));
        let anatomy = reader.anatomy(42);
        assert_eq!((anatomy.sequence, anatomy.time, anatomy.worker, anatomy.width()), (Some(42), None, None, 64));
        assert_eq!((reader.range_at(0, i64::MAX), reader.runs_out()), (None, None));
        let info = reader.info();
        assert_eq!((&*info.name, info.kind, info.bits, info.order), ("segment", Bits::Int, 63, Order::Minter));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let fault = SegmentSettings::default().refill_at(share).unwrap_err();
            assert!(matches!(fault, SegmentFault::RefillAt(_)) && fault.to_string().contains("0 to 1"), "{fault}");
        }
        for count in [0, 9, u32::MAX] {
            let fault = SegmentSettings::default().initial_ranges(count).unwrap_err();
            assert_eq!(fault, SegmentFault::InitialRanges(count));
            assert!(fault.to_string().contains("1 to 8"), "{fault}");
        }
        for share in [0.0, 0.2, 1.0] {
            assert!(SegmentSettings::default().refill_at(share).is_ok());
        }
    }
}

mod interleavings {
    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Mint,
        Batch(usize),
        /// The refill task runs.
        Settle,
        PassMs(u64),
        Once(Fault),
        /// Another process takes a range.
        Another(u32),
        /// The process ends, in order or not, and starts again.
        Restart {
            orderly: bool,
        },
        /// The store forgets all it did so far.
        RollBack,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let fault = prop_oneof![
            3 => Just(Fault::Fails),
            2 => Just(Fault::AnswerLost),
            1 => Just(Fault::Hangs),
            2 => (1u64..3000).prop_map(Fault::SlowMs),
        ];
        let step = prop_oneof![
            20 => Just(Step::Mint),
            10 => (1usize..40).prop_map(Step::Batch),
            8 => Just(Step::Settle),
            4 => (1u64..20_000).prop_map(Step::PassMs),
            4 => fault.prop_map(Step::Once),
            2 => (1u32..30).prop_map(Step::Another),
            2 => any::<bool>().prop_map(|orderly| Step::Restart { orderly }),
            1 => Just(Step::RollBack),
        ];
        proptest::collection::vec(step, 1..120)
    }

    /// What has been seen of a sequence.
    #[derive(Default)]
    struct Record {
        used: BTreeSet<u64>,
        /// The largest since the segment was opened.
        largest: Option<u64>,
        rolled_back: bool,
    }

    impl Record {
        fn minted(&mut self, ids: &[u64]) {
            for id in ids {
                assert!(self.largest < Some(*id), "{id} after {:?}: numbers of one process ascend", self.largest);
                self.largest = Some(*id);
                assert!(self.used.insert(*id), "{id} was used already");
            }
        }
    }

    async fn play(steps: Vec<Step>, settings: SegmentSettings) {
        let shelf = Shelf::orders(1);
        let mut segment = open(&shelf, settings).await;
        let mut record = Record::default();
        for step in steps {
            match step {
                Step::Mint => record.minted(&segment.mint().into_iter().collect::<Vec<u64>>()),
                Step::Batch(len) => {
                    let mut out = vec![0; len];
                    let made = segment.mint_batch(&mut out).unwrap_or(0);
                    record.minted(&out[..made]);
                }
                Step::Settle => settle().await,
                Step::PassMs(ms) => sleep(Duration::from_millis(ms)).await,
                Step::Once(fault) => shelf.once(fault),
                // A store that went back in time deceives everybody who starts afterwards: no promise is left to test.
                Step::Another(_) | Step::Restart { .. } if record.rolled_back => {}
                Step::Another(len) => {
                    let range = shelf.taken_by_another(len).unwrap();
                    record.used.extend(range.start..range.end);
                }
                Step::Restart { orderly } => {
                    if orderly {
                        // Whether the store could be told or not.
                        let _ = segment.close().await;
                        assert_eq!(segment.mint(), Err(MintError::Closed));
                    }
                    drop(segment);
                    shelf.always(None);
                    segment = open(&shelf, settings).await;
                    record.largest = None;
                }
                Step::RollBack => {
                    record.rolled_back = true;
                    shelf.set_next(1);
                }
            }
        }
        finish(&shelf, &segment, record).await;
    }

    /// When all is well again, numbers come again.
    async fn finish(shelf: &Shelf, segment: &Segment, mut record: Record) {
        shelf.always(None);
        shelf.raise(&Sequence::new("orders", 1), record.used.last().unwrap_or(&0) + 1_000).await.unwrap();
        // A call that hangs is given up after 30 s; the next try comes within 5 s.
        sleep(Duration::from_secs(36)).await;
        for _ in 0..100 {
            record.minted(&[mint(segment).await.unwrap()]);
        }
        settle().await;
        segment.close().await.unwrap();
        assert!(Some(&shelf.next()) > record.used.last(), "nothing used is handed out again");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn never_a_number_twice(
            steps in steps(),
            len in 1u32..50,
            refill_at in prop_oneof![Just(0.0), Just(0.2), Just(1.0), 0.0..=1.0f64],
            initial in 1u32..=8,
        ) {
            let settings = ranges_of(len).refill_at(refill_at).unwrap().initial_ranges(initial).unwrap();
            let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(play(steps, settings));
        }
    }
}

/// Invariant 12: a forked child repeats nothing of its parent's, gives nothing back and touches no connection.
#[cfg(unix)]
#[expect(unsafe_code, reason = "forks")]
mod forking {
    use std::{
        cell::Cell,
        io::Read,
        os::fd::FromRawFd,
        pin::pin,
        process::Command,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// Says to the test that it runs in a process of its own.
    const ALONE: &str = "MINTAGE_TEST_ALONE";

    /// Runs itself again in a process in which no other thread is at work, because only the thread that forks goes on
    /// in the child.
    #[test]
    fn a_child_mints_nothing_and_touches_nothing() {
        if std::env::var_os(ALONE).is_some() {
            fork_and_see();
            return;
        }
        let name = "forking::a_child_mints_nothing_and_touches_nothing";
        let told = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads=1", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && out.contains("1 passed"), "{out}{}", String::from_utf8_lossy(&told.stderr));
    }

    /// What parent and child each have a copy of.
    struct House {
        runtime: Runtime,
        shelf: Arc<Shelf>,
        segments: Vec<Segment>,
    }

    fn fork_and_see() {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let shelf = Shelf::orders(1);
        // One with a fetch on its way, one that waits for its next try, one that is about to fetch.
        let segments: Vec<Segment> = runtime.block_on(async {
            let fetching = open(&shelf, single(10)).await;
            shelf.once(Fault::SlowMs(1000));
            mint_now(&fetching, 8);
            settle().await;
            let retrying = open(&shelf, single(10)).await;
            shelf.once(Fault::Fails);
            mint_now(&retrying, 8);
            settle().await;
            let due = open(&shelf, single(10)).await;
            mint_now(&due, 8);
            vec![fetching, retrying, due]
        });
        let calls = shelf.calls();
        assert_eq!((calls, shelf.running.load(Ordering::SeqCst)), (5, 1));
        let house = Cell::new(Some(House { runtime, shelf, segments }));

        let told =
            in_child(|| house.take().ok_or("an empty house".to_owned()).and_then(|house| look_around(house, calls)));
        assert_eq!(told, "as it should be");

        // The parent has noticed nothing.
        let House { runtime, shelf, segments } = house.take().unwrap();
        assert_eq!(shelf.calls(), calls);
        runtime.block_on(async {
            let mut ids = Vec::new();
            for segment in &segments {
                for _ in 0..5 {
                    ids.push(mint(segment).await.unwrap());
                }
            }
            assert_distinct(&ids);
            for segment in &segments {
                segment.close().await.unwrap();
            }
        });
        assert_eq!(shelf.offered().len(), 3);
        drop((segments, runtime));
        assert_eq!(Arc::strong_count(&shelf), 1);
    }

    /// Says what is wrong in the child, which has a copy of everything.
    fn look_around(House { runtime, shelf, segments }: House, calls: u64) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        for segment in &segments {
            for _ in 0..1000 {
                let refused = (segment.mint(), segment.mint_batch(&mut [0; 3]));
                if refused != (Err(MintError::Forked), Err(MintError::Forked)) {
                    return Err(format!("mint: {refused:?}"));
                }
            }
            match pin!(segment.ready()).poll(&mut context) {
                Poll::Ready(Err(error)) if error.kind() == MintError::Forked => {}
                other => return Err(format!("ready: {other:?}")),
            }
            match pin!(segment.close()).poll(&mut context) {
                Poll::Ready(Ok(())) => {}
                other => return Err(format!("close: {other:?}")),
            }
        }
        // The runtime goes on here, and would run what is due.
        runtime.block_on(async {
            sleep(Duration::from_secs(3600)).await;
            settle().await;
        });
        drop(segments);
        runtime.block_on(settle());
        let left = Arc::downgrade(&shelf);
        drop(shelf);
        let Some(shelf) = left.upgrade() else { return Err("the store was dropped".to_owned()) };
        if (shelf.calls(), shelf.running.load(Ordering::SeqCst), shelf.offered()) != (calls, 1, vec![]) {
            return Err(format!("the store was used: {shelf:?}"));
        }
        // What a child must do: build anew.
        let fresh = Builder::new_current_thread().enable_time().build().map_err(|error| error.to_string())?;
        let own = fresh.block_on(open(&Shelf::orders(1), single(10)));
        if own.mint() != Ok(1) {
            return Err("a segment of the child's own does not mint".to_owned());
        }
        // The parent's runtime would drop what is on its way.
        std::mem::forget(runtime);
        Ok(())
    }

    /// Runs `check` in a forked child, which reports by a pipe and leaves by `_exit`.
    fn in_child(check: impl FnOnce() -> Result<(), String>) -> String {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: no other thread is at work, so the child finds every lock free.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let told = check().err().unwrap_or_else(|| "as it should be".to_owned());
            // SAFETY: writes from a live buffer to a descriptor of ours, and ends the process.
            unsafe {
                libc::write(ends[1], told.as_ptr().cast(), told.len());
                libc::_exit(0);
            }
        }
        // SAFETY: the descriptors and the child are ours; the read end is owned by the file from here on.
        let mut reader = unsafe {
            libc::close(ends[1]);
            std::fs::File::from_raw_fd(ends[0])
        };
        let mut told = String::new();
        reader.read_to_string(&mut told).unwrap();
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child crashed: {told}");
        told
    }
}
