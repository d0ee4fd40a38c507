//! `mintage doctor`: what it says of a fleet that is well, and of each way in which one is not. It never changes anything.

use std::fs;

use serde_json::Value;

use crate::folder::{Folder, Ran};

const CONFIG: &str = r#"version = 1

[entities.orders]
scheme = "segment"
range = 10
public = { form = "number", digits = 12, key = "main" }

[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }

[series.invoices]
format = "{yyyy}-{n:06}"
zone = "Europe/Berlin"

[workers.main]
region = "eu"

[regions]
eu = "0..256"
us = "256..512"

[keys.main]
file = "mintage.keys"

[stores.main]
"#;

fn at(url: &str) -> Folder {
    Folder::with(&format!("{CONFIG}url = \"{url}\"\n"))
}

/// The findings of a run that ends with `code`.
fn findings(folder: &Folder, code: i32) -> Vec<Value> {
    let told = folder.run(&["doctor", "-o", "json"]).expect(code).json();
    told.as_array().unwrap().clone()
}

/// The one finding about `path` whose message holds `what`.
#[track_caller]
fn one<'f>(findings: &'f [Value], path: &str, what: &str) -> &'f Value {
    let fits = |one: &&Value| one["path"] == path && one["message"].as_str().unwrap().contains(what);
    let found: Vec<&Value> = findings.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{path} {what:?} in {findings:#?}");
    found[0]
}

#[track_caller]
fn severity(findings: &[Value], path: &str, what: &str) -> String {
    one(findings, path, what)["severity"].as_str().unwrap().to_owned()
}

/// Every finding that is no `ok`. That an answer took long says something of the machine that runs the tests only.
fn complaints(findings: &[Value]) -> Vec<&Value> {
    let is_slow = |one: &Value| one["message"].as_str().unwrap().starts_with("an answer took ");
    findings.iter().filter(|one| one["severity"] != "ok" && !is_slow(one)).collect()
}

fn use_all(folder: &Folder) -> Ran {
    folder.run(&["new", "events"]).expect(0);
    folder.run(&["new", "invoices"]).expect(0);
    folder.run(&["new", "orders", "-n", "3"]).expect(0)
}

/// What every store that is well and in use must show.
fn is_well(folder: &Folder) -> Vec<Value> {
    for _ in 0..2 {
        // Looking has not made it.
        let fresh = findings(folder, 0);
        assert_eq!(severity(&fresh, "stores.main", "nothing of Mintage is there yet"), "ok");
    }
    is_well_in_use(folder)
}

fn is_well_in_use(folder: &Folder) -> Vec<Value> {
    folder.run(&["store", "init"]).expect(0);
    use_all(folder);
    let told = findings(folder, 0);
    assert!(complaints(&told).is_empty(), "{told:#?}");
    one(&told, "stores.main", "answers in");
    one(&told, "workers.main eu", "0 of 256 worker ids held");
    one(&told, "entities.orders", "segment, as store main has it on record");
    one(&told, "entities.orders", "the next number is 4");
    one(&told, "entities.events", "snowflake, as store main has it on record");
    one(&told, "series.invoices", "as store main has it on record");
    one(&told, "regions", "as store main has them on record");
    one(&told, "keys.main", "as store main has it on record");
    told
}

/// A bump is shown where worker ids are: none can be claimed for a while.
fn rests_once_bumped(folder: &Folder) {
    folder.run(&["store", "bump", "--yes"]).expect(0);
    let row = folder.run(&["workers", "-o", "json"]).expect(0).json()[0].clone();
    assert_eq!(row["state"], "resting", "{row}");
    one(&findings(folder, 1), "workers.main eu", "0 of 256 worker ids held, 1 resting");
}

