//! The door by which schemes and stores enter: ours and strangers' alike.
//!
//! A [`Plugin`] puts [`SchemeFactory`]s and [`BackendFactory`]s into a [`Catalog`]. The registry reads the config, finds the
//! factory by name, lets it [`plan`](SchemeFactory::plan) from the settings (no store, no I/O: every complaint surfaces
//! here), and later lets the plan [`open`](SchemePlan::open) the scheme with the stores it asked for.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;

use crate::{
    AnyScheme, Clock, Format, FormatStore, GaplessStore, LeaseStore, Leased, RangeStore, ReadyError, SchemeInfo,
    Sequence, StoreError, TablePrefix, TokenStore, Vitals, WorkerChoice,
};

/// Adds schemes and stores to a registry: `builder.plugin::<MyPlugin>()`.
pub trait Plugin {
    /// Puts its factories into the catalog.
    fn install(catalog: &mut Catalog);
}

/// The schemes and stores a registry knows. One per registry, never global.
#[derive(Debug, Default)]
pub struct Catalog {
    schemes: Vec<Arc<dyn SchemeFactory>>,
    backends: Vec<Arc<dyn BackendFactory>>,
}

impl Catalog {
    /// Adds a scheme. A later one of the same name replaces an earlier one.
    pub fn scheme(&mut self, factory: impl SchemeFactory) {
        self.schemes.retain(|known| known.name() != factory.name());
        self.schemes.push(Arc::new(factory));
        self.schemes.sort_by_key(|known| known.name());
    }

    /// Adds a kind of store. A later one of the same URL scheme replaces an earlier one.
    pub fn backend(&mut self, factory: impl BackendFactory) {
        self.backends.retain(|known| known.url_scheme() != factory.url_scheme());
        self.backends.push(Arc::new(factory));
        self.backends.sort_by_key(|known| known.url_scheme());
    }

    /// The schemes, by name.
    pub fn schemes(&self) -> &[Arc<dyn SchemeFactory>] {
        &self.schemes
    }

    /// The stores, by URL scheme.
    pub fn backends(&self) -> &[Arc<dyn BackendFactory>] {
        &self.backends
    }

    /// What opens a store at `url`, by what stands before its first colon.
    pub fn backend_of(&self, url: &str) -> Option<&Arc<dyn BackendFactory>> {
        let (scheme, _) = url.split_once(':')?;
        self.backends.iter().find(|known| known.url_scheme() == scheme)
    }
}

/// Makes one scheme from an entity's settings.
pub trait SchemeFactory: fmt::Debug + Send + Sync + 'static {
    /// The value of `scheme = "…"`. Not `bearer`, which the config reads itself: such tokens are no ids.
    fn name(&self) -> &'static str;

    /// One line for lists and editors.
    fn about(&self) -> &'static str;

    /// The keys it takes in `[entities.X]`, besides `scheme`, `store` and `public`. Others are refused before `plan`.
    fn keys(&self) -> &'static [Key];

    /// Reads the settings. Says everything that is wrong at once, through `settings`; `None` if anything is.
    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>>;
}

/// A scheme that is fully decided but not yet open.
#[async_trait]
pub trait SchemePlan: fmt::Debug + Send + Sync + 'static {
    /// Name, width and order.
    fn info(&self) -> &SchemeInfo;

    /// What decides the meaning of its ids: recorded in the store at first use.
    fn format(&self) -> Format;

    /// What it needs from the stores.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// A scheme that parses, formats and takes apart, but mints nothing. Needs no store.
    fn reader(&self) -> AnyScheme;

    /// What its numbers mean, one fact a line, given the wall clock in Unix ms: capacity, end date, collision odds.
    fn facts(&self, now_ms: u64) -> Vec<Fact>;

    /// Opens it for minting.
    ///
    /// # Errors
    /// [`ReadyError`] with the store's error behind it.
    async fn open(&self, site: Site) -> Result<Opened, ReadyError>;
}

/// An open scheme and, if it mints inside leases, the side its keeper drives.
#[derive(Debug)]
pub struct Opened {
    /// What mints.
    pub scheme: AnyScheme,
    /// What the keeper grants windows to.
    pub leased: Option<Arc<dyn Leased>>,
}

