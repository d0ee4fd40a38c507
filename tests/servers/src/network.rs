//! A network of its own for a process, with one cable that can be pulled.
//!
//! A [`Proxy`](crate::Proxy) breaks connections; this breaks what carries them: packets are lost, connections stay open on both sides
//! without a word, and what was sent arrives when the cable is back, if it is still wanted.

use std::{
    ffi::OsStr,
    fs, io,
    net::Ipv4Addr,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    deadline::{Deadline, START_S_MAX},
    postgres::is_root,
};

/// 198.18.0.0/15 is kept for tests of networks (RFC 2544). Each cable has four addresses of it.
const ADDRESSES: u32 = 0xc612_0000;
const CABLES: u32 = 1 << 15;

/// How often another four addresses are tried, where some other program has taken those.
const TRIES_MAX: u32 = 16;

/// A network namespace with one cable to this machine.
///
/// It ends when dropped, or with this process however that ends: the namespace lives as long as the last process in it, and the one
/// that holds it waits for the end of a pipe.
#[derive(Debug)]
pub struct Network {
    holder: Child,
    device: String,
    here: Ipv4Addr,
}

impl Network {
    /// A new one. `None` without the right to make networks, or without `ip`: whoever can do with a proxy does.
    pub fn start() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            return None;
        }
        (0..TRIES_MAX).find_map(|_| Self::make(NEXT.fetch_add(1, Ordering::Relaxed)).ok())
    }

    /// The address of this machine's end of the cable: where a proxy must listen.
    pub fn here(&self) -> Ipv4Addr {
        self.here
    }

    /// A command that will run in this network.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg("--").arg(program);
        command
    }

    /// Pulls the cable, or plugs it in again. Says whether that was done.
    pub fn plug(&self, plugged: bool) -> bool {
        run(Command::new("ip").args(["link", "set", &self.device, if plugged { "up" } else { "down" }])).is_ok()
    }

    fn make(nth: u32) -> io::Result<Self> {
        let pid = std::process::id();
        let device = format!("mint{pid}n{nth}");
        let first = ADDRESSES + 4 * (pid.wrapping_mul(64).wrapping_add(nth) % CABLES);
        let (here, there) = (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2));
        let holder = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on dropping it ends what there is of it.
        let mut network = Self { holder, device, here };
        let holder = network.holder.id().to_string();
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let mut is_apart = false;
        Deadline::in_seconds(START_S_MAX).until(|| {
            is_apart = space(&holder).is_some_and(|theirs| Some(theirs) != space("self"));
            // It ends at once where nobody may make networks, root or not.
            is_apart || !matches!(network.holder.try_wait(), Ok(None))
        });
        if !is_apart {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let device = network.device.as_str();
        run(Command::new("ip").args(["link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", &holder]))?;
        run(Command::new("ip").args(["address", "add", &format!("{here}/30"), "dev", device]))?;
        run(Command::new("ip").args(["link", "set", device, "up"]))?;
        run(network.command("ip").args(["address", "add", &format!("{there}/30"), "dev", "eth0"]))?;
        run(network.command("ip").args(["link", "set", "eth0", "up"]))?;
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // With the namespace goes its end of the cable, and with that this one; at once, if it is asked.
        let _ = run(Command::new("ip").args(["link", "delete", &self.device]));
        // An error means that it has ended.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}
