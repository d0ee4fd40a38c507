//! `mintage workers` and `mintage store` on an embedded store.

use crate::folder::Folder;

/// A folder in which a process was killed that held worker id 0, in region `eu` of pool `main`.
fn with_a_dead_holder() -> Folder {
    let folder = Folder::shipped();
    let mut running = folder.start("ids", &["new", "events", "-n", "100000000"]);
    running.wait_for_output();
    assert!(running.kill());
    folder
}

#[test]
fn the_holders_are_listed() {
    let folder = Folder::shipped();
    folder.run(&["workers"]).expect(0).says("no worker id was claimed yet");
    assert_eq!(folder.run(&["workers", "-o", "json"]).expect(0).json(), serde_json::json!([]));
    assert!(!folder.path("mintage.db").exists(), "a reader made a store");

    let folder = with_a_dead_holder();
    let told = folder.run_with(&[("MINTAGE_INSTANCE", "pod-7")], &["workers", "main", "-o", "json"]).expect(0).json();
    let row = &told[0];
    assert_eq!((&row["pool"], &row["region"], &row["worker"]), (&"main".into(), &"eu".into(), &0.into()));
    assert!(row["held"] == true && ["held", "expired"].contains(&row["state"].as_str().unwrap()), "{row}");
    assert!(row["floor"].as_str().unwrap().ends_with('Z') && row["expires"].is_string(), "{row}");
    let text = folder.run(&["workers"]).expect(0);
    assert_eq!(folder.run(&["workers", "list", "main"]).expect(0).lines().len(), 1);
    assert!(text.out.starts_with("main eu 0 ") && text.out.contains("expires"), "{text:?}");
    let csv = folder.run(&["workers", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines()[0], "pool,region,worker,state,instance,expires,floor,epoch,clock_offset_ms");
    assert!(csv.lines()[1].starts_with("main,eu,0,"), "{csv:?}");
    folder.run(&["workers", "other"]).expect(2).says("no pool \"other\" (known: main)");
}

/// The history is full, planted: the oldest had to go, and whoever asks is told so.
#[test]
fn a_history_that_was_cut_short_says_so() {
    let folder = Folder::shipped();
    let run = |args: &[&str]| folder.run_with(&[("MINTAGE_STORE", "file:ids")], args).expect(0);
    run(&["new", "events"]);
    assert_eq!(run(&["workers", "history", "main"]).err, "mintage: no lease of that instant is on record\n");
    let state = std::fs::read_to_string(folder.path("ids/state.json")).unwrap();
    let (before, rest) = state.split_once("\"grants\":[").unwrap();
    let (grant, after) = rest.split_once(']').unwrap();
    let grants = vec![grant; 10_000].join(",");
    folder.write("ids/state.json", format!("{before}\"grants\":[{grants}]{after}"));
    let told = run(&["workers", "history", "main", "-o", "csv"]);
    assert!(
        told.err.contains("this may not be all: this kind of store keeps the last 10000 grants of a pool"),
        "{told:?}"
    );
}

#[test]
fn history_names_who_could_make_an_id() {
    let folder = with_a_dead_holder();
    let id = folder.run(&["new", "events"]).expect(0).out.trim().to_owned();
    let inspected = folder.run(&["inspect", &id, "-o", "json"]).expect(0).json();
    let by = folder.run(&["workers", "history", "main", "--worker", "0", "-o", "json"]).expect(0).json();
    assert_eq!((&by[0]["worker"], &by[0]["epoch"]), (&0.into(), &1.into()), "{by} {inspected}");
    let text = folder.run(&["workers", "history", "main"]).expect(0);
    assert!(text.out.starts_with("main eu 0 ") && text.out.contains("claim 1"), "{text:?}");
    let csv = folder.run(&["workers", "history", "main", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines()[0], "pool,region,worker,instance,from,to,inc,epoch");
    let long_ago = ["workers", "history", "main", "--at", "2026-01-01T00:00:00Z"];
    folder.run(&long_ago).expect(0).says("no lease of that instant is on record");
    folder.run(&["workers", "history", "main", "--at", "yesterday"]).expect(2);
    folder.run(&["workers", "history", "main", "--at", "1969-01-01T00:00:00Z"]).expect(2).says("before 1970");
    folder.run(&["workers", "history", "other"]).expect(2).says("no pool \"other\"");
}

#[test]
fn revoked_and_released_after_a_word() {
    let folder = with_a_dead_holder();
    let state = |folder: &Folder| folder.run(&["workers", "-o", "json"]).expect(0).json()[0]["state"].clone();
    let floor = |folder: &Folder| folder.run(&["workers", "-o", "json"]).expect(0).json()[0]["floor"].clone();
    let before = (state(&folder), floor(&folder));
    let dry = folder.run(&["workers", "revoke", "main", "0", "--dry-run"]).expect(0);
    assert!(dry.out.contains("revoke main eu 0") && dry.out.contains("nobody gets it"), "{dry:?}");
    folder.run(&["workers", "revoke", "main", "0"]).expect(4).says("not confirmed: nothing was changed");
    assert_eq!(floor(&folder), before.1);
    assert_ne!(state(&folder), "revoked");
    folder.run(&["workers", "revoke", "main", "0", "--yes"]).expect(0).says("done");
    assert_eq!((state(&folder), floor(&folder)), ("revoked".into(), before.1.clone()));
    // One that nobody has claimed can be barred as well.
    folder.run(&["workers", "revoke", "main", "5", "--yes"]).expect(0);
    folder.run(&["workers", "release", "main", "0", "--yes"]).expect(0);
    assert_eq!(floor(&folder), before.1, "a release by hand lowers no floor");
    assert!(["resting", "free"].contains(&state(&folder).as_str().unwrap()));
    folder.run(&["workers", "revoke", "main", "256", "--yes"]).expect(2).says("has no worker id 256");
    folder.run(&["workers", "revoke", "main", "-1", "--yes"]).expect(2);
    folder.run(&["workers", "revoke", "main", "7", "--region", "xx", "--yes"]).expect(2).says("no region \"xx\"");
    folder.run(&["workers", "release", "other", "0", "--yes"]).expect(2).says("no pool \"other\"");
    Folder::shipped().run(&["workers", "revoke", "main", "0", "--yes"]).expect(2).says("no store at this address yet");
}

#[test]
fn stores_are_made_and_bumped() {
    let folder = Folder::shipped();
    folder.run(&["store", "bump", "--yes"]).expect(2).says("no store at this address yet");
    folder.run(&["store", "init"]).expect(0).says("stores.main: made");
    folder.run(&["store", "init", "main"]).expect(0).says("was there already");
    folder.run(&["store", "init", "other"]).expect(2).says("no store \"other\" (known: main)");
    folder.run(&["new", "orders"]).expect(0);
    let first = folder.run(&["new", "events"]).expect(0).numbers();
    let dry = folder.run(&["store", "bump", "--dry-run"]).expect(0);
    assert!(dry.out.contains("main eu") && dry.out.contains("orders"), "{dry:?}");
    assert!(dry.out.contains("so this machine's counts: 20"), "{dry:?}");
    folder.run(&["store", "bump"]).expect(4).says("not confirmed");
    folder.run(&["store", "bump", "--yes"]).expect(0).says("every pool of the store was bumped");
    // Windows begin after all that can have been granted: 63 seconds by default.
    folder.run(&["new", "events"]).expect(4).says("may have forgotten what it granted (`mintage store bump`");
    assert_eq!(first.len(), 1);
    // Its sequences wait, those that are not there too.
    folder.run(&["new", "orders"]).expect(4).says("mintage sequences raise");
    let list = folder.run(&["sequences", "list"]).expect(0).out;
    assert!(list.contains("gives none until it is raised") && list.starts_with('*'), "{list}");
    let raised = folder.run(&["sequences", "raise", "orders", "5000", "--yes"]).expect(0);
    assert!(raised.err.contains("mintage sequences raise '*' --store main"), "{raised:?}");
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [5000]);
    folder.run(&["sequences", "raise", "*", "7", "--yes"]).expect(2).says("has no next number: leave VALUE out");
    folder.run(&["sequences", "raise", "*"]).expect(4).says("not confirmed");
    folder.run(&["sequences", "raise", "*", "--yes"]).expect(0).says("new sequences are made in store main again");
    folder.run(&["sequences", "raise", "*", "--yes"]).expect(0).says("nothing was changed");
    folder.run(&["sequences", "raise", "orders"]).expect(2).says("next number");
    let list = folder.run(&["sequences", "list"]).expect(0).out;
    assert!(!list.contains('*') && !list.contains("gives none"), "{list}");
}

/// What is printed makes the same tables as the program does.
#[test]
fn the_tables_are_printed() {
    let folder = Folder::shipped();
    let printed = folder.run(&["store", "ddl"]).expect(0).out;
    let made = tokio::runtime::Runtime::new().unwrap().block_on(async {
        use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
        let options = SqliteConnectOptions::new().filename(folder.path("mintage.db")).create_if_missing(true);
        let mut conn = options.connect().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(printed)).execute(&mut conn).await.unwrap();
        let of_schema = "SELECT version FROM mintage_schema";
        sqlx::query_scalar::<_, i64>(of_schema).fetch_one(&mut conn).await.unwrap()
    });
    assert_eq!(made, 3);
    folder.run(&["store", "init"]).expect(0).says("was there already");
    folder.run(&["new", "orders"]).expect(0);
    let elsewhere =
        Folder::with("version = 1\n[entities.users]\nscheme = \"uuidv7\"\n[stores.main]\nurl = \"file:ids\"\n");
    elsewhere.run(&["store", "ddl"]).expect(2).says("file stores have no tables");
    let named = Folder::with(
        "version = 1\n[entities.orders]\nscheme = \"segment\"\n[stores.main]\nurl = \"sqlite:ids.db\"\ntable_prefix = \"billing_\"\n",
    );
    let printed = named.run(&["store", "ddl"]).expect(0).out;
    assert!(printed.contains("CREATE TABLE billing_pool") && !printed.contains("mintage_"), "{printed}");
    named.run(&["store", "init"]).expect(0).says("made");
    assert_eq!(named.run(&["new", "orders"]).expect(0).out, "1\n");
    assert!(named.run(&["sequences", "list"]).expect(0).out.starts_with("orders  next 2,"));
    folder.run(&["store", "ddl", "--function", "nothing", "--shard", "1"]).expect(2).says("no entity \"nothing\"");
    folder
        .run(&["store", "ddl", "--function", "orders", "--shard", "1"])
        .expect(2)
        .says("no worker id to carry a shard");
    folder.run(&["store", "ddl", "--function", "events", "--shard", "1024"]).expect(2).says("lies outside 0..1024");
    folder.run(&["store", "ddl", "--function", "events"]).expect(2);
}
