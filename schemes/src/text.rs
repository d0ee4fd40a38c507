//! Strict text of ids: one text for each id, and no text for anything else.
//!
//! Readers that skip characters, wrap at the top or fill up short texts let two texts name one row. So each form here has
//! a fixed width (decimal aside), refuses every character outside its alphabet, and checks the range. The fixed-width forms
//! sort as the numbers do, compared byte by byte.

use std::fmt;

use mintage_core::{ParseError, parse_decimal};

/// How a 64-bit id is written.
///
/// ```
/// use mintage_schemes::TextForm;
///
/// let mut text = String::new();
/// TextForm::Base62.format(738_529_527_931_269_425, &mut text).unwrap();
/// assert_eq!(text, "0sYTKUZvUhd");
/// assert_eq!(TextForm::Base62.parse(&text, 63), Ok(738_529_527_931_269_425));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextForm {
    /// Digits without leading zeros. Does not sort as text.
    #[default]
    Decimal,
    /// 11 characters of `0-9A-Za-z`; letter case matters.
    Base62,
    /// 13 characters of Crockford's base 32, upper case; read in either case. No I, L, O or U.
    Crockford,
}

impl TextForm {
    /// Characters of a 64-bit id in base 62: 62^11 is above 2^64.
    pub const BASE62_WIDTH: usize = 11;
    /// Characters of a 64-bit id in base 32: 65 bits.
    pub const CROCKFORD_WIDTH: usize = 13;

    /// All of them.
    pub const ALL: [Self; 3] = [Self::Decimal, Self::Base62, Self::Crockford];

    /// Its name in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal",
            Self::Base62 => "base62",
            Self::Crockford => "crockford",
        }
    }

    /// The form of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Writes `value`, without allocating.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn format(self, value: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::Decimal => write!(out, "{value}"),
            Self::Base62 => write_ascii(&digits::<{ Self::BASE62_WIDTH }>(value, BASE62), out),
            Self::Crockford => write_ascii(&crockford::<{ Self::CROCKFORD_WIDTH }>(u128::from(value)), out),
        }
    }

    /// Reads an id of at most `bits` bits (64 at most).
    ///
    /// # Errors
    /// [`ParseError`] names the fault; `OutOfRange` above `bits` bits.
    pub fn parse(self, text: &str, bits: u32) -> Result<u64, ParseError> {
        let value = match self {
            Self::Decimal => return parse_decimal(text, bits),
            Self::Base62 => read(text, Self::BASE62_WIDTH, &BASE62_VALUES, 62)?,
            Self::Crockford => read(text, Self::CROCKFORD_WIDTH, &CROCKFORD_VALUES, 32)?,
        };
        if value >> bits.min(u64::BITS) != 0 {
            return Err(ParseError::OutOfRange);
        }
        u64::try_from(value).map_err(|_| ParseError::OutOfRange)
    }
}

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The value of each byte as a digit, or `NO_DIGIT`.
type Values = [u8; 256];
const NO_DIGIT: u8 = 0xff;

static BASE62_VALUES: Values = values(BASE62, false);
static CROCKFORD_VALUES: Values = values(CROCKFORD, true);

const fn values(alphabet: &[u8], either_case: bool) -> Values {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < alphabet.len() {
        values[alphabet[digit] as usize] = digit as u8;
        if either_case {
            values[alphabet[digit].to_ascii_lowercase() as usize] = digit as u8;
        }
        digit += 1;
    }
    values
}

/// `value` in the base of its alphabet, filled up with the zero digit. `N` digits must be enough.
fn digits<const N: usize>(mut value: u64, alphabet: &[u8; 62]) -> [u8; N] {
    let mut text = [b'0'; N];
    for slot in text.iter_mut().rev() {
        *slot = alphabet[(value % 62) as usize];
        value /= 62;
    }
    text
}

/// `value` in Crockford's base 32. `N` digits must be enough.
pub(crate) fn crockford<const N: usize>(mut value: u128) -> [u8; N] {
    let mut text = [b'0'; N];
    for slot in text.iter_mut().rev() {
        *slot = CROCKFORD[(value & 31) as usize];
        value >>= 5;
    }
    text
}

/// Reads exactly `width` digits. What lies above 128 bits is lost: callers bound the width or the first digit.
fn read(text: &str, width: usize, values: &Values, base: u128) -> Result<u128, ParseError> {
    if text.len() != width {
        return Err(fault(text, width, values));
    }
    let mut value = 0u128;
    let mut foreign = false;
    for byte in text.bytes() {
        let digit = values[usize::from(byte)];
        foreign |= digit == NO_DIGIT;
        value = value.wrapping_mul(base).wrapping_add(u128::from(digit));
    }
    if foreign { Err(fault(text, width, values)) } else { Ok(value) }
}

