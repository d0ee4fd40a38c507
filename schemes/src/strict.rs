//! What the three time-ordered random schemes share: time, then a big random number that only grows.
//!
//! Within one time unit the tail of each id is `(count ‖ chance)`: the count comes from the [`Timeline`] and starts at a
//! random value, the chance below it is fresh for each id. So ids of one minter ascend strictly, by a step nobody can guess,
//! and ids of different minters differ by chance as those with a fully random tail do. The invariant: as long as the clock does
//! not step back further than `max_drift`, every id is larger than all before it. A full unit waits for the clock; it goes on in
//! the next unit only while the timeline is held ahead of a clock that stepped back.
//!
//! Unlike a snowflake, uniqueness does not rest on the timeline here. So a clock that jumped far ahead and came back may be
//! followed ([`RandomStep::Borrow`]): that breaks the order once instead of stamping wrong times for ever.

use std::{
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mintage_core::{Bits, Clock, IdBits, MintError, Order, Pace, ParseError, ReadyError, SchemeInfo};

use crate::{
    entropy::{Draw, Entropy},
    places::Places,
    timeline::{Ahead, Ask, Overflow, Refusal, Run, Timeline},
};

/// How far the clock may step back before the order gives way: two hours, because wrong time zones and daylight-saving faults
/// move it by one.
pub const RANDOM_DRIFT_MS: u64 = 2 * 3600 * 1000;

/// Bits of a packed timeline: unit and count together.
const TIMELINE_BITS: u32 = 63;

/// What order the ids of one minter have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RandomOrder {
    /// Strictly ascending, within one time unit by an unguessable step. At least 2^19 ids a millisecond; then `Exhausted`.
    #[default]
    Strict,
    /// Strictly ascending for each thread, which has a count of its own; among threads by time unit. Threads that mint at once do
    /// not slow each other down, and their ids differ as those of different minters do. A task that wakes up on another
    /// thread takes up that one's order.
    Thread,
    /// By time unit only; all bits below the time are fresh chance, and no state is shared between threads.
    Time,
}

/// What to do when the clock stands further back than `max_drift`. Matters where ids ascend only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RandomStep {
    /// Follow the clock back. Ids are then smaller than some before: the order is broken once. They are as unique as those
    /// of two minters, that is by chance.
    #[default]
    Borrow,
    /// Refuse with `ClockBackwards` until the clock has caught up.
    Refuse,
}

/// Why no id was made for a given time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StampError {
    /// The scheme cannot stamp that time.
    #[error(transparent)]
    Time(#[from] ParseError),
    /// The minter has no random bits or is closed.
    #[error(transparent)]
    Mint(#[from] MintError),
}

/// How a scheme divides its bits: a time, then a tail.
pub(crate) trait Shape: fmt::Debug + Send + Sync + 'static {
    type Bits: IdBits;
    const NAME: &'static str;
    const EPOCH_MS: u64;
    const UNIT_MS: u64;
    const TIME_BITS: u32;
    const TAIL_BITS: u32;
    /// How many of the tail's bits count within a unit.
    const COUNT_BITS: u32;

    /// `time` and `tail` have no more bits than said above.
    fn join(time: u64, tail: u128) -> Self::Bits;
}

/// Mints ids of shape `S`.
#[derive(Debug)]
pub(crate) struct Strict<S: Shape, C> {
    info: SchemeInfo,
    clock: C,
    entropy: Entropy,
    order: RandomOrder,
    on_step: RandomStep,
    max_drift_ms: u64,
    /// The first time unit that the timeline can hold.
    base: u64,
    timelines: Places<Timeline>,
    closed: AtomicBool,
    shape: PhantomData<fn() -> S>,
}

impl<S: Shape, C: Clock> Strict<S, C> {
    pub(crate) fn new(clock: C) -> Self {
        let bits = S::TIME_BITS + S::TAIL_BITS + fixed_bits::<S>();
        Self {
            info: SchemeInfo::new(S::NAME, S::Bits::KIND, bits).ordered(Order::Minter),
            base: base_at::<S>(clock.unix_ms()),
            clock,
            entropy: Entropy::os(),
            order: RandomOrder::Strict,
            on_step: RandomStep::Borrow,
            max_drift_ms: RANDOM_DRIFT_MS,
            timelines: Places::one(Timeline::running(S::COUNT_BITS)),
            closed: AtomicBool::new(false),
            shape: PhantomData,
        }
    }

