//! `scheme = "snowflake"`: reads its settings, and says what they mean.

use std::sync::Arc;

use async_trait::async_trait;
use mintage_core::{
    AnyScheme, Format, ReadyError, SchemeInfo, WorkerChoice,
    plugin::{Fact, Key, KeyKind, Needs, Opened, SchemeFactory, SchemePlan, Settings, Site, Value, WorkerNeed},
};
use mintage_schemes::{
    Entropy, Layout, OnOverflow, OnStep, PRESETS, Part, Preset, Revised, RevisedReader, SequenceStart, Snowflake,
    SnowflakeReader, SnowflakeSettings, TimeUnit,
};

use super::{TEXT_KEY, YEAR_MS, storage_fact, text_form};
use crate::time;

/// A layout that ends sooner is refused unless `allow = ["short-life"]`: renumbering a live table takes longer to plan.
const LIFE_MS_MIN: i64 = 2 * YEAR_MS;
/// A layout that ends sooner gets a warning: tables outlive their makers' plans.
const LIFE_MS_WISE: i64 = 50 * YEAR_MS;
/// Unix milliseconds below this, read as seconds, are later than 2001: an epoch there was meant in seconds.
const LOOKS_LIKE_SECONDS_MS: i64 = 100_000_000_000;

const LAYOUT_KEYS: &[Key] = &[
    Key { name: "time", kind: KeyKind::Integer(1, 48), about: "Bits of the time field." },
    Key { name: "worker", kind: KeyKind::Integer(1, 31), about: "Bits of the worker field, region included." },
    Key { name: "sequence", kind: KeyKind::Integer(1, 61), about: "Bits of the sequence within one time unit." },
    Key {
        name: "region",
        kind: KeyKind::Integer(0, 31),
        about: "Leading bits of the worker field that name the region.",
    },
    Key { name: "unit", kind: KeyKind::Choice(UNITS), about: "Length of one step of the time field." },
    Key { name: "fields", kind: KeyKind::Texts, about: "time, worker and sequence in the order of their bits." },
];
const UNITS: &[&str] = &["1ms", "10ms", "1s"];
const MINTABLE: &[&str] = &["twitter", "sonyflake", "region-2-8", "js53"];

const WORKER_KEYS: &[Key] = &[
    Key { name: "pool", kind: KeyKind::Text, about: "The [workers.X] that leases worker ids." },
    Key {
        name: "id",
        kind: KeyKind::Integer(0, 2_147_483_647),
        about: "Insist on this worker id; it is leased all the same.",
    },
    Key {
        name: "ordinal",
        kind: KeyKind::Flag,
        about: "Prefer the worker id that has the number of this replica: MINTAGE_ORDINAL, else the end of the host name.",
    },
];
const FALLBACK_KEYS: &[Key] = &[
    Key {
        name: "pool",
        kind: KeyKind::Text,
        about: "The [workers.X] to lease from while the store of the other one cannot be reached.",
    },
    Key { name: "store", kind: KeyKind::Text, about: "The store of that pool; may be left out." },
];
const CLOCK_KEYS: &[Key] = &[
    Key { name: "on_step", kind: KeyKind::Choice(ON_STEP), about: "What to do when the clock steps back." },
    Key { name: "on_overflow", kind: KeyKind::Choice(ON_OVERFLOW), about: "What to do when a time unit is full." },
    Key { name: "max_drift", kind: KeyKind::Duration, about: "How far ids may run ahead of the clock." },
    Key { name: "max_wait", kind: KeyKind::Duration, about: "How long `ready` waits for the clock." },
];
const ON_STEP: &[&str] = &["borrow", "wait", "refuse"];
const ON_OVERFLOW: &[&str] = &["borrow", "wait"];
const ALLOW: &[&str] = &["short-life"];

const LAYOUTS_KEYS: &[Key] = &[
    Key {
        name: "until",
        kind: KeyKind::Time,
        about: "When the next layout begins. Never change it once it is recorded.",
    },
    Key { name: "epoch", kind: KeyKind::Time, about: "The instant of its time 0." },
    Key {
        name: "layout",
        kind: KeyKind::OneOf(&[KeyKind::Choice(MINTABLE), KeyKind::Table(LAYOUT_KEYS)]),
        about: "How its bits are divided.",
    },
];

