//! Short codes of chance alone, for links and vouchers that people type: the `code` scheme.
//!
//! A code is `length` characters of one alphabet, drawn evenly from the operating system's generator. It is kept as a
//! number: its place among all texts of the alphabet, ordered by length first and then as the symbols stand in the alphabet.
//! So texts of different lengths never share a number, a longer length leaves every older number as it was, and no code is 0.
//!
//! The invariant: text and number are a bijection. Chance promises nothing more: two draws may be equal, and only the unique
//! index of the table knows. Insert, and draw again if the code is taken.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use mintage_core::{Anatomy, Bits, Field, IdScheme, MintError, ParseError, ReadyError, Role, SchemeInfo};

use crate::{
    entropy::{Draw, Entropy},
    text::write_ascii,
};

/// Ids fit in the 63 bits of a signed integer column.
const ID_BITS: u32 = 63;
/// Longest text of a 64-bit number in any alphabet here: 20 decimal digits.
const TEXT_MAX: usize = 20;
/// Most draws for one code. Each is good with odds of more than one half, so a working generator never gets here.
const DRAWS_MAX: u32 = 1_000;

/// Mints codes that tell nothing and that people can type.
///
/// ```
/// use mintage_core::IdScheme;
/// use mintage_schemes::{Code, CodeAlphabet};
///
/// let links = Code::new(CodeAlphabet::NoVowel, 8)?;
/// let mut text = String::new();
/// links.format(links.mint()?, &mut text)?;
/// assert_eq!(text.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Code {
    info: SchemeInfo,
    alphabet: CodeAlphabet,
    /// Ascending; the last one is drawn.
    lengths: Vec<u32>,
    block: Block,
    entropy: Entropy,
    closed: AtomicBool,
}

/// The numbers of all codes of one length.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: u64,
    codes: u64,
}

impl Code {
    /// Fewest characters: with fewer, codes run out at once.
    pub const LENGTH_MIN: u32 = 4;
    /// Most characters that any config may ask for; what an alphabet really has room for is
    /// [`CodeAlphabet::length_max`].
    pub const LENGTH_MAX: u32 = 20;

    /// Codes of `length` characters.
    ///
    /// # Errors
    /// [`CodeFault::Length`] where such codes do not fit 63 bits.
    pub fn new(alphabet: CodeAlphabet, length: u32) -> Result<Self, CodeFault> {
        let block = Block::of(alphabet, length)?;
        Ok(Self {
            info: SchemeInfo::new("code", Bits::Int, ID_BITS),
            alphabet,
            lengths: vec![length],
            block,
            entropy: Entropy::os(),
            closed: AtomicBool::new(false),
        })
    }

    /// Reads codes of these lengths as well: those that were given out before the length grew.
    ///
    /// # Errors
    /// [`CodeFault::Before`] for a length that is not below the present one, or that stands there twice.
    pub fn after(mut self, lengths_before: &[u32]) -> Result<Self, CodeFault> {
        for length in lengths_before {
            if *length >= self.length() || self.lengths.contains(length) {
                return Err(CodeFault::Before { before: *length, length: self.length() });
            }
            Block::of(self.alphabet, *length)?;
            self.lengths.push(*length);
            self.lengths.sort_unstable();
        }
        Ok(self)
    }

    /// Where random bits come from. Anything but [`Entropy::os`] is for tests.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// The lengths it reads, shortest first; it draws the last.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// How many codes there are of the length that is drawn.
    pub fn codes(&self) -> u64 {
        self.block.codes
    }

    fn length(&self) -> u32 {
        self.lengths.last().copied().unwrap_or_default()
    }

    fn draw<T>(&self, ids: usize, act: impl FnOnce(&mut Draw<'_>) -> T) -> Result<T, MintError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(MintError::Closed);
        }
        // One draw in two is too large at worst.
        self.entropy.with(2 * ids as u64, act)
    }
}

impl Block {
    fn of(alphabet: CodeAlphabet, length: u32) -> Result<Self, CodeFault> {
        let fits = (Code::LENGTH_MIN..=alphabet.length_max()).contains(&length);
        let codes = alphabet.codes(length).filter(|_| fits).ok_or(CodeFault::Length { alphabet, length })?;
        // The empty text is number 0, and every shorter text comes first.
        let first = (0..length).filter_map(|shorter| alphabet.codes(shorter)).sum();
        Ok(Self { first, codes })
    }

