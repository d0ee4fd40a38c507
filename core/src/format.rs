//! Formats are data: recorded at first use, and a process that disagrees does not start.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;

use crate::{StoreError, StoreErrorKind};

/// Where the format of each entity is kept.
#[async_trait]
pub trait FormatStore: fmt::Debug + Send + Sync + 'static {
    /// What is recorded for `entity`; `None` before its first use.
    ///
    /// # Errors
    /// `Unavailable` when the store cannot be asked.
    async fn pinned(&self, entity: &str) -> Result<Option<Format>, StoreError>;

    /// Records `format` at first use; later calls compare, and record what has [grown](Format::grows_beyond) since.
    ///
    /// # Errors
    /// `FormatMismatch` names every field that differs. `Unavailable` when the store cannot be asked.
    async fn pin(&self, entity: &str, format: &Format) -> Result<(), StoreError>;
}

/// What the names of growing fields begin with.
const GROWING: char = '+';
/// What the name of a revision begins with, after the sign that it may be added.
const REVISION: &str = "revision.";
/// What the value of a revision begins with: when it is valid from.
const FROM: &str = "from:";

/// Everything that decides what an id of an entity means: scheme, epoch, layout, start, text. Named fields of text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Format {
    fields: BTreeMap<String, String>,
}

impl Format {
    /// The format of an entity that uses `scheme`.
    pub fn of(scheme: &str) -> Self {
        Self::default().with("scheme", scheme)
    }

    /// With one more field. Names and values are kept on one line each: control characters and `=` in names are dropped.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control() && *c != '=').collect();
        let value: String = value.to_string().chars().filter(|c| !c.is_control()).collect();
        self.fields.insert(name, value);
        self
    }

    /// With a field that a later config may add, though never change: a stage of numbers, a version of a key.
    #[must_use]
    pub fn growing(self, name: &str, value: impl fmt::Display) -> Self {
        self.with(&format!("{GROWING}{name}"), value)
    }

    /// With a revision that is valid from the Unix millisecond `from_ms` on: a growing field that names its beginning.
    #[must_use]
    pub fn revised(self, number: usize, from_ms: u64, value: impl fmt::Display) -> Self {
        self.growing(&format!("{REVISION}{number}"), format_args!("{FROM}{from_ms} {value}"))
    }

    /// Whether it has a revision: what is said in its other fields is then not all.
    pub fn is_revised(&self) -> bool {
        self.fields.keys().any(|name| name.strip_prefix(GROWING).is_some_and(|name| name.starts_with(REVISION)))
    }

    /// When the first revision begins that `recorded` has and this format does not know, Unix ms.
    pub fn unknown_revision_ms(&self, recorded: &Self) -> Option<u64> {
        let strange = recorded.fields.iter().filter(|(name, _)| !self.fields.contains_key(*name));
        strange
            .filter(|(name, _)| name.strip_prefix(GROWING).is_some_and(|name| name.starts_with(REVISION)))
            // One that cannot be read has begun long ago.
            .map(|(_, value)| {
                let from = value.strip_prefix(FROM).and_then(|rest| rest.split(' ').next());
                from.and_then(|from_ms| from_ms.parse().ok()).unwrap_or(0)
            })
            .min()
    }

    /// Whether there are growing fields that `recorded` lacks: then the store records this format instead.
    pub fn grows_beyond(&self, recorded: &Self) -> bool {
        self.fields.keys().any(|name| name.starts_with(GROWING) && !recorded.fields.contains_key(name))
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// The fields in the order of their names.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Compares with what a store has recorded.
    ///
    /// # Errors
    /// `FormatMismatch`, naming every field that differs and what to do.
    pub fn agrees_with(&self, recorded: &Self, entity: &str) -> Result<(), StoreError> {
        let missing = "(none)";
        let names: std::collections::BTreeSet<&String> = self.fields.keys().chain(recorded.fields.keys()).collect();
        let differences: Vec<String> = names
            .into_iter()
            .filter(|name| self.fields.get(*name) != recorded.fields.get(*name))
            .filter(|name| !name.starts_with(GROWING) || recorded.fields.contains_key(*name))
            .map(|name| {
                let configured = self.field(name).unwrap_or(missing);
                let stored = recorded.field(name).unwrap_or(missing);
                format!("{} is {configured} in the config and {stored} in the store", name.trim_start_matches(GROWING))
            })
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        // Records of other things than entities carry their table in their name.
        let table = if entity.contains('.') { "" } else { "entities." };
        Err(StoreError::new(
            StoreErrorKind::FormatMismatch,
            format!(
                "{table}{entity}: the config disagrees with the format recorded at first use: {}. \
                 Ids of two formats would collide or be misread: restore the old value, or give the new format a new entity name",
                differences.join("; ")
            ),
        ))
    }
}

/// One `name=value` a line, in the order of the names: what stores keep.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.fields.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{name}={value}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Format {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let fields = text
            .lines()
            .map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<BTreeMap<_, _>>>()
            .filter(|fields| fields.contains_key("scheme"));
        fields.map(|fields| Self { fields }).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Corrupt,
                "the recorded format of an entity cannot be read: restore the store from a backup",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_differences_are_named() {
        let one = Format::of("snowflake").with("epoch_ms", 5).with("layout", "time:41 = odd");
        assert_eq!(one.to_string().parse::<Format>().ok(), Some(one.clone()));
        let other = Format::of("snowflake").with("epoch_ms", 6).with("layout", "time:41 = odd").with("text", "base62");
        let told = one.agrees_with(&other, "events").unwrap_err().to_string();
        assert!(
            told.contains("entities.events") && told.contains("epoch_ms is 5 in the config and 6 in the store"),
            "{told}"
        );
        assert!(told.contains("text is (none) in the config and base62 in the store"), "{told}");
        assert!(!told.contains("layout"), "{told}");
        let grown = one.clone().growing("stage.1", "b");
        assert!(grown.agrees_with(&one, "events").is_ok() && grown.grows_beyond(&one) && !one.grows_beyond(&one));
        assert!(one.agrees_with(&grown, "events").is_err(), "what was recorded may not go missing");
        assert!(one.clone().growing("stage.1", "c").agrees_with(&grown, "events").is_err());
        let revised = one.clone().revised(2, 1_800_000_000_000, "time:41");
        assert_eq!(one.unknown_revision_ms(&revised), Some(1_800_000_000_000));
        assert_eq!((one.unknown_revision_ms(&grown), revised.unknown_revision_ms(&revised)), (None, None));
        assert!("nonsense".parse::<Format>().is_err() && "".parse::<Format>().is_err());
    }
}
