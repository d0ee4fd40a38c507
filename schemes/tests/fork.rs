//! After a fork no process repeats another's ids (B96, B97). Runs without the test harness: a process that forks here has one
//! thread, as the ones that fork in production should.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test without the harness, which reports by itself")]

#[cfg(not(unix))]
fn main() {
    println!("no fork on this system");
}

#[cfg(unix)]
fn main() {
    forks::run();
}

#[cfg(unix)]
mod forks {
    #![expect(unsafe_code, reason = "forks")]

    use std::{
        collections::HashSet,
        fs::File,
        io::{Read, Write},
        os::fd::FromRawFd,
    };

    use mintage_core::{IdScheme, ManualClock};
    use mintage_schemes::{
        Entropy, Ksuid, Layout, RandomOrder, Snowflake, SnowflakeReader, SnowflakeSettings, Ulid, UuidV4, UuidV7,
        fork::{Birth, generation},
    };

    const IDS: usize = 1000;

    /// How a child is made.
    type Fork = fn() -> i32;

    pub(super) fn run() {
        test("generation", generations);
        test("birth", births);
        test("entropy", entropy);
        test("snowflake", snowflake);
        for (name, fork) in ways() {
            schemes(name, fork);
        }
        println!("fork: all passed");
    }

    fn test(name: &str, body: fn()) {
        body();
        println!("fork: {name} ok");
    }

    /// libc's fork, and where the system has one, a bare system call that tells no handler.
    fn ways() -> Vec<(&'static str, Fork)> {
        // SAFETY: this process has one thread.
        let by_libc: Fork = || unsafe { libc::fork() };
        #[cfg(target_os = "linux")]
        {
            // SAFETY: as above; with these flags `clone` is a fork.
            let by_clone: Fork = || unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 };
            vec![("libc fork", by_libc), ("clone system call", by_clone)]
        }
        #[cfg(not(target_os = "linux"))]
        vec![("libc fork", by_libc)]
    }

    /// Runs `body` in a child and returns what it said, through a pipe.
    fn in_child(fork: Fork, body: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the pipe is fresh; nobody else owns its ends.
        let (mut reader, mut writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        let child = fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let told = said.is_ok_and(|said| writer.write_all(&said).is_ok());
            // SAFETY: leaves without running the parent's exit handlers.
            unsafe { libc::_exit(if told { 0 } else { 1 }) }
        }
        drop(writer);
        let mut said = Vec::new();
        reader.read_to_end(&mut said).unwrap();
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child failed: status {status}");
        said
    }

    fn number(said: &[u8]) -> u64 {
        u64::from_le_bytes(said.try_into().unwrap())
    }

    fn generations() {
        for (name, fork) in ways() {
            let here = generation();
            let said = in_child(fork, || {
                let child = generation();
                let grandchild = number(&in_child(fork, || generation().to_le_bytes().to_vec()));
                assert_eq!(child, generation(), "a child keeps its number when it forks");
                [child, grandchild].into_iter().flat_map(u64::to_le_bytes).collect()
            });
            let (child, grandchild) = said.split_at(8);
            let seen: HashSet<u64> = [here, number(child), number(grandchild)].into();
            assert_eq!(seen.len(), 3, "{name}: {seen:?}");
            assert_eq!(here, generation(), "{name}: the parent keeps its number");
        }
    }

    fn births() {
        for (name, fork) in ways() {
            let birth = Birth::here();
            let said = in_child(fork, || {
                // Grandchildren of a child that never asked.
                let grandchild = in_child(fork, || vec![u8::from(birth.forked())]);
                vec![grandchild[0], u8::from(birth.forked()), u8::from(Birth::here().forked())]
            });
            assert_eq!(said, [1, 1, 0], "{name}");
            assert!(!birth.forked(), "{name}");
        }
    }

    /// The buffer of random numbers that a thread has drawn ahead is not spent twice.
    fn entropy() {
        let words = || -> Vec<u8> { (0..IDS).flat_map(|_| Entropy::os().draw_u64().unwrap().to_le_bytes()).collect() };
        words();
        for (name, fork) in ways() {
            let said = [in_child(fork, words), in_child(fork, words), words()].concat();
            let distinct: HashSet<&[u8]> = said.chunks(8).collect();
            assert_eq!(distinct.len(), 3 * IDS, "{name}");
        }
    }

    fn schemes(how: &str, fork: Fork) {
        // A clock that stands still: strict state makes parent and child go on from the same count in the same unit.
        let clock = ManualClock::at(1_767_225_600_123);
        assert_distinct(how, fork, &UuidV4::new());
        for order in [RandomOrder::Strict, RandomOrder::Thread, RandomOrder::Time] {
            assert_distinct(how, fork, &UuidV7::with_clock(clock.clone()).order(order));
            assert_distinct(how, fork, &Ulid::with_clock(clock.clone()).order(order));
            assert_distinct(how, fork, &Ksuid::with_clock(clock.clone()).order(order));
            assert_distinct(how, fork, &UuidV7::new().order(order));
            assert_distinct(how, fork, &Ulid::new().order(order));
            assert_distinct(how, fork, &Ksuid::new().order(order));
        }
    }

    /// The window is the parent's: the child mints nothing, for ever, and trims nothing.
    fn snowflake() {
        use mintage_core::{Leased, MintError};
        let reader = SnowflakeReader::new(Layout::new(41, 10, 12).unwrap(), 1_767_225_600_000);
        let clock = ManualClock::at(1_796_000_000_000);
        let ids = Snowflake::new(reader, SnowflakeSettings::default(), clock).unwrap();
        ids.grant(7, 0..1 << 48, u64::MAX);
        let before = ids.mint().unwrap();
        for (name, fork) in ways() {
            let said = in_child(fork, || {
                let first = ids.mint() == Err(MintError::Forked);
                ids.grant(8, 0..1 << 48, u64::MAX);
                let granted = ids.mint() == Err(MintError::Forked);
                let batch = ids.mint_batch(&mut [0; 4]) == Err(MintError::Forked);
                vec![u8::from(first), u8::from(granted), u8::from(batch)]
            });
            assert_eq!(said, [1, 1, 1], "{name}");
        }
        assert_eq!(ids.mint(), Ok(before + 1), "the parent goes on where it was");
    }

    /// A minter that has been used, two children and the parent, one id at a time and in batches: all different.
    fn assert_distinct<S: IdScheme>(how: &str, fork: Fork, scheme: &S) {
        let name = format!("{} {:?} by {how}", scheme.info().name, scheme.info().order);
        let mint = || -> Vec<u8> {
            let mut ids: Vec<S::Bits> = (0..IDS / 2).map(|_| scheme.mint().unwrap()).collect();
            let mut batch = vec![S::Bits::default(); IDS / 2];
            assert_eq!(scheme.mint_batch(&mut batch), Ok(IDS / 2));
            ids.append(&mut batch);
            let texts: Vec<String> = ids.into_iter().map(|id| id.to_any().to_hex()).collect();
            texts.join("\n").into_bytes()
        };
        use mintage_core::IdBits;
        let said = [mint(), in_child(fork, mint), in_child(fork, mint), mint()];
        let said: Vec<String> = said.into_iter().map(|said| String::from_utf8(said).unwrap()).collect();
        let distinct: HashSet<&str> = said.iter().flat_map(|said| said.lines()).collect();
        assert_eq!(distinct.len(), 4 * IDS, "{name}: an id was made twice");
        println!("fork: {name} ok");
    }
}
