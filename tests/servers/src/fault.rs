//! A network that breaks on command: a proxy between a client and a server on this machine.
//!
//! It runs on a thread of its own, so its switches work from any test, async or not. What [`Fault`] says holds for all
//! connections, present and future, unless a [`Connection`] has been told otherwise.

use std::{
    fmt, io,
    net::{Ipv4Addr, TcpListener as StdListener},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    runtime::Runtime,
    sync::watch,
};

use crate::{
    deadline::{Deadline, START_S_MAX},
    port::Port,
};

/// What is read at once.
const CHUNK_LEN: usize = 16 * 1024;

/// What is wrong with the connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// All bytes arrive this much later, in both directions.
    Delay {
        /// How much later, in milliseconds.
        ms: u64,
    },
    /// Bytes go nowhere, as in a network split: what was sent arrives when the fault is over, for TCP sends it again, and
    /// the end of one side is not seen by the other. New connections are accepted (by the system of the proxy) and get
    /// no further.
    Blackhole(Way),
    /// The next answer is lost, and its connection with it: cut when the server's first bytes come, of which the client
    /// sees none. So the server has done what it was asked, for a protocol that asks one thing at a time. Happens once;
    /// then nothing is wrong.
    LoseAnswer,
    /// Likewise, but only for an answer to a request that contains these bytes, such as `COMMIT` or a key. For clients that
    /// ask something else before, or keep several connections.
    LoseAnswerTo(Vec<u8>),
    /// New connections are reset as soon as they are made. Those that are there go on.
    Refuse,
}

/// In which direction a connection is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Requests are held, answers pass.
    ToServer,
    /// Requests pass, answers are held.
    ToClient,
    /// Nothing passes.
    Both,
}

/// A proxy in front of one server. Ends, with all its connections, when dropped.
pub struct Proxy {
    address: Ipv4Addr,
    port: Port,
    shared: Arc<Shared>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// One connection through a [`Proxy`].
#[derive(Clone)]
pub struct Connection {
    line: Arc<Line>,
}

impl Proxy {
    /// A proxy on a free port, before the server on port `upstream`. That one may start later, or again.
    pub fn start(upstream: u16) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, upstream)
    }

    /// A proxy that listens at another address of this machine, such as that of a [`Network`](crate::Network).
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub fn start_at(address: Ipv4Addr, upstream: u16) -> Self {
        let port = Port::free();
        let shared = Arc::new(Shared::default());
        shared.upstream.store(upstream, Ordering::SeqCst);
        let end = watch::Sender::new(false);
        let serve = |listener, runtime: Runtime| {
            let (shared, mut ended) = (shared.clone(), end.subscribe());
            thread::Builder::new().name(format!("proxy of port {upstream}")).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, shared) => {}
                        // An error means that the proxy is gone, which comes to the same.
                        _ = ended.wait_for(|ended| *ended) => {}
                    }
                });
            })
        };
        let started = listen(address, port.number()).and_then(|(listener, runtime)| serve(listener, runtime));
        match started {
            Ok(thread) => Self { address, port, shared, end, thread: Some(thread) },
            Err(error) => panic!("cannot start a proxy on {address}:{}: {error}", port.number()),
        }
    }

    /// Where clients connect instead of to the server: a port of 127.0.0.1, unless it was started elsewhere.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's URL with this proxy's port in place of the server's.
    ///
    /// # Panics
    /// Where the URL does not name the server.
    #[track_caller]
    pub fn url_of(&self, url: &str) -> String {
        let theirs = format!("127.0.0.1:{}", self.shared.upstream());
        assert!(url.contains(&theirs), "{url} does not lead to {theirs}");
        url.replace(&theirs, &format!("{}:{}", self.address, self.port()))
    }

    /// Leads new connections to another server, as an operator does who promotes a standby. Those that are there stay.
    pub fn lead_to(&self, upstream: u16) {
        self.shared.upstream.store(upstream, Ordering::SeqCst);
    }

    /// Breaks all connections in this way, present and future, but for those with a fault of their own.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Mends everything, also what single connections were told. What was lost or cut stays so.
    pub fn heal(&self) {
        self.set(Fault::None);
        self.shared.lines().iter().for_each(|line| drop(line.fault.send_replace(None)));
    }

    /// Closes all present connections, on both sides, and returns when that is done.
    pub fn cut(&self) {
        self.connections().iter().for_each(Connection::cut);
    }

    /// Resets all present connections, on both sides, and returns when that is done.
    pub fn reset(&self) {
        self.connections().iter().for_each(Connection::reset);
    }

    /// The present connections, the oldest first.
    pub fn connections(&self) -> Vec<Connection> {
        self.shared.lines().iter().map(|line| Connection { line: line.clone() }).collect()
    }

    /// How many answers were lost so far: whether the test's fault has really happened.
    pub fn answers_lost(&self) -> u64 {
        self.shared.answers_lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // It panicked: its message is on stderr, and the test has failed without it.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, port, shared, .. } = self;
        write!(f, "Proxy({address}:{} -> {}, {:?})", port.number(), shared.upstream(), *shared.fault.borrow())
    }
}

