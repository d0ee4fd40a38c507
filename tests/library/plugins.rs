//! Strangers' schemes and stores: they enter by the door that ours use, and are believed no more than they deserve.

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use mintage::{BuildError, Registry};
use mintage_backends::Memory;
use mintage_core::{
    Anatomy, AnyId, AnyScheme, Bits, Format, Grant, Holder, IdScheme, Lease, LeaseRow, LeaseStore, LeaseTerms, Leased,
    ManualClock, MintError, ParseError, ReadyError, SchemeInfo, StoreError, StoreErrorKind, WorkerChoice, WorkerPool,
    plugin::{
        Address, Backend, BackendFactory, Catalog, Fact, Key, Needs, Opened, Plugin, SchemeFactory, SchemePlan,
        Settings, Site, WorkerNeed,
    },
};

use crate::{NOW_MS, config_in, pass, settle};

// ---- a stranger's scheme that mints inside leases ----

/// Counts up behind its worker id, and writes down what its keeper tells it.
#[derive(Debug)]
struct Diary {
    info: SchemeInfo,
    last: AtomicU64,
    told: Mutex<Vec<String>>,
}

impl Diary {
    fn note(&self, line: String) {
        self.told.lock().unwrap().push(line);
    }
}

#[async_trait]
impl IdScheme for Diary {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    fn mint(&self) -> Result<u64, MintError> {
        Ok(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn format(&self, bits: u64, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        write!(out, "{bits}")
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        mintage_core::parse_decimal(text, 63)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        Anatomy::number(bits)
    }
}

impl Leased for Diary {
    fn workers(&self) -> u64 {
        4
    }

    fn grant(&self, worker: u32, window: Range<u64>, stop_ms: u64) {
        self.note(format!("grant {worker} {}..{} {}", window.start - NOW_MS, window.end - NOW_MS, stop_ms == u64::MAX));
    }

    fn extend(&self, end_ms: u64, _stop_ms: u64) {
        self.note(format!("extend {}", end_ms - NOW_MS));
    }

    fn trouble(&self, error: Arc<StoreError>) {
        self.note(format!("trouble {:?}", error.kind()));
    }

    fn halt(&self) -> Option<u64> {
        self.note("halt".to_owned());
        Some(NOW_MS + 7)
    }

    fn shut(&self) {
        self.note("shut".to_owned());
    }
}

#[derive(Debug)]
struct DiaryPlan(Arc<Diary>);

#[async_trait]
impl SchemePlan for DiaryPlan {
    fn info(&self) -> &SchemeInfo {
        &self.0.info
    }

    fn format(&self) -> Format {
        Format::of("diary")
    }

    fn needs(&self) -> Needs {
        Needs::worker(WorkerNeed::any("main", 0..4, 1))
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Int(self.0.clone())
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        Vec::new()
    }

    async fn open(&self, _site: Site) -> Result<Opened, ReadyError> {
        Ok(Opened { scheme: AnyScheme::Int(self.0.clone()), leased: Some(self.0.clone()) })
    }
}

/// `scheme = "diary"`, and two that fail: `"mute"` plans nothing and says nothing, `"stuck"` cannot be opened.
#[derive(Debug)]
struct DiaryFactory(&'static str);

#[async_trait]
impl SchemeFactory for DiaryFactory {
    fn name(&self) -> &'static str {
        self.0
    }

    fn about(&self) -> &'static str {
        "for tests"
    }

    fn keys(&self) -> &'static [Key] {
        const POOL: Key = Key { name: "pool", kind: mintage_core::plugin::KeyKind::Text, about: "The pool." };
        &[POOL]
    }

    fn plan(&self, _settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let info = SchemeInfo::new(self.0, Bits::Int, 63);
        let diary = Arc::new(Diary { info, last: AtomicU64::new(0), told: Mutex::default() });
        match self.0 {
            "mute" => None,
            "stuck" => Some(Arc::new(Stuck(DiaryPlan(diary)))),
            _ => {
                *DIARY.lock().unwrap() = Some(Arc::clone(&diary));
                Some(Arc::new(DiaryPlan(diary)))
            }
        }
    }
}

/// The diary of the test that runs; one test uses it.
static DIARY: Mutex<Option<Arc<Diary>>> = Mutex::new(None);

#[derive(Debug)]
struct Stuck(DiaryPlan);

#[async_trait]
impl SchemePlan for Stuck {
    fn info(&self) -> &SchemeInfo {
        self.0.info()
    }

    fn format(&self) -> Format {
        Format::of("stuck")
    }

