//! TOML text to settings that know their line and column.
//!
//! The TOML reader recovers from a syntax error and goes on, so several are told at once: the first of each line, because
//! the rest of a broken line only echoes it.

use mintage_core::plugin::{Place, Problem, Setting, Value};
use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue},
};

use super::words;

/// A table in the order of the file.
pub(super) type Table = Vec<(String, Setting)>;

/// Reads `text`. Whole numbers that do not fit are told in the second list, and the nearest that fit stand in for them: a key
/// that is there must not be called missing.
///
/// # Errors
/// The syntax errors.
pub(super) fn read(text: &str) -> Result<(Table, Vec<Problem>), Vec<Problem>> {
    let lines = Lines::of(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let mut grower = Grower { lines, unreadable: Vec::new() };
        let table = grower.table("", document.get_ref());
        return Ok((table, grower.unreadable));
    }
    let mut problems: Vec<Problem> = errors.iter().map(|error| syntax_problem(error, text, &lines)).collect();
    problems.sort_by_key(|problem| problem.at);
    problems.dedup_by_key(|problem| problem.at.map(|at| at.line));
    Err(problems)
}

/// Adds a key to a dotted path; a key that is not bare is quoted.
pub(super) fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let key = if bare { words::clipped(key) } else { words::quoted(key) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Turns the reader's tree into ours.
struct Grower<'t> {
    lines: Lines<'t>,
    unreadable: Vec<Problem>,
}

impl Grower<'_> {
    fn table(&mut self, path: &str, table: &DeTable<'_>) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .filter_map(|(key, value)| {
                let at = self.lines.place(key.span().start);
                let setting = self.setting(&join(path, key.get_ref()), at, value)?;
                Some((key.get_ref().to_string(), setting))
            })
            .collect()
    }

    fn setting(&mut self, path: &str, at: Place, value: &Spanned<DeValue<'_>>) -> Option<Setting> {
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Integer(self.integer(path, at, number)?),
            // Too large for a fraction reads as infinite, which no key takes.
            DeValue::Float(number) => Value::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(time) => Value::Time(time.to_string()),
            DeValue::Array(items) => Value::List(
                items
                    .iter()
                    .enumerate()
                    .filter_map(|(position, item)| {
                        let at = self.lines.place(item.span().start);
                        self.setting(&format!("{path}[{position}]"), at, item)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.table(path, table)),
        };
        Some(Setting { value, at })
    }

    fn integer(&mut self, path: &str, at: Place, number: &DeInteger<'_>) -> Option<i64> {
        let read = i64::from_str_radix(number.as_str(), number.radix());
        let (stand_in, message) = match read.as_ref().map_err(std::num::ParseIntError::kind) {
            Ok(_) => return read.ok(),
            Err(std::num::IntErrorKind::PosOverflow) => {
                let shown = words::clipped(&number.to_string());
                (Some(i64::MAX), format!("{shown} is above {}, the largest whole number TOML has", i64::MAX))
            }
            Err(std::num::IntErrorKind::NegOverflow) => {
                let shown = words::clipped(&number.to_string());
                (Some(i64::MIN), format!("{shown} is below {}, the smallest whole number TOML has", i64::MIN))
            }
            Err(_) => (None, format!("{} is not a whole number", words::quoted(&number.to_string()))),
        };
        self.unreadable.push(Problem { path: path.to_owned(), at: Some(at), message, warning: false });
        stand_in
    }
}

/// Finds the line and the column of a byte.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    fn place(&self, byte: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index)).copied().unwrap_or(0);
        let before = self.text.get(start..byte.min(self.text.len())).unwrap_or_default();
        let column = before.chars().count() + 1;
        Place { line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
    }
}

fn syntax_problem(error: &toml::de::Error, text: &str, lines: &Lines<'_>) -> Problem {
    let span = error.span();
    let found = span.clone().and_then(|span| text.get(span)).unwrap_or_default();
    let at = span.map(|span| lines.place(span.start));
    Problem { path: String::new(), at, message: plain_sentence(error.message(), found), warning: false }
}

/// The reader's messages, in words for people who do not know its grammar. One it does not know passes as it is.
fn plain_sentence(message: &str, found: &str) -> String {
    if message.starts_with("duplicate key") {
        return format!("{} is set twice: keep one", words::quoted(found));
    }
    if message.starts_with("unexpected leading zero") {
        return "a number must not begin with 0: leave the zero out".to_owned();
    }
    if message.starts_with("string values must be quoted") {
        return match found {
            "" => "a value is missing here".to_owned(),
            _ => format!("{} is no value: texts stand in \"quotes\"", words::quoted(found)),
        };
    }
    format!("not TOML: {}", message.strip_suffix(", expected nothing").unwrap_or(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, byte: usize) -> (u32, u32) {
        let at = Lines::of(text).place(byte);
        (at.line, at.column)
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("a\r\n\tb", 0), (1, 1));
        assert_eq!(place("a\r\n\tb", 4), (2, 2), "a tab is one character");
        assert_eq!(place("é = 'ü' x", 10), (1, 9), "two-byte characters count once");
        assert_eq!(place("a\n", 2), (2, 1), "behind the last line break");
        assert_eq!(place("é", 1), (1, 1), "inside a character");
        assert_eq!(place("a", 99), (1, 2), "behind the end");
    }

    #[test]
    fn keys_keep_the_order_of_the_file() {
        let (table, unreadable) = read("z = 1\na = { y = 1, b = 2 }\n[m]\n").unwrap();
        let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "a", "m"]);
        assert!(unreadable.is_empty());
        assert_eq!(table[0].1, Setting { value: Value::Integer(1), at: Place { line: 1, column: 1 } });
    }

    #[test]
    fn numbers_that_do_not_fit_are_told_and_stood_in_for() {
        let (table, unreadable) =
            read("a = 9223372036854775807\nb = 9223372036854775808\nc = [1, -9223372036854775809]\nd = 0x\ne = 0xFF")
                .unwrap();
        let told: Vec<String> =
            unreadable.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
        assert_eq!(
            told,
            [
                "b: 9223372036854775808 is above 9223372036854775807, the largest whole number TOML has",
                "c[1]: -9223372036854775809 is below -9223372036854775808, the smallest whole number TOML has",
                "d: \"0x\" is not a whole number",
            ]
        );
        let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "e"]);
        assert_eq!((&table[1].1.value, &table[3].1.value), (&Value::Integer(i64::MAX), &Value::Integer(255)));
    }

    #[test]
    fn paths_quote_what_is_not_bare() {
        assert_eq!(join("", "realm"), "realm");
        assert_eq!(join("entities", "order-lines"), "entities.order-lines");
        assert_eq!(join("entities", "a.b"), "entities.\"a.b\"");
        assert_eq!(join("entities", "a\nb"), "entities.\"a\\nb\"");
        assert_eq!(join("entities", ""), "entities.\"\"");
    }
}
