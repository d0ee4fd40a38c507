//! A store of your own: a journal, one line of JSON a change, which a person can read and `tail -f`.
//!
//! A store keeps rows and makes changes to them atomic and durable. It decides nothing: what a claim, a renewal or an
//! allocation does to the rows is written once, in [`mintage_core::protocol`], and the laws of the test kit say whether the
//! store kept to it (see the tests). So each call below is the same few steps: copy the rows, let the protocol change the
//! copies, write them down, and answer only then.
//!
//! This one belongs to one process at a time: a second one is refused while the first is there. `cargo run --example
//! custom_backend`
#![expect(clippy::print_stdout, reason = "an example that shows its work")]

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use mintage_core::{
    Clock, Format, FormatStore, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseStore, LeaseTerms,
    RangeStore, Sequence, SequenceRow, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
    protocol::{self, PoolRow, WorkerRow},
};
use serde::{Deserialize, Serialize};

/// Ranges, leases and formats in one file of JSON lines.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
}

/// The rows as of the last line, and the file they came from.
#[derive(Debug)]
struct Book {
    /// `None` after a write that failed: nobody knows what of it is on the disk, so nothing may follow it.
    file: Option<File>,
    sequences: BTreeMap<String, SequenceRow>,
    answers: BTreeMap<(String, String), Answer>,
    pools: BTreeMap<(String, String), PoolRow>,
    workers: BTreeMap<(String, String, u32), WorkerRow>,
    grants: BTreeMap<(String, String, u32, u64), GrantRow>,
    formats: BTreeMap<String, String>,
}

/// One row of a change. A line of the journal is a whole change, so a crash leaves all of it or nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Entry {
    Sequence(SequenceRow),
    Answer { sequence: String, key: String, answer: Answer },
    Pool { pool: String, region: String, row: PoolRow },
    Worker { pool: String, region: String, row: WorkerRow },
    Grant { pool: String, region: String, row: GrantRow },
    Format { entity: String, format: String },
}

/// The range that an idempotency key was answered with.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    asked: u32,
    start: u64,
    end: u64,
    version: u64,
}

/// A [`Grant`] as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct GrantRow {
    worker: u32,
    inc: u64,
    epoch: u64,
    instance: String,
    from_ms: u64,
    to_ms: u64,
}

impl Journal {
    /// Opens the journal at `path`, or begins one.
    fn open(path: PathBuf, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let broken = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::Unavailable, format!("{}: cannot be opened", path.display()))
                .caused_by(error)
        };
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(&path).map_err(broken)?;
        if file.try_lock().is_err() {
            let message =
                format!("{}: another process has it open: stop it, or use a journal of your own", path.display());
            return Err(StoreError::new(StoreErrorKind::Conflict, message));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(broken)?;
        // What stands behind the last line break was cut off by a crash. It was never answered, so it never happened.
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).and_then(|()| file.seek(std::io::SeekFrom::End(0))).map_err(broken)?;
        let mut book = Book::empty();
        for (number, line) in text[..whole].lines().enumerate() {
            let change: Vec<Entry> = serde_json::from_str(line).map_err(|error| {
                let message =
                    format!("{}:{}: no line of a journal: restore it from a backup", path.display(), number + 1);
                StoreError::new(StoreErrorKind::Corrupt, message).caused_by(error)
            })?;
            change.into_iter().for_each(|entry| book.enter(entry));
        }
        book.file = Some(file);
        Ok(Self { path, clock, book: Mutex::new(book) })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing below panics between two rows of one change.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a change down, and only then believes it. An fsync takes a few milliseconds, on the caller's thread: enough for
    /// a small program; a store with many users would use `spawn_blocking`.
    fn write(&self, book: &mut Book, change: Vec<Entry>) -> Result<(), StoreError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let message =
                format!("{}: the change may not have reached the disk: open the journal anew", self.path.display());
            StoreError::new(StoreErrorKind::Unavailable, message).caused_by(source)
        };
        let text = serde_json::to_string(&change).map_err(|error| failed(error.into()))?;
        let mut file = book.file.take().ok_or_else(|| failed("an earlier write failed".into()))?;
        file.write_all(format!("{text}\n").as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|error| failed(error.into()))?;
        book.file = Some(file);
        change.into_iter().for_each(|entry| book.enter(entry));
        Ok(())
    }
}

