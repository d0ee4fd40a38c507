//! Gapless numbers on a database server, inside the caller's transaction.
//!
//! Who the server is, is asked before the counter is locked: a server cannot become another one inside a transaction, and others
//! wait for the lock.

use async_trait::async_trait;
#[cfg(feature = "postgres")]
use mintage_core::Format;
use mintage_core::{GaplessStore, Reservation, ReservationState, StoreError, TablePrefix, protocol};
#[cfg(feature = "mysql")]
use sqlx::mysql::MySqlConnection;
#[cfg(feature = "postgres")]
use sqlx::postgres::PgConnection;

#[cfg(feature = "mysql")]
use super::mysql;
use super::{
    DatabaseStore, Work,
    error::Fault,
    range::{self, Counter as Row},
    read, schema,
    session::Value,
};
#[cfg(feature = "postgres")]
use super::{postgres, unlisted};
use crate::{
    gapless::{Counter, GaplessDatabase, Settled, Taken, sealed, state},
    rules::corrupt,
};

#[async_trait]
impl GaplessStore for DatabaseStore {
    async fn prepare(&self) -> Result<(), StoreError> {
        self.transaction(|mut work| async move {
            let made = schema::prepare_gapless(&mut work.session, self.dialect()).await;
            (work, made)
        })
        .await
    }

    async fn reservations(&self, prefix: &str) -> Result<Vec<Reservation>, StoreError> {
        self.transaction(|mut work| async move {
            let rows = reservations(&mut work, prefix).await;
            (work, rows)
        })
        .await
    }
}

#[cfg(feature = "postgres")]
impl sealed::Sealed for sqlx::Postgres {}

#[cfg(feature = "postgres")]
impl GaplessDatabase for sqlx::Postgres {
    const MADE_OUTSIDE: bool = false;

    async fn take(
        connection: &mut PgConnection,
        tables: &TablePrefix,
        counter: Counter<'_>,
    ) -> Result<Taken, StoreError> {
        let mut guest = Guest { connection, tables };
        let taken = async {
            // The caller's session may commit before the disk has it: then a crash gives a number again that is on paper.
            postgres::run(guest.connection, postgres::DURABLE, &[]).await?;
            match take(&mut guest, counter).await? {
                Taken::Missing => {
                    make(&mut guest, &counter).await?;
                    take(&mut guest, counter).await
                }
                taken => Ok(taken),
            }
        };
        taken.await.map_err(Fault::inside)
    }

    async fn reserve(
        connection: &mut PgConnection,
        tables: &TablePrefix,
        reservation: &Reservation,
    ) -> Result<(), StoreError> {
        reserve(&mut Guest { connection, tables }, reservation).await.map_err(Fault::inside)
    }

    async fn settle(
        connection: &mut PgConnection,
        tables: &TablePrefix,
        settled: &Reservation,
    ) -> Result<Settled, StoreError> {
        settle(&mut Guest { connection, tables }, settled).await.map_err(Fault::inside)
    }
}

#[cfg(feature = "mysql")]
impl sealed::Sealed for sqlx::MySql {}

#[cfg(feature = "mysql")]
impl GaplessDatabase for sqlx::MySql {
    const MADE_OUTSIDE: bool = true;

    async fn take(
        connection: &mut MySqlConnection,
        tables: &TablePrefix,
        counter: Counter<'_>,
    ) -> Result<Taken, StoreError> {
        take(&mut Guest { connection, tables }, counter).await.map_err(Fault::inside)
    }

    async fn reserve(
        connection: &mut MySqlConnection,
        tables: &TablePrefix,
        reservation: &Reservation,
    ) -> Result<(), StoreError> {
        reserve(&mut Guest { connection, tables }, reservation).await.map_err(Fault::inside)
    }

    async fn settle(
        connection: &mut MySqlConnection,
        tables: &TablePrefix,
        settled: &Reservation,
    ) -> Result<Settled, StoreError> {
        settle(&mut Guest { connection, tables }, settled).await.map_err(Fault::inside)
    }
}

