//! A UUIDv8 in place of the id, for interfaces that insist on a UUID: FF1 over its 122 free bits.

use subtle::{Choice, ConstantTimeEq};

use crate::public::{
    EncodeError, FormError, Malformed, PublicIdError, PublicText,
    ff1::Ff1,
    form::UuidPlain,
    rotation::{KeyPlan, Keyset, Ownership},
    short::{join, split},
    width::{Limbs, Width},
};

/// A UUID less its version and variant.
const FREE_BITS: u32 = 122;
/// What `u7k4` leaves for the key version, above everything else.
const VERSION_BITS: u32 = 4;
/// The largest key version those bits can carry.
const VERSION_MAX: u32 = (1 << VERSION_BITS) - 1;
/// Zero bits below a `u7k4` plaintext: what its 42-bit time saves, less the version.
const SPARE_BITS: u32 = 2;
/// A UUIDv7 or ULID whose time fits 42 bits (until 2109) stays below this, version and variant aside.
const TIME42_END: u128 = 1 << (42 + 12 + 62);
/// A ULID whose time fits 42 bits stays below this.
const ULID42_END: u128 = 1 << FREE_BITS;
/// UUIDs are 36 characters: 8-4-4-4-12.
const TEXT_LEN: usize = 36;

/// Public UUIDs of one entity.
pub(crate) struct Uuids {
    plain: UuidPlain,
    half_bits: u32,
    keys: Keyset<Ff1>,
}

impl Uuids {
    pub(crate) const SCHEME: &str = "uuid-ff1";

    pub(crate) fn new(plain: UuidPlain, plan: &KeyPlan<'_>) -> Result<Self, FormError> {
        let highest = plan.ownership.versions().into_iter().max();
        if let Some(version) = highest.filter(|version| plain == UuidPlain::U7K4 && *version > VERSION_MAX) {
            let message = format!("u7k4 has room for key versions up to {VERSION_MAX}, not {version}: use a token");
            return Err(FormError::new("uuid", message));
        }
        let bits = if plain == UuidPlain::U7K4 { FREE_BITS - VERSION_BITS } else { FREE_BITS };
        let keys = plan.keyset(|key| Ff1::keyed(key, 2, bits, plan.tweak()))?;
        Ok(Self { plain, half_bits: bits / 2, keys })
    }

    pub(crate) fn width(&self) -> Width {
        if self.plain == UuidPlain::I64 { Width::Int } else { Width::Wide }
    }

    pub(crate) fn encode(&self, id: Limbs) -> Result<PublicText, PublicIdError> {
        let plain = self.plaintext(id)?;
        let (left, right) = self.keys.owner_of(id)?.encrypt(split(plain, self.half_bits));
        let sealed = join(left, right, self.half_bits);
        spell(match self.plain {
            UuidPlain::U7K4 => {
                let version = self.keys.ownership().owner_of(id);
                u128::from(version) << (FREE_BITS - VERSION_BITS) | sealed
            }
            _ => sealed,
        })
    }

    pub(crate) fn decode(&self, text: &str) -> Result<Limbs, PublicIdError> {
        let sealed = read(text.as_bytes())?;
        self.keys.open(|cipher, version| self.open(cipher, version, sealed))
    }

    pub(crate) fn decode_former(&self, text: &str) -> Result<Limbs, PublicIdError> {
        let sealed = read(text.as_bytes())?;
        self.keys.open_former(|cipher, version| self.open(cipher, version, sealed))
    }

    pub(crate) fn ownership(&self) -> &Ownership {
        self.keys.ownership()
    }

    fn plaintext(&self, id: Limbs) -> Result<u128, EncodeError> {
        match self.plain {
            UuidPlain::I64 => Ok(u128::from(id.to_int())),
            UuidPlain::U7 => free_bits(id.to_wide(), 7).ok_or(EncodeError::OutOfRange),
            UuidPlain::U7K4 => free_bits(id.to_wide(), 7)
                .filter(|bits| *bits < TIME42_END)
                .map(|bits| bits << SPARE_BITS)
                .ok_or(EncodeError::OutOfRange),
            UuidPlain::Ulid42 => Some(id.to_wide()).filter(|ulid| *ulid < ULID42_END).ok_or(EncodeError::OutOfRange),
        }
    }

