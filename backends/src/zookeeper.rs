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
    StoreError, StoreSetting, Vitals,
    plugin::{Address, Backend, BackendFactory},
};
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions, Error, Stat};

use crate::{
    cells::{Cell, CellStore, Cells, Change, Servers, Snapshot, To},
    rules::{corrupt, refused, unavailable},
    tries::Tries,
    trusted::Trusted,
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
/// nodes are for that user alone (`digest`). With `tls` the port is the server's `secureClientPort`.
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

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        let (cells, timeout) = ZooKeeperCells::at(address)?;
        CellStore::vitals(cells, address.clock.clone(), timeout).await
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        cfg!(feature = "tls")
    }
}

/// The records of a ZooKeeper ensemble.
struct ZooKeeperCells {
    servers: Servers,
    place: String,
    session: Mutex<Option<Client>>,
    /// Whose word is taken; `None` for connections in the clear.
    trusted: Option<Trusted>,
    timeout: Duration,
    changes_max: u32,
}

impl ZooKeeperCells {
    fn at(address: &Address) -> Result<(Self, Duration), StoreError> {
        let servers = Servers::at("zookeeper", address)?;
        let trusted = address.tls.as_ref().map(Trusted::read).transpose()?;
        let timeout = Duration::from_millis(address.timeout_ms);
        let mut cells = Self::new(servers, timeout);
        cells.trusted = trusted;
        Ok((cells, timeout))
    }

    fn new(servers: Servers, timeout: Duration) -> Self {
        let (place, session) = (servers.place(), Mutex::default());
        Self { servers, place, session, trusted: None, timeout, changes_max: CHANGES_MAX }
    }

    fn path(&self, key: &str) -> String {
        format!("{}/{key}", self.root())
    }

    fn options(&self) -> CreateOptions<'static> {
        let acls = if self.servers.login().is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        CreateMode::Persistent.with_acls(acls)
    }

    async fn connect(&self) -> Result<Client, StoreError> {
        self.connect_to(&self.servers.hosts.join(",")).await
    }

    fn connector(&self) -> Connector {
        let connector = Client::connector().with_session_timeout(self.timeout);
        let Some((user, password)) = self.servers.login() else { return connector };
        connector.with_auth("digest", format!("{user}:{password}").as_bytes())
    }

    async fn connect_to(&self, hosts: &str) -> Result<Client, StoreError> {
        // Without the feature nobody is trusted: the store was not opened.
        #[cfg(feature = "tls")]
        if let Some(trusted) = &self.trusted {
            return self.connect_encrypted(self.connector(), trusted, hosts).await;
        }
        // The client alone would try until the timeout, however dead the servers are.
        let mut tries = Tries::default();
        loop {
            match self.connector().with_fail_eagerly().connect(hosts).await {
                Err(Error::NoHosts | Error::ConnectionLoss) if tries.another().await => {}
                other => return other.map_err(|error| self.fault(error)),
            }
        }
    }

    #[cfg(feature = "tls")]
    async fn connect_encrypted(
        &self,
        connector: Connector,
        trusted: &Trusted,
        hosts: &str,
    ) -> Result<Client, StoreError> {
        let options = zookeeper_client::TlsOptions::new().with_pem_ca(&trusted.all_pem()?).map_err(|error| {
            refused(format!("{}: the certificates to trust cannot be read", self.place)).caused_by(error)
        })?;
        let connecting = connector.with_tls(options).secure_connect(hosts);
        // The client tries a server that it does not believe again and again, and would be cut off before it could tell.
        match tokio::time::timeout(self.timeout * 3 / 4, connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error @ (Error::NoAuth | Error::AuthFailed | Error::InvalidAcl))) => Err(self.fault(error)),
            other => {
                let told = unavailable(format!(
                    "{}: no encrypted connection: the server cannot be reached, this is not its `secureClientPort`, or nobody that \
                     `tls` trusts vouches for its certificate and name",
                    self.place
                ));
                Err(match other {
                    Ok(Err(error)) => told.caused_by(error),
                    _ => told,
                })
            }
        }
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

    fn has_clock(&self) -> bool {
        false
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

    /// A line for each server that the URL names.
    async fn settings(&self) -> Result<Vec<StoreSetting>, StoreError> {
        let mut told = Vec::new();
        let patience = self.timeout / u32::try_from(self.servers.hosts.len()).unwrap_or(u32::MAX).saturating_add(1);
        for host in &self.servers.hosts {
            let name = format!("server {host}");
            told.push(match tokio::time::timeout(patience, self.connect_to(host)).await {
                Ok(Ok(_)) => StoreSetting::new(name, "answers"),
                _ => StoreSetting::new(name, "does not answer")
                    .warn("with a majority of servers away nothing is answered", "start it"),
            });
        }
        if let [_] = told.as_slice() {
            told.push(StoreSetting::new("servers in the URL", "1: while it is away, no other is asked"));
        }
        Ok(told)
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
        // `None` in the clear; otherwise whether an authority of the config's vouches for the servers.
        let own_authority = self.trusted.as_ref().map(|trusted| trusted.pem().is_some());
        f.debug_struct("ZooKeeperCells")
            .field("place", &self.place)
            .field("own_authority", &own_authority)
            .finish_non_exhaustive()
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
