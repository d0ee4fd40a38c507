//! FF1 (NIST SP 800-38G) for halves below 2^63: no big integers, no floats, no allocation.
//!
//! Both halves are plain numbers. Everything a round shares with the others, the parameter block, the tweak and its
//! padding, is absorbed once when the key is set, so a round costs one AES block and one reduction.
//!
//! A round trip proves nothing about such a cipher: it is checked on the samples of NIST and against another
//! implementation.

use aes::{
    Aes256,
    cipher::{BlockCipherEncrypt, KeyInit, consts::U16},
};

use crate::public::FormError;

/// How many rounds the standard asks for.
const ROUNDS: u32 = 10;
/// The least number of texts the standard allows (SP 800-38G Rev. 1): below it the cipher can be read off.
pub(crate) const DOMAIN_MIN: u64 = 1_000_000;
/// Half moduli stay at or below this, so that a sum of two residues fits 64 bits.
const MODULUS_MAX: u64 = 1 << 63;

/// A permutation of the numerals of one length under one key and one tweak.
pub(crate) struct Ff1<C = Aes256> {
    cipher: C,
    /// radix^u and radix^v: what the left and the right half stay below.
    left: Modulus,
    right: Modulus,
    /// The radix is 2: reduce by masking.
    binary: bool,
    /// b of the standard: how many bytes a half takes.
    half_bytes: u32,
    /// d of the standard is 8 or 12 bytes: how far a round's block is shifted down to keep the first d of them.
    drop_bits: u32,
    /// The block that every round starts from: all that was absorbed so far, with the last block's fixed part.
    start: u128,
}

/// Reduces by multiplication: quicker than a division, and as quick for every value.
#[derive(Clone, Copy)]
struct Modulus {
    value: u64,
    /// The quotient of 2^64 by the value, rounded down.
    reciprocal: u64,
}

impl Ff1 {
    /// As [`new`](Ff1::new), under an AES-256 key.
    pub(crate) fn keyed(key: &[u8; 32], radix: u16, digits: u32, tweak: &[u8]) -> Result<Self, FormError> {
        // Forms are checked before: this speaks of a fault of ours, but at start, where it can be told.
        let fault = || FormError::new("form", format!("no permutation of {digits} digits of radix {radix} is safe"));
        Self::new(Aes256::new(key.into()), radix, digits, tweak).ok_or_else(fault)
    }
}

impl<C: BlockCipherEncrypt<BlockSize = U16>> Ff1<C> {
    /// Numerals of `digits` digits of `radix`. `None` if a half does not fit 63 bits, or the domain is below
    /// [`DOMAIN_MIN`], or the tweak is longer than 2^32 bytes.
    pub(crate) fn new(cipher: C, radix: u16, digits: u32, tweak: &[u8]) -> Option<Self> {
        let (u, v) = (digits / 2, digits - digits / 2);
        let (left, right) = (Modulus::of(radix, u)?, Modulus::of(radix, v)?);
        if u128::from(left.value) * u128::from(right.value) < u128::from(DOMAIN_MIN) {
            return None;
        }
        // ceil(v * log2(radix)) is the bit length of radix^v - 1, which integers can tell.
        let half_bytes = (u64::BITS - (right.value - 1).leading_zeros()).div_ceil(8);
        let output_bytes = 4 * half_bytes.div_ceil(4) + 4;
        let mut parameters = [0; 16];
        parameters[..3].copy_from_slice(&[1, 2, 1]);
        parameters[3..6].copy_from_slice(&u32::from(radix).to_be_bytes()[1..]);
        parameters[6] = ROUNDS as u8;
        parameters[7] = u.to_be_bytes()[3];
        parameters[8..12].copy_from_slice(&digits.to_be_bytes());
        parameters[12..].copy_from_slice(&u32::try_from(tweak.len()).ok()?.to_be_bytes());
        let first = encrypt(&cipher, u128::from_be_bytes(parameters));
        let start = absorb(&cipher, first, tweak, 1 + half_bytes as usize);
        let drop_bits = 128 - 8 * output_bytes;
        Some(Self { cipher, left, right, binary: radix == 2, half_bytes, drop_bits, start })
    }

    /// What the left half stays below.
    #[cfg(test)]
    pub(crate) fn left(&self) -> u64 {
        self.left.value
    }

    /// What the right half stays below.
    pub(crate) fn right(&self) -> u64 {
        self.right.value
    }

    /// Encrypts a numeral, given as its left and right half.
    pub(crate) fn encrypt(&self, (mut left, mut right): (u64, u64)) -> (u64, u64) {
        for round in (0..ROUNDS).step_by(2) {
            left = self.left.plus(left, self.round(round, right, self.left));
            right = self.right.plus(right, self.round(round + 1, left, self.right));
        }
        (left, right)
    }

