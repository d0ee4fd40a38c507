//! Ranges in the config: their size, their stride, several stores that share the numbers, imports.

use std::{error::Error as _, num::NonZeroU32, sync::Arc};

use mintage::{BuildError, Config, Minter, Registry, entity};
use mintage_core::{Format, FormatStore, ManualClock, MintError, RangeStore, Sequence, StoreErrorKind};

use crate::{
    NOW_MS, Order, User, config_in,
    faulty::{Fault, Faulty, builder},
    pass,
};

entity!(Ticket: Int = "tickets");

/// `[entities.tickets]` with these keys, on stores a and b.
fn shared(keys: &str, a: &Faulty, b: &Faulty) -> Config {
    let text = format!(
        "version = 1\n[entities.tickets]\nscheme = \"segment\"\n{keys}\n[stores.a]\nurl = \"{}\"\n[stores.b]\nurl = \"{}\"\n",
        a.url(),
        b.url()
    );
    Config::parse(&text, "mintage.toml").unwrap()
}

const SHARED: &str = "range = 3\nstores = [\"a\", \"b\"]";

fn two() -> (ManualClock, Arc<Faulty>, Arc<Faulty>) {
    let clock = ManualClock::at(NOW_MS);
    let (a, b) = (Faulty::new(&clock), Faulty::new(&clock));
    (clock, a, b)
}

async fn tickets(minter: &Minter<Ticket>, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.push(minter.mint_ready().await.unwrap().raw());
    }
    ids
}

fn troubled(registry: &Registry) -> Vec<String> {
    let supplies = registry.supplies();
    let stores = supplies.into_iter().flat_map(|(_, health)| health.stores);
    stores.filter(|store| store.trouble.is_some()).map(|store| store.name).collect()
}

/// The store at fault, and what it said.
fn told(error: BuildError) -> (String, StoreErrorKind, String) {
    let store = match &error {
        BuildError::Store { store, source } => Some((store.clone(), source.kind(), source.to_string())),
        _ => None,
    };
    store.ok_or(error).unwrap()
}

fn assert_distinct(ids: &[u64]) {
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "a number was minted twice: {ids:?}");
}

