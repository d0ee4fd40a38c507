//! The models, over copies in which one thought is wrong. `build.rs` says which.

/// A copy that `build.rs` has made.
macro_rules! copy {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

/// The models of a segment, over these copies.
macro_rules! segment {
    ($run:literal, $supply:literal) => {
        mod run {
            crate::twins::copy!($run);
        }

        #[expect(dead_code, reason = "models use part of it")]
        mod supply {
            crate::twins::copy!($supply);
        }

        include!("segment_models.rs");
    };
}

/// The models of a snowflake, over this copy.
macro_rules! snowflake {
    ($name:literal) => {
        #[expect(dead_code, unreachable_pub, reason = "models use part of what a crate offers")]
        mod snowflake {
            crate::twins::copy!($name);
        }
        include!("snowflake_models.rs");
    };
}

pub(crate) use {copy, segment};

/// A stop is a look and then a write.
pub mod stop_by_a_look {
    #[expect(dead_code, reason = "models use part of it")]
    mod timeline {
        crate::twins::copy!("stop_by_a_look");
    }
    include!("timeline_models.rs");

    /// The same under a snowflake.
    pub mod snowflake {
        use super::timeline;
        snowflake!("over_stop_by_a_look");
    }
}

/// The worker id and the bound are read before the state with which they must agree.
pub mod look_before_the_state {
    snowflake!("look_before_the_state");
}

/// A claim moves to its worker id before it has stopped the timeline.
pub mod worker_before_the_stop {
    snowflake!("worker_before_the_stop");
}

/// A window grows by way of none at all.
pub mod extension_by_way_of_none {
    snowflake!("extension_by_way_of_none");
}

/// At the end the minter is halted first and closed then.
pub mod halt_before_the_end_is_known {
    snowflake!("halt_before_the_end_is_known");
}

/// A range is sealed by a look and then a write.
pub mod seal_by_a_look {
    segment!("seal_by_a_look", "supply");
}

/// Whoever is past the mark asks for the next range, and not only the one who passes it.
pub mod everybody_asks {
    segment!("everybody_asks", "supply");
}

/// A range is put behind the last one though the segment was closed.
pub mod link_after_the_end {
    segment!("run", "link_after_the_end");
}

/// What lies below the floor of a raise is kept.
pub mod keep_what_lies_below {
    segment!("run", "keep_what_lies_below");
}
