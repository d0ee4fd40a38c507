//! What this process tells whoever watches it: metrics by the facade `metrics`, events by `tracing`, each behind its feature.
//!
//! Leases report when they are renewed. What is minted is only counted, and told when somebody asks
//! ([`Registry::observe`](crate::Registry::observe)), so that no id waits for a report.

use mintage_core::StoreError;

use crate::LeaseHealth;

#[cfg(feature = "metrics")]
pub(crate) mod tally;

/// Every metric there is, with its unit's name last and what it means. An exporter gets these descriptions too.
pub const METRICS: &[(&str, &str)] = &[
    ("mintage_build_info", "1, with the version as a label"),
    (
        "mintage_config_info",
        "1, with a fingerprint of what the ids of the config mean as a label: one in a whole fleet",
    ),
    ("mintage_ids_minted_total", "ids minted, by entity and scheme"),
    ("mintage_mint_errors_total", "mints that were refused, by entity, scheme and reason"),
    ("mintage_duplicate_keys_total", "ids that a unique index refused, because they were there already"),
    ("mintage_public_decode_failures_total", "public ids that could not be opened, by entity, scheme and reason"),
    ("mintage_timestamp_horizon_seconds", "how long the time field of an entity still lasts"),
    ("mintage_timestamp_used_ratio", "how much of the time field has gone by, 0 to 1"),
    ("mintage_sequence_saturation_ratio", "ids minted since the last look, as a share of those there was room for"),
    ("mintage_sequence_waits_total", "waits for room in a time unit"),
    ("mintage_sequence_wait_seconds", "how long those waits took, a histogram"),
    ("mintage_clock_drift_seconds", "how far the last id is ahead of this machine's clock"),
    ("mintage_clock_drift_limit_seconds", "how far it may be, before minting is refused"),
    ("mintage_borrowed_milliseconds_total", "time begun ahead of the clock: full units, and steps of the clock"),
    ("mintage_range_remaining", "numbers that can be minted without a store"),
    ("mintage_range_seconds_left", "how long they last at the rate since the last look; infinite where none is minted"),
    ("mintage_range_refill_seconds", "how long a range takes to come, the slowest of late"),
    ("mintage_worker_id", "the worker id held, by pool and lane"),
    ("mintage_lease_expires_timestamp_seconds", "when the window of a lease ends and minting stops, Unix time"),
    ("mintage_lease_ready", "1 where minting is possible by the lease, else 0"),
    ("mintage_lease_on_reserve", "1 where the lease is from the reserve, else 0"),
    ("mintage_lease_renewals_total", "attempts to renew or claim, by outcome"),
    ("mintage_lease_lost_total", "leases that another took, that were revoked, or that a store forgot"),
    (
        "mintage_clock_offset_seconds",
        "this machine's clock less the store's or the other holders', by what it is compared with",
    ),
    ("mintage_clock_regressions_total", "steps back of the clock that cost the worker id"),
    ("mintage_workers_in_use", "worker ids held in a pool, as last seen"),
    ("mintage_workers_capacity", "worker ids that a pool has"),
];

/// Gives an exporter the descriptions.
#[cfg(feature = "metrics")]
pub(crate) fn describe() {
    for (name, about) in METRICS {
        if name.ends_with("_total") {
            metrics::describe_counter!(*name, *about);
        } else if *name == "mintage_sequence_wait_seconds" {
            metrics::describe_histogram!(*name, *about);
        } else {
            metrics::describe_gauge!(*name, *about);
        }
    }
}

/// Where a lease stands in its process.
pub(crate) struct Post<'a> {
    /// The pool of the config, whose place a reserve may take.
    pub(crate) home: &'a str,
    /// Which of the process's leases of that pool.
    pub(crate) lane: u32,
    /// How many worker ids the pool has, and how many were held when they were last counted.
    pub(crate) workers: (u32, Option<usize>),
}

/// A lease was renewed or claimed, or `error` says why not.
pub(crate) fn lease(health: &LeaseHealth, post: &Post<'_>, error: Option<&StoreError>) {
    #[cfg(feature = "metrics")]
    meters::lease(health, post, error);
    #[cfg(feature = "tracing")]
    events::lease(health, post, error);
    // Without the features there is nobody to tell.
    let _ = (health, post.home, post.lane, post.workers, error);
}

