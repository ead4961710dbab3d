//! Weights of f16 in the order a product reads them, widened panel by panel.
//!
//! ```text
//! a panel of L columns   [taps][depth][L] halves     a tap of odd depth padded with a row of zeros
//! widened                [taps][depth][L] f32        every half exactly
//! ```
//!
//! These are `columns`' words of [`Columns::F16`], whose kernel widens them for every tile of
//! rows. With several tiles that costs more than to widen a panel once.

use crate::cpu::columns::Columns;
use crate::cpu::gemm::{Panel, panels};
use crate::cpu::memory::AlignedF32;
use crate::cpu::simd::{Isa, Simd, dispatch};

/// A matrix of f16.
pub(super) struct HalfPanels {
    taps: usize,
    /// Values per tap and column.
    depth: usize,
    /// Columns.
    n: usize,
    packed: AlignedF32,
}

impl HalfPanels {
    /// The matrix `packed` as [`Columns::F16`], of `n` columns and `[taps, depth]` rows.
    pub(super) fn new(packed: AlignedF32, [taps, depth]: [usize; 2], n: usize) -> Self {
        Self {
            taps,
            depth,
            n,
            packed,
        }
    }

    /// Bytes of the matrix.
    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(self.packed.as_slice())
    }

    /// Rows of the matrix: taps times values per tap.
    pub(super) fn k(&self) -> usize {
        self.taps * self.depth
    }

    /// Columns.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Values of the widest panel.
    pub(super) fn widest(&self, isa: Isa) -> usize {
        let vectors = panels(isa, self.n).map(|panel| panel.vectors).max();
        self.k() * vectors.unwrap_or(0) * isa.lanes()
    }

    /// Widens `panel` into the first `k * vectors * lanes` elements of `to`.
    ///
    /// # Panics
    ///
    /// If `to` is shorter.
    pub(super) fn widen(&self, isa: Isa, panel: Panel, to: &mut [f32]) {
        let width = panel.vectors * isa.lanes();
        let to = &mut to[..self.k() * width];
        let words = self.taps * Columns::F16.words(self.depth);
        let panel = &self.packed.as_slice()[words * panel.column..][..words * width];
        if self.depth == 0 {
            return;
        }
        let words_of_tap = Columns::F16.words(self.depth) * width;
        let taps = to.chunks_exact_mut(self.depth * width);
        for (to, from) in taps.zip(panel.chunks_exact(words_of_tap)) {
            // SAFETY: `isa` names a set this processor has; the kernel keeps to the slices.
            unsafe { dispatch!(isa, halves(from: &[f32], to: &mut [f32]) => (from, to)) }
        }
    }
}

/// As many of the halves in the words `from` as `to` has elements, a whole number of vectors.
#[inline(always)]
unsafe fn halves<S: Simd>(from: &[f32], to: &mut [f32]) {
    assert!(to.len() <= 2 * from.len() && to.len().is_multiple_of(S::LANES));
    let from = from.as_ptr().cast::<u16>();
    let to_start = to.as_mut_ptr();
    // SAFETY: offsets stay below the lengths just compared; the processor has the set.
    unsafe {
        for i in (0..to.len()).step_by(S::LANES) {
            S::store(to_start.add(i), S::load_f16(from.add(i)));
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::cpu::threads::Pool;
    use crate::plan::Weights;

    #[test]
    fn widened_panels_hold_the_nearest_halves() {
        for isa in Isa::available() {
            for (depth, n) in [(1, 1), (7, 37), (16, 130)] {
                let value = |i: usize| (i as f32 * 0.37).sin() * 2.0_f32.powi(i as i32 % 19 - 16);
                let values: Vec<f32> = (0..depth * n).map(value).collect();
                let weights = Weights::of_matrix(values.clone(), [depth, n]);
                let packed = Columns::F16.pack(isa, &weights, 0..n, |_| {}, &Pool::new(1));
                let halves = HalfPanels::new(packed, [1, depth], n);
                let mut widened = vec![f32::NAN; halves.widest(isa)];
                for panel in panels(isa, n) {
                    halves.widen(isa, panel, &mut widened);
                    let width = panel.vectors * isa.lanes();
                    for column in 0..width.min(n - panel.column) {
                        for k in 0..depth {
                            let want = f16::from_f32(values[k * n + panel.column + column]);
                            assert_eq!(widened[k * width + column], want.to_f32(), "{isa:?}");
                        }
                    }
                }
            }
        }
    }
}
