//! The history of ranges: who got which numbers, for as long as a few thousand ranges last.
//!
//! The latest ranges of a sequence stand in one record, so that cutting a range writes one small record more. When it is full, its
//! rows become a page of their own, named in the list of pages. Numbers only ascend, so a page is found by its first and last.

use mintage_core::{IdRange, RangeHistory, StoreError, protocol::HISTORY_KEPT_MS};

use super::{
    Cells,
    record::{
        OLD_PAGES_MAX, RANGE_PAGE_LEN, RANGE_PAGES_MAX, RangePage, RangePages, Ranges, range_page_key, range_pages_key,
        ranges_key,
    },
    work::{Fault, Work},
};
use crate::ranges::{self, RangeRow};

/// Writes a range that is being cut. The record of the latest ranges has been read.
pub(super) async fn keep<C: Cells>(work: &mut Work<'_, C>, range: &IdRange, instance: &str) -> Result<(), Fault> {
    let key = ranges_key(&range.sequence);
    let mut latest: Ranges = work.record(&key)?.unwrap_or_default();
    if latest.rows.len() >= RANGE_PAGE_LEN {
        turn_page(work, &range.sequence, std::mem::take(&mut latest)).await?;
    }
    latest.rows.push_back(RangeRow::new(range, instance, work.now_ms));
    work.put(key, &latest);
    Ok(())
}

/// Takes back what begins at `tail`: of the latest ranges as a rule, and of the page before them where the tail is that of several
/// ranges. The record of the latest ranges has been read.
pub(super) async fn shorten<C: Cells>(work: &mut Work<'_, C>, tail: &IdRange) -> Result<(), StoreError> {
    let key = ranges_key(&tail.sequence);
    let Some(mut latest) = work.record::<Ranges>(&key)? else { return Ok(()) };
    ranges::shorten(&mut latest.rows, tail.start);
    work.put(key, &latest);
    if !latest.rows.is_empty() {
        return Ok(());
    }
    let list = range_pages_key(&tail.sequence);
    work.load([list.clone()]).await?;
    let Some(mut kept) = work.record::<RangePages>(&list)? else { return Ok(()) };
    while let Some(last) = kept.pages.last_mut().filter(|last| last.end > tail.start) {
        let key = range_page_key(&tail.sequence, last.number);
        work.load([key.clone()]).await?;
        let mut page: Ranges = work.record(&key)?.unwrap_or_default();
        ranges::shorten(&mut page.rows, tail.start);
        last.end = tail.start;
        if page.rows.is_empty() {
            work.remove(key);
            kept.pages.pop();
        } else {
            work.put(key, &page);
        }
    }
    work.put(list, &kept);
    Ok(())
}

/// Who got the number.
pub(super) async fn of<C: Cells>(
    work: &mut Work<'_, C>,
    sequence: &str,
    number: u64,
) -> Result<RangeHistory, StoreError> {
    let (latest, list) = (ranges_key(sequence), range_pages_key(sequence));
    work.load([latest.clone(), list.clone()]).await?;
    let RangePages { pages, dropped } = work.record(&list)?.unwrap_or_default();
    let holding = pages.iter().filter(|page| (page.start..page.end).contains(&number));
    let mut keys: Vec<String> = holding.map(|page| range_page_key(sequence, page.number)).collect();
    work.load(keys.iter().cloned()).await?;
    keys.push(latest);
    let mut history = RangeHistory::default();
    for key in keys {
        let page: Ranges = work.record(&key)?.unwrap_or_default();
        history.grants.extend(RangeRow::holding(&page.rows, number));
    }
    if dropped {
        history.lack = Some(format!(
            "this kind of store keeps the last {} ranges of a sequence; older ones were dropped: the SQL stores keep them for 400 \
             days",
            RANGE_PAGES_MAX * RANGE_PAGE_LEN
        ));
    }
    Ok(history)
}

/// Makes a page of what were the latest ranges, and drops what is too old or too much.
async fn turn_page<C: Cells>(work: &mut Work<'_, C>, sequence: &str, full: Ranges) -> Result<(), Fault> {
    let list = range_pages_key(sequence);
    work.load([list.clone()]).await?;
    let mut kept: RangePages = work.record(&list)?.unwrap_or_default();
    let number = kept.pages.last().map_or(0, |page| page.number.wrapping_add(1));
    let starts = full.rows.iter().map(|row| row.start);
    let (Some(start), Some(end), Some(at_ms)) =
        (starts.min(), full.rows.iter().map(|row| row.end).max(), full.rows.iter().map(|row| row.at_ms).max())
    else {
        return Ok(());
    };
    let old = |page: &RangePage| page.at_ms.saturating_add(HISTORY_KEPT_MS) < work.now_ms;
    let old = kept.pages.iter().take_while(|page| old(page)).count();
    let excess = (kept.pages.len() + 1).saturating_sub(RANGE_PAGES_MAX);
    kept.dropped |= excess > old;
    let gone = kept.pages.drain(..old.min(OLD_PAGES_MAX).max(excess));
    let gone: Vec<String> = gone.map(|page| range_page_key(sequence, page.number)).collect();
    let key = range_page_key(sequence, number);
    work.load(gone.iter().chain([&key]).cloned()).await?;
    gone.into_iter().for_each(|page| work.remove(page));
    work.put(key, &full);
    kept.pages.push(RangePage { number, start, end, at_ms });
    work.put(list, &kept);
    Ok(())
}
