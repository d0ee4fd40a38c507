//! One store that ranges come from, and what is known of it: how far it has come, whether it answers.
//!
//! Several stores share one scheme by stride: of two, one gives odd numbers and the other even ones. A store counts in plain
//! numbers all the same. A range of `len × step` of them holds exactly `len` of each stride, so its ranges stay disjoint whatever
//! the step was when they were cut.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mintage_core::{
    IdRange, IdempotencyKey, RANGE_END, RangeStore, Sequence, StoreError, StoreErrorKind, StoreHealth, protocol::raises,
};
use tokio::time::timeout;

use super::SegmentFault;

/// After how long a fetch without an answer is given up. Stores have a shorter limit of their own; this one is for those
/// that have none, because a fetch that hangs for ever would be the last one.
const FETCH_MS_MAX: u64 = 30_000;
/// The same where another store can be asked instead: longer than a store that lives takes, and short enough that the ranges in
/// hand outlast it.
const FETCH_MS_MAX_OF_SEVERAL: u64 = 2_000;
/// How long a store that failed is left alone while another answers.
const REST: Duration = Duration::from_secs(5);

/// Every `step`-th number: those that leave the same remainder as `offset`.
///
/// ```
/// use mintage_schemes::Stride;
///
/// let even = Stride::new(2, 2)?;
/// assert_eq!((even.first_from(1), even.first_from(2), even.first_from(3)), (2, 2, 4));
/// assert!(Stride::new(2, 3).is_err());
/// # Ok::<(), mintage_schemes::SegmentFault>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    step: u32,
    offset: u32,
}

impl Stride {
    /// Every number.
    pub const EVERY: Self = Self { step: 1, offset: 1 };
    /// Longest step: as many stores as anybody will run side by side, many times over, and each costs one of as many numbers.
    pub const STEP_MAX: u32 = 1_000;

    /// Every `step`-th number from `offset` on: `(2, 1)` are the odd ones, `(2, 2)` the even ones.
    ///
    /// # Errors
    /// [`SegmentFault::Stride`] unless 1 ≤ `offset` ≤ `step` ≤ 1000.
    pub fn new(step: u32, offset: u32) -> Result<Self, SegmentFault> {
        if step > Self::STEP_MAX || offset == 0 || offset > step {
            return Err(SegmentFault::Stride { step, offset });
        }
        Ok(Self { step, offset })
    }

    /// The distance from one number to the next.
    pub fn step(self) -> u32 {
        self.step
    }

    /// The first number, and what tells this stride from others of the same step.
    pub fn offset(self) -> u32 {
        self.offset
    }

    /// The smallest of its numbers that is at least `number`.
    pub fn first_from(self, number: u64) -> u64 {
        let step = u64::from(self.step);
        let ahead = (u64::from(self.offset) % step + step - number % step) % step;
        number.saturating_add(ahead)
    }
}

/// A store, the sequence in it, and the numbers that are ours to mint.
#[derive(Clone, Debug)]
pub struct Lane {
    pub(super) name: String,
    pub(super) store: Arc<dyn RangeStore>,
    pub(super) sequence: Sequence,
    pub(super) stride: Stride,
}

impl Lane {
    /// Every number of `sequence`, which must exist in `store`. `name` is for people.
    pub fn new(name: impl Into<String>, store: Arc<dyn RangeStore>, sequence: Sequence) -> Self {
        Self { name: name.into(), store, sequence, stride: Stride::EVERY }
    }

    /// Only the numbers of `stride`.
    #[must_use]
    pub fn every(mut self, stride: Stride) -> Self {
        self.stride = stride;
        self
    }
}

/// The lanes of a segment, shared by all that fetch. A reader has none.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Open>,
}

/// A lane in use.
#[derive(Debug)]
pub(super) struct Open {
    lane: Lane,
    /// One past the largest number this process was given: the store must stand above it.
    floor: AtomicU64,
    spent: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trouble: Option<Arc<StoreError>>,
    rests_until: Option<tokio::time::Instant>,
}

