//! Numbers without a gap: assigned inside the transaction that inserts the row which gets them.
//!
//! A counter that is asked before the row is written leaves a gap whenever the row is not. So the counter is moved by the same
//! transaction, and whoever comes next waits until that one has come to its end. Those who must know the number before
//! reserve it, and the audit says for ever what became of it.
//!
//! The invariant: of each sequence, every number below the next one is in a committed row, or in the table of reservations.
//! Nothing is kept in the process, and nothing here waits for a lock of the process while it holds one of the database.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod taking;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use mintage_core::{
    Clock, Format, FormatStore, GaplessStore, RangeStore, ReadyError, ReservationState, Sequence, StoreError,
    StoreErrorKind, TablePrefix,
};
use mintage_schemes::fork::Birth;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use mintage_backends::gapless::{GaplessDatabase, Transaction};

use crate::{SeriesError, series};

/// Where the numbers of one entity or series are assigned.
#[derive(Debug)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "only databases assign numbers inside a transaction")
)]
pub(crate) struct Gapless {
    pub(crate) name: String,
    /// What the store has recorded of the entity or series.
    pub(crate) owner: String,
    /// The store's name, and what stands before the colon of its URL.
    pub(crate) store: String,
    pub(crate) url_scheme: String,
    /// What its tables are called.
    pub(crate) tables: TablePrefix,
    pub(crate) kept: Arc<dyn GaplessStore>,
    pub(crate) ranges: Arc<dyn RangeStore>,
    pub(crate) formats: Arc<dyn FormatStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) birth: Birth,
    pub(crate) closed: AtomicBool,
    /// The sequence that was made or found last, so that a store is asked once a period.
    pub(crate) made: Mutex<Option<String>>,
}

/// Why no number was assigned. Roll the transaction back: the database may have refused a statement in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GaplessError {
    /// The config does not ask for it.
    #[error(
        "{name} is not gapless: a process may hold numbers of it. Write `gapless = true` into its table, on a store in the database \
         of your transaction"
    )]
    NotGapless {
        /// The entity or series.
        name: String,
    },
    /// The transaction is one of another kind of database.
    #[error(
        "{name} counts in store {store}, a {expected}: database, and this transaction is in one of {found}: take it where the \
         store is"
    )]
    OtherDatabase {
        /// The entity or series.
        name: String,
        /// Its store.
        store: String,
        /// What stands before the colon of the store's URL.
        expected: String,
        /// What this kind of transaction would need there.
        found: String,
    },
    /// The period is full, or the clock shows a day that the format cannot write.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// Closed, forked, or at the end of all numbers.
    #[error(transparent)]
    Ready(#[from] ReadyError),
    /// A note or reason that the audit cannot keep.
    #[error("{what} has {most} bytes at most, at least one, and no control character: write one sentence")]
    Text {
        /// Which of the two.
        what: &'static str,
        /// How many bytes.
        most: usize,
    },
    /// The number was confirmed or voided before.
    #[error("{number} of {name} is {state} already, for good: reserve another number", state = .state.name())]
    Settled {
        /// The entity or series.
        name: String,
        /// The number.
        number: String,
        /// What it is.
        state: ReservationState,
    },
    /// Nobody reserved the number.
    #[error("{number} of {name} was never reserved: only what `reserve_in` gave can be confirmed or voided")]
    NeverReserved {
        /// The entity or series.
        name: String,
        /// The number.
        number: String,
    },
    /// The database said no.
    #[error("{name}")]
    Store {
        /// The entity or series.
        name: String,
        /// What it said.
        source: StoreError,
    },
}

impl GaplessError {
    /// Whether the same transaction may succeed if it is rolled back and run again from its beginning.
    pub fn runs_again(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.kind() == StoreErrorKind::Conflict)
    }
}

impl Gapless {
    /// After `close` nothing is assigned any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Makes the sequence of a period once. One that was recorded and is gone stays gone, because a new one would repeat its
/// numbers.
pub(crate) async fn make(
    ranges: &dyn RangeStore,
    formats: &dyn FormatStore,
    sequence: &Sequence,
) -> Result<(), StoreError> {
    let record = series::record_name(&sequence.name);
    if formats.pinned(&record).await?.is_none() {
        ranges.create(sequence).await?;
        formats.pin(&record, &Format::of("segment").with("sequence", &sequence.name)).await?;
    }
    Ok(())
}
