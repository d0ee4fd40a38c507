//! What only the store in a folder goes through: torn and foreign files, deleted files.

use std::{fs, path::Path, sync::Arc, time::Duration};

use mintage_backends::FileStore;
use mintage_core::{
    ManualClock, RangeGrant, RangeHistory, RangeStore, Sequence, StoreError, StoreErrorKind, TokenRow, TokenStore,
};

use crate::{NOW_MS, count, holder, pool, terms};

async fn open(folder: &Path) -> Result<FileStore, StoreError> {
    FileStore::open(folder, Arc::new(ManualClock::at(NOW_MS)), Duration::from_secs(20)).await
}

/// A folder with some of everything in it, closed.
async fn used() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await.unwrap();
    store.create(&Sequence::new("orders", 1)).await.unwrap();
    store.allocate(&Sequence::new("orders", 1), count(10), None).await.unwrap();
    use mintage_core::LeaseStore;
    let which = mintage_core::WorkerChoice::Any;
    store.acquire(&pool("main", 0..4), which, &holder(u32::MAX), &terms()).await.unwrap();
    let mut token = TokenRow::new("api_keys", "7km1dzhm", [0xa7; 32], NOW_MS);
    token.scopes.push("orders:read".to_owned());
    store.insert(&token).await.unwrap();
    drop(store);
    let state = fs::read(folder.path().join("state.json")).unwrap();
    (folder, state)
}

#[tokio::test]
async fn torn_and_foreign_files_are_corrupt_and_left_alone() {
    let (folder, good) = used().await;
    let text = String::from_utf8(good.clone()).unwrap();
    let swap = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        text.replace(from, to).into_bytes()
    };
    let path = folder.path().join("state.json");
    let mut bad: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{}".to_vec(),
        b"null".to_vec(),
        b"a diary, not a store".to_vec(),
        vec![0; good.len()],
        vec![0xff; 64],
        [good.as_slice(), b"{}"].concat(),
        swap("mintage store", "another program"),
        swap("\"ledger\"", "\"something\""),
        swap("\"next\":11", "\"next\":-11"),
        swap("\"next\":11", "\"next\":9223372036854775809"),
        swap("\"next\":11", "\"next\":\"11\""),
        swap("\"next\":11", "\"next\":null"),
        swap("\"next\":11", "\"next\":1e3"),
        swap("\"next\":11", "\"nexxt\":11"),
        swap("\"orders\":{", "\"invoices\":{"),
        swap("\"block_len\":4", "\"block_len\":4294967295,\"block_start\":9").to_vec(),
        swap("\"block_start\":0", "\"block_start\":4294967295"),
        swap("\"block_len\":4", "\"block_len\":0"),
        swap("\"epoch\":1", "\"epoch\":18446744073709551615"),
        swap("\"inc\":1", "\"inc\":18446744073709551615"),
        swap("\"guard_ms\":1000", "\"guard_ms\":18446744073709551615"),
        swap("\"schema_version\":3", "\"schema_version\":0"),
        swap("a7a7", "A7a7"),
        swap("a7a7", "a7"),
        swap("orders:read", "Orders"),
        swap("\"id\":\"7km1dzhm\"", "\"id\":\"\""),
        swap(&format!("\"issued_ms\":{NOW_MS}"), "\"issued_ms\":18446744073709551615"),
    ];
    bad.extend((1..good.len()).step_by(7).map(|cut| good[..cut].to_vec()));
    for bytes in bad {
        fs::write(&path, &bytes).unwrap();
        let error = open(folder.path()).await.expect_err(&String::from_utf8_lossy(&bytes));
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}: {}", String::from_utf8_lossy(&bytes));
        assert_eq!(fs::read(&path).unwrap(), bytes, "the file was touched");
    }
    fs::write(&path, good).unwrap();
    let next = open(folder.path()).await.unwrap().allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap();
    assert_eq!(next.start, 11, "restored, it goes on");
}

#[tokio::test]
async fn a_file_that_breaks_while_open_is_not_overwritten() {
    let (folder, good) = used().await;
    let path = folder.path().join("state.json");
    let store = open(folder.path()).await.unwrap();
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    for _ in 0..2 {
        let error = store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), &good[..good.len() / 2]);
}

#[tokio::test]
async fn a_newer_version_is_refused_and_left_alone() {
    let (folder, good) = used().await;
    let path = folder.path().join("state.json");
    // A newer version may have any shape.
    let newer = br#"{"kind":"mintage store","schema_version":4,"shelves":[]}"#;
    fs::write(&path, newer).unwrap();
    let error = open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("newer Mintage (schema 4"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), newer);
    fs::write(&path, good).unwrap();
    open(folder.path()).await.unwrap();
}

