//! Leases in SQLite.

use std::path::Path;

use async_trait::async_trait;
use mintage_core::{
    Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, WorkerChoice, WorkerPool,
    protocol::{self, HISTORY_KEPT_MS, PoolRow, WorkerRow},
};
use sqlx::sqlite::SqliteRow;

use super::{Conn, READ, SqliteStore, WRITE, Work, candidates::Claim, error::Fault, read, stopped};
use crate::{
    rules::{self, Records},
    seen::SeenPool,
    sound::Sound,
};

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        self.call(async {
            let seen = self.seen.pool(&pool.name, &pool.region);
            loop {
                let mut work = self.begin_caught_up(&pool.name, &pool.region, seen).await?;
                let now_ms = work.now_ms;
                let made = make_lost(&mut work.conn(), pool, terms, seen, now_ms).await;
                if !matches!(made, Ok(false)) {
                    work.end(made).await?;
                    continue;
                }
                let lease = acquire(&mut work.conn(), pool, which, holder, terms, seen, now_ms).await;
                let lease = work.end(lease).await?;
                self.seen.saw_lease(&lease);
                return Ok(lease);
            }
        })
        .await
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        self.call(async {
            let seen = self.seen.pool(&lease.pool, &lease.region);
            let mut work = self.begin_caught_up(&lease.pool, &lease.region, seen).await?;
            let now_ms = work.now_ms;
            let longer = renew(&mut work.conn(), lease, holder, terms, now_ms).await;
            let longer = work.end(longer).await?;
            self.seen.saw_lease(&longer);
            Ok(longer)
        })
        .await
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        self.call(async {
            let seen = self.seen.pool(&lease.pool, &lease.region);
            let mut work = self.begin_caught_up(&lease.pool, &lease.region, seen).await?;
            let now_ms = work.now_ms;
            let released = release(&mut work.conn(), &lease, first_unused_ms, terms, now_ms).await;
            work.end(released).await
        })
        .await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let revoked = revoke(&mut work.conn(), pool, worker).await;
            work.end(revoked).await
        })
        .await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let freed = free(&mut work.conn(), pool, worker).await;
            work.end(freed).await
        })
        .await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let now_ms = work.now_ms;
            let bumped = bump(&mut work.conn(), pool, now_ms).await;
            work.end(bumped).await
        })
        .await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let (path, now_ms) = (work.path, work.now_ms);
            let bumped = bump_all(&mut work.conn(), path, now_ms).await;
            work.end(bumped.map(|()| true)).await
        })
        .await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = workers(&mut work.conn(), &pool.name, &pool.region).await;
            let row = pool_row(&mut work.conn(), &pool.name, &pool.region).await;
            let described = rows.and_then(|rows| {
                let floor_min_ms = row?.map_or(0, |row| row.floor_min_ms);
                Ok(rows.iter().map(|row| row.describe().not_before(floor_min_ms)).collect())
            });
            work.end(described).await
        })
        .await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let grants = history(&mut work.conn(), pool, at_ms).await;
            work.end(grants).await
        })
        .await
    }

    fn has_clock(&self) -> bool {
        false
    }
}

impl SqliteStore {
    /// Begins a transaction that writes. A pool that is older than what this process was told of it is bumped first, and that is
    /// final whatever becomes of the call: a backup was put in the place of the database.
    async fn begin_caught_up(&self, pool: &str, region: &str, seen: SeenPool) -> Result<Work<'_>, StoreError> {
        loop {
            let mut work = self.begin(WRITE).await?;
            let now_ms = work.now_ms;
            match catch_up(&mut work.conn(), pool, region, seen, now_ms).await {
                Ok(false) => return Ok(work),
                bumped => work.end(bumped).await?,
            };
        }
    }
}