/// Reads 26 digits of Crockford's base 32 as 128 bits: the first is at most 7, because 26 digits have 130.
pub(crate) fn parse_crockford_128(text: &str) -> Result<u128, ParseError> {
    /// 26 · 5 − 128 bits of the first digit must be zero.
    const FIRST_MAX: u8 = b'7';
    let value = read(text, CROCKFORD_128_WIDTH, &CROCKFORD_VALUES, 32)?;
    if text.as_bytes().first().is_some_and(|first| *first > FIRST_MAX) {
        return Err(ParseError::OutOfRange);
    }
    Ok(value)
}

/// Characters of 128 bits in base 32.
pub(crate) const CROCKFORD_128_WIDTH: usize = 26;

/// Says what is wrong with a text that is not `width` digits. A foreign character is named before a wrong length: it is
/// more often the reason.
#[cold]
fn fault(text: &str, width: usize, values: &Values) -> ParseError {
    if text.is_empty() {
        return ParseError::Empty;
    }
    let foreign = |c: char| u8::try_from(c).map_or(true, |byte| values[usize::from(byte)] == NO_DIGIT);
    match text.char_indices().find(|(_, c)| foreign(*c)) {
        Some((at, found)) => ParseError::Character { at, found },
        None => ParseError::Length { found: text.len(), expected: width },
    }
}

/// Characters of 20 bytes in base 62.
pub(crate) const LONG_WIDTH: usize = 27;

/// Ten base-62 digits fit into 64 bits: 62^10 is below 2^60.
const CHUNK_DIGITS: usize = 10;
const CHUNK: u128 = 62u128.pow(CHUNK_DIGITS as u32);

/// 20 bytes as 27 base-62 digits.
pub(crate) fn base62_long(bytes: &[u8; 20]) -> [u8; LONG_WIDTH] {
    /// Five digits at a time, so that a step of the long division fits into 64 bits.
    const STEP: u64 = 62u64.pow(5);
    let mut limbs = [0u32; 5];
    for (limb, four) in limbs.iter_mut().zip(bytes.chunks_exact(4)) {
        *limb = four.iter().fold(0, |limb, byte| (limb << 8) | u32::from(*byte));
    }
    let mut text = [b'0'; LONG_WIDTH];
    for five in text.rchunks_mut(5) {
        let mut rest = 0;
        for limb in &mut limbs {
            let dividend = (rest << 32) | u64::from(*limb);
            *limb = (dividend / STEP) as u32;
            rest = dividend % STEP;
        }
        for slot in five.iter_mut().rev() {
            *slot = BASE62[(rest % 62) as usize];
            rest /= 62;
        }
    }
    text
}

/// Reads 27 base-62 digits as 20 bytes; 62^27 is above 2^160, so the top is refused.
pub(crate) fn parse_base62_long(text: &str) -> Result<[u8; 20], ParseError> {
    const LOW: u128 = u64::MAX as u128;
    /// 160 − 64.
    const HIGH_BITS: u32 = 96;
    if text.len() != LONG_WIDTH || !text.is_ascii() {
        return Err(fault(text, LONG_WIDTH, &BASE62_VALUES));
    }
    // 7 + 10 + 10 digits; the first two chunks stay below 2^102.
    let (head, tail) = text.split_at(LONG_WIDTH - CHUNK_DIGITS);
    let head = read(head, LONG_WIDTH - CHUNK_DIGITS, &BASE62_VALUES, 62);
    let tail = read(tail, CHUNK_DIGITS, &BASE62_VALUES, 62);
    let (Ok(head), Ok(tail)) = (head, tail) else {
        return Err(fault(text, LONG_WIDTH, &BASE62_VALUES));
    };
    // head · 62^10 + tail, in two halves: 64 bits below, the rest above.
    let low = (head & LOW) * CHUNK + tail;
    let high = (head >> 64) * CHUNK + (low >> 64);
    if high >> HIGH_BITS != 0 {
        return Err(ParseError::OutOfRange);
    }
    let mut bytes = [0; 20];
    let digits = high.to_be_bytes().into_iter().skip(4).chain((low & LOW).to_be_bytes().into_iter().skip(8));
    bytes.iter_mut().zip(digits).for_each(|(slot, byte)| *slot = byte);
    Ok(bytes)
}

