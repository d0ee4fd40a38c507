//! The environment variables a config may ask for.
//!
//! They set where stores and keys are and what the instance is called. Nothing that decides the meaning of an id can be
//! set here: no variable is read unless the config names it, [`INSTANCE`](Environment::INSTANCE) aside; and, where it asks for
//! the number of the replica, [`ORDINAL`](Environment::ORDINAL) and `HOSTNAME`.

use std::{collections::BTreeMap, fmt};

/// The environment variables of a process, or of a test.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The variable that sets the instance name, whatever the config says.
    pub const INSTANCE: &'static str = "MINTAGE_INSTANCE";

    /// The variable that holds the number of this replica, such as the pod index of a Kubernetes StatefulSet.
    pub const ORDINAL: &'static str = "MINTAGE_ORDINAL";

    /// The variables of this process. Those that are not UTF-8 are left out.
    pub fn of_process() -> Self {
        Self::of(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    /// Exactly these variables.
    pub fn of<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The value of a variable; an empty one counts as not set.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Says how many there are and no more: values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}
