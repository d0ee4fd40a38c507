//! Random codes from the config to the table: odds, growth, and inserts that never share a code.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use mintage::{
    Config, ConfigErrors, RedrawError, Registry, config::Checked, core::ManualClock, entity, insert_or_redraw,
};
use sqlx::SqlitePool;

entity!(Link: Int = "links");

fn config(keys: &str) -> String {
    format!("version = 1\n[entities.links]\nscheme = \"code\"\n{keys}\n[stores.main]\nurl = \"sqlite:ids.db\"\n")
}

fn check(keys: &str) -> Result<Checked, ConfigErrors> {
    Registry::builder().builtins().check(&Config::parse(&config(keys), "mintage.toml").unwrap())
}

fn facts(keys: &str) -> Vec<String> {
    let checked = check(keys).unwrap();
    let facts = checked.entity("links").unwrap().plan.facts(0);
    facts
        .into_iter()
        .map(|fact| format!("{}{}: {}", if fact.warning { "! " } else { "" }, fact.name, fact.text))
        .collect()
}

async fn registry(folder: &tempfile::TempDir, keys: &str) -> Result<Registry, mintage::BuildError> {
    let file = folder.path().join("mintage.toml");
    std::fs::write(&file, config(keys)).unwrap();
    Registry::builder().builtins().build(Config::load(&file).unwrap()).await
}

#[test]
fn the_odds_are_told_for_the_rows_expected() {
    const BASE62: &str = "alphabet = \"base62\"\ncase_sensitive = true\n";
    for (keys, told) in [
        (
            "length = 7\nexpected = 600_000_000",
            "odds: a new draw is taken: 0.02 % with 600000000 rows, 1 % from 35216146062 rows on",
        ),
        (
            "length = 7\nexpected = 60_000_000_000",
            "! odds: with 60000000000 rows a new draw is taken 1.7 % of the time, more than 1 %: length = 8 has room",
        ),
        (
            "length = 8\nexpected = 60_000_000_000",
            "odds: a new draw is taken: 0.03 % with 60000000000 rows, 1 % from 2183401055848 rows on",
        ),
        (
            "length = 10\nexpected = 9_000_000_000_000_000_000",
            "! odds: with 9000000000000000000 rows a new draw is taken 100 % of the time, more than 1 %: no length of this alphabet has room: take another, or a wider scheme",
        ),
    ] {
        let facts = facts(&format!("{BASE62}{keys}"));
        assert!(facts.iter().any(|fact| fact == told), "{told}\n{facts:#?}");
    }
    // Without a figure from the owner, for round ones.
    let facts = facts("length = 7\nlengths_before = [6]");
    let odds =
        "odds: a new draw is taken: 0.007 % with 1000000 rows, 0.7 % with 100000000 rows, 1 % from 134929285 rows on";
    assert!(facts.iter().any(|fact| fact == odds), "{facts:#?}");
    assert!(facts.iter().any(|fact| fact == "capacity: 13492928512 codes of 7 characters out of 28"), "{facts:#?}");
    assert!(facts.iter().any(|fact| fact == "earlier: codes of 6 characters stay valid"), "{facts:#?}");
}

#[test]
fn warnings_of_check_name_their_place() {
    let warned = |keys: &str| check(keys).unwrap().warnings.to_string();
    assert_eq!(warned("length = 8\nexpected = 600_000_000"), "");
    let crowded = warned("length = 7\nexpected = 600_000_000");
    assert_eq!(
        crowded,
        "mintage.toml:5:1 entities.links.expected: with 600000000 rows a new draw is taken 4.4 % of the time, \
         more than 1 %: length = 8 has room"
    );
    assert!(
        warned("length = 8\nalphabet = \"base62\"")
            .starts_with("mintage.toml:5:1 entities.links.alphabet: base62 codes differ")
    );
    assert_eq!(warned("length = 8\nalphabet = \"base62\"\ncase_sensitive = true"), "");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    for (keys, told) in [
        ("", "mintage.toml:2:11 entities.links.length: missing: write `length = 8`"),
        ("length = 3", "mintage.toml:4:1 entities.links.length: 3 lies outside 4 to 20"),
        ("length = 14", "mintage.toml:4:1 entities.links.length: 14 characters of novowel do not fit: write 4 to 13"),
        (
            "length = 11\nalphabet = \"base62\"",
            "mintage.toml:4:1 entities.links.length: 11 characters of base62 do not fit: write 4 to 10",
        ),
        (
            "length = 19\nalphabet = \"digits\"",
            "mintage.toml:4:1 entities.links.length: 19 characters of digits do not fit: write 4 to 18",
        ),
        ("length = 8\nalphabet = \"base63\"", "mintage.toml:5:1 entities.links.alphabet: \"base63\" is not one of"),
        ("length = 8\ncase_sensitive = true", "mintage.toml:5:1 entities.links.case_sensitive: only base62"),
        ("length = 8\nlengths_before = [8]", "mintage.toml:5:1 entities.links.lengths_before: 8 is no earlier length"),
        (
            "length = 8\nlengths_before = [7, 7]",
            "mintage.toml:5:1 entities.links.lengths_before: 7 is no earlier length",
        ),
        ("length = 8\nlengths_before = [3]", "mintage.toml:5:1 entities.links.lengths_before: 3 lies outside 4 to 20"),
        ("length = 8\nlengths_before = [\"7\"]", "mintage.toml:5:1 entities.links.lengths_before: \"7\" is a text"),
        (
            "length = 8\nlengths_before = 7",
            "mintage.toml:5:1 entities.links.lengths_before: a list of whole numbers was expected",
        ),
        ("length = 8\nexpected = 0", "mintage.toml:5:1 entities.links.expected: 0 lies outside 1 to"),
        ("length = 8\nlenght = 7", "mintage.toml:5:1 entities.links.lenght: unknown key; did you mean \"length\"?"),
    ] {
        let errors = check(keys).unwrap_err().to_string();
        assert!(errors.starts_with(told), "{told}\n{errors}");
        assert_eq!(errors.lines().count(), 1, "once: {errors}");
    }
}

