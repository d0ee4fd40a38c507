//! `scheme = "uuidv7"`, `"ulid"`, `"ksuid"` and `"uuidv4"`: the schemes that need no coordination, and their odds.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use mintage_core::{
    AnyScheme, Clock, Format, ReadyError, SchemeInfo,
    plugin::{Fact, Key, KeyKind, Opened, SchemeFactory, SchemePlan, Settings, Site},
};
use mintage_schemes::{Entropy, Ksuid, RANDOM_DRIFT_MS, RandomOrder, RandomStep, Ulid, UuidV4, UuidV7};

use super::{YEAR_MS, storage_fact};
use crate::time;

const CLOCK_KEYS: &[Key] = &[
    Key {
        name: "on_step",
        kind: KeyKind::Choice(ON_STEP),
        about: "When the clock is further back than max_drift: borrow follows it, refuse stops.",
    },
    Key {
        name: "max_drift",
        kind: KeyKind::Duration,
        about: "How far the clock may step back while ids still ascend.",
    },
];
const ON_STEP: &[&str] = &["borrow", "refuse"];
const ORDERS: &[&str] = &["strict", "thread", "time"];

const ORDERED_KEYS: &[Key] = &[
    Key {
        name: "order",
        kind: KeyKind::Choice(ORDERS),
        about: "strict: ascending per minter by an unguessable step; thread: per thread; time: by time only, the rest fresh chance.",
    },
    Key { name: "clock", kind: KeyKind::Table(CLOCK_KEYS), about: "What to do when the clock steps back." },
];

/// Applies the choice to a scheme that has order and clock.
macro_rules! ordered {
    ($scheme:ident, $choice:expr) => {
        $scheme::with_clock(Arc::clone(&$choice.clock))
            .order($choice.order)
            .on_step($choice.on_step)
            .max_drift_ms($choice.max_drift_ms)
            .entropy($choice.entropy())
    };
}

/// The factories.
pub(super) const ALL: [RandomFactory; 4] = [
    RandomFactory(Family {
        name: "uuidv7",
        about: "128-bit UUIDs that sort by time, minted anywhere without coordination",
        keys: ORDERED_KEYS,
        open: |choice| AnyScheme::Wide(Arc::new(ordered!(UuidV7, choice))),
        random_bits: 74,
        guard_bits: 1,
        unit_ms: Some(1),
        key_bytes: 16,
        index_bytes: 30.1,
    }),
    RandomFactory(Family {
        name: "ulid",
        about: "128 bits that sort by time, written in 26 symbols without look-alikes",
        keys: ORDERED_KEYS,
        open: |choice| AnyScheme::Wide(Arc::new(ordered!(Ulid, choice))),
        random_bits: 80,
        guard_bits: 1,
        unit_ms: Some(1),
        key_bytes: 16,
        index_bytes: 30.1,
    }),
    RandomFactory(Family {
        name: "ksuid",
        about: "160 bits that sort by the second, for names of files and messages",
        keys: ORDERED_KEYS,
        open: |choice| AnyScheme::Long(Arc::new(ordered!(Ksuid, choice))),
        random_bits: 128,
        guard_bits: 1,
        unit_ms: Some(1000),
        key_bytes: 20,
        index_bytes: 40.0,
    }),
    RandomFactory(Family {
        name: "uuidv4",
        about: "128-bit UUIDs of chance alone: no time, no order, a slow index",
        keys: &[],
        open: |choice| AnyScheme::Wide(Arc::new(UuidV4::new().entropy(choice.entropy()))),
        random_bits: 122,
        guard_bits: 0,
        unit_ms: None,
        key_bytes: 16,
        index_bytes: 37.9,
    }),
];

/// What tells one random scheme from another.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    about: &'static str,
    keys: &'static [Key],
    open: fn(&Choice) -> AnyScheme,
    /// Bits of chance with `order = "time"`.
    random_bits: i32,
    /// Bits of them that strict order keeps free at the start of a unit, so that it can ascend.
    guard_bits: i32,
    /// Length of a time unit; `None` without time.
    unit_ms: Option<u32>,
    key_bytes: u32,
    index_bytes: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RandomFactory(Family);

#[derive(Debug)]
struct Plan {
    family: Family,
    choice: Choice,
    reader: AnyScheme,
}

#[derive(Clone, Debug)]
struct Choice {
    clock: Arc<dyn Clock>,
    order: RandomOrder,
    on_step: RandomStep,
    max_drift_ms: u64,
    /// The seed of all chance, where ids must be reproducible.
    seed: Option<u64>,
}

impl Choice {
    fn entropy(&self) -> Entropy {
        self.seed.map_or_else(Entropy::os, Entropy::seeded)
    }
}

