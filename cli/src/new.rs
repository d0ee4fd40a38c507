//! `mintage new`: mint ids and print them.

use std::io::{IsTerminal, Write};

use mintage::{AnyMinter, Registry};

use crate::{
    args::{self, ConfigArgs, NewArgs, Output},
    failure::Failure,
    output,
};

/// Ids minted between two writes: enough to be fast, little enough to be lost.
const CHUNK: u32 = 4096;
/// From so many ids on, a terminal is told how far it is.
const PROGRESS_FROM: u32 = 200_000;

pub(crate) async fn run(config: &ConfigArgs, new: NewArgs) -> Result<(), Failure> {
    if new.public {
        return Err(Failure::usage(
            "--public: public ids are not in this version yet, and a raw id must not stand in for one: leave out --public for \
             the internal id",
        ));
    }
    let config = config.load()?;
    let registry = args::builder().only([new.entity.as_str()]).once(new.count).build(config).await?;
    let minter = registry.any_minter(&new.entity)?;
    let printed = tokio::select! {
        printed = print(&minter, &new) => printed,
        _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted: what was not printed is given back")),
    };
    drop(minter);
    let closed = close(registry).await;
    printed.and(closed)
}

async fn close(registry: Registry) -> Result<(), Failure> {
    // The ids are printed and good. A store that cannot be told costs a gap: worth a remark, not a failure.
    if let Err(error) = registry.close().await {
        output::remark(&format!("unused numbers could not be given back: {}", crate::failure::chain(&error)));
    }
    Ok(())
}

async fn print(minter: &AnyMinter, new: &NewArgs) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut left = new.count;
    let mut first = true;
    head(&mut out, new)?;
    while left > 0 {
        let ids = minter.mint_many(left.min(CHUNK) as usize).await?;
        for id in &ids {
            let text = minter.text(*id).unwrap_or_default();
            match new.output {
                Output::Json if first => write!(out, "\"{text}\"")?,
                Output::Json => write!(out, ",\"{text}\"")?,
                Output::Text | Output::Csv => writeln!(out, "{text}")?,
            }
            first = false;
        }
        left -= u32::try_from(ids.len()).unwrap_or(left);
        out.flush()?;
        progress(new.count, left);
    }
    tail(&mut out, new)?;
    Ok(out.flush()?)
}

fn head(out: &mut impl Write, new: &NewArgs) -> Result<(), Failure> {
    match new.output {
        Output::Json => write!(out, "{{\"entity\":{},\"ids\":[", serde_json::Value::from(new.entity.as_str()))?,
        Output::Csv => writeln!(out, "id")?,
        Output::Text => {}
    }
    Ok(())
}

fn tail(out: &mut impl Write, new: &NewArgs) -> Result<(), Failure> {
    if new.output == Output::Json {
        writeln!(out, "]}}")?;
    }
    Ok(())
}

/// One line that is written over, on a terminal whose stdout goes elsewhere.
fn progress(count: u32, left: u32) {
    let mut terminal = std::io::stderr();
    if count < PROGRESS_FROM || !terminal.is_terminal() || std::io::stdout().is_terminal() {
        return;
    }
    let done = count - left;
    let end = if left == 0 { "\n" } else { "" };
    // A terminal that is gone is no reason to fail.
    let _ = write!(terminal, "\rmintage: {done} of {count} ids, {} %{end}", u64::from(done) * 100 / u64::from(count));
    let _ = terminal.flush();
}
