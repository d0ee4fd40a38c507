//! What this machine was given by a store, in a file of its own: an alarm against a store that has gone back in time.
//!
//! A store that was restored from a backup gives numbers and windows a second time. A process that lived through it notices by
//! itself. One that starts afterwards knows nothing, unless its machine has written down what it was given: `state_dir`.
//!
//! It also knows which store that was, so that another one in its place is noticed whatever it gives.
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
    FormatStore, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms, RangeHistory,
    RangeStore, Sequence, SequenceRow, StoreError, StoreErrorKind, TablePrefix, Vitals, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, RangesKept},
};
use serde::{Deserialize, Serialize};

use super::identity;

/// What this code writes. It reads what was written before as well: version 1 knew no store by its id, and no lives of pools.
const VERSION: u32 = 2;

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
    /// What the config calls the store.
    store: String,
}

/// What is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    version: u32,
    /// Which store it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<String>,
    /// One past the largest number given, by sequence.
    sequences: BTreeMap<String, u64>,
    /// The last claim of each worker id, by pool and region.
    workers: BTreeMap<String, BTreeMap<String, BTreeMap<u32, Claim>>>,
    /// The first life of each pool that counts, by region: the latest in which this machine was given a claim; the one after that,
    /// once the store was found to have gone back in it.
    #[serde(default)]
    lives: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Which version it is, whatever else is in it.
#[derive(Deserialize)]
struct Heading {
    version: u32,
}

impl Seen {
    fn known(&self, pool: &str, region: &str) -> Known {
        let claims = self.workers.get(pool).and_then(|regions| regions.get(region)).cloned().unwrap_or_default();
        let life = self.lives.get(pool).and_then(|regions| regions.get(region)).copied().unwrap_or_default();
        Known { life, claims }
    }

    /// What version 1 did not write down.
    fn bring_up(&mut self) {
        self.version = VERSION;
        for (pool, regions) in &self.workers {
            for (region, claims) in regions {
                let life = claims.values().map(|claim| claim.inc).max().unwrap_or_default();
                self.lives.entry(pool.clone()).or_default().insert(region.clone(), life);
            }
        }
    }
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

    /// Its place among the claims of its worker id: a store that forgets nothing only counts up.
    fn count(&self) -> (u64, u64) {
        (self.inc, self.epoch)
    }

    /// Whether it is the same claim, whatever has been added to its window or taken from it.
    fn is(&self, other: &Self) -> bool {
        (self.inc, self.epoch, self.start_ms) == (other.inc, other.epoch, other.start_ms)
    }
}

/// What this machine knew of a pool before it asked: an honest store answers with more than that.
struct Known {
    life: u64,
    claims: BTreeMap<u32, Claim>,
}

impl Known {
    /// Whether the store has forgotten what is known, if it answers with `claim`, a new one or one that goes on.
    fn is_ahead_of(&self, worker: u32, claim: &Claim, is_new: bool) -> bool {
        let known = self.claims.get(&worker).map(Claim::count);
        claim.inc < self.life || known.is_some_and(|known| known > claim.count() || is_new && known == claim.count())
    }
}

/// What this machine has written down of a store.
pub(crate) struct Remembered {
    /// Which one it was.
    pub(crate) registry: Option<String>,
    /// One past the largest number it gave, by sequence.
    pub(crate) sequences: BTreeMap<String, u64>,
    /// The last claim of each worker id.
    pub(crate) claims: Vec<RememberedClaim>,
    /// The pools of which a claim was refused because the store had gone back, and none counted since.
    pub(crate) alarms: Vec<String>,
}

/// A claim that this machine was given.
pub(crate) struct RememberedClaim {
    pub(crate) pool: String,
    pub(crate) region: String,
    pub(crate) worker: u32,
    pub(crate) epoch: u64,
    /// End of its window, Unix ms.
    pub(crate) end_ms: u64,
}

impl RememberedClaim {
    /// Whether a store with this row of the worker id has forgotten the claim. A bump puts the floor above all that was given.
    pub(crate) fn is_ahead_of(&self, row: &LeaseRow) -> bool {
        row.floor_ms < self.end_ms || row.floor_ms == self.end_ms && row.epoch < self.epoch
    }
}

