//! The laws of [`TokenStore`]: what is found is what was kept, and revoked is for ever.

use super::{Trial, join_all, must, must_not};
use crate::{StoreErrorKind, TokenRow, TokenStore};

/// Every law of tokens.
///
/// # Panics
/// When one is broken.
pub async fn all(store: &dyn TokenStore, trial: Trial) {
    what_is_found_was_kept(store).await;
    entities_are_apart(store).await;
    ids_and_hashes_are_unique(store).await;
    revoked_stays_revoked(store).await;
    limits_are_kept(store).await;
    only_the_dead_are_pruned(store).await;
    many_at_once_are_all_kept(store, trial).await;
}

/// Every field comes back, by hash and in the list, which is in the order of issue; another hash finds nothing.
///
/// # Panics
/// When not.
pub async fn what_is_found_was_kept(store: &dyn TokenStore) {
    const LAW: &str = "what is found is what was kept";
    let entity = "law-tokens";
    assert_eq!(must(LAW, store.list(entity).await), [], "{LAW}: there before any was issued");
    let mut full = row(entity, "b", 1);
    full.scopes = vec!["orders:read".to_owned(), "admin".to_owned()];
    full.label = "Zoë's \"laptop\", 'main'; --".to_owned();
    full.issued_ms = 2_000;
    full.expires_ms = Some(TokenRow::TIME_END_MS - 1);
    let mut bare = row(entity, "z", 2);
    bare.issued_ms = 1_000;
    let mut edge = row(entity, "a", 0xff);
    edge.issued_ms = 2_000;
    edge.scopes = (0..TokenRow::SCOPES_MAX).map(|nth| format!("s{nth}")).collect();
    edge.label = "é".repeat(TokenRow::LABEL_LEN_MAX);
    for row in [&full, &bare, &edge] {
        must(LAW, store.insert(row).await);
        assert_eq!(must(LAW, store.find(entity, &row.hash).await).as_ref(), Some(row), "{LAW}: by its hash");
    }
    assert_eq!(must(LAW, store.list(entity).await), [bare.clone(), edge, full], "{LAW}: the list");
    let mut near = bare.hash;
    near[31] ^= 1;
    assert_eq!(must(LAW, store.find(entity, &near).await), None, "{LAW}: by a hash that differs in one bit");
}

/// A token is found under its own entity only, and so is it revoked.
///
/// # Panics
/// When not.
pub async fn entities_are_apart(store: &dyn TokenStore) {
    const LAW: &str = "tokens of different entities are apart";
    let [one, other] = [row("law-tokens-one", "same", 7), row("law-tokens-other", "same", 7)];
    must(LAW, store.insert(&one).await);
    assert_eq!(must(LAW, store.find(&other.entity, &one.hash).await), None, "{LAW}: found under another");
    assert!(!must(LAW, store.revoke(&other.entity, &one.id, 5).await), "{LAW}: revoked under another");
    must(LAW, store.insert(&other).await);
    assert!(must(LAW, store.revoke(&other.entity, &other.id, 5).await), "{LAW}");
    assert_eq!(must(LAW, store.find(&one.entity, &one.hash).await), Some(one), "{LAW}: revoked along with another");
}

/// A second token with the id or the hash of one there is refused, and changes nothing.
///
/// # Panics
/// When not.
pub async fn ids_and_hashes_are_unique(store: &dyn TokenStore) {
    const LAW: &str = "no two tokens of an entity share an id or a hash";
    let entity = "law-tokens-unique";
    let first = row(entity, "one", 1);
    must(LAW, store.insert(&first).await);
    for second in [first.clone(), row(entity, "one", 2), row(entity, "two", 1)] {
        must_not(LAW, StoreErrorKind::Conflict, store.insert(&second).await);
    }
    assert_eq!(must(LAW, store.list(entity).await), [first], "{LAW}: a refusal changed what is kept");
}

/// The first time of revoking is kept, a repeat says yes again, and an id that is not there says no.
///
/// # Panics
/// When not.
pub async fn revoked_stays_revoked(store: &dyn TokenStore) {
    const LAW: &str = "a revoked token stays revoked";
    let entity = "law-tokens-revoked";
    let mut token = row(entity, "one", 1);
    let untouched = row(entity, "two", 2);
    must(LAW, store.insert(&token).await);
    must(LAW, store.insert(&untouched).await);
    for at_ms in [7, 9, 3] {
        assert!(must(LAW, store.revoke(entity, "one", at_ms).await), "{LAW}: at {at_ms}");
    }
    token.revoked_ms = Some(7);
    assert_eq!(must(LAW, store.find(entity, &token.hash).await), Some(token.clone()), "{LAW}: its first time");
    for stranger in ["three", "", "One", "on%", "' OR 1=1 --"] {
        assert!(!must(LAW, store.revoke(entity, stranger, 7).await), "{LAW}: there is no {stranger:?}");
    }
    must_not(LAW, StoreErrorKind::Conflict, store.insert(&row(entity, "one", 1)).await);
    assert_eq!(must(LAW, store.list(entity).await), [token, untouched], "{LAW}");
}

