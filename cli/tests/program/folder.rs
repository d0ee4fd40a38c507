//! A folder in which the program runs, and what came of a run.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use mintage::core::{Clock as _, SystemClock};
use serde_json::Value;
use tempfile::TempDir;

/// The config that comes with the program.
pub(crate) const SHIPPED: &str = include_str!("../../../mintage.toml");

/// No run takes so long, on however busy a machine.
const PATIENCE_MS: u64 = 120_000;

pub(crate) struct Folder {
    dir: TempDir,
}

impl Folder {
    /// Without any file: the program uses its built-in config.
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// With `config` as its mintage.toml.
    pub(crate) fn with(config: &str) -> Self {
        let folder = Self::empty();
        folder.write("mintage.toml", config);
        folder
    }

    /// With the config that comes with the program.
    pub(crate) fn shipped() -> Self {
        Self::with(SHIPPED)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The program with these arguments, in this folder, with nothing in its environment that the test did not put there. A
    /// zone far from UTC shows whoever reads local time.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mintage"));
        command.args(args).current_dir(self.dir.path()).env_clear().env("TZ", "Asia/Kolkata").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args), b"")
    }

    /// As [`run`](Self::run), with environment variables.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        run(command, b"")
    }

    /// As [`run`](Self::run), with something on stdin.
    pub(crate) fn feed(&self, stdin: &[u8], args: &[&str]) -> Ran {
        run(self.command(args), stdin)
    }

    /// Starts the program and lets it print into the file `name`.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Running {
        self.start_command(name, self.command(args))
    }

    /// As [`start`](Self::start), with a command made by the test.
    pub(crate) fn start_command(&self, name: &str, mut command: Command) -> Running {
        let printed = self.path(name);
        command.stdout(File::create(&printed).unwrap()).stderr(Stdio::piped());
        Running { child: command.spawn().unwrap(), printed }
    }
}

/// How a run ended and what it printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Checks what holds for every run that nobody killed.
    pub(crate) fn of(output: Output) -> Self {
        let out = String::from_utf8(output.stdout).expect("stdout is UTF-8");
        let err = String::from_utf8(output.stderr).expect("stderr is UTF-8");
        let Some(code) = output.status.code() else { panic!("ended by {}: {err}", output.status) };
        let ran = Self { code, out, err };
        assert!((0..=4).contains(&ran.code), "an exit code that is not documented: {ran:?}");
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "escape codes without a terminal: {ran:?}");
        if ran.code > 0 {
            assert!(!ran.err.trim().is_empty(), "a failure says why: {ran:?}");
        }
        ran
    }

    /// Ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Says this on stderr.
    #[track_caller]
    pub(crate) fn says(self, what: &str) -> Self {
        assert!(self.err.contains(what), "{what:?} is missing in {self:?}");
        self
    }

    pub(crate) fn lines(&self) -> Vec<&str> {
        self.out.lines().collect()
    }

    /// The ids printed, all of them 64-bit numbers.
    #[track_caller]
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.out.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line:?} in {self:?}"))).collect()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A run on its way.
pub(crate) struct Running {
    child: Child,
    printed: PathBuf,
}

impl Running {
    /// Waits until it has printed something, or has ended.
    pub(crate) fn wait_for_output(&mut self) {
        let printed = self.printed.clone();
        let child = &mut self.child;
        until("the program prints", || {
            fs::metadata(&printed).unwrap().len() > 0 || child.try_wait().unwrap().is_some()
        });
    }

    /// Waits until it has printed something more, or has ended. Says whether it goes on.
    pub(crate) fn goes_on(&mut self) -> bool {
        let len = || fs::metadata(&self.printed).unwrap().len();
        let (before, child) = (len(), &mut self.child);
        let mut ended = false;
        until("the program prints more", || {
            ended = child.try_wait().unwrap().is_some();
            ended || len() > before
        });
        !ended
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Ends it as a power cut would. `false` if it had ended before.
    pub(crate) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        status.code().is_none()
    }

    /// Waits for its end, however it comes.
    pub(crate) fn status(self) -> (ExitStatus, Vec<u64>) {
        let printed = self.printed.clone();
        let output = finish(self.child);
        (output.status, numbers_in(&printed))
    }

    /// Waits for its end, which must be one of its own.
    pub(crate) fn end(self) -> Ran {
        let printed = self.printed.clone();
        let mut output = finish(self.child);
        output.stdout = fs::read(printed).unwrap();
        Ran::of(output)
    }
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command, stdin: &[u8]) -> Ran {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if !stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    let feeder = child.stdin.take().map(|mut pipe| {
        let stdin = stdin.to_vec();
        // The program may end without reading all of it.
        thread::spawn(move || drop(pipe.write_all(&stdin)))
    });
    let ran = Ran::of(finish(child));
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    ran
}

/// Waits for the end of a child, but not for ever.
pub(crate) fn finish(child: Child) -> Output {
    let id = child.id();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    match receive.recv_timeout(Duration::from_millis(PATIENCE_MS)) {
        Ok(output) => output.unwrap(),
        Err(_) => panic!("process {id} does not end"),
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(sent.success(), "kill -{name}");
}

/// Looks again and again until `reached`.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end_ms = SystemClock.boot_ms() + PATIENCE_MS;
    while !reached() {
        assert!(SystemClock.boot_ms() < end_ms, "still waiting until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The 64-bit ids in a file, without a last line that was cut off.
pub(crate) fn numbers_in(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line:?} in {}", path.display()))).collect()
}

/// No number twice.
#[track_caller]
pub(crate) fn assert_distinct(mut numbers: Vec<u64>) {
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        panic!("{} came twice, among {} numbers", pair[0], numbers.len());
    }
}

/// Says that a test did not run, so loudly that nobody takes it for passed; in CI it counts as failed.
pub(crate) fn skip(name: &str, reason: &str) {
    // Not `eprintln!`, which the test runner keeps to itself.
    std::io::stderr().write_all(format!("SKIPPED: {name}: {reason}\n").as_bytes()).unwrap();
    let all_required = std::env::var_os("MINTAGE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_required, "{name} must run here: {reason}");
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}
