//! Ranges, leases and formats in ZooKeeper.
//!
//! Each record is a persistent node: an ephemeral one would take the high-water mark of a worker id with it when its holder
//! goes. Records are changed by a `multi` that checks the version of each.
//!
//! ZooKeeper loses nothing that it acknowledged, so it has one life. Its servers answer questions from what they have, which may
//! be behind, and answer the questions of a session one after the other, with the writes of others in between. So each reading
//! begins with a `sync`, and ends by asking whether anything has changed since it began: what it answers stood there at one
//! moment, and not before the question. A record older than it was seen means that the ensemble was restored.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use mintage_core::{
    StoreError,
    plugin::{Address, Backend, BackendFactory},
};
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, Stat};

use crate::{
    cells::{Cell, CellStore, Cells, Change, Servers, Snapshot, To},
    rules::{corrupt, refused, unavailable},
    wait::Backoff,
};

/// The only life: an ensemble forgets nothing.
const LIFE: &str = "ensemble";

/// ZooKeeper counts the changes of a node in 31 bits: 64 holders that renew every three seconds use them up in three years.
/// So a node with this many is deleted and made anew in one step. It counts from 0 again; its value says how often that
/// has been done.
const CHANGES_MAX: u32 = 1 << 30;

/// How many bits of a version count the changes of a node; those above count the nodes.
const CHANGES_BITS: u32 = 31;

/// Ranges, leases and formats in ZooKeeper; survives the loss of any minority of its servers; with forceSync=yes, its default; the clock is each process's own.
///
/// Opens `zookeeper://[USER[:PASSWORD]@]HOST:PORT[,HOST:PORT …][/PATH]`; the path is `/mintage` by default. With a user, its
/// nodes are for that user alone (`digest`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ZooKeeperFactory;

#[async_trait]
impl BackendFactory for ZooKeeperFactory {
    fn url_scheme(&self) -> &'static str {
        "zookeeper"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in ZooKeeper; survives the loss of any minority of its servers; with forceSync=yes, its default; the clock is each process's own."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Servers::read("zookeeper", url).map(drop)
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let (cells, timeout) = ZooKeeperCells::at(address)?;
        let store = CellStore::open(cells, address.clock.clone(), timeout, true).await?;
        Ok(Backend::whole(store.with_instance(&address.instance)))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        let (cells, timeout) = ZooKeeperCells::at(address)?;
        let store = CellStore::open_existing(cells, address.clock.clone(), timeout).await?;
        Ok(store.map(|store| Backend::whole(store.with_instance(&address.instance))))
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        let (cells, timeout) = ZooKeeperCells::at(address)?;
        CellStore::init(cells, timeout).await
    }

    fn takes_password(&self) -> bool {
        true
    }
}

/// The records of a ZooKeeper ensemble.
struct ZooKeeperCells {
    servers: Servers,
    place: String,
    session: Mutex<Option<Client>>,
    timeout: Duration,
    changes_max: u32,
}

impl ZooKeeperCells {
    fn at(address: &Address) -> Result<(Self, Duration), StoreError> {
        let servers = Servers::at("zookeeper", address)?;
        if address.tls.is_some() {
            return Err(refused(format!(
                "{}: connections to ZooKeeper are not encrypted here: take tls out",
                servers.place()
            )));
        }
        let timeout = Duration::from_millis(address.timeout_ms);
        Ok((Self::new(servers, timeout), timeout))
    }

    fn new(servers: Servers, timeout: Duration) -> Self {
        let (place, session) = (servers.place(), Mutex::default());
        Self { servers, place, session, timeout, changes_max: CHANGES_MAX }
    }

    fn path(&self, key: &str) -> String {
        format!("{}/{key}", self.root())
    }

