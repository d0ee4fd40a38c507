//! A process that mints, as an application would: the real library, the real program counter, a real file.
//!
//! Each id is written with `write` before anybody could be given it, so it survives `kill -9`. The end of the input means: end
//! cleanly. The line `fork` means: fork in the middle of minting, and let the child try.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, Write},
    os::fd::AsRawFd as _,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use mintage::{Config, Registry};
use mintage_core::{AnyScheme, IdScheme, MintError};
use tokio::time::Instant;

use crate::{mutant::UnboundedStores, store::TIMES};

/// The first word of its command line.
pub(crate) const WORD: &str = "member";

/// What its lease is like: as usual, with the strict rule, or with a long window.
pub(crate) const USUAL: &str = "usual";
pub(crate) const STRICT: &str = "strict";
pub(crate) const LONG: &str = "long";

/// How many ids are asked for at once: one clock reading pays for them, which matters under a faked clock.
const BATCH: usize = 64;
/// Between two tries to build: a start that fails is tried again by whoever runs the process.
const RETRY_MS: u64 = 50;
/// Between two reports.
const REPORT_MS: u128 = 100;
/// A step longer than this was no refusal but a pause.
const STEP_MS_MAX: u128 = 100;

const CONFIG: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 3, sequence = 12 }
worker = { pool = "main" }
clock = { max_drift = "50ms" }
[entities.orders]
scheme = "segment"
range = 1000
[workers.main]
region = "all"
lease = { renew = "RENEWms", ttl = "TTLms", window = "WINDOWms", max_ahead = "AHEADms", guard = "GUARDms", quarantine = "20ms"STOP }
[regions]
all = "0..IDS"
[stores.main]
url = "URL"
timeout = "TIMEOUTms"
"#;

/// Mints until it is killed or its input ends. The words are: URL, folder, name, ids a second, one of the rules above, and
/// the guard in ms.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let [url, folder, name, rate, rule, guard_ms] = words else {
        eprintln!("a member is started by the hunt");
        return ExitCode::from(2);
    };
    let config = config(url, rule, guard_ms);
    let (Ok(files), Ok(rate)) = (Files::create(Path::new(folder), name), rate.parse()) else {
        return ExitCode::FAILURE;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    runtime.block_on(live(config, files, rate));
    // What a store still waits for ends with the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ExitCode::SUCCESS
}

fn config(url: &str, rule: &str, guard_ms: &str) -> String {
    let window_ms = if rule == LONG { TIMES.long_window_ms } else { TIMES.window_ms };
    let stop = if rule == STRICT { format!(", stop = \"{}ms\"", TIMES.stop_ms) } else { String::new() };
    let values = [
        ("RENEW", TIMES.renew_ms),
        ("TTL", TIMES.ttl_ms),
        ("WINDOW", window_ms),
        ("AHEAD", TIMES.ahead_ms),
        ("IDS", TIMES.worker_ids.into()),
        ("TIMEOUT", TIMES.timeout_ms),
    ];
    let text = values.into_iter().fold(CONFIG.to_owned(), |text, (word, value)| text.replace(word, &value.to_string()));
    text.replace("GUARD", guard_ms).replace("STOP", &stop).replace("URL", url)
}

async fn live(config: String, files: Files, rate: u64) {
    let (ended, forks) = listen();
    let began = Instant::now();
    let mut told = String::new();
    let registry = loop {
        let parsed = Config::parse(&config, "mintage.toml").map_err(|error| error.to_string());
        let built = match parsed {
            Ok(parsed) => {
                let builder = Registry::builder().builtins().plugin::<UnboundedStores>();
                builder.build(parsed).await.map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
            }
            Err(told) => Err(told),
        };
        match built {
            Ok(registry) => break registry,
            Err(error) if error != told => {
                eprintln!("{error}");
                told = error;
            }
            Err(_) => {}
        }
        if ended.load(Ordering::Acquire) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
    };
    let minters = ["events", "orders"].map(|entity| registry.any_minter(entity).map(|minter| minter.scheme().clone()));
    let [Ok(AnyScheme::Int(events)), Ok(AnyScheme::Int(orders))] = minters else { return };
    let closed = Arc::new(AtomicBool::new(false));
    let minting = {
        let closed = Arc::clone(&closed);
        thread::spawn(move || Press { files, rate, began, forks, closed }.run(&*events, &*orders))
    };
    while !ended.load(Ordering::Acquire) && !minting.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It mints on while the registry closes: what is given back must be what it has not used.
    let _ = registry.close().await;
    closed.store(true, Ordering::Release);
    let _ = minting.join();
}

/// Whether the input has ended, and whether a fork is asked for.
fn listen() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let (ended, forks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (ends, asks) = (Arc::clone(&ended), Arc::clone(&forks));
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == "fork" {
                asks.store(true, Ordering::Release);
            }
        }
        ends.store(true, Ordering::Release);
    });
    (ended, forks)
}

struct Files {
    events: File,
    orders: File,
    log: File,
}

