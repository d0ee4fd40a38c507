//! Ranges, leases and formats in etcd.
//!
//! Each record is a key without an etcd lease: with one, the high-water mark of a worker id would vanish when its holder
//! does. Records are read in one transaction and changed in another, which compares the revision of each.
//!
//! etcd loses nothing that it acknowledged, so its life is the cluster. A cluster restored from a snapshot is another one;
//! where it is not, its revisions go back, and a process that saw higher ones refuses.
//!
//! Each member is asked through a client of its own, one at a time. A client over all of them would go on asking a member
//! that has stopped.

use std::{
    error::Error as _,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, ResponseHeader, StatusResponse, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use mintage_core::{
    StoreError, StoreErrorKind, StoreSetting, Vitals,
    plugin::{Address, Backend, BackendFactory},
};

use crate::{
    cells::{Cell, CellStore, Cells, Change, Servers, Snapshot, To},
    rules::{corrupt, refused, rolled_back, unavailable},
    tries::Tries,
    trusted::Trusted,
};

/// gRPC's codes for a user who may not: `PERMISSION_DENIED` and `UNAUTHENTICATED`.
const REFUSALS: [i32; 2] = [7, 16];

/// Ranges, leases and formats in etcd; survives the loss of any minority of its members; with fsync on, its default; the clock is each process's own.
///
/// Opens `etcd://[USER[:PASSWORD]@]HOST:PORT[,HOST:PORT …][/PREFIX]`; the prefix is `mintage` by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdFactory;

#[async_trait]
impl BackendFactory for EtcdFactory {
    fn url_scheme(&self) -> &'static str {
        "etcd"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in etcd; survives the loss of any minority of its members; with fsync on, its default; the clock is each process's own."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Servers::read("etcd", url).map(drop)
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let (cells, timeout) = EtcdCells::at(address)?;
        let store = CellStore::open(cells, address.clock.clone(), timeout, true).await?;
        Ok(Backend::whole(store.with_instance(&address.instance)))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        let (cells, timeout) = EtcdCells::at(address)?;
        let store = CellStore::open_existing(cells, address.clock.clone(), timeout).await?;
        Ok(store.map(|store| Backend::whole(store.with_instance(&address.instance))))
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        let (cells, timeout) = EtcdCells::at(address)?;
        CellStore::init(cells, timeout).await
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        let (cells, timeout) = EtcdCells::at(address)?;
        CellStore::vitals(cells, address.clock.clone(), timeout).await
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        cfg!(feature = "tls")
    }
}

/// The records of an etcd cluster.
struct EtcdCells {
    servers: Servers,
    /// Where connections are encrypted: whom to believe.
    trusted: Option<Trusted>,
    place: String,
    /// A client for each member, once it was asked.
    clients: Vec<Mutex<Option<Client>>>,
    /// Which member is asked now.
    asked: AtomicUsize,
    /// How long one member may take before the next is asked.
    patience: Duration,
    /// The highest revision seen.
    revision: AtomicU64,
}

impl EtcdCells {
    fn at(address: &Address) -> Result<(Self, Duration), StoreError> {
        let servers = Servers::at("etcd", address)?;
        let timeout = Duration::from_millis(address.timeout_ms);
        let trusted = address.tls.as_ref().map(Trusted::read).transpose()?;
        Ok((Self::new(servers, timeout, trusted), timeout))
    }

