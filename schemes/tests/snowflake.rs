//! Snowflake: known answers, clock traces, windows, refusals. Case ids are those of `docs/cases.md`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mintage_core::{Clock, IdScheme, Leased, ManualClock, MintError, ParseError, testkit};
use mintage_schemes::{
    Layout, OnOverflow, OnStep, PRESETS, Part, Preset, SequenceStart, Snowflake, SnowflakeReader, SnowflakeSettings,
    TextForm, TimeUnit,
};
use proptest::prelude::*;

/// 2024-01-01T00:00:00Z.
const EPOCH_MS: u64 = 1_704_067_200_000;
/// 2025-06-15T15:06:40.000Z.
const T: u64 = 1_750_000_000_000;
const FOREVER: u64 = 1 << 48;

fn reader() -> SnowflakeReader {
    SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), EPOCH_MS)
}

fn minter(settings: SnowflakeSettings, clock: &ManualClock) -> Snowflake<ManualClock> {
    let ids = Snowflake::new(reader(), settings, clock.clone()).unwrap();
    ids.grant(0, 0..FOREVER, u64::MAX);
    ids
}

fn settings(change: impl FnOnce(&mut SnowflakeSettings)) -> SnowflakeSettings {
    let mut settings = SnowflakeSettings::default();
    change(&mut settings);
    settings
}

fn parts(id: u64) -> (i64, u64, u64) {
    let anatomy = reader().anatomy(id);
    (anatomy.time.unwrap().unix_ms, anatomy.worker.unwrap(), anatomy.sequence.unwrap())
}

#[test]
fn known_answers() {
    assert_eq!(parts(192_656_126_771_200_001), (1_750_000_000_000, 0, 1));
    let ids = minter(SnowflakeSettings::default(), &ManualClock::at(T));
    assert_eq!(ids.mint(), Ok(192_656_126_771_200_000));
    assert_eq!(ids.mint(), Ok(192_656_126_771_200_001));
    assert_eq!(reader().id_at(1_750_000_000_000, 0, 1), Ok(192_656_126_771_200_001));
}

