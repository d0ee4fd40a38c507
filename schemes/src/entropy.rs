//! Random numbers for ids: a few nanoseconds each, from a generator that no other thread or process shares.
//!
//! Each thread has a ChaCha generator, seeded from the operating system. The invariant: a seed is used in the process that
//! drew it and nowhere else. After a fork the child finds another [`generation`](crate::fork::generation) and seeds anew.
//! The state never appears in `Debug`: whoever knows it knows the ids to come.

use std::{
    cell::RefCell,
    fmt,
    iter::Cycle,
    sync::{Mutex, PoisonError},
    vec,
};

use mintage_core::MintError;
use rand::{
    Rng, SeedableRng,
    rngs::{StdRng, SysRng},
};

use crate::fork;

/// After this many 64-bit words a thread seeds anew (512 KiB), so that two copies of a virtual machine that were resumed
/// from one snapshot draw apart again. Below a tenth of a nanosecond per word.
const RESEED_WORDS: u64 = 1 << 16;

/// Where the random part of ids comes from.
///
/// ```
/// use mintage_schemes::Entropy;
///
/// assert_ne!(Entropy::os().draw_u128(), Entropy::os().draw_u128());
/// ```
pub struct Entropy {
    source: Source,
}

enum Source {
    Os,
    Seeded(Box<Mutex<StdRng>>),
    Scripted(Mutex<Cycle<vec::IntoIter<u64>>>),
    Dry,
}

impl Entropy {
    /// Cryptographically strong, per thread, seeded from the operating system, safe after fork. What you want.
    pub const fn os() -> Self {
        Self { source: Source::Os }
    }

    /// The same numbers for the same `seed`: **for reproducible tests only**. Ids drawn from it can be guessed, two minters
    /// with one seed make the same ids, and a forked child repeats its parent's.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(Box::new(Mutex::new(StdRng::seed_from_u64(seed)))) }
    }

    /// These words, over and over: **for tests of unlucky draws only**. Without any word it fails as an operating system
    /// does that has no random bytes.
    pub fn scripted(words: impl Into<Vec<u64>>) -> Self {
        let words: Vec<u64> = words.into();
        let source =
            if words.is_empty() { Source::Dry } else { Source::Scripted(Mutex::new(words.into_iter().cycle())) };
        Self { source }
    }

    /// 64 random bits.
    ///
    /// # Errors
    /// `NoEntropy` when the operating system gives no seed: check that getrandom is allowed in this sandbox.
    #[inline]
    pub fn draw_u64(&self) -> Result<u64, MintError> {
        self.with(1, |draw| draw.word())
    }

    /// 128 random bits.
    ///
    /// # Errors
    /// As [`draw_u64`](Self::draw_u64).
    #[inline]
    pub fn draw_u128(&self) -> Result<u128, MintError> {
        self.with(2, |draw| draw.two_words())
    }

    /// Lends the generator for about `words` draws. The draws themselves cannot fail: a request that needs several either
    /// gets all or none.
    #[inline]
    pub(crate) fn with<T>(&self, words: u64, act: impl FnOnce(&mut Draw<'_>) -> T) -> Result<T, MintError> {
        match &self.source {
            Source::Os => with_pool(words, act),
            Source::Seeded(rng) => Ok(act(&mut Draw::Stream(&mut rng.lock().unwrap_or_else(PoisonError::into_inner)))),
            Source::Scripted(words) => {
                Ok(act(&mut Draw::Script(&mut words.lock().unwrap_or_else(PoisonError::into_inner))))
            }
            Source::Dry => Err(MintError::NoEntropy),
        }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::Os => "Entropy(os)",
            Source::Seeded(_) => "Entropy(seeded)",
            Source::Scripted(_) | Source::Dry => "Entropy(scripted)",
        })
    }
}

impl Default for Entropy {
    fn default() -> Self {
        Self::os()
    }
}

/// A generator that is seeded and ours for the moment.
pub(crate) enum Draw<'a> {
    Stream(&'a mut StdRng),
    Script(&'a mut Cycle<vec::IntoIter<u64>>),
}

impl Draw<'_> {
    #[inline]
    pub(crate) fn word(&mut self) -> u64 {
        match self {
            Self::Stream(rng) => rng.next_u64(),
            // A script has at least one word.
            Self::Script(words) => words.next().unwrap_or_default(),
        }
    }

    #[inline]
    pub(crate) fn two_words(&mut self) -> u128 {
        (u128::from(self.word()) << 64) | u128::from(self.word())
    }
}

/// One thread's generator.
struct Pool {
    generation: u64,
    words_left: u64,
    rng: Option<StdRng>,
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { generation: 0, words_left: 0, rng: None }) };
}

impl Pool {
    #[inline]
    fn seeded(&mut self, words: u64) -> Result<&mut StdRng, MintError> {
        let generation = fork::generation();
        if self.generation != generation || self.words_left == 0 {
            self.seed(generation)?;
        }
        self.words_left = self.words_left.saturating_sub(words);
        self.rng.as_mut().ok_or(MintError::NoEntropy)
    }

