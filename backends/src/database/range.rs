//! Ranges on a database server.

use std::num::NonZeroU32;

use async_trait::async_trait;
use mintage_core::{
    IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError,
    protocol::{self, UNLISTED},
};

use super::{
    DatabaseStore, Work,
    error::Fault,
    fits,
    history::{self, Writer},
    read::{self, Row},
    session::Value,
    unlisted,
};
use crate::{
    rules::{self, ANSWERS_KEPT_MS, Answer, corrupt, rolled_back},
    seen::SeenSequence,
    sound::Sound,
};

#[async_trait]
impl RangeStore for DatabaseStore {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        fits("sequence", &sequence.name)?;
        self.transaction(|mut work| async move {
            let made = create(&mut work, sequence).await;
            (work, made)
        })
        .await
    }

    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        fits("sequence", &sequence.name)?;
        self.transaction(|mut work| async move {
            let made = restore(&mut work, sequence).await;
            (work, made)
        })
        .await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        let range = self
            .transaction(|mut work| async move {
                // Asked before the counter is: what others see meanwhile may come after it.
                let seen = self.seen.sequence(&sequence.name);
                let range = allocate(&mut work, sequence, len, key, seen, self.writer()).await;
                (work, range)
            })
            .await?;
        self.seen.saw_range(&range);
        Ok(range)
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        let tail = &tail;
        self.transaction(|mut work| async move {
            let taken = give_back(&mut work, tail, self.writer()).await;
            (work, taken)
        })
        .await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.transaction(|mut work| async move {
            let raised = match sequence.name.as_str() {
                UNLISTED => unlisted::vouch(&mut work).await,
                _ => raise(&mut work, sequence, floor).await,
            };
            (work, raised)
        })
        .await
    }

    async fn stop_all(&self) -> Result<bool, StoreError> {
        self.transaction(|mut work| async move {
            let stopped = unlisted::stop_sequences(&mut work).await;
            (work, stopped.map(|()| true))
        })
        .await
    }

    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        self.transaction(|mut work| async move {
            let names = unlisted::waiting(&mut work).await;
            (work, names)
        })
        .await
    }

    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        self.transaction(|mut work| async move {
            let row = one_sequence(&mut work, name).await;
            (work, row)
        })
        .await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.transaction(|mut work| async move {
            let rows = sequences(&mut work).await;
            (work, rows)
        })
        .await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        if let Some(trouble) = self.history_trouble() {
            return Ok(RangeHistory::lacking(trouble));
        }
        let grants = self.transaction(|mut work| async move {
            let grants = history::of(&mut work, sequence, number).await;
            (work, grants)
        });
        grants.await.map(RangeHistory::of)
    }

    fn history_trouble(&self) -> Option<String> {
        self.history_trouble.get().cloned()
    }
}

/// A sequence's row, locked, and the server it was last used on.
pub(super) struct Counter {
    pub(super) row: SequenceRow,
    pub(super) incarnation: String,
}

impl Counter {
    pub(super) fn read(row: &Row) -> Result<Self, Fault> {
        Ok(Self { row: sequence(row)?, incarnation: read::text(row, "incarnation")? })
    }
}

pub(super) const LOCK: &str =
    "SELECT name, incarnation, last, version FROM mintage_sequence WHERE name = ?1 FOR UPDATE";
pub(super) const INSERT: &str =
    "INSERT INTO mintage_sequence (name, incarnation, last, version) VALUES (?1, ?2, ?3, ?4)";
pub(super) const REPLACE: &str =
    "UPDATE mintage_sequence SET incarnation = ?1, last = ?2, version = ?3 WHERE name = ?4 AND version = ?5";

async fn create(work: &mut Work, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::new_sequence(sequence)?;
    let known = work.session.fetch("SELECT name FROM mintage_sequence WHERE name = ?1", &[(&row.name).into()]).await?;
    if !known.is_empty() {
        return Ok(());
    }
    let moment = work.moment().await?;
    rules::may_be_made(sequence, unlisted::records(work, &moment.incarnation).await?)?;
    insert(work, &row, &moment.incarnation).await
}

