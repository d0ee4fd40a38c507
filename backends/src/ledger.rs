//! The whole state of a small store as one plain value, and the operations on it.
//!
//! Each operation works on copies of the rows it needs and puts them back only when nothing can fail any more, so an error
//! leaves the ledger as it was. Who keeps a ledger makes that durable and calls one operation at a time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZeroU32,
};

use mintage_core::{
    Format, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseTerms, RangeHistory, Sequence, SequenceRow,
    StoreError, StoreErrorKind, TokenRow, TokenState, WorkerChoice, WorkerPool,
    protocol::{self, HISTORY_KEPT_MS, PoolRow, UNLISTED, WorkerRow},
};

#[cfg(feature = "file")]
use crate::sound::Sound;
use crate::{
    ranges::{self, RangeRow},
    rules::{self, ANSWERS_KEPT_MS, Answer, Records, refused},
    seen::{SeenPool, SeenSequence},
};

/// How many grants a pool's history holds: the ledger is copied whole at every write of a file, and this keeps it near 1 MB.
/// Beyond it the grant that ended first is forgotten.
const GRANTS_MAX: usize = 10_000;

/// How many ranges the history of a sequence holds, for the same reason, and because a range is cut far more often than a worker
/// id is claimed.
const RANGES_MAX: usize = 1_000;

/// How many of all sequences together: beyond it the range that was cut first is forgotten.
const RANGES_SUM_MAX: usize = 5_000;

/// How many answers to idempotency keys are kept, for the same reason. They must not be forgotten early: beyond it a key is
/// refused.
const ANSWERS_MAX: usize = 10_000;

/// How many tokens are kept, for the same reason. Beyond it those that nobody can use any more are forgotten, which changes no
/// answer: unknown, expired and revoked tokens are refused alike.
const TOKENS_MAX: usize = 10_000;

/// Pools, sequences, answers, formats and tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "file", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub(crate) struct Ledger {
    /// By pool name, then by region.
    pools: BTreeMap<String, BTreeMap<String, Pool>>,
    sequences: BTreeMap<String, SequenceRow>,
    /// By sequence, then by key.
    answers: BTreeMap<String, BTreeMap<String, Answer>>,
    /// By entity, as the text of a [`Format`].
    formats: BTreeMap<String, String>,
    /// By entity, then by hash in hexadecimal digits. States of schema version 1 have none.
    #[cfg_attr(feature = "file", serde(default))]
    tokens: BTreeMap<String, BTreeMap<String, Token>>,
    /// The sequences that wait to be raised, `*` among them for those that are not there. States before schema version 3 have none.
    #[cfg_attr(feature = "file", serde(default))]
    stopped: BTreeSet<String>,
    /// When somebody said that nothing is missing, Unix ms; 0 where nobody had to.
    #[cfg_attr(feature = "file", serde(default))]
    complete_since_ms: u64,
    /// By sequence, the first cut first. States before schema version 3 have none.
    #[cfg_attr(feature = "file", serde(default))]
    ranges: BTreeMap<String, VecDeque<RangeRow>>,
}

/// A pool in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "file", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
struct Pool {
    row: PoolRow,
    workers: BTreeMap<u32, WorkerRow>,
    grants: Vec<GrantRow>,
}

/// A [`Grant`] as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "file", feature = "cells"),
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(crate) struct GrantRow {
    worker: u32,
    inc: u64,
    epoch: u64,
    instance: String,
    from_ms: u64,
    to_ms: u64,
}

/// A [`TokenRow`] as it is kept, under its entity and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "file", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
struct Token {
    id: String,
    scopes: Vec<String>,
    label: String,
    issued_ms: u64,
    expires_ms: Option<u64>,
    revoked_ms: Option<u64>,
}

/// Ranges.
impl Ledger {
    pub(crate) fn create(&mut self, sequence: &Sequence) -> Result<(), StoreError> {
        let row = protocol::new_sequence(sequence)?;
        if !self.sequences.contains_key(&sequence.name) {
            rules::may_be_made(sequence, self.records())?;
            self.sequences.insert(sequence.name.clone(), row);
        }
        Ok(())
    }

    pub(crate) fn restore(&mut self, sequence: &Sequence) -> Result<(), StoreError> {
        let row = protocol::restored_sequence(sequence)?;
        self.sequences.entry(sequence.name.clone()).or_insert(row);
        Ok(())
    }

    fn records(&self) -> Records {
        Records::of(!self.stopped.contains(UNLISTED), self.complete_since_ms)
    }

