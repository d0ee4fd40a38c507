//! What the records tell of the store that keeps them.

use std::{sync::Arc, time::Duration};

use mintage_core::{Answer, Clock, StoreError, Vitals};

use super::{
    CellStore, Cells, find_registry,
    record::{REGISTRY, SCHEMA},
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
                vitals.identity = Some(registry);
            }
            Ok(vitals)
        };
        within(timeout, &place, asking).await
    }
}
