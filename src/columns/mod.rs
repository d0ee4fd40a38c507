//! Ids as columns of your own tables, by [sqlx](https://docs.rs/sqlx) (feature `sqlx`, and one feature for each database).
//!
//! The invariant: what is bound is an id of its entity, and what is read was checked, so no `Id` comes out of a column that could
//! not have come out of a minter's text.

mod duplicate;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use mintage_core::{AnyId, IdBits, ParseError};

pub use self::duplicate::Duplicate;
use crate::{Entity, Id, Kind};

/// Why the value of a column is no id: the source of an [`sqlx::Error::ColumnDecode`], to be downcast. Of a value that was bound,
/// sqlx keeps the words only, in [`sqlx::Error::Encode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entity {entity}: the {column} column holds {fault}")]
#[non_exhaustive]
pub struct ColumnError {
    /// The entity whose id was expected.
    pub entity: &'static str,
    /// The type of the column.
    pub column: &'static str,
    /// What is wrong with the value.
    pub fault: ColumnFault,
}

/// What is wrong with the value of a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnFault {
    /// A number below 0.
    #[error("{0}: no id is negative, so something else wrote this row")]
    Negative(i64),
    /// A number above 2^63 − 1.
    #[error("{0}, above 9223372036854775807, the largest id: something else wrote this row")]
    TooLarge(u64),
    /// Too few or too many bytes.
    #[error("{found} bytes, {expected} expected: see that the column has the type for this kind of id")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// Nothing but zeros.
    #[error("the nil id, nothing but zeros: where an id may be missing, keep NULL and read an `Option`")]
    Nil,
    /// A text that is no UUID, or a UUID that is no id.
    #[error("a text that is no id: {0}")]
    Text(ParseError),
    /// The entity has ids of a width that this version cannot keep in a column.
    #[error("ids of a width that this version cannot keep: update Mintage")]
    Width,
}

/// An id as databases keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Number(i64),
    Wide([u8; 16]),
    Long([u8; 20]),
}

#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "each database that is chosen has columns")
)]
impl Kept {
    /// What to write for `id`. An id that could not be read back is not written.
    fn of<E: Entity>(id: Id<E>, column: &'static str) -> Result<Self, ColumnError> {
        let any = id.bits().to_any();
        check::<E>(any).map_err(|fault| error::<E>(column, fault))?;
        match any {
            AnyId::Int(number) => Ok(Self::Number(number.cast_signed())),
            AnyId::Wide(number) => Ok(Self::Wide(number.to_be_bytes())),
            AnyId::Long(bytes) => Ok(Self::Long(bytes)),
            _ => Err(error::<E>(column, ColumnFault::Width)),
        }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn from_signed<E: Entity>(number: i64, column: &'static str) -> Result<Id<E>, ColumnError> {
    let number = u64::try_from(number).map_err(|_| error::<E>(column, ColumnFault::Negative(number)))?;
    from_any(AnyId::Int(number), column)
}

fn from_bytes<E: Entity>(bytes: &[u8], column: &'static str) -> Result<Id<E>, ColumnError> {
    let wide = <E::Kind as Kind>::Bits::KIND == mintage_core::Bits::Wide;
    let any = if wide {
        bytes.try_into().ok().map(|bytes| AnyId::Wide(u128::from_be_bytes(bytes)))
    } else {
        bytes.try_into().ok().map(AnyId::Long)
    };
    let expected = if wide { 16 } else { 20 };
    from_any(any.ok_or_else(|| error::<E>(column, ColumnFault::Length { found: bytes.len(), expected }))?, column)
}

fn from_any<E: Entity>(any: AnyId, column: &'static str) -> Result<Id<E>, ColumnError> {
    check::<E>(any).map_err(|fault| error::<E>(column, fault))?;
    IdBits::from_any(any).map(Id::from_bits).ok_or_else(|| error::<E>(column, ColumnFault::Width))
}

/// Refuses what no minter makes: a column that was never filled in holds zeros.
fn check<E: Entity>(any: AnyId) -> Result<(), ColumnFault> {
    match any {
        AnyId::Int(number) if number >> 63 != 0 => Err(ColumnFault::TooLarge(number)),
        AnyId::Wide(0) => Err(ColumnFault::Nil),
        AnyId::Long(bytes) if bytes == [0; 20] => Err(ColumnFault::Nil),
        AnyId::Wide(u128::MAX) if E::Kind::NAME == "Uuid" => Err(ColumnFault::Text(ParseError::Special("max"))),
        _ => Ok(()),
    }
}

fn error<E: Entity>(column: &'static str, fault: ColumnFault) -> ColumnError {
    ColumnError { entity: E::NAME, column, fault }
}