    fn options(&self) -> CreateOptions<'static> {
        let acls = if self.servers.login().is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        CreateMode::Persistent.with_acls(acls)
    }

    async fn connect(&self) -> Result<Client, StoreError> {
        let mut connector = Client::connector().with_session_timeout(self.timeout);
        if let Some((user, password)) = self.servers.login() {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        connector.connect(&self.servers.hosts.join(",")).await.map_err(|error| self.fault(error))
    }

    fn root(&self) -> String {
        format!("/{}", self.servers.path)
    }

    async fn session(&self, idle: Option<Client>) -> Result<Client, StoreError> {
        match idle {
            Some(client) => Ok(client),
            None => self.connect().await,
        }
    }

    /// The records as they stood at one moment after the call began.
    async fn read_on(&self, client: &Client, keys: &[String]) -> Result<Vec<Option<(Vec<u8>, Stat)>>, Error> {
        let (root, paths) = (self.root(), keys.iter().map(|key| self.path(key)).collect::<Vec<_>>());
        let mut backoff = Backoff::default();
        loop {
            // Each question is sent when it is made, so they travel together, and are answered in this order.
            let synced = client.sync(&root);
            let asked: Vec<_> = paths.iter().map(|path| client.get_data(path)).collect();
            let asked_again: Vec<_> = paths.iter().map(|path| client.check_stat(path)).collect();
            synced.await?;
            let mut found = Vec::with_capacity(paths.len());
            for answer in asked {
                found.push(match answer.await {
                    Ok(node) => Some(node),
                    Err(Error::NoNode) => None,
                    Err(error) => return Err(error),
                });
            }
            let mut of_one_moment = true;
            for (node, answer) in found.iter().zip(asked_again) {
                // Each change of the ensemble has a number of its own, so an equal one is no other change.
                of_one_moment &= node.as_ref().map(|(_, stat)| stat.mzxid) == answer.await?.map(|stat| stat.mzxid);
            }
            if of_one_moment {
                return Ok(found);
            }
            backoff.pause().await;
        }
    }

    fn fault(&self, error: Error) -> StoreError {
        let place = &self.place;
        match error {
            Error::NoAuth | Error::AuthFailed | Error::InvalidAcl => {
                refused(format!("{place}: it refuses this user: check user, password and the rights on its nodes"))
            }
            Error::QuotaExceeded => unavailable(format!("{place}: its quota is used up: raise it")),
            _ => unavailable(format!(
                "{place}: it cannot be reached, or the session broke. Whether the change was made is unknown"
            )),
        }
        .caused_by(error)
    }
}

#[async_trait]
impl Cells for ZooKeeperCells {
    fn place(&self) -> &str {
        &self.place
    }

    async fn read(&self, keys: &[String]) -> Result<Snapshot, StoreError> {
        let mut slot = self.session.lock().await;
        // Taken out, so that a session that breaks, or is cut off in the middle, is not used again.
        let idle = slot.take();
        let was_idle = idle.is_some();
        let mut client = self.session(idle).await?;
        let mut found = self.read_on(&client, keys).await;
        // One that has lain idle may have expired. Asking again does no harm.
        if found.is_err() && was_idle {
            client = self.connect().await?;
            found = self.read_on(&client, keys).await;
        }
        let found = found.map_err(|error| self.fault(error))?;
        *slot = Some(client);
        let cells = found.into_iter().map(cell).collect::<Result<_, _>>()?;
        Ok(Snapshot { cells, now_ms: None, life: LIFE.to_owned() })
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        let mut slot = self.session.lock().await;
        let client = self.session(slot.take()).await?;
        client.mkdir(&self.root(), &self.options()).await.map_err(|error| self.fault(error))?;
        *slot = Some(client);
        Ok(())
    }

    async fn change(&self, _: &str, changes: &[Change]) -> Result<bool, StoreError> {
        let mut slot = self.session.lock().await;
        let client = self.session(slot.take()).await?;
        let mut multi = client.new_multi_writer();
        for change in changes {
            let path = self.path(&change.key);
            let node = Node::of(change.version);
            let added = match &change.to {
                To::Same => multi.add_check_version(&path, node.changes),
                To::Value(json) if change.version == 0 => multi.add_create(&path, &node.value(json), &self.options()),
                To::Value(json) if node.changes.unsigned_abs() >= self.changes_max => multi
                    .add_delete(&path, Some(node.changes))
                    .and_then(|()| multi.add_create(&path, &node.next().value(json), &self.options())),
                To::Value(json) => multi.add_set_data(&path, &node.value(json), Some(node.changes)),
                To::Nothing => multi.add_delete(&path, Some(node.changes)),
            };
            added.map_err(|error| self.fault(error))?;
        }
        let made = multi.commit().await.map_err(Error::from);
        drop(multi);
        let made = match made {
            Ok(_) => true,
            Err(Error::BadVersion | Error::NodeExists | Error::NoNode) => false,
            Err(error) => return Err(self.fault(error)),
        };
        *slot = Some(client);
        Ok(made)
    }
}

impl fmt::Debug for ZooKeeperCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperCells").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The version of a record, taken apart.
#[derive(Clone, Copy)]
struct Node {
    /// How many nodes this record had before.
    earlier: u64,
    /// How often this one was changed.
    changes: i32,
}

