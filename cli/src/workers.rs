//! `mintage workers`: who holds the worker ids, who held them, and taking one back.
//!
//! The state of a row is told by this machine's clock; what counts for a claim is the store's.

use std::io::Write;

use mintage::{
    Operator, RegistryBuilder, Stood,
    core::{Clock, Grant, LeaseRow, SystemClock},
    time,
};
use serde_json::{Value, json};

use crate::{
    args::{self, ConfigArgs, OneWorker, Output, WorkersArgs, WorkersCommand, WorkersList},
    failure::Failure,
    keys::confirm,
    output,
};

/// A worker id of a pool.
struct Line {
    pool: String,
    region: String,
    row: LeaseRow,
    stood: Stood,
}

pub(crate) async fn run(config: &ConfigArgs, workers: WorkersArgs) -> Result<(), Failure> {
    let builder: RegistryBuilder = args::builder();
    let operator = builder.operator(&config.load()?)?;
    match workers.command.unwrap_or(WorkersCommand::List(workers.list)) {
        WorkersCommand::List(WorkersList { pool, output }) => list(&operator, pool.as_deref(), output).await,
        WorkersCommand::History { pool, at, worker, output } => {
            let at_ms = at.as_deref().map(instant).transpose()?.unwrap_or_else(|| SystemClock.unix_ms());
            let mut grants = operator.history(&pool, at_ms).await?;
            grants.retain(|(_, grant)| worker.is_none_or(|worker| worker == grant.worker));
            write_grants(&pool, &grants, output)?;
            if let Some(lack) = operator.history_lack(&pool).await? {
                output::remark(&format!("this may not be all: {lack}"));
            }
            Ok(())
        }
        WorkersCommand::Release(one) => {
            let after = "others may claim it from the end of its last window on; a holder that still lives mints to that end and \
                         claims another";
            change(&operator, &one, "release", after).await
        }
        WorkersCommand::Revoke(one) => {
            let after =
                "nobody gets it until it is released; a holder mints to the end of its window and claims another";
            change(&operator, &one, "revoke", after).await
        }
    }
}

