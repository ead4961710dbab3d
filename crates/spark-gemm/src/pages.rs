//! A hint about the pages under large memory.
//!
//! ```text
//! 4 KiB pages    a fault each at the first touch, which costs more than to clear the page
//! take_pages     all faults of a range in one call
//! ```
//!
//! A hint the system does not know or cannot follow changes nothing but the time.
//!
//! Deliberately absent: pages set aside beforehand, which only an administrator can do.

#![allow(unsafe_code, reason = "a hint is a system call on addresses")]

/// The largest ordinary page of x86-64 and AArch64.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;
/// Less is not worth a system call.
#[cfg(target_os = "linux")]
const TAKEN_BYTES: usize = 128 << 10;

/// Takes the pages of `memory` now: for what is about to be written from end to end.
pub fn take_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        let bytes = memory.as_ptr_range();
        let start = bytes.start.addr().next_multiple_of(PAGE_BYTES);
        let end = bytes.end.addr() / PAGE_BYTES * PAGE_BYTES;
        if start < end && end - start >= TAKEN_BYTES {
            // SAFETY: whole pages inside memory that this slice borrows, touched as a write of what is there would. Where
            // the system refuses, pages come at the first touch.
            unsafe {
                libc::madvise(
                    start as *mut libc::c_void,
                    end - start,
                    libc::MADV_POPULATE_WRITE,
                )
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
