//! Building a registry, several of them at once, and what is left when one goes.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    process::Command,
    sync::Arc,
};

use mintage::{BuildError, Config, Environment, Minter, MinterError, Registry, RegistryBuilder, entity};
use mintage_core::{AnyId, IdBits, LeaseStore, ManualClock, MintError, RangeStore, StoreErrorKind, WorkerPool};

use crate::{
    Document, EVERY_SCHEME, Event, NOW_MS, Order, SCHEMES, Token, Upload, User, config_in, every_scheme_in,
    faulty::{Call, Fault, Faulty, builder},
    pass, settle, shipped_in,
};

fn on_files(clock: &ManualClock) -> RegistryBuilder {
    Registry::builder().builtins().clock(clock.clone())
}

/// Every scheme on one faulty store.
fn every_scheme_on(store: &Faulty) -> Config {
    config_in(Path::new("."), &EVERY_SCHEME.replace("STORE", &store.url()))
}

async fn orders(registry: &Registry, count: usize) -> Vec<u64> {
    let minter: Minter<Order> = registry.minter().unwrap();
    minter.mint_many(count).await.unwrap().into_iter().map(|id| id.raw()).collect()
}

// ---- a run, and the next ----

#[tokio::test]
async fn the_shipped_config_mints_five_kinds_and_gives_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let store = format!("sqlite:{}", folder.path().join("mintage.db").display());
    for run in 0..3 {
        let environment = Environment::of([("MINTAGE_STORE", &store)]);
        let registry = on_files(&clock).environment(environment).build(shipped_in(folder.path())).await.unwrap();

        let users: Minter<User> = registry.minter().unwrap();
        let user = users.mint().unwrap();
        assert_eq!(user.raw().get_version_num(), 7);
        assert_eq!(users.anatomy(user).time.unwrap().unix_ms as u64, clock_ms(&clock));
        assert_eq!(orders(&registry, 3).await, [3 * run + 1, 3 * run + 2, 3 * run + 3], "goes on without a gap");
        let events: Minter<Event> = registry.minter().unwrap();
        let event = events.mint().unwrap();
        assert_eq!(events.anatomy(event).worker, Some(0), "the worker id was given back");
        let documents: Minter<Document> = registry.minter().unwrap();
        assert_eq!(documents.mint().unwrap().raw().timestamp_ms(), clock_ms(&clock));
        let uploads: Minter<Upload> = registry.minter().unwrap();
        assert_eq!(uploads.text(uploads.mint().unwrap()).len(), 27);

        registry.close().await.unwrap();
        // The worker id rests for a second.
        clock.advance(1_000);
    }
}

fn clock_ms(clock: &ManualClock) -> u64 {
    use mintage_core::Clock;
    clock.unix_ms()
}

#[tokio::test]
async fn after_close_every_minter_says_closed() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).build(every_scheme_on(&store)).await.unwrap();
    let minters: Vec<_> = SCHEMES.iter().map(|(name, _)| registry.any_minter(name).unwrap()).collect();
    for minter in &minters {
        minter.mint().unwrap();
    }
    registry.close().await.unwrap();
    for minter in &minters {
        let name = minter.entity();
        assert_eq!(minter.mint(), Err(MintError::Closed), "{name}");
        assert_eq!(minter.mint_ready().await.unwrap_err().kind(), MintError::Closed, "{name}");
        assert_eq!(minter.mint_many(2).await.unwrap_err().kind(), MintError::Closed, "{name}");
        // Reading goes on.
        assert!(minter.scheme().parse("nonsense").is_err(), "{name}");
    }
    let rows = store.healthy().sequences().await.unwrap();
    assert_eq!(rows[0].next, 2, "one order was minted and the rest given back");
    let rows = store.healthy().leases(&WorkerPool::new("main", 0..1024)).await.unwrap();
    assert!(rows.iter().all(|row| !row.held), "{rows:?}");
}

