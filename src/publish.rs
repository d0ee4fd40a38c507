//! From the config's keys to each entity's codec, and the records in the store that keep both from changing silently.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mintage_core::{Format, FormatStore, StoreError, StoreErrorKind, plugin::Fact};

use crate::{
    config::{Checked, EntityConfig, Environment, KeyConfig, KeyPlace},
    public::{
        Codec, EnvKeys, FileKeys, FormError, KeyError, KeySource, KeyStart, Keyring, MASTER_LEN, PublicForm, StartAt,
    },
    series,
};

/// The key rings that a registry has loaded, by their names in the config.
#[derive(Default)]
pub(crate) struct Rings {
    rings: BTreeMap<String, Keyring>,
    /// Those whose file was there before.
    found: BTreeSet<String>,
    notices: Vec<String>,
}

impl Rings {
    /// Loads a ring. A file is made only where `recorded` is `false`: where no store has ever seen a key of this name.
    pub(crate) async fn load(
        &mut self,
        key: &KeyConfig,
        source: Option<&Arc<dyn KeySource>>,
        environment: &Environment,
        recorded: bool,
    ) -> Result<(), KeyError> {
        let ring = match (source, &key.place) {
            (Some(source), _) => source.load().await?,
            (None, KeyPlace::Variable(name)) => EnvKeys::new(name.clone()).read_in(environment)?,
            (None, KeyPlace::File(path)) => {
                let file = FileKeys::new(path.clone());
                let (ring, made) = file.read_or_make(recorded)?;
                if made {
                    self.notices.push(format!(
                        "made {}, the key of every public id: keep a copy in a safe place; without it no public id can be read again",
                        path.display()
                    ));
                } else {
                    self.found.insert(key.name.clone());
                    if file.others_may_read() {
                        self.notices
                            .push(format!("{} can be read by others on this machine: chmod 600 it", path.display()));
                    }
                }
                ring
            }
        };
        self.rings.insert(key.name.clone(), ring);
        Ok(())
    }

    /// Rings that exist already, for readers: nothing is made, and what cannot be read is passed over.
    pub(crate) async fn present(
        checked: &Checked,
        sources: &BTreeMap<String, Arc<dyn KeySource>>,
        environment: &Environment,
    ) -> Self {
        let mut found = Self::default();
        for key in &checked.keys {
            if let Ok(ring) = ring_of(key, sources, environment).await {
                found.rings.insert(key.name.clone(), ring);
            }
        }
        found
    }

