//! The scheme's own text, for ids that may be seen. Chosen knowingly: it hides nothing.

use mintage_core::{AnyId, AnyScheme, IdBits, IdScheme, ParseError};

use crate::public::{EncodeError, Malformed, PublicIdError, PublicText};

/// Writes `id` as its scheme does.
pub(crate) fn encode(scheme: &AnyScheme, id: AnyId) -> Result<PublicText, PublicIdError> {
    match scheme {
        AnyScheme::Int(scheme) => spell(scheme.as_ref(), id),
        AnyScheme::Wide(scheme) => spell(scheme.as_ref(), id),
        AnyScheme::Long(scheme) => spell(scheme.as_ref(), id),
        _ => Err(EncodeError::WidthMismatch.into()),
    }
}

/// Reads the one text that [`encode`] writes: schemes may take other letter case, public ids do not.
pub(crate) fn decode(scheme: &AnyScheme, text: &str) -> Result<AnyId, PublicIdError> {
    let id = scheme.parse(text).map_err(|error| malformed(&error))?;
    match encode(scheme, id)? == *text {
        true => Ok(id),
        false => Err(Malformed::NonCanonical.into()),
    }
}

fn spell<B: IdBits>(scheme: &dyn IdScheme<Bits = B>, id: AnyId) -> Result<PublicText, PublicIdError> {
    let bits = B::from_any(id).ok_or(EncodeError::WidthMismatch)?;
    let mut text = PublicText::empty();
    scheme.format(bits, &mut text).map_err(|std::fmt::Error| EncodeError::OutOfRange)?;
    Ok(text)
}

fn malformed(error: &ParseError) -> Malformed {
    match error {
        ParseError::Empty | ParseError::Length { .. } => Malformed::Length,
        ParseError::Character { .. } => Malformed::Alphabet,
        ParseError::Hyphens | ParseError::Group { .. } => Malformed::Separator,
        ParseError::OutOfRange | ParseError::Time { .. } => Malformed::OutOfInterval,
        _ => Malformed::NonCanonical,
    }
}
