//! What a person does to stores and worker ids, from outside of any registry: look, revoke, release, bump, make.
//!
//! Nothing here claims or mints. Looking makes no store.

use std::sync::Arc;

use mintage_core::{
    Grant, LeaseRow, LeaseStore, RangeStore, SequenceRow, StoreError, StoreErrorKind, WorkerPool, plugin::Backend,
};

use crate::{
    BuildError, Config, RegistryBuilder,
    config::{Checked, PoolConfig},
    registry::store_error,
};

/// The stores of a config in the hands of a person.
#[derive(Debug)]
pub struct Operator<'b> {
    builder: &'b RegistryBuilder,
    checked: Checked,
}

/// What a bump did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bumped {
    /// Pool, region and count of claimed worker ids, of the config's pools.
    pub pools: Vec<(String, String, usize)>,
    /// Whether all pools of the store were bumped. Some kinds of stores, plugins, bump only those that are named.
    pub has_all_pools: bool,
    /// The sequences that wait to be raised, `*` for those that are not there.
    pub waiting: Vec<String>,
    /// Whether all sequences of the store were stopped. Some kinds of stores, plugins, cannot do that.
    pub has_all_sequences: bool,
}

/// How a worker id stands at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stood {
    /// Held by a process that renews it.
    Held,
    /// Held, but not renewed in time: others may claim it from the end of its window on.
    Expired,
    /// Free, and its last window is not over.
    Resting,
    /// Free.
    Free,
    /// Barred.
    Revoked,
}

impl Stood {
    /// The state of a row at `now_ms`, on the store's clock.
    pub fn of(row: &LeaseRow, now_ms: u64) -> Self {
        if row.revoked {
            Self::Revoked
        } else if row.held && row.expires_ms > now_ms {
            Self::Held
        } else if row.held && row.floor_ms > now_ms {
            Self::Expired
        } else if row.floor_ms > now_ms {
            Self::Resting
        } else {
            Self::Free
        }
    }

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Expired => "expired",
            Self::Resting => "resting",
            Self::Free => "free",
            Self::Revoked => "revoked",
        }
    }
}

impl RegistryBuilder {
    /// The stores of a config, for a person to look at and change.
    ///
    /// # Errors
    /// [`BuildError::Config`].
    pub fn operator(&self, config: &Config) -> Result<Operator<'_>, BuildError> {
        Ok(Operator { builder: self, checked: self.check(config)? })
    }
}

