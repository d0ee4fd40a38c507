//! `scheme = "segment"`: reads its settings, and says what they mean.

use std::{fmt, num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, AnyScheme, Format, IdScheme, MintError, ParseError, ReadyError, SchemeInfo, Sequence,
    plugin::{Fact, Key, KeyKind, Needs, Opened, Place, SchemeFactory, SchemePlan, Settings, Share, Site, Value},
};
use mintage_schemes::{Entropy, Lane, Segment, SegmentSettings, Stride, TextForm};

use super::{TEXT_KEY, storage_fact, text_form};

/// Longest range of a process that mints so many and ends: twice what `mintage new` takes at once, so that none of its steps spans two
/// ranges, and one that is stopped while it waits for a range has taken nothing.
const ONCE_LEN_MAX: NonZeroU32 = NonZeroU32::new(8_192).unwrap();

/// Longest range: a crash loses at most this many numbers, twice.
const RANGE_MAX: i64 = 1_000_000_000;
/// Longest time a range may be meant to last, a day: over a night with nothing to do, every size is too large.
const TARGET_MS_MAX: u64 = 86_400_000;
const TARGET_MS: u64 = 10_000;
/// Where sizing by target begins: a store trip for a hundred numbers is still cheap.
const RANGE_MIN_DEFAULT: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// Where it ends: two such ranges are what a crash may lose.
const RANGE_MAX_DEFAULT: NonZeroU32 = NonZeroU32::MIN.saturating_add(99_999);
const STEP_MAX: i64 = Stride::STEP_MAX as i64;
const INITIAL_RANGES_MAX: i64 = SegmentSettings::INITIAL_RANGES_MAX as i64;

const KEYS: &[Key] = &[
    Key {
        name: "sequence",
        kind: KeyKind::Text,
        about: "Name of the counter in the store; the entity's name by default.",
    },
    Key {
        name: "start",
        kind: KeyKind::Integer(0, i64::MAX),
        about: "First number. Used once, when the sequence is made.",
    },
    Key {
        name: "range",
        kind: KeyKind::OneOf(&[KeyKind::Integer(1, RANGE_MAX), KeyKind::Table(RANGE_KEYS)]),
        about: "Numbers fetched in one trip to the store; or how long they are to last.",
    },
    Key {
        name: "refill_at",
        kind: KeyKind::Fraction(0.0, 1.0),
        about: "Fetch the standby range when this fraction is left.",
    },
    Key { name: "initial_ranges", kind: KeyKind::Integer(1, INITIAL_RANGES_MAX), about: "Ranges fetched at start." },
    Key {
        name: "gapless",
        kind: KeyKind::Flag,
        about: "Whether numbers are assigned inside your own database transaction, without a gap.",
    },
    Key {
        name: "increment",
        kind: KeyKind::Integer(1, STEP_MAX),
        about: "The distance from one number to the next, where others mint the numbers in between. Default 1.",
    },
    Key {
        name: "offset",
        kind: KeyKind::Integer(1, STEP_MAX),
        about: "Which of these numbers are ours: 1 to the increment. Default 1.",
    },
    Key {
        name: "stores",
        kind: KeyKind::Texts,
        about: "Several stores instead of one, each with a share of the numbers: of two, one gives the odd ones.",
    },
    Key::DURABILITY,
    TEXT_KEY,
];

/// What has no meaning where numbers are assigned one by one.
const OF_RANGES: [&str; 6] = ["range", "refill_at", "initial_ranges", "increment", "offset", "stores"];

/// `range = { … }`.
const RANGE_KEYS: &[Key] = &[
    Key { name: "min", kind: KeyKind::Integer(1, RANGE_MAX), about: "Fewest numbers in a range. Default 100." },
    Key { name: "max", kind: KeyKind::Integer(1, RANGE_MAX), about: "Most numbers in a range. Default 100000." },
    Key { name: "target", kind: KeyKind::Duration, about: "How long a range is to last. Default 10s." },
];

/// The factory of `scheme = "segment"`.
#[derive(Debug)]
pub(super) struct SegmentFactory;

#[derive(Debug)]
struct Plan {
    sequence: Sequence,
    settings: SegmentSettings,
    /// As in `settings`, for the reader of `explain`.
    range: Range,
    refill_at: f64,
    stride: Stride,
    /// Empty where the entity has one store.
    shares: Vec<Share>,
    text: TextForm,
    gapless: bool,
    reader: Arc<Segment>,
}

