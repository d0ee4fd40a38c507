//! The inspector with the stores behind it: who held a worker id at the time, and how far a sequence has come.
//!
//! Only the registry's own records can tell two readings of one number apart. Asking them changes nothing: no store is made,
//! nothing is claimed.

use std::collections::BTreeMap;

use mintage_core::{AnyId, Clock, Grant, StoreError, plugin::Backend};

use crate::{
    BuildError, Candidate, Config, Inspection, Inspector, RegistryBuilder,
    config::{Checked, EntityConfig},
    inspect::SeriesReading,
    public::{Codec, Malformed, PublicIdCodec, PublicIdError},
    publish::{Rings, record_name},
    series,
};

/// Reads ids with everything a config and its stores know.
#[derive(Debug)]
pub struct Witness {
    checked: Checked,
    inspector: Inspector,
    backends: BTreeMap<String, Backend>,
    codecs: BTreeMap<String, Codec>,
    troubles: Vec<BuildError>,
}

impl RegistryBuilder {
    /// An inspector that asks the stores of `config` which exist already. A store that cannot be opened is passed over and
    /// reported by [`Witness::troubles`].
    ///
    /// # Errors
    /// [`BuildError::Config`].
    pub async fn witness(&self, config: &Config) -> Result<Witness, BuildError> {
        let checked = self.check(config)?;
        let mut backends = BTreeMap::new();
        let mut troubles = Vec::new();
        for store in &checked.stores {
            match self.open_existing(&checked, &store.name).await {
                Ok(Some(backend)) => {
                    backends.insert(store.name.clone(), backend);
                }
                Ok(None) => {}
                Err(error) => troubles.push(error),
            }
        }
        let inspector = self.inspector(&checked);
        let rings = Rings::present(&checked, self.key_sources(), self.environment_shared()).await;
        let codecs = checked
            .entities
            .iter()
            .filter_map(|entity| Some((entity.name.clone(), rings.codec(entity, &checked.realm).ok()??)))
            .collect();
        Ok(Witness { checked, inspector, backends, codecs, troubles })
    }

    /// An inspector that knows the entities of a config and asks no store.
    pub fn inspector(&self, checked: &Checked) -> Inspector {
        let entities = checked.entities.iter().map(|entity| (entity.name.clone(), entity.plan.reader())).collect();
        Inspector::new(entities, self.clock_shared().unix_ms())
    }
}

impl Witness {
    /// Stores that could not be asked.
    pub fn troubles(&self) -> &[BuildError] {
        &self.troubles
    }

