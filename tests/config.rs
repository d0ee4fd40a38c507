//! The config as its owners meet it: what is read, what is refused and in which words.
//!
//! The schemes and stores here are small stand-ins with the keys of the real ones: what this suite asks is what the config
//! reader makes of *any* catalog.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use mintage::config::{
    self, Checked, ClockLimits, Config, ConfigErrors, Environment, LeaseTimes, OnLeaseLost, PasswordPlace, schema,
};
use mintage_core::{
    Anatomy, AnyScheme, Bits, Format, IdScheme, MintError, ParseError, ReadyError, SchemeInfo, Sequence, StoreError,
    StoreErrorKind, WorkerChoice,
    plugin::{
        Address, Backend, BackendFactory, Catalog, Fact, Key, KeyKind, Needs, Opened, SchemeFactory, SchemePlan,
        Setting, Settings, Site, Value, WorkerNeed,
    },
};
use proptest::prelude::*;
use serde_json::json;

const NOW_MS: u64 = 1_767_225_600_000;

// ---- what is read ----

#[test]
fn the_shipped_config_has_no_fault_and_needs_no_server() {
    let checked = Config::shipped().unwrap().check(&catalog(), &Environment::default(), NOW_MS).unwrap();
    assert_eq!(checked.realm, "live");
    assert_eq!(checked.folder, Path::new("."));
    let entities: Vec<_> =
        checked.entities.iter().map(|entity| (entity.name.as_str(), entity.scheme.as_str())).collect();
    assert_eq!(
        entities,
        [
            ("users", "uuidv7"),
            ("orders", "segment"),
            ("events", "snowflake"),
            ("documents", "ulid"),
            ("uploads", "ksuid")
        ]
    );
    assert!(checked.entities.iter().all(|entity| entity.store == "main"), "the only store is everyone's");
    let orders = checked.entity("orders").unwrap();
    assert_eq!(orders.needs.sequence, Some(Sequence::new("orders", 1)));
    let public: Vec<_> = checked.entities.iter().map(|entity| entity.public.as_ref().map(|form| form.name())).collect();
    assert_eq!(public, [Some("token"), Some("number"), Some("token"), Some("token"), Some("token")]);
    let written: Vec<_> = checked.entities.iter().filter(|entity| entity.public_is_written).collect();
    assert_eq!(written.len(), 2, "the others have a token by default, under the only key");

    let pool = checked.pool("main").unwrap();
    assert_eq!((pool.region.as_deref(), pool.block.clone(), pool.which), (Some("eu"), 0..256, WorkerChoice::Any));
    assert_eq!(pool.lease, LeaseTimes::default());
    assert_eq!(pool.instance, None);
    assert_eq!(
        checked.regions.iter().map(|(name, block)| (name.as_str(), block.clone())).collect::<Vec<_>>(),
        [("eu", 0..256), ("us", 256..512)]
    );
    let store = checked.store("main").unwrap();
    assert_eq!((store.url.as_str(), store.timeout_ms, store.url_scheme()), ("sqlite:mintage.db", 10_000, "sqlite"));
    assert_eq!(checked.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["main"]);
    assert_eq!(checked.warnings.to_string(), "");
}

#[test]
fn defaults_fill_what_is_left_out() {
    let checked = check(&format!(
        "{UUIDS}\n[entities.events]\nscheme = \"snowflake\"\nworker = {{ pool = \"main\" }}\n[workers.main]\n"
    ))
    .unwrap();
    let pool = checked.pool("main").unwrap();
    assert_eq!(checked.realm, "live");
    assert_eq!((pool.store.as_str(), pool.region.as_deref(), pool.block.clone()), ("main", None, 0..1024));
    let LeaseTimes { ttl_ms, renew_ms, window_ms, max_ahead_ms, guard_ms, quarantine_ms, stop_ms, .. } = pool.lease;
    assert_eq!(
        (ttl_ms, renew_ms, window_ms, max_ahead_ms, guard_ms, quarantine_ms, stop_ms),
        (10_000, 3_000, 60_000, 2_000, 1_000, 1_000, None)
    );
    assert_eq!((pool.lease.terms().window_ms, pool.lease.limits().guard_ms), (60_000, 1_000));
}

#[test]
fn everything_optional_is_read() {
    let checked = check(
        r#"
version = 1
realm = "test-eu"
[entities.events]
scheme = "snowflake"
store = "audit"
layout = { time = 41, worker = 6, sequence = 12, unit = "10ms" }
worker = { pool = "wide", id = 7 }
[entities.logs]
scheme = "snowflake"
store = "main"
worker = { pool = "wide" }
[workers.wide]
store = "main"
instance = "blue"
lease = { ttl = "5s", renew = "1s", window = "1m", stop = "4s", max_ahead = "0s", guard = "2s", quarantine = "0s" }
[stores.main]
url = "memory:"
timeout = "250ms"
[stores.audit]
url = "file:ids"
"#,
    )
    .unwrap();
    assert_eq!(checked.realm, "test-eu");
    let pool = checked.pool("wide").unwrap();
    assert_eq!(pool.block, 0..64, "the narrowest layout decides");
    assert_eq!(pool.which, WorkerChoice::Exactly(7));
    assert_eq!(pool.instance.as_deref(), Some("blue"));
    assert_eq!(pool.lease.stop_ms, Some(4_000));
    assert_eq!(checked.store("main").unwrap().timeout_ms, 250);
    assert_eq!(checked.entity("events").unwrap().store, "audit");
    assert!(checked.entity("none").is_none() && checked.pool("none").is_none() && checked.store("none").is_none());
}