impl Connection {
    /// Breaks this connection in this way, whatever holds for the others; [`Fault::None`] keeps it whole.
    pub fn set(&self, fault: Fault) {
        self.line.fault.send_replace(Some(fault));
    }

    /// Closes it, on both sides, and returns when that is done.
    pub fn cut(&self) {
        self.finish(End::Cut);
    }

    /// Resets it, on both sides, and returns when that is done.
    pub fn reset(&self) {
        self.finish(End::Reset);
    }

    fn finish(&self, how: End) {
        self.line.end.send_replace(Some(how));
        let closed = || self.line.closed.load(Ordering::SeqCst);
        assert!(Deadline::in_seconds(START_S_MAX).until(closed), "the proxy's thread does not run");
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?})", *self.line.fault.borrow())
    }
}

/// What the proxy and its thread both see.
#[derive(Debug, Default)]
struct Shared {
    /// The server's port of 127.0.0.1.
    upstream: AtomicU16,
    fault: watch::Sender<Fault>,
    lines: Mutex<Vec<Arc<Line>>>,
    answers_lost: AtomicU64,
}

/// What a connection and its handles both see.
#[derive(Debug, Default)]
struct Line {
    /// Its own fault; `None` for that of all.
    fault: watch::Sender<Option<Fault>>,
    end: watch::Sender<Option<End>>,
    /// The request whose answer is to be lost has passed.
    asked: AtomicBool,
    closed: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Reset,
}

impl Shared {
    fn upstream(&self) -> u16 {
        self.upstream.load(Ordering::SeqCst)
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self) -> Arc<Line> {
        let line = Arc::new(Line::default());
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        line
    }

    fn remove(&self, line: &Arc<Line>) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, line));
        line.closed.store(true, Ordering::SeqCst);
    }

    fn fault_of(&self, line: &Line) -> Fault {
        line.fault.borrow().clone().unwrap_or_else(|| self.fault.borrow().clone())
    }

    /// Waits while `way` is blocked.
    async fn passable(&self, line: &Line, way: Way) {
        let (mut all, mut own) = (self.fault.subscribe(), line.fault.subscribe());
        while self.fault_of(line).blocks(way) {
            tokio::select! {
                _ = all.changed() => {}
                _ = own.changed() => {}
            }
        }
    }

    /// Whether the answer that comes now is the one to lose. Says so once.
    fn loses_answer(&self, line: &Line) -> bool {
        let asked = line.asked.swap(false, Ordering::SeqCst);
        let hit = |fault: &Fault| *fault == Fault::LoseAnswer || matches!(fault, Fault::LoseAnswerTo(_) if asked);
        let own = line.fault.send_if_modified(|fault| match fault {
            Some(armed) if hit(armed) => {
                *fault = None;
                true
            }
            _ => false,
        });
        let lost = own
            || line.fault.borrow().is_none()
                && self.fault.send_if_modified(|fault| hit(fault).then(|| *fault = Fault::None).is_some());
        if lost {
            self.answers_lost.fetch_add(1, Ordering::SeqCst);
        }
        lost
    }
}

