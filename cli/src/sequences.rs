//! `mintage sequences`: the counters behind numbers. They are moved up or left alone, and only after showing what will change.

use std::io::Write;

use mintage::{
    BuildError, Config, NumberColumn, SequenceError, SequenceOwner, SequenceState, Sequences, Unused,
    core::{Reservation, ReservationState, protocol::UNLISTED},
    time,
};
use serde_json::{Value, json};

use crate::{
    args::{self, Care, ConfigArgs, Output, SequencesCommand},
    failure::{Failure, chain},
    output,
};

/// Most gaps that are listed one by one: the count is of all of them.
const RUNS_MAX: u32 = 100;

pub(crate) async fn run(config: &ConfigArgs, command: SequencesCommand) -> Result<(), Failure> {
    let config = config.load()?;
    match command {
        SequencesCommand::List { output } => list(&open(&config).await?, output).await,
        SequencesCommand::Raise { name, value, store, care } => {
            let mut sequences = open(&config).await?;
            if name == UNLISTED {
                return vouch(&mut sequences, value, store.as_deref(), &care).await;
            }
            let value = value.ok_or_else(|| Failure::usage("say what its next number is to be, at least"))?;
            let which = find(&sequences, &name, store.as_deref()).await?;
            raise(&mut sequences, &which, value, &care).await
        }
        SequencesCommand::Adopt { name, from, block, store, care } => {
            let mut sequences = open(&config).await?;
            let which = find(&sequences, &name, store.as_deref()).await?;
            match above(&sequences, &from, block).await? {
                Some(floor) => raise(&mut sequences, &which, floor, &care).await,
                None => {
                    output::remark("no source has a number, so nothing is raised: is it the right table?");
                    Ok(())
                }
            }
        }
        SequencesCommand::Gaps { name, column, store, output } => {
            let sequences = open(&config).await?;
            let which = find(&sequences, &name, store.as_deref()).await?;
            gaps(&sequences, &which, column.as_deref(), output).await
        }
    }
}

async fn open(config: &Config) -> Result<Sequences, Failure> {
    Ok(args::builder().sequences(config).await?)
}

async fn find(sequences: &Sequences, name: &str, store: Option<&str>) -> Result<SequenceState, Failure> {
    let found = sequences.find(name, store).await.map_err(|error| failure(sequences, error))?;
    remark_on(sequences.troubles());
    Ok(found)
}

/// Of a store that could not be asked, what happened to it; of anything else, also which stores could not be asked.
fn failure(sequences: &Sequences, error: SequenceError) -> Failure {
    let SequenceError::Unasked { store: unasked } = error else {
        remark_on(sequences.troubles());
        return error.into();
    };
    let of_it = |trouble: &&BuildError| matches!(trouble, BuildError::Store { store, .. } if *store == unasked);
    let trouble = sequences.troubles().iter().find(of_it);
    trouble.map_or_else(|| Failure::usage(format!("store {unasked} could not be asked")), Failure::from)
}

fn remark_on(troubles: &[BuildError]) {
    for trouble in troubles {
        output::remark(&format!("not known: {}", chain(trouble)));
    }
}

async fn list(sequences: &Sequences, output: Output) -> Result<(), Failure> {
    let all = sequences.list().await?;
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            let rows: Vec<(String, String)> = all.iter().map(|one| (one.name.clone(), line(one))).collect();
            out.write_all(output::aligned(&rows, 0).as_bytes())?;
        }
        Output::Json => {
            let rows: Vec<Value> = all
                .iter()
                .map(|one| {
                    json!({
                        "name": one.name,
                        "next": one.next.map(|next| next.to_string()),
                        "start": one.start.map(|start| start.to_string()),
                        "raises": one.raises,
                        "owner": owner(one),
                        "store": one.store,
                        "waits": one.waits,
                    })
                })
                .collect();
            writeln!(out, "{:#}", Value::Array(rows))?;
        }
        Output::Csv => {
            writeln!(out, "name,next,start,raises,owner,store,waits")?;
            for one in &all {
                let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
                let fields = [
                    one.name.as_str(),
                    &number(one.next),
                    &number(one.start),
                    &one.raises.to_string(),
                    &owner(one),
                    &one.store,
                    if one.waits { "yes" } else { "no" },
                ];
                out.write_all(output::csv_line(&fields).as_bytes())?;
            }
        }
    }
    out.flush()?;
    // What could not be asked is missing in the list.
    let Some((first, others)) = sequences.troubles().split_first() else { return Ok(()) };
    remark_on(others);
    Err(first.into())
}

