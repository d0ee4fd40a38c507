//! Links people type: FF1 over the bits of a 64-bit id, with 32 zero bits before it to recognise, or none.

use subtle::ConstantTimeEq;

use crate::public::{
    Alphabet, FormError, PublicIdError, PublicText,
    ff1::Ff1,
    form::Redundancy,
    prefixed::Prefixed,
    rotation::{KeyPlan, Keyset, Ownership},
    width::Limbs,
};

/// The longest sealed value: 32 bits before a 64-bit id.
const SEALED_LEN_MAX: usize = 12;

/// Short texts of one entity.
pub(crate) struct Shorts {
    text: Prefixed,
    /// 8 or 12.
    bytes: usize,
    keys: Keyset<Ff1>,
}

impl Shorts {
    pub(crate) const SCHEME: &str = "tok-ff1";

    pub(crate) fn new(prefix: &str, redundancy: Redundancy, plan: &KeyPlan<'_>) -> Result<Self, FormError> {
        let bits = 64 + redundancy.bits();
        let keys = plan.keyset(|key| Ff1::keyed(key, 2, bits, plan.tweak()))?;
        let bytes = bits as usize / 8;
        Ok(Self { text: Prefixed::new(prefix, Alphabet::Crockford, bytes), bytes, keys })
    }

    pub(crate) fn encode(&self, id: Limbs) -> Result<PublicText, PublicIdError> {
        let half_bits = self.half_bits();
        let (left, right) = self.keys.owner_of(id)?.encrypt(split(u128::from(id.to_int()), half_bits));
        let sealed = join(left, right, half_bits);
        // The value fills the last `bytes` bytes of its sixteen.
        self.text.write(&sealed.to_be_bytes()[16 - self.bytes..])
    }

    pub(crate) fn decode(&self, text: &str) -> Result<Limbs, PublicIdError> {
        let sealed = self.sealed(text)?;
        self.keys.open(|cipher, _| self.open(cipher, sealed))
    }

    pub(crate) fn decode_former(&self, text: &str) -> Result<Limbs, PublicIdError> {
        let sealed = self.sealed(text)?;
        self.keys.open_former(|cipher, _| self.open(cipher, sealed))
    }

    pub(crate) fn ownership(&self) -> &Ownership {
        self.keys.ownership()
    }

    fn half_bits(&self) -> u32 {
        self.bytes as u32 * 4
    }

    fn open(&self, cipher: &Ff1, sealed: u128) -> (Limbs, subtle::Choice) {
        let half_bits = self.half_bits();
        let (left, right) = cipher.decrypt(split(sealed, half_bits));
        let plain = join(left, right, half_bits);
        // The casts keep the id and the bits before it.
        (Limbs::int(plain as u64), ((plain >> 64) as u64).ct_eq(&0))
    }

    fn sealed(&self, text: &str) -> Result<u128, PublicIdError> {
        let mut sealed = [0; SEALED_LEN_MAX];
        self.text.read(text, &mut sealed)?;
        Ok(sealed.iter().take(self.bytes).fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }
}

/// The left and the right half; halves have at most 63 bits.
pub(crate) fn split(value: u128, half_bits: u32) -> (u64, u64) {
    let mask = (1u128 << half_bits) - 1;
    // Masked to at most 63 bits.
    (((value >> half_bits) & mask) as u64, (value & mask) as u64)
}

/// The inverse of [`split`].
pub(crate) fn join(left: u64, right: u64, half_bits: u32) -> u128 {
    u128::from(left) << half_bits | u128::from(right)
}
