//! Where key rings come from: a file, an environment variable, or a key service of the house.
//!
//! A key file is never overwritten by a new one: two processes that start at once end up with the same file, because
//! only one link to it can be made. Every change is written beside the file, synced, and put in place in one step.

use std::{
    ffi::OsString,
    fmt::{self, Write as _},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use base64ct::{Base64, Encoding};
use rand::{TryRng, rngs::SysRng};
use zeroize::Zeroizing;

use crate::{
    config::Environment,
    public::keys::{FIRST_VERSION, KeyError, KeyStart, Keyring, MASTER_LEN, Reissue, StartAt},
};

/// Where the keys of one name of `[keys]` come from. Implement it for a key service.
#[async_trait]
pub trait KeySource: fmt::Debug + Send + Sync + 'static {
    /// Which place this is, for messages: a path, a variable, an address. No secret.
    fn place(&self) -> String;

    /// Fetches the key ring. Called once, while the registry is built.
    ///
    /// # Errors
    /// [`KeyError::Missing`] where there are no keys yet; anything else stops the start.
    async fn load(&self) -> Result<Keyring, KeyError>;
}

/// Keys in a file: `file = "mintage.keys"`.
#[derive(Clone, Debug)]
pub struct FileKeys {
    path: PathBuf,
}

/// Keys in an environment variable: `env = "MINTAGE_KEYS"`. Lines may also be parted by `;`.
#[derive(Clone, Debug)]
pub struct EnvKeys {
    name: String,
}

/// A change to a key file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyChange {
    /// A new version that owns the ids from these places on.
    Rotate {
        /// Where it takes over; the version it takes over from is the newest there is.
        starts: Vec<StartAt>,
    },
    /// A new version that takes over all that a leaked one owned.
    Reissue {
        /// The leaked version.
        old: u32,
    },
    /// What a version wrote opens nothing any more, and its key is wiped from the file.
    Revoke {
        /// The version.
        version: u32,
    },
}

impl FileKeys {
    /// The key file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`KeyError::Missing`] if there is none; otherwise what to repair.
    pub fn read(&self) -> Result<Keyring, KeyError> {
        Keyring::parse(&self.text()?, &self.place())
    }

    /// Reads the file; makes it first, with one fresh key, if there is none and nothing was ever written under it.
    ///
    /// `store_knows_keys`: whether the store holds a check value of any key of this name. Then a file that is not there
    /// is lost, not new. Says besides whether it made the file, so that the caller can say so loudly. Of two processes
    /// that call this at once, one makes the file and both read the same key.
    ///
    /// # Errors
    /// [`KeyError::Lost`] if the file is missed, [`KeyError::System`] if it cannot be made, [`KeyError::NoEntropy`]
    /// without random bytes, and as [`read`](Self::read).
    pub fn read_or_make(&self, store_knows_keys: bool) -> Result<(Keyring, bool), KeyError> {
        match self.read() {
            Err(KeyError::Missing { place }) if store_knows_keys => Err(KeyError::Lost { place }),
            Err(KeyError::Missing { .. }) => match self.make() {
                Ok(()) => Ok((self.read()?, true)),
                // Another process was faster; or a file without a key is there, and its owner had better look.
                Err(KeyError::Exists { .. }) => Ok((self.read()?, false)),
                Err(error) => Err(error),
            },
            read => Ok((read?, false)),
        }
    }

