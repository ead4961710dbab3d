//! From accumulators to stored results: bias, residual, activation, rounding.
//!
//! ```text
//! y = activation(x w + bias + residual)      residual_first
//! y = activation(x w + bias) + residual      else
//! ```
//!
//! Bias, residual and clamp are applied in registers; other activations run over the row segment
//! just stored, while it is in the L1 cache. Where results are held as bf16, those run over f32 in between.

#![allow(
    unsafe_code,
    reason = "stores where a tile points, with the vectors of an instruction set"
)]

use std::mem::MaybeUninit;

use spark_simd::{Isa, Simd};

use crate::float_format::FloatFormat;
use crate::panel::MAX_ROWS;
use crate::rounding::round_rows;

/// A function applied to every result before it is stored.
#[derive(Debug, Clone, Copy)]
pub enum Activation {
    /// Results stay as they are.
    None,
    /// `min(max(x, low), high)`; ReLU is `(0, inf)`. NaN stays NaN.
    Clamp {
        /// What smaller results become; may be negative infinity.
        low: f32,
        /// What greater results become; may be infinity.
        high: f32,
    },
    /// Any other function, called on whole rows after the tile was stored.
    Function(RowFunction),
}

/// What [`RowFunction`] calls: the instruction set, the function's parameters, the rows, and how many
/// elements of each are to be replaced.
pub type RowKernel = unsafe fn(Isa, [f32; 2], &[*mut f32], usize);

/// A function over rows of elements, with up to two parameters.
#[derive(Debug, Clone, Copy)]
pub struct RowFunction {
    kernel: RowKernel,
    parameters: [f32; 2],
}

impl RowFunction {
    /// The function that `kernel` computes with these parameters.
    ///
    /// # Safety
    ///
    /// Called with rows that are writable for so many elements and with an instruction set that the
    /// processor has, `kernel` must touch no other memory.
    pub const unsafe fn new(kernel: RowKernel, parameters: [f32; 2]) -> Self {
        Self { kernel, parameters }
    }

    /// Replaces the first `columns` elements of every row by the function of them.
    ///
    /// # Safety
    ///
    /// They must be readable and writable, and not be used elsewhere meanwhile.
    pub unsafe fn apply(self, isa: Isa, rows: &[*mut f32], columns: usize) {
        // SAFETY: guaranteed by the caller, and by who made the function.
        unsafe { (self.kernel)(isa, self.parameters, rows, columns) }
    }
}

/// What happens to a tile's results before they are stored.
#[derive(Debug, Clone, Copy)]
pub struct TileEpilogue {
    /// One value per column of the panel, padded to whole vectors; may be null.
    pub bias: *const f32,
    /// Function applied to every result.
    pub activation: Activation,
    /// Whether the activation comes after the residual.
    pub residual_first: bool,
    /// Whether results are rounded to bf16, because a matmul of bf16 reads them; held as bf16 they always are.
    pub rounds_to_bf16: bool,
    /// How results are held.
    pub y_format: FloatFormat,
    /// How the residual is held.
    pub residual_format: FloatFormat,
    /// Instruction set, for functions applied after storing.
    pub isa: Isa,
}

impl TileEpilogue {
    /// The sums are the results.
    pub fn none(isa: Isa) -> Self {
        Self {
            bias: std::ptr::null(),
            activation: Activation::None,
            residual_first: true,
            rounds_to_bf16: false,
            y_format: FloatFormat::F32,
            residual_format: FloatFormat::F32,
            isa,
        }
    }
}

/// Where a tile's results go: rows beyond its own are ignored.
#[derive(Debug)]
pub struct TileOutput<'a> {
    /// Start of every row of results, at the panel's first column.
    pub y: [*mut f32; MAX_ROWS],
    /// Added to the results; null for none.
    pub residual: [*const f32; MAX_ROWS],
    /// Columns of the panel that exist in the matrix: they reach into the last vector.
    pub columns: usize,
    /// What happens to the results before they are stored.
    pub epilogue: &'a TileEpilogue,
}

/// Accumulators that hold the bias.
///
/// # Safety
///
/// As [`Tile::run`](crate::Tile::run).
#[inline(always)]
pub unsafe fn init_accumulators<S: Simd, const NV: usize, const MR: usize>(
    epilogue: &TileEpilogue,
) -> [[S::V; NV]; MR] {
    let bias = epilogue.bias;
    // SAFETY: the bias, if any, has `NV` vectors.
    unsafe {
        match bias.is_null() {
            true => [[S::splat(0.0); NV]; MR],
            false => [std::array::from_fn(|v| S::load(bias.add(v * S::LANES))); MR],
        }
    }
}

