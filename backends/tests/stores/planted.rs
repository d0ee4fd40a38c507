//! The test kit itself, under test: each planted fault breaks a law, and the law that it breaks is named.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use mintage_backends::Memory;
use mintage_core::{
    Fence, Format, FormatStore, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms,
    ManualClock, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    testkit::store::{self, Trial},
};

use crate::NOW_MS;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    RepeatsARange,
    ForgetsKeys,
    KeysOutsideTheStore,
    MakesWhatIsMissing,
    StartsAnew,
    IgnoresTheFloor,
    IgnoresTheVersion,
    ReleasesWithoutFence,
    RenewsWithoutFence,
    RenewsWithoutIncarnation,
    WindowOneTooLong,
    WindowOneTooEarly,
    HalfAToken,
    ForgetsTheOwnId,
    IgnoresPreferences,
    MakesKnownPools,
    BumpsNothing,
    ForgetsTheGuard,
    RevokesNothing,
    FreesNothing,
    RestsNot,
    CountsWorkersUp,
    NoHistory,
    ForgetsWhoGotARange,
    AcceptsAnyFormat,
    RecordsNoFormat,
}

/// A good store that one fault makes bad.
#[derive(Debug)]
struct Careless {
    good: Memory,
    fault: Fault,
    ranges: Mutex<HashMap<String, IdRange>>,
    keyed: Mutex<HashMap<String, (NonZeroU32, IdRange)>>,
    fences: Mutex<HashMap<(String, u32), Fence>>,
}

impl Careless {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The lease with the fence that is current, whatever fence it came with.
    fn with_current_fence(&self, lease: &Lease) -> Lease {
        let fences = self.fences.lock().unwrap();
        let mut lease = lease.clone();
        lease.fence = fences.get(&(lease.pool.clone(), lease.worker)).copied().unwrap_or(lease.fence);
        lease
    }
}

#[async_trait]
impl RangeStore for Careless {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        if self.has(Fault::StartsAnew) {
            let mut ranges = self.ranges.lock().unwrap();
            ranges.insert(sequence.name.clone(), IdRange::new(sequence.name.clone(), sequence.start, 0, 0));
        }
        self.good.create(sequence).await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let mut sequence = sequence.clone();
        if self.has(Fault::MakesWhatIsMissing) {
            self.good.create(&sequence).await?;
        }
        if self.has(Fault::IgnoresTheFloor) {
            sequence.floor = 0;
        }
        if let (Fault::KeysOutsideTheStore, Some(key)) = (self.fault, key) {
            let name = format!("{} {}", sequence.name, key.as_str());
            if let Some((asked, range)) = self.keyed.lock().unwrap().get(&name) {
                let other = || StoreError::new(StoreErrorKind::Refused, "another count");
                return if *asked == len { Ok(range.clone()) } else { Err(other()) };
            }
            let range = self.good.allocate(&sequence, len, None).await?;
            self.keyed.lock().unwrap().insert(name, (len, range.clone()));
            return Ok(range);
        }
        let key = key.filter(|_| !self.has(Fault::ForgetsKeys));
        let mut range = self.good.allocate(&sequence, len, key).await?;
        let mut ranges = self.ranges.lock().unwrap();
        if self.has(Fault::RepeatsARange) {
            let first = ranges.entry(sequence.name.clone()).or_insert_with(|| range.clone());
            range = IdRange::new(range.sequence.clone(), first.start, first.start + range.count(), range.version);
        }
        let anew = if self.has(Fault::StartsAnew) { ranges.remove(&sequence.name) } else { None };
        if let Some(anew) = anew {
            range = IdRange::new(range.sequence.clone(), anew.start, anew.start + range.count(), range.version);
        }
        Ok(range)
    }

    async fn give_back(&self, mut tail: IdRange) -> Result<bool, StoreError> {
        if self.has(Fault::IgnoresTheVersion) {
            let rows = self.good.sequences().await?;
            tail.version = rows.iter().find(|row| row.name == tail.sequence).map_or(0, |row| row.version);
        }
        self.good.give_back(tail).await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.good.raise(sequence, floor).await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.good.sequences().await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        if self.has(Fault::ForgetsWhoGotARange) {
            return Ok(RangeHistory::default());
        }
        self.good.range_history(sequence, number).await
    }
}

