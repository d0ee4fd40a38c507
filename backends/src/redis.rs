//! Ranges, leases and formats in Redis.
//!
//! Each record is a string, its version before its JSON. They are read by one script, with the server's clock and its
//! life, and changed by another, which checks life and versions first and then writes, all without anybody in between.
//!
//! The life is `master_replid` and `run_id`: it changes with every start and every failover. A replica that takes over may
//! lack the last writes, a server that starts again may have lost what its disk had not kept, and neither says so. So both
//! count as a store that may have forgotten.
//!
//! There is one connection, taken out of its slot for each question and put back after its answer. `WAIT` counts the writes
//! of its own connection, so nobody else may use that one in between.

mod vitals;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    StoreError, StoreSetting, Vitals,
    plugin::{Address, Backend, BackendFactory, RangesKept},
};
#[cfg(feature = "tls")]
use redis::TlsCertificates;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError, Script,
    aio::MultiplexedConnection,
};
use tokio::sync::Mutex;

use crate::{
    cells::{Cell, CellStore, Cells, Change, Snapshot, To},
    rules::{corrupt, refused, unavailable},
    trusted::Trusted,
};

/// How much longer than `min-replicas-max-lag` a primary takes writes that has lost its replicas, in seconds: it compares whole
/// seconds, and looks once in each.
const LAG_ROUNDED_S: u64 = 2;

/// Answers the time in seconds and microseconds, whether it is a primary, how many replicas follow it, its life, and the values.
const READ: &str = r"
local replication = redis.call('INFO', 'replication')
local life = string.match(replication, 'master_replid:(%x+)') .. ':' .. string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time, values = redis.call('TIME'), {}
for at, key in ipairs(KEYS) do values[at] = redis.call('GET', key) end
return {time[1], time[2], string.match(replication, 'role:(%a+)'), string.match(replication, 'connected_slaves:(%d+)') or '0', life, values}
";

/// Takes the life, then for each key its expected version, `=`, `+` or `-`, and the new value. Answers 1 when all was done, 0
/// when nothing was.
const CHANGE: &str = r"
local replication = redis.call('INFO', 'replication')
local life = string.match(replication, 'master_replid:(%x+)') .. ':' .. string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if life ~= ARGV[1] then return 0 end
for at, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local version = value and string.match(value, '^(%d+) ') or '0'
  if version ~= ARGV[3 * at - 1] then return 0 end
end
for at, key in ipairs(KEYS) do
  local what = ARGV[3 * at]
  if what == '+' then redis.call('SET', key, ARGV[3 * at + 1]) end
  if what == '-' then redis.call('DEL', key) end
end
return 1
";

/// The settings with which it keeps what it confirms.
const WANTED: [(&str, &str); 3] =
    [("maxmemory-policy", "noeviction"), ("appendonly", "yes"), ("appendfsync", "always")];
/// Takes the life, and writes a key. Answers 1, or 0 in another life.
const CONFIRM: &str = r"
local replication = redis.call('INFO', 'replication')
local life = string.match(replication, 'master_replid:(%x+)') .. ':' .. string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if life ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], '1')
return 1
";

/// The key that [`CellStore`] knows nothing of: it is written to have something that replicas acknowledge.
const CONFIRMED: &str = "confirmed";

/// What stands before all keys unless the URL says otherwise.
const PREFIX: &str = "mintage";

/// Ranges, leases and formats in Redis with appendonly yes, appendfsync always and noeviction; after a restart or failover worker ids rest for a window and ranges stop until raised; with replicas=N it answers when N replicas have it; against two primaries at once it needs that or min-replicas-to-write.
///
/// Opens `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?replicas=N&durability=weak&prefix=NAME&init=yes]`.
///
/// * `replicas=N`: an answer counts only when so many replicas have acknowledged it (`WAIT`).
/// * `durability=weak`: allows a server that does not sync each write (`appendfsync always`) before it answers, or that has replicas
///   and goes on without them. Such a store keeps leases and formats, no ranges.
/// * `prefix=NAME`: what its keys begin with, `{mintage}` by default, so that a cluster keeps them in one slot.
/// * `init=yes`: makes the records of a new store. Without it, a server that has none is taken for one that was emptied.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisFactory;

