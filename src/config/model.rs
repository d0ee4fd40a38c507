//! What a config has decided, once nothing is wrong with it.

use std::{collections::BTreeMap, fmt, ops::Range, path::PathBuf, sync::Arc};

use mintage_core::{
    Format, LeaseTerms, PoolLimits, TablePrefix, WorkerChoice, WorkerPool,
    plugin::{Fact, Needs, Place, SchemePlan, Tls},
};

use sha2::{Digest, Sha256};

use super::{Problems, keys::BEARER, words};
use crate::{
    public::{BearerFormat, PublicForm},
    series::SeriesFormat,
};

/// A config without faults: every name in it resolves, every number fits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The folder of the config file: relative paths start here.
    pub folder: PathBuf,
    /// `live` unless the config says otherwise.
    pub realm: String,
    /// The entities, in the order of the file.
    pub entities: Vec<EntityConfig>,
    /// The entities that have bearer tokens instead of ids, in the order of the file.
    pub tokens: Vec<TokensConfig>,
    /// The series, in the order of the file.
    pub series: Vec<SeriesConfig>,
    /// The pools of worker ids, in the order of the file.
    pub pools: Vec<PoolConfig>,
    /// What the process is called in the history of ranges, if anything has a say in it.
    pub instance: Option<String>,
    /// Which block of worker ids each region owns. No two overlap.
    pub regions: BTreeMap<String, Range<u32>>,
    /// The stores, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// Where the secret keys come from, in the order of the file.
    pub keys: Vec<KeyConfig>,
    /// What deserves a second look.
    pub warnings: Problems,
}

impl Checked {
    /// An entity by name.
    pub fn entity(&self, name: &str) -> Option<&EntityConfig> {
        self.entities.iter().find(|entity| entity.name == name)
    }

    /// Whether there is an entity of that name, with ids or with tokens.
    pub fn has_entity(&self, name: &str) -> bool {
        self.entity_names().any(|known| known == name)
    }

    /// The names of the entities, those with ids first.
    pub fn entity_names(&self) -> impl Iterator<Item = &String> {
        let minting = self.entities.iter().map(|entity| &entity.name);
        minting.chain(self.tokens.iter().map(|tokens| &tokens.name))
    }

    /// An entity of bearer tokens by name.
    pub fn tokens(&self, name: &str) -> Option<&TokensConfig> {
        self.tokens.iter().find(|tokens| tokens.name == name)
    }

    /// A series by name.
    pub fn series(&self, name: &str) -> Option<&SeriesConfig> {
        self.series.iter().find(|series| series.name == name)
    }

    /// A pool by name.
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// The pool in each region of the config, its own first; without regions, as it is.
    pub(crate) fn regions_of(&self, pool: &PoolConfig) -> Vec<WorkerPool> {
        let in_region = |region: &str| {
            let block = self.regions.get(region).unwrap_or(&pool.block);
            let mut whole = WorkerPool::new(pool.name.clone(), block.clone());
            whole.region = region.to_owned();
            whole
        };
        let Some(own) = pool.region.as_deref() else { return vec![in_region("")] };
        let others = self.regions.keys().map(String::as_str).filter(|region| *region != own);
        std::iter::once(own).chain(others).map(in_region).collect()
    }

    /// A key by name.
    pub fn key(&self, name: &str) -> Option<&KeyConfig> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// With what of an entity's public form must never change. A form that the config does not ask for is not recorded: the owner
    /// may still choose.
    pub(crate) fn with_public(&self, entity: &EntityConfig, format: Format) -> Format {
        match &entity.public {
            Some(form) if entity.public_is_written => form.pin(format, &self.realm),
            _ => format,
        }
    }