impl Operator<'_> {
    /// What the config says.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// The worker ids of a pool that were ever claimed or barred, region by region.
    ///
    /// # Errors
    /// [`BuildError::NoName`], or what the store says.
    pub async fn workers(&self, pool: &str) -> Result<Vec<(String, LeaseRow)>, BuildError> {
        let pool = self.pool(pool)?;
        let Some(leases) = self.leases(&pool.store).await? else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        for whole in self.checked.regions_of(pool) {
            let of_region = leases.leases(&whole).await.map_err(|source| store_error(&pool.store, source))?;
            rows.extend(of_region.into_iter().map(|row| (whole.region.clone(), row)));
        }
        Ok(rows)
    }

    /// Who could stamp the Unix millisecond `at_ms`, region by region.
    ///
    /// # Errors
    /// As [`workers`](Self::workers).
    pub async fn history(&self, pool: &str, at_ms: u64) -> Result<Vec<(String, Grant)>, BuildError> {
        let pool = self.pool(pool)?;
        let Some(leases) = self.leases(&pool.store).await? else { return Ok(Vec::new()) };
        let mut grants = Vec::new();
        for whole in self.checked.regions_of(pool) {
            let of_region = leases.history(&whole, at_ms).await.map_err(|source| store_error(&pool.store, source))?;
            grants.extend(of_region.into_iter().map(|grant| (whole.region.clone(), grant)));
        }
        Ok(grants)
    }

    /// Why the history of a pool may lack grants of the last 400 days: its store has dropped some to make room.
    ///
    /// # Errors
    /// As [`workers`](Self::workers).
    pub async fn history_lack(&self, pool: &str) -> Result<Option<String>, BuildError> {
        let pool = self.pool(pool)?;
        let Some(leases) = self.leases(&pool.store).await? else { return Ok(None) };
        for whole in self.checked.regions_of(pool) {
            let lack = leases.history_lack(&whole).await.map_err(|source| store_error(&pool.store, source))?;
            if lack.is_some() {
                return Ok(lack);
            }
        }
        Ok(None)
    }

    /// Bars a worker id: its holder's next renewal fails, and nobody gets it again until it is released.
    ///
    /// # Errors
    /// [`BuildError::NoName`], or what the store says.
    pub async fn revoke(&self, pool: &str, region: Option<&str>, worker: u32) -> Result<(), BuildError> {
        let (pool, whole) = self.one_region(pool, region)?;
        let leases = self.leases_there(&pool.store).await?;
        leases.revoke(&whole, worker).await.map_err(|source| store_error(&pool.store, source))
    }

    /// Whether [`revoke`](Self::revoke) and [`release`](Self::release) have something to change: for a person who is about to say
    /// yes.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub async fn may_change(&self, pool: &str, region: Option<&str>, worker: u32) -> Result<(), BuildError> {
        let (pool, whole) = self.one_region(pool, region)?;
        let leases = self.leases_there(&pool.store).await?;
        let failed = |source| store_error(&pool.store, source);
        let rows = leases.leases(&whole).await.map_err(failed)?;
        let message = if rows.is_empty() {
            format!("nobody has claimed a worker id of pool {} yet, and the first claim makes it", pool.name)
        } else if !whole.block.contains(&worker) && rows.iter().all(|row| row.worker != worker) {
            let (start, end) = (whole.block.start, whole.block.end);
            format!("pool {} has no worker id {worker}: it has {start}..{end}", pool.name)
        } else {
            return Ok(());
        };
        Err(failed(StoreError::new(StoreErrorKind::Refused, message)))
    }

    /// Takes a worker id from its holder and lifts a bar. Its next window begins where the last one ends.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub async fn release(&self, pool: &str, region: Option<&str>, worker: u32) -> Result<(), BuildError> {
        let (pool, whole) = self.one_region(pool, region)?;
        let leases = self.leases_there(&pool.store).await?;
        leases.free(&whole, worker).await.map_err(|source| store_error(&pool.store, source))
    }

    /// Makes the tables or records of a store where there are none, and says whether it did.
    ///
    /// # Errors
    /// [`BuildError::NoName`], or what the store says.
    pub async fn init(&self, store: &str) -> Result<bool, BuildError> {
        self.known_store(store)?;
        let (factory, address) = self.builder.store_at(&self.checked, store)?;
        factory.init(&address).await.map_err(|source| store_error(store, source))
    }

    /// Pool, region and count of claimed worker ids of every pool of the config that a store keeps: of those that
    /// [`bump`](Self::bump) would change.
    ///
    /// # Errors
    /// As [`init`](Self::init); a store that is not there is refused.
    pub async fn pools_in(&self, store: &str) -> Result<Vec<(String, String, usize)>, BuildError> {
        let Some(leases) = self.there(store).await?.leases else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for pool in self.checked.pools.iter().filter(|pool| pool.store == store) {
            for whole in self.checked.regions_of(pool) {
                let rows = leases.leases(&whole).await.map_err(|source| store_error(store, source))?;
                if !rows.is_empty() {
                    found.push((whole.name, whole.region, rows.len()));
                }
            }
        }
        Ok(found)
    }

    /// The sequences that a store keeps.
    ///
    /// # Errors
    /// As [`pools_in`](Self::pools_in).
    pub async fn sequences_in(&self, store: &str) -> Result<Vec<SequenceRow>, BuildError> {
        self.known_store(store)?;
        let backend = self.builder.open_existing(&self.checked, store).await?;
        let ranges: Option<Arc<dyn RangeStore>> = backend.and_then(|backend| backend.ranges);
        let Some(ranges) = ranges else { return Ok(Vec::new()) };
        ranges.sequences().await.map_err(|source| store_error(store, source))
    }

    /// Declares that a store may have forgotten its last writes. The windows of all its pools begin above all that it can have
    /// granted, whether the config names them or not, and every lease has to be claimed anew. Its sequences give no number until
    /// each was raised, and no new one is made until somebody has said that none was forgotten.
    ///
    /// # Errors
    /// As [`pools_in`](Self::pools_in). Those of its pools that were bumped by then stay so.
    pub async fn bump(&self, store: &str) -> Result<Bumped, BuildError> {
        let failed = |source| store_error(store, source);
        let pools = self.pools_in(store).await?;
        let backend = self.there(store).await?;
        let mut bumped = Bumped { pools, has_all_pools: true, waiting: Vec::new(), has_all_sequences: true };
        if let Some(leases) = backend.leases {
            // One by one first: a clock that is behind what a pool has seen is refused before anything else has changed.
            for (name, region, _) in &bumped.pools {
                let mut whole = WorkerPool::new(name.clone(), 0..0);
                whole.region.clone_from(region);
                leases.bump(&whole).await.map_err(failed)?;
            }
            bumped.has_all_pools = leases.bump_all().await.map_err(failed)?;
        }
        if let Some(ranges) = backend.ranges {
            bumped.has_all_sequences = ranges.stop_all().await.map_err(failed)?;
            bumped.waiting = ranges.waiting().await.map_err(failed)?;
        }
        Ok(bumped)
    }

    /// What a [`bump`](Self::bump) of this store would take for the time, Unix ms: this machine's clock, where the store has none.
    ///
    /// # Errors
    /// As [`pools_in`](Self::pools_in).
    pub async fn bump_by_own_clock(&self, store: &str) -> Result<Option<u64>, BuildError> {
        let leases = self.leases_there(store).await?;
        Ok((!leases.has_clock()).then(|| self.builder.clock_shared().unix_ms()))
    }

    fn pool(&self, name: &str) -> Result<&PoolConfig, BuildError> {
        let known = self.checked.pools.iter().map(|pool| pool.name.as_str());
        self.checked.pool(name).ok_or_else(|| no_name("pool", name, known))
    }

    fn known_store(&self, name: &str) -> Result<(), BuildError> {
        let known = self.checked.stores.iter().map(|store| store.name.as_str());
        self.checked.store(name).map(|_| ()).ok_or_else(|| no_name("store", name, known))
    }

    fn one_region(&self, pool: &str, region: Option<&str>) -> Result<(&PoolConfig, WorkerPool), BuildError> {
        let pool = self.pool(pool)?;
        let mut regions = self.checked.regions_of(pool);
        let wanted = region.or(pool.region.as_deref()).unwrap_or_default().to_owned();
        let at = regions.iter().position(|whole| whole.region == wanted);
        match at {
            Some(at) => Ok((pool, regions.swap_remove(at))),
            None => Err(no_name("region", &wanted, regions.iter().map(|whole| whole.region.as_str()))),
        }
    }

    async fn leases(&self, store: &str) -> Result<Option<Arc<dyn LeaseStore>>, BuildError> {
        Ok(self.builder.open_existing(&self.checked, store).await?.and_then(|backend| backend.leases))
    }

    async fn there(&self, store: &str) -> Result<Backend, BuildError> {
        self.known_store(store)?;
        let not_there = "there is no store at this address yet: nothing was changed";
        let missing = || store_error(store, StoreError::new(StoreErrorKind::Refused, not_there));
        self.builder.open_existing(&self.checked, store).await?.ok_or_else(missing)
    }

    async fn leases_there(&self, store: &str) -> Result<Arc<dyn LeaseStore>, BuildError> {
        let not_there = "there is no store at this address yet, or it keeps no leases: nothing was changed";
        let missing = || store_error(store, StoreError::new(StoreErrorKind::Refused, not_there));
        self.leases(store).await?.ok_or_else(missing)
    }
}

fn no_name<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> BuildError {
    BuildError::NoName { what, name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
}
