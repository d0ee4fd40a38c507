//! The sequences that wait to be raised, since an operator declared that the database may have forgotten.
//!
//! The name `*` among them stands for what is not there: sequences are not made then, and new pools begin above all that can have
//! been granted. Among the sequences it has a row once somebody has said that nothing is missing: its version is the time, Unix ms.

use std::path::Path;

use mintage_core::protocol::UNLISTED;

use super::{Conn, error::Fault, read, schema};
use crate::rules::Records;

pub(super) async fn records(conn: &mut Conn<'_>) -> Result<Records, Fault> {
    let complete = !is_stopped(conn, UNLISTED).await?;
    let since = conn.query("SELECT version FROM mintage_sequence WHERE name = ?").bind(UNLISTED);
    let since = since.fetch_optional(&mut *conn.link).await?;
    let since_ms = since.map(|row| read::number(&row, "version")).transpose()?;
    Ok(Records::of(complete, since_ms.unwrap_or(0)))
}

/// Somebody has looked: nothing that is not there is in use.
pub(super) async fn vouch(conn: &mut Conn<'_>, path: &Path, now_ms: u64) -> Result<(), Fault> {
    go_on(conn, path, UNLISTED).await?;
    let note = "INSERT INTO mintage_sequence (name, last, version) VALUES (?, -1, ?) \
                ON CONFLICT (name) DO UPDATE SET version = excluded.version";
    let since = read::signed(now_ms, "a time")?;
    conn.query(note).bind(UNLISTED).bind(since).execute(&mut *conn.link).await?;
    Ok(())
}

pub(super) async fn is_stopped(conn: &mut Conn<'_>, name: &str) -> Result<bool, Fault> {
    let found: i64 = conn
        .scalar("SELECT count(*) FROM mintage_stopped WHERE name = ?")
        .bind(name)
        .fetch_one(&mut *conn.link)
        .await?;
    Ok(found > 0)
}

/// Of a database that may be of an earlier version: whoever looks does not upgrade it.
pub(super) async fn waiting(conn: &mut Conn<'_>) -> Result<Vec<String>, Fault> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'mintage_stopped'";
    let tables: i64 = conn.scalar(tables).fetch_one(&mut *conn.link).await?;
    if tables == 0 {
        return Ok(Vec::new());
    }
    Ok(conn.scalar("SELECT name FROM mintage_stopped ORDER BY name").fetch_all(&mut *conn.link).await?)
}

/// Stops what is not there, in a database that may be of an earlier version.
pub(super) async fn stop_unlisted(conn: &mut Conn<'_>, path: &Path) -> Result<(), Fault> {
    schema::prepare(conn, path).await?;
    let insert = "INSERT INTO mintage_stopped (name) VALUES (?) ON CONFLICT (name) DO NOTHING";
    conn.query(insert).bind(UNLISTED).execute(&mut *conn.link).await?;
    Ok(())
}

/// Stops every sequence, those that are not there too.
pub(super) async fn stop_all(conn: &mut Conn<'_>, path: &Path) -> Result<(), Fault> {
    stop_unlisted(conn, path).await?;
    // Without the condition SQLite would take ON for the beginning of a join.
    let insert = "INSERT INTO mintage_stopped (name) SELECT name FROM mintage_sequence WHERE true \
                  ON CONFLICT (name) DO NOTHING";
    conn.query(insert).execute(&mut *conn.link).await?;
    Ok(())
}

pub(super) async fn go_on(conn: &mut Conn<'_>, path: &Path, name: &str) -> Result<(), Fault> {
    schema::prepare(conn, path).await?;
    conn.query("DELETE FROM mintage_stopped WHERE name = ?").bind(name).execute(&mut *conn.link).await?;
    Ok(())
}