impl Lanes {
    /// # Errors
    /// [`SegmentFault::Lanes`] where there is none, or where two share a number.
    pub(super) fn new(lanes: Vec<Lane>) -> Result<Self, SegmentFault> {
        let step = lanes.first().map_or(0, |lane| lane.stride.step);
        let mut offsets: Vec<u32> = lanes.iter().map(|lane| lane.stride.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        if lanes.is_empty() || offsets.len() < lanes.len() || lanes.iter().any(|lane| lane.stride.step != step) {
            return Err(SegmentFault::Lanes);
        }
        let open = |lane: Lane| Open {
            floor: AtomicU64::new(lane.sequence.floor),
            spent: AtomicBool::new(false),
            state: Mutex::default(),
            lane,
        };
        Ok(Self { lanes: lanes.into_iter().map(open).collect() })
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn at(&self, index: usize) -> Option<&Open> {
        self.lanes.get(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.lanes.iter()
    }

    /// The lanes worth asking, beginning with number `first`: those that answered last time, then those that did not.
    pub(super) fn in_order(&self, first: usize) -> Vec<usize> {
        let count = self.lanes.len();
        let mut order: Vec<usize> = (0..count).map(|index| (first + index) % count).collect();
        order.retain(|index| self.at(*index).is_some_and(|open| !open.is_spent()));
        order.sort_by_key(|index| self.at(*index).is_some_and(Open::is_in_trouble));
        order
    }

    /// A lane that failed and has rested.
    pub(super) fn rested(&self) -> Option<usize> {
        self.lanes.iter().position(|open| !open.is_spent() && open.has_rested())
    }

    pub(super) fn are_spent(&self) -> bool {
        self.lanes.iter().all(Open::is_spent)
    }

    /// How long one lane is waited for.
    fn patience(&self) -> Duration {
        let several = self.lanes.iter().filter(|open| !open.is_spent()).count() > 1;
        Duration::from_millis(if several { FETCH_MS_MAX_OF_SEVERAL } else { FETCH_MS_MAX })
    }

    /// Fetches a range from one lane that holds `count` of its numbers, or fewer at the end of its sequence.
    pub(super) async fn fetch(
        &self,
        index: usize,
        count: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let Some(open) = self.at(index) else { return Err(spent("no such lane")) };
        let fetched = open.fetch(count, key, self.patience()).await;
        match &fetched {
            Ok(_) => *open.state() = State::default(),
            Err(error) if error.kind() == StoreErrorKind::Spent => open.spent.store(true, Ordering::Release),
            Err(error) => open.fail(error),
        }
        fetched
    }

    /// How often the sequence of a lane has been raised; `None` if its store does not say just now.
    pub(super) async fn raises(&self, index: usize) -> Option<u64> {
        let lane = &self.at(index)?.lane;
        let answer = timeout(self.patience(), lane.store.sequence(&lane.sequence.name)).await;
        answer.ok()?.ok()?.map(|row| raises(row.version))
    }

    /// How each store stands.
    pub(super) fn health(&self) -> Vec<StoreHealth> {
        let health = |open: &Open| {
            let trouble = open.state().trouble.clone();
            StoreHealth::new(open.lane.name.clone(), trouble, open.is_spent())
        };
        self.lanes.iter().map(health).collect()
    }
}

impl Open {
    pub(super) fn stride(&self) -> Stride {
        self.lane.stride
    }

    pub(super) fn store(&self) -> &dyn RangeStore {
        self.lane.store.as_ref()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.spent.store(true, Ordering::Release);
    }

    /// A range went back whole: the store stands below its end again, and has numbers.
    pub(super) fn was_given_back(&self, range: &IdRange) {
        // Where another fetch came in between, the store took nothing back.
        let _ = self.floor.compare_exchange(range.end, range.start, Ordering::AcqRel, Ordering::Acquire);
        self.spent.store(false, Ordering::Release);
    }

    fn is_in_trouble(&self) -> bool {
        self.state().trouble.is_some()
    }

    fn has_rested(&self) -> bool {
        self.state().rests_until.is_some_and(|until| until <= tokio::time::Instant::now())
    }

    fn fail(&self, error: &StoreError) {
        let mut state = self.state();
        // The error itself goes to whoever asked; this one is for the health.
        state.trouble = Some(Arc::new(StoreError::new(error.kind(), error.to_string())));
        state.rests_until = Some(tokio::time::Instant::now() + REST);
    }

    async fn fetch(
        &self,
        count: NonZeroU32,
        key: Option<&IdempotencyKey>,
        patience: Duration,
    ) -> Result<IdRange, StoreError> {
        let len = count.saturating_mul(NonZeroU32::new(self.lane.stride.step).unwrap_or(NonZeroU32::MIN));
        let mut sequence = self.lane.sequence.clone();
        // As it stands before the request: another one may be on its way.
        sequence.floor = self.floor.load(Ordering::Acquire);
        let answer = timeout(patience, self.lane.store.allocate(&sequence, len, key)).await;
        let range = answer.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!(
                    "the store has not answered within {} ms: see whether it is up and reachable",
                    patience.as_millis()
                ),
            ))
        })?;
        admit(&range, &sequence, len)?;
        self.floor.fetch_max(range.end, Ordering::AcqRel);
        if self.lane.stride.first_from(range.start) >= range.end {
            return Err(spent(&sequence.name));
        }
        if range.end >= RANGE_END {
            self.end();
        }
        Ok(range)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spent(sequence: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Spent,
        format!("sequence {sequence} has no number of this stride left below 2^63: plan a new one"),
    )
}