#[test]
fn an_embedded_store_that_is_well() {
    for url in ["sqlite:ids.db", "file:ids"] {
        let folder = at(url);
        let fresh = findings(&folder, 0);
        assert_eq!(severity(&fresh, "stores.main", "nothing of Mintage is there yet"), "ok");
        let names = || fs::read_dir(folder.path("")).unwrap().count();
        assert_eq!(names(), 1, "a look made a file");
        use_all(&folder);
        let told = findings(&folder, 0);
        assert!(complaints(&told).is_empty(), "{told:#?}");
        one(&told, "series.invoices", "the next number is 2");
        let text = folder.run(&["doctor"]).expect(0).says("0 errors, 0 warnings");
        assert!(text.lines().iter().all(|line| line.starts_with("ok ")), "{text:?}");
        let csv = folder.run(&["doctor", "-o", "csv"]).expect(0);
        assert_eq!(csv.lines()[0], "severity,path,message,remedy");
    }
    Folder::with("version = 2\n").run(&["doctor"]).expect(2);
}

#[test]
fn a_key_file_that_is_older_than_its_store() {
    let folder = at("sqlite:ids.db");
    let first = use_all(&folder);
    assert!(!first.err.contains("older"), "{first:?}");
    for name in ["ids.db", "ids.db-wal", "ids.db-shm"] {
        let _ = fs::remove_file(folder.path(name));
    }
    let told = findings(&folder, 0);
    assert_eq!(severity(&told, "keys.main", "older than store main"), "warning");
    folder.run(&["store", "init"]).expect(0);
    assert_eq!(severity(&findings(&folder, 0), "keys.main", "older than store main"), "warning");
    folder.run(&["new", "orders"]).expect(0).says("warning: the key file of keys.main is older than store main");
    // It is on record from then on.
    let again = folder.run(&["new", "orders"]).expect(0);
    assert!(!again.err.contains("older"), "{again:?}");
    assert!(complaints(&findings(&folder, 0)).is_empty());
}

