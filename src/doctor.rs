//! Looks at a fleet from beside it: its stores, clocks, worker ids, records, keys and counters, against what a config says.
//!
//! The invariant: looking changes nothing. No table, record, key file or claim is made.
//!
//! | to find | open |
//! |---|---|
//! | whether stores answer, and what they keep | `doctor/stores.rs` |
//! | worker ids, and clocks compared | `doctor/workers.rs` |
//! | formats, keys and regions against what is on record | `doctor/records.rs` |
//! | counters | `doctor/ranges.rs` |
//! | what this machine was given before | `doctor/memory.rs` |
//! | columns of the data's own tables | `doctor/columns.rs` |

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod columns;
mod memory;
mod ranges;
mod records;
mod stores;
mod workers;

use std::{collections::BTreeMap, error::Error};

use mintage_core::{StoreError, Vitals, plugin::Backend};

use crate::{BuildError, Config, RegistryBuilder, config::Checked};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, as the config names it: `stores.main`, `workers.main`, `entities.orders`, `keys.main`; or `config`.
    pub path: String,
    /// What was found.
    pub message: String,
    /// What to do about it; `None` where nothing need be done, or the message says it.
    pub remedy: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It works, and deserves a look.
    Warning,
    /// A process does not start, does not mint, or may repeat ids.
    Error,
}

impl Severity {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The stores of a config, asked, and what was found so far.
pub(crate) struct Doctor<'b> {
    builder: &'b RegistryBuilder,
    checked: Checked,
    places: BTreeMap<String, Place>,
    findings: Vec<Finding>,
}

/// A store that answered.
#[derive(Default)]
struct Place {
    vitals: Vitals,
    /// What it keeps; empty where nothing was made yet.
    backend: Backend,
}

impl RegistryBuilder {
    /// Looks at everything that the config names: see [`Finding`]. `columns` are columns with the ids of an entity, as
    /// `ENTITY=URL#TABLE.COLUMN`. A store that is down is a finding and no error.
    ///
    /// # Errors
    /// [`BuildError::Config`]; [`BuildError::NoEntity`] or [`BuildError::Column`] for a column written wrongly.
    pub async fn doctor(&self, config: &Config, columns: &[String]) -> Result<Vec<Finding>, BuildError> {
        let checked = self.check(config)?;
        if !columns.is_empty() && !cfg!(any(feature = "mysql", feature = "postgres", feature = "sqlite")) {
            return Err(BuildError::Column { why: "this build can read no database".to_owned() });
        }
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        let columns = columns::read(self, &checked, columns)?;
        let mut doctor = Doctor { builder: self, checked, places: BTreeMap::new(), findings: Vec::new() };
        let fingerprint = doctor.checked.fingerprint();
        doctor.ok(
            "config",
            format!("fingerprint {fingerprint}: one in a whole fleet, as in the metric mintage_config_info"),
        );
        doctor.look_at_stores().await;
        doctor.look_at_workers().await;
        doctor.look_at_records().await;
        doctor.look_at_keys().await;
        doctor.look_at_memories().await;
        doctor.look_at_ranges().await;
        #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
        for column in &columns {
            doctor.look_at_column(column).await;
        }
        Ok(doctor.findings)
    }
}

impl Doctor<'_> {
    fn ok(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.found(Severity::Ok, path, message, None);
    }

    fn warn(&mut self, path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) {
        self.found(Severity::Warning, path, message, Some(remedy.into()));
    }

    fn wrong(&mut self, path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) {
        self.found(Severity::Error, path, message, Some(remedy.into()));
    }

    /// An error whose message says what to do.
    fn failed(&mut self, path: impl Into<String>, error: &dyn Error) {
        self.found(Severity::Error, path, told(error), None);
    }

    /// A store that stopped answering in the middle, or answers with what makes no sense.
    fn unanswered<T>(&mut self, path: impl Into<String>, answer: Result<T, StoreError>) -> Option<T> {
        answer.map_err(|error| self.failed(path, &error)).ok()
    }

    fn found(
        &mut self,
        severity: Severity,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: Option<String>,
    ) {
        self.findings.push(Finding { severity, path: path.into(), message: message.into(), remedy });
    }

    fn backend(&self, store: &str) -> Option<&Backend> {
        self.places.get(store).map(|place| &place.backend)
    }
}

/// An error and its causes, on one line.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `1 process`, `2 processes`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
