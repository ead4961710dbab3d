//! The kernels of the suite with their host versions.

use half::bf16;
use spark_mem::{KernelSource, LaunchShape, Read, Struct, Write};
use zerocopy::{Immutable, IntoBytes};

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

const PARAMETERS: &str = include_str!("../kernels/parameters.cu");

/// `struct Scale` of `parameters.cu`.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Scale {
    pub(crate) factor: f64,
    pub(crate) offset: [f32; 3],
    pub(crate) n: u32,
}

/// Eight whole numbers of every kind, then eight floats.
type Numbers = (
    (u8, i8, u16, i16, u32, i32, u64, i64),
    (f32, f64, f32, f32, f32, f32, f32, f32),
);

type Many = (Write<f32>, Read<f32>, Struct<Scale>, Numbers, u32);

/// `out[i] = in[i] * factor + offset[i % 3] +` the sum of sixteen numbers: 20 parameters.
pub(crate) const MANY: KernelSource<Many> =
    KernelSource::new("parameters.cu", PARAMETERS, "many_f32").with_host(
        |_: LaunchShape, (out, input, scale, (whole, floats), last)| {
            let (a0, a1, a2, a3, a4, a5, a6, a7) = whole;
            let (a8, a9, a10, a11, a12, a13, a14, a15) = floats;
            let small = f64::from(a0) + f64::from(a1) + f64::from(a2) + f64::from(a3);
            let whole = small + f64::from(a4) + f64::from(a5) + a6 as f64 + a7 as f64;
            let floats = [a8, a10, a11, a12, a13, a14, a15].map(f64::from);
            let sum = whole + floats.iter().sum::<f64>() + a9;
            for idx in 0..scale.n.min(last + 1) as usize {
                let product = f64::from(input[idx]) * scale.factor;
                out[idx] = (product + f64::from(scale.offset[idx % 3]) + sum) as f32;
            }
        },
    );

/// `out[i] = weights[i % 4] * in[i]`, `weights` a constant of the file.
pub(crate) const WEIGHTED: KernelSource<(Write<f32>, Read<f32>, u32)> =
    KernelSource::new("parameters.cu", PARAMETERS, "weighted_f32");

/// Copies, through 32 KiB of static shared memory and so many floats of dynamic one.
pub(crate) const MIRROR: KernelSource<(Write<f32>, Read<f32>, u32)> =
    KernelSource::new("parameters.cu", PARAMETERS, "mirror_f32");
