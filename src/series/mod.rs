//! Numbers that people read and that begin again with each day, month or year: `20261130-000042`.
//!
//! Each period is a sequence of its own in the store (`invoices/2026-11-30`), made when its first number is asked for, and
//! spent by the `segment` scheme. The day is looked up once for each number, in the zone of the config.
//!
//! The invariant: no two numbers of a series have one text. The text carries the period, so numbers of two periods differ; in
//! one period the store hands out each number once. So neither midnight, nor the hour that comes twice in autumn, nor a clock
//! that steps back, nor two hosts that disagree about the time can repeat a number: the worst a wrong clock does is to number
//! in the wrong period.
//!
//! | to find | open |
//! |---|---|
//! | what a format may look like | `series/template.rs` |
//! | which day it is | `series/calendar.rs` |

mod calendar;
mod template;

use std::{fmt, num::NonZeroU32, sync::Arc};

use mintage_core::{
    Clock, Format, FormatStore, IdScheme, MintError, ParseError, RangeStore, ReadyError, Sequence, StoreError,
};
use mintage_schemes::{Segment, SegmentSettings, fork::Birth};
use tokio::sync::Mutex;

pub(crate) use self::calendar::Zone;
pub use self::calendar::{Period, Restart};
pub(crate) use self::template::Template;
use self::{calendar::Day, template::Told};
use crate::{
    gapless::{self, Gapless},
    registry::Core,
};

/// Numbers a series, one store trip a number by default, so that they are dense. Cheap to clone, safe to share.
///
/// ```
/// use mintage::{Config, Registry};
/// use mintage::core::ManualClock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = r#"
/// version = 1
/// [entities.users]
/// scheme = "uuidv7"
/// [series.invoices]
/// format = "{yyyy}{mm}{dd}-{n:06}"
/// zone = "Europe/Berlin"
/// durability = "weak"
/// [stores.main]
/// url = "memory:"
/// "#;
/// // 23:30 in Berlin on the last of November, then 00:30.
/// let clock = ManualClock::at(1_796_077_800_000);
/// let registry = Registry::builder().builtins().clock(clock.clone()).build(Config::parse(config, "mintage.toml")?).await?;
/// let invoices = registry.series("invoices")?;
/// assert_eq!(invoices.next().await?.to_string(), "20261130-000001");
/// assert_eq!(invoices.next().await?.to_string(), "20261130-000002");
/// clock.advance(3_600_000);
/// let number = invoices.next().await?;
/// assert_eq!(number.to_string(), "20261201-000001");
/// assert_eq!(invoices.parse_human("20261201 - oooool")?, number);
/// registry.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Series {
    desk: Arc<Desk>,
    /// Keeps the registry's tasks alive as long as somebody can number.
    _core: Arc<Core>,
}

/// One number of a series. Prints as its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesNumber {
    period: Period,
    n: u64,
    text: String,
    grouped: String,
}

/// Why there is no number.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// The period has used up the digits of the format.
    #[error(
        "series {series}: {{n:0{width}}} ends at {n_max} and the period {period} has used them all; numbers begin again with \
         the next period. For more in one period begin a series of another name with a wider format, such as {{n:0{wider}}}",
        wider = .width + 1
    )]
    Full {
        /// The series.
        series: String,
        /// The period.
        period: Period,
        /// How many digits a number has.
        width: u32,
        /// The largest number.
        n_max: u64,
    },
    /// The clock shows a day that the format cannot write.
    #[error("series {series}: the clock shows a day that its format cannot write: set the clock")]
    Clock {
        /// The series.
        series: String,
    },
    /// Its numbers are gapless.
    #[error("series {series} is gapless: its numbers are assigned inside your transaction, by `next_in`")]
    Gapless {
        /// The series.
        series: String,
    },
    /// The period could not be begun.
    #[error("series {series}, period {period}")]
    Period {
        /// The series.
        series: String,
        /// The period.
        period: Period,
        /// What the store said.
        source: StoreError,
    },
    /// No number came.
    #[error(transparent)]
    Ready(#[from] ReadyError),
}

impl Series {
    pub(crate) fn new(desk: Arc<Desk>, core: Arc<Core>) -> Self {
        Self { desk, _core: core }
    }

    /// Its name in the config.
    pub fn name(&self) -> &str {
        &self.desk.name
    }

    /// What its numbers look like.
    pub fn format(&self) -> &SeriesFormat {
        &self.desk.format
    }