// Cases B84, B88.
#[test]
fn a_frozen_clock_borrows_the_next_millisecond() {
    let ids = minter(SnowflakeSettings::default(), &ManualClock::at(T));
    let minted = testkit::scheme::sample(&ids, 5000);
    assert!(minted.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(parts(minted[4999]), (T as i64 + 1, 0, 903));
    let waiting = minter(settings(|s| s.on_overflow = OnOverflow::Wait), &ManualClock::at(T));
    let minted: Vec<_> = std::iter::from_fn(|| waiting.mint().ok()).collect();
    assert_eq!(minted.len(), 4096);
    assert_eq!(waiting.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
}

// Case B84: after the wait the new time is used.
#[test]
fn after_a_full_unit_the_next_one_starts_at_zero() {
    let clock = ManualClock::at(T);
    let ids = minter(settings(|s| s.on_overflow = OnOverflow::Wait), &clock);
    let mut seen: HashSet<u64> = std::iter::from_fn(|| ids.mint().ok()).collect();
    clock.advance(1);
    let next = ids.mint().unwrap();
    assert_eq!(parts(next), (T as i64 + 1, 0, 0));
    assert!(seen.insert(next));
    assert_eq!(seen.len(), 4097);
}

#[test]
fn small_steps_are_absorbed_and_large_ones_refused_by_name() {
    let clock = ManualClock::at(T);
    let ids = minter(settings(|s| s.max_drift_ms = 5), &clock);
    let before = ids.mint().unwrap();
    clock.step(-3);
    let after = ids.mint().unwrap();
    assert!(after > before);
    clock.step_to(T - 50);
    assert_eq!(ids.mint(), Err(MintError::ClockBackwards { by_ms: 50, limit_ms: 5 }));
    let told = ids.mint().unwrap_err().to_string();
    assert!(told.contains("went back 50 ms") && told.contains("at most 5 ms") && told.contains("max_drift"), "{told}");
    clock.step_to(T);
    assert_eq!(parts(ids.mint().unwrap()), (T as i64, 0, 2), "the refusals changed nothing");
}

// Case B83: the check comes before any change.
#[test]
fn a_refused_step_back_does_not_reset_the_sequence() {
    for on_step in [OnStep::Refuse, OnStep::Wait, OnStep::Borrow] {
        let clock = ManualClock::at(T);
        let ids = minter(settings(|s| (s.on_step, s.max_drift_ms) = (on_step, 1)), &clock);
        for sequence in 0..3 {
            assert_eq!(parts(ids.mint().unwrap()).2, sequence);
        }
        clock.step(-2);
        assert!(matches!(ids.mint(), Err(MintError::ClockBackwards { by_ms: 2, .. })), "{on_step:?}");
        clock.step_to(T);
        assert_eq!(parts(ids.mint().unwrap()), (T as i64, 0, 3), "{on_step:?}");
    }
}

#[test]
fn refuse_and_wait_tell_a_step_from_a_borrowed_unit() {
    for on_step in [OnStep::Refuse, OnStep::Wait] {
        let clock = ManualClock::at(T);
        let ids = minter(settings(|s| s.on_step = on_step), &clock);
        testkit::scheme::sample(&ids, 5000);
        clock.step(-1);
        assert!(matches!(ids.mint(), Err(MintError::ClockBackwards { by_ms: 1, .. })), "{on_step:?}");
        clock.step_to(T);
        assert!(ids.mint().is_ok(), "{on_step:?}: a borrowed millisecond is no step");
    }
}

/// Run with all 10^8 refusals in release mode by `MINTAGE_REFUSALS=100000000`; a bare `fetch_add` fails after the 24th bit.
#[test]
fn refusals_never_creep() {
    let refusals: u64 = std::env::var("MINTAGE_REFUSALS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000_000);
    let clock = ManualClock::at(T);
    let ids = minter(settings(|s| (s.on_overflow, s.max_drift_ms) = (OnOverflow::Wait, 1)), &clock);
    testkit::scheme::sample(&ids, 4096);
    for _ in 0..refusals {
        assert!(ids.mint().is_err());
    }
    clock.advance(1);
    assert_eq!(parts(ids.mint().unwrap()), (T as i64 + 1, 0, 0));
}

#[test]
fn before_the_epoch_and_after_the_end() {
    let clock = ManualClock::at(EPOCH_MS - 1);
    let ids = minter(SnowflakeSettings::default(), &clock);
    assert_eq!(ids.mint(), Err(MintError::ClockBeforeEpoch));
    let end_ms = ids.runs_out().unwrap() as u64;
    assert_eq!(end_ms, EPOCH_MS + (1 << 41) - 1);
    clock.step_to(end_ms);
    let last = ids.mint().unwrap();
    assert_eq!(parts(last).0 as u64, end_ms);
    assert!(last >> 63 == 0);
    for _ in 1..4096 {
        ids.mint().unwrap();
    }
    assert_eq!(ids.mint(), Err(MintError::Spent), "no borrowing beyond the end");
    for far in [end_ms + 1, end_ms + 1000, 1 << 47] {
        clock.step_to(far);
        assert_eq!(ids.mint(), Err(MintError::Spent));
    }
}

// Cases B65, B67, B69: a worker id that does not fit is never granted, and never spills.
#[test]
fn a_worker_that_does_not_fit_mints_nothing() {
    for worker in [1024, 1027, u32::MAX] {
        let ids = Snowflake::new(reader(), SnowflakeSettings::default(), ManualClock::at(T)).unwrap();
        ids.grant(worker, 0..FOREVER, u64::MAX);
        assert_eq!(ids.mint(), Err(MintError::LeaseLapsed), "{worker}");
        assert_eq!(reader().id_at(T as i64, worker.into(), 0), Err(ParseError::OutOfRange));
    }
    let ids = Snowflake::new(reader(), SnowflakeSettings::default(), ManualClock::at(T)).unwrap();
    ids.grant(1023, 0..FOREVER, u64::MAX);
    assert_eq!(parts(ids.mint().unwrap()), (T as i64, 1023, 0));
}

#[test]
fn windows_bound_every_unit_of_every_layout() {
    for unit in [TimeUnit::Millisecond, TimeUnit::Centisecond, TimeUnit::Second] {
        let layout = Layout::of([(Part::Time, 40), (Part::Sequence, 4), (Part::Worker, 10)], 0, unit).unwrap();
        let reader = SnowflakeReader::new(layout, EPOCH_MS + 3);
        let clock = ManualClock::at(T);
        let drift = settings(|s| s.max_drift_ms = 3 * unit.ms());
        let ids = Snowflake::new(reader.clone(), drift, clock.clone()).unwrap();
        // Edges in the middle of a unit: both straddled units are kept away from.
        let window = T - 1..T + 20 * unit.ms() + unit.ms() / 2;
        ids.grant(5, window.clone(), u64::MAX);
        let mut minted = 0;
        for step in 0..30 * unit.ms() {
            clock.step_to(T + step);
            while let Ok(id) = ids.mint() {
                let start = reader.anatomy(id).time.unwrap().unix_ms as u64;
                assert!(window.start <= start && start + unit.ms() <= window.end, "{layout}: unit at {start} outside");
                minted += 1;
            }
        }
        assert!(minted >= 18 * 16, "{layout}: only {minted} ids inside the window");
        assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
    }
}

#[test]
fn a_grant_moves_on_and_a_release_says_what_was_used() {
    let clock = ManualClock::at(T);
    let ids = minter(SnowflakeSettings::default(), &clock);
    assert!(ids.mint().is_ok());
    assert_eq!(ids.halt(), Some(T + 1), "the millisecond that was begun counts as used");
    assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
    assert_eq!(
        ids.halt(),
        Some(T + 1),
        "whoever asks again hears the same, or a floor would be lowered below what exists"
    );
    ids.grant(1, T..T + 1000, u64::MAX);
    assert_eq!(ids.halt(), None, "nothing was minted by this claim");
    ids.grant(2, T..T + 1000, u64::MAX);
    testkit::scheme::sample(&ids, 5000);
    assert_eq!(ids.halt(), Some(T + 2), "borrowed units included");
    ids.grant(3, T..T + 1000, T);
    assert_eq!(ids.mint(), Err(MintError::LeaseLapsed), "the keeper said stop");
    ids.extend(T + 2000, u64::MAX);
    assert!(ids.mint().is_ok());
    ids.shut();
    assert_eq!(ids.mint(), Err(MintError::Closed));
    assert_eq!(ids.halt(), Some(T + 2), "also of one that is closed");
    ids.grant(4, T..T + 1000, u64::MAX);
    assert_eq!(ids.mint(), Err(MintError::Closed), "closed is for ever");
}

#[test]
fn a_window_that_opens_later_is_waited_for_not_called_a_step() {
    let clock = ManualClock::at(T);
    let ids = Snowflake::new(reader(), SnowflakeSettings::default(), clock.clone()).unwrap();
    assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
    ids.grant(0, T + 500..T + 1000, u64::MAX);
    assert_eq!(ids.mint(), Err(MintError::Exhausted { retry_ms: 490 }));
    clock.advance(490);
    assert_eq!(parts(ids.mint().unwrap()).0, T as i64 + 500);
}

#[test]
fn a_clock_far_ahead_stops_and_poisons_nothing() {
    let clock = ManualClock::at(T);
    let ids = Snowflake::new(reader(), SnowflakeSettings::default(), clock.clone()).unwrap();
    ids.grant(0, T..T + 60_000, u64::MAX);
    ids.mint().unwrap();
    clock.step(8 * 3600 * 1000);
    assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
    clock.step_to(T + 1);
    assert_eq!(parts(ids.mint().unwrap()), (T as i64 + 1, 0, 0));
}

// Case B86: a second full of ids refuses at once and blocks nobody.
#[test]
fn second_units_refuse_when_full() {
    let layout = Layout::of([(Part::Time, 32), (Part::Worker, 8), (Part::Sequence, 14)], 0, TimeUnit::Second).unwrap();
    let clock = ManualClock::at(T);
    let waiting = settings(|s| (s.on_step, s.on_overflow) = (OnStep::Wait, OnOverflow::Wait));
    let ids = Snowflake::new(SnowflakeReader::new(layout, EPOCH_MS), waiting, clock.clone()).unwrap();
    ids.grant(0, 0..FOREVER, u64::MAX);
    let minted = testkit::scheme::sample(&ids, 16384);
    assert_eq!(ids.mint(), Err(MintError::Exhausted { retry_ms: 1000 }));
    clock.step(-1000);
    assert!(matches!(ids.mint(), Err(MintError::ClockBackwards { by_ms: 1000, .. })));
    clock.step_to(T + 1000);
    assert!(ids.mint().unwrap() > minted[16383]);
}

#[test]
fn settings_that_contradict_the_layout_are_refused() {
    let js53 = Preset::named("js53").unwrap();
    let refused = Snowflake::new(
        SnowflakeReader::new(js53.layout, js53.epoch_ms),
        SnowflakeSettings::default(),
        ManualClock::at(T),
    );
    assert!(refused.unwrap_err().contains("max_drift of 10 ms is less than one time unit of 1000 ms"));
    for preset in PRESETS.iter().filter(|preset| !preset.mintable) {
        let drift = settings(|s| s.max_drift_ms = 1000);
        let refused = Snowflake::new(SnowflakeReader::new(preset.layout, preset.epoch_ms), drift, ManualClock::at(T));
        assert!(refused.is_err(), "{}", preset.name);
    }
}

#[test]
fn every_preset_and_order_keeps_the_laws() {
    for preset in PRESETS.iter().filter(|preset| preset.mintable) {
        for text in TextForm::ALL {
            let unit_ms = preset.layout.unit().ms();
            let generous = settings(|s| s.max_drift_ms = 1000 * unit_ms);
            let reader = SnowflakeReader::new(preset.layout, preset.epoch_ms).with_text(text);
            // 2026-11-30
            let ids = Snowflake::new(reader, generous, ManualClock::at(1_795_996_800_000)).unwrap();
            ids.grant(3, 0..FOREVER, u64::MAX);
            if preset.layout.parts()[0].0 == Part::Time && preset.layout.parts()[2].0 == Part::Sequence {
                testkit::scheme::all(&ids);
            } else {
                // Sequence before worker: ids of one minter still ascend, because the worker does not change.
                testkit::scheme::all(&ids);
            }
        }
    }
}

#[test]
fn a_random_start_leaves_half_the_unit_and_hides_the_count() {
    let clock = ManualClock::at(T);
    let ids = minter(settings(|s| s.sequence_start = SequenceStart::Random), &clock);
    let mut starts = HashSet::new();
    for _ in 0..200 {
        clock.advance(1);
        let start = parts(ids.mint().unwrap()).2;
        assert!(start < 2048);
        starts.insert(start);
        assert_eq!(parts(ids.mint().unwrap()).2, start + 1);
    }
    assert!(starts.len() > 100, "{} different starts", starts.len());
}

// Cases B51, B75: bounds have zero and all-ones tails, and are never malformed.
#[test]
fn ranges_of_time() {
    let reader = reader();
    let (first, last) = reader.range_at(T as i64, T as i64).unwrap();
    assert_eq!((parts(first), parts(last)), ((T as i64, 0, 0), (T as i64, 1023, 4095)));
    assert_eq!(reader.range_at(EPOCH_MS as i64 - 10, EPOCH_MS as i64 - 1), None);
    assert_eq!(reader.range_at(-5, EPOCH_MS as i64).map(|(first, _)| first), Some(0));
    assert_eq!(reader.range_at(0, i64::MAX).map(|(_, last)| last), Some(i64::MAX as u64));
    assert_eq!(reader.range_at(reader.runs_out().unwrap() + 1, i64::MAX), None);
    assert_eq!(reader.range_at(5, 4), None);
    let odd =
        Layout::of([(Part::Worker, 10), (Part::Time, 41), (Part::Sequence, 12)], 0, TimeUnit::Millisecond).unwrap();
    assert_eq!(SnowflakeReader::new(odd, EPOCH_MS).range_at(T as i64, T as i64), None);
}

#[derive(serde::Deserialize)]
struct Published {
    layout: String,
    id: String,
    unix_ms: i64,
    worker: Option<u64>,
    sequence: u64,
}

// Cases B135, B136, B140, B141 and the field edges of every preset.
#[test]
fn published_ids() {
    let text = include_str!("../../tests/vectors/snowflake.json");
    let vectors: Vec<Published> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() >= 20);
    for vector in vectors {
        let reader = match Preset::named(&vector.layout) {
            Ok(preset) => SnowflakeReader::new(preset.layout, preset.epoch_ms),
            Err(_) if vector.layout == "epoch0" => SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), 0),
            Err(_) => reader(),
        };
        let id = reader.parse(&vector.id).unwrap();
        let anatomy = reader.anatomy(id);
        let found = (anatomy.time.unwrap().unix_ms, anatomy.worker, anatomy.sequence.unwrap());
        assert_eq!(found, (vector.unix_ms, vector.worker, vector.sequence), "{} {}", vector.layout, vector.id);
        assert_eq!(reader.id_at(vector.unix_ms, vector.worker.unwrap_or(0), vector.sequence), Ok(id));
    }
}

