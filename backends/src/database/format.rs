//! Formats on a database server.

use async_trait::async_trait;
use mintage_core::{Format, FormatStore, StoreError};

use super::{DatabaseStore, Work, error::Fault, fits, read};
use crate::rules::{self, corrupt};

#[async_trait]
impl FormatStore for DatabaseStore {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.transaction(|mut work| async move {
            let format = recorded(&mut work, entity).await;
            (work, format)
        })
        .await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        fits("entity", entity)?;
        self.transaction(|mut work| async move {
            let pinned = pin(&mut work, entity, format).await;
            (work, pinned)
        })
        .await
    }
}

async fn recorded(work: &mut Work, entity: &str) -> Result<Option<Format>, Fault> {
    let rows = work.session.fetch("SELECT format FROM mintage_format WHERE entity = ?1", &[entity.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(read::text(row, "format")?.parse::<Format>()?))
}

async fn pin(work: &mut Work, entity: &str, format: &Format) -> Result<(), Fault> {
    let known = match recorded(work, entity).await? {
        Some(known) => known,
        None => {
            let text = rules::format_text(entity, format)?;
            let insert = "INSERT INTO mintage_format (entity, format) VALUES (?1, ?2)";
            work.session.insert_if_absent(insert, "entity", &[entity.into(), (&text).into()]).await?;
            // Not ours, if another process was first.
            let known = recorded(work, entity).await?;
            known.ok_or_else(|| {
                corrupt(format!("the format of {entity} was not kept: look at triggers on mintage_format"))
            })?
        }
    };
    Ok(format.agrees_with(&known, entity)?)
}
