//! A test that needs a real server starts its own: a free loopback port, a temporary folder, and nothing left afterwards.
//!
//! ```no_run
//! use mintage_servers_for_tests::{Fault, Postgres, Proxy};
//!
//! // `None` where PostgreSQL is not installed: the test says so and ends. With MINTAGE_REQUIRE_ALL=1 it fails instead.
//! let Some(server) = Postgres::start() else { return };
//! let proxy = Proxy::start(server.port());
//! let url = proxy.url_of(&server.database("ranges"));
//! proxy.set(Fault::LoseAnswer); // the server commits, the client never hears of it
//! server.kill9();
//! server.restart(); // on the same data and the same port
//! # drop(url);
//! ```
//!
//! * No server that merely happens to run is ever used.
//! * A server dies with its value, and with the test process however that ends: see [`Server`].
//! * What cannot be started panics and shows the end of the server's log: a test has nothing better to do.
//! * Everything blocks, also in an async test. The [`Proxy`] runs on a thread of its own, so that cannot stall it.
#![forbid(unsafe_code)]
#![cfg(unix)]

mod certificates;
mod deadline;
mod etcd;
mod fault;
mod mariadb;
mod network;
mod port;
mod postgres;
mod process;
mod program;
mod redis;
mod server;
mod wire;
mod zookeeper;

pub use certificates::Certificates;
pub use etcd::{Etcd, EtcdCluster};
pub use fault::{Connection, Fault, Proxy, Way};
pub use mariadb::MariaDb;
pub use network::Network;
pub use postgres::Postgres;
pub use program::{Program, require};
pub use redis::Redis;
pub use server::Server;
pub use zookeeper::{ZooKeeper, ZooKeeperEnsemble};
