//! One connection to either server, behind the narrow door that the rest needs: run a statement, fetch rows.
//!
//! Statements are written once, with numbered parameters: `?1` may occur twice. Each server gets its own spelling of them.

use mintage_core::TablePrefix;

#[cfg(feature = "mysql")]
use super::mysql::{self, MySqlSession};
#[cfg(feature = "postgres")]
use super::postgres::{self, PostgresSession};
#[cfg(feature = "mysql")]
use super::range;
#[cfg(feature = "postgres")]
use super::unlisted;
use super::{error::Fault, read::Row, target::Target};

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Number(Option<i64>),
    Text(&'a str),
    Bytes(Option<Vec<u8>>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

impl From<&[u8; 32]> for Value<'_> {
    fn from(hash: &[u8; 32]) -> Self {
        Self::Bytes(Some(hash.to_vec()))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<u128>> for Value<'_> {
    fn from(token: Option<u128>) -> Self {
        Self::Bytes(token.map(|token| token.to_be_bytes().to_vec()))
    }
}

/// An open connection. Dropping it closes it, and the server takes an open transaction back.
///
/// Statements come written with `mintage_` and are changed here to what the tables are called.
pub(super) struct Session {
    link: Link,
    tables: TablePrefix,
}

enum Link {
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresSession>),
    #[cfg(feature = "mysql")]
    MySql(Box<MySqlSession>),
}

impl Session {
    pub(super) async fn open(target: &Target, tables: &TablePrefix, wait_ms: u64) -> Result<Self, Fault> {
        let link = match target {
            #[cfg(feature = "postgres")]
            Target::Postgres(options) => Link::Postgres(Box::new(PostgresSession::open(options, wait_ms).await?)),
            #[cfg(feature = "mysql")]
            Target::MySql(options) => Link::MySql(Box::new(MySqlSession::open(options, wait_ms).await?)),
        };
        Ok(Self { link, tables: tables.clone() })
    }

    /// Takes leave of the server, which writes a warning into its log about one that just goes.
    pub(super) async fn end(self) {
        match self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(session) => session.end().await,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => session.end().await,
        }
    }

    /// What the tables are called.
    pub(super) fn tables(&self) -> &TablePrefix {
        &self.tables
    }

    /// How the row is read and locked that says in which life the database was complete.
    pub(super) fn complete_in(&self) -> &'static str {
        match &self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(_) => unlisted::COMPLETE_IN_SHARED,
            // Only our own short transactions ask here: that there is one at a time saves them deadlocks.
            #[cfg(feature = "mysql")]
            Link::MySql(_) => range::LOCK,
        }
    }

    /// Opens a transaction in which each statement sees what was committed before it began.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        match &mut self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(session) => session.begin().await,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => session.begin().await,
        }
    }

    pub(super) async fn commit(&mut self) -> Result<(), Fault> {
        self.batch("COMMIT").await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), Fault> {
        self.batch("ROLLBACK").await
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&mut self, sql: &'static str) -> Result<(), Fault> {
        let sql = self.tables.apply(sql);
        match &mut self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(session) => session.batch(sql).await,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => session.batch(sql).await,
        }
    }

    /// Runs a statement and says how many rows it found.
    pub(super) async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let sql = self.tables.apply(sql);
        match &mut self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(session) => session.run(&postgres::spelled(&sql), values).await,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => {
                let (sql, order) = mysql::spelled(&sql);
                session.run(&sql, &mysql::in_order(&order, values)).await
            }
        }
    }

    pub(super) async fn fetch(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        let sql = self.tables.apply(sql);
        match &mut self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(session) => session.fetch(&postgres::spelled(&sql), values).await,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => {
                let (sql, order) = mysql::spelled(&sql);
                session.fetch(&sql, &mysql::in_order(&order, values)).await
            }
        }
    }

    /// Runs an `INSERT` that does nothing where a row with its key is there. `key` is one column of the key.
    pub(super) async fn insert_if_absent(
        &mut self,
        insert: &str,
        key: &str,
        values: &[Value<'_>],
    ) -> Result<(), Fault> {
        let sql = match &self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(_) => format!("{insert} ON CONFLICT ({key}) DO NOTHING"),
            // Not INSERT IGNORE, which ignores much more than that.
            #[cfg(feature = "mysql")]
            Link::MySql(_) => format!("{insert} ON DUPLICATE KEY UPDATE {key} = {key}"),
        };
        self.run(&sql, values).await.map(drop)
    }

    /// The server's clock, read when this is executed, and which physical server answers.
    pub(super) async fn moment(&mut self) -> Result<Row, Fault> {
        let sql = match &self.link {
            #[cfg(feature = "postgres")]
            Link::Postgres(_) => postgres::MOMENT,
            #[cfg(feature = "mysql")]
            Link::MySql(session) => session.moment(),
        };
        let rows = self.fetch(sql, &[]).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Driver(sqlx::Error::RowNotFound))
    }
}
