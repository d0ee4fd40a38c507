//! Ranges in SQLite.

use std::{num::NonZeroU32, path::Path};

use async_trait::async_trait;
use mintage_core::{
    IdRange, IdempotencyKey, RangeHistory, RangeStore, Sequence, SequenceRow, StoreError,
    protocol::{self, UNLISTED},
};
use sqlx::sqlite::SqliteRow;

use super::{Conn, READ, SqliteStore, WRITE, error::Fault, history, read, schema, stopped};
use crate::{
    rules::{self, ANSWERS_KEPT_MS, Answer, corrupt},
    seen::SeenSequence,
    sound::Sound,
};

#[async_trait]
impl RangeStore for SqliteStore {
    async fn create(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            // Opened by a reader it may be of an earlier version.
            let path = work.path;
            schema::prepare(&mut work.conn(), path).await.map_err(|fault| fault.at(path))?;
            let made = create(&mut work.conn(), sequence).await;
            work.end(made).await
        })
        .await
    }

    async fn restore(&self, sequence: &Sequence) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let path = work.path;
            schema::prepare(&mut work.conn(), path).await.map_err(|fault| fault.at(path))?;
            let made = restore(&mut work.conn(), sequence).await;
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
            let now_ms = work.now_ms;
            let seen = self.seen.sequence(&sequence.name);
            let range = allocate(&mut work.conn(), sequence, len, key, seen, self.writer(), now_ms).await;
            let range = work.end(range).await?;
            self.seen.saw_range(&range);
            Ok(range)
        })
        .await
    }

    async fn give_back(&self, tail: IdRange) -> Result<bool, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let taken = give_back(&mut work.conn(), &tail, self.keeps_history).await;
            work.end(taken).await
        })
        .await
    }

    async fn raise(&self, sequence: &Sequence, floor: u64) -> Result<(), StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let (path, now_ms) = (work.path, work.now_ms);
            let raised = match sequence.name.as_str() {
                UNLISTED => stopped::vouch(&mut work.conn(), path, now_ms).await,
                _ => raise(&mut work.conn(), path, sequence, floor).await,
            };
            work.end(raised).await
        })
        .await
    }

    async fn stop_all(&self) -> Result<bool, StoreError> {
        self.call(async {
            let mut work = self.begin(WRITE).await?;
            let path = work.path;
            let stopped = stopped::stop_all(&mut work.conn(), path).await;
            work.end(stopped.map(|()| true)).await
        })
        .await
    }

    async fn waiting(&self) -> Result<Vec<String>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let names = stopped::waiting(&mut work.conn()).await;
            work.end(names).await
        })
        .await
    }

    async fn sequence(&self, name: &str) -> Result<Option<SequenceRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let row = sequence_row(&mut work.conn(), name).await;
            work.end(row).await
        })
        .await
    }

    async fn sequences(&self) -> Result<Vec<SequenceRow>, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let rows = sequences(&mut work.conn()).await;
            work.end(rows).await
        })
        .await
    }

    async fn range_history(&self, sequence: &str, number: u64) -> Result<RangeHistory, StoreError> {
        self.call(async {
            let mut work = self.begin(READ).await?;
            let history = history::of(&mut work.conn(), sequence, number).await;
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

pub(super) async fn create(conn: &mut Conn<'_>, sequence: &Sequence) -> Result<(), Fault> {
    let row = protocol::new_sequence(sequence)?;
    if sequence_row(conn, &row.name).await?.is_some() {
        return Ok(());
    }
    rules::may_be_made(sequence, stopped::records(conn).await?)?;
    insert(conn, &row).await
}

/// On somebody's word, whatever the database may have forgotten.
async fn restore(conn: &mut Conn<'_>, sequence: &Sequence) -> Result<(), Fault> {
    insert(conn, &protocol::restored_sequence(sequence)?).await
}

async fn insert(conn: &mut Conn<'_>, row: &SequenceRow) -> Result<(), Fault> {
    conn.query("INSERT INTO mintage_sequence (name, last, version) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING")
        .bind(&row.name)
        .bind(read::signed_before(row.next, "a start")?)
        .bind(read::signed(row.version, "a version")?)
        .execute(&mut *conn.link)
        .await?;
    Ok(())
}

async fn allocate(
    conn: &mut Conn<'_>,
    sequence: &Sequence,
    len: NonZeroU32,
    key: Option<&IdempotencyKey>,
    seen: SeenSequence,
    writer: Option<&str>,
    now_ms: u64,
) -> Result<IdRange, Fault> {
    let before = existing(conn, sequence).await?;
    not_stopped(conn, &before).await?;
    seen.check(&before)?;
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

async fn give_back(conn: &mut Conn<'_>, tail: &IdRange, keeps_history: bool) -> Result<bool, Fault> {
    let Some(before) = sequence_row(conn, &tail.sequence).await? else { return Ok(false) };
    let Ok(version) = i64::try_from(tail.version) else { return Ok(false) };
    let asked_by_key: i64 = conn
        .scalar("SELECT count(*) FROM mintage_range_key WHERE sequence = ? AND version = ?")
        .bind(&tail.sequence)
        .bind(version)
        .fetch_one(&mut *conn.link)
        .await?;
    if asked_by_key > 0 || stopped::is_stopped(conn, &tail.sequence).await? {
        // A repeat of its key would hand these numbers out a second time; what a stopped counter has forgotten may lie above.
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

/// Refuses a counter that waits to be raised.
pub(super) async fn not_stopped(conn: &mut Conn<'_>, row: &SequenceRow) -> Result<(), Fault> {
    if stopped::is_stopped(conn, &row.name).await? { Err(rules::stopped(row).into()) } else { Ok(()) }
}

async fn raise(conn: &mut Conn<'_>, path: &Path, sequence: &Sequence, floor: u64) -> Result<(), Fault> {
    stopped::go_on(conn, path, &sequence.name).await?;
    let before = existing(conn, sequence).await?;
    let mut after = before.clone();
    protocol::raise(&mut after, floor)?;
    replace(conn, &before, &after).await
}

async fn sequences(conn: &mut Conn<'_>) -> Result<Vec<SequenceRow>, Fault> {
    let rows = conn
        .query("SELECT name, last, version FROM mintage_sequence WHERE name <> '*' ORDER BY name")
        .fetch_all(&mut *conn.link)
        .await?;
    rows.iter().map(sequence).collect()
}

async fn existing(conn: &mut Conn<'_>, sequence: &Sequence) -> Result<SequenceRow, Fault> {
    sequence_row(conn, &sequence.name).await?.ok_or_else(|| protocol::lost_sequence(sequence).into())
}

pub(super) async fn sequence_row(conn: &mut Conn<'_>, name: &str) -> Result<Option<SequenceRow>, Fault> {
    let row = conn
        .query("SELECT name, last, version FROM mintage_sequence WHERE name = ? AND name <> '*'")
        .bind(name)
        .fetch_optional(&mut *conn.link)
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
pub(super) async fn replace(conn: &mut Conn<'_>, before: &SequenceRow, after: &SequenceRow) -> Result<(), Fault> {
    let written = conn
        .query("UPDATE mintage_sequence SET last = ?, version = ? WHERE name = ? AND version = ?")
        .bind(read::signed_before(after.next, "a number")?)
        .bind(read::signed(after.version, "a version")?)
        .bind(&after.name)
        .bind(read::signed(before.version, "a version")?)
        .execute(&mut *conn.link)
        .await?;
    if written.rows_affected() != 1 {
        let message = format!("sequence {} changed inside a transaction: restore the database", after.name);
        return Err(corrupt(message).into());
    }
    Ok(())
}

/// What the key was answered with within the last day. Older answers are deleted.
async fn answered(
    conn: &mut Conn<'_>,
    sequence: &Sequence,
    key: &IdempotencyKey,
    now_ms: u64,
) -> Result<Option<Answer>, Fault> {
    conn.query("DELETE FROM mintage_range_key WHERE made_ms < ?")
        .bind(read::signed(now_ms.saturating_sub(ANSWERS_KEPT_MS), "a time")?)
        .execute(&mut *conn.link)
        .await?;
    let row = conn
        .query("SELECT asked, first, last, version, made_ms FROM mintage_range_key WHERE sequence = ? AND key = ?")
        .bind(&sequence.name)
        .bind(key.as_str())
        .fetch_optional(&mut *conn.link)
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
    conn: &mut Conn<'_>,
    key: &IdempotencyKey,
    range: &IdRange,
    len: NonZeroU32,
    now_ms: u64,
) -> Result<(), Fault> {
    conn.query(
        "INSERT INTO mintage_range_key (sequence, key, asked, first, last, version, made_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&range.sequence)
    .bind(key.as_str())
    .bind(i64::from(len.get()))
    .bind(read::signed(range.start, "a number")?)
    .bind(read::signed_before(range.end, "a number")?)
    .bind(read::signed(range.version, "a version")?)
    .bind(read::signed(now_ms, "a time")?)
    .execute(&mut *conn.link)
    .await?;
    Ok(())
}
