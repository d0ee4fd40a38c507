//! Dates, for people: RFC 3339 in UTC, always.

use jiff::Timestamp;

/// Unix milliseconds as `2026-11-30T09:15:02.417Z`; seconds without a fraction where `unit_ms` is a whole second.
///
/// Years beyond 9999 cannot be written in RFC 3339 and come out as `year 10889`.
pub fn rfc3339(unix_ms: i64, unit_ms: u32) -> String {
    let Ok(time) = Timestamp::from_millisecond(unix_ms) else {
        // Gregorian years have 365.2425 days; good enough to name a year eight thousand years away.
        const YEAR_MS: f64 = 31_556_952_000.0;
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a year, told roughly")]
        let year = (1970.0 + unix_ms as f64 / YEAR_MS) as i64;
        return format!("year {year}");
    };
    if unit_ms >= 1000 { format!("{time:.0}") } else { format!("{time:.3}") }
}

/// The day of a Unix millisecond, `2095-09-07`.
pub fn day(unix_ms: i64) -> String {
    let text = rfc3339(unix_ms, 1000);
    text.split('T').next().unwrap_or(&text).to_owned()
}

/// Reads an RFC 3339 time, cut to the millisecond.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse(text: &str) -> Result<i64, String> {
    let time: Timestamp = text.parse().map_err(|_| {
        format!("{text:?} is not a time: write it as 2026-11-30T09:15:02.417Z, with Z or an offset such as +01:00")
    })?;
    // Times before 1970 with a fraction round down, like all others.
    Ok(time.as_nanosecond().div_euclid(1_000_000).try_into().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(rfc3339(1_750_000_000_000, 1), "2025-06-15T15:06:40.000Z");
        assert_eq!(rfc3339(1_507_608_047_000, 1000), "2017-10-10T04:00:47Z");
        assert_eq!(parse("2026-11-30T09:15:02.417Z"), Ok(1_796_030_102_417));
        assert_eq!(parse("2026-11-30T10:15:02.4179+01:00"), Ok(1_796_030_102_417));
        assert_eq!(parse("1969-12-31T23:59:59.9999Z"), Ok(-1));
        assert_eq!(day(3_966_248_855_551), "2095-09-07");
        assert_eq!(rfc3339(281_474_976_710_655, 1), "year 10889");
        for wrong in ["", "yesterday", "2026-11-30", "2026-11-30T09:15:02", "1577203200", "2026-13-01T00:00:00Z"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
