//! Every model, and every wrong twin.

use mintage_interleavings as models;

#[test]
fn a_stop_knows_what_was_taken() {
    models::a_stop_knows_what_was_taken();
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
fn a_claim_moves_under_a_minter() {
    models::a_claim_moves_under_a_minter();
}

#[test]
fn a_window_grows_under_a_minter() {
    models::a_window_grows_under_a_minter();
}

#[test]
fn a_release_gives_back_only_what_nobody_used() {
    models::a_release_gives_back_only_what_nobody_used();
}

#[test]
fn nothing_is_minted_after_the_end() {
    models::nothing_is_minted_after_the_end();
}

#[test]
fn a_range_is_taken_once() {
    models::a_range_is_taken_once();
}

#[test]
fn a_standby_is_linked_while_others_take_and_close() {
    models::a_standby_is_linked_while_others_take_and_close();
}

#[test]
fn a_raise_drops_a_range_under_a_minter() {
    models::a_raise_drops_a_range_under_a_minter();
}
