//! The kernels with their host versions, and what their results are.

use spark_mem::{KernelSource, LaunchShape, Read, Write};

const SOURCE: &str = include_str!("../kernels/load.cu");
const FILE: &str = "load.cu";
pub(crate) const THREADS_PER_BLOCK: u32 = 256;
/// So many blocks fill a multiprocessor of 1536 threads.
const BLOCKS: u32 = 6;
/// Words are their number times this, modulo 2^32: Knuth's multiplier, which is odd.
const MULTIPLIER: u32 = 2_654_435_761;
/// Chains of a thread; the kernel has the same number.
pub(crate) const CHAINS: u32 = 8;
/// Just above -1: a chain neither vanishes nor settles, and a step too many or too few changes its sign.
pub(crate) const FACTOR: f32 = -0.999_999_94;
pub(crate) const SUMMAND: f32 = 0.25;

pub(crate) type Fill = (Write<u32>, u32);
pub(crate) type Sum = (Write<u32>, Read<u32>, u32);
pub(crate) type Arithmetic = (Write<f32>, f32, f32, u32);

pub(crate) const FILL: KernelSource<Fill> = KernelSource::new(FILE, SOURCE, "load_fill").with_host(
    |_: LaunchShape, (out, n): (&mut [u32], u32)| {
        for (idx, word) in (0..n).zip(out) {
            *word = idx.wrapping_mul(MULTIPLIER);
        }
    },
);

pub(crate) const SUM: KernelSource<Sum> = KernelSource::new(FILE, SOURCE, "load_sum").with_host(
    |_: LaunchShape, (sums, words, n): (&mut [u32], &[u32], u32)| {
        sums.fill(0);
        let words = words.iter().take(4 * n as usize);
        let sum = words.fold(0, |sum: u32, word| sum.wrapping_add(*word));
        if let Some(first) = sums.first_mut() {
            *first = sum;
        }
    },
);

pub(crate) const ARITHMETIC: KernelSource<Arithmetic> =
    KernelSource::new(FILE, SOURCE, "load_arithmetic").with_host(
        |_: LaunchShape, (out, a, b, rounds): (&mut [f32], f32, f32, u32)| {
            for (thread, value) in (0..).zip(out) {
                *value = chains(thread, a, b, rounds);
            }
        },
    );

/// A grid that fills a device.
pub(crate) fn grid(n_multiprocessors: u32) -> LaunchShape {
    LaunchShape {
        grid: [BLOCKS * n_multiprocessors.max(1), 1, 1],
        block: [THREADS_PER_BLOCK, 1, 1],
        shared_bytes: 0,
    }
}

/// Threads of a grid of ours.
pub(crate) fn n_threads(shape: LaunchShape) -> usize {
    shape.grid[0] as usize * shape.block[0] as usize
}

/// The sum of the first `n` words, modulo 2^32.
pub(crate) fn sum_of_words(n: u32) -> u32 {
    let n = u64::from(n);
    let numbers = n * n.saturating_sub(1) / 2;
    // What is cut off counts nothing modulo 2^32.
    (numbers as u32).wrapping_mul(MULTIPLIER)
}

/// What a thread of the arithmetic writes, in the kernel's order.
pub(crate) fn chains(thread: u32, a: f32, b: f32, rounds: u32) -> f32 {
    let mut x: [f32; CHAINS as usize] =
        std::array::from_fn(|chain| (thread % 1024) as f32 * 0.001_953_125 + chain as f32 * 0.125);
    for _ in 0..rounds {
        for x in &mut x {
            *x = x.mul_add(a, b);
        }
    }
    ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))
}
