//! Formats in SQLite.

use async_trait::async_trait;
use mintage_core::{Format, FormatStore, StoreError};

use super::{Conn, READ, SqliteStore, WRITE, error::Fault, read};
use crate::rules;

#[async_trait]
impl FormatStore for SqliteStore {
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let format = recorded(&mut work.conn(), entity).await;
            work.end(format).await
        })
        .await
    }

    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let pinned = pin(&mut work.conn(), entity, format).await;
            work.end(pinned).await
        })
        .await
    }
}

async fn recorded(conn: &mut Conn<'_>, entity: &str) -> Result<Option<Format>, Fault> {
    let row = conn
        .query("SELECT format FROM mintage_format WHERE entity = ?")
        .bind(entity)
        .fetch_optional(&mut *conn.link)
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(read::text(&row, "format")?.parse::<Format>()?))
}

async fn pin(conn: &mut Conn<'_>, entity: &str, format: &Format) -> Result<(), Fault> {
    if let Some(recorded) = recorded(conn, entity).await? {
        format.agrees_with(&recorded, entity)?;
        if !format.grows_beyond(&recorded) {
            return Ok(());
        }
    }
    conn.query("INSERT INTO mintage_format (entity, format) VALUES (?, ?) ON CONFLICT (entity) DO UPDATE SET format = excluded.format")
        .bind(entity)
        .bind(rules::format_text(entity, format)?)
        .execute(&mut *conn.link)
        .await?;
    Ok(())
}