#[test]
fn what_a_pool_is_told_of_its_processes_is_read() {
    let fleet = |pool: &str| {
        format!(
            "{UUIDS}\n[entities.events]\nscheme = \"snowflake\"\nworker = {{ pool = \"main\" }}\n[workers.main]\n{pool}"
        )
    };
    let pool = check(&fleet("")).unwrap().pool("main").unwrap().clone();
    assert_eq!((pool.count, pool.on_lease_lost, pool.clock), (1, OnLeaseLost::Stop, ClockLimits::default()));
    let ClockLimits { alert_ms, refuse_start_ms, release_ms, .. } = pool.clock;
    assert_eq!((alert_ms, refuse_start_ms, release_ms), (5, 100, 100));
    let pool = check(&fleet(
        "count = 4\non_lease_lost = \"exit\"\nclock = { alert = \"1ms\", refuse_start = \"1s\", release = \"2s\" }",
    ));
    let pool = pool.unwrap().pool("main").unwrap().clone();
    assert_eq!((pool.count, pool.on_lease_lost), (4, OnLeaseLost::Exit));
    assert_eq!((pool.clock.alert_ms, pool.clock.refuse_start_ms, pool.clock.release_ms), (1, 1_000, 2_000));
}

#[test]
fn a_file_is_loaded_with_its_folder_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.toml");
    std::fs::write(&path, format!("{UUIDS}bogus = 1\n")).unwrap();
    let config = Config::load(&path).unwrap();
    assert_eq!(config.folder(), folder.path());
    let errors = config.check(&catalog(), &Environment::default(), NOW_MS).unwrap_err();
    assert_eq!(errors.file(), path.display().to_string());
    assert!(errors.to_string().starts_with(&format!("{}:6:1 stores.main.bogus: ", path.display())), "{errors}");
}

#[test]
fn files_that_cannot_be_read_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let told = |name: &str, bytes: Option<&[u8]>| {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let told = Config::load(&path).unwrap_err().to_string();
        told.replace(&path.display().to_string(), name)
    };
    insta::assert_snapshot!(told("absent.toml", None), @"absent.toml: there is no such file: name the one to read, or begin with a copy of the mintage.toml that comes with Mintage");
    insta::assert_snapshot!(told("latin.toml", Some(b"version = 1\nrealm = \"\xe9\"\n")), @"latin.toml: not UTF-8 in line 2: save it as UTF-8");
    insta::assert_snapshot!(told("large.toml", Some(&vec![b'#'; (1 << 20) + 1])), @"large.toml: larger than 1024 KiB, the most a config may have: is it the right file?");
    assert!(Config::load(folder.path()).unwrap_err().to_string().contains(": cannot be read: "));
    let full = format!("{UUIDS}#{}", " ".repeat((1 << 20) - UUIDS.len() - 1));
    assert!(Config::parse(&full, "full.toml").is_ok(), "exactly the limit");
    assert!(Config::parse(&format!("{full} "), "full.toml").is_err());
}

// ---- the environment ----

#[test]
fn the_environment_moves_stores_and_names_the_instance() {
    let text = Config::shipped().unwrap();
    let environment = Environment::of([("MINTAGE_STORE", "file:elsewhere"), ("MINTAGE_INSTANCE", "pod-7")]);
    let checked = text.check(&catalog(), &environment, NOW_MS).unwrap();
    assert_eq!(checked.store("main").unwrap().url, "file:elsewhere");
    assert_eq!(checked.pool("main").unwrap().instance.as_deref(), Some("pod-7"));
    let empty = Environment::of([("MINTAGE_STORE", ""), ("MINTAGE_INSTANCE", "")]);
    let checked = text.check(&catalog(), &empty, NOW_MS).unwrap();
    assert_eq!(checked.store("main").unwrap().url, "sqlite:mintage.db");
    assert_eq!(checked.pool("main").unwrap().instance, None);
}

