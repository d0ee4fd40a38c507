//! Ranges in SQLite.

use std::num::NonZeroU32;

use async_trait::async_trait;
use mintage_core::{IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError, protocol};
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::{READ, SqliteStore, WRITE, error::Fault, history, read};
use crate::{
    rules::{self, ANSWERS_KEPT_MS, Answer, corrupt},
    sound::Sound,
};

#[async_trait]
impl RangeStore for SqliteStore {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let made = create(&mut work.conn, sequence).await;
            work.end(made).await
        })
        .await
    }

    async fn allocate(
        &self,
        sequence: &Sequence,
        len: NonZeroU32,
        key: Option<&IdempotencyKey>,
    ) -> Result<IdRange, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let range = allocate(&mut work.conn, sequence, len, key, self.writer(), work.now_ms).await;
            work.end(range).await
        })
        .await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let taken = give_back(&mut work.conn, &tail, self.keeps_history).await;
            work.end(taken).await
        })
        .await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let raised = raise(&mut work.conn, sequence, floor).await;
            work.end(raised).await
        })
        .await
    }

    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let row = sequence_row(&mut work.conn, name).await;
            work.end(row).await
        })
        .await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = sequences(&mut work.conn).await;
            work.end(rows).await
        })
        .await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let history = history::of(&mut work.conn, sequence, number).await;
            work.end(history).await
        })
        .await
    }
}

impl SqliteStore {
    /// Under which name ranges are written into the history, if there is one.
    fn writer(&self) -> Option<&str> {
        self.keeps_history.then_some(self.instance.as_str())
    }
}

pub(super) async fn create(conn: &mut SqliteConnection, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::new_sequence(sequence)?;
    sqlx::query("INSERT INTO mintage_sequence (name, last, version) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING")
        .bind(&row.name)
        .bind(read::signed_before(row.next, "a start")?)
        .bind(read::signed(row.version, "a version")?)
        .execute(conn)
        .await?;
    Ok(())
}

async fn allocate(
    conn: &mut SqliteConnection,
    sequence: &Sequence,
    len: NonZeroU32,
    key: Option<&IdempotencyKey>,
    writer: Option<&str>,
    now_ms: u64,
) -> Result<IdRange, Fault> {
    let before = existing(conn, sequence).await?;
    let answer = match key {
        Some(key) => answered(conn, sequence, key, now_ms).await?,
        None => None,
    };
    let mut after = before.clone();
    let (range, new) = rules::allocate(&mut after, sequence, len, answer.as_ref())?;
    if new {
        replace(conn, &before, &after).await?;
        if let Some(key) = key {
            remember(conn, key, &range, len, now_ms).await?;
        }
        if let Some(instance) = writer {
            history::keep(conn, &range, instance, now_ms).await?;
        }
    }
    Ok(range)
}

async fn give_back(conn: &mut SqliteConnection, tail: &IdRange, keeps_history: bool) -> Result<bool, Fault> {
    let Some(before) = sequence_row(conn, &tail.sequence).await? else { return Ok(false) };
    let Ok(version) = i64::try_from(tail.version) else { return Ok(false) };
    let asked_by_key: i64 =
        sqlx::query_scalar("SELECT count(*) FROM mintage_range_key WHERE sequence = ? AND version = ?")
            .bind(&tail.sequence)
            .bind(version)
            .fetch_one(&mut *conn)
            .await?;
    if asked_by_key > 0 {
        // A repeat of its key would hand these numbers out a second time.
        return Ok(false);
    }
    let mut after = before.clone();
    if !protocol::give_back(&mut after, tail) {
        return Ok(false);
    }
    replace(conn, &before, &after).await?;
    if keeps_history {
        history::shorten(conn, tail).await?;
    }
    Ok(true)
}

async fn raise(conn: &mut SqliteConnection, sequence: &Sequence, floor: u64) -> Result<(), Fault> {
    let before = existing(conn, sequence).await?;
    let mut after = before.clone();
    protocol::raise(&mut after, floor)?;
    if after != before {
        replace(conn, &before, &after).await?;
    }
    Ok(())
}

async fn sequences(conn: &mut SqliteConnection) -> Result<Vec<SequenceRow>, Fault> {
    let rows = sqlx::query("SELECT name, last, version FROM mintage_sequence ORDER BY name").fetch_all(conn).await?;
    rows.iter().map(sequence).collect()
}

async fn existing(conn: &mut SqliteConnection, sequence: &Sequence) -> Result<SequenceRow, Fault> {
    sequence_row(conn, &sequence.name).await?.ok_or_else(|| protocol::lost_sequence(sequence).into())
}

pub(super) async fn sequence_row(conn: &mut SqliteConnection, name: &str) -> Result<Option<SequenceRow>, Fault> {
    let row = sqlx::query("SELECT name, last, version FROM mintage_sequence WHERE name = ?")
        .bind(name)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(sequence).transpose()
}

fn sequence(row: &SqliteRow) -> Result<SequenceRow, Fault> {
    let row = SequenceRow {
        name: read::text(row, "name")?,
        next: read::number_after(row, "last")?,
        version: read::number(row, "version")?,
    };
    row.sound()?;
    Ok(row)
}

/// Writes a changed row over the one that was read. The transaction alone makes that safe; the version says so once more.
pub(super) async fn replace(
    conn: &mut SqliteConnection,
    before: &SequenceRow,
    after: &SequenceRow,
) -> Result<(), Fault> {
    let written = sqlx::query("UPDATE mintage_sequence SET last = ?, version = ? WHERE name = ? AND version = ?")
        .bind(read::signed_before(after.next, "a number")?)
        .bind(read::signed(after.version, "a version")?)
        .bind(&after.name)
        .bind(read::signed(before.version, "a version")?)
        .execute(conn)
        .await?;
    if written.rows_affected() != 1 {
        let message = format!("sequence {} changed inside a transaction: restore the database", after.name);
        return Err(corrupt(message).into());
    }
    Ok(())
}

/// What the key was answered with within the last day. Older answers are deleted.
async fn answered(
    conn: &mut SqliteConnection,
    sequence: &Sequence,
    key: &IdempotencyKey,
    now_ms: u64,
) -> Result<Option<Answer>, Fault> {
    sqlx::query("DELETE FROM mintage_range_key WHERE made_ms < ?")
        .bind(read::signed(now_ms.saturating_sub(ANSWERS_KEPT_MS), "a time")?)
        .execute(&mut *conn)
        .await?;
    let row = sqlx::query(
        "SELECT asked, first, last, version, made_ms FROM mintage_range_key WHERE sequence = ? AND key = ?",
    )
    .bind(&sequence.name)
    .bind(key.as_str())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let answer = Answer {
        asked: read::small(&row, "asked")?,
        start: read::number(&row, "first")?,
        end: read::number_after(&row, "last")?,
        version: read::number(&row, "version")?,
        made_ms: read::number(&row, "made_ms")?,
    };
    answer.sound()?;
    Ok(Some(answer))
}

async fn remember(
    conn: &mut SqliteConnection,
    key: &IdempotencyKey,
    range: &IdRange,
    len: NonZeroU32,
    now_ms: u64,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO mintage_range_key (sequence, key, asked, first, last, version, made_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&range.sequence)
    .bind(key.as_str())
    .bind(i64::from(len.get()))
    .bind(read::signed(range.start, "a number")?)
    .bind(read::signed_before(range.end, "a number")?)
    .bind(read::signed(range.version, "a version")?)
    .bind(read::signed(now_ms, "a time")?)
    .execute(conn)
    .await?;
    Ok(())
}
