//! Redis.

use std::{fs, ops::Deref, sync::OnceLock};

use crate::{
    Program, Server,
    deadline::{Deadline, START_S_MAX},
    port::Port,
    require,
    server::{data_in, new_folder, words},
    wire,
};

/// A Redis that writes every change to its log before it answers: `appendonly yes`, `appendfsync always`.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    settings: Vec<String>,
}

impl Redis {
    /// A new one. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `maxmemory 100mb`. One that is named here overrides the one above.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        require(Program::Redis).then(|| Self::run(settings.iter().map(|&setting| setting.to_owned()).collect()))
    }

    /// One for all tests of this program: they must use different keys. Do not kill it.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Redis>> = OnceLock::new();
        if !require(Program::Redis) {
            return None;
        }
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A replica of `primary`, in step with it at first.
    #[track_caller]
    pub fn replica_of(primary: &Self) -> Self {
        Self::replica_through(primary, primary.port())
    }

    /// A replica that finds its primary on another port, that of a [`Proxy`](crate::Proxy): so the link can be cut.
    #[track_caller]
    pub fn replica_through(primary: &Self, port: u16) -> Self {
        let mut settings = primary.settings.clone();
        settings.push(format!("replicaof 127.0.0.1 {port}"));
        let replica = Self::run(settings);
        let linked = || replica.command(&["INFO", "replication"]).contains("master_link_status:up");
        assert!(Deadline::in_seconds(START_S_MAX).until(linked), "the replica finds no primary:\n{}", replica.log());
        replica.catch_up_with(primary);
        replica
    }

    /// Waits until this replica has all that `primary` has so far.
    ///
    /// # Panics
    /// Where it does not get that far within a minute.
    #[track_caller]
    pub fn catch_up_with(&self, primary: &Self) {
        let goal = primary.offset();
        assert!(Deadline::in_seconds(START_S_MAX).until(|| self.offset() >= goal), "the replica does not reach {goal:?}");
    }

    /// Makes this replica a primary, with all that it has received.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.command(&["REPLICAOF", "NO", "ONE"]), "OK");
    }

    /// Sends one command and returns its answer as text: a string or a number; an error begins with `-`.
    ///
    /// # Panics
    /// Where the server is not there, or answers with something else, such as a list.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn command(&self, command: &[&str]) -> String {
        wire::redis(self.port(), command).unwrap_or_else(|error| panic!("Redis, {command:?}: {error}"))
    }

    /// How much of the stream of changes it has.
    #[track_caller]
    fn offset(&self) -> Option<u64> {
        let info = self.command(&["INFO", "replication"]);
        // A replica names its primary's as `slave_repl_offset`, with its own under the same name as a primary.
        info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).and_then(|offset| offset.parse().ok())
    }

    #[track_caller]
    fn run(settings: Vec<String>) -> Self {
        let folder = new_folder();
        let port = Port::free();
        let data = data_in(folder.path());
        let mut command = words(["redis-server", "--port", &port.number().to_string(), "--dir"]);
        command.push(data.clone().into());
        command.extend(words(["--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always", "--save", ""]));
        // A replica is served at once, not after the five seconds in which others might want the same.
        command.extend(words(["--repl-diskless-sync-delay", "0"]));
        for setting in &settings {
            let mut parts = setting.split(' ');
            command.extend(parts.next().map(|name| format!("--{name}").into()));
            command.extend(words(parts));
        }
        make(&data);
        let answers = |port| Ok(wire::redis(port, &["PING"])? == "PONG");
        let server = Server::new("Redis", |port| format!("redis://127.0.0.1:{port}"), folder, port, command, answers);
        Self { server: server.started(), settings }
    }
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "no test can go on without a folder")]
pub(crate) fn make(folder: &std::path::Path) {
    fs::create_dir(folder).unwrap_or_else(|error| panic!("cannot make {folder:?}: {error}"));
}
