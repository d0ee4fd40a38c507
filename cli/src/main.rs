//! The program `mintage`: mint, inspect and explain ids.
//!
//! Ids go to stdout, one a line; everything else goes to stderr. The exit code says whose move it is: 0 ok, 1 some input is
//! invalid, 2 usage or config, 3 the store cannot be reached, 4 refused (clock, lease, exhausted).

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

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(args));
            // Not waiting for a write that nobody reads.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::refused(format!("no threads to run on: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
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