const KEYS: &[Key] = &[
    Key { name: "epoch", kind: KeyKind::Time, about: "The instant of time 0. Never change it once ids exist." },
    Key {
        name: "layout",
        kind: KeyKind::OneOf(&[KeyKind::Choice(MINTABLE), KeyKind::Table(LAYOUT_KEYS)]),
        about: "How the 63 bits are divided, or the name of a preset, which also sets the epoch.",
    },
    Key {
        name: "layouts",
        kind: KeyKind::Tables(LAYOUTS_KEYS),
        about: "The layouts before this one, oldest first, each with the time at which the next begins.",
    },
    Key { name: "worker", kind: KeyKind::Table(WORKER_KEYS), about: "Where the worker id comes from." },
    Key {
        name: "fallback",
        kind: KeyKind::Table(FALLBACK_KEYS),
        about: "Where the worker id comes from while the store of the pool cannot be reached.",
    },
    Key { name: "clock", kind: KeyKind::Table(CLOCK_KEYS), about: "What to do when the clock misbehaves." },
    Key {
        name: "sequence_start",
        kind: KeyKind::Choice(&["zero", "random"]),
        about: "Where the sequence starts in each unit.",
    },
    Key { name: "order", kind: KeyKind::Choice(&["strict"]), about: "Ascending per minter." },
    Key { name: "allow", kind: KeyKind::Texts, about: "Checks to pass over by name: short-life." },
    TEXT_KEY,
];

/// The factory of `scheme = "snowflake"`.
#[derive(Debug)]
pub(super) struct SnowflakeFactory;

#[derive(Debug)]
struct Plan {
    reader: SnowflakeReader,
    /// With the layouts before.
    revised: RevisedReader,
    /// The layout that is in use until the cut-over, where that is still to come.
    old: Option<SnowflakeReader>,
    settings: SnowflakeSettings,
    need: WorkerNeed,
    info: SchemeInfo,
}

impl SchemeFactory for SnowflakeFactory {
    fn name(&self) -> &'static str {
        "snowflake"
    }

    fn about(&self) -> &'static str {
        "64 bits of time, worker and sequence, for columns that must be BIGINT and sort by time"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let before = settings.refusals();
        let shape = layout_and_epoch(settings);
        let past = past_layouts(settings);
        let text = text_form(settings);
        let clock = clock_settings(settings);
        let start = settings.choice("sequence_start", &["zero", "random"]);
        settings.choice("order", &["strict"]);
        let worker = worker(settings);
        let (layout, epoch_ms) = shape?;
        life(settings, &SnowflakeReader::new(layout, epoch_ms));
        let mut minting = clock;
        if start == Some("random") {
            minting.sequence_start = SequenceStart::Random;
        }
        let reader = SnowflakeReader::new(layout, epoch_ms).with_text(text);
        let revised = revised(settings, &reader, past?);
        let now_ms = settings.now_ms();
        let pending = revised.as_ref().and_then(|revised| revised.past().next_back());
        let old = pending.filter(|(_, until_ms)| *until_ms > now_ms).map(|(reader, _)| reader.clone());
        let probe = Snowflake::new(reader.clone(), minting, mintage_core::SystemClock);
        if let Err(message) = &probe {
            settings.refuse("clock", message.clone());
        }
        let fallback = fallback(settings);
        let (pool, which, ordinal) = worker?;
        if settings.refusals() > before {
            return None;
        }
        // Until the cut-over, what the old layout has no room for is no worker id either.
        let in_use = || old.iter().map(SnowflakeReader::layout).chain([&layout]);
        let workers = in_use().map(|layout| layout.max(Part::Worker) + 1).min().unwrap_or(0);
        let unit_ms = in_use().map(|layout| layout.unit().ms()).max().unwrap_or(1);
        let room = u32::try_from(workers).unwrap_or(u32::MAX);
        let mut need = WorkerNeed::any(pool, 0..room, u32::try_from(unit_ms).unwrap_or(u32::MAX));
        let ever = revised.iter().flat_map(RevisedReader::past).map(|(reader, _)| *reader.layout()).chain([layout]);
        let always = ever.map(|layout| layout.max(Part::Worker) + 1).min().unwrap_or(0);
        need.always = 0..u32::try_from(always).unwrap_or(u32::MAX);
        need.which = which;
        need.ordinal = ordinal;
        need.fallback = fallback;
        need.ids_a_unit = layout.max(Part::Sequence) + 1;
        need.at = settings.place("worker");
        let info = mintage_core::IdScheme::info(&probe.ok()?).clone();
        Some(Arc::new(Plan { reader, revised: revised?, old, settings: minting, need, info }))
    }
}