#[async_trait]
impl BackendFactory for RedisFactory {
    fn url_scheme(&self) -> &'static str {
        "redis"
    }

    fn promise(&self) -> &'static str {
        "Ranges, leases and formats in Redis with appendonly yes, appendfsync always and noeviction; after a restart or failover worker ids rest for a window and ranges stop until raised; with replicas=N it answers when N replicas have it; against two primaries at once it needs that or min-replicas-to-write."
    }

    fn check(&self, url: &str) -> Result<(), String> {
        Settings::read(url).map(drop)
    }

    fn ranges_kept(&self, url: &str) -> RangesKept {
        if Settings::read(url).is_ok_and(|settings| settings.weak) { RangesKept::NotAtAll } else { RangesKept::ForGood }
    }

    fn makes_itself(&self, url: &str) -> bool {
        Settings::read(url).is_ok_and(|settings| settings.make)
    }

    async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
        let (settings, timeout) = Settings::at(address)?;
        let (weak, make) = (settings.weak, settings.make);
        let store = CellStore::open(RedisCells::new(settings, timeout), address.clock.clone(), timeout, make).await?;
        Ok(backend(store.with_instance(&address.instance), weak))
    }

    async fn open_existing(&self, address: &Address) -> Result<Option<Backend>, StoreError> {
        let (settings, timeout) = Settings::at(address)?;
        let weak = settings.weak;
        let cells = RedisCells::new(settings, timeout);
        let store = CellStore::open_existing(cells, address.clock.clone(), timeout).await?;
        Ok(store.map(|store| backend(store.with_instance(&address.instance), weak)))
    }

    async fn init(&self, address: &Address) -> Result<bool, StoreError> {
        let (settings, timeout) = Settings::at(address)?;
        CellStore::init(RedisCells::new(settings, timeout), timeout).await
    }

    async fn vitals(&self, address: &Address) -> Result<Vitals, StoreError> {
        let (settings, timeout) = Settings::at(address)?;
        CellStore::vitals(RedisCells::new(settings, timeout), address.clock.clone(), timeout).await
    }

    fn takes_password(&self) -> bool {
        true
    }

    fn takes_tls(&self) -> bool {
        cfg!(feature = "tls")
    }
}

/// Without its ranges where it may forget them.
fn backend(store: CellStore<RedisCells>, weak: bool) -> Backend {
    let mut backend = Backend::whole(store);
    if weak {
        backend.ranges = None;
    }
    backend
}

/// What a URL says.
#[derive(Debug)]
struct Settings {
    client: Client,
    place: String,
    prefix: String,
    replicas: u32,
    weak: bool,
    make: bool,
}

