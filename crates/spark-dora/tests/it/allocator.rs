//! The system's allocator, watched: how much the calling thread holds at once.

#![allow(
    unsafe_code,
    reason = "a global allocator that measures is unsafe to implement"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what one thread allocates.
struct Measuring;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn note_allocated(size: usize) {
    // Threads that end may allocate after their counters are gone.
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(size);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
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

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// What this thread takes from now on; one at a time.
pub(crate) struct Watch {
    held: usize,
}

impl Watch {
    pub(crate) fn start() -> Self {
        PEAK.set(HELD.get());
        Self { held: HELD.get() }
    }

    /// Bytes held now beyond those held at the start.
    #[allow(dead_code, reason = "the bench asks for peaks alone")]
    pub(crate) fn held_now(&self) -> usize {
        HELD.get().saturating_sub(self.held)
    }

    /// Most bytes held at once beyond those held at the start.
    pub(crate) fn peak(&self) -> usize {
        PEAK.get() - self.held
    }
}

#[test]
fn the_allocator_sees_what_this_thread_takes() {
    let watch = Watch::start();
    let list = vec![1u8; 1 << 20];
    assert!(watch.peak() >= list.len());
    assert_eq!(watch.held_now(), list.len());
    drop(list);
    assert_eq!(watch.held_now(), 0);
}
