//! One transaction after another: first numbers, rollbacks, savepoints, midnight, the end of a width.

use mintage::core::{ManualClock, MintError, StoreErrorKind};
use sqlx::Acquire;

use crate::{BEFORE_MIDNIGHT, Receipt, SERIES, assert_dense, at, banks::Bank, is_full, kind_of, on_all, process};

on_all!(
    a_number_shares_the_fate_of_its_row,
    each_day_counts_for_itself,
    a_full_width_is_an_error_that_harms_nothing,
    entities_of_numbers_are_gapless_too,
    a_counter_that_was_deleted_is_not_begun_again,
    a_raised_counter_goes_on_there,
);

async fn a_number_shares_the_fate_of_its_row<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    // The counter is not there yet, and is rolled back with the first number.
    for (expected, kept) in [(1, false), (1, false), (1, true), (2, false), (2, true)] {
        let mut tx = bank.begin().await;
        let number = invoices.next_in(&mut tx).await.unwrap();
        assert_eq!(number.to_string(), format!("20261130-{expected:06}"));
        assert_eq!(invoices.parse(number.as_str()).unwrap(), number);
        B::insert(&mut tx, number.as_str()).await;
        if kept { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    // Dropped without a word is rolled back.
    let mut tx = bank.begin().await;
    assert_eq!(invoices.next_in(&mut tx).await.unwrap().n(), 3);
    drop(tx);

    // What a savepoint takes back is given again, in the same transaction.
    let mut tx = bank.begin().await;
    let mut inner = tx.begin().await.unwrap();
    assert_eq!(invoices.next_in(&mut inner).await.unwrap().n(), 3);
    inner.rollback().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    let third = invoices.next_in(&mut inner).await.unwrap();
    B::insert(&mut inner, third.as_str()).await;
    inner.commit().await.unwrap();
    let fourth = invoices.next_in(&mut tx).await.unwrap();
    assert_eq!((third.n(), fourth.n()), (3, 4), "two numbers of one transaction");
    B::insert(&mut tx, fourth.as_str()).await;
    tx.commit().await.unwrap();

    let rows = bank.rows().await;
    assert_eq!(rows.len(), 4);
    assert_dense(&rows);
    registry.close().await.unwrap();
}

async fn each_day_counts_for_itself<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    // The hour that comes twice, then midnight, then a clock that steps back over it.
    let clock = at("2026-10-25T00:30:00Z");
    let registry = process(&bank, SERIES, &clock).await;
    let invoices = registry.series("invoices").unwrap();
    for (time, expected) in [
        ("2026-10-25T00:30:00Z", "20261025-000001"),
        ("2026-10-25T01:30:00Z", "20261025-000002"),
        ("2026-10-25T22:59:59.999Z", "20261025-000003"),
        ("2026-10-25T23:00:00Z", "20261026-000001"),
        ("2026-10-25T22:59:59.999Z", "20261025-000004"),
        ("2026-10-25T23:00:00Z", "20261026-000002"),
    ] {
        let now_ms = i64::try_from(mintage::core::Clock::unix_ms(&clock)).unwrap();
        clock.step(mintage::time::parse(time).unwrap() - now_ms);
        let mut tx = bank.begin().await;
        let number = invoices.next_in(&mut tx).await.unwrap();
        assert_eq!(number.to_string(), expected, "{time}");
        B::insert(&mut tx, number.as_str()).await;
        tx.commit().await.unwrap();
    }
    assert_dense(&bank.rows().await);
    registry.close().await.unwrap();
}

async fn a_full_width_is_an_error_that_harms_nothing<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let clock = ManualClock::at(1);
    let tables = "[series.invoices]\nformat = \"R-{n:02}\"\nstart = 99\ngapless = true\n";
    let registry = process(&bank, tables, &clock).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = bank.begin().await;
    let last = invoices.next_in(&mut tx).await.unwrap();
    assert_eq!(last.as_str(), "R-99");
    for _ in 0..2 {
        let error = invoices.next_in(&mut tx).await.unwrap_err();
        assert!(is_full(&error) && !error.runs_again() && error.to_string().contains("{n:02} ends at 99"), "{error}");
    }
    // The transaction goes on.
    B::insert(&mut tx, last.as_str()).await;
    tx.commit().await.unwrap();
    assert_eq!(bank.rows().await, ["R-99"]);
    registry.close().await.unwrap();
}

async fn entities_of_numbers_are_gapless_too<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let clock = at(BEFORE_MIDNIGHT);
    let tables = "[entities.receipts]\nscheme = \"segment\"\nstart = 1000\ngapless = true\n";
    for expected in [1000, 1001] {
        let registry = process(&bank, tables, &clock).await;
        let receipts = registry.minter::<Receipt>().unwrap();
        for kept in [false, true] {
            let mut tx = bank.begin().await;
            let id = receipts.next_in(&mut tx).await.unwrap();
            assert_eq!(id.raw(), expected);
            if kept { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        assert_eq!(receipts.mint().unwrap_err(), MintError::Gapless);
        assert_eq!(receipts.mint_ready().await.unwrap_err().kind(), MintError::Gapless);
        registry.close().await.unwrap();
        let mut tx = bank.begin().await;
        assert!(receipts.next_in(&mut tx).await.unwrap_err().to_string().contains("closed"));
    }
}

async fn a_counter_that_was_deleted_is_not_begun_again<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = bank.begin().await;
    invoices.next_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    bank.sql("DELETE FROM mintage_sequence").await;
    for _ in 0..2 {
        let mut tx = bank.begin().await;
        let error = invoices.next_in(&mut tx).await.unwrap_err();
        assert_eq!(kind_of(&error), Some(StoreErrorKind::Refused), "{error:?}");
        let told = std::error::Error::source(&error).unwrap().to_string();
        assert!(told.contains("invoices/2026-11-30") && told.contains("deleted"), "{told}");
    }
    registry.close().await.unwrap();
}

async fn a_raised_counter_goes_on_there<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let next = async || {
        let mut tx = bank.begin().await;
        let number = invoices.next_in(&mut tx).await;
        tx.commit().await.unwrap();
        number
    };
    assert_eq!(next().await.unwrap().n(), 1);
    bank.sql("UPDATE mintage_sequence SET last = 41, version = version + 1").await;
    assert_eq!(next().await.unwrap().n(), 42);
    registry.close().await.unwrap();
}