/// What this machine has written down of a store. `None` where it has written nothing yet.
///
/// # Errors
/// As at the start of a process: `Corrupt`, `Refused` or `Unavailable`.
pub(crate) fn remembered(folder: &Path, store: &str) -> Result<Option<Remembered>, StoreError> {
    let path = file_of(folder, store);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, error)),
        Ok(_) => {}
    }
    let Seen { registry, sequences, workers, lives, .. } = read(&path)?;
    let (mut claims, mut alarms) = (Vec::new(), Vec::new());
    for (pool, regions) in workers {
        for (region, workers) in regions {
            let life = lives.get(&pool).and_then(|regions| regions.get(&region)).copied().unwrap_or_default();
            if workers.values().all(|claim| claim.inc < life) {
                alarms.push(of(&pool, &region));
            }
            claims.extend(workers.into_iter().map(|(worker, Claim { epoch, end_ms, .. })| RememberedClaim {
                pool: pool.clone(),
                region: region.clone(),
                worker,
                epoch,
                end_ms,
            }));
        }
    }
    Ok(Some(Remembered { registry, sequences, claims, alarms }))
}

/// What people call a pool in a region.
pub(crate) fn of(pool: &str, region: &str) -> String {
    if region.is_empty() { pool.to_owned() } else { format!("{pool} {region}") }
}

/// What is wrong with a store whose id is `found`, where this machine has used the one with the id `known`, and what to do.
pub(crate) fn another_store(folder: &Path, store: &str, known: &str, found: Option<&str>) -> [String; 2] {
    let found = found.map_or("a store without an id".to_owned(), |found| format!("the store with the id {found}"));
    let path = file_of(folder, store);
    [
        format!(
            "the URL of stores.{store} leads to {found}, and this machine has used the one with the id {known}: {}",
            path.display()
        ),
        format!(
            "check its URL. If the store was made anew in the place of the old one, stop its processes, run `mintage store bump \
             {store}`, raise each sequence above every number in use (`mintage sequences raise`; that file has those which this \
             machine was given), and remove the file last"
        ),
    ]
}

fn file_of(folder: &Path, store: &str) -> PathBuf {
    folder.join(format!("{store}.seen"))
}

