//! A store in a folder, for one machine without a database: the whole state in one JSON file, replaced whole at each change.
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | locked by the operating system while one process reads and replaces the state |
//! | `state.json` | the state; only ever replaced by a rename, so it is the old one or the new one |
//! | `state.json.tmp` | the next state while it is written; left over only by a crash, and never read |
//!
//! The invariant: an answer leaves only after the file that holds it, and the folder that names that file, are on disk.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Clock, Format, Grant, Holder, IdRange, IdempotencyKey, Lease, LeaseRow, LeaseTerms, Sequence, SequenceRow,
    StoreError, TokenRow, WorkerChoice, WorkerPool,
    plugin::{Address, Backend, BackendFactory},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    identity::Identity,
    ledger::{Ledger, keeps_a_ledger, kept},
    rules::{self, corrupt, refused, rolled_back, unavailable},
    seen::Seen,
    sound::Sound,
    wait::Backoff,
};

/// What this code writes. A file of a higher number is left alone, one of a lower number is read and written anew: version 1
/// had no tokens, version 2 no stopped sequences and no history of ranges.
const SCHEMA_VERSION: u32 = 3;

const STATE: &str = "state.json";
const NEXT_STATE: &str = "state.json.tmp";
const LOCK: &str = "lock";

/// For whoever finds the lock file and thinks it is stale.
const LOCK_TEXT: &str = "Mintage locks this file while it changes state.json. Leave it: without it two processes could hand out\n\
                         the same numbers. It is no sign of a crash.\n";

/// Ranges, leases, formats and tokens in one folder; survives crashes and power loss; for the processes of one machine, on a local disk.
#[derive(Debug)]
pub struct FileStore {
    folder: Arc<Path>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    instance: String,
    /// The calls of this process wait here, in order, instead of polling the lock against each other.
    turn: Arc<Mutex<()>>,
    /// Whether the state that is there may be taken back by a power loss: it was put in place, and the folder would not be synced.
    in_doubt: Arc<AtomicBool>,
    seen: Seen,
}

impl FileStore {
    /// Opens the store in `folder`, and makes it if the folder is missing or has no state yet. The folder's parent must exist.
    ///
    /// # Errors
    /// `Refused` when the parent is missing, the path is no folder, or the state was written by a newer version; `Corrupt`
    /// when the state cannot be read, and then it is left as it is; `Unavailable` when the disk or the lock does not answer.
    pub async fn open(
        folder: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        let folder: Arc<Path> = folder.into().into();
        let store = Self {
            folder,
            clock,
            timeout,
            instance: String::new(),
            turn: Arc::default(),
            in_doubt: Arc::default(),
            seen: Seen::default(),
        };
        store.within(store.exclusively(true, |_, _| Ok(()))).await?;
        Ok(store)
    }

    /// Under this name in the history of ranges.
    #[must_use]
    pub fn with_instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    async fn run<T, F>(&self, op: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger, u64) -> Result<T, StoreError> + Send + 'static,
    {
        self.within(self.exclusively(false, op)).await
    }

    /// Cuts a call off at the store's timeout. What a thread has begun by then it still finishes: the outcome is unknown.
    async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        tokio::time::timeout(self.timeout, call).await.unwrap_or_else(|_| {
            Err(unavailable(format!(
                "the file store in {} did not answer within {} ms: another process holds its lock, or the disk hangs",
                self.folder.display(),
                self.timeout.as_millis()
            )))
        })
    }

    /// Reads the state, changes it and replaces it, with every other process kept out.
    async fn exclusively<T, F>(&self, create: bool, op: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger, u64) -> Result<T, StoreError> + Send + 'static,
    {
        let turn = self.turn.clone().lock_owned().await;
        let (folder, clock, in_doubt) = (self.folder.clone(), self.clock.clone(), self.in_doubt.clone());
        if create {
            let folder = folder.clone();
            off_the_runtime(move || make_folder(&folder)).await?;
        }
        let locked = Locked::wait_for(&folder).await?;
        off_the_runtime(move || {
            let now_ms = rules::now_ms(&*clock);
            let answer = now_ms.and_then(|now_ms| change(&folder, create, &in_doubt, |ledger| op(ledger, now_ms)));
            drop((locked, turn));
            answer
        })
        .await
    }
}

keeps_a_ledger!(FileStore);

/// Opens `file:DIR`.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFactory;

impl FileFactory {
    fn folder(url: &str) -> Result<&Path, String> {
        match url.strip_prefix("file:") {
            Some(path) if path.starts_with("//") => {
                Err(format!("{url:?}: write file:DIR with a plain path, such as file:ids or file:/var/lib/app/ids"))
            }
            Some(path) if !path.is_empty() => Ok(Path::new(path)),
            _ => Err(format!("{url:?} names no folder: write file:DIR, such as file:ids")),
        }
    }
}

