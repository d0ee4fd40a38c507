//! The random schemes: order, times, clock faults, limits, threads.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mintage_core::{
    AnyId, AnyScheme, Clock, IdBits, IdScheme, ManualClock, MintError, Order, ParseError, SystemClock, testkit,
};
use mintage_schemes::{
    Entropy, Ksuid, RANDOM_DRIFT_MS, RandomOrder, RandomStep, StampError, Ulid, UuidV4, UuidV7, parse_ksuid, parse_ulid,
};
use proptest::prelude::*;
use svix_ksuid::KsuidLike;

/// 2026-01-01T00:00:00.123Z.
const NOW_MS: u64 = 1_767_225_600_123;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// What is varied between minters.
#[derive(Clone, Copy, Debug)]
struct Setup {
    order: RandomOrder,
    on_step: RandomStep,
    max_drift_ms: u64,
    entropy: fn() -> Entropy,
}

const STRICT: Setup = Setup {
    order: RandomOrder::Strict,
    on_step: RandomStep::Borrow,
    max_drift_ms: RANDOM_DRIFT_MS,
    entropy: Entropy::os,
};
const PER_THREAD: Setup = Setup { order: RandomOrder::Thread, ..STRICT };
const BY_TIME: Setup = Setup { order: RandomOrder::Time, ..STRICT };
const ALL_ONES: Setup = Setup { entropy: || Entropy::scripted([u64::MAX]), ..STRICT };

/// The three time-ordered schemes on one clock.
fn minters<C: Clock + Clone>(clock: &C, setup: Setup) -> [AnyScheme; 3] {
    macro_rules! minter {
        ($scheme:ident) => {
            Arc::new(
                $scheme::with_clock(clock.clone())
                    .order(setup.order)
                    .on_step(setup.on_step)
                    .max_drift_ms(setup.max_drift_ms)
                    .entropy((setup.entropy)()),
            )
        };
    }
    [AnyScheme::Wide(minter!(UuidV7)), AnyScheme::Wide(minter!(Ulid)), AnyScheme::Long(minter!(Ksuid))]
}

fn time_of(scheme: &AnyScheme, id: AnyId) -> i64 {
    scheme.anatomy(id).unwrap().time.unwrap().unix_ms
}

/// The start of the scheme's time unit at `now_ms`.
fn unit_start(scheme: &AnyScheme, now_ms: u64) -> i64 {
    let unit_ms = unit_ms(scheme);
    (now_ms - now_ms % unit_ms) as i64
}

fn unit_ms(scheme: &AnyScheme) -> u64 {
    if scheme.info().name == "ksuid" { 1000 } else { 1 }
}

fn mint(scheme: &AnyScheme, count: usize) -> Vec<AnyId> {
    (0..count).map(|_| scheme.mint().unwrap()).collect()
}

fn assert_ascending(scheme: &AnyScheme, ids: &[AnyId]) {
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{}: values ascend", scheme.info().name);
    let texts: Vec<String> = ids.iter().map(|id| scheme.format(*id).unwrap()).collect();
    assert!(texts.windows(2).all(|pair| pair[0] < pair[1]), "{}: texts ascend", scheme.info().name);
}

#[test]
fn the_laws() {
    testkit::scheme::all(&UuidV4::new());
    for order in [RandomOrder::Strict, RandomOrder::Thread, RandomOrder::Time] {
        testkit::scheme::all(&UuidV7::new().order(order));
        testkit::scheme::all(&Ulid::new().order(order));
        testkit::scheme::all(&Ksuid::new().order(order));
    }
}

#[test]
fn info_tells_what_is_promised() {
    for (setup, order) in [(STRICT, Order::Minter), (PER_THREAD, Order::Thread), (BY_TIME, Order::Time)] {
        for (scheme, (name, bits)) in
            minters(&SystemClock, setup).iter().zip([("uuidv7", 128), ("ulid", 128), ("ksuid", 160)])
        {
            let info = scheme.info();
            assert_eq!((info.name.as_ref(), info.bits, info.order), (name, bits, order));
        }
    }
    assert_eq!(UuidV4::new().info().order, Order::Chance);
}

/// B40, B35: in one standing millisecond everything ascends, as value and as text.
#[test]
fn a_standing_clock() {
    for scheme in minters(&ManualClock::at(NOW_MS), STRICT) {
        let ids = mint(&scheme, 10_000);
        assert_ascending(&scheme, &ids);
        assert!(ids.iter().all(|id| time_of(&scheme, *id) == unit_start(&scheme, NOW_MS)), "{}", scheme.info().name);
    }
}

