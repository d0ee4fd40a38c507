//! The wrong config, the wrong database, the wrong moment.

use sqlx::Connection as _;

use mintage::{
    Config, GaplessError, Registry, SeriesError,
    core::{MintError, StoreErrorKind},
};

use crate::{
    BEFORE_MIDNIGHT, SERIES, at,
    banks::{Bank, OnMariaDb, OnPostgres, OnSqlite},
    config, kind_of, on_all, process,
};

on_all!(
    another_database_is_refused,
    a_lost_life_of_the_server_stops_it,
    a_period_that_may_be_forgotten_is_not_begun_again,
    a_bump_waits_for_a_period_that_is_being_begun,
    next_without_a_transaction_is_refused,
    two_prefixes_count_apart
);

/// Two installations in the database of one application: each transaction moves the counter of its own.
async fn two_prefixes_count_apart<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let open = async |prefix: &str| {
        let config = format!("{}table_prefix = \"{prefix}\"\n", config(&bank.url(), SERIES));
        let config = Config::parse(&config, "mintage.toml").unwrap();
        Registry::builder().builtins().clock(at(BEFORE_MIDNIGHT)).build(config).await.unwrap()
    };
    let registries = [open("billing_ids_").await, open("mintage_two_").await];
    for n in 1..=3 {
        for registry in &registries {
            let invoices = registry.series("invoices").unwrap();
            let mut tx = bank.begin().await;
            let number = invoices.reserve_in(&mut tx, "order 7").await.unwrap();
            assert_eq!(number.n(), n);
            tx.commit().await.unwrap();
            let mut tx = bank.begin().await;
            match n {
                1 => invoices.confirm_in(&mut tx, &number).await.unwrap(),
                _ => invoices.void_in(&mut tx, &number, "cancelled").await.unwrap(),
            }
            tx.commit().await.unwrap();
            assert_eq!(invoices.reservations().await.unwrap().len(), usize::try_from(n).unwrap());
        }
    }
    for registry in registries {
        registry.close().await.unwrap();
    }
}

/// A database without tables, and one whose tables know nothing of the series.
async fn another_database_is_refused<B: Bank>() {
    let (Some(bank), Some(other)) = (B::open().await, B::open().await) else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let told = async || {
        let mut tx = other.begin().await;
        let error = invoices.next_in(&mut tx).await.unwrap_err();
        assert_eq!(kind_of(&error), Some(StoreErrorKind::Refused), "{error:?}");
        std::error::Error::source(&error).unwrap().to_string()
    };
    assert!(told().await.contains("no tables of Mintage"));
    let elsewhere = "[series.returns]\nformat = \"{n}\"\ngapless = true\n";
    process(&other, elsewhere, &at(BEFORE_MIDNIGHT)).await.close().await.unwrap();
    assert!(
        told().await.contains("begin the transaction in the database")
            || told().await.contains("Begin the transaction")
    );
    registry.close().await.unwrap();
}

/// A session that commits before the disk has it would lose a number that is on paper, and it would be given again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_commits_numbers_to_the_disk() {
    let Some(bank) = OnPostgres::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut connection = bank.pool.acquire().await.unwrap();
    let now = async |connection: &mut sqlx::PgConnection| -> String {
        sqlx::query_scalar("SHOW synchronous_commit").fetch_one(connection).await.unwrap()
    };
    for (set, raised) in
        [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
    {
        sqlx::query("SELECT set_config('synchronous_commit', $1, false)")
            .bind(set)
            .execute(&mut *connection)
            .await
            .unwrap();
        let mut tx = connection.begin().await.unwrap();
        invoices.next_in(&mut tx).await.unwrap();
        assert_eq!(now(&mut tx).await, raised, "{set}");
        tx.commit().await.unwrap();
        assert_eq!(now(&mut connection).await, set, "for the transaction alone");
        // A number that is reserved is one on paper, too.
        let mut tx = connection.begin().await.unwrap();
        let mut inner = tx.begin().await.unwrap();
        invoices.reserve_in(&mut inner, "order 7").await.unwrap();
        inner.commit().await.unwrap();
        assert_eq!(now(&mut tx).await, raised, "{set}, from a savepoint");
        tx.commit().await.unwrap();
    }
    drop(connection);
    registry.close().await.unwrap();
}