    #[cold]
    fn seed(&mut self, generation: u64) -> Result<(), MintError> {
        match fresh() {
            Ok(rng) => self.rng = Some(rng),
            // A seed of this process stays good: the next turn tries again.
            Err(_) if self.generation == generation => {}
            Err(error) => return Err(error),
        }
        self.generation = generation;
        self.words_left = RESEED_WORDS;
        Ok(())
    }
}

fn fresh() -> Result<StdRng, MintError> {
    StdRng::try_from_rng(&mut SysRng).map_err(|_| MintError::NoEntropy)
}

#[inline]
fn with_pool<T>(words: u64, act: impl FnOnce(&mut Draw<'_>) -> T) -> Result<T, MintError> {
    let mut act = Some(act);
    let done = POOL.try_with(|pool| {
        let mut pool = pool.try_borrow_mut().ok()?;
        let rng = match pool.seeded(words) {
            Ok(rng) => rng,
            Err(error) => return Some(Err(error)),
        };
        act.take().map(|act| Ok(act(&mut Draw::Stream(rng))))
    });
    match (done, act) {
        (Ok(Some(done)), _) => done,
        // The thread is ending and its pool is gone, or a signal handler came in the middle of a draw.
        (_, Some(act)) => fresh().map(|mut rng| act(&mut Draw::Stream(&mut rng))),
        (_, None) => Err(MintError::NoEntropy),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::HashSet, sync::mpsc};

    use super::*;

    #[test]
    fn threads_draw_apart() {
        let drawn: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).map(|_| Entropy::os().draw_u64().unwrap()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 4000);
    }

    #[test]
    fn a_spent_pool_and_another_generation_seed_anew() {
        let mut pool = Pool { generation: 0, words_left: 0, rng: None };
        let state = |pool: &mut Pool| format!("{:?}", pool.rng.as_mut().map(|rng| rng.next_u64()));
        pool.seeded(1).unwrap();
        assert_eq!((pool.generation, pool.words_left), (fork::generation(), RESEED_WORDS - 1));
        // A generator that would repeat the same word shows whether it was replaced.
        let known = || Some(StdRng::seed_from_u64(1));
        let repeated = format!("{:?}", known().map(|mut rng| rng.next_u64()));

        pool.rng = known();
        pool.seeded(1).unwrap();
        assert_eq!(state(&mut pool), repeated, "kept");

        pool.rng = known();
        pool.words_left = 0;
        pool.seeded(RESEED_WORDS + 5).unwrap();
        assert_ne!(state(&mut pool), repeated, "spent");
        assert_eq!(pool.words_left, 0, "a batch larger than the allowance spends it all");

        pool.rng = known();
        pool.words_left = 100;
        pool.generation = fork::generation() + 1;
        pool.seeded(1).unwrap();
        assert_ne!(state(&mut pool), repeated, "another process");
    }

    #[test]
    fn seeded_repeats_and_scripts_cycle() {
        let [one, two] = [(); 2].map(|()| Entropy::seeded(42));
        for _ in 0..100 {
            assert_eq!(one.draw_u128(), two.draw_u128());
        }
        assert_ne!(Entropy::seeded(1).draw_u64(), Entropy::seeded(2).draw_u64());
        let script = Entropy::scripted([1, 2, 3]);
        assert_eq!([(); 4].map(|()| script.draw_u64()), [Ok(1), Ok(2), Ok(3), Ok(1)]);
        assert_eq!(script.draw_u128(), Ok((2 << 64) | 3));
        assert_eq!(Entropy::scripted([]).draw_u64(), Err(MintError::NoEntropy));
    }

    #[test]
    fn nothing_secret_in_debug() {
        assert_eq!(format!("{:?}", Entropy::os()), "Entropy(os)");
        assert_eq!(format!("{:?}", Entropy::seeded(99)), "Entropy(seeded)");
    }

    /// Draws when it is dropped, which is after the thread's pool is gone if it was made before the pool.
    struct Late(Cell<Option<mpsc::Sender<Result<u64, MintError>>>>);

    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                sender.send(Entropy::os().draw_u64()).unwrap();
            }
        }
    }

    #[test]
    fn an_ending_thread_still_draws() {
        thread_local! {
            static BEFORE: Late = const { Late(Cell::new(None)) };
            static AFTER: Late = const { Late(Cell::new(None)) };
        }
        let (sender, receiver) = mpsc::channel();
        let joined = std::thread::spawn(move || {
            BEFORE.with(|late| late.0.set(Some(sender.clone())));
            Entropy::os().draw_u64().unwrap();
            AFTER.with(|late| late.0.set(Some(sender)));
        })
        .join();
        assert!(joined.is_ok(), "no panic");
        let drawn: Vec<u64> = receiver.iter().map(Result::unwrap).collect();
        assert_eq!(drawn.len(), 2);
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn a_draw_inside_a_draw() {
        let outer = Entropy::os();
        let (first, second) = outer.with(2, |draw| (draw.word(), Entropy::os().draw_u64().unwrap())).unwrap();
        assert_ne!(first, second);
    }
}
