//! The rules that make ids unique, written once: window leases and ranges as pure functions over the rows a store keeps.
//!
//! **Where could a duplicate come from?** From here, if anywhere. A store loads the rows, calls one of these functions and
//! writes the result back, all in one transaction, and answers only after the commit. It decides nothing itself.
//!
//! The argument, in three lines:
//!
//! 1. A worker's `floor_ms` never goes down, except by the release of the current fence, to a value above all it used.
//! 2. A claim or renewal grants `[a, b)` where everything beyond what its holder had already lies in `[old floor, new floor)`.
//! 3. A minter stamps only inside its own window, and within it strictly upward.
//!
//! So two ids with the same worker and time unit come from one minter, and differ in their sequence. No clock, pause bound or
//! delivery assumption appears. `now_ms` is the store's clock and serves freshness and liveness only.
//!
//! A store that may lose its last writes is declared so by [`bump`]: every window it can have granted ends at or below the
//! new `floor_min_ms`, and every fence of before is stale.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    Fence, Grant, Holder, IdRange, Lease, LeaseRow, LeaseTerms, PoolLimits, RANGE_END, Sequence, SequenceRow,
    StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
};

/// How long grants are kept as history: 400 days, so that a year-old complaint can still be answered.
pub const HISTORY_KEPT_MS: u64 = 400 * 24 * 3600 * 1000;

/// Largest time a window may reach, Unix ms: the year 10889, 2^48 ms. A store clock beyond it is broken.
pub const TIME_MAX_MS: u64 = 1 << 48;

/// Stands for every sequence that is not in a store. No sequence has this name.
///
/// A store that can forget keeps under it in which of its lives it was known to be complete: then a pool or sequence that is not
/// there was never there. In another life it may be one that was forgotten.
pub const UNLISTED: &str = "*";

/// What a store keeps of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// First worker id of the block.
    pub block_start: u32,
    /// How many worker ids the block has.
    pub block_len: u32,
    /// Which life of the store this is. Counts up with every [`bump`].
    pub inc: u64,
    /// No window may start below this, Unix ms.
    pub floor_min_ms: u64,
    /// Longest window.
    pub window_max_ms: u64,
    /// How far after the store's now a window may start.
    pub ahead_max_ms: u64,
    /// How far a successor's clock may be behind this store's.
    pub guard_ms: u64,
    /// The latest `now_ms` with which anything was granted.
    pub granted_at_ms: u64,
}

/// What a store keeps of a worker id. Made at its first claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The worker id.
    pub worker: u32,
    /// The life of the store in which it was last claimed.
    pub inc: u64,
    /// Counts its claims.
    pub epoch: u64,
    /// The holder's token; `None` when free.
    pub holder: Option<u128>,
    /// Who, for people. Stays after a release.
    pub instance: String,
    /// Start of the last claim's window, Unix ms. Nobody's word but the store's: a release may lower the floor down to it.
    pub start_ms: u64,
    /// End of all that was granted, Unix ms. The high-water mark.
    pub floor_ms: u64,
    /// When others may claim it.
    pub expires_ms: u64,
    /// Until when it rests after a release.
    pub free_after_ms: u64,
    /// Barred by an operator.
    pub revoked: bool,
    /// The holder's clock at its last call.
    pub holder_clock_ms: u64,
    /// The store's clock at that call.
    pub renewed_ms: u64,
}

impl PoolRow {
    /// The row of a new pool.
    ///
    /// # Errors
    /// `Refused` for an empty block or limits that make no sense.
    pub fn new(pool: &WorkerPool) -> Result<Self, StoreError> {
        if pool.block.is_empty() {
            return Err(refused(format!("pool {}: its block of worker ids is empty", pool.name)));
        }
        let PoolLimits { window_max_ms, ahead_max_ms, guard_ms } = pool.limits;
        if window_max_ms == 0 || [window_max_ms, ahead_max_ms, guard_ms].iter().any(|limit| *limit > HISTORY_KEPT_MS) {
            return Err(refused(format!(
                "pool {}: window, max_ahead and guard lie between 1 ms and 400 days",
                pool.name
            )));
        }
        Ok(Self {
            block_start: pool.block.start,
            block_len: pool.block.end - pool.block.start,
            inc: 1,
            floor_min_ms: 0,
            window_max_ms,
            ahead_max_ms,
            guard_ms,
            granted_at_ms: 0,
        })
    }

