//! The three widths an id can have.

use std::{fmt, hash::Hash};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
    impl Sealed for [u8; 20] {}
}

/// The raw value of an id: `u64`, `u128` or `[u8; 20]`. Sealed: these three fit every database.
///
/// Ordering is the ordering of the id: numbers by value, bytes from the first.
pub trait IdBits: sealed::Sealed + Copy + Ord + Hash + fmt::Debug + Default + Send + Sync + 'static {
    /// Which of the three this is.
    const KIND: Bits;
    /// The same value, its width told at run time.
    fn to_any(self) -> AnyId;
    /// The value, if `any` has this width.
    fn from_any(any: AnyId) -> Option<Self>;
}

/// A width, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bits {
    /// `u64`; at most 63 bits are ever minted, because databases keep signed integers.
    Int,
    /// `u128`: UUID and ULID.
    Wide,
    /// `[u8; 20]`, big-endian: KSUID.
    Long,
}

/// An id of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AnyId {
    /// 64 bits.
    Int(u64),
    /// 128 bits.
    Wide(u128),
    /// 160 bits, big-endian.
    Long([u8; 20]),
}

impl AnyId {
    /// Which width it has.
    pub fn kind(&self) -> Bits {
        match self {
            Self::Int(_) => Bits::Int,
            Self::Wide(_) => Bits::Wide,
            Self::Long(_) => Bits::Long,
        }
    }

    /// The value as lower-case hexadecimal of its full width: 16, 32 or 40 digits.
    pub fn to_hex(&self) -> String {
        match self {
            Self::Int(value) => format!("{value:016x}"),
            Self::Wide(value) => format!("{value:032x}"),
            Self::Long(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl IdBits for u64 {
    const KIND: Bits = Bits::Int;
    fn to_any(self) -> AnyId {
        AnyId::Int(self)
    }
    fn from_any(any: AnyId) -> Option<Self> {
        match any {
            AnyId::Int(value) => Some(value),
            _ => None,
        }
    }
}

impl IdBits for u128 {
    const KIND: Bits = Bits::Wide;
    fn to_any(self) -> AnyId {
        AnyId::Wide(self)
    }
    fn from_any(any: AnyId) -> Option<Self> {
        match any {
            AnyId::Wide(value) => Some(value),
            _ => None,
        }
    }
}

impl IdBits for [u8; 20] {
    const KIND: Bits = Bits::Long;
    fn to_any(self) -> AnyId {
        AnyId::Long(self)
    }
    fn from_any(any: AnyId) -> Option<Self> {
        match any {
            AnyId::Long(value) => Some(value),
            _ => None,
        }
    }
}
