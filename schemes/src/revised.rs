//! Snowflakes whose layout changed: old ids are read by the old layout, and new ones begin above all of them.
//!
//! A layout may follow another where the smallest id it can stamp from the cut-over on lies above the largest that the other
//! can stamp before it ([`begins_above`]). Then a number belongs to exactly one of them, whoever made it and whenever, and the
//! ids stay in order. A minter stamps with the old layout only units that end by the cut-over, and with the new one only
//! units that begin after it.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, Bits, Clock, IdScheme, Leased, MintError, Order, Pace, ParseError, ReadyError, SchemeInfo, StoreError,
};

use crate::{Part, Snowflake, SnowflakeReader};

/// Reads ids of several layouts, one after another.
#[derive(Clone, Debug)]
pub struct RevisedReader {
    info: SchemeInfo,
    past: Vec<Past>,
    current: SnowflakeReader,
}

/// A layout that was in use until a cut-over.
#[derive(Clone, Debug)]
struct Past {
    reader: SnowflakeReader,
    until_ms: u64,
    /// First id of the layout that follows.
    below: u64,
}

/// Mints by the old layout until the cut-over, and by the new one from then on.
#[derive(Debug)]
pub struct Revised<C: Clock> {
    reader: RevisedReader,
    /// `None` where the cut-over is past.
    old: Option<Snowflake<C>>,
    new: Snowflake<C>,
    /// When the old layout itself began, 0 for the first.
    old_from_ms: u64,
    cut_over_ms: u64,
    /// Whether the cut-over has come.
    over: AtomicBool,
    clock: C,
}

/// The smallest id that `new` can stamp from `cut_over_ms` (Unix ms) on, if it lies above all that `old` can stamp before.
///
/// # Errors
/// A sentence that says why nobody could tell the ids of the two apart.
pub fn begins_above(old: &SnowflakeReader, new: &SnowflakeReader, cut_over_ms: u64) -> Result<u64, String> {
    for reader in [old, new] {
        if !reader.layout().sorts_by_time() {
            return Err(format!("the time does not come first in {}: its ids are in no order", reader.layout()));
        }
        if reader.epoch_ms() > cut_over_ms {
            return Err("the cut-over lies before an epoch".to_owned());
        }
    }
    let unit_ms = |reader: &SnowflakeReader| reader.layout().unit().ms();
    let old_end = (cut_over_ms - old.epoch_ms()) / unit_ms(old);
    let new_first = (cut_over_ms - new.epoch_ms()).div_ceil(unit_ms(new));
    if old_end > old.layout().max(Part::Time) + 1 {
        return Err(format!("the time field of {} is used up before the cut-over", old.layout()));
    }
    if new_first > new.layout().max(Part::Time) {
        return Err(format!("the time field of {} is used up by the cut-over", new.layout()));
    }
    let at = |reader: &SnowflakeReader, unit: u64| u128::from(unit) << reader.layout().shift(Part::Time);
    let (above_old, first_new) = (at(old, old_end), at(new, new_first));
    match u64::try_from(first_new) {
        Ok(first) if first_new >= above_old => Ok(first),
        _ => Err(format!(
            "its first id after the cut-over would be {first_new}, and the layout before it goes up to {}: ids of the two would \
             be mixed up. Choose more bits below the time, an earlier epoch, or a new entity",
            above_old.saturating_sub(1)
        )),
    }
}

impl RevisedReader {
    /// Reads by `current` what no earlier layout has made.
    pub fn new(current: SnowflakeReader) -> Self {
        let info = IdScheme::info(&current).clone();
        Self { info, past: Vec::new(), current }
    }

    /// With the layouts before, oldest first, each with the Unix millisecond at which the next began.
    ///
    /// # Errors
    /// The position of the first layout that the next one does not follow safely, and why.
    pub fn after(mut self, past: Vec<(SnowflakeReader, u64)>) -> Result<Self, (usize, String)> {
        let next_of = |position: usize| past.get(position + 1).map_or(&self.current, |(reader, _)| reader);
        let mut kept = Vec::new();
        let mut bits = self.current.layout().bits();
        for (position, (reader, until_ms)) in past.iter().enumerate() {
            if kept.last().is_some_and(|before: &Past| before.until_ms >= *until_ms) {
                return Err((
                    position,
                    "its cut-over is not later than the one before: write the oldest first".to_owned(),
                ));
            }
            let below = begins_above(reader, next_of(position), *until_ms).map_err(|fault| (position, fault))?;
            bits = bits.max(reader.layout().bits());
            kept.push(Past { reader: reader.clone(), until_ms: *until_ms, below });
        }
        self.info = SchemeInfo::new("snowflake", Bits::Int, bits).ordered(Order::Time);
        self.past = kept;
        Ok(self)
    }

