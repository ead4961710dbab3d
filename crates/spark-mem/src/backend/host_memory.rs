//! Plain memory of the host, zeroed.
//!
//! ```text
//! up to a page     the allocator, on a cache line
//! up to 2 MiB      the allocator, on a page, as direct I/O needs it
//! from 2 MiB on    pages of the system, in huge pages where it has some
//! ```
//!
//! All of it is there when it is handed out. Pages that come into being when they are touched would
//! be promised over and over to a machine that has them once; a GB10 then freezes in the middle of
//! the work (see [`budget`](crate::budget)). The allocator clears aligned memory by writing to it.

#![allow(unsafe_code, reason = "calls the allocator and mmap")]

use std::alloc::Layout;

const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
/// From this size on memory comes from the system: one huge page of x86-64 and AArch64.
const MAPPED_BYTES: usize = 2 << 20;

/// Zeroed memory; null if there is none.
pub(crate) fn allocate_host(len_bytes: usize) -> *mut u8 {
    if len_bytes >= MAPPED_BYTES {
        return map(len_bytes);
    }
    match layout(len_bytes) {
        // SAFETY: the layout has at least one byte.
        Some(layout) => unsafe { std::alloc::alloc_zeroed(layout) },
        None => std::ptr::null_mut(),
    }
}

/// # Safety
///
/// `pointer` came from `allocate_host(len_bytes)` and is given back once.
pub(crate) unsafe fn free_host(pointer: *mut u8, len_bytes: usize) {
    if len_bytes >= MAPPED_BYTES {
        // SAFETY: the caller's promise: a mapping of this length. Nothing is left to do if
        // the system refuses.
        let _ = unsafe { libc::munmap(pointer.cast(), len_bytes) };
    } else if let Some(layout) = layout(len_bytes) {
        // SAFETY: the caller's promise; the layout follows from the length alone.
        unsafe { std::alloc::dealloc(pointer, layout) };
    }
}

fn map(len_bytes: usize) -> *mut u8 {
    // SAFETY: a new private mapping without a file; the arguments follow mmap(2).
    let pointer = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if pointer == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    // SAFETY: the mapping just made; a hint that changes no contents and may be refused.
    let _ = unsafe { libc::madvise(pointer, len_bytes, libc::MADV_HUGEPAGE) };
    let pointer = pointer.cast();
    // SAFETY: the mapping just made, which has this many bytes and no other user.
    if unsafe { populate(pointer, len_bytes) } {
        return pointer;
    }
    // SAFETY: the mapping just made, given back once.
    unsafe { free_host(pointer, len_bytes) };
    std::ptr::null_mut()
}

/// Gives every page of a new mapping its memory. False if the system has none.
///
/// # Safety
///
/// The mapping has this many bytes, can be written to, and is used by nobody else.
unsafe fn populate(pointer: *mut u8, len_bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the caller's promise; contents do not change.
        let refused =
            unsafe { libc::madvise(pointer.cast(), len_bytes, libc::MADV_POPULATE_WRITE) };
        if refused == 0 {
            return true;
        }
        let error = std::io::Error::last_os_error().raw_os_error();
        // Linux before 5.14 does not know it.
        if error != Some(libc::EINVAL) {
            return false;
        }
    }
    for offset in (0..len_bytes).step_by(PAGE_BYTES) {
        // SAFETY: the caller's promise; the offset lies inside. A page that comes into being holds
        // zeros, so that this changes nothing.
        unsafe { pointer.add(offset).write_volatile(0) };
    }
    true
}

fn layout(len_bytes: usize) -> Option<Layout> {
    let align = if len_bytes >= PAGE_BYTES {
        PAGE_BYTES
    } else {
        LINE_BYTES
    };
    Layout::from_size_align(len_bytes.max(1), align).ok()
}
