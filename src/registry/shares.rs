//! Entities whose numbers several stores share out: which of the stores can be reached, and what they must have on record.
//!
//! The first use needs all of them, because each must record which part of the numbers is its own. Afterwards one is enough: the
//! others are opened when they are back, and asked for nothing before their record was compared. So no two stores ever give the
//! same part, and a store that was emptied is noticed by the ones that were not.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use mintage_core::{
    Format, FormatStore, IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError,
    StoreErrorKind,
};
use tokio::sync::OnceCell;

use super::{BuildError, assembly::Assembly, later::Later, missing, store_error};
use crate::config::EntityConfig;

/// What the stores said when they were first asked.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By entity and store: its record, or why it did not answer.
    answers: BTreeMap<(String, String), Result<Option<Format>, StoreError>>,
}

impl Shares {
    fn answer(&self, entity: &EntityConfig, store: &str) -> Option<&Result<Option<Format>, StoreError>> {
        self.answers.get(&(entity.name.clone(), store.to_owned()))
    }
}

impl Assembly<'_> {
    /// Asks every store of every shared entity for its record. One that does not answer is no fault yet.
    pub(super) async fn reach_shares(&mut self, wanted: &[&EntityConfig]) -> Result<(), BuildError> {
        for entity in wanted {
            for share in &entity.needs.shares {
                let answer = match self.record_in(entity, &share.store).await {
                    Ok(record) => Ok(record),
                    Err(BuildError::Store { source, .. }) if source.kind() == StoreErrorKind::Unavailable => {
                        Err(source)
                    }
                    Err(error) => return Err(error),
                };
                self.shares.answers.insert((entity.name.clone(), share.store.clone()), answer);
            }
            if !entity.needs.shares.is_empty() && self.within_reach(entity).is_empty() {
                return Err(self.first_absence(entity));
            }
        }
        Ok(())
    }

    async fn record_in(&mut self, entity: &EntityConfig, store: &str) -> Result<Option<Format>, BuildError> {
        let formats = self.formats(store).await?;
        formats.pinned(&entity.name).await.map_err(|source| store_error(store, source))
    }

    /// The stores of an entity that can be asked.
    pub(super) fn within_reach(&self, entity: &EntityConfig) -> Vec<String> {
        if entity.needs.shares.is_empty() {
            return vec![self.home_of(entity)];
        }
        let reached = |store: &&str| self.shares.answer(entity, store).is_some_and(Result::is_ok);
        entity.range_stores().into_iter().filter(reached).map(str::to_owned).collect()
    }

    /// What each store of an entity that can be asked is to record.
    pub(super) fn records_of(&self, entity: &EntityConfig) -> Vec<(String, Format)> {
        if entity.needs.shares.is_empty() {
            return vec![(self.home_of(entity), self.format_of(entity))];
        }
        let within_reach = self.within_reach(entity);
        let shares = entity.needs.shares.iter().filter(|share| within_reach.contains(&share.store));
        shares.map(|share| (share.store.clone(), self.checked.with_public(entity, share.format.clone()))).collect()
    }

    /// Compares the records. `false` if there is none anywhere: then all stores must be there.
    pub(super) async fn is_shared_entity_known(&mut self, entity: &EntityConfig) -> Result<bool, BuildError> {
        let mut unknown = Vec::new();
        let mut is_known = false;
        for (store, format) in self.records_of(entity) {
            match self.shares.answer(entity, &store) {
                Some(Ok(Some(recorded))) => {
                    format.agrees_with(recorded, &entity.name).map_err(|source| store_error(&store, source))?;
                    is_known = true;
                }
                _ => unknown.push(store),
            }
        }
        if !is_known {
            let all_here = self.within_reach(entity).len() == entity.needs.shares.len();
            return if all_here { Ok(false) } else { Err(self.first_absence(entity)) };
        }
        for store in unknown {
            // A first start that broke off has made every sequence before it recorded anything.
            let Some(sequence) = &entity.needs.sequence else { continue };
            let row = self.ranges(&store).await?.sequence(&sequence.name).await;
            if row.map_err(|source| store_error(&store, source))?.is_none() {
                return Err(store_error(&store, emptied(&entity.name)));
            }
        }
        Ok(true)
    }

    /// The stores of an entity in their order; those out of reach are opened later.
    pub(super) async fn share_lanes(
        &mut self,
        entity: &EntityConfig,
    ) -> Result<Vec<(String, Arc<dyn RangeStore>)>, BuildError> {
        let within_reach = self.within_reach(entity);
        let mut lanes = Vec::new();
        for share in &entity.needs.shares {
            let lane: Arc<dyn RangeStore> = if within_reach.contains(&share.store) {
                self.ranges(&share.store).await?
            } else {
                let (factory, address) = self.builder.store_at(self.checked, &share.store)?;
                Arc::new(Late {
                    store: Later::new(factory, address),
                    entity: entity.name.clone(),
                    format: self.checked.with_public(entity, share.format.clone()),
                    ranges: OnceCell::new(),
                })
            };
            lanes.push((share.store.clone(), lane));
        }
        Ok(lanes)
    }

    /// The error of the first store that did not answer.
    fn first_absence(&self, entity: &EntityConfig) -> BuildError {
        let absent = entity.needs.shares.iter().find_map(|share| {
            let reason = self.shares.answer(entity, &share.store)?.as_ref().err()?;
            Some((share.store.as_str(), reason.to_string()))
        });
        let (store, reason) = absent.unwrap_or((&entity.store, "it does not answer".to_owned()));
        let message = format!(
            "{reason}. Entity {} was never used, and its first use needs all of its stores: start them first",
            entity.name
        );
        store_error(store, StoreError::new(StoreErrorKind::Unavailable, message))
    }
}

/// A store knows nothing of an entity that its partners know.
fn emptied(entity: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::RolledBack,
        format!(
            "it has no record of entity {entity} although the other stores do: it was emptied, restored or replaced, and \
             its numbers would begin again. Restore the right store, or give the entity a new name"
        ),
    )
}

/// A store that was out of reach at the start. Opened by the first call after it is back, and believed once its record agrees.
#[derive(Debug)]
struct Late {
    store: Later,
    entity: String,
    format: Format,
    ranges: OnceCell<Arc<dyn RangeStore>>,
}

impl Late {
    async fn ranges(&self) -> Result<&Arc<dyn RangeStore>, StoreError> {
        let open = async || {
            let recorded = self.store.pinned(&self.entity).await?.ok_or_else(|| emptied(&self.entity))?;
            self.format.agrees_with(&recorded, &self.entity)?;
            self.store.backend().await?.ranges.clone().ok_or_else(|| missing("ranges"))
        };
        self.ranges.get_or_try_init(open).await
    }
}

#[async_trait]
impl RangeStore for Late {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.ranges().await?.create(sequence).await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        self.ranges().await?.allocate(sequence, len, key).await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.ranges().await?.give_back(tail).await
    }

    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.ranges().await?.restore(sequence).await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.ranges().await?.raise(sequence, floor).await
    }

    async fn stop_all(&self) -> Result<bool, StoreError> {
        self.ranges().await?.stop_all().await
    }

    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        self.ranges().await?.waiting().await
    }

    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        self.ranges().await?.sequence(name).await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.ranges().await?.sequences().await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.ranges().await?.range_history(sequence, number).await
    }

    fn history_trouble(&self) -> Option<String> {
        self.ranges.get().and_then(|ranges| ranges.history_trouble())
    }
}
