//! Whether each store answers, how its clock stands to this machine's, and which of its settings let it forget.

use mintage_core::{Answer, StoreSetting};

use super::{Doctor, Place, Severity};
use crate::{
    BuildError,
    config::{ClockLimits, PoolConfig},
    keeper::clocks::Offset,
};

/// An answer that takes longer makes ranges and renewals slow, in milliseconds.
const SLOW_MS: u64 = 250;

impl Doctor<'_> {
    pub(super) async fn look_at_stores(&mut self) {
        let stores: Vec<String> = self.checked.stores.iter().map(|store| store.name.clone()).collect();
        for store in stores {
            let path = format!("stores.{store}");
            match self.ask(&store).await {
                Ok(place) => {
                    self.tell_store(&path, &store, &place);
                    self.places.insert(store, place);
                }
                Err(BuildError::Store { source, .. }) => self.failed(path, &source),
                Err(error) => self.failed(path, &error),
            }
        }
    }

    async fn ask(&self, store: &str) -> Result<Place, BuildError> {
        let (factory, address) = self.builder.store_at(&self.checked, store)?;
        let failed = |source| BuildError::Store { store: store.to_owned(), source };
        let vitals = factory.vitals(&address).await.map_err(failed)?;
        let backend = match vitals.is_made {
            Some(true) => factory.open_existing(&address).await.map_err(failed)?.unwrap_or_default(),
            _ => Default::default(),
        };
        Ok(Place { vitals, backend })
    }

    fn tell_store(&mut self, path: &str, store: &str, place: &Place) {
        let vitals = &place.vitals;
        let mut told: Vec<String> = vitals.server.iter().cloned().collect();
        told.extend(vitals.answer.map(|answer| format!("answers in {} ms", answer.took_ms)));
        told.extend(vitals.schema.map(|schema| format!("schema {schema}")));
        told.extend(vitals.identity.as_ref().map(|identity| format!("registry {identity}")));
        match vitals.is_made {
            Some(true) => self.ok(path, if told.is_empty() { "it is there".to_owned() } else { told.join(", ") }),
            Some(false) if self.makes_itself(store) => {
                told.push(format!(
                    "nothing of Mintage is there yet: the first process makes it, or `mintage store init {store}`"
                ));
                self.ok(path, told.join(", "));
            }
            Some(false) => {
                told.push(
                    "nothing of Mintage is there, and no process makes it: one that needs it is refused".to_owned(),
                );
                let severity = if self.is_home(store) { Severity::Error } else { Severity::Warning };
                let remedy =
                    format!("if it is new, run `mintage store init {store}` once; if not, it was emptied: restore it");
                self.found(severity, path, told.join(", "), Some(remedy));
            }
            None => {}
        }
        if let Some(answer) = vitals.answer.filter(|answer| answer.took_ms > SLOW_MS) {
            let slow = format!("an answer took {} ms, and each range and renewal takes several", answer.took_ms);
            self.warn(path, slow, "look at its load, its disk and the network");
        }
        self.tell_settings(path, &vitals.settings);
        if let Some(answer) = vitals.answer {
            self.tell_clock(path, store, answer);
        }
    }

    fn tell_settings(&mut self, path: &str, settings: &[StoreSetting]) {
        for setting in settings {
            let told = format!("{} {}", setting.name, setting.value);
            match &setting.concern {
                None => self.ok(path, told),
                Some(concern) => {
                    let severity = if concern.is_error { Severity::Error } else { Severity::Warning };
                    self.found(severity, path, format!("{told}: {}", concern.what), Some(concern.remedy.clone()));
                }
            }
        }
    }

    /// This machine's clock beside the store's. What makes a process refuse to start is the distance from the other holders.
    fn tell_clock(&mut self, path: &str, store: &str, answer: Answer) {
        if self.is_local(store) {
            return;
        }
        let Some(store_now_ms) = answer.store_now_ms else {
            self.ok(path, "it has no clock of its own: every process leases by its machine's");
            return;
        };
        let off_ms = Offset::between(answer.asked_ms, answer.took_ms, store_now_ms).beyond(0);
        let told = clock_told(off_ms, "the store's");
        match off_ms.unsigned_abs() > self.limits_at(store).alert_ms {
            true => self.warn(path, told, "compare both machines with a time server, and set the clock that is wrong"),
            false => self.ok(path, told),
        }
    }

    /// The narrowest limits of the pools in a store.
    fn limits_at(&self, store: &str) -> ClockLimits {
        let pools = self.checked.pools.iter().filter(|pool| pool.store == store);
        pools.map(|pool| pool.clock).min_by_key(|limits| limits.alert_ms).unwrap_or_default()
    }

    fn makes_itself(&self, store: &str) -> bool {
        let url = self.checked.store(store).map(|store| store.url.as_str()).unwrap_or_default();
        self.builder.catalog().backend_of(url).is_none_or(|factory| factory.makes_itself(url))
    }

    /// Whether something begins here, and not only where another store is away.
    fn is_home(&self, store: &str) -> bool {
        let checked = &self.checked;
        let is_reserve = |pool: &PoolConfig| checked.pools.iter().any(|of| of.fallback.as_ref() == Some(&pool.name));
        checked.pools.iter().any(|pool| pool.store == store && !is_reserve(pool))
            || checked.entities.iter().any(|entity| entity.store == store || entity.range_stores().contains(&store))
            || checked.series.iter().any(|series| series.store == store)
            || checked.tokens.iter().any(|tokens| tokens.store == store)
    }

    pub(super) fn is_local(&self, store: &str) -> bool {
        let factory = self.checked.store(store).and_then(|store| self.builder.catalog().backend_of(&store.url));
        factory.is_some_and(|factory| factory.local())
    }
}

/// How a clock stands to another, where no slow answer explains it.
pub(super) fn clock_told(off_ms: i64, whose: &str) -> String {
    match off_ms {
        0 => format!("this machine's clock agrees with {whose}"),
        _ => format!(
            "this machine's clock is {} ms {} {whose}",
            off_ms.unsigned_abs(),
            if off_ms < 0 { "behind" } else { "ahead of" }
        ),
    }
}
