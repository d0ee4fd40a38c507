//! `mintage inspect`: what could this be, best reading first, and why.

use std::io::{self, BufRead, Read, Write};

use mintage::{Candidate, Inspection, Witness, core::AnyId, role_name, time};
use serde_json::Value;

use crate::{
    args::{self, ConfigArgs, InspectArgs, Output},
    draw,
    failure::{Failure, chain},
    output,
};

/// Readings printed in full; the rest get a line each.
const FULL: usize = 1;
/// Longest line of stdin that is looked at, in bytes; the rest of it is passed over. No id comes near it, and a file without
/// line ends must not fill the memory.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Characters of a text that is no id which are shown: enough to find it again.
const SHOWN_CHARS_MAX: usize = 200;
/// Texts that are no ids whose reasons are told at the end; the others are counted.
const REASONS_MAX: usize = 100;

pub(crate) async fn run(config: &ConfigArgs, inspect: InspectArgs) -> Result<(), Failure> {
    let config = config.load()?;
    let witness = args::builder().witness(&config).await?;
    for trouble in witness.troubles() {
        output::remark(&format!("reading without what this store knows: {}", chain(trouble)));
    }
    let mut report = Report { witness, output: inspect.output, printed: 0, invalid: 0, reasons: Vec::new() };
    report.head()?;
    let mut unread = None;
    for id in &inspect.ids {
        if id != "-" {
            report.print_argument(&id.to_string_lossy()).await?;
        } else if let Err(error) = report.print_lines(&mut io::stdin().lock()).await? {
            unread = Some(error);
        }
    }
    report.tail()?;
    unread.map_or(Ok(()), |error| Err(Failure::invalid(format!("cannot read stdin: {error}"))))
}

/// The next line, without what is not UTF-8 in it; `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

struct Report {
    witness: Witness,
    output: Output,
    printed: usize,
    /// How many were no id.
    invalid: usize,
    /// Why, of the first of them.
    reasons: Vec<String>,
}

impl Report {
    fn head(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match self.output {
            Output::Json => write!(out, "[")?,
            Output::Csv => writeln!(out, "id,scheme,entity,created_at,worker_id,sequence")?,
            Output::Text => {}
        }
        Ok(())
    }

