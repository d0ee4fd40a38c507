//! Formats, one record each.

use async_trait::async_trait;
use mintage_core::{Format, FormatStore, StoreError};

use super::{
    CellStore, Cells,
    record::{Pinned, format_key},
    work::{Fault, Work},
};
use crate::{rules, wait::Backoff};

#[async_trait]
impl<C: Cells> FormatStore for CellStore<C> {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.read(async { recorded(&self.begin(&[format_key(entity)]).await?, entity) }).await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[format_key(entity)]).await?;
                let answer = pin(&mut work, entity, format);
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }
}

fn pin<C: Cells>(work: &mut Work<'_, C>, entity: &str, format: &Format) -> Result<(), Fault> {
    if let Some(recorded) = recorded(work, entity)? {
        format.agrees_with(&recorded, entity)?;
        if !format.grows_beyond(&recorded) {
            return Ok(());
        }
    }
    work.put(format_key(entity), &Pinned { format: rules::format_text(entity, format)? });
    Ok(())
}

fn recorded<C: Cells>(work: &Work<'_, C>, entity: &str) -> Result<Option<Format>, StoreError> {
    work.record::<Pinned>(&format_key(entity))?.map(|pinned| pinned.format.parse()).transpose()
}
