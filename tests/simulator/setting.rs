//! What a run looks like before anything happens: how many processes, which layout, which times. All of it follows from the
//! seed.

use std::ops::Range;

use mintage_schemes::Entropy;

use crate::mutants::Fixed;

/// 2026-01-01T00:00:00Z in Unix ms: the epoch of the ids.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// Few, so that a unit overflows and borrows from the next.
const SEQUENCE_BITS: u32 = 6;

/// How many numbers a range has: so few that most are fetched while something is wrong.
pub(crate) const RANGE_LEN: u32 = 20;

const CONFIG: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = WORKER, sequence = SEQUENCE, unit = "UNIT" }
worker = { pool = "main" }
clock = { max_drift = "DRIFTms" }
[workers.main]
lease = { renew = "RENEWms", ttl = "TTLms", window = "WINDOWms", max_ahead = "AHEADms", guard = "GUARDms", quarantine = "RESTms" STOP }
[stores.main]
url = "URL"
timeout = "TIMEOUTms"
"#;

/// Sizes and times of a run, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) processes: usize,
    pub(crate) unit_ms: u64,
    worker_bits: u32,
    /// All times are so many times longer than those of a unit of 1 ms.
    pub(crate) scale: u64,
    pub(crate) window_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) ahead_ms: u64,
    pub(crate) guard_ms: u64,
    pub(crate) timeout_ms: u64,
    /// The strict rule: stop before the lease runs out.
    strict: bool,
    /// Whether the store ever does: after each time nobody can claim for a while, which is a calm of its own.
    pub(crate) fails_over: bool,
}

impl Setting {
    /// The setting of a seed. What is `fixed` overrules chance.
    pub(crate) fn of(dice: &Entropy, fixed: Fixed) -> Self {
        let roll = |sides: u64| dice.draw_u64().unwrap() % sides;
        let drawn_ms = [1, 10, 1_000][roll(3) as usize];
        let unit_ms = fixed.unit_ms.unwrap_or(drawn_ms);
        let scale = if unit_ms == 1_000 { 10 } else { 1 };
        let processes = 3 + roll(10) as usize;
        // Fewer ids than processes, so that each is used again and again.
        let worker_bits = match processes {
            3 | 4 => 1,
            5..=8 => 2,
            _ => 3,
        };
        let drawn_ahead_ms = [0, 300, 800][roll(3) as usize];
        let times = [1_000, 400, fixed.ahead_ms.unwrap_or(drawn_ahead_ms), 100, 250].map(|ms| ms * scale);
        let [window_ms, ttl_ms, ahead_ms, guard_ms, timeout_ms] = times;
        let strict = roll(4) == 0 || fixed.strict;
        let drawn_fails_over = roll(2) == 0;
        Self {
            processes,
            unit_ms,
            worker_bits,
            scale,
            window_ms,
            ttl_ms,
            ahead_ms,
            guard_ms,
            timeout_ms,
            strict,
            fails_over: fixed.fails_over.unwrap_or(drawn_fails_over),
        }
    }

    /// How many processes can hold a worker id at the same time.
    pub(crate) fn worker_ids(&self) -> usize {
        1 << self.worker_bits
    }

    /// How long after the last fault everybody must mint again, at the latest: what a failover bars, twice, what an operator's
    /// clock may have added to it, and the longest pause between two tries of a segment.
    pub(crate) fn recovery_ms_max(&self) -> u64 {
        2 * (self.window_ms + self.ahead_ms + self.guard_ms) + 3 * self.window_ms + self.ttl_ms + 12_000
    }

    /// The config of a process whose store is at `url`.
    pub(crate) fn config(&self, url: &str) -> String {
        let renew_ms = 100 * self.scale;
        let stop = if self.strict { format!(", stop = \"{}ms\"", 300 * self.scale) } else { String::new() };
        let values = [
            ("WORKER", u64::from(self.worker_bits)),
            ("SEQUENCE", SEQUENCE_BITS.into()),
            ("DRIFT", 50.max(self.unit_ms)),
            ("RENEW", renew_ms),
            ("TTL", self.ttl_ms),
            ("WINDOW", self.window_ms),
            ("AHEAD", self.ahead_ms),
            ("GUARD", self.guard_ms),
            ("REST", 50 * self.scale),
            ("TIMEOUT", self.timeout_ms),
        ];
        let unit = if self.unit_ms == 1_000 { "1s".to_owned() } else { format!("{}ms", self.unit_ms) };
        let text = CONFIG.replace("URL", url).replace("STOP", &stop).replace("UNIT", &unit);
        values.into_iter().fold(text, |text, (word, value)| text.replace(word, &value.to_string()))
    }

    /// Time unit, worker id and sequence of an id.
    pub(crate) fn split(&self, id: u64) -> (u64, u32, u64) {
        let worker = (id >> SEQUENCE_BITS) & ((1 << self.worker_bits) - 1);
        (id >> (SEQUENCE_BITS + self.worker_bits), worker as u32, id & ((1 << SEQUENCE_BITS) - 1))
    }

    /// The milliseconds of a time unit.
    pub(crate) fn span_of(&self, time: u64) -> Range<u64> {
        let start = EPOCH_MS + time * self.unit_ms;
        start..start + self.unit_ms
    }

    pub(crate) fn describe(&self, id: u64) -> String {
        let (time, worker, sequence) = self.split(id);
        let after_ms = self.span_of(time).start as i64 - crate::clock::BEGIN_MS as i64;
        format!("(worker id {worker}, unit at {after_ms} ms, sequence {sequence})")
    }
}
