//! The `sync` of `mintage-schemes`, made of what loom can see.

use std::{ops::Deref, sync::Arc};

pub(crate) use loom::sync::{Mutex, MutexGuard};

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
}

use atomic::AtomicBool;
use loom::sync::atomic::Ordering;

/// What `arc_swap` promises: each call is one step.
#[derive(Debug)]
pub(crate) struct ArcSwap<T> {
    value: Mutex<Arc<T>>,
}

/// What was loaded.
#[derive(Debug)]
pub(crate) struct Guard<T> {
    value: Arc<T>,
}

impl<T> ArcSwap<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self { value: Mutex::new(value) }
    }

    pub(crate) fn load(&self) -> Guard<T> {
        Guard { value: Arc::clone(&self.value.lock().unwrap()) }
    }

    pub(crate) fn compare_and_swap(&self, current: &Guard<T>, new: Arc<T>) {
        let mut value = self.value.lock().unwrap();
        if Arc::ptr_eq(&value, &current.value) {
            *value = new;
        }
    }
}

impl<T> Deref for Guard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

/// Set once; whoever sees that it is set sees what it was set to.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let done = self.value.set(value);
        self.is_set.store(true, Ordering::Release);
        done
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.value.take()
    }
}
