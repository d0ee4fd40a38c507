//! Ids of every width as three 64-bit limbs, so that one constant-time path serves all of them.
//!
//! Limbs of one width compare as their ids do: numbers by value, bytes from the first.

use mintage_core::{AnyId, Bits};
use subtle::{Choice, ConditionallySelectable};

/// The width of an entity's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    /// 64 bits.
    Int,
    /// 128 bits.
    Wide,
    /// 160 bits.
    Long,
}

impl Width {
    /// `None` for a width this code does not know yet.
    pub(crate) fn of(bits: Bits) -> Option<Self> {
        match bits {
            Bits::Int => Some(Self::Int),
            Bits::Wide => Some(Self::Wide),
            Bits::Long => Some(Self::Long),
            _ => None,
        }
    }

    /// What stands for it in a key's label.
    pub(crate) fn param(self) -> &'static str {
        match self {
            Self::Int => "w64",
            Self::Wide => "w128",
            Self::Long => "w160",
        }
    }

    /// How many bytes such an id has.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Int => 8,
            Self::Wide => 16,
            Self::Long => 20,
        }
    }
}

/// An id, right-aligned: 64 bits fill the last limb; 160 bits are 64, 64 and 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Limbs([u64; 3]);

impl Limbs {
    /// A 64-bit id.
    pub(crate) fn int(value: u64) -> Self {
        Self([0, 0, value])
    }

    /// A 128-bit id.
    pub(crate) fn wide(value: u128) -> Self {
        // Each cast keeps the half that is meant.
        Self([0, (value >> 64) as u64, value as u64])
    }

    /// A 160-bit id: its first, second and (32-bit) third part.
    pub(crate) fn long(first: u64, second: u64, third: u32) -> Self {
        Self([first, second, u64::from(third)])
    }

    /// The limbs of `id`, if it has this width.
    pub(crate) fn of(id: AnyId, width: Width) -> Option<Self> {
        match (id, width) {
            (AnyId::Int(value), Width::Int) => Some(Self::int(value)),
            (AnyId::Wide(value), Width::Wide) => Some(Self::wide(value)),
            (AnyId::Long(bytes), Width::Long) => {
                let part = |range: std::ops::Range<usize>| {
                    bytes[range].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
                };
                Some(Self([part(0..8), part(8..16), part(16..20)]))
            }
            _ => None,
        }
    }

    /// Back to an id.
    pub(crate) fn to_id(self, width: Width) -> AnyId {
        match width {
            Width::Int => AnyId::Int(self.to_int()),
            Width::Wide => AnyId::Wide(self.to_wide()),
            Width::Long => {
                let mut bytes = [0; 20];
                bytes[..8].copy_from_slice(&self.0[0].to_be_bytes());
                bytes[8..16].copy_from_slice(&self.0[1].to_be_bytes());
                bytes[16..].copy_from_slice(&self.0[2].to_be_bytes()[4..]);
                AnyId::Long(bytes)
            }
        }
    }

    /// The value of a 64-bit id.
    pub(crate) fn to_int(self) -> u64 {
        self.0[2]
    }

    /// The value of a 128-bit id.
    pub(crate) fn to_wide(self) -> u128 {
        u128::from(self.0[1]) << 64 | u128::from(self.0[2])
    }

    /// Whether it is `other` or above, in constant time: what is compared here may have been opened with a key.
    pub(crate) fn reaches(self, other: Self) -> Choice {
        let mut borrow = 0;
        for (ours, theirs) in self.0.iter().zip(other.0).rev() {
            let (rest, below) = ours.overflowing_sub(theirs);
            let (_, below_with_borrow) = rest.overflowing_sub(borrow);
            borrow = u64::from(below | below_with_borrow);
        }
        // The borrow is 0 or 1.
        !Choice::from(borrow as u8)
    }

    /// All three parts.
    pub(crate) fn parts(self) -> [u64; 3] {
        self.0
    }
}

impl ConditionallySelectable for Limbs {
    fn conditional_select(a: &Self, b: &Self, choice: Choice) -> Self {
        Self([
            u64::conditional_select(&a.0[0], &b.0[0], choice),
            u64::conditional_select(&a.0[1], &b.0[1], choice),
            u64::conditional_select(&a.0[2], &b.0[2], choice),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaching_is_comparing() {
        let edges = [0, 1, 2, 1 << 31, 1 << 63, u64::MAX - 1, u64::MAX];
        let all =
            || edges.into_iter().flat_map(|a| edges.into_iter().flat_map(move |b| edges.map(|c| Limbs([a, b, c]))));
        for one in all() {
            for other in all() {
                assert_eq!(bool::from(one.reaches(other)), one >= other, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn limbs_are_the_id_and_sort_as_it_does() {
        let mut long = [0; 20];
        for (at, byte) in long.iter_mut().enumerate() {
            *byte = at as u8 + 1;
        }
        for (id, width) in [
            (AnyId::Int(u64::MAX - 1), Width::Int),
            (AnyId::Wide(u128::MAX - 1), Width::Wide),
            (AnyId::Wide(7), Width::Wide),
            (AnyId::Long(long), Width::Long),
        ] {
            assert_eq!(Limbs::of(id, width).map(|limbs| limbs.to_id(width)), Some(id));
        }
        assert_eq!(Limbs::of(AnyId::Int(1), Width::Wide), None);
        let mut next = long;
        next[19] += 1;
        assert!(Limbs::of(AnyId::Long(long), Width::Long) < Limbs::of(AnyId::Long(next), Width::Long));
        assert!(Limbs::wide(1 << 64) > Limbs::wide(u128::from(u64::MAX)));
    }
}
