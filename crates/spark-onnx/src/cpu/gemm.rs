//! The product micro-kernel under every convolution and matrix product.
//!
//! ```text
//! M rows (pixels)   N columns (output channels)   T taps   K input channels per tap
//!
//! y[m, n] = epilogue( sum over t, k of x[row(m, t) + k] * w[t, k, n] )
//!
//! w packed:  panel of NV vectors:  [t][k][NV * LANES]      read once, in order
//! tile:      MR rows x NV vectors of accumulators stay in registers for all t and k;
//!            each step loads NV vectors of w and broadcasts MR elements of x
//! ```
//!
//! 1. Rows are given by pointers, so an image is never unrolled into a matrix: a tap
//!    outside the image points at zeros. (The idea is XNNPACK's indirect convolution:
//!    M. Dukhan, "The Indirect Convolution Algorithm", 2019.)
//! 2. Bias, residual and clamp are applied in registers; other activations run over the
//!    row segment just stored, while it is in the nearest cache.
//! 3. With few rows the weights come from memory as fast as they are used. While the tiles of
//!    one panel run, they ask for the lines of the next, one at every step of the depth.
//! 4. The order of additions depends on the shapes alone, not on threads or tiles.
//!
//! Columns held in 16 bits have kernels of their own in `narrow`, between the same start and
//! the same finish.

use super::columns::Columns;
use super::simd::{Isa, Simd, dispatch, max_panel, max_panel_of};
use super::{math, narrow, rounding};
use crate::plan::Activation;

/// One panel of packed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panel {
    /// First column.
    pub(crate) column: usize,
    /// Vectors, the last perhaps partly beyond the matrix (zero there).
    pub(crate) vectors: usize,
}

/// How `n` columns are cut into panels: as few as possible, as even as possible.
pub(crate) fn panels(isa: Isa, n: usize) -> impl Iterator<Item = Panel> + Clone {
    let lanes = isa.lanes();
    let vectors = n.div_ceil(lanes);
    let count = vectors.div_ceil(max_panel(isa)).max(1);
    (0..count).map(move |i| {
        let first = vectors * i / count;
        Panel {
            column: first * lanes,
            vectors: vectors * (i + 1) / count - first,
        }
    })
}

/// Part `part` of `parts` of the panels of `n` columns: neighbours, because each asks for the next
/// one's weights.
pub(crate) fn panels_of_part(
    isa: Isa,
    n: usize,
    (part, parts): (usize, usize),
) -> impl Iterator<Item = Panel> + Clone {
    let count = panels(isa, n).count();
    let (first, last) = (count * part / parts, count * (part + 1) / parts);
    panels(isa, n).skip(first).take(last - first)
}

/// Elements a packed `[depth, n]` matrix takes.
pub(crate) fn packed_len(isa: Isa, depth: usize, n: usize) -> usize {
    depth * n.next_multiple_of(isa.lanes())
}

/// Start of a panel in a packed matrix.
pub(crate) fn panel_offset(panel: Panel, depth: usize) -> usize {
    depth * panel.column
}

/// Most rows a tile has on any instruction set.
pub(crate) const MAX_ROWS: usize = 8;

/// Rows of a full tile that is `vectors` wide: as many accumulators as registers allow.
pub(crate) fn full_rows(vectors: usize) -> usize {
    match vectors {
        1 | 3 => 8,
        _ => 6,
    }
}

/// Rows of the next tile, of `left` rows that remain: few tiles, for each reads the whole panel.
pub(crate) fn next_rows(vectors: usize, left: usize) -> usize {
    match left {
        // Twice four rather than six and single rows.
        8 | 9 if full_rows(vectors) == 6 => 4,
        _ if left >= full_rows(vectors) => full_rows(vectors),
        4.. => 4,
        _ => 1,
    }
}

