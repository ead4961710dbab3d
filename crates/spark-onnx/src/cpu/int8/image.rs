//! Pictures of bytes, tile by tile: row pointers per tap, and a row of zero points for taps outside.
//!
//! ```text
//! pixel m of the result -> MR pixels make a tile
//! inside  every tap of every pixel is in the picture: row pointer + constant offset per tap
//! border  per tap and pixel: a row of the picture, or the row outside
//! ```
//!
//! The same indirection as for pictures of floats (`conv::direct`), over other elements and results.

#![allow(
    unsafe_code,
    reason = "moves pointers through views that the plan has checked"
)]

use spark_gemm::int8::{ByteKind, ByteRows, Int8Output, Int8Panel, Int8Tile, Requantise};
use spark_gemm::{MAX_ROWS, TileEpilogue, TileOutput};

use super::lists::Lists;
use crate::plan::Window;

/// Columns of the widest panel of any instruction set.
const MOST_COLUMNS: usize = 64;

/// Where results go: the first element of a picture, and of its first channel of a group.
#[derive(Clone, Copy)]
pub(super) enum Results {
    /// Sums, held as i64.
    Sums(*mut i64),
    /// Bytes: what stands for zero, and the bounds.
    Bytes(*mut u8, i32, (i32, i32)),
    /// Floats.
    Floats(*mut f32),
}

/// One picture and the result made of it, from one input and one output channel on.
#[derive(Clone, Copy)]
pub(super) struct Picture {
    pub(super) x: *const u8,
    pub(super) x_kind: ByteKind,
    /// Bytes from one row and one pixel to the next.
    pub(super) x_strides: [isize; 2],
    pub(super) results: Results,
    /// Elements from one row and one pixel of the result to the next.
    pub(super) y_strides: [isize; 2],
    /// Height and width of `x`.
    pub(super) extent: [isize; 2],
    /// Width of the result.
    pub(super) width: usize,
    pub(super) window: Window,
    /// A row for taps outside of the picture.
    pub(super) outside: *const u8,
}

/// Where the pixels of a tile are: of every row the first byte that the first tap reads, and the elements from the
/// start of the picture of results on; and what taps outside of the picture read, if any lie there.
struct Places<'a> {
    x: [*const u8; MAX_ROWS],
    y: [isize; MAX_ROWS],
    border: Option<BorderRows<'a>>,
}

impl Picture {
    /// Elements from one pixel of the result to the next, and bytes from what the first tap reads for one to the next,
    /// if these are the same from one end of the picture to the other and every tap lies in it. The result has
    /// `height` rows.
    pub(super) fn apart(&self, height: usize) -> Option<(isize, isize)> {
        let Window {
            kernel,
            stride,
            pad,
            ..
        } = self.window;
        let is_pixel = kernel == [1, 1] && stride == [1, 1] && pad == [0, 0];
        let width = self.width as isize;
        let is_run = |[row, column]: [isize; 2]| row == column * width;
        let fits = self.extent == [height as isize, width];
        (is_pixel && fits && is_run(self.x_strides) && is_run(self.y_strides))
            .then_some((self.y_strides[1], self.x_strides[1]))
    }

    /// The places of `rows` pixels from `m` on; rows beyond them repeat the last.
    fn places(&self, m: usize, rows: usize) -> Places<'_> {
        let window = &self.window;
        let mut at = [(m / self.width) as isize, (m % self.width) as isize];
        let (mut x, mut y) = ([self.x; MAX_ROWS], [0; MAX_ROWS]);
        let mut origin = [[0; 2]; MAX_ROWS];
        let mut inside = true;
        for i in 0..MAX_ROWS {
            for a in 0..2 {
                origin[i][a] = at[a] * window.stride[a] as isize - window.pad[a] as isize;
                let reach = ((window.kernel[a] - 1) * window.dilation[a]) as isize;
                inside &= origin[i][a] >= 0 && origin[i][a] + reach < self.extent[a];
            }
            let [row, column] = self.x_strides;
            x[i] = self
                .x
                .wrapping_offset(origin[i][0] * row + origin[i][1] * column);
            y[i] = at[0] * self.y_strides[0] + at[1] * self.y_strides[1];
            if i + 1 < rows {
                at[1] += 1;
                if at[1] == self.width as isize {
                    at = [at[0] + 1, 0];
                }
            }
        }
        let picture = self;
        let border = (!inside).then_some(BorderRows { picture, origin });
        Places { x, y, border }
    }

    /// The same where pixels are `apart`.
    fn places_of_run(&self, m: usize, rows: usize, apart: (isize, isize)) -> Places<'_> {
        let (mut x, mut y) = ([self.x; MAX_ROWS], [0; MAX_ROWS]);
        for i in 0..MAX_ROWS {
            let pixel = (m + i.min(rows - 1)) as isize;
            x[i] = self.x.wrapping_offset(pixel * apart.1);
            y[i] = pixel * apart.0;
        }
        let border = None;
        Places { x, y, border }
    }
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint parts.
unsafe impl Sync for Picture {}

