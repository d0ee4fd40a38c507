//! Small numbers that people can read out, counted up by a store and spent from memory: the `segment` scheme.
//!
//! The store is asked for a range of numbers at a time; minting takes the next one with one compare-and-swap and talks to
//! nobody. Two ranges are held: one is spent, the other stands by, and when the first has run low one task fetches the next.
//!
//! The invariant: a number is minted at most once. The store never hands out a range twice (`mintage_core::protocol`); a range
//! lives in one process, not in its forked children; each of its numbers is taken by one successful compare-and-swap; and what
//! is given back at the end was made impossible to mint before. Gaps are allowed: a crash loses the ranges that were held.
//!
//! | to find | open |
//! |---|---|
//! | the 20 % at which the next range is fetched | [`SegmentSettings::REFILL_AT`] |
//! | one range and its cursor | `segment/run.rs` |
//! | one store, and the numbers of it that are ours | `segment/lane.rs` |
//! | how many numbers a trip brings | `segment/sizing.rs` |
//! | current, standby, and the switch | `segment/supply.rs` |
//! | the task that fetches, its retries, the give-back | `segment/refill.rs` |
//! | ranges for imports | `segment/take.rs` |

mod lane;
mod refill;
mod run;
mod settings;
mod sizing;
mod supply;
mod take;

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, Bits, Clock, IdScheme, MintError, NumberRun, Order, ParseError, RangeStore, ReadyError, SchemeInfo,
    Sequence, StoreError, StoreErrorKind, SupplyHealth, SystemClock,
};
use tokio::{runtime::Handle, sync::Mutex, time::timeout};

use self::{
    lane::Lanes,
    refill::{Refill, Source},
    settings::RangeSize,
    sizing::Sizing,
    supply::Supply,
};
pub use self::{
    lane::{Lane, Stride},
    settings::{SegmentFault, SegmentSettings},
};
use crate::{Entropy, TextForm, fork::Birth};

/// Ids fit in the 63 bits of a signed integer column.
const ID_BITS: u32 = 63;

/// How long closing may take, in milliseconds: the fetch on its way and the give-back together. An orchestrator that stops
/// a process commonly kills it 10 s later.
const CLOSE_MS_MAX: u64 = 5_000;

/// Numbers that count up, with a store trip only once per range.
///
/// ```
/// # use std::sync::Arc;
/// use mintage_core::{IdScheme, MintError, RangeStore, ReadyError, Sequence};
/// use mintage_schemes::{Segment, SegmentSettings};
///
/// async fn number_ten_orders(store: Arc<dyn RangeStore>) -> Result<(), Box<dyn std::error::Error>> {
///     let orders = Sequence::new("orders", 1);
///     store.create(&orders).await?;
///     let segment = Segment::open(store, orders, SegmentSettings::default()).await?;
///     for _ in 0..10 {
///         let number = loop {
///             match segment.mint() {
///                 Ok(number) => break number,
///                 Err(MintError::Exhausted { .. }) => segment.ready().await?,
///                 Err(error) => return Err(error.into()),
///             }
///         };
///         assert!(number >= 1);
///     }
///     segment.close().await?;
///     Ok(())
/// }
/// ```
///
/// Numbers ascend within one process. Several processes on one sequence interleave by ranges: a number says nothing about
/// when it was made. Over several stores ([`open_over`](Self::open_over)) they ascend within a range only.
///
/// **Tasks.** [`open`](Self::open) spawns one, the refill task, on the runtime it is called on, which must live as long as
/// the segment is used. [`close`](IdScheme::close) ends it; so does dropping the segment, which gives nothing back.
///
/// **When the store fails** minting goes on until the ranges held are used up. Then `mint` says `Exhausted` at once; `ready`
/// waits up to [`SegmentSettings::MAX_WAIT_MS`] and carries the store's error, or fails at once where waiting does not help
/// (the sequence was deleted, the store went back in time). The refill task keeps trying, and the next success is used.
///
/// **After a raise** of the sequence the ranges held are dropped as soon as the segment learns of it: with the next range it
/// fetches, or within a minute where it fetches none. Until then it goes on with what it holds, two ranges at most, or as many
/// as it fetched at the start.
///
/// **After a fork** the child's copy says `Forked` for ever. It fetches nothing, gives nothing back, and its store is never
/// dropped, because connections belong to the parent.
#[derive(Debug)]
pub struct Segment {
    info: SchemeInfo,
    text: TextForm,
    birth: Birth,
    max_wait_ms: u64,
    supply: Arc<Supply>,
    lanes: Arc<Lanes>,
    range_len: Arc<AtomicU32>,
    trip_ms: Arc<AtomicU64>,
    /// Taken by `close`; never there in a reader.
    refill: Mutex<Option<Refill>>,
}

