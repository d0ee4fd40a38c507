//! Leases: a pool's record, its worker ids in records of 64, and pages of past grants.
//!
//! Renewals of different chunks do not touch the same record, and none writes the pool's: it is only checked. So the latest
//! time of a grant is kept by the chunks, and gathered when the pool is bumped.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mintage_core::{
    Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, WorkerChoice, WorkerPool,
    protocol::{self, HISTORY_KEPT_MS, PoolRow, WorkerRow},
};

use super::{
    CellStore, Cells,
    record::{CHUNK_LEN, Chunk, Grants, PAGE_LEN, PAGES_MAX, Page, Pool, Region, chunk_key, page_key, pool_key},
    work::{Fault, Work},
};
use crate::{
    ledger::GrantRow,
    rules::{self, Records, refused},
    wait::Backoff,
};

#[async_trait]
impl<C: Cells> LeaseStore for CellStore<C> {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[pool_key(&pool.name)]).await?;
                let answer = claim(&mut work, pool, which, holder, terms).await;
                if let Some(lease) = work.settle(answer, &mut backoff).await? {
                    self.seen.saw_lease(&lease);
                    return Ok(lease);
                }
            }
        })
        .await
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&keys_of(lease)).await?;
                let answer = renew(&mut work, lease, holder, terms).await;
                if let Some(longer) = work.settle(answer, &mut backoff).await? {
                    self.seen.saw_lease(&longer);
                    return Ok(longer);
                }
            }
        })
        .await
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&keys_of(&lease)).await?;
                let answer = release(&mut work, &lease, first_unused_ms, terms).await;
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let chunk = chunk_key(&pool.name, &pool.region, worker / CHUNK_LEN);
                let mut work = self.begin(&[pool_key(&pool.name), chunk]).await?;
                let answer = revoke(&mut work, pool, worker).await;
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let chunk = chunk_key(&pool.name, &pool.region, worker / CHUNK_LEN);
                let mut work = self.begin(&[pool_key(&pool.name), chunk]).await?;
                let answer = free(&mut work, pool, worker);
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[pool_key(&pool.name)]).await?;
                let answer = bump_by_hand(&mut work, pool).await;
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.begin_new_life().await.map(|()| true)
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[pool_key(&pool.name)]).await?;
            let Some(region) = region_of(&work, &pool.name, &pool.region)? else { return Ok(Vec::new()) };
            let chunks = chunks(&mut work, &pool.name, &pool.region, &region).await?;
            let rows = chunks.values().flat_map(|chunk| chunk.workers.values());
            Ok(rows.map(|row| row.describe().not_before(region.row.floor_min_ms)).collect())
        })
        .await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[pool_key(&pool.name)]).await?;
            history(&mut work, pool, at_ms).await
        })
        .await
    }

    fn has_clock(&self) -> bool {
        self.cells.has_clock()
    }

    async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[pool_key(&pool.name)]).await?;
            history_lack(&mut work, pool).await
        })
        .await
    }
}

