//! Stores on disk that forget: a backup in the place of the data, under a running process or before anybody starts.

use std::{path::Path, sync::Arc, time::Duration};

use mintage_backends::{FileStore, SqliteStore};
use mintage_core::{
    ManualClock, Sequence, StoreErrorKind, WorkerChoice, WorkerPool, protocol::UNLISTED,
    testkit::store::restored::a_restored_backup_is_noticed,
};
use sqlx::{ConnectOptions, Executor, sqlite::SqliteConnectOptions};

use crate::{NOW_MS, count, holder, on_disk, open, pool, terms};

on_disk!(
    a_bump_reaches_what_no_config_names,
    a_bump_stops_a_process_that_runs,
    a_word_about_numbers_says_nothing_of_worker_ids
);

#[tokio::test]
async fn a_copied_state_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = FileStore::open(folder.path(), Arc::new(clock.clone()), Duration::from_secs(30)).await.unwrap();
    let (state, backup) = (folder.path().join("state.json"), folder.path().join("backup.json"));
    let copy = async |from: &Path, to: &Path| assert!(std::fs::copy(from, to).unwrap() > 0);
    let tick = async |ms| clock.advance(ms);
    let (save, restore) = (async || copy(&state, &backup).await, async || copy(&backup, &state).await);
    a_restored_backup_is_noticed(&store, &store, tick, save, restore).await;
}

/// As `sqlite3 ids.db '.restore backup.db'` does: the same file, with the pages of before.
#[tokio::test]
async fn a_restored_database_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let path = folder.path().join("ids.db");
    let store = SqliteStore::open(&path, Arc::new(clock.clone()), Duration::from_secs(30)).await.unwrap();
    let backup = folder.path().join("backup.db").display().to_string();
    let run = async |sql: String| {
        let mut database = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
        database.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    };
    let save = async || run(format!("VACUUM INTO '{backup}'")).await;
    let restore = async || {
        let mut sql = format!("ATTACH '{backup}' AS backup; BEGIN IMMEDIATE;");
        for table in ["pool", "worker", "grant", "sequence", "range_key", "format", "token", "stopped"] {
            sql += &format!(
                "DELETE FROM mintage_{table}; INSERT INTO mintage_{table} SELECT * FROM backup.mintage_{table};"
            );
        }
        run(sql + "COMMIT").await;
    };
    a_restored_backup_is_noticed(&store, &store, async |ms| clock.advance(ms), save, restore).await;
}

/// Whoever bumps has a config that names none of these.
async fn a_bump_reaches_what_no_config_names(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = open(url, folder.path(), &clock).await.unwrap();
    let (leases, ranges) = (store.leases.unwrap(), store.ranges.unwrap());
    let pools = [pool("main", 0..2), pool("other", 0..2)];
    let mut last = Vec::new();
    for pool in &pools {
        last.push(leases.acquire(pool, WorkerChoice::Any, &holder(1), &terms()).await.unwrap());
    }
    ranges.create(&Sequence::new("orders", 1)).await.unwrap();

    let operator = open(url, folder.path(), &clock).await.unwrap();
    assert!(operator.leases.unwrap().bump_all().await.unwrap());
    assert!(operator.ranges.unwrap().stop_all().await.unwrap());
    assert_eq!(ranges.waiting().await.unwrap(), [UNLISTED, "orders"]);
    for (pool, last) in pools.iter().zip(&last) {
        let told = leases.renew(last, &holder(1), &terms()).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::Fenced, "{told}");
        let told = leases.acquire(pool, WorkerChoice::Any, &holder(2), &terms()).await.unwrap_err();
        assert_eq!(told.kind(), StoreErrorKind::NoFreeWorker, "{told}");
    }
    // A region that the backup lacks.
    let mut region = pool("main", 2..4);
    region.region = "eu".to_owned();
    let told = leases.acquire(&region, WorkerChoice::Any, &holder(3), &terms()).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::NoFreeWorker, "{told}");
}

async fn a_bump_stops_a_process_that_runs(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let ranges = open(url, folder.path(), &clock).await.unwrap().ranges.unwrap();
    let (orders, invoices) = (Sequence::new("orders", 1), Sequence::new("invoices/2027", 1));
    ranges.create(&orders).await.unwrap();
    ranges.allocate(&orders, count(10), None).await.unwrap();
    let operator = open(url, folder.path(), &clock).await.unwrap().ranges.unwrap();
    assert!(operator.stop_all().await.unwrap());
    let told = ranges.allocate(&orders, count(10), None).await.unwrap_err();
    assert!(told.kind() == StoreErrorKind::RolledBack && told.to_string().contains("sequences raise"), "{told}");
    let told = ranges.create(&invoices).await.unwrap_err();
    assert_eq!(told.kind(), StoreErrorKind::RolledBack, "{told}");
    for words in ["invoices/2027", "mintage sequences raise invoices/2027 N", "mintage sequences raise '*'"] {
        assert!(told.to_string().contains(words), "{told}");
    }
    operator.raise(&orders, 500).await.unwrap();
    assert_eq!(ranges.allocate(&orders, count(10), None).await.unwrap().start, 500);
    operator.restore(&Sequence::new("invoices/2027", 70)).await.unwrap();
    assert_eq!(ranges.allocate(&invoices, count(1), None).await.unwrap().start, 70);
}

/// A pool that the backup lacks may have holders, whatever was said of numbers.
async fn a_word_about_numbers_says_nothing_of_worker_ids(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = open(url, folder.path(), &clock).await.unwrap();
    let (leases, ranges) = (store.leases.unwrap(), store.ranges.unwrap());
    let claim = async |pool: &WorkerPool| leases.acquire(pool, WorkerChoice::Any, &holder(1), &terms()).await;
    claim(&pool("main", 0..2)).await.unwrap();
    assert!(leases.bump_all().await.unwrap() && ranges.stop_all().await.unwrap());
    ranges.raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    ranges.create(&Sequence::new("orders", 1)).await.unwrap();
    assert!(ranges.sequence(UNLISTED).await.unwrap().is_none() && ranges.sequences().await.unwrap().len() == 1);
    let forgotten = pool("forgotten", 0..2);
    let mut region = pool("main", 2..4);
    region.region = "eu".to_owned();
    let limits = forgotten.limits;
    let reach_ms = limits.window_max_ms + limits.ahead_max_ms + limits.guard_ms;
    for lost in [&forgotten, &region] {
        assert_eq!(claim(lost).await.unwrap_err().kind(), StoreErrorKind::NoFreeWorker, "{lost:?}");
    }
    clock.advance(reach_ms);
    for lost in [&forgotten, &region] {
        assert!(claim(lost).await.unwrap().window.start >= NOW_MS + reach_ms, "{lost:?}");
    }
}
