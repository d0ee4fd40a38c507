//! The laws of stores: call [`all`] with a store that is open and empty.
//!
//! ```
//! # use mintage_core::{Format, FormatStore, LeaseStore, ManualClock, RangeStore};
//! # use mintage_core::testkit::store::{self, Trial};
//! // In a test of your store, under any executor; `clock` is the one that the store was opened with.
//! async fn keeps_the_laws<S: RangeStore + LeaseStore + FormatStore>(store: S, clock: ManualClock) {
//!     store::all(&store, async |ms| clock.advance(ms), Trial::default()).await;
//! }
//! ```
//!
//! `tick(ms)` lets at least so much of the *store's* time pass: an embedded store advances its [`ManualClock`](crate::ManualClock);
//! a server has its own clock, and `tick` sleeps. A store that keeps only some of the three calls [`ranges::all`],
//! [`leases::all`] or [`formats::all`]; one that keeps bearer tokens, too, calls [`tokens::all`]; one whose data can be put back
//! from a backup while it is open calls [`restored::a_restored_backup_is_noticed`]. Each law can be called alone, too; it makes
//! sequences, pools and entities whose names begin with `law-`.
//!
//! Failures panic and name the law.
#![expect(clippy::panic, reason = "a test kit reports by panicking")]

pub mod formats;
pub mod leases;
pub mod ranges;
pub mod restored;
pub mod tokens;

use std::{
    fmt::Debug,
    future::{Future, poll_fn},
    task::Poll,
};

use crate::{FormatStore, LeaseStore, RangeStore, StoreError, StoreErrorKind};

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Calls in flight at once.
    pub at_once: u32,
    /// Claims and releases in a row: more than the ids of a pool, so that a worker id that is only counted up leaves its
    /// block.
    pub cycles: u32,
}

impl Default for Trial {
    fn default() -> Self {
        Self { at_once: 64, cycles: 5_000 }
    }
}

/// Every law of ranges, leases and formats.
///
/// # Panics
/// When one is broken.
pub async fn all<S>(store: &S, tick: impl AsyncFn(u64), trial: Trial)
where
    S: RangeStore + LeaseStore + FormatStore,
{
    ranges::all(store, trial).await;
    formats::all(store, trial).await;
    leases::all(store, tick, trial).await;
}

/// Runs futures at once, on the caller's task, and answers in their order.
async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// The answer of a call that the law says must succeed.
fn must<T>(law: &str, answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| panic!("{law}: refused with {:?}: {error}", error.kind()))
}

/// The error of a call that the law says must fail, and in this way.
fn must_not<T: Debug>(law: &str, expected: StoreErrorKind, answer: Result<T, StoreError>) -> StoreError {
    match answer {
        Ok(answer) => panic!("{law}: expected {expected:?}, got {answer:?}"),
        Err(error) => {
            assert_eq!(error.kind(), expected, "{law}: refused in another way: {error}");
            assert!(!error.to_string().is_empty(), "{law}: the error says nothing");
            error
        }
    }
}