    pub(crate) fn order(mut self, order: RandomOrder) -> Self {
        self.order = order;
        let timeline = || Timeline::running(S::COUNT_BITS);
        (self.info.order, self.timelines) = match order {
            RandomOrder::Strict => (Order::Minter, Places::one(timeline())),
            RandomOrder::Thread => (Order::Thread, Places::each(timeline)),
            RandomOrder::Time => (Order::Time, Places::one(timeline())),
        };
        self
    }

    pub(crate) fn on_step(mut self, on_step: RandomStep) -> Self {
        self.on_step = on_step;
        self
    }

    pub(crate) fn max_drift_ms(mut self, max_drift_ms: u64) -> Self {
        self.max_drift_ms = max_drift_ms;
        self
    }

    pub(crate) fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    pub(crate) fn info(&self) -> &SchemeInfo {
        &self.info
    }

    #[inline]
    pub(crate) fn mint(&self) -> Result<S::Bits, MintError> {
        let now_ms = self.clock.unix_ms();
        match self.order {
            RandomOrder::Strict | RandomOrder::Thread => self.entropy.with(words::<S>(), |draw| {
                let run = self.take(1, now_ms, draw)?;
                Ok(self.counted(run.first, draw))
            })?,
            RandomOrder::Time => {
                let time = self.time_at(now_ms)?;
                self.entropy.with(words::<S>(), |draw| S::join(time, chance(S::TAIL_BITS, draw)))
            }
        }
    }

    /// One clock reading and one reservation for all of them.
    pub(crate) fn mint_batch(&self, out: &mut [S::Bits]) -> Result<usize, MintError> {
        if out.is_empty() {
            return Ok(0);
        }
        let now_ms = self.clock.unix_ms();
        let words_all = words::<S>().saturating_mul(out.len() as u64);
        match self.order {
            RandomOrder::Strict | RandomOrder::Thread => self.entropy.with(words_all, |draw| {
                let run = self.take(out.len() as u64, now_ms, draw)?;
                let mut made = 0;
                for (slot, packed) in out.iter_mut().zip(run.first..run.first + run.len) {
                    *slot = self.counted(packed, draw);
                    made += 1;
                }
                Ok(made)
            })?,
            RandomOrder::Time => {
                let time = self.time_at(now_ms)?;
                self.entropy.with(words_all, |draw| {
                    out.iter_mut().for_each(|slot| *slot = S::join(time, chance(S::TAIL_BITS, draw)));
                    out.len()
                })
            }
        }
    }

