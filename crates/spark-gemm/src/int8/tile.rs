//! One tile of bytes: rows of activations, a panel of packed weights, and where the results go.

#![allow(unsafe_code, reason = "a trait that promises where its pointers lead")]

use super::instructions::{ByteKind, Int8Instructions};
use super::output::Int8Output;
use super::packed::Int8Weights;
use crate::panel::{MAX_ROWS, Panel};
use crate::prefetch::Prefetch;
use crate::weights::WeightShape;

/// Gives the rows of a tile tap by tap, where an offset per tap does not do.
///
/// # Safety
///
/// [`ByteRows::at`] must write a pointer that is readable for as many bytes as the weights are deep, for
/// each row of the tile and every tap.
pub unsafe trait ByteRows {
    /// Writes a pointer to `K` bytes for each of the tile's rows at tap `tap`.
    fn at(&self, tap: usize, rows: &mut [*const u8; MAX_ROWS]);
}

/// A panel of packed weights: made of weights alone, so that it fits its instructions.
#[derive(Debug, Clone, Copy)]
pub struct Int8Panel<'a> {
    pub(super) instructions: Int8Instructions,
    pub(super) words: &'a [f32],
    pub(super) shape: WeightShape,
    pub(super) vectors: usize,
    columns: usize,
}

impl Int8Weights<'_> {
    /// The weights of `panel` of `group`.
    ///
    /// # Panics
    ///
    /// If there is no such group, or `panel` is none of those of so many columns.
    pub fn panel_of(&self, group: usize, panel: Panel) -> Int8Panel<'_> {
        let lanes = self.instructions().isa().lanes();
        assert!(
            group < self.shape().groups && (panel.column < self.columns() || panel.vectors == 0),
            "a panel of the weights"
        );
        let most = crate::panel::max_panel(self.instructions().isa());
        assert!(panel.vectors <= most, "as wide as kernels are");
        Int8Panel {
            instructions: self.instructions(),
            words: self.panel(group, panel),
            shape: self.shape(),
            vectors: panel.vectors,
            columns: (panel.vectors * lanes).min(self.columns() - panel.column),
        }
    }
}

impl Int8Panel<'_> {
    /// Columns that exist: they reach into the last vector.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows of the next tile, of `left` rows that remain.
    pub fn next_rows(&self, left: usize) -> usize {
        self.instructions.next_rows(self.vectors, left)
    }

    /// What tile `index` prefetches of the `len` words after the panel.
    pub fn prefetch(&self, index: usize) -> Prefetch {
        let lanes = self.instructions.isa().lanes();
        let steps = self.words.len() / (self.vectors * lanes).max(1);
        let next = self.words.as_ptr_range().end;
        Prefetch::share(next, self.words.len(), steps, index)
    }
}

/// One tile: rows beyond its own are ignored.
pub struct Int8Tile<'a> {
    /// Start of every row at offset zero.
    pub x: [*const u8; MAX_ROWS],
    /// What the bytes are.
    pub kind: ByteKind,
    /// Bytes from there, per tap.
    pub offsets: &'a [isize],
    /// Instead of the two above, for tiles at a border: rows outside hold the zero point of `x`.
    pub border: Option<&'a dyn ByteRows>,
    /// The panel's packed columns.
    pub panel: Int8Panel<'a>,
    /// Where sums begin, from the panel's first column on: see [`Int8Weights::write_initial`].
    pub initial: *const i32,
    /// Zero points of the weights as they are held, from the panel's first column on; null where
    /// [`Int8Weights::write_held_zero_points`] finds none.
    pub zero_points: *const i32,
    /// Where the results go, and as what.
    pub output: Int8Output<'a>,
    /// What to prefetch meanwhile.
    pub prefetch: Prefetch,
}

impl Int8Tile<'_> {
    /// Pointers to the rows at tap `tap`.
    #[inline(always)]
    pub(super) fn rows_at(&self, tap: usize) -> [*const u8; MAX_ROWS] {
        match self.border {
            Some(border) => border_rows(border, tap),
            None => {
                let offset = self.offsets[tap];
                self.x.map(|row| row.wrapping_offset(offset))
            }
        }
    }

    /// Columns of the last vector that exist.
    #[inline(always)]
    pub(super) fn last(&self, lanes: usize) -> usize {
        self.panel.columns - (self.panel.vectors - 1) * lanes
    }
}

/// The rows of a border tile, out of line so that the array it fills stays off the common path.
#[inline(never)]
fn border_rows(border: &dyn ByteRows, tap: usize) -> [*const u8; MAX_ROWS] {
    let mut rows = [std::ptr::null(); MAX_ROWS];
    border.at(tap, &mut rows);
    rows
}
