//! Whether this process is a fork of the one that made something.
//!
//! A forked child owns a copy of everything: counters, leases, buffered random numbers. It must notice before it mints, and
//! asking for the process id each time would cost more than the id. So one word of memory is arranged to read 0 in a child:
//! on Linux by a page that the kernel wipes on fork (which also sees a bare `clone` system call), elsewhere by a handler that
//! libc runs in the child. Whoever finds 0 puts a fresh number there.
//!
//! The invariant: no number returned before a fork is ever returned in the child, nor in the child's children.
//!
//! Not covered: a virtual machine or container resumed twice from one snapshot. No system call tells.

/// The number of this process among its forebears: a forked child gets another one. Costs two loads.
#[inline]
pub fn generation() -> u64 {
    word::generation()
}

/// Remembers in which process something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth(u64);

impl Birth {
    /// Born in this process, now.
    pub fn here() -> Self {
        Self(generation())
    }

    /// Whether this process is a fork of the one it was born in.
    #[inline]
    pub fn forked(&self) -> bool {
        generation() != self.0
    }
}

#[cfg(unix)]
mod word {
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    /// Where `WORD` points before the first call. Stays 0.
    static UNSET: AtomicU64 = AtomicU64::new(0);
    /// The word where no page can be wiped: only the handler sets it to 0.
    static ANNOUNCED: AtomicU64 = AtomicU64::new(0);
    /// Where `WORD` points if there is neither a page nor a handler. Stays 0, so that each call asks for the process id.
    static BY_PID: AtomicU64 = AtomicU64::new(0);

    /// Points at one of the three above or at the wiped page, all of which live for ever.
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const UNSET).cast_mut());

    /// The last number given to this process or a forebear. A child inherits it, and counts on from there.
    static LAST: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(super) fn generation() -> u64 {
        match word().load(Ordering::Relaxed) {
            0 => renew(),
            number => number,
        }
    }

    #[inline]
    fn word() -> &'static AtomicU64 {
        #[expect(unsafe_code, reason = "a pointer that can be swapped is the cheapest way to find the word")]
        // SAFETY: `WORD` is only ever set to the address of a static of this module or of a mapping that is never unmapped
        // once it is there (see `install`), each a valid and aligned `AtomicU64` that is only read and written atomically.
        // A fork keeps every mapping at its address.
        unsafe {
            &*WORD.load(Ordering::Acquire)
        }
    }

    #[cold]
    fn renew() -> u64 {
        let mut word = word();
        if std::ptr::eq(word, &raw const UNSET) {
            word = install();
        }
        if std::ptr::eq(word, &raw const BY_PID) {
            return u64::from(std::process::id()) + 1;
        }
        let fresh = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(first) => first,
        }
    }

    /// Chooses the word. No lock: a fork in the middle would leave it locked in the child.
    fn install() -> &'static AtomicU64 {
        let page = wiped_page();
        let announced = announce();
        let chosen = match page {
            Some(page) => page,
            None if announced => &ANNOUNCED,
            None => &BY_PID,
        };
        let chosen = std::ptr::from_ref(chosen).cast_mut();
        let unset = (&raw const UNSET).cast_mut();
        if WORD.compare_exchange(unset, chosen, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was first; a page of ours is left unused, once.
        }
        word()
    }

    /// Asks libc to run [`in_child`] in every child made by its `fork`.
    fn announce() -> bool {
        #[expect(unsafe_code, reason = "libc has no safe way to register a fork handler")]
        // SAFETY: `in_child` is a plain function that lives for ever and only stores to atomics, which is allowed between
        // fork and exec.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        status == 0
    }

    #[expect(unsafe_code, reason = "libc declares the handler so")]
    // SAFETY: has no preconditions; see `announce`.
    unsafe extern "C" fn in_child() {
        ANNOUNCED.store(0, Ordering::Relaxed);
        word().store(0, Ordering::Relaxed);
    }

    /// A page that the kernel fills with zeros in every child (Linux 4.14 and later).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn wiped_page() -> Option<&'static AtomicU64> {
        /// The kernel rounds it up to a page of whatever size.
        const LEN: usize = size_of::<AtomicU64>();
        /// No kernel knows this advice. Emulators that ignore all advice accept it, and would not wipe.
        const NO_ADVICE: libc::c_int = -1;

        #[expect(unsafe_code, reason = "mapping a page")]
        // SAFETY: a fresh private mapping, of which nobody else knows.
        let page = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), LEN, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if page == libc::MAP_FAILED {
            return None;
        }
        #[expect(unsafe_code, reason = "advising, and using or unmapping, the page mapped above")]
        // SAFETY: the mapping is ours, at least a page long, page-aligned and zero, so it is a valid `AtomicU64`. It is
        // either unmapped here, before any reference to it exists, or never.
        unsafe {
            let wiped =
                libc::madvise(page, LEN, NO_ADVICE) != 0 && libc::madvise(page, LEN, libc::MADV_WIPEONFORK) == 0;
            if !wiped {
                libc::munmap(page, LEN);
                return None;
            }
            Some(&*page.cast::<AtomicU64>())
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn wiped_page() -> Option<&'static AtomicU64> {
        None
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The way for systems without a wiped page, on its own: B96, B97.
        #[test]
        #[expect(unsafe_code, reason = "forks")]
        fn the_handler_alone_is_enough() {
            assert!(announce());
            ANNOUNCED.store(7, Ordering::Relaxed);
            // SAFETY: the child only reads an atomic and leaves by `_exit`.
            let status = unsafe {
                let child = libc::fork();
                assert!(child >= 0, "fork failed");
                if child == 0 {
                    libc::_exit(if ANNOUNCED.load(Ordering::Relaxed) == 0 { 0 } else { 1 });
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status
            };
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
            assert_eq!(ANNOUNCED.load(Ordering::Relaxed), 7, "the parent keeps its number");
        }
    }
}

/// Systems without fork.
#[cfg(not(unix))]
mod word {
    pub(super) const fn generation() -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_in_all_threads() {
        let here = generation();
        assert_ne!(here, 0);
        let there: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(generation)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(there.iter().all(|number| *number == here));
        assert!(!Birth::here().forked());
    }
}