/// Nobody can guess the next id from the last: the step varies over the whole width of the chance.
#[test]
fn the_step_is_unguessable() {
    let minter = Ulid::with_clock(ManualClock::at(NOW_MS));
    let ids: Vec<u128> = (0..1000).map(|_| minter.mint().unwrap()).collect();
    let steps: HashSet<u128> = ids.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps.len(), 999);
    let low_bits = |id: &u128| id & ((1 << 60) - 1);
    for bit in 0..60 {
        let ones = ids.iter().filter(|id| low_bits(id) >> bit & 1 == 1).count();
        assert!((350..650).contains(&ones), "bit {bit} is set in {ones} of 1000 ids");
    }
}

/// The 122, 74, 80 and 128 bits of a random tail are all used, and version and variant are not touched.
#[test]
fn the_tail_is_all_chance() {
    let clock = ManualClock::at(NOW_MS);
    let any = |ids: Vec<u128>| ids.into_iter().fold((0, u128::MAX), |(or, and), id| (or | id, and & id));
    let (or, and) = any((0..200).map(|_| UuidV4::new().mint().unwrap()).collect());
    assert_eq!((or, and), (!(0xb << 76 | 1 << 62), 4 << 76 | 1 << 63));
    let v7 = UuidV7::with_clock(clock.clone()).order(RandomOrder::Time);
    let (or, and) = any((0..200).map(|_| v7.mint().unwrap()).collect());
    let time = u128::from(NOW_MS) << 80;
    assert_eq!((or, and), (time | 0x7fff_bfff_ffff_ffff_ffff, time | 7 << 76 | 1 << 63));
    let ulid = Ulid::with_clock(clock.clone()).order(RandomOrder::Time);
    let (or, and) = any((0..200).map(|_| ulid.mint().unwrap()).collect());
    assert_eq!((or, and), (time | ((1 << 80) - 1), time));
    let ksuid = Ksuid::with_clock(clock).order(RandomOrder::Time);
    let tail = |id: [u8; 20]| u128::from_be_bytes(id[4..].try_into().unwrap());
    assert_eq!(any((0..200).map(|_| tail(ksuid.mint().unwrap())).collect()), (u128::MAX, 0));
}

/// A clock that shows the next of a list of readings, and counts them.
#[derive(Clone, Debug)]
struct Readings {
    list: Arc<[u64]>,
    read: Arc<AtomicUsize>,
}

impl Readings {
    fn new(list: impl Into<Arc<[u64]>>) -> Self {
        Self { list: list.into(), read: Arc::default() }
    }
}

impl Clock for Readings {
    fn unix_ms(&self) -> u64 {
        let at = self.read.fetch_add(1, Ordering::SeqCst);
        self.list[at % self.list.len()]
    }
    fn boot_ms(&self) -> u64 {
        0
    }
}

/// B45: one reading for each id, and one for a batch.
#[test]
fn one_reading_for_each_id() {
    for setup in [STRICT, PER_THREAD, BY_TIME] {
        let clock = Readings::new([1000, 1001, 1001, 1002, 1002, 1000, 1003].map(|ms| NOW_MS + ms));
        macro_rules! count {
            ($scheme:ident) => {{
                let scheme = $scheme::with_clock(clock.clone()).order(setup.order);
                let before = clock.read.load(Ordering::SeqCst);
                let ids: Vec<_> = (0..700).map(|_| scheme.mint().unwrap()).collect();
                assert_eq!(clock.read.load(Ordering::SeqCst) - before, 700);
                assert!(setup.order == RandomOrder::Time || ids.is_sorted());
                let mut batch = [ids[0]; 100];
                assert_eq!(scheme.mint_batch(&mut batch), Ok(100));
                assert_eq!(clock.read.load(Ordering::SeqCst) - before, 701);
            }};
        }
        count!(UuidV7);
        count!(Ulid);
        count!(Ksuid);
    }
}

/// B38: an hour back, and ids still ascend with the time they had reached.
#[test]
fn an_hour_back() {
    let clock = ManualClock::at(NOW_MS);
    for scheme in minters(&clock, STRICT) {
        clock.step_to(NOW_MS);
        let mut ids = mint(&scheme, 1000);
        clock.step(-3_600_000);
        ids.extend(mint(&scheme, 1000));
        assert_ascending(&scheme, &ids);
        let times: HashSet<i64> = ids.iter().map(|id| time_of(&scheme, *id)).collect();
        assert_eq!(times, [unit_start(&scheme, NOW_MS)].into(), "{}: the count absorbs the step", scheme.info().name);
        // The hour passes.
        clock.advance(3_600_000 + 5_000);
        ids.extend(mint(&scheme, 1));
        assert_ascending(&scheme, &ids);
        assert_eq!(time_of(&scheme, ids[2000]), unit_start(&scheme, NOW_MS + 5_000));
    }
}

