//! `format = "{yyyy}{mm}{dd}-{n:06}"`: what a number of a series looks like, written and read.
//!
//! The invariant: one text a number, one number a text. Every part but `{n}` has a fixed width and `{n}` stands there once,
//! so there is one way to cut a text into its parts.

use mintage_core::ParseError;

use super::calendar::{Day, Restart};
use crate::public::damm;

/// Most digits a number may have: with 18 it fits 63 bits whatever the digits are.
const DIGITS_MAX: u32 = 18;
/// Longest text between the fields, in characters: it goes on every invoice.
const LITERALS_MAX: usize = 60;
/// What may stand between the fields besides letters and digits.
const SEPARATORS: &str = " -_./#:+";
/// `{yy}` means these years.
const SHORT_YEARS: std::ops::RangeInclusive<u16> = 2000..=2099;

/// A format, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    /// The same with what people drop or mistake taken out of the literals.
    skeleton: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Year,
    ShortYear,
    Month,
    Day,
    /// With its width, filled up with zeros.
    Number(Option<u32>),
    /// The check digit; it follows the number.
    Check,
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) day: Day,
    pub(crate) n: u64,
}

impl Template {
    /// Takes `format` apart.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what to write.
    pub(crate) fn parse(format: &str, check_digit: bool) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = format;
        while !rest.is_empty() {
            let open = rest.find('{').unwrap_or(rest.len());
            let (literal, field) = rest.split_at(open);
            if !literal.is_empty() {
                parts.push(literal_part(literal)?);
            }
            let Some(field) = field.strip_prefix('{') else { break };
            let (name, behind) = field.split_once('}').ok_or("a { without its }: close the field, such as {yyyy}")?;
            parts.push(field_part(name)?);
            if check_digit && matches!(parts.last(), Some(Part::Number(_))) {
                parts.push(Part::Check);
            }
            rest = behind;
        }
        fits_together(&parts)?;
        Ok(Self { skeleton: skeleton(&parts), parts })
    }

    /// The finest date the text carries.
    pub(crate) fn finest(&self) -> Restart {
        let has = |part: &Part| self.parts.contains(part);
        if has(&Part::Day) {
            Restart::Day
        } else if has(&Part::Month) {
            Restart::Month
        } else if has(&Part::Year) || has(&Part::ShortYear) {
            Restart::Year
        } else {
            Restart::Never
        }
    }

    /// How many digits a number may have.
    pub(crate) fn digits(&self) -> u32 {
        self.width().unwrap_or(DIGITS_MAX)
    }

    /// How many digits each number has; `None` where it varies.
    fn width(&self) -> Option<u32> {
        self.parts.iter().find_map(|part| if let Part::Number(width) = part { *width } else { None })
    }

    /// The largest number that can be written.
    pub(crate) fn n_max(&self) -> u64 {
        10u64.pow(self.digits()) - 1
    }

    /// The text; `None` if the number or the year has more digits than the format.
    pub(crate) fn write(&self, told: Told, group: Option<usize>) -> Option<String> {
        let Told { day, n } = told;
        if n > self.n_max() || self.parts.contains(&Part::ShortYear) && !SHORT_YEARS.contains(&day.year) {
            return None;
        }
        let (dates, number) = (self.date_digits(day), self.number_digits(n));
        let check = char::from(b'0' + damm::check((dates + &number).as_bytes())?);
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Number(_) => {
                    let checked = self.parts.contains(&Part::Check);
                    let mut digits = number.clone();
                    digits.extend(checked.then_some(check));
                    push_grouped(&mut text, &digits, group);
                }
                // Written with the number it belongs to.
                Part::Check => {}
                date => text.push_str(&date.digits(day)),
            }
        }
        Some(text)
    }

    /// Reads the text that [`write`](Self::write) writes, and no other.
    pub(crate) fn read(&self, text: &str) -> Result<Told, ParseError> {
        self.read_parts(&self.parts, &text.char_indices().collect::<Vec<_>>())
    }

    /// Reads what people type: case, separators and look-alikes of 0 and 1 are put right.
    pub(crate) fn read_human(&self, typed: &str) -> Result<Told, ParseError> {
        let kept = typed.char_indices().filter(|(_, symbol)| !is_dropped(*symbol));
        self.read_parts(&self.skeleton, &kept.map(|(at, symbol)| (at, put_right(symbol))).collect::<Vec<_>>())
    }

    fn read_parts(&self, parts: &[Part], symbols: &[(usize, char)]) -> Result<Told, ParseError> {
        let fixed: usize = parts.iter().map(|part| part.width().unwrap_or_default()).sum();
        let free = symbols.len().checked_sub(fixed).filter(|free| match self.width() {
            Some(_) => *free == 0,
            None => (1..=DIGITS_MAX as usize).contains(free),
        });
        let Some(free) = free else {
            return Err(match symbols.len() {
                0 => ParseError::Empty,
                found => ParseError::Length { found, expected: fixed.max(1) + usize::from(self.width().is_none()) },
            });
        };
        let mut day = Day::FIRST;
        let (mut n, mut check, mut rest) = (0, None, symbols);
        for part in parts {
            let (mine, behind) = rest.split_at_checked(part.width().unwrap_or(free)).unwrap_or((rest, &[]));
            rest = behind;
            let value = || number(mine);
            match part {
                Part::Literal(literal) => same(literal, mine)?,
                Part::Year => day.year = narrow(value()?)?,
                Part::ShortYear => day.year = SHORT_YEARS.start() + narrow::<u16>(value()?)?,
                Part::Month => day.month = narrow(value()?)?,
                Part::Day => day.day = narrow(value()?)?,
                Part::Check => check = Some(narrow::<u8>(value()?)?),
                Part::Number(width) => {
                    n = value()?;
                    if width.is_none() && mine.len() > 1 && mine.first().is_some_and(|(_, first)| *first == '0') {
                        return Err(ParseError::LeadingZero);
                    }
                }
            }
        }
        let day = Day::new(day.year, day.month, day.day).ok_or(ParseError::OutOfRange)?;
        let right = damm::check((self.date_digits(day) + &self.number_digits(n)).as_bytes());
        if check.is_some() && check != right {
            return Err(ParseError::CheckDigit);
        }
        Ok(Told { day, n })
    }

    /// The digits of the date, in the order of the text.
    fn date_digits(&self, day: Day) -> String {
        self.parts.iter().map(|part| part.digits(day)).collect()
    }

    fn number_digits(&self, n: u64) -> String {
        let width = self.width().unwrap_or(1) as usize;
        format!("{n:0width$}")
    }
}

