//! The command line.

use std::{ffi::OsString, io::Write, path::PathBuf};

use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use mintage::{BuildError, Config, Registry, RegistryBuilder, config::ConfigErrors};

use crate::failure::Failure;

/// Most ids one call of `new` makes: a bulk import takes ranges instead.
const NEW_MAX: u32 = 100_000_000;

/// Every entity gets the kind of id it needs.
#[derive(Debug, Parser)]
#[command(name = "mintage", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  mintage new orders -n 5                        five order numbers
  mintage new events -n 3 -o json                three snowflakes, as JSON
  mintage inspect 175928847299117063             what could this be?
  mintage at events 2026-11-30T09:15:02.417Z     the id range of that millisecond, for WHERE
  mintage explain events                         how many, how long, what it leaks
  mintage check --config deploy/mintage.toml     everything wrong with a config, at once

Exit codes: 0 ok, 1 some input invalid, 2 usage or config, 3 store unreachable, 4 refused (clock, lease, exhausted).";

#[derive(ClapArgs, Debug)]
pub(crate) struct ConfigArgs {
    /// The config file. Without it: mintage.toml in this folder, else the one built in.
    #[arg(short, long, global = true, value_name = "FILE", env = "MINTAGE_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mint ids of an entity.
    #[command(after_help = "\
Examples:
  mintage new users
  mintage new orders -n 1000 -o csv > orders.csv")]
    New(NewArgs),
    /// Tell what an id is: when, by whom, under which scheme. Lists every reading, best first.
    #[command(after_help = "\
Examples:
  mintage inspect 01ARZ3NDEKTSV4RRFFQ69G5FAV
  mintage inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f -o json
  cut -d, -f1 orders.csv | mintage inspect -")]
    Inspect(InspectArgs),
    /// The smallest and the largest id of an instant, for WHERE clauses.
    #[command(after_help = "\
Examples:
  mintage at events 2026-11-30T09:15:02.417Z
  mintage at users 2026-11-30T00:00:00Z --to 2026-11-30T23:59:59.999Z")]
    At(AtArgs),
    /// Check a config and say everything that is wrong with it. Exits 1 with the list.
    Check(CheckArgs),
    /// What the settings of an entity mean: capacity, end, order, odds, what it leaks.
    #[command(after_help = "\
Examples:
  mintage explain events
  mintage explain users -o json")]
    Explain(ExplainArgs),
    /// Print the JSON Schema of the config, for editors.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

#[derive(ClapArgs, Debug)]
pub(crate) struct NewArgs {
    /// The entity, as the config names it.
    pub(crate) entity: String,
    /// How many.
    #[arg(
        short = 'n',
        long = "count",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(NEW_MAX))
    )]
    pub(crate) count: u32,
    /// As the outside sees them.
    #[arg(long)]
    pub(crate) public: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct InspectArgs {
    /// The ids; `-` reads them from stdin, one a line.
    #[arg(required = true, allow_negative_numbers = true)]
    pub(crate) ids: Vec<OsString>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct AtArgs {
    /// The entity, as the config names it.
    pub(crate) entity: String,
    /// The instant, in RFC 3339: 2026-11-30T09:15:02.417Z. Cut to the millisecond.
    pub(crate) time: String,
    /// The end of a span, included.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct CheckArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct ExplainArgs {
    /// The entity, as the config names it.
    pub(crate) entity: String,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// JSON; ids are strings.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

impl ConfigArgs {
    /// The file named; else mintage.toml here; else the built-in one, and says so.
    pub(crate) fn read(&self) -> Result<Config, ConfigErrors> {
        if let Some(path) = &self.config {
            return Config::load(path);
        }
        let here = PathBuf::from("mintage.toml");
        if here.exists() {
            return Config::load(here);
        }
        crate::output::remark("no mintage.toml in this folder: using the built-in one, and keeping its data here");
        Config::shipped()
    }

    /// As [`read`](Self::read), for commands that can do nothing without a config.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        self.read().map_err(|errors| BuildError::from(errors).into())
    }
}

/// A registry with everything this program has.
pub(crate) fn builder() -> RegistryBuilder {
    Registry::builder().builtins()
}

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "mintage", &mut script);
    std::io::stdout().write_all(&script).map_err(Failure::from)
}
