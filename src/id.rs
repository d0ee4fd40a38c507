//! Typed ids: an [`Id<Order>`] is never taken for an `Id<User>`, and does not print itself.

use std::{cmp::Ordering, fmt, hash, marker::PhantomData};

use mintage_core::{IdBits, ParseError, parse_decimal};
use mintage_schemes::{parse_ksuid, parse_ulid, parse_uuid};

/// The kind of thing an id names; made by [`entity!`](crate::entity).
///
/// The traits it asks for are those that `#[derive]` asks of a type parameter: so `#[derive(Debug)] struct Row<E: Entity>`
/// works as it would without one.
pub trait Entity: Copy + fmt::Debug + Ord + hash::Hash + 'static {
    /// The type of its ids, one of [`kind`](crate::kind).
    type Kind: Kind;
    /// Its name in the config.
    const NAME: &'static str;
}

/// Declares entities: `entity!(pub Order: Int = "orders");`
///
/// The kinds are `Int` (snowflake, segment), `Uuid` (uuidv4, uuidv7), `Ulid` and `Ksuid`. Whether the config agrees is checked
/// by [`Registry::minter`](crate::Registry::minter).
#[macro_export]
macro_rules! entity {
    ($($(#[$meta:meta])* $visibility:vis $name:ident : $kind:ident = $entity:literal);+ $(;)?) => {$(
        $(#[$meta])*
        #[doc = concat!("The entity `", $entity, "` of the config.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {}
        impl $crate::Entity for $name {
            type Kind = $crate::kind::$kind;
            const NAME: &'static str = $entity;
        }
    )+};
}

/// An id of one entity, as wide as its kind. Copy, ordered by value.
///
/// It has no `Display`: what leaves the process goes through a [`Minter`](crate::Minter), which alone knows whether it must
/// be encrypted. For logs there is `Debug`; for storage [`raw`](Id::raw), and serde by `#[serde(with = "mintage::raw")]`.
pub struct Id<E: Entity> {
    bits: <E::Kind as Kind>::Bits,
    entity: PhantomData<fn() -> E>,
}

/// The kinds an entity can have.
pub mod kind {
    /// 64-bit numbers: snowflake and segment. Raw type `u64`, at most 2^63 − 1.
    #[derive(Clone, Copy, Debug)]
    pub enum Int {}
    /// UUIDs of any version. Raw type [`uuid::Uuid`].
    #[derive(Clone, Copy, Debug)]
    pub enum Uuid {}
    /// ULIDs. Raw type [`ulid::Ulid`].
    #[derive(Clone, Copy, Debug)]
    pub enum Ulid {}
    /// KSUIDs. Raw type `svix_ksuid::Ksuid`.
    #[derive(Clone, Copy, Debug)]
    pub enum Ksuid {}
}

/// What a kind of id is outside: its raw type and its canonical text. Sealed.
pub trait Kind: sealed::Sealed + 'static {
    /// The width.
    type Bits: IdBits;
    /// The type that other libraries know.
    type Raw: Copy + fmt::Debug;
    /// Its name in [`entity!`](crate::entity).
    const NAME: &'static str;

    /// To the type that other libraries know.
    fn to_raw(bits: Self::Bits) -> Self::Raw;
    /// From it.
    ///
    /// # Errors
    /// [`ParseError::OutOfRange`] for numbers above 2^63 − 1: no column would hold them.
    fn from_raw(raw: Self::Raw) -> Result<Self::Bits, ParseError>;
    /// The canonical text, where no config says otherwise.
    ///
    /// # Errors
    /// Only those of `out`.
    fn write(bits: Self::Bits, out: &mut dyn fmt::Write) -> fmt::Result;
    /// Reads it.
    ///
    /// # Errors
    /// [`ParseError`].
    fn parse(text: &str) -> Result<Self::Bits, ParseError>;
    /// Whether a scheme of this name makes ids of this kind. Names that are not ours may make any.
    fn admits(scheme: &str) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::kind::Int {}
    impl Sealed for super::kind::Uuid {}
    impl Sealed for super::kind::Ulid {}
    impl Sealed for super::kind::Ksuid {}
}

impl<E: Entity> Id<E> {
    /// Wraps a raw id, as read from a column.
    ///
    /// # Errors
    /// [`ParseError::OutOfRange`] for numbers above 2^63 − 1.
    pub fn from_raw(raw: <E::Kind as Kind>::Raw) -> Result<Self, ParseError> {
        E::Kind::from_raw(raw).map(Self::from_bits)
    }

    /// The raw id, for a column.
    pub fn raw(self) -> <E::Kind as Kind>::Raw {
        E::Kind::to_raw(self.bits)
    }

    pub(crate) fn from_bits(bits: <E::Kind as Kind>::Bits) -> Self {
        Self { bits, entity: PhantomData }
    }

    pub(crate) fn bits(self) -> <E::Kind as Kind>::Bits {
        self.bits
    }
}

impl<E: Entity> fmt::Debug for Id<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Text<K: Kind>(K::Bits);
        impl<K: Kind> fmt::Display for Text<K> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                K::write(self.0, f)
            }
        }
        write!(f, "{}({})", E::NAME, Text::<E::Kind>(self.bits))
    }
}