    /// A number of the block, each as likely as any other: what lies above the last one is thrown away, not wrapped.
    fn pick(&self, draw: &mut Draw<'_>) -> Result<u64, MintError> {
        let mask = u64::MAX >> (self.codes - 1).leading_zeros();
        (0..DRAWS_MAX)
            .map(|_| draw.word() & mask)
            .find(|drawn| *drawn < self.codes)
            .map(|drawn| self.first + drawn)
            .ok_or(MintError::NoEntropy)
    }
}

#[async_trait]
impl IdScheme for Code {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    #[inline]
    fn mint(&self) -> Result<u64, MintError> {
        self.draw(1, |draw| self.block.pick(draw))?
    }

    fn mint_batch(&self, out: &mut [u64]) -> Result<usize, MintError> {
        if out.is_empty() {
            return Ok(0);
        }
        self.draw(out.len(), |draw| {
            for slot in out.iter_mut() {
                *slot = self.block.pick(draw)?;
            }
            Ok(out.len())
        })?
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        Ok(self.draw(0, |_| ())?)
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        let symbols = self.alphabet.symbols();
        let radix = symbols.len() as u64;
        let mut text = [0; TEXT_MAX];
        let mut rest = bits;
        let mut begin = TEXT_MAX;
        // Digits of 1 to radix, not 0 to radix − 1: so each length has numbers of its own.
        for (at, slot) in text.iter_mut().enumerate().rev() {
            if rest == 0 {
                break;
            }
            rest -= 1;
            *slot = symbols.get((rest % radix) as usize).copied().unwrap_or_default();
            rest /= radix;
            begin = at;
        }
        write_ascii(text.get(begin..).unwrap_or_default(), out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        let radix = self.alphabet.symbols().len() as u64;
        let mut value = 0u64;
        for (at, found) in text.char_indices() {
            let digit = self.alphabet.value(found).ok_or(ParseError::Character { at, found })?;
            // A text too long for 64 bits is refused by its length below.
            value = value.wrapping_mul(radix).wrapping_add(digit + 1);
        }
        if !u32::try_from(text.len()).is_ok_and(|length| self.lengths.contains(&length)) {
            return Err(ParseError::Length { found: text.len(), expected: self.length() as usize });
        }
        Ok(value)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        Anatomy::of(vec![
            Field::new("sign", Role::Fixed, 1, u128::from(bits >> ID_BITS)),
            Field::new("code", Role::Random, ID_BITS, u128::from(bits & (u64::MAX >> 1))),
        ])
    }

    async fn close(&self) -> Result<(), ReadyError> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// The characters of a code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodeAlphabet {
    /// 28 characters without vowels, `0` and `1`: no look-alikes, no words. Read in either case.
    #[default]
    NoVowel,
    /// Crockford's 32 in lower case: digits and letters without `i`, `l`, `o`, `u`. Read in either case.
    Crockford,
    /// `0-9A-Za-z`: shortest, but letter case matters and `0` looks like `O`.
    Base62,
    /// `0-9`: for keypads and the phone.
    Digits,
}

impl CodeAlphabet {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NoVowel, Self::Crockford, Self::Base62, Self::Digits];