impl Segment {
    /// Fetches the first ranges of `sequence`, which must exist in `store` ([`RangeStore::create`]), and starts the refill
    /// task on the tokio runtime it is called on (with time enabled).
    ///
    /// If the first range comes and a later one does not, it opens with what it has.
    ///
    /// # Errors
    /// `Spent` when the sequence is at its end. Otherwise `Exhausted`, with the store's error as its source: see there what
    /// to do. Nothing else is tried instead.
    pub async fn open(
        store: Arc<dyn RangeStore>,
        sequence: Sequence,
        settings: SegmentSettings,
    ) -> Result<Self, ReadyError> {
        let lane = Lane::new("store", store, sequence);
        Self::open_over(vec![lane], settings, Arc::new(SystemClock), 0).await
    }

    /// The same over one or more stores, each with a stride of its own: their ranges take turns, beginning with number `turn`, and
    /// where one store fails the others go on. `clock` tells how long ranges last, where the settings want to know.
    ///
    /// # Errors
    /// As [`open`](Self::open), where no store brings a range; also for lanes whose numbers would meet.
    pub async fn open_over(
        lanes: Vec<Lane>,
        settings: SegmentSettings,
        clock: Arc<dyn Clock>,
        turn: usize,
    ) -> Result<Self, ReadyError> {
        let runtime = Handle::try_current().map_err(|error| ReadyError::with_source(EMPTY, error))?;
        let birth = Birth::here();
        let lanes = Lanes::new(lanes).map_err(|fault| ReadyError::with_source(MintError::Closed, fault))?;
        let lanes = Arc::new(lanes);
        let sizing = Sizing::new(settings.size, settings.refill_at);
        let (range_len, trip_ms) = (sizing.shared_len(), sizing.shared_trip_ms());
        let dice = settings.seed.map_or(Entropy::os(), Entropy::seeded);
        let mut source = Source { lanes: Arc::clone(&lanes), sizing, clock, turn, dice };
        let first = source.fetch(0).await.map_err(|error| {
            let kind = if error.kind() == StoreErrorKind::Spent { MintError::Spent } else { EMPTY };
            ReadyError::with_source(kind, error)
        })?;
        let supply = Arc::new(Supply::of(first, settings.refill_at));
        for _ in 1..settings.initial_ranges {
            if supply.is_spent() || !supply.stock(source.fetch(0).await) {
                break;
            }
        }
        let refill = Refill::spawn(&runtime, Arc::clone(&supply), source, birth);
        let order = if lanes.len() == 1 { Order::Minter } else { Order::Chance };
        Ok(Self {
            info: info(order),
            text: settings.text,
            birth,
            max_wait_ms: settings.max_wait_ms,
            supply,
            lanes,
            range_len,
            trip_ms,
            refill: Mutex::new(Some(refill)),
        })
    }

    /// One that reads and writes ids but mints none, and needs no store: `mint` says `Closed`.
    pub fn reader(text: TextForm) -> Self {
        Self {
            info: info(Order::Minter),
            text,
            birth: Birth::here(),
            max_wait_ms: 0,
            supply: Arc::new(Supply::none()),
            lanes: Arc::default(),
            range_len: Arc::default(),
            trip_ms: Arc::default(),
            refill: Mutex::new(None),
        }
    }

    /// Whether a mint would succeed, or what it would say.
    fn outlook(&self) -> Result<(), MintError> {
        if self.birth.forked() { Err(MintError::Forked) } else { self.supply.outlook() }
    }