impl<E: Entity> Clone for Id<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E: Entity> Copy for Id<E> {}
impl<E: Entity> PartialEq for Id<E> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}
impl<E: Entity> Eq for Id<E> {}
impl<E: Entity> PartialOrd for Id<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E: Entity> Ord for Id<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bits.cmp(&other.bits)
    }
}
impl<E: Entity> hash::Hash for Id<E> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl Kind for kind::Int {
    type Bits = u64;
    type Raw = u64;
    const NAME: &'static str = "Int";

    fn to_raw(bits: u64) -> u64 {
        bits
    }
    fn from_raw(raw: u64) -> Result<u64, ParseError> {
        if raw >> 63 == 0 { Ok(raw) } else { Err(ParseError::OutOfRange) }
    }
    fn write(bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{bits}")
    }
    fn parse(text: &str) -> Result<u64, ParseError> {
        parse_decimal(text, 63)
    }
    fn admits(_scheme: &str) -> bool {
        true
    }
}

impl Kind for kind::Uuid {
    type Bits = u128;
    type Raw = uuid::Uuid;
    const NAME: &'static str = "Uuid";

    fn to_raw(bits: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(bits)
    }
    fn from_raw(raw: uuid::Uuid) -> Result<u128, ParseError> {
        Ok(raw.as_u128())
    }
    fn write(bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", uuid::Uuid::from_u128(bits).as_hyphenated())
    }
    fn parse(text: &str) -> Result<u128, ParseError> {
        // Any version: a table on its way from UUIDv4 to UUIDv7 holds both.
        parse_uuid(text).map(|uuid| uuid.as_u128())
    }
    fn admits(scheme: &str) -> bool {
        scheme != "ulid"
    }
}

impl Kind for kind::Ulid {
    type Bits = u128;
    type Raw = ulid::Ulid;
    const NAME: &'static str = "Ulid";

    fn to_raw(bits: u128) -> ulid::Ulid {
        ulid::Ulid(bits)
    }
    fn from_raw(raw: ulid::Ulid) -> Result<u128, ParseError> {
        Ok(raw.0)
    }
    fn write(bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut text = [0; ulid::ULID_LEN];
        out.write_str(ulid::Ulid(bits).array_to_str(&mut text))
    }
    fn parse(text: &str) -> Result<u128, ParseError> {
        parse_ulid(text).map(|ulid| ulid.0)
    }
    fn admits(scheme: &str) -> bool {
        !scheme.starts_with("uuid")
    }
}

impl Kind for kind::Ksuid {
    type Bits = [u8; 20];
    type Raw = svix_ksuid::Ksuid;
    const NAME: &'static str = "Ksuid";

    fn to_raw(bits: [u8; 20]) -> svix_ksuid::Ksuid {
        <svix_ksuid::Ksuid as svix_ksuid::KsuidLike>::from_bytes(bits)
    }
    fn from_raw(raw: svix_ksuid::Ksuid) -> Result<[u8; 20], ParseError> {
        Ok(*svix_ksuid::KsuidLike::bytes(&raw))
    }
    fn write(bits: [u8; 20], out: &mut dyn fmt::Write) -> fmt::Result {
        mintage_schemes::write_ksuid(bits, out)
    }
    fn parse(text: &str) -> Result<[u8; 20], ParseError> {
        parse_ksuid(text).map(|ksuid| *svix_ksuid::KsuidLike::bytes(&ksuid))
    }
    fn admits(_scheme: &str) -> bool {
        true
    }
}

/// Serde for ids as they are stored, for use inside the house: `#[serde(with = "mintage::raw")]`.
///
/// Human-readable formats hold the canonical text, always a string: a JSON number would be rounded by its reader. Binary
/// formats hold the integer, or 16 or 20 bytes. A number where a string belongs is refused in every combination.
///
/// Inside `flatten`, `tag` and `untagged` serde forgets which format it reads, and a number could be JSON's as well. So there
/// an id of kind `Int` is refused from binary formats; name its field outside of them.
pub mod raw {
    use std::{fmt, marker::PhantomData};