#[async_trait]
impl RangeStore for Journal {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        let mut book = self.book();
        let row = protocol::new_sequence(sequence)?;
        if book.sequences.contains_key(&sequence.name) {
            return Ok(());
        }
        self.write(&mut book, vec![Entry::Sequence(row)])
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let mut book = self.book();
        let mut row = book.sequence(sequence)?;
        let cut = protocol::allocate(&mut row, sequence, len.get());
        let named = key.map(|key| (sequence.name.clone(), key.as_str().to_owned()));
        if let Some(answer) = named.as_ref().and_then(|named| book.answers.get(named)) {
            // A repeat needs no number, so the end of the sequence does not concern it. A store gone back in time does.
            if let Err(error) = cut.map(drop)
                && error.kind() != StoreErrorKind::Spent
            {
                return Err(error);
            }
            if answer.asked != len.get() {
                return Err(refused(format!("this key was answered for {} numbers: use a new key", answer.asked)));
            }
            return Ok(IdRange::new(sequence.name.clone(), answer.start, answer.end, answer.version));
        }
        let range = cut?;
        let mut change = vec![Entry::Sequence(row)];
        if let Some((sequence, key)) = named {
            let answer = Answer { asked: len.get(), start: range.start, end: range.end, version: range.version };
            change.push(Entry::Answer { sequence, key, answer });
        }
        self.write(&mut book, change)?;
        Ok(range)
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        let mut book = self.book();
        let Some(mut row) = book.sequences.get(&tail.sequence).cloned() else { return Ok(false) };
        // What a key can still ask for must not be handed out a second time.
        let asked_by_key =
            book.answers.iter().any(|((name, _), answer)| *name == tail.sequence && answer.version == tail.version);
        if asked_by_key || !protocol::give_back(&mut row, &tail) {
            return Ok(false);
        }
        self.write(&mut book, vec![Entry::Sequence(row)]).map(|()| true)
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        let mut book = self.book();
        let mut row = book.sequence(sequence)?;
        protocol::raise(&mut row, floor)?;
        self.write(&mut book, vec![Entry::Sequence(row)])
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        Ok(self.book().sequences.values().cloned().collect())
    }
}

#[async_trait]
impl LeaseStore for Journal {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let mut book = self.book();
        let now_ms = self.clock.unix_ms();
        let mut row = book.pool_or_new(pool)?;
        row.admits(pool, terms)?;
        let workers = book.workers(&pool.name, &pool.region);
        let chosen = protocol::choose(&row, &workers, which, holder, terms, now_ms)?;
        let mut worker =
            workers.into_iter().find(|worker| worker.worker == chosen).unwrap_or(WorkerRow::unused(chosen));
        let (lease, grant) = protocol::claim(&mut row, &mut worker, pool, holder, terms, now_ms)?;
        let change = entries(&lease, Some(row), worker, GrantRow::of(grant));
        self.write(&mut book, change)?;
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let mut book = self.book();
        let (mut row, mut worker, mut grant) = book.rows_of(lease)?;
        let longer = protocol::extend(&mut row, &mut worker, lease, holder, terms, self.clock.unix_ms())?;
        grant.to_ms = worker.floor_ms;
        self.write(&mut book, entries(lease, Some(row), worker, grant))?;
        Ok(longer)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        let mut book = self.book();
        let (row, mut worker, mut grant) = book.rows_of(&lease)?;
        grant.to_ms = protocol::release(&row, &mut worker, &lease, first_unused_ms, terms, self.clock.unix_ms())?;
        self.write(&mut book, entries(&lease, None, worker, grant))
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        let mut book = self.book();
        let (name, region) = (pool.name.clone(), pool.region.clone());
        let row = book.pools.get(&(name.clone(), region.clone())).ok_or_else(|| no_pool(pool))?;
        if !(row.block_start..row.block_start + row.block_len).contains(&worker) {
            return Err(refused(format!("pool {name} has no worker id {worker}")));
        }
        let known = book.workers.get(&(name.clone(), region.clone(), worker)).cloned();
        let barred = WorkerRow { revoked: true, ..known.unwrap_or(WorkerRow::unused(worker)) };
        self.write(&mut book, vec![Entry::Worker { pool: name, region, row: barred }])
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        let mut book = self.book();
        let (name, region) = (pool.name.clone(), pool.region.clone());
        let mut row = book.pools.get(&(name.clone(), region.clone())).cloned().ok_or_else(|| no_pool(pool))?;
        protocol::bump(&mut row, self.clock.unix_ms());
        self.write(&mut book, vec![Entry::Pool { pool: name, region, row }])
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        Ok(self.book().workers(&pool.name, &pool.region).iter().map(WorkerRow::describe).collect())
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        let book = self.book();
        let of_pool = book.grants.iter().filter(|((name, region, ..), _)| *name == pool.name && *region == pool.region);
        Ok(of_pool.map(|(_, row)| row.describe()).filter(|grant| grant.window.contains(&at_ms)).collect())
    }
}

