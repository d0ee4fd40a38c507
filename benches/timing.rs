//! Does a refusal tell, by the time it takes, why? Two kinds of wrong token are timed in turn, by the throw of a coin, and
//! Welch's t tells whether their means differ (the method of dudect).
//!
//! `cargo bench -p mintage-benches --bench timing`. It prints figures and decides nothing: |t| below 4.5 is what chance gives,
//! and above 10 the two can be told apart by whoever measures long enough. A last row that must stand out, a text that is
//! refused before any key is used, shows that the method finds what is there.
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::{hint::black_box, io::Write, time::Instant};

use mintage::public::{Codec, Keyring, PublicForm, PublicIdCodec, Redundancy, UuidPlain};
use mintage_core::{AnyId, Bits};

const KEYS: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
/// Texts of each kind: so many that no branch predictor learns them, and that what a few of them cost by chance weighs nothing.
const TEXTS: usize = 1 << 15;
/// How many refusals are timed together: reading the clock costs as much as a few of them.
const TOGETHER: usize = 8;
const SAMPLES: usize = 100_000;
/// Samples of the start, while caches and predictors warm up.
const WARM_UP: usize = 10_000;
/// Interrupts make a tail that hides the means: samples above these shares of all are left out, once each.
const KEPT: [f64; 4] = [1.0, 0.99, 0.95, 0.8];

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let samples = if std::env::args().any(|arg| arg == "--bench") { SAMPLES } else { 100 };
    let mut out = std::io::stdout().lock();
    writeln!(out, "| form | refused for | beside | ns each | t, all | t, 99 % | t, 95 % | t, 80 % |").unwrap();
    writeln!(out, "|---|---|---|---:|---:|---:|---:|---:|").unwrap();
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    for (name, form) in forms().into_iter().filter(|(name, _)| name.contains(&filter)) {
        let wrongs = Wrongs::of(&form);
        for (one, other) in
            [(&wrongs.entity, &wrongs.bit), (&wrongs.realm, &wrongs.bit), (&wrongs.version, &wrongs.bit)]
        {
            row(&mut out, name, &wrongs, one, other, samples);
        }
        row(&mut out, name, &wrongs, &wrongs.bit, &wrongs.bit_again, samples);
        row(&mut out, name, &wrongs, &wrongs.malformed, &wrongs.bit, samples);
    }
}

fn forms() -> Vec<(&'static str, PublicForm)> {
    let token = |bits| PublicForm::token("ord", bits).unwrap();
    vec![
        ("token, 64 bits", token(Bits::Int)),
        ("token, 128 bits", token(Bits::Wide)),
        ("token, 160 bits", token(Bits::Long)),
        ("token with context, 64 bits", token(Bits::Int).with_context().unwrap()),
        ("short", PublicForm::short("ord", Redundancy::Bits32).unwrap()),
        ("uuid i64", PublicForm::uuid(UuidPlain::I64)),
    ]
}

/// Texts that are refused for one reason each.
struct Wrong {
    why: &'static str,
    texts: Vec<String>,
}

struct Wrongs {
    ours: Codec,
    context: &'static [u8],
    entity: Wrong,
    realm: Wrong,
    version: Wrong,
    bit: Wrong,
    bit_again: Wrong,
    malformed: Wrong,
}

impl Wrongs {
    /// Two key versions decode, each owns half of the ids.
    fn of(form: &PublicForm) -> Self {
        let ring = Keyring::parse(KEYS, "bench").unwrap();
        let half = id(form.bits(), 1 << 62);
        let of = |entity, realm, form: PublicForm| Codec::new(&form, entity, realm, &ring).unwrap();
        let rotated = form.clone().owned_from(2, half);
        let context: &[u8] = if form.takes_context() { b"tenant-42" } else { b"" };
        let texts = |codec: &Codec, salt: u64| -> Vec<String> {
            (0..TEXTS as u64)
                .map(|n| codec.encode(id(form.bits(), mixed(n + salt)), context).unwrap().to_string())
                .collect()
        };
        let ours = of("order", "live", rotated.clone());
        let first_only = of("order", "live", form.clone());
        let bit = |salt| texts(&ours, salt).into_iter().map(flip).collect();
        Self {
            context,
            entity: Wrong { why: "wrong entity", texts: texts(&of("user", "live", rotated.clone()), 1 << 20) },
            realm: Wrong { why: "wrong realm", texts: texts(&of("order", "test", rotated), 2 << 20) },
            // Written by version 1, for ids that version 2 owns.
            version: Wrong {
                why: "wrong version",
                texts: (0..TEXTS as u64)
                    .map(|n| first_only.encode(id(form.bits(), mixed(n) | 1 << 62), context).unwrap().to_string())
                    .collect(),
            },
            bit: Wrong { why: "wrong bit", texts: bit(3 << 20) },
            bit_again: Wrong { why: "wrong bit, others", texts: bit(4 << 20) },
            malformed: Wrong {
                why: "malformed: must stand out",
                texts: texts(&ours, 5 << 20).into_iter().map(|text| format!("{text}0")).collect(),
            },
            ours,
        }
    }
}

