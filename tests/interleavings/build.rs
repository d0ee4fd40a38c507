//! Makes the wrong twins: copies of the files of `mintage-schemes` in which one thought is wrong. A change to those files that
//! leaves a twin without its place stops the build here.
#![expect(clippy::panic, reason = "a build that cannot go on")]

use std::{env, fs, path::Path};

/// Name of the copy, the file, and what is written in place of what.
type Twin = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const TWINS: &[Twin] = &[
    // As they are.
    ("supply", "segment/supply.rs", &[]),
    ("run", "segment/run.rs", &[]),
    (
        "stop_by_a_look",
        "timeline.rs",
        &[(
            "let before = self.state.swap(STOPPED, Ordering::AcqRel);",
            "let before = self.state.load(Ordering::Acquire); self.state.store(STOPPED, Ordering::Release);",
        )],
    ),
    (
        "over_stop_by_a_look",
        "snowflake.rs",
        &[(
            "    timeline::{Ahead, Ask, Overflow, Refusal, Timeline},\n};",
            "};\nuse super::timeline::{Ahead, Ask, Overflow, Refusal, Timeline};",
        )],
    ),
    (
        "look_before_the_state",
        "snowflake.rs",
        &[(
            "let taken = self.timeline.reserve(n, || drawn, || (self.ask(now), self.worker_bits.load(Ordering::Acquire)));",
            "let seen = (self.ask(now), self.worker_bits.load(Ordering::Acquire)); \
             let taken = self.timeline.reserve(n, || drawn, || seen);",
        )],
    ),
    (
        "worker_before_the_stop",
        "snowflake.rs",
        &[(
            "if let Some(before) = self.timeline.stop() {\n            tenure.before = before;\n        }\n        let units",
            "self.worker_bits.store(u64::from(worker) << self.reader.layout.shift(Part::Worker), Ordering::Release); \
             if let Some(before) = self.timeline.stop() {\n            tenure.before = before;\n        }\n        let units",
        )],
    ),
    (
        "extension_by_way_of_none",
        "snowflake.rs",
        &[(
            "let tenure = self.tenure();\n        self.bound.store(self.bound_of(end_ms",
            "let tenure = self.tenure(); self.bound.store(0, Ordering::Release);\n        self.bound.store(self.bound_of(end_ms",
        )],
    ),
    (
        "halt_before_the_end_is_known",
        "snowflake.rs",
        &[(
            "self.closed.store(true, Ordering::Release);\n        self.halt();",
            "self.halt();\n        self.closed.store(true, Ordering::Release);",
        )],
    ),
    (
        "seal_by_a_look",
        "segment/run.rs",
        &[(
            "let from = match self.next.swap(SEALED, Ordering::Relaxed) {",
            "let seen = self.next.load(Ordering::Relaxed); self.next.store(SEALED, Ordering::Relaxed); let from = match seen {",
        )],
    ),
    ("everybody_asks", "segment/run.rs", &[("low: at < self.mark && after >= self.mark", "low: after >= self.mark")]),
    (
        "link_after_the_end",
        "segment/supply.rs",
        &[("if ledger.closed {\n            return Err(fetched);\n        }", "")],
    ),
    (
        "keep_what_lies_below",
        "segment/supply.rs",
        &[("        self.abandon_below(lane, raises);\n", "        let _ = (lane, raises);\n")],
    ),
];

fn main() {
    let sources = Path::new("../../schemes/src");
    let out = env::var("OUT_DIR").unwrap_or_else(|error| panic!("OUT_DIR: {error}"));
    for (name, file, changes) in TWINS {
        let path = sources.join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // What describes a whole file can only stand at the head of one.
        let mut text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("//!")).collect();
        for (right, wrong) in *changes {
            assert_eq!(text.matches(right).count(), 1, "{name}: {file} does not say once: {right}");
            text = text.replace(right, wrong);
        }
        let copy = Path::new(&out).join(format!("{name}.rs"));
        fs::write(&copy, text).unwrap_or_else(|error| panic!("{}: {error}", copy.display()));
    }
}
