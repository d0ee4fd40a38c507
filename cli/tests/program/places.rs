//! Where the config is, what the environment says, and that neither is ever taken for absent when it cannot be read.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{PermissionsExt as _, symlink},
    },
};

use crate::folder::{Folder, Ran, SHIPPED, run};

/// What no text can be.
fn no_text() -> OsString {
    OsString::from_vec(b"no\xfftext".to_vec())
}

fn with_variable(folder: &Folder, name: &str, value: &OsStr, args: &[&str]) -> Ran {
    let mut command = folder.command(args);
    command.env(name, value);
    run(command, b"")
}

#[test]
fn a_variable_that_is_no_text_is_not_taken_for_absent() {
    let config = SHIPPED.replace("file = \"mintage.keys\"", "env = \"SHOP_KEYS\"");
    let folder = Folder::with(&config);
    for (name, args) in [
        ("MINTAGE_STORE", &["new", "orders"][..]),
        ("MINTAGE_INSTANCE", &["new", "events"]),
        ("SHOP_KEYS", &["new", "orders", "--public"]),
        ("SHOP_URL", &["sequences", "gaps", "orders", "--in", "env:SHOP_URL#orders.id"]),
    ] {
        let told = with_variable(&folder, name, &no_text(), args).expect(2).says("not UTF-8").says(name);
        assert!(told.out.is_empty(), "{told:?}");
    }
    let ordinal =
        Folder::with(&SHIPPED.replace("worker = { pool = \"main\" }", "worker = { pool = \"main\", ordinal = true }"));
    with_variable(&ordinal, "MINTAGE_ORDINAL", &no_text(), &["new", "events"]).expect(2).says("not UTF-8");
    let password = Folder::with(
        "version = 1\n[entities.users]\nscheme = \"uuidv7\"\n[stores.main]\nurl = \"postgres://me@127.0.0.1:1/ids\"\n\
         password = { env = \"DB_PASSWORD\" }\n",
    );
    let told = with_variable(&password, "DB_PASSWORD", &no_text(), &["check"]).expect(1);
    assert!(told.out.contains("DB_PASSWORD is not UTF-8"), "{told:?}");
    // One that no config asks for is nobody's business.
    with_variable(&Folder::shipped(), "OTHER", &no_text(), &["new", "orders"]).expect(0);
}

#[test]
fn a_url_lies_in_a_file_beside_the_config() {
    let folder = Folder::with(
        "version = 1\n[entities.orders]\nscheme = \"segment\"\n[stores.main]\nurl = { file = \"secret/url\" }\n",
    );
    let missing =
        folder.run(&["new", "orders"]).expect(2).says("stores.main.url.file").says("secret/url cannot be read");
    assert!(missing.out.is_empty(), "{missing:?}");
    folder.write("secret/url", "sqlite:kept.db\n");
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [1]);
    assert!(folder.path("kept.db").exists() && !folder.path("secret/kept.db").exists());
    folder.run(&["check"]).expect(0);
    folder.run(&["explain", "orders"]).expect(0);
    // What is wrong with it is told without it.
    folder.write("secret/url", "postgres://me:hunter2@127.0.0.1:1/ids?sslmode=odd");
    for args in [&["new", "orders"][..], &["check"], &["explain", "orders"], &["doctor"], &["store", "init"]] {
        let told = format!("{:?}", folder.run(args));
        assert!(!told.contains("hunter"), "{told}");
    }
    folder.write("secret/url", "hunter2");
    for args in [&["new", "orders"][..], &["check"], &["explain", "orders"]] {
        let told = format!("{:?}", folder.run(args));
        assert!(told.contains("stores.main.url") && !told.contains("hunter"), "{told}");
    }
}