impl Remembering {
    /// `inner`, whose store is called `store` in the config, with a file in `folder`.
    pub(super) fn new(inner: Arc<dyn BackendFactory>, folder: &Path, store: &str) -> Self {
        Self { inner, memory: Arc::new(Memory { path: file_of(folder, store), store: store.to_owned() }) }
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

    fn makes_itself(&self, url: &str) -> bool {
        self.inner.makes_itself(url)
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
        if let Some(formats) = &backend.formats
            && let Err(error) = self.memory.recognise(&**formats).await
        {
            backend.disconnect().await;
            return Err(error);
        }
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
                    let now = now.await?;
                    if now >= given && given > 0 {
                        let remedy = format!(
                            "if it was restored, `mintage store bump {}` comes first, because other counters and worker ids have gone \
                             back as well; `mintage sequences raise {} N` raises it, and N is {given} at least",
                            self.memory.store, known.name
                        );
                        return Err(self.memory.explain(error, &remedy));
                    }
                    if now >= given {
                        return Err(error);
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
    async fn known(&self, pool: &str, region: &str) -> Result<Known, StoreError> {
        let (pool, region) = (pool.to_owned(), region.to_owned());
        self.memory.with(move |seen| seen.known(&pool, &region)).await
    }

    /// Notes a claim, new or lengthened, unless the store has forgotten what this machine `knew` when it asked.
    ///
    /// # Errors
    /// `RolledBack`. From then on no claim of this life of the pool counts: or the count of claims would come up to what is known,
    /// one try after the other, and so would the windows.
    async fn note(&self, lease: Lease, knew: Known, is_new: bool) -> Result<Lease, StoreError> {
        let (claim, worker) = (Claim::of(&lease), lease.worker);
        let (pool, region) = (lease.pool.clone(), lease.region.clone());
        let note = move |seen: &mut Seen| {
            let life = seen.lives.entry(pool.clone()).or_default().entry(region.clone()).or_default();
            let workers = seen.workers.entry(pool).or_default().entry(region).or_default();
            let known = workers.get(&worker).copied();
            let overlaps = |known: &Claim| {
                is_new && !claim.is(known) && claim.start_ms < known.end_ms && known.start_ms < claim.end_ms
            };
            if knew.is_ahead_of(worker, &claim, is_new) || known.as_ref().is_some_and(overlaps) {
                *life = claim.inc.saturating_add(1).max(*life);
                return Some((*life, known));
            }
            *life = claim.inc.max(*life);
            let last = workers.entry(worker).or_insert(claim);
            if claim.is(last) {
                last.end_ms = claim.end_ms.max(last.end_ms);
            } else if claim.count() > last.count() {
                // Processes of one machine may come here out of order: the later one stays.
                *last = claim;
            }
            None
        };
        match self.memory.with(note).await? {
            Some((life, known)) => Err(self.memory.gone_back(&lease, life, known)),
            None => Ok(lease),
        }
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
        let knew = self.known(&pool.name, &pool.region).await?;
        let lease = self.inner.acquire(pool, which, holder, terms).await?;
        let noted = self.note(lease.clone(), knew, true).await;
        if noted.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::RolledBack) {
            // Nothing was stamped in it. Given back whole it is what the next try meets; where that fails the alarm is as good as
            // before.
            let start_ms = lease.window.start;
            let _ = self
                .inner
                .release(lease, start_ms, &LeaseTerms::new(terms.window_ms, terms.ttl_ms, 0, terms.max_ahead_ms))
                .await;
        }
        noted
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let knew = self.known(&lease.pool, &lease.region).await?;
        let longer = self.inner.renew(lease, holder, terms).await?;
        self.note(longer, knew, false).await
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

    /// Compares the id of a store with that of the one this machine has used. A store without one is given one, unless it should
    /// have one.
    async fn recognise(&self, formats: &dyn FormatStore) -> Result<(), StoreError> {
        let known = self.with(|seen| seen.registry.clone()).await?;
        let found = match identity::of(formats).await? {
            None if known.is_none() => Some(identity::make(formats).await?),
            found => found,
        };
        let fresh = found.clone();
        let known = self.with(move |seen| seen.registry.get_or_insert(fresh.unwrap_or_default()).clone()).await?;
        if found.as_ref() == Some(&known) {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let [told, remedy] = another_store(folder, &self.store, &known, found.as_deref());
        Err(StoreError::new(StoreErrorKind::Refused, format!("{told}. Nothing was claimed: {remedy}")))
    }

    /// The alarm that a lease raises.
    fn gone_back(&self, lease: &Lease, life: u64, known: Option<Claim>) -> StoreError {
        let (pool, worker, inc, epoch) = (&lease.pool, lease.worker, lease.fence.inc, lease.fence.epoch);
        let known = known.map_or_else(
            || format!("claims of pool {pool} count from its life {life} on"),
            |known| {
                format!(
                    "worker id {worker} of pool {pool} was granted to the Unix millisecond {}, by claim {} in life {}",
                    known.end_ms, known.epoch, known.inc
                )
            },
        );
        let more = if life > inc.saturating_add(1) { ", and again for as long as this is said" } else { "" };
        let message = format!(
            "{known}, and worker id {worker} now from {}, by claim {epoch} in life {inc}: the store was emptied or restored. Run \
             `mintage store bump {}`{more}",
            lease.window.start, self.store
        );
        self.explain(StoreError::new(StoreErrorKind::RolledBack, message), "")
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
    let unreadable = |error| {
        StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "{}: what this machine was given cannot be read. If the store was neither restored nor emptied, delete the file: this \
                 machine then begins to remember anew",
                path.display()
            ),
        )
        .caused_by(error)
    };
    let Heading { version } = serde_json::from_slice(&text).map_err(unreadable)?;
    if !(1..=VERSION).contains(&version) {
        let message =
            format!("{}: written by another version of Mintage ({version}): use that one here too", path.display());
        return Err(StoreError::new(StoreErrorKind::Refused, message));
    }
    let mut seen: Seen = serde_json::from_slice(&text).map_err(unreadable)?;
    if version < VERSION {
        seen.bring_up();
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
        ManualClock, PoolLimits, SystemClock,
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

    /// Leases that are remembered, of a store in memory.
    async fn leases(folder: &Path, clock: &ManualClock) -> Leases {
        let mut catalog = Catalog::default();
        Builtin::install(&mut catalog);
        let bare = catalog.backends().iter().find(|factory| factory.url_scheme() == "memory").cloned().unwrap();
        let address = Address::new("memory:", folder, Arc::new(clock.clone()));
        let inner = bare.open(&address).await.unwrap().leases.unwrap();
        Leases { inner, memory: Remembering::new(bare, folder, "main").memory }
    }

    fn asked() -> (WorkerPool, Holder, LeaseTerms) {
        let mut pool = WorkerPool::new("main", 0..4);
        pool.limits = PoolLimits::new(60_000, 600_000, 1_000);
        (pool, Holder::new(7, "one", 0), LeaseTerms::new(60_000, 10_000, 0, 600_000))
    }

    async fn remembered_claim(leases: &Leases) -> Claim {
        let known = leases.known("main", "").await.unwrap();
        known.claims.get(&0).copied().unwrap()
    }

    /// Two processes of one machine write down what they were given in another order than the store gave it.
    #[tokio::test]
    async fn a_claim_that_is_noted_late_is_no_alarm_and_lowers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(1_800_000_000_000);
        let leases = leases(folder.path(), &clock).await;
        let (pool, holder, terms) = asked();
        let knew = leases.known("main", "").await.unwrap();
        let first = leases.inner.acquire(&pool, WorkerChoice::Any, &holder, &terms).await.unwrap();
        leases.inner.release(first.clone(), first.window.end, &terms).await.unwrap();
        let second = leases.acquire(&pool, WorkerChoice::Exactly(0), &holder, &terms).await.unwrap();
        leases.note(first, knew, true).await.unwrap();
        assert_eq!(remembered_claim(&leases).await, Claim::of(&second));
        let longer = leases.renew(&second, &holder, &terms).await.unwrap();
        assert_eq!(remembered_claim(&leases).await.end_ms, longer.window.end);
    }

    /// A store that goes on with a claim after this machine was given a later one has forgotten that one.
    #[tokio::test]
    async fn a_renewal_that_only_a_store_of_before_gives_is_an_alarm() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(1_800_000_000_000);
        let leases = leases(folder.path(), &clock).await;
        let (pool, holder, terms) = asked();
        let lease = leases.acquire(&pool, WorkerChoice::Any, &holder, &terms).await.unwrap();
        let given_since = |seen: &mut Seen| {
            let claim = seen.workers.get_mut("main").and_then(|regions| regions.get_mut("")?.get_mut(&0));
            claim.unwrap().epoch = 2;
        };
        leases.memory.with(given_since).await.unwrap();
        let error = leases.renew(&lease, &holder, &terms).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::RolledBack);
        let told = error.to_string();
        assert!(told.contains("by claim 2 in life 1") && told.contains("`mintage store bump main`."), "{told}");
        // Even where nothing is known of the worker id any more, the life of the pool is.
        leases.memory.with(|seen| seen.workers.clear()).await.unwrap();
        let told = leases.renew(&lease, &holder, &terms).await.unwrap_err().to_string();
        assert!(told.contains("claims of pool main count from its life 2 on"), "{told}");
        leases.bump(&pool).await.unwrap();
        assert_eq!(
            leases.renew(&lease, &holder, &terms).await.unwrap_err().kind(),
            StoreErrorKind::Fenced,
            "the bump is the store's own no"
        );
        clock.advance(100_000);
        let claimed = leases.acquire(&pool, WorkerChoice::Any, &holder, &terms).await.unwrap();
        assert_eq!((claimed.fence.inc, claimed.fence.epoch), (2, 2));
    }
}
