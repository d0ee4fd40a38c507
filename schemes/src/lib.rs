//! How ids are made: [`Snowflake`], [`UuidV7`], [`Ulid`], [`Ksuid`], [`UuidV4`] and [`Segment`], each usable with no config and
//! no database of ours.

mod timeline;
