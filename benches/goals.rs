//! The three goals of public ids, measured in turn: rivals take the same blow of a busy machine in the same round, so the
//! median of the ratios of all rounds says more than the ratio of two figures that were taken minutes apart.

use std::{
    hint::black_box,
    io::Write,
    time::{Duration, Instant},
};

/// How often each rival has its turn.
const ROUNDS: usize = 300;
/// A turn takes about so long: short beside the time slice of a scheduler, long beside a reading of the clock.
const TURN: Duration = Duration::from_micros(100);

/// One piece of work, done so many times.
pub(crate) struct Rival<'a> {
    name: &'static str,
    work: Box<dyn FnMut(u32) + 'a>,
}

impl<'a> Rival<'a> {
    pub(crate) fn new<T>(name: &'static str, mut once: impl FnMut() -> T + 'a) -> Self {
        let work = move |times| {
            for _ in 0..times {
                black_box(once());
            }
        };
        Self { name, work: Box::new(work) }
    }
}

/// Prints a table header.
pub(crate) fn head() {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n| what | ns | beside | ns | ratio | middle half of the rounds | goal |").unwrap();
    writeln!(out, "|---|---:|---|---:|---:|---|---|").unwrap();
}

/// Prints how `ours` stands beside `theirs`, as a ratio of the larger meaning: `ours ÷ theirs`, or how many times as fast.
pub(crate) fn row(mut ours: Rival<'_>, mut theirs: Rival<'_>, times_as_fast: bool, goal: &str) {
    let (our_turns, their_turns) = (turns(&mut ours), turns(&mut theirs));
    let rounds: Vec<[f64; 2]> =
        (0..ROUNDS).map(|_| [timed(&mut ours, our_turns), timed(&mut theirs, their_turns)]).collect();
    let of = |pick: fn(&[f64; 2]) -> f64| sorted(rounds.iter().map(pick).collect());
    let ratios = of(if times_as_fast { |[ours, theirs]| theirs / ours } else { |[ours, theirs]| ours / theirs });
    let (our_ns, their_ns) = (of(|pair| pair[0]), of(|pair| pair[1]));
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share) as usize];
    writeln!(
        std::io::stdout().lock(),
        "| {} | {:.0} | {} | {:.0} | {:.2} | {:.2} to {:.2} | {goal} |",
        ours.name,
        at(&our_ns, 0.5),
        theirs.name,
        at(&their_ns, 0.5),
        at(&ratios, 0.5),
        at(&ratios, 0.25),
        at(&ratios, 0.75),
    )
    .unwrap();
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// How many times a rival can do its work in a turn.
fn turns(rival: &mut Rival<'_>) -> u32 {
    let mut times = 1;
    while timed(rival, times) * f64::from(times) < TURN.as_nanos() as f64 {
        times *= 2;
    }
    times
}

/// Nanoseconds for each time.
#[expect(clippy::disallowed_methods, reason = "measures time, makes no id of it")]
fn timed(rival: &mut Rival<'_>, times: u32) -> f64 {
    let began = Instant::now();
    (rival.work)(times);
    began.elapsed().as_nanos() as f64 / f64::from(times)
}
