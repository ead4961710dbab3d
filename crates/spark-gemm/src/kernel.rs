//! The micro-kernels, one per layout of the weights, and the choice among them.
//!
//! ```text
//! tile:      MR rows x NV vectors of accumulators stay in registers for all taps and depths;
//!            each step loads NV vectors of w and broadcasts MR elements of x
//! ```
//!
//! All initialise their accumulators and store their results alike (`epilogue`), and the order of additions
//! depends on the shapes alone, not on threads or tiles.

#![allow(
    unsafe_code,
    reason = "micro-kernels move pointers through packed weights and use SIMD intrinsics"
)]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod dot_avx512;
#[cfg(target_arch = "x86_64")]
mod half_avx512;
mod panel_f32;
mod size;
mod weights_bf16;
mod weights_f16;
mod weights_f32;

use spark_simd::Isa;
#[cfg(target_arch = "x86_64")]
use spark_simd::Proof;

use crate::float_format::FloatFormat;
use crate::layout::PackedLayout;
use crate::tile::Tile;
#[cfg(target_arch = "aarch64")]
use arm::{tile_bf16_mmla, tile_f16_fmlal};
#[cfg(target_arch = "x86_64")]
use dot_avx512::{Bf16, Pairs, RoundedF32, panel_bf16_dot, tile_bf16_dot};
#[cfg(target_arch = "x86_64")]
use half_avx512::{has_half, panel_f32_half};
pub(crate) use panel_f32::PanelRows;
use panel_f32::panel_f32;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use size::by_rows;
use size::by_size;
use weights_bf16::tile_bf16;
use weights_f16::{tile_f16, tile_f16_converting};
use weights_f32::tile_f32;

impl Tile<'_> {
    /// Computes `rows` rows, as [`next_rows`](crate::next_rows) gave them, of a panel `vectors` wide.
    ///
    /// # Safety
    ///
    /// [`PackedLayout::can_implement`] must hold of `layout` on `isa`; `vectors` must be 1 to
    /// [`max_panel`](crate::max_panel), and `offsets` have one for every tap, unless there is a `border`.
    ///
    /// For each of the rows: `x` and `border` must give pointers readable for `shape.depth` elements of `x_format`,
    /// `y` must be writable and `residual`, if not null, readable for `output.columns` of the epilogue's formats. `w` must hold
    /// `taps * layout.words(depth) * vectors * LANES` elements, and the bias, if any, `vectors * LANES`.
    /// `converted`, if not null, must be writable for `taps * depth * vectors * LANES`.
    pub unsafe fn run(&self, isa: Isa, vectors: usize, rows: usize) {
        assert!(
            self.x_format == FloatFormat::F32 || self.layout == PackedLayout::Bf16Dot,
            "no other kernel reads bf16"
        );
        // SAFETY: forwarded; `isa` names a set this processor has, and the caller vouches for what a
        // layout needs beyond it.
        unsafe {
            match self.layout {
                PackedLayout::F32 => by_size!((vectors, rows), isa, tile_f32, self),
                PackedLayout::F16 if self.converted.is_null() => {
                    by_size!((vectors, rows), isa, tile_f16, self);
                }
                PackedLayout::F16 => by_size!((vectors, rows), isa, tile_f16_converting, self),
                PackedLayout::Bf16 => by_size!((vectors, rows), isa, tile_bf16, self),
                #[cfg(target_arch = "x86_64")]
                PackedLayout::Bf16Dot => match self.x_format {
                    FloatFormat::F32 => {
                        by_rows!((vectors, rows), tile_bf16_dot<RoundedF32>, self);
                    }
                    FloatFormat::Bf16 => by_rows!((vectors, rows), tile_bf16_dot<Bf16>, self),
                },
                #[cfg(target_arch = "aarch64")]
                PackedLayout::F16Fmlal => by_rows!((vectors, rows), tile_f16_fmlal, self),
                #[cfg(target_arch = "aarch64")]
                PackedLayout::Bf16Mmla => by_rows!((vectors, rows), tile_bf16_mmla, self),
                #[allow(
                    unreachable_patterns,
                    reason = "which layouts are left depends on the target"
                )]
                layout => unreachable!("{layout:?} is packed where the processor has it"),
            }
        }
    }
}

