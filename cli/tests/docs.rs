//! What the documents show is tried: every command, every config, every link, every test they name.
//!
//! * A `console` block is a session of one shell per document, in a fresh folder that holds the shipped `mintage.toml`. Lines
//!   that begin with `$ ` are commands, `> ` continues one that ends in a backslash or opens a here-document, the rest is what
//!   a terminal shows. `[..]` stands for any text in a line, a line `...` for any lines. A command that fails must be
//!   followed by `$ echo $?`.
//! * A `toml` block is a config that `mintage check` accepts: a whole one if it begins with `version = 1`, else a part.
//! * A `rust` block is a documentation test of the library, so `src/lib.rs` must include its document.
//! * Links lead to files and headings that exist; `file.rs::name` is a test that exists.
//!
//! The invariant: a document that is wrong about the program fails here, and so does a block that this file cannot try.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

/// Commands that are shown but not run here, with the reason. They must not show output: nobody would check it.
const SHOWN_ONLY: &[(&str, &str)] = &[
    (".ci/run", "it runs this test"),
    ("scripts/test", "it runs this test"),
    ("cargo test", "scripts/test runs it"),
    ("cargo run --release -p mintage-hunt", "minutes of work on real servers; its test runs a short one"),
    ("MINTAGE_SIMULATOR_SEEDS=100000 cargo test", "hours of work; scripts/test runs 200 seeds"),
    ("MINTAGE_SIMULATOR_SEED=17 cargo test", "scripts/test runs other seeds"),
    ("cargo clippy", ".ci/run runs it"),
    ("cargo fmt", ".ci/run runs it"),
    ("cargo run --example", ".ci/run runs every example"),
    ("cargo bench", "minutes of work; its figures differ from machine to machine"),
    ("cargo +nightly fuzz", "it runs until it is stopped"),
    ("cargo install", "needs the network"),
    ("cargo deny", "needs the network"),
    ("cargo insta", "waits for an answer"),
];

/// What a fence may be labelled. An unlabelled one would be taken for Rust by rustdoc; `sh` blocks would go untried.
const LANGUAGES: &[&str] = &["console", "toml", "rust", "rust,no_run", "json", "sql", "text", "mermaid"];

/// Parts of a config lack what they refer to: it is added from here.
const REFERRED_TO: &[(&str, &str, &str)] = &[
    ("pool = \"main\"", "[workers.main]", "[workers.main]\nstore = \"main\"\n"),
    ("", "[stores.main]", "[stores.main]\nurl = \"sqlite:mintage.db\"\n"),
    ("", "[entities.", "[entities.users]\nscheme = \"uuidv7\"\n"),
];

/// Separates the commands in what the shell prints.
const MARK: &str = "\n\u{1}mintage-docs ";

macro_rules! documents {
    ($($test:ident: $path:literal,)*) => {
        const DOCUMENTS: &[&str] = &[$($path),*];
        $(#[test]
        fn $test() {
            let problems = try_document($path, &fs::read_to_string(root().join($path)).unwrap());
            assert!(problems.is_empty(), "\n\n{}\n", problems.join("\n\n"));
        })*
    };
}

documents! {
    readme: "README.md",
    changelog: "CHANGELOG.md",
    contributing: "CONTRIBUTING.md",
    security: "SECURITY.md",
    architecture: "docs/ARCHITECTURE.md",
    benchmarks: "docs/benchmarks.md",
    cases: "docs/cases.md",
    columns: "docs/columns.md",
    config: "docs/config.md",
    design: "docs/design.md",
    evidence: "docs/evidence.md",
    fleet: "docs/fleet.md",
    incidents: "docs/incidents.md",
    numbers: "docs/numbers.md",
    public_ids: "docs/public-ids.md",
    schemes: "docs/schemes.md",
    stores: "docs/stores.md",
    tokens: "docs/tokens.md",
}

#[test]
fn every_document_is_tried() {
    let mut found: Vec<String> = Vec::new();
    for folder in ["", "docs/"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                found.push(format!("{folder}{name}"));
            }
        }
    }
    found.sort();
    let mut listed = DOCUMENTS.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed, "add new documents to `documents!`");
}

