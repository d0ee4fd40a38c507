//! How ids are made: [`Snowflake`], [`UuidV7`], [`Ulid`], [`Ksuid`], [`UuidV4`], [`Code`] and [`Segment`], each usable with no
//! config and no database of ours.

mod code;
mod entropy;
pub mod fork;
mod ksuid;
mod layout;
mod places;
mod revised;
mod segment;
mod snowflake;
mod strict;
mod sync;
mod text;
mod timeline;
mod ulid;
mod uuid_reader;
mod uuidv4;
mod uuidv7;

pub use self::ulid::{Ulid, parse_ulid, ulid_anatomy};
pub use code::{Code, CodeAlphabet, CodeFault};
pub use entropy::Entropy;
pub use ksuid::{KSUID_EPOCH_S, Ksuid, ksuid_anatomy, parse_ksuid, write_ksuid};
pub use layout::{
    Layout, LayoutError, MINT_BITS_MAX, PRESETS, Part, Parts, Preset, READ_BITS_MAX, TIME_BITS_MAX, TimeUnit,
    WORKER_BITS_MAX,
};
pub use revised::{Revised, RevisedReader, begins_above};
pub use segment::{Lane, Segment, SegmentFault, SegmentSettings, Stride};
pub use snowflake::{LEASE_WAIT_MS, OnOverflow, OnStep, SequenceStart, Snowflake, SnowflakeReader, SnowflakeSettings};
pub use strict::{RANDOM_DRIFT_MS, RandomOrder, RandomStep, StampError};
pub use text::TextForm;
pub use uuid_reader::{parse_uuid, parse_uuid_lenient, uuid_anatomy};
pub use uuidv4::UuidV4;
pub use uuidv7::UuidV7;