#[test]
fn faults_of_the_environment_name_the_variable() {
    let told = |name: &str, value: &str| {
        let environment = Environment::of([(name, value)]);
        Config::shipped().unwrap().check(&catalog(), &environment, NOW_MS).unwrap_err().to_string()
    };
    insta::assert_snapshot!(told("MINTAGE_STORE", "postgres://user:hunter2@db/ids"), @"mintage.toml:45:9 stores.main.url: from the environment variable MINTAGE_STORE: postgres stores are not in this build (known: file, memory, sqlite): build it with the feature `postgres`");
    assert!(!told("MINTAGE_STORE", "hunter2:word").contains("hunter2"));
    insta::assert_snapshot!(told("MINTAGE_INSTANCE", "a\tb"), @r#"mintage.toml:35:10 workers.main.instance: the environment variable MINTAGE_INSTANCE: "a\tb" is no instance name: write 1 to 128 characters on one line"#);
}

/// A URL with a password may lie in a file: what is there counts, and nobody is shown it.
#[test]
fn a_url_may_lie_in_a_file() {
    let mut servers = catalog();
    servers.backend(Desk);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mintage.toml");
    let check = |more: &str, url: &[u8]| {
        let store = format!("[stores.main]\nurl = {{ file = \"secret/url\" }}\n{more}\n");
        std::fs::write(&path, format!("version = 1\n[entities.a]\nscheme = \"uuidv7\"\n{store}")).unwrap();
        std::fs::create_dir_all(folder.path().join("secret")).unwrap();
        std::fs::write(folder.path().join("secret/url"), url).unwrap();
        Config::load(&path).unwrap().check(&servers, &Environment::default(), NOW_MS)
    };
    for url in ["desk://app:hunter2@db", "desk://app:hunter2@db\n", "desk://app:hunter2@db\r\n"] {
        let checked = check("tls = true", url.as_bytes()).unwrap();
        assert_eq!(checked.store("main").unwrap().url, "desk://app:hunter2@db");
        assert!(!format!("{checked:?}").contains("hunter2"));
    }
    for (more, url, words) in [
        ("", &b""[..], "holds no URL"),
        ("", b"desk://app:hunter2@db\n\n", "holds no URL"),
        ("", b"desk://app:hunter2@db\nhunter2", "holds no URL"),
        ("", b"desk://\xffhunter2", "is no text"),
        ("", b"hunter2", "a URL begins with"),
        ("", b"hunter2:word", "begins with no kind of store (known: desk, file, memory, sqlite)"),
        ("password = { file = \"p\" }", b"desk://app:hunter2@db", "keep one of the two"),
        ("tls = true", b"memory:", "have no encrypted connections"),
    ] {
        let told = check(more, url).unwrap_err().to_string();
        assert!(told.contains(words) && told.contains("stores.main.") && !told.contains("hunter2"), "{told}");
        assert!(!more.is_empty() || told.contains("secret/url"), "{told}");
    }
}

/// A store on a server, with a password beside its URL: where it is is known, and what it is stays out of sight.
#[test]
fn passwords_stand_beside_the_config() {
    let mut servers = catalog();
    servers.backend(Desk);
    let environment = Environment::of([("PASSWORD", "hunter2"), ("URL", "desk://app:hunter2@db")]);
    let check = |store: &str| {
        let text = with_uuids(&format!("[entities.a]\nscheme = \"uuidv7\"\n[stores.desk]\n{store}\n"));
        let text = text.replace("scheme = \"uuidv7\"\n", "scheme = \"uuidv7\"\nstore = \"desk\"\n");
        Config::parse(&text, "m").unwrap().check(&servers, &environment, NOW_MS)
    };
    let checked =
        check("url = \"desk://app@db\"\npassword = { env = \"PASSWORD\" }\ntls = { ca = \"ca.pem\" }").unwrap();
    let store = checked.store("desk").unwrap();
    assert_eq!(store.password, Some(PasswordPlace::Variable("PASSWORD".to_owned())));
    assert_eq!(store.tls.as_ref().and_then(|tls| tls.ca.clone()), Some("./ca.pem".into()));
    assert!(!format!("{checked:?}").contains("hunter2"));
    let checked = check("url = \"desk://app@db\"\npassword = { file = \"p\" }\ntls = false").unwrap();
    let store = checked.store("desk").unwrap();
    assert_eq!((store.password.clone(), store.tls.clone()), (Some(PasswordPlace::File("./p".into())), None));
    for (store, words) in [
        ("url = \"desk://app@db\"\npassword = \"hunter2\"", "must not stand in the config"),
        ("url = \"desk://app@db\"\npassword = { env = \"NONE\" }", "NONE is not set"),
        ("url = \"desk://app@db\"\npassword = { env = \"hunter2!\" }", "write the name of an environment variable"),
        ("url = \"desk://app@db\"\npassword = { env = \"PASSWORD\", file = \"p\" }", "the one place"),
        ("url = \"desk://app@db\"\npassword = { file = \"\" }", "the one place"),
        ("url = \"desk://app@db\"\npassword = {}", "the one place"),
        ("url = { env = \"URL\" }\npassword = { env = \"PASSWORD\" }", "keep one of the two"),
        ("url = \"desk://app@db\"\ntls = { ca = \"\" }", "write the path of a file in PEM"),
    ] {
        let told = check(store).unwrap_err().to_string();
        assert!(told.contains(words) && !told.contains("hunter2"), "{store}: {told}");
    }
}

#[test]
fn tables_are_called_as_the_config_says() {
    let checked = check(&UUIDS.replace("memory:", "sqlite:ids.db")).unwrap();
    assert_eq!(checked.store("main").unwrap().tables.as_str(), "mintage_");
    let named = format!("{}table_prefix = \"billing_ids_\"\n", UUIDS.replace("memory:", "sqlite:ids.db"));
    assert_eq!(check(&named).unwrap().store("main").unwrap().tables.as_str(), "billing_ids_");
}

#[test]
fn the_environment_never_changes_a_format() {
    let text = Config::shipped().unwrap();
    let formats = |environment: &Environment| -> Vec<String> {
        let checked = text.check(&catalog(), environment, NOW_MS).unwrap();
        checked.entities.iter().map(|entity| format!("{} {}", entity.scheme, entity.plan.format())).collect()
    };
    let names = [
        "EPOCH",
        "SCHEME",
        "LAYOUT",
        "START",
        "TEXT",
        "REALM",
        "EVENTS_EPOCH",
        "ENTITIES_EVENTS_EPOCH",
        "ENTITIES__EVENTS__SCHEME",
    ];
    let loud = Environment::of(names.map(|name| (format!("MINTAGE_{name}"), "2020-01-01T00:00:00Z")));
    assert_eq!(formats(&loud), formats(&Environment::default()));
    // Nor can a config ask for it.
    for key in ["epoch = { env = \"E\" }", "scheme = { env = \"E\" }", "layout = { time = { env = \"E\" } }"] {
        let text = with_uuids(&format!(
            "[entities.e]\n{}{key}",
            if key.starts_with("scheme") { "" } else { "scheme = \"snowflake\"\n" }
        ));
        assert!(check(&text).is_err(), "{key}");
    }
}

#[test]
fn values_of_the_environment_are_not_printed() {
    let environment = Environment::of([("MINTAGE_STORE", "memory:user:hunter2@host")]);
    assert!(!format!("{environment:?}").contains("hunter2"));
    let checked = Config::shipped().unwrap().check(&catalog(), &environment, NOW_MS).unwrap();
    assert!(checked.store("main").unwrap().url.contains("hunter2") && !format!("{checked:?}").contains("hunter2"));
}

// ---- places ----

#[test]
fn columns_count_characters_whatever_the_line_ends() {
    let lines = [
        "version = 1",
        "[entities.users]",
        "scheme = \"uuidv7\"",
        "\tbogus = 1",
        "public = { prefix = \"usr\", 'größe' = 1, kee = 2 }",
        "[stores.main]",
        "url = \"memory:\"",
    ];
    let expected = "mintage.toml:4:2 entities.users.bogus: unknown key (known: scheme, store, public, order)\n\
                    mintage.toml:5:28 entities.users.public.\"größe\": unknown key (known: form, prefix, key, context, alphabet, \
                    case_sensitive, allow_unauthenticated, digits, stages, max_fill, group, uuid)\n\
                    mintage.toml:5:41 entities.users.public.kee: unknown key; did you mean \"key\"?";
    for (start, end) in [("", "\n"), ("", "\r\n"), ("\u{feff}", "\n"), ("\u{feff}", "\r\n")] {
        let text = format!("{start}{}{end}", lines.join(end));
        assert_eq!(refused(&text), expected, "{start:?} {end:?}");
    }
    let broken = format!("\u{feff}{}\r\né = \r\n", lines[0]);
    assert_eq!(
        refused(&broken).lines().next().unwrap(),
        "mintage.toml:2:1: not TOML: invalid unquoted key, expected letters, numbers, `-`, `_`"
    );
}

#[test]
fn syntax_errors_are_told_all_at_once_in_plain_words() {
    let told = refused(
        "version = 01\nrealm = live\nversion = 1\n[entities.users]\nscheme =\n[entities.users]\n[stores.main\nurl = \"memory:\n",
    );
    insta::assert_snapshot!(told, @r#"
    mintage.toml:1:11: a number must not begin with 0: leave the zero out
    mintage.toml:2:9: "live" is no value: texts stand in "quotes"
    mintage.toml:3:1: "version" is set twice: keep one
    mintage.toml:5:9: a value is missing here
    mintage.toml:6:11: "users" is set twice: keep one
    mintage.toml:7:13: not TOML: unclosed table, expected `]`
    "#);
}

#[test]
fn everything_wrong_is_told_at_once_by_place() {
    let told = refused(include_str!("configs/everything-wrong.toml"));
    insta::assert_snapshot!(told, @r#"
    mintage.toml version: missing: write `version = 1` as the first line
    mintage.toml:1:1 realm: "Live" is no realm: write 1 to 32 of a-z, 0-9 and -, a letter first
    mintage.toml:2:1 colour: unknown key (known: version, realm, entities, series, workers, regions, stores, keys)
    mintage.toml:4:2 server: `server` is not in this version yet: take it out
    mintage.toml:7:11 entities.Users: "Users" cannot be used as a name here: write 1 to 63 of a-z, 0-9 and _, a letter first
    mintage.toml:7:11 entities.Users.store: missing: there are several stores, so write `store = "…"`, one of main, other
    mintage.toml:8:1 entities.Users.scheme: no scheme "snowflak" (known: bearer, ksuid, segment, snowflake, ulid, uuidv4, uuidv7); did you mean "snowflake"?
    mintage.toml:9:12 entities.Users.public.form: "tokn" is not one of token, short, number, uuid, plain; did you mean "token"?
    mintage.toml:9:43 entities.Users.public.kye: unknown key; did you mean "key"?
    mintage.toml:13:1 entities.orders.store: no store "mian" (known: main, other); did you mean "main"?
    mintage.toml:14:1 entities.orders.start: 9223372036854775808 is above 9223372036854775807, the largest whole number TOML has
    mintage.toml:15:20 entities.orders.range.mx: unknown key; did you mean "max"?
    mintage.toml:16:1 entities.orders.refill_at: 2 lies outside 0 to 1
    mintage.toml:17:1 entities.orders.worker_id: unknown key; `worker` is a key of snowflake, not of segment (known: scheme, store, public, start, range, refill_at, sequence, text)
    mintage.toml:19:11 entities.events.store: missing: there are several stores, so write `store = "…"`, one of main, other
    mintage.toml:21:1 entities.events.layout: 41+12+12 is 65 bits, 63 at most
    mintage.toml:22:1 entities.events.epoch: a time such as "2026-01-01T00:00:00Z" was expected, found a number with a fraction
    mintage.toml:23:27 entities.events.worker.id: "7" is a text: write the number without quotes
    mintage.toml:25:11 entities.logs.store: missing: there are several stores, so write `store = "…"`, one of main, other
    mintage.toml:27:27 entities.logs.worker.id: worker id 1024 lies outside 0..1024, the worker ids this layout has room for
    mintage.toml:28:1 entities.logs.sequence: `sequence` is a key of segment, not of snowflake (known: scheme, store, public, epoch, layout, worker, fallback, clock, text)
    mintage.toml:30:10 workers.main.store: missing: there are several stores, so write `store = "…"`, one of main, other
    mintage.toml:31:1 workers.main.region: no region "ue" (known: eu, us, ap); did you mean "eu"?
    mintage.toml:32:1 workers.main.lease: 0 < renew < ttl ≤ window must hold, but renew is 30s, ttl 10s, window 4s
    mintage.toml:32:54 workers.main.lease.stop: a duration in quotes, such as "10ms", was expected, found a whole number
    mintage.toml:33:1 workers.main.count: entity logs insists on one worker id: take out the count, or the id there
    mintage.toml:37:1 regions.us: 255..512 overlaps 0..256 of region eu: two regions would mint with one worker id
    mintage.toml:38:1 regions.ap: "512..512" is no block of worker ids: write the first and one past the last, such as "0..256"
    mintage.toml:41:9 stores.main.url.env: the environment variable MINTAGE_STORE is not set: set it, or write a URL to use without it: `default = "sqlite:mintage.db"`
    mintage.toml:43:1 stores.other.url: a password must not stand in the config: put the URL into a file or an environment variable, and write `url = { file = "…" }` or `url = { env = "…" }`
    mintage.toml:47:1 keys.main.secret: a secret must not stand in the config: put it into a file or an environment variable, and write `file = "…"` or `env = "…"`
    "#);
}

// ---- refusals, one by one ----

/// Each case of `configs/refused.txt` gives exactly the problems written under it, and no others.
///
/// `BLESS=1 cargo test -p mintage --test config` writes what is told now, for review.
#[test]
fn each_fault_has_its_place_and_its_words() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/refused.txt");
    let written = std::fs::read_to_string(&path).unwrap();
    let told: String = written.split_inclusive('\n').take_while(|line| !line.starts_with("=== ")).collect::<String>()
        + &cases(&written)
            .map(|(name, text)| format!("=== {name}\n{text}---\n{}\n", refused(&completed(text))))
            .collect::<String>();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &told).unwrap();
    }
    for (told, written) in told.split("=== ").zip(written.split("=== ")) {
        assert_eq!(told, written);
    }
    assert_eq!(told, written);
}