#[async_trait]
impl FormatStore for Journal {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.book().formats.get(entity).map(|format| format.parse()).transpose()
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        let mut book = self.book();
        if let Some(recorded) = book.formats.get(entity) {
            let recorded = recorded.parse()?;
            format.agrees_with(&recorded, entity)?;
            if !format.grows_beyond(&recorded) {
                return Ok(());
            }
        }
        let entry = Entry::Format { entity: entity.to_owned(), format: format.to_string() };
        self.write(&mut book, vec![entry])
    }
}

impl Book {
    fn empty() -> Self {
        Self {
            file: None,
            sequences: BTreeMap::new(),
            answers: BTreeMap::new(),
            pools: BTreeMap::new(),
            workers: BTreeMap::new(),
            grants: BTreeMap::new(),
            formats: BTreeMap::new(),
        }
    }

    fn enter(&mut self, entry: Entry) {
        match entry {
            Entry::Sequence(row) => drop(self.sequences.insert(row.name.clone(), row)),
            Entry::Answer { sequence, key, answer } => drop(self.answers.insert((sequence, key), answer)),
            Entry::Pool { pool, region, row } => drop(self.pools.insert((pool, region), row)),
            Entry::Worker { pool, region, row } => drop(self.workers.insert((pool, region, row.worker), row)),
            Entry::Grant { pool, region, row } => drop(self.grants.insert((pool, region, row.worker, row.epoch), row)),
            Entry::Format { entity, format } => drop(self.formats.insert(entity, format)),
        }
    }

    fn sequence(&self, sequence: &Sequence) -> Result<SequenceRow, StoreError> {
        self.sequences.get(&sequence.name).cloned().ok_or_else(|| protocol::lost_sequence(sequence))
    }

    fn workers(&self, pool: &str, region: &str) -> Vec<WorkerRow> {
        let of_pool = self.workers.iter().filter(|((name, of, _), _)| name == pool && of == region);
        of_pool.map(|(_, row)| row.clone()).collect()
    }

    /// The row of a pool, made at its first claim. No two regions of a pool share a worker id.
    fn pool_or_new(&self, pool: &WorkerPool) -> Result<PoolRow, StoreError> {
        if let Some(row) = self.pools.get(&(pool.name.clone(), pool.region.clone())) {
            return Ok(row.clone());
        }
        if pool.known {
            return Err(protocol::lost_pool(pool));
        }
        let row = PoolRow::new(pool)?;
        for ((_, region), other) in self.pools.iter().filter(|((name, _), _)| *name == pool.name) {
            if other.block_start < pool.block.end && pool.block.start < other.block_start + other.block_len {
                return Err(refused(format!("pool {}: region {region:?} owns some of these worker ids", pool.name)));
            }
        }
        Ok(row)
    }

    /// The rows behind a lease. Whether it may still write is the protocol's to say.
    fn rows_of(&self, lease: &Lease) -> Result<(PoolRow, WorkerRow, GrantRow), StoreError> {
        let (pool, region) = (lease.pool.clone(), lease.region.clone());
        let row = self.pools.get(&(pool.clone(), region.clone()));
        let worker = self.workers.get(&(pool.clone(), region.clone(), lease.worker));
        let grant = worker.and_then(|worker| self.grants.get(&(pool, region, worker.worker, worker.epoch)));
        match (row, worker, grant) {
            (Some(row), Some(worker), Some(grant)) => Ok((row.clone(), worker.clone(), grant.clone())),
            _ => Err(protocol::lost_worker(lease)),
        }
    }
}

impl GrantRow {
    fn of(grant: Grant) -> Self {
        let Grant { worker, inc, epoch, instance, window, .. } = grant;
        Self { worker, inc, epoch, instance, from_ms: window.start, to_ms: window.end }
    }

    fn describe(&self) -> Grant {
        Grant::new(self.worker, self.inc, self.epoch, self.instance.clone(), self.from_ms..self.to_ms)
    }
}

/// A change of a lease.
fn entries(lease: &Lease, pool_row: Option<PoolRow>, worker: WorkerRow, grant: GrantRow) -> Vec<Entry> {
    let (pool, region) = (lease.pool.clone(), lease.region.clone());
    let first = pool_row.map(|row| Entry::Pool { pool: pool.clone(), region: region.clone(), row });
    let rest = [
        Entry::Worker { pool: pool.clone(), region: region.clone(), row: worker },
        Entry::Grant { pool, region, row: grant },
    ];
    first.into_iter().chain(rest).collect()
}

