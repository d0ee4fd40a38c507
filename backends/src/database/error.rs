//! What can go wrong on the way to a server and back, and what the caller is told. No message repeats a password.

use std::io;

use mintage_core::{StoreError, StoreErrorKind};

use super::target::Target;
use crate::gapless::{IN_THE_WAY, NO_TABLES};

/// A fault of the driver, or a no of the protocol.
#[derive(Debug)]
pub(super) enum Fault {
    Driver(sqlx::Error),
    Said(StoreError),
}

/// What a server's error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Two transactions were in each other's way, and this one was taken back whole: ask again.
    Conflict,
    /// Starting, stopping or full: nothing was asked yet.
    NotNow,
    /// The server ended the connection, whatever it was doing.
    Cut,
    /// A standby, or a server that was told to be one.
    ReadOnly,
    Login,
    NoDatabase,
    Forbidden,
    Full,
    /// A text that the column cannot hold.
    Unfit,
    /// A table, column or constraint is not as expected.
    Tables,
    Other,
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
    /// Whether the server took the transaction back because of others, so that asking again is asking for the first time.
    pub(super) fn is_conflict(&self) -> bool {
        self.meaning() == Some(Meaning::Conflict)
    }

    /// Whether a row with the same key is there.
    pub(super) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Driver(sqlx::Error::Database(error)) if error.is_unique_violation())
    }

    /// Whether a connection could not be made now and may be made in a moment.
    pub(super) fn may_pass(&self) -> bool {
        let refused = matches!(self, Self::Driver(sqlx::Error::Io(error)) if matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
        ));
        refused || matches!(self.meaning(), Some(Meaning::NotNow | Meaning::Cut))
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.meaning() == Some(Meaning::Forbidden)
    }

    /// Whether the server takes no writes at all.
    pub(super) fn is_read_only(&self) -> bool {
        self.meaning() == Some(Meaning::ReadOnly)
    }

    /// What the caller is told about the server at `target`.
    pub(super) fn at(self, target: &Target) -> StoreError {
        let (kind, what) = self.told();
        match self {
            Self::Said(error) => error,
            Self::Driver(error) => StoreError::new(kind, format!("{target}: {what}")).caused_by(error),
        }
    }

    /// What a caller is told in whose transaction it happened.
    pub(super) fn inside(self) -> StoreError {
        let (kind, what) = match self.meaning() {
            Some(Meaning::Conflict) => (StoreErrorKind::Conflict, IN_THE_WAY),
            Some(Meaning::Tables) => (StoreErrorKind::Refused, NO_TABLES),
            _ => self.told(),
        };
        match self {
            Self::Said(error) => error,
            Self::Driver(error) => StoreError::new(kind, format!("inside your transaction: {what}")).caused_by(error),
        }
    }

    /// What a caller is told who reads a table that is not ours.
    pub(super) fn reading(self, target: &Target) -> StoreError {
        match (self.meaning(), self) {
            (Some(Meaning::Tables), Self::Driver(error)) => {
                let message = format!("{target}: there is no such table or column: correct what stands behind the #");
                StoreError::new(StoreErrorKind::Refused, message).caused_by(error)
            }
            (Some(Meaning::Forbidden), Self::Driver(error)) => {
                let message = format!("{target}: this user may not read the table or its sequence: let it SELECT");
                StoreError::new(StoreErrorKind::Refused, message).caused_by(error)
            }
            (_, fault) => fault.at(target),
        }
    }

    fn told(&self) -> (StoreErrorKind, &'static str) {
        use StoreErrorKind::{Corrupt, Refused, Unavailable};
        match (self.meaning(), self) {
            (Some(Meaning::Conflict), _) => {
                (Unavailable, "others held the same rows for too long; nothing was changed: ask again")
            }
            (Some(Meaning::NotNow), _) => (
                Unavailable,
                "the server takes no connection now; nothing was changed: ask again, or allow it more connections",
            ),
            (Some(Meaning::Cut), _) => {
                (Unavailable, "the server ended the connection; whether a change was made is unknown: ask again")
            }
            (Some(Meaning::ReadOnly), _) => (
                Unavailable,
                "the server is read-only, such as a standby; nothing was changed: name the primary in the URL",
            ),
            (Some(Meaning::Login), _) => (
                Refused,
                "the server does not let this user in: check the user and the password in the URL, and what the server allows from here",
            ),
            (Some(Meaning::NoDatabase), _) => {
                (Refused, "the server has no database of this name: create it, or correct the URL")
            }
            (Some(Meaning::Forbidden), _) => (
                Refused,
                "this user may not do that; nothing was changed: give it the privileges that docs/stores.md lists",
            ),
            (Some(Meaning::Full), _) => (Unavailable, "the server's disk is full; nothing was changed: make room"),
            (Some(Meaning::Unfit), _) => {
                (Refused, "a name or text does not fit its column; nothing was changed: shorten it")
            }
            (Some(Meaning::Tables), _) => {
                (Corrupt, "the tables are not as Mintage made them; nothing was changed: restore the database")
            }
            (Some(Meaning::Other), _) => {
                (Unavailable, "the server refused; nothing was changed: look at the cause, and at the server's log")
            }
            (None, Self::Driver(sqlx::Error::Io(_))) => (
                Unavailable,
                "cannot be reached, or the connection broke: check the host, the port and that the server runs. \
                 Whether a change was made is unknown",
            ),
            (None, Self::Driver(sqlx::Error::Tls(_))) => (
                Refused,
                "no encrypted connection: check the certificate and the URL's parameters, and that this program was built with \
                 the feature `tls`",
            ),
            (None, Self::Driver(sqlx::Error::Configuration(_))) => {
                (Refused, "the connection cannot be made as the URL says: look at the cause")
            }
            (
                None,
                Self::Driver(
                    sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) | sqlx::Error::Decode(_),
                ),
            ) => (Corrupt, "a stored value makes no sense: something else wrote it, restore the database"),
            (None, _) => (Unavailable, "the driver failed; whether a change was made is unknown: look at the cause"),
        }
    }

    /// Of an error that the server itself reported; with it the statement has failed for certain.
    fn meaning(&self) -> Option<Meaning> {
        let Self::Driver(sqlx::Error::Database(error)) = self else { return None };
        #[cfg(feature = "mysql")]
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Some(super::mysql::meaning(error.number()));
        }
        #[cfg(feature = "postgres")]
        if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
            return Some(super::postgres::meaning(error.code()));
        }
        let _ = error;
        Some(Meaning::Other)
    }
}
