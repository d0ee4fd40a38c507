//! Being asked to stop: Ctrl-C, and on Unix the SIGTERM of `kill`, of a service manager or of a container's end, and the SIGHUP of a
//! terminal that was closed.

use crate::failure::Failure;

/// Listens from its making on; a request that came before anybody waited is not lost.
#[cfg(unix)]
pub(crate) struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Stop {
    pub(crate) fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen =
            |kind| signal(kind).map_err(|error| Failure::refused(format!("cannot listen for signals: {error}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits to be asked.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Listens for Ctrl-C from the first wait on.
#[cfg(not(unix))]
pub(crate) struct Stop;

#[cfg(not(unix))]
impl Stop {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Waits to be asked.
    pub(crate) async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Nobody can ask.
            std::future::pending::<()>().await;
        }
    }
}
