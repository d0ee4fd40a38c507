//! The history of ranges where it is kept on this machine: who is named, for how long, and what a database of before lacks.

use std::{path::Path, sync::Arc, time::Duration};

use mintage_backends::{Builtin, SqliteStore};
use mintage_core::{
    ManualClock, RangeGrant, RangeHistory, RangeStore, Sequence,
    plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
    protocol::HISTORY_KEPT_MS,
};

use crate::{NOW_MS, count, sqlite::connect};

fn factory(url: &str) -> Arc<dyn BackendFactory> {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    catalog.backends().iter().find(|factory| url.starts_with(factory.url_scheme())).cloned().unwrap()
}

fn address(url: &str, folder: &Path, instance: &str) -> Address {
    let mut address = Address::new(url, folder, Arc::new(ManualClock::at(NOW_MS)));
    instance.clone_into(&mut address.instance);
    address
}

async fn open(url: &str, folder: &Path, instance: &str) -> Arc<dyn RangeStore> {
    factory(url).open(&address(url, folder, instance)).await.unwrap().ranges.unwrap()
}

#[tokio::test]
async fn each_process_is_named_for_its_own_numbers() {
    for url in ["memory:", "file:ids", "sqlite:ids.db"] {
        let folder = tempfile::tempdir().unwrap();
        let orders = Sequence::new("orders", 1);
        let one = open(url, folder.path(), "billing-3").await;
        one.create(&orders).await.unwrap();
        assert_eq!(one.allocate(&orders, count(1_000), None).await.unwrap().end, 1_001);
        // Nobody finds what another has in memory.
        let two = if url == "memory:" { Arc::clone(&one) } else { open(url, folder.path(), "web-1").await };
        two.allocate(&orders, count(10), None).await.unwrap();
        let named = async |number: u64| two.range_history("orders", number).await.unwrap();
        let other = if url == "memory:" { "billing-3" } else { "web-1" };
        assert_eq!(named(345).await, RangeHistory::of(vec![RangeGrant::new(1, 1_001, "billing-3", NOW_MS)]), "{url}");
        assert_eq!(named(1_010).await.grants, [RangeGrant::new(1_001, 1_011, other, NOW_MS)], "{url}");
        assert_eq!(named(1_011).await, RangeHistory::default(), "{url}");
        // A reader finds it, too, where there is something to find.
        let read: Option<Backend> = factory(url).open_existing(&address(url, folder.path(), "")).await.unwrap();
        assert_eq!(read.is_some(), url != "memory:", "{url}");
        if let Some(read) = read {
            let history = read.ranges.unwrap().range_history("orders", 345).await.unwrap();
            assert_eq!(history, named(345).await, "{url}");
        }
    }
}

/// Somebody sets a counter back by hand. That is another matter; the history of before is no reason to refuse numbers, and a tail
/// that is given back takes nothing else with it.
#[tokio::test]
async fn a_counter_that_was_set_back_by_hand_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let orders = Sequence::new("orders", 1);
    let store = open("sqlite:ids.db", folder.path(), "billing-3").await;
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    drop(store);
    let mut conn = connect(&folder.path().join("ids.db")).await;
    sqlx::raw_sql("UPDATE mintage_sequence SET last = 0, version = 0").execute(&mut conn).await.unwrap();
    let store = open("sqlite:ids.db", folder.path(), "web-1").await;
    let again = store.allocate(&orders, count(5), None).await.unwrap();
    assert_eq!((again.start, again.end), (1, 6));
    assert!(store.give_back(mintage_core::IdRange::new("orders", 3, again.end, again.version)).await.unwrap());
    let named = store.range_history("orders", 15).await.unwrap().grants;
    assert_eq!(named, [RangeGrant::new(11, 21, "billing-3", NOW_MS)]);
}

/// Stores that are written whole keep a number of ranges in all, and say so; the first cut go first, whosesoever they are.
#[tokio::test]
async fn many_sequences_share_what_a_small_store_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let store = open("memory:", folder.path(), "billing-3").await;
    for nth in 0..6 {
        let days = Sequence::new(format!("day-{nth}"), 0);
        store.create(&days).await.unwrap();
        for _ in 0..900 {
            store.allocate(&days, count(1), None).await.unwrap();
        }
    }
    let held = async |day: &str, number: u64| store.range_history(day, number).await.unwrap();
    assert!(held("day-0", 0).await.grants.is_empty() && held("day-0", 399).await.grants.is_empty());
    assert_eq!((held("day-0", 400).await.grants.len(), held("day-5", 899).await.grants.len()), (1, 1));
    assert!(held("day-0", 0).await.lack.unwrap().contains("5000 of all"));
}

/// A database that was made before there was a history: it begins when a process opens it to mint, and a reader makes nothing.
#[tokio::test]
async fn a_database_of_before_begins_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let (url, orders) = ("sqlite:ids.db", Sequence::new("orders", 1));
    let store = open(url, folder.path(), "billing-3").await;
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    drop(store);
    let path = folder.path().join("ids.db");
    sqlx::raw_sql("DROP TABLE mintage_range").execute(&mut connect(&path).await).await.unwrap();

    let read =
        factory(url).open_existing(&address(url, folder.path(), "web-1")).await.unwrap().unwrap().ranges.unwrap();
    let lack = read.range_history("orders", 5).await.unwrap().lack.unwrap();
    assert!(lack.contains("kept no history of ranges"), "{lack}");
    let range = read.allocate(&orders, count(10), None).await.unwrap();
    assert!(read.give_back(range).await.unwrap(), "it mints without history");

    let store = open(url, folder.path(), "web-1").await;
    let range = store.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!(store.range_history("orders", 5).await.unwrap(), RangeHistory::default());
    assert_eq!(store.range_history("orders", range.start).await.unwrap().grants[0].instance, "web-1");
}

#[tokio::test]
async fn sqlite_keeps_400_days_and_forgets_a_little_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let clock = ManualClock::at(NOW_MS);
    let store = SqliteStore::open(&path, Arc::new(clock.clone()), Duration::from_secs(20)).await.unwrap();
    let orders = Sequence::new("orders", 0);
    store.create(&orders).await.unwrap();
    for _ in 0..250 {
        store.allocate(&orders, count(1), None).await.unwrap();
    }
    let kept = async || {
        let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM mintage_range");
        rows.fetch_one(&mut connect(&path).await).await.unwrap()
    };
    clock.advance(HISTORY_KEPT_MS);
    store.allocate(&orders, count(1), None).await.unwrap();
    assert_eq!(kept().await, 251, "400 days are kept");
    clock.advance(1);
    for left in [152, 53, 4, 5] {
        store.allocate(&orders, count(1), None).await.unwrap();
        assert_eq!(kept().await, left);
    }
    assert_eq!(store.range_history("orders", 249).await.unwrap(), RangeHistory::default());
    assert_eq!(store.range_history("orders", 250).await.unwrap().grants.len(), 1);
}