    pub(crate) fn allocate(
        &mut self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
        seen: SeenSequence,
        instance: &str,
        now_ms: u64,
    ) -> Result<IdRange, StoreError> {
        let mut row = self.sequences.get(&sequence.name).cloned().ok_or_else(|| protocol::lost_sequence(sequence))?;
        if self.stopped.contains(&sequence.name) {
            return Err(rules::stopped(&row));
        }
        seen.check(&row)?;
        let Some(key) = key else {
            let (range, _) = rules::allocate(&mut row, sequence, len, None)?;
            self.sequences.insert(sequence.name.clone(), row);
            self.keep_range(&range, instance, now_ms);
            return Ok(range);
        };
        self.forget_old_answers(now_ms);
        let answer = self.answers.get(&sequence.name).and_then(|answers| answers.get(key.as_str()));
        let (range, new) = rules::allocate(&mut row, sequence, len, answer)?;
        if !new {
            return Ok(range);
        }
        if self.answers.values().map(BTreeMap::len).sum::<usize>() >= ANSWERS_MAX {
            return Err(refused(format!(
                "{ANSWERS_MAX} idempotency keys came within a day, more than this kind of store keeps: use sqlite:PATH"
            )));
        }
        let answer =
            Answer { asked: len.get(), start: range.start, end: range.end, version: range.version, made_ms: now_ms };
        self.answers.entry(sequence.name.clone()).or_default().insert(key.as_str().to_owned(), answer);
        self.sequences.insert(sequence.name.clone(), row);
        self.keep_range(&range, instance, now_ms);
        Ok(range)
    }

    pub(crate) fn give_back(&mut self, tail: &IdRange) -> bool {
        let mut answers = self.answers.get(&tail.sequence).into_iter().flat_map(BTreeMap::values);
        if answers.any(|answer| answer.version == tail.version) {
            // A repeat of its key would hand these numbers out a second time.
            return false;
        }
        if self.stopped.contains(&tail.sequence) {
            // What the counter has forgotten may lie above this tail.
            return false;
        }
        let taken = self.sequences.get_mut(&tail.sequence).is_some_and(|row| protocol::give_back(row, tail));
        if taken && let Some(kept) = self.ranges.get_mut(&tail.sequence) {
            ranges::shorten(kept, tail.start);
        }
        taken
    }

    pub(crate) fn raise(&mut self, sequence: &Sequence, floor: u64, now_ms: u64) -> Result<(), StoreError> {
        if sequence.name == UNLISTED {
            self.stopped.remove(UNLISTED);
            self.complete_since_ms = now_ms;
            return Ok(());
        }
        let row = self.sequences.get_mut(&sequence.name).ok_or_else(|| protocol::lost_sequence(sequence))?;
        protocol::raise(row, floor)?;
        self.stopped.remove(&sequence.name);
        Ok(())
    }

    pub(crate) fn stop_all(&mut self) {
        self.stopped.extend(self.sequences.keys().cloned());
        self.stopped.insert(UNLISTED.to_owned());
    }

    pub(crate) fn waiting(&self) -> Vec<String> {
        self.stopped.iter().cloned().collect()
    }

    pub(crate) fn sequences(&self) -> Vec<SequenceRow> {
        self.sequences.values().cloned().collect()
    }

    pub(crate) fn range_history(&self, sequence: &str, number: u64) -> RangeHistory {
        let kept = self.ranges.get(sequence);
        let mut history = RangeHistory::of(kept.map_or(Vec::new(), |kept| RangeRow::holding(kept, number)));
        if kept.is_some_and(|kept| kept.len() >= RANGES_MAX) || self.ranges_kept() >= RANGES_SUM_MAX {
            history.lack = Some(format!(
                "this kind of store keeps the last {RANGES_MAX} ranges of a sequence, and the last {RANGES_SUM_MAX} of all; older \
                 ones were dropped: sqlite:PATH and the database servers keep them for 400 days"
            ));
        }
        history
    }

    fn ranges_kept(&self) -> usize {
        self.ranges.values().map(VecDeque::len).sum()
    }

    fn keep_range(&mut self, range: &IdRange, instance: &str, now_ms: u64) {
        // Of all of them: the sequence of a period that is over is never cut again.
        for kept in self.ranges.values_mut() {
            while kept.front().is_some_and(|row| row.is_too_old(now_ms)) {
                kept.pop_front();
            }
        }
        self.ranges.retain(|_, kept| !kept.is_empty());
        let kept = self.ranges.entry(range.sequence.clone()).or_default();
        if kept.len() >= RANGES_MAX {
            kept.pop_front();
        }
        kept.push_back(RangeRow::new(range, instance, now_ms));
        if self.ranges_kept() > RANGES_SUM_MAX {
            let first = |kept: &&mut VecDeque<RangeRow>| kept.front().map_or(u64::MAX, |row| row.at_ms);
            self.ranges.values_mut().min_by_key(first).and_then(VecDeque::pop_front);
        }
    }

