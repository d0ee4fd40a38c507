//! What both stores on disk go through: two handles, restarts, clocks, places where nothing can be opened.

use std::sync::Arc;

use mintage_core::{
    Format, IdempotencyKey, Lease, ManualClock, Sequence, StoreErrorKind, WorkerChoice,
    plugin::Backend,
    protocol::HISTORY_KEPT_MS,
    testkit::store::{self, Trial},
};

use crate::{NOW_MS, assert_disjoint, count, holder, on_disk, open, open_within, pool, terms};

on_disk!(
    two_handles_share_one_store,
    handles_opened_at_once_share_one_store,
    a_restart_keeps_everything,
    a_restored_backup_repeats_nothing,
    a_clock_set_back_between_two_opens_repeats_nothing,
    a_clock_beyond_reason_is_refused,
    a_missing_folder_is_refused_by_name,
    a_call_that_waits_too_long_is_cut_off,
    an_unusable_format_is_not_recorded,
    an_answer_to_a_key_lives_for_a_day,
    history_is_kept_for_400_days,
);

async fn two_handles_share_one_store(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let handles = [open(url, folder.path(), &clock).await.unwrap(), open(url, folder.path(), &clock).await.unwrap()];
    let sequence = Sequence::new("orders", 1);
    handles[0].ranges.as_ref().unwrap().create(&sequence).await.unwrap();
    let mut tasks = Vec::new();
    for nth in 0..16 {
        let ranges = handles[nth % 2].ranges.clone().unwrap();
        let leases = handles[nth % 2].leases.clone().unwrap();
        let sequence = sequence.clone();
        tasks.push(tokio::spawn(async move {
            let mut got = Vec::new();
            for len in 1..6 {
                got.push(ranges.allocate(&sequence, count(len), None).await.unwrap());
            }
            let who = holder(u32::try_from(nth).unwrap());
            (got, leases.acquire(&pool("main", 0..16), WorkerChoice::Any, &who, &terms()).await.unwrap().worker)
        }));
    }
    let (mut ranges, mut workers) = (Vec::new(), Vec::new());
    for task in tasks {
        let (got, worker) = task.await.unwrap();
        ranges.extend(got);
        workers.push(worker);
    }
    let handed_out: u64 = ranges.iter().map(|range| range.count()).sum();
    assert_disjoint(ranges);
    workers.sort_unstable();
    assert_eq!(workers, (0..16).collect::<Vec<_>>());
    let rows = handles[1].ranges.as_ref().unwrap().sequences().await.unwrap();
    assert_eq!(rows[0].next, 1 + handed_out, "what the one handle wrote, the other sees");
}

/// The laws hold through a handle whatever another one does meanwhile; both were opened at the same moment, on nothing.
async fn handles_opened_at_once_share_one_store(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let (url, folder, clock) = (url.to_owned(), folder.path().to_owned(), clock.clone());
            tokio::spawn(async move { open(&url, &folder, &clock).await.unwrap() })
        })
        .collect();
    let mut handles: Vec<Backend> = Vec::new();
    for handle in opening {
        handles.push(handle.await.unwrap());
    }
    let noise = Sequence::new("noise", 1);
    let noisy = handles.pop().unwrap().ranges.unwrap();
    noisy.create(&noise).await.unwrap();
    let task = tokio::spawn(async move {
        for _ in 0..100 {
            // One of the laws stops every sequence of the store.
            if let Err(stopped) = noisy.allocate(&noise, count(1), None).await {
                assert_eq!(stopped.kind(), StoreErrorKind::RolledBack, "{stopped}");
                noisy.raise(&noise, 0).await.unwrap();
            }
        }
    });
    let trial = Trial { at_once: 16, cycles: 20 };
    store::ranges::all(&**handles[0].ranges.as_ref().unwrap(), trial).await;
    store::formats::all(&**handles[1].formats.as_ref().unwrap(), trial).await;
    store::leases::all(&**handles[2].leases.as_ref().unwrap(), async |ms| clock.advance(ms), trial).await;
    task.await.unwrap();
}

