//! At the limit of a layout: 4096 ids a millisecond with 12 bits of sequence. What counts there is how near to the limit a
//! minter comes, and what the waiting costs.

use std::{
    fs,
    io::Write,
    thread,
    time::{Duration, Instant},
};

use ferroid::{
    generator::{AtomicSnowflakeGenerator, Poll},
    id::SnowflakeTwitterId,
};
use mintage_core::{Clock, IdScheme, MintError, SystemClock};
use mintage_schemes::{Layout, SnowflakeReader};

use crate::{granted, peers::WallClock};

const LIMIT_PER_S: f64 = 4_096_000.0;
/// Long enough that the borrowed units at the start weigh under a percent.
const MEASURED: Duration = Duration::from_secs(2);

/// Prints ids a second and the share of a core, for spinning and for sleeping.
pub(crate) fn print() {
    let epoch_ms = SystemClock.unix_ms() - 1000;
    let ours = granted(SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), epoch_ms));
    let peer = AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, WallClock::since(epoch_ms));
    let mint = || match ours.mint() {
        Ok(_) => None,
        Err(MintError::Exhausted { retry_ms }) => Some(u64::from(retry_ms)),
        Err(error) => panic!("{error}"),
    };
    let poll = || match peer.poll_id() {
        Poll::Ready { .. } => None,
        Poll::Pending { yield_for } => Some(yield_for),
    };
    let sleep = |wait_ms| thread::sleep(Duration::from_millis(wait_ms));
    let spin = |_| std::hint::spin_loop();
    let mut out = std::io::stdout().lock();
    writeln!(out, "| at 4096 ids a millisecond, one thread | ids a second | of the limit | of a core |").unwrap();
    writeln!(out, "|---|---:|---:|---:|").unwrap();
    for (name, rate) in [
        ("mintage, sleeping as `Exhausted` says", rate(mint, sleep)),
        ("ferroid atomic, wall clock, sleeping as `Pending` says", rate(poll, sleep)),
        ("mintage, spinning", rate(mint, spin)),
        ("ferroid atomic, wall clock, spinning", rate(poll, spin)),
    ] {
        let core = rate.core.map_or("unknown".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let limit = rate.per_s / LIMIT_PER_S * 100.0;
        writeln!(out, "| {name} | {:.2} million | {limit:.0} % | {core} |", rate.per_s / 1e6).unwrap();
    }
}

struct Rate {
    per_s: f64,
    /// The share of the time that this thread was on a core, where the system tells.
    core: Option<f64>,
}

/// Makes ids until the time is up. `mint` says how many milliseconds to wait if there is none.
#[expect(clippy::disallowed_methods, reason = "measures time, makes no id of it")]
fn rate(mint: impl Fn() -> Option<u64>, wait: impl Fn(u64)) -> Rate {
    let (began, core_began) = (Instant::now(), on_core());
    let mut made = 0u32;
    loop {
        match mint() {
            None => made += 1,
            Some(wait_ms) => wait(wait_ms),
        }
        // A reading for each id would be a third of the work.
        if made.is_multiple_of(256) && began.elapsed() >= MEASURED {
            break;
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    let core = on_core().zip(core_began).map(|(now, before)| (now - before).as_secs_f64() / elapsed);
    Rate { per_s: f64::from(made) / elapsed, core }
}

/// How long this thread has been running on a core. Linux tells.
fn on_core() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
