//! What happens while a store is down, told from a pool's settings: how long minting goes on, and when it stops.
//!
//! Two bounds, and neither is the other: the outage bound says for how long ids are made without the store, and `max_drift`, which
//! the scheme tells, how far an id's time may be ahead of the wall clock.

use mintage_core::plugin::Fact;

use super::{Checked, EntityConfig, PoolConfig, words};

impl PoolConfig {
    /// Which worker ids there are, for how many processes, and from which store.
    pub fn capacity(&self) -> Fact {
        let (start, end) = (self.block.start, self.block.end);
        let of = match &self.region {
            Some(region) => format!("worker ids {start} to {}, those of region {region}", end.saturating_sub(1)),
            None => format!("worker ids {start} to {}", end.saturating_sub(1)),
        };
        let processes = self.block.len() / usize::try_from(self.count).unwrap_or(1).max(1);
        let each = if self.count > 1 { format!(", {} each", self.count) } else { String::new() };
        if self.block.is_empty() {
            return Fact::new("capacity", format!("no worker ids: no entity uses it; in store {}", self.store));
        }
        Fact::new(
            "capacity",
            format!("{of}, for {processes} processes at once{each}; leased from store {}", self.store),
        )
    }

    /// For how long a process that holds a lease mints while the store is down.
    pub fn outage(&self) -> Fact {
        let lease = &self.lease;
        let renew = words::duration(lease.renew_ms);
        let window = words::duration(lease.window_ms);
        let (bound_ms, how) = match lease.stop_ms {
            Some(stop_ms) => (
                stop_ms.min(lease.window_ms),
                format!("then `stop` = {} ends it, before the end of its window of {window}", words::duration(stop_ms)),
            ),
            None => (lease.window_ms, format!("to the end of its window of {window}, then it stops")),
        };
        let least = words::duration(bound_ms.saturating_sub(lease.renew_ms));
        let most = words::duration(bound_ms);
        let reserve = match &self.fallback {
            Some(fallback) => format!("new processes start from pool {fallback}"),
            None => "new processes cannot start".to_owned(),
        };
        let text = format!(
            "while its store is down a process mints on for {least} to {most} (renewed every {renew}), {how}; {reserve}"
        );
        Fact::new("outage", text)
    }
}

impl Checked {
    /// The outage bound of an entity that mints inside leases; `None` for others, which need no lease.
    pub fn outage(&self, entity: &EntityConfig) -> Option<Fact> {
        let pool = entity.needs.worker.as_ref().and_then(|need| self.pool(&need.pool))?;
        Some(pool.outage())
    }
}