    fn new(servers: Servers, timeout: Duration, trusted: Option<Trusted>) -> Self {
        let clients: Vec<_> = servers.hosts.iter().map(|_| Mutex::default()).collect();
        let members = u32::try_from(clients.len()).unwrap_or(u32::MAX).max(1);
        let place = servers.place();
        let (asked, revision) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { servers, trusted, place, clients, asked, patience: timeout / members, revision }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.servers.path)
    }

    /// Asks one member, and answers with the cluster too. One that does not answer well is not the first to be asked next.
    async fn ask(&self, txn: Txn) -> Result<(TxnResponse, String), StoreError> {
        let nth = self.asked.load(Ordering::Relaxed) % self.clients.len().max(1);
        let (Some(slot), Some(host)) = (self.clients.get(nth), self.servers.hosts.get(nth)) else {
            return Err(unavailable(format!("{}: no member to ask", self.place)));
        };
        let mut attempt = Attempt { cells: self, slot, nth, answered: false };
        let revision = self.revision.load(Ordering::Acquire);
        let idle = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asking = async {
            let mut client = match idle {
                Some(client) => client,
                None => self.connect(host).await?,
            };
            let answer = client.txn(txn).await?;
            Ok::<_, Error>((client, answer))
        };
        let answer = tokio::time::timeout(self.patience, asking).await;
        let late =
            |_| unavailable(format!("{}: no answer from {host}. Whether the change was made is unknown", self.place));
        let (client, answer) = answer.map_err(late)?.map_err(|error| self.fault(host, error))?;
        attempt.answered = true;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
        let cluster = self.not_older(answer.header(), revision)?;
        Ok((answer, cluster))
    }

    async fn connect(&self, host: &str) -> Result<Client, Error> {
        let mut options = ConnectOptions::new().with_connect_timeout(self.patience);
        if let Some((user, password)) = self.servers.login() {
            options = options.with_user(user, password);
        }
        let pem = self.trusted.as_ref().map(Trusted::pem);
        #[cfg(feature = "tls")]
        if let Some(pem) = pem {
            options = encrypted(options, pem);
        }
        let scheme = if pem.is_some() { "https" } else { "http" };
        Client::connect([format!("{scheme}://{host}")], Some(options)).await
    }

    /// What one member tells of itself.
    async fn member(&self, host: &str) -> Result<StatusResponse, StoreError> {
        let asking = async {
            let mut client = self.connect(host).await?;
            client.status().await
        };
        let late = |_| unavailable(format!("{}: no answer from {host}", self.place));
        tokio::time::timeout(self.patience, asking).await.map_err(late)?.map_err(|error| self.fault(host, error))
    }

    fn not_older(&self, header: Option<&ResponseHeader>, seen: u64) -> Result<String, StoreError> {
        let header =
            header.ok_or_else(|| corrupt(format!("{}: an answer without a header is none of etcd", self.place)))?;
        let revision = version(header.revision());
        if revision < seen {
            return Err(rolled_back(format!(
                "{}: it stands at revision {revision} and was at {seen} before: it was restored from a snapshot. Bump its pools, \
                 raise its sequences above every number in use or held by a running process, then start this process again",
                self.place
            )));
        }
        self.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(format!("{:x}", header.cluster_id()))
    }

    fn fault(&self, host: &str, error: Error) -> StoreError {
        let place = &self.place;
        match &error {
            Error::GRpcStatus(status) if REFUSALS.contains(&i32::from(status.code())) => {
                refused(format!("{place}: it refuses this user: check user, password and the user's roles"))
            }
            Error::GRpcStatus(status) if status.message().contains("authentication failed") => {
                refused(format!("{place}: it refuses this user: check user and password"))
            }
            _ => unavailable(format!(
                "{place}: {host} cannot be reached or has no leader. Whether the change was made is unknown"
            )),
        }
        .caused_by(error)
    }
}

#[async_trait]
impl Cells for EtcdCells {
    fn place(&self) -> &str {
        &self.place
    }

    fn has_clock(&self) -> bool {
        false
    }

    /// Asks the members in turn, and for a while all of them again: reading twice does no harm.
    async fn read(&self, keys: &[String]) -> Result<Snapshot, StoreError> {
        let gets: Vec<TxnOp> = keys.iter().map(|key| TxnOp::get(self.key(key), None)).collect();
        let (mut asked, mut tries) = (0, Tries::default());
        let (answer, life) = loop {
            let error = match self.ask(Txn::new().and_then(gets.clone())).await {
                Err(error) if error.kind() == StoreErrorKind::Unavailable => error,
                answer => break answer?,
            };
            asked += 1;
            let is_round_over = asked % self.clients.len().max(1) == 0;
            // A member that hangs has used up its time, and has no cause to tell. One that refuses may only be starting.
            if is_round_over && !(error.source().is_some() && tries.another().await) {
                return Err(error);
            }
        };
        let cells = answer.op_responses().into_iter().map(cell).collect::<Result<Vec<Cell>, _>>()?;
        if cells.len() != keys.len() {
            return Err(corrupt(format!("{}: it answers something else than it was asked", self.place)));
        }
        Ok(Snapshot { cells, now_ms: None, life })
    }