#[test]
fn keys_that_are_lost_or_others() {
    let folder = at("sqlite:ids.db");
    use_all(&folder);
    let keys = folder.path("mintage.keys");
    let kept = fs::read(&keys).unwrap();
    fs::remove_file(&keys).unwrap();
    let told = findings(&folder, 1);
    assert_eq!(severity(&told, "keys.main", "is missing"), "error");
    // What the record says of public ids cannot be compared, and is no second complaint.
    assert_eq!(complaints(&told).len(), 1, "{told:#?}");
    assert!(!keys.exists(), "a look made a key");
    folder.write("mintage.keys", "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
    let other = folder.run(&["doctor"]).expect(1);
    assert!(other.out.contains("is not the key with which public ids were written"), "{other:?}");
    assert!(!other.out.contains("AAECAwQF") && !other.err.contains("AAECAwQF"), "{other:?}");
    folder.write("mintage.keys", &kept);
    let others = findings(&folder, 0);
    assert_eq!(severity(&others, "keys.main", "can be read by others"), "warning");
}

#[test]
fn a_config_that_disagrees_with_the_records() {
    let folder = at("sqlite:ids.db");
    use_all(&folder);
    let config = format!("{CONFIG}url = \"sqlite:ids.db\"\n");
    folder.write("mintage.toml", config.replace("worker = 10, sequence = 12", "worker = 12, sequence = 10"));
    let told = findings(&folder, 1);
    assert_eq!(severity(&told, "entities.events", "disagrees with the format recorded"), "error");
    folder.write("mintage.toml", config.replace("eu = \"0..256\"", "eu = \"0..200\""));
    assert_eq!(severity(&findings(&folder, 1), "regions", "regions.eu: 0..200 in the config"), "error");
}

/// A block of one worker id, and a process that has it.
#[test]
fn a_pool_without_a_free_worker_id() {
    let config = format!("{CONFIG}url = \"sqlite:ids.db\"\n");
    let folder = Folder::with(&config.replace("eu = \"0..256\"", "eu = \"0..1\""));
    let mut running = folder.start("ids", &["new", "events", "-n", "100000000"]);
    running.wait_for_output();
    let told = findings(&folder, 1);
    let full = one(&told, "workers.main eu", "1 of 1 worker ids held: a process that starts now gets none");
    assert!(full["severity"] == "error" && full["remedy"].is_string(), "{full}");
    assert!(running.kill());
}

#[test]
fn columns_are_looked_at() {
    let folder = at("sqlite:ids.db");
    folder.run(&["new", "orders", "-n", "3"]).expect(0);
    let sql = |text: &str| {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
            let options = SqliteConnectOptions::new().filename(folder.path("shop.db")).create_if_missing(true);
            let mut conn = options.connect().await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(&mut conn).await.unwrap();
        });
    };
    sql("CREATE TABLE by_key (id INTEGER PRIMARY KEY);
         CREATE TABLE by_index (id INTEGER, note TEXT); CREATE UNIQUE INDEX one ON by_index (id);
         CREATE TABLE bare (id INTEGER); CREATE INDEX plain ON bare (id);
         CREATE TABLE pair (tenant INTEGER, id INTEGER, PRIMARY KEY (tenant, id));
         CREATE TABLE [our orders] ([order id] INTEGER PRIMARY KEY); INSERT INTO [our orders] VALUES (2);
         CREATE TABLE full (id INTEGER PRIMARY KEY); INSERT INTO full VALUES (9223372036854775807);
         CREATE TABLE part (id INTEGER, live INTEGER); CREATE UNIQUE INDEX some ON part (id) WHERE live = 1;
         INSERT INTO by_key VALUES (3); INSERT INTO by_index VALUES (17, '')");
    let look = |column: &str| folder.run(&["doctor", "--column", &format!("orders=sqlite:shop.db#{column}")]);
    let well = look("by_key.id").expect(0);
    assert!(well.out.contains("by_key.id is unique") && well.out.contains("goes up to 3, below the next"), "{well:?}");
    let behind = look("by_index.id").expect(1);
    assert!(behind.out.contains("goes up to 17, and the next number is 4"), "{behind:?}");
    assert!(behind.out.contains("mintage sequences raise orders 18"), "{behind:?}");
    let spaced = look("our orders.order id").expect(0);
    assert!(spaced.out.contains("our orders.order id goes up to 2"), "{spaced:?}");
    let full = look("full.id").expect(1);
    assert!(
        full.out.contains("no number is left above that one") && !full.out.contains("9223372036854775808"),
        "{full:?}"
    );
    for column in ["bare.id", "pair.id", "part.id"] {
        let told = look(column).expect(0).says("1 warning");
        assert!(told.out.contains("add a unique index on that column alone"), "{told:?}");
    }
    let missing = look("by_key.ident").expect(1);
    assert!(missing.out.contains("there is no such column"), "{missing:?}");
    look("by_key").expect(2).says("TABLE.COLUMN");
    folder.run(&["doctor", "--column", "trees=sqlite:shop.db#by_key.id"]).expect(2).says("no entity \"trees\"");
    folder.run(&["doctor", "--column", "orders"]).expect(2).says("ENTITY=URL#TABLE.COLUMN");
    let secret = "orders=postgres://me:hunter2@db/ids#orders.id";
    let told = folder.run(&["doctor", "--column", secret]).expect(2).says("a password among the arguments");
    assert!(!format!("{told:?}").contains("hunter2"));
}

#[cfg(all(feature = "postgres", feature = "full"))]
mod postgres {
    use mintage_servers_for_tests::Postgres;

    use super::*;

    /// A row of a worker id that is held: its holder renewed it now, with a clock that is off by `off_ms`.
    fn hold(server: &Postgres, region: &str, worker: u32, instance: &str, off_ms: i64) {
        let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        server.sql_in(
            "ids",
            &format!(
                "INSERT INTO mintage_worker VALUES ('main', '{region}', {worker}, 1, 1, decode(repeat('07', 16), 'hex'), \
                 '{instance}', {now}, {now} + 600000, {now} + 600000, 0, 0, {now} + {off_ms}, {now})"
            ),
        );
    }