    /// 16 hexadecimal digits that stand for what the ids and numbers of this config mean: scheme, epoch, layout, public form and so
    /// on of each entity, token and series. Two processes of one fleet agree in it. Stores, times and places are no part of it, and
    /// no secret is.
    pub fn fingerprint(&self) -> String {
        let mut formats = BTreeMap::new();
        for entity in &self.entities {
            formats.insert(entity.name.clone(), self.with_public(entity, entity.plan.format()));
        }
        formats.extend(self.tokens.iter().map(|tokens| (tokens.name.clone(), tokens.format())));
        formats
            .extend(self.series.iter().map(|series| (crate::series::record_name(&series.name), series.format.pin())));
        let mut hash = Sha256::new();
        for (name, format) in formats {
            // Neither has a control character, so no two lists give one text.
            hash.update(format!("{name}\n{format}\n\n"));
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// A store by name.
    pub fn store(&self, name: &str) -> Option<&StoreConfig> {
        self.stores.iter().find(|store| store.name == name)
    }
}

/// `[entities.NAME]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntityConfig {
    /// Its name.
    pub name: String,
    /// The name of its scheme.
    pub scheme: String,
    /// The scheme, decided but not open.
    pub plan: Arc<dyn SchemePlan>,
    /// What the plan needs from the stores.
    pub needs: Needs,
    /// The store that keeps its format, and its ranges if it has any.
    pub store: String,
    /// What the outside sees. Without a `public` line: a token, if there is exactly one key; else nothing is published.
    pub public: Option<PublicForm>,
    /// Whether the config says so itself; then the store records it.
    pub public_is_written: bool,
    /// Where it stands.
    pub at: Place,
}

impl EntityConfig {
    /// The stores that keep its format and its ranges: one, unless the config shares the numbers out.
    pub fn range_stores(&self) -> Vec<&str> {
        if self.needs.shares.is_empty() {
            return vec![&self.store];
        }
        self.needs.shares.iter().map(|share| share.store.as_str()).collect()
    }
}

/// `[entities.NAME]` with `scheme = "bearer"`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokensConfig {
    /// Its name.
    pub name: String,
    /// What its tokens look like.
    pub format: BearerFormat,
    /// How long a token is accepted that is issued without a word about it; `None` for ever.
    pub expires_ms: Option<u64>,
    /// What tokens may be issued for; `None` for any scope.
    pub scopes: Option<Vec<String>>,
    /// The store that keeps the hashes.
    pub store: String,
    /// Where it stands.
    pub at: Place,
}

impl TokensConfig {
    /// What is recorded in the store at first use: with another prefix no token given out would be read again.
    pub fn format(&self) -> Format {
        Format::of(BEARER).with("prefix", self.format.prefix())
    }

    /// What its settings mean.
    pub fn facts(&self) -> Vec<Fact> {
        let life = match self.expires_ms {
            Some(ms) => format!("accepted for {}, unless issued otherwise", words::span(ms)),
            None => "accepted until revoked, unless issued otherwise".to_owned(),
        };
        let scopes = match &self.scopes {
            Some(scopes) if scopes.is_empty() => "none".to_owned(),
            Some(scopes) => scopes.join(", "),
            None => "any".to_owned(),
        };
        let life = Fact::new("life", life);
        vec![
            Fact::new("capacity", "secret tokens of 178 random bits"),
            if self.expires_ms.is_none() { life.warn() } else { life },
            Fact::new("scopes", scopes),
            Fact::new(
                "storage",
                format!("a SHA-256 hash a token in store {}; the token itself is nowhere", self.store),
            ),
            Fact::new("scanner", self.format.scanner_pattern()),
        ]
    }
}

/// `[series.NAME]`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeriesConfig {
    /// Its name.
    pub name: String,
    /// What its numbers look like.
    pub format: SeriesFormat,
    /// How many numbers one store trip brings.
    pub range: u32,
    /// Whether numbers are assigned inside the caller's transaction.
    pub gapless: bool,
    /// The store that counts and keeps its format.
    pub store: String,
    /// Where it stands.
    pub at: Place,
}

impl SeriesConfig {
    /// What its settings mean.
    pub fn facts(&self) -> Vec<Fact> {
        let (gaps, speed) = match (self.gapless, self.range) {
            (true, _) => (
                "none: a number is assigned inside your transaction and rolled back with it (next_in)".to_owned(),
                "transactions that number in one period wait for each other, from next_in to their commit".to_owned(),
            ),
            (false, 1) => (
                "from a crash between the store's answer and your commit, and from your rollbacks".to_owned(),
                "one trip to the store for each number".to_owned(),
            ),
            (false, range) => (
                format!("a crash loses at most {range} numbers of each process, and your rollbacks leave some"),
                format!("one trip to the store per {range} numbers"),
            ),
        };
        let check =
            if self.format.check_digit { "a Damm digit finds every single wrong digit and every swap" } else { "none" };
        vec![
            Fact::new("capacity", self.format.summary()),
            Fact::new("gaps", gaps),
            Fact::new("speed", speed),
            Fact::new(
                "uniqueness",
                "by construction: the text has its period, and each period hands out a number once",
            ),
            Fact::new("check digit", check),
            Fact::new("leaks", "shows the day and how many there are: it is made to be read"),
            Fact::new("storage", format!("a row in store {} for each period", self.store)),
        ]
    }
}

/// `[keys.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyConfig {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub place: KeyPlace,
}

/// Where a secret key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPlace {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

