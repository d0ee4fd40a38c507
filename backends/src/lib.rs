//! Where ranges, leases, formats and tokens live: in memory, in a folder, in an SQLite database, on a database server.
//!
//! | URL | store | feature |
//! |---|---|---|
//! | `memory:` | [`Memory`] | always there |
//! | `file:DIR` | [`FileStore`] | `file` |
//! | `sqlite:PATH` | [`SqliteStore`] | `sqlite` |
//! | `postgres://USER@HOST/DATABASE` | `DatabaseStore` | `postgres` |
//! | `mysql://USER@HOST/DATABASE`, `mariadb://…` | `DatabaseStore` | `mysql` |
//! | `redis://HOST:PORT` | `RedisFactory` opens it | `redis` |
//! | `etcd://HOST:PORT,…/PREFIX` | `EtcdFactory` opens it | `etcd` |
//! | `zookeeper://HOST:PORT,…/PATH` | `ZooKeeperFactory` opens it | `zookeeper` |
//!
//! All of them keep the same laws, which are a function in `mintage_core::testkit::store`. They differ in what they survive:
//! the first line of each says it. None decides anything itself: they load rows, call [`mintage_core::protocol`], write back
//! atomically, and answer after the commit.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), mintage_core::StoreError> {
//! use mintage_backends::Memory;
//! use mintage_core::{RangeStore, Sequence, SystemClock};
//! use std::{num::NonZeroU32, sync::Arc};
//!
//! let store = Memory::new(Arc::new(SystemClock));
//! let orders = Sequence::new("orders", 1);
//! store.create(&orders).await?;
//! let range = store.allocate(&orders, NonZeroU32::MIN.saturating_add(99), None).await?;
//! assert_eq!((range.start, range.end), (1, 101));
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "cells")]
mod cells;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod column;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod database;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "file")]
mod file;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod gapless;
#[cfg(any(feature = "file", feature = "sqlite"))]
mod identity;
mod ledger;
mod memory;
mod ranges;
#[cfg(feature = "redis")]
mod redis;
mod rules;
mod seen;
#[cfg(any(feature = "cells", feature = "file", feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sound;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "cells", feature = "mysql", feature = "postgres"))]
mod tries;
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
mod trusted;
#[cfg(any(feature = "cells", feature = "file", feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod wait;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use mintage_core::plugin::{Catalog, Plugin};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use column::{Gaps, NumberColumn};
#[cfg(feature = "mysql")]
pub use database::MySqlFactory;
#[cfg(feature = "postgres")]
pub use database::PostgresFactory;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use database::{DatabaseStore, Dialect};
#[cfg(feature = "etcd")]
pub use etcd::EtcdFactory;
#[cfg(feature = "file")]
pub use file::{FileFactory, FileStore};
pub use memory::{Memory, MemoryFactory};
#[cfg(feature = "redis")]
pub use redis::RedisFactory;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteFactory, SqliteStore};
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeperFactory;

/// Every store of this crate: `builder.plugin::<Builtin>()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Plugin for Builtin {
    fn install(catalog: &mut Catalog) {
        catalog.backend(MemoryFactory);
        #[cfg(feature = "file")]
        catalog.backend(FileFactory);
        #[cfg(feature = "sqlite")]
        catalog.backend(SqliteFactory);
        #[cfg(feature = "postgres")]
        PostgresFactory::all().into_iter().for_each(|factory| catalog.backend(factory));
        #[cfg(feature = "mysql")]
        MySqlFactory::all().into_iter().for_each(|factory| catalog.backend(factory));
        #[cfg(feature = "redis")]
        catalog.backend(RedisFactory);
        #[cfg(feature = "etcd")]
        catalog.backend(EtcdFactory);
        #[cfg(feature = "zookeeper")]
        catalog.backend(ZooKeeperFactory);
    }
}