impl PanelRows<'_> {
    /// Computes the rows of a panel of f32 that is `vectors` wide.
    ///
    /// # Safety
    ///
    /// Left operand, residual and results must be held as f32.
    /// `vectors` must be 1 to [`max_panel`](crate::max_panel), and `columns` reach into the last of them. For each
    /// of the rows, `x` must be readable for `k` elements, `y` writable and `residual`, if not null, readable for
    /// `columns`. `w` must hold `k * vectors * LANES` elements, and the bias, if any, `vectors * LANES`.
    pub(crate) unsafe fn run(&self, isa: Isa, vectors: usize) {
        debug_assert!(
            self.x_format == FloatFormat::F32,
            "dot products read the rest"
        );
        // A plain matmul has one tap, of its rows as they are.
        let taps = self.offsets != [0];
        // SAFETY: forwarded; `isa` names a set this processor has.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if let Proof::Avx512(_) = isa.proof()
                && has_half(self, vectors)
            {
                match (vectors, taps) {
                    (1, false) => panel_f32_half::<0, 1, false>(self),
                    (2, false) => panel_f32_half::<1, 2, false>(self),
                    (3, false) => panel_f32_half::<2, 3, false>(self),
                    (_, false) => panel_f32_half::<3, 4, false>(self),
                    (1, true) => panel_f32_half::<0, 1, true>(self),
                    (2, true) => panel_f32_half::<1, 2, true>(self),
                    (3, true) => panel_f32_half::<2, 3, true>(self),
                    (_, true) => panel_f32_half::<3, 4, true>(self),
                }
                return;
            }
            macro_rules! panel {
                ($vectors:literal) => {
                    match taps {
                        false => {
                            spark_simd::dispatch!(isa, panel_f32::<$vectors, false>(p: &PanelRows<'_>) => (self));
                        }
                        true => {
                            spark_simd::dispatch!(isa, panel_f32::<$vectors, true>(p: &PanelRows<'_>) => (self));
                        }
                    }
                };
            }
            match vectors {
                1 => panel!(1),
                2 => panel!(2),
                3 => panel!(3),
                _ => panel!(4),
            }
        }
    }

    /// The same of a panel of [`PackedLayout::Bf16Dot`], which reads either format.
    ///
    /// # Safety
    ///
    /// As [`PanelRows::run`], in the formats that this and the epilogue name, with `w` of `k.div_ceil(2)` words a
    /// column, on a processor that has the layout's instructions.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn run_bf16_dot(&self, vectors: usize) {
        // SAFETY: forwarded.
        unsafe {
            match (self.x_format, self.offsets) {
                (FloatFormat::F32, [0]) => self.run_pairs::<RoundedF32, false>(vectors),
                (FloatFormat::F32, _) => self.run_pairs::<RoundedF32, true>(vectors),
                (FloatFormat::Bf16, [0]) => self.run_pairs::<Bf16, false>(vectors),
                (FloatFormat::Bf16, _) => self.run_pairs::<Bf16, true>(vectors),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn run_pairs<X: Pairs, const TAPS: bool>(&self, vectors: usize) {
        // SAFETY: forwarded.
        unsafe {
            match vectors {
                1 => panel_bf16_dot::<X, 1, TAPS>(self),
                2 => panel_bf16_dot::<X, 2, TAPS>(self),
                3 => panel_bf16_dot::<X, 3, TAPS>(self),
                _ => panel_bf16_dot::<X, 4, TAPS>(self),
            }
        }
    }
}

#[cfg(test)]
mod tests;
