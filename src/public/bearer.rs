//! The text of secret tokens: API keys, invitations. Unlike a public id a bearer token *is* the secret.
//!
//! Thirty random characters and a check sum over prefix and body. The check sum is for typing errors and for scanners
//! that search public code for lost secrets, never for trust. Only a hash is ever kept.

use std::fmt;

use rand::{TryRng, rngs::SysRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::public::{FormError, Malformed, PublicIdError, alphabet, form::is_prefix};

/// Random characters: 62^30 is above 2^178.
const BODY_LEN: usize = 30;
/// A 32-bit check sum in base62.
const CHECK_LEN: usize = 6;
/// Shorter prefixes would match other people's text.
const PREFIX_LEN_MIN: usize = 6;
/// Bytes from here on are drawn again, so that each of the 62 characters is equally likely: 248 = 4 · 62.
const FAIR_BYTES: u8 = 248;
const HASH_LABEL: &[u8] = b"mintage/bearer/v1\0";

/// What an entity's bearer tokens look like: `acme_pat_` and 36 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BearerFormat {
    prefix: String,
}

/// A bearer token. Shown once, to its owner; wiped when dropped; never printed by accident.
pub struct BearerToken {
    text: Zeroizing<String>,
}

/// What is kept of a bearer token: look it up by this, compare in constant time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BearerHash([u8; 32]);

impl BearerFormat {
    /// Tokens that begin with `prefix`, such as `acme_pat_` or `acme_test_pat_`.
    ///
    /// # Errors
    /// Unless it is at least six characters of lower-case words joined and ended by `_`.
    pub fn new(prefix: &str) -> Result<Self, FormError> {
        let words = prefix.strip_suffix('_').filter(|words| words.contains('_') && is_prefix(words));
        match words {
            Some(_) if prefix.len() >= PREFIX_LEN_MIN => Ok(Self { prefix: prefix.to_owned() }),
            _ => Err(FormError::new(
                "prefix",
                format!("{prefix:?} is no bearer prefix: write company and kind in lower case, such as acme_pat_"),
            )),
        }
    }

    /// What tokens begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A regular expression that finds these tokens in code and logs.
    pub fn scanner_pattern(&self) -> String {
        format!("\\b{}[0-9A-Za-z]{{{}}}\\b", self.prefix, BODY_LEN + CHECK_LEN)
    }

    /// Whether `text` holds what may be one of these tokens, whole or in part: then it must not be shown or logged.
    pub fn claims(&self, text: &str) -> bool {
        text.to_ascii_lowercase().contains(&self.prefix)
    }

    /// A new token, from the operating system's generator. `None` if that gives nothing.
    pub fn issue(&self) -> Option<BearerToken> {
        let mut body = Zeroizing::new([0; BODY_LEN]);
        let mut drawn = Zeroizing::new([0; BODY_LEN]);
        let mut made = 0;
        while made < BODY_LEN {
            SysRng.try_fill_bytes(drawn.as_mut_slice()).ok()?;
            for byte in drawn.iter().filter(|byte| **byte < FAIR_BYTES) {
                let Some(slot) = body.get_mut(made) else { break };
                *slot = alphabet::base62_symbol(u32::from(*byte));
                made += 1;
            }
        }
        Some(self.seal(body.as_slice()))
    }

    /// Reads a token: prefix, characters and check sum. Says nothing about whether it was ever issued.
    ///
    /// # Errors
    /// `Malformed`, found without any secret.
    pub fn parse(&self, text: &str) -> Result<BearerToken, PublicIdError> {
        if !text.contains('_') {
            return Err(Malformed::Separator.into());
        }
        let bytes = text.as_bytes();
        let rest = bytes.strip_prefix(self.prefix.as_bytes()).ok_or(Malformed::Prefix)?;
        let (body, check) = rest.split_at_checked(BODY_LEN).ok_or(Malformed::Length)?;
        if check.len() != CHECK_LEN {
            return Err(Malformed::Length.into());
        }
        if rest.iter().any(|symbol| alphabet::base62_value(*symbol).is_none()) {
            return Err(Malformed::Alphabet.into());
        }
        if check_value(check)? != self.check(body) {
            return Err(Malformed::CheckDigit.into());
        }
        Ok(BearerToken { text: Zeroizing::new(text.to_owned()) })
    }

