//! Columns of the data's own tables that hold ids: whether they refuse a repeat, and whether the counter is ahead of them.

use std::time::Duration;

use mintage_backends::NumberColumn;
use mintage_core::{AnyId, RANGE_END, StoreError};

use super::Doctor;
use crate::{
    BuildError, RegistryBuilder,
    config::{Checked, EntityConfig},
    witness,
};

/// How long reading a column may take, in milliseconds: the largest of an indexed one comes at once.
const READ_MS_MAX: u64 = 60_000;

/// A column of somebody's table that holds the ids of an entity.
pub(super) struct IdColumn {
    entity: EntityConfig,
    column: NumberColumn,
}

/// Reads `ENTITY=URL#TABLE.COLUMN`.
pub(super) fn read(
    builder: &RegistryBuilder,
    checked: &Checked,
    texts: &[String],
) -> Result<Vec<IdColumn>, BuildError> {
    texts
        .iter()
        .map(|text| {
            let wrong = |why: String| BuildError::Column { why };
            let (name, source) = text.split_once('=').ok_or_else(|| {
                wrong("write ENTITY=URL#TABLE.COLUMN, such as orders=sqlite:shop.db#orders.id".to_owned())
            })?;
            let entity = checked.entity(name).ok_or_else(|| BuildError::NoEntity {
                name: name.to_owned(),
                known: checked.entities.iter().map(|entity| entity.name.as_str()).collect::<Vec<_>>().join(", "),
            })?;
            Ok(IdColumn {
                entity: entity.clone(),
                column: builder.column(source, &checked.folder).map_err(|error| wrong(error.to_string()))?,
            })
        })
        .collect()
}

impl Doctor<'_> {
    pub(super) async fn look_at_column(&mut self, of: &IdColumn) {
        let (path, column) = (format!("entities.{}", of.entity.name), &of.column);
        let patience = Duration::from_millis(READ_MS_MAX);
        match column.is_unique(patience).await {
            Ok(true) => self.ok(&path, format!("{column} is unique")),
            Ok(false) => {
                let told = format!(
                    "{column} has no primary key or unique index of its own: a second row with one id would be taken"
                );
                let remedy = "add a unique index on that column alone";
                // Codes are drawn by chance: the index is what makes them unique.
                if of.entity.scheme == "code" {
                    self.wrong(&path, told, remedy);
                } else {
                    self.warn(&path, told, remedy);
                }
            }
            Err(error) => return self.failed(path, &error),
        }
        if of.entity.needs.sequence.is_some() {
            self.compare_column(of, &path, column.largest(patience).await).await;
        }
    }

    /// A counter that stands at or below a number in use has gone back, and will repeat it.
    async fn compare_column(&mut self, of: &IdColumn, path: &str, largest: Result<Option<u64>, StoreError>) {
        let Some(Some(largest)) = self.unanswered(path, largest) else { return };
        let (Some(sequence), Some(store)) =
            (&of.entity.needs.sequence, witness::store_of(&of.entity, AnyId::Int(largest)))
        else {
            return;
        };
        // One that does not answer is told where stores are.
        let Some(backend) = self.backend(store) else { return };
        let next = match backend.ranges.clone() {
            Some(ranges) => {
                let Some(row) = self.unanswered(path, ranges.sequence(&sequence.name).await) else { return };
                row.map(|row| row.next)
            }
            None => None,
        };
        let name = &of.entity.name;
        match next {
            Some(next) if next > largest => {
                self.ok(path, format!("{} goes up to {largest}, below the next number", of.column))
            }
            Some(next) => {
                let told = format!(
                    "{} goes up to {largest}, and the next number is {next}: numbers will come twice",
                    of.column
                );
                let remedy = match largest + 1 {
                    RANGE_END.. => {
                        "no number is left above that one: is it an id at all? If not, correct its row".to_owned()
                    }
                    next => format!("stop its processes, then `mintage sequences raise {name} {next} --store {store}`"),
                };
                self.wrong(path, told, remedy);
            }
            None => {
                let told = format!("{} goes up to {largest}, and the counter was never used", of.column);
                self.wrong(
                    path,
                    told,
                    format!(
                        "`mintage sequences adopt {name} --store {store} --from …` before the first process starts"
                    ),
                );
            }
        }
    }
}