/// Believes no store blindly: a range that was ours before, or is none, must not be spent.
fn admit(range: &IdRange, sequence: &Sequence, len: NonZeroU32) -> Result<(), StoreError> {
    let Sequence { name, floor, .. } = sequence;
    let IdRange { start, end, .. } = range;
    if range.sequence != *name || start >= end || *end > RANGE_END || range.count() > u64::from(len.get()) {
        return Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "asked for {len} numbers of sequence {name}, the store answered {start}..{end} of {}: it breaks the \
                 contract of a range store, use another",
                range.sequence
            ),
        ));
    }
    if start < floor {
        return Err(StoreError::new(
            StoreErrorKind::RolledBack,
            format!(
                "sequence {name}: the store answered {start}..{end}, but {} was handed out already: it was emptied or \
                 restored. Raise the sequence above every number in use or held by a running process, then start again",
                floor - 1
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_one_step_share_nothing_and_leave_nothing_out() {
        for step in [1, 2, 3, 7, 1_000] {
            let strides: Vec<Stride> =
                (1..=step).map(|offset| Stride::new(step, offset).ok()).collect::<Option<_>>().unwrap_or_default();
            assert_eq!(strides.len(), step as usize);
            for number in (0..3_000).chain(RANGE_END - 2_000..RANGE_END) {
                let owners: Vec<_> = strides.iter().filter(|stride| stride.first_from(number) == number).collect();
                assert_eq!(owners.len(), 1, "{number} of {step}");
            }
            for stride in strides {
                assert_eq!(stride.first_from(1), u64::from(stride.offset()));
            }
        }
        assert_eq!(Stride::EVERY.first_from(0), 0);
    }

    #[test]
    fn impossible_strides_are_refused() {
        for (step, offset) in [(0, 0), (0, 1), (1, 0), (1, 2), (2, 3), (1_001, 1), (u32::MAX, 1)] {
            assert_eq!(Stride::new(step, offset), Err(SegmentFault::Stride { step, offset }));
        }
    }
}
