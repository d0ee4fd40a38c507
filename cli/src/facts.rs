//! `mintage at`, `check`, `explain` and `schema`: what can be said without minting.

use std::io::Write;

use mintage::{
    BuildError, RegistryBuilder, config,
    config::{Checked, EntityConfig, TokensConfig},
    core::{
        Clock, SystemClock,
        plugin::{Fact, Problem},
    },
    time,
};
use serde_json::{Value, json};

use crate::{
    args::{self, AtArgs, CheckArgs, ConfigArgs, ExplainArgs, Output},
    failure::Failure,
    output,
};

/// `mintage at ENTITY TIME`.
pub(crate) fn at(config: &ConfigArgs, at: &AtArgs) -> Result<(), Failure> {
    let checked = checked(config)?;
    let entity = entity(&checked, &at.entity)?;
    let from_ms = time::parse(&at.time).map_err(Failure::usage)?;
    let to_ms = at.to.as_deref().map_or(Ok(from_ms), time::parse).map_err(Failure::usage)?;
    if to_ms < from_ms {
        return Err(Failure::usage("--to lies before the beginning of the span: swap the two"));
    }
    let reader = entity.plan.reader();
    let Some((first, last)) = reader.range_at(from_ms, to_ms) else {
        return Err(no_range(entity, &reader));
    };
    let [first, last] = [first, last].map(|id| reader.format(id).unwrap_or_default());
    let mut out = std::io::stdout().lock();
    match at.output {
        Output::Text => {
            writeln!(out, "{first}\n{last}")?;
            let quote = if matches!(reader, mintage::core::AnyScheme::Int(_)) { "" } else { "'" };
            output::remark(&format!(
                "smallest and largest: WHERE id BETWEEN {quote}{first}{quote} AND {quote}{last}{quote}"
            ));
        }
        Output::Json => writeln!(out, "{}", json!({"entity": at.entity, "first": first, "last": last}))?,
        Output::Csv => write!(out, "first,last\n{first},{last}\n")?,
    }
    Ok(())
}

fn no_range(entity: &EntityConfig, reader: &mintage::core::AnyScheme) -> Failure {
    let name = &entity.name;
    match reader.runs_out() {
        None => {
            Failure::usage(format!("{name} uses {}, whose ids carry no time: keep a created_at column", entity.scheme))
        }
        Some(end_ms) => Failure::invalid(format!(
            "no id of {name} can carry that time: it lies before the epoch or after {}, or the time does not come first",
            time::rfc3339(end_ms, 1)
        )),
    }
}

/// `mintage check`.
pub(crate) async fn check(config: &ConfigArgs, check: &CheckArgs) -> Result<(), Failure> {
    let now_ms = SystemClock.unix_ms();
    let builder = args::builder();
    let (checked, errors) = match config.read()?.and_then(|config| builder.check(&config)) {
        Ok(checked) => (Some(checked), None),
        // A file that is not there or no text has no list of faults.
        Err(errors) if errors.problems().iter().all(|problem| problem.at.is_none() && problem.path.is_empty()) => {
            return Err(BuildError::from(errors).into());
        }
        Err(errors) => (None, Some(errors)),
    };
    let live = match &checked {
        Some(checked) => live(&builder, checked).await,
        None => Vec::new(),
    };
    let mut out = std::io::stdout().lock();
    if check.output != Output::Text {
        let refusals = errors.as_ref().map_or(&[][..], |errors| errors.problems());
        let warnings = match (&checked, &errors) {
            (Some(checked), _) => checked.warnings.list(),
            (_, Some(errors)) => errors.warnings().list(),
            _ => &[],
        };
        let notes = checked.as_ref().map_or_else(Vec::new, |checked| notes(&builder, checked, now_ms));
        write_problems(&mut out, check.output, refusals.iter().chain(warnings).chain(&live), &notes)?;
    } else if let Some(checked) = &checked {
        let rows: Vec<(String, String)> = notes(&builder, checked, now_ms)
            .into_iter()
            .map(|(path, text)| (path.strip_prefix("entities.").map(str::to_owned).unwrap_or(path), text))
            .collect();
        out.write_all(output::aligned(&rows, 0).as_bytes())?;
        for line in checked.warnings.to_string().lines() {
            output::remark(&format!("warning: {line}"));
        }
        for problem in &live {
            output::remark(&format!("warning: {}: {}", problem.path, problem.message));
        }
        output::remark("the config is good; whether its key files and stores are, `mintage doctor` looks");
    } else if let Some(errors) = &errors {
        for line in errors.to_string().lines() {
            writeln!(out, "{}", output::harmless(line))?;
        }
        for line in errors.warnings().to_string().lines() {
            output::remark(&format!("warning: {line}"));
        }
    }
    match errors {
        None => Ok(()),
        Some(errors) => {
            let count = errors.problems().len();
            Err(Failure::invalid(format!("{count} {} to mend", if count == 1 { "problem" } else { "problems" })))
        }
    }
}

