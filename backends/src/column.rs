//! A column of numbers in a table that Mintage did not make: what has been used there, and what has not.
//!
//! Nothing is written, and nothing but the column is read. Counters that live beside a table, such as those of `BIGSERIAL` and
//! `AUTO_INCREMENT`, count as used: a number that was taken and rolled back may be on paper all the same.

use std::{fmt, path::Path, time::Duration};

use mintage_core::{RANGE_END, StoreError, parse_decimal};

#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::database;
use crate::rules::{refused, unavailable};
#[cfg(feature = "sqlite")]
use crate::sqlite;

/// Longest name of a table or column, in bytes: databases cut off or refuse longer ones.
const NAME_LEN_MAX: usize = 128;

/// A column, and the rows of it that count.
#[derive(Clone, Debug)]
pub struct NumberColumn {
    place: Place,
    pub(crate) target: Target,
}

/// What statements are made of.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// With its schema, where one is named.
    pub(crate) table: Vec<String>,
    pub(crate) column: String,
    /// Only rows whose column has this value.
    pub(crate) only: Option<(String, String)>,
}

#[derive(Clone, Debug)]
enum Place {
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    Server(database::Place),
}

/// What is not used between two numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gaps {
    /// How many numbers in all.
    pub missing: u64,
    /// The first of them as runs, both ends included, in order.
    pub runs: Vec<(u64, u64)>,
}

impl NumberColumn {
    /// Reads `URL#TABLE.COLUMN`, `URL#SCHEMA.TABLE.COLUMN`, with `[NAME=VALUE]` behind it for the rows that count. Relative paths
    /// start at `folder`.
    ///
    /// # Errors
    /// What to write instead, without a part of the URL that may be secret.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let (url, names) = text.rsplit_once('#').ok_or(
            "write URL#TABLE.COLUMN, such as postgres://me@shard1/shop#orders.id or sqlite:old.db#id_blocks.next_id[name=orders]",
        )?;
        Ok(Self { place: Place::of(url, folder)?, target: Target::parse(names)? })
    }

    /// The column of `url` with those names.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of(url: &str, folder: &Path, table: &str, column: &str, only: (&str, &str)) -> Result<Self, String> {
        let only = Some((only.0.to_owned(), only.1.to_owned()));
        let target = Target { table: vec![table.to_owned()], column: column.to_owned(), only };
        Ok(Self { place: Place::of(url, folder)?, target })
    }

    /// The largest number used, counters included; `None` if there is none.
    ///
    /// # Errors
    /// `Refused` when the table cannot be read or has other than numbers of 0 to 2^63 - 1; `Unavailable`.
    pub async fn largest(&self, timeout: Duration) -> Result<Option<u64>, StoreError> {
        let found: Vec<Option<String>> = self
            .within(timeout, async {
                match &self.place {
                    #[cfg(feature = "sqlite")]
                    Place::Sqlite(path) => sqlite::column::largest(path, &self.target).await,
                    #[cfg(any(feature = "postgres", feature = "mysql"))]
                    Place::Server(place) => place.largest(&self.target, timeout).await,
                }
            })
            .await?;
        let numbers = found.into_iter().flatten().filter(|text| !text.starts_with('-'));
        let numbers: Vec<u64> = numbers.map(|text| self.number(&text)).collect::<Result<_, _>>()?;
        Ok(numbers.into_iter().max())
    }

    /// Which numbers of `from..to` no row has. Of the runs the first `runs_max` are listed.
    ///
    /// # Errors
    /// As [`largest`](Self::largest).
    pub async fn gaps(&self, from: u64, to: u64, runs_max: u32, timeout: Duration) -> Result<Gaps, StoreError> {
        let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (start, end) = (bound(from), bound(to));
        if start >= end {
            return Ok(Gaps::default());
        }
        let (used, runs) = self
            .within(timeout, async {
                match &self.place {
                    #[cfg(feature = "sqlite")]
                    Place::Sqlite(path) => sqlite::column::gaps(path, &self.target, start, end, runs_max).await,
                    #[cfg(any(feature = "postgres", feature = "mysql"))]
                    Place::Server(place) => place.gaps(&self.target, start, end, runs_max, timeout).await,
                }
            })
            .await?;
        let runs = runs.iter().map(|(first, last)| Ok((self.number(first)?, self.number(last)?)));
        let used = self.number(&used)?;
        let runs: Vec<(u64, u64)> = runs.collect::<Result<_, StoreError>>()?;
        Ok(Gaps { missing: end.abs_diff(start).saturating_sub(used), runs })
    }

    /// Whether a primary key or a unique index covers the column, and nothing else with it.
    ///
    /// # Errors
    /// `Refused` when there is no such column, or it may not be looked at; `Unavailable`.
    pub async fn is_unique(&self, timeout: Duration) -> Result<bool, StoreError> {
        let found = self
            .within(timeout, async {
                match &self.place {
                    #[cfg(feature = "sqlite")]
                    Place::Sqlite(path) => sqlite::column::is_unique(path, &self.target).await,
                    #[cfg(any(feature = "postgres", feature = "mysql"))]
                    Place::Server(place) => place.is_unique(&self.target, timeout).await,
                }
            })
            .await?;
        found.ok_or_else(|| refused(format!("{self}: there is no such column: name one that is there")))
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
            let waited_ms = timeout.as_millis();
            Err(unavailable(format!(
                "{self}: no answer within {waited_ms} ms: the table is large or locked, or the server hangs"
            )))
        })
    }

    fn number(&self, text: &str) -> Result<u64, StoreError> {
        let fits = |number: &u64| *number < RANGE_END;
        parse_decimal(text, 63).ok().filter(fits).ok_or_else(|| {
            refused(format!("{self}: {text:?} is no whole number of 0 to 9223372036854775807: name another column"))
        })
    }
}

