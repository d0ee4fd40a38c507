//! Master keys, and what is derived from them.
//!
//! A key ring holds one master a version. No master ever encrypts: each entity, realm, scheme, width and version has
//! a key of its own, made by HKDF, so a text of one never opens as another. Masters are wiped when dropped, cannot be
//! cloned and cannot be printed; a key ring's `Debug` shows version numbers only.
//!
//! The text of a key ring, in a file or a variable:
//!
//! ```text
//! # one line a version
//! 1 = base64 of 32 random bytes
//! 2 = base64 of 32 other random bytes
//! 2.from = 2026-11-01T00:00:00Z        version 2 takes the ids made from then on, where ids carry their time
//! 2.from.orders = 1500000              … and the numbers of this entity from here on
//! 3.reissues = 2                       version 3 takes over all that version 2 owned, because its key leaked
//! 2.revoked = true                     what version 2 once wrote opens nothing any more; its key line may go
//! ```

use std::{collections::BTreeMap, fmt};

use base64ct::{Base64, Encoding};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// How long a master is.
pub const MASTER_LEN: usize = 32;
/// The version that owns every id until a later one takes over.
pub(crate) const FIRST_VERSION: u32 = 1;
/// The longest text an entity, a realm or parameters may have in a label: its length takes one byte.
pub(crate) const LABEL_LEN_MAX: usize = 255;

const SALT: &[u8] = b"mintage.public-id.v1";
const LABEL: &[u8] = b"pubid/1\0";
const CHECK_VALUE_LABEL: &[u8] = b"pubid/kcv/1";

/// The master keys under one name of `[keys]`, by version.
#[derive(Default)]
pub struct Keyring {
    masters: BTreeMap<u32, Master>,
    starts: Vec<KeyStart>,
    reissues: Vec<Reissue>,
    revoked: Vec<u32>,
}

/// 32 secret bytes. No `Debug`, no `Clone`; wiped when dropped.
struct Master(Zeroizing<[u8; MASTER_LEN]>);

/// From where on a key version owns ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStart {
    /// The version that takes over.
    pub version: u32,
    /// Where.
    pub at: StartAt,
}

/// A place in the order of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartAt {
    /// The first id of an instant, for every entity whose ids carry their time.
    Time {
        /// Unix milliseconds.
        unix_ms: i64,
    },
    /// A number above every range handed out so far, for one entity.
    Number {
        /// The entity.
        entity: String,
        /// Its first id under the new version.
        from: u64,
    },
}

/// One version takes over what another owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reissue {
    /// The version that takes over.
    pub version: u32,
    /// The version whose key leaked.
    pub old: u32,
}

/// The first eight bytes of a MAC under a master: tells two masters apart and gives neither away. Kept in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyCheckValue([u8; 8]);

/// What a derived key is for. Differs in one field: another key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    pub(crate) scheme: &'static str,
    pub(crate) realm: &'a str,
    pub(crate) entity: &'a str,
    pub(crate) params: &'a str,
}