#[test]
fn a_config_that_cannot_be_read_is_not_taken_for_absent() {
    let folder = Folder::empty();
    symlink("nowhere.toml", folder.path("mintage.toml")).unwrap();
    let told = folder.run(&["new", "orders"]).expect(2).says("mintage.toml: it is a link to a file that is not there");
    assert!(told.out.is_empty() && !folder.path("mintage.db").exists(), "{told:?}");
    // A link in a circle, which nobody may follow, whoever asks.
    fs::remove_file(folder.path("mintage.toml")).unwrap();
    symlink("mintage.toml", folder.path("mintage.toml")).unwrap();
    folder.run(&["check"]).expect(2).says("mintage.toml");
    fs::remove_file(folder.path("mintage.toml")).unwrap();
    fs::create_dir(folder.path("mintage.toml")).unwrap();
    folder.run(&["new", "orders"]).expect(2).says("mintage.toml: cannot be read");
    // The superuser may read everything.
    let secret = Folder::shipped();
    fs::set_permissions(secret.path("mintage.toml"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(secret.path("mintage.toml")).is_err() {
        secret.run(&["new", "orders"]).expect(2).says("mintage.toml: cannot be read");
    }
}

#[test]
fn the_variable_that_names_the_config_is_blamed_by_its_name() {
    let folder = Folder::shipped();
    let told = folder.run_with(&[("MINTAGE_CONFIG", "")], &["new", "orders"]).expect(2);
    assert!(told.err.contains("MINTAGE_CONFIG is set and empty") && !told.err.contains("--config"), "{told:?}");
    folder.run_with(&[("MINTAGE_CONFIG", "none.toml")], &["new", "orders"]).expect(2).says("none.toml");
    folder.write("other/shop.toml", SHIPPED);
    folder.run_with(&[("MINTAGE_CONFIG", "other/shop.toml")], &["new", "orders"]).expect(0);
    assert!(folder.path("other/mintage.db").exists() && !folder.path("mintage.db").exists());
    // An argument goes first.
    folder.run_with(&[("MINTAGE_CONFIG", "")], &["-c", "mintage.toml", "new", "orders"]).expect(0);
}

#[test]
fn a_folder_whose_name_is_no_text() {
    let folder = Folder::empty();
    let odd = folder.path("").join(OsStr::from_bytes(b"od\xffd"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("mintage.toml"), SHIPPED).unwrap();
    let mut command = folder.command(["new", "orders", "-c"]);
    command.arg(odd.join("mintage.toml"));
    let told = run(command, b"");
    told.expect(2).says("SQLite takes no path that is not UTF-8");
    fs::write(odd.join("mintage.toml"), SHIPPED.replace("sqlite:mintage.db", "file:ids")).unwrap();
    let mut command = folder.command(["new", "orders", "-c"]);
    command.arg(odd.join("mintage.toml"));
    run(command, b"").expect(0);
    assert!(odd.join("ids/state.json").exists() && odd.join("mintage.keys").exists());
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1, "and nowhere else");
}

#[test]
fn one_config_by_two_paths_is_one_store() {
    let folder = Folder::empty();
    folder.write("etc/shop.toml", SHIPPED);
    folder.write("here/empty", "");
    symlink("../etc/shop.toml", folder.path("here/mintage.toml")).unwrap();
    symlink("here/mintage.toml", folder.path("mintage.toml")).unwrap();
    let mint = |config: &str| folder.run(&["-c", config, "new", "orders"]).expect(0).numbers();
    let ids: Vec<u64> = ["etc/shop.toml", "here/mintage.toml", "mintage.toml"].into_iter().flat_map(mint).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(folder.path("etc/mintage.db").exists() && folder.path("etc/mintage.keys").exists());
    assert!(!folder.path("here/mintage.db").exists() && !folder.path("mintage.db").exists());
}

#[test]
fn a_config_from_a_pipe_has_nothing_beside_it() {
    let folder = Folder::empty();
    let told = folder.feed(SHIPPED.as_bytes(), &["-c", "/dev/stdin", "new", "orders"]).expect(2);
    assert!(told.err.contains("sqlite") || told.err.contains("mintage.db"), "{told:?}");
    assert!(told.err.contains("lies in no folder") && told.err.contains("mintage.keys"), "{told:?}");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 0);
    let place = folder.path("ids.db");
    let whole = SHIPPED
        .replace("sqlite:mintage.db", &format!("sqlite:{}", place.display()))
        .replace("file = \"mintage.keys\"", &format!("file = \"{}\"", folder.path("ids.keys").display()));
    assert_eq!(folder.feed(whole.as_bytes(), &["-c", "/dev/stdin", "new", "orders"]).expect(0).numbers(), [1]);
    assert!(place.exists());
}
