//! A column of numbers in somebody's table on a database server.

use std::{fmt, time::Duration};

use mintage_core::{StoreError, TablePrefix};

use super::{
    dialect::Dialect,
    error::Fault,
    read::{self, Row},
    session::{Session, Value},
    target::Target as Server,
};
use crate::column::Target;

/// The type of a column; no row where there is none of that name.
const POSTGRES_COLUMN: &str = "
    SELECT CAST(atttypid AS regtype)::text AS kind FROM pg_catalog.pg_attribute
    WHERE attrelid = CAST(CAST(?1 AS text) AS regclass) AND attname = ?2 AND attnum > 0 AND NOT attisdropped";
const MYSQL_COLUMN: &str = "
    SELECT CAST(data_type AS CHAR) AS kind FROM information_schema.columns
    WHERE table_schema = IF(?1 = '', DATABASE(), ?1) AND table_name = ?2 AND column_name = ?3";

/// How many unique indexes have that column and no other, for every row and the whole value.
const POSTGRES_UNIQUE: &str = "
    SELECT count(*) AS found FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = CAST(CAST(?1 AS text) AS regclass) AND a.attname = ?2 AND i.indnkeyatts = 1
      AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL";
const MYSQL_UNIQUE: &str = "
    SELECT COUNT(*) AS found FROM (
        SELECT index_name FROM information_schema.statistics
        WHERE table_schema = IF(?1 = '', DATABASE(), ?1) AND table_name = ?2
        GROUP BY index_name
        HAVING COUNT(*) = 1 AND MAX(non_unique) = 0 AND MAX(column_name) = ?3 AND MAX(sub_part) IS NULL
    ) AS covering";

/// A database on a server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    server: Server,
    dialect: Dialect,
}

impl Place {
    pub(crate) fn of(url: &str) -> Result<Self, String> {
        let server = Server::of(url)?;
        let dialect = Dialect::of_url(url).ok_or("the URL names no server that this build can read")?;
        Ok(Self { server, dialect })
    }

    /// The largest value, and what the counter behind the column has come to.
    pub(crate) async fn largest(&self, target: &Target, timeout: Duration) -> Result<Vec<Option<String>>, StoreError> {
        let read = async {
            let mut session = self.open(timeout).await?;
            let (table, column) = (self.table(target), self.quoted(&target.column));
            let (filter, values) = self.filter(target, 1);
            let text = self.text();
            let sql = format!("SELECT CAST(max({column}) AS {text}) AS largest FROM {table} WHERE {filter}");
            let rows = session.fetch(&sql, &values).await?;
            // Afterwards: a column that is not there is the first thing to be told.
            self.numbers_only(&mut session, target).await?;
            let mut found = vec![one(&rows, "largest")?];
            if target.only.is_none() {
                found.push(match self.dialect {
                    Dialect::Postgres => serial(&mut session, &table, &target.column).await?,
                    Dialect::MySql => auto_increment(&mut session, &table, &target.column).await?,
                });
            }
            Ok(found)
        };
        read.await.map_err(|fault: Fault| fault.reading(&self.server))
    }

    /// How many numbers of `start..end` are used, and the first runs of those that are not.
    pub(crate) async fn gaps(
        &self,
        target: &Target,
        start: i64,
        end: i64,
        runs_max: u32,
        timeout: Duration,
    ) -> Result<(String, Vec<(String, String)>), StoreError> {
        let read = async {
            let mut session = self.open(timeout).await?;
            let (table, column) = (self.table(target), self.quoted(&target.column));
            let (filter, only) = self.filter(target, 3);
            let mut values: Vec<Value<'_>> = vec![start.into(), end.into()];
            values.extend(only);
            let text = self.text();
            self.numbers_only(&mut session, target).await?;
            let rows = format!("{table} WHERE {column} >= ?1 AND {column} < ?2 AND {filter}");
            let used = format!("SELECT CAST(count(DISTINCT {column}) AS {text}) AS used FROM {rows}");
            let used = one(&session.fetch(&used, &values).await?, "used")?.unwrap_or_default();
            let runs = format!(
                "SELECT CAST(prev + 1 AS {text}) AS first_one, CAST(c - 1 AS {text}) AS last_one FROM \
                 (SELECT c, LAG(c) OVER (ORDER BY c) AS prev FROM \
                  (SELECT {column} AS c FROM {rows} UNION SELECT ?1 - 1 UNION SELECT ?2) AS ends) AS pairs \
                 WHERE c > prev + 1 ORDER BY c LIMIT {runs_max}"
            );
            let runs = session.fetch(&runs, &values).await?;
            let runs = runs.iter().map(|row| Ok((read::text(row, "first_one")?, read::text(row, "last_one")?)));
            Ok((used, runs.collect::<Result<_, Fault>>()?))
        };
        read.await.map_err(|fault: Fault| fault.reading(&self.server))
    }