async fn claim<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &WorkerPool,
    which: WorkerChoice,
    holder: &Holder,
    terms: &LeaseTerms,
) -> Result<Lease, Fault> {
    let mut record: Pool = work.record(&pool_key(&pool.name))?.unwrap_or_default();
    let mut changed = false;
    let mut region = match record.regions.remove(&pool.region) {
        Some(region) => region,
        None => {
            changed = true;
            let others = record.regions.iter().map(|(region, other)| (region.as_str(), &other.row));
            let seen = work.seen().pool(&pool.name, &pool.region);
            let row = rules::new_region(pool, others, work.records, seen, work.began_ms())?;
            row.admits(pool, terms)?;
            let region = Region { row, life: work.life.clone(), chunks: Default::default() };
            if work.records == Records::Unsure {
                // Kept whatever becomes of the claim: made anew by each attempt it would never be free.
                write_region(work, &pool.name, &pool.region, record, region, true);
                return Err(Fault::Bumped);
            }
            region
        }
    };
    region.row.admits(pool, terms)?;
    guards_enough(work, &pool.name, &region.row)?;
    let mut chunks = chunks(work, &pool.name, &pool.region, &region).await?;
    bump_if_older(work, &pool.name, &pool.region, &region, &chunks)?;
    if let Some(number) = region.chunks.iter().find(|number| !chunks.contains_key(number)) {
        bump_after_deletion(work, pool, *number, &chunks)?;
    }
    let rows: Vec<WorkerRow> = chunks.values().flat_map(|chunk| chunk.workers.values()).cloned().collect();
    let now_ms = not_before_others(work, &rows);
    let worker = protocol::choose(&region.row, &rows, which, holder, terms, now_ms)?;

    let number = worker / CHUNK_LEN;
    let key = chunk_key(&pool.name, &pool.region, number);
    work.load([key.clone()]).await?;
    let mut chunk = chunks.remove(&number).unwrap_or_default();
    let mut row = chunk.workers.remove(&worker).unwrap_or_else(|| WorkerRow::unused(worker));
    let before = row.clone();
    let (lease, _) = protocol::claim(&mut region.row, &mut row, pool, holder, terms, now_ms)?;
    keep_grant(work, pool, number, &mut chunk, &before).await?;
    chunk.granted_at_ms = chunk.granted_at_ms.max(now_ms);
    chunk.workers.insert(worker, row);
    work.put(key, &chunk);
    changed |= region.chunks.insert(number);
    write_region(work, &pool.name, &pool.region, record, region, changed);
    Ok(lease)
}

async fn renew<C: Cells>(
    work: &mut Work<'_, C>,
    lease: &Lease,
    holder: &Holder,
    terms: &LeaseTerms,
) -> Result<Lease, Fault> {
    let (mut region, mut chunk, mut row) = leased(work, lease).await?;
    guards_enough(work, &lease.pool, &region.row)?;
    let rows: Vec<WorkerRow> = chunk.workers.values().cloned().collect();
    let now_ms = not_before_others(work, &rows);
    let longer = protocol::extend(&mut region.row, &mut row, lease, holder, terms, now_ms)?;
    chunk.granted_at_ms = chunk.granted_at_ms.max(now_ms);
    chunk.workers.insert(row.worker, row);
    put_chunk(work, lease, &chunk);
    Ok(longer)
}

async fn release<C: Cells>(
    work: &mut Work<'_, C>,
    lease: &Lease,
    first_unused_ms: u64,
    terms: &LeaseTerms,
) -> Result<(), Fault> {
    let (region, mut chunk, mut row) = leased(work, lease).await?;
    let rows: Vec<WorkerRow> = chunk.workers.values().cloned().collect();
    let now_ms = not_before_others(work, &rows);
    protocol::release(&region.row, &mut row, lease, first_unused_ms, terms, now_ms)?;
    chunk.workers.insert(row.worker, row);
    put_chunk(work, lease, &chunk);
    Ok(())
}

async fn revoke<C: Cells>(work: &mut Work<'_, C>, pool: &WorkerPool, worker: u32) -> Result<(), Fault> {
    let mut record: Pool = work.record(&pool_key(&pool.name))?.unwrap_or_default();
    let mut region = record.regions.remove(&pool.region).ok_or_else(|| rules::no_pool(pool))?;
    let number = worker / CHUNK_LEN;
    let key = chunk_key(&pool.name, &pool.region, number);
    let chunk: Option<Chunk> = work.record(&key)?;
    if chunk.is_none() && region.chunks.contains(&number) {
        let chunks = chunks(work, &pool.name, &pool.region, &region).await?;
        bump_after_deletion(work, pool, number, &chunks)?;
    }
    let mut chunk = chunk.unwrap_or_default();
    let barred = rules::revoke(pool, &region.row, worker, chunk.workers.get(&worker).cloned())?;
    chunk.workers.insert(worker, barred);
    work.put(key, &chunk);
    let changed = region.chunks.insert(number);
    write_region(work, &pool.name, &pool.region, record, region, changed);
    Ok(())
}

