//! Servers that forget: a standby without the last commits, a backup put back, a server that does not sync. What was granted
//! before and what is granted after share nothing.

use std::{path::Path, process::Command};

use mintage_backends::DatabaseStore;
use mintage_core::{LeaseStore, RangeStore, Sequence, StoreErrorKind};
use mintage_servers_for_tests::{Fault, Postgres, Proxy};

use crate::{Kind, Server, claim, claim_in_time, count, holder, on_both, open, pool, terms};

on_both!(a_restored_data_folder_repeats_nothing, without_syncing_each_start_is_a_life);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_promoted_standby_that_lost_a_write_repeats_nothing() {
    let Some(primary) = Postgres::start() else { return };
    let url = primary.database("ids");
    let link = Proxy::start(primary.port());
    let standby = Postgres::standby_through(&primary, link.port());
    let store = open(&url).await;
    let orders = Sequence::new("orders", 1);
    let main = pool("main", 0..2);
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    let kept = claim(&store, &main, 1).await.unwrap();
    standby.catch_up_with(&primary);

    link.set(Fault::Refuse);
    link.cut();
    let lost_range = store.allocate(&orders, count(10), None).await.unwrap();
    let lost = claim(&store, &main, 2).await.unwrap();
    let longer = store.renew(&kept, &holder(1), &terms()).await.unwrap();
    primary.kill9();
    standby.promote();

    // A process that knows nothing of what was lost.
    let after = open(&url.replace(&primary.port().to_string(), &standby.port().to_string())).await;
    let error = after.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    assert!(error.to_string().contains("/00000002") && error.to_string().contains("Raise"), "{error}");
    assert!(!after.give_back(lost_range.clone()).await.unwrap());
    after.raise(&orders, lost_range.end).await.unwrap();
    assert_eq!(after.allocate(&orders, count(10), None).await.unwrap().start, lost_range.end);

    let error = after.renew(&kept, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
    assert!(
        claim(&after, &main, 3).await.unwrap_err().retry_at_ms().is_some(),
        "the bump was kept though the claim failed"
    );
    for nth in 3..5 {
        let lease = claim_in_time(&after, &main, nth).await;
        let before = if lease.worker == lost.worker { &lost } else { &longer };
        assert!(lease.window.start >= before.window.end, "{lease:?} overlaps {before:?}");
        assert!(lease.fence.inc > before.fence.inc, "{lease:?}");
    }
    let error = after.renew(&lost, &holder(2), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
}

/// The same server with older data looks like itself. Those who were granted more than it remembers notice.
async fn a_restored_data_folder_repeats_nothing(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let store = open(&server.database("restored")).await;
    let mut orders = Sequence::new("orders", 1);
    let main = pool("main", 0..1);
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    let first = claim(&store, &main, 1).await.unwrap();
    let backup = tempfile::tempdir().unwrap();
    server.kill9();
    copy(&server.data_dir(), &backup.path().join("data"));
    server.restart();
    let range = store.allocate(&orders, count(10), None).await.unwrap();
    let last = store.renew(&first, &holder(1), &terms()).await.unwrap();
    assert!(last.window.end > first.window.end);

    server.kill9();
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    copy(&backup.path().join("data"), &server.data_dir());
    server.restart();
    orders.floor = range.end;
    let error = store.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    store.raise(&orders, range.end).await.unwrap();
    assert_eq!(store.allocate(&orders, count(10), None).await.unwrap().start, range.end);

    let error = store.renew(&last, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
    let lease = claim_in_time(&store, &main, 2).await;
    assert!(lease.window.start >= last.window.end && lease.fence.inc == 2, "{lease:?} after {last:?}");
}

async fn without_syncing_each_start_is_a_life(kind: Kind) {
    let setting = if kind == Kind::Postgres { "fsync=off" } else { "innodb-flush-log-at-trx-commit=2" };
    let Some(server) = Server::start(kind, &[setting]) else { return };
    let url = server.database("unsynced");
    let store = open(&url).await;
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..1));
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    let lease = claim(&store, &main, 1).await.unwrap();
    let again = another_life(&url).await;
    assert!(!again, "the same server is the same life to another process");
    // The start is known to the second on one of them.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    server.kill9();
    server.restart();
    assert!(another_life(&url).await);
    store.raise(&orders, 0).await.unwrap();
    assert!(!another_life(&url).await, "raised, even by nothing");
    let error = store.renew(&lease, &holder(1), &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
    assert!(claim_in_time(&store, &main, 2).await.window.start >= lease.window.end);
}

/// Whether a new process finds that the server has forgotten.
async fn another_life(url: &str) -> bool {
    let store: DatabaseStore = open(url).await;
    match store.allocate(&Sequence::new("orders", 1), count(1), None).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
            true
        }
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}
