//! A wrong clock stops minting or wastes a worker id; it never repeats an id.
//!
//! The clock is that of one process, turned by libfaketime; the machine's own is left alone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    folder::{Folder, Ran, Running, SHIPPED, assert_distinct, numbers_in, run, skip},
    kills::free_in_ms,
    refusals::two_workers_config,
};

/// A folder whose runs see another time.
struct Turned {
    folder: Folder,
    library: PathBuf,
}

impl Turned {
    /// `None`, loudly, without the library.
    fn new(test: &str, config: &str) -> Option<Self> {
        let library = library();
        if library.is_none() {
            skip(test, "libfaketime.so.1 is not there (Debian and Ubuntu: apt-get install faketime)");
        }
        Some(Self { folder: Folder::with(config), library: library? })
    }

    /// Without a wrong time it is the machine's.
    fn run(&self, time: &str, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.env("FAKETIME", time);
        run(command, b"")
    }

    /// Starts a run whose time is kept in the file `hands`, so that it can be turned meanwhile.
    fn start(&self, name: &str, args: &[&str]) -> Running {
        self.turn("+0");
        let mut command = self.command(args);
        command.env("FAKETIME_TIMESTAMP_FILE", self.folder.path("hands")).env("FAKETIME_NO_CACHE", "1");
        self.folder.start_command(name, command)
    }

    fn turn(&self, time: &str) {
        self.folder.write("hands.new", time);
        fs::rename(self.folder.path("hands.new"), self.folder.path("hands")).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.folder.command(args);
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("TZ", "UTC");
        command
    }
}

fn library() -> Option<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib"), PathBuf::from("/usr/lib64"), PathBuf::from("/usr/local/lib")];
    folders.extend(fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path()));
    folders.into_iter().map(|folder| folder.join("faketime/libfaketime.so.1")).find(|path| Path::is_file(path))
}

#[test]
fn an_hour_back_between_two_runs_repeats_nothing() {
    let Some(turned) = Turned::new("an_hour_back_between_two_runs_repeats_nothing", SHIPPED) else { return };
    let (mut events, mut orders) = (Vec::new(), Vec::new());
    for time in ["+0", "-1h", "-1h", "+0", "-2h", "-30m", "+0"] {
        events.extend(turned.run(time, &["new", "events", "-n", "10000"]).expect(0).numbers());
        orders.extend(turned.run(time, &["new", "orders", "-n", "100"]).expect(0).numbers());
    }
    assert_distinct(events);
    assert_eq!(orders, Vec::from_iter(1..=700), "numbers know no time");
}

#[test]
fn a_clock_that_begins_anew_at_every_start_repeats_nothing() {
    // A machine without a battery for its clock wakes up at the same instant every time. Two worker ids have no way out.
    const TEST: &str = "a_clock_that_begins_anew_at_every_start_repeats_nothing";
    let Some(turned) = Turned::new(TEST, &two_workers_config()) else { return };
    let mut events = Vec::new();
    let mut runs = 0;
    for _ in 0..8 {
        let ran = turned.run("@2027-01-01 00:00:00", &["new", "events", "-n", "100000"]);
        // Once both have been used past that instant, they rest until then.
        if ran.code == 0 {
            runs += 1;
            events.extend(ran.numbers());
        } else {
            assert!(free_in_ms(&ran.expect(4)) > 0);
        }
    }
    assert!(runs >= 2);
    assert_distinct(events);
}

#[test]
fn eight_hours_ahead_and_back_repeats_nothing() {
    let Some(turned) = Turned::new("eight_hours_ahead_and_back_repeats_nothing", SHIPPED) else { return };
    let mut events = Vec::new();
    for time in ["+0", "+8h", "+0", "+8h", "+4h", "+0", "-1h", "+0"] {
        events.extend(turned.run(time, &["new", "events", "-n", "10000"]).expect(0).numbers());
    }
    assert_distinct(events);
}

#[test]
fn a_worker_id_used_in_the_future_says_until_when_it_rests() {
    let config = SHIPPED.replace("worker = { pool = \"main\" }", "worker = { pool = \"main\", id = 7 }");
    let Some(turned) = Turned::new("a_worker_id_used_in_the_future_says_until_when_it_rests", &config) else { return };
    let mut events = turned.run("+8h", &["new", "events", "-n", "10"]).expect(0).numbers();
    let refused = turned.run("+0", &["new", "events", "-n", "10"]).expect(4).says("worker id 7 is held or resting");
    let hours = free_in_ms(&refused) as f64 / 3_600_000.0;
    assert!((7.9..8.1).contains(&hours), "{refused:?}");
    events.extend(turned.run("+8h", &["new", "events", "-n", "10"]).expect(0).numbers());
    assert_distinct(events);
}

