//! Real servers to try things on by hand: `cargo run -p mintage-servers-for-tests -- postgres redis`.
//!
//! Prints a line for each, `name url pid folder`, and ends them when its input ends, or when it is killed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

#[cfg(not(unix))]
fn main() {
    eprintln!("there are no servers for this system");
}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    by_hand::run()
}

#[cfg(unix)]
mod by_hand {
    use std::{env, io, process::ExitCode};

    use mintage_servers_for_tests::{Etcd, MariaDb, Postgres, Redis, Server, ZooKeeper};

    const USAGE: &str = "usage: servers-for-tests NAME...   (postgres mariadb redis etcd zookeeper)";

    /// Keeps a server, whatever its kind.
    type Kept = Box<dyn std::ops::Deref<Target = Server>>;

    pub(super) fn run() -> ExitCode {
        let mut kept: Vec<Kept> = Vec::new();
        for name in env::args().skip(1) {
            let Some(start) = starter(&name) else {
                eprintln!("no server {name:?}\n{USAGE}");
                return ExitCode::from(2);
            };
            let Some(server) = start() else { return ExitCode::FAILURE };
            let pid = server.pids().first().copied().unwrap_or_default();
            println!("{name} {} {pid} {}", server.url(), server.data_dir().display());
            kept.push(server);
        }
        if kept.is_empty() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        // Both mean that nobody is there any more.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Not dropped, as if they were in a `static`: they must end all the same.
        std::mem::forget(kept);
        ExitCode::SUCCESS
    }

    fn starter(name: &str) -> Option<fn() -> Option<Kept>> {
        fn keep<S: std::ops::Deref<Target = Server> + 'static>(server: Option<S>) -> Option<Kept> {
            server.map(|server| Box::new(server) as Kept)
        }
        match name {
            "postgres" => Some(|| keep(Postgres::start())),
            "mariadb" => Some(|| keep(MariaDb::start())),
            "redis" => Some(|| keep(Redis::start())),
            "etcd" => Some(|| keep(Etcd::start())),
            "zookeeper" => Some(|| keep(ZooKeeper::start())),
            _ => None,
        }
    }
}