/// A connection that somebody else opened and has a transaction on, and what our tables are called there.
struct Guest<'c, C> {
    connection: &'c mut C,
    tables: &'c TablePrefix,
}

trait Lent: Send {
    fn fetch(&mut self, sql: &str, values: &[Value<'_>]) -> impl Future<Output = Result<Vec<read::Row>, Fault>> + Send;

    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Which physical server answers.
    fn incarnation(&mut self) -> impl Future<Output = Result<String, Fault>> + Send;
}

#[cfg(feature = "postgres")]
impl Lent for Guest<'_, PgConnection> {
    async fn fetch(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<read::Row>, Fault> {
        postgres::fetch(self.connection, &postgres::spelled(&self.tables.apply(sql)), values).await
    }

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        postgres::run(self.connection, &postgres::spelled(&self.tables.apply(sql)), values).await
    }

    async fn incarnation(&mut self) -> Result<String, Fault> {
        incarnation_of(&postgres::fetch(self.connection, postgres::MOMENT, &[]).await?)
    }
}

#[cfg(feature = "mysql")]
impl Lent for Guest<'_, MySqlConnection> {
    async fn fetch(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<read::Row>, Fault> {
        let (sql, order) = mysql::spelled(&self.tables.apply(sql));
        mysql::fetch(self.connection, &sql, &mysql::in_order(&order, values)).await
    }

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let (sql, order) = mysql::spelled(&self.tables.apply(sql));
        mysql::run(self.connection, &sql, &mysql::in_order(&order, values)).await
    }

    async fn incarnation(&mut self) -> Result<String, Fault> {
        let moment = mysql::moment_of(self.connection).await?;
        incarnation_of(&mysql::fetch(self.connection, moment, &[]).await?)
    }
}

fn incarnation_of(rows: &[read::Row]) -> Result<String, Fault> {
    read::text(rows.first().ok_or(Fault::Driver(sqlx::Error::RowNotFound))?, "incarnation")
}

async fn take(lent: &mut impl Lent, counter: Counter<'_>) -> Result<Taken, Fault> {
    let incarnation = lent.incarnation().await?;
    let rows = lent.fetch(range::LOCK, &[(&counter.sequence.name).into()]).await?;
    let Some(row) = rows.first() else { return Ok(Taken::Missing) };
    let before = Row::read(row)?;
    if before.incarnation != incarnation {
        return Err(range::another_server(&before, &incarnation).into());
    }
    if before.row.next > counter.number_max {
        return Ok(Taken::Full);
    }
    let mut after = before.row.clone();
    let one = protocol::allocate(&mut after, counter.sequence, 1)?;
    let values = range::replacement(&before.row, &after, &incarnation)?;
    if lent.run(range::REPLACE, &values).await? != 1 {
        let message = format!("sequence {} changed while it was locked: restore the database", after.name);
        return Err(corrupt(message).into());
    }
    Ok(Taken::Number(one.start))
}

/// Makes a sequence that was never there. One that was recorded and is gone stays gone: its numbers would repeat.
#[cfg(feature = "postgres")]
async fn make(lent: &mut impl Lent, counter: &Counter<'_>) -> Result<(), Fault> {
    let record = "SELECT entity FROM mintage_format WHERE entity = ?1";
    if lent.fetch(record, &[counter.owner.into()]).await?.is_empty() {
        return Err(crate::gapless::another_database(counter).into());
    }
    if !lent.fetch(record, &[counter.record.into()]).await?.is_empty() {
        // Recorded and there: another transaction made it since we looked.
        let there = lent.fetch(range::LOCK, &[(&counter.sequence.name).into()]).await?;
        return if there.is_empty() { Err(protocol::lost_sequence(counter.sequence).into()) } else { Ok(()) };
    }
    let incarnation = lent.incarnation().await?;
    // Until the caller has committed nobody can declare that rows may be missing: this one would look like one of afterwards.
    let complete_in = lent.fetch(unlisted::COMPLETE_IN_SHARED, &[protocol::UNLISTED.into()]).await?;
    let memory = unlisted::of_row(complete_in.first(), &incarnation)?;
    crate::rules::may_be_made(counter.sequence, memory)?;
    let row = protocol::new_sequence(counter.sequence)?;
    let values = [
        (&row.name).into(),
        (&incarnation).into(),
        read::signed_before(row.next, "a start")?.into(),
        read::signed(row.version, "a version")?.into(),
    ];
    // Waits for another transaction that makes it, and does nothing if that one commits.
    lent.run(&format!("{} ON CONFLICT (name) DO NOTHING", range::INSERT), &values).await?;
    let format = Format::of("segment").with("sequence", &row.name);
    let format = crate::rules::format_text(counter.record, &format)?;
    let insert = "INSERT INTO mintage_format (entity, format) VALUES (?1, ?2) ON CONFLICT (entity) DO NOTHING";
    lent.run(insert, &[counter.record.into(), (&format).into()]).await.map(drop)
}

