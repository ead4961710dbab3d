//! The two element types the kernels compute in.
//!
//! ```text
//! f32   training and inference: the micro-kernel of spark-gemm
//! f64   checks: finite differences need it; plain loops
//! ```

use candle_core::{DType, WithDType};
use spark_gemm::block::{self, BlockMatmul};
use spark_simd::Isa;

/// `y[m, n] (+)= sum over k of x[m, k] * block[k, n]`; see [`spark_gemm::block`].
pub(crate) struct Product<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) x_stride: usize,
    pub(crate) block: &'a [T],
    pub(crate) y: &'a mut [T],
    pub(crate) y_stride: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) accumulate: bool,
}

/// A number the kernels compute in.
pub(crate) trait Real: WithDType + Send + Sync {
    /// Its name in candle.
    const TYPE: DType;
    /// Most columns of a block.
    fn widest() -> usize;
    /// Elements from one row of a block of `n` columns to the next.
    fn width(n: usize) -> usize;
    /// Values that were stored narrower.
    fn from_f32s(values: Vec<f32>) -> Vec<Self>;
    /// The same number without its sign.
    fn abs(self) -> Self;
    /// Multiplies `x` with one block, into `y` or added to it.
    fn multiply(product: Product<'_, Self>);
}

impl Real for f32 {
    const TYPE: DType = DType::F32;

    fn widest() -> usize {
        block::max_columns(Isa::detect())
    }

    fn width(n: usize) -> usize {
        block::row_len(Isa::detect(), n)
    }

    fn from_f32s(values: Vec<f32>) -> Vec<f32> {
        values
    }

    fn abs(self) -> Self {
        f32::abs(self)
    }

    fn multiply(p: Product<'_, f32>) {
        block::matmul(
            Isa::detect(),
            BlockMatmul {
                x: p.x,
                x_stride: p.x_stride,
                block: p.block,
                y: p.y,
                y_stride: p.y_stride,
                m: p.m,
                k: p.k,
                n: p.n,
                accumulate: p.accumulate,
            },
        );
    }
}

impl Real for f64 {
    const TYPE: DType = DType::F64;

    fn widest() -> usize {
        32
    }

    fn width(n: usize) -> usize {
        n.next_multiple_of(8)
    }

    fn from_f32s(values: Vec<f32>) -> Vec<f64> {
        values.into_iter().map(f64::from).collect()
    }

    fn abs(self) -> Self {
        f64::abs(self)
    }

    fn multiply(p: Product<'_, f64>) {
        let width = Self::width(p.n);
        for row in 0..p.m {
            let x = &p.x[row * p.x_stride..][..p.k];
            let y = &mut p.y[row * p.y_stride..][..p.n];
            if !p.accumulate {
                y.fill(0.0);
            }
            for (k, &x) in x.iter().enumerate() {
                let right = &p.block[k * width..][..p.n];
                for (y, &b) in y.iter_mut().zip(right) {
                    *y += x * b;
                }
            }
        }
    }
}
