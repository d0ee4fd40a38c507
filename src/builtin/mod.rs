//! Our own schemes and stores, entering by the same door as a stranger's.

mod code;
mod random;
mod segment;
mod snowflake;

use mintage_core::plugin::{Catalog, Fact, Key, KeyKind, Plugin, Settings};
use mintage_schemes::TextForm;

/// Every scheme and every store this build has.
#[derive(Debug)]
pub struct Builtins;

impl Plugin for Builtins {
    fn install(catalog: &mut Catalog) {
        catalog.scheme(snowflake::SnowflakeFactory);
        catalog.scheme(segment::SegmentFactory);
        catalog.scheme(code::CodeFactory);
        for scheme in random::ALL {
            catalog.scheme(scheme);
        }
        mintage_backends::Builtin::install(catalog);
    }
}

/// A mean Gregorian year.
const YEAR_MS: i64 = 31_556_952_000;

const TEXT_FORMS: &[&str] = &["decimal", "base62", "crockford"];
const TEXT_KEY: Key = Key {
    name: "text",
    kind: KeyKind::Choice(TEXT_FORMS),
    about: "How a 64-bit id is written: decimal, or fixed-width base62 (11) or Crockford base32 (13), which sort as text.",
};

fn text_form(settings: &mut Settings<'_>) -> TextForm {
    match settings.choice("text", TEXT_FORMS) {
        Some("base62") => TextForm::Base62,
        Some("crockford") => TextForm::Crockford,
        _ => TextForm::Decimal,
    }
}

/// Bytes of key per row and per index entry, and what a year of a busy table comes to.
///
/// `index_bytes` was measured on PostgreSQL 15 with a million rows, or follows from its page layout.
fn storage_fact(key_bytes: u32, index_bytes: f64) -> Fact {
    /// A busy table: 100 rows a second.
    const ROWS_A_YEAR: f64 = 100.0 * 31_556_952.0;
    let gigabytes = |bytes_a_row: f64| bytes_a_row * ROWS_A_YEAR / 1e9;
    Fact::new(
        "storage",
        format!(
            "{key_bytes} bytes a row, about {index_bytes:.0} an index entry; at 100 rows a second a year is {:.1} GB of keys \
             and {:.1} GB of index",
            gigabytes(key_bytes.into()),
            gigabytes(index_bytes)
        ),
    )
}
