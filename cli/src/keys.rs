//! `mintage keys`: the key files of public ids. A key itself is never printed.

use std::io::Write;

use mintage::{
    BuildError, Config, Witness,
    config::{Checked, EntityConfig, KeyPlace},
    core::{AnyId, Clock as _, SystemClock},
    public::{Codec, FileKeys, KeyChange, KeyError, KeySource as _, Keyring, PublicForm, StartAt},
    time,
};

use crate::{
    args::{self, Care, ConfigArgs, KeysCommand},
    failure::Failure,
    output,
};

pub(crate) async fn run(config: &ConfigArgs, command: KeysCommand) -> Result<(), Failure> {
    let config = config.load()?;
    let checked = args::builder().check(&config).map_err(BuildError::from)?;
    match command {
        KeysCommand::New { name } => new(&config, &checked, &name).await,
        KeysCommand::Show { name } => show(&config, &checked, &name).await,
        KeysCommand::Rotate { name, at, from, leaked, care } => {
            let change = match leaked {
                Some(old) => KeyChange::Reissue { old },
                None => KeyChange::Rotate { starts: starts(&config, &checked, &name, at.as_deref(), &from).await? },
            };
            change_file(&config, &checked, &name, &change, &care).await
        }
        KeysCommand::Revoke { name, version, care } => {
            change_file(&config, &checked, &name, &KeyChange::Revoke { version }, &care).await
        }
    }
}

/// Makes the file, unless a store knows that it is lost and not new.
async fn new(config: &Config, checked: &Checked, name: &str) -> Result<(), Failure> {
    let file = file(checked, name)?;
    if !file.path().exists() {
        not_lost(config, &file, name).await?;
    }
    file.make()?;
    output::remark(&format!(
        "made {}: keep a copy in a safe place; without it no public id can be read again",
        file.path().display()
    ));
    Ok(())
}

/// Reads the file. One that is missing is not called new while a store knows better.
async fn read(config: &Config, file: &FileKeys, name: &str) -> Result<Keyring, Failure> {
    let read = file.read();
    if matches!(read, Err(KeyError::Missing { .. })) {
        not_lost(config, file, name).await?;
    }
    Ok(read?)
}

/// Refuses where a store has a record of the keys, whose file is then lost.
async fn not_lost(config: &Config, file: &FileKeys, name: &str) -> Result<(), Failure> {
    match witness(config).await?.knows_key(name).await? {
        true => Err(KeyError::Lost { place: file.place() }.into()),
        false => Ok(()),
    }
}

