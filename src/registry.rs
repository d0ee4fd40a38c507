//! The registry: from a config to minters, and back to rest.
//!
//! Building is the only place where configuration errors surface: a registry that stands has every store open, every format
//! compared, every worker id leased. How that comes about is in
//! `registry/assembly.rs`.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use mintage_core::{
    AnyScheme, Clock, IdScheme, ManualClock, ReadyError, StoreError, StoreErrorKind, SupplyHealth, SystemClock,
    TokenStore,
    plugin::{Address, Backend, BackendFactory, Catalog, Connected, Plugin, RangesKept},
};
use mintage_schemes::fork::Birth;

use crate::{
    AnyMinter, Entity, Kind, Minter, Tokens, TokensError,
    builtin::Builtins,
    config::{Checked, Config, ConfigErrors, EntityConfig, Environment},
    gapless::Gapless,
    keeper::{Keeper, LeaseHealth},
    password,
    public::{Codec, FormError, KeyError, KeySource, PublicIdError},
    series::{Desk, Series},
};

mod assembly;
pub(crate) mod identity;
mod later;
mod leasing;
pub(crate) mod seen;
mod shares;

#[cfg(feature = "metrics")]
use crate::telemetry::tally::{self, Tally};
use assembly::Assembly;

/// How a process ends that lost its worker id, where the config says `on_lease_lost = "exit"`: as the program does when it is
/// refused an id.
pub const EXIT_LEASE_LOST: i32 = 4;

/// Mints, decodes and gives back. Dropping it without [`close`](Self::close) costs gaps, never repeats.
pub struct Registry {
    core: Arc<Core>,
}

/// What minters share. In a forked child it is leaked, not closed: its connections and tasks are the parent's.
pub(crate) struct Core {
    birth: Birth,
    clock: Arc<dyn Clock>,
    parts: Option<Parts>,
}

struct Parts {
    checked: Checked,
    schemes: BTreeMap<String, AnyScheme>,
    codecs: BTreeMap<String, Arc<Codec>>,
    /// The stores of bearer tokens, by entity.
    tokens: BTreeMap<String, Arc<dyn TokenStore>>,
    keepers: Vec<Keeper>,
    series: BTreeMap<String, Arc<Desk>>,
    /// The entities whose ids are assigned inside the caller's transaction.
    gapless: BTreeMap<String, Arc<Gapless>>,
    connected: Vec<Arc<dyn Connected>>,
    notices: Vec<String>,
    #[cfg(feature = "metrics")]
    tallies: BTreeMap<String, Arc<Tally>>,
}

/// Collects what a registry is built with.
pub struct RegistryBuilder {
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    environment: Environment,
    only: Option<BTreeSet<String>>,
    once: Option<u32>,
    seed: Option<u64>,
    key_sources: BTreeMap<String, Arc<dyn KeySource>>,
    exit: Arc<dyn Fn(&str) + Send + Sync>,
}

/// How this process stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Whether every entity can be minted just now, as far as leases go.
    pub ready: bool,
    /// One for each lease.
    pub leases: Vec<LeaseHealth>,
}

