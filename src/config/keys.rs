//! The keys of `mintage.toml`: one table each for the reader, for `did you mean` and for the JSON Schema.
//!
//! A scheme brings the table of its own keys; everything else stands here.

use std::ops::RangeInclusive;

use mintage_core::{
    TokenRow,
    plugin::{Key, KeyKind},
};

/// Shorthand for the tables below.
const fn key(name: &'static str, kind: KeyKind, about: &'static str) -> Key {
    Key { name, kind, about }
}

/// The top of the file. `entities` and `regions` have shapes of their own.
pub(super) const ROOT: &[Key] = &[
    key("version", KeyKind::Integer(1, 1), "The version of this file's grammar."),
    key(
        "realm",
        KeyKind::Text,
        "What this config is for, such as live or test: keys of one realm open nothing of another.",
    ),
    key("entities", KeyKind::Named(ENTITY), "The kinds of thing that need ids, a database table each as a rule."),
    key("series", KeyKind::Named(SERIES), "Numbers people read that begin again with each day, month or year."),
    key("workers", KeyKind::Named(POOL), "Pools of worker ids, from which processes lease one each."),
    key("regions", KeyKind::Table(&[]), "Which block of worker ids each region owns: the same in every region."),
    key("stores", KeyKind::Named(STORE), "Where ranges, leases and formats are kept."),
    key(
        "keys",
        KeyKind::Named(MASTER),
        "Where the secret keys for public ids come from. The secrets never stand here.",
    ),
];

/// What any entity takes; the keys of its scheme come on top.
pub(super) const ENTITY: &[Key] = &[
    key("scheme", KeyKind::Text, "How its ids are made."),
    key(
        "store",
        KeyKind::Text,
        "The store that keeps its format and its ranges; may be left out where there is only one.",
    ),
    key(
        "public",
        KeyKind::Table(PUBLIC),
        "What the outside world sees instead of the raw id; a token where there is one key and no such line.",
    ),
];

/// The scheme of entities that have secret tokens instead of ids. It is no factory's: a secret has no bits, no order and no
/// public form.
pub(super) const BEARER: &str = "bearer";

/// One line for lists and editors, as factories have.
pub(super) const BEARER_ABOUT: &str = "Secret tokens, such as API keys; only their hashes are kept.";

/// What an entity of bearer tokens takes.
pub(super) const TOKENS: &[Key] = &[
    key("scheme", KeyKind::Text, "How its ids are made."),
    key("store", KeyKind::Text, "The store that keeps the hashes; may be left out where there is only one."),
    key("prefix", KeyKind::Text, "What its tokens begin with: company, kind and `_`, such as acme_pat_."),
    key(
        "expires",
        KeyKind::Duration,
        "How long a token is accepted, unless it is issued otherwise. Without it: for ever.",
    ),
    key("scopes", KeyKind::Texts, "What its tokens may be issued for. Without it: any scope."),
];

/// `public = { … }` of an entity.
pub(super) const PUBLIC: &[Key] = &[
    key("form", KeyKind::Choice(&["token", "short", "number", "uuid", "plain"]), "What public ids look like."),
    key("prefix", KeyKind::Text, "What tokens begin with, such as usr; unique among the entities."),
    key("key", KeyKind::Text, "The secret key: a name from [keys]."),
    key("context", KeyKind::Flag, "Whether a token is bound to a tenant or user at run time."),
    key("alphabet", KeyKind::Choice(&["crockford", "base62", "novowel"]), "The characters of a token."),
    key("case_sensitive", KeyKind::Flag, "Whether upper and lower case may differ in meaning; base62 needs it."),
    key("allow_unauthenticated", KeyKind::Flag, "Accepts a form that hides but does not authenticate."),
    key("digits", KeyKind::Integer(DIGITS_MIN, DIGITS_MAX), "How many digits a number has, check digit included."),
    key("stages", KeyKind::Tables(STAGE), "Several widths of number, one after another, instead of digits."),
    key("max_fill", KeyKind::Fraction(0.0, 1.0), "The share of a number's domain in use at which to warn."),
    key("group", KeyKind::Integer(1, DIGITS_MAX), "How many digits stand together when a number is shown to people."),
    key("uuid", KeyKind::Choice(&["i64", "u7", "u7k4", "ulid42"]), "What is hidden in a public UUID, and how."),
];

/// One of `stages = [{ … }]`.
pub(super) const STAGE: &[Key] = &[
    key("base", KeyKind::Integer(0, i64::MAX), "The first id of the stage."),
    key("lo", KeyKind::Integer(0, i64::MAX), "The smallest public number, without its check digit."),
    key("hi", KeyKind::Integer(0, i64::MAX), "One past the largest public number, without its check digit."),
    key("key", KeyKind::Text, "The secret key: a name from [keys]."),
];

