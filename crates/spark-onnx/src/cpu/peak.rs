//! What this processor can do at most, measured: the scale a profile is read on.
//!
//! ```text
//! arithmetic   a product of 24 x 64 x 48 that stays in the nearest cache, on every thread at once
//! memory       reading a buffer of 256 MB, every thread its part
//! ```
//!
//! Both are the best of a few short tries, through this crate's own kernels: a peak of the
//! hardware no kernel here comes near would tell nothing about a layer.

use std::time::{Duration, Instant};

use spark_parallel::Pool;

use super::columns::Columns;
use super::gemm::{RowsProduct, TileEpilogue, panels, product_rows};
use super::memory::AlignedF32;
use super::simd::Isa;
use crate::plan::Weights;

/// Bytes read for the memory figure: beyond the caches of ordinary machines.
const BUFFER_BYTES: usize = 256 << 20;
/// Tries of each measurement.
const TRIES: usize = 5;
/// Products per thread and try.
const PRODUCTS: usize = 4000;

/// The most that was measured on a set of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peaks {
    /// 10^9 floating-point operations per second, f32.
    pub gflops: f64,
    /// 10^9 bytes read from memory per second.
    pub gigabytes_per_s: f64,
}

impl Peaks {
    /// Measures for a few tenths of a second, taking 256 MB meanwhile.
    pub(crate) fn measure(isa: Isa, pool: &Pool) -> Self {
        let best = |run: &dyn Fn()| {
            let time = || {
                let start = Instant::now();
                run();
                start.elapsed()
            };
            (0..TRIES).map(|_| time()).min().unwrap_or_default()
        };
        let threads = pool.threads();
        let arithmetic = best(&|| {
            pool.run(threads, |_| {
                let mut product = SmallProduct::new(isa, Columns::F32);
                (0..PRODUCTS).for_each(|_| product.run());
                std::hint::black_box(&product.y);
            });
        });
        let flops = 2 * SmallProduct::MACS * PRODUCTS * threads;
        let mut buffer = AlignedF32::zeros(BUFFER_BYTES / size_of::<f32>());
        // Written once: pages of zeros may all be the same page.
        buffer.as_mut_slice().fill(1.0);
        let values = buffer.as_slice();
        let memory = best(&|| {
            pool.run(threads, |part| {
                let share = values.len() * part / threads..values.len() * (part + 1) / threads;
                std::hint::black_box(sum(&values[share]));
            });
        });
        Self {
            gflops: per_nanosecond(flops, arithmetic),
            gigabytes_per_s: per_nanosecond(BUFFER_BYTES, memory),
        }
    }
}

fn per_nanosecond(amount: usize, time: Duration) -> f64 {
    amount as f64 / (time.as_nanos().max(1) as f64)
}

/// Sixty-four partial sums, so that additions do not wait for each other.
fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    for run in values.as_chunks::<64>().0 {
        for (sum, value) in sums.iter_mut().zip(run) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

/// A product whose operands stay in the nearest cache.
pub(crate) struct SmallProduct {
    isa: Isa,
    columns: Columns,
    x: Vec<f32>,
    packed: AlignedF32,
    y: Vec<f32>,
}

impl SmallProduct {
    const M: usize = 24;
    const K: usize = 64;
    const N: usize = 48;
    /// Multiply-accumulate operations of one run.
    pub(crate) const MACS: usize = Self::M * Self::K * Self::N;

    /// Operands of ones.
    pub(crate) fn new(isa: Isa, columns: Columns) -> Self {
        let weights = Weights::of_matrix(vec![1.0; Self::K * Self::N], [Self::K, Self::N]);
        let packed = columns.pack(isa, &weights, 0..Self::N, |_| {}, &Pool::new(1));
        Self {
            isa,
            columns,
            x: vec![1.0; Self::M * Self::K],
            packed,
            y: vec![0.0; Self::M * Self::N],
        }
    }

    /// Once.
    pub(crate) fn run(&mut self) {
        let product = RowsProduct {
            x: self.x.as_ptr(),
            x_stride: Self::K as isize,
            y: self.y.as_mut_ptr(),
            y_stride: Self::N as isize,
            residual: std::ptr::null(),
            residual_stride: 0,
            m: Self::M,
            k: Self::K,
            n: Self::N,
            columns: self.columns,
            epilogue: TileEpilogue::nothing(self.isa),
        };
        for panel in panels(self.isa, Self::N) {
            let packed = self.packed.as_slice().as_ptr();
            // SAFETY: the vectors are as long as the shape says, and `packed` was packed for it.
            unsafe { product_rows(self.isa, &product, packed, panel, (0, Self::M)) };
        }
    }

    /// The fastest of several short series.
    pub(crate) fn fastest(&mut self) -> Duration {
        let mut series = || {
            let start = Instant::now();
            (0..8).for_each(|_| self.run());
            start.elapsed()
        };
        (0..8).map(|_| series()).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_product_is_a_product() {
        for isa in Isa::available() {
            let mut product = SmallProduct::new(isa, Columns::F32);
            product.run();
            assert!(product.y.iter().all(|&v| v == 64.0), "{isa:?}");
        }
    }

    #[test]
    fn peaks_are_positive_numbers() {
        let peaks = Peaks::measure(Isa::detect(), &Pool::new(1));
        assert!(peaks.gflops > 0.1 && peaks.gflops.is_finite(), "{peaks:?}");
        assert!(peaks.gigabytes_per_s > 0.1 && peaks.gigabytes_per_s.is_finite());
    }
}