    fn reader(&self) -> AnyScheme {
        self.0.reader()
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        Vec::new()
    }

    async fn open(&self, _site: Site) -> Result<Opened, ReadyError> {
        Err(ReadyError::with_source(MintError::NoEntropy, "no dice here"))
    }
}

// ---- strangers' stores ----

/// Opens stores that keep less than everything, or break the contract.
#[derive(Debug)]
struct Odd;

#[async_trait]
impl BackendFactory for Odd {
    fn url_scheme(&self) -> &'static str {
        "odd"
    }

    fn promise(&self) -> &'static str {
        "for tests"
    }

    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let memory = || Memory::new(Arc::clone(&address.clock));
        let mut backend = Backend::whole(memory());
        match address.url.as_str() {
            "odd:no-ranges" => backend.ranges = None,
            "odd:no-leases" => backend.leases = None,
            "odd:no-formats" => backend.formats = None,
            "odd:closed" => return Err(StoreError::new(StoreErrorKind::Unavailable, "closed for today")),
            other => backend.leases = Some(Arc::new(Liar { inner: memory(), lie: other.replace("odd:", "") })),
        }
        Ok(backend)
    }
}

/// A lease store whose answers are wrong.
#[derive(Debug)]
struct Liar {
    inner: Memory,
    lie: String,
}

#[async_trait]
impl LeaseStore for Liar {
    async fn acquire(
        &self,
        pool: &WorkerPool,
        which: WorkerChoice,
        holder: &Holder,
        terms: &LeaseTerms,
    ) -> Result<Lease, StoreError> {
        let mut lease = self.inner.acquire(pool, which, holder, terms).await?;
        match self.lie.as_str() {
            "worker" => lease.worker = pool.block.end,
            "token" => lease.fence.token ^= 1,
            "window" => lease.window.end = lease.window.start,
            _ => {}
        }
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
        let mut longer = self.inner.renew(lease, holder, terms).await?;
        match self.lie.as_str() {
            "other-worker" => longer.worker += 1,
            "other-claim" => longer.fence.epoch += 1,
            "other-start" => longer.window.start += 1_000,
            _ => {}
        }
        Ok(longer)
    }

    async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
        self.inner.release(lease, first_unused_ms, terms).await
    }

    async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
        self.inner.revoke(pool, worker).await
    }

    async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
        self.inner.bump(pool).await
    }

    async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
        self.inner.leases(pool).await
    }

    async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
        self.inner.history(pool, at_ms).await
    }
}

struct Strangers;

impl Plugin for Strangers {
    fn install(catalog: &mut Catalog) {
        for name in ["diary", "mute", "stuck"] {
            catalog.scheme(DiaryFactory(name));
        }
        catalog.backend(Odd);
    }
}

async fn build(text: &str, clock: &ManualClock) -> Result<Registry, BuildError> {
    let builder = Registry::builder().builtins().plugin::<Strangers>().clock(clock.clone());
    builder.build(config_in(Path::new("."), text)).await
}

fn one(scheme: &str, url: &str) -> String {
    let pool = "[workers.main]\nlease = { quarantine = \"0s\" }";
    format!("version = 1\n[entities.things]\n{scheme}\n{pool}\n[stores.main]\nurl = \"{url}\"\n")
}

const EVENTS: &str = r#"scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }"#;

// ---- the tests ----

#[tokio::test(start_paused = true)]
async fn a_strangers_scheme_is_driven_as_ours_are() {
    let clock = ManualClock::at(NOW_MS);
    let registry = build(&one("scheme = \"diary\"", "memory:"), &clock).await.unwrap();
    settle().await;
    let diary = DIARY.lock().unwrap().take().unwrap();
    let things = registry.any_minter("things").unwrap();
    assert_eq!(things.mint(), Ok(AnyId::Int(1)));
    assert_eq!(registry.leases()[0].worker, 0);
    pass(&clock, 6_500).await;
    registry.close().await.unwrap();
    let told = diary.told.lock().unwrap().clone();
    let ends = told.iter().filter_map(|told| told.strip_prefix("extend ")?.parse().ok()).collect::<Vec<u64>>();
    // Up to a tenth early each time.
    assert!((62_700..=63_000).contains(&ends[0]) && (65_400..=66_000).contains(&ends[1]), "{told:?}");
    assert_eq!(told.join(" "), format!("grant 0 0..60000 true extend {} extend {} halt shut", ends[0], ends[1]));
}