    fn open(&self, cipher: &Ff1, version: u32, sealed: u128) -> (Limbs, Choice) {
        let (left, right) = cipher.decrypt(split(sealed, self.half_bits));
        let plain = join(left, right, self.half_bits);
        match self.plain {
            // The casts keep the id and the 58 bits before it.
            UuidPlain::I64 => (Limbs::int(plain as u64), ((plain >> 64) as u64).ct_eq(&0)),
            UuidPlain::U7 => (Limbs::wide(uuid_of(plain, 7)), Choice::from(1)),
            UuidPlain::U7K4 => {
                // The cast keeps the four bits that are left.
                let named = (sealed >> (FREE_BITS - VERSION_BITS)) as u32;
                let spare = (plain & ((1 << SPARE_BITS) - 1)) as u32;
                (Limbs::wide(uuid_of(plain >> SPARE_BITS, 7)), ((named ^ version) | spare).ct_eq(&0))
            }
            UuidPlain::Ulid42 => (Limbs::wide(plain), Choice::from(1)),
        }
    }
}

/// A UUID less its version and variant; `None` if it has others than `version` and RFC 9562's.
fn free_bits(uuid: u128, version: u128) -> Option<u128> {
    let (found, variant) = (uuid >> 76 & 0xf, uuid >> 62 & 0b11);
    let bits = (uuid >> 80) << 74 | (uuid >> 64 & 0xfff) << 62 | (uuid & ((1 << 62) - 1));
    (found == version && variant == 0b10).then_some(bits)
}

/// The inverse of [`free_bits`].
fn uuid_of(bits: u128, version: u128) -> u128 {
    (bits >> 74) << 80 | version << 76 | (bits >> 62 & 0xfff) << 64 | 0b10 << 62 | (bits & ((1 << 62) - 1))
}

fn is_hyphen(at: usize) -> bool {
    matches!(at, 8 | 13 | 18 | 23)
}

fn spell(bits: u128) -> Result<PublicText, PublicIdError> {
    let mut rest = uuid_of(bits, 8);
    PublicText::compose("", TEXT_LEN, |text| {
        for (at, symbol) in text.iter_mut().enumerate().rev() {
            if is_hyphen(at) {
                *symbol = b'-';
            } else {
                *symbol = b"0123456789abcdef"[(rest & 0xf) as usize];
                rest >>= 4;
            }
        }
    })
}

/// Lower case and hyphens only: the `uuid` crate would take braces, URNs and upper case too.
fn read(text: &[u8]) -> Result<u128, Malformed> {
    if text.len() != TEXT_LEN {
        return Err(Malformed::Length);
    }
    let uuid = text.iter().enumerate().try_fold(0u128, |value, (at, symbol)| match symbol {
        b'-' if is_hyphen(at) => Ok(value),
        _ if is_hyphen(at) => Err(Malformed::Separator),
        b'0'..=b'9' => Ok(value << 4 | u128::from(symbol - b'0')),
        b'a'..=b'f' => Ok(value << 4 | u128::from(symbol - b'a' + 10)),
        _ => Err(Malformed::Alphabet),
    })?;
    free_bits(uuid, 8).ok_or(Malformed::NonCanonical)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn free_bits_and_back(bits in 0u128..1 << FREE_BITS, other: u128) {
            for version in [7, 8] {
                prop_assert_eq!(free_bits(uuid_of(bits, version), version), Some(bits));
            }
            if let Some(bits) = free_bits(other, 7) {
                prop_assert_eq!(uuid_of(bits, 7), other);
            }
            let text = spell(bits).unwrap();
            prop_assert_eq!(read(text.as_bytes()), Ok(bits));
            let known = uuid::Uuid::from_u128(uuid_of(bits, 8));
            prop_assert_eq!(known.get_version_num(), 8);
            prop_assert_eq!(known.get_variant(), uuid::Variant::RFC4122);
            prop_assert_eq!(known.to_string(), text.to_string());
        }
    }
}
