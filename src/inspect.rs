//! The inspector: what a text could be, best guess first, and why.
//!
//! The same digits are a 2011 id under one epoch and a 2026 one under another. So every reading is listed, ranked by reasons
//! that are printed: the entities of the config first, then what the world publishes. A time is never invented for an id
//! that carries none.

use std::{collections::BTreeSet, fmt};

use mintage_core::{Anatomy, AnyId, AnyScheme, Grant, ParseError, RangeGrant, RangeHistory, Role};
use mintage_schemes::{
    PRESETS, SnowflakeReader, TextForm, ksuid_anatomy, parse_ksuid, parse_ulid, parse_uuid_lenient, ulid_anatomy,
    uuid_anatomy, write_ksuid,
};
use serde_json::{Map, Value, json};

use crate::{public::PublicForm, series::SeriesNumber, time};

/// How far ahead of our clock an id's time may be before it counts as the future: clocks of a fleet differ by less.
const SKEW_MS: i64 = 5 * 60 * 1000;
/// A time this close to an epoch is more likely a plain number read as a snowflake.
const YOUNG_MS: i64 = 30 * 24 * 3600 * 1000;
/// 1990-01-01: a ULID or UUID that claims to be older was made from seconds, or from nothing.
const OLD_MS: i64 = 631_152_000_000;
/// Longest text looked at, in bytes: no id of any scheme comes near it.
const TEXT_LEN_MAX: usize = 200;

/// Reads ids with the entities of a config, and without one.
#[derive(Debug)]
pub struct Inspector {
    entities: Vec<(String, AnyScheme)>,
    now_ms: i64,
}

/// What one text could be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The text, without surrounding spaces.
    pub input: String,
    /// The readings, best first. Empty if it is an id of nothing known.
    pub candidates: Vec<Candidate>,
    /// Why it is not an id of each entity or scheme, for people to read, the nearest miss first.
    pub refusals: Vec<(String, String)>,
    /// The series of the config of which it is a number.
    pub series: Vec<SeriesReading>,
    /// The entities of which it would be a public number, were its check digit right: a digit is mistyped.
    pub mistyped: Vec<String>,
    /// The entity of which it is, or holds, a bearer token. Then `input` is not the text, for that is a secret.
    pub secret_of: Option<String>,
}

/// A text as a number of a series.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeriesReading {
    /// The series.
    pub series: String,
    /// Its number.
    pub number: SeriesNumber,
    /// The next number of that period, if its store was asked.
    pub next: Option<u64>,
}

impl fmt::Display for SeriesReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, period) = (self.number.n(), self.number.period());
        write!(f, "number {n} of series {}, period {period}", self.series)?;
        match self.next {
            Some(next) if n < next => f.write_str(", handed out"),
            Some(next) => write!(f, ", not handed out yet: the period stands at {next}"),
            None => Ok(()),
        }
    }
}

/// One reading.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The scheme or published layout, such as `snowflake` or `discord`.
    pub scheme: String,
    /// The entity of the config, if it is one of ours.
    pub entity: Option<String>,
    /// The value.
    pub id: AnyId,
    /// Its parts.
    pub anatomy: Anatomy,
    /// Other spellings: name and text.
    pub spellings: Vec<(&'static str, String)>,
    /// Why it stands where it stands.
    pub reasons: Vec<String>,
    /// Who could have minted it, from the lease history.
    pub minted_by: Vec<Grant>,
    /// Who got the range of its number, and from which store, from the range history.
    pub ranges: Vec<(String, RangeGrant)>,
    /// 0 to 100. Only the order means anything.
    pub rank: u8,
}

impl Inspector {
    /// An inspector that knows these entities, by the clock `now_ms` (Unix ms).
    pub fn new(entities: Vec<(String, AnyScheme)>, now_ms: u64) -> Self {
        Self { entities, now_ms: i64::try_from(now_ms).unwrap_or(i64::MAX) }
    }

    /// Reads a text in every way it can be read.
    pub fn inspect(&self, text: &str) -> Inspection {
        let input = text.trim().to_owned();
        let mut inspection = Inspection::of(input.clone());
        if input.len() > TEXT_LEN_MAX {
            let error = ParseError::Length { found: input.len(), expected: TEXT_LEN_MAX };
            inspection.refusals.push(("id".to_owned(), error.to_string()));
            return inspection;
        }
        let mut misses = self.read_entities(&input, &mut inspection);
        misses.extend(read_uuid(&input, &mut inspection));
        misses.extend(read_ulid(&input, &mut inspection));
        misses.extend(read_ksuid(&input, &mut inspection));
        read_published(&input, &mut inspection);
        misses.sort_by_key(|(_, error)| distance(error));
        inspection.refusals = misses.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        for candidate in &mut inspection.candidates {
            self.weigh(candidate);
        }
        inspection.rank();
        inspection
    }