#[test]
fn the_list_of_faults_is_whole() {
    let written = include_str!("configs/refused.txt");
    assert!(cases(written).count() > 80, "{}", cases(written).count());
    assert!(!written.contains("(nothing is refused)"));
    // Nothing secret is repeated.
    assert!(!written.lines().filter(|line| line.starts_with("mintage.toml")).any(|line| line.contains("hunter2")));
}

/// The cases of the file: name and config.
fn cases(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.split("\n=== ").skip(1).filter_map(|case| {
        let (name, rest) = case.split_once('\n')?;
        Some((name, rest.split_once("---")?.0))
    })
}

/// A case with what it does not care about: the version in a first line, an entity and a store at the end.
fn completed(case: &str) -> String {
    let version = if ["version =", "versoin =", "no version"].iter().any(|word| case.contains(word)) {
        ""
    } else {
        "version = 1"
    };
    let entity = if case.contains("entities") || case.contains("[entites") {
        ""
    } else {
        "[entities.users]\nscheme = \"uuidv7\"\n"
    };
    let store = if ["[store", "no store"].iter().any(|word| case.contains(word)) {
        ""
    } else {
        "[stores.main]\nurl = \"memory:\"\n"
    };
    format!("{version}\n{case}{entity}{store}")
}

#[test]
fn scheme_names_are_guessed_from_the_catalog_of_the_day() {
    let text = with_uuids("[entities.a]\nscheme = \"uuidv8\"\n");
    let told =
        Config::parse(&text, "m").unwrap().check(&Catalog::default(), &Environment::default(), NOW_MS).unwrap_err();
    assert!(told.to_string().ends_with("no scheme \"uuidv8\" (known: bearer)"), "{told}");
}