#[async_trait]
impl BackendFactory for FileFactory {
    fn url_scheme(&self) -> &'static str {
        "file"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases, formats and tokens in one folder; survives crashes and power loss; for the processes of one machine, on a local disk."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Self::folder(url).map(drop)
    }

    fn local(&self) -> bool {
        true
    }

    fn exists(&self, address: &Address) -> bool {
        Self::folder(&address.url).is_ok_and(|folder| address.folder.join(folder).join(STATE).exists())
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        if self.exists(address) {
            return self.open(address).await.map(Some);
        }
        // Where none can be made, none will be found later either.
        may_be_made(&address.folder.join(Self::folder(&address.url).map_err(refused)?)).map(|()| None)
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let folder = address.folder.join(Self::folder(&address.url).map_err(refused)?);
        let timeout = Duration::from_millis(address.timeout_ms);
        let store = FileStore::open(folder, address.clock.clone(), timeout).await?;
        Ok(Backend::full(store.with_instance(&address.instance)))
    }
}

/// The lock, held. It is unlocked in so many words: a forked child would keep a lock that is only closed.
struct Locked(File);

impl Locked {
    /// Polls, so that a call that is given up leaves no thread behind that would wait for the lock for ever.
    async fn wait_for(folder: &Arc<Path>) -> Result<Self, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            let folder = folder.clone();
            if let Some(locked) = off_the_runtime(move || Self::try_once(&folder.join(LOCK))).await? {
                return Ok(locked);
            }
            backoff.pause().await;
        }
    }

    /// `None` where another process holds it.
    fn try_once(path: &Path) -> Result<Option<Self>, StoreError> {
        let failed = |error: io::Error| {
            unavailable(format!(
                "{}: cannot be locked: check that the folder exists and may be written",
                path.display()
            ))
            .caused_by(error)
        };
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            // Whoever waited may have got a file that was deleted meanwhile, and another process a new one.
            Ok(()) if Identity::at(path).ok() == Some(Identity::of(&file.metadata().map_err(failed)?)) => {
                Self(file).labelled().map(Some).map_err(failed)
            }
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn labelled(mut self) -> io::Result<Self> {
        if self.0.metadata()?.len() == 0 {
            self.0.write_all(LOCK_TEXT.as_bytes())?;
        }
        Ok(self)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Failing to unlock leaves it to the closing of the file, which follows.
        let _ = self.0.unlock();
    }
}

/// What `state.json` holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet<L> {
    /// Always [`SHEET_KIND`]: tells our file from any other.
    kind: String,
    schema_version: u32,
    ledger: L,
}

const SHEET_KIND: &str = "mintage store";

/// What can be read of a sheet of any version.
#[derive(Deserialize)]
struct Heading {
    kind: String,
    schema_version: u32,
}

/// One operation on the state. Needs the lock.
fn change<T>(
    folder: &Path,
    create: bool,
    in_doubt: &AtomicBool,
    op: impl FnOnce(&mut Ledger) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let path = folder.join(STATE);
    let before = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(rolled_back(format!(
                "{} is gone: it was there when the store was opened. Restore it; a new one would repeat numbers",
                path.display()
            )));
        }
        Err(error) => {
            return Err(unavailable(format!("{}: cannot be read: check the disk and its permissions", path.display()))
                .caused_by(error));
        }
    };
    let mut ledger = before.as_deref().map_or_else(|| Ok(Ledger::default()), |bytes| decode(bytes, &path))?;
    // What an older version wrote is only written anew when it changes: whoever looks leaves it to those who use it.
    let before = match before {
        Some(bytes) if !is_current(&bytes) => Some(encode(&ledger)?),
        before => before,
    };
    let answer = op(&mut ledger)?;
    let after = encode(&ledger)?;
    // An answer that changes nothing leans on a state that was put there before: one in doubt is put there anew.
    if before.as_deref() != Some(after.as_slice()) || in_doubt.load(Ordering::Acquire) {
        replace(folder, &after, in_doubt, sync_folder).map_err(|error| {
            unavailable(format!(
                "{}: the change may not have reached the disk, so it is not answered: check that the disk is there and not full",
                path.display()
            ))
            .caused_by(error)
        })?;
    }
    Ok(answer)
}

