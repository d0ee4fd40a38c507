//! The stores of this crate under the laws of the test kit, and under what only stores on disk go through: several processes,
//! kill -9, restarts, full disks, foreign files, clocks set back.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod contract;
mod disk;
mod file;
#[path = "../golden/mod.rs"]
mod golden;
mod history;
mod lives;
mod planted;
mod processes;
mod sqlite;
mod urls;
mod versions;

use std::{num::NonZeroU32, path::Path, sync::Arc};

use mintage_backends::Builtin;
use mintage_core::{
    Holder, IdRange, LeaseTerms, ManualClock, PoolLimits, StoreError, StoreErrorKind, WorkerPool,
    plugin::{Address, Backend, Catalog, Plugin},
};

/// A day in 2027, Unix ms.
const NOW_MS: u64 = 1_800_000_000_000;

/// Opens `url` in `folder` as the registry does.
async fn open(url: &str, folder: &Path, clock: &ManualClock) -> Result<Backend, StoreError> {
    open_within(url, folder, clock, 30_000).await
}

async fn open_within(url: &str, folder: &Path, clock: &ManualClock, timeout_ms: u64) -> Result<Backend, StoreError> {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let factory = catalog.backend_of(url).cloned();
    let mut address = Address::new(url, folder, Arc::new(clock.clone()));
    address.timeout_ms = timeout_ms;
    let factory = factory.ok_or_else(|| StoreError::new(StoreErrorKind::Refused, format!("no store is at {url}")))?;
    factory.open(&address).await
}

fn count(len: u32) -> NonZeroU32 {
    NonZeroU32::new(len).unwrap()
}

fn pool(name: &str, block: std::ops::Range<u32>) -> WorkerPool {
    let mut pool = WorkerPool::new(name, block);
    pool.limits = PoolLimits::new(60_000, 2_000, 1_000);
    pool
}

fn holder(nth: u32) -> Holder {
    Holder::new(u128::from(nth) + 1, format!("host-{nth}"), NOW_MS)
}

/// Terms without quarantine.
fn terms() -> LeaseTerms {
    LeaseTerms::new(60_000, 10_000, 0, 2_000)
}

fn assert_disjoint(mut ranges: Vec<IdRange>) {
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{:?} and {:?} share numbers", pair[0], pair[1]);
    }
}

/// Makes two tests of an async function over a URL: one for each store that is on disk.
macro_rules! on_disk {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn file() {
                super::$test("file:ids").await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn sqlite() {
                super::$test("sqlite:ids.db").await;
            }
        })+
    };
}
use on_disk;