async fn list(operator: &Operator<'_>, pool: Option<&str>, output: Output) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let all: Vec<String> = operator.checked().pools.iter().map(|pool| pool.name.clone()).collect();
    let now_ms = SystemClock.unix_ms();
    for name in pool.map_or(all, |pool| vec![pool.to_owned()]) {
        for (region, row) in operator.workers(&name).await? {
            let stood = Stood::of(&row, now_ms);
            lines.push(Line { pool: name.clone(), region, row, stood });
        }
    }
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            let rows: Vec<(String, String)> = lines.iter().map(|line| (line.name(), line.text())).collect();
            out.write_all(output::aligned(&rows, 0).as_bytes())?;
            if rows.is_empty() {
                output::remark("no worker id was claimed yet");
            }
        }
        Output::Json => {
            let rows: Vec<Value> = lines.iter().map(Line::described).collect();
            writeln!(out, "{:#}", Value::Array(rows))?;
        }
        Output::Csv => {
            writeln!(out, "pool,region,worker,state,instance,expires,floor,epoch,clock_offset_ms")?;
            for line in &lines {
                let row = &line.row;
                out.write_all(
                    output::csv_line(&[
                        &line.pool,
                        &line.region,
                        &row.worker.to_string(),
                        line.stood.name(),
                        &row.instance,
                        &date(row.expires_ms),
                        &date(row.floor_ms),
                        &row.epoch.to_string(),
                        &row.clock_offset_ms.to_string(),
                    ])
                    .as_bytes(),
                )?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Line {
    fn name(&self) -> String {
        name(&self.pool, &self.region, self.row.worker)
    }

    fn text(&self) -> String {
        let row = &self.row;
        let by = if row.instance.is_empty() { "nobody yet".to_owned() } else { output::harmless(&row.instance) };
        let expires = if row.held { format!("  expires {}", date(row.expires_ms)) } else { String::new() };
        format!("{:<7}  {by}{expires}  floor {}", self.stood.name(), date(row.floor_ms))
    }

    fn described(&self) -> Value {
        let row = &self.row;
        json!({
            "pool": self.pool,
            "region": self.region,
            "worker": row.worker,
            "state": self.stood.name(),
            "instance": row.instance,
            "held": row.held,
            "expires": row.held.then(|| date(row.expires_ms)),
            "floor": date(row.floor_ms),
            "epoch": row.epoch,
            "clock_offset_ms": row.clock_offset_ms,
        })
    }
}

fn write_grants(pool: &str, grants: &[(String, Grant)], output: Output) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            let text = |grant: &Grant| {
                let (from, to) = (date(grant.window.start), date(grant.window.end));
                format!("{}  from {from}  to {to}  claim {}", output::harmless(&grant.instance), grant.epoch)
            };
            let rows: Vec<(String, String)> =
                grants.iter().map(|(region, grant)| (name(pool, region, grant.worker), text(grant))).collect();
            out.write_all(output::aligned(&rows, 0).as_bytes())?;
            if rows.is_empty() {
                output::remark("no lease of that instant is on record");
            }
        }
        Output::Json => {
            let rows: Vec<Value> = grants
                .iter()
                .map(|(region, grant)| {
                    json!({
                        "pool": pool,
                        "region": region,
                        "worker": grant.worker,
                        "instance": grant.instance,
                        "from": date(grant.window.start),
                        "to": date(grant.window.end),
                        "inc": grant.inc,
                        "epoch": grant.epoch,
                    })
                })
                .collect();
            writeln!(out, "{:#}", Value::Array(rows))?;
        }
        Output::Csv => {
            writeln!(out, "pool,region,worker,instance,from,to,inc,epoch")?;
            for (region, grant) in grants {
                out.write_all(
                    output::csv_line(&[
                        pool,
                        region,
                        &grant.worker.to_string(),
                        &grant.instance,
                        &date(grant.window.start),
                        &date(grant.window.end),
                        &grant.inc.to_string(),
                        &grant.epoch.to_string(),
                    ])
                    .as_bytes(),
                )?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Says what would change, asks, and does it.
async fn change(operator: &Operator<'_>, one: &OneWorker, what: &str, after: &str) -> Result<(), Failure> {
    let own = operator.checked().pool(&one.pool).and_then(|pool| pool.region.clone()).unwrap_or_default();
    let region = one.region.clone().unwrap_or(own);
    operator.may_change(&one.pool, one.region.as_deref(), one.worker).await?;
    let rows = operator.workers(&one.pool).await?;
    let row = rows.iter().find(|(of, row)| *of == region && row.worker == one.worker);
    let stands = row.map_or("never claimed".to_owned(), |(_, row)| {
        format!("{}, last holder {}", Stood::of(row, SystemClock.unix_ms()).name(), output::harmless(&row.instance))
    });
    let plan = format!("{what} {}: now {stands}\n{after}\n", name(&one.pool, &region, one.worker));
    std::io::stdout().lock().write_all(plan.as_bytes())?;
    if one.care.dry_run {
        return Ok(());
    }
    confirm(&one.care)?;
    match what {
        "revoke" => operator.revoke(&one.pool, one.region.as_deref(), one.worker).await?,
        _ => operator.release(&one.pool, one.region.as_deref(), one.worker).await?,
    }
    output::remark("done");
    Ok(())
}

fn name(pool: &str, region: &str, worker: u32) -> String {
    if region.is_empty() { format!("{pool} {worker}") } else { format!("{pool} {region} {worker}") }
}

fn instant(text: &str) -> Result<u64, Failure> {
    let unix_ms = time::parse(text).map_err(Failure::usage)?;
    u64::try_from(unix_ms).map_err(|_| Failure::usage(format!("{text} lies before 1970: nobody held a worker id then")))
}

fn date(unix_ms: u64) -> String {
    time::rfc3339(i64::try_from(unix_ms).unwrap_or(i64::MAX), 1)
}
