//! What this process is called in leases, for people: host and boot.
//!
//! Never the process id alone: in containers it is 1 everywhere. It names a holder and proves nothing; what proves a holder is
//! its token.

/// Longest instance name, in characters.
const LEN_MAX: usize = 120;

/// `host-name/boot-id`, as far as the system tells them.
pub(crate) fn name() -> String {
    let host = first_line("/proc/sys/kernel/hostname")
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "unknown-host".to_owned());
    let boot = first_line("/proc/sys/kernel/random/boot_id").and_then(|id| id.get(..8).map(str::to_owned));
    let whole = boot.map_or(host.clone(), |boot| format!("{host}/{boot}"));
    whole.chars().filter(|c| !c.is_control()).take(LEN_MAX).collect()
}

/// The first line of a file that only Linux has.
fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}
