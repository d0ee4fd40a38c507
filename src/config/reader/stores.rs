//! `[stores.X]` and `[keys.X]`: where the environment may have its say, and where secrets would be tempting.

use std::{borrow::Cow, error::Error as _, path::PathBuf};

use mintage_core::{
    TablePrefix,
    plugin::{BackendFactory, Place, Setting, Tls, Value},
};

use super::{Block, Reader};
use crate::{
    config::{
        KeyConfig, KeyPlace, PasswordPlace, StoreConfig,
        keys::{URL_SCHEMES_BY_FEATURE, VARIABLE},
        tree::join,
        words,
    },
    password,
};

/// How long a call to a store may take where the config does not say.
const TIMEOUT_MS: u64 = 10_000;
/// Longest timeout, in milliseconds: an hour; beyond that a dead store would look like a slow one for good.
const TIMEOUT_MAX_MS: u64 = 3_600_000;

/// A URL, and where it was read from if not from the config: then it may be a secret.
struct Url<'c> {
    text: Cow<'c, str>,
    origin: Option<String>,
    at: Place,
}

/// Where something is that does not stand in the config.
enum Elsewhere<'c> {
    Variable(&'c str, Place),
    File(PathBuf, Place),
}

impl<'c> Reader<'c> {
    pub(super) fn store(&mut self, block: &Block<'c>) -> Option<StoreConfig> {
        let timeout_ms = self.timeout_ms(block);
        let url = self.url(block)?;
        self.url_fits(&join(&block.path, "url"), &url);
        let password = self.password(block, &url);
        let tls = self.tls(block, &url);
        let tables = self.table_prefix(block, &url);
        let state_dir = self.state_dir(block);
        Some(StoreConfig {
            name: block.name.to_owned(),
            url: url.text.into_owned(),
            password,
            tls,
            tables,
            state_dir,
            timeout_ms,
            at: block.at,
        })
    }

    /// `password = { … }`: a file or an environment variable, not both, and never the password.
    fn password(&mut self, block: &Block<'c>, url: &Url<'c>) -> Option<PasswordPlace> {
        let (setting, path) = (block.setting("password")?, join(&block.path, "password"));
        let Value::Table(table) = &setting.value else {
            let message = "a password must not stand in the config: put it into a file or an environment variable, and write \
                           `password = { file = \"…\" }` or `password = { env = \"…\" }`";
            self.refuse(&path, Some(setting.at), message);
            return None;
        };
        if let Some(factory) = self.factory(url)
            && !factory.takes_password()
        {
            let message = format!("{} stores have no password: take it out", factory.url_scheme());
            self.refuse(&path, Some(setting.at), message);
            return None;
        }
        if holds_password(&url.text) {
            self.refuse(&path, Some(setting.at), "the URL has a password already: keep one of the two");
            return None;
        }
        let table = Block { name: "password", path, at: setting.at, table };
        match self.elsewhere(&table, "password")? {
            Elsewhere::File(path, _) => Some(PasswordPlace::File(path)),
            Elsewhere::Variable(variable, at) => {
                let fault = match self.environment.value(variable) {
                    Ok(Some(_)) => None,
                    Ok(None) => Some(format!("the environment variable {variable} is not set: set it to the password")),
                    Err(error) => Some(error.to_string()),
                };
                if let Some(fault) = fault {
                    self.refuse(&join(&table.path, "env"), Some(at), fault);
                }
                Some(PasswordPlace::Variable(variable.to_owned()))
            }
        }
    }

