//! The proxy, before a server that answers each line in capitals.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use mintage_servers_for_tests::{Fault, Proxy, Redis, Way};

use crate::{connect, exchange, expect, expect_silence};

struct Loud {
    port: u16,
    /// What it was asked, and `end` for each connection that ended.
    heard: mpsc::Receiver<String>,
}

impl Loud {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let tell = tell.clone();
                thread::spawn(move || serve(&stream.unwrap(), &tell));
            }
        });
        Self { port, heard }
    }

    fn hears(&self, line: &str) {
        assert_eq!(self.heard.recv_timeout(crate::PATIENCE).unwrap(), line);
    }

    fn hears_nothing(&self) {
        assert!(self.heard.recv_timeout(crate::SILENCE).is_err());
    }
}

fn serve(mut stream: &TcpStream, tell: &mpsc::Sender<String>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        // An error means that the test is over.
        let _ = tell.send(line.clone());
        let _ = writeln!(stream, "{}", line.to_uppercase());
    }
    let _ = tell.send("end".to_owned());
}

fn start() -> (Loud, Proxy) {
    let server = Loud::start();
    let proxy = Proxy::start(server.port);
    (server, proxy)
}

/// A connection through which something has gone.
fn open(server: &Loud, proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy.port());
    exchange(&mut stream, b"hello\n", b"HELLO\n");
    server.hears("hello");
    stream
}

fn assert_closed(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed, not reset");
}

fn assert_reset(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn forwards_both_ways_and_both_ends() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    // More than it reads at once.
    let long = "x".repeat(100_000);
    exchange(&mut stream, format!("{long}\n").as_bytes(), format!("{}\n", long.to_uppercase()).as_bytes());
    server.hears(&long);
    stream.shutdown(Shutdown::Write).unwrap();
    server.hears("end");
    assert_closed(&mut stream);
    let url = format!("redis://127.0.0.1:{}/0", server.port);
    assert_eq!(proxy.url_of(&url), format!("redis://127.0.0.1:{}/0", proxy.port()));
    assert_eq!(proxy.answers_lost(), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a real delay is measured")]
fn delays_both_ways() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    proxy.set(Fault::Delay { ms: 150 });
    let sent = Instant::now();
    exchange(&mut stream, b"late\n", b"LATE\n");
    assert!(sent.elapsed() >= Duration::from_millis(300), "{:?}", sent.elapsed());
}

#[test]
fn a_blackhole_keeps_what_was_sent_until_it_is_healed() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    proxy.set(Fault::Blackhole(Way::Both));
    stream.write_all(b"held\n").unwrap();
    expect_silence(&mut stream);
    server.hears_nothing();
    // A new one gets no further than the proxy, and the end of one is not seen.
    let mut new = connect(proxy.port());
    new.write_all(b"new\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    server.hears_nothing();
    proxy.heal();
    expect(&mut stream, b"HELD\n");
    expect(&mut new, b"NEW\n");
    let mut heard: Vec<String> = (0..3).map(|_| server.heard.recv_timeout(crate::PATIENCE).unwrap()).collect();
    heard.sort();
    assert_eq!(heard, ["end", "held", "new"]);
}

#[test]
fn a_blackhole_can_be_one_way() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    proxy.set(Fault::Blackhole(Way::ToClient));
    stream.write_all(b"done\n").unwrap();
    server.hears("done");
    expect_silence(&mut stream);
    proxy.set(Fault::Blackhole(Way::ToServer));
    expect(&mut stream, b"DONE\n");
    stream.write_all(b"not yet\n").unwrap();
    server.hears_nothing();
    proxy.heal();
    expect(&mut stream, b"NOT YET\n");
}

