//! `mintage inspect`: public ids with known times, the keys of its JSON, and what it never invents.

use serde_json::{Value, json};

use crate::folder::{Folder, SHIPPED};

/// Ids anybody can look up, and when they were made.
const KNOWN: [(&str, &str, &str); 4] = [
    ("175928847299117063", "discord", "2016-04-30T11:18:25.796Z"),
    ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid", "2016-07-30T23:54:10.259Z"),
    ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", "ksuid", "2017-10-10T04:00:47Z"),
    ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuidv7", "2022-02-22T19:22:22.000Z"),
];

const KEYS: [&str; 9] =
    ["created_at", "created_at_ms", "machine_id", "worker_id", "region", "sequence", "entity", "scheme", "layout"];

#[test]
fn known_ids_tell_their_known_times() {
    let folder = Folder::shipped();
    let ids = KNOWN.map(|(id, ..)| id);
    let text = folder.run(&[&["inspect"][..], &ids].concat()).expect(0);
    for (block, (id, scheme, made)) in text.out.split("\n\n").filter(|block| block.contains("\n  is ")).zip(KNOWN) {
        assert!(block.trim_start().starts_with(id), "{block}");
        assert!(block.contains(scheme) && block.contains(made), "{block}");
    }
    assert_eq!(text.out.matches("\n  is ").count(), 4, "{text:?}");
    let json = folder.run(&[&["inspect", "-o", "json"][..], &ids].concat()).expect(0).json();
    for (told, (id, scheme, made)) in json.as_array().unwrap().iter().zip(KNOWN) {
        assert_eq!((&told["id"], &told["scheme"], &told["created_at"]), (&json!(id), &json!(scheme), &json!(made)));
    }
    let csv = folder.run(&[&["inspect", "-o", "csv"][..], &ids].concat()).expect(0);
    assert_eq!(
        csv.lines(),
        [
            "id,scheme,entity,created_at,worker_id,sequence",
            "175928847299117063,discord,,2016-04-30T11:18:25.796Z,32,7",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV,ulid,documents,2016-07-30T23:54:10.259Z,,",
            "0ujtsYcgvSTl8PAuAdqWYSMnLOv,ksuid,uploads,2017-10-10T04:00:47Z,,",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f,uuidv7,users,2022-02-22T19:22:22.000Z,,",
        ]
    );
    assert!(!folder.path("mintage.db").exists(), "reading makes no store");
    folder.run_with(&[("MINTAGE_STORE", "file:ids")], &["inspect", "5"]).expect(0);
    assert!(!folder.path("ids").exists());
}

#[test]
fn the_other_readings_are_listed_with_reasons() {
    let folder = Folder::shipped();
    let told = folder.run(&["inspect", "175928847299117063"]).expect(0);
    assert!(told.out.contains("other readings") && told.out.contains("why: "), "{told:?}");
    for reading in ["twitter", "2012-03-03T13:01:20.453Z", "instagram", "sonyflake", "mastodon", "events (snowflake)"] {
        assert!(told.out.contains(reading), "{reading}: {told:?}");
    }
}

#[test]
fn the_bits_are_drawn_to_scale() {
    let folder = Folder::shipped();
    let told = folder.run(&["inspect", "175928847299117063"]).expect(0);
    let drawn = format!("{}{}{}{}", "t".repeat(42), "g".repeat(5), "w".repeat(5), "s".repeat(12));
    assert!(told.out.contains(&format!("  {drawn}\n")), "{told:?}");
    assert!(told.out.contains("t time 42, g region 5, w worker 5, s sequence 12 (one symbol a bit)"), "{told:?}");
}

#[test]
fn json_has_the_keys_of_every_surface() {
    let folder = Folder::shipped();
    let mine = folder.run(&["new", "events"]).expect(0).out;
    for id in KNOWN.iter().map(|(id, ..)| *id).chain(["5", "550e8400-e29b-41d4-a716-446655440000", mine.trim()]) {
        let told = folder.run(&["inspect", "-o", "json", id]).expect(0).json();
        let [told] = &told.as_array().unwrap()[..] else { panic!("{told}") };
        for key in KEYS.iter().chain(&["id", "candidates"]) {
            assert!(told.get(*key).is_some(), "{key} is missing for {id}: {told}");
        }
        let candidates = told["candidates"].as_array().unwrap();
        assert!(!candidates.is_empty());
        for candidate in candidates {
            assert!(KEYS.iter().all(|key| candidate.get(*key).is_some()), "{candidate}");
            assert!(candidate["sequence"].is_string() || candidate["sequence"].is_null(), "{candidate}");
            assert!(!candidate["reasons"].as_array().unwrap().is_empty(), "{candidate}");
            let bits: u64 =
                candidate["layout"].as_array().unwrap().iter().map(|field| field["bits"].as_u64().unwrap()).sum();
            assert!([64, 128, 160].contains(&bits), "{candidate}");
        }
        assert_eq!(told["id"], id, "as it was given, a string");
        for key in KEYS {
            assert_eq!(told[key], candidates[0][key], "the best reading stands at the top");
        }
    }
}

