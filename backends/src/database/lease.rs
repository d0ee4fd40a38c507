//! Leases on a database server.

use async_trait::async_trait;
use mintage_core::{
    Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, WorkerChoice, WorkerPool,
    protocol::{self, HISTORY_KEPT_MS, WorkerRow},
};

use super::{
    DatabaseStore, Work,
    candidates::Claim,
    error::Fault,
    fits,
    pool::{self, Locked, Which},
    read::{self, Row},
    unlisted,
};
use crate::{
    rules::{self, corrupt},
    sound::Sound,
};

#[async_trait]
impl LeaseStore for DatabaseStore {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        fits("pool", &pool.name)?;
        fits("region", &pool.region)?;
        let lease = self
            .transaction(|mut work| async move {
                let lease = acquire(&mut work, pool, self.which(pool), which, holder, terms).await;
                (work, lease)
            })
            .await?;
        self.seen.saw_lease(&lease);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let longer = self
            .transaction(|mut work| async move {
                let longer = renew(&mut work, lease, self.which_of(lease), holder, terms).await;
                (work, longer)
            })
            .await?;
        self.seen.saw_lease(&longer);
        Ok(longer)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let lease = &lease;
        self.transaction(|mut work| async move {
            let released = release(&mut work, lease, self.which_of(lease), first_unused_ms, terms).await;
            (work, released)
        })
        .await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.transaction(|mut work| async move {
            let revoked = revoke(&mut work, pool, self.which(pool), worker).await;
            (work, revoked)
        })
        .await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.transaction(|mut work| async move {
            let freed = free(&mut work, pool, self.which(pool), worker).await;
            (work, freed)
        })
        .await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.transaction(|mut work| async move {
            let bumped = bump(&mut work, pool, self.which(pool)).await;
            (work, bumped)
        })
        .await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.transaction(|mut work| async move {
            let bumped = unlisted::stop_pools(&mut work).await;
            (work, bumped.map(|()| true))
        })
        .await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.transaction(|mut work| async move {
            let rows = workers(&mut work, pool).await;
            let floor_min_ms = pool::floor_min_ms(&mut work, pool).await;
            let described = rows.and_then(|rows| {
                let floor_min_ms = floor_min_ms?;
                Ok(rows.iter().map(|row| row.describe().not_before(floor_min_ms)).collect())
            });
            (work, described)
        })
        .await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.transaction(|mut work| async move {
            let grants = history(&mut work, pool, at_ms).await;
            (work, grants)
        })
        .await
    }
}

impl DatabaseStore {
    fn which<'a>(&self, pool: &'a WorkerPool) -> Which<'a> {
        Which { pool: &pool.name, region: &pool.region, seen: self.seen.pool(&pool.name, &pool.region) }
    }

    fn which_of<'a>(&self, lease: &'a Lease) -> Which<'a> {
        Which { pool: &lease.pool, region: &lease.region, seen: self.seen.pool(&lease.pool, &lease.region) }
    }
}

async fn acquire(
    work: &mut Work,
    pool: &WorkerPool,
    of: Which<'_>,
    which: WorkerChoice,
    holder: &Holder,
    terms: &LeaseTerms,
) -> Result<Lease, Fault> {
    let Locked { mut row, moment } = pool::lock_or_make(work, pool, of).await?;
    row.admits(pool, terms)?;
    let now_ms = moment.now_ms;
    let (worker, known) = loop {
        let worker = Claim { pool, row: &row, which, holder, terms, now_ms }.choose(work).await?;
        // Read again by its number, under lock: however the choice was made, the row that is claimed is the one that is there.
        let known = worker_row(work, of, worker).await?;
        if known.is_some() || !restore_deleted(work, of, worker).await? {
            break (worker, known);
        }
    };
    let is_new = known.is_none();
    let mut claimed = known.unwrap_or_else(|| WorkerRow::unused(worker));
    let (lease, grant) = protocol::claim(&mut row, &mut claimed, pool, holder, terms, now_ms)?;
    pool::put(work, of, &row, &moment.incarnation).await?;
    put_worker(work, of, &claimed, is_new).await?;
    put_grant(work, of, &grant, now_ms).await?;
    Ok(lease)
}

async fn renew(
    work: &mut Work,
    lease: &Lease,
    of: Which<'_>,
    holder: &Holder,
    terms: &LeaseTerms,
) -> Result<Lease, Fault> {
    let (Locked { mut row, moment }, mut worker) = leased(work, lease, of).await?;
    let longer = protocol::extend(&mut row, &mut worker, lease, holder, terms, moment.now_ms)?;
    pool::put(work, of, &row, &moment.incarnation).await?;
    put_worker(work, of, &worker, false).await?;
    end_grant(work, lease, worker.floor_ms).await?;
    Ok(longer)
}