    fn read_entities(&self, text: &str, into: &mut Inspection) -> Vec<Miss> {
        let mut misses = Vec::new();
        for (name, scheme) in &self.entities {
            match scheme.parse(text) {
                Ok(id) => {
                    let Some(anatomy) = scheme.anatomy(id) else { continue };
                    let mut candidate = Candidate::new(&scheme.info().name, id, anatomy);
                    candidate.entity = Some(name.clone());
                    into.candidates.push(candidate);
                }
                Err(error) => misses.push((name.clone(), error)),
            }
        }
        misses
    }

    /// Judges a reading by the time it tells.
    fn weigh(&self, candidate: &mut Candidate) {
        let ours = candidate.entity.is_some();
        let shaped = !matches!(candidate.id, AnyId::Int(_));
        candidate.rank = match (ours, shaped) {
            (true, _) => 90,
            (false, true) => 80,
            (false, false) => 60,
        };
        if let Some(name) = &candidate.entity {
            candidate.reasons.push(format!("{name} of this config uses {}", candidate.scheme));
        } else if shaped {
            candidate.reasons.push(format!("only a {} is written like this", candidate.scheme));
        }
        let Some(made) = candidate.anatomy.time else {
            if matches!(candidate.id, AnyId::Int(_)) {
                candidate.reasons.push("a plain number: it tells no time".to_owned());
                // Any number could be one. Below a reading that tells a likely time, until the sequence is asked.
                candidate.rank = candidate.rank.saturating_sub(35);
            }
            return;
        };
        let told = time::rfc3339(made.unix_ms, made.unit_ms);
        let epoch_ms = candidate.epoch_ms();
        if made.unix_ms > self.now_ms.saturating_add(SKEW_MS) {
            candidate.reasons.push(format!("unlikely: its time, {told}, is still to come"));
            candidate.rank = candidate.rank.saturating_sub(55);
        } else if epoch_ms.is_some_and(|epoch_ms| made.unix_ms < epoch_ms.saturating_add(YOUNG_MS)) {
            candidate
                .reasons
                .push(format!("unlikely: {told} is within 30 days of its epoch, more likely a plain number"));
            candidate.rank = candidate.rank.saturating_sub(50);
        } else if shaped && made.unix_ms < OLD_MS {
            candidate.reasons.push(format!("unlikely: {told} is older than the scheme"));
            if let Some(hint) = self.seconds_hint(made.unix_ms) {
                candidate.reasons.push(hint);
            }
            candidate.rank = candidate.rank.saturating_sub(30);
        } else {
            candidate.reasons.push(format!("its time, {told}, is in the past and after its epoch"));
        }
    }

    /// Milliseconds that make sense as seconds.
    fn seconds_hint(&self, unix_ms: i64) -> Option<String> {
        let as_seconds_ms = unix_ms.checked_mul(1000)?;
        (OLD_MS..=self.now_ms.saturating_add(SKEW_MS))
            .contains(&as_seconds_ms)
            .then(|| format!("implausibly old: the value looks like seconds ({})", time::rfc3339(as_seconds_ms, 1000)))
    }
}

impl Inspection {
    /// A bearer token of `entity`: of the text nothing but its prefix is kept.
    pub(crate) fn secret(entity: &str, prefix: &str) -> Self {
        Self { secret_of: Some(entity.to_owned()), ..Self::of(format!("{prefix}…")) }
    }

    fn of(input: String) -> Self {
        let (candidates, refusals, series, mistyped) = Default::default();
        Self { input, candidates, refusals, series, mistyped, secret_of: None }
    }

    /// Whether it is an id of nothing known, nor a number of a series, nor a secret.
    pub fn is_nothing(&self) -> bool {
        self.candidates.is_empty() && self.series.is_empty() && self.secret_of.is_none()
    }

    /// Adds a reading that was opened with a key: nothing else is as certain.
    pub(crate) fn opened(&mut self, candidate: Candidate) {
        self.candidates.retain(|other| other.entity != candidate.entity || other.id != candidate.id);
        self.candidates.push(candidate);
    }