#[async_trait]
impl SchemePlan for Plan {
    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    /// The pool belongs to it: two processes that lease worker ids from two pools may hold the same one at the same time.
    fn format(&self) -> Format {
        let first = self.revised.past().next().map_or(&self.reader, |(reader, _)| reader);
        let mut format = Format::of("snowflake")
            .with("epoch_ms", first.epoch_ms())
            .with("layout", first.layout())
            .with("pool", &self.need.pool)
            .with("text", self.reader.text().name());
        let later = self.revised.past().map(|(reader, _)| reader).skip(1).chain([&self.reader]);
        for ((position, (_, until_ms)), next) in self.revised.past().enumerate().zip(later) {
            format =
                format.revised(position + 2, until_ms, format_args!("epoch_ms:{} {}", next.epoch_ms(), next.layout()));
        }
        format
    }

    fn needs(&self) -> Needs {
        Needs::worker(self.need.clone())
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(Arc::new(self.revised.clone()))
    }

    fn facts(&self, now_ms: u64) -> Vec<Fact> {
        let layout = self.reader.layout();
        let per_second = (layout.max(Part::Sequence) + 1).saturating_mul(1000 / layout.unit().ms());
        let workers = layout.max(Part::Worker) + 1;
        let end_ms = mintage_core::IdScheme::runs_out(&self.reader).unwrap_or(i64::MAX);
        let left_years = (end_ms - i64::try_from(now_ms).unwrap_or(0)) / YEAR_MS;
        let life =
            Fact::new("life", format!("lasts until {}, {left_years} years from now", time::day(end_ms))).at(end_ms);
        let mut facts = vec![
            Fact::new("layout", format!("{layout}, {} bits", layout.bits())),
            Fact::new("capacity", format!("{} workers × {} ids/s", spaced(workers), spaced(per_second))),
            if left_years * YEAR_MS < LIFE_MS_WISE { life.warn() } else { life },
            Fact::new("order", "strictly ascending per process; between processes by time unit"),
            Fact::new(
                "uniqueness",
                "by construction: one worker id is leased to one process for one window of time at a time",
            ),
            self.ahead(),
            Fact::new("leaks", "shows when it was made, by which worker, and how many came before it in the same unit"),
            storage_fact(8, 21.4),
        ];
        for (reader, until_ms) in self.revised.past() {
            let until_ms = i64::try_from(until_ms).unwrap_or(i64::MAX);
            let told = format!("{} until {}; its ids are read by it", reader.layout(), time::rfc3339(until_ms, 1000));
            facts.push(Fact::new("layout before", told).at(until_ms));
        }
        if layout.bits() <= 53 {
            facts.push(Fact::new("javascript", "53 bits: exact as a JavaScript number"));
        } else {
            facts.push(Fact::new(
                "javascript",
                "above 53 bits: send it as a string, a JavaScript number would round it",
            ));
        }
        facts
    }

    async fn open(&self, site: Site) -> Result<Opened, ReadyError> {
        let entropy = site.seed.map_or_else(Entropy::os, Entropy::seeded);
        let mut settings = self.settings;
        if site.lanes {
            settings.on_overflow = OnOverflow::Wait;
        }
        let open = |reader: &SnowflakeReader, entropy: Entropy| {
            Snowflake::new(reader.clone(), settings, Arc::clone(&site.clock))
                .map(|scheme| scheme.with_entropy(entropy))
                .map_err(|message| ReadyError::with_source(mintage_core::MintError::LeaseLapsed, message))
        };
        let new = open(&self.reader, entropy)?;
        let Some((_, cut_over_ms)) = self.revised.past().next_back() else {
            let scheme = Arc::new(new);
            return Ok(Opened { scheme: AnyScheme::Int(scheme.clone()), leased: Some(scheme) });
        };
        let for_old = site.seed.map_or_else(Entropy::os, |seed| Entropy::seeded(seed.wrapping_add(1)));
        let old = self.old.as_ref().map(|reader| open(reader, for_old)).transpose()?;
        let scheme = Revised::new(self.revised.clone(), old, new, cut_over_ms, Arc::clone(&site.clock));
        let scheme = Arc::new(scheme);
        Ok(Opened { scheme: AnyScheme::Int(scheme.clone()), leased: Some(scheme) })
    }
}

