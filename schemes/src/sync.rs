//! What threads share is built from these. They are named in one place because `tests/interleavings` compiles the same files
//! around others, with which it tries every order in which threads can meet.

pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

pub(crate) use arc_swap::ArcSwap;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
}