/// A state of the first version has no place for tokens: it is read, and goes on as the present one.
#[tokio::test]
async fn a_state_of_version_1_is_brought_up_to_date() {
    let (folder, good) = used().await;
    let path = folder.path().join("state.json");
    let text = String::from_utf8(good).unwrap();
    let (before, _) = text.split_once(",\"tokens\":").unwrap();
    let old = format!("{}}}}}", before.replace("\"schema_version\":3", "\"schema_version\":1"));
    fs::write(&path, old).unwrap();
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.list("api_keys").await.unwrap(), []);
    assert_eq!(store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap().start, 11);
    store.insert(&TokenRow::new("api_keys", "7km1dzhm", [0xa7; 32], NOW_MS)).await.unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("\"schema_version\":3"));
    assert_eq!(open(folder.path()).await.unwrap().list("api_keys").await.unwrap().len(), 1);
}

/// A state of the second version has no history of ranges: it begins with the next range.
#[tokio::test]
async fn a_state_of_version_2_is_brought_up_to_date() {
    let (folder, good) = used().await;
    let path = folder.path().join("state.json");
    let text = String::from_utf8(good).unwrap();
    let (before, _) = text.split_once(",\"ranges\":").unwrap();
    let old = format!("{}}}}}", before.replace("\"schema_version\":3", "\"schema_version\":2"));
    fs::write(&path, old).unwrap();
    let store = open(folder.path()).await.unwrap().with_instance("billing-3");
    assert_eq!(store.list("api_keys").await.unwrap().len(), 1);
    let range = store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap();
    assert_eq!(store.range_history("orders", range.start - 1).await.unwrap(), RangeHistory::default());
    let history = store.range_history("orders", range.start).await.unwrap();
    assert_eq!(history.grants, [RangeGrant::new(range.start, range.end, "billing-3", NOW_MS)]);
    assert!(fs::read_to_string(&path).unwrap().contains("\"schema_version\":3"));
}

/// Whoever looks leaves a state of an older version to those who use it.
#[tokio::test]
async fn a_look_brings_nothing_up_to_date() {
    let (folder, good) = used().await;
    let path = folder.path().join("state.json");
    let text = String::from_utf8(good).unwrap();
    let (before, _) = text.split_once(",\"ranges\":").unwrap();
    let old = format!("{}}}}}", before.replace("\"schema_version\":3", "\"schema_version\":2"));
    fs::write(&path, &old).unwrap();
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.sequences().await.unwrap().len(), 1);
    assert!(store.waiting().await.unwrap().is_empty());
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
}

#[tokio::test]
async fn a_deleted_state_is_not_made_again_by_a_call() {
    let (folder, _) = used().await;
    let store = open(folder.path()).await.unwrap();
    fs::remove_file(folder.path().join("state.json")).unwrap();
    let error = store.allocate(&Sequence::new("orders", 1), count(1), None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::RolledBack, "{error}");
    assert!(!folder.path().join("state.json").exists());
}

#[tokio::test]
async fn a_deleted_lock_file_and_a_leftover_of_a_crash_do_no_harm() {
    let (folder, _) = used().await;
    let (one, two) = (open(folder.path()).await.unwrap(), open(folder.path()).await.unwrap());
    fs::write(folder.path().join("state.json.tmp"), "half a sta").unwrap();
    fs::remove_file(folder.path().join("lock")).unwrap();
    let mut ranges = Vec::new();
    for _ in 0..5 {
        ranges.push(one.allocate(&Sequence::new("orders", 1), count(3), None).await.unwrap());
        ranges.push(two.allocate(&Sequence::new("orders", 1), count(3), None).await.unwrap());
    }
    crate::assert_disjoint(ranges);
    let lock = fs::read_to_string(folder.path().join("lock")).unwrap();
    assert!(lock.contains("Leave it"), "whoever opens the lock file reads why it is there: {lock:?}");
}

/// A disk that hangs holds a thread of its own up, not the runtime: the timeout cuts the call off. A named pipe in place of the lock
/// hangs in `open` until somebody reads from it.
#[cfg(unix)]
#[test]
fn a_lock_file_that_hangs_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let (tell, told) = std::sync::mpsc::channel();
    let path = folder.path().to_owned();
    let opening = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let outcome = runtime.block_on(FileStore::open(path, clock, Duration::from_millis(200)));
        tell.send(outcome.map(drop)).unwrap();
    });
    let outcome = told.recv_timeout(Duration::from_secs(10));
    // Lets whoever hangs go on.
    drop(fs::File::open(&lock).unwrap());
    let error = outcome.expect("it is cut off").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("did not answer within 200 ms"), "{error}");
    opening.join().unwrap();
}