#[async_trait]
impl LeaseStore for Careless {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let (mut pool, mut holder) = (pool.clone(), holder.clone());
        pool.known &= !self.has(Fault::MakesKnownPools);
        if self.has(Fault::ForgetsTheGuard) {
            pool.limits.guard_ms = 0;
        }
        if self.has(Fault::HalfAToken) {
            holder.token = u128::from(u64::try_from(holder.token & u128::from(u64::MAX)).unwrap());
        }
        if self.has(Fault::ForgetsTheOwnId) {
            holder.previous = None;
        }
        let preferred = matches!(which, WorkerChoice::Prefer(_));
        let which = if preferred && self.has(Fault::IgnoresPreferences) { WorkerChoice::Any } else { which };
        let mut lease = self.good.acquire(&pool, which, &holder, terms).await?;
        self.fences.lock().unwrap().insert((lease.pool.clone(), lease.worker), lease.fence);
        if self.has(Fault::WindowOneTooLong) {
            lease.window.end += 1;
        }
        if self.has(Fault::WindowOneTooEarly) {
            lease.window.start -= 1;
        }
        if self.has(Fault::CountsWorkersUp) && lease.fence.epoch > 10 {
            lease.worker += 1;
        }
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let mut lease = lease.clone();
        if self.has(Fault::RenewsWithoutFence) {
            lease = self.with_current_fence(&lease);
        }
        if self.has(Fault::RenewsWithoutIncarnation) {
            lease.fence.inc = self.with_current_fence(&lease).fence.inc;
        }
        if self.has(Fault::HalfAToken) {
            lease.fence.token = u128::from(u64::try_from(lease.fence.token & u128::from(u64::MAX)).unwrap());
        }
        self.good.renew(&lease, holder, terms).await
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let lease = if self.has(Fault::ReleasesWithoutFence) { self.with_current_fence(&lease) } else { lease };
        let mut terms = *terms;
        if self.has(Fault::RestsNot) {
            terms.quarantine_ms = 0;
        }
        self.good.release(lease, first_unused_ms, &terms).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        let known = !self.good.leases(pool).await?.is_empty();
        if known && self.has(Fault::RevokesNothing) { Ok(()) } else { self.good.revoke(pool, worker).await }
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        let known = !self.good.leases(pool).await?.is_empty();
        if known && self.has(Fault::FreesNothing) { Ok(()) } else { self.good.free(pool, worker).await }
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        let known = !self.good.leases(pool).await?.is_empty();
        if known && self.has(Fault::BumpsNothing) { Ok(()) } else { self.good.bump(pool).await }
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.good.leases(pool).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        if self.has(Fault::NoHistory) { Ok(Vec::new()) } else { self.good.history(pool, at_ms).await }
    }
}

#[async_trait]
impl FormatStore for Careless {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        if self.has(Fault::RecordsNoFormat) { Ok(None) } else { self.good.pinned(entity).await }
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        let pinned = self.good.pin(entity, format).await;
        if self.has(Fault::AcceptsAnyFormat) { Ok(()) } else { pinned }
    }
}

/// What the kit says about a store with this fault; `None` if it finds nothing.
fn verdict(fault: Fault) -> Option<String> {
    let run = move || {
        let clock = ManualClock::at(NOW_MS);
        let good = Memory::new(Arc::new(clock.clone()));
        let store =
            Careless { good, fault, ranges: Mutex::default(), keyed: Mutex::default(), fences: Mutex::default() };
        let trial = Trial { cycles: 50, ..Trial::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store::all(&store, async |ms| clock.advance(ms), trial));
    };
    let panic = std::thread::spawn(run).join().err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without words".to_owned()))
}

#[test]
fn a_good_store_passes() {
    assert_eq!(verdict(Fault::None), None);
}

#[test]
fn every_planted_fault_is_found_by_the_law_it_breaks() {
    for (fault, law) in [
        (Fault::RepeatsARange, "ranges are disjoint"),
        (Fault::ForgetsKeys, "an idempotency key repeats its range"),
        (Fault::KeysOutsideTheStore, "a tail that a key can ask for again is not handed out"),
        (Fault::MakesWhatIsMissing, "a missing sequence is refused"),
        (Fault::StartsAnew, "creating is idempotent and never lowers"),
        (Fault::IgnoresTheFloor, "a store that went back in time says so"),
        (Fault::IgnoresTheVersion, "only an untouched tail is taken back"),
        (Fault::ReleasesWithoutFence, "a stale fence changes nothing"),
        (Fault::RenewsWithoutFence, "a stale fence changes nothing"),
        (Fault::RenewsWithoutIncarnation, "a stale fence changes nothing"),
        (Fault::WindowOneTooLong, "windows of successive holders are disjoint"),
        (Fault::WindowOneTooEarly, "windows of successive holders are disjoint"),
        (Fault::HalfAToken, "a stale fence changes nothing"),
        (Fault::ForgetsTheOwnId, "a process gets its own worker id back"),
        (Fault::IgnoresPreferences, "a wish for a worker id"),
        (Fault::MakesKnownPools, "a known pool without records is not made again"),
        (Fault::BumpsNothing, "a bump passes everything that can have been granted"),
        (Fault::ForgetsTheGuard, "a bump passes everything that can have been granted"),
        (Fault::RevokesNothing, "a revoked worker id is barred"),
        (Fault::FreesNothing, "a freed worker id keeps its floor"),
        (Fault::RestsNot, "a released worker id rests"),
        (Fault::CountsWorkersUp, "claims and releases stay inside the block"),
        (Fault::NoHistory, "history names the holder of an instant"),
        (Fault::ForgetsWhoGotARange, "the history knows who got a number"),
        (Fault::AcceptsAnyFormat, "the first format of an entity is kept"),
        (Fault::RecordsNoFormat, "the first format of an entity is kept"),
    ] {
        let told = verdict(fault).unwrap_or_else(|| panic!("{fault:?} was not found"));
        assert!(told.contains(law), "{fault:?} was found by another law: {told}");
    }
}
