//! Products of bytes for safe code: checked slices.
//!
//! ```text
//! s[m, n] = sum over k of (x[m, k] - zx) (w[k, n] - zw[n]) + bias[n]          exact
//!
//! sums         y = s                                                             i32
//! requantised  y = saturate(round(f32(s) * multiplier[n]) + zero point)        i8, u8
//! dequantised  y = f32(s) * multiplier[n] + bias[n]                             f32
//! ```
//!
//! Deliberately absent: threads, and several taps, whose rows are given by pointers ([`Int8Tile`](super::Int8Tile)).

#![allow(
    unsafe_code,
    reason = "calls the kernel with slices that were held against the shape"
)]

use std::ops::RangeInclusive;

use super::gemm::{Int8Gemm, Int8Result, int8_gemm_panel};
use super::instructions::ByteKind;
use super::output::Requantise;
use super::packed::Int8Weights;
use crate::epilogue::TileEpilogue;
use crate::panel::panels;

/// Bytes of either kind.
#[derive(Debug, Clone, Copy)]
pub enum Bytes<'a> {
    /// From -128 to 127.
    I8(&'a [i8]),
    /// From 0 to 255.
    U8(&'a [u8]),
}

impl Bytes<'_> {
    /// What they are.
    pub fn kind(&self) -> ByteKind {
        match self {
            Self::I8(_) => ByteKind::Signed,
            Self::U8(_) => ByteKind::Unsigned,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::I8(bytes) => bytes.len(),
            Self::U8(bytes) => bytes.len(),
        }
    }

    fn as_ptr(&self) -> *const u8 {
        match self {
            Self::I8(bytes) => bytes.as_ptr().cast(),
            Self::U8(bytes) => bytes.as_ptr(),
        }
    }
}

/// Bytes of either kind, to be written.
#[derive(Debug)]
pub enum BytesMut<'a> {
    /// From -128 to 127.
    I8(&'a mut [i8]),
    /// From 0 to 255.
    U8(&'a mut [u8]),
}

/// The operands of a product of bytes; its methods multiply.
#[derive(Debug, Clone, Copy)]
pub struct Int8Matmul<'a> {
    /// Left operand: row `m` starts at `m * x_stride` and is as long as the weights are deep.
    pub x: Bytes<'a>,
    /// Elements from one row of `x` to the next.
    pub x_stride: usize,
    /// What stands for zero in `x`.
    pub x_zero_point: i32,
    /// Rows of `x` and of the result.
    pub m: usize,
    /// Right operand, of one group and one tap.
    pub weights: &'a Int8Weights<'a>,
    /// What stands for zero in the weights: nothing if that is 0, one value, or one per column.
    pub weight_zero_points: &'a [i32],
    /// Added to the sums: nothing, or one value per column.
    pub bias: &'a [i32],
}

