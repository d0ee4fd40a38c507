//! Rules that look right and are wrong. The simulator must find the duplicate that each of them makes: a search that finds
//! nothing proves something only if it can find.
//!
//! Each is made here, around the real functions; the library has no switch for any of them.

use std::ops::Range;

use mintage_core::{
    Fence, Holder, Lease, LeaseTerms, StoreError,
    protocol::{self, PoolRow, WorkerRow},
};

use crate::setting::Setting;

/// What the store and the processes of a simulation do differently from the real ones: by default nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Runs on what was loaded before a worker id is chosen.
    pub(crate) before_claim: fn(&mut PoolRow, &mut [WorkerRow]),
    pub(crate) extend: Extend,
    pub(crate) release: Release,
    pub(crate) bump: fn(&mut PoolRow, u64),
    /// How far the clock of a store that takes over may be behind, in milliseconds.
    pub(crate) behind_ms_max: fn(&Setting) -> u64,
    /// Runs on every lease before it leaves the store.
    pub(crate) answer: fn(Lease) -> Lease,
    /// Whether a counter stops after a failover until it was raised.
    pub(crate) ranges_know_the_life: bool,
    /// Whether the operator raises a counter above what processes hold, and not only above what they have minted.
    pub(crate) raise_above_what_is_held: bool,
    /// Whether what a full disk did not take is answered like what it took.
    pub(crate) believes_failed_writes: bool,
    pub(crate) edges: Edges,
    /// Whether a process can tell that it is a forked child.
    pub(crate) notices_forks: bool,
    /// What is not left to chance, so that a wrong rule is looked for where it shows.
    pub(crate) fixed: Fixed,
}

/// What a holder stamps at the edges of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    /// Units that lie wholly inside.
    Inside,
    /// Those that it only touches, too.
    Touching,
    /// It gives back, and its successor begins, in the middle of a unit.
    TrimmedMidUnit,
}

/// What is not left to chance. `None` and `false` are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fixed {
    pub(crate) unit_ms: Option<u64>,
    /// How far after the store's now a window may start, in windows of 1 s.
    pub(crate) ahead_ms: Option<u64>,
    /// Whether the store fails over, and each time loses something.
    pub(crate) fails_over: Option<bool>,
    /// Whether holders stop before their lease runs out, which is all that a lease without windows has.
    pub(crate) strict: bool,
    /// Whether every message comes a second time, late: what a fence is for.
    pub(crate) repeats_everything: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            before_claim: |_, _| (),
            extend: protocol::extend,
            release: protocol::release,
            bump: protocol::bump,
            behind_ms_max: |setting| setting.guard_ms,
            answer: |lease| lease,
            ranges_know_the_life: true,
            raise_above_what_is_held: true,
            believes_failed_writes: false,
            edges: Edges::Inside,
            notices_forks: true,
            fixed: Fixed::default(),
        }
    }
}

impl Edges {
    /// What a holder takes its window for.
    pub(crate) fn seen(self, window: Range<u64>, unit_ms: u64) -> Range<u64> {
        let start = window.start - window.start % unit_ms;
        match self {
            Self::Inside => window,
            Self::Touching => start..window.end.next_multiple_of(unit_ms),
            Self::TrimmedMidUnit => start..window.end,
        }
    }

    /// From where it gives back, if `first_unused_ms` is the start of the first unit it has not used.
    pub(crate) fn given_back(self, first_unused_ms: u64, unit_ms: u64) -> u64 {
        match self {
            Self::Inside | Self::Touching => first_unused_ms,
            Self::TrimmedMidUnit => first_unused_ms.saturating_sub(unit_ms - 1),
        }
    }
}

/// A wrong rule.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
}

