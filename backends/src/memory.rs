//! A store in the memory of one process, for tests: the same laws as everywhere, and nothing survives.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use mintage_core::{
    Clock, Format, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseTerms, Sequence, SequenceRow,
    StoreError, TokenRow, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, RangesKept},
};

use crate::{
    ledger::{Ledger, keeps_a_ledger},
    rules,
};

/// Ranges, leases, formats and tokens in memory; nothing survives the process; for tests.
#[derive(Debug)]
pub struct Memory {
    ledger: Mutex<Ledger>,
    clock: Arc<dyn Clock>,
    instance: String,
}

impl Memory {
    /// An empty store whose time is `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { ledger: Mutex::default(), clock, instance: String::new() }
    }

    /// Under this name in the history of ranges.
    #[must_use]
    pub fn with_instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    async fn run<T>(&self, op: impl FnOnce(&mut Ledger, u64) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // An operation cannot panic half way: it puts its rows back in one go at its end.
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = rules::now_ms(&*self.clock)?;
        op(&mut ledger, now_ms)
    }
}

keeps_a_ledger!(Memory);

/// Opens `memory:`. Each opening is a store of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFactory;

#[async_trait]
impl BackendFactory for MemoryFactory {
    fn url_scheme(&self) -> &'static str {
        "memory"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases, formats and tokens in memory; nothing survives the process; for tests."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        match url.strip_prefix("memory:") {
            Some("") => Ok(()),
            _ => Err(format!("{url:?}: write memory: with nothing behind it")),
        }
    }

    fn local(&self) -> bool {
        true
    }

    fn ranges_kept(&self, _: &str) -> RangesKept {
        RangesKept::WhileOpen
    }

    /// Nobody finds what another has in memory.
    fn exists(&self, _: &Address) -> bool {
        false
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        self.check(&address.url).map_err(rules::refused)?;
        Ok(Backend::full(Memory::new(address.clock.clone()).with_instance(&address.instance)))
    }
}
