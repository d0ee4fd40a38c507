//! The program `mintage`: mint, inspect and explain ids.
//!
//! Ids go to stdout, one a line; everything else goes to stderr. The exit code says whose move it is: 0 ok, 1 some input is
//! invalid, 2 usage or config, 3 the store cannot be reached or read, 4 refused (clock, lease, exhausted, output that cannot be
//! written).

mod args;
mod doctor;
mod draw;
mod facts;
mod failure;
mod inspect;
mod keys;
mod new;
mod output;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sequences;
mod stop;
mod store;
mod tokens;
mod workers;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

/// How many threads a run may need besides its own: one that writes, and one for a file or a database.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let outcome = match Args::try_parse() {
        Ok(args) => start(args),
        // Help is asked for too, and is output like any other.
        Err(answer) if !answer.use_stderr() => answer.print().map_err(Failure::from),
        Err(error) => error.exit(),
    };
    // What is still on its way out may fail as well.
    match outcome.and_then(|()| Ok(io::stdout().flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start(args: Args) -> Result<(), Failure> {
    let no_threads = |error: io::Error| {
        Failure::refused(format!(
            "the system gives this program no thread ({error}): raise the limit of processes (ulimit -u, or that of the container)"
        ))
    };
    if args.command.opens_stores() {
        threads_are_there().map_err(no_threads)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
    let outcome = runtime.block_on(run(args));
    // Not waiting for a write that nobody reads.
    runtime.shutdown_background();
    outcome
}

/// Tried before anything is claimed: the run time ends the program where it wants a thread and gets none.
fn threads_are_there() -> io::Result<()> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let ended = std::sync::Arc::clone(&ended);
        threads.push(std::thread::Builder::new().spawn(move || drop(ended.lock().map(|ended| ended.recv())))?);
    }
    drop(end);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::New(new) => new::run(&args.config, new).await,
        Command::Inspect(inspect) => inspect::run(&args.config, inspect).await,
        Command::At(at) => facts::at(&args.config, &at),
        Command::Check(check) => facts::check(&args.config, &check).await,
        Command::Doctor(doctor) => doctor::run(&args.config, doctor).await,
        Command::Explain(explain) => facts::explain(&args.config, &explain),
        Command::Keys(command) => keys::run(&args.config, command).await,
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        Command::Sequences(command) => sequences::run(&args.config, command).await,
        Command::Tokens(command) => tokens::run(&args.config, command).await,
        Command::Workers(workers) => workers::run(&args.config, workers).await,
        Command::Store(command) => store::run(&args.config, command).await,
        Command::Schema => facts::schema(),
        Command::Completions { shell } => args::completions(shell),
    }
}
