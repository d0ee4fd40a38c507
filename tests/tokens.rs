//! Bearer tokens end to end, on every store: what is accepted, what is refused, and where the secret is not.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, sync::Arc};

use mintage::{
    BuildError, Config, Environment, Expiry, Issue, IssueError, MinterError, Registry, TokensError, Unauthorized,
    VerifyError,
    config::{Checked, ConfigErrors, schema},
    core::{
        Clock, ManualClock, StoreErrorKind, TokenRow, TokenState,
        plugin::{Setting, Value},
    },
    public::BearerFormat,
};
use serde_json::json;

/// A day in 2027, Unix ms.
const NOW_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

const URLS: [&str; 3] = ["memory:", "file:ids", "sqlite:ids.db"];

fn config(folder: &Path, url: &str, settings: &str) -> Config {
    let text = format!(
        "version = 1\n[entities.api_keys]\nscheme = \"bearer\"\n{settings}\n[entities.users]\nscheme = \"uuidv7\"\n\
         [stores.main]\nurl = \"{url}\"\n"
    );
    Config::parse(&text, folder.join("mintage.toml").display().to_string()).unwrap()
}

async fn build(folder: &Path, url: &str, settings: &str, clock: &ManualClock) -> Result<Registry, BuildError> {
    Registry::builder().builtins().clock(clock.clone()).build(config(folder, url, settings)).await
}

const PLAIN: &str = "prefix = \"acme_pat_\"";

