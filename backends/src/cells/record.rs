//! The records and their keys. Each is a line of JSON.
//!
//! | key | what |
//! |---|---|
//! | `registry` | which registry this is, how often it was bumped and when, and in which life it was complete |
//! | `pool:NAME` | a pool's regions; changes when a region, a bump or the first claim of a chunk comes |
//! | `workers:NAME:REGION:CHUNK` | 64 worker ids; changes with every claim, renewal and release of one |
//! | `grants:NAME:REGION:CHUNK:PAGE` | past grants of those ids; the latest grant of an id is in its row |
//! | `sequences` | the names of the sequences |
//! | `sequence:NAME` | a sequence |
//! | `answers:NAME:BUCKET` | answers to idempotency keys |
//! | `ranges:NAME` | the latest ranges of a sequence; changes with each of them |
//! | `ranges:NAME:pages` | which pages of earlier ranges there are |
//! | `ranges:NAME:PAGE` | earlier ranges |
//! | `format:ENTITY` | a format |

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mintage_core::{
    Format, SequenceRow, StoreError,
    protocol::{PoolRow, WorkerRow},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    ledger::GrantRow,
    ranges::RangeRow,
    rules::{Answer, corrupt},
    sound::Sound,
};

/// The version of the records. A newer one is left alone.
pub(super) const SCHEMA: u32 = 1;

/// How many worker ids share a record. A claim reads all records of its pool, so 1,024 ids must be few records; and their
/// holders write the same record every few seconds, so these must not be many.
pub(super) const CHUNK_LEN: u32 = 64;

/// How many grants a page of history holds: each claim writes one page whole, and this keeps it near 15 kB.
pub(super) const PAGE_LEN: usize = 128;

/// How many pages of history 64 worker ids have, 8,192 grants. Beyond it the oldest page is forgotten.
pub(super) const PAGES_MAX: usize = 64;

/// How many ranges the record of the latest ones holds: each range that is cut writes it whole, and this keeps it near 3 kB.
pub(super) const RANGE_PAGE_LEN: usize = 32;

/// How many pages of earlier ranges a sequence has, 8,192 ranges; their list stays near 20 kB and is written once a page.
pub(super) const RANGE_PAGES_MAX: usize = 256;

/// How many pages that are too old go with each new one: more than come, and few enough for one change, of which etcd takes 128
/// records.
pub(super) const OLD_PAGES_MAX: usize = 8;

/// Over how many records the answers of a sequence are spread, so that each stays small.
const BUCKETS: u64 = 64;

/// How many answers one of them holds: about 16,000 a day for a sequence. They must not be forgotten early: beyond it a
/// key is refused.
pub(super) const BUCKET_LEN_MAX: usize = 256;

/// The key of the [`Registry`].
pub(super) const REGISTRY: &str = "registry";
/// The key of the [`Names`] of the sequences.
pub(super) const SEQUENCES: &str = "sequences";

/// Whether records of this kind stay for ever once they are made.
pub(super) fn never_removed(key: &str) -> bool {
    ["registry", "sequence", "pool:", "workers:"].iter().any(|kind| key.starts_with(kind))
}

pub(super) fn pool_key(pool: &str) -> String {
    format!("pool:{}", plain(pool))
}

pub(super) fn chunk_key(pool: &str, region: &str, chunk: u32) -> String {
    format!("workers:{}:{}:{chunk}", plain(pool), plain(region))
}

pub(super) fn page_key(pool: &str, region: &str, chunk: u32, page: u64) -> String {
    format!("grants:{}:{}:{chunk}:{page}", plain(pool), plain(region))
}

pub(super) fn sequence_key(sequence: &str) -> String {
    format!("sequence:{}", plain(sequence))
}

pub(super) fn answers_key(sequence: &str, key: &str) -> String {
    // FNV-1a: it must be the same in every version.
    let hash = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("answers:{}:{}", plain(sequence), hash % BUCKETS)
}

pub(super) fn ranges_key(sequence: &str) -> String {
    format!("ranges:{}", plain(sequence))
}

pub(super) fn range_pages_key(sequence: &str) -> String {
    format!("ranges:{}:pages", plain(sequence))
}

pub(super) fn range_page_key(sequence: &str, page: u64) -> String {
    format!("ranges:{}:{page}", plain(sequence))
}

pub(super) fn format_key(entity: &str) -> String {
    format!("format:{}", plain(entity))
}

