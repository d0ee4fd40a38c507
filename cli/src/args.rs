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
  mintage doctor                                 how the stores and processes behind it stand

Exit codes: 0 ok, 1 some input invalid, 2 usage or config, 3 store cannot be reached or read, 4 refused (clock, lease, exhausted,
a store that went back in time, output that cannot be written).";

#[derive(ClapArgs, Debug)]
pub(crate) struct ConfigArgs {
    /// The config file. Without it: what MINTAGE_CONFIG names, mintage.toml in this folder, the one built in.
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Names the config file, if no argument does.
// Not read by clap, which blames `--config` for what is wrong with it.
const VARIABLE: &str = "MINTAGE_CONFIG";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mint ids of an entity, or numbers of a series.
    #[command(after_help = "\
Examples:
  mintage new users
  mintage new orders --public
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
    ///
    /// It reads the config alone. Key files are not opened, and stores are asked only how full public numbers are: `mintage doctor`
    /// looks at what runs.
    Check(CheckArgs),
    /// Look at a running fleet: stores, clocks, worker ids, records, keys, counters. Changes nothing.
    ///
    /// One finding a line: ok, warning or error, with what to do. Exits 0 where there is no error, 1 where there is one, such as a
    /// store that is down, and 2 where the config cannot be used. Warnings do not change that.
    #[command(after_help = "\
Examples:
  mintage doctor
  mintage doctor --config deploy/mintage.toml -o json
  mintage doctor --column 'orders=sqlite:shop.db#orders.id'
  mintage doctor --column 'orders=env:SHOP_URL#orders.id' --column 'users=env:SHOP_URL#users.id'")]
    Doctor(DoctorArgs),
    /// What the settings of an entity or series mean: capacity, end, order, odds, what it leaks.
    #[command(after_help = "\
Examples:
  mintage explain events
  mintage explain users -o json")]
    Explain(ExplainArgs),
    /// The keys of public ids: make, show, rotate, revoke.
    #[command(
        subcommand,
        after_help = "\
Examples:
  mintage keys show
  mintage keys rotate main --at 2027-01-01T00:00:00Z --dry-run
  mintage keys rotate main --from tickets=2000000
  mintage keys revoke main --version 1"
    )]
    Keys(KeysCommand),
    /// The counters behind numbers: list, raise, take over those of existing tables, count gaps.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    #[command(
        subcommand,
        after_help = "\
Examples:
  mintage sequences list
  mintage sequences raise orders 1000000 --dry-run
  mintage sequences raise '*'                    after a failover: nothing but what is listed is in use
  mintage sequences adopt orders --from 'env:SHARD1#orders.id' --from 'env:SHARD2#orders.id' --dry-run
  mintage sequences adopt orders --from 'mysql://tickets1/db#Tickets64.id' --from 'mysql://tickets2/db#Tickets64.id'
  mintage sequences adopt orders --from 'sqlite:old.db#id_blocks.next_id[name=orders]'
  mintage sequences gaps orders --in 'sqlite:shop.db#orders.id'"
    )]
    Sequences(SequencesCommand),
    /// Bearer tokens, such as API keys: issue, verify, list, revoke, prune.
    #[command(
        subcommand,
        after_help = "\
Examples:
  mintage tokens issue api_keys --scope orders:read --label 'billing job' --expires 30d
  mintage tokens verify api_keys - < token.txt
  mintage tokens list api_keys -o json
  mintage tokens revoke api_keys 7km1dzhmq0
  mintage tokens prune api_keys --older 90d --dry-run
  mintage tokens pattern api_keys                for secret scanners"
    )]
    Tokens(TokensCommand),
    /// Worker ids: who holds them, who held them, take one back.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  mintage workers                                every pool
  mintage workers main -o json
  mintage workers history main --at 2026-11-30T09:15:02.417Z
  mintage workers revoke main 7 --dry-run        nobody gets it until it is released
  mintage workers release main 7                 lifts that, and takes it from a dead holder"
    )]
    Workers(WorkersArgs),
    /// Stores: print their tables, make them, declare that one was restored.
    #[command(
        subcommand,
        after_help = "\
Examples:
  mintage store ddl > tables.sql                 for those who run the statements themselves
  mintage store ddl --function events --shard 3  ids made inside PostgreSQL
  mintage store init
  mintage store bump main --dry-run              after a backup was restored"
    )]
    Store(StoreCommand),
    /// Print the JSON Schema of the config, for editors.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether it may open a store, which takes threads.
    pub(crate) fn opens_stores(&self) -> bool {
        !matches!(self, Self::At(_) | Self::Explain(_) | Self::Schema | Self::Completions { .. })
    }
}

