//! A network of its own, where this machine lets us make one.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use mintage_servers_for_tests::{Network, Program, require};

use crate::{PATIENCE, SILENCE};

/// A program in that network that connects to `here` and sends on what it is told, line by line.
fn talker(network: &Network, port: u16) -> Child {
    let script = format!("exec 3<>/dev/tcp/{}/{port}; while read -r line; do echo \"$line\" >&3; done", network.here());
    network.command("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap()
}

#[test]
fn packets_are_lost_while_the_cable_is_out_and_come_when_it_is_back() {
    if !require(Program::IpRoute) {
        return;
    }
    let network = Network::start().unwrap();
    let listener = TcpListener::bind((network.here(), 0)).unwrap();
    let mut child = talker(&network, listener.local_addr().unwrap().port());
    let (tell, heard) = mpsc::channel();
    let (stream, _) = listener.accept().unwrap();
    thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    let mut says = child.stdin.take().unwrap();

    says.write_all(b"one\n").unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "one");
    assert!(network.plug(false));
    says.write_all(b"two\n").unwrap();
    assert!(heard.recv_timeout(SILENCE).is_err());
    assert!(network.plug(true));
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "two");

    drop(says);
    child.wait().unwrap();
}

#[test]
fn nothing_of_it_is_left() {
    if !require(Program::IpRoute) {
        return;
    }
    let network = Network::start().unwrap();
    let here = format!(" {}/30 ", network.here());
    let is_there = || {
        let told = Command::new("ip").args(["-o", "address"]).output().unwrap();
        String::from_utf8_lossy(&told.stdout).contains(&here)
    };
    assert!(is_there());
    drop(network);
    assert!(!is_there());
}
