//! Leases on worker ids: who may stamp which milliseconds with which worker id.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;

use crate::{MintError, StoreError};

/// Hands out windows of time per worker id, each millisecond of a worker id once.
///
/// How each call decides is written once, in [`protocol`](crate::protocol); a store makes it atomic and durable. An
/// answer is believed only when the store has committed it.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Claims a worker id and its first window.
    ///
    /// # Errors
    /// `NoFreeWorker` says until when; `Conflict` when the id insisted on is held; `Refused` when the terms exceed the
    /// pool's or the pool's block differs from the recorded one; `RolledBack` when the pool's records are gone;
    /// `Unavailable`: the claim is abandoned, costing one window of one worker id.
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError>;

    /// Extends the window. Asking again after a lost answer is safe: the window only grows.
    ///
    /// # Errors
    /// `Fenced` when the lease is no longer ours: claim anew. `Unavailable`: mint on to the window's end and ask again.
    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError>;

    /// Gives the worker id back. `first_unused_ms` is the first millisecond that was not used; minting must be
    /// impossible before this is called. One attempt, never retried.
    ///
    /// # Errors
    /// `Fenced` when it is no longer ours; `Unavailable`: the id rests until its window is over.
    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError>;

    /// Bars a worker id: its holder's next renewal fails, and nobody gets it again. Not needed for uniqueness.
    ///
    /// # Errors
    /// `Refused` when the pool has no such worker; `Unavailable`.
    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError>;

    /// Takes a worker id from whoever holds it, and lifts a bar: from then on it may be claimed. Its floor stays, so a later
    /// window begins where the last one ends; its holder's next renewal fails. Never needed for uniqueness.
    ///
    /// # Errors
    /// `Refused` when the pool has no such worker, or this kind of store cannot; `Unavailable`.
    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        Err(StoreError::new(
            crate::StoreErrorKind::Refused,
            format!("this kind of store cannot free worker id {worker} of pool {}: wait until it expires", pool.name),
        ))
    }

    /// Declares that the store may have forgotten its last writes: later windows start above all it can have granted.
    ///
    /// # Errors
    /// `Refused` when there is no such pool; `Unavailable`.
    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError>;

    /// [`bump`](Self::bump) of every pool in the store, and of those that it may have forgotten. `false`: this kind of store cannot,
    /// bump each pool by its name.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn bump_all(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The worker ids ever claimed, by number.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError>;

    /// The grants whose window holds the Unix millisecond `at_ms`, by worker.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError>;

    /// Whether its time is that of a clock of its own, which all who ask share. `false` where each process's own clock is the
    /// store's: then one that is fast moves floors by as much, and before a claim the holders' progress is watched.
    fn has_clock(&self) -> bool {
        true
    }

    /// Why [`history`](Self::history) may lack grants of the last 400 days, for people to read: a store that bounds it has dropped
    /// the oldest. `None` where it has not.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
        let _ = pool;
        Ok(None)
    }
}

/// A scheme that mints inside a lease's window; the keeper drives it.
///
/// None of these calls waits. After `halt` no id can be minted any more, even by a thread that is in the middle of `mint`.
pub trait Leased: fmt::Debug + Send + Sync + 'static {
    /// How many worker ids the layout has room for.
    fn workers(&self) -> u64;
    /// A new claim: mint as `worker` inside `window` (Unix ms, half-open), before the wall time `stop_ms`.
    fn grant(&self, worker: u32, window: Range<u64>, stop_ms: u64);
    /// The same claim, extended to `end_ms`; `stop_ms` as in `grant`.
    fn extend(&self, end_ms: u64, stop_ms: u64);
    /// The keeper cannot renew or claim at the moment; `ready` carries the reason until the next `grant`.
    fn trouble(&self, error: Arc<StoreError>);
    /// Stops for good or until the next `grant`, and says the first Unix millisecond that no id of this claim has used;
    /// `None` if it made none. Asked again, also after `shut`, it says the same: a floor may be lowered to what it says.
    fn halt(&self) -> Option<u64>;
    /// Stops for good: `mint` says `Closed`, and a later `grant` changes nothing.
    fn shut(&self);
    /// What `mint` would say now in place of an id; takes nothing. `None` where it would mint, or the scheme cannot tell.
    fn refusal(&self) -> Option<MintError> {
        None
    }
}

/// A block of worker ids that processes share, and the most that may be asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerPool {
    /// Its name in the config.
    pub name: String,
    /// The region that owns the block; empty where there is one region.
    pub region: String,
    /// The worker ids, half-open.
    pub block: Range<u32>,
    /// Fixed in the store when the pool is made.
    pub limits: PoolLimits,
    /// Whether ids of this pool have been minted before. A known pool without records in the store is a store that lost
    /// them: the claim is refused.
    pub known: bool,
}

