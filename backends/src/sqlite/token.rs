//! Bearer tokens in SQLite.

use async_trait::async_trait;
use mintage_core::{StoreError, TokenRow, TokenStore};
use sqlx::{Row, sqlite::SqliteRow};

use super::{Conn, READ, SqliteStore, WRITE, error::Fault, read};
use crate::rules::{self, corrupt};

/// Stands between two scopes in their column: no scope holds it.
const BETWEEN_SCOPES: char = ' ';

#[async_trait]
impl TokenStore for SqliteStore {
    async fn insert(&self, row: &TokenRow) -> Result<(), StoreError> {
        row.check()?;
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let kept = insert(&mut work.conn(), row).await;
            work.end(kept).await
        })
        .await
    }

    async fn find(&self, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let found = find(&mut work.conn(), entity, hash).await;
            work.end(found).await
        })
        .await
    }

    async fn list(&self, entity: &str) -> Result<Vec<TokenRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = list(&mut work.conn(), entity).await;
            work.end(rows).await
        })
        .await
    }

    async fn revoke(&self, entity: &str, id: &str, at_ms: u64) -> Result<bool, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let revoked = revoke(&mut work.conn(), entity, id, at_ms).await;
            work.end(revoked).await
        })
        .await
    }

    async fn prune(&self, entity: &str, dead_by_ms: u64) -> Result<u64, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let forgotten = prune(&mut work.conn(), entity, dead_by_ms).await;
            work.end(forgotten).await
        })
        .await
    }
}

async fn insert(conn: &mut Conn<'_>, row: &TokenRow) -> Result<(), Fault> {
    let optional = |time: Option<u64>| time.map(|time| read::signed(time, "a time")).transpose();
    let kept = conn
        .query(
            "INSERT INTO mintage_token (entity, id, hash, scopes, label, issued_ms, expires_ms, revoked_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(&row.entity)
        .bind(&row.id)
        .bind(row.hash.as_slice())
        .bind(row.scopes.join(&BETWEEN_SCOPES.to_string()))
        .bind(&row.label)
        .bind(read::signed(row.issued_ms, "a time")?)
        .bind(optional(row.expires_ms)?)
        .bind(optional(row.revoked_ms)?)
        .execute(&mut *conn.link)
        .await?;
    if kept.rows_affected() == 1 { Ok(()) } else { Err(rules::token_is_there(row).into()) }
}

async fn find(conn: &mut Conn<'_>, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, Fault> {
    let row = conn
        .query("SELECT * FROM mintage_token WHERE entity = ? AND hash = ?")
        .bind(entity)
        .bind(hash.as_slice())
        .fetch_optional(&mut *conn.link)
        .await?;
    row.as_ref().map(token).transpose()
}

async fn list(conn: &mut Conn<'_>, entity: &str) -> Result<Vec<TokenRow>, Fault> {
    let rows = conn
        .query("SELECT * FROM mintage_token WHERE entity = ? ORDER BY issued_ms, id")
        .bind(entity)
        .fetch_all(&mut *conn.link)
        .await?;
    rows.iter().map(token).collect()
}

async fn revoke(conn: &mut Conn<'_>, entity: &str, id: &str, at_ms: u64) -> Result<bool, Fault> {
    let known = conn
        .query("UPDATE mintage_token SET revoked_ms = coalesce(revoked_ms, ?) WHERE entity = ? AND id = ?")
        .bind(read::signed(at_ms, "a time")?)
        .bind(entity)
        .bind(id)
        .execute(&mut *conn.link)
        .await?;
    Ok(known.rows_affected() > 0)
}

async fn prune(conn: &mut Conn<'_>, entity: &str, dead_by_ms: u64) -> Result<u64, Fault> {
    let dead_by_ms = read::signed(dead_by_ms, "a time")?;
    let forgotten = conn
        .query("DELETE FROM mintage_token WHERE entity = ? AND (expires_ms <= ? OR revoked_ms <= ?)")
        .bind(entity)
        .bind(dead_by_ms)
        .bind(dead_by_ms)
        .execute(&mut *conn.link)
        .await?;
    Ok(forgotten.rows_affected())
}

fn token(row: &SqliteRow) -> Result<TokenRow, Fault> {
    let hash: Option<&[u8]> = row.try_get("hash")?;
    let hash = hash.and_then(|hash| hash.try_into().ok()).ok_or_else(|| senseless("its hash is not 32 bytes"))?;
    let mut token =
        TokenRow::new(read::text(row, "entity")?, read::text(row, "id")?, hash, read::number(row, "issued_ms")?);
    let scopes = read::text(row, "scopes")?;
    token.scopes = scopes.split_terminator(BETWEEN_SCOPES).map(str::to_owned).collect();
    token.label = read::text(row, "label")?;
    token.expires_ms = read::optional_number(row, "expires_ms")?;
    token.revoked_ms = read::optional_number(row, "revoked_ms")?;
    token.check().map_err(|fault| senseless(&fault.to_string()))?;
    Ok(token)
}

fn senseless(why: &str) -> StoreError {
    corrupt(format!("a row of the tokens makes no sense ({why}): something else wrote it, restore the database"))
}
