//! Metrics, by a recorder that keeps them: each name is told once, by something real.
#![cfg(feature = "metrics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use mintage::METRICS;
use mintage_core::{LeaseStore, ManualClock, MintError, PoolLimits, WorkerPool};

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
[entities.users]
scheme = "uuidv7"
[workers.main]
[stores.main]
url = "STORE"
timeout = "5s"
"#;

/// The metrics as they stand: name with labels, and value. A snapshot starts the counters anew.
fn seen(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let rows = snapshotter.snapshot().into_vec();
    rows.into_iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(_) => unreachable!("there is none"),
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
    let build = async || builder(&clock).build(config_in(Path::new("."), &config)).await.unwrap();
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
    check("mintage_lease_expires_timestamp_seconds pool=main lane=0", (NOW_MS + 63_000) as f64 / 1e3);
    check("mintage_workers_in_use pool=main", 2.0);
    check("mintage_workers_capacity pool=main", 1024.0);
    check("mintage_clock_offset_seconds pool=main to=peers", 0.0);
    check("mintage_lease_lost_total pool=main lane=0", 0.0);

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
    assert!(alerts.is_subset(&listed) && alerts.len() >= 8, "{:?}", alerts.difference(&listed));
    assert_eq!(names("docs/fleet.md"), listed, "docs/fleet.md lists each metric");
}
