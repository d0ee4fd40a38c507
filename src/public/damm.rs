//! The check digit of numbers people type: Damm's quasigroup of order 10.
//!
//! It catches every single wrong digit and every swap of neighbours. Luhn misses some swaps, and sixteen digits that
//! pass Luhn look like a card number.

const TABLE: [[u8; 10]; 10] = [
    [0, 3, 1, 7, 5, 9, 8, 6, 4, 2],
    [7, 0, 9, 2, 1, 5, 4, 8, 6, 3],
    [4, 2, 0, 6, 8, 7, 1, 3, 5, 9],
    [1, 7, 5, 0, 9, 8, 3, 4, 2, 6],
    [6, 1, 2, 3, 0, 4, 5, 9, 7, 8],
    [3, 6, 7, 4, 2, 0, 9, 5, 8, 1],
    [5, 8, 6, 9, 7, 2, 0, 1, 3, 4],
    [8, 9, 4, 5, 3, 6, 2, 0, 1, 7],
    [9, 4, 3, 8, 6, 1, 7, 2, 0, 5],
    [2, 5, 8, 1, 4, 3, 6, 7, 9, 0],
];

/// The check digit of `digits` (ASCII). 0 if the last of them is the right one for those before it.
///
/// `None` if one of them is no digit.
pub(crate) fn check(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0u8, |interim, digit| {
        let value = digit.wrapping_sub(b'0');
        TABLE.get(usize::from(interim))?.get(usize::from(value)).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_digit_and_every_swap_of_neighbours_is_caught() {
        assert_eq!(check(b"572"), Some(4));
        for number in 0..10_000u32 {
            let mut digits = number.to_string().into_bytes();
            digits.push(b'0' + check(&digits).unwrap());
            assert_eq!(check(&digits), Some(0));
            for at in 0..digits.len() {
                let right = digits[at];
                for wrong in (b'0'..=b'9').filter(|digit| *digit != right) {
                    digits[at] = wrong;
                    assert_ne!(check(&digits), Some(0), "{number}");
                }
                digits[at] = right;
                if at > 0 && digits[at - 1] != right {
                    digits.swap(at - 1, at);
                    assert_ne!(check(&digits), Some(0), "{number}");
                    digits.swap(at - 1, at);
                }
            }
        }
    }

    #[test]
    fn only_ascii_digits_have_one() {
        assert_eq!(check("９".as_bytes()), None);
        assert_eq!(check(b"12a"), None);
        assert_eq!(check(b"1/"), None);
        assert_eq!(check(b""), Some(0));
    }
}
