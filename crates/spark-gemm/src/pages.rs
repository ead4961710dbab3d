//! Hints about the pages under large memory.
//!
//! ```text
//! 4 KiB pages    a fault each at the first touch, which costs more than to clear the page
//! huge_pages     fewer faults, and fewer misses of the translation buffers for good
//! take_pages     all faults of a range in one call
//! ```
//!
//! A hint the system does not know or cannot follow changes nothing but the time.
//!
//! Deliberately absent: pages set aside beforehand, which only an administrator can do.

#![allow(unsafe_code, reason = "a hint is a system call on addresses")]

/// Asks for huge pages where whole ones lie inside `memory`, which should not be touched yet:
/// for what is read again and again.
pub fn huge_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    advise(memory, HUGE_BYTES, HUGE_BYTES, libc::MADV_HUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Takes the pages of `memory` now: for what is about to be written from end to end.
pub fn take_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    advise(memory, PAGE_BYTES, TAKEN_BYTES, libc::MADV_POPULATE_WRITE);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// A huge page of x86-64 and AArch64.
#[cfg(target_os = "linux")]
const HUGE_BYTES: usize = 2 << 20;
/// The largest ordinary page of either.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;
/// Less is not worth a system call.
#[cfg(target_os = "linux")]
const TAKEN_BYTES: usize = 128 << 10;

/// Gives `advice` on the pages of `page` bytes that lie inside `memory`, if they are `least` bytes.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &[T], page: usize, least: usize, advice: libc::c_int) {
    let bytes = memory.as_ptr_range();
    let start = bytes.start.addr().next_multiple_of(page);
    let end = bytes.end.addr() / page * page;
    if start < end && end - start >= least {
        // SAFETY: whole pages inside memory that this slice borrows. Neither hint changes
        // contents: one is about the size of pages, the other touches them as a write of what is
        // there would. Where the system refuses, pages come at the first touch.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, advice) };
    }
}
