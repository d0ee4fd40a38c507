//! `scheme = "code"`: reads its settings, and says how likely a new draw is taken.

use std::sync::Arc;

use async_trait::async_trait;
use mintage_core::{
    AnyScheme, Format, ReadyError, SchemeInfo,
    plugin::{Fact, Key, KeyKind, Opened, SchemeFactory, SchemePlan, Settings, Site},
};
use mintage_schemes::{Code, CodeAlphabet, CodeFault, Entropy};

use super::storage_fact;

/// From this share of taken codes on an owner should worry: one insert in a hundred draws again.
const TAKEN_SHARE_MAX: f64 = 0.01;
/// Rows the odds are told for, where they are not above [`TAKEN_SHARE_MAX`].
const ROWS_TOLD: [u64; 3] = [1_000_000, 100_000_000, 10_000_000_000];
/// An index entry of 8 bytes, 21.4 where rows come in order, on pages as empty as those of random UUIDs were measured
/// to be: 21.4 · 37.9 / 30.1.
const INDEX_BYTES: f64 = 26.9;

const LENGTH: (i64, i64) = (Code::LENGTH_MIN as i64, Code::LENGTH_MAX as i64);
const ALPHABETS: &[&str] = &["novowel", "crockford", "base62", "digits"];

const KEYS: &[Key] = &[
    Key { name: "length", kind: KeyKind::Integer(LENGTH.0, LENGTH.1), about: "How many characters a new code has." },
    Key {
        name: "alphabet",
        kind: KeyKind::Choice(ALPHABETS),
        about: "Its characters: novowel has no look-alikes and makes no words, base62 tells upper from lower case.",
    },
    Key {
        name: "case_sensitive",
        kind: KeyKind::Flag,
        about: "Says that wherever base62 codes are kept upper and lower case differ.",
    },
    Key {
        name: "lengths_before",
        kind: KeyKind::Integers(LENGTH.0, LENGTH.1),
        about: "Lengths of codes given out before the length grew; they stay valid.",
    },
    Key {
        name: "expected",
        kind: KeyKind::Integer(1, i64::MAX),
        about: "How many rows there will be: the odds that a new draw is taken are told, and warned of, for these.",
    },
];

/// The factory of `scheme = "code"`.
#[derive(Debug)]
pub(super) struct CodeFactory;

#[derive(Clone, Debug)]
struct Plan {
    alphabet: CodeAlphabet,
    length: u32,
    lengths_before: Vec<u32>,
    expected: Option<u64>,
    reader: Arc<Code>,
}

impl SchemeFactory for CodeFactory {
    fn name(&self) -> &'static str {
        "code"
    }

    fn about(&self) -> &'static str {
        "short codes of chance alone, for links and vouchers that people type; the table needs a unique index on them"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let before = settings.refusals();
        let alphabet = alphabet(settings);
        if !settings.has("length") {
            settings.refuse("length", "missing: write `length = 8`, the number of characters");
        }
        let length = settings.integer("length", LENGTH.0..=LENGTH.1).and_then(|length| u32::try_from(length).ok());
        let lengths_before: Vec<u32> = settings
            .integers("lengths_before", LENGTH.0..=LENGTH.1)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|length| u32::try_from(length).ok())
            .collect();
        let expected = settings.integer("expected", 1..=i64::MAX).and_then(|rows| u64::try_from(rows).ok());
        let reader = match read(alphabet, length?, &lengths_before) {
            Ok(reader) => reader,
            Err((key, fault)) => {
                settings.refuse(key, fault.to_string());
                return None;
            }
        };
        let plan = Plan { alphabet, length: length?, lengths_before, expected, reader: Arc::new(reader) };
        if let Some(warning) = plan.crowded() {
            settings.warn("expected", warning);
        }
        (settings.refusals() == before).then(|| Arc::new(plan) as Arc<dyn SchemePlan>)
    }
}

fn alphabet(settings: &mut Settings<'_>) -> CodeAlphabet {
    let name = settings.choice("alphabet", ALPHABETS);
    let alphabet = name.and_then(CodeAlphabet::named).unwrap_or_default();
    match settings.flag("case_sensitive") {
        Some(true) if !alphabet.is_case_sensitive() => {
            settings.refuse("case_sensitive", "only base62 codes differ in letter case: take this line out");
        }
        Some(true) => {}
        _ if alphabet.is_case_sensitive() => settings.warn(
            "alphabet",
            "base62 codes differ in letter case alone: a column, a link or a person that folds case merges two of them. \
             Give the column a case-sensitive collation and write case_sensitive = true, or take novowel",
        ),
        _ => {}
    }
    alphabet
}

