//! Address space taken at once, which becomes memory page by page.
//!
//! ```text
//! reserve    [ head | 2 MiB | 2 MiB | ... | tail ]     zeros, huge pages where the system has them
//!                   ^ first element
//! give_back         [ whole pages inside a range ]     zeros again, and no memory
//! ```
//!
//! It begins where a huge page does, as what the allocator hands out seldom does: of 5 MB from there one page of 2 MiB is
//! huge or two, of less than 2 MiB none, and a processor prefetches no further than to the end of a page. On one core of a
//! Zen 4 EPYC weights come from memory at 27 GB/s instead of 18.
//!
//! Only on Linux; elsewhere nothing is reserved, and callers take memory of the allocator.

#![allow(
    unsafe_code,
    reason = "memory of the system itself, by mmap and its kin"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::pages::page_bytes;

/// A huge page of x86-64, and of AArch64 with pages of 4 KiB.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Zeros of the system.
#[derive(Debug)]
pub(crate) struct Region {
    first: NonNull<f32>,
    len: usize,
    /// What was mapped: where, and how many bytes.
    #[cfg(target_os = "linux")]
    mapping: (NonNull<libc::c_void>, usize),
}

// SAFETY: plain memory, which belongs to the parts of the region, each of which has one owner.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Room for `len` elements, or nothing where the system refuses.
    pub(crate) fn reserve(len: usize) -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            let bytes = len.checked_mul(size_of::<f32>())?;
            let mapped = bytes.checked_add(HUGE_BYTES)?;
            // SAFETY: a new private mapping without a file; the arguments follow mmap(2).
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    mapped,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            let start = NonNull::new(start)?;
            let head = start.addr().get().wrapping_neg() % HUGE_BYTES;
            // SAFETY: `head` is less than a huge page, which was mapped besides.
            let first = unsafe { start.byte_add(head) };
            // SAFETY: pages inside the mapping; a hint, which changes no contents and may be refused.
            unsafe { libc::madvise(first.as_ptr(), bytes, libc::MADV_HUGEPAGE) };
            Some(Self {
                first: first.cast(),
                len,
                mapping: (start, mapped),
            })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = len;
            None
        }
    }

    /// Elements that there is room for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the pages that lie whole inside elements `start..end` back to the system; they are zeros again.
    ///
    /// # Safety
    ///
    /// Nobody may own one of these elements, or borrow it.
    pub(crate) unsafe fn give_back(&self, start: usize, end: usize) {
        #[cfg(target_os = "linux")]
        {
            let page = page_bytes();
            let from = (start * size_of::<f32>()).next_multiple_of(page);
            let to = end.min(self.len) * size_of::<f32>() / page * page;
            if from < to {
                // SAFETY: whole pages of this mapping, which begins at one, and which nobody uses, as the caller promises.
                unsafe {
                    let first = self.first.byte_add(from);
                    libc::madvise(first.as_ptr().cast(), to - from, libc::MADV_DONTNEED)
                };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, end);
    }
}

#[cfg(target_os = "linux")]
impl Drop for Region {
    fn drop(&mut self) {
        let (start, bytes) = self.mapping;
        // SAFETY: what `reserve` mapped, given back once; parts keep the region alive. Nothing is left to do if the system
        // refuses.
        unsafe { libc::munmap(start.as_ptr(), bytes) };
    }
}

/// Some elements of a region, from the beginning of a page on, which belong to whoever has the part, with the rest of the last
/// page. All these pages are given back with it.
#[derive(Debug)]
pub(crate) struct Part {
    region: Arc<Region>,
    start: usize,
    len: usize,
}

impl Part {
    /// Elements `start..start + len` of `region`.
    ///
    /// # Safety
    ///
    /// They must lie inside of it, begin at a page, be in no other part with what their last page has behind them, and never
    /// have been in one.
    pub(crate) unsafe fn new(region: Arc<Region>, start: usize, len: usize) -> Self {
        debug_assert!(start + len <= region.len, "a part lies inside its region");
        debug_assert!(
            start.is_multiple_of(page_bytes() / size_of::<f32>()),
            "a part begins at a page"
        );
        Self { region, start, len }
    }

    /// The elements.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[f32] {
        // SAFETY: elements of a mapping that the region keeps; they are this part's alone, and every pattern is an f32.
        unsafe {
            let first = self.region.first.add(self.start);
            std::slice::from_raw_parts(first.as_ptr(), self.len)
        }
    }

    /// The elements, to be written.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as in `as_slice`, borrowed as this part is.
        unsafe {
            let first = self.region.first.add(self.start);
            std::slice::from_raw_parts_mut(first.as_ptr(), self.len)
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The last part takes the whole region with it.
        if Arc::strong_count(&self.region) > 1 {
            let end = (self.start + self.len).next_multiple_of(page_bytes() / size_of::<f32>());
            // SAFETY: whole pages that are this part's, whose owner gives it up.
            unsafe { self.region.give_back(self.start, end) };
        }
    }
}