    fn forget_old_answers(&mut self, now_ms: u64) {
        for answers in self.answers.values_mut() {
            answers.retain(|_, answer| answer.made_ms.saturating_add(ANSWERS_KEPT_MS) >= now_ms);
        }
        self.answers.retain(|_, answers| !answers.is_empty());
    }
}

/// Leases.
impl Ledger {
    pub(crate) fn acquire(
        &mut self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
        seen: SeenPool,
        now_ms: u64,
    ) -> Result<Lease, StoreError> {
        let regions = self.pools.get(&pool.name);
        let known = regions.and_then(|regions| regions.get(&pool.region));
        let mut row = match known {
            Some(known) => known.row.clone(),
            None => self.new_region(pool, seen, now_ms)?,
        };
        row.admits(pool, terms)?;
        let workers = known.map(Pool::all_workers).unwrap_or_default();
        let worker = protocol::choose(&row, &workers, which, holder, terms, now_ms)?;
        let known_row = workers.into_iter().find(|row| row.worker == worker);
        let mut claimed = known_row.unwrap_or_else(|| WorkerRow::unused(worker));
        let (lease, grant) = protocol::claim(&mut row, &mut claimed, pool, holder, terms, now_ms)?;
        let kept = self
            .pools
            .entry(pool.name.clone())
            .or_default()
            .entry(pool.region.clone())
            .or_insert_with(|| Pool { row: row.clone(), workers: BTreeMap::new(), grants: Vec::new() });
        kept.row = row;
        kept.workers.insert(worker, claimed);
        kept.grants.push(GrantRow::from(grant));
        kept.forget_old_grants(now_ms);
        Ok(lease)
    }

    pub(crate) fn renew(
        &mut self,
        lease: &Lease,
        holder: &Holder,
        terms: &LeaseTerms,
        now_ms: u64,
    ) -> Result<Lease, StoreError> {
        let (pool, worker) = self.leased(lease)?;
        let (mut row, mut held) = (pool.row.clone(), worker);
        let longer = protocol::extend(&mut row, &mut held, lease, holder, terms, now_ms)?;
        pool.end_grant(lease, held.floor_ms);
        pool.row = row;
        pool.workers.insert(held.worker, held);
        Ok(longer)
    }

    pub(crate) fn release(
        &mut self,
        lease: &Lease,
        first_unused_ms: u64,
        terms: &LeaseTerms,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let (pool, mut held) = self.leased(lease)?;
        let end_ms = protocol::release(&pool.row, &mut held, lease, first_unused_ms, terms, now_ms)?;
        pool.end_grant(lease, end_ms);
        pool.workers.insert(held.worker, held);
        Ok(())
    }

    pub(crate) fn revoke(&mut self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        let kept = self.pool_mut(&pool.name, &pool.region).ok_or_else(|| rules::no_pool(pool))?;
        let known = kept.all_workers().into_iter().find(|row| row.worker == worker);
        let barred = rules::revoke(pool, &kept.row, worker, known)?;
        kept.workers.insert(worker, barred);
        Ok(())
    }

    pub(crate) fn free(&mut self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        let kept = self.pool_mut(&pool.name, &pool.region).ok_or_else(|| rules::no_pool(pool))?;
        if let Some(freed) = rules::free(pool, &kept.row, worker, kept.workers.get(&worker).cloned())? {
            kept.workers.insert(worker, freed);
        }
        Ok(())
    }

    pub(crate) fn bump(&mut self, pool: &WorkerPool, now_ms: u64) -> Result<(), StoreError> {
        let kept = self.pool_mut(&pool.name, &pool.region).ok_or_else(|| rules::no_pool(pool))?;
        rules::not_behind(&pool.name, &kept.row, now_ms)?;
        protocol::bump(&mut kept.row, now_ms);
        Ok(())
    }

    pub(crate) fn bump_all(&mut self, now_ms: u64) -> Result<(), StoreError> {
        for (name, regions) in &mut self.pools {
            for kept in regions.values_mut() {
                rules::not_behind(name, &kept.row, now_ms)?;
                protocol::bump(&mut kept.row, now_ms);
            }
        }
        self.stopped.insert(UNLISTED.to_owned());
        Ok(())
    }

    fn new_region(&self, pool: &WorkerPool, seen: SeenPool, now_ms: u64) -> Result<PoolRow, StoreError> {
        let others = self.pools.get(&pool.name).into_iter().flatten();
        let others = others.map(|(region, other)| (region.as_str(), &other.row));
        rules::new_region(pool, others, self.records(), seen, now_ms)
    }

