//! What every public form offers, ours and strangers' alike.

use std::fmt;

use mintage_core::AnyId;

use crate::public::{PublicIdError, PublicText};

/// Turns ids into the texts that leave the house, and back.
///
/// Laws: `decode` accepts exactly one text for each id; what `encode` wrote, `decode` opens with the same context; a
/// refused text is refused at the same cost whatever the cause.
pub trait PublicIdCodec: fmt::Debug + Send + Sync + 'static {
    /// Writes the one public text of `id`. `context` is empty unless the form is bound to one.
    ///
    /// # Errors
    /// [`PublicIdError::Encode`] when the id does not belong to this form: repair the caller or the config.
    fn encode(&self, id: AnyId, context: &[u8]) -> Result<PublicText, PublicIdError>;

    /// Opens a public text.
    ///
    /// # Errors
    /// [`PublicIdError::Malformed`] for a text no id has: answer "bad request". [`PublicIdError::Rejected`]: answer
    /// exactly as if nothing was found.
    fn decode(&self, text: &str, context: &[u8]) -> Result<AnyId, PublicIdError>;
}