/// Reads and writes gapless numbers. It mints none: that is the caller's transaction.
#[derive(Debug)]
struct Gapless(Arc<Segment>);

/// How many numbers a trip brings.
#[derive(Clone, Copy, Debug)]
enum Range {
    Fixed(NonZeroU32),
    Lasting { min: NonZeroU32, max: NonZeroU32, target_ms: u64 },
}

impl SchemeFactory for SegmentFactory {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn about(&self) -> &'static str {
        "small dense numbers from a counter in a store, fetched by the range, for order numbers people read"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let before = settings.refusals();
        let name = settings.text("sequence").unwrap_or(settings.name()).to_owned();
        if name.is_empty() || name.len() > SEQUENCE_NAME_MAX || name.chars().any(char::is_control) {
            settings.refuse("sequence", format!("a name of 1 to {SEQUENCE_NAME_MAX} characters was expected"));
        }
        let start = settings.integer("start", 0..=i64::MAX).unwrap_or(1);
        let mut chosen = SegmentSettings::default();
        let mut refill_at = SegmentSettings::REFILL_AT;
        let range = range(settings);
        chosen = match range {
            Range::Fixed(len) => chosen.range_len(len),
            // What is wrong with it was told.
            Range::Lasting { min, max, target_ms } => chosen.range_lasting(min, max, target_ms).unwrap_or(chosen),
        };
        if let Some(share) = settings.fraction("refill_at") {
            match chosen.refill_at(share) {
                Ok(with_share) => (chosen, refill_at) = (with_share, share),
                Err(fault) => settings.refuse("refill_at", fault.to_string()),
            }
        }
        if let Some(ranges) = settings.integer("initial_ranges", 1..=INITIAL_RANGES_MAX) {
            match chosen.initial_ranges(u32::try_from(ranges).unwrap_or(0)) {
                Ok(with_ranges) => chosen = with_ranges,
                Err(fault) => settings.refuse("initial_ranges", fault.to_string()),
            }
        }
        let gapless = settings.flag("gapless").unwrap_or(false);
        for key in OF_RANGES {
            if gapless && settings.has(key) {
                settings.refuse(key, "gapless numbers are assigned one at a time: take this line out");
            }
        }
        // Whether the store needs it, the reader of the whole config knows.
        settings.choice("durability", &["weak"]);
        let text = text_form(settings);
        let stride = stride(settings);
        let names = stores(settings);
        if settings.refusals() > before {
            return None;
        }
        let sequence = Sequence::new(name, u64::try_from(start).unwrap_or(1));
        let step = u32::try_from(names.len()).unwrap_or(Stride::STEP_MAX);
        let shares = (1..).zip(names).map(|(offset, (store, at))| {
            let own = Stride::new(step, offset).unwrap_or(Stride::EVERY);
            Share::new(store, format(&sequence, own, text), Some(at))
        });
        Some(Arc::new(Plan {
            shares: shares.collect(),
            sequence,
            settings: chosen.text(text),
            range,
            refill_at,
            stride,
            text,
            gapless,
            reader: Arc::new(Segment::reader(text)),
        }))
    }
}

/// How many numbers a trip brings: a number, or a table that says how long they are to last.
fn range(settings: &mut Settings<'_>) -> Range {
    let number = |number: Option<i64>, default: NonZeroU32| {
        number.and_then(|number| u32::try_from(number).ok()).and_then(NonZeroU32::new).unwrap_or(default)
    };
    if !matches!(settings.get("range").map(|setting| &setting.value), Some(Value::Table(_))) {
        return Range::Fixed(number(settings.integer("range", 1..=RANGE_MAX), SegmentSettings::RANGE_LEN));
    }
    let Some(mut table) = settings.table("range") else { return Range::Fixed(SegmentSettings::RANGE_LEN) };
    let min = table.integer("min", 1..=RANGE_MAX);
    let max = table.integer("max", 1..=RANGE_MAX);
    // The one that is left out follows the one that is there.
    let (min, max) = match (min, max) {
        (Some(_), None) => (number(min, RANGE_MIN_DEFAULT), number(min, RANGE_MAX_DEFAULT).max(RANGE_MAX_DEFAULT)),
        (None, Some(_)) => (number(max, RANGE_MIN_DEFAULT).min(RANGE_MIN_DEFAULT), number(max, RANGE_MAX_DEFAULT)),
        _ => (number(min, RANGE_MIN_DEFAULT), number(max, RANGE_MAX_DEFAULT)),
    };
    if min > max {
        table.refuse("min", format!("{min} is above max, {max}: write a min up to max"));
    }
    let target_ms = table.duration_ms("target").unwrap_or(TARGET_MS);
    if target_ms == 0 || target_ms > TARGET_MS_MAX {
        table.refuse("target", "a time above 0 and up to a day was expected, such as \"10s\"");
    }
    Range::Lasting { min, max, target_ms }
}

