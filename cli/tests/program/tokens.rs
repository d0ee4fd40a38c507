//! `mintage tokens`: a token goes out once, comes in on stdin, and is nowhere else.

use std::fs;

use crate::folder::{Folder, Ran};

/// A folder and a token issued in it, with its id.
fn issued(args: &[&str]) -> (Folder, String, String) {
    let folder = Folder::shipped();
    let ran = folder.run(&[&["tokens", "issue", "api_keys", "-o", "json"], args].concat()).expect(0);
    let told = ran.json();
    let field = |name: &str| told[name].as_str().unwrap().to_owned();
    (folder, field("token"), field("id"))
}

fn verify(folder: &Folder, token: &str, args: &[&str]) -> Ran {
    folder.feed(token.as_bytes(), &[&["tokens", "verify", "api_keys", "-"], args].concat())
}

#[test]
fn a_token_is_issued_once_and_verified_from_stdin() {
    let folder = Folder::shipped();
    let ran =
        folder.run(&["tokens", "issue", "api_keys", "--scope", "orders:read", "--label", "billing, \"job\""]).expect(0);
    let token = ran.out.trim_end().to_owned();
    assert_eq!((ran.lines().len(), token.len()), (1, 45), "{ran:?}");
    assert!(ran.err.contains("only its hash is kept") && !ran.err.contains(&token), "{ran:?}");
    for ending in ["", "\n", "\r\n"] {
        let ran = verify(&folder, &format!("{token}{ending}"), &["-o", "json"]).expect(0);
        assert_eq!(ran.json()["label"], "billing, \"job\"");
        assert_eq!((&ran.json()["state"], &ran.json()["scopes"][0]), (&"active".into(), &"orders:read".into()));
    }
    verify(&folder, &token, &["--scope", "orders:read"]).expect(0);
    verify(&folder, &token, &["--scope", "orders:write"]).expect(1).says("not issued for orders:write");
    let csv = folder.run(&["tokens", "list", "api_keys", "-o", "csv"]).expect(0);
    assert!(
        csv.lines()[0].starts_with("id,state,scopes,label,") && csv.lines()[1].contains("\"billing, \"\"job\"\"\""),
        "{csv:?}"
    );
}

#[test]
fn unknown_revoked_and_malformed_tokens_are_one_answer() {
    let (folder, token, id) = issued(&[]);
    verify(&folder, &token, &[]).expect(0);
    folder.run(&["tokens", "revoke", "api_keys", &id]).expect(0).says("revoked");
    folder.run(&["tokens", "revoke", "api_keys", &id]).expect(0);
    let (_, unknown, _) = issued(&[]);
    let mut answers = Vec::new();
    for text in
        [token.as_str(), &unknown, "nonsense", &token[1..], "\n", &"x".repeat(5_000), &format!("{token}\n{token}")]
    {
        let ran = verify(&folder, text, &[]).expect(1);
        answers.push((ran.out, ran.err));
    }
    let bytes = folder.feed(&[0xff; 50], &["tokens", "verify", "api_keys", "-"]).expect(1);
    answers.push((bytes.out, bytes.err));
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    folder.run(&["tokens", "revoke", "api_keys", "nobody"]).expect(1).says("no token of that id");
    let list = folder.run(&["tokens", "list", "api_keys", "-o", "json"]).expect(0).json();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["state"], "revoked");
}

#[test]
fn a_token_among_the_arguments_is_refused_and_not_repeated() {
    let (folder, token, _) = issued(&[]);
    for args in
        [&["verify", "api_keys", token.as_str()][..], &["verify", "api_keys", "-", &token], &["verify", "api_keys"]]
    {
        let ran = folder.run(&[&["tokens"], args].concat()).expect(2).says("stdin");
        assert!(!ran.err.contains(&token), "{ran:?}");
    }
    for args in [["revoke", "api_keys", &token], ["verify", &token, "-"]] {
        let ran = folder.run(&[&["tokens"], &args[..]].concat());
        assert!(ran.code > 0 && !ran.err.contains(&token), "{ran:?}");
    }
}

