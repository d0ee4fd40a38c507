use std::{
    io::{Read, Write},
    thread,
};

use mintage_servers_for_tests::ZooKeeper;

use crate::{SILENCE, connect, expect_silence};

#[test]
fn serves_stops_and_comes_back() {
    let Some(server) = ZooKeeper::start() else { return };
    assert_eq!(server.url(), format!("zookeeper://127.0.0.1:{}", server.port()));
    assert!(srvr(server.port()).contains("Mode: standalone"));
    open_session(server.port());
    let before = zxid(&server);
    assert!(before > 0, "a session is a write");
    server.stop();
    let mut stream = connect(server.port());
    stream.write_all(b"srvr").unwrap();
    expect_silence(&mut stream);
    server.cont();
    server.kill9();
    server.restart();
    assert!(zxid(&server) >= before, "it has kept the session");
}

fn srvr(port: u16) -> String {
    let mut stream = connect(port);
    stream.write_all(b"srvr").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn zxid(server: &ZooKeeper) -> u64 {
    let answer = server.four_letters("srvr");
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap_or_else(|| panic!("{answer}"));
    u64::from_str_radix(zxid, 16).unwrap()
}

/// Version 0, no zxid seen, 5000 ms, session 0, a password of 16 zero bytes, not read-only.
fn open_session(port: u16) {
    let mut request = Vec::from(45_u32.to_be_bytes());
    request.extend(0_u32.to_be_bytes());
    request.extend(0_u64.to_be_bytes());
    request.extend(5000_u32.to_be_bytes());
    request.extend(0_u64.to_be_bytes());
    request.extend(16_u32.to_be_bytes());
    request.extend([0; 16 + 1]);
    let mut stream = connect(port);
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    assert_ne!(answer[8..16], [0; 8], "a session of its own");
}

#[test]
fn an_ensemble_goes_on_without_its_leader_and_takes_it_back() {
    let Some(ensemble) = ZooKeeper::ensemble() else { return };
    assert_eq!(ensemble.members().len(), 3);
    assert_eq!(ensemble.url().matches("127.0.0.1:").count(), 3);
    let elected_without = |former: u16| {
        (0..60).any(|_| {
            thread::sleep(SILENCE);
            ensemble.leader().is_some_and(|leader| leader.port() != former)
        })
    };
    let first = ensemble.leader().unwrap();
    first.kill9();
    assert!(elected_without(first.port()), "two of three are a majority");
    first.restart();
    assert!(srvr(first.port()).contains("Mode: follower"));
    // One that stands still is left as well.
    let second = ensemble.leader().unwrap();
    second.stop();
    assert!(elected_without(second.port()), "nobody waits for the one that stands still");
    second.cont();
}
