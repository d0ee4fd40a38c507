//! What this machine was given by a store, in a file of its own: an alarm against a store that has gone back in time.
//!
//! A store that was restored from a backup gives numbers and windows a second time. A process that lived through it notices by
//! itself. One that starts afterwards knows nothing, unless its machine has written down what it was given: `state_dir`.
//!
//! The file decides nothing else. A machine without one has simply seen nothing, and a file that knows too little raises no alarm.
//! So it is written after the store has answered and before anybody uses the answer, and lowered before anything is given back.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use mintage_core::{
    Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms, RangeHistory, RangeStore,
    Sequence, SequenceRow, StoreError, StoreErrorKind, TablePrefix, Vitals, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, RangesKept},
};
use serde::{Deserialize, Serialize};

/// What this code writes and understands.
const VERSION: u32 = 1;

/// How often an allocation is asked for again that only another process of this machine was in the way of.
const TRIES_MAX: u32 = 3;

/// Opens a store and remembers what it gives.
#[derive(Debug)]
pub(super) struct Remembering {
    inner: Arc<dyn BackendFactory>,
    memory: Arc<Memory>,
}

/// The file.
#[derive(Debug)]
struct Memory {
    path: PathBuf,
}

/// What is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    version: u32,
    /// One past the largest number given, by sequence.
    sequences: BTreeMap<String, u64>,
    /// The last claim of each worker id, by pool and region.
    workers: BTreeMap<String, BTreeMap<String, BTreeMap<u32, Claim>>>,
}

/// A claim, without the secret that renews it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    inc: u64,
    epoch: u64,
    start_ms: u64,
    end_ms: u64,
}

impl Claim {
    fn of(lease: &Lease) -> Self {
        let (inc, epoch) = (lease.fence.inc, lease.fence.epoch);
        Self { inc, epoch, start_ms: lease.window.start, end_ms: lease.window.end }
    }

    /// Whether it is the same claim, whatever has been added to its window or taken from it.
    fn is(&self, other: &Self) -> bool {
        (self.inc, self.epoch, self.start_ms) == (other.inc, other.epoch, other.start_ms)
    }
}

/// What this machine has written down of a store: one past the largest number it was given, by sequence. `None` where it has written
/// nothing yet.
///
/// # Errors
/// As at the start of a process: `Corrupt`, `Refused` or `Unavailable`.
pub(crate) fn remembered(folder: &Path, store: &str) -> Result<Option<BTreeMap<String, u64>>, StoreError> {
    let path = file_of(folder, store);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&path, error)),
        Ok(_) => read(&path).map(|seen| Some(seen.sequences)),
    }
}

fn file_of(folder: &Path, store: &str) -> PathBuf {
    folder.join(format!("{store}.seen"))
}

impl Remembering {
    /// `inner`, whose store is called `store` in the config, with a file in `folder`.
    pub(super) fn new(inner: Arc<dyn BackendFactory>, folder: &Path, store: &str) -> Self {
        Self { inner, memory: Arc::new(Memory { path: file_of(folder, store) }) }
    }
}

#[async_trait]
impl BackendFactory for Remembering {
    fn url_scheme(&self) -> &'static str {
        self.inner.url_scheme()
    }

    fn promise(&self) -> &'static str {
        self.inner.promise()
    }

    fn check(&self, url: &str) -> Result<(), String> {
        self.inner.check(url)
    }

    fn local(&self) -> bool {
        self.inner.local()
    }

    fn ranges_kept(&self, url: &str) -> RangesKept {
        self.inner.ranges_kept(url)
    }

    fn exists(&self, address: &Address) -> bool {
        self.inner.exists(address)
    }

    /// Readers are given nothing, so there is nothing to remember.
    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        self.inner.open_existing(address).await
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        self.inner.init(address).await
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        self.inner.vitals(address).await
    }

    fn ddl(&self, tables: &TablePrefix) -> Option<String> {
        self.inner.ddl(tables)
    }

    fn grants(&self, tables: &TablePrefix) -> Option<String> {
        self.inner.grants(tables)
    }

    fn has_tables(&self) -> bool {
        self.inner.has_tables()
    }

    fn takes_password(&self) -> bool {
        self.inner.takes_password()
    }

    fn takes_tls(&self) -> bool {
        self.inner.takes_tls()
    }

    fn keeps_gapless(&self) -> bool {
        self.inner.keeps_gapless()
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        // Whatever is wrong with the file is told before anything is claimed.
        self.memory.with(|_| ()).await?;
        let mut backend = self.inner.open(address).await?;
        let memory = || Arc::clone(&self.memory);
        backend.ranges = backend.ranges.map(|inner| Arc::new(Ranges { inner, memory: memory() }) as _);
        backend.leases = backend.leases.map(|inner| Arc::new(Leases { inner, memory: memory() }) as _);
        Ok(backend)
    }
}

/// Ranges that are remembered.
#[derive(Debug)]
struct Ranges {
    inner: Arc<dyn RangeStore>,
    memory: Arc<Memory>,
}

