//! A layout that is followed by another: by a process that knows it, by one that does not, and by readers.

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use mintage::{AnyMinter, BuildError, Environment, Registry};
use mintage_core::{AnyId, Clock, ManualClock, MintError, StoreErrorKind};

use crate::{
    NOW_MS, config_in,
    faulty::{Call, Faulty, builder},
    settle,
};

const DAY_MS: u64 = 86_400_000;
/// 2027-01-19T08:00:00Z: four days after the start.
const CUT_MS: u64 = NOW_MS + 4 * DAY_MS;
const RENEW_MS: u64 = 3_000;

const BEFORE: &str = r#"
version = 1
[entities.events]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 12 }
worker = { pool = "main" }
[workers.main]
[stores.main]
url = "STORE"
timeout = "5s"
"#;

const LAYOUT: &str = "layout = { time = 41, worker = 10, sequence = 12 }";

/// The same with another layout from `until` on.
fn after(text: &str, until: &str) -> String {
    let layouts = format!(
        "layout = {{ time = 40, worker = 11, sequence = 12 }}\n\
         layouts = [{{ until = \"{until}\", epoch = \"2026-01-01T00:00:00Z\", {LAYOUT} }}]"
    );
    text.replace(LAYOUT, &layouts)
}

const UNTIL: &str = "2027-01-19T08:00:00Z";

struct Stage {
    clock: ManualClock,
    store: Arc<Faulty>,
}

impl Stage {
    fn new() -> Self {
        let clock = ManualClock::at(NOW_MS);
        let store = Faulty::new(&clock);
        Self { clock, store }
    }

    fn before(&self) -> String {
        BEFORE.replace("STORE", &self.store.url())
    }

    async fn build(&self, text: &str) -> Result<Registry, BuildError> {
        let registry = builder(&self.clock).build(config_in(Path::new("."), text)).await;
        settle().await;
        registry
    }

    /// Days pass, and then the keepers' next renewals.
    async fn pass_to(&self, unix_ms: u64) {
        self.clock.advance(unix_ms - RENEW_MS - self.clock.unix_ms());
        self.tick(RENEW_MS).await;
    }

    async fn tick(&self, ms: u64) {
        self.clock.advance(ms);
        tokio::time::advance(Duration::from_millis(ms)).await;
        settle().await;
    }
}

fn events(registry: &Registry) -> AnyMinter {
    registry.any_minter("events").unwrap()
}