/// Which numbers are ours, where the config says so.
fn stride(settings: &mut Settings<'_>) -> Stride {
    let step = settings.integer("increment", 1..=STEP_MAX).unwrap_or(1);
    let offset = settings.integer("offset", 1..=STEP_MAX).unwrap_or(1);
    if settings.has("stores") {
        for key in ["increment", "offset"] {
            if !settings.has(key) {
                continue;
            }
            let message = format!("`stores` says already which numbers each store gives: take `{key}` or `stores` out");
            settings.refuse(key, message);
        }
        return Stride::EVERY;
    }
    if offset > step {
        settings.refuse("offset", format!("{offset} lies outside 1 to the increment, {step}"));
    }
    let stride = Stride::new(u32::try_from(step).unwrap_or(1), u32::try_from(offset).unwrap_or(1));
    stride.unwrap_or(Stride::EVERY)
}

/// The stores that share the numbers, and where each stands.
fn stores<'a>(settings: &mut Settings<'a>) -> Vec<(&'a str, Place)> {
    let Some(names) = settings.texts("stores") else { return Vec::new() };
    let places = match settings.get("stores").map(|setting| &setting.value) {
        Some(Value::List(items)) => items.iter().map(|item| item.at).collect(),
        _ => Vec::new(),
    };
    if settings.has("store") {
        settings.refuse("store", "`stores` says already where the numbers are: take `store` or `stores` out");
    }
    if !(2..=Stride::STEP_MAX as usize).contains(&names.len()) {
        settings.refuse("stores", format!("2 to {STEP_MAX} stores were expected; for one, write `store`"));
    }
    if let Some((_, twice)) =
        names.iter().enumerate().find(|(place, name)| names.iter().take(*place).any(|n| n == *name))
    {
        settings.refuse("stores", format!("{twice:?} stands there twice: both would give the same numbers"));
    }
    names.into_iter().zip(places).collect()
}

/// What is recorded in a store. Every number belongs to nobody else there, so it is not said.
fn format(sequence: &Sequence, stride: Stride, text: TextForm) -> Format {
    let format =
        Format::of("segment").with("sequence", &sequence.name).with("start", sequence.start).with("text", text.name());
    if stride == Stride::EVERY {
        return format;
    }
    format.with("increment", stride.step()).with("offset", stride.offset())
}

