//! The map of regions, as every regional store keeps it: two maps whose blocks overlap would give one worker id to two
//! processes.

use std::{collections::BTreeMap, ops::Range};

use mintage_core::{Format, FormatStore, StoreError, StoreErrorKind};

/// Which block of worker ids each region owns.
pub(crate) type Regions = BTreeMap<String, Range<u32>>;

/// The name of the record. Entities have no dot in their names.
pub(crate) const RECORD: &str = "regions.map";
/// How often the map is written again because another process has added a region meanwhile.
const ATTEMPTS_MAX: usize = 3;

/// Compares the map with the recorded one and records what is new. A config may leave out regions that are on record: it
/// was written before they were added.
///
/// # Errors
/// `FormatMismatch` where a region has another block in the store, or two blocks overlap; and those of the store.
pub(crate) async fn settle(formats: &dyn FormatStore, regions: &Regions) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS_MAX {
        if regions.is_empty() {
            break;
        }
        let grown = grown(regions, formats.pinned(RECORD).await?.as_ref())?;
        outcome = formats.pin(RECORD, &grown).await;
        if !matches!(&outcome, Err(error) if error.kind() == StoreErrorKind::FormatMismatch) {
            break;
        }
    }
    outcome
}

/// Compares the map with the recorded one and records nothing. `false` where none is recorded.
///
/// # Errors
/// As [`settle`].
pub(crate) async fn compare(formats: &dyn FormatStore, regions: &Regions) -> Result<bool, StoreError> {
    let recorded = formats.pinned(RECORD).await?;
    grown(regions, recorded.as_ref()).map(|_| recorded.is_some())
}

/// The recorded map together with the configured one.
fn grown(regions: &Regions, recorded: Option<&Format>) -> Result<Format, StoreError> {
    let mut map = Format::of("regions");
    for (name, block) in regions {
        map = map.growing(name, written(block));
    }
    for (field, block) in recorded.into_iter().flat_map(Format::fields) {
        let Some(name) = field.strip_prefix('+') else { continue };
        if let Some((other, own)) = regions.iter().find(|(other, own)| clash(other, own, name, block)) {
            return Err(StoreError::new(
                StoreErrorKind::FormatMismatch,
                format!(
                    "regions.{other}: {} in the config, but the store has region {name} with {block}: two processes would \
                     lease one worker id. Write the same [regions] everywhere; a region can be added, not moved",
                    written(own)
                ),
            ));
        }
        if !regions.contains_key(name) {
            map = map.growing(name, block);
        }
    }
    Ok(map)
}

/// Whether a region of the config and one on record cannot both be.
fn clash(name: &str, block: &Range<u32>, recorded_name: &str, recorded: &str) -> bool {
    if name == recorded_name {
        return written(block) != recorded;
    }
    let ends = recorded.split_once("..").and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
    // What cannot be read may be anything.
    ends.is_none_or(|(start, end): (u32, u32)| start < block.end && block.start < end)
}

fn written(block: &Range<u32>) -> String {
    format!("{}..{}", block.start, block.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(blocks: &[(&str, Range<u32>)]) -> Regions {
        blocks.iter().map(|(name, block)| ((*name).to_owned(), block.clone())).collect()
    }

    #[test]
    fn a_map_grows_and_is_never_moved() {
        let recorded = grown(&map(&[("eu", 0..256), ("us", 256..512)]), None).unwrap();
        for taken in [
            map(&[("eu", 0..256)]),
            map(&[("eu", 0..256), ("us", 256..512)]),
            map(&[("eu", 0..256), ("ap", 512..600)]),
            map(&[("ap", 512..513)]),
        ] {
            assert!(grown(&taken, Some(&recorded)).is_ok(), "{taken:?}");
        }
        let more = grown(&map(&[("eu", 0..256), ("ap", 512..600)]), Some(&recorded)).unwrap();
        let fields: Vec<_> = more.fields().collect();
        assert_eq!(fields, [("+ap", "512..600"), ("+eu", "0..256"), ("+us", "256..512"), ("scheme", "regions")]);
        for refused in [
            map(&[("eu", 0..255)]),
            map(&[("eu", 0..256), ("ap", 500..600)]),
            map(&[("ap", 0..1)]),
            map(&[("x", 511..512)]),
        ] {
            let told = grown(&refused, Some(&recorded)).unwrap_err();
            assert_eq!(told.kind(), StoreErrorKind::FormatMismatch, "{refused:?}");
        }
    }
}