    /// Makes a pool that may have been forgotten, and says whether it did. It is kept whatever becomes of the claim: made anew by
    /// each attempt it would never be free.
    pub(crate) fn make_lost(
        &mut self,
        pool: &WorkerPool,
        terms: &LeaseTerms,
        seen: SeenPool,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        if self.records() != Records::Unsure || self.pool_mut(&pool.name, &pool.region).is_some() {
            return Ok(false);
        }
        let row = self.new_region(pool, seen, now_ms)?;
        row.admits(pool, terms)?;
        let made = Pool { row, workers: BTreeMap::new(), grants: Vec::new() };
        self.pools.entry(pool.name.clone()).or_default().insert(pool.region.clone(), made);
        Ok(true)
    }

    /// Bumps a pool that is older than what was seen of it, and says whether it did.
    pub(crate) fn catch_up(&mut self, pool: &str, region: &str, seen: SeenPool, now_ms: u64) -> bool {
        let Some(kept) = self.pool_mut(pool, region).filter(|kept| seen.is_ahead_of(&kept.row)) else { return false };
        seen.bump(&mut kept.row, now_ms);
        true
    }

    pub(crate) fn leases(&self, pool: &WorkerPool) -> Vec<LeaseRow> {
        let kept = self.pools.get(&pool.name).and_then(|regions| regions.get(&pool.region));
        let described = |kept: &Pool| {
            let floor_min_ms = kept.row.floor_min_ms;
            kept.workers.values().map(|row| row.describe().not_before(floor_min_ms)).collect()
        };
        kept.map(described).unwrap_or_default()
    }

    pub(crate) fn history(&self, pool: &WorkerPool, at_ms: u64) -> Vec<Grant> {
        let kept = self.pools.get(&pool.name).and_then(|regions| regions.get(&pool.region));
        let grants = kept.into_iter().flat_map(|kept| &kept.grants);
        let mut grants: Vec<Grant> =
            grants.filter(|grant| (grant.from_ms..grant.to_ms).contains(&at_ms)).map(GrantRow::describe).collect();
        grants.sort_by_key(|grant| (grant.worker, grant.window.start));
        grants
    }

    pub(crate) fn history_lack(&self, pool: &WorkerPool) -> Option<String> {
        let kept = self.pools.get(&pool.name).and_then(|regions| regions.get(&pool.region))?;
        (kept.grants.len() >= GRANTS_MAX).then(|| {
            format!(
                "this kind of store keeps the last {GRANTS_MAX} grants of a pool; older ones were dropped: sqlite:PATH and the \
                 database servers keep them for 400 days"
            )
        })
    }

    fn pool_mut(&mut self, pool: &str, region: &str) -> Option<&mut Pool> {
        self.pools.get_mut(pool)?.get_mut(region)
    }

    /// The pool of a lease and a copy of its worker's row.
    fn leased(&mut self, lease: &Lease) -> Result<(&mut Pool, WorkerRow), StoreError> {
        let pool = self.pool_mut(&lease.pool, &lease.region).ok_or_else(|| protocol::lost_worker(lease))?;
        let worker = pool.workers.get(&lease.worker).cloned().ok_or_else(|| protocol::lost_worker(lease))?;
        Ok((pool, worker))
    }
}

/// Formats.
impl Ledger {
    pub(crate) fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.formats.get(entity).map(|text| text.parse()).transpose()
    }

    pub(crate) fn pin(&mut self, entity: &str, format: &Format) -> Result<(), StoreError> {
        if let Some(recorded) = self.pinned(entity)? {
            format.agrees_with(&recorded, entity)?;
            if !format.grows_beyond(&recorded) {
                return Ok(());
            }
        }
        self.formats.insert(entity.to_owned(), rules::format_text(entity, format)?);
        Ok(())
    }
}

/// Tokens.
impl Ledger {
    pub(crate) fn keep_token(&mut self, row: &TokenRow, now_ms: u64) -> Result<(), StoreError> {
        row.check()?;
        let hash = hex(&row.hash);
        let kept = self.tokens.get(&row.entity);
        let clashes =
            |kept: &BTreeMap<String, Token>| kept.contains_key(&hash) || kept.values().any(|token| token.id == row.id);
        if kept.is_some_and(clashes) {
            return Err(rules::token_is_there(row));
        }
        if self.token_count() >= TOKENS_MAX {
            self.forget_useless_tokens(now_ms);
        }
        if self.token_count() >= TOKENS_MAX {
            return Err(refused(format!(
                "{TOKENS_MAX} tokens are in use, the most this kind of store keeps: revoke some, or use sqlite:PATH"
            )));
        }
        self.tokens.entry(row.entity.clone()).or_default().insert(hash, Token::from(row));
        Ok(())
    }

    pub(crate) fn find_token(&self, entity: &str, hash: &[u8; 32]) -> Option<TokenRow> {
        self.tokens.get(entity)?.get(&hex(hash)).map(|token| token.describe(entity, *hash))
    }

