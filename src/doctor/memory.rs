//! What this machine has written down of a store, in its `state_dir`, against what the store knows.

use std::{collections::BTreeMap, path::Path};

use mintage_core::{LeaseRow, SequenceRow, StoreError, WorkerPool};

use super::{Doctor, Place};
use crate::registry::{
    identity,
    seen::{self, Remembered, RememberedClaim},
};

/// What a store knows of what a machine remembers.
#[derive(Default)]
struct Kept {
    registry: Option<String>,
    sequences: Vec<SequenceRow>,
    leases: BTreeMap<(String, String), Vec<LeaseRow>>,
}

/// What a store has forgotten, and what to do about it.
type Lost = (String, String);

impl Doctor<'_> {
    pub(super) async fn look_at_memories(&mut self) {
        let stores: Vec<String> = self.places.keys().cloned().collect();
        for store in stores {
            self.look_at_memory(&store).await;
        }
    }

    async fn look_at_memory(&mut self, store: &str) {
        let Some(folder) = self.checked.store(store).and_then(|store| store.state_dir.clone()) else { return };
        let path = format!("stores.{store}");
        let place = format!("state_dir {}", folder.display());
        // A store that was not read, because its settings are not to be trusted, is not an empty one.
        let was_read = |place: &Place| place.vitals.is_made == Some(false) || place.backend.formats.is_some();
        if !self.places.get(store).is_some_and(was_read) {
            return;
        }
        let mut lost = Vec::new();
        // Twice: a process may have given a range or a worker id back between the two looks.
        for _ in 0..2 {
            let mut remembered = match seen::remembered(&folder, store) {
                Err(error) => return self.failed(path, &error),
                Ok(None) if can_be_made(&folder) => {
                    return self.ok(path, format!("{place}: nothing is written down yet; the first process makes it"));
                }
                Ok(None) => {
                    let told = format!("{place} is not there and cannot be made: every process is refused");
                    return self.wrong(path, told, "make its parent folder first");
                }
                Ok(Some(remembered)) => remembered,
            };
            let kept = self.kept(store, &remembered).await;
            let Some(kept) = self.unanswered(&path, kept) else { return };
            let alarms = std::mem::take(&mut remembered.alarms);
            lost = forgotten(&folder, store, remembered, &kept);
            if lost.is_empty() {
                // The store does not say how often it was bumped, so it may be over.
                for of in alarms {
                    let told = format!(
                        "{place}: pool {of} was found to have gone back in time, and no claim counts before a bump"
                    );
                    let remedy =
                        format!("`mintage store bump {store}`, unless that was done since: the next claim tells");
                    self.warn(&path, told, remedy);
                }
                let registry = kept.registry.map_or(String::new(), |id| format!(" {id}"));
                return self.ok(path, format!("{place}: the store{registry} knows of all that this machine was given"));
            }
        }
        for (told, remedy) in lost {
            self.wrong(path.clone(), told, remedy);
        }
    }

    async fn kept(&self, store: &str, remembered: &Remembered) -> Result<Kept, StoreError> {
        let mut kept = Kept::default();
        let Some(backend) = self.backend(store).cloned() else { return Ok(kept) };
        if let Some(formats) = &backend.formats {
            kept.registry = identity::of(&**formats).await?;
        }
        if let Some(ranges) = &backend.ranges {
            kept.sequences = ranges.sequences().await?;
        }
        for claim in &remembered.claims {
            let key = (claim.pool.clone(), claim.region.clone());
            let Some(leases) = backend.leases.as_ref().filter(|_| !kept.leases.contains_key(&key)) else { continue };
            let mut pool = WorkerPool::new(claim.pool.clone(), 0..0);
            pool.region.clone_from(&claim.region);
            kept.leases.insert(key, leases.leases(&pool).await?);
        }
        Ok(kept)
    }
}

/// A machine makes the folder itself, in one that is there.
fn can_be_made(folder: &Path) -> bool {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.is_dir() || parent.is_dir()
}

fn forgotten(folder: &Path, store: &str, remembered: Remembered, kept: &Kept) -> Vec<Lost> {
    if let Some(known) = remembered.registry.filter(|known| kept.registry.as_ref() != Some(known)) {
        // Nothing else can be compared with another store.
        let [told, remedy] = seen::another_store(folder, store, &known, kept.registry.as_deref());
        return vec![(told, remedy)];
    }
    let sequences = remembered.sequences.into_iter().filter_map(|(name, end)| {
        let next = kept.sequences.iter().find(|row| row.name == name).map(|row| row.next);
        let stands = next.map_or("is gone".to_owned(), |next| format!("stands at {next}"));
        let lost = (
            format!("sequence {name} {stands}, and this machine was given numbers up to {}: the store went back in time", end - 1),
            format!(
                "`mintage sequences raise {name} NUMBER --store {store}`, above every number in use or held by a running process, \
                 {end} at least"
            ),
        );
        (next.unwrap_or_default() < end).then_some(lost)
    });
    let claims = remembered.claims.iter().filter_map(|claim| lost_claim(store, claim, kept));
    // A bump stops the sequences, so it comes before they are raised.
    claims.chain(sequences).collect()
}

fn lost_claim(store: &str, claim: &RememberedClaim, kept: &Kept) -> Option<Lost> {
    let RememberedClaim { pool, region, worker, epoch, end_ms } = claim;
    let rows = kept.leases.get(&(pool.clone(), region.clone()))?;
    let stands = match rows.iter().find(|row| row.worker == *worker) {
        Some(row) if !claim.is_ahead_of(row) => return None,
        Some(row) => format!("stands at claim {} and the Unix millisecond {}", row.epoch, row.floor_ms),
        // Where all that is there begins later, so does the first window of what is not: the store was bumped.
        None if rows.iter().map(|row| row.floor_ms).min().is_some_and(|floor_ms| floor_ms >= *end_ms) => return None,
        None => "was never claimed there".to_owned(),
    };
    let of = seen::of(pool, region);
    Some((
        format!(
            "worker id {worker} of pool {of} {stands}, and this machine was given claim {epoch}, to the Unix millisecond {end_ms}: the \
             store went back in time"
        ),
        format!("`mintage store bump {store}`, before anything else is minted"),
    ))
}