fn free<C: Cells>(work: &mut Work<'_, C>, pool: &WorkerPool, worker: u32) -> Result<(), Fault> {
    let region = region_of(work, &pool.name, &pool.region)?.ok_or_else(|| rules::no_pool(pool))?;
    let key = chunk_key(&pool.name, &pool.region, worker / CHUNK_LEN);
    let mut chunk: Chunk = work.record(&key)?.unwrap_or_default();
    if let Some(freed) = rules::free(pool, &region.row, worker, chunk.workers.get(&worker).cloned())? {
        chunk.workers.insert(worker, freed);
        work.put(key, &chunk);
        work.rely_on(&pool_key(&pool.name));
    }
    Ok(())
}

async fn bump_by_hand<C: Cells>(work: &mut Work<'_, C>, pool: &WorkerPool) -> Result<(), Fault> {
    let region = region_of(work, &pool.name, &pool.region)?.ok_or_else(|| rules::no_pool(pool))?;
    let chunks = chunks(work, &pool.name, &pool.region, &region).await?;
    bump(work, &pool.name, &pool.region, &chunks)
}

async fn history<C: Cells>(work: &mut Work<'_, C>, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
    let Some(region) = region_of(work, &pool.name, &pool.region)? else { return Ok(Vec::new()) };
    let chunks = chunks(work, &pool.name, &pool.region, &region).await?;
    let of_page = |number: u32, page: &Page| page_key(&pool.name, &pool.region, number, page.number);
    let pages: Vec<String> = chunks
        .iter()
        .flat_map(|(number, chunk)| chunk.pages.iter().map(move |page| (*number, page)))
        .filter(|(_, page)| (page.from_ms..page.to_ms).contains(&at_ms))
        .map(|(number, page)| of_page(number, page))
        .collect();
    work.load(pages.iter().cloned()).await?;
    let mut grants: Vec<Grant> = Vec::new();
    for page in pages {
        let past: Grants = work.record(&page)?.unwrap_or_default();
        grants.extend(past.grants.iter().map(GrantRow::describe));
    }
    grants.extend(chunks.values().flat_map(|chunk| chunk.workers.values()).filter_map(latest_grant));
    grants.retain(|grant| grant.window.contains(&at_ms));
    grants.sort_by_key(|grant| (grant.worker, grant.inc, grant.epoch));
    // One that went from its row into a page while this was read is in both.
    grants.dedup_by_key(|grant| (grant.worker, grant.inc, grant.epoch));
    Ok(grants)
}

/// Whether pages had to go before they were old: then a chunk has as many as it may, and the first is not number 0.
async fn history_lack<C: Cells>(work: &mut Work<'_, C>, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
    let Some(region) = region_of(work, &pool.name, &pool.region)? else { return Ok(None) };
    let chunks = chunks(work, &pool.name, &pool.region, &region).await?;
    let is_full =
        |chunk: &Chunk| chunk.pages.len() + 1 >= PAGES_MAX && chunk.pages.first().is_some_and(|page| page.number > 0);
    Ok(chunks.values().any(is_full).then(|| {
        format!(
            "this kind of store keeps the last {} grants of {CHUNK_LEN} worker ids; older ones were dropped: the SQL stores keep \
             them for 400 days",
            PAGES_MAX * PAGE_LEN
        )
    }))
}

/// The grant that a worker's row tells of; `None` when there was none, or when it was given back whole.
fn latest_grant(row: &WorkerRow) -> Option<Grant> {
    let window = row.start_ms..row.floor_ms;
    (row.epoch > 0 && !window.is_empty())
        .then(|| Grant::new(row.worker, row.inc, row.epoch, row.instance.clone(), window))
}