    /// The next number of the period that the clock shows in the zone of the series.
    ///
    /// Callers of one process take turns. A caller that gives up while it waits may leave a gap.
    ///
    /// # Errors
    /// [`SeriesError`]; `Ready` and `Period` carry the store's error.
    pub async fn next(&self) -> Result<SeriesNumber, SeriesError> {
        self.desk.next().await
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Reads the text of a number. Exactly one text is taken for each number; whether it was given out is not asked.
    ///
    /// # Errors
    /// [`ParseError`] names the first fault.
    pub fn parse(&self, text: &str) -> Result<SeriesNumber, ParseError> {
        self.desk.format.parse(text)
    }

    /// Reads what a person typed: puts right case, spaces, separators and the letters that look like 0 and 1.
    ///
    /// # Errors
    /// [`ParseError`] names the first fault.
    pub fn parse_human(&self, typed: &str) -> Result<SeriesNumber, ParseError> {
        self.desk.format.parse_human(typed)
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("name", &self.desk.name)
            .field("format", &self.desk.format.text)
            .finish_non_exhaustive()
    }
}

impl SeriesNumber {
    /// The period it counts within.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Its place in the period.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The text, as kept and compared.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text with the digits of the number in groups, for people, if the config says `group`. `parse_human` reads it.
    pub fn grouped(&self) -> &str {
        &self.grouped
    }
}

impl fmt::Display for SeriesNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// What the numbers of a series look like and when they begin again. Reads texts without a store.
#[derive(Clone, Debug)]
pub struct SeriesFormat {
    pub(crate) text: String,
    pub(crate) template: Template,
    /// `None` where the format has no date.
    pub(crate) zone: Option<Zone>,
    pub(crate) restart: Restart,
    pub(crate) start: u64,
    pub(crate) check_digit: bool,
    pub(crate) group: Option<usize>,
}

impl SeriesFormat {
    /// The format as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// When numbers begin again.
    pub fn restart(&self) -> Restart {
        self.restart
    }

    /// The time zone whose midnight counts; `None` where the format has no date.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_ref().map(Zone::name)
    }

    /// One line for people: how many numbers, and when they begin again.
    pub fn summary(&self) -> String {
        let many = format!("{}: numbers {} to {}", self.text, self.start, self.n_max());
        match (self.restart, self.zone()) {
            (Restart::Never, _) => many,
            (restart, Some(zone)) => format!("{many}, again each {} in {zone}", restart.name()),
            (restart, None) => format!("{many}, again each {}", restart.name()),
        }
    }

    /// The largest number of a period.
    pub fn n_max(&self) -> u64 {
        self.template.n_max()
    }

    /// As [`Series::parse`].
    ///
    /// # Errors
    /// As there.
    pub fn parse(&self, text: &str) -> Result<SeriesNumber, ParseError> {
        self.accept(self.template.read(text)?)
    }

    /// As [`Series::parse_human`].
    ///
    /// # Errors
    /// As there.
    pub fn parse_human(&self, typed: &str) -> Result<SeriesNumber, ParseError> {
        self.accept(self.template.read_human(typed)?)
    }

    fn accept(&self, told: Told) -> Result<SeriesNumber, ParseError> {
        self.number(told).filter(|number| number.n >= self.start).ok_or(ParseError::OutOfRange)
    }

    fn number(&self, told: Told) -> Option<SeriesNumber> {
        Some(SeriesNumber {
            period: self.restart.period(told.day),
            n: told.n,
            text: self.template.write(told, None)?,
            grouped: self.template.write(told, self.group)?,
        })
    }

    /// What decides the meaning of a text: recorded in the store at first use.
    pub(crate) fn pin(&self) -> Format {
        Format::of("series")
            .with("format", &self.text)
            .with("zone", self.zone().unwrap_or("none"))
            .with("restart", self.restart.name())
            .with("start", self.start)
            .with("check_digit", if self.check_digit { "damm" } else { "none" })
    }
}

/// What the store records the format of a series under: no entity can have the name.
pub(crate) fn record_name(series: &str) -> String {
    format!("series.{series}")
}

/// What the names of a series' sequences begin with.
pub(crate) fn sequence_prefix(series: &str) -> String {
    format!("{series}/")
}

/// Where numbers are handed out, one caller after another.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) name: String,
    pub(crate) format: SeriesFormat,
    /// How many numbers one store trip brings.
    pub(crate) range_len: NonZeroU32,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ranges: Arc<dyn RangeStore>,
    pub(crate) formats: Arc<dyn FormatStore>,
    pub(crate) birth: Birth,
    pub(crate) state: Mutex<State>,
    /// Where numbers are assigned instead, inside the caller's transaction.
    pub(crate) gapless: Option<Arc<Gapless>>,
}