fn id(bits: Bits, value: u64) -> AnyId {
    let mut long = [0; 20];
    long[..8].copy_from_slice(&value.to_be_bytes());
    match bits {
        Bits::Int => AnyId::Int(value),
        Bits::Wide => AnyId::Wide(u128::from(value) << 64),
        _ => AnyId::Long(long),
    }
}

/// 63 bits that look random (SplitMix64).
fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) >> 1
}

/// The next symbol in place of the last one, so that the shape stays right and last symbols are as mixed as they were.
fn flip(mut text: String) -> String {
    let symbols = if text.contains('-') { "0123456789abcdef" } else { "0123456789abcdefghjkmnpqrstvwxyz" };
    let last = text.pop().unwrap();
    text.extend(symbols.chars().cycle().skip_while(|symbol| *symbol != last).nth(1));
    text
}

fn row(out: &mut impl Write, name: &str, wrongs: &Wrongs, one: &Wrong, other: &Wrong, samples: usize) {
    let [first, second] = measure(wrongs, [one, other], samples);
    let mean = first.iter().sum::<f64>() / first.len() as f64 / TOGETHER as f64;
    let mut all: Vec<f64> = first.iter().chain(&second).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let t = KEPT.map(|share| {
        let limit = all[((all.len() - 1) as f64 * share) as usize];
        let kept = |times: &[f64]| times.iter().copied().filter(|time| *time <= limit).collect::<Vec<f64>>();
        format!("{:.1}", welch(&kept(&first), &kept(&second)))
    });
    writeln!(out, "| {name} | {} | {} | {mean:.0} | {} |", one.why, other.why, t.join(" | ")).unwrap();
    out.flush().unwrap();
}

/// Nanoseconds of each sample, by kind.
#[expect(clippy::disallowed_methods, reason = "measures time, makes no id of it")]
fn measure(wrongs: &Wrongs, kinds: [&Wrong; 2], samples: usize) -> [Vec<f64>; 2] {
    let mut times = [Vec::with_capacity(samples), Vec::with_capacity(samples)];
    // Both kinds are read from one place: where a text lies in memory makes a difference of its own.
    let mut slots: [String; TOGETHER] = std::array::from_fn(|_| String::with_capacity(128));
    for sample in 0..samples + WARM_UP.min(samples) {
        let coin = mixed(sample as u64) as usize;
        let kind = coin & 1;
        let from = (coin >> 1) % (TEXTS - TOGETHER);
        let texts = &kinds[kind].texts[from..from + TOGETHER];
        for (slot, text) in slots.iter_mut().zip(texts) {
            slot.clear();
            slot.push_str(text);
        }
        let began = Instant::now();
        for text in &slots {
            black_box(wrongs.ours.decode(black_box(text.as_str()), wrongs.context).is_ok());
        }
        let ns = began.elapsed().as_nanos();
        if sample >= WARM_UP.min(samples) {
            times[kind].push(ns as f64);
        }
    }
    times
}

/// How many of their common deviations two means are apart.
fn welch(one: &[f64], other: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let spread = |of: &[f64], mean: f64| {
        let variance = of.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (of.len() as f64 - 1.0);
        variance / of.len() as f64
    };
    (mean_one - mean_other) / (spread(one, mean_one) + spread(other, mean_other)).sqrt()
}
