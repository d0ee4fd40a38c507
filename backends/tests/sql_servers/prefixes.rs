//! Two installations in one database, told apart by what their tables are called.

use std::sync::Arc;

use mintage_backends::{DatabaseStore, Dialect, MySqlFactory, PostgresFactory};
use mintage_core::{
    Format, FormatStore, GaplessStore, LeaseStore, RangeStore, Reservation, Sequence, StoreErrorKind, SystemClock,
    TablePrefix, TokenRow, TokenStore,
    plugin::{Address, BackendFactory},
};

use crate::{Kind, Server, claim, count, holder, on_both, pool, terms};

on_both!(neither_sees_the_other, the_longest_prefix_is_not_cut_off, a_stranger_is_told_the_names);

fn longest() -> String {
    format!("{}_", "a".repeat(TablePrefix::LEN_MAX - 1))
}

fn address(url: &str, prefix: &str) -> Address {
    let mut address = Address::new(url, ".", Arc::new(SystemClock));
    address.timeout_ms = 30_000;
    address.tables = TablePrefix::new(prefix).unwrap();
    address
}

async fn at(url: &str, prefix: &str) -> DatabaseStore {
    DatabaseStore::open_at(&address(url, prefix)).await.unwrap()
}

/// The tables and indexes of the database that begin with `prefix`.
fn names(kind: Kind, server: &Server, database: &str, prefix: &str) -> Vec<String> {
    let sql = match kind {
        Kind::Postgres => format!(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND left(relname, {}) = '{prefix}' \
             ORDER BY relname",
            prefix.len()
        ),
        Kind::MariaDb => format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND \
             left(table_name, {0}) = '{prefix}' UNION SELECT index_name FROM information_schema.statistics WHERE \
             table_schema = DATABASE() AND left(index_name, {0}) = '{prefix}' ORDER BY 1",
            prefix.len()
        ),
    };
    server.sql(database, &sql).lines().map(|name| name[prefix.len()..].to_owned()).collect()
}

async fn neither_sees_the_other(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("prefixes");
    let ours = at(&url, "billing_ids_").await;
    assert!(names(kind, server, "prefixes", "mintage_").is_empty(), "no table under the usual name");
    // One that begins like the usual one, which statements are written with.
    let (theirs, usual) = (at(&url, "mintage_two_").await, at(&url, "mintage_").await);
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..4));
    for store in [&ours, &theirs, &usual] {
        assert_eq!(store.sequences().await.unwrap(), []);
        store.create(&orders).await.unwrap();
        let range = store.allocate(&orders, count(5), None).await.unwrap();
        assert_eq!((range.start, range.end), (1, 6), "the first to ask");
        assert!(store.give_back(range).await.unwrap());
        store.raise(&orders, 100).await.unwrap();
        assert_eq!(claim(store, &main, 1).await.unwrap().worker, 0);
        let lease = claim(store, &main, 2).await.unwrap();
        assert_eq!(lease.worker, 1);
        let lease = store.renew(&lease, &holder(2), &terms()).await.unwrap();
        let start_ms = lease.window.start;
        store.release(lease, start_ms, &terms()).await.unwrap();
        LeaseStore::revoke(store, &main, 3).await.unwrap();
        store.free(&main, 3).await.unwrap();
        assert_eq!(store.history(&main, start_ms).await.unwrap().len(), 1);
        assert!(store.pinned("orders").await.unwrap().is_none());
        store.pin("orders", &Format::of("segment")).await.unwrap();
        let token = TokenRow::new("api_keys", "7km1dzhm", [7; 32], 1);
        assert!(store.find("api_keys", &token.hash).await.unwrap().is_none());
        store.insert(&token).await.unwrap();
        GaplessStore::prepare(store).await.unwrap();
        let none: Vec<Reservation> = store.reservations("orders").await.unwrap();
        assert!(none.is_empty());
    }
    ours.raise(&orders, 900).await.unwrap();
    ours.bump(&main).await.unwrap();
    assert_eq!(theirs.sequence("orders").await.unwrap().unwrap().next, 100);
    assert_eq!(at(&url, "billing_ids_").await.sequence("orders").await.unwrap().unwrap().next, 900);
    assert!(DatabaseStore::open_existing(&address(&url, "nobody_")).await.unwrap().is_none());
}

async fn the_longest_prefix_is_not_cut_off(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("longest");
    let store = at(&url, &longest()).await;
    at(&url, "mintage_").await;
    GaplessStore::prepare(&store).await.unwrap();
    GaplessStore::prepare(&at(&url, "mintage_").await).await.unwrap();
    let usual = names(kind, server, "longest", "mintage_");
    assert!(usual.len() >= 12, "{usual:?}");
    assert_eq!(names(kind, server, "longest", &longest()), usual);
}

/// Whoever may not make tables is shown the statements with the right names, and these are enough.
async fn a_stranger_is_told_the_names(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    server.database("ids");
    let scheme = match kind {
        Kind::Postgres => {
            server.sql("ids", "CREATE USER mintage");
            "postgres"
        }
        Kind::MariaDb => {
            server.sql("ids", "CREATE USER mintage; CREATE TABLE other (n int); GRANT SELECT ON ids.other TO mintage");
            "mysql"
        }
    };
    let url = format!("{scheme}://mintage@127.0.0.1:{}/ids", server.port());
    let factory: Box<dyn BackendFactory> = match kind {
        Kind::Postgres => Box::new(PostgresFactory::all()[0]),
        Kind::MariaDb => Box::new(MySqlFactory::all()[0]),
    };
    let prefix = TablePrefix::new("billing_ids_").unwrap();
    let (ddl, grants) = (factory.ddl(&prefix).unwrap(), factory.grants(&prefix).unwrap());
    assert!(!ddl.contains("mintage_") && !grants.contains("mintage_"), "{ddl}\n{grants}");
    let error = factory.open(&address(&url, prefix.as_str())).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains(&ddl) && error.to_string().contains(&grants), "{error}");
    server.sql("ids", &ddl);
    server.sql("ids", &grants);
    let store = at(&url, prefix.as_str()).await;
    claim(&store, &pool("main", 0..4), 1).await.unwrap();
    assert_eq!(Dialect::of_url(&url), Some(store.dialect()));
}
