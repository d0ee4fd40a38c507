//! Every reader of ids as they are inside the house, and the inspector, which tries them all.
#![no_main]

use std::sync::LazyLock;

use mintage::{
    Config, Inspector, Registry,
    config::Checked,
    schemes::{TextForm, parse_ksuid, parse_ulid, parse_uuid, parse_uuid_lenient},
};
use mintage_core::{Format, parse_decimal};

/// 2027-01-15T08:00:00Z.
const NOW_MS: u64 = 1_800_000_000_000;

/// The shipped config, a code and a series besides.
static CHECKED: LazyLock<Checked> = LazyLock::new(|| {
    let more = "[entities.links]\nscheme = \"code\"\nlength = 8\n[series.invoices]\nformat = \"{yyyy}{mm}{dd}-{n:06}\"\n\
                zone = \"Europe/Berlin\"\n";
    let text = format!("{}\n{more}", include_str!("../../mintage.toml"));
    let config = Config::parse(&text, "mintage.toml").expect("it is TOML");
    Registry::builder().builtins().check(&config).expect("it is a config")
});

static INSPECTOR: LazyLock<Inspector> = LazyLock::new(|| {
    let readers = CHECKED.entities.iter().map(|entity| (entity.name.clone(), entity.plan.reader()));
    Inspector::new(readers.collect(), NOW_MS)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for entity in &CHECKED.entities {
        let reader = entity.plan.reader();
        if let Ok(id) = reader.parse(text) {
            let written = reader.format(id).expect("it has a text");
            assert!(written.eq_ignore_ascii_case(text), "{}: {text} is written {written}", entity.name);
            assert_eq!(reader.parse(&written), Ok(id));
            assert!(reader.anatomy(id).is_some());
        }
    }
    for series in &CHECKED.series {
        if let Ok(number) = series.format.parse(text) {
            assert_eq!(number.as_str(), text);
        }
        if let Ok(number) = series.format.parse_human(text) {
            assert_eq!(series.format.parse(number.as_str()).as_ref(), Ok(&number));
        }
    }
    for form in ["decimal", "base62", "crockford"].into_iter().filter_map(TextForm::named) {
        for bits in [1, 63, 64] {
            if let Ok(value) = form.parse(text, bits) {
                let mut written = String::new();
                form.format(value, &mut written).expect("a text");
                assert!(written.eq_ignore_ascii_case(text) && u128::from(value) < 1 << bits, "{text} as {bits} bits");
            }
        }
    }
    if let Ok(value) = parse_decimal(text, 64) {
        assert_eq!(value.to_string(), text);
    }
    if let Ok(uuid) = parse_uuid(text) {
        assert_eq!(parse_uuid_lenient(text), Ok(uuid));
    }
    let _ = (parse_ulid(text), parse_ksuid(text), mintage::time::parse(text));
    if let Ok(format) = text.parse::<Format>() {
        assert_eq!(format.to_string().parse::<Format>().ok(), Some(format));
    }
    let inspection = INSPECTOR.inspect(text);
    assert!(inspection.to_json().is_object() && inspection.candidates.len() <= 50);
});
