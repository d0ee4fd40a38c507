//! Fixed-width text of big-endian values: one text a value, one value a text.
//!
//! A body always has the width that the largest value needs, so it is left-padded with the alphabet's zero; what lies
//! above the largest value is refused, never wrapped around.

use crate::public::Malformed;

/// Which symbols a token's body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Alphabet {
    /// Crockford's base32 in lower case: no `i`, `l`, `o`, `u`; survives being read aloud. The default.
    #[default]
    Crockford,
    /// `0-9A-Za-z`: shortest, but a case-insensitive column or file system merges different ids.
    Base62,
    /// 28 symbols without vowels, `0` and `1`: no word can appear.
    NoVowel,
}

/// The widest value written in base62 or without vowels: 32 bytes. Wider ones, of tokens with context, are Crockford only.
const RADIX_LIMBS_MAX: usize = 8;
/// How many symbols one division peels off: 62^5 still fits 32 bits.
const SYMBOLS_A_DIVISION: usize = 5;
/// Marks a byte that is no symbol. Every symbol's value is below 128.
const NO_SYMBOL: u8 = 0xff;

const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const NO_VOWEL: &[u8; 28] = b"23456789bcdfghjkmnpqrstvwxyz";

const CROCKFORD_VALUES: &[u8; 256] = &values_of(CROCKFORD);
const BASE62_VALUES: &[u8; 256] = &values_of(BASE62);
const NO_VOWEL_VALUES: &[u8; 256] = &values_of(NO_VOWEL);

impl Alphabet {
    /// Its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crockford => "crockford",
            Self::Base62 => "base62",
            Self::NoVowel => "novowel",
        }
    }

    /// How many symbols a value of `bytes` bytes takes: the least n with radix^n >= 256^bytes.
    pub(crate) fn width(self, bytes: usize) -> usize {
        let bits = bytes * 8;
        match self {
            Self::Crockford => bits.div_ceil(5),
            Self::Base62 => match bytes {
                16 => 22,
                24 => 33,
                _ => 43,
            },
            Self::NoVowel => match bytes {
                16 => 27,
                24 => 40,
                _ => 54,
            },
        }
    }

    /// Writes `value` over the whole of `text`, which is [`width`](Self::width) long.
    pub(crate) fn write(self, value: &[u8], text: &mut [u8]) {
        match self {
            Self::Crockford => write_base32(value, text),
            Self::Base62 => write_radix(value, text, BASE62),
            Self::NoVowel => write_radix(value, text, NO_VOWEL),
        }
    }

    /// Reads `text`, of the right length, over the whole of `value`.
    pub(crate) fn read(self, text: &[u8], value: &mut [u8]) -> Result<(), Malformed> {
        if text.len() != self.width(value.len()) {
            return Err(Malformed::Length);
        }
        match self {
            Self::Crockford => read_base32(text, value),
            Self::Base62 => read_radix(text, value, BASE62_VALUES, 62),
            Self::NoVowel => read_radix(text, value, NO_VOWEL_VALUES, 28),
        }
    }
}

/// The base62 digits of a 32-bit check sum and the value of a symbol, for bearer tokens.
pub(crate) fn base62_symbol(value: u32) -> u8 {
    BASE62[(value % 62) as usize]
}

/// The value of a base62 symbol.
pub(crate) fn base62_value(symbol: u8) -> Option<u32> {
    let value = BASE62_VALUES[usize::from(symbol)];
    (value != NO_SYMBOL).then_some(u32::from(value))
}

const fn values_of(symbols: &[u8]) -> [u8; 256] {
    let mut values = [NO_SYMBOL; 256];
    let mut at = 0;
    while at < symbols.len() {
        values[symbols[at] as usize] = at as u8;
        at += 1;
    }
    values
}

/// Five bytes are eight symbols, counted from the right; what is left over at the front is the short head.
fn write_base32(value: &[u8], text: &mut [u8]) {
    let (head, groups) = value.as_rchunks::<5>();
    let (head_text, group_texts) = text.as_rchunks_mut::<8>();
    // A head of one to four bytes takes two to seven symbols: never a whole group.
    spell(head, head_text);
    for (group, symbols) in groups.iter().zip(group_texts) {
        spell(group, symbols);
    }
}

