//! What the store of the model keeps: the real rows, written small, so that millions of states fit.
//!
//! Left out are the fields that no rule reads, and `free_after_ms`: it delays a claim, so without it more can happen.

use mintage_core::protocol::{PoolRow, WorkerRow};

/// The most worker ids a model has.
pub(crate) const WORKERS_MAX: usize = 2;

/// All that the store has committed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    pub(crate) inc: u8,
    pub(crate) floor_min: u8,
    pub(crate) granted_at: u8,
    pub(crate) workers: [Worker; WORKERS_MAX],
}

/// The row of a worker id. Epoch 0 means that there is none yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Worker {
    pub(crate) inc: u8,
    pub(crate) epoch: u8,
    /// 0 for nobody.
    pub(crate) holder: u8,
    pub(crate) start: u8,
    pub(crate) floor: u8,
    pub(crate) expires: u8,
}

impl Store {
    /// The real rows; `fixed` has what never changes of the pool.
    pub(crate) fn rows(&self, fixed: &PoolRow) -> (PoolRow, Vec<WorkerRow>) {
        let pool = PoolRow {
            inc: self.inc.into(),
            floor_min_ms: self.floor_min.into(),
            granted_at_ms: self.granted_at.into(),
            ..fixed.clone()
        };
        let claimed = (0..).zip(&self.workers).filter(|(_, worker)| worker.epoch > 0);
        (pool, claimed.map(|(number, worker)| worker.row(number)).collect())
    }

    /// The store after `pool` and `row` were written to it.
    pub(crate) fn with(mut self, pool: &PoolRow, row: Option<&WorkerRow>) -> Self {
        self.inc = small(pool.inc);
        self.floor_min = small(pool.floor_min_ms);
        self.granted_at = small(pool.granted_at_ms);
        if let Some(row) = row {
            self.workers[row.worker as usize] = Worker {
                inc: small(row.inc),
                epoch: small(row.epoch),
                holder: row.holder.map_or(0, |token| u8::try_from(token).unwrap()),
                start: small(row.start_ms),
                floor: small(row.floor_ms),
                expires: small(row.expires_ms),
            };
        }
        self
    }
}

impl Worker {
    fn row(&self, number: u32) -> WorkerRow {
        WorkerRow {
            inc: self.inc.into(),
            epoch: self.epoch.into(),
            holder: (self.holder > 0).then(|| self.holder.into()),
            start_ms: self.start.into(),
            floor_ms: self.floor.into(),
            expires_ms: self.expires.into(),
            ..WorkerRow::unused(number)
        }
    }
}

/// A number of the protocol as the model keeps it.
pub(crate) fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap()
}