    #[test]
    fn a_server_that_is_well_and_one_that_forgets() {
        let Some(server) = Postgres::start() else { return };
        let folder = at(&server.database("ids"));
        let told = is_well(&folder);
        assert_eq!(severity(&told, "stores.main", "PostgreSQL"), "ok");
        one(&told, "stores.main", "synchronous_commit");
        // The clock of one machine.
        one(&told, "stores.main", "this machine's clock");
        rests_once_bumped(&folder);

        let Some(weak) = Postgres::start_with(&["fsync=off", "full_page_writes=off"]) else { return };
        let folder = at(&weak.database("ids"));
        let told = findings(&folder, 0);
        assert_eq!(severity(&told, "stores.main", "fsync off: a crash can lose"), "warning");
        assert_eq!(one(&told, "stores.main", "full_page_writes off")["remedy"], "set full_page_writes = on");
    }

    /// Two databases of one server, and one `state_dir`: whichever was there first is the one.
    #[test]
    fn the_database_beside_the_one_that_was_used() {
        let Some(server) = Postgres::start() else { return };
        let config = |url: &str| format!("{CONFIG}url = \"{url}\"\nstate_dir = \"state\"\n");
        let urls = ["ids", "other"].map(|name| server.database(name));
        let folder = Folder::with(&config(&urls[0]));
        use_all(&folder);
        let beside = Folder::with(&config(&urls[1]));
        use_all(&beside);
        folder.write("mintage.toml", config(&urls[1]));
        let told = findings(&folder, 1);
        assert_eq!(severity(&told, "stores.main", "leads to the store with the id"), "error");
        for entity in ["events", "orders", "invoices"] {
            folder.run(&["new", entity]).expect(2).says("check its URL");
        }
        let rows = folder.run(&["workers", "-o", "json"]).expect(0).json();
        assert_eq!((rows.as_array().unwrap().len(), &rows[0]["epoch"]), (1, &1.into()), "nothing was claimed: {rows}");
        folder.write("mintage.toml", config(&urls[0]));
        use_all(&folder);
    }

    #[test]
    fn holders_are_compared() {
        let Some(server) = Postgres::start() else { return };
        let folder = at(&server.database("ids"));
        folder.run(&["new", "events"]).expect(0);
        server.sql_in("ids", "DELETE FROM mintage_worker");
        for (worker, instance) in [(1, "host-a/0123abcd"), (2, "host-a/0123abcd"), (3, "host-b/0123abce")] {
            hold(&server, "eu", worker, instance, 0);
        }
        let well = findings(&folder, 0);
        assert_eq!(severity(&well, "workers.main eu", "2 processes called host-a/0123abcd hold worker ids 1, 2"), "ok");
        one(&well, "workers.main eu", "3 of 256 worker ids held");

        hold(&server, "eu", 4, "pod-7", 0);
        hold(&server, "eu", 5, "pod-7", 60);
        hold(&server, "eu", 6, "pod-8", -5000);
        hold(&server, "us", 300, "pod-9", 0);
        hold(&server, "us", 3, "pod-10", 0);
        let told = findings(&folder, 1);
        let named = one(&told, "workers.main eu", "2 processes called pod-7 hold worker ids 4, 5");
        assert!(named["severity"] == "warning" && named["remedy"].as_str().unwrap().contains("MINTAGE_INSTANCE"));
        assert_eq!(severity(&told, "workers.main eu", "the clock of pod-7 (worker id 5)"), "warning");
        assert_eq!(severity(&told, "workers.main eu", "the clock of pod-8 (worker id 6)"), "error");
        assert_eq!(severity(&told, "workers.main us", "worker ids outside 256..512 are held: 3"), "error");
        let twice = one(&told, "workers.main", "worker id 3 is held twice");
        assert!(twice["message"].as_str().unwrap().contains("host-b/0123abce in workers.main eu"), "{twice}");
        assert_eq!(twice["severity"], "error");
    }

    #[test]
    fn a_worker_id_that_a_config_insists_on_and_another_has() {
        let Some(server) = Postgres::start() else { return };
        let url = server.database("ids");
        let folder = at(&url);
        folder.run(&["new", "events"]).expect(0);
        server.sql_in("ids", "DELETE FROM mintage_worker");
        hold(&server, "eu", 7, "elsewhere/0123abcd", 0);
        let config = format!("{CONFIG}url = \"{url}\"\n");
        folder.write("mintage.toml", config.replace("pool = \"main\" }", "pool = \"main\", id = 7 }"));
        let told = findings(&folder, 0);
        assert_eq!(
            severity(&told, "workers.main eu", "insists on worker id 7, and elsewhere/0123abcd holds it"),
            "warning"
        );
    }

