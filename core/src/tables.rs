//! What a store's tables are called.

use std::{borrow::Cow, fmt};

/// What the statements of this house are written with.
const WRITTEN: &str = "mintage_";

/// What the names of a store's tables begin with: `mintage_`, unless a config says otherwise because two installations share one
/// database.
///
/// It goes into statements as it is, so it can only be made of characters that need no quotes in any database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TablePrefix(Cow<'static, str>);

impl TablePrefix {
    /// Longest prefix, in bytes. PostgreSQL cuts a name off in silence after 63 bytes, MySQL refuses one above 64; the longest
    /// name of an index takes 20 behind the prefix.
    pub const LEN_MAX: usize = 32;

    /// A prefix of `a-z`, `0-9` and `_` that begins with a letter and ends in `_`.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let fits = (2..=Self::LEN_MAX).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.ends_with('_')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !fits {
            return Err(format!(
                "{text:?} cannot begin the name of a table everywhere: write 2 to {} of a-z, 0-9 and _, a letter first and `_` \
                 last, such as \"billing_ids_\"",
                Self::LEN_MAX
            ));
        }
        // PostgreSQL keeps these for its own tables, SQLite these.
        if text.starts_with("pg_") || text.starts_with("sqlite_") {
            return Err(format!("{text:?} is what a database calls its own tables: write another, such as \"ids_\""));
        }
        Ok(Self(Cow::Owned(text)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A statement that is written with `mintage_`, for the tables of this prefix.
    pub fn apply<'s>(&self, statement: &'s str) -> Cow<'s, str> {
        if self.0 == WRITTEN { Cow::Borrowed(statement) } else { Cow::Owned(statement.replace(WRITTEN, &self.0)) }
    }
}

impl Default for TablePrefix {
    fn default() -> Self {
        Self(Cow::Borrowed(WRITTEN))
    }
}

impl fmt::Display for TablePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_needs_no_quotes_and_no_cutting() {
        for good in ["a_", "mintage_", "billing_ids_", "x9_", &format!("{}_", "a".repeat(31))] {
            assert_eq!(TablePrefix::new(good).unwrap().as_str(), good);
        }
        let long = format!("{}_", "a".repeat(32));
        let bad =
            ["", "_", "a", "ids", "9_", "Ids_", "i-_", "i d_", "ids_;", "\"_", "ä_", "pg_", "sqlite_x_", "a\0_", &long];
        for bad in bad {
            assert!(TablePrefix::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_name_in_a_statement_is_changed() {
        let statement = "INSERT INTO mintage_token SELECT * FROM mintage_pool -- for mintage";
        assert_eq!(TablePrefix::default().apply(statement), statement);
        let other = TablePrefix::new("ids_").unwrap();
        assert_eq!(other.apply(statement), "INSERT INTO ids_token SELECT * FROM ids_pool -- for mintage");
    }
}
