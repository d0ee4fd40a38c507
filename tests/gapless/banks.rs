//! A database with a table of invoices, of each kind.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use mintage::GaplessDatabase;
use mintage_servers_for_tests::{MariaDb, Postgres};
use sqlx::{MySql, Pool, Sqlite, Transaction};

/// Connections of a pool: more than any crowd here.
const CONNECTIONS_MAX: u32 = 20;

pub(crate) trait Bank: Clone + Send + Sync + 'static {
    type D: GaplessDatabase;

    /// A fresh database with an empty table; `None` where the server is not installed.
    async fn open() -> Option<Self>;

    /// As the config names it.
    fn url(&self) -> String;

    fn begin(&self) -> impl Future<Output = Transaction<'static, Self::D>> + Send;

    /// As the row of an invoice.
    fn insert(tx: &mut Transaction<'_, Self::D>, text: &str) -> impl Future<Output = ()> + Send;

    /// What was committed, in order.
    async fn rows(&self) -> Vec<String>;

    /// Runs statements behind everybody's back.
    async fn sql(&self, sql: &'static str);
}

/// Each test has a database of its own.
fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("bank_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

macro_rules! bank {
    ($name:ident, $database:ty, $insert:literal, $begin:expr) => {
        #[derive(Clone)]
        pub(crate) struct $name {
            pub(crate) url: String,
            pub(crate) pool: Pool<$database>,
            #[expect(dead_code, reason = "kept until the end")]
            folder: Option<std::sync::Arc<tempfile::TempDir>>,
        }

        impl Bank for $name {
            type D = $database;

            async fn open() -> Option<Self> {
                let bank = Self::connect().await?;
                bank.sql("CREATE TABLE invoices (number VARCHAR(100) PRIMARY KEY)").await;
                Some(bank)
            }

            fn url(&self) -> String {
                self.url.clone()
            }

            async fn begin(&self) -> Transaction<'static, $database> {
                self.pool.begin_with($begin).await.unwrap()
            }

            async fn insert(tx: &mut Transaction<'_, $database>, text: &str) {
                sqlx::query($insert).bind(text.to_owned()).execute(&mut **tx).await.unwrap();
            }

            async fn rows(&self) -> Vec<String> {
                sqlx::query_scalar("SELECT number FROM invoices ORDER BY number").fetch_all(&self.pool).await.unwrap()
            }

            async fn sql(&self, sql: &'static str) {
                sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
            }
        }
    };
}

bank!(OnSqlite, Sqlite, "INSERT INTO invoices (number) VALUES (?)", "BEGIN");
bank!(OnPostgres, sqlx::Postgres, "INSERT INTO invoices (number) VALUES ($1)", "BEGIN");
bank!(OnMariaDb, MySql, "INSERT INTO invoices (number) VALUES (?)", "BEGIN");

impl OnSqlite {
    async fn connect() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bank.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
            .synchronous(sqlx::sqlite::SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(60));
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).connect_with(options);
        let url = format!("sqlite:{}", path.display());
        Some(Self { url, pool: pool.await.unwrap(), folder: Some(std::sync::Arc::new(folder)) })
    }
}

impl OnPostgres {
    async fn connect() -> Option<Self> {
        static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
        let server = SERVER.get_or_init(|| Postgres::start_with(&["max_connections=400"])).as_ref()?;
        let url = server.database(&fresh_name());
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(CONNECTIONS_MAX).connect(&url);
        Some(Self { pool: pool.await.unwrap(), url, folder: None })
    }
}

impl OnMariaDb {
    async fn connect() -> Option<Self> {
        static SERVER: OnceLock<Option<MariaDb>> = OnceLock::new();
        let server = SERVER.get_or_init(|| MariaDb::start_with(&["max-connections=400"])).as_ref()?;
        let url = server.database(&fresh_name());
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(CONNECTIONS_MAX).connect(&url);
        Some(Self { pool: pool.await.unwrap(), url, folder: None })
    }
}