    /// Its name in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoVowel => "novowel",
            Self::Crockford => "crockford",
            Self::Base62 => "base62",
            Self::Digits => "digits",
        }
    }

    /// The alphabet of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|alphabet| alphabet.name() == name)
    }

    /// Its symbols, smallest first, in the order of ASCII.
    pub const fn symbols(self) -> &'static [u8] {
        match self {
            Self::NoVowel => b"23456789bcdfghjkmnpqrstvwxyz",
            Self::Crockford => b"0123456789abcdefghjkmnpqrstvwxyz",
            Self::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Digits => b"0123456789",
        }
    }

    /// Whether upper and lower case differ: such codes must not be kept in a column that folds case.
    pub const fn is_case_sensitive(self) -> bool {
        matches!(self, Self::Base62)
    }

    /// How many codes of `length` characters there are; `None` above 64 bits.
    pub fn codes(self, length: u32) -> Option<u64> {
        (self.symbols().len() as u64).checked_pow(length)
    }

    /// The longest code whose number, shorter texts included, fits 63 bits.
    pub fn length_max(self) -> u32 {
        let mut texts = 0u64;
        (0..=Code::LENGTH_MAX)
            .take_while(|length| {
                let sum = self.codes(*length).and_then(|codes| texts.checked_add(codes));
                texts = sum.unwrap_or(u64::MAX);
                texts <= 1 << ID_BITS
            })
            .last()
            .unwrap_or_default()
    }

    fn value(self, symbol: char) -> Option<u64> {
        let symbol = if self.is_case_sensitive() { symbol } else { symbol.to_ascii_lowercase() };
        let symbol = u8::try_from(symbol).ok()?;
        self.symbols().binary_search(&symbol).ok().map(|digit| digit as u64)
    }
}

/// Codes that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeFault {
    /// The length does not fit the alphabet.
    #[error(
        "{length} characters of {name} do not fit: write {least} to {most}, so that a code fits the 63 bits of an integer column",
        name = .alphabet.name(),
        least = Code::LENGTH_MIN,
        most = .alphabet.length_max()
    )]
    Length {
        /// The alphabet.
        alphabet: CodeAlphabet,
        /// The length asked for.
        length: u32,
    },
    /// An earlier length that is none.
    #[error("{before} is no earlier length: write lengths below {length}, each once")]
    Before {
        /// The one asked for.
        before: u32,
        /// The present length.
        length: u32,
    },
}

#[cfg(test)]
mod tests {
    use mintage_core::testkit;
    use proptest::prelude::*;

    use super::*;

    fn text(code: &Code, bits: u64) -> String {
        let mut text = String::new();
        code.format(bits, &mut text).unwrap();
        text
    }

    #[test]
    fn the_laws_hold_in_every_alphabet() {
        for alphabet in CodeAlphabet::ALL {
            testkit::scheme::all(&Code::new(alphabet, alphabet.length_max()).unwrap());
            assert_eq!(CodeAlphabet::named(alphabet.name()), Some(alphabet));
            assert!(alphabet.symbols().is_sorted(), "binary search and the order of texts need it");
        }
        assert_eq!(CodeAlphabet::named("base64"), None);
    }

    #[test]
    fn the_longest_code_fits_63_bits_and_one_more_does_not() {
        for (alphabet, most) in [
            (CodeAlphabet::NoVowel, 13),
            (CodeAlphabet::Crockford, 12),
            (CodeAlphabet::Base62, 10),
            (CodeAlphabet::Digits, 18),
        ] {
            assert_eq!(alphabet.length_max(), most, "{}", alphabet.name());
            let code = Code::new(alphabet, most).unwrap();
            let last: String = (0..most).map(|_| char::from(*alphabet.symbols().last().unwrap())).collect();
            let value = code.parse(&last).unwrap();
            assert!(value < 1 << 63, "{value}");
            assert_eq!(text(&code, value), last);
            let fault = Code::new(alphabet, most + 1).unwrap_err();
            assert!(fault.to_string().contains(&format!("write 4 to {most}")), "{fault}");
            assert!(Code::new(alphabet, 3).is_err() && Code::new(alphabet, 0).is_err());
        }
    }

    /// All texts of up to five digits: 0 is the empty one, and each number has one text.
    #[test]
    fn lengths_have_numbers_of_their_own() {
        let code = Code::new(CodeAlphabet::Digits, 5).unwrap().after(&[4]).unwrap();
        let mut expected = 1 + 10 + 100 + 1000;
        for length in [4usize, 5] {
            for number in 0..10u64.pow(length as u32) {
                let spelled = format!("{number:0length$}");
                assert_eq!(code.parse(&spelled), Ok(expected));
                assert_eq!(text(&code, expected), spelled);
                expected += 1;
            }
        }
        assert_eq!((text(&code, 0), text(&code, u64::MAX).len()), (String::new(), 20));
    }