impl Files {
    fn create(folder: &Path, name: &str) -> std::io::Result<Self> {
        let file = |end: &str| OpenOptions::new().append(true).create(true).open(folder.join(format!("{name}.{end}")));
        Ok(Self { events: file("events")?, orders: file("orders")?, log: file("log")? })
    }
}

/// The loop that mints.
struct Press {
    files: Files,
    rate: u64,
    began: Instant,
    forks: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
}

/// How one scheme fares.
#[derive(Default)]
struct Fortune {
    is_refused_since: Option<Instant>,
    refused_ms: u128,
}

impl Press {
    fn run(mut self, events: &dyn IdScheme<Bits = u64>, orders: &dyn IdScheme<Bits = u64>) {
        let mut batch = [0; BATCH];
        let (mut event_fortune, mut order_fortune) = (Fortune::default(), Fortune::default());
        let (mut seen_ms, mut reported_ms, mut made) = (0, 0, 0_u64);
        let mut starting = true;
        let mut last = Instant::now();
        while !self.closed.load(Ordering::Acquire) {
            if self.forks.swap(false, Ordering::AcqRel) {
                self.fork(events, orders);
                last = Instant::now();
            }
            let step_ms = last.elapsed().as_millis().min(STEP_MS_MAX);
            if step_ms > 0 {
                seen_ms += step_ms;
                event_fortune.spend(step_ms);
                order_fortune.spend(step_ms);
                last = Instant::now();
            }
            // One by one and by the batch: both ways take from the same state.
            let few = (made % 7) as usize + 1;
            let mut got = 0;
            for count in [few, BATCH] {
                got += make(
                    events,
                    batch.get_mut(..count).unwrap_or_default(),
                    &mut self.files.events,
                    &mut event_fortune,
                    &mut self.files.log,
                );
            }
            got += make(
                orders,
                batch.get_mut(..BATCH / 2).unwrap_or_default(),
                &mut self.files.orders,
                &mut order_fortune,
                &mut self.files.log,
            );
            made += got;
            if starting && got > 0 {
                starting = false;
                note(&mut self.files.log, &format!("start {}", self.began.elapsed().as_millis()));
            }
            if seen_ms - reported_ms >= REPORT_MS {
                reported_ms = seen_ms;
                let (events_ms, orders_ms) = (event_fortune.refused_ms, order_fortune.refused_ms);
                note(&mut self.files.log, &format!("seen {seen_ms} {events_ms} {orders_ms}"));
            }
            let wait_us = if got == 0 { 1_000 } else { got * 1_000_000 / self.rate.max(1) };
            thread::sleep(Duration::from_micros(wait_us.max(50)));
        }
    }

    /// The child tries to mint what its parent could. Whatever it gets is written where all ids are.
    #[expect(unsafe_code, reason = "a fork is what is tried here")]
    fn fork(&mut self, events: &dyn IdScheme<Bits = u64>, orders: &dyn IdScheme<Bits = u64>) {
        const TRIES: usize = 200;
        let files = [self.files.events.as_raw_fd(), self.files.orders.as_raw_fd()];
        // SAFETY: the child calls nothing that could wait for a lock of another thread: it mints, writes and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for _ in 0..TRIES {
                for (scheme, file) in [events, orders].into_iter().zip(files) {
                    if let Ok(id) = scheme.mint() {
                        let bytes = id.to_le_bytes();
                        // SAFETY: the bytes are there, and the file is open.
                        unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
                    }
                }
            }
            // SAFETY: has no preconditions.
            unsafe { libc::_exit(0) };
        }
        if child > 0 {
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            note(&mut self.files.log, "fork");
        }
    }
}

impl Fortune {
    fn spend(&mut self, ms: u128) {
        if self.is_refused_since.is_some() {
            self.refused_ms += ms;
        }
    }
}

/// Mints a batch and writes it. Says how many ids that were.
fn make(
    scheme: &dyn IdScheme<Bits = u64>,
    out: &mut [u64],
    file: &mut File,
    fortune: &mut Fortune,
    log: &mut File,
) -> u64 {
    match scheme.mint_batch(out) {
        Ok(count) => {
            let mut bytes = [0; BATCH * 8];
            for (slot, id) in bytes.chunks_exact_mut(8).zip(out.iter().take(count)) {
                slot.copy_from_slice(&id.to_le_bytes());
            }
            if file.write_all(bytes.get(..count * 8).unwrap_or_default()).is_err() {
                // Nobody may be given what is not written.
                std::process::exit(3);
            }
            if let Some(since) = fortune.is_refused_since.take() {
                note(log, &format!("gap {}", since.elapsed().as_millis()));
            }
            count as u64
        }
        // A unit or a range that is used up at this pace is no outage.
        Err(MintError::Exhausted { retry_ms }) if retry_ms <= 50 => 0,
        Err(_) => {
            fortune.is_refused_since.get_or_insert_with(Instant::now);
            0
        }
    }
}

fn note(log: &mut File, line: &str) {
    // A log that cannot be written costs a figure, no id.
    let _ = log.write_all(format!("{line}\n").as_bytes());
}