impl Plan {
    /// How far an id's time may be ahead of the wall clock.
    fn ahead(&self) -> Fact {
        let SnowflakeSettings { on_step, on_overflow, max_drift_ms, .. } = self.settings;
        let drift = crate::config::duration(max_drift_ms);
        let text = match (on_step, on_overflow) {
            (OnStep::Borrow, OnOverflow::Borrow) => format!(
                "the time in an id runs at most {drift} ahead of the wall clock (max_drift): in a full time unit, or after a step back"
            ),
            (OnStep::Borrow, _) => {
                format!("the time in an id runs at most {drift} ahead of the wall clock (max_drift): after a step back")
            }
            (_, OnOverflow::Borrow) => {
                format!(
                    "the time in an id runs at most {drift} ahead of the wall clock (max_drift): in a full time unit"
                )
            }
            _ => "the time in an id never runs ahead of the wall clock: minting waits or refuses".to_owned(),
        };
        Fact::new("ahead", text)
    }
}

/// A layout that was in use until a cut-over.
type Past = (Layout, u64, u64);

/// The layouts before, oldest first; `None` after a fault.
fn past_layouts(settings: &mut Settings<'_>) -> Option<Vec<Past>> {
    if !settings.has("layouts") {
        return Some(Vec::new());
    }
    let read = settings.tables("layouts", |table| {
        let shape = layout_and_epoch(table);
        let until_ms = match table.get("until").map(|setting| &setting.value) {
            Some(Value::Text(text) | Value::Time(text)) => time::parse(text).ok(),
            Some(_) => None,
            None => {
                table.refuse("until", "missing: write the time at which the next layout begins");
                None
            }
        };
        let (layout, epoch_ms) = shape?;
        Some((layout, epoch_ms, u64::try_from(until_ms?).ok()?))
    })?;
    read.into_iter().collect()
}

/// The reader of all layouts. Refused where it could not tell whose an id is, or where more than one change is still to come.
fn revised(settings: &mut Settings<'_>, current: &SnowflakeReader, past: Vec<Past>) -> Option<RevisedReader> {
    let now_ms = settings.now_ms();
    let pending = past.iter().filter(|(_, _, until_ms)| *until_ms > now_ms).count();
    if pending > 1 {
        settings.refuse("layouts", "two changes are still to come: add the second when the first is over");
        return None;
    }
    let readers = past.into_iter().map(|(layout, epoch_ms, until_ms)| {
        (SnowflakeReader::new(layout, epoch_ms).with_text(current.text()), until_ms)
    });
    match RevisedReader::new(current.clone()).after(readers.collect()) {
        Ok(reader) => Some(reader),
        Err((position, fault)) => {
            settings.refuse("layouts", format!("layout {} of the list and the next: {fault}", position + 1));
            None
        }
    }
}

fn layout_and_epoch(settings: &mut Settings<'_>) -> Option<(Layout, u64)> {
    let epoch_ms = epoch(settings);
    let named = match settings.get("layout").map(|setting| &setting.value) {
        None => {
            settings.refuse(
                "layout",
                "missing: write layout = { time = 41, worker = 10, sequence = 12 }, or the name of a preset",
            );
            return None;
        }
        Some(Value::Text(name)) => Some(name.clone()),
        Some(_) => None,
    };
    let Some(name) = named else {
        let layout = own_layout(settings);
        if !settings.has("epoch") {
            settings.refuse(
                "epoch",
                "missing: write the day your first id is made, such as epoch = \"2026-01-01T00:00:00Z\"; it can never change",
            );
        }
        return Some((layout?, epoch_ms?));
    };
    let Ok(preset) = Preset::named(&name) else {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        settings.refuse("layout", format!("no preset {name:?} (known: {})", known.join(", ")));
        return None;
    };
    if !preset.mintable {
        settings.refuse(
            "layout",
            format!(
                "{name} ids have 64 bits and can only be read, by `mintage inspect`; to mint, choose one of {}",
                MINTABLE.join(", ")
            ),
        );
        return None;
    }
    if settings.has("epoch") && epoch_ms != Some(preset.epoch_ms) {
        let own = time::rfc3339(i64::try_from(preset.epoch_ms).unwrap_or(i64::MAX), 1);
        settings
            .refuse("epoch", format!("the preset {name} counts from {own}: remove this line, or write the layout out"));
        return None;
    }
    Some((preset.layout, preset.epoch_ms))
}

