//! What this process is called in leases, for people: host and boot; and its number, where it is one of several replicas.
//!
//! Never the process id alone: in containers it is 1 everywhere. It names a holder and proves nothing; what proves a holder is
//! its token.

use mintage_core::parse_decimal;

use crate::Environment;

/// Longest instance name, in characters.
const LEN_MAX: usize = 120;

/// `host-name/boot-id`, as far as the system tells them.
pub(crate) fn name() -> String {
    let host = host();
    let boot = first_line("/proc/sys/kernel/random/boot_id").and_then(|id| id.get(..8).map(str::to_owned));
    let whole = boot.map_or(host.clone(), |boot| format!("{host}/{boot}"));
    whole.chars().filter(|c| !c.is_control()).take(LEN_MAX).collect()
}

/// The number of this replica: `MINTAGE_ORDINAL`, else the digits after the last `-` of the host name.
///
/// # Errors
/// There is none, in words. Never 0 instead: two replicas without a number would both be the first.
pub(crate) fn ordinal(environment: &Environment) -> Result<u32, String> {
    let number = |text: &str| parse_decimal(text, u32::BITS).ok().and_then(|number| u32::try_from(number).ok());
    let value = |name: &str| environment.value(name).map_err(|error| error.to_string());
    if let Some(text) = value(Environment::ORDINAL)? {
        return number(text).ok_or_else(|| {
            format!("{} is {text:?}: set it to the number of this replica, such as 0", Environment::ORDINAL)
        });
    }
    let host = value("HOSTNAME")?.map_or_else(host, str::to_owned);
    let name = host.split('.').next().unwrap_or_default();
    let digits = name.rsplit_once('-').map(|(_, digits)| digits);
    digits.and_then(number).ok_or_else(|| {
        format!(
            "the host name {name:?} does not end in `-` and a number, and {} is not set: set it to the number of this replica",
            Environment::ORDINAL
        )
    })
}

fn host() -> String {
    first_line("/proc/sys/kernel/hostname")
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "unknown-host".to_owned())
}

/// The first line of a file that only Linux has.
fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}
