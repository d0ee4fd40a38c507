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

use mintage_schemes::Entropy;

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
    /// How many writes were committed since a worker id was last claimed that its holder had not given back; that claim is one.
    since_takeover: Option<usize>,
    /// Which physical life of the store this is: what a failover cannot forget.
    life: u64,
    /// The latest time with which any life has granted anything.
    granted_at_ms: u64,
    pub(crate) is_down: bool,
    pub(crate) doom: Doom,
    pub(crate) disk: Disk,
    dice: Entropy,
    pub(crate) log: Log,
}

/// When the store will crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    Never,
    /// So many writes after this worker id has changed hands.
    AfterTakeoverOf(u32, usize),
    /// After so many writes.
    After(usize),
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Fine,
    /// Nothing is written, and the store says so.
    Full,
    /// It may have been written or not: what `fsync` said is an error.
    Failing,
}

/// What became of a write.
#[derive(Clone, Copy, Debug)]
struct Fate {
    is_written: bool,
    is_believed: bool,
}

impl Fate {
    fn told<T>(self, done: T) -> Result<T, StoreError> {
        if self.is_believed {
            return Ok(done);
        }
        Err(StoreError::new(
            StoreErrorKind::Unavailable,
            "the change may not have reached the disk: it is full or fails",
        ))
    }
}

/// How much a failover loses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// So many of the last writes.
    Writes(usize),
    /// The last claim of a worker id that its holder had not given back, and all that came after.
    Takeover,
}

/// What the clock of a store shows that takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    /// How far it is behind the latest time with which any store before it has granted anything.
    pub(crate) behind_ms: u64,
    /// How late it may be. Where that would be more, it is right.
    pub(crate) late_ms_max: u64,
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
    /// Of the one sequence there is, without what was given back.
    pub(crate) ranges: Vec<std::ops::Range<u64>>,
}

/// One claim of a worker id, and all that it was granted in the end.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) worker: u32,
    pub(crate) window: std::ops::Range<u64>,
    fence: mintage_core::Fence,
}

impl Store {
    pub(crate) fn new(clock: SkewedClock, rules: Rules, seed: u64) -> Self {
        Self {
            clock,
            rules,
            rows: Rows::default(),
            before: VecDeque::new(),
            since_takeover: None,
            life: 1,
            granted_at_ms: 0,
            is_down: false,
            doom: Doom::Never,
            disk: Disk::Fine,
            dice: Entropy::seeded(seed),
            log: Log::default(),
        }
    }

    /// What was committed so far can no longer be lost.
    pub(crate) fn settle(&mut self) {
        self.before.clear();
    }

    /// Loses its last writes, as far as any were made, and comes up as another physical store. Says how many.
    pub(crate) fn fail_over(&mut self, loss: Loss, handover: Handover) -> usize {
        let lost = match loss {
            Loss::Writes(count) => count,
            Loss::Takeover => self.since_takeover.unwrap_or(0),
        };
        let lost = lost.min(self.before.len());
        let kept = self.before.len() - lost;
        if let Some(rows) = self.before.drain(kept..).next() {
            self.rows = rows;
        }
        self.since_takeover = None;
        self.life += 1;
        let right_ms = self.clock.right_ms();
        let least_ms = self.granted_at_ms.saturating_sub(handover.behind_ms);
        let is_late = right_ms > least_ms + handover.late_ms_max;
        let shown_ms = if is_late { right_ms } else { least_ms };
        self.clock.set_error_ms(shown_ms as i64 - right_ms as i64);
        if let Some(pool) = &mut self.rows.pool {
            (self.rules.bump)(pool, shown_ms);
        }
        // Not the new clock alone: the next failover may lose this bump too, and a guard holds between any two stores.
        self.granted_at_ms = self.granted_at_ms.max(shown_ms);
        self.doom = Doom::Never;
        self.disk = Disk::Fine;
        lost
    }