#[tokio::test]
async fn a_scheme_that_fails_is_named() {
    let clock = ManualClock::at(NOW_MS);
    let error = build(&one("scheme = \"mute\"", "memory:"), &clock).await.unwrap_err();
    let BuildError::Config(errors) = &error else { unreachable!("{error:?}") };
    assert!(errors.to_string().contains("the scheme mute cannot use these settings and does not say why"), "{errors}");

    let error = build(&one("scheme = \"stuck\"", "memory:"), &clock).await.unwrap_err();
    assert_eq!(error.to_string(), "entity things");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.source().unwrap().to_string(), "no dice here");
}

#[tokio::test]
async fn a_store_that_keeps_too_little_is_told_what_is_missing() {
    let clock = ManualClock::at(NOW_MS);
    for (scheme, url, missing) in [
        ("scheme = \"segment\"", "odd:no-ranges", "it does not keep ranges"),
        (EVENTS, "odd:no-leases", "it does not keep leases"),
        ("scheme = \"uuidv7\"", "odd:no-formats", "it does not keep formats"),
        ("scheme = \"bearer\"\nprefix = \"acme_pat_\"", "odd:no-leases", "it does not keep bearer tokens"),
        (EVENTS, "odd:closed", "closed for today"),
    ] {
        let error = build(&one(scheme, url), &clock).await.unwrap_err();
        let BuildError::Store { store, source } = &error else { unreachable!("{error:?}") };
        assert_eq!(store, "main");
        assert!(source.to_string().contains(missing), "{source}");
    }
    // What an entity does not need may be missing.
    build(&one("scheme = \"uuidv7\"", "odd:no-leases"), &clock).await.unwrap().close().await.unwrap();
    build(&one(EVENTS, "odd:no-ranges"), &clock).await.unwrap().close().await.unwrap();
}

/// Our block is `0..1024`: an id outside of it is some other region's.
#[tokio::test(start_paused = true)]
async fn a_lease_that_breaks_the_contract_is_not_used() {
    let clock = ManualClock::at(NOW_MS);
    for lie in ["worker", "token", "window"] {
        let error = build(&one(EVENTS, &format!("odd:{lie}")), &clock).await.unwrap_err();
        let BuildError::Store { source, .. } = &error else { unreachable!("{error:?}") };
        assert_eq!(source.kind(), StoreErrorKind::Corrupt, "{lie}: {source}");
        assert!(source.to_string().contains("breaks the contract"), "{lie}: {source}");
    }
    for lie in ["other-worker", "other-claim", "other-start"] {
        let clock = ManualClock::at(NOW_MS);
        let registry = build(&one(EVENTS, &format!("odd:{lie}")), &clock).await.unwrap();
        settle().await;
        pass(&clock, 59_999).await;
        registry.any_minter("things").unwrap().mint().unwrap();
        let health = &registry.leases()[0];
        assert_eq!(health.window_end_ms, NOW_MS + 60_000, "{lie}: not extended");
        assert!(health.trouble.as_deref().is_some_and(|why| why.contains("breaks the contract")), "{lie}: {health:?}");
        pass(&clock, 1).await;
        assert_eq!(registry.any_minter("things").unwrap().mint(), Err(MintError::LeaseLapsed), "{lie}");
    }
}

/// A later factory of the same name takes the place of an earlier one: so a house can wrap a store of ours.
#[test]
fn the_last_one_of_a_name_wins() {
    struct Twice;
    impl Plugin for Twice {
        fn install(catalog: &mut Catalog) {
            catalog.scheme(DiaryFactory("uuidv7"));
        }
    }
    let builder = Registry::builder().builtins().plugin::<Twice>();
    let of_name: Vec<&str> = builder
        .catalog()
        .schemes()
        .iter()
        .filter(|factory| factory.name() == "uuidv7")
        .map(|factory| factory.about())
        .collect();
    assert_eq!(of_name, ["for tests"]);
    let names: Vec<&str> = builder.catalog().schemes().iter().map(|factory| factory.name()).collect();
    assert_eq!(names, ["code", "ksuid", "segment", "snowflake", "ulid", "uuidv4", "uuidv7"]);
}

/// A registry without any plugin knows no scheme, and says so.
#[tokio::test]
async fn nothing_is_known_by_itself() {
    let text = one("scheme = \"uuidv7\"", "memory:");
    let error = Registry::builder().build(config_in(Path::new("."), &text)).await.unwrap_err().to_string();
    assert!(error.contains("no scheme \"uuidv7\"") && error.contains("memory"), "{error}");
}
