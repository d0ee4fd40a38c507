//! Which rows of a pool can win a claim. A pool can have 65536 of them, and to read them all would take too long.
//!
//! The database finds the few that [`protocol::choose_among`] asks for. It chooses nothing: a mistake here costs a claim, and a
//! test compares the outcome with a choice among all rows. The pool's row is locked, so nobody else is choosing; rows need no lock
//! of their own, and none is skipped.

use mintage_core::{
    Holder, LeaseTerms, WorkerChoice, WorkerPool,
    protocol::{self, PoolRow, WorkerRow},
};

use super::{Work, error::Fault, lease::worker_of, read, session::Value};

/// The named row, those of the previous token, the free one that comes first, and the one that is free earliest.
///
/// Parameters: pool, region, the id that is wanted by number, the previous token, the pool's floor, `max_ahead`, now.
const CANDIDATES: &str = "
    WITH claimable AS (
        SELECT worker, GREATEST(floor_ms, ?5) AS from_ms,
               GREATEST(CASE WHEN holder IS NULL OR holder = ?4 THEN 0 ELSE expires_ms END, free_after_ms,
                        GREATEST(floor_ms, ?5) - ?6) AS free_at_ms
        FROM mintage_worker
        WHERE pool = ?1 AND region = ?2 AND revoked = 0
    ), wanted (worker) AS (
        SELECT worker FROM mintage_worker WHERE pool = ?1 AND region = ?2 AND (worker = ?3 OR holder = ?4)
        UNION
        SELECT worker FROM
            (SELECT worker FROM claimable WHERE free_at_ms <= ?7
             ORDER BY CASE WHEN from_ms > ?7 THEN 1 ELSE 0 END, worker LIMIT 1) AS best
        UNION
        SELECT worker FROM (SELECT worker FROM claimable ORDER BY free_at_ms LIMIT 1) AS earliest
    )
    SELECT worker, inc, epoch, holder, instance, start_ms, floor_ms, expires_ms, free_after_ms, revoked, holder_clock_ms,
           renewed_ms
    FROM mintage_worker
    WHERE pool = ?1 AND region = ?2 AND worker IN (SELECT worker FROM wanted)";

