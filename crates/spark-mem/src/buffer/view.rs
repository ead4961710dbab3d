//! Parts of buffers, as device work takes them.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::backend::place::{Place, RawMemory, place_of};
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::{Access, Allocation};

macro_rules! view {
    ($(#[doc = $doc:literal])* $name:ident, $marker:ty, $writes:literal) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub struct $name<'a, T: Element> {
            allocation: &'a Arc<Allocation>,
            offset_bytes: usize,
            len: usize,
            elements: PhantomData<$marker>,
        }

        impl<'a, T: Element> $name<'a, T> {
            /// `first` and `len` lie inside the allocation.
            pub(super) fn new(allocation: &'a Arc<Allocation>, first: usize, len: usize) -> Self {
                let offset_bytes = first * size_of::<T>();
                debug_assert!(
                    offset_bytes + len * size_of::<T>() <= allocation.memory().len_bytes,
                    "a view outside its memory"
                );
                Self {
                    allocation,
                    offset_bytes,
                    len,
                    elements: PhantomData,
                }
            }

            pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
                self.allocation
            }

            /// Number of elements, not of bytes.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it holds nothing.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Its size in bytes.
            #[must_use]
            pub fn len_bytes(&self) -> usize {
                self.len * size_of::<T>()
            }

            /// The same bytes as elements of another type.
            ///
            /// # Errors
            ///
            /// [`MemError::Misaligned`] unless they begin where that type needs it;
            /// [`MemError::LengthMismatch`] (in bytes) unless they are a whole number of its elements.
            pub fn reinterpret<U: Element>(self) -> Result<$name<'a, U>, MemError> {
                let (memory, align) = (self.allocation.memory(), align_of::<U>());
                let base = memory.device | memory.host as u64;
                let is_aligned = base.is_multiple_of(align as u64)
                    && self.offset_bytes.is_multiple_of(size_of::<U>());
                if !is_aligned {
                    return Err(MemError::Misaligned {
                        offset: self.offset_bytes,
                        align: size_of::<U>(),
                    });
                }
                let (got, len) = (self.len_bytes(), self.len_bytes() / size_of::<U>());
                if got != len * size_of::<U>() {
                    return Err(MemError::LengthMismatch {
                        what: "view",
                        got,
                        want: len * size_of::<U>(),
                    });
                }
                let first = self.offset_bytes / size_of::<U>();
                Ok($name::new(self.allocation, first, len))
            }

            /// What work on it uses.
            pub(crate) fn access(&self) -> Access<'a> {
                let bytes = self.offset_bytes..self.offset_bytes + self.len_bytes();
                Access::new(self.allocation, bytes, $writes)
            }

            pub(crate) fn place(&self) -> Place {
                place_of(self.allocation.memory(), self.offset_bytes)
            }

            /// The device's address; 0 for no bytes at all.
            ///
            /// # Errors
            ///
            /// [`MemError::NotOnDevice`].
            pub fn device_address(&self) -> Result<u64, MemError> {
                let memory = self.allocation.memory();
                match memory.device {
                    0 if memory.len_bytes == 0 => Ok(0),
                    0 => Err(MemError::NotOnDevice { kind: memory.kind }),
                    device => Ok(device + self.offset_bytes as u64),
                }
            }
        }
    };
}

view!(
    /// Elements of a buffer that the device reads.
    View, &'a [T], false
);
view!(
    /// Elements of a buffer that the device writes.
    ViewMut, &'a mut [T], true
);

impl<T: Element> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for View<'_, T> {}

impl<'a, T: Element> ViewMut<'a, T> {
    /// The same elements, for the device to read.
    #[must_use]
    pub fn into_view(self) -> View<'a, T> {
        View {
            allocation: self.allocation,
            offset_bytes: self.offset_bytes,
            len: self.len,
            elements: PhantomData,
        }
    }
}

impl<'a, T: Element> View<'a, T> {
    /// The same bytes as another type; the caller has checked that they lie and end where
    /// `U` needs it.
    pub(crate) fn cast<U: Element>(self) -> View<'a, U> {
        let len = self.len_bytes() / size_of::<U>();
        debug_assert!(self.offset_bytes.is_multiple_of(size_of::<U>()));
        View::new(self.allocation, self.offset_bytes / size_of::<U>(), len)
    }

    pub(crate) fn raw_memory(&self) -> RawMemory {
        let memory = self.allocation.memory();
        RawMemory {
            host: memory.host.wrapping_add(self.offset_bytes),
            device: memory.device + self.offset_bytes as u64,
            len_bytes: self.len_bytes(),
            kind: memory.kind,
        }
    }
}