    /// An id of a given time, its whole tail chance. Takes no part in the order.
    pub(crate) fn at(&self, unix_ms: i64) -> Result<S::Bits, StampError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(MintError::Closed.into());
        }
        let time = time_of::<S>(unix_ms)?;
        Ok(self.entropy.with(words::<S>(), |draw| S::join(time, chance(S::TAIL_BITS, draw)))?)
    }

    pub(crate) async fn ready(&self) -> Result<(), ReadyError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(MintError::Closed.into());
        }
        let now_ms = self.clock.unix_ms();
        let refusal = match self.order {
            RandomOrder::Strict | RandomOrder::Thread => {
                match self.timelines.mine().probe(&self.ask(self.unit_at(now_ms)?)) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => self.explain(refusal, now_ms),
                }
            }
            RandomOrder::Time => return Ok(self.time_at(now_ms).map(drop)?),
        };
        match refusal {
            MintError::Exhausted { retry_ms } => {
                tokio::time::sleep(Duration::from_millis(u64::from(retry_ms))).await;
                Ok(())
            }
            other => Err(other.into()),
        }
    }

    /// How the timeline stands against the clock; `None` where there is none. Units start in the lower half of their counts.
    pub(crate) fn pace(&self) -> Option<Pace> {
        if self.order == RandomOrder::Time {
            return None;
        }
        let now = self.unit_at(self.clock.unix_ms()).ok();
        let mut pace = self.timelines.all().map(|timeline| self.pace_of(timeline, now)).reduce(Pace::beside)?;
        // Whoever waits, waits for a place of its own.
        pace.is_full = self.pace_of(self.timelines.mine(), now).is_full;
        Some(pace)
    }

    fn pace_of(&self, timeline: &Timeline, now: Option<u64>) -> Pace {
        let mut pace = Pace::new((1 << (S::COUNT_BITS - 1)) * 1000 / S::UNIT_MS, self.max_drift_ms);
        pace.borrowed_ms = timeline.borrowed().saturating_mul(S::UNIT_MS);
        if let Some(now) = now {
            pace.is_full = matches!(timeline.probe(&self.ask(now)), Err(Refusal::Full { .. }));
            let ahead = timeline.last_unit().map_or(0, |last| last.saturating_sub(now));
            pace.ahead_ms = ahead.saturating_mul(S::UNIT_MS);
        }
        pace
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for timeline in self.timelines.all() {
            timeline.stop();
        }
    }

    /// Takes up to `n` counts of one unit.
    ///
    /// The clock is read before the timeline, which keeps the time between reading and changing the timeline short. A reading
    /// that another thread has overtaken can look like a step back; so a refusal is only believed, and a clock only followed
    /// back, on a second reading that was taken after the timeline was read.
    #[inline]
    fn take(&self, n: u64, now_ms: u64, draw: &mut Draw<'_>) -> Result<Run, MintError> {
        let ask = Ask { ahead: Ahead::Refuse, ..self.ask(self.unit_at(now_ms)?) };
        match self.timelines.mine().reserve(n, || start::<S>(draw), || (ask, ())) {
            Ok((run, ())) => Ok(run),
            Err(Refusal::Behind { .. } | Refusal::Full { .. }) => self.take_carefully(n, draw),
            Err(refusal) => Err(self.explain(refusal, now_ms)),
        }
    }

    #[cold]
    fn take_carefully(&self, n: u64, draw: &mut Draw<'_>) -> Result<Run, MintError> {
        let mut now_ms = 0;
        let mut unstampable = None;
        let check = || {
            now_ms = self.clock.unix_ms();
            let unit = self.unit_at(now_ms);
            unstampable = unit.err();
            // With an end of 0 nothing is taken.
            let ask = unit.map_or_else(|_| Ask { end: 0, ..self.ask(0) }, |unit| self.ask(unit));
            (ask, ())
        };
        let taken = self.timelines.mine().reserve(n, || start::<S>(draw), check);
        match (taken, unstampable) {
            (Ok((run, ())), _) => Ok(run),
            (Err(Refusal::Stopped), _) => Err(MintError::Closed),
            (Err(_), Some(error)) => Err(error),
            (Err(refusal), None) => Err(self.explain(refusal, now_ms)),
        }
    }

    #[inline]
    fn ask(&self, now: u64) -> Ask {
        Ask {
            now,
            end: (1u64 << S::TIME_BITS).saturating_sub(self.base).min(capacity::<S>()),
            // Rounded up: a step of `max_drift` can cross that many ends of units.
            drift: self.max_drift_ms.div_ceil(S::UNIT_MS),
            overflow: Overflow::WaitUnlessHeld,
            ahead: match self.on_step {
                RandomStep::Borrow => Ahead::Follow,
                RandomStep::Refuse => Ahead::Refuse,
            },
        }
    }

    /// The clock in units of the timeline.
    #[inline]
    fn unit_at(&self, now_ms: u64) -> Result<u64, MintError> {
        let time = units_since_epoch::<S>(now_ms)?;
        time.checked_sub(self.base).ok_or_else(|| self.backwards((self.base - time).saturating_mul(S::UNIT_MS)))
    }

    /// The clock as the time field has it, where no timeline is kept.
    #[inline]
    fn time_at(&self, now_ms: u64) -> Result<u64, MintError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(MintError::Closed);
        }
        let time = units_since_epoch::<S>(now_ms)?;
        if time >> S::TIME_BITS == 0 { Ok(time) } else { Err(MintError::Spent) }
    }

    /// The id of one count: the rest of its tail is drawn now.
    #[inline]
    fn counted(&self, packed: u64, draw: &mut Draw<'_>) -> S::Bits {
        let (unit, count) = (packed >> S::COUNT_BITS, packed & ((1 << S::COUNT_BITS) - 1));
        let fresh_bits = S::TAIL_BITS - S::COUNT_BITS;
        S::join(self.base + unit, (u128::from(count) << fresh_bits) | chance(fresh_bits, draw))
    }

    #[cold]
    fn explain(&self, refusal: Refusal, now_ms: u64) -> MintError {
        match refusal {
            Refusal::Stopped => MintError::Closed,
            Refusal::Ended => MintError::Spent,
            Refusal::Full { units } => {
                let into_unit_ms = now_ms.saturating_sub(S::EPOCH_MS) % S::UNIT_MS;
                let retry_ms = units.saturating_mul(S::UNIT_MS) - into_unit_ms;
                MintError::Exhausted { retry_ms: u32::try_from(retry_ms).unwrap_or(u32::MAX) }
            }
            Refusal::Behind { units } => self.backwards(units.saturating_mul(S::UNIT_MS)),
        }
    }

    fn backwards(&self, by_ms: u64) -> MintError {
        MintError::ClockBackwards {
            by_ms: u32::try_from(by_ms).unwrap_or(u32::MAX),
            limit_ms: u16::try_from(self.max_drift_ms).unwrap_or(u16::MAX),
        }
    }
}

