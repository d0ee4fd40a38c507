//! What a minter does beside minting, and how it waits.

use std::{collections::HashSet, path::Path};

use mintage::{Id, Minter, Registry};
use mintage_core::{AnyId, ManualClock, MintError, Order as Ordering, ParseError, StoreErrorKind};

use crate::{
    Document, EVERY_SCHEME, Event, NOW_MS, Order, SCHEMES, Token, Upload, User, config_in,
    faulty::{Fault, Faulty, builder},
    pass,
};

async fn registry(store: &Faulty, clock: &ManualClock) -> Registry {
    let text = EVERY_SCHEME.replace("STORE", &store.url());
    builder(clock).build(config_in(Path::new("."), &text)).await.unwrap()
}

#[tokio::test]
async fn many_ids_are_as_many_as_asked_and_in_order() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = registry(&store, &clock).await;
    for (name, _) in SCHEMES {
        let minter = registry.any_minter(name).unwrap();
        assert_eq!(minter.mint_many(0).await.unwrap(), []);
        // More than one batch, more than one range, more than one unit.
        let ids = minter.mint_many(10_000).await.unwrap();
        assert_eq!(ids.len(), 10_000, "{name}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 10_000, "{name}");
        if minter.scheme().info().order == Ordering::Minter {
            assert!(ids.is_sorted(), "{name}");
        }
    }
    registry.close().await.unwrap();
}

#[tokio::test]
async fn text_there_and_back() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let text = EVERY_SCHEME
        .replace("STORE", &store.url())
        .replace("range = 100", "range = 100\ntext = \"crockford\"")
        .replace("worker = {", "text = \"base62\"\nworker = {");
    let registry = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap();
    let orders: Minter<Order> = registry.minter().unwrap();
    let order = orders.mint().unwrap();
    assert_eq!((orders.text(order).as_str(), order.raw()), ("0000000000001", 1));
    assert_eq!(orders.parse("0000000000001"), Ok(order));
    assert!(orders.parse("1").is_err(), "one text for each id");
    let events: Minter<Event> = registry.minter().unwrap();
    let event = events.mint().unwrap();
    assert_eq!(events.text(event).len(), 11);
    assert_eq!(events.parse(&events.text(event)), Ok(event));
    let users: Minter<User> = registry.minter().unwrap();
    let user = users.mint().unwrap();
    assert_eq!(users.text(user), user.raw().to_string());
    assert_eq!(users.parse(&users.text(user)), Ok(user));
    // The minter of a UUIDv7 entity is strict; a typed id takes any version, for tables on their way.
    let v4 = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
    assert_eq!(users.parse(v4), Err(ParseError::Version { found: 4, expected: 7 }));
    let documents: Minter<Document> = registry.minter().unwrap();
    let document = documents.mint().unwrap();
    assert_eq!(documents.parse(&documents.text(document).to_lowercase()), Ok(document));

    let any = registry.any_minter("events").unwrap();
    assert_eq!(any.text(AnyId::Int(event.raw())), Some(events.text(event)));
    assert_eq!(any.text(AnyId::Wide(1)), None, "an id of another width");
    registry.close().await.unwrap();
}

#[tokio::test]
async fn ranges_for_where_clauses() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = registry(&store, &clock).await;
    let now_ms = NOW_MS as i64;
    fn holds<E: mintage::Entity>(minter: &Minter<E>, now_ms: i64) -> Id<E> {
        let id = minter.mint().unwrap();
        let (first, last) = minter.range_at(now_ms, now_ms).unwrap();
        assert!(first <= id && id <= last, "{id:?} lies outside {first:?}..={last:?}");
        let (_, before) = minter.range_at(now_ms - 5_000, now_ms - 2_000).unwrap();
        assert!(before < id);
        assert!(minter.range_at(now_ms, now_ms - 1).is_none());
        assert_eq!(minter.anatomy(id).time.unwrap().unix_ms / 1_000, now_ms / 1_000);
        id
    }
    holds(&registry.minter::<User>().unwrap(), now_ms);
    holds(&registry.minter::<Event>().unwrap(), now_ms);
    holds(&registry.minter::<Document>().unwrap(), now_ms);
    holds(&registry.minter::<Upload>().unwrap(), now_ms);
    assert!(registry.minter::<Order>().unwrap().range_at(0, now_ms).is_none(), "a number tells no time");
    assert!(registry.minter::<Token>().unwrap().range_at(0, now_ms).is_none());
    registry.close().await.unwrap();
}