async fn a_restart_keeps_everything(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let (pool, sequence) = (pool("main", 0..4), Sequence::new("orders", 1));
    let format = Format::of("snowflake").with("epoch_ms", 5);
    let key = IdempotencyKey::new("request-1").unwrap();
    let (who, other) = (holder(u32::MAX), holder(2));

    let store = open(url, folder.path(), &clock).await.unwrap();
    let (ranges, leases, formats) = parts(&store);
    ranges.create(&sequence).await.unwrap();
    ranges.allocate(&sequence, count(1_500), None).await.unwrap();
    let keyed = ranges.allocate(&sequence, count(10), Some(&key)).await.unwrap();
    let lease = leases.acquire(&pool, WorkerChoice::Any, &who, &terms()).await.unwrap();
    let gone = leases.acquire(&pool, WorkerChoice::Any, &other, &terms()).await.unwrap();
    leases.release(gone, NOW_MS + 7, &terms()).await.unwrap();
    leases.revoke(&pool, 3).await.unwrap();
    formats.pin("events", &format).await.unwrap();
    let before = (
        ranges.sequences().await.unwrap(),
        leases.leases(&pool).await.unwrap(),
        leases.history(&pool, NOW_MS).await.unwrap(),
        formats.pinned("events").await.unwrap(),
    );
    assert_eq!((before.1.len(), before.2.len()), (3, 2));
    drop((ranges, leases, formats, store));

    let store = open(url, folder.path(), &clock).await.unwrap();
    let (ranges, leases, formats) = parts(&store);
    let after = (
        ranges.sequences().await.unwrap(),
        leases.leases(&pool).await.unwrap(),
        leases.history(&pool, NOW_MS).await.unwrap(),
        formats.pinned("events").await.unwrap(),
    );
    assert_eq!(after, before);
    ranges.create(&sequence).await.unwrap();
    let next = ranges.allocate(&sequence, count(1), None).await.unwrap();
    assert_eq!(next.start, 1_511, "counting goes on where it stood");
    assert_eq!(
        ranges.allocate(&sequence, count(10), Some(&key)).await.unwrap(),
        keyed,
        "a key's answer outlives a restart"
    );
    clock.advance(1_000);
    let longer = leases.renew(&lease, &who, &terms()).await.unwrap();
    assert_eq!((longer.fence, longer.window.end), (lease.fence, NOW_MS + 61_000), "a lease outlives a restart");
    let refused = formats.pin("events", &format.with("epoch_ms", 6)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::FormatMismatch);
}

