//! The roofline of this processor, measured: the scale that a profile is read on.
//!
//! ```text
//! arithmetic   a matmul of 24 x 64 x 48 that stays in the L1 cache, on every thread at once
//! memory       reading a buffer of 256 MB, every thread its part
//! ```
//!
//! Both are the best of a few short tries, through this crate's own kernels: a peak of the
//! hardware no kernel here comes near would tell nothing about a layer.

use std::time::{Duration, Instant};

use spark_parallel::Pool;
use spark_simd::Isa;

use crate::layout::PackedLayout;
use crate::memory::AlignedF32;
use crate::small::SmallGemm;

/// Bytes read for the memory figure: beyond the caches of ordinary machines.
const BUFFER_BYTES: usize = 256 << 20;
/// Tries of each measurement.
const TRIES: usize = 5;
/// Matmuls per thread and try.
const MATMULS: usize = 4000;

/// The most that was measured on a set of threads: the two slopes of a roofline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// 10^9 floating-point operations per second, f32.
    pub gflops: f64,
    /// 10^9 bytes read from memory per second.
    pub gigabytes_per_s: f64,
}

impl Roofline {
    /// Measures for a few tenths of a second, taking 256 MB meanwhile.
    pub fn measure(isa: Isa, pool: &Pool) -> Self {
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
                let mut gemm = SmallGemm::new(isa, PackedLayout::F32);
                (0..MATMULS).for_each(|_| gemm.run());
                std::hint::black_box(gemm.results());
            });
        });
        let flops = 2 * SmallGemm::MACS * MATMULS * threads;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_positive_numbers() {
        let peaks = Roofline::measure(Isa::detect(), &Pool::new(1));
        assert!(peaks.gflops > 0.1 && peaks.gflops.is_finite(), "{peaks:?}");
        assert!(peaks.gigabytes_per_s > 0.1 && peaks.gigabytes_per_s.is_finite());
    }
}
