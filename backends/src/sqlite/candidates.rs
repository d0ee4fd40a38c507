//! Which rows of a pool can win a claim. A pool can have 65536 of them, and to read them all took seconds.
//!
//! The database finds the few that [`protocol::choose_among`] asks for. It chooses nothing: a mistake here costs a claim, and
//! a test compares the outcome with a choice among all rows.

use mintage_core::{
    Holder, LeaseTerms, WorkerChoice, WorkerPool,
    protocol::{self, PoolRow, WorkerRow},
};

use super::{Conn, error::Fault, lease::worker_of, read};

/// The named row, those of the previous token, the free one that comes first, and the one that is free earliest.
///
/// Parameters: pool, region, the id that is wanted by number, the previous token, the pool's floor, `max_ahead`, now.
const CANDIDATES: &str = "
    WITH claimable AS (
        SELECT *, max(floor_ms, ?5) AS from_ms,
               max(CASE WHEN holder IS NULL OR holder = ?4 THEN 0 ELSE expires_ms END, free_after_ms, max(floor_ms, ?5) - ?6)
                   AS free_at_ms
        FROM mintage_worker
        WHERE pool = ?1 AND region = ?2 AND revoked = 0
    ), wanted (worker) AS (
        SELECT worker FROM mintage_worker WHERE pool = ?1 AND region = ?2 AND (worker = ?3 OR holder = ?4)
        UNION
        SELECT * FROM (SELECT worker FROM claimable WHERE free_at_ms <= ?7 ORDER BY from_ms > ?7, worker LIMIT 1)
        UNION
        SELECT * FROM (SELECT worker FROM claimable ORDER BY free_at_ms LIMIT 1)
    )
    SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked, holder_clock_ms,
           renewed_ms
    FROM mintage_worker
    WHERE pool = ?1 AND region = ?2 AND worker IN (SELECT worker FROM wanted)";

/// The lowest number from the third parameter on that has no row; it may lie beyond the block.
const UNUSED: &str = "
    SELECT CASE
        WHEN NOT EXISTS (SELECT 1 FROM mintage_worker WHERE pool = ?1 AND region = ?2 AND worker = ?3) THEN ?3
        ELSE (
            SELECT worker + 1 FROM mintage_worker AS taken
            WHERE pool = ?1 AND region = ?2 AND worker >= ?3 AND NOT EXISTS (
                SELECT 1 FROM mintage_worker AS next
                WHERE next.pool = ?1 AND next.region = ?2 AND next.worker = taken.worker + 1
            )
            ORDER BY worker LIMIT 1
        )
    END AS unused";

/// A claim that is about to be made.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) pool: &'a WorkerPool,
    pub(super) row: &'a PoolRow,
    pub(super) which: WorkerChoice,
    pub(super) holder: &'a Holder,
    pub(super) terms: &'a LeaseTerms,
    pub(super) now_ms: u64,
}

impl Claim<'_> {
    /// The worker id it takes.
    pub(super) async fn choose(&self, conn: &mut Conn<'_>) -> Result<u32, Fault> {
        let candidates = self.candidates(conn).await?;
        let unused = self.unused(conn).await?;
        let Self { row, which, holder, terms, now_ms, .. } = *self;
        Ok(protocol::choose_among(row, &candidates, unused, which, holder, terms, now_ms)?)
    }

    async fn candidates(&self, conn: &mut Conn<'_>) -> Result<Vec<WorkerRow>, Fault> {
        let named = match self.which {
            WorkerChoice::Exactly(worker) | WorkerChoice::Prefer(worker) => Some(i64::from(worker)),
            WorkerChoice::Any => None,
        };
        let rows = conn
            .query(CANDIDATES)
            .bind(&self.pool.name)
            .bind(&self.pool.region)
            .bind(named)
            .bind(self.holder.previous.map(|token| token.to_be_bytes().to_vec()))
            .bind(read::signed(self.row.floor_min_ms, "a time")?)
            .bind(read::signed(self.terms.max_ahead_ms, "max_ahead")?)
            .bind(read::signed(self.now_ms, "a time")?)
            .fetch_all(&mut *conn.link)
            .await?;
        rows.iter().map(worker_of).collect()
    }

    async fn unused(&self, conn: &mut Conn<'_>) -> Result<Option<u32>, Fault> {
        let row = conn
            .query(UNUSED)
            .bind(&self.pool.name)
            .bind(&self.pool.region)
            .bind(i64::from(self.row.block_start))
            .fetch_one(&mut *conn.link)
            .await?;
        let lowest = read::number(&row, "unused")?;
        let block = self.row.block_start..self.row.block_start + self.row.block_len;
        Ok(u32::try_from(lowest).ok().filter(|lowest| block.contains(lowest)))
    }
}

