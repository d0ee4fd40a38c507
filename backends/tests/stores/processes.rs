//! Several processes on one store: this binary starts itself again, as [`child`].

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use mintage_core::{
    Clock, IdRange, IdempotencyKey, LeaseStore, ManualClock, RangeStore, Sequence, SystemClock, WorkerChoice,
};

use crate::{NOW_MS, assert_disjoint, count, on_disk, open, pool, terms};

on_disk!(processes_that_start_at_once_on_nothing, kill_nine_in_the_middle_repeats_nothing);
#[cfg(unix)]
on_disk!(a_full_disk_loses_and_repeats_nothing);

const URL: &str = "MINTAGE_TEST_URL";
const FOLDER: &str = "MINTAGE_TEST_FOLDER";
const NAME: &str = "MINTAGE_TEST_NAME";

async fn processes_that_start_at_once_on_nothing(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..8).map(|nth| start("some", url, folder.path(), nth)).collect();
    // They wait for the end of their input: then all open the store that is not there yet.
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let mut ledger = Written::default();
    for mut child in children {
        ledger.read(BufReader::new(child.stdout.take().unwrap()), usize::MAX);
        assert!(child.wait().unwrap().success(), "a process failed");
    }
    assert_eq!(ledger.ranges.len(), 8 * 20);
    assert_disjoint(ledger.ranges);
    let mut workers: Vec<u32> = ledger.windows.iter().map(|(worker, ..)| *worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, (0..8).collect::<Vec<_>>(), "each process has its own worker id");
}

async fn kill_nine_in_the_middle_repeats_nothing(url: &str) {
    const PROCESSES: u32 = 4;
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Written::default();
    let mut running: Vec<(Child, BufReader<ChildStdout>)> = (0..PROCESSES)
        .map(|nth| {
            let mut child = start("endless", url, folder.path(), nth);
            drop(child.stdin.take());
            let lines = BufReader::new(child.stdout.take().unwrap());
            (child, lines)
        })
        .collect();
    for nth in 0..12 {
        let (mut child, mut lines) = running.remove(0);
        // Killed after so many lines, wherever that is in its work; what it wrote until then counts.
        ledger.read(&mut lines, 11 + nth);
        child.kill().unwrap();
        child.wait().unwrap();
        ledger.read(lines, usize::MAX);
        let mut next = start("endless", url, folder.path(), PROCESSES + u32::try_from(nth).unwrap());
        drop(next.stdin.take());
        let lines = BufReader::new(next.stdout.take().unwrap());
        running.push((next, lines));
    }
    for (mut child, lines) in running {
        child.kill().unwrap();
        child.wait().unwrap();
        ledger.read(lines, usize::MAX);
    }
    assert!(ledger.ranges.len() > 100 && ledger.windows.len() >= 12, "{} ranges", ledger.ranges.len());
    let highest = ledger.ranges.iter().map(|range| range.end).max().unwrap();
    assert_disjoint(ledger.ranges);
    assert_windows_disjoint(ledger.windows);
    let store = open(url, folder.path(), &ManualClock::at(NOW_MS)).await.unwrap().ranges.unwrap();
    let next = store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap();
    assert!(next.start >= highest, "{next:?} was handed out before");
}

/// The kernel refuses to let a file of the store grow any further: the write, or the commit, fails in the middle.
#[cfg(unix)]
async fn a_full_disk_loses_and_repeats_nothing(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // Without the trap the limit would kill the process instead of failing the write.
    let blocks = if url.starts_with("file:") { 40 } else { 300 };
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    let mut child = spawn(command, "keys", url, folder.path(), 0);
    drop(child.stdin.take());
    let mut ledger = Written::default();
    ledger.read(BufReader::new(child.stdout.take().unwrap()), usize::MAX);
    assert!(child.wait().unwrap().success(), "the child failed in another way");
    assert_eq!(ledger.refusals, ["Unavailable", "Unavailable", "Unavailable"], "what the calls on a full disk said");
    assert!(ledger.ranges.len() > 10, "only {} ranges fitted", ledger.ranges.len());

    // The children's clock is the machine's, and answers to keys live for a day of it.
    let clock = ManualClock::at(SystemClock.unix_ms());
    let store = open(url, folder.path(), &clock).await.unwrap().ranges.unwrap();
    for (key, believed) in ledger.keys.iter().zip(&ledger.ranges) {
        let key = IdempotencyKey::new(key).unwrap();
        let again = store.allocate(&Sequence::new("orders", 1), count(1), Some(&key)).await.unwrap();
        assert_eq!((again.start, again.end), (believed.start, believed.end), "what was answered is there");
    }
    ledger.ranges.push(store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap());
    assert_disjoint(ledger.ranges);
}

/// What children have written: their words after the fact, so everything in it was answered by the store.
#[derive(Default)]
struct Written {
    ranges: Vec<IdRange>,
    /// The keys of the ranges, where they had one.
    keys: Vec<String>,
    /// Worker, start, end, and who: one line for each claim and renewal.
    windows: Vec<(u32, u64, u64, String)>,
    refusals: Vec<String>,
}

