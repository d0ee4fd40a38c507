//! `mintage doctor`: a fleet looked at from beside it, one finding a line. It changes nothing.

use std::io::Write;

use mintage::{Finding, Severity};
use serde_json::{Value, json};

use crate::{
    args::{self, ConfigArgs, DoctorArgs, Output},
    failure::Failure,
    output,
};

pub(crate) async fn run(config: &ConfigArgs, doctor: DoctorArgs) -> Result<(), Failure> {
    let findings = args::builder().doctor(&config.load()?, &doctor.columns).await?;
    let mut out = std::io::stdout().lock();
    match doctor.output {
        Output::Text => {
            let rows: Vec<(String, String)> = findings.iter().map(row).collect();
            out.write_all(output::aligned(&rows, 0).as_bytes())?;
        }
        Output::Json => {
            let rows: Vec<Value> = findings
                .iter()
                .map(|one| {
                    json!({
                        "severity": one.severity.name(),
                        "path": one.path,
                        "message": one.message,
                        "remedy": one.remedy,
                    })
                })
                .collect();
            writeln!(out, "{:#}", Value::Array(rows))?;
        }
        Output::Csv => {
            writeln!(out, "severity,path,message,remedy")?;
            for one in &findings {
                let remedy = one.remedy.as_deref().unwrap_or_default();
                let fields = [one.severity.name(), &one.path, &one.message, remedy].map(output::harmless);
                out.write_all(output::csv_line(&fields.each_ref().map(String::as_str)).as_bytes())?;
            }
        }
    }
    out.flush()?;
    let count = |severity: Severity| findings.iter().filter(|one| one.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let told = format!("{errors} {}, {warnings} {}", plural(errors, "error"), plural(warnings, "warning"));
    if errors > 0 {
        return Err(Failure::invalid(told));
    }
    output::remark(&told);
    Ok(())
}

/// `error  stores.main`, and what was found there with what to do.
fn row(one: &Finding) -> (String, String) {
    let remedy = one.remedy.as_ref().map(|remedy| format!(": {remedy}")).unwrap_or_default();
    (format!("{:<7}  {}", one.severity.name(), one.path), output::harmless(&format!("{}{remedy}", one.message)))
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}