/// Longest sequence name: it is an index column in every store.
const SEQUENCE_NAME_MAX: usize = 128;

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        self.reader.info()
    }

    fn format(&self) -> Format {
        format(&self.sequence, self.stride, self.text)
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::ranges_of(self.sequence.clone()).shared_by(self.shares.clone());
        needs.gapless = self.gapless;
        needs
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(self.reader.clone())
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        if self.gapless {
            return self.gapless_facts();
        }
        let share = self.refill_at;
        let (ranges, len_max) = match self.range {
            Range::Fixed(len) => {
                let left = (f64::from(len.get()) * share).floor();
                let text = format!(
                    "one trip to the store per {len} numbers; the next range is fetched when {left} of them are left"
                );
                (text, len)
            }
            Range::Lasting { min, max, target_ms } => {
                let (target, percent) = (crate::config::duration(target_ms), share * 100.0);
                let text = format!(
                    "one trip to the store per {min} to {max} numbers, as many as last {target}, or longer where the store is \
                     slow; the next range is fetched when {percent:.0} % of them are left"
                );
                (text, max)
            }
        };
        let first = self.stride.first_from(self.sequence.start);
        let every = match self.stride.step() {
            1 => String::new(),
            step => format!(", every {step}th: the others belong to whoever has another offset"),
        };
        let stores: Vec<&str> = self.shares.iter().map(|share| share.store.as_str()).collect();
        let mut facts = vec![
            Fact::new("capacity", format!("from {first} to 9223372036854775807{every}")),
            Fact::new("ranges", ranges),
            Fact::new(
                "gaps",
                format!("a crash loses at most {} numbers, a clean end none", u64::from(len_max.get()) * 2),
            ),
        ];
        if stores.is_empty() {
            facts.push(Fact::new("order", "ascending per process; between processes by the range"));
        } else {
            let text = format!("ranges by turns from {}; minting goes on while one of them answers", stores.join(", "));
            facts.push(Fact::new("stores", text));
            facts.push(Fact::new("order", "ascending within a range; ranges of several stores interleave"));
        }
        facts.extend([
            Fact::new("uniqueness", "by construction: the store hands out each range once"),
            Fact::new(
                "leaks",
                "shows how many there are: two of them tell the volume in between. Do not show it outside as it is",
            ),
            storage_fact(8, 21.4),
        ]);
        facts
    }

    async fn open(&self, site: Site) -> Result<Opened, ReadyError> {
        let lanes = self.lanes(&site);
        if lanes.is_empty() {
            return Err(ReadyError::with_source(
                MintError::Closed,
                "the store of this entity keeps no ranges: choose another",
            ));
        }
        if self.gapless {
            return Ok(AnyScheme::Int(Arc::new(Gapless(self.reader.clone()))).into());
        }
        let mut settings = self.settings;
        if let Some(seed) = site.seed {
            settings = settings.seeded(seed);
        }
        if let Some(count) = site.once.and_then(NonZeroU32::new) {
            // A process that mints a few and ends takes just these: then nothing is lost between its runs. Of many it takes some at a
            // time: whoever raises the counter must be able to say what is held.
            settings = settings.range_len(count.min(ONCE_LEN_MAX)).on_demand();
        }
        let segment = Segment::open_over(lanes, settings, Arc::clone(&site.clock), first_turn(&site)).await?;
        Ok(AnyScheme::Int(Arc::new(segment)).into())
    }
}

impl Plan {
    fn gapless_facts(&self) -> Vec<Fact> {
        vec![
            Fact::new("capacity", format!("from {} to 9223372036854775807", self.sequence.start)),
            Fact::new("gaps", "none: a number is assigned inside your transaction and rolled back with it (next_in)"),
            Fact::new("speed", "transactions that number wait for each other, from next_in to their commit"),
            Fact::new("order", "ascending by commit"),
            Fact::new("uniqueness", "by construction: the counter and your row are committed together"),
            Fact::new(
                "leaks",
                "shows how many there are: two of them tell the volume in between. Do not show it outside as it is",
            ),
            storage_fact(8, 21.4),
        ]
    }

    /// The stores, each with the numbers it gives.
    fn lanes(&self, site: &Site) -> Vec<Lane> {
        let lane = |name: &str, store: &Arc<_>, stride| {
            Lane::new(name, Arc::clone(store), self.sequence.clone()).every(stride)
        };
        if self.shares.is_empty() {
            return site.ranges.iter().map(|store| lane("store", store, self.stride)).collect();
        }
        let step = u32::try_from(site.shares.len()).unwrap_or(Stride::STEP_MAX);
        let strides = (1..).map_while(|offset| Stride::new(step, offset).ok());
        site.shares.iter().zip(strides).map(|((name, store), stride)| lane(name, store, stride)).collect()
    }
}

#[async_trait]
impl IdScheme for Gapless {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        self.0.info()
    }

    fn mint(&self) -> Result<u64, MintError> {
        Err(MintError::Gapless)
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        Err(MintError::Gapless.into())
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.0.parse(text)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        self.0.anatomy(bits)
    }
}

/// Which store is asked first: by chance, or processes that take one range and end would wear out the same one.
fn first_turn(site: &Site) -> usize {
    if site.seed.is_some() {
        return 0;
    }
    let dice = Entropy::os().draw_u64().unwrap_or_default();
    usize::try_from(dice % u64::from(Stride::STEP_MAX)).unwrap_or_default()
}
