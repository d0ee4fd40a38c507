//! Wrong rules, made around the real library and the real stores. The hunt must find the duplicates that each of them makes.

use std::sync::Arc;

use async_trait::async_trait;
use mintage_core::{
    Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, StoreErrorKind, SystemClock, WorkerChoice,
    WorkerPool,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
    protocol::TIME_MAX_MS,
};

use crate::store::{Kind, open};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Holders stamp whatever their clock says until they believe their lease has run out: the usual lease.
    LeaseOnly,
    /// A restored backup is not bumped.
    NoBump,
    /// A replica that took over, without what it had not been told, is not bumped.
    NoBumpInFailover,
    /// Ranges go on from a restored backup, as if it were still the store that handed them out.
    RangesWithoutIncarnation,
}

impl Mutant {
    pub(crate) const ALL: [Self; 4] =
        [Self::NoBump, Self::NoBumpInFailover, Self::RangesWithoutIncarnation, Self::LeaseOnly];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LeaseOnly => "lease only, no windows",
            Self::NoBump => "a restored store is not bumped",
            Self::NoBumpInFailover => "a failover is not bumped",
            Self::RangesWithoutIncarnation => "ranges go on in a restored store",
        }
    }

    /// Where it can show.
    pub(crate) fn store(self) -> Kind {
        if self == Self::NoBumpInFailover { Kind::RedisPair } else { Kind::Postgres }
    }

    /// How long it may hide, in seconds; longer where windows are: a backup must be older than one of them.
    pub(crate) fn seconds(self) -> u64 {
        if self == Self::NoBump { 60 } else { 25 }
    }

    /// What befalls it, where that is not what befalls the right rules: the faults in which it shows.
    pub(crate) fn faults(self) -> &'static str {
        match self {
            Self::LeaseOnly => "kills, clock steps of up to 2 s, a store that stays well",
            Self::NoBump => "kills, backups put back, windows of 10 s",
            Self::NoBumpInFailover => "kills, replicas that take over, from which only new processes claim at first",
            Self::RangesWithoutIncarnation => "all, but of the store only backups put back",
        }
    }

    /// How members find the store.
    pub(crate) fn url(this: Option<Self>, url: &str) -> String {
        if this == Some(Self::LeaseOnly) { format!("{SCHEME}:{url}") } else { url.to_owned() }
    }
}

const SCHEME: &str = "unbounded";

/// Opens `unbounded:URL`: the store at `URL`, whose leases bound nothing.
pub(crate) struct UnboundedStores;

impl Plugin for UnboundedStores {
    fn install(catalog: &mut Catalog) {
        catalog.backend(Factory);
    }
}

#[derive(Debug)]
struct Factory;

#[async_trait]
impl BackendFactory for Factory {
    fn url_scheme(&self) -> &'static str {
        SCHEME
    }

    fn promise(&self) -> &'static str {
        "Nothing: it is here to be caught."
    }

    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let url = address.url.strip_prefix(SCHEME).and_then(|url| url.strip_prefix(':')).unwrap_or_default();
        let mut backend = open(url, Arc::new(SystemClock), address.timeout_ms).await?;
        let leases = backend.leases.take().ok_or_else(|| StoreError::new(StoreErrorKind::Refused, "no leases"))?;
        backend.leases = Some(Arc::new(Unbounded { leases }));
        Ok(backend)
    }
}

#[derive(Debug)]
struct Unbounded {
    leases: Arc<dyn LeaseStore>,
}

fn unbounded(mut lease: Lease) -> Lease {
    lease.window = 0..TIME_MAX_MS;
    lease
}

#[async_trait]
impl LeaseStore for Unbounded {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        self.leases.acquire(pool, which, holder, terms).await.map(unbounded)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        self.leases.renew(lease, holder, terms).await.map(unbounded)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        self.leases.release(lease, first_unused_ms, terms).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.leases.revoke(pool, worker).await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.leases.free(pool, worker).await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.leases.bump(pool).await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.leases.bump_all().await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.leases.leases(pool).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.leases.history(pool, at_ms).await
    }

    fn has_clock(&self) -> bool {
        self.leases.has_clock()
    }

    async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
        self.leases.history_lack(pool).await
    }
}
