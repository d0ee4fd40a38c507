//! What a network, a hanging server and a failing commit do to one call.

use std::time::Duration;

use mintage_backends::DatabaseStore;
use mintage_core::{IdempotencyKey, LeaseStore, RangeStore, Sequence, StoreErrorKind};
use mintage_servers_for_tests::{Fault, Proxy};
use tokio::time::Instant;

use crate::{Kind, Server, claim, claim_in_time, count, holder, on_both, open, pool, terms};

on_both!(
    an_answer_lost_after_the_commit_costs_a_gap_at_most,
    a_stopped_server_is_cut_off,
    kill_nine_and_restart_keep_what_was_acknowledged,
    a_server_that_starts_again_is_waited_for,
);

async fn an_answer_lost_after_the_commit_costs_a_gap_at_most(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let proxy = Proxy::start(server.port());
    let store = open(&proxy.url_of(&server.database("lost"))).await;
    let orders = Sequence::new("orders", 1);
    store.create(&orders).await.unwrap();
    // As each protocol puts it: "READ COMMITTED" is another request.
    let commit: &[u8] = if kind == Kind::Postgres { b"COMMIT\0" } else { b"\x03COMMIT" };
    let lose = || proxy.set(Fault::LoseAnswerTo(commit.to_vec()));

    let key = IdempotencyKey::new("request-1").unwrap();
    lose();
    let error = store.allocate(&orders, count(10), Some(&key)).await.unwrap_err();
    assert_eq!((error.kind(), proxy.answers_lost()), (StoreErrorKind::Unavailable, 1), "{error}");
    let range = store.allocate(&orders, count(10), Some(&key)).await.unwrap();
    assert_eq!((range.start, range.end), (1, 11), "the answer that was lost");
    lose();
    store.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(store.allocate(&orders, count(10), None).await.unwrap().start, 21, "a gap, and no repeat");

    let main = pool("main", 0..4);
    lose();
    claim(&store, &main, 1).await.unwrap_err();
    let lease = claim(&store, &main, 2).await.unwrap();
    assert_eq!(lease.worker, 1, "the abandoned claim holds 0");
    lose();
    store.renew(&lease, &holder(2), &terms()).await.unwrap_err();
    let longer = store.renew(&lease, &holder(2), &terms()).await.unwrap();
    assert!(longer.window.start == lease.window.start && longer.window.end >= lease.window.end, "{longer:?}");
    lose();
    store.release(longer.clone(), longer.window.start + 5, &terms()).await.unwrap_err();
    let error = store.release(longer, 0, &terms()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Fenced, "it was released: {error}");
    assert_eq!(proxy.answers_lost(), 5);
}

async fn a_stopped_server_is_cut_off(kind: Kind) {
    const TIMEOUT: Duration = Duration::from_millis(1_000);
    let Some(server) = Server::start(kind, &[]) else { return };
    let url = server.database("stopped");
    let store = DatabaseStore::open(&url, TIMEOUT).await.unwrap();
    let orders = Sequence::new("orders", 1);
    store.create(&orders).await.unwrap();
    let before = store.allocate(&orders, count(10), None).await.unwrap();
    server.stop();
    let begun = Instant::now();
    let error = store.allocate(&orders, count(10), None).await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("within 1000 ms"), "{error}");
    let error = DatabaseStore::open(&url, TIMEOUT).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() >= 2 * TIMEOUT && begun.elapsed() < 4 * TIMEOUT, "{:?}", begun.elapsed());
    server.cont();
    let after = open(&url).await.allocate(&orders, count(10), None).await.unwrap();
    assert!(after.start >= before.end, "{after:?}");
    let again = store.allocate(&orders, count(10), None).await.unwrap();
    assert!(again.start >= after.end, "the store that was cut off goes on: {again:?}");
}

async fn kill_nine_and_restart_keep_what_was_acknowledged(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let store = open(&server.database("killed")).await;
    let orders = Sequence::new("orders", 1);
    let main = pool("main", 0..4);
    store.create(&orders).await.unwrap();
    let mut lease = claim(&store, &main, 1).await.unwrap();
    for round in 0..3 {
        let range = store.allocate(&orders, count(10), None).await.unwrap();
        assert_eq!(range.start, 1 + round * 10, "no number is lost or repeated");
        lease = store.renew(&lease, &holder(1), &terms()).await.unwrap();
        server.kill9();
        server.restart();
        let rows = store.leases(&main).await.unwrap();
        assert_eq!(rows.first().map(|row| row.floor_ms), Some(lease.window.end), "{rows:?}");
    }
    // A restart may have taken longer than the lease lives.
    let lease = store.renew(&lease, &holder(1), &terms()).await.unwrap();
    let other = claim_in_time(&store, &pool("main", 0..4), 2).await;
    assert_ne!(other.worker, lease.worker, "the first lease is still there");
}

/// A refused connection is tried again for as long as a server takes to start.
async fn a_server_that_starts_again_is_waited_for(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let proxy = Proxy::start(server.port());
    let url = proxy.url_of(&server.database("refusing"));
    proxy.set(Fault::Refuse);
    let opening = tokio::spawn(async move { DatabaseStore::open(&url, Duration::from_secs(20)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!opening.is_finished());
    proxy.heal();
    let store = opening.await.unwrap().unwrap();

    // An idle connection that broke meanwhile is not the end of a call either.
    proxy.reset();
    store.create(&Sequence::new("orders", 1)).await.unwrap();
    proxy.set(Fault::Refuse);
    proxy.cut();
    let error = store.create(&Sequence::new("users", 1)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("check the host"), "{error}");
}

/// A deferred trigger lets every statement pass and fails the COMMIT: nothing that was answered before is believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_whose_commit_fails_is_not_believed() {
    let Some(server) = Server::shared(Kind::Postgres) else { return };
    let store = open(&server.database("commit")).await;
    let orders = Sequence::new("orders", 1);
    store.create(&orders).await.unwrap();
    let main = pool("main", 0..4);
    let lease = claim(&store, &main, 1).await.unwrap();
    server.sql(
        "commit",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
         CREATE CONSTRAINT TRIGGER no AFTER UPDATE ON mintage_sequence DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION no();
         CREATE CONSTRAINT TRIGGER no AFTER UPDATE ON mintage_worker DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION no()",
    );
    let error = store.allocate(&orders, count(10), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    store.renew(&lease, &holder(1), &terms()).await.unwrap_err();
    store.release(lease.clone(), lease.window.start, &terms()).await.unwrap_err();
    server.sql("commit", "DROP TRIGGER no ON mintage_sequence; DROP TRIGGER no ON mintage_worker");
    assert_eq!(store.allocate(&orders, count(10), None).await.unwrap().start, 1);
    store.renew(&lease, &holder(1), &terms()).await.unwrap();
}
