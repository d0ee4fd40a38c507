//! Measuring, and the table of medians and ratios at the end.

use std::{
    fs,
    hint::black_box,
    io::Write,
    path::PathBuf,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use criterion::Criterion;

/// How many threads share a minter where several do. More than the cores of a small machine would measure its scheduler.
const THREADS: u64 = 2;

/// Everything measured in one run.
pub(crate) struct Run {
    criterion: Criterion,
    folder: PathBuf,
    rows: Vec<Row>,
}

struct Row {
    group: String,
    name: String,
    /// How many ids one iteration makes.
    ids: usize,
}

impl Run {
    pub(crate) fn new() -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("criterion");
        // What an earlier run has left would pass for measured now.
        let _ = fs::remove_dir_all(&folder);
        let criterion = Criterion::default()
            .output_directory(&folder)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(800))
            .sample_size(30)
            .nresamples(2_000)
            .without_plots()
            .configure_from_args();
        Self { criterion, folder, rows: Vec::new() }
    }

    /// One id at a time, in one thread.
    pub(crate) fn one<T>(&mut self, group: &str, name: &str, mut mint: impl FnMut() -> T) {
        self.note(group, name, 1);
        self.criterion.benchmark_group(group).bench_function(name, |bencher| bencher.iter(&mut mint));
    }

    /// `ids` ids at a time, in one thread.
    pub(crate) fn many(&mut self, group: &str, name: &str, ids: usize, mut mint: impl FnMut()) {
        self.note(group, name, ids);
        self.criterion.benchmark_group(group).bench_function(name, |bencher| bencher.iter(&mut mint));
    }

    /// One id at a time, in threads that do nothing else and share the minter. What is told is the time for each id that
    /// comes out of them together.
    pub(crate) fn shared<T>(&mut self, group: &str, name: &str, mint: impl Fn() -> T + Sync) {
        self.note(group, name, 1);
        self.criterion
            .benchmark_group(group)
            .bench_function(name, |bencher| bencher.iter_custom(|count| together(count, &mint)));
    }

    fn note(&mut self, group: &str, name: &str, ids: usize) {
        self.rows.push(Row { group: group.to_owned(), name: name.to_owned(), ids });
    }

    /// Whether a group was measured: not left out by a filter, and not only tried.
    pub(crate) fn has_measured(&self, group: &str) -> bool {
        self.rows.iter().any(|row| row.group == group && self.median_ns(row).is_some())
    }

    /// Prints medians, and ours divided by each of the others of its group.
    pub(crate) fn print(&self) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n| what | who | ns an id | mintage ÷ this |\n|---|---|---:|---:|").unwrap();
        for group in self.rows.chunk_by(|one, next| one.group == next.group) {
            let measured = group.iter().filter_map(|row| Some((row, self.median_ns(row)?)));
            let measured: Vec<(&Row, f64)> = measured.collect();
            let Some(((ours, ours_ns), others)) = measured.split_first() else { continue };
            writeln!(out, "| {} | {} | {ours_ns:.1} | |", ours.group, ours.name).unwrap();
            for (row, ns) in others {
                writeln!(out, "| | {} | {ns:.1} | {} |", row.name, ratio(ours_ns / ns)).unwrap();
            }
        }
        writeln!(out).unwrap();
    }

    /// What criterion has written down; nothing for a bench that was left out or only tried.
    fn median_ns(&self, row: &Row) -> Option<f64> {
        let file = self.folder.join(file_name(&row.group)).join(file_name(&row.name)).join("new/estimates.json");
        let estimates: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        Some(estimates["median"]["point_estimate"].as_f64()? / row.ids as f64)
    }
}

/// Two digits that count, whatever the size.
fn ratio(ratio: f64) -> String {
    let decimals = if ratio < 0.095 {
        3
    } else if ratio < 9.5 {
        2
    } else {
        0
    };
    format!("{ratio:.decimals$}")
}

/// How criterion calls the folder of a bench.
fn file_name(name: &str) -> String {
    name.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_")
}

/// From the moment all threads are there to the moment the last has done its share.
#[expect(clippy::disallowed_methods, reason = "measures time, makes no id of it")]
fn together<T>(count: u64, mint: &(impl Fn() -> T + Sync)) -> Duration {
    let start = Barrier::new(usize::try_from(THREADS).unwrap());
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let start = &start;
                let share = count / THREADS + u64::from(number < count % THREADS);
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..share {
                        black_box(mint());
                    }
                    (began, Instant::now())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let began = spans.iter().map(|span| span.0).min().unwrap();
    let ended = spans.iter().map(|span| span.1).max().unwrap();
    ended - began
}
