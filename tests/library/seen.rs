//! `state_dir`: a machine that remembers what a store gave it, against stores that were restored, emptied or exchanged.

use std::{fs, path::Path};

use mintage::{BuildError, Registry};
use mintage_core::{Clock, IdBits, ManualClock, StoreError, StoreErrorKind};

use crate::{NOW_MS, config_in};

const CONFIG: &str = r#"
version = 1
[entities.orders]
scheme = "segment"
range = 100
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[workers.main]
lease = { quarantine = "0s" }
[stores.main]
url = "sqlite:ids.db"
"#;

const REMEMBERED: &str = "state_dir = \"state\"\n";

async fn build(folder: &Path, more: &str, clock: &ManualClock) -> Result<Registry, BuildError> {
    let config = config_in(folder, &format!("{CONFIG}{more}"));
    Registry::builder().builtins().clock(clock.clone()).build(config).await
}

async fn only(entity: &str, folder: &Path, more: &str, clock: &ManualClock) -> Result<Registry, BuildError> {
    let config = config_in(folder, &format!("{CONFIG}{more}"));
    Registry::builder().builtins().clock(clock.clone()).only([entity]).build(config).await
}

async fn mint(registry: &Registry, entity: &str, count: usize) -> Vec<u64> {
    let ids = registry.any_minter(entity).unwrap().mint_many(count).await.unwrap();
    ids.into_iter().map(|id| u64::from_any(id).unwrap()).collect()
}

/// The words and the kind of what stood in the way.
fn told(built: Result<Registry, BuildError>) -> String {
    let mut text = String::new();
    let error = built.unwrap_err();
    let mut next: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = next {
        text.push_str(&format!("{error}: "));
        if let Some(store) = error.downcast_ref::<StoreError>() {
            text.push_str(&format!("[{:?}]", store.kind()));
        }
        next = error.source();
    }
    text
}

/// Takes the place of the database with a copy of before.
fn restore(folder: &Path, copy: &str) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("ids.db{suffix}")));
    }
    fs::copy(folder.join(copy), folder.join("ids.db")).unwrap();
}

#[tokio::test]
async fn a_restored_store_gives_no_number_twice() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let folder = folder.path();
    for (more, repeats) in [("", true), (REMEMBERED, false)] {
        let _ = fs::remove_file(folder.join("ids.db"));
        let registry = only("orders", folder, more, &clock).await.unwrap();
        mint(&registry, "orders", 10).await;
        registry.close().await.unwrap();
        fs::copy(folder.join("ids.db"), folder.join("backup.db")).unwrap();
        let registry = only("orders", folder, more, &clock).await.unwrap();
        let before = mint(&registry, "orders", 500).await;
        registry.close().await.unwrap();
        restore(folder, "backup.db");
        let again = only("orders", folder, more, &clock).await;
        if repeats {
            let again = mint(&again.unwrap(), "orders", 10).await;
            assert!(again.iter().all(|id| before.contains(id)), "the case is none: {again:?}");
            continue;
        }
        let told = told(again);
        assert!(told.contains("[RolledBack]") && told.contains("main.seen") && told.contains("Raise"), "{told}");
        assert!(told.contains("`mintage sequences raise orders N`"), "{told}");
        // Nothing was cut by asking, and the file stays as it was.
        assert!(self::told(only("orders", folder, more, &clock).await).contains("stands at 11"));
        // As the document says: above every number in use.
        let config = config_in(folder, &format!("{CONFIG}{more}"));
        let builder = Registry::builder().builtins().clock(clock.clone());
        let mut sequences = builder.sequences(&config).await.unwrap();
        let state = sequences.find("orders", None).await.unwrap();
        sequences.raise(&state, 1_000).await.unwrap();
        let registry = only("orders", folder, more, &clock).await.unwrap();
        assert_eq!(mint(&registry, "orders", 3).await, [1_000, 1_001, 1_002]);
        registry.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_restored_store_grants_no_window_twice() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let folder = folder.path();
    let registry = only("events", folder, REMEMBERED, &clock).await.unwrap();
    registry.close().await.unwrap();
    fs::copy(folder.join("ids.db"), folder.join("backup.db")).unwrap();
    clock.advance(100);
    let registry = only("events", folder, REMEMBERED, &clock).await.unwrap();
    mint(&registry, "events", 10).await;
    // Killed: it gives nothing back.
    std::mem::forget(registry);
    restore(folder, "backup.db");
    clock.advance(100);
    let told = told(only("events", folder, REMEMBERED, &clock).await);
    // Whoever starts it again meets the same worker id, not one of which this machine knows nothing.
    assert!(self::told(only("events", folder, REMEMBERED, &clock).await).contains("worker id 0 of pool main"));
    // Without the file nobody would notice that the first holder may still mint.
    restore(folder, "backup.db");
    assert_eq!(only("events", folder, "", &clock).await.unwrap().leases()[0].worker, 0);
    restore(folder, "backup.db");
    assert!(told.contains("[RolledBack]") && told.contains("worker id 0") && told.contains("store bump"), "{told}");
    // Windows are times, and what is known of the store is none: it went back, however long ago.
    clock.advance(61_000);
    let told = self::told(only("events", folder, REMEMBERED, &clock).await);
    assert!(told.contains("[RolledBack]"), "{told}");
    bump(folder, &clock).await;
    clock.advance(70_000);
    let registry = only("events", folder, REMEMBERED, &clock).await.unwrap();
    mint(&registry, "events", 10).await;
    registry.close().await.unwrap();
}

