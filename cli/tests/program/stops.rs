//! A run that is stopped, or whose reader goes away, ends at a whole line and gives back what it did not use.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Stdio},
    thread,
    time::Duration,
};

use mintage::core::{Clock as _, SystemClock};

use crate::{
    folder::{Dice, Folder, Ran, assert_distinct, finish, numbers_in, signal, until},
    refusals::{two_workers_config, with_database},
};

/// More than is minted before any test stops it.
const MANY: &str = "100000000";

/// Starts a run that prints into a pipe, and reads its first line.
fn piped(folder: &Folder, entity: &str) -> (Child, BufReader<ChildStdout>, u64) {
    let mut command = folder.command(["new", entity, "-n", MANY]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let first = line.trim_end().parse().unwrap_or_else(|_| panic!("{line:?}"));
    (child, reader, first)
}

#[test]
fn a_stopped_run_gives_its_numbers_back() {
    let folder = Folder::shipped();
    let mut expected = 1;
    for (nth, name) in ["INT", "TERM", "HUP", "TERM"].into_iter().enumerate() {
        let mut running = folder.start(&format!("orders.{nth}"), &["new", "orders", "-n", MANY]);
        running.wait_for_output();
        running.signal(name);
        let ran = running.end().expect(4).says("stopped");
        assert!(ran.out.ends_with('\n'), "a whole line");
        let numbers = ran.numbers();
        assert!(numbers.len() < 50_000_000);
        assert_eq!(numbers, Vec::from_iter(expected..expected + numbers.len() as u64));
        expected += numbers.len() as u64;
    }
    // At most the ids that were made and not yet printed are lost.
    let next = folder.run(&["new", "orders"]).expect(0).numbers()[0];
    assert_eq!(next, expected, "no gap");
}

/// Few ids in a millisecond, two worker ids, and windows that are over soon.
const SHORT_WINDOWS: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 1, sequence = 2 }
worker = { pool = "main" }
[workers.main]
lease = { renew = "100ms", ttl = "400ms", window = "600ms", max_ahead = "300ms", guard = "100ms", quarantine = "50ms" }
[stores.main]
url = "sqlite:mintage.db"
timeout = "2s"
"#;

/// A process that gets half of the processor's time, in pieces, beside one that gets all of it: renewals are late, and windows end
/// while it is stopped. In each round it is stopped for so long that somebody else has its worker id in between.
#[test]
fn a_process_with_half_of_the_time_repeats_nothing() {
    const ROUNDS: usize = 3;
    let folder = Folder::with(SHORT_WINDOWS);
    let mut dice = Dice(17);
    let mut lives = Vec::new();
    let mut start = || {
        let name = format!("life.{}", lives.len());
        let mut running = folder.start(&name, &["new", "events", "-n", MANY]);
        lives.push(name);
        running.wait_for_output();
        running
    };
    let (mut slow, mut beside, mut others) = (start(), start(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..12 {
            slow.signal("STOP");
            let half = Duration::from_millis(20 + dice.below(80));
            thread::sleep(half);
            slow.signal("CONT");
            thread::sleep(half);
        }
        slow.signal("STOP");
        until("another has the worker id", || {
            let ran = folder.run(&["new", "events", "-n", "40"]);
            others.push(ran.numbers());
            if ran.code == 3 {
                // It was stopped in the middle of a commit, so nobody gets to the store: once more.
                slow.signal("CONT");
                thread::sleep(Duration::from_millis(20));
                slow.signal("STOP");
            }
            ran.code == 0
        });
        slow.signal("CONT");
        // Where no worker id was free at that moment, or the store was out of reach for longer than a window, it has ended.
        for running in [&mut slow, &mut beside] {
            if !running.goes_on() {
                let ended = std::mem::replace(running, start()).end();
                assert!([3, 4].contains(&ended.code), "{ended:?}");
            }
        }
    }
    for running in [slow, beside] {
        running.signal("TERM");
        let ended = running.end();
        assert!([3, 4].contains(&ended.code), "{ended:?}");
    }
    let runs: Vec<Vec<u64>> = lives.iter().map(|name| numbers_in(&folder.path(name))).chain(others).collect();
    for run in &runs {
        assert!(run.is_sorted_by(|one, next| one < next), "each process mints upwards");
    }
    let minted: usize = runs.iter().map(Vec::len).sum();
    assert!(minted > 3_000, "{minted} ids are no hunt");
    assert_distinct(runs.concat());
}

#[test]
fn a_stopped_run_prints_good_json() {
    let folder = Folder::shipped();
    let mut running = folder.start("orders.json", &["new", "orders", "-n", MANY, "-o", "json"]);
    running.wait_for_output();
    running.signal("TERM");
    let ids = running.end().expect(4).json()["ids"].as_array().unwrap().len();
    assert!(ids > 0);
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [ids as u64 + 1]);
}