impl Written {
    fn read(&mut self, mut lines: impl BufRead, at_most: usize) {
        for _ in 0..at_most {
            let mut line = String::new();
            // A line without its end was cut off by the kill.
            if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["range", start, end, key @ ..] => {
                    self.keys.extend(key.first().map(|key| (*key).to_owned()));
                    self.ranges.push(IdRange::new("orders", start.parse().unwrap(), end.parse().unwrap(), 0));
                }
                ["window", worker, start, end, who] => {
                    let window =
                        (worker.parse().unwrap(), start.parse().unwrap(), end.parse().unwrap(), (*who).to_owned());
                    self.windows.push(window);
                }
                ["refused", kind] => self.refusals.push((*kind).to_owned()),
                _ => {} // What the test harness says.
            }
        }
    }
}

/// Two windows of one worker id may only overlap if they are of one claim, which grew.
fn assert_windows_disjoint(mut windows: Vec<(u32, u64, u64, String)>) {
    windows.sort();
    for pair in windows.windows(2) {
        let ((worker, start, end, who), (next_worker, next_start, _, next_who)) = (&pair[0], &pair[1]);
        let one_claim = who == next_who && start == next_start;
        assert!(worker != next_worker || one_claim || end <= next_start, "{:?} and {:?} overlap", pair[0], pair[1]);
    }
}

fn start(role: &str, url: &str, folder: &Path, nth: u32) -> Child {
    spawn(Command::new(std::env::current_exe().unwrap()), role, url, folder, nth)
}

fn spawn(mut command: Command, role: &str, url: &str, folder: &Path, nth: u32) -> Child {
    command
        .args(["--ignored", "--exact", "processes::child", "--nocapture"])
        .env(URL, url)
        .env(FOLDER, folder)
        .env(NAME, format!("{role}-{nth}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the children do. Not a test: without its parent it does nothing.
#[test]
#[ignore = "the body of the child processes of the other tests"]
fn child() {
    let (Ok(url), Ok(folder), Ok(name)) = (std::env::var(URL), std::env::var(FOLDER), std::env::var(NAME)) else {
        return;
    };
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = {
            let mut catalog = mintage_core::plugin::Catalog::default();
            <mintage_backends::Builtin as mintage_core::plugin::Plugin>::install(&mut catalog);
            let factory = catalog.backends().iter().find(|factory| url.starts_with(factory.url_scheme())).unwrap();
            let mut address = mintage_core::plugin::Address::new(&url, &folder, Arc::new(SystemClock));
            address.timeout_ms = 60_000;
            factory.open(&address).await.unwrap()
        };
        let (ranges, leases) = (backend.ranges.unwrap(), backend.leases.unwrap());
        ranges.create(&Sequence::new("orders", 1)).await.unwrap();
        match name.split('-').next() {
            Some("some") => work(&*ranges, &*leases, &name, 20).await,
            Some("endless") => work(&*ranges, &*leases, &name, usize::MAX).await,
            _ => keys(&*ranges).await,
        }
    });
}

/// Allocates and renews, and writes each answer down after it came.
async fn work(ranges: &dyn RangeStore, leases: &dyn LeaseStore, name: &str, rounds: usize) {
    let token = u128::from(std::process::id()) << 64 | 1;
    let who = mintage_core::Holder::new(token, name, NOW_MS);
    let mut lease = leases.acquire(&pool("main", 0..64), WorkerChoice::Any, &who, &terms()).await.unwrap();
    write(format_args!("window {} {} {} {name}", lease.worker, lease.window.start, lease.window.end));
    for round in 0..rounds {
        let len = count(1 + u32::try_from(round % 5).unwrap());
        let range = ranges.allocate(&Sequence::new("orders", 1), len, None).await.unwrap();
        write(format_args!("range {} {}", range.start, range.end));
        if round % 7 == 6 && rounds == usize::MAX {
            lease = leases.renew(&lease, &who, &terms()).await.unwrap();
            write(format_args!("window {} {} {} {name}", lease.worker, lease.window.start, lease.window.end));
        }
    }
}

/// Allocates with keys, which the store remembers, until the disk is full; then asks twice more.
async fn keys(ranges: &dyn RangeStore) {
    let mut refusals = 0;
    // Far more than fit.
    for nth in 0..5_000 {
        let key = IdempotencyKey::new(format!("request-{nth}")).unwrap();
        match ranges.allocate(&Sequence::new("orders", 1), count(1), Some(&key)).await {
            Ok(range) => write(format_args!("range {} {} {}", range.start, range.end, key.as_str())),
            Err(error) => {
                write(format_args!("refused {:?}", error.kind()));
                refusals += 1;
            }
        }
        if refusals == 3 {
            return;
        }
    }
}

/// One line in one write, so that a kill leaves it whole or leaves it out.
fn write(line: std::fmt::Arguments<'_>) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}