    /// Makes the file with one fresh key, readable by its owner only.
    ///
    /// # Errors
    /// [`KeyError::Exists`] if it is there already, and as [`read_or_make`](Self::read_or_make).
    pub fn make(&self) -> Result<(), KeyError> {
        let mut text = Zeroizing::new(String::from(
            "# Keys of public ids. Whoever has this file reads them all; whoever loses it reads none. Keep a copy safe.\n",
        ));
        append_key(&mut text, FIRST_VERSION)?;
        let fresh = self.write_beside(&text)?;
        let linked = fs::hard_link(&fresh.path, &self.path);
        match linked {
            Ok(()) => self.sync_folder(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(KeyError::Exists { place: self.place() }),
            Err(source) => Err(self.system("put the new key file in place", source)),
        }
    }

    /// What `change` would make of the file, as a key ring: the dry run of [`apply`](Self::apply). Its fresh key is not kept.
    ///
    /// # Errors
    /// [`KeyError::Refused`] says why the change does not fit.
    pub fn preview(&self, change: &KeyChange) -> Result<Keyring, KeyError> {
        Keyring::parse(&self.changed(change)?, &self.place())
    }

    /// Changes the file in one step and reads it. Other lines and comments stay.
    ///
    /// # Errors
    /// [`KeyError::Refused`] says why the change does not fit; otherwise as [`make`](Self::make).
    pub fn apply(&self, change: &KeyChange) -> Result<Keyring, KeyError> {
        let text = self.changed(change)?;
        let ring = Keyring::parse(&text, &self.place())?;
        let fresh = self.write_beside(&text)?;
        fs::rename(&fresh.path, &self.path).map_err(|source| self.system("replace the key file", source))?;
        self.sync_folder()?;
        Ok(ring)
    }

    /// Whether others than the owner may read the file. Always `false` where files have no such mode.
    pub fn others_may_read(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(&self.path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
        }
        #[cfg(not(unix))]
        {
            false
        }
    }

    fn text(&self) -> Result<Zeroizing<String>, KeyError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(KeyError::Missing { place: self.place() }),
            Err(source) => Err(self.system("read the key file", source)),
        }
    }

    fn changed(&self, change: &KeyChange) -> Result<Zeroizing<String>, KeyError> {
        let text = self.text()?;
        let ring = Keyring::parse(&text, &self.place())?;
        let refused = |fault: String| KeyError::Refused { place: self.place(), fault };
        let newest =
            ring.versions().chain(ring.reissues().iter().map(|next| next.version)).max().unwrap_or(FIRST_VERSION);
        let next = newest.checked_add(1).ok_or_else(|| refused("no version number is left".to_owned()))?;
        let mut changed = Zeroizing::new(text.trim_end().to_owned() + "\n");
        match change {
            KeyChange::Rotate { starts } => {
                append_key(&mut changed, next)?;
                for at in starts {
                    append_start(&mut changed, &KeyStart { version: next, at: at.clone() });
                }
            }
            KeyChange::Reissue { old } => {
                if !ring.versions().any(|version| version == *old) {
                    return Err(refused(format!("there is no version {old} to reissue")));
                }
                append_key(&mut changed, next)?;
                append(&mut changed, &format!("{next}.reissues = {old}"));
            }
            KeyChange::Revoke { version } => {
                if ring.is_revoked(*version) {
                    return Err(refused(format!("version {version} is revoked already")));
                }
                if !ring.versions().any(|known| known == *version) {
                    let known: Vec<String> = ring.versions().map(|version| version.to_string()).collect();
                    return Err(refused(format!(
                        "there is no version {version} to revoke (known: {})",
                        known.join(", ")
                    )));
                }
                if !ring.reissues().iter().any(|Reissue { old, .. }| old == version) {
                    let fault = format!("version {version} still owns ids: reissue them under a new version first");
                    return Err(refused(fault));
                }
                changed = without_key(&changed, *version);
                append(&mut changed, &format!("{version}.revoked = true"));
            }
        }
        Ok(changed)
    }

    /// Writes `text` into a new file beside the key file and syncs it. Dropped, the file goes.
    fn write_beside(&self, text: &str) -> Result<Beside, KeyError> {
        let mut tag = [0; 8];
        SysRng.try_fill_bytes(&mut tag).map_err(|_| KeyError::NoEntropy)?;
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(format!(".{:016x}", u64::from_be_bytes(tag)));
        let path = self.path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(|source| self.system("make a file beside the key file", source))?;
        let beside = Beside { path };
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|source| self.system("write the key file", source))?;
        Ok(beside)
    }

    /// A new name lasts only once its folder is synced. Folders cannot be opened everywhere; there the system decides.
    fn sync_folder(&self) -> Result<(), KeyError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match File::open(folder) {
            Ok(folder) if cfg!(unix) => folder.sync_all().map_err(|source| self.system("sync the folder", source)),
            _ => Ok(()),
        }
    }

    fn system(&self, doing: &'static str, source: io::Error) -> KeyError {
        KeyError::System { place: self.place(), doing, source }
    }
}

impl EnvKeys {
    /// The variable `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    pub(crate) fn read_in(&self, environment: &Environment) -> Result<Keyring, KeyError> {
        let value = environment.value(&self.name).map_err(|_| KeyError::Refused {
            place: self.place(),
            fault: "its value is not UTF-8: set it to lines of keys".to_owned(),
        })?;
        let value = value.ok_or_else(|| KeyError::Missing { place: self.place() })?;
        Keyring::parse(&Zeroizing::new(value.replace(';', "\n")), &self.place())
    }
}