/// What a config means: for each path a line or more, the first with its name, the others without.
fn notes(builder: &RegistryBuilder, checked: &Checked, now_ms: u64) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    for entity in &checked.entities {
        let path = format!("entities.{}", entity.name);
        let ahead = entity.plan.facts(now_ms).into_iter().find(|fact| fact.name == "ahead");
        notes.push((path.clone(), summary(entity, now_ms)));
        notes.extend(checked.outage(entity).into_iter().chain(ahead).map(|fact| (path.clone(), fact.text)));
    }
    notes.extend(checked.tokens.iter().map(|tokens| (format!("entities.{}", tokens.name), tokens_summary(tokens))));
    notes.extend(checked.series.iter().map(|series| (format!("series.{}", series.name), series.format.summary())));
    notes.extend(checked.pools.iter().map(|pool| (format!("workers.{}", pool.name), pool.capacity().text)));
    notes.extend(checked.stores.iter().map(|store| {
        let factory = builder.catalog().backend_of(&store.url);
        (format!("stores.{}", store.name), factory.map_or("", |known| known.promise()).to_owned())
    }));
    notes
}

/// What the counters say that are there already: a domain of public numbers that is fuller than it should be.
async fn live(builder: &RegistryBuilder, checked: &Checked) -> Vec<Problem> {
    let mut told: Vec<(String, Result<Fact, BuildError>)> = Vec::new();
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    told.extend(builder.fills(checked).await);
    let _ = (builder, checked, &mut told);
    told.into_iter()
        .filter_map(|(entity, told)| {
            let message = match told {
                Ok(fact) if fact.warning => fact.text,
                Ok(_) => return None,
                Err(error) => format!("how full it is cannot be told: {}", crate::failure::chain(&error)),
            };
            Some(Problem { path: format!("entities.{entity}.public"), at: None, message, warning: true })
        })
        .collect()
}

fn write_problems<'p>(
    out: &mut impl Write,
    output: Output,
    problems: impl Iterator<Item = &'p Problem>,
    notes: &[(String, String)],
) -> Result<(), Failure> {
    let noted = notes
        .iter()
        .map(|(path, text)| json!({"path": path, "line": null, "column": null, "severity": "note", "message": text}));
    let rows: Vec<Value> = problems
        .map(|problem| {
            json!({
                "path": problem.path,
                "line": problem.at.map(|at| at.line),
                "column": problem.at.map(|at| at.column),
                "severity": if problem.warning { "warning" } else { "error" },
                "message": problem.message,
            })
        })
        .chain(noted)
        .collect();
    if output == Output::Json {
        writeln!(out, "{:#}", Value::Array(rows))?;
        return Ok(());
    }
    writeln!(out, "severity,line,column,path,message")?;
    for row in &rows {
        let field = |name: &str| match row.get(name) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        let fields = ["severity", "line", "column", "path", "message"].map(field);
        out.write_all(output::csv_line(&fields.each_ref().map(String::as_str)).as_bytes())?;
    }
    Ok(())
}

/// One line: capacity and end.
fn summary(entity: &EntityConfig, now_ms: u64) -> String {
    let facts = entity.plan.facts(now_ms);
    let told: Vec<&str> = ["capacity", "life"]
        .iter()
        .filter_map(|name| facts.iter().find(|fact| fact.name == *name))
        .map(|fact| fact.text.as_str())
        .collect();
    let public = entity
        .public
        .as_ref()
        .map_or("public: nothing".to_owned(), |form| format!("public {}: {}", form.name(), form.label()));
    format!("{}: {}; {public}", entity.scheme, told.join(", "))
}

