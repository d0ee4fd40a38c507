//! Calendar series: midnight, daylight saving, clock steps, several hosts, and the end of a width.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, error::Error, num::NonZeroU32};

use mintage::{
    BuildError, Config, ConfigErrors, Registry, Series, SeriesError,
    config::Checked,
    core::{ManualClock, ParseError, Sequence},
    time,
};
use proptest::prelude::*;

const DAILY: &str = "format = \"{yyyy}{mm}{dd}-{n:06}\"\nzone = \"Europe/Berlin\"";

fn config(keys: &str) -> String {
    format!(
        "version = 1\n[entities.users]\nscheme = \"uuidv7\"\n[series.invoices]\n{keys}\n[stores.main]\nurl = \"sqlite:ids.db\"\n"
    )
}

fn check(keys: &str) -> Result<Checked, ConfigErrors> {
    Registry::builder().builtins().check(&Config::parse(&config(keys), "mintage.toml").unwrap())
}

fn ms(text: &str) -> u64 {
    u64::try_from(time::parse(text).unwrap()).unwrap()
}

fn at(text: &str) -> ManualClock {
    ManualClock::at(ms(text))
}

/// A host of its own: a registry on the SQLite file in `folder`.
async fn host(folder: &tempfile::TempDir, keys: &str, clock: &ManualClock) -> Result<Registry, BuildError> {
    let file = folder.path().join("mintage.toml");
    std::fs::write(&file, config(keys)).unwrap();
    Registry::builder().builtins().clock(clock.clone()).build(Config::load(&file).unwrap()).await
}

async fn text(series: &Series) -> String {
    let number = series.next().await.unwrap();
    assert_eq!(series.parse(number.as_str()).unwrap(), number, "parses back");
    number.to_string()
}

#[tokio::test]
async fn midnight_comes_between_two_calls_in_the_zone_of_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T22:59:59.999Z");
    let registry = host(&folder, DAILY, &clock).await.unwrap();
    let invoices = registry.series("invoices").unwrap();
    assert_eq!(text(&invoices).await, "20261130-000001");
    assert_eq!(text(&invoices).await, "20261130-000002");
    clock.advance(1);
    assert_eq!(text(&invoices).await, "20261201-000001");
    // The clock steps back over midnight: yesterday goes on.
    clock.step(-1);
    assert_eq!(text(&invoices).await, "20261130-000003");
    clock.step(1);
    let number = invoices.next().await.unwrap();
    assert_eq!(
        (number.as_str(), number.n(), number.period().to_string().as_str()),
        ("20261201-000002", 2, "2026-12-01")
    );
    registry.close().await.unwrap();
    assert!(invoices.next().await.unwrap_err().to_string().contains("closed"));
}