/// Gives the rows of a tile tap by tap, where an offset per tap does not do.
pub(crate) trait TapRows {
    /// Writes a pointer to `K` elements for each of the tile's rows at tap `tap`.
    fn at(&self, tap: usize, rows: &mut [*const f32; MAX_ROWS]);
}

/// What happens to a tile's results before they are stored.
#[derive(Clone, Copy)]
pub(crate) struct TileEpilogue {
    /// One value per column of the panel, padded to whole vectors; may be null.
    pub(crate) bias: *const f32,
    /// The function.
    pub(crate) activation: Activation,
    /// Whether the activation comes after the residual.
    pub(crate) residual_first: bool,
    /// Whether results are rounded to bf16, because a product of bf16 reads them.
    pub(crate) rounded: bool,
    /// Instruction set, for functions applied after storing.
    pub(crate) isa: Isa,
}

impl TileEpilogue {
    /// The sums are the results.
    pub(crate) fn nothing(isa: Isa) -> Self {
        Self {
            bias: std::ptr::null(),
            activation: Activation::None,
            residual_first: true,
            rounded: false,
            isa,
        }
    }
}

/// Where a tile's results go: rows beyond its own are ignored.
pub(crate) struct Results<'a> {
    /// The results.
    pub(crate) y: [*mut f32; MAX_ROWS],
    /// Added to the results; null for none.
    pub(crate) residual: [*const f32; MAX_ROWS],
    /// Columns of the panel that exist; more than all but the last vector.
    pub(crate) columns: usize,
    /// After the product.
    pub(crate) epilogue: &'a TileEpilogue,
}

/// Depth of a tile.
#[derive(Clone, Copy)]
pub(crate) struct TileShape {
    /// Taps.
    pub(crate) taps: usize,
    /// Elements per tap and row.
    pub(crate) depth: usize,
}

/// One tile: rows beyond its own are ignored.
pub(crate) struct Tile<'a> {
    /// Start of every row at offset zero.
    pub(crate) x: [*const f32; MAX_ROWS],
    /// Elements from there, per tap.
    pub(crate) offsets: &'a [isize],
    /// Instead of the two above, for tiles at a border.
    pub(crate) border: Option<&'a dyn TapRows>,
    /// The panel's packed columns.
    pub(crate) w: *const f32,
    /// How they are held.
    pub(crate) columns: Columns,
    /// Where f16 columns are written as f32 as well; null for nowhere.
    pub(crate) widened: *mut f32,
    /// Depth.
    pub(crate) shape: TileShape,
    /// Where the results go.
    pub(crate) results: Results<'a>,
    /// What to ask for meanwhile.
    pub(crate) ahead: Ahead,
}

/// Memory to be asked for while a tile runs: columns of the next panel, rows of the next tile.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) start: [*const f32; 2],
    /// Elements further on at the next step; 0 repeats one line, which costs nothing.
    step: [usize; 2],
}

/// f32 in one cache line of 64 bytes.
const LINE: usize = 16;
/// How far ahead of itself a tile of one row reads, in elements.
const STREAM_AHEAD: usize = 2048;

impl Ahead {
    /// Nothing: `near` is a line in use anyway.
    pub(crate) fn nothing(near: *const f32) -> Self {
        Self {
            start: [near; 2],
            step: [0; 2],
        }
    }

    /// Tile `index`'s share of the `len` elements at `next`, if a tile asks for `steps` lines.
    pub(crate) fn share(next: *const f32, len: usize, steps: usize, index: usize) -> Self {
        let mut ahead = Self::nothing(next);
        if index * steps * LINE < len {
            ahead.start[0] = next.wrapping_add(index * steps * LINE);
            ahead.step[0] = LINE;
        }
        ahead
    }

    /// Besides, `rows` rows that lie at `next` without gaps, as deep as the tile takes steps.
    pub(crate) fn and_rows(self, next: *const f32, rows: usize) -> Self {
        Self {
            start: [self.start[0], next],
            step: [self.step[0], rows],
        }
    }
}

