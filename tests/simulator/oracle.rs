//! What must hold whatever happens, and the notes by which it is judged.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

use crate::{line::Line, setting::Setting, store::Log};

/// How much of a run is shown when it goes wrong.
const TRACE_LEN: usize = 60;

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Ids made twice, in the order in which they were noticed.
    pub(crate) duplicates: Vec<String>,
    /// Grants that the store should not have made beside each other: what a duplicate comes from, if both holders use theirs.
    pub(crate) overlaps: Vec<String>,
    /// Everything else that must not be.
    pub(crate) violations: Vec<String>,
    /// How many ids were made, of both kinds.
    pub(crate) ids: u64,
    pub(crate) refusals: u64,
    pub(crate) claims: u64,
    pub(crate) crashes: u64,
    pub(crate) failovers: u64,
    pub(crate) pauses: u64,
    pub(crate) steps: u64,
    pub(crate) forks: u64,
    pub(crate) full_disks: u64,
    trace: VecDeque<String>,
}

/// The ids of one run, and who made them.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    snowflakes: HashMap<u64, usize>,
    numbers: HashMap<u64, usize>,
    /// One past the largest number minted.
    pub(crate) numbers_end: u64,
}

/// The last ids of one life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last {
    snowflake: Option<(u64, u64)>,
    number: Option<u64>,
}

impl Verdict {
    /// Notes what happened, for whoever must understand a failure.
    pub(crate) fn note(&mut self, at_ms: u64, what: impl FnOnce() -> String) {
        if self.trace.len() == TRACE_LEN {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{at_ms:>8} ms  {}", what()));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.duplicates.is_empty() && self.overlaps.is_empty() && self.violations.is_empty()
    }

    /// What went wrong and the last that happened before.
    pub(crate) fn story(&self) -> String {
        let faults: Vec<&str> =
            self.duplicates.iter().chain(&self.overlaps).chain(&self.violations).take(10).map(String::as_str).collect();
        let trace: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        format!("{}\nthe last that happened:\n{}", faults.join("\n"), trace.join("\n"))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.ids += other.ids;
        self.refusals += other.refusals;
        self.claims += other.claims;
        self.crashes += other.crashes;
        self.failovers += other.failovers;
        self.pauses += other.pauses;
        self.steps += other.steps;
        self.forks += other.forks;
        self.full_disks += other.full_disks;
    }
}

impl Ids {
    /// Judges a snowflake of life number `life`.
    pub(crate) fn snowflake(
        &mut self,
        setting: &Setting,
        verdict: &mut Verdict,
        id: u64,
        life: usize,
        line: &Line,
        last: &mut Last,
    ) {
        verdict.ids += 1;
        if let Some(other) = self.snowflakes.insert(id, life) {
            verdict.duplicates.push(format!("snowflake {} by life {other} and life {life}", setting.describe(id)));
        }
        let (time, worker, sequence) = setting.split(id);
        if !line.was_granted(worker, &setting.span_of(time)) {
            verdict.violations.push(format!("life {life} stamped {} outside its windows", setting.describe(id)));
        }
        if last.snowflake.is_some_and(|before| before >= (time, sequence)) {
            verdict.violations.push(format!("life {life} made {} out of order", setting.describe(id)));
        }
        last.snowflake = Some((time, sequence));
    }

    /// Judges a number of life number `life`.
    pub(crate) fn number(&mut self, verdict: &mut Verdict, number: u64, life: usize, last: &mut Last) {
        verdict.ids += 1;
        self.numbers_end = self.numbers_end.max(number + 1);
        if let Some(other) = self.numbers.insert(number, life) {
            verdict.duplicates.push(format!("number {number} by life {other} and life {life}"));
        }
        if last.number.is_some_and(|before| before >= number) {
            verdict.violations.push(format!("life {life} made number {number} out of order"));
        }
        last.number = Some(number);
    }
}

/// Grants of one worker id are disjoint, and so are ranges.
pub(crate) fn judge_the_log(log: &Log, verdict: &mut Verdict) {
    let mut windows: Vec<(u32, &Range<u64>)> = log.claims.iter().map(|claim| (claim.worker, &claim.window)).collect();
    windows.retain(|(_, window)| !window.is_empty());
    windows.sort_by_key(|(worker, window)| (*worker, window.start, window.end));
    for (one, next) in windows.iter().zip(windows.iter().skip(1)) {
        if one.0 == next.0 && next.1.start < one.1.end {
            verdict.overlaps.push(format!("worker id {} was granted {:?} and {:?}", one.0, one.1, next.1));
        }
    }
    let mut ranges: Vec<&Range<u64>> = log.ranges.iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    for (one, next) in ranges.iter().zip(ranges.iter().skip(1)) {
        if next.start < one.end {
            verdict.overlaps.push(format!("numbers {one:?} and {next:?} were both handed out"));
        }
    }
}
