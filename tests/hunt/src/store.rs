//! Which stores are hunted on, what can befall their servers, and what an operator does about it.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use mintage_backends::Builtin;
use mintage_core::{
    Clock, PoolLimits, Sequence, StoreError, StoreErrorKind, SystemClock, WorkerPool,
    plugin::{Address, Backend, Catalog, Plugin as _},
    protocol::UNLISTED,
};
use mintage_servers_for_tests::{
    Etcd, EtcdCluster, Fault, MariaDb, Postgres, Proxy, Redis, Server, Way, ZooKeeper, ZooKeeperEnsemble,
};
use tempfile::TempDir;

use crate::mutant::Mutant;

/// The times of a lease, a tenth of the usual ones and less, so that a minute holds as much as an hour.
pub(crate) struct Times {
    pub(crate) window_ms: u64,
    /// Longer than a server takes to come back from a backup.
    pub(crate) long_window_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) stop_ms: u64,
    pub(crate) renew_ms: u64,
    pub(crate) ahead_ms: u64,
    pub(crate) guard_ms: u64,
    /// Where two servers may be the primary at once: as long as the former goes on by itself.
    pub(crate) pair_guard_ms: u64,
    pub(crate) timeout_ms: u64,
    /// Fewer than there are processes, so that each is used again and again.
    pub(crate) worker_ids: u32,
}

pub(crate) const TIMES: Times = Times {
    window_ms: 1_000,
    long_window_ms: 10_000,
    ttl_ms: 900,
    stop_ms: 800,
    renew_ms: 200,
    ahead_ms: 300,
    guard_ms: 100,
    pair_guard_ms: 3_000,
    timeout_ms: 1_000,
    worker_ids: 6,
};

/// How long the operator's own calls may take.
const OPERATOR_MS: u64 = 10_000;

/// How long a standby may take to come back, and how often it is looked for.
const STANDBY_MS_MAX: u64 = 20_000;
const STANDBY_EVERY_MS: u64 = 100;

/// More numbers than all processes together can hold of the ranges that a backup does not know of.
const HELD_NUMBERS_MAX: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    File,
    Postgres,
    /// With a standby that takes over, without what it has not been told.
    PostgresPair,
    MariaDb,
    Redis,
    /// With a replica that takes over, without what it has not been told.
    RedisPair,
    Etcd,
    EtcdThree,
    ZooKeeper,
    ZooKeeperThree,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Sqlite,
        Self::File,
        Self::Postgres,
        Self::PostgresPair,
        Self::MariaDb,
        Self::Redis,
        Self::RedisPair,
        Self::Etcd,
        Self::EtcdThree,
        Self::ZooKeeper,
        Self::ZooKeeperThree,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::File => "file",
            Self::Postgres => "postgres",
            Self::PostgresPair => "postgres2",
            Self::MariaDb => "mariadb",
            Self::Redis => "redis",
            Self::RedisPair => "redis2",
            Self::Etcd => "etcd",
            Self::EtcdThree => "etcd3",
            Self::ZooKeeper => "zookeeper",
            Self::ZooKeeperThree => "zookeeper3",
        }
    }

    /// Whether a process's own clock is the store's. A store on a server has that server's, or looks at several.
    pub(crate) fn trusts_the_process(self) -> bool {
        matches!(
            self,
            Self::Sqlite | Self::File | Self::Etcd | Self::EtcdThree | Self::ZooKeeper | Self::ZooKeeperThree
        )
    }

    /// What runs, for the report.
    pub(crate) fn version(self) -> String {
        let (name, command) = match self {
            Self::Sqlite => return sqlite_version().unwrap_or_else(|| "SQLite ?".to_owned()),
            Self::File => return "a file".to_owned(),
            Self::Postgres | Self::PostgresPair => {
                ("PostgreSQL", "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/postgres --version")
            }
            Self::MariaDb => ("MariaDB", "mariadbd --version"),
            Self::Redis | Self::RedisPair => ("Redis", "redis-server --version"),
            Self::Etcd | Self::EtcdThree => ("etcd", "etcd --version"),
            Self::ZooKeeper | Self::ZooKeeperThree => {
                ("ZooKeeper", "java -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.version.VersionInfoMain")
            }
        };
        format!("{name} {}", version_in(command))
    }
}

