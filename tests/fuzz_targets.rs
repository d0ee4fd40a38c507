//! The fuzz targets of `fuzz/`, compiled here and fed with chance and with broken copies of what is right, so that they hold
//! without a nightly compiler and cannot rot. `cargo +nightly fuzz run NAME` goes on where this stops.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::{fs, path::Path};

use mintage::public::{BearerFormat, PublicIdCodec};
use mintage_core::{AnyId, Bits};
use proptest::{collection::vec, prelude::*, sample::Index, test_runner::TestRunner};

/// The targets name the fuzzer's crate; here that is this one.
extern crate self as libfuzzer_sys;

/// What the fuzzer's macro does, without the fuzzer: a function that takes one input.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        /// Tries one input.
        pub(crate) fn run($data: &[u8]) $body
    };
}

macro_rules! targets {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[expect(unused_attributes, reason = "`no_main` is for the fuzzer's own build")]
            #[path = $path]
            mod $name;
        )*
        const TARGETS: &[(&str, &str)] = &[$((stringify!($name), $path)),*];
    };
}

targets! {
    public_ids: "../fuzz/fuzz_targets/public_ids.rs",
    secrets: "../fuzz/fuzz_targets/secrets.rs",
    raw_ids: "../fuzz/fuzz_targets/raw_ids.rs",
    serde: "../fuzz/fuzz_targets/serde.rs",
    configs: "../fuzz/fuzz_targets/configs.rs",
}

/// One way to break a text.
#[derive(Clone, Debug)]
enum Fault {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Swap(Index),
    Double(Index),
    Cut(Index),
    Upper(Index),
}