/// Puts an id together from a Unix millisecond and a tail.
pub(crate) fn from_parts<S: Shape>(unix_ms: i64, tail: u128) -> Result<S::Bits, ParseError> {
    if S::TAIL_BITS < u128::BITS && tail >> S::TAIL_BITS != 0 {
        return Err(ParseError::OutOfRange);
    }
    Ok(S::join(time_of::<S>(unix_ms)?, tail))
}

/// The ids between which all of `from_ms..=to_ms` lie: tails of zeros and of ones. The span is cut to what can be stamped.
pub(crate) fn range_at<S: Shape>(from_ms: i64, to_ms: i64) -> Option<(S::Bits, S::Bits)> {
    let (first_ms, last_ms) = (epoch_ms::<S>(), last_ms::<S>());
    if from_ms > to_ms || to_ms < first_ms || from_ms > last_ms {
        return None;
    }
    let ones = u128::MAX >> (u128::BITS - S::TAIL_BITS);
    Some((from_parts::<S>(from_ms.max(first_ms), 0).ok()?, from_parts::<S>(to_ms.min(last_ms), ones).ok()?))
}

/// Unix ms of the last instant that can be stamped.
pub(crate) const fn last_ms<S: Shape>() -> i64 {
    (S::EPOCH_MS + (S::UNIT_MS << S::TIME_BITS) - 1) as i64
}

/// A remark for times that were meant in seconds and written as milliseconds: January and February 1970.
pub(crate) fn seconds_remark(unix_ms: u64) -> Option<String> {
    /// 2001-09-09 to 2100-01-01 as Unix seconds: before and after that nobody mistook the unit.
    const LIKELY_SECONDS: std::ops::Range<u64> = 1_000_000_000..4_102_444_800;
    LIKELY_SECONDS
        .contains(&unix_ms)
        .then(|| format!("implausibly old: the value looks like seconds (Unix second {unix_ms})"))
}

const fn epoch_ms<S: Shape>() -> i64 {
    S::EPOCH_MS as i64
}

/// Bits that are the same in every id.
const fn fixed_bits<S: Shape>() -> u32 {
    let width = match S::Bits::KIND {
        Bits::Long => 160,
        _ => 128,
    };
    width - S::TIME_BITS - S::TAIL_BITS
}

/// The time field of a given Unix millisecond.
fn time_of<S: Shape>(unix_ms: i64) -> Result<u64, ParseError> {
    u64::try_from(unix_ms)
        .ok()
        .and_then(|unix_ms| Some(unix_ms.checked_sub(S::EPOCH_MS)? / S::UNIT_MS))
        .filter(|time| time >> S::TIME_BITS == 0)
        .ok_or(ParseError::Time { unix_ms, from_ms: epoch_ms::<S>(), to_ms: last_ms::<S>() })
}

/// The clock in units since the epoch. A clock that shows 1970-01-01T00:00:00Z is not set: earlier times read as that, too.
#[inline]
fn units_since_epoch<S: Shape>(now_ms: u64) -> Result<u64, MintError> {
    match now_ms.checked_sub(S::EPOCH_MS) {
        Some(since_ms) if now_ms > 0 => Ok(since_ms / S::UNIT_MS),
        _ => Err(MintError::ClockBeforeEpoch),
    }
}