#[test]
fn a_stopped_run_gives_its_worker_id_back() {
    let folder = Folder::with(&two_workers_config());
    let (mut holder, _reader, _) = piped(&folder, "events");
    let mut ids = Vec::new();
    for nth in 0..5 {
        let name = format!("events.{nth}");
        let mut running = folder.start(&name, &["new", "events", "-n", MANY]);
        running.wait_for_output();
        running.signal(if nth % 2 == 0 { "TERM" } else { "INT" });
        running.end().expect(4).says("stopped");
        ids.extend(numbers_in(&folder.path(&name)));
    }
    ids.extend(folder.run(&["new", "events", "-n", "10"]).expect(0).numbers());
    assert_distinct(ids);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_closed_pipe_is_no_failure_and_gives_the_numbers_back() {
    let folder = Folder::shipped();
    folder.run(&["new", "users"]).expect(0);
    let (child, reader, first) = piped(&folder, "orders");
    assert_eq!(first, 1);
    drop(reader);
    let ran = Ran::of(finish(child)).expect(0);
    assert_eq!(ran.err, "");
    let next = folder.run(&["new", "orders"]).expect(0).numbers()[0];
    assert!((2..200_000).contains(&next), "what a pipe holds, and a chunk: {next}");
    let (child, reader, _) = piped(&folder, "events");
    drop(reader);
    assert_eq!(Ran::of(finish(child)).expect(0).err, "");
    for args in [&["inspect", "1", "2", "3"][..], &["schema"], &["completions", "bash"], &["check"]] {
        let mut child = folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Ran::of(finish(child)).expect(0);
    }
}

#[test]
fn a_run_whose_reader_is_stuck_can_be_stopped() {
    let folder = Folder::shipped();
    let (child, mut reader, _) = piped(&folder, "orders");
    // The pipe is full by then or soon; nobody reads on.
    signal(&child, "TERM");
    let ran = Ran::of(finish(child)).expect(4).says("stopped");
    assert_eq!(ran.out, "");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let next = folder.run(&["new", "orders"]).expect(0).numbers()[0];
    // The last line in the pipe may be cut: it lacks its end, so nobody takes it for an id.
    let read = rest.rsplit_once('\n').map_or(1, |(whole, _)| whole.rsplit('\n').next().unwrap().parse().unwrap());
    assert!(next > read && next < 1_000_000, "{read} was read, {next} came next");
}

/// Whoever raises a counter after a restore must be able to say what a run still holds.
#[test]
fn a_run_of_many_holds_a_few_at_a_time() {
    let folder = Folder::shipped();
    let (mut child, _reader, _) = piped(&folder, "orders");
    let list = folder.run(&["sequences", "list", "-o", "json"]).expect(0).json();
    let next: u64 = list[0]["next"].as_str().unwrap().parse().unwrap();
    // A pipe holds 64 KiB, a chunk 4096 numbers; what is read ahead of both is one range.
    assert!(next < 50_000, "{next}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn runs_stopped_beside_each_other_repeat_nothing() {
    let folder = Folder::shipped();
    let mut dice = Dice(8);
    let mut numbers = Vec::new();
    let mut stopped = 0;
    for round in 0..8 {
        let start = |nth| folder.start(&format!("orders.{round}.{nth}"), &["new", "orders", "-n", "200000"]);
        let mut running = Vec::from_iter((0..3).map(start));
        for run in &mut running {
            run.wait_for_output();
        }
        while !running.is_empty() {
            let run = running.swap_remove(usize::try_from(dice.below(running.len() as u64)).unwrap());
            run.signal("TERM");
            let (status, printed) = run.status();
            stopped += i32::from(status.code() == Some(4));
            numbers.extend(printed);
        }
    }
    assert!(stopped > 4, "only {stopped} of them were stopped before their end");
    numbers.extend(folder.run(&["new", "orders", "-n", "5"]).expect(0).numbers());
    assert_distinct(numbers);
}

#[test]
fn a_run_that_was_paused_past_its_window_repeats_nothing() {
    // The worker id can be claimed by another long before the window of its holder is over.
    let config = two_workers_config().replace("ttl = \"2s\", renew = \"500ms\"", "ttl = \"600ms\", renew = \"200ms\"");
    assert!(config.contains("600ms"));
    let folder = Folder::with(&config);
    let start = |nth: usize| {
        let mut run = folder.start(&format!("events.{nth}"), &["new", "events", "-n", MANY]);
        run.wait_for_output();
        run
    };
    let paused = start(0);
    paused.signal("STOP");
    let (mut neighbour, _reader, neighbours) = piped(&folder, "events");
    let mut tries = 0;
    let mut heir = None;
    until("the worker id of the paused one is given to another", || {
        tries += 1;
        let run = start(tries);
        if fs::metadata(folder.path(&format!("events.{tries}"))).unwrap().len() == 0 {
            run.end().expect(4).says("held or resting");
        } else {
            heir = Some(run);
        }
        heir.is_some()
    });
    paused.signal("CONT");
    let end_ms = SystemClock.boot_ms() + 300;
    until("both have had time to mint", || SystemClock.boot_ms() > end_ms);
    for run in [paused, heir.unwrap()] {
        run.signal("TERM");
        run.end().expect(4);
    }
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    let [old, new] = [0, tries].map(|nth| numbers_in(&folder.path(&format!("events.{nth}"))));
    let worker = |id: u64| id >> 12 & 1;
    assert_eq!(worker(old[0]), worker(new[0]), "one worker id for both");
    assert_ne!(worker(old[0]), worker(neighbours));
    assert_distinct([old, new].concat());
}

#[test]
fn a_run_whose_store_is_stuck_can_be_stopped() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders"]).expect(0);
    with_database(&folder.path("mintage.db"), async |connection| {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.unwrap();
        let started_ms = SystemClock.boot_ms();
        let mut command = folder.command(["new", "orders", "-n", "5"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it listens", || listens(&child));
        signal(&child, "TERM");
        let ran = Ran::of(finish(child)).expect(4).says("stopped");
        assert_eq!(ran.out, "");
        // The store's own patience is ten seconds.
        assert!(SystemClock.boot_ms() - started_ms < 9_000);
        sqlx::query("ROLLBACK").execute(connection).await.unwrap();
    });
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [2]);
}

/// Whether the process has its own answer to SIGTERM by now. Only Linux tells; elsewhere it is assumed.
fn listens(child: &Child) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", child.id())) else { return true };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << 14) != 0
}

#[test]
fn a_stop_at_any_moment_of_a_start_repeats_nothing() {
    let folder = Folder::shipped();
    let mut dice = Dice(3);
    let mut numbers = Vec::new();
    for nth in 0..40 {
        let running = folder.start(&format!("orders.{nth}"), &["new", "orders", "-n", "20000"]);
        thread::sleep(Duration::from_micros(dice.below(40_000)));
        running.signal(if nth % 2 == 0 { "TERM" } else { "INT" });
        let (status, printed) = running.status();
        // Before it listens, a signal ends it as it ends any program.
        assert!(matches!(status.code(), None | Some(0 | 4)), "{status}");
        numbers.extend(printed);
    }
    numbers.extend(folder.run(&["new", "orders", "-n", "5"]).expect(0).numbers());
    assert_distinct(numbers);
}
