//! A store over anything that keeps small records and changes a few of them at once, if none has changed since it was read.
//!
//! Redis, etcd and ZooKeeper differ in how they do that, and in nothing else that matters here: each implements [`Cells`], two
//! calls. What the records are and what becomes of them is in this folder, once. A call reads the records it needs, lets
//! [`protocol`](mintage_core::protocol) decide, and writes them back; where another process was faster, it begins again.
//!
//! Two invariants. No answer is given before its change was acknowledged. And every change checks, besides what it read, the
//! registry record and the *life* of the store: which server, in which run, it is that answers. A store whose life has
//! changed may have forgotten its last writes: its pools are bumped at the first contact, its sequences hand out nothing until
//! somebody has raised them, and what is not there may have been forgotten. An operator's bump is counted in the registry
//! record and begins a new life, too.

mod format;
mod history;
mod lease;
mod range;
mod record;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod url;
mod vitals;
mod work;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{Clock, StoreError, StoreSetting};

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) use self::url::Servers;
use self::{
    record::{REGISTRY, Record, Registry, SCHEMA},
    work::{Fault, Work},
};
use crate::{
    rules::{corrupt, refused, rolled_back, unavailable},
    seen::Seen,
    wait::Backoff,
};

/// Records by key. Keys are plain: ASCII letters, digits and `:`, `-`, `_`, `.`, `%`.
#[async_trait]
pub(crate) trait Cells: fmt::Debug + Send + Sync + 'static {
    /// What errors call it: its address without any password.
    fn place(&self) -> &str;

    /// Whether its snapshots have a time.
    fn has_clock(&self) -> bool;

    /// Reads records, in the order of the keys: all of them as they stood at one moment after the call began. Calls decide
    /// from what several records say together, and an error is not checked by any change.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`, or `Corrupt` for a value that is no text.
    async fn read(&self, keys: &[String]) -> Result<Snapshot, StoreError>;

    /// What a person should know of the servers. None of their settings is a reason to fail here.
    ///
    /// # Errors
    /// `Unavailable`, or `Refused` for a user who may not log in.
    async fn settings(&self) -> Result<Vec<StoreSetting>, StoreError> {
        Ok(Vec::new())
    }

    /// For how long, in ms, these servers may take writes while others do that took over from them: for so long must what they
    /// grant end before the others begin, so a pool's `guard` must be as long.
    fn alone_ms_max(&self) -> u64 {
        0
    }

    /// Makes the place for the records, where it takes one. Asked for before the first record is made.
    ///
    /// # Errors
    /// `Unavailable` or `Refused`.
    async fn make_room(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes all changes at once, or none and answers `false`: when a record has another version than expected, or the
    /// store lives another life.
    ///
    /// # Errors
    /// `Unavailable`: whether the changes were made is unknown. `Refused`: they were not.
    async fn change(&self, life: &str, changes: &[Change]) -> Result<bool, StoreError>;

    /// Makes sure that what this store answered in that life is kept as safely as a change would be, for an answer that changes
    /// nothing. `false` where it now lives another.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn confirm(&self, _life: &str) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// In the order of the keys.
    pub(crate) cells: Vec<Cell>,
    /// The store's clock, Unix ms, if it has one.
    pub(crate) now_ms: Option<u64>,
    /// Changes when the store may have forgotten writes that it acknowledged.
    pub(crate) life: String,
}

/// A record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// `None` where there is no such record.
    pub(crate) value: Option<String>,
    /// Rises with every change of the record; 0 where there is none.
    pub(crate) version: u64,
}

/// What becomes of a record that is expected to have `version`.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) version: u64,
    pub(crate) to: To,
}

/// See [`Change`].
#[derive(Clone, Debug)]
pub(crate) enum To {
    /// It stays; only its version is checked. Never asked for a record that is absent.
    Same,
    /// It is written.
    Value(String),
    /// It is removed. Never asked for a record that is absent.
    Nothing,
}

/// Ranges, leases and formats in the records of `C`.
pub(crate) struct CellStore<C> {
    cells: C,
    /// For cells that have no clock.
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// What this process is called in the history of ranges.
    instance: String,
    /// Which registry this is. Another one in its place is a store that was emptied and filled anew.
    registry: String,
    /// Calls that write take turns within a process: they would only get in each other's way. Other processes are not kept
    /// out by this, but by the versions.
    turn: tokio::sync::Mutex<()>,
    seen: Seen,
    versions: Mutex<Versions>,
}

/// The versions seen so far in this life of the store: it must not go back behind them. Those of two lives cannot be compared.
#[derive(Debug, Default)]
struct Versions {
    life: String,
    versions: HashMap<String, u64>,
}

impl<C: Cells> CellStore<C> {
    /// Opens the registry, and makes it if it is not there and `make` says so.
    ///
    /// # Errors
    /// `RolledBack` when there is none and none may be made; `Refused` when a newer version wrote it; `Unavailable`.
    pub(crate) async fn open(
        cells: C,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        make: bool,
    ) -> Result<Self, StoreError> {
        let finding = async {
            if make {
                return make_registry(&cells).await.map(|(id, _)| id);
            }
            find_registry(&cells).await?.0.ok_or_else(|| {
                rolled_back(format!(
                    "{}: it has no records of Mintage. If it has had some, it was emptied or is another store: restore it. If it \
                     is new, say so once, with `mintage store init NAME` or with init=yes in its URL, and take that out again",
                    cells.place()
                ))
            })
        };
        let registry = within(timeout, cells.place(), finding).await?;
        let store = Self::of(cells, clock, timeout, registry);
        store.write(range::complete_of_old(&store)).await?;
        Ok(store)
    }