#[test]
fn a_scheme_that_refuses_in_silence_is_told_on() {
    #[derive(Debug)]
    struct Mute;
    impl SchemeFactory for Mute {
        fn name(&self) -> &'static str {
            "mute"
        }
        fn about(&self) -> &'static str {
            "never works"
        }
        fn keys(&self) -> &'static [Key] {
            &[]
        }
        fn plan(&self, _: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
            None
        }
    }
    let mut catalog = catalog();
    catalog.scheme(Mute);
    let config = Config::parse(&with_uuids("[entities.a]\nscheme = \"mute\"\n"), "m").unwrap();
    let told = config.check(&catalog, &Environment::default(), NOW_MS).unwrap_err().to_string();
    assert_eq!(told, "m:6:11 entities.a: the scheme mute cannot use these settings and does not say why");
}

#[test]
fn warnings_come_with_refusals_but_are_not_among_them() {
    let text = with_uuids(
        "[entities.a]\nscheme = \"segment\"\nbogus = 1\n\
         [entities.a.public]\nform = \"short\"\nprefix = \"aa\"\nallow_unauthenticated = true\n\
         [keys.main]\nfile = \"k\"\n",
    );
    let errors = check(&text).unwrap_err();
    assert_eq!(errors.problems().len(), 1);
    assert_eq!(errors.warnings().list().len(), 1);
    assert!(!errors.to_string().contains("not in this version"), "{errors}");
    let warned = errors.warnings().to_string();
    assert!(warned.starts_with("mintage.toml:10:1 entities.a.public.form: obfuscation only"), "{warned}");
    let error: &dyn std::error::Error = &errors;
    assert!(error.source().is_none());
}

