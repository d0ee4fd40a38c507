//! Tokens and numbers are written and opened without touching the heap.
#![expect(unsafe_code, reason = "a counting allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use mintage::public::{Alphabet, Codec, Keyring, PublicForm, PublicIdCodec, Redundancy, UuidPlain};
use mintage_core::{AnyId, Bits};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_heap_is_not_touched() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(5)))) > 0, "the counter counts");
    let keys = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    let ring = Keyring::parse(keys, "test").unwrap();
    let token = |bits| PublicForm::token("ord", bits).unwrap();
    let long = AnyId::Long([7; 20]);
    for (form, id, context) in [
        (token(Bits::Int), AnyId::Int(5), ""),
        (token(Bits::Int).owned_from(2, AnyId::Int(100)), AnyId::Int(500), ""),
        (token(Bits::Int).in_alphabet(Alphabet::Base62).unwrap(), AnyId::Int(5), ""),
        (token(Bits::Wide), AnyId::Wide(5), ""),
        (token(Bits::Long).in_alphabet(Alphabet::NoVowel).unwrap(), long, ""),
        (token(Bits::Long).with_context().unwrap(), long, "tenant-42"),
        (PublicForm::number(12, 1).unwrap(), AnyId::Int(5), ""),
        (PublicForm::short("ord", Redundancy::Bits32).unwrap(), AnyId::Int(5), ""),
        (PublicForm::uuid(UuidPlain::I64), AnyId::Int(5), ""),
    ] {
        let codec = Codec::new(&form, "order", "live", &ring).unwrap();
        let context = context.as_bytes();
        let count = allocations(|| {
            let text = codec.encode(id, context).unwrap();
            assert!(codec.decode(&text, context) == Ok(id));
            assert!(codec.decode("ord_3km1dzhmsjg36ctn1d9mvat54y", context).is_err());
            assert!(codec.normalise_human(&text).unwrap() == text);
        });
        assert_eq!(count, 0, "{form:?}");
    }
}