#[test]
fn an_hour_back_in_the_middle_of_a_run_repeats_nothing() {
    let Some(turned) = Turned::new("an_hour_back_in_the_middle_of_a_run_repeats_nothing", SHIPPED) else { return };
    let mut events = Vec::new();
    for nth in 0..4 {
        let name = format!("events.{nth}");
        let mut running = turned.start(&name, &["new", "events", "-n", "100000000"]);
        running.wait_for_output();
        turned.turn("-1h");
        running.end().expect(4).says("the clock went back 3").says("at most 10 ms are allowed");
        events.extend(numbers_in(&turned.folder.path(&name)));
        events.extend(turned.run("-1h", &["new", "events", "-n", "10000"]).expect(0).numbers());
        events.extend(turned.run("+0", &["new", "events", "-n", "10000"]).expect(0).numbers());
    }
    assert!(events.len() > 80_000);
    assert_distinct(events);
}

#[test]
fn many_small_steps_in_the_middle_of_a_run_repeat_nothing() {
    // Steps within `max_drift` are borrowed from the time to come, so the run goes on through all of them.
    let config = SHIPPED.replace("max_drift = \"10ms\"", "max_drift = \"30s\"");
    let Some(turned) = Turned::new("many_small_steps_in_the_middle_of_a_run_repeat_nothing", &config) else { return };
    let mut running = turned.start("events", &["new", "events", "-n", "1000000"]);
    running.wait_for_output();
    for time in ["-3s", "+2s", "-8s", "+9s", "-10s", "+0"] {
        turned.turn(time);
    }
    let ids = running.end().expect(0).numbers();
    assert_eq!(ids.len(), 1_000_000);
    assert!(ids.is_sorted_by(|one, two| one < two));
}

#[test]
fn a_clock_before_the_epoch_is_named() {
    const TEST: &str = "a_clock_before_the_epoch_is_named";
    let Some(turned) = Turned::new(TEST, SHIPPED) else { return };
    // At the start it cannot be told from an epoch written wrongly: the message names both.
    for time in ["@2020-06-01 12:00:00", "@1969-12-31 12:00:00", "@2025-12-31 23:59:50"] {
        for entity in ["events", "orders"] {
            let ran =
                turned.run(time, &["new", entity]).expect(2).says("is in the future").says("set this machine's clock");
            assert_eq!(ran.out, "");
        }
        turned.run(time, &["check"]).expect(1);
    }
    // Later it can.
    let mut running = turned.start("events", &["new", "events", "-n", "100000000"]);
    running.wait_for_output();
    turned.turn("@2020-06-01 12:00:00");
    running.end().expect(4).says("before the epoch").says("set the clock");
    let events = numbers_in(&turned.folder.path("events"));
    assert!(!events.is_empty());
    assert_distinct([events, turned.run("+0", &["new", "events", "-n", "10000"]).expect(0).numbers()].concat());

    let plain = "version = 1\n[entities.uploads]\nscheme = \"ksuid\"\n[entities.users]\nscheme = \"uuidv7\"\n\
                 [entities.documents]\nscheme = \"ulid\"\n[stores.main]\nurl = \"memory:\"\n";
    let Some(turned) = Turned::new(TEST, plain) else { return };
    turned.run("@2014-05-13 16:53:19", &["new", "uploads"]).expect(4).says("before the epoch");
    for entity in ["uploads", "users", "documents"] {
        let ran = turned.run("@1969-12-31 12:00:00", &["new", entity]).expect(4).says("before the epoch");
        assert_eq!(ran.out, "");
    }
}

