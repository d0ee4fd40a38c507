//! A store in one SQLite database, for the processes of one machine.
//!
//! Every write is `BEGIN IMMEDIATE` … `COMMIT`, and its answer is believed only after the commit said ok: a write that answers
//! with `RETURNING` outside a transaction can answer and then fail to commit. The rows are loaded, given to
//! [`protocol`](mintage_core::protocol) and written back between the two.
//!
//! There is one connection. It is taken out of its slot for a call and put back only after a clean end of the transaction,
//! so that a call that fails or is cut off closes it, and SQLite takes the open transaction back.

mod candidates;
pub(crate) mod column;
mod error;
mod format;
mod gapless;
mod history;
mod lease;
mod range;
mod read;
mod schema;
mod stopped;
mod token;
mod vitals;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Clock, StoreError, TablePrefix, Vitals,
    plugin::{Address, Backend, BackendFactory, Connected},
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, FromRow, Sqlite,
    query::{Query, QueryScalar},
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
    },
};
use tokio::sync::{Mutex, MutexGuard};

use self::error::Fault;
use crate::{
    identity::Identity,
    rules::{self, corrupt, refused, rolled_back, unavailable},
    seen::Seen,
    wait::Backoff,
};

/// How long SQLite itself waits for a lock before it says "busy". Short, because it waits in a thread that cannot be
/// called back; the longer waiting is done by [`Backoff`], up to the store's timeout.
const BUSY_MS: u64 = 50;

/// The smallest database: one page of the smallest size. An empty file is one that has not been made yet.
const SMALLEST_BYTES: u64 = 512;

/// Opens a transaction that may write. It is refused now or never: the lock is not taken later, when reads have been done.
const WRITE: &str = "BEGIN IMMEDIATE";

/// Opens a transaction that sees one state of the database.
const READ: &str = "BEGIN";

/// Ranges, leases, formats and tokens in one SQLite database; survives crashes and power loss, by `synchronous = FULL` on each of its connections; for the processes of one machine, on a local disk.
///
/// WAL mode needs shared memory between its users, so a network file system is refused or, worse, corrupts it. The disk must
/// keep what it acknowledged. A process that forks uses a store that it opened after the fork.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// The file that was opened. Another one under its name is not this store.
    identity: Identity,
    tables: TablePrefix,
    idle: Mutex<Option<SqliteConnection>>,
    /// Whether a connection is kept for the next call: those of readers, which nobody closes, end with each.
    keeps_link: bool,
    seen: Seen,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// What this process is called in the history of ranges.
    instance: String,
    /// Whether the database has the table of that history: always, once a store was opened to mint.
    keeps_history: bool,
}

impl SqliteStore {
    /// Opens the database at `path`, and makes it with its tables if it is not there. Its folder must exist.
    ///
    /// # Errors
    /// `Refused` when the folder is missing, the database may not be written, cannot be switched to WAL, or was written by a
    /// newer version; `Corrupt` when the file is no SQLite database; `Unavailable` when it stays locked for `timeout`.
    pub async fn open(path: impl Into<PathBuf>, clock: Arc<dyn Clock>, timeout: Duration) -> Result<Self, StoreError> {
        Self::open_named(path, clock, timeout, TablePrefix::default()).await
    }

