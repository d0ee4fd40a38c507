//! Bearer tokens on a database server.

use async_trait::async_trait;
use mintage_core::{StoreError, TokenRow, TokenStore};

use super::{
    DatabaseStore, Work,
    error::Fault,
    read::{self, Row},
};
use crate::rules::{self, corrupt};

/// Stands between two scopes in their column: no scope holds it.
const BETWEEN_SCOPES: char = ' ';

#[async_trait]
impl TokenStore for DatabaseStore {
    async fn insert(&self, row: &TokenRow) -> Result<(), StoreError> {
        row.check()?;
        self.transaction(|mut work| async move {
            let kept = insert(&mut work, row).await;
            (work, kept)
        })
        .await
    }

    async fn find(&self, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.transaction(|mut work| async move {
            let found = find(&mut work, entity, hash).await;
            (work, found)
        })
        .await
    }

    async fn list(&self, entity: &str) -> Result<Vec<TokenRow>, StoreError> {
        self.transaction(|mut work| async move {
            let rows = list(&mut work, entity).await;
            (work, rows)
        })
        .await
    }

    async fn revoke(&self, entity: &str, id: &str, at_ms: u64) -> Result<bool, StoreError> {
        self.transaction(|mut work| async move {
            let revoked = revoke(&mut work, entity, id, at_ms).await;
            (work, revoked)
        })
        .await
    }

    async fn prune(&self, entity: &str, dead_by_ms: u64) -> Result<u64, StoreError> {
        self.transaction(|mut work| async move {
            let forgotten = prune(&mut work, entity, dead_by_ms).await;
            (work, forgotten)
        })
        .await
    }
}

async fn insert(work: &mut Work, row: &TokenRow) -> Result<(), Fault> {
    let time = |ms: Option<u64>| ms.map(|ms| read::signed(ms, "a time")).transpose();
    let scopes = row.scopes.join(&BETWEEN_SCOPES.to_string());
    let values = [
        (&row.entity).into(),
        (&row.id).into(),
        (&row.hash).into(),
        (&scopes).into(),
        (&row.label).into(),
        time(Some(row.issued_ms))?.into(),
        time(row.expires_ms)?.into(),
        time(row.revoked_ms)?.into(),
    ];
    let insert = "INSERT INTO mintage_token (entity, id, hash, scopes, label, issued_ms, expires_ms, revoked_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    match work.session.run(insert, &values).await {
        Ok(_) => Ok(()),
        Err(fault) if fault.is_duplicate() => Err(rules::token_is_there(row).into()),
        Err(fault) => Err(fault),
    }
}

async fn find(work: &mut Work, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, Fault> {
    let select = "SELECT entity, id, hash, scopes, label, issued_ms, expires_ms, revoked_ms FROM mintage_token \
                  WHERE entity = ?1 AND hash = ?2";
    let rows = work.session.fetch(select, &[entity.into(), hash.into()]).await?;
    rows.first().map(token).transpose()
}

async fn list(work: &mut Work, entity: &str) -> Result<Vec<TokenRow>, Fault> {
    let select = "SELECT entity, id, hash, scopes, label, issued_ms, expires_ms, revoked_ms FROM mintage_token \
                  WHERE entity = ?1";
    let rows = work.session.fetch(select, &[entity.into()]).await?;
    let mut rows: Vec<TokenRow> = rows.iter().map(token).collect::<Result<_, _>>()?;
    // Here, because each database sorts by rules of its own.
    rows.sort_by(|one, other| (one.issued_ms, &one.id).cmp(&(other.issued_ms, &other.id)));
    Ok(rows)
}

async fn revoke(work: &mut Work, entity: &str, id: &str, at_ms: u64) -> Result<bool, Fault> {
    let update = "UPDATE mintage_token SET revoked_ms = COALESCE(revoked_ms, ?1) WHERE entity = ?2 AND id = ?3";
    let values = [read::signed(at_ms, "a time")?.into(), entity.into(), id.into()];
    Ok(work.session.run(update, &values).await? > 0)
}

async fn prune(work: &mut Work, entity: &str, dead_by_ms: u64) -> Result<u64, Fault> {
    let delete = "DELETE FROM mintage_token WHERE entity = ?1 AND (expires_ms <= ?2 OR revoked_ms <= ?2)";
    work.session.run(delete, &[entity.into(), read::signed(dead_by_ms, "a time")?.into()]).await
}

fn token(row: &Row) -> Result<TokenRow, Fault> {
    let mut token = TokenRow::new(
        read::text(row, "entity")?,
        read::text(row, "id")?,
        read::hash(row, "hash")?,
        read::number(row, "issued_ms")?,
    );
    token.scopes = read::text(row, "scopes")?.split_terminator(BETWEEN_SCOPES).map(str::to_owned).collect();
    token.label = read::text(row, "label")?;
    token.expires_ms = read::optional_number(row, "expires_ms")?;
    token.revoked_ms = read::optional_number(row, "revoked_ms")?;
    token.check().map_err(|fault| senseless(&fault.to_string()))?;
    Ok(token)
}

fn senseless(why: &str) -> StoreError {
    corrupt(format!("a row of the tokens makes no sense ({why}): something else wrote it, restore the database"))
}