/// A clock that jumps a year ahead and comes back is not followed for ever.
#[test]
fn a_year_ahead_and_back() {
    let year_ms = 365 * DAY_MS;
    for on_step in [RandomStep::Borrow, RandomStep::Refuse] {
        let clock = ManualClock::at(NOW_MS);
        for scheme in minters(&clock, Setup { on_step, ..STRICT }) {
            clock.step_to(NOW_MS);
            let mut ids = mint(&scheme, 10);
            clock.step(year_ms);
            ids.extend(mint(&scheme, 10));
            clock.step(-year_ms);
            match on_step {
                RandomStep::Borrow => {
                    let back = mint(&scheme, 10);
                    assert_ascending(&scheme, &back);
                    assert!(back.iter().all(|id| time_of(&scheme, *id) == unit_start(&scheme, NOW_MS)));
                    assert!(back[0] < ids[19], "the order is broken, once");
                    ids.extend(back);
                }
                _ => {
                    for _ in 0..10 {
                        let by_ms = u32::try_from(year_ms).unwrap_or(u32::MAX);
                        assert_eq!(scheme.mint(), Err(MintError::ClockBackwards { by_ms, limit_ms: u16::MAX }));
                    }
                    clock.step(year_ms);
                    ids.extend(mint(&scheme, 10));
                    assert_ascending(&scheme, &ids);
                }
            }
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 30);
        }
    }
}

/// The drift is exact: a step of that length is absorbed, one unit more is not.
#[test]
fn the_edge_of_the_drift() {
    let setup = Setup { on_step: RandomStep::Refuse, max_drift_ms: 5_000, ..STRICT };
    let clock = ManualClock::at(NOW_MS);
    for scheme in minters(&clock, setup) {
        clock.step_to(NOW_MS);
        let mut ids = mint(&scheme, 2);
        clock.step(-5_000);
        ids.extend(mint(&scheme, 2));
        assert_ascending(&scheme, &ids);
        clock.step(-(unit_ms(&scheme) as i64));
        let by_ms = 5_000 + unit_ms(&scheme) as u32;
        assert_eq!(scheme.mint(), Err(MintError::ClockBackwards { by_ms, limit_ms: 5_000 }));
        clock.step(unit_ms(&scheme) as i64);
        ids.extend(mint(&scheme, 2));
        assert_ascending(&scheme, &ids);
    }
}

/// B47: the worst draw leaves room for at least half the counts.
#[test]
fn the_unluckiest_draw() {
    for scheme in minters(&ManualClock::at(NOW_MS), ALL_ONES) {
        let ids = mint(&scheme, 1001);
        assert_ascending(&scheme, &ids);
        assert!(ids.iter().all(|id| time_of(&scheme, *id) == unit_start(&scheme, NOW_MS)));
    }
}