    /// As [`open`](Self::open), with tables whose names begin with `tables`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_named(
        path: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        tables: TablePrefix,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        let options = options(&path).journal_mode(SqliteJournalMode::Wal);
        Self::open_with(path, options, clock, timeout, tables).await
    }

    /// Opens the database at `path` if it is there and has the tables, and makes, upgrades and switches nothing: for readers.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_existing(
        path: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Result<Option<Self>, StoreError> {
        Self::open_existing_named(path, clock, timeout, TablePrefix::default()).await
    }

    /// As [`open_existing`](Self::open_existing), with tables whose names begin with `tables`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_existing_named(
        path: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        tables: TablePrefix,
    ) -> Result<Option<Self>, StoreError> {
        let path = path.into();
        // Where none can be made, none will be found later either.
        check_place(&path)?;
        if !path.exists() {
            return Ok(None);
        }
        let identity = Identity::at(&path).map_err(|error| gone(&path).caused_by(error))?;
        // An application's own database stays in the mode it is in.
        let finding = async {
            let mut link = options(&path).connect().await.map_err(|error| Fault::from(error).at(&path))?;
            let mut conn = Conn { link: &mut link, tables: &tables };
            let found = schema::find(&mut conn, &path).await.map_err(|fault| fault.at(&path))?;
            let keeps_history = history::is_there(&mut conn).await.map_err(|fault| fault.at(&path))?;
            end(link).await;
            Ok((found, keeps_history))
        };
        let (found, keeps_history) = within(timeout, &path, finding).await?;
        if !found {
            return Ok(None);
        }
        let options = options(&path).journal_mode(SqliteJournalMode::Wal);
        let (idle, seen, instance) = (Mutex::default(), Seen::default(), String::new());
        let keeps_link = false;
        Ok(Some(Self {
            path,
            options,
            identity,
            tables,
            idle,
            keeps_link,
            seen,
            clock,
            timeout,
            instance,
            keeps_history,
        }))
    }

    /// Under this name in the history of ranges.
    #[must_use]
    pub fn with_instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    async fn open_with(
        path: PathBuf,
        options: SqliteConnectOptions,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        tables: TablePrefix,
    ) -> Result<Self, StoreError> {
        check_place(&path)?;
        let opening = async {
            // Only an opening makes the file: a call that finds it gone must say so.
            let mut link = connect(&options.clone().create_if_missing(true), &path).await?;
            let identity = Identity::at(&path).map_err(|error| gone(&path).caused_by(error))?;
            begin(&mut link, WRITE).await.map_err(|fault| fault.at(&path))?;
            let prepared = schema::prepare(&mut Conn { link: &mut link, tables: &tables }, &path).await;
            prepared.map_err(|fault| fault.at(&path))?;
            sqlx::query("COMMIT").execute(&mut link).await.map_err(|error| Fault::from(error).at(&path))?;
            Ok((link, identity))
        };
        let (link, identity) = within(timeout, &path, opening).await?;
        let (idle, seen, instance) = (Mutex::new(Some(link)), Seen::default(), String::new());
        let (keeps_link, keeps_history) = (true, true);
        Ok(Self { path, options, identity, tables, idle, keeps_link, seen, clock, timeout, instance, keeps_history })
    }

    /// Runs a whole call, cut off at the timeout: then the outcome is unknown, and the connection is closed.
    async fn call<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        within(self.timeout, &self.path, call).await
    }

    /// Begins a transaction on the connection, opened anew if the last call lost it.
    async fn begin(&self, how: &'static str) -> Result<Work<'_>, StoreError> {
        let mut slot = self.idle.lock().await;
        self.still_there()?;
        let mut link = match slot.take() {
            Some(link) => link,
            None => connect(&self.options, &self.path).await?,
        };
        begin(&mut link, how).await.map_err(|fault| fault.at(&self.path))?;
        self.still_there()?;
        // Read after the lock was waited for: a time from before could lie behind what others have been granted meanwhile.
        let now_ms = rules::now_ms(&*self.clock)?;
        Ok(Work { link, tables: &self.tables, slot, keeps_link: self.keeps_link, now_ms, path: &self.path })
    }

    fn still_there(&self) -> Result<(), StoreError> {
        if Identity::at(&self.path).is_ok_and(|found| found == self.identity) { Ok(()) } else { Err(gone(&self.path)) }
    }
}