#[tokio::test]
async fn close_tells_the_first_store_that_could_not_be_told_and_closes_all_the_same() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).build(every_scheme_on(&store)).await.unwrap();
    let minters: Vec<_> = SCHEMES.iter().map(|(name, _)| registry.any_minter(name).unwrap()).collect();
    store.set(Fault::Down);
    let error = registry.close().await.unwrap_err();
    assert!(matches!(&error, BuildError::Store { store, .. } if store == "main"), "{error:?}");
    assert!(minters.iter().all(|minter| minter.mint() == Err(MintError::Closed)));
}

// ---- dropping ----

#[tokio::test(start_paused = true)]
async fn dropping_ends_the_tasks_and_costs_a_gap_never_a_repeat() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let held = Arc::strong_count(&store);
    let mut seen = HashSet::new();
    for run in 0..5_u32 {
        let registry = builder(&clock).build(every_scheme_on(&store)).await.unwrap();
        let (events, orders): (Minter<Event>, Minter<Order>) = (registry.minter().unwrap(), registry.minter().unwrap());
        for _ in 0..20 {
            assert!(seen.insert(events.mint().unwrap().raw().to_any()), "run {run}");
            assert!(seen.insert(AnyId::Wide(orders.mint().unwrap().raw().into())), "run {run}");
        }
        assert!(Arc::strong_count(&store) > held);
        drop(registry);
        // Minters keep it alive: renewal goes on.
        pass(&clock, 4_000).await;
        assert!(
            store.calls().iter().any(|call| matches!(call, Call::Renew(lease) if lease.worker == run)),
            "run {run}"
        );
        drop((events, orders));
        settle().await;
        assert_eq!(Arc::strong_count(&store), held, "no task holds the store any more");
    }
    let calls = store.calls().len();
    pass(&clock, 20_000).await;
    assert_eq!(store.calls().len(), calls, "and none calls it");
    assert!(!store.calls().iter().any(|call| matches!(call, Call::Release { .. } | Call::GiveBack(_))));
}

/// Dropped on a thread without a runtime, as globals of other languages are.
#[test]
fn dropping_needs_no_runtime() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let registry = runtime.block_on(async { builder(&clock).build(every_scheme_on(&store)).await.unwrap() });
    drop(runtime);
    let event = registry.minter::<Event>().unwrap().mint();
    event.unwrap();
    drop(registry);
}

// ---- several at once ----

#[tokio::test]
async fn two_registries_of_one_process_mint_apart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let build = async || on_files(&clock).build(every_scheme_in(folder.path())).await.unwrap();
    let (one, two) = (build().await, build().await);
    let workers: Vec<u32> = [&one, &two].map(|registry| registry.leases()[0].worker).to_vec();
    assert_eq!(workers, [0, 1]);
    let mut seen = HashSet::new();
    for _ in 0..500 {
        for registry in [&one, &two] {
            for (name, _) in SCHEMES {
                let id = registry.any_minter(name).unwrap().mint_ready().await.unwrap();
                assert!(seen.insert((name, id)), "{name}: {id:?} again");
            }
        }
    }
    one.close().await.unwrap();
    two.close().await.unwrap();
}

/// B89: a minter that is asked for twice is the same one.
#[tokio::test]
async fn asking_twice_gives_the_same_minter() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).build(every_scheme_on(&store)).await.unwrap();
    let mut seen = HashSet::new();
    for _ in 0..5_000 {
        // A fresh one for each id, as a careless application has it, on a clock that stands still.
        let (one, two): (Minter<Event>, Minter<Event>) = (registry.minter().unwrap(), registry.minter().unwrap());
        let first = one.mint().unwrap();
        let second = two.mint().unwrap();
        assert!(first < second, "one clock behind both");
        assert!(seen.insert(first) && seen.insert(second));
    }
    assert_eq!(seen.len(), 10_000);
    assert_eq!(store.claims(), 1);
    registry.close().await.unwrap();
}

