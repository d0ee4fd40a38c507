//! The program on a real PostgreSQL: passwords, least rights, and ids that the database mints by itself.

use std::{fs, thread};

use mintage_servers_for_tests::Postgres;

use crate::folder::{Folder, assert_distinct};

const CONFIG: &str = r#"version = 1

[entities.orders]
scheme = "segment"
range = 10

[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }

[entities.trips]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 39, sequence = 8, worker = 16, unit = "10ms", fields = ["time", "sequence", "worker"] }
worker = { pool = "trips" }

[workers.main]
region = "eu"

[workers.trips]
region = "eu"

[regions]
eu = "0..512"

[stores.main]
"#;

fn folder(store: &str) -> Folder {
    Folder::with(&format!("{CONFIG}{store}\n"))
}

#[test]
fn a_password_comes_from_a_file_or_a_variable() {
    let Some(server) = Postgres::start() else { return };
    server.database("ids");
    server.sql("CREATE USER app PASSWORD 'hunter2 @/'");
    server.sql("GRANT ALL ON DATABASE ids TO app");
    server.sql_in("ids", "GRANT ALL ON SCHEMA public TO app");
    let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
    server.sql("SELECT pg_reload_conf()");
    let url = format!("url = \"postgres://app@127.0.0.1:{}/ids\"", server.port());

    let by_file = folder(&format!("{url}\npassword = {{ file = \"secret/password\" }}"));
    by_file.run(&["store", "init"]).expect(2).says("cannot be read");
    by_file.write("secret/password", "hunter2 @/\n");
    by_file.run(&["store", "init"]).expect(0).says("made");
    assert_eq!(by_file.run(&["new", "orders", "-n", "3"]).expect(0).numbers(), [1, 2, 3]);
    by_file.write("secret/password", "hunter3\n");
    let wrong = by_file.run(&["new", "orders"]).expect(2).says("check the user and the password");
    assert!(!wrong.err.contains("hunter"), "{wrong:?}");

    let by_variable = folder(&format!("{url}\npassword = {{ env = \"IDS_PASSWORD\" }}"));
    by_variable.run_with(&[("IDS_PASSWORD", "hunter2 @/")], &["new", "orders"]).expect(0);
    by_variable.run(&["check"]).expect(1);
    let told = by_variable.run_with(&[("IDS_PASSWORD", "hunter2 @/")], &["check"]).expect(0);
    assert!(!format!("{told:?}").contains("hunter"), "{told:?}");
    let inline = folder(&format!("{url}\npassword = \"hunter2\""));
    let told = inline.run(&["check"]).expect(1);
    assert!(told.out.contains("must not stand in the config") && !told.out.contains("hunter2"), "{told:?}");
}

/// A user with the printed rights and no others does all that the program does.
#[test]
fn the_printed_statements_are_enough() {
    let Some(server) = Postgres::start() else { return };
    server.database("ids");
    server.sql("CREATE ROLE mintage LOGIN");
    let folder = folder(&format!("url = \"postgres://mintage@127.0.0.1:{}/ids\"", server.port()));
    // Nothing is made by looking, and this user may make nothing.
    folder.run(&["workers"]).expect(0).says("no worker id was claimed yet");
    folder.run(&["store", "init"]).expect(2).says("CREATE TABLE mintage_pool");
    server.sql_in("ids", &folder.run(&["store", "ddl"]).expect(0).out);
    folder.run(&["store", "init"]).expect(0).says("was there already");
    assert_eq!(folder.run(&["new", "orders", "-n", "2"]).expect(0).numbers(), [1, 2]);
    folder.run(&["new", "events", "-n", "2"]).expect(0);
    folder.run(&["workers", "revoke", "main", "3", "--yes"]).expect(0);
    folder.run(&["workers", "release", "main", "3", "--yes"]).expect(0);
    folder.run(&["workers", "history", "main"]).expect(0);
    folder.run(&["store", "bump", "--yes"]).expect(0).says("bumped");
}

/// A database that was made before there was a history of ranges: numbers go on, and the operator is told what is missing.
#[test]
fn a_database_of_before_goes_on_and_says_what_it_lacks() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database("ids");
    server.sql("CREATE ROLE mintage LOGIN");
    let app = folder(&format!("url = \"postgres://mintage@127.0.0.1:{}/ids\"", server.port()));
    server.sql_in("ids", &app.run(&["store", "ddl"]).expect(0).out);
    server.sql_in("ids", "DROP TABLE mintage_range");
    let told = app.run(&["new", "orders", "-n", "2"]).expect(0).says("stores.main: no history of ranges is kept");
    assert_eq!((told.numbers(), told.err.matches("mintage store ddl").count()), (vec![1, 2], 1), "{told:?}");
    let told = app.run(&["inspect", "2"]).expect(0);
    assert!(
        told.out.contains("which process had it is not known: stores.main: no history of ranges is kept"),
        "{told:?}"
    );

    // Whoever may make tables makes it; the rights are the administrator's to give.
    let admin = folder(&format!("url = \"{url}\""));
    admin.run(&["store", "init"]).expect(0).says("was there already");
    app.run(&["new", "orders"]).expect(0).says("no history of ranges is kept");
    server.sql_in("ids", "GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_range TO mintage");
    let run = |args: &[&str]| app.run_with(&[("MINTAGE_INSTANCE", "billing-3")], args).expect(0);
    let told = run(&["new", "orders"]);
    assert_eq!((told.numbers(), told.err.as_str()), (vec![4], ""), "{told:?}");
    assert!(run(&["inspect", "4"]).out.contains("billing-3, which got 4 to 4 from stores.main"));
    assert!(run(&["inspect", "3"]).out.contains("no range in its history holds it"));
}