#[async_trait]
impl Connected for SqliteStore {
    async fn disconnect(&self) {
        let ending = async {
            if let Some(link) = self.idle.lock().await.take() {
                end(link).await;
            }
        };
        let _ = tokio::time::timeout(self.timeout, ending).await;
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Opens `sqlite:PATH`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteFactory;

impl SqliteFactory {
    fn path(url: &str) -> Result<&Path, String> {
        let path = url.strip_prefix("sqlite:").unwrap_or_default();
        if path.is_empty() || path.starts_with("//") {
            return Err(format!(
                "{url:?}: write sqlite:PATH, such as sqlite:mintage.db or sqlite:/var/lib/app/mintage.db"
            ));
        }
        if path == ":memory:" {
            return Err(format!("{url:?} would survive nothing and be shared by nobody: write memory: for tests"));
        }
        if path.contains('?') || path.starts_with("file:") {
            return Err(format!("{url:?}: a plain path is expected, without file: and without ? parameters"));
        }
        Ok(Path::new(path))
    }
}

#[async_trait]
impl BackendFactory for SqliteFactory {
    fn url_scheme(&self) -> &'static str {
        "sqlite"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases, formats and tokens in one SQLite database; survives crashes and power loss, by `synchronous = FULL` on each of its connections; for the processes of one machine, on a local disk."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Self::path(url).map(drop)
    }

    fn local(&self) -> bool {
        true
    }

    fn exists(&self, address: &Address) -> bool {
        Self::path(&address.url).is_ok_and(|path| address.folder.join(path).exists())
    }

    fn keeps_gapless(&self) -> bool {
        true
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let path = address.folder.join(Self::path(&address.url).map_err(refused)?);
        let timeout = Duration::from_millis(address.timeout_ms);
        let opened = SqliteStore::open_named(path, address.clock.clone(), timeout, address.tables.clone()).await;
        Ok(backend(opened?.with_instance(&address.instance)))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        let path = address.folder.join(Self::path(&address.url).map_err(refused)?);
        let timeout = Duration::from_millis(address.timeout_ms);
        let tables = address.tables.clone();
        let found = SqliteStore::open_existing_named(path, address.clock.clone(), timeout, tables).await;
        Ok(found?.map(|store| backend(store.with_instance(&address.instance))))
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        let path = address.folder.join(Self::path(&address.url).map_err(refused)?);
        vitals::of(&path, &*address.clock, Duration::from_millis(address.timeout_ms), &address.tables).await
    }

    fn ddl(&self, tables: &TablePrefix) -> Option<String> {
        Some(format!("PRAGMA journal_mode = WAL;\n{}", schema::ddl(tables)))
    }

    fn has_tables(&self) -> bool {
        true
    }
}

fn backend(store: SqliteStore) -> Backend {
    let store = Arc::new(store);
    Backend::shared(&store).with_tokens(store.clone()).with_gapless(store.clone()).with_connections(store)
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .synchronous(SqliteSynchronous::Full)
        // On macOS fsync alone stops at the disk's cache; elsewhere this changes nothing.
        .pragma("fullfsync", "ON")
        // After each commit what is in the log goes into the database: whoever copies or moves the file that has the name, and
        // leaves the log behind, must not bring numbers back. A commit comes once per range or renewal, so the second sync is
        // cheap.
        .pragma("wal_autocheckpoint", "1")
        .busy_timeout(Duration::from_millis(BUSY_MS))
        .disable_statement_logging()
}

/// An open transaction. Dropping it closes the connection, which takes the transaction back.
struct Work<'a> {
    link: SqliteConnection,
    tables: &'a TablePrefix,
    slot: MutexGuard<'a, Option<SqliteConnection>>,
    keeps_link: bool,
    now_ms: u64,
    path: &'a Path,
}

/// A connection with a transaction on it, and what our tables are called there. Statements come written with `mintage_`.
struct Conn<'c> {
    link: &'c mut SqliteConnection,
    tables: &'c TablePrefix,
}

impl Conn<'_> {
    fn query<'q>(&self, sql: &'static str) -> Query<'q, Sqlite, SqliteArguments> {
        sqlx::query(AssertSqlSafe(self.tables.apply(sql)))
    }

    fn scalar<'q, T>(&self, sql: &'static str) -> QueryScalar<'q, Sqlite, T, SqliteArguments>
    where
        (T,): for<'r> FromRow<'r, SqliteRow>,
    {
        sqlx::query_scalar(AssertSqlSafe(self.tables.apply(sql)))
    }

    /// Runs statements without parameters.
    async fn batch(&mut self, sql: &'static str) -> Result<(), Fault> {
        sqlx::raw_sql(AssertSqlSafe(self.tables.apply(sql))).execute(&mut *self.link).await?;
        Ok(())
    }
}