// ---- the schema ----

#[test]
fn the_schema_is_draft_07_and_takes_the_shipped_config() {
    let schema = schema(&catalog());
    jsonschema::draft7::meta::validate(&schema).unwrap();
    assert_eq!(schema["$schema"], json!("http://json-schema.org/draft-07/schema#"));
    jsonschema::draft7::meta::validate(&config::schema(&Catalog::default())).unwrap();
    let shipped = json_of(Config::shipped().unwrap().settings());
    if let Err(error) = jsonschema::draft7::new(&schema).unwrap().validate(&shipped) {
        panic!("{}: {error}", error.instance_path);
    }
}

/// Kinds of fault that no schema can see: they lie between two places, or outside the file.
const BEYOND_THE_SCHEMA: &str = "[reader only]";

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    let schema = jsonschema::draft7::new(&schema(&catalog())).unwrap();
    let (mut seen, mut wrong) = ([0, 0], Vec::new());
    for (name, text) in cases(include_str!("configs/refused.txt")) {
        let Ok(config) = Config::parse(&completed(text), "mintage.toml") else { continue };
        let taken = schema.is_valid(&json_of(config.settings()));
        if taken != name.contains(BEYOND_THE_SCHEMA) {
            wrong.push((name, if taken { "the schema takes it" } else { "the schema refuses it too" }));
        }
        seen[usize::from(taken)] += 1;
    }
    assert_eq!(wrong, []);
    assert!(seen[0] > 40 && seen[1] > 20, "{seen:?}");
}

/// Every key of every table, alone: the reader knows it exactly if the schema does. Then a wrong one beside it.
#[test]
fn the_reader_and_the_schema_know_the_same_keys() {
    let schema = jsonschema::draft7::new(&schema(&catalog())).unwrap();
    let every = include_str!("configs/every-key.toml");
    check(every).unwrap();
    let lines: Vec<&str> = every.lines().collect();
    let mut tried = 0;
    for (position, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with(['#', '['])) else { continue };
        let mut renamed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        renamed[position] = format!("zz-{key} = {value}");
        let mut retyped = renamed.clone();
        retyped[position] = format!("{key} = [[1979-05-27]]");
        for changed in [renamed, retyped] {
            let config = Config::parse(&changed.join("\n"), "mintage.toml").unwrap();
            assert!(
                config.check(&catalog(), &Environment::default(), NOW_MS).is_err(),
                "the reader takes {}",
                changed[position]
            );
            assert!(!schema.is_valid(&json_of(config.settings())), "the schema takes {}", changed[position]);
            tried += 1;
        }
    }
    assert!(tried > 80, "{tried}");
    schema
        .validate(&json_of(Config::parse(every, "e").unwrap().settings()))
        .map_err(|error| error.to_string())
        .unwrap();
}

fn json_of(table: &[(String, Setting)]) -> serde_json::Value {
    fn value(setting: &Setting) -> serde_json::Value {
        match &setting.value {
            Value::Text(text) | Value::Time(text) => json!(text),
            Value::Integer(number) => json!(number),
            Value::Fraction(number) => json!(number),
            Value::Flag(flag) => json!(flag),
            Value::List(items) => items.iter().map(value).collect(),
            Value::Table(table) => json_of(table),
            other => panic!("a kind of value this test does not know: {other:?}"),
        }
    }
    table.iter().map(|(name, setting)| (name.clone(), value(setting))).collect()
}

// ---- whatever is thrown at it ----

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_makes_it_panic_and_every_place_lies_in_the_file(edits in prop::collection::vec(edit(), 1..6), base in 0..3usize) {
        let bases = [include_str!("../mintage.toml"), include_str!("configs/every-key.toml"), include_str!("configs/everything-wrong.toml")];
        let text = edits.into_iter().fold(bases[base].to_owned(), apply);
        places_lie_inside(&text)?;
    }

    #[test]
    fn nor_does_any_noise(text in "\\PC{0,80}") {
        places_lie_inside(&text)?;
    }

    #[test]
    fn nor_do_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        places_lie_inside(&String::from_utf8_lossy(&bytes))?;
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Delete { at: prop::sample::Index, count: usize },
    Insert { at: prop::sample::Index, text: String },
    SwapLines(prop::sample::Index, prop::sample::Index),
    RepeatLine(prop::sample::Index),
    DropLine(prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let scrap = prop_oneof![
        "[a-z0-9_.=\"'\\[\\]{}, \\t\\r\\n#éß\u{1f600}-]{1,6}",
        prop::sample::select(vec![
            "0",
            "-1",
            "99999999999999999999",
            "\"\"",
            "{}",
            "[]",
            "true",
            "1.5",
            "nan",
            "2026-01-01",
            "= ",
            "\u{feff}"
        ])
        .prop_map(str::to_owned),
    ];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 1..12usize).prop_map(|(at, count)| Edit::Delete { at, count }),
        (index(), scrap).prop_map(|(at, text)| Edit::Insert { at, text }),
        (index(), index()).prop_map(|(one, other)| Edit::SwapLines(one, other)),
        index().prop_map(Edit::RepeatLine),
        index().prop_map(Edit::DropLine),
    ]
}

