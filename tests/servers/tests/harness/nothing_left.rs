use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use mintage_servers_for_tests::{Postgres, Program, Redis, require};

#[test]
fn a_dropped_server_is_gone_with_its_children_and_its_folder() {
    let Some(server) = Postgres::start() else { return };
    let (pids, folder) = (server.pids(), folder_of(&server.data_dir()));
    assert!(pids.iter().filter(|pid| runs(**pid)).count() > 3, "a server and its children: {pids:?}");
    assert!(folder.exists());
    drop(server);
    assert_eq!(pids.iter().filter(|pid| runs(**pid)).count(), 0);
    assert!(!folder.exists());
}

#[test]
fn a_stopped_server_is_gone_when_dropped() {
    let Some(server) = Redis::start() else { return };
    let (pids, folder) = (server.pids(), folder_of(&server.data_dir()));
    server.stop();
    drop(server);
    assert_eq!(pids.iter().filter(|pid| runs(**pid)).count(), 0);
    assert!(!folder.exists());
}

#[test]
fn nothing_is_left_of_a_test_that_was_killed() {
    if !require(Program::Postgres) || !require(Program::Redis) {
        return;
    }
    let (mut test, servers) = start(&["postgres", "redis"]);
    // One of them is stopped: its children must not wait for ever.
    let stopped = [vec![servers[0].pid], children(servers[0].pid)].concat();
    signal("-STOP", &stopped);
    test.kill().unwrap();
    test.wait().unwrap();
    assert_gone(&servers, &stopped);
}

#[test]
fn nothing_is_left_of_a_test_that_ends_with_its_server_in_a_static() {
    if !require(Program::Redis) {
        return;
    }
    // The end of its input is the end of the program.
    let (mut test, servers) = start(&["redis"]);
    drop(test.stdin.take());
    assert!(test.wait().unwrap().success());
    assert_gone(&servers, &[]);
}

struct Started {
    pid: u32,
    folder: PathBuf,
}

fn start(names: &[&str]) -> (Child, Vec<Started>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_servers-for-tests"));
    let mut test = command.args(names).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let servers: Vec<Started> = names
        .iter()
        .map(|name| {
            let line = lines.next().unwrap().unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], *name);
            Started { pid: words[2].parse().unwrap(), folder: folder_of(Path::new(words[3])) }
        })
        .collect();
    assert!(servers.iter().all(|server| runs(server.pid) && server.folder.exists()));
    (test, servers)
}

fn assert_gone(servers: &[Started], pids: &[u32]) {
    let left =
        || servers.iter().any(|server| runs(server.pid) || server.folder.exists()) || pids.iter().any(|pid| runs(*pid));
    for _ in 0..200 {
        if !left() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let state: Vec<_> = servers.iter().map(|server| (server.pid, runs(server.pid), server.folder.exists())).collect();
    panic!("left after ten seconds: {state:?}, {:?}", pids.iter().filter(|pid| runs(**pid)).collect::<Vec<_>>());
}

fn folder_of(data: &Path) -> PathBuf {
    data.parent().unwrap().to_path_buf()
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn signal(name: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    assert!(Command::new("sh").args(["-c", &format!("kill {name} {pids}")]).status().unwrap().success());
}

/// A process that only waits to be reaped does not run.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}
