//! Real faults of other libraries, tried at the program's door. The numbers are those of docs/cases.md.

use serde_json::{Value, json};

use crate::folder::{Folder, SHIPPED};

/// What `inspect` says of each text.
fn told(folder: &Folder, texts: &[&str], code: i32) -> Vec<Value> {
    let told = folder.run(&[&["inspect", "-o", "json", "--"], texts].concat()).expect(code).json();
    let told = told.as_array().unwrap().clone();
    assert_eq!(told.len(), texts.len());
    told
}

/// None of them is an id, and each is told so with a reason.
#[track_caller]
fn all_refused(folder: &Folder, texts: &[&str]) {
    for (told, text) in told(folder, texts, 1).iter().zip(texts) {
        assert_eq!(told["candidates"], json!([]), "{text:?}");
        assert!(told["created_at"].is_null() && !told["refusals"].as_object().unwrap().is_empty(), "{text:?}: {told}");
    }
    // Each alone fails as well.
    for text in texts.iter().take(3) {
        folder.run(&["inspect", "--", text]).expect(1).says("is no id of any scheme known here");
    }
}

/// Each is an id: scheme and time of its best reading. A dash stands for none.
#[track_caller]
fn all_read(folder: &Folder, cases: &[(&str, &str, &str)]) {
    let texts: Vec<&str> = cases.iter().map(|(text, ..)| *text).collect();
    for (told, (text, scheme, made)) in told(folder, &texts, 0).iter().zip(cases) {
        assert_eq!(told["scheme"], *scheme, "{text}: {told}");
        let time = if *made == "-" { Value::Null } else { json!(made) };
        assert_eq!(told["created_at"], time, "{text}: {told}");
    }
}

fn reading<'t>(told: &'t Value, scheme: &str) -> &'t Value {
    let found = told["candidates"].as_array().unwrap().iter().find(|one| one["scheme"] == scheme);
    found.unwrap_or_else(|| panic!("{scheme} is missing: {told}"))
}

fn of(symbol: &str, count: usize) -> String {
    symbol.repeat(count)
}

// B01, B02, B04, B06, B07, B09
#[test]
fn reading_ulids() {
    let folder = Folder::shipped();
    let (zero, top) = (of("0", 26), format!("7{}", of("Z", 25)));
    let wrong = [
        format!("8{}", of("Z", 25)),
        format!("8{}", of("0", 25)),
        format!("G{}", of("0", 25)),
        format!("R{}", of("0", 25)),
        format!("0{}", of("L", 25)),
        format!("0{}", of("U", 25)),
        of("I", 26),
        of("o", 26),
        of("Z", 26),
        format!("9{}", of("A", 25)),
        "80000000000000000000000000".to_owned(),
        of("0", 25),
        of("0", 27),
    ];
    // 27 zeros are a KSUID.
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).filter(|text| text.len() != 27).collect();
    all_refused(&folder, &wrong);
    let low = format!("0{}", of("Z", 25));
    let right = [low.as_str(), &zero, &top, "01gzg7pcspvhf0s44w7g5re071", "01GZG7PCSPVHF0S44W7G5RE071"];
    let told = told(&folder, &right, 0);
    assert!(told.iter().all(|told| told["scheme"] == "ulid"), "{told:?}");
    assert_eq!(told[0]["spellings"]["uuid"], "1fffffff-ffff-ffff-ffff-ffffffffffff", "B01");
    assert_eq!(told[1]["spellings"]["uuid"], "00000000-0000-0000-0000-000000000000", "B02");
    assert_eq!(told[2]["spellings"]["uuid"], "ffffffff-ffff-ffff-ffff-ffffffffffff", "B07");
    assert_eq!(told[3]["created_at"], "2023-05-03T07:19:43.158Z", "B06");
    assert_eq!(told[3]["spellings"], told[4]["spellings"], "B06: one value, written in capitals");
}

