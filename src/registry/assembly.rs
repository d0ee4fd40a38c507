//! How a registry comes about, in an order that cannot lose anything: compare the recorded formats, make what is new, claim,
//! record, open.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicBool},
};

use mintage_core::{
    AnyScheme, Clock, Format, FormatStore, LeaseStore, Leased, MintError, RangeStore, ReadyError, TokenStore,
    plugin::{Backend, BackendFactory, Connected, Site},
};
use mintage_schemes::fork::Birth;

use super::{
    BuildError, RegistryBuilder,
    later::Later,
    leasing::{Claimed, Detour},
    missing,
    shares::Shares,
    store_error,
};
use crate::{
    config::{Checked, EntityConfig, KeyConfig, KeyPlace, PoolConfig, SeriesConfig, StoreConfig, TokensConfig},
    gapless::Gapless,
    keeper::Keeper,
    lanes,
    public::{Codec, KeyStart, StartAt},
    publish::{self, Rings, keys_of, record_name},
    series::{self, Desk},
    time,
};

/// A registry under construction.
pub(super) struct Assembly<'a> {
    pub(super) builder: &'a RegistryBuilder,
    pub(super) checked: &'a Checked,
    pub(super) backends: BTreeMap<String, Backend>,
    pub(super) claims: Vec<Claimed>,
    pub(super) rings: Rings,
    pub(super) codecs: BTreeMap<String, Arc<Codec>>,
    pub(super) tokens: BTreeMap<String, Arc<dyn TokenStore>>,
    pub(super) series: BTreeMap<String, Arc<Desk>>,
    pub(super) gapless: BTreeMap<String, Arc<Gapless>>,
    pub(super) shares: Shares,
    pub(super) notices: Vec<String>,
    /// Changes of layout to be recorded at the reserve, before they are at home: store, entity and format.
    pub(super) announced: Vec<(String, String, Format)>,
    pub(super) detour: Detour,
    pub(super) later: BTreeMap<String, Arc<Later>>,
}

type Built = (BTreeMap<String, AnyScheme>, Vec<Keeper>);

impl<'a> Assembly<'a> {
    pub(super) fn new(builder: &'a RegistryBuilder, checked: &'a Checked) -> Self {
        Self {
            builder,
            checked,
            backends: BTreeMap::new(),
            claims: Vec::new(),
            rings: Rings::default(),
            codecs: BTreeMap::new(),
            tokens: BTreeMap::new(),
            series: BTreeMap::new(),
            gapless: BTreeMap::new(),
            shares: Shares::default(),
            notices: Vec::new(),
            announced: Vec::new(),
            detour: Detour::default(),
            later: BTreeMap::new(),
        }
    }
}

