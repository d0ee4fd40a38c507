//! `mintage.toml`: which entity gets which kind of id, and where numbers, leases and keys are kept.
//!
//! A config is read in three steps. [`Config::load`] makes a tree of settings that know their line and column;
//! [`Config::check`] asks the schemes and stores of a [`Catalog`] what they make of it and tells *everything* that is wrong
//! at once; what comes out, [`Checked`], needs no further look: nothing in it can fail for want of a name or a number.
//!
//! Format is data, deployment is environment. The environment can move a store, bring a key or name the instance; scheme,
//! epoch, layout, start and text of an id come from the file alone.
//!
//! | to find | open |
//! |---|---|
//! | which keys there are | `keys.rs` (a scheme's own: its factory) |
//! | unknown keys, wrong types, `did you mean` | `shape.rs`, `words.rs` |
//! | what must fit together | `reader.rs` and below |
//! | the JSON Schema | `schema.rs` |

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use mintage_core::plugin::{Catalog, Problem, Setting};

mod environment;
mod keys;
mod model;
mod offer;
mod outage;
mod problems;
mod reader;
mod schema;
mod shape;
mod tree;
mod words;

pub use environment::{Environment, NoText};
pub use model::{
    Checked, ClockLimits, EntityConfig, KeyConfig, KeyPlace, LeaseTimes, OnLeaseLost, PasswordPlace, PoolConfig,
    SeriesConfig, StoreConfig, TokensConfig,
};
pub use problems::{ConfigErrors, Problems};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use reader::stores::holds_password;
pub use schema::schema;
pub(crate) use words::duration;

/// Largest config file, in bytes: 1 MiB. Thousands of entities fit; a log file named by mistake does not.
const FILE_BYTES_MAX: usize = 1 << 20;

/// The config that comes with Mintage. It needs no server.
const SHIPPED: &str = include_str!("../mintage.toml");

/// A config as written: good TOML, not yet checked.
///
/// ```
/// use mintage::config::{Config, Environment};
/// use mintage_core::plugin::Catalog;
///
/// let config = Config::parse("version = 1\n[entities.users]\nscheme = \"uuidv8\"\n", "mintage.toml")?;
/// // An empty catalog knows no scheme and no store.
/// let errors = config.check(&Catalog::default(), &Environment::default(), 0).unwrap_err();
/// assert!(errors.to_string().contains("mintage.toml:3:1 entities.users.scheme: no scheme \"uuidv8\""));
/// # Ok::<(), mintage::config::ConfigErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    file: String,
    folder: PathBuf,
    /// It came from a pipe or a device: nothing lies beside it.
    is_placeless: bool,
    table: tree::Table,
    unreadable: Vec<Problem>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It is missing, too large, not UTF-8 or not TOML; the message says what to do.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let bytes = read_at_most(path, FILE_BYTES_MAX + 1).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if path.is_symlink() => {
                ConfigErrors::whole(&file, "it is a link to a file that is not there: mend the link, or name another file")
            }
            std::io::ErrorKind::NotFound => ConfigErrors::whole(
                &file,
                "there is no such file: name the one to read, or begin with a copy of the mintage.toml that comes with Mintage",
            ),
            _ => ConfigErrors::whole(&file, format!("cannot be read: {error}")),
        })?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(too_large(&file));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            ConfigErrors::whole(&file, format!("not UTF-8 in line {line}: save it as UTF-8"))
        })?;
        let mut config = Self::parse(&text, file.as_str())?;
        config.is_placeless = is_placeless(path);
        if !config.is_placeless {
            config.folder = real_folder(path).map_err(|error| {
                ConfigErrors::whole(
                    &file,
                    format!("the folder it is in cannot be told ({error}): name the file itself, not a link to it"),
                )
            })?;
        }
        Ok(config)
    }

    /// Reads a text; `file` is what messages call it, and its folder is where relative paths start.
    ///
    /// # Errors
    /// The text is too large or not TOML; each fault with its line and column.
    pub fn parse(text: &str, file: impl Into<String>) -> Result<Self, ConfigErrors> {
        let file = file.into();
        if text.len() > FILE_BYTES_MAX {
            return Err(too_large(&file));
        }
        // A byte order mark is no character of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match tree::read(text) {
            Ok((table, unreadable)) => {
                let folder = folder_of(Path::new(&file));
                Ok(Self { folder, file, is_placeless: false, table, unreadable })
            }
            Err(faults) => {
                let warnings = Problems::new(&file, Vec::new());
                Err(ConfigErrors::new(Problems::new(&file, faults), warnings))
            }
        }
    }

    /// The config that comes with Mintage: SQLite, no server, one entity of each common kind.
    ///
    /// # Errors
    /// None, unless this build is broken.
    pub fn shipped() -> Result<Self, ConfigErrors> {
        Self::parse(SHIPPED, "mintage.toml")
    }

    /// What messages call the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where relative paths start.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The settings as written, in the order of the file. In place of whole numbers that TOML cannot hold stand the
    /// nearest that it can; `check` tells them.
    pub fn settings(&self) -> &[(String, Setting)] {
        &self.table
    }

    /// Decides everything that can be decided without opening a store. `now_ms` is the wall clock in Unix ms.
    ///
    /// # Errors
    /// Everything that is wrong, by place. Mend it all and check again.
    pub fn check(&self, catalog: &Catalog, environment: &Environment, now_ms: u64) -> Result<Checked, ConfigErrors> {
        reader::check(self, catalog, environment, now_ms)
    }
}

fn read_at_most(path: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The folder of the file itself, whichever links lead to it: one config must not have a store beside each of its names.
fn real_folder(path: &Path) -> std::io::Result<PathBuf> {
    if path.is_symlink() { Ok(folder_of(&std::fs::canonicalize(path)?)) } else { Ok(folder_of(path)) }
}

/// Whether a config came from a pipe or a device, as `/dev/stdin` or the shell's `<(…)`.
fn is_placeless(path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|file| file.is_file());
    !is_file || ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn too_large(file: &str) -> ConfigErrors {
    ConfigErrors::whole(
        file,
        format!("larger than {} KiB, the most a config may have: is it the right file?", FILE_BYTES_MAX / 1024),
    )
}
