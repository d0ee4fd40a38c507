//! The history of ranges as the stores without tables keep it: a row for each range that was cut, shortened where a tail came back.

use mintage_core::{IdRange, RangeGrant, protocol::HISTORY_KEPT_MS};

/// A [`RangeGrant`] as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "file", feature = "cells"),
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(crate) struct RangeRow {
    /// First number.
    pub(crate) start: u64,
    /// One past the last number.
    pub(crate) end: u64,
    instance: String,
    pub(crate) at_ms: u64,
}

impl RangeRow {
    pub(crate) fn new(range: &IdRange, instance: &str, at_ms: u64) -> Self {
        Self { start: range.start, end: range.end, instance: instance.to_owned(), at_ms }
    }

    /// Whether it was cut longer ago than history is kept.
    pub(crate) fn is_too_old(&self, now_ms: u64) -> bool {
        self.at_ms.saturating_add(HISTORY_KEPT_MS) < now_ms
    }

    /// Takes what begins at `start` off; says whether nothing is left.
    pub(crate) fn shorten(&mut self, start: u64) -> bool {
        self.end = self.end.min(start);
        self.end <= self.start
    }

    /// Those of `rows` that hold the number.
    pub(crate) fn holding<'a>(rows: impl IntoIterator<Item = &'a Self>, number: u64) -> Vec<RangeGrant> {
        let holding = rows.into_iter().filter(|row| (row.start..row.end).contains(&number));
        holding.map(|row| RangeGrant::new(row.start, row.end, row.instance.clone(), row.at_ms)).collect()
    }
}