    /// A ring that is the same in every run, for reproducible tests.
    pub(crate) fn seeded(checked: &Checked, seed: u64) -> Self {
        let mut found = Self::default();
        for (position, key) in checked.keys.iter().enumerate() {
            let mut master = [0; MASTER_LEN];
            for (chunk, word) in master.chunks_mut(8).zip(0u64..) {
                chunk.copy_from_slice(&seed.wrapping_add(word).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            }
            if let Some(first) = master.first_mut() {
                *first ^= u8::try_from(position % 251).unwrap_or(0);
            }
            let mut ring = Keyring::default();
            // Version 1 of an empty ring is free.
            let _ = ring.insert(1, &master);
            found.rings.insert(key.name.clone(), ring);
        }
        found
    }

    pub(crate) fn ring(&self, name: &str) -> Option<&Keyring> {
        self.rings.get(name)
    }

    /// Whether its keys are in a file that was there before this process.
    pub(crate) fn was_found(&self, name: &str) -> bool {
        self.found.contains(name)
    }

    pub(crate) fn into_notices(self) -> Vec<String> {
        self.notices
    }

    /// The codec of an entity; `None` where the config gives it no form.
    ///
    /// # Errors
    /// The keys contradict the form.
    pub(crate) fn codec(&self, entity: &EntityConfig, realm: &str) -> Result<Option<Codec>, FormError> {
        let Some(form) = &entity.public else { return Ok(None) };
        let reader = entity.plan.reader();
        if !form.needs_key() {
            return Ok(Some(Codec::plain(reader, &entity.name, realm)));
        }
        let form = match form.key().and_then(|key| self.ring(key)) {
            Some(ring) => form.clone().rotated_by(ring, &entity.name, &reader),
            None => form.clone(),
        };
        Codec::with_rings(&form, &entity.name, realm, |name| self.ring(name?)).map(Some)
    }
}

/// A ring that exists already, for readers: nothing is made.
///
/// # Errors
/// It is not there, or cannot be read.
pub(crate) async fn ring_of(
    key: &KeyConfig,
    sources: &BTreeMap<String, Arc<dyn KeySource>>,
    environment: &Environment,
) -> Result<Keyring, KeyError> {
    match (sources.get(&key.name), &key.place) {
        (Some(source), _) => source.load().await,
        (None, KeyPlace::File(path)) => FileKeys::new(path.clone()).read(),
        (None, KeyPlace::Variable(name)) => EnvKeys::new(name.clone()).read_in(environment),
    }
}

/// The names in `[keys]` that a form uses.
pub(crate) fn keys_of(form: &PublicForm) -> impl Iterator<Item = &str> {
    form.key().into_iter().chain(form.stage_keys())
}

/// What the store keeps of a key ring: a check value per version, and where versions take over. Under a name that no entity
/// can have.
pub(crate) fn record_name(key: &str) -> String {
    format!("keys.{key}")
}

/// The record of `ring`. A revoked version has no key any more: what was recorded of it stands.
///
/// # Errors
/// `FormatMismatch` where a recorded version is missing here: this process has an old key file.
pub(crate) fn record(key: &str, ring: &Keyring, recorded: Option<&Format>) -> Result<Format, StoreError> {
    let mut format = Format::of("keys");
    for version in ring.versions() {
        if let Some(check) = ring.check_value(version) {
            format = format.growing(&format!("kcv.{version}"), check);
        }
    }
    for start in ring.starts() {
        format = match &start.at {
            StartAt::Time { unix_ms } => format.growing(&start_name(start), unix_ms),
            StartAt::Number { from, .. } => format.growing(&start_name(start), from),
        };
    }
    for (name, value) in recorded.into_iter().flat_map(Format::fields) {
        let Some(version) = name.strip_prefix("+kcv.").and_then(|version| version.parse::<u32>().ok()) else {
            continue;
        };
        if ring.is_revoked(version) {
            format = format.with(name, value);
        } else if ring.check_value(version).is_none() {
            return Err(StoreError::new(
                StoreErrorKind::FormatMismatch,
                format!(
                    "keys.{key}: the store knows version {version} of this key, and it is missing here: bring the newest key \
                     file to every machine before it takes over"
                ),
            ));
        } else if format.field(name) != Some(value) {
            return Err(StoreError::new(
                StoreErrorKind::FormatMismatch,
                format!(
                    "keys.{key}: version {version} is not the key with which public ids were written: put the right key file \
                     back. With another key every public id given out would be unreadable"
                ),
            ));
        }
    }
    Ok(format)
}

/// Whether a store has a record of any entity, token or series of a config: then it was in use before.
///
/// # Errors
/// Those of the store.
pub(crate) async fn knows_any(formats: &dyn FormatStore, checked: &Checked) -> Result<bool, StoreError> {
    let series = checked.series.iter().map(|series| series::record_name(&series.name));
    for name in checked.entity_names().cloned().chain(series) {
        if formats.pinned(&name).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A key file that was there before the store beside it. No refusal: one that was brought to a new store looks the same.
pub(crate) fn older_than_store(key: &str, store: &str) -> String {
    format!(
        "the key file of keys.{key} is older than store {store}, which has never seen an id: if that store was deleted or \
         replaced, its numbers begin again and repeat those given out"
    )
}

/// What to do about it, as a sentence.
pub(crate) const OLDER_THAN_STORE: &str =
    "If so, stop and restore the store before anything is minted; if it is new, all is well";

/// Starts that no process has recorded yet.
pub(crate) fn fresh_starts<'r>(ring: &'r Keyring, recorded: &'r Format) -> impl Iterator<Item = &'r KeyStart> {
    let growing = Format::default();
    ring.starts().iter().filter(move |start| {
        let named = growing.clone().growing(&start_name(start), "");
        named.fields().all(|(name, _)| recorded.field(name).is_none())
    })
}

/// A version was to take over at a place that ids have passed: those given out since would change.
pub(crate) fn starts_too_late(key: &str, version: u32, place: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::FormatMismatch,
        format!(
            "keys.{key}: version {version} was to own the ids from {place} on, and ids have passed that before this key file \
             came here: public ids given out since would change. Write a later start into the key file"
        ),
    )
}

fn start_name(start: &KeyStart) -> String {
    match &start.at {
        StartAt::Time { .. } => format!("from.{}", start.version),
        StartAt::Number { entity, .. } => format!("from.{}.{entity}", start.version),
    }
}

/// How full the public numbers are of a sequence that began at `start` and has come to `last`; `None` of a form without a domain
/// that fills up.
pub(crate) fn fill(form: &PublicForm, start: u64, last: u64) -> Option<Fact> {
    form.fill(start)?;
    let Some(fill) = form.fill(last) else {
        let told = format!("id {last} lies outside every stage: it has no public number. Add a stage");
        return Some(Fact::new("public fill", told).warn());
    };
    let share = fill.ratio() * 100.0;
    let told = format!("{} of {} public numbers are used, {share:.3} %", fill.used, fill.room);
    if form.is_too_full(fill) {
        let told = format!("{told}, more than `max_fill`: a guess finds one too easily. Add a stage with more digits");
        return Some(Fact::new("public fill", told).warn());
    }
    Some(Fact::new("public fill", told))
}
