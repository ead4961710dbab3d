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
//! the work (see [`budget`](crate::budget)). What the allocator clears it may have without touching it, so that
//! is touched too.

#![allow(unsafe_code, reason = "calls the allocator and mmap")]

use std::alloc::Layout;

const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
/// From this size on memory comes from the system: one huge page of x86-64 and AArch64.
const MAPPED_BYTES: usize = 2 << 20;
/// Pages that are touched before it is told that they are there.
const PART_BYTES: usize = 64 << 20;

/// Zeroed memory; null if there is none. `taken` is told of large parts as they come into being.
pub(crate) fn allocate_host(len_bytes: usize, taken: &mut dyn FnMut(usize)) -> *mut u8 {
    if len_bytes >= MAPPED_BYTES {
        return map(len_bytes, taken);
    }
    let Some(layout) = layout(len_bytes) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the layout has at least one byte.
    let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
    if !pointer.is_null() {
        // SAFETY: memory just allocated, which has this many bytes, holds zeros and has no other user.
        unsafe { touch(pointer, len_bytes) };
    }
    pointer
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

fn map(len_bytes: usize, taken: &mut dyn FnMut(usize)) -> *mut u8 {
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
    let pointer: *mut u8 = pointer.cast();
    for offset in (0..len_bytes).step_by(PART_BYTES) {
        let part_bytes = PART_BYTES.min(len_bytes - offset);
        // SAFETY: a part of the mapping just made, which nobody else uses; parts begin at pages.
        if !unsafe { populate(pointer.add(offset), part_bytes) } {
            // SAFETY: the mapping just made, given back once.
            unsafe { free_host(pointer, len_bytes) };
            return std::ptr::null_mut();
        }
        taken(part_bytes);
    }
    pointer
}

/// Gives every page of a part of a new mapping its memory. False if the system has none.
///
/// # Safety
///
/// The part has this many bytes, begins at a page, can be written to, and is used by nobody else.
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
    // SAFETY: the caller's promise; a page that comes into being holds zeros.
    unsafe { touch(pointer, len_bytes) };
    true
}

/// Writes a zero to every page.
///
/// # Safety
///
/// The memory has this many bytes, holds zeros, can be written to, and is used by nobody else.
unsafe fn touch(pointer: *mut u8, len_bytes: usize) {
    for offset in (0..len_bytes).step_by(PAGE_BYTES) {
        // SAFETY: the caller's promise; the offset lies inside.
        unsafe { pointer.add(offset).write_volatile(0) };
    }
}

fn layout(len_bytes: usize) -> Option<Layout> {
    let align = if len_bytes >= PAGE_BYTES {
        PAGE_BYTES
    } else {
        LINE_BYTES
    };
    Layout::from_size_align(len_bytes.max(1), align).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// How many pages of a piece of memory are there.
    fn n_resident(pointer: *const u8, len_bytes: usize) -> (usize, usize) {
        let first = pointer as usize / PAGE_BYTES * PAGE_BYTES;
        let end = (pointer as usize + len_bytes).next_multiple_of(PAGE_BYTES);
        let mut pages = vec![0_u8; (end - first) / PAGE_BYTES];
        // SAFETY: whole pages of memory that is mapped, and a byte for each.
        let asked =
            unsafe { libc::mincore(first as *mut libc::c_void, end - first, pages.as_mut_ptr()) };
        assert_eq!(asked, 0);
        (
            pages.iter().filter(|page| **page & 1 == 1).count(),
            pages.len(),
        )
    }

    #[test]
    fn memory_is_there_when_it_is_handed_out() {
        for len_bytes in [
            1,
            5000,
            1 << 20,
            MAPPED_BYTES,
            MAPPED_BYTES + 12_345,
            PART_BYTES + MAPPED_BYTES,
        ] {
            let mut parts = Vec::new();
            let pointer = allocate_host(len_bytes, &mut |part| parts.push(part));
            let (there, all) = n_resident(pointer, len_bytes);
            assert_eq!(there, all, "of {len_bytes} bytes");
            // SAFETY: memory of this many bytes, just allocated.
            let is_zero = unsafe { std::slice::from_raw_parts(pointer, len_bytes) }
                .iter()
                .all(|b| *b == 0);
            assert!(is_zero, "{len_bytes} bytes");
            let told: usize = parts.iter().sum();
            assert!(
                told == len_bytes || len_bytes < MAPPED_BYTES && told == 0,
                "{parts:?}"
            );
            assert!(parts.iter().all(|part| *part <= PART_BYTES), "{parts:?}");
            // SAFETY: it came from there and goes back once.
            unsafe { free_host(pointer, len_bytes) };
        }
    }
}
