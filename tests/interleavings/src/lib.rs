//! Every order in which threads can meet in the code that mints: the source files of `mintage-schemes` themselves, compiled
//! around the atomics of [loom](https://docs.rs/loom), which runs a model once for each order, and for each value that a read may
//! see by the memory ordering that was asked for.
//!
//! A model is a function of `*_models.rs` and a test in `tests/orders.rs`. It runs over the files as they are ([`real`]), and over a
//! copy in which one thought is wrong ([`twins`], made by `build.rs`), where it must fail: a search that finds nothing proves something
//! only if it can find.
//!
//! What loom does not see: `tokio::sync::Notify`, which wakes and decides nothing; and the inside of `arc_swap`, in whose place
//! stands what it promises, one atomic step per call.
//!
//! Models of three threads are tried in all orders with up to [`INTERRUPTIONS_MAX`] interruptions, those of two in all orders.
// The files bring unit tests of their own, which need the atomics they were written for. They run where the files live: built as
// a test, as `--lib` and `--all-targets` do, there is nothing here.
#![cfg(not(test))]
#![expect(clippy::unwrap_used, reason = "models of tests")]

mod bare;
mod sync;
pub mod twins;

// What the files name as theirs.
use layout::{Layout, Part, Parts};
use mintage_schemes::{Entropy, TextForm, fork};

pub use bare::{a_bare_addition_creeps_past_the_bound, a_restart_that_repeats_a_state};

/// The models, over the files as they are.
pub mod real {
    pub use self::{of_a_segment::*, of_a_snowflake::*, of_a_timeline::*};

    mod of_a_timeline {
        use crate::timeline;
        include!("timeline_models.rs");
    }

    mod of_a_snowflake {
        use crate::snowflake;
        include!("snowflake_models.rs");
    }

    mod of_a_segment {
        crate::twins::segment!("run", "supply");
    }
}

/// How often a thread may be interrupted where it could have gone on. Two find all but contrived faults, and each more costs ten
/// times the work.
pub const INTERRUPTIONS_MAX: usize = 2;

/// Runs a model of three threads in every order with so many interruptions.
fn three_threads(model: impl Fn() + Sync + Send + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(INTERRUPTIONS_MAX);
    orders.check(model);
}

#[expect(dead_code, unreachable_pub, reason = "models use part of what a crate offers")]
#[path = "../../../schemes/src/layout.rs"]
mod layout;

#[expect(dead_code, unreachable_pub, reason = "models use part of what a crate offers")]
#[path = "../../../schemes/src/snowflake.rs"]
mod snowflake;

#[expect(dead_code, reason = "models use part of it")]
#[path = "../../../schemes/src/timeline.rs"]
mod timeline;