/// Moves the grant of a row that is about to be claimed anew into history.
async fn keep_grant<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &WorkerPool,
    number: u32,
    chunk: &mut Chunk,
    before: &WorkerRow,
) -> Result<(), Fault> {
    let Some(grant) = latest_grant(before) else { return Ok(()) };
    let key = |page: u64| page_key(&pool.name, &pool.region, number, page);
    let too_old = |page: &Page| page.to_ms.saturating_add(HISTORY_KEPT_MS) < work.now_ms;
    let old = chunk.pages.iter().take_while(|page| too_old(page)).count();
    let forgotten = old.max((chunk.pages.len() + 1).saturating_sub(PAGES_MAX));
    let forgotten: Vec<Page> = chunk.pages.drain(..forgotten).collect();
    let next = forgotten.iter().chain(&chunk.pages).last().map_or(0, |page| page.number + 1);
    for page in forgotten {
        work.load([key(page.number)]).await?;
        work.remove(key(page.number));
    }
    if chunk.pages.last().is_none_or(|page| page.len >= PAGE_LEN) {
        chunk.pages.push(Page { number: next, len: 0, from_ms: u64::MAX, to_ms: 0 });
    }
    let Some(page) = chunk.pages.last_mut() else { return Err(Fault::Changed) };
    work.load([key(page.number)]).await?;
    let mut past: Grants = work.record(&key(page.number))?.unwrap_or_default();
    page.from_ms = page.from_ms.min(grant.window.start);
    page.to_ms = page.to_ms.max(grant.window.end);
    past.grants.push(GrantRow::from(grant));
    page.len = past.grants.len();
    work.put(key(page.number), &past);
    Ok(())
}

fn keys_of(lease: &Lease) -> [String; 2] {
    [pool_key(&lease.pool), chunk_key(&lease.pool, &lease.region, lease.worker / CHUNK_LEN)]
}

/// The region, chunk and row of a lease.
async fn leased<C: Cells>(work: &mut Work<'_, C>, lease: &Lease) -> Result<(Region, Chunk, WorkerRow), Fault> {
    let region = region_of(work, &lease.pool, &lease.region)?.ok_or_else(|| protocol::lost_worker(lease))?;
    let [_, key] = keys_of(lease);
    let chunk: Option<Chunk> = work.record(&key)?;
    let chunk_granted_at_ms = chunk.as_ref().map_or(0, |chunk| chunk.granted_at_ms);
    let seen = work.seen().pool(&lease.pool, &lease.region);
    // Its own chunk is as new as the region in nearly all cases, and then the others need not be read.
    if region.life != work.life || region.row.inc < seen.inc || chunk_granted_at_ms < seen.granted_at_ms {
        let chunks = chunks(work, &lease.pool, &lease.region, &region).await?;
        bump_if_older(work, &lease.pool, &lease.region, &region, &chunks)?;
    }
    let chunk = chunk.ok_or_else(|| protocol::lost_worker(lease))?;
    let row = chunk.workers.get(&lease.worker).cloned().ok_or_else(|| protocol::lost_worker(lease))?;
    Ok((region, chunk, row))
}

/// What a server grants that others have taken over from must end before theirs begins.
fn guards_enough<C: Cells>(work: &Work<'_, C>, pool: &str, row: &PoolRow) -> Result<(), StoreError> {
    let alone_ms_max = work.cells().alone_ms_max();
    if row.guard_ms >= alone_ms_max {
        return Ok(());
    }
    Err(refused(format!(
        "{}: pool {pool} has a guard of {} ms, and this server may take writes for {alone_ms_max} ms beside one that was promoted \
         (min-replicas-max-lag, and two seconds): add replicas=1 to the URL; or lower min-replicas-max-lag to two seconds less than the \
         guard; or make the pool with a lease.guard of that length, in a new store if it is there already",
        work.cells().place(),
        row.guard_ms,
    )))
}

/// Writes a lease's chunk, if its pool has not been bumped meanwhile.
fn put_chunk<C: Cells>(work: &mut Work<'_, C>, lease: &Lease, chunk: &Chunk) {
    let [pool, key] = keys_of(lease);
    work.put(key, chunk);
    work.rely_on(&pool);
}

/// Writes a pool's record with this region in it, or only makes sure that it has not changed.
fn write_region<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &str,
    region: &str,
    mut record: Pool,
    row: Region,
    changed: bool,
) {
    if changed {
        record.regions.insert(region.to_owned(), row);
        work.put(pool_key(pool), &record);
    } else {
        work.rely_on(&pool_key(pool));
    }
}