/// A row outside the limits is refused and not kept.
///
/// # Panics
/// When it is kept.
pub async fn limits_are_kept(store: &dyn TokenStore) {
    const LAW: &str = "a token outside the limits is refused";
    let entity = "law-tokens-limits";
    let mut shouted = row(entity, "one", 1);
    shouted.scopes = vec!["two words".to_owned()];
    let mut long = row(entity, "two", 2);
    long.label = "x".repeat(TokenRow::LABEL_LEN_MAX + 1);
    let mut late = row(entity, "three", 3);
    late.expires_ms = Some(TokenRow::TIME_END_MS);
    for row in [shouted, long, late, row(entity, "NO", 4)] {
        must_not(LAW, StoreErrorKind::Refused, store.insert(&row).await);
    }
    assert_eq!(must(LAW, store.list(entity).await), [], "{LAW}: kept all the same");
}

/// What was of no use by then goes, and nothing else: not what ends a millisecond later, not what another entity has.
///
/// # Panics
/// When not.
pub async fn only_the_dead_are_pruned(store: &dyn TokenStore) {
    const LAW: &str = "only tokens of no use are pruned";
    let entity = "law-tokens-pruned";
    let kept = |id: &str, byte, expires_ms, revoked_ms| {
        let mut row = row(entity, id, byte);
        (row.expires_ms, row.revoked_ms) = (expires_ms, revoked_ms);
        row
    };
    let dead = [
        kept("a", 1, Some(5_000), None),
        kept("b", 2, None, Some(4_000)),
        kept("c", 3, Some(9_000), Some(5_000)),
        kept("d", 4, Some(5_000), Some(9_000)),
    ];
    let alive = [kept("e", 5, None, None), kept("f", 6, Some(5_001), None), kept("g", 7, None, Some(5_001))];
    for row in dead.iter().chain(&alive) {
        must(LAW, store.insert(row).await);
    }
    let mut stranger = row("law-tokens-pruned-other", "a", 1);
    stranger.revoked_ms = Some(1);
    must(LAW, store.insert(&stranger).await);
    assert_eq!(must(LAW, store.prune("law-tokens-pruned-none", 5_000).await), 0, "{LAW}: of an entity without any");
    assert_eq!(must(LAW, store.prune(entity, 5_000).await), 4, "{LAW}: how many");
    assert_eq!(must(LAW, store.list(entity).await), alive, "{LAW}: what is left");
    for row in &dead {
        assert_eq!(must(LAW, store.find(entity, &row.hash).await), None, "{LAW}: {}", row.id);
    }
    assert_eq!(must(LAW, store.prune(entity, 5_000).await), 0, "{LAW}: a repeat finds none");
    assert_eq!(must(LAW, store.find(&stranger.entity, &stranger.hash).await), Some(stranger), "{LAW}: another's");
}

/// Of tokens issued at once none is lost, and of equal ones exactly one is kept.
///
/// # Panics
/// When not.
pub async fn many_at_once_are_all_kept(store: &dyn TokenStore, trial: Trial) {
    const LAW: &str = "of tokens at once none is lost";
    let entity = "law-tokens-race";
    let rows: Vec<TokenRow> = (0..trial.at_once)
        .map(|nth| {
            let mut row = row(entity, &format!("t{nth}"), 0);
            row.hash[..4].copy_from_slice(&nth.to_be_bytes());
            row
        })
        .collect();
    for answer in join_all(rows.iter().map(|row| store.insert(row))).await {
        must(LAW, answer);
    }
    assert_eq!(must(LAW, store.list(entity).await).len(), rows.len(), "{LAW}");
    let same = row(entity, "same", 0xaa);
    let answers = join_all(rows.iter().map(|_| store.insert(&same))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{LAW}: equal ones");
}

fn row(entity: &str, id: &str, byte: u8) -> TokenRow {
    TokenRow::new(entity, id, [byte; 32], 1_000)
}
