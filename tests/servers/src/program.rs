//! Which server programs are here, and what a test does where one is not.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

use crate::Network;

/// Where Debian keeps PostgreSQL, one folder for each major version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Debian's package of ZooKeeper has no program of its own: this, and `java`.
pub(crate) const ZOOKEEPER_JAR: &str = "/usr/share/java/zookeeper.jar";

/// What its encrypted port needs besides: the package depends on these, and its own list of them is not whole.
pub(crate) const ZOOKEEPER_TLS_JARS: &[&str] =
    &["/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"];

/// A program that a test may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
    /// Redis.
    Redis,
    /// etcd.
    Etcd,
    /// ZooKeeper.
    ZooKeeper,
    /// faketime, which steps the clock of one process.
    Faketime,
    /// openssl, which makes certificates.
    OpenSsl,
    /// `ip`, with the right to make networks.
    IpRoute,
}

impl Program {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::Redis => "redis-server",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Faketime => "faketime",
            Self::OpenSsl => "openssl",
            Self::IpRoute => "iproute2, or the right to make networks,",
        }
    }

    /// Whether it is installed here.
    pub fn installed(self) -> bool {
        match self {
            Self::Postgres => postgres("initdb").is_some(),
            Self::MariaDb => on_path("mariadbd").is_some() && on_path("mariadb-install-db").is_some(),
            Self::Redis => on_path("redis-server").is_some(),
            Self::Etcd => on_path("etcd").is_some(),
            Self::ZooKeeper => Path::new(ZOOKEEPER_JAR).exists() && on_path("java").is_some(),
            Self::Faketime => on_path("faketime").is_some(),
            Self::OpenSsl => on_path("openssl").is_some(),
            Self::IpRoute => Network::start().is_some(),
        }
    }
}

/// Whether the calling test can run. `false` where the program is not installed, which is then said on stderr.
///
/// # Panics
/// Instead of saying `false` when `MINTAGE_REQUIRE_ALL=1` is set: install the program, with `scripts/servers install`.
#[expect(clippy::panic, reason = "it fails the test, as asked for")]
pub fn require(program: Program) -> bool {
    if program.installed() {
        return true;
    }
    let test = test_name();
    if env::var_os("MINTAGE_REQUIRE_ALL").is_some_and(|value| value == "1") {
        panic!(
            "{test} needs {}, which is not installed, and MINTAGE_REQUIRE_ALL=1 is set: run `scripts/servers install`",
            program.name()
        );
    }
    // Not by `eprintln!`, which the test harness captures. In one piece, as tests run side by side.
    let line = format!("SKIPPED: {test}: {} is not installed (scripts/test installs it)\n", program.name());
    // Whoever closed stderr does not want to know.
    let _ = io::stderr().write_all(line.as_bytes());
    false
}

/// A program of the newest PostgreSQL.
pub(crate) fn postgres(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .max();
    match newest {
        Some((_, bin)) => Some(bin.join(program)),
        None => on_path(program),
    }
}

/// The program in `PATH`, or where Debian keeps daemons, which is not in everybody's `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}

/// The test harness names the thread after the test, unless it runs one test at a time.
fn test_name() -> String {
    match thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "a test".to_owned()),
    }
}
