//! Rows that something else wrote or deleted.

use std::sync::Arc;

use mintage_backends::DatabaseStore;
use mintage_core::{
    FormatStore, LeaseStore, RangeStore, Sequence, StoreError, StoreErrorKind, SystemClock, TokenRow, TokenStore,
    plugin::Address,
};

use crate::{Kind, PATIENCE, Server, claim, claim_in_time, count, holder, on_both, open, pool, terms};

on_both!(
    a_deleted_row_is_not_made_again,
    senseless_values_are_not_believed,
    a_deleted_worker_id_keeps_its_floor,
    reading_makes_nothing,
    a_newer_schema_is_left_alone,
    names_fit_or_are_refused
);

fn kind_of<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> StoreErrorKind {
    answer.unwrap_err().kind()
}

async fn a_deleted_row_is_not_made_again(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("deleted");
    let store = open(&url).await;
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..4));
    store.create(&orders).await.unwrap();
    let lease = claim(&store, &main, 1).await.unwrap();
    server.sql("deleted", "DELETE FROM mintage_sequence WHERE name <> '*'");
    assert_eq!(kind_of(store.allocate(&orders, count(1), None).await), StoreErrorKind::Refused);
    server.sql("deleted", "DELETE FROM mintage_worker");
    assert_eq!(kind_of(store.renew(&lease, &holder(1), &terms()).await), StoreErrorKind::Fenced);
    server.sql("deleted", "DELETE FROM mintage_pool");
    assert_eq!(kind_of(store.renew(&lease, &holder(1), &terms()).await), StoreErrorKind::Fenced);
    assert_eq!(kind_of(claim(&store, &main, 2).await), StoreErrorKind::RolledBack, "this process was granted from it");
    server.sql("deleted", "DELETE FROM mintage_schema");
    assert_eq!(kind_of(DatabaseStore::open(&url, PATIENCE).await), StoreErrorKind::Corrupt);
    server.sql("deleted", "DROP TABLE mintage_format");
    assert_eq!(kind_of(store.pinned("orders").await), StoreErrorKind::Corrupt);
}

/// The history of grants remembers what the row did.
async fn a_deleted_worker_id_keeps_its_floor(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("floors");
    let main = pool("main", 0..4);
    let store = open(&url).await;
    let leases = [claim(&store, &main, 1).await.unwrap(), claim(&store, &main, 2).await.unwrap()];
    let longer = store.renew(&leases[0], &holder(1), &terms()).await.unwrap();
    server.sql("floors", "DELETE FROM mintage_worker");
    // What an operator does with it makes no id of it that nobody used.
    LeaseStore::revoke(&store, &main, 0).await.unwrap();
    store.free(&main, 0).await.unwrap();
    // A process that knows nothing of it: an id that was never claimed comes first, then those of before, above their windows.
    let other = open(&url).await;
    for (nth, worker) in [(3, 2), (4, 3)] {
        assert_eq!(claim(&other, &main, nth).await.unwrap().worker, worker);
    }
    for nth in [5, 6] {
        let after = claim_in_time(&other, &main, nth).await;
        let before = if after.worker == longer.worker { &longer } else { &leases[1] };
        assert_eq!(after.worker, before.worker);
        assert!(after.window.start >= before.window.end, "{after:?} overlaps {before:?}");
        assert!(after.fence.epoch > before.fence.epoch, "{after:?} repeats the claim of {before:?}");
    }
}

async fn reading_makes_nothing(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("unread");
    let mut address = Address::new(&url, ".", Arc::new(SystemClock));
    address.timeout_ms = 30_000;
    assert!(DatabaseStore::open_existing(&address).await.unwrap().is_none());
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'mintage%'";
    let here = match kind {
        Kind::Postgres => tables.to_owned(),
        Kind::MariaDb => format!("{tables} AND table_schema = DATABASE()"),
    };
    assert_eq!(server.sql("unread", &here), "0");
    open(&url).await;
    assert!(DatabaseStore::open_existing(&address).await.unwrap().is_some());
    server.sql("unread", "UPDATE mintage_schema SET version = 2");
    assert_eq!(kind_of(DatabaseStore::open_existing(&address).await), StoreErrorKind::Refused);
}