#[tokio::test(start_paused = true)]
async fn odd_and_even_and_a_clean_end_leaves_no_gap() {
    let (clock, a, b) = two();
    let registry = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    let minter = registry.minter::<Ticket>().unwrap();
    let mut ids = tickets(&minter, 12).await;
    assert!(troubled(&registry).is_empty());
    drop(minter);
    registry.close().await.unwrap();
    ids.sort_unstable();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
    for (store, offset) in [(&a, "1"), (&b, "2")] {
        let format = store.healthy().pinned("tickets").await.unwrap().unwrap();
        assert_eq!((format.field("increment"), format.field("offset")), (Some("2"), Some(offset)));
        // 12 is the other one's.
        assert!((12..=13).contains(&store.healthy().sequences().await.unwrap()[0].next), "no gap");
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_process_outlives_the_loss_of_either_and_both() {
    let (clock, a, b) = two();
    let registry = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    let minter = registry.minter::<Ticket>().unwrap();
    let mut ids = tickets(&minter, 12).await;
    for (lost, name, rest) in [(&a, "a", 0), (&b, "b", 1)] {
        lost.set(Fault::Down);
        ids.extend(tickets(&minter, 60).await);
        assert_eq!(troubled(&registry), [name]);
        assert!(ids[ids.len() - 40..].iter().all(|id| id % 2 == rest), "{ids:?}");
        lost.set(Fault::None);
        pass(&clock, 6_000).await;
        ids.extend(tickets(&minter, 60).await);
        assert!(troubled(&registry).is_empty(), "{name} is back");
    }
    a.set(Fault::Down);
    b.set(Fault::Down);
    let error = loop {
        match minter.mint_ready().await {
            Ok(id) => ids.push(id.raw()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.store_error().unwrap().kind(), StoreErrorKind::Unavailable);
    b.set(Fault::None);
    ids.extend(tickets(&minter, 20).await);
    a.set(Fault::None);
    pass(&clock, 6_000).await;
    ids.extend(tickets(&minter, 20).await);
    assert!(troubled(&registry).is_empty());
    assert_distinct(&ids);
    drop(minter);
    registry.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_needs_both_once_and_then_either() {
    let (clock, a, b) = two();
    for lost in [&a, &b] {
        lost.set(Fault::Down);
        let (store, kind, message) = told(builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap_err());
        assert_eq!(
            (store.as_str(), kind),
            (if Arc::ptr_eq(lost, &a) { "a" } else { "b" }, StoreErrorKind::Unavailable)
        );
        assert!(
            message.ends_with(
                "Entity tickets was never used, and its first use needs all of its stores: start them first"
            )
        );
        lost.set(Fault::None);
    }
    let mut ids = Vec::new();
    let first = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    ids.extend(tickets(&first.minter().unwrap(), 20).await);
    first.close().await.unwrap();
    for (lost, rest) in [(&a, 0), (&b, 1)] {
        lost.set(Fault::Down);
        let registry = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
        let minter = registry.minter::<Ticket>().unwrap();
        let alone = tickets(&minter, 30).await;
        assert!(alone.iter().all(|id| id % 2 == rest), "{alone:?}");
        ids.extend(alone);
        assert_eq!(troubled(&registry).len(), 1);
        lost.set(Fault::None);
        pass(&clock, 6_000).await;
        let again = tickets(&minter, 30).await;
        assert!(again.iter().any(|id| id % 2 != rest), "it is back: {again:?}");
        ids.extend(again);
        assert!(troubled(&registry).is_empty());
        drop(minter);
        registry.close().await.unwrap();
    }
    assert_distinct(&ids);
    a.set(Fault::Down);
    b.set(Fault::Down);
    let (_, kind, _) = told(builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn another_order_another_count_and_a_replaced_store_are_refused() {
    let (clock, a, b) = two();
    let first = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    first.close().await.unwrap();
    let build =
        async |keys: &str, a: &Faulty, b: &Faulty| told(builder(&clock).build(shared(keys, a, b)).await.unwrap_err());

    let (store, kind, message) = build("stores = [\"b\", \"a\"]", &a, &b).await;
    assert_eq!((store.as_str(), kind), ("b", StoreErrorKind::FormatMismatch));
    assert!(message.contains("offset is 1 in the config and 2 in the store"), "{message}");

    let c = Faulty::new(&clock);
    let third = format!("stores = [\"a\", \"b\", \"c\"]\n[stores.c]\nurl = \"{}\"", c.url());
    let (_, kind, message) = build(&third, &a, &b).await;
    assert_eq!(kind, StoreErrorKind::FormatMismatch);
    assert!(message.contains("increment is 3 in the config and 2 in the store"), "{message}");
    assert_eq!(c.healthy().sequences().await.unwrap(), []);

    let (_, kind, message) = build("store = \"a\"", &a, &b).await;
    assert_eq!(kind, StoreErrorKind::FormatMismatch);
    assert!(message.contains("increment is (none) in the config and 2 in the store"), "{message}");

    let (store, kind, message) = build(SHARED, &a, &Faulty::new(&clock)).await;
    assert_eq!((store.as_str(), kind), ("b", StoreErrorKind::RolledBack));
    assert!(message.contains("no record of entity tickets although the other stores do"), "{message}");

    // One database under two names, whatever the URL says.
    let (store, kind, message) = build(SHARED, &a, &a.line()).await;
    assert_eq!((store.as_str(), kind), ("b", StoreErrorKind::FormatMismatch));
    assert!(message.contains("offset is 2 in the config and 1 in the store"), "{message}");

    // One that goes on alone keeps its numbers.
    let alone = builder(&clock).build(shared("store = \"b\"\nincrement = 2\noffset = 2", &a, &b)).await.unwrap();
    let ids = tickets(&alone.minter().unwrap(), 3).await;
    assert!(ids.iter().all(|id| id % 2 == 0), "{ids:?}");
    alone.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_database_under_two_names_is_refused_at_the_first_use_too() {
    let (clock, a, _) = two();
    let (_, kind, message) = told(builder(&clock).build(shared(SHARED, &a, &a.line())).await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::FormatMismatch, "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_as_another_is_not_used() {
    let (clock, a, b) = two();
    let first = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    first.close().await.unwrap();
    // In the place of b: one that knows nothing of the entity, and one that has another share.
    for record in [None, Some(("increment", "2")), Some(("offset", "1"))] {
        let other = Faulty::new(&clock);
        other.healthy().create(&Sequence::new("tickets", 1)).await.unwrap();
        if let Some((field, value)) = record {
            let format = a.healthy().pinned("tickets").await.unwrap().unwrap();
            let format: Format = if field == "offset" { format.with(field, value) } else { Format::of("segment") };
            other.healthy().pin("tickets", &format).await.unwrap();
        }
        other.set(Fault::Down);
        let registry = builder(&clock).build(shared(SHARED, &a, &other)).await.unwrap();
        let minter = registry.minter::<Ticket>().unwrap();
        other.set(Fault::None);
        pass(&clock, 6_000).await;
        let ids = tickets(&minter, 60).await;
        assert!(ids.iter().all(|id| id % 2 == 1), "{ids:?}");
        assert_eq!(troubled(&registry), ["b"]);
        drop(minter);
        registry.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_start_that_broke_off_is_completed() {
    let (clock, a, b) = two();
    b.set(Fault::DownFor("pin"));
    let (store, ..) = told(builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap_err());
    assert_eq!(store, "b");
    b.set(Fault::None);
    let registry = builder(&clock).build(shared(SHARED, &a, &b)).await.unwrap();
    assert_distinct(&tickets(&registry.minter().unwrap(), 20).await);
    registry.close().await.unwrap();
}

#[tokio::test]
async fn increments_leave_the_others_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let config = |keys: &str| {
        config_in(
            folder.path(),
            &format!(
                "version = 1\n[entities.orders]\nscheme = \"segment\"\nrange = 5\n{keys}\n[stores.main]\nurl = \"sqlite:ids.db\"\n"
            ),
        )
    };
    let registry =
        Registry::builder().builtins().build(config("start = 100\nincrement = 10\noffset = 3")).await.unwrap();
    let orders = registry.minter::<Order>().unwrap();
    let ids: Vec<u64> = orders.mint_many(7).await.unwrap().into_iter().map(|id| id.raw()).collect();
    assert_eq!(ids, [103, 113, 123, 133, 143, 153, 163]);
    drop(orders);
    registry.close().await.unwrap();
    for (keys, difference) in [
        ("start = 100\nincrement = 10\noffset = 4", "offset is 4 in the config and 3 in the store"),
        ("start = 100\nincrement = 20\noffset = 3", "increment is 20 in the config and 10 in the store"),
        ("start = 100", "increment is (none) in the config and 10 in the store"),
    ] {
        let (_, kind, message) = told(Registry::builder().builtins().build(config(keys)).await.unwrap_err());
        assert_eq!(kind, StoreErrorKind::FormatMismatch);
        assert!(message.contains(difference), "{message}");
    }
    let again = Registry::builder().builtins().build(config("start = 100\nincrement = 10\noffset = 3")).await.unwrap();
    assert_eq!(again.minter::<Order>().unwrap().mint().unwrap().raw(), 173, "a clean end leaves no gap");
    again.close().await.unwrap();
}

#[tokio::test]
async fn an_import_takes_its_ids_in_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::builder().builtins().build(crate::every_scheme_in(folder.path())).await.unwrap();
    let orders = registry.minter::<Order>().unwrap();
    let count = NonZeroU32::new(250_000).unwrap();
    let taken = orders.take_range(count).await.unwrap();
    let (first, last) = (taken.smallest().unwrap(), taken.largest().unwrap());
    assert_eq!((last.raw() - first.raw() + 1, taken.count_left(), taken.step()), (250_000, 250_000, 1));
    let ids: Vec<_> = taken.collect();
    assert!(ids.is_sorted() && ids.len() == 250_000 && ids[0] == first && ids[249_999] == last);
    let minted = orders.mint_ready().await.unwrap();
    assert!(!ids.contains(&minted));
    let any = registry.any_minter("orders").unwrap().take_range(count).await.unwrap();
    assert_eq!(any.smallest(), Some(last.raw() + 1));
    let users = registry.minter::<User>().unwrap();
    assert_eq!(users.take_range(count).await.unwrap_err().kind(), MintError::NoRanges);
    drop((orders, users));
    registry.close().await.unwrap();
}

/// B-kind: the last numbers there are, and fewer than were asked for.
#[tokio::test]
async fn the_last_numbers_before_the_end() {
    const LAST: u64 = i64::MAX.cast_unsigned();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "version = 1\n[entities.orders]\nscheme = \"segment\"\nstart = {}\nrange = 4\n[stores.main]\nurl = \"sqlite:ids.db\"\n",
        LAST - 9
    );
    let registry = Registry::builder().builtins().build(config_in(folder.path(), &text)).await.unwrap();
    let orders = registry.minter::<Order>().unwrap();
    let some: Vec<u64> = orders.mint_many(3).await.unwrap().into_iter().map(|id| id.raw()).collect();
    assert_eq!(some, [LAST - 9, LAST - 8, LAST - 7]);
    let rest: Vec<u64> = orders.mint_many(100).await.unwrap().into_iter().map(|id| id.raw()).collect();
    assert_eq!(rest, (LAST - 6..=LAST).collect::<Vec<_>>(), "fewer, and every one of them");
    assert_eq!(orders.mint_many(1).await.unwrap_err().kind(), MintError::Spent);
    assert_eq!(orders.mint().unwrap_err(), MintError::Spent);
    let one = NonZeroU32::new(1).unwrap();
    assert_eq!(orders.take_range(one).await.unwrap_err().kind(), MintError::Spent);
    drop(orders);
    registry.close().await.unwrap();
    // A restart finds the same end.
    let error = Registry::builder().builtins().build(config_in(folder.path(), &text)).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("no number left for good"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_target_sizes_ranges_by_the_rate() {
    let (clock, a, b) = two();
    let keys = "store = \"a\"\nrange = { min = 10, max = 400, target = \"1s\" }";
    let registry = builder(&clock).build(shared(keys, &a, &b)).await.unwrap();
    let minter = registry.minter::<Ticket>().unwrap();
    let len = || registry.supplies()[0].1.range_len;
    assert_eq!(len(), 10);
    // 200 a second, in steps of 50 ms.
    for _ in 0..200 {
        tickets(&minter, 10).await;
        pass(&clock, 50).await;
    }
    assert!((200..=400).contains(&len()), "{}", len());
    // One a second: a size is halved whenever a range is used up.
    for _ in 0..1_500 {
        tickets(&minter, 1).await;
        pass(&clock, 1_000).await;
    }
    assert_eq!(len(), 10);
    drop(minter);
    registry.close().await.unwrap();
}

fn check(keys: &str) -> Result<mintage::config::Checked, mintage::ConfigErrors> {
    let text = format!(
        "version = 1\n[entities.orders]\nscheme = \"segment\"\n{keys}\n[stores.a]\nurl = \"sqlite:a.db\"\n\
         [stores.b]\nurl = \"sqlite:b.db\"\n[stores.c]\nurl = \"sqlite:b.db\"\n"
    );
    Registry::builder().builtins().check(&Config::parse(&text, "mintage.toml").unwrap())
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    const AT: &str = "mintage.toml:5:1 entities.orders.";
    for (keys, expected) in [
        (
            "store = \"a\"\nrange = { min = 500, max = 100 }",
            "mintage.toml:5:11 entities.orders.range.min: 500 is above max, 100: write a min up to max",
        ),
        (
            "store = \"a\"\nrange = { target = \"0s\" }",
            "mintage.toml:5:11 entities.orders.range.target: a time above 0 and up to a day was expected, such as \"10s\"",
        ),
        (
            "store = \"a\"\nrange = { target = \"2d\" }",
            "mintage.toml:5:11 entities.orders.range.target: a time above 0 and up to a day was expected, such as \"10s\"",
        ),
        (
            "store = \"a\"\nrange = { min = 0 }",
            "mintage.toml:5:11 entities.orders.range.min: 0 lies outside 1 to 1000000000",
        ),
        (
            "store = \"a\"\nrange = { least = 5 }",
            "mintage.toml:5:11 entities.orders.range.least: unknown key (known: min, max, target)",
        ),
        ("store = \"a\"\nrange = \"10s\"", "range: a whole number or a table was expected, found a text"),
        (
            "stores = [\"a\", \"b\"]\ngapless = true",
            "mintage.toml:4:1 entities.orders.stores: gapless numbers are assigned one at a time: take this line out",
        ),
        ("store = \"a\"\nincrement = 0", "increment: 0 lies outside 1 to 1000"),
        ("store = \"a\"\noffset = 2", "offset: 2 lies outside 1 to the increment, 1"),
        ("store = \"a\"\noffset = 3\nincrement = 2", "offset: 3 lies outside 1 to the increment, 2"),
        (
            "stores = [\"a\", \"b\"]\nincrement = 2",
            "increment: `stores` says already which numbers each store gives: take `increment` or `stores` out",
        ),
        (
            "stores = [\"a\", \"b\"]\noffset = 1",
            "offset: `stores` says already which numbers each store gives: take `offset` or `stores` out",
        ),
        (
            "stores = [\"a\", \"b\"]\nstore = \"a\"",
            "store: `stores` says already where the numbers are: take `store` or `stores` out",
        ),
        ("\nstores = [\"a\"]", "stores: 2 to 1000 stores were expected; for one, write `store`"),
        ("\nstores = []", "stores: 2 to 1000 stores were expected; for one, write `store`"),
        ("\nstores = [\"a\", \"b\", \"a\"]", "stores: \"a\" stands there twice: both would give the same numbers"),
        ("\nstores = \"a\"", "stores: a list of texts was expected, found a text"),
        ("\nstores = [\"a\", \"d\"]", "mintage.toml:5:16 entities.orders.stores: no store \"d\" (known: a, b, c)"),
        (
            "\nstores = [\"b\", \"c\"]",
            "mintage.toml:5:16 entities.orders.stores: b and c are the same store: both would give the same numbers",
        ),
    ] {
        let expected = if expected.starts_with("mintage") { expected.to_owned() } else { format!("{AT}{expected}") };
        let found = check(keys).unwrap_err().to_string();
        assert!(found.lines().any(|line| line.starts_with(&expected)), "{keys}\n{expected}\n{found}");
        assert_eq!(found.lines().count(), 1, "once: {found}");
    }
}

/// Redis that may forget keeps leases only, whatever an entity says.
#[cfg(feature = "redis")]
#[test]
fn weak_redis_keeps_no_numbers() {
    let check = |keys: &str, url: &str| {
        let url = format!("redis://localhost:1{url}");
        let text =
            format!("version = 1\n[entities.orders]\nscheme = \"segment\"\n{keys}[stores.main]\nurl = \"{url}\"\n");
        Registry::builder().builtins().check(&Config::parse(&text, "mintage.toml").unwrap())
    };
    for keys in ["", "durability = \"weak\"\n"] {
        let told = check(keys, "?durability=weak").unwrap_err().to_string();
        assert!(told.contains("entities.orders: store main (redis:) keeps no numbers as its URL has it"), "{told}");
    }
    check("", "").unwrap();
}

#[test]
fn two_entities_on_one_shared_sequence_are_refused() {
    let text = "version = 1\n[entities.orders]\nscheme = \"segment\"\nstores = [\"a\", \"b\"]\n\
                [entities.bills]\nscheme = \"segment\"\nstore = \"b\"\nsequence = \"orders\"\n\
                [stores.a]\nurl = \"sqlite:a.db\"\n[stores.b]\nurl = \"sqlite:b.db\"\n";
    let errors = Registry::builder().builtins().check(&Config::parse(text, "mintage.toml").unwrap()).unwrap_err();
    assert_eq!(
        errors.to_string().trim(),
        "mintage.toml:8:1 entities.bills.sequence: \"orders\" in store b is the sequence of entity orders already: give this \
         entity a sequence of its own"
    );
}

#[test]
fn a_series_keeps_apart_from_every_store_of_an_entity() {
    let text = "version = 1\n[entities.orders]\nscheme = \"segment\"\nstores = [\"a\", \"b\"]\nsequence = \"bills/x\"\n\
                [series.bills]\nformat = \"{n}\"\nstore = \"b\"\n\
                [stores.a]\nurl = \"sqlite:a.db\"\n[stores.b]\nurl = \"sqlite:b.db\"\n";
    let errors = Registry::builder().builtins().check(&Config::parse(text, "mintage.toml").unwrap()).unwrap_err();
    assert!(errors.to_string().contains("the sequence of entity orders begins with bills/"), "{errors}");
}

#[test]
fn the_facts_say_what_the_numbers_mean() {
    let facts = |keys: &str| {
        let checked = check(keys).unwrap();
        let facts = checked.entity("orders").unwrap().plan.facts(0);
        facts.into_iter().map(|fact| format!("{}: {}", fact.name, fact.text)).collect::<Vec<_>>()
    };
    let sized = facts("store = \"a\"\nrange = { max = 5000, target = \"30s\" }");
    for fact in [
        "ranges: one trip to the store per 100 to 5000 numbers, as many as last 30s, or longer where the store is slow; the next \
         range is fetched when 20 % of them are left",
        "gaps: a crash loses at most 10000 numbers, a clean end none",
    ] {
        assert!(sized.iter().any(|found| found == fact), "{fact}\n{sized:#?}");
    }
    let shared = facts("stores = [\"a\", \"b\"]");
    for fact in [
        "stores: ranges by turns from a, b; minting goes on while one of them answers",
        "order: ascending within a range; ranges of several stores interleave",
    ] {
        assert!(shared.iter().any(|found| found == fact), "{fact}\n{shared:#?}");
    }
    let strided = facts("store = \"a\"\nincrement = 10\noffset = 3");
    let fact = "capacity: from 3 to 9223372036854775807, every 10th: the others belong to whoever has another offset";
    assert!(strided.iter().any(|found| found == fact), "{fact}\n{strided:#?}");
}