fn apply(text: String, edit: Edit) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text;
    }
    match edit {
        Edit::Delete { at, count } => {
            let at = at.index(characters.len());
            characters[..at].iter().chain(characters.iter().skip(at + count)).collect()
        }
        Edit::Insert { at, text: scrap } => {
            let at = at.index(characters.len());
            let (before, after) = characters.split_at(at);
            before.iter().copied().chain(scrap.chars()).chain(after.iter().copied()).collect()
        }
        Edit::SwapLines(one, other) => {
            let count = lines.len();
            lines.swap(one.index(count), other.index(count));
            lines.join("\n")
        }
        Edit::RepeatLine(line) => {
            let line = line.index(lines.len());
            lines.insert(line, lines[line]);
            lines.join("\n")
        }
        Edit::DropLine(line) => {
            lines.remove(line.index(lines.len()));
            lines.join("\n")
        }
    }
}

fn places_lie_inside(text: &str) -> Result<(), TestCaseError> {
    let Err(errors) = check(text) else { return Ok(()) };
    prop_assert!(!errors.problems().is_empty());
    let lines: Vec<usize> = text.trim_start_matches('\u{feff}').split('\n').map(|line| line.chars().count()).collect();
    for problem in errors.problems().iter().chain(errors.warnings().list()) {
        prop_assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{:?}", problem);
        prop_assert!(!problem.path.contains('\n'), "{:?}", problem);
        let Some(at) = problem.at else { continue };
        let length = lines.get(at.line as usize - 1);
        // A fault at the end of a line stands one past its last character.
        prop_assert!(length.is_some_and(|length| (1..=length + 1).contains(&(at.column as usize))), "{:?}", problem);
    }
    prop_assert_eq!(errors.to_string().lines().count(), errors.problems().len());
    Ok(())
}

// ---- helping hands ----

/// A config with nothing wrong: one entity, one store. Five lines.
const UUIDS: &str = "version = 1\n[entities.users]\nscheme = \"uuidv7\"\n[stores.main]\nurl = \"memory:\"\n";

fn with_uuids(addition: &str) -> String {
    format!("{UUIDS}{addition}")
}

fn check(text: &str) -> Result<Checked, ConfigErrors> {
    Config::parse(text, "mintage.toml")?.check(&catalog(), &Environment::default(), NOW_MS)
}

fn refused(text: &str) -> String {
    match check(text) {
        Ok(_) => "(nothing is refused)".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for (name, keys, read) in SCHEMES {
        catalog.scheme(Stand { name, keys, read: *read });
    }
    for url_scheme in ["memory", "file", "sqlite"] {
        catalog.backend(Shelf { url_scheme });
    }
    catalog
}

// ---- stand-ins ----

type Read = fn(&mut Settings<'_>) -> Option<(Format, Needs)>;

/// A store on a server, of which only the config side is real.
#[derive(Debug)]
struct Desk;

#[async_trait]
impl BackendFactory for Desk {
    fn url_scheme(&self) -> &'static str {
        "desk"
    }

    fn promise(&self) -> &'static str {
        "a stand-in"
    }

    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn open(&self, _: &Address) -> Result<Backend, StoreError> {
        Ok(Backend::default())
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        true
    }
}

/// A scheme of which only the config side is real.
#[derive(Clone, Copy)]
struct Stand {
    name: &'static str,
    keys: &'static [Key],
    read: Read,
}

const SCHEMES: &[(&str, &[Key], Read)] = &[
    ("uuidv4", &[], plain),
    ("uuidv7", ORDERED, plain),
    ("ulid", ORDERED, plain),
    ("ksuid", ORDERED, plain),
    ("segment", SEGMENT, segment),
    ("snowflake", SNOWFLAKE, snowflake),
];

const fn key(name: &'static str, kind: KeyKind) -> Key {
    Key { name, kind, about: "A key of a stand-in." }
}

const ORDERED: &[Key] = &[key("order", KeyKind::Choice(&["strict", "thread", "time"]))];

const SEGMENT: &[Key] = &[
    key("start", KeyKind::Integer(0, i64::MAX)),
    key("range", KeyKind::OneOf(&[KeyKind::Integer(1, 1_000_000), KeyKind::Table(RANGE)])),
    key("refill_at", KeyKind::Fraction(0.0, 1.0)),
    key("sequence", KeyKind::Text),
    key("text", KeyKind::Choice(&["decimal", "base62", "crockford"])),
];

const RANGE: &[Key] = &[
    key("min", KeyKind::Integer(1, 1_000_000)),
    key("max", KeyKind::Integer(1, 1_000_000)),
    key("target", KeyKind::Duration),
];

const SNOWFLAKE: &[Key] = &[
    key("epoch", KeyKind::Time),
    key("layout", KeyKind::OneOf(&[KeyKind::Choice(&["twitter", "sonyflake"]), KeyKind::Table(LAYOUT)])),
    key("worker", KeyKind::Table(WORKER)),
    key("fallback", KeyKind::Table(FALLBACK)),
    key("clock", KeyKind::Table(CLOCK)),
    key("text", KeyKind::Choice(&["decimal", "base62", "crockford"])),
];

const LAYOUT: &[Key] = &[
    key("time", KeyKind::Integer(1, 62)),
    key("worker", KeyKind::Integer(0, 16)),
    key("sequence", KeyKind::Integer(1, 22)),
    key("unit", KeyKind::Choice(&["1ms", "10ms", "1s"])),
    key("fields", KeyKind::Texts),
];