/// Makes a pool that may have been forgotten, and says whether it did. It is kept whatever becomes of the claim: made anew by each
/// attempt it would never be free.
async fn make_lost(
    conn: &mut Conn<'_>,
    pool: &WorkerPool,
    terms: &LeaseTerms,
    seen: SeenPool,
    now_ms: u64,
) -> Result<bool, Fault> {
    let records = stopped::records(conn).await?;
    if records != Records::Unsure {
        return Ok(false);
    }
    let regions = regions(conn, &pool.name).await?;
    if regions.iter().any(|(region, _)| *region == pool.region) {
        return Ok(false);
    }
    let others = regions.iter().map(|(region, row)| (region.as_str(), row));
    let row = rules::new_region(pool, others, records, seen, now_ms)?;
    row.admits(pool, terms)?;
    put_pool(conn, &pool.name, &pool.region, &row).await?;
    Ok(true)
}

/// Bumps a pool that is older than what was seen of it, and says whether it did.
async fn catch_up(conn: &mut Conn<'_>, pool: &str, region: &str, seen: SeenPool, now_ms: u64) -> Result<bool, Fault> {
    let row = pool_row(conn, pool, region).await?;
    let Some(mut row) = row.filter(|row| seen.is_ahead_of(row)) else { return Ok(false) };
    seen.bump(&mut row, now_ms);
    put_pool(conn, pool, region, &row).await?;
    Ok(true)
}

async fn acquire(
    conn: &mut Conn<'_>,
    pool: &WorkerPool,
    which: WorkerChoice,
    holder: &Holder,
    terms: &LeaseTerms,
    seen: SeenPool,
    now_ms: u64,
) -> Result<Lease, Fault> {
    let regions = regions(conn, &pool.name).await?;
    let mut row = match regions.iter().find(|(region, _)| *region == pool.region) {
        Some((_, row)) => row.clone(),
        None => {
            let others = regions.iter().map(|(region, row)| (region.as_str(), row));
            rules::new_region(pool, others, stopped::records(conn).await?, seen, now_ms)?
        }
    };
    row.admits(pool, terms)?;
    let (worker, known) = loop {
        let worker = Claim { pool, row: &row, which, holder, terms, now_ms }.choose(conn).await?;
        // Read again by its number: however the choice was made, the row that is claimed is the one that is there.
        let known = worker_row(conn, &pool.name, &pool.region, worker).await?;
        if known.is_some() || !restore_deleted(conn, pool, worker).await? {
            break (worker, known);
        }
    };
    let mut claimed = known.unwrap_or_else(|| WorkerRow::unused(worker));
    let (lease, grant) = protocol::claim(&mut row, &mut claimed, pool, holder, terms, now_ms)?;
    put_pool(conn, &pool.name, &pool.region, &row).await?;
    put_worker(conn, &pool.name, &pool.region, &claimed).await?;
    put_grant(conn, pool, &grant, now_ms).await?;
    Ok(lease)
}