impl Int8Matmul<'_> {
    /// The sums: row `m` of the result starts at `m * y_stride` of `y`. They wrap if a zero point is outside its
    /// bytes or the bias makes them too large.
    ///
    /// # Panics
    ///
    /// If an operand is shorter than its shape says, rows of `y` overlap, or the weights have several groups or
    /// taps.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_gemm::{WeightMemory, WeightShape};
    /// use spark_gemm::int8::{ByteKind, Bytes, Int8Instructions, Int8Layout, Int8Matmul};
    /// use spark_parallel::Pool;
    /// use spark_simd::Isa;
    ///
    /// let weights = [[1, -1], [2, 100], [-3, 0]]; // 3 rows of 2
    /// let write = |_, columns: std::ops::Range<usize>, to: &mut [u8], width: usize| {
    ///     for (row, to) in weights.iter().zip(to.chunks_exact_mut(width)) {
    ///         for (to, w) in to.iter_mut().zip(&row[columns.clone()]) {
    ///             *to = i8::cast_unsigned(*w);
    ///         }
    ///     }
    /// };
    /// let shape = WeightShape { groups: 1, taps: 1, depth: 3 };
    /// let best = Int8Instructions::best(Isa::detect());
    /// let layout = Int8Layout::new(best, shape, 2, ByteKind::Signed)?;
    /// let weights = layout.pack(write, &WeightMemory::default(), &Pool::new(1));
    /// let product = Int8Matmul {
    ///     x: Bytes::U8(&[10, 20, 30, 255, 255, 255]), // 2 rows of 3
    ///     x_stride: 3,
    ///     x_zero_point: 10,
    ///     m: 2,
    ///     weights: &weights,
    ///     weight_zero_points: &[],
    ///     bias: &[],
    /// };
    /// let mut y = [0; 4];
    /// product.sums(&mut y, 2);
    /// assert_eq!(y, [20 - 60, 1000, 0, 99 * 245]);
    /// # Ok::<(), spark_gemm::int8::DepthError>(())
    /// ```
    pub fn sums(&self, y: &mut [i32], y_stride: usize) {
        let stride = self.stride(y.len(), y_stride);
        let y = y.as_mut_ptr();
        // SAFETY: `stride` has held `y` against the shape.
        unsafe { self.run(Int8Result::Sums { y, stride }) }
    }

    /// Bytes of the kind of `y`, within `clamp`: `multipliers` (one, or one per column) are the scale of
    /// the sums divided by that of the result, whose `zero_point` stands for zero.
    ///
    /// # Panics
    ///
    /// As [`Int8Matmul::sums`]; if the multipliers are not as many, or no byte is within `clamp`.
    pub fn requantised(
        &self,
        y: BytesMut<'_>,
        y_stride: usize,
        multipliers: &[f32],
        zero_point: i32,
        clamp: RangeInclusive<i32>,
    ) {
        let (kind, len, y) = match y {
            BytesMut::I8(y) => (ByteKind::Signed, y.len(), y.as_mut_ptr().cast()),
            BytesMut::U8(y) => (ByteKind::Unsigned, y.len(), y.as_mut_ptr()),
        };
        let (least, greatest) = kind.range();
        let low = least.max(*clamp.start());
        let high = greatest.min(*clamp.end());
        assert!(low <= high, "a byte within the bounds");
        assert!((least..=greatest).contains(&zero_point), "a byte for zero");
        let multipliers = self.per_column(multipliers);
        let result = Int8Result::Bytes {
            y,
            stride: self.stride(len, y_stride),
            requantise: Requantise {
                multipliers: multipliers.as_ptr(),
                zero_point,
                low,
                high,
            },
        };
        // SAFETY: `stride` has held `y` against the shape; there is a multiplier per padded column.
        unsafe { self.run(result) }
    }

    /// Floats: `multipliers` (one, or one per column) are the scale of the sums; `bias` (none, or one value per
    /// column) is added to the results.
    ///
    /// # Panics
    ///
    /// As [`Int8Matmul::sums`]; if multipliers or biases are not as many.
    pub fn dequantised(&self, y: &mut [f32], y_stride: usize, multipliers: &[f32], bias: &[f32]) {
        let multipliers = self.per_column(multipliers);
        let bias = match bias {
            [] => None,
            bias => Some(self.per_column(bias)),
        };
        let isa = self.weights.instructions().isa();
        let result = Int8Result::Floats {
            stride: self.stride(y.len(), y_stride),
            y: y.as_mut_ptr(),
            residual: std::ptr::null(),
            residual_stride: 0,
            multipliers: multipliers.as_ptr(),
            epilogue: TileEpilogue {
                bias: bias.as_ref().map_or(std::ptr::null(), |b| b.as_ptr()),
                ..TileEpilogue::none(isa)
            },
        };
        // SAFETY: `stride` has held `y` against the shape; lists have a value per padded column.
        unsafe { self.run(result) }
    }

    /// One value, or one per column, as one per padded column.
    fn per_column(&self, values: &[f32]) -> Vec<f32> {
        let n = self.weights.columns();
        let mut all = match values {
            [one] => vec![*one; n],
            values => {
                assert_eq!(values.len(), n, "a value per column");
                values.to_vec()
            }
        };
        all.resize(self.weights.padded_columns(), 0.0);
        all
    }

    /// Elements from one row of a result of `len` elements to the next, where that is long enough.
    fn stride(&self, len: usize, stride: usize) -> isize {
        let n = self.weights.columns();
        assert!(
            reaches(self.m, stride, n) <= Some(len) && reaches(self.m, stride, n).is_some(),
            "y has the rows its shape says"
        );
        assert!(stride >= n || self.m <= 1, "rows of y do not overlap");
        match self.m {
            // A single row has no next one: a stride beyond the operand would only overflow.
            0 | 1 => n as isize,
            _ => stride as isize,
        }
    }

    /// Runs every panel.
    ///
    /// # Safety
    ///
    /// The result must be writable for `m` rows of as many columns as there are, and its lists readable for
    /// padded columns.
    unsafe fn run(&self, result: Int8Result) {
        let weights = self.weights;
        let shape = weights.shape();
        assert_eq!(
            (shape.groups, shape.taps),
            (1, 1),
            "the weights of a matrix"
        );
        let reach = reaches(self.m, self.x_stride, shape.depth);
        assert!(
            reach.is_some_and(|end| end <= self.x.len()),
            "x has the rows its shape says"
        );
        let kind = self.x.kind();
        let mut initial = vec![0; weights.padded_columns()];
        let zero_points = self.weight_zero_points;
        weights.write_initial(
            0,
            (kind, self.x_zero_point),
            zero_points,
            self.bias,
            &mut initial,
        );
        let mut held = vec![0; weights.padded_columns()];
        let has_zero_points = weights.write_held_zero_points(zero_points, &mut held);
        let gemm = Int8Gemm {
            x: self.x.as_ptr(),
            x_stride: match self.m {
                0 | 1 => shape.depth as isize,
                _ => self.x_stride as isize,
            },
            kind,
            weights,
            group: 0,
            initial: initial.as_ptr(),
            zero_points: match has_zero_points {
                true => held.as_ptr(),
                false => std::ptr::null(),
            },
            result,
        };
        for panel in panels(weights.instructions().isa(), weights.columns()) {
            // SAFETY: the assertions above give every row of `x`; lists are padded; the result is
            // guaranteed by the caller.
            unsafe { int8_gemm_panel(&gemm, panel, (0, self.m)) };
        }
    }
}

/// The end of `m` rows of `len` elements, `stride` apart.
fn reaches(m: usize, stride: usize, len: usize) -> Option<usize> {
    match m {
        0 => Some(0),
        _ => (m - 1).checked_mul(stride)?.checked_add(len),
    }
}