fn line(one: &SequenceState) -> String {
    if one.owner == SequenceOwner::Unlisted {
        return format!("no sequence is made that is not listed, until this is raised, store {}", one.store);
    }
    let next = one.next.map_or("not used yet".to_owned(), |next| format!("next {next}"));
    let start = one.start.map(|start| format!(", began at {start}")).unwrap_or_default();
    let raised = if one.raises > 0 { format!(", raised {} times", one.raises) } else { String::new() };
    let waits = if one.waits { ", gives none until it is raised" } else { "" };
    format!("{next}{start}{raised}{waits}, {}, store {}", owner(one), one.store)
}

fn owner(one: &SequenceState) -> String {
    match &one.owner {
        SequenceOwner::Entity(name) => format!("entity {name}"),
        SequenceOwner::Series(name) => format!("series {name}"),
        SequenceOwner::Unlisted => "what is not listed".to_owned(),
        _ => "of nothing in this config".to_owned(),
    }
}

async fn raise(sequences: &mut Sequences, which: &SequenceState, floor: u64, care: &Care) -> Result<(), Failure> {
    sequences.may_raise(which, floor)?;
    let next = which.next.or(which.start).unwrap_or_default();
    let plan = if floor > next {
        format!("{} in store {}: the next number {next} becomes {floor}", which.name, which.store)
    } else if which.next.is_none() {
        format!("{} in store {}: it is made, with {next} as its next number", which.name, which.store)
    } else {
        format!(
            "{} in store {}: the next number stays {next}, which is not below {floor}; processes drop what they hold of before",
            which.name, which.store
        )
    };
    writeln!(std::io::stdout().lock(), "{plan}")?;
    if which.waits {
        output::remark(
            "it gives no number now, because its store may have forgotten ranges; raised, it goes on from there",
        );
    }
    if care.dry_run {
        return Ok(());
    }
    if !care.yes && !output::confirmed()? {
        return Err(Failure::refused("not confirmed: nothing was changed (--yes to go ahead without asking)"));
    }
    let now = sequences.raise(which, floor).await?;
    let next = now.next.unwrap_or_default();
    output::remark(&format!(
        "the next number of {} is {next}; processes that run learn of it with their next range, or within a minute",
        which.name
    ));
    let others = sequences.list().await?;
    if others.iter().any(|one| one.owner == SequenceOwner::Unlisted && one.store == which.store) {
        output::remark(&format!(
            "new sequences are not made in store {0} yet, because it may have forgotten some: once no number of a sequence that \
             is not listed is in use or held by a process, `mintage sequences raise '*' --store {0}`",
            which.store
        ));
    }
    Ok(())
}

/// Somebody has looked: nothing but what is listed is in use.
async fn vouch(sequences: &mut Sequences, value: Option<u64>, store: Option<&str>, care: &Care) -> Result<(), Failure> {
    if value.is_some() {
        return Err(Failure::usage(
            "'*' stands for the sequences that are not there and has no next number: leave VALUE out",
        ));
    }
    sequences.is_complete(store).map_err(|error| failure(sequences, error))?;
    let waiting = sequences.list().await?.into_iter();
    let waiting: Vec<SequenceState> = waiting
        .filter(|one| one.owner == SequenceOwner::Unlisted && store.is_none_or(|store| one.store == store))
        .collect();
    remark_on(sequences.troubles());
    if waiting.is_empty() {
        output::remark("new sequences are made already: nothing was changed");
        return Ok(());
    }
    for one in &waiting {
        let told = "new sequences begin at their start again; if one was in use that is not listed, its numbers repeat";
        writeln!(std::io::stdout().lock(), "store {}: {told}", one.store)?;
    }
    if care.dry_run {
        return Ok(());
    }
    if !care.yes && !output::confirmed()? {
        return Err(Failure::refused("not confirmed: nothing was changed (--yes to go ahead without asking)"));
    }
    for one in &waiting {
        sequences.raise(one, 0).await?;
        output::remark(&format!("new sequences are made in store {} again", one.store));
    }
    Ok(())
}

