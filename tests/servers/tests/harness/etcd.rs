use std::{
    io::{Read, Write},
    thread,
};

use mintage_servers_for_tests::Etcd;
use serde_json::{Value, json};

use crate::{SILENCE, connect, expect_silence};

/// `key`, and `1` to `3`, in base64.
const KEY: &str = "a2V5";
const VALUES: [&str; 3] = ["MQ==", "Mg==", "Mw=="];

#[test]
fn is_healthy_stops_and_keeps_its_data_over_kill_nine() {
    let Some(etcd) = Etcd::start() else { return };
    assert_eq!(etcd.url(), format!("etcd://127.0.0.1:{}", etcd.port()));
    let mut stream = connect(etcd.port());
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 ") && answer.contains(r#"{"health":"true""#), "{answer}");

    etcd.post("/v3/kv/put", &json!({ "key": KEY, "value": VALUES[0] })).unwrap();
    etcd.stop();
    let mut stream = connect(etcd.port());
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
    expect_silence(&mut stream);
    etcd.cont();
    etcd.kill9();
    etcd.restart();
    assert_eq!(read(&etcd), VALUES[0]);
}

#[test]
fn a_cluster_goes_on_without_its_leader_and_takes_it_back() {
    let Some(cluster) = Etcd::cluster(3) else { return };
    assert_eq!(cluster.members().len(), 3);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
    let leader = cluster.leader().unwrap();
    leader.post("/v3/kv/put", &json!({ "key": KEY, "value": VALUES[1] })).unwrap();
    let port = leader.port();
    leader.kill9();
    let follower = cluster.members().iter().find(|member| member.port() != port).unwrap();
    // The election takes a second or two; until then writes are refused or late.
    let put = json!({ "key": KEY, "value": VALUES[2] });
    let written = (0..60).any(|_| {
        thread::sleep(SILENCE);
        follower.post("/v3/kv/put", &put).is_ok_and(|answer| answer["header"]["revision"].is_string())
    });
    assert!(written, "two of three are a majority");
    assert_ne!(cluster.leader().unwrap().port(), port);
    leader.restart();
    assert_eq!(read(leader), VALUES[2]);
}

fn read(etcd: &Etcd) -> String {
    let answer: Value = etcd.post("/v3/kv/range", &json!({ "key": KEY })).unwrap();
    answer["kvs"][0]["value"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}