#[test]
fn every_case_is_held() {
    let text = fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| B"))
        .map(|line| line.trim_matches('|').split('|').collect())
        .collect();
    assert!(text.contains(&format!("{} cases: ", rows.len())), "the sum is right");
    for row in rows {
        let [case, _, held] = row[..] else { panic!("{row:?} has {} cells", row.len()) };
        let named = held.contains(".rs::");
        let reason = ["cannot occur: ", "arrives with "].iter().any(|start| held.trim().starts_with(start));
        assert!(
            named || reason,
            "{case}: name the test that holds it, or why it cannot occur, or what it arrives with: {held}"
        );
    }
}

#[test]
fn every_incident_is_held_or_has_its_reason() {
    let text = fs::read_to_string(root().join("docs/incidents.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let held = |row: &&&str| row.contains(".rs::") && !row.contains("| reason: ");
    let reasons = rows.iter().filter(|row| row.contains("| reason: ")).count();
    let sum = format!(
        "{} incidents: {} held by a test, {reasons} with a reason.",
        rows.len(),
        rows.iter().filter(held).count()
    );
    assert!(text.contains(&sum), "{sum}");
    for (number, row) in (1..).zip(&rows) {
        assert!(row.starts_with(&format!("| {number} |")), "{row}");
        assert!(held(&row) || row.contains("| reason: "), "name the test that holds it, or the reason: {row}");
    }
    assert_eq!(rows.len(), 37, "the list of the design is whole");
}

#[test]
fn every_invariant_names_its_test() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    for number in 1..=13 {
        let row = text.lines().find(|line| line.starts_with(&format!("| {number} |"))).unwrap();
        assert!(row.contains(".rs::"), "{row}");
    }
}

#[test]
fn the_config_document_names_every_key_and_no_other() {
    let schema = Command::new(env!("CARGO_BIN_EXE_mintage")).arg("schema").output().unwrap();
    let mut keys = BTreeSet::new();
    collect_keys(&serde_json::from_slice(&schema.stdout).unwrap(), &mut keys);
    let text = fs::read_to_string(root().join("docs/config.md")).unwrap();
    let named: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned())).collect();
    assert_eq!(named, keys);
}

/// Editors read the file; the first line of the shipped config points at it. It names the stores of a build with all features.
#[test]
fn the_schema_in_the_repository_is_fresh() {
    let printed = Command::new(env!("CARGO_BIN_EXE_mintage")).arg("schema").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let kept = fs::read_to_string(root().join("mintage.schema.json")).unwrap();
    let fresh =
        if cfg!(feature = "full") { printed == kept } else { without_stores(&printed) == without_stores(&kept) };
    assert!(fresh, "run: cargo run --features full -- schema > mintage.schema.json");
    assert!(fs::read_to_string(root().join("mintage.toml")).unwrap().starts_with("#:schema ./mintage.schema.json\n"));
}

/// A schema without the lines that name the kinds of store, of which a build may have fewer.
fn without_stores(schema: &str) -> Vec<&str> {
    schema.lines().filter(|line| !(line.contains("\"pattern\"") && line.contains("|memory|"))).collect()
}