/// All of them.
pub(crate) fn all() -> Vec<Mutant> {
    let real = Rules::default();
    let calm = Fixed { fails_over: Some(false), ..Fixed::default() };
    let forgetful = Fixed { fails_over: Some(true), ..Fixed::default() };
    let seconds = Fixed { unit_ms: Some(1_000), ..calm };
    let mutant = |name, fixed, rules| Mutant { name, rules: Rules { fixed, ..rules } };
    vec![
        mutant(
            "a lease without windows",
            Fixed { strict: true, ..calm },
            Rules { before_claim: forget_floors, answer: without_bounds, ..real },
        ),
        mutant(
            "a release needs no fence",
            Fixed { repeats_everything: true, ..calm },
            Rules { release: release_unfenced, ..real },
        ),
        mutant("no bump after a failover", forgetful, Rules { bump: |_, _| (), ..real }),
        mutant("a renewal ignores the store's life", forgetful, Rules { extend: extend_across_lives, ..real }),
        mutant(
            "a bump leaves out `guard`",
            Fixed { ahead_ms: Some(300), ..forgetful },
            Rules { bump: bump_without_guard, ..real },
        ),
        mutant(
            "a store takes over whose clock is further behind than `guard`",
            forgetful,
            Rules { behind_ms_max: |setting| setting.guard_ms + setting.window_ms, ..real },
        ),
        mutant(
            "a bump leaves out `max_ahead`",
            Fixed { ahead_ms: Some(800), ..forgetful },
            Rules { bump: bump_without_ahead, ..real },
        ),
        mutant("ranges go on after a failover", forgetful, Rules { ranges_know_the_life: false, ..real }),
        mutant("a raise above the numbers in use only", forgetful, Rules { raise_above_what_is_held: false, ..real }),
        mutant("a write that failed is believed", calm, Rules { believes_failed_writes: true, ..real }),
        mutant(
            "a second is stamped that a window only touches",
            Fixed { ahead_ms: Some(800), ..seconds },
            Rules { edges: Edges::Touching, ..real },
        ),
        mutant("a trim in the middle of a second", seconds, Rules { edges: Edges::TrimmedMidUnit, ..real }),
        #[cfg(target_os = "linux")]
        mutant("a forked child does not notice", calm, Rules { notices_forks: false, ..real }),
    ]
}

/// Whoever comes after a holder stamps from now on, whatever was stamped before: the usual lease.
fn forget_floors(pool: &mut PoolRow, workers: &mut [WorkerRow]) {
    pool.floor_min_ms = 0;
    for row in workers {
        row.floor_ms = 0;
    }
}

/// The holder may stamp whatever its clock says, until it believes its lease has run out.
fn without_bounds(mut lease: Lease) -> Lease {
    lease.window = 0..protocol::TIME_MAX_MS;
    lease
}

fn release_unfenced(
    pool: &PoolRow,
    row: &mut WorkerRow,
    lease: &Lease,
    first_unused_ms: u64,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<u64, StoreError> {
    let token = row.holder.unwrap_or(lease.fence.token);
    let fence = Fence { inc: row.inc, epoch: row.epoch, token };
    row.holder = Some(token);
    let mut lease = lease.clone();
    lease.fence = fence;
    let life_of_row = PoolRow { inc: fence.inc, ..pool.clone() };
    protocol::release(&life_of_row, row, &lease, first_unused_ms, terms, now_ms)
}

fn extend_across_lives(
    pool: &mut PoolRow,
    row: &mut WorkerRow,
    lease: &Lease,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<Lease, StoreError> {
    let inc = std::mem::replace(&mut pool.inc, lease.fence.inc);
    let longer = protocol::extend(pool, row, lease, holder, terms, now_ms);
    pool.inc = inc;
    longer
}

/// As if the clock of a store that takes over were never behind.
fn bump_without_guard(pool: &mut PoolRow, now_ms: u64) {
    let guard_ms = std::mem::take(&mut pool.guard_ms);
    protocol::bump(pool, now_ms);
    pool.guard_ms = guard_ms;
}

/// As if a window never started after the store's now.
fn bump_without_ahead(pool: &mut PoolRow, now_ms: u64) {
    let ahead_max_ms = std::mem::take(&mut pool.ahead_max_ms);
    protocol::bump(pool, now_ms);
    pool.ahead_max_ms = ahead_max_ms;
}

/// The signature of [`protocol::extend`].
type Extend = fn(&mut PoolRow, &mut WorkerRow, &Lease, &Holder, &LeaseTerms, u64) -> Result<Lease, StoreError>;
/// The signature of [`protocol::release`].
type Release = fn(&PoolRow, &mut WorkerRow, &Lease, u64, &LeaseTerms, u64) -> Result<u64, StoreError>;
