//! Who gets in, with which privileges, and what the others are told.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::Arc,
    time::Duration,
};

use mintage_backends::{DatabaseStore, Dialect};
use mintage_core::{
    Format, FormatStore, IdempotencyKey, LeaseStore, RangeStore, Sequence, StoreErrorKind, SystemClock, TokenRow,
    TokenStore,
    plugin::{Address, Connected, Secret, Tls},
};
use mintage_servers_for_tests::Certificates;

use crate::{Kind, PATIENCE, Server, claim, count, holder, on_both, open, pool, terms};

on_both!(strangers_are_told_why, the_listed_privileges_are_enough, a_password_beside_the_url, encrypted);

const PASSWORD: &str = "hunter2%2F@";
/// The same in a URL.
const IN_URL: &str = "hunter2%252F%40";

/// A server whose user `mintage` needs a password.
fn with_password(kind: Kind, database: &str) -> Option<Server> {
    let server = Server::start(kind, &[])?;
    server.database(database);
    match kind {
        Kind::Postgres => {
            server.sql("postgres", &format!("CREATE USER mintage PASSWORD '{PASSWORD}'"));
            let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
            fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
            server.sql("postgres", "SELECT pg_reload_conf()");
        }
        Kind::MariaDb => {
            server.sql(database, &format!("CREATE USER mintage IDENTIFIED BY '{PASSWORD}'"));
            server.sql(database, &format!("GRANT USAGE ON {database}.* TO mintage"));
        }
    }
    Some(server)
}

fn url(kind: Kind, user: &str, port: u16, database: &str) -> String {
    let scheme = if kind == Kind::Postgres { "postgresql" } else { "mariadb" };
    format!("{scheme}://{user}@127.0.0.1:{port}/{database}")
}