impl Tile<'_> {
    /// Computes `rows` rows, as [`next_rows`] gave them, of a panel `vectors` wide.
    ///
    /// # Safety
    ///
    /// For each of the rows: `x` and `border` must give pointers readable for `shape.depth` elements,
    /// `y` must be writable and `residual`, if not null, readable for `results.columns`. `w` must hold
    /// `taps * columns.words(depth) * vectors * LANES` elements, and the bias, if any, `vectors * LANES`.
    /// `widened`, if not null, must be writable for `taps * depth * vectors * LANES`.
    pub(crate) unsafe fn run(&self, isa: Isa, vectors: usize, rows: usize) {
        // SAFETY: forwarded; `isa` names a set this processor has.
        unsafe {
            match self.columns {
                Columns::F32 => by_size!((vectors, rows), isa, tile, self),
                Columns::F16 if self.widened.is_null() => {
                    narrow::run_f16(self, isa, vectors, rows);
                }
                Columns::F16 => narrow::run_f16_widening(self, isa, vectors, rows),
                Columns::Bf16 => narrow::run_bf16(self, isa, vectors, rows),
                Columns::Bf16Dot => narrow::run_bf16_dot(self, vectors, rows),
                Columns::F16Long => narrow::run_f16_long(self, vectors, rows),
                Columns::Bf16Blocks => narrow::run_bf16_blocks(self, vectors, rows),
            }
        }
    }

    /// Pointers to the rows at tap `tap`.
    #[inline(always)]
    pub(crate) unsafe fn rows_at(&self, tap: usize) -> [*const f32; MAX_ROWS] {
        match self.border {
            Some(border) => border_rows(border, tap),
            None => {
                // SAFETY: there is an offset for every tap.
                let offset = unsafe { *self.offsets.get_unchecked(tap) };
                self.x.map(|row| row.wrapping_offset(offset))
            }
        }
    }
}

