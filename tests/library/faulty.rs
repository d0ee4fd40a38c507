//! A store in memory that fails on demand, and remembers who asked for what.

use std::{
    collections::BTreeMap,
    future::pending,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mintage::{Registry, RegistryBuilder};
use mintage_backends::Memory;
use mintage_core::{
    Format, FormatStore, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms, ManualClock,
    RangeStore, Sequence, SequenceRow, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Every call is refused at once, and nothing happens.
    Down,
    /// Calls of this name are refused at once, and nothing happens.
    DownFor(&'static str),
    /// Every call happens, and its answer is lost.
    AnswerLost,
    /// No call is ever answered, and nothing happens.
    Hang,
    /// Every call takes so many milliseconds before it happens.
    Slow(u64),
    /// A broken store, to see whether a hunt finds it: every lease is on the first worker id of the block.
    OneWorkerForAll,
    /// Another one: a claim's window begins now, whatever was granted before.
    WindowsOverlap,
}

/// A call that changed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire(Lease),
    Renew(Lease),
    Release { worker: u32, first_unused_ms: u64 },
    Allocate(IdRange),
    GiveBack(IdRange),
    Pin(String),
}

/// Ranges, leases and formats in memory, and a fault.
#[derive(Debug)]
pub(crate) struct Faulty {
    name: String,
    inner: Arc<Memory>,
    /// The clock of a store that has none: it shows what the process that asks takes for the time.
    askers: Option<ManualClock>,
    fault: Mutex<Fault>,
    calls: Mutex<Vec<Call>>,
    refused: AtomicU32,
}

impl Faulty {
    /// An empty store whose time is `clock`. It is found by its [`url`](Self::url) as long as the tests run.
    pub(crate) fn new(clock: &ManualClock) -> Arc<Self> {
        Self::before(Arc::new(Memory::new(Arc::new(clock.clone()))), None)
    }

    /// An empty store without a clock, as etcd and ZooKeeper are: time is what each process says.
    pub(crate) fn without_clock() -> Arc<Self> {
        let askers = ManualClock::at(0);
        Self::before(Arc::new(Memory::new(Arc::new(askers.clone()))), Some(askers))
    }

    /// The same store over another line: its faults are those of one process.
    pub(crate) fn line(&self) -> Arc<Self> {
        Self::before(Arc::clone(&self.inner), self.askers.clone())
    }

    fn before(inner: Arc<Memory>, askers: Option<ManualClock>) -> Arc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let store = Arc::new(Self {
            name: COUNT.fetch_add(1, Ordering::Relaxed).to_string(),
            inner,
            askers,
            fault: Mutex::new(Fault::None),
            calls: Mutex::default(),
            refused: AtomicU32::new(0),
        });
        stores().insert(store.name.clone(), Arc::clone(&store));
        store
    }

    pub(crate) fn url(&self) -> String {
        format!("faulty:{}", self.name)
    }

    pub(crate) fn set(&self, fault: Fault) {
        *locked(&self.fault) = fault;
    }

    /// What was done so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }

    /// Every lease granted so far, renewals included.
    pub(crate) fn leases_granted(&self) -> Vec<Lease> {
        let calls = self.calls();
        calls
            .into_iter()
            .filter_map(|call| match call {
                Call::Acquire(lease) | Call::Renew(lease) => Some(lease),
                _ => None,
            })
            .collect()
    }

    /// How often a worker id was claimed.
    pub(crate) fn claims(&self) -> usize {
        self.calls().iter().filter(|call| matches!(call, Call::Acquire(_))).count()
    }

    /// The last release: worker id, and first unused millisecond.
    pub(crate) fn last_release(&self) -> Option<(u32, u64)> {
        self.calls().into_iter().rev().find_map(|call| match call {
            Call::Release { worker, first_unused_ms } => Some((worker, first_unused_ms)),
            _ => None,
        })
    }

    /// How many calls were refused because the store is down.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    fn ask_at(&self, holder: &Holder) {
        if let Some(askers) = &self.askers {
            askers.step_to(holder.clock_ms);
        }
    }

    /// The store without the fault.
    pub(crate) fn healthy(&self) -> &Memory {
        &self.inner
    }

    /// Performs a call as the fault wills, and notes what happened.
    async fn perform<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
        note: impl FnOnce(&T) -> Option<Call>,
    ) -> Result<T, StoreError> {
        let fault = *locked(&self.fault);
        match fault {
            Fault::Down => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(down(name));
            }
            Fault::DownFor(other) if other == name => return Err(down(name)),
            Fault::Hang => pending().await,
            Fault::Slow(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            _ => {}
        }
        let answer = call.await?;
        locked(&self.calls).extend(note(&answer));
        if fault == Fault::AnswerLost { Err(down(name)) } else { Ok(answer) }
    }
}