fn region_of<C: Cells>(work: &Work<'_, C>, pool: &str, region: &str) -> Result<Option<Region>, StoreError> {
    let record: Option<Pool> = work.record(&pool_key(pool))?;
    Ok(record.and_then(|mut record| record.regions.remove(region)))
}

/// All chunks of a region that are there, by number.
async fn chunks<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &str,
    region: &str,
    row: &Region,
) -> Result<BTreeMap<u32, Chunk>, StoreError> {
    work.load(row.chunks.iter().map(|number| chunk_key(pool, region, *number))).await?;
    let mut chunks = BTreeMap::new();
    for number in &row.chunks {
        if let Some(chunk) = work.record(&chunk_key(pool, region, *number))? {
            chunks.insert(*number, chunk);
        }
    }
    Ok(chunks)
}

/// The record of a chunk was deleted by hand, and the floors of its worker ids with it. Windows begin above all that can have been
/// granted, as in a new life of the store; the record is made again, empty.
fn bump_after_deletion<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &WorkerPool,
    number: u32,
    chunks: &BTreeMap<u32, Chunk>,
) -> Result<(), Fault> {
    bump(work, &pool.name, &pool.region, chunks)?;
    work.put(chunk_key(&pool.name, &pool.region, number), &Chunk::default());
    Err(Fault::Bumped)
}

/// Bumps a region that is seen for the first time in this life of the store, or that is older than what this process was told,
/// in whichever life; the call then begins again.
fn bump_if_older<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &str,
    region: &str,
    row: &Region,
    chunks: &BTreeMap<u32, Chunk>,
) -> Result<(), Fault> {
    let known = PoolRow { granted_at_ms: granted_at_ms(&row.row, chunks), ..row.row.clone() };
    if row.life == work.life && !work.seen().pool(pool, region).is_ahead_of(&known) {
        return Ok(());
    }
    bump(work, pool, region, chunks)?;
    Err(Fault::Bumped)
}

fn bump<C: Cells>(
    work: &mut Work<'_, C>,
    pool: &str,
    region: &str,
    chunks: &BTreeMap<u32, Chunk>,
) -> Result<(), Fault> {
    let mut record: Pool = work.record(&pool_key(pool))?.ok_or(Fault::Changed)?;
    let bumped = record.regions.get_mut(region).ok_or(Fault::Changed)?;
    bumped.row.granted_at_ms = granted_at_ms(&bumped.row, chunks);
    let now_ms = if bumped.life == work.life { work.now_ms } else { work.began_ms() };
    if work.by_own_clock {
        rules::not_behind(pool, &bumped.row, now_ms)?;
    }
    work.seen().pool(pool, region).bump(&mut bumped.row, now_ms);
    bumped.life.clone_from(&work.life);
    work.put(pool_key(pool), &record);
    Ok(())
}

/// The latest store time of a grant: that of the chunks, which is gathered into the row when it is bumped.
fn granted_at_ms(row: &PoolRow, chunks: &BTreeMap<u32, Chunk>) -> u64 {
    chunks.values().map(|chunk| chunk.granted_at_ms).fold(row.granted_at_ms, u64::max)
}

/// The time. Where the store has no clock it is this machine's, but not before the time at which half of the holders have
/// renewed: then it is this clock that is late. The latest of them would not do: one machine whose clock is hours fast would
/// take all others with it.
fn not_before_others<C: Cells>(work: &Work<'_, C>, rows: &[WorkerRow]) -> u64 {
    if !work.by_own_clock {
        return work.now_ms;
    }
    let mut renewed: Vec<u64> = rows.iter().filter(|row| row.holder.is_some()).map(|row| row.renewed_ms).collect();
    renewed.sort_unstable();
    let median = renewed.len().checked_sub(1).and_then(|last| renewed.get(last / 2)).copied();
    work.now_ms.max(median.unwrap_or(0))
}
