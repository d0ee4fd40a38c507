//! `mintage new` and `mintage at`: what they print, how many, and which config and store they use.

use mintage::core::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::folder::{Folder, SHIPPED, assert_distinct};

#[test]
fn five_orders_and_then_the_next_five() {
    let folder = Folder::shipped();
    assert_eq!(folder.run(&["new", "orders", "-n", "5"]).expect(0).numbers(), [1, 2, 3, 4, 5]);
    assert_eq!(folder.run(&["new", "orders", "-n", "5"]).expect(0).numbers(), [6, 7, 8, 9, 10]);
    let one = folder.run(&["new", "orders"]).expect(0);
    assert_eq!(one.numbers(), [11], "one, if no count is given");
    assert_eq!(one.err, "", "nothing to say");
}

#[test]
fn the_builtin_config_is_used_where_there_is_none() {
    let folder = Folder::empty();
    let first = folder.run(&["new", "orders", "-n", "2"]).expect(0).says("no mintage.toml in this folder");
    assert_eq!(first.numbers(), [1, 2]);
    assert!(folder.path("mintage.db").is_file());
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [3]);
}

#[test]
fn events_ascend_and_were_made_now() {
    let folder = Folder::shipped();
    let before_ms = SystemClock.unix_ms();
    let mut events = folder.run(&["new", "events", "-n", "3"]).expect(0).numbers();
    events.extend(folder.run(&["new", "events", "-n", "10000"]).expect(0).numbers());
    let after_ms = SystemClock.unix_ms();
    assert_eq!(events.len(), 10_003);
    assert!(events.is_sorted_by(|one, two| one < two));
    assert!(events.iter().all(|id| *id < 1 << 63));
    // Layout 41/10/12 from 2026-01-01. A window may begin two seconds ahead of the clock.
    let stamped: Vec<u64> = events.iter().map(|id| (id >> 22) + 1_767_225_600_000).collect();
    assert!(stamped.iter().all(|ms| (before_ms..=after_ms + 2_000).contains(ms)), "{before_ms} {after_ms} {stamped:?}");
}

#[test]
fn every_entity_of_the_shipped_config_is_minted_and_told_apart_again() {
    let folder = Folder::shipped();
    for (entity, scheme, length) in
        [("users", "uuidv7", 36), ("events", "snowflake", 18), ("documents", "ulid", 26), ("uploads", "ksuid", 27)]
    {
        let before_ms = i64::try_from(SystemClock.unix_ms()).unwrap();
        let ran = folder.run(&["new", entity, "-n", "2"]).expect(0);
        let ids = ran.lines();
        assert!(ids.len() == 2 && ids[0] < ids[1] && ids[0].len() == length, "{ids:?}");
        let told = folder.run(&["inspect", "-o", "json", ids[0], ids[1]]).expect(0).json();
        for (told, id) in told.as_array().unwrap().iter().zip(&ids) {
            assert_eq!((&told["id"], &told["entity"], &told["scheme"]), (&json!(id), &json!(entity), &json!(scheme)));
            let age_ms = told["created_at_ms"].as_i64().unwrap() - before_ms;
            assert!((-1_000..60_000).contains(&age_ms), "{told}");
        }
    }
}

// B123, B124: ids beyond 2^53 reach a reader of JSON unrounded, because they are strings.
#[test]
fn ids_in_json_are_strings() {
    let folder = Folder::shipped();
    for (entity, count) in [("events", 5), ("orders", 5), ("users", 1), ("uploads", 3)] {
        let json = folder.run(&["new", entity, "-n", &count.to_string(), "-o", "json"]).expect(0).json();
        assert_eq!(json["entity"], *entity);
        let ids = json["ids"].as_array().unwrap();
        assert!(ids.len() == count && ids.iter().all(Value::is_string), "{json}");
    }
    let many = folder.run(&["new", "events", "-n", "9000", "-o", "json"]).expect(0).json();
    let ids = many["ids"].as_array().unwrap();
    assert_eq!(ids.len(), 9000, "several writes make one document");
    assert_distinct(ids.iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect());
}

#[test]
fn csv_has_one_header() {
    let folder = Folder::shipped();
    let printed = folder.run(&["new", "orders", "-n", "9000", "--output", "csv"]).expect(0);
    let lines = printed.lines();
    assert_eq!((lines[0], lines[1], lines[9000]), ("id", "1", "9000"));
    assert_eq!(lines.len(), 9001);
}