impl Part {
    /// In characters; `None` where it varies.
    fn width(&self) -> Option<usize> {
        match self {
            Self::Literal(literal) => Some(literal.chars().count()),
            Self::Year => Some(4),
            Self::ShortYear | Self::Month | Self::Day => Some(2),
            Self::Number(width) => width.map(|width| width as usize),
            Self::Check => Some(1),
        }
    }

    /// The digits of a part of the date.
    fn digits(&self, day: Day) -> String {
        match self {
            Self::Year => format!("{:04}", day.year),
            Self::ShortYear => format!("{:02}", day.year % 100),
            Self::Month => format!("{:02}", day.month),
            Self::Day => format!("{:02}", day.day),
            Self::Literal(_) | Self::Number(_) | Self::Check => String::new(),
        }
    }

    /// Whether it begins, or ends, with a digit.
    fn touches_with_digit(&self, at_its_end: bool) -> bool {
        let Self::Literal(literal) = self else { return true };
        let symbol = if at_its_end { literal.chars().next_back() } else { literal.chars().next() };
        symbol.is_some_and(|symbol| symbol.is_ascii_digit())
    }
}

fn literal_part(literal: &str) -> Result<Part, String> {
    let foreign = |symbol: &char| !symbol.is_ascii_alphanumeric() && !SEPARATORS.contains(*symbol);
    match literal.chars().find(foreign) {
        Some('}') => Err("a } without its {: fields stand in braces, such as {yyyy}".to_owned()),
        Some(symbol) => {
            Err(format!("{symbol:?} cannot stand between the fields: write letters, digits and {SEPARATORS}"))
        }
        None => Ok(Part::Literal(literal.to_owned())),
    }
}

