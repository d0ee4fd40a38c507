//! What an id costs, ours beside the best peer of each kind, in one run: only ratios survive a change of machine.
//!
//! ```console
//! $ cargo bench -p mintage-benches
//! $ cargo bench -p mintage-benches -- uuidv7
//! ```
//!
//! The first row of each group is ours; the table at the end divides it by each peer. Peers run as their documentation shows
//! them at their fastest, and read the clock that we read wherever they let a caller choose one: a peer that does not read
//! the clock for each id is a row of its own. Nothing here is refused for want of numbers, so nothing waits; what happens at
//! the limit of a layout is measured apart, as a rate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot run must stop")]

mod cap;
mod peers;
mod table;

use std::{
    hint::black_box,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use ferroid::{
    generator::{AtomicSnowflakeGenerator, BasicMonoUlidGenerator, BasicSnowflakeGenerator, LockMonoUlidGenerator},
    id::ULID,
    rand::ThreadRandom,
};
use mintage_core::{Clock, IdScheme, Leased, RangeStore, Sequence, SystemClock};
use mintage_schemes::{
    Ksuid, Layout, RandomOrder, Segment, SegmentSettings, Snowflake, SnowflakeReader, SnowflakeSettings, TextForm,
    Ulid, UuidV4, UuidV7,
};
use svix_ksuid::KsuidLike;
use uuid::{ContextV7, NoContext, Timestamp, Uuid};

use crate::{
    peers::{WallClock, WideId, ticker, yields},
    table::Run,
};

/// Sizes of the batches.
const BATCHES: [usize; 2] = [64, 1024];

/// So many numbers are never used up between two trips to the store.
const RANGE_LEN: u32 = 1_000_000_000;

fn main() {
    let mut run = Run::new();
    clocks(&mut run);
    snowflakes(&mut run);
    uuids(&mut run);
    ulids(&mut run);
    ksuids(&mut run);
    segments(&mut run);
    texts(&mut run);
    run.print();
    if run.has_measured("snowflake") {
        cap::print();
    }
}

/// The floor of every scheme that reads the clock for each id.
fn clocks(run: &mut Run) {
    run.one("clock", "SystemClock::unix_ms", || SystemClock.unix_ms());
}

fn snowflakes(run: &mut Run) {
    let epoch_ms = SystemClock.unix_ms() - 1000;
    let wall = WallClock::since(epoch_ms);
    let ours = snowflake(epoch_ms);

    let group = "snowflake";
    let behind_dyn: Arc<dyn IdScheme<Bits = u64>> = Arc::new(snowflake(epoch_ms));
    let atomic = AtomicSnowflakeGenerator::<WideId, _>::new(1, wall);
    let basic = BasicSnowflakeGenerator::<WideId, _>::new(1, wall);
    let atomic_ticker = AtomicSnowflakeGenerator::<WideId, _>::new(1, ticker(epoch_ms));
    let basic_ticker = BasicSnowflakeGenerator::<WideId, _>::new(1, ticker(epoch_ms));
    run.one(group, "mintage", || ours.mint().unwrap());
    run.one(group, "mintage, behind `dyn` as in a Minter", || behind_dyn.mint().unwrap());
    run.one(group, "ferroid atomic, wall clock", || atomic.next_id(yields));
    run.one(group, "ferroid basic (one thread only), wall clock", || basic.next_id(yields));
    run.one(group, "ferroid atomic, ticker thread", || atomic_ticker.next_id(yields));
    run.one(group, "ferroid basic (one thread only), ticker thread", || basic_ticker.next_id(yields));

    for size in BATCHES {
        let group = format!("snowflake, batch of {size}");
        let mut batch = vec![0; size];
        run.many(&group, "mintage", size, || assert_eq!(ours.mint_batch(black_box(&mut batch)), Ok(size)));
        let mut batch = vec![atomic.next_id(yields); size];
        run.many(&group, "ferroid atomic, wall clock", size, || {
            black_box(&mut batch).iter_mut().for_each(|slot| *slot = atomic.next_id(yields));
        });
        run.many(&group, "ferroid atomic, ticker thread", size, || {
            black_box(&mut batch).iter_mut().for_each(|slot| *slot = atomic_ticker.next_id(yields));
        });
    }

    let group = "snowflake, 2 threads";
    run.shared(group, "mintage", || until_minted(&ours));
    run.shared(group, "ferroid atomic, wall clock", || atomic.next_id(yields));
    run.shared(group, "ferroid atomic, ticker thread", || atomic_ticker.next_id(yields));
}

/// Asks again as ferroid's generator does by itself: a thread that was put to sleep between reading the clock and taking its
/// number can find that the other has gone on by more than the drift meanwhile.
fn until_minted(ids: &Snowflake) -> u64 {
    loop {
        match ids.mint() {
            Ok(id) => break id,
            Err(refusal) => yields(refusal),
        }
    }
}

/// A layout with so wide a sequence that no unit is ever full: what is measured is the cost of an id, not the wait for one.
fn snowflake(epoch_ms: u64) -> Snowflake {
    let [time, worker, sequence] = peers::WIDE_LAYOUT;
    let reader = SnowflakeReader::new(Layout::new(time, worker, sequence).unwrap(), epoch_ms);
    granted(reader)
}

/// A minter that may stamp the next day as worker 1.
fn granted(reader: SnowflakeReader) -> Snowflake {
    const WINDOW_MS: u64 = 24 * 3600 * 1000;
    let ids = Snowflake::new(reader, SnowflakeSettings::default(), SystemClock).unwrap();
    let now_ms = SystemClock.unix_ms();
    ids.grant(1, now_ms..now_ms + WINDOW_MS, u64::MAX);
    ids
}

fn uuids(run: &mut Run) {
    let ours = UuidV7::new();
    let context = ContextV7::new();
    let group = "uuidv7";
    run.one(group, "mintage", || ours.mint_uuid().unwrap());
    run.one(group, "uuid now_v7, fast-rng", Uuid::now_v7);
    run.one(group, "uuid ContextV7 (one thread only), fast-rng", || Uuid::new_v7(Timestamp::now(&context)));

    let group = "uuidv7, order = \"time\"";
    let by_time = UuidV7::new().order(RandomOrder::Time);
    run.one(group, "mintage", || by_time.mint_uuid().unwrap());
    run.one(group, "uuid NoContext, fast-rng", || Uuid::new_v7(Timestamp::now(NoContext)));

    for size in BATCHES {
        let group = format!("uuidv7, batch of {size}");
        let mut batch = vec![0; size];
        run.many(&group, "mintage", size, || assert_eq!(ours.mint_batch(black_box(&mut batch)), Ok(size)));
        let mut batch = vec![Uuid::nil(); size];
        run.many(&group, "uuid ContextV7, one clock reading", size, || {
            let now_ms = SystemClock.unix_ms();
            let (seconds, nanos) = (now_ms / 1000, u32::try_from(now_ms % 1000).unwrap() * 1_000_000);
            for slot in black_box(&mut batch) {
                *slot = Uuid::new_v7(Timestamp::from_unix(&context, seconds, nanos));
            }
        });
    }

    let group = "uuidv7, 2 threads";
    run.shared(group, "mintage", || ours.mint_uuid().unwrap());
    let apart = UuidV7::new().order(RandomOrder::Thread);
    run.shared(group, "mintage, order = \"thread\"", || apart.mint_uuid().unwrap());
    run.shared(group, "uuid now_v7, fast-rng", Uuid::now_v7);

    let chance = UuidV4::new();
    run.one("uuidv4", "mintage", || chance.mint_uuid().unwrap());
    run.one("uuidv4", "uuid new_v4, fast-rng", Uuid::new_v4);
    for size in BATCHES {
        let group = format!("uuidv4, batch of {size}");
        let mut batch = vec![0; size];
        run.many(&group, "mintage", size, || assert_eq!(chance.mint_batch(black_box(&mut batch)), Ok(size)));
        let mut batch = vec![Uuid::nil(); size];
        run.many(&group, "uuid new_v4, fast-rng", size, || {
            black_box(&mut batch).iter_mut().for_each(|slot| *slot = Uuid::new_v4());
        });
    }
    run.shared("uuidv4, 2 threads", "mintage", || chance.mint_uuid().unwrap());
    run.shared("uuidv4, 2 threads", "uuid new_v4, fast-rng", Uuid::new_v4);
}

fn ulids(run: &mut Run) {
    let ours = Ulid::new();
    let mut generator = ulid::Generator::new();
    // Its lock-free generator needs 128-bit atomics, which few platforms have.
    let lock = LockMonoUlidGenerator::<ULID, _, _>::new(WallClock::since(0), ThreadRandom);
    let lock_ticker = LockMonoUlidGenerator::<ULID, _, _>::new(ticker(0), ThreadRandom);
    let basic_ticker = BasicMonoUlidGenerator::<ULID, _, _>::new(ticker(0), ThreadRandom);
    let group = "ulid";
    run.one(group, "mintage", || ours.mint_ulid().unwrap());
    run.one(group, "ulid Generator (one thread only)", || generator.generate().unwrap());
    run.one(group, "ferroid lock, wall clock", || lock.try_next_id(yields).unwrap());
    run.one(group, "ferroid lock, ticker thread", || lock_ticker.try_next_id(yields).unwrap());
    run.one(group, "ferroid basic (one thread only), ticker thread", || basic_ticker.next_id(yields));

    let group = "ulid, order = \"time\"";
    let by_time = Ulid::new().order(RandomOrder::Time);
    run.one(group, "mintage", || by_time.mint_ulid().unwrap());
    run.one(group, "ulid generate", ulid::Ulid::generate);

    for size in BATCHES {
        let group = format!("ulid, batch of {size}");
        let mut batch = vec![0; size];
        run.many(&group, "mintage", size, || assert_eq!(ours.mint_batch(black_box(&mut batch)), Ok(size)));
        let mut batch = vec![ulid::Ulid::nil(); size];
        run.many(&group, "ulid Generator, one clock reading", size, || {
            let now = std::time::UNIX_EPOCH + std::time::Duration::from_millis(SystemClock.unix_ms());
            for slot in black_box(&mut batch) {
                *slot = generator.generate_from_datetime(now).unwrap();
            }
        });
    }

    let group = "ulid, 2 threads";
    let locked = Mutex::new(ulid::Generator::new());
    run.shared(group, "mintage", || ours.mint_ulid().unwrap());
    run.shared(group, "ulid Generator in a Mutex", || locked.lock().unwrap().generate().unwrap());
    run.shared(group, "ferroid lock, wall clock", || lock.try_next_id(yields).unwrap());
    run.shared(group, "ferroid lock, ticker thread", || lock_ticker.try_next_id(yields).unwrap());
}

fn ksuids(run: &mut Run) {
    let ours = Ksuid::new();
    run.one("ksuid", "mintage", || ours.mint_ksuid().unwrap());
    run.one("ksuid", "svix-ksuid now", || svix_ksuid::Ksuid::now(None));
    for size in BATCHES {
        let group = format!("ksuid, batch of {size}");
        let mut batch = vec![[0; 20]; size];
        run.many(&group, "mintage", size, || assert_eq!(ours.mint_batch(black_box(&mut batch)), Ok(size)));
        let mut batch = vec![svix_ksuid::Ksuid::now(None); size];
        run.many(&group, "svix-ksuid now", size, || {
            black_box(&mut batch).iter_mut().for_each(|slot| *slot = svix_ksuid::Ksuid::now(None));
        });
    }
    run.shared("ksuid, 2 threads", "mintage", || ours.mint_ksuid().unwrap());
    run.shared("ksuid, 2 threads", "svix-ksuid now", || svix_ksuid::Ksuid::now(None));
}

fn segments(run: &mut Run) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let ours = runtime.block_on(async {
        let store = Arc::new(mintage_backends::Memory::new(Arc::new(SystemClock)));
        let sequence = Sequence::new("bench", 1);
        store.create(&sequence).await.unwrap();
        let settings = SegmentSettings::default().range_len(NonZeroU32::new(RANGE_LEN).unwrap());
        Segment::open(store, sequence, settings).await.unwrap()
    });
    let floor = AtomicU64::new(1);
    let peer = "AtomicU64::fetch_add: no limit, no store";
    run.one("segment", "mintage", || ours.mint().unwrap());
    run.one("segment", peer, || floor.fetch_add(1, Ordering::Relaxed));
    for size in BATCHES {
        let group = format!("segment, batch of {size}");
        let mut batch = vec![0; size];
        run.many(&group, "mintage", size, || assert_eq!(ours.mint_batch(black_box(&mut batch)), Ok(size)));
        run.many(&group, peer, size, || {
            black_box(&mut batch).iter_mut().for_each(|slot| *slot = floor.fetch_add(1, Ordering::Relaxed));
        });
    }
    run.shared("segment, 2 threads", "mintage", || ours.mint().unwrap());
    run.shared("segment, 2 threads", peer, || floor.fetch_add(1, Ordering::Relaxed));
    runtime.block_on(ours.close()).unwrap();
}