    #[test]
    fn a_counter_that_stopped_and_a_table_that_is_ahead() {
        let Some(server) = Postgres::start() else { return };
        let url = server.database("ids");
        let folder = at(&url);
        folder.run(&["new", "orders", "-n", "3"]).expect(0);
        server.sql_in(
            "ids",
            "CREATE TABLE shop (id BIGINT PRIMARY KEY); CREATE TABLE bare (id BIGINT); INSERT INTO shop VALUES (1), (50); \
             CREATE TABLE late (id BIGINT); CREATE UNIQUE INDEX late_some ON late (id) WHERE id > 5; \
             CREATE TABLE pair (a INT, id BIGINT, UNIQUE (a, id))",
        );
        let look = |column: &str| {
            let column = format!("orders=env:IDS#{column}");
            folder.run_with(&[("IDS", &url)], &["doctor", "--column", &column])
        };
        let ahead = look("public.shop.id").expect(1);
        assert!(ahead.out.contains("shop.id is unique") && ahead.out.contains("goes up to 50"), "{ahead:?}");
        for column in ["bare.id", "late.id", "pair.id"] {
            let told = look(column).expect(0);
            assert!(told.out.contains("add a unique index"), "{told:?}");
        }
        let missing = look("nowhere.id").expect(1);
        assert!(missing.out.contains("error"), "{missing:?}");
        server.sql_in("ids", "UPDATE mintage_sequence SET incarnation = 'before'");
        let told = findings(&folder, 1);
        let stopped = one(&told, "stores.main", "sequence orders in store main stopped");
        assert!(stopped["remedy"].as_str().unwrap().contains("mintage sequences raise orders NUMBER"), "{stopped}");
        server.sql_in("ids", "DELETE FROM mintage_sequence");
        assert_eq!(severity(&findings(&folder, 1), "entities.orders", "its sequence orders is gone"), "error");
    }

    #[test]
    fn a_server_that_is_down_or_a_standby() {
        let Some(server) = Postgres::start() else { return };
        let url = server.database("ids");
        let folder = at(&url);
        use_all(&folder);
        let standby = Postgres::standby_of(&server);
        let config = format!("{CONFIG}url = {{ env = \"MINTAGE_STORE\" }}\n");
        let elsewhere = Folder::with(&config);
        let to_standby = url.replace(&server.port().to_string(), &standby.port().to_string());
        let told = elsewhere.run_with(&[("MINTAGE_STORE", &to_standby)], &["doctor"]).expect(1);
        assert!(told.out.contains("role standby: a standby is not written to"), "{told:?}");
        let primary = findings(&folder, 0);
        assert_eq!(severity(&primary, "stores.main", "standbys 1, no commit waits for them"), "warning");

        let port = server.port();
        server.kill9();
        let secret = format!("postgres://postgres:hunter2@127.0.0.1:{port}/ids");
        let told = elsewhere.run_with(&[("MINTAGE_STORE", &secret)], &["doctor"]).expect(1);
        assert!(told.out.contains("\nerror    stores.main") && told.out.contains("cannot be reached"), "{told:?}");
        assert!(!format!("{told:?}").contains("hunter2"), "{told:?}");
    }
}