fn field_part(name: &str) -> Result<Part, String> {
    match name {
        "yyyy" => Ok(Part::Year),
        "yy" => Ok(Part::ShortYear),
        "mm" => Ok(Part::Month),
        "dd" => Ok(Part::Day),
        "n" => Ok(Part::Number(None)),
        _ => {
            let width = name.strip_prefix("n:0").and_then(|width| width.parse().ok());
            let width = width.filter(|width| (1..=DIGITS_MAX).contains(width) && name == format!("n:0{width}"));
            width.map(|width| Part::Number(Some(width))).ok_or_else(|| {
                let name: String = name.chars().take(LITERALS_MAX).collect();
                format!(
                    "{{{name}}} is no field: write {{yyyy}}, {{yy}}, {{mm}}, {{dd}}, {{n}}, or {{n:06}} with 1 to {DIGITS_MAX} digits"
                )
            })
        }
    }
}

/// Whether two numbers can never have one text, and people can see where the number begins.
fn fits_together(parts: &[Part]) -> Result<(), String> {
    let count = |wanted: fn(&Part) -> bool| parts.iter().filter(|part| wanted(part)).count();
    let year = count(|part| matches!(part, Part::Year | Part::ShortYear));
    let (month, day) = (count(|part| *part == Part::Month), count(|part| *part == Part::Day));
    let fault = match count(|part| matches!(part, Part::Number(_))) {
        0 => Some("no {n}: say where the number stands, such as {n:06}"),
        1 if year > 1 || month > 1 || day > 1 => Some("a part of the date stands there twice: keep one"),
        1 if month > 0 && year == 0 => {
            Some("{mm} without a year: the same month of two years would repeat; add {yyyy}")
        }
        1 if day > 0 && month == 0 => Some("{dd} without {mm}: the same day of two months would repeat; add {mm}"),
        1 => None,
        _ => Some("two {n}: where one ends and the other begins cannot be told; keep one"),
    };
    if let Some(fault) = fault {
        return Err(fault.to_owned());
    }
    let literals: usize = parts.iter().map(|part| if let Part::Literal(text) = part { text.len() } else { 0 }).sum();
    if literals > LITERALS_MAX {
        return Err(format!("{literals} characters besides the fields: {LITERALS_MAX} at most"));
    }
    let ends = [parts.first(), parts.last()];
    if ends.iter().flatten().any(|part| matches!(part, Part::Literal(text) if text.trim() != text)) {
        return Err("a space at its beginning or end gets lost: take it out".to_owned());
    }
    let at = parts.iter().position(|part| *part == Part::Number(None));
    let Some(at) = at else { return Ok(()) };
    let behind = if parts.get(at + 1) == Some(&Part::Check) { at + 2 } else { at + 1 };
    let before = at.checked_sub(1).and_then(|before| parts.get(before));
    if before.is_some_and(|part| part.touches_with_digit(true))
        || parts.get(behind).is_some_and(|part| part.touches_with_digit(false))
    {
        return Err(
            "{n} has no width and stands right beside other digits, so nobody sees where it begins: write {n:06}, \
                    or put a - between"
                .to_owned(),
        );
    }
    Ok(())
}

fn skeleton(parts: &[Part]) -> Vec<Part> {
    parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => Part::Literal(text.chars().filter(|c| !is_dropped(*c)).map(put_right).collect()),
            other => other.clone(),
        })
        .collect()
}

/// What people leave out or add: separators, spaces, and the dashes that text processors make of a hyphen.
fn is_dropped(symbol: char) -> bool {
    SEPARATORS.contains(symbol) || symbol.is_whitespace() || ('\u{2010}'..='\u{2015}').contains(&symbol)
}

/// Lower case, and the letters that look like 0 and 1 as those digits: in literals and in what is typed alike.
fn put_right(symbol: char) -> char {
    match symbol.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    }
}

fn same(literal: &str, symbols: &[(usize, char)]) -> Result<(), ParseError> {
    match literal.chars().zip(symbols).find(|(expected, (_, found))| expected != found) {
        Some((_, (at, found))) => Err(ParseError::Character { at: *at, found: *found }),
        None => Ok(()),
    }
}

