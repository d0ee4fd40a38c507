//! A process that does not outlive this one, however this one ends.
//!
//! The death signal of Linux does not serve: it comes when the *thread* that started the process ends, a server's own
//! children do not inherit it, and a change of user clears it. Instead a shell waits for the end of a pipe whose other end
//! only this process holds, kills the server and removes its folder.
//!
//! That shell is in the server's process group, and the server is its leader. So the server's pid cannot become another
//! process's while the shell lives, and the shell can never kill a stranger.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use crate::deadline::Deadline;

/// `$1` is the folder to remove, the rest the command. A server's children must die too: PostgreSQL's leave its process
/// group, and when they are stopped they do not notice the end of their parent. The shell that watches is none of them:
/// its own parent ends at once.
const WATCHED: &str = r#"
folder=$1
shift
exec 3<&0 </dev/null
watch() {
    # The system sends HUP to the group when the test process ends while the server is stopped.
    trap '' HUP INT TERM
    read -r _ <&3
    kill -STOP $$
    kill -KILL $$ $(cat /proc/$$/task/*/children)
    rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
}
( watch >/dev/null 2>&1 & )
exec "$@" 3<&-
"#;

/// A killed process is gone in milliseconds, unless it waits for a disk.
const END_S_MAX: u64 = 30;

#[derive(Debug)]
pub(crate) struct Process {
    /// Holds the pipe.
    child: Child,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    pub(crate) fn start(command: &[OsString], folder: &Path, log: &Path) -> io::Result<Self> {
        let output = OpenOptions::new().append(true).create(true).open(log)?;
        let child = Command::new("sh")
            .args([OsStr::new("-c"), OsStr::new(WATCHED), OsStr::new("sh"), folder.as_os_str()])
            .args(command)
            .current_dir(folder)
            // In a common one, a MariaDB that starts removes the temporary tables of another.
            .env("TMPDIR", folder)
            // A key pressed at the terminal ends this process, which then ends the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(File::try_clone(&output)?)
            .stderr(output)
            .spawn()?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process and its children, the process first.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.pid()];
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        pids
    }

    /// How it ended, if it did. Its pid stays its own: see the module.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Stops all of it where it stands.
    pub(crate) fn stop(&self) {
        // First the parent, so that it cannot start another child in between.
        signal("STOP", [i64::from(self.pid())]);
        signal("STOP", self.pids().into_iter().skip(1).map(i64::from));
        // The signal stops one thread after the other: until then some may still answer.
        let pids = self.pids();
        Deadline::in_seconds(END_S_MAX).until(|| pids.iter().all(|pid| stands_still(*pid)));
    }

    pub(crate) fn cont(&self) {
        signal("CONT", self.pids().into_iter().map(i64::from));
    }
}

impl Drop for Process {
    /// Ends all of it at once, as a crash would, and returns when nothing of it is left. The folder stays.
    fn drop(&mut self) {
        self.stop();
        let pids = self.pids();
        let group = -i64::from(self.pid());
        // The shell that watches is in the group: it must end before the pipe does, or it would remove the folder.
        signal("KILL", pids.iter().skip(1).copied().map(i64::from).chain([group]));
        // An error means that it is reaped already.
        let _ = self.child.wait();
        Deadline::in_seconds(END_S_MAX).until(|| pids.iter().all(|pid| is_gone(*pid)));
    }
}

/// By the shell's own `kill`: it is everywhere, and needs no unsafe code. A process that is gone is no error.
fn signal(name: &str, whom: impl IntoIterator<Item = i64>) {
    let whom: Vec<String> = whom.into_iter().map(|pid| pid.to_string()).collect();
    if whom.is_empty() {
        return;
    }
    let sent = Command::new("sh")
        .args(["-c", r#"signal=$1; shift; kill -s "$signal" -- "$@""#, "sh", name])
        .args(whom)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // Without a shell nothing was started either. While unwinding, a second panic would abort and hide the first.
    assert!(sent.is_ok() || thread::panicking(), "cannot run sh: {sent:?}");
}

/// Whether a process is gone, or only its entry waits for whoever inherited it.
fn is_gone(pid: u32) -> bool {
    is_in_state(format!("/proc/{pid}/stat"), &['Z', 'X'])
}

/// Whether none of its threads runs.
fn stands_still(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path().join("stat")).all(|stat| is_in_state(stat, &['T', 't', 'Z', 'X']))
}

/// Whether a process or thread is in one of these states, or gone.
fn is_in_state(stat: impl AsRef<Path>, states: &[char]) -> bool {
    let Ok(stat) = fs::read_to_string(stat) else { return true };
    // The name, in parentheses, may hold anything; the state follows it.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(states))
}
