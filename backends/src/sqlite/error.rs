//! What can go wrong inside a transaction, and what the caller is told.

use std::path::Path;

use mintage_core::{StoreError, StoreErrorKind};

use crate::gapless::{IN_THE_WAY, NO_TABLES};

/// The result codes of SQLite that need an answer of their own: <https://www.sqlite.org/rescode.html>.
mod code {
    pub(super) const ERROR: u32 = 1;
    pub(super) const PERM: u32 = 3;
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READONLY: u32 = 8;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;
    pub(super) const CONSTRAINT: u32 = 19;
    pub(super) const NOTADB: u32 = 26;
}

/// Why SQLite says "busy" at once to a transaction that has read before, and how to have it wait instead.
const BEGIN_IMMEDIATE: &str = "With SQLite begin such transactions by `pool.begin_with(\"BEGIN IMMEDIATE\")`: one that reads first \
                               cannot wait for another writer";

/// A fault of the driver, or a no of the protocol.
#[derive(Debug)]
pub(super) enum Fault {
    Driver(sqlx::Error),
    Said(StoreError),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Said(error)
    }
}

impl Fault {
    /// Whether somebody else holds the lock: worth asking again.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(code::BUSY | code::LOCKED))
    }

    /// What the caller is told about the database at `path`.
    pub(super) fn at(self, path: &Path) -> StoreError {
        use StoreErrorKind::{Corrupt, Refused, Unavailable};
        let (kind, what) = match (self.code(), &self) {
            (Some(code::BUSY | code::LOCKED), _) => {
                (Unavailable, "locked by another process; nothing was changed: ask again")
            }
            (Some(code::READONLY | code::PERM), _) => {
                (Refused, "the database may not be written: allow this user to write the file and its folder")
            }
            (Some(code::FULL), _) => (Unavailable, "the disk is full; nothing is answered: make room"),
            (Some(code::CANTOPEN), _) => {
                (Unavailable, "cannot be opened: check that the file and its folder exist and may be written")
            }
            (Some(code::NOTADB), _) => (Corrupt, "not an SQLite database; it was left as it is: name another file"),
            (Some(code::CORRUPT), _) => (Corrupt, "the database is damaged: restore it from a backup"),
            (Some(code::CONSTRAINT | code::ERROR), _) => {
                (Corrupt, "the tables are not as Mintage made them; nothing was changed: restore the database")
            }
            (
                _,
                Self::Driver(
                    sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) | sqlx::Error::Decode(_),
                ),
            ) => (Corrupt, "a stored value makes no sense: something else wrote it, restore the database"),
            _ => (
                Unavailable,
                "the disk or the driver failed; whether the change was made is unknown: look at the cause",
            ),
        };
        match self {
            Self::Said(error) => error,
            Self::Driver(error) => StoreError::new(kind, format!("{}: {what}", path.display())).caused_by(error),
        }
    }

    /// What a caller is told in whose transaction it happened.
    pub(super) fn inside(self) -> StoreError {
        let (kind, what) = match self.code() {
            Some(code::BUSY | code::LOCKED) => (StoreErrorKind::Conflict, format!("{IN_THE_WAY}. {BEGIN_IMMEDIATE}")),
            Some(code::ERROR | code::CONSTRAINT) => (StoreErrorKind::Refused, NO_TABLES.to_owned()),
            _ => return self.at(Path::new("the database of this transaction")),
        };
        match self {
            Self::Said(error) => error,
            Self::Driver(error) => StoreError::new(kind, what).caused_by(error),
        }
    }

    /// What a caller is told who reads a table that is not ours.
    pub(super) fn reading(self, path: &Path) -> StoreError {
        match (self.code(), self) {
            (Some(code::ERROR), Self::Driver(error)) => {
                let message =
                    format!("{}: there is no such table or column: correct what stands behind the #", path.display());
                StoreError::new(StoreErrorKind::Refused, message).caused_by(error)
            }
            (_, fault) => fault.at(path),
        }
    }

    /// The primary result code: the low byte of the extended one.
    fn code(&self) -> Option<u32> {
        let Self::Driver(sqlx::Error::Database(error)) = self else { return None };
        error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
    }
}
