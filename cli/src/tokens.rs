//! `mintage tokens`: issue, verify, list, revoke and prune bearer tokens.
//!
//! A token is printed once, by `issue`, on stdout. It is read from stdin only: other users of the machine can see the arguments
//! of a process, and shells keep them. No message repeats one.

use std::{
    ffi::OsString,
    io::{Read, Write},
};

use mintage::{
    BuildError, Expiry, Issue, IssueError, Registry, Tokens, VerifyError,
    core::{TokenRow, TokenState, plugin::parse_duration_ms},
    time,
};
use serde_json::{Value, json};

use crate::{
    args::{self, Care, ConfigArgs, Output, TokensCommand},
    failure::Failure,
    output,
};

/// Most bytes read from stdin: several times the longest token.
const TOKEN_BYTES_MAX: u64 = 1_024;

pub(crate) async fn run(config: &ConfigArgs, command: TokensCommand) -> Result<(), Failure> {
    match command {
        TokensCommand::Issue { entity, scope, label, expires, output } => {
            let mut issue = Issue::new().label(label).expires(expiry(expires.as_deref())?);
            issue.scopes = scope;
            let (registry, tokens) = open(config, &entity).await?;
            let issued = self::issue(&tokens, issue, output).await;
            close(registry, issued).await
        }
        TokensCommand::Verify { entity, token, scope, output } => {
            let text = presented(&token)?;
            let (registry, tokens) = open(config, &entity).await?;
            let verified = verify(&tokens, &text, scope.as_deref(), output).await;
            close(registry, verified).await
        }
        TokensCommand::List { entity, output } => {
            let (registry, tokens) = open(config, &entity).await?;
            let listed = list(&tokens, output).await;
            close(registry, listed).await
        }
        TokensCommand::Revoke { entity, id } => {
            let (registry, tokens) = open(config, &entity).await?;
            let revoked = revoke(&tokens, &id).await;
            close(registry, revoked).await
        }
        TokensCommand::Prune { entity, older, care } => {
            let dead_for_ms = parse_duration_ms(&older)
                .ok_or_else(|| Failure::usage("--older takes a duration such as 30d, 12h or 0s"))?;
            let (registry, tokens) = open(config, &entity).await?;
            let pruned = prune(&tokens, dead_for_ms, &care).await;
            close(registry, pruned).await
        }
        TokensCommand::Pattern { entity } => pattern(config, &entity),
    }
}

/// Opens the entity and its store, and nothing else.
async fn open(config: &ConfigArgs, entity: &str) -> Result<(Registry, Tokens), Failure> {
    let config = config.load()?;
    let checked = args::builder().check(&config).map_err(BuildError::from)?;
    // Said before anything is opened: an entity of ids would claim a range or a worker id.
    known(&checked, entity)?;
    let registry = args::builder().only([entity]).build(config).await?;
    let tokens = registry.tokens(entity).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((registry, tokens))
}

async fn close(registry: Registry, outcome: Result<(), Failure>) -> Result<(), Failure> {
    registry.close().await.map_err(Failure::from).and(outcome)
}

fn known<'c>(
    checked: &'c mintage::config::Checked,
    entity: &str,
) -> Result<&'c mintage::config::TokensConfig, Failure> {
    checked.tokens(entity).ok_or_else(|| match checked.entity(entity) {
        Some(ids) => Failure::usage(format!(
            "{entity} has ids of the scheme {}, not bearer tokens: use `mintage new {entity}`",
            ids.scheme
        )),
        None => {
            let known: Vec<&str> = checked.tokens.iter().map(|tokens| tokens.name.as_str()).collect();
            Failure::usage(format!(
                "no entity of that name has bearer tokens (known: {}): add one with `scheme = \"bearer\"` to the config",
                known.join(", ")
            ))
        }
    })
}

