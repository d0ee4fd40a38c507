//! Ids that a database mints by itself: a PL/pgSQL function for houses that insert inside each shard, of time, shard and
//! sequence, in the layout of an entity. Everything that reads the entity's ids reads these.

use std::collections::BTreeMap;

use mintage_core::TablePrefix;

use crate::config::EntityConfig;

/// The function, with its parts in braces.
const TEMPLATE: &str = include_str!("shard_minter.sql");

/// How far ids may run ahead of the database's clock, in milliseconds: a step back of that much goes unnoticed, and a larger
/// one is refused. A time unit longer than that may be borrowed once.
const DRIFT_MS: u64 = 1_000;

/// Upper half of the advisory lock's number, "mint" in ASCII; the lower half is the sequence's own number.
const LOCK: u32 = 0x6d69_6e74;

/// Longest name of a table, sequence or function in PostgreSQL, in bytes: what is longer is cut off in silence.
const IDENTIFIER_LEN_MAX: usize = 63;

/// Why there is no such function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The entity's ids have no worker field.
    #[error("entities.{entity}: {scheme} ids have no worker id to carry a shard: a snowflake has")]
    Scheme {
        /// Its name.
        entity: String,
        /// Its scheme.
        scheme: String,
    },
    /// A function that knows one layout would mint by the wrong one on one side of a cut-over.
    #[error(
        "entities.{entity} has more than one layout, and a function would mint by one of them whatever the time: let processes mint its \
         ids, they know the cut-over"
    )]
    Layouts {
        /// Its name.
        entity: String,
    },
    /// The layout has no such worker id.
    #[error("shard {shard} lies outside 0..{end}, the worker ids of {entity}: choose another")]
    Shard {
        /// The entity's name.
        entity: String,
        /// The shard asked for.
        shard: u32,
        /// One past the last.
        end: u64,
    },
    /// The name of the function would be too long.
    #[error(
        "entities.{entity}: PostgreSQL would cut off the name {name}: give the entity or table_prefix a shorter one"
    )]
    Name {
        /// The entity's name.
        entity: String,
        /// The name of the function.
        name: String,
    },
}

/// The statements that make a PostgreSQL database mint ids of `entity` as worker id `shard`, by `mintage_next_ENTITY()`, or as
/// `prefix` has it.
///
/// # Errors
/// [`ShardError`] says what does not fit.
pub fn shard_minter(entity: &EntityConfig, shard: u32, prefix: &TablePrefix) -> Result<String, ShardError> {
    let format = entity.plan.format();
    let parts = format.field("layout").and_then(parts_of);
    let epoch_ms = format.field("epoch_ms").and_then(|text| text.parse::<u64>().ok());
    let (Some(parts), Some(epoch_ms)) = (parts, epoch_ms) else {
        return Err(ShardError::Scheme { entity: entity.name.clone(), scheme: entity.scheme.clone() });
    };
    if format.is_revised() {
        return Err(ShardError::Layouts { entity: entity.name.clone() });
    }
    if u64::from(shard) > parts.worker.max {
        return Err(ShardError::Shard { entity: entity.name.clone(), shard, end: parts.worker.max + 1 });
    }
    let (next, last) = (format!("{prefix}next_{}", entity.name), format!("{prefix}last_{}", entity.name));
    if next.len() > IDENTIFIER_LEN_MAX {
        return Err(ShardError::Name { entity: entity.name.clone(), name: next });
    }
    let values = [
        ("entity", entity.name.clone()),
        ("shard", shard.to_string()),
        ("layout", format.field("layout").unwrap_or_default().to_owned()),
        ("epoch_ms", epoch_ms.to_string()),
        ("unit_ms", parts.unit_ms.to_string()),
        ("drift_ms", DRIFT_MS.max(parts.unit_ms).to_string()),
        ("lock", LOCK.to_string()),
        ("next", next),
        ("last", last),
        ("time_max", parts.time.max.to_string()),
        ("time_shift", parts.time.shift.to_string()),
        ("worker_shift", parts.worker.shift.to_string()),
        ("sequence_bits", parts.sequence.bits.to_string()),
        ("sequence_max", parts.sequence.max.to_string()),
        ("sequence_shift", parts.sequence.shift.to_string()),
    ];
    let mut text = TEMPLATE.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), &value);
    }
    Ok(text)
}

/// Where a field lies.
#[derive(Clone, Copy, Debug, Default)]
struct Bits {
    bits: u32,
    shift: u32,
    max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Parts {
    time: Bits,
    worker: Bits,
    sequence: Bits,
    unit_ms: u64,
}

/// Reads a layout as it is recorded: `time:41 worker:10(region:2) sequence:12 unit:1ms`.
fn parts_of(layout: &str) -> Option<Parts> {
    let (fields, unit) = layout.rsplit_once(" unit:")?;
    let unit_ms = unit.strip_suffix("ms")?.parse().ok()?;
    let mut found = BTreeMap::new();
    let mut shift = 0;
    for field in fields.split(' ').rev() {
        let (name, width) = field.split_once(':')?;
        let bits: u32 = width.split('(').next()?.parse().ok()?;
        let max = 1_u64.checked_shl(bits)?.checked_sub(1)?;
        found.insert(name, Bits { bits, shift, max });
        shift += bits;
    }
    let of = |name: &str| found.get(name).copied();
    Some(Parts { time: of("time")?, worker: of("worker")?, sequence: of("sequence")?, unit_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_they_are_recorded() {
        let parts = parts_of("time:39 sequence:8 worker:16(region:2) unit:10ms").unwrap();
        assert_eq!([parts.time.shift, parts.sequence.shift, parts.worker.shift], [24, 16, 0]);
        assert_eq!((parts.time.max, parts.worker.max, parts.unit_ms), ((1 << 39) - 1, 65_535, 10));
        for bad in ["", "time:41", "time:x worker:1 sequence:1 unit:1ms", "worker:1 sequence:1 unit:1ms"] {
            assert!(parts_of(bad).is_none(), "{bad}");
        }
    }
}
