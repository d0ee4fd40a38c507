//! The environment variables a config may ask for.
//!
//! They set where stores and keys are and what the instance is called. Nothing that decides the meaning of an id can be
//! set here: no variable is read unless the config names it, [`INSTANCE`](Environment::INSTANCE) aside; and, where it asks for
//! the number of the replica, [`ORDINAL`](Environment::ORDINAL) and `HOSTNAME`.

use std::{collections::BTreeMap, fmt};

/// The environment variables of a process, or of a test.
#[derive(Clone, Default)]
pub struct Environment {
    /// `None` for a value that is no text.
    variables: BTreeMap<String, Option<String>>,
}

/// A variable that is set to something else than UTF-8. That is no variable that is not set: another store or another key
/// would be used in place of the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is not UTF-8: set it to a text, or unset it")]
#[non_exhaustive]
pub struct NoText {
    /// The variable.
    pub name: String,
}

impl Environment {
    /// The variable that sets the instance name, whatever the config says.
    pub const INSTANCE: &'static str = "MINTAGE_INSTANCE";

    /// The variable that holds the number of this replica, such as the pod index of a Kubernetes StatefulSet.
    pub const ORDINAL: &'static str = "MINTAGE_ORDINAL";

    /// The variables of this process. Those whose names are not UTF-8 are left out: no config can ask for them.
    pub fn of_process() -> Self {
        let named = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self { variables: named.map(|(name, value)| (name, value.into_string().ok())).collect() }
    }

    /// Exactly these variables.
    pub fn of<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name.into(), Some(value.into()))).collect() }
    }

    /// The value of a variable; an empty one counts as not set.
    ///
    /// # Errors
    /// [`NoText`] where it is set to something that is not UTF-8.
    pub fn value(&self, name: &str) -> Result<Option<&str>, NoText> {
        match self.variables.get(name) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value.as_str()).filter(|value| !value.is_empty())),
            Some(None) => Err(NoText { name: name.to_owned() }),
        }
    }
}

/// Says how many there are and no more: values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}
