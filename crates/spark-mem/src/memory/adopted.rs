//! Memory of the program that a buffer took over: a `Vec`, its type taken off.
//!
//! ```text
//! Vec<T> ──> Adopted ──> Buffer<T> ──> Vec<T>      the elements stay where they are
//!                           └─ drop ─> allocator
//! ```
//!
//! It knows nothing of devices: whoever owns it waits for their work first.

#![allow(unsafe_code, reason = "takes a Vec apart and puts it together")]

use std::alloc::Layout;
use std::mem::ManuallyDrop;

use crate::element::Element;

/// The memory of a `Vec`, owned.
#[derive(Debug)]
pub(crate) struct Adopted {
    pointer: *mut u8,
    len: usize,
    capacity: usize,
    /// What the allocator was asked for; no bytes where it was not.
    layout: Layout,
}

// SAFETY: it owns plain bytes of the allocator, which any thread may use and give back.
unsafe impl Send for Adopted {}
// SAFETY: as above; nothing of it can be changed through a shared reference.
unsafe impl Sync for Adopted {}

impl Adopted {
    pub(crate) fn new<T: Element>(values: Vec<T>) -> Self {
        // The layout of what a `Vec` allocates, which it has already computed once.
        let layout = Layout::array::<T>(values.capacity()).unwrap_or(Layout::new::<()>());
        let mut values = ManuallyDrop::new(values);
        Self {
            pointer: values.as_mut_ptr().cast(),
            len: values.len(),
            capacity: values.capacity(),
            layout,
        }
    }

    /// Where the elements begin; dangling if there are none.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// The `Vec` it was.
    ///
    /// # Panics
    ///
    /// If `T` is laid out unlike the elements it was made of: a buffer never changes its type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert_eq!(Layout::array::<T>(self.capacity), Ok(self.layout));
        let parts = ManuallyDrop::new(self);
        // SAFETY: the parts come from a `Vec` whose elements had this size and alignment;
        // every bit pattern is an element; nobody else owns them now.
        unsafe { Vec::from_raw_parts(parts.pointer.cast(), parts.len, parts.capacity) }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: a `Vec` got the memory from the allocator with this layout; this value
            // is its only owner, and elements need no drop.
            unsafe { std::alloc::dealloc(self.pointer, self.layout) };
        }
    }
}
