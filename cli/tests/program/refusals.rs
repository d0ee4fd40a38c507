//! The exit code says whose move it is: 2 the config's, 3 the store's, 4 the clock's, the lease's or the sequence's.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::{Child, ChildStdout, Stdio},
};

use mintage::core::{Clock as _, SystemClock};
use sqlx::{Connection as _, sqlite::SqliteConnection};

use crate::{
    folder::{Folder, SHIPPED, assert_distinct, until},
    kills::free_in_ms,
};

const WINDOW_MS: u64 = 3_000;

/// Two worker ids and windows of three seconds.
pub(crate) fn two_workers_config() -> String {
    "version = 1\n\
     [entities.events]\n\
     scheme = \"snowflake\"\n\
     epoch = \"2026-01-01T00:00:00Z\"\n\
     layout = { time = 41, worker = 1, sequence = 12 }\n\
     worker = { pool = \"main\" }\n\
     [workers.main]\n\
     lease = { ttl = \"2s\", renew = \"500ms\", window = \"3s\" }\n\
     [stores.main]\n\
     url = \"sqlite:mintage.db\"\n"
        .to_owned()
}

/// A process that keeps a worker id as long as it lives: nobody reads what it prints.
fn holder(folder: &Folder) -> (Child, BufReader<ChildStdout>, u64) {
    let mut command = folder.command(["new", "events", "-n", "100000000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let first = line.trim_end().parse().unwrap();
    (child, reader, first)
}

/// Runs `work` on a connection of our own.
pub(crate) fn with_database<T>(path: &Path, work: impl AsyncFnOnce(&mut SqliteConnection) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let done = work(&mut connection).await;
        connection.close().await.unwrap();
        done
    })
}

fn tamper(path: &Path, statement: &'static str) {
    with_database(path, async |connection| {
        let changed = sqlx::query(statement).execute(connection).await.unwrap();
        assert!(changed.rows_affected() > 0, "{statement}");
    });
}

#[test]
fn no_free_worker_says_until_when() {
    let folder = Folder::with(&two_workers_config());
    let (mut one, mut one_reader, first) = holder(&folder);
    let (mut two, mut two_reader, second) = holder(&folder);
    let refused = folder.run(&["new", "events"]).expect(4).says("all 2 worker ids of the pool are held or resting");
    assert!(free_in_ms(&refused) <= WINDOW_MS, "{refused:?}");
    assert_eq!(refused.out, "");
    one.kill().unwrap();
    two.kill().unwrap();
    let mut ids = vec![first, second];
    for reader in [&mut one_reader, &mut two_reader] {
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        ids.extend(whole.lines().map(|line| line.parse::<u64>().unwrap()));
    }
    one.wait().unwrap();
    two.wait().unwrap();
    until("the worker ids of the dead are free", || {
        let ran = folder.run(&["new", "events", "-n", "5"]);
        if ran.code == 0 {
            ids.extend(ran.numbers());
            return true;
        }
        assert!(free_in_ms(&ran.expect(4)) <= WINDOW_MS);
        false
    });
    assert_distinct(ids);
}

#[test]
fn a_file_that_is_no_database_is_left_as_it_is() {
    let folder = Folder::shipped();
    let text = "my notes, which are no database at all. ".repeat(100);
    folder.write("mintage.db", &text);
    for entity in ["orders", "events", "users"] {
        let ran = folder.run(&["new", entity]).expect(3).says("not an SQLite database");
        assert_eq!(ran.out, "");
    }
    assert_eq!(fs::read_to_string(folder.path("mintage.db")).unwrap(), text);
    // Ids can be read all the same.
    let told = folder.run(&["inspect", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]).expect(0);
    assert!(
        told.out.contains("2016-07-30T23:54:10.259Z") && told.err.contains("without what this store knows"),
        "{told:?}"
    );
}

#[test]
fn a_damaged_database_is_told() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders", "-n", "10"]).expect(0);
    with_database(&folder.path("mintage.db"), async |connection| {
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await.unwrap();
    });
    // The first page is the header and the list of tables; the others are spoiled.
    let mut file = fs::OpenOptions::new().write(true).open(folder.path("mintage.db")).unwrap();
    let length = file.metadata().unwrap().len();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xa5; usize::try_from(length).unwrap() - 4096]).unwrap();
    drop(file);
    let ran = folder.run(&["new", "orders"]).expect(3).says("restore");
    assert_eq!(ran.out, "");
}

#[test]
fn a_store_that_does_not_answer_is_unreachable() {
    let config = SHIPPED.replace("[keys.main]", "timeout = \"300ms\"\n\n[keys.main]");
    let folder = Folder::with(&config);
    folder.run(&["new", "orders"]).expect(0);
    with_database(&folder.path("mintage.db"), async |connection| {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.unwrap();
        let ran = folder.run(&["new", "orders"]).expect(3).says("300 ms");
        assert_eq!(ran.out, "");
        sqlx::query("ROLLBACK").execute(connection).await.unwrap();
    });
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [2]);
}