#[test]
fn our_own_ids_name_their_holder() {
    let folder = Folder::with(&SHIPPED.replace("region = \"eu\" ", "instance = \"billing-3\"\nregion = \"eu\" "));
    let id = folder.run(&["new", "events"]).expect(0).out;
    let told = folder.run(&["inspect", id.trim(), "-o", "json"]).expect(0).json();
    assert_eq!(
        (&told[0]["entity"], &told[0]["minted_by"][0]["owner"]),
        (&json!("events"), &json!("billing-3")),
        "{told}"
    );
    let renamed = folder.run_with(&[("MINTAGE_INSTANCE", "web-1")], &["new", "events"]).expect(0).out;
    let told = folder.run(&["inspect", renamed.trim()]).expect(0);
    assert!(told.out.contains("web-1 as worker"), "{told:?}");
    // A store that was put back to before knows nothing of it, and says so.
    std::fs::remove_file(folder.path("mintage.db")).unwrap();
    folder.run(&["new", "orders"]).expect(0);
    let told = folder.run(&["inspect", renamed.trim()]).expect(0);
    assert!(told.out.contains("stores.main has no lease of worker 0 for then on record"), "{told:?}");
}

#[test]
fn an_order_number_is_known_once_it_was_handed_out() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders", "-n", "40"]).expect(0);
    let told = folder.run(&["inspect", "40", "41", "-o", "json"]).expect(0).json();
    assert_eq!(told[0]["entity"], "orders");
    let reasons = |told: &Value| {
        let orders =
            told["candidates"].as_array().unwrap().iter().find(|one| one["entity"] == "orders").unwrap().clone();
        orders["reasons"].to_string()
    };
    assert!(reasons(&told[0]).contains("has come as far as 40"), "{told}");
    assert!(reasons(&told[1]).contains("not handed out yet: the sequence stands at 41"), "{told}");
}

#[test]
fn an_order_number_names_its_process() {
    for store in ["sqlite:ids.db", "file:ids"] {
        let folder = Folder::shipped();
        let run = |instance: &str, args: &[&str]| {
            folder.run_with(&[("MINTAGE_STORE", store), ("MINTAGE_INSTANCE", instance)], args).expect(0)
        };
        run("billing-3", &["new", "orders", "-n", "40"]);
        run("web-1", &["new", "orders", "-n", "2"]);
        let told = run("desk", &["inspect", "40", "42", "-o", "json"]).json();
        let by = |nth: usize| told[nth]["minted_by"][0].clone();
        assert_eq!((&by(0)["owner"], &by(0)["store"]), (&json!("billing-3"), &json!("main")), "{told}");
        assert_eq!((&by(0)["first"], &by(0)["last"]), (&json!("1"), &json!("40")), "{told}");
        assert_eq!((&by(1)["owner"], &by(1)["first"]), (&json!("web-1"), &json!("41")), "{told}");
        let text = run("desk", &["inspect", "12"]);
        assert!(text.out.contains("by         billing-3, which got 1 to 40 from stores.main\n"), "{text:?}");
        assert!(text.out.contains("stores.main gave 1 to 40 to billing-3 on 20"), "{text:?}");
    }
}

#[test]
fn versions_one_and_six_tell_their_time_and_four_tells_none() {
    let folder = Folder::shipped();
    let ids = [
        "C232AB00-9414-11EC-B3C8-9F6BDECED846",
        "1EC9414C-232A-6B00-B3C8-9F6BDECED846",
        "919108f7-52d1-4320-9bac-f847db4148a8",
    ];
    let told = folder.run(&[&["inspect", "-o", "json"][..], &ids].concat()).expect(0).json();
    // The test vectors of RFC 9562, appendix A.
    assert_eq!((&told[0]["scheme"], &told[0]["created_at"]), (&json!("uuidv1"), &json!("2022-02-22T19:22:22.000Z")));
    assert_eq!((&told[1]["scheme"], &told[1]["created_at"]), (&json!("uuidv6"), &json!("2022-02-22T19:22:22.000Z")));
    let four = &told[2]["candidates"];
    assert_eq!(told[2]["scheme"], "uuidv4");
    assert!(
        four.as_array().unwrap().iter().all(|one| one["created_at"].is_null() && one["created_at_ms"].is_null()),
        "{four}"
    );
    let text = folder.run(&["inspect", ids[2]]).expect(0);
    assert!(text.out.contains("it does not say"), "{text:?}");
}

