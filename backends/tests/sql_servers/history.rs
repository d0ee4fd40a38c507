//! The history of ranges on a database server, and a database that was made before there was one.

use std::sync::Arc;

use mintage_backends::{DatabaseStore, Dialect};
use mintage_core::{RangeGrant, RangeStore, Sequence, SystemClock, plugin::Address, protocol::HISTORY_KEPT_MS};

use crate::{Kind, PATIENCE, Server, count, on_both, open};

on_both!(
    each_process_is_named,
    a_counter_that_was_set_back_by_hand_goes_on,
    old_rows_go_a_few_at_a_time,
    a_database_of_before_goes_on_without,
    a_user_who_may_make_tables_makes_it
);

async fn open_as(url: &str, instance: &str) -> DatabaseStore {
    let mut address = Address::new(url, ".", Arc::new(SystemClock));
    (address.timeout_ms, address.instance) = (30_000, instance.to_owned());
    DatabaseStore::open_at(&address).await.unwrap()
}

async fn each_process_is_named(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("named");
    let (one, two) = (open_as(&url, "billing-3").await, open_as(&url, "web \u{1f980}").await);
    let orders = Sequence::new("orders", 1);
    one.create(&orders).await.unwrap();
    one.allocate(&orders, count(1_000), None).await.unwrap();
    let range = two.allocate(&orders, count(10), None).await.unwrap();
    let grant = async |number: u64| {
        let history = one.range_history("orders", number).await.unwrap();
        assert_eq!(history.lack, None);
        history
            .grants
            .into_iter()
            .map(|RangeGrant { start, end, instance, .. }| (start, end, instance))
            .collect::<Vec<_>>()
    };
    assert_eq!(grant(1_000).await, [(1, 1_001, "billing-3".to_owned())]);
    assert_eq!(grant(1_010).await, [(1_001, 1_011, "web \u{1f980}".to_owned())]);
    // A tail that another process got says nothing of the one that gave it back.
    let tail = mintage_core::IdRange::new("orders", 1_004, range.end, range.version);
    assert!(two.give_back(tail).await.unwrap());
    one.allocate(&orders, count(5), None).await.unwrap();
    assert_eq!(grant(1_003).await, [(1_001, 1_004, "web \u{1f980}".to_owned())]);
    assert_eq!(grant(1_004).await, [(1_004, 1_009, "billing-3".to_owned())]);
    assert_eq!(grant(1_009).await, []);
}

/// Somebody sets a counter back by hand: the history of before is no reason to refuse numbers.
async fn a_counter_that_was_set_back_by_hand_goes_on(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("setback");
    let orders = Sequence::new("orders", 1);
    let store = open_as(&url, "billing-3").await;
    store.create(&orders).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    store.allocate(&orders, count(10), None).await.unwrap();
    server.sql("setback", "UPDATE mintage_sequence SET last = 0, version = 0 WHERE name = 'orders'");
    let store = open_as(&url, "web-1").await;
    let again = store.allocate(&orders, count(5), None).await.unwrap();
    assert_eq!((again.start, again.end), (1, 6));
    assert!(store.give_back(mintage_core::IdRange::new("orders", 3, again.end, again.version)).await.unwrap());
    let named = store.range_history("orders", 15).await.unwrap().grants;
    assert_eq!(named.iter().map(|grant| grant.instance.as_str()).collect::<Vec<_>>(), ["billing-3"]);
}