fn epoch(settings: &mut Settings<'_>) -> Option<u64> {
    let text = match &settings.get("epoch")?.value {
        Value::Text(text) | Value::Time(text) => text.clone(),
        Value::Integer(number) => {
            let (unit, unix_ms) = if *number < LOOKS_LIKE_SECONDS_MS {
                ("seconds", number.saturating_mul(1000))
            } else {
                ("milliseconds", *number)
            };
            let meant = time::rfc3339(unix_ms, 1);
            settings.refuse("epoch", format!("{number} looks like Unix {unit}: write the time, epoch = \"{meant}\""));
            return None;
        }
        other => {
            let kind = other.kind();
            settings.refuse("epoch", format!("a time such as \"2026-01-01T00:00:00Z\" was expected, found {kind}"));
            return None;
        }
    };
    let unix_ms = match time::parse(&text) {
        Ok(unix_ms) => unix_ms,
        Err(message) => {
            settings.refuse("epoch", message);
            return None;
        }
    };
    let now_ms = i64::try_from(settings.now_ms()).unwrap_or(i64::MAX);
    if unix_ms > now_ms {
        settings.refuse(
            "epoch",
            format!("{text} is in the future (now is {}): ids count up from the epoch, choose a past day, or set this machine's clock", time::rfc3339(now_ms, 1000)),
        );
        return None;
    }
    let from_1970 = u64::try_from(unix_ms).ok();
    if from_1970.is_none() {
        settings.refuse("epoch", format!("{text} lies before 1970: choose a later day"));
    }
    from_1970
}

fn own_layout(settings: &mut Settings<'_>) -> Option<Layout> {
    let before = settings.refusals();
    let mut table = settings.table("layout")?;
    let mut width = |part: Part, least: i64| {
        if !table.has(part.name()) {
            table.refuse("", format!("{} is missing: time, worker and sequence each need their bits", part.name()));
            return None;
        }
        // Widths beyond any sense still reach the sum, so that the sum can be shown.
        table.integer(part.name(), least..=i64::from(u32::MAX)).and_then(|bits| u32::try_from(bits).ok())
    };
    let (time, worker, sequence) = (width(Part::Time, 0), width(Part::Worker, 0), width(Part::Sequence, 0));
    let region = table.integer("region", 0..=31).and_then(|bits| u32::try_from(bits).ok()).unwrap_or(0);
    let unit = match table.choice("unit", UNITS) {
        Some("10ms") => TimeUnit::Centisecond,
        Some("1s") => TimeUnit::Second,
        _ => TimeUnit::Millisecond,
    };
    let order: Vec<String> = match table.texts("fields") {
        Some(names) => names.into_iter().map(str::to_owned).collect(),
        None => ["time", "worker", "sequence"].map(str::to_owned).to_vec(),
    };
    let width_of = |name: &str| match name {
        "time" => time.map(|bits| (Part::Time, bits)),
        "worker" => worker.map(|bits| (Part::Worker, bits)),
        "sequence" => sequence.map(|bits| (Part::Sequence, bits)),
        _ => None,
    };
    if order.len() != 3 || order.iter().any(|name| !["time", "worker", "sequence"].contains(&name.as_str())) {
        table.refuse("fields", "write time, worker and sequence, each once, in the order of their bits");
    }
    if table.refusals() > before {
        return None;
    }
    let parts: Vec<(Part, u32)> = order.iter().filter_map(|name| width_of(name)).collect();
    let parts: [(Part, u32); 3] = parts.try_into().ok()?;
    match Layout::of(parts, region, unit) {
        Ok(layout) => Some(layout),
        Err(error) => {
            settings.refuse("layout", error.to_string());
            None
        }
    }
}

