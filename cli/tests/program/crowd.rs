//! Many processes at once on one store.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::folder::{Folder, Ran, assert_distinct, finish, numbers_in};

const SHELLS: usize = 8;

/// Eight processes find nothing and start at the same moment; each must win or wait, none may fail.
fn start_from_nothing(store: &str, rounds: usize) {
    for round in 0..rounds {
        let folder = Folder::empty();
        let processes: Vec<_> = (0..SHELLS)
            .map(|nth| {
                let entity = if nth % 2 == 0 { "orders" } else { "events" };
                let mut command = folder.command(["new", entity, "-n", "3"]);
                command.env("MINTAGE_STORE", store).stdout(Stdio::piped()).stderr(Stdio::piped());
                (entity, command.spawn().unwrap())
            })
            .collect();
        let ids: Vec<(&str, Vec<u64>)> = processes
            .into_iter()
            .map(|(entity, process)| (entity, Ran::of(finish(process)).expect(0).numbers()))
            .collect();
        let of = |wanted: &str| -> Vec<u64> {
            ids.iter().filter(|(entity, _)| *entity == wanted).flat_map(|(_, ids)| ids.clone()).collect()
        };
        let mut orders = of("orders");
        orders.sort_unstable();
        assert_eq!(orders, Vec::from_iter(1..=12), "round {round}");
        assert_eq!(of("events").len(), 12);
        assert_distinct(of("events"));
    }
}

#[test]
fn eight_processes_at_once_from_an_empty_folder() {
    start_from_nothing("sqlite:mintage.db", 20);
}

#[test]
fn eight_processes_at_once_from_an_empty_folder_with_files() {
    start_from_nothing("file:ids", 5);
}

/// 200 runs of `new ENTITY -n 100` from eight shells.
fn two_hundred_runs(folder: &Folder, entity: &str) -> Vec<u64> {
    let script = "i=0; while [ $i -lt 25 ]; do \"$0\" new \"$1\" -n 100 || exit; i=$((i+1)); done";
    let shells: Vec<_> = (0..SHELLS)
        .map(|nth| {
            let printed = folder.path(&format!("{entity}.{nth}"));
            let shell = Command::new("sh")
                .args(["-c", script, env!("CARGO_BIN_EXE_mintage"), entity])
                .current_dir(folder.path(""))
                .env_remove("MINTAGE_STORE")
                .env_remove("MINTAGE_CONFIG")
                .stdout(fs::File::create(&printed).unwrap())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            (shell, printed)
        })
        .collect();
    shells
        .into_iter()
        .flat_map(|(shell, printed)| {
            Ran::of(finish(shell)).expect(0);
            numbers_in(&printed)
        })
        .collect()
}

#[test]
fn two_hundred_runs_from_eight_shells_repeat_no_order_and_leave_no_gap() {
    let folder = Folder::shipped();
    let mut orders = two_hundred_runs(&folder, "orders");
    orders.sort_unstable();
    assert_eq!(orders, Vec::from_iter(1..=20_000));
    assert_eq!(folder.run(&["new", "orders"]).expect(0).numbers(), [20_001]);
}

#[test]
fn two_hundred_runs_from_eight_shells_repeat_no_event() {
    let folder = Folder::shipped();
    let events = two_hundred_runs(&folder, "events");
    assert_eq!(events.len(), 20_000);
    assert_distinct(events);
}