#[cfg(all(feature = "mysql", feature = "full"))]
#[test]
fn mariadb() {
    use mintage_servers_for_tests::MariaDb;

    let Some(server) = MariaDb::start_with(&["innodb-flush-log-at-trx-commit=1"]) else { return };
    let url = server.database("ids");
    let folder = at(&url);
    let told = is_well(&folder);
    assert_eq!(severity(&told, "stores.main", "MariaDB"), "ok");
    one(&told, "stores.main", "innodb_flush_log_at_trx_commit 1");
    server.sql("CREATE TABLE ids.shop (id BIGINT UNSIGNED PRIMARY KEY, code CHAR(9), UNIQUE part (code(3)))");
    server.sql("CREATE TABLE ids.pair (a INT, id BIGINT, UNIQUE one (a, id)); INSERT INTO ids.shop VALUES (2, 'x')");
    let look = |column: &str| {
        let column = format!("orders=env:IDS#{column}");
        folder.run_with(&[("IDS", &url)], &["doctor", "--column", &column])
    };
    assert!(look("shop.id").expect(0).out.contains("shop.id is unique"));
    assert!(look("ids.shop.id").expect(0).out.contains("shop.id is unique"));
    assert!(look("pair.id").expect(0).out.contains("add a unique index"));
    assert!(look("shop.name").expect(1).out.contains("there is no such column"));
    rests_once_bumped(&folder);
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2; SET GLOBAL read_only = 1");
    let told = findings(&folder, 1);
    assert_eq!(severity(&told, "stores.main", "innodb_flush_log_at_trx_commit 2: a crash can lose"), "warning");
    assert_eq!(severity(&told, "stores.main", "read_only on"), "error");
    // A start of the server is another life of it now, so counters stop.
    one(&told, "stores.main", "sequence orders in store main stopped");
}

#[cfg(feature = "full")]
#[test]
fn redis() {
    use mintage_servers_for_tests::Redis;

    let Some(server) = Redis::start() else { return };
    let folder = Folder::with(&format!("{CONFIG}url = \"{}\"\nstate_dir = \"state\"\n", server.url()));
    // No process makes it: each is refused.
    let fresh = findings(&folder, 1);
    let missing = one(&fresh, "stores.main", "nothing of Mintage is there, and no process makes it");
    assert_eq!(missing["severity"], "error");
    assert!(missing["remedy"].as_str().unwrap().contains("`mintage store init main`"), "{missing}");
    folder.run(&["new", "events"]).expect(4).says("mintage store init");
    let init = Folder::with(&format!("{CONFIG}url = \"{}?init=yes\"\n", server.url()));
    assert_eq!(severity(&findings(&init, 0), "stores.main", "the first process makes it"), "ok");

    let told = is_well_in_use(&folder);
    one(&told, "stores.main", "server Redis");
    one(&told, "stores.main", "this machine's clock");
    one(&told, "stores.main", "knows of all that this machine was given");
    server.command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let weak = findings(&folder, 1);
    let fault = one(&weak, "stores.main", "appendfsync everysec");
    assert!(fault["severity"] == "error" && fault["remedy"].as_str().unwrap().contains("set appendfsync always"));
    // A store that is not opened for its settings is no empty one.
    assert_eq!(complaints(&weak).len(), 1, "{weak:#?}");
    server.restart();
    let told = findings(&folder, 1);
    one(&told, "stores.main", "sequence orders in store main stopped");
    server.kill9();
    assert_eq!(severity(&findings(&folder, 1), "stores.main", "cannot be reached"), "error");
}

/// A reserve that nobody has made yet is a warning, and told by the first process as well.
#[cfg(feature = "full")]
#[test]
fn a_reserve_that_was_never_made() {
    use mintage_servers_for_tests::Redis;

    let Some(server) = Redis::start() else { return };
    let config = CONFIG
        .replace(
            "worker = { pool = \"main\" }",
            "worker = { pool = \"main\" }\nstore = \"main\"\nfallback = { pool = \"spare\" }",
        )
        .replace("[entities.orders]", "[entities.orders]\nstore = \"main\"")
        .replace("[series.invoices]", "[series.invoices]\nstore = \"main\"")
        .replace(
            "[workers.main]",
            "[workers.spare]\nstore = \"reserve\"\nregion = \"us\"\n[workers.main]\nstore = \"main\"",
        );
    let folder =
        Folder::with(&format!("{config}url = \"sqlite:ids.db\"\n[stores.reserve]\nurl = \"{}\"\n", server.url()));
    let told = findings(&folder, 0);
    assert_eq!(severity(&told, "stores.reserve", "no process makes it"), "warning");
    let first = folder.run(&["new", "events"]).expect(0);
    assert!(first.err.contains("the reserve of pool main, could not be used now: store reserve"), "{first:?}");
    folder.run(&["store", "init", "reserve"]).expect(0);
    let second = folder.run(&["new", "events"]).expect(0);
    assert!(!second.err.contains("reserve"), "{second:?}");
    let told = findings(&folder, 0);
    one(&told, "entities.events", "snowflake, as store reserve has it on record");
}