/// Text out and in. Ours goes into a `String` with room, the peers' into whatever they offer that costs least.
fn texts(run: &mut Run) {
    fn out<S: IdScheme>(scheme: &S, id: S::Bits) -> impl FnMut() -> usize {
        let mut text = String::with_capacity(64);
        move || {
            text.clear();
            scheme.format(black_box(id), &mut text).unwrap();
            black_box(&text).len()
        }
    }

    let number = 123_456_789_012_345_678;
    let [layout_time, layout_worker, layout_sequence] = [41, 10, 12];
    let layout = Layout::new(layout_time, layout_worker, layout_sequence).unwrap();
    let decimal = SnowflakeReader::new(layout, 0);
    run.one("text of 64 bits", "mintage, decimal", out(&decimal, number));
    run.one("text of 64 bits", "mintage, base62", out(&decimal.clone().with_text(TextForm::Base62), number));
    run.one("text of 64 bits", "mintage, crockford", out(&decimal.clone().with_text(TextForm::Crockford), number));
    run.one("text of 64 bits", "std, u64::to_string", || black_box(number).to_string());
    run.one("reading 64 bits", "mintage, decimal", || decimal.parse(black_box("123456789012345678")).unwrap());
    run.one("reading 64 bits", "std, str::parse", || black_box("123456789012345678").parse::<u64>().unwrap());

    let (scheme, id) = (UuidV7::new(), Uuid::now_v7());
    let text = id.to_string();
    run.one("text of a uuid", "mintage", out(&scheme, id.as_u128()));
    run.one("text of a uuid", "uuid encode_lower, on the stack", || {
        black_box(black_box(id).hyphenated().encode_lower(&mut Uuid::encode_buffer())).len()
    });
    run.one("text of a uuid", "uuid to_string", || black_box(id).to_string());
    run.one("reading a uuid", "mintage", || scheme.parse(black_box(&text)).unwrap());
    run.one("reading a uuid", "uuid parse_str", || Uuid::parse_str(black_box(&text)).unwrap());

    let (scheme, id) = (Ulid::new(), ulid::Ulid::generate());
    let text = id.to_string();
    run.one("text of a ulid", "mintage", out(&scheme, id.0));
    run.one("text of a ulid", "ulid array_to_str, on the stack", || {
        black_box(black_box(id).array_to_str(&mut [0; ulid::ULID_LEN])).len()
    });
    run.one("text of a ulid", "ulid to_string", || black_box(id).to_string());
    run.one("reading a ulid", "mintage", || scheme.parse(black_box(&text)).unwrap());
    run.one("reading a ulid", "ulid from_string", || ulid::Ulid::from_string(black_box(&text)).unwrap());

    let (scheme, id) = (Ksuid::new(), svix_ksuid::Ksuid::now(None));
    let text = id.to_string();
    run.one("text of a ksuid", "mintage", out(&scheme, *id.bytes()));
    run.one("text of a ksuid", "svix-ksuid to_base62", || black_box(id).to_base62());
    run.one("reading a ksuid", "mintage", || scheme.parse(black_box(&text)).unwrap());
    run.one("reading a ksuid", "svix-ksuid from_base62", || svix_ksuid::Ksuid::from_base62(black_box(&text)).unwrap());
}
