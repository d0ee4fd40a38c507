//! Whether rows that were read back make sense. What fails here was written by something else, and arithmetic over it could
//! overflow: nothing is computed from a row before it is sound.

use mintage_core::{
    RANGE_END, SequenceRow, StoreError,
    protocol::{HISTORY_KEPT_MS, PoolRow, WorkerRow},
};

use crate::rules::{Answer, corrupt};

/// Largest value of a counter or time that is read back: stores keep signed 64-bit columns, and sums of a few cannot overflow.
const STORED_MAX: u64 = RANGE_END - 1;

/// Whether rows read back make sense: what fails here was written by something else, and sums over it could overflow.
pub(crate) trait Sound {
    /// # Errors
    /// `Corrupt`, naming the column.
    fn sound(&self) -> Result<(), StoreError>;
}

impl Sound for PoolRow {
    fn sound(&self) -> Result<(), StoreError> {
        let block = self.block_len > 0 && self.block_start.checked_add(self.block_len).is_some();
        let limits =
            [self.window_max_ms, self.ahead_max_ms, self.guard_ms].iter().all(|limit| *limit <= HISTORY_KEPT_MS);
        let counted = [self.inc, self.floor_min_ms, self.granted_at_ms].iter().all(|value| *value < STORED_MAX);
        sound_if(block, "the block of a pool")?;
        sound_if(limits && self.window_max_ms > 0, "a limit of a pool")?;
        sound_if(counted, "a counter or time of a pool")
    }
}

impl Sound for WorkerRow {
    fn sound(&self) -> Result<(), StoreError> {
        sound_if(
            self.inc < STORED_MAX && self.epoch < STORED_MAX && self.floor_ms < STORED_MAX,
            "a counter of a worker id",
        )
    }
}

impl Sound for SequenceRow {
    fn sound(&self) -> Result<(), StoreError> {
        sound_if(self.next <= RANGE_END && self.version < STORED_MAX, "the next number or version of a sequence")
    }
}

impl Sound for Answer {
    fn sound(&self) -> Result<(), StoreError> {
        sound_if(self.start < self.end && self.end <= RANGE_END, "the answer to an idempotency key")
    }
}

fn sound_if(sound: bool, what: &str) -> Result<(), StoreError> {
    if sound {
        return Ok(());
    }
    Err(corrupt(format!(
        "{what} in the store makes no sense: something else wrote it, restore the store from a backup"
    )))
}
