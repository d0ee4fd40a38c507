//! The store's side of a keeper: one pool in one store, and what a claim there needs.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mintage_core::{
    Clock, Format, FormatStore, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, StoreErrorKind,
    WorkerChoice, WorkerPool,
};
use mintage_schemes::Entropy;

use crate::regions::{self, Regions};

use super::{
    Granted,
    clocks::{Clocks, Comparison, Offset},
};

/// How much longer than the store's own timeout a call is awaited: the store knows better what went wrong. A store that
/// keeps no timeout must not hold the keeper for ever.
const ANSWER_GRACE_MS: u64 = 500;

/// Longest look at a reserve when a process starts, in milliseconds: nobody needs it yet, and everybody waits for the start.
const RESERVE_LOOK_MS_MAX: u64 = 1_000;

/// How much longer than a renewal is awaited before a holder counts as gone, in milliseconds: it may retry, and take its time.
const RENEWAL_GRACE_MS: u64 = 1_000;

/// How long before it begins a new layout must be on record. No window ends later than that after it was granted: a window, and
/// how far ahead it may begin, are a day each at most, and so is the time by which clocks may differ.
const REVISION_LEAD_MS: u64 = 3 * 86_400_000;

/// What a keeper needs to know of one pool in one store.
#[derive(Debug)]
pub(crate) struct KeeperPlan {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) pool: WorkerPool,
    pub(crate) which: WorkerChoice,
    pub(crate) terms: LeaseTerms,
    pub(crate) renew_ms: u64,
    /// How long one call to the store may take.
    pub(crate) timeout_ms: u64,
    /// Stop this long after the last successful request was sent, even though the window goes on: the strict rule.
    pub(crate) stop_ms: Option<u64>,
    pub(crate) instance: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) records: Records,
    /// The others in the pool; `None` where all of them read this machine's clock.
    pub(crate) clocks: Option<Arc<Clocks>>,
}

/// What is on record in a store beside the leases.
#[derive(Debug)]
pub(crate) struct Records {
    /// The formats of the entities that mint by the lease.
    pub(crate) entities: Vec<Record>,
    /// What else must agree before a first claim: the keys of public ids.
    pub(crate) others: Vec<Record>,
    /// The map of regions.
    pub(crate) regions: Regions,
    /// The record that tells whether the pool was used in this store before.
    pub(crate) mark: Option<Record>,
    /// Whether all of it was compared and recorded.
    pub(crate) settled: AtomicBool,
}

/// A format, and where it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) formats: Arc<dyn FormatStore>,
    pub(crate) name: String,
    pub(crate) format: Format,
}

/// A lease that was just granted, and when it was asked for.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    pub(crate) sent_boot_ms: u64,
    pub(crate) offset: Offset,
    /// A layout that this process does not know begins here.
    pub(crate) cut_over_ms: Option<u64>,
}

impl KeeperPlan {
    /// Claims a worker id. An answer that got lost is abandoned with its token, never guessed.
    pub(crate) async fn claim(&self, previous: Option<u128>) -> Result<Claim, StoreError> {
        let mut pool = self.pool.clone();
        if !self.records.settled() {
            pool.known = self.answered(self.records.compare(self.clock.unix_ms())).await?;
        }
        self.not_ahead_of_holders().await?;
        let token =
            Entropy::os().draw_u128().map_err(|error| StoreError::new(StoreErrorKind::Refused, error.to_string()))?;
        let mut holder = Holder::new(token, self.instance.clone(), self.clock.unix_ms());
        holder.previous = previous;
        holder.start_max_ms = Some(self.start_max_ms(holder.clock_ms));
        let sent_boot_ms = self.clock.boot_ms();
        let lease = self.store.acquire(&pool, self.which, &holder, &self.terms);
        let (lease, cut_over_ms) = self.answered(both(lease, self.records.cut_over_ms())).await?;
        let claim = self.claimed(lease, &holder, sent_boot_ms, cut_over_ms);
        self.admit(&claim.lease, token)?;
        if !self.records.settled() {
            let recorded = self.answered(self.records.record()).await;
            if let Err(error) = recorded {
                let unused_ms = claim.lease.window.start;
                // Nothing was minted; an id that cannot be released rests until its window is over.
                let _ = self.release(claim.lease, unused_ms).await;
                return Err(error);
            }
        }
        if let Some(clocks) = &self.clocks {
            clocks.claimed(claim.lease.worker);
        }
        Ok(claim)
    }

