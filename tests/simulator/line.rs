//! What lies between a process and the store: a network that loses, delays, repeats and reorders, and the door through which
//! the real library finds it.
//!
//! A request goes out as a message of its own. It arrives late, twice or never, also after its sender has given up or died;
//! its answer may be lost though it was obeyed. A paused process sends nothing and hears nothing.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    num::NonZeroU32,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Format, FormatStore, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms, RangeStore,
    Sequence, SequenceRow, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
};
use mintage_schemes::Entropy;
use tokio::sync::{Notify, oneshot};

use crate::{
    mutants::{Edges, Rules},
    store::Store,
};

/// How one process is connected. Percentages are of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) requests_lost: u64,
    pub(crate) answers_lost: u64,
    pub(crate) repeated: u64,
    pub(crate) delay_ms_max: u64,
}

impl Weather {
    pub(crate) const FINE: Self = Self { requests_lost: 0, answers_lost: 0, repeated: 0, delay_ms_max: 2 };
    pub(crate) const CUT_OFF: Self = Self { requests_lost: 100, ..Self::FINE };
}

/// The network of one process: it stays while the process dies and starts again.
#[derive(Debug)]
pub(crate) struct Network {
    store: Arc<Mutex<Store>>,
    dice: Entropy,
    weather: Mutex<Weather>,
    paused: AtomicBool,
    /// Wakes those who wait for the end of a pause, in the order in which they came: a run must be the same again.
    woken: Notify,
    /// How late a repeated message can come.
    repeat_ms_max: u64,
    timeout_ms: u64,
    /// How many messages are repeated at least, in percent.
    repeated_min: u64,
    edges: Edges,
    unit_ms: u64,
}

/// What one life of a process sees of the store.
#[derive(Debug)]
pub(crate) struct Line {
    network: Arc<Network>,
    /// The windows it has heard of.
    heard: Mutex<Vec<(u32, Range<u64>)>>,
}

impl Network {
    pub(crate) fn new(
        store: Arc<Mutex<Store>>,
        seed: u64,
        timeout_ms: u64,
        repeat_ms_max: u64,
        rules: Rules,
        unit_ms: u64,
    ) -> Arc<Self> {
        let (dice, weather) = (Entropy::seeded(seed), Mutex::new(Weather::FINE));
        let (paused, woken) = (AtomicBool::new(false), Notify::new());
        let repeated_min = if rules.fixed.repeats_everything { 100 } else { 0 };
        let edges = rules.edges;
        Arc::new(Self { store, dice, weather, paused, woken, repeat_ms_max, timeout_ms, repeated_min, edges, unit_ms })
    }

    pub(crate) fn set(&self, weather: Weather) {
        *locked(&self.weather) = weather;
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
        if !paused {
            self.woken.notify_waiters();
        }
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.draw_u64().unwrap() % sides.max(1)
    }

    async fn awake(&self) {
        loop {
            // Made before the look: what changes from here on wakes it.
            let woken = self.woken.notified();
            if !self.paused.load(Ordering::SeqCst) {
                return;
            }
            woken.await;
        }
    }

    /// Carries one request to the store and its answer back.
    async fn ask<T, Op>(&self, op: Op) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Op: Fn(&mut Store) -> Result<T, StoreError> + Send + Clone + 'static,
    {
        let limit = Duration::from_millis(self.timeout_ms);
        let trip = async {
            self.awake().await;
            let answer = self.send(op);
            let heard = answer.await;
            self.awake().await;
            match heard {
                Ok(answer) => answer,
                // Lost on the way, there or back: nobody will ever tell.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::time::timeout(limit, trip).await.unwrap_or_else(|_| {
            Err(StoreError::new(StoreErrorKind::Unavailable, "no answer in time; it may have happened all the same"))
        })
    }

    fn send<T, Op>(&self, op: Op) -> oneshot::Receiver<Result<T, StoreError>>
    where
        T: Send + 'static,
        Op: Fn(&mut Store) -> Result<T, StoreError> + Send + Clone + 'static,
    {
        let (tell, answer) = oneshot::channel();
        let weather = *locked(&self.weather);
        let there_ms = self.roll(weather.delay_ms_max);
        let back_ms = self.roll(weather.delay_ms_max);
        if self.roll(100) < weather.repeated.max(self.repeated_min) {
            let late_ms = self.roll(self.repeat_ms_max);
            self.deliver(op.clone(), late_ms, None);
        }
        if self.roll(100) >= weather.requests_lost {
            let is_heard = self.roll(100) >= weather.answers_lost;
            self.deliver(op, there_ms, is_heard.then_some((tell, back_ms)));
        }
        answer
    }

