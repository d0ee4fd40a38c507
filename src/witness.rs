//! The inspector with the stores behind it: who held a worker id at the time, and how far a sequence has come.
//!
//! Only the registry's own records can tell two readings of one number apart. Asking them changes nothing: no store is made,
//! nothing is claimed.

use std::collections::BTreeMap;

use mintage_core::{
    AnyId, Clock, Grant, WorkerPool,
    plugin::{Address, Backend},
};

use crate::{
    BuildError, Candidate, Config, Inspection, Inspector, RegistryBuilder,
    config::{Checked, EntityConfig},
    public::{Codec, PublicIdCodec},
    publish::Rings,
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
        let rings = Rings::present(&checked, self.environment_shared());
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

    async fn open_existing(&self, checked: &Checked, name: &str) -> Result<Option<Backend>, BuildError> {
        let Some(store) = checked.store(name) else { return Ok(None) };
        let address = Address::new(store.url.clone(), checked.folder.clone(), self.clock_shared());
        let factory = self.catalog().backends().iter().find(|factory| factory.url_scheme() == store.url_scheme());
        match factory {
            Some(factory) if factory.exists(&address) => self.open_store(checked, name).await.map(Some),
            _ => Ok(None),
        }
    }
}

impl Witness {
    /// Stores that could not be asked.
    pub fn troubles(&self) -> &[BuildError] {
        &self.troubles
    }

    /// Reads a text in every way, best first: as a public id where the keys are here, and as a raw one.
    pub async fn inspect(&self, text: &str) -> Inspection {
        let mut inspection = self.inspector.inspect(text);
        self.open_public(&mut inspection);
        for index in 0..inspection.candidates.len() {
            let Some(candidate) = inspection.candidates.get(index) else { continue };
            let entity = candidate.entity.as_deref().and_then(|name| self.checked.entity(name));
            let Some(entity) = entity else { continue };
            let worker = candidate.anatomy.worker;
            let at_ms = candidate.anatomy.time.and_then(|made| u64::try_from(made.unix_ms).ok());
            let grants = match (worker, at_ms) {
                (Some(worker), Some(at_ms)) => self.grants(entity, worker, at_ms).await,
                _ => Vec::new(),
            };
            let next = self.next_number(entity, candidate.id).await;
            inspection.corroborate(index, grants, next);
        }
        inspection.rank();
        inspection
    }

    fn open_public(&self, inspection: &mut Inspection) {
        let typed = inspection.input.clone();
        for (name, codec) in self.codecs.iter().filter(|(_, codec)| codec.form().needs_key()) {
            let exact = codec.decode(&typed, b"");
            let forgiven = exact.is_err();
            let Ok(id) = exact.or_else(|_| codec.decode_human(&typed, b"")) else { continue };
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

    /// The grants of `worker` whose window holds the instant. A store that does not answer knows nothing.
    async fn grants(&self, entity: &EntityConfig, worker: u64, at_ms: u64) -> Vec<Grant> {
        let pool = entity.needs.worker.as_ref().and_then(|need| self.checked.pool(&need.pool));
        let Some(pool) = pool else { return Vec::new() };
        let Some(leases) = self.backends.get(&pool.store).and_then(|backend| backend.leases.as_ref()) else {
            return Vec::new();
        };
        let mut whole = WorkerPool::new(pool.name.clone(), pool.block.clone());
        whole.region = pool.region.clone().unwrap_or_default();
        let grants = leases.history(&whole, at_ms).await.unwrap_or_default();
        grants.into_iter().filter(|grant| u64::from(grant.worker) == worker).collect()
    }

    /// Where the counter stands in the store that gives numbers such as `id`.
    async fn next_number(&self, entity: &EntityConfig, id: AnyId) -> Option<u64> {
        let sequence = entity.needs.sequence.as_ref()?;
        let stores = entity.range_stores();
        let store = match id {
            // Of several stores the first gives 1, the second 2, and so on.
            AnyId::Int(number) => {
                let count = u64::try_from(stores.len()).ok()?;
                *stores.get(usize::try_from((number % count + count - 1) % count).ok()?)?
            }
            _ => stores.first()?,
        };
        let ranges = self.backends.get(store)?.ranges.as_ref()?;
        let rows = ranges.sequences().await.ok()?;
        rows.into_iter().find(|row| row.name == sequence.name).map(|row| row.next)
    }
}