    /// # Errors
    /// `Corrupt` where a hash is not one.
    pub(crate) fn tokens(&self, entity: &str) -> Result<Vec<TokenRow>, StoreError> {
        let kept = self.tokens.get(entity).into_iter().flatten();
        let mut rows = kept
            .map(|(hash, token)| Some(token.describe(entity, unhex(hash)?)))
            .collect::<Option<Vec<TokenRow>>>()
            .ok_or_else(senseless_token)?;
        rows.sort_by(|one, other| (one.issued_ms, &one.id).cmp(&(other.issued_ms, &other.id)));
        Ok(rows)
    }

    pub(crate) fn revoke_token(&mut self, entity: &str, id: &str, at_ms: u64) -> bool {
        let token = self.tokens.get_mut(entity).and_then(|kept| kept.values_mut().find(|token| token.id == id));
        let Some(token) = token else { return false };
        token.revoked_ms.get_or_insert(at_ms);
        true
    }

    pub(crate) fn prune_tokens(&mut self, entity: &str, dead_by_ms: u64) -> u64 {
        let Some(kept) = self.tokens.get_mut(entity) else { return 0 };
        let before = kept.len();
        kept.retain(|_, token| {
            token.describe("", [0; 32]).dead_since_ms().is_none_or(|since_ms| since_ms > dead_by_ms)
        });
        let forgotten = before - kept.len();
        if kept.is_empty() {
            self.tokens.remove(entity);
        }
        // At most as many as there were.
        forgotten as u64
    }

    fn token_count(&self) -> usize {
        self.tokens.values().map(BTreeMap::len).sum()
    }

    fn forget_useless_tokens(&mut self, now_ms: u64) {
        for kept in self.tokens.values_mut() {
            kept.retain(|_, token| token.describe("", [0; 32]).state(now_ms) == TokenState::Active);
        }
        self.tokens.retain(|_, kept| !kept.is_empty());
    }
}

#[cfg(feature = "file")]
impl Sound for Ledger {
    fn sound(&self) -> Result<(), StoreError> {
        for pool in self.pools.values().flat_map(BTreeMap::values) {
            pool.row.sound()?;
            pool.workers.values().try_for_each(Sound::sound)?;
            if pool.workers.iter().any(|(worker, row)| *worker != row.worker) {
                return Err(rules::corrupt("a worker id is filed under another number: restore the store".to_owned()));
            }
        }
        self.sequences.values().try_for_each(Sound::sound)?;
        if self.sequences.iter().any(|(name, row)| *name != row.name) {
            return Err(rules::corrupt("a sequence is filed under another name: restore the store".to_owned()));
        }
        self.answers.values().flat_map(BTreeMap::values).try_for_each(Sound::sound)?;
        self.formats.values().try_for_each(|text| text.parse::<Format>().map(drop))?;
        for entity in self.tokens.keys() {
            for row in self.tokens(entity)? {
                row.check().map_err(|fault| senseless_token().caused_by(fault))?;
            }
        }
        Ok(())
    }
}

impl Pool {
    /// The worker ids claimed so far. One whose row was deleted by hand is as its history tells.
    fn all_workers(&self) -> Vec<WorkerRow> {
        let mut deleted: BTreeMap<u32, WorkerRow> = BTreeMap::new();
        for grant in self.grants.iter().filter(|grant| !self.workers.contains_key(&grant.worker)) {
            let row = deleted.entry(grant.worker).or_insert_with(|| WorkerRow::unused(grant.worker));
            rules::remember(row, &grant.describe());
        }
        self.workers.values().cloned().chain(deleted.into_values()).collect()
    }

    /// Moves the end of a lease's grant: renewed or released.
    fn end_grant(&mut self, lease: &Lease, end_ms: u64) {
        let of_lease = |grant: &&mut GrantRow| {
            grant.worker == lease.worker && grant.inc == lease.fence.inc && grant.epoch == lease.fence.epoch
        };
        // The newest claims are the ones that renew: they stand last.
        if let Some(grant) = self.grants.iter_mut().rev().find(of_lease) {
            grant.to_ms = end_ms;
        }
    }

    fn forget_old_grants(&mut self, now_ms: u64) {
        self.grants.retain(|grant| grant.to_ms.saturating_add(HISTORY_KEPT_MS) >= now_ms);
        while self.grants.len() > GRANTS_MAX {
            let ended_first = self.grants.iter().enumerate().min_by_key(|(_, grant)| grant.to_ms).map(|(at, _)| at);
            self.grants.remove(ended_first.unwrap_or(0));
        }
    }
}

impl From<Grant> for GrantRow {
    fn from(grant: Grant) -> Self {
        let Grant { worker, inc, epoch, instance, window, .. } = grant;
        Self { worker, inc, epoch, instance, from_ms: window.start, to_ms: window.end }
    }
}