    /// Texts are in the order of their letters, "2" after "17": the largest of them says nothing about numbers.
    async fn numbers_only(&self, session: &mut Session, target: &Target) -> Result<(), Fault> {
        let table = self.table(target);
        let (columns, _) = self.catalog();
        let rows = session.fetch(columns, &self.named(target, &table)).await?;
        // A column that is not there is told by whoever reads it.
        match one(&rows, "kind")? {
            Some(kind) if ["char", "text", "binary"].iter().any(|text| kind.contains(text)) => {
                Err(crate::column::holds_texts(target).into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a unique index is on the column alone and on all rows; `None` where there is no such column.
    pub(crate) async fn is_unique(&self, target: &Target, timeout: Duration) -> Result<Option<bool>, StoreError> {
        let read = async {
            let mut session = self.open(timeout).await?;
            let table = self.table(target);
            let (columns, indexes) = self.catalog();
            let values = self.named(target, &table);
            if session.fetch(columns, &values).await?.is_empty() {
                return Ok(None);
            }
            Ok(Some(count(&session.fetch(indexes, &values).await?)? > 0))
        };
        read.await.map_err(|fault: Fault| fault.reading(&self.server))
    }

    async fn open(&self, timeout: Duration) -> Result<Session, Fault> {
        Session::open(
            &self.server,
            &TablePrefix::default(),
            u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1),
        )
        .await
    }

    /// What asks for a column, and for the indexes on it.
    fn catalog(&self) -> (&'static str, &'static str) {
        match self.dialect {
            Dialect::Postgres => (POSTGRES_COLUMN, POSTGRES_UNIQUE),
            Dialect::MySql => (MYSQL_COLUMN, MYSQL_UNIQUE),
        }
    }

    /// The column, as the catalogue has it. `table` is that of [`table`](Self::table).
    fn named<'t>(&self, target: &'t Target, table: &'t String) -> Vec<Value<'t>> {
        let column = (&target.column).into();
        match (self.dialect, target.table.as_slice()) {
            (Dialect::Postgres, _) => vec![table.into(), column],
            (Dialect::MySql, [schema, name]) => vec![schema.into(), name.into(), column],
            (Dialect::MySql, names) => vec!["".into(), names.last().map_or("", String::as_str).into(), column],
        }
    }

    fn quote(&self) -> char {
        match self.dialect {
            Dialect::Postgres => '"',
            Dialect::MySql => '`',
        }
    }

    fn quoted(&self, name: &str) -> String {
        format!("{0}{name}{0}", self.quote())
    }

    fn table(&self, target: &Target) -> String {
        target.table_in(self.quote())
    }

    /// The type of a text, in CAST.
    fn text(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "TEXT",
            Dialect::MySql => "CHAR",
        }
    }

    /// The condition of the rows that count, and its value as the `nth` parameter.
    fn filter<'t>(&self, target: &'t Target, nth: u32) -> (String, Vec<Value<'t>>) {
        match &target.only {
            Some((name, value)) => {
                (format!("CAST({} AS {}) = ?{nth}", self.quoted(name), self.text()), vec![value.into()])
            }
            None => ("1 = 1".to_owned(), Vec::new()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

/// The sequence behind `SERIAL`, `BIGSERIAL` and identity columns: it may have given more than was committed.
async fn serial(session: &mut Session, table: &str, column: &str) -> Result<Option<String>, Fault> {
    let name = "SELECT pg_get_serial_sequence(?1, ?2) AS name";
    let Some(name) = one(&session.fetch(name, &[table.into(), column.into()]).await?, "name")? else { return Ok(None) };
    // The server wrote the name as a statement needs it.
    let last = format!(
        "SELECT CAST(CASE WHEN is_called THEN last_value ELSE last_value - 1 END AS TEXT) AS last_one FROM {name}"
    );
    one(&session.fetch(&last, &[]).await?, "last_one")
}

/// One less than the next value of an `AUTO_INCREMENT` column. Read from the definition: the statistics may be a day old.
async fn auto_increment(session: &mut Session, table: &str, column: &str) -> Result<Option<String>, Fault> {
    let rows = session.fetch(&format!("SHOW CREATE TABLE {table}"), &[]).await?;
    let Some(definition) = one(&rows, "Create Table").ok().flatten() else { return Ok(None) };
    Ok(next_in(&definition, column).map(|next| next.saturating_sub(1).to_string()))
}

/// The `AUTO_INCREMENT` of a definition, if it is that of the column.
fn next_in(definition: &str, column: &str) -> Option<u64> {
    let (columns, options) = definition.rsplit_once("\n)")?;
    let ours = format!("  `{column}` ");
    columns.lines().find(|line| line.starts_with(&ours) && line.contains(" AUTO_INCREMENT"))?;
    let digits = options.split_once("AUTO_INCREMENT=")?.1;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn count(rows: &[Row]) -> Result<u64, Fault> {
    rows.first().map_or(Ok(0), |row| read::number(row, "found"))
}

/// The value of the first row; `None` for NULL and where there is no row.
fn one(rows: &[Row], column: &'static str) -> Result<Option<String>, Fault> {
    rows.first().map_or(Ok(None), |row| read::optional_text(row, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_value_is_that_of_the_column() {
        let definition = "CREATE TABLE `t` (\n  `id` bigint(20) NOT NULL AUTO_INCREMENT,\n  `n` int COMMENT ' AUTO_INCREMENT=7',\n  \
                          PRIMARY KEY (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=1205 DEFAULT CHARSET=utf8mb4";
        assert_eq!(next_in(definition, "id"), Some(1205));
        assert_eq!(next_in(definition, "i"), None);
        assert_eq!(next_in("CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB", "id"), None);
    }
}