#[derive(ClapArgs, Debug)]
pub(crate) struct NewArgs {
    /// The entity or series, as the config names it.
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
    /// Bind them to this tenant or user, where the public form takes a context.
    #[arg(long, requires = "public", value_name = "TEXT")]
    pub(crate) context: Option<String>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct InspectArgs {
    /// The ids; `-` reads them from stdin, one a line. A bearer token belongs there and not here: arguments are kept by shells.
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
pub(crate) struct DoctorArgs {
    /// A column of your own table with the ids of an entity, again for each: ENTITY=URL#TABLE.COLUMN. It must have a unique index,
    /// and the counter of the entity must stand above it. env:VARIABLE in place of the URL keeps a password out of the arguments.
    #[arg(long = "column", value_name = "ENTITY=SOURCE")]
    pub(crate) columns: Vec<String>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct ExplainArgs {
    /// The entity or series, as the config names it.
    pub(crate) entity: String,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Keys are named as in `[keys]` of the config.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make the key file, where there is none yet.
    New {
        /// The key.
        #[arg(default_value = "main")]
        name: String,
    },
    /// Which versions there are and which ids they own. Never prints a key.
    Show {
        /// The key.
        #[arg(default_value = "main")]
        name: String,
    },
    /// Add a version that owns the ids from a place on. No public id given out so far changes.
    Rotate {
        /// The key.
        name: String,
        /// From this time on, for entities whose ids carry their time: RFC 3339.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// From this number on, for an entity of numbers: ENTITY=NUMBER, above every range handed out.
        #[arg(long, value_name = "ENTITY=NUMBER")]
        from: Vec<String>,
        /// A version whose key leaked: the new one takes over all that it owned, and those public ids change.
        #[arg(long, value_name = "VERSION", conflicts_with_all = ["at", "from"])]
        leaked: Option<u32>,
        #[command(flatten)]
        care: Care,
    },
    /// What a version wrote opens nothing any more, and its key is wiped.
    Revoke {
        /// The key.
        name: String,
        /// The version.
        #[arg(long)]
        version: u32,
        #[command(flatten)]
        care: Care,
    },
}

/// A sequence is named by its entity, by SERIES/PERIOD, or as `list` shows it.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Subcommand)]
pub(crate) enum SequencesCommand {
    /// Where each counter stands.
    List {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Move a counter up, so that its next number is VALUE at least. Never lowers it. One that waits goes on from there; one that is
    /// not there is made.
    Raise {
        /// The entity, SERIES/PERIOD, or sequence. '*', without VALUE: no number of a sequence that is not listed is in use or held
        /// by a process, so new ones are made again.
        name: String,
        /// The next number, at least.
        value: Option<u64>,
        /// The store, where several have a sequence of that name.
        #[arg(long)]
        store: Option<String>,
        #[command(flatten)]
        care: Care,
    },
    /// Raise a counter above the numbers of existing tables: stop their writers first.
    Adopt {
        /// The entity, SERIES/PERIOD, or sequence.
        name: String,
        /// A column with numbers in use, again for each shard: URL#TABLE.COLUMN, with [NAME=VALUE] for the rows that count.
        /// env:VARIABLE in place of the URL keeps a password out of the arguments.
        #[arg(long, required = true, value_name = "SOURCE")]
        from: Vec<String>,
        /// The columns hold numbers of blocks, each of so many ids.
        #[arg(long, value_name = "IDS", value_parser = clap::value_parser!(u64).range(1..))]
        block: Option<u64>,
        /// The store, where several have a sequence of that name.
        #[arg(long)]
        store: Option<String>,
        #[command(flatten)]
        care: Care,
    },
    /// Count the numbers handed out that no row of your table has.
    Gaps {
        /// The entity, SERIES/PERIOD, or sequence.
        name: String,
        /// The column that has them: URL#TABLE.COLUMN. Without it: what a gapless series has reserved.
        #[arg(long = "in", value_name = "SOURCE")]
        column: Option<String>,
        /// The store, where several have a sequence of that name.
        #[arg(long)]
        store: Option<String>,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// Entities are those with `scheme = "bearer"` in the config.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Issue a token and print it, this once: only its hash is kept.
    Issue {
        /// The entity, as the config names it.
        entity: String,
        /// What it may be used for; again for each scope.
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// Whose it is, for lists.
        #[arg(long, default_value = "", hide_default_value = true)]
        label: String,
        /// 30d, a time such as 2027-01-01T00:00:00Z, or never. Without it: as the config says.
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Check the token on stdin. Exits 1 if it is not accepted, and does not say why.
    Verify {
        /// The entity, as the config names it.
        entity: String,
        /// `-`: the token is read from stdin, never from here.
        // Anything else is taken as well, so that its refusal does not repeat it.
        #[arg(value_name = "-", num_args = 0..)]
        token: Vec<OsString>,
        /// For a use that needs this scope.
        #[arg(long)]
        scope: Option<String>,
        /// How to print what is known of it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// The tokens of an entity: ids, scopes, labels, times. Never a token.
    List {
        /// The entity, as the config names it.
        entity: String,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Take a token back, at once and for ever.
    Revoke {
        /// The entity, as the config names it.
        entity: String,
        /// The id that `list` shows.
        id: String,
    },
    /// Forget tokens that were expired or revoked long ago. They are refused as before; the list gets shorter.
    Prune {
        /// The entity, as the config names it.
        entity: String,
        /// For how long they must have been of no use: 30d, 12h.
        #[arg(long, value_name = "DURATION", default_value = "30d")]
        older: String,
        #[command(flatten)]
        care: Care,
    },
    /// Print the regular expression that finds its tokens in code and logs.
    Pattern {
        /// The entity, as the config names it.
        entity: String,
    },
}

/// Without a command: as `list`.
#[derive(ClapArgs, Debug)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    pub(crate) list: WorkersList,
    #[command(subcommand)]
    pub(crate) command: Option<WorkersCommand>,
}

/// Which worker ids are listed.
#[derive(ClapArgs, Debug)]
pub(crate) struct WorkersList {
    /// The pool, as the config names it; without it all of them.
    pub(crate) pool: Option<String>,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Pools are named as in `[workers]` of the config.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// The worker ids that were ever claimed: holder, expiry, floor, state.
    List(WorkersList),
    /// Who could make ids of an instant.
    History {
        /// The pool.
        pool: String,
        /// The instant, in RFC 3339; without it now.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Only this worker id.
        #[arg(long, value_name = "ID")]
        worker: Option<u32>,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Take a worker id from its holder and lift a bar: from the end of its last window on others may have it.
    Release(OneWorker),
    /// Bar a worker id: its holder's next renewal fails, and nobody gets it until it is released.
    Revoke(OneWorker),
}

/// A worker id to change.
#[derive(ClapArgs, Debug)]
pub(crate) struct OneWorker {
    /// The pool.
    pub(crate) pool: String,
    /// The worker id.
    pub(crate) worker: u32,
    /// The region, where it is not this config's own.
    #[arg(long)]
    pub(crate) region: Option<String>,
    #[command(flatten)]
    pub(crate) care: Care,
}

/// Stores are named as in `[stores]` of the config; where there is only one it need not be named.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print the statements that make the tables, and those that give a user what it needs. Asks no server.
    Ddl {
        /// The store.
        store: Option<String>,
        /// Print a PL/pgSQL function instead that makes ids of this entity inside PostgreSQL.
        #[arg(long, value_name = "ENTITY", requires = "shard")]
        function: Option<String>,
        /// The worker id that the function puts into its ids.
        #[arg(long, value_name = "ID", requires = "function")]
        shard: Option<u32>,
    },
    /// Make the tables or records where there are none yet.
    Init {
        /// The store.
        store: Option<String>,
    },
    /// After a backup was restored: windows begin above all that can have been granted, every process claims anew, and sequences
    /// wait for a raise.
    Bump {
        /// The store.
        store: Option<String>,
        #[command(flatten)]
        care: Care,
    },
}

/// For what cannot be undone.
#[derive(ClapArgs, Debug)]
pub(crate) struct Care {
    /// Say what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
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
    /// The file named; else mintage.toml here; else the built-in one, and says so. Whatever is wrong with a file that was found
    /// or named, no other takes its place. The inner error is a list of faults.
    pub(crate) fn read(&self) -> Result<Result<Config, ConfigErrors>, Failure> {
        if let Some(path) = &self.config {
            return Ok(Config::load(path));
        }
        if let Some(path) = std::env::var_os(VARIABLE) {
            if path.is_empty() {
                return Err(Failure::usage(format!(
                    "{VARIABLE} is set and empty: set it to the config file, or unset it"
                )));
            }
            return Ok(Config::load(PathBuf::from(path)));
        }
        let here = PathBuf::from("mintage.toml");
        // A link to nothing is there, and so is what may not be looked at.
        match std::fs::symlink_metadata(&here) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => return Ok(Config::load(here)),
        }
        crate::output::remark("no mintage.toml in this folder: using the built-in one, and keeping its data here");
        Ok(Config::shipped())
    }

    /// As [`read`](Self::read), for commands that can do nothing without a config.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        self.read()?.map_err(|errors| BuildError::from(errors).into())
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