    /// Prints what every line could be. The inner error is one of reading.
    async fn print_lines(&mut self, input: &mut impl BufRead) -> Result<io::Result<()>, Failure> {
        loop {
            match next_line(input) {
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => self.print(&line).await?,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Prints what an argument could be. A secret should not have stood there.
    async fn print_argument(&mut self, text: &str) -> Result<(), Failure> {
        let inspection = self.witness.inspect(text).await;
        if let Some(entity) = &inspection.secret_of {
            output::remark(&format!(
                "that argument is, or holds, a bearer token of {entity}. Other users see the arguments of a process, and the \
                 shell keeps them: revoke it and issue another. `mintage inspect -` and `mintage tokens verify {entity} -` read \
                 stdin"
            ));
        }
        self.report(&inspection)
    }

    async fn print(&mut self, text: &str) -> Result<(), Failure> {
        let inspection = self.witness.inspect(text).await;
        self.report(&inspection)
    }

    fn report(&mut self, inspection: &Inspection) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if inspection.is_nothing() {
            self.invalid += 1;
            if self.reasons.len() < REASONS_MAX {
                self.reasons.push(why_not(inspection));
            }
        }
        match self.output {
            Output::Json => {
                let comma = if self.printed == 0 { "" } else { ",\n" };
                write!(out, "{comma}{:#}", inspection.to_json())?;
            }
            Output::Csv => out.write_all(csv(inspection).as_bytes())?,
            Output::Text => {
                if self.printed > 0 {
                    writeln!(out)?;
                }
                out.write_all(told(inspection).as_bytes())?;
            }
        }
        self.printed += 1;
        Ok(())
    }

    fn tail(mut self) -> Result<(), Failure> {
        if self.output == Output::Json {
            writeln!(io::stdout().lock(), "]")?;
        }
        if self.invalid == 0 {
            return Ok(());
        }
        let untold = self.invalid - self.reasons.len();
        if untold > 0 {
            self.reasons.push(format!("{untold} more texts are no id of any scheme known here"));
        }
        Err(Failure::invalid(self.reasons.join("\nmintage: ")))
    }
}

/// Why a text is an id of nothing known: the refusal of the scheme whose shape it has, else that it has no known shape.
fn why_not(inspection: &Inspection) -> String {
    let shown: String = inspection.input.chars().take(60).collect();
    let mut reasons: Vec<String> =
        inspection.mistyped.iter().map(|entity| format!("\n  {}", mistyped(entity))).collect();
    reasons.extend(inspection.refusals.iter().map(|(scheme, error)| format!("\n  as {scheme}: {error}")));
    format!("{shown:?} is no id of any scheme known here{}", reasons.concat())
}

fn csv(inspection: &Inspection) -> String {
    let json = inspection.to_json();
    let field = |name: &str| match json.get(name) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    let fields =
        ["id", "scheme", "entity", "created_at", "worker_id", "sequence"].map(|name| output::harmless(&field(name)));
    output::csv_line(&fields.each_ref().map(String::as_str))
}

fn told(inspection: &Inspection) -> String {
    let shown: String = inspection.input.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if shown.len() < inspection.input.len() { "…" } else { "" };
    let mut text = format!("{}{more}\n", output::harmless(&shown));
    for entity in &inspection.mistyped {
        text.push_str(&format!("  {}\n", mistyped(entity)));
    }
    for reading in &inspection.series {
        text.push_str(&format!("  is  {reading}\n"));
    }
    for candidate in inspection.candidates.iter().take(FULL) {
        text.push_str(&full(candidate));
    }
    if inspection.candidates.len() > FULL {
        text.push_str("\n  other readings, most likely first\n");
        let rows: Vec<(String, String)> =
            inspection.candidates.iter().skip(FULL).map(|other| (title(other), summary(other))).collect();
        text.push_str(&output::aligned(&rows, 4));
    }
    if let Some(entity) = &inspection.secret_of {
        text.push_str(&format!(
            "  is  a bearer token of {entity}, or part of one: a secret, so nothing of it is shown\n      \
             `mintage tokens verify {entity} -` says whether it is accepted\n"
        ));
    } else if inspection.is_nothing() {
        text.push_str("  no id of any scheme known here\n");
    }
    text
}

fn mistyped(entity: &str) -> String {
    format!("looks like a public number of {entity}, but its check digit does not fit: look for a mistyped digit")
}

/// Representations, then components, then why.
fn full(candidate: &Candidate) -> String {
    let mut rows = vec![("is".to_owned(), title(candidate))];
    if let Some(made) = candidate.anatomy.time {
        rows.push(("made".to_owned(), format!("{} ({} ms)", time::rfc3339(made.unix_ms, made.unit_ms), made.unix_ms)));
    } else {
        rows.push(("made".to_owned(), "it does not say".to_owned()));
    }
    for grant in &candidate.minted_by {
        rows.push(("by".to_owned(), format!("{} as worker {}", output::harmless(&grant.instance), grant.worker)));
    }
    for (store, grant) in &candidate.ranges {
        let (first, last) = (grant.start, grant.end.saturating_sub(1));
        let who = if grant.instance.is_empty() { "a process without a name" } else { &grant.instance };
        let who = output::harmless(who);
        rows.push(("by".to_owned(), format!("{who}, which got {first} to {last} from stores.{store}")));
    }
    for (name, spelling) in &candidate.spellings {
        if *name != "time" {
            rows.push(((*name).to_owned(), spelling.clone()));
        }
    }
    let mut text = output::aligned(&rows, 2);
    text.push('\n');
    for line in draw::bits(&candidate.anatomy) {
        text.push_str(&format!("  {line}\n"));
    }
    let fields: Vec<(String, String)> = candidate
        .anatomy
        .fields
        .iter()
        .map(|field| {
            let unit = if field.width == 1 { "bit" } else { "bits" };
            (field.name.to_string(), format!("{} ({}, {} {unit})", field.value, role_name(field.role), field.width))
        })
        .collect();
    text.push_str(&output::aligned(&fields, 2));
    let why = candidate.reasons.iter().map(String::as_str).chain(candidate.anatomy.notes.iter().map(AsRef::as_ref));
    for (position, reason) in why.enumerate() {
        text.push_str(&format!("  {}{reason}\n", if position == 0 { "why: " } else { "     " }));
    }
    text
}

fn title(candidate: &Candidate) -> String {
    match &candidate.entity {
        Some(entity) => format!("{entity} ({})", candidate.scheme),
        None => candidate.scheme.clone(),
    }
}

fn summary(candidate: &Candidate) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(made) = candidate.anatomy.time {
        parts.push(time::rfc3339(made.unix_ms, made.unit_ms));
    }
    if let Some(worker) = candidate.anatomy.worker {
        parts.push(format!("worker {worker}"));
    }
    if let (Some(sequence), AnyId::Int(_)) = (candidate.anatomy.sequence, candidate.id) {
        parts.push(format!("sequence {sequence}"));
    }
    let unlikely =
        candidate.reasons.iter().find(|reason| reason.starts_with("unlikely") || reason.starts_with("not handed"));
    if let Some(reason) = unlikely {
        parts.push(reason.clone());
    }
    parts.join(", ")
}