    /// The layout in use after the last cut-over.
    pub fn current(&self) -> &SnowflakeReader {
        &self.current
    }

    /// The layouts before, oldest first, each with its cut-over in Unix ms.
    pub fn past(&self) -> impl DoubleEndedIterator<Item = (&SnowflakeReader, u64)> {
        self.past.iter().map(|past| (&past.reader, past.until_ms))
    }

    /// The layout that made an id.
    fn of(&self, id: u64) -> &SnowflakeReader {
        self.past.iter().find(|past| id < past.below).map_or(&self.current, |past| &past.reader)
    }

    /// Each layout with the Unix milliseconds in which it is used.
    fn spans(&self) -> impl Iterator<Item = (&SnowflakeReader, i64, i64)> {
        let mut from_ms = i64::MIN;
        let past = self.past.iter().map(|past| (&past.reader, signed(past.until_ms)));
        past.chain([(&self.current, i64::MAX)]).map(move |(reader, until_ms)| {
            let span = (reader, from_ms, until_ms.saturating_sub(1));
            from_ms = until_ms;
            span
        })
    }
}

#[async_trait]
impl IdScheme for RevisedReader {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    /// Always `Closed`: a reader has no worker id.
    fn mint(&self) -> Result<u64, MintError> {
        Err(MintError::Closed)
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.current.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.current.text().parse(text, self.info.bits)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        self.of(bits).anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u64, u64)> {
        let ranges = self.spans().filter_map(|(reader, first_ms, last_ms)| {
            let (from_ms, to_ms) = (from_ms.max(first_ms), to_ms.min(last_ms));
            (from_ms <= to_ms).then(|| reader.range_at(from_ms, to_ms))?
        });
        ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    fn runs_out(&self) -> Option<i64> {
        self.current.runs_out()
    }
}

impl<C: Clock + Clone> Revised<C> {
    /// Mints by `old` until `cut_over_ms` and by `new` from then on. Both must be minters of layouts that `reader` reads. Before the
    /// cut-over that `old` followed it mints nothing: whoever stamps there stamps by a layout that is not at hand.
    pub fn new(
        reader: RevisedReader,
        old: Option<Snowflake<C>>,
        new: Snowflake<C>,
        cut_over_ms: u64,
        clock: C,
    ) -> Self {
        let over = AtomicBool::new(old.is_none());
        let before = reader.past().map(|(_, until_ms)| until_ms).filter(|until_ms| *until_ms < cut_over_ms);
        let old_from_ms = before.max().unwrap_or(0);
        Self { reader, old, new, old_from_ms, cut_over_ms, over, clock }
    }

    /// The minter in use, once the cut-over has been looked for.
    fn in_use(&self) -> &Snowflake<C> {
        match &self.old {
            Some(old) if !self.over.load(Ordering::Acquire) => old,
            _ => &self.new,
        }
    }

    /// Whether the refusal of the old layout was its last: its units have ended, and the clock says that the time has come.
    fn hands_over(&self, refusal: MintError) -> bool {
        let ended = matches!(refusal, MintError::LeaseLapsed | MintError::Spent);
        if self.over.load(Ordering::Acquire) || !ended || self.clock.unix_ms() < self.cut_over_ms {
            return false;
        }
        self.over.store(true, Ordering::Release);
        true
    }

    fn lanes(&self) -> impl Iterator<Item = &Snowflake<C>> {
        self.old.iter().chain([&self.new])
    }
}

#[async_trait]
impl<C: Clock + Clone> IdScheme for Revised<C> {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        IdScheme::info(&self.new)
    }

    fn mint(&self) -> Result<u64, MintError> {
        match self.in_use().mint() {
            Err(refusal) if self.hands_over(refusal) => self.new.mint(),
            other => other,
        }
    }

