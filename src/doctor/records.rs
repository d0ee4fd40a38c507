//! What stores have on record against what the config and the key files say: formats, regions, tokens, keys.

use std::{collections::BTreeSet, sync::Arc};

use mintage_core::{Format, FormatStore};

use super::{Doctor, Severity};
use crate::{
    config::{EntityConfig, KeyConfig, KeyPlace},
    public::{FileKeys, KeyError},
    publish::{self, keys_of, record_name},
    regions, series,
};

impl Doctor<'_> {
    pub(super) async fn look_at_records(&mut self) {
        for entity in self.checked.entities.clone() {
            self.compare_entity(&entity).await;
        }
        for tokens in self.checked.tokens.clone() {
            let path = format!("entities.{}", tokens.name);
            self.compare(path, &tokens.store, &tokens.name, tokens.format(), "bearer").await;
        }
        for series in self.checked.series.clone() {
            let path = format!("series.{}", series.name);
            let name = series::record_name(&series.name);
            self.compare(path, &series.store, &name, series.format.pin(), "series").await;
        }
        if self.checked.regions.is_empty() {
            return;
        }
        let stores: BTreeSet<String> = self.checked.pools.iter().map(|pool| pool.store.clone()).collect();
        for store in stores {
            let Some(formats) = self.formats(&store) else { continue };
            match regions::compare(&*formats, &self.checked.regions).await {
                Ok(true) => self.ok("regions", format!("as store {store} has them on record")),
                Ok(false) => self.ok("regions", format!("store {store} has none on record yet")),
                Err(error) => self.failed("regions", &error),
            }
        }
    }

    async fn compare_entity(&mut self, entity: &EntityConfig) {
        let path = format!("entities.{}", entity.name);
        if entity.needs.shares.is_empty() {
            let format = self.checked.with_public(entity, entity.plan.format());
            let pool = entity.needs.worker.as_ref().and_then(|need| self.checked.pool(&need.pool));
            let reserve = pool.and_then(|pool| self.checked.pool(pool.fallback.as_deref()?));
            let reserve = reserve.map(|reserve| reserve.store.clone()).filter(|store| *store != entity.store);
            for store in [Some(entity.store.clone()), reserve].into_iter().flatten() {
                self.compare(path.clone(), &store, &entity.name, format.clone(), &entity.scheme).await;
            }
            return;
        }
        let mut known = Vec::new();
        for share in &entity.needs.shares {
            let format = self.checked.with_public(entity, share.format.clone());
            known.push(self.compare(path.clone(), &share.store, &entity.name, format, &entity.scheme).await);
        }
        // A store that does not answer is told where stores are.
        if known.contains(&Some(true)) && known.contains(&Some(false)) {
            let told =
                "one of its stores has no record of it although another does: it was emptied, restored or replaced";
            self.wrong(path, told, "restore the right store: its numbers would begin again");
        }
    }

    /// Whether the store has a record; `None` where it cannot be asked.
    async fn compare(&mut self, path: String, store: &str, name: &str, format: Format, scheme: &str) -> Option<bool> {
        let formats = self.formats(store)?;
        let answer = formats.pinned(name).await;
        let Some(recorded) = self.unanswered(&path, answer)? else {
            self.ok(path, format!("{scheme}, not used in store {store} yet"));
            return Some(false);
        };
        match format.agrees_with(&recorded, name) {
            Ok(()) => self.ok(path, format!("{scheme}, as store {store} has it on record")),
            Err(error) => self.failed(path, &error),
        }
        Some(true)
    }

    pub(super) async fn look_at_keys(&mut self) {
        for key in self.checked.keys.clone() {
            let stores: BTreeSet<String> = self
                .checked
                .entities
                .iter()
                .filter(|entity| entity.public.iter().flat_map(keys_of).any(|name| name == key.name))
                .flat_map(|entity| entity.range_stores().into_iter().map(str::to_owned))
                .collect();
            self.look_at_key(&key, &stores).await;
        }
    }

    async fn look_at_key(&mut self, key: &KeyConfig, stores: &BTreeSet<String>) {
        let path = format!("keys.{}", key.name);
        let mut recorded = Vec::new();
        for store in stores {
            let Some(formats) = self.formats(store) else { continue };
            let answer = formats.pinned(&record_name(&key.name)).await;
            if let Some(record) = self.unanswered(&path, answer) {
                recorded.push((store, record));
            }
        }
        let is_recorded = recorded.iter().any(|(_, record)| record.is_some());
        let ring = match publish::ring_of(key, self.builder.key_sources(), self.builder.environment_shared()).await {
            Ok(ring) => ring,
            Err(KeyError::Missing { place }) if is_recorded => {
                let told = "a store has a record of this key: without it no public id can be read";
                return self.wrong(path, format!("{place} is missing, and {told}"), "put it back from a copy");
            }
            Err(KeyError::Missing { place }) if matches!(key.place, KeyPlace::File(_)) => {
                return self.ok(path, format!("{place} is not there yet: the first process that needs it makes it"));
            }
            Err(error) => return self.failed(path, &error),
        };
        if let KeyPlace::File(file) = &key.place
            && !self.builder.key_sources().contains_key(&key.name)
            && FileKeys::new(file.clone()).others_may_read()
        {
            let told = format!("{} can be read by others on this machine", file.display());
            self.warn(&path, told, format!("chmod 600 {}", file.display()));
        }
        for (store, record) in &recorded {
            match publish::record(&key.name, &ring, record.as_ref()) {
                Err(error) => self.failed(&path, &error),
                Ok(_) if record.is_some() => {
                    let checks: Vec<String> = ring
                        .versions()
                        .filter_map(|version| Some(format!("version {version} {}", ring.check_value(version)?)))
                        .collect();
                    self.ok(&path, format!("{}, as store {store} has it on record", checks.join(", ")));
                }
                Ok(_) => {}
            }
        }
        for store in stores {
            self.tell_stranger(key, &path, store, &recorded).await;
        }
    }

    /// A key that is older than the store beside it: the store may have been deleted.
    async fn tell_stranger(
        &mut self,
        key: &KeyConfig,
        path: &str,
        store: &str,
        recorded: &[(&String, Option<Format>)],
    ) {
        let is_recorded = recorded.iter().any(|(known, record)| known.as_str() == store && record.is_some());
        let in_a_file = matches!(key.place, KeyPlace::File(_)) && !self.builder.key_sources().contains_key(&key.name);
        let was_asked = self.places.get(store).is_some_and(|place| place.vitals.is_made.is_some());
        if is_recorded || !in_a_file || !was_asked || self.builder.always_begins_empty(&self.checked, store) {
            return;
        }
        let formats = self.formats(store);
        if let Some(formats) = formats
            && publish::knows_any(&*formats, &self.checked).await.unwrap_or(true)
        {
            return self.ok(path, format!("store {store} has no record of it yet"));
        }
        let told = publish::older_than_store(&key.name, store);
        self.found(Severity::Warning, path, format!("{told}. {}", publish::OLDER_THAN_STORE), None);
    }

    fn formats(&self, store: &str) -> Option<Arc<dyn FormatStore>> {
        self.backend(store)?.formats.clone()
    }
}
