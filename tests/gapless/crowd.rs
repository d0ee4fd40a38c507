//! Many transactions at once: nobody gets a number twice, nobody leaves a gap, nobody waits for ever.

use std::sync::Arc;

use mintage::{GaplessError, Registry, Series};
use sqlx::Transaction;
use tokio::sync::Barrier;

use crate::{
    BEFORE_MIDNIGHT, SERIES, assert_dense, at,
    banks::{Bank, OnPostgres},
    in_time, on_all, process,
};

on_all!(
    two_transactions_take_turns,
    a_crowd_that_rolls_back_every_third_leaves_no_gap,
    one_order_of_several_series_never_deadlocks,
    two_orders_end_in_an_error_that_says_run_again,
);

const OTHER: &str = "[series.returns]\nformat = \"{yyyy}{mm}{dd}-{n}\"\nzone = \"Europe/Berlin\"\ngapless = true\n";

/// The second waits for the first, and gets its number if that one rolls back.
async fn two_transactions_take_turns<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    for (kept, expected) in [(false, 1), (true, 3), (false, 4), (true, 6)] {
        let invoices = registry.series("invoices").unwrap();
        let mut first = bank.begin().await;
        let number = invoices.next_in(&mut first).await.unwrap();
        let second = tokio::spawn({
            let (bank, invoices) = (bank.clone(), invoices.clone());
            async move {
                let mut tx = bank.begin().await;
                let number = invoices.next_in(&mut tx).await.unwrap();
                B::insert(&mut tx, number.as_str()).await;
                tx.commit().await.unwrap();
                number
            }
        });
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(!second.is_finished(), "it waits for the first to end");
        if kept {
            B::insert(&mut first, number.as_str()).await;
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        assert_eq!(second.await.unwrap().n(), expected);
    }
    assert_eq!(bank.rows().await.len(), 6);
    assert_dense(&bank.rows().await);
    registry.close().await.unwrap();
}

/// Two processes, midnight in between; the period's counter is made by whoever is first, and some of those are rolled back.
async fn a_crowd_that_rolls_back_every_third_leaves_no_gap<B: Bank>() {
    const TASKS: usize = 12;
    const ROUNDS: usize = 12;
    let Some(bank) = B::open().await else { return };
    let clock = at("2026-11-30T22:59:59Z");
    let processes = [process(&bank, SERIES, &clock).await, process(&bank, SERIES, &clock).await];
    let start = Arc::new(Barrier::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let invoices = processes[task % 2].series("invoices").unwrap();
            let (bank, clock, start) = (bank.clone(), clock.clone(), Arc::clone(&start));
            tokio::spawn(async move {
                let mut kept = 0;
                for round in 0..ROUNDS {
                    if round == 0 || round == ROUNDS / 2 {
                        start.wait().await;
                    }
                    if round == ROUNDS / 2 && task == 0 {
                        clock.advance(1_000);
                    }
                    let mut tx = bank.begin().await;
                    let number = invoices.next_in(&mut tx).await.unwrap();
                    B::insert(&mut tx, number.as_str()).await;
                    // Those who come first after a start take the counter they made back.
                    if (task + round) % 3 == 0 {
                        tx.rollback().await.unwrap();
                    } else {
                        tx.commit().await.unwrap();
                        kept += 1;
                    }
                }
                kept
            })
        })
        .collect();
    let mut kept = 0;
    for task in tasks {
        kept += task.await.unwrap();
    }
    let rows = bank.rows().await;
    assert_eq!(rows.len(), kept);
    assert!(rows.first().unwrap().starts_with("20261130") && rows.last().unwrap().starts_with("20261201"), "{rows:?}");
    assert_dense(&rows);
    for registry in processes {
        registry.close().await.unwrap();
    }
}

async fn one_order_of_several_series_never_deadlocks<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, &format!("{SERIES}{OTHER}"), &at(BEFORE_MIDNIGHT)).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (bank, both) = (bank.clone(), both(&registry));
            tokio::spawn(async move {
                for round in 0..8 {
                    let mut tx = bank.begin().await;
                    take(&both, &mut tx).await.unwrap();
                    if (task + round) % 4 == 0 { tx.rollback().await.unwrap() } else { tx.commit().await.unwrap() }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = bank.begin().await;
    assert_eq!(take(&both(&registry), &mut tx).await.unwrap(), [49, 49], "48 of 64 were kept");
    drop(tx);
    registry.close().await.unwrap();
}

/// The database ends a deadlock by refusing one of the two; run again, it leaves no gap.
async fn two_orders_end_in_an_error_that_says_run_again<B: Bank>() {
    let Some(bank) = B::open().await else { return };
    let registry = process(&bank, &format!("{SERIES}{OTHER}"), &at(BEFORE_MIDNIGHT)).await;
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (bank, mut both) = (bank.clone(), both(&registry));
            if task % 2 == 1 {
                both.reverse();
            }
            tokio::spawn(async move {
                let mut kept = 0;
                while kept < 6 {
                    let mut tx = bank.begin().await;
                    match take(&both, &mut tx).await {
                        Ok(_) => {
                            tx.commit().await.unwrap();
                            kept += 1;
                        }
                        Err(error) => {
                            assert!(error.runs_again(), "{error:?}");
                            tx.rollback().await.unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = bank.begin().await;
    assert_eq!(take(&both(&registry), &mut tx).await.unwrap(), [37, 37]);
    drop(tx);
    registry.close().await.unwrap();
}

fn both(registry: &Registry) -> [Series; 2] {
    ["invoices", "returns"].map(|name| registry.series(name).unwrap())
}

async fn take<D: mintage::GaplessDatabase>(
    series: &[Series; 2],
    tx: &mut Transaction<'_, D>,
) -> Result<[u64; 2], GaplessError> {
    let one = series[0].next_in(tx).await?.n();
    Ok([one, series[1].next_in(tx).await?.n()])
}

/// A transaction that may not see what was committed since it began is told to run again, and then leaves no gap either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn strict_isolation_is_told_to_run_again() {
    let Some(bank) = OnPostgres::open().await else { return };
    let registry = process(&bank, SERIES, &at(BEFORE_MIDNIGHT)).await;
    in_time(async {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (bank, invoices) = (bank.clone(), registry.series("invoices").unwrap());
                tokio::spawn(async move {
                    let (mut kept, mut refused) = (0, 0);
                    while kept < 10 {
                        let mut tx = bank.pool.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
                        let rows: i64 =
                            sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&mut *tx).await.unwrap();
                        let done = match invoices.next_in(&mut tx).await {
                            Err(error) => {
                                assert!(error.runs_again(), "{error:?}");
                                false
                            }
                            Ok(number) => {
                                let insert = sqlx::query("INSERT INTO invoices (number) VALUES ($1)");
                                assert!(rows >= 0);
                                insert.bind(number.as_str()).execute(&mut *tx).await.is_ok()
                                    && tx.commit().await.is_ok()
                            }
                        };
                        if done { kept += 1 } else { refused += 1 }
                    }
                    refused
                })
            })
            .collect();
        let mut refused = 0;
        for task in tasks {
            refused += task.await.unwrap();
        }
        assert!(refused > 0, "they were in each other's way");
    })
    .await;
    let rows = bank.rows().await;
    assert_eq!(rows.len(), 60);
    assert_dense(&rows);
    registry.close().await.unwrap();
}