    /// The inverse of [`encrypt`](Self::encrypt).
    pub(crate) fn decrypt(&self, (mut left, mut right): (u64, u64)) -> (u64, u64) {
        for round in (0..ROUNDS).step_by(2).rev() {
            right = self.right.minus(right, self.round(round + 1, left, self.right));
            left = self.left.minus(left, self.round(round, right, self.left));
        }
        (left, right)
    }

    /// The round function, already reduced.
    fn round(&self, round: u32, half: u64, modulus: Modulus) -> u64 {
        let number = u128::from(round) << (8 * self.half_bytes);
        let output = encrypt(&self.cipher, self.start ^ number ^ u128::from(half)) >> self.drop_bits;
        if self.binary {
            // The cast keeps the low 64 bits, and the mask at most 63 of them.
            output as u64 & (modulus.value - 1)
        } else if self.drop_bits >= 64 {
            // Eight bytes are kept.
            modulus.reduce(output as u64)
        } else {
            // Below the modulus, which fits 64 bits.
            (output % u128::from(modulus.value)) as u64
        }
    }
}

impl Modulus {
    /// radix^digits; `None` beyond [`MODULUS_MAX`] and below 2.
    fn of(radix: u16, digits: u32) -> Option<Self> {
        let value = u64::from(radix).checked_pow(digits).filter(|value| (2..=MODULUS_MAX).contains(value))?;
        // Below 2^64, since the value is at least 2.
        Some(Self { value, reciprocal: ((1u128 << 64) / u128::from(value)) as u64 })
    }

    /// The estimated quotient is the right one or one less: the reciprocal is short of the true one by less than 2^-64.
    fn reduce(self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.value;
        if rest >= self.value { rest - self.value } else { rest }
    }

    /// Both below the value, which is at most 2^63: the sum fits.
    fn plus(self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        if sum >= self.value { sum - self.value } else { sum }
    }

    fn minus(self, a: u64, b: u64) -> u64 {
        if a >= b { a - b } else { a + (self.value - b) }
    }
}

/// Absorbs the tweak and its zero padding, up to the `free` last bytes, which each round fills in.
fn absorb<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: &C, mut state: u128, tweak: &[u8], free: usize) -> u128 {
    let blocks = (tweak.len() + free).div_ceil(16);
    for at in 0..blocks {
        let mut block = [0; 16];
        for (byte, given) in block.iter_mut().zip(tweak.iter().skip(16 * at)) {
            *byte = *given;
        }
        state ^= u128::from_be_bytes(block);
        if at + 1 < blocks {
            state = encrypt(cipher, state);
        }
    }
    state
}

