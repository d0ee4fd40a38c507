//! Rules that are wrong on purpose, each by one thought that somebody could have. The search must find a duplicate for each.

use mintage_core::{
    Fence, Holder, Lease, LeaseTerms, StoreError,
    protocol::{self, PoolRow, WorkerRow},
};

use crate::windows::Rules;

/// C1: a release needs no fence. A delayed one then lowers the floor of a later holder.
pub(crate) fn release_unfenced() -> Rules {
    Rules {
        release: |pool, row, lease, first_unused_ms, terms, now_ms| {
            let token = row.holder.unwrap_or(lease.fence.token);
            row.holder = Some(token);
            let current = Fence { inc: row.inc, epoch: row.epoch, token };
            release_as(current, pool, row, lease, first_unused_ms, terms, now_ms)
        },
        ..Rules::default()
    }
}

/// D2: the fence of a release is the epoch alone. After a lost write the epoch's number is given out a second time.
pub(crate) fn release_by_epoch() -> Rules {
    Rules {
        release: |pool, row, lease, first_unused_ms, terms, now_ms| {
            let token = row.holder.unwrap_or(lease.fence.token);
            let same_epoch = Fence { inc: row.inc, epoch: lease.fence.epoch, token };
            release_as(same_epoch, pool, row, lease, first_unused_ms, terms, now_ms)
        },
        ..Rules::default()
    }
}

/// D2t: a release does not ask in which life of the store the claim was made. This one is harmless, because tokens are never
/// used twice; the fence says the same thing two times.
pub(crate) fn release_across_lives() -> Rules {
    Rules {
        release: |pool, row, lease, first_unused_ms, terms, now_ms| {
            let any_life = Fence { inc: row.inc, ..lease.fence };
            release_as(any_life, pool, row, lease, first_unused_ms, terms, now_ms)
        },
        ..Rules::default()
    }
}

/// D3: a renewal does not ask in which life of the store the claim was made. The row that came back after a lost write names
/// an old holder, and its window grows over the grant that was lost.
pub(crate) fn extend_across_lives() -> Rules {
    Rules {
        extend: |pool, row, lease, holder, terms, now_ms| {
            let (mut pool_of_then, inc) = (pool.clone(), pool.inc);
            pool_of_then.inc = lease.fence.inc;
            let lease = protocol::extend(&mut pool_of_then, row, lease, holder, terms, now_ms)?;
            *pool = PoolRow { inc, ..pool_of_then };
            Ok(lease)
        },
        ..Rules::default()
    }
}

/// D1: nobody tells the store that it has forgotten.
pub(crate) fn no_bump() -> Rules {
    Rules { bump: |_, _| (), ..Rules::default() }
}

/// D8: the bump forgets that a window may start ahead of the store's now.
pub(crate) fn bump_without_ahead() -> Rules {
    Rules {
        bump: |pool, now_ms| {
            let mut never_ahead = PoolRow { ahead_max_ms: 0, ..pool.clone() };
            protocol::bump(&mut never_ahead, now_ms);
            *pool = PoolRow { ahead_max_ms: pool.ahead_max_ms, ..never_ahead };
        },
        ..Rules::default()
    }
}

/// The real release, as if the caller had shown `fence`.
fn release_as(
    fence: Fence,
    pool: &PoolRow,
    row: &mut WorkerRow,
    lease: &Lease,
    first_unused_ms: u64,
    terms: &LeaseTerms,
    now_ms: u64,
) -> Result<u64, StoreError> {
    let mut lease = lease.clone();
    lease.fence = fence;
    let life_of_row = PoolRow { inc: fence.inc, ..pool.clone() };
    protocol::release(&life_of_row, row, &lease, first_unused_ms, terms, now_ms)
}

/// The signature of [`protocol::extend`].
pub(crate) type Extend =
    fn(&mut PoolRow, &mut WorkerRow, &Lease, &Holder, &LeaseTerms, u64) -> Result<Lease, StoreError>;
/// The signature of [`protocol::release`].
pub(crate) type Release = fn(&PoolRow, &mut WorkerRow, &Lease, u64, &LeaseTerms, u64) -> Result<u64, StoreError>;
/// The signature of [`protocol::bump`].
pub(crate) type Bump = fn(&mut PoolRow, u64);