/// A name as part of a key: whatever could end it, or mean something to a server, is written as `%` and two digits.
fn plain(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

/// What is kept under a key.
pub(super) trait Record: Serialize + DeserializeOwned + Sound {
    /// # Errors
    /// `Corrupt` when it is not such a record, or makes no sense.
    fn read(text: &str) -> Result<Self, StoreError> {
        let record: Self = serde_json::from_str(text).map_err(|error| {
            corrupt(
                "a record in the store cannot be read: something else wrote it, restore the store from a backup"
                    .to_owned(),
            )
            .caused_by(error)
        })?;
        record.sound()?;
        Ok(record)
    }

    fn text(&self) -> String {
        // These are plain structs with text keys: nothing in them can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Which registry this is, and what is known of the store as a whole.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Registry {
    pub(super) id: String,
    pub(super) schema: u32,
    /// How often an operator has declared that the store may have forgotten. Each begins a new life of it.
    #[serde(default)]
    pub(super) bumps: u64,
    /// The life of the store in which it was known to be complete: a pool or sequence that is not there was never there. In
    /// another life it may have been forgotten. Records of before this was thought of have none.
    #[serde(default)]
    pub(super) complete_in: Option<String>,
    /// When the last of the bumps was, by the clock of whoever declared it, Unix ms: all that was forgotten had been granted
    /// before. Where the store has no clock it stands in for that of whoever uses a pool next, which may be hours off.
    #[serde(default)]
    pub(super) bumped_ms: Option<u64>,
    /// The life of the servers in which that was: of what another has forgotten it says nothing.
    #[serde(default)]
    pub(super) bumped_in: Option<String>,
    /// When somebody said that the store is complete, Unix ms; 0 where nobody had to.
    #[serde(default)]
    pub(super) complete_since_ms: u64,
}

impl Registry {
    /// A new one, complete in that life.
    pub(super) fn new(id: String, schema: u32, life: String) -> Self {
        Self { id, schema, bumps: 0, complete_in: Some(life), bumped_ms: None, bumped_in: None, complete_since_ms: 0 }
    }

    /// The life of the store that answers in `server_life`.
    pub(super) fn life(&self, server_life: &str) -> String {
        if self.bumps == 0 { server_life.to_owned() } else { format!("{server_life}+{}", self.bumps) }
    }
}

/// The regions of a pool.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    pub(super) regions: BTreeMap<String, Region>,
}

/// A pool in one region.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Region {
    /// Its `granted_at_ms` lags behind that of the chunks: it is written when the pool is bumped.
    pub(super) row: PoolRow,
    /// The life of the store for which the row was made or bumped last.
    pub(super) life: String,
    /// Which chunks there are.
    pub(super) chunks: BTreeSet<u32>,
}

/// [`CHUNK_LEN`] worker ids in a row, those that have been claimed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chunk {
    pub(super) workers: BTreeMap<u32, WorkerRow>,
    /// The latest store time with which anything was granted here, Unix ms.
    pub(super) granted_at_ms: u64,
    /// The pages of past grants, oldest first.
    pub(super) pages: Vec<Page>,
}

/// What a page of past grants holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) number: u64,
    /// How many grants.
    pub(super) len: usize,
    /// The earliest start of one.
    pub(super) from_ms: u64,
    /// The latest end of one.
    pub(super) to_ms: u64,
}

/// A page of past grants.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grants {
    pub(super) grants: Vec<GrantRow>,
}

/// The names of the sequences.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    pub(super) names: BTreeSet<String>,
}

/// A sequence.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counter {
    pub(super) row: SequenceRow,
    /// The life of the store in which it was made or raised last. In another it hands out nothing.
    pub(super) life: String,
    /// Whether the latest range was cut for an idempotency key: then no part of it is taken back.
    pub(super) keyed: bool,
}

/// Answers to idempotency keys.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answers {
    pub(super) answers: BTreeMap<String, Answer>,
}

/// Ranges that were cut one after the other.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranges {
    /// The first cut first.
    pub(super) rows: VecDeque<RangeRow>,
}

/// The pages of earlier ranges.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangePages {
    /// Oldest first.
    pub(super) pages: Vec<RangePage>,
    /// Whether a page had to go before it was old.
    pub(super) dropped: bool,
}

/// What a page of earlier ranges holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangePage {
    pub(super) number: u64,
    /// The smallest number in it.
    pub(super) start: u64,
    /// One past the largest.
    pub(super) end: u64,
    /// When the last of its ranges was cut, Unix ms.
    pub(super) at_ms: u64,
}

/// A format.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pinned {
    pub(super) format: String,
}

impl Record for Registry {}
impl Record for Pool {}
impl Record for Chunk {}
impl Record for Grants {}
impl Record for Names {}
impl Record for Counter {}
impl Record for Answers {}
impl Record for Pinned {}
impl Record for Ranges {}
impl Record for RangePages {}

impl Sound for Registry {
    fn sound(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sound for Pool {
    fn sound(&self) -> Result<(), StoreError> {
        self.regions.values().try_for_each(|region| region.row.sound())
    }
}

impl Sound for Chunk {
    fn sound(&self) -> Result<(), StoreError> {
        self.workers.values().try_for_each(Sound::sound)?;
        let filed = self.workers.iter().all(|(worker, row)| *worker == row.worker);
        let numbered = self.pages.iter().all(|page| page.number < u64::MAX);
        if filed && numbered && self.granted_at_ms < u64::MAX / 2 {
            return Ok(());
        }
        Err(corrupt(
            "the record of some worker ids makes no sense: something else wrote it, restore the store".to_owned(),
        ))
    }
}

impl Sound for Grants {
    fn sound(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sound for Names {
    fn sound(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sound for Counter {
    fn sound(&self) -> Result<(), StoreError> {
        self.row.sound()
    }
}

impl Sound for Answers {
    fn sound(&self) -> Result<(), StoreError> {
        self.answers.values().try_for_each(Sound::sound)
    }
}

impl Sound for Ranges {
    fn sound(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sound for RangePages {
    fn sound(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Sound for Pinned {
    fn sound(&self) -> Result<(), StoreError> {
        self.format.parse::<Format>().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_run_into_each_other() {
        assert_ne!(chunk_key("a:b", "", 1), chunk_key("a", "b", 1));
        assert_eq!(pool_key("Ä/{x}"), "pool:%c3%84%2f%7bx%7d");
        assert_ne!(pool_key("%2f"), pool_key("/"));
        assert_eq!(answers_key("orders", "a"), "answers:orders:12");
    }
}
