//! Gapless numbers in SQLite, inside the caller's transaction.
//!
//! The first statement writes, so that a transaction that has only begun takes the write lock here and waits for it as long as
//! its connection allows. SQLite has one writer at a time, so nothing can come between the statements.

use async_trait::async_trait;
use mintage_core::{Format, GaplessStore, Reservation, ReservationState, StoreError, TablePrefix, protocol};
use sqlx::{
    Sqlite,
    sqlite::{SqliteConnection, SqliteRow},
};

use super::{Conn, READ, SqliteStore, WRITE, error::Fault, range, read};
use crate::{
    gapless::{Counter, GaplessDatabase, Settled, Taken, another_database, sealed, state},
    rules,
};

/// Made only where a config asks for gapless numbers, so it has no version of the schema to itself.
const TABLE: &str = "
CREATE TABLE IF NOT EXISTS mintage_reservation (
    sequence TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    state TEXT NOT NULL CHECK (state IN ('open', 'confirmed', 'void')),
    note TEXT NOT NULL,
    reserved_ms INTEGER NOT NULL CHECK (reserved_ms >= 0),
    settled_ms INTEGER CHECK (settled_ms IS NULL OR settled_ms >= 0),
    reason TEXT,
    PRIMARY KEY (sequence, number)
) STRICT, WITHOUT ROWID;
";

#[async_trait]
impl GaplessStore for SqliteStore {
    async fn prepare(&self) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let made = work.conn().batch(TABLE).await;
            work.end(made).await
        })
        .await
    }

    async fn reservations(&self, prefix: &str) -> Result<Vec<Reservation>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = reservations(&mut work.conn(), prefix).await;
            work.end(rows).await
        })
        .await
    }
}

impl sealed::Sealed for Sqlite {}

impl GaplessDatabase for Sqlite {
    const MADE_OUTSIDE: bool = false;

    async fn take(
        link: &mut SqliteConnection,
        tables: &TablePrefix,
        counter: Counter<'_>,
    ) -> Result<Taken, StoreError> {
        take(&mut Conn { link, tables }, counter).await.map_err(Fault::inside)
    }

    async fn reserve(
        link: &mut SqliteConnection,
        tables: &TablePrefix,
        reservation: &Reservation,
    ) -> Result<(), StoreError> {
        reserve(&mut Conn { link, tables }, reservation).await.map_err(Fault::inside)
    }

    async fn settle(
        link: &mut SqliteConnection,
        tables: &TablePrefix,
        settled: &Reservation,
    ) -> Result<Settled, StoreError> {
        settle(&mut Conn { link, tables }, settled).await.map_err(Fault::inside)
    }
}

/// The least `PRAGMA synchronous` that keeps what was committed: `FULL`. Under `NORMAL` a power loss takes the last commits of a WAL
/// database, and a number would be given again that is on paper.
const SYNCHRONOUS_MIN: i64 = 2;

async fn take(conn: &mut Conn<'_>, counter: Counter<'_>) -> Result<Taken, Fault> {
    let name = &counter.sequence.name;
    let locked =
        conn.query("UPDATE mintage_sequence SET version = version WHERE name = ?").bind(name).execute(&mut *conn.link);
    if locked.await?.rows_affected() == 0 {
        make(conn, &counter).await?;
    }
    keeps_its_commits(conn).await?;
    let Some(before) = range::sequence_row(conn, name).await? else { return Ok(Taken::Missing) };
    range::not_stopped(conn, &before).await?;
    if before.next > counter.number_max {
        return Ok(Taken::Full);
    }
    let mut after = before.clone();
    let one = protocol::allocate(&mut after, counter.sequence, 1)?;
    range::replace(conn, &before, &after).await?;
    Ok(Taken::Number(one.start))
}

/// Refuses a connection of the caller's that may lose what it commits. It cannot be raised from here: SQLite does that only outside of
/// transactions.
async fn keeps_its_commits(conn: &mut Conn<'_>) -> Result<(), Fault> {
    let synchronous: i64 = conn.scalar("PRAGMA synchronous").fetch_one(&mut *conn.link).await?;
    if synchronous >= SYNCHRONOUS_MIN {
        return Ok(());
    }
    let name = if synchronous == 0 { "OFF" } else { "NORMAL" };
    Err(rules::refused(format!(
        "the connection of this transaction has synchronous = {name}, so a power loss can take back what it has committed, and this \
         number would be given again: open your connections with synchronous = FULL \
         (SqliteConnectOptions::synchronous(SqliteSynchronous::Full))"
    ))
    .into())
}