#[async_trait]
impl KeySource for FileKeys {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    async fn load(&self) -> Result<Keyring, KeyError> {
        self.read()
    }
}

#[async_trait]
impl KeySource for EnvKeys {
    fn place(&self) -> String {
        format!("the variable {}", self.name)
    }

    async fn load(&self) -> Result<Keyring, KeyError> {
        self.read_in(&Environment::of_process())
    }
}

/// A file that goes when dropped, unless it was renamed away.
struct Beside {
    path: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Renamed away it is no longer there, and otherwise an orphan is all that is left: nothing to do about either.
        let _ = fs::remove_file(&self.path);
    }
}

/// Adds a line, without leaving a copy of the secret where the text was before it grew.
fn append(text: &mut Zeroizing<String>, line: &str) {
    let mut grown = Zeroizing::new(String::with_capacity(text.len() + line.len() + 1));
    grown.push_str(text);
    grown.push_str(line);
    grown.push('\n');
    *text = grown;
}

fn append_key(text: &mut Zeroizing<String>, version: u32) -> Result<(), KeyError> {
    let mut master = Zeroizing::new([0; MASTER_LEN]);
    SysRng.try_fill_bytes(master.as_mut_slice()).map_err(|_| KeyError::NoEntropy)?;
    let key = Zeroizing::new(Base64::encode_string(master.as_slice()));
    // Room for the version, the equals sign and 44 characters, so that the secret is written once.
    let mut line = Zeroizing::new(String::with_capacity(64));
    // Writing into a String cannot fail.
    let _ = write!(line, "{version} = {}", key.as_str());
    append(text, &line);
    Ok(())
}

fn append_start(text: &mut Zeroizing<String>, start: &KeyStart) {
    let version = start.version;
    let line = match &start.at {
        StartAt::Time { unix_ms } => match jiff::Timestamp::from_millisecond(*unix_ms) {
            Ok(time) => format!("{version}.from = {time}"),
            // Beyond the years that can be written: refused when the text is read back.
            Err(_) => format!("{version}.from = {unix_ms}"),
        },
        StartAt::Number { entity, from } => format!("{version}.from.{entity} = {from}"),
    };
    append(text, &line);
}