/// The scheme, or the key at fault.
fn read(alphabet: CodeAlphabet, length: u32, before: &[u32]) -> Result<Code, (&'static str, CodeFault)> {
    let code = Code::new(alphabet, length).map_err(|fault| ("length", fault))?;
    code.after(before).map_err(|fault| ("lengths_before", fault))
}

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        mintage_core::IdScheme::info(self.reader.as_ref())
    }

    /// A length may be added, never taken away: codes of it are out there.
    fn format(&self) -> Format {
        let format = Format::of("code").with("alphabet", self.alphabet.name());
        self.reader
            .lengths()
            .iter()
            .fold(format, |format, length| format.growing(&format!("length.{length}"), "in use"))
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(self.reader.clone())
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        let codes = self.reader.codes();
        let symbols = self.alphabet.symbols().len();
        let mut facts =
            vec![Fact::new("capacity", format!("{codes} codes of {} characters out of {symbols}", self.length))];
        if !self.lengths_before.is_empty() {
            let lengths: Vec<String> = self.lengths_before.iter().map(u32::to_string).collect();
            facts.push(Fact::new("earlier", format!("codes of {} characters stay valid", lengths.join(", "))));
        }
        facts.push(match self.crowded() {
            Some(warning) => Fact::new("odds", warning).warn(),
            None => Fact::new("odds", self.odds()),
        });
        facts.extend([
            Fact::new("order", "none: new rows land all over the index"),
            Fact::new(
                "uniqueness",
                "by your unique index: insert, and draw again if the code is taken (insert_or_redraw)",
            ),
            Fact::new("leaks", "shows nothing; but a guess finds a row with the odds above, so a code is no secret"),
            Fact::new("shards", "the code is the shard key: it alone says where its row is"),
            storage_fact(8, INDEX_BYTES),
        ]);
        facts
    }

    async fn open(&self, site: Site) -> Result<Opened, ReadyError> {
        let code = read(self.alphabet, self.length, &self.lengths_before);
        let code = code.map_err(|(_, fault)| ReadyError::with_source(mintage_core::MintError::Closed, fault))?;
        let code = code.entropy(site.seed.map_or_else(Entropy::os, Entropy::seeded));
        Ok(AnyScheme::Int(Arc::new(code)).into())
    }
}

impl Plan {
    /// How likely a new draw is taken: at the rows expected, else at some round numbers, and where it gets too likely.
    fn odds(&self) -> String {
        let codes = self.reader.codes();
        let told: Vec<u64> = match self.expected {
            Some(rows) => vec![rows],
            None => ROWS_TOLD.into_iter().filter(|rows| taken_share(*rows, codes) <= TAKEN_SHARE_MAX).collect(),
        };
        let mut odds: Vec<String> =
            told.into_iter().map(|rows| format!("{} with {rows} rows", percent(taken_share(rows, codes)))).collect();
        odds.push(format!("{} from {} rows on", percent(TAKEN_SHARE_MAX), rows_at_most(codes)));
        format!("a new draw is taken: {}", odds.join(", "))
    }

    /// What to do where a draw is taken too often.
    fn crowded(&self) -> Option<String> {
        let rows = self.expected?;
        let share = taken_share(rows, self.reader.codes());
        if share <= TAKEN_SHARE_MAX {
            return None;
        }
        let longer = (self.length + 1..=self.alphabet.length_max()).find(|length| {
            self.alphabet.codes(*length).is_some_and(|codes| taken_share(rows, codes) <= TAKEN_SHARE_MAX)
        });
        let advice = match longer {
            Some(length) => format!("length = {length} has room"),
            None => "no length of this alphabet has room: take another, or a wider scheme".to_owned(),
        };
        Some(format!(
            "with {rows} rows a new draw is taken {} of the time, more than {}: {advice}",
            percent(share),
            percent(TAKEN_SHARE_MAX)
        ))
    }
}

/// The odds that one even draw out of `codes` is among the `rows` taken.
#[expect(clippy::cast_precision_loss, reason = "odds, told to two digits")]
fn taken_share(rows: u64, codes: u64) -> f64 {
    (rows as f64 / codes as f64).min(1.0)
}

/// The most rows at which a draw is not taken too often.
fn rows_at_most(codes: u64) -> u64 {
    /// 1 / [`TAKEN_SHARE_MAX`].
    const ONE_IN: u64 = 100;
    codes / ONE_IN
}

/// `1.7 %`, `0.02 %`: one digit below one per cent, one decimal above.
fn percent(share: f64) -> String {
    /// Below this the digits would not tell anybody anything.
    const LEAST: f64 = 1e-6;
    let percent = share * 100.0;
    if percent >= 0.95 {
        let text = format!("{percent:.1}");
        return format!("{} %", text.strip_suffix(".0").unwrap_or(&text));
    }
    if percent < LEAST {
        return "under 0.000001 %".to_owned();
    }
    // The first digit that is not 0; what rounds up to the next power of ten has one decimal less.
    let decimals = (1..=6usize).find(|decimals| percent * 10f64.powi(*decimals as i32) >= 0.95).unwrap_or(6);
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_rows_over_codes() {
        let base62 = |length| CodeAlphabet::Base62.codes(length).unwrap();
        for (rows, length, told) in [
            (600_000_000, 7, "0.02 %"),
            (60_000_000_000, 7, "1.7 %"),
            (60_000_000_000, 8, "0.03 %"),
            (u64::MAX, 7, "100 %"),
            (1, 10, "under 0.000001 %"),
        ] {
            assert_eq!(percent(taken_share(rows, base62(length))), told, "{rows} of 62^{length}");
        }
        for (share, told) in [(0.01, "1 %"), (0.0099, "1 %"), (0.0094, "0.9 %"), (0.5, "50 %"), (0.00001, "0.001 %")] {
            assert_eq!(percent(share), told);
        }
    }
}