const WORKER: &[Key] = &[
    key("pool", KeyKind::Text),
    key("id", KeyKind::Integer(0, u32::MAX as i64)),
    key("wish", KeyKind::Integer(0, u32::MAX as i64)),
    key("ordinal", KeyKind::Flag),
];

const FALLBACK: &[Key] = &[key("pool", KeyKind::Text), key("store", KeyKind::Text)];

const CLOCK: &[Key] = &[
    key("on_step", KeyKind::Choice(&["borrow", "wait", "refuse"])),
    key("on_overflow", KeyKind::Choice(&["borrow", "wait"])),
    key("max_drift", KeyKind::Duration),
    key("max_wait", KeyKind::Duration),
];

fn plain(settings: &mut Settings<'_>) -> Option<(Format, Needs)> {
    settings.choice("order", &["strict", "thread", "time"]);
    Some((Format::of("plain"), Needs::default()))
}

fn segment(settings: &mut Settings<'_>) -> Option<(Format, Needs)> {
    let start = settings.integer("start", 0..=i64::MAX).unwrap_or(1);
    let name = settings.text("sequence").map(str::to_owned).unwrap_or_else(|| settings.name().to_owned());
    let sequence = Sequence::new(name, u64::try_from(start).unwrap());
    Some((Format::of("segment").with("start", start), Needs::ranges_of(sequence)))
}

fn snowflake(settings: &mut Settings<'_>) -> Option<(Format, Needs)> {
    let (mut bits, mut unit_ms) = ([41, 10, 12], 1);
    if let Some(Value::Table(_)) = settings.get("layout").map(|setting| &setting.value) {
        let mut layout = settings.table("layout")?;
        for (slot, field) in bits.iter_mut().zip(["time", "worker", "sequence"]) {
            *slot = layout.integer(field, 0..=62).unwrap_or(*slot);
        }
        unit_ms = match layout.choice("unit", &["1ms", "10ms", "1s"]) {
            Some("10ms") => 10,
            Some("1s") => 1_000,
            _ => 1,
        };
    }
    let [time, worker, sequence] = bits;
    if time + worker + sequence > 63 {
        settings
            .refuse("layout", format!("{time}+{worker}+{sequence} is {} bits, 63 at most", time + worker + sequence));
        return None;
    }
    let format = Format::of("snowflake").with("time", time).with("worker", worker).with("sequence", sequence);
    let fallback = settings.table("fallback").and_then(|mut table| table.text("pool").map(str::to_owned));
    let Some(mut place) = settings.table("worker") else { return Some((format, Needs::default())) };
    let pool = place.text("pool").unwrap_or("main").to_owned();
    let which = match (place.integer("id", 0..=u32::MAX.into()), place.integer("wish", 0..=u32::MAX.into())) {
        (Some(id), _) => WorkerChoice::Exactly(u32::try_from(id).unwrap()),
        (_, Some(wish)) => WorkerChoice::Prefer(u32::try_from(wish).unwrap()),
        _ => WorkerChoice::Any,
    };
    let mut need = WorkerNeed::any(pool, 0..1 << worker, unit_ms);
    need.which = which;
    need.ordinal = place.flag("ordinal").unwrap_or(false);
    need.fallback = fallback;
    need.at = place.place("pool");
    Some((format, Needs::worker(need)))
}

impl fmt::Debug for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stand({})", self.name)
    }
}

impl SchemeFactory for Stand {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        "A stand-in."
    }
    fn keys(&self) -> &'static [Key] {
        self.keys
    }
    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let (format, needs) = (self.read)(settings)?;
        Some(Arc::new(Plan { info: SchemeInfo::new(self.name, Bits::Int, 63), format, needs }))
    }
}

#[derive(Clone, Debug)]
struct Plan {
    info: SchemeInfo,
    format: Format,
    needs: Needs,
}

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        &self.info
    }
    fn format(&self) -> Format {
        self.format.clone()
    }
    fn needs(&self) -> Needs {
        self.needs.clone()
    }
    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(Arc::new(self.clone()))
    }
    fn facts(&self, _: u64) -> Vec<Fact> {
        Vec::new()
    }
    async fn open(&self, _: Site) -> Result<Opened, ReadyError> {
        Ok(self.reader().into())
    }
}

#[async_trait]
impl IdScheme for Plan {
    type Bits = u64;
    fn info(&self) -> &SchemeInfo {
        &self.info
    }
    fn mint(&self) -> Result<u64, MintError> {
        Err(MintError::Closed)
    }
    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{bits}")
    }
    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        mintage_core::parse_decimal(text, 63)
    }
    fn anatomy(&self, bits: u64) -> Anatomy {
        Anatomy::number(bits)
    }
}

/// A store that is never opened.
#[derive(Debug)]
struct Shelf {
    url_scheme: &'static str,
}

#[async_trait]
impl BackendFactory for Shelf {
    fn url_scheme(&self) -> &'static str {
        self.url_scheme
    }
    fn promise(&self) -> &'static str {
        "keeps nothing"
    }
    fn check(&self, url: &str) -> Result<(), String> {
        match url.split_once(':') {
            Some((_, "")) if self.url_scheme != "memory" => {
                Err(format!("a path is missing: write {}:PATH", self.url_scheme))
            }
            _ => Ok(()),
        }
    }
    async fn open(&self, _: &Address) -> Result<Backend, StoreError> {
        Err(StoreError::new(StoreErrorKind::Unavailable, "a stand-in opens nothing"))
    }
    fn has_tables(&self) -> bool {
        self.url_scheme == "sqlite"
    }
}
