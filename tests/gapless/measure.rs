//! What it costs that transactions wait for each other. Prints figures; asserts only that nothing was lost.
//!
//! ```text
//! cargo test --release -p mintage --all-features --test gapless -- --ignored --nocapture measure
//! ```

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mintage::Series;
use sqlx::Transaction;
use tokio::time::Instant;

use crate::{
    BEFORE_MIDNIGHT, assert_dense, at,
    banks::{Bank, OnMariaDb, OnPostgres, OnSqlite},
    process,
};

const TABLES: &str = "[series.invoices]\nformat = \"{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"\ngapless = true\n\
                      [series.plain]\nformat = \"P{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"\n\
                      [series.ranges]\nformat = \"R{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"\nrange = 1000\n";

/// How long each way is tried.
const SPAN: Duration = Duration::from_millis(1_500);

/// What else a transaction does, between its number and its commit.
const WORK: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A number from a range at hand, and the insert.
    Range,
    /// A number by a store trip, and the insert.
    Dense,
    /// The number inside the transaction, last.
    GaplessLast,
    /// The number inside the transaction, and then five milliseconds of work.
    GaplessFirst,
    /// As the first, with the five milliseconds.
    RangeWork,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a minute and prints figures"]
async fn what_gapless_costs() {
    say("| database | callers | range | dense | gapless | range, 5 ms of work | gapless, then 5 ms of work |");
    measure::<OnSqlite>("SQLite").await;
    measure::<OnPostgres>("PostgreSQL").await;
    measure::<OnMariaDb>("MariaDB").await;
}

async fn measure<B: Bank>(name: &str) {
    for callers in [1, 8] {
        let mut figures = Vec::new();
        for way in [Way::Range, Way::Dense, Way::GaplessLast, Way::RangeWork, Way::GaplessFirst] {
            let Some(bank) = B::open().await else { return };
            figures.push(rate(&bank, way, callers).await.to_string());
        }
        say(&format!("| {name} | {callers} | {} |", figures.join(" | ")));
    }
}

/// Committed transactions a second.
async fn rate<B: Bank>(bank: &B, way: Way, callers: usize) -> u64 {
    let registry = process(bank, TABLES, &at(BEFORE_MIDNIGHT)).await;
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let series = ["invoices", "plain", "ranges"].map(|name| registry.series(name).unwrap());
            let (bank, count) = (bank.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                while start.elapsed() < SPAN {
                    one(&bank, way, &series).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took_ms = start.elapsed().as_millis().max(1);
    let made = count.load(Ordering::Relaxed);
    let rows = bank.rows().await;
    assert_eq!(rows.len() as u64, made);
    if matches!(way, Way::GaplessFirst | Way::GaplessLast) {
        assert_dense(&rows);
    }
    registry.close().await.unwrap();
    u64::try_from(u128::from(made) * 1_000 / took_ms).unwrap()
}

async fn one<B: Bank>(bank: &B, way: Way, [invoices, plain, ranges]: &[Series; 3]) {
    let outside = match way {
        Way::Range | Way::RangeWork => Some(ranges.next().await.unwrap()),
        Way::Dense => Some(plain.next().await.unwrap()),
        Way::GaplessLast | Way::GaplessFirst => None,
    };
    let mut tx: Transaction<'_, B::D> = bank.begin().await;
    let number = match outside {
        Some(number) => number,
        None => invoices.next_in(&mut tx).await.unwrap(),
    };
    if matches!(way, Way::GaplessFirst | Way::RangeWork) {
        tokio::time::sleep(WORK).await;
    }
    B::insert(&mut tx, number.as_str()).await;
    tx.commit().await.unwrap();
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
