//! Metrics, by a recorder that keeps them: each name is told once, by something real.
#![cfg(feature = "metrics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    path::Path,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use mintage::METRICS;
use mintage_core::{Clock, LeaseStore, ManualClock, MintError, PoolLimits, WorkerPool};

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
[entities.narrow]
scheme = "snowflake"
epoch = "2026-01-01T00:00:00Z"
layout = { time = 41, worker = 10, sequence = 2 }
worker = { pool = "main" }
[entities.users]
scheme = "uuidv7"
[entities.orders]
scheme = "segment"
range = 100
public = { form = "token", prefix = "ord", key = "main" }
[keys.main]
file = "main.keys"
[workers.main]
[stores.main]
url = "STORE"
timeout = "5s"
"#;

mintage::entity!(Order: Int = "orders");

/// The metrics as they stand: name with labels, and value, which is the sum for a histogram. A snapshot starts the counters anew.
fn seen(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let rows = snapshotter.snapshot().into_vec();
    rows.into_iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).sum(),
            };
            (format!("{} {}", key.name(), labels.join(" ")), value)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_recorder_hears_of_everything_on_the_list() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _heard = metrics::set_default_local_recorder(&recorder);
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let config = CONFIG.replace("STORE", &store.url());
    let folder = tempfile::tempdir().unwrap();
    let build = async || builder(&clock).build(config_in(folder.path(), &config)).await.unwrap();
    let _other = build().await;
    let registry = build().await;
    settle().await;
    pass(&clock, 3_000).await;
    let events = registry.any_minter("events").unwrap();
    events.mint_many(70).await.unwrap();
    registry.any_minter("users").unwrap().mint().unwrap();

    let mut told = BTreeSet::new();
    registry.observe();
    let mut now = seen(&snapshotter);
    told.extend(now.keys().map(|key| key.split(' ').next().unwrap_or_default().to_owned()));
    let mut check = |key: &str, value: f64| {
        let found = now.remove(key);
        assert_eq!(found, Some(value), "{key}: {now:#?}");
    };
    check("mintage_ids_minted_total entity=events scheme=snowflake", 70.0);
    check("mintage_ids_minted_total entity=users scheme=uuidv7", 1.0);
    check("mintage_worker_id pool=main lane=0", 1.0);
    check("mintage_lease_ready pool=main lane=0", 1.0);
    check("mintage_lease_on_reserve pool=main lane=0", 0.0);
    let end_ms = registry.leases()[0].window_end_ms;
    assert!(end_ms > NOW_MS + 60_000, "renewed");
    check("mintage_lease_expires_timestamp_seconds pool=main lane=0", end_ms as f64 / 1e3);
    check("mintage_workers_in_use pool=main", 2.0);
    check("mintage_workers_capacity pool=main", 1024.0);
    check("mintage_clock_offset_seconds pool=main to=peers", 0.0);
    check("mintage_lease_lost_total pool=main lane=0", 0.0);

    let narrow = registry.any_minter("narrow").unwrap();
    narrow.mint_many(44).await.unwrap();
    let (waited, ()) = tokio::join!(narrow.mint_ready(), pass(&clock, 50));
    waited.unwrap();

    // The lease is revoked, the clock steps back, the store goes away.
    let mut whole = WorkerPool::new("main", 0..1024);
    whole.limits = PoolLimits::new(60_000, 2_000, 1_000);
    store.healthy().revoke(&whole, 1).await.unwrap();
    pass(&clock, 3_000).await;
    clock.step(-500);
    pass(&clock, 6_000).await;
    store.set(Fault::Down);
    pass(&clock, 70_000).await;
    assert_eq!(events.mint(), Err(MintError::LeaseLapsed));
    registry.observe();
    let now = seen(&snapshotter);
    told.extend(now.keys().map(|key| key.split(' ').next().unwrap_or_default().to_owned()));
    let value = |key: &str| now.get(key).copied().unwrap_or_default();
    assert_eq!(value("mintage_lease_lost_total pool=main lane=0"), 1.0, "{now:#?}");
    assert_eq!(value("mintage_mint_errors_total entity=events scheme=snowflake reason=lease_lapsed"), 1.0);
    assert_eq!(value("mintage_lease_ready pool=main lane=0"), 0.0);
    assert!(value("mintage_clock_regressions_total pool=main") >= 1.0);
    assert!(value("mintage_lease_renewals_total pool=main lane=0 outcome=unavailable") > 10.0);

    let listed: BTreeSet<String> = METRICS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(told, listed, "each metric of the list is told, and no other");
}