impl Node {
    /// Version 0 is that of a record which is absent, so 1 is that of its first node when it has just been made.
    fn of(version: u64) -> Self {
        let from_zero = version.saturating_sub(1);
        let changes = i32::try_from(from_zero & ((1 << CHANGES_BITS) - 1)).unwrap_or(i32::MAX);
        Self { earlier: from_zero >> CHANGES_BITS, changes }
    }

    fn next(self) -> Self {
        Self { earlier: self.earlier + 1, changes: 0 }
    }

    fn value(self, json: &str) -> Vec<u8> {
        format!("{} {json}", self.earlier).into_bytes()
    }
}

fn cell(node: Option<(Vec<u8>, Stat)>) -> Result<Cell, StoreError> {
    let Some((data, stat)) = node else { return Ok(Cell::default()) };
    let parts = || {
        let text = String::from_utf8(data).ok()?;
        let (earlier, json) = text.split_once(' ')?;
        let earlier: u32 = earlier.parse().ok()?;
        Some(Cell {
            value: Some(json.to_owned()),
            version: (u64::from(earlier) << CHANGES_BITS) + u64::try_from(stat.version).ok()? + 1,
        })
    };
    parts()
        .ok_or_else(|| corrupt("a record in ZooKeeper cannot be read: something else wrote it, restore it".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Arc};

    use mintage_core::{RangeStore, Sequence, SystemClock};
    use mintage_servers_for_tests::ZooKeeper;

    use super::*;

    /// Two stores whose nodes are made anew after three changes: neither repeats a number, and neither takes the other's new
    /// node for an old one.
    #[tokio::test]
    async fn nodes_are_made_anew_before_they_have_counted_to_the_end() {
        let Some(server) = ZooKeeper::start() else { return };
        let orders = Sequence::new("orders", 1);
        let mut stores = Vec::new();
        for _ in 0..2 {
            let servers = Servers::read("zookeeper", server.url()).unwrap();
            let mut cells = ZooKeeperCells::new(servers, Duration::from_secs(20));
            cells.changes_max = 3;
            let store = CellStore::open(cells, Arc::new(SystemClock), Duration::from_secs(20), true).await.unwrap();
            store.create(&orders).await.unwrap();
            stores.push(store);
        }
        for nth in 0..20 {
            let range = stores[usize::from(nth % 3 == 0)].allocate(&orders, NonZeroU32::MIN, None).await.unwrap();
            assert_eq!((range.start, range.version), (1 + nth, 1 + nth));
        }
        let servers = Servers::read("zookeeper", server.url()).unwrap();
        let cells = ZooKeeperCells::new(servers, Duration::from_secs(20));
        let snapshot = cells.read(&["sequence:orders".to_owned()]).await.unwrap();
        // Each node takes its making and three changes.
        assert_eq!(Node::of(snapshot.cells[0].version).earlier, 20 / 4);
    }

    /// Two records are only ever changed together. Whoever reads both must not find one of before and one of after: a name in
    /// the list of sequences without its counter would be taken for a counter that was deleted.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_read_together_stood_there_at_one_moment() {
        let Some(server) = ZooKeeper::start() else { return };
        let open = || ZooKeeperCells::new(Servers::read("zookeeper", server.url()).unwrap(), Duration::from_secs(20));
        let keys = ["one", "other"].map(str::to_owned);
        let writer = open();
        writer.make_room().await.unwrap();
        let change =
            |round: u64| keys.clone().map(|key| Change { key, version: round, to: To::Value(round.to_string()) });
        assert!(writer.change(LIFE, &change(0)).await.unwrap());
        let writing = tokio::spawn({
            let keys = keys.clone();
            async move {
                for round in 1..=1_500 {
                    let value = || To::Value(round.to_string());
                    let changes = keys.clone().map(|key| Change { key, version: round, to: value() });
                    assert!(writer.change(LIFE, &changes).await.unwrap());
                }
            }
        });
        let (reader, mut seen) = (open(), std::collections::BTreeSet::new());
        while !writing.is_finished() {
            let cells = reader.read(&keys).await.unwrap().cells;
            assert_eq!(cells[0].value, cells[1].value);
            seen.insert(cells[0].version);
        }
        writing.await.unwrap();
        assert!(seen.len() > 50, "only {} readings fell between two changes", seen.len());
    }
}