fn decode(bytes: &[u8], path: &Path) -> Result<Ledger, StoreError> {
    let unreadable = |error: serde_json::Error| {
        corrupt(format!(
            "{}: torn, or not written by Mintage; it was left as it is. Restore it from a backup, or name another folder",
            path.display()
        ))
        .caused_by(error)
    };
    let heading: Heading = serde_json::from_slice(bytes).map_err(unreadable)?;
    if heading.kind != SHEET_KIND {
        return Err(corrupt(format!("{}: not written by Mintage: name another folder", path.display())));
    }
    if heading.schema_version > SCHEMA_VERSION {
        return Err(refused(format!(
            "{}: written by a newer Mintage (schema {}, this one knows {SCHEMA_VERSION}): use that version here too",
            path.display(),
            heading.schema_version
        )));
    }
    if heading.schema_version == 0 {
        return Err(corrupt(format!("{}: schema {} never existed", path.display(), heading.schema_version)));
    }
    let sheet: Sheet<Ledger> = serde_json::from_slice(bytes).map_err(unreadable)?;
    sheet.ledger.sound()?;
    Ok(sheet.ledger)
}

/// Whether this version wrote it.
fn is_current(bytes: &[u8]) -> bool {
    bytes.starts_with(format!("{{\"kind\":\"{SHEET_KIND}\",\"schema_version\":{SCHEMA_VERSION},").as_bytes())
}

fn encode(ledger: &Ledger) -> Result<Vec<u8>, StoreError> {
    let sheet = Sheet { kind: SHEET_KIND.to_owned(), schema_version: SCHEMA_VERSION, ledger };
    serde_json::to_vec(&sheet)
        .map_err(|error| corrupt("the state cannot be written as JSON".to_owned()).caused_by(error))
}

/// Puts `bytes` in place of the state so that a crash at any point leaves the old state or the new one.
fn replace(
    folder: &Path,
    bytes: &[u8],
    in_doubt: &AtomicBool,
    sync_folder: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let next = folder.join(NEXT_STATE);
    let mut file = File::create(&next)?;
    file.write_all(bytes)?;
    // An error here is final for this operation: a second fsync would report success for pages that the first has dropped.
    file.sync_all()?;
    drop(file);
    in_doubt.store(true, Ordering::Release);
    fs::rename(&next, folder.join(STATE))?;
    sync_folder(folder)?;
    in_doubt.store(false, Ordering::Release);
    Ok(())
}

/// Whether the folder is there, or its parent is.
fn may_be_made(folder: &Path) -> Result<(), StoreError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() || (!folder.exists() && parent.is_dir()) {
        return Ok(());
    }
    Err(match folder.exists() {
        true => is_a_file(folder),
        false => refused(format!("{}: cannot be made: make its parent folder first", folder.display())),
    })
}

fn is_a_file(folder: &Path) -> StoreError {
    refused(format!("{} is a file: a file store needs a folder of its own", folder.display()))
}

fn make_folder(folder: &Path) -> Result<(), StoreError> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::create_dir(folder).and_then(|()| folder.parent().map_or(Ok(()), sync_folder));
    match made {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(is_a_file(folder)),
        Err(error) => {
            Err(refused(format!("{}: cannot be made: make its parent folder first", folder.display())).caused_by(error))
        }
    }
}

/// Makes the names in a folder durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Windows has no such call: NTFS keeps the order of renames in its journal.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(unavailable("the runtime ended while the file store was working: the outcome is unknown".to_owned())
            .caused_by(error))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use mintage_core::{ManualClock, RangeStore};

    use super::*;

    /// The change is in place, and the folder could not be synced: a power loss may take it back, so the same question again is not
    /// answered from it before it is surely on disk.
    #[tokio::test]
    async fn a_state_in_doubt_answers_nothing_before_it_is_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let store = FileStore::open(folder.path(), clock, Duration::from_secs(60)).await.unwrap();
        let (orders, key) = (Sequence::new("orders", 1), IdempotencyKey::new("once").unwrap());
        store.create(&orders).await.unwrap();
        let allocate = async || store.allocate(&orders, NonZeroU32::MIN, Some(&key)).await;
        let first = allocate().await.unwrap();
        let id = || Identity::at(&folder.path().join(STATE)).unwrap();
        let before = id();
        assert_eq!(allocate().await.unwrap(), first);
        assert!(id() == before, "what is on disk is not written again");

        let bytes = fs::read(folder.path().join(STATE)).unwrap();
        let failing = |_: &Path| Err(io::Error::other("the disk has gone"));
        replace(folder.path(), &bytes, &store.in_doubt, failing).unwrap_err();
        // Nothing can be written: a folder is in the way.
        fs::create_dir(folder.path().join(NEXT_STATE)).unwrap();
        for _ in 0..2 {
            assert_eq!(allocate().await.unwrap_err().kind(), mintage_core::StoreErrorKind::Unavailable);
        }
        fs::remove_dir(folder.path().join(NEXT_STATE)).unwrap();
        let doubtful = id();
        assert_eq!(allocate().await.unwrap(), first);
        let sure = id();
        assert!(sure != doubtful, "put in place anew");
        assert_eq!(allocate().await.unwrap(), first);
        assert!(id() == sure, "once");
    }
}