/// The tables that compare the schemes say of odds, sizes and ends what `explain` says.
#[test]
fn the_scheme_document_says_what_explain_says() {
    const SNOWFLAKES: [&str; 4] = ["twitter", "sonyflake", "region-2-8", "js53"];
    const OTHERS: [&str; 5] = ["segment", "uuidv7", "ulid", "ksuid", "uuidv4"];
    let mut config = "version = 1\nworkers.main = {}\nstores.main = { url = \"sqlite:mintage.db\" }\n".to_owned();
    for (number, preset) in SNOWFLAKES.iter().enumerate() {
        let settings = format!("scheme = \"snowflake\"\nlayout = \"{preset}\"\nworker = {{ pool = \"main\" }}\n");
        write!(config, "[entities.preset_{number}]\n{settings}").unwrap();
    }
    OTHERS.iter().for_each(|scheme| write!(config, "[entities.{scheme}]\nscheme = \"{scheme}\"\n").unwrap());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mintage.toml"), config).unwrap();

    let document = fs::read_to_string(root().join("docs/schemes.md")).unwrap();
    let presets = SNOWFLAKES.iter().enumerate().map(|(number, preset)| (format!("preset_{number}"), *preset));
    let mut compared = 0;
    for (entity, name) in presets.chain(OTHERS.map(|scheme| (scheme.to_owned(), scheme))) {
        let explain = Command::new(env!("CARGO_BIN_EXE_mintage"))
            .args(["explain", &entity, "-o", "json"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let told: Value = serde_json::from_slice(&explain.stdout).unwrap();
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with(&format!("| `{name}` |"))).collect();
        let rows = rows.join("\n");
        for fact in told["facts"].as_array().unwrap() {
            let (name, text) = (fact["name"].as_str().unwrap(), fact["text"].as_str().unwrap());
            // Presets have no column of their own.
            for figure in figures(name, text).iter().filter(|_| name != "storage" || OTHERS.contains(&entity.as_str()))
            {
                assert!(rows.contains(figure), "explain says {figure:?}: {text}\n{rows}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 19, "every figure is found: 7 ends, 7 odds, 5 sizes");
}

/// The figures of a fact that the document repeats, as it writes them.
fn figures(name: &str, text: &str) -> Vec<String> {
    let until = |rest: &str, end: &str| rest.split(end).next().unwrap().to_owned();
    match name {
        "life" => vec![until(text.strip_prefix("lasts until ").unwrap(), ",")],
        "uniqueness" => {
            text.split("1 in ").skip(1).map(|odds| format!("1 in {}", until(&until(odds, " ("), ";"))).collect()
        }
        "storage" => {
            let (key, index) = text.split_once(" bytes a row, about ").unwrap();
            vec![format!("| {key} | {}", until(index, " an index"))]
        }
        _ => Vec::new(),
    }
}

/// The names of all properties in a JSON Schema.
fn collect_keys(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            for (name, inner) in object {
                if let (true, Some(properties)) = (name == "properties", inner.as_object()) {
                    keys.extend(properties.keys().cloned());
                }
                collect_keys(inner, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        _ => {}
    }
}

// --- the runner -------------------------------------------------------------------------------------------------------

struct Block<'a> {
    language: &'a str,
    line: usize,
    text: Vec<&'a str>,
}

struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Tries all of a document and says what is wrong with it.
fn try_document(name: &str, markdown: &str) -> Vec<String> {
    let (blocks, prose) = split(markdown);
    let mut problems = Vec::new();
    let mut session = Vec::new();
    for block in &blocks {
        let place = format!("{name}:{}", block.line);
        match block.language {
            "console" => match steps(block) {
                Ok(steps) => session.extend(steps),
                Err(problem) => problems.push(format!("{place}: {problem}")),
            },
            "toml" => problems.extend(try_config(block).map(|problem| format!("{place}: {problem}"))),
            language if language.starts_with("rust") && !included(name) => {
                problems.push(format!("{place}: src/lib.rs does not include {name}, so this block is never compiled"));
            }
            _ => {}
        }
        if !LANGUAGES.contains(&block.language) {
            problems.push(format!("{place}: a block labelled {:?}; use one of {LANGUAGES:?}", block.language));
        }
    }
    problems.extend(try_session(name, &session));
    for (line, text) in prose {
        problems.extend(links(name, text).into_iter().map(|problem| format!("{name}:{line}: {problem}")));
        problems.extend(named_tests(text).into_iter().map(|problem| format!("{name}:{line}: {problem}")));
    }
    problems
}

/// Fenced blocks, and the numbered lines outside of them.
fn split(markdown: &str) -> (Vec<Block<'_>>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose): (Vec<Block<'_>>, _) = (Vec::new(), Vec::new());
    let mut inside = false;
    for (number, line) in (1..).zip(markdown.lines()) {
        match (line.trim_start().strip_prefix("```"), inside) {
            (Some(language), false) => {
                blocks.push(Block { language: language.trim(), line: number, text: Vec::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => blocks.last_mut().unwrap().text.push(line),
            (None, false) => prose.push((number, line)),
        }
    }
    (blocks, prose)
}

fn steps(block: &Block<'_>) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (block.line + 1..).zip(&block.text) {
        if let Some(command) = text.strip_prefix("$ ") {
            steps.push(Step { line, command: command.to_owned(), expected: Vec::new() });
            continue;
        }
        let step = steps.last_mut().ok_or("the block does not begin with a command: `$ …`")?;
        let continues = step.expected.is_empty() && (step.command.ends_with('\\') || step.command.contains("<<"));
        match text.strip_prefix("> ").or((*text == ">").then_some("")) {
            Some(more) if continues => {
                step.command.push('\n');
                step.command.push_str(more);
            }
            _ => step.expected.push(text.trim_end().to_owned()),
        }
    }
    Ok(steps)
}

/// Runs the commands of a document in one shell and compares what they print.
fn try_session(name: &str, steps: &[Step]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut script = String::from("exec 2>&1\n__status=0\n");
    let mut run: Vec<&Step> = Vec::new();
    for step in steps {
        match SHOWN_ONLY.iter().find(|(prefix, _)| begins_with_words(&step.command, prefix)) {
            Some(_) if step.expected.is_empty() => {}
            Some((prefix, reason)) => problems.push(format!(
                "{name}:{}: `{prefix}` is not run here ({reason}), so it must not show output",
                step.line
            )),
            None => {
                run.push(step);
                writeln!(script, "(exit $__status)\n{}\n__status=$?; printf '{MARK}%d\\n' $__status", step.command)
                    .unwrap();
            }
        }
    }
    if run.is_empty() {
        return problems;
    }
    let printed = shell(&script);
    let mut parts = printed.split(MARK);
    let mut output = parts.next().unwrap_or_default();
    for (step, next) in run.iter().zip(run.iter().skip(1).map(Some).chain([None])) {
        let place = format!("{name}:{}: `{}`", step.line, step.command);
        let Some((status, rest)) = parts.next().and_then(|part| part.split_once('\n')) else {
            problems.push(format!("{place} ended the shell:\n{output}"));
            break;
        };
        let actual: Vec<&str> = output.lines().map(str::trim_end).collect();
        let actual = &actual[..actual.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1)];
        let expected: Vec<&str> = step.expected.iter().map(String::as_str).collect();
        let expected = &expected[..expected.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1)];
        if !matches(expected, actual) {
            problems.push(format!("{place}\n--- shown\n{}\n--- printed\n{}", expected.join("\n"), actual.join("\n")));
        } else if status != "0" && next.is_none_or(|next| next.command != "echo $?") {
            problems.push(format!("{place} failed with exit code {status}: show `$ echo $?` after it if it should"));
        }
        output = rest;
    }
    problems
}

fn begins_with_words(command: &str, prefix: &str) -> bool {
    command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What a fresh shell prints, both streams as a terminal shows them.
fn shell(script: &str) -> String {
    let tools = tempfile::tempdir().unwrap();
    let cargo = tools.path().join("cargo");
    fs::write(
        &cargo,
        "#!/usr/bin/env bash\n\
         case \"$*\" in\n\
         'run --release -- '*) shift 3 ;;\n\
         'run -- '*) shift 2 ;;\n\
         *) echo \"the test of the documents cannot run: cargo $*\"; exit 99 ;;\n\
         esac\n\
         exec mintage \"$@\"\n",
    )
    .unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_mintage"), tools.path().join("mintage")).unwrap();
    fs::write(tools.path().join("session"), script).unwrap();

    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join("mintage.toml"), folder.path().join("mintage.toml")).unwrap();
    let output = Command::new("bash")
        .arg(tools.path().join("session"))
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", tools.path().display()))
        .env("HOME", folder.path())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Whether the lines printed are those shown, with `...` for any lines and `[..]` for any text in one.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| line_matches(line, first) && matches(rest, others))
        }
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let Some((start, mut pattern)) = shown.split_once("[..]") else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(start) else { return false };
    while let Some((piece, more)) = pattern.split_once("[..]") {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        pattern = more;
    }
    rest.ends_with(pattern)
}

/// Lets `mintage check` read a config; says what it complains of.
fn try_config(block: &Block<'_>) -> Option<String> {
    let mut text = block.text.join("\n");
    let first = block.text.iter().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if first.is_none_or(|line| *line != "version = 1") {
        for (reference, header, table) in REFERRED_TO {
            if text.contains(reference) && !text.contains(header) {
                text = format!("{text}\n\n{table}");
            }
        }
        text = format!("version = 1\nrealm = \"live\"\n\n{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mintage.toml"), &text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mintage")).arg("check").current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    (!output.status.success()).then(|| format!("`mintage check` refuses this config:\n{told}\n{text}"))
}

/// Whether the library includes a document as documentation.
fn included(name: &str) -> bool {
    fs::read_to_string(root().join("src/lib.rs")).unwrap().contains(&format!("include_str!(\"../{name}\")"))
}

/// Links of a line that lead nowhere.
fn links(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { root().join(name) } else { root().join(name).parent().unwrap().join(file) };
        if !path.exists() {
            problems.push(format!("the link to {target} leads nowhere"));
        } else if !heading.is_empty() && !fs::read_to_string(&path).unwrap().lines().any(|line| anchor(line) == heading)
        {
            problems.push(format!("the link to {target}: no such heading"));
        }
    }
    problems
}

/// What a heading is called in links: lower case, spaces as hyphens, no other punctuation.
fn anchor(line: &str) -> String {
    let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim()) else {
        return String::new();
    };
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

/// Tests named in a line as `file.rs::name` that do not exist.
fn named_tests(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter_map(|code| {
        let (file, test) = code.split_once(".rs::")?;
        let source = fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
        let exists = source.contains(&format!("fn {test}("));
        (!exists).then(|| format!("there is no test `{code}`"))
    })
    .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

// --- the runner itself ------------------------------------------------------------------------------------------------

#[test]
fn the_runner_accepts_what_is_right() {
    let right = "```console\n\
        $ echo one; echo two\none\ntwo\n\
        $ echo 'at 12:30:01 of worker 7'\nat [..]:[..] of worker [..]\n\
        $ printf 'a\\nb\\nc\\nd'\na\n...\nd\n\
        $ false\n$ echo $?\n1\n\
        $ cat <<END\n> kept\n> END\nkept\n\
        $ here=there \\\n>   ; mkdir $here && cd $here\n\
        ```\nprose\n```console\n$ basename $PWD\nthere\n$ scripts/test\n```\n";
    assert_eq!(try_document("README.md", right), Vec::<String>::new());
}

#[test]
fn the_runner_refuses_what_is_wrong() {
    for (fault, document) in [
        ("--- printed\ntwo", "```console\n$ echo two\none\n```"),
        ("--- printed\ntwo", "```console\n$ echo two\n```"),
        ("--- shown\none", "```console\n$ true\none\n```"),
        ("--- shown\na\n...\nd", "```console\n$ printf 'a\\nb\\nc'\na\n...\nd\n```"),
        ("exit code 1", "```console\n$ false\n```"),
        ("exit code 3", "```console\n$ (exit 3)\n$ true\n```"),
        ("ended the shell", "```console\n$ exit 0\n$ true\n```"),
        ("cannot run: cargo publish", "```console\n$ cargo publish\n```"),
        ("must not show output", "```console\n$ scripts/test\n9 passed, 0 failed, 0 skipped\n```"),
        ("does not begin with a command", "```console\none\n```"),
        ("labelled \"sh\"", "```sh\necho one\n```"),
        ("labelled \"\"", "```\nlet it = 1;\n```"),
        ("labelled \"rust,ignore\"", "```rust,ignore\nlet it = 1;\n```"),
        ("refuses this config", "```toml\nversion = 1\nrealm = \"live\"\nsurprise = true\n```"),
        ("refuses this config", "```toml\n[entities.x]\nscheme = \"snowflak\"\n```"),
        ("never compiled", "```rust\nlet it = 1;\n```"),
        ("leads nowhere", "see [there](docs/nowhere.md)"),
        ("no such heading", "see [there](docs/nowhere.md#x) and [here](CHANGELOG.md#no-such-heading)"),
        ("there is no test", "held by `cli/tests/docs.rs::no_such_test`"),
    ] {
        // A document that the library does not include.
        let problems = try_document("CHANGELOG.md", document);
        assert!(
            problems.iter().any(|problem| problem.contains(fault)),
            "{document}\nshould say: {fault}\nsays: {problems:#?}"
        );
    }
}

#[test]
fn the_shim_runs_the_program() {
    let session = "```console\n$ cargo run --release -- --version\nmintage [..]\n```";
    assert_eq!(try_document("README.md", session), Vec::<String>::new());
}
