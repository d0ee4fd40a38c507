//! What an SQLite database tells of itself.

use std::{path::Path, time::Duration};

use mintage_core::{Answer, Clock, StoreError, StoreSetting, TablePrefix, Vitals};
use sqlx::ConnectOptions;

use super::{Conn, check_place, end, error::Fault, options, schema, within};

/// Makes no file, and leaves the database in the mode it is in.
pub(super) async fn of(
    path: &Path,
    clock: &dyn Clock,
    timeout: Duration,
    tables: &TablePrefix,
) -> Result<Vitals, StoreError> {
    check_place(path)?;
    if !path.exists() {
        return Ok(Vitals::of(false));
    }
    let asking = async {
        let mut link = options(path).connect().await.map_err(|error| Fault::from(error).at(path))?;
        let vitals = read(&mut Conn { link: &mut link, tables }, path, clock).await.map_err(|fault| fault.at(path));
        end(link).await;
        vitals
    };
    within(timeout, path, asking).await
}

async fn read(conn: &mut Conn<'_>, path: &Path, clock: &dyn Clock) -> Result<Vitals, Fault> {
    let mut vitals = Vitals::of(schema::find(conn, path).await?);
    let (asked_ms, asked_boot_ms) = (clock.unix_ms(), clock.boot_ms());
    let version: String = conn.scalar("SELECT sqlite_version()").fetch_one(&mut *conn.link).await?;
    vitals.answer = Some(Answer::new(asked_ms, clock.boot_ms().saturating_sub(asked_boot_ms), None));
    vitals.server = Some(format!("SQLite {version}"));
    let mode: String = conn.scalar("PRAGMA journal_mode").fetch_one(&mut *conn.link).await?;
    vitals.settings.push(StoreSetting::new("journal_mode", mode));
    vitals.settings.push(StoreSetting::new("synchronous", "FULL, set by Mintage on each connection"));
    if vitals.is_made == Some(true) {
        let version: i64 = conn.scalar("SELECT version FROM mintage_schema").fetch_one(&mut *conn.link).await?;
        vitals.schema = u64::try_from(version).ok();
        let check: String = conn.scalar("PRAGMA quick_check(1)").fetch_one(&mut *conn.link).await?;
        let whole = StoreSetting::new("quick_check", &check);
        vitals.settings.push(if check == "ok" {
            whole
        } else {
            whole.wrong("the database is damaged", "stop its processes and restore it from a backup")
        });
    }
    if std::fs::metadata(path).is_ok_and(|file| file.permissions().readonly()) {
        let mode = StoreSetting::new("file", "read-only");
        vitals.settings.push(mode.wrong("nothing can be written", "allow its user to write it"));
    }
    Ok(vitals)
}