    /// Whether a store that answers a claim with `error` has another config on record, or has lost what it had: ids that are made by
    /// this one elsewhere may be made twice.
    pub(crate) fn is_ruled_out_by(&self, error: &StoreError) -> bool {
        match error.kind() {
            StoreErrorKind::FormatMismatch => true,
            // Where all was compared before, it is about clocks or limits, or about records that had agreed.
            StoreErrorKind::RolledBack | StoreErrorKind::Refused => !self.records.settled(),
            _ => false,
        }
    }

    /// A window that begins later than this is of no use: what `max_ahead` allows, what clocks may differ by, and the time that
    /// an answer may take.
    fn start_max_ms(&self, now_ms: u64) -> u64 {
        let apart_ms = self.clocks.as_ref().map_or(0, |clocks| clocks.limits.refuse_start_ms);
        [self.terms.max_ahead_ms, apart_ms, self.timeout_ms, ANSWER_GRACE_MS]
            .into_iter()
            .fold(now_ms, u64::saturating_add)
    }

    /// Where the store has no clock, a claim goes by this machine's, and one that is hours fast would move a floor by hours: one
    /// worker id at each start. So a clock by which every lease has run out is believed only after a renewal's time in which
    /// none of the holders has made progress. Alone, or among those that have crashed, nobody can tell.
    ///
    /// # Errors
    /// `Refused`: a holder has just renewed, and by its clock it is earlier than it can be by this one.
    async fn not_ahead_of_holders(&self) -> Result<(), StoreError> {
        let Some(clocks) = self.clocks.as_ref().filter(|_| !self.store.has_clock()) else { return Ok(()) };
        let limit_ms = clocks.limits.refuse_start_ms;
        // Whoever cannot be seen is no reason to stop; the claim says how the store is.
        let Ok(before) = self.answered(self.store.leases(&self.pool)).await else { return Ok(()) };
        let now_ms = self.clock.unix_ms();
        let ran_out = |row: &LeaseRow| row.expires_ms.saturating_add(limit_ms) < now_ms;
        if before.iter().filter(|row| row.held).any(|row| !ran_out(row)) || !before.iter().any(|row| row.held) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(self.renew_ms.saturating_add(RENEWAL_GRACE_MS))).await;
        let Ok(after) = self.answered(self.store.leases(&self.pool)).await else { return Ok(()) };
        let state = |row: &LeaseRow| (row.worker, row.epoch, row.expires_ms);
        let renewed = after.iter().filter(|row| row.held && before.iter().all(|old| state(old) != state(row)));
        let Some(latest) = renewed.max_by_key(|row| row.expires_ms).filter(|row| ran_out(row)) else { return Ok(()) };
        Err(StoreError::new(
            StoreErrorKind::Refused,
            format!(
                "pool {}: this machine's clock shows {now_ms} ms since 1970, and {} (worker id {}) has just renewed a lease that ends \
                 at {} by its own: more than {limit_ms} ms apart. Nothing was claimed: set the clock that is wrong, or raise \
                 workers.{}.clock.refuse_start",
                self.pool.name, latest.instance, latest.worker, latest.expires_ms, self.pool.name
            ),
        ))
    }

    /// Asks for more time.
    pub(crate) async fn renew(&self, lease: &Lease) -> Result<Claim, StoreError> {
        let holder = Holder::new(lease.fence.token, self.instance.clone(), self.clock.unix_ms());
        let sent_boot_ms = self.clock.boot_ms();
        let longer = self.store.renew(lease, &holder, &self.terms);
        let (longer, cut_over_ms) = self.answered(both(longer, self.records.cut_over_ms())).await?;
        let claim = self.claimed(longer, &holder, sent_boot_ms, cut_over_ms);
        self.admit(&claim.lease, lease.fence.token)?;
        let longer = &claim.lease;
        if (longer.worker, longer.fence, longer.window.start) != (lease.worker, lease.fence, lease.window.start) {
            return Err(self.broken(longer));
        }
        Ok(claim)
    }

    fn claimed(&self, lease: Lease, holder: &Holder, sent_boot_ms: u64, cut_over_ms: Option<u64>) -> Claim {
        let took_ms = self.clock.boot_ms().saturating_sub(sent_boot_ms);
        let offset = Offset::between(holder.clock_ms, took_ms, lease.store_now_ms);
        Claim { lease, sent_boot_ms, offset, cut_over_ms }
    }

    /// Compares the own clock with the other holders'. Whoever cannot be seen is no reason to stop.
    pub(crate) async fn compare(&self, claim: &Claim) -> Comparison {
        let Some(clocks) = &self.clocks else { return Comparison::default() };
        let boot_ms = self.clock.boot_ms();
        if clocks.due(boot_ms) {
            let patience = Duration::from_millis(self.timeout_ms.min(self.renew_ms));
            if let Ok(Ok(rows)) = tokio::time::timeout(patience, self.store.leases(&self.pool)).await {
                clocks.look(&rows, claim.lease.store_now_ms, boot_ms);
            }
        }
        clocks.compare(claim.offset)
    }

    /// Believes no store blindly: a worker id outside our block is somebody else's.
    fn admit(&self, lease: &Lease, token: u128) -> Result<(), StoreError> {
        let ours = self.pool.block.contains(&lease.worker) && lease.fence.token == token && !lease.window.is_empty();
        if ours { Ok(()) } else { Err(self.broken(lease)) }
    }

    fn broken(&self, lease: &Lease) -> StoreError {
        let Range { start, end } = self.pool.block;
        StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "pool {}: asked for a worker id of {start}..{end}, the store answered with id {} and the window {:?}: it breaks \
                 the contract of a lease store, use another",
                self.pool.name, lease.worker, lease.window
            ),
        )
    }

    /// Gives a worker id back, in one attempt.
    pub(crate) async fn release(&self, lease: Lease, first_unused_ms: u64) -> Result<(), StoreError> {
        if let Some(clocks) = &self.clocks {
            clocks.left(lease.worker);
        }
        self.answered(self.store.release(lease, first_unused_ms, &self.terms)).await
    }

    /// The store's answer, or its absence. Cutting a call off is safe: a lost claim is abandoned, a renewal can be asked again.
    async fn answered<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let limit_ms = self.timeout_ms.saturating_add(ANSWER_GRACE_MS);
        tokio::time::timeout(Duration::from_millis(limit_ms), call).await.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!(
                    "no answer from the store of pool {} within {limit_ms} ms: see whether it is up",
                    self.pool.name
                ),
            ))
        })
    }

    pub(super) fn granted(&self, claim: &Claim) -> Granted {
        let Claim { lease, sent_boot_ms, cut_over_ms, .. } = claim;
        Granted {
            worker: lease.worker,
            start_ms: lease.window.start,
            end_ms: lease.window.end.min(cut_over_ms.unwrap_or(u64::MAX)),
            halted: false,
            sent_boot_ms: *sent_boot_ms,
            stop_wall_ms: self.stop_wall_ms(*sent_boot_ms),
        }
    }

    /// The wall time at which to stop. Measured from before the request was sent, on the clock that counts suspend.
    pub(super) fn stop_wall_ms(&self, sent_boot_ms: u64) -> u64 {
        let Some(stop_ms) = self.stop_ms else { return u64::MAX };
        let elapsed_ms = self.clock.boot_ms().saturating_sub(sent_boot_ms);
        self.clock.unix_ms().saturating_add(stop_ms.saturating_sub(elapsed_ms))
    }
}