/// Yesterday's copy is put back. Those who were granted more than it remembers notice; once the operator has done what the
/// documents say, nothing is granted again.
async fn a_restored_backup_repeats_nothing(url: &str) {
    let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = ManualClock::at(NOW_MS);
    let (main, mut orders) = (pool("main", 0..2), Sequence::new("orders", 1));
    let store = open(url, folder.path(), &clock).await.unwrap();
    let (ranges, leases, _) = parts(&store);
    ranges.create(&orders).await.unwrap();
    ranges.allocate(&orders, count(10), None).await.unwrap();
    let first = leases.acquire(&main, WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
    drop((ranges, leases));
    // What ends by itself some time would still take its files away while they are copied.
    store.disconnect().await;
    copy(folder.path(), backup.path());

    let store = open(url, folder.path(), &clock).await.unwrap();
    let (ranges, leases, _) = parts(&store);
    let range = ranges.allocate(&orders, count(10), None).await.unwrap();
    clock.advance(1_000);
    let longer = leases.renew(&first, &holder(1), &terms()).await.unwrap();
    let lost = leases.acquire(&main, WorkerChoice::Any, &holder(2), &terms()).await.unwrap();
    drop((ranges, leases));
    store.disconnect().await;
    copy(backup.path(), folder.path());

    let store = open(url, folder.path(), &clock).await.unwrap();
    let (ranges, leases, _) = parts(&store);
    orders.floor = range.end;
    let error = ranges.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    let error = leases.renew(&lost, &holder(2), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
    ranges.raise(&orders, range.end).await.unwrap();
    leases.bump(&main).await.unwrap();
    assert_eq!(ranges.allocate(&orders, count(10), None).await.unwrap().start, range.end);
    let error = leases.renew(&longer, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
    let error = leases.acquire(&main, WorkerChoice::Any, &holder(3), &terms()).await.unwrap_err();
    let free_at_ms = error.retry_at_ms().unwrap();
    clock.advance(free_at_ms - clock_of(&clock));
    for nth in 3..5 {
        let next = leases.acquire(&main, WorkerChoice::Any, &holder(nth), &terms()).await.unwrap();
        let latest_ms = longer.window.end.max(lost.window.end);
        assert!(next.window.start >= latest_ms, "{next:?} after {longer:?} and {lost:?}");
    }
}

/// Makes `to` what `from` is.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::remove_dir_all(to).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

async fn a_clock_set_back_between_two_opens_repeats_nothing(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (wide, narrow) = (pool("wide", 0..8), pool("narrow", 0..1));
    let mut old: Vec<Lease> = Vec::new();
    let store = open(url, folder.path(), &ManualClock::at(NOW_MS)).await.unwrap();
    for nth in 0..4 {
        old.push(
            store.leases.as_ref().unwrap().acquire(&wide, WorkerChoice::Any, &holder(nth), &terms()).await.unwrap(),
        );
    }
    old.push(store.leases.as_ref().unwrap().acquire(&narrow, WorkerChoice::Any, &holder(9), &terms()).await.unwrap());
    drop(store);

    let clock = ManualClock::at(NOW_MS - 3_600_000);
    let leases = open(url, folder.path(), &clock).await.unwrap().leases.unwrap();
    let mut new: Vec<Lease> = Vec::new();
    for nth in 10..14 {
        new.push(leases.acquire(&wide, WorkerChoice::Any, &holder(nth), &terms()).await.unwrap());
    }
    for wide_or_narrow in [&wide, &narrow] {
        let full = leases.acquire(wide_or_narrow, WorkerChoice::Any, &holder(20), &terms()).await.unwrap_err();
        assert_eq!(full.kind(), StoreErrorKind::NoFreeWorker, "{full}");
        assert!(full.retry_at_ms() > Some(clock_of(&clock)), "{full}");
    }
    // The clock is corrected: every id can be claimed again, after its old window.
    clock.step_to(NOW_MS + 60_000);
    for nth in 30..38 {
        new.push(leases.acquire(&wide, WorkerChoice::Any, &holder(nth), &terms()).await.unwrap());
    }
    new.push(leases.acquire(&narrow, WorkerChoice::Any, &holder(40), &terms()).await.unwrap());
    let all: Vec<&Lease> = old.iter().chain(&new).collect();
    for (nth, one) in all.iter().enumerate() {
        for two in &all[nth + 1..] {
            let same_id = one.pool == two.pool && one.worker == two.worker;
            let apart = one.window.end <= two.window.start || two.window.end <= one.window.start;
            assert!(!same_id || apart, "{one:?} and {two:?} share a millisecond");
        }
    }
}

async fn a_clock_beyond_reason_is_refused(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let leases = open(url, folder.path(), &clock).await.unwrap().leases.unwrap();
    let lease = leases.acquire(&pool("main", 0..1), WorkerChoice::Any, &holder(1), &terms()).await.unwrap();
    for broken_ms in [u64::MAX, 1 << 60] {
        clock.step_to(broken_ms);
        let error = leases.renew(&lease, &holder(1), &terms()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        leases.bump(&pool("main", 0..1)).await.unwrap_err();
    }
    clock.step_to(NOW_MS);
    let longer = leases.renew(&lease, &holder(1), &terms()).await.unwrap();
    assert_eq!(longer.window, lease.window, "the broken clock left nothing behind");
}

async fn a_missing_folder_is_refused_by_name(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let nowhere = url.replace(':', ":no/such/folder/");
    let error = open(&nowhere, folder.path(), &clock).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("no/such/folder"), "{error}");
    // A file where a folder is needed, and the other way round.
    std::fs::write(folder.path().join("ids"), "mine").unwrap();
    std::fs::create_dir(folder.path().join("ids.db")).unwrap();
    let error = open(url, folder.path(), &clock).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert_eq!(std::fs::read(folder.path().join("ids")).unwrap(), b"mine");
}

async fn a_call_that_waits_too_long_is_cut_off(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = open_within(url, folder.path(), &clock, 2_000).await.unwrap();
    let (ranges, leases, _) = parts(&store);
    let sequence = Sequence::new("orders", 1);
    ranges.create(&sequence).await.unwrap();
    let first = ranges.allocate(&sequence, count(10), None).await.unwrap();
    let lock = Hold::on(url, folder.path()).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (ranges, sequence) = (ranges.clone(), sequence.clone());
            tokio::spawn(async move { ranges.allocate(&sequence, count(10), None).await })
        })
        .collect();
    for call in calls {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), call).await.expect("cut off").unwrap();
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("2000 ms"), "{error}");
    }
    // A worker id that cannot be asked for is an error, never a default.
    let error = leases.acquire(&pool("main", 0..4), WorkerChoice::Any, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    lock.let_go().await;
    let next = ranges.allocate(&sequence, count(10), None).await.unwrap();
    assert_disjoint(vec![first, next]);
}

