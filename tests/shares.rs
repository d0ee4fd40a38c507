//! Two real databases share one entity's numbers, and a process outlives the loss of either.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, time::Duration};

use mintage::{Config, Minter, Registry, entity};
use mintage_servers_for_tests::{MariaDb, Postgres, Server};
use tokio::time::Instant;

entity!(Ticket: Int = "tickets");

/// How long a lost or returned store may go unnoticed: its timeout, its rest, and a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Both {
    registry: Registry,
    tickets: Minter<Ticket>,
    seen: BTreeSet<u64>,
}

impl Both {
    async fn open(config: &Config) -> Self {
        let registry = Registry::builder().builtins().build(config.clone()).await.unwrap();
        Self { tickets: registry.minter().unwrap(), registry, seen: BTreeSet::new() }
    }

    /// Mints, and fails on any number that was there before.
    async fn mint(&mut self, count: usize) -> Vec<u64> {
        let ids: Vec<u64> = self.tickets.mint_many(count).await.unwrap().into_iter().map(|id| id.raw()).collect();
        for id in &ids {
            assert!(self.seen.insert(*id), "{id} was minted twice");
        }
        ids
    }

    fn troubled(&self) -> Vec<String> {
        let stores = self.registry.supplies().into_iter().flat_map(|(_, health)| health.stores);
        stores.filter(|store| store.trouble.is_some()).map(|store| store.name).collect()
    }

    /// Mints until these stores, and no others, are in trouble; then a hundred more.
    async fn mint_until_troubled(&mut self, stores: &[&str]) -> Vec<u64> {
        let began = Instant::now();
        while self.troubled() != stores {
            assert!(began.elapsed() < PATIENCE, "still {:?}, not {stores:?}", self.troubled());
            self.mint(50).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Ranges that were in hand before.
        self.mint(100).await;
        self.mint(100).await
    }
}

fn config(a: &str, b: &str) -> Config {
    let text = format!(
        "version = 1\n[entities.tickets]\nscheme = \"segment\"\nrange = 20\nstores = [\"a\", \"b\"]\n\
         [stores.a]\nurl = \"{a}\"\ntimeout = \"3s\"\n[stores.b]\nurl = \"{b}\"\ntimeout = \"3s\"\n"
    );
    Config::parse(&text, "mintage.toml").unwrap()
}

fn is_all(ids: &[u64], remainder: u64) -> bool {
    ids.iter().all(|id| id % 2 == remainder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_and_mariadb_give_odd_and_even_numbers_and_either_may_die() {
    let (Some(postgres), Some(mariadb)) = (Postgres::start(), MariaDb::start()) else { return };
    let config = config(&postgres.database("odd"), &mariadb.database("even"));
    let mut both = Both::open(&config).await;
    let ids = both.mint(200).await;
    assert!(!is_all(&ids, 0) && !is_all(&ids, 1));
    let lost: [(&Server, &str, u64); 2] = [(&postgres, "a", 0), (&mariadb, "b", 1)];
    for (server, name, rest) in lost {
        server.kill9();
        let ids = both.mint_until_troubled(&[name]).await;
        assert!(is_all(&ids, rest), "{name} is dead: {ids:?}");
        server.restart();
        let ids = both.mint_until_troubled(&[]).await;
        assert!(!is_all(&ids, 0) && !is_all(&ids, 1), "{name} is back: {ids:?}");
    }
    drop(both.tickets);
    both.registry.close().await.unwrap();

    // A start with one of the two, which comes back later.
    for (server, name, rest) in lost {
        server.kill9();
        let mut again = Both::open(&config).await;
        again.seen = std::mem::take(&mut both.seen);
        let ids = again.mint_until_troubled(&[name]).await;
        assert!(is_all(&ids, rest), "{name} is dead: {ids:?}");
        server.restart();
        again.mint_until_troubled(&[]).await;
        drop(again.tickets);
        again.registry.close().await.unwrap();
        both.seen = again.seen;
    }
}