/// What the stores know. A store that cannot be asked may know what matters.
async fn witness(config: &Config) -> Result<Witness, Failure> {
    let witness = args::builder().witness(config).await?;
    match witness.troubles().first() {
        Some(trouble) => Err(trouble.into()),
        None => Ok(witness),
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

async fn show(config: &Config, checked: &Checked, name: &str) -> Result<(), Failure> {
    let file = file(checked, name)?;
    let ring = read(config, &file, name).await?;
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

/// Where the new version takes over: ahead of every id there is.
async fn starts(
    config: &Config,
    checked: &Checked,
    name: &str,
    at: Option<&str>,
    from: &[String],
) -> Result<Vec<StartAt>, Failure> {
    let mut starts = Vec::new();
    if let Some(text) = at {
        let unix_ms = time::parse(text).map_err(Failure::usage)?;
        if u64::try_from(unix_ms).is_ok_and(|unix_ms| unix_ms <= SystemClock.unix_ms()) || unix_ms < 0 {
            return Err(Failure::usage(format!(
                "{text} has passed: public ids given out since would change. Name a time that leaves enough for bringing the \
                 file to every machine, or --leaked VERSION if they are to change"
            )));
        }
        starts.push(StartAt::Time { unix_ms });
    }
    for pair in from {
        starts.push(start_of_numbers(config, checked, name, pair).await?);
    }
    if starts.is_empty() {
        return Err(Failure::usage(
            "say from where on the new version owns ids: --at TIME for ids that carry their time, --from ENTITY=NUMBER for \
             numbers; both lie in the future",
        ));
    }
    Ok(starts)
}

async fn start_of_numbers(config: &Config, checked: &Checked, name: &str, pair: &str) -> Result<StartAt, Failure> {
    let wrong = || Failure::usage(format!("{pair:?}: write ENTITY=NUMBER, such as tickets=2000000"));
    let (entity, number) = pair.split_once('=').ok_or_else(wrong)?;
    let from = mintage::core::parse_decimal(number, 63).map_err(|_| wrong())?;
    let known = checked.entity(entity);
    let known = known.ok_or_else(|| Failure::usage(format!("{pair:?}: the config has no entity {entity:?}")))?;
    match &known.public {
        Some(form) if form.key() != Some(name) => {
            return Err(Failure::usage(format!("{pair:?}: {entity} does not use keys.{name}")));
        }
        Some(form) if form.rotates() => {}
        _ => return Err(Failure::usage(format!("{pair:?}: the key of {entity} can never change"))),
    }
    if let Some(next) = witness(config).await?.next_number(entity).await?.filter(|next| *next > from) {
        return Err(Failure::usage(format!(
            "{pair:?}: numbers below {next} are handed out, and their public ids would change: begin at {next} or later, with \
             room for those handed out until the file is on every machine"
        )));
    }
    Ok(StartAt::Number { entity: entity.to_owned(), from })
}

async fn change_file(
    config: &Config,
    checked: &Checked,
    name: &str,
    change: &KeyChange,
    care: &Care,
) -> Result<(), Failure> {
    let file = file(checked, name)?;
    let (before, after) = (read(config, &file, name).await?, file.preview(change)?);
    output::remark(&format!("{} would change", file.path().display()));
    let mut plan = String::from("before\n");
    plan.push_str(&output::aligned(&versions(&before), 2));
    plan.push_str("after (a new version gets a fresh key when the change is made)\n");
    plan.push_str(&output::aligned(&versions(&after), 2));
    plan.push_str("what that means\n");
    plan.push_str(&output::aligned(&moves(checked, name, &before, &after)?, 2));
    plan.push_str(match change {
        KeyChange::Rotate { .. } => "No public id given out so far changes. Bring the file to every machine before the new version takes over.\n",
        KeyChange::Reissue { .. } => "Public ids of the leaked version change; the old texts open by resolve_legacy only.\n",
        _ => "Texts that only this version can open are unreadable from then on. This cannot be undone.\n",
    });
    std::io::stdout().lock().write_all(plan.as_bytes())?;
    if care.dry_run {
        return Ok(());
    }
    confirm(care)?;
    file.apply(change)?;
    output::remark(&format!("{} has changed: bring it to every machine", file.path().display()));
    Ok(())
}

/// Asks, unless the person has said yes already.
pub(crate) fn confirm(care: &Care) -> Result<(), Failure> {
    if care.yes || output::confirmed()? {
        return Ok(());
    }
    Err(Failure::refused("not confirmed: nothing was changed (--yes to go ahead without asking)"))
}

/// A row an entity: which of its ids go to another version.
fn moves(checked: &Checked, name: &str, before: &Keyring, after: &Keyring) -> Result<Vec<(String, String)>, Failure> {
    let uses = |entity: &&EntityConfig| entity.public.as_ref().is_some_and(|form| form.key() == Some(name));
    let mut rows = Vec::new();
    for entity in checked.entities.iter().filter(uses) {
        let Some(form) = &entity.public else { continue };
        let (old, new) = (owners(checked, entity, form, before)?, owners(checked, entity, form, after)?);
        let moved = if new.is_empty() { "its key can never change".to_owned() } else { moved(entity, &old, &new) };
        rows.push((format!("{} ({})", entity.name, form.name()), moved));
    }
    Ok(rows)
}

/// From which id on which version owns. Empty for numbers, whose stages keep their keys.
fn owners(checked: &Checked, entity: &EntityConfig, form: &PublicForm, ring: &Keyring) -> Result<Owners, Failure> {
    if form.name() == "number" {
        return Ok(Vec::new());
    }
    let form = form.clone().rotated_by(ring, &entity.name, &entity.plan.reader());
    let codec = Codec::new(&form, &entity.name, &checked.realm, ring);
    let codec = codec.map_err(|error| Failure::usage(format!("entities.{}.public: {error}", entity.name)))?;
    Ok(codec.ownership())
}

type Owners = Vec<(AnyId, u32)>;

fn moved(entity: &EntityConfig, old: &Owners, new: &Owners) -> String {
    let owner = |owners: &Owners, id: AnyId| owners.iter().rev().find(|(from, _)| *from <= id).map(|(_, owner)| *owner);
    let mut bounds: Vec<AnyId> = old.iter().chain(new).map(|(from, _)| *from).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let reader = entity.plan.reader();
    let mut told = Vec::new();
    for (at, from) in bounds.iter().enumerate() {
        let (before, after) = (owner(old, *from), owner(new, *from));
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            let place = match at {
                0 => "the first id".to_owned(),
                _ => reader.format(*from).unwrap_or_default(),
            };
            let until = bounds.get(at + 1).and_then(|next| reader.format(*next));
            let until = until.map(|next| format!(", below {next}")).unwrap_or_default();
            told.push(format!("from {place} on{until}: version {after} in place of {before}"));
        }
    }
    if told.is_empty() { "nothing changes".to_owned() } else { told.join("; ") }
}
