//! Output that cannot be written, a machine without a thread to spare, stores that cannot be asked; and dry runs, which promise
//! nothing that the real run refuses.

use std::{fs::OpenOptions, process::Stdio};

use crate::folder::{Folder, Ran, SHIPPED, finish, skip};

/// A run whose stdout is a device that is always full.
fn on_a_full_disk(folder: &Folder, args: &[&str]) -> Ran {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = folder.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    Ran::of(finish(child))
}

#[test]
fn every_command_says_that_its_output_cannot_be_written() {
    let folder = Folder::shipped();
    for entity in ["orders", "events", "users"] {
        folder.run(&["new", entity]).expect(0);
    }
    let commands: &[&[&str]] = &[
        &["new", "users"],
        &["new", "users", "-o", "json"],
        &["new", "orders", "-n", "3", "-o", "csv"],
        &["inspect", "175928847299117063"],
        &["inspect", "175928847299117063", "-o", "json"],
        &["at", "events", "2026-11-30T09:15:02.417Z"],
        &["check"],
        &["check", "-o", "json"],
        &["doctor"],
        &["doctor", "-o", "csv"],
        &["explain", "events"],
        &["keys", "show"],
        &["sequences", "list"],
        &["tokens", "pattern", "api_keys"],
        &["workers"],
        &["workers", "-o", "json"],
        &["store", "ddl"],
        &["schema"],
        &["completions", "bash"],
        &["--help"],
        &["new", "--help"],
        &["--version"],
    ];
    for args in commands {
        on_a_full_disk(&folder, args).expect(4).says("the output cannot be written");
    }
    let id = folder.run(&["new", "users"]).expect(0).out.trim().to_owned();
    on_a_full_disk(&folder, &["inspect", &id]).expect(4).says("the output cannot be written");
}

