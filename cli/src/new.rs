//! `mintage new`: mint ids, or numbers of a series, and print them.
//!
//! Numbers and worker ids that were taken and not used are given back, also when the run is stopped by Ctrl-C or `kill`, or when
//! the reader of the output goes away. Output stops at the end of a line, so that no id is ever cut to a shorter one.

use std::{
    io::{self, IsTerminal, Write},
    pin::pin,
    time::Duration,
};

use mintage::{AnyMinter, Config, Registry, Series, core::AnyId};
use tokio::sync::oneshot;

use crate::{
    args::{self, ConfigArgs, NewArgs, Output},
    failure::Failure,
    output,
    stop::Stop,
};

/// Ids minted between two writes: enough to be fast, little enough to be lost.
const CHUNK: u32 = 4096;
/// From so many ids on, a terminal is told how far it is.
const PROGRESS_FROM: u32 = 200_000;
/// How long a stopped run waits for its last lines to be read: a reader that is alive needs less, a stuck one would need
/// for ever.
const LAST_WRITE_MS_MAX: u64 = 1_000;
/// How long a run stopped at its start waits for the store: one that answers does so in much less.
const LAST_BUILD_MS_MAX: u64 = 1_000;

pub(crate) async fn run(config: &ConfigArgs, new: NewArgs) -> Result<(), Failure> {
    // Before anything is claimed: from here on, being stopped means giving back.
    let mut stop = Stop::listen()?;
    let config = config.load()?;
    let registry = build(config, &new, &mut stop).await?;
    for notice in registry.notices() {
        output::remark(notice);
    }
    let mut page = Page { output: new.output, begun: false, writing: None };
    let printed = tokio::select! {
        biased;
        () = stop.asked() => Err(stopped()),
        printed = print(&registry, &new, &mut page) => printed,
    };
    if printed.is_err() {
        // What is printed so far is good, and so should be its form. A reader that is gone or stuck does not get it.
        let _ = tokio::time::timeout(Duration::from_millis(LAST_WRITE_MS_MAX), page.tail()).await;
    }
    close(registry, &mut stop).await;
    printed
}

/// Opens the store and claims what is needed, unless stopped meanwhile.
async fn build(config: Config, new: &NewArgs, stop: &mut Stop) -> Result<Registry, Failure> {
    let mut build = pin!(args::builder().only([new.entity.as_str()]).once(new.count).build(config));
    tokio::select! {
        built = &mut build => return Ok(built?),
        () = stop.asked() => {}
    }
    // A store that answers lets us give back what it has just given.
    if let Ok(Ok(registry)) = tokio::time::timeout(Duration::from_millis(LAST_BUILD_MS_MAX), build).await {
        close(registry, stop).await;
    }
    Err(stopped())
}

async fn close(registry: Registry, stop: &mut Stop) {
    let closed = tokio::select! {
        closed = registry.close() => closed,
        () = stop.asked() => return output::remark("stopped before unused numbers were given back: they become a gap"),
    };
    // The ids are printed and good. A store that cannot be told costs a gap: worth a remark, not a failure.
    if let Err(error) = closed {
        output::remark(&format!("unused numbers could not be given back: {}", crate::failure::chain(&error)));
    }
}

fn stopped() -> Failure {
    Failure::refused("stopped: what was not printed is given back")
}

async fn print(registry: &Registry, new: &NewArgs, page: &mut Page) -> Result<(), Failure> {
    match registry.series(&new.entity) {
        Ok(_) if new.public => Err(Failure::usage("numbers of a series are what the outside sees: leave --public out")),
        Ok(series) => print_numbers(&series, new, page).await,
        Err(_) => print_ids(&registry.any_minter(&new.entity)?, new, page).await,
    }
}

async fn print_numbers(series: &Series, new: &NewArgs, page: &mut Page) -> Result<(), Failure> {
    for made in 1..=new.count {
        page.ids(series.name(), &[series.next().await?.to_string()]).await?;
        if made % CHUNK == 0 || made == new.count {
            progress(new.count, new.count - made);
        }
    }
    Ok(page.tail().await?)
}

async fn print_ids(minter: &AnyMinter, new: &NewArgs, page: &mut Page) -> Result<(), Failure> {
    let mut left = new.count;
    while left > 0 {
        let ids = minter.mint_many(left.min(CHUNK) as usize).await?;
        let texts = ids.iter().map(|id| text(minter, *id, new)).collect::<Result<Vec<String>, Failure>>()?;
        page.ids(minter.entity(), &texts).await?;
        left -= u32::try_from(ids.len()).unwrap_or(left);
        progress(new.count, left);
    }
    Ok(page.tail().await?)
}

/// The text asked for: the internal one, or the one for the outside, which never falls back to the other.
fn text(minter: &AnyMinter, id: AnyId, new: &NewArgs) -> Result<String, Failure> {
    if new.public {
        let context = new.context.as_deref().unwrap_or_default();
        return minter.publish(id, context.as_bytes()).map(|text| text.to_string()).map_err(Failure::from);
    }
    minter.text(id).ok_or_else(|| Failure::refused("an id of another width than its scheme's: please report this"))
}

/// Stdout, written by another thread: so a reader that is slow does not keep this one from being stopped.
struct Page {
    output: Output,
    begun: bool,
    /// The write on its way, if one is. It always holds whole lines.
    writing: Option<oneshot::Receiver<io::Result<()>>>,
}

impl Page {
    async fn ids(&mut self, entity: &str, ids: &[String]) -> io::Result<()> {
        let mut text = String::new();
        if !self.begun {
            text.push_str(&match self.output {
                Output::Json => format!("{{\"entity\":{},\"ids\":[", serde_json::Value::from(entity)),
                Output::Csv => "id\n".to_owned(),
                Output::Text => String::new(),
            });
        }
        for (position, id) in ids.iter().enumerate() {
            match self.output {
                Output::Json if position == 0 && !self.begun => text.push_str(&format!("\"{id}\"")),
                Output::Json => text.push_str(&format!(",\"{id}\"")),
                Output::Text | Output::Csv => text.extend([id.as_str(), "\n"]),
            }
        }
        self.begun = true;
        self.write(text).await
    }

    /// Ends what was begun.
    async fn tail(&mut self) -> io::Result<()> {
        match self.output {
            Output::Json if self.begun => self.write("]}\n".to_owned()).await,
            _ => self.settle().await,
        }
    }

    async fn write(&mut self, text: String) -> io::Result<()> {
        self.settle().await?;
        let (done, writing) = oneshot::channel();
        let write = move || {
            let mut out = io::stdout().lock();
            // Whoever was stopped meanwhile does not wait for it.
            let _ = done.send(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        };
        std::thread::Builder::new().name("stdout".to_owned()).spawn(write)?;
        self.writing = Some(writing);
        self.settle().await
    }

    /// Waits until the write on its way has come to its end, also for a caller who was cut off while waiting.
    async fn settle(&mut self) -> io::Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let written = writing.await;
        self.writing = None;
        written.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// One line that is written over, on a terminal whose stdout goes elsewhere.
fn progress(count: u32, left: u32) {
    let mut terminal = io::stderr();
    if count < PROGRESS_FROM || !terminal.is_terminal() || io::stdout().is_terminal() {
        return;
    }
    let done = count - left;
    let end = if left == 0 { "\n" } else { "" };
    // A terminal that is gone is no reason to fail.
    let _ = write!(terminal, "\rmintage: {done} of {count} ids, {} %{end}", u64::from(done) * 100 / u64::from(count));
    let _ = terminal.flush();
}
