use std::io::Read;

use mintage_servers_for_tests::MariaDb;

use crate::{connect, expect_silence};

#[test]
fn greets_stops_and_keeps_its_data_over_kill_nine() {
    let Some(server) = MariaDb::start_with(&["max-connections=20"]) else { return };
    assert_eq!(server.url(), format!("mysql://root@127.0.0.1:{}/mintage", server.port()));
    assert!(greeting(server.port()).contains("MariaDB"));
    assert_eq!(server.sql("SELECT @@max_connections, @@innodb_flush_log_at_trx_commit"), "20\t1");
    let url = server.database("one");
    assert_eq!(url, format!("mysql://root@127.0.0.1:{}/one", server.port()));
    server.sql("CREATE TABLE one.kept (n int); INSERT INTO one.kept VALUES (1)");

    server.stop();
    expect_silence(&mut connect(server.port()));
    server.cont();
    server.kill9();
    server.restart();
    assert_eq!(server.sql("SELECT n FROM one.kept"), "1");
}

#[test]
fn the_shared_one_is_one() {
    let (Some(one), Some(other)) = (MariaDb::shared(), MariaDb::shared()) else { return };
    assert_eq!(one.pids(), other.pids());
    assert_eq!(one.sql("SHOW TABLES IN mintage"), "");
}

fn greeting(port: u16) -> String {
    let mut packet = [0; 64];
    connect(port).read_exact(&mut packet).unwrap();
    assert_eq!(packet[4], 10, "the version of the protocol");
    String::from_utf8_lossy(&packet).into_owned()
}