/// How many units the timeline has room for.
const fn capacity<S: Shape>() -> u64 {
    1 << (TIMELINE_BITS - S::COUNT_BITS)
}

/// Where the timeline begins: at the epoch, unless the clock at construction comes near the end of its room. An eighth of the
/// room is kept ahead of the clock (for milliseconds 34 years, and the base is 0 until 2213), the rest behind, for a clock that was wrong then.
fn base_at<S: Shape>(now_ms: u64) -> u64 {
    if S::TIME_BITS <= TIMELINE_BITS - S::COUNT_BITS {
        return 0;
    }
    units_since_epoch::<S>(now_ms).unwrap_or(0).saturating_sub(capacity::<S>() / 8 * 7)
}

/// 64-bit words drawn for one id, about.
const fn words<S: Shape>() -> u64 {
    (S::TAIL_BITS as u64).div_ceil(64)
}

/// The first count of a unit: random, its top bit clear, so that at least half the counts are left whatever is drawn.
#[inline]
fn start<S: Shape>(draw: &mut Draw<'_>) -> u64 {
    draw.word() >> (u64::BITS - S::COUNT_BITS + 1)
}

/// `bits` fresh random bits, 1 to 128.
#[inline]
fn chance(bits: u32, draw: &mut Draw<'_>) -> u128 {
    if bits <= u64::BITS {
        u128::from(draw.word() >> (u64::BITS - bits))
    } else {
        draw.two_words() >> (u128::BITS - bits)
    }
}

