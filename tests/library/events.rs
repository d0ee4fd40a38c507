//! Events of `tracing`, by a subscriber that keeps them: each is told by something real, with its fields, and none tells a secret.
#![cfg(feature = "tracing")]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use mintage_core::{LeaseStore, ManualClock, PoolLimits, WorkerPool};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    NOW_MS, config_in,
    faulty::{Fault, Faulty, builder},
    pass, settle,
};

const CONFIG: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[workers.main]
[stores.main]
url = "STORE"
"#;

/// What was told: the level, the words, and the fields as text.
#[derive(Clone, Debug)]
struct Told {
    level: Level,
    words: String,
    fields: BTreeMap<&'static str, String>,
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Told>>>);

impl Listener {
    /// What was told since it was last asked.
    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mintage")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let words = fields.0.remove("message").unwrap_or_default();
        self.0.lock().unwrap().push(Told { level: *event.metadata().level(), words, fields: fields.0 });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// The one event of these words among those told of `worker`, with its level and exactly these fields.
fn one(told: &[Told], level: Level, words: &str, worker: u32, fields: &[&str]) -> BTreeMap<&'static str, String> {
    let found = told
        .iter()
        .rev()
        .find(|told| told.words == words && told.fields.get("worker").is_none_or(|told| *told == worker.to_string()));
    let found = found.unwrap_or_else(|| unreachable!("{words}: {told:#?}"));
    assert_eq!(found.level, level, "{found:?}");
    assert_eq!(found.fields.keys().copied().collect::<Vec<_>>(), fields, "{found:?}");
    assert_eq!(found.fields["pool"], "\"main\"");
    found.fields.clone()
}

#[tokio::test(start_paused = true)]
async fn leases_are_told_with_their_fields_and_no_secret() {
    const LEASE: [&str; 4] = ["lane", "pool", "window_end_ms", "worker"];
    const FAILED: [&str; 5] = ["error", "lane", "pool", "window_end_ms", "worker"];
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    // With one subscriber alone, `tracing` asks the thread that comes to an event first whether anybody wants it: here that may be
    // another test's, where nobody listens.
    let _second = tracing::Dispatch::new(Listener::default());
    let (clock, theirs) = (ManualClock::at(NOW_MS), ManualClock::at(NOW_MS));
    let store = Faulty::new(&clock);
    let config = CONFIG.replace("STORE", &store.url());
    let folder = tempfile::tempdir().unwrap();
    let build = async |clock| builder(clock).build(config_in(folder.path(), &config)).await.unwrap();
    let (_other, registry) = (build(&theirs).await, build(&clock).await);
    settle().await;
    let go_on = async |ms: u64| {
        for _ in 0..ms / 50 {
            theirs.advance(50);
            pass(&clock, 50).await;
        }
    };
    let mut all = listener.told();
    let mut listen = |listener: &Listener| {
        let told = listener.told();
        all.extend(told.clone());
        told
    };

    go_on(3_000).await;
    let mut with_reserve = LEASE.to_vec();
    with_reserve.insert(2, "reserve");
    let renewed = one(&listen(&listener), Level::DEBUG, "lease renewed", 1, &with_reserve);
    assert_eq!((renewed["lane"].as_str(), renewed["reserve"].as_str()), ("0", "false"));
    assert_eq!(renewed["window_end_ms"], registry.leases()[0].window_end_ms.to_string());

    theirs.step(40);
    go_on(6_000).await;
    let off =
        one(&listen(&listener), Level::WARN, "the clock is off", 1, &["lane", "peers", "pool", "skew_ms", "worker"]);
    assert_eq!((off["peers"].as_str(), off["skew_ms"].as_str()), ("1", "-40"));
    theirs.step(-40);
    go_on(6_000).await;
    listen(&listener);

    clock.step(-500);
    go_on(3_000).await;
    let back = one(
        &listen(&listener),
        Level::WARN,
        "the clock stepped back: the worker id is given up",
        1,
        &["by_ms", "pool"],
    );
    assert_eq!(back["by_ms"], "500");
    clock.step(500);
    go_on(6_000).await;
    listen(&listener);

    let mut whole = WorkerPool::new("main", 0..1024);
    whole.limits = PoolLimits::new(60_000, 2_000, 1_000);
    let held = registry.leases()[0].worker;
    store.healthy().revoke(&whole, held).await.unwrap();
    go_on(3_000).await;
    let told = listen(&listener);
    let lost = one(&told, Level::ERROR, "lease lost", held, &FAILED);
    assert!(lost["error"].contains("revoked"), "{lost:?}");
    let next = registry.leases()[0].worker;
    assert_ne!(next, held);
    one(&told, Level::DEBUG, "lease renewed", next, &with_reserve);

    store.set(Fault::Down);
    go_on(6_000).await;
    let failed = one(&listen(&listener), Level::WARN, "lease not renewed", next, &FAILED);
    assert!(failed["error"].contains("down for renew"), "{failed:?}");

    let tokens: Vec<u128> = store.leases_granted().iter().map(|lease| lease.fence.token).collect();
    assert!(tokens.len() > 10);
    let everything = format!("{all:?}");
    for token in tokens {
        assert!(!everything.contains(&token.to_string()) && !everything.contains(&format!("{token:x}")));
    }
}