fn refused(outcome: Result<Registry, BuildError>) -> (StoreErrorKind, String) {
    let BuildError::Store { source, .. } = outcome.unwrap_err() else { unreachable!("a store's no") };
    (source.kind(), source.to_string())
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_know_the_new_layout_stops_at_the_cut_over() {
    let stage = Stage::new();
    let old = stage.build(&stage.before()).await.unwrap();
    let new = stage.build(&after(&stage.before(), UNTIL)).await.unwrap();
    let (by_old, by_new) = (events(&old), events(&new));
    let mut seen: HashSet<AnyId> = HashSet::new();
    let reader = by_new.scheme().clone();
    let told = |id: AnyId| {
        let anatomy = reader.anatomy(id).unwrap();
        (anatomy.time.unwrap().unix_ms as u64, anatomy.worker.unwrap())
    };
    for at_ms in [NOW_MS + 2 * RENEW_MS, CUT_MS - 30_000] {
        stage.pass_to(at_ms).await;
        for (minter, worker) in [(&by_old, 0), (&by_new, 1)] {
            let id = minter.mint().unwrap();
            assert_eq!(told(id), (at_ms, worker), "both by the old layout");
            assert!(seen.insert(id));
        }
    }
    let last_before = seen.iter().max().copied().unwrap();
    assert_eq!(old.leases()[0].window_end_ms, CUT_MS, "the window reaches further, and it may not");
    for _ in 0..9 {
        stage.tick(RENEW_MS).await;
    }
    stage.tick(RENEW_MS - 1).await;
    assert!(seen.insert(by_old.mint().unwrap()), "to the last millisecond");
    stage.tick(1).await;
    assert_eq!(stage.clock.unix_ms(), CUT_MS);
    assert_eq!(by_old.mint(), Err(MintError::LeaseLapsed));
    assert!(!old.health().ready);
    let first_after = by_new.mint().unwrap();
    assert!(first_after > last_before && seen.insert(first_after));
    assert_eq!(told(first_after), (CUT_MS, 1), "by the new layout, without a restart");
    stage.tick(RENEW_MS).await;
    assert_eq!(by_old.mint(), Err(MintError::LeaseLapsed), "renewals do not help it");
    for _ in 0..20 {
        stage.tick(RENEW_MS).await;
        assert!(seen.insert(by_new.mint().unwrap()));
    }
    old.close().await.unwrap();
    new.close().await.unwrap();

    // Afterwards: the old config is refused, the new one starts.
    let (kind, told) = refused(stage.build(&stage.before()).await);
    assert_eq!(kind, StoreErrorKind::FormatMismatch);
    assert!(told.contains("revision.2 is (none) in the config and from:"), "{told}");
    let again = stage.build(&after(&stage.before(), UNTIL)).await.unwrap();
    assert!(seen.insert(events(&again).mint_ready().await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_comes_too_soon_is_refused_and_records_nothing() {
    let stage = Stage::new();
    stage.build(&stage.before()).await.unwrap().close().await.unwrap();
    for until in ["2027-01-18T07:59:59Z", "2027-01-15T08:00:01Z", "2026-06-01T00:00:00Z"] {
        let (kind, told) = refused(stage.build(&after(&stage.before(), until)).await);
        assert_eq!(kind, StoreErrorKind::Refused, "{until}");
        assert!(told.contains("at least 3 days ahead"), "{told}");
    }
    stage.build(&stage.before()).await.unwrap().close().await.unwrap();
    stage.build(&after(&stage.before(), "2027-01-18T08:00:00Z")).await.unwrap();
    // Once recorded it cannot be moved.
    let (kind, _) = refused(stage.build(&after(&stage.before(), UNTIL)).await);
    assert_eq!(kind, StoreErrorKind::FormatMismatch);
}

/// The starter's clock is two days behind the store's. By its own there are three days and a half left, and in truth not even two.
#[tokio::test(start_paused = true)]
async fn whose_clock_is_behind_the_stores_changes_no_layout() {
    let stage = Stage::new();
    stage.build(&stage.before()).await.unwrap().close().await.unwrap();
    let late = ManualClock::at(NOW_MS - 2 * DAY_MS);
    let changed = after(&stage.before(), "2027-01-16T20:00:00Z");
    let (kind, told) = refused(builder(&late).build(config_in(Path::new("."), &changed)).await);
    assert!(kind == StoreErrorKind::Refused && told.contains("set the clock that is wrong"), "{told}");
    let pins = stage.store.calls().iter().filter(|call| matches!(call, Call::Pin(_))).count();
    assert_eq!(pins, 1, "of the old layout");
    stage.build(&stage.before()).await.unwrap();
}

/// Ids of another system, read by its layout: nobody holds a window there.
#[tokio::test(start_paused = true)]
async fn a_new_entity_may_have_a_past() {
    let stage = Stage::new();
    let registry = stage.build(&after(&stage.before(), "2026-06-01T00:00:00Z")).await.unwrap();
    let minter = events(&registry);
    let id = minter.mint().unwrap();
    let anatomy = minter.scheme().anatomy(id).unwrap();
    assert_eq!(anatomy.time.unwrap().unix_ms as u64, NOW_MS);
    let (first, last) = minter.scheme().range_at(NOW_MS as i64, NOW_MS as i64).unwrap();
    assert!((first..=last).contains(&id));
}

#[test]
fn what_could_not_be_told_apart_is_refused_by_the_config() {
    let check = |layout: &str, layouts: &str| {
        let text = BEFORE.replace("STORE", "memory:").replace(LAYOUT, &format!("{layout}\nlayouts = {layouts}"));
        let builder = Registry::builder().builtins().environment(Environment::of::<String, String>([]));
        let checked = builder.clock(ManualClock::at(NOW_MS)).check(&config_in(Path::new("."), &text));
        checked.map(drop).map_err(|errors| errors.to_string())
    };
    let past =
        |until: &str, layout: &str| format!("{{ until = \"{until}\", epoch = \"2026-01-01T00:00:00Z\", {layout} }}");
    let wide = "layout = { time = 40, worker = 11, sequence = 12 }";
    let one = past("2026-06-01T00:00:00Z", LAYOUT);
    check(wide, &format!("[{one}]")).unwrap();
    for (layout, layouts, told) in [
        (LAYOUT, format!("[{}]", past(UNTIL, wide)), "ids of the two would be mixed up"),
        (
            "layout = { time = 32, worker = 10, sequence = 12, unit = \"1s\" }",
            format!("[{one}]"),
            "ids of the two would be mixed up",
        ),
        (
            wide,
            format!("[{}, {}]", past("2027-02-01T00:00:00Z", LAYOUT), past("2027-03-01T00:00:00Z", LAYOUT)),
            "two changes are still to come",
        ),
        (wide, format!("[{one}, {one}]"), "its cut-over is not later than the one before"),
        (wide, format!("[{{ epoch = \"2026-01-01T00:00:00Z\", {LAYOUT} }}]"), "layouts[0].until: missing"),
        (wide, "[7]".to_owned(), "a table was expected"),
        (
            wide,
            format!(
                "[{}]",
                past(
                    UNTIL,
                    "layout = { time = 41, worker = 10, sequence = 12, fields = [\"sequence\", \"time\", \"worker\"] }"
                )
            ),
            "its ids are in no order",
        ),
    ] {
        let found = check(layout, &layouts).unwrap_err();
        assert!(found.contains(told), "{found}");
    }
}