/// The first thing that looks like a version in what a command of the shell prints: 15.18, v=7.0.15, 10.11.19-MariaDB-0.
pub(crate) fn version_in(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|part| part.trim_matches('.'));
    numbers.find(|part| part.contains('.')).unwrap_or("?").to_owned()
}

/// SQLite is compiled in, so it is asked itself.
fn sqlite_version() -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let (factory, address) = (catalog.backend_of(&url)?, Address::new(&url, Path::new("."), Arc::new(SystemClock)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        factory.init(&address).await.ok()?;
        factory.vitals(&address).await.ok()?.server
    })
}

/// A store of the hunt's own.
pub(crate) struct Store {
    pub(crate) kind: Kind,
    url: String,
    held: Held,
    /// Files of embedded stores, and backups of the others.
    folder: TempDir,
    has_backup: bool,
}

enum Held {
    Nothing,
    One(Box<dyn Deref<Target = Server>>),
    Pair(Box<Pair>),
    Cluster(EtcdCluster),
    Ensemble(ZooKeeperEnsemble),
}

/// A server and another that takes over from it.
struct Pair {
    primary: Replicated,
    standby: Option<Replicated>,
    /// Who was taken over from and goes on.
    former: Option<Replicated>,
    /// On which the standby hears of changes.
    link: Proxy,
}

enum Replicated {
    Postgres(Postgres),
    Redis(Redis),
}

impl Pair {
    fn new(primary: Replicated) -> Self {
        let link = Proxy::start(primary.port());
        let standby = Some(primary.standby_through(link.port()));
        Self { primary, standby, former: None, link }
    }
}

impl Replicated {
    fn standby_through(&self, port: u16) -> Self {
        match self {
            Self::Postgres(primary) => Self::Postgres(Postgres::standby_through(primary, port)),
            Self::Redis(primary) => Self::Redis(Redis::replica_through(primary, port)),
        }
    }

    fn promote(&self) {
        match self {
            Self::Postgres(standby) => standby.promote(),
            Self::Redis(replica) => replica.promote(),
        }
    }

    /// What the store takes for the life of this server: `None` where it is no Redis.
    fn life(&self) -> Option<String> {
        let Self::Redis(server) = self else { return None };
        let info = server.command(&["INFO", "replication"]) + &server.command(&["INFO", "server"]);
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(format!("{}:{}", line("master_replid:")?, line("run_id:")?))
    }

    fn has_a_standby(&self) -> bool {
        match self {
            Self::Postgres(primary) => primary.sql("SELECT count(*) FROM pg_stat_replication") != "0",
            Self::Redis(primary) => !primary.command(&["INFO", "replication"]).contains("connected_slaves:0"),
        }
    }
}

impl Deref for Replicated {
    type Target = Server;

    fn deref(&self) -> &Server {
        match self {
            Self::Postgres(server) => server,
            Self::Redis(server) => server,
        }
    }
}

