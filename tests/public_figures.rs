//! The figures that docs/public-ids.md gives, computed by the code, and the attacks behind them, carried out.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use mintage::public::{Codec, Keyring, PublicForm, PublicIdCodec, Redundancy, UuidPlain};
use mintage_core::{AnyId, Bits};

const KEYS: &str = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Numbers that look random and are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/public-ids.md")).unwrap()
}

/// With a space between each three digits.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(" ")
}

fn fact(form: &PublicForm, name: &str) -> String {
    form.facts().into_iter().find(|fact| fact.name == name).map(|fact| fact.text.to_string()).unwrap()
}

/// Rows of the table of promises, each with the form it is about.
fn promises() -> Vec<(&'static str, PublicForm)> {
    let token = |bits| PublicForm::token("ord", bits).unwrap();
    let short = |redundancy| PublicForm::short("ord", redundancy).unwrap();
    vec![
        ("`token`", token(Bits::Int)),
        ("`token` with `context`", token(Bits::Int).with_context().unwrap()),
        ("`short`", short(Redundancy::Bits32)),
        ("`short` with `allow_unauthenticated`", short(Redundancy::None)),
        ("`number`", PublicForm::number(12, 1).unwrap()),
        ("`uuid` with `i64`", PublicForm::uuid(UuidPlain::I64)),
        ("`uuid` with `u7`, `ulid42`", PublicForm::uuid(UuidPlain::U7)),
        ("`uuid` with `u7`, `ulid42`", PublicForm::uuid(UuidPlain::Ulid42)),
        ("`uuid` with `u7k4`", PublicForm::uuid(UuidPlain::U7K4)),
        ("`plain`", PublicForm::plain(Bits::Int)),
    ]
}

#[test]
fn the_document_says_what_the_code_computes() {
    let text = document();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for (name, form) in promises() {
        let row = rows.iter().find(|row| row.len() == 4 && row[0] == name).unwrap();
        assert_eq!(row[1], form.label(), "{name}");
        let odds = fact(&form, "forgery");
        let said = match odds.split("2^").nth(1).map(|rest| rest.split(' ').next().unwrap()) {
            Some(bits) => row[2].starts_with(&format!("once in 2^{bits} tries")),
            None if odds.contains("one made-up text in four") => row[2] == "one time in four",
            None if form.name() == "number" => row[2] == "as often as the block is full",
            None => row[2] == "always",
        };
        assert!(said, "{name}: {row:?}, and the code says {odds}");
    }
    assert!(fact(&PublicForm::token("ord", Bits::Long).unwrap(), "forgery").contains("2^96") && text.contains("2^96"));

    for digits in 8..=15 {
        let form = PublicForm::number(digits, 1).unwrap();
        let room = form.fill(1).unwrap().room;
        let probing = fact(&form, "probing");
        let questions: u64 = probing.split("about ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let last =
            (1..).map(|step| room / 1_000 + step).find(|id| form.is_too_full(form.fill(*id).unwrap())).unwrap() - 1;
        let row = format!("| {digits} | {} | {} | {} |", spaced(room), spaced(questions), spaced(last));
        assert!(text.contains(&row), "{row}");
    }

    let plain = fact(&PublicForm::plain(Bits::Int), "leaks");
    for (seen, words) in [(3, "three tell the total within about"), (10, "ten within")] {
        let percent = plain.split(words).nth(1).unwrap().trim_start().split(' ').next().unwrap();
        assert!(text.contains(&format!("| {seen} | {percent} % |")), "{seen}: {percent}");
    }
    for seen in [3, 5, 10, 30] {
        let row = format!("| {seen} | {:.0} % |", 100.0 * tank_error(seen));
        assert!(text.contains(&row), "{row}");
    }
}

/// How far from the total the estimate is, as a rule, by carrying it out: the largest number seen and the average gap.
fn tank_error(seen: u64) -> f64 {
    const TOTAL: u64 = 100_000;
    const ATTACKS: u32 = 20_000;
    let mut dice = Dice(seen);
    let mut squares = 0.0;
    for _ in 0..ATTACKS {
        let mut largest = 0;
        // So few of so many: none is drawn twice but by a chance that moves nothing.
        for _ in 0..seen {
            largest = largest.max(dice.below(TOTAL) + 1);
        }
        let estimate = largest as f64 * (1.0 + 1.0 / seen as f64) - 1.0;
        squares += (estimate / TOTAL as f64 - 1.0).powi(2);
    }
    (squares / f64::from(ATTACKS)).sqrt()
}

/// The attack yields what its theory says: 1 in √(k(k + 2)).
#[test]
fn a_few_serial_numbers_tell_the_total() {
    for seen in [3, 5, 10, 30] {
        let theory = 1.0 / ((seen * (seen + 2)) as f64).sqrt();
        let carried_out = tank_error(seen);
        assert!((carried_out / theory - 1.0).abs() < 0.03, "{seen}: {carried_out} and {theory}");
    }
}

/// Asks the codec whether made-up numbers exist until eleven do, and takes the share of them for the fill.
#[test]
fn probing_tells_the_volume() {
    const ORDERS: u64 = 100_000;
    const HITS: u32 = 11;
    const ATTACKS: u32 = 60;
    let form = PublicForm::number(8, 1).unwrap();
    let orders = Codec::new(&form, "orders", "live", &Keyring::parse(KEYS, "test").unwrap()).unwrap();
    let room = form.fill(1).unwrap().room;
    let mut dice = Dice(7);
    let (mut asked_in_all, mut squares) = (0u64, 0.0);
    for _ in 0..ATTACKS {
        let (mut asked, mut hits) = (0u64, 0);
        while hits < HITS {
            // Nine of ten made-up numbers fail their check digit, which needs no question: the attacker computes it.
            let payload = 1_000_000 + dice.below(room);
            let number = (0..10).map(|check| format!("{payload}{check}"));
            let answers: Vec<_> = number.filter_map(|number| orders.decode(&number, b"").ok()).collect();
            assert_eq!(answers.len(), 1, "one check digit fits");
            asked += 1;
            hits += u32::from(matches!(answers[0], AnyId::Int(id) if id <= ORDERS));
        }
        let estimate = f64::from(HITS - 1) / (asked - 1) as f64 * room as f64;
        squares += (estimate / ORDERS as f64 - 1.0).powi(2);
        asked_in_all += asked;
    }
    let asked = asked_in_all as f64 / f64::from(ATTACKS);
    let told = (room / ORDERS * u64::from(HITS)) as f64;
    assert!((asked / told - 1.0).abs() < 0.12, "{asked} questions, and the document says {told}");
    let error = (squares / f64::from(ATTACKS)).sqrt();
    assert!((0.2..0.42).contains(&error), "within {error}, and the document says 30 %");
}
