//! Numbers that are assigned inside the caller's own transaction, and the audit of those that were reserved before it.
//!
//! The counter is the row of an ordinary [`Sequence`](crate::Sequence). What moves it is not the store but the transaction of
//! whoever inserts the row that gets the number, so both are kept or neither is. The store prepares what that needs and reads
//! the audit.

use std::fmt;

use async_trait::async_trait;

use crate::StoreError;

/// A store whose counters an application's own transaction can move.
#[async_trait]
pub trait GaplessStore: fmt::Debug + Send + Sync + 'static {
    /// Makes the table of reservations if it is not there.
    ///
    /// # Errors
    /// `Refused` where the user may not make it: the message shows the statements. `Unavailable`.
    async fn prepare(&self) -> Result<(), StoreError>;

    /// What was reserved of the sequences whose names begin with `prefix`, by sequence and number.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    async fn reservations(&self, prefix: &str) -> Result<Vec<Reservation>, StoreError>;
}

/// A number that was taken before the row that gets it was written. Never deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reservation {
    /// The sequence.
    pub sequence: String,
    /// The number.
    pub number: u64,
    /// What became of it.
    pub state: ReservationState,
    /// What it was reserved for.
    pub note: String,
    /// When, Unix ms on the clock of whoever reserved it.
    pub reserved_ms: u64,
    /// When it was confirmed or voided.
    pub settled_ms: Option<u64>,
    /// Why it is void.
    pub reason: Option<String>,
}

impl Reservation {
    /// Longest note and longest reason, in bytes: one sentence for an auditor.
    pub const TEXT_LEN_MAX: usize = 500;

    /// An open one.
    pub fn new(sequence: impl Into<String>, number: u64, note: impl Into<String>, reserved_ms: u64) -> Self {
        Self {
            sequence: sequence.into(),
            number,
            state: ReservationState::Open,
            note: note.into(),
            reserved_ms,
            settled_ms: None,
            reason: None,
        }
    }
}

/// What became of a reserved number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReservationState {
    /// Neither confirmed nor void yet: somebody is at it, or has crashed.
    Open,
    /// A row has it.
    Confirmed,
    /// No row will ever have it: a gap with a reason.
    Void,
}

impl ReservationState {
    const ALL: [Self; 3] = [Self::Open, Self::Confirmed, Self::Void];

    /// Its name, as stores keep it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Confirmed => "confirmed",
            Self::Void => "void",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}