impl Settings {
    /// What an address says: the URL, and what stands beside it.
    fn at(address: &Address) -> Result<(Self, Duration), StoreError> {
        let mut settings = Self::read(&address.url).map_err(refused)?;
        let mut info = settings.client.get_connection_info().clone();
        if let Some(password) = &address.password {
            let login = info.redis_settings().clone().set_password(password.reveal());
            info = info.set_redis_settings(login);
        }
        let trusted = address.tls.as_ref().map(Trusted::read).transpose()?;
        let pem = trusted.as_ref().map(Trusted::pem);
        if let (Some(_), ConnectionAddr::Tcp(host, port)) = (pem, info.addr()) {
            let (host, port) = (host.clone(), *port);
            info = info.set_addr(ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None });
        }
        let unusable = |place: &str, error: RedisError| {
            refused(format!("{place}: it cannot be connected to like this: check URL and tls")).caused_by(error)
        };
        settings.client = Client::open(info.clone()).map_err(|error| unusable(&settings.place, error))?;
        #[cfg(feature = "tls")]
        if let Some(pem) = pem {
            let certificates = TlsCertificates { client_tls: None, root_cert: pem.map(<[u8]>::to_vec) };
            let client = Client::build_with_tls(info, certificates);
            settings.client = client.map_err(|error| unusable(&settings.place, error))?;
        }
        Ok((settings, Duration::from_millis(address.timeout_ms)))
    }

    /// Its errors never repeat the URL: there may be a password in it.
    fn read(url: &str) -> Result<Self, String> {
        let (server, parameters) = url.split_once('?').unwrap_or((url, ""));
        if !server.strip_prefix("redis://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) {
            return Err("write redis://HOST:PORT, such as redis://redis.internal:6379".to_owned());
        }
        let bad = |_| "this is no URL of a Redis server: write redis://USER:PASSWORD@HOST:PORT/DATABASE".to_owned();
        let info = server.into_connection_info().map_err(bad)?;
        let place = format!("redis://{}/{}", info.addr(), info.redis_settings().db());
        let client = Client::open(info).map_err(bad)?;
        let mut settings = Self { client, place, prefix: PREFIX.to_owned(), replicas: 0, weak: false, make: false };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            settings.take(parameter)?;
        }
        Ok(settings)
    }

    fn take(&mut self, parameter: &str) -> Result<(), String> {
        match parameter.split_once('=') {
            Some(("replicas", count)) => {
                self.replicas = count.parse().map_err(|_| format!("replicas={count}: a whole number was expected"))?;
            }
            Some(("durability", "weak")) => self.weak = true,
            Some(("durability", "strict")) => self.weak = false,
            Some(("init", "yes")) => self.make = true,
            Some(("init", "no")) => self.make = false,
            Some(("prefix", prefix)) if is_plain(prefix) => prefix.clone_into(&mut self.prefix),
            Some(("prefix", _)) => return Err("prefix: 1 to 64 letters, digits, -, _ and . were expected".to_owned()),
            Some((name @ ("durability" | "init"), _)) => {
                return Err(format!("{name}: write durability=weak or durability=strict, init=yes or init=no"));
            }
            _ => {
                let name = parameter.split('=').next().unwrap_or_default();
                return Err(format!("no parameter {name:?} (known: durability, init, prefix, replicas)"));
            }
        }
        Ok(())
    }
}