#[test]
fn a_token_that_nobody_saw_is_named_and_revoked() {
    let folder = Folder::shipped();
    for output in ["text", "json", "csv"] {
        let told = on_a_full_disk(&folder, &["tokens", "issue", "api_keys", "-o", output]).expect(4);
        let id = told.err.split("token ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        assert!(told.err.contains("it was revoked") && !told.err.contains("acme_pat_"), "{told:?}");
        let listed = folder.run(&["tokens", "list", "api_keys", "-o", "json"]).expect(0).json();
        let row = listed.as_array().unwrap().iter().find(|row| row["id"] == *id).unwrap().clone();
        assert_eq!(row["state"], "revoked", "{row}");
    }
    // A reader that is gone has not seen it either.
    let mut child =
        folder.command(["tokens", "issue", "api_keys"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Ran::of(finish(child)).expect(4).says("it was revoked");
}

#[test]
fn verifying_without_a_token_blames_nobody() {
    let folder = Folder::shipped();
    let told = folder.run(&["tokens", "verify", "api_keys"]).expect(2).says("write -");
    assert!(!told.err.contains("revoked"), "{told:?}");
    let told = folder.run(&["tokens", "verify", "api_keys", "acme_pat_x"]).expect(2).says("should be revoked");
    assert!(!told.err.contains("acme_pat_x"), "{told:?}");
}

/// As a user who may start no further thread. The superuser may start as many as there is room for.
#[test]
fn a_machine_without_a_thread_to_spare() {
    let folder = Folder::shipped();
    // Where the program was built another user may not look.
    std::fs::copy(env!("CARGO_BIN_EXE_mintage"), folder.path("program")).unwrap();
    let limited = |args: &str| {
        let as_another: &[&str] = match is_root() {
            true => &["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"],
            false => &["env"],
        };
        let mut command = std::process::Command::new(as_another[0]);
        command.args(&as_another[1..]).args(["prlimit", "--nproc=1", "./program"]).args(args.split(' '));
        command.current_dir(folder.path("")).env_clear().stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.map(finish)
    };
    open_to_all(&folder);
    let Ok(tried) = limited("--version") else { return skip("threads", "setpriv or env is not there") };
    if !tried.status.success() {
        return skip("threads", "prlimit is not there, or another user cannot run the program here");
    }
    // What opens no store needs no thread.
    Ran::of(limited("explain events").unwrap()).expect(0);
    for args in ["new orders", "new users -n 5000", "check", "doctor", "sequences list", "tokens list api_keys"] {
        Ran::of(limited(args).unwrap()).expect(4).says("the system gives this program no thread");
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn open_to_all(folder: &Folder) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder.path(""), std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Nothing is said of a counter whose store cannot be asked, least of all that it was not used.
#[test]
fn counters_in_a_store_that_cannot_be_asked() {
    let down = SHIPPED.replace("default = \"sqlite:mintage.db\"", "default = \"postgres://me@127.0.0.1:1/ids\"");
    let folder = Folder::with(
        &format!("{down}\n[stores.other]\nurl = \"sqlite:other.db\"\n")
            .replace(
                "[entities.users]",
                "[entities.tickets]\nscheme = \"segment\"\nstore = \"other\"\n\n[entities.users]\nstore = \"main\"",
            )
            .replace("[entities.documents]", "[entities.documents]\nstore = \"main\"")
            .replace("[entities.uploads]", "[entities.uploads]\nstore = \"main\"")
            .replace("epoch  =", "store = \"main\"\nepoch  =")
            .replace("prefix  = \"acme_pat_\"", "store = \"main\"\nprefix  = \"acme_pat_\""),
    );
    for output in ["text", "json", "csv"] {
        let told = folder.run(&["sequences", "list", "-o", output]).expect(3).says("cannot be reached");
        assert!(told.out.contains("tickets") && !told.out.contains("orders"), "{told:?}");
    }
    folder.run(&["sequences", "raise", "orders", "5", "--dry-run"]).expect(3).says("store main");
    folder.run(&["sequences", "raise", "invoices", "5", "--dry-run"]).expect(3).says("cannot be reached");
    folder.run(&["sequences", "raise", "tickets", "5", "--yes"]).expect(0);
}

#[test]
fn a_dry_run_promises_only_what_the_real_run_does() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders", "-n", "9"]).expect(0);
    let too_far = (1_u64 << 63) + 1;
    for number in [too_far.to_string(), u64::MAX.to_string()] {
        for how in ["--dry-run", "--yes"] {
            let told = folder.run(&["sequences", "raise", "orders", &number, how]).expect(2);
            assert!(told.out.is_empty() && told.err.contains("is above 9223372036854775807"), "{told:?}");
        }
    }
    for number in ["10", "3", "0"] {
        let told = folder.run(&["sequences", "raise", "orders", number, "--yes"]).expect(0);
        assert!(told.out.contains("stays 10"), "{told:?}");
    }
    folder.run(&["sequences", "raise", "orders", "11"]).expect(4).says("not confirmed");

    let unclaimed = ["revoke main 5", "release main 5"];
    folder.run(&["store", "init"]).expect(0);
    let both = |what: &str, code: i32| {
        for how in ["--dry-run", "--yes"] {
            let args: Vec<&str> = ["workers"].into_iter().chain(what.split(' ')).chain([how]).collect();
            let told = folder.run(&args);
            assert_eq!(told.code, code, "{told:?}");
            assert_eq!(told.out.is_empty(), code != 0, "{told:?}");
        }
    };
    unclaimed.iter().for_each(|what| both(what, 2));
    folder.run(&["new", "events"]).expect(0);
    unclaimed.iter().for_each(|what| both(what, 0));
    for what in
        ["revoke main 256", "release main 256", "release main 700", "revoke main 5 --region xx", "revoke other 5"]
    {
        both(what, 2);
    }
}

#[test]
fn keys_that_are_not_there() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders"]).expect(0);
    for how in ["--dry-run", "--yes"] {
        let told = folder.run(&["keys", "revoke", "main", "--version", "9", how]).expect(2);
        assert!(told.err.contains("there is no version 9 to revoke (known: 1)") && told.out.is_empty(), "{told:?}");
        folder.run(&["keys", "revoke", "main", "--version", "1", how]).expect(2).says("still owns ids");
    }
    std::fs::rename(folder.path("mintage.keys"), folder.path("kept.keys")).unwrap();
    for args in [&["keys", "show"][..], &["keys", "revoke", "main", "--version", "1", "--yes"]] {
        let told = folder.run(args).expect(2).says("put the file back from a copy");
        assert!(!told.err.contains("keys new"), "{told:?}");
    }
    Folder::shipped().run(&["keys", "show"]).expect(2).says("mintage keys new");
}

/// 2 where the config has to change, 3 where the store has to be reached or mended, whatever is asked.
#[test]
fn an_unusable_store_ends_every_command_in_the_same_way() {
    let config = |url: &str| {
        format!(
            "version = 1\n[entities.orders]\nscheme = \"segment\"\n[entities.keys]\nscheme = \"bearer\"\nprefix = \"acme_pat_\"\n\
             [entities.events]\nscheme = \"snowflake\"\nepoch = \"2026-01-01T00:00:00Z\"\n\
             layout = {{ time = 41, worker = 10, sequence = 12 }}\nworker = {{ pool = \"main\" }}\n\
             [series.receipts]\nformat = \"RE-{{n:06}}\"\n[workers.main]\n[stores.main]\nurl = \"{url}\"\n"
        )
    };
    let folder = Folder::empty();
    folder.write("a-file", "");
    folder.write("garbage.db", "this is no database");
    folder.write("bad/state.json", "this is no state");
    folder.write("a-folder/empty", "");
    for (url, code) in [
        ("sqlite:none/ids.db", 2),
        ("sqlite:a-file/ids.db", 2),
        ("sqlite:a-folder", 2),
        ("sqlite:garbage.db", 3),
        ("file:none/ids", 2),
        ("file:a-file", 2),
        ("file:bad", 3),
        ("postgres://me@127.0.0.1:1/ids", 3),
    ] {
        folder.write("mintage.toml", config(url));
        for args in [
            "new orders",
            "new receipts",
            "new events",
            "sequences list",
            "sequences raise orders 5 --dry-run",
            "sequences gaps orders",
            "tokens list keys",
            "workers",
            "workers history main",
            "workers revoke main 1 --dry-run",
            "store init",
            "store bump --dry-run",
        ] {
            let told = folder.run(&args.split(' ').collect::<Vec<_>>());
            assert_eq!(told.code, code, "{url} {args} {told:?}");
        }
        let told = folder.run(&["doctor"]).expect(1);
        assert!(told.out.contains("error    stores.main"), "{url} {told:?}");
        // Reading an id needs no store, and says what it did without.
        folder.run(&["inspect", "5"]).expect(0).says("reading without what this store knows");
    }
}
