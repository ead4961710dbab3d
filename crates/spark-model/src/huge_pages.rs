//! Asks for large pages under large memory.
//!
//! Thousands of small pages cost a fault each when a model is loaded, and misses of the
//! translation buffers when its weights are streamed.
//!
//! Deliberately absent: pages set aside beforehand, which only an administrator can do.

#![allow(unsafe_code, reason = "the hint is a system call")]

/// From this size on huge pages are asked for: one of x86-64 and AArch64.
#[cfg(target_os = "linux")]
const HUGE_BYTES: usize = 2 << 20;

/// Asks for huge pages where whole ones lie inside `memory`, which should not be touched yet.
#[cfg(target_os = "linux")]
pub(crate) fn ask<T>(memory: &[T]) {
    let bytes = memory.as_ptr_range();
    let (start, end) = (bytes.start.addr(), bytes.end.addr());
    let start = start.next_multiple_of(HUGE_BYTES);
    let end = end / HUGE_BYTES * HUGE_BYTES;
    if start < end {
        // SAFETY: whole pages inside memory that this slice borrows; the hint changes no
        // contents, and nothing is lost where the system refuses it.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems choose for themselves.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ask<T>(_: &[T]) {}