    /// Notes that it begins like the public ids of `entity`, and why it is none: nothing was meant more clearly.
    pub(crate) fn unopened(&mut self, entity: &str, why: &str) {
        self.refusals.retain(|(name, _)| name != entity);
        self.refusals.insert(0, (entity.to_owned(), why.to_owned()));
    }

    /// Adds what the stores know: who held the worker id then, and how far the sequence has come.
    pub(crate) fn corroborate(&mut self, index: usize, minted_by: Vec<Grant>, next: Option<u64>) {
        let Some(candidate) = self.candidates.get_mut(index) else { return };
        if let Some(grant) = minted_by.first() {
            candidate.reasons.push(format!("worker {} was leased to {} then", grant.worker, grant.instance));
            candidate.rank = candidate.rank.saturating_add(9).min(100);
        }
        candidate.minted_by = minted_by;
        if let (Some(next), AnyId::Int(number)) = (next, candidate.id) {
            if number < next {
                candidate.reasons.push(format!("the sequence has come as far as {}", next - 1));
                candidate.rank = candidate.rank.saturating_add(30).min(100);
            } else {
                candidate.reasons.push(format!("not handed out yet: the sequence stands at {next}"));
                candidate.rank = candidate.rank.saturating_sub(40);
            }
        }
    }

    /// Adds what the history of ranges in `store` knows of a number that was handed out.
    pub(crate) fn name_process(&mut self, index: usize, store: &str, history: RangeHistory) {
        let Some(candidate) = self.candidates.get_mut(index) else { return };
        for grant in &history.grants {
            candidate.reasons.push(range_told(store, grant));
        }
        if history.grants.is_empty() {
            let why = history.lack.unwrap_or_else(|| {
                "no range in its history holds it: it was passed over by a raise, or its range was cut more than 400 days ago, or by \
                 a Mintage that kept no history"
                    .to_owned()
            });
            candidate.reasons.push(format!("which process had it is not known: stores.{store}: {why}"));
        } else {
            candidate.rank = candidate.rank.saturating_add(9).min(100);
        }
        candidate.ranges = history.grants.into_iter().map(|grant| (store.to_owned(), grant)).collect();
    }

    /// Adds why the stores name no process for a number.
    pub(crate) fn name_nobody(&mut self, index: usize, why: &str) {
        if let Some(candidate) = self.candidates.get_mut(index) {
            candidate.reasons.push(why.to_owned());
        }
    }

    /// Best first; equals stay in the order in which they were read: entities of the config, then published layouts.
    pub(crate) fn rank(&mut self) {
        self.candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.rank));
    }

    /// The reading to believe if one has to be believed.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates.first()
    }

    /// The keys that every surface uses: of the best reading at the top, of all of them in `candidates`.
    pub fn to_json(&self) -> Value {
        let mut whole = self.best().map(Candidate::to_json).unwrap_or_default();
        whole.insert("id".to_owned(), json!(self.input));
        whole.insert(
            "candidates".to_owned(),
            self.candidates.iter().map(|found| Value::Object(found.to_json())).collect(),
        );
        if let Some(entity) = &self.secret_of {
            whole.insert("bearer_token_of".to_owned(), json!(entity));
        } else if self.is_nothing() {
            let why: Map<String, Value> =
                self.refusals.iter().map(|(scheme, why)| (scheme.clone(), json!(why))).collect();
            whole.insert("refusals".to_owned(), Value::Object(why));
        }
        if let (true, Some(first)) = (self.candidates.is_empty(), self.series.first()) {
            whole.insert("scheme".to_owned(), json!("series"));
            whole.insert("entity".to_owned(), json!(first.series));
        }
        if !self.series.is_empty() {
            let read = self.series.iter().map(|reading| {
                json!({
                    "series": reading.series,
                    "period": reading.number.period().to_string(),
                    "number": reading.number.n().to_string(),
                    "next": reading.next.map(|next| next.to_string()),
                })
            });
            whole.insert("series".to_owned(), read.collect());
        }
        if !self.mistyped.is_empty() {
            whole.insert("mistyped".to_owned(), json!(self.mistyped));
        }
        Value::Object(whole)
    }
}

