//! What is MySQL's and MariaDB's own.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Row as _, TypeInfo,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow},
    query::Query,
};

use super::{
    error::{Fault, Meaning},
    read::{self, Cell, Row},
    session::Value,
};

/// How long a connection may lie idle before the server closes it, in seconds: a client whose machine died inside a
/// transaction holds its locks no longer.
const IDLE_S_MAX: u64 = 60;

/// The clock and the server's identity. A crash loses commits unless the log is flushed at each, and, where a binary log is
/// written, unless that is too: without these each start is a life of its own. `NOW()` and `Uptime` are counted from the same
/// instant, the start of the statement, so their difference is the start of the server, to the second and for its whole life.
macro_rules! moment {
    ($server:literal, $keeps:literal, $status:literal) => {
        concat!(
            "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS now_ms,
                    CONCAT(",
            $server,
            ", IF(",
            $keeps,
            ", '',
                  CONCAT('/', (SELECT UNIX_TIMESTAMP(NOW()) - CAST(variable_value AS SIGNED) FROM ",
            $status,
            " WHERE variable_name = 'Uptime')))) AS incarnation"
        )
    };
}

const MYSQL: &str = moment!(
    "@@server_uuid",
    "@@innodb_flush_log_at_trx_commit = 1 AND (@@log_bin = 0 OR @@sync_binlog = 1)",
    "performance_schema.global_status"
);
const MARIADB: &str = moment!(
    "@@server_uid",
    "@@innodb_flush_log_at_trx_commit = 1 AND (@@log_bin = 0 OR @@sync_binlog = 1)",
    "information_schema.global_status"
);
/// A MariaDB before 10.6.19, 10.11.9 and so on has no name of its own: two containers are both `mariadb:3306`, with one server id.
/// So each start is a life of its own there, which two servers do not share.
const MARIADB_NAMELESS: &str =
    moment!("@@hostname, ':', @@port, '/', @@server_id", "FALSE", "information_schema.global_status");

pub(super) struct MySqlSession {
    connection: MySqlConnection,
    moment: &'static str,
}

impl MySqlSession {
    pub(super) async fn end(self) {
        // What has gone already needs no leave.
        let _ = self.connection.close().await;
    }

    pub(super) async fn open(options: &MySqlConnectOptions, wait_ms: u64) -> Result<Self, Fault> {
        let mut session = Self { connection: options.connect().await?, moment: MYSQL };
        // Strict, or names that are too long would be cut off and become one.
        let settings = format!(
            "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES'), autocommit = 1, \
             innodb_lock_wait_timeout = {}, wait_timeout = {IDLE_S_MAX}",
            wait_ms.div_ceil(1_000).max(1)
        );
        sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut session.connection).await?;
        session.batch("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".into()).await?;
        session.moment = moment_of(&mut session.connection).await?;
        Ok(session)
    }

    pub(super) fn moment(&self) -> &'static str {
        self.moment
    }

    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        self.batch("START TRANSACTION READ WRITE".into()).await
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

pub(super) async fn run(connection: &mut MySqlConnection, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
    Ok(bound(sql, values).execute(connection).await?.rows_affected())
}

pub(super) async fn fetch(
    connection: &mut MySqlConnection,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Fault> {
    let rows = bound(sql, values).fetch_all(connection).await?;
    rows.iter().map(row).collect()
}

/// The statement that tells the clock and the identity of the server behind `connection`.
pub(super) async fn moment_of(connection: &mut MySqlConnection) -> Result<&'static str, Fault> {
    let names = "SHOW VARIABLES WHERE Variable_name IN ('server_uid', 'server_uuid')";
    let names = fetch(connection, names, &[]).await?;
    let names: Vec<String> = names.iter().map(|row| read::text(row, "Variable_name")).collect::<Result<_, _>>()?;
    Ok(match names.first().map(String::as_str) {
        Some("server_uuid") => MYSQL,
        Some(_) => MARIADB,
        None => MARIADB_NAMELESS,
    })
}

/// `?` for `?1`, and which value each stands for, from 0.
pub(super) fn spelled(sql: &str) -> (String, Vec<usize>) {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut order = Vec::new();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = part.strip_suffix(rest).and_then(|digits| digits.parse::<usize>().ok());
        order.push(number.unwrap_or_default().saturating_sub(1));
        text.push('?');
        text.push_str(rest);
    }
    (text, order)
}

pub(super) fn in_order<'a>(order: &[usize], values: &[Value<'a>]) -> Vec<Value<'a>> {
    order.iter().filter_map(|nth| values.get(*nth).cloned()).collect()
}