/// The same in SQLite, where nobody can change it inside a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_is_refused_where_a_power_loss_takes_commits_back() {
    use sqlx::{ConnectOptions as _, sqlite::SqliteSynchronous as Synchronous};
    let Some(bank) = OnSqlite::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    for (synchronous, refused) in [
        (Synchronous::Off, Some("synchronous = OFF")),
        (Synchronous::Normal, Some("synchronous = NORMAL")),
        (Synchronous::Full, None),
        (Synchronous::Extra, None),
    ] {
        let options = bank.pool.connect_options().as_ref().clone().synchronous(synchronous);
        let mut connection = options.connect().await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        let taken = invoices.next_in(&mut tx).await;
        let Some(refused) = refused else {
            taken.unwrap();
            tx.commit().await.unwrap();
            continue;
        };
        let error = taken.unwrap_err();
        assert_eq!(kind_of(&error), Some(StoreErrorKind::Refused), "{error:?}");
        let told = std::error::Error::source(&error).unwrap().to_string();
        assert!(told.contains(refused) && told.contains("synchronous = FULL"), "{told}");
        tx.rollback().await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        assert!(invoices.reserve_in(&mut tx, "order 7").await.is_err());
    }
    registry.close().await.unwrap();
}

/// As after a failover: what was committed last may be forgotten, and a number on paper must not come twice.
async fn a_lost_life_of_the_server_stops_it<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    if bank.url().starts_with("sqlite:") {
        return;
    }
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = bank.begin().await;
    invoices.next_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    bank.sql("UPDATE mintage_sequence SET incarnation = 'another'").await;
    let mut tx = bank.begin().await;
    let error = invoices.next_in(&mut tx).await.unwrap_err();
    assert_eq!(kind_of(&error), Some(StoreErrorKind::RolledBack), "{error:?}");
    registry.close().await.unwrap();
}

/// A promoted standby may lack the whole counter of today, and a restored backup that was bumped, too.
async fn a_period_that_may_be_forgotten_is_not_begun_again<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let (forgets, is_looked_at, stops) = if bank.url().starts_with("sqlite:") {
        (
            "INSERT INTO mintage_stopped VALUES ('*')",
            "DELETE FROM mintage_stopped",
            "INSERT INTO mintage_stopped SELECT name FROM mintage_sequence",
        )
    } else {
        (
            "UPDATE mintage_sequence SET incarnation = CONCAT('x', incarnation) WHERE name = '*'",
            "UPDATE mintage_sequence SET incarnation = SUBSTR(incarnation, 2) WHERE name = '*'",
            "UPDATE mintage_sequence SET incarnation = ''",
        )
    };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let refused = async || {
        let mut tx = bank.begin().await;
        let error = invoices.next_in(&mut tx).await.unwrap_err();
        assert_eq!(kind_of(&error), Some(StoreErrorKind::RolledBack), "{error:?}");
    };
    bank.sql(forgets).await;
    refused().await;
    bank.sql(is_looked_at).await;
    let mut tx = bank.begin().await;
    invoices.next_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    bank.sql(stops).await;
    refused().await;
    registry.close().await.unwrap();
}

/// A period first begun in a transaction that is open while the database is declared to have forgotten: either it is begun before,
/// then it waits for a raise as any other, or it is not begun.
async fn a_bump_waits_for_a_period_that_is_being_begun<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = bank.begin().await;
    invoices.next_in(&mut tx).await.unwrap();
    let bump = async |timeout: &str| {
        let config = config(&bank.url(), SERIES).replace("timeout = \"60s\"", timeout);
        let config = Config::parse(&config, "mintage.toml").unwrap();
        let builder = Registry::builder().builtins().clock(at(BEFORE_MIDNIGHT));
        builder.operator(&config).unwrap().bump("main").await
    };
    let error = bump("timeout = \"1s\"").await.unwrap_err();
    let told = std::error::Error::source(&error).unwrap().to_string();
    assert!(told.contains("others hold the same rows") || told.contains("write lock"), "{told}");
    tx.commit().await.unwrap();
    bump("").await.unwrap();
    let mut tx = bank.begin().await;
    let error = invoices.next_in(&mut tx).await.unwrap_err();
    assert_eq!(kind_of(&error), Some(StoreErrorKind::RolledBack), "{error:?}");
    drop(tx);
    registry.close().await.unwrap();
}