impl From<AnyScheme> for Opened {
    fn from(scheme: AnyScheme) -> Self {
        Self { scheme, leased: None }
    }
}

/// What a scheme wants from the stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// A sequence to cut ranges from.
    pub sequence: Option<Sequence>,
    /// Whether its numbers are assigned inside the caller's transaction, one by one, and never by the scheme.
    pub gapless: bool,
    /// A worker id.
    pub worker: Option<WorkerNeed>,
    /// The stores that each keep a sequence of that name, where it is not the entity's one store.
    pub shares: Vec<Share>,
}

impl Needs {
    /// Ranges of one sequence.
    pub fn ranges_of(sequence: Sequence) -> Self {
        Self { sequence: Some(sequence), ..Self::default() }
    }

    /// A worker id of a pool.
    pub fn worker(worker: WorkerNeed) -> Self {
        Self { worker: Some(worker), ..Self::default() }
    }

    /// The sequence is in each of these stores.
    #[must_use]
    pub fn shared_by(mut self, shares: Vec<Share>) -> Self {
        self.shares = shares;
        self
    }
}

/// One of several stores that mint for an entity, each a part of the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The store's name: `[stores.NAME]`.
    pub store: String,
    /// What is recorded in it: it says which part of the numbers is its own.
    pub format: Format,
    /// Where its name stands.
    pub at: Option<Place>,
}

impl Share {
    /// A share of `store`, which records `format`.
    pub fn new(store: impl Into<String>, format: Format, at: Option<Place>) -> Self {
        Self { store: store.into(), format, at }
    }
}

/// A worker id of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerNeed {
    /// The pool's name: `[workers.NAME]`.
    pub pool: String,
    /// Which one.
    pub which: WorkerChoice,
    /// Prefer the one that the number of this replica names, whatever `which` says.
    pub ordinal: bool,
    /// The pool to lease from while the store of this one cannot be reached.
    pub fallback: Option<String>,
    /// The worker ids the layout has room for, `0..n`.
    pub room: Range<u32>,
    /// Those that each of its layouts, the former ones too, has room for: what a pool without a region has.
    pub always: Range<u32>,
    /// The length of a time unit, in milliseconds: a window holds at least five.
    pub unit_ms: u32,
    /// How many ids one worker can mint in a unit.
    pub ids_a_unit: u64,
    /// Where `pool = …` stands.
    pub at: Option<Place>,
}

impl WorkerNeed {
    /// Any worker id of `pool` that fits `room`.
    pub fn any(pool: impl Into<String>, room: Range<u32>, unit_ms: u32) -> Self {
        Self {
            pool: pool.into(),
            which: WorkerChoice::Any,
            ordinal: false,
            fallback: None,
            always: room.clone(),
            room,
            unit_ms,
            ids_a_unit: 1,
            at: None,
        }
    }
}

/// What a plan is opened with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Site {
    /// The registry's clock.
    pub clock: Arc<dyn Clock>,
    /// The store of the entity's ranges; present if [`Needs::sequence`] asked.
    pub ranges: Option<Arc<dyn RangeStore>>,
    /// The stores of [`Needs::shares`] by name, in their order; then `ranges` is `None`.
    pub shares: Vec<(String, Arc<dyn RangeStore>)>,
    /// `Some` where ids must be reproducible: the seed of all chance.
    pub seed: Option<u64>,
    /// `Some(n)` where the process will mint `n` ids and end: ask the store for no more than that.
    pub once: Option<u32>,
    /// Whether the process mints with several worker ids: a full unit goes on with the next of them instead of borrowing.
    pub lanes: bool,
}

impl Site {
    /// A site with a clock and nothing else.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ranges: None, shares: Vec::new(), seed: None, once: None, lanes: false }
    }
}

