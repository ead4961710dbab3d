//! A panel of a matmul of bytes, tile after tile: rows evenly spaced.
//!
//! ```text
//! M rows   N columns   K depth      y[m, n] = stored(sum over k of (x[m, k] - zx) (w[k, n] - zw[n]))
//! ```
//!
//! Columns and rows are shared out between threads by the caller: sums are exact, so any division gives the
//! same bits.

#![allow(
    unsafe_code,
    reason = "moves pointers through operands that the caller vouches for"
)]

use super::instructions::ByteKind;
use super::output::{Int8Output, Requantise};
use super::packed::Int8Weights;
use super::tile::Int8Tile;
use crate::epilogue::{TileEpilogue, TileOutput};
use crate::panel::{MAX_ROWS, Panel};

/// Where the results of a matmul of bytes go: what [`Int8Output`] is to a tile. Lists are per column, from
/// column 0 on, padded to whole vectors.
#[derive(Debug, Clone, Copy)]
pub enum Int8Result {
    /// The sums.
    Sums {
        /// First row.
        y: *mut i32,
        /// Elements from one row to the next.
        stride: isize,
    },
    /// Bytes.
    Bytes {
        /// First row.
        y: *mut u8,
        /// Elements from one row to the next.
        stride: isize,
        /// How sums become bytes.
        requantise: Requantise,
    },
    /// Floats.
    Floats {
        /// First row.
        y: *mut f32,
        /// Elements from one row to the next.
        stride: isize,
        /// First row of what is added; may be null.
        residual: *const f32,
        /// Elements from one row to the next.
        residual_stride: isize,
        /// The scale of the sums.
        multipliers: *const f32,
        /// Bias and function.
        epilogue: TileEpilogue,
    },
}

/// A matmul of bytes whose rows are evenly spaced, by weights of one tap. Nothing is checked: see
/// [`int8_gemm_panel`].
#[derive(Debug, Clone, Copy)]
pub struct Int8Gemm<'a> {
    /// First row of the left operand.
    pub x: *const u8,
    /// Bytes from one row to the next.
    pub x_stride: isize,
    /// What the bytes are.
    pub kind: ByteKind,
    /// The right operand.
    pub weights: &'a Int8Weights<'a>,
    /// Which group of it.
    pub group: usize,
    /// Where the sums of the columns begin: see [`Int8Weights::write_initial`].
    pub initial: *const i32,
    /// Zero points of the weights as they are held; null for zeros.
    pub zero_points: *const i32,
    /// Where the results go.
    pub result: Int8Result,
}

/// Pointers `stride` elements apart; those beyond a tile's own rows may lie outside of the operand.
#[inline(always)]
fn evenly_spaced<T>(first: *const T, stride: isize) -> [*const T; MAX_ROWS] {
    std::array::from_fn(|i| first.wrapping_offset(i as isize * stride))
}

/// The same, to be written.
#[inline(always)]
fn evenly_spaced_mut<T>(first: *mut T, stride: isize) -> [*mut T; MAX_ROWS] {
    std::array::from_fn(|i| first.wrapping_offset(i as isize * stride))
}

/// A list from a panel's first column on; null stays null.
#[inline(always)]
fn from_column<T>(list: *const T, column: usize) -> *const T {
    match list.is_null() {
        true => list,
        false => list.wrapping_add(column),
    }
}

/// Computes rows `first..last` of the columns of one panel.
///
/// # Safety
///
/// The pointers of `gemm` must be valid for those rows, the depth of the weights and their columns, lists
/// of columns padded to whole vectors; rows and columns must not be written by another thread meanwhile.
///
/// # Panics
///
/// If `panel` is none of the weights', or they have several taps.
pub unsafe fn int8_gemm_panel(gemm: &Int8Gemm<'_>, panel: Panel, (first, last): (usize, usize)) {
    let p = gemm;
    assert_eq!(p.weights.shape().taps, 1, "a matrix has one tap");
    let packed = p.weights.panel_of(p.group, panel);
    let epilogue = match &p.result {
        Int8Result::Floats { epilogue, .. } => TileEpilogue {
            bias: from_column(epilogue.bias, panel.column),
            ..*epilogue
        },
        _ => TileEpilogue::none(p.weights.instructions().isa()),
    };
    let output = |row: isize| match p.result {
        Int8Result::Sums { y, stride } => {
            let y = y.wrapping_add(panel.column).wrapping_offset(row * stride);
            Int8Output::Sums(evenly_spaced_mut(y, stride))
        }
        Int8Result::Bytes {
            y,
            stride,
            requantise,
        } => {
            let y = y.wrapping_add(panel.column).wrapping_offset(row * stride);
            Int8Output::Bytes {
                y: evenly_spaced_mut(y, stride),
                requantise: Requantise {
                    multipliers: from_column(requantise.multipliers, panel.column),
                    ..requantise
                },
            }
        }
        Int8Result::Floats {
            y,
            stride,
            residual,
            residual_stride,
            multipliers,
            ..
        } => {
            let y = y.wrapping_add(panel.column).wrapping_offset(row * stride);
            let residual = match residual.is_null() {
                true => [residual; MAX_ROWS],
                false => {
                    let first = residual.wrapping_add(panel.column);
                    let first = first.wrapping_offset(row * residual_stride);
                    evenly_spaced(first, residual_stride)
                }
            };
            Int8Output::Floats {
                output: TileOutput {
                    y: evenly_spaced_mut(y, stride),
                    residual,
                    columns: packed.columns(),
                    epilogue: &epilogue,
                },
                multipliers: from_column(multipliers, panel.column),
            }
        }
    };
    let (mut m, mut index) = (first, 0);
    while m < last {
        let rows = packed.next_rows(last - m);
        let tile = Int8Tile {
            x: evenly_spaced(p.x.wrapping_offset(m as isize * p.x_stride), p.x_stride),
            kind: p.kind,
            offsets: &[0],
            border: None,
            panel: packed,
            initial: from_column(p.initial, panel.column),
            zero_points: from_column(p.zero_points, panel.column),
            output: output(m as isize),
            prefetch: packed.prefetch(index),
        };
        // SAFETY: rows first..last and the panel's columns exist, guaranteed by the caller.
        unsafe { tile.run(rows) };
        m += rows;
        index += 1;
    }
}
