//! `mintage sequences`: shows what will change, asks, and only ever moves a counter up. And what `check` and `explain` say of counters.

use sqlx::Connection as _;

use crate::folder::{Folder, Ran};

const CONFIG: &str = "version = 1
[entities.orders]
scheme = \"segment\"
public = { form = \"number\", digits = 9, max_fill = 0.5, key = \"main\" }
[entities.users]
scheme = \"uuidv7\"
[series.invoices]
format = \"{yyyy}-{n:06}\"
zone = \"Europe/Berlin\"
gapless = true
[keys.main]
file = \"mintage.keys\"
[stores.main]
url = \"sqlite:ids.db\"
";

fn sql(folder: &Folder, file: &str, statements: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path(file)).create_if_missing(true);
        let mut connection = sqlx::sqlite::SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

fn new(folder: &Folder) -> String {
    folder.run(&["new", "orders"]).expect(0).out.trim().to_owned()
}

#[test]
fn raise_shows_asks_and_never_lowers() {
    let folder = Folder::with(CONFIG);
    let ran = folder.run(&["sequences", "list"]).expect(0);
    assert_eq!(ran.out, "orders  not used yet, began at 1, entity orders, store main\n");
    assert!(!folder.path("ids.db").exists(), "looking makes no store");
    let plan = "orders in store main: the next number 1 becomes 1000\n";
    assert_eq!(folder.run(&["sequences", "raise", "orders", "1000", "--dry-run"]).expect(0).out, plan);
    assert!(!folder.path("ids.db").exists(), "nor does a dry run");
    let ran = folder.run(&["sequences", "raise", "orders", "1000"]).expect(4).says("not confirmed");
    assert_eq!((ran.out.as_str(), folder.path("ids.db").exists()), (plan, false));
    assert_eq!(folder.run(&["sequences", "raise", "orders", "1000", "--yes"]).expect(0).out, plan);
    assert_eq!(new(&folder), "1000");
    // A number that the counter has passed may still be held by a process, so there is something to do and to ask.
    let ran = folder.run(&["sequences", "raise", "orders", "7"]).expect(4).says("not confirmed");
    assert!(ran.out.contains("stays 1001, which is not below 7; processes drop what they hold"), "{ran:?}");
    folder.run(&["sequences", "raise", "orders", "7", "--yes"]).expect(0);
    assert_eq!(new(&folder), "1001");
    // One that is not there is made, also where nothing has to be moved.
    let ran = folder.run(&["sequences", "raise", "invoices/2026", "1", "--yes"]).expect(0);
    assert!(ran.out.contains("it is made, with 1 as its next number"), "{ran:?}");
    assert!(folder.run(&["sequences", "list"]).expect(0).out.contains("invoices/2026  next 1, began at 1"));
    let list = folder.run(&["sequences", "list", "-o", "json"]).expect(0).json();
    let list = list.as_array().unwrap().iter().filter(|one| one["name"] == "orders").collect::<Vec<_>>();
    assert_eq!((&list[0]["next"], &list[0]["owner"]), (&"1002".into(), &"entity orders".into()), "{list:?}");
    let csv = folder.run(&["sequences", "list", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines()[0], "name,next,start,raises,owner,store,waits");
    assert!(csv.lines().contains(&"orders,1002,1,2,entity orders,main,no"), "{csv:?}");
}

#[test]
fn names_and_numbers_that_cannot_be_are_usage() {
    let folder = Folder::with(CONFIG);
    let raise = |name: &str, value: &str| folder.run(&["sequences", "raise", name, value, "--yes"]);
    raise("ordres", "5").expect(2).says("no sequence \"ordres\" (known: orders, invoices)");
    raise("users", "5").expect(2).says("uses uuidv7, which has no counter");
    raise("invoices", "5").expect(2).says("name the period, such as invoices/2026");
    raise("invoices/2026-11", "5").expect(2).says("name the period, such as invoices/2026");
    raise("orders", "9223372036854775809").expect(2).says("above 9223372036854775807");
    for value in ["-1", "x", "18446744073709551616", ""] {
        raise("orders", value).expect(2);
    }
    raise("invoices/2026", "5").expect(0);
    assert_eq!(new(&folder), "1");
}

/// Whoever raises a counter that waits says that all that was forgotten lies below. A number that the store itself still knows of
/// says nothing of the kind, and is a slip of the finger.
#[test]
fn a_wait_ends_only_above_what_the_store_knows() {
    let folder = Folder::with(CONFIG);
    assert_eq!(new(&folder), "1");
    folder.run(&["store", "bump", "--yes"]).expect(0);
    let raise = |more: &[&str]| folder.run(&[&["sequences", "raise"], more].concat());
    for value in ["0", "1"] {
        raise(&["orders", value, "--dry-run"]).expect(2).says("waits at 2, and");
        raise(&["orders", value, "--yes"]).expect(2).says("waits at 2, and");
    }
    folder.run(&["new", "orders"]).expect(4).says("raise");
    raise(&["orders", "2", "--yes"]).expect(0);
    assert_eq!(new(&folder), "2");
    // One that is not there may be one that was forgotten: it is made on somebody's word, wherever it is to stand.
    folder.run(&["sequences", "raise", "invoices/2026", "1", "--yes"]).expect(0);
    raise(&["*", "--store", "nope", "--yes"]).expect(2).says("no store \"nope\" (known: main)");
    assert!(folder.run(&["sequences", "list"]).expect(0).out.contains("no sequence is made that is not listed"));
    raise(&["*", "--yes"]).expect(0);
}

#[test]
fn the_store_that_is_named_is_the_one_that_is_meant() {
    let folder = Folder::with(
        "version = 1
[entities.orders]
scheme = \"segment\"
store = \"main\"
[series.invoices]
format = \"{yyyy}-{n:06}\"
zone = \"Europe/Berlin\"
store = \"main\"
[stores.main]
url = \"sqlite:ids.db\"
[stores.two]
url = \"sqlite:two.db\"
",
    );
    let raise = |name: &str, store: &str| folder.run(&["sequences", "raise", name, "50", "--store", store, "--yes"]);
    raise("orders", "two").expect(2).says("orders is in store main, not in two");
    raise("invoices/2026", "two").expect(2).says("in store main, not in two");
    raise("orders", "nope").expect(2).says("no store \"nope\" (known: ");
    raise("orders", "main").expect(0);
}

/// "2" comes after "17" there: adopting the largest would repeat fifteen numbers.
#[test]
fn a_column_of_texts_has_no_largest_number() {
    let folder = Folder::with(CONFIG);
    sql(
        &folder,
        "shop.db",
        "CREATE TABLE orders (id INTEGER, t TEXT, v VARCHAR(9)); INSERT INTO orders VALUES (1, '1', '1'), (2, '2', '2'), (17, '17', '17')",
    );
    for column in ["t", "v"] {
        let place = format!("sqlite:shop.db#orders.{column}");
        folder.run(&["sequences", "adopt", "orders", "--from", &place, "--yes"]).expect(2).says("holds texts");
        assert!(folder.run(&["doctor", "--column", &format!("orders={place}")]).expect(1).out.contains("holds texts"));
    }
    assert!(
        folder
            .run(&["sequences", "adopt", "orders", "--from", "sqlite:shop.db#orders.id", "--yes"])
            .expect(0)
            .out
            .contains("18")
    );
}

#[test]
fn adopt_reads_every_source_first_and_goes_above_the_largest() {
    let folder = Folder::with(CONFIG);
    sql(
        &folder,
        "one.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO orders VALUES (1204);",
    );
    sql(
        &folder,
        "two.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO orders VALUES (1300); DELETE FROM orders;
         CREATE TABLE id_blocks (name TEXT PRIMARY KEY, next_id INTEGER); INSERT INTO id_blocks VALUES ('orders', 14), ('x', 99);
         CREATE TABLE empty (id INTEGER);",
    );
    let adopt = |args: &[&str]| folder.run(&[&["sequences", "adopt", "orders"], args].concat());
    let shards = ["--from", "sqlite:one.db#orders.id", "--from", "env:SHARD2#orders.id"];
    let dry = folder.run_with(
        &[("SHARD2", "sqlite:two.db")],
        &[&["sequences", "adopt", "orders", "--dry-run"], &shards[..]].concat(),
    );
    let lines = dry.expect(0);
    let lines = lines.lines();
    assert!(lines[0].ends_with("one.db#orders.id  1204") && lines[1].ends_with("two.db#orders.id  1300"), "{lines:?}");
    assert_eq!(lines[2], "orders in store main: the next number 1 becomes 1301");
    assert!(!folder.path("ids.db").exists(), "a dry run makes nothing");

    let blocks = "sqlite:two.db#id_blocks.next_id[name=orders]";
    let ran = adopt(&["--from", blocks, "--block", "100", "--yes"]).expect(0);
    assert!(ran.out.ends_with("the next number 1 becomes 1500\n"), "block 14 may be used up to 1499: {ran:?}");
    assert_eq!(new(&folder), "1500");
    adopt(&["--from", "sqlite:two.db#empty.id", "--yes"]).expect(0).says("is it the right table?");
    assert_eq!(new(&folder), "1501");

    for (source, code, told) in [
        ("sqlite:two.db#nowhere.id", 2, "no such table or column"),
        ("sqlite:missing.db#orders.id", 3, "cannot be opened"),
        ("sqlite:two.db", 2, "write URL#TABLE.COLUMN"),
        ("env:NOT_SET#orders.id", 2, "NOT_SET is not set"),
        ("redis://x#a.b", 2, "no database that this build can read"),
        ("postgres://me:hunter2@host/db#a.b", 2, "a password among the arguments is seen"),
        ("postgres://me@127.0.0.1:1/db#a.b", 3, "cannot be reached"),
        ("sqlite:two.db#id_blocks.name", 2, "holds texts"),
    ] {
        let ran: Ran = adopt(&["--from", source, "--yes"]).expect(code).says(told);
        assert!(!ran.err.contains("hunter2"), "{ran:?}");
    }
    assert!(!folder.path("missing.db").exists());
    adopt(&["--from", blocks, "--block", "9223372036854775807", "--yes"]).expect(2).says("would end above");
    assert_eq!(new(&folder), "1502", "none of it moved the counter");
}

#[test]
fn gaps_are_counted_in_your_table() {
    let folder = Folder::with(CONFIG);
    folder.run(&["new", "orders", "-n", "10"]).expect(0);
    sql(
        &folder,
        "shop.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1),(2),(5),(10);",
    );
    let gaps = |args: &[&str]| folder.run(&[&["sequences", "gaps", "orders"], args].concat());
    let ran = gaps(&["--in", "sqlite:shop.db#orders.id"]).expect(0).says("numbers that a running process holds");
    assert_eq!(ran.out, "orders: 6 of 10 numbers from 1 on are in no row\n  3 to 4\n  6 to 9\n");
    let json = gaps(&["--in", "sqlite:shop.db#orders.id", "-o", "json"]).expect(0).json();
    assert_eq!((&json["missing"], &json["gaps"][1]["last"]), (&6.into(), &"9".into()));
    let csv = gaps(&["--in", "sqlite:shop.db#orders.id", "-o", "csv"]).expect(0);
    assert_eq!(csv.lines(), ["first,last,state,note,reason", "3,4,gap,,", "6,9,gap,,"]);
    gaps(&[]).expect(2).says("only your table knows what was used");
    gaps(&["--in", "sqlite:shop.db#orders.nothing"]).expect(2);
}

#[test]
fn the_reserved_numbers_of_a_gapless_series_are_listed() {
    let folder = Folder::with(CONFIG);
    folder.run(&["new", "invoices"]).expect(2).says("series invoices is gapless");
    folder.run(&["sequences", "raise", "invoices/2026", "4", "--yes"]).expect(0);
    sql(
        &folder,
        "ids.db",
        "INSERT INTO mintage_reservation VALUES ('invoices/2026', 1, 'confirmed', 'order 1', 1796000000000, 1796000001000, NULL),
         ('invoices/2026', 2, 'void', 'order 2', 1796000000000, 1796000001000, 'cancelled'),
         ('invoices/2026', 3, 'open', 'order 3', 1796000000000, NULL, NULL);",
    );
    let ran = folder.run(&["sequences", "gaps", "invoices/2026"]).expect(0);
    let lines = ran.lines();
    assert!(lines[0].starts_with("  2  reserved 2026-11-") && lines[0].ends_with("\"cancelled\""), "{lines:?}");
    assert!(lines[1].starts_with("  3  reserved 2026-11-") && lines[1].ends_with("for \"order 3\", open"), "{lines:?}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn check_warns_of_public_numbers_that_fill_up_and_makes_no_store() {
    let folder = Folder::with(CONFIG);
    let quiet = folder.run(&["check"]).expect(0);
    assert!(!quiet.err.contains("public numbers") && !folder.path("ids.db").exists(), "{quiet:?}");
    new(&folder);
    assert!(!folder.run(&["check"]).expect(0).err.contains("public numbers"));
    folder.run(&["sequences", "raise", "orders", "60000000", "--yes"]).expect(0);
    let told = "59999999 of 90000000 public numbers are used, 66.667 %, more than `max_fill`";
    folder.run(&["check"]).expect(0).says(told);
    let json = folder.run(&["check", "-o", "json"]).expect(0).json();
    assert_eq!(
        (&json[0]["path"], &json[0]["severity"]),
        (&"entities.orders.public".into(), &"warning".into()),
        "{json}"
    );
    assert!(json[0]["message"].as_str().unwrap().starts_with(told));
    folder.run(&["sequences", "raise", "orders", "90000002", "--yes"]).expect(0);
    folder.run(&["check"]).expect(0).says("lies outside every stage");
    // A store that cannot be read is told, and nothing is made of it.
    let damaged = Folder::with(CONFIG);
    damaged.write("ids.db", vec![7_u8; 4096]);
    damaged.run(&["check"]).expect(0).says("how full it is cannot be told");
}

#[test]
fn a_config_of_series_alone_is_whole_and_explained() {
    let folder = Folder::with(
        "version = 1\n[series.invoices]\nformat = \"{yyyy}-{n:06}\"\nzone = \"UTC\"\ncheck_digit = \"damm\"\n[stores.main]\nurl = \"sqlite:ids.db\"\n",
    );
    folder.run(&["check"]).expect(0);
    let ran = folder.run(&["explain", "invoices"]).expect(0);
    assert!(
        ran.out.starts_with("scheme       series\n") && ran.out.contains("numbers 1 to 999999, again each year in UTC"),
        "{ran:?}"
    );
    assert!(ran.out.contains("one trip to the store for each number") && ran.out.contains("Damm"), "{ran:?}");
    assert_eq!(folder.run(&["explain", "invoices", "-o", "json"]).expect(0).json()["scheme"], "series");
    folder.run(&["explain", "nothing"]).expect(2);
    let ran = folder.run(&["new", "invoices"]).expect(0);
    assert!(ran.out.starts_with("20"), "{ran:?}");
    let nothing = Folder::with("version = 1\n[stores.main]\nurl = \"memory:\"\n");
    let ran = nothing.run(&["check"]).expect(1);
    assert!(ran.out.contains("no entity and no series"), "{ran:?}");
}