fn tokens_summary(tokens: &TokensConfig) -> String {
    let facts = tokens.facts();
    let told: Vec<&str> = facts.iter().take(2).map(|fact| fact.text.as_str()).collect();
    format!("bearer: {}", told.join(", "))
}

/// `mintage explain ENTITY`, or a series.
pub(crate) fn explain(config: &ConfigArgs, explain: &ExplainArgs) -> Result<(), Failure> {
    let checked = checked(config)?;
    let (scheme, facts) = match (checked.tokens(&explain.entity), checked.series(&explain.entity)) {
        (Some(tokens), _) => ("bearer", tokens.facts()),
        (None, Some(series)) => ("series", series.facts()),
        (None, None) => {
            let entity = entity(&checked, &explain.entity)?;
            let mut facts = entity.plan.facts(SystemClock.unix_ms());
            facts.extend(checked.outage(entity));
            facts.extend(public_facts(entity));
            (entity.scheme.as_str(), facts)
        }
    };
    let mut out = std::io::stdout().lock();
    match explain.output {
        Output::Text => {
            let mut rows = vec![("scheme".to_owned(), scheme.to_owned())];
            rows.extend(facts.iter().map(|fact| (fact.name.to_owned(), marked(fact))));
            out.write_all(output::aligned(&rows, 0).as_bytes())?;
        }
        Output::Json => {
            let facts: Vec<Value> = facts
                .iter()
                .map(|fact| {
                    let at = fact.at_ms.map(|at_ms| time::rfc3339(at_ms, 1));
                    json!({"name": fact.name, "text": fact.text, "at": at, "warning": fact.warning})
                })
                .collect();
            writeln!(out, "{:#}", json!({"entity": explain.entity, "scheme": scheme, "facts": facts}))?;
        }
        Output::Csv => {
            writeln!(out, "name,text")?;
            for fact in &facts {
                out.write_all(output::csv_line(&[fact.name, &fact.text]).as_bytes())?;
            }
        }
    }
    Ok(())
}

/// What the outside sees, and the honest label of it.
fn public_facts(entity: &EntityConfig) -> Vec<Fact> {
    match &entity.public {
        None => vec![Fact::new("public", "nothing: add a `public` line and a key to give ids to the outside")],
        Some(form) => {
            let by =
                if entity.public_is_written { "" } else { " (by default: the config has one key and no public line)" };
            let mut facts = vec![Fact::new("public", format!("{}{by}: {}", form.name(), form.label()))];
            // What the form leaks is not what the raw id leaks: the names tell them apart.
            facts.extend(form.facts().into_iter().filter_map(|mut fact| {
                fact.name = match fact.name {
                    "public form" => return None,
                    "forgery" => "public forgery",
                    "leaks" => "public leaks",
                    "key" => "public key",
                    other => other,
                };
                Some(fact)
            }));
            facts
        }
    }
}

fn marked(fact: &Fact) -> String {
    if fact.warning { format!("warning: {}", fact.text) } else { fact.text.clone() }
}

/// `mintage schema`.
pub(crate) fn schema() -> Result<(), Failure> {
    let schema = config::schema(args::builder().catalog());
    writeln!(std::io::stdout().lock(), "{schema:#}")?;
    Ok(())
}

fn checked(config: &ConfigArgs) -> Result<Checked, Failure> {
    let config = config.load()?;
    args::builder().check(&config).map_err(|errors| BuildError::from(errors).into())
}

fn entity<'c>(checked: &'c Checked, name: &str) -> Result<&'c EntityConfig, Failure> {
    checked.entity(name).ok_or_else(|| {
        if checked.tokens(name).is_some() {
            return Failure::usage(format!("{name} has bearer tokens, not ids: see `mintage tokens --help`"));
        }
        let known: Vec<&str> = checked.entity_names().map(String::as_str).collect();
        BuildError::NoEntity { name: name.to_owned(), known: known.join(", ") }.into()
    })
}