/// A layout with room for four ids a millisecond, ten milliseconds ahead of the clock at most.
#[tokio::test(start_paused = true)]
async fn full_time_units_are_told() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _heard = metrics::set_default_local_recorder(&recorder);
    let clock = ManualClock::at(NOW_MS);
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("STORE", &Faulty::new(&clock).url());
    let registry = builder(&clock).build(config_in(folder.path(), &config)).await.unwrap();
    pass(&clock, 2_500).await;
    let narrow = registry.any_minter("narrow").unwrap();
    let told = |name: &str| {
        registry.observe();
        seen(&snapshotter).get(&format!("mintage_{name} entity=narrow scheme=snowflake")).copied()
    };
    assert_eq!(told("clock_drift_seconds"), Some(0.0), "no id yet");
    assert_eq!(told("sequence_saturation_ratio"), None, "no rate yet");
    narrow.mint_many(4).await.unwrap();
    assert_eq!((told("clock_drift_seconds"), told("borrowed_milliseconds_total")), (Some(0.0), Some(0.0)));
    narrow.mint_many(40).await.unwrap();
    assert_eq!((told("clock_drift_seconds"), told("clock_drift_limit_seconds")), (Some(0.01), Some(0.01)));
    assert_eq!((told("borrowed_milliseconds_total"), told("sequence_waits_total")), (Some(10.0), Some(0.0)));
    assert_eq!(narrow.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
    let (waited, ()) = tokio::join!(narrow.mint_ready(), pass(&clock, 50));
    waited.unwrap();
    assert_eq!(told("sequence_wait_seconds"), Some(0.05));
    assert_eq!(told("sequence_waits_total"), Some(1.0));
    assert_eq!(told("clock_drift_seconds"), Some(0.0), "the clock has caught up");
    pass(&clock, 950).await;
    assert_eq!(told("sequence_saturation_ratio"), Some(45.0 / 4_000.0), "45 of 4000 in a second");
    narrow.mint_many(4).await.unwrap();
    pass(&clock, 500).await;
    assert_eq!(told("sequence_saturation_ratio"), Some(45.0 / 4_000.0), "half a second is no time to tell");
    pass(&clock, 500).await;
    assert_eq!(told("sequence_saturation_ratio"), Some(4.0 / 4_000.0));
    clock.step(-7);
    narrow.mint().unwrap();
    let drift = told("clock_drift_seconds");
    assert_eq!(drift, Some(0.0), "the clock is still ahead of the last id");
    narrow.mint().unwrap();
    clock.step(-5);
    assert_eq!(told("clock_drift_seconds"), Some(0.005), "held where it was");
    let used = told("timestamp_used_ratio").unwrap();
    let age_s = (clock.unix_ms() - 1_767_225_600_000) as f64 / 1e3;
    assert!((used - age_s / ((1u64 << 41) as f64 / 1e3)).abs() < 1e-9, "{used}");
}

