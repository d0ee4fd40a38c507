//! The tables, and which version of them a database has.

use std::path::Path;

use mintage_core::TablePrefix;

use super::{Conn, error::Fault, history, read};
use crate::rules::{corrupt, refused};

/// What this code makes and understands. A database of a higher version is left alone, one of a lower version is brought up
/// to it.
const VERSION: i64 = 3;

/// Every name carries the prefix, so that the tables can stand in an application's own database.
///
/// `mintage_sequence.last` is one less than the next number, and -1 before number 0: the next number can be 2^63, which a
/// signed column cannot hold, so the end of a sequence is an ordinary row with `last` = 9223372036854775807.
///
/// There is no column for the identity of the physical store: one file with `synchronous = FULL` does not forget what it
/// committed, so only an operator's bump, after a backup was restored, begins a new life: `inc`, and `mintage_stopped`.
///
/// These are the tables of version 1. [`STEPS`] does the rest, so that a new database and an upgraded one are the same.
const TABLES: &str = "
CREATE TABLE mintage_schema (version INTEGER NOT NULL CHECK (version > 0)) STRICT;
INSERT INTO mintage_schema (version) VALUES (1);

CREATE TABLE mintage_pool (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    block_start INTEGER NOT NULL CHECK (block_start >= 0),
    block_len INTEGER NOT NULL CHECK (block_len > 0),
    inc INTEGER NOT NULL CHECK (inc > 0),
    floor_min_ms INTEGER NOT NULL CHECK (floor_min_ms >= 0),
    window_max_ms INTEGER NOT NULL CHECK (window_max_ms > 0),
    ahead_max_ms INTEGER NOT NULL CHECK (ahead_max_ms >= 0),
    guard_ms INTEGER NOT NULL CHECK (guard_ms >= 0),
    granted_at_ms INTEGER NOT NULL CHECK (granted_at_ms >= 0),
    PRIMARY KEY (pool, region)
) STRICT, WITHOUT ROWID;