    fn mint_batch(&self, out: &mut [u64]) -> Result<usize, MintError> {
        match self.in_use().mint_batch(out) {
            Err(refusal) if self.hands_over(refusal) => self.new.mint_batch(out),
            other => other,
        }
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        if self.clock.unix_ms() >= self.cut_over_ms {
            self.over.store(true, Ordering::Release);
        }
        self.in_use().ready().await
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.reader.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.reader.parse(text)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        self.reader.anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(u64, u64)> {
        self.reader.range_at(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        self.reader.runs_out()
    }

    /// That of the layout in use, with what the one before has borrowed.
    fn pace(&self) -> Option<Pace> {
        let mut pace = self.in_use().pace()?;
        let borrowed_ms = self.lanes().filter_map(IdScheme::pace).map(|pace| pace.borrowed_ms);
        pace.borrowed_ms = borrowed_ms.sum();
        Some(pace)
    }

    async fn close(&self) -> Result<(), ReadyError> {
        for lane in self.lanes() {
            lane.close().await?;
        }
        Ok(())
    }
}

impl<C: Clock + Clone> Leased for Revised<C> {
    fn workers(&self) -> u64 {
        self.lanes().map(Leased::workers).min().unwrap_or(0)
    }

    fn grant(&self, worker: u32, window: Range<u64>, stop_ms: u64) {
        if let Some(old) = &self.old {
            old.grant(worker, window.start.max(self.old_from_ms)..window.end.min(self.cut_over_ms), stop_ms);
        }
        self.new.grant(worker, window.start.max(self.cut_over_ms)..window.end, stop_ms);
    }

    fn extend(&self, end_ms: u64, stop_ms: u64) {
        if let Some(old) = &self.old {
            old.extend(end_ms.min(self.cut_over_ms), stop_ms);
        }
        self.new.extend(end_ms, stop_ms);
    }

    fn trouble(&self, error: Arc<StoreError>) {
        self.lanes().for_each(|lane| lane.trouble(Arc::clone(&error)));
    }

    fn halt(&self) -> Option<u64> {
        // Both must stop, so both are asked.
        let used: Vec<u64> = self.lanes().filter_map(Leased::halt).collect();
        used.into_iter().max()
    }

    fn shut(&self) {
        self.lanes().for_each(Leased::shut);
    }

    fn refusal(&self) -> Option<MintError> {
        let refusal = self.in_use().refusal()?;
        if self.hands_over(refusal) { self.new.refusal() } else { Some(refusal) }
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use mintage_core::ManualClock;

    use super::*;
    use crate::{Layout, SnowflakeSettings, TimeUnit};

    const EPOCH_MS: u64 = 1_767_225_600_000;
    /// 2028-01-01T00:00:00Z.
    const CUT_MS: u64 = 1_830_297_600_000;

    fn reader(time: u32, worker: u32, sequence: u32, unit: TimeUnit) -> SnowflakeReader {
        let parts = [(Part::Time, time), (Part::Worker, worker), (Part::Sequence, sequence)];
        SnowflakeReader::new(Layout::of(parts, 0, unit).unwrap(), EPOCH_MS)
    }

    fn revised() -> RevisedReader {
        let old = reader(41, 8, 10, TimeUnit::Millisecond);
        let new = reader(41, 10, 12, TimeUnit::Millisecond);
        RevisedReader::new(new).after(vec![(old, CUT_MS)]).unwrap()
    }

    #[test]
    fn a_layout_follows_another_only_above_all_its_ids() {
        let fine = reader(41, 10, 12, TimeUnit::Millisecond);
        for (next, follows) in [
            (reader(41, 10, 12, TimeUnit::Millisecond), true),
            (reader(40, 11, 12, TimeUnit::Millisecond), true),
            (reader(41, 12, 9, TimeUnit::Millisecond), false),
            (reader(32, 10, 12, TimeUnit::Second), false),
            (reader(32, 16, 15, TimeUnit::Second), false),
            (reader(36, 10, 17, TimeUnit::Centisecond), true),
        ] {
            let found = begins_above(&fine, &next, CUT_MS);
            assert_eq!(found.is_ok(), follows, "{}: {found:?}", next.layout());
            if let Ok(first) = found {
                let last_ms = i64::try_from(CUT_MS).unwrap() - 1;
                assert!(fine.range_at(last_ms, last_ms).unwrap().1 < first);
                assert!(next.range_at(last_ms + 1, last_ms + 1).unwrap().0 <= first);
            }
        }
        let sequence_first =
            Layout::of([(Part::Sequence, 12), (Part::Time, 41), (Part::Worker, 10)], 0, TimeUnit::Millisecond);
        let unordered = SnowflakeReader::new(sequence_first.unwrap(), EPOCH_MS);
        assert!(begins_above(&unordered, &fine, CUT_MS).unwrap_err().contains("no order"));
        assert!(begins_above(&fine, &fine, EPOCH_MS - 1).is_err());
        let late = SnowflakeReader::new(*fine.layout(), CUT_MS);
        assert!(begins_above(&fine, &late, CUT_MS).unwrap_err().contains("goes up to"), "a later epoch starts below");
    }

    #[test]
    fn each_id_is_read_by_the_layout_that_made_it() {
        let both = revised();
        let (old, new) = (reader(41, 8, 10, TimeUnit::Millisecond), reader(41, 10, 12, TimeUnit::Millisecond));
        let cut_ms = i64::try_from(CUT_MS).unwrap();
        for (made_ms, by) in [(cut_ms - 1_000, &old), (cut_ms - 1, &old), (cut_ms, &new), (cut_ms + 1_000, &new)] {
            let id = by.id_at(made_ms, 200, 1_000).unwrap();
            let told = both.anatomy(id);
            assert_eq!((told.time.unwrap().unix_ms, told.worker, told.sequence), (made_ms, Some(200), Some(1_000)));
            assert_eq!(both.parse(&id.to_string()), Ok(id));
            let (first, last) = both.range_at(made_ms, made_ms).unwrap();
            assert!((first..=last).contains(&id));
        }
        let across = both.range_at(cut_ms - 5, cut_ms + 5).unwrap();
        assert_eq!(across.0, old.range_at(cut_ms - 5, cut_ms - 5).unwrap().0);
        assert_eq!(across.1, new.range_at(cut_ms + 5, cut_ms + 5).unwrap().1);
    }

    /// A machine whose clock is fast starts after the first of two cut-overs. Its clock is corrected, and the fleet still stamps by the
    /// layout before: what it would stamp there could be somebody else's id.
    #[test]
    fn the_middle_layout_stamps_nothing_before_its_own_cut_over() {
        const FIRST_CUT_MS: u64 = CUT_MS - 86_400_000;
        let clock = ManualClock::at(FIRST_CUT_MS + 1_000);
        let [oldest, middle, newest] =
            [(8, 10), (9, 11), (10, 12)].map(|(worker, sequence)| reader(41, worker, sequence, TimeUnit::Millisecond));
        let all =
            RevisedReader::new(newest.clone()).after(vec![(oldest, FIRST_CUT_MS), (middle.clone(), CUT_MS)]).unwrap();
        let [old, new] = [middle.clone(), newest]
            .map(|reader| Snowflake::new(reader, SnowflakeSettings::default(), clock.clone()).unwrap());
        let ids = Revised::new(all.clone(), Some(old), new, CUT_MS, clock.clone());
        clock.step_to(FIRST_CUT_MS - 5_000);
        ids.grant(7, FIRST_CUT_MS - 6_000..FIRST_CUT_MS - 1_000, u64::MAX);
        assert!(ids.mint().is_err(), "the whole window lies before");
        assert_eq!(ids.halt(), None, "and nothing of it was used");
        ids.grant(7, FIRST_CUT_MS - 6_000..FIRST_CUT_MS - 2_000, u64::MAX);
        ids.extend(FIRST_CUT_MS + 2_000, u64::MAX);
        for now_ms in (FIRST_CUT_MS - 5_000..FIRST_CUT_MS + 1_000).step_by(50) {
            clock.step_to(now_ms);
            let id = ids.mint();
            assert!(now_ms >= FIRST_CUT_MS || id.is_err(), "at {now_ms}: {id:?}");
            if now_ms >= FIRST_CUT_MS {
                assert_eq!(middle.anatomy(id.unwrap()).time.unwrap().unix_ms, i64::try_from(now_ms).unwrap());
                assert_eq!(all.anatomy(id.unwrap()).worker, Some(7));
            }
        }
    }

    #[test]
    fn a_minter_changes_its_layout_at_the_cut_over_and_stays_in_order() {
        let clock = ManualClock::at(CUT_MS - 20);
        let both = revised();
        let [old, new] = [41, 41]
            .iter()
            .zip([(8, 10), (10, 12)])
            .map(|(time, (worker, sequence))| {
                let reader = reader(*time, worker, sequence, TimeUnit::Millisecond);
                Snowflake::new(reader, SnowflakeSettings::default(), clock.clone()).unwrap()
            })
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let ids = Revised::new(both.clone(), Some(old), new, CUT_MS, clock.clone());
        assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
        ids.grant(7, CUT_MS - 40..CUT_MS - 10, u64::MAX);
        let mut last = 0;
        for step in 0..60 {
            if step == 5 {
                ids.extend(CUT_MS + 20, u64::MAX);
            }
            for _ in 0..3_000 {
                let Ok(id) = ids.mint() else { break };
                assert!(id > last, "{id} after {last}");
                let told = both.anatomy(id);
                assert_eq!(told.worker, Some(7));
                last = id;
            }
            clock.advance(1);
        }
        let told = both.anatomy(last).time.unwrap().unix_ms;
        assert_eq!(told, i64::try_from(CUT_MS).unwrap() + 19, "to the last unit of the window");
        assert_eq!(ids.mint(), Err(MintError::LeaseLapsed));
        assert_eq!(ids.halt(), Some(CUT_MS + 20));
        // A clock that goes back before the cut-over makes nothing by the old layout any more.
        ids.grant(7, CUT_MS + 20..CUT_MS + 60, u64::MAX);
        clock.step_to(CUT_MS - 5);
        assert!(ids.mint().is_err());
        ids.shut();
        assert_eq!(ids.mint(), Err(MintError::Closed));
    }
}
