//! Several worker ids in one process: one scheme that mints by the first of them that has room.
//!
//! Each lane is a scheme of its own with a lease of its own, so uniqueness is what it is for one. In a full unit the next lane
//! goes on, and ids are ordered by time unit only.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use async_trait::async_trait;
use mintage_core::{Anatomy, AnyScheme, IdBits, IdScheme, MintError, Order, Pace, ParseError, ReadyError, SchemeInfo};

/// Schemes that differ in their worker id only.
#[derive(Debug)]
struct Lanes<B: IdBits> {
    info: SchemeInfo,
    first: Arc<dyn IdScheme<Bits = B>>,
    others: Vec<Arc<dyn IdScheme<Bits = B>>>,
    /// The lane that had room last.
    current: AtomicUsize,
}

/// One scheme for all of `lanes`; `None` if there is none, or their widths differ.
pub(crate) fn join(lanes: Vec<AnyScheme>) -> Option<AnyScheme> {
    let mut lanes = lanes.into_iter();
    let first = lanes.next()?;
    if lanes.len() == 0 {
        return Some(first);
    }
    Some(match first {
        AnyScheme::Int(first) => {
            let others = lanes.map(|lane| if let AnyScheme::Int(lane) = lane { Some(lane) } else { None });
            AnyScheme::Int(Arc::new(Lanes::new(first, others.collect::<Option<_>>()?)))
        }
        AnyScheme::Wide(first) => {
            let others = lanes.map(|lane| if let AnyScheme::Wide(lane) = lane { Some(lane) } else { None });
            AnyScheme::Wide(Arc::new(Lanes::new(first, others.collect::<Option<_>>()?)))
        }
        AnyScheme::Long(first) => {
            let others = lanes.map(|lane| if let AnyScheme::Long(lane) = lane { Some(lane) } else { None });
            AnyScheme::Long(Arc::new(Lanes::new(first, others.collect::<Option<_>>()?)))
        }
        _ => return None,
    })
}

impl<B: IdBits> Lanes<B> {
    fn new(first: Arc<dyn IdScheme<Bits = B>>, others: Vec<Arc<dyn IdScheme<Bits = B>>>) -> Self {
        let mut info = first.info().clone();
        if matches!(info.order, Order::Minter | Order::Thread) {
            info.order = Order::Time;
        }
        Self { info, first, others, current: AtomicUsize::new(0) }
    }

    fn count(&self) -> usize {
        self.others.len() + 1
    }

    fn lane(&self, number: usize) -> &Arc<dyn IdScheme<Bits = B>> {
        number.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.first)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn IdScheme<Bits = B>>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Asks the lane that had room last, then the others in turn. Where all refuse: the refusal that ends soonest.
    #[inline]
    fn by_turns<T>(
        &self,
        mut ask: impl FnMut(&dyn IdScheme<Bits = B>) -> Result<T, MintError>,
    ) -> Result<T, MintError> {
        let start = self.current.load(Ordering::Relaxed);
        let mut refusal: Option<MintError> = None;
        for step in 0..self.count() {
            let number = (start + step) % self.count();
            match ask(&**self.lane(number)) {
                Ok(made) => {
                    if step > 0 {
                        self.current.store(number, Ordering::Relaxed);
                    }
                    return Ok(made);
                }
                Err(error) => refusal = Some(refusal.map_or(error, |other| sooner(other, error))),
            }
        }
        Err(refusal.unwrap_or(MintError::Closed))
    }
}

/// Of two refusals the one that is over first: a full unit passes, other things may last.
fn sooner(one: MintError, other: MintError) -> MintError {
    match (one, other) {
        (MintError::Exhausted { retry_ms: one }, MintError::Exhausted { retry_ms: other }) => {
            MintError::Exhausted { retry_ms: one.min(other) }
        }
        (MintError::Exhausted { .. }, _) => one,
        (_, MintError::Exhausted { .. }) => other,
        _ => one,
    }
}

#[async_trait]
impl<B: IdBits> IdScheme for Lanes<B> {
    type Bits = B;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    fn mint(&self) -> Result<B, MintError> {
        self.by_turns(|lane| lane.mint())
    }

    fn mint_batch(&self, out: &mut [B]) -> Result<usize, MintError> {
        if out.is_empty() {
            return Ok(0);
        }
        self.by_turns(|lane| lane.mint_batch(out))
    }

    /// As soon as one lane is ready.
    async fn ready(&self) -> Result<(), ReadyError> {
        let mut waiting: Vec<Pin<Box<dyn Future<Output = Result<(), ReadyError>> + Send + '_>>> =
            self.all().map(|lane| lane.ready()).collect();
        poll_fn(|context| {
            let mut last = None;
            waiting.retain_mut(|wait| match (&last, wait.as_mut().poll(context)) {
                (Some(Ok(())), _) | (_, Poll::Pending) => true,
                (_, Poll::Ready(answer)) => {
                    last = Some(answer);
                    false
                }
            });
            match last {
                Some(Ok(())) => Poll::Ready(Ok(())),
                Some(Err(error)) if waiting.is_empty() => Poll::Ready(Err(error)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    fn format(&self, bits: B, out: &mut dyn fmt::Write) -> fmt::Result {
        self.first.format(bits, out)
    }

    fn parse(&self, text: &str) -> Result<B, ParseError> {
        self.first.parse(text)
    }

    fn anatomy(&self, bits: B) -> Anatomy {
        self.first.anatomy(bits)
    }

    fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(B, B)> {
        self.first.range_at(from_ms, to_ms)
    }

    fn runs_out(&self) -> Option<i64> {
        self.first.runs_out()
    }

    fn pace(&self) -> Option<Pace> {
        self.all().filter_map(|lane| lane.pace()).reduce(Pace::beside)
    }

    async fn close(&self) -> Result<(), ReadyError> {
        let mut first_error = None;
        for lane in self.all() {
            first_error = first_error.or(lane.close().await.err());
        }
        first_error.map_or(Ok(()), Err)
    }
}
