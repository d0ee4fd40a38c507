//! The part of building that leases worker ids: from the pool's own store, or from its reserve while that cannot be reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
};

use mintage_core::{
    Format, FormatStore, LeaseStore, LeaseTerms, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    plugin::Connected,
};

use super::{
    BuildError,
    assembly::{Assembly, pool_of},
    later::Later,
    store_error,
};
use crate::{
    config::{EntityConfig, PoolConfig},
    instance,
    keeper::{Claim, Exit, KeeperPlan, Posts, Record, Records, clocks::Clocks, clocks::Comparison, plan},
    publish::{keys_of, record_name},
    regions,
};

/// A worker id that is ours, before its keeper starts.
pub(super) struct Claimed {
    pub(super) posts: Posts,
    pub(super) claim: Claim,
    pub(super) on_reserve: bool,
    pub(super) comparison: Comparison,
}

impl Claimed {
    /// The pool of the config, whichever serves.
    pub(super) fn pool(&self) -> &str {
        &self.posts.home.pool.name
    }
}

/// What stands in place of the stores that cannot be reached.
#[derive(Default)]
pub(super) struct Detour {
    /// Pools that lease from their reserve, and why.
    pools: BTreeMap<String, StoreError>,
}

impl Detour {
    pub(super) fn leads_past(&self, pool: &str) -> bool {
        self.pools.contains_key(pool)
    }
}