fn down(name: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the store is down for {name}: a test wants it so"))
}

#[async_trait]
impl RangeStore for Faulty {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.perform("create", self.inner.create(sequence), |()| None).await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let call = self.inner.allocate(sequence, len, key);
        self.perform("allocate", call, |range| Some(Call::Allocate(range.clone()))).await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        let call = self.inner.give_back(tail.clone());
        self.perform("give_back", call, |taken| taken.then_some(Call::GiveBack(tail))).await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.perform("raise", self.inner.raise(sequence, floor), |()| None).await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.perform("sequences", self.inner.sequences(), |_| None).await
    }
}

#[async_trait]
impl LeaseStore for Faulty {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let call = async {
            self.ask_at(holder);
            self.inner.acquire(pool, which, holder, terms).await
        };
        let mut lease = self.perform("acquire", call, |lease| Some(Call::Acquire(lease.clone()))).await?;
        match *locked(&self.fault) {
            Fault::OneWorkerForAll => lease.worker = pool.block.start,
            Fault::WindowsOverlap => lease.window.start = lease.store_now_ms,
            _ => {}
        }
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let call = async {
            self.ask_at(holder);
            self.inner.renew(lease, holder, terms).await
        };
        self.perform("renew", call, |longer| Some(Call::Renew(longer.clone()))).await
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let worker = lease.worker;
        let call = self.inner.release(lease, first_unused_ms, terms);
        self.perform("release", call, |()| Some(Call::Release { worker, first_unused_ms })).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.perform("revoke", self.inner.revoke(pool, worker), |()| None).await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.perform("bump", self.inner.bump(pool), |()| None).await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.perform("leases", self.inner.leases(pool), |_| None).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.perform("history", self.inner.history(pool, at_ms), |_| None).await
    }

    fn has_clock(&self) -> bool {
        self.askers.is_none()
    }
}

#[async_trait]
impl FormatStore for Faulty {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.perform("pinned", self.inner.pinned(entity), |_| None).await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        let call = self.inner.pin(entity, format);
        self.perform("pin", call, |()| Some(Call::Pin(entity.to_owned()))).await
    }
}

/// Opens `faulty:NAME`: the store that a test has made.
#[derive(Debug)]
struct FaultyFactory;

#[async_trait]
impl BackendFactory for FaultyFactory {
    fn url_scheme(&self) -> &'static str {
        "faulty"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in memory, unless a test wants otherwise."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        let known = url.strip_prefix("faulty:").is_some_and(|name| stores().contains_key(name));
        if known { Ok(()) } else { Err(format!("{url:?}: no test has made this store")) }
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let store = address.url.strip_prefix("faulty:").and_then(|name| stores().get(name).cloned());
        let store = store.ok_or_else(|| down("open"))?;
        let mut backend = Backend::default();
        backend.ranges = Some(Arc::clone(&store) as _);
        backend.leases = Some(Arc::clone(&store) as _);
        backend.formats = Some(store);
        Ok(backend)
    }
}

/// The door.
struct FaultyStores;

impl Plugin for FaultyStores {
    fn install(catalog: &mut Catalog) {
        catalog.backend(FaultyFactory);
    }
}

/// A builder that knows faulty stores and reads `clock`.
pub(crate) fn builder(clock: &ManualClock) -> RegistryBuilder {
    Registry::builder().builtins().plugin::<FaultyStores>().clock(clock.clone())
}

fn stores() -> MutexGuard<'static, BTreeMap<String, Arc<Faulty>>> {
    static STORES: Mutex<BTreeMap<String, Arc<Faulty>>> = Mutex::new(BTreeMap::new());
    locked(&STORES)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
