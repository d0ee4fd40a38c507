//! Why a public id was not written or not opened.
//!
//! Nothing here carries a token, an id or a reason that needs a key to know: an error may be logged or shown as it is.

/// What went wrong with a public id.
///
/// | value | whose fault | what the outside is told |
/// |---|---|---|
/// | `Malformed` | the sender's | a bad request: the text cannot be an id of this entity, and no key was needed to see it |
/// | `Rejected` | unknown | exactly what is told when nothing is found |
/// | `Encode` | the caller's program | nothing: repair the program or the config |
/// | `Internal` | ours | nothing: report it |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PublicIdError {
    /// The text breaks a rule that needs no key to check.
    #[error("not a public id of this entity: {0}")]
    Malformed(Malformed),
    /// The text opens nothing here: wrong key, entity, realm, version or context, or tampered with. Never says which.
    #[error("no such id")]
    Rejected,
    /// The id cannot have a public text.
    #[error("this id has no public text: {0}")]
    Encode(EncodeError),
    /// A limit that no id should reach was reached.
    #[error("a public id could not be computed: please report this")]
    Internal,
}

/// Which rule a text breaks. Checked without a key, so it tells nobody anything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Too short or too long.
    #[error("wrong length")]
    Length,
    /// A character outside the alphabet; upper case counts.
    #[error("a character that does not occur in these ids")]
    Alphabet,
    /// Another entity's prefix, or none of ours.
    #[error("wrong prefix")]
    Prefix,
    /// A separator is missing or in the wrong place.
    #[error("a separator is missing or misplaced")]
    Separator,
    /// A second spelling, or a value too large for its width.
    #[error("not the canonical spelling")]
    NonCanonical,
    /// The check digit does not fit: a typing error.
    #[error("the check digit does not fit: look for a mistyped digit")]
    CheckDigit,
    /// A number outside the interval given out for this entity.
    #[error("a number that is not given out for this entity")]
    OutOfInterval,
}

/// Why an id has no public text: a fault of the program or the config, never of a user's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The id is not one this form can carry.
    #[error("it lies outside what this form can carry: check the entity's scheme and `start`")]
    OutOfRange,
    /// The numbers of the last stage are used up.
    #[error("the numbers of the last stage are used up: add a stage to `public.stages`")]
    StageExhausted,
    /// The id has another width than the entity's.
    #[error("it has another width than the ids of this entity")]
    WidthMismatch,
    /// The entity has no public form, and the raw id never stands in for one.
    #[error("the config gives this entity no public form: add `public = {{ form = \"token\" }}` and a key in [keys]")]
    NoForm,
    /// A context was given to a form that takes none, or none to a form that needs one.
    #[error("a context was given where none is taken, or none where one is needed: see `public.context`")]
    Context,
}

impl From<Malformed> for PublicIdError {
    fn from(fault: Malformed) -> Self {
        Self::Malformed(fault)
    }
}

impl From<EncodeError> for PublicIdError {
    fn from(fault: EncodeError) -> Self {
        Self::Encode(fault)
    }
}
