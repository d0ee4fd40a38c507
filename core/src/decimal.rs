//! Decimal text of 64-bit ids: exactly one text for each number.

use crate::ParseError;

/// Reads a decimal number of at most `bits` bits (64 at most): digits only, no sign, space, underscore or leading zero.
///
/// `str::parse` would take `+42` and `007`; then two texts would name one row.
///
/// # Errors
/// [`ParseError`] names the first thing that is wrong.
pub fn parse_decimal(text: &str, bits: u32) -> Result<u64, ParseError> {
    /// `u64::MAX` has 20 digits.
    const DIGITS_MAX: usize = 20;
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    if let Some((at, found)) = text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        return Err(ParseError::Character { at, found });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(ParseError::LeadingZero);
    }
    if text.len() > DIGITS_MAX {
        return Err(ParseError::OutOfRange);
    }
    let value = text
        .bytes()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(ParseError::OutOfRange)?;
    if bits < 64 && value >> bits != 0 {
        return Err(ParseError::OutOfRange);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_a_number() {
        for good in ["0", "1", "42", "9007199254740993", "9223372036854775807"] {
            assert_eq!(parse_decimal(good, 63).map(|value| value.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "+1",
            "-1",
            "-0",
            "01",
            "00",
            " 1",
            "1 ",
            "1\n",
            "1_000",
            "１",
            "0x15",
            "1e3",
            "1.0",
            "9223372036854775808",
            "18446744073709551616",
            "99999999999999999999999999",
        ] {
            assert!(parse_decimal(bad, 63).is_err(), "{bad:?}");
        }
        assert_eq!(parse_decimal("18446744073709551615", 64), Ok(u64::MAX));
    }
}
