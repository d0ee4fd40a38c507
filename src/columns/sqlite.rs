//! SQLite: INTEGER and BLOB.
//!
//! A column of SQLite holds values of any type, so it is the value that must be a BLOB: sixteen letters are no UUID.

use mintage_core::{Bits, IdBits};
use sqlx::{
    Database, Decode, Encode, Sqlite, Type, TypeInfo, ValueRef,
    encode::IsNull,
    error::{BoxDynError, UnexpectedNullError},
    sqlite::SqliteTypeInfo,
};

use super::{Kept, from_bytes, from_signed};
use crate::{Entity, Id, Kind};

/// The column of a kind, in words.
fn column<E: Entity>() -> &'static str {
    if <E::Kind as Kind>::Bits::KIND == Bits::Int { "INTEGER" } else { "BLOB" }
}

impl<E: Entity> Type<Sqlite> for Id<E> {
    fn type_info() -> SqliteTypeInfo {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => <i64 as Type<Sqlite>>::type_info(),
            _ => <Vec<u8> as Type<Sqlite>>::type_info(),
        }
    }

    fn compatible(found: &SqliteTypeInfo) -> bool {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => <i64 as Type<Sqlite>>::compatible(found),
            _ => found.name() == "BLOB",
        }
    }
}

impl<'q, E: Entity> Encode<'q, Sqlite> for Id<E> {
    fn encode_by_ref(&self, buffer: &mut <Sqlite as Database>::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match Kept::of(*self, column::<E>())? {
            Kept::Number(number) => Encode::<Sqlite>::encode(number, buffer),
            Kept::Wide(bytes) => Encode::<Sqlite>::encode(bytes.to_vec(), buffer),
            Kept::Long(bytes) => Encode::<Sqlite>::encode(bytes.to_vec(), buffer),
        }
    }
}

impl<'r, E: Entity> Decode<'r, Sqlite> for Id<E> {
    fn decode(value: <Sqlite as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        // sqlx reads NULL as the number 0, and 0 is an id.
        if value.is_null() {
            return Err(UnexpectedNullError.into());
        }
        let id = match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => from_signed(<i64 as Decode<Sqlite>>::decode(value)?, column::<E>()),
            _ => from_bytes(<&[u8] as Decode<Sqlite>>::decode(value)?, column::<E>()),
        };
        Ok(id?)
    }
}