/// The builder methods that [`UuidV7`](crate::UuidV7), [`Ulid`](crate::Ulid) and [`Ksuid`](crate::Ksuid) have in common.
macro_rules! builder {
    ($name:ident) => {
        impl $name {
            /// Minter with the machine's clock and random bits, strictly ascending.
            pub fn new() -> Self {
                Self::with_clock(SystemClock)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<C: Clock> $name<C> {
            /// Minter with a clock of yours. Each id is stamped with one reading.
            pub fn with_clock(clock: C) -> Self {
                Self { strict: Strict::new(clock) }
            }

            /// Chooses between strict order, that of each thread, and a fully random tail.
            #[must_use]
            pub fn order(self, order: RandomOrder) -> Self {
                Self { strict: self.strict.order(order) }
            }

            /// How far the clock may step back, in milliseconds, and ids still ascend
            /// ([`RANDOM_DRIFT_MS`](crate::RANDOM_DRIFT_MS) unless said otherwise). Meanwhile ids carry the time reached
            /// before the step.
            #[must_use]
            pub fn max_drift_ms(self, max_drift_ms: u64) -> Self {
                Self { strict: self.strict.max_drift_ms(max_drift_ms) }
            }

            /// What happens when the clock steps back further than that.
            #[must_use]
            pub fn on_step(self, on_step: RandomStep) -> Self {
                Self { strict: self.strict.on_step(on_step) }
            }

            /// Where random bits come from. Anything but [`Entropy::os`] is for tests.
            #[must_use]
            pub fn entropy(self, entropy: Entropy) -> Self {
                Self { strict: self.strict.entropy(entropy) }
            }
        }
    };
}

pub(crate) use builder;

#[cfg(test)]
mod tests {
    use mintage_core::ManualClock;

    use super::*;

    /// Eight counts in a unit of a tenth of a second, so that a unit can be filled.
    #[derive(Debug)]
    struct Tiny;

    impl Shape for Tiny {
        type Bits = u128;
        const NAME: &'static str = "tiny";
        const EPOCH_MS: u64 = 1_000_000;
        const UNIT_MS: u64 = 100;
        const TIME_BITS: u32 = 20;
        const TAIL_BITS: u32 = 40;
        const COUNT_BITS: u32 = 3;

        fn join(time: u64, tail: u128) -> u128 {
            u128::from(time) << 40 | tail
        }
    }

    const START_MS: u64 = 1_500_030;

    fn tiny(clock: &ManualClock) -> Strict<Tiny, ManualClock> {
        // The worst start: counts 3 to 7 are left.
        Strict::new(clock.clone()).entropy(Entropy::scripted([u64::MAX]))
    }

    /// Unit and count of an id.
    fn parts(id: u128) -> (u64, u64) {
        ((id >> 40) as u64, (id >> 37 & 7) as u64)
    }

    #[test]
    fn a_full_unit_says_when_the_next_begins() {
        let clock = ManualClock::at(START_MS);
        let ids = tiny(&clock);
        let made: Vec<_> = (0..5).map(|_| parts(ids.mint().unwrap())).collect();
        assert_eq!(made, [(5000, 3), (5000, 4), (5000, 5), (5000, 6), (5000, 7)]);
        assert_eq!(ids.mint(), Err(MintError::Exhausted { retry_ms: 70 }));
        clock.advance(69);
        assert_eq!(ids.mint(), Err(MintError::Exhausted { retry_ms: 1 }));
        clock.advance(1);
        assert_eq!(ids.mint().map(parts), Ok((5001, 3)));
    }

    #[test]
    fn while_held_ahead_a_full_unit_goes_on_in_the_next() {
        let clock = ManualClock::at(START_MS);
        let ids = tiny(&clock).max_drift_ms(10_000);
        ids.mint().unwrap();
        clock.step(-5_000);
        let mut batch = [0; 100];
        let mut last = 0;
        for _ in 0..6 {
            let made = ids.mint_batch(&mut batch).unwrap();
            assert!(batch[..made].iter().all(|id| std::mem::replace(&mut last, *id) < *id));
        }
        assert_eq!(parts(last), (5005, 7));
    }

    #[test]
    fn a_batch_stays_in_its_unit() {
        let clock = ManualClock::at(START_MS);
        let ids = tiny(&clock);
        let mut batch = [0; 100];
        assert_eq!(ids.mint_batch(&mut []), Ok(0));
        assert_eq!(ids.mint_batch(&mut batch[..2]), Ok(2));
        assert_eq!(ids.mint_batch(&mut batch), Ok(3));
        assert_eq!(ids.mint_batch(&mut batch), Err(MintError::Exhausted { retry_ms: 70 }));
        assert_eq!(batch[..3].iter().map(|id| parts(*id)).collect::<Vec<_>>(), [(5000, 5), (5000, 6), (5000, 7)]);
        let by_time = tiny(&clock).order(RandomOrder::Time);
        assert_eq!(by_time.mint_batch(&mut batch), Ok(100), "nothing to fill");
    }

    #[test]
    fn the_drift_is_rounded_up_to_units() {
        let clock = ManualClock::at(START_MS);
        let ids = tiny(&clock).max_drift_ms(40).on_step(RandomStep::Refuse);
        let first = ids.mint().unwrap();
        // 40 ms back, across the end of a unit.
        clock.step(-40);
        assert!(ids.mint().unwrap() > first);
        clock.step(-100);
        assert_eq!(ids.mint(), Err(MintError::ClockBackwards { by_ms: 200, limit_ms: 40 }));
    }

    #[test]
    fn the_base_leaves_an_eighth_ahead() {
        #[derive(Debug)]
        struct Wide;
        impl Shape for Wide {
            type Bits = u128;
            const NAME: &'static str = "wide";
            const EPOCH_MS: u64 = 0;
            const UNIT_MS: u64 = 1;
            const TIME_BITS: u32 = 48;
            const TAIL_BITS: u32 = 80;
            const COUNT_BITS: u32 = 20;
            fn join(time: u64, tail: u128) -> u128 {
                u128::from(time) << 80 | tail
            }
        }
        let room = capacity::<Wide>();
        assert_eq!(room, 1 << 43);
        assert_eq!(base_at::<Wide>(0), 0);
        assert_eq!(base_at::<Wide>(7 << 40), 0, "until 2213");
        assert_eq!(base_at::<Wide>((7 << 40) + 5), 5);
        assert_eq!(base_at::<Wide>(u64::MAX), u64::MAX - (7 << 40));
        assert_eq!(base_at::<Tiny>(u64::MAX), 0, "all units fit");
        // At the rim of the room ids still carry the right time, and beyond it none is made.
        let clock = ManualClock::at(1 << 46);
        let ids = Strict::<Wide, _>::new(clock.clone());
        let rim = (1 << 46) + (1 << 40);
        for (now_ms, expected) in [(1 << 46, Ok(1 << 46)), (rim - 1, Ok(rim - 1)), (rim, Err(MintError::Spent))] {
            clock.step_to(now_ms);
            assert_eq!(ids.mint().map(|id| (id >> 80) as u64), expected);
        }
    }
}
