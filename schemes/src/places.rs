//! A place of its own for each thread, so that threads which mint at once do not pass one integer back and forth.
//!
//! The invariant: one thread always has the same place. Two threads may share one: that is slower, and no less right.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

/// How many places there are: as many as a large machine has cores. Threads beyond that share.
const PLACES: usize = 32;

/// One value for all threads, or one for each.
#[derive(Debug)]
pub(crate) struct Places<T> {
    /// Apart from the list of the others as well, which every thread reads.
    first: Apart<T>,
    others: Box<[Apart<T>]>,
}

/// Far enough from its neighbours that no two are in one line of a processor's cache, nor in the line that is fetched with it.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> Places<T> {
    pub(crate) fn one(value: T) -> Self {
        Self { first: Apart(value), others: Box::default() }
    }

    pub(crate) fn each(mut make: impl FnMut() -> T) -> Self {
        Self { first: Apart(make()), others: (1..PLACES).map(|_| Apart(make())).collect() }
    }

    /// That of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> &T {
        if self.others.is_empty() {
            return &self.first.0;
        }
        let nth = number() % PLACES;
        nth.checked_sub(1).and_then(|other| self.others.get(other)).map_or(&self.first.0, |Apart(value)| value)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first.0).chain(self.others.iter().map(|Apart(value)| value))
    }
}

/// Counts the threads that ever minted so, in the order in which they first did.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread; not given yet where it is the largest there is. Without a destructor, so it is there to the end.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[inline]
fn number() -> usize {
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, thread};

    use super::*;

    #[test]
    fn a_thread_keeps_its_place_and_others_have_others() {
        let places = Places::each({
            let mut next = 0;
            move || {
                next += 1;
                next
            }
        });
        assert_eq!(places.all().count(), PLACES);
        let met: Vec<u32> = thread::scope(|scope| {
            let visits = (0..PLACES).map(|_| {
                scope.spawn(|| {
                    let mine = *places.mine();
                    assert!((0..100).all(|_| *places.mine() == mine));
                    mine
                })
            });
            let visits: Vec<_> = visits.collect();
            visits.into_iter().map(|visit| visit.join().unwrap()).collect()
        });
        // Other tests' threads take numbers in between, so some may share.
        assert!(met.iter().collect::<BTreeSet<_>>().len() > PLACES / 2, "{met:?}");
        assert_eq!(*Places::one(7).mine(), 7);
    }

    #[test]
    fn neighbours_lie_apart() {
        assert_eq!((size_of::<Apart<u64>>(), align_of::<Apart<u64>>()), (128, 128));
    }
}
