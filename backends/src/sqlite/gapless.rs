//! Gapless numbers in SQLite, inside the caller's transaction.
//!
//! The first statement writes, so that a transaction that has only begun takes the write lock here and waits for it as long as
//! its connection allows. SQLite has one writer at a time, so nothing can come between the statements.

use async_trait::async_trait;
use mintage_core::{Format, GaplessStore, Reservation, ReservationState, StoreError, protocol};
use sqlx::{
    Sqlite,
    sqlite::{SqliteConnection, SqliteRow},
};

use super::{READ, SqliteStore, WRITE, error::Fault, range, read};
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
            let made = sqlx::raw_sql(TABLE).execute(&mut work.conn).await.map(drop).map_err(Fault::from);
            work.end(made).await
        })
        .await
    }

    async fn reservations(&self, prefix: &str) -> Result<Vec<Reservation>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = reservations(&mut work.conn, prefix).await;
            work.end(rows).await
        })
        .await
    }
}

impl sealed::Sealed for Sqlite {}

impl GaplessDatabase for Sqlite {
    const MADE_OUTSIDE: bool = false;

    async fn take(connection: &mut SqliteConnection, counter: Counter<'_>) -> Result<Taken, StoreError> {
        take(connection, counter).await.map_err(Fault::inside)
    }

    async fn reserve(connection: &mut SqliteConnection, reservation: &Reservation) -> Result<(), StoreError> {
        reserve(connection, reservation).await.map_err(Fault::inside)
    }

    async fn settle(connection: &mut SqliteConnection, settled: &Reservation) -> Result<Settled, StoreError> {
        settle(connection, settled).await.map_err(Fault::inside)
    }
}

async fn take(conn: &mut SqliteConnection, counter: Counter<'_>) -> Result<Taken, Fault> {
    let name = &counter.sequence.name;
    let locked =
        sqlx::query("UPDATE mintage_sequence SET version = version WHERE name = ?").bind(name).execute(&mut *conn);
    if locked.await?.rows_affected() == 0 {
        make(conn, &counter).await?;
    }
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

/// Makes a sequence that was never there. One that was recorded and is gone stays gone: its numbers would repeat.
async fn make(conn: &mut SqliteConnection, counter: &Counter<'_>) -> Result<(), Fault> {
    if !is_recorded(conn, counter.owner).await? {
        return Err(another_database(counter).into());
    }
    if is_recorded(conn, counter.record).await? {
        return Err(protocol::lost_sequence(counter.sequence).into());
    }
    range::create(conn, counter.sequence).await?;
    let format = Format::of("segment").with("sequence", &counter.sequence.name);
    sqlx::query("INSERT INTO mintage_format (entity, format) VALUES (?, ?)")
        .bind(counter.record)
        .bind(rules::format_text(counter.record, &format)?)
        .execute(conn)
        .await?;
    Ok(())
}

async fn is_recorded(conn: &mut SqliteConnection, record: &str) -> Result<bool, Fault> {
    let found: i64 =
        sqlx::query_scalar("SELECT count(*) FROM mintage_format WHERE entity = ?").bind(record).fetch_one(conn).await?;
    Ok(found > 0)
}

async fn reserve(conn: &mut SqliteConnection, reservation: &Reservation) -> Result<(), Fault> {
    sqlx::query("INSERT INTO mintage_reservation (sequence, number, state, note, reserved_ms) VALUES (?, ?, ?, ?, ?)")
        .bind(&reservation.sequence)
        .bind(read::signed(reservation.number, "a number")?)
        .bind(reservation.state.name())
        .bind(&reservation.note)
        .bind(read::signed(reservation.reserved_ms, "a time")?)
        .execute(conn)
        .await?;
    Ok(())
}

async fn settle(conn: &mut SqliteConnection, settled: &Reservation) -> Result<Settled, Fault> {
    let number = read::signed(settled.number, "a number")?;
    let update = "UPDATE mintage_reservation SET state = ?, settled_ms = ?, reason = ? \
                  WHERE sequence = ? AND number = ? AND state = 'open'";
    let done = sqlx::query(update)
        .bind(settled.state.name())
        .bind(read::signed(settled.settled_ms.unwrap_or_default(), "a time")?)
        .bind(settled.reason.as_deref())
        .bind(&settled.sequence)
        .bind(number)
        .execute(&mut *conn)
        .await?;
    if done.rows_affected() == 1 {
        return Ok(Settled::Now);
    }
    let known: Option<String> =
        sqlx::query_scalar("SELECT state FROM mintage_reservation WHERE sequence = ? AND number = ?")
            .bind(&settled.sequence)
            .bind(number)
            .fetch_optional(conn)
            .await?;
    Ok(match known {
        Some(name) => Settled::Before(state(&name)?),
        None => Settled::Never,
    })
}

async fn reservations(conn: &mut SqliteConnection, prefix: &str) -> Result<Vec<Reservation>, Fault> {
    let rows = sqlx::query(
        "SELECT sequence, number, state, note, reserved_ms, settled_ms, reason FROM mintage_reservation \
         WHERE substr(sequence, 1, length(?1)) = ?1 ORDER BY sequence, number",
    )
    .bind(prefix)
    .fetch_all(conn)
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
