//! Input that nobody should send: never a panic, always an exit code that is documented and a reason.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::Path};

use crate::folder::{Dice, Folder, Ran, run};

/// Bytes of every kind, ids among them. No NUL, which no argument can hold.
fn odd(dice: &mut Dice) -> Vec<u8> {
    let piece = |dice: &mut Dice| -> Vec<u8> {
        match dice.below(12) {
            0 => vec![0xff, 0xfe],
            1 => "\u{202e}\u{1f600}é١".into(),
            2 => b"\x1b[31m".to_vec(),
            3 => b"018e3f04-0218-7f62-8f86-6a3cfe5a42fb".to_vec(),
            4 => b"01ARZ3NDEKTSV4RRFFQ69G5FAV".to_vec(),
            5 => b"{}:-_+.,\"'\\".to_vec(),
            6 => vec![b'9'; 25],
            7 => b"\r\n\t ".to_vec(),
            8 => vec![b'Z'; 60],
            _ => (0..dice.below(40)).map(|_| 1 + (dice.roll() % 255) as u8).collect(),
        }
    };
    let count = 1 + dice.below(3);
    (0..count).flat_map(|_| piece(dice)).collect()
}

fn with_bytes(folder: &Folder, before: &[&str], bytes: Vec<Vec<u8>>) -> Ran {
    let args = before.iter().map(OsString::from).chain(bytes.into_iter().map(OsString::from_vec));
    run(folder.command(args), b"")
}

#[test]
fn any_bytes_as_ids() {
    let folder = Folder::shipped();
    let mut dice = Dice(4);
    for form in ["text", "json", "csv"] {
        let bytes: Vec<Vec<u8>> = (0..300).map(|_| odd(&mut dice)).collect();
        let ran = with_bytes(&folder, &["inspect", "-o", form, "--"], bytes).expect(1);
        if form == "json" {
            assert_eq!(ran.json().as_array().unwrap().len(), 300);
        }
    }
    let not_utf8 = with_bytes(&folder, &["inspect"], vec![vec![0xff, 0xfe]]).expect(1);
    assert!(not_utf8.err.contains("is no id"), "{not_utf8:?}");
}

#[test]
fn any_bytes_as_other_arguments() {
    let folder = Folder::shipped();
    let mut dice = Dice(5);
    for _ in 0..8 {
        for before in [
            &["new"][..],
            &["explain"],
            &["at", "events"],
            &["at", "events", "2026-11-30T09:15:02Z", "--to"],
            &["new", "orders", "-n"],
            &["new", "orders", "-o"],
            &["--config"],
            &[],
        ] {
            let ran = with_bytes(&folder, before, vec![odd(&mut dice)]).expect(2);
            assert_eq!(ran.out, "", "{before:?}");
        }
        let missing = with_bytes(&folder, &["check", "--config"], vec![odd(&mut dice)]);
        missing.expect(2);
    }
    assert!(!folder.path("mintage.db").exists());
}

#[test]
fn long_texts_are_refused_and_cut_where_people_read() {
    let folder = Folder::shipped();
    let long = "7".repeat(100_000);
    let ran = folder.run(&["inspect", &long]).expect(1).says("100000 characters");
    assert!(ran.out.len() < 1_000 && ran.err.len() < 1_000, "{} {}", ran.out.len(), ran.err.len());
    folder.run(&["new", &long]).expect(2);
    folder.run(&["at", "events", &long]).expect(2);
    folder.run(&["new", "orders", "-n", &long]).expect(2);
}

#[test]
fn large_lines_on_stdin() {
    let folder = Folder::shipped();
    let mut input = vec![b'a'; 1_000_000];
    input.extend(b"\n01ARZ3NDEKTSV4RRFFQ69G5FAV\n");
    input.extend(vec![b'8'; 3_500_000]);
    input.extend(b"\n5\n");
    let told = folder.feed(&input, &["inspect", "-", "-o", "json"]).expect(1).json();
    let told = told.as_array().unwrap();
    assert_eq!(told.len(), 4);
    assert_eq!((&told[1]["scheme"], told[3]["id"].as_str()), (&"ulid".into(), Some("5")), "lines after it are read");
    let ran = folder.feed(&input, &["inspect", "-"]).expect(1).says("1000000 characters");
    assert!(ran.out.len() < 20_000 && ran.err.len() < 2_000, "{} {}", ran.out.len(), ran.err.len());
}

#[test]
fn any_bytes_on_stdin() {
    let folder = Folder::shipped();
    let mut dice = Dice(6);
    let mut input = b"\0\n01ARZ3NDEKTSV4RRFFQ69G5FAV\0\n\xff\xfe\n5\n".to_vec();
    let told = folder.feed(&input, &["inspect", "-", "-o", "json"]).expect(1).json();
    let found: Vec<bool> = told.as_array().unwrap().iter().map(|told| told["scheme"].is_string()).collect();
    assert_eq!(found, [false, false, false, true]);
    input.extend((0..64 * 1024).map(|_| (dice.roll() & 0xff) as u8));
    for form in ["text", "json", "csv"] {
        let ran = folder.feed(&input, &["inspect", "-", "-o", form]).expect(1);
        if form == "json" {
            assert!(ran.json().as_array().unwrap().len() > 100);
        }
    }
    assert_eq!(folder.feed(b"\n\n  \n", &["inspect", "-"]).expect(0).out, "", "nothing but empty lines");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let folder = Folder::shipped();
    // `Ran::of` finds escape codes in either stream.
    for form in ["text", "csv", "json"] {
        let ran = folder.run(&["inspect", "-o", form, "\u{1b}[31mred\u{7}\u{9b}2J\u{202e}"]).expect(1);
        assert!(ran.out.contains("[31mred") && ran.err.contains("u{1b}[31mred"), "{ran:?}");
        assert!(form == "json" || !ran.out.contains(['\u{7}', '\u{9b}', '\u{202e}']), "{ran:?}");
    }
}

#[test]
fn any_bytes_as_config() {
    let folder = Folder::shipped();
    let mut dice = Dice(7);
    let shipped = crate::folder::SHIPPED.as_bytes();
    for nth in 0..40 {
        let mut text = shipped.to_vec();
        if nth % 4 == 0 {
            text = (0..dice.below(4_000)).map(|_| (dice.roll() & 0xff) as u8).collect();
        }
        for _ in 0..=dice.below(4) {
            let at = usize::try_from(dice.below(text.len() as u64 + 1)).unwrap();
            let end = (at + usize::try_from(dice.below(30)).unwrap()).min(text.len());
            text.splice(at..end, odd(&mut dice));
        }
        folder.write("mintage.toml", &text);
        let ran = folder.run(&["check"]);
        assert!(ran.code <= 2, "{ran:?}");
    }
    folder.run(&["check", "-c", Path::new(".").to_str().unwrap()]).expect(2);
}