#[test]
fn the_end_of_a_time_field_is_foreseen_and_is_an_end() {
    const TEST: &str = "the_end_of_a_time_field_is_foreseen_and_is_an_end";
    let Some(turned) = Turned::new(TEST, SHIPPED) else { return };
    let end = "2095-09-07T15:47:35.551Z";
    turned.run("@2093-09-01 00:00:00", &["new", "events"]).expect(0);
    turned.run("@2094-06-01 00:00:00", &["new", "events"]).expect(2).says("within two years").says(end);
    for command in ["check", "new"] {
        let args = if command == "new" { &["new", "events"][..] } else { &["check"] };
        let ran = turned.run("@2096-06-01 00:00:00", args).expect(if command == "new" { 2 } else { 1 });
        let told = format!("{}{}", ran.out, ran.err);
        assert!(told.contains("entities.events.layout") && told.contains("used up") && told.contains(end), "{told}");
    }
    // Allowed by name, it mints to the last millisecond and no further.
    let allowed = SHIPPED.replace("worker = { pool", "allow = [\"short-life\"]\nworker = { pool");
    let Some(turned) = Turned::new(TEST, &allowed) else { return };
    let mut events = turned.run("@2094-06-01 00:00:00", &["new", "events", "-n", "5"]).expect(0).numbers();
    let running = turned.folder.start_command("last", {
        let mut command = turned.command(&["new", "events", "-n", "100000000"]);
        command.env("FAKETIME", "@2095-09-07 15:47:34");
        command
    });
    running.end().expect(4).says("no number left for good");
    events.extend(numbers_in(&turned.folder.path("last")));
    assert!(events.is_sorted_by(|one, two| one < two));
    assert!(events.iter().all(|id| *id < 1 << 63));
    let ksuid = "version = 1\n[entities.uploads]\nscheme = \"ksuid\"\n[stores.main]\nurl = \"memory:\"\n";
    let Some(turned) = Turned::new(TEST, ksuid) else { return };
    turned.run("@2150-06-19 23:21:30", &["new", "uploads"]).expect(0);
    turned.run("@2150-06-19 23:21:36", &["new", "uploads"]).expect(4).says("no number left for good");
}

/// A machine whose clock since boot is another: of a virtual machine that was moved, or of a container in a time namespace. The strict
/// rule reads it, and compares it with nobody else's.
#[cfg(target_os = "linux")]
#[test]
fn another_clock_since_boot_stops_nobody_and_repeats_nothing() {
    const TEST: &str = "another_clock_since_boot_stops_nobody_and_repeats_nothing";
    const LATER_S: u64 = 40_000_000;
    let config = two_workers_config().replace("window = \"3s\"", "window = \"3s\", stop = \"1500ms\"");
    // Few ids in a millisecond: they last for some windows.
    let folder = Folder::with(&config.replace("sequence = 12", "sequence = 2"));
    let Some(elsewhere) = elsewhere(LATER_S) else {
        return skip(TEST, "no time namespace can be made (`unshare --time`): Linux 5.6, and root or user namespaces");
    };
    let moved = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(&elsewhere).arg(env!("CARGO_BIN_EXE_mintage")).args(args).current_dir(folder.path(""));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    };
    let mut events = Vec::new();
    for _ in 0..3 {
        events.extend(run(moved(&["new", "events", "-n", "2000"]), b"").expect(0).numbers());
        events.extend(folder.run(&["new", "events", "-n", "2000"]).expect(0).numbers());
    }
    // Both at once, for some windows and many renewals.
    let mut one = folder.start_command("moved", moved(&["new", "events", "-n", "30000"]));
    let mut other = folder.start("here", &["new", "events", "-n", "30000"]);
    one.wait_for_output();
    other.wait_for_output();
    events.extend(one.end().expect(0).numbers());
    events.extend(other.end().expect(0).numbers());
    assert_eq!(events.len(), 72_000);
    assert_distinct(events);
}

/// What makes `unshare` run a program whose clock since boot is so many seconds later, where that is allowed.
#[cfg(target_os = "linux")]
fn elsewhere(later_s: u64) -> Option<Vec<String>> {
    let later = later_s.to_string();
    let ways = [vec![], vec!["--map-root-user"]];
    ways.into_iter().find_map(|way| {
        let args: Vec<&str> = way.into_iter().chain(["--time", "--boottime", &later, "--"]).collect();
        let told = Command::new("unshare").args(&args).args(["cat", "/proc/uptime"]).output().ok()?;
        let uptime_s: f64 = String::from_utf8(told.stdout).ok()?.split(' ').next()?.parse().ok()?;
        (uptime_s > later_s as f64).then(|| args.into_iter().map(str::to_owned).collect())
    })
}