/// Opens one kind of store.
#[async_trait]
pub trait BackendFactory: fmt::Debug + Send + Sync + 'static {
    /// What stands before the colon of its URLs, such as `sqlite`.
    fn url_scheme(&self) -> &'static str;

    /// One line for lists: what it keeps, and what it survives.
    fn promise(&self) -> &'static str;

    /// Says what is wrong with a URL, without opening anything.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Whether no other machine reaches it: then worker ids are kept apart between the processes of one machine only.
    fn local(&self) -> bool {
        false
    }

    /// How long the store at `url` remembers which ranges it has cut: an entity that counts needs one that always does.
    fn ranges_kept(&self, url: &str) -> RangesKept {
        let _ = url;
        RangesKept::ForGood
    }

    /// Whether there is something where [`open`](Self::open) would look, as far as that can be seen without asking anybody.
    fn exists(&self, address: &Address) -> bool {
        let _ = address;
        true
    }

    /// Whether [`open`](Self::open) makes what the store at `url` needs where there is nothing. Else somebody runs
    /// [`init`](Self::init) once, and a store without records is taken for one that lost them.
    fn makes_itself(&self, url: &str) -> bool {
        let _ = url;
        true
    }

    /// Opens a store that is there already; `None` where there is none. Readers use this: it makes and upgrades nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        if self.exists(address) { self.open(address).await.map(Some) } else { Ok(None) }
    }

    /// Makes the store's tables or records where there are none; says whether it made them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        if self.open_existing(address).await?.is_some() {
            return Ok(false);
        }
        self.open(address).await?.disconnect().await;
        Ok(true)
    }

    /// What the store tells of itself: for a person who asks whether all is well. It makes and changes nothing.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing).
    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        Ok(Vitals::of(self.open_existing(address).await?.is_some()))
    }

    /// The statements that make its tables, for stores that have some.
    fn ddl(&self, tables: &TablePrefix) -> Option<String> {
        let _ = tables;
        None
    }

    /// The statements that give a user all it needs once the tables are there, for stores that have users of their own.
    fn grants(&self, tables: &TablePrefix) -> Option<String> {
        let _ = tables;
        None
    }

    /// Whether it has tables, whose names begin with [`Address::tables`].
    fn has_tables(&self) -> bool {
        false
    }

    /// Whether it is on a server that may want [`Address::password`].
    fn takes_password(&self) -> bool {
        false
    }

    /// Whether it can keep to [`Address::tls`], in this build.
    fn takes_tls(&self) -> bool {
        false
    }

    /// Whether an application can move its counters inside a transaction of its own: [`Backend::gapless`].
    fn keeps_gapless(&self) -> bool {
        false
    }

    /// Opens the store at `url`. Relative paths start at `address.folder`.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be reached, `Corrupt` or `Refused` when it must not be used.
    async fn open(&self, address: &Address) -> Result<Backend, StoreError>;
}

/// How long a store remembers which ranges it has cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RangesKept {
    /// Through a crash of its process or machine.
    #[default]
    ForGood,
    /// While it is open: afterwards its numbers begin again. Only for whoever says in the config that this is meant.
    WhileOpen,
    /// It keeps none.
    NotAtAll,
}

/// Where a store is, and what to open it with.
#[derive(Clone)]
#[non_exhaustive]
pub struct Address {
    /// The whole URL.
    pub url: String,
    /// The password of the URL's user, where it does not stand in the URL.
    pub password: Option<Secret>,
    /// How to encrypt the connection, if the config says so. The URL may say more.
    pub tls: Option<Tls>,
    /// What the names of its tables begin with, where it has some.
    pub tables: TablePrefix,
    /// The folder of the config file.
    pub folder: std::path::PathBuf,
    /// How long one call may take, in milliseconds.
    pub timeout_ms: u64,
    /// What the process is called in the history of ranges, for people; up to 120 characters, empty where nobody said.
    pub instance: String,
    /// The registry's clock, for embedded stores that have none of their own.
    pub clock: Arc<dyn Clock>,
}

impl Address {
    /// The store at `url`.
    pub fn new(url: impl Into<String>, folder: impl Into<std::path::PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            url: url.into(),
            password: None,
            tls: None,
            tables: TablePrefix::default(),
            folder: folder.into(),
            timeout_ms: 10_000,
            instance: String::new(),
            clock,
        }
    }
}

/// Shows the kind of store only: a URL may hold a password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.url.split_once(':').map_or("", |(kind, _)| kind);
        f.debug_struct("Address")
            .field("url", &format_args!("{kind}:…"))
            .field("password", &self.password)
            .field("tls", &self.tls)
            .field("folder", &self.folder)
            .field("timeout_ms", &self.timeout_ms)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// A text that no log may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the server it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The connection is encrypted, and the server must prove that it is the one the URL names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// The certificates to trust, a file in PEM; without it those that the system trusts.
    pub ca: Option<std::path::PathBuf>,
}

