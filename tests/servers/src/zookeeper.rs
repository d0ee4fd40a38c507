//! ZooKeeper.

use std::{fs, io, ops::Deref, sync::OnceLock};

use tempfile::TempDir;

use crate::{
    Certificates, Fault, Program, Proxy, Server,
    port::Port,
    program::{ZOOKEEPER_JAR, ZOOKEEPER_TLS_JARS},
    require,
    server::{data_in, new_folder, words},
    wire,
};

/// Twice this is the shortest session a client may ask for.
const TICK_MS: u32 = 500;

/// As many as can lose one.
const MEMBERS: usize = 3;

/// One ZooKeeper server, alone. Sessions may be as short as a second.
#[derive(Debug)]
pub struct ZooKeeper {
    server: Server,
    secure: Option<Port>,
}

impl ZooKeeper {
    /// A new one. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `maxSessionTimeout=60000`. One that is named here overrides the harness's.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        if !require(Program::ZooKeeper) {
            return None;
        }
        let server = server(new_folder(), Port::free(), settings.iter().map(|&setting| setting.to_owned()));
        Some(Self { server: server.started(), secure: None })
    }

    /// A new one that takes encrypted connections as well, on [`secure_port`](Self::secure_port).
    #[track_caller]
    pub fn encrypted(certificates: &Certificates) -> Option<Self> {
        let port = Port::free();
        let identity = certificates.certificate_with_key();
        let settings = [
            // The usual way to take connections knows no encryption.
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            format!("secureClientPort={}", port.number()),
            "secureClientPortAddress=127.0.0.1".to_owned(),
            "ssl.keyStore.type=PEM".to_owned(),
            format!("ssl.keyStore.location={}", identity.display()),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={}", certificates.authority().display()),
            // Clients prove who they are by `digest`, if at all.
            "ssl.clientAuth=none".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let started = Self::start_with(&settings)?;
        Some(Self { secure: Some(port), ..started })
    }

    /// The port for encrypted connections.
    pub fn secure_port(&self) -> Option<u16> {
        self.secure.as_ref().map(Port::number)
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

    /// Three of them, that elect another leader when they have not heard theirs for a second and a half. `None` where ZooKeeper is
    /// not installed, which is said on stderr.
    #[track_caller]
    pub fn ensemble() -> Option<ZooKeeperEnsemble> {
        require(Program::ZooKeeper).then(|| Self::three(&["initLimit=10", "syncLimit=3"], false))
    }

    /// Three of them, of which the first hears the others through proxies. They keep their leader: one that is elected while
    /// a proxy already takes connections for it is lost again.
    #[track_caller]
    pub fn ensemble_that_lags() -> Option<ZooKeeperEnsemble> {
        require(Program::ZooKeeper).then(|| Self::three(&["initLimit=60", "syncLimit=60"], true))
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    fn three(settings: &[&str], behind_proxies: bool) -> ZooKeeperEnsemble {
        let ports: Vec<[Port; 2]> = (0..MEMBERS).map(|_| [Port::free(), Port::free()]).collect();
        let links: Vec<Proxy> =
            ports.iter().filter(|_| behind_proxies).map(|[quorum, _]| Proxy::start(quorum.number())).collect();
        let start = |nth: usize| {
            let folder = new_folder();
            let data = data_in(folder.path());
            fs::create_dir_all(&data)
                .and_then(|()| fs::write(data.join("myid"), (nth + 1).to_string()))
                .unwrap_or_else(|error| panic!("cannot write to {data:?}: {error}"));
            let mut lines = vec!["maxClientCnxns=0".to_owned()];
            for (other, [quorum, election]) in ports.iter().enumerate() {
                let link = links.get(other).filter(|_| nth == 0 && other != 0);
                let quorum = link.map_or(quorum.number(), Proxy::port);
                lines.push(format!("server.{}=127.0.0.1:{quorum}:{}", other + 1, election.number()));
            }
            lines.extend(settings.iter().map(|&setting| setting.to_owned()));
            let server = server(folder, Port::free(), lines.into_iter());
            server.spawn();
            Self { server, secure: None }
        };
        let members: Vec<Self> = (0..MEMBERS).map(start).collect();
        // Each waits for a majority: so all must be started before any is waited for.
        members.iter().for_each(|member| member.wait_until_it_answers());
        let hosts: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        let url = format!("zookeeper://{}", hosts.join(","));
        ZooKeeperEnsemble { members, url, links, _ports: ports }
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

/// Servers that vote. See [`ZooKeeper::ensemble`].
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    members: Vec<ZooKeeper>,
    url: String,
    links: Vec<Proxy>,
    _ports: Vec<[Port; 2]>,
}

impl ZooKeeperEnsemble {
    /// All its servers' addresses, divided by commas.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server that says of itself that it leads. `None` during an election. A stopped server costs five seconds.
    pub fn leader(&self) -> Option<&ZooKeeper> {
        self.members.iter().find(|member| {
            wire::ask(member.port(), wire::ANSWER, b"srvr").is_ok_and(|answer| answer.contains("Mode: leader"))
        })
    }

    /// The servers. Each serves whoever asks it, from what it knows.
    pub fn members(&self) -> &[ZooKeeper] {
        &self.members
    }

    /// From now on the first member learns this much later what the others have decided: one of an
    /// [`ensemble_that_lags`](ZooKeeper::ensemble_that_lags).
    pub fn first_lags(&self, ms: u64) {
        self.links.iter().for_each(|link| link.set(Fault::Delay { ms }));
    }
}

impl Deref for ZooKeeper {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

#[expect(clippy::panic, reason = "the test cannot go on")]
fn server(folder: TempDir, port: Port, settings: impl Iterator<Item = String>) -> Server {
    let mut lines = vec![
        format!("tickTime={TICK_MS}"),
        format!("dataDir={}", data_in(folder.path()).display()),
        format!("clientPort={}", port.number()),
        "clientPortAddress=127.0.0.1".to_owned(),
        // Its web page would be open to all on port 8080.
        "admin.enableServer=false".to_owned(),
        "4lw.commands.whitelist=srvr,mntr,cons,dump".to_owned(),
    ];
    lines.extend(settings);
    let config = folder.path().join("zoo.cfg");
    fs::write(&config, lines.join("\n")).unwrap_or_else(|error| panic!("cannot write {config:?}: {error}"));
    // A small machine that starts fast: tests ask little of it.
    let mut command = words(["java", "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    // This one serves alone or votes, as its settings say.
    let classes = [&[ZOOKEEPER_JAR], ZOOKEEPER_TLS_JARS].concat().join(":");
    command.extend(words(["-cp", &classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]));
    command.push(config.into());
    Server::new("ZooKeeper", |port| format!("zookeeper://127.0.0.1:{port}"), folder, port, command, serves)
}

/// It answers `ruok` before it serves; `srvr` names its mode only then.
fn serves(port: u16) -> io::Result<bool> {
    Ok(wire::ask(port, wire::GLANCE, b"srvr")?.contains("Mode:"))
}