/// B35, B43: a full millisecond is refused, never carried into the time and never wrapped.
#[test]
fn a_full_millisecond() {
    const LEAST: usize = 1 << 19;
    macro_rules! fill {
        ($scheme:ident, $last:expr) => {{
            let clock = ManualClock::at(NOW_MS);
            let scheme = $scheme::with_clock(clock.clone()).entropy(Entropy::scripted([u64::MAX]));
            let mut ids = vec![0; LEAST * 2];
            let made = scheme.mint_batch(&mut ids).unwrap();
            assert_eq!(made, LEAST + 1, "from the worst draw, 2^19 - 1, to the end");
            ids.truncate(made);
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!(ids.last(), Some(&$last), "the very last of this millisecond");
            for _ in 0..3 {
                assert_eq!(scheme.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
                assert_eq!(scheme.mint_batch(&mut [0; 4]), Err(MintError::Exhausted { retry_ms: 1 }));
            }
            // Back by a millisecond: now the timeline is held ahead, and goes on.
            clock.step(-1);
            let next = scheme.mint().unwrap();
            assert!(next > $last);
            assert_eq!((next >> 80) as u64, NOW_MS + 1);
            clock.step(2);
            assert!(scheme.mint().unwrap() > next);
        }};
    }
    fill!(UuidV7, UuidV7::from_parts(NOW_MS as i64, (1 << 74) - 1).unwrap().as_u128());
    fill!(Ulid, Ulid::from_parts(NOW_MS as i64, (1 << 80) - 1).unwrap().0);
}

/// `ready` waits for the next millisecond and then there is room.
#[tokio::test(start_paused = true)]
async fn ready_waits_for_the_next_millisecond() {
    let clock = ManualClock::at(NOW_MS);
    let scheme = UuidV7::with_clock(clock.clone()).entropy(Entropy::scripted([u64::MAX]));
    let mut ids = vec![0; 1 << 20];
    scheme.mint_batch(&mut ids).unwrap();
    assert_eq!(scheme.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
    let before = tokio::time::Instant::now();
    scheme.ready().await.unwrap();
    assert_eq!(before.elapsed().as_millis(), 1);
    clock.advance(1);
    scheme.ready().await.unwrap();
    assert_eq!(before.elapsed().as_millis(), 1, "nothing to wait for");
    assert!(scheme.mint().unwrap() > ids[1 << 19]);
}

/// B36, B57: past the end of the time field it is spent, and never wraps.
#[test]
fn the_end_of_time() {
    for setup in [STRICT, PER_THREAD, BY_TIME] {
        for (index, last_ms) in [(1 << 48) - 1, (1 << 48) - 1, 5_694_967_295_999].into_iter().enumerate() {
            let clock = ManualClock::at(last_ms);
            let scheme = minters(&clock, setup)[index].clone();
            assert_eq!(scheme.runs_out(), Some(last_ms as i64));
            let last = scheme.mint().unwrap();
            assert_eq!(time_of(&scheme, last), unit_start(&scheme, last_ms));
            for beyond in [last_ms + 1, 1 << 62, u64::MAX] {
                clock.step_to(beyond);
                assert_eq!(scheme.mint(), Err(MintError::Spent), "{} at {beyond}", scheme.info().name);
            }
            clock.step_to(last_ms);
            assert!(setup.order == RandomOrder::Time || scheme.mint().unwrap() > last, "nothing was lost");
        }
    }
}

/// A minter that was made before a jump of centuries says so instead of wrapping.
#[test]
fn a_jump_of_centuries() {
    let clock = ManualClock::at(NOW_MS);
    for scheme in minters(&clock, STRICT) {
        clock.step_to(NOW_MS);
        let first = scheme.mint().unwrap();
        clock.step_to(1 << 47);
        assert_eq!(scheme.mint(), Err(MintError::Spent));
        clock.step_to(NOW_MS);
        assert!(scheme.mint().unwrap() > first);
    }
    // One that is made then works then.
    let clock = ManualClock::at(1 << 47);
    let [v7, ulid, _] = minters(&clock, STRICT);
    for scheme in [v7, ulid] {
        let ids = mint(&scheme, 100);
        assert_ascending(&scheme, &ids);
        assert_eq!(time_of(&scheme, ids[99]), 1 << 47);
        clock.step_to(NOW_MS);
        assert!(matches!(scheme.mint(), Err(MintError::ClockBackwards { by_ms: u32::MAX, .. })));
        clock.step_to(1 << 47);
    }
}

/// B10, B56: no id from before the epoch, and none from a clock that is not set.
#[test]
fn before_the_epoch() {
    for setup in [STRICT, PER_THREAD, BY_TIME] {
        let clock = ManualClock::at(0);
        for (scheme, first_ms) in minters(&clock, setup).iter().zip([1, 1, 1_400_000_000_000]) {
            for early in [0, first_ms / 2, first_ms - 1] {
                clock.step_to(early);
                assert_eq!(scheme.mint(), Err(MintError::ClockBeforeEpoch), "{}", scheme.info().name);
            }
            clock.step_to(first_ms);
            let id = scheme.mint().unwrap();
            assert_eq!(time_of(scheme, id), first_ms as i64);
        }
    }
    // The clock falls below the epoch while ids stand far above it.
    let clock = ManualClock::at(NOW_MS);
    let ksuid = Ksuid::with_clock(clock.clone());
    ksuid.mint().unwrap();
    clock.step_to(0);
    assert_eq!(ksuid.mint(), Err(MintError::ClockBeforeEpoch));
}

/// B29, B30, B32, B36, B48: ids of a given time carry exactly that time, or there is none.
#[test]
fn uuidv7_of_a_given_time() {
    let v7 = UuidV7::new();
    let text = |unix_ms: i64| v7.at(unix_ms).unwrap().to_string();
    assert!(text(1_767_225_600_123).starts_with("019b76da-a87b-7"));
    assert!(text(1_718_150_400_000).starts_with("019009be-8800-7"));
    assert!(text(1_078_625_331_860).starts_with("00fb2314-6a94-7"));
    assert!(text(0).starts_with("00000000-0000-7"));
    assert!(text(281_474_976_710_655).starts_with("ffffffff-ffff-7"));
    for unix_ms in [281_474_976_710_656, -1, i64::MIN, i64::MAX] {
        let time = ParseError::Time { unix_ms, from_ms: 0, to_ms: 281_474_976_710_655 };
        assert_eq!(v7.at(unix_ms), Err(StampError::Time(time.clone())));
        assert_eq!(UuidV7::from_parts(unix_ms, 0), Err(time));
    }
    assert_eq!(UuidV7::from_parts(0, 1 << 74), Err(ParseError::OutOfRange));
    assert_eq!(
        UuidV7::from_parts(0x017f_22e2_79b0, 0xcc3 << 62 | 0x18c4_dc0c_0c07_398f).unwrap().to_string(),
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    );
    assert_ne!(v7.at(5), v7.at(5), "the tail is chance");
}

/// B10, B48.
#[test]
fn ulid_of_a_given_time() {
    let ulid = Ulid::new();
    for unix_ms in [-1, i64::MIN, 1 << 48] {
        assert!(matches!(ulid.at(unix_ms), Err(StampError::Time(ParseError::Time { .. }))));
        assert!(Ulid::from_parts(unix_ms, 0).is_err());
    }
    for unix_ms in [0, 1, 1_078_625_331_860, 1_083_929_770_794, (1 << 48) - 1] {
        assert_eq!(ulid.at(unix_ms).unwrap().timestamp_ms(), unix_ms as u64);
    }
    assert_eq!(Ulid::from_parts(0, 1 << 80), Err(ParseError::OutOfRange));
    assert_eq!(Ulid::from_parts(1_644_519_328_811, (1 << 80) - 1).map(|id| id.to_string()).unwrap().len(), 26);
    // B43: the two neighbours are a millisecond apart; from_parts never makes one from the other.
    let last = parse_ulid("01FVJFV41BZZZZZZZZZZZZZZZZ").unwrap();
    assert_eq!(Ulid::from_parts(last.timestamp_ms() as i64, (1 << 80) - 1), Ok(last));
}

/// B54, B56, B57, B58.
#[test]
fn ksuid_of_a_given_time() {
    const EPOCH_MS: i64 = 1_400_000_000_000;
    let ksuid = Ksuid::new();
    for unix_ms in [946_684_800_000, EPOCH_MS - 1_000, EPOCH_MS - 1, 0, -1, 5_694_967_296_000, i64::MAX, i64::MIN] {
        let time = ParseError::Time { unix_ms, from_ms: EPOCH_MS, to_ms: 5_694_967_295_999 };
        assert_eq!(Ksuid::from_parts(unix_ms, [0; 16]), Err(time.clone()));
        assert_eq!(ksuid.at(unix_ms), Err(StampError::Time(time)));
    }
    let text = |unix_ms, payload| Ksuid::from_parts(unix_ms, payload).unwrap().to_string();
    assert_eq!(text(EPOCH_MS, [0; 16]), "000000000000000000000000000");
    assert_eq!(text(5_694_967_295_000, [0xff; 16]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
    assert_eq!(text(5_694_967_295_999, [0xff; 16]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
    assert_eq!(text(3_755_376_000_000, [0; 16]), "K1xUWoOsD63xYW4SBXfU1x6p9Xs");
    assert_eq!(ksuid.at(3_755_376_000_000).unwrap().timestamp_raw(), 2_355_376_000);
}

/// B62: one order for values, bytes and text.
#[test]
fn ksuid_order() {
    let [less, more] =
        ["0uk1Hbc9dQ9pxyTqJ93IUrfhdGq", "0uk1HdCJ6hUZKDgcxhpJwUl5ZEI"].map(|text| parse_ksuid(text).unwrap());
    assert_eq!(less.timestamp_raw(), more.timestamp_raw());
    assert!(less < more && less.bytes() < more.bytes() && less != more);
    assert!(less.bytes().to_any() < more.bytes().to_any());
}

/// B51, B75: tails of zeros and of ones; a span is cut to what can be stamped.
#[test]
fn bounds_of_a_time_span() {
    let [v7, ulid, ksuid] = minters(&SystemClock, STRICT);
    let texts = |scheme: &AnyScheme, from_ms, to_ms| {
        scheme.range_at(from_ms, to_ms).map(|(first, last)| [first, last].map(|id| scheme.format(id).unwrap()))
    };
    let at = 1_694_754_656_281;
    assert_eq!(texts(&ulid, at, at).unwrap(), ["01HABKZM0S0000000000000000", "01HABKZM0SZZZZZZZZZZZZZZZZ"]);
    assert_eq!(
        texts(&v7, at, at).unwrap(),
        ["018a973f-d019-7000-8000-000000000000", "018a973f-d019-7fff-bfff-ffffffffffff"]
    );
    let [first, last] = texts(&ksuid, at, at).unwrap().map(|text| *parse_ksuid(&text).unwrap().bytes());
    assert_eq!((&first[4..], &last[4..]), (&[0; 16][..], &[0xff; 16][..]));
    assert_eq!(first[..4], last[..4]);
    assert_eq!(u32::from_be_bytes(first[..4].try_into().unwrap()), 294_754_656);
    for (scheme, first_ms, last_ms) in
        [(&v7, 0, (1 << 48) - 1), (&ulid, 0, (1 << 48) - 1), (&ksuid, 1_400_000_000_000, 5_694_967_295_999)]
    {
        let all = scheme.range_at(first_ms, last_ms);
        assert_eq!(scheme.range_at(i64::MIN, i64::MAX), all);
        assert_eq!(scheme.range_at(first_ms - 1, last_ms + 1), all);
        assert_eq!(scheme.range_at(first_ms - 5, first_ms - 1), None);
        assert_eq!(scheme.range_at(last_ms + 1, i64::MAX), None);
        assert_eq!(scheme.range_at(at, at - 1), None);
        let (least, largest) = all.unwrap();
        assert!(least < largest);
        // The least ULID is the nil ULID, which tells no time.
        let time = scheme.anatomy(least).unwrap().time.map(|time| time.unix_ms);
        assert_eq!(time, (scheme.info().name != "ulid").then_some(first_ms));
    }
    assert_eq!(UuidV4::new().range_at(0, i64::MAX), None);
    assert_eq!(UuidV4::new().runs_out(), None);
}

/// B41: ids carry the wall clock's time.
#[test]
fn the_wall_clock() {
    for setup in [STRICT, PER_THREAD, BY_TIME] {
        for scheme in minters(&SystemClock, setup) {
            let before = unit_start(&scheme, SystemClock.unix_ms());
            let time = time_of(&scheme, scheme.mint().unwrap());
            assert!((before..before + 2000).contains(&time), "{}", scheme.info().name);
        }
    }
}

/// `NoEntropy`, not a panic; and a refused mint leaves the state as it was.
#[test]
fn without_entropy() {
    let dry = Setup { entropy: || Entropy::scripted([]), ..STRICT };
    for setup in [dry, Setup { order: RandomOrder::Time, ..dry }] {
        for scheme in minters(&ManualClock::at(NOW_MS), setup) {
            assert_eq!(scheme.mint(), Err(MintError::NoEntropy));
        }
    }
    let v4 = UuidV4::new().entropy(Entropy::scripted([]));
    assert_eq!(v4.mint(), Err(MintError::NoEntropy));
    assert_eq!(v4.mint_batch(&mut [0; 3]), Err(MintError::NoEntropy));
    assert_eq!(UuidV7::new().entropy(Entropy::scripted([])).at(5), Err(StampError::Mint(MintError::NoEntropy)));
}

#[tokio::test]
async fn closed_is_closed() {
    for setup in [STRICT, PER_THREAD, BY_TIME] {
        for scheme in minters(&ManualClock::at(NOW_MS), setup) {
            scheme.ready().await.unwrap();
            scheme.mint().unwrap();
            scheme.close().await.unwrap();
            scheme.close().await.unwrap();
            assert_eq!(scheme.mint(), Err(MintError::Closed));
            assert_eq!(scheme.ready().await.unwrap_err().kind(), MintError::Closed);
        }
    }
    let v4 = UuidV4::new();
    v4.close().await.unwrap();
    assert_eq!(v4.mint_uuid(), Err(MintError::Closed));
    assert_eq!(v4.mint_batch(&mut [0; 3]), Err(MintError::Closed));
    assert_eq!(v4.ready().await.unwrap_err().kind(), MintError::Closed);
    let v7 = UuidV7::new();
    v7.close().await.unwrap();
    assert_eq!(v7.mint_batch(&mut [0; 3]), Err(MintError::Closed));
    assert_eq!(v7.at(5), Err(StampError::Mint(MintError::Closed)));
}

/// Ids of the neighbours' types are the same ids.
#[test]
fn neighbours_types() {
    let uuid = UuidV7::new().mint_uuid().unwrap();
    assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122));
    let uuid = UuidV4::new().mint_uuid().unwrap();
    assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
    let ulid = Ulid::with_clock(ManualClock::at(NOW_MS)).mint_ulid().unwrap();
    assert_eq!(ulid.timestamp_ms(), NOW_MS);
    let ksuid = Ksuid::with_clock(ManualClock::at(NOW_MS)).mint_ksuid().unwrap();
    assert_eq!(ksuid.timestamp_seconds(), (NOW_MS / 1000) as i64);
}

/// B40: one minter, four threads; all ids differ and each thread's ascend.
#[test]
fn shared_between_threads() {
    const THREADS: usize = 4;
    const IDS: usize = 50_000;
    for (clock_stands, setup) in [(false, STRICT), (true, STRICT), (false, PER_THREAD), (true, PER_THREAD)] {
        let made = if clock_stands { shared(&ManualClock::at(NOW_MS), setup) } else { shared(&SystemClock, setup) };
        for threads in made {
            let all: HashSet<&AnyId> = threads.iter().flatten().collect();
            assert_eq!(all.len(), THREADS * IDS);
            assert!(threads.iter().all(|ids| ids.windows(2).all(|pair| pair[0] < pair[1])));
        }
    }

    fn shared<C: Clock + Clone>(clock: &C, setup: Setup) -> Vec<Vec<Vec<AnyId>>> {
        let share = |scheme: AnyScheme| {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| mint(&scheme, IDS))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        };
        minters(clock, setup).into_iter().map(share).collect()
    }
}

/// What one thread does does not move another's ids: each has a count of its own.
#[test]
fn threads_count_apart() {
    let clock = ManualClock::at(NOW_MS);
    // Each draw is zero, so a unit is counted from zero, and nothing but the count tells two ids apart.
    let zeros = Setup { entropy: || Entropy::scripted([0]), ..STRICT };
    for (order, alike) in [(RandomOrder::Strict, false), (RandomOrder::Thread, true)] {
        for scheme in minters(&clock, Setup { order, ..zeros }) {
            let ours = mint(&scheme, 3);
            // Several, because of very many threads two may share a place.
            let is_alike = || std::thread::scope(|scope| scope.spawn(|| mint(&scheme, 3)).join().unwrap()) == ours;
            let met = (0..4).any(|_| is_alike());
            assert_eq!(met, alike, "{}: only chance tells threads apart, and here there is none", scheme.info().name);
            assert!(mint(&scheme, 1)[0] > ours[2]);
        }
    }
}

/// A reading that another thread overtook is no step back: with no drift at all the order still holds.
#[test]
fn threads_without_drift() {
    for scheme in minters(&SystemClock, Setup { max_drift_ms: 0, on_step: RandomStep::Borrow, ..STRICT }) {
        let threads: Vec<Vec<AnyId>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| mint(&scheme, 20_000))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(threads.iter().all(|ids| ids.windows(2).all(|pair| pair[0] < pair[1])), "{}", scheme.info().name);
    }
}

/// What happens to the clock between two mints.
#[derive(Clone, Copy, Debug)]
enum Move {
    Pass(u64),
    Step(i64),
}

fn moves() -> impl Strategy<Value = Vec<(Move, usize)>> {
    let a_move = prop_oneof![
        4 => (0u64..2_500).prop_map(Move::Pass),
        2 => (-10_000i64..10_000).prop_map(Move::Step),
        1 => (-DAY_MS..DAY_MS).prop_map(Move::Step),
        1 => prop_oneof![Just(-3_600_000), Just(3_600_000), Just(-7_200_000), Just(-7_200_001)].prop_map(Move::Step),
    ];
    proptest::collection::vec((a_move, 1usize..6), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the clock does: no panic, no repeat, each id in the unit that the rules name, and strictly ascending as long
    /// as the clock stays within the drift.
    #[test]
    fn any_trace_of_the_clock(trace in moves(), refuse: bool, drift_ms in prop_oneof![Just(RANDOM_DRIFT_MS), 0u64..20_000]) {
        let on_step = if refuse { RandomStep::Refuse } else { RandomStep::Borrow };
        let clock = ManualClock::at(NOW_MS);
        let minters = |setup: Setup| minters(&clock, Setup { on_step, max_drift_ms: drift_ms, ..setup });
        for scheme in minters(STRICT).into_iter().chain(minters(PER_THREAD)) {
            clock.step_to(NOW_MS);
            let unit_ms = unit_ms(&scheme);
            let drift = (drift_ms.div_ceil(unit_ms) * unit_ms) as i64;
            let mut seen = HashSet::new();
            let mut last: Option<AnyId> = None;
            for (a_move, count) in &trace {
                match a_move {
                    Move::Pass(by_ms) => clock.advance(*by_ms),
                    Move::Step(by_ms) => clock.step(*by_ms),
                }
                let now = unit_start(&scheme, clock.unix_ms());
                for _ in 0..*count {
                    let reached = last.map_or(i64::MIN, |id| time_of(&scheme, id));
                    let ahead = reached.saturating_sub(now);
                    let minted = scheme.mint();
                    if refuse && ahead > drift {
                        let refused = matches!(minted, Err(MintError::ClockBackwards { by_ms, .. }) if i64::from(by_ms) == ahead);
                        prop_assert!(refused, "{:?}", minted);
                        continue;
                    }
                    let id = minted.unwrap();
                    prop_assert!(seen.insert(id), "repeated");
                    if ahead > drift {
                        prop_assert_eq!(time_of(&scheme, id), now, "followed back");
                    } else {
                        prop_assert!(last.is_none_or(|last| last < id), "{:?} then {:?}", last, id);
                        prop_assert_eq!(time_of(&scheme, id), reached.max(now));
                    }
                    last = Some(id);
                }
            }
        }
    }

    /// Any number of threads, each in batches of any size, while the clock stands: all ids differ, and each thread's ascend.
    #[test]
    fn any_threads(sizes in proptest::collection::vec(proptest::collection::vec(1usize..200, 1..12), 1..8)) {
        let minter = UuidV7::with_clock(ManualClock::at(NOW_MS)).order(RandomOrder::Thread);
        let batches = |sizes: &[usize]| {
            let ids = sizes.iter().flat_map(|size| {
                let mut batch = vec![0; *size];
                assert_eq!(minter.mint_batch(&mut batch), Ok(*size));
                batch
            });
            ids.collect::<Vec<u128>>()
        };
        let made: Vec<Vec<u128>> = std::thread::scope(|scope| {
            let threads: Vec<_> = sizes.iter().map(|sizes| scope.spawn(|| batches(sizes))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: HashSet<&u128> = made.iter().flatten().collect();
        prop_assert_eq!(all.len(), sizes.iter().flatten().sum::<usize>());
        prop_assert!(made.iter().all(|ids| ids.windows(2).all(|pair| pair[0] < pair[1])));
    }

    /// Any reading at all, however mad.
    #[test]
    fn any_reading(readings in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..1 << 49, Just(0)], 1..50), strict: bool) {
        let setup = if strict { STRICT } else { BY_TIME };
        for scheme in minters(&Readings::new(readings.clone()), setup) {
            let mut seen = HashSet::new();
            for _ in 0..200 {
                if let Ok(id) = scheme.mint() {
                    prop_assert!(seen.insert(id));
                    let time = time_of(&scheme, id);
                    prop_assert!(0 <= time && time <= scheme.runs_out().unwrap());
                    let known = readings.iter().any(|reading| {
                        i64::try_from(*reading).is_ok_and(|reading| (0..unit_ms(&scheme) as i64).contains(&(reading - time)))
                    });
                    prop_assert!(known, "{} is the time of no reading", time);
                }
            }
        }
    }

    /// B29, B36: any time is stamped exactly or refused.
    #[test]
    fn any_given_time(unix_ms: i64, near in -10i64..10) {
        for ms in [unix_ms, unix_ms >> 16, near, (1 << 48) + near, 1_400_000_000_000 + near, 5_694_967_296_000 + near] {
            let [v7, ulid, ksuid] = minters(&SystemClock, STRICT);
            let wide = UuidV7::new().at(ms).map(|id| time_of(&v7, AnyId::Wide(id.as_u128())));
            prop_assert_eq!(wide.ok(), (0..1 << 48).contains(&ms).then_some(ms));
            let wide = Ulid::new().at(ms).map(|id| id.timestamp_ms() as i64);
            prop_assert_eq!(wide.ok(), (0..1 << 48).contains(&ms).then_some(ms));
            let long = Ksuid::new().at(ms).map(|id| time_of(&ksuid, AnyId::Long(*id.bytes())));
            prop_assert_eq!(long.ok(), (1_400_000_000_000..5_694_967_296_000).contains(&ms).then_some(ms - ms.rem_euclid(1000)));
            prop_assert_eq!(ulid.runs_out(), Some((1 << 48) - 1));
        }
    }
}
