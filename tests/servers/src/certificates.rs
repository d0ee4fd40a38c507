//! An authority of the test's own, and a server that it vouches for.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use crate::{
    Program, require,
    server::{new_folder, output_of},
};

/// A certificate for 127.0.0.1 and its authority's. Made by `openssl`; gone with this value.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// New ones. `None` where `openssl` is not installed, which is said on stderr.
    ///
    /// # Panics
    /// Where they cannot be made.
    #[track_caller]
    pub fn make() -> Option<Self> {
        Self::make_for("IP:127.0.0.1,DNS:localhost")
    }

    /// As [`make`](Self::make), for a server of these names, such as `DNS:db.example`.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn make_for(alternative_names: &str) -> Option<Self> {
        if !require(Program::OpenSsl) {
            return None;
        }
        let made = Self { folder: new_folder() };
        let names = made.path("names");
        fs::write(&names, format!("subjectAltName={alternative_names}\nbasicConstraints=CA:FALSE\n"))
            .unwrap_or_else(|error| panic!("cannot write {names:?}: {error}"));
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let openssl = |args: &[&str]| output_of(Command::new("openssl").args(args).current_dir(made.folder.path()));
        openssl(
            &[
                &["req", "-x509", "-days", "30", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem"],
                &key[..],
            ]
            .concat(),
        );
        openssl(
            &[&["req", "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr"], &key[..]].concat(),
        );
        let sign = ["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
        openssl(&[&sign[..], &["-days", "30", "-extfile", "names", "-out", "server.pem"]].concat());
        Some(made)
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("server.pem")
    }

    /// The server's key.
    pub fn key(&self) -> PathBuf {
        self.path("server.key")
    }

    /// The server's certificate and key in one file, as Java wants them.
    ///
    /// # Panics
    /// Where it cannot be written.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn certificate_with_key(&self) -> PathBuf {
        let both = self.path("server-and-key.pem");
        let parts = [self.certificate(), self.key()].map(fs::read_to_string);
        let written = parts.into_iter().collect::<Result<String, _>>().and_then(|text| fs::write(&both, text));
        written.unwrap_or_else(|error| panic!("cannot write {both:?}: {error}"));
        both
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
