//! What is asked for on the command line.

use crate::store::Kind;

pub(crate) const USAGE: &str = "\
usage: mintage-hunt --all | --short | --store NAME...
  --all          every store, every wrong rule, and the table in docs/evidence.md
  --short        three stores and one wrong rule for a few seconds each
  --store NAME   sqlite, file, postgres, postgres2, mariadb, redis, redis2, etcd, etcd3, zookeeper or zookeeper3; as often
                 as you like. 2 is one with a standby, 3 is three that vote
  --mutants      the wrong rules too
  --write        the table in docs/evidence.md too
  --beside WHAT  what else ran on this machine, for the report: --beside 'the compiler'
  --seconds N    hunt on each store for so long (60)
  --ids N        and until so many ids are made (50000000 with --all, else 0)
  --seed N       what happens and when (1)
  --seeds N      how many each wrong rule gets (5)
  --processes N  how many mint (8)";

/// How many seeds each wrong rule gets, unless asked otherwise. More than half of them must find it.
const MUTANT_SEEDS: u64 = 5;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) stores: Vec<Kind>,
    pub(crate) mutants: bool,
    pub(crate) short: bool,
    pub(crate) writes_the_table: bool,
    pub(crate) seconds: u64,
    pub(crate) ids: u64,
    pub(crate) seed: u64,
    pub(crate) mutant_seeds: u64,
    pub(crate) processes: usize,
    pub(crate) beside: Option<String>,
}

impl Settings {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut settings = Self {
            stores: Vec::new(),
            mutants: false,
            short: false,
            writes_the_table: false,
            seconds: 60,
            ids: 0,
            seed: 1,
            mutant_seeds: MUTANT_SEEDS,
            processes: 8,
            beside: None,
        };
        let (mut seconds, mut ids) = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--all" => {
                    settings.stores = Kind::ALL.to_vec();
                    settings.ids = 50_000_000;
                    (settings.mutants, settings.writes_the_table) = (true, true);
                }
                "--short" => {
                    settings.stores = vec![Kind::Sqlite, Kind::Postgres, Kind::RedisPair];
                    settings.seconds = 10;
                    settings.short = true;
                }
                "--beside" => settings.beside = Some(value()?.clone()),
                "--mutants" => settings.mutants = true,
                "--write" => settings.writes_the_table = true,
                "--store" => {
                    let name = value()?;
                    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                    settings.stores.push(kind.ok_or_else(|| format!("no store {name:?}"))?);
                }
                "--seconds" => seconds = Some(number(word, value()?)?),
                "--ids" => ids = Some(number(word, value()?)?),
                "--seed" => settings.seed = number(word, value()?)?,
                "--seeds" => settings.mutant_seeds = number(word, value()?)?,
                "--processes" => settings.processes = usize::try_from(number(word, value()?)?).unwrap_or(usize::MAX),
                _ => return Err(format!("unknown: {word}")),
            }
        }
        settings.seconds = seconds.unwrap_or(settings.seconds);
        settings.ids = ids.unwrap_or(settings.ids);
        if settings.stores.is_empty() {
            return Err("which store?".to_owned());
        }
        if !(2..=64).contains(&settings.processes) {
            return Err("--processes: 2 to 64".to_owned());
        }
        Ok(settings)
    }
}

fn number(word: &str, text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{word} {text}: a number was expected"))
}
