use std::process::{Command, Output};

use mintage_servers_for_tests::{Program, require};

/// The program that starts servers by hand, in a place where there is no Redis.
fn without_redis(require_all: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_servers-for-tests"));
    command.arg("redis").env("PATH", "/nonexistent").env_remove("MINTAGE_REQUIRE_ALL");
    if require_all {
        command.env("MINTAGE_REQUIRE_ALL", "1");
    }
    command.output().unwrap()
}

#[test]
fn what_is_not_installed_is_skipped_loudly() {
    let output = without_redis(false);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "SKIPPED: servers-for-tests: redis-server is not installed (scripts/test installs it)\n");
}

#[test]
fn where_all_is_required_it_fails() {
    let output = without_redis(true);
    assert_eq!(output.status.code(), Some(101), "it panics");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("needs redis-server") && said.contains("scripts/servers install"), "{said}");
    assert!(!said.contains("SKIPPED"), "{said}");
}

#[test]
fn what_is_installed_is_no_reason_to_skip() {
    // Its verdict and the file system's agree, and it neither prints nor panics for what is there.
    for program in [Program::Postgres, Program::MariaDb, Program::Etcd, Program::ZooKeeper, Program::Faketime] {
        if program.installed() {
            assert!(require(program), "{program:?}");
        }
    }
}