/// Why a registry could not be built. What was claimed meanwhile has been given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The config is wrong; every fault is listed.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A store said no.
    #[error("store {store}")]
    Store {
        /// Its name in the config.
        store: String,
        /// What it said.
        source: StoreError,
    },
    /// A scheme could not begin.
    #[error("entity {entity}")]
    Entity {
        /// Its name in the config.
        entity: String,
        /// Why.
        source: ReadyError,
    },
    /// A secret key is missing or wrong.
    #[error("keys.{key}")]
    Keys {
        /// Its name in the config.
        key: String,
        /// Why.
        source: KeyError,
    },
    /// The worker id is that of the replica, and this machine has no number.
    #[error("pool {pool}: {why}")]
    Ordinal {
        /// The pool.
        pool: String,
        /// What is missing.
        why: String,
    },
    /// This machine's clock is further from the other holders' than the config allows.
    #[error(
        "pool {pool}: this machine's clock is {} ms {} that of the {peers} other holders of the pool (their median), and more than \
         {limit_ms} ms is refused: set the clock that is wrong, or raise workers.{pool}.clock.refuse_start",
        skew_ms.unsigned_abs(), if *skew_ms < 0 { "behind" } else { "ahead of" }
    )]
    Clock {
        /// The pool.
        pool: String,
        /// Own clock less the others' median.
        skew_ms: i64,
        /// The limit in the config.
        limit_ms: u64,
        /// How many others there are.
        peers: usize,
    },
    /// The keys do not fit the public form of an entity.
    #[error("entities.{entity}.public")]
    Public {
        /// Its name in the config.
        entity: String,
        /// Why.
        source: FormError,
    },
    /// A pool, region or store was asked for that the config does not have.
    #[error("no {what} {name:?} (known: {known})")]
    NoName {
        /// What it would be.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A column with the ids of an entity is written wrongly.
    #[error("{why}")]
    Column {
        /// What to write.
        why: String,
    },
    /// An entity was asked for that the config does not have.
    #[error("no entity {name:?} (known: {known})")]
    NoEntity {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
}

/// Why there is no such minter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MinterError {
    /// The config has no such entity, or it was left out by [`RegistryBuilder::only`].
    #[error("no entity {name:?} (known: {known}): add [entities.{name}] to the config")]
    NoEntity {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The config has no such series, or it was left out by [`RegistryBuilder::only`].
    #[error("no series {name:?} (known: {known}): add [series.{name}] to the config")]
    NoSeries {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The type declared in `entity!` does not fit the scheme in the config.
    #[error("entity {entity} is declared as {kind}, but the config gives it {scheme}: change one of them")]
    Kind {
        /// The entity.
        entity: String,
        /// The kind in `entity!`.
        kind: &'static str,
        /// The scheme in the config.
        scheme: String,
    },
    /// The entity has secret tokens instead of ids.
    #[error("entity {entity} has bearer tokens, not ids: use `Registry::tokens`, or `mintage tokens issue {entity}`")]
    Tokens {
        /// The entity.
        entity: String,
    },
}

impl Registry {
    /// Begins a registry that knows nothing yet: add [`builtins`](RegistryBuilder::builtins).
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder {
            catalog: Catalog::default(),
            clock: Arc::new(SystemClock),
            environment: Environment::of_process(),
            only: None,
            once: None,
            seed: None,
            key_sources: BTreeMap::new(),
            exit: Arc::new(end_process),
        }
    }

    /// A registry whose ids are the same in every run, **for tests only**: it reads `clock`, draws chance from `seed`, and keeps
    /// everything in memory, whatever stores the config names. Bearer tokens differ all the same: a secret is never foreseen.
    ///
    /// Each entity draws from the seed and its own name, so two entities never mint the same, and adding an entity to the
    /// config changes no id of the others. Numbers begin at `start`; the worker id is the first of the block. Two such
    /// registries with one seed mint the same ids, and so does a forked child.
    ///
    /// ```
    /// use mintage::{Config, Registry, core::ManualClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut runs = Vec::new();
    /// for _ in 0..2 {
    ///     let registry = Registry::fixed(Config::shipped()?, ManualClock::at(1_800_000_000_000), 42).await?;
    ///     runs.push((registry.any_minter("users")?.mint()?, registry.any_minter("events")?.mint()?));
    /// }
    /// assert_eq!(runs[0], runs[1]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`RegistryBuilder::build`].
    pub async fn fixed(config: Config, clock: ManualClock, seed: u64) -> Result<Self, BuildError> {
        let mut builder = Self::builder().builtins().clock(clock);
        builder.seed = Some(seed);
        builder.build(config).await
    }

    /// The minter of an entity declared by [`entity!`](crate::entity).
    ///
    /// # Errors
    /// [`MinterError`] when the config has no such entity, or gives it another kind.
    pub fn minter<E: Entity>(&self) -> Result<Minter<E>, MinterError> {
        let scheme = self.core.scheme(E::NAME)?;
        let mismatch = || MinterError::Kind {
            entity: E::NAME.to_owned(),
            kind: E::Kind::NAME,
            scheme: scheme.info().name.to_string(),
        };
        if !E::Kind::admits(&scheme.info().name) {
            return Err(mismatch());
        }
        let typed = typed::<<E::Kind as Kind>::Bits>(scheme.clone()).ok_or_else(mismatch)?;
        Ok(Minter::new(typed, self.core.codec(E::NAME), Arc::clone(&self.core)))
    }

    /// The minter of an entity known at run time.
    ///
    /// # Errors
    /// [`MinterError::NoEntity`].
    pub fn any_minter(&self, name: &str) -> Result<AnyMinter, MinterError> {
        let scheme = self.core.scheme(name)?.clone();
        Ok(AnyMinter::new(name.to_owned(), scheme, self.core.codec(name), Arc::clone(&self.core)))
    }

    /// Issues and checks the bearer tokens of an entity with `scheme = "bearer"`.
    ///
    /// # Errors
    /// [`TokensError`] when the config has no such entity, or gives it ids.
    pub fn tokens(&self, name: &str) -> Result<Tokens, TokensError> {
        let parts = self.core.parts.as_ref();
        let found = parts.and_then(|parts| Some((parts.checked.tokens(name)?, parts.tokens.get(name)?)));
        if let Some((config, store)) = found {
            return Ok(Tokens::new(config.clone(), Arc::clone(store), Arc::clone(&self.core)));
        }
        if let Some(entity) = parts.and_then(|parts| parts.checked.entity(name)) {
            return Err(TokensError::Ids { entity: name.to_owned(), scheme: entity.scheme.clone() });
        }
        let known = listed(parts.into_iter().flat_map(|parts| parts.tokens.keys()));
        Err(TokensError::NoEntity { name: name.to_owned(), known })
    }

    /// The series of that name.
    ///
    /// # Errors
    /// [`MinterError::NoSeries`].
    pub fn series(&self, name: &str) -> Result<Series, MinterError> {
        let desks = self.core.parts.as_ref().map(|parts| &parts.series);
        let desk = desks.and_then(|desks| desks.get(name)).ok_or_else(|| MinterError::NoSeries {
            name: name.to_owned(),
            known: listed(desks.into_iter().flat_map(BTreeMap::keys)),
        })?;
        Ok(Series::new(Arc::clone(desk), Arc::clone(&self.core)))
    }

    /// What an owner should hear once: that a key file was made, that others can read it, that it is older than the store beside
    /// it, or that worker ids come from a reserve. Programs print these.
    pub fn notices(&self) -> &[String] {
        self.core.parts.as_ref().map_or(&[], |parts| &parts.notices)
    }

    /// How this process stands: for a readiness probe, and for people.
    pub fn health(&self) -> Health {
        let leases = self.leases();
        let forked = self.core.birth.forked();
        Health { ready: !forked && leases.iter().all(|lease| lease.live), leases }
    }

    /// Tells the metrics recorder of this process what was minted so far, how ranges stand, how far ids are ahead of the clock and
    /// how long the time fields last: call it before the metrics are read. Rates are those since the last call, a second ago at
    /// least. Leases tell theirs by themselves, at each renewal. [`METRICS`](crate::METRICS) lists them all.
    #[cfg(feature = "metrics")]
    pub fn observe(&self) {
        crate::telemetry::describe();
        metrics::gauge!("mintage_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        let Some(parts) = &self.core.parts else { return };
        metrics::gauge!("mintage_config_info", "fingerprint" => parts.checked.fingerprint()).set(1.0);
        for (entity, tally) in &parts.tallies {
            if let Some(scheme) = parts.schemes.get(entity) {
                tally.tell(entity, scheme, parts.codecs.contains_key(entity), &*self.core.clock);
            }
        }
    }

    /// How the leases stand: one for each pool in use, or as many as its `count` says.
    pub fn leases(&self) -> Vec<LeaseHealth> {
        self.core.parts.iter().flat_map(|parts| parts.keepers.iter().map(Keeper::health)).collect()
    }

    /// How the ranges of each entity stand that has some, and the stores they come from. A store that failed is named here until
    /// it has answered again.
    pub fn supplies(&self) -> Vec<(String, SupplyHealth)> {
        let schemes = self.core.parts.iter().flat_map(|parts| &parts.schemes);
        schemes.filter_map(|(name, scheme)| Some((name.clone(), scheme.supply()?))).collect()
    }

    /// Stops every minter, gives worker ids and unused range tails back, and ends every task. Afterwards every mint says
    /// `Closed`. In a forked child it does nothing.
    ///
    /// # Errors
    /// The first store that could not be told. That costs a gap or a resting worker id, never a repeat.
    pub async fn close(self) -> Result<(), BuildError> {
        if self.core.birth.forked() {
            return Ok(());
        }
        let Some(parts) = &self.core.parts else { return Ok(()) };
        let mut first_error = None;
        for keeper in &parts.keepers {
            if let Err(source) = keeper.close().await {
                let store =
                    parts.checked.pool(&keeper.health().pool).map(|pool| pool.store.clone()).unwrap_or_default();
                first_error.get_or_insert(BuildError::Store { store, source });
            }
        }
        for (entity, scheme) in &parts.schemes {
            if let Err(source) = scheme.close().await {
                first_error.get_or_insert(BuildError::Entity { entity: entity.clone(), source });
            }
        }
        parts.gapless.values().for_each(|gapless| gapless.close());
        for (series, desk) in &parts.series {
            if let Err(source) = desk.close().await {
                first_error.get_or_insert(BuildError::Entity { entity: series.clone(), source });
            }
        }
        for store in &parts.connected {
            store.disconnect().await;
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// Names and leases only: what is behind them fills pages, and holds the secrets by which leases are renewed.
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entities: Vec<&String> = self.core.parts.iter().flat_map(|parts| parts.schemes.keys()).collect();
        f.debug_struct("Registry").field("entities", &entities).field("leases", &self.leases()).finish_non_exhaustive()
    }
}

impl Core {
    fn codec(&self, name: &str) -> Option<Arc<Codec>> {
        self.parts.as_ref()?.codecs.get(name).cloned()
    }

    /// Where the ids of a gapless entity are assigned, and from which sequence.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn gapless(&self, name: &str) -> Option<(&Gapless, &mintage_core::Sequence)> {
        let parts = self.parts.as_ref()?;
        Some((parts.gapless.get(name)?, parts.checked.entity(name)?.needs.sequence.as_ref()?))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Counts a public id that could not be opened.
    pub(crate) fn note_unopened(&self, entity: &str, error: &PublicIdError) {
        #[cfg(feature = "metrics")]
        if let Some(tally) = self.tally(entity) {
            tally.note_unopened(error);
        }
        // Without the feature there is nobody to tell.
        let _ = (entity, error);
    }

    /// Counts an id that a unique index refused.
    #[cfg(feature = "sqlx")]
    pub(crate) fn note_duplicate(&self, entity: &str) {
        #[cfg(feature = "metrics")]
        if let Some(tally) = self.tally(entity) {
            tally.note_duplicate();
        }
        let _ = entity;
    }

    #[cfg(feature = "metrics")]
    fn tally(&self, entity: &str) -> Option<&Tally> {
        Some(self.parts.as_ref()?.tallies.get(entity)?)
    }

    pub(crate) fn forked(&self) -> bool {
        self.birth.forked()
    }

    fn scheme(&self, name: &str) -> Result<&AnyScheme, MinterError> {
        if self.parts.as_ref().is_some_and(|parts| parts.checked.tokens(name).is_some()) {
            return Err(MinterError::Tokens { entity: name.to_owned() });
        }
        let schemes = self.parts.as_ref().map(|parts| &parts.schemes);
        schemes.and_then(|schemes| schemes.get(name)).ok_or_else(|| MinterError::NoEntity {
            name: name.to_owned(),
            known: listed(schemes.into_iter().flat_map(BTreeMap::keys)),
        })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.birth.forked() {
            std::mem::forget(self.parts.take());
        }
    }
}

impl RegistryBuilder {
    /// Adds every scheme and store of this build.
    #[must_use]
    pub fn builtins(self) -> Self {
        self.plugin::<Builtins>()
    }

    /// Adds a stranger's schemes and stores, by the door that ours use.
    #[must_use]
    pub fn plugin<P: Plugin>(mut self) -> Self {
        P::install(&mut self.catalog);
        self
    }

    /// Reads this clock instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Reads these environment variables instead of the process's.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Takes the keys that the config calls `name` from a key service instead of the file or variable it names.
    #[must_use]
    pub fn keys(mut self, name: impl Into<String>, source: impl KeySource) -> Self {
        self.key_sources.insert(name.into(), Arc::new(source));
        self
    }

    /// Opens only these entities and series, and only the stores and leases they need. The whole config is checked all the same.
    #[must_use]
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// For a process that mints `count` ids and ends: it asks for no more numbers and no longer a window than it needs.
    #[must_use]
    pub fn once(mut self, count: u32) -> Self {
        self.once = Some(count.max(1));
        self
    }

    pub(crate) fn key_sources(&self) -> &BTreeMap<String, Arc<dyn KeySource>> {
        &self.key_sources
    }

    /// What to do instead of ending the process where the config says `on_lease_lost = "exit"`. It is told why, and called when
    /// nothing is minted any more.
    #[must_use]
    pub fn on_lease_lost(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.exit = Arc::new(hook);
        self
    }

    pub(crate) fn environment_shared(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn clock_shared(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The schemes and stores known so far.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Checks the config without opening anything.
    ///
    /// # Errors
    /// Every fault, with file, line and column.
    pub fn check(&self, config: &Config) -> Result<Checked, ConfigErrors> {
        config.check(&self.catalog, &self.environment, self.clock.unix_ms())
    }

    /// Opens stores, compares formats, claims worker ids, fetches the first ranges. Needs a tokio runtime with time.
    ///
    /// # Errors
    /// [`BuildError`]; whatever was claimed before the error is given back.
    pub async fn build(self, config: Config) -> Result<Registry, BuildError> {
        let checked = self.check(&config)?;
        if let Some(name) =
            self.only.iter().flatten().find(|name| !checked.has_entity(name) && checked.series(name).is_none())
        {
            let series = checked.series.iter().map(|series| &series.name);
            let known = listed(checked.entity_names().chain(series));
            return Err(BuildError::NoEntity { name: name.clone(), known });
        }
        let mut site = Assembly::new(&self, &checked);
        match site.assemble().await {
            Ok((schemes, keepers)) => {
                let connected = site.connected();
                let Assembly { codecs, tokens, series, gapless, rings, mut notices, .. } = site;
                notices.extend(rings.into_notices());
                #[cfg(feature = "metrics")]
                let (schemes, tallies) = counted(schemes, &self.clock);
                let parts = Parts {
                    checked,
                    schemes,
                    codecs,
                    tokens,
                    keepers,
                    series,
                    gapless,
                    connected,
                    notices,
                    #[cfg(feature = "metrics")]
                    tallies,
                };
                Ok(Registry { core: Arc::new(Core { birth: Birth::here(), clock: self.clock, parts: Some(parts) }) })
            }
            Err(error) => {
                site.give_up().await;
                Err(site.beside_home(error))
            }
        }
    }

    fn wants(&self, entity: &EntityConfig) -> bool {
        self.wants_name(&entity.name)
    }

    fn wants_name(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryBuilder")
            .field("catalog", &self.catalog)
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}

impl RegistryBuilder {
    pub(crate) async fn open_store(&self, checked: &Checked, name: &str) -> Result<Backend, BuildError> {
        if self.seed.is_some() {
            return Ok(Backend::full(mintage_backends::Memory::new(Arc::clone(&self.clock))));
        }
        let (factory, address) = self.store_at(checked, name)?;
        factory.open(&address).await.map_err(|source| store_error(name, source))
    }

    /// Opens a store that is there already: makes none and upgrades none.
    pub(crate) async fn open_existing(&self, checked: &Checked, name: &str) -> Result<Option<Backend>, BuildError> {
        if self.seed.is_some() {
            return Ok(None);
        }
        let (factory, address) = self.store_at(checked, name)?;
        factory.open_existing(&address).await.map_err(|source| store_error(name, source))
    }

    /// Whether a store is new in each process, so that its being new says nothing.
    pub(crate) fn always_begins_empty(&self, checked: &Checked, store: &str) -> bool {
        let Some(store) = checked.store(store) else { return false };
        let factory = self.catalog.backend_of(&store.url);
        factory.is_some_and(|factory| factory.ranges_kept(&store.url) == RangesKept::WhileOpen)
    }

    /// What opens a store, and with which address: its password is read for that.
    pub(crate) fn store_at(
        &self,
        checked: &Checked,
        name: &str,
    ) -> Result<(Arc<dyn BackendFactory>, Address), BuildError> {
        let store =
            checked.store(name).ok_or_else(|| store_error(name, missing("anything: the config does not name it")))?;
        let factory = self.catalog.backend_of(&store.url);
        let factory = factory.ok_or_else(|| store_error(name, missing("anything: its kind is not in this build")))?;
        let mut address = Address::new(store.url.clone(), checked.folder.clone(), Arc::clone(&self.clock));
        address.timeout_ms = store.timeout_ms;
        address.instance = checked.instance.clone().unwrap_or_else(crate::instance::name);
        address.tls.clone_from(&store.tls);
        address.tables.clone_from(&store.tables);
        let password = store.password.as_ref().map(|place| password::read(place, &self.environment)).transpose();
        address.password = password.map_err(|source| store_error(name, source))?;
        let factory = match &store.state_dir {
            // One that begins empty each time has nothing to be reminded of.
            Some(folder) if !self.always_begins_empty(checked, name) => {
                Arc::new(seen::Remembering::new(Arc::clone(factory), folder, name))
            }
            _ => Arc::clone(factory),
        };
        Ok((factory, address))
    }
}

/// What `on_lease_lost = "exit"` does, unless the application has a better way.
#[expect(clippy::print_stderr, reason = "a process that ends without a word is worse than a library that speaks")]
fn end_process(why: &str) {
    eprintln!("mintage: {why}; ending, as on_lease_lost = \"exit\" says");
    std::process::exit(EXIT_LEASE_LOST);
}

/// Every scheme, counted, and the counts.
#[cfg(feature = "metrics")]
fn counted(
    schemes: BTreeMap<String, AnyScheme>,
    clock: &Arc<dyn Clock>,
) -> (BTreeMap<String, AnyScheme>, BTreeMap<String, Arc<Tally>>) {
    let both = schemes.into_iter().map(|(entity, scheme)| {
        let (scheme, tally) = tally::counted(&entity, scheme, clock);
        ((entity.clone(), scheme), (entity, tally))
    });
    both.unzip()
}

pub(crate) fn store_error(store: &str, source: StoreError) -> BuildError {
    BuildError::Store { store: store.to_owned(), source }
}

fn missing(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, format!("it does not keep {what}: choose another store for this"))
}

fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The scheme of the width that the caller's type asks for.
fn typed<B: mintage_core::IdBits>(scheme: AnyScheme) -> Option<Arc<dyn IdScheme<Bits = B>>> {
    let scheme: Box<dyn Any> = match scheme {
        AnyScheme::Int(scheme) => Box::new(scheme),
        AnyScheme::Wide(scheme) => Box::new(scheme),
        AnyScheme::Long(scheme) => Box::new(scheme),
        _ => return None,
    };
    scheme.downcast().ok().map(|scheme| *scheme)
}