async fn senseless_values_are_not_believed(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let store = open(&server.database("planted")).await;
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..4));
    let plant = |table: &str, column: &str, value: &str| {
        match kind {
        Kind::Postgres => server.sql(
            "planted",
            &format!(
                "ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_{column}_check; UPDATE {table} SET {column} = {value}"
            ),
        ),
        Kind::MariaDb => {
            server.sql("planted", &format!("SET check_constraint_checks = 0; UPDATE {table} SET {column} = {value}"))
        }
    }
    };
    store.create(&orders).await.unwrap();
    for value in ["-2", "-9223372036854775808"] {
        plant("mintage_sequence", "last", value);
        assert_eq!(kind_of(store.allocate(&orders, count(1), None).await), StoreErrorKind::Corrupt, "{value}");
        assert_eq!(kind_of(store.sequences().await), StoreErrorKind::Corrupt, "{value}");
        assert_eq!(kind_of(store.raise(&orders, 5).await), StoreErrorKind::Corrupt, "{value}");
    }
    plant("mintage_sequence", "last", "5");
    assert_eq!(store.allocate(&orders, count(1), None).await.unwrap().start, 6);

    let lease = claim(&store, &main, 1).await.unwrap();
    for (table, column) in [
        ("mintage_worker", "floor_ms"),
        ("mintage_worker", "epoch"),
        ("mintage_worker", "revoked"),
        ("mintage_pool", "floor_min_ms"),
        ("mintage_pool", "inc"),
        ("mintage_pool", "window_max_ms"),
    ] {
        let before = server.sql("planted", &format!("SELECT {column} FROM {table}"));
        plant(table, column, "-1");
        assert_eq!(kind_of(store.renew(&lease, &holder(1), &terms()).await), StoreErrorKind::Corrupt, "{column}");
        if table == "mintage_pool" {
            assert_eq!(kind_of(claim(&store, &main, 2).await), StoreErrorKind::Corrupt, "{column}");
        }
        plant(table, column, &before);
        store.renew(&lease, &holder(1), &terms()).await.unwrap();
    }
    server.sql("planted", "INSERT INTO mintage_format (entity, format) VALUES ('odd', 'nonsense')");
    assert_eq!(kind_of(store.pinned("odd").await), StoreErrorKind::Corrupt);

    let mut token = TokenRow::new("api_keys", "7km1dzhm", [7; 32], 1);
    token.scopes.push("orders:read".to_owned());
    store.insert(&token).await.unwrap();
    for (column, value) in [("scopes", "'Orders'"), ("label", "'a\n'"), ("id", "'ID'"), ("issued_ms", "-1")] {
        let before = server.sql("planted", &format!("SELECT {column} FROM mintage_token"));
        plant("mintage_token", column, value);
        assert_eq!(kind_of(store.find("api_keys", &[7; 32]).await), StoreErrorKind::Corrupt, "{column}");
        assert_eq!(kind_of(store.list("api_keys").await), StoreErrorKind::Corrupt, "{column}");
        let before = if column == "label" { "" } else { before.trim() };
        plant("mintage_token", column, &format!("'{before}'"));
    }
    assert_eq!(store.find("api_keys", &[7; 32]).await.unwrap(), Some(token));
}

async fn a_newer_schema_is_left_alone(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("newer");
    open(&url).await;
    server.sql("newer", "UPDATE mintage_schema SET version = 2");
    let error = DatabaseStore::open(&url, PATIENCE).await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::Refused && error.to_string().contains("newer Mintage"), "{error}");
}

/// Two names that a database could take for one: cut off, without regard to case, or with a space more.
async fn names_fit_or_are_refused(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let store = open(&server.database("names")).await;
    for name in ["a", "A", "a ", "ä", "ae", &"n".repeat(255)] {
        let sequence = Sequence::new(name, 7);
        store.create(&sequence).await.unwrap();
        assert_eq!(store.allocate(&sequence, count(1), None).await.unwrap().start, 7, "{name:?}");
    }
    assert_eq!(store.sequences().await.unwrap().len(), 6);
    for name in ["n".repeat(256), "a\0".to_owned()] {
        assert_eq!(kind_of(store.create(&Sequence::new(name, 7)).await), StoreErrorKind::Refused);
    }
}