/// `[series.NAME]`.
pub(super) const SERIES: &[Key] = &[
    key("format", KeyKind::Text, "What a number looks like, such as {yyyy}{mm}{dd}-{n:06}."),
    key("zone", KeyKind::Text, "The time zone whose midnight counts, such as Europe/Berlin."),
    key(
        "restart",
        KeyKind::Choice(&["day", "month", "year", "never"]),
        "When numbers begin again; by default as often as the date in the format changes.",
    ),
    key("store", KeyKind::Text, "The store that counts; may be left out where there is only one."),
    Key::DURABILITY,
    key("start", KeyKind::Integer(0, i64::MAX), "The first number of each period. Default 1."),
    key(
        "range",
        KeyKind::Integer(1, SERIES_RANGE_MAX),
        "Numbers fetched in one trip to the store. Default 1, which leaves no gap but after a crash.",
    ),
    key("gapless", KeyKind::Flag, "Whether numbers are assigned inside your own database transaction, without a gap."),
    key("check_digit", KeyKind::Choice(&["damm"]), "Puts a check digit behind the number."),
    key("group", KeyKind::Integer(1, 18), "How many digits stand together when a number is shown to people."),
];

/// Most numbers a series fetches at once: more would only widen the gaps.
pub(super) const SERIES_RANGE_MAX: i64 = 1_000_000;

/// `[workers.NAME]`.
pub(super) const POOL: &[Key] = &[
    key("store", KeyKind::Text, "The store that grants the leases; may be left out where there is only one."),
    key("region", KeyKind::Text, "The region this process runs in: a name from [regions]."),
    key("lease", KeyKind::Table(LEASE), "The times of a lease: renew < stop < ttl ≤ window."),
    key(
        "instance",
        KeyKind::Text,
        "What this process is called in the lists of leases and ranges; MINTAGE_INSTANCE overrides it.",
    ),
    key(
        "count",
        KeyKind::Integer(1, LANES_MAX),
        "How many worker ids this process leases, for more ids a second. Default 1.",
    ),
    key(
        "on_lease_lost",
        KeyKind::Choice(&["stop", "exit"]),
        "Whether a process that lost its worker id stops minting until it has another, or ends. Default stop.",
    ),
    key("clock", KeyKind::Table(POOL_CLOCK), "How far this machine's clock may be off."),
];

/// Most worker ids of one process: beyond it the store would be busy with renewals of one client.
const LANES_MAX: i64 = 64;

/// `clock = { … }` of a pool.
pub(super) const POOL_CLOCK: &[Key] = &[
    key("alert", KeyKind::Duration, "How far from the other holders' clocks is worth an alert. Default 5ms."),
    key("refuse_start", KeyKind::Duration, "How far from the other holders' clocks a start is refused. Default 100ms."),
    key(
        "release",
        KeyKind::Duration,
        "How far the clock may step back before the worker id is given up. Default 100ms.",
    ),
];

/// `lease = { … }` of a pool.
pub(super) const LEASE: &[Key] = &[
    key("ttl", KeyKind::Duration, "How long after its last renewal a worker id may be claimed by others. Default 10s."),
    key("renew", KeyKind::Duration, "How often the lease is renewed. Default 3s."),
    key(
        "window",
        KeyKind::Duration,
        "How much time each grant holds: an outage of the store this long stops nothing. Default 60s.",
    ),
    key("max_ahead", KeyKind::Duration, "How far after the store's clock a window may begin. Default 2s."),
    key("guard", KeyKind::Duration, "How far a store's clock may fall behind in a failover. Default 1s."),
    key("quarantine", KeyKind::Duration, "How long a worker id rests after it was given back. Default 1s."),
    key("stop", KeyKind::Duration, "The strict rule: mint nothing this long after the last renewal. Off by default."),
];

/// `[stores.NAME]`.
pub(super) const STORE: &[Key] = &[
    key(
        "url",
        KeyKind::OneOf(&[KeyKind::Text, KeyKind::Table(URL)]),
        "Where the store is, such as sqlite:mintage.db; or the environment variable or the file that says so.",
    ),
    key("timeout", KeyKind::Duration, "How long one call may take. Default 10s."),
    key(
        "password",
        KeyKind::OneOf(&[KeyKind::Table(PASSWORD), KeyKind::Text]),
        "Where the password of the URL's user is; never the password itself.",
    ),
    key(
        "tls",
        KeyKind::OneOf(&[KeyKind::Flag, KeyKind::Table(TLS)]),
        "Encrypt the connection, and have the server prove who it is. Default false.",
    ),
    key("state_dir", KeyKind::Text, "A local folder that remembers what the store gave this machine. Default: none."),
    key("table_prefix", KeyKind::Text, "What the names of its tables begin with. Default mintage_."),
];

/// `password = { … }` of a store: one of the two.
pub(super) const PASSWORD: &[Key] = &[
    key("env", KeyKind::Text, "The environment variable that holds the password."),
    key("file", KeyKind::Text, "The file that holds the password, and nothing else."),
];

/// `tls = { … }` of a store.
pub(super) const TLS: &[Key] =
    &[key("ca", KeyKind::Text, "The certificates to trust, a file in PEM; by default those that the system trusts.")];

/// `url = { … }` of a store: a variable, which may have a default, or a file.
pub(super) const URL: &[Key] = &[
    key("env", KeyKind::Text, "The environment variable that holds the URL."),
    key("file", KeyKind::Text, "The file that holds the URL, and nothing else."),
    key("default", KeyKind::Text, "The URL where the variable is not set."),
];