    /// A line for each member that the URL names.
    async fn settings(&self) -> Result<Vec<StoreSetting>, StoreError> {
        let mut told = Vec::new();
        for host in &self.servers.hosts {
            let name = format!("member {host}");
            let member = match self.member(host).await {
                Ok(member) => member,
                Err(error) if error.kind() == StoreErrorKind::Refused => return Err(error),
                Err(_) => {
                    let down = StoreSetting::new(name, "does not answer");
                    told.push(down.warn("with a majority of members away nothing is answered", "start it"));
                    continue;
                }
            };
            let leads = member.header().is_some_and(|header| header.member_id() == member.leader());
            let setting = StoreSetting::new(
                name,
                format!("etcd {}, {}", member.version(), if leads { "leads" } else { "follows" }),
            );
            told.push(match member.errors() {
                [] if member.leader() == 0 => setting.warn("it has no leader", "start the majority of the members"),
                [] => setting,
                alarms => {
                    let remedy = "make room or repair it, then `etcdctl alarm disarm`";
                    setting.warn(format!("it reports {}", alarms.join(", ")), remedy)
                }
            });
        }
        if let [_] = told.as_slice() {
            told.push(StoreSetting::new("members in the URL", "1: while it is away, no other is asked"));
        }
        Ok(told)
    }

    async fn change(&self, life: &str, changes: &[Change]) -> Result<bool, StoreError> {
        let expected = |change: &Change| {
            let revision = i64::try_from(change.version).unwrap_or(i64::MAX);
            Compare::mod_revision(self.key(&change.key), CompareOp::Equal, revision)
        };
        let made = |change: &Change| match &change.to {
            To::Same => None,
            To::Value(value) => Some(TxnOp::put(self.key(&change.key), value.as_str(), None)),
            To::Nothing => Some(TxnOp::delete(self.key(&change.key), None)),
        };
        let txn = Txn::new()
            .when(changes.iter().map(expected).collect::<Vec<_>>())
            .and_then(changes.iter().filter_map(made).collect::<Vec<_>>());
        let (answer, cluster) = self.ask(txn).await?;
        // Revisions of another cluster are other numbers, and its registry is another record: it has changed nothing.
        Ok(answer.succeeded() && cluster == life)
    }
}

impl fmt::Debug for EtcdCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCells").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(feature = "tls")]
fn encrypted(options: ConnectOptions, pem: Option<&[u8]>) -> ConnectOptions {
    let tls = etcd_client::TlsOptions::new();
    options.with_tls(match pem {
        Some(pem) => tls.ca_certificate(etcd_client::Certificate::from_pem(pem)),
        None => tls.with_native_roots(),
    })
}

/// A question to one member. Unless it was answered, also when it was cut off, another member comes next, and this one's
/// connection is made anew.
struct Attempt<'a> {
    cells: &'a EtcdCells,
    slot: &'a Mutex<Option<Client>>,
    nth: usize,
    answered: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.answered {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.cells.asked.store(self.nth + 1, Ordering::Relaxed);
        }
    }
}

fn cell(answer: TxnOpResponse) -> Result<Cell, StoreError> {
    let TxnOpResponse::Get(found) = answer else { return Ok(Cell::default()) };
    let Some(pair) = found.kvs().first() else { return Ok(Cell::default()) };
    let value = pair.value_str().map_err(|error| {
        corrupt("a record in etcd is no text: something else wrote it, restore it".to_owned()).caused_by(error)
    })?;
    Ok(Cell { value: Some(value.to_owned()), version: version(pair.mod_revision()) })
}

/// etcd counts revisions from 1.
fn version(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
