//! `mintage keys`: the key files of public ids. A key itself is never printed.

use std::io::Write;

use mintage::{
    BuildError,
    config::{Checked, KeyPlace},
    public::{FileKeys, KeyChange, Keyring, StartAt},
    time,
};

use crate::{
    args::{self, Care, ConfigArgs, KeysCommand},
    failure::Failure,
    output,
};

pub(crate) fn run(config: &ConfigArgs, command: KeysCommand) -> Result<(), Failure> {
    let config = config.load()?;
    let checked = args::builder().check(&config).map_err(BuildError::from)?;
    match command {
        KeysCommand::New { name } => {
            let file = file(&checked, &name)?;
            file.make()?;
            output::remark(&format!(
                "made {}: keep a copy in a safe place; without it no public id can be read again",
                file.path().display()
            ));
            Ok(())
        }
        KeysCommand::Show { name } => show(&checked, &name),
        KeysCommand::Rotate { name, at, from, leaked, care } => {
            let change = match leaked {
                Some(old) => KeyChange::Reissue { old },
                None => KeyChange::Rotate { starts: starts(&checked, at.as_deref(), &from)? },
            };
            change_file(&checked, &name, &change, &care)
        }
        KeysCommand::Revoke { name, version, care } => {
            change_file(&checked, &name, &KeyChange::Revoke { version }, &care)
        }
    }
}

fn file(checked: &Checked, name: &str) -> Result<FileKeys, Failure> {
    let known: Vec<&str> = checked.keys.iter().map(|key| key.name.as_str()).collect();
    let key = checked.key(name).ok_or_else(|| {
        Failure::usage(format!(
            "no key {name:?} (known: {}): add the lines [keys.{name}] and file = \"…\"",
            known.join(", ")
        ))
    })?;
    match &key.place {
        KeyPlace::File(path) => Ok(FileKeys::new(path.clone())),
        KeyPlace::Variable(variable) => {
            Err(Failure::usage(format!("keys.{name} comes from the variable {variable}: change it where that is set")))
        }
        _ => Err(Failure::usage(format!("keys.{name} comes from a place that this program cannot change"))),
    }
}

fn show(checked: &Checked, name: &str) -> Result<(), Failure> {
    let file = file(checked, name)?;
    let ring = file.read()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "keys.{name}  {}", file.path().display())?;
    out.write_all(output::aligned(&versions(&ring), 2).as_bytes())?;
    for entity in
        checked.entities.iter().filter(|entity| entity.public.as_ref().and_then(|form| form.key()) == Some(name))
    {
        let form = entity.public.as_ref().map_or("", |form| form.name());
        let turns = entity.public.as_ref().is_some_and(|form| form.rotates());
        writeln!(out, "  {} ({form}){}", entity.name, if turns { "" } else { ": its key can never change" })?;
    }
    if file.others_may_read() {
        output::remark(&format!("{} can be read by others on this machine: chmod 600 it", file.path().display()));
    }
    Ok(())
}

/// A row a version: its check value and what it owns.
fn versions(ring: &Keyring) -> Vec<(String, String)> {
    let numbers: std::collections::BTreeSet<u32> = ring.versions().collect();
    numbers
        .into_iter()
        .map(|version| {
            let check = ring.check_value(version).map_or("revoked".to_owned(), |check| format!("check value {check}"));
            let mut owns: Vec<String> = ring
                .starts()
                .iter()
                .filter(|start| start.version == version)
                .map(|start| match &start.at {
                    StartAt::Time { unix_ms } => format!("from {}", time::rfc3339(*unix_ms, 1)),
                    StartAt::Number { entity, from } => format!("{entity} from {from}"),
                    _ => String::new(),
                })
                .collect();
            owns.extend(
                ring.reissues()
                    .iter()
                    .filter(|next| next.version == version)
                    .map(|next| format!("in place of {}", next.old)),
            );
            if owns.is_empty() {
                owns.push(if version == 1 { "from the beginning".to_owned() } else { "owns nothing yet".to_owned() });
            }
            (format!("version {version}"), format!("{check}, {}", owns.join(", ")))
        })
        .collect()
}

fn starts(checked: &Checked, at: Option<&str>, from: &[String]) -> Result<Vec<StartAt>, Failure> {
    let mut starts = Vec::new();
    if let Some(text) = at {
        starts.push(StartAt::Time { unix_ms: time::parse(text).map_err(Failure::usage)? });
    }
    for pair in from {
        let wrong = || Failure::usage(format!("{pair:?}: write ENTITY=NUMBER, such as orders=2000000"));
        let (entity, number) = pair.split_once('=').ok_or_else(wrong)?;
        if checked.entity(entity).is_none() {
            return Err(Failure::usage(format!("{pair:?}: the config has no entity {entity:?}")));
        }
        let from = mintage::core::parse_decimal(number, 63).map_err(|_| wrong())?;
        starts.push(StartAt::Number { entity: entity.to_owned(), from });
    }
    if starts.is_empty() {
        return Err(Failure::usage(
            "say from where on the new version owns ids: --at TIME for ids that carry their time, --from ENTITY=NUMBER for \
             numbers; both lie in the future",
        ));
    }
    Ok(starts)
}

fn change_file(checked: &Checked, name: &str, change: &KeyChange, care: &Care) -> Result<(), Failure> {
    let file = file(checked, name)?;
    let before = versions(&file.read()?);
    let after = versions(&file.preview(change)?);
    output::remark(&format!("{} would change", file.path().display()));
    let mut plan = String::from("before\n");
    plan.push_str(&output::aligned(&before, 2));
    plan.push_str("after (a new version gets a fresh key when the change is made)\n");
    plan.push_str(&output::aligned(&after, 2));
    plan.push_str(match change {
        KeyChange::Rotate { .. } => "No public id given out so far changes. Bring the file to every machine before the new version takes over.\n",
        KeyChange::Reissue { .. } => "Public ids of the leaked version change; the old texts open by resolve_legacy only.\n",
        _ => "Texts that only this version can open are unreadable from then on. This cannot be undone.\n",
    });
    std::io::stdout().lock().write_all(plan.as_bytes())?;
    if care.dry_run {
        return Ok(());
    }
    if !care.yes && !output::confirmed()? {
        return Err(Failure::refused("not confirmed: nothing was changed (--yes to go ahead without asking)"));
    }
    file.apply(change)?;
    output::remark(&format!("{} has changed: bring it to every machine", file.path().display()));
    Ok(())
}