// B12, B13, B14, B16, B18, B19, B21, B23
#[test]
fn reading_uuids() {
    let folder = Folder::shipped();
    all_refused(
        &folder,
        &[
            "",
            "{",
            "}",
            "{}",
            "urn:uuid:",
            "urn:uuid:{}",
            "urn:",
            "231231212212423424324323477343246663",
            "F9168C5E-CEB2F4faaFB6BFF329BF39FA1E4",
            "123_4567812345678123456781234567",
            "524e802_061a-4778-b2f9-f5d3d7afd581",
            "2eb8aa08-aa98-11ea-b4aa-73b441d1_380",
            "53-8aeb5878a9-4d9b-b0dfc-ec2f0e7f8f8",
            "D1AF6FA2-BECF-4E-54AF6B-ABB8EE298A8A",
            "1-1-1-1-1",
            "00112233-4455-6677-8899-aabbccddee",
            "067e6162-3b6f-4ae2-a171-2470b63dff000",
            "00006ffa-fffd604-73b3-0-6ffad60473b3",
            "urn:uuid:550e8400-e29b-41d4-a716-446655440000abc",
            "{550e8400-e29b-41d4-a716-44665544}",
        ],
    );
    folder.run(&["inspect", "067e6162-3b6f-4ae2-a171-2470b63dff000"]).expect(1).says("13 characters, 12 expected");
    all_read(
        &folder,
        &[
            ("00000000-0000-0000-0000-000000000000", "nil UUID", "-"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "max UUID", "-"),
            ("01890a5d-ac96-774b-bcce-b302099a8057", "uuidv7", "2023-06-30T03:34:18.518Z"),
            // Other spellings of a UUID are read here, where a person pastes them.
            ("urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057", "uuidv7", "2023-06-30T03:34:18.518Z"),
            ("{01890A5D-AC96-774B-BCCE-B302099A8057}", "uuidv7", "2023-06-30T03:34:18.518Z"),
            ("01890a5dac96774bbcceb302099a8057", "uuidv7", "2023-06-30T03:34:18.518Z"),
        ],
    );
    let near_miss = &told(&folder, &["ffffffff-ffff-ffff-ffff-fffffffffffe"], 0)[0];
    assert_ne!(near_miss["scheme"], "max UUID");
}

// B53, B54, B58, B59
#[test]
fn reading_ksuids() {
    let folder = Folder::shipped();
    let wrong = [
        format!("0{}", of("?", 26)),
        of("@", 27),
        "aWgEPTl1tmebfsQzFP4bxwgy80W".to_owned(),
        format!("b{}", of("0", 26)),
        of("z", 27),
        of("a", 27),
    ];
    all_refused(&folder, &wrong.each_ref().map(String::as_str));
    let (first, second) = (of("0", 27), format!("{}1", of("0", 26)));
    all_read(
        &folder,
        &[
            ("aWgEPTl1tmebfsQzFP4bxwgy80V", "ksuid", "2150-06-19T23:21:35Z"),
            ("K1xUWoOsD63xYW4SBXfU1x6p9Xs", "ksuid", "2089-01-01T00:00:00Z"),
            (&first, "ksuid", "2014-05-13T16:53:20Z"),
            (&second, "ksuid", "2014-05-13T16:53:20Z"),
        ],
    );
    let told = told(&folder, &[&second, "0ujtsYcgvSTl8PAuAdqWYSMnLOv"], 0);
    assert_eq!(told[0]["spellings"]["ksuid"], second, "B59: 27 characters, however small");
    assert_eq!(told[1]["spellings"]["hex"], "0669f7efb5a1cd34b5f99d1154fb6853345c9735", "B61");
}

// B24, B25, B27, B33, B50, B61
#[test]
fn times_of_wide_ids() {
    let folder = Folder::shipped();
    all_read(
        &folder,
        &[
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuidv7", "2022-02-22T19:22:22.000Z"),
            ("018e3f04-0218-7f62-8f86-6a3cfe5a42fb", "uuidv7", "2024-03-14T22:10:11.096Z"),
            ("017F21CF-D130-7CC3-98C4-DC0C0C07398F", "uuidv7", "2022-02-22T14:22:22.000Z"),
            ("550e8400-e29b-41d4-a716-446655440000", "uuidv4", "-"),
            ("0001EH8YAEP8CXP4AMWCHHDBHJ", "ulid", "1970-01-19T01:47:02.862Z"),
            ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", "ksuid", "2017-10-10T04:00:47Z"),
            ("0ujzPyRiIAffKhBux4PvQdDqMHY", "ksuid", "2017-10-10T04:46:20Z"),
        ],
    );
    let rand_a = &told(&folder, &["017f22e2-79b0-7cc3-98c4-dc0c0c07398f"], 0)[0]["layout"];
    let rand_a = rand_a.as_array().unwrap().iter().find(|field| field["name"] == "rand_a").unwrap();
    assert_eq!(rand_a["value"], 0xcc3.to_string(), "B24");
    let seconds = folder.run(&["inspect", "0001EH8YAEP8CXP4AMWCHHDBHJ"]).expect(0);
    assert!(seconds.out.contains("looks like seconds (2019-06-27T08:07:42Z)"), "B50: {seconds:?}");
    let far = &told(&folder, &["7ZZZZZZZZZ0000000000000000"], 0)[0];
    assert_eq!(
        (&far["created_at"], &far["created_at_ms"]),
        (&json!("year 10889"), &json!(281_474_976_710_655_u64)),
        "B33"
    );
}