/// Where the next number belongs.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[derive(Debug)]
pub(crate) struct Place {
    day: Day,
    pub(crate) period: Period,
    pub(crate) sequence: Sequence,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    open: Option<Open>,
    closed: bool,
}

/// The period in which numbers are handed out at present.
#[derive(Debug)]
struct Open {
    period: Period,
    segment: Segment,
    full: bool,
}

impl Desk {
    async fn next(&self) -> Result<SeriesNumber, SeriesError> {
        if self.birth.forked() {
            return Err(ReadyError::new(MintError::Forked).into());
        }
        if self.gapless.is_some() {
            return Err(SeriesError::Gapless { series: self.name.clone() });
        }
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(ReadyError::new(MintError::Closed).into());
        }
        let day = self.day()?;
        let period = self.format.restart.period(day);
        if state.open.as_ref().is_none_or(|open| open.period != period) {
            let begun = self.begin(period).await?;
            if let Some(before) = state.open.replace(begun) {
                // What it holds becomes a gap if the store cannot be told: no reason to refuse a number of today.
                let _ = before.segment.close().await;
            }
        }
        match &mut state.open {
            Some(open) => self.take(open, day).await,
            None => Err(ReadyError::new(MintError::Closed).into()),
        }
    }

    /// Where a number belongs that is asked for now.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn now(&self) -> Result<Place, SeriesError> {
        let day = self.day()?;
        let period = self.format.restart.period(day);
        Ok(Place { day, period, sequence: self.sequence(period) })
    }

    /// The number `n` of that place; `None` if the format cannot write it.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn number(&self, place: &Place, n: u64) -> Option<SeriesNumber> {
        self.format.number(Told { day: place.day, n })
    }

    pub(crate) fn full(&self, period: Period) -> SeriesError {
        SeriesError::Full {
            series: self.name.clone(),
            period,
            width: self.format.template.digits(),
            n_max: self.format.n_max(),
        }
    }

    fn sequence(&self, period: Period) -> Sequence {
        Sequence::new(format!("{}{period}", sequence_prefix(&self.name)), self.format.start)
    }

    /// The day for one number: looked up once, so that its date and its period agree.
    fn day(&self) -> Result<Day, SeriesError> {
        match &self.format.zone {
            None => Ok(Day::FIRST),
            Some(zone) => {
                let day = zone.day_at(self.clock.unix_ms());
                // A year of four digits may still be too much for {yy}.
                let day = day.filter(|day| self.format.template.write(Told { day: *day, n: 0 }, None).is_some());
                day.ok_or_else(|| SeriesError::Clock { series: self.name.clone() })
            }
        }
    }

    /// Opens the sequence of a period. It is made once: a sequence that was recorded and is gone stays gone, because a new one
    /// would repeat its numbers.
    async fn begin(&self, period: Period) -> Result<Open, SeriesError> {
        let sequence = self.sequence(period);
        let made = gapless::make(&*self.ranges, &*self.formats, &sequence).await;
        made.map_err(|source| SeriesError::Period { series: self.name.clone(), period, source })?;
        let settings = SegmentSettings::default().range_len(self.range_len).on_demand();
        let segment = Segment::open(Arc::clone(&self.ranges), sequence, settings).await?;
        Ok(Open { period, segment, full: false })
    }

    async fn take(&self, open: &mut Open, day: Day) -> Result<SeriesNumber, SeriesError> {
        if open.full {
            return Err(self.full(open.period));
        }
        let n = loop {
            match open.segment.mint() {
                Ok(n) => break n,
                Err(MintError::Exhausted { .. }) => open.segment.ready().await?,
                Err(error) => return Err(ReadyError::new(error).into()),
            }
        };
        self.format.number(Told { day, n }).ok_or_else(|| {
            let error = self.full(open.period);
            // The sequence only goes up: asking the store again would change nothing.
            open.full = true;
            error
        })
    }

    /// Gives back what is unused. Afterwards `next` says `Closed`. Safe to call twice.
    pub(crate) async fn close(&self) -> Result<(), ReadyError> {
        if self.birth.forked() {
            return Ok(());
        }
        self.gapless.iter().for_each(|gapless| gapless.close());
        let mut state = self.state.lock().await;
        state.closed = true;
        match state.open.take() {
            Some(open) => open.segment.close().await,
            None => Ok(()),
        }
    }
}
