//! Values in and out of the database. SQLite keeps signed 64-bit integers and trusts whoever writes: nothing is believed
//! that does not fit.

use mintage_core::StoreError;
use sqlx::{Row, sqlite::SqliteRow};

use super::error::Fault;
use crate::rules::{corrupt, refused};

/// A number that is never negative.
pub(super) fn number(row: &SqliteRow, column: &'static str) -> Result<u64, Fault> {
    let stored = integer(row, column)?;
    u64::try_from(stored).map_err(|_| senseless(column, stored))
}

/// A number that is never negative; `None` for NULL.
pub(super) fn optional_number(row: &SqliteRow, column: &'static str) -> Result<Option<u64>, Fault> {
    let stored: Option<i64> = row.try_get(column)?;
    stored.map(|stored| u64::try_from(stored).map_err(|_| senseless(column, stored))).transpose()
}

/// A number that fits 32 bits, such as a worker id.
pub(super) fn small(row: &SqliteRow, column: &'static str) -> Result<u32, Fault> {
    let stored = integer(row, column)?;
    u32::try_from(stored).map_err(|_| senseless(column, stored))
}

/// One more than the number in a column that counts from -1: see the schema of `mintage_sequence`.
pub(super) fn number_after(row: &SqliteRow, column: &'static str) -> Result<u64, Fault> {
    let stored = integer(row, column)?;
    u64::try_from(i128::from(stored) + 1).map_err(|_| senseless(column, stored))
}

pub(super) fn flag(row: &SqliteRow, column: &'static str) -> Result<bool, Fault> {
    match integer(row, column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(senseless(column, other)),
    }
}

pub(super) fn text(row: &SqliteRow, column: &'static str) -> Result<String, Fault> {
    not_null(row.try_get(column)?, column)
}

/// A token of 16 bytes, big-endian; `None` for NULL.
pub(super) fn token(row: &SqliteRow, column: &'static str) -> Result<Option<u128>, Fault> {
    let stored: Option<&[u8]> = row.try_get(column)?;
    let Some(bytes) = stored else { return Ok(None) };
    match bytes.try_into() {
        Ok(bytes) => Ok(Some(u128::from_be_bytes(bytes))),
        Err(_) => {
            Err(corrupt(format!("{column} has {} bytes in the database instead of 16: restore it", bytes.len())).into())
        }
    }
}

/// A number for a signed column.
///
/// # Errors
/// `Refused` above 2^63 - 1: only a clock or a duration beyond reason gets there.
pub(super) fn signed(value: u64, what: &str) -> Result<i64, StoreError> {
    i64::try_from(value)
        .map_err(|_| refused(format!("{what} of {value} does not fit 63 bits: check the clock and the lease terms")))
}

/// One less than `value`: the counterpart of [`number_after`], and the reason why 2^63 has a place.
///
/// # Errors
/// `Refused` above 2^63.
pub(super) fn signed_before(value: u64, what: &str) -> Result<i64, StoreError> {
    i64::try_from(i128::from(value) - 1).map_err(|_| refused(format!("{what} of {value} is above 2^63")))
}

/// Asks for an option, because the driver reads NULL as 0 when it is asked for a number.
pub(super) fn integer(row: &SqliteRow, column: &'static str) -> Result<i64, Fault> {
    not_null(row.try_get(column)?, column)
}

fn not_null<T>(stored: Option<T>, column: &str) -> Result<T, Fault> {
    stored.ok_or_else(|| {
        corrupt(format!("{column} is NULL in the database: something else wrote it, restore the database")).into()
    })
}

fn senseless(column: &str, stored: i64) -> Fault {
    corrupt(format!(
        "{column} is {stored} in the database, which makes no sense: something else wrote it, restore the database"
    ))
    .into()
}
