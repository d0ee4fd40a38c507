//! The row of a pool: the lock behind which everything about its worker ids happens.

use mintage_core::{WorkerPool, protocol::PoolRow};

use super::{
    Moment, Work,
    error::Fault,
    read::{self, Row},
    unlisted,
};
use crate::{
    rules::{self, Records},
    seen::SeenPool,
    sound::Sound,
};

/// Which pool, and what this process knows of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which<'a> {
    pub(super) pool: &'a str,
    pub(super) region: &'a str,
    pub(super) seen: SeenPool,
}

/// A pool's row under lock, on the server it was last used on.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) row: PoolRow,
    pub(super) moment: Moment,
}

/// Locks the row. Where another server answers than the pool was last used on, or a row that is older than what this process has
/// been granted from it, the pool is bumped first, and that is final whatever becomes of the call.
pub(super) async fn lock(work: &mut Work, which: Which<'_>) -> Result<Option<Locked>, Fault> {
    loop {
        let rows = work
            .session
            .fetch(
                "SELECT region, block_start, block_len, incarnation, inc, floor_min_ms, window_max_ms, ahead_max_ms, guard_ms,
                        granted_at_ms
                 FROM mintage_pool WHERE pool = ?1 AND region = ?2 FOR UPDATE",
                &[which.pool.into(), which.region.into()],
            )
            .await?;
        let Some(found) = rows.first() else { return Ok(None) };
        let mut row = pool(found)?;
        let moment = work.moment().await?;
        if read::text(found, "incarnation")? == moment.incarnation && !which.seen.is_ahead_of(&row) {
            return Ok(Some(Locked { row, moment }));
        }
        which.seen.bump(&mut row, moment.now_ms);
        put(work, which, &row, &moment.incarnation).await?;
        work.commit_and_go_on().await?;
    }
}

/// Before when no window of a pool begins, for people: without a lock.
pub(super) async fn floor_min_ms(work: &mut Work, pool: &WorkerPool) -> Result<u64, Fault> {
    let select = "SELECT floor_min_ms FROM mintage_pool WHERE pool = ?1 AND region = ?2";
    let rows = work.session.fetch(select, &[(&pool.name).into(), (&pool.region).into()]).await?;
    rows.first().map_or(Ok(0), |row| read::number(row, "floor_min_ms"))
}

/// Locks the row, and makes it for a region that is seen for the first time.
///
/// The schema's row is locked meanwhile: two regions that appear at once must not both find the block free.
pub(super) async fn lock_or_make(work: &mut Work, whole: &WorkerPool, which: Which<'_>) -> Result<Locked, Fault> {
    if let Some(locked) = lock(work, which).await? {
        return Ok(locked);
    }
    work.session.fetch("SELECT version FROM mintage_schema FOR UPDATE", &[]).await?;
    let regions = regions(work, &whole.name).await?;
    if regions.iter().any(|(region, _)| *region == whole.region) {
        let locked = lock(work, which).await?;
        return locked.ok_or_else(|| rules::no_pool(whole).into());
    }
    let moment = work.moment().await?;
    let records = unlisted::records(work, &moment.incarnation).await?;
    let others = regions.iter().map(|(region, row)| (region.as_str(), row));
    let row = rules::new_region(whole, others, records, which.seen, moment.now_ms)?;
    let values = [
        (&whole.name).into(),
        (&whole.region).into(),
        i64::from(row.block_start).into(),
        i64::from(row.block_len).into(),
        (&moment.incarnation).into(),
        read::signed(row.inc, "a life of the store")?.into(),
        read::signed(row.floor_min_ms, "a time")?.into(),
        read::signed(row.window_max_ms, "a limit")?.into(),
        read::signed(row.ahead_max_ms, "a limit")?.into(),
        read::signed(row.guard_ms, "a limit")?.into(),
        read::signed(row.granted_at_ms, "a time")?.into(),
    ];
    let insert =
        "INSERT INTO mintage_pool (pool, region, block_start, block_len, incarnation, inc, floor_min_ms, window_max_ms,
                                            ahead_max_ms, guard_ms, granted_at_ms)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    work.session.run(insert, &values).await?;
    if records == Records::Unsure {
        // Kept whatever becomes of the claim: made anew by each attempt it would never be free.
        work.commit_and_go_on().await?;
        return lock(work, which).await?.ok_or_else(|| rules::no_pool(whole).into());
    }
    Ok(Locked { row, moment })
}

/// Writes what changes in a row; its block and limits never do.
pub(super) async fn put(work: &mut Work, which: Which<'_>, row: &PoolRow, incarnation: &str) -> Result<(), Fault> {
    let values = [
        which.pool.into(),
        which.region.into(),
        incarnation.into(),
        read::signed(row.inc, "a life of the store")?.into(),
        read::signed(row.floor_min_ms, "a time")?.into(),
        read::signed(row.granted_at_ms, "a time")?.into(),
    ];
    let update = "UPDATE mintage_pool SET incarnation = ?3, inc = ?4, floor_min_ms = ?5, granted_at_ms = ?6 \
                  WHERE pool = ?1 AND region = ?2";
    work.session.run(update, &values).await.map(drop)
}

/// All regions of a pool.
async fn regions(work: &mut Work, name: &str) -> Result<Vec<(String, PoolRow)>, Fault> {
    let rows = work
        .session
        .fetch(
            "SELECT region, block_start, block_len, inc, floor_min_ms, window_max_ms, ahead_max_ms, guard_ms, granted_at_ms
             FROM mintage_pool WHERE pool = ?1",
            &[name.into()],
        )
        .await?;
    rows.iter().map(|row| Ok((read::text(row, "region")?, pool(row)?))).collect()
}

fn pool(row: &Row) -> Result<PoolRow, Fault> {
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
