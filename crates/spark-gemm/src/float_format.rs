//! How floats of an operand or a result lie in memory, where either way is possible.
//!
//! ```text
//! f32    4 bytes; where dot products of bf16 read them, values of bf16 as f32
//! bf16   2 bytes: what dot products take in pairs, and half of the memory traffic
//! ```
//!
//! Pointers to elements are `*const f32` whichever it is, as those of packed weights are: the format says what lies
//! there and how far apart elements are.

/// How floats lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FloatFormat {
    /// f32.
    #[default]
    F32,
    /// bf16, without gaps.
    Bf16,
}

impl FloatFormat {
    /// Bytes of one element.
    #[inline(always)]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// The place `elements` elements from `p`.
    #[inline(always)]
    pub const fn offset(self, p: *const f32, elements: isize) -> *const f32 {
        p.wrapping_byte_offset(elements * self.size_bytes() as isize)
    }

    /// The same for a place that is written.
    #[inline(always)]
    pub const fn offset_mut(self, p: *mut f32, elements: isize) -> *mut f32 {
        p.wrapping_byte_offset(elements * self.size_bytes() as isize)
    }
}