fn encrypt<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: &C, block: u128) -> u128 {
    let mut block = block.to_be_bytes().into();
    cipher.encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

#[cfg(test)]
mod tests {
    use aes::{Aes128, Aes192};
    use fpe::ff1::{BinaryNumeralString, FF1, FlexibleNumeralString};
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 32] = [
        0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c, 0xef, 0x43,
        0x59, 0xd8, 0xd5, 0x80, 0xaa, 0x4f, 0x7f, 0x03, 0x6d, 0x6f, 0x04, 0xfc, 0x6a, 0x94,
    ];

    /// Encrypts a text of digits and checks the way back.
    fn encrypt_text<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: C, radix: u16, tweak: &[u8], text: &str) -> String {
        let digits = text.len() as u32;
        let ff1 = Ff1::new(cipher, radix, digits, tweak).unwrap();
        let (u, v) = (text.len() / 2, text.len() - text.len() / 2);
        let half = |text: &str| u64::from_str_radix(text, u32::from(radix)).unwrap();
        let plain = (half(&text[..u]), half(&text[u..]));
        let sealed = ff1.encrypt(plain);
        assert!(sealed.0 < ff1.left() && sealed.1 < ff1.right());
        assert_eq!(ff1.decrypt(sealed), plain);
        let spell = |mut half: u64, width: usize| {
            let mut text = vec![b'0'; width];
            for digit in text.iter_mut().rev() {
                *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(half % u64::from(radix)) as usize];
                half /= u64::from(radix);
            }
            String::from_utf8(text).unwrap()
        };
        spell(sealed.0, u) + &spell(sealed.1, v)
    }

    fn with_every_key(radix: u16, tweak: &[u8], text: &str) -> [String; 3] {
        [
            encrypt_text(Aes128::new_from_slice(&KEY[..16]).unwrap(), radix, tweak, text),
            encrypt_text(Aes192::new_from_slice(&KEY[..24]).unwrap(), radix, tweak, text),
            encrypt_text(Aes256::new_from_slice(&KEY).unwrap(), radix, tweak, text),
        ]
    }

    #[test]
    fn nist_samples() {
        assert_eq!(with_every_key(10, b"", "0123456789"), ["2433477484", "2830668132", "6657667009"]);
        assert_eq!(with_every_key(10, b"9876543210", "0123456789"), ["6124200773", "2496655549", "1001623463"]);
        let tweak = [0x37, 0x37, 0x37, 0x37, 0x70, 0x71, 0x72, 0x73, 0x37, 0x37, 0x37];
        assert_eq!(
            with_every_key(36, &tweak, "0123456789abcdefghi"),
            ["a9tv40mll9kdu509eum", "xbj3kv35jrawxv32ysr", "xs8a0azh2avyalyzuwd"]
        );
    }

    #[test]
    fn shapes_that_are_unsafe_or_too_wide_are_refused() {
        let shape = |radix, digits| Ff1::new(Aes256::new_from_slice(&KEY).unwrap(), radix, digits, b"order").is_some();
        assert!(shape(10, 6) && !shape(10, 5), "a million texts are the least");
        assert!(shape(2, 20) && !shape(2, 19));
        assert!(shape(2, 126) && !shape(2, 127), "halves of 63 bits are the widest");
        assert!(shape(10, 36) && !shape(10, 38));
        assert!(!shape(0, 10) && !shape(1, 10));
    }

    #[test]
    fn reduction_is_division() {
        let edges = |value: u64| {
            [0, 1, value - 1, value, value + 1, (value - 1) * 2 + 1, u64::MAX - value, u64::MAX - 1, u64::MAX]
        };
        for (radix, digits) in (2..=62).flat_map(|radix| (1..=63).map(move |digits| (radix, digits))) {
            let Some(modulus) = Modulus::of(radix, digits) else { continue };
            let multiples = (0..200).map(|n| (u64::MAX / modulus.value).wrapping_sub(n).wrapping_mul(modulus.value));
            for number in edges(modulus.value)
                .into_iter()
                .chain(multiples.flat_map(|m| [m.wrapping_sub(1), m, m.wrapping_add(1)]))
            {
                assert_eq!(modulus.reduce(number), number % modulus.value, "{number} mod {}", modulus.value);
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_fpe_crate_in_every_radix(
            key: [u8; 32], radix in prop_oneof![Just(2u16), Just(10), 2u16..=62],
            seed in proptest::collection::vec(any::<u16>(), 4..=126), tweak in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            // As long as both halves fit.
            let most = (1..=126).rev().find(|most| u64::from(radix).checked_pow(most / 2 + most % 2).is_some_and(|m| m <= MODULUS_MAX));
            let length = seed.len().min(most.unwrap() as usize);
            let digits: Vec<u16> = seed[..length].iter().map(|digit| digit % radix).collect();
            let Some(ours) = Ff1::new(Aes256::new(&key.into()), radix, length as u32, &tweak) else { return Ok(()) };
            let theirs = FF1::<Aes256>::new(&key, u32::from(radix)).unwrap();
            let expected: Vec<u16> = theirs.encrypt(&tweak, &FlexibleNumeralString::from(digits.clone())).unwrap().into();
            let number = |digits: &[u16]| digits.iter().fold(0, |n, digit| n * u64::from(radix) + u64::from(*digit));
            let halves = |digits: &[u16]| (number(&digits[..length / 2]), number(&digits[length / 2..]));
            prop_assert_eq!(ours.encrypt(halves(&digits)), halves(&expected));
            prop_assert_eq!(ours.decrypt(halves(&expected)), halves(&digits));
        }

        #[test]
        fn agrees_with_the_fpe_crate_on_bits(key: [u8; 32], plain: u128, tweak in proptest::collection::vec(any::<u8>(), 0..40)) {
            for bits in [64u32, 96] {
                let ours = Ff1::new(Aes256::new(&key.into()), 2, bits, &tweak).unwrap();
                let theirs = FF1::<Aes256>::new(&key, 2).unwrap();
                // The other crate reads its bytes, and the bits in each, from the least significant end; FF1 from the most.
                let bytes: Vec<u8> = (plain << (128 - bits)).to_be_bytes()[..bits as usize / 8]
                    .iter().map(|byte| byte.reverse_bits()).collect();
                let sealed: Vec<u8> = theirs.encrypt(&tweak, &BinaryNumeralString::from_bytes_le(&bytes)).unwrap().to_bytes_le()
                    .iter().map(|byte| byte.reverse_bits()).collect();
                let expected = sealed.iter().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
                let half = bits / 2;
                let mask = u64::MAX >> (64 - half);
                let split = |value: u128| ((value >> half) as u64 & mask, value as u64 & mask);
                prop_assert_eq!(ours.encrypt(split(plain)), split(expected));
            }
        }
    }
}
