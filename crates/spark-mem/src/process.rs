//! Which process this is: a child of `fork` has its parent's values, and none of the driver's threads.
//!
//! ```text
//! own() = number of the process, and how many forks lie between the first one and it
//! ```
//!
//! The number alone does not tell: in a container parent and child may both be process 1 of their own.
//!
//! Deliberately absent: processes made by `clone` alone under the same number, of which nobody is told.

#![allow(unsafe_code, reason = "asks the C library to be told of forks")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// Forks between the process that asked first and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static IS_TOLD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKS.fetch_add(1, SeqCst);
}

/// A number that a process shares with none of its children.
pub(crate) fn own() -> u64 {
    if !IS_TOLD.swap(true, SeqCst) {
        // SAFETY: the function is called in a child before `fork` returns, where it adds to a number:
        // nothing that is not allowed there. Without memory for it the number of the process is left.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
    u64::from(FORKS.load(SeqCst)) << 32 | u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stays_itself_and_a_child_differs_by_more_than_its_number() {
        let before = own();
        assert_eq!(own(), before);
        let forks_of_child = || {
            // SAFETY: the child calls nothing but what may be called between fork and exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let forks = (own() >> 32) as i32;
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(forks) };
            }
            let mut status = 0;
            // SAFETY: a child of this process, and a number to write to.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WEXITSTATUS(status)
        };
        assert_eq!(forks_of_child(), (before >> 32) as i32 + 1);
        assert_eq!(own(), before);
    }
}