impl Tls {
    /// Trusts the certificates in this file; without one those that the system trusts.
    pub fn trusting(ca: Option<std::path::PathBuf>) -> Self {
        Self { ca }
    }
}

/// An open store: what it can keep.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Backend {
    /// Ranges, if it keeps them.
    pub ranges: Option<Arc<dyn RangeStore>>,
    /// Leases, if it keeps them.
    pub leases: Option<Arc<dyn LeaseStore>>,
    /// Formats, if it keeps them.
    pub formats: Option<Arc<dyn FormatStore>>,
    /// Bearer tokens, if it keeps them.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Gapless numbers, if it keeps them.
    pub gapless: Option<Arc<dyn GaplessStore>>,
    /// Its connections, if they are better ended than dropped.
    pub connected: Option<Arc<dyn Connected>>,
}

/// A store that leaves something behind when its connections are dropped: files, or a complaint in the server's log.
#[async_trait]
pub trait Connected: Send + Sync + fmt::Debug {
    /// Ends the idle connections in good order. A later call opens new ones.
    async fn disconnect(&self);
}

impl Backend {
    /// A store that keeps ranges, leases and formats.
    pub fn whole<S: RangeStore + LeaseStore + FormatStore>(store: S) -> Self {
        Self::shared(&Arc::new(store))
    }

    /// As [`whole`](Self::whole), of a store that is to be used for more.
    pub fn shared<S: RangeStore + LeaseStore + FormatStore>(store: &Arc<S>) -> Self {
        Self {
            ranges: Some(store.clone()),
            leases: Some(store.clone()),
            formats: Some(store.clone()),
            ..Self::default()
        }
    }

    /// A store that keeps all four.
    pub fn full<S: RangeStore + LeaseStore + FormatStore + TokenStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self::shared(&store).with_tokens(store)
    }

    /// With counters for gapless numbers.
    #[must_use]
    pub fn with_gapless(mut self, gapless: Arc<dyn GaplessStore>) -> Self {
        self.gapless = Some(gapless);
        self
    }

    /// With connections to end.
    #[must_use]
    pub fn with_connections(mut self, connected: Arc<dyn Connected>) -> Self {
        self.connected = Some(connected);
        self
    }

    /// Ends what is idle of its connections. A later call opens new ones.
    pub async fn disconnect(&self) {
        if let Some(connected) = &self.connected {
            connected.disconnect().await;
        }
    }

    /// With a place for bearer tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenStore>) -> Self {
        self.tokens = Some(tokens);
        self
    }
}

/// One line of `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// What is stated, such as `capacity`.
    pub name: &'static str,
    /// The statement.
    pub text: String,
    /// Unix ms of the instant the statement is about, if it is about one: the reader prints it in its own way.
    pub at_ms: Option<i64>,
    /// Whether an owner should worry.
    pub warning: bool,
}

impl Fact {
    /// A plain statement.
    pub fn new(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), at_ms: None, warning: false }
    }

    /// About an instant.
    #[must_use]
    pub fn at(mut self, unix_ms: i64) -> Self {
        self.at_ms = Some(unix_ms);
        self
    }

    /// One to worry about.
    #[must_use]
    pub fn warn(mut self) -> Self {
        self.warning = true;
        self
    }
}

/// A config key: what the reader accepts, what `did you mean` knows, and what the JSON Schema says, from one table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: KeyKind,
    /// One sentence.
    pub about: &'static str,
}

impl Key {
    /// `durability = "weak"`, of an entity that counts in a store: for [`SchemeFactory::keys`] of a scheme that asks for a
    /// [sequence](Needs::sequence). Without that word a store that forgets its ranges is refused.
    pub const DURABILITY: Self = Self {
        name: "durability",
        kind: KeyKind::Choice(&["weak"]),
        about: "Says that its numbers may begin again when its process ends: for tests, with a store that forgets, such as memory:.",
    };
}