#[test]
fn threads_share_one_minter_while_the_keeper_moves_it() {
    let clock = ManualClock::at(T);
    let ids = Arc::new(minter(SnowflakeSettings::default(), &clock));
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (ids, done) = (Arc::clone(&ids), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut minted = Vec::new();
                let mut batch = [0; 16];
                while !done.load(Ordering::Relaxed) && minted.len() < 400_000 {
                    minted.extend(ids.mint().ok());
                    if let Ok(made) = ids.mint_batch(&mut batch) {
                        minted.extend_from_slice(&batch[..made]);
                    }
                }
                minted
            })
        })
        .collect();
    // Each grant is a new worker id over the same milliseconds: a mixture of two grants would repeat or stray.
    for worker in 0..300 {
        ids.grant(worker, T..T + 10_000, u64::MAX);
        for _ in 0..20 {
            clock.advance(1);
            std::thread::yield_now();
        }
        ids.halt();
    }
    done.store(true, Ordering::Relaxed);
    let mut all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let count = all.len();
    assert!(count > 1000, "{count}");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "an id was minted twice");
    assert!(all.iter().all(|id| parts(*id).1 < 300));
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Step(i64),
    Mint(u16),
    Batch(u16),
    Renew,
    Reclaim,
    Release,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..20u64).prop_map(Event::Pass),
        1 => (-86_400_000..86_400_000i64).prop_map(Event::Step),
        1 => (-20..20i64).prop_map(Event::Step),
        6 => (0..200u16).prop_map(Event::Mint),
        3 => (0..6000u16).prop_map(Event::Batch),
        1 => Just(Event::Renew),
        1 => Just(Event::Reclaim),
        1 => Just(Event::Release),
    ]
}

