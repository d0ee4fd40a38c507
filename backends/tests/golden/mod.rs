//! A store as today's code leaves it, kept in `tests/vectors/stores`: whoever changes what is stored must read it and go on from it.
//!
//! It was made at [`NOW_MS`] and the two seconds after: sequence `orders` from 1, a range of 10, a raise to 1000, a range of 10 for the
//! key `order-7`, one of 10 of which 5 came back; a pool of four worker ids, of which 0 is held and was renewed, and 1 was given back.

use std::{collections::BTreeSet, num::NonZeroU32};

use mintage_core::{
    Format, Holder, IdempotencyKey, LeaseTerms, PoolLimits, RangeGrant, Sequence, StoreErrorKind, WorkerChoice,
    WorkerPool, plugin::Backend,
};
use serde_json::Value;

/// A day in 2027, Unix ms.
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

/// Who made it.
pub(crate) const INSTANCE: &str = "billing-3";

pub(crate) fn count(len: u32) -> NonZeroU32 {
    NonZeroU32::new(len).unwrap()
}

pub(crate) fn pool() -> WorkerPool {
    let mut pool = WorkerPool::new("main", 0..4);
    pool.limits = PoolLimits::new(60_000, 2_000, 1_000);
    pool
}

pub(crate) fn holder(nth: u32) -> Holder {
    Holder::new(u128::from(nth) + 1, format!("host-{nth}"), NOW_MS)
}

pub(crate) fn terms() -> LeaseTerms {
    LeaseTerms::new(60_000, 10_000, 0, 2_000)
}

/// What today's code wrote has the fields of the one that is kept, and no others. A process of the version that wrote that one refuses
/// a record with a field that it does not know, so a new field is a new schema: count it up, and keep a record of it beside this one.
pub(crate) fn has_no_other_fields(written: &Value, kept: &Value) {
    let (written, kept) = (fields(written), fields(kept));
    let others: Vec<_> = written.difference(&kept).collect();
    assert!(others.is_empty(), "fields that the schema of before does not have: {others:?}");
}

fn fields(record: &Value) -> BTreeSet<String> {
    let below = |name: &str, inner: &Value| {
        let own = std::iter::once(name.to_owned());
        own.chain(fields(inner).into_iter().map(|field| format!("{name}.{field}"))).collect::<Vec<_>>()
    };
    match record {
        Value::Object(fields) => fields.iter().flat_map(|(name, inner)| below(name, inner)).collect(),
        Value::Array(items) => items.iter().flat_map(fields).collect(),
        _ => BTreeSet::new(),
    }
}

/// All of it is believed, and goes on above it. `store`'s clock shows three seconds after it was last used.
pub(crate) async fn goes_on(store: &Backend) {
    let (leases, ranges) = (store.leases.as_ref().unwrap(), store.ranges.as_ref().unwrap());
    let (orders, pool) = (Sequence::new("orders", 1), pool());
    let pinned = store.formats.as_ref().unwrap().pinned("orders").await.unwrap();
    assert_eq!(pinned, Some(Format::of("segment").with("start", "1")));
    let named = async |number: u64| ranges.range_history("orders", number).await.unwrap().grants;
    for (start, end) in [(1, 11), (1_000, 1_010), (1_010, 1_015)] {
        assert_eq!(named(end - 1).await, [RangeGrant::new(start, end, INSTANCE, NOW_MS)]);
    }
    let key = IdempotencyKey::new("order-7").unwrap();
    let repeated = ranges.allocate(&orders, count(10), Some(&key)).await.unwrap();
    assert_eq!((repeated.start, repeated.end), (1_000, 1_010));
    let next = ranges.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!((next.start, next.end), (1_015, 1_025));
    assert_eq!(ranges.sequence("orders").await.unwrap().unwrap().next, 1_025);

    let rows = leases.leases(&pool).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.worker, row.instance.as_str(), row.held, row.floor_ms)).collect();
    assert_eq!(told, [(0, "host-1", true, NOW_MS + 62_000), (1, "host-2", false, NOW_MS + 6_000)]);
    let past = leases.history(&pool, NOW_MS + 3_000).await.unwrap();
    assert_eq!(past.iter().map(|grant| grant.instance.as_str()).collect::<Vec<_>>(), ["host-1", "host-2"]);
    // The one that was given back is granted above what was used of it, and the one that is held goes on with its holder.
    let claimed = leases.acquire(&pool, WorkerChoice::Exactly(1), &holder(3), &terms()).await.unwrap();
    assert_eq!(claimed.window, NOW_MS + 6_000..NOW_MS + 66_000);
    let other = leases.acquire(&pool, WorkerChoice::Exactly(0), &holder(4), &terms()).await.unwrap_err();
    assert_eq!(other.kind(), StoreErrorKind::Conflict);
    let mut held = claimed;
    (held.worker, held.fence.epoch, held.fence.token) = (0, rows[0].epoch, holder(1).token);
    let renewed = leases.renew(&held, &holder(1), &terms()).await.unwrap();
    assert_eq!(renewed.window, NOW_MS..NOW_MS + 65_000);
}