/// The value of at most 18 digits.
fn number(symbols: &[(usize, char)]) -> Result<u64, ParseError> {
    symbols.iter().try_fold(0u64, |value, (at, found)| {
        let digit = found.to_digit(10).ok_or(ParseError::Character { at: *at, found: *found })?;
        value.checked_mul(10).and_then(|value| value.checked_add(digit.into())).ok_or(ParseError::OutOfRange)
    })
}

fn narrow<T: TryFrom<u64>>(value: u64) -> Result<T, ParseError> {
    T::try_from(value).map_err(|_| ParseError::OutOfRange)
}

/// `digits` in groups of `group`, counted from the right, with spaces between.
fn push_grouped(text: &mut String, digits: &str, group: Option<usize>) {
    for (position, digit) in digits.chars().enumerate() {
        let left = digits.len() - position;
        if position > 0 && group.is_some_and(|group| left.is_multiple_of(group)) {
            text.push(' ');
        }
        text.push(digit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(year: u16, month: u8, day: u8, n: u64) -> Told {
        Told { day: Day::new(year, month, day).unwrap(), n }
    }

    #[test]
    fn formats_are_written_and_read() {
        let at = told(2026, 11, 30, 42);
        for (format, check, text, finest) in [
            ("{yyyy}{mm}{dd}-{n:06}", false, "20261130-000042", Restart::Day),
            ("{yyyy}{mm}{dd}-{n:06}", true, "20261130-0000420", Restart::Day),
            ("R{yy}/{mm}-{n}", false, "R26/11-42", Restart::Month),
            ("{n:04}/{yyyy}", false, "0042/2026", Restart::Year),
            ("{n:04}/{yyyy}", true, "00429/2026", Restart::Year),
            ("INV-{n:02}-DE", false, "INV-42-DE", Restart::Never),
            ("{n}", false, "42", Restart::Never),
            ("{dd}.{mm}.{yyyy} #{n:018}", false, "30.11.2026 #000000000000000042", Restart::Day),
        ] {
            let template = Template::parse(format, check).unwrap();
            assert_eq!(template.write(at, None).as_deref(), Some(text), "{format}");
            assert_eq!(template.finest(), finest, "{format}");
            assert_eq!(template.read(text).map(|told| told.n), Ok(42));
            assert_eq!(template.read_human(text), template.read(text));
        }
    }

    #[test]
    fn formats_that_cannot_be_say_why() {
        for (format, fault) in [
            ("", "no {n}"),
            ("{yyyy}", "no {n}"),
            ("{n}{n}", "two {n}"),
            ("{n:03}-{n:03}", "two {n}"),
            ("{yyyy}{yy}-{n}", "twice"),
            ("{mm}-{n}", "{mm} without a year"),
            ("{yyyy}{dd}-{n}", "{dd} without {mm}"),
            ("{yyyy}{n}", "beside other digits"),
            ("A1{n}", "beside other digits"),
            ("{n}{yyyy}", "beside other digits"),
            ("{n:19}", "{n:19} is no field"),
            ("{n:019}", "{n:019} is no field"),
            ("{n:00}", "is no field"),
            ("{n:006}", "is no field"),
            ("{n:6}", "is no field"),
            ("{n:+6}", "is no field"),
            ("{YYYY}-{n}", "{YYYY} is no field"),
            ("{hh}-{n}", "{hh} is no field"),
            ("{n", "a { without its }"),
            ("n}", "a } without its {"),
            ("{n}\"", "cannot stand between"),
            ("Nº{n}", "cannot stand between"),
            (" {n}", "a space"),
            ("{n:03} ", "a space"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-{n}", "62 characters"),
        ] {
            let told = Template::parse(format, false).unwrap_err();
            assert!(told.contains(fault), "{format}: {told}");
        }
    }

    #[test]
    fn the_width_ends_it_and_short_years_too() {
        let three = Template::parse("{yy}-{n:03}", false).unwrap();
        assert_eq!(three.write(told(2026, 1, 1, 999), None).as_deref(), Some("26-999"));
        assert_eq!(three.write(told(2026, 1, 1, 1000), None), None);
        assert_eq!(three.write(told(2100, 1, 1, 1), None), None);
        assert_eq!(three.write(told(1999, 1, 1, 1), None), None);
        assert_eq!(Template::parse("{n}", false).unwrap().n_max(), 999_999_999_999_999_999);
    }

    #[test]
    fn one_text_and_no_other() {
        let template = Template::parse("{yyyy}{mm}{dd}-{n:03}", true).unwrap();
        let right = template.write(told(2026, 11, 30, 7), None).unwrap();
        assert_eq!(right, "20261130-0079");
        for (wrong, error) in [
            ("", ParseError::Empty),
            ("20261130-007", ParseError::Length { found: 12, expected: 13 }),
            ("20261130-00799", ParseError::Length { found: 14, expected: 13 }),
            ("20261130_0079", ParseError::Character { at: 8, found: '_' }),
            ("20261130-O074", ParseError::Character { at: 9, found: 'O' }),
            ("2026113٠-0079", ParseError::Character { at: 7, found: '٠' }),
            ("20261130-0075", ParseError::CheckDigit),
            ("20261130-0709", ParseError::CheckDigit),
            ("20261103-0079", ParseError::CheckDigit),
            ("20261330-0079", ParseError::OutOfRange),
            ("20260229-0079", ParseError::OutOfRange),
            ("00000000-0000", ParseError::OutOfRange),
        ] {
            assert_eq!(template.read(wrong), Err(error), "{wrong}");
        }
        assert_eq!(Template::parse("{n}", false).unwrap().read("007"), Err(ParseError::LeadingZero));
        assert_eq!(
            Template::parse("{n}", false).unwrap().read("9999999999999999999"),
            Err(ParseError::Length { found: 19, expected: 2 })
        );
    }

    #[test]
    fn people_may_type_it_their_way() {
        let template = Template::parse("INV-{yyyy}/{mm}-{n:06}", true).unwrap();
        let right = told(2026, 11, 1, 42);
        let text = template.write(right, Some(3)).unwrap();
        assert_eq!(text, "INV-2026/11-0 000 424");
        for typed in [&text, "inv 2026 11 0000424", " INV2026110000424 ", "1nv–2o26/1l–oooo424", "INV-2026/11-0000424"]
        {
            assert_eq!(template.read_human(typed), Ok(right), "{typed}");
        }
        assert_eq!(template.read_human("inv 2026 11 0000442"), Err(ParseError::CheckDigit));
        assert_eq!(template.read_human("inx 2026 11 0000424"), Err(ParseError::Character { at: 2, found: 'x' }));
    }

    proptest! {
        #[test]
        fn texts_round_trip_and_differ(
            format in prop::sample::select(vec!["{yyyy}{mm}{dd}{n:06}", "{yy}{mm}-{n}", "A{n:06}{yyyy}", "X-{n}-Y", "{dd}{n:06}/{mm}{yyyy}"]),
            check: bool, days in prop::array::uniform2((2000..2100u16, 1..=12u8, 1..=28u8)), ns in prop::array::uniform2(0..1_000_000u64),
        ) {
            let template = Template::parse(format, check).unwrap();
            let [one, other] = [0, 1].map(|at| {
                let (year, month, day) = days[at];
                // A text says what its format has; the rest of the date is 1.
                let finest = template.finest();
                let told = told(
                    if finest >= Restart::Year { year } else { 1 },
                    if finest >= Restart::Month { month } else { 1 },
                    if finest >= Restart::Day { day } else { 1 },
                    ns[at],
                );
                (told, template.write(told, None).unwrap())
            });
            prop_assert_eq!(template.read(&one.1), Ok(one.0));
            prop_assert_eq!(template.read_human(&one.1), Ok(one.0));
            prop_assert_eq!(one.0 == other.0, one.1 == other.1);
        }

        #[test]
        fn nothing_makes_it_panic(format in "\\PC{0,20}|(\\{(yyyy|mm|dd|n|n:0[0-9]{1,3})\\}|[-A-Z0-9 ]){0,6}", typed in "\\PC{0,30}") {
            if let Ok(template) = Template::parse(&format, true) {
                if let Ok(told) = template.read(&typed) {
                    prop_assert_eq!(template.write(told, None), Some(typed.clone()));
                }
                let _ = template.read_human(&typed);
            }
        }
    }
}