proptest! {
    /// Whatever the clock does, and whatever the keeper does: no id twice, none outside its window, and order within a claim.
    #[test]
    fn any_trace(events in proptest::collection::vec(event(), 1..60), unit in 0..3usize, step in 0..3usize) {
        let unit = [TimeUnit::Millisecond, TimeUnit::Centisecond, TimeUnit::Second][unit];
        let layout = Layout::of([(Part::Time, 40), (Part::Worker, 10), (Part::Sequence, 6)], 0, unit).unwrap();
        let reader = SnowflakeReader::new(layout, EPOCH_MS);
        let on_step = [OnStep::Borrow, OnStep::Wait, OnStep::Refuse][step];
        let clock = ManualClock::at(T);
        let chosen = settings(|s| (s.on_step, s.max_drift_ms) = (on_step, 4 * unit.ms()));
        let ids = Snowflake::new(reader.clone(), chosen, clock.clone()).unwrap();
        // The store's clock is another one and never steps; windows of successive claims are disjoint.
        let mut store_ms = T;
        let (mut worker, mut window) = (0u32, T..T + 10 * unit.ms());
        let mut last = None;
        let mut seen = HashSet::new();
        ids.grant(worker, window.clone(), u64::MAX);
        let mut batch = vec![0; 6000];
        for event in events {
            let made = match event {
                Event::Pass(ms) => { clock.advance(ms * unit.ms()); store_ms += ms * unit.ms(); 0 }
                Event::Step(ms) => { clock.step(ms); 0 }
                Event::Mint(n) => (0..n as usize).map_while(|at| ids.mint().ok().map(|id| batch[at] = id)).count(),
                Event::Batch(n) => ids.mint_batch(&mut batch[..n as usize]).unwrap_or(0),
                Event::Renew => {
                    window.end = window.end.max(store_ms + 10 * unit.ms());
                    ids.extend(window.end, u64::MAX);
                    0
                }
                Event::Reclaim => {
                    worker = (worker + 1) % 3;
                    window = window.end.max(store_ms)..window.end.max(store_ms) + 10 * unit.ms();
                    ids.grant(worker, window.clone(), u64::MAX);
                    last = None;
                    0
                }
                Event::Release => {
                    let unused = ids.halt().unwrap_or(window.start).max(window.start);
                    prop_assert!(unused <= window.end);
                    window = unused.max(store_ms)..unused.max(store_ms) + 10 * unit.ms();
                    ids.grant(worker, window.clone(), u64::MAX);
                    last = None;
                    0
                }
            };
            for id in &batch[..made] {
                prop_assert!(seen.insert(*id), "minted twice");
                prop_assert!(last.is_none_or(|last| last < *id), "not ascending");
                last = Some(*id);
                let anatomy = reader.anatomy(*id);
                let start = anatomy.time.unwrap().unix_ms as u64;
                prop_assert!(window.start <= start && start + unit.ms() <= window.end, "outside its window");
                prop_assert_eq!(anatomy.worker, Some(u64::from(worker)));
                prop_assert!(start <= clock.unix_ms() + 4 * unit.ms(), "further ahead than max_drift");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ready_waits_for_what_comes_and_refuses_what_does_not() {
    let clock = ManualClock::at(T);
    let ids = Arc::new(Snowflake::new(reader(), SnowflakeSettings::default(), clock.clone()).unwrap());
    let waiter = tokio::spawn({
        let ids = Arc::clone(&ids);
        async move { ids.ready().await.is_ok() }
    });
    tokio::task::yield_now().await;
    ids.grant(0, T..T + 1000, u64::MAX);
    assert!(waiter.await.unwrap(), "woken by the grant");

    ids.mint().unwrap();
    clock.step(-200);
    let refused = ids.ready().await.unwrap_err();
    assert!(matches!(refused.kind(), MintError::ClockBackwards { by_ms: 200, limit_ms: 10 }));

    ids.halt();
    let trouble = mintage_core::StoreError::new(mintage_core::StoreErrorKind::Unavailable, "the store is away");
    ids.trouble(Arc::new(trouble));
    let refused = ids.ready().await.unwrap_err();
    assert_eq!(refused.kind(), MintError::LeaseLapsed);
    assert_eq!(refused.store_error().unwrap().to_string(), "the store is away");
}