/// Names the folder in which this test runs a second time, as another process.
const CHILD: &str = "MINTAGE_TEST_SECOND_PROCESS";

#[test]
fn two_processes_mint_apart() {
    const IDS: usize = 2_000;
    let mint = |folder: &Path| -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let registry = Registry::builder().builtins().build(every_scheme_in(folder)).await.unwrap();
            let mut ids = vec![format!("worker {}", registry.leases()[0].worker)];
            for (name, _) in SCHEMES {
                let minter = registry.any_minter(name).unwrap();
                let minted = minter.mint_many(IDS).await.unwrap();
                ids.extend(minted.into_iter().map(|id| format!("{name} {}", minter.text(id).unwrap())));
            }
            // Both hold their worker ids until the other has minted.
            std::fs::write(folder.join(format!("done {}", std::process::id())), "").unwrap();
            while std::fs::read_dir(folder).unwrap().filter(is_done).count() < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            registry.close().await.unwrap();
            ids
        })
    };
    if let Some(folder) = std::env::var_os(CHILD) {
        println!("{}", mint(Path::new(&folder)).join("\n"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "registry::two_processes_mint_apart", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ours = mint(folder.path());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let theirs = String::from_utf8(output.stdout).unwrap();
    let of_entities = |line: &&str| {
        SCHEMES.iter().any(|(name, _)| line.starts_with(&format!("{name} "))) || line.starts_with("worker ")
    };
    let theirs: Vec<&str> = theirs.lines().filter(of_entities).collect();
    let all: HashSet<&str> = ours.iter().map(String::as_str).chain(theirs.iter().copied()).collect();
    assert_eq!((ours.len(), theirs.len()), (6 * IDS + 1, 6 * IDS + 1));
    assert_eq!(all.len(), 2 * (6 * IDS + 1), "all ids, and the two worker ids, differ");
}

fn is_done(file: &std::io::Result<std::fs::DirEntry>) -> bool {
    file.as_ref().unwrap().file_name().to_string_lossy().starts_with("done ")
}

// ---- what fails half-way ----

/// Two pools and two sequences on two stores.
fn two_stores(first: &Faulty, second: &Faulty) -> Config {
    let entity = |name: &str, store: &str| {
        format!(
            r#"
[entities.{name}_numbers]
scheme = "segment"
range = 100
store = "{store}"
[entities.{name}_events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = {{ time = 41, worker = 10, sequence = 12 }}
worker = {{ pool = "{name}" }}
store = "{store}"
[workers.{name}]
store = "{store}"
lease = {{ quarantine = "0s" }}
"#
        )
    };
    let stores = format!("[stores.a]\nurl = \"{}\"\n[stores.b]\nurl = \"{}\"\n", first.url(), second.url());
    config_in(Path::new("."), &format!("version = 1\n{}{}{stores}", entity("first", "a"), entity("second", "b")))
}

/// Whatever call of the second store fails, and whether it fails at first use or later: the first store ends up as it was.
#[tokio::test]
async fn a_build_that_fails_gives_back_what_it_claimed() {
    for used_before in [false, true] {
        for broken in ["pinned", "create", "acquire", "pin", "allocate"] {
            let clock = ManualClock::at(NOW_MS);
            let (first, second) = (Faulty::new(&clock), Faulty::new(&clock));
            let build = async || builder(&clock).build(two_stores(&first, &second)).await;
            if used_before {
                build().await.unwrap().close().await.unwrap();
            }
            second.set(Fault::DownFor(broken));
            let told = format!("{broken}, used before: {used_before}");
            let built = build().await;
            // What exists already is neither made nor recorded a second time, so nothing fails there.
            if used_before && broken == "create" {
                built.unwrap().close().await.unwrap();
                continue;
            }
            let error = built.unwrap_err();
            match &error {
                BuildError::Store { store, source } => {
                    assert_eq!((store.as_str(), source.kind()), ("b", StoreErrorKind::Unavailable), "{told}");
                }
                BuildError::Entity { entity, source } => {
                    assert_eq!(entity, "second_numbers", "{told}");
                    assert_eq!(source.store_error().unwrap().kind(), StoreErrorKind::Unavailable, "{told}");
                }
                other => unreachable!("{told}: {other:?}"),
            }
            for (store, pool) in [(&first, "first"), (&second, "second")] {
                let rows = store.healthy().leases(&WorkerPool::new(pool, 0..1024)).await.unwrap();
                assert!(rows.iter().all(|row| !row.held && row.floor_ms <= NOW_MS), "{told}: {rows:?}");
                let rows = store.healthy().sequences().await.unwrap();
                assert!(rows.iter().all(|row| row.next == 1), "{told}: {rows:?}");
            }
            // Mended, it starts at once and loses nothing.
            second.set(Fault::None);
            let registry = build().await.unwrap();
            for name in ["first_numbers", "second_numbers"] {
                assert_eq!(registry.any_minter(name).unwrap().mint(), Ok(AnyId::Int(1)), "{told}");
            }
            registry.close().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_build_that_is_given_up_costs_a_window_and_no_more() {
    let clock = ManualClock::at(NOW_MS);
    let (first, second) = (Faulty::new(&clock), Faulty::new(&clock));
    second.set(Fault::Hang);
    let build = builder(&clock).build(two_stores(&first, &second));
    assert!(tokio::time::timeout(std::time::Duration::from_secs(1), build).await.is_err());
    second.set(Fault::None);
    let registry = builder(&clock).build(two_stores(&first, &second)).await.unwrap();
    registry.any_minter("first_events").unwrap().mint().unwrap();
    registry.close().await.unwrap();
}

#[tokio::test]
async fn configuration_errors_surface_in_build_and_before_any_store_is_opened() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    store.set(Fault::Down);
    let text = EVERY_SCHEME.replace("STORE", &store.url()).replace("range = 100", "range = 0");
    let error = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap_err();
    let BuildError::Config(errors) = error else { unreachable!("{error:?}") };
    assert!(errors.to_string().contains("entities.orders.range"), "{errors}");
}

#[tokio::test]
async fn a_store_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = EVERY_SCHEME.replace("STORE", "sqlite:no/such/folder/ids.db");
    let error = Registry::builder().builtins().build(config_in(folder.path(), &text)).await.unwrap_err();
    let BuildError::Store { store, source } = &error else { unreachable!("{error:?}") };
    assert_eq!((store.as_str(), source.kind()), ("main", StoreErrorKind::Refused));
    assert_eq!(error.to_string(), "store main", "an error prints itself, not its cause");
}

// ---- asking for something else ----

entity! {
    Nobody: Int = "nobody";
    UserAsInt: Int = "users";
    UserAsUlid: Ulid = "users";
    UserAsKsuid: Ksuid = "users";
    OrderAsUuid: Uuid = "orders";
    DocumentAsUuid: Uuid = "documents";
    UploadAsUlid: Ulid = "uploads";
    TokenAsUlid: Ulid = "tokens";
}

#[tokio::test]
async fn the_declared_kind_must_fit_the_config() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).build(every_scheme_on(&store)).await.unwrap();
    let refusals = [
        (registry.minter::<UserAsInt>().unwrap_err(), "Int", "uuidv7"),
        (registry.minter::<UserAsUlid>().unwrap_err(), "Ulid", "uuidv7"),
        (registry.minter::<UserAsKsuid>().unwrap_err(), "Ksuid", "uuidv7"),
        (registry.minter::<OrderAsUuid>().unwrap_err(), "Uuid", "segment"),
        (registry.minter::<DocumentAsUuid>().unwrap_err(), "Uuid", "ulid"),
        (registry.minter::<UploadAsUlid>().unwrap_err(), "Ulid", "ksuid"),
        (registry.minter::<TokenAsUlid>().unwrap_err(), "Ulid", "uuidv4"),
    ];
    for (refusal, kind, scheme) in refusals {
        let MinterError::Kind { kind: told, scheme: of, .. } = &refusal else { unreachable!("{refusal:?}") };
        assert_eq!((*told, of.as_str()), (kind, scheme));
        assert!(refusal.to_string().contains(&format!("is declared as {kind}, but the config gives it {scheme}")));
    }
    registry.minter::<Token>().unwrap().mint().unwrap();
    let unknown = registry.minter::<Nobody>().unwrap_err().to_string();
    let known = "documents, events, orders, tokens, uploads, users";
    assert_eq!(unknown, format!("no entity \"nobody\" (known: {known}): add [entities.nobody] to the config"));
    assert_eq!(registry.any_minter("nobody").unwrap_err().to_string(), unknown);
    registry.close().await.unwrap();
}

#[tokio::test]
async fn only_opens_what_is_asked_for() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).only(["users", "orders"]).build(every_scheme_on(&store)).await.unwrap();
    assert!(registry.leases().is_empty() && store.claims() == 0, "no worker id was claimed");
    registry.minter::<User>().unwrap().mint().unwrap();
    assert_eq!(orders(&registry, 1).await, [1]);
    assert!(matches!(registry.minter::<Event>(), Err(MinterError::NoEntity { known, .. }) if known == "orders, users"));
    let pins: BTreeSet<String> = store
        .calls()
        .into_iter()
        .filter_map(|call| match call {
            Call::Pin(entity) => Some(entity),
            _ => None,
        })
        .collect();
    assert_eq!(pins.into_iter().collect::<Vec<_>>(), ["orders", "users"], "and no other format was recorded");
    registry.close().await.unwrap();

    let unknown = builder(&clock).only(["users", "userz"]).build(every_scheme_on(&store)).await.unwrap_err();
    assert!(matches!(&unknown, BuildError::NoEntity { name, .. } if name == "userz"), "{unknown:?}");
    // The whole config is checked all the same.
    let text = EVERY_SCHEME.replace("STORE", &store.url()).replace("range = 100", "range = 0");
    let error = builder(&clock).only(["users"]).build(config_in(Path::new("."), &text)).await.unwrap_err();
    assert!(matches!(error, BuildError::Config(_)), "{error:?}");
}

