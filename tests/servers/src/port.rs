//! Ports that stay ours while a server is down.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io::ErrorKind,
    net::TcpListener,
    ops::Range,
};

/// Below the ports that the system gives to outgoing connections (32768 and up on Linux): one of those could take the
/// port of a server between its end and its restart.
const PORTS: Range<u16> = 10_000..32_000;

const TRIES_MAX: u32 = 1000;

/// A free port of 127.0.0.1, kept from other tests until dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// The same port of another loopback address. It tells other tests, in any process, that the port is taken while nobody
    /// listens on it, and the system takes it back however this process ends.
    _guard: Option<TcpListener>,
}

impl Port {
    #[expect(clippy::panic, reason = "no test can go on without a port")]
    pub(crate) fn free() -> Self {
        for _ in 0..TRIES_MAX {
            let number = PORTS.start + random() % (PORTS.end - PORTS.start);
            let guard = match TcpListener::bind(("127.0.0.2", number)) {
                Ok(guard) => Some(guard),
                // Only Linux has more than one loopback address ready for use.
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => None,
                Err(_) => continue,
            };
            if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _guard: guard };
            }
        }
        panic!("no free port among {PORTS:?} of 127.0.0.1 after {TRIES_MAX} tries");
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Differs from process to process and call to call.
fn random() -> u16 {
    let [low, high, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    u16::from_le_bytes([low, high])
}