#[test]
fn the_store_and_the_lists_do_not_hold_the_secret() {
    let (folder, token, id) = issued(&["--scope", "orders:read"]);
    verify(&folder, &token, &[]).expect(0);
    let secret = &token.as_bytes()["acme_pat_".len()..];
    let mut texts: Vec<Vec<u8>> = ["text", "json", "csv"]
        .map(|output| folder.run(&["tokens", "list", "api_keys", "-o", output]).expect(0).out.into_bytes())
        .into();
    texts.extend(fs::read_dir(folder.path("")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()));
    let holds = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    assert!(texts.iter().filter(|text| holds(text, id.as_bytes())).count() >= 4, "the search finds what is there");
    for text in &texts {
        assert!(secret.windows(8).all(|part| !holds(text, part)), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn expiry_is_read_and_wrong_requests_are_usage() {
    let folder = Folder::shipped();
    let issue = |args: &[&str]| folder.run(&[&["tokens", "issue", "api_keys", "-o", "json"], args].concat());
    assert!(issue(&[]).expect(0).json()["expires"].is_string(), "the config says 365d");
    assert_eq!(issue(&["--expires", "2150-01-01T00:00:00Z"]).expect(0).json()["expires"], "2150-01-01T00:00:00.000Z");
    assert!(issue(&["--expires", "never"]).expect(0).json()["expires"].is_null());
    issue(&["--expires", "0s"]).expect(2).says("expired already");
    issue(&["--expires", "soon"]).expect(2).says("30d");
    issue(&["--scope", "orders:delete"]).expect(2).says("known: orders:read, orders:write");
    issue(&["--label", "two\nlines"]).expect(2).says("one line");
    folder.run(&["tokens", "list", "users"]).expect(2).says("mintage new users");
    folder.run(&["tokens", "list", "nobody"]).expect(2).says("known: api_keys");
    folder.run(&["new", "api_keys"]).expect(2).says("mintage tokens issue api_keys");
    folder.run(&["tokens", "pattern", "api_keys"]).expect(0);
    assert!(folder.run(&["explain", "api_keys"]).expect(0).out.contains("SHA-256"));
}

#[test]
fn dead_tokens_are_pruned_when_asked_and_confirmed() {
    let (folder, token, id) = issued(&["--label", "old"]);
    let (_, kept) = {
        let ran = folder.run(&["tokens", "issue", "api_keys", "--label", "kept", "-o", "json"]).expect(0).json();
        (ran["id"].as_str().unwrap().to_owned(), ran["token"].as_str().unwrap().to_owned())
    };
    folder.run(&["tokens", "revoke", "api_keys", &id]).expect(0);
    let prune = |args: &[&str]| folder.run(&[&["tokens", "prune", "api_keys"], args].concat());
    let listed =
        || folder.run(&["tokens", "list", "api_keys", "-o", "json"]).expect(0).json().as_array().unwrap().len();
    assert_eq!(prune(&["--yes"]).expect(0).says("0 tokens would be forgotten").out, "", "30 days are not over");
    let ran = prune(&["--older", "0s", "--dry-run"]).expect(0).says("1 tokens would be forgotten");
    assert!(ran.lines().len() == 1 && ran.out.starts_with(&id) && ran.out.contains("\"old\""), "{ran:?}");
    prune(&["--older", "0s"]).expect(4).says("not confirmed");
    assert_eq!(listed(), 2, "nothing was forgotten so far");
    prune(&["--older", "0s", "--yes"]).expect(0).says("1 tokens are forgotten");
    assert_eq!(listed(), 1);
    verify(&folder, &token, &[]).expect(1).says("not accepted");
    verify(&folder, &kept, &[]).expect(0);
    prune(&["--older", "soon"]).expect(2).says("30d");
    folder.run(&["tokens", "prune", "users"]).expect(2).says("mintage new users");
}

#[test]
fn inspect_says_whose_token_it_is_and_repeats_nothing() {
    let (folder, token, _) = issued(&[]);
    let secret = &token["acme_pat_".len()..];
    let shown = |ran: &Ran| {
        secret.as_bytes().windows(6).any(|part| {
            let part = std::str::from_utf8(part).unwrap();
            ran.out.contains(part) || ran.err.contains(part)
        })
    };
    for text in [token.clone(), token[..30].to_owned(), format!("Authorization: Bearer {token}"), format!("{token}x")] {
        for output in ["text", "json", "csv"] {
            let ran = folder.run(&["inspect", &text, "-o", output]).expect(0);
            assert!(ran.err.contains("bearer token of api_keys") && ran.err.contains("revoke it"), "{ran:?}");
            assert!(!shown(&ran), "{ran:?}");
            let ran = folder.feed(text.as_bytes(), &["inspect", "-", "-o", output]).expect(0);
            assert!(ran.out.contains("acme_pat_…") && ran.err.is_empty() && !shown(&ran), "{ran:?}");
        }
    }
    let told = folder.feed(token.as_bytes(), &["inspect", "-", "-o", "json"]).expect(0).json();
    assert_eq!((&told[0]["bearer_token_of"], &told[0]["candidates"]), (&"api_keys".into(), &serde_json::json!([])));
    let text = folder.feed(token.as_bytes(), &["inspect", "-"]).expect(0);
    assert!(
        text.out.contains("a bearer token of api_keys") && text.out.contains("tokens verify api_keys -"),
        "{text:?}"
    );
}
