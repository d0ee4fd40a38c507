//! The row `*` among the sequences: in which life the database was known to be complete.
//!
//! A promoted standby lacks not only the last changes of rows, but also the rows that came last. A pool or sequence that is not there
//! may be made only in the life that this row names; in any other it may have been forgotten, and the row itself never changes by
//! itself. Its version is the time at which somebody said so, Unix ms; 0 where nobody had to. No sequence has this name.

use std::collections::BTreeSet;

use mintage_core::protocol::UNLISTED;

use super::{
    Work,
    error::Fault,
    range,
    read::{self, Row},
    session::Session,
};
use crate::rules::Records;

/// What no life is called: an operator has declared that the database may have forgotten.
const STOPPED: &str = "";

/// Makes the row with the tables, or for tables of before it was thought of: with the life that all of them name. Where they name
/// several, somebody has to look.
pub(super) async fn prepare(session: &mut Session) -> Result<(), Fault> {
    let known = session.fetch("SELECT name FROM mintage_sequence WHERE name = ?1", &[UNLISTED.into()]).await?;
    if !known.is_empty() {
        return Ok(());
    }
    let lives = session
        .fetch("SELECT incarnation FROM mintage_pool UNION SELECT incarnation FROM mintage_sequence", &[])
        .await?;
    let lives: BTreeSet<String> = lives.iter().map(|row| read::text(row, "incarnation")).collect::<Result<_, _>>()?;
    let mut lives = lives.into_iter();
    let life = match (lives.next(), lives.next()) {
        (None, _) => read::text(&session.moment().await?, "incarnation")?,
        (Some(life), None) => life,
        (Some(_), Some(_)) => STOPPED.to_owned(),
    };
    insert(session, &life).await
}

/// The row, locked against whoever would change it. Others may read it so too: an application's transaction that begins a period
/// goes on for as long as it likes, and keeps nobody from making a pool.
#[cfg(feature = "postgres")]
pub(super) const COMPLETE_IN_SHARED: &str =
    "SELECT name, incarnation, last, version FROM mintage_sequence WHERE name = ?1 FOR SHARE";

/// Whether what is not there was never there. The row stays locked: nobody declares anything else meanwhile.
pub(super) async fn records(work: &mut Work, incarnation: &str) -> Result<Records, Fault> {
    let lock = work.session.complete_in();
    let rows = work.session.fetch(lock, &[UNLISTED.into()]).await?;
    of_row(rows.first(), incarnation)
}

pub(super) fn of_row(row: Option<&Row>, incarnation: &str) -> Result<Records, Fault> {
    let Some(row) = row else { return Ok(Records::Unsure) };
    let complete = range::Counter::read(row)?;
    Ok(Records::of(complete.incarnation == incarnation, complete.row.version))
}

/// Somebody has looked: nothing that is not there is in use.
pub(super) async fn vouch(work: &mut Work) -> Result<(), Fault> {
    let moment = work.moment().await?;
    insert(&mut work.session, &moment.incarnation).await?;
    let since = read::signed(moment.now_ms, "a time")?;
    let update = "UPDATE mintage_sequence SET incarnation = ?2, version = ?3 WHERE name = ?1";
    work.session.run(update, &[UNLISTED.into(), (&moment.incarnation).into(), since.into()]).await.map(drop)
}

/// The database may have forgotten pools: those that are there are bumped when they are used next, and new ones begin above all that
/// can have been granted.
pub(super) async fn stop_pools(work: &mut Work) -> Result<(), Fault> {
    stop(work).await?;
    work.session.run("UPDATE mintage_pool SET incarnation = ?1", &[STOPPED.into()]).await.map(drop)
}

/// The database may have forgotten ranges: every sequence waits to be raised.
pub(super) async fn stop_sequences(work: &mut Work) -> Result<(), Fault> {
    stop(work).await?;
    work.session.run("UPDATE mintage_sequence SET incarnation = ?1", &[STOPPED.into()]).await.map(drop)
}

/// The sequences that wait, the row itself among them.
pub(super) async fn waiting(work: &mut Work) -> Result<Vec<String>, Fault> {
    let life = work.moment().await?.incarnation;
    let rows = work.session.fetch("SELECT name, incarnation FROM mintage_sequence", &[]).await?;
    let mut waiting = BTreeSet::from([UNLISTED.to_owned()]);
    for row in &rows {
        let name = read::text(row, "name")?;
        if read::text(row, "incarnation")? == life {
            waiting.remove(&name);
        } else {
            waiting.insert(name);
        }
    }
    Ok(waiting.into_iter().collect())
}

/// First of all, so that whoever holds this row waits for nobody who waits for it.
async fn stop(work: &mut Work) -> Result<(), Fault> {
    insert(&mut work.session, STOPPED).await?;
    let update = "UPDATE mintage_sequence SET incarnation = ?2 WHERE name = ?1";
    work.session.run(update, &[UNLISTED.into(), STOPPED.into()]).await.map(drop)
}

async fn insert(session: &mut Session, life: &str) -> Result<(), Fault> {
    let values = [UNLISTED.into(), life.into(), (-1).into(), 0.into()];
    session.insert_if_absent(range::INSERT, "name", &values).await
}
