//! `mint` allocates nothing, by whichever door it is called (invariant 3). The allocator of this test program counts, per thread.
#![expect(unsafe_code, reason = "an allocator is unsafe by trait")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    path::Path,
};

use mintage::{Entity, Id, Minter, Registry};
use mintage_core::{AnyScheme, IdBits, IdScheme, MintError};

use crate::{Document, EVERY_SCHEME, Event, Order, SCHEMES, Token, Upload, User, config_in};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator; the counter is a plain cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
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

async fn registry() -> Registry {
    let text = EVERY_SCHEME.replace("STORE", "memory:").replace("range = 100", "range = 1000\ndurability = \"weak\"");
    Registry::builder().builtins().build(config_in(Path::new("."), &text)).await.unwrap()
}

/// So many ids, one at a time. Two ranges of a thousand are held, so 1800 go over a switch, and past the mark at which the
/// next range is asked for.
const IDS: usize = 1_800;

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
}

#[tokio::test]
async fn a_typed_minter() {
    fn nothing<E: Entity>(registry: &Registry) {
        let minter: Minter<E> = registry.minter().unwrap();
        let mut last: Option<Id<E>> = None;
        let made = allocations(|| {
            for _ in 0..IDS {
                last = Some(black_box(minter.mint().unwrap()));
            }
        });
        assert_eq!(made, 0, "{}", E::NAME);
        assert!(last.is_some());
    }
    let registry = registry().await;
    nothing::<User>(&registry);
    nothing::<Order>(&registry);
    nothing::<Event>(&registry);
    nothing::<Document>(&registry);
    nothing::<Upload>(&registry);
    nothing::<Token>(&registry);
    registry.close().await.unwrap();
}

#[tokio::test]
async fn a_minter_known_at_run_time() {
    let registry = registry().await;
    for (name, _) in SCHEMES {
        let minter = registry.any_minter(name).unwrap();
        let made = allocations(|| {
            for _ in 0..IDS {
                black_box(minter.mint().unwrap());
            }
        });
        assert_eq!(made, 0, "{name}");
    }
    registry.close().await.unwrap();
}

#[tokio::test]
async fn a_batch() {
    fn nothing<B: IdBits>(name: &str, scheme: &dyn IdScheme<Bits = B>) {
        let mut batch = [B::default(); IDS];
        let mut filled = 0;
        let made = allocations(|| {
            while filled < IDS {
                filled += scheme.mint_batch(black_box(&mut batch[filled..])).unwrap();
            }
        });
        assert_eq!(made, 0, "{name}");
    }
    let registry = registry().await;
    for (name, _) in SCHEMES {
        match registry.any_minter(name).unwrap().scheme() {
            AnyScheme::Int(scheme) => nothing(name, scheme.as_ref()),
            AnyScheme::Wide(scheme) => nothing(name, scheme.as_ref()),
            AnyScheme::Long(scheme) => nothing(name, scheme.as_ref()),
            other => unreachable!("{other:?}"),
        }
    }
    registry.close().await.unwrap();
}

/// A refusal is as cheap as an id: who is refused asks again.
#[tokio::test]
async fn a_refusal() {
    let registry = registry().await;
    let orders: Minter<Order> = registry.minter().unwrap();
    let (mut minted, mut refused) = (0, 0);
    let made = allocations(|| {
        for _ in 0..3 * IDS {
            match black_box(orders.mint()) {
                Ok(_) => minted += 1,
                Err(MintError::Exhausted { .. }) => refused += 1,
                Err(_) => {}
            }
        }
    });
    // Nothing is fetched while this thread does not yield.
    assert_eq!((made, minted, refused), (0, 2_000, 3 * IDS - 2_000));
    let events: Minter<Event> = registry.minter().unwrap();
    registry.close().await.unwrap();
    let made = allocations(|| assert_eq!(black_box(events.mint()), Err(MintError::Closed)));
    assert_eq!(made, 0);
}
