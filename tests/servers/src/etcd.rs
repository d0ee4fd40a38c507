//! etcd, alone or as a cluster.

use std::{ffi::OsString, io, ops::Deref, sync::OnceLock};

use serde_json::{Value, json};

use crate::{
    Program, Server,
    port::Port,
    require,
    server::{data_in, new_folder, words},
    wire,
};

/// One etcd server: a cluster of its own, or a member of an [`EtcdCluster`].
#[derive(Debug)]
pub struct Etcd {
    server: Server,
    /// Where the other members find it.
    _peer: Port,
}

/// A cluster of etcd servers.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Etcd>,
    url: String,
}

impl Etcd {
    /// A new one, alone. `None` where it is not installed, which is said on stderr.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// A new one with settings such as `--heartbeat-interval=50`.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        if !require(Program::Etcd) {
            return None;
        }
        let member = run(1, settings).pop()?;
        member.wait_until_it_answers();
        Some(member)
    }

    /// A new one with settings, that also listens at `address`, such as `https://127.0.0.1:4321`.
    #[track_caller]
    pub fn start_with_also(settings: &[&str], address: &str) -> Option<Self> {
        if !require(Program::Etcd) {
            return None;
        }
        let member = run_also(1, settings, Some(address)).pop()?;
        member.wait_until_it_answers();
        Some(member)
    }

    /// One for all tests of this program: they must use different keys. Do not kill it.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Etcd>> = OnceLock::new();
        if !require(Program::Etcd) {
            return None;
        }
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A new cluster; three members go on when one is lost. `None` where etcd is not installed, which is said on stderr.
    #[track_caller]
    pub fn cluster(members: usize) -> Option<EtcdCluster> {
        if !require(Program::Etcd) {
            return None;
        }
        let members = run(members, &[]);
        // Each waits for a majority: so all must be started before any is waited for.
        members.iter().for_each(|member| member.wait_until_it_answers());
        let endpoints: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        Some(EtcdCluster { members, url: format!("etcd://{}", endpoints.join(",")) })
    }

    /// Sends a request to its JSON gateway, such as `/v3/kv/put`, and returns the answer, which may be etcd's refusal. Keys
    /// and values are in base64 there.
    ///
    /// # Errors
    /// Where the server does not answer within five seconds, or with something else than JSON.
    pub fn post(&self, path: &str, request: &Value) -> io::Result<Value> {
        let answer = wire::http(self.port(), wire::ANSWER, "POST", path, &request.to_string())?;
        serde_json::from_str(&answer).map_err(Into::into)
    }
}

impl EtcdCluster {
    /// All its members' addresses, divided by commas.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its members.
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// The member that says of itself that it leads. `None` during an election. A stopped member costs five seconds.
    pub fn leader(&self) -> Option<&Etcd> {
        self.members.iter().find(|member| {
            let status = member.post("/v3/maintenance/status", &json!({})).unwrap_or_default();
            status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
        })
    }
}

impl Deref for Etcd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Starts a cluster, and waits for none of it.
#[track_caller]
fn run(members: usize, settings: &[&str]) -> Vec<Etcd> {
    run_also(members, settings, None)
}

#[track_caller]
fn run_also(members: usize, settings: &[&str], also: Option<&str>) -> Vec<Etcd> {
    let peers: Vec<Port> = (0..members).map(|_| Port::free()).collect();
    let name = |nth: usize| format!("member-{nth}");
    let address = |port: &Port| format!("http://127.0.0.1:{}", port.number());
    let cluster: Vec<String> =
        peers.iter().enumerate().map(|(nth, peer)| format!("{}={}", name(nth), address(peer))).collect();
    let cluster = cluster.join(",");
    let start = |(nth, peer): (usize, Port)| {
        let folder = new_folder();
        let port = Port::free();
        let mut command: Vec<OsString> = words(["etcd", "--name", &name(nth), "--data-dir"]);
        command.push(data_in(folder.path()).into());
        let listens = also.map_or(address(&port), |also| format!("{},{also}", address(&port)));
        command.extend(words(["--listen-client-urls", &listens, "--advertise-client-urls", &address(&port)]));
        command.extend(words([
            "--listen-peer-urls",
            &address(&peer),
            "--initial-advertise-peer-urls",
            &address(&peer),
        ]));
        command.extend(words(["--initial-cluster", &cluster, "--initial-cluster-state", "new"]));
        command.extend(words(["--logger", "zap", "--log-level", "warn"]));
        command.extend(words(settings.iter().copied()));
        let answers = |port| Ok(wire::http(port, wire::GLANCE, "GET", "/health", "")?.contains(r#""health":"true""#));
        let server = Server::new("etcd", |port| format!("etcd://127.0.0.1:{port}"), folder, port, command, answers);
        server.spawn();
        Etcd { server, _peer: peer }
    };
    peers.into_iter().enumerate().map(start).collect()
}
