//! The shape of the house, executed: which crate may know which, where time is read, where unsafe code lives.
//!
//! docs/ARCHITECTURE.md states the rules for people. A new edge between crates is the most scrutinised change here, so it
//! needs a line in [`MAY_DEPEND_ON`] as well.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// What each crate may use, development aside.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("mintage-core", &["async-trait", "rustix", "serde", "thiserror"]),
    (
        "mintage-schemes",
        &[
            "arc-swap",
            "async-trait",
            "libc",
            "mintage-core",
            "rand",
            "svix-ksuid",
            "thiserror",
            "tokio",
            "ulid",
            "uuid",
        ],
    ),
    (
        "mintage-backends",
        &[
            "async-trait",
            "base64ct",
            "etcd-client",
            "mintage-core",
            "redis",
            "rustls",
            "rustls-native-certs",
            "serde",
            "serde_json",
            "sqlx",
            "thiserror",
            "tokio",
            "zookeeper-client",
        ],
    ),
    (
        "mintage",
        &[
            "aes",
            "aes-siv",
            "async-trait",
            "base64ct",
            "crc32fast",
            "hkdf",
            "hmac",
            "jiff",
            "metrics",
            "mintage-backends",
            "mintage-core",
            "mintage-schemes",
            "rand",
            "serde",
            "serde_json",
            "sha2",
            "sqlx",
            "strsim",
            "subtle",
            "svix-ksuid",
            "thiserror",
            "tokio",
            "toml",
            "tracing",
            "ulid",
            "uuid",
            "zeroize",
        ],
    ),
    ("mintage-cli", &["clap", "clap_complete", "jiff", "mintage", "serde_json", "tokio"]),
    ("mintage-benches", &[]),
    // Everything: it is a fleet of applications, and the servers they use.
    (
        "mintage-hunt",
        &[
            "async-trait",
            "libc",
            "mintage",
            "mintage-backends",
            "mintage-core",
            "mintage-schemes",
            "mintage-servers-for-tests",
            "tempfile",
            "tokio",
        ],
    ),
    // The files of schemes themselves, compiled around the atomics of loom.
    ("mintage-interleavings", &["async-trait", "loom", "mintage-core", "mintage-schemes", "thiserror", "tokio"]),
    // Knows nothing of ours: it starts servers for the tests of stores that talk to one.
    ("mintage-servers-for-tests", &["serde_json", "tempfile", "tokio"]),
];