impl Records {
    fn settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Compares everything with the store, before a claim is made there. Says whether the pool was used there before.
    async fn compare(&self, now_ms: u64) -> Result<bool, StoreError> {
        for record in self.entities.iter().chain(&self.others) {
            record.is_kept(now_ms).await?;
        }
        let Some(mark) = &self.mark else { return Ok(false) };
        regions::settle(&*mark.formats, &self.regions).await?;
        Ok(mark.formats.pinned(&mark.name).await?.is_some())
    }

    /// Compares everything at a reserve and records what is new, long before anything is claimed there: whoever starts while the other
    /// store is away then finds whether it has the same config. The mark is left to the first claim, because it says that there was
    /// one.
    ///
    /// # Errors
    /// Those of the store; `FormatMismatch`; `Unavailable` where it takes too long.
    pub(crate) async fn announce(&self, now_ms: u64) -> Result<(), StoreError> {
        let announcing = async {
            self.compare(now_ms).await?;
            for record in self.entities.iter().chain(&self.others) {
                if !record.is_kept(now_ms).await? {
                    record.formats.pin(&record.name, &record.format).await?;
                }
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_millis(RESERVE_LOOK_MS_MAX), announcing).await.unwrap_or_else(|_| {
            let message = format!("no answer within {RESERVE_LOOK_MS_MAX} ms: see whether it is up");
            Err(StoreError::new(StoreErrorKind::Unavailable, message))
        })
    }

    /// Records everything, once there is a lease.
    async fn record(&self) -> Result<(), StoreError> {
        for record in self.entities.iter().chain(&self.others).chain(&self.mark) {
            record.formats.pin(&record.name, &record.format).await?;
        }
        self.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// When a layout begins that is on record and that this process does not know: whoever does not know it must have
    /// stopped by then.
    async fn cut_over_ms(&self) -> Result<Option<u64>, StoreError> {
        let mut earliest = None;
        for record in self.entities.iter().filter(|_| self.settled()) {
            let recorded = record.formats.pinned(&record.name).await?;
            let unknown = recorded.and_then(|recorded| record.format.unknown_revision_ms(&recorded));
            earliest = [earliest, unknown].into_iter().flatten().min();
        }
        Ok(earliest)
    }
}

impl Record {
    /// Compares it with the one in the store, and says whether nothing is to be added to that.
    async fn is_kept(&self, now_ms: u64) -> Result<bool, StoreError> {
        let Some(recorded) = self.formats.pinned(&self.name).await? else { return Ok(false) };
        self.format.agrees_with(&recorded, &self.name)?;
        if let Some(from_ms) = recorded.unknown_revision_ms(&self.format) {
            comes_in_time(&self.name, from_ms, now_ms)?;
        }
        Ok(!self.format.grows_beyond(&recorded))
    }
}

/// Refuses to record a change of layout that holders of leases may not hear of in time. Each hears of it at its next renewal;
/// until then it may hold a window that ends after the change, and would stamp by the old layout.
///
/// # Errors
/// `Refused`, with the earliest time that would do.
pub(crate) fn comes_in_time(entity: &str, from_ms: u64, now_ms: u64) -> Result<(), StoreError> {
    if from_ms >= now_ms.saturating_add(REVISION_LEAD_MS) {
        return Ok(());
    }
    let days = REVISION_LEAD_MS / 86_400_000;
    Err(StoreError::new(
        StoreErrorKind::Refused,
        format!(
            "entities.{entity}.layouts: this change is not on record in the store yet, and comes too soon: a process that does not \
             know it may hold a window beyond it. Choose a time at least {days} days ahead, and start once with it before"
        ),
    ))
}

/// Both answers, asked for at the same time.
async fn both<A, B>(
    one: impl Future<Output = Result<A, StoreError>>,
    other: impl Future<Output = Result<B, StoreError>>,
) -> Result<(A, B), StoreError> {
    tokio::try_join!(one, other)
}