/// Residual, activation and rounding of the sums, and storing them.
///
/// # Safety
///
/// As [`Tile::run`](crate::Tile::run).
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub unsafe fn apply_epilogue_and_store<S: Simd, const NV: usize, const MR: usize>(
    t: &TileOutput<'_>,
    mut acc: [[S::V; NV]; MR],
) {
    let epilogue = t.epilogue;
    let residual = !t.residual[0].is_null();
    // What is still to happen to the values after they are stored.
    let function = match epilogue.activation {
        Activation::Function(function) => Some(function),
        Activation::None | Activation::Clamp { .. } => None,
    };
    let late_residual = !epilogue.residual_first && residual;
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        // Loops with constant bounds only: they unroll, which keeps `acc` in registers.
        let last = t.columns - (NV - 1) * S::LANES;
        if epilogue.residual_first && residual {
            match epilogue.residual_format {
                FloatFormat::F32 => {
                    for i in 0..MR {
                        add_row::<S, NV>(&mut acc[i], t.residual[i], last);
                    }
                }
                FloatFormat::Bf16 if has_bf16_instructions::<S>() => {
                    for i in 0..MR {
                        add_row_bf16::<S, NV>(&mut acc[i], t.residual[i].cast(), last);
                    }
                }
                FloatFormat::Bf16 => acc = add_rows_bf16_apart::<S, NV, MR>(t, acc),
            }
        }
        if let Activation::Clamp { low, high } = epilogue.activation {
            // The bound first: `max` and `min` give the second operand for NaN.
            let bound = S::splat(low);
            for i in 0..MR {
                for v in 0..NV {
                    acc[i][v] = S::max(bound, acc[i][v]);
                }
            }
            // ReLU has one bound.
            if high < f32::INFINITY {
                let bound = S::splat(high);
                for i in 0..MR {
                    for v in 0..NV {
                        acc[i][v] = S::min(bound, acc[i][v]);
                    }
                }
            }
        }
        if epilogue.y_format == FloatFormat::Bf16 {
            if !has_bf16_instructions::<S>() {
                store_bf16_apart::<S, NV, MR>(t, acc);
            } else if function.is_none() && !late_residual {
                store_bf16::<S, NV, MR>(t, acc);
            } else {
                store_late_bf16::<S, NV, MR>(t, acc);
            }
            return;
        }
        if epilogue.rounds_to_bf16 && function.is_none() && !late_residual {
            for i in 0..MR {
                for v in 0..NV {
                    acc[i][v] = S::round_bf16(acc[i][v]);
                }
            }
        }
        for i in 0..MR {
            for v in 0..NV - 1 {
                S::store(t.y[i].add(v * S::LANES), acc[i][v]);
            }
            let end = t.y[i].add((NV - 1) * S::LANES);
            if last == S::LANES {
                S::store(end, acc[i][NV - 1]);
            } else {
                S::store_first(end, acc[i][NV - 1], last);
            }
        }
        if let Some(function) = function {
            function.apply(epilogue.isa, &t.y[..MR], t.columns);
        }
        if late_residual {
            add_late_residual(&t.y[..MR], t);
        }
        if epilogue.rounds_to_bf16 && (function.is_some() || late_residual) {
            round_rows(epilogue.isa, &t.y[..MR], t.columns);
        }
    }
}

/// Whether vectors are converted from and to bf16 in so few instructions that the loops over a tile still unroll. Where they
/// do not, the compiler keeps accumulators in memory, also while multiplying, and a GEMM of f32 takes twice its time.
const fn has_bf16_instructions<S: Simd>() -> bool {
    S::LANES == 16
}

/// Adds a residual of bf16, in a function of its own: see [`has_bf16_instructions`].
#[cold]
#[inline(never)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_rows_bf16_apart<S: Simd, const NV: usize, const MR: usize>(
    t: &TileOutput<'_>,
    mut acc: [[S::V; NV]; MR],
) -> [[S::V; NV]; MR] {
    let last = t.columns - (NV - 1) * S::LANES;
    for i in 0..MR {
        // SAFETY: the caller vouches for `columns` readable elements.
        unsafe { add_row_bf16::<S, NV>(&mut acc[i], t.residual[i].cast(), last) };
    }
    acc
}

/// The rest of an epilogue whose results are held as bf16, in a function of its own: see [`has_bf16_instructions`].
#[cold]
#[inline(never)]
unsafe fn store_bf16_apart<S: Simd, const NV: usize, const MR: usize>(
    t: &TileOutput<'_>,
    acc: [[S::V; NV]; MR],
) {
    let is_stored_only = !matches!(t.epilogue.activation, Activation::Function(_))
        && (t.epilogue.residual_first || t.residual[0].is_null());
    // SAFETY: forwarded.
    unsafe {
        match is_stored_only {
            true => store_bf16::<S, NV, MR>(t, acc),
            false => store_late_bf16::<S, NV, MR>(t, acc),
        }
    }
}

