//! A column of numbers in somebody's SQLite database, opened to be read only.

use std::path::Path;

use mintage_core::StoreError;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Row,
    sqlite::{SqliteConnectOptions, SqliteConnection},
};

use super::error::Fault;
use crate::column::Target;

/// The largest value, and what `AUTOINCREMENT` remembers.
pub(crate) async fn largest(path: &Path, target: &Target) -> Result<Vec<Option<String>>, StoreError> {
    let read = async {
        let mut conn = open(path).await?;
        let (table, column) = (table(target), column(&target.column));
        let (filter, value) = filter(target);
        numbers_only(&mut conn, target).await?;
        let sql = format!("SELECT CAST(max({column}) AS TEXT) AS largest FROM {table} WHERE {filter}");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(value).fetch_one(&mut conn).await?;
        let mut found = vec![row.try_get("largest")?];
        let counters: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
            .fetch_one(&mut conn)
            .await?;
        if counters > 0 && target.only.is_none() {
            let name = target.table.last().cloned().unwrap_or_default();
            let counter = sqlx::query_scalar("SELECT CAST(seq AS TEXT) FROM sqlite_sequence WHERE name = ?").bind(name);
            found.push(counter.fetch_optional(&mut conn).await?.flatten());
        }
        Ok(found)
    };
    read.await.map_err(|fault: Fault| fault.reading(path))
}

/// How many numbers of `start..end` are used, and the first runs of those that are not.
pub(crate) async fn gaps(
    path: &Path,
    target: &Target,
    start: i64,
    end: i64,
    runs_max: u32,
) -> Result<(String, Vec<(String, String)>), StoreError> {
    let read = async {
        let mut conn = open(path).await?;
        let (table, column) = (table(target), column(&target.column));
        let (filter, value) = filter(target);
        numbers_only(&mut conn, target).await?;
        let used = format!(
            "SELECT CAST(count(DISTINCT {column}) AS TEXT) AS used FROM {table} \
             WHERE {column} >= ?2 AND {column} < ?3 AND {filter}"
        );
        let bound = sqlx::query(AssertSqlSafe(used)).bind(value.clone()).bind(start).bind(end);
        let used = bound.fetch_one(&mut conn).await?.try_get("used")?;
        let runs = format!(
            "SELECT CAST(prev + 1 AS TEXT) AS first, CAST(c - 1 AS TEXT) AS last FROM \
             (SELECT c, LAG(c) OVER (ORDER BY c) AS prev FROM \
              (SELECT {column} AS c FROM {table} WHERE {column} >= ?2 AND {column} < ?3 AND {filter} \
               UNION SELECT ?2 - 1 UNION SELECT ?3)) \
             WHERE c > prev + 1 ORDER BY c LIMIT {runs_max}"
        );
        let runs = sqlx::query(AssertSqlSafe(runs)).bind(value).bind(start).bind(end).fetch_all(&mut conn).await?;
        let runs = runs.iter().map(|row| Ok((row.try_get("first")?, row.try_get("last")?)));
        Ok((used, runs.collect::<Result<_, sqlx::Error>>()?))
    };
    read.await.map_err(|fault: Fault| fault.reading(path))
}

/// Texts are in the order of their letters, "2" after "17": the largest of them says nothing about numbers.
async fn numbers_only(conn: &mut SqliteConnection, target: &Target) -> Result<(), Fault> {
    let (table, column) = (table(target), column(&target.column));
    let (filter, value) = filter(target);
    // Texts come after all numbers, so one of them is the largest if there is one.
    let sql = format!("SELECT typeof(max({column})) FROM {table} WHERE {filter}");
    let largest: String = sqlx::query_scalar(AssertSqlSafe(sql)).bind(value).fetch_one(conn).await?;
    if matches!(largest.as_str(), "text" | "blob") { Err(crate::column::holds_texts(target).into()) } else { Ok(()) }
}

/// Whether the column alone is the primary key, or has a unique index on all rows; `None` where there is no such column.
pub(crate) async fn is_unique(path: &Path, target: &Target) -> Result<Option<bool>, StoreError> {
    let read = async {
        let mut conn = open(path).await?;
        let (schema, name) = match target.table.as_slice() {
            [schema, name] => (schema.as_str(), name.as_str()),
            names => ("main", names.last().map_or("", String::as_str)),
        };
        // A column that is an INTEGER PRIMARY KEY has no index of its own.
        let columns = "SELECT pk > 0 AND (SELECT count(*) FROM pragma_table_info(?1, ?3) WHERE pk > 0) = 1 \
                       FROM pragma_table_info(?1, ?3) WHERE name = ?2 COLLATE NOCASE";
        let indexes = "SELECT count(*) FROM pragma_index_list(?1, ?3) AS one WHERE one.\"unique\" AND NOT one.partial \
                       AND (SELECT count(*) FROM pragma_index_info(one.name, ?3)) = 1 \
                       AND (SELECT name FROM pragma_index_info(one.name, ?3)) = ?2 COLLATE NOCASE";
        let key: Option<i64> =
            sqlx::query_scalar(columns).bind(name).bind(&target.column).bind(schema).fetch_optional(&mut conn).await?;
        let Some(key) = key else { return Ok(None) };
        let found: i64 =
            sqlx::query_scalar(indexes).bind(name).bind(&target.column).bind(schema).fetch_one(&mut conn).await?;
        Ok(Some(key > 0 || found > 0))
    };
    read.await.map_err(|fault: Fault| fault.reading(path))
}

async fn open(path: &Path) -> Result<SqliteConnection, Fault> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
    Ok(options.connect().await?)
}

fn table(target: &Target) -> String {
    format!("{} AS t", target.table_in('"'))
}

/// Of the table, by name: SQLite takes a quoted name that is no column for a text.
fn column(name: &str) -> String {
    format!("t.\"{name}\"")
}

/// The condition of the rows that count, with `?1` in it, and its value.
fn filter(target: &Target) -> (String, Option<String>) {
    match &target.only {
        Some((name, value)) => (format!("CAST({} AS TEXT) = ?1", column(name)), Some(value.clone())),
        None => ("?1 IS NULL".to_owned(), None),
    }
}
