//! MariaDB, for the MySQL protocol.

use std::{ops::Deref, path::PathBuf, process::Command, sync::OnceLock};

use crate::{
    Program, Server,
    port::Port,
    postgres::is_root,
    program, require,
    server::{checked_name, data_in, new_folder, output_of, prepare, words},
    wire,
};

/// The database its own URL names.
const DATABASE: &str = "mintage";

/// A MariaDB with one superuser, `root`, who needs no password, and an empty database, `mintage`.
///
/// Settings are the server's own defaults, `innodb_flush_log_at_trx_commit=1` among them, but for a small memory.
#[derive(Debug)]
pub struct MariaDb {
    server: Server,
}

impl MariaDb {
    /// A new one. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `max-connections=20`.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        if !require(Program::MariaDb) {
            return None;
        }
        let folder = new_folder();
        let data = format!("--datadir={}", data_in(folder.path()).display());
        let mut own = vec!["--no-defaults".to_owned(), data, "--innodb-log-file-size=16M".to_owned()];
        if is_root() {
            own.push("--user=root".to_owned());
        }
        let mut install = words([program_file("mariadb-install-db")]);
        install.extend(words(&own));
        install.extend(words(["--auth-root-authentication-method=normal", "--skip-test-db"]));
        prepare(folder.path(), &install);

        let port = Port::free();
        let mut command = words([program_file("mariadbd")]);
        command.extend(words(&own));
        command.extend(words([
            "--bind-address=127.0.0.1",
            &format!("--port={}", port.number()),
            // Relative to the data: the path of a temporary folder may be longer than a socket allows.
            "--socket=server.sock",
            // So that 127.0.0.1 needs no name.
            "--skip-name-resolve",
            // Those who only ask whether it is there must not be locked out for it.
            "--max-connect-errors=4294967295",
            "--innodb-buffer-pool-size=32M",
            "--performance-schema=off",
        ]));
        command.extend(settings.iter().map(|setting| format!("--{setting}").into()));
        let url = |port| url(port, DATABASE);
        let answers = |port| Ok(wire::mariadb_greeting(port, wire::GLANCE)?.first() == Some(&wire::MARIADB_PROTOCOL));
        let server = Server::new("MariaDB", url, folder, port, command, answers);
        let mariadb = Self { server: server.started() };
        mariadb.database(DATABASE);
        Some(mariadb)
    }

    /// One for all tests of this program: each makes a [`database`](Self::database) of its own. Do not kill it.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<MariaDb>> = OnceLock::new();
        if !require(Program::MariaDb) {
            return None;
        }
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Makes a database and returns its URL.
    #[track_caller]
    pub fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {}", checked_name(name)));
        url(self.port(), name)
    }

    /// Runs SQL and returns what it prints, without headings, columns divided by tabs. Name the database in it.
    ///
    /// # Panics
    /// Where the server refuses it, or is not there.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        let mut command = Command::new(program_file("mariadb"));
        command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root", "--batch", "-N"]);
        command.args([&format!("--port={}", self.port()), "-e", sql]);
        output_of(&mut command)
    }
}

impl Deref for MariaDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn url(port: u16, database: &str) -> String {
    format!("mysql://root@127.0.0.1:{port}/{database}")
}

fn program_file(name: &str) -> PathBuf {
    program::on_path(name).unwrap_or_else(|| name.into())
}
