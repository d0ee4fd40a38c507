//! A run that is stopped, or whose reader goes away, ends at a whole line and gives back what it did not use.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Stdio},
    thread,
    time::Duration,
};

use crate::folder::{Dice, Folder, Ran, assert_distinct, finish, numbers_in, signal};
use crate::refusals::two_workers_config;

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
    for (nth, name) in ["INT", "TERM", "INT", "TERM"].into_iter().enumerate() {
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
