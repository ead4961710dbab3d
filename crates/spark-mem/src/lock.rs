//! Mutexes that a panic elsewhere does not close: what they protect is whole between two statements.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a thread has panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the lock away until somebody tells of a change, and takes it again.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