impl GrantRow {
    pub(crate) fn describe(&self) -> Grant {
        Grant::new(self.worker, self.inc, self.epoch, self.instance.clone(), self.from_ms..self.to_ms)
    }
}

impl From<&TokenRow> for Token {
    fn from(row: &TokenRow) -> Self {
        let TokenRow { id, scopes, label, issued_ms, expires_ms, revoked_ms, .. } = row.clone();
        Self { id, scopes, label, issued_ms, expires_ms, revoked_ms }
    }
}

impl Token {
    fn describe(&self, entity: &str, hash: [u8; 32]) -> TokenRow {
        let mut row = TokenRow::new(entity, &self.id, hash, self.issued_ms);
        row.scopes.clone_from(&self.scopes);
        row.label.clone_from(&self.label);
        (row.expires_ms, row.revoked_ms) = (self.expires_ms, self.revoked_ms);
        row
    }
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`hex`] wrote, and no other spelling.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (hex(&hash) == text).then_some(hash)
}

fn senseless_token() -> StoreError {
    StoreError::new(
        StoreErrorKind::Corrupt,
        "a token in the store makes no sense: something else wrote it, restore the store from a backup",
    )
}

/// The answer of an operation whose ledger is kept: also where it failed, if a pool was bumped before.
pub(crate) fn kept<T>(bumped: bool, answer: Result<T, StoreError>) -> Result<Result<T, StoreError>, StoreError> {
    match answer {
        Err(error) if !bumped => Err(error),
        answer => Ok(answer),
    }
}

