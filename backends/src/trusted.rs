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
        #[cfg(feature = "tls")]
        choose_cryptography();
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

    /// The certificates in PEM, those that the system trusts too: for a client that does not look for these.
    ///
    /// # Errors
    /// `Refused` when the system trusts none, or the file is no text.
    #[cfg(all(feature = "tls", feature = "zookeeper"))]
    pub(crate) fn all_pem(&self) -> Result<String, StoreError> {
        use base64ct::{Base64, Encoding};
        if let Some(pem) = self.pem() {
            let text = str::from_utf8(pem).map(str::to_owned);
            return text.map_err(|error| refused("the certificates are no text in PEM".to_owned()).caused_by(error));
        }
        let certificates = rustls_native_certs::load_native_certs().certs;
        if certificates.is_empty() {
            let message = "this system trusts no certificates: install them, or write `tls = { ca = \"…\" }`";
            return Err(refused(message.to_owned()));
        }
        let armoured = certificates.iter().map(|certificate| {
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", Base64::encode_string(certificate))
        });
        Ok(armoured.collect())
    }

    /// The certificates in PEM; `None` for those that the system trusts.
    pub(crate) fn pem(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Says which cryptography `rustls` uses in this process, unless somebody has said so.
///
/// The clients for Redis and ZooKeeper ask for the choice of the process, and panic where a build has two and nobody chose. The
/// client for ZooKeeper brings a second one, and so may the application. One that chooses does so before it opens a store.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    // Another thread may choose at the same moment: then that one stands.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(all(test, feature = "tls", feature = "zookeeper"))]
mod tests {
    use super::*;

    /// What the system trusts, as far as it trusts anybody, is read back by the client.
    #[test]
    fn what_the_system_trusts_is_written_as_pem() {
        let count = rustls_native_certs::load_native_certs().certs.len();
        match Trusted(None).all_pem() {
            Ok(pem) => {
                assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), count);
                assert!(zookeeper_client::TlsOptions::new().with_pem_ca(&pem).is_ok());
            }
            Err(told) => assert!(count == 0 && told.to_string().contains("ca ="), "{told}"),
        }
    }
}
