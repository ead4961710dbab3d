//! One tile: rows of the left operand, a panel of packed weights, and where the results go.

#![allow(unsafe_code, reason = "a trait that promises where its pointers lead")]

use crate::epilogue::TileOutput;
use crate::float_format::FloatFormat;
use crate::layout::PackedLayout;
use crate::panel::MAX_ROWS;
use crate::prefetch::Prefetch;

/// Gives the rows of a tile tap by tap, where an offset per tap does not do.
///
/// # Safety
///
/// [`TapRows::at`] must write a pointer that is readable for as many elements as the tile is deep, for each
/// row of the tile and every tap.
pub unsafe trait TapRows {
    /// Writes a pointer to `K` elements, held as the tile's `x_format` says, for each of the tile's rows at tap `tap`.
    fn at(&self, tap: usize, rows: &mut [*const f32; MAX_ROWS]);
}

/// Depth of a tile.
#[derive(Debug, Clone, Copy)]
pub struct TileShape {
    /// Taps that are summed over; 1 for a plain matmul.
    pub taps: usize,
    /// Elements per tap and row.
    pub depth: usize,
}

/// One tile: rows beyond its own are ignored.
pub struct Tile<'a> {
    /// Start of every row at offset zero.
    pub x: [*const f32; MAX_ROWS],
    /// How rows are held: as f32 unless the layout is [`PackedLayout::Bf16Dot`], which reads either.
    pub x_format: FloatFormat,
    /// Elements from there, per tap.
    pub offsets: &'a [isize],
    /// Instead of the two above, for tiles at a border.
    pub border: Option<&'a dyn TapRows>,
    /// The panel's packed columns.
    pub w: *const f32,
    /// How they are held.
    pub layout: PackedLayout,
    /// Where f16 weights are written as f32 as well; null for nowhere.
    pub converted: *mut f32,
    /// Taps, and elements per tap, that are summed over.
    pub shape: TileShape,
    /// Where the results go.
    pub output: TileOutput<'a>,
    /// What to prefetch meanwhile.
    pub prefetch: Prefetch,
}

impl Tile<'_> {
    /// Pointers to the rows at tap `tap`.
    #[inline(always)]
    pub(crate) fn rows_at(&self, tap: usize) -> [*const f32; MAX_ROWS] {
        match self.border {
            Some(border) => border_rows(border, tap),
            None => {
                let offset = self.offsets[tap];
                self.x.map(|row| self.x_format.offset(row, offset))
            }
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
