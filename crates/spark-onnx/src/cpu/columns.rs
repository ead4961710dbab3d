//! How the packed columns of a product's weights are held, and which kernel reads them.
//!
//! ```text
//! a panel of L = vectors * LANES columns is a run of words of 32 bits, tap after tap
//!   f32     [k][L]            one value per word
//!   f16     [k][L] halves     two lanes per word, a tap of odd depth padded with a row of zeros
//!   bf16    [k / 2][L]        value k in the low half, value k + 1 in the high half
//!   blocks  [k / 4][L / 2]    bf16, values k to k + 3 of one column, then of the next: 4 words
//! ```
//!
//! bf16 in pairs is what dot-product instructions take, and is one shift or one mask away from
//! f32 where there are none; blocks are what Arm's instruction for 2x2 results takes. The order of
//! additions is that of f32 columns, so columns of bf16 give the bits that f32 columns of the same
//! values give; dot products alone round elsewhere.
//!
//! Deliberately absent: eight and four bits, which have scales (`quantised`).

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use spark_parallel::Pool;
use spark_simd::{Avx512Bf16, NeonBf16, NeonFhm};

use super::gemm::{self, panels};
use super::memory::AlignedF32;
use super::peak::SmallProduct;
use super::simd::Isa;
use crate::pages::take_pages;
use crate::plan::Weights;

/// Layout of packed columns and kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// f32.
    F32,
    /// f16, widened on the way to the product.
    F16,
    /// f16, multiplied by the left side as f16 and added in f32 (FEAT_FHM); only where
    /// [`has_f16_products`] says so.
    F16Long,
    /// bf16, widened on the way to the product.
    Bf16,
    /// bf16, multiplied in pairs by AVX512_BF16; only where [`dot_columns`] says so.
    Bf16Dot,
    /// bf16, multiplied in 2x2 blocks of four by FEAT_BF16; only where [`dot_columns`] says so.
    Bf16Blocks,
}

impl Columns {
    /// Words that `depth` values of one tap and one column take.
    pub(crate) fn words(self, depth: usize) -> usize {
        match self {
            Self::F32 => depth,
            Self::F16 | Self::F16Long | Self::Bf16 | Self::Bf16Dot => depth.div_ceil(2),
            Self::Bf16Blocks => 2 * depth.div_ceil(4),
        }
    }

    /// Words of a whole packed matrix.
    pub(crate) fn packed_len(self, isa: Isa, taps: usize, depth: usize, n: usize) -> usize {
        gemm::packed_len(isa, taps * self.words(depth), n)
    }

