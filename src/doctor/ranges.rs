//! How far each counter has come.

use mintage_core::{RANGE_END, plugin::Fact, protocol::UNLISTED};

use super::{Doctor, Severity};
use crate::{
    config::{EntityConfig, SeriesConfig},
    public::PublicForm,
    publish, series,
};

/// From so many hundredths of its numbers on, a counter is near its end.
const FULL_PERCENT: u128 = 90;

impl Doctor<'_> {
    pub(super) async fn look_at_ranges(&mut self) {
        let stores: Vec<String> = self.places.keys().cloned().collect();
        for store in stores {
            self.look_at_waiting(&store).await;
        }
        for entity in self.checked.entities.clone() {
            for store in entity.range_stores() {
                self.look_at_sequence(&entity, store).await;
            }
        }
        for series in self.checked.series.clone() {
            self.look_at_series(&series).await;
        }
    }

    /// What gives no number until somebody has looked.
    async fn look_at_waiting(&mut self, store: &str) {
        let Some(ranges) = self.backend(store).and_then(|backend| backend.ranges.clone()) else { return };
        let path = format!("stores.{store}");
        let Some(waiting) = self.unanswered(&path, ranges.waiting().await) else { return };
        for name in waiting {
            let (told, remedy) = if name == UNLISTED {
                (
                    format!(
                        "no new sequence is made in store {store}: it lives another life than the one in which it was known to be \
                         complete, and may have forgotten sequences"
                    ),
                    format!(
                        "`mintage sequences raise '*' --store {store}`, once no number of a sequence that is not listed is in use \
                         or held by a running process"
                    ),
                )
            } else {
                (
                    format!(
                        "sequence {name} in store {store} stopped: the store lives another life since it was counted last, and \
                         may have forgotten ranges"
                    ),
                    format!(
                        "`mintage sequences raise {name} NUMBER --store {store}`, above every number in use or held by a running \
                         process"
                    ),
                )
            };
            self.wrong(path.clone(), told, remedy);
        }
    }

    async fn look_at_sequence(&mut self, entity: &EntityConfig, store: &str) {
        let (Some(sequence), Some(backend)) = (&entity.needs.sequence, self.backend(store)) else { return };
        let (Some(ranges), Some(formats)) = (backend.ranges.clone(), backend.formats.clone()) else { return };
        let path = format!("entities.{}", entity.name);
        let Some(row) = self.unanswered(&path, ranges.sequence(&sequence.name).await) else { return };
        let Some(row) = row else {
            if matches!(formats.pinned(&entity.name).await, Ok(Some(_))) {
                let told = format!("its sequence {} is gone from store {store}, where it was used", sequence.name);
                self.wrong(path, told, "restore the store: a new sequence would repeat numbers");
            }
            return;
        };
        self.tell_fill(&path, &format!("in store {store} the next number is {}", row.next), row.next, RANGE_END);
        let last = row.next.checked_sub(1).filter(|last| *last >= sequence.start);
        if let (Some(form), Some(last)) = (&entity.public, last) {
            self.tell_public(&path, form, sequence.start, last);
        }
    }

    /// The newest period of a series: the others are over.
    async fn look_at_series(&mut self, series: &SeriesConfig) {
        let Some(ranges) = self.backend(&series.store).and_then(|backend| backend.ranges.clone()) else { return };
        let path = format!("series.{}", series.name);
        let prefix = series::sequence_prefix(&series.name);
        let Some(rows) = self.unanswered(&path, ranges.sequences().await) else { return };
        let newest = rows.into_iter().filter(|row| row.name.starts_with(&prefix)).max_by(|a, b| a.name.cmp(&b.name));
        if let Some(row) = newest {
            let told = format!("in {} the next number is {}", row.name, row.next);
            self.tell_fill(&path, &told, row.next, series.format.n_max().saturating_add(1));
        }
    }

    fn tell_fill(&mut self, path: &str, told: &str, next: u64, end: u64) {
        if next >= end {
            self.wrong(path, format!("{told}: its numbers are used up"), "give it a wider format or a new entity");
        } else if u128::from(next) * 100 >= u128::from(end) * FULL_PERCENT {
            let told = format!("{told} of {} at most", end - 1);
            self.warn(path, told, "plan a wider format or a new entity before it ends");
        } else {
            self.ok(path, told);
        }
    }

    fn tell_public(&mut self, path: &str, form: &PublicForm, start: u64, last: u64) {
        let Some(Fact { text, warning, .. }) = publish::fill(form, start, last) else { return };
        let severity = if warning { Severity::Warning } else { Severity::Ok };
        self.found(severity, path, text, None);
    }
}
