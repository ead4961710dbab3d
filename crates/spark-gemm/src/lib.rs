//! GEMM on the CPU: packed weights, micro-kernels for f32, f16, bf16 and bytes, and what they reach.
//!
//! ```text
//! M rows (pixels)   N columns (output channels)   T taps   K input channels per tap
//!
//! y[m, n] = epilogue( sum over t, k of x[row(m, t) + k] * w[t, k, n] )
//!
//! block      a small matmul of f32 slices, for safe code
//! pack       a computed matrix  -> panels of f32, or of pairs of bf16 for AVX-512: pack_pairs
//! weights    known matrices     -> panels in a layout of 32 or 16 bits        PackedLayout::pack
//! gemm       rows evenly spaced: tile after tile over a panel                   unsafe: Gemm, gemm_panel
//! tile       rows given by pointers, tap by tap                                  unsafe: Tile::run
//! int8       the same for bytes, with exact sums in i32                          Int8Matmul for safe code
//! epilogue   bias, residual, activation, rounding, and storing
//! select     which layouts a processor implements, and which are profitable
//! roofline   the most that this processor computes and reads
//! ```
//!
//! Rows are given by pointers, so an image is never unrolled into a matrix: a tap outside the image points
//! at zeros. (The idea is XNNPACK's indirect convolution: M. Dukhan, "The Indirect Convolution Algorithm",
//! 2019.) The order of additions depends on the shapes alone, so that results are the same bits
//! however rows and panels are shared out between threads.
//!
//! Who has raw pointers calls `unsafe` functions, whose contracts say what must be valid; whoever has slices
//! takes [`block`] or [`int8::Int8Matmul`], which check them. Nothing else in the crate can reach memory that
//! it was not lent.
//!
//! Deliberately absent: threads in a matmul (callers share out panels and rows; packing and measuring take a pool),
//! transposed left operands, floats of eight and four bits, scales in blocks, networks.

pub mod block;
mod epilogue;
mod float_format;
mod gemm;
pub mod int8;
mod kernel;
mod layout;
mod memory;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pack_pairs;
mod pages;
mod panel;
mod prefetch;
mod region;
mod roofline;
mod rounding;
mod select;
mod small;
mod tile;
mod weights;

pub use epilogue::{
    Activation, RowFunction, RowKernel, TileEpilogue, TileOutput, apply_epilogue_and_store,
    init_accumulators,
};
pub use float_format::FloatFormat;
pub use gemm::{Gemm, gemm_panel, gemm_panel_converting, gemm_panel_taps, has_panel_taps};
pub use layout::PackedLayout;
pub use memory::{AlignedF32, WeightMemory};
pub use pack::{pack, pack_panel_of_transpose};
#[cfg(target_arch = "x86_64")]
pub use pack_pairs::pack_pairs;
pub use pages::{give_back_pages, take_pages};
pub use panel::{
    MAX_ROWS, Panel, full_rows, max_panel, max_panel_of, next_rows, packed_len, panel_offset,
    panels, panels_of_part,
};
pub use prefetch::Prefetch;
pub use roofline::Roofline;
pub use rounding::{narrow_rows, round_rows};
pub use tile::{TapRows, Tile, TileShape};
pub use weights::WeightShape;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
