//! Every model over the files as they are, and over copies in which one thought is wrong.

use mintage_interleavings::{self as models, real, twins};

#[test]
fn a_stop_knows_what_was_taken() {
    real::a_stop_knows_what_was_taken();
}

#[test]
fn a_claim_moves_under_a_minter() {
    real::a_claim_moves_under_a_minter();
}

#[test]
fn a_move_leaves_alone_what_was_given_back() {
    real::a_move_leaves_alone_what_was_given_back();
}

#[test]
fn a_window_grows_under_a_minter() {
    real::a_window_grows_under_a_minter();
}

#[test]
fn a_release_gives_back_only_what_nobody_used() {
    real::a_release_gives_back_only_what_nobody_used();
}

#[test]
fn nothing_is_minted_after_the_end() {
    real::nothing_is_minted_after_the_end();
}

#[test]
fn a_range_is_taken_once() {
    real::a_range_is_taken_once();
}

#[test]
fn a_standby_is_linked_while_others_take_and_close() {
    real::a_standby_is_linked_while_others_take_and_close();
}

#[test]
fn a_raise_drops_a_range_under_a_minter() {
    real::a_raise_drops_a_range_under_a_minter();
}

#[test]
#[should_panic(expected = "at or above 14")]
fn a_bare_addition_is_found() {
    models::a_bare_addition_creeps_past_the_bound();
}

#[test]
#[should_panic(expected = "was stamped with worker id 1")]
fn a_restart_that_repeats_a_state_is_found() {
    models::a_restart_that_repeats_a_state();
}

#[test]
#[should_panic(expected = "from between the stop")]
fn a_stop_by_a_look_is_found() {
    twins::stop_by_a_look::a_stop_knows_what_was_taken();
}

#[test]
#[should_panic(expected = "was given back from")]
fn a_release_by_a_look_is_found() {
    twins::stop_by_a_look::snowflake::a_release_gives_back_only_what_nobody_used();
}

#[test]
#[should_panic(expected = "worker id 0 in unit 102")]
fn a_look_before_the_state_is_found() {
    twins::look_before_the_state::a_move_leaves_alone_what_was_given_back();
}

#[test]
#[should_panic(expected = "worker id 1 in unit 100")]
fn a_worker_before_the_stop_is_found() {
    twins::worker_before_the_stop::a_claim_moves_under_a_minter();
}

#[test]
#[should_panic(expected = "none is refused")]
fn an_extension_by_way_of_none_is_found() {
    twins::extension_by_way_of_none::a_window_grows_under_a_minter();
}

#[test]
#[should_panic(expected = "right: Err(Closed)")]
fn a_halt_before_the_end_is_known_is_found() {
    twins::halt_before_the_end_is_known::nothing_is_minted_after_the_end();
}

#[test]
#[should_panic(expected = "right: Sealed")]
fn a_seal_by_a_look_is_found() {
    twins::seal_by_a_look::a_range_is_taken_once();
}

#[test]
#[should_panic(expected = "the mark was passed once, or not at all")]
fn a_mark_that_everybody_passes_is_found() {
    twins::everybody_asks::a_range_is_taken_once();
}

#[test]
#[should_panic(expected = "are not 10..14")]
fn a_link_after_the_end_is_found() {
    twins::link_after_the_end::a_standby_is_linked_while_others_take_and_close();
}

#[test]
#[should_panic(expected = "was minted below the floor")]
fn what_lies_below_a_raise_is_found() {
    twins::keep_what_lies_below::a_raise_drops_a_range_under_a_minter();
}
