//! Hunts on one store after the other, prints what it finds, and keeps the table in `docs/evidence.md`.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use tokio::{runtime::Runtime, time::Instant};

use crate::{
    fleet::faketime,
    mutant::Mutant,
    nemesis::{self, Hunted},
    settings::Settings,
    store::{Kind, version_in},
};

const BEGIN: &str = "<!-- hunt: begin -->";
const END: &str = "<!-- hunt: end -->";

/// All that is asked for. Fails if an id was made twice, if a wrong rule got away, or if a store could not be hunted on.
pub(crate) fn hunt(settings: &Settings) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        eprintln!("no runtime");
        return ExitCode::FAILURE;
    };
    // Asked at the start: a long hunt may see the next commit.
    let origin = origin(settings);
    println!("{origin}");
    let mut is_well = true;
    let mut rows = Vec::new();
    for kind in &settings.stores {
        println!("{}: {} s, seed {}", kind.name(), settings.seconds, settings.seed);
        match once(*kind, settings, settings.seed, None, &runtime) {
            Some(hunted) => {
                is_well &= hunted.catch.duplicates == 0 && hunted.recovered && hunted.catch.ids > 0;
                tell(&hunted);
                rows.push((*kind, hunted));
            }
            // What is missing has said so. A store that is asked for and not there is no success.
            None => is_well = false,
        }
    }
    let table = table(&rows);
    println!("\n{table}");
    let mut caught = String::new();
    if settings.mutants || settings.short {
        let (text, all) = mutants(settings, &runtime);
        println!("\n{text}");
        caught = text;
        is_well &= all;
    }
    if settings.writes_the_table {
        is_well &= keep(&format!("{origin}\n\n{table}\n{caught}"));
    }
    println!("{}", if is_well { "nothing was made twice" } else { "NOT WELL: see above" });
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Hunts in a folder of its own, which stays if something was found.
fn once(kind: Kind, settings: &Settings, seed: u64, mutant: Option<Mutant>, runtime: &Runtime) -> Option<Hunted> {
    let folder = tempfile::Builder::new().prefix("mintage-hunt-").tempdir().ok()?;
    let hunted = nemesis::hunt(kind, settings, seed, mutant, folder.path(), runtime)?;
    let strange = hunted.catch.duplicates > 0 || hunted.catch.ids == 0 || !hunted.recovered;
    if strange && mutant.is_none() {
        println!("  its files are kept: {}", folder.keep().display());
    }
    Some(hunted)
}

/// Each wrong rule on a store where it can show, by several seeds. Returns a table, and whether enough of them found it.
fn mutants(settings: &Settings, runtime: &Runtime) -> (String, bool) {
    let mut text =
        String::from("| wrong rule | store | what befalls it | caught | duplicates |\n|---|---|---|---|---|\n");
    let (mut all, mut found, mut tried) = (true, 0, 0);
    let began = Instant::now();
    let (rules, seeds, enough) = if settings.short {
        // One is enough to show that the hunt sees: it ends with the first that finds it.
        (&[Mutant::LeaseOnly][..], settings.mutant_seeds, 1)
    } else {
        (&Mutant::ALL[..], settings.mutant_seeds, settings.mutant_seeds / 2 + 1)
    };
    for mutant in rules {
        let (mut caught, mut duplicates) = (0, 0);
        for seed in 1..=seeds {
            if settings.short && caught >= enough {
                break;
            }
            println!("{}, seed {seed}", mutant.name());
            let mut brief = settings.clone();
            brief.seconds = mutant.seconds();
            brief.ids = 0;
            tried += 1;
            if let Some(hunted) = once(mutant.store(), &brief, seed, Some(*mutant), runtime) {
                println!(
                    "  {} ids, {} twice: {:?}; {} kills, {} failovers",
                    hunted.catch.ids, hunted.catch.duplicates, hunted.catch.examples, hunted.kills, hunted.failovers
                );
                caught += u64::from(hunted.catch.duplicates > 0);
                duplicates += hunted.catch.duplicates;
            }
        }
        all &= caught >= enough;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {caught} of {seeds} seeds | {duplicates} |",
            mutant.name(),
            mutant.store().name(),
            mutant.faults()
        );
        found += caught;
    }
    let seconds = began.elapsed().as_secs();
    let _ = writeln!(
        text,
        "\nWrong rules found: by {found} of {tried} seeds, in {seconds} s. Each meets faults of its own, not those above."
    );
    (text, all)
}