#[test]
fn a_place_where_no_database_can_be_is_a_setting_to_mend() {
    let folder = Folder::shipped();
    for (url, told) in [
        ("sqlite:no/such/folder/ids.db", "does not exist: make it first"),
        ("sqlite:.", "is a folder"),
        ("file:no/such/folder/ids", "no/such/folder"),
    ] {
        let ran = folder.run_with(&[("MINTAGE_STORE", url)], &["new", "orders"]).expect(2).says(told);
        assert_eq!(ran.out, "");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_place_that_cannot_be_written_is_unreachable() {
    // Not even root makes a file in /proc.
    let folder = Folder::shipped();
    folder.run_with(&[("MINTAGE_STORE", "sqlite:/proc/ids.db")], &["new", "orders"]).expect(3).says("cannot be opened");
}

#[test]
fn a_deleted_sequence_is_not_made_again() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders", "-n", "5"]).expect(0);
    tamper(&folder.path("mintage.db"), "DELETE FROM mintage_sequence");
    for _ in 0..2 {
        let ran = folder.run(&["new", "orders"]).expect(4).says("the store has no sequence orders: it was deleted");
        assert_eq!(ran.out, "", "1 would repeat");
        assert!(!ran.err.contains("more in about"), "no promise that a wait helps: {ran:?}");
    }
    assert_eq!(folder.run(&["new", "events"]).expect(0).lines().len(), 1, "others go on");
}

#[test]
fn a_deleted_pool_is_not_made_again() {
    let folder = Folder::shipped();
    folder.run(&["new", "events", "-n", "5"]).expect(0);
    tamper(&folder.path("mintage.db"), "DELETE FROM mintage_pool");
    for _ in 0..2 {
        let ran = folder.run(&["new", "events"]).expect(4).says("it was emptied or restored");
        assert_eq!(ran.out, "");
    }
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [1], "others go on");
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders"]).expect(0);
    tamper(&folder.path("mintage.db"), "UPDATE mintage_schema SET version = 9");
    folder.run(&["new", "orders"]).expect(2).says("written by a newer Mintage");
}

// B151, B159: the end of the signed 64 bits is an orderly end.
#[test]
fn the_last_number_is_minted_and_then_it_is_over() {
    let folder = Folder::with(&SHIPPED.replace("start  = 1", "start  = 9223372036854775806"));
    assert_eq!(folder.run(&["new", "orders"]).expect(0).out, "9223372036854775806\n");
    assert_eq!(folder.run(&["new", "orders"]).expect(0).out, "9223372036854775807\n");
    for _ in 0..2 {
        let ran = folder.run(&["new", "orders"]).expect(4).says("9223372036854775807");
        assert_eq!(ran.out, "");
    }
}

#[test]
fn a_layout_that_ends_is_spent() {
    // Ends in 20 seconds, and ids may run a minute ahead: so the end comes at once.
    const UNITS: u64 = 1 << 22;
    let epoch_ms = SystemClock.unix_ms() + 20_000 - UNITS;
    let epoch = mintage::time::rfc3339(i64::try_from(epoch_ms).unwrap(), 1);
    let config = two_workers_config()
        .replace("2026-01-01T00:00:00Z", &epoch)
        .replace("{ time = 41, worker = 1, sequence = 12 }", "{ time = 22, worker = 1, sequence = 1 }")
        .replace("worker = { pool", "allow = [\"short-life\"]\nclock = { max_drift = \"60s\" }\nworker = { pool")
        .replace("window = \"3s\"", "window = \"60s\"");
    let folder = Folder::with(&config);
    let ran = folder.run(&["new", "events", "-n", "100000"]).expect(4).says("no number left for good");
    let ids = ran.numbers();
    assert!(ids.len() > 10_000 && ids.is_sorted_by(|one, two| one < two), "{}", ids.len());
    assert!(ids.iter().all(|id| *id < UNITS << 2), "never beyond the layout");
}

#[test]
fn a_changed_format_is_refused_by_field_and_nothing_is_minted() {
    let folder = Folder::shipped();
    assert_eq!(folder.run(&["new", "orders", "-n", "5"]).expect(0).lines().len(), 5);
    let mut events = folder.run(&["new", "events", "-n", "5"]).expect(0).numbers();
    folder.run(&["new", "documents"]).expect(0);
    for (entity, from, to, field) in [
        ("events", "2026-01-01T00:00:00Z", "2025-06-01T00:00:00Z", "epoch"),
        ("events", "worker = 10, sequence = 12", "worker = 12, sequence = 10", "layout"),
        ("events", "time = 41, worker", "fields = [\"worker\", \"time\", \"sequence\"], time = 41, worker", "layout"),
        ("events", "[entities.documents]", "text = \"base62\"\n[entities.documents]", "text"),
        ("orders", "start  = 1", "start  = 1000", "start"),
        ("orders", "start  = 1", "sequence = \"others\"", "sequence"),
        ("orders", "start  = 1", "text = \"crockford\"", "text"),
        ("documents", "scheme = \"ulid\"", "scheme = \"uuidv7\"", "scheme"),
    ] {
        assert!(SHIPPED.contains(from), "{from}");
        folder.write("mintage.toml", SHIPPED.replace(from, to));
        let ran = folder.run(&["new", entity]).expect(2).says(&format!("entities.{entity}"));
        assert!(ran.err.contains(field) && ran.err.contains("in the config and"), "{field}: {ran:?}");
        assert_eq!(ran.out, "");
    }
    folder.write("mintage.toml", SHIPPED);
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [6], "no number was taken meanwhile");
    events.extend(folder.run(&["new", "events", "-n", "5"]).expect(0).numbers());
    assert_distinct(events);
}

#[test]
fn settings_of_deployment_may_change() {
    let folder = Folder::shipped();
    folder.run(&["new", "orders", "-n", "5"]).expect(0);
    let mut events = folder.run(&["new", "events", "-n", "5"]).expect(0).numbers();
    let changed = SHIPPED
        .replace("range  = 1000", "range  = 7")
        .replace("refill_at = 0.2", "refill_at = 0.9")
        .replace("max_drift = \"10ms\"", "max_drift = \"20ms\"")
        .replace("ttl = \"10s\"", "ttl = \"20s\"");
    folder.write("mintage.toml", changed);
    assert_eq!(folder.run(&["new", "orders", "-n", "9"]).expect(0).numbers(), Vec::from_iter(6..15));
    events.extend(folder.run(&["new", "events", "-n", "5"]).expect(0).numbers());
    assert_distinct(events);
}