/// Adds `NV` vectors, the last of `last` elements, from `p`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_row<S: Simd, const NV: usize>(acc: &mut [S::V; NV], p: *const f32, last: usize) {
    // SAFETY: the caller vouches for `(NV - 1) * LANES + last` readable elements.
    unsafe {
        for v in 0..NV - 1 {
            acc[v] = S::add(acc[v], S::load(p.add(v * S::LANES)));
        }
        let end = p.add((NV - 1) * S::LANES);
        let tail = if last == S::LANES {
            S::load(end)
        } else {
            S::load_first(end, last)
        };
        acc[NV - 1] = S::add(acc[NV - 1], tail);
    }
}

/// The same of bf16.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_row_bf16<S: Simd, const NV: usize>(acc: &mut [S::V; NV], p: *const u16, last: usize) {
    // SAFETY: the caller vouches for `(NV - 1) * LANES + last` readable elements.
    unsafe {
        for v in 0..NV - 1 {
            acc[v] = S::add(acc[v], S::load_bf16(p.add(v * S::LANES)));
        }
        let end = p.add((NV - 1) * S::LANES);
        let tail = match last == S::LANES {
            true => S::load_bf16(end),
            false => S::load_first_bf16(end, last),
        };
        acc[NV - 1] = S::add(acc[NV - 1], tail);
    }
}

/// Adds the residual to rows of f32 that are stored already.
unsafe fn add_late_residual(rows: &[*mut f32], t: &TileOutput<'_>) {
    // SAFETY: the caller vouches for `columns` elements of rows and residual.
    unsafe {
        for (&y, &r) in rows.iter().zip(&t.residual) {
            let row = std::slice::from_raw_parts_mut(y, t.columns);
            for (j, value) in row.iter_mut().enumerate() {
                *value += match t.epilogue.residual_format {
                    FloatFormat::F32 => *r.add(j),
                    FloatFormat::Bf16 => f32::from_bits(u32::from(*r.cast::<u16>().add(j)) << 16),
                };
            }
        }
    }
}

/// Stores results as bf16.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn store_bf16<S: Simd, const NV: usize, const MR: usize>(
    t: &TileOutput<'_>,
    acc: [[S::V; NV]; MR],
) {
    let last = t.columns - (NV - 1) * S::LANES;
    // SAFETY: the caller vouches for `columns` elements of every row.
    unsafe {
        for i in 0..MR {
            let row = t.y[i].cast::<u16>();
            for v in 0..NV - 1 {
                S::store_bf16(row.add(v * S::LANES), acc[i][v]);
            }
            let end = row.add((NV - 1) * S::LANES);
            match last == S::LANES {
                true => S::store_bf16(end, acc[i][NV - 1]),
                false => S::store_first_bf16(end, acc[i][NV - 1], last),
            }
        }
    }
}

/// No tile has more elements: rows of four vectors of 16 lanes.
const MOST_ELEMENTS: usize = MAX_ROWS * 4 * 16;

/// Function, late residual and storing as bf16, by way of a tile of f32.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn store_late_bf16<S: Simd, const NV: usize, const MR: usize>(
    t: &TileOutput<'_>,
    acc: [[S::V; NV]; MR],
) {
    const {
        assert!(
            NV * MR * S::LANES <= MOST_ELEMENTS,
            "a tile is in registers"
        )
    };
    let mut tile = [MaybeUninit::<f32>::uninit(); MOST_ELEMENTS];
    let start = tile.as_mut_ptr().cast::<f32>();
    // SAFETY: the tile has room for all vectors, which are written before anything is read; the caller vouches for
    // `columns` elements of every row and of the residual.
    unsafe {
        let mut rows = [start; MR];
        for i in 0..MR {
            rows[i] = start.add(i * NV * S::LANES);
            for v in 0..NV {
                S::store(rows[i].add(v * S::LANES), acc[i][v]);
            }
        }
        if let Activation::Function(function) = t.epilogue.activation {
            // One call for all: the rows lie side by side, and columns that do not exist are zeros and biases of zero.
            function.apply(t.epilogue.isa, &rows[..1], MR * NV * S::LANES);
        }
        if !t.epilogue.residual_first && !t.residual[0].is_null() {
            add_late_residual(&rows, t);
        }
        let mut acc = acc;
        for i in 0..MR {
            for v in 0..NV {
                acc[i][v] = S::load(rows[i].add(v * S::LANES));
            }
        }
        store_bf16::<S, NV, MR>(t, acc);
    }
}
