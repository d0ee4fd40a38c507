//! Whose word is taken for who a server is.

use mintage_core::{StoreError, plugin::Tls};

use crate::rules::refused;

/// The certificates that a [`Tls`] names, read.
#[derive(Clone, Debug)]
pub(crate) struct Trusted(Option<Vec<u8>>);

impl Trusted {
    /// # Errors
    /// `Refused` when this build cannot encrypt, or the file cannot be read.
    pub(crate) fn read(tls: &Tls) -> Result<Self, StoreError> {
        if !cfg!(feature = "tls") {
            let message =
                "an encrypted connection is asked for, which is not in this build: build it with the feature `tls`";
            return Err(refused(message.to_owned()));
        }
        let Some(file) = &tls.ca else { return Ok(Self(None)) };
        let pem = std::fs::read(file).map_err(|error| {
            refused(format!(
                "the certificates in {} cannot be read: check the path and the rights on it",
                file.display()
            ))
            .caused_by(error)
        })?;
        if !pem.windows(27).any(|part| part == b"-----BEGIN CERTIFICATE-----") {
            return Err(refused(format!(
                "{} holds no certificate in PEM: name the file of your authority",
                file.display()
            )));
        }
        Ok(Self(Some(pem)))
    }

    /// The certificates in PEM; `None` for those that the system trusts.
    pub(crate) fn pem(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}
