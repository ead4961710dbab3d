//! The system's allocator, watched: what the calling thread asks for, and how much of it at once.
//!
//! ```text
//! #[global_allocator]
//! static ALLOCATOR: Measuring = Measuring;        once per program that watches
//!
//! let watch = Watch::start();  ..  watch.peak()
//! ```

#![allow(
    unsafe_code,
    reason = "a global allocator that measures is unsafe to implement"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that counts what each thread takes.
#[derive(Debug)]
pub struct Measuring;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

fn note_allocated(size: usize) {
    // Threads that end may allocate after their counters are gone.
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(size);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
    });
}

fn note_freed(size: usize) {
    // Memory another thread has allocated was not counted here.
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(size)));
}

// SAFETY: every method hands its arguments unchanged to the system's allocator, whose
// contract is the caller's; the counters only touch constant-initialised thread-local
// cells without destructors, so they neither allocate nor unwind.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: `layout` is the caller's, as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocated(layout.size());
        // SAFETY: `layout` is the caller's, as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may both be there while the elements are copied.
        note_allocated(new_size);
        note_freed(layout.size());
        // SAFETY: `ptr` came from this allocator, that is from the system's, with `layout`;
        // `new_size` is the caller's.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note_freed(layout.size());
        // SAFETY: `ptr` came from the system's allocator with `layout`, as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// What this thread takes from now on; one at a time.
#[derive(Debug)]
pub struct Watch {
    held: usize,
    requests: usize,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Panics
    ///
    /// If [`Measuring`] is not this program's allocator: nothing would ever be seen.
    pub fn start() -> Self {
        let before = REQUESTS.get();
        drop(std::hint::black_box(Box::new(0_u8)));
        assert!(
            REQUESTS.get() > before,
            "`Measuring` is not this program's allocator"
        );
        PEAK.set(HELD.get());
        LARGEST.set(0);
        Self {
            held: HELD.get(),
            requests: REQUESTS.get(),
        }
    }

    /// Bytes held now beyond those held at the start.
    #[must_use]
    pub fn held_now(&self) -> usize {
        HELD.get().saturating_sub(self.held)
    }

    /// Bytes of the largest single request.
    #[must_use]
    pub fn largest(&self) -> usize {
        LARGEST.get()
    }

    /// Most bytes held at once beyond those held at the start.
    #[must_use]
    pub fn peak(&self) -> usize {
        PEAK.get() - self.held
    }

    /// How often memory was asked for.
    #[must_use]
    pub fn requests(&self) -> usize {
        REQUESTS.get() - self.requests
    }
}
