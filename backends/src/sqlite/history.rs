//! The history of ranges in SQLite: who got which numbers, for 400 days.

use mintage_core::{IdRange, RangeGrant, RangeHistory, protocol::HISTORY_KEPT_MS};
use sqlx::sqlite::SqliteRow;

use super::{Conn, error::Fault, read};

/// Made where it is missing, so it has no version of the schema to itself.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS mintage_range (
    sequence TEXT NOT NULL,
    first INTEGER NOT NULL CHECK (first >= 0),
    last INTEGER NOT NULL CHECK (last >= first),
    version INTEGER NOT NULL CHECK (version > 0),
    instance TEXT NOT NULL,
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (sequence, first, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS mintage_range_by_time ON mintage_range (sequence, at_ms);
";

/// How many rows that are too old are deleted with each new one: more than come, and few enough for one transaction.
const PURGED_MAX: i64 = 100;

/// Ranges of a sequence do not overlap, so the one that begins last before a number holds it; a few more are looked at, for
/// somebody may have set the sequence back by hand.
const LOOKED_AT: i64 = 16;

pub(super) async fn is_there(conn: &mut Conn<'_>) -> Result<bool, Fault> {
    let tables: i64 = conn
        .scalar("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'mintage_range'")
        .fetch_one(&mut *conn.link)
        .await?;
    Ok(tables > 0)
}

/// Writes a range that is being cut, and deletes what is too old.
pub(super) async fn keep(conn: &mut Conn<'_>, range: &IdRange, instance: &str, now_ms: u64) -> Result<(), Fault> {
    conn.query(
        "INSERT INTO mintage_range (sequence, first, last, version, instance, at_ms) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO NOTHING",
    )
    .bind(&range.sequence)
    .bind(read::signed(range.start, "a number")?)
    .bind(read::signed_before(range.end, "a number")?)
    .bind(read::signed(range.version, "a version")?)
    .bind(instance)
    .bind(read::signed(now_ms, "a time")?)
    .execute(&mut *conn.link)
    .await?;
    conn.query(
        "DELETE FROM mintage_range WHERE (sequence, first, version) IN (
             SELECT sequence, first, version FROM mintage_range WHERE sequence = ? AND at_ms < ? LIMIT ?)",
    )
    .bind(&range.sequence)
    .bind(read::signed(now_ms.saturating_sub(HISTORY_KEPT_MS), "a time")?)
    .bind(PURGED_MAX)
    .execute(&mut *conn.link)
    .await?;
    Ok(())
}

/// Takes back what begins at `tail`, which may be that of several ranges: nobody has any number from there on.
pub(super) async fn shorten(conn: &mut Conn<'_>, tail: &IdRange) -> Result<(), Fault> {
    let start = read::signed(tail.start, "a number")?;
    let last = read::signed_before(tail.end, "a number")?;
    let gone = "DELETE FROM mintage_range WHERE sequence = ? AND first >= ? AND first <= ?";
    conn.query(gone).bind(&tail.sequence).bind(start).bind(last).execute(&mut *conn.link).await?;
    let shorter = "UPDATE mintage_range SET last = ?1 - 1 WHERE sequence = ?2 AND last >= ?1 AND first = (
                       SELECT max(first) FROM mintage_range WHERE sequence = ?2 AND first < ?1)";
    conn.query(shorter).bind(start).bind(&tail.sequence).execute(&mut *conn.link).await?;
    Ok(())
}

/// Who got the number.
pub(super) async fn of(conn: &mut Conn<'_>, sequence: &str, number: u64) -> Result<RangeHistory, Fault> {
    if !is_there(conn).await? {
        let why =
            "the database was made by a Mintage that kept no history of ranges, and no newer one has opened it to mint";
        return Ok(RangeHistory::lacking(why));
    }
    // Larger than any column can say: nobody.
    let Ok(number) = i64::try_from(number) else { return Ok(RangeHistory::default()) };
    let rows = conn
        .query(
            "SELECT first, last, instance, at_ms FROM mintage_range WHERE sequence = ? AND first <= ?
         ORDER BY first DESC, version DESC LIMIT ?",
        )
        .bind(sequence)
        .bind(number)
        .bind(LOOKED_AT)
        .fetch_all(&mut *conn.link)
        .await?;
    let mut grants: Vec<RangeGrant> = rows.iter().map(grant).collect::<Result<_, _>>()?;
    grants.retain(|grant| u64::try_from(number).is_ok_and(|number| grant.end > number));
    grants.sort_by_key(|grant| grant.at_ms);
    Ok(RangeHistory::of(grants))
}

fn grant(row: &SqliteRow) -> Result<RangeGrant, Fault> {
    let (start, end) = (read::number(row, "first")?, read::number_after(row, "last")?);
    Ok(RangeGrant::new(start, end, read::text(row, "instance")?, read::number(row, "at_ms")?))
}