async fn strangers_are_told_why(kind: Kind) {
    let Some(server) = with_password(kind, "ids") else { return };
    let root = if kind == Kind::Postgres { "postgres" } else { "root" };
    let right = format!("mintage:{IN_URL}");
    for (user, port, database, expected, advice) in [
        ("mintage:hunter3", server.port(), "ids", StoreErrorKind::Refused, "check the user and the password"),
        ("nobody:hunter2", server.port(), "ids", StoreErrorKind::Refused, "check the user and the password"),
        (root, server.port(), "nowhere", StoreErrorKind::Refused, "no database of this name"),
        (right.as_str(), 1, "ids", StoreErrorKind::Unavailable, "check the host"),
    ] {
        let error = DatabaseStore::open(&url(kind, user, port, database), PATIENCE).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{user} {database}: {error:?}");
        let told = format!("{error} {error:?}");
        assert!(told.contains(advice) && !told.contains("hunter"), "{user} {database}: {told}");
    }
    let nowhere = url(kind, root, server.port(), "ids").replace("127.0.0.1", "no-such-host.invalid");
    let error = DatabaseStore::open(&nowhere, Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

async fn the_listed_privileges_are_enough(kind: Kind) {
    let Some(server) = with_password(kind, "ids") else { return };
    if kind == Kind::MariaDb {
        // So much that the database can be used at all.
        server.sql("ids", "CREATE TABLE other (n int); GRANT SELECT ON ids.other TO mintage");
    }
    let url = url(kind, &format!("mintage:{IN_URL}"), server.port(), "ids");
    let dialect = Dialect::of_url(&url).unwrap();
    let error = DatabaseStore::open(&url, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    let told = error.to_string();
    assert!(told.contains(dialect.ddl()) && told.contains(dialect.grants()) && !told.contains("hunter"), "{told}");

    server.sql("ids", dialect.ddl());
    server.sql("ids", dialect.grants());
    let store = open(&url).await;
    assert_eq!(store.dialect(), dialect);
    let told = format!("{store:?}");
    assert!(told.contains("mintage@127.0.0.1") && !told.contains("hunter"), "{told}");
    let (orders, main) = (Sequence::new("orders", 1), pool("main", 0..4));
    store.pin("orders", &Format::of("segment")).await.unwrap();
    store.pin("orders", &Format::of("segment").growing("version.1", "aa")).await.unwrap();
    store.pinned("orders").await.unwrap();
    let token = TokenRow::new("api_keys", "7km1dzhm", [7; 32], 1);
    store.insert(&token).await.unwrap();
    assert!(TokenStore::revoke(&store, &token.entity, &token.id, 2).await.unwrap());
    assert_eq!(store.list(&token.entity).await.unwrap().len(), 1);
    assert_eq!(store.prune(&token.entity, 2).await.unwrap(), 1);
    store.create(&orders).await.unwrap();
    let key = IdempotencyKey::new("once").unwrap();
    store.allocate(&orders, count(5), Some(&key)).await.unwrap();
    let range = store.allocate(&orders, count(5), None).await.unwrap();
    assert!(store.give_back(range).await.unwrap());
    store.raise(&orders, 100).await.unwrap();
    let lease = claim(&store, &main, 1).await.unwrap();
    let lease = store.renew(&lease, &holder(1), &terms()).await.unwrap();
    let start_ms = lease.window.start;
    store.release(lease, start_ms, &terms()).await.unwrap();
    LeaseStore::revoke(&store, &main, 3).await.unwrap();
    store.free(&main, 3).await.unwrap();
    store.bump(&main).await.unwrap();
    assert_eq!(store.leases(&main).await.unwrap().len(), 2);
    store.history(&main, start_ms).await.unwrap();
    assert_eq!(store.sequences().await.unwrap().len(), 1);
}

fn address(url: &str) -> Address {
    let mut address = Address::new(url, ".", Arc::new(SystemClock));
    address.timeout_ms = 20_000;
    address
}

async fn a_password_beside_the_url(kind: Kind) {
    let Some(server) = with_password(kind, "ids") else { return };
    let dialect = Dialect::of_url(&url(kind, "mintage", server.port(), "ids")).unwrap();
    server.sql("ids", dialect.ddl());
    server.sql("ids", dialect.grants());
    let mut address = address(&url(kind, "mintage", server.port(), "ids"));
    for password in [None, Some("hunter3")] {
        address.password = password.map(Secret::new);
        let error = DatabaseStore::open_at(&address).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error:?}");
        let told = format!("{error} {error:?} {address:?}");
        assert!(!told.contains("hunter"), "{told}");
    }
    address.password = Some(Secret::new(PASSWORD));
    let store = DatabaseStore::open_at(&address).await.unwrap();
    claim(&store, &pool("main", 0..4), 1).await.unwrap();
    assert!(DatabaseStore::open_existing(&address).await.unwrap().is_some());
    let told = format!("{store:?} {address:?}");
    assert!(!told.contains("hunter"), "{told}");
}

/// The server proves who it is to whoever trusts its authority, and to nobody else.
async fn encrypted(kind: Kind) {
    let Some(certificates) = Certificates::make() else { return };
    let (certificate, key) = (certificates.certificate(), certificates.key());
    // PostgreSQL takes them later, MariaDB at its start only.
    let settings = match kind {
        Kind::Postgres => Vec::new(),
        Kind::MariaDb => vec![format!("ssl-cert={}", certificate.display()), format!("ssl-key={}", key.display())],
    };
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = Server::start(kind, &settings) else { return };
    // The server reads its key as a user of its own, so the files are its own as well.
    for (from, name) in [(&certificate, "tls.pem"), (&key, "tls.key")] {
        let to = server.data_dir().join(name);
        fs::copy(from, &to).unwrap();
        let owner = fs::metadata(server.data_dir()).unwrap();
        std::os::unix::fs::chown(&to, Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
    }
    if kind == Kind::Postgres {
        for set in ["ssl_cert_file = 'tls.pem'", "ssl_key_file = 'tls.key'", "ssl = on"] {
            server.sql("postgres", &format!("ALTER SYSTEM SET {set}"));
        }
        server.sql("postgres", "SELECT pg_reload_conf()");
    }
    let root = if kind == Kind::Postgres { "postgres" } else { "root" };
    server.database("ids");
    let mut address = address(&url(kind, root, server.port(), "ids"));
    address.timeout_ms = 5_000;
    address.tls = Some(Tls::trusting(Some(certificates.authority())));
    let mut store = DatabaseStore::open_at(&address).await;
    // A reload takes effect a moment later.
    for _ in 0..50 {
        if store.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        store = DatabaseStore::open_at(&address).await;
    }
    claim(&store.unwrap(), &pool("main", 0..4), 1).await.unwrap();
    address.tls = Some(Tls::default());
    let error = DatabaseStore::open_at(&address).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Refused), "{error:?}");
}

/// A server writes a warning into its log about each client that just goes.
#[tokio::test]
async fn a_store_that_is_closed_takes_leave() {
    let Some(server) = Server::start(Kind::MariaDb, &[]) else { return };
    let store = open(&server.database("house")).await;
    store.create(&Sequence::new("orders", 1)).await.unwrap();
    store.disconnect().await;
    let aborted = "SHOW GLOBAL STATUS LIKE 'Aborted_clients'";
    assert_eq!(server.sql("house", aborted).split_whitespace().last(), Some("0"));
    // It is the connection that has ended, not the store.
    store.create(&Sequence::new("events", 1)).await.unwrap();
}
