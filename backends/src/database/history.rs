//! The history of ranges on a database server: who got which numbers, for 400 days.
//!
//! Its table has no part in the version of the schema. A database that was made before there was one goes on without: minting
//! never depends on history, but what the operator cannot look up later, he is told at the start.

use mintage_core::{IdRange, RangeGrant, protocol::HISTORY_KEPT_MS};

use super::{
    Work,
    dialect::Dialect,
    error::Fault,
    read::{self, Row},
    schema,
    session::Session,
};

/// Each of these changes nothing and asks for one of the privileges that history needs.
const PROBES: [&str; 3] = [
    "INSERT INTO mintage_range (sequence, first, last, version, instance, at_ms)
     SELECT sequence, first, last, version, instance, at_ms FROM mintage_range WHERE 1 = 0",
    "UPDATE mintage_range SET last = last WHERE 1 = 0",
    "DELETE FROM mintage_range WHERE 1 = 0",
];

/// How this process writes history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) instance: &'a str,
    pub(super) dialect: Dialect,
}

/// Makes the table where it is missing and says why no history is kept, if none can be. A reader, who does not `make`, is only told
/// whether there is one.
pub(super) async fn prepare(session: &mut Session, dialect: Dialect, make: bool) -> Result<Option<String>, Fault> {
    let is_there = schema::is_there(session, dialect, "mintage_range").await?;
    if !make {
        return Ok((!is_there).then(|| trouble(session)));
    }
    if !is_there {
        match schema::make_range(session, dialect).await {
            Ok(()) => {}
            Err(fault) if fault.is_forbidden() || fault.is_read_only() => return Ok(Some(trouble(session))),
            Err(fault) => return Err(fault),
        }
    }
    for probe in PROBES {
        match session.run(probe, &[]).await {
            Ok(_) => {}
            Err(fault) if fault.is_forbidden() => return Ok(Some(trouble(session))),
            // A standby takes no write at all; once it is promoted, it takes this one.
            Err(fault) if fault.is_read_only() => return Ok(None),
            Err(fault) => return Err(fault),
        }
    }
    Ok(None)
}

fn trouble(session: &Session) -> String {
    let table = session.tables().apply("mintage_range");
    format!(
        "no history of ranges is kept, so nobody can tell later which process had a number: the table {table} is missing, or this \
         user may not use it. Have somebody run what `mintage store ddl` prints about {table}, then start again"
    )
}

/// Writes a range that is being cut, and deletes what is too old: more rows than come, and few enough for one transaction.
pub(super) async fn keep(work: &mut Work, range: &IdRange, writer: Writer<'_>, now_ms: u64) -> Result<(), Fault> {
    let values = [
        (&range.sequence).into(),
        read::signed(range.start, "a number")?.into(),
        read::signed_before(range.end, "a number")?.into(),
        read::signed(range.version, "a version")?.into(),
        writer.instance.into(),
        read::signed(now_ms, "a time")?.into(),
    ];
    let insert = "INSERT INTO mintage_range (sequence, first, last, version, instance, at_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    // Whoever sets a sequence back by hand may cut again what is written already: history is no reason to refuse numbers.
    let insert = match writer.dialect {
        Dialect::Postgres => format!("{insert} ON CONFLICT (sequence, first, version) DO NOTHING"),
        Dialect::MySql => format!("{insert} ON DUPLICATE KEY UPDATE last = last"),
    };
    work.session.run(&insert, &values).await?;
    let purge = match writer.dialect {
        Dialect::Postgres => {
            "DELETE FROM mintage_range WHERE (sequence, first, version) IN (
                 SELECT sequence, first, version FROM mintage_range WHERE sequence = ?1 AND at_ms < ?2 LIMIT 100)"
        }
        Dialect::MySql => "DELETE FROM mintage_range WHERE sequence = ?1 AND at_ms < ?2 ORDER BY at_ms LIMIT 100",
    };
    let old_ms = read::signed(now_ms.saturating_sub(HISTORY_KEPT_MS), "a time")?;
    work.session.run(purge, &[(&range.sequence).into(), old_ms.into()]).await.map(drop)
}

/// Takes back what begins at `tail`, which may be that of several ranges: nobody has any number from there on.
pub(super) async fn shorten(work: &mut Work, tail: &IdRange) -> Result<(), Fault> {
    let start = read::signed(tail.start, "a number")?;
    let last = read::signed_before(tail.end, "a number")?;
    let gone = "DELETE FROM mintage_range WHERE sequence = ?1 AND first >= ?2 AND first <= ?3";
    work.session.run(gone, &[(&tail.sequence).into(), start.into(), last.into()]).await?;
    let latest = "SELECT first FROM mintage_range WHERE sequence = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1";
    let rows = work.session.fetch(latest, &[(&tail.sequence).into(), start.into()]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let shorter = "UPDATE mintage_range SET last = ?3 - 1 WHERE sequence = ?1 AND first = ?2 AND last >= ?3";
    let values = [(&tail.sequence).into(), read::integer(row, "first")?.into(), start.into()];
    work.session.run(shorter, &values).await.map(drop)
}

/// Who got the number.
pub(super) async fn of(work: &mut Work, sequence: &str, number: u64) -> Result<Vec<RangeGrant>, Fault> {
    // Larger than any column can say: nobody.
    let Ok(column) = i64::try_from(number) else { return Ok(Vec::new()) };
    // Ranges of a sequence do not overlap, so the one that begins last before the number holds it; a few more are looked at, for
    // somebody may have set the sequence back by hand.
    let select = "SELECT first, last, instance, at_ms FROM mintage_range WHERE sequence = ?1 AND first <= ?2 \
                  ORDER BY first DESC, version DESC LIMIT 16";
    let rows = work.session.fetch(select, &[sequence.into(), column.into()]).await?;
    let mut grants: Vec<RangeGrant> = rows.iter().map(grant).collect::<Result<_, _>>()?;
    grants.retain(|grant| grant.end > number);
    grants.sort_by_key(|grant| grant.at_ms);
    Ok(grants)
}

fn grant(row: &Row) -> Result<RangeGrant, Fault> {
    let (start, end) = (read::number(row, "first")?, read::number_after(row, "last")?);
    Ok(RangeGrant::new(start, end, read::text(row, "instance")?, read::number(row, "at_ms")?))
}