impl Store {
    /// `None` where its server is not installed, which is said on stderr.
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("mintage-hunt-store-").tempdir().ok()?;
        let (url, held) = match kind {
            Kind::Sqlite => (format!("sqlite:{}", folder.path().join("ids.db").display()), Held::Nothing),
            Kind::File => {
                let place = folder.path().join("ids");
                fs::create_dir(&place).ok()?;
                (format!("file:{}", place.display()), Held::Nothing)
            }
            Kind::Postgres => {
                let server = Postgres::start_with(&["max_connections=300"])?;
                (server.database("hunt"), Held::One(Box::new(server)))
            }
            Kind::PostgresPair => {
                let server = Postgres::start_with(&["max_connections=300"])?;
                (server.database("hunt"), Held::Pair(Box::new(Pair::new(Replicated::Postgres(server)))))
            }
            Kind::MariaDb => {
                let server = MariaDb::start_with(&["max-connections=300"])?;
                (server.database("hunt"), Held::One(Box::new(server)))
            }
            Kind::Redis => {
                let server = Redis::start()?;
                (format!("{}?init=yes", server.url()), Held::One(Box::new(server)))
            }
            Kind::RedisPair => {
                // What it acknowledged without its replica, it acknowledged within three seconds of hearing from it.
                let server = Redis::start_with(&["min-replicas-to-write 1", "min-replicas-max-lag 1"])?;
                (format!("{}?init=yes", server.url()), Held::Pair(Box::new(Pair::new(Replicated::Redis(server)))))
            }
            Kind::ZooKeeper => {
                let server = ZooKeeper::start_with(&["maxClientCnxns=0"])?;
                (server.url().to_owned(), Held::One(Box::new(server)))
            }
            Kind::ZooKeeperThree => {
                let ensemble = ZooKeeper::ensemble()?;
                (ensemble.url().to_owned(), Held::Ensemble(ensemble))
            }
            Kind::Etcd => {
                let server = Etcd::start()?;
                (server.url().to_owned(), Held::One(Box::new(server)))
            }
            Kind::EtcdThree => {
                let cluster = Etcd::cluster(3)?;
                (cluster.url().to_owned(), Held::Cluster(cluster))
            }
        };
        Some(Self { kind, url, held, folder, has_backup: false })
    }

    /// Where it is, without a proxy in between.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its servers. None for an embedded store.
    pub(crate) fn servers(&self) -> Vec<&Server> {
        match &self.held {
            Held::Nothing => Vec::new(),
            Held::One(server) => vec![server],
            Held::Pair(pair) => vec![&pair.primary],
            Held::Cluster(cluster) => cluster.members().iter().map(Deref::deref).collect(),
            Held::Ensemble(ensemble) => ensemble.members().iter().map(Deref::deref).collect(),
        }
    }

    /// The server that leads, where there are several.
    pub(crate) fn leader(&self) -> Option<&Server> {
        match &self.held {
            Held::Cluster(cluster) => cluster.leader().map(Deref::deref),
            Held::Ensemble(ensemble) => ensemble.leader().map(Deref::deref),
            _ => None,
        }
    }

    /// The one server that answers.
    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.held {
            Held::One(server) => Some(server),
            Held::Pair(pair) => Some(&pair.primary),
            _ => None,
        }
    }

    /// From now on the standby hears of nothing.
    pub(crate) fn cut_off_the_standby(&self) {
        if let Some(pair) = self.pair() {
            pair.link.set(Fault::Blackhole(Way::Both));
        }
    }

    /// Ends the primary and lets the standby take over. Answers its port.
    pub(crate) fn promote_the_standby(&mut self) -> Option<u16> {
        let Held::Pair(pair) = &mut self.held else { return None };
        let standby = pair.standby.take()?;
        pair.primary.kill9();
        standby.promote();
        self.url = self.url.replace(&address(&pair.primary), &address(&standby));
        pair.primary = standby;
        Some(pair.primary.port())
    }

    /// Likewise, and has the records say that the standby is who it took over from: so nothing is bumped. It writes at once, without a
    /// standby of its own.
    pub(crate) fn promote_the_standby_unseen(&mut self) -> Option<u16> {
        let former = self.pair()?.primary.life()?;
        let port = self.promote_the_standby()?;
        let primary = &self.pair()?.primary;
        let (life, Replicated::Redis(server)) = (primary.life()?, primary) else { return None };
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        for record in ["registry", "pool:main"] {
            let key = format!("{{mintage}}:{record}");
            let text = server.command(&["GET", &key]);
            assert_eq!(server.command(&["SET", &key, &text.replace(&former, &life)]), "OK");
        }
        Some(port)
    }

    fn pair(&self) -> Option<&Pair> {
        match &self.held {
            Held::Pair(pair) => Some(pair),
            _ => None,
        }
    }

    /// Lets the standby take over while the primary goes on. Answers its port.
    pub(crate) fn promote_beside_the_primary(&mut self) -> Option<u16> {
        let Held::Pair(pair) = &mut self.held else { return None };
        let standby = pair.standby.take()?;
        standby.promote();
        self.url = self.url.replace(&address(&pair.primary), &address(&standby));
        pair.former = Some(std::mem::replace(&mut pair.primary, standby));
        Some(pair.primary.port())
    }

    /// Ends the primary of before.
    pub(crate) fn end_the_former(&mut self) {
        if let Held::Pair(pair) = &mut self.held
            && let Some(former) = pair.former.take()
        {
            former.kill9();
        }
    }

    /// Waits until the standby has found its primary again. A Redis that was started anew begins another life when the first
    /// replica comes.
    pub(crate) fn wait_for_the_standby(&self) {
        let Some(pair) = self.pair() else { return };
        for _ in 0..STANDBY_MS_MAX / STANDBY_EVERY_MS {
            if pair.primary.has_a_standby() {
                break;
            }
            thread::sleep(Duration::from_millis(STANDBY_EVERY_MS));
        }
    }

    /// Gives the new primary a standby of its own.
    pub(crate) fn add_a_standby(&mut self) {
        let Held::Pair(pair) = &mut self.held else { return };
        pair.link.cut();
        pair.link.heal();
        pair.link.lead_to(pair.primary.port());
        pair.standby = Some(pair.primary.standby_through(pair.link.port()));
        if let Replicated::Redis(server) = &pair.primary {
            server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        }
    }

    /// Ends the server and keeps a copy of its data, as after a crash: each of these servers starts again from that.
    pub(crate) fn back_up(&mut self) {
        let Some(server) = self.server() else { return };
        server.kill9();
        let done = copy(&server.data_dir(), &self.backup());
        server.restart();
        self.has_backup = done;
    }

    pub(crate) fn has_backup(&self) -> bool {
        self.has_backup
    }

    /// Puts the backup in place of the data, so that everything since then is forgotten. Nobody else may be connected.
    pub(crate) fn restore(&self) {
        let Some(server) = self.server() else { return };
        server.kill9();
        copy(&self.backup(), &server.data_dir());
        server.restart();
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup")
    }
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Replaces `to` by a copy of `from`, owners included.
fn copy(from: &Path, to: &Path) -> bool {
    // What is not there need not be removed.
    let _ = fs::remove_dir_all(to);
    Command::new("cp").arg("-a").args([from, to]).status().is_ok_and(|status| status.success())
}

