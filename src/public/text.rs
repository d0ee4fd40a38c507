//! A public id's text, kept on the stack.
//!
//! Invariant: the first `len` bytes are UTF-8, the others are zero (so that `==` and `Hash` may look at all of them).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::public::PublicIdError;

/// The longest text: a prefix of 32, `_` and 58 symbols make 91; the rest rounds the type up to 96 bytes.
pub(crate) const TEXT_LEN_MAX: usize = 95;

/// The text of a public id: put it into a URL, a reply or a page as it is.
///
/// No heap, `Copy`, 96 bytes; reads as a `str`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicText {
    len: u8,
    bytes: [u8; TEXT_LEN_MAX],
}

const _: () = assert!(size_of::<PublicText>() == 96);

impl PublicText {
    /// The text.
    pub fn as_str(&self) -> &str {
        // Always UTF-8, see the invariant; checking it again costs nanoseconds and no unsafe.
        std::str::from_utf8(self.filled()).unwrap_or_default()
    }

    /// The text in groups of `size` characters, for reading aloud: `6878 6536 8056`.
    ///
    /// Only for eyes: programs pass the ungrouped text on. A prefix stays whole.
    pub fn grouped(&self, size: usize) -> impl fmt::Display + use<> {
        Grouped { text: *self, size }
    }

    pub(crate) fn empty() -> Self {
        Self { len: 0, bytes: [0; TEXT_LEN_MAX] }
    }

    /// `stem` and `len` bytes behind it, which `fill` overwrites with ASCII.
    #[inline]
    pub(crate) fn compose(stem: &str, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Self, PublicIdError> {
        let mut text = Self::empty();
        let (front, rest) = text.bytes.split_at_mut_checked(stem.len()).ok_or(PublicIdError::Internal)?;
        front.copy_from_slice(stem.as_bytes());
        fill(rest.get_mut(..len).ok_or(PublicIdError::Internal)?);
        text.len = u8::try_from(stem.len() + len).map_err(|_| PublicIdError::Internal)?;
        Ok(text)
    }

    fn filled(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl Default for PublicText {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Write for PublicText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let end = start + more.len();
        self.bytes.get_mut(start..end).ok_or(fmt::Error)?.copy_from_slice(more.as_bytes());
        self.len = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl fmt::Display for PublicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for PublicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl AsRef<str> for PublicText {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::ops::Deref for PublicText {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for PublicText {
    fn eq(&self, other: &str) -> bool {
        self.filled() == other.as_bytes()
    }
}

impl PartialEq<&str> for PublicText {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl From<PublicText> for String {
    fn from(text: PublicText) -> Self {
        text.as_str().to_owned()
    }
}

impl Serialize for PublicText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads any text that fits. Whether it is an id, only a codec can say.
impl<'de> Deserialize<'de> for PublicText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl de::Visitor<'_> for TextVisitor {
    type Value = PublicText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a public id: a text of at most {TEXT_LEN_MAX} bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PublicText, E> {
        let mut read = PublicText::empty();
        fmt::Write::write_str(&mut read, text).map_err(|fmt::Error| E::invalid_length(text.len(), &self))?;
        Ok(read)
    }
}

struct Grouped {
    text: PublicText,
    size: usize,
}

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_str();
        let (stem, body) = text.split_at(text.rfind('_').map_or(0, |at| at + 1));
        f.write_str(stem)?;
        for (at, symbol) in body.chars().enumerate() {
            if at > 0 && self.size > 0 && at % self.size == 0 {
                f.write_str(" ")?;
            }
            fmt::Write::write_char(f, symbol)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn a_text_is_its_characters_and_never_grows_past_its_room() {
        let mut text = PublicText::empty();
        assert_eq!(text.as_str(), "");
        text.write_str("ord_").unwrap();
        text.write_str("7km1").unwrap();
        assert_eq!(text, "ord_7km1");
        assert_eq!((text.to_string(), format!("{text:?}")), ("ord_7km1".into(), "\"ord_7km1\"".into()));
        assert_eq!(format!("[{text:>10}]"), "[  ord_7km1]");
        assert!(text.write_str(&"x".repeat(TEXT_LEN_MAX - 7)).is_err());
        assert_eq!(text, "ord_7km1", "a refused piece leaves nothing behind");
        assert!(text.write_str(&"x".repeat(TEXT_LEN_MAX - 8)).is_ok());
        assert_eq!(text.len(), TEXT_LEN_MAX);
        let full = PublicText::compose("abc", TEXT_LEN_MAX - 3, |room| room.fill(b'x')).unwrap();
        assert_eq!((full.len(), &full[..5]), (TEXT_LEN_MAX, "abcxx"));
        assert!(PublicText::compose("abc", TEXT_LEN_MAX - 2, |_| ()).is_err());
        assert!(PublicText::compose(&"x".repeat(TEXT_LEN_MAX + 1), 0, |_| ()).is_err());
    }

    #[test]
    fn serde_writes_and_reads_a_string() {
        let text: PublicText = serde_json::from_str("\"ord_7km1\"").unwrap();
        assert_eq!(serde_json::to_string(&text).unwrap(), "\"ord_7km1\"");
        for bad in ["5".to_owned(), "null".to_owned(), format!("\"{}\"", "x".repeat(96))] {
            assert!(serde_json::from_str::<PublicText>(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_for_eyes_and_keep_the_prefix() {
        let mut number = PublicText::empty();
        number.write_str("687865368056").unwrap();
        assert_eq!(number.grouped(4).to_string(), "6878 6536 8056");
        assert_eq!(number.grouped(5).to_string(), "68786 53680 56");
        assert_eq!(number.grouped(0).to_string(), "687865368056");
        let mut token = PublicText::empty();
        token.write_str("ord_7km1dz").unwrap();
        assert_eq!(token.grouped(3).to_string(), "ord_7km 1dz");
    }
}