#[cfg(feature = "full")]
#[test]
fn etcd() {
    use mintage_servers_for_tests::Etcd;

    let Some(cluster) = Etcd::cluster(3) else { return };
    let folder = at(cluster.url());
    let told = is_well(&folder);
    assert_eq!(told.iter().filter(|one| one["message"].as_str().unwrap().contains("etcd 3")).count(), 3);
    one(&told, "stores.main", "leads");
    one(&told, "stores.main", "it has no clock of its own");
    cluster.members()[0].kill9();
    let told = findings(&folder, 0);
    assert_eq!(severity(&told, "stores.main", "does not answer"), "warning");
    cluster.members()[1].kill9();
    let config = fs::read_to_string(folder.path("mintage.toml")).unwrap();
    folder.write("mintage.toml", format!("{config}timeout = \"3s\"\n"));
    let told = findings(&folder, 1);
    assert!(complaints(&told).iter().any(|one| one["severity"] == "error"), "{told:#?}");
}

#[cfg(feature = "full")]
#[test]
fn zookeeper() {
    use mintage_servers_for_tests::ZooKeeper;

    let Some(server) = ZooKeeper::start() else { return };
    let folder = at(server.url());
    let told = is_well(&folder);
    one(&told, "stores.main", "it has no clock of its own");
    rests_once_bumped(&folder);
    server.kill9();
    let config = fs::read_to_string(folder.path("mintage.toml")).unwrap();
    folder.write("mintage.toml", format!("{config}timeout = \"3s\"\n"));
    let told = findings(&folder, 1);
    assert!(complaints(&told).iter().any(|one| one["severity"] == "error"), "{told:#?}");
}

/// What a machine has written down that a store gave it is held against the store.
#[test]
fn what_a_machine_remembers() {
    let folder = Folder::with(&format!("{CONFIG}url = \"sqlite:ids.db\"\nstate_dir = \"state\"\n"));
    let told = findings(&folder, 0);
    assert_eq!(severity(&told, "stores.main", "state: nothing is written down yet"), "ok");
    assert!(!folder.path("state").exists(), "looking makes nothing");
    use_all(&folder);
    let well = findings(&folder, 0);
    assert_eq!(one(&well, "stores.main", "knows of all that this machine was given")["severity"], "ok");
    // A run that has ended leaves nothing beside the database that would be read as part of another one.
    let aside = || ["ids.db-wal", "ids.db-shm"].map(|name| folder.path(name).exists());
    assert_eq!(aside(), [false; 2]);
    fs::copy(folder.path("ids.db"), folder.path("backup.db")).unwrap();
    folder.run(&["new", "orders", "-n", "30"]).expect(0);
    assert_eq!(aside(), [false; 2]);
    fs::copy(folder.path("backup.db"), folder.path("ids.db")).unwrap();
    let told = findings(&folder, 1);
    let behind = one(&told, "stores.main", "sequence orders stands at ");
    assert_eq!(behind["severity"], "error");
    assert!(behind["message"].as_str().unwrap().contains("the store went back in time"), "{behind}");
    assert!(behind["remedy"].as_str().unwrap().contains("sequences raise orders NUMBER --store main"), "{behind}");
    folder.run(&["new", "orders"]).expect(4);

    fs::write(folder.path("state/main.seen"), "{").unwrap();
    assert_eq!(severity(&findings(&folder, 1), "stores.main", "delete the file"), "error");
    fs::remove_dir_all(folder.path("state")).unwrap();
    fs::write(folder.path("state"), "a file in its place").unwrap();
    assert_eq!(severity(&findings(&folder, 1), "stores.main", "check state_dir"), "error");
}