fn without_key(text: &str, version: u32) -> Zeroizing<String> {
    let is_key = |line: &str| line.split('=').next().is_some_and(|name| name.trim() == version.to_string());
    let mut kept = Zeroizing::new(String::with_capacity(text.len()));
    for line in text.lines().filter(|line| !is_key(line)) {
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, FileKeys) {
        let folder = tempfile::tempdir().unwrap();
        let keys = FileKeys::new(folder.path().join("mintage.keys"));
        (folder, keys)
    }

    fn fresh(keys: &FileKeys) -> Keyring {
        keys.make().unwrap();
        keys.read().unwrap()
    }

    #[test]
    fn a_key_file_is_made_once_and_for_its_owner_only() {
        let (folder, keys) = place();
        assert!(matches!(keys.read(), Err(KeyError::Missing { .. })));
        assert!(matches!(keys.read_or_make(true), Err(KeyError::Lost { .. })), "lost keys are not replaced");
        let (ring, made) = keys.read_or_make(false).unwrap();
        let first = ring.check_value(1).unwrap();
        assert!(made);
        for store_knows_keys in [false, true] {
            let (ring, made) = keys.read_or_make(store_knows_keys).unwrap();
            assert_eq!((ring.check_value(1), made), (Some(first), false), "a second call reads the first one's key");
        }
        assert!(matches!(keys.make(), Err(KeyError::Exists { .. })));
        assert!(!keys.others_may_read());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| fs::set_permissions(keys.path(), fs::Permissions::from_mode(mode)).unwrap();
            mode(0o640);
            assert!(keys.others_may_read());
        }
        let (_other_folder, other) = place();
        assert_ne!(fresh(&other).check_value(1), Some(first), "each file has its own key");
    }

    #[test]
    fn of_many_that_start_at_once_all_read_one_key() {
        // Often, because the moment between a look and the next one is short.
        for _ in 0..100 {
            let (_folder, keys) = place();
            let seen: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| keys.read_or_make(false).unwrap())).collect();
                starts.into_iter().map(|start| start.join().unwrap()).collect()
            });
            let first = seen[0].0.check_value(1);
            assert!(seen.iter().all(|(ring, _)| ring.check_value(1) == first) && first.is_some());
            assert_eq!(seen.iter().filter(|(_, made)| *made).count(), 1);
        }
    }

    #[test]
    fn a_rotation_adds_a_version_and_keeps_every_other_line() {
        let (_folder, keys) = place();
        let first = fresh(&keys).check_value(1);
        let starts = vec![
            StartAt::Time { unix_ms: 1_793_491_200_500 },
            StartAt::Number { entity: "orders".into(), from: 1_500_000 },
        ];
        let change = KeyChange::Rotate { starts: starts.clone() };
        let planned = keys.preview(&change).unwrap();
        assert_eq!(keys.read().unwrap().versions().collect::<Vec<_>>(), [1], "a dry run changes nothing");
        let ring = keys.apply(&change).unwrap();
        assert_eq!(planned.starts(), ring.starts());
        assert_eq!(ring.starts().iter().map(|start| start.at.clone()).collect::<Vec<_>>(), starts);
        assert_eq!((ring.versions().collect::<Vec<_>>(), ring.check_value(1)), (vec![1, 2], first));
        assert!(fs::read_to_string(keys.path()).unwrap().starts_with("# Keys of public ids"));
        assert!(!keys.others_may_read());
    }

    #[test]
    fn a_leaked_key_is_reissued_then_revoked_and_its_number_never_comes_back() {
        let (_folder, keys) = place();
        fresh(&keys);
        let told = keys.apply(&KeyChange::Revoke { version: 1 }).unwrap_err().to_string();
        assert!(told.contains("still owns ids"), "{told}");
        let ring = keys.apply(&KeyChange::Reissue { old: 1 }).unwrap();
        assert_eq!(ring.reissues(), [Reissue { version: 2, old: 1 }]);
        let ring = keys.apply(&KeyChange::Revoke { version: 1 }).unwrap();
        assert_eq!((ring.versions().collect::<Vec<_>>(), ring.is_revoked(1)), (vec![2], true));
        assert!(keys.apply(&KeyChange::Reissue { old: 1 }).is_err());
        assert_eq!(keys.apply(&KeyChange::Reissue { old: 2 }).unwrap().versions().collect::<Vec<_>>(), [2, 3]);
        let ring = keys.apply(&KeyChange::Revoke { version: 2 }).unwrap();
        assert_eq!(ring.versions().collect::<Vec<_>>(), [3]);
        let never = KeyChange::Rotate { starts: vec![StartAt::Time { unix_ms: i64::MAX }] };
        assert!(
            keys.apply(&never).is_err() && keys.read().unwrap().versions().eq([3]),
            "a refused change changes nothing"
        );
    }

    #[tokio::test]
    async fn sources_load_behind_one_trait() {
        let (_folder, keys) = place();
        keys.make().unwrap();
        let unset = EnvKeys::new("MINTAGE_TEST_KEYS_THAT_NOBODY_SETS");
        let sources: [&dyn KeySource; 2] = [&keys, &unset];
        assert!(sources[0].load().await.unwrap().versions().eq([1]));
        assert!(matches!(sources[1].load().await, Err(KeyError::Missing { .. })));
        assert!(sources[0].place().ends_with("mintage.keys"));
    }

    #[test]
    fn a_variable_holds_lines_or_semicolons() {
        let one = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let two = "2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
        let keys = EnvKeys::new("MINTAGE_KEYS");
        let set_to = |text: String| keys.read_in(&Environment::of([("MINTAGE_KEYS", text)]));
        for text in [format!("{one}\n{two}\n"), format!("{one}; {two}")] {
            assert_eq!(set_to(text).unwrap().versions().collect::<Vec<_>>(), [1, 2]);
        }
        let told = keys.read_in(&Environment::default()).unwrap_err().to_string();
        assert!(told.starts_with("the variable MINTAGE_KEYS: no keys here"), "{told}");
        assert!(matches!(set_to(String::new()), Err(KeyError::Missing { .. })));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let told = FileKeys::new(folder.path().join("no/mintage.keys")).read_or_make(false).unwrap_err();
        assert!(matches!(&told, KeyError::System { .. }), "{told:?}");
        assert!(told.to_string().contains("mintage.keys: cannot make a file"), "{told}");
    }
}