impl Work<'_> {
    fn conn(&mut self) -> Conn<'_> {
        Conn { link: &mut self.link, tables: self.tables }
    }

    /// Commits and answers, or takes back and says why. No answer passes without its commit.
    async fn end<T>(mut self, answer: Result<T, Fault>) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                sqlx::query("COMMIT")
                    .execute(&mut self.link)
                    .await
                    .map_err(|error| Fault::from(error).at(self.path))?;
                self.keep().await;
                Ok(answer)
            }
            Err(fault) => {
                let error = fault.at(self.path);
                if sqlx::query("ROLLBACK").execute(&mut self.link).await.is_ok() {
                    self.keep().await;
                }
                Err(error)
            }
        }
    }

    async fn keep(mut self) {
        if self.keeps_link {
            *self.slot = Some(self.link);
        } else {
            end(self.link).await;
        }
    }
}

/// Connects, again and again while the database is locked: switching to WAL does not wait for locks by itself.
async fn connect(options: &SqliteConnectOptions, path: &Path) -> Result<SqliteConnection, StoreError> {
    let mut backoff = Backoff::default();
    let mut conn = loop {
        match options.connect().await.map_err(Fault::from) {
            Ok(conn) => break conn,
            Err(fault) if fault.is_busy() => backoff.pause().await,
            Err(fault) => return Err(fault.at(path)),
        }
    };
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut conn)
        .await
        .map_err(|error| Fault::from(error).at(path))?;
    if mode != "wal" {
        return Err(refused(format!(
            "{}: SQLite cannot use WAL mode here (it stays in {mode:?} mode): put the database on a local disk",
            path.display()
        )));
    }
    Ok(conn)
}

/// Closes a connection and waits for it, so that the last one takes the log away: beside a database that was put back from a
/// backup, the log of another would be read as its own. A connection that is dropped ends sometime, or with the process.
async fn end(link: SqliteConnection) {
    // What was committed is there; what cannot be tidied up is told at the next opening.
    let _ = link.close().await;
}

async fn begin(conn: &mut SqliteConnection, how: &'static str) -> Result<(), Fault> {
    let mut backoff = Backoff::default();
    loop {
        match sqlx::query(how).execute(&mut *conn).await.map_err(Fault::from) {
            Ok(_) => return Ok(()),
            Err(fault) if fault.is_busy() => backoff.pause().await,
            Err(fault) => return Err(fault),
        }
    }
}

async fn within<T>(
    timeout: Duration,
    path: &Path,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
        Err(unavailable(format!(
            "{}: no answer within {} ms: another process holds a write lock, or the disk hangs. Whether the change was made is unknown",
            path.display(),
            timeout.as_millis()
        )))
    })
}

/// Says what SQLite would not: it has one error for the first two, and takes a file of a few bytes for an empty database.
///
/// The file is not opened here: closing it again would drop the locks of every connection that this process has on it.
fn check_place(path: &Path) -> Result<(), StoreError> {
    if path.to_str().is_none() {
        let shown = path.display();
        return Err(refused(format!(
            "{shown}: SQLite takes no path that is not UTF-8: rename the folder, or name another"
        )));
    }
    if path.is_dir() {
        return Err(refused(format!("{} is a folder: name a file in it", path.display())));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(refused(format!(
            "{}: the folder {} does not exist: make it first",
            path.display(),
            folder.display()
        )));
    }
    if std::fs::metadata(path).is_ok_and(|file| (1..SMALLEST_BYTES).contains(&file.len())) {
        return Err(corrupt(format!(
            "{}: not an SQLite database; it was left as it is: name another file",
            path.display()
        )));
    }
    Ok(())
}

fn gone(path: &Path) -> StoreError {
    rolled_back(format!(
        "{} was deleted, moved or replaced while it was open: restore the database, then start this process again",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use mintage_core::{ManualClock, StoreErrorKind};

    use super::*;

    #[tokio::test]
    async fn a_database_that_may_not_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.db");
        let clock = Arc::new(ManualClock::at(1));
        SqliteStore::open(&path, clock.clone(), Duration::from_secs(9)).await.unwrap();
        let options = SqliteConnectOptions::new().filename(&path).read_only(true);
        let error = SqliteStore::open_with(path, options, clock, Duration::from_secs(9), TablePrefix::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("may not be written"), "{error}");
    }
}