/// On somebody's word, whatever the database may have forgotten.
async fn restore(work: &mut Work, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::restored_sequence(sequence)?;
    let moment = work.moment().await?;
    // Whoever declares meanwhile that every sequence has to wait finds this one, or goes first.
    unlisted::records(work, &moment.incarnation).await?;
    insert(work, &row, &moment.incarnation).await
}

async fn insert(work: &mut Work, row: &SequenceRow, incarnation: &str) -> Result<(), Fault> {
    let values = [
        (&row.name).into(),
        incarnation.into(),
        read::signed_before(row.next, "a start")?.into(),
        read::signed(row.version, "a version")?.into(),
    ];
    work.session.insert_if_absent(INSERT, "name", &values).await
}

async fn allocate(
    work: &mut Work,
    sequence: &Sequence,
    len: NonZeroU32,
    key: Option<&IdempotencyKey>,
    seen: SeenSequence,
    writer: Option<Writer<'_>>,
) -> Result<IdRange, Fault> {
    let before = existing(work, sequence).await?;
    let moment = work.moment().await?;
    if before.incarnation != moment.incarnation {
        return Err(another_server(&before, &moment.incarnation).into());
    }
    seen.check(&before.row)?;
    let answer = match key {
        Some(key) => answered(work, sequence, key, moment.now_ms).await?,
        None => None,
    };
    let mut after = before.row.clone();
    let (range, new) = rules::allocate(&mut after, sequence, len, answer.as_ref())?;
    if new {
        replace(work, &before.row, &after, &moment.incarnation).await?;
        if let Some(key) = key {
            remember(work, key, &range, len, moment.now_ms).await?;
        }
        if let Some(writer) = writer {
            history::keep(work, &range, writer, moment.now_ms).await?;
        }
    }
    Ok(range)
}

async fn give_back(work: &mut Work, tail: &IdRange, writer: Option<Writer<'_>>) -> Result<bool, Fault> {
    let Some(before) = locked(work, &tail.sequence).await? else { return Ok(false) };
    let Ok(version) = i64::try_from(tail.version) else { return Ok(false) };
    let moment = work.moment().await?;
    if before.incarnation != moment.incarnation {
        // What the counter has forgotten may lie above this tail.
        return Ok(false);
    }
    let asked_by_key = work
        .session
        .fetch(
            "SELECT version FROM mintage_range_key WHERE sequence = ?1 AND version = ?2",
            &[(&tail.sequence).into(), version.into()],
        )
        .await?;
    if !asked_by_key.is_empty() {
        // A repeat of its key would hand these numbers out a second time.
        return Ok(false);
    }
    let mut after = before.row.clone();
    if !protocol::give_back(&mut after, tail) {
        return Ok(false);
    }
    replace(work, &before.row, &after, &moment.incarnation).await?;
    if writer.is_some() {
        history::shorten(work, tail).await?;
    }
    Ok(true)
}

/// Also says that the counter is right again on the server that answers now.
async fn raise(work: &mut Work, sequence: &Sequence, floor: u64) -> Result<(), Fault> {
    let before = existing(work, sequence).await?;
    let moment = work.moment().await?;
    let mut after = before.row.clone();
    protocol::raise(&mut after, floor)?;
    replace(work, &before.row, &after, &moment.incarnation).await
}

async fn one_sequence(work: &mut Work, name: &str) -> Result<Option<SequenceRow>, Fault> {
    if name == UNLISTED {
        return Ok(None);
    }
    let select = "SELECT name, last, version FROM mintage_sequence WHERE name = ?1";
    work.session.fetch(select, &[name.into()]).await?.first().map(sequence).transpose()
}