/// Opens a store as the registry does.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>, timeout_ms: u64) -> Result<Backend, StoreError> {
    let mut catalog = Catalog::default();
    Builtin::install(&mut catalog);
    let factory = catalog.backend_of(url).cloned();
    let factory = factory.ok_or_else(|| StoreError::new(StoreErrorKind::Refused, format!("no store is at {url}")))?;
    let mut address = Address::new(url, Path::new("."), clock);
    address.timeout_ms = timeout_ms;
    factory.open(&address).await
}

/// What an operator does, from a connection of their own.
pub(crate) struct Operator {
    url: String,
}

impl Operator {
    pub(crate) fn of(store: &Store) -> Self {
        Self { url: store.url.clone() }
    }

    /// How often each worker id was claimed.
    pub(crate) async fn claims(&self) -> Result<Vec<u64>, StoreError> {
        let leases = self.open().await?.leases.ok_or_else(nothing)?;
        Ok(leases.leases(&pool()).await?.iter().map(|row| row.epoch).collect())
    }

    /// Where the numbers stand.
    pub(crate) async fn next_number(&self) -> Result<u64, StoreError> {
        let ranges = self.open().await?.ranges.ok_or_else(nothing)?;
        Ok(ranges.sequences().await?.iter().map(|row| row.next).max().unwrap_or(0))
    }

    /// Raises the numbers above all that processes can hold.
    pub(crate) async fn raise_above(&self, next: u64) -> Result<(), StoreError> {
        let ranges = self.open().await?.ranges.ok_or_else(nothing)?;
        ranges.raise(&Sequence::new("orders", 1), next + HELD_NUMBERS_MAX).await
    }

    /// The runbook of a restored backup: bump the pools, stop the sequences, raise the numbers, say that no other is in use. A wrong
    /// rule leaves what concerns windows or numbers out.
    pub(crate) async fn take_over(&self, next: u64, mutant: Option<Mutant>) -> Result<(), StoreError> {
        let store = self.open().await?;
        let (leases, ranges) = (store.leases.ok_or_else(nothing)?, store.ranges.ok_or_else(nothing)?);
        if mutant != Some(Mutant::NoBump) {
            leases.bump_all().await?;
        }
        if mutant != Some(Mutant::RangesWithoutIncarnation) {
            ranges.stop_all().await?;
            self.raise_above(next).await?;
            ranges.raise(&Sequence::new(UNLISTED, 0), 0).await?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<Backend, StoreError> {
        open(&self.url, Arc::new(SystemClock), OPERATOR_MS).await
    }
}

fn nothing() -> StoreError {
    StoreError::new(StoreErrorKind::Refused, "this store does not keep it")
}

/// The pool of the members' config.
fn pool() -> WorkerPool {
    let mut pool = WorkerPool::new("main", 0..TIMES.worker_ids);
    pool.region = "all".to_owned();
    pool.limits = PoolLimits::new(TIMES.window_ms, TIMES.ahead_ms, TIMES.guard_ms);
    pool
}
