//! How the packed columns of a product's weights are held, and which kernel reads them.
//!
//! ```text
//! a panel of L = vectors * LANES columns is a run of words of 32 bits, tap after tap
//!   f32     [k][L]            one value per word
//!   f16     [k][L] halves     two lanes per word, a tap of odd depth padded with a row of zeros
//!   bf16    [k / 2][L]        value k in the low half, value k + 1 in the high half
//! ```
//!
//! bf16 in pairs is what dot-product instructions take, and is one shift or one mask away from
//! f32 where there are none. The order of additions is that of f32 columns, so columns of bf16
//! give the bits that f32 columns of the same values give; dot products alone round elsewhere.
//!
//! Deliberately absent: eight and four bits, which have scales (`quantised`).

use std::sync::OnceLock;

use half::{bf16, f16};

use super::gemm::{self, panel_offset, panels};
use super::peak::SmallProduct;
use super::simd::Isa;

/// Layout of packed columns and kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// f32.
    F32,
    /// f16, widened on the way to the product.
    F16,
    /// bf16, widened on the way to the product.
    Bf16,
    /// bf16, multiplied in pairs by AVX512_BF16; only where [`has_dot`] says so.
    Bf16Dot,
}

/// A matrix `[taps][depth][n]` to be packed: element `(tap, k, j)` is at
/// `data[(tap * depth + k) * row_stride + j]`.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row_stride: usize,
    pub(crate) taps: usize,
    pub(crate) depth: usize,
    pub(crate) n: usize,
}

impl Columns {
    /// Words that `depth` values of one tap and one column take.
    pub(crate) fn words(self, depth: usize) -> usize {
        match self {
            Self::F32 => depth,
            Self::F16 | Self::Bf16 | Self::Bf16Dot => depth.div_ceil(2),
        }
    }

    /// Words of a whole packed matrix.
    pub(crate) fn packed_len(self, isa: Isa, taps: usize, depth: usize, n: usize) -> usize {
        gemm::packed_len(isa, taps * self.words(depth), n)
    }

    /// Packs `source` into `packed`, which has [`Columns::packed_len`] words. Values are rounded
    /// to nearest, ties to even.
    pub(crate) fn pack(self, isa: Isa, source: Source<'_>, packed: &mut [f32]) {
        let Source {
            data,
            row_stride,
            taps,
            depth,
            n,
        } = source;
        if self == Self::F32 {
            let rows = taps * depth;
            assert!(rows == 0 || n == 0 || data.len() >= (rows - 1) * row_stride + n);
            // SAFETY: just checked: every row of `n` elements lies inside `data`.
            unsafe {
                gemm::pack(
                    isa,
                    data.as_ptr(),
                    (row_stride as isize, 1),
                    (rows, n),
                    packed,
                )
            };
            return;
        }
        let words = self.words(depth);
        for panel in panels(isa, n) {
            let width = panel.vectors * isa.lanes();
            let valid = width.min(n - panel.column);
            let start = panel_offset(panel, taps * words);
            let panel_words = &mut packed[start..start + taps * words * width];
            for (index, row) in panel_words.chunks_exact_mut(width.max(1)).enumerate() {
                let (tap, pair) = (index / words, index % words);
                // Half `j` of the row of words, in the order of memory.
                let half = |k: usize, j: usize| -> u16 {
                    if k >= depth || j >= valid {
                        return 0;
                    }
                    let value = data[(tap * depth + k) * row_stride + panel.column + j];
                    match self {
                        Self::F16 => f16::from_f32(value).to_bits(),
                        _ => bf16::from_f32(value).to_bits(),
                    }
                };
                for (j, word) in row.iter_mut().enumerate() {
                    let [low, high] = match self {
                        Self::F16 => {
                            // Row 2 * pair fills the first half of the words, the next row the rest.
                            let at = |i: usize| half(2 * pair + i / width, i % width);
                            [at(2 * j), at(2 * j + 1)]
                        }
                        _ => [half(2 * pair, j), half(2 * pair + 1, j)],
                    };
                    *word = f32::from_bits(u32::from(low) | u32::from(high) << 16);
                }
            }
        }
    }
}

/// Whether this build and processor have dot products of bf16 for `isa`.
pub(crate) fn has_dot(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        isa == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Whether dot products of bf16 do more multiplications per second here than f32 does: some
/// processors run them at a quarter of the rate of an f32 instruction, which holds half as many.
///
/// Measured once per process, in well under a millisecond.
pub(crate) fn dot_pays(isa: Isa) -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    let time = |columns| SmallProduct::new(isa, columns).fastest();
    has_dot(isa) && *PAYS.get_or_init(|| time(Columns::Bf16Dot) < time(Columns::F32))
}