/// A clock stepped back so far that the worker id was given up.
pub(crate) fn step_back(home: &str, by_ms: u64) {
    #[cfg(feature = "metrics")]
    metrics::counter!("mintage_clock_regressions_total", "pool" => home.to_owned()).increment(1);
    #[cfg(feature = "tracing")]
    tracing::warn!(pool = home, by_ms, "the clock stepped back: the worker id is given up");
    let _ = (home, by_ms);
}

#[cfg(feature = "metrics")]
mod meters {
    use mintage_core::{StoreError, StoreErrorKind};

    use super::Post;
    use crate::LeaseHealth;

    /// Metrics are floating-point numbers; milliseconds of this century keep their last digit.
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    fn seconds(ms: i64) -> f64 {
        ms as f64 / 1e3
    }

    pub(super) fn lease(health: &LeaseHealth, post: &Post<'_>, error: Option<&StoreError>) {
        let labels = [("pool", post.home.to_owned()), ("lane", post.lane.to_string())];
        let flag = |set: bool| if set { 1.0 } else { 0.0 };
        metrics::gauge!("mintage_worker_id", &labels).set(f64::from(health.worker));
        let end_ms = i64::try_from(health.window_end_ms).unwrap_or(i64::MAX);
        metrics::gauge!("mintage_lease_expires_timestamp_seconds", &labels).set(seconds(end_ms));
        metrics::gauge!("mintage_lease_ready", &labels).set(flag(health.live));
        metrics::gauge!("mintage_lease_on_reserve", &labels).set(flag(health.in_place_of.is_some()));
        let outcome = error.map_or("ok", outcome_of);
        metrics::counter!("mintage_lease_renewals_total", "pool" => post.home.to_owned(), "lane" => post.lane.to_string(), "outcome" => outcome)
            .increment(1);
        let lost =
            error.is_some_and(|error| matches!(error.kind(), StoreErrorKind::Fenced | StoreErrorKind::RolledBack));
        metrics::counter!("mintage_lease_lost_total", &labels).increment(u64::from(lost));
        for (to, offset_ms) in [("store", health.store_offset_ms), ("peers", health.clock_skew_ms)] {
            if let Some(offset_ms) = offset_ms {
                metrics::gauge!("mintage_clock_offset_seconds", "pool" => post.home.to_owned(), "to" => to)
                    .set(seconds(offset_ms));
            }
        }
        let (capacity, in_use) = post.workers;
        metrics::gauge!("mintage_workers_capacity", "pool" => post.home.to_owned()).set(f64::from(capacity));
        if let Some(in_use) = in_use.and_then(|count| u32::try_from(count).ok()) {
            metrics::gauge!("mintage_workers_in_use", "pool" => post.home.to_owned()).set(f64::from(in_use));
        }
    }

    fn outcome_of(error: &StoreError) -> &'static str {
        match error.kind() {
            StoreErrorKind::Unavailable => "unavailable",
            StoreErrorKind::Fenced => "fenced",
            StoreErrorKind::RolledBack => "rolled_back",
            StoreErrorKind::NoFreeWorker | StoreErrorKind::Conflict => "no_free_worker",
            _ => "refused",
        }
    }
}

#[cfg(feature = "tracing")]
mod events {
    use mintage_core::{StoreError, StoreErrorKind};

    use super::Post;
    use crate::LeaseHealth;

    pub(super) fn lease(health: &LeaseHealth, post: &Post<'_>, error: Option<&StoreError>) {
        let (pool, lane, worker) = (post.home, post.lane, health.worker);
        let window_end_ms = health.window_end_ms;
        match error {
            None if health.clock_alert => {
                let skew_ms = health.clock_skew_ms;
                tracing::warn!(pool, lane, worker, skew_ms, peers = health.peers, "the clock is off");
            }
            None => {
                let reserve = health.in_place_of.is_some();
                tracing::debug!(pool, lane, worker, window_end_ms, reserve, "lease renewed");
            }
            Some(error) if matches!(error.kind(), StoreErrorKind::Fenced | StoreErrorKind::RolledBack) => {
                tracing::error!(pool, lane, worker, window_end_ms, %error, "lease lost");
            }
            Some(error) => tracing::warn!(pool, lane, worker, window_end_ms, %error, "lease not renewed"),
        }
    }
}