    /// `file` or `env` of a table, one of the two.
    fn elsewhere(&mut self, table: &Block<'c>, what: &str) -> Option<Elsewhere<'c>> {
        match (table.setting("env"), table.text("file")) {
            (Some(_), None) if table.setting("file").is_none() => {
                self.variable(table).map(|(variable, at)| Elsewhere::Variable(variable, at))
            }
            (None, Some((file, at))) if !file.is_empty() => {
                Some(Elsewhere::File(self.beside_config(&join(&table.path, "file"), at, file), at))
            }
            // Of another type, or missing because another key is wrong: told already.
            (None, None) if table.table.iter().any(|(name, _)| name != "env" && name != "default") => None,
            _ => {
                let message =
                    format!("write the one place where the {what} is: `{{ file = \"…\" }}` or `{{ env = \"…\" }}`");
                self.refuse(&table.path, Some(table.at), message);
                None
            }
        }
    }

    /// `tls = true`, or `tls = { ca = "…" }`.
    fn tls(&mut self, block: &Block<'c>, url: &Url<'c>) -> Option<Tls> {
        let (setting, path) = (block.setting("tls")?, join(&block.path, "tls"));
        let tls = match &setting.value {
            Value::Flag(true) => Tls::default(),
            Value::Table(table) => {
                let table = Block { name: "tls", path: path.clone(), at: setting.at, table };
                let ca = table.text("ca");
                if ca.is_some_and(|(ca, _)| ca.is_empty()) {
                    let message = "empty: write the path of a file in PEM, such as \"ca.pem\"";
                    self.refuse(&join(&path, "ca"), Some(setting.at), message);
                }
                Tls::trusting(ca.map(|(ca, at)| self.beside_config(&join(&path, "ca"), at, ca)))
            }
            _ => return None,
        };
        if let Some(factory) = self.factory(url)
            && !factory.takes_tls()
        {
            let advice = if factory.takes_password() {
                "are not encrypted in this build: build it with the feature `tls`"
            } else {
                "have no encrypted connections here: take it out"
            };
            self.refuse(&path, Some(setting.at), format!("{} stores {advice}", factory.url_scheme()));
        }
        Some(tls)
    }

    /// `table_prefix = "…"`.
    fn table_prefix(&mut self, block: &Block<'c>, url: &Url<'c>) -> TablePrefix {
        let Some((text, at)) = block.text("table_prefix") else { return TablePrefix::default() };
        let path = join(&block.path, "table_prefix");
        if let Some(factory) = self.factory(url)
            && !factory.has_tables()
        {
            self.refuse(&path, Some(at), format!("{} stores have no tables: take it out", factory.url_scheme()));
        }
        TablePrefix::new(text).unwrap_or_else(|fault| {
            self.refuse(&path, Some(at), fault);
            TablePrefix::default()
        })
    }

    /// `state_dir = "…"`.
    fn state_dir(&mut self, block: &Block<'c>) -> Option<PathBuf> {
        let (text, at) = block.text("state_dir")?;
        if text.is_empty() {
            let message = "empty: write the path of a folder, such as \"/var/lib/mintage\"";
            self.refuse(&join(&block.path, "state_dir"), Some(at), message);
        }
        Some(self.beside_config(&join(&block.path, "state_dir"), at, text))
    }

    fn factory(&self, url: &Url<'c>) -> Option<&'c dyn BackendFactory> {
        self.catalog.backend_of(&url.text).map(|factory| &**factory)
    }

    fn timeout_ms(&mut self, block: &Block<'c>) -> u64 {
        let mut settings = self.settings(block);
        let timeout_ms = settings.duration_ms("timeout").unwrap_or(TIMEOUT_MS);
        if !(1..=TIMEOUT_MAX_MS).contains(&timeout_ms) {
            let most = words::duration(TIMEOUT_MAX_MS);
            settings.refuse("timeout", format!("{} lies outside 1ms to {most}", words::duration(timeout_ms)));
        }
        timeout_ms
    }

    fn url(&mut self, block: &Block<'c>) -> Option<Url<'c>> {
        let path = join(&block.path, "url");
        let Some(setting) = block.setting("url") else {
            self.refuse(&path, Some(block.at), "missing: write `url = \"sqlite:mintage.db\"`");
            return None;
        };
        match &setting.value {
            Value::Text(url) => self.inline_url(&path, url, setting.at),
            Value::Table(table) => {
                let table = Block { name: "url", path, at: setting.at, table };
                match self.elsewhere(&table, "URL")? {
                    Elsewhere::Variable(variable, at) => self.url_from_environment(&table, variable, at),
                    Elsewhere::File(file, at) => self.url_from_file(&table, file, at),
                }
            }
            _ => None,
        }
    }

    /// A URL that stands in the file: it must not hold a secret.
    fn inline_url(&mut self, path: &str, url: &'c str, at: Place) -> Option<Url<'c>> {
        if holds_password(url) {
            let message = "a password must not stand in the config: put the URL into a file or an environment variable, and write \
                           `url = { file = \"…\" }` or `url = { env = \"…\" }`";
            self.refuse(path, Some(at), message);
            return None;
        }
        Some(Url { text: Cow::Borrowed(url), origin: None, at })
    }

    /// A URL in a file of its own. It is read here, as a variable is: which kind of store it names decides what else may be written.
    fn url_from_file(&mut self, table: &Block<'c>, file: PathBuf, at: Place) -> Option<Url<'c>> {
        if let Some(default) = table.setting("default") {
            let message =
                "goes with `env` only: a file that is missing is no reason to take another store; take it out";
            self.refuse(&join(&table.path, "default"), Some(default.at), message);
        }
        match password::line_in(&file, "URL") {
            Ok(text) => Some(Url { text: Cow::Owned(text), origin: Some(format!("the file {}", file.display())), at }),
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                self.refuse(&join(&table.path, "file"), Some(at), format!("{error}{cause}"));
                None
            }
        }
    }

    fn url_from_environment(&mut self, table: &Block<'c>, variable: &'c str, at: Place) -> Option<Url<'c>> {
        let default = table.text("default");
        let default = default.and_then(|(url, at)| self.inline_url(&join(&table.path, "default"), url, at));
        let environment = self.environment;
        let value = match environment.value(variable) {
            Ok(value) => value,
            Err(error) => {
                self.refuse(&join(&table.path, "env"), Some(at), error.to_string());
                return None;
            }
        };
        match value {
            Some(url) => {
                Some(Url { text: Cow::Borrowed(url), origin: Some(format!("the environment variable {variable}")), at })
            }
            None if table.setting("default").is_none() => {
                let message = format!(
                    "the environment variable {variable} is not set: set it, or write a URL to use without it: `default = \
                     \"sqlite:mintage.db\"`"
                );
                self.refuse(&join(&table.path, "env"), Some(at), message);
                None
            }
            None => default,
        }
    }

    /// Whether there is a store for the URL, and it likes the URL; told otherwise.
    fn url_fits(&mut self, path: &str, url: &Url<'c>) {
        // Behind a plain path they would be another file, and counters would begin again in it.
        if url.text.trim() != url.text || url.text.contains(char::is_control) {
            let origin = url.origin.as_ref().map(|origin| format!(" in {origin}")).unwrap_or_default();
            let message =
                format!("the URL{origin} has white space at an end, or a line break or tab in it: take that out");
            return self.refuse(path, Some(url.at), message);
        }
        let catalog = self.catalog;
        let known: Vec<&str> = catalog.backends().iter().map(|factory| factory.url_scheme()).collect();
        let scheme = url.text.split_once(':').map(|(scheme, _)| scheme);
        let checked = match catalog.backend_of(&url.text) {
            Some(factory) => factory.check(&url.text).map(|()| {
                let file = url.text.split_once(':').map_or("", |(_, file)| file);
                if factory.local() && !file.is_empty() {
                    self.beside_config(path, url.at, file);
                }
            }),
            None => Err(unknown_store(scheme, &known, url.origin.is_none())),
        };
        if let Err(fault) = checked {
            let origin = url.origin.as_ref().map(|origin| format!("from {origin}: ")).unwrap_or_default();
            self.refuse(path, Some(url.at), format!("{origin}{fault}"));
        }
    }

    /// `[keys.X]`: a file or an environment variable, not both.
    pub(super) fn master(&mut self, block: &Block<'c>) -> Option<KeyConfig> {
        let named = (block.setting("file"), block.setting("env"));
        match named {
            (Some(_), Some(env)) => {
                self.refuse(
                    &join(&block.path, "env"),
                    Some(env.at),
                    "a key comes from a file or from the environment: keep one",
                );
            }
            (None, None) if block.table.is_empty() => {
                let message = "says not where the key is: write `file = \"mintage.keys\"` or `env = \"MINTAGE_KEYS\"`";
                self.refuse(&block.path, Some(block.at), message);
            }
            (Some(Setting { value: Value::Text(file), at }), None) if file.is_empty() => {
                self.refuse(
                    &join(&block.path, "file"),
                    Some(*at),
                    "empty: write the path of a file, such as \"mintage.keys\"",
                );
            }
            (None, Some(_)) => {
                let (variable, _) = self.variable(block)?;
                return Some(KeyConfig { name: block.name.to_owned(), place: KeyPlace::Variable(variable.to_owned()) });
            }
            (Some(Setting { value: Value::Text(file), at }), None) => {
                let path = self.beside_config(&join(&block.path, "file"), *at, file);
                return Some(KeyConfig { name: block.name.to_owned(), place: KeyPlace::File(path) });
            }
            // Of another type, or missing because another key is wrong: told already.
            (Some(_), None) | (None, None) => {}
        }
        None
    }

    /// `env = "…"` of a table. What is no name of a variable may be a secret, so it is not repeated.
    fn variable(&mut self, table: &Block<'c>) -> Option<(&'c str, Place)> {
        let (variable, at) = table.text("env")?;
        if VARIABLE.fits(variable) {
            return Some((variable, at));
        }
        self.refuse(&join(&table.path, "env"), Some(at), format!("write {}", VARIABLE.words));
        None
    }
}

/// What does not stand in the config is not repeated: it may be a password in the wrong place.
fn unknown_store(scheme: Option<&str>, known: &[&str], is_in_config: bool) -> String {
    let known_text = words::listed(known);
    match scheme {
        None => format!(
            "a URL begins with the kind of store and a colon, such as \"sqlite:mintage.db\" (known: {known_text})"
        ),
        Some("rediss") => "write redis://, and tls = true beside the url".to_owned(),
        Some(scheme) => match URL_SCHEMES_BY_FEATURE.iter().find(|(name, _)| *name == scheme) {
            Some((_, feature)) => {
                format!(
                    "{scheme} stores are not in this build (known: {known_text}): build it with the feature `{feature}`"
                )
            }
            None if is_in_config => words::unknown("kind of store", scheme, known),
            None => format!("what stands there begins with no kind of store (known: {known_text})"),
        },
    }
}

/// Whether a URL has a password before its host, or a parameter that looks like one.
pub(crate) fn holds_password(url: &str) -> bool {
    let (before_query, query) = url.split_once('?').unwrap_or((url, ""));
    let authority =
        before_query.split_once("//").map_or("", |(_, rest)| rest.split(['/', '#']).next().unwrap_or_default());
    let in_authority = authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty());
    let in_query = query.split(['&', '#']).filter_map(|pair| pair.split_once('=')).any(|(name, value)| {
        let name = name.to_lowercase();
        !value.is_empty() && ["password", "passwd", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
    });
    in_authority || in_query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_seen() {
        for with in [
            "postgres://user:pass@host/db",
            "postgres://user:p:a@host:5432/db?sslmode=require",
            "redis://:pass@host",
            "mysql://u:p@h#x",
            "postgres://host/db?user=u&password=p",
            "postgres://host/db?sslPassword=p",
        ] {
            assert!(holds_password(with), "{with}");
        }
        for without in [
            "sqlite:mintage.db",
            "sqlite:c:\\ids\\mintage.db",
            "memory:",
            "postgres://user@host:5432/db",
            "postgres://user:@host/db",
            "etcd://one:2379,two:2379/a@b",
            "postgres://host/db?password=",
            "",
        ] {
            assert!(!holds_password(without), "{without}");
        }
    }
}