async fn issue(tokens: &Tokens, issue: Issue, output: Output) -> Result<(), Failure> {
    let (token, row) = tokens.issue(issue).await.map_err(|error| match error {
        IssueError::Store(error) => error.into(),
        IssueError::NoEntropy => Failure::refused(error.to_string()),
        other => Failure::usage(other.to_string()),
    })?;
    let text = match output {
        Output::Text => format!("{}\n", token.reveal()),
        Output::Json => {
            let mut told = described(tokens, &row);
            if let Some(told) = told.as_object_mut() {
                told.insert("token".to_owned(), Value::from(token.reveal()));
            }
            format!("{told:#}\n")
        }
        Output::Csv => format!("token,id\n{},{}\n", token.reveal(), row.id),
    };
    if let Err(error) = print(&text) {
        return Err(take_back(tokens, &row.id, &error).await);
    }
    if output == Output::Text {
        let (id, end) = (&row.id, end(&row));
        output::remark(&format!("token {id} {end}: it is shown this once, and only its hash is kept"));
    }
    Ok(())
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Revokes a token that nobody has seen: it would be accepted for as long as nobody knows of it.
async fn take_back(tokens: &Tokens, id: &str, error: &std::io::Error) -> Failure {
    let told = format!("token {id} could not be shown, because the output cannot be written ({error})");
    match tokens.revoke(id).await {
        Ok(_) => Failure::refused(format!("{told}: it was revoked")),
        Err(_) => {
            let entity = tokens.entity();
            Failure::refused(format!("{told}, and it is active: `mintage tokens revoke {entity} {id}`"))
        }
    }
}

async fn verify(tokens: &Tokens, text: &str, scope: Option<&str>, output: Output) -> Result<(), Failure> {
    let verified = match scope {
        Some(scope) => tokens.verify_scope(text, scope).await,
        None => tokens.verify(text).await,
    };
    let row = verified.map_err(|error| match error {
        VerifyError::Store(error) => error.into(),
        other => Failure::invalid(other.to_string()),
    })?;
    write_rows(tokens, &[row], output, false)
}

async fn list(tokens: &Tokens, output: Output) -> Result<(), Failure> {
    let rows = tokens.list().await.map_err(Failure::from)?;
    write_rows(tokens, &rows, output, true)
}

async fn revoke(tokens: &Tokens, id: &str) -> Result<(), Failure> {
    if !tokens.revoke(id).await.map_err(Failure::from)? {
        return Err(Failure::invalid(format!(
            "{} has no token of that id: `mintage tokens list {}` shows the ids",
            tokens.entity(),
            tokens.entity()
        )));
    }
    output::remark("revoked: from now on it is refused everywhere");
    Ok(())
}

async fn prune(tokens: &Tokens, dead_for_ms: u64, care: &Care) -> Result<(), Failure> {
    let dead = tokens.dead(dead_for_ms).await.map_err(Failure::from)?;
    write_rows(tokens, &dead, Output::Text, true)?;
    output::remark(&format!("{} tokens would be forgotten", dead.len()));
    if care.dry_run || dead.is_empty() {
        return Ok(());
    }
    if !care.yes && !output::confirmed()? {
        return Err(Failure::refused("not confirmed: nothing was forgotten (--yes to go ahead without asking)"));
    }
    let forgotten = tokens.prune(dead_for_ms).await.map_err(Failure::from)?;
    output::remark(&format!("{forgotten} tokens are forgotten"));
    Ok(())
}

fn pattern(config: &ConfigArgs, entity: &str) -> Result<(), Failure> {
    let checked = args::builder().check(&config.load()?).map_err(BuildError::from)?;
    writeln!(std::io::stdout().lock(), "{}", known(&checked, entity)?.format.scanner_pattern())?;
    Ok(())
}

/// `30d`, a time, or `never`.
fn expiry(text: Option<&str>) -> Result<Expiry, Failure> {
    let Some(text) = text else { return Ok(Expiry::Configured) };
    if text == "never" {
        return Ok(Expiry::Never);
    }
    if let Some(ms) = parse_duration_ms(text) {
        return Ok(Expiry::After { ms });
    }
    let unix_ms = time::parse(text).ok().and_then(|unix_ms| u64::try_from(unix_ms).ok());
    unix_ms.map(|unix_ms| Expiry::At { unix_ms }).ok_or_else(|| {
        Failure::usage("--expires takes a duration such as 30d, a time such as 2027-01-01T00:00:00Z, or never")
    })
}

/// The token on stdin. Whatever stands among the arguments instead is not repeated.
fn presented(token: &[OsString]) -> Result<String, Failure> {
    if token.len() != 1 || token.first().is_none_or(|token| token != "-") {
        let what = "write - and give the token on stdin: arguments are seen by other users and kept by the shell";
        let stood_there = token.iter().any(|token| token != "-");
        let then = if stood_there { ". A token that stood there should be revoked" } else { "" };
        return Err(Failure::usage(format!("{what}{then}")));
    }
    let mut text = String::new();
    // What is no text is no token.
    if let Err(error) = std::io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut text)
        && error.kind() != std::io::ErrorKind::InvalidData
    {
        return Err(Failure::invalid(format!("cannot read stdin: {error}")));
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// One row a token. `-o text` has a blank where there is nothing.
fn write_rows(tokens: &Tokens, rows: &[TokenRow], output: Output, many: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            let lines: Vec<(String, String)> = rows.iter().map(|row| (row.id.clone(), line(tokens, row))).collect();
            out.write_all(output::aligned(&lines, 0).as_bytes())?;
        }
        Output::Json if many => {
            let rows: Vec<Value> = rows.iter().map(|row| described(tokens, row)).collect();
            writeln!(out, "{:#}", Value::Array(rows))?;
        }
        Output::Json => {
            for row in rows {
                writeln!(out, "{:#}", described(tokens, row))?;
            }
        }
        Output::Csv => {
            writeln!(out, "id,state,scopes,label,issued,expires,revoked")?;
            for row in rows {
                let when = |at_ms: Option<u64>| at_ms.map(date).unwrap_or_default();
                let fields = [
                    row.id.as_str(),
                    state(tokens, row),
                    &row.scopes.join(" "),
                    &row.label,
                    &date(row.issued_ms),
                    &when(row.expires_ms),
                    &when(row.revoked_ms),
                ];
                out.write_all(output::csv_line(&fields).as_bytes())?;
            }
        }
    }
    Ok(out.flush()?)
}

