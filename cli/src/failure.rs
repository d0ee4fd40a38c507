//! What went wrong, for people: the whole chain, and an exit code that says whose move it is.

use std::{error::Error, process::ExitCode};

use mintage::{
    BuildError, MinterError, SeriesError,
    core::{MintError, ParseError, ReadyError, StoreError, StoreErrorKind},
    public::{KeyError, PublicIdError},
};

use crate::output;

/// Some input is no id.
const INVALID: u8 = 1;
/// Usage or config: also a store that refuses what the config asks of it.
const USAGE: u8 = 2;
/// The store cannot be reached, or cannot be read.
const UNREACHABLE: u8 = 3;
/// Refused: clock, lease, exhausted, output that cannot be written.
const REFUSED: u8 = 4;

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: INVALID, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { code: REFUSED, message: message.into() }
    }

    /// The reader of our output has gone: no failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.message.is_empty()
    }

    /// Prints it, and says with which code to end.
    pub(crate) fn report(&self) -> ExitCode {
        if self.is_closed_pipe() {
            return ExitCode::SUCCESS;
        }
        output::remark(&self.message);
        ExitCode::from(self.code)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::from(&error)
    }
}

impl From<&BuildError> for Failure {
    fn from(error: &BuildError) -> Self {
        let code = match error {
            BuildError::Config(_)
            | BuildError::NoEntity { .. }
            | BuildError::NoName { .. }
            | BuildError::Column { .. }
            | BuildError::Ordinal { .. }
            | BuildError::Keys { .. }
            | BuildError::Public { .. } => USAGE,
            BuildError::Store { source, .. } => store_code(source),
            BuildError::Entity { source, .. } => ready_code(source),
            _ => REFUSED,
        };
        let message = match error {
            BuildError::Entity { entity, source } => format!("entity {entity}: {}", ready_text(source)),
            other => chain(other),
        };
        Self { code, message }
    }
}

impl From<ReadyError> for Failure {
    fn from(error: ReadyError) -> Self {
        Self { code: ready_code(&error), message: ready_text(&error) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { code: store_code(&error), message: chain(&error) }
    }
}

impl From<SeriesError> for Failure {
    fn from(error: SeriesError) -> Self {
        match error {
            SeriesError::Ready(source) => source.into(),
            SeriesError::Gapless { .. } => Self::usage(error.to_string()),
            SeriesError::Period { ref source, .. } => Self { code: minting_code(source), message: chain(&error) },
            _ => Self::refused(chain(&error)),
        }
    }
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl From<mintage::SequenceError> for Failure {
    fn from(error: mintage::SequenceError) -> Self {
        match error {
            mintage::SequenceError::Build(error) => error.into(),
            mintage::SequenceError::Column(error) => error.into(),
            other => Self::usage(other.to_string()),
        }
    }
}

impl From<MinterError> for Failure {
    fn from(error: MinterError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<PublicIdError> for Failure {
    fn from(error: PublicIdError) -> Self {
        let code = if matches!(error, PublicIdError::Encode(_)) { USAGE } else { INVALID };
        Self { code, message: error.to_string() }
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<ParseError> for Failure {
    fn from(error: ParseError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { code: 0, message: String::new() };
        }
        Self::refused(format!("the output cannot be written: {error}"))
    }
}

/// One rule for every command, up to the first id.
fn store_code(error: &StoreError) -> u8 {
    match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::Corrupt => UNREACHABLE,
        // A setting: a path, a user, a pool's block, the length of a window; or a number out of bounds.
        StoreErrorKind::Refused | StoreErrorKind::FormatMismatch => USAGE,
        _ => REFUSED,
    }
}

/// While minting no setting is at fault any more: what a store refuses then has changed since, such as a row that was deleted.
fn minting_code(error: &StoreError) -> u8 {
    if error.kind() == StoreErrorKind::Refused { REFUSED } else { store_code(error) }
}

fn ready_code(error: &ReadyError) -> u8 {
    error.store_error().map_or(REFUSED, minting_code)
}

/// Without "more in a moment" where the store has said why there will be no more.
fn ready_text(error: &ReadyError) -> String {
    match (error.kind(), error.store_error()) {
        (MintError::Exhausted { .. }, Some(store)) => chain(store),
        _ => chain(error),
    }
}

/// An error and its causes, each once, joined by colons.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
