//! The laws of [`FormatStore`]: the first format of an entity is the only one.

use super::{Trial, join_all, must, must_not};
use crate::{Format, FormatStore, StoreErrorKind};

/// Every law of formats.
///
/// # Panics
/// When one is broken.
pub async fn all(store: &dyn FormatStore, trial: Trial) {
    first_use_records(store).await;
    growth_is_recorded(store).await;
    one_growth_wins(store, trial).await;
    one_of_many_wins(store, trial).await;
}

/// The first use records, the same is welcome again, and another one is refused by the names of the fields that differ.
///
/// # Panics
/// When not.
pub async fn first_use_records(store: &dyn FormatStore) {
    const LAW: &str = "the first format of an entity is kept";
    let (entity, other) = ("law-format", "law-format-other");
    let format = Format::of("snowflake").with("epoch", "2020-01-01").with("layout", "time:41 worker:10 sequence:12");
    assert_eq!(must(LAW, store.pinned(entity).await), None, "{LAW}: recorded before its first use");
    for _ in 0..2 {
        must(LAW, store.pin(entity, &format).await);
        assert_eq!(must(LAW, store.pinned(entity).await).as_ref(), Some(&format), "{LAW}: what is recorded");
    }
    let later_epoch = format.clone().with("epoch", "2020-01-02");
    let told = must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &later_epoch).await).to_string();
    assert!(
        told.contains("epoch") && !told.contains("layout"),
        "{LAW}: the error names the field that differs: {told}"
    );
    let other_split = format.clone().with("layout", "time:41 worker:12 sequence:10");
    let told = must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &other_split).await).to_string();
    assert!(
        told.contains("layout") && !told.contains("epoch"),
        "{LAW}: the error names the field that differs: {told}"
    );
    must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &format.clone().with("text", "base62")).await);
    must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &Format::of("snowflake")).await);
    assert_eq!(must(LAW, store.pinned(entity).await), Some(format), "{LAW}: a refusal changed what is recorded");
    must(LAW, store.pin(other, &later_epoch).await);
    assert_eq!(must(LAW, store.pinned(other).await), Some(later_epoch), "{LAW}: another entity has its own");
}

/// What a later format adds is recorded when it is first seen, and may then neither change nor go missing.
///
/// # Panics
/// When not.
pub async fn growth_is_recorded(store: &dyn FormatStore) {
    const LAW: &str = "what grows is recorded and kept";
    let entity = "law-format-grows";
    let first = Format::of("key").growing("version.1", "aa");
    let grown = first.clone().growing("version.2", "bb");
    for format in [&first, &grown, &grown] {
        must(LAW, store.pin(entity, format).await);
        assert_eq!(must(LAW, store.pinned(entity).await).as_ref(), Some(format), "{LAW}: what is recorded");
    }
    must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &first).await);
    let changed = first.clone().growing("version.2", "cc");
    let told = must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &changed).await).to_string();
    assert!(told.contains("version.2") && !told.contains("version.1"), "{LAW}: the field that differs: {told}");
    must_not(LAW, StoreErrorKind::FormatMismatch, store.pin(entity, &changed.growing("version.3", "dd")).await);
    assert_eq!(must(LAW, store.pinned(entity).await), Some(grown), "{LAW}: a refusal changed what is recorded");
}

/// Of processes that add different things at once one wins and the others are refused.
///
/// # Panics
/// When not.
pub async fn one_growth_wins(store: &dyn FormatStore, trial: Trial) {
    const LAW: &str = "of different growths at once exactly one is recorded";
    let entity = "law-format-growth-race";
    let first = Format::of("key").growing("version.1", "aa");
    must(LAW, store.pin(entity, &first).await);
    let grown: Vec<Format> = (0..trial.at_once).map(|nth| first.clone().growing("version.2", nth)).collect();
    let answers = join_all(grown.iter().map(|format| store.pin(entity, format))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{LAW}");
    let winner = grown.iter().zip(answers).find_map(|(format, answer)| answer.is_ok().then_some(format));
    assert_eq!(must(LAW, store.pinned(entity).await).as_ref(), winner, "{LAW}: a winner that is not recorded");
}

/// Of processes that start at once with different formats, one wins and the others are refused.
///
/// # Panics
/// When not.
pub async fn one_of_many_wins(store: &dyn FormatStore, trial: Trial) {
    const LAW: &str = "of different formats at once exactly one is recorded";
    let entity = "law-format-race";
    let formats: Vec<Format> = (0..trial.at_once).map(|nth| Format::of("snowflake").with("epoch_ms", nth)).collect();
    let answers = join_all(formats.iter().map(|format| store.pin(entity, format))).await;
    let recorded = must(LAW, store.pinned(entity).await);
    let mut winners = 0;
    for (format, answer) in formats.iter().zip(answers) {
        if answer.is_ok() {
            winners += 1;
            assert_eq!(recorded.as_ref(), Some(format), "{LAW}: a winner that is not recorded");
        } else {
            must_not(LAW, StoreErrorKind::FormatMismatch, answer);
        }
    }
    assert_eq!(winners, 1, "{LAW}: {winners} won");
}