async fn sequences(work: &mut Work) -> Result<Vec<SequenceRow>, Fault> {
    let rows = work.session.fetch("SELECT name, last, version FROM mintage_sequence", &[]).await?;
    let mut rows: Vec<SequenceRow> = rows.iter().map(sequence).collect::<Result<_, _>>()?;
    rows.retain(|row| row.name != UNLISTED);
    // Here, because each database sorts by rules of its own.
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

pub(super) fn another_server(before: &Counter, incarnation: &str) -> StoreError {
    if before.incarnation.is_empty() {
        return rules::stopped(&before.row);
    }
    rolled_back(format!(
        "sequence {} was last used on another life of the database server ({} then, {incarnation} now): after a failover or a \
         restore the last ranges may be forgotten. Raise the sequence above every number in use or held by a running process (`mintage sequences raise`), then it goes on",
        before.row.name, before.incarnation
    ))
}

async fn existing(work: &mut Work, sequence: &Sequence) -> Result<Counter, Fault> {
    locked(work, &sequence.name).await?.ok_or_else(|| protocol::lost_sequence(sequence).into())
}

async fn locked(work: &mut Work, name: &str) -> Result<Option<Counter>, Fault> {
    let rows = work.session.fetch(LOCK, &[name.into()]).await?;
    rows.first().map(Counter::read).transpose()
}

fn sequence(row: &Row) -> Result<SequenceRow, Fault> {
    let row = SequenceRow {
        name: read::text(row, "name")?,
        next: read::number_after(row, "last")?,
        version: read::number(row, "version")?,
    };
    row.sound()?;
    Ok(row)
}

/// The values of [`REPLACE`].
pub(super) fn replacement<'a>(
    before: &SequenceRow,
    after: &'a SequenceRow,
    incarnation: &'a str,
) -> Result<[Value<'a>; 5], StoreError> {
    Ok([
        incarnation.into(),
        read::signed_before(after.next, "a number")?.into(),
        read::signed(after.version, "a version")?.into(),
        (&after.name).into(),
        read::signed(before.version, "a version")?.into(),
    ])
}

/// Writes a changed row over the one that was read. The lock alone makes that safe; the version says so once more.
async fn replace(work: &mut Work, before: &SequenceRow, after: &SequenceRow, incarnation: &str) -> Result<(), Fault> {
    let values = replacement(before, after, incarnation)?;
    if work.session.run(REPLACE, &values).await? != 1 {
        return Err(
            corrupt(format!("sequence {} changed while it was locked: restore the database", after.name)).into()
        );
    }
    Ok(())
}

/// What the key was answered with within the last day. Older answers are deleted.
async fn answered(
    work: &mut Work,
    sequence: &Sequence,
    key: &IdempotencyKey,
    now_ms: u64,
) -> Result<Option<Answer>, Fault> {
    let old_ms = read::signed(now_ms.saturating_sub(ANSWERS_KEPT_MS), "a time")?;
    let delete = "DELETE FROM mintage_range_key WHERE sequence = ?1 AND made_ms < ?2";
    work.session.run(delete, &[(&sequence.name).into(), old_ms.into()]).await?;
    let rows = work
        .session
        .fetch(
            "SELECT asked, first, last, version, made_ms FROM mintage_range_key WHERE sequence = ?1 AND request_key = ?2",
            &[(&sequence.name).into(), key.as_str().into()],
        )
        .await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let answer = Answer {
        asked: read::small(row, "asked")?,
        start: read::number(row, "first")?,
        end: read::number_after(row, "last")?,
        version: read::number(row, "version")?,
        made_ms: read::number(row, "made_ms")?,
    };
    answer.sound()?;
    Ok(Some(answer))
}

async fn remember(
    work: &mut Work,
    key: &IdempotencyKey,
    range: &IdRange,
    len: NonZeroU32,
    now_ms: u64,
) -> Result<(), Fault> {
    let values = [
        (&range.sequence).into(),
        key.as_str().into(),
        i64::from(len.get()).into(),
        read::signed(range.start, "a number")?.into(),
        read::signed_before(range.end, "a number")?.into(),
        read::signed(range.version, "a version")?.into(),
        read::signed(now_ms, "a time")?.into(),
    ];
    let insert = "INSERT INTO mintage_range_key (sequence, request_key, asked, first, last, version, made_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    work.session.run(insert, &values).await.map(drop)
}
