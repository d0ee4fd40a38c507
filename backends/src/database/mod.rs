//! A store on a database server: PostgreSQL, MySQL or MariaDB, for the processes of many machines.
//!
//! Each write is one transaction: lock the row of the pool or the sequence, ask the server for the time and for who it is, give
//! the rows to [`protocol`](mintage_core::protocol), write them back, `COMMIT`. Its answer is believed only after the commit said
//! ok. The row that is locked first is also the only one that two writers compete for, so they wait in a queue and never in a
//! circle: pool or sequence first, then what hangs on it. A new region of a pool locks the schema's row before.
//!
//! A server may forget: a standby that is promoted lacks what it had not received. Every pool and sequence therefore names the
//! physical server that it was last used on, its incarnation. When another one answers, the first to see it bumps the pool before
//! anything else happens, and a sequence gives no number until an operator raised it. So does the database as a whole, for what is
//! not there: see `unlisted`.
//!
//! There are a few connections, opened as needed. One is taken out for a call and put back only after a clean end of the
//! transaction, so that a call that fails or is cut off closes it, and the server takes the open transaction back.

mod candidates;
mod column;
mod dialect;
mod error;
mod factory;
mod format;
mod gapless;
mod history;
mod lease;
#[cfg(feature = "mysql")]
mod mysql;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod range;
mod read;
mod schema;
mod session;
mod target;
mod token;
mod unlisted;
mod vitals;

use std::{
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    StoreError, TablePrefix,
    plugin::{Address, Connected},
    protocol::TIME_MAX_MS,
};
use tokio::sync::Semaphore;

pub(crate) use self::column::Place;
pub use self::dialect::Dialect;
#[cfg(feature = "mysql")]
pub use self::factory::MySqlFactory;
#[cfg(feature = "postgres")]
pub use self::factory::PostgresFactory;
use self::{error::Fault, session::Session, target::Target};
use crate::{
    rules::{refused, unavailable},
    seen::Seen,
    tries::Tries,
    wait::Backoff,
};

/// Connections of one store. A process asks for a range or a renewal now and then; a server allows a hundred or so in all.
const CONNECTIONS_MAX: usize = 4;

/// How often a transaction is begun again that the server took back because of others.
const CONFLICT_TRIES_MAX: u32 = 10;

/// Longest pause between tries, in milliseconds.
const PAUSE_MS_MAX: u64 = 250;

/// Longest wait for a lock, in milliseconds: an hour, the longest timeout a config can have.
const WAIT_MS_MAX: u64 = 3_600_000;

/// Longest name of a sequence, pool, region or entity, in bytes: it is an index column in every database.
const NAME_LEN_MAX: usize = 255;

/// Ranges, leases, formats and bearer tokens in PostgreSQL, MySQL or MariaDB, for many machines; survives crashes where the server syncs each commit; after a failover that lost commits worker ids rest and sequences stop until raised.
///
/// With which settings is said by [`PostgresFactory`] and [`MySqlFactory`]. A process that forks uses a store that it opened after
/// the fork.
pub struct DatabaseStore {
    target: Target,
    dialect: Dialect,
    tables: TablePrefix,
    timeout: Duration,
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
    seen: Seen,
    /// What this process is called in the history of ranges.
    instance: String,
    /// Why that history is not kept, if it is not.
    history_trouble: OnceLock<String>,
}

impl DatabaseStore {
    /// Connects to the database at `url`, and makes the tables if they are not there. No call takes longer than `timeout`.
    ///
    /// # Errors
    /// `Refused` when the URL, the user or the database is wrong, when the tables are missing and may not be made (it then shows
    /// the statements to run), or when they are of a newer version; `Unavailable` when the server cannot be reached in time;
    /// `Corrupt` when the tables are not Mintage's.
    pub async fn open(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        let store = Self::of(Target::of(url).map_err(refused)?, TablePrefix::default(), timeout);
        store.prepare().await?;
        Ok(store)
    }

