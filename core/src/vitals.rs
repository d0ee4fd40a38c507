//! What a store tells of itself to a person who asks whether all is well. Telling it changes nothing.

/// How a store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vitals {
    /// Whether the tables or records of Mintage are there; `None` where a setting keeps it from being asked.
    pub is_made: Option<bool>,
    /// What answers, with its version.
    pub server: Option<String>,
    /// Which version of tables or records it has.
    pub schema: Option<u64>,
    /// Which store it is: another value is another store, or another life of this one.
    pub identity: Option<String>,
    /// One question and its answer, on a connection that was open already.
    pub answer: Option<Answer>,
    /// What decides whether it keeps what it confirms, and who else is there to keep it.
    pub settings: Vec<StoreSetting>,
}

/// When a store was asked, and what its clock showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The asker's wall clock when the question was sent, Unix ms.
    pub asked_ms: u64,
    /// How long the answer took, in milliseconds.
    pub took_ms: u64,
    /// The store's clock at some time in between, Unix ms; `None` where it has none of its own.
    pub store_now_ms: Option<u64>,
}

/// A setting of a server, or a fact about it, and what is to be thought of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSetting {
    /// Its name, as the server has it.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it, and what to do.
    pub concern: Option<Concern>,
}

/// What is wrong, how bad that is, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Concern {
    /// Whether the store must not be used like this; else it works, with less than it promises.
    pub is_error: bool,
    /// What it leads to.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Vitals {
    /// Those of a store that tells nothing more than whether it is there.
    pub fn of(is_made: bool) -> Self {
        Self { is_made: Some(is_made), ..Self::default() }
    }
}

impl Answer {
    /// What was asked at `asked_ms` and took `took_ms`.
    pub fn new(asked_ms: u64, took_ms: u64, store_now_ms: Option<u64>) -> Self {
        Self { asked_ms, took_ms, store_now_ms }
    }
}

impl StoreSetting {
    /// One that is as it should be.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), concern: None }
    }

    /// With which the store keeps less than it promises.
    #[must_use]
    pub fn warn(self, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.concerned(false, what.into(), remedy.into())
    }

    /// With which the store must not be used.
    #[must_use]
    pub fn wrong(self, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.concerned(true, what.into(), remedy.into())
    }

    fn concerned(mut self, is_error: bool, what: String, remedy: String) -> Self {
        self.concern = Some(Concern { is_error, what, remedy });
        self
    }
}