/// Writes bytes that are ASCII because they come from an alphabet.
pub(crate) fn write_ascii(text: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str(std::str::from_utf8(text).map_err(|_| fmt::Error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(form: TextForm, value: u64) -> String {
        let mut text = String::new();
        form.format(value, &mut text).unwrap();
        text
    }

    /// B59, B101, B105: fixed width, so that text sorts as numbers do; B99, B103: checked at the top.
    #[test]
    fn bounds_of_each_form() {
        for (form, zero, top63, top64) in [
            (TextForm::Decimal, "0", "9223372036854775807", "18446744073709551615"),
            (TextForm::Base62, "00000000000", "AzL8n0Y58m7", "LygHa16AHYF"),
            (TextForm::Crockford, "0000000000000", "7ZZZZZZZZZZZZ", "FZZZZZZZZZZZZ"),
        ] {
            for (value, expected) in [(0, zero), (u64::MAX >> 1, top63), (u64::MAX, top64)] {
                assert_eq!(text(form, value), expected);
                assert_eq!(form.parse(expected, 64), Ok(value));
            }
            assert_eq!(form.parse(top63, 63), Ok(u64::MAX >> 1));
            assert_eq!(form.parse(&text(form, 1 << 63), 63), Err(ParseError::OutOfRange), "{form:?}");
            assert_eq!(form.parse(top64, 63), Err(ParseError::OutOfRange), "{form:?}");
            assert_eq!(TextForm::named(form.name()), Some(form));
        }
        assert_eq!(TextForm::Base62.parse("LygHa16AHYG", 64), Err(ParseError::OutOfRange));
        assert_eq!(TextForm::Base62.parse("zzzzzzzzzzz", 64), Err(ParseError::OutOfRange));
        assert_eq!(TextForm::Crockford.parse("G000000000000", 64), Err(ParseError::OutOfRange));
        assert_eq!(TextForm::Crockford.parse("ZZZZZZZZZZZZZ", 64), Err(ParseError::OutOfRange));
        assert_eq!(TextForm::named("base64"), None);
    }

    /// B104: bytes, not characters, and nothing outside the alphabet.
    #[test]
    fn faults_are_named() {
        let foreign = |at, found| Err(ParseError::Character { at, found });
        assert_eq!(TextForm::Base62.parse("", 63), Err(ParseError::Empty));
        assert_eq!(TextForm::Base62.parse("0000000000", 63), Err(ParseError::Length { found: 10, expected: 11 }));
        assert_eq!(TextForm::Base62.parse("0000000000_", 63), foreign(10, '_'));
        assert_eq!(TextForm::Base62.parse("0000000\u{20bf}", 63), foreign(7, '\u{20bf}'));
        assert_eq!(TextForm::Crockford.parse(&"é".repeat(13), 63), foreign(0, 'é'));
        assert_eq!(TextForm::Crockford.parse("00000000000i0", 63), foreign(11, 'i'));
        assert_eq!(TextForm::Crockford.parse("0000000000000\n", 63), foreign(13, '\n'));
        assert_eq!(TextForm::Crockford.parse("00000000000zz", 63), TextForm::Crockford.parse("00000000000ZZ", 63));
        assert_eq!(TextForm::Base62.parse("0000000000a", 63), Ok(36));
        assert_eq!(TextForm::Base62.parse("0000000000A", 63), Ok(10));
    }

    /// B53, B54, B59.
    #[test]
    fn twenty_bytes() {
        let mut one = [0; 20];
        one[19] = 1;
        for (bytes, expected) in [
            ([0; 20], "000000000000000000000000000"),
            (one, "000000000000000000000000001"),
            ([0xff; 20], "aWgEPTl1tmebfsQzFP4bxwgy80V"),
        ] {
            assert_eq!(base62_long(&bytes), expected.as_bytes());
            assert_eq!(parse_base62_long(expected), Ok(bytes));
        }
        for above in ["aWgEPTl1tmebfsQzFP4bxwgy80W", "b00000000000000000000000000", "zzzzzzzzzzzzzzzzzzzzzzzzzzz"] {
            assert_eq!(parse_base62_long(above), Err(ParseError::OutOfRange));
        }
        assert_eq!(parse_base62_long(&"é".repeat(27)), Err(ParseError::Character { at: 0, found: 'é' }));
        assert_eq!(parse_base62_long("0000000000000é00000000000000").map_err(|_| ()), Err(()));
        assert_eq!(parse_base62_long(&"0".repeat(26)), Err(ParseError::Length { found: 26, expected: 27 }));
    }

    #[test]
    fn every_single_bit_of_twenty_bytes() {
        for bit in 0..160 {
            let mut bytes = [0u8; 20];
            bytes[bit / 8] = 0x80 >> (bit % 8);
            let text = String::from_utf8(base62_long(&bytes).to_vec()).unwrap();
            assert_eq!(parse_base62_long(&text), Ok(bytes), "{text}");
            assert_eq!(
                svix_ksuid::KsuidLike::to_base62(&<svix_ksuid::Ksuid as svix_ksuid::KsuidLike>::from_bytes(bytes)),
                text
            );
        }
    }
}