    /// Sends a message on its way, which nothing can stop any more.
    fn deliver<T, Op>(&self, op: Op, there_ms: u64, answer: Option<(oneshot::Sender<Result<T, StoreError>>, u64)>)
    where
        T: Send + 'static,
        Op: Fn(&mut Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(there_ms)).await;
            let done = {
                let mut store = locked(&store);
                if store.is_down {
                    return;
                }
                op(&mut store)
            };
            if let Some((tell, back_ms)) = answer {
                tokio::time::sleep(Duration::from_millis(back_ms)).await;
                // An error means that nobody waits any more.
                let _ = tell.send(done);
            }
        });
    }
}

impl Line {
    pub(crate) fn new(network: &Arc<Network>) -> Arc<Self> {
        Arc::new(Self { network: Arc::clone(network), heard: Mutex::default() })
    }

    /// Whether all of `span` lies inside a window of `worker` that this life has heard of.
    pub(crate) fn was_granted(&self, worker: u32, span: &Range<u64>) -> bool {
        let inside = |window: &Range<u64>| window.start <= span.start && span.end <= window.end;
        locked(&self.heard).iter().rev().any(|(granted, window)| *granted == worker && inside(window))
    }

    fn hear(&self, lease: &mut Lease) {
        lease.window = self.network.edges.seen(lease.window.clone(), self.network.unit_ms);
        locked(&self.heard).push((lease.worker, lease.window.clone()));
    }
}

#[async_trait]
impl LeaseStore for Line {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let (pool, holder, terms) = (pool.clone(), holder.clone(), *terms);
        let mut lease = self.network.ask(move |store| store.acquire(&pool, which, &holder, &terms)).await?;
        self.hear(&mut lease);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let (lease, holder, terms) = (lease.clone(), holder.clone(), *terms);
        let mut longer = self.network.ask(move |store| store.renew(&lease, &holder, &terms)).await?;
        self.hear(&mut longer);
        Ok(longer)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let terms = *terms;
        let first_unused_ms = self.network.edges.given_back(first_unused_ms, self.network.unit_ms);
        self.network.ask(move |store| store.release(&lease, first_unused_ms, &terms)).await
    }

    async fn revoke(&self, _: &WorkerPool, _: u32) -> Result<(), StoreError> {
        Err(not_asked())
    }

    async fn bump(&self, _: &WorkerPool) -> Result<(), StoreError> {
        Err(not_asked())
    }

    async fn leases(&self, _: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn history(&self, _: &WorkerPool, _: u64) -> Result<Vec<Grant>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl RangeStore for Line {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        let sequence = sequence.clone();
        self.network.ask(move |store| store.create(&sequence)).await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        _: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let sequence = sequence.clone();
        self.network.ask(move |store| store.allocate(&sequence, len)).await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.network.ask(move |store| store.give_back(&tail)).await
    }

    async fn raise(&self, _: &Sequence, _: u64) -> Result<(), StoreError> {
        Err(not_asked())
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl FormatStore for Line {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        let entity = entity.to_owned();
        self.network.ask(move |store| Ok(store.pinned(&entity))).await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        let (entity, format) = (entity.to_owned(), format.clone());
        self.network.ask(move |store| store.pin(&entity, &format)).await
    }
}

fn not_asked() -> StoreError {
    StoreError::new(StoreErrorKind::Refused, "no process of a simulation asks for this")
}

thread_local! {
    /// The lines that `sim:NAME` leads to. Each simulation runs on one thread.
    static LINES: RefCell<BTreeMap<String, Arc<Line>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Lets `sim:NAME` lead to `line`, in place of what it led to before.
pub(crate) fn publish(name: &str, line: &Arc<Line>) {
    LINES.with_borrow_mut(|lines| lines.insert(name.to_owned(), Arc::clone(line)));
}

fn published(url: &str) -> Option<Arc<Line>> {
    let name = url.strip_prefix("sim:")?;
    LINES.with_borrow(|lines| lines.get(name).cloned())
}

/// The door: the library opens `sim:NAME` like any store.
pub(crate) struct SimulatedStores;

impl Plugin for SimulatedStores {
    fn install(catalog: &mut Catalog) {
        catalog.backend(Factory);
    }
}

#[derive(Debug)]
struct Factory;

#[async_trait]
impl BackendFactory for Factory {
    fn url_scheme(&self) -> &'static str {
        "sim"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in memory, behind a network that breaks."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        published(url).map(drop).ok_or_else(|| format!("{url:?}: no simulation has made it"))
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let line = published(&address.url).ok_or_else(not_asked)?;
        let mut backend = Backend::default();
        backend.ranges = Some(Arc::clone(&line) as _);
        backend.leases = Some(Arc::clone(&line) as _);
        backend.formats = Some(line);
        Ok(backend)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
