//! Numbers that are known before their row is written.

use mintage::{
    GaplessError,
    core::{Reservation, ReservationState},
};

use crate::{BEFORE_MIDNIGHT, Receipt, SERIES, assert_dense, at, banks::Bank, on_all, process};

on_all!(every_reserved_number_is_accounted_for, ids_can_be_reserved_too, a_number_is_settled_once);

async fn every_reserved_number_is_accounted_for<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let clock = at(BEFORE_MIDNIGHT);
    let registry = process(&bank, SERIES, &clock).await;
    let invoices = registry.series("invoices").unwrap();
    let mut numbers = Vec::new();
    for nth in 1..=3 {
        let mut tx = bank.begin().await;
        numbers.push(invoices.reserve_in(&mut tx, &format!("order {nth}")).await.unwrap());
        tx.commit().await.unwrap();
    }
    // A reservation that is rolled back was none.
    let mut tx = bank.begin().await;
    assert_eq!(invoices.reserve_in(&mut tx, "order 4").await.unwrap().n(), 4);
    tx.rollback().await.unwrap();

    clock.advance(60_000);
    let mut tx = bank.begin().await;
    invoices.confirm_in(&mut tx, &numbers[0]).await.unwrap();
    B::insert(&mut tx, numbers[0].as_str()).await;
    tx.commit().await.unwrap();
    // Confirmed together with its row, or not at all.
    let mut tx = bank.begin().await;
    invoices.confirm_in(&mut tx, &numbers[1]).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = bank.begin().await;
    invoices.void_in(&mut tx, &numbers[1], "order 2 was cancelled").await.unwrap();
    tx.commit().await.unwrap();
    // Beside them, numbers of the other kind; and of the next day, for the clock went on.
    let mut tx = bank.begin().await;
    let plain = invoices.next_in(&mut tx).await.unwrap();
    assert_eq!(plain.as_str(), "20261201-000001");
    B::insert(&mut tx, plain.as_str()).await;
    tx.commit().await.unwrap();

    let audit = invoices.reservations().await.unwrap();
    let reserved_ms = audit[0].reserved_ms;
    let expected = |number: u64, state, settled: bool, reason: Option<&str>| {
        let mut one = Reservation::new("invoices/2026-11-30", number, format!("order {number}"), reserved_ms);
        one.state = state;
        one.settled_ms = settled.then_some(reserved_ms + 60_000);
        one.reason = reason.map(str::to_owned);
        one
    };
    assert_eq!(
        audit,
        [
            expected(1, ReservationState::Confirmed, true, None),
            expected(2, ReservationState::Void, true, Some("order 2 was cancelled")),
            expected(3, ReservationState::Open, false, None),
        ]
    );
    let mut accounted = bank.rows().await;
    accounted.extend(numbers[1..].iter().map(ToString::to_string));
    assert_dense(&accounted);
    registry.close().await.unwrap();
}

async fn ids_can_be_reserved_too<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let tables = "[entities.receipts]\nscheme = \"segment\"\ngapless = true\n[entities.receipts_b]\nscheme = \"segment\"\ngapless = true\n";
    let registry = process(&bank, tables, &at(BEFORE_MIDNIGHT)).await;
    let receipts = registry.minter::<Receipt>().unwrap();
    let mut tx = bank.begin().await;
    let [one, two] =
        [receipts.reserve_in(&mut tx, "till 1").await.unwrap(), receipts.reserve_in(&mut tx, "till 2").await.unwrap()];
    receipts.confirm_in(&mut tx, one).await.unwrap();
    receipts.void_in(&mut tx, two, "paper jam").await.unwrap();
    tx.commit().await.unwrap();
    let audit = receipts.reservations().await.unwrap();
    let told: Vec<(u64, &str)> = audit.iter().map(|one| (one.number, one.state.name())).collect();
    assert_eq!(told, [(1, "confirmed"), (2, "void")]);
    registry.close().await.unwrap();
}

async fn a_number_is_settled_once<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    let invoices = registry.series("invoices").unwrap();
    let mut tx = bank.begin().await;
    let number = invoices.reserve_in(&mut tx, "order 1").await.unwrap();
    let never = invoices.next_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bank.begin().await;
    invoices.confirm_in(&mut tx, &number).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = bank.begin().await;
    for error in [
        invoices.confirm_in(&mut tx, &number).await.unwrap_err(),
        invoices.void_in(&mut tx, &number, "too late").await.unwrap_err(),
    ] {
        assert!(matches!(error, GaplessError::Settled { state: ReservationState::Confirmed, .. }), "{error:?}");
        assert!(error.to_string().contains("20261130-000001 of invoices is confirmed already"), "{error}");
    }
    let error = invoices.confirm_in(&mut tx, &never).await.unwrap_err();
    assert!(matches!(error, GaplessError::NeverReserved { .. }), "{error:?}");
    for text in ["", &"x".repeat(501), "two\nlines", "nul\0"] {
        let notes = [
            invoices.reserve_in(&mut tx, text).await.map(drop).unwrap_err(),
            invoices.void_in(&mut tx, &number, text).await.unwrap_err(),
        ];
        assert!(notes.iter().all(|error| matches!(error, GaplessError::Text { most: 500, .. })), "{notes:?}");
    }
    // None of it has harmed the transaction or taken a number.
    assert_eq!(invoices.next_in(&mut tx).await.unwrap().n(), 3);
    tx.commit().await.unwrap();
    registry.close().await.unwrap();
}
