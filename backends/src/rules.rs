//! What every store of this crate decides in the same way, beside the protocol: regions, repeats of a request, formats.
//!
//! The invariant of [`Answer`]: numbers that a key can ask for again are never given back.

use std::num::NonZeroU32;

use crate::seen::SeenPool;
use mintage_core::{
    Clock, Format, Grant, IdRange, Sequence, SequenceRow, StoreError, StoreErrorKind, TokenRow, WorkerPool,
    protocol::{self, PoolRow, TIME_MAX_MS, WorkerRow},
};

/// How long the answer to an idempotency key is kept: a day covers any retry, and a client that comes back later than that
/// costs a gap.
pub(crate) const ANSWERS_KEPT_MS: u64 = 24 * 3600 * 1000;

/// What a key was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "file", feature = "cells"),
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(crate) struct Answer {
    /// How many numbers were asked for: at the end of a sequence fewer came.
    pub(crate) asked: u32,
    /// First number.
    pub(crate) start: u64,
    /// One past the last number.
    pub(crate) end: u64,
    /// The sequence's version just after the cut.
    pub(crate) version: u64,
    /// When, Unix ms.
    pub(crate) made_ms: u64,
}

/// The clock of an embedded store.
///
/// # Errors
/// `Refused` when it shows a time that no window may reach: every floor would be poisoned with it.
pub(crate) fn now_ms(clock: &dyn Clock) -> Result<u64, StoreError> {
    let now_ms = clock.unix_ms();
    if now_ms > TIME_MAX_MS {
        return Err(refused(format!("the clock shows {now_ms} ms since 1970, after the year 10889: set it")));
    }
    Ok(now_ms)
}

/// Whether a store may have forgotten a pool or sequence that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    /// It was never there, as far as numbers go. What was granted from a pool that had been forgotten was granted before that time,
    /// Unix ms: when a person said that the store is complete, 0 if nobody had to.
    Complete { since_ms: u64 },
    /// It may have been there: the store lives another life than the one in which it was known to be complete.
    Unsure,
}

impl Records {
    pub(crate) fn of(complete: bool, since_ms: u64) -> Self {
        let since_ms = since_ms.min(TIME_MAX_MS);
        if complete { Self::Complete { since_ms } } else { Self::Unsure }
    }
}

/// The row of a region that is not there. `others` are the rows of the pool's other regions.
///
/// Where the store may have forgotten it, its windows begin above all that can have been granted, with the limits of `pool`. So it
/// is for a while after somebody said that the store is complete: that no number is in use says nothing about worker ids.
///
/// # Errors
/// `RolledBack` when the pool is known to have been used; `Refused` for a senseless pool or a block that another region owns.
pub(crate) fn new_region<'a>(
    pool: &WorkerPool,
    others: impl IntoIterator<Item = (&'a str, &'a PoolRow)>,
    memory: Records,
    seen: SeenPool,
    now_ms: u64,
) -> Result<PoolRow, StoreError> {
    if memory != Records::Unsure && (pool.known || seen != SeenPool::default()) {
        return Err(protocol::lost_pool(pool));
    }
    let mut row = PoolRow::new(pool)?;
    for (region, other) in others {
        let (start, end) = (other.block_start, other.block_start + other.block_len);
        if start < pool.block.end && pool.block.start < end {
            return Err(refused(format!(
                "pool {}: region {:?} asks for worker ids {}..{}, of which region {region:?} owns {start}..{end}: give each region \
                 a block of its own",
                pool.name, pool.region, pool.block.start, pool.block.end
            )));
        }
    }
    match memory {
        Records::Unsure => seen.bump(&mut row, now_ms),
        Records::Complete { since_ms } if since_ms > 0 => protocol::bump(&mut row, since_ms),
        Records::Complete { .. } => {}
    }
    Ok(row)
}

/// What a store forgot was granted after what it still knows. So a clock that is behind even that says nothing about how far the
/// forgotten windows may reach, and a bump that counts on it could begin below their ends. For stores without a clock.
///
/// # Errors
/// `Refused`, which says what to do.
pub(crate) fn not_behind(pool: &str, row: &PoolRow, now_ms: u64) -> Result<(), StoreError> {
    if now_ms.saturating_add(row.guard_ms) >= row.granted_at_ms {
        return Ok(());
    }
    Err(refused(format!(
        "pool {pool}: a bump goes by this machine's clock, which shows {now_ms} ms since 1970; the store was in use at {}, {} ms \
         later: set the clock, then try again. Nothing was changed",
        row.granted_at_ms,
        row.granted_at_ms - now_ms
    )))
}

/// A sequence that is not there is not made by itself where the store may have forgotten it.
///
/// # Errors
/// `RolledBack`, which says what to do.
pub(crate) fn may_be_made(sequence: &Sequence, memory: Records) -> Result<(), StoreError> {
    if memory != Records::Unsure {
        return Ok(());
    }
    let name = &sequence.name;
    Err(StoreError::new(
        StoreErrorKind::RolledBack,
        format!(
            "sequence {name} is not in the store, and the store may have forgotten it: it was failed over, restarted or restored \
             since it was known to be complete. If numbers of {name} are in use or held by a running process, raise it above them \
             (`mintage sequences raise {name} N`). If no such numbers of any sequence that `mintage sequences list` does not show \
             exist, say so once (`mintage sequences raise '*'`): then new sequences are made again"
        ),
    ))
}

