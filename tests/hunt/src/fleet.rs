//! The members, each with its clock and its own way to the store.

use std::{
    fs,
    io::Write as _,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use mintage_servers_for_tests::{Fault, Network, Proxy};
use tokio::time::Instant;

use crate::{
    member,
    mutant::Mutant,
    store::{Kind, Store, TIMES},
};

const FAKETIME: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// How long a member may take to end cleanly: longer than its store's timeout and the end of its tasks.
const END_S_MAX: u64 = 12;

pub(crate) struct Fleet {
    pub(crate) slots: Vec<Slot>,
    folder: PathBuf,
    rate: u64,
    rule: &'static str,
    guard_ms: u64,
    lives: u64,
}

/// A machine, on which one member runs at a time.
pub(crate) struct Slot {
    url: String,
    proxies: Vec<Proxy>,
    /// Its own, where this machine lets us make one and there is a server to reach.
    network: Option<Network>,
    clock: PathBuf,
    member: Option<Child>,
    pub(crate) is_stopped: bool,
    /// How far its clock is off.
    pub(crate) error_ms: i64,
}

impl Fleet {
    pub(crate) fn new(store: &Store, folder: &Path, processes: usize, rate: u64, mutant: Option<Mutant>) -> Self {
        let slots = (0..processes)
            .map(|nth| {
                let servers = store.servers();
                let network = if servers.is_empty() { None } else { Network::start() };
                let here = network.as_ref().map_or(Ipv4Addr::LOCALHOST, Network::here);
                let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start_at(here, server.port())).collect();
                let url = proxies.iter().fold(store.url().to_owned(), |url, proxy| proxy.url_of(&url));
                Slot {
                    url: Mutant::url(mutant, &url),
                    proxies,
                    network,
                    clock: folder.join(format!("clock-{nth}")),
                    member: None,
                    is_stopped: false,
                    error_ms: 0,
                }
            })
            .collect();
        let rule = match mutant {
            // All that a lease without windows has.
            Some(Mutant::LeaseOnly) => member::STRICT,
            // The store must be back before the windows that it has forgotten are over.
            Some(Mutant::NoBump) => member::LONG,
            _ => member::USUAL,
        };
        let guard_ms = if store.kind == Kind::RedisPair { TIMES.pair_guard_ms } else { TIMES.guard_ms };
        Self { slots, folder: folder.to_owned(), rate, rule, guard_ms, lives: 0 }
    }

    /// Starts a member where none runs.
    pub(crate) fn start(&mut self, which: usize) {
        let Some(slot) = self.slots.get_mut(which).filter(|slot| slot.member.is_none()) else { return };
        self.lives += 1;
        let name = format!("{which}-{}", self.lives);
        slot.set_clock(slot.error_ms);
        let errors = fs::File::create(self.folder.join(format!("{name}.errors"))).map_or(Stdio::null(), Stdio::from);
        let Ok(program) = std::env::current_exe() else { return };
        let mut command = match &slot.network {
            Some(network) => network.command(program),
            None => Command::new(program),
        };
        command.arg(member::WORD).arg(&slot.url).arg(&self.folder).arg(&name).arg(self.rate.to_string());
        command.arg(self.rule).arg(self.guard_ms.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
        if let Some(library) = faketime() {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &slot.clock);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        slot.member = command.spawn().ok();
        slot.is_stopped = false;
    }

    /// Ends all members cleanly.
    pub(crate) fn end(&mut self) {
        let mut members: Vec<Child> = self.slots.iter_mut().filter_map(|slot| slot.member.take()).collect();
        members.iter_mut().for_each(|member| drop(member.stdin.take()));
        let deadline = Instant::now() + Duration::from_secs(END_S_MAX);
        for member in &mut members {
            while Instant::now() < deadline && matches!(member.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            // An error means that it has ended.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

impl Slot {
    pub(crate) fn is_alive(&self) -> bool {
        self.member.is_some()
    }

    /// Ends the member at once.
    pub(crate) fn kill9(&mut self) {
        let Some(mut member) = self.member.take() else { return };
        self.is_stopped = false;
        // An error means that it has ended.
        let _ = member.kill();
        let _ = member.wait();
    }

    /// Tells the member to end, and leaves it to itself: another is started beside it, as in a rolling restart.
    pub(crate) fn retire(&mut self) -> Option<Child> {
        let mut member = self.member.take()?;
        drop(member.stdin.take());
        Some(member)
    }

    pub(crate) fn fork(&mut self) {
        if let Some(stdin) = self.member.as_mut().and_then(|member| member.stdin.as_mut()) {
            // An error means that it has ended.
            let _ = stdin.write_all(b"fork\n");
        }
    }

    pub(crate) fn stop(&mut self, stopped: bool) {
        if let Some(member) = &self.member {
            let signal = if stopped { "-STOP" } else { "-CONT" };
            // An error means that it has ended.
            let _ = Command::new("kill").args([signal, &member.id().to_string()]).stderr(Stdio::null()).status();
            self.is_stopped = stopped;
        }
    }

    pub(crate) fn set_clock(&mut self, error_ms: i64) {
        self.error_ms = error_ms;
        let text = format!(
            "{}{}.{:03}s\n",
            if error_ms < 0 { '-' } else { '+' },
            error_ms.abs() / 1_000,
            error_ms.abs() % 1_000
        );
        let draft = self.clock.with_extension("draft");
        // Where it cannot be written the clock stays as it is.
        let _ = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.clock));
    }

    /// Breaks the way to every server.
    pub(crate) fn cut_off(&self, fault: &Fault) -> bool {
        self.proxies.iter().for_each(|proxy| proxy.set(fault.clone()));
        !self.proxies.is_empty()
    }

    /// Ends the connections there are as well.
    pub(crate) fn disconnect(&self) {
        self.cut_off(&Fault::Refuse);
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Pulls the cable of its network. Says whether there was one.
    pub(crate) fn unplug(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.plug(false))
    }

    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::heal);
        if let Some(network) = &self.network {
            network.plug(true);
        }
    }

    /// Leads it to the server that has taken over from the one there was, which may go on: so its connections end.
    pub(crate) fn lead_to(&self, port: u16) {
        self.proxies.iter().for_each(|proxy| {
            proxy.lead_to(port);
            proxy.cut();
        });
    }
}

/// Where the library that fakes clocks is, if it is installed.
pub(crate) fn faketime() -> Option<&'static str> {
    FAKETIME.iter().find(|path| Path::new(path).exists()).copied()
}