/// As the alarm says.
async fn bump(folder: &Path, clock: &ManualClock) {
    let config = config_in(folder, &format!("{CONFIG}{REMEMBERED}"));
    let builder = Registry::builder().builtins().clock(clock.clone());
    builder.operator(&config).unwrap().bump("main").await.unwrap();
}

/// No window overlaps, so only the count of claims tells. It must not come up to what is known by itself, one try after the other.
#[tokio::test]
async fn a_backup_older_than_a_window_is_noticed_until_the_store_is_bumped() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let folder = folder.path();
    let claim = async |times: usize| {
        for _ in 0..times {
            clock.advance(1_000);
            let registry = only("events", folder, REMEMBERED, &clock).await.unwrap();
            mint(&registry, "events", 1).await;
            registry.close().await.unwrap();
        }
    };
    claim(2).await;
    fs::copy(folder.join("ids.db"), folder.join("backup.db")).unwrap();
    claim(4).await;
    let remembered = || fs::read_to_string(folder.join("state/main.seen")).unwrap();
    let before = remembered();
    assert!(before.contains("\"epoch\":6"), "{before}");
    restore(folder, "backup.db");
    clock.advance(3_600_000);
    for _ in 0..8 {
        let told = told(only("events", folder, REMEMBERED, &clock).await);
        assert!(told.contains("[RolledBack]") && told.contains("worker id 0 of pool main"), "{told}");
        assert!(told.contains("by claim 6 in life 1") && told.contains("`mintage store bump main`"), "{told}");
        assert!(told.contains("main.seen"), "{told}");
    }
    assert!(remembered().contains("\"epoch\":6"), "the evidence is kept: {}", remembered());
    bump(folder, &clock).await;
    clock.advance(70_000);
    claim(3).await;
    // Once more, from before the bump: lives are counted as well.
    restore(folder, "backup.db");
    clock.advance(3_600_000);
    for _ in 0..3 {
        let told = told(only("events", folder, REMEMBERED, &clock).await);
        assert!(told.contains("[RolledBack]"), "{told}");
        bump(folder, &clock).await;
        clock.advance(70_000);
        if let Ok(registry) = only("events", folder, REMEMBERED, &clock).await {
            return registry.close().await.unwrap();
        }
    }
    unreachable!("bumps bring it above what is known");
}

/// A file of before, without lives and ids.
#[tokio::test]
async fn a_file_of_the_version_before_is_read() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let folder = folder.path();
    fs::create_dir(folder.join("state")).unwrap();
    let old = format!(
        "{{\"version\":1,\"sequences\":{{\"orders\":41}},\"workers\":{{\"main\":{{\"\":{{\"0\":\
         {{\"inc\":3,\"epoch\":2,\"start_ms\":{},\"end_ms\":{}}}}}}}}}}}",
        NOW_MS - 900_000,
        NOW_MS - 800_000
    );
    fs::write(folder.join("state/main.seen"), old).unwrap();
    let told = told(only("events", folder, REMEMBERED, &clock).await);
    assert!(told.contains("by claim 2 in life 3") && told.contains("and again for as long as this is said"), "{told}");
    assert!(self::told(only("orders", folder, REMEMBERED, &clock).await).contains("stands at 1"));
    let kept = fs::read_to_string(folder.join("state/main.seen")).unwrap();
    assert!(kept.starts_with("{\"version\":2,\"registry\":\"") && kept.contains("\"orders\":41"), "{kept}");
}