    /// Refuses a pool whose block differs from the recorded one, a guard above the recorded one, which a bump would not keep, and
    /// terms above the recorded limits.
    ///
    /// # Errors
    /// `Refused`, naming the setting.
    pub fn admits(&self, pool: &WorkerPool, terms: &LeaseTerms) -> Result<(), StoreError> {
        let block = self.block_start..self.block_start + self.block_len;
        if block != pool.block {
            return Err(refused(format!(
                "pool {}: the store has worker ids {}..{} for it and the config {}..{}; windows of two blocks could overlap: \
                 restore the old block; or stop every process of this pool, wait for {} ms, and keep the pool and its entities in \
                 a new store",
                pool.name,
                block.start,
                block.end,
                pool.block.start,
                pool.block.end,
                self.reach_ms()
            )));
        }
        let (asked, limit) = (pool.limits.guard_ms, self.guard_ms);
        if asked > limit {
            return Err(self.above_limit(&pool.name, "guard", asked, limit));
        }
        self.admits_terms(&pool.name, terms)
    }

    fn above_limit(&self, pool: &str, name: &str, asked: u64, limit: u64) -> StoreError {
        refused(format!(
            "pool {pool}: lease.{name} of {asked} ms is more than the {limit} ms fixed when the pool was made: lower it to that; \
             or stop every process of this pool, wait for {} ms, and keep the pool and its entities in a new store",
            self.reach_ms()
        ))
    }

    /// How far after the store's now anything granted by this pool can reach.
    fn reach_ms(&self) -> u64 {
        self.window_max_ms + self.ahead_max_ms + self.guard_ms
    }

    /// Refuses terms above the recorded limits: a bump counts on no window reaching further.
    fn admits_terms(&self, pool: &str, terms: &LeaseTerms) -> Result<(), StoreError> {
        for (name, asked, limit) in
            [("window", terms.window_ms, self.window_max_ms), ("max_ahead", terms.max_ahead_ms, self.ahead_max_ms)]
        {
            if asked > limit {
                return Err(self.above_limit(pool, name, asked, limit));
            }
        }
        if terms.window_ms == 0 {
            return Err(refused(format!("pool {pool}: lease.window is 0: no id fits in it")));
        }
        Ok(())
    }
}

impl WorkerRow {
    /// A worker id nobody has claimed yet.
    pub fn unused(worker: u32) -> Self {
        Self {
            worker,
            inc: 0,
            epoch: 0,
            holder: None,
            instance: String::new(),
            start_ms: 0,
            floor_ms: 0,
            expires_ms: 0,
            free_after_ms: 0,
            revoked: false,
            holder_clock_ms: 0,
            renewed_ms: 0,
        }
    }

    /// For people.
    pub fn describe(&self) -> LeaseRow {
        LeaseRow {
            worker: self.worker,
            instance: self.instance.clone(),
            held: self.holder.is_some(),
            expires_ms: self.expires_ms,
            floor_ms: self.floor_ms,
            epoch: self.epoch,
            revoked: self.revoked,
            clock_offset_ms: i64::try_from(self.holder_clock_ms)
                .unwrap_or(i64::MAX)
                .saturating_sub(i64::try_from(self.renewed_ms).unwrap_or(i64::MAX)),
        }
    }

    /// When this id can be claimed, on the store's clock; `None` for never.
    fn free_at_ms(&self, pool: &PoolRow, holder: &Holder, terms: &LeaseTerms) -> Option<u64> {
        if self.revoked {
            return None;
        }
        let ours = holder.previous.is_some() && self.holder == holder.previous;
        let held_until = if self.holder.is_none() || ours { 0 } else { self.expires_ms };
        let floor = self.floor_ms.max(pool.floor_min_ms);
        Some(held_until.max(self.free_after_ms).max(floor.saturating_sub(terms.max_ahead_ms)))
    }
}

