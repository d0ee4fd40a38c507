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

    /// A new one with settings such as `maxmemory 100mb`, as in its config file. They override the above.
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

    /// A replica of `primary`, in step with it at first, which keeps what it has over a kill.
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
        // What came with the first copy is in its log only when that has been written anew: before, a kill loses it.
        let kept = || {
            let info = replica.command(&["INFO", "persistence"]);
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        };
        assert!(Deadline::in_seconds(START_S_MAX).until(kept), "the replica keeps nothing:\n{}", replica.log());
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
        assert!(
            Deadline::in_seconds(START_S_MAX).until(|| self.offset() >= goal),
            "the replica does not reach {goal:?}"
        );
    }

    /// Makes this replica a primary, with all that it has received. It stays one when it is started again.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.command(&["REPLICAOF", "NO", "ONE"]), "OK");
        assert_eq!(self.command(&["CONFIG", "REWRITE"]), "OK");
    }

    /// Sends one command and returns its answer as text: a string or a number; an error begins with `-`.
    ///
    /// # Panics
    /// Where the server is not there, or answers with something else, such as a list.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn command(&self, command: &[&str]) -> String {
        wire::redis(self.port(), wire::ANSWER, command).unwrap_or_else(|error| panic!("Redis, {command:?}: {error}"))
    }

    /// How much of the stream of changes it has.
    #[track_caller]
    fn offset(&self) -> Option<u64> {
        let info = self.command(&["INFO", "replication"]);
        // A replica names its primary's as `slave_repl_offset`, with its own under the same name as a primary.
        info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).and_then(|offset| offset.parse().ok())
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    fn run(settings: Vec<String>) -> Self {
        let folder = new_folder();
        let port = Port::free();
        let data = data_in(folder.path());
        let own = [
            format!("port {}", port.number()),
            format!("dir \"{}\"", data.display()),
            "bind 127.0.0.1".to_owned(),
            "appendonly yes".to_owned(),
            "appendfsync always".to_owned(),
            "save \"\"".to_owned(),
            // A replica is served at once, not after the five seconds in which others might want the same.
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        let lines = own.iter().chain(&settings).map(|line| format!("{line}\n")).collect::<String>();
        let config = folder.path().join("redis.conf");
        fs::create_dir(&data)
            .and_then(|()| fs::write(&config, lines))
            .unwrap_or_else(|error| panic!("cannot write {config:?}: {error}"));
        let command = words(["redis-server".into(), config]);
        let answers = |port| Ok(wire::redis(port, wire::GLANCE, &["PING"])? == "PONG");
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
