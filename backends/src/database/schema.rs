//! The tables, and which version of them a database has.
//!
//! Of several processes that open an empty database at once one makes the tables, under an advisory lock, and the others find
//! them. A user who may not make tables is told the statements.

use super::{dialect::Dialect, error::Fault, read, session::Session, unlisted};
use crate::rules::{corrupt, refused};

/// What this code makes and understands. A database of a higher version is left alone.
const VERSION: i64 = 1;

/// Names the advisory lock: "mintage" in ASCII. Other programs' locks have other numbers.
const LOCK_POSTGRES: &str = "SELECT pg_advisory_xact_lock(30796695581321061)";

/// MySQL's locks are the whole server's, so the database is in the name; it may have 64 characters. Waits up to `?1` seconds.
const LOCK_MYSQL: &str = "SELECT GET_LOCK(CONCAT('mintage ', LEFT(DATABASE(), 50)), ?1) AS locked";
const UNLOCK_MYSQL: &str = "SELECT RELEASE_LOCK(CONCAT('mintage ', LEFT(DATABASE(), 50))) AS unlocked";

/// Makes the tables, or checks that they are of a version this code understands.
pub(super) async fn prepare(session: &mut Session, dialect: Dialect, wait_ms: u64) -> Result<(), Fault> {
    if !is_made(session, dialect).await? {
        let made = match dialect {
            Dialect::Postgres => make_postgres(session).await,
            Dialect::MySql => make_mysql(session, wait_ms).await,
        };
        made.map_err(|fault| may_not_make(fault, session, dialect.ddl(), dialect.grants()))?;
    }
    known_version(session).await?;
    unlisted::prepare(session).await
}

/// Whether there are tables, which then are of a version that this code understands. Makes none.
pub(super) async fn find(session: &mut Session, dialect: Dialect) -> Result<bool, Fault> {
    let found = is_made(session, dialect).await?;
    if found {
        known_version(session).await?;
    }
    Ok(found)
}

async fn known_version(session: &mut Session) -> Result<(), Fault> {
    let rows = session.fetch("SELECT version FROM mintage_schema", &[]).await?;
    let table = session.tables().apply("mintage_schema").into_owned();
    let [row] = rows.as_slice() else {
        return Err(corrupt(format!("{table} has {} rows instead of one: restore the database", rows.len())).into());
    };
    match read::integer(row, "version")? {
        VERSION => Ok(()),
        newer if newer > VERSION => Err(refused(format!(
            "the database was made by a newer Mintage (schema {newer}, this one knows {VERSION}): use that version here too"
        ))
        .into()),
        other => Err(corrupt(format!("{table} says version {other}, which never existed: restore the database")).into()),
    }
}

/// Makes the table of reservations, which only gapless numbers need: it has no part in the version of the schema.
pub(super) async fn prepare_gapless(session: &mut Session, dialect: Dialect) -> Result<(), Fault> {
    if is_there(session, dialect, "mintage_reservation").await? {
        return Ok(());
    }
    if dialect == Dialect::Postgres {
        session.batch(LOCK_POSTGRES).await?;
    }
    let made = session.batch(dialect.gapless_ddl()).await;
    made.map_err(|fault| may_not_make(fault, session, dialect.gapless_ddl(), ""))
}

/// Makes the table of the history of ranges, which has no part in the version of the schema either.
pub(super) async fn make_range(session: &mut Session, dialect: Dialect) -> Result<(), Fault> {
    if dialect == Dialect::MySql {
        return session.batch(dialect.range_ddl()).await;
    }
    session.begin().await?;
    let made = async {
        session.batch(LOCK_POSTGRES).await?;
        session.batch(dialect.range_ddl()).await
    };
    match made.await {
        Ok(()) => session.commit().await,
        Err(fault) => {
            session.rollback().await?;
            Err(fault)
        }
    }
}

async fn is_made(session: &mut Session, dialect: Dialect) -> Result<bool, Fault> {
    is_there(session, dialect, "mintage_schema").await
}

pub(super) async fn is_there(session: &mut Session, dialect: Dialect, table: &str) -> Result<bool, Fault> {
    let sql = match dialect {
        // Found where any statement would find it, in whichever schema that is. Not by `to_regclass`, which remembers inside a
        // transaction that there was none before the lock was waited for.
        Dialect::Postgres => {
            "SELECT count(*) AS tables FROM pg_catalog.pg_class \
             WHERE relname = ?1 AND pg_catalog.pg_table_is_visible(oid)"
        }
        Dialect::MySql => {
            "SELECT count(*) AS tables FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name = ?1"
        }
    };
    let table = session.tables().apply(table).into_owned();
    let rows = session.fetch(sql, &[(&table).into()]).await?;
    let row = rows.first().ok_or_else(|| Fault::Driver(sqlx::Error::RowNotFound))?;
    Ok(read::integer(row, "tables")? > 0)
}

async fn make_postgres(session: &mut Session) -> Result<(), Fault> {
    session.begin().await?;
    session.batch(LOCK_POSTGRES).await?;
    if !is_made(session, Dialect::Postgres).await? {
        session.batch(Dialect::Postgres.ddl()).await?;
        // With the tables: a standby has both or neither.
        unlisted::prepare(session).await?;
    }
    session.commit().await
}

/// Each statement is its own transaction here. `mintage_schema` comes last and with its row, so that whoever sees it sees all;
/// what an earlier attempt left behind is used.
async fn make_mysql(session: &mut Session, wait_ms: u64) -> Result<(), Fault> {
    let wait_s = read::signed(wait_ms.div_ceil(1_000), "a timeout")?;
    let rows = session.fetch(LOCK_MYSQL, &[wait_s.into()]).await?;
    let locked = rows.first().map(|row| read::integer(row, "locked")).transpose()?;
    if locked != Some(1) {
        return Err(refused(
            "another process makes the tables and does not get done: look at what it waits for".to_owned(),
        )
        .into());
    }
    if !is_made(session, Dialect::MySql).await? {
        let ddl = Dialect::MySql.ddl();
        let (tables, last) = ddl.split_at(ddl.find(LAST_MYSQL).unwrap_or(ddl.len()));
        session.batch(tables).await?;
        unlisted::prepare(session).await?;
        session.batch(last).await?;
    }
    session.fetch(UNLOCK_MYSQL, &[]).await.map(drop)
}

/// What the last statement begins with.
const LAST_MYSQL: &str = "CREATE TABLE mintage_schema";

fn may_not_make(fault: Fault, session: &Session, ddl: &str, grants: &str) -> Fault {
    if !fault.is_forbidden() {
        return fault;
    }
    let (ddl, grants) = (session.tables().apply(ddl), session.tables().apply(grants));
    let error = refused(format!(
        "the database lacks tables of Mintage, and this user may not make them. Have somebody who may run these statements once, \
         then start again:\n{ddl}\n{grants}"
    ));
    match fault {
        Fault::Driver(cause) => error.caused_by(cause).into(),
        Fault::Said(_) => error.into(),
    }
}
