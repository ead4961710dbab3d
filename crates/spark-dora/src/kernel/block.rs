//! Scratch memory in the order the micro-kernel reads.

use super::real::{Product, Real};

/// Elements whose rows the kernels read fastest start at a multiple of this many bytes.
const LINE_BYTES: usize = 64;

/// A right operand: `rows` rows of `width` elements, of which `columns` count.
pub(crate) struct Block<T> {
    data: Vec<T>,
    start: usize,
    width: usize,
    columns: usize,
    rows: usize,
}

impl<T: Real> Block<T> {
    /// A block without rows, which holds no memory yet.
    pub(crate) fn new() -> Self {
        Self {
            data: Vec::new(),
            start: 0,
            width: 0,
            columns: 0,
            rows: 0,
        }
    }

    /// Takes memory for `rows` x `columns`; what they hold is unspecified.
    pub(crate) fn reset(&mut self, rows: usize, columns: usize) {
        self.width = T::width(columns);
        (self.rows, self.columns) = (rows, columns);
        let slack = LINE_BYTES / size_of::<T>();
        let need = rows * self.width + slack;
        if self.data.len() < need {
            self.data = vec![T::zero(); need];
            self.start = match self.data.as_ptr().align_offset(LINE_BYTES) {
                offset if offset < slack => offset,
                _ => 0,
            };
        }
    }

    /// Elements from one row to the next.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Rows that were filled last.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// All rows, each [`Block::width`] long.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.data[self.start..][..self.rows * self.width]
    }

    /// All rows, each [`Block::width`] long, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data[self.start..][..self.rows * self.width]
    }

    /// The columns that count of row `k`.
    pub(crate) fn row(&self, k: usize) -> &[T] {
        &self.as_slice()[k * self.width..][..self.columns]
    }

    /// The columns that count of row `k`.
    pub(crate) fn row_mut(&mut self, k: usize) -> &mut [T] {
        let (width, columns) = (self.width, self.columns);
        &mut self.as_mut_slice()[k * width..][..columns]
    }

    /// Fills row `k` with `source[k * stride..]`, times `dora_scale[k]`.
    pub(crate) fn fill_rows(
        &mut self,
        rows: usize,
        columns: usize,
        source: &[T],
        stride: usize,
        dora_scale: Option<&[T]>,
    ) {
        self.reset(rows, columns);
        for k in 0..rows {
            let from = &source[k * stride..][..columns];
            let to = self.row_mut(k);
            match dora_scale {
                None => to.copy_from_slice(from),
                Some(dora_scale) => {
                    let dora_scale = dora_scale[k];
                    for (to, &from) in to.iter_mut().zip(from) {
                        *to = from * dora_scale;
                    }
                }
            }
        }
    }

    /// Fills element `(k, n)` with `source[n * stride + k]`.
    pub(crate) fn fill_columns(
        &mut self,
        rows: usize,
        columns: usize,
        source: &[T],
        stride: usize,
    ) {
        self.reset(rows, columns);
        self.set_columns((0, columns), source, stride);
    }

    /// Sets element `(k, first + n)` to `source[n * stride + k]`, for `count` columns.
    pub(crate) fn set_columns(
        &mut self,
        (first, count): (usize, usize),
        source: &[T],
        stride: usize,
    ) {
        let (rows, width) = (self.rows, self.width);
        if rows > 0 && count > 0 {
            let to = &mut self.as_mut_slice()[first..];
            transpose((count, rows), source, stride, to, width, |_, value| value);
        }
    }

    /// Multiplies: `y (+)= x * self`, with `m` rows of `x`.
    pub(crate) fn multiply(
        &self,
        (x, x_stride): (&[T], usize),
        (y, y_stride): (&mut [T], usize),
        m: usize,
        accumulate: bool,
    ) {
        T::multiply(Product {
            x,
            x_stride,
            block: self.as_slice(),
            y,
            y_stride,
            m,
            k: self.rows,
            n: self.columns,
            accumulate,
        });
    }
}

/// Side of the squares in which matrices are transposed: two of them fit L1.
const SQUARE: usize = 16;

/// `to[c * to_stride + r] = map(r, from[r * from_stride + c])` for all `rows` x `columns`.
pub(crate) fn transpose<T: Copy>(
    (rows, columns): (usize, usize),
    from: &[T],
    from_stride: usize,
    to: &mut [T],
    to_stride: usize,
    map: impl Fn(usize, T) -> T,
) {
    for row in (0..rows).step_by(SQUARE) {
        let row_end = rows.min(row + SQUARE);
        for column in (0..columns).step_by(SQUARE) {
            let column_end = columns.min(column + SQUARE);
            for c in column..column_end {
                let to = &mut to[c * to_stride + row..c * to_stride + row_end];
                for (r, to) in (row..row_end).zip(to) {
                    *to = map(r, from[r * from_stride + c]);
                }
            }
        }
    }
}

/// `[columns, rows]` of `[rows, columns]`.
pub(crate) fn transposed<T: Real>(from: &[T], (rows, columns): (usize, usize)) -> Vec<T> {
    let mut to = vec![T::zero(); rows * columns];
    transpose((rows, columns), from, columns, &mut to, rows, |_, v| v);
    to
}

/// Cuts `count` columns into blocks as `(first, columns)`.
pub(crate) fn panels<T: Real>(count: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let widest = T::widest();
    (0..count)
        .step_by(widest)
        .map(move |first| (first, widest.min(count - first)))
}
