//! The store of a simulation: rows in memory around the real functions of [`mintage_core::protocol`], which can lose its last
//! writes, and which remembers all that it ever granted, the lost grants included.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU32,
};

use mintage_core::{
    Clock, Format, Holder, IdRange, Lease, LeaseTerms, Sequence, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    protocol::{self, PoolRow, WorkerRow},
};

use crate::{clock::SkewedClock, mutants::Rules};

/// The most writes a failover can lose: a few seconds of replication lag.
pub(crate) const LOST_WRITES_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: SkewedClock,
    rules: Rules,
    rows: Rows,
    /// The rows before each of the last writes, the oldest first.
    before: VecDeque<Rows>,
    /// Which physical life of the store this is: what a failover cannot forget.
    life: u64,
    /// The latest time with which this life has granted anything.
    granted_at_ms: u64,
    pub(crate) is_down: bool,
    pub(crate) log: Log,
}

/// All that is committed.
#[derive(Clone, Debug, Default)]
struct Rows {
    pool: Option<PoolRow>,
    workers: BTreeMap<u32, WorkerRow>,
    counters: BTreeMap<String, Counter>,
    formats: BTreeMap<String, Format>,
}

#[derive(Clone, Debug)]
struct Counter {
    row: mintage_core::SequenceRow,
    /// The life of the store in which it was last known to be right.
    life: u64,
}

/// What was ever granted. No crash loses it.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) claims: Vec<Claimed>,
    pub(crate) ranges: Vec<IdRange>,
}

/// One claim of a worker id, and all that it was granted in the end.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) worker: u32,
    pub(crate) window: std::ops::Range<u64>,
    fence: mintage_core::Fence,
}

impl Store {
    pub(crate) fn new(clock: SkewedClock, rules: Rules) -> Self {
        let before = VecDeque::new();
        Self {
            clock,
            rules,
            rows: Rows::default(),
            before,
            life: 1,
            granted_at_ms: 0,
            is_down: false,
            log: Log::default(),
        }
    }

    /// What was committed so far can no longer be lost.
    pub(crate) fn settle(&mut self) {
        self.before.clear();
    }

    /// Loses the last `lost` writes, as far as any were made, and comes up as another physical store.
    ///
    /// Its clock is right, or as far ahead as the old one's was, less `behind_ms`: that is what a guard is for.
    pub(crate) fn fail_over(&mut self, lost: usize, behind_ms: u64) -> usize {
        let lost = lost.min(self.before.len());
        let kept = self.before.len() - lost;
        if let Some(rows) = self.before.drain(kept..).next() {
            self.rows = rows;
        }
        self.life += 1;
        let now_ms = self.clock.unix_ms();
        let least_ms = self.granted_at_ms.saturating_sub(behind_ms);
        if now_ms < least_ms {
            let error_ms = self.clock.error_ms() + i64::try_from(least_ms - now_ms).unwrap();
            self.clock.set_error_ms(error_ms);
        }
        let now_ms = self.clock.unix_ms();
        if let Some(pool) = &mut self.rows.pool {
            (self.rules.bump)(pool, now_ms);
        }
        self.granted_at_ms = now_ms;
        lost
    }

    /// What an operator does after a failover: all counters go above `floor`, and count again.
    pub(crate) fn raise_all(&mut self, floor: u64) {
        let life = self.life;
        self.write(|rows, _| {
            for counter in rows.counters.values_mut() {
                protocol::raise(&mut counter.row, floor)?;
                counter.life = life;
            }
            Ok(())
        })
        .unwrap();
    }

    /// Whether a counter waits for an operator.
    pub(crate) fn is_waiting_for_a_raise(&self) -> bool {
        self.rows.counters.values().any(|counter| counter.life != self.life)
    }

    /// One past the largest number ever handed out, lost or not.
    pub(crate) fn numbers_end(&self) -> u64 {
        self.log.ranges.iter().map(|range| range.end).max().unwrap_or(0)
    }

    fn write<T>(&mut self, op: impl FnOnce(&mut Rows, u64) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut rows = self.rows.clone();
        let now_ms = self.clock.unix_ms();
        let done = op(&mut rows, now_ms)?;
        self.before.push_back(std::mem::replace(&mut self.rows, rows));
        if self.before.len() > LOST_WRITES_MAX {
            self.before.pop_front();
        }
        Ok(done)
    }
}

