//! What a database server tells of itself: the settings that decide whether it keeps what it confirmed.

use mintage_core::{Answer, StoreError, StoreSetting, Vitals, plugin::Address};

use super::{
    DatabaseStore, Dialect,
    error::Fault,
    read::{self, Row},
    schema,
    session::Session,
};

const POSTGRES: &str = "
    SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
           current_setting('full_page_writes') AS full_page_writes,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('synchronous_standby_names') AS synchronous_standby_names,
           (SELECT count(*) FROM pg_stat_replication)::text AS standbys,
           CASE WHEN pg_is_in_recovery() THEN 'yes' ELSE 'no' END AS standby";

const MYSQL: &str = "
    SELECT CAST(@@version AS CHAR) AS version, CAST(@@innodb_flush_log_at_trx_commit AS CHAR) AS flush_log,
           CAST(@@log_bin AS CHAR) AS log_bin, CAST(@@sync_binlog AS CHAR) AS sync_binlog,
           CAST(@@innodb_doublewrite AS CHAR) AS doublewrite, CAST(@@global.read_only AS CHAR) AS read_only";

/// What a crash means where the server answers before the disk does.
const LIVES: &str = "a crash can lose what it confirmed: after each start worker ids begin above all that can have been granted, \
                     and ranges stop until raised";

impl DatabaseStore {
    /// Asks the server for its settings, and the tables for how they stand. Makes nothing.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing).
    pub(super) async fn vitals(address: &Address) -> Result<Vitals, StoreError> {
        let store = Self::at(address)?;
        store
            .within(async {
                let mut session = store.connect().await?;
                read(&mut session, store.dialect, address).await.map_err(|fault| fault.at(&store.target))
            })
            .await
    }
}

async fn read(session: &mut Session, dialect: Dialect, address: &Address) -> Result<Vitals, Fault> {
    let mut vitals = Vitals::default();
    let is_standby = match dialect {
        Dialect::Postgres => {
            let row = one(session, POSTGRES).await?;
            vitals.server = Some(format!("PostgreSQL {}", read::text(&row, "version")?));
            vitals.settings = postgres(&row)?;
            read::text(&row, "standby")? == "yes"
        }
        Dialect::MySql => {
            let row = one(session, MYSQL).await?;
            let version = read::text(&row, "version")?;
            let name = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
            vitals.server = Some(format!("{name} {version}"));
            vitals.settings = mysql(&row)?;
            false
        }
    };
    vitals.is_made = Some(schema::find(session, dialect).await?);
    if is_standby {
        // A standby has no place in its log to name: nothing more can be asked of it.
        return Ok(vitals);
    }
    let (asked_ms, asked_boot_ms) = (address.clock.unix_ms(), address.clock.boot_ms());
    let moment = session.moment().await?;
    let took_ms = address.clock.boot_ms().saturating_sub(asked_boot_ms);
    vitals.answer = Some(Answer::new(asked_ms, took_ms, Some(read::number(&moment, "now_ms")?)));
    let incarnation = read::text(&moment, "incarnation")?;
    if vitals.is_made == Some(true) {
        vitals.schema = Some(read::number(&one(session, "SELECT version FROM mintage_schema").await?, "version")?);
    }
    vitals.identity = Some(incarnation);
    Ok(vitals)
}

fn postgres(row: &Row) -> Result<Vec<StoreSetting>, Fault> {
    let setting = |name: &'static str| Ok::<_, Fault>(StoreSetting::new(name, read::text(row, name)?));
    let is = |setting: &StoreSetting, value: &str| setting.value == value;
    let (fsync, pages) = (setting("fsync")?, setting("full_page_writes")?);
    let commit = setting("synchronous_commit")?;
    let raised = ["off", "local", "remote_write"].contains(&commit.value.as_str());
    let names = read::text(row, "synchronous_standby_names")?;
    let standbys = StoreSetting::new(
        "standbys",
        match (read::text(row, "standbys")?.as_str(), names.as_str()) {
            ("0", "") => "none".to_owned(),
            (count, "") => format!("{count}, no commit waits for them"),
            (count, names) => format!("{count}, commits wait for {names}"),
        },
    );
    let mut told = vec![
        if is(&fsync, "on") { fsync } else { fsync.warn(LIVES, "set fsync = on") },
        if is(&pages, "on") {
            pages
        } else {
            pages.warn("a power loss can tear pages of the database", "set full_page_writes = on")
        },
        if raised {
            StoreSetting::new("synchronous_commit", format!("{}, raised to on by Mintage", commit.value))
        } else {
            commit
        },
        if standbys.value.contains("no commit waits") {
            standbys.warn(
                "a failover may lose the last commits: worker ids then begin above all that can have been granted, and ranges \
                 stop until raised",
                "set synchronous_standby_names",
            )
        } else {
            standbys
        },
    ];
    if read::text(row, "standby")? == "yes" {
        let role = StoreSetting::new("role", "standby");
        told.push(role.wrong("a standby is not written to", "name the primary in the URL"));
    }
    Ok(told)
}

fn mysql(row: &Row) -> Result<Vec<StoreSetting>, Fault> {
    let on = |value: &str| !["0", "OFF"].contains(&value);
    let flush = StoreSetting::new("innodb_flush_log_at_trx_commit", read::text(row, "flush_log")?);
    let pages = StoreSetting::new("innodb_doublewrite", read::text(row, "doublewrite")?);
    let mut told = vec![
        if flush.value == "1" { flush } else { flush.warn(LIVES, "set innodb_flush_log_at_trx_commit = 1") },
        if on(&pages.value) {
            pages
        } else {
            pages.warn("a power loss can tear pages of the database", "set innodb_doublewrite = ON")
        },
    ];
    if on(&read::text(row, "log_bin")?) {
        let sync = StoreSetting::new("sync_binlog", read::text(row, "sync_binlog")?);
        told.push(if sync.value == "1" { sync } else { sync.warn(LIVES, "set sync_binlog = 1") });
    } else {
        told.push(StoreSetting::new("log_bin", "off: it has no replica"));
    }
    if on(&read::text(row, "read_only")?) {
        let mode = StoreSetting::new("read_only", "on");
        told.push(mode.wrong("a replica is not written to", "name the primary in the URL"));
    }
    Ok(told)
}

async fn one(session: &mut Session, sql: &'static str) -> Result<Row, Fault> {
    let rows = session.fetch(sql, &[]).await?;
    rows.into_iter().next().ok_or_else(|| Fault::Driver(sqlx::Error::RowNotFound))
}
