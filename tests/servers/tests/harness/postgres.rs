use mintage_servers_for_tests::{Fault, Postgres, Proxy};

use crate::{connect, exchange, expect, expect_silence};

/// A client asks whether it may speak TLS; `N` is a server's no.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];

#[test]
fn shared_databases_are_apart() {
    let Some(server) = Postgres::shared() else { return };
    exchange(&mut connect(server.port()), SSL_REQUEST, b"N");
    let (one, other) = (server.database("one"), server.database("other"));
    assert_eq!(one, format!("postgres://postgres@127.0.0.1:{}/one", server.port()));
    assert_ne!(one, other);
    server.sql_in("one", "CREATE TABLE only_here AS SELECT 7 AS n");
    assert_eq!(server.sql_in("one", "SELECT n, n + 1 FROM only_here"), "7|8");
    assert_eq!(server.sql_in("other", "SELECT to_regclass('only_here') IS NULL"), "t");
    assert_eq!(server.sql("SHOW fsync"), "on");
    assert!(std::ptr::eq(server, Postgres::shared().unwrap()));
}

#[test]
#[should_panic(expected = "syntax error")]
fn refused_sql_fails_the_test() {
    match Postgres::shared() {
        Some(server) => drop(server.sql("SELEKT")),
        None => panic!("no syntax error without a server, which was said"),
    }
}

#[test]
fn stopped_killed_and_started_again_it_keeps_its_data() {
    let Some(server) = Postgres::start_with(&["max_connections=20"]) else { return };
    assert_eq!(server.sql("SHOW max_connections"), "20");
    server.sql("CREATE TABLE kept (n int)");
    // Its children are in groups of their own, and must stop as well: this one waits for a second request.
    let mut open = connect(server.port());
    exchange(&mut open, SSL_REQUEST, b"N");
    server.stop();
    let mut late = connect(server.port());
    std::io::Write::write_all(&mut late, SSL_REQUEST).unwrap();
    expect_silence(&mut late);
    std::io::Write::write_all(&mut open, SSL_REQUEST).unwrap();
    expect_silence(&mut open);
    server.cont();
    expect(&mut late, b"N");

    server.sql("INSERT INTO kept VALUES (1)");
    for n in 2..4 {
        server.kill9();
        server.restart();
        server.sql(&format!("INSERT INTO kept VALUES ({n})"));
    }
    assert_eq!(server.sql("SELECT string_agg(n::text, ',' ORDER BY n) FROM kept"), "1,2,3");
    assert!(server.log().contains("automatic recovery"), "{}", server.log());
}

#[test]
fn an_async_standby_behind_a_cut_link_is_promoted_without_the_last_commit() {
    let Some(primary) = Postgres::start() else { return };
    primary.sql("CREATE TABLE acked (n int); INSERT INTO acked VALUES (1)");
    let link = Proxy::start(primary.port());
    let standby = Postgres::standby_through(&primary, link.port());
    primary.sql("INSERT INTO acked VALUES (2)");
    standby.catch_up_with(&primary);
    assert_eq!(standby.sql("SELECT max(n) FROM acked"), "2");
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()"), "t");

    link.set(Fault::Refuse);
    link.cut();
    primary.sql("INSERT INTO acked VALUES (3)");
    primary.kill9();
    standby.promote();
    assert_eq!(standby.sql("SELECT max(n) FROM acked"), "2", "the acknowledged third one is lost");
    standby.sql("INSERT INTO acked VALUES (4)");
}
