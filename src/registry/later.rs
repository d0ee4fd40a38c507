//! A store that is opened when it is first asked for something: it could not be reached before, or nobody needed it.

use std::sync::Arc;

use async_trait::async_trait;
use mintage_core::{
    Format, FormatStore, Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, StoreError, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, Connected},
};
use tokio::sync::OnceCell;

use super::missing;

/// Leases and formats of a store that may not be open yet. Each call tries to open it until one succeeds.
#[derive(Debug)]
pub(super) struct Later {
    factory: Arc<dyn BackendFactory>,
    address: Address,
    opened: OnceCell<Backend>,
}

impl Later {
    pub(super) fn new(factory: Arc<dyn BackendFactory>, address: Address) -> Self {
        Self { factory, address, opened: OnceCell::new() }
    }

    pub(super) async fn backend(&self) -> Result<&Backend, StoreError> {
        self.opened.get_or_try_init(|| self.factory.open(&self.address)).await
    }

    async fn leased(&self) -> Result<&dyn LeaseStore, StoreError> {
        self.backend().await?.leases.as_deref().ok_or_else(|| missing("leases"))
    }

    async fn formats(&self) -> Result<&dyn FormatStore, StoreError> {
        self.backend().await?.formats.as_deref().ok_or_else(|| missing("formats"))
    }
}

#[async_trait]
impl LeaseStore for Later {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        self.leased().await?.acquire(pool, which, holder, terms).await
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        self.leased().await?.renew(lease, holder, terms).await
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        self.leased().await?.release(lease, first_unused_ms, terms).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.leased().await?.revoke(pool, worker).await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.leased().await?.free(pool, worker).await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.leased().await?.bump(pool).await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.leased().await?.bump_all().await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.leased().await?.leases(pool).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.leased().await?.history(pool, at_ms).await
    }

    fn has_clock(&self) -> bool {
        let leases = self.opened.get().and_then(|backend| backend.leases.as_deref());
        // One that has not answered yet is watched like one without.
        leases.is_some_and(LeaseStore::has_clock)
    }

    async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
        self.leased().await?.history_lack(pool).await
    }
}

#[async_trait]
impl Connected for Later {
    async fn disconnect(&self) {
        if let Some(backend) = self.opened.get() {
            backend.disconnect().await;
        }
    }
}

#[async_trait]
impl FormatStore for Later {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.formats().await?.pinned(entity).await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        self.formats().await?.pin(entity, format).await
    }
}
