//! What an entity's ids look like outside: a text of its own type, with everything an id must not have.

use std::{fmt, hash, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Entity,
    public::{Malformed, PublicIdError, PublicText},
};

/// A public id of one entity: put it into URLs, replies and pages. `Display`, `FromStr` and serde work as with any text.
///
/// Reading a text into this type says only that it may be a public id; [`Minter::resolve`](crate::Minter::resolve) opens it.
///
/// Web frameworks take it in a path as it is: serde is all that axum's `Path<PublicId<Order>>` asks for. Resolve it in the
/// handler, and answer `Rejected` as "not found": `examples/axum_path.rs` is a whole service.
pub struct PublicId<E: Entity> {
    text: PublicText,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> PublicId<E> {
    pub(crate) fn new(text: PublicText) -> Self {
        Self { text, entity: PhantomData }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// The text in groups of `size` characters, for reading aloud.
    pub fn grouped(&self, size: usize) -> impl fmt::Display + use<E> {
        self.text.grouped(size)
    }
}

impl<E: Entity> FromStr for PublicId<E> {
    type Err = PublicIdError;

    /// Takes any text of 1 to 95 printable ASCII characters without spaces: more is known only with a key.
    fn from_str(text: &str) -> Result<Self, PublicIdError> {
        use fmt::Write as _;
        let fits = text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut kept = PublicText::default();
        match kept.write_str(text) {
            Ok(()) if !fits => Err(Malformed::Alphabet.into()),
            Ok(()) if !text.is_empty() => Ok(Self::new(kept)),
            _ => Err(Malformed::Length.into()),
        }
    }
}

impl<E: Entity> fmt::Display for PublicId<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl<E: Entity> fmt::Debug for PublicId<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", E::NAME, self.text)
    }
}

impl<E: Entity> AsRef<str> for PublicId<E> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<E: Entity> Clone for PublicId<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E: Entity> Copy for PublicId<E> {}
impl<E: Entity> PartialEq for PublicId<E> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl<E: Entity> Eq for PublicId<E> {}
impl<E: Entity> hash::Hash for PublicId<E> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl<E: Entity> Serialize for PublicId<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, E: Entity> Deserialize<'de> for PublicId<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = PublicText::deserialize(deserializer)?;
        text.as_str().parse().map_err(serde::de::Error::custom)
    }
}