impl Candidate {
    /// A public id of `entity`. Forms that authenticate leave no doubt; the others open a lot.
    pub(crate) fn public(
        entity: &str,
        scheme: &str,
        id: AnyId,
        anatomy: Anatomy,
        form: &PublicForm,
        forgiven: bool,
    ) -> Self {
        let mut candidate = Self::new(scheme, id, anatomy);
        candidate.entity = Some(entity.to_owned());
        let certain = form.authenticates();
        candidate.reasons.push(format!("a public {} of {entity}, opened with its key: {}", form.name(), form.label()));
        if forgiven {
            candidate.reasons.push("written as people write: case, spaces or look-alikes were put right".to_owned());
        }
        candidate.rank = if certain { 100 } else { 70 };
        candidate
    }

    fn new(scheme: &str, id: AnyId, anatomy: Anatomy) -> Self {
        let spellings = spellings(id, &anatomy);
        Self {
            scheme: scheme.to_owned(),
            entity: None,
            id,
            anatomy,
            spellings,
            reasons: Vec::new(),
            minted_by: Vec::new(),
            ranges: Vec::new(),
            rank: 0,
        }
    }

    /// Unix ms at which its time field is 0, told by the id itself: its time less its field.
    fn epoch_ms(&self) -> Option<i64> {
        let made = self.anatomy.time?;
        let field = self.anatomy.fields.iter().find(|field| field.role == Role::Time)?;
        if !matches!(self.id, AnyId::Int(_)) {
            return None;
        }
        let units = i64::try_from(field.value).ok()?;
        Some(made.unix_ms - units.checked_mul(i64::from(made.unit_ms))?)
    }