async fn reserve(lent: &mut impl Lent, reservation: &Reservation) -> Result<(), Fault> {
    let values = [
        (&reservation.sequence).into(),
        read::signed(reservation.number, "a number")?.into(),
        reservation.state.name().into(),
        (&reservation.note).into(),
        read::signed(reservation.reserved_ms, "a time")?.into(),
    ];
    let insert =
        "INSERT INTO mintage_reservation (sequence, number, state, note, reserved_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
    lent.run(insert, &values).await.map(drop)
}

async fn settle(lent: &mut impl Lent, settled: &Reservation) -> Result<Settled, Fault> {
    let at = read::signed(settled.settled_ms.unwrap_or_default(), "a time")?;
    let which: [Value<'_>; 4] = [
        (&settled.sequence).into(),
        read::signed(settled.number, "a number")?.into(),
        settled.state.name().into(),
        at.into(),
    ];
    let done = match &settled.reason {
        Some(reason) => {
            let [sequence, number, state, at] = which.clone();
            let update = "UPDATE mintage_reservation SET state = ?3, settled_ms = ?4, reason = ?5 \
                          WHERE sequence = ?1 AND number = ?2 AND state = 'open'";
            lent.run(update, &[sequence, number, state, at, reason.into()]).await?
        }
        None => {
            let update = "UPDATE mintage_reservation SET state = ?3, settled_ms = ?4 \
                          WHERE sequence = ?1 AND number = ?2 AND state = 'open'";
            lent.run(update, &which).await?
        }
    };
    if done == 1 {
        return Ok(Settled::Now);
    }
    let [sequence, number, ..] = which;
    // Locked, so that it is what stands there and not what this transaction saw when it began.
    let select = "SELECT state FROM mintage_reservation WHERE sequence = ?1 AND number = ?2 FOR UPDATE";
    Ok(match lent.fetch(select, &[sequence, number]).await?.first() {
        Some(row) => Settled::Before(state(&read::text(row, "state")?)?),
        None => Settled::Never,
    })
}

async fn reservations(work: &mut Work, prefix: &str) -> Result<Vec<Reservation>, Fault> {
    let rows = work
        .session
        .fetch(
            "SELECT sequence, number, state, note, reserved_ms, settled_ms, reason FROM mintage_reservation \
             WHERE left(sequence, length(?1)) = ?1",
            &[prefix.into()],
        )
        .await?;
    let mut found: Vec<Reservation> = rows.iter().map(reservation).collect::<Result<_, _>>()?;
    // Here, because each database sorts by rules of its own.
    found.sort_by(|one, other| (&one.sequence, one.number).cmp(&(&other.sequence, other.number)));
    Ok(found)
}

fn reservation(row: &read::Row) -> Result<Reservation, Fault> {
    let mut found = Reservation::new(
        read::text(row, "sequence")?,
        read::number(row, "number")?,
        read::text(row, "note")?,
        read::number(row, "reserved_ms")?,
    );
    found.state = state(&read::text(row, "state")?)?;
    found.settled_ms = (found.state != ReservationState::Open).then(|| read::number(row, "settled_ms")).transpose()?;
    found.reason = (found.state == ReservationState::Void).then(|| read::text(row, "reason")).transpose()?;
    Ok(found)
}
