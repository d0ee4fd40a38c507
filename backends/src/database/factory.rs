//! How the stores on database servers enter the catalog.

use std::sync::Arc;

use async_trait::async_trait;
use mintage_core::{
    StoreError, TablePrefix, Vitals,
    plugin::{Address, Backend, BackendFactory, Connected},
};

use super::{DatabaseStore, Dialect, target::Target};

/// Ranges, leases, formats and tokens in PostgreSQL, for many machines; survives crashes with `fsync = on` (`synchronous_commit` is raised to `on` for each of its transactions); loses nothing to a failover with quorum replication, and without it worker ids rest after one and sequences stop until raised.
///
/// Quorum replication is `synchronous_standby_names`. Without it a promoted standby may lack the last commits. That is noticed: leases
/// go on above all that can have been granted, and each sequence stops until it was raised.
#[cfg(feature = "postgres")]
#[derive(Clone, Copy, Debug)]
pub struct PostgresFactory {
    scheme: &'static str,
}

#[cfg(feature = "postgres")]
impl PostgresFactory {
    /// One for each way to write the URL: `postgres:` and `postgresql:`.
    pub fn all() -> [Self; 2] {
        [Self { scheme: "postgres" }, Self { scheme: "postgresql" }]
    }
}

/// Ranges, leases, formats and tokens in MySQL or MariaDB, for many machines; survives crashes with `innodb_flush_log_at_trx_commit = 1` and `sync_binlog = 1`; loses nothing to a failover with semi-synchronous replication that never falls back, and without it worker ids rest after one and sequences stop until raised.
///
/// A replica that takes over may lack the last commits. That is noticed: leases go on above all that can have been granted, and
/// each sequence stops until it was raised.
#[cfg(feature = "mysql")]
#[derive(Clone, Copy, Debug)]
pub struct MySqlFactory {
    scheme: &'static str,
}

#[cfg(feature = "mysql")]
impl MySqlFactory {
    /// One for each way to write the URL: `mysql:` and `mariadb:`.
    pub fn all() -> [Self; 2] {
        [Self { scheme: "mysql" }, Self { scheme: "mariadb" }]
    }
}

#[cfg(feature = "postgres")]
#[async_trait]
impl BackendFactory for PostgresFactory {
    fn url_scheme(&self) -> &'static str {
        self.scheme
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases, formats and tokens in PostgreSQL, for many machines; survives crashes with `fsync = on` (`synchronous_commit` is raised to `on` for each of its transactions); loses nothing to a failover with quorum replication, and without it worker ids rest after one and sequences stop until raised."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Target::of(url).map(drop)
    }

    fn keeps_gapless(&self) -> bool {
        true
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        Ok(backend(DatabaseStore::open_at(address).await?))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        Ok(DatabaseStore::open_existing(address).await?.map(backend))
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        init(address).await
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        DatabaseStore::vitals(address).await
    }

    fn ddl(&self, tables: &TablePrefix) -> Option<String> {
        Some(tables.apply(Dialect::Postgres.ddl()).into_owned())
    }

    fn grants(&self, tables: &TablePrefix) -> Option<String> {
        Some(tables.apply(Dialect::Postgres.grants()).into_owned())
    }

    fn has_tables(&self) -> bool {
        true
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        cfg!(feature = "tls")
    }
}

#[cfg(feature = "mysql")]
#[async_trait]
impl BackendFactory for MySqlFactory {
    fn url_scheme(&self) -> &'static str {
        self.scheme
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases, formats and tokens in MySQL or MariaDB, for many machines; survives crashes with `innodb_flush_log_at_trx_commit = 1` and `sync_binlog = 1`; loses nothing to a failover with semi-synchronous replication that never falls back, and without it worker ids rest after one and sequences stop until raised."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Target::of(url).map(drop)
    }

    fn keeps_gapless(&self) -> bool {
        true
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        Ok(backend(DatabaseStore::open_at(address).await?))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        Ok(DatabaseStore::open_existing(address).await?.map(backend))
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        init(address).await
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        DatabaseStore::vitals(address).await
    }

    fn ddl(&self, tables: &TablePrefix) -> Option<String> {
        Some(tables.apply(Dialect::MySql.ddl()).into_owned())
    }

    fn grants(&self, tables: &TablePrefix) -> Option<String> {
        Some(tables.apply(Dialect::MySql.grants()).into_owned())
    }

    fn has_tables(&self) -> bool {
        true
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        cfg!(feature = "tls")
    }
}

fn backend(store: DatabaseStore) -> Backend {
    let store = Arc::new(store);
    Backend::shared(&store).with_tokens(store.clone()).with_gapless(store.clone()).with_connections(store)
}

/// Also makes the table that a database of before lacks, where this user may.
async fn init(address: &Address) -> Result<bool, StoreError> {
    let was_there = DatabaseStore::open_existing(address).await?.is_some();
    DatabaseStore::open_at(address).await?.disconnect().await;
    Ok(!was_there)
}
