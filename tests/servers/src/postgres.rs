//! PostgreSQL.

use std::{ffi::OsString, ops::Deref, os::unix::fs::chown, path::PathBuf, process::Command, sync::OnceLock};

use tempfile::TempDir;

use crate::{
    Program, Server,
    deadline::{Deadline, START_S_MAX},
    port::Port,
    program, require,
    server::{checked_name, data_in, new_folder, output_of, prepare, words},
    wire,
};

/// The system user as whom Debian runs it. The server refuses to run as root.
const USER: &str = "postgres";

/// A PostgreSQL with one superuser, `postgres`, who needs no password.
///
/// Settings are the server's own defaults, `fsync` and `synchronous_commit` among them, but for a small memory.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    settings: Vec<String>,
}

impl Postgres {
    /// A new one. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `max_connections=20`.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        if !require(Program::Postgres) {
            return None;
        }
        let folder = folder_of_its_user();
        let mut command = as_its_user();
        command.extend(words([program_file("initdb"), data_in(folder.path())]));
        // Nothing is lost by it: the server syncs what matters before it is in use.
        command.extend(words(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]));
        prepare(folder.path(), &command);
        Some(Self::run(folder, settings.iter().map(|&setting| setting.to_owned()).collect()))
    }

    /// One for all tests of this program: each makes a [`database`](Self::database) of its own. Do not kill it.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        if !require(Program::Postgres) {
            return None;
        }
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A standby that streams from `primary`, which does not wait for it.
    #[track_caller]
    pub fn standby_of(primary: &Self) -> Self {
        Self::standby_through(primary, primary.port())
    }

    /// A standby that finds its primary on another port, that of a [`Proxy`](crate::Proxy): so the link can be cut.
    #[track_caller]
    pub fn standby_through(primary: &Self, port: u16) -> Self {
        let folder = folder_of_its_user();
        let mut command = as_its_user();
        command.extend(words([program_file("pg_basebackup"), "-D".into(), data_in(folder.path())]));
        command.extend(words(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER]));
        command.extend(words(["-R", "-X", "stream", "-c", "fast", "--no-sync"]));
        prepare(folder.path(), &command);
        // A standby refuses to run with less of some things than its primary.
        Self::run(folder, primary.settings.clone())
    }

    /// Waits until this standby has written all that `primary` has committed so far.
    ///
    /// # Panics
    /// Where it does not get that far within a minute.
    #[track_caller]
    pub fn catch_up_with(&self, primary: &Self) {
        let goal = primary.sql("SELECT pg_current_wal_flush_lsn()");
        let reached = || self.sql(&format!("SELECT pg_last_wal_replay_lsn() >= '{goal}'")) == "t";
        assert!(Deadline::in_seconds(START_S_MAX).until(reached), "the standby does not reach {goal}");
    }

    /// Makes this standby a primary, with all that it has received, and waits until it is one.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.sql(&format!("SELECT pg_promote(true, {START_S_MAX})")), "t", "pg_promote took too long");
    }

    /// Makes a database and returns its URL.
    #[track_caller]
    pub fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {}", checked_name(name)));
        url(self.port(), name)
    }

    /// Runs SQL in the database `postgres` and returns what it prints, without headings, columns divided by `|`.
    ///
    /// # Panics
    /// Where the server refuses it, or is not there.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        self.sql_in("postgres", sql)
    }

    /// Runs SQL in another database.
    ///
    /// # Panics
    /// Where the server refuses it, or is not there.
    #[track_caller]
    pub fn sql_in(&self, database: &str, sql: &str) -> String {
        let psql = program::postgres("psql").unwrap_or_else(|| "psql".into());
        let mut command = Command::new(psql);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url(self.port(), database), "-c", sql]);
        output_of(&mut command)
    }

    #[track_caller]
    fn run(folder: TempDir, settings: Vec<String>) -> Self {
        let port = Port::free();
        let mut command = as_its_user();
        command.extend(words([program_file("postgres"), "-D".into(), data_in(folder.path())]));
        let own = [
            "listen_addresses=127.0.0.1",
            &format!("port={}", port.number()),
            // No socket: the path of a temporary folder may be longer than one allows.
            "unix_socket_directories=",
            "shared_buffers=32MB",
        ];
        for setting in own.into_iter().chain(settings.iter().map(String::as_str)) {
            command.extend(words(["-c", setting]));
        }
        let url = |port| url(port, "postgres");
        let accepts = |port| wire::postgres_accepts(port, wire::GLANCE);
        let server = Server::new("PostgreSQL", url, folder, port, command, accepts);
        Self { server: server.started(), settings }
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}@127.0.0.1:{port}/{database}")
}

fn program_file(name: &str) -> PathBuf {
    program::postgres(name).unwrap_or_else(|| name.into())
}

/// Nothing, or what makes the command after it run as its user, where this process is root.
fn as_its_user() -> Vec<OsString> {
    if !is_root() {
        return Vec::new();
    }
    words(["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--"])
}

#[track_caller]
#[expect(clippy::panic, reason = "no test can go on without a folder")]
fn folder_of_its_user() -> TempDir {
    let folder = new_folder();
    if is_root() {
        let uid = output_of(Command::new("id").args(["-u", USER])).parse().ok();
        chown(folder.path(), uid, None).unwrap_or_else(|error| panic!("cannot give {folder:?} to {USER}: {error}"));
    }
    folder
}

pub(crate) fn is_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| output_of(Command::new("id").arg("-u")) == "0")
}