/// Why there is no key ring. Never repeats what a line says: it may be the secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing there.
    #[error("{place}: no keys here: make them with `mintage keys new`, or correct the config's [keys]")]
    Missing {
        /// The file or variable.
        place: String,
    },
    /// The keys are gone, but ids were written under them.
    #[error(
        "{place}: the keys are gone, but the store knows that ids were written under them: put the file back from a copy. \
         New keys would open none of those ids"
    )]
    Lost {
        /// The file.
        place: String,
    },
    /// A line that cannot be read.
    #[error("{place}, line {line}: {fault}")]
    Line {
        /// The file or variable.
        place: String,
        /// From 1.
        line: usize,
        /// What is wrong and what to write.
        fault: &'static str,
    },
    /// The lines make no sense together, or the change asked for does not fit them.
    #[error("{place}: {fault}")]
    Refused {
        /// The file or variable.
        place: String,
        /// What is wrong and what to do.
        fault: String,
    },
    /// A key file is there already and is never overwritten.
    #[error("{place}: there is a key file already, and replacing it would make every public id unreadable")]
    Exists {
        /// The file.
        place: String,
    },
    /// The operating system said no.
    #[error("{place}: cannot {doing}: check the path and its permissions")]
    System {
        /// The file.
        place: String,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: check that getrandom or /dev/urandom is allowed here")]
    NoEntropy,
    /// A key service failed.
    #[error("{place}: the key service did not answer")]
    Service {
        /// The service.
        place: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Keyring {
    /// Reads the text of a key ring; `place` names it in errors.
    ///
    /// # Errors
    /// [`KeyError::Line`] says which line to repair, [`KeyError::Refused`] which lines contradict each other.
    pub fn parse(text: &str, place: &str) -> Result<Self, KeyError> {
        let mut ring = Self::default();
        for (at, line) in text.lines().enumerate() {
            ring.line(line).map_err(|fault| KeyError::Line { place: place.to_owned(), line: at + 1, fault })?;
        }
        if ring.masters.is_empty() {
            return Err(KeyError::Missing { place: place.to_owned() });
        }
        ring.check().map_err(|fault| KeyError::Refused { place: place.to_owned(), fault })?;
        Ok(ring)
    }

    /// Adds a master that came from elsewhere, such as a key service.
    ///
    /// # Errors
    /// A sentence that says why not: the version is 0 or taken, or the key stands in the ring already.
    pub fn insert(&mut self, version: u32, master: &[u8; MASTER_LEN]) -> Result<(), &'static str> {
        if version == 0 {
            return Err("versions are counted from 1");
        }
        if self.masters.contains_key(&version) {
            return Err("this version stands here already");
        }
        if self.masters.values().any(|known| bool::from(known.0.as_slice().ct_eq(master))) {
            return Err("this key stands here already under another version: each version needs a key of its own");
        }
        self.masters.insert(version, Master(Zeroizing::new(*master)));
        Ok(())
    }

    /// The versions that have a master, ascending.
    pub fn versions(&self) -> impl Iterator<Item = u32> {
        self.masters.keys().copied()
    }

    /// From where on later versions own ids.
    pub fn starts(&self) -> &[KeyStart] {
        &self.starts
    }

    /// Which versions took over from which.
    pub fn reissues(&self) -> &[Reissue] {
        &self.reissues
    }

    /// Whether what this version wrote opens nothing any more.
    pub fn is_revoked(&self, version: u32) -> bool {
        self.revoked.contains(&version)
    }

    /// What the store keeps of a version's master, so that a start with another one is refused.
    pub fn check_value(&self, version: u32) -> Option<KeyCheckValue> {
        let master = self.masters.get(&version)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(master.0.as_slice()).ok()?;
        mac.update(CHECK_VALUE_LABEL);
        mac.finalize().into_bytes().first_chunk().copied().map(KeyCheckValue)
    }

    /// The key of `N` bytes for one purpose; `None` if the version has no master or the label is too long.
    pub(crate) fn derive<const N: usize>(&self, version: u32, label: &Label<'_>) -> Option<Zeroizing<[u8; N]>> {
        let master = self.masters.get(&version)?;
        let mut info = LABEL.to_vec();
        for part in [label.scheme, label.realm, label.entity, label.params] {
            info.push(u8::try_from(part.len()).ok()?);
            info.extend_from_slice(part.as_bytes());
        }
        info.extend_from_slice(&version.to_be_bytes());
        let mut key = Zeroizing::new([0; N]);
        Hkdf::<Sha256>::new(Some(SALT), master.0.as_slice()).expand(&info, key.as_mut_slice()).ok()?;
        Some(key)
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            return Ok(());
        }
        let (name, value) = line.split_once('=').ok_or("not `name = value`: write `1 = ` and the key in base64")?;
        let mut words = name.trim().splitn(3, '.');
        let version = words.next().and_then(version_of).ok_or("begins with no version number: write 1, 2, …")?;
        match (words.next(), words.next(), value.trim()) {
            (None, None, key) => self.insert(version, &*master_of(key)?),
            (Some("from"), None, time) => {
                let unix_ms = unix_ms_of(time).ok_or("not a time: write it as 2026-11-01T00:00:00Z")?;
                self.start(KeyStart { version, at: StartAt::Time { unix_ms } })
            }
            (Some("from"), Some(entity), number) => {
                let from = mintage_core::parse_decimal(number, 63).map_err(|_| "not a number: write the first id")?;
                self.start(KeyStart { version, at: StartAt::Number { entity: entity.to_owned(), from } })
            }
            (Some("reissues"), None, old) => {
                let old = version_of(old).ok_or("names no version: write the number of the key that leaked")?;
                self.reissues.push(Reissue { version, old });
                Ok(())
            }
            (Some("revoked"), None, "true") => {
                self.revoked.push(version);
                Ok(())
            }
            _ => Err("no such setting: known are `N`, `N.from`, `N.from.ENTITY`, `N.reissues` and `N.revoked = true`"),
        }
    }

    fn start(&mut self, start: KeyStart) -> Result<(), &'static str> {
        let place = |at: &StartAt| match at {
            StartAt::Time { .. } => None,
            StartAt::Number { entity, .. } => Some(entity.clone()),
        };
        if self.starts.iter().any(|known| known.version == start.version && place(&known.at) == place(&start.at)) {
            return Err("this start stands here already: a version takes over once");
        }
        self.starts.push(start);
        Ok(())
    }

    /// What no single line can show.
    fn check(&self) -> Result<(), String> {
        for version in
            self.starts.iter().map(|start| start.version).chain(self.reissues.iter().map(|next| next.version))
        {
            if version == FIRST_VERSION {
                return Err(format!("version {FIRST_VERSION} is where everything starts: it takes over from nobody"));
            }
            if !self.masters.contains_key(&version) && !self.revoked.contains(&version) {
                return Err(format!("version {version} has no key: write `{version} = ` and the key in base64"));
            }
        }
        match self.reissues.iter().find(|next| next.old >= next.version) {
            Some(next) => {
                Err(format!("version {} cannot reissue version {}: only an older one", next.version, next.old))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("versions", &self.versions().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl KeyCheckValue {
    /// The value of eight bytes, as read back from a store.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

/// Sixteen hexadecimal digits, lower case.
impl fmt::Display for KeyCheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

fn version_of(text: &str) -> Option<u32> {
    mintage_core::parse_decimal(text, 32).ok().and_then(|version| u32::try_from(version).ok()).filter(|v| *v > 0)
}

fn master_of(text: &str) -> Result<Zeroizing<[u8; MASTER_LEN]>, &'static str> {
    const FAULT: &str = "not a key: write 32 random bytes in base64, 44 characters with `=` at the end";
    let mut master = Zeroizing::new([0; MASTER_LEN]);
    match Base64::decode(text, master.as_mut_slice()) {
        Ok(bytes) if bytes.len() == MASTER_LEN => Ok(master),
        _ => Err(FAULT),
    }
}

fn unix_ms_of(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const TWO: &str = "2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

    /// Does not compile if the type has the trait: then the call could mean either of two.
    macro_rules! assert_lacks {
        ($kind:ty: $bound:path) => {{
            trait Either<Which> {
                fn named() {}
            }
            struct Has;
            impl<T> Either<()> for T {}
            impl<T: $bound> Either<Has> for T {}
            <$kind as Either<_>>::named();
        }};
    }

    #[test]
    fn masters_cannot_be_printed_or_copied() {
        assert_lacks!(Master: Clone);
        assert_lacks!(Master: fmt::Debug);
        assert_lacks!(Master: fmt::Display);
        assert_lacks!(Keyring: Clone);
        let ring = Keyring::parse(&format!("{ONE}\n{TWO}"), "test").unwrap();
        assert_eq!(format!("{ring:?}"), "Keyring { versions: [1, 2], .. }");
    }

    #[test]
    fn lines_comments_and_spaces() {
        let text = format!(
            "# keys of the shop\n\n  {ONE}   # first\r\n{TWO}\n2.from = 2026-11-01T00:00:00Z\n2.from.orders = 1500000\n"
        );
        let ring = Keyring::parse(&text, "test").unwrap();
        assert_eq!(ring.versions().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            ring.starts(),
            [
                KeyStart { version: 2, at: StartAt::Time { unix_ms: 1_793_491_200_000 } },
                KeyStart { version: 2, at: StartAt::Number { entity: "orders".into(), from: 1_500_000 } },
            ]
        );
        let ring = Keyring::parse(&format!("{TWO}\n2.reissues = 1\n1.revoked = true"), "test").unwrap();
        assert_eq!(ring.reissues(), [Reissue { version: 2, old: 1 }]);
        assert!(ring.is_revoked(1) && !ring.is_revoked(2));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line_and_never_repeated() {
        let secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let wrong = [
            secret.to_owned(),
            format!("{secret}="),
            format!("1 = {secret}"),
            format!("1 = {secret}=="),
            format!("1 = {secret}A"),
            format!("1 = \"{secret}=\""),
            format!("0 = {secret}="),
            format!("01 = {secret}="),
            format!("+1 = {secret}="),
            format!("4294967296 = {secret}="),
            format!("main = {secret}="),
            format!("1 = {}", &secret[..20]),
            "1.from = tomorrow".into(),
            "2.from.orders = -5".into(),
            "2.revoked = yes".into(),
            "2.since = 5".into(),
            "2.reissues = one".into(),
            "2.reissues.orders = 1".into(),
        ];
        for line in wrong {
            let told = Keyring::parse(&format!("# first\n{line}"), "mintage.keys").unwrap_err();
            assert!(matches!(&told, KeyError::Line { line: 2, .. }), "{line}: {told:?}");
            assert!(!format!("{told} {told:?}").contains("AAECAwQFBgcI"), "{told:?}");
        }
        for text in [
            format!("{ONE}\n{ONE}"),
            format!("{ONE}\n{}", ONE.replacen('1', "2", 1)),
            format!("{ONE}\n{TWO}\n2.from = 2026-11-01T00:00:00Z\n2.from = 2026-11-02T00:00:00Z"),
            format!("{ONE}\n2.from = 2026-11-01T00:00:00Z"),
            format!("{ONE}\n1.from = 2026-11-01T00:00:00Z"),
            format!("{ONE}\n{TWO}\n2.reissues = 2"),
            String::new(),
            "# nothing yet".into(),
        ] {
            assert!(Keyring::parse(&text, "test").is_err(), "{text}");
        }
    }

    #[test]
    fn every_part_of_a_label_and_every_byte_of_a_master_counts() {
        let ring = Keyring::parse(&format!("{ONE}\n{TWO}"), "test").unwrap();
        let label = Label { scheme: "tok-kwp", realm: "live", entity: "order", params: "w64" };
        let key = |version, label: Label<'_>| *ring.derive::<32>(version, &label).unwrap();
        let keys = [
            key(1, label),
            key(2, label),
            key(1, Label { scheme: "tok-siv", ..label }),
            key(1, Label { realm: "test", ..label }),
            key(1, Label { entity: "orders", ..label }),
            key(1, Label { params: "w128", ..label }),
            key(1, Label { realm: "liveo", entity: "rder", ..label }),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != one));
        }
        let mut seen = vec![key(1, label)];
        for at in 0..MASTER_LEN {
            let mut master: [u8; MASTER_LEN] = std::array::from_fn(|byte| byte as u8);
            master[at] ^= 1;
            let mut ring = Keyring::default();
            ring.insert(1, &master).unwrap();
            let other = *ring.derive::<32>(1, &label).unwrap();
            assert!(!seen.contains(&other), "byte {at} of the master does not count");
            seen.push(other);
        }
        assert!(ring.derive::<32>(3, &label).is_none());
        assert!(ring.derive::<32>(1, &Label { entity: &"x".repeat(256), ..label }).is_none());
    }

    #[test]
    fn rfc_5869_case_1() {
        let (_, hkdf) = Hkdf::<Sha256>::extract(Some(&std::array::from_fn::<u8, 13, _>(|at| at as u8)), &[0x0b; 22]);
        let mut okm = [0; 42];
        hkdf.expand(&std::array::from_fn::<u8, 10, _>(|at| 0xf0 + at as u8), &mut okm).unwrap();
        let hex: String = okm.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    }
}