#[inline]
fn spell(bytes: &[u8], symbols: &mut [u8]) {
    let mut rest = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    for symbol in symbols.iter_mut().rev() {
        *symbol = CROCKFORD[(rest & 31) as usize];
        rest >>= 5;
    }
}

fn read_base32(text: &[u8], value: &mut [u8]) -> Result<(), Malformed> {
    let (head, groups) = value.as_rchunks_mut::<5>();
    let (head_text, group_texts) = text.as_rchunks::<8>();
    let (first, mut seen) = gather(head_text);
    for (group, symbols) in groups.iter_mut().zip(group_texts) {
        let (bits, marks) = gather(symbols);
        seen |= marks;
        group.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    if seen & 0x80 != 0 {
        return Err(Malformed::Alphabet);
    }
    if first >> (8 * head.len()) != 0 {
        return Err(Malformed::NonCanonical);
    }
    for (byte, read) in head.iter_mut().rev().zip(first.to_le_bytes()) {
        *byte = read;
    }
    Ok(())
}

/// The bits of up to eight symbols, and every symbol's value or'ed together: its top bit is set if one was none.
#[inline]
fn gather(symbols: &[u8]) -> (u64, u8) {
    symbols.iter().fold((0, 0), |(bits, seen), symbol| {
        let value = CROCKFORD_VALUES[usize::from(*symbol)];
        (bits << 5 | u64::from(value & 31), seen | value)
    })
}

/// Divides by radix^5, which leaves five symbols a pass, in plain 64-bit arithmetic.
fn write_radix(value: &[u8], text: &mut [u8], symbols: &[u8]) {
    let radix = symbols.len() as u64;
    let divisor = radix.pow(SYMBOLS_A_DIVISION as u32);
    let mut limbs = [0u32; RADIX_LIMBS_MAX];
    for (limb, bytes) in limbs.iter_mut().zip(value.chunks_exact(4)) {
        *limb = bytes.iter().fold(0, |limb, byte| limb << 8 | u32::from(*byte));
    }
    let used = (value.len() / 4).min(RADIX_LIMBS_MAX);
    for slots in text.rchunks_mut(SYMBOLS_A_DIVISION) {
        let mut rest = limbs[..used].iter_mut().fold(0u64, |rest, limb| {
            let dividend = rest << 32 | u64::from(*limb);
            // The quotient fits: `rest` is below the divisor.
            *limb = (dividend / divisor) as u32;
            dividend % divisor
        });
        for slot in slots.iter_mut().rev() {
            *slot = symbols[(rest % radix) as usize];
            rest /= radix;
        }
    }
}

fn read_radix(text: &[u8], value: &mut [u8], values: &[u8; 256], radix: u64) -> Result<(), Malformed> {
    if text.iter().any(|symbol| values[usize::from(*symbol)] == NO_SYMBOL) {
        return Err(Malformed::Alphabet);
    }
    let mut limbs = [0u32; RADIX_LIMBS_MAX];
    let used = (value.len() / 4).min(RADIX_LIMBS_MAX);
    for symbol in text {
        let carry = limbs[..used].iter_mut().rev().fold(u64::from(values[usize::from(*symbol)]), |carry, limb| {
            let sum = u64::from(*limb) * radix + carry;
            // The low half stays, the high half is carried.
            *limb = sum as u32;
            sum >> 32
        });
        if carry != 0 {
            return Err(Malformed::NonCanonical);
        }
    }
    for (bytes, limb) in value.chunks_exact_mut(4).zip(limbs) {
        bytes.copy_from_slice(&limb.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [(Alphabet, usize); 12] = [
        (Alphabet::Crockford, 8),
        (Alphabet::Crockford, 12),
        (Alphabet::Crockford, 16),
        (Alphabet::Crockford, 24),
        (Alphabet::Crockford, 32),
        (Alphabet::Crockford, 36),
        (Alphabet::Base62, 16),
        (Alphabet::Base62, 24),
        (Alphabet::Base62, 32),
        (Alphabet::NoVowel, 16),
        (Alphabet::NoVowel, 24),
        (Alphabet::NoVowel, 32),
    ];

    fn text_of(alphabet: Alphabet, value: &[u8]) -> Vec<u8> {
        let mut text = vec![0; alphabet.width(value.len())];
        alphabet.write(value, &mut text);
        text
    }

    fn value_of(alphabet: Alphabet, len: usize, text: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut value = vec![0; len];
        alphabet.read(text, &mut value).map(|()| value)
    }

    #[test]
    fn widths_are_those_of_the_contract() {
        let widths: Vec<usize> = ALL.iter().map(|(alphabet, bytes)| alphabet.width(*bytes)).collect();
        assert_eq!(widths, [13, 20, 26, 39, 52, 58, 22, 33, 43, 27, 40, 54]);
    }

    #[test]
    fn the_largest_value_is_the_last_text_and_its_successor_is_refused() {
        for (alphabet, bytes) in ALL {
            let zero = text_of(alphabet, &vec![0; bytes]);
            assert!(zero.iter().all(|symbol| *symbol == zero[0]), "{alphabet:?}: padded with its zero");
            assert_eq!(value_of(alphabet, bytes, &zero), Ok(vec![0; bytes]));
            let mut last = text_of(alphabet, &vec![0xff; bytes]);
            assert_eq!(value_of(alphabet, bytes, &last), Ok(vec![0xff; bytes]));
            // One more, by hand: the last symbol that is not the alphabet's largest goes up, those behind it go to zero.
            let symbols: &[u8] = match alphabet {
                Alphabet::Crockford => CROCKFORD,
                Alphabet::Base62 => BASE62,
                Alphabet::NoVowel => NO_VOWEL,
            };
            for symbol in last.iter_mut().rev() {
                let value = symbols.iter().position(|known| known == symbol).unwrap();
                *symbol = symbols[(value + 1) % symbols.len()];
                if value + 1 < symbols.len() {
                    break;
                }
            }
            assert_eq!(value_of(alphabet, bytes, &last), Err(Malformed::NonCanonical), "{alphabet:?} {bytes}");
            let highest = vec![*symbols.last().unwrap(); alphabet.width(bytes)];
            assert_eq!(value_of(alphabet, bytes, &highest), Err(Malformed::NonCanonical), "{alphabet:?} {bytes}");
        }
    }

    #[test]
    fn base62_of_a_uuid_keeps_its_leading_zeros_and_its_upper_bound() {
        let value = 0x0023_a441_a3a3_4d9e_bd65_de33_81c3_a226_u128.to_be_bytes();
        assert_eq!(text_of(Alphabet::Base62, &value), b"00GHs6XflJ51yCvZ4TwH4g");
        assert_eq!(value_of(Alphabet::Base62, 16, b"GHs6XflJ51yCvZ4TwH4g"), Err(Malformed::Length));
        assert_eq!(value_of(Alphabet::Base62, 16, b"7n42DGM5Tflk9n8mt7Fhc7"), Ok(vec![0xff; 16]));
        assert_eq!(value_of(Alphabet::Base62, 16, b"7n42DGM5Tflk9n8mt7Fhc8"), Err(Malformed::NonCanonical));
        assert_eq!(value_of(Alphabet::Base62, 16, &[b'z'; 22]), Err(Malformed::NonCanonical));
    }

    #[test]
    fn only_the_symbols_are_read() {
        for (alphabet, bytes) in ALL {
            let good = text_of(alphabet, &vec![0; bytes]);
            let mut symbols = 0;
            for byte in 0..=u8::MAX {
                let mut text = good.clone();
                *text.last_mut().unwrap() = byte;
                match value_of(alphabet, bytes, &text) {
                    Ok(value) => {
                        symbols += 1;
                        assert_eq!(text_of(alphabet, &value), text);
                    }
                    Err(fault) => assert_eq!(fault, Malformed::Alphabet),
                }
            }
            let expected = match alphabet {
                Alphabet::Crockford => 32,
                Alphabet::Base62 => 62,
                Alphabet::NoVowel => 28,
            };
            assert_eq!(symbols, expected);
        }
    }

    proptest! {
        #[test]
        fn every_value_comes_back(bytes in proptest::collection::vec(any::<u8>(), 36)) {
            for (alphabet, len) in ALL {
                let text = text_of(alphabet, &bytes[..len]);
                prop_assert_eq!(value_of(alphabet, len, &text), Ok(bytes[..len].to_vec()));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_are_the_one_text_of_a_value(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            for (alphabet, len) in ALL {
                if let Ok(value) = value_of(alphabet, len, &text) {
                    prop_assert_eq!(text_of(alphabet, &value), text.clone());
                }
            }
        }
    }
}
