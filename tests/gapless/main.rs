//! Gapless numbers inside transactions of the caller's, on SQLite, PostgreSQL and MariaDB: rollbacks, savepoints, crowds, midnight,
//! full widths, reservations, and every wrong database.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod audit;
mod banks;
mod columns;
mod crowd;
mod doors;
mod measure;
mod numbers;

use std::time::Duration;

use banks::Bank;
use mintage::{
    Config, GaplessError, Registry, SeriesError,
    core::{ManualClock, StoreErrorKind},
    entity, time,
};

entity!(Receipt: Int = "receipts");

/// 23:59 in Berlin on the last of November 2026.
const BEFORE_MIDNIGHT: &str = "2026-11-30T22:59:00Z";

const SERIES: &str =
    "[series.invoices]\nformat = \"{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"\ngapless = true\n";

fn config(url: &str, tables: &str) -> String {
    format!("version = 1\n{tables}\n[stores.main]\nurl = \"{url}\"\ntimeout = \"60s\"\n")
}

fn at(text: &str) -> ManualClock {
    ManualClock::at(u64::try_from(time::parse(text).unwrap()).unwrap())
}

/// A process of its own, on the database of `bank`.
async fn process<B: Bank>(bank: &B, tables: &str, clock: &ManualClock) -> Registry {
    let config = Config::parse(&config(&bank.url(), tables), "mintage.toml").unwrap();
    Registry::builder().builtins().clock(clock.clone()).build(config).await.unwrap()
}

fn kind_of(error: &GaplessError) -> Option<StoreErrorKind> {
    match error {
        GaplessError::Store { source, .. } => Some(source.kind()),
        _ => None,
    }
}

fn is_full(error: &GaplessError) -> bool {
    matches!(error, GaplessError::Series(SeriesError::Full { .. }))
}

/// Long enough for any answer on a busy machine, short enough to tell a deadlock.
const PATIENCE: Duration = Duration::from_secs(120);

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("stuck for {PATIENCE:?}: a deadlock"))
}

/// Of each period, all numbers from 1 on.
fn assert_dense(texts: &[String]) {
    let mut sorted = texts.to_vec();
    sorted.sort();
    let mut last = (String::new(), 0);
    for text in &sorted {
        let (day, n) = text.split_once('-').unwrap();
        let n: u64 = n.parse().unwrap();
        assert_eq!(n, if last.0 == day { last.1 + 1 } else { 1 }, "{text} in {sorted:?}");
        last = (day.to_owned(), n);
    }
}

/// Makes three tests of an async function over a [`Bank`].
macro_rules! on_all {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn sqlite() {
                crate::in_time(super::$test::<crate::banks::OnSqlite>()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn postgres() {
                crate::in_time(super::$test::<crate::banks::OnPostgres>()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn mariadb() {
                crate::in_time(super::$test::<crate::banks::OnMariaDb>()).await;
            }
        })+
    };
}
use on_all;
