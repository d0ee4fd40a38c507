//! What is PostgreSQL's own.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Row as _, TypeInfo,
    postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow},
    query::Query,
};

use super::{
    error::{Fault, Meaning},
    read::{Cell, Row},
    session::Value,
};

/// `clock_timestamp()` goes on inside a transaction; `now()` would be the time before the lock was waited for.
///
/// The timeline is in the first 8 digits of a WAL file's name, which any user may ask for; a promoted standby begins a new
/// one. Without `fsync` a crash loses what was committed, so there each start is a life of its own.
pub(super) const MOMENT: &str = "
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
           (SELECT system_identifier::text FROM pg_control_system())
               || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
               || CASE WHEN current_setting('fsync') = 'on' THEN ''
                       ELSE '/' || floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::text END AS incarnation";

/// For the rest of the transaction: what the server, the database or the user has it at, a commit is on disk before it is believed.
/// Stronger settings stay.
pub(super) const DURABLE: &str = "
    SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')";

pub(super) struct PostgresSession {
    connection: PgConnection,
    wait_ms: u64,
}

impl PostgresSession {
    pub(super) async fn end(self) {
        // What has gone already needs no leave.
        let _ = self.connection.close().await;
    }

    pub(super) async fn open(options: &PgConnectOptions, wait_ms: u64) -> Result<Self, Fault> {
        Ok(Self { connection: options.connect().await?, wait_ms })
    }

    /// Settings last for the transaction only, so that they pass through a pooler.
    ///
    /// * [`DURABLE`].
    /// * `statement_timeout` off: cutting a COMMIT that waits for a standby makes it a success that only this server knows of.
    /// * A client whose machine died inside a transaction holds its locks no longer than a call may take.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        let wait_ms = self.wait_ms;
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
             SET LOCAL statement_timeout = 0;
             SET LOCAL lock_timeout = {wait_ms};
             SET LOCAL idle_in_transaction_session_timeout = {wait_ms};
             {DURABLE}"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
        Ok(())
    }

    pub(super) async fn batch(&mut self, sql: Cow<'static, str>) -> Result<(), Fault> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
        Ok(())
    }

    pub(super) async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        run(&mut self.connection, sql, values).await
    }

    pub(super) async fn fetch(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        fetch(&mut self.connection, sql, values).await
    }
}

pub(super) async fn run(connection: &mut PgConnection, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
    Ok(bound(sql, values).execute(connection).await?.rows_affected())
}

pub(super) async fn fetch(connection: &mut PgConnection, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
    let rows = bound(sql, values).fetch_all(connection).await?;
    rows.iter().map(row).collect()
}

/// `$1` for `?1`.
pub(super) fn spelled(sql: &str) -> String {
    sql.replace('?', "$")
}

/// What an SQLSTATE asks for: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
pub(super) fn meaning(code: &str) -> Meaning {
    match code {
        // Serialization failure, deadlock, lock timeout.
        "40001" | "40P01" | "55P03" => Meaning::Conflict,
        // Too many connections, starting up.
        "53300" | "57P03" => Meaning::NotNow,
        // Ended by an administrator or a crash of another connection. It may have come after a commit.
        "57P01" | "57P02" | "40003" => Meaning::Cut,
        code if code.starts_with("08") => Meaning::Cut,
        "25006" => Meaning::ReadOnly,
        // Wrong password, no such user or no line in pg_hba.conf.
        "28P01" | "28000" => Meaning::Login,
        "3D000" => Meaning::NoDatabase,
        "42501" => Meaning::Forbidden,
        "53100" => Meaning::Full,
        code if code.starts_with("22") => Meaning::Unfit,
        code if code.starts_with("23") || code.starts_with("42") => Meaning::Tables,
        _ => Meaning::Other,
    }
}

fn bound(sql: &str, values: &[Value<'_>]) -> Query<'static, sqlx::Postgres, PgArguments> {
    values.iter().fold(sqlx::query(AssertSqlSafe(sql.to_owned())), |query, value| match value {
        Value::Number(number) => query.bind(*number),
        Value::Text(text) => query.bind((*text).to_owned()),
        Value::Bytes(bytes) => query.bind(bytes.clone()),
    })
}

fn row(row: &PgRow) -> Result<Row, Fault> {
    let mut cells = Vec::with_capacity(row.columns().len());
    for column in row.columns() {
        let at = column.ordinal();
        let cell = match column.type_info().name() {
            "INT8" => row.try_get::<Option<i64>, _>(at)?.map(Cell::Number),
            "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Cell::Bytes),
            _ => row.try_get::<Option<String>, _>(at)?.map(|text| Cell::Bytes(text.into_bytes())),
        };
        cells.push((column.name().to_owned(), cell));
    }
    Ok(Row::new(cells))
}