    #[test]
    fn a_longer_length_leaves_every_older_number_as_it_was() {
        let before = Code::new(CodeAlphabet::NoVowel, 7).unwrap();
        let after = Code::new(CodeAlphabet::NoVowel, 9).unwrap().after(&[7]).unwrap();
        for id in testkit::scheme::sample(&before, 1000) {
            assert_eq!(after.parse(&text(&before, id)), Ok(id));
            assert_eq!(text(&after, id), text(&before, id));
        }
        assert_eq!(after.lengths(), [7, 9]);
        assert_eq!(after.parse("22222222"), Err(ParseError::Length { found: 8, expected: 9 }), "8 was never in use");
        assert_eq!(before.parse("222222222"), Err(ParseError::Length { found: 9, expected: 7 }));
        for wrong in [[9, 7], [10, 7], [7, 7]] {
            assert!(matches!(
                Code::new(CodeAlphabet::NoVowel, 9).unwrap().after(&wrong),
                Err(CodeFault::Before { length: 9, .. })
            ));
        }
        assert!(matches!(
            Code::new(CodeAlphabet::NoVowel, 9).unwrap().after(&[3]),
            Err(CodeFault::Length { length: 3, .. })
        ));
    }

    #[test]
    fn either_case_where_case_says_nothing_and_no_look_alikes() {
        let code = Code::new(CodeAlphabet::NoVowel, 4).unwrap();
        assert_eq!(code.parse("BCDF"), code.parse("bcdf"));
        for foreign in ['o', '0', 'i', 'l', '1', 'a', 'e', 'u', '-', ' ', 'é', '\u{212a}'] {
            let typed = format!("bcd{foreign}");
            assert_eq!(code.parse(&typed), Err(ParseError::Character { at: 3, found: foreign }));
        }
        assert_eq!(code.parse(""), Err(ParseError::Empty));
        let exact = Code::new(CodeAlphabet::Base62, 4).unwrap();
        assert_ne!(exact.parse("BCDF"), exact.parse("bcdf"));
    }

    /// With 10^4 codes a modulo of the masked word would make 6384 of them twice as likely.
    #[test]
    fn every_code_is_as_likely_as_any_other() {
        let code = Code::new(CodeAlphabet::Digits, 4).unwrap().entropy(Entropy::seeded(7));
        let (mut low, draws) = (0u32, 100_000);
        for _ in 0..draws {
            let drawn = code.mint().unwrap() - 1111;
            assert!(drawn < 10_000);
            low += u32::from(drawn < 5_000);
        }
        // Five standard deviations: sqrt(100000)/2 = 158.
        assert!(low.abs_diff(draws / 2) < 800, "{low}");
        // What is too large is thrown away, not folded back.
        let script = Code::new(CodeAlphabet::Digits, 4).unwrap().entropy(Entropy::scripted([10_000, 16_383, 9_999]));
        assert_eq!(script.mint(), Ok(1111 + 9_999));
    }

    #[test]
    fn a_broken_generator_and_a_closed_scheme_are_told() {
        let stuck = Code::new(CodeAlphabet::Digits, 4).unwrap().entropy(Entropy::scripted([u64::MAX]));
        assert_eq!(stuck.mint(), Err(MintError::NoEntropy));
        assert_eq!(stuck.mint_batch(&mut [0; 3]), Err(MintError::NoEntropy));
        stuck.closed.store(true, Ordering::Release);
        assert_eq!(stuck.mint(), Err(MintError::Closed));
    }

    proptest! {
        #[test]
        fn text_and_number_are_a_bijection(one: u64, other: u64, alphabet in 0..4usize) {
            let code = Code::new(CodeAlphabet::ALL[alphabet], 4).unwrap();
            let [a, b] = [one, other].map(|bits| text(&code, bits));
            prop_assert_eq!(a == b, one == other);
            // Numbers sort as their texts do: by length, then by symbol.
            prop_assert_eq!((a.len(), a).cmp(&(b.len(), b)), one.cmp(&other));
        }

        #[test]
        fn no_text_makes_it_panic(typed in "\\PC{0,30}") {
            for alphabet in CodeAlphabet::ALL {
                let code = Code::new(alphabet, 8).unwrap().after(&[4, 7]).unwrap();
                if let Ok(bits) = code.parse(&typed) {
                    prop_assert!(text(&code, bits).eq_ignore_ascii_case(&typed));
                }
            }
        }
    }
}