async fn an_unusable_format_is_not_recorded(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let formats = open(url, folder.path(), &ManualClock::at(NOW_MS)).await.unwrap().formats.unwrap();
    for odd in [Format::default(), Format::default().with("epoch", 1)] {
        let error = formats.pin("events", &odd).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    }
    let odd_but_fine = Format::of("snowflake").with("note", "a = b\n= c \u{2028} é").with("", "empty name");
    formats.pin("events", &odd_but_fine).await.unwrap();
    assert_eq!(formats.pinned("events").await.unwrap(), Some(odd_but_fine));
}

async fn an_answer_to_a_key_lives_for_a_day(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let ranges = open(url, folder.path(), &clock).await.unwrap().ranges.unwrap();
    let (sequence, key) = (Sequence::new("orders", 1), IdempotencyKey::new("request-1").unwrap());
    ranges.create(&sequence).await.unwrap();
    let first = ranges.allocate(&sequence, count(10), Some(&key)).await.unwrap();
    clock.advance(24 * 3600 * 1000);
    assert_eq!(ranges.allocate(&sequence, count(10), Some(&key)).await.unwrap(), first, "within a day");
    clock.advance(1);
    let later = ranges.allocate(&sequence, count(10), Some(&key)).await.unwrap();
    assert_disjoint(vec![first, later]);
}

async fn history_is_kept_for_400_days(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let leases = open(url, folder.path(), &clock).await.unwrap().leases.unwrap();
    let pool = pool("main", 0..1);
    for nth in 0..3 {
        // The second claim comes when the first window has been over for 400 days to the millisecond; the third one later.
        clock.step_to(NOW_MS + nth * (60_000 + HISTORY_KEPT_MS) + nth / 2);
        let who = holder(u32::try_from(nth).unwrap());
        leases.acquire(&pool, WorkerChoice::Any, &who, &terms()).await.unwrap();
        let first = leases.history(&pool, NOW_MS).await.unwrap();
        assert_eq!(first.len(), usize::from(nth < 2), "claim {nth}: {first:?}");
    }
}

/// The store's lock, taken by somebody who does not let go.
enum Hold {
    File(std::fs::File),
    Sqlite(sqlx::SqliteConnection),
}

impl Hold {
    async fn on(url: &str, folder: &std::path::Path) -> Self {
        if url.starts_with("file:") {
            let file = std::fs::File::open(folder.join("ids/lock")).unwrap();
            file.lock().unwrap();
            return Self::File(file);
        }
        let mut conn = crate::sqlite::connect(&folder.join("ids.db")).await;
        sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
        Self::Sqlite(conn)
    }

    async fn let_go(self) {
        match self {
            Self::File(file) => file.unlock().unwrap(),
            Self::Sqlite(mut conn) => drop(sqlx::query("COMMIT").execute(&mut conn).await.unwrap()),
        }
    }
}

type Parts = (Arc<dyn mintage_core::RangeStore>, Arc<dyn mintage_core::LeaseStore>, Arc<dyn mintage_core::FormatStore>);

fn parts(store: &Backend) -> Parts {
    (store.ranges.clone().unwrap(), store.leases.clone().unwrap(), store.formats.clone().unwrap())
}

fn clock_of(clock: &ManualClock) -> u64 {
    mintage_core::Clock::unix_ms(clock)
}
