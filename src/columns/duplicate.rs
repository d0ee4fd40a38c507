//! Whose id was it that a unique index refused?
//!
//! An id that is there already is the one alarm an id library must never miss. Each database words it in its own way: PostgreSQL
//! names columns and values, MySQL and MariaDB the value and the index, SQLite the column alone.

use mintage_core::{Anatomy, AnyId, Bits, IdBits};
use mintage_schemes::parse_uuid;

use crate::{Entity, Id, Kind, Minter};

/// A row that was refused because one with the same key is there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Duplicate<E: Entity> {
    /// The key, as the database calls it: a constraint (PostgreSQL), an index (MySQL, MariaDB), or columns (SQLite).
    pub key: String,
    /// The id that is there already. `None` where another column clashed.
    pub id: Option<Id<E>>,
    /// What the id tells: when it was made, and by whom.
    pub anatomy: Option<Anatomy>,
}

impl<E: Entity> Minter<E> {
    /// Whether `error` says that a row with the same key exists, and which of the ids `tried` it was. `None` for any other error.
    ///
    /// Give all ids of the statement. With none, the id is read from the message of the database alone. SQLite never shows the
    /// value: there it is told only for a primary key and a statement of one row.
    ///
    /// With the feature `metrics` an id that was there already is counted in `mintage_duplicate_keys_total`.
    pub fn duplicate(&self, error: &sqlx::Error, tried: &[Id<E>]) -> Option<Duplicate<E>> {
        let refusal = Refusal::of(error)?;
        let shown = refusal.values.iter().filter_map(|value| read_shown::<E>(value));
        let id = shown.into_iter().find(|id| tried.is_empty() || tried.contains(id));
        let id = id.or(match tried {
            [only] if refusal.is_of_a_silent_primary_key => Some(*only),
            _ => None,
        });
        if id.is_some() {
            self.core().note_duplicate(E::NAME);
        }
        Some(Duplicate { key: refusal.key, id, anatomy: id.map(|id| self.anatomy(id)) })
    }
}

/// What a database tells of a key that is taken.
struct Refusal {
    key: String,
    /// Values that the message shows; one of them may be the id.
    values: Vec<String>,
    is_of_a_silent_primary_key: bool,
}

impl Refusal {
    fn of(error: &sqlx::Error) -> Option<Self> {
        let error = error.as_database_error()?;
        #[cfg(feature = "postgres")]
        if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
            return of_postgres(error);
        }
        #[cfg(feature = "mysql")]
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return of_mysql(error);
        }
        #[cfg(feature = "sqlite")]
        if let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
            return of_sqlite(error);
        }
        let _ = error;
        None
    }
}

/// `Key (tenant, id)=(7, 42) already exists.`
#[cfg(feature = "postgres")]
fn of_postgres(error: &sqlx::postgres::PgDatabaseError) -> Option<Refusal> {
    const UNIQUE_VIOLATION: &str = "23505";
    if error.code() != UNIQUE_VIOLATION {
        return None;
    }
    let values = error.detail().and_then(|detail| detail.split_once(")=(")?.1.rsplit_once(')'));
    let values = values.map_or(Vec::new(), |(values, _)| values.split(", ").map(str::to_owned).collect());
    let key = error.constraint().unwrap_or_default().to_owned();
    Some(Refusal { key, values, is_of_a_silent_primary_key: false })
}

/// `Duplicate entry '42' for key 'PRIMARY'`; the values of several columns are joined by `-`.
#[cfg(feature = "mysql")]
fn of_mysql(error: &sqlx::mysql::MySqlDatabaseError) -> Option<Refusal> {
    const DUPLICATE_ENTRY: u16 = 1062;
    const DUPLICATE_ENTRY_WITH_KEY_NAME: u16 = 1586;
    if ![DUPLICATE_ENTRY, DUPLICATE_ENTRY_WITH_KEY_NAME].contains(&error.number()) {
        return None;
    }
    let shown = error.message().strip_prefix("Duplicate entry '").and_then(|rest| rest.rsplit_once("' for key '"));
    let (value, key) = shown.unwrap_or(("", ""));
    let mut values = vec![value.to_owned()];
    values.extend(value.split('-').map(str::to_owned));
    let key = key.trim_end_matches('\'').to_owned();
    Some(Refusal { key, values, is_of_a_silent_primary_key: false })
}

/// `UNIQUE constraint failed: orders.id`
#[cfg(feature = "sqlite")]
fn of_sqlite(error: &sqlx::sqlite::SqliteError) -> Option<Refusal> {
    use sqlx::error::DatabaseError as _;
    const PRIMARY_KEY: &str = "1555";
    const UNIQUE: &str = "2067";
    const ROW_ID: &str = "2579";
    let code = error.code()?;
    if ![PRIMARY_KEY, UNIQUE, ROW_ID].contains(&code.as_ref()) {
        return None;
    }
    let key = error.message().rsplit_once(": ").map_or("", |(_, key)| key).to_owned();
    Some(Refusal { key, values: Vec::new(), is_of_a_silent_primary_key: code != UNIQUE })
}

/// An id as the message of a database shows it: a number, a UUID, or bytes.
fn read_shown<E: Entity>(value: &str) -> Option<Id<E>> {
    const COLUMN: &str = "key";
    match <E::Kind as Kind>::Bits::KIND {
        Bits::Int => super::from_any(AnyId::Int(mintage_core::parse_decimal(value, 63).ok()?), COLUMN).ok(),
        Bits::Wide => match parse_uuid(value) {
            Ok(uuid) => super::from_any(AnyId::Wide(uuid.as_u128()), COLUMN).ok(),
            Err(_) => super::from_bytes(&escaped(value)?, COLUMN).ok(),
        },
        _ => super::from_bytes(&hex(value).or_else(|| escaped(value))?, COLUMN).ok(),
    }
}

/// `\x00ff…`, as PostgreSQL shows bytes.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

/// `\x00A\xFF`, as MySQL and MariaDB show bytes: those that are no ASCII letters as hexadecimal, the others as they are.
fn escaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(20);
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = rest.strip_prefix(b"\\x").and_then(|after| after.split_at_checked(2));
        let byte =
            escape.and_then(|(pair, after)| Some((u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?, after)));
        let (byte, after) = byte.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_either_spelling_and_nothing_else_is() {
        assert_eq!(hex("\\x00ff10"), Some(vec![0, 0xff, 0x10]));
        for none in ["00ff", "\\x0", "\\x0g", "\\xé1", ""] {
            assert_eq!(hex(none), None, "{none}");
        }
        assert_eq!(escaped("\\x00A\\xFFb\\"), Some(vec![0, b'A', 0xff, b'b', b'\\']));
        assert_eq!(escaped("\\xg0"), Some(b"\\xg0".to_vec()));
        assert_eq!(escaped(""), Some(Vec::new()));
    }
}
