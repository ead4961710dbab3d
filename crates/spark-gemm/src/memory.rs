//! Memory for packed weights: on cache lines, in huge pages.

use zerocopy::FromZeros;

use crate::pages::huge_pages;

/// f32 of a cache line, which is also one AVX-512 vector.
const LINE: usize = 16;

/// A run of f32 that starts on a cache line.
///
/// Large ones come as pages that the system clears when they are first touched, so that memory
/// which is about to be filled is not written twice.
#[derive(Debug)]
pub struct AlignedF32 {
    memory: Vec<f32>,
    /// Elements before the first line.
    head: usize,
    len: usize,
}

impl AlignedF32 {
    /// `len` zeros.
    ///
    /// # Panics
    ///
    /// If the system refuses them.
    pub fn zeros(len: usize) -> Self {
        // More than there can be is refused by the allocation.
        Self::around(vec![0.0_f32; len.saturating_add(LINE - 1)], len)
    }

    /// `len` zeros, or nothing where the system refuses.
    pub fn try_zeros(len: usize) -> Option<Self> {
        let memory = f32::new_vec_zeroed(len.checked_add(LINE - 1)?).ok()?;
        Some(Self::around(memory, len))
    }

    fn around(memory: Vec<f32>, len: usize) -> Self {
        let head = memory.as_ptr().addr().wrapping_neg() % (4 * LINE) / 4;
        huge_pages(&memory);
        Self { memory, head, len }
    }

    /// `values`, then zeros up to `len`.
    ///
    /// # Panics
    ///
    /// If `len` is less than there are values, or the system refuses.
    pub fn padded(values: &[f32], len: usize) -> Self {
        let mut padded = Self::zeros(len);
        padded.as_mut_slice()[..values.len()].copy_from_slice(values);
        padded
    }

    /// Number of f32 elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// All elements, to be written; the first lies at the start of a cache line.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.memory[self.head..][..self.len]
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All elements; the first lies at the start of a cache line.
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        &self.memory[self.head..][..self.len]
    }
}