fn numbers(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// A database with the function for `entity` in it, and a folder whose config reads its ids.
fn with_function(entity: &str, shard: &str) -> Option<(Postgres, Folder)> {
    let server = Postgres::start()?;
    let url = server.database("shard");
    server.sql("CREATE ROLE mintage LOGIN");
    let folder = folder(&format!("url = \"{url}\""));
    let printed = folder.run(&["store", "ddl", "--function", entity, "--shard", shard]).expect(0);
    assert_eq!(printed.err, "", "{printed:?}");
    server.sql_in("shard", &printed.out);
    // Says what became of a call instead of failing.
    server.sql_in(
        "shard",
        &format!(
            "CREATE FUNCTION told() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM mintage_next_{entity}(); RETURN 'minted'; \
             EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$"
        ),
    );
    Some((server, folder))
}

#[test]
fn a_database_mints_by_itself() {
    let Some((server, folder)) = with_function("events", "700") else { return };
    // Inside the block that processes lease, the id must be barred there first.
    folder
        .run(&["store", "ddl", "--function", "events", "--shard", "7"])
        .expect(0)
        .says("mintage workers revoke main 7");
    let many: Vec<Vec<u64>> = thread::scope(|scope| {
        let caller = || numbers(&server.sql_in("shard", "SELECT mintage_next_events() FROM generate_series(1, 1500)"));
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    for ids in &many {
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "not ascending within a session");
    }
    let id = many[0][0];
    assert_distinct(many.concat());

    let told = folder.run(&["inspect", &id.to_string(), "-o", "json"]).expect(0).json().to_string();
    assert!(told.contains("\"events\"") && told.contains("700"), "{told}");
    let now = numbers(&server.sql_in("shard", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))[0];
    let made = (id >> 22) + 1_767_225_600_000;
    assert!(made.abs_diff(now) < 60_000, "made at {made}, now {now}");
    assert_eq!((id >> 12) & 1023, 700);

    // Neither a rollback nor a crash brings a number back.
    let rolled_back =
        numbers(&server.sql_in("shard", "BEGIN; SELECT mintage_next_events(); ROLLBACK; SELECT mintage_next_events()"));
    assert!(rolled_back[0] < rolled_back[1]);
    server.kill9();
    server.restart();
    let after = numbers(&server.sql_in("shard", "SELECT mintage_next_events()"))[0];
    assert!(after > rolled_back[1]);
}

/// The clock steps back: what the function sees then is a sequence that is ahead of it.
#[test]
fn a_database_whose_clock_goes_back() {
    let Some((server, _folder)) = with_function("events", "700") else { return };
    let ahead = |ms: u64| {
        let state = format!(
            "setval('mintage_last_events', (floor(extract(epoch FROM clock_timestamp()) * 1000 - 1767225600000)::bigint + {ms}) << 12)"
        );
        format!("SELECT 0 FROM (SELECT {state}) AS stepped")
    };
    let within = numbers(
        &server.sql_in("shard", &format!("{}; SELECT mintage_next_events() FROM generate_series(1, 3)", ahead(500))),
    );
    assert!(within[1..].windows(2).all(|pair| pair[0] < pair[1]), "{within:?}");
    server.sql_in("shard", &ahead(60_000));
    let told = server.sql_in("shard", "SELECT told()");
    assert!(told.contains("the clock went back") && told.contains("wait until it has caught up"), "{told}");
    // A refusal gives the turn back: after the step all is as before.
    server.sql_in("shard", "SELECT setval('mintage_last_events', 1)");
    assert_eq!(server.sql_in("shard", "SELECT told()"), "minted");
    assert_eq!(server.sql_in("shard", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

/// A caller that is cancelled while it waits leaves nothing locked, in its own session either.
#[test]
fn a_cancelled_caller_keeps_nobody_waiting() {
    let Some((server, _folder)) = with_function("trips", "60000") else { return };
    let turn = "(1835626100::bigint << 32) | 'mintage_last_trips'::regclass::oid::bigint";
    thread::scope(|scope| {
        scope.spawn(|| server.sql_in("shard", &format!("SELECT pg_advisory_lock({turn}), pg_sleep(2)")));
        let held =
            || server.sql_in("shard", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted") == "1";
        crate::folder::until("the turn is taken", held);
        let told = server.sql_in(
            "shard",
            "SET statement_timeout = 200; DO $$ BEGIN PERFORM mintage_next_trips(); EXCEPTION WHEN query_canceled THEN NULL; END $$; \
             SET statement_timeout = 0; SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid(); \
             SELECT mintage_next_trips() & 65535",
        );
        assert_eq!(told, "0\n60000");
    });
}

/// Its callers can call it and nothing more.
#[test]
fn callers_need_no_right_on_the_sequence() {
    let Some((server, folder)) = with_function("events", "700") else { return };
    let id = numbers(&server.sql_in("shard", "SET ROLE mintage; SELECT mintage_next_events()"))[0];
    folder.run(&["inspect", &id.to_string()]).expect(0);
    let rights = "SELECT has_sequence_privilege('mintage', 'mintage_last_events', 'UPDATE'), \
                  has_function_privilege('mintage', 'mintage_next_events()', 'EXECUTE')";
    assert_eq!(server.sql_in("shard", rights), "f|t");
}
