//! `ord_7km1dz…`: a prefix, `_`, and a body of fixed width. Split at the last `_`.

use crate::public::{Alphabet, Malformed, PublicIdError, PublicText};

/// The grammar of one entity's prefixed texts.
#[derive(Debug)]
pub(crate) struct Prefixed {
    /// The prefix and `_`.
    stem: String,
    alphabet: Alphabet,
    /// How many bytes a body stands for.
    bytes: usize,
}

impl Prefixed {
    /// Texts of `bytes` bytes behind `prefix`.
    pub(crate) fn new(prefix: &str, alphabet: Alphabet, bytes: usize) -> Self {
        Self { stem: format!("{prefix}_"), alphabet, bytes }
    }

    /// The text of a value, of which the first `bytes` bytes count.
    pub(crate) fn write(&self, value: &[u8]) -> Result<PublicText, PublicIdError> {
        let value = value.get(..self.bytes).ok_or(PublicIdError::Internal)?;
        PublicText::compose(&self.stem, self.alphabet.width(self.bytes), |body| self.alphabet.write(value, body))
    }

    /// Reads a text into the first `bytes` bytes of `value`.
    pub(crate) fn read(&self, text: &str, value: &mut [u8]) -> Result<(), PublicIdError> {
        let text = text.as_bytes();
        let last = text.iter().rposition(|byte| *byte == b'_').ok_or(Malformed::Separator)?;
        let (stem, body) = text.split_at(last + 1);
        if stem != self.stem.as_bytes() {
            return Err(Malformed::Prefix.into());
        }
        let value = value.get_mut(..self.bytes).ok_or(PublicIdError::Internal)?;
        Ok(self.alphabet.read(body, value)?)
    }
}