/// Without the password of the URL.
impl fmt::Display for NumberColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            #[cfg(feature = "sqlite")]
            Place::Sqlite(path) => write!(f, "sqlite:{}", path.display())?,
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            Place::Server(place) => write!(f, "{place}")?,
        }
        write!(f, "#{}.{}", self.target.table.join("."), self.target.column)?;
        match &self.target.only {
            Some((name, value)) => write!(f, "[{name}={value}]"),
            None => Ok(()),
        }
    }
}

impl Target {
    fn parse(names: &str) -> Result<Self, String> {
        let (path, only) = match names.strip_suffix(']').and_then(|names| names.split_once('[')) {
            Some((path, only)) => {
                let (name, value) = only.split_once('=').ok_or("write [COLUMN=VALUE], such as [name=orders]")?;
                (path, Some((identifier(name)?, value.to_owned())))
            }
            None => (names, None),
        };
        let mut table = path.split('.').map(identifier).collect::<Result<Vec<String>, String>>()?;
        let column = table.pop().filter(|_| (1..=2).contains(&table.len()));
        let column = column.ok_or("write TABLE.COLUMN or SCHEMA.TABLE.COLUMN behind the #")?;
        Ok(Self { table, column, only })
    }

    /// The table for a statement, each name between `quote`s.
    pub(crate) fn table_in(&self, quote: char) -> String {
        self.table.iter().map(|name| format!("{quote}{name}{quote}")).collect::<Vec<_>>().join(".")
    }
}

impl Place {
    fn of(url: &str, folder: &Path) -> Result<Self, String> {
        match url.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", path)) if !path.is_empty() && !path.contains('?') => {
                Ok(Self::Sqlite(folder.join(path.trim_start_matches("//"))))
            }
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            Some((scheme, _)) if database::Dialect::of_url(url).is_some() && scheme != "sqlite" => {
                database::Place::of(url).map(Self::Server)
            }
            _ => {
                let _ = folder;
                Err("the URL names no database that this build can read: write sqlite:PATH, postgres://… or mysql://…"
                    .to_owned())
            }
        }
    }
}

/// A name that needs no escape between quotes of any kind.
fn identifier(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | ' ');
    if (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(plain) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "{name:?} is no name of a table or column here: letters, digits, _, $, - and spaces are, without quotes: make a view of such a name, and name that"
    ))
}

/// The largest of texts is not the largest number.
pub(crate) fn holds_texts(target: &Target) -> StoreError {
    refused(format!(
        "{}.{} holds texts, and of texts \"2\" is larger than \"17\": name a column of numbers, or make a view that casts it and name \
         that",
        target.table.join("."),
        target.column
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_nothing_else_gets_into_a_statement() {
        let target = Target::parse("public.Tickets64.id[stub=a b=c]").unwrap();
        assert_eq!(target.table_in('"'), "\"public\".\"Tickets64\"");
        assert_eq!((target.column.as_str(), target.only), ("id", Some(("stub".to_owned(), "a b=c".to_owned()))));
        for wrong in [
            "",
            "orders",
            "a.b.c.d",
            "orders.",
            ".id",
            "o\"x.id",
            "orders.id[name]",
            "orders.id[=1]",
            "o?.id",
            "a\nb.id",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
