//! What the records tell of the store that keeps them.

use std::{sync::Arc, time::Duration};

use mintage_core::{Answer, Clock, StoreError, Vitals};

use super::{
    CellStore, Cells, find_registry,
    record::{Counter, Names, REGISTRY, SCHEMA, SEQUENCES, sequence_key},
    within,
};

impl<C: Cells> CellStore<C> {
    /// Asks the servers for their settings, and the records for how they stand. Makes nothing.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing).
    pub(crate) async fn vitals(cells: C, clock: Arc<dyn Clock>, timeout: Duration) -> Result<Vitals, StoreError> {
        let place = cells.place().to_owned();
        let asking = async {
            let mut vitals = Vitals::default();
            vitals.settings = cells.settings().await?;
            if vitals.settings.iter().any(|setting| setting.concern.as_ref().is_some_and(|concern| concern.is_error)) {
                // With such settings nothing else is asked: no other call would be.
                return Ok(vitals);
            }
            let (registry, _) = find_registry(&cells).await?;
            // The connection is open now.
            let (asked_ms, asked_boot_ms) = (clock.unix_ms(), clock.boot_ms());
            let snapshot = cells.read(&[REGISTRY.to_owned()]).await?;
            let took_ms = clock.boot_ms().saturating_sub(asked_boot_ms);
            vitals.answer = Some(Answer::new(asked_ms, took_ms, snapshot.now_ms));
            vitals.is_made = Some(registry.is_some());
            if let Some(registry) = registry {
                vitals.schema = Some(u64::from(SCHEMA));
                vitals.identity = Some(registry.clone());
                vitals.stopped_sequences = Self::of(cells, clock, timeout, registry).stopped_sequences().await?;
            }
            Ok(vitals)
        };
        within(timeout, &place, asking).await
    }

    /// Those that were last counted in another life of the store.
    async fn stopped_sequences(&self) -> Result<Vec<String>, StoreError> {
        let mut work = self.begin(&[SEQUENCES.to_owned()]).await?;
        let names = work.record::<Names>(SEQUENCES)?.unwrap_or_default().names;
        work.load(names.iter().map(|name| sequence_key(name))).await?;
        let mut stopped = Vec::new();
        for name in names {
            let counter: Option<Counter> = work.record(&sequence_key(&name))?;
            if counter.is_some_and(|counter| counter.life != work.life) {
                stopped.push(name);
            }
        }
        Ok(stopped)
    }
}
