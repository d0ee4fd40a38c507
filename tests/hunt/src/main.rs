//! Hunts for duplicate ids, with real processes on a real server of each kind.
//!
//! ```console
//! $ cargo run --release -p mintage-hunt -- --all
//! ```
//!
//! | to find | open |
//! |---|---|
//! | a process that mints | `member.rs` |
//! | which stores, and what can befall their servers | `store.rs` |
//! | what befalls the fleet, and when | `nemesis.rs` |
//! | whether an id was made twice | `oracle.rs` |
//! | wrong rules that must be found | `mutant.rs` |
//! | what is printed and kept | `report.rs` |
#![cfg_attr(unix, expect(clippy::print_stdout, clippy::print_stderr, reason = "a program"))]

#[cfg(unix)]
mod fleet;
#[cfg(unix)]
mod member;
#[cfg(unix)]
mod mutant;
#[cfg(unix)]
mod nemesis;
#[cfg(unix)]
mod oracle;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod settings;
#[cfg(unix)]
mod store;

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == member::WORD) {
        return member::run(words.get(1..).unwrap_or_default());
    }
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", settings::USAGE);
        return ExitCode::SUCCESS;
    }
    match settings::Settings::parse(&words) {
        Ok(settings) => report::hunt(&settings),
        Err(told) => {
            eprintln!("{told}\n{}", settings::USAGE);
            ExitCode::from(2)
        }
    }
}