    /// What an operator does after a failover: all counters go above `floor`, and count again.
    pub(crate) fn raise_all(&mut self, floor: u64) -> Result<(), StoreError> {
        let life = self.life;
        self.write(|rows, _| {
            for counter in rows.counters.values_mut() {
                protocol::raise(&mut counter.row, floor)?;
                counter.life = life;
            }
            Ok(())
        })
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
        let (done, fate) = self.attempt(op)?;
        fate.told(done)
    }

    /// Runs `op` on the rows, and says what became of its writes beside what it answers.
    fn attempt<T>(
        &mut self,
        op: impl FnOnce(&mut Rows, u64) -> Result<T, StoreError>,
    ) -> Result<(T, Fate), StoreError> {
        let mut rows = self.rows.clone();
        let now_ms = self.clock.unix_ms();
        let done = op(&mut rows, now_ms)?;
        let is_written = match self.disk {
            Disk::Fine => true,
            Disk::Full => false,
            Disk::Failing => self.dice.draw_u64().unwrap().is_multiple_of(2),
        };
        if is_written {
            self.commit(rows);
        }
        let is_believed = self.disk == Disk::Fine || self.rules.believes_failed_writes;
        Ok((done, Fate { is_written, is_believed }))
    }

    fn commit(&mut self, rows: Rows) {
        self.before.push_back(std::mem::replace(&mut self.rows, rows));
        if self.before.len() > LOST_WRITES_MAX {
            self.before.pop_front();
        }
        self.since_takeover = self.since_takeover.map(|writes| writes + 1);
        match self.doom {
            Doom::After(0) => self.is_down = true,
            Doom::After(writes) => self.doom = Doom::After(writes - 1),
            Doom::AfterTakeoverOf(..) | Doom::Never => {}
        }
    }

    /// A worker id was claimed that its last holder had not given back: it may not know yet.
    fn note_takeover(&mut self, worker: u32) {
        self.since_takeover = Some(1);
        match self.doom {
            Doom::AfterTakeoverOf(id, writes) if id == worker => self.doom = Doom::After(writes),
            _ => {}
        }
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
        let (lease, was_held, now_ms) = self.write(|rows, now_ms| {
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
            let was_held = row.holder.is_some_and(|token| Some(token) != holder.previous);
            let (lease, _) = protocol::claim(&mut pool, &mut row, whole, holder, terms, now_ms)?;
            rows.pool = Some(pool);
            rows.workers.insert(worker, row);
            Ok((lease, was_held, now_ms))
        })?;
        if was_held {
            self.note_takeover(lease.worker);
        }
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
        let (end_ms, fate) = self.attempt(|rows, now_ms| {
            let pool = rows.pool.as_mut().ok_or_else(|| protocol::lost_worker(lease))?;
            let row = rows.workers.get_mut(&lease.worker).ok_or_else(|| protocol::lost_worker(lease))?;
            (rules.release)(pool, row, lease, first_unused_ms, terms, now_ms)
        })?;
        // The floor is lower, whether anybody hears of it or not.
        if let Some(claimed) = self.log.claim_of(lease).filter(|_| fate.is_written) {
            claimed.window.end = claimed.window.end.min(end_ms);
        }
        fate.told(())
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
        self.log.ranges.push(range.start..range.end);
        Ok(range)
    }

    pub(crate) fn give_back(&mut self, tail: &IdRange) -> Result<bool, StoreError> {
        let (life, rules) = (self.life, self.rules);
        let (is_taken, fate) = self.attempt(|rows, _| {
            let Some(counter) = rows.counters.get_mut(&tail.sequence) else { return Ok(false) };
            if rules.ranges_know_the_life && counter.life != life {
                return Ok(false);
            }
            Ok(protocol::give_back(&mut counter.row, tail))
        })?;
        // What goes back may be the end of one range and all of the next.
        let is_smaller = is_taken && fate.is_written;
        let cut = |range: &&mut std::ops::Range<u64>| range.end > tail.start && range.start < tail.end;
        for range in self.log.ranges.iter_mut().filter(|_| is_smaller).filter(cut) {
            range.end = tail.start.max(range.start);
        }
        fate.told(is_taken)
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