fn tell(hunted: &Hunted) {
    println!("  {} ids, {} twice {:?}", hunted.catch.ids, hunted.catch.duplicates, hunted.catch.examples);
    for trouble in &hunted.trouble {
        println!("  ! {trouble}");
    }
}

fn table(rows: &[(Kind, Hunted)]) -> String {
    let mut text = String::from(
        "| store | s | ids checked | duplicates | claims per worker id | kills, restarts, forks | pauses, longest | clock steps, \
         largest | partitions, by cable | server crashes, pauses | failovers | availability | recovery p50, p99 |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (kind, hunted) in rows {
        let claims = match (hunted.claims.iter().min(), hunted.claims.iter().max()) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "?".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {claims} | {}, {}, {} | {}, {} ms | {}, {} ms | {}, {} | {}, {} | {} | {:.1} % | {} ms, {} ms |",
            kind.name(),
            hunted.seconds,
            hunted.catch.ids,
            hunted.catch.duplicates,
            hunted.kills,
            hunted.restarts,
            hunted.catch.forks,
            hunted.pauses,
            hunted.longest_pause_ms,
            hunted.steps,
            hunted.largest_step_ms,
            hunted.partitions,
            hunted.cables,
            hunted.store_crashes,
            hunted.store_pauses,
            hunted.failovers,
            100.0 * hunted.catch.availability(),
            hunted.catch.recovery_ms(0.5),
            hunted.catch.recovery_ms(0.99),
        );
    }
    let ids: u64 = rows.iter().map(|(_, hunted)| hunted.catch.ids).sum();
    let duplicates: u64 = rows.iter().map(|(_, hunted)| hunted.catch.duplicates).sum();
    let _ = writeln!(text, "\n{ids} ids in all, {duplicates} of them twice.");
    text
}

/// With what it was done.
fn origin(settings: &Settings) -> String {
    // No tag: the commit itself, and whether the tree was another.
    let mut describe = Command::new("git");
    let commit = describe.args(["describe", "--always", "--dirty", "--exclude=*"]).current_dir(root());
    let commit = commit.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let commit = commit.unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut versions = vec![
        format!("rustc {}", version_in("rustc --version")),
        format!("kernel {}", version_in("uname -r")),
        match faketime() {
            Some(_) => format!("libfaketime {}", version_in("faketime --version")),
            None => "no libfaketime, so no clock steps".to_owned(),
        },
    ];
    versions.extend(settings.stores.iter().map(|kind| kind.version()));
    // Alone or as several: it is one program.
    versions.dedup();
    format!(
        "Commit {commit}, seed {}, {} processes, {cores} cores, a {} build{}. {}.",
        settings.seed,
        settings.processes,
        if cfg!(debug_assertions) { "debug" } else { "release" },
        settings.beside.as_ref().map(|beside| format!(", while {beside} ran beside it")).unwrap_or_default(),
        versions.join(", ")
    )
}

/// Puts the report between the marks of the document.
fn keep(report: &str) -> bool {
    let path = root().join("docs/evidence.md");
    let Ok(text) = fs::read_to_string(&path) else { return false };
    let Some((before, rest)) = text.split_once(BEGIN) else { return false };
    let Some((_, after)) = rest.split_once(END) else { return false };
    fs::write(path, format!("{before}{BEGIN}\n{}\n{END}{after}", report.trim_end())).is_ok()
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