/// The lowest number after that of a row that has no row itself; it may lie beyond the block.
const UNUSED: &str = "
    SELECT taken.worker + 1 AS unused FROM mintage_worker AS taken
    WHERE taken.pool = ?1 AND taken.region = ?2 AND taken.worker >= ?3 AND NOT EXISTS (
        SELECT 1 FROM mintage_worker AS later
        WHERE later.pool = ?1 AND later.region = ?2 AND later.worker = taken.worker + 1
    )
    ORDER BY taken.worker LIMIT 1";

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
    pub(super) async fn choose(&self, work: &mut Work) -> Result<u32, Fault> {
        let candidates = self.candidates(work).await?;
        let unused = self.unused(work).await?;
        let Self { row, which, holder, terms, now_ms, .. } = *self;
        Ok(protocol::choose_among(row, &candidates, unused, which, holder, terms, now_ms)?)
    }

    async fn candidates(&self, work: &mut Work) -> Result<Vec<WorkerRow>, Fault> {
        let named = match self.which {
            WorkerChoice::Exactly(worker) | WorkerChoice::Prefer(worker) => Some(i64::from(worker)),
            WorkerChoice::Any => None,
        };
        let values = [
            (&self.pool.name).into(),
            (&self.pool.region).into(),
            Value::Number(named),
            self.holder.previous.into(),
            read::signed(self.row.floor_min_ms, "a time")?.into(),
            read::signed(self.terms.max_ahead_ms, "max_ahead")?.into(),
            read::signed(self.now_ms, "a time")?.into(),
        ];
        work.session.fetch(CANDIDATES, &values).await?.iter().map(worker_of).collect()
    }

    async fn unused(&self, work: &mut Work) -> Result<Option<u32>, Fault> {
        let values: [Value<'_>; 3] =
            [(&self.pool.name).into(), (&self.pool.region).into(), i64::from(self.row.block_start).into()];
        let first = "SELECT worker FROM mintage_worker WHERE pool = ?1 AND region = ?2 AND worker = ?3";
        if work.session.fetch(first, &values).await?.is_empty() {
            return Ok(Some(self.row.block_start));
        }
        let rows = work.session.fetch(UNUSED, &values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let lowest = read::number(row, "unused")?;
        let block = self.row.block_start..self.row.block_start + self.row.block_len;
        Ok(u32::try_from(lowest).ok().filter(|lowest| block.contains(lowest)))
    }
}

#[cfg(test)]
#[cfg(all(unix, feature = "postgres", feature = "mysql"))]
mod tests {
    use std::{collections::BTreeMap, hash::BuildHasher, time::Duration};

    use mintage_core::{PoolLimits, StoreError};
    use mintage_servers_for_tests::{MariaDb, Postgres};

    use super::{
        super::{DatabaseStore, lease, pool::Which},
        *,
    };
    use crate::seen::SeenPool;

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
    async fn postgres_finds_all_that_can_win() {
        let Some(server) = Postgres::start() else { return };
        choosing_among_candidates_is_choosing_among_all(&server.database("candidates")).await;
    }

    #[tokio::test]
    async fn mariadb_finds_all_that_can_win() {
        let Some(server) = MariaDb::start() else { return };
        choosing_among_candidates_is_choosing_among_all(&server.database("candidates")).await;
    }

    async fn choosing_among_candidates_is_choosing_among_all(url: &str) {
        let seed = std::hash::RandomState::new().hash_one(0);
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let store = DatabaseStore::open(url, Duration::from_secs(60)).await.unwrap();
        let mut outcomes = BTreeMap::new();
        let mut work = store.begin().await.unwrap();
        for trial in 0..200 {
            let mut pool = WorkerPool::new(format!("pool-{trial}"), 3..4 + u32::try_from(dice.below(5)).unwrap());
            pool.limits = PoolLimits::new(60_000, 20, 0);
            let mut row = PoolRow::new(&pool).unwrap();
            row.floor_min_ms = if dice.below(3) == 0 { NOW_MS - 10 + 10 * dice.below(5) } else { 0 };
            let present: Vec<u32> = pool.block.clone().filter(|_| dice.below(4) > 0).collect();
            let rows: Vec<WorkerRow> = present.into_iter().map(|worker| any_row(&mut dice, worker)).collect();
            for row in &rows {
                let of = Which { pool: &pool.name, region: "", seen: SeenPool::default() };
                lease::put_worker(&mut work, of, row, true).await.unwrap();
            }
            let mut holder = Holder::new(9, "asks", 0);
            holder.previous = (dice.below(2) == 0).then_some(1);
            let terms = LeaseTerms::new(60_000, 10_000, 0, 10 * dice.below(3));
            let one = 3 + u32::try_from(dice.below(6)).unwrap();
            for which in [WorkerChoice::Any, WorkerChoice::Prefer(one), WorkerChoice::Exactly(one)] {
                let claim = Claim { pool: &pool, row: &row, which, holder: &holder, terms: &terms, now_ms: NOW_MS };
                let told = |answer: Result<u32, StoreError>| {
                    answer.map_err(|error| (error.kind(), error.retry_at_ms(), error.to_string()))
                };
                let among_all = told(protocol::choose(&row, &rows, which, &holder, &terms, NOW_MS));
                let among_few = told(claim.choose(&mut work).await.map_err(|fault| fault.at(&store.target)));
                assert_eq!(among_few, among_all, "{claim:?} of {rows:#?}");
                *outcomes.entry(format!("{:?}", among_all.map_err(|told| told.0).map(|_| ()))).or_insert(0) += 1;
            }
        }
        assert_eq!(outcomes.len(), 4, "every outcome occurs: {outcomes:?}");
        assert!(outcomes.values().all(|times| *times > 10), "{outcomes:?}");
    }
}