/// Worker ids go back with the rest of the store: a bump ends that, and the alarm with it.
#[test]
fn leases_that_went_back_and_were_bumped() {
    for (url, file) in [("sqlite:ids.db", "ids.db"), ("file:ids", "ids/state.json")] {
        let folder = Folder::with(&format!("{CONFIG}url = \"{url}\"\nstate_dir = \"state\"\n"));
        folder.run(&["new", "events"]).expect(0);
        fs::copy(folder.path(file), folder.path("backup")).unwrap();
        folder.run(&["new", "events"]).expect(0);
        assert!(complaints(&findings(&folder, 0)).is_empty());
        fs::copy(folder.path("backup"), folder.path(file)).unwrap();
        let told = findings(&folder, 1);
        let behind = one(&told, "stores.main", "worker id 0 of pool main eu stands at claim 1");
        assert!(behind["message"].as_str().unwrap().contains("was given claim 2"), "{behind}");
        assert!(behind["remedy"].as_str().unwrap().contains("mintage store bump main"), "{behind}");
        folder.run(&["new", "events"]).expect(4).says("mintage store bump main");
        rests_once_bumped(&folder);
        let told = findings(&folder, 1);
        // Counters wait, and nothing is said of leases.
        assert!(
            complaints(&told).iter().all(|one| !one["message"].as_str().unwrap().contains("worker id")),
            "{told:#?}"
        );
        one(&told, "stores.main", "knows of all that this machine was given");
        folder.run(&["new", "events"]).expect(4).says("the worker ids of the pool rest");
    }
}

/// A slip in the URL: the other store counts as another, for the doctor as for whoever mints.
#[test]
fn another_store_than_the_one_that_was_used() {
    let config = |url: &str| format!("{CONFIG}url = \"{url}\"\nstate_dir = \"state\"\n");
    let folder = Folder::with(&config("sqlite:ids.db"));
    use_all(&folder);
    folder.write("mintage.toml", config("sqlite:other.db"));
    let told = findings(&folder, 1);
    let other =
        one(&told, "stores.main", "leads to a store without an id, and this machine has used the one with the id");
    assert!(other["remedy"].as_str().unwrap().contains("check its URL"), "{other}");
    assert!(!folder.path("other.db").exists());
    folder.run(&["new", "events"]).expect(2).says("check its URL");
    folder.run(&["new", "orders"]).expect(2).says("the URL of stores.main leads to a store without an id");
    folder.write("mintage.toml", config("sqlite:ids.db"));
    folder.run(&["new", "events"]).expect(0);
    assert!(complaints(&findings(&folder, 0)).is_empty());
}

/// Whoever looks after the first process was refused finds what it found.
#[test]
fn a_refused_claim_is_told_afterwards() {
    let folder = Folder::with(&format!("{CONFIG}url = \"sqlite:ids.db\"\nstate_dir = \"state\"\n"));
    folder.run(&["new", "events"]).expect(0);
    fs::copy(folder.path("ids.db"), folder.path("backup.db")).unwrap();
    for _ in 0..2 {
        folder.run(&["new", "events"]).expect(0);
    }
    fs::copy(folder.path("backup.db"), folder.path("ids.db")).unwrap();
    folder.run(&["new", "events"]).expect(4).says("mintage store bump main");
    let told = findings(&folder, 0);
    let alarm = one(&told, "stores.main", "pool main eu was found to have gone back in time");
    assert!(alarm["severity"] == "warning" && alarm["remedy"].as_str().unwrap().contains("`mintage store bump main`"));
}

#[test]
fn a_state_dir_that_cannot_be_made_is_told() {
    let folder = Folder::with(&format!("{CONFIG}url = \"sqlite:ids.db\"\nstate_dir = \"sate/ids\"\n"));
    let told = findings(&folder, 1);
    assert_eq!(one(&told, "stores.main", "cannot be made")["remedy"], "make its parent folder first");
}