    use mintage_core::{Bits, IdBits};
    use serde::{Deserializer, Serializer, de};

    use super::{Entity, Id, Kind};

    /// Writes an id.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<E: Entity, S: Serializer>(id: &Id<E>, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let mut text = String::new();
            E::Kind::write(id.bits(), &mut text).map_err(serde::ser::Error::custom)?;
            return serializer.serialize_str(&text);
        }
        match id.bits().to_any() {
            mintage_core::AnyId::Int(number) => serializer.serialize_u64(number),
            mintage_core::AnyId::Wide(number) => serializer.serialize_bytes(&number.to_be_bytes()),
            mintage_core::AnyId::Long(bytes) => serializer.serialize_bytes(&bytes),
            _ => Err(serde::ser::Error::custom("an id of a width this version does not know")),
        }
    }

    /// Reads an id.
    ///
    /// # Errors
    /// Those of the format, and a text or number that is no id of this kind.
    pub fn deserialize<'de, E: Entity, D: Deserializer<'de>>(deserializer: D) -> Result<Id<E>, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_str(TextVisitor(PhantomData));
        }
        match <E::Kind as Kind>::Bits::KIND {
            Bits::Int => deserializer.deserialize_u64(BinaryVisitor(PhantomData)),
            _ => deserializer.deserialize_bytes(BinaryVisitor(PhantomData)),
        }
    }

    struct TextVisitor<E>(PhantomData<E>);

    impl<E: Entity> de::Visitor<'_> for TextVisitor<E> {
        type Value = Id<E>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an id of {} as a string", E::NAME)
        }
        fn visit_str<R: de::Error>(self, text: &str) -> Result<Id<E>, R> {
            E::Kind::parse(text).map(Id::from_bits).map_err(R::custom)
        }
        /// Of a binary format, whose kind serde has forgotten inside `flatten`, `tag` and `untagged`.
        fn visit_bytes<R: de::Error>(self, bytes: &[u8]) -> Result<Id<E>, R> {
            BinaryVisitor(PhantomData).visit_bytes(bytes)
        }
    }

    struct BinaryVisitor<E>(PhantomData<E>);

    impl<E: Entity> BinaryVisitor<E> {
        fn read<R: de::Error>(any: mintage_core::AnyId) -> Result<Id<E>, R> {
            let bits = <E::Kind as Kind>::Bits::from_any(any).ok_or_else(|| R::custom("an id of another width"))?;
            Id::from_raw(E::Kind::to_raw(bits)).map_err(R::custom)
        }
    }

    impl<'de, E: Entity> de::Visitor<'de> for BinaryVisitor<E> {
        type Value = Id<E>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match <E::Kind as Kind>::Bits::KIND {
                Bits::Int => write!(f, "an id of {} as an unsigned number below 2^63", E::NAME),
                Bits::Wide => write!(f, "an id of {} as 16 bytes", E::NAME),
                _ => write!(f, "an id of {} as 20 bytes", E::NAME),
            }
        }
        fn visit_u64<R: de::Error>(self, number: u64) -> Result<Id<E>, R> {
            Self::read(mintage_core::AnyId::Int(number))
        }
        fn visit_i64<R: de::Error>(self, number: i64) -> Result<Id<E>, R> {
            let number = u64::try_from(number).map_err(|_| R::custom(format!("{number} is negative: no id is")))?;
            self.visit_u64(number)
        }
        fn visit_bytes<R: de::Error>(self, bytes: &[u8]) -> Result<Id<E>, R> {
            let any = match bytes.len() {
                16 => bytes.try_into().ok().map(|bytes| mintage_core::AnyId::Wide(u128::from_be_bytes(bytes))),
                20 => bytes.try_into().ok().map(mintage_core::AnyId::Long),
                _ => None,
            };
            Self::read(any.ok_or_else(|| R::invalid_length(bytes.len(), &self))?)
        }
        fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Id<E>, A::Error> {
            // Formats without a bytes type of their own hand them over one by one.
            let mut bytes = Vec::with_capacity(20);
            while let Some(byte) = items.next_element::<u8>()? {
                if bytes.len() == 20 {
                    return Err(de::Error::invalid_length(21, &self));
                }
                bytes.push(byte);
            }
            self.visit_bytes(&bytes)
        }
    }
}