impl SchemeFactory for RandomFactory {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn about(&self) -> &'static str {
        self.0.about
    }

    fn keys(&self) -> &'static [Key] {
        self.0.keys
    }

    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let before = settings.refusals();
        let mut choice = Choice {
            clock: Arc::new(mintage_core::SystemClock),
            order: RandomOrder::Strict,
            on_step: RandomStep::Borrow,
            max_drift_ms: RANDOM_DRIFT_MS,
            seed: None,
        };
        choice.order = match settings.choice("order", ORDERS) {
            Some("thread") => RandomOrder::Thread,
            Some("time") => RandomOrder::Time,
            _ => RandomOrder::Strict,
        };
        if let Some(mut clock) = settings.table("clock") {
            if clock.choice("on_step", ON_STEP) == Some("refuse") {
                choice.on_step = RandomStep::Refuse;
            }
            if let Some(max_drift_ms) = clock.duration_ms("max_drift") {
                choice.max_drift_ms = max_drift_ms;
            }
        }
        (settings.refusals() == before).then(|| {
            let reader = (self.0.open)(&choice);
            Arc::new(Plan { family: self.0, choice, reader }) as Arc<dyn SchemePlan>
        })
    }
}

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        self.reader.info()
    }

    fn format(&self) -> Format {
        Format::of(self.family.name)
    }

    fn reader(&self) -> AnyScheme {
        self.reader.clone()
    }

    fn facts(&self, now_ms: u64) -> Vec<Fact> {
        let family = &self.family;
        let mut facts = vec![Fact::new("capacity", "as many as you like, from any number of processes")];
        if let Some(end_ms) = self.reader.runs_out() {
            let years = (end_ms - i64::try_from(now_ms).unwrap_or(0)) / YEAR_MS;
            let day = time::day(end_ms);
            facts.push(Fact::new("life", format!("lasts until {day}, {years} years from now")).at(end_ms));
        }
        let drift_s = self.choice.max_drift_ms / 1000;
        facts.push(match (family.unit_ms, self.choice.order) {
            (None, _) => Fact::new("order", "none: new rows land all over the index"),
            (_, RandomOrder::Time) => Fact::new("order", "by time; within one time unit by chance"),
            (_, order) => {
                let whose = if order == RandomOrder::Thread { "thread, among threads by time" } else { "process" };
                let step = match self.choice.on_step {
                    RandomStep::Refuse => format!("; refuses while the clock is more than {drift_s} s back"),
                    _ => format!(", except when the clock steps back by more than {drift_s} s"),
                };
                Fact::new("order", format!("strictly ascending per {whose}{step}"))
            }
        });
        facts.push(Fact::new("uniqueness", format!("by chance: {}", odds(family, self.choice.order))));
        facts.push(match family.unit_ms {
            None => Fact::new("leaks", "shows nothing"),
            Some(1) => Fact::new("leaks", "shows when it was made, to the millisecond"),
            Some(_) => Fact::new("leaks", "shows when it was made, to the second"),
        });
        facts.push(storage_fact(family.key_bytes, family.index_bytes));
        facts
    }

    async fn open(&self, site: Site) -> Result<Opened, ReadyError> {
        let mut choice = self.choice.clone();
        choice.clock = site.clock;
        choice.seed = site.seed;
        Ok((self.family.open)(&choice).into())
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The odds of one collision in a year of a million ids a second, by the birthday bound: pairs that share a time unit, over
/// the number of tails.
fn odds(family: &Family, order: RandomOrder) -> String {
    let told = |bits: i32| {
        format!("one collision in a year of a million ids a second: {}", one_in(collisions_a_year(family, bits)))
    };
    let full = format!("{} ({} random bits)", told(family.random_bits), family.random_bits);
    if family.guard_bits == 0 || order == RandomOrder::Time {
        return full;
    }
    let strict = one_in(collisions_a_year(family, family.random_bits - family.guard_bits));
    format!(
        "{full}; strict order leaves {} of them free at the start of a unit: at worst {strict}",
        family.random_bits - family.guard_bits
    )
}

fn collisions_a_year(family: &Family, bits: i32) -> f64 {
    const IDS_A_SECOND: f64 = 1e6;
    const SECONDS_A_YEAR: f64 = 31_556_952.0;
    let ids_a_unit = match family.unit_ms {
        Some(unit_ms) => IDS_A_SECOND * f64::from(unit_ms) / 1000.0,
        None => IDS_A_SECOND * SECONDS_A_YEAR,
    };
    let units_a_year = IDS_A_SECOND * SECONDS_A_YEAR / ids_a_unit;
    units_a_year * ids_a_unit * (ids_a_unit - 1.0) / 2.0 / 2f64.powi(bits)
}

/// `1 in 1.2 million`, `1 in 77 million`, `1 in 10^10`.
fn one_in(probability: f64) -> String {
    let odds = 1.0 / probability;
    if odds < 1e6 {
        format!("1 in {:.0} thousand", odds / 1e3)
    } else if odds < 1e7 {
        format!("1 in {:.1} million", odds / 1e6)
    } else if odds < 1e9 {
        format!("1 in {:.0} million", odds / 1e6)
    } else {
        format!("about 1 in 10^{:.0}", odds.log10())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_those_of_the_birthday_bound() {
        let told: Vec<String> =
            ALL.iter().map(|family| one_in(collisions_a_year(&family.0, family.0.random_bits))).collect();
        assert_eq!(told, ["1 in 1.2 million", "1 in 77 million", "about 1 in 10^19", "about 1 in 10^10"]);
    }
}