/// Implements the four store traits for a type with a method `run(op)`, which calls `op(&mut Ledger, now_ms)` alone and
/// answers when the ledger is kept, and the fields `seen`, what this process was told, and `instance`, its name in the history of
/// ranges.
macro_rules! keeps_a_ledger {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl mintage_core::RangeStore for $store {
            async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
                let sequence = sequence.clone();
                self.run(move |ledger, _| ledger.create(&sequence)).await
            }

            async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
                let sequence = sequence.clone();
                self.run(move |ledger, _| ledger.restore(&sequence)).await
            }

            async fn allocate(
                &self,
                sequence: &Sequence,
                len: NonZeroU32,
                key: Option<&IdempotencyKey>,
            ) -> Result<IdRange, StoreError> {
                let (sequence, key, instance) = (sequence.clone(), key.cloned(), self.instance.clone());
                // Asked before the state is read: what other calls see meanwhile may come after it.
                let seen = self.seen.sequence(&sequence.name);
                let cut = self
                    .run(move |ledger, now_ms| ledger.allocate(&sequence, len, key.as_ref(), seen, &instance, now_ms));
                let range = cut.await?;
                self.seen.saw_range(&range);
                Ok(range)
            }

            async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
                self.run(move |ledger, _| Ok(ledger.give_back(&tail))).await
            }

            async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
                let sequence = sequence.clone();
                self.run(move |ledger, now_ms| ledger.raise(&sequence, floor, now_ms)).await
            }

            async fn stop_all(&self) -> Result<bool, StoreError> {
                self.run(|ledger, _| Ok(ledger.stop_all())).await.map(|()| true)
            }

            async fn waiting(&self) -> Result<Vec<String>, StoreError> {
                self.run(|ledger, _| Ok(ledger.waiting())).await
            }

            async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
                self.run(|ledger, _| Ok(ledger.sequences())).await
            }

            async fn range_history(
                &self,
                sequence: &str,
                number: u64,
            ) -> Result<mintage_core::RangeHistory, StoreError> {
                let sequence = sequence.to_owned();
                self.run(move |ledger, _| Ok(ledger.range_history(&sequence, number))).await
            }
        }

        #[async_trait::async_trait]
        impl mintage_core::LeaseStore for $store {
            async fn acquire(
                &self,
                pool: &WorkerPool,
                which: WorkerChoice,
                holder: &Holder,
                terms: &LeaseTerms,
            ) -> Result<Lease, StoreError> {
                let (pool, holder, terms) = (pool.clone(), holder.clone(), *terms);
                let seen = self.seen.pool(&pool.name, &pool.region);
                let claim = self.run(move |ledger, now_ms| {
                    let bumped = ledger.catch_up(&pool.name, &pool.region, seen, now_ms)
                        || ledger.make_lost(&pool, &terms, seen, now_ms)?;
                    kept(bumped, ledger.acquire(&pool, which, &holder, &terms, seen, now_ms))
                });
                let lease = claim.await??;
                self.seen.saw_lease(&lease);
                Ok(lease)
            }

            async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
                let (lease, holder, terms) = (lease.clone(), holder.clone(), *terms);
                let seen = self.seen.pool(&lease.pool, &lease.region);
                let renewal = self.run(move |ledger, now_ms| {
                    let bumped = ledger.catch_up(&lease.pool, &lease.region, seen, now_ms);
                    kept(bumped, ledger.renew(&lease, &holder, &terms, now_ms))
                });
                let longer = renewal.await??;
                self.seen.saw_lease(&longer);
                Ok(longer)
            }

            async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
                let terms = *terms;
                let seen = self.seen.pool(&lease.pool, &lease.region);
                let release = self.run(move |ledger, now_ms| {
                    let bumped = ledger.catch_up(&lease.pool, &lease.region, seen, now_ms);
                    kept(bumped, ledger.release(&lease, first_unused_ms, &terms, now_ms))
                });
                release.await?
            }

            async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, _| ledger.revoke(&pool, worker)).await
            }

            async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, _| ledger.free(&pool, worker)).await
            }

            async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, now_ms| ledger.bump(&pool, now_ms)).await
            }

            async fn bump_all(&self) -> Result<bool, StoreError> {
                self.run(|ledger, now_ms| ledger.bump_all(now_ms)).await.map(|()| true)
            }

            async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, _| Ok(ledger.leases(&pool))).await
            }

            async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, _| Ok(ledger.history(&pool, at_ms))).await
            }

            fn has_clock(&self) -> bool {
                false
            }

            async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
                let pool = pool.clone();
                self.run(move |ledger, _| Ok(ledger.history_lack(&pool))).await
            }
        }

        #[async_trait::async_trait]
        impl mintage_core::FormatStore for $store {
            async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
                let entity = entity.to_owned();
                self.run(move |ledger, _| ledger.pinned(&entity)).await
            }

            async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
                let (entity, format) = (entity.to_owned(), format.clone());
                self.run(move |ledger, _| ledger.pin(&entity, &format)).await
            }
        }

        #[async_trait::async_trait]
        impl mintage_core::TokenStore for $store {
            async fn insert(&self, row: &TokenRow) -> Result<(), StoreError> {
                let row = row.clone();
                self.run(move |ledger, now_ms| ledger.keep_token(&row, now_ms)).await
            }

            async fn find(&self, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
                let (entity, hash) = (entity.to_owned(), *hash);
                self.run(move |ledger, _| Ok(ledger.find_token(&entity, &hash))).await
            }

            async fn list(&self, entity: &str) -> Result<Vec<TokenRow>, StoreError> {
                let entity = entity.to_owned();
                self.run(move |ledger, _| ledger.tokens(&entity)).await
            }

            async fn revoke(&self, entity: &str, id: &str, at_ms: u64) -> Result<bool, StoreError> {
                let (entity, id) = (entity.to_owned(), id.to_owned());
                self.run(move |ledger, _| Ok(ledger.revoke_token(&entity, &id, at_ms))).await
            }

            async fn prune(&self, entity: &str, dead_by_ms: u64) -> Result<u64, StoreError> {
                let entity = entity.to_owned();
                self.run(move |ledger, _| Ok(ledger.prune_tokens(&entity, dead_by_ms))).await
            }
        }
    };
}
pub(crate) use keeps_a_ledger;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    #[test]
    fn history_forgets_what_ended_first() {
        let mut ledger = Ledger::default();
        let pool = WorkerPool::new("main", 0..1);
        let terms = LeaseTerms::new(1_000, 1_000, 0, 0);
        let claims = u64::try_from(GRANTS_MAX).unwrap() + 2;
        for nth in 0..claims {
            let holder = Holder::new(1, "host", 0);
            ledger
                .acquire(&pool, WorkerChoice::Any, &holder, &terms, SeenPool::default(), NOW_MS + 1_000 * nth)
                .unwrap();
        }
        let known = |nth: u64| ledger.history(&pool, NOW_MS + 1_000 * nth).len();
        assert_eq!([known(0), known(1), known(2), known(claims - 1)], [0, 0, 1, 1]);
        let lack = ledger.history_lack(&pool).unwrap();
        assert!(lack.contains("the last 10000 grants of a pool"), "{lack}");
        assert_eq!(ledger.history_lack(&WorkerPool::new("other", 0..1)), None);
    }

    #[test]
    fn ranges_are_forgotten_after_a_thousand_or_400_days() {
        let mut ledger = Ledger::default();
        let sequence = Sequence::new("orders", 0);
        ledger.create(&sequence).unwrap();
        let cut = |ledger: &mut Ledger, now_ms: u64| {
            ledger.allocate(&sequence, NonZeroU32::MIN, None, SeenSequence::default(), "billing-3", now_ms).unwrap();
        };
        cut(&mut ledger, NOW_MS);
        cut(&mut ledger, NOW_MS + HISTORY_KEPT_MS);
        assert_eq!(ledger.range_history("orders", 0).grants.len(), 1, "400 days are kept");
        cut(&mut ledger, NOW_MS + HISTORY_KEPT_MS + 1);
        let [gone, kept] = [0, 1].map(|number| ledger.range_history("orders", number));
        assert_eq!((gone, kept.lack.clone()), (RangeHistory::default(), None));
        assert_eq!((kept.grants[0].instance.as_str(), kept.grants[0].at_ms), ("billing-3", NOW_MS + HISTORY_KEPT_MS));

        for _ in 0..RANGES_MAX {
            cut(&mut ledger, NOW_MS + HISTORY_KEPT_MS + 2);
        }
        assert_eq!(ledger.ranges["orders"].len(), RANGES_MAX);
        let gone = ledger.range_history("orders", 2);
        assert!(gone.grants.is_empty() && gone.lack.is_some_and(|lack| lack.contains("last 1000 ranges")));
        assert_eq!(ledger.range_history("orders", 3).grants.len(), 1);
    }

    /// Somebody took the row out of the state by hand; the history still tells what it did.
    #[test]
    fn a_deleted_worker_id_keeps_its_floor() {
        let mut ledger = Ledger::default();
        let (pool, terms) = (WorkerPool::new("main", 0..2), LeaseTerms::new(1_000, 500, 0, 0));
        let claim = |ledger: &mut Ledger, nth: u128, now_ms: u64| {
            ledger.acquire(&pool, WorkerChoice::Any, &Holder::new(nth, "host", 0), &terms, SeenPool::default(), now_ms)
        };
        let before = claim(&mut ledger, 1, NOW_MS).unwrap();
        ledger.pools.get_mut("main").unwrap().get_mut("").unwrap().workers.clear();
        ledger.revoke(&pool, 0).unwrap();
        ledger.free(&pool, 0).unwrap();
        assert_eq!(claim(&mut ledger, 2, NOW_MS).unwrap().worker, 1, "the id whose window is not over comes last");
        assert!(claim(&mut ledger, 3, NOW_MS).is_err());
        let after = claim(&mut ledger, 3, before.window.end).unwrap();
        assert_eq!((after.worker, after.fence.epoch), (before.worker, before.fence.epoch + 1));
        assert!(after.window.start >= before.window.end);
    }

    #[test]
    fn tokens_in_use_are_refused_rather_than_forgotten() {
        let mut ledger = Ledger::default();
        let token = |nth: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&u64::try_from(nth).unwrap().to_be_bytes());
            TokenRow::new("api_keys", format!("t{nth}"), hash, NOW_MS)
        };
        for nth in 0..TOKENS_MAX {
            let row = Token::from(&token(nth));
            ledger.tokens.entry("api_keys".to_owned()).or_default().insert(hex(&token(nth).hash), row);
        }
        let error = ledger.keep_token(&token(TOKENS_MAX), NOW_MS).unwrap_err();
        assert!(error.to_string().contains("use sqlite"), "{error}");
        assert!(ledger.revoke_token("api_keys", "t7", NOW_MS));
        ledger.keep_token(&token(TOKENS_MAX), NOW_MS).unwrap();
        assert_eq!(ledger.find_token("api_keys", &token(7).hash), None, "the revoked one made room");
        assert_eq!(ledger.find_token("api_keys", &token(8).hash), Some(token(8)));
        assert_eq!(ledger.token_count(), TOKENS_MAX);
    }

    #[test]
    fn hashes_have_one_spelling() {
        let hash: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8).unwrap());
        let text = hex(&hash);
        assert_eq!((text.len(), unhex(&text)), (64, Some(hash)));
        let wrong = [
            text.to_uppercase(),
            format!("{text}0"),
            text[..63].to_owned(),
            format!("+1{}", &text[2..]),
            "é".repeat(32),
        ];
        for wrong in wrong {
            assert_eq!(unhex(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_are_refused_rather_than_forgotten_early() {
        let mut ledger = Ledger::default();
        let sequence = Sequence::new("orders", 1);
        ledger.create(&sequence).unwrap();
        let mut ask = |nth: usize, now_ms: u64| {
            let key = IdempotencyKey::new(nth.to_string()).unwrap();
            ledger
                .allocate(&sequence, NonZeroU32::MIN, Some(&key), SeenSequence::default(), "host", now_ms)
                .map(|range| range.start)
        };
        for nth in 0..ANSWERS_MAX {
            ask(nth, NOW_MS).unwrap();
        }
        let error = ask(ANSWERS_MAX, NOW_MS).unwrap_err();
        assert!(error.to_string().contains("use sqlite"), "{error}");
        assert_eq!(ask(0, NOW_MS).unwrap(), 1, "repeats are still answered");
        let next = u64::try_from(ANSWERS_MAX).unwrap() + 1;
        assert_eq!(ask(ANSWERS_MAX, NOW_MS + ANSWERS_KEPT_MS + 1).unwrap(), next, "a day later there is room");
    }
}