#[test]
fn counts_outside_the_limits_are_usage() {
    let folder = Folder::shipped();
    for count in ["0", "100000001", "4294967297", "-1", "1e3", "1_000", "+5x", "", " 5", "٣"] {
        folder.run(&["new", "orders", "-n", count]).expect(2).says("--count");
    }
    for args in [&["new"][..], &["new", "orders", "--nope"], &["new", "orders", "-o", "xml"], &["mint", "orders"], &[]]
    {
        let ran = folder.run(args).expect(2);
        assert_eq!(ran.out, "");
    }
    assert!(!folder.path("mintage.db").exists(), "nothing was opened for any of them");
}

#[test]
fn an_unknown_entity_lists_those_there_are() {
    let folder = Folder::shipped();
    for args in [&["new", "order"][..], &["at", "order", "2026-11-30T09:15:02Z"], &["explain", "order"]] {
        let ran = folder.run(args).expect(2);
        assert!(ran.err.contains("\"order\"") && ran.out.is_empty(), "{ran:?}");
        for name in ["users", "orders", "events", "documents", "uploads"] {
            assert!(ran.err.contains(name), "{ran:?}");
        }
    }
    assert!(!folder.path("mintage.db").exists());
}

#[test]
fn what_leaves_the_house_is_never_the_raw_id() {
    let folder = Folder::shipped();
    let first = folder.run(&["new", "orders", "--public"]).expect(0).says("made ./mintage.keys");
    assert!(first.lines()[0].len() == 12 && first.lines()[0].bytes().all(|digit| digit.is_ascii_digit()), "{first:?}");
    for (entity, prefix) in
        [("users", "usr_"), ("events", "events_"), ("documents", "documents_"), ("uploads", "uploads_")]
    {
        let ran = folder.run(&["new", entity, "--public"]).expect(0);
        assert!(ran.lines()[0].starts_with(prefix) && ran.err.is_empty(), "{ran:?}");
        let read = folder.run(&["inspect", ran.lines()[0], "-o", "json"]).expect(0).json();
        assert_eq!(read[0]["entity"], entity, "{read}");
    }
    let read = folder.run(&["inspect", first.lines()[0], "-o", "json"]).expect(0).json();
    assert_eq!((&read[0]["entity"], &read[0]["spellings"]["decimal"]), (&json!("orders"), &json!("1")), "{read}");
    // Without a form there is nothing to show, and the raw id does not stand in.
    let bare = SHIPPED.replace("[keys.main]\nfile = \"mintage.keys\"", "");
    let bare: String =
        bare.lines().filter(|line| !line.starts_with("public =")).map(|line| format!("{line}\n")).collect();
    let bare = Folder::with(&bare);
    assert_eq!(bare.run(&["new", "orders", "--public"]).expect(2).says("no public form").out, "");
    // The keys are the guard: a lost file is not made anew.
    std::fs::remove_file(folder.path("mintage.keys")).unwrap();
    assert_eq!(folder.run(&["new", "orders"]).expect(2).says("the keys are gone").out, "");
}

#[test]
fn the_config_is_named_by_option_or_variable_and_data_lies_beside_it() {
    let folder = Folder::empty();
    folder.write("deploy/mintage.toml", SHIPPED);
    folder.write("staging/ids.toml", SHIPPED);
    let deploy = "deploy/mintage.toml";
    assert_eq!(folder.run(&["--config", deploy, "new", "orders"]).expect(0).numbers(), [1]);
    assert_eq!(folder.run(&["new", "orders", "-c", deploy]).expect(0).numbers(), [2], "after the command as well");
    let staging = [("MINTAGE_CONFIG", "staging/ids.toml")];
    assert_eq!(folder.run_with(&staging, &["new", "orders"]).expect(0).numbers(), [1]);
    assert_eq!(folder.run_with(&staging, &["-c", deploy, "new", "orders"]).expect(0).numbers(), [3], "the option wins");
    assert!(folder.path("deploy/mintage.db").is_file() && folder.path("staging/mintage.db").is_file());
    assert!(!folder.path("mintage.db").exists(), "not in the folder the program runs in");
    for missing in [&["-c", "nowhere.toml", "new", "orders"][..], &["-c", "deploy", "check"]] {
        folder.run(missing).expect(2).says(missing[1]);
    }
}