#[async_trait]
impl RangeStore for Ranges {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.inner.create(sequence).await
    }

    /// The store itself says `RolledBack` where it stands below what this machine was given.
    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let mut tries = 0;
        loop {
            let mut known = sequence.clone();
            let name = known.name.clone();
            let given = self.memory.with(move |seen| seen.sequences.get(&name).copied().unwrap_or_default()).await?;
            known.floor = known.floor.max(given);
            match self.inner.allocate(&known, len, key).await {
                Ok(range) => {
                    let (name, end) = (known.name, range.end);
                    let note = move |seen: &mut Seen| {
                        let given = seen.sequences.entry(name).or_default();
                        *given = end.max(*given);
                    };
                    return self.memory.with(note).await.map(|()| range);
                }
                // Another process of this machine may have given a range back between the look and the question.
                Err(error) if error.kind() == StoreErrorKind::RolledBack && tries < TRIES_MAX => {
                    tries += 1;
                    let name = known.name.clone();
                    let now = self.memory.with(move |seen| seen.sequences.get(&name).copied().unwrap_or_default());
                    if now.await? >= given {
                        let remedy =
                            format!("`mintage sequences raise {} N` does so, and N is {given} at least", known.name);
                        return Err(self.memory.explain(error, &remedy));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        let (name, start, end) = (tail.sequence.clone(), tail.start, tail.end);
        let lower = move |seen: &mut Seen| {
            if let Some(given) = seen.sequences.get_mut(&name).filter(|given| **given == end) {
                *given = start;
            }
        };
        self.memory.with(lower).await?;
        self.inner.give_back(tail).await
    }

    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.inner.restore(sequence).await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.inner.raise(sequence, floor).await
    }

    async fn stop_all(&self) -> Result<bool, StoreError> {
        self.inner.stop_all().await
    }

    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        self.inner.waiting().await
    }

    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        self.inner.sequence(name).await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.inner.sequences().await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.inner.range_history(sequence, number).await
    }

    fn history_trouble(&self) -> Option<String> {
        self.inner.history_trouble()
    }
}

/// Leases that are remembered.
#[derive(Debug)]
struct Leases {
    inner: Arc<dyn LeaseStore>,
    memory: Arc<Memory>,
}

impl Leases {
    /// Notes a claim, unless its window overlaps that of another claim of the worker id which this machine was given.
    async fn note(&self, lease: Lease) -> Result<Lease, StoreError> {
        let claim = Claim::of(&lease);
        let (pool, region, worker) = (lease.pool.clone(), lease.region.clone(), lease.worker);
        let note = move |seen: &mut Seen| {
            let workers = seen.workers.entry(pool).or_default().entry(region).or_default();
            let known = workers.entry(worker).or_insert(claim);
            if !claim.is(known) && claim.start_ms < known.end_ms && known.start_ms < claim.end_ms {
                return Some(known.end_ms);
            }
            // The later one: processes of one machine may come here out of order.
            if claim.end_ms > known.end_ms {
                *known = claim;
            }
            None
        };
        let Some(end_ms) = self.memory.with(note).await? else { return Ok(lease) };
        let error = StoreError::new(
            StoreErrorKind::RolledBack,
            format!(
                "worker id {} of pool {} was granted to the Unix millisecond {end_ms}, and now again from {}: the store was emptied or \
                 restored. Run `mintage store bump`, or start again once that time has passed",
                lease.worker, lease.pool, lease.window.start
            ),
        );
        Err(self.memory.explain(error, ""))
    }
}

#[async_trait]
impl LeaseStore for Leases {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let lease = self.inner.acquire(pool, which, holder, terms).await?;
        let noted = self.note(lease.clone()).await;
        if noted.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::RolledBack) {
            // Nothing was stamped in it. Given back whole it is what the next try meets, not a worker id of which this machine
            // knows nothing; where that fails the alarm is as good as before.
            let start_ms = lease.window.start;
            let _ = self
                .inner
                .release(lease, start_ms, &LeaseTerms::new(terms.window_ms, terms.ttl_ms, 0, terms.max_ahead_ms))
                .await;
        }
        noted
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let longer = self.inner.renew(lease, holder, terms).await?;
        let claim = Claim::of(&longer);
        self.memory.with(change_claim(&longer, move |known| known.end_ms = claim.end_ms.max(known.end_ms))).await?;
        Ok(longer)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let lower = move |known: &mut Claim| known.end_ms = known.end_ms.min(first_unused_ms.max(known.start_ms));
        self.memory.with(change_claim(&lease, lower)).await?;
        self.inner.release(lease, first_unused_ms, terms).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.inner.revoke(pool, worker).await
    }

    async fn free(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.inner.free(pool, worker).await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.inner.bump(pool).await
    }

    async fn bump_all(&self) -> Result<bool, StoreError> {
        self.inner.bump_all().await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.inner.leases(pool).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.inner.history(pool, at_ms).await
    }

    fn has_clock(&self) -> bool {
        self.inner.has_clock()
    }

    async fn history_lack(&self, pool: &WorkerPool) -> Result<Option<String>, StoreError> {
        self.inner.history_lack(pool).await
    }
}