impl Fault {
    fn blocks(&self, way: Way) -> bool {
        matches!(self, Self::Blackhole(blocked) if *blocked == way || *blocked == Way::Both)
    }
}

/// A listener of a runtime that one thread drives.
fn listen(address: Ipv4Addr, port: u16) -> io::Result<(TcpListener, Runtime)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = StdListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    let guard = runtime.enter();
    let listener = TcpListener::from_std(listener)?;
    drop(guard);
    Ok((listener, runtime))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Ends with the proxy; an error is one client that has gone again.
    loop {
        if let Ok((client, _)) = listener.accept().await {
            let line = shared.add();
            let shared = shared.clone();
            tokio::spawn(async move {
                carry(client, &shared, &line).await;
                shared.remove(&line);
            });
        }
    }
}

/// Carries bytes between a client and the server until both have ended, or the connection is ended here.
async fn carry(mut client: TcpStream, shared: &Shared, line: &Line) {
    let mut end = line.end.subscribe();
    let connect = async {
        // The first packet of a connection does not get through either.
        shared.passable(line, Way::ToServer).await;
        TcpStream::connect((Ipv4Addr::LOCALHOST, shared.upstream())).await
    };
    let server = match shared.fault_of(line) {
        Fault::Refuse => Err(io::ErrorKind::ConnectionRefused.into()),
        _ => tokio::select! {
            server = connect => server,
            _ = end.wait_for(Option::is_some) => Err(io::ErrorKind::ConnectionAborted.into()),
        },
    };
    let Ok(mut server) = server else {
        close(client, end.borrow().unwrap_or(End::Reset));
        return;
    };
    // An error here means that the peer has gone, which the next read tells as well.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    {
        let (mut client_read, mut client_write) = client.split();
        let (mut server_read, mut server_write) = server.split();
        tokio::select! {
            _ = end.wait_for(Option::is_some) => {}
            _ = async {
                tokio::join!(
                    requests(&mut client_read, &mut server_write, shared, line),
                    answers(&mut server_read, &mut client_write, shared, line),
                )
            } => {}
        }
    }
    let how = end.borrow().unwrap_or(End::Cut);
    close(client, how);
    close(server, how);
}

fn close(stream: TcpStream, how: End) {
    if how == End::Reset {
        // An error means that the peer has closed it already.
        let _ = stream.set_zero_linger();
    }
}

async fn requests(from: &mut tcp::ReadHalf<'_>, to: &mut tcp::WriteHalf<'_>, shared: &Shared, line: &Line) {
    // The end of the last chunk, where the bytes looked for may have begun.
    let mut tail = Vec::new();
    let mut chunk = vec![0; CHUNK_LEN];
    loop {
        // An error is an end like any other.
        let count = from.read(&mut chunk).await.unwrap_or(0);
        let bytes = chunk.get(..count).unwrap_or_default();
        arrive(shared, line, Way::ToServer).await;
        if let Fault::LoseAnswerTo(wanted) = shared.fault_of(line) {
            tail.extend_from_slice(bytes);
            if wanted.is_empty() || tail.windows(wanted.len()).any(|window| window == wanted) {
                line.asked.store(true, Ordering::SeqCst);
                tail.clear();
            }
            tail.drain(..tail.len().saturating_sub(wanted.len()));
        }
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

async fn answers(from: &mut tcp::ReadHalf<'_>, to: &mut tcp::WriteHalf<'_>, shared: &Shared, line: &Line) {
    let mut chunk = vec![0; CHUNK_LEN];
    loop {
        let count = from.read(&mut chunk).await.unwrap_or(0);
        let bytes = chunk.get(..count).unwrap_or_default();
        if !bytes.is_empty() && shared.loses_answer(line) {
            line.end.send_replace(Some(End::Cut));
            return;
        }
        arrive(shared, line, Way::ToClient).await;
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Lets the time pass that bytes, or the end of them, take.
async fn arrive(shared: &Shared, line: &Line, way: Way) {
    shared.passable(line, way).await;
    if let Fault::Delay { ms } = shared.fault_of(line) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        shared.passable(line, way).await;
    }
}