// B131, B135, B136, B138, B140, B141
#[test]
fn times_of_numbers() {
    let folder = Folder::shipped();
    for (text, layout, made, worker, sequence) in [
        ("1593572310593806338", "twitter", "2022-11-18T11:50:20.644Z", 378, None),
        ("1821504102737842437", "twitter", "2024-08-08T11:09:54.659Z", -1, None),
        ("1462917477411741696", "twitter", "2021-11-22T22:54:40.964Z", -1, None),
        ("1567881733600600065", "twitter", "2022-09-08T14:25:09.781Z", -1, None),
        ("2384288897814875714", "instagram", "2020-08-26T13:43:27.313Z", 2675, Some("578")),
        ("2383568809444681765", "instagram", "2020-08-25T13:52:46.090Z", 2474, Some("37")),
        ("175928847299117063", "discord", "2016-04-30T11:18:25.796Z", 32, Some("7")),
        ("175928847299117063", "twitter", "2012-03-03T13:01:20.453Z", -1, None),
        ("254360814063058944", "discord", "2016-12-02T21:39:03.868Z", -1, None),
        ("737141877803057244", "discord", "2020-07-27T02:58:39.102Z", -1, None),
        ("1056191128120082432", "discord", "2022-12-24T12:46:28.026Z", -1, None),
    ] {
        let told = &told(&folder, &[text], 0)[0];
        let reading = reading(told, layout);
        assert_eq!(reading["created_at"], made, "{text} as {layout}: {reading}");
        assert!(worker < 0 || reading["worker_id"] == worker, "{text}: {reading}");
        assert!(sequence.is_none_or(|sequence| reading["sequence"] == sequence), "{text}: {reading}");
        assert!(told["candidates"].as_array().unwrap().len() > 3, "B138: no single silent guess for {text}");
    }
    // B131: however few digits.
    let young = told(&folder, &["21154535154122752", "4101121", "1", "0"], 0);
    assert!(young.iter().all(|told| told["candidates"].as_array().unwrap().len() > 3));
    // B136: from before snowflakes; a naive reading says November 2010.
    let before = &told(&folder, &["13179370605"], 0)[0];
    assert!(before["created_at"].is_null(), "{before}");
    assert!(reading(before, "twitter")["reasons"].to_string().contains("unlikely"), "{before}");
    // B141: an epoch of 0, told in UTC.
    let own = SHIPPED.replace("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
    let told = &told(&Folder::with(&own), &["7102577116159582209"], 0)[0];
    assert_eq!((&told["entity"], &told["created_at"]), (&json!("events"), &json!("2023-08-30T09:05:43.994Z")));
    assert_eq!((&told["worker_id"], &told["sequence"]), (&json!(42), &json!("1")));
}

// B143: alphabet and range decide, not the length.
#[test]
fn the_right_length_is_not_enough() {
    let folder = Folder::shipped();
    all_refused(
        &folder,
        &["JGL-24423/TL", "5fd0f17e8e840df1c9687f37", "123456789012345678901234567890123456", "wJalrXUtnFEMI"],
    );
    let told = told(&folder, &[&of("1", 26), &of("A", 27), "123456789012"], 0);
    assert_eq!((&told[0]["scheme"], &told[1]["scheme"]), (&json!("ulid"), &json!("ksuid")));
    assert!(told[2]["created_at"].is_null(), "a number is a number: {}", told[2]);
}

// B59, B99, B101, B103, B104, B119
#[test]
fn other_encodings() {
    let folder = Folder::shipped();
    // Base 58 is not offered, and 22 characters of base 62 neither: read as something else they would be another id.
    let wrong = [
        "npL6MjP8Qfc".to_owned(),
        "npL6MjP8Qfd".to_owned(),
        "JPwcyDCgEuq".to_owned(),
        "00GHs6XflJ51yCvZ4TwH4g".to_owned(),
        "GHs6XflJ51yCvZ4TwH4g".to_owned(),
        "7n42DGM5Tflk9n8mt7Fhc7".to_owned(),
        "xBuEXKpA6iqZQK5Kf2TnkV".to_owned(),
        of("Z", 22),
        of("z", 22),
        "abcd\u{20bf}".to_owned(),
        of("\u{e9}", 13),
        of("\u{1f600}", 26),
        "\u{feff}5".to_owned(),
        "0x15".to_owned(),
    ];
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
    all_refused(&folder, &wrong);
    // An entity written in base 62 takes 11 characters up to 2^63 - 1 and nothing above it.
    let base62 = Folder::with(&SHIPPED.replace("start  = 1", "start  = 1\ntext = \"base62\""));
    assert_eq!(base62.run(&["new", "orders", "-n", "2"]).expect(0).lines(), ["00000000001", "00000000002"]);
    let told_of = told(&base62, &["00000000001", "AzL8n0Y58m7"], 0);
    assert!(told_of.iter().all(|told| told["entity"] == "orders"), "{told_of:?}");
    assert_eq!(told_of[1]["sequence"], i64::MAX.to_string());
    all_refused(&base62, &["AzL8n0Y58m8", "npL6MjP8Qfc", "npL6MjP8Qfd", "JPwcyDCgEuq", "zzzzzzzzzzz", "0000000001"]);
    let told = told(&folder, &["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01563e3a-b5d3-d676-4c61-efb99302bd5b"], 0);
    assert_eq!(told[0]["spellings"]["uuid"], "01563e3a-b5d3-d676-4c61-efb99302bd5b", "B119");
    assert_eq!(told[1]["spellings"]["ulid"], "01ARZ3NDEKTSV4RRFFQ69G5FAV", "B119: and back");
}

// B123, B124: strings, so that no reader rounds.
#[test]
fn neighbours_stay_apart_in_json() {
    let folder = Folder::shipped();
    let ids =
        ["1253261109769874438", "675127116845989888", "800356270543470622", "68267599263309459", "68267599263309460"];
    let ran = folder.run(&[&["inspect", "-o", "json"][..], &ids].concat()).expect(0);
    for (told, id) in ran.json().as_array().unwrap().iter().zip(ids) {
        assert_eq!(told["id"], id);
        assert_eq!(told["candidates"][0]["spellings"]["decimal"], id);
    }
    // No number beyond 2^53 stands bare anywhere.
    let bare = ran.out.split(|c: char| !c.is_ascii_digit() && c != '"').filter(|word| !word.contains('"'));
    assert!(bare.filter_map(|word| word.parse::<u64>().ok()).all(|number| number < 1 << 53));
}

// B128, B129: one text for each number.
#[test]
fn one_number_has_one_text() {
    let folder = Folder::shipped();
    all_refused(
        &folder,
        &[
            "8.0043729399971E+18",
            "5.8765388949255E+17",
            "+1541815603606036480",
            "%2B1541815603606036480",
            "01541815603606036480",
            "1_541",
            "1,541",
            "1 541",
            "\u{ff11}",
            "\u{661}",
            "-0",
            "-5",
            "0x15",
            "1e5",
            "1.0",
            "00",
            "NaN",
            "18446744073709551616",
            "99999999999999999999999999999999999999999",
        ],
    );
    let told = told(&folder, &["0", "1541815603606036480", "9223372036854775807"], 0);
    assert!(told.iter().all(|told| told["scheme"].is_string()));
}

// B133: ids of different kinds beside each other.
#[test]
fn ids_of_different_schemes_side_by_side() {
    let folder = Folder::shipped();
    let told = told(&folder, &["01GZG7PCSPVHF0S44W7G5RE071", "109302436954721982"], 0);
    assert_eq!(told[0]["created_at"], "2023-05-03T07:19:43.158Z");
    assert!(told[1]["candidates"].as_array().unwrap().len() > 3);
}
