//! Colours and progress on a terminal, and nothing of the kind elsewhere.

use std::process::{Command, Stdio};

use crate::folder::{Folder, finish, skip};

/// What a pseudo-terminal shows of a command line; `$0` is the program. `None`, loudly, without `script`.
fn on_a_terminal(test: &str, folder: &Folder, variables: &[(&str, &str)], line: &str) -> Option<String> {
    // The one of util-linux; that of the BSDs takes other options.
    let version = Command::new("script").arg("--version").stdout(Stdio::piped()).stderr(Stdio::null()).output();
    if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("util-linux")) {
        skip(test, "`script` of util-linux is not there (Debian and Ubuntu: apt-get install bsdutils)");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_mintage");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line.replace("$0", program), "/dev/null"])
        .current_dir(folder.path(""))
        .env_remove("NO_COLOR")
        .env_remove("MINTAGE_CONFIG")
        .env_remove("MINTAGE_STORE")
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_bits_are_coloured_on_a_terminal_only() {
    const TEST: &str = "the_bits_are_coloured_on_a_terminal_only";
    let folder = Folder::shipped();
    let line = "$0 inspect 175928847299117063";
    let Some(coloured) = on_a_terminal(TEST, &folder, &[], line) else { return };
    for colour in ["\u{1b}[34m", "\u{1b}[35m", "\u{1b}[32m", "\u{1b}[0m"] {
        assert!(coloured.contains(colour), "{coloured:?}");
    }
    let plain = on_a_terminal(TEST, &folder, &[("NO_COLOR", "1")], line).unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let unset = on_a_terminal(TEST, &folder, &[("NO_COLOR", "")], line).unwrap();
    assert_eq!(unset, coloured, "empty is unset");
    let json = on_a_terminal(TEST, &folder, &[], "$0 inspect 175928847299117063 -o json").unwrap();
    assert!(!json.contains('\u{1b}'), "{json:?}");
    // Colour only helps: without it the letters tell the same.
    let mut bare = coloured;
    for code in ["34", "35", "32", "33", "2", "0"] {
        bare = bare.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(bare, plain);
    let piped = folder.run_with(&[("NO_COLOR", "1")], &["inspect", "175928847299117063"]).expect(0);
    assert_eq!(piped.out, plain.replace('\r', ""));
    assert_eq!(folder.run(&["inspect", "175928847299117063"]).expect(0).out, piped.out);
}

#[test]
fn errors_and_help_are_plain_where_no_terminal_reads() {
    // `Folder::run` looks for escape codes in both streams of every run.
    let folder = Folder::shipped();
    for args in [&["--help"][..], &["new", "--help"], &["help", "inspect"], &["--version"]] {
        assert!(folder.run(args).expect(0).out.contains("mintage"));
    }
    folder.run(&["--nonsense"]).expect(2);
    folder.run_with(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], &["--nonsense"]).expect(2);
}

#[test]
fn progress_is_shown_on_a_terminal_whose_ids_go_elsewhere() {
    const TEST: &str = "progress_is_shown_on_a_terminal_whose_ids_go_elsewhere";
    let folder = Folder::shipped();
    let Some(shown) = on_a_terminal(TEST, &folder, &[], "$0 new orders -n 250000 > ids") else { return };
    assert!(shown.contains("250000 of 250000 ids, 100 %"), "{shown:?}");
    let few = on_a_terminal(TEST, &folder, &[], "$0 new orders -n 1000 > ids").unwrap();
    assert_eq!(few, "");
    let mixed = on_a_terminal(TEST, &folder, &[], "$0 new orders -n 250000 | tail -n 1").unwrap();
    assert!(mixed.contains("501000"), "{mixed:?}");
    assert_eq!(folder.run(&["new", "orders", "-n", "250000"]).expect(0).err, "", "a file gets no progress");
}