fn fault() -> impl Strategy<Value = Fault> {
    // As often a character that ids are made of as any byte.
    let byte = || prop_oneof![any::<u8>(), b'0'..=b'9', b'a'..=b'z', Just(b'_'), Just(b'-')];
    prop_oneof![
        (any::<Index>(), byte()).prop_map(|(at, byte)| Fault::Replace(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Fault::Insert(at, byte)),
        any::<Index>().prop_map(Fault::Remove),
        any::<Index>().prop_map(Fault::Swap),
        any::<Index>().prop_map(Fault::Double),
        any::<Index>().prop_map(Fault::Cut),
        any::<Index>().prop_map(Fault::Upper),
    ]
}

impl Fault {
    fn spoil(&self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let len = text.len();
        match self {
            Self::Replace(at, byte) => text[at.index(len)] = *byte,
            Self::Insert(at, byte) => text.insert(at.index(len + 1), *byte),
            Self::Remove(at) => drop(text.remove(at.index(len))),
            Self::Swap(at) => text.swap(at.index(len), (at.index(len) + 1) % len),
            Self::Double(at) => text.extend_from_within(at.index(len)..),
            Self::Cut(at) => text.truncate(at.index(len)),
            Self::Upper(at) => text[at.index(len)].make_ascii_uppercase(),
        }
    }
}

/// Feeds a target: what is right, what is nearly right, and anything at all.
fn feed(target: fn(&[u8]), right: &[Vec<u8>], cases: u32) {
    right.iter().for_each(|text| target(text));
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let inputs = (any::<Index>(), vec(fault(), 0..4), vec(any::<u8>(), 0..100));
    runner
        .run(&inputs, |(which, faults, chance)| {
            let mut text = which.get(right).clone();
            faults.iter().for_each(|fault| fault.spoil(&mut text));
            target(&text);
            target(&chance);
            Ok(())
        })
        .unwrap();
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn public_ids_are_read_safely() {
    let v7 = 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f;
    let mut right = texts(&["\"ord_7km1\"", "", "ord_"]);
    for (codec, context) in public_ids::CODECS.iter() {
        let ids = match codec.form().bits() {
            Bits::Int => [AnyId::Int(5), AnyId::Int(899_999)],
            Bits::Wide => [AnyId::Wide(v7), AnyId::Wide(v7 + 1)],
            _ => [AnyId::Long([7; 20]), AnyId::Long([1; 20])],
        };
        let written = ids.map(|id| codec.encode(id, context).unwrap());
        for (id, text) in ids.iter().zip(&written) {
            assert_eq!(codec.decode(text, context), Ok(*id), "the target opens what is right");
            right.push(text.as_bytes().to_vec());
        }
    }
    assert!(right.len() > 40);
    feed(public_ids::run, &right, 400);
}

#[test]
fn secrets_are_read_safely() {
    let token = BearerFormat::new("acme_pat_").unwrap().issue().unwrap();
    let ring = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";
    let lines = format!("# keys\n{ring}2.from = 2026-11-01T00:00:00Z\n2.from.orders = 1500000\n1.revoked = true");
    let right = texts(&[token.reveal(), ring, &lines, "3.reissues = 2", "acme_inv_"]);
    feed(secrets::run, &right, 2_000);
}

#[test]
fn raw_ids_are_read_safely() {
    let right = texts(&[
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
        "1541815603606036480",
        "120814839705632768",
        "20261130-000042",
        "2026-11-30T09:15:02.417Z",
        "1G1Mj6PWiPo",
        "0XA2R7GQ88G00",
        "{017F22E2-79B0-7CC3-98C4-DC0C0C07398F}",
        "scheme=snowflake\nepoch_ms=5\n+stage.1=b",
    ]);
    feed(raw_ids::run, &right, 300);
}

#[test]
fn serialised_ids_are_read_safely() {
    let mut right =
        texts(&["\"42\"", "\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\"", "\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"", "42"]);
    right.extend(texts(&["\"0ujtsYcgvSTl8PAuAdqWYSMnLOv\"", "\"ord_7km1dzhmsjg36ctn1d9mvat54y\"", "{\"id\":\"5\"}"]));
    right.push([&[0x78, 30][..], b"ord_7km1dzhmsjg36ctn1d9mvat54y"].concat());
    feed(serde::run, &right, 3_000);
}

#[test]
fn configs_are_read_safely() {
    let every_key = include_str!("configs/every-key.toml");
    let mut right = texts(&[include_str!("../mintage.toml"), every_key, include_str!("configs/everything-wrong.toml")]);
    // Each table alone, so that what is spoilt is not one character of thousands.
    right.extend(every_key.split("\n[").map(|table| format!("version = 1\n[{table}").into_bytes()));
    feed(configs::run, &right, 150);
}

/// The fuzzer builds exactly what is tried here.
#[test]
fn every_target_is_tried() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut found: Vec<String> = fs::read_dir(fuzz.join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    let mut tried: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    tried.sort_unstable();
    assert_eq!(found, tried);
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, path) in TARGETS {
        let listed = format!("[[bin]]\nname = \"{name}\"\npath = \"{}\"\n", path.trim_start_matches("../fuzz/"));
        assert!(manifest.contains(&listed), "{listed}");
    }
    assert!(manifest.contains("\n[workspace]\n"), "apart from the workspace, which needs no nightly compiler");
}

/// A feeder that finds nothing proves something only if it can find.
#[test]
fn the_feeder_reaches_what_is_nearly_right() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEAR: AtomicU32 = AtomicU32::new(0);
    static RIGHT: AtomicU32 = AtomicU32::new(0);
    fn watch(text: &[u8]) {
        RIGHT.fetch_add(u32::from(text == b"ord_7km1dz"), Ordering::Relaxed);
        NEAR.fetch_add(u32::from(text.starts_with(b"ord_") && text != b"ord_7km1dz"), Ordering::Relaxed);
    }
    feed(watch, &texts(&["ord_7km1dz"]), 1_000);
    assert!(NEAR.load(Ordering::Relaxed) > 200 && RIGHT.load(Ordering::Relaxed) > 100);
}