/// In the hours that are missing or come twice, and wherever on earth: the day is that of the zone, and nothing repeats.
#[tokio::test]
async fn no_hour_of_any_zone_repeats_a_number() {
    for (zone, from, hours, days) in [
        ("Europe/Berlin", "2026-03-28T00:00:00Z", 72, ["20260328", "20260329", "20260330", "20260331"].as_slice()),
        ("Europe/Berlin", "2026-10-24T00:00:00Z", 72, &["20261024", "20261025", "20261026", "20261027"]),
        ("Pacific/Tongatapu", "2027-12-31T00:00:00Z", 24, &["20271231", "20280101"]),
        ("Pacific/Pago_Pago", "2028-02-29T00:00:00Z", 48, &["20280228", "20280229", "20280301"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = at(from);
        let keys = format!("format = \"{{yyyy}}{{mm}}{{dd}}-{{n:06}}\"\nzone = \"{zone}\"");
        let registry = host(&folder, &keys, &clock).await.unwrap();
        let invoices = registry.series("invoices").unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..hours * 2 {
            assert!(seen.insert(text(&invoices).await), "repeated");
            clock.advance(1_800_000);
        }
        let told: BTreeSet<&str> = seen.iter().filter_map(|text| text.get(..8)).collect();
        assert_eq!(told.into_iter().collect::<Vec<_>>(), days);
        assert_dense(&seen);
        registry.close().await.unwrap();
    }
}

/// Of each period, all numbers from 1 on.
fn assert_dense(texts: &BTreeSet<String>) {
    let mut last = ("", 0);
    for text in texts {
        let (day, n) = text.split_once('-').unwrap();
        let n: u64 = n.parse().unwrap();
        assert_eq!(n, if last.0 == day { last.1 + 1 } else { 1 }, "{text}");
        last = (day, n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hosts_interleave_without_a_repeat_or_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    // Their clocks disagree by two seconds, and midnight comes while they number.
    let clocks = [at("2026-11-30T22:59:50Z"), at("2026-11-30T22:59:52Z")];
    let hosts = [host(&folder, DAILY, &clocks[0]).await.unwrap(), host(&folder, DAILY, &clocks[1]).await.unwrap()];
    let tasks: Vec<_> = hosts
        .iter()
        .zip(&clocks)
        .map(|(host, clock)| {
            let (invoices, clock) = (host.series("invoices").unwrap(), clock.clone());
            tokio::spawn(async move {
                let mut texts = Vec::new();
                for _ in 0..500 {
                    texts.push(invoices.next().await.unwrap().to_string());
                    clock.advance(40);
                }
                texts
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for task in tasks {
        for text in task.await.unwrap() {
            assert!(seen.insert(text.clone()), "{text} twice");
        }
    }
    for host in hosts {
        host.close().await.unwrap();
    }
    assert_eq!(seen.len(), 1000);
    assert!(seen.first().unwrap().starts_with("20261130") && seen.last().unwrap().starts_with("20261201"));
    assert_dense(&seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_one_process_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T12:00:00Z");
    let registry = host(&folder, &format!("{DAILY}\nrange = 7"), &clock).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let invoices = registry.series("invoices").unwrap();
            tokio::spawn(async move {
                let mut texts = Vec::new();
                for _ in 0..25 {
                    texts.push(invoices.next().await.unwrap().to_string());
                }
                texts
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for task in tasks {
        seen.extend(task.await.unwrap());
    }
    registry.close().await.unwrap();
    assert_eq!(seen.len(), 200);
    assert_dense(&seen);
    // 200 of 29 · 7 were used and the tail was given back: the next process goes on without a gap.
    let registry = host(&folder, DAILY, &clock).await.unwrap();
    assert_eq!(text(&registry.series("invoices").unwrap()).await, "20261130-000201");
}

#[tokio::test]
async fn the_tail_of_a_range_goes_back_when_the_period_changes() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T12:00:00Z");
    let registry = host(&folder, &format!("{DAILY}\nrange = 100"), &clock).await.unwrap();
    let invoices = registry.series("invoices").unwrap();
    for expected in ["20261130-000001", "20261201-000001", "20261130-000002", "20261201-000002"] {
        assert_eq!(text(&invoices).await, expected);
        clock.step(if expected.starts_with("20261130") { 86_400_000 } else { -86_400_000 });
    }
    registry.close().await.unwrap();
}

#[tokio::test]
async fn the_width_ends_a_period_with_an_error_and_the_next_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T12:00:00Z");
    let keys = "format = \"{yyyy}-{mm}/{n:03}\"\nzone = \"UTC\"\nrange = 100";
    let registry = host(&folder, keys, &clock).await.unwrap();
    let invoices = registry.series("invoices").unwrap();
    for n in 1..=999 {
        assert_eq!(invoices.next().await.unwrap().to_string(), format!("2026-11/{n:03}"));
    }
    for _ in 0..3 {
        let error = invoices.next().await.unwrap_err();
        assert!(matches!(error, SeriesError::Full { width: 3, n_max: 999, .. }));
        assert_eq!(
            error.to_string(),
            "series invoices: {n:03} ends at 999 and the period 2026-11 has used them all; numbers begin again with the next \
             period. For more in one period begin a series of another name with a wider format, such as {n:04}"
        );
    }
    clock.advance(86_400_000);
    assert_eq!(text(&invoices).await, "2026-12/001");
    registry.close().await.unwrap();
    // Another process finds the old period full as well.
    let registry = host(&folder, keys, &at("2026-11-30T12:00:00Z")).await.unwrap();
    assert!(matches!(registry.series("invoices").unwrap().next().await, Err(SeriesError::Full { .. })));
}

#[tokio::test]
async fn restarts_by_month_year_or_never() {
    for (keys, expected) in [
        ("format = \"R{yyyy}{mm}{dd}-{n}\"\nzone = \"UTC\"", ["R20261130-1", "R20261201-1", "R20270101-1"]),
        (
            "format = \"R{yyyy}{mm}{dd}-{n}\"\nzone = \"UTC\"\nrestart = \"month\"",
            ["R20261130-1", "R20261201-1", "R20270101-1"],
        ),
        (
            "format = \"R{yyyy}{mm}{dd}-{n}\"\nzone = \"UTC\"\nrestart = \"year\"",
            ["R20261130-1", "R20261201-2", "R20270101-1"],
        ),
        ("format = \"R{yy}/{n:03}\"\nzone = \"UTC\"", ["R26/001", "R26/002", "R27/001"]),
        ("format = \"R{yy}/{n:03}\"\nzone = \"UTC\"\nrestart = \"never\"", ["R26/001", "R26/002", "R27/003"]),
        (
            "format = \"INV-{n:05}-DE\"\nstart = 1000\ncheck_digit = \"damm\"\ngroup = 3",
            ["INV-010008-DE", "INV-010019-DE", "INV-010024-DE"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = at("2026-11-30T12:00:00Z");
        let registry = host(&folder, keys, &clock).await.unwrap();
        let series = registry.series("invoices").unwrap();
        let mut told = Vec::new();
        for day in [1, 31, 0] {
            told.push(text(&series).await);
            clock.advance(day * 86_400_000);
        }
        assert_eq!(told, expected, "{keys}");
        registry.close().await.unwrap();
    }
}

#[tokio::test]
async fn people_read_it_in_groups_and_type_it_their_way() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "format = \"INV-{yyyy}/{n:06}\"\nzone = \"UTC\"\ncheck_digit = \"damm\"\ngroup = 4";
    let registry = host(&folder, keys, &at("2026-11-30T12:00:00Z")).await.unwrap();
    let series = registry.series("invoices").unwrap();
    let number = series.next().await.unwrap();
    assert_eq!(number.grouped(), number.as_str().replacen("/000", "/000 ", 1));
    for typed in
        [number.grouped(), number.as_str(), &number.as_str().to_lowercase().replace(['-', '/'], " ").replace('0', "o")]
    {
        assert_eq!(series.parse_human(typed).unwrap(), number, "{typed}");
    }
    assert!(series.parse(number.grouped()).is_err(), "one text only");
    let mut wrong = number.as_str().to_owned();
    let last = wrong.pop().unwrap();
    wrong.push(if last == '9' { '0' } else { '9' });
    assert_eq!(series.parse(&wrong), Err(ParseError::CheckDigit));
}

#[tokio::test]
async fn the_format_is_recorded_and_a_lost_sequence_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T12:00:00Z");
    let registry = host(&folder, DAILY, &clock).await.unwrap();
    assert_eq!(text(&registry.series("invoices").unwrap()).await, "20261130-000001");
    registry.close().await.unwrap();
    for changed in
        [DAILY.replace("06", "07"), DAILY.replace("Berlin", "Paris"), format!("{DAILY}\ncheck_digit = \"damm\"")]
    {
        let error = host(&folder, &changed, &clock).await.unwrap_err();
        let told = error.source().unwrap().to_string();
        assert!(told.starts_with("series.invoices: the config disagrees"), "{told}");
    }
    let pool = sqlx::SqlitePool::connect(&format!("sqlite:{}", folder.path().join("ids.db").display())).await.unwrap();
    let gone =
        sqlx::query("DELETE FROM mintage_sequence WHERE name = 'invoices/2026-11-30'").execute(&pool).await.unwrap();
    assert_eq!(gone.rows_affected(), 1);
    pool.close().await;
    let registry = host(&folder, DAILY, &clock).await.unwrap();
    let error = registry.series("invoices").unwrap().next().await.unwrap_err();
    assert!(matches!(error, SeriesError::Ready(_)), "{error:?}");
    clock.advance(86_400_000);
    assert_eq!(text(&registry.series("invoices").unwrap()).await, "20261201-000001");
}

/// Another holder of the sequence, such as a tool: numbers that it took are not handed out.
#[tokio::test]
async fn numbers_taken_elsewhere_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2026-11-30T12:00:00Z");
    let registry = host(&folder, DAILY, &clock).await.unwrap();
    let invoices = registry.series("invoices").unwrap();
    assert_eq!(text(&invoices).await, "20261130-000001");
    let address = mintage::core::plugin::Address::new("sqlite:ids.db", folder.path(), std::sync::Arc::new(clock));
    let builder = Registry::builder().builtins();
    let sqlite = builder.catalog().backends().iter().find(|factory| factory.url_scheme() == "sqlite").unwrap();
    let ranges = sqlite.open(&address).await.unwrap().ranges.unwrap();
    let taken =
        ranges.allocate(&Sequence::new("invoices/2026-11-30", 1), NonZeroU32::new(9).unwrap(), None).await.unwrap();
    assert_eq!((taken.start, taken.end), (2, 11));
    assert_eq!(text(&invoices).await, "20261130-000011");
    registry.close().await.unwrap();
}

#[tokio::test]
async fn unknown_series_and_years_that_do_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let clock = at("2100-01-01T00:00:00Z");
    let registry = host(&folder, "format = \"{yy}-{n}\"\nzone = \"UTC\"", &clock).await.unwrap();
    let error = registry.series("invoice").unwrap_err().to_string();
    assert_eq!(error, "no series \"invoice\" (known: invoices): add [series.invoice] to the config");
    assert!(matches!(registry.series("invoices").unwrap().next().await, Err(SeriesError::Clock { .. })));
    clock.step(-1);
    assert_eq!(text(&registry.series("invoices").unwrap()).await, "99-1");
    assert!(format!("{:?}", registry.series("invoices").unwrap()).contains("invoices"));
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    for (keys, told) in [
        ("", "mintage.toml:4:9 series.invoices.format: missing: write `format = "),
        (
            "format = \"{yyyy}{n}\"\nzone = \"UTC\"",
            "mintage.toml:5:1 series.invoices.format: \"{yyyy}{n}\": {n} has no width",
        ),
        ("format = \"{n}{n}\"", "mintage.toml:5:1 series.invoices.format: \"{n}{n}\": two {n}"),
        ("format = \"{hh}-{n}\"", "mintage.toml:5:1 series.invoices.format: \"{hh}-{n}\": {hh} is no field"),
        (
            "format = \"{mm}-{n}\"\nzone = \"UTC\"",
            "mintage.toml:5:1 series.invoices.format: \"{mm}-{n}\": {mm} without a year",
        ),
        ("format = 5", "mintage.toml:5:1 series.invoices.format: a text in quotes was expected"),
        ("format = \"{yyyy}-{n}\"", "mintage.toml:4:9 series.invoices.zone: missing: write `zone = "),
        ("format = \"{n}\"\nzone = \"UTC\"", "mintage.toml:6:1 series.invoices.zone: the format has no date"),
        (
            "format = \"{yyyy}-{n}\"\nzone = \"Europe/Berln\"",
            "mintage.toml:6:1 series.invoices.zone: no time zone \"Europe/Berln\": write a name of the IANA database, such as \
             Europe/Berlin; did you mean \"Europe/Berlin\"?",
        ),
        (
            "format = \"{yyyy}-{n}\"\nzone = \"new york\"",
            "mintage.toml:6:1 series.invoices.zone: no time zone \"new york\"",
        ),
        (
            "format = \"{yyyy}-{n}\"\nzone = \"UTC\"\nrestart = \"day\"",
            "mintage.toml:7:1 series.invoices.restart: numbers that begin again each day",
        ),
        (
            "format = \"{yyyy}-{n}\"\nzone = \"UTC\"\nrestart = \"week\"",
            "mintage.toml:7:1 series.invoices.restart: \"week\" is not one of",
        ),
        ("format = \"{n:03}\"\nstart = 1000", "mintage.toml:6:1 series.invoices.start: 1000 is above 999"),
        ("format = \"{n:03}\"\nrange = 1000", "mintage.toml:6:1 series.invoices.range: 1000 is more than a period has"),
        ("format = \"{n:03}\"\nrange = 0", "mintage.toml:6:1 series.invoices.range: 0 lies outside 1 to"),
        (
            "format = \"{n:03}\"\ncheck_digit = \"luhn\"",
            "mintage.toml:6:1 series.invoices.check_digit: \"luhn\" is not one of damm",
        ),
        (
            "format = \"{n:03}\"\nformt = 1",
            "mintage.toml:6:1 series.invoices.formt: unknown key; did you mean \"format\"?",
        ),
        (
            "format = \"{n:03}\"\nstore = \"mian\"",
            "mintage.toml:6:1 series.invoices.store: no store \"mian\" (known: main); did you mean",
        ),
        (
            "format = \"{n}\"\n[entities.invoices]\nscheme = \"uuidv7\"",
            "mintage.toml:4:9 series.invoices: there is an entity of this name",
        ),
        (
            "format = \"{n}\"\n[entities.orders]\nscheme = \"segment\"\nsequence = \"invoices/all\"",
            "mintage.toml:4:9 series.invoices: the sequence of entity orders begins with invoices/",
        ),
    ] {
        let errors = check(keys).unwrap_err().to_string();
        assert!(errors.starts_with(told), "{told}\n{errors}");
        assert_eq!(errors.lines().count(), 1, "once: {errors}");
    }
    assert!(
        check("format = \"{yyyy}-{n}\"\nzone = \"new york\"")
            .unwrap_err()
            .to_string()
            .contains("did you mean \"America/New_York\"?")
    );
    let checked = check("format = \"{yyyy}-{n}\"\nzone = \"europe/berlin\"").unwrap();
    assert_eq!(checked.series("invoices").unwrap().format.zone(), Some("Europe/Berlin"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the clock does, no text repeats, each is that of the day of the clock, and each parses back.
    #[test]
    fn no_clock_makes_it_repeat(steps in prop::collection::vec(-200_000_000i64..200_000_000, 1..40), range in 1..5u32) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let config = config(&format!("{DAILY}\nrange = {range}"));
            let clock = at("2026-10-25T00:59:00Z");
            let registry = Registry::fixed(Config::parse(&config, "mintage.toml").unwrap(), clock.clone(), 1).await.unwrap();
            let invoices = registry.series("invoices").unwrap();
            let mut seen = BTreeSet::new();
            for step in steps {
                clock.step(step);
                prop_assert!(seen.insert(text(&invoices).await));
            }
            assert_dense(&seen);
            registry.close().await.unwrap();
            Ok(())
        })?;
    }
}
