//! PostgreSQL: BIGINT, UUID, BYTEA, and arrays of them.

use mintage_core::{Bits, IdBits};
use sqlx::{
    Database, Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgHasArrayType, PgTypeInfo},
};
use uuid::Uuid;

use super::{Kept, from_bytes, from_signed};
use crate::{Entity, Id, Kind};

/// The column of a kind, in words.
fn column<E: Entity>() -> &'static str {
    match <E::Kind as Kind>::Bits::KIND {
        Bits::Int => "BIGINT",
        Bits::Wide => "UUID",
        _ => "BYTEA",
    }
}

impl<E: Entity> Type<Postgres> for Id<E> {
    fn type_info() -> PgTypeInfo {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => <i64 as Type<Postgres>>::type_info(),
            Bits::Wide => <Uuid as Type<Postgres>>::type_info(),
            _ => <Vec<u8> as Type<Postgres>>::type_info(),
        }
    }
}

impl<E: Entity> PgHasArrayType for Id<E> {
    fn array_type_info() -> PgTypeInfo {
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => i64::array_type_info(),
            Bits::Wide => Uuid::array_type_info(),
            _ => Vec::<u8>::array_type_info(),
        }
    }
}

impl<'q, E: Entity> Encode<'q, Postgres> for Id<E> {
    fn encode_by_ref(&self, buffer: &mut <Postgres as Database>::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match Kept::of(*self, column::<E>())? {
            Kept::Number(number) => Encode::<Postgres>::encode(number, buffer),
            Kept::Wide(bytes) => Encode::<Postgres>::encode(Uuid::from_bytes(bytes), buffer),
            Kept::Long(bytes) => Encode::<Postgres>::encode(bytes.as_slice(), buffer),
        }
    }
}

impl<'r, E: Entity> Decode<'r, Postgres> for Id<E> {
    fn decode(value: <Postgres as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let id = match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => from_signed(<i64 as Decode<Postgres>>::decode(value)?, column::<E>()),
            Bits::Wide => from_bytes(<Uuid as Decode<Postgres>>::decode(value)?.as_bytes(), column::<E>()),
            _ => from_bytes(&<Vec<u8> as Decode<Postgres>>::decode(value)?, column::<E>()),
        };
        Ok(id?)
    }
}