#[cfg(test)]
mod tests {
    use std::{hash::BuildHasher, sync::Arc, time::Duration};

    use mintage_core::{ManualClock, PoolLimits};

    use super::{super::SqliteStore, super::lease, *};

    /// Numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    const NOW_MS: u64 = 1_000_000;

    /// A row whose times lie on both sides of now, many of them equal.
    fn any_row(dice: &mut Dice, worker: u32) -> WorkerRow {
        let mut row = WorkerRow::unused(worker);
        let mut time = || NOW_MS - 30 + 10 * dice.below(7);
        (row.floor_ms, row.expires_ms, row.free_after_ms) = (time(), time(), time());
        row.epoch = 1;
        row.holder = [None, Some(1), Some(2), Some(3)][usize::try_from(dice.below(4)).unwrap()];
        row.revoked = dice.below(6) == 0;
        row
    }

    #[tokio::test]
    async fn choosing_among_candidates_is_choosing_among_all() {
        let seed = std::hash::RandomState::new().hash_one(0);
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let store = SqliteStore::open(folder.path().join("ids.db"), clock, Duration::from_secs(60)).await.unwrap();
        let mut outcomes = std::collections::BTreeMap::new();
        for trial in 0..400 {
            let mut pool = WorkerPool::new(format!("pool-{trial}"), 3..3 + 1 + u32::try_from(dice.below(5)).unwrap());
            pool.limits = PoolLimits::new(60_000, 20, 0);
            let mut row = PoolRow::new(&pool).unwrap();
            row.floor_min_ms = if dice.below(3) == 0 { NOW_MS - 10 + 10 * dice.below(5) } else { 0 };
            let present: Vec<u32> = pool.block.clone().filter(|_| dice.below(4) > 0).collect();
            let rows: Vec<WorkerRow> = present.into_iter().map(|worker| any_row(&mut dice, worker)).collect();
            let mut work = store.begin(super::super::WRITE).await.unwrap();
            for row in &rows {
                lease::put_worker(&mut work.conn(), &pool.name, "", row).await.unwrap();
            }
            let mut holder = Holder::new(9, "asks", 0);
            holder.previous = (dice.below(2) == 0).then_some(1);
            let terms = LeaseTerms::new(60_000, 10_000, 0, 10 * dice.below(3));
            let one = 3 + u32::try_from(dice.below(6)).unwrap();
            for which in [WorkerChoice::Any, WorkerChoice::Prefer(one), WorkerChoice::Exactly(one)] {
                let claim = Claim { pool: &pool, row: &row, which, holder: &holder, terms: &terms, now_ms: NOW_MS };
                let told = |answer: Result<u32, mintage_core::StoreError>| {
                    answer.map_err(|error| (error.kind(), error.retry_at_ms(), error.to_string()))
                };
                let among_all = told(protocol::choose(&row, &rows, which, &holder, &terms, NOW_MS));
                let among_few = told(claim.choose(&mut work.conn()).await.map_err(|fault| match fault {
                    Fault::Said(error) => error,
                    Fault::Driver(error) => panic!("{error}"),
                }));
                assert_eq!(among_few, among_all, "{claim:?} of {rows:#?}");
                *outcomes.entry(format!("{:?}", among_all.map_err(|told| told.0).map(|_| ()))).or_insert(0) += 1;
            }
            work.end(Ok(())).await.unwrap();
        }
        assert_eq!(outcomes.len(), 4, "every outcome occurs: {outcomes:?}");
        assert!(outcomes.values().all(|times| *times > 20), "{outcomes:?}");
    }
}
