//! Servers that forget: a standby without the last commits, a backup put back, a server that does not sync. What was granted
//! before and what is granted after share nothing.

use std::{path::Path, process::Command};

use mintage_backends::DatabaseStore;
use mintage_core::{Lease, LeaseStore, RangeStore, Sequence, StoreErrorKind, WorkerPool, protocol::UNLISTED};
use mintage_servers_for_tests::{Fault, Postgres, Proxy};

use crate::{Kind, Server, claim, claim_in_time, count, holder, on_both, open, pool, terms};

on_both!(
    a_restored_data_folder_repeats_nothing,
    without_syncing_each_start_is_a_life,
    what_another_life_lacks_is_not_made_as_new,
    an_older_life_that_comes_back_is_noticed,
    tables_of_before_say_in_which_life_they_were_complete,
);

/// A standby lacks the rows that came last as well as their changes: a first pool, a new region, a sequence of a new period.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_promoted_standby_lacks_is_not_made_as_new() {
    let Some(primary) = Postgres::start() else { return };
    let url = primary.database("ids");
    let link = Proxy::start(primary.port());
    let standby = Postgres::standby_through(&primary, link.port());
    let store = open(&url).await;
    let (mut eu, main) = (pool("main", 2..3), pool("main", 0..1));
    eu.region = "eu".to_owned();
    claim(&store, &main, 1).await.unwrap();
    standby.catch_up_with(&primary);
    link.set(Fault::Refuse);
    link.cut();
    let (today, first) = (Sequence::new("invoices/2027-01-01", 1), pool("first", 0..1));
    store.create(&today).await.unwrap();
    let lost_range = store.allocate(&today, count(10), None).await.unwrap();
    let lost = [(claim(&store, &eu, 2).await.unwrap(), eu), (claim(&store, &first, 3).await.unwrap(), first)];
    primary.kill9();
    standby.promote();

    let after = open(&url.replace(&primary.port().to_string(), &standby.port().to_string())).await;
    assert!(after.sequences().await.unwrap().is_empty(), "nothing was lost: this test shows nothing");
    let error = after.create(&today).await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::RolledBack && error.to_string().contains(&today.name), "{error}");
    let mut lost = lost.into_iter();
    let claims_above = async |lost: Option<(Lease, WorkerPool)>| {
        let (lost, pool) = lost.unwrap();
        let lease = claim_in_time(&after, &pool, 9).await;
        assert!(lease.window.start >= lost.window.end && lease.fence.inc > lost.fence.inc, "{lease:?} after {lost:?}");
    };
    claims_above(lost.next()).await;
    assert_eq!(after.waiting().await.unwrap(), [UNLISTED]);
    after.restore(&Sequence::new(&today.name, lost_range.end)).await.unwrap();
    assert_eq!(after.allocate(&today, count(10), None).await.unwrap().start, lost_range.end);
    after.raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    assert!(after.waiting().await.unwrap().is_empty());
    // That no number is in use says nothing about worker ids.
    claims_above(lost.next()).await;
    let tomorrow = Sequence::new("invoices/2027-01-02", 1);
    after.create(&tomorrow).await.unwrap();
    assert_eq!(after.allocate(&tomorrow, count(10), None).await.unwrap().start, 1);
    claim_in_time(&after, &pool("new", 0..1), 4).await;
}

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

/// The same on both kinds of servers, seen from the rows: they are of another life than the server that answers.
async fn what_another_life_lacks_is_not_made_as_new(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let store = open(&server.database("another")).await;
    server.sql("another", "UPDATE mintage_sequence SET incarnation = 'another' WHERE name = '*'");
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..1));
    assert_eq!(store.create(&orders).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    let error = claim(&store, &main, 1).await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::NoFreeWorker && error.retry_at_ms().is_some(), "{error}");
    assert_eq!(claim_in_time(&store, &main, 1).await.fence.inc, 2);
    // Whoever emptied the table has not looked either.
    server.sql("another", "DELETE FROM mintage_sequence");
    assert_eq!(store.waiting().await.unwrap(), [UNLISTED]);
    assert_eq!(store.create(&orders).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    store.raise(&Sequence::new(UNLISTED, 0), 0).await.unwrap();
    store.create(&orders).await.unwrap();
}

/// The address leads to a new primary and back to the old one, which is in the life in which it was left.
async fn an_older_life_that_comes_back_is_noticed(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let store = open(&server.database("flapping")).await;
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..1));
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    claim(&store, &main, 1).await.unwrap();
    let old = "CREATE TABLE old_pool AS SELECT * FROM mintage_pool; CREATE TABLE old_worker AS SELECT * FROM mintage_worker;
               CREATE TABLE old_sequence AS SELECT * FROM mintage_sequence; CREATE TABLE old_grant AS SELECT * FROM mintage_grant;";
    server.sql("flapping", old);
    server.sql(
        "flapping",
        "UPDATE mintage_pool SET incarnation = 'before'; UPDATE mintage_sequence SET incarnation = 'before'",
    );
    let there = claim_in_time(&store, &main, 2).await;
    store.raise(&orders, 500).await.unwrap();
    let given = store.allocate(&orders, count(10), None).await.unwrap();
    // Others have gone on with the old one meanwhile: its clock of grants is not behind.
    server.sql(
        "flapping",
        "DELETE FROM mintage_grant; DELETE FROM mintage_worker; DELETE FROM mintage_pool; DELETE FROM mintage_sequence;
         INSERT INTO mintage_pool SELECT * FROM old_pool; INSERT INTO mintage_worker SELECT * FROM old_worker;
         INSERT INTO mintage_sequence SELECT * FROM old_sequence; INSERT INTO mintage_grant SELECT * FROM old_grant;
         UPDATE mintage_pool SET granted_at_ms = granted_at_ms + 60000; UPDATE mintage_worker SET expires_ms = 0",
    );
    let error = store.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    assert_eq!(store.renew(&there, &holder(2), &terms()).await.unwrap_err().kind(), StoreErrorKind::Fenced);
    assert!(claim(&store, &main, 3).await.unwrap_err().retry_at_ms().unwrap() > there.window.end);
    let inc = server.sql("flapping", "SELECT inc FROM mintage_pool");
    assert!(inc.contains('3'), "{inc}");
    store.raise(&orders, given.end).await.unwrap();
    assert_eq!(store.allocate(&orders, count(10), None).await.unwrap().start, given.end);
}

/// The rows of an older version agree on a life, or somebody has to look.
async fn tables_of_before_say_in_which_life_they_were_complete(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let url = server.database("earlier");
    let store = open(&url).await;
    let new = |nth: u32| Sequence::new(format!("new-{nth}"), 1);
    let forget = "DELETE FROM mintage_sequence WHERE name = '*'";
    server.sql("earlier", forget);
    open(&url).await.create(&new(1)).await.unwrap();
    claim(&store, &pool("main", 0..1), 1).await.unwrap();
    server.sql("earlier", forget);
    open(&url).await.create(&new(2)).await.unwrap();
    server.sql("earlier", &format!("{forget}; UPDATE mintage_sequence SET incarnation = 'another'"));
    assert_eq!(open(&url).await.create(&new(3)).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    server.sql("earlier", &format!("{forget}; UPDATE mintage_pool SET incarnation = 'another'"));
    assert_eq!(open(&url).await.create(&new(3)).await.unwrap_err().kind(), StoreErrorKind::RolledBack);
    assert_eq!(open(&url).await.waiting().await.unwrap(), [UNLISTED, "new-1", "new-2"]);
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
    if kind == Kind::MariaDb {
        // Its start is known to the second.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    }
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
