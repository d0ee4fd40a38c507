//! The hunt itself, for as long as a test run allows: three stores and one wrong rule.
#![cfg(unix)]

use std::process::Command;

use mintage_servers_for_tests::{Program, require};

#[test]
fn a_short_hunt_finds_what_was_planted_and_nothing_else() {
    if ![Program::Postgres, Program::Redis, Program::Faketime].into_iter().all(require) {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_mintage-hunt")).arg("--short").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("| redis2 |") && told.contains("| lease only, no windows | postgres |"), "{told}");
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    for words in [&["--store", "cloud"][..], &[], &["--seconds", "many"], &["--all", "--processes", "1"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_mintage-hunt")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage: mintage-hunt"), "{words:?}");
    }
}