/// A process that mints a few ids and ends asks for no more than that.
#[tokio::test]
async fn once_takes_no_more_than_it_needs() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).once(5).build(every_scheme_on(&store)).await.unwrap();
    assert_eq!(orders(&registry, 5).await, [1, 2, 3, 4, 5]);
    assert_eq!(registry.minter::<Event>().unwrap().mint_many(5).await.unwrap().len(), 5);
    let ranges: Vec<u64> = store
        .calls()
        .iter()
        .filter_map(|call| match call {
            Call::Allocate(range) => Some(range.count()),
            _ => None,
        })
        .collect();
    assert_eq!(ranges, [5], "one range, of five numbers");
    let lease = &store.leases_granted()[0];
    assert!(lease.window.end - lease.window.start <= 2_000, "seconds, not a minute: {:?}", lease.window);
    // Killed now, it blocks its worker id for seconds.
    drop(registry);
    clock.advance(2_000);
    let next = builder(&clock).once(1).build(every_scheme_on(&store)).await.unwrap();
    assert_eq!(next.leases()[0].worker, 0);
    next.close().await.unwrap();
}

/// More ids than a short window holds: the keeper renews it in time, and the ids keep coming.
#[tokio::test(start_paused = true)]
async fn once_goes_on_for_as_long_as_it_takes() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = builder(&clock).once(1).build(every_scheme_on(&store)).await.unwrap();
    settle().await;
    let events: Minter<Event> = registry.minter().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..100 {
        pass(&clock, 100).await;
        assert!(seen.insert(events.mint().unwrap()));
    }
    assert_eq!(orders(&registry, 20).await.len(), 20);
    registry.close().await.unwrap();
}