    /// As [`open`](Self::open), with what stands beside a URL: password, encryption, the prefix of the tables.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_at(address: &Address) -> Result<Self, StoreError> {
        let store = Self::at(address)?.with_instance(&address.instance);
        store.prepare().await?;
        Ok(store)
    }

    /// Opens the store if the database has its tables, and makes nothing: for readers.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_existing(address: &Address) -> Result<Option<Self>, StoreError> {
        let store = Self::at(address)?.with_instance(&address.instance);
        let found = store
            .within(async {
                let mut session = store.connect().await?;
                let found = schema::find(&mut session, store.dialect).await.map_err(|fault| fault.at(&store.target))?;
                if found {
                    store.prepare_history(&mut session, false).await?;
                }
                store.idle().push(session);
                Ok(found)
            })
            .await?;
        Ok(found.then_some(store))
    }

    fn at(address: &Address) -> Result<Self, StoreError> {
        let target = Target::at(address).map_err(refused)?;
        Ok(Self::of(target, address.tables.clone(), Duration::from_millis(address.timeout_ms)))
    }

    fn of(target: Target, tables: TablePrefix, timeout: Duration) -> Self {
        let dialect = match target {
            #[cfg(feature = "postgres")]
            Target::Postgres(_) => Dialect::Postgres,
            #[cfg(feature = "mysql")]
            Target::MySql(_) => Dialect::MySql,
        };
        Self {
            target,
            dialect,
            tables,
            timeout,
            idle: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS_MAX),
            seen: Seen::default(),
            instance: String::new(),
            history_trouble: OnceLock::new(),
        }
    }

    /// Under this name in the history of ranges.
    #[must_use]
    pub fn with_instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    /// Makes the tables if they are not there.
    async fn prepare(&self) -> Result<(), StoreError> {
        self.within(async {
            let mut session = self.connect().await?;
            let prepared = schema::prepare(&mut session, self.dialect, self.wait_ms()).await;
            prepared.map_err(|fault| fault.at(&self.target))?;
            self.prepare_history(&mut session, true).await?;
            self.idle().push(session);
            Ok(())
        })
        .await
    }

    async fn prepare_history(&self, session: &mut Session, make: bool) -> Result<(), StoreError> {
        let trouble = history::prepare(session, self.dialect, make).await.map_err(|fault| fault.at(&self.target))?;
        if let Some(trouble) = trouble {
            self.history_trouble.get_or_init(|| trouble);
        }
        Ok(())
    }

    /// How ranges are written into the history, if it is kept.
    fn writer(&self) -> Option<history::Writer<'_>> {
        let writer = history::Writer { instance: &self.instance, dialect: self.dialect };
        self.history_trouble.get().is_none().then_some(writer)
    }

    /// Which family of servers it is on: [`Dialect::ddl`] and [`Dialect::grants`] are the statements for an administrator.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Runs a change or a question as one transaction, and again where the server took it back because of others.
    async fn transaction<T, F>(&self, change: impl Fn(Work) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = (Work, Result<T, Fault>)>,
    {
        self.within(async {
            let _permit = self.permit().await?;
            let mut backoff = Backoff::up_to(PAUSE_MS_MAX);
            let mut tries = 0;
            loop {
                let (work, answer) = change(self.begin().await?).await;
                let fault = match self.end(work, answer).await {
                    Ok(answer) => return Ok(answer),
                    Err(fault) => fault,
                };
                tries += 1;
                if !fault.is_conflict() || tries >= CONFLICT_TRIES_MAX {
                    return Err(fault.at(&self.target));
                }
                backoff.pause().await;
            }
        })
        .await
    }

    /// Commits and answers, or takes back and says why. No answer passes without its commit.
    async fn end<T>(&self, mut work: Work, answer: Result<T, Fault>) -> Result<T, Fault> {
        match answer {
            Ok(answer) => {
                work.session.commit().await?;
                self.idle().push(work.session);
                Ok(answer)
            }
            Err(fault) => {
                if work.session.rollback().await.is_ok() {
                    self.idle().push(work.session);
                }
                Err(fault)
            }
        }
    }

    /// Begins a transaction, on an idle connection or a new one. One that broke while it was idle was asked nothing yet.
    async fn begin(&self) -> Result<Work, StoreError> {
        loop {
            let idle = self.idle().pop();
            let was_idle = idle.is_some();
            let mut session = match idle {
                Some(session) => session,
                None => self.connect().await?,
            };
            match session.begin().await {
                Ok(()) => return Ok(Work { session }),
                Err(_) if was_idle => {}
                Err(fault) => return Err(fault.at(&self.target)),
            }
        }
    }

    async fn connect(&self) -> Result<Session, StoreError> {
        let mut tries = Tries::default();
        loop {
            match Session::open(&self.target, &self.tables, self.wait_ms()).await {
                Err(fault) if fault.may_pass() && tries.another().await => {}
                other => return other.map_err(|fault| fault.at(&self.target)),
            }
        }
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, StoreError> {
        // It is never closed; were it, nothing could be asked.
        self.permits.acquire().await.map_err(|_| unavailable(format!("{}: the store is closed", self.target)))
    }

    /// Runs a whole call, cut off at the timeout: the driver would wait for a stopped server for ever. Then the outcome is
    /// unknown, the connection is closed, and so are the idle ones, which lead to the same server.
    async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        tokio::time::timeout(self.timeout, call).await.unwrap_or_else(|_| {
            self.idle().clear();
            Err(unavailable(format!(
                "{}: no answer within {} ms: the server or the network hangs, or others hold the same rows. Whether the change \
                 was made is unknown",
                self.target,
                self.timeout.as_millis()
            )))
        })
    }

    /// How long the server may wait for a lock on behalf of a call. Never none at all, which would be for ever.
    fn wait_ms(&self) -> u64 {
        u64::try_from(self.timeout.as_millis()).unwrap_or(WAIT_MS_MAX).clamp(1, WAIT_MS_MAX)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Connected for DatabaseStore {
    async fn disconnect(&self) {
        let sessions = std::mem::take(&mut *self.idle());
        let ending = async {
            for session in sessions {
                session.end().await;
            }
        };
        let _ = tokio::time::timeout(self.timeout, ending).await;
    }
}

impl fmt::Debug for DatabaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseStore")
            .field("target", &self.target)
            .field("tables", &self.tables.as_str())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// An open transaction. Dropping it closes the connection, and the server takes the transaction back.
struct Work {
    session: Session,
}

impl Work {
    /// The server's time and identity. Asked after the lock was waited for: a time from before could lie behind what others
    /// have been granted meanwhile.
    async fn moment(&mut self) -> Result<Moment, Fault> {
        let row = self.session.moment().await?;
        let now_ms = read::number(&row, "now_ms")?;
        if now_ms > TIME_MAX_MS {
            let message = format!("the server's clock shows {now_ms} ms since 1970, after the year 10889: set it");
            return Err(refused(message).into());
        }
        Ok(Moment { now_ms, incarnation: read::text(&row, "incarnation")? })
    }

    /// Makes what was done so far final, whatever becomes of the rest.
    async fn commit_and_go_on(&mut self) -> Result<(), Fault> {
        self.session.commit().await?;
        self.session.begin().await
    }
}

/// When, and on which physical server.
#[derive(Debug)]
struct Moment {
    now_ms: u64,
    incarnation: String,
}

/// Refuses a name that some database cannot keep.
fn fits(what: &str, name: &str) -> Result<(), StoreError> {
    if name.len() > NAME_LEN_MAX || name.contains('\0') {
        return Err(refused(format!("a {what} name has at most {NAME_LEN_MAX} bytes, none of them 0: shorten it")));
    }
    Ok(())
}