#[tokio::test(start_paused = true)]
async fn ranges_and_public_ids_are_told() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _heard = metrics::set_default_local_recorder(&recorder);
    let clock = ManualClock::at(NOW_MS);
    let folder = tempfile::tempdir().unwrap();
    let store = Faulty::new(&clock);
    let config = CONFIG.replace("STORE", &store.url());
    let registry = builder(&clock).build(config_in(folder.path(), &config)).await.unwrap();
    let orders = registry.minter::<Order>().unwrap();
    let told = |name: &str, more: &str| {
        registry.observe();
        let rows = seen(&snapshotter);
        let found = rows.get(&format!("mintage_{name} entity=orders scheme=segment{more}")).copied();
        found.unwrap_or_else(|| panic!("{name}: {rows:#?}"))
    };
    let held = told("range_remaining", "");
    assert_eq!(held, registry.supplies()[0].1.remaining as f64);
    let ids = orders.mint_many(10).await.unwrap();
    assert_eq!(told("range_remaining", ""), held - 10.0);
    pass(&clock, 2_000).await;
    assert_eq!(told("range_seconds_left", ""), (held - 10.0) / 5.0, "ten in two seconds");
    // A bulk import takes nothing from what is in hand.
    orders.take_range(NonZeroU32::new(1_000).unwrap()).await.unwrap();
    assert_eq!(told("ids_minted_total", ""), 1_010.0);
    pass(&clock, 1_000).await;
    assert_eq!(told("range_seconds_left", ""), f64::INFINITY, "none in the last second");
    assert_eq!(told("range_refill_seconds", ""), 0.0);
    store.set(Fault::Slow(300));
    let (many, ()) = tokio::join!(orders.mint_many(held as usize), pass(&clock, 2_000));
    many.unwrap();
    assert_eq!(told("range_refill_seconds", ""), 0.3);

    let text = orders.publish(ids[0]).unwrap().to_string();
    assert!(orders.resolve(&text).is_ok());
    // One symbol after the prefix.
    let mut changed = text.clone();
    changed.replace_range(6..7, if &text[6..7] == "7" { "8" } else { "7" });
    assert!(orders.resolve("usr_1").is_err() && orders.resolve("").is_err() && orders.resolve_human(&changed).is_err());
    assert_eq!(told("public_decode_failures_total", " reason=malformed"), 2.0);
    assert_eq!(told("public_decode_failures_total", " reason=rejected"), 1.0);
}

/// One fleet, one fingerprint: whatever differs from machine to machine is no part of it, and what changes an id is.
#[test]
fn the_fingerprint_is_of_what_ids_mean() {
    let clock = ManualClock::at(NOW_MS);
    let print = |config: &str| builder(&clock).check(&config_in(Path::new("."), config)).unwrap().fingerprint();
    let config = CONFIG.replace("STORE", "sqlite:one.db");
    let one = print(&config);
    assert!(one.len() == 16 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
    let same =
        [("sqlite:one.db", "sqlite:two.db"), ("range = 100", "range = 7"), ("main.keys", "other.keys"), ("5s", "6s")];
    for (old, new) in same {
        assert_eq!(print(&config.replace(old, new)), one, "{new}");
    }
    let other = [
        ("2026-01-01", "2026-01-02"),
        ("sequence = 2 }", "sequence = 3 }"),
        ("prefix = \"ord\"", "prefix = \"odr\""),
        ("[entities.users]", "[entities.people]"),
        ("version = 1", "version = 1\nrealm = \"test\""),
    ];
    for (old, new) in other {
        assert_ne!(print(&config.replacen(old, new, 1)), one, "{new}");
    }
}

/// `docs/alerts.yml` asks for metrics that exist, and the document lists them all.
#[test]
fn every_alert_is_over_a_metric_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned);
        words.filter(|word| word.starts_with("mintage_")).collect()
    };
    let listed: BTreeSet<String> = METRICS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let alerts = names("docs/alerts.yml");
    assert!(alerts.is_subset(&listed) && alerts.len() >= 18, "{:?}", alerts.difference(&listed));
    assert_eq!(names("docs/fleet.md"), listed, "docs/fleet.md lists each metric");
}