impl Assembly<'_> {
    pub(super) async fn assemble(&mut self) -> Result<Built, BuildError> {
        let checked = self.checked;
        let wanted: Vec<&EntityConfig> = checked.entities.iter().filter(|entity| self.builder.wants(entity)).collect();
        let pools: Vec<&PoolConfig> = checked
            .pools
            .iter()
            .filter(|pool| wanted.iter().any(|entity| pool_of(entity) == Some(&pool.name)))
            .collect();
        let tokens: Vec<&TokensConfig> =
            checked.tokens.iter().filter(|tokens| self.builder.wants_name(&tokens.name)).collect();
        self.reach_shares(&wanted).await?;
        self.find_detours(&pools).await;
        let records = self.load_keys(&wanted).await?;
        for tokens in &tokens {
            self.open_tokens(tokens).await?;
        }
        let mut known = BTreeSet::new();
        for entity in &checked.entities {
            // An entity left out still tells whether its pool was in use before.
            let shares_pool = pools.iter().any(|pool| pool_of(entity) == Some(&pool.name));
            if (self.builder.wants(entity) || shares_pool) && self.is_known(entity).await? {
                known.insert(entity.name.as_str());
            }
        }
        for entity in &wanted {
            if let (Some(sequence), false) = (&entity.needs.sequence, known.contains(entity.name.as_str())) {
                for store in entity.range_stores() {
                    let ranges = self.ranges(store).await?;
                    ranges.create(sequence).await.map_err(|source| store_error(store, source))?;
                }
            }
        }
        for pool in pools {
            let minted = checked
                .entities
                .iter()
                .any(|entity| pool_of(entity) == Some(&pool.name) && known.contains(entity.name.as_str()));
            if self.detour.leads_past(&pool.name) {
                // What must agree is compared and recorded where the claim is.
                self.claim(pool, false, &records).await?;
                continue;
            }
            self.pin_regions(&pool.store).await?;
            let known = minted && !self.is_new_region(pool).await?;
            self.claim(pool, known, &records).await?;
            self.mark_home(pool).await?;
            self.look_at_reserve(pool, &records).await?;
        }
        for (store, entity, format) in std::mem::take(&mut self.announced) {
            self.pin(&store, &entity, &format).await?;
        }
        for entity in &wanted {
            for (store, format) in self.records_of(entity) {
                self.pin(&store, &entity.name, &format).await?;
            }
        }
        for tokens in &tokens {
            self.pin(&tokens.store, &tokens.name, &tokens.format()).await?;
        }
        for (store, name, record) in records {
            self.pin(&store, &name, &record).await?;
        }
        for series in checked.series.iter().filter(|series| self.builder.wants_name(&series.name)) {
            let desk = self.desk(series).await?;
            self.series.insert(series.name.clone(), Arc::new(desk));
        }
        for entity in wanted.iter().filter(|entity| entity.needs.gapless) {
            if let Some(gapless) = self.gapless(&entity.name, entity.name.clone(), &entity.store).await? {
                self.gapless.insert(entity.name.clone(), gapless);
            }
        }
        self.open(&wanted).await
    }

    /// Compares the format of a series with the recorded one. Its periods are opened when they are asked for.
    async fn desk(&mut self, series: &SeriesConfig) -> Result<Desk, BuildError> {
        self.pin(&series.store, &series::record_name(&series.name), &series.format.pin()).await?;
        // A process that numbers a few and ends takes just these in one trip.
        let once = self.builder.once.filter(|count| u64::from(*count) <= series.format.n_max());
        let gapless = match series.gapless {
            true => self.gapless(&series.name, series::record_name(&series.name), &series.store).await?,
            false => None,
        };
        Ok(Desk {
            gapless,
            name: series.name.clone(),
            format: series.format.clone(),
            range_len: NonZeroU32::new(once.unwrap_or(series.range)).unwrap_or(NonZeroU32::MIN),
            clock: Arc::clone(&self.builder.clock),
            ranges: self.ranges(&series.store).await?,
            formats: self.formats(&series.store).await?,
            birth: Birth::here(),
            state: tokio::sync::Mutex::default(),
        })
    }

    /// Prepares the store for numbers inside transactions. `None` where ids must be reproducible: nothing is in a database then.
    async fn gapless(&mut self, name: &str, owner: String, store: &str) -> Result<Option<Arc<Gapless>>, BuildError> {
        if self.builder.seed.is_some() {
            return Ok(None);
        }
        let kept = self.backend(store).await?.gapless.clone();
        let kept = kept.ok_or_else(|| store_error(store, missing("gapless numbers")))?;
        kept.prepare().await.map_err(|source| store_error(store, source))?;
        let config = self.checked.store(store);
        let url_scheme = config.map_or("", StoreConfig::url_scheme).to_owned();
        let tables = config.map(|config| config.tables.clone()).unwrap_or_default();
        Ok(Some(Arc::new(Gapless {
            name: name.to_owned(),
            owner,
            store: store.to_owned(),
            url_scheme,
            tables,
            kept,
            ranges: self.ranges(store).await?,
            formats: self.formats(store).await?,
            clock: Arc::clone(&self.builder.clock),
            birth: Birth::here(),
            closed: AtomicBool::new(false),
            made: std::sync::Mutex::default(),
        })))
    }

    /// Loads the keys of the entities wanted, compares them with what their stores recorded, and makes the codecs. Returns
    /// what is to be recorded: store, name and record.
    async fn load_keys(&mut self, wanted: &[&EntityConfig]) -> Result<Vec<(String, String, Format)>, BuildError> {
        if let Some(seed) = self.builder.seed {
            self.rings = Rings::seeded(self.checked, seed);
        }
        let uses: BTreeSet<(String, String)> = wanted
            .iter()
            .flat_map(|entity| {
                entity.public.iter().flat_map(keys_of).map(|key| (self.within_reach(entity), key.to_owned()))
            })
            .flat_map(|(stores, key)| stores.into_iter().map(move |store| (store, key.clone())))
            .collect();
        let mut found = Vec::new();
        for (store, name) in uses {
            let formats = self.formats(&store).await?;
            let recorded = formats.pinned(&record_name(&name)).await.map_err(|source| store_error(&store, source))?;
            found.push((store, name, recorded));
        }
        // A key that one store knows was in use, whatever the others know.
        let in_use: BTreeSet<String> =
            found.iter().filter(|(.., recorded)| recorded.is_some()).map(|(_, name, _)| name.clone()).collect();
        let mut records = Vec::new();
        for (store, name, recorded) in found {
            let Some(key) = self.checked.key(&name) else { continue };
            if self.rings.ring(&name).is_none() {
                let source = self.builder.key_sources.get(&name);
                let known = in_use.contains(&name) || self.is_key_recorded(key).await?;
                let loaded = self.rings.load(key, source, &self.builder.environment, known).await;
                loaded.map_err(|source| BuildError::Keys { key: name.clone(), source })?;
            }
            let Some(ring) = self.rings.ring(&name) else { continue };
            let record =
                publish::record(&name, ring, recorded.as_ref()).map_err(|source| store_error(&store, source))?;
            if let Some(recorded) = &recorded {
                let fresh = publish::fresh_starts(ring, recorded).cloned().collect::<Vec<KeyStart>>();
                self.starts_lie_ahead(&store, &name, &fresh).await?;
            }
            if recorded.is_none()
                && self.rings.was_found(&name)
                && !self.builder.always_begins_empty(self.checked, &store)
            {
                let formats = self.formats(&store).await?;
                let known = publish::knows_any(&*formats, self.checked).await;
                if !known.map_err(|source| store_error(&store, source))? {
                    let told = publish::older_than_store(&name, &store);
                    self.notices.push(format!("warning: {told}. {}", publish::OLDER_THAN_STORE));
                }
            }
            records.push((store, record_name(&name), record));
        }
        for entity in wanted {
            let codec = self.rings.codec(entity, &self.checked.realm);
            let codec = codec.map_err(|source| BuildError::Public { entity: entity.name.clone(), source })?;
            if let Some(codec) = codec {
                self.codecs.insert(entity.name.clone(), Arc::new(codec));
            }
        }
        Ok(records)
    }

    /// Whether any store of this key's entities has a record of it. Asked only where a new file would be made: it must not
    /// take the place of a lost one.
    async fn is_key_recorded(&mut self, key: &KeyConfig) -> Result<bool, BuildError> {
        if self.builder.key_sources.contains_key(&key.name)
            || !matches!(&key.place, KeyPlace::File(path) if !path.exists())
        {
            return Ok(false);
        }
        let checked = self.checked;
        let uses = |entity: &&EntityConfig| entity.public.iter().flat_map(keys_of).any(|name| name == key.name);
        let stores: BTreeSet<&str> =
            checked.entities.iter().filter(uses).flat_map(EntityConfig::range_stores).collect();
        for store in stores {
            let recorded = self.formats(store).await?.pinned(&record_name(&key.name)).await;
            if recorded.map_err(|source| store_error(store, source))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A version that nobody has recorded yet must not own an id that is made already.
    async fn starts_lie_ahead(&mut self, store: &str, key: &str, fresh: &[KeyStart]) -> Result<(), BuildError> {
        for start in fresh {
            let passed = match &start.at {
                StartAt::Time { unix_ms } => {
                    let now_ms = i64::try_from(self.builder.clock.unix_ms()).unwrap_or(i64::MAX);
                    (*unix_ms <= now_ms).then(|| time::rfc3339(*unix_ms, 1))
                }
                StartAt::Number { entity, from } => {
                    let next = self.next_number(store, entity).await?;
                    next.is_some_and(|next| next > *from).then(|| format!("{entity} {from}"))
                }
            };
            if let Some(place) = passed {
                return Err(store_error(store, publish::starts_too_late(key, start.version, &place)));
            }
        }
        Ok(())
    }

    /// The first number of an entity that this store has not handed out; `None` where it has no sequence here.
    async fn next_number(&mut self, store: &str, entity: &str) -> Result<Option<u64>, BuildError> {
        let checked = self.checked;
        let entity = checked.entity(entity).filter(|entity| entity.range_stores().contains(&store));
        let Some(sequence) = entity.and_then(|entity| entity.needs.sequence.as_ref()) else { return Ok(None) };
        let row = self.ranges(store).await?.sequence(&sequence.name).await;
        Ok(row.map_err(|source| store_error(store, source))?.map(|row| row.next))
    }

    /// What decides the meaning of an entity's ids, inside the house and outside.
    pub(super) fn format_of(&self, entity: &EntityConfig) -> Format {
        self.checked.with_public(entity, entity.plan.format())
    }

    /// Compares the configured prefix with the recorded one, and finds the place of the hashes.
    async fn open_tokens(&mut self, tokens: &TokensConfig) -> Result<(), BuildError> {
        let formats = self.formats(&tokens.store).await?;
        let recorded = formats.pinned(&tokens.name).await.map_err(|source| store_error(&tokens.store, source))?;
        if let Some(recorded) = recorded {
            let agreed = tokens.format().agrees_with(&recorded, &tokens.name);
            agreed.map_err(|source| store_error(&tokens.store, source))?;
        }
        let kept = self.backend(&tokens.store).await?.tokens.clone();
        let kept = kept.ok_or_else(|| store_error(&tokens.store, missing("bearer tokens")))?;
        self.tokens.insert(tokens.name.clone(), kept);
        Ok(())
    }

    pub(super) async fn pin(&mut self, store: &str, name: &str, format: &Format) -> Result<(), BuildError> {
        let formats = self.formats(store).await?;
        formats.pin(name, format).await.map_err(|source| store_error(store, source))
    }

    /// Compares the configured format with the recorded one. `false` if there is none yet.
    async fn is_known(&mut self, entity: &EntityConfig) -> Result<bool, BuildError> {
        if !entity.needs.shares.is_empty() {
            return self.is_shared_entity_known(entity).await;
        }
        let store = self.home_of(entity);
        let formats = self.formats(&store).await?;
        let recorded: Option<Format> =
            formats.pinned(&entity.name).await.map_err(|source| store_error(&store, source))?;
        let Some(recorded) = recorded else { return Ok(false) };
        if self.builder.wants(entity) {
            let agreed = self.format_of(entity).agrees_with(&recorded, &entity.name);
            agreed.map_err(|source| store_error(&store, source))?;
            self.announce_revision(entity, &store, &recorded).await?;
        }
        Ok(true)
    }

    async fn open(&mut self, wanted: &[&EntityConfig]) -> Result<Built, BuildError> {
        let mut schemes = BTreeMap::new();
        let mut leased: BTreeMap<String, Vec<Vec<Arc<dyn Leased>>>> = BTreeMap::new();
        for entity in wanted {
            let (scheme, sides) = match self.open_one(entity).await {
                Ok(opened) => opened,
                Err(error) => {
                    close_all(&schemes).await;
                    return Err(error);
                }
            };
            if let Some(pool) = pool_of(entity) {
                let lanes = leased.entry(pool.to_owned()).or_default();
                lanes.resize_with(lanes.len().max(sides.len()), Vec::new);
                lanes.iter_mut().zip(sides).for_each(|(lane, side)| lane.extend(side));
            }
            schemes.insert(entity.name.clone(), scheme);
        }
        let keepers = std::mem::take(&mut self.claims)
            .into_iter()
            .map(|claimed| {
                let lanes = leased.get_mut(claimed.pool()).filter(|lanes| !lanes.is_empty());
                let sides = lanes.map(|lanes| lanes.remove(0)).unwrap_or_default();
                let Claimed { posts, claim, on_reserve, comparison } = claimed;
                Keeper::start(posts, claim, on_reserve, comparison, sides)
            })
            .collect();
        Ok((schemes, keepers))
    }

    /// Opens an entity, once for each worker id of the process, and says what their keepers drive.
    async fn open_one(
        &mut self,
        entity: &EntityConfig,
    ) -> Result<(AnyScheme, Vec<Option<Arc<dyn Leased>>>), BuildError> {
        let pool = pool_of(entity).and_then(|pool| self.checked.pool(pool));
        let count = pool.map_or(1, |pool| self.lanes(pool));
        let (mut lanes, mut sides) = (Vec::new(), Vec::new());
        for lane in 0..count {
            let mut site = Site::new(Arc::clone(&self.builder.clock));
            site.once = self.builder.once;
            site.lanes = count > 1;
            site.seed = self.builder.seed.map(|seed| seed_of(seed, &entity.name).wrapping_add(u64::from(lane)));
            if !entity.needs.shares.is_empty() {
                site.shares = self.share_lanes(entity).await?;
            } else if entity.needs.sequence.is_some() {
                site.ranges = Some(self.ranges(&entity.store).await?);
            }
            let opened = entity.plan.open(site).await;
            let opened = opened.map_err(|source| BuildError::Entity { entity: entity.name.clone(), source })?;
            lanes.push(opened.scheme);
            sides.push(opened.leased);
        }
        let scheme = lanes::join(lanes).ok_or_else(|| BuildError::Entity {
            entity: entity.name.clone(),
            source: ReadyError::with_source(MintError::LeaseLapsed, "its lanes have different widths"),
        })?;
        Ok((scheme, sides))
    }

    async fn backend(&mut self, name: &str) -> Result<&Backend, BuildError> {
        if !self.backends.contains_key(name) {
            let backend = self.builder.open_store(self.checked, name).await?;
            self.backends.insert(name.to_owned(), backend);
        }
        self.backends.get(name).ok_or_else(|| store_error(name, missing("anything")))
    }

    /// What is to be ended when the last minter has stopped.
    pub(super) fn connected(&self) -> Vec<Arc<dyn Connected>> {
        let later = self.later.values().map(|later| Arc::clone(later) as Arc<dyn Connected>);
        self.backends.values().filter_map(|backend| backend.connected.clone()).chain(later).collect()
    }

    pub(super) fn factory(&self, store: &str) -> Option<Arc<dyn BackendFactory>> {
        self.builder.catalog.backend_of(&self.checked.store(store)?.url).cloned()
    }

    pub(super) async fn ranges(&mut self, store: &str) -> Result<Arc<dyn RangeStore>, BuildError> {
        let ranges = self.backend(store).await?.ranges.clone();
        let ranges = ranges.ok_or_else(|| store_error(store, missing("ranges")))?;
        if let Some(trouble) = ranges.history_trouble() {
            let notice = format!("stores.{store}: {trouble}");
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
        Ok(ranges)
    }

    pub(super) async fn leases(&mut self, store: &str) -> Result<Arc<dyn LeaseStore>, BuildError> {
        self.backend(store).await?.leases.clone().ok_or_else(|| store_error(store, missing("leases")))
    }

    pub(super) async fn formats(&mut self, store: &str) -> Result<Arc<dyn FormatStore>, BuildError> {
        self.backend(store).await?.formats.clone().ok_or_else(|| store_error(store, missing("formats")))
    }
}

async fn close_all(schemes: &BTreeMap<String, AnyScheme>) {
    for scheme in schemes.values() {
        // The build's own error is the one to report.
        let _ = scheme.close().await;
    }
}

/// The seed of one entity: its own, or two entities would mint the same; and none of it from what else is in the config, so
/// that the ids which a test has written down survive a new entity.
fn seed_of(seed: u64, entity: &str) -> u64 {
    // FNV-1a: the same on every machine and in every version, which the standard library's hasher does not promise.
    let bytes = seed.to_le_bytes().into_iter().chain(entity.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(super) fn pool_of(entity: &EntityConfig) -> Option<&str> {
    entity.needs.worker.as_ref().map(|need| need.pool.as_str())
}