    fn seal(&self, body: &[u8]) -> BearerToken {
        let mut text = Zeroizing::new(String::with_capacity(self.prefix.len() + BODY_LEN + CHECK_LEN));
        text.push_str(&self.prefix);
        text.extend(body.iter().map(|symbol| char::from(*symbol)));
        let mut check = [0; CHECK_LEN];
        let mut rest = self.check(body);
        for symbol in check.iter_mut().rev() {
            *symbol = alphabet::base62_symbol(rest);
            rest /= 62;
        }
        text.extend(check.iter().map(|symbol| char::from(*symbol)));
        BearerToken { text }
    }

    fn check(&self, body: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(self.prefix.as_bytes());
        crc.update(body);
        crc.finalize()
    }
}

impl BearerToken {
    /// The token itself: hand it to its owner and forget it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What to keep of it.
    pub fn hash(&self) -> BearerHash {
        BearerHash(Sha256::new_with_prefix(HASH_LABEL).chain_update(self.text.as_bytes()).finalize().into())
    }
}

impl BearerHash {
    /// The bytes to keep.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether a kept hash is this one, in constant time.
    pub fn matches(&self, kept: &[u8]) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_slice(), kept).into()
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

impl fmt::Debug for BearerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerHash(…)")
    }
}

fn check_value(symbols: &[u8]) -> Result<u32, Malformed> {
    symbols.iter().try_fold(0u32, |value, symbol| {
        let digit = alphabet::base62_value(*symbol).ok_or(Malformed::Alphabet)?;
        value.checked_mul(62).and_then(|value| value.checked_add(digit)).ok_or(Malformed::NonCanonical)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_tokens_are_read_back_and_differ() {
        let format = BearerFormat::new("acme_pat_").unwrap();
        let mut seen = std::collections::HashSet::new();
        let mut symbols = [0u32; 256];
        for _ in 0..2000 {
            let token = format.issue().unwrap();
            assert_eq!(token.reveal().len(), 9 + 36);
            assert_eq!(format.parse(token.reveal()).unwrap().hash(), token.hash());
            token.reveal().as_bytes()[9..39].iter().for_each(|symbol| symbols[usize::from(*symbol)] += 1);
            assert!(seen.insert(token.hash()));
        }
        let used: Vec<u32> = symbols.iter().copied().filter(|count| *count > 0).collect();
        assert_eq!(used.len(), 62);
        // 60 000 draws of 62: 968 each, with a deviation of 31. Six deviations are never seen by chance.
        assert!(used.iter().all(|count| (780..1160).contains(count)), "{used:?}");
    }

    #[test]
    fn nothing_prints_a_token() {
        let format = BearerFormat::new("acme_pat_").unwrap();
        let token = format.issue().unwrap();
        let told = format!("{token:?} {:?} {:?}", token.hash(), format.parse(&token.reveal()[1..]));
        assert!(!told.contains(&token.reveal()[12..]), "{told}");
        assert!(token.hash().matches(token.hash().as_bytes()));
        assert!(!token.hash().matches(&[0; 32]) && !token.hash().matches(&[]));
    }

    #[test]
    fn what_may_be_a_token_is_claimed() {
        let format = BearerFormat::new("acme_pat_").unwrap();
        let token = format.issue().unwrap();
        for text in [token.reveal(), &token.reveal()[..15], &token.reveal().to_uppercase(), "Bearer acme_pat_7"] {
            assert!(format.claims(text), "{text}");
        }
        for text in ["", "acme_pat", "acme_inv_7km1", "usr_7km1dzhmsjg36ctn1d9mvat54y", "42"] {
            assert!(!format.claims(text), "{text}");
        }
    }

    #[test]
    fn prefixes_name_company_and_kind() {
        for good in ["acme_pat_", "a_pat_", "acme_test_pat_"] {
            assert!(BearerFormat::new(good).is_ok(), "{good}");
        }
        for bad in ["", "_", "acme_pat", "acme_", "acmepat_", "Acme_pat_", "a_b_", "acme__pat_", "acme_pat__"] {
            assert!(BearerFormat::new(bad).is_err(), "{bad}");
        }
        assert_eq!(BearerFormat::new("acme_pat_").unwrap().scanner_pattern(), "\\bacme_pat_[0-9A-Za-z]{36}\\b");
    }
}