#[test]
fn stdin_is_read_by_the_line() {
    let folder = Folder::shipped();
    let lines: String = KNOWN.iter().map(|(id, ..)| format!("  {id}\r\n\n")).collect();
    let csv = folder.feed(lines.as_bytes(), &["inspect", "-", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines().len(), 5);
    let json = folder.feed(b"5", &["inspect", "1", "-", "2", "-o", "json"]).expect(0).json();
    let ids: Vec<&Value> = json.as_array().unwrap().iter().map(|told| &told["id"]).collect();
    assert_eq!(ids, ["1", "5", "2"], "in the order given, a last line without an end too");
    assert_eq!(folder.run(&["inspect", "-", "-o", "json"]).expect(0).json(), json!([]), "nothing there");
    let minted = folder.run(&["new", "events", "-n", "20"]).expect(0).out;
    let told = folder.feed(minted.as_bytes(), &["inspect", "-o", "json", "-"]).expect(0).json();
    assert!(told.as_array().unwrap().iter().all(|told| told["entity"] == "events"), "{told}");
}

#[test]
fn one_wrong_text_fails_the_run_and_the_others_are_told() {
    let folder = Folder::shipped();
    for (form, lines) in [("text", 4), ("json", 4), ("csv", 3)] {
        let ran = folder.run(&["inspect", "-o", form, "5", "rubbish!"]).expect(1);
        assert!(ran.lines().len() >= lines && ran.out.contains("rubbish!"), "{ran:?}");
        assert!(ran.err.contains("\"rubbish!\" is no id of any scheme known here"), "{ran:?}");
    }
    let json = folder.run(&["inspect", "-o", "json", "5", "rubbish!"]).expect(1).json();
    assert_eq!(json[1]["candidates"], json!([]));
    assert!(json[1]["refusals"].is_object(), "{json}");
    let many: String = (0..500).map(|nth| format!("wrong {nth}\n")).collect();
    let ran = folder.feed(many.as_bytes(), &["inspect", "-", "-o", "csv"]).expect(1).says("400 more texts");
    assert_eq!(ran.lines().len(), 501);
}

#[test]
fn a_mistyped_public_number_is_said_to_be_one() {
    let folder = Folder::shipped();
    let public = folder.run(&["new", "orders", "--public"]).expect(0).out.trim().to_owned();
    let right = folder.run(&["inspect", &public]).expect(0);
    assert!(!right.out.contains("mistyped") && right.out.contains("a public number of orders"), "{right:?}");
    for at in 0..public.len() {
        let mut wrong = public.clone().into_bytes();
        wrong[at] = b'0' + (wrong[at] - b'0' + 1) % 10;
        let wrong = String::from_utf8(wrong).unwrap();
        // One that begins with 0 is no number, so that it is nothing else either.
        let told = folder.run(&["inspect", &wrong]).expect(i32::from(wrong.starts_with('0')));
        assert!(told.out.contains("looks like a public number of orders"), "{told:?}");
    }
    let mut wrong = public.into_bytes();
    wrong[5] = b'0' + (wrong[5] - b'0' + 1) % 10;
    let wrong = String::from_utf8(wrong).unwrap();
    let json = folder.run(&["inspect", &wrong, "-o", "json"]).expect(0).json();
    assert_eq!(json[0]["mistyped"][0], "orders", "{json}");
    // As people write it, it is nothing else.
    let spaced = format!("{} {}", &wrong[..4], &wrong[4..]);
    folder.run(&["inspect", &spaced]).expect(1).says("looks like a public number of orders");
}

#[test]
fn the_numbers_of_a_series_are_read() {
    let series = "[series.invoices]\nformat = \"RE{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"\n";
    let folder = Folder::with(&SHIPPED.replace("[workers.main]", &format!("{series}\n[workers.main]")));
    let first = folder.run(&["new", "invoices"]).expect(0).out.trim().to_owned();
    let told = folder.run(&["inspect", &first]).expect(0);
    assert!(
        told.out.contains("is  number 1 of series invoices, period ") && told.out.contains("handed out"),
        "{told:?}"
    );
    let json = folder.run(&["inspect", &first, "-o", "json"]).expect(0).json();
    assert_eq!((&json[0]["scheme"], &json[0]["entity"]), (&"series".into(), &"invoices".into()), "{json}");
    assert_eq!((&json[0]["series"][0]["number"], &json[0]["series"][0]["next"]), (&"1".into(), &"2".into()), "{json}");
    let csv = folder.run(&["inspect", &first, "-o", "csv"]).expect(0);
    assert!(csv.lines()[1].starts_with(&format!("{first},series,invoices,")), "{csv:?}");
    let later = format!("{}000007", first.strip_suffix("000001").unwrap());
    let told = folder.run(&["inspect", &later]).expect(0);
    assert!(told.out.contains("not handed out yet: the period stands at 2"), "{told:?}");
    let typed = first.to_lowercase().replace('-', " ");
    assert!(folder.run(&["inspect", &typed]).expect(0).out.contains("number 1 of series invoices"));
    folder.run(&["inspect", "RE20261399-000001"]).expect(1);
}