/// A sequence that was stopped, because the store may have forgotten ranges of it.
pub(crate) fn stopped(row: &SequenceRow) -> StoreError {
    StoreError::new(
        StoreErrorKind::RolledBack,
        format!(
            "sequence {} stands at {}, and was stopped by `mintage store bump`: the store may have forgotten ranges. Raise the \
             sequence above every number in use or held by a running process (`mintage sequences raise`), then it goes on",
            row.name, row.next
        ),
    )
}

/// Nobody has claimed anything from this pool.
pub(crate) fn no_pool(pool: &WorkerPool) -> StoreError {
    refused(format!(
        "the store has no pool {} for region {:?}: check both names; a pool is made by its first claim",
        pool.name, pool.region
    ))
}

/// Bars a worker id of the pool, claimed before or not.
///
/// # Errors
/// `Refused` when the block has no such id.
pub(crate) fn revoke(
    pool: &WorkerPool,
    row: &PoolRow,
    worker: u32,
    known: Option<WorkerRow>,
) -> Result<WorkerRow, StoreError> {
    in_block(pool, row, worker)?;
    let mut barred = known.unwrap_or_else(|| WorkerRow::unused(worker));
    barred.revoked = true;
    Ok(barred)
}

/// Takes a worker id from its holder and lifts a bar. `None` where it was never claimed or barred: then there is nothing to
/// write.
///
/// # Errors
/// `Refused` when the block has no such id.
pub(crate) fn free(
    pool: &WorkerPool,
    row: &PoolRow,
    worker: u32,
    known: Option<WorkerRow>,
) -> Result<Option<WorkerRow>, StoreError> {
    in_block(pool, row, worker)?;
    Ok(known.map(|mut freed| {
        freed.holder = None;
        freed.expires_ms = 0;
        freed.free_after_ms = 0;
        freed.revoked = false;
        freed
    }))
}

/// Brings the row of a worker id that was deleted by hand up to a grant of its history: a window that begins above its floor
/// overlaps none of before, and a claim counted above its epoch is none of before.
pub(crate) fn remember(row: &mut WorkerRow, grant: &Grant) {
    if (grant.inc, grant.epoch) > (row.inc, row.epoch) {
        row.instance.clone_from(&grant.instance);
        row.start_ms = grant.window.start;
    }
    row.inc = row.inc.max(grant.inc);
    row.epoch = row.epoch.max(grant.epoch);
    row.floor_ms = row.floor_ms.max(grant.window.end);
}

fn in_block(pool: &WorkerPool, row: &PoolRow, worker: u32) -> Result<(), StoreError> {
    let block = row.block_start..row.block_start + row.block_len;
    if block.contains(&worker) {
        return Ok(());
    }
    Err(refused(format!("pool {} has no worker id {worker}: its ids are {}..{}", pool.name, block.start, block.end)))
}

/// Cuts a range off `row`, or repeats the range that the request's key has got already; says whether it is a new one.
///
/// # Errors
/// As [`protocol::allocate`]; `Refused` when the key was used for another count.
pub(crate) fn allocate(
    row: &mut SequenceRow,
    sequence: &Sequence,
    len: NonZeroU32,
    answer: Option<&Answer>,
) -> Result<(IdRange, bool), StoreError> {
    let cut = protocol::allocate(row, sequence, len.get());
    let Some(answer) = answer else { return cut.map(|range| (range, true)) };
    match cut {
        // A repeat needs no number, so an end of the sequence does not concern it. Everything else does.
        Err(error) if error.kind() != StoreErrorKind::Spent => Err(error),
        _ if answer.asked != len.get() => Err(refused(format!(
            "sequence {}: this idempotency key was answered for {} numbers and now comes with {len}: use a new key for a new request",
            sequence.name, answer.asked
        ))),
        _ => Ok((IdRange::new(sequence.name.clone(), answer.start, answer.end, answer.version), false)),
    }
}

/// The text under which a format is kept.
///
/// # Errors
/// `Refused` for a format that could not be read back: its entity would be unusable for ever.
pub(crate) fn format_text(entity: &str, format: &Format) -> Result<String, StoreError> {
    let text = format.to_string();
    if text.parse().is_ok_and(|read: Format| read == *format) {
        return Ok(text);
    }
    Err(refused(format!("entities.{entity}: its format names no scheme, so it could not be read back: use Format::of")))
}

/// The entity has a token of this id or hash.
pub(crate) fn token_is_there(row: &TokenRow) -> StoreError {
    StoreError::new(
        StoreErrorKind::Conflict,
        format!("entities.{}: there is a token of this id or hash already: issue another", row.entity),
    )
}

pub(crate) fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, message)
}

#[cfg(any(feature = "cells", feature = "file", feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn corrupt(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}

#[cfg(any(feature = "cells", feature = "file", feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn unavailable(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

#[cfg(any(feature = "cells", feature = "file", feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn rolled_back(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::RolledBack, message)
}