    fn to_json(&self) -> Map<String, Value> {
        let made = self.anatomy.time;
        let layout: Vec<Value> = self
            .anatomy
            .fields
            .iter()
            .map(|field| {
                // Values beyond 2^53 would be rounded as numbers, so all of them are strings.
                json!({"name": field.name, "role": role_name(field.role), "bits": field.width, "value": field.value.to_string()})
            })
            .collect();
        let spellings: Map<String, Value> =
            self.spellings.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        let of_lease =
            |grant: &Grant| json!({"machine_id": grant.worker, "owner": grant.instance, "epoch": grant.epoch});
        let of_range = |(store, grant): &(String, RangeGrant)| {
            json!({
                "owner": grant.instance,
                "store": store,
                "first": grant.start.to_string(),
                "last": grant.end.saturating_sub(1).to_string(),
                "at": time::rfc3339(i64::try_from(grant.at_ms).unwrap_or(i64::MAX), 1),
            })
        };
        let minted_by: Vec<Value> =
            self.minted_by.iter().map(of_lease).chain(self.ranges.iter().map(of_range)).collect();
        let whole = json!({
            "created_at": made.map(|made| time::rfc3339(made.unix_ms, made.unit_ms)),
            "created_at_ms": made.map(|made| made.unix_ms),
            "machine_id": self.anatomy.worker,
            "worker_id": self.anatomy.worker,
            "region": self.anatomy.region,
            "sequence": self.anatomy.sequence.map(|sequence| sequence.to_string()),
            "entity": self.entity,
            "scheme": self.scheme,
            "layout": layout,
            "spellings": spellings,
            "notes": self.anatomy.notes,
            "minted_by": minted_by,
            "reasons": self.reasons,
        });
        match whole {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// Who got a range, in words.
fn range_told(store: &str, grant: &RangeGrant) -> String {
    let (first, last) = (grant.start, grant.end.saturating_sub(1));
    let at = time::rfc3339(i64::try_from(grant.at_ms).unwrap_or(i64::MAX), 1);
    let to = if grant.instance.is_empty() { "a process without a name" } else { &grant.instance };
    format!("stores.{store} gave {first} to {last} to {to} on {at}")
}

/// What a role is called everywhere.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Time => "time",
        Role::Worker => "worker",
        Role::Sequence => "sequence",
        Role::Random => "random",
        _ => "fixed",
    }
}

/// An entity or scheme, and why a text is none of its ids.
type Miss = (String, ParseError);

/// How far a text is from an id that refuses it with `error`: its shape fits, then a part of it does, then nothing.
fn distance(error: &ParseError) -> u8 {
    match error {
        ParseError::Character { at: 0, .. } | ParseError::Empty => 3,
        ParseError::Length { .. } | ParseError::Hyphens => 2,
        ParseError::Character { .. } => 1,
        _ => 0,
    }
}

fn read_uuid(text: &str, into: &mut Inspection) -> Option<Miss> {
    match parse_uuid_lenient(text) {
        Ok(uuid) => {
            if into.candidates.iter().any(|known| known.id == AnyId::Wide(uuid.as_u128())) {
                return None;
            }
            let scheme = match (uuid.is_nil(), uuid.is_max()) {
                (true, _) => "nil UUID".to_owned(),
                (_, true) => "max UUID".to_owned(),
                _ => format!("uuidv{}", uuid.get_version_num()),
            };
            into.candidates.push(Candidate::new(&scheme, AnyId::Wide(uuid.as_u128()), uuid_anatomy(uuid)));
            None
        }
        Err(error) => looks_like_uuid(text).then(|| ("uuid".to_owned(), error)),
    }
}

fn looks_like_uuid(text: &str) -> bool {
    (30..=45).contains(&text.len()) && text.bytes().filter(u8::is_ascii_hexdigit).count() >= 24
}

fn read_ulid(text: &str, into: &mut Inspection) -> Option<Miss> {
    match parse_ulid(text) {
        Ok(ulid) => {
            if into.candidates.iter().any(|known| known.id == AnyId::Wide(ulid.0)) {
                return None;
            }
            into.candidates.push(Candidate::new("ulid", AnyId::Wide(ulid.0), ulid_anatomy(ulid)));
            None
        }
        Err(error) => (text.len() == 26).then(|| ("ulid".to_owned(), error)),
    }
}

fn read_ksuid(text: &str, into: &mut Inspection) -> Option<Miss> {
    match parse_ksuid(text) {
        Ok(ksuid) => {
            let bits = *svix_ksuid::KsuidLike::bytes(&ksuid);
            if into.candidates.iter().any(|known| known.id == AnyId::Long(bits)) {
                return None;
            }
            into.candidates.push(Candidate::new("ksuid", AnyId::Long(bits), ksuid_anatomy(bits)));
            None
        }
        Err(error) => (text.len() == 27).then(|| ("ksuid".to_owned(), error)),
    }
}

/// The order in which equally likely published layouts are listed: how many people meet them.
const PUBLISHED: [&str; 5] = ["discord", "twitter", "instagram", "sonyflake", "mastodon"];

fn read_published(text: &str, into: &mut Inspection) {
    let Ok(number) = TextForm::Decimal.parse(text, 64) else {
        return;
    };
    let ours: BTreeSet<String> = into
        .candidates
        .iter()
        .filter_map(|known| known.epoch_ms().map(|ms| format!("{ms} {}", shape(&known.anatomy))))
        .collect();
    for name in PUBLISHED {
        let Some(preset) = PRESETS.into_iter().find(|preset| preset.name == name) else { continue };
        let reader = SnowflakeReader::new(preset.layout, preset.epoch_ms);
        if preset.layout.bits() < 64 && number >> preset.layout.bits() != 0 {
            continue;
        }
        let candidate = Candidate::new(name, AnyId::Int(number), mintage_core::IdScheme::anatomy(&reader, number));
        if !ours.contains(&format!("{} {}", preset.epoch_ms, shape(&candidate.anatomy))) {
            into.candidates.push(candidate);
        }
    }
    if into.candidates.iter().all(|known| known.anatomy.time.is_some()) {
        into.candidates.push(Candidate::new("number", AnyId::Int(number), Anatomy::number(number)));
    }
}

/// Widths of an anatomy, to tell whether two layouts are the same.
fn shape(anatomy: &Anatomy) -> String {
    anatomy.fields.iter().map(|field| format!("{}{}", role_name(field.role), field.width)).collect()
}

fn spellings(id: AnyId, anatomy: &Anatomy) -> Vec<(&'static str, String)> {
    let mut texts = Vec::new();
    match id {
        AnyId::Int(number) => {
            texts.push(("decimal", number.to_string()));
            for (name, form) in [("base62", TextForm::Base62), ("crockford", TextForm::Crockford)] {
                let mut text = String::new();
                if form.format(number, &mut text).is_ok() {
                    texts.push((name, text));
                }
            }
        }
        AnyId::Wide(number) => {
            texts.push(("uuid", uuid::Uuid::from_u128(number).as_hyphenated().to_string()));
            texts.push(("ulid", ulid::Ulid(number).to_string()));
        }
        AnyId::Long(bytes) => {
            let mut text = String::new();
            if write_ksuid(bytes, &mut text).is_ok() {
                texts.push(("ksuid", text));
            }
        }
        _ => {}
    }
    texts.push(("hex", id.to_hex()));
    if let Some(made) = anatomy.time {
        texts.push(("time", time::rfc3339(made.unix_ms, made.unit_ms)));
    }
    texts
}
