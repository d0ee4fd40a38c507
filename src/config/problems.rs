//! What is wrong with a config: a list, in the order of the file, each with its place.

use std::{error::Error, fmt};

use mintage_core::plugin::Problem;

/// Problems of one file, in the order of their places; printed one a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

impl Problems {
    /// The problems of `file`; sorts them by place and drops repeats. Those of the whole file come first.
    pub fn new(file: impl Into<String>, mut list: Vec<Problem>) -> Self {
        list.sort_by(|one, other| (one.at, &one.path, &one.message).cmp(&(other.at, &other.path, &other.message)));
        list.dedup();
        Self { file: file.into(), list }
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The problems, by place.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// One a line, such as `mintage.toml:14:1 entities.orders.layout: 41+12+12 is 65 bits, 63 at most`.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.list.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            if let Some(at) = problem.at {
                write!(f, ":{}:{}", at.line, at.column)?;
            }
            if !problem.path.is_empty() {
                write!(f, " {}", problem.path)?;
            }
            write!(f, ": {}", problem.message)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a config, at once: mend the lines it names and check again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    refusals: Problems,
    warnings: Problems,
}

impl ConfigErrors {
    /// Refusals and the warnings that came with them.
    pub(super) fn new(refusals: Problems, warnings: Problems) -> Self {
        Self { refusals, warnings }
    }

    /// One refusal of the whole file.
    pub(super) fn whole(file: &str, message: impl Into<String>) -> Self {
        let problem = Problem { path: String::new(), at: None, message: message.into(), warning: false };
        Self::new(Problems::new(file, vec![problem]), Problems::new(file, Vec::new()))
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        self.refusals.file()
    }

    /// What must be mended, by place.
    pub fn problems(&self) -> &[Problem] {
        self.refusals.list()
    }

    /// What only deserves a second look; not part of the printed text.
    pub fn warnings(&self) -> &Problems {
        &self.warnings
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusals.fmt(f)
    }
}

impl Error for ConfigErrors {}