/// `[workers.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolConfig {
    /// Its name.
    pub name: String,
    /// The store that grants its leases.
    pub store: String,
    /// The region of this process, where there are several.
    pub region: Option<String>,
    /// The worker ids it may lease: its region's, else all that the narrowest layout has room for. Empty where there is no
    /// region and no entity uses the pool.
    pub block: Range<u32>,
    /// Which of them the entities ask for: one for all, because a process holds one lease of a pool.
    pub which: WorkerChoice,
    /// The times of a lease.
    pub lease: LeaseTimes,
    /// Why this machine has no number although an entity asks for that of the replica: then no start is possible here.
    pub no_ordinal: Option<String>,
    /// What this process is called, if the environment or the config says so.
    pub instance: Option<String>,
    /// How many worker ids this process leases.
    pub count: u32,
    /// What a process does that lost its worker id.
    pub on_lease_lost: OnLeaseLost,
    /// How far this machine's clock may be off.
    pub clock: ClockLimits,
    /// The pool that serves while the store of this one cannot be reached.
    pub fallback: Option<String>,
    /// Where it stands.
    pub at: Place,
}

/// `on_lease_lost` of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLeaseLost {
    /// Mint nothing beyond the window, and claim anew.
    #[default]
    Stop,
    /// End the process.
    Exit,
}

/// `clock = { … }` of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockLimits {
    /// How far from the other holders' clocks is worth an alert.
    pub alert_ms: u64,
    /// How far from the other holders' clocks a start is refused.
    pub refuse_start_ms: u64,
    /// How far the clock may step back before the worker id is given up.
    pub release_ms: u64,
}

impl Default for ClockLimits {
    fn default() -> Self {
        Self { alert_ms: 5, refuse_start_ms: 100, release_ms: 100 }
    }
}

/// `lease = { … }` of a pool: `renew < stop < ttl ≤ window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTimes {
    /// After how long without renewal others may claim the worker id.
    pub ttl_ms: u64,
    /// How often it is renewed.
    pub renew_ms: u64,
    /// How much time a grant holds.
    pub window_ms: u64,
    /// How far after the store's now a window may start.
    pub max_ahead_ms: u64,
    /// How far a failed-over store's clock may be behind its predecessor's.
    pub guard_ms: u64,
    /// How long a worker id rests after a release.
    pub quarantine_ms: u64,
    /// The strict rule: how long after sending a renewal that was not answered minting stops.
    pub stop_ms: Option<u64>,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        let (terms, limits) = (LeaseTerms::default(), PoolLimits::default());
        Self {
            ttl_ms: terms.ttl_ms,
            renew_ms: 3_000,
            window_ms: terms.window_ms,
            max_ahead_ms: terms.max_ahead_ms,
            guard_ms: limits.guard_ms,
            quarantine_ms: terms.quarantine_ms,
            stop_ms: None,
        }
    }
}

impl LeaseTimes {
    /// What is asked of the store with each claim and renewal.
    pub fn terms(&self) -> LeaseTerms {
        LeaseTerms::new(self.window_ms, self.ttl_ms, self.quarantine_ms, self.max_ahead_ms)
    }

    /// What the store fixes when the pool is made.
    pub fn limits(&self) -> PoolLimits {
        PoolLimits::new(self.window_ms, self.max_ahead_ms, self.guard_ms)
    }
}

/// `[stores.NAME]`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Its name.
    pub name: String,
    /// Its URL, the environment already asked.
    pub url: String,
    /// Where the password of the URL's user is, if not in the URL.
    pub password: Option<PasswordPlace>,
    /// How to encrypt the connection, if the config says so.
    pub tls: Option<Tls>,
    /// What the names of its tables begin with, where it has some.
    pub tables: TablePrefix,
    /// The folder in which this machine remembers what the store gave it, if it does.
    pub state_dir: Option<PathBuf>,
    /// How long one call may take.
    pub timeout_ms: u64,
    /// Where it stands.
    pub at: Place,
}

/// Where a password is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PasswordPlace {
    /// In an environment variable.
    Variable(String),
    /// In a file.
    File(PathBuf),
}

impl StoreConfig {
    /// What stands before the colon of the URL: the kind of store.
    pub fn url_scheme(&self) -> &str {
        self.url.split_once(':').map_or("", |(scheme, _)| scheme)
    }
}

/// Shows the kind of store only: a URL from the environment may hold a password.
impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig")
            .field("name", &self.name)
            .field("url", &format_args!("{}:…", self.url_scheme()))
            .field("password", &self.password)
            .field("tls", &self.tls)
            .field("timeout_ms", &self.timeout_ms)
            .field("at", &self.at)
            .finish()
    }
}
