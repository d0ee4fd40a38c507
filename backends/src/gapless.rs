//! The next number inside a transaction of the caller's: on SQLite, PostgreSQL, MySQL and MariaDB.
//!
//! The counter is the sequence's ordinary row. It is locked by the first statement that touches it and stays so until the
//! caller commits or rolls back, so whoever comes next waits and then sees what became of the number before. That is what makes
//! the numbers gapless, and it is also what they cost.
//!
//! The invariant: nothing here commits, rolls back or opens a connection. What is written shares the fate of the caller's row.

use mintage_core::{Reservation, ReservationState, Sequence, StoreError, TablePrefix};
pub use sqlx::Transaction;

/// Which counter is to move, and how far it may go.
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    /// The sequence.
    pub sequence: &'a Sequence,
    /// What the store records the making of the sequence under.
    pub record: &'a str,
    /// What the store records its owner under: a database without this record is another one.
    pub owner: &'a str,
    /// The largest number.
    pub number_max: u64,
}

/// What came of asking for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// This one.
    Number(u64),
    /// The largest has been given.
    Full,
    /// The sequence is not there.
    Missing,
}

/// A database in whose transactions numbers can be assigned. Sealed.
pub trait GaplessDatabase: sqlx::Database + sealed::Sealed {
    /// Whether a sequence must be made by the store, outside: on MySQL two transactions that wait for a third to insert a row
    /// would deadlock when that one is rolled back.
    const MADE_OUTSIDE: bool;

    /// Locks the counter until the end of the transaction and moves it by one.
    ///
    /// # Errors
    /// `Conflict` when the whole transaction must be run again; `Refused` in another database than the store's; `RolledBack` on
    /// another life of the server than the counter was last used on; `Spent`; `Corrupt`; `Unavailable`.
    fn take(
        connection: &mut Self::Connection,
        tables: &TablePrefix,
        counter: Counter<'_>,
    ) -> impl Future<Output = Result<Taken, StoreError>> + Send;

    /// Writes an open reservation.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    fn reserve(
        connection: &mut Self::Connection,
        tables: &TablePrefix,
        reservation: &Reservation,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Settles an open reservation. Otherwise says what it is, or that there is none.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    fn settle(
        connection: &mut Self::Connection,
        tables: &TablePrefix,
        settled: &Reservation,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send;
}

/// What came of settling a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was open, and is settled now.
    Now,
    /// It was settled before.
    Before(ReservationState),
    /// Nobody reserved the number.
    Never,
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The transaction is in a database without the owner's record.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn another_database(counter: &Counter<'_>) -> StoreError {
    crate::rules::refused(format!(
        "the database of this transaction has no record of {}: it is not the database of its store. Begin the transaction in the \
         database that the store's URL names",
        counter.owner
    ))
}

/// What a transaction is told whose database has none of our tables.
pub(crate) const NO_TABLES: &str = "the database of this transaction has no tables of Mintage, or others than it made: begin the \
                                    transaction in the database that the store's URL names";

/// What a transaction is told that was in another one's way.
pub(crate) const IN_THE_WAY: &str =
    "another transaction was in the way of this one: roll back, and run the whole transaction again";

/// The state, if it is one.
pub(crate) fn state(name: &str) -> Result<ReservationState, StoreError> {
    ReservationState::named(name).ok_or_else(|| {
        crate::rules::corrupt(format!(
            "a reservation is in the state {name:?}, which does not exist: something else wrote it, restore the database"
        ))
    })
}