fn line(tokens: &Tokens, row: &TokenRow) -> String {
    let scopes = if row.scopes.is_empty() { "no scope".to_owned() } else { row.scopes.join(" ") };
    let label = if row.label.is_empty() { String::new() } else { format!("  {:?}", row.label) };
    format!("{}  issued {}  {}  {scopes}{label}", state(tokens, row), date(row.issued_ms), end(row))
}

fn described(tokens: &Tokens, row: &TokenRow) -> Value {
    json!({
        "entity": row.entity,
        "id": row.id,
        "state": state(tokens, row),
        "scopes": row.scopes,
        "label": row.label,
        "issued": date(row.issued_ms),
        "expires": row.expires_ms.map(date),
        "revoked": row.revoked_ms.map(date),
    })
}

fn state(tokens: &Tokens, row: &TokenRow) -> &'static str {
    match tokens.state(row) {
        TokenState::Active => "active",
        TokenState::Expired => "expired",
        TokenState::Revoked => "revoked",
        _ => "unknown",
    }
}

fn end(row: &TokenRow) -> String {
    match (row.revoked_ms, row.expires_ms) {
        (Some(at_ms), _) => format!("revoked {}", date(at_ms)),
        (None, Some(at_ms)) => format!("expires {}", date(at_ms)),
        (None, None) => "never expires".to_owned(),
    }
}

fn date(unix_ms: u64) -> String {
    time::rfc3339(i64::try_from(unix_ms).unwrap_or(i64::MAX), 1)
}