/// Leases.
impl Store {
    pub(crate) fn acquire(
        &mut self,
        whole: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let rules = self.rules;
        let (lease, now_ms) = self.write(|rows, now_ms| {
            let mut pool = match &rows.pool {
                Some(pool) => pool.clone(),
                None if whole.known => return Err(protocol::lost_pool(whole)),
                None => PoolRow::new(whole)?,
            };
            pool.admits(whole, terms)?;
            let mut workers: Vec<WorkerRow> = rows.workers.values().cloned().collect();
            (rules.before_claim)(&mut pool, &mut workers);
            let worker = protocol::choose(&pool, &workers, which, holder, terms, now_ms)?;
            let row = workers.into_iter().find(|row| row.worker == worker);
            let mut row = row.unwrap_or_else(|| WorkerRow::unused(worker));
            let (lease, _) = protocol::claim(&mut pool, &mut row, whole, holder, terms, now_ms)?;
            rows.pool = Some(pool);
            rows.workers.insert(worker, row);
            Ok((lease, now_ms))
        })?;
        self.granted_at_ms = self.granted_at_ms.max(now_ms);
        self.log.claims.push(Claimed { worker: lease.worker, window: lease.window.clone(), fence: lease.fence });
        Ok((rules.answer)(lease))
    }

    pub(crate) fn renew(&mut self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let rules = self.rules;
        let (longer, now_ms) = self.write(|rows, now_ms| {
            let pool = rows.pool.as_mut().ok_or_else(|| protocol::lost_worker(lease))?;
            let row = rows.workers.get_mut(&lease.worker).ok_or_else(|| protocol::lost_worker(lease))?;
            let longer = (rules.extend)(pool, row, lease, holder, terms, now_ms)?;
            Ok((longer, now_ms))
        })?;
        self.granted_at_ms = self.granted_at_ms.max(now_ms);
        if let Some(claimed) = self.log.claim_of(lease) {
            claimed.window.end = claimed.window.end.max(longer.window.end);
        }
        Ok((rules.answer)(longer))
    }

    pub(crate) fn release(
        &mut self,
        lease: &Lease,
        first_unused_ms: u64,
        terms: &LeaseTerms,
    ) -> Result<(), StoreError> {
        let rules = self.rules;
        let end_ms = self.write(|rows, now_ms| {
            let pool = rows.pool.as_mut().ok_or_else(|| protocol::lost_worker(lease))?;
            let row = rows.workers.get_mut(&lease.worker).ok_or_else(|| protocol::lost_worker(lease))?;
            (rules.release)(pool, row, lease, first_unused_ms, terms, now_ms)
        })?;
        if let Some(claimed) = self.log.claim_of(lease) {
            claimed.window.end = claimed.window.end.min(end_ms);
        }
        Ok(())
    }
}

/// Ranges.
impl Store {
    pub(crate) fn create(&mut self, sequence: &Sequence) -> Result<(), StoreError> {
        let life = self.life;
        self.write(|rows, _| {
            let row = protocol::new_sequence(sequence)?;
            rows.counters.entry(sequence.name.clone()).or_insert(Counter { row, life });
            Ok(())
        })
    }

    pub(crate) fn allocate(&mut self, sequence: &Sequence, len: NonZeroU32) -> Result<IdRange, StoreError> {
        let (life, rules) = (self.life, self.rules);
        let range = self.write(|rows, _| {
            let counter = rows.counters.get_mut(&sequence.name).ok_or_else(|| protocol::lost_sequence(sequence))?;
            if rules.ranges_know_the_life && counter.life != life {
                return Err(StoreError::new(
                    StoreErrorKind::RolledBack,
                    "this store may have lost what was committed last: raise the sequence",
                ));
            }
            protocol::allocate(&mut counter.row, sequence, len.get())
        })?;
        self.log.ranges.push(range.clone());
        Ok(range)
    }

    pub(crate) fn give_back(&mut self, tail: &IdRange) -> Result<bool, StoreError> {
        let (life, rules) = (self.life, self.rules);
        self.write(|rows, _| {
            let Some(counter) = rows.counters.get_mut(&tail.sequence) else { return Ok(false) };
            if rules.ranges_know_the_life && counter.life != life {
                return Ok(false);
            }
            Ok(protocol::give_back(&mut counter.row, tail))
        })
    }
}

/// Formats.
impl Store {
    pub(crate) fn pinned(&self, entity: &str) -> Option<Format> {
        self.rows.formats.get(entity).cloned()
    }

    pub(crate) fn pin(&mut self, entity: &str, format: &Format) -> Result<(), StoreError> {
        if let Some(recorded) = self.pinned(entity) {
            return format.agrees_with(&recorded, entity);
        }
        self.write(|rows, _| {
            rows.formats.insert(entity.to_owned(), format.clone());
            Ok(())
        })
    }
}

impl Log {
    /// The claim that a lease is of: the last one with its fence.
    fn claim_of(&mut self, lease: &Lease) -> Option<&mut Claimed> {
        self.claims.iter_mut().rev().find(|claimed| claimed.worker == lease.worker && claimed.fence == lease.fence)
    }
}
