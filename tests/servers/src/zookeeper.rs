//! ZooKeeper.

use std::{fs, io, ops::Deref, sync::OnceLock};

use crate::{
    Program, Server,
    port::Port,
    program::ZOOKEEPER_JAR,
    require,
    server::{data_in, new_folder, words},
    wire,
};

/// Twice this is the shortest session a client may ask for.
const TICK_MS: u32 = 500;

/// One ZooKeeper server, alone. Sessions may be as short as a second.
#[derive(Debug)]
pub struct ZooKeeper {
    server: Server,
}

impl ZooKeeper {
    /// A new one. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `maxSessionTimeout=60000`. One that is named here overrides the harness's.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        if !require(Program::ZooKeeper) {
            return None;
        }
        let folder = new_folder();
        let port = Port::free();
        let mut lines = vec![
            format!("tickTime={TICK_MS}"),
            format!("dataDir={}", data_in(folder.path()).display()),
            format!("clientPort={}", port.number()),
            "clientPortAddress=127.0.0.1".to_owned(),
            // Its web page would be open to all on port 8080.
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=srvr,mntr,cons,dump".to_owned(),
        ];
        lines.extend(settings.iter().map(|&setting| setting.to_owned()));
        let config = folder.path().join("zoo.cfg");
        fs::write(&config, lines.join("\n")).unwrap_or_else(|error| panic!("cannot write {config:?}: {error}"));
        // A small machine that starts fast: tests ask little of it.
        let mut command = words(["java", "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.extend(words(["-cp", ZOOKEEPER_JAR, "org.apache.zookeeper.server.ZooKeeperServerMain"]));
        command.push(config.into());
        let url = |port| format!("zookeeper://127.0.0.1:{port}");
        let server = Server::new("ZooKeeper", url, folder, port, command, serves);
        Some(Self { server: server.started() })
    }

    /// One for all tests of this program: they must use different paths. Do not kill it.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<ZooKeeper>> = OnceLock::new();
        if !require(Program::ZooKeeper) {
            return None;
        }
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Its answer to one of its four-letter words: `srvr`, `mntr`, `cons` or `dump`.
    ///
    /// # Panics
    /// Where the server is not there.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn four_letters(&self, word: &str) -> String {
        wire::ask(self.port(), wire::ANSWER, word.as_bytes())
            .unwrap_or_else(|error| panic!("ZooKeeper, {word}: {error}"))
    }
}

impl Deref for ZooKeeper {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// It answers `ruok` before it serves; `srvr` names its mode only then.
fn serves(port: u16) -> io::Result<bool> {
    Ok(wire::ask(port, wire::GLANCE, b"srvr")?.contains("Mode:"))
}