/// Makes a sequence that was never there. One that was recorded and is gone stays gone: its numbers would repeat.
async fn make(conn: &mut Conn<'_>, counter: &Counter<'_>) -> Result<(), Fault> {
    if !is_recorded(conn, counter.owner).await? {
        return Err(another_database(counter).into());
    }
    if is_recorded(conn, counter.record).await? {
        return Err(protocol::lost_sequence(counter.sequence).into());
    }
    range::create(conn, counter.sequence).await?;
    let format = Format::of("segment").with("sequence", &counter.sequence.name);
    conn.query("INSERT INTO mintage_format (entity, format) VALUES (?, ?)")
        .bind(counter.record)
        .bind(rules::format_text(counter.record, &format)?)
        .execute(&mut *conn.link)
        .await?;
    Ok(())
}

async fn is_recorded(conn: &mut Conn<'_>, record: &str) -> Result<bool, Fault> {
    let found: i64 = conn
        .scalar("SELECT count(*) FROM mintage_format WHERE entity = ?")
        .bind(record)
        .fetch_one(&mut *conn.link)
        .await?;
    Ok(found > 0)
}

async fn reserve(conn: &mut Conn<'_>, reservation: &Reservation) -> Result<(), Fault> {
    conn.query("INSERT INTO mintage_reservation (sequence, number, state, note, reserved_ms) VALUES (?, ?, ?, ?, ?)")
        .bind(&reservation.sequence)
        .bind(read::signed(reservation.number, "a number")?)
        .bind(reservation.state.name())
        .bind(&reservation.note)
        .bind(read::signed(reservation.reserved_ms, "a time")?)
        .execute(&mut *conn.link)
        .await?;
    Ok(())
}

async fn settle(conn: &mut Conn<'_>, settled: &Reservation) -> Result<Settled, Fault> {
    let number = read::signed(settled.number, "a number")?;
    let update = "UPDATE mintage_reservation SET state = ?, settled_ms = ?, reason = ? \
                  WHERE sequence = ? AND number = ? AND state = 'open'";
    let done = conn
        .query(update)
        .bind(settled.state.name())
        .bind(read::signed(settled.settled_ms.unwrap_or_default(), "a time")?)
        .bind(settled.reason.as_deref())
        .bind(&settled.sequence)
        .bind(number)
        .execute(&mut *conn.link)
        .await?;
    if done.rows_affected() == 1 {
        return Ok(Settled::Now);
    }
    let known: Option<String> = conn
        .scalar("SELECT state FROM mintage_reservation WHERE sequence = ? AND number = ?")
        .bind(&settled.sequence)
        .bind(number)
        .fetch_optional(&mut *conn.link)
        .await?;
    Ok(match known {
        Some(name) => Settled::Before(state(&name)?),
        None => Settled::Never,
    })
}

async fn reservations(conn: &mut Conn<'_>, prefix: &str) -> Result<Vec<Reservation>, Fault> {
    let rows = conn
        .query(
            "SELECT sequence, number, state, note, reserved_ms, settled_ms, reason FROM mintage_reservation \
         WHERE substr(sequence, 1, length(?1)) = ?1 ORDER BY sequence, number",
        )
        .bind(prefix)
        .fetch_all(&mut *conn.link)
        .await?;
    rows.iter().map(reservation).collect()
}

fn reservation(row: &SqliteRow) -> Result<Reservation, Fault> {
    let mut found = Reservation::new(
        read::text(row, "sequence")?,
        read::number(row, "number")?,
        read::text(row, "note")?,
        read::number(row, "reserved_ms")?,
    );
    found.state = state(&read::text(row, "state")?)?;
    found.settled_ms = read::optional_number(row, "settled_ms")?;
    found.reason = (found.state == ReservationState::Void).then(|| read::text(row, "reason")).transpose()?;
    Ok(found)
}
