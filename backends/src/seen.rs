//! What a process was told by its store so far. A store that knows less has gone back in time: a backup was put in its place, or an
//! old primary answers again.
//!
//! The store's own mark, its life, does not show that: the old primary is still in the life in which it was left, and a copied
//! file has none. So this is compared whatever the life is.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mintage_core::{
    IdRange, Lease, SequenceRow, StoreError, StoreErrorKind,
    protocol::{self, PoolRow},
};

/// The most that a process knows of each pool and sequence of a store.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By pool and region.
    pools: HashMap<(String, String), SeenPool>,
    sequences: HashMap<String, SeenSequence>,
}

/// The most that was seen of a pool in a region; all 0 when nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenPool {
    /// Its highest life.
    pub(crate) inc: u64,
    /// The latest store time of a grant, Unix ms.
    pub(crate) granted_at_ms: u64,
}

/// The most that was seen of a sequence; all 0 when nothing was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenSequence {
    version: u64,
    next: u64,
}

impl Seen {
    pub(crate) fn pool(&self, pool: &str, region: &str) -> SeenPool {
        self.known().pools.get(&(pool.to_owned(), region.to_owned())).copied().unwrap_or_default()
    }

    pub(crate) fn sequence(&self, name: &str) -> SeenSequence {
        self.known().sequences.get(name).copied().unwrap_or_default()
    }

    /// Call only with what the store has acknowledged.
    pub(crate) fn saw_lease(&self, lease: &Lease) {
        let mut known = self.known();
        let seen = known.pools.entry((lease.pool.clone(), lease.region.clone())).or_default();
        seen.inc = seen.inc.max(lease.fence.inc);
        seen.granted_at_ms = seen.granted_at_ms.max(lease.store_now_ms);
    }

    /// Call only with what the store has acknowledged.
    pub(crate) fn saw_range(&self, range: &IdRange) {
        let mut known = self.known();
        let seen = known.sequences.entry(range.sequence.clone()).or_default();
        seen.version = seen.version.max(range.version);
        seen.next = seen.next.max(range.end);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenPool {
    /// Whether the row is older than what was seen.
    pub(crate) fn is_ahead_of(self, row: &PoolRow) -> bool {
        row.inc < self.inc || row.granted_at_ms < self.granted_at_ms
    }

    /// Bumps a pool above what its row says and what was seen.
    pub(crate) fn bump(self, row: &mut PoolRow, now_ms: u64) {
        row.inc = row.inc.max(self.inc);
        row.granted_at_ms = row.granted_at_ms.max(self.granted_at_ms);
        protocol::bump(row, now_ms);
    }
}

impl SeenSequence {
    /// Refuses a row that is older than what was seen.
    ///
    /// A give-back lowers the next number and counts as a change; a raise above all that was given makes an older row good again.
    ///
    /// # Errors
    /// `RolledBack`.
    pub(crate) fn check(self, row: &SequenceRow) -> Result<(), StoreError> {
        if row.version >= self.version || row.next >= self.next {
            return Ok(());
        }
        Err(StoreError::new(
            StoreErrorKind::RolledBack,
            format!(
                "sequence {} stands at {} in the store, and this process has seen it at {}: the store went back in time, a backup \
                 was put in its place or an old primary answers. Raise the sequence above every number in use or held by a running \
                 process (`mintage sequences raise`), then it goes on",
                row.name, row.next, self.next
            ),
        ))
    }
}
