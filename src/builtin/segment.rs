//! `scheme = "segment"`: reads its settings, and says what they mean.

use std::{num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use mintage_core::{
    AnyScheme, Format, IdScheme, MintError, ReadyError, SchemeInfo, Sequence,
    plugin::{Fact, Key, KeyKind, Needs, Opened, SchemeFactory, SchemePlan, Settings, Site, Value},
};
use mintage_schemes::{Segment, SegmentSettings, TextForm};

use super::{TEXT_KEY, storage_fact, text_form};

/// Longest range: a crash loses at most this many numbers, twice.
const RANGE_MAX: i64 = 1_000_000_000;
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
    Key { name: "range", kind: KeyKind::Integer(1, RANGE_MAX), about: "Numbers fetched in one trip to the store." },
    Key {
        name: "refill_at",
        kind: KeyKind::Fraction(0.0, 1.0),
        about: "Fetch the standby range when this fraction is left.",
    },
    Key { name: "initial_ranges", kind: KeyKind::Integer(1, INITIAL_RANGES_MAX), about: "Ranges fetched at start." },
    TEXT_KEY,
];

/// The factory of `scheme = "segment"`.
#[derive(Debug)]
pub(super) struct SegmentFactory;

#[derive(Debug)]
struct Plan {
    sequence: Sequence,
    settings: SegmentSettings,
    /// As in `settings`, for the reader of `explain`.
    range: u32,
    refill_at: f64,
    text: TextForm,
    reader: Arc<Segment>,
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
        if matches!(settings.get("range").map(|setting| &setting.value), Some(Value::Table(_))) {
            settings.refuse(
                "range",
                "sizing by { min, max, target } is not in this version yet: write a number such as range = 1000",
            );
        }
        let mut chosen = SegmentSettings::default();
        let (mut range_len, mut refill_at) = (SegmentSettings::RANGE_LEN, SegmentSettings::REFILL_AT);
        if let Some(range) = settings.integer("range", 1..=RANGE_MAX) {
            range_len = u32::try_from(range).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
            chosen = chosen.range_len(range_len);
        }
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
        let text = text_form(settings);
        if settings.refusals() > before {
            return None;
        }
        let sequence = Sequence::new(name, u64::try_from(start).unwrap_or(1));
        Some(Arc::new(Plan {
            sequence,
            settings: chosen.text(text),
            range: range_len.get(),
            refill_at,
            text,
            reader: Arc::new(Segment::reader(text)),
        }))
    }
}

/// Longest sequence name: it is an index column in every store.
const SEQUENCE_NAME_MAX: usize = 128;

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        self.reader.info()
    }

    fn format(&self) -> Format {
        Format::of("segment")
            .with("sequence", &self.sequence.name)
            .with("start", self.sequence.start)
            .with("text", self.text.name())
    }

    fn needs(&self) -> Needs {
        Needs::ranges_of(self.sequence.clone())
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(self.reader.clone())
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        let len = self.range;
        let left = (f64::from(len) * self.refill_at).floor();
        vec![
            Fact::new("capacity", format!("from {} to 9223372036854775807", self.sequence.start)),
            Fact::new(
                "ranges",
                format!(
                    "one trip to the store per {len} numbers; the next range is fetched when {left} of them are left"
                ),
            ),
            Fact::new("gaps", format!("a crash loses at most {} numbers, a clean end none", u64::from(len) * 2)),
            Fact::new("order", "ascending per process; between processes by the range"),
            Fact::new("uniqueness", "by construction: the store hands out each range once"),
            Fact::new(
                "leaks",
                "shows how many there are: two of them tell the volume in between. Do not show it outside as it is",
            ),
            storage_fact(8, 21.4),
        ]
    }

    async fn open(&self, site: Site) -> Result<Opened, ReadyError> {
        let Some(ranges) = site.ranges else {
            return Err(ReadyError::with_source(
                MintError::Closed,
                "the store of this entity keeps no ranges: choose another",
            ));
        };
        let mut settings = self.settings;
        if let Some(seed) = site.seed {
            settings = settings.seeded(seed);
        }
        if let Some(count) = site.once.and_then(NonZeroU32::new) {
            // A process that mints a few and ends takes just these: then nothing is lost between its runs.
            settings = settings.range_len(count).on_demand();
        }
        let segment = Segment::open(ranges, self.sequence.clone(), settings).await?;
        Ok(AnyScheme::Int(Arc::new(segment)).into())
    }
}
