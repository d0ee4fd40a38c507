//! What all servers have in common.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    deadline::{Deadline, START_S_MAX},
    port::Port,
    process::Process,
};

/// What is shown of a log when a server does not start.
const LOG_LINES_SHOWN: usize = 40;

/// Between two tries to start again on a folder or port that something still holds.
const RESTART_EVERY_MS: u64 = 200;

/// A real server of this test's own, on a loopback port and in a temporary folder.
///
/// It ends when dropped, all its processes at once and the folder with it. If the test process ends first, by a return
/// from `main` with the server in a `static`, or by `kill -9`, a shell that waits for just that does the same.
pub struct Server {
    // In this order they are dropped: the process before its folder.
    process: Mutex<Option<Process>>,
    folder: TempDir,
    port: Port,
    name: &'static str,
    url: String,
    command: Vec<OsString>,
    answers: Answers,
}

/// Whether the server on this port does what it is for.
pub(crate) type Answers = fn(port: u16) -> io::Result<bool>;

impl Server {
    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its port of 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where it keeps its data, the same after a restart.
    pub fn data_dir(&self) -> PathBuf {
        data_in(self.folder.path())
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        fs::read(self.log_file()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Its processes, the main one first. Empty when it was killed.
    pub fn pids(&self) -> Vec<u32> {
        self.process().as_ref().map(Process::pids).unwrap_or_default()
    }

    /// Stops it where it stands (SIGSTOP): it still accepts connections, or rather its system does, and answers nothing.
    pub fn stop(&self) {
        if let Some(process) = &*self.process() {
            process.stop();
        }
    }

    /// Lets it go on after [`stop`](Self::stop) (SIGCONT).
    pub fn cont(&self) {
        if let Some(process) = &*self.process() {
            process.cont();
        }
    }

    /// Ends all its processes at once (SIGKILL), stopped or not. Its port and its data stay.
    pub fn kill9(&self) {
        *self.process() = None;
    }

    /// Starts it again on the same data and port, and waits until it answers. One that runs is killed first.
    ///
    /// # Panics
    /// Where it does not come up within a minute.
    #[track_caller]
    pub fn restart(&self) {
        self.kill9();
        let deadline = Deadline::in_seconds(START_S_MAX);
        loop {
            self.spawn();
            match self.wait(deadline) {
                Ok(()) => return,
                // What was killed may hold its lock or its port for a moment longer.
                Err(_) if self.has_ended() && !deadline.passed() => {
                    thread::sleep(Duration::from_millis(RESTART_EVERY_MS));
                }
                Err(trouble) => self.give_up(&trouble),
            }
        }
    }

    /// A server that does not run yet.
    pub(crate) fn new(
        name: &'static str,
        url: impl FnOnce(u16) -> String,
        folder: TempDir,
        port: Port,
        command: Vec<OsString>,
        answers: Answers,
    ) -> Self {
        let url = url(port.number());
        Self { process: Mutex::new(None), folder, port, name, url, command, answers }
    }

    /// Starts it and waits until it answers.
    #[track_caller]
    pub(crate) fn started(self) -> Self {
        self.spawn();
        self.wait_until_it_answers();
        self
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    pub(crate) fn spawn(&self) {
        match Process::start(&self.command, self.folder.path(), &self.log_file()) {
            Ok(process) => *self.process() = Some(process),
            Err(error) => panic!("cannot start {}, {:?}: {error}", self.name, self.command),
        }
    }

    #[track_caller]
    pub(crate) fn wait_until_it_answers(&self) {
        if let Err(trouble) = self.wait(Deadline::in_seconds(START_S_MAX)) {
            self.give_up(&trouble);
        }
    }

    fn wait(&self, deadline: Deadline) -> Result<(), String> {
        let mut last = None;
        let mut ended = None;
        let up = deadline.until(|| {
            // First this: whoever answers in place of one that has ended is a stranger.
            ended = self.ended();
            if ended.is_some() {
                return true;
            }
            last = Some((self.answers)(self.port()));
            matches!(last, Some(Ok(true)))
        });
        match ended {
            Some(how) => Err(format!("ended by itself: {how}")),
            None if up => Ok(()),
            None => Err(format!("did not answer for {START_S_MAX} s, at last {last:?}")),
        }
    }

    fn ended(&self) -> Option<String> {
        match self.process().as_mut()?.ended() {
            Ok(status) => Some(status?.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn has_ended(&self) -> bool {
        self.ended().is_some()
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "the test cannot go on")]
    fn give_up(&self, trouble: &str) -> ! {
        panic!("{} on port {} {trouble}. Its log ends:\n{}", self.name, self.port(), last_lines(&self.log()));
    }

    fn log_file(&self) -> PathBuf {
        log_in(self.folder.path())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url).field("pids", &self.pids()).finish_non_exhaustive()
    }
}

/// A folder for a server's data, log and settings.
#[expect(clippy::panic, reason = "no test can go on without a folder")]
pub(crate) fn new_folder() -> TempDir {
    let made = tempfile::Builder::new().prefix("mintage-server-").tempdir();
    made.unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"))
}

/// The data, apart from the log. Made by whoever initialises it.
pub(crate) fn data_in(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Runs a program that prepares a folder to its end.
#[track_caller]
#[expect(clippy::panic, reason = "the test cannot go on")]
pub(crate) fn prepare(folder: &Path, command: &[OsString]) {
    let log = log_in(folder);
    let mut process =
        Process::start(command, folder, &log).unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let mut ended = None;
    Deadline::in_seconds(START_S_MAX).until(|| {
        ended = process.ended().ok().flatten();
        ended.is_some()
    });
    if !ended.is_some_and(|status| status.success()) {
        let log = fs::read(&log).unwrap_or_default();
        panic!("{command:?} failed ({ended:?}):\n{}", last_lines(&String::from_utf8_lossy(&log)));
    }
}

/// The words of a command line.
pub(crate) fn words<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Vec<OsString> {
    words.into_iter().map(Into::into).collect()
}

/// Runs a client's command and returns what it printed.
///
/// # Panics
/// Where it fails, with what it said.
#[track_caller]
#[expect(clippy::panic, reason = "the test cannot go on")]
pub(crate) fn output_of(command: &mut Command) -> String {
    match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
        Ok(output) => panic!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("cannot run {command:?}: {error}"),
    }
}

/// A name that every server takes for a database without quotes.
///
/// # Panics
/// For any other.
#[track_caller]
pub(crate) fn checked_name(name: &str) -> &str {
    const LEN_MAX: usize = 63; // PostgreSQL cuts longer ones off
    let fits = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    assert!(
        fits && name.len() <= LEN_MAX && name.starts_with(|first: char| first.is_ascii_lowercase()),
        "{name:?} cannot name a database here: a letter, then letters, digits and underscores, {LEN_MAX} at most"
    );
    name
}

fn log_in(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(LOG_LINES_SHOWN)).copied().collect::<Vec<_>>().join("\n")
}
