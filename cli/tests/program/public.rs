//! `mintage keys`, public ids and their warnings, as a user meets them.

use std::fs;

use serde_json::json;

use crate::folder::{Folder, SHIPPED};

/// An entity of each kind of rotation on one key: by time, by number, never.
const SHOP: &str = "\
version = 1
[entities.users]
scheme = \"uuidv7\"
public = { form = \"token\", prefix = \"usr\" }
[entities.tickets]
scheme = \"segment\"
public = { form = \"short\", prefix = \"tic\" }
[entities.orders]
scheme = \"segment\"
public = { form = \"number\", digits = 12 }
[entities.links]
scheme = \"segment\"
public = { form = \"plain\" }
[stores.main]
url = \"sqlite:mintage.db\"
[keys.main]
file = \"mintage.keys\"
";

fn key_lines(folder: &Folder) -> String {
    fs::read_to_string(folder.path("mintage.keys")).unwrap()
}

#[test]
fn keys_are_made_shown_and_never_printed() {
    let folder = Folder::with(SHOP);
    folder.run(&["keys", "show"]).expect(2).says("no keys here");
    folder.run(&["keys", "new"]).expect(0).says("keep a copy in a safe place");
    folder.run(&["keys", "new"]).expect(2).says("there is a key file already");
    folder.run(&["keys", "new", "other"]).expect(2).says("known: main");
    let shown = folder.run(&["keys", "show"]).expect(0);
    assert!(shown.out.contains("version 1  check value ") && shown.out.contains("users (token)"), "{shown:?}");
    assert!(shown.out.contains("orders (number): its key can never change"), "{shown:?}");
    let text = key_lines(&folder);
    let secret = text.lines().last().unwrap().strip_prefix("1 = ").unwrap();
    assert_eq!(secret.len(), 44);
    let rotated = folder.run(&["keys", "rotate", "main", "--at", "2099-01-01T00:00:00Z", "--yes"]).expect(0);
    let explained = folder.run(&["explain", "users"]).expect(0);
    for ran in [shown, rotated, explained, folder.run(&["check"]), folder.run(&["keys", "show"])] {
        assert!(secret.as_bytes().windows(8).all(|part| {
            let part = std::str::from_utf8(part).unwrap();
            !ran.out.contains(part) && !ran.err.contains(part)
        }));
    }
}

/// Made for its owner only; opened to others, it is told at every start.
#[test]
fn a_key_file_that_others_can_read_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::with(SHOP);
    folder.run(&["new", "users", "--public"]).expect(0);
    let file = folder.path("mintage.keys");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.run(&["new", "users", "--public"]).expect(0).err, "", "one loud line, once");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    folder.run(&["new", "users", "--public"]).expect(0).says("can be read by others on this machine");
    folder.run(&["keys", "show"]).expect(0).says("chmod 600");
}

#[test]
fn a_lost_key_file_is_not_made_anew_by_hand_either() {
    let folder = Folder::with(SHOP);
    folder.run(&["new", "users", "--public"]).expect(0);
    fs::remove_file(folder.path("mintage.keys")).unwrap();
    folder.run(&["keys", "new"]).expect(2).says("the keys are gone");
    folder.run(&["new", "users"]).expect(2).says("the keys are gone");
    assert!(!folder.path("mintage.keys").exists());
}

#[test]
fn a_dry_run_says_what_a_rotation_changes_and_changes_nothing() {
    let folder = Folder::with(SHOP);
    let user = folder.run(&["new", "users", "--public"]).expect(0).lines()[0].to_owned();
    let before = key_lines(&folder);
    let at = ["keys", "rotate", "main", "--at", "2099-01-01T00:00:00Z", "--from", "tickets=5000"];
    let ran = folder.run(&[&at[..], &["--dry-run"]].concat()).expect(0);
    for row in [
        "version 2  check value ",
        "from 2099-01-01T00:00:00.000Z, tickets from 5000",
        "users (token)    from 03b3",
        "on: version 2 in place of 1",
        "tickets (short)  from 5000 on: version 2 in place of 1",
        "orders (number)  its key can never change",
        "No public id given out so far changes.",
    ] {
        assert!(ran.out.contains(row), "{row}: {ran:?}");
    }
    assert_eq!(key_lines(&folder), before, "a dry run");
    folder.run(&at).expect(4).says("not confirmed");
    assert_eq!(key_lines(&folder), before, "nobody said yes");
    folder.run(&[&at[..], &["--yes"]].concat()).expect(0).says("bring it to every machine");
    let read = folder.run(&["inspect", &user, "-o", "json"]).expect(0).json();
    assert_eq!(read[0]["entity"], "users", "what was out still opens");
    folder.run(&["new", "users", "--public"]).expect(0);

    let leaked = folder.run(&["keys", "rotate", "main", "--leaked", "1", "--dry-run"]).expect(0);
    assert!(
        leaked.out.contains("tickets (short)  from the first id on, below 5000: version 3 in place of 1"),
        "{leaked:?}"
    );
    assert!(leaked.out.contains("in place of 1") && leaked.out.contains("resolve_legacy"), "{leaked:?}");
    folder.run(&["keys", "revoke", "main", "--version", "1", "--yes"]).expect(2).says("still owns ids");
    folder.run(&["keys", "rotate", "main", "--leaked", "1", "--yes"]).expect(0);
    folder.run(&["keys", "revoke", "main", "--version", "1", "--yes"]).expect(0);
    assert!(folder.run(&["keys", "show"]).expect(0).out.contains("version 3"), "it lives on without version 1");
    folder.run(&["new", "users", "--public"]).expect(0);
}

#[test]
fn a_rotation_that_would_change_ids_is_refused() {
    let folder = Folder::with(SHOP);
    folder.run(&["new", "tickets", "-n", "3", "--public"]).expect(0);
    let before = key_lines(&folder);
    let rotate = |args: &[&str]| folder.run(&[&["keys", "rotate", "main", "--yes"], args].concat()).expect(2);
    rotate(&[]).says("--at TIME");
    rotate(&["--at", "2026-01-01T00:00:00Z"]).says("has passed");
    rotate(&["--at", "1960-01-01T00:00:00Z"]).says("has passed");
    rotate(&["--at", "tomorrow"]);
    rotate(&["--from", "tickets=3"]).says("numbers below 4 are handed out");
    rotate(&["--from", "tickets"]).says("ENTITY=NUMBER");
    rotate(&["--from", "tickets=-1"]).says("ENTITY=NUMBER");
    rotate(&["--from", "nobody=5"]).says("no entity");
    rotate(&["--from", "orders=5000"]).says("can never change");
    rotate(&["--from", "links=5000"]).says("does not use keys.main");
    rotate(&["--leaked", "7"]).says("no version 7");
    assert_eq!(key_lines(&folder), before);
}

/// Edited by hand, the file passes none of the above: the start of the program is the last guard.
#[test]
fn a_key_that_takes_over_too_late_does_not_start() {
    let folder = Folder::with(SHOP);
    folder.run(&["new", "users", "--public"]).expect(0);
    let second = "2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n2.from = 2026-01-01T00:00:00Z\n";
    folder.write("mintage.keys", key_lines(&folder) + second);
    let ran = folder.run(&["new", "users"]).expect(2).says("ids have passed that");
    assert!(!ran.err.contains("ICEi") && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn keys_in_a_variable_are_changed_where_they_are_set() {
    let folder = Folder::with(&SHOP.replace("file = \"mintage.keys\"", "env = \"SHOP_KEYS\""));
    let keys = [("SHOP_KEYS", "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")];
    let ran = folder.run_with(&keys, &["new", "users", "--public"]).expect(0);
    let read = folder.run_with(&keys, &["inspect", ran.lines()[0], "-o", "json"]).expect(0).json();
    assert_eq!((ran.err.as_str(), &read[0]["entity"]), ("", &json!("users")));
    folder.run(&["new", "users", "--public"]).expect(2).says("no keys here");
    folder.run_with(&keys, &["keys", "show"]).expect(2).says("SHOP_KEYS");
    let other = [("SHOP_KEYS", "1 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=")];
    let ran =
        folder.run_with(&other, &["new", "users"]).expect(2).says("not the key with which public ids were written");
    assert!(!ran.err.contains("ICEi"), "{ran:?}");
}

#[test]
fn a_context_binds_and_is_asked_for() {
    let folder = Folder::with(&SHOP.replace("prefix = \"usr\"", "prefix = \"usr\", context = true"));
    folder.run(&["new", "users", "--public"]).expect(2).says("context");
    let bound = folder.run(&["new", "users", "--public", "--context", "tenant-42"]).expect(0);
    assert!(bound.lines()[0].starts_with("usr_") && bound.lines()[0].len() == 4 + 52, "{bound:?}");
    folder.run(&["new", "tickets", "--public", "--context", "tenant-42"]).expect(2).says("context");
    folder.run(&["inspect", bound.lines()[0]]).expect(1);
}

/// What a person makes of a public id is put right by `inspect`, and told.
#[test]
fn a_public_id_is_read_as_people_write_it() {
    let folder = Folder::with(SHOP);
    for entity in ["users", "tickets", "orders"] {
        let text = folder.run(&["new", entity, "--public"]).expect(0).lines()[0].to_owned();
        let exact = folder.run(&["inspect", &text, "-o", "json"]).expect(0).json();
        let (start, end) = text.split_at(text.len() / 2);
        let typed =
            folder.run(&["inspect", &format!(" {}-{} ", start.to_uppercase(), end), "-o", "json"]).expect(0).json();
        assert_eq!(exact[0]["entity"], entity);
        assert_eq!(typed[0]["spellings"], exact[0]["spellings"], "{typed}");
        assert!(typed[0]["reasons"].to_string().contains("put right"), "{typed}");
    }
}

/// The promise of each form, where it is weak, stands in `check` and in `explain`.
#[test]
fn weak_forms_are_warned_about() {
    let check = |scheme: &str, public: &str| {
        let worker = if scheme == "snowflake" {
            "epoch = \"2026-01-01T00:00:00Z\"\nlayout = { time = 41, worker = 10, sequence = 12 }\n\
             worker = { pool = \"main\" }\n[workers.main]\n"
        } else {
            ""
        };
        let config = format!(
            "version = 1\n[entities.things]\nscheme = \"{scheme}\"\npublic = {{ {public} }}\n{worker}\
             [stores.main]\nurl = \"sqlite:ids.db\"\n[keys.main]\nfile = \"mintage.keys\"\n"
        );
        Folder::with(&config).run(&["check"]).expect(0)
    };
    for (scheme, public, warning) in [
        ("snowflake", "form = \"plain\"", "show when or in which order"),
        ("uuidv7", "form = \"plain\"", "show when or in which order"),
        ("ulid", "form = \"plain\"", "show when or in which order"),
        ("ksuid", "form = \"plain\"", "show when or in which order"),
        ("segment", "form = \"plain\"", "how many there are"),
        ("segment", "form = \"short\", prefix = \"th\", allow_unauthenticated = true", "obfuscation only"),
        ("uuidv7", "form = \"uuid\", uuid = \"u7\"", "hides time and counter only"),
        ("uuidv7", "form = \"uuid\", uuid = \"u7k4\"", "hides time and counter only"),
        ("ulid", "form = \"uuid\", uuid = \"ulid42\"", "hides time and counter only"),
        ("segment", "form = \"token\", alphabet = \"base62\", case_sensitive = true", "columns that compare it"),
        ("uuidv7", "form = \"token\", alphabet = \"base62\", case_sensitive = true", "columns that compare it"),
    ] {
        let ran = check(scheme, public);
        assert!(ran.out.contains(warning) || ran.err.contains(warning), "{scheme} {public}: {ran:?}");
    }
    for (scheme, public) in [
        ("snowflake", "form = \"token\""),
        ("snowflake", "form = \"uuid\""),
        ("segment", "form = \"short\", prefix = \"th\""),
        ("segment", "form = \"number\", digits = 12"),
        ("uuidv4", "form = \"plain\""),
        ("uuidv7", "form = \"token\", alphabet = \"novowel\""),
        ("uuidv7", "form = \"token\", context = true"),
    ] {
        let ran = check(scheme, public);
        assert!(!ran.out.contains("warning") && ran.err.is_empty(), "{scheme} {public}: {ran:?}");
        let label = if public.contains("number") { "existence can be probed" } else { "" };
        assert!(ran.out.contains(label), "{ran:?}");
    }
}

#[test]
fn of_two_keys_an_entity_says_which() {
    let two = format!("{SHIPPED}\n[keys.other]\nfile = \"other.keys\"\n");
    let folder = Folder::with(&two);
    folder.run(&["new", "users", "--public"]).expect(0);
    assert_eq!(folder.run(&["new", "events", "--public"]).expect(2).says("no public form").out, "");
    assert!(!folder.path("other.keys").exists(), "nothing uses it");
}

/// What `new --public` prints holds the ids in no spelling that `inspect` knows.
#[test]
fn no_output_holds_the_raw_id() {
    let config = SHIPPED.replace("start  = 1\n", "start  = 5871236409\n");
    assert_ne!(config, SHIPPED);
    let folder = Folder::with(&config);
    folder.run(&["new", "users"]).expect(0);
    for entity in ["users", "orders", "events", "documents", "uploads"] {
        let runs = ["text", "json", "csv"]
            .map(|output| folder.run(&["new", entity, "--public", "-n", "5", "-o", output]).expect(0));
        let printed: String = runs.iter().map(|ran| format!("{}{}", ran.out, ran.err)).collect();
        let texts: Vec<&str> = printed
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|text| text.len() >= 12 && text.bytes().any(|byte| byte.is_ascii_digit()))
            .collect();
        assert_eq!(texts.len(), 15, "{printed}");
        for text in texts {
            let read = folder.run(&["inspect", text, "-o", "json"]).expect(0).json();
            assert_eq!(read[0]["entity"], entity);
            let spellings = read[0]["spellings"].as_object().unwrap();
            let mut searched = 0;
            for (name, spelling) in spellings.iter().filter(|(name, _)| *name != "public" && *name != "time") {
                let spelling = spelling.as_str().unwrap();
                // Without the zeros that a text of fixed width begins with.
                let short = spelling.trim_start_matches('0');
                assert!(short.len() >= 6 && !printed.contains(short), "{name} {spelling} in {printed}");
                assert!(!printed.to_lowercase().contains(&short.to_lowercase()), "{name} {spelling} in {printed}");
                searched += 1;
            }
            assert!(searched >= 2, "{read}");
            assert_eq!(spellings["public"], text);
        }
    }
}