async fn release(
    work: &mut Work,
    lease: &Lease,
    of: Which<'_>,
    first_unused_ms: u64,
    terms: &LeaseTerms,
) -> Result<(), Fault> {
    let (Locked { row, moment }, mut worker) = leased(work, lease, of).await?;
    let end_ms = protocol::release(&row, &mut worker, lease, first_unused_ms, terms, moment.now_ms)?;
    put_worker(work, of, &worker, false).await?;
    end_grant(work, lease, end_ms).await
}

async fn revoke(work: &mut Work, pool: &WorkerPool, of: Which<'_>, worker: u32) -> Result<(), Fault> {
    let Locked { row, .. } = pool::lock(work, of).await?.ok_or_else(|| rules::no_pool(pool))?;
    let mut known = worker_row(work, of, worker).await?;
    if known.is_none() && restore_deleted(work, of, worker).await? {
        known = worker_row(work, of, worker).await?;
    }
    let is_new = known.is_none();
    let barred = rules::revoke(pool, &row, worker, known)?;
    put_worker(work, of, &barred, is_new).await
}

async fn free(work: &mut Work, pool: &WorkerPool, of: Which<'_>, worker: u32) -> Result<(), Fault> {
    let Locked { row, .. } = pool::lock(work, of).await?.ok_or_else(|| rules::no_pool(pool))?;
    let known = worker_row(work, of, worker).await?;
    match rules::free(pool, &row, worker, known)? {
        Some(freed) => put_worker(work, of, &freed, false).await,
        None => Ok(()),
    }
}

async fn bump(work: &mut Work, pool: &WorkerPool, of: Which<'_>) -> Result<(), Fault> {
    let Locked { mut row, moment } = pool::lock(work, of).await?.ok_or_else(|| rules::no_pool(pool))?;
    protocol::bump(&mut row, moment.now_ms);
    pool::put(work, of, &row, &moment.incarnation).await
}

async fn history(work: &mut Work, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, Fault> {
    // Later than any column can say: nobody.
    let Ok(at_ms) = i64::try_from(at_ms) else { return Ok(Vec::new()) };
    let rows = work
        .session
        .fetch(
            "SELECT worker, inc, epoch, instance, from_ms, to_ms FROM mintage_grant
             WHERE pool = ?1 AND region = ?2 AND to_ms > ?3 AND from_ms <= ?3 ORDER BY worker, from_ms",
            &[(&pool.name).into(), (&pool.region).into(), at_ms.into()],
        )
        .await?;
    rows.iter().map(grant).collect()
}

/// Makes the rows of worker ids again that were deleted by hand, as their history tells, if that of `worker` is one: it is
/// about to be taken for an id that nobody has used.
async fn restore_deleted(work: &mut Work, of: Which<'_>, worker: u32) -> Result<bool, Fault> {
    let of_worker = "SELECT count(*) AS grants FROM mintage_grant WHERE pool = ?1 AND region = ?2 AND worker = ?3";
    let values = [of.pool.into(), of.region.into(), i64::from(worker).into()];
    let rows = work.session.fetch(of_worker, &values).await?;
    let row = rows.first().ok_or_else(|| Fault::Driver(sqlx::Error::RowNotFound))?;
    if read::integer(row, "grants")? == 0 {
        return Ok(false);
    }
    let restore = "INSERT INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms,
                                               expires_ms, free_after_ms, revoked, holder_clock_ms, renewed_ms)
                   SELECT kept.pool, kept.region, kept.worker, MAX(kept.inc), MAX(kept.epoch), NULL, MAX(kept.instance),
                          MAX(kept.from_ms), MAX(kept.to_ms), 0, 0, 0, 0, 0
                   FROM mintage_grant AS kept
                   WHERE kept.pool = ?1 AND kept.region = ?2 AND NOT EXISTS (
                       SELECT 1 FROM mintage_worker AS there
                       WHERE there.pool = kept.pool AND there.region = kept.region AND there.worker = kept.worker)
                   GROUP BY kept.pool, kept.region, kept.worker";
    work.session.run(restore, &[of.pool.into(), of.region.into()]).await?;
    Ok(true)
}

/// The rows behind a lease, the pool's locked.
async fn leased(work: &mut Work, lease: &Lease, of: Which<'_>) -> Result<(Locked, WorkerRow), Fault> {
    let locked = pool::lock(work, of).await?.ok_or_else(|| protocol::lost_worker(lease))?;
    let worker = worker_row(work, of, lease.worker).await?;
    Ok((locked, worker.ok_or_else(|| protocol::lost_worker(lease))?))
}

