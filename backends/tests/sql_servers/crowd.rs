//! Many processes at once.

use std::collections::BTreeSet;

use mintage_core::{
    Format, FormatStore, IdempotencyKey, LeaseStore, LeaseTerms, RangeStore, Sequence, StoreErrorKind, WorkerChoice,
    WorkerPool,
};
use tokio::task::JoinSet;

use crate::{Kind, Server, assert_disjoint, claim, count, holder, on_both, open, pool};

/// Stores at once, each with its connections: as many processes.
const STORES: u32 = 16;
/// Calls at once in each.
const CALLS: u32 = 4;

on_both!(
    sixty_four_refills_and_claims_at_once_lock_up_nowhere,
    eight_processes_open_an_empty_database,
    two_regions_appear_at_once,
    two_registries_share_a_database,
);

async fn sixty_four_refills_and_claims_at_once_lock_up_nowhere(kind: Kind) {
    let Some(server) =
        Server::start(kind, &[if kind == Kind::Postgres { "max_connections=200" } else { "max-connections=200" }])
    else {
        return;
    };
    let url = server.database("crowd");
    // Long enough that no lease is over before the last one was claimed.
    let crowd_pool = WorkerPool::new("crowd", 0..STORES * CALLS);
    let terms = LeaseTerms::new(60_000, 60_000, 0, 2_000);
    let mut tasks = JoinSet::new();
    for nth in 0..STORES {
        let (store, crowd_pool) = (open(&url).await, crowd_pool.clone());
        let store = std::sync::Arc::new(store);
        for call in 0..CALLS {
            let (store, crowd_pool) = (store.clone(), crowd_pool.clone());
            tasks.spawn(async move {
                let sequences = [Sequence::new("orders", 1), Sequence::new("users", 1)];
                for sequence in &sequences {
                    store.create(sequence).await.unwrap();
                }
                let mut ranges = Vec::new();
                for round in 0..6 {
                    for sequence in &sequences {
                        let key = IdempotencyKey::new(format!("{nth}-{call}-{round}")).unwrap();
                        let key = (round % 2 == 0).then_some(&key);
                        let range = store.allocate(sequence, count(10), key).await.unwrap();
                        if round % 3 == 0 {
                            ranges.push(range);
                        } else {
                            // Given back or not: what was kept stays apart.
                            store.give_back(range).await.unwrap();
                        }
                    }
                }
                let holder = holder(nth * CALLS + call);
                let lease = store.acquire(&crowd_pool, WorkerChoice::Any, &holder, &terms).await.unwrap();
                (ranges, lease.worker)
            });
        }
    }
    let done = tasks.join_all().await;
    let workers: BTreeSet<u32> = done.iter().map(|(_, worker)| *worker).collect();
    assert_eq!(workers, crowd_pool.block.clone().collect());
    let ranges: Vec<_> = done.into_iter().flat_map(|(ranges, _)| ranges).collect();
    assert_eq!(ranges.len(), usize::try_from(STORES * CALLS * 4).unwrap());
    let (orders, users) = ranges.into_iter().partition(|range| range.sequence == "orders");
    assert_disjoint(orders);
    assert_disjoint(users);
    let deadlocks = match kind {
        Kind::Postgres => server.sql(
            "crowd",
            "SELECT pg_stat_force_next_flush(); SELECT deadlocks FROM pg_stat_database WHERE datname = 'crowd'",
        ),
        Kind::MariaDb => server.sql(
            "crowd",
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_deadlocks'",
        ),
    };
    assert_eq!(deadlocks.trim(), "0");
}

async fn eight_processes_open_an_empty_database(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("opened");
    let mut tasks = JoinSet::new();
    for nth in 0..8 {
        let url = url.clone();
        tasks.spawn(async move {
            let store = open(&url).await;
            store.pin("orders", &Format::of("segment")).await.unwrap();
            claim(&store, &pool("main", 0..8), nth).await.unwrap().worker
        });
    }
    let workers: BTreeSet<u32> = tasks.join_all().await.into_iter().collect();
    assert_eq!(workers, (0..8).collect());
    assert_eq!(server.sql("opened", "SELECT count(*), max(version) FROM mintage_schema").replace('\t', "|"), "1|1");
}

/// Blocks that overlap: one region gets its own, the others are refused, whoever comes first.
async fn two_regions_appear_at_once(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("regions");
    let mut tasks = JoinSet::new();
    for nth in 0..6 {
        let url = url.clone();
        tasks.spawn(async move {
            let store = open(&url).await;
            let mut region = pool("main", nth..nth + 6);
            region.region = format!("region-{nth}");
            claim(&store, &region, nth).await.map(|_| ())
        });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    for error in answers.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    }
}

async fn two_registries_share_a_database(kind: Kind) {
    let Some(server) = Server::shared(kind) else { return };
    let url = server.database("shared");
    let (one, two) = (open(&url).await, open(&url).await);
    let orders = Sequence::new("orders", 1);
    one.create(&orders).await.unwrap();
    two.create(&orders).await.unwrap();
    let first = one.allocate(&orders, count(10), None).await.unwrap();
    let second = two.allocate(&orders, count(10), None).await.unwrap();
    assert_eq!((first.start, second.start), (1, 11));
    let main = pool("main", 0..4);
    let workers = (claim(&one, &main, 1).await.unwrap().worker, claim(&two, &main, 2).await.unwrap().worker);
    assert_eq!(workers, (0, 1));
    one.pin("orders", &Format::of("segment")).await.unwrap();
    let error = two.pin("orders", &Format::of("snowflake")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::FormatMismatch, "{error}");
}
