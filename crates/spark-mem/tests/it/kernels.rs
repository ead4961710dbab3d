//! The kernels of the suite with their host versions.

use half::bf16;
use spark_mem::{KernelSource, LaunchShape, Read, Write};

/// CUDA C of the element-wise kernels below.
pub(crate) const ELEMENTWISE: &str = include_str!("../kernels/elementwise.cu");

/// `out[i] = factor * in[i]`.
pub(crate) const SCALE: KernelSource<(Write<f32>, Read<f32>, f32, u32)> =
    KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32").with_host(
        |_: LaunchShape, (out, input, factor, n)| {
            for (out, input) in out.iter_mut().zip(input).take(n as usize) {
                *out = factor * input;
            }
        },
    );

/// Adds `in` to `out`, element by element.
pub(crate) const ACCUMULATE: KernelSource<(Write<f32>, Read<f32>, u32)> =
    KernelSource::new("elementwise.cu", ELEMENTWISE, "accumulate_f32").with_host(
        |_: LaunchShape, (out, input, n)| {
            for (out, input) in out.iter_mut().zip(input).take(n as usize) {
                *out += input;
            }
        },
    );

/// How many of each 64 values are above a threshold.
pub(crate) const COUNT_ABOVE: KernelSource<(Write<u32>, Read<f32>, f32, u32)> =
    KernelSource::new("elementwise.cu", ELEMENTWISE, "count_above_f32").with_host(
        |_: LaunchShape, (out, input, threshold, n)| {
            for (idx, value) in input.iter().enumerate().take(n as usize) {
                out[idx / 64] += u32::from(*value > threshold);
            }
        },
    );

/// Softmax of each row; a block per row, a row in dynamic shared memory.
pub(crate) const SOFTMAX: KernelSource<(Write<f32>, Read<f32>, u32)> = KernelSource::new(
    "rows.cu",
    include_str!("../kernels/rows.cu"),
    "softmax_rows_f32",
)
.with_host(|_: LaunchShape, (out, input, n_columns)| {
    let n_columns = n_columns as usize;
    for (out, row) in out.chunks_mut(n_columns).zip(input.chunks(n_columns)) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = row.iter().map(|value| (value - largest).exp()).sum();
        for (out, value) in out.iter_mut().zip(row) {
            *out = (value - largest).exp() / sum;
        }
    }
});

/// `c`, `a`, `b`, `n`, `k`.
type Matmul = (Write<f32>, Read<bf16>, Read<bf16>, u32, u32);

/// `C[M][N] = A[M][K] * B[N][K]` of bf16 values, on tensor cores where there are some.
pub(crate) const MATMUL: KernelSource<Matmul> = KernelSource::new(
    "matmul.cu",
    include_str!("../kernels/matmul.cu"),
    "matmul_bf16_f32",
)
.with_host(|_: LaunchShape, (c, a, b, n, k)| {
    let (n, k) = (n as usize, k as usize);
    for (row, out) in c.chunks_mut(n).enumerate() {
        for (column, out) in out.iter_mut().enumerate() {
            let pairs = a[row * k..][..k].iter().zip(&b[column * k..][..k]);
            *out = pairs.map(|(a, b)| a.to_f32() * b.to_f32()).sum();
        }
    }
});
