//! `mint` allocates nothing: a counting allocator watches each scheme. One line a scheme.
#![expect(unsafe_code, reason = "an allocator is unsafe by trait")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    alloc::{GlobalAlloc, System},
    cell::Cell,
    fmt,
};

use mintage_core::{Clock, IdScheme, Leased, SystemClock};
use mintage_schemes::{
    Ksuid, Layout, RandomOrder, SequenceStart, Snowflake, SnowflakeReader, SnowflakeSettings, Ulid, UuidV4, UuidV7,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator; the counter is a plain cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

/// Text of up to 64 bytes on the stack.
struct StackText {
    bytes: [u8; 64],
    len: usize,
}

impl fmt::Write for StackText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn assert_allocates_nothing<S: IdScheme>(scheme: &S) {
    let name = &scheme.info().name;
    let mut batch = [S::Bits::default(); 256];
    let minted = allocations(|| {
        for _ in 0..10_000 {
            std::hint::black_box(scheme.mint().unwrap());
        }
        scheme.mint_batch(&mut batch).unwrap();
    });
    assert_eq!(minted, 0, "{name}: mint");
    let written = allocations(|| {
        for id in batch {
            let mut text = StackText { bytes: [0; 64], len: 0 };
            scheme.format(id, &mut text).unwrap();
            let text = std::str::from_utf8(&text.bytes[..text.len]).unwrap();
            assert_eq!(scheme.parse(text), Ok(id));
        }
    });
    assert_eq!(written, 0, "{name}: text there and back");
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn random_schemes() {
    assert_allocates_nothing(&UuidV4::new());
    for order in [RandomOrder::Strict, RandomOrder::Thread, RandomOrder::Time] {
        assert_allocates_nothing(&UuidV7::new().order(order));
        assert_allocates_nothing(&Ulid::new().order(order));
        assert_allocates_nothing(&Ksuid::new().order(order));
    }
}

#[test]
fn snowflake() {
    for sequence_start in [SequenceStart::Zero, SequenceStart::Random] {
        let mut settings = SnowflakeSettings::default();
        // Room for all ids of the test, however fast it runs.
        (settings.max_drift_ms, settings.sequence_start) = (10_000, sequence_start);
        let reader = SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), 1_767_225_600_000);
        let ids = Snowflake::new(reader, settings, SystemClock).unwrap();
        let now_ms = SystemClock.unix_ms();
        ids.grant(7, now_ms..now_ms + 600_000, u64::MAX);
        assert_allocates_nothing(&ids);
    }
}
