//! Every law of the test kit, on every store.

use std::{sync::Arc, time::Duration};

use mintage_backends::{FileStore, Memory, SqliteStore};
use mintage_core::{
    ManualClock,
    testkit::store::{self, Trial},
};

use crate::NOW_MS;

#[tokio::test]
async fn memory_keeps_the_laws() {
    let clock = ManualClock::at(NOW_MS);
    let store = Memory::new(Arc::new(clock.clone()));
    store::all(&store, async |ms| clock.advance(ms), Trial::default()).await;
    store::tokens::all(&store, Trial::default()).await;
}

/// Each cycle writes and syncs four files: a hundred are enough to run the block over many times.
#[tokio::test]
async fn file_keeps_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = FileStore::open(folder.path(), Arc::new(clock.clone()), Duration::from_secs(60)).await.unwrap();
    store::all(&store, async |ms| clock.advance(ms), Trial { cycles: 100, ..Trial::default() }).await;
    store::tokens::all(&store, Trial::default()).await;
}

#[tokio::test]
async fn sqlite_keeps_the_laws() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let path = folder.path().join("ids.db");
    let store = SqliteStore::open(path, Arc::new(clock.clone()), Duration::from_secs(60)).await.unwrap();
    store::all(&store, async |ms| clock.advance(ms), Trial { cycles: 1_500, ..Trial::default() }).await;
    store::tokens::all(&store, Trial::default()).await;
}
