//! The harness itself: real servers start, answer, break as told, and leave nothing behind.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod etcd;
mod fault;
mod gate;
mod mariadb;
mod network;
mod nothing_left;
mod postgres;
mod redis;
mod zookeeper;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Long enough for an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough to tell that none comes.
const SILENCE: Duration = Duration::from_millis(400);

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `request` and reads as much as `answer` has.
fn exchange(stream: &mut TcpStream, request: &[u8], answer: &[u8]) {
    stream.write_all(request).unwrap();
    expect(stream, answer);
}

fn expect(stream: &mut TcpStream, answer: &[u8]) {
    let mut found = vec![0; answer.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(answer));
}

/// Nothing comes, not even the end.
fn expect_silence(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}
