//! What each URL means, and what is said about one that means nothing.

use mintage_backends::Builtin;
use mintage_core::{
    ManualClock, StoreErrorKind,
    plugin::{Catalog, Plugin},
};

use crate::{NOW_MS, open};

#[test]
fn every_store_is_in_the_catalog_with_its_promise() {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let schemes: Vec<&str> = catalog.backends().iter().map(|factory| factory.url_scheme()).collect();
    let of = |feature: bool, names: &[&'static str]| if feature { names.to_vec() } else { Vec::new() };
    let mut expected = vec!["file", "memory", "sqlite"];
    expected.extend(of(cfg!(feature = "postgres"), &["postgres", "postgresql"]));
    expected.extend(of(cfg!(feature = "mysql"), &["mariadb", "mysql"]));
    expected.extend(of(cfg!(feature = "redis"), &["redis"]));
    expected.extend(of(cfg!(feature = "etcd"), &["etcd"]));
    expected.extend(of(cfg!(feature = "zookeeper"), &["zookeeper"]));
    expected.sort_unstable();
    assert_eq!(schemes, expected);
    for factory in catalog.backends() {
        // The first line of the documentation says the same.
        let source = match factory.url_scheme() {
            "file" => include_str!("../../src/file.rs"),
            "memory" => include_str!("../../src/memory.rs"),
            "sqlite" => include_str!("../../src/sqlite/mod.rs"),
            "etcd" => include_str!("../../src/etcd.rs"),
            "redis" => include_str!("../../src/redis.rs"),
            "zookeeper" => include_str!("../../src/zookeeper.rs"),
            _ => include_str!("../../src/database/factory.rs"),
        };
        assert!(source.contains(&format!("/// {}\n", factory.promise())), "{}", factory.promise());
    }
}

#[tokio::test]
async fn urls_are_checked_without_opening() {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let check = |url: &str| {
        let factory = catalog.backends().iter().find(|factory| url.starts_with(factory.url_scheme()));
        factory.unwrap_or_else(|| panic!("{url}")).check(url)
    };
    for good in
        ["memory:", "file:ids", "file:/var/lib/ids", "sqlite:ids.db", "sqlite:/var/lib/ids.db", "sqlite:../ids.db"]
    {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    for (bad, advice) in [
        ("memory:ids", "memory: with nothing"),
        ("memory", "memory: with nothing"),
        ("file:", "file:DIR"),
        ("file://host/ids", "plain path"),
        ("sqlite:", "sqlite:PATH"),
        ("sqlite://ids.db", "sqlite:PATH"),
        ("sqlite::memory:", "memory:"),
        ("sqlite:ids.db?mode=ro", "without ? parameters"),
        ("sqlite:file:ids.db", "without file:"),
    ] {
        let told = check(bad).unwrap_err();
        assert!(told.contains(bad) && told.contains(advice), "{told}");
        let error = open(bad, folder.path(), &clock).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{bad}: {error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was made");
}

#[tokio::test]
async fn a_store_is_there_once_it_was_opened() {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    for (url, kept) in [("sqlite:ids.db", true), ("file:ids", true), ("memory:", false)] {
        let address = mintage_core::plugin::Address::new(url, folder.path(), std::sync::Arc::new(clock.clone()));
        let factory = catalog.backends().iter().find(|factory| url.starts_with(factory.url_scheme())).unwrap();
        assert!(!factory.exists(&address), "{url}");
        open(url, folder.path(), &clock).await.unwrap();
        assert_eq!(factory.exists(&address), kept, "{url}");
    }
}

#[tokio::test]
async fn each_memory_is_a_store_of_its_own() {
    let (folder, clock) = (std::path::Path::new("."), ManualClock::at(NOW_MS));
    let one = open("memory:", folder, &clock).await.unwrap().ranges.unwrap();
    let two = open("memory:", folder, &clock).await.unwrap().ranges.unwrap();
    one.create(&mintage_core::Sequence::new("orders", 1)).await.unwrap();
    assert_eq!((one.sequences().await.unwrap().len(), two.sequences().await.unwrap().len()), (1, 0));
}
