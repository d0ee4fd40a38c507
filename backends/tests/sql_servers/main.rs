//! PostgreSQL and MariaDB under the laws of the test kit, and under what servers and networks do to a store: lost answers, hangs,
//! kill -9, failovers, restored backups, planted rows, wrong passwords.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod access;
mod contract;
mod crowd;
mod faults;
mod history;
mod lives;
mod planted;
mod prefixes;
mod versions;

use std::{num::NonZeroU32, ops::Deref, sync::OnceLock, time::Duration};

use mintage_backends::DatabaseStore;
use mintage_core::{Holder, IdRange, Lease, LeaseStore, LeaseTerms, PoolLimits, StoreError, WorkerChoice, WorkerPool};
use mintage_servers_for_tests::{MariaDb, Postgres};

/// Long enough for any call on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Postgres,
    MariaDb,
}

/// A server of either kind.
#[derive(Debug)]
enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Server {
    /// One of the test's own, with settings.
    fn start(kind: Kind, settings: &[&str]) -> Option<Self> {
        match kind {
            Kind::Postgres => Postgres::start_with(settings).map(Self::Postgres),
            Kind::MariaDb => MariaDb::start_with(settings).map(Self::MariaDb),
        }
    }

    /// One for the tests that leave it as it is, each in a database of its own.
    fn shared(kind: Kind) -> Option<&'static Self> {
        static POSTGRES: OnceLock<Option<Server>> = OnceLock::new();
        static MARIADB: OnceLock<Option<Server>> = OnceLock::new();
        match kind {
            Kind::Postgres => POSTGRES.get_or_init(|| Self::start(kind, &["max_connections=300"])).as_ref(),
            Kind::MariaDb => MARIADB.get_or_init(|| Self::start(kind, &["max-connections=300"])).as_ref(),
        }
    }

    fn database(&self, name: &str) -> String {
        match self {
            Self::Postgres(server) => server.database(name),
            Self::MariaDb(server) => server.database(name),
        }
    }

    fn sql(&self, database: &str, sql: &str) -> String {
        match self {
            Self::Postgres(server) => server.sql_in(database, sql),
            Self::MariaDb(server) => server.sql(&format!("USE {database}; {sql}")),
        }
    }
}

impl Deref for Server {
    type Target = mintage_servers_for_tests::Server;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Postgres(server) => server,
            Self::MariaDb(server) => server,
        }
    }
}

async fn open(url: &str) -> DatabaseStore {
    DatabaseStore::open(url, PATIENCE).await.unwrap()
}

fn count(len: u32) -> NonZeroU32 {
    NonZeroU32::new(len).unwrap()
}

/// A pool whose bump is over in seconds.
fn pool(name: &str, block: std::ops::Range<u32>) -> WorkerPool {
    let mut pool = WorkerPool::new(name, block);
    pool.limits = PoolLimits::new(2_000, 500, 200);
    pool
}

fn terms() -> LeaseTerms {
    LeaseTerms::new(2_000, 1_000, 0, 500)
}

fn holder(nth: u32) -> Holder {
    Holder::new(u128::from(nth) + 1, format!("host-{nth}"), 0)
}

async fn claim(store: &DatabaseStore, pool: &WorkerPool, nth: u32) -> Result<Lease, StoreError> {
    store.acquire(pool, WorkerChoice::Any, &holder(nth), &terms()).await
}

/// Claims as soon as the store says that one can.
async fn claim_in_time(store: &DatabaseStore, pool: &WorkerPool, nth: u32) -> Lease {
    for _ in 0..200 {
        match claim(store, pool, nth).await {
            Ok(lease) => return lease,
            Err(error) => assert!(error.retry_at_ms().is_some(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no worker id in ten seconds");
}

fn assert_disjoint(mut ranges: Vec<IdRange>) {
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{:?} and {:?} share numbers", pair[0], pair[1]);
    }
}

/// Makes two tests of an async function over a [`Kind`].
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn postgres() {
                super::$test(crate::Kind::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn mariadb() {
                super::$test(crate::Kind::MariaDb).await;
            }
        })+
    };
}
use on_both;
