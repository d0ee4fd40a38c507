//! Ranges: a record for each sequence, and the answers to idempotency keys beside it.

use std::num::NonZeroU32;

use async_trait::async_trait;
use mintage_core::{IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError, protocol};

use super::{
    CellStore, Cells, history,
    record::{Answers, BUCKET_LEN_MAX, Counter, Names, SEQUENCES, answers_key, ranges_key, sequence_key},
    work::{Fault, Work},
};
use crate::{
    rules::{self, ANSWERS_KEPT_MS, Answer, refused, rolled_back},
    wait::Backoff,
};

/// How far a sequence's version jumps when it is raised in a new life of the store: past all that can have been counted and
/// forgotten, so that no range of before looks like the latest.
const VERSIONS_LOST_MAX: u64 = 1 << 32;

#[async_trait]
impl<C: Cells> RangeStore for CellStore<C> {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[sequence_key(&sequence.name), SEQUENCES.to_owned()]).await?;
                let answer = create(&mut work, sequence);
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        self.write(async {
            let mut keys = vec![sequence_key(&sequence.name), ranges_key(&sequence.name)];
            keys.extend(key.map(|key| answers_key(&sequence.name, key.as_str())));
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&keys).await?;
                let answer = match allocate(&mut work, sequence, len, key) {
                    Ok((range, true)) => history::keep(&mut work, &range, &self.instance).await.map(|()| range),
                    Ok((range, false)) => Ok(range),
                    Err(fault) => Err(fault),
                };
                if let Some(range) = work.settle(answer, &mut backoff).await? {
                    return Ok(range);
                }
            }
        })
        .await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[sequence_key(&tail.sequence), ranges_key(&tail.sequence)]).await?;
                let answer = give_back(&mut work, &tail).await;
                if let Some(taken) = work.settle(answer, &mut backoff).await? {
                    return Ok(taken);
                }
            }
        })
        .await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[sequence_key(&sequence.name)]).await?;
                let answer = raise(&mut work, sequence, floor);
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[SEQUENCES.to_owned()]).await?;
            let names = work.record::<Names>(SEQUENCES)?.unwrap_or_default().names;
            work.load(names.iter().map(|name| sequence_key(name))).await?;
            let rows = names.iter().map(|name| work.record::<Counter>(&sequence_key(name)));
            rows.filter_map(Result::transpose).map(|counter| counter.map(|counter| counter.row)).collect()
        })
        .await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.read(async { history::of(&mut self.begin(&[]).await?, sequence, number).await }).await
    }
}

fn create<C: Cells>(work: &mut Work<'_, C>, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::new_sequence(sequence)?;
    let key = sequence_key(&sequence.name);
    if work.record::<Counter>(&key)?.is_some() {
        return Ok(());
    }
    let mut names: Names = work.record(SEQUENCES)?.unwrap_or_default();
    if !names.names.insert(sequence.name.clone()) {
        return Err(Fault::Said(rolled_back(format!(
            "sequence {} was deleted from the store. It is not made again by itself, because its numbers would repeat: \
             restore it with its next number above every number in use",
            sequence.name
        ))));
    }
    let counter = Counter { row, life: work.life.clone(), keyed: false };
    work.put(SEQUENCES.to_owned(), &names);
    work.put(key, &counter);
    Ok(())
}

/// Cuts a range, or repeats the one that the key has got already; says whether it is a new one.
fn allocate<C: Cells>(
    work: &mut Work<'_, C>,
    sequence: &Sequence,
    len: NonZeroU32,
    key: Option<&IdempotencyKey>,
) -> Result<(IdRange, bool), Fault> {
    let mut counter = counter(work, sequence)?;
    in_this_life(work, &counter)?;
    let Some(key) = key else {
        let cut = rules::allocate(&mut counter.row, sequence, len, None)?;
        counter.keyed = false;
        work.put(sequence_key(&sequence.name), &counter);
        return Ok(cut);
    };
    let bucket = answers_key(&sequence.name, key.as_str());
    let Answers { mut answers } = work.record(&bucket)?.unwrap_or_default();
    let now_ms = work.now_ms;
    answers.retain(|_, answer: &mut Answer| answer.made_ms.saturating_add(ANSWERS_KEPT_MS) >= now_ms);
    let (range, new) = rules::allocate(&mut counter.row, sequence, len, answers.get(key.as_str()))?;
    if !new {
        return Ok((range, false));
    }
    if answers.len() >= BUCKET_LEN_MAX {
        return Err(Fault::Said(refused(format!(
            "sequence {}: too many idempotency keys came within a day, about 16,000 are kept here: use an SQL store",
            sequence.name
        ))));
    }
    let answer =
        Answer { asked: len.get(), start: range.start, end: range.end, version: range.version, made_ms: now_ms };
    answers.insert(key.as_str().to_owned(), answer);
    counter.keyed = true;
    work.put(bucket, &Answers { answers });
    work.put(sequence_key(&sequence.name), &counter);
    Ok((range, true))
}

async fn give_back<C: Cells>(work: &mut Work<'_, C>, tail: &IdRange) -> Result<bool, Fault> {
    let key = sequence_key(&tail.sequence);
    let Some(mut counter) = work.record::<Counter>(&key)? else { return Ok(false) };
    // A repeat of its key would hand these numbers out a second time.
    let latest_is_keyed = counter.keyed && counter.row.version == tail.version;
    if counter.life != work.life || latest_is_keyed || !protocol::give_back(&mut counter.row, tail) {
        return Ok(false);
    }
    counter.keyed = false;
    work.put(key, &counter);
    history::shorten(work, tail).await?;
    Ok(true)
}

fn raise<C: Cells>(work: &mut Work<'_, C>, sequence: &Sequence, floor: u64) -> Result<(), Fault> {
    let mut counter = counter(work, sequence)?;
    protocol::raise(&mut counter.row, floor)?;
    counter.keyed = false;
    if counter.life != work.life {
        counter.life.clone_from(&work.life);
        counter.row.version = counter.row.version.saturating_add(VERSIONS_LOST_MAX);
    }
    work.put(sequence_key(&sequence.name), &counter);
    Ok(())
}

fn counter<C: Cells>(work: &Work<'_, C>, sequence: &Sequence) -> Result<Counter, StoreError> {
    let counter: Option<Counter> = work.record(&sequence_key(&sequence.name))?;
    counter.ok_or_else(|| protocol::lost_sequence(sequence))
}

/// Refuses to go on counting in a life of the store in which the latest ranges may be forgotten.
fn in_this_life<C: Cells>(work: &Work<'_, C>, counter: &Counter) -> Result<(), StoreError> {
    if counter.life == work.life {
        return Ok(());
    }
    Err(rolled_back(format!(
        "sequence {} stands at {}, but the store was restarted or failed over since it was counted last, and may have forgotten \
         ranges. Raise the sequence above every number in use or held by a running process, then it goes on",
        counter.row.name, counter.row.next
    )))
}
