//! Which day it is where the books are kept, and the period that a number counts within.
//!
//! The invariant: the day follows from the Unix time and the zone named in the config alone. The host's zone is never asked,
//! and the rules of the zones are those compiled in.

use std::fmt;

use jiff::{
    Timestamp,
    civil::Date,
    tz::{TimeZone, TimeZoneDatabase},
};

/// When a series begins again at its first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Restart {
    /// Never: one count for good.
    Never,
    /// On 1 January.
    Year,
    /// On the first of each month.
    Month,
    /// At each midnight.
    Day,
}

impl Restart {
    const ALL: [Self; 4] = [Self::Never, Self::Year, Self::Month, Self::Day];

    /// Its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|restart| restart.name() == name)
    }

    /// How its periods are written.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Never => "all",
            Self::Year => "2026",
            Self::Month => "2026-11",
            Self::Day => "2026-11-30",
        }
    }

    /// The period of that name, as it prints.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn period_named(self, name: &str) -> Option<Period> {
        let mut parts = name.split('-').map(|part| part.parse::<u16>());
        let day = match self {
            Self::Never => Day::FIRST,
            _ => {
                let year = parts.next()?.ok()?;
                let [month, day] = [0, 1].map(|_| parts.next().and_then(Result::ok).and_then(|n| u8::try_from(n).ok()));
                Day::new(year, month.unwrap_or(1), day.unwrap_or(1))?
            }
        };
        let period = self.period(day);
        (period.to_string() == name).then_some(period)
    }

    /// The period that `day` belongs to.
    pub(crate) fn period(self, day: Day) -> Period {
        match self {
            Self::Never => Period::All,
            Self::Year => Period::Year { year: day.year },
            Self::Month => Period::Month { year: day.year, month: day.month },
            Self::Day => Period::Day { year: day.year, month: day.month, day: day.day },
        }
    }
}

/// A run of days within which the numbers of a series count up; prints as `2026-11-30`, `2026-11`, `2026` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "year, month and day say what they are")]
#[non_exhaustive]
pub enum Period {
    /// For good.
    All,
    /// A year.
    Year { year: u16 },
    /// A month, from 1.
    Month { year: u16, month: u8 },
    /// A day.
    Day { year: u16, month: u8, day: u8 },
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Year { year } => write!(f, "{year:04}"),
            Self::Month { year, month } => write!(f, "{year:04}-{month:02}"),
            Self::Day { year, month, day } => write!(f, "{year:04}-{month:02}-{day:02}"),
        }
    }
}

/// A day of the calendar. What a text leaves out is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

impl Day {
    /// What stands for every day where a text carries no date.
    pub(crate) const FIRST: Self = Self { year: 1, month: 1, day: 1 };

    /// `None` if there is no such day.
    pub(crate) fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let date = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
        Self::of(date)
    }

    fn of(date: Date) -> Option<Self> {
        let year = u16::try_from(date.year()).ok().filter(|year| *year > 0)?;
        Some(Self { year, month: date.month().unsigned_abs(), day: date.day().unsigned_abs() })
    }
}

/// A time zone by its name in the IANA database.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    /// The zone of that name, in whatever letter case; `None` if the database has none.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let rules = TimeZoneDatabase::bundled().get(name).ok()?;
        let name = rules.iana_name()?.to_owned();
        Some(Self { name, rules })
    }

    /// Every name there is.
    pub(crate) fn names() -> Vec<String> {
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The day in this zone; `None` before year 1 and after year 9999.
    pub(crate) fn day_at(&self, unix_ms: u64) -> Option<Day> {
        let time = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        Day::of(self.rules.to_datetime(time).date())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(zone: &str, time: &str) -> String {
        let unix_ms = crate::time::parse(time).unwrap();
        let day = Zone::named(zone).unwrap().day_at(u64::try_from(unix_ms).unwrap()).unwrap();
        Restart::Day.period(day).to_string()
    }

    #[test]
    fn the_day_is_that_of_the_zone() {
        for (zone, time, expected) in [
            ("Europe/Berlin", "2026-11-30T22:59:59.999Z", "2026-11-30"),
            ("Europe/Berlin", "2026-11-30T23:00:00Z", "2026-12-01"),
            // The gap of 29 March: 02:00 to 03:00 does not exist; the day is 23 hours long.
            ("Europe/Berlin", "2026-03-28T22:59:59.999Z", "2026-03-28"),
            ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29"),
            ("Europe/Berlin", "2026-03-29T00:59:59.999Z", "2026-03-29"),
            ("Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29"),
            ("Europe/Berlin", "2026-03-29T21:59:59.999Z", "2026-03-29"),
            ("Europe/Berlin", "2026-03-29T22:00:00Z", "2026-03-30"),
            // The overlap of 25 October: 02:00 to 03:00 comes twice; the day is 25 hours long.
            ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25"),
            ("Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25"),
            ("Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25"),
            ("Europe/Berlin", "2026-10-25T22:59:59.999Z", "2026-10-25"),
            ("Europe/Berlin", "2026-10-25T23:00:00Z", "2026-10-26"),
            // Thirteen hours ahead and eleven behind: three dates at one instant.
            ("Pacific/Tongatapu", "2026-12-31T11:00:00Z", "2027-01-01"),
            ("Pacific/Pago_Pago", "2027-01-01T10:59:59.999Z", "2026-12-31"),
            ("Pacific/Pago_Pago", "2027-01-01T11:00:00Z", "2027-01-01"),
            ("UTC", "2028-02-29T23:59:59.999Z", "2028-02-29"),
            ("UTC", "2028-03-01T00:00:00Z", "2028-03-01"),
            // 24 hours from Saturday to Monday: Samoa left 30 December 2011 out.
            ("Pacific/Apia", "2011-12-30T09:59:59.999Z", "2011-12-29"),
            ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31"),
        ] {
            assert_eq!(day(zone, time), expected, "{zone} {time}");
        }
    }

    #[test]
    fn zones_have_one_name_and_the_database_is_whole() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert!(Zone::named("Europe/Berln").is_none() && Zone::named("").is_none() && Zone::named("local").is_none());
        let names = Zone::names();
        assert!(names.len() > 400 && names.iter().all(|name| Zone::named(name).is_some()), "{}", names.len());
        assert!(Zone::named("UTC").unwrap().day_at(u64::MAX).is_none());
    }

    #[test]
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    fn periods_are_read_as_they_print() {
        for (restart, name) in [
            (Restart::Never, "all"),
            (Restart::Year, "2026"),
            (Restart::Month, "2026-11"),
            (Restart::Day, "2026-11-30"),
        ] {
            assert_eq!(restart.example(), name);
            assert_eq!(restart.period_named(name).unwrap().to_string(), name);
            for wrong in ["", "2026-1", "2026-13", "2026-02-30", "2026-11-30-1", "26", "x", "2026-11-3", "+2026"] {
                assert_eq!(restart.period_named(wrong), None, "{} {wrong}", restart.name());
            }
        }
        assert_eq!(Restart::Day.period_named("2026-11"), None);
        assert_eq!(Restart::Month.period_named("2026"), None);
    }

    #[test]
    fn there_is_no_30_february() {
        assert!(Day::new(2028, 2, 29).is_some());
        for (year, month, day) in
            [(2026, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 1, 0), (u16::MAX, 1, 1), (2026, 255, 1)]
        {
            assert!(Day::new(year, month, day).is_none());
        }
    }
}