CREATE TABLE mintage_worker (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    inc INTEGER NOT NULL CHECK (inc >= 0),
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    holder BLOB CHECK (holder IS NULL OR length(holder) = 16),
    instance TEXT NOT NULL,
    start_ms INTEGER NOT NULL CHECK (start_ms >= 0),
    floor_ms INTEGER NOT NULL CHECK (floor_ms >= 0),
    expires_ms INTEGER NOT NULL CHECK (expires_ms >= 0),
    free_after_ms INTEGER NOT NULL CHECK (free_after_ms >= 0),
    revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),
    holder_clock_ms INTEGER NOT NULL CHECK (holder_clock_ms >= 0),
    renewed_ms INTEGER NOT NULL CHECK (renewed_ms >= 0),
    PRIMARY KEY (pool, region, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE mintage_grant (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    inc INTEGER NOT NULL CHECK (inc > 0),
    epoch INTEGER NOT NULL CHECK (epoch > 0),
    instance TEXT NOT NULL,
    from_ms INTEGER NOT NULL CHECK (from_ms >= 0),
    to_ms INTEGER NOT NULL CHECK (to_ms >= from_ms),
    PRIMARY KEY (pool, region, worker, inc, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX mintage_grant_by_end ON mintage_grant (pool, region, to_ms);

CREATE TABLE mintage_sequence (
    name TEXT NOT NULL PRIMARY KEY,
    last INTEGER NOT NULL CHECK (last >= -1),
    version INTEGER NOT NULL CHECK (version >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE mintage_range_key (
    sequence TEXT NOT NULL,
    key TEXT NOT NULL,
    asked INTEGER NOT NULL CHECK (asked > 0),
    first INTEGER NOT NULL CHECK (first >= 0),
    last INTEGER NOT NULL CHECK (last >= first),
    version INTEGER NOT NULL CHECK (version > 0),
    made_ms INTEGER NOT NULL CHECK (made_ms >= 0),
    PRIMARY KEY (sequence, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX mintage_range_key_by_time ON mintage_range_key (made_ms);
CREATE INDEX mintage_range_key_by_version ON mintage_range_key (sequence, version);

CREATE TABLE mintage_format (
    entity TEXT NOT NULL PRIMARY KEY,
    format TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// What leads to each version from the one before: the first step from 1 to 2.
const STEPS: &[(i64, &str)] = &[(2, TOKENS), (3, STOPPED)];

/// Version 2: bearer tokens. `scopes` holds them with a space between two.
const TOKENS: &str = "
CREATE TABLE mintage_token (
    entity TEXT NOT NULL,
    id TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    scopes TEXT NOT NULL,
    label TEXT NOT NULL,
    issued_ms INTEGER NOT NULL CHECK (issued_ms >= 0),
    expires_ms INTEGER CHECK (expires_ms IS NULL OR expires_ms >= 0),
    revoked_ms INTEGER CHECK (revoked_ms IS NULL OR revoked_ms >= 0),
    PRIMARY KEY (entity, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mintage_token_by_hash ON mintage_token (entity, hash);
";

/// Version 3: the sequences that wait to be raised since an operator's bump, `*` among them for those that are not there.
const STOPPED: &str = "
CREATE TABLE mintage_stopped (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
";

/// Makes the tables, or brings them to the version this code understands. Needs a transaction that may write: of several
/// processes that open a database at once, one makes or upgrades the tables and the others find them.
pub(super) async fn prepare(conn: &mut Conn<'_>, path: &Path) -> Result<(), Fault> {
    if !is_made(conn).await? {
        conn.batch(TABLES).await?;
    } else {
        // Changes nothing and says "read-only", which BEGIN IMMEDIATE does not say.
        conn.query("UPDATE mintage_schema SET version = version WHERE false").execute(&mut *conn.link).await?;
    }
    let found = version(conn, path).await?;
    for (version, step) in STEPS.iter().filter(|(version, _)| *version > found) {
        conn.batch(step).await?;
        conn.query("UPDATE mintage_schema SET version = ?").bind(version).execute(&mut *conn.link).await?;
    }
    conn.batch(history::TABLE).await?;
    Ok(())
}

/// Whether there are tables, which then are of a version that this code understands. Makes and upgrades none.
pub(super) async fn find(conn: &mut Conn<'_>, path: &Path) -> Result<bool, Fault> {
    let found = is_made(conn).await?;
    if found {
        version(conn, path).await?;
    }
    Ok(found)
}

/// The statements that make the tables, all steps in one.
pub(super) fn ddl(tables: &TablePrefix) -> String {
    let steps: String =
        STEPS.iter().map(|(version, step)| format!("{step}UPDATE mintage_schema SET version = {version};\n")).collect();
    tables.apply(&format!("{}{steps}{}", TABLES.trim_start(), history::TABLE)).into_owned()
}

async fn is_made(conn: &mut Conn<'_>) -> Result<bool, Fault> {
    let tables: i64 =
        // The name is a text here, and changed with the statement like all others.
        conn.scalar("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'mintage_schema'")
            .fetch_one(&mut *conn.link)
            .await?;
    Ok(tables > 0)
}

/// The version of the database, which this code knows.
async fn version(conn: &mut Conn<'_>, path: &Path) -> Result<i64, Fault> {
    let rows = conn.query("SELECT version FROM mintage_schema").fetch_all(&mut *conn.link).await?;
    let table = conn.tables.apply("mintage_schema");
    let [row] = rows.as_slice() else {
        return Err(corrupt(format!(
            "{}: {table} has {} rows instead of one: restore the database",
            path.display(),
            rows.len()
        ))
        .into());
    };
    match read::integer(row, "version")? {
        known if (1..=VERSION).contains(&known) => Ok(known),
        newer if newer > VERSION => Err(refused(format!(
            "{}: written by a newer Mintage (schema {newer}, this one knows {VERSION}): use that version here too",
            path.display()
        ))
        .into()),
        other => Err(corrupt(format!(
            "{}: {table} says version {other}, which never existed: restore the database",
            path.display()
        ))
        .into()),
    }
}