/// Calls a kernel for a tile of `(vectors, rows)`, as [`next_rows`] gives them.
macro_rules! by_size {
    ($size:expr, $isa:expr, $kernel:ident, $tile:expr) => {
        match $size {
            (1, 8) => dispatch!($isa, $kernel::<1, 8>(t: &Tile<'_>) => ($tile)),
            (1, 4) => dispatch!($isa, $kernel::<1, 4>(t: &Tile<'_>) => ($tile)),
            (1, _) => dispatch!($isa, $kernel::<1, 1>(t: &Tile<'_>) => ($tile)),
            (2, 6) => dispatch!($isa, $kernel::<2, 6>(t: &Tile<'_>) => ($tile)),
            (2, 4) => dispatch!($isa, $kernel::<2, 4>(t: &Tile<'_>) => ($tile)),
            (2, _) => dispatch!($isa, $kernel::<2, 1>(t: &Tile<'_>) => ($tile)),
            (3, 8) => dispatch!($isa, $kernel::<3, 8>(t: &Tile<'_>) => ($tile)),
            (3, 4) => dispatch!($isa, $kernel::<3, 4>(t: &Tile<'_>) => ($tile)),
            (3, _) => dispatch!($isa, $kernel::<3, 1>(t: &Tile<'_>) => ($tile)),
            (_, 6) => dispatch!($isa, $kernel::<4, 6>(t: &Tile<'_>) => ($tile)),
            (_, 4) => dispatch!($isa, $kernel::<4, 4>(t: &Tile<'_>) => ($tile)),
            _ => dispatch!($isa, $kernel::<4, 1>(t: &Tile<'_>) => ($tile)),
        }
    };
}
pub(crate) use by_size;

/// The micro-kernel: `MR` rows by `NV` vectors.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    if NV > max_panel_of::<S>() {
        // `panels` never makes one so wide; saying so keeps its code from being generated.
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = start::<S, NV, MR>(t.results.epilogue);
        let mut w = t.w;
        let mut ahead = t.ahead.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in 0..t.shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                ask::<S, NV, MR>(t, w, &mut ahead);
                for i in 0..MR {
                    let a = S::splat(*x[i].add(k));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, b[v], acc[i][v]);
                    }
                }
            }
        }
        finish::<S, NV, MR>(&t.results, acc);
    }
}

/// Asks for memory that is needed soon: of the columns at `w` themselves where a tile has one
/// row, else of the next panel, and of the next tile's rows. A tile of one vector and several
/// rows asks for nothing: it needs every load that a core can do.
#[inline(always)]
pub(crate) unsafe fn ask<S: Simd, const NV: usize, const MR: usize>(
    t: &Tile<'_>,
    w: *const f32,
    ahead: &mut [*const f32; 2],
) {
    if MR == 1 {
        for v in 0..NV {
            S::prefetch(w.wrapping_add(STREAM_AHEAD + v * S::LANES));
        }
    } else if NV > 1 {
        S::prefetch(ahead[0]);
        S::prefetch(ahead[1]);
        ahead[0] = ahead[0].wrapping_add(t.ahead.step[0]);
        ahead[1] = ahead[1].wrapping_add(t.ahead.step[1]);
    }
}

/// Accumulators that hold the bias.
///
/// # Safety
///
/// As [`Tile::run`].
#[inline(always)]
pub(crate) unsafe fn start<S: Simd, const NV: usize, const MR: usize>(
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
/// As [`Tile::run`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(crate) unsafe fn finish<S: Simd, const NV: usize, const MR: usize>(
    t: &Results<'_>,
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
            for i in 0..MR {
                add_row::<S, NV>(&mut acc[i], t.residual[i], last);
            }
        }
        if let Activation::Clamp { low, high } = epilogue.activation {
            let (low, high) = (S::splat(low), S::splat(high));
            for i in 0..MR {
                for v in 0..NV {
                    // The bound first: `max` and `min` give the second operand for NaN.
                    acc[i][v] = S::min(high, S::max(low, acc[i][v]));
                }
            }
        }
        if epilogue.rounded && function.is_none() && !late_residual {
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
            math::apply_rows(epilogue.isa, function, &t.y[..MR], t.columns);
        }
        if late_residual {
            for (&y, &r) in t.y[..MR].iter().zip(&t.residual) {
                let row = std::slice::from_raw_parts_mut(y, t.columns);
                for (j, value) in row.iter_mut().enumerate() {
                    *value += *r.add(j);
                }
            }
        }
        if epilogue.rounded && (function.is_some() || late_residual) {
            rounding::round_rows(epilogue.isa, &t.y[..MR], t.columns);
        }
    }
}

/// The rows of a border tile, out of line so that the array it fills stays off the common path.
#[inline(never)]
fn border_rows(border: &dyn TapRows, tap: usize) -> [*const f32; MAX_ROWS] {
    let mut rows = [std::ptr::null(); MAX_ROWS];
    border.at(tap, &mut rows);
    rows
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

/// A product whose rows are evenly spaced: `y[m] = epilogue(x[m] * w)`.
#[derive(Clone, Copy)]
pub(crate) struct RowsProduct {
    /// First row.
    pub(crate) x: *const f32,
    /// Elements from one row to the next.
    pub(crate) x_stride: isize,
    /// First row of the result.
    pub(crate) y: *mut f32,
    /// Elements from one row to the next.
    pub(crate) y_stride: isize,
    /// First row of the residual; may be null.
    pub(crate) residual: *const f32,
    /// Elements from one row to the next.
    pub(crate) residual_stride: isize,
    /// Rows.
    pub(crate) m: usize,
    /// Depth.
    pub(crate) k: usize,
    /// Columns.
    pub(crate) n: usize,
    /// How the packed matrix is held.
    pub(crate) columns: Columns,
    /// After the product; `bias` for column 0, padded to whole vectors.
    pub(crate) epilogue: TileEpilogue,
}

/// Pointers `stride` elements apart; those beyond a tile's own rows may lie outside of the operand.
#[inline(always)]
fn evenly_spaced(first: *const f32, stride: isize) -> [*const f32; MAX_ROWS] {
    std::array::from_fn(|i| first.wrapping_offset(i as isize * stride))
}

/// Rows `first..last` of the columns of one panel.
///
/// # Safety
///
/// The pointers of `product` must be valid for its shape, `w` a matrix packed by
/// [`Columns::pack`] for the same instruction set, and rows and columns not written by another thread meanwhile.
pub(crate) unsafe fn product_rows(
    isa: Isa,
    product: &RowsProduct,
    w: *const f32,
    panel: Panel,
    rows: (usize, usize),
) {
    // SAFETY: forwarded.
    unsafe { product_rows_widening(isa, product, w, panel, rows, std::ptr::null_mut()) }
}

/// The same with room for a panel as f32 at `widened`, unless it is null: the first tile writes
/// f16 columns there, the others read them there.
///
/// # Safety
///
/// As [`product_rows`]; `widened` must be writable for `k * vectors * LANES` elements and not used
/// by another thread meanwhile.
pub(crate) unsafe fn product_rows_widening(
    isa: Isa,
    product: &RowsProduct,
    w: *const f32,
    panel: Panel,
    (first, last): (usize, usize),
    widened: *mut f32,
) {
    let p = product;
    let columns = (panel.vectors * isa.lanes()).min(p.n - panel.column);
    let mut epilogue = p.epilogue;
    if !epilogue.bias.is_null() {
        epilogue.bias = epilogue.bias.wrapping_add(panel.column);
    }
    let (residual, residual_stride) = match p.residual.is_null() {
        true => (p.residual, 0),
        false => (p.residual.wrapping_add(panel.column), p.residual_stride),
    };
    let y = p.y.wrapping_add(panel.column);
    let words = p.columns.words(p.k);
    let panel_len = words * panel.vectors * isa.lanes();
    let packed = w.wrapping_add(panel_offset(panel, words));
    // Rows without gaps are asked for, as another thread may have left them in its cache.
    let has_dense_rows = p.x_stride == p.k as isize;
    // Where the next tile finds the panel, and as what.
    let (mut held, mut held_as) = (packed, p.columns);
    let (mut m, mut index) = (first, 0);
    while m < last {
        let rows = next_rows(panel.vectors, last - m);
        let widens = held_as == Columns::F16 && !widened.is_null() && m + rows < last;
        let row = m as isize;
        let mut ahead = Ahead::share(packed.wrapping_add(panel_len), panel_len, words, index);
        if has_dense_rows {
            // Behind the last one begin those of the next task.
            let next = p.x.wrapping_offset((m + rows) as isize * p.x_stride);
            ahead = ahead.and_rows(next, rows * p.k / words.max(1));
        }
        let tile = Tile {
            x: evenly_spaced(p.x.wrapping_offset(row * p.x_stride), p.x_stride),
            offsets: &[0],
            border: None,
            w: held,
            columns: held_as,
            widened: match widens {
                true => widened,
                false => std::ptr::null_mut(),
            },
            ahead,
            shape: TileShape {
                taps: 1,
                depth: p.k,
            },
            results: Results {
                y: evenly_spaced(y.cast_const().wrapping_offset(row * p.y_stride), p.y_stride)
                    .map(<*const f32>::cast_mut),
                residual: evenly_spaced(
                    residual.wrapping_offset(row * residual_stride),
                    residual_stride,
                ),
                columns,
                epilogue: &epilogue,
            },
        };
        // SAFETY: rows first..last and the panel's columns exist by the caller's word.
        unsafe { tile.run(isa, panel.vectors, rows) };
        if widens {
            (held, held_as) = (widened.cast_const(), Columns::F32);
        }
        m += rows;
        index += 1;
    }
}

#[cfg(test)]
mod tests;