async fn workers(work: &mut Work, pool: &WorkerPool) -> Result<Vec<WorkerRow>, Fault> {
    let rows = work
        .session
        .fetch(
            "SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked,
                    holder_clock_ms, renewed_ms
             FROM mintage_worker WHERE pool = ?1 AND region = ?2 ORDER BY worker",
            &[(&pool.name).into(), (&pool.region).into()],
        )
        .await?;
    rows.iter().map(worker_of).collect()
}

async fn worker_row(work: &mut Work, of: Which<'_>, worker: u32) -> Result<Option<WorkerRow>, Fault> {
    let rows = work
        .session
        .fetch(
            "SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked,
                    holder_clock_ms, renewed_ms
             FROM mintage_worker WHERE pool = ?1 AND region = ?2 AND worker = ?3 FOR UPDATE",
            &[of.pool.into(), of.region.into(), i64::from(worker).into()],
        )
        .await?;
    rows.first().map(worker_of).transpose()
}

pub(super) fn worker_of(row: &Row) -> Result<WorkerRow, Fault> {
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

/// Writes a row that was read under the pool's lock, or one that was not there then.
pub(super) async fn put_worker(work: &mut Work, of: Which<'_>, row: &WorkerRow, is_new: bool) -> Result<(), Fault> {
    let values = [
        of.pool.into(),
        of.region.into(),
        i64::from(row.worker).into(),
        read::signed(row.inc, "a life of the store")?.into(),
        read::signed(row.epoch, "a claim")?.into(),
        row.holder.into(),
        (&row.instance).into(),
        read::signed(row.start_ms, "a time")?.into(),
        read::signed(row.floor_ms, "a time")?.into(),
        read::signed(row.expires_ms, "a time")?.into(),
        read::signed(row.free_after_ms, "a time")?.into(),
        i64::from(row.revoked).into(),
        read::signed(row.holder_clock_ms, "a clock")?.into(),
        read::signed(row.renewed_ms, "a time")?.into(),
    ];
    let sql = if is_new {
        "INSERT INTO mintage_worker (pool, region, worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms,
                                     free_after_ms, revoked, holder_clock_ms, renewed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
    } else {
        "UPDATE mintage_worker
         SET inc = ?4, epoch = ?5, holder = ?6, instance = ?7, start_ms = ?8, floor_ms = ?9, expires_ms = ?10,
             free_after_ms = ?11, revoked = ?12, holder_clock_ms = ?13, renewed_ms = ?14
         WHERE pool = ?1 AND region = ?2 AND worker = ?3"
    };
    if work.session.run(sql, &values).await? != 1 {
        let message = format!("worker id {} changed while it was locked: restore the database", row.worker);
        return Err(corrupt(message).into());
    }
    Ok(())
}

fn grant(row: &Row) -> Result<Grant, Fault> {
    let window = read::number(row, "from_ms")?..read::number(row, "to_ms")?;
    let (worker, inc, epoch) = (read::small(row, "worker")?, read::number(row, "inc")?, read::number(row, "epoch")?);
    Ok(Grant::new(worker, inc, epoch, read::text(row, "instance")?, window))
}

/// Writes a claim into the history, and deletes what is too old for it.
async fn put_grant(work: &mut Work, of: Which<'_>, grant: &Grant, now_ms: u64) -> Result<(), Fault> {
    let values = [
        of.pool.into(),
        of.region.into(),
        i64::from(grant.worker).into(),
        read::signed(grant.inc, "a life of the store")?.into(),
        read::signed(grant.epoch, "a claim")?.into(),
        (&grant.instance).into(),
        read::signed(grant.window.start, "a time")?.into(),
        read::signed(grant.window.end, "a time")?.into(),
    ];
    let insert = "INSERT INTO mintage_grant (pool, region, worker, inc, epoch, instance, from_ms, to_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    work.session.run(insert, &values).await?;
    let old_ms = read::signed(now_ms.saturating_sub(HISTORY_KEPT_MS), "a time")?;
    let delete = "DELETE FROM mintage_grant WHERE pool = ?1 AND region = ?2 AND to_ms < ?3";
    work.session.run(delete, &[of.pool.into(), of.region.into(), old_ms.into()]).await.map(drop)
}

/// Moves the end of a lease's grant: renewed or released.
async fn end_grant(work: &mut Work, lease: &Lease, end_ms: u64) -> Result<(), Fault> {
    let values = [
        read::signed(end_ms, "a time")?.into(),
        (&lease.pool).into(),
        (&lease.region).into(),
        i64::from(lease.worker).into(),
        read::signed(lease.fence.inc, "a life of the store")?.into(),
        read::signed(lease.fence.epoch, "a claim")?.into(),
    ];
    let update = "UPDATE mintage_grant SET to_ms = ?1 \
                  WHERE pool = ?2 AND region = ?3 AND worker = ?4 AND inc = ?5 AND epoch = ?6";
    work.session.run(update, &values).await.map(drop)
}
