//! One attempt at a call: what it has read, and what it will change. Nothing is changed before [`Work::settle`].

use std::collections::{BTreeMap, HashMap};

use mintage_core::{Clock, StoreError, protocol::TIME_MAX_MS};

use super::{
    Cell, CellStore, Cells, Change, To,
    record::{Record, Registry},
};
use crate::{
    rules::{self, Records, refused, rolled_back},
    seen::Seen,
    wait::Backoff,
};

/// How many records are asked for at once: of the largest, this many still fit well into etcd's message of 4 MB.
const BATCH_LEN: usize = 32;

/// Why an attempt has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Its changes are worth keeping, and then the call has to begin again.
    Bumped,
    /// What was read does not belong together: the call has to begin again.
    Changed,
    /// That is the answer.
    Said(StoreError),
}

/// See the module.
pub(super) struct Work<'a, C> {
    store: &'a CellStore<C>,
    /// The store's time, Unix ms.
    pub(super) now_ms: u64,
    /// Whether that is only what this machine takes for the time.
    pub(super) by_own_clock: bool,
    /// The life of the servers that answer.
    pub(super) server_life: String,
    /// The store's life: the servers', and how often an operator bumped it.
    pub(super) life: String,
    /// Whether the store may have forgotten what is not there.
    pub(super) records: Records,
    /// When an operator began this life, if one did.
    bumped_ms: Option<u64>,
    read: HashMap<String, Cell>,
    changes: BTreeMap<String, To>,
}

impl<'a, C: Cells> Work<'a, C> {
    pub(super) fn new(store: &'a CellStore<C>) -> Self {
        let (read, changes) = (HashMap::new(), BTreeMap::new());
        let (server_life, life, records) = (String::new(), String::new(), Records::Unsure);
        Self { store, now_ms: 0, by_own_clock: true, server_life, life, records, bumped_ms: None, read, changes }
    }

    /// What the registry says of the store.
    pub(super) fn lives(&mut self, registry: &Registry) {
        self.life = registry.life(&self.server_life);
        let is_complete = registry.complete_in.as_ref() == Some(&self.life);
        self.records = Records::of(is_complete, registry.complete_since_ms);
        self.bumped_ms = registry.bumped_ms.filter(|_| registry.bumped_in.as_ref() == Some(&self.server_life));
    }

    /// A time before which all was granted that this life may have forgotten: where the store has no clock, the operator's who
    /// began it, for this machine's may be hours off.
    pub(super) fn began_ms(&self) -> u64 {
        self.bumped_ms.filter(|_| self.by_own_clock).unwrap_or(self.now_ms)
    }

    /// Where the records are.
    pub(super) fn cells(&self) -> &C {
        &self.store.cells
    }

    /// What this process knows of the store.
    pub(super) fn seen(&self) -> &Seen {
        &self.store.seen
    }

    /// Reads the records that have not been read yet.
    pub(super) async fn load(&mut self, keys: impl IntoIterator<Item = String>) -> Result<(), StoreError> {
        let keys: Vec<String> = keys.into_iter().filter(|key| !self.read.contains_key(key)).collect();
        for batch in keys.chunks(BATCH_LEN) {
            // Taken before the question is sent: an answer to it must not be older, whatever other calls see meanwhile.
            let (life, versions) = self.store.versions(batch);
            let snapshot = self.store.cells.read(batch).await?;
            if snapshot.life == life {
                self.not_older(batch, &snapshot.cells, &versions)?;
            }
            self.by_own_clock = snapshot.now_ms.is_none();
            self.now_ms = match snapshot.now_ms {
                Some(now_ms) => sensible(self.store.cells.place(), now_ms)?,
                None => rules::now_ms(&self.store.clock as &dyn Clock)?,
            };
            self.store.saw(&snapshot.life, batch.iter().cloned().zip(snapshot.cells.iter().map(|cell| cell.version)));
            // Of two lives, the earlier: a change is then refused, for it names it.
            if self.server_life.is_empty() {
                self.server_life = snapshot.life;
            }
            self.read.extend(batch.iter().cloned().zip(snapshot.cells));
        }
        Ok(())
    }

    /// A record that has been read; `None` where there is none.
    pub(super) fn record<R: Record>(&self, key: &str) -> Result<Option<R>, StoreError> {
        self.read.get(key).and_then(|cell| cell.value.as_deref()).map(R::read).transpose()
    }

    /// Writes a record that has been read.
    pub(super) fn put(&mut self, key: String, record: &impl Record) {
        self.changes.insert(key, To::Value(record.text()));
    }

    /// Removes a record that has been read, if it is there.
    pub(super) fn remove(&mut self, key: String) {
        if self.version(&key) > 0 {
            self.changes.insert(key, To::Nothing);
        }
    }

    /// Has the changes made only if this record, which is there, has not changed.
    pub(super) fn rely_on(&mut self, key: &str) {
        self.changes.entry(key.to_owned()).or_insert(To::Same);
    }

    /// Makes the changes and answers; `None` when the call has to begin again.
    pub(super) async fn settle<T>(
        mut self,
        answer: Result<T, Fault>,
        backoff: &mut Backoff,
    ) -> Result<Option<T>, StoreError> {
        match answer {
            Ok(answer) => {
                if self.commit().await? {
                    return Ok(Some(answer));
                }
            }
            Err(Fault::Bumped) => {
                if self.commit().await? {
                    return Ok(None);
                }
            }
            Err(Fault::Changed) => {}
            Err(Fault::Said(error)) => return Err(error),
        }
        backoff.pause().await;
        Ok(None)
    }

    async fn commit(&mut self) -> Result<bool, StoreError> {
        if self.changes.values().all(|to| matches!(to, To::Same)) {
            return self.store.cells.confirm(&self.server_life).await;
        }
        self.rely_on(super::REGISTRY);
        let changes: Vec<Change> = std::mem::take(&mut self.changes)
            .into_iter()
            .map(|(key, to)| Change { version: self.version(&key), key, to })
            .collect();
        let made = self.store.cells.change(&self.server_life, &changes).await?;
        if made {
            let written = changes.iter().filter(|change| matches!(change.to, To::Value(_)));
            self.store.saw(&self.server_life, written.map(|change| (change.key.clone(), change.version + 1)));
        }
        Ok(made)
    }

    fn version(&self, key: &str) -> u64 {
        self.read.get(key).map_or(0, |cell| cell.version)
    }

    fn not_older(&self, keys: &[String], cells: &[Cell], versions: &[u64]) -> Result<(), StoreError> {
        for ((key, cell), version) in keys.iter().zip(cells).zip(versions) {
            if cell.version < *version {
                return Err(rolled_back(format!(
                    "{}: its record {key:?} is older than it was ({} after {version}): the store was emptied or restored while \
                     this process used it. Bump its pools, raise its sequences above every number in use or held by a running process, then start this \
                     process again",
                    self.store.cells.place(),
                    cell.version
                )));
            }
        }
        Ok(())
    }
}

/// The clock of a server.
fn sensible(place: &str, now_ms: u64) -> Result<u64, StoreError> {
    if now_ms > TIME_MAX_MS {
        return Err(refused(format!("{place}: its clock shows {now_ms} ms since 1970, after the year 10889: set it")));
    }
    Ok(now_ms)
}