/// Two databases of one server, say, and a slip in the URL.
#[tokio::test]
async fn another_store_in_the_place_of_the_known_one_is_refused() {
    for kind in ["sqlite:ids.db", "file:ids"] {
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
        let folder = folder.path();
        let at = |url: &str| config_in(folder, &format!("{CONFIG}{REMEMBERED}").replace("sqlite:ids.db", url));
        let build = async |url: &str| Registry::builder().builtins().clock(clock.clone()).build(at(url)).await;
        let registry = build(kind).await.unwrap();
        mint(&registry, "events", 3).await;
        registry.close().await.unwrap();
        let id_of = |text: &str| text.split("\"registry\":\"").nth(1).unwrap()[..32].to_owned();
        let id = id_of(&fs::read_to_string(folder.join("state/main.seen")).unwrap());

        clock.advance(3_600_000);
        let other = kind.replace("ids", "other");
        for _ in 0..2 {
            let told = told(build(&other).await);
            assert!(
                told.contains("[Refused]") && told.contains("main.seen") && told.contains("check its URL"),
                "{told}"
            );
            assert!(told.contains(&id) && told.contains("mintage store bump main"), "{told}");
        }
        // It was neither given an id nor used.
        let builder = Registry::builder().builtins().clock(clock.clone());
        let config = at(&other);
        assert!(builder.operator(&config).unwrap().workers("main").await.unwrap().is_empty());
        // One that another machine uses has an id of its own.
        fs::rename(folder.join("state"), folder.join("first")).unwrap();
        build(&other).await.unwrap().close().await.unwrap();
        let theirs = id_of(&fs::read_to_string(folder.join("state/main.seen")).unwrap());
        assert_ne!(theirs, id);
        fs::remove_dir_all(folder.join("state")).unwrap();
        fs::rename(folder.join("first"), folder.join("state")).unwrap();
        let told = told(build(&other).await);
        assert!(told.contains("[Refused]") && told.contains(&theirs) && told.contains(&id), "{told}");
        build(kind).await.unwrap().close().await.unwrap();
        // Made anew, and meant: without the file the machine begins to remember anew.
        fs::remove_file(folder.join("state/main.seen")).unwrap();
        build(&other).await.unwrap().close().await.unwrap();
    }
}

/// Whoever opens a new store first gives it its id, whatever others do at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_store_gets_one_id_from_many_machines() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let path = folder.path().to_owned();
    let machines = (0..6).map(|nth| {
        let (path, clock) = (path.clone(), clock.clone());
        tokio::spawn(async move {
            build(&path, &format!("state_dir = \"machine-{nth}\"\n"), &clock).await.unwrap().close().await.unwrap();
            let kept = fs::read_to_string(path.join(format!("machine-{nth}/main.seen"))).unwrap();
            kept.split("\"registry\":\"").nth(1).unwrap()[..32].to_owned()
        })
    });
    let mut ids = Vec::new();
    for machine in machines.collect::<Vec<_>>() {
        ids.push(machine.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

/// Several processes, ranges that are given back, worker ids that change hands: no false alarm.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_honest_store_raises_no_alarm() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let path = folder.path().to_owned();
    build(&path, REMEMBERED, &clock).await.unwrap().close().await.unwrap();
    let processes = (0..4).map(|nth: usize| {
        let (path, clock) = (path.clone(), clock.clone());
        tokio::spawn(async move {
            let mut minted = Vec::new();
            for round in 0..12 {
                clock.advance(7);
                let registry = build(&path, REMEMBERED, &clock).await.unwrap();
                minted.extend(mint(&registry, "orders", 1 + (nth * 53 + round * 37) % 250).await);
                mint(&registry, "events", 5).await;
                registry.close().await.unwrap();
            }
            minted
        })
    });
    let mut all = Vec::new();
    for process in processes.collect::<Vec<_>>() {
        all.extend(process.await.unwrap());
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    let kept = fs::read_to_string(path.join("state/main.seen")).unwrap();
    assert!(kept.contains("\"orders\":") && kept.contains("\"main\":"), "{kept}");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_told_before_anything_is_claimed() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(NOW_MS));
    let folder = folder.path();
    fs::create_dir(folder.join("state")).unwrap();
    for (text, kind, words) in [
        ("{", StoreErrorKind::Corrupt, "delete the file"),
        ("{\"version\":1,\"sequences\":{\"orders\":-1},\"workers\":{}}", StoreErrorKind::Corrupt, "delete the file"),
        ("{\"version\":3,\"sequences\":{},\"what\":{}}", StoreErrorKind::Refused, "another version"),
    ] {
        fs::write(folder.join("state/main.seen"), text).unwrap();
        let told = told(build(folder, REMEMBERED, &clock).await);
        assert!(told.contains(words) && told.contains(&format!("[{kind:?}]")) && told.contains("main.seen"), "{told}");
        assert!(!folder.join("ids.db").exists(), "{told}");
    }
    fs::remove_dir_all(folder.join("state")).unwrap();
    fs::write(folder.join("state"), "a file in its place").unwrap();
    let told = told(build(folder, REMEMBERED, &clock).await);
    assert!(told.contains("check state_dir") && told.contains("[Unavailable]"), "{told}");
    // A slip in a path makes no machine that remembers nothing.
    let told = self::told(build(folder, "state_dir = \"sate/ids\"\n", &clock).await);
    assert!(told.contains("check state_dir") && told.contains("make its parent folder first"), "{told}");
    assert!(!folder.join("sate").exists());
    assert_eq!(clock.unix_ms(), NOW_MS);
}
