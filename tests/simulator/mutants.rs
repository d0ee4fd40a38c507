//! Rules that look right and are wrong. The simulator must find the duplicate that each of them makes: a search that finds
//! nothing proves something only if it can find.
//!
//! Each is made here, around the real functions; the library has no switch for any of them.

use mintage_core::{
    Fence, Holder, Lease, LeaseTerms, StoreError,
    protocol::{self, PoolRow, WorkerRow},
};

/// What the store and the processes of a simulation do differently from the real ones: by default nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Runs on what was loaded before a worker id is chosen.
    pub(crate) before_claim: fn(&mut PoolRow, &mut [WorkerRow]),
    pub(crate) extend: Extend,
    pub(crate) release: Release,
    pub(crate) bump: fn(&mut PoolRow, u64),
    /// Runs on every lease before it leaves the store.
    pub(crate) answer: fn(Lease) -> Lease,
    /// Whether a counter stops after a failover until it was raised.
    pub(crate) ranges_know_the_life: bool,
    /// Whether the operator raises a counter above what processes hold, and not only above what they have minted.
    pub(crate) raise_above_what_is_held: bool,
    /// Whether a holder gives back, and its successor begins, in the middle of a time unit.
    pub(crate) trim_mid_unit: bool,
    /// Whether holders stop before their lease runs out, which is all that a lease without windows has.
    pub(crate) strict: bool,
    /// Whether every message comes a second time, late: what a fence is for.
    pub(crate) repeats_everything: bool,
    /// Whether the store fails over, and always loses as much as it can. `None` leaves both to chance.
    pub(crate) fails_over: Option<bool>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            before_claim: |_, _| (),
            extend: protocol::extend,
            release: protocol::release,
            bump: protocol::bump,
            answer: |lease| lease,
            ranges_know_the_life: true,
            raise_above_what_is_held: true,
            trim_mid_unit: false,
            strict: false,
            repeats_everything: false,
            fails_over: None,
        }
    }
}

/// A wrong rule.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    /// The one time unit in which it shows, if it is not all of them.
    pub(crate) unit_ms: Option<u64>,
    /// Where the search begins.
    pub(crate) first_seed: u64,
}

/// All of them.
pub(crate) fn all() -> Vec<Mutant> {
    let real = Rules::default();
    // Each where its fault lies: a search by chance would take ten times as long.
    let calm = Rules { fails_over: Some(false), ..real };
    let forgetful = Rules { fails_over: Some(true), ..real };
    let mutant = |name, rules| Mutant { name, rules, unit_ms: None, first_seed: 1 };
    vec![
        mutant(
            "a lease without windows",
            Rules { before_claim: forget_floors, answer: without_bounds, strict: true, ..calm },
        ),
        mutant("a release needs no fence", Rules { release: release_unfenced, repeats_everything: true, ..calm }),
        // One run in five hundred shows it, so the search begins near one that does. The model (D3) finds it in ten steps.
        Mutant {
            first_seed: 480,
            ..mutant("a renewal ignores the store's life", Rules { extend: extend_across_lives, ..forgetful })
        },
        mutant("no bump after a failover", Rules { bump: |_, _| (), ..forgetful }),
        mutant("ranges go on after a failover", Rules { ranges_know_the_life: false, ..forgetful }),
        mutant("a raise above the numbers in use only", Rules { raise_above_what_is_held: false, ..forgetful }),
        Mutant {
            unit_ms: Some(1_000),
            ..mutant("a trim in the middle of a second", Rules { trim_mid_unit: true, ..calm })
        },
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

/// The signature of [`protocol::extend`].
type Extend = fn(&mut PoolRow, &mut WorkerRow, &Lease, &Holder, &LeaseTerms, u64) -> Result<Lease, StoreError>;
/// The signature of [`protocol::release`].
type Release = fn(&PoolRow, &mut WorkerRow, &Lease, u64, &LeaseTerms, u64) -> Result<u64, StoreError>;
