//! Hints about the pages under large memory.
//!
//! ```text
//! 4 KiB pages       a fault each at the first touch, which costs more than to clear the page
//! take_pages        all faults of a range in one call
//! give_back_pages   what an allocator keeps for later, when memory is freed, without its pages
//! ```
//!
//! A hint the system does not know or cannot follow changes nothing but the time and how much memory is held.
//!
//! Deliberately absent: pages set aside beforehand, which only an administrator can do.

#![allow(unsafe_code, reason = "a hint is a system call on addresses")]

use std::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

/// Less is not worth a system call.
const LEAST_BYTES: usize = 32 << 10;

/// Takes the pages of `memory` now: for what is about to be written from end to end.
pub fn take_pages<T>(memory: &[T]) {
    let bytes = memory.as_ptr_range();
    let pages = whole_pages(bytes.start.addr(), bytes.end.addr());
    // SAFETY: whole pages inside memory that this slice borrows, touched as a write of what is there would.
    #[cfg(target_os = "linux")]
    unsafe {
        advise(pages, libc::MADV_POPULATE_WRITE)
    };
    #[cfg(not(target_os = "linux"))]
    let _ = pages;
}

/// Gives the pages of `memory` back to the system: for what is about to be freed, by an allocator that would keep them. What
/// is there is lost: pages that are the process's own are zeros afterwards.
pub fn give_back_pages<T: FromBytes + IntoBytes>(memory: &mut [T]) {
    let bytes = memory.as_mut_ptr_range();
    let pages = whole_pages(bytes.start.addr(), bytes.end.addr());
    // SAFETY: whole pages inside memory that is this slice's alone; whatever is there afterwards is a `T`.
    #[cfg(target_os = "linux")]
    unsafe {
        advise(pages, libc::MADV_DONTNEED)
    };
    #[cfg(not(target_os = "linux"))]
    let _ = pages;
}

/// An ordinary page of this system.
pub(crate) fn page_bytes() -> usize {
    // The largest one of x86-64 and AArch64.
    const MOST: usize = 64 << 10;
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page)
            .ok()
            .filter(|&page| page > 0)
            .unwrap_or(MOST)
    }
    #[cfg(not(target_os = "linux"))]
    MOST
}

/// The whole pages from one address to another, if they are worth a system call.
fn whole_pages(start: usize, end: usize) -> Option<Range<usize>> {
    let page = page_bytes();
    let start = start.next_multiple_of(page);
    let end = end / page * page;
    (end.saturating_sub(start) >= LEAST_BYTES).then_some(start..end)
}

/// Gives `advice` on `pages`. Where the system refuses, all stays as it is.
///
/// # Safety
///
/// They must be the caller's, who must be content with what the advice does to what they hold.
#[cfg(target_os = "linux")]
unsafe fn advise(pages: Option<Range<usize>>, advice: libc::c_int) {
    if let Some(pages) = pages {
        // SAFETY: forwarded.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), advice) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours keep what they have, whether or not the system takes the pages between them.
    #[test]
    fn only_what_is_given_back_is_lost() {
        let mut memory = vec![7_u32; 1 << 20];
        let (before, rest) = memory.split_at_mut(1000);
        let (given, after) = rest.split_at_mut(900_000);
        give_back_pages(given);
        assert!(before.iter().chain(&*after).all(|&v| v == 7));
        assert!(given.iter().all(|&v| v == 7 || v == 0));
        #[cfg(target_os = "linux")]
        assert!(given.iter().filter(|&&v| v == 0).count() > 800_000);
        give_back_pages(&mut given[..5]);
        take_pages(given);
    }
}
