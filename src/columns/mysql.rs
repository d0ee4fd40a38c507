//! MySQL and MariaDB: BIGINT of either sign, BINARY, and the UUID of MariaDB.
//!
//! MariaDB takes the 16 bytes of a UUID for its own UUID type and gives the 36 characters back. Bytes and text are told apart by
//! the column, never by their length: sixteen letters are no UUID.

use mintage_core::{AnyId, Bits, IdBits};
use mintage_schemes::parse_uuid;
use sqlx::{
    Database, Decode, Encode, MySql, Type, TypeInfo, ValueRef, encode::IsNull, error::BoxDynError, mysql::MySqlTypeInfo,
};

use super::{ColumnError, ColumnFault, Kept, error, from_any, from_bytes, from_signed};
use crate::{Entity, Id, Kind};

/// The characters of a UUID.
const UUID_LEN: usize = 36;

/// The column of a kind, in words.
fn column<E: Entity>() -> &'static str {
    match <E::Kind as Kind>::Bits::KIND {
        Bits::Int => "BIGINT",
        Bits::Wide => "BINARY(16)",
        _ => "BINARY(20)",
    }
}

impl<E: Entity> Type<MySql> for Id<E> {
    fn type_info() -> MySqlTypeInfo {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => <i64 as Type<MySql>>::type_info(),
            _ => <[u8] as Type<MySql>>::type_info(),
        }
    }

    fn compatible(found: &MySqlTypeInfo) -> bool {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => <i64 as Type<MySql>>::compatible(found) || is_unsigned(found),
            _ => <[u8] as Type<MySql>>::compatible(found),
        }
    }
}

fn is_unsigned(found: &MySqlTypeInfo) -> bool {
    <u64 as Type<MySql>>::compatible(found) && !matches!(found.name(), "BIT" | "YEAR")
}

impl<'q, E: Entity> Encode<'q, MySql> for Id<E> {
    fn encode_by_ref(&self, buffer: &mut <MySql as Database>::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match Kept::of(*self, column::<E>())? {
            Kept::Number(number) => Encode::<MySql>::encode(number, buffer),
            Kept::Wide(bytes) => Encode::<MySql>::encode(bytes.as_slice(), buffer),
            Kept::Long(bytes) => Encode::<MySql>::encode(bytes.as_slice(), buffer),
        }
    }
}

impl<'r, E: Entity> Decode<'r, MySql> for Id<E> {
    fn decode(value: <MySql as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let found = value.type_info().into_owned();
        let kind = <E::Kind as Kind>::Bits::KIND;
        let id = if kind == Bits::Int && is_unsigned(&found) {
            from_any(AnyId::Int(<u64 as Decode<MySql>>::decode(value)?), "BIGINT UNSIGNED")
        } else if kind == Bits::Int {
            from_signed(<i64 as Decode<MySql>>::decode(value)?, column::<E>())
        } else {
            let bytes = <&[u8] as Decode<MySql>>::decode(value)?;
            if <str as Type<MySql>>::compatible(&found) { from_text(bytes) } else { from_bytes(bytes, column::<E>()) }
        };
        Ok(id?)
    }
}

/// What a UUID column of MariaDB shows.
fn from_text<E: Entity>(text: &[u8]) -> Result<Id<E>, ColumnError> {
    const COLUMN: &str = "UUID";
    let wide = <E::Kind as Kind>::Bits::KIND == Bits::Wide;
    let text = str::from_utf8(text).ok().filter(|text| wide && text.len() == UUID_LEN).ok_or_else(|| {
        let expected = if wide { UUID_LEN } else { 20 };
        error::<E>(COLUMN, ColumnFault::Length { found: text.len(), expected })
    })?;
    let uuid = parse_uuid(text).map_err(|fault| error::<E>(COLUMN, ColumnFault::Text(fault)))?;
    from_any(AnyId::Wide(uuid.as_u128()), COLUMN)
}
