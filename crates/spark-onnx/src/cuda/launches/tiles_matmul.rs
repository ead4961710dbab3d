//! Products of two computed matrices on tensor cores, as `kernels/plan_tiles_matmul.cu` computes them.
//!
//! Both operands are f16, their rows begin at multiples of 16 bytes, and k or n is side by side in b; other products are the
//! plain kernel's.

use super::tiles::{Tile, is_profitable};
use super::{Launch, Launching, Work};
use crate::cuda::blocks::Stored;
use crate::cuda::refused::Refused;
use crate::cuda::structures::{BATCH_AXES, MatMul, Strided};
use crate::cuda::variants::TilesMatMulKernel;
use crate::cuda::walk::{count, product};

/// What addresses are multiples of, in bytes, and strides in elements.
const ALIGNED_BYTES: u64 = 16;
const ALIGNED: i64 = 8;
/// Where views have the axes of their matrix.
const ROW: usize = BATCH_AXES;
const COLUMN: usize = BATCH_AXES + 1;

impl TilesMatMulKernel {
    fn tile(self) -> Tile {
        match self {
            Self::Nk64x64 | Self::Kn64x64 => Tile::OF_64X64,
            Self::Nk32x32 | Self::Kn32x32 => Tile::OF_32X32,
        }
    }

    fn choose(k_is_inner: bool, batch: usize, extents: [usize; 3]) -> Self {
        let all = match k_is_inner {
            true => [Self::Nk64x64, Self::Nk32x32],
            false => [Self::Kn64x64, Self::Kn32x32],
        };
        let [large, small] = all;
        let cost = |kernel: Self| kernel.tile().cost(batch, extents, 1);
        if cost(small) < cost(large) {
            small
        } else {
            large
        }
    }
}

impl Launching<'_> {
    /// The launch of a product whose extents have been found to fit; nothing where it is the plain kernel's.
    pub(super) fn matmul_in_tiles(&self, work: &MatMul) -> Result<Option<Launch>, Refused> {
        let [m, n, k] = [work.m, work.n, work.k].map(|extent| extent as usize);
        if !is_profitable([m, n, k]) {
            return Ok(None);
        }
        let batch = product(work.batch.map(|extent| extent as usize))? as usize;
        // An axis with one position may have any stride.
        let is_one =
            |view: &Strided, axis: usize, extent: usize| extent <= 1 || view.strides[axis] == 1;
        let is_aligned = |view: &Strided, axis: usize, extent: usize| {
            extent <= 1 || view.strides[axis] % ALIGNED == 0
        };
        let has_pieces = |view: &Strided| {
            let mut axes = work.batch.iter().enumerate();
            view.place.storage == Stored::F16 as u32
                && view.place.offset.is_multiple_of(ALIGNED_BYTES)
                && axes.all(|(axis, &extent)| is_aligned(view, axis, extent as usize))
        };
        let (a, b) = (&work.a, &work.b);
        let a_fits = has_pieces(a) && is_one(a, COLUMN, k) && is_aligned(a, ROW, m);
        if !a_fits || !has_pieces(b) {
            return Ok(None);
        }
        let k_is_inner = if is_one(b, ROW, k) && is_aligned(b, COLUMN, n) {
            true
        } else if is_one(b, COLUMN, n) && is_aligned(b, ROW, k) {
            false
        } else {
            return Ok(None);
        };
        let kernel = TilesMatMulKernel::choose(k_is_inner, batch, [m, n, k]);
        let blocks = count(kernel.tile().blocks(batch, [m, n]))?;
        let work = Work::TilesMatMul(kernel, *work);
        Ok(Launch::of_blocks(blocks, work))
    }
}