#[test]
fn the_store_is_named_by_a_variable_else_by_its_default() {
    let folder = Folder::shipped();
    let named = [("MINTAGE_STORE", "sqlite:other.db")];
    assert_eq!(folder.run_with(&named, &["new", "orders", "-n", "3"]).expect(0).numbers(), [1, 2, 3]);
    assert!(folder.path("other.db").is_file() && !folder.path("mintage.db").exists());
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [1], "another store");
    assert_eq!(
        folder.run_with(&[("MINTAGE_STORE", "")], &["new", "orders"]).expect(0).numbers(),
        [2],
        "empty is unset"
    );
    let files = [("MINTAGE_STORE", "file:ids")];
    assert_eq!(folder.run_with(&files, &["new", "orders", "-n", "2"]).expect(0).numbers(), [1, 2]);
    assert_eq!(folder.run_with(&files, &["new", "orders"]).expect(0).numbers(), [3]);
    assert_eq!(folder.run_with(&files, &["new", "events", "-n", "2"]).expect(0).lines().len(), 2);
    assert!(folder.path("ids").is_dir());
    for wrong in ["nosuch:/x", "sqlite:", "postgres://user:secret@host"] {
        let ran = folder.run_with(&[("MINTAGE_STORE", wrong)], &["new", "orders"]).expect(2).says("stores.main.url");
        assert!(!ran.err.contains("secret"), "{ran:?}");
    }
}

#[test]
fn at_gives_the_bounds_of_an_instant() {
    let folder = Folder::shipped();
    let at = |args: &[&str]| folder.run(&[&["at"], args].concat());
    // 28 804 502 417 ms after the epoch, times 2^22, and 2^22 - 1 above.
    let instant = at(&["events", "2026-11-30T09:15:02.417Z"]).expect(0).says("BETWEEN 120814839705632768 AND");
    assert_eq!(instant.numbers(), [120_814_839_705_632_768, 120_814_839_709_827_071]);
    let elsewhere = at(&["events", "2026-11-30T10:15:02.4179+01:00"]).expect(0);
    assert_eq!(elsewhere.out, instant.out, "another zone, cut to the millisecond");
    let json = at(&["events", "2026-11-30T09:15:02.417Z", "-o", "json"]).expect(0).json();
    assert_eq!(json, json!({"entity": "events", "first": "120814839705632768", "last": "120814839709827071"}));
    let csv = at(&["documents", "2023-09-15T05:10:56.281Z", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines(), ["first,last", "01HABKZM0S0000000000000000,01HABKZM0SZZZZZZZZZZZZZZZZ"], "B51");
    let span = at(&["events", "2026-11-30T09:15:02.417Z", "--to", "2026-11-30T09:15:02.418Z"]).expect(0);
    assert_eq!(span.numbers(), [120_814_839_705_632_768, 120_814_839_714_021_375]);
    // What is minted lies between the bounds of its own time.
    let id = folder.run(&["new", "events"]).expect(0).numbers()[0];
    let told = folder.run(&["inspect", &id.to_string(), "-o", "json"]).expect(0).json();
    let bounds = at(&["events", told[0]["created_at"].as_str().unwrap()]).expect(0).numbers();
    assert!((bounds[0]..=bounds[1]).contains(&id), "{bounds:?} {id}");
}

#[test]
fn at_refuses_times_that_no_id_carries() {
    let folder = Folder::with(&format!("{SHIPPED}\n[entities.tokens]\nscheme = \"uuidv4\"\n"));
    let at = |args: &[&str]| folder.run(&[&["at"], args].concat());
    at(&["events", "2025-12-31T23:59:59.999Z"]).expect(1).says("before the epoch");
    at(&["events", "2095-09-07T15:47:35.552Z"]).expect(1).says("2095-09-07T15:47:35.551Z");
    at(&["uploads", "2014-05-13T16:53:19Z"]).expect(1);
    at(&["orders", "2026-11-30T09:15:02Z"]).expect(2).says("carry no time");
    at(&["tokens", "2026-11-30T09:15:02Z"]).expect(2).says("carry no time");
    at(&["events", "2026-11-30T09:15:03Z", "--to", "2026-11-30T09:15:02Z"]).expect(2).says("swap");
    for wrong in ["yesterday", "2026-11-30", "2026-11-30T09:15:02", "1796030102417", "", "-1", "2026-02-30T00:00:00Z"] {
        at(&["events", "--", wrong]).expect(2).says("is not a time");
    }
}
