//! A process forks in the middle of a run. The child is a real one, made by the operating system: it has the minters, the clock
//! and the store as they were at that moment, in memory of its own. It mints what it can, says what it made, and is gone.

use mintage_core::{AnyId, IdScheme as _, MintError};

use crate::{clock::SkewedClock, world::Minters};

/// How many ids of each kind a child tries to make, at each of a few moments.
const TRIES: usize = 4;

/// How much later those moments are, in milliseconds: now, and while its parent goes on.
const LATER_MS: [i64; 4] = [0, 1, 20, 300];

/// What a child made of what it had inherited.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Report {
    /// How many snowflakes and numbers.
    counts: [u64; 2],
    ids: [[u64; TRIES * LATER_MS.len()]; 2],
    /// How often it was refused for another reason than being a fork.
    misled: u64,
}

impl Report {
    /// Whether it was told each time that it is a fork.
    pub(crate) fn is_as_it_should_be(&self) -> bool {
        self.counts == [0; 2] && self.misled == 0
    }

    pub(crate) fn snowflakes(&self) -> impl Iterator<Item = u64> + '_ {
        self.of(0)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.of(1)
    }

    fn of(&self, kind: usize) -> impl Iterator<Item = u64> + '_ {
        self.ids[kind].iter().copied().take(self.counts[kind] as usize)
    }

    fn note(&mut self, kind: usize, minted: Result<AnyId, MintError>) {
        match minted {
            Ok(AnyId::Int(id)) => {
                self.ids[kind][self.counts[kind] as usize] = id;
                self.counts[kind] += 1;
            }
            Err(MintError::Forked) => {}
            _ => self.misled += 1,
        }
    }
}

/// Lets a child of this program go on with `minters`, whose clock is `clock`. `None` on systems without fork.
///
/// A child that may not notice what it is: then the page that the system wipes on a fork is kept for the moment of this one, and
/// libc is passed by.
pub(crate) fn go_on_in_a_child(minters: &Minters, clock: &SkewedClock, notices: bool) -> Option<Report> {
    real::in_child(notices, |report| {
        for later_ms in LATER_MS {
            clock.set_error_ms(clock.error_ms() + later_ms);
            for _ in 0..TRIES {
                report.note(0, minters.events.mint());
                report.note(1, minters.orders.mint().map(AnyId::Int));
            }
        }
    })
}

#[cfg(not(unix))]
mod real {
    use super::Report;

    pub(super) fn in_child(_: bool, _: impl FnOnce(&mut Report)) -> Option<Report> {
        None
    }
}

#[cfg(unix)]
mod real {
    #![expect(unsafe_code, reason = "forks")]

    use std::{
        fs::File,
        io::Read,
        os::fd::{AsRawFd, FromRawFd},
        sync::Mutex,
    };

    use super::Report;
    use crate::line::locked;

    /// A child that hangs is ended by its alarm after so many seconds.
    const CHILD_SECONDS_MAX: u32 = 30;

    /// Lets a child do `act`, which must not wait.
    pub(super) fn in_child(notices: bool, act: impl FnOnce(&mut Report)) -> Option<Report> {
        // One at a time: the page is the whole program's.
        static FORKING: Mutex<()> = Mutex::new(());
        let turn = locked(&FORKING);
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the pipe is fresh; nobody else owns its ends.
        let (mut reader, writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        let nothing = Report { counts: [0; 2], ids: Default::default(), misled: 0 };
        let child = if notices { fork() } else { fork_unnoticed() };
        if child == 0 {
            let mut report = nothing;
            act(&mut report);
            // SAFETY: writes a plain value from our stack to our own pipe, less than it holds, and leaves without the parent's
            // exit handlers.
            unsafe {
                let (bytes, len) = ((&raw const report).cast(), size_of::<Report>());
                let told = libc::write(writer.as_raw_fd(), bytes, len) == len as isize;
                libc::_exit(if told { 0 } else { 1 })
            }
        }
        drop((turn, writer));
        let mut bytes = [0; size_of::<Report>()];
        let told = reader.read_exact(&mut bytes);
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(told.is_ok() && status == 0, "the child hung or failed: status {status}");
        // SAFETY: a child wrote all of it, and any bytes are a report.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }

    fn fork() -> i32 {
        // SAFETY: the child uses nothing but what belongs to this thread.
        alarmed(unsafe { libc::fork() })
    }

    fn alarmed(child: i32) -> i32 {
        assert!(child >= 0, "fork failed");
        if child == 0 {
            // SAFETY: has no preconditions.
            unsafe { libc::alarm(CHILD_SECONDS_MAX) };
        }
        child
    }

    /// A fork of which the library hears nothing: libc, which would call its handler, is not asked, and no page is wiped.
    #[cfg(target_os = "linux")]
    fn fork_unnoticed() -> i32 {
        let pages = wiped_pages();
        assert!(!pages.is_empty(), "the library has a page that is wiped on a fork");
        advise(&pages, libc::MADV_KEEPONFORK);
        // SAFETY: as for `fork`. Without a stack and flags this system call is a plain fork; the argument order of no system matters.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child != 0 {
            advise(&pages, libc::MADV_WIPEONFORK);
        }
        alarmed(i32::try_from(child).unwrap_or(-1))
    }

    #[cfg(not(target_os = "linux"))]
    fn fork_unnoticed() -> i32 {
        unreachable!("no mutant of this system asks for it")
    }

    /// Address and length of every mapping that the system wipes on a fork.
    #[cfg(target_os = "linux")]
    fn wiped_pages() -> Vec<(usize, usize)> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut last = None;
        let mut pages = Vec::new();
        for line in maps.lines() {
            let word = line.split(' ').next().unwrap_or_default();
            if let Some((start, end)) = word.split_once('-') {
                last = usize::from_str_radix(start, 16).ok().zip(usize::from_str_radix(end, 16).ok());
            } else if word == "VmFlags:" && line.split(' ').any(|flag| flag == "wf") {
                pages.extend(last.map(|(start, end)| (start, end - start)));
            }
        }
        pages
    }

    #[cfg(target_os = "linux")]
    fn advise(pages: &[(usize, usize)], advice: libc::c_int) {
        for (start, len) in pages {
            // SAFETY: says what becomes of a mapping in a child, and changes nothing in it.
            assert_eq!(unsafe { libc::madvise(*start as *mut libc::c_void, *len, advice) }, 0);
        }
    }
}