async fn next_without_a_transaction_is_refused<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let plain = "[series.plain]\nformat = \"{n}\"\n";
    let registry = process(&bank, &format!("{SERIES}{plain}"), &at(BEFORE_MIDNIGHT)).await;
    let (invoices, plain) = (registry.series("invoices").unwrap(), registry.series("plain").unwrap());
    assert!(matches!(invoices.next().await.unwrap_err(), SeriesError::Gapless { .. }));
    let mut tx = bank.begin().await;
    let error = plain.next_in(&mut tx).await.unwrap_err();
    assert!(
        matches!(error, GaplessError::NotGapless { .. }) && error.to_string().contains("gapless = true"),
        "{error}"
    );
    registry.close().await.unwrap();
    let error = invoices.next_in(&mut tx).await.unwrap_err();
    assert!(matches!(&error, GaplessError::Ready(error) if error.kind() == MintError::Closed), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_of_another_kind_is_refused() {
    let (Some(small), Some(large), Some(other)) =
        (OnSqlite::open().await, OnPostgres::open().await, OnMariaDb::open().await)
    else {
        return;
    };
    let registry = process(&large, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = small.begin().await;
    let error = invoices.next_in(&mut tx).await.unwrap_err();
    assert!(matches!(error, GaplessError::OtherDatabase { .. }), "{error:?}");
    assert!(error.to_string().contains("counts in store main, a postgres: database"), "{error}");
    let mut tx = other.begin().await;
    assert!(invoices.next_in(&mut tx).await.unwrap_err().to_string().contains("one of mysql: or mariadb:"));
    registry.close().await.unwrap();
}

/// SQLite's own: a transaction that has read cannot wait for a writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_comes_too_late_is_told_to_run_again() {
    let Some(bank) = OnSqlite::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut late = bank.begin().await;
    let _: i64 = sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&mut *late).await.unwrap();
    let mut first = bank.begin().await;
    invoices.next_in(&mut first).await.unwrap();
    first.commit().await.unwrap();
    let error = invoices.next_in(&mut late).await.unwrap_err();
    assert!(error.runs_again(), "{error:?}");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("BEGIN IMMEDIATE"), "{error:?}");
    registry.close().await.unwrap();
}

#[test]
fn stores_without_transactions_are_refused_by_name() {
    let check = |url: &str, tables: &str| {
        let config = Config::parse(&config(url, tables), "mintage.toml").unwrap();
        Registry::builder().builtins().check(&config).map_err(|errors| errors.to_string())
    };
    let entity = "[entities.receipts]\nscheme = \"segment\"\ngapless = true\n";
    for url in ["memory:", "file:ids", "redis://localhost:1", "etcd://localhost:1/x"] {
        let told = check(url, SERIES).unwrap_err();
        assert!(told.starts_with("mintage.toml:5:1 series.invoices.gapless: gapless numbers are assigned"), "{told}");
        assert!(told.contains("mariadb") && told.contains("sqlite") && !told.contains("memory,"), "{told}");
        let told = check(url, entity).unwrap_err();
        assert!(told.starts_with("mintage.toml:4:1 entities.receipts.gapless: gapless"), "{told}");
    }
    for url in ["sqlite:ids.db", "postgres://me@localhost/x", "mariadb://me@localhost/x"] {
        assert!(check(url, SERIES).is_ok() && check(url, entity).is_ok(), "{url}");
    }
    let told = check("sqlite:ids.db", &format!("{SERIES}range = 5\n")).unwrap_err();
    assert!(told.contains("series.invoices.range: a gapless series assigns one number at a time"), "{told}");
    let told = check("sqlite:ids.db", &format!("{entity}range = 5\nrefill_at = 0.5\n")).unwrap_err();
    assert_eq!(told.lines().count(), 2, "{told}");
    // Off is off.
    assert!(check("memory:", &SERIES.replace("gapless = true", "gapless = false\ndurability = \"weak\"")).is_ok());
}