/// Which worker id a claim takes: the one wanted, else an idle one before one whose last window is not over, else the lowest.
///
/// `rows` are all the workers claimed so far, in any order; ids of the block without a row count as unused.
///
/// # Errors
/// `NoFreeWorker` with the time from which one is free; `Conflict` where the id insisted on is held; `Refused` where it lies
/// outside the block.
pub fn choose(
    pool: &PoolRow,
    rows: &[WorkerRow],
    which: WorkerChoice,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<u32, StoreError> {
    let block = pool.block_start..pool.block_start + pool.block_len;
    choose_among(pool, rows, lowest_unused(&block, rows), which, holder, terms, now_ms)
}

/// [`choose`] for a store with too many rows to load: it loads those that can win, and finds out by itself which id of the
/// block is the lowest without a row.
///
/// `candidates` must hold the row of the id that `which` names, the rows whose holder is `holder.previous`, of the free rows
/// the first by (floor after now, worker id), and the row that is free earliest, as far as each exists. A row is free from
/// the latest of: its expiry, unless it has no holder or that is `holder.previous`; `free_after_ms`; and the higher of its
/// and the pool's floor less `max_ahead_ms`. Revoked rows never are. A wrong selection costs a claim, never a duplicate.
///
/// # Errors
/// As [`choose`].
pub fn choose_among(
    pool: &PoolRow,
    candidates: &[WorkerRow],
    unused: Option<u32>,
    which: WorkerChoice,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<u32, StoreError> {
    let block = pool.block_start..pool.block_start + pool.block_len;
    let rows = candidates;
    let row_of =
        |worker: u32| rows.iter().find(|row| row.worker == worker).cloned().unwrap_or(WorkerRow::unused(worker));
    if let WorkerChoice::Exactly(worker) | WorkerChoice::Prefer(worker) = which {
        if !block.contains(&worker) {
            return Err(refused(format!(
                "worker id {worker} lies outside the block {}..{} of this pool",
                block.start, block.end
            )));
        }
        let row = row_of(worker);
        let free_at = row.free_at_ms(pool, holder, terms);
        if free_at.is_some_and(|free_at| free_at <= now_ms) {
            return Ok(worker);
        }
        if matches!(which, WorkerChoice::Exactly(_)) {
            let until = free_at.map_or("it is revoked: release it or choose another".to_owned(), |free_at| {
                format!("free in {} ms at the earliest: wait, or stop the other holder", free_at - now_ms)
            });
            let error = StoreError::new(
                StoreErrorKind::Conflict,
                format!("worker id {worker} is held or resting (last holder {:?}); {until}", row.instance),
            );
            return Err(match free_at {
                Some(free_at) => error.until(free_at),
                None => error,
            });
        }
    }
    // A process that names its previous token gets its own id back before any other.
    if holder.previous.is_some() {
        let own = rows.iter().find(|row| {
            row.holder == holder.previous
                && block.contains(&row.worker)
                && row.free_at_ms(pool, holder, terms).is_some_and(|free_at| free_at <= now_ms)
        });
        if let Some(own) = own {
            return Ok(own.worker);
        }
    }
    let floor_min_passed = pool.floor_min_ms.saturating_sub(terms.max_ahead_ms) <= now_ms;
    let best_row = rows
        .iter()
        .filter(|row| block.contains(&row.worker))
        .filter(|row| row.free_at_ms(pool, holder, terms).is_some_and(|free_at| free_at <= now_ms))
        .min_by_key(|row| (row.floor_ms.max(pool.floor_min_ms) > now_ms, row.worker));
    let winner = match (best_row, unused.filter(|_| floor_min_passed)) {
        (Some(row), Some(unused)) => {
            let row_waits = row.floor_ms.max(pool.floor_min_ms) > now_ms;
            let unused_waits = pool.floor_min_ms > now_ms;
            Some(if (row_waits, row.worker) < (unused_waits, unused) { row.worker } else { unused })
        }
        (Some(row), None) => Some(row.worker),
        (None, unused) => unused,
    };
    winner.ok_or_else(|| {
        let mut free_at: Vec<u64> = rows
            .iter()
            .filter(|row| block.contains(&row.worker))
            .filter_map(|row| row.free_at_ms(pool, holder, terms))
            .collect();
        if unused.is_some() {
            free_at.push(pool.floor_min_ms.saturating_sub(terms.max_ahead_ms));
        }
        let earliest = free_at.into_iter().min();
        let until = earliest.map_or("all of them are revoked".to_owned(), |earliest| {
            format!("the first is free in {} ms", earliest.saturating_sub(now_ms))
        });
        let message = if floor_min_passed {
            format!(
                "all {} worker ids of the pool are held or resting; {until}. Wait, stop a holder, or widen the worker field",
                pool.block_len
            )
        } else {
            format!(
                "the worker ids of the pool rest, because its store may have forgotten what it granted (`mintage store bump`, a \
                 failover, or a pool that was not there); {until}. Wait, then claim again"
            )
        };
        let error = StoreError::new(StoreErrorKind::NoFreeWorker, message);
        match earliest { Some(earliest) => error.until(earliest), None => error }
    })
}

/// The lowest id of the block that has no row.
fn lowest_unused(block: &Range<u32>, rows: &[WorkerRow]) -> Option<u32> {
    let mut taken: Vec<u32> = rows.iter().map(|row| row.worker).filter(|worker| block.contains(worker)).collect();
    taken.sort_unstable();
    let mut candidate = block.start;
    for worker in taken {
        if worker > candidate {
            break;
        }
        candidate = worker + 1;
    }
    block.contains(&candidate).then_some(candidate)
}

/// CLAIM: grants `row` a window of its own that starts at or after everything granted before.
///
/// The row must be that of the id which [`choose`] named in the same transaction.
///
/// # Errors
/// `Conflict` when it is another one, which is not free; `Refused` when the window would begin too late to be of use to the
/// holder; `Corrupt` when the store's clock or the row is beyond reason.
pub fn claim(
    pool: &mut PoolRow,
    row: &mut WorkerRow,
    whole: &WorkerPool,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<(Lease, Grant), StoreError> {
    if row.free_at_ms(pool, holder, terms).is_none_or(|free_at| free_at > now_ms) {
        return Err(StoreError::new(
            StoreErrorKind::Conflict,
            format!("worker id {} is held or resting: the choice was made from other rows, ask again", row.worker),
        ));
    }
    let start = row.floor_ms.max(pool.floor_min_ms).max(now_ms);
    let end = start.saturating_add(terms.window_ms);
    if end > TIME_MAX_MS {
        return Err(corrupt(format!(
            "worker id {}: its window would end after the year 10889: check the store's clock",
            row.worker
        )));
    }
    if holder.start_max_ms.is_some_and(|start_max_ms| start > start_max_ms) {
        return Err(clocks_apart(whole, holder, start, now_ms));
    }
    row.epoch += 1;
    row.inc = pool.inc;
    row.holder = Some(holder.token);
    row.instance.clone_from(&holder.instance);
    row.start_ms = start;
    row.floor_ms = end;
    row.free_after_ms = 0;
    touch(pool, row, holder, terms, now_ms);
    let fence = Fence { inc: row.inc, epoch: row.epoch, token: holder.token };
    let lease = Lease {
        pool: whole.name.clone(),
        region: whole.region.clone(),
        worker: row.worker,
        fence,
        window: start..end,
        store_now_ms: now_ms,
    };
    let grant = Grant {
        worker: row.worker,
        inc: row.inc,
        epoch: row.epoch,
        instance: row.instance.clone(),
        window: start..end,
    };
    Ok((lease, grant))
}

/// EXTEND: lets the current holder's window grow to `now + window`. Idempotent in meaning: the window never shrinks.
///
/// # Errors
/// `Fenced` when the fence is stale or the worker is revoked; `Refused` for terms above the pool's limits.
pub fn extend(
    pool: &mut PoolRow,
    row: &mut WorkerRow,
    lease: &Lease,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<Lease, StoreError> {
    check_fence(pool, Some(row), lease)?;
    if row.revoked {
        return Err(StoreError::new(
            StoreErrorKind::Fenced,
            format!("worker id {} was revoked by an operator: a new claim takes another", row.worker),
        ));
    }
    pool.admits_terms(&lease.pool, terms)?;
    row.floor_ms = row.floor_ms.max(now_ms.saturating_add(terms.window_ms).min(TIME_MAX_MS));
    touch(pool, row, holder, terms, now_ms);
    Ok(Lease { window: row.start_ms..row.floor_ms, store_now_ms: now_ms, ..lease.clone() })
}

/// RELEASE: frees the id and lowers its floor to what the holder has really used. Returns where its grant now ends.
///
/// # Errors
/// `Fenced` when the fence is stale: then nothing changes, or a delayed release would lower a later holder's floor.
pub fn release(
    pool: &PoolRow,
    row: &mut WorkerRow,
    lease: &Lease,
    first_unused_ms: u64,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<u64, StoreError> {
    check_fence(pool, Some(row), lease)?;
    // Never below the start of the window: what lies before belongs to earlier holders.
    row.floor_ms = row.floor_ms.min(first_unused_ms.max(row.start_ms));
    row.holder = None;
    row.expires_ms = 0;
    row.free_after_ms = now_ms.saturating_add(terms.quarantine_ms);
    Ok(row.floor_ms)
}

/// BUMP: the store may have forgotten grants. All of them end at or below the new floor, and every earlier fence is stale.
pub fn bump(pool: &mut PoolRow, now_ms: u64) {
    let latest_lost = now_ms.max(pool.granted_at_ms) + pool.reach_ms();
    pool.floor_min_ms = pool.floor_min_ms.max(latest_lost);
    pool.inc += 1;
}

/// The pool's records are gone though ids were minted from it.
pub fn lost_pool(pool: &WorkerPool) -> StoreError {
    StoreError::new(
        StoreErrorKind::RolledBack,
        format!(
            "the store has no record of pool {} although ids were minted from it: it was emptied or restored. Restore the \
             right store, or, if it is lost, keep the pool and its entities in a new store once {} ms have passed since its last use",
            pool.name,
            pool.limits.window_max_ms + pool.limits.ahead_max_ms + pool.limits.guard_ms
        ),
    )
}

/// The window would begin when the holder's clock is far from there: one of the two clocks is wrong.
fn clocks_apart(pool: &WorkerPool, holder: &Holder, start: u64, now_ms: u64) -> StoreError {
    refused(format!(
        "pool {}: the store's clock shows {now_ms} ms since 1970 and this machine's {}, {} ms less: the window would begin at \
         {start}, and nothing could be minted before. Nothing was claimed: set the clock that is wrong (that of a store which has \
         none, such as etcd, is that of most holders: see `mintage workers`)",
        pool.name,
        holder.clock_ms,
        now_ms.saturating_sub(holder.clock_ms)
    ))
}

/// The error of a lease whose pool or worker has no row.
pub fn lost_worker(lease: &Lease) -> StoreError {
    StoreError::new(
        StoreErrorKind::Fenced,
        format!("the store no longer knows worker id {} of pool {}: a new claim is needed", lease.worker, lease.pool),
    )
}

fn check_fence(pool: &PoolRow, row: Option<&WorkerRow>, lease: &Lease) -> Result<(), StoreError> {
    let current = row.is_some_and(|row| {
        row.inc == lease.fence.inc && row.epoch == lease.fence.epoch && row.holder == Some(lease.fence.token)
    });
    if current && pool.inc == lease.fence.inc {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Fenced,
        format!(
            "the lease on worker id {} is no longer ours (claim {} of it): another holder came after, or the store was bumped",
            lease.worker, lease.fence.epoch
        ),
    ))
}

fn touch(pool: &mut PoolRow, row: &mut WorkerRow, holder: &Holder, terms: &LeaseTerms, now_ms: u64) {
    row.expires_ms = now_ms.saturating_add(terms.ttl_ms);
    row.holder_clock_ms = holder.clock_ms;
    row.renewed_ms = now_ms;
    pool.granted_at_ms = pool.granted_at_ms.max(now_ms);
}

/// The row of a new sequence.
///
/// # Errors
/// `Refused` for a start at or above 2^63, and for the name `*`: see [`UNLISTED`].
pub fn new_sequence(sequence: &Sequence) -> Result<SequenceRow, StoreError> {
    not_unlisted(&sequence.name)?;
    if sequence.start >= RANGE_END {
        return Err(refused(format!(
            "sequence {}: start {} is above 9223372036854775807",
            sequence.name, sequence.start
        )));
    }
    Ok(SequenceRow { name: sequence.name.clone(), next: sequence.start, version: 0 })
}

/// The row of a sequence that the store may have forgotten, made by somebody who knows where it may go on: no range of before
/// looks like one of it.
///
/// # Errors
/// As [`new_sequence`].
pub fn restored_sequence(sequence: &Sequence) -> Result<SequenceRow, StoreError> {
    let mut row = new_sequence(sequence)?;
    row.version = raised(row.version);
    Ok(row)
}

fn not_unlisted(name: &str) -> Result<(), StoreError> {
    if name == UNLISTED {
        return Err(refused(
            "no sequence is named \"*\": it stands for those that are not there. Choose another name".to_owned(),
        ));
    }
    Ok(())
}

/// Cuts the next `len` numbers off a sequence; fewer only at its end.
///
/// # Errors
/// `RolledBack` when the row stands below what the caller has been given already; `Spent` at the end; `Corrupt`; `Refused` for
/// the name `*`.
pub fn allocate(row: &mut SequenceRow, sequence: &Sequence, len: u32) -> Result<IdRange, StoreError> {
    not_unlisted(&row.name)?;
    if row.next > RANGE_END {
        return Err(corrupt(format!("sequence {}: its next number is above 2^63: restore the store", row.name)));
    }
    if row.next < sequence.floor {
        return Err(StoreError::new(
            StoreErrorKind::RolledBack,
            format!(
                "sequence {} stands at {} in the store, but {} was handed out already: the store was emptied or restored. \
                 Raise the sequence above every number in use or held by a running process, then start again",
                row.name,
                row.next,
                sequence.floor - 1
            ),
        ));
    }
    let count = u64::from(len).min(RANGE_END - row.next);
    if count == 0 {
        return Err(StoreError::new(
            StoreErrorKind::Spent,
            format!("sequence {} has reached 9223372036854775807: plan a new one", row.name),
        ));
    }
    let start = row.next;
    row.next += count;
    row.version += 1;
    Ok(IdRange::new(row.name.clone(), start, row.next, row.version))
}

/// Takes an unused tail back, if the row has not changed since it was cut. `false` leaves the row as it is.
pub fn give_back(row: &mut SequenceRow, tail: &IdRange) -> bool {
    if row.next != tail.end || row.version != tail.version || tail.start >= tail.end {
        return false;
    }
    row.next = tail.start;
    row.version += 1;
    true
}

/// Moves a sequence up to `floor`; never down. It counts as raised even where it stands above: whoever holds a range of before
/// drops it, and no tail of before is taken back, for both may hold numbers below `floor`.
///
/// # Errors
/// `Refused` above 2^63.
pub fn raise(row: &mut SequenceRow, floor: u64) -> Result<(), StoreError> {
    if floor > RANGE_END {
        return Err(refused(format!("sequence {}: {floor} is above 9223372036854775807", row.name)));
    }
    row.next = row.next.max(floor);
    row.version = raised(row.version);
    Ok(())
}

/// How often [`raise`] had been called for the sequence at that version. A range that was cut before a raise lies below it, and
/// its holder learns of the raise from the version of any later range or row.
pub fn raises(version: u64) -> u64 {
    version >> RAISE_BITS
}

/// A version's low bits count changes, the bits above them raises. After 2^32 ranges without one the count runs over: whoever
/// holds a range then drops it, which costs a gap.
const RAISE_BITS: u32 = 32;

/// The version after a raise: above `version`, and of one raise more as long as 63 bits have room for it.
fn raised(version: u64) -> u64 {
    let next = (raises(version) + 1) << RAISE_BITS;
    if next < RANGE_END { next } else { version + 1 }
}

/// The error of a sequence that is not in the store.
pub fn lost_sequence(sequence: &Sequence) -> StoreError {
    refused(format!(
        "the store has no sequence {}: it was deleted, or the store is another one. It is not made again by itself, because \
         its numbers would repeat: restore it with its next number above every number in use or held by a running process",
        sequence.name
    ))
}

fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, message)
}

fn corrupt(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}