fn is_plain(prefix: &str) -> bool {
    (1..=64).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The records of a Redis server.
struct RedisCells {
    settings: Settings,
    idle: Mutex<Slot>,
    /// For how long it may take writes beside another primary, in ms.
    alone_ms_max: AtomicU64,
    read: Script,
    change: Script,
    confirm: Script,
    timeout: Duration,
}

impl RedisCells {
    fn new(settings: Settings, timeout: Duration) -> Self {
        let (read, change, confirm) = (Script::new(READ), Script::new(CHANGE), Script::new(CONFIRM));
        Self { settings, idle: Mutex::default(), alone_ms_max: AtomicU64::default(), read, change, confirm, timeout }
    }

    /// In a cluster, all keys with the same text in braces are in one slot.
    fn key(&self, key: &str) -> String {
        format!("{{{}}}:{key}", self.settings.prefix)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let mut connection = self.connect_to_any().await?;
        self.check_durability(&mut connection).await?;
        Ok(connection)
    }

    /// Whatever the server's settings are.
    async fn connect_to_any(&self) -> Result<MultiplexedConnection, StoreError> {
        // Both ends are the timeout of the call around this.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = &self.settings.client;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        connecting.await.map_err(|error| self.fault(error))
    }

    /// Asked on every connection: after a failover another server answers, with settings of its own.
    async fn check_durability(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        // Records that are evicted are forgotten like no failover forgets: that is never allowed.
        let wanted = if self.settings.weak { WANTED.get(..1).unwrap_or_default() } else { &WANTED };
        for (name, value) in wanted {
            let found = self.setting(connection, name).await?;
            if found != *value {
                let place = &self.settings.place;
                let weaker = if *name == "maxmemory-policy" {
                    ""
                } else {
                    ", or add durability=weak to the URL to keep only leases there"
                };
                return Err(refused(format!(
                    "{place}: its {name} is {found:?}, so it can forget what it has confirmed: set {name} {value} in its \
                     config{weaker}"
                )));
            }
        }
        let alone_ms_max = if self.settings.weak { 0 } else { self.check_replicas(connection).await? };
        self.alone_ms_max.store(alone_ms_max, Ordering::Relaxed);
        Ok(())
    }

    /// A server whose replica can be promoted while it goes on answering is one of two primaries for as long as nothing stops it:
    /// for how long, in ms.
    async fn check_replicas(&self, connection: &mut MultiplexedConnection) -> Result<u64, StoreError> {
        if self.settings.replicas > 0 {
            return Ok(0);
        }
        let info: Result<String, RedisError> = redis::cmd("INFO").arg("replication").query_async(connection).await;
        let info = info.map_err(|error| self.fault(error))?;
        let attached = info.lines().find_map(|line| line.trim_end().strip_prefix("connected_slaves:"));
        if attached.is_none_or(|attached| attached == "0") {
            return Ok(0);
        }
        let needed = self.setting(connection, "min-replicas-to-write").await?;
        if needed.parse().is_ok_and(|needed: u32| needed > 0) {
            let lag = self.setting(connection, "min-replicas-max-lag").await?;
            if let Some(lag_s) = lag.parse().ok().filter(|lag_s: &u64| *lag_s > 0) {
                return Ok(lag_s.saturating_add(LAG_ROUNDED_S).saturating_mul(1000));
            }
        }
        Err(refused(format!(
            "{}: it has replicas, and goes on by itself when one of them is promoted, so two of them could hand out the same: set \
             min-replicas-to-write 1 in its config (and min-replicas-max-lag, not 0), or add replicas=1 to the URL, or durability=weak to keep only leases there, \
             at that risk",
            self.settings.place
        )))
    }

    async fn setting(&self, connection: &mut MultiplexedConnection, name: &str) -> Result<String, StoreError> {
        let asked: Result<Vec<String>, RedisError> =
            redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
        match asked {
            Ok(pair) => Ok(pair.into_iter().nth(1).unwrap_or_default()),
            Err(error) if error.is_io_error() => Err(self.fault(error)),
            // Hosted servers hide their config. The policy stands elsewhere, too.
            Err(_) if name == "maxmemory-policy" => {
                let info: Result<String, RedisError> = redis::cmd("INFO").arg("memory").query_async(connection).await;
                let info = info.map_err(|error| self.fault(error))?;
                let policy = info.lines().find_map(|line| line.trim_end().strip_prefix("maxmemory_policy:"));
                Ok(policy.unwrap_or("unknown").to_owned())
            }
            Err(error) => Err(refused(format!(
                "{}: it does not tell its {name}: allow CONFIG GET, or add durability=weak to the URL to keep only leases there",
                self.settings.place
            ))
            .caused_by(error)),
        }
    }

    async fn read_on(&self, connection: &mut MultiplexedConnection, keys: &[String]) -> Result<Answer, RedisError> {
        let mut call = self.read.prepare_invoke();
        for key in keys {
            call.key(self.key(key));
        }
        call.invoke_async(connection).await
    }

    /// Has the connection's writes acknowledged by the replicas that were asked for.
    async fn wait(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let wanted = self.settings.replicas;
        if wanted == 0 {
            return Ok(());
        }
        // Half of the time: then there is still enough to say so.
        let wait_ms = u64::try_from(self.timeout.as_millis() / 2).unwrap_or(u64::MAX).max(1);
        let acked: Result<u32, RedisError> = redis::cmd("WAIT").arg(wanted).arg(wait_ms).query_async(connection).await;
        let acked = acked.map_err(|error| self.fault(error))?;
        if acked < wanted {
            return Err(unavailable(format!(
                "{}: {acked} of {wanted} replicas acknowledged the change within {wait_ms} ms, so the answer was discarded: check \
                 the replicas",
                self.settings.place
            )));
        }
        Ok(())
    }

    fn fault(&self, error: RedisError) -> StoreError {
        let place = &self.settings.place;
        let unsaid = match error.kind() {
            ErrorKind::AuthenticationFailed => true,
            _ => matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")),
        };
        if unsaid {
            return refused(format!("{place}: it refuses this user: check user, password and the user's permissions"))
                .caused_by(error);
        }
        let what = match error.code() {
            Some("READONLY") => "it is a replica: name the primary".to_owned(),
            Some("NOREPLICAS") => "it has too few replicas to write (min-replicas-to-write)".to_owned(),
            Some("OOM") => "it has no memory left: raise its maxmemory".to_owned(),
            Some(code) => format!("it answers {code}"),
            None => "it cannot be reached, or the connection broke. Whether the change was made is unknown".to_owned(),
        };
        unavailable(format!("{place}: {what}")).caused_by(error)
    }
}

type Answer = (u64, u64, String, u32, String, Vec<Option<String>>);

/// The connection that lies idle, and what was seen when the server's settings were last looked at: with other replicas or in
/// another life they matter anew.
#[derive(Default)]
struct Slot {
    connection: Option<MultiplexedConnection>,
    looked_at: Option<(String, bool)>,
}

#[async_trait]
impl Cells for RedisCells {
    fn place(&self) -> &str {
        &self.settings.place
    }

    fn has_clock(&self) -> bool {
        true
    }

    async fn read(&self, keys: &[String]) -> Result<Snapshot, StoreError> {
        let mut slot = self.idle.lock().await;
        let idle = match slot.connection.take() {
            // One that has lain idle may be broken. Asking again does no harm.
            Some(mut connection) => match self.read_on(&mut connection, keys).await {
                Ok(answer) => Some((connection, answer)),
                Err(error) if error.is_io_error() || error.is_connection_dropped() => None,
                Err(error) => return Err(self.fault(error)),
            },
            None => None,
        };
        let (mut connection, (seconds, micros, role, replicas, life, values)) = match idle {
            Some(answered) => answered,
            None => {
                let mut connection = self.connect().await?;
                let answer = self.read_on(&mut connection, keys).await.map_err(|error| self.fault(error))?;
                (connection, answer)
            }
        };
        if role != "master" {
            return Err(unavailable(format!("{}: it is a replica: name the primary", self.settings.place)));
        }
        let seen = Some((life.clone(), replicas > 0));
        if slot.looked_at != seen {
            self.check_durability(&mut connection).await?;
            slot.looked_at = seen;
        }
        slot.connection = Some(connection);
        let cells = values.into_iter().map(cell).collect::<Result<_, _>>()?;
        Ok(Snapshot { cells, now_ms: Some(seconds.saturating_mul(1000).saturating_add(micros / 1000)), life })
    }

    fn alone_ms_max(&self) -> u64 {
        self.alone_ms_max.load(Ordering::Relaxed)
    }

    async fn settings(&self) -> Result<Vec<StoreSetting>, StoreError> {
        vitals::settings(self).await
    }

    async fn change(&self, life: &str, changes: &[Change]) -> Result<bool, StoreError> {
        let mut slot = self.idle.lock().await;
        let mut connection = match slot.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut call = self.change.prepare_invoke();
        call.arg(life);
        for change in changes {
            let (what, value) = match &change.to {
                To::Same => ("=", String::new()),
                To::Value(value) => ("+", format!("{} {value}", change.version + 1)),
                To::Nothing => ("-", String::new()),
            };
            call.key(self.key(&change.key)).arg(change.version.to_string()).arg(what).arg(value);
        }
        let made: Result<u32, RedisError> = call.invoke_async(&mut connection).await;
        let made = made.map_err(|error| self.fault(error))? == 1;
        if made {
            self.wait(&mut connection).await?;
        }
        slot.connection = Some(connection);
        Ok(made)
    }

    /// Another connection may have written what is answered, and its replicas not have acknowledged it: that of which the outcome
    /// was unknown is asked for again like this. `WAIT` counts what its own connection wrote, so this one writes something.
    async fn confirm(&self, life: &str) -> Result<bool, StoreError> {
        if self.settings.replicas == 0 {
            return Ok(true);
        }
        let mut slot = self.idle.lock().await;
        let mut connection = match slot.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut call = self.confirm.prepare_invoke();
        call.key(self.key(CONFIRMED)).arg(life);
        let same: Result<u32, RedisError> = call.invoke_async(&mut connection).await;
        let same = same.map_err(|error| self.fault(error))? == 1;
        if same {
            self.wait(&mut connection).await?;
        }
        slot.connection = Some(connection);
        Ok(same)
    }
}

/// Its client knows the password.
impl fmt::Debug for RedisCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCells").field("place", &self.settings.place).finish_non_exhaustive()
    }
}

fn cell(value: Option<String>) -> Result<Cell, StoreError> {
    let Some(text) = value else { return Ok(Cell::default()) };
    let parts = text.split_once(' ').and_then(|(version, json)| Some((version.parse().ok()?, json.to_owned())));
    let (version, json) = parts
        .ok_or_else(|| corrupt("a record in Redis has no version: something else wrote it, restore it".to_owned()))?;
    Ok(Cell { value: Some(json), version })
}