/// Rows of a tile at the border.
struct BorderRows<'a> {
    picture: &'a Picture,
    /// Coordinates of the first tap.
    origin: [[isize; 2]; MAX_ROWS],
}

// SAFETY: rows are pixels inside of the picture, whose channels are as many as the weights are deep; the row
// outside is as long.
unsafe impl ByteRows for BorderRows<'_> {
    fn at(&self, tap: usize, rows: &mut [*const u8; MAX_ROWS]) {
        let picture = self.picture;
        let Window {
            kernel, dilation, ..
        } = picture.window;
        let tap = [tap / kernel[1], tap % kernel[1]];
        let reach: [isize; 2] = std::array::from_fn(|a| (tap[a] * dilation[a]) as isize);
        for (row, origin) in rows.iter_mut().zip(&self.origin) {
            let at = [origin[0] + reach[0], origin[1] + reach[1]];
            let is_inside = (0..2).all(|a| (0..picture.extent[a]).contains(&at[a]));
            *row = match is_inside {
                true => {
                    let [row, column] = picture.x_strides;
                    picture.x.wrapping_offset(at[0] * row + at[1] * column)
                }
                false => picture.outside,
            };
        }
    }
}

/// All tiles of one panel of one group.
pub(super) struct Job<'a> {
    pub(super) picture: &'a Picture,
    /// What [`Picture::apart`] says.
    pub(super) apart: Option<(isize, isize)>,
    pub(super) tap_offsets: &'a [isize],
    pub(super) panel: Int8Panel<'a>,
    /// The panel's first column.
    pub(super) column: usize,
    pub(super) group: usize,
    pub(super) lists: Lists<'a>,
    /// For floats; its bias is set from the lists.
    pub(super) epilogue: TileEpilogue,
}

impl Job<'_> {
    /// Runs pixels `first..last`.
    ///
    /// # Safety
    ///
    /// Pointers must be valid for the step's shapes and the pixels not written elsewhere.
    pub(super) unsafe fn run(&self, first: usize, last: usize) {
        let epilogue = TileEpilogue {
            bias: self.lists.float_bias(self.group, self.column),
            ..self.epilogue
        };
        let (mut m, mut index) = (first, 0);
        while m < last {
            let rows = self.panel.next_rows(last - m);
            // SAFETY: pixels first..last exist, guaranteed by the caller.
            unsafe { self.tile(m, rows, index, &epilogue) };
            m += rows;
            index += 1;
        }
    }

    /// # Safety
    ///
    /// As [`Job::run`], for pixels `m..m + rows`.
    unsafe fn tile(&self, m: usize, rows: usize, index: usize, epilogue: &TileEpilogue) {
        let picture = self.picture;
        let Places { x, y, border } = match self.apart {
            Some(apart) => picture.places_of_run(m, rows, apart),
            None => picture.places(m, rows),
        };
        let mut place = y;
        for place in &mut place {
            *place += self.column as isize;
        }
        let multipliers = self.lists.multipliers(self.group, self.column);
        let mut sums: Option<[[i32; MOST_COLUMNS]; MAX_ROWS]> = None;
        let output = match picture.results {
            Results::Sums(_) => {
                let sums = sums.insert([[0; MOST_COLUMNS]; MAX_ROWS]);
                Int8Output::Sums(sums.each_mut().map(|row| row.as_mut_ptr()))
            }
            Results::Bytes(y, zero_point, (low, high)) => Int8Output::Bytes {
                y: place.map(|place| y.wrapping_offset(place)),
                requantise: Requantise {
                    multipliers,
                    zero_point,
                    low,
                    high,
                },
            },
            Results::Floats(y) => Int8Output::Floats {
                output: TileOutput {
                    y: place.map(|place| y.wrapping_offset(place)),
                    residual: [std::ptr::null(); MAX_ROWS],
                    columns: self.panel.columns(),
                    epilogue,
                },
                multipliers,
            },
        };
        let border = border.as_ref().map(|rows| rows as &dyn ByteRows);
        let tile = Int8Tile {
            x,
            kind: picture.x_kind,
            offsets: self.tap_offsets,
            border,
            panel: self.panel,
            initial: self.lists.initial(self.group, self.column),
            zero_points: self.lists.zero_points(self.group, self.column),
            output,
            prefetch: self.panel.prefetch(index),
        };
        // SAFETY: rows point at pixels of the picture or at the row outside, all of as many bytes as the weights
        // are deep; results are pixels of their view; lists reach to the padded channels.
        unsafe { tile.run(rows) };
        if let (Results::Sums(y), Some(sums)) = (picture.results, sums) {
            for (i, sums) in sums[..rows].iter().enumerate() {
                let to = y.wrapping_offset(place[i]);
                for (column, &sum) in sums[..self.panel.columns()].iter().enumerate() {
                    // SAFETY: the panel's columns of a pixel of the result.
                    unsafe { *to.add(column) = i64::from(sum) };
                }
            }
        }
    }
}