fn no_pool(pool: &WorkerPool) -> StoreError {
    refused(format!("no pool {} for region {:?}: a pool is made by its first claim", pool.name, pool.region))
}

fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, message)
}

/// Opens `journal:PATH`.
#[derive(Debug)]
struct JournalFactory;

#[async_trait]
impl BackendFactory for JournalFactory {
    fn url_scheme(&self) -> &'static str {
        "journal"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in one readable file; survives crashes; for one process at a time."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        match url.strip_prefix("journal:") {
            Some(path) if !path.is_empty() => Ok(()),
            _ => Err(format!("{url:?} names no file: write journal:PATH, such as journal:ids.jsonl")),
        }
    }

    fn exists(&self, address: &Address) -> bool {
        path_of(address).is_file()
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        Ok(Backend::whole(Journal::open(path_of(address), Arc::clone(&address.clock))?))
    }
}

fn path_of(address: &Address) -> PathBuf {
    address.folder.join(Path::new(address.url.strip_prefix("journal:").unwrap_or_default()))
}

/// The door: `Registry::builder().plugin::<JournalPlugin>()`.
struct JournalPlugin;

impl Plugin for JournalPlugin {
    fn install(catalog: &mut Catalog) {
        catalog.backend(JournalFactory);
    }
}

const CONFIG: &str = r#"
version = 1
[entities.orders]
scheme = "segment"
range = 100
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[workers.main]
[stores.main]
url = "journal:ids.jsonl"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for run in 1..=2 {
        println!("run {run}: {}", one_run(folder.path()).await?);
    }
    println!("\nids.jsonl:");
    print!("{}", std::fs::read_to_string(folder.path().join("ids.jsonl"))?);
    Ok(())
}

/// A program that mints three orders and an event and ends.
async fn one_run(folder: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let config = mintage::Config::parse(CONFIG, folder.join("ids.toml").display().to_string())?;
    let registry = mintage::Registry::builder().builtins().plugin::<JournalPlugin>().build(config).await?;
    let (orders, events) = (registry.any_minter("orders")?, registry.any_minter("events")?);
    let mut minted = orders.mint_many(3).await?;
    minted.push(events.mint_ready().await?);
    let texts: Vec<String> =
        minted.iter().zip([&orders, &orders, &orders, &events]).filter_map(|(id, minter)| minter.text(*id)).collect();
    registry.close().await?;
    Ok(texts.join(" "))
}

#[cfg(test)]
mod tests {
    use mintage_core::{
        ManualClock,
        testkit::store::{self, Trial},
    };

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn open(folder: &Path, clock: &ManualClock) -> Result<Journal, StoreError> {
        Journal::open(folder.join("ids.jsonl"), Arc::new(clock.clone()))
    }

    #[tokio::test]
    async fn it_keeps_the_laws() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let journal = open(folder.path(), &clock).unwrap();
        // Each cycle is two writes to the disk: a few hundred show what five thousand would.
        store::all(&journal, async |ms| clock.advance(ms), Trial { at_once: 16, cycles: 300 }).await;
    }

    #[tokio::test]
    async fn the_next_run_goes_on_where_this_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        for expected in ["1 2 3 ", "4 5 6 "] {
            let minted = one_run(folder.path()).await.unwrap();
            assert!(minted.starts_with(expected), "{minted}");
        }
    }

    /// A power cut leaves half a line: what it would have said was never answered.
    #[tokio::test]
    async fn half_a_line_never_happened_and_a_wrong_line_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.jsonl");
        let clock = ManualClock::at(NOW_MS);
        let orders = Sequence::new("orders", 1);
        let ten = NonZeroU32::new(10).unwrap();
        let journal = open(folder.path(), &clock).unwrap();
        journal.create(&orders).await.unwrap();
        journal.allocate(&orders, ten, None).await.unwrap();
        drop(journal);

        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}[{{\"Sequence\":{{\"name\":\"orders\",\"next\":")).unwrap();
        let journal = open(folder.path(), &clock).unwrap();
        assert_eq!(journal.allocate(&orders, ten, None).await.unwrap().start, 11);
        drop(journal);
        assert_eq!(open(folder.path(), &clock).unwrap().sequences().await.unwrap()[0].next, 21);

        std::fs::write(&path, format!("{whole}nonsense\n")).unwrap();
        let error = open(folder.path(), &clock).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(error.to_string().contains("ids.jsonl:3"), "{error}");
    }

    #[test]
    fn a_second_process_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let first = open(folder.path(), &clock).unwrap();
        assert_eq!(open(folder.path(), &clock).unwrap_err().kind(), StoreErrorKind::Conflict);
        drop(first);
        open(folder.path(), &clock).unwrap();
    }
}