/// Refuses what ended or ends soon, and warns of what ends within a working life.
fn life(settings: &mut Settings<'_>, reader: &SnowflakeReader) {
    let allowed = settings.texts("allow").unwrap_or_default();
    if let Some(unknown) = allowed.iter().find(|name| !ALLOW.contains(name)) {
        let message = format!("{unknown:?} names no check (known: {})", ALLOW.join(", "));
        settings.refuse("allow", message);
    }
    let short_life_allowed = allowed.contains(&"short-life");
    let now_ms = i64::try_from(settings.now_ms()).unwrap_or(i64::MAX);
    let end_ms = mintage_core::IdScheme::runs_out(reader).unwrap_or(i64::MAX);
    let end = time::rfc3339(end_ms, 1);
    let left_ms = end_ms.saturating_sub(now_ms);
    if left_ms <= 0 {
        settings
            .refuse("layout", format!("its time field was used up on {end}: choose a later epoch, or more time bits"));
    } else if left_ms < LIFE_MS_MIN && !short_life_allowed {
        settings.refuse(
            "layout",
            format!("ends on {end}, within two years: give it more time bits or a later epoch, or write allow = [\"short-life\"]"),
        );
    } else if left_ms < LIFE_MS_WISE {
        settings.warn(
            "layout",
            format!("ends on {end}, in less than 50 years: more time bits, or a later epoch, last longer"),
        );
    }
}

fn clock_settings(settings: &mut Settings<'_>) -> SnowflakeSettings {
    let mut chosen = SnowflakeSettings::default();
    if !settings.has("clock") {
        // A unit longer than the default drift could not borrow even one: then the drift is one unit.
        let unit_ms = if unit_text(settings) == Some("1s") { 1000 } else { 0 };
        chosen.max_drift_ms = chosen.max_drift_ms.max(unit_ms);
        return chosen;
    }
    let Some(mut clock) = settings.table("clock") else { return chosen };
    match clock.choice("on_step", ON_STEP) {
        Some("wait") => chosen.on_step = OnStep::Wait,
        Some("refuse") => chosen.on_step = OnStep::Refuse,
        _ => {}
    }
    if clock.choice("on_overflow", ON_OVERFLOW) == Some("wait") {
        chosen.on_overflow = OnOverflow::Wait;
    }
    if let Some(max_drift_ms) = clock.duration_ms("max_drift") {
        chosen.max_drift_ms = max_drift_ms;
    }
    if let Some(max_wait_ms) = clock.duration_ms("max_wait") {
        chosen.max_wait_ms = max_wait_ms;
    }
    chosen
}

/// The unit as written, whether in a layout table or behind a preset.
fn unit_text(settings: &Settings<'_>) -> Option<&'static str> {
    match &settings.get("layout")?.value {
        Value::Text(name) => {
            Preset::named(name).ok().filter(|preset| preset.layout.unit() == TimeUnit::Second).map(|_| "1s")
        }
        Value::Table(table) => {
            let unit = table.iter().find(|(name, _)| name == "unit").map(|(_, setting)| &setting.value);
            matches!(unit, Some(Value::Text(text)) if text == "1s").then_some("1s")
        }
        _ => None,
    }
}

fn fallback(settings: &mut Settings<'_>) -> Option<String> {
    let mut table = settings.table("fallback")?;
    if !table.has("pool") {
        table.refuse("", "pool is missing: name the [workers.X] of the reserve");
    }
    table.text("pool").map(str::to_owned)
}

fn worker(settings: &mut Settings<'_>) -> Option<(String, WorkerChoice, bool)> {
    if !settings.has("worker") {
        settings.refuse(
            "worker",
            "missing: write worker = { pool = \"main\" }, with a [workers.main] that leases worker ids",
        );
        return None;
    }
    let mut table = settings.table("worker")?;
    let which = match table.integer("id", 0..=i64::from(i32::MAX)) {
        Some(id) => WorkerChoice::Exactly(u32::try_from(id).unwrap_or(u32::MAX)),
        None if table.has("id") => return None,
        None => WorkerChoice::Any,
    };
    let ordinal = table.flag("ordinal").unwrap_or(false);
    if ordinal && which != WorkerChoice::Any {
        table.refuse("ordinal", "id insists on one worker id and ordinal prefers another: keep one of the two");
        return None;
    }
    if !table.has("pool") {
        table.refuse("", "pool is missing: name the [workers.X] that leases worker ids; an id alone would not keep a second process away");
        return None;
    }
    Some((table.text("pool")?.to_owned(), which, ordinal))
}

/// Digits in groups of three, with thin gaps: `4 096 000`.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) && digits.len() > 4 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(spaced(1024), "1024");
        assert_eq!(spaced(4_096_000), "4 096 000");
        assert_eq!(spaced(65536), "65 536");
    }
}