    /// Opens the registry if it is there, and makes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) async fn open_existing(
        cells: C,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let (registry, _) = within(timeout, cells.place(), find_registry(&cells)).await?;
        Ok(registry.map(|registry| Self::of(cells, clock, timeout, registry)))
    }

    /// Makes the registry if it is not there, and says whether it did.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) async fn init(cells: C, timeout: Duration) -> Result<bool, StoreError> {
        within(timeout, cells.place(), make_registry(&cells)).await.map(|(_, made)| made)
    }

    fn of(cells: C, clock: Arc<dyn Clock>, timeout: Duration, registry: String) -> Self {
        let (turn, seen, versions) = (tokio::sync::Mutex::default(), Seen::default(), Mutex::default());
        Self { cells, clock, timeout, instance: String::new(), registry, turn, seen, versions }
    }

    /// Under this name in the history of ranges.
    pub(crate) fn with_instance(mut self, instance: &str) -> Self {
        instance.clone_into(&mut self.instance);
        self
    }

    /// Begins a call that needs these records.
    async fn begin(&self, keys: &[String]) -> Result<Work<'_, C>, StoreError> {
        let mut work = Work::new(self);
        work.load(std::iter::once(REGISTRY.to_owned()).chain(keys.iter().cloned())).await?;
        let registry: Option<Registry> = work.record(REGISTRY)?;
        // Another version may have come since this process started.
        registry.as_ref().map_or(Ok(()), |registry| known_schema(registry, self.cells.place()))?;
        let Some(registry) = registry.filter(|registry| registry.id == self.registry) else {
            return Err(rolled_back(format!(
                "{}: Mintage's records are gone or were made anew since this process started: the store was emptied. Restore \
                 it, then start this process again",
                self.cells.place()
            )));
        };
        work.lives(&registry);
        Ok(work)
    }

    /// Runs a call that writes.
    async fn write<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.read(async {
            let _turn = self.turn.lock().await;
            call.await
        })
        .await
    }

    /// Runs a call, cut off at the timeout: then its outcome is unknown.
    async fn read<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        within(self.timeout, self.cells.place(), call).await
    }

    /// The versions of these records below which nothing may be read now, and in which life of the store.
    fn versions(&self, keys: &[String]) -> (String, Vec<u64>) {
        let seen = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = keys.iter().map(|key| seen.versions.get(key).copied().unwrap_or(0)).collect();
        (seen.life.clone(), versions)
    }

    fn saw(&self, life: &str, versions: impl IntoIterator<Item = (String, u64)>) {
        let mut seen = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.life != life {
            *seen = Versions { life: life.to_owned(), versions: HashMap::new() };
        }
        for (key, version) in versions.into_iter().filter(|(key, _)| record::never_removed(key)) {
            let known = seen.versions.entry(key).or_default();
            *known = version.max(*known);
        }
    }
}

impl<C: Cells> fmt::Debug for CellStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellStore").field("cells", &self.cells).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The id of the registry, if there is one, and the store's life.
async fn find_registry<C: Cells>(cells: &C) -> Result<(Option<String>, String), StoreError> {
    let snapshot = cells.read(&[REGISTRY.to_owned()]).await?;
    let Some(text) = snapshot.cells.into_iter().find_map(|cell| cell.value) else { return Ok((None, snapshot.life)) };
    let registry = Registry::read(&text)?;
    known_schema(&registry, cells.place())?;
    Ok((Some(registry.id), snapshot.life))
}

/// The id of the registry, and whether it was made by this call.
async fn make_registry<C: Cells>(cells: &C) -> Result<(String, bool), StoreError> {
    let mut backoff = Backoff::default();
    loop {
        let (found, life) = find_registry(cells).await?;
        if let Some(id) = found {
            return Ok((id, false));
        }
        cells.make_room().await?;
        let fresh = Registry::new(fresh_id(), SCHEMA, life.clone());
        let change = Change { key: REGISTRY.to_owned(), version: 0, to: To::Value(fresh.text()) };
        if cells.change(&life, &[change]).await? {
            return Ok((fresh.id, true));
        }
        // Another process makes it at this moment.
        backoff.pause().await;
    }
}

fn known_schema(registry: &Registry, place: &str) -> Result<(), StoreError> {
    match registry.schema {
        SCHEMA => Ok(()),
        newer if newer > SCHEMA => Err(refused(format!(
            "{place}: its records were written by a newer Mintage (schema {newer}, this one knows {SCHEMA}): use that version here \
             too"
        ))),
        other => {
            Err(corrupt(format!("{place}: its records say schema {other}, which never existed: restore the store")))
        }
    }
}

/// Names a registry. The standard library seeds each of these from the operating system.
fn fresh_id() -> String {
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}

async fn within<T>(
    timeout: Duration,
    place: &str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
        Err(unavailable(format!(
            "{place}: no answer within {} ms: check the server and the way to it. Whether the change was made is unknown",
            timeout.as_millis()
        )))
    })
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Said(error)
    }
}