#[test]
fn a_cut_closes_and_a_reset_resets() {
    let (server, proxy) = start();
    let (mut one, mut other) = (open(&server, &proxy), open(&server, &proxy));
    proxy.cut();
    assert_closed(&mut one);
    assert_closed(&mut other);
    assert!(proxy.connections().is_empty());
    server.hears("end");
    server.hears("end");
    let mut stream = open(&server, &proxy);
    proxy.reset();
    assert_reset(&mut stream);
    // Also one that waits to be connected.
    proxy.set(Fault::Blackhole(Way::Both));
    let mut waiting = connect(proxy.port());
    for _ in 0..100 {
        if !proxy.connections().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    proxy.cut();
    assert_closed(&mut waiting);
}

#[test]
fn an_answer_is_lost_after_the_server_has_done_its_work() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    proxy.set(Fault::LoseAnswer);
    stream.write_all(b"commit\n").unwrap();
    server.hears("commit");
    assert_closed(&mut stream);
    assert_eq!(proxy.answers_lost(), 1);
    // Once.
    server.hears("end");
    drop(open(&server, &proxy));
    assert_eq!(proxy.answers_lost(), 1);
}

#[test]
fn only_the_answer_to_a_certain_request_is_lost() {
    let (server, proxy) = start();
    let (mut one, mut other) = (open(&server, &proxy), open(&server, &proxy));
    proxy.set(Fault::LoseAnswerTo(b"COMMIT".to_vec()));
    exchange(&mut one, b"BEGIN\n", b"BEGIN\n");
    // Even where the bytes come in two pieces.
    one.write_all(b"COM").unwrap();
    thread::sleep(Duration::from_millis(100));
    one.write_all(b"MIT 1\n").unwrap();
    assert_closed(&mut one);
    exchange(&mut other, b"COMMIT 2\n", b"COMMIT 2\n");
    assert_eq!(proxy.answers_lost(), 1);
    let heard: Vec<String> = server.heard.try_iter().collect();
    assert!(heard.contains(&"COMMIT 1".to_owned()), "{heard:?}");
}

#[test]
fn refused_are_new_connections_only() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    proxy.set(Fault::Refuse);
    assert_reset(&mut connect(proxy.port()));
    exchange(&mut stream, b"still\n", b"STILL\n");
    proxy.heal();
    server.hears("still");
    open(&server, &proxy);
}

#[test]
fn one_connection_can_differ_from_the_rest() {
    let (server, proxy) = start();
    let (mut one, mut other) = (open(&server, &proxy), open(&server, &proxy));
    let connections = proxy.connections();
    assert_eq!(connections.len(), 2);
    // The first is broken alone.
    connections[0].set(Fault::Blackhole(Way::Both));
    one.write_all(b"one\n").unwrap();
    expect_silence(&mut one);
    exchange(&mut other, b"other\n", b"OTHER\n");
    // The second is whole alone.
    connections[1].set(Fault::None);
    proxy.set(Fault::Blackhole(Way::Both));
    exchange(&mut other, b"again\n", b"AGAIN\n");
    // Each ends alone.
    connections[0].cut();
    assert_closed(&mut one);
    exchange(&mut other, b"third\n", b"THIRD\n");
    connections[1].set(Fault::LoseAnswer);
    other.write_all(b"fourth\n").unwrap();
    assert_closed(&mut other);
    assert_eq!(proxy.answers_lost(), 1);
}

#[test]
fn without_its_server_it_resets_and_with_it_goes_on() {
    let Some(redis) = Redis::start() else { return };
    let proxy = Proxy::start(redis.port());
    redis.command(&["SET", "n", "1"]);
    let mut stream = connect(proxy.port());
    exchange(&mut stream, b"INCR n\r\n", b":2\r\n");
    // The increment happens, the answer is lost.
    proxy.set(Fault::LoseAnswer);
    stream.write_all(b"INCR n\r\n").unwrap();
    assert_closed(&mut stream);
    assert_eq!(redis.command(&["GET", "n"]), "3");
    redis.kill9();
    assert_reset(&mut connect(proxy.port()));
    redis.restart();
    exchange(&mut connect(proxy.port()), b"INCR n\r\n", b":4\r\n");
}

#[test]
fn nothing_listens_after_its_end() {
    let (server, proxy) = start();
    let mut stream = open(&server, &proxy);
    let port = proxy.port();
    drop(proxy);
    assert_closed(&mut stream);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