/// What an error number asks for: <https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html>.
pub(super) fn meaning(number: u16) -> Meaning {
    match number {
        // Deadlock, lock wait timeout, and a wait that was ended to break a chain of them.
        1213 | 1205 | 3572 => Meaning::Conflict,
        // Too many connections.
        1040 | 1203 => Meaning::NotNow,
        // Shut down or killed. It may have come after a commit.
        1053 | 1077 | 1317 | 1927 => Meaning::Cut,
        1290 | 1792 | 1836 => Meaning::ReadOnly,
        1045 | 1698 | 1251 | 1130 | 1862 => Meaning::Login,
        1049 => Meaning::NoDatabase,
        1044 | 1142 | 1143 | 1227 => Meaning::Forbidden,
        1021 | 1114 => Meaning::Full,
        1406 | 1366 | 1264 | 1292 => Meaning::Unfit,
        // A table or column that is not there; a key or a check that is broken.
        1146 | 1054 | 1062 | 1048 | 3819 | 4025 | 1364 => Meaning::Tables,
        _ => Meaning::Other,
    }
}

fn bound(sql: &str, values: &[Value<'_>]) -> Query<'static, sqlx::MySql, MySqlArguments> {
    values.iter().fold(sqlx::query(AssertSqlSafe(sql.to_owned())), |query, value| match value {
        Value::Number(number) => query.bind(*number),
        Value::Text(text) => query.bind((*text).to_owned()),
        Value::Bytes(bytes) => query.bind(bytes.clone()),
    })
}

fn row(row: &MySqlRow) -> Result<Row, Fault> {
    let mut cells = Vec::with_capacity(row.columns().len());
    for column in row.columns() {
        let at = column.ordinal();
        let cell = match column.type_info().name() {
            "BIGINT" | "INT" => row.try_get::<Option<i64>, _>(at)?.map(Cell::Number),
            _ => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Cell::Bytes),
        };
        cells.push((column.name().to_owned(), cell));
    }
    Ok(Row::new(cells))
}

#[cfg(test)]
mod tests {
    use mintage_servers_for_tests::MariaDb;
    use sqlx::Connection;

    use super::*;

    #[test]
    fn numbered_parameters_are_repeated_in_order() {
        let (sql, order) = spelled("SELECT ?2, greatest(a, ?10) FROM t WHERE b = ?2 AND c = ?1");
        assert_eq!(sql, "SELECT ?, greatest(a, ?) FROM t WHERE b = ? AND c = ?");
        assert_eq!(order, [1, 9, 1, 0]);
        assert_eq!(spelled("COMMIT"), ("COMMIT".to_owned(), Vec::new()));
    }

    /// The server here has a name; the statement for those that have none runs on it all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_without_a_name_lives_anew_with_each_start() {
        let Some(server) = MariaDb::start() else { return };
        let life = async || {
            let mut connection = MySqlConnection::connect(server.url()).await.unwrap();
            read::text(&fetch(&mut connection, MARIADB_NAMELESS, &[]).await.unwrap()[0], "incarnation").unwrap()
        };
        let first = life().await;
        // The start is known to the second.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        assert_eq!(life().await, first);
        server.kill9();
        server.restart();
        assert_ne!(life().await, first);
    }
}