#[tokio::test]
async fn a_length_may_be_added_and_never_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let old = registry(&folder, "length = 7").await.unwrap();
    let minter = old.minter::<Link>().unwrap();
    let first = minter.mint().unwrap();
    let text = minter.text(first);
    assert_eq!(text.len(), 7);
    drop(minter);
    old.close().await.unwrap();

    for refused in ["length = 8", "length = 7\nalphabet = \"crockford\""] {
        let told = registry(&folder, refused).await.unwrap_err();
        let told = std::error::Error::source(&told).unwrap().to_string();
        assert!(told.contains("entities.links: the config disagrees"), "{told}");
    }
    let grown = registry(&folder, "length = 8\nlengths_before = [7]").await.unwrap();
    let minter = grown.minter::<Link>().unwrap();
    assert_eq!(minter.parse(&text).unwrap(), first);
    assert_eq!(minter.text(minter.mint().unwrap()).len(), 8);
    drop(minter);
    grown.close().await.unwrap();
    let told = registry(&folder, "length = 7").await.unwrap_err();
    let told = std::error::Error::source(&told).unwrap().to_string();
    assert!(told.contains("length.8 is (none) in the config and in use in the store"), "{told}");
}

#[tokio::test]
async fn fixed_registries_draw_the_same_codes() {
    let mut drawn = Vec::new();
    for seed in [1, 1, 2] {
        let config = Config::parse(&config("length = 8"), "mintage.toml").unwrap();
        let registry = Registry::fixed(config, ManualClock::at(1_796_000_000_000), seed).await.unwrap();
        drawn.push(registry.minter::<Link>().unwrap().mint_many(100).await.unwrap());
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
}

async fn table(folder: &tempfile::TempDir) -> SqlitePool {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.path().join("links.db"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .busy_timeout(std::time::Duration::from_secs(60));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE links (code INTEGER PRIMARY KEY, target TEXT NOT NULL UNIQUE)")
        .execute(&pool)
        .await
        .unwrap();
    pool
}

async fn insert(pool: &SqlitePool, code: u64, target: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query("INSERT INTO links (code, target) VALUES (?, ?) ON CONFLICT (code) DO NOTHING")
        .bind(i64::try_from(code).unwrap())
        .bind(target)
        .execute(pool)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// 16 tasks fill 1600 of 10 000 codes: about 137 draws meet a code that is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_tasks_on_a_tiny_code_space_get_a_code_each() {
    const TASKS: u32 = 16;
    const ROWS: u32 = 100;
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&folder, "length = 4\nalphabet = \"digits\"").await.unwrap();
    let pool = table(&folder).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (links, pool) = (registry.minter::<Link>().unwrap(), pool.clone());
            tokio::spawn(async move {
                let (mut codes, mut draws) = (Vec::new(), 0u32);
                for row in 0..ROWS {
                    let link = insert_or_redraw(&links, 50, |link| {
                        draws += 1;
                        let (pool, target) = (pool.clone(), format!("{task}/{row}"));
                        async move { insert(&pool, link.raw(), &target).await }
                    });
                    codes.push(link.await.unwrap().raw());
                }
                (codes, draws)
            })
        })
        .collect();
    let (mut codes, mut draws) = (HashSet::new(), 0);
    for task in tasks {
        let (mine, drawn) = task.await.unwrap();
        codes.extend(mine);
        draws += drawn;
    }
    assert_eq!(codes.len(), (TASKS * ROWS) as usize, "a code each");
    assert!(draws > TASKS * ROWS, "some were drawn again: {draws}");
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM links").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, i64::from(TASKS * ROWS));
}

#[tokio::test]
async fn a_full_code_space_and_other_faults_end_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&folder, "length = 4\nalphabet = \"digits\"").await.unwrap();
    let links = registry.minter::<Link>().unwrap();
    let mut tries = 0;
    let error = insert_or_redraw(&links, 7, |_| {
        tries += 1;
        std::future::ready(Ok::<bool, sqlx::Error>(false))
    });
    let error = error.await.unwrap_err();
    assert!(
        matches!(error, RedrawError::Taken { tries: 7 }) && error.to_string().contains("raise `length`"),
        "{error}"
    );
    assert_eq!(tries, 7);

    let pool = table(&folder).await;
    insert_or_redraw(&links, 9, |link| insert(&pool, link.raw(), "same target")).await.unwrap();
    // A clash in another column is no reason to draw again.
    let other = insert_or_redraw(&links, 9, |link| insert(&pool, link.raw(), "same target")).await.unwrap_err();
    assert!(matches!(&other, RedrawError::Insert(sqlx::Error::Database(_))), "{other:?}");

    registry.close().await.unwrap();
    let closed = insert_or_redraw(&links, 9, |link| insert(&pool, link.raw(), "another")).await.unwrap_err();
    assert!(matches!(closed, RedrawError::Mint(_)), "{closed:?}");
}