impl Assembly<'_> {
    /// Finds the pools whose own store cannot be reached and that have a reserve.
    pub(super) async fn find_detours(&mut self, pools: &[&PoolConfig]) {
        for pool in pools.iter().filter(|pool| pool.fallback.is_some()) {
            if let Err(BuildError::Store { source, .. }) = self.reach(pool).await
                && source.kind() == StoreErrorKind::Unavailable
            {
                self.notices.push(format!(
                    "store {} cannot be reached ({source}): worker ids of pool {} come from its reserve, pool {}, until it can",
                    pool.store,
                    pool.name,
                    pool.fallback.as_deref().unwrap_or_default()
                ));
                self.detour.pools.insert(pool.name.clone(), source);
            }
        }
    }

    /// An error of a reserve, with the reason why it was asked.
    pub(super) fn beside_home(&self, error: BuildError) -> BuildError {
        let BuildError::Store { store, source } = error else { return error };
        let home = self.detour.pools.iter().find_map(|(pool, why)| {
            let pool = self.checked.pool(pool)?;
            let reserve = self.checked.pool(pool.fallback.as_deref()?)?;
            (reserve.store == store).then_some((&pool.store, why))
        });
        let Some((home, why)) = home else { return BuildError::Store { store, source } };
        let told = StoreError::new(
            source.kind(),
            format!("{source}. It was asked because store {home} cannot be reached: {why}"),
        );
        let told = match source.retry_at_ms() {
            Some(at_ms) => told.until(at_ms),
            None => told,
        };
        BuildError::Store { store, source: told }
    }

    /// A question that changes nothing.
    async fn reach(&mut self, pool: &PoolConfig) -> Result<(), BuildError> {
        let formats = self.formats(&pool.store).await?;
        let answer = formats.pinned(regions::RECORD).await;
        answer.map(drop).map_err(|source| store_error(&pool.store, source))
    }

    /// The store that keeps the format of an entity, or the one that stands in for it.
    pub(super) fn home_of(&self, entity: &EntityConfig) -> String {
        let pool = pool_of(entity).filter(|pool| self.detour.leads_past(pool));
        let reserve = pool.and_then(|pool| self.checked.pool(pool)?.fallback.as_deref());
        let reserve = reserve.and_then(|reserve| self.checked.pool(reserve));
        reserve.map_or_else(|| entity.store.clone(), |reserve| reserve.store.clone())
    }

    /// Compares the map of regions with the one in a store, and records what is new.
    pub(super) async fn pin_regions(&mut self, store: &str) -> Result<(), BuildError> {
        let formats = self.formats(store).await?;
        regions::settle(&*formats, &self.checked.regions).await.map_err(|source| store_error(store, source))
    }

    /// A layout that the store does not know yet is recorded, at the reserve first, only while every holder of a lease will
    /// still hear of it in time. That is judged by this machine's clock, and recorded once there is a lease: a claim is refused
    /// where the clock is far behind the store's.
    pub(super) async fn announce_revision(
        &mut self,
        entity: &EntityConfig,
        store: &str,
        recorded: &Format,
    ) -> Result<(), BuildError> {
        let format = self.format_of(entity);
        let Some(from_ms) = recorded.unknown_revision_ms(&format) else { return Ok(()) };
        let now_ms = self.builder.clock.unix_ms();
        plan::comes_in_time(&entity.name, from_ms, now_ms).map_err(|source| store_error(store, source))?;
        let pool = pool_of(entity).and_then(|pool| self.checked.pool(pool));
        let reserve = pool.and_then(|pool| self.checked.pool(pool.fallback.as_deref()?));
        if let Some(reserve) = reserve.filter(|reserve| reserve.store != store) {
            self.announced.push((reserve.store.clone(), entity.name.clone(), format));
        }
        Ok(())
    }

    /// Claims the worker ids of a pool: one, or as many as its `count` says.
    pub(super) async fn claim(
        &mut self,
        pool: &PoolConfig,
        known: bool,
        records: &[(String, String, Format)],
    ) -> Result<(), BuildError> {
        if let Some(why) = &pool.no_ordinal {
            return Err(BuildError::Ordinal { pool: pool.name.clone(), why: why.clone() });
        }
        let on_reserve = self.detour.leads_past(&pool.name);
        let reserve = pool.fallback.as_deref().and_then(|reserve| self.checked.pool(reserve));
        let (clocks, reserve_clocks) = (self.clocks(pool), reserve.and_then(|reserve| self.clocks(reserve)));
        for lane in 0..self.lanes(pool) {
            let mut home = self.plan(pool, pool, lane, records, clocks.clone()).await?;
            home.pool.known = known;
            home.records.settled = AtomicBool::new(!on_reserve);
            let mut spare = None;
            if let Some(reserve) = reserve {
                let plan = self.plan(reserve, pool, lane, records, reserve_clocks.clone()).await?;
                spare = Some(plan);
            }
            let posts = Posts {
                home,
                reserve: spare,
                lane,
                on_lost: pool.on_lease_lost,
                exit: Exit(Arc::clone(&self.builder.exit)),
            };
            let plan = posts.reserve.as_ref().filter(|_| on_reserve).unwrap_or(&posts.home);
            let store = if on_reserve { reserve.map_or(&pool.store, |reserve| &reserve.store) } else { &pool.store };
            let claim = plan.claim(None).await.map_err(|source| store_error(store, source))?;
            let comparison = plan.compare(&claim).await;
            let limit_ms = plan.clocks.as_ref().map(|clocks| clocks.limits.refuse_start_ms);
            let refused =
                comparison.skew_ms.filter(|skew_ms| limit_ms.is_some_and(|limit| skew_ms.unsigned_abs() > limit));
            let claimed = Claimed { claim, on_reserve, comparison, posts };
            self.claims.push(claimed);
            if let (Some(skew_ms), Some(limit_ms)) = (refused, limit_ms) {
                let peers = comparison.peers;
                return Err(BuildError::Clock { pool: pool.name.clone(), skew_ms, limit_ms, peers });
            }
        }
        Ok(())
    }

    /// How many worker ids to lease. A process that mints a few ids and ends has no use for a second one.
    pub(super) fn lanes(&self, pool: &PoolConfig) -> u32 {
        if self.builder.once.is_some() { 1 } else { pool.count }
    }

    /// What a keeper needs to lease from `pool` for the entities of `owner`: the same pool, or the one whose reserve it is.
    async fn plan(
        &mut self,
        pool: &PoolConfig,
        owner: &PoolConfig,
        lane: u32,
        records: &[(String, String, Format)],
        clocks: Option<Arc<Clocks>>,
    ) -> Result<KeeperPlan, BuildError> {
        let terms = self.terms(pool, owner);
        let leases = self.leases_now_or_later(pool, owner).await?;
        let (name, mut which) = (pool.instance.clone().unwrap_or_else(instance::name), pool.which);
        if let WorkerChoice::Prefer(worker) | WorkerChoice::Exactly(worker) = &mut which {
            *worker += lane;
        }
        Ok(KeeperPlan {
            store: leases,
            pool: self.whole(pool),
            which,
            terms,
            // A short window is renewed in time as well.
            renew_ms: pool.lease.renew_ms.min(terms.window_ms / 3).max(1),
            timeout_ms: self.checked.store(&pool.store).map_or(0, |store| store.timeout_ms),
            stop_ms: pool.lease.stop_ms,
            instance: if lane == 0 { name } else { format!("{name}#{}", lane + 1) },
            clock: Arc::clone(&self.builder.clock),
            records: self.records(pool, owner, records).await?,
            clocks,
        })
    }

    fn whole(&self, pool: &PoolConfig) -> WorkerPool {
        let mut whole = WorkerPool::new(pool.name.clone(), pool.block.clone());
        whole.region = pool.region.clone().unwrap_or_default();
        whole.limits = pool.lease.limits();
        whole
    }

    /// The holders to compare clocks with; none in a store that reads this machine's own clock.
    fn clocks(&self, pool: &PoolConfig) -> Option<Arc<Clocks>> {
        let local = self.factory(&pool.store).is_some_and(|factory| factory.local());
        (!local && self.builder.seed.is_none()).then(|| Arc::new(Clocks::new(pool.clock)))
    }

    /// What must be on record where `pool` leases worker ids for the entities of `owner`.
    async fn records(
        &mut self,
        pool: &PoolConfig,
        owner: &PoolConfig,
        records: &[(String, String, Format)],
    ) -> Result<Records, BuildError> {
        let checked = self.checked;
        let sharing: Vec<&EntityConfig> = checked
            .entities
            .iter()
            .filter(|entity| self.builder.wants(entity) && pool_of(entity) == Some(&owner.name))
            .collect();
        let with_reserve = owner.fallback.is_some();
        let mut entities = Vec::new();
        for entity in &sharing {
            let store = if with_reserve { &pool.store } else { &entity.store };
            let formats = self.formats_now_or_later(store, owner).await?;
            entities.push(Record { formats, name: entity.name.clone(), format: self.format_of(entity) });
        }
        let (mut others, mut mark) = (Vec::new(), None);
        if with_reserve {
            let formats = self.formats_now_or_later(&pool.store, owner).await?;
            let keys: BTreeSet<String> =
                sharing.iter().flat_map(|entity| entity.public.iter().flat_map(keys_of)).map(record_name).collect();
            for (_, name, format) in records.iter().filter(|(_, name, _)| keys.contains(name)) {
                others.push(Record { formats: Arc::clone(&formats), name: name.clone(), format: format.clone() });
            }
            mark = Some(Record {
                formats,
                name: mark_of(pool),
                format: Format::of("pool").with("start", pool.block.start).with("end", pool.block.end),
            });
        }
        let regions = if with_reserve { checked.regions.clone() } else { Default::default() };
        Ok(Records { entities, others, regions, mark, settled: AtomicBool::new(false) })
    }

    /// Records that the pool was used, where a reserve might need to know.
    pub(super) async fn mark_home(&mut self, pool: &PoolConfig) -> Result<(), BuildError> {
        if pool.fallback.is_none() || self.detour.leads_past(&pool.name) {
            return Ok(());
        }
        let format = Format::of("pool").with("start", pool.block.start).with("end", pool.block.end);
        self.pin(&pool.store, &mark_of(pool), &format).await
    }

    /// Looks at the reserve of a pool that leases at home: what must agree is compared and recorded there now, because there is
    /// nothing to compare with when home is away. A reserve that cannot be used is told, and no reason not to start; one with
    /// another config on record is.
    pub(super) async fn look_at_reserve(
        &mut self,
        pool: &PoolConfig,
        records: &[(String, String, Format)],
    ) -> Result<(), BuildError> {
        let reserve = pool.fallback.as_deref().and_then(|reserve| self.checked.pool(reserve));
        // With a seed everything is in memory, whatever stores the config names.
        let Some(reserve) = reserve.filter(|_| self.builder.seed.is_none()) else { return Ok(()) };
        // Over a line of its own: one that was idle until the outage may be dead by then, and nobody would know.
        let kept = std::mem::take(&mut self.later);
        let records = self.records(reserve, pool, records).await;
        let looked = std::mem::replace(&mut self.later, kept);
        match records?.announce(self.builder.clock.unix_ms()).await {
            Ok(()) => {
                for store in looked.values() {
                    store.disconnect().await;
                }
            }
            Err(source) if source.kind() == StoreErrorKind::FormatMismatch => {
                return Err(store_error(&reserve.store, source));
            }
            Err(error) => self.notices.push(format!(
                "pool {}, the reserve of pool {}, could not be used now: store {}: {error}",
                reserve.name, pool.name, reserve.store
            )),
        }
        Ok(())
    }

    /// Whether a pool that ids were minted from has the records of another region: then ours may be here for the first time.
    pub(super) async fn is_new_region(&mut self, pool: &PoolConfig) -> Result<bool, BuildError> {
        let checked = self.checked;
        for (region, block) in checked.regions.iter().filter(|(region, _)| pool.region.as_ref() != Some(region)) {
            let mut other = WorkerPool::new(pool.name.clone(), block.clone());
            other.region.clone_from(region);
            let rows = self.leases(&pool.store).await?.leases(&other).await;
            if !rows.map_err(|source| store_error(&pool.store, source))?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The terms of the config; for a process that ends soon, no longer a window than it needs, and no rest afterwards.
    fn terms(&self, pool: &PoolConfig, owner: &PoolConfig) -> LeaseTerms {
        /// Time for a slow machine to get from the claim to the mint.
        const HEADROOM_MS: u64 = 1_000;
        let terms = pool.lease.terms();
        let Some(count) = self.builder.once else { return terms };
        let needed_ms = self
            .checked
            .entities
            .iter()
            .filter_map(|entity| entity.needs.worker.as_ref())
            .filter(|need| need.pool == owner.name)
            .map(|need| (u64::from(count).div_ceil(need.ids_a_unit.max(1)) + 5) * u64::from(need.unit_ms))
            .max()
            .unwrap_or(0);
        let window_ms = terms.window_ms.min(needed_ms.saturating_add(HEADROOM_MS));
        LeaseTerms::new(window_ms, terms.ttl_ms.min(window_ms), 0, terms.max_ahead_ms)
    }

    /// Gives back what was claimed: the build failed.
    pub(super) async fn give_up(&mut self) {
        for Claimed { posts, claim, on_reserve, .. } in std::mem::take(&mut self.claims) {
            let plan = posts.reserve.as_ref().filter(|_| on_reserve).unwrap_or(&posts.home);
            let unused_ms = claim.lease.window.start;
            // The build's own error is the one to report; an id that cannot be released rests until its window is over.
            let _ = plan.release(claim.lease, unused_ms).await;
        }
        for store in self.connected() {
            store.disconnect().await;
        }
    }

    /// The open store of a pool; one that waits to be opened where that of `owner` is out of reach, or is not needed yet.
    async fn leases_now_or_later(
        &mut self,
        pool: &PoolConfig,
        owner: &PoolConfig,
    ) -> Result<Arc<dyn LeaseStore>, BuildError> {
        match self.later(&pool.store, owner)? {
            Some(later) => Ok(later),
            None => self.leases(&pool.store).await,
        }
    }

    async fn formats_now_or_later(
        &mut self,
        store: &str,
        owner: &PoolConfig,
    ) -> Result<Arc<dyn FormatStore>, BuildError> {
        match self.later(store, owner)? {
            Some(later) => Ok(later),
            None => self.formats(store).await,
        }
    }

    /// Only where there is a reserve: the store that does not serve now need not be open.
    fn later(&mut self, store: &str, owner: &PoolConfig) -> Result<Option<Arc<Later>>, BuildError> {
        if owner.fallback.is_none() || self.backends.contains_key(store) {
            return Ok(None);
        }
        if let Some(later) = self.later.get(store) {
            return Ok(Some(Arc::clone(later)));
        }
        let (factory, address) = self.builder.store_at(self.checked, store)?;
        let later = Arc::new(Later::new(factory, address));
        self.later.insert(store.to_owned(), Arc::clone(&later));
        Ok(Some(later))
    }
}

fn mark_of(pool: &PoolConfig) -> String {
    format!("workers.{}.{}", pool.name, pool.region.as_deref().unwrap_or_default())
}