#[tokio::test]
async fn threads_share_a_minter() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = registry(&store, &clock).await;
    let events: Minter<Event> = registry.minter().unwrap();
    let ids: Vec<Id<Event>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let events = events.clone();
                scope.spawn(move || (0..5_000).map(|_| events.mint().unwrap()).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 20_000);
    registry.close().await.unwrap();
}

/// B144: many callers at once on ranges far too small all get a number.
#[tokio::test]
async fn callers_wait_for_numbers_and_all_are_served() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    store.set(Fault::Slow(1));
    let text = EVERY_SCHEME.replace("STORE", &store.url()).replace("range = 100", "range = 3");
    let registry = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap();
    let orders: Minter<Order> = registry.minter().unwrap();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let orders = orders.clone();
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for _ in 0..5 {
                    numbers.push(orders.mint_ready().await.unwrap().raw());
                }
                numbers
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for caller in callers {
        numbers.extend(caller.await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=320).collect::<Vec<u64>>());
    registry.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_dead_store_ends_with_its_error() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = registry(&store, &clock).await;
    let orders: Minter<Order> = registry.minter().unwrap();
    store.set(Fault::DownFor("allocate"));
    // What is held is minted without the store.
    for number in 1..=200 {
        assert_eq!(orders.mint().unwrap().raw(), number);
    }
    assert!(matches!(orders.mint(), Err(MintError::Exhausted { .. })));
    let error = orders.mint_ready().await.unwrap_err();
    assert!(matches!(error.kind(), MintError::Exhausted { .. }));
    assert_eq!(error.store_error().unwrap().kind(), StoreErrorKind::Unavailable);
    // What was made before the end is not handed over by halves.
    assert!(orders.mint_many(5).await.is_err());
    store.set(Fault::None);
    pass(&clock, 6_000).await;
    assert_eq!(orders.mint().unwrap().raw(), 201, "and it recovers");
    registry.close().await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_sequence_is_not_waited_for() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let text = EVERY_SCHEME.replace("STORE", &store.url()).replace("range = 100", "start = 9223372036854775806");
    let registry = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap();
    let orders: Minter<Order> = registry.minter().unwrap();
    assert_eq!(orders.mint().unwrap().raw(), 9_223_372_036_854_775_806);
    assert_eq!(orders.mint().unwrap().raw(), 9_223_372_036_854_775_807);
    assert_eq!(orders.mint(), Err(MintError::Spent));
    assert_eq!(orders.mint_ready().await.unwrap_err().kind(), MintError::Spent);
    registry.close().await.unwrap();
    // Nor does it begin anew.
    let error = builder(&clock).build(config_in(Path::new("."), &text)).await.unwrap_err();
    let mintage::BuildError::Entity { source, .. } = &error else { unreachable!("{error:?}") };
    assert_eq!(source.kind(), MintError::Spent);
}

/// Who can read a log must not be able to renew a lease.
#[tokio::test]
async fn debug_is_short_and_tells_no_secret() {
    let clock = ManualClock::at(NOW_MS);
    let store = Faulty::new(&clock);
    let registry = registry(&store, &clock).await;
    let token = store.leases_granted()[0].fence.token.to_string();
    let (events, any) = (registry.minter::<Event>().unwrap(), registry.any_minter("events").unwrap());
    for told in [format!("{registry:?}"), format!("{events:?}"), format!("{any:?}")] {
        assert!(!told.contains(&token), "{told}");
        assert!(told.len() < 600 && told.contains("events"), "{told}");
    }
    registry.close().await.unwrap();
}