impl Memory {
    /// Looks at what was seen, or changes it: one process of the machine at a time. What has changed is on disk before it returns.
    async fn with<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Seen) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _locked = locked(&path).map_err(|error| unusable(&path, error))?;
            let before = read(&path)?;
            let mut seen = before.clone();
            let answer = look(&mut seen);
            if seen != before {
                write(&path, &seen).map_err(|error| unusable(&path, error))?;
            }
            Ok(answer)
        });
        // It does not panic, so it was cut off together with its runtime.
        done.await.unwrap_or_else(|error| Err(unusable(&self.path, io::Error::other(error))))
    }

    /// Says where the alarm comes from.
    fn explain(&self, error: StoreError, remedy: &str) -> StoreError {
        let remedy = if remedy.is_empty() { String::new() } else { format!(": {remedy}") };
        let message = format!("{error}{remedy}. This machine was given more before: {}", self.path.display());
        StoreError::new(error.kind(), message)
    }
}

/// Changes what is noted of a claim; nothing where a later claim of the worker id is noted.
fn change_claim<F: FnOnce(&mut Claim)>(lease: &Lease, change: F) -> impl FnOnce(&mut Seen) + use<F> {
    let claim = Claim::of(lease);
    let (pool, region, worker) = (lease.pool.clone(), lease.region.clone(), lease.worker);
    move |seen| {
        let workers = seen.workers.get_mut(&pool).and_then(|regions| regions.get_mut(&region));
        if let Some(known) = workers.and_then(|workers| workers.get_mut(&worker)).filter(|known| known.is(&claim)) {
            change(known);
        }
    }
}

/// A lock that goes with the value, and with the process.
fn locked(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        // Not at any depth: a path with a slip in it would be a machine that remembers nothing.
        match fs::create_dir(folder) {
            Err(_) if folder.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("{} cannot be made: make its parent folder first", folder.display());
                return Err(io::Error::new(error.kind(), message));
            }
            made => made?,
        }
    }
    let file = File::options().create(true).truncate(false).write(true).open(path.with_extension("seen.lock"))?;
    file.lock()?;
    Ok(file)
}

fn read(path: &Path) -> Result<Seen, StoreError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Seen { version: VERSION, ..Seen::default() });
        }
        Err(error) => return Err(unusable(path, error)),
    };
    let seen: Seen = serde_json::from_slice(&text).map_err(|error| {
        StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "{}: what this machine was given cannot be read. If the store was neither restored nor emptied, delete the file: this \
                 machine then begins to remember anew",
                path.display()
            ),
        )
        .caused_by(error)
    })?;
    if seen.version != VERSION {
        let message = format!(
            "{}: written by another version of Mintage ({}): use that one here too",
            path.display(),
            seen.version
        );
        return Err(StoreError::new(StoreErrorKind::Refused, message));
    }
    Ok(seen)
}

/// In one step, and on disk: a crash leaves the old or the new.
fn write(path: &Path, seen: &Seen) -> io::Result<()> {
    let fresh = path.with_extension("seen.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&serde_json::to_vec(seen)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: io::Error) -> StoreError {
    let message = format!(
        "{}: what this machine is given cannot be written down: check state_dir, the rights on it and the disk",
        path.display()
    );
    StoreError::new(StoreErrorKind::Unavailable, message).caused_by(error)
}

#[cfg(test)]
mod tests {
    use mintage_backends::Builtin;
    use mintage_core::{
        SystemClock,
        plugin::{Catalog, Plugin as _},
    };

    use super::*;

    /// What has a default is passed on like all else: a store with a memory is the store itself in every other way.
    #[tokio::test]
    async fn it_answers_as_the_store_itself_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::default();
        Builtin::install(&mut catalog);
        let bare = catalog.backends().iter().find(|factory| factory.url_scheme() == "memory").cloned().unwrap();
        let remembering = Remembering::new(Arc::clone(&bare), folder.path(), "main");
        let address = Address::new("memory:", folder.path(), Arc::new(SystemClock));
        assert_eq!(remembering.ranges_kept("memory:"), bare.ranges_kept("memory:"));
        assert_eq!(remembering.vitals(&address).await.unwrap(), bare.vitals(&address).await.unwrap());

        let opened = remembering.open(&address).await.unwrap();
        let (leases, ranges) = (opened.leases.unwrap(), opened.ranges.unwrap());
        assert!(!leases.has_clock(), "a store in memory has no clock of its own");
        let orders = Sequence::new("orders", 1);
        ranges.create(&orders).await.unwrap();
        ranges.allocate(&orders, NonZeroU32::MIN, None).await.unwrap();
        assert_eq!(ranges.range_history("orders", 1).await.unwrap().grants.len(), 1);
        assert!(leases.bump_all().await.unwrap() && ranges.stop_all().await.unwrap());
        assert_eq!(ranges.waiting().await.unwrap(), ["*", "orders"]);
        ranges.restore(&Sequence::new("bills", 7)).await.unwrap();
        assert_eq!(ranges.sequence("bills").await.unwrap().map(|row| row.next), Some(7));
    }
}
