//! The history of ranges as the stores without tables keep it: a row for each range that was cut, shortened where a tail came back.

use std::collections::VecDeque;

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

    /// Those of `rows` that hold the number.
    pub(crate) fn holding<'a>(rows: impl IntoIterator<Item = &'a Self>, number: u64) -> Vec<RangeGrant> {
        let holding = rows.into_iter().filter(|row| (row.start..row.end).contains(&number));
        holding.map(|row| RangeGrant::new(row.start, row.end, row.instance.clone(), row.at_ms)).collect()
    }
}

/// Takes a tail off that begins at `start`, which may be that of several ranges. From the latest on: before them there may be others
/// with larger numbers, if somebody set the counter back.
pub(crate) fn shorten(rows: &mut VecDeque<RangeRow>, start: u64) {
    while let Some(row) = rows.back_mut() {
        row.end = row.end.min(start);
        if row.start < row.end {
            break;
        }
        rows.pop_back();
    }
}