/// What a config key takes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum KeyKind {
    /// Any text.
    Text,
    /// An RFC 3339 time, such as `2026-01-01T00:00:00Z`.
    Time,
    /// A duration: a number and `ms`, `s`, `m`, `h` or `d`.
    Duration,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A fraction within bounds.
    Fraction(f64, f64),
    /// `true` or `false`.
    Flag,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of whole numbers, each within bounds.
    Integers(i64, i64),
    /// A table with these keys.
    Table(&'static [Key]),
    /// Tables by any name, each with these keys.
    Named(&'static [Key]),
    /// A list of tables with these keys.
    Tables(&'static [Key]),
    /// Any one of these.
    OneOf(&'static [KeyKind]),
}

/// A place in the config file: line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub at: Place,
}

/// A config value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Text.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Fraction.
    Fraction(f64),
    /// Flag.
    Flag(bool),
    /// A date or time, as written without quotes.
    Time(String),
    /// List.
    List(Vec<Setting>),
    /// Table, in the order of the file.
    Table(Vec<(String, Setting)>),
}

/// Something wrong with the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Dotted path, such as `entities.orders.layout`.
    pub path: String,
    /// Where; `None` where the whole is at fault.
    pub at: Option<Place>,
    /// What is wrong and what to write instead.
    pub message: String,
    /// Whether it only deserves a warning.
    pub warning: bool,
}

/// The settings of one table, and the problems found while reading them.
///
/// Each `take_…` call returns `None` both when the key is absent and when its value is wrong; the latter is noted.
#[derive(Debug)]
pub struct Settings<'a> {
    path: String,
    at: Option<Place>,
    table: &'a [(String, Setting)],
    problems: &'a mut Vec<Problem>,
    now_ms: u64,
}

impl<'a> Settings<'a> {
    /// The settings in `table`, which stands at `path`. `now_ms` is the wall clock in Unix ms.
    pub fn new(
        path: impl Into<String>,
        at: Option<Place>,
        table: &'a [(String, Setting)],
        problems: &'a mut Vec<Problem>,
        now_ms: u64,
    ) -> Self {
        Self { path: path.into(), at, table, problems, now_ms }
    }

    /// The wall clock while the config is read, Unix ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The dotted path of the table, such as `entities.orders`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The last part of the path: the entity's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Where a key's value stands; where the table stands if the key is absent.
    pub fn place(&self, key: &str) -> Option<Place> {
        self.get(key).map(|setting| setting.at).or(self.at)
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The raw value of a key.
    pub fn get(&self, key: &str) -> Option<&'a Setting> {
        self.table.iter().find(|(name, _)| name == key).map(|(_, setting)| setting)
    }

    /// Notes that something is wrong with `key` (empty: with the table).
    pub fn refuse(&mut self, key: &str, message: impl Into<String>) {
        self.note(key, message.into(), false);
    }

    /// Notes something that deserves a second look but does not stop anything.
    pub fn warn(&mut self, key: &str, message: impl Into<String>) {
        self.note(key, message.into(), true);
    }

    fn note(&mut self, key: &str, message: String, warning: bool) {
        let path = if key.is_empty() { self.path.clone() } else { format!("{}.{key}", self.path) };
        self.problems.push(Problem { path, at: self.place(key), message, warning });
    }

    /// How many refusals there are so far, in the whole config: compare before and after to see whether a step failed.
    pub fn refusals(&self) -> usize {
        self.problems.iter().filter(|problem| !problem.warning).count()
    }

