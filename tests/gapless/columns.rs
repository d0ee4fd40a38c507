//! Counters of tables that Mintage did not make, and what is missing in them; and a counter of ours raised above them.

use std::{path::Path, time::Duration};

use mintage::{
    Config, Registry, SequenceError, SequenceOwner,
    core::{StoreErrorKind, protocol},
};

use crate::{BEFORE_MIDNIGHT, PATIENCE, SERIES, at, banks::Bank, config, on_all, process};

on_all!(
    counters_of_shards_tickets_and_blocks_are_read,
    gaps_are_what_no_row_has,
    what_cannot_be_read_is_told,
    a_counter_is_raised_above_every_shard_and_never_lowered,
);

fn is(bank: &impl Bank, kind: &str) -> bool {
    bank.url().starts_with(kind)
}

/// A table whose counter has given more than was committed.
async fn shard<B: Bank>(bank: &B) {
    if is(bank, "postgres") {
        bank.sql("CREATE TABLE \"Orders\" (id BIGSERIAL PRIMARY KEY, n INT)").await;
        bank.sql("INSERT INTO \"Orders\" (n) SELECT 1 FROM generate_series(1, 41)").await;
        bank.sql("SELECT nextval(pg_get_serial_sequence('\"Orders\"', 'id'))").await;
    } else if is(bank, "sqlite") {
        bank.sql("CREATE TABLE \"Orders\" (id INTEGER PRIMARY KEY AUTOINCREMENT, n INT)").await;
        bank.sql("INSERT INTO \"Orders\" (id, n) VALUES (40, 1), (42, 1)").await;
        bank.sql("DELETE FROM \"Orders\" WHERE id = 42").await;
    } else {
        bank.sql("CREATE TABLE `Orders` (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT)").await;
        bank.sql("INSERT INTO `Orders` (id, n) VALUES (40, 1), (42, 1)").await;
        bank.sql("DELETE FROM `Orders` WHERE id = 42").await;
    }
}

async fn largest<B: Bank>(bank: &B, names: &str) -> Result<Option<u64>, SequenceError> {
    let column = Registry::builder().column(&format!("{}#{names}", bank.url()), Path::new("."))?;
    let shown = column.to_string();
    assert!(shown.ends_with(&format!("#{names}")), "{shown}");
    column.largest(PATIENCE).await.map_err(SequenceError::Column)
}

async fn counters_of_shards_tickets_and_blocks_are_read<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    shard(&bank).await;
    assert_eq!(largest(&bank, "Orders.id").await.unwrap(), Some(42), "what was given and is gone counts");
    // Flickr's ticket servers: one row, replaced each time.
    if is(&bank, "mysql") || is(&bank, "mariadb") {
        bank.sql("CREATE TABLE Tickets64 (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, stub CHAR(1) NOT NULL UNIQUE)").await;
        for _ in 0..3 {
            bank.sql("REPLACE INTO Tickets64 (stub) VALUES ('a')").await;
        }
        assert_eq!(largest(&bank, "Tickets64.id").await.unwrap(), Some(3));
    }
    bank.sql("CREATE TABLE id_blocks (name VARCHAR(40) PRIMARY KEY, next_id BIGINT)").await;
    bank.sql("INSERT INTO id_blocks VALUES ('orders', 7000), ('users', 9000), ('new', NULL), ('odd', -5)").await;
    for (rows, expected) in [
        ("[name=orders]", Some(7000)),
        ("[name=users]", Some(9000)),
        ("[name=nobody]", None),
        ("[name=new]", None),
        ("[name=odd]", None),
        ("", Some(9000)),
    ] {
        assert_eq!(largest(&bank, &format!("id_blocks.next_id{rows}")).await.unwrap(), expected, "{rows}");
    }
    // Its largest number is the last there can be.
    bank.sql("UPDATE id_blocks SET next_id = 9223372036854775807 WHERE name = 'users'").await;
    assert_eq!(largest(&bank, "id_blocks.next_id[name=users]").await.unwrap(), Some(i64::MAX as u64));
}

async fn gaps_are_what_no_row_has<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    bank.sql("CREATE TABLE orders (id BIGINT, kind VARCHAR(9))").await;
    bank.sql("INSERT INTO orders VALUES (3,'a'),(4,'a'),(4,'a'),(7,'b'),(8,'a'),(NULL,'a'),(20,'a')").await;
    let column = |names: &str| Registry::builder().column(&format!("{}#{names}", bank.url()), Path::new(".")).unwrap();
    for (names, from, to, missing, runs) in [
        ("orders.id", 1, 11, 6, vec![(1, 2), (5, 6), (9, 10)]),
        ("orders.id", 3, 5, 0, vec![]),
        ("orders.id", 0, 21, 16, vec![(0, 2), (5, 6)]),
        ("orders.id", 9, 20, 11, vec![(9, 19)]),
        ("orders.id", 5, 5, 0, vec![]),
        ("orders.id[kind=a]", 1, 11, 7, vec![(1, 2), (5, 7), (9, 10)]),
    ] {
        let most = if from == 0 { 2 } else { 100 };
        let gaps = column(names).gaps(from, to, most, PATIENCE).await.unwrap();
        assert_eq!((gaps.missing, gaps.runs), (missing, runs), "{names} {from}..{to}");
    }
}

