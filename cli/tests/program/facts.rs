//! `mintage check`, `explain`, `schema` and `completions`.

use std::process::{Command, Stdio};

use mintage::{
    Config,
    core::plugin::{Setting, Value as Configured},
};
use serde_json::{Map, Number, Value, json};

use crate::folder::{Folder, SHIPPED, finish, skip};

/// Four faults and a warning, none in the order of its kind.
const WRONG: &str = "\
version = 1
[entities.orders]
scheme = \"segmnt\"
[entities.users]
scheme = \"uuidv7\"
colour = \"red, blue\"
public = { form = \"plain\" }
[entities.events]
scheme = \"snowflake\"
epoch = \"2026-01-01T00:00:00Z\"
layout = { time = 41, worker = 12, sequence = 12 }
worker = { pool = \"main\" }
[entities.visits]
scheme = \"snowflake\"
layout = \"twitter\"
worker = { pool = \"mian\" }
[workers.main]
[stores.main]
url = \"sqlite:mintage.db\"
";

#[test]
fn a_good_config_is_summed_up() {
    let folder = Folder::shipped();
    let ran = folder.run(&["check"]).expect(0);
    assert!(ran.out.contains("1024 workers × 4 096 000 ids/s, lasts until 2095-09-07"), "{ran:?}");
    for name in ["users", "orders", "events", "documents", "uploads", "stores.main"] {
        assert!(ran.lines().iter().any(|line| line.starts_with(name)), "{name}: {ran:?}");
    }
    assert!(ran.out.contains("public number: hides the sequence; existence can be probed"), "{ran:?}");
    assert_eq!(ran.err, "");
    assert!(!folder.path("mintage.db").exists(), "nothing is opened");
    let listed = folder.run(&["check", "-o", "json"]).expect(0).json();
    assert!(listed.as_array().unwrap().iter().all(|row| row["severity"] == "note"), "{listed}");
}

/// How long minting goes on without the store and how far ids may be ahead of the clock are two bounds, and each is told.
#[test]
fn both_bounds_and_the_pools_and_each_promise_are_told() {
    let text = SHIPPED
        .replace("ttl = \"10s\", renew = \"3s\", window = \"60s\"", "ttl = \"30s\", renew = \"10s\", window = \"10m\"")
        .replace("[workers.main]\n", "[workers.main]\ncount = 4\n")
        .replace("on_step = \"borrow\"", "on_step = \"refuse\"")
        .replace("max_drift = \"10ms\"", "max_drift = \"25ms\"");
    let folder = Folder::with(&text);
    let expected = [
        (
            "entities.events",
            "while its store is down a process mints on for 590s to 600s (renewed every 10s), to the end of its window of 600s",
        ),
        ("entities.events", "runs at most 25ms ahead of the wall clock (max_drift): in a full time unit"),
        (
            "workers.main",
            "worker ids 0 to 255, those of region eu, for 64 processes at once, 4 each; leased from store main",
        ),
        ("stores.main", "Ranges, leases, formats and tokens in one SQLite database; survives crashes and power loss"),
        ("entities.orders", "segment: from 1 to 9223372036854775807"),
    ];
    let told = folder.run(&["check"]).expect(0);
    let json = folder.run(&["check", "-o", "json"]).expect(0).json();
    let csv = folder.run(&["check", "-o", "csv"]).expect(0);
    for (path, words) in expected {
        let name = path.strip_prefix("entities.").unwrap_or(path);
        assert!(told.lines().iter().any(|line| line.starts_with(name) && line.contains(words)), "{words}: {told:?}");
        let noted = |row: &Value| row["path"] == path && row["message"].as_str().unwrap().contains(words);
        assert!(json.as_array().unwrap().iter().any(|row| row["severity"] == "note" && noted(row)), "{words}: {json}");
        let line = |line: &&str| line.starts_with(&format!("note,,,{path},")) && line.contains(words);
        assert!(csv.lines().iter().any(line), "{words}: {csv:?}");
    }
    let explained = folder.run(&["explain", "events"]).expect(0);
    assert!(explained.out.contains("outage ") && explained.out.contains("ahead "), "{explained:?}");

    let strict = text.replace("renew = \"10s\",", "renew = \"5s\", stop = \"8s\",");
    let told = Folder::with(&strict).run(&["check"]).expect(0);
    let bound =
        "mints on for 3s to 8s (renewed every 5s), then `stop` = 8s ends it, before the end of its window of 600s";
    assert!(told.out.contains(bound), "{told:?}");
}

/// R6: what counts needs a store that remembers. `check`, `new` and the library say the same.
#[test]
fn numbers_need_a_store_that_remembers() {
    let refused = |text: &str, place: &str, words: &str| {
        let folder = Folder::with(text);
        let told = folder.run(&["check"]).expect(1);
        assert!(told.lines().len() == 1 && told.out.starts_with(place) && told.out.contains(words), "{told:?}");
        folder.run(&["new", "orders"]).expect(2).says(told.lines()[0]);
        let builder = mintage::Registry::builder().builtins();
        let library = builder.check(&Config::parse(text, "mintage.toml").unwrap()).unwrap_err();
        assert_eq!(library.to_string().trim(), told.lines()[0]);
    };
    let orders = "version = 1\n[entities.orders]\nscheme = \"segment\"\n";
    let memory = "[stores.main]\nurl = \"memory:\"\n";
    refused(
        &format!("{orders}{memory}"),
        "mintage.toml:2:11 entities.orders: store main (memory:) forgets",
        "write durability = \"weak\" here if that is meant",
    );
    refused(
        &format!("{orders}store = \"main\"\n{memory}[stores.b]\nurl = \"file:b\"\n"),
        "mintage.toml:4:1 entities.orders.store: store main (memory:) forgets",
        "choose another store",
    );
    refused(
        &format!("{orders}durability = \"strong\"\n{memory}"),
        "mintage.toml:4:1 entities.orders.durability: ",
        "\"strong\"",
    );
    let meant = Folder::with(&format!("{orders}durability = \"weak\"\n{memory}"));
    meant.run(&["check"]).expect(0);
    assert_eq!(meant.run(&["new", "orders"]).expect(0).out, "1\n");
    let series = "version = 1\n[series.orders]\nformat = \"{n:06}\"\n";
    let told = Folder::with(&format!("{series}{memory}")).run(&["check"]).expect(1);
    assert!(told.out.contains("series.orders: store main (memory:) forgets"), "{told:?}");
    Folder::with(&format!("{series}durability = \"weak\"\n{memory}")).run(&["check"]).expect(0);
    // A lease does not need it: windows are never handed out twice by one process, and memory is one process.
    let events = SHIPPED.split_once("[entities.events]").map(|(_, rest)| rest.split("\n\n").next().unwrap()).unwrap();
    let leases = format!("version = 1\n[entities.events]{events}\n[workers.main]\n{memory}");
    Folder::with(&leases).run(&["check"]).expect(0);
}

/// A function knows one layout; an entity that had two gets none.
#[test]
fn an_entity_of_several_layouts_gets_no_function() {
    let ddl = ["store", "ddl", "--function", "events", "--shard", "3"];
    let one = "version = 1\n[entities.events]\nscheme = \"snowflake\"\nepoch = \"2026-01-01T00:00:00Z\"\n\
               layout = { time = 41, worker = 11, sequence = 11 }\nworker = { pool = \"main\" }\n\
               [workers.main]\n[stores.main]\nurl = \"sqlite:ids.db\"\n";
    assert!(Folder::with(one).run(&ddl).expect(0).out.contains("time:41 worker:11 sequence:11"));
    for until in ["2026-06-01T00:00:00Z", "2060-01-01T00:00:00Z"] {
        let before = format!(
            "layouts = [{{ until = \"{until}\", epoch = \"2026-01-01T00:00:00Z\", \
             layout = {{ time = 41, worker = 10, sequence = 12 }} }}]\nworker = {{ pool"
        );
        let refused = Folder::with(
            &one.replace("worker = { pool", &before)
                .replace("time = 41, worker = 11", "time = 40, worker = 11")
                .replace("sequence = 11", "sequence = 12"),
        );
        let told = refused.run(&ddl).expect(2).says("entities.events has more than one layout");
        assert_eq!(told.out, "");
    }
}

#[test]
fn every_fault_is_listed_by_place() {
    let folder = Folder::with(WRONG);
    let ran = folder.run(&["check"]).expect(1).says("problems to mend");
    let mut places = Vec::new();
    for line in ran.lines() {
        let (place, rest) = line.split_once(' ').unwrap();
        let (path, message) = rest.split_once(": ").unwrap();
        let [file, row, column] = place.split(':').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(file == "mintage.toml" && path.starts_with("entities.") && !message.is_empty(), "{line}");
        places.push((row.parse::<u32>().unwrap(), column.parse::<u32>().unwrap()));
    }
    assert_eq!(places.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [3, 6, 11, 16], "{ran:?}");
    assert!(places.is_sorted());
    for told in ["did you mean \"segment\"", "colour", "41+12+12 is 65 bits, 63 at most", "did you mean \"main\""] {
        assert!(ran.out.contains(told), "{told}: {ran:?}");
    }
    // The others refuse with the same list.
    for args in
        [&["new", "users"][..], &["explain", "users"], &["at", "users", "2026-11-30T09:15:02Z"], &["inspect", "5"]]
    {
        let refused = folder.run(args).expect(2);
        assert!(ran.lines().iter().all(|line| refused.err.contains(line)), "{refused:?}");
    }
}

// B72, B74, B79: none is made up, none is guessed, and none moves with the clock.
#[test]
fn an_epoch_is_a_time_that_somebody_wrote() {
    const WRITTEN: &str = "epoch  = \"2026-01-01T00:00:00Z\"\n";
    assert!(SHIPPED.contains(WRITTEN));
    for (epoch, told) in [
        ("", "missing: write the day your first id is made"),
        ("epoch = 1577203200\n", "such as \"2026-01-01T00:00:00Z\" was expected, found a whole number"),
        ("epoch = 1577203200000\n", "such as \"2026-01-01T00:00:00Z\" was expected, found a whole number"),
        ("epoch = \"now\"\n", "write it as \"2026-01-01T00:00:00Z\""),
    ] {
        let folder = Folder::with(&SHIPPED.replace(WRITTEN, epoch));
        let told_by_check = folder.run(&["check"]).expect(1);
        assert!(told_by_check.out.contains("entities.events.epoch"), "{epoch:?}: {told_by_check:?}");
        assert!(told_by_check.out.contains(told), "{epoch:?}: {told_by_check:?}");
        let refused = folder.run(&["new", "events"]).expect(2);
        assert_eq!(refused.out, "", "{epoch:?}");
    }
}

#[test]
fn faults_come_as_json_and_csv() {
    let folder = Folder::with(WRONG);
    let listed = folder.run(&["check", "-o", "json"]).expect(1).json();
    let problems = listed.as_array().unwrap();
    let first = &problems[0];
    assert_eq!((&first["path"], &first["line"]), (&json!("entities.orders.scheme"), &json!(3)));
    assert!(first["column"].is_u64() && first["severity"] == "error" && first["message"].is_string(), "{first}");
    let severities: Vec<&str> = problems.iter().map(|problem| problem["severity"].as_str().unwrap()).collect();
    assert_eq!(severities, ["error", "error", "error", "error", "warning"], "{listed}");
    let csv = folder.run(&["check", "-o", "csv"]).expect(1);
    let lines = csv.lines();
    assert_eq!(lines[0], "severity,line,column,path,message");
    assert_eq!(lines.len(), problems.len() + 1);
    assert!(lines[1].starts_with("error,3,1,entities.orders.scheme,\"no scheme \"\"segmnt\"\""), "{csv:?}");
}

#[test]
fn what_is_not_toml_is_a_fault_with_a_place() {
    let folder = Folder::with("version = 1\n[entities.a\nscheme = \"x\n");
    let ran = folder.run(&["check"]).expect(1);
    assert!(ran.out.starts_with("mintage.toml:2:"), "{ran:?}");
    let listed = folder.run(&["check", "-o", "json"]).expect(1).json();
    assert_eq!(listed[0]["line"], 2);
    folder.run(&["new", "a"]).expect(2).says("mintage.toml:2:");
    for (text, told) in [(&b"version = 1\nrealm = \"\xe9\"\n"[..], "not UTF-8 in line 2"), (b"", "version")] {
        folder.write("mintage.toml", text);
        folder.run(&["new", "a"]).expect(2).says(told);
    }
    folder.write("mintage.toml", vec![b'#'; 2_000_000]);
    folder.run(&["check"]).expect(2).says("larger than");
}

#[test]
fn explain_tells_what_the_settings_mean() {
    let folder = Folder::with(&format!("{SHIPPED}\n[entities.tokens]\nscheme = \"uuidv4\"\n"));
    for (entity, figures) in [
        ("users", &["uuidv7", "1 in 1.2 million", "to the millisecond", "16 bytes a row"][..]),
        ("documents", &["ulid", "1 in 77 million", "16 bytes a row"]),
        ("uploads", &["ksuid", "2150-06-19", "to the second", "20 bytes a row"]),
        ("tokens", &["uuidv4", "1 in 10^10", "shows nothing", "order"]),
        ("events", &["snowflake", "1024 workers × 4 096 000 ids/s", "2095-09-07", "8 bytes a row", "JavaScript"]),
        ("orders", &["segment", "9223372036854775807", "1000 numbers", "when 200 of them are left", "8 bytes a row"]),
    ] {
        let ran = folder.run(&["explain", entity]).expect(0);
        for figure in figures {
            assert!(ran.out.contains(figure), "{entity}: {figure} is missing in {ran:?}");
        }
        let json = folder.run(&["explain", entity, "-o", "json"]).expect(0).json();
        assert_eq!((&json["entity"], &json["scheme"]), (&json!(entity), &json!(figures[0])));
        let facts = json["facts"].as_array().unwrap();
        assert!(facts.iter().all(|fact| ran.out.contains(fact["text"].as_str().unwrap())), "{json}");
        let csv = folder.run(&["explain", entity, "-o", "csv"]).expect(0);
        assert_eq!((csv.lines()[0], csv.lines().len()), ("name,text", facts.len() + 1));
    }
    let end = folder.run(&["explain", "events", "-o", "json"]).expect(0).json();
    let life = end["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == "life").unwrap();
    assert_eq!(life["at"], "2095-09-07T15:47:35.551Z");
}

/// A config as the JSON that editors check against the schema.
fn as_json(value: &Configured) -> Value {
    match value {
        Configured::Text(text) | Configured::Time(text) => json!(text),
        Configured::Integer(number) => json!(number),
        Configured::Fraction(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Configured::Flag(flag) => json!(flag),
        Configured::List(items) => items.iter().map(|item| as_json(&item.value)).collect(),
        Configured::Table(table) => tables_as_json(table),
        other => panic!("{other:?}"),
    }
}

fn tables_as_json(table: &[(String, Setting)]) -> Value {
    Value::Object(table.iter().map(|(name, setting)| (name.clone(), as_json(&setting.value))).collect::<Map<_, _>>())
}

#[test]
fn the_schema_is_one_and_takes_what_the_program_takes() {
    let schema = Folder::empty().run(&["schema"]).expect(0).json();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert!(jsonschema::draft7::meta::is_valid(&schema));
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let config = |text: &str| tables_as_json(Config::parse(text, "mintage.toml").unwrap().settings());
    let shipped = config(SHIPPED);
    let faults: Vec<String> = validator.iter_errors(&shipped).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    assert!(!validator.is_valid(&config(WRONG)));
    assert!(!validator.is_valid(&config(&SHIPPED.replace("refill_at", "refil_at"))));
}

#[test]
fn completions_are_taken_by_the_shell() {
    let folder = Folder::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.run(&["completions", shell]).expect(0);
        assert!(script.out.contains("inspect") && script.out.contains("explain"), "{shell}");
    }
    folder.run(&["completions", "tcsh"]).expect(2);
    if Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("completions_are_taken_by_the_shell", "there is no bash");
    }
    folder.write("completions", folder.run(&["completions", "bash"]).out);
    let bash = Command::new("bash")
        .args(["--norc", "-c", "set -e; . ./completions; complete -p mintage"])
        .current_dir(folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = finish(bash);
    assert!(told.status.success() && String::from_utf8_lossy(&told.stdout).contains("mintage"), "{told:?}");
}
