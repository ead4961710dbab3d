//! A matmul that is small enough for the L1 cache, to measure what the processor can do.

#![allow(unsafe_code, reason = "runs a kernel on its own operands")]

use std::ops::Range;
use std::time::{Duration, Instant};

use spark_parallel::Pool;
use spark_simd::Isa;

use crate::epilogue::TileEpilogue;
use crate::float_format::FloatFormat;
use crate::gemm::{Gemm, gemm_panel};
use crate::layout::PackedLayout;
use crate::memory::{AlignedF32, WeightMemory};
use crate::panel::panels;
use crate::weights::WeightShape;

/// A matmul whose operands stay in the L1 cache.
pub(crate) struct SmallGemm {
    isa: Isa,
    layout: PackedLayout,
    x: Vec<f32>,
    packed: AlignedF32,
    y: Vec<f32>,
}

impl SmallGemm {
    const M: usize = 24;
    const K: usize = 64;
    const N: usize = 48;
    /// Multiply-accumulate operations of one run.
    pub(crate) const MACS: usize = Self::M * Self::K * Self::N;

    /// A small GEMM whose operands are all ones, packed in `layout`.
    pub(crate) fn new(isa: Isa, layout: PackedLayout) -> Self {
        let shape = WeightShape {
            groups: 1,
            taps: 1,
            depth: Self::K,
        };
        let ones = |_, columns: Range<usize>, to: &mut [f32], width: usize| {
            for row in to.chunks_exact_mut(width) {
                row[..columns.len()].fill(1.0);
            }
        };
        let packed = layout.pack(
            isa,
            shape,
            0..Self::N,
            ones,
            &WeightMemory::default(),
            &Pool::new(1),
        );
        Self {
            isa,
            layout,
            x: vec![1.0; Self::M * Self::K],
            packed,
            y: vec![0.0; Self::M * Self::N],
        }
    }

    /// Computes the GEMM once, on the calling thread.
    pub(crate) fn run(&mut self) {
        let gemm = Gemm {
            x: self.x.as_ptr(),
            x_format: FloatFormat::F32,
            x_stride: Self::K as isize,
            y: self.y.as_mut_ptr(),
            y_stride: Self::N as isize,
            residual: std::ptr::null(),
            residual_stride: 0,
            m: Self::M,
            k: Self::K,
            n: Self::N,
            layout: self.layout,
            epilogue: TileEpilogue::none(self.isa),
        };
        for panel in panels(self.isa, Self::N) {
            let packed = self.packed.as_slice().as_ptr();
            // SAFETY: the vectors are as long as the shape says, and `packed` was packed for it.
            unsafe { gemm_panel(self.isa, &gemm, packed, panel, (0, Self::M)) };
        }
    }

    /// The results that [`SmallGemm::run`] left, `[M, N]` row-major.
    pub(crate) fn results(&self) -> &[f32] {
        &self.y
    }

    /// The fastest of several short series.
    pub(crate) fn fastest(&mut self) -> Duration {
        let mut series = || {
            let start = Instant::now();
            (0..8).for_each(|_| self.run());
            start.elapsed()
        };
        (0..8).map(|_| series()).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_matmul_is_a_matmul() {
        for isa in Isa::available() {
            let mut gemm = SmallGemm::new(isa, PackedLayout::F32);
            gemm.run();
            assert!(gemm.y.iter().all(|&v| v == 64.0), "{isa:?}");
        }
    }
}