// ---- regions ----

#[tokio::test]
async fn a_second_region_starts_on_a_store_that_the_first_has_used() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let text = |region: &str| {
        let pool = format!("[regions]\neu = \"0..256\"\nus = \"256..512\"\n[workers.main]\nregion = \"{region}\"");
        EVERY_SCHEME.replace("STORE", &store.url()).replace("[workers.main]", &pool)
    };
    let build = async |region: &str| builder(&clock).build(config_in(Path::new("."), &text(region))).await.unwrap();
    let (eu, us) = (build("eu").await, build("us").await);
    assert_eq!((eu.leases()[0].worker, us.leases()[0].worker), (0, 256));
    let (first, second) =
        (eu.minter::<Event>().unwrap().mint().unwrap(), us.minter::<Event>().unwrap().mint().unwrap());
    assert_ne!(first, second);
    eu.close().await.unwrap();
    us.close().await.unwrap();
    build("us").await.close().await.unwrap();
}

// ---- reproducible registries ----

/// For tests: the same clock and seed give the same ids, run for run, and each entity has ids of its own.
#[tokio::test]
async fn a_fixed_registry_repeats_itself() {
    // The store it names is never opened.
    let config = |text: &str| config_in(Path::new("/"), &text.replace("STORE", "sqlite:no/such/folder/ids.db"));
    let twins = "[entities.twins]\nscheme = \"uuidv7\"\n[entities.users]";
    let text = EVERY_SCHEME.replace("[entities.users]", twins);
    let run = async |text: &str, seed: u64| {
        let clock = ManualClock::at(NOW_MS);
        let registry = Registry::fixed(config(text), clock.clone(), seed).await.unwrap();
        let mut ids = Vec::new();
        for (name, _) in [("twins", "")].into_iter().chain(SCHEMES) {
            let Ok(minter) = registry.any_minter(name) else { continue };
            for _ in 0..50 {
                ids.push((name, minter.mint_ready().await.unwrap()));
                clock.advance(1);
            }
            // All entities meet the same time, so nothing but their chance tells them apart.
            clock.step_to(NOW_MS);
        }
        registry.close().await.unwrap();
        ids
    };
    let ids = run(&text, 7).await;
    assert_eq!(ids, run(&text, 7).await, "the same in every run");
    let only = |wanted: &str, ids: &[(&str, AnyId)]| -> Vec<AnyId> {
        ids.iter().filter(|(name, _)| *name == wanted).map(|(_, id)| *id).collect()
    };
    assert_eq!(only("orders", &ids)[0], AnyId::Int(1));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    let of = |wanted: &str| -> HashSet<AnyId> { only(wanted, &ids).into_iter().collect() };
    assert!(of("twins").is_disjoint(&of("users")), "entities of one scheme draw apart");
    let other = run(&text, 8).await;
    for name in ["twins", "users", "documents", "uploads", "tokens"] {
        let other: HashSet<AnyId> = only(name, &other).into_iter().collect();
        assert!(of(name).is_disjoint(&other), "{name}: another seed, other ids");
    }
    let neighbours: HashSet<AnyId> =
        other.iter().filter(|(name, _)| *name != "orders" && *name != "events").map(|(_, id)| *id).collect();
    let ours: HashSet<AnyId> =
        ids.iter().filter(|(name, _)| *name != "orders" && *name != "events").map(|(_, id)| *id).collect();
    assert!(ours.is_disjoint(&neighbours), "also across entities");
    // An expectation that a test wrote down survives a new entity in the config.
    let fewer = run(EVERY_SCHEME, 7).await;
    assert_eq!(fewer.iter().find(|(name, _)| *name == "tokens"), ids.iter().find(|(name, _)| *name == "tokens"));
}