    /// Whether a store has a record of the keys that the config calls `name`: then ids were published under them.
    ///
    /// # Errors
    /// [`BuildError::Store`] if a store cannot be asked, which says nothing about the keys.
    pub async fn knows_key(&self, name: &str) -> Result<bool, BuildError> {
        for (store, backend) in &self.backends {
            let Some(formats) = &backend.formats else { continue };
            let recorded = formats.pinned(&record_name(name)).await;
            let recorded = recorded.map_err(|source| BuildError::Store { store: store.clone(), source })?;
            if recorded.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first number of an entity that is not handed out yet; `None` where it has no sequence, or none in a store.
    ///
    /// # Errors
    /// [`BuildError::Store`] if its store cannot be asked.
    pub async fn next_number(&self, entity: &str) -> Result<Option<u64>, BuildError> {
        let Some(entity) = self.checked.entity(entity) else { return Ok(None) };
        let mut next = None;
        for store in entity.range_stores() {
            let told = self.sequence_next(entity, store).await;
            next = next.max(told.map_err(|source| BuildError::Store { store: store.to_owned(), source })?);
        }
        Ok(next)
    }

    /// Reads a text in every way, best first: as a public id where the keys are here, and as a raw one. What may be a bearer
    /// token is not read: the answer says whose it is and repeats nothing of it.
    pub async fn inspect(&self, text: &str) -> Inspection {
        if let Some(tokens) = self.checked.tokens.iter().find(|tokens| tokens.format.claims(text)) {
            return Inspection::secret(&tokens.name, tokens.format.prefix());
        }
        let mut inspection = self.inspector.inspect(text);
        self.open_public(&mut inspection);
        for index in 0..inspection.candidates.len() {
            let Some(candidate) = inspection.candidates.get(index) else { continue };
            let entity = candidate.entity.as_deref().and_then(|name| self.checked.entity(name));
            let Some(entity) = entity else { continue };
            let worker = candidate.anatomy.worker;
            let at_ms = candidate.anatomy.time.and_then(|made| u64::try_from(made.unix_ms).ok());
            let (grants, nobody) = match (worker, at_ms) {
                (Some(worker), Some(at_ms)) => self.grants(entity, worker, at_ms).await,
                _ => Default::default(),
            };
            // A store that does not answer knows nothing.
            let next = match store_of(entity, candidate.id) {
                Some(store) => self.sequence_next(entity, store).await.ok().flatten(),
                None => None,
            };
            let id = candidate.id;
            inspection.corroborate(index, grants, next);
            if let Some(why) = nobody {
                inspection.name_nobody(index, &why);
            }
            if let (Some(next), AnyId::Int(number), Some(store)) = (next, id, store_of(entity, id))
                && number < next
            {
                self.name_process(&mut inspection, index, entity, store, number).await;
            }
        }
        inspection.rank();
        inspection.series = self.series(&inspection.input).await;
        inspection
    }

    /// The series of which the text is a number, as written or as people write it.
    async fn series(&self, text: &str) -> Vec<SeriesReading> {
        let mut found = Vec::new();
        for series in &self.checked.series {
            let read = series.format.parse(text).or_else(|_| series.format.parse_human(text));
            let Ok(number) = read else { continue };
            let sequence = format!("{}{}", series::sequence_prefix(&series.name), number.period());
            let ranges = self.backends.get(&series.store).and_then(|backend| backend.ranges.as_ref());
            // A store that does not answer knows nothing; one that knows no such period has handed nothing out.
            let next = match ranges {
                Some(ranges) => ranges.sequence(&sequence).await.ok(),
                None => None,
            };
            let next = next.map(|row| row.map_or(series.format.start, |row| row.next));
            found.push(SeriesReading { series: series.name.clone(), number, next });
        }
        found
    }

    /// Who got the range of a number that was handed out; why nobody is named, where nobody is.
    async fn name_process(
        &self,
        inspection: &mut Inspection,
        index: usize,
        entity: &EntityConfig,
        store: &str,
        number: u64,
    ) {
        if entity.needs.gapless {
            let why = "it is gapless: a number is taken inside a transaction of the application, one by one, so what tells of it is the \
                       row that has it, or its reservation";
            return inspection.name_nobody(index, why);
        }
        if let Some((increment, offset)) = others_mint(entity, number) {
            let why = format!(
                "none of ours: this config mints every {increment}th number from {offset} on, others those between"
            );
            return inspection.name_nobody(index, &why);
        }
        let ranges = self.backends.get(store).and_then(|backend| backend.ranges.as_ref());
        let (Some(sequence), Some(ranges)) = (&entity.needs.sequence, ranges) else { return };
        match ranges.range_history(&sequence.name, number).await {
            Ok(history) => inspection.name_process(index, store, history),
            Err(error) => inspection.name_nobody(index, &format!("which process had it cannot be told now: {error}")),
        }
    }

    fn open_public(&self, inspection: &mut Inspection) {
        let typed = inspection.input.clone();
        self.note_prefix(&typed, inspection);
        for (name, codec) in self.codecs.iter().filter(|(_, codec)| codec.form().needs_key()) {
            let exact = codec.decode(&typed, b"");
            let forgiven = exact.is_err();
            let id = match exact.or_else(|_| codec.decode_human(&typed, b"")) {
                Ok(id) => id,
                Err(error) => {
                    if error == PublicIdError::Malformed(Malformed::CheckDigit) {
                        inspection.mistyped.push(name.clone());
                    }
                    continue;
                }
            };
            let Some(reader) = self.checked.entity(name).map(|entity| entity.plan.reader()) else { continue };
            let Some(anatomy) = reader.anatomy(id) else { continue };
            let candidate = Candidate::public(name, &reader.info().name, id, anatomy, codec.form(), forgiven);
            inspection.opened(candidate);
        }
        for candidate in &mut inspection.candidates {
            let codec = candidate.entity.as_ref().and_then(|name| self.codecs.get(name));
            if let Some(Ok(text)) =
                codec.filter(|codec| codec.form().needs_key()).map(|codec| codec.encode(candidate.id, b""))
            {
                candidate.spellings.push(("public", text.to_string()));
            }
        }
    }

    /// Whose public ids begin like this text, and what it takes to open one. Said of texts that are an id of nothing.
    fn note_prefix(&self, typed: &str, inspection: &mut Inspection) {
        let begins = |prefix: &str| {
            let start = typed.get(..prefix.len()).zip(typed.get(prefix.len()..));
            start.is_some_and(|(start, rest)| start.eq_ignore_ascii_case(prefix) && rest.starts_with('_'))
        };
        for entity in &self.checked.entities {
            let Some(form) = entity.public.as_ref().filter(|form| form.prefix().is_some_and(begins)) else { continue };
            let why = match self.codecs.get(&entity.name) {
                Some(_) if form.takes_context() => {
                    "a public id bound to a context: only a program that has it opens it"
                }
                Some(_) => {
                    "its prefix, but no public id of it: mistyped, cut short, or made under another key or realm"
                }
                None => "its prefix, but the key that opens its public ids is not here",
            };
            inspection.unopened(&entity.name, why);
        }
    }

    /// The grants of `worker` whose window holds the instant, at home and on the reserve; why nobody is known, where nobody is.
    async fn grants(&self, entity: &EntityConfig, worker: u64, at_ms: u64) -> (Vec<Grant>, Option<String>) {
        let home = entity.needs.worker.as_ref().and_then(|need| self.checked.pool(&need.pool));
        let reserve = home.and_then(|pool| self.checked.pool(pool.fallback.as_deref()?));
        let (mut found, mut nobody) = (Vec::new(), None);
        for pool in home.into_iter().chain(reserve) {
            let store = &pool.store;
            let leases = self.backends.get(store).and_then(|backend| backend.leases.as_ref());
            let Some(leases) = leases else { continue };
            for whole in self.checked.regions_of(pool) {
                if !u32::try_from(worker).is_ok_and(|worker| whole.block.contains(&worker)) {
                    continue;
                }
                let why = match leases.history(&whole, at_ms).await {
                    Ok(grants) => {
                        found.extend(grants.into_iter().filter(|grant| u64::from(grant.worker) == worker));
                        let lack = leases.history_lack(&whole).await.ok().flatten();
                        let lack = lack.map(|lack| format!(": {lack}")).unwrap_or_default();
                        format!("stores.{store} has no lease of worker {worker} for then on record{lack}")
                    }
                    Err(error) => format!("who held worker {worker} then cannot be told now: {error}"),
                };
                nobody.get_or_insert(why);
            }
        }
        let nobody = nobody.filter(|_| found.is_empty());
        (found, nobody)
    }

    async fn sequence_next(&self, entity: &EntityConfig, store: &str) -> Result<Option<u64>, StoreError> {
        let ranges = self.backends.get(store).and_then(|backend| backend.ranges.as_ref());
        let (Some(sequence), Some(ranges)) = (&entity.needs.sequence, ranges) else { return Ok(None) };
        Ok(ranges.sequence(&sequence.name).await?.map(|row| row.next))
    }
}

/// Increment and offset of an entity that mints only some of its numbers, where this is not one of them.
fn others_mint(entity: &EntityConfig, number: u64) -> Option<(u64, u64)> {
    if !entity.needs.shares.is_empty() {
        return None;
    }
    let format = entity.plan.format();
    let told = |name: &str| format.field(name).and_then(|text| text.parse::<u64>().ok());
    let (increment, offset) = (told("increment").filter(|increment| *increment > 0)?, told("offset")?);
    (number % increment != offset % increment).then_some((increment, offset))
}

/// The store that gives numbers such as `id`: of several the first gives 1, the second 2, and so on.
pub(crate) fn store_of(entity: &EntityConfig, id: AnyId) -> Option<&str> {
    let stores = entity.range_stores();
    let AnyId::Int(number) = id else { return stores.first().copied() };
    let count = u64::try_from(stores.len()).ok().filter(|count| *count > 0)?;
    stores.get(usize::try_from((number % count + count - 1) % count).ok()?).copied()
}