impl WorkerPool {
    /// The pool `name` over `block`, with the default limits, not known before.
    pub fn new(name: impl Into<String>, block: Range<u32>) -> Self {
        Self { name: name.into(), region: String::new(), block, limits: PoolLimits::default(), known: false }
    }
}

/// What a pool's registry row fixes for good; the store refuses larger terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolLimits {
    /// Longest window, in milliseconds.
    pub window_max_ms: u64,
    /// How far after the store's now a window may start, in milliseconds.
    pub ahead_max_ms: u64,
    /// How far a failed-over store's clock may be behind its predecessor's, in milliseconds.
    pub guard_ms: u64,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { window_max_ms: 60_000, ahead_max_ms: 2_000, guard_ms: 1_000 }
    }
}

impl PoolLimits {
    /// Limits in milliseconds.
    pub fn new(window_max_ms: u64, ahead_max_ms: u64, guard_ms: u64) -> Self {
        Self { window_max_ms, ahead_max_ms, guard_ms }
    }
}

/// Which worker id is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerChoice {
    /// The best free one.
    Any,
    /// This one if it is free, else any: a Kubernetes ordinal.
    Prefer(u32),
    /// This one or none: a fixed id.
    Exactly(u32),
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Fresh for every claim, never stored on disk: whoever does not know it cannot renew.
    pub token: u128,
    /// The token of this process's claim before, to get its own id back.
    pub previous: Option<u128>,
    /// A name for people: host and boot.
    pub instance: String,
    /// The holder's wall clock, Unix ms.
    pub clock_ms: u64,
    /// The latest Unix millisecond at which a claimed window may begin and still be of use; the claim of a later one is refused
    /// and moves no floor. `None` for any.
    pub start_max_ms: Option<u64>,
}

impl Holder {
    /// A holder with a fresh token.
    pub fn new(token: u128, instance: impl Into<String>, clock_ms: u64) -> Self {
        Self { token, previous: None, instance: instance.into(), clock_ms, start_max_ms: None }
    }
}

/// What is asked for: durations only; the store's clock makes them times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// How much time a grant holds.
    pub window_ms: u64,
    /// After how long without renewal others may claim the id.
    pub ttl_ms: u64,
    /// How long an id rests after a release. For order only.
    pub quarantine_ms: u64,
    /// How far after the store's now a window may start.
    pub max_ahead_ms: u64,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { window_ms: 60_000, ttl_ms: 10_000, quarantine_ms: 1_000, max_ahead_ms: 2_000 }
    }
}

impl LeaseTerms {
    /// Terms in milliseconds.
    pub fn new(window_ms: u64, ttl_ms: u64, quarantine_ms: u64, max_ahead_ms: u64) -> Self {
        Self { window_ms, ttl_ms, quarantine_ms, max_ahead_ms }
    }
}

/// A claim on a worker id for a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The pool it belongs to.
    pub pool: String,
    /// The region of the pool.
    pub region: String,
    /// The worker id.
    pub worker: u32,
    /// Sent with every write; a stale one fails.
    pub fence: Fence,
    /// Unix milliseconds this lease may stamp, half-open.
    pub window: Range<u64>,
    /// The store's clock when it answered, Unix ms.
    pub store_now_ms: u64,
}

/// What makes a stale holder's writes fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Which life of the store granted it.
    pub inc: u64,
    /// Counts the claims of this worker id.
    pub epoch: u64,
    /// The holder's secret.
    pub token: u128,
}

/// A worker id as the store keeps it, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRow {
    /// The worker id.
    pub worker: u32,
    /// Who holds it, or held it last.
    pub instance: String,
    /// Whether it is held.
    pub held: bool,
    /// When others may claim it, Unix ms.
    pub expires_ms: u64,
    /// End of everything that can have been granted so far, Unix ms.
    pub floor_ms: u64,
    /// Counts its claims.
    pub epoch: u64,
    /// Whether it is barred.
    pub revoked: bool,
    /// The holder's clock less the store's at the last renewal, in milliseconds.
    pub clock_offset_ms: i64,
}

impl LeaseRow {
    /// In a pool whose windows begin at `floor_min_ms`, Unix ms, at the earliest: no worker id is free before.
    #[must_use]
    pub fn not_before(mut self, floor_min_ms: u64) -> Self {
        self.floor_ms = self.floor_ms.max(floor_min_ms);
        self
    }
}

/// One line of the lease history: who could stamp which milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The worker id.
    pub worker: u32,
    /// Which life of the store.
    pub inc: u64,
    /// Which claim of the worker id.
    pub epoch: u64,
    /// Who.
    pub instance: String,
    /// The window, Unix ms, half-open.
    pub window: Range<u64>,
}

impl Grant {
    /// The claim `epoch` of `worker`, by `instance`, for `window`.
    pub fn new(worker: u32, inc: u64, epoch: u64, instance: impl Into<String>, window: Range<u64>) -> Self {
        Self { worker, inc, epoch, instance: instance.into(), window }
    }
}