async fn renew(
    conn: &mut Conn<'_>,
    lease: &Lease,
    holder: &Holder,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<Lease, Fault> {
    let (mut pool, mut worker) = leased(conn, lease).await?;
    let longer = protocol::extend(&mut pool, &mut worker, lease, holder, terms, now_ms)?;
    put_pool(conn, &lease.pool, &lease.region, &pool).await?;
    put_worker(conn, &lease.pool, &lease.region, &worker).await?;
    end_grant(conn, lease, worker.floor_ms).await?;
    Ok(longer)
}

async fn release(
    conn: &mut Conn<'_>,
    lease: &Lease,
    first_unused_ms: u64,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<(), Fault> {
    let (pool, mut worker) = leased(conn, lease).await?;
    let end_ms = protocol::release(&pool, &mut worker, lease, first_unused_ms, terms, now_ms)?;
    put_worker(conn, &lease.pool, &lease.region, &worker).await?;
    end_grant(conn, lease, end_ms).await
}

async fn revoke(conn: &mut Conn<'_>, pool: &WorkerPool, worker: u32) -> Result<(), Fault> {
    let row = pool_row(conn, &pool.name, &pool.region).await?.ok_or_else(|| rules::no_pool(pool))?;
    let mut known = worker_row(conn, &pool.name, &pool.region, worker).await?;
    if known.is_none() && restore_deleted(conn, pool, worker).await? {
        known = worker_row(conn, &pool.name, &pool.region, worker).await?;
    }
    let barred = rules::revoke(pool, &row, worker, known)?;
    put_worker(conn, &pool.name, &pool.region, &barred).await
}

async fn free(conn: &mut Conn<'_>, pool: &WorkerPool, worker: u32) -> Result<(), Fault> {
    let row = pool_row(conn, &pool.name, &pool.region).await?.ok_or_else(|| rules::no_pool(pool))?;
    let known = worker_row(conn, &pool.name, &pool.region, worker).await?;
    match rules::free(pool, &row, worker, known)? {
        Some(freed) => put_worker(conn, &pool.name, &pool.region, &freed).await,
        None => Ok(()),
    }
}

/// Makes the rows of worker ids again that were deleted by hand, as their history tells, if that of `worker` is one: it is
/// about to be taken for an id that nobody has used.
async fn restore_deleted(conn: &mut Conn<'_>, pool: &WorkerPool, worker: u32) -> Result<bool, Fault> {
    let of_worker = "SELECT count(*) FROM mintage_grant WHERE pool = ? AND region = ? AND worker = ?";
    let known: i64 = conn
        .scalar(of_worker)
        .bind(&pool.name)
        .bind(&pool.region)
        .bind(i64::from(worker))
        .fetch_one(&mut *conn.link)
        .await?;
    if known == 0 {
        return Ok(false);
    }
    conn.query(
        "INSERT INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms,
                                     free_after_ms, revoked, holder_clock_ms, renewed_ms)
         SELECT pool, region, worker, max(inc), max(epoch), NULL, max(instance), max(from_ms), max(to_ms), 0, 0, 0, 0, 0
         FROM mintage_grant AS kept
         WHERE pool = ? AND region = ? AND NOT EXISTS (
             SELECT 1 FROM mintage_worker AS there
             WHERE there.pool = kept.pool AND there.region = kept.region AND there.worker = kept.worker)
         GROUP BY pool, region, worker",
    )
    .bind(&pool.name)
    .bind(&pool.region)
    .execute(&mut *conn.link)
    .await?;
    Ok(true)
}

async fn bump(conn: &mut Conn<'_>, pool: &WorkerPool, now_ms: u64) -> Result<(), Fault> {
    let mut row = pool_row(conn, &pool.name, &pool.region).await?.ok_or_else(|| rules::no_pool(pool))?;
    rules::not_behind(&pool.name, &row, now_ms)?;
    protocol::bump(&mut row, now_ms);
    put_pool(conn, &pool.name, &pool.region, &row).await
}

async fn bump_all(conn: &mut Conn<'_>, path: &Path, now_ms: u64) -> Result<(), Fault> {
    stopped::stop_unlisted(conn, path).await?;
    let pools = conn.query("SELECT DISTINCT pool FROM mintage_pool").fetch_all(&mut *conn.link).await?;
    for pool in &pools {
        let pool = read::text(pool, "pool")?;
        for (region, mut row) in regions(conn, &pool).await? {
            rules::not_behind(&pool, &row, now_ms)?;
            protocol::bump(&mut row, now_ms);
            put_pool(conn, &pool, &region, &row).await?;
        }
    }
    Ok(())
}

async fn history(conn: &mut Conn<'_>, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, Fault> {
    // Later than any column can say: nobody.
    let Ok(at_ms) = i64::try_from(at_ms) else { return Ok(Vec::new()) };
    let rows = conn
        .query(
            "SELECT worker, inc, epoch, instance, from_ms, to_ms FROM mintage_grant
         WHERE pool = ? AND region = ? AND to_ms > ? AND from_ms <= ? ORDER BY worker, from_ms",
        )
        .bind(&pool.name)
        .bind(&pool.region)
        .bind(at_ms)
        .bind(at_ms)
        .fetch_all(&mut *conn.link)
        .await?;
    rows.iter().map(grant).collect()
}

/// The rows behind a lease.
async fn leased(conn: &mut Conn<'_>, lease: &Lease) -> Result<(PoolRow, WorkerRow), Fault> {
    let pool = pool_row(conn, &lease.pool, &lease.region).await?.ok_or_else(|| protocol::lost_worker(lease))?;
    let worker = worker_row(conn, &lease.pool, &lease.region, lease.worker).await?;
    Ok((pool, worker.ok_or_else(|| protocol::lost_worker(lease))?))
}

async fn pool_row(conn: &mut Conn<'_>, pool: &str, region: &str) -> Result<Option<PoolRow>, Fault> {
    let regions = regions(conn, pool).await?;
    Ok(regions.into_iter().find(|(name, _)| name == region).map(|(_, row)| row))
}

/// All regions of a pool, by name.
async fn regions(conn: &mut Conn<'_>, pool: &str) -> Result<Vec<(String, PoolRow)>, Fault> {
    let rows = conn.query(
        "SELECT region, block_start, block_len, inc, floor_min_ms, window_max_ms, ahead_max_ms, guard_ms, granted_at_ms
         FROM mintage_pool WHERE pool = ?",
    )
    .bind(pool)
    .fetch_all(&mut *conn.link)
    .await?;
    rows.iter().map(|row| Ok((read::text(row, "region")?, pool_of(row)?))).collect()
}

fn pool_of(row: &SqliteRow) -> Result<PoolRow, Fault> {
    let pool = PoolRow {
        block_start: read::small(row, "block_start")?,
        block_len: read::small(row, "block_len")?,
        inc: read::number(row, "inc")?,
        floor_min_ms: read::number(row, "floor_min_ms")?,
        window_max_ms: read::number(row, "window_max_ms")?,
        ahead_max_ms: read::number(row, "ahead_max_ms")?,
        guard_ms: read::number(row, "guard_ms")?,
        granted_at_ms: read::number(row, "granted_at_ms")?,
    };
    pool.sound()?;
    Ok(pool)
}

async fn put_pool(conn: &mut Conn<'_>, pool: &str, region: &str, row: &PoolRow) -> Result<(), Fault> {
    conn.query(
        "INSERT INTO mintage_pool (pool, region, block_start, block_len, inc, floor_min_ms, window_max_ms, ahead_max_ms,
                                   guard_ms, granted_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (pool, region) DO UPDATE
         SET inc = excluded.inc, floor_min_ms = excluded.floor_min_ms, granted_at_ms = excluded.granted_at_ms",
    )
    .bind(pool)
    .bind(region)
    .bind(i64::from(row.block_start))
    .bind(i64::from(row.block_len))
    .bind(read::signed(row.inc, "a life of the store")?)
    .bind(read::signed(row.floor_min_ms, "a time")?)
    .bind(read::signed(row.window_max_ms, "a limit")?)
    .bind(read::signed(row.ahead_max_ms, "a limit")?)
    .bind(read::signed(row.guard_ms, "a limit")?)
    .bind(read::signed(row.granted_at_ms, "a time")?)
    .execute(&mut *conn.link)
    .await?;
    Ok(())
}

async fn workers(conn: &mut Conn<'_>, pool: &str, region: &str) -> Result<Vec<WorkerRow>, Fault> {
    let rows = conn
        .query(
            "SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked,
                holder_clock_ms, renewed_ms
         FROM mintage_worker WHERE pool = ? AND region = ? ORDER BY worker",
        )
        .bind(pool)
        .bind(region)
        .fetch_all(&mut *conn.link)
        .await?;
    rows.iter().map(worker_of).collect()
}

async fn worker_row(conn: &mut Conn<'_>, pool: &str, region: &str, worker: u32) -> Result<Option<WorkerRow>, Fault> {
    let row = conn
        .query(
            "SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked,
                holder_clock_ms, renewed_ms
         FROM mintage_worker WHERE pool = ? AND region = ? AND worker = ?",
        )
        .bind(pool)
        .bind(region)
        .bind(i64::from(worker))
        .fetch_optional(&mut *conn.link)
        .await?;
    row.as_ref().map(worker_of).transpose()
}

pub(super) fn worker_of(row: &SqliteRow) -> Result<WorkerRow, Fault> {
    let worker = WorkerRow {
        worker: read::small(row, "worker")?,
        inc: read::number(row, "inc")?,
        epoch: read::number(row, "epoch")?,
        holder: read::token(row, "holder")?,
        instance: read::text(row, "instance")?,
        start_ms: read::number(row, "start_ms")?,
        floor_ms: read::number(row, "floor_ms")?,
        expires_ms: read::number(row, "expires_ms")?,
        free_after_ms: read::number(row, "free_after_ms")?,
        revoked: read::flag(row, "revoked")?,
        holder_clock_ms: read::number(row, "holder_clock_ms")?,
        renewed_ms: read::number(row, "renewed_ms")?,
    };
    worker.sound()?;
    Ok(worker)
}

pub(super) async fn put_worker(conn: &mut Conn<'_>, pool: &str, region: &str, row: &WorkerRow) -> Result<(), Fault> {
    conn.query(
        "INSERT OR REPLACE INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms,
                                                expires_ms, free_after_ms, revoked, holder_clock_ms, renewed_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(pool)
    .bind(region)
    .bind(i64::from(row.worker))
    .bind(read::signed(row.inc, "a life of the store")?)
    .bind(read::signed(row.epoch, "a claim")?)
    .bind(row.holder.map(|token| token.to_be_bytes().to_vec()))
    .bind(&row.instance)
    .bind(read::signed(row.start_ms, "a time")?)
    .bind(read::signed(row.floor_ms, "a time")?)
    .bind(read::signed(row.expires_ms, "a time")?)
    .bind(read::signed(row.free_after_ms, "a time")?)
    .bind(row.revoked)
    .bind(read::signed(row.holder_clock_ms, "a clock")?)
    .bind(read::signed(row.renewed_ms, "a time")?)
    .execute(&mut *conn.link)
    .await?;
    Ok(())
}

fn grant(row: &SqliteRow) -> Result<Grant, Fault> {
    let window = read::number(row, "from_ms")?..read::number(row, "to_ms")?;
    let (worker, inc, epoch) = (read::small(row, "worker")?, read::number(row, "inc")?, read::number(row, "epoch")?);
    Ok(Grant::new(worker, inc, epoch, read::text(row, "instance")?, window))
}

/// Writes a claim into the history, and deletes what is too old for it.
async fn put_grant(conn: &mut Conn<'_>, pool: &WorkerPool, grant: &Grant, now_ms: u64) -> Result<(), Fault> {
    conn.query(
        "INSERT INTO mintage_grant (pool, region, worker, inc, epoch, instance, from_ms, to_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&pool.name)
    .bind(&pool.region)
    .bind(i64::from(grant.worker))
    .bind(read::signed(grant.inc, "a life of the store")?)
    .bind(read::signed(grant.epoch, "a claim")?)
    .bind(&grant.instance)
    .bind(read::signed(grant.window.start, "a time")?)
    .bind(read::signed(grant.window.end, "a time")?)
    .execute(&mut *conn.link)
    .await?;
    conn.query("DELETE FROM mintage_grant WHERE pool = ? AND region = ? AND to_ms < ?")
        .bind(&pool.name)
        .bind(&pool.region)
        .bind(read::signed(now_ms.saturating_sub(HISTORY_KEPT_MS), "a time")?)
        .execute(&mut *conn.link)
        .await?;
    Ok(())
}

/// Moves the end of a lease's grant: renewed or released.
async fn end_grant(conn: &mut Conn<'_>, lease: &Lease, end_ms: u64) -> Result<(), Fault> {
    conn.query(
        "UPDATE mintage_grant SET to_ms = ? WHERE pool = ? AND region = ? AND worker = ? AND inc = ? AND epoch = ?",
    )
    .bind(read::signed(end_ms, "a time")?)
    .bind(&lease.pool)
    .bind(&lease.region)
    .bind(i64::from(lease.worker))
    .bind(read::signed(lease.fence.inc, "a life of the store")?)
    .bind(read::signed(lease.fence.epoch, "a claim")?)
    .execute(&mut *conn.link)
    .await?;
    Ok(())
}