    /// A text.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        match &self.get(key)?.value {
            Value::Text(text) => Some(text),
            other => self.wrong_type(key, "a text in quotes", other),
        }
    }

    /// One of `choices`; anything else is refused with the nearest choice.
    pub fn choice(&mut self, key: &str, choices: &[&'static str]) -> Option<&'static str> {
        let text = self.text(key)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            self.refuse(key, format!("{text:?} is not one of {}", choices.join(", ")));
        }
        found
    }

    /// A whole number within `bounds`, both ends included.
    pub fn integer(&mut self, key: &str, bounds: std::ops::RangeInclusive<i64>) -> Option<i64> {
        match &self.get(key)?.value {
            Value::Integer(number) if bounds.contains(number) => Some(*number),
            Value::Integer(number) => {
                self.refuse(key, format!("{number} lies outside {} to {}", bounds.start(), bounds.end()));
                None
            }
            Value::Text(text) => {
                self.refuse(key, format!("{text:?} is a text: write the number without quotes"));
                None
            }
            other => self.wrong_type(key, "a whole number", other),
        }
    }

    /// A fraction.
    pub fn fraction(&mut self, key: &str) -> Option<f64> {
        match &self.get(key)?.value {
            Value::Fraction(number) => Some(*number),
            // Whole numbers this small are exact.
            Value::Integer(number) => i32::try_from(*number).map(f64::from).ok().or(Some(f64::MAX)),
            other => self.wrong_type(key, "a number", other),
        }
    }

    /// A flag.
    pub fn flag(&mut self, key: &str) -> Option<bool> {
        match &self.get(key)?.value {
            Value::Flag(flag) => Some(*flag),
            other => self.wrong_type(key, "true or false", other),
        }
    }

    /// A duration such as `"10ms"`, in milliseconds.
    pub fn duration_ms(&mut self, key: &str) -> Option<u64> {
        let text = self.text(key)?;
        let parsed = parse_duration_ms(text);
        if parsed.is_none() {
            self.refuse(
                key,
                format!("{text:?} is not a duration: write a whole number and ms, s, m, h or d, such as \"10ms\""),
            );
        }
        parsed
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str) -> Option<Vec<&'a str>> {
        match &self.get(key)?.value {
            Value::List(items) => {
                let texts: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| match &item.value {
                        Value::Text(text) => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                if texts.is_none() {
                    self.refuse(key, "a list of texts in quotes was expected");
                }
                texts
            }
            other => self.wrong_type(key, "a list of texts", other),
        }
    }

    /// A list of whole numbers, each within `bounds`, both ends included.
    pub fn integers(&mut self, key: &str, bounds: std::ops::RangeInclusive<i64>) -> Option<Vec<i64>> {
        match &self.get(key)?.value {
            Value::List(items) => {
                let numbers: Option<Vec<i64>> = items
                    .iter()
                    .map(|item| match &item.value {
                        Value::Integer(number) if bounds.contains(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                if numbers.is_none() {
                    let (least, most) = (bounds.start(), bounds.end());
                    self.refuse(key, format!("a list of whole numbers from {least} to {most} was expected"));
                }
                numbers
            }
            other => self.wrong_type(key, "a list of whole numbers", other),
        }
    }

    /// A table, to be read in the same way.
    pub fn table(&mut self, key: &str) -> Option<Settings<'_>> {
        let setting = self.get(key)?;
        match &setting.value {
            Value::Table(table) => Some(Settings {
                path: format!("{}.{key}", self.path),
                at: Some(setting.at),
                table,
                problems: self.problems,
                now_ms: self.now_ms,
            }),
            other => self.wrong_type(key, "a table", other),
        }
    }

    /// A list of tables, each to be read in the same way.
    pub fn tables<T>(&mut self, key: &str, mut each: impl FnMut(&mut Settings<'_>) -> T) -> Option<Vec<T>> {
        let Value::List(items) = &self.get(key)?.value else {
            let found = &self.get(key)?.value;
            return self.wrong_type(key, "a list of tables", found);
        };
        let mut read = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let Value::Table(table) = &item.value else {
                return self.wrong_type(key, "a list of tables", &item.value);
            };
            read.push(each(&mut Settings {
                path: format!("{}.{key}[{position}]", self.path),
                at: Some(item.at),
                table,
                problems: self.problems,
                now_ms: self.now_ms,
            }));
        }
        Some(read)
    }

    fn wrong_type<T>(&mut self, key: &str, expected: &str, found: &Value) -> Option<T> {
        self.refuse(key, format!("{expected} was expected, found {}", found.kind()));
        None
    }
}

impl Value {
    /// What it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Fraction(_) => "a number with a fraction",
            Self::Flag(_) => "true or false",
            Self::Time(_) => "a date without quotes",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Reads a whole number and a unit (`ms`, `s`, `m`, `h`, `d`) as milliseconds.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    crate::parse_decimal(number, 63).ok()?.checked_mul(factor)
}
