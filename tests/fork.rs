//! After a fork no process repeats another's ids, whatever the registry was built on (B96, B97).
//!
//! Runs without the test harness: a process that forks here has one thread of its own, as the ones that fork in production
//! should. SQLite's connection has a second one, which is idle meanwhile.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test without the harness, which reports by itself")]

#[cfg(not(unix))]
fn main() {
    println!("no fork on this system");
}

#[cfg(unix)]
fn main() {
    if forks::run().is_some() {
        // A child that returns as any program does: its destructors have run.
        return;
    }
    println!("fork: all passed");
}

#[cfg(unix)]
mod forks {
    #![expect(unsafe_code, reason = "forks")]

    use std::{
        collections::{BTreeMap, HashSet},
        fs::File,
        io::{Read, Write},
        os::fd::FromRawFd,
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use async_trait::async_trait;
    use mintage::{AnyMinter, Config, Registry};
    use mintage_backends::{Memory, SqliteStore};
    use mintage_core::{
        AnyId, Grant, Holder, Lease, LeaseRow, LeaseStore, LeaseTerms, MintError, RangeStore, SequenceRow, StoreError,
        SystemClock, WorkerChoice, WorkerPool,
        plugin::{Address, Backend, BackendFactory, Catalog, Connected, Plugin},
    };
    use tokio::runtime::Runtime;

    /// Ids a process makes of each entity, in turns of one and in batches.
    const IDS: usize = 400;
    /// A lease short enough that its end is seen.
    const WINDOW: Duration = Duration::from_millis(600);
    const SHORT_LEASE: &str = r#"renew = "60ms", ttl = "500ms", window = "600ms""#;
    /// One that no busy machine lets run out while the test runs: what is asked is who holds it. It is not renewed meanwhile either:
    /// a child whose parent's second thread was at work as it forked inherits that thread's locks, and its destructors wait for
    /// them for ever.
    const LONG_LEASE: &str = r#"renew = "20s", ttl = "60s", window = "60s""#;
    /// After so many seconds a child that hangs is ended by its alarm.
    const CHILD_SECONDS_MAX: u32 = 30;

    const STATEFUL: [&str; 2] = ["orders", "events"];
    const RANDOM: [&str; 7] =
        ["users", "documents", "uploads", "tokens", "users_by_time", "documents_by_time", "uploads_by_time"];

    const CONFIG: &str = r#"
version = 1
[entities.orders]
scheme = "segment"
range = 300
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[entities.users]
scheme = "uuidv7"
[entities.users_by_time]
scheme = "uuidv7"
order = "time"
[entities.documents]
scheme = "ulid"
[entities.documents_by_time]
scheme = "ulid"
order = "time"
[entities.uploads]
scheme = "ksuid"
[entities.uploads_by_time]
scheme = "ksuid"
order = "time"
[entities.tokens]
scheme = "uuidv4"
[workers.main]
lease = { LEASE, quarantine = "0s" }
[stores.main]
url = "STORE"
"#;

    /// Says something in the child that returns from `main`.
    pub(super) fn run() -> Option<()> {
        inherited_minters();
        close_and_drop_do_nothing();
        for store in ["sqlite:ids.db", "file:ids"] {
            a_registry_of_its_own(store);
        }
        a_child_outlives_its_parents_registry();
        inherited_runtime();
        normal_return()
    }

    /// A process with a registry that has minted.
    struct Stage {
        // Dropped in this order: minters, registry, runtime, folder.
        minters: BTreeMap<String, AnyMinter>,
        registry: Registry,
        runtime: Runtime,
        folder: tempfile::TempDir,
    }

    impl Stage {
        fn new(store: &str) -> Self {
            Self::with_lease(SHORT_LEASE, store)
        }

        fn with_lease(lease: &str, store: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (runtime, registry, minters) = start(folder.path(), store, lease);
            let stage = Self { minters, registry, runtime, folder };
            stage.mint(&STATEFUL);
            stage.mint(&RANDOM);
            stage
        }

        fn mint(&self, entities: &[&str]) -> Vec<String> {
            mint(&self.runtime, &self.minters, entities)
        }

        fn rows(&self) -> (Vec<LeaseRow>, Vec<SequenceRow>) {
            self.runtime.block_on(async {
                let path = self.folder.path().join("ids.db");
                let store = SqliteStore::open(path, Arc::new(SystemClock), Duration::from_secs(10)).await.unwrap();
                let mut sequences = store.sequences().await.unwrap();
                loop {
                    // The refill task finishes what it has begun, on a busy machine later.
                    tokio::time::sleep(WINDOW / 10).await;
                    let now = store.sequences().await.unwrap();
                    if now == sequences {
                        let leases = store.leases(&WorkerPool::new("main", 0..1024)).await.unwrap();
                        store.disconnect().await;
                        return (leases, sequences);
                    }
                    sequences = now;
                }
            })
        }

        /// Mints on for longer than a window, which takes several renewals and ranges.
        fn mint_for_longer_than_a_window(&self) -> Vec<String> {
            let mut ids = Vec::new();
            for _ in 0..8 {
                self.runtime.block_on(async { tokio::time::sleep(WINDOW / 5).await });
                ids.extend(self.mint(&STATEFUL));
            }
            ids
        }

        fn close(self) {
            self.runtime.block_on(self.registry.close()).unwrap();
        }
    }

    fn start(folder: &Path, store: &str, lease: &str) -> (Runtime, Registry, BTreeMap<String, AnyMinter>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let file = folder.join("mintage.toml").display().to_string();
        let config = Config::parse(&CONFIG.replace("STORE", store).replace("LEASE", lease), file).unwrap();
        let building = Registry::builder().builtins().plugin::<Watched>().build(config);
        let registry = runtime.block_on(building).unwrap();
        let entities = STATEFUL.iter().chain(&RANDOM);
        let minters = entities.map(|name| ((*name).to_owned(), registry.any_minter(name).unwrap())).collect();
        (runtime, registry, minters)
    }

    /// So many ids of each entity, as `entity text`.
    fn mint(runtime: &Runtime, minters: &BTreeMap<String, AnyMinter>, entities: &[&str]) -> Vec<String> {
        let mut ids = Vec::new();
        for entity in entities {
            let minter = &minters[*entity];
            let mut minted: Vec<AnyId> = (0..IDS / 2).map(|_| runtime.block_on(minter.mint_ready()).unwrap()).collect();
            minted.extend(runtime.block_on(minter.mint_many(IDS / 2)).unwrap());
            ids.extend(minted.into_iter().map(|id| format!("{entity} {}", minter.text(id).unwrap())));
        }
        ids
    }

    fn assert_distinct(name: &str, said: &[Vec<String>]) {
        let all: Vec<&String> = said.iter().flatten().collect();
        let distinct: HashSet<&&String> = all.iter().collect();
        assert!(all.len() >= IDS, "{name}: {} ids", all.len());
        assert_eq!(distinct.len(), all.len(), "{name}: an id was made twice");
    }

    /// Runs `body` in a child and returns the lines it said, through a pipe.
    fn in_child(body: impl FnOnce() -> Vec<String>) -> Vec<String> {
        let (child, said) = begin_child(body);
        end_child(child, said)
    }

    fn begin_child(body: impl FnOnce() -> Vec<String>) -> (i32, File) {
        let (reader, mut writer) = pipe();
        let child = fork();
        if child == 0 {
            drop(reader);
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let told = said.is_ok_and(|said| writer.write_all(said.join("\n").as_bytes()).is_ok());
            // SAFETY: leaves without running the parent's exit handlers.
            unsafe { libc::_exit(if told { 0 } else { 1 }) }
        }
        (child, reader)
    }

    fn end_child(child: i32, mut said: File) -> Vec<String> {
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        wait_for(child);
        text.lines().map(str::to_owned).collect()
    }

    fn pipe() -> (File, File) {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the pipe is fresh; nobody else owns its ends.
        unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) }
    }

    fn fork() -> i32 {
        // SAFETY: no other thread of this process holds a lock: there is none, or it waits for work.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            // SAFETY: has no preconditions.
            unsafe { libc::alarm(CHILD_SECONDS_MAX) };
        }
        child
    }

    fn wait_for(child: i32) {
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child failed or hung: status {status}");
    }

    fn passed(name: &str) {
        println!("fork: {name} ok");
    }

    // ---- the tests ----

    /// Stateful minters say `Forked` for ever; random ones go on, and repeat nothing.
    fn inherited_minters() {
        let stage = Stage::new("sqlite:ids.db");
        let before = stage.rows();
        let child = || {
            for _ in 0..100 {
                for entity in STATEFUL {
                    let minter = &stage.minters[entity];
                    assert_eq!(minter.mint(), Err(MintError::Forked), "{entity}");
                    let waited = stage.runtime.block_on(minter.mint_ready());
                    assert_eq!(waited.unwrap_err().kind(), MintError::Forked, "{entity}");
                    let many = stage.runtime.block_on(minter.mint_many(3));
                    assert_eq!(many.unwrap_err().kind(), MintError::Forked, "{entity}");
                }
            }
            // Also in a child of the child, which never asked before.
            let grandchild = in_child(|| {
                assert_eq!(stage.minters["events"].mint(), Err(MintError::Forked));
                stage.mint(&RANDOM)
            });
            [grandchild, stage.mint(&RANDOM)].concat()
        };
        let said = [in_child(child), in_child(child), stage.mint(&RANDOM)];
        assert_eq!(said[0].len(), 2 * IDS * RANDOM.len());
        assert_distinct("random schemes", &said);
        // The parent noticed nothing.
        let after = stage.rows();
        assert_eq!(after.1, before.1, "no range was fetched or given back");
        let said = [stage.mint_for_longer_than_a_window(), stage.mint(&STATEFUL)];
        assert_distinct("the parent's stateful schemes", &said);
        stage.close();
        passed("inherited minters");
    }

    /// A child that closes, and one that drops, release nothing: both are the parent's.
    fn close_and_drop_do_nothing() {
        let mut stage = Some(Stage::with_lease(LONG_LEASE, "sqlite:ids.db"));
        let closing = |stage: &mut Option<Stage>| {
            in_child(|| {
                let Stage { minters, registry, runtime, folder } = stage.take().unwrap();
                runtime.block_on(registry.close()).unwrap();
                assert_eq!(minters["events"].mint(), Err(MintError::Forked), "and not Closed");
                drop(minters);
                drop(runtime);
                // Not the child's to delete.
                let _ = folder.keep();
                vec!["closed".to_owned()]
            })
        };
        let dropping = |stage: &mut Option<Stage>| {
            in_child(|| {
                let Stage { minters, registry, runtime, folder } = stage.take().unwrap();
                // The runtime first: its tasks are dropped with it.
                drop(runtime);
                drop(registry);
                drop(minters);
                let _ = folder.keep();
                vec!["dropped".to_owned()]
            })
        };
        let first = stage.as_ref().unwrap().rows();
        assert_eq!(closing(&mut stage), ["closed"]);
        assert_eq!(dropping(&mut stage), ["dropped"]);
        let stage = stage.unwrap();
        let (leases, sequences) = stage.rows();
        assert!(leases.len() == 1 && leases[0].held && leases[0].epoch == 1, "the lease is held: {leases:?}");
        assert!(leases[0].floor_ms >= first.0[0].floor_ms, "and its floor was not lowered: {leases:?}");
        assert_eq!(sequences, first.1, "no tail was given back");

        let mut ids = stage.mint_for_longer_than_a_window();
        ids.extend(stage.mint(&STATEFUL));
        assert_distinct("the parent", &[ids]);
        let folder = stage.folder.path().to_owned();
        let last = stage.runtime.block_on(stage.minters["orders"].mint_ready()).unwrap();
        stage.runtime.block_on(stage.registry.close()).unwrap();
        let rows = stage.runtime.block_on(async {
            let store =
                SqliteStore::open(folder.join("ids.db"), Arc::new(SystemClock), Duration::from_secs(10)).await.unwrap();
            (store.leases(&WorkerPool::new("main", 0..1024)).await.unwrap(), store.sequences().await.unwrap())
        });
        assert!(!rows.0[0].held, "the parent's own close still gives the worker id back");
        assert_eq!(AnyId::Int(rows.1[0].next - 1), last, "and the numbers");
        passed("close and drop in a child");
    }

    /// Whoever needs ids in a child builds a registry there, on a runtime of its own.
    fn a_registry_of_its_own(store: &str) {
        let stage = Stage::with_lease(LONG_LEASE, store);
        let child = || {
            let (runtime, registry, minters) = start(stage.folder.path(), store, LONG_LEASE);
            let mut said = vec![format!("worker {}", registry.leases()[0].worker)];
            said.extend(mint(&runtime, &minters, &STATEFUL));
            said.extend(mint(&runtime, &minters, &RANDOM));
            // The inherited ones do not come to life by it.
            assert_eq!(stage.minters["events"].mint(), Err(MintError::Forked));
            assert_eq!(stage.minters["orders"].mint(), Err(MintError::Forked));
            runtime.block_on(registry.close()).unwrap();
            said
        };
        let (one, two) = (begin_child(child), begin_child(child));
        let ours = [stage.mint(&STATEFUL), stage.mint(&RANDOM)].concat();
        // The parent's runtime is driven meanwhile: stopped in the middle of a transaction it would hold SQLite's one write lock, and
        // the children would wait for that.
        let waiting = stage.runtime.spawn_blocking(move || [end_child(one.0, one.1), end_child(two.0, two.1)]);
        let [first, second] = stage.runtime.block_on(waiting).unwrap();
        let said = [first, second, ours];
        let worker = |said: &Vec<String>| said[0].strip_prefix("worker ").map(|worker| worker.parse::<u32>().unwrap());
        assert_eq!(stage.registry.leases()[0].worker, 0);
        for said in &said[..2] {
            assert!(worker(said).is_some_and(|worker| worker > 0), "{store}: not the parent's worker id: {}", said[0]);
        }
        let ids: Vec<Vec<String>> =
            said.iter().map(|said| said.iter().filter(|line| !line.starts_with("worker")).cloned().collect()).collect();
        assert_distinct(&format!("a registry of its own on {store}"), &ids);
        stage.close();
        passed(&format!("a registry of its own on {store}"));
    }

    /// The parent closes first: what it had open must not take the child's with it.
    fn a_child_outlives_its_parents_registry() {
        let store = "file:ids";
        let stage = Stage::new(store);
        let (mut gate, mut opener) = pipe();
        let folder = stage.folder.path().to_owned();
        let (child, said) = begin_child(|| {
            let (runtime, registry, minters) = start(&folder, store, SHORT_LEASE);
            let mut said = mint(&runtime, &minters, &STATEFUL);
            gate.read_exact(&mut [0]).unwrap();
            said.extend(mint(&runtime, &minters, &STATEFUL));
            runtime.block_on(registry.close()).unwrap();
            said
        });
        // The child has built its registry by the time it says so, or soon after: either order must do.
        std::thread::sleep(Duration::from_millis(300));
        let ours = stage.mint(&STATEFUL);
        let Stage { minters, registry, runtime, folder } = stage;
        drop(minters);
        runtime.block_on(registry.close()).unwrap();
        drop(runtime);
        opener.write_all(&[1]).unwrap();
        let theirs = end_child(child, said);
        // A third process, after both.
        let (runtime, registry, minters) = start(folder.path(), store, SHORT_LEASE);
        let after = mint(&runtime, &minters, &STATEFUL);
        runtime.block_on(registry.close()).unwrap();
        assert_distinct("a child that outlives its parent's registry", &[ours, theirs, after]);
        passed("a child outlives its parent's registry");
    }

    /// A child that goes on with the parent's runtime: the keeper's task is there, and must not touch the parent's store.
    fn inherited_runtime() {
        let stage = Stage::new("watched:");
        let wait = || {
            let before = CALLS.load(Ordering::Relaxed);
            stage.runtime.block_on(async { tokio::time::sleep(WINDOW).await });
            CALLS.load(Ordering::Relaxed) - before
        };
        assert!(wait() >= 3, "in the parent the keeper renews");
        let said = in_child(|| vec![wait().to_string()]);
        assert_eq!(said, ["0"], "in a child it does not");
        // A fork in the middle of the runtime's work.
        let said = stage.runtime.block_on(async {
            tokio::time::sleep(WINDOW / 4).await;
            let (mut reader, mut writer) = pipe();
            let child = fork();
            if child == 0 {
                let before = CALLS.load(Ordering::Relaxed);
                tokio::time::sleep(WINDOW).await;
                let forked = stage.minters["events"].mint() == Err(MintError::Forked);
                let calls = CALLS.load(Ordering::Relaxed) - before;
                let told = writer.write_all(format!("{calls} {forked}").as_bytes()).is_ok();
                // SAFETY: leaves without running the parent's exit handlers.
                unsafe { libc::_exit(if told { 0 } else { 1 }) }
            }
            drop(writer);
            let mut said = String::new();
            reader.read_to_string(&mut said).unwrap();
            wait_for(child);
            said
        });
        assert_eq!(said, "0 true");
        assert!(wait() >= 3, "the parent's keeper goes on");
        stage.close();
        passed("the inherited runtime");
    }

    /// A child that ends as programs do: destructors and exit handlers run, and nothing is given back.
    fn normal_return() -> Option<()> {
        let stage = Stage::with_lease(LONG_LEASE, "sqlite:ids.db");
        let before = stage.rows();
        let child = fork();
        if child == 0 {
            let Stage { minters, registry, runtime, folder } = stage;
            let _ = folder.keep();
            drop((minters, registry, runtime));
            return Some(());
        }
        wait_for(child);
        let after = stage.rows();
        assert!(after.0[0].held && after.0[0].floor_ms >= before.0[0].floor_ms, "{after:?}");
        assert_eq!(after.1, before.1);
        assert_distinct("the parent", &[stage.mint_for_longer_than_a_window()]);
        stage.close();
        passed("a normal return");
        None
    }

    // ---- a store that counts ----

    /// Calls of the lease store in this process; a child counts on from its parent's number.
    static CALLS: AtomicU64 = AtomicU64::new(0);

    /// Leases in memory, and how often they were asked for.
    #[derive(Debug)]
    struct Counting(Memory);

    impl Counting {
        fn counted(&self) -> &Memory {
            CALLS.fetch_add(1, Ordering::Relaxed);
            &self.0
        }
    }

    #[async_trait]
    impl LeaseStore for Counting {
        async fn acquire(
            &self,
            pool: &WorkerPool,
            which: WorkerChoice,
            holder: &Holder,
            terms: &LeaseTerms,
        ) -> Result<Lease, StoreError> {
            self.counted().acquire(pool, which, holder, terms).await
        }

        async fn renew(&self, lease: &Lease, holder: &Holder, terms: &LeaseTerms) -> Result<Lease, StoreError> {
            self.counted().renew(lease, holder, terms).await
        }

        async fn release(&self, lease: Lease, first_unused_ms: u64, terms: &LeaseTerms) -> Result<(), StoreError> {
            self.counted().release(lease, first_unused_ms, terms).await
        }

        async fn revoke(&self, pool: &WorkerPool, worker: u32) -> Result<(), StoreError> {
            self.counted().revoke(pool, worker).await
        }

        async fn bump(&self, pool: &WorkerPool) -> Result<(), StoreError> {
            self.counted().bump(pool).await
        }

        async fn leases(&self, pool: &WorkerPool) -> Result<Vec<LeaseRow>, StoreError> {
            self.counted().leases(pool).await
        }

        async fn history(&self, pool: &WorkerPool, at_ms: u64) -> Result<Vec<Grant>, StoreError> {
            self.counted().history(pool, at_ms).await
        }
    }

    /// Opens `watched:`.
    #[derive(Debug)]
    struct Watched;

    #[async_trait]
    impl BackendFactory for Watched {
        fn url_scheme(&self) -> &'static str {
            "watched"
        }

        fn promise(&self) -> &'static str {
            "Everything in memory, and calls for leases are counted."
        }

        fn check(&self, _url: &str) -> Result<(), String> {
            Ok(())
        }

        async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
            let mut backend = Backend::whole(Memory::new(Arc::clone(&address.clock)));
            backend.leases = Some(Arc::new(Counting(Memory::new(Arc::clone(&address.clock)))));
            Ok(backend)
        }
    }

    impl Plugin for Watched {
        fn install(catalog: &mut Catalog) {
            catalog.backend(Self);
        }
    }
}
