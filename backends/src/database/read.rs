//! Values in and out of the database. Columns are signed 64-bit integers and other programs can write them: nothing is
//! believed that does not fit.

use mintage_core::StoreError;

use super::error::Fault;
use crate::rules::{corrupt, refused};

/// A value that came back; text is its UTF-8 bytes.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Number(i64),
    Bytes(Vec<u8>),
}

/// A row that came back, by column; `None` for NULL.
#[derive(Debug)]
pub(super) struct Row {
    cells: Vec<(String, Option<Cell>)>,
}

impl Row {
    pub(super) fn new(cells: Vec<(String, Option<Cell>)>) -> Self {
        Self { cells }
    }

    fn cell(&self, column: &'static str) -> Result<Option<&Cell>, Fault> {
        let found = self.cells.iter().find(|(name, _)| name == column);
        found
            .map(|(_, cell)| cell.as_ref())
            .ok_or_else(|| Fault::Driver(sqlx::Error::ColumnNotFound(column.to_owned())))
    }
}

/// A number that is never negative.
pub(super) fn number(row: &Row, column: &'static str) -> Result<u64, Fault> {
    let stored = integer(row, column)?;
    u64::try_from(stored).map_err(|_| senseless(column, stored))
}

/// A number that fits 32 bits, such as a worker id.
pub(super) fn small(row: &Row, column: &'static str) -> Result<u32, Fault> {
    let stored = integer(row, column)?;
    u32::try_from(stored).map_err(|_| senseless(column, stored))
}

/// One more than the number in a column that counts from -1: see the schema of `mintage_sequence`.
pub(super) fn number_after(row: &Row, column: &'static str) -> Result<u64, Fault> {
    let stored = integer(row, column)?;
    u64::try_from(i128::from(stored) + 1).map_err(|_| senseless(column, stored))
}

pub(super) fn flag(row: &Row, column: &'static str) -> Result<bool, Fault> {
    match integer(row, column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(senseless(column, other)),
    }
}

pub(super) fn text(row: &Row, column: &'static str) -> Result<String, Fault> {
    let text = match row.cell(column)? {
        Some(Cell::Bytes(bytes)) => String::from_utf8(bytes.clone()).ok(),
        Some(Cell::Number(_)) | None => None,
    };
    text.ok_or_else(|| odd(column, "is no text"))
}

/// A text; `None` for NULL.
pub(super) fn optional_text(row: &Row, column: &'static str) -> Result<Option<String>, Fault> {
    match row.cell(column)? {
        None => Ok(None),
        Some(_) => text(row, column).map(Some),
    }
}

/// A token of 16 bytes, big-endian; `None` for NULL.
pub(super) fn token(row: &Row, column: &'static str) -> Result<Option<u128>, Fault> {
    match row.cell(column)? {
        None => Ok(None),
        Some(Cell::Bytes(bytes)) => match bytes.as_slice().try_into() {
            Ok(bytes) => Ok(Some(u128::from_be_bytes(bytes))),
            Err(_) => Err(odd(column, "has not 16 bytes")),
        },
        Some(Cell::Number(_)) => Err(odd(column, "is a number")),
    }
}

/// A hash of 32 bytes.
pub(super) fn hash(row: &Row, column: &'static str) -> Result<[u8; 32], Fault> {
    match row.cell(column)? {
        Some(Cell::Bytes(bytes)) => bytes.as_slice().try_into().map_err(|_| odd(column, "has not 32 bytes")),
        Some(Cell::Number(_)) | None => Err(odd(column, "is no hash")),
    }
}

/// A number that is never negative; `None` for NULL.
pub(super) fn optional_number(row: &Row, column: &'static str) -> Result<Option<u64>, Fault> {
    row.cell(column)?.map(|_| number(row, column)).transpose()
}

pub(super) fn integer(row: &Row, column: &'static str) -> Result<i64, Fault> {
    match row.cell(column)? {
        Some(Cell::Number(number)) => Ok(*number),
        Some(Cell::Bytes(_)) => Err(odd(column, "is no whole number")),
        None => Err(odd(column, "is NULL")),
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

fn senseless(column: &str, stored: i64) -> Fault {
    odd(column, &format!("is {stored}"))
}

fn odd(column: &str, what: &str) -> Fault {
    let message =
        format!("{column} {what} in the database, which makes no sense: something else wrote it, restore the database");
    corrupt(message).into()
}