    /// Whether the store may be asked.
    fn outlook_of_store(&self) -> Result<(), MintError> {
        match self.outlook() {
            Err(kind @ (MintError::Forked | MintError::Closed)) => Err(kind),
            _ => Ok(()),
        }
    }

    /// How many numbers can be minted without the store. A moment's view: others mint meanwhile.
    pub fn remaining(&self) -> u64 {
        self.supply.remaining()
    }

    /// How many ranges were fetched since the start, the first ones included.
    pub fn refills(&self) -> u64 {
        self.supply.refills()
    }

    /// Why the last fetch failed; `None` once one has succeeded again.
    pub fn last_error(&self) -> Option<Arc<StoreError>> {
        self.supply.trouble()
    }
}

#[async_trait]
impl IdScheme for Segment {
    type Bits = u64;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    #[inline]
    fn mint(&self) -> Result<u64, MintError> {
        if self.birth.forked() {
            return Err(MintError::Forked);
        }
        self.supply.take(1)?.smallest().ok_or(EMPTY)
    }

    fn mint_batch(&self, out: &mut [u64]) -> Result<usize, MintError> {
        if self.birth.forked() {
            return Err(MintError::Forked);
        }
        let mut made = 0;
        while let Some(rest @ [_, ..]) = out.get_mut(made..) {
            match self.supply.take(rest.len() as u64) {
                Ok(numbers) => {
                    for (slot, number) in rest.iter_mut().zip(numbers) {
                        *slot = number;
                        made += 1;
                    }
                }
                Err(error) if made == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(made)
    }

    async fn ready(&self) -> Result<(), ReadyError> {
        match self.outlook() {
            Ok(()) => return Ok(()),
            Err(MintError::Exhausted { .. }) => {}
            Err(kind) => return Err(self.supply.complaint(kind)),
        }
        let waited = timeout(Duration::from_millis(self.max_wait_ms), self.supply.wait()).await;
        waited.unwrap_or_else(|_| self.outlook().map_err(|kind| self.supply.complaint(kind)))
    }

    fn format(&self, bits: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        self.text.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.text.parse(text, ID_BITS)
    }

    fn anatomy(&self, bits: u64) -> Anatomy {
        Anatomy::number(bits)
    }

    async fn take_range(&self, count: NonZeroU32) -> Result<NumberRun, ReadyError> {
        self.outlook_of_store()?;
        take::take(&self.lanes, count, Duration::from_millis(self.max_wait_ms)).await
    }

    fn supply(&self) -> Option<SupplyHealth> {
        let range_len = self.range_len.load(Ordering::Relaxed);
        let health = SupplyHealth::new(self.remaining(), range_len, self.lanes.health());
        Some(health.with_trip_ms(self.trip_ms.load(Ordering::Relaxed)))
    }

    /// Makes minting impossible, awaits the refill task, and gives the unused end of the ranges back in one attempt.
    /// All within 5 seconds, on a tokio runtime.
    async fn close(&self) -> Result<(), ReadyError> {
        if self.birth.forked() {
            return Ok(());
        }
        let mut slot = self.refill.lock().await;
        let Some(refill) = slot.take() else { return Ok(()) };
        let tails = self.supply.seal();
        let finished = timeout(Duration::from_millis(CLOSE_MS_MAX), refill.finish(tails, &self.birth)).await;
        let told = finished.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!("the store took no range back within {CLOSE_MS_MAX} ms: its unused numbers become a gap"),
            ))
        });
        told.map_err(|error| ReadyError::with_source(MintError::Closed, error))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.birth.forked() {
            // The task and the store's connections are the parent's: touch neither.
            std::mem::forget((self.refill.get_mut().take(), Arc::clone(&self.lanes)));
        }
    }
}

fn info(order: Order) -> SchemeInfo {
    SchemeInfo::new("segment", Bits::Int, ID_BITS).ordered(order)
}

/// Nothing came, and nothing is known about when something will.
const EMPTY: MintError = MintError::Exhausted { retry_ms: 0 };