async fn what_cannot_be_read_is_told<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    bank.sql("INSERT INTO invoices VALUES ('R-7')").await;
    bank.sql("CREATE TABLE texts (t VARCHAR(9))").await;
    bank.sql("INSERT INTO texts VALUES ('2'), ('17')").await;
    for (names, told) in [
        ("nowhere.id", "no such table or column"),
        ("invoices.nothing", "no such table or column"),
        ("invoices.number[nothing=1]", "no such table or column"),
        ("invoices.number", "holds texts"),
        // Of these "2" is the largest.
        ("texts.t", "holds texts"),
    ] {
        let error = largest(&bank, names).await.unwrap_err();
        match error {
            SequenceError::Column(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Refused, "{names}: {error:?}");
                assert!(error.to_string().contains(told), "{names}: {error}");
            }
            other => panic!("{names}: {other:?}"),
        }
    }
    for wrong in ["invoices", "a.b.c.d", "inv\"oices.number", "invoices.number[x]"] {
        assert!(matches!(largest(&bank, wrong).await, Err(SequenceError::Place(_))), "{wrong}");
    }
}

async fn a_counter_is_raised_above_every_shard_and_never_lowered<B: Bank>() {
    let (Some(bank), Some(other)) = (B::open().await, B::open().await) else { return };
    shard(&bank).await;
    shard(&other).await;
    let tables =
        format!("{SERIES}[entities.orders]\nscheme = \"segment\"\nrange = 10\n[entities.users]\nscheme = \"uuidv7\"\n");
    let parsed = Config::parse(&config(&bank.url(), &tables), "mintage.toml").unwrap();
    let open = async || Registry::builder().builtins().sequences(&parsed).await.unwrap();

    let mut sequences = open().await;
    assert!(sequences.troubles().is_empty());
    let orders = sequences.find("orders", None).await.unwrap();
    assert_eq!(
        (orders.next, orders.start, &orders.owner),
        (None, Some(1), &SequenceOwner::Entity("orders".to_owned()))
    );
    let mut floor = 0;
    for shard in [&bank, &other] {
        floor = floor.max(largest(shard, "Orders.id").await.unwrap().unwrap() + 1);
    }
    // Made where it is to stand; then a process counts from there.
    let raised = sequences.raise(&orders, floor).await.unwrap();
    assert_eq!(raised.next, Some(43));
    let clock = at(BEFORE_MIDNIGHT);
    let registry = process(&bank, &tables, &clock).await;
    let minter = registry.any_minter("orders").unwrap();
    assert_eq!(minter.mint_ready().await.unwrap(), mintage::core::AnyId::Int(43));

    // A process that runs holds 44 to 62 and uses them at most; the next one begins above.
    let orders = sequences.find("orders", None).await.unwrap();
    let raised = sequences.raise(&orders, 10_000).await.unwrap();
    assert_eq!((raised.next, raised.raises > orders.raises), (Some(10_000), true));
    let mut last = 0;
    for _ in 0..30 {
        let mintage::core::AnyId::Int(id) = minter.mint_ready().await.unwrap() else { panic!("numbers") };
        assert!((44..=62).contains(&id) || id >= 10_000, "{id}");
        last = id;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(last >= 10_000, "it has learned");
    registry.close().await.unwrap();
    let before = sequences.find("orders", None).await.unwrap();
    let after = sequences.raise(&before, 5).await.unwrap();
    assert_eq!((after.next, after.raises), (before.next, before.raises + 1), "never lowered, and told");
    assert!(sequences.raise(&before, protocol::TIME_MAX_MS.max(1 << 63) + 1).await.is_err(), "above 2^63");

    // A period of a series can be begun above what paper books have used.
    let period = sequences.find("invoices/2026-11-30", None).await.unwrap();
    assert_eq!((period.next, period.start), (None, Some(1)));
    sequences.raise(&period, 500).await.unwrap();
    let registry = process(&bank, &tables, &clock).await;
    let mut tx = bank.begin().await;
    assert_eq!(registry.series("invoices").unwrap().next_in(&mut tx).await.unwrap().as_str(), "20261130-000500");
    tx.commit().await.unwrap();
    registry.close().await.unwrap();
    let names: Vec<String> = sequences.list().await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["invoices/2026-11-30", "orders"]);
    for (name, told) in [
        ("invoices", "name the period, such as invoices/2026-11-30"),
        ("invoices/2026-11", "name the period, such as invoices/2026-11-30"),
        ("users", "uses uuidv7, which has no counter"),
        ("ordres", "(known: orders, invoices)"),
    ] {
        let error = sequences.find(name, None).await.unwrap_err().to_string();
        assert!(error.contains(told), "{name}: {error}");
    }
}