/// What only some systems have, and the condition it must stand behind.
const ONLY_WHERE: &[(&str, &str)] = &[("rustix", r#"cfg(target_os = "linux")"#), ("libc", "cfg(unix)")];

/// The one place of each thing that must have one place.
const CLOCK: &str = "core/src/clock.rs";
const FORK: &str = "schemes/src/fork.rs";

/// Process-wide state, each with why it is none of the registry's.
const STATICS: &[(&str, &str)] = &[
    (CLOCK, "the origin of the portable monotonic clock"),
    (FORK, "the page that the system wipes in a forked child"),
    ("schemes/src/entropy.rs", "random bytes in stock for each thread, dropped in a forked child"),
    ("schemes/src/places.rs", "a number for each thread, by which it finds its place in every minter"),
];

const NETWORK_CLIENTS: &[&str] = &[
    "hyper",
    "reqwest",
    "tonic",
    "h2",
    "rustls",
    "native-tls",
    "openssl",
    "redis",
    "etcd-client",
    "zookeeper-client",
    "sqlx-postgres",
    "sqlx-mysql",
];

#[test]
fn crates_depend_only_on_what_they_may() {
    let crates = crates();
    let known: BTreeSet<&str> = MAY_DEPEND_ON.iter().map(|(name, _)| *name).collect();
    let there: BTreeSet<&str> = crates.iter().map(|package| text(package, "name")).collect();
    assert_eq!(there, known, "every crate of the workspace has a line in MAY_DEPEND_ON");
    for package in &crates {
        let allowed = MAY_DEPEND_ON.iter().find(|(name, _)| *name == text(package, "name")).unwrap().1;
        for dependency in dependencies(package).filter(|dependency| dependency["kind"].is_null()) {
            let name = text(dependency, "name");
            assert!(allowed.contains(&name), "{} may not depend on {name}", text(package, "name"));
        }
    }
}

#[test]
fn schemes_and_backends_do_not_know_each_other() {
    for package in crates() {
        let forbidden = match text(&package, "name") {
            "mintage-schemes" => "mintage-backends",
            "mintage-backends" => "mintage-schemes",
            "mintage-core" => "mintage",
            _ => continue,
        };
        // Tests too: what only a test couples is coupled.
        let found = dependencies(&package).any(|dependency| {
            let name = text(dependency, "name");
            name == forbidden || (forbidden == "mintage" && name.starts_with(forbidden))
        });
        assert!(!found, "{} depends on {forbidden}", text(&package, "name"));
    }
}

#[test]
fn what_one_system_lacks_stands_behind_a_condition() {
    for package in crates() {
        for dependency in dependencies(&package).filter(|dependency| dependency["kind"].is_null()) {
            if let Some((name, condition)) = ONLY_WHERE.iter().find(|(name, _)| *name == text(dependency, "name")) {
                assert_eq!(dependency["target"], *condition, "{} uses {name} everywhere", text(&package, "name"));
            }
        }
    }
}

#[test]
fn every_crate_keeps_the_lints_and_versions_of_the_workspace() {
    for package in crates() {
        let manifest = fs::read_to_string(text(&package, "manifest_path")).unwrap();
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{} has lints of its own", text(&package, "name"));
        let package_part =
            manifest.split("\n[package]\n").nth(1).or_else(|| manifest.strip_prefix("[package]\n")).unwrap();
        let mut section = "";
        for line in package_part.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.ends_with("dependencies]") && !line.is_empty() && !line.starts_with('#') {
                assert!(
                    line.contains(".workspace = true") || line.contains("workspace = true"),
                    "{}: `{line}` sets a version of its own",
                    text(&package, "name")
                );
            }
        }
    }
}

#[test]
fn the_default_build_has_no_network_client() {
    let tree = cargo(&["tree", "-e", "normal", "-p", "mintage", "--prefix", "none", "--format", "{p}"]);
    let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("sqlx-sqlite"), "the default build has SQLite: {crates:?}");
    let found: Vec<_> = NETWORK_CLIENTS.iter().filter(|client| crates.contains(*client)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn every_licence_is_accepted() {
    let rules = read("deny.toml");
    let accepted: Vec<&str> =
        rules.split("allow = [").nth(1).unwrap().split(']').next().unwrap().split('"').skip(1).step_by(2).collect();
    let tree =
        cargo(&["tree", "--workspace", "--all-features", "-e", "normal,build", "--prefix", "none", "-f", "{p}\t{l}"]);
    for line in tree.lines().filter(|line| !line.is_empty() && !line.ends_with("(*)")) {
        let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
        let fits = licence
            .replace('/', " OR ")
            .split(" OR ")
            .any(|choice| choice.split(" AND ").all(|part| accepted.contains(&part.trim_matches(['(', ')', ' ']))))
            || accepts_all_of(licence, &accepted);
        assert!(fits, "{package} is under {licence:?}: accept it in deny.toml or leave it out");
    }
}

#[test]
fn core_does_no_io_and_spawns_nothing() {
    for source in production().iter().filter(|source| source.path.starts_with("core/src")) {
        for word in ["std::fs", "std::net", "std::process", "std::thread", "std::env", "tokio::", "println!"] {
            assert!(!source.code.contains(word), "{}: {word}", source.path);
        }
    }
}

#[test]
fn time_is_read_in_one_file() {
    for source in production().iter().filter(|source| source.path != CLOCK) {
        // The run time's own clock, which tests can pause, serves waiting and nothing else.
        let code = source.code.replace("tokio::time::Instant::now", "");
        for word in ["SystemTime::now", "Instant::now", "clock_gettime", "Timestamp::now", "Zoned::now", "now_v7("] {
            assert!(!code.contains(word), "{}: {word}: time comes from `Clock`", source.path);
        }
    }
    assert!(read(CLOCK).contains("SystemTime::now"), "the rule watches the right file");
}

#[test]
fn unsafe_code_lives_in_one_module() {
    let with_unsafe: Vec<String> = production()
        .into_iter()
        .filter(|source| source.code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe"))
        .map(|source| source.path)
        .collect();
    assert_eq!(with_unsafe, [FORK]);
}

#[test]
fn nothing_is_global() {
    const CHANGES: &[&str] = &["Atomic", "Cell", "Lock", "Mutex", "Swap", "Lazy", "static mut"];
    let mut met = BTreeSet::new();
    for source in production() {
        let found = source.code.lines().map(str::trim_start).find(|line| {
            let item = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            item.starts_with("thread_local!")
                || item.starts_with("static ") && CHANGES.iter().any(|change| item.contains(change))
        });
        if let Some(line) = found {
            let known = STATICS.iter().any(|(path, _)| *path == source.path);
            assert!(known, "{}: `{line}` outlives every registry", source.path);
            met.insert(source.path);
        }
    }
    assert_eq!(met.len(), STATICS.len(), "each exception is still needed: {met:?}");
}

/// Methods with defaults are forgotten without a word: whatever wraps a store passes on all of them.
#[test]
fn what_wraps_a_store_passes_everything_on() {
    for (home, name, wrappers) in [
        (
            "core/src/range.rs",
            "RangeStore",
            &[("src/registry/seen.rs", "Ranges"), ("src/registry/shares.rs", "Late")][..],
        ),
        (
            "core/src/lease.rs",
            "LeaseStore",
            &[
                ("src/registry/seen.rs", "Leases"),
                ("src/registry/later.rs", "Later"),
                ("tests/hunt/src/mutant.rs", "Unbounded"),
            ],
        ),
        ("core/src/plugin.rs", "BackendFactory", &[("src/registry/seen.rs", "Remembering")]),
    ] {
        let methods = functions_in(home, &format!("pub trait {name}: "));
        assert!(methods.len() > 5, "{name}: {methods:?}");
        for (file, wrapper) in wrappers {
            let passed_on = functions_in(file, &format!("impl {name} for {wrapper} "));
            let forgotten: Vec<&String> = methods.difference(&passed_on).collect();
            assert!(forgotten.is_empty(), "{file}: {wrapper} does not pass on {forgotten:?} of {name}");
        }
    }
}

#[test]
fn features_only_add() {
    for source in production() {
        assert!(!source.code.contains("not(feature"), "{}: code that a feature takes away", source.path);
    }
}

#[test]
fn every_exception_gives_its_reason() {
    // Written in two halves, or this file would find itself.
    let (allow, expect) = (concat!("[", "allow("), concat!("[", "expect("));
    for path in rust_files() {
        let code = without_comments(&read(&path));
        assert!(!code.contains(allow), "{path}: `expect` with a reason, not `allow`");
        for attribute in code.split(expect).skip(1) {
            let attribute = attribute.split(")]").next().unwrap_or_default();
            assert!(attribute.contains("reason ="), "{path}: an exception without a reason: {attribute}");
        }
    }
}

#[test]
fn names_say_what_things_are() {
    for path in rust_files() {
        let stem = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        let empty = ["utils", "util", "common", "helper", "helpers", "manager", "interface", "misc"].contains(&stem);
        assert!(!empty, "{path}: a name that says nothing");
    }
    for source in production() {
        assert!(!source.code.contains("fn get_"), "{}: `get_` says nothing", source.path);
    }
}

#[test]
fn a_stranger_needs_two_commands() {
    let readme = read("README.md");
    assert!(readme.contains("$ cargo run --release -- new orders") && readme.contains("$ scripts/test"));
    let workspace = read("Cargo.toml");
    assert!(workspace.contains(r#"default-members = ["cli"]"#), "`cargo run` finds the program");
    let program = crates().into_iter().find(|package| text(package, "name") == "mintage-cli").unwrap();
    let binaries: Vec<&str> = program["targets"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|target| target["kind"][0] == "bin")
        .map(|target| text(target, "name"))
        .collect();
    assert_eq!(binaries, ["mintage"], "and no second one to choose from");
    for script in ["scripts/test", ".ci/run"] {
        assert!(read(script).starts_with("#!/usr/bin/env bash\n"), "{script}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(root().join(script)).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0o111, "{script} is executable");
        }
    }
}

#[test]
fn the_least_rust_version_is_stated_once() {
    let workspace = read("Cargo.toml");
    let version = workspace.split("\nrust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    for package in crates() {
        assert_eq!(package["rust_version"], version, "{}", text(&package, "name"));
    }
    for document in ["README.md", "CONTRIBUTING.md"] {
        let text = read(document);
        let stated: Vec<&str> = text
            .split("Rust 1.")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap())
            .collect();
        assert!(
            !stated.is_empty() && stated.iter().all(|minor| format!("1.{minor}") == version),
            "{document}: {stated:?}"
        );
    }
}

// --- reading the house ------------------------------------------------------------------------------------------------

struct Source {
    path: String,
    code: String,
}

/// The code that runs in production: no comments, no test modules, no test kit.
fn production() -> Vec<Source> {
    let of_a_crate = |path: &str| {
        path.starts_with("src/")
            || ["core", "schemes", "backends", "cli"].iter().any(|folder| path.starts_with(&format!("{folder}/src/")))
    };
    let for_tests = |path: &str| path.contains("/testkit") || path.ends_with("/tests.rs") || path.contains("/tests/");
    let sources: Vec<Source> = rust_files()
        .into_iter()
        .filter(|path| of_a_crate(path) && !for_tests(path))
        .map(|path| Source { code: without_comments(without_tests(&read(&path))), path })
        .collect();
    assert!(sources.len() > 20, "the walk finds the sources: {}", sources.len());
    sources
}

/// A file up to its test module, which stands last.
/// The names of the functions in the block that begins so.
fn functions_in(file: &str, head: &str) -> BTreeSet<String> {
    let text = without_comments(&read(file));
    let block = text.split_once(head).unwrap_or_else(|| panic!("{file} has no `{head}`")).1;
    // Formatted code: the block ends with the first brace at the beginning of a line.
    let block = block.split("\n}").next().unwrap();
    let names = block.split("fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap().to_owned());
    names.collect()
}

fn without_tests(text: &str) -> &str {
    let mut from = 0;
    while let Some(at) = text[from..].find("\n#[cfg(test)]\n").map(|at| from + at) {
        let item = text[at + 1..].lines().find(|line| !line.starts_with("#[")).unwrap_or_default();
        if item.starts_with("mod ") {
            return &text[..at];
        }
        from = at + 1;
    }
    text
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn rust_files() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    walk(&path, found);
                }
            } else if name.ends_with(".rs") {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort();
    found
}

fn accepts_all_of(licence: &str, accepted: &[&str]) -> bool {
    // `(A OR B) AND C`
    !licence.is_empty()
        && licence
            .split(" AND ")
            .all(|part| part.split(" OR ").any(|one| accepted.contains(&one.trim_matches(['(', ')', ' ']))))
}

fn crates() -> Vec<Value> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().unwrap().iter()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

/// What cargo prints. Offline: all it needs was there to build this test.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
