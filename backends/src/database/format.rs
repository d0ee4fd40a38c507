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
    format(work, "SELECT format FROM mintage_format WHERE entity = ?1", entity).await
}

async fn pin(work: &mut Work, entity: &str, ours: &Format) -> Result<(), Fault> {
    let text = rules::format_text(entity, ours)?;
    let known = match recorded(work, entity).await? {
        Some(known) => known,
        None => {
            let insert = "INSERT INTO mintage_format (entity, format) VALUES (?1, ?2)";
            work.session.insert_if_absent(insert, "entity", &[entity.into(), (&text).into()]).await?;
            // Not ours, if another process was first.
            recorded(work, entity).await?.ok_or_else(|| not_kept(entity))?
        }
    };
    ours.agrees_with(&known, entity)?;
    if !ours.grows_beyond(&known) {
        return Ok(());
    }
    // Another process may be adding something else just now: from here on it waits.
    let locked = "SELECT format FROM mintage_format WHERE entity = ?1 FOR UPDATE";
    let known = format(work, locked, entity).await?.ok_or_else(|| not_kept(entity))?;
    ours.agrees_with(&known, entity)?;
    let update = "UPDATE mintage_format SET format = ?1 WHERE entity = ?2";
    work.session.run(update, &[(&text).into(), entity.into()]).await.map(drop)
}

async fn format(work: &mut Work, select: &str, entity: &str) -> Result<Option<Format>, Fault> {
    let rows = work.session.fetch(select, &[entity.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(read::text(row, "format")?.parse::<Format>()?))
}

fn not_kept(entity: &str) -> StoreError {
    corrupt(format!("the format of {entity} was not kept: look at triggers on the table of formats"))
}