    /// Packs columns `range` of every group of `weights`, one packed matrix after the other, the
    /// panels shared out between threads. Values are rounded to nearest, ties to even.
    ///
    /// `values` takes every value to one that the format has, where the columns do not round.
    pub(crate) fn pack(
        self,
        isa: Isa,
        weights: &Weights,
        range: Range<usize>,
        values: impl Fn(&mut [f32]) + Sync,
        pool: &Pool,
    ) -> AlignedF32 {
        let (taps, depth, n) = (weights.taps, weights.in_per_group, range.len());
        let group_len = self.packed_len(isa, taps, depth, n);
        let mut packed = AlignedF32::zeros(group_len * weights.groups);
        let mut jobs = Vec::new();
        let mut rest = packed.as_mut_slice();
        for group in 0..weights.groups {
            for panel in panels(isa, n) {
                let len = taps * self.words(depth) * panel.vectors * isa.lanes();
                let (to, after) = rest.split_at_mut(len);
                let first = range.start + panel.column;
                let last = range.end.min(first + panel.vectors * isa.lanes());
                jobs.push(Mutex::new((group, first..last, to)));
                rest = after;
            }
        }
        // Of every thread: new memory for each panel would cost more than its values.
        let buffers = (0..pool.threads()).map(|_| Mutex::default());
        let buffers: Vec<Mutex<(Vec<f32>, Vec<u16>)>> = buffers.collect();
        pool.run_in_slots(jobs.len(), |slot, index| {
            let mut job = jobs[index].lock().unwrap_or_else(PoisonError::into_inner);
            let (group, columns, to) = &mut *job;
            take_pages(to);
            let width = columns.len().next_multiple_of(isa.lanes());
            if self == Self::F32 {
                weights.write(*group, columns.clone(), to, width);
                values(to);
                return;
            }
            let mut buffer = buffers[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let (plain, halves) = &mut *buffer;
            plain.clear();
            plain.resize(taps * depth * width, 0.0);
            halves.resize(plain.len(), 0);
            weights.write(*group, columns.clone(), plain, width);
            self.narrow(plain, halves, [taps, depth, width], to);
        });
        drop(jobs);
        packed
    }

    /// Rows `[taps][depth][width]` of f32 as words of 16 bits; `halves` is as long as they are.
    fn narrow(
        self,
        plain: &[f32],
        halves: &mut [u16],
        [taps, depth, width]: [usize; 3],
        packed: &mut [f32],
    ) {
        match self {
            Self::F16 | Self::F16Long => {
                let halves: &mut [f16] = halves.reinterpret_cast_mut();
                halves.convert_from_f32_slice(plain);
            }
            _ => {
                let halves: &mut [bf16] = halves.reinterpret_cast_mut();
                halves.convert_from_f32_slice(plain);
            }
        }
        let words = self.words(depth) * width;
        let taps_of_halves = halves.chunks_exact((depth * width).max(1));
        let taps_of_words = packed[..taps * words].chunks_exact_mut(words.max(1));
        for (halves, packed) in taps_of_halves.zip(taps_of_words) {
            self.arrange(halves, [depth, width], packed);
        }
    }

    /// The rows `[depth][width]` of one tap in the order that the module draws.
    fn arrange(self, halves: &[u16], [depth, width]: [usize; 2], packed: &mut [f32]) {
        let half = |k: usize, j: usize| match k < depth {
            true => halves[k * width + j],
            false => 0,
        };
        let word = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
        match self {
            // As they are; rows are whole vectors, so no pair is halved.
            Self::F16 | Self::F16Long => {
                for (to, pair) in packed.iter_mut().zip(halves.chunks_exact(2)) {
                    *to = word(pair[0], pair[1]);
                }
            }
            Self::Bf16Blocks => {
                for (index, to) in packed.iter_mut().enumerate() {
                    let (block, index) = (index / (2 * width), index % (2 * width));
                    let (k, column) = (4 * block + 2 * (index % 2), index / 2);
                    *to = word(half(k, column), half(k + 1, column));
                }
            }
            _ => {
                for (pair, row) in packed.chunks_exact_mut(width.max(1)).enumerate() {
                    for (j, to) in row.iter_mut().enumerate() {
                        *to = word(half(2 * pair, j), half(2 * pair + 1, j));
                    }
                }
            }
        }
    }
}

/// The columns that dot products of bf16 take on this build and processor, if it has any for `isa`.
pub(crate) fn dot_columns(isa: Isa) -> Option<Columns> {
    let in_pairs = Avx512Bf16::of(isa).map(|_| Columns::Bf16Dot);
    in_pairs.or_else(|| NeonBf16::of(isa).map(|_| Columns::Bf16Blocks))
}

/// Whether this build and processor have products of f16 with sums in f32 for `isa`.
pub(crate) fn has_f16_products(isa: Isa) -> bool {
    NeonFhm::of(isa).is_some()
}

/// Whether dot products of bf16 do more multiplications per second here than f32 does: some
/// processors run them at a quarter of the rate of an f32 instruction, which holds half as many.
///
/// Measured once per process, in well under a millisecond.
pub(crate) fn dot_pays(isa: Isa) -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    dot_columns(isa).is_some_and(|columns| *PAYS.get_or_init(|| beats_f32(isa, columns)))
}

/// The same of products of f16.
pub(crate) fn f16_products_pay(isa: Isa) -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    has_f16_products(isa) && *PAYS.get_or_init(|| beats_f32(isa, Columns::F16Long))
}

/// Whether a product over `columns` takes at most nine tenths of the time of f32. Kernels that are
/// equally fast must not change places, and results with them, from one process to the next.
fn beats_f32(isa: Isa, columns: Columns) -> bool {
    let time = |columns| SmallProduct::new(isa, columns).fastest();
    10 * time(columns) < 9 * time(Columns::F32)
}