/// One above the largest number of all sources, which are shown; `None` where none has one.
async fn above(sequences: &Sequences, from: &[String], block: Option<u64>) -> Result<Option<u64>, Failure> {
    let folder = sequences.folder().to_owned();
    let columns = from.iter().map(|text| sequences.builder().column(text, &folder));
    // All of them are read as written before any database is asked.
    let columns: Vec<NumberColumn> = columns.collect::<Result<_, _>>()?;
    let block = block.unwrap_or(1);
    let mut rows = Vec::new();
    let mut floor = None;
    for column in &columns {
        let largest = sequences.largest(column).await?;
        rows.push((column.to_string(), largest.map_or("nothing".to_owned(), |largest| largest.to_string())));
        let Some(largest) = largest else { continue };
        let too_large = || Failure::usage(format!("{column}: blocks of {block} would end above 9223372036854775807"));
        floor = floor.max(Some((largest + 1).checked_mul(block).ok_or_else(too_large)?));
    }
    std::io::stdout().lock().write_all(output::aligned(&rows, 0).as_bytes())?;
    Ok(floor)
}

async fn gaps(
    sequences: &Sequences,
    which: &SequenceState,
    column: Option<&str>,
    output: Output,
) -> Result<(), Failure> {
    let Some(column) = column else {
        let reservations = sequences.reservations(which).await?;
        if reservations.is_empty() {
            return Err(Failure::usage(
                "a store knows what it handed out, and only your table knows what was used: name its column, such as \
                 `--in sqlite:shop.db#orders.id`",
            ));
        }
        return write_gaps(which, None, &reservations, output);
    };
    let column = sequences.builder().column(column, sequences.folder())?;
    let unused = sequences.unused(which, &column, RUNS_MAX).await?;
    write_gaps(which, Some(&unused), &unused.reservations, output)
}

fn write_gaps(
    which: &SequenceState,
    unused: Option<&Unused>,
    reservations: &[Reservation],
    output: Output,
) -> Result<(), Failure> {
    let runs = unused.map_or(&[][..], |unused| unused.gaps.runs.as_slice());
    let accounted = reservations.iter().filter(|one| one.state != ReservationState::Confirmed);
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            if let Some(unused) = unused {
                let (missing, seen) = (unused.gaps.missing, unused.to - unused.from);
                writeln!(out, "{}: {missing} of {seen} numbers from {} on are in no row", which.name, unused.from)?;
            }
            let mut rows: Vec<(String, String)> =
                runs.iter().map(|(first, last)| (span(*first, *last), String::new())).collect();
            rows.extend(accounted.map(|one| (one.number.to_string(), told(one))));
            for (numbers, why) in &rows {
                writeln!(out, "  {numbers}{}{why}", if why.is_empty() { "" } else { "  " })?;
            }
            if unused.is_some_and(|unused| runs.len() as u32 == RUNS_MAX && unused.gaps.missing > 0) {
                output::remark(&format!("only the first {RUNS_MAX} gaps are listed"));
            }
            if unused.is_some_and(|unused| unused.gaps.missing > 0) {
                output::remark(
                    "numbers that a running process holds are among them until it uses them or gives them back",
                );
            }
        }
        Output::Json => {
            let runs: Vec<Value> = runs
                .iter()
                .map(|(first, last)| json!({"first": first.to_string(), "last": last.to_string()}))
                .collect();
            let reserved: Vec<Value> = reservations
                .iter()
                .map(|one| {
                    json!({
                        "number": one.number.to_string(),
                        "state": one.state.name(),
                        "note": one.note,
                        "reserved": date(one.reserved_ms),
                        "settled": one.settled_ms.map(date),
                        "reason": one.reason,
                    })
                })
                .collect();
            let missing = unused.map(|unused| unused.gaps.missing);
            writeln!(
                out,
                "{:#}",
                json!({"sequence": which.name, "missing": missing, "gaps": runs, "reservations": reserved})
            )?;
        }
        Output::Csv => {
            writeln!(out, "first,last,state,note,reason")?;
            for (first, last) in runs {
                writeln!(out, "{first},{last},gap,,")?;
            }
            for one in reservations {
                let number = one.number.to_string();
                let fields =
                    [number.as_str(), &number, one.state.name(), &one.note, one.reason.as_deref().unwrap_or_default()];
                out.write_all(output::csv_line(&fields).as_bytes())?;
            }
        }
    }
    Ok(out.flush()?)
}

fn span(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn told(one: &Reservation) -> String {
    let what = format!("reserved {} for {:?}", date(one.reserved_ms), one.note);
    match (&one.reason, one.settled_ms) {
        (Some(reason), Some(at_ms)) => format!("{what}, void since {}: {reason:?}", date(at_ms)),
        _ => format!("{what}, open"),
    }
}

fn date(unix_ms: u64) -> String {
    time::rfc3339(i64::try_from(unix_ms).unwrap_or(i64::MAX), 1)
}