async fn old_rows_go_a_few_at_a_time(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let store = open_as(&server.database("purged"), "billing-3").await;
    let orders = Sequence::new("orders", 1_000);
    store.create(&orders).await.unwrap();
    let range = store.allocate(&orders, count(1), None).await.unwrap();
    let now_ms = store.range_history("orders", range.start).await.unwrap().grants[0].at_ms;
    // One more is old, one is not yet, by a minute; and those of another sequence are its own.
    let old = |nth: u64| format!("('orders', {nth}, {nth}, 1, 'gone', {})", now_ms - HISTORY_KEPT_MS - 1);
    let mut rows: Vec<String> = (0..150).map(old).collect();
    rows.push(format!("('orders', 900, 900, 1, 'kept', {})", now_ms - HISTORY_KEPT_MS + 60_000));
    rows.push("('others', 1, 1, 1, 'kept', 1)".to_owned());
    let insert = "INSERT INTO mintage_range (sequence, first, last, version, instance, at_ms) VALUES ";
    server.sql("purged", &format!("{insert}{}", rows.join(", ")));
    let left = || server.sql("purged", "SELECT count(*) FROM mintage_range WHERE instance = 'gone'");
    for expected in ["50", "0", "0"] {
        store.allocate(&orders, count(1), None).await.unwrap();
        assert_eq!(left(), expected);
    }
    assert_eq!(server.sql("purged", "SELECT count(*) FROM mintage_range WHERE instance = 'kept'"), "2");
}

/// The tables are there but that of the history, and the user may make none: ids go on, the operator is told what to run, and then
/// history is kept.
async fn a_database_of_before_goes_on_without(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let root = server.database("older");
    let dialect = Dialect::of_url(&root).unwrap();
    match kind {
        Kind::Postgres => server.sql("older", "CREATE USER mintage"),
        Kind::MariaDb => server.sql("older", "CREATE USER mintage; GRANT USAGE ON older.* TO mintage"),
    };
    server.sql("older", dialect.ddl());
    server.sql("older", dialect.grants());
    server.sql("older", "DROP TABLE mintage_range");
    let url = {
        let (scheme, rest) = root.split_once("://").unwrap();
        format!("{scheme}://mintage@{}", rest.split_once('@').unwrap().1)
    };
    let orders = Sequence::new("orders", 1);
    let store = open_as(&url, "billing-3").await;
    let trouble = store.history_trouble().unwrap();
    assert!(trouble.contains("mintage_range") && trouble.contains("mintage store ddl"), "{trouble}");
    store.create(&orders).await.unwrap();
    let first = store.allocate(&orders, count(10), None).await.unwrap();
    assert!(store.give_back(first).await.unwrap());
    store.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!(store.range_history("orders", 5).await.unwrap().lack, Some(trouble.clone()));

    // Made, but this user may not use it.
    server.sql("older", dialect.range_ddl());
    server.sql("older", "REVOKE INSERT ON mintage_range FROM mintage");
    let store = open_as(&url, "billing-3").await;
    assert_eq!(store.history_trouble(), Some(trouble));
    store.allocate(&orders, count(10), None).await.unwrap();

    server.sql("older", dialect.grants());
    let store = open_as(&url, "billing-3").await;
    assert_eq!(store.history_trouble(), None);
    let range = store.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!(store.range_history("orders", 5).await.unwrap().grants, [], "cut before there was a history");
    assert_eq!(store.range_history("orders", range.start).await.unwrap().grants.len(), 1);
    // A tail of a range that was cut before is taken back, and nothing is there to be shortened.
    let old = mintage_core::IdRange::new("orders", range.start, range.end, range.version);
    assert!(store.give_back(old).await.unwrap());
}

async fn a_user_who_may_make_tables_makes_it(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("upgraded");
    let orders = Sequence::new("orders", 1);
    open(&url).await.create(&orders).await.unwrap();
    server.sql("upgraded", "DROP TABLE mintage_range");
    // Several at once, as when a fleet starts with the new version.
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let url = url.clone();
        opening.spawn(async move { DatabaseStore::open(&url, PATIENCE).await.map(|store| store.history_trouble()) });
    }
    let troubles = opening.join_all().await;
    assert!(troubles.iter().all(|trouble| matches!(trouble, Ok(None))), "{troubles:?}");
    let store = open(&url).await;
    store.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!(store.range_history("orders", 5).await.unwrap().grants.len(), 1);
}
