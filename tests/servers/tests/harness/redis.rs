use mintage_servers_for_tests::{Fault, Proxy, Redis};

use crate::{connect, exchange, expect, expect_silence};

#[test]
fn answers_and_keeps_its_data_over_kill_nine() {
    let Some(redis) = Redis::start() else { return };
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    exchange(&mut connect(redis.port()), b"PING\r\n", b"+PONG\r\n");
    assert_eq!(redis.command(&["SET", "key", "a value"]), "OK");
    let (port, pids) = (redis.port(), redis.pids());
    redis.kill9();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens");
    assert!(redis.pids().is_empty());
    redis.restart();
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pids(), pids);
    assert_eq!(redis.command(&["GET", "key"]), "a value");
    assert!(redis.data_dir().join("appendonlydir").is_dir());
}

#[test]
fn stopped_it_answers_nothing_and_then_goes_on() {
    let Some(redis) = Redis::start() else { return };
    redis.stop();
    let mut stream = connect(redis.port());
    std::io::Write::write_all(&mut stream, b"PING\r\n").unwrap();
    expect_silence(&mut stream);
    redis.cont();
    expect(&mut stream, b"+PONG\r\n");
    // A stopped one can be killed, and comes back running.
    redis.stop();
    redis.restart();
    exchange(&mut connect(redis.port()), b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn settings_of_the_test_win() {
    let Some(redis) = Redis::start_with(&["appendfsync everysec", "maxmemory 100mb"]) else { return };
    let info = redis.command(&["INFO"]);
    assert!(info.contains("maxmemory:104857600"), "{info}");
    assert!(redis.log().contains("Ready to accept connections"), "{}", redis.log());
}

#[test]
#[should_panic(expected = "no-such-setting")]
fn one_that_does_not_start_shows_its_log() {
    if Redis::start_with(&["no-such-setting 1"]).is_none() {
        panic!("no-such-setting: nor is there a server, which was said");
    }
}

#[test]
fn a_replica_behind_a_cut_link_is_promoted_without_the_last_write() {
    let Some(primary) = Redis::start() else { return };
    let link = Proxy::start(primary.port());
    primary.command(&["SET", "first", "1"]);
    let replica = Redis::replica_through(&primary, link.port());
    assert_eq!(replica.command(&["GET", "first"]), "1");
    primary.command(&["SET", "second", "2"]);
    replica.catch_up_with(&primary);
    assert_eq!(replica.command(&["GET", "second"]), "2");

    link.set(Fault::Refuse);
    link.cut();
    assert_eq!(primary.command(&["SET", "third", "3"]), "OK", "acknowledged, and on its way to nobody");
    primary.kill9();
    replica.promote();
    assert_eq!(replica.command(&["GET", "second"]), "2");
    assert_eq!(replica.command(&["GET", "third"]), "nil");
    replica.restart();
    assert_eq!(replica.command(&["SET", "fourth", "4"]), "OK", "still a primary");
    assert_eq!(replica.command(&["GET", "second"]), "2");
}

#[test]
fn a_direct_replica_follows() {
    let Some(primary) = Redis::start() else { return };
    let replica = Redis::replica_of(&primary);
    assert!(replica.command(&["SET", "key", "1"]).starts_with("-READONLY"));
    primary.command(&["SET", "key", "1"]);
    replica.catch_up_with(&primary);
    assert_eq!(replica.command(&["GET", "key"]), "1");
}

#[test]
fn the_shared_one_is_one() {
    let (Some(one), Some(other)) = (Redis::shared(), Redis::shared()) else { return };
    assert_eq!(one.pids(), other.pids());
    assert_eq!(one.command(&["PING"]), "PONG");
}
