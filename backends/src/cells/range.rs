//! Ranges: a record for each sequence, and the answers to idempotency keys beside it.

use std::{collections::BTreeSet, num::NonZeroU32};

use async_trait::async_trait;
use mintage_core::{
    IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError,
    protocol::{self, UNLISTED},
};

use super::{
    CellStore, Cells, history,
    record::{
        Answers, BUCKET_LEN_MAX, Counter, Names, REGISTRY, Registry, SEQUENCES, answers_key, ranges_key, sequence_key,
    },
    work::{Fault, Work},
};
use crate::{
    rules::{self, ANSWERS_KEPT_MS, Answer, Records, refused, rolled_back},
    seen::SeenSequence,
    wait::Backoff,
};

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

    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[sequence_key(&sequence.name), SEQUENCES.to_owned()]).await?;
                let answer = restore(&mut work, sequence);
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
                let seen = self.seen.sequence(&sequence.name);
                let mut work = self.begin(&keys).await?;
                let answer = match allocate(&mut work, sequence, len, key, seen) {
                    Ok((range, true)) => history::keep(&mut work, &range, &self.instance).await.map(|()| range),
                    Ok((range, false)) => Ok(range),
                    Err(fault) => Err(fault),
                };
                if let Some(range) = work.settle(answer, &mut backoff).await? {
                    self.seen.saw_range(&range);
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
                let answer = match sequence.name.as_str() {
                    UNLISTED => vouch(&mut work),
                    _ => raise(&mut work, sequence, floor),
                };
                if let Some(done) = work.settle(answer, &mut backoff).await? {
                    return Ok(done);
                }
            }
        })
        .await
    }

    async fn stop_all(&self) -> Result<bool, StoreError> {
        self.begin_new_life().await.map(|()| true)
    }

    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[SEQUENCES.to_owned()]).await?;
            let counters = counters(&mut work).await?;
            // Records of before it was thought of are looked at when they are opened to mint.
            let is_known = registry(&work)?.complete_in.is_some();
            let unlisted = (is_known && work.records == Records::Unsure).then(|| UNLISTED.to_owned());
            let stopped = counters.into_iter().filter(|counter| counter.life != work.life);
            Ok(unlisted.into_iter().chain(stopped.map(|counter| counter.row.name)).collect())
        })
        .await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.read(async {
            let mut work = self.begin(&[SEQUENCES.to_owned()]).await?;
            Ok(counters(&mut work).await?.into_iter().map(|counter| counter.row).collect())
        })
        .await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.read(async { history::of(&mut self.begin(&[]).await?, sequence, number).await }).await
    }
}

impl<C: Cells> CellStore<C> {
    /// An operator declares that the store may have forgotten: it begins a new life. Its pools are bumped when they are used next,
    /// its sequences wait to be raised, and nothing is made that may have been forgotten.
    pub(super) async fn begin_new_life(&self) -> Result<(), StoreError> {
        self.write(async {
            let mut backoff = Backoff::default();
            loop {
                let mut work = self.begin(&[]).await?;
                let mut registry = registry(&work)?;
                registry.bumps += 1;
                registry.bumped_ms = Some(work.now_ms);
                registry.bumped_in = Some(work.server_life.clone());
                // Records of before it was thought of: it is not to be taken for this life later.
                registry.complete_in.get_or_insert_default();
                work.put(REGISTRY.to_owned(), &registry);
                if work.settle(Ok(()), &mut backoff).await?.is_some() {
                    return Ok(());
                }
            }
        })
        .await
    }
}

/// Records of before the registry said in which life the store was complete: it was in the life that all its sequences name.
pub(super) async fn complete_of_old<C: Cells>(store: &CellStore<C>) -> Result<(), StoreError> {
    let mut backoff = Backoff::default();
    loop {
        let mut work = store.begin(&[SEQUENCES.to_owned()]).await?;
        let mut registry = registry(&work)?;
        if registry.complete_in.is_some() {
            return Ok(());
        }
        let lives: BTreeSet<String> = counters(&mut work).await?.into_iter().map(|counter| counter.life).collect();
        let mut lives = lives.into_iter();
        registry.complete_in = match (lives.next(), lives.next()) {
            (None, _) if registry.bumps == 0 => Some(work.life.clone()),
            (Some(life), None) => Some(life),
            // Somebody has to look.
            (None | Some(_), _) => Some(String::new()),
        };
        work.put(REGISTRY.to_owned(), &registry);
        if work.settle(Ok(()), &mut backoff).await?.is_some() {
            return Ok(());
        }
    }
}

async fn counters<C: Cells>(work: &mut Work<'_, C>) -> Result<Vec<Counter>, StoreError> {
    let names = work.record::<Names>(SEQUENCES)?.unwrap_or_default().names;
    work.load(names.iter().map(|name| sequence_key(name))).await?;
    let counters = names.iter().map(|name| work.record::<Counter>(&sequence_key(name)));
    counters.filter_map(Result::transpose).collect()
}

fn registry<C: Cells>(work: &Work<'_, C>) -> Result<Registry, StoreError> {
    work.record(REGISTRY)?.ok_or_else(|| rolled_back("Mintage's records are gone: restore the store".to_owned()))
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
    rules::may_be_made(sequence, work.records)?;
    put_new(work, &names, row);
    Ok(())
}

/// On somebody's word, whatever the store may have forgotten.
fn restore<C: Cells>(work: &mut Work<'_, C>, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::restored_sequence(sequence)?;
    if work.record::<Counter>(&sequence_key(&sequence.name))?.is_some() {
        return Ok(());
    }
    let mut names: Names = work.record(SEQUENCES)?.unwrap_or_default();
    names.names.insert(sequence.name.clone());
    put_new(work, &names, row);
    Ok(())
}

fn put_new<C: Cells>(work: &mut Work<'_, C>, names: &Names, row: SequenceRow) {
    let key = sequence_key(&row.name);
    let counter = Counter { row, life: work.life.clone(), keyed: false };
    work.put(SEQUENCES.to_owned(), names);
    work.put(key, &counter);
}

/// Somebody has looked: nothing that is not there is in use.
fn vouch<C: Cells>(work: &mut Work<'_, C>) -> Result<(), Fault> {
    let mut registry = registry(work)?;
    registry.complete_in = Some(work.life.clone());
    registry.complete_since_ms = work.now_ms.max(work.began_ms());
    work.put(REGISTRY.to_owned(), &registry);
    Ok(())
}

/// Cuts a range, or repeats the one that the key has got already; says whether it is a new one.
fn allocate<C: Cells>(
    work: &mut Work<'_, C>,
    sequence: &Sequence,
    len: NonZeroU32,
    key: Option<&IdempotencyKey>,
    seen: SeenSequence,
) -> Result<(IdRange, bool), Fault> {
    let mut counter = counter(work, sequence)?;
    in_this_life(work, &counter)?;
    seen.check(&counter.row)?;
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
    counter.life.clone_from(&work.life);
    counter.keyed = false;
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
        "sequence {} stands at {}, but the store was restarted, failed over or bumped since it was counted last, and may have \
         forgotten ranges. Raise the sequence above every number in use or held by a running process \
         (`mintage sequences raise {} N`), then it goes on",
        counter.row.name, counter.row.next, counter.row.name
    )))
}
