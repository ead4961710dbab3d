//! The layouts of packed weights.
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
//! additions is that of f32 weights, so weights of bf16 give the bits that f32 weights of the same
//! values give; dot products alone round elsewhere.
//!
//! Deliberately absent: eight and four bits, which have scales.

use spark_simd::{Avx512Bf16, Isa, NeonBf16, NeonFhm};

use crate::panel::packed_len;

/// How packed weights are held, and with it which kernel reads them.
///
/// # Examples
///
/// ```
/// use spark_gemm::PackedLayout;
/// use spark_simd::Isa;
///
/// let isa = Isa::detect();
/// assert!(PackedLayout::F16.can_implement(isa)); // converted on the way, by any processor
/// let layout = PackedLayout::bf16_dot(isa).unwrap_or(PackedLayout::Bf16);
/// // Two values of bf16 take the place of one f32.
/// assert_eq!(2 * layout.packed_len(isa, 1, 64, 16), PackedLayout::F32.packed_len(isa, 1, 64, 16));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedLayout {
    /// f32, read as it is.
    F32,
    /// f16, converted to f32 in the kernel, as weights are loaded.
    F16,
    /// f16, multiplied by the left side as f16 and added in f32 by FMLAL (FEAT_FHM); only where
    /// [`PackedLayout::can_implement`] says so.
    F16Fmlal,
    /// bf16, converted to f32 in the kernel, as weights are loaded.
    Bf16,
    /// bf16, multiplied in pairs by AVX512_BF16; only where [`PackedLayout::bf16_dot`] says so.
    Bf16Dot,
    /// bf16, multiplied in 2x2 blocks of four by BFMMLA (FEAT_BF16); only where [`PackedLayout::bf16_dot`] says so.
    Bf16Mmla,
}

impl PackedLayout {
    /// Words that `depth` values of one tap and one column take.
    pub fn words(self, depth: usize) -> usize {
        match self {
            Self::F32 => depth,
            Self::F16 | Self::F16Fmlal | Self::Bf16 | Self::Bf16Dot => depth.div_ceil(2),
            Self::Bf16Mmla => 2 * depth.div_ceil(4),
        }
    }

    /// Whether the values of the next tap follow those of one without zeros between, so that both are one tap that is
    /// deeper.
    pub fn is_without_gaps(self, depth: usize) -> bool {
        match self {
            Self::F32 => true,
            _ => 2 * self.words(depth) == depth,
        }
    }

    /// Words of a whole packed matrix of `taps` times `depth` rows and `n` columns.
    ///
    /// # Panics
    ///
    /// If that is no `usize`.
    pub fn packed_len(self, isa: Isa, taps: usize, depth: usize, n: usize) -> usize {
        let rows = taps.checked_mul(self.words(depth));
        packed_len(isa, rows.expect("the size of a packed matrix"), n)
    }

    /// The layout that dot products of bf16 take on this processor, if it has any for `isa`.
    pub fn bf16_dot(isa: Isa) -> Option<Self> {
        let in_pairs = Avx512Bf16::of(isa).map(|_| Self::Bf16Dot);
        in_pairs.or_else(|| NeonBf16::of(isa).map(|_| Self::Bf16Mmla))
    }

    /// Whether this processor has the instructions of the layout's kernel for `isa`.
    pub fn can_implement(self, isa: Isa) -> bool {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => true,
            Self::F16Fmlal => NeonFhm::of(isa).is_some(),
            Self::Bf16Dot | Self::Bf16Mmla => Self::bf16_dot(isa) == Some(self),
        }
    }
}
