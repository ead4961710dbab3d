//! The kernels of the suite with their host versions.

use spark_mem::{KernelSource, LaunchShape, Read, Write};

/// Their CUDA C.
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

/// `out[i] += in[i]`.
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