fn unauthorized(error: &VerifyError) -> Unauthorized {
    match error {
        VerifyError::Unauthorized(same) => *same,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_is_issued_verified_listed_and_revoked() {
    for url in URLS {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let registry = build(folder.path(), url, PLAIN, &clock).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        assert_eq!(tokens.list().await.unwrap(), []);
        let issue = Issue::new().scope("orders:read").scope("orders:write").label("billing job");
        let (token, row) = tokens.issue(issue).await.unwrap();
        assert!(token.reveal().starts_with("acme_pat_") && token.reveal().len() == 45, "{url}");
        assert_eq!((row.entity.as_str(), row.label.as_str()), ("api_keys", "billing job"));
        assert_eq!((row.issued_ms, row.expires_ms, row.revoked_ms), (NOW_MS, None, None));
        assert_eq!(&row.hash, token.hash().as_bytes());
        assert!(row.id.len() == 10 && !token.reveal().contains(&row.id));

        assert_eq!(tokens.verify(token.reveal()).await.unwrap(), row, "{url}");
        assert_eq!(tokens.verify_scope(token.reveal(), "orders:write").await.unwrap(), row);
        for strange in ["orders", "orders:read:all", "", "admin"] {
            let error = tokens.verify_scope(token.reveal(), strange).await.unwrap_err();
            assert!(matches!(&error, VerifyError::MissingScope { scope } if scope == strange), "{error:?}");
        }
        clock.advance(5);
        let (other, second) = tokens.issue(Issue::new()).await.unwrap();
        assert_ne!((other.reveal(), &second.id), (token.reveal(), &row.id));
        assert_eq!(tokens.list().await.unwrap(), [row.clone(), second.clone()]);

        assert!(tokens.revoke(&row.id).await.unwrap(), "{url}");
        assert!(tokens.revoke(&row.id).await.unwrap(), "a repeat is safe");
        assert!(!tokens.revoke("nobody").await.unwrap());
        unauthorized(&tokens.verify(token.reveal()).await.unwrap_err());
        unauthorized(&tokens.verify_scope(token.reveal(), "orders:read").await.unwrap_err());
        assert_eq!(tokens.verify(other.reveal()).await.unwrap(), second);
        let revoked = &tokens.list().await.unwrap()[0];
        assert_eq!((revoked.revoked_ms, tokens.state(revoked)), (Some(NOW_MS + 5), TokenState::Revoked));
        registry.close().await.unwrap();
    }
}

#[tokio::test]
async fn tokens_outlive_the_process() {
    for url in &URLS[1..] {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let registry = build(folder.path(), url, PLAIN, &clock).await.unwrap();
        let issued = registry.tokens("api_keys").unwrap().issue(Issue::new().label("first")).await.unwrap();
        registry.close().await.unwrap();
        let registry = build(folder.path(), url, PLAIN, &clock).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        assert_eq!(tokens.verify(issued.0.reveal()).await.unwrap(), issued.1, "{url}");
        registry.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_expires_on_the_millisecond() {
    for url in URLS {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let settings = "prefix = \"acme_pat_\"\nexpires = \"30d\"";
        let registry = build(folder.path(), url, settings, &clock).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        let mut issued = Vec::new();
        for (expiry, end_ms) in [
            (Expiry::Configured, Some(NOW_MS + 30 * DAY_MS)),
            (Expiry::After { ms: 7 }, Some(NOW_MS + 7)),
            (Expiry::At { unix_ms: NOW_MS + 99 }, Some(NOW_MS + 99)),
            (Expiry::Never, None),
        ] {
            let (token, row) = tokens.issue(Issue::new().expires(expiry)).await.unwrap();
            assert_eq!(row.expires_ms, end_ms, "{expiry:?}");
            issued.push((token, end_ms));
        }
        for at_ms in [0, 6, 7, 98, 99, 30 * DAY_MS - 1, 30 * DAY_MS, 100_000 * DAY_MS] {
            clock.step_to(NOW_MS + at_ms);
            for (token, end_ms) in &issued {
                let accepted = end_ms.is_none_or(|end_ms| NOW_MS + at_ms < end_ms);
                assert_eq!(tokens.verify(token.reveal()).await.is_ok(), accepted, "{url} {at_ms} {end_ms:?}");
            }
        }
        let states: Vec<TokenState> = tokens.list().await.unwrap().iter().map(|row| tokens.state(row)).collect();
        assert_eq!(states.iter().filter(|state| **state == TokenState::Expired).count(), 3);
    }
}

#[tokio::test]
async fn malformed_unknown_expired_and_revoked_are_one_answer() {
    for url in URLS {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let registry = build(folder.path(), url, PLAIN, &clock).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        let (revoked, row) = tokens.issue(Issue::new()).await.unwrap();
        tokens.revoke(&row.id).await.unwrap();
        let (expired, _) = tokens.issue(Issue::new().expires(Expiry::After { ms: 1 })).await.unwrap();
        let (both, row) = tokens.issue(Issue::new().expires(Expiry::After { ms: 1 })).await.unwrap();
        tokens.revoke(&row.id).await.unwrap();
        clock.advance(1);
        let unknown = BearerFormat::new("acme_pat_").unwrap().issue().unwrap();
        let other_kind = BearerFormat::new("acme_inv_").unwrap().issue().unwrap();
        let (good, _) = tokens.issue(Issue::new()).await.unwrap();
        let presented = [
            revoked.reveal(),
            expired.reveal(),
            both.reveal(),
            unknown.reveal(),
            other_kind.reveal(),
            "",
            "acme_pat_",
            "Bearer",
            &good.reveal()[1..],
            &good.reveal().to_uppercase(),
            &format!("{} ", good.reveal()),
            &format!(" {}", good.reveal()),
            &format!("{}\n", good.reveal()),
            &row.id,
        ]
        .map(str::to_owned);
        let mut answers = Vec::new();
        for text in &presented {
            let error = tokens.verify(text).await.unwrap_err();
            answers.push((unauthorized(&error), error.to_string(), format!("{error:?}")));
            // Whoever has no good token does not learn which scopes there are.
            unauthorized(&tokens.verify_scope(text, "orders:read").await.unwrap_err());
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{url} {answers:?}");
        assert_eq!(answers[0].0, Unauthorized);
        tokens.verify(good.reveal()).await.unwrap();
    }
}

#[tokio::test]
async fn what_died_long_ago_is_pruned_and_answered_as_before() {
    for url in URLS {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let registry = build(folder.path(), url, PLAIN, &clock).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        let (expired, _) = tokens.issue(Issue::new().expires(Expiry::After { ms: DAY_MS })).await.unwrap();
        let (revoked, row) = tokens.issue(Issue::new()).await.unwrap();
        let (good, kept) = tokens.issue(Issue::new().expires(Expiry::After { ms: 100 * DAY_MS })).await.unwrap();
        clock.advance(DAY_MS);
        tokens.revoke(&row.id).await.unwrap();
        clock.advance(30 * DAY_MS - 1);
        assert_eq!((tokens.dead(30 * DAY_MS).await.unwrap().len(), tokens.prune(30 * DAY_MS).await.unwrap()), (0, 0));
        clock.advance(1);
        let dead: Vec<String> = tokens.dead(30 * DAY_MS).await.unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(dead.len(), 2, "{url}");
        assert_eq!(tokens.prune(30 * DAY_MS).await.unwrap(), 2, "{url}");
        assert_eq!(tokens.list().await.unwrap(), [kept], "{url}");
        for token in [&expired, &revoked] {
            unauthorized(&tokens.verify(token.reveal()).await.unwrap_err());
        }
        tokens.verify(good.reveal()).await.unwrap();
        assert_eq!(tokens.prune(u64::MAX).await.unwrap(), 0, "longer than there is time");
    }
}

/// Every edit of one character, and every swap of neighbours.
#[tokio::test]
async fn no_near_miss_of_a_token_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let registry = build(folder.path(), "memory:", PLAIN, &ManualClock::at(NOW_MS)).await.unwrap();
    let tokens = registry.tokens("api_keys").unwrap();
    let (token, _) = tokens.issue(Issue::new()).await.unwrap();
    let good = token.reveal().as_bytes();
    for at in 0..good.len() {
        for symbol in b"0Aaz_ ".iter().filter(|symbol| **symbol != good[at]) {
            let mut text = good.to_vec();
            text[at] = *symbol;
            assert!(tokens.verify(std::str::from_utf8(&text).unwrap()).await.is_err(), "{at} {symbol}");
        }
        let mut swapped = good.to_vec();
        swapped.swap(at, (at + 1) % good.len());
        let is_same = swapped == good;
        assert_eq!(tokens.verify(std::str::from_utf8(&swapped).unwrap()).await.is_ok(), is_same, "{at}");
    }
}

/// What an attacker reads who has the store, the logs and the lists.
#[tokio::test]
async fn the_secret_is_nowhere() {
    for url in &URLS[1..] {
        let folder = tempfile::tempdir().unwrap();
        let registry = build(folder.path(), url, PLAIN, &ManualClock::at(NOW_MS)).await.unwrap();
        let tokens = registry.tokens("api_keys").unwrap();
        let (token, row) = tokens.issue(Issue::new().label("billing job").scope("orders:read")).await.unwrap();
        tokens.verify(token.reveal()).await.unwrap();
        let wrong = token.reveal().replace("acme_pat_", "acme_tap_");
        let errors =
            [tokens.verify(&wrong).await.unwrap_err(), tokens.verify_scope(token.reveal(), "other").await.unwrap_err()];
        tokens.revoke(&row.id).await.unwrap();
        let list = tokens.list().await.unwrap();
        let told = format!("{token:?} {row:?} {list:?} {errors:?} {tokens:?} {registry:?} {:?}", token.hash());
        registry.close().await.unwrap();

        let mut files = vec![told.into_bytes()];
        let mut labels = 0;
        let folders = [folder.path().to_owned(), folder.path().join("ids")];
        for path in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
            let path = path.unwrap().path();
            if path.is_file() {
                files.push(fs::read(path).unwrap());
                labels += usize::from(contains(files.last().unwrap(), b"billing job"));
            }
        }
        assert!(labels > 0, "{url}: the search would find what is kept");
        // Any eight characters of the secret part would be a leak.
        let secret = &token.reveal().as_bytes()[9..];
        for file in &files {
            assert!(secret.windows(8).all(|part| !contains(file, part)), "{url}: {}", String::from_utf8_lossy(file));
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn what_may_not_be_issued_is_refused_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "prefix = \"acme_pat_\"\nscopes = [\"orders:read\", \"orders:write\"]";
    let registry = build(folder.path(), "sqlite:ids.db", settings, &ManualClock::at(NOW_MS)).await.unwrap();
    let tokens = registry.tokens("api_keys").unwrap();
    let error = tokens.issue(Issue::new().scope("orders:delete")).await.unwrap_err();
    assert!(matches!(error, IssueError::Scope { .. }), "{error:?}");
    assert!(error.to_string().contains("known: orders:read, orders:write"), "{error}");
    for expiry in [Expiry::After { ms: 0 }, Expiry::At { unix_ms: NOW_MS }, Expiry::At { unix_ms: 0 }] {
        let error = tokens.issue(Issue::new().expires(expiry)).await.unwrap_err();
        assert!(matches!(error, IssueError::Expired), "{error:?}");
    }
    for issue in [
        Issue::new().label("x".repeat(TokenRow::LABEL_LEN_MAX + 1)),
        Issue::new().label("two\nlines"),
        Issue::new().scope("orders:read").scope("orders:read"),
        Issue::new().expires(Expiry::After { ms: u64::MAX }),
    ] {
        match tokens.issue(issue).await.unwrap_err() {
            IssueError::Store(error) => assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(tokens.list().await.unwrap(), []);
    let (token, _) = tokens.issue(Issue::new().scope("orders:write")).await.unwrap();
    tokens.verify_scope(token.reveal(), "orders:write").await.unwrap();
}

#[tokio::test]
async fn entities_and_their_kinds_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    let registry = build(folder.path(), "memory:", PLAIN, &clock).await.unwrap();
    assert!(matches!(registry.tokens("users"), Err(TokensError::Ids { scheme, .. }) if scheme == "uuidv7"));
    let error = registry.tokens("api_kyes").unwrap_err();
    assert!(matches!(&error, TokensError::NoEntity { known, .. } if known == "api_keys"), "{error}");
    assert!(matches!(registry.any_minter("api_keys"), Err(MinterError::Tokens { .. })));
    registry.any_minter("users").unwrap();

    let only =
        Registry::builder().builtins().only(["users"]).build(config(folder.path(), "memory:", PLAIN)).await.unwrap();
    assert!(matches!(only.tokens("api_keys"), Err(TokensError::NoEntity { .. })));
    let only = Registry::builder().builtins().only(["api_keys"]).build(config(folder.path(), "memory:", PLAIN)).await;
    only.unwrap().tokens("api_keys").unwrap();
}

/// With another prefix, or with ids instead, no token given out would be read again.
#[tokio::test]
async fn the_prefix_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOW_MS);
    build(folder.path(), "sqlite:ids.db", PLAIN, &clock).await.unwrap().close().await.unwrap();
    let changed = "prefix = \"acme_key_\"";
    match build(folder.path(), "sqlite:ids.db", changed, &clock).await.unwrap_err() {
        BuildError::Store { source, .. } => {
            assert_eq!(source.kind(), StoreErrorKind::FormatMismatch);
            assert!(
                source.to_string().contains("prefix is acme_key_ in the config and acme_pat_ in the store"),
                "{source}"
            );
        }
        other => panic!("{other:?}"),
    }
    let later = "prefix = \"acme_pat_\"\nexpires = \"1d\"\nscopes = [\"a\"]";
    build(folder.path(), "sqlite:ids.db", later, &clock).await.unwrap();
}

// ---- the config ----

fn check(settings: &str) -> Result<Checked, ConfigErrors> {
    let builder = Registry::builder().builtins();
    config(Path::new("."), "memory:", settings).check(builder.catalog(), &Environment::default(), NOW_MS)
}

#[test]
fn the_config_is_read() {
    let settings = "prefix = \"acme_test_pat_\"\nexpires = \"90d\"\nscopes = [\"a:b\", \"c\"]\nstore = \"main\"";
    let checked = check(settings).unwrap();
    let tokens = checked.tokens("api_keys").unwrap();
    assert_eq!((tokens.format.prefix(), tokens.expires_ms), ("acme_test_pat_", Some(90 * DAY_MS)));
    assert_eq!((tokens.scopes.clone(), tokens.store.as_str()), (Some(vec!["a:b".to_owned(), "c".to_owned()]), "main"));
    assert!(checked.entity("api_keys").is_none() && checked.has_entity("api_keys"));
    let plain = check(PLAIN).unwrap();
    let tokens = plain.tokens("api_keys").unwrap();
    assert_eq!((tokens.expires_ms, tokens.scopes.clone()), (None, None));
    assert!(tokens.facts().iter().any(|fact| fact.warning), "tokens that never expire deserve a warning");
}

/// Settings, whether the schema knows them to be wrong too, and what is told.
const WRONG: &[(&str, bool, &str)] = &[
    ("", true, "entities.api_keys.prefix: missing"),
    ("prefix = \"acme\"", true, "entities.api_keys.prefix: \"acme\" is no bearer prefix"),
    ("prefix = \"Acme_pat_\"", true, "is no bearer prefix"),
    ("prefix = 5", true, "a text in quotes was expected"),
    ("prefix = \"acme_pat_\"\nexpires = \"30 days\"", true, "is not a duration"),
    ("prefix = \"acme_pat_\"\nexpires = \"0s\"", false, "a token lives from 1s"),
    ("prefix = \"acme_pat_\"\nexpires = \"36501d\"", false, "a token lives from 1s"),
    ("prefix = \"acme_pat_\"\nscopes = \"all\"", true, "a list of texts was expected"),
    ("prefix = \"acme_pat_\"\nscopes = [\"All\"]", true, "\"All\" is no scope"),
    ("prefix = \"acme_pat_\"\nscopes = [\"a\", \"a\"]", true, "stands there twice"),
    ("prefix = \"acme_pat_\"\nscope = [\"a\"]", true, "unknown key; did you mean \"scopes\"?"),
    (
        "prefix = \"acme_pat_\"\npublic = { form = \"token\" }",
        true,
        "not of bearer (known: scheme, store, prefix, expires, scopes)",
    ),
    ("prefix = \"acme_pat_\"\nrange = 1000", true, "`range` is a key of segment, not of bearer"),
    ("prefix = \"acme_pat_\"\nstore = \"mian\"", false, "no store \"mian\" (known: main); did you mean \"main\"?"),
    (
        "prefix = \"acme_pat_\"\n[entities.invites]\nscheme = \"bearer\"\nprefix = \"acme_pat_\"",
        false,
        "entities.invites.prefix: \"acme_pat_\" is the prefix of entity api_keys already",
    ),
    (
        "prefix = \"acme_pat_\"\n[entities.more]\nscheme = \"ulid\"\npublic = { form = \"token\", prefix = \"acme_pat\" }\n\
      [keys.main]\nfile = \"k\"",
        false,
        "entities.api_keys.prefix: \"acme_pat_\" is the prefix of entity more already",
    ),
    ("prefix = \"acme_pat_\"\n[entities.more]\nscheme = \"bearre\"", true, "did you mean \"bearer\"?"),
    (
        "prefix = \"acme_pat_\"\n[entities.more]\nscheme = \"uuidv7\"\nexpires = \"1d\"",
        true,
        "`expires` is a key of bearer, not of uuidv7",
    ),
];

#[test]
fn what_is_wrong_is_told_in_its_place_and_the_schema_agrees() {
    let builder = Registry::builder().builtins();
    let schema = jsonschema::draft7::new(&schema(builder.catalog())).unwrap();
    let taken = |settings: &str| schema.is_valid(&json_of(config(Path::new("."), "memory:", settings).settings()));
    let long: Vec<String> = (0..33).map(|nth| format!("\"s{nth}\"")).collect();
    let long = format!("prefix = \"acme_pat_\"\nscopes = [{}]", long.join(", "));
    for (settings, in_schema, told) in WRONG.iter().copied().chain([(long.as_str(), true, "33 scopes, 32 at most")]) {
        let errors = check(settings).expect_err(settings).to_string();
        assert!(errors.contains(told) && errors.lines().count() == 1, "{settings}\n{errors}");
        assert_eq!(!taken(settings), in_schema, "{settings}");
    }
    for good in [PLAIN, "prefix = \"acme_test_pat_\"\nexpires = \"365d\"\nscopes = []\nstore = \"main\""] {
        assert!(taken(good) && check(good).is_ok(), "{good}");
    }
}

fn json_of(table: &[(String, Setting)]) -> serde_json::Value {
    table.iter().map(|(key, setting)| (key.clone(), value(&setting.value))).collect()
}

fn value(setting: &Value) -> serde_json::Value {
    match setting {
        Value::Text(text) | Value::Time(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Fraction(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::List(items) => items.iter().map(|item| value(&item.value)).collect(),
        Value::Table(table) => json_of(table),
        other => panic!("{other:?}"),
    }
}

/// A stranger's store that keeps no tokens is refused in `build`, not at the first call.
#[tokio::test]
async fn a_store_without_tokens_is_refused_when_building() {
    use async_trait::async_trait;
    use mintage::core::{
        StoreError,
        plugin::{Address, Backend, BackendFactory, Catalog, Plugin},
    };

    #[derive(Debug)]
    struct Older;

    #[async_trait]
    impl BackendFactory for Older {
        fn url_scheme(&self) -> &'static str {
            "older"
        }
        fn promise(&self) -> &'static str {
            "Ranges, leases and formats."
        }
        fn check(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
        async fn open(&self, address: &Address) -> Result<Backend, StoreError> {
            Ok(Backend::whole(mintage_backends::Memory::new(Arc::clone(&address.clock))))
        }
    }

    impl Plugin for Older {
        fn install(catalog: &mut Catalog) {
            catalog.backend(Self);
        }
    }

    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW_MS));
    let builder = || Registry::builder().builtins().plugin::<Older>().clock(Arc::clone(&clock));
    let config = config(Path::new("."), "older:", PLAIN);
    let error = builder().build(config.clone()).await.unwrap_err();
    assert!(
        matches!(&error, BuildError::Store { source, .. } if source.to_string().contains("bearer tokens")),
        "{error:?}"
    );
    builder().only(["users"]).build(config).await.unwrap();
}