/// `[keys.NAME]`.
pub(super) const MASTER: &[Key] = &[
    key("file", KeyKind::Text, "The file that holds the key."),
    key("env", KeyKind::Text, "The environment variable that holds the key."),
];

/// Keys that are planned: refused by name, so that nobody looks for a typing error.
pub(super) const ROOT_LATER: &[&str] = &["server"];
/// Keys of `worker` that would derive the worker id: refused with the reason.
pub(super) const DERIVED_WORKER_IDS: &[&str] =
    &["from", "hash", "host", "hostname", "ip", "mac", "pid", "random", "source"];
/// Stores of this version that a build may leave out, and the cargo feature that each needs.
pub(super) const URL_SCHEMES_BY_FEATURE: &[(&str, &str)] = &[
    ("etcd", "etcd"),
    ("file", "file"),
    ("mariadb", "mysql"),
    ("mysql", "mysql"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("redis", "redis"),
    ("sqlite", "sqlite"),
    ("zookeeper", "zookeeper"),
];

/// Fewest digits of a public number: with one less there are under a million.
const DIGITS_MIN: i64 = 8;
/// Most digits of a public number: one more and it looks like a bank card.
const DIGITS_MAX: i64 = 15;

/// What a name may look like.
#[derive(Debug)]
pub(super) struct Grammar {
    /// As a regular expression, for the schema.
    pub(super) pattern: &'static str,
    /// How many characters.
    pub(super) length: RangeInclusive<usize>,
    /// In words, after `write`.
    pub(super) words: &'static str,
    /// As code. Length aside.
    letters_fit: fn(&str) -> bool,
}

impl Grammar {
    /// Whether `text` is such a name.
    pub(super) fn fits(&self, text: &str) -> bool {
        self.length.contains(&text.chars().count()) && (self.letters_fit)(text)
    }
}

/// Entities: names go into SQL tables, metrics and type names.
pub(super) const ENTITY_NAME: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9_]*$",
    length: 1..=63,
    words: "1 to 63 of a-z, 0-9 and _, a letter first",
    letters_fit: |text| begins_with_letter(text) && text.bytes().all(|byte| is_lower_or_digit(byte) || byte == b'_'),
};

/// Pools, regions, stores and keys.
pub(super) const NAME: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9_-]*$",
    length: 1..=63,
    words: "1 to 63 of a-z, 0-9, _ and -, a letter first",
    letters_fit: |text| {
        begins_with_letter(text) && text.bytes().all(|byte| is_lower_or_digit(byte) || matches!(byte, b'_' | b'-'))
    },
};

/// Realms: part of every key's derivation.
pub(super) const REALM: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9-]*$",
    length: 1..=32,
    words: "1 to 32 of a-z, 0-9 and -, a letter first",
    letters_fit: |text| begins_with_letter(text) && text.bytes().all(|byte| is_lower_or_digit(byte) || byte == b'-'),
};

/// Prefixes of tokens: a token is split at its last `_`, so a prefix ends in none and has no empty part.
pub(super) const PREFIX: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9]*(_[a-z][a-z0-9]*)*$",
    length: 2..=32,
    words: "2 to 32 characters, such as usr or acme_usr: parts of a-z and 0-9, a letter first, joined by _",
    letters_fit: |text| text.split('_').all(|part| begins_with_letter(part) && part.bytes().all(is_lower_or_digit)),
};

/// What bearer tokens begin with: a prefix of two words at least, and the `_` before the secret.
pub(super) const BEARER_PREFIX: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9]*(_[a-z][a-z0-9]*)+_$",
    length: 6..=33,
    words: "6 to 33 characters, company and kind in lower case and a `_` after each, such as acme_pat_",
    letters_fit: |text| text.strip_suffix('_').is_some_and(|words| words.contains('_') && (PREFIX.letters_fit)(words)),
};

/// Scopes of bearer tokens.
pub(super) const SCOPE: Grammar = Grammar {
    pattern: "^[a-z][a-z0-9:._-]*$",
    length: 1..=TokenRow::SCOPE_LEN_MAX,
    words: "1 to 64 of a-z, 0-9, `:`, `.`, `_` and `-`, a letter first, such as orders:read",
    letters_fit: |text| {
        begins_with_letter(text) && text.bytes().all(|byte| is_lower_or_digit(byte) || b":._-".contains(&byte))
    },
};

/// Names of environment variables.
pub(super) const VARIABLE: Grammar = Grammar {
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    length: 1..=200,
    words: "the name of an environment variable, such as MINTAGE_STORE: letters, digits and _, no digit first",
    letters_fit: |text| {
        !text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    },
};

/// Instance names: shown to people, kept in a column of the store.
pub(super) const INSTANCE: Grammar = Grammar {
    pattern: r"^[^\x00-\x1f\x7f-\x9f]*$",
    length: 1..=128,
    words: "1 to 128 characters on one line",
    letters_fit: |text| !text.contains(char::is_control),
};

fn begins_with_letter(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn is_lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
