//! Normalisations over rows, and over groups of channels.
//!
//! ```text
//! mean = sum x / n        variance = sum (x - mean)^2 / n        y = (x - mean) / deviation * s + b
//! ```
//!
//! Sums over rows are those of `rows`, over groups in f64, where channels lie side by side first
//! over the positions of each channel. The variance is taken of the differences, not of squares,
//! which would cancel.

use std::ops::Range;

use spark_quant::QuantError;

use super::rows::{LANES, RowPair, lanes_of, load_or, partial_vectors, sum_of};
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::plan::{GroupNormStep, NormKind, NormStep, View};

/// What every row of a normalisation shares.
#[derive(Clone, Copy)]
struct Norm {
    /// As wide as a row; may be null.
    scale: *const f32,
    /// As wide as a row; may be null.
    bias: *const f32,
    kind: NormKind,
    epsilon: f64,
}

// SAFETY: scale and bias are only read.
unsafe impl Sync for Norm {}

/// Runs a layer or root-mean-square normalisation.
fn run_norm(step: &NormStep, c: &Context<'_>) {
    let Context {
        isa, memory, pool, ..
    } = *c;
    let pair = &RowPair::new(&step.x, &step.y, memory);
    let vector = |view: &Option<View>| match view {
        Some(view) => memory.f32(view).cast_const(),
        None => std::ptr::null(),
    };
    let norm = &Norm {
        scale: vector(&step.scale),
        bias: vector(&step.bias),
        kind: step.kind,
        epsilon: f64::from(step.epsilon),
    };
    let tasks = pair.tasks(pool);
    pool.run(tasks, |task| {
        let rows = pair.rows * task / tasks..pair.rows * (task + 1) / tasks;
        // SAFETY: rows are split between tasks; scale and bias are dense and as wide as a row by
        // the step's contract; `isa` names a set this processor has.
        unsafe {
            dispatch!(isa, norm_rows(pair: &RowPair, rows: Range<usize>, norm: &Norm) => (pair, rows, norm));
        }
    });
}

#[inline(always)]
unsafe fn norm_rows<S: Simd>(pair: &RowPair, rows: Range<usize>, norm: &Norm) {
    for row in rows {
        let (x, y) = pair.pointers(row);
        // SAFETY: the rows are this task's; the caller's processor has the instruction set.
        unsafe { norm_row::<S>(x, y, pair.width, norm) };
    }
}

/// One row of `width` elements; `x` may be `y`.
#[inline(always)]
unsafe fn norm_row<S: Simd>(x: *const f32, y: *mut f32, width: usize, norm: &Norm) {
    // SAFETY: the caller vouches for `width` elements everywhere and for the instruction set.
    unsafe {
        let n_elements = width as f64;
        let zero = S::splat(0.0);
        let mean = match norm.kind {
            NormKind::MeanVariance => {
                let mut parts = [zero; 4];
                partial_vectors!(S, width, (at, p, n) => {
                    parts[p] = S::add(parts[p], load_or::<S>(x.add(at), n, 0.0));
                });
                (f64::from(sum_of(&lanes_of::<S>(parts))) / n_elements) as f32
            }
            NormKind::MeanSquare => 0.0,
        };
        let middle = S::splat(mean);
        let mut parts = [zero; 4];
        partial_vectors!(S, width, (at, p, n) => {
            let difference = S::sub(load_or::<S>(x.add(at), n, mean), middle);
            parts[p] = S::fma(difference, difference, parts[p]);
        });
        let variance = f64::from(sum_of(&lanes_of::<S>(parts))) / n_elements;
        let inverse = S::splat((1.0 / (variance + norm.epsilon).sqrt()) as f32);
        partial_vectors!(S, width, (at, _p, n) => {
            let v = S::mul(S::sub(load_or::<S>(x.add(at), n, mean), middle), inverse);
            let result = S::fma(v, at_or::<S>(norm.scale, at, n, 1.0), at_or::<S>(norm.bias, at, n, 0.0));
            match n == S::LANES {
                true => S::store(y.add(at), result),
                false => S::store_first(y.add(at), result, n),
            }
        });
    }
}

/// `n` elements from `at` on, or `neutral` where there is no such vector.
#[inline(always)]
unsafe fn at_or<S: Simd>(vector: *const f32, at: usize, n: usize, neutral: f32) -> S::V {
    // SAFETY: the caller vouches for the elements and for the instruction set.
    unsafe {
        match vector.is_null() {
            true => S::splat(neutral),
            false => load_or::<S>(vector.add(at), n, neutral),
        }
    }
}

/// Runs an instance or group normalisation.
fn run_group_norm(step: &GroupNormStep, context: &Context<'_>) {
    let (memory, pool) = (context.memory, context.pool);
    let [n, c, p] = [0, 1, 2].map(|a| step.x.axes[a].extent);
    let per_group = c / step.groups.max(1);
    let xs = [0, 1, 2].map(|a| step.x.axes[a].stride);
    let ys = [0, 1, 2].map(|a| step.y.axes[a].stride);
    pool.run(n * step.groups, |task| {
        let (sample, group) = ((task / step.groups) as isize, task % step.groups);
        let first = group * per_group;
        let x = memory.f32(&step.x).wrapping_offset(sample * xs[0]);
        let y = memory.f32(&step.y).wrapping_offset(sample * ys[0]);
        let (scale, bias) = (memory.f32(&step.scale), memory.f32(&step.bias));
        let each = |f: &mut dyn FnMut(usize, f64)| {
            for channel in first..first + per_group {
                for position in 0..p {
                    let at = channel as isize * xs[1] + position as isize * xs[2];
                    // SAFETY: the view was checked at load.
                    f(channel, f64::from(unsafe { *x.offset(at) }));
                }
            }
        };
        let count = (per_group * p) as f64;
        let mut sum = 0.0;
        each(&mut |_, v| sum += v);
        let mean = sum / count;
        let mut square = 0.0;
        each(&mut |_, v| square += (v - mean) * (v - mean));
        let inverse = 1.0 / (square / count + f64::from(step.epsilon)).sqrt();
        for channel in first..first + per_group {
            let at = channel as isize;
            // SAFETY: views were checked at load; each task has its own sample and channels.
            unsafe {
                let s = f64::from(*scale.offset(at * step.scale.axes[0].stride)) * inverse;
                let b = f64::from(*bias.offset(at * step.bias.axes[0].stride)) - mean * s;
                let (s, b) = (s as f32, b as f32);
                for position in 0..p as isize {
                    let v = *x.offset(at * xs[1] + position * xs[2]);
                    *y.offset(at * ys[1] + position * ys[2]) = v * s + b;
                }
            }
        }
    });
}

/// Layer or root-mean-square normalisation, a row at a time.
pub(crate) struct RowNorm(NormStep);

impl Kernel<NormStep> for RowNorm {
    fn prepare(problem: &Problem<'_, NormStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for RowNorm {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_norm(&self.0, c);
        Ok(())
    }
}

/// Instance or group normalisation, a group of a sample at a time.
pub(crate) struct GroupNorm(GroupNormStep);

impl Kernel<GroupNormStep> for GroupNorm {
    fn prepare(problem: &Problem<'_, GroupNormStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for GroupNorm {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_group_norm(&self.0, c);
        Ok(())
    }
}

/// Channels whose sums are taken side by side.
const CHANNELS: usize = 16;

/// One sample whose channels lie side by side.
#[derive(Clone, Copy)]
struct Sample {
    x: *const f32,
    /// Elements from one position to the next.
    x_stride: isize,
    y: *mut f32,
    y_stride: isize,
    positions: usize,
    per_group: usize,
    scale: *const f32,
    scale_stride: isize,
    bias: *const f32,
    bias_stride: isize,
    epsilon: f64,
}

/// Runs an instance or group normalisation of channels that lie side by side.
fn run_channels_last(step: &GroupNormStep, context: &Context<'_>) {
    let Context {
        isa, memory, pool, ..
    } = *context;
    let [n, c, positions] = [0, 1, 2].map(|a| step.x.axes[a].extent);
    let per_group = c / step.groups.max(1);
    if per_group == 0 {
        return;
    }
    // One group, or as many as fit side by side.
    let block = (CHANNELS / per_group).max(1) * per_group;
    let blocks = c.div_ceil(block);
    pool.run(n * blocks, |task| {
        let (sample, first) = ((task / blocks) as isize, task % blocks * block);
        let sample = Sample {
            x: memory
                .f32(&step.x)
                .wrapping_offset(sample * step.x.axes[0].stride),
            x_stride: step.x.axes[2].stride,
            y: memory
                .f32(&step.y)
                .wrapping_offset(sample * step.y.axes[0].stride),
            y_stride: step.y.axes[2].stride,
            positions,
            per_group,
            scale: memory.f32(&step.scale),
            scale_stride: step.scale.axes[0].stride,
            bias: memory.f32(&step.bias),
            bias_stride: step.bias.axes[0].stride,
            epsilon: f64::from(step.epsilon),
        };
        let last = c.min(first + block);
        // SAFETY: views were checked at load and channels have stride 1 in both, as
        // `can_implement` requires; each task has its own sample and channels; `isa` names a set this
        // processor has.
        unsafe {
            dispatch!(isa, norm_groups(sample: Sample, first: usize, last: usize) => (sample, first, last));
        }
    });
}

/// Channels `first..last`, which are one group or whole groups of at most `CHANNELS` channels.
#[inline(always)]
unsafe fn norm_groups<S: Simd>(sample: Sample, first: usize, last: usize) {
    let per_group = sample.per_group;
    let count = (per_group * sample.positions) as f64;
    let blocks = || (first..last).step_by(CHANNELS);
    // Of a block that begins at `at`: the statistic of the group of each channel.
    let of_channels = |at: usize, groups: &[f64; CHANNELS]| -> [f64; CHANNELS] {
        std::array::from_fn(|lane| match at + lane < last {
            true => groups[(at + lane - first) / per_group],
            false => 0.0,
        })
    };
    // SAFETY: the caller vouches for the channels at every position and for the instruction set.
    unsafe {
        let (mut mean, mut deviation) = ([0.0; CHANNELS], [0.0; CHANNELS]);
        for at in blocks() {
            let width = CHANNELS.min(last - at);
            let sums = channel_sums::<S, false>(sample, at, width, &[0.0; CHANNELS]);
            for lane in 0..width {
                mean[(at + lane - first) / per_group] += sums[lane];
            }
        }
        mean = mean.map(|sum| sum / count);
        for at in blocks() {
            let width = CHANNELS.min(last - at);
            let sums = channel_sums::<S, true>(sample, at, width, &of_channels(at, &mean));
            for lane in 0..width {
                deviation[(at + lane - first) / per_group] += sums[lane];
            }
        }
        let inverse = deviation.map(|square| 1.0 / (square / count + sample.epsilon).sqrt());
        for at in blocks() {
            let width = CHANNELS.min(last - at);
            let (mean, inverse) = (of_channels(at, &mean), of_channels(at, &inverse));
            let (mut factors, mut terms) = ([0.0f32; CHANNELS], [0.0f32; CHANNELS]);
            for lane in 0..width {
                let channel = (at + lane) as isize;
                let scale = *sample.scale.offset(channel * sample.scale_stride);
                let bias = *sample.bias.offset(channel * sample.bias_stride);
                let factor = f64::from(scale) * inverse[lane];
                factors[lane] = factor as f32;
                terms[lane] = (f64::from(bias) - mean[lane] * factor) as f32;
            }
            for position in 0..sample.positions as isize {
                let x = sample.x.offset(position * sample.x_stride).add(at);
                let y = sample.y.offset(position * sample.y_stride).add(at);
                for lane in (0..width).step_by(S::LANES) {
                    let n = S::LANES.min(width - lane);
                    let v = load_or::<S>(x.add(lane), n, 0.0);
                    let scaled = S::mul(v, S::load(factors.as_ptr().add(lane)));
                    let result = S::add(scaled, S::load(terms.as_ptr().add(lane)));
                    match n == S::LANES {
                        true => S::store(y.add(lane), result),
                        false => S::store_first(y.add(lane), result, n),
                    }
                }
            }
        }
    }
}

/// Of each of `width` channels from `first` on: the sum over positions, or that of the squared
/// differences from `mean`.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the loops are compiled for"
)]
unsafe fn channel_sums<S: Simd, const SQUARES: bool>(
    sample: Sample,
    first: usize,
    width: usize,
    mean: &[f64; CHANNELS],
) -> [f64; CHANNELS] {
    let mut sums = [0.0; CHANNELS];
    for position in 0..sample.positions as isize {
        // SAFETY: the caller vouches for the channels at every position.
        let values: [f64; CHANNELS] = unsafe {
            let x = sample.x.offset(position * sample.x_stride).add(first);
            match width == CHANNELS {
                true => (*x.cast::<[f32; CHANNELS]>()).map(f64::from),
                false => {
                    let mut values = [0.0; CHANNELS];
                    for (lane, value) in values.iter_mut().enumerate().take(width) {
                        *value = f64::from(*x.add(lane));
                    }
                    values
                }
            }
        };
        for lane in 0..CHANNELS {
            let difference = values[lane] - mean[lane];
            sums[lane] += match SQUARES {
                true => difference * difference,
                false => values[lane],
            };
        }
    }
    sums
}

/// Instance or group normalisation of channels that lie side by side, as convolutions leave them.
pub(crate) struct ChannelsLastGroupNorm(GroupNormStep);

impl Kernel<GroupNormStep> for ChannelsLastGroupNorm {
    fn can_implement(problem: &Problem<'_, GroupNormStep>) -> bool {
        let (x, y) = (&problem.step.x, &problem.step.y);
        x.axes[1].stride == 1 && y.axes[1].stride == 1
    }

    fn is_profitable(problem: &Problem<'_, GroupNormStep>) -> bool {
        // One channel or one position is a row, however it is called.
        problem.step.x.axes[1].extent > 1 && problem.step.x.axes[2].extent > 1
    }

    fn prepare(problem: &Problem<'_, GroupNormStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for ChannelsLastGroupNorm {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_channels_last(&self.0, c);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::cpu::simd::Isa;
    use crate::graph::{
        Dim, Graph, GroupNormalization, InstanceNormalization, Op, Transpose, bind,
    };
    use crate::{DType, ModelRunner, RunOptions, Tensor, reference};

    /// Batch, channels, positions.
    type Shape = [usize; 3];

    fn drawn(shape: &[usize], seed: usize) -> Tensor {
        let n: usize = shape.iter().product();
        let values = (0..n).map(|i| ((i * 7919 + seed * 31) % 1009) as f32 / 251.0 - 1.0);
        Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
    }

    /// A normalisation of `[n, c, p]`. A plan holds axis 1 of an input innermost: channels, or
    /// positions if the input is `is_transposed`.
    fn network(op: Op, [n, c, p]: Shape, is_transposed: bool) -> Graph {
        let mut graph = Graph::default();
        let shape = match is_transposed {
            true => [n, p, c],
            false => [n, c, p],
        };
        let x = graph.add_input("x", DType::F32, shape.map(Dim::Known).to_vec());
        let operand = match is_transposed {
            true => {
                let perm = Some(vec![0, 2, 1]);
                graph.add_node("order", Op::Transpose(Transpose { perm }), &[Some(x)])
            }
            false => x,
        };
        let scale = graph.add_constant("scale", drawn(&[c], 1));
        let bias = graph.add_constant("bias", drawn(&[c], 2));
        let y = graph.add_node("norm", op, &[Some(operand), Some(scale), Some(bias)]);
        graph.outputs.push(y);
        graph
    }

    /// `x` of `[n, c, p]` as `[n, p, c]`.
    fn transposed(x: &Tensor, [n, c, p]: Shape) -> Tensor {
        let values = x.to_f32();
        let at = |i: usize| {
            let (sample, rest) = (i / (c * p), i % (c * p));
            values[(sample * c + rest % c) * p + rest / c]
        };
        let values: Vec<f32> = (0..values.len()).map(at).collect();
        Tensor::from_f32([n, p, c], values).expect("fits")
    }

    #[track_caller]
    fn run(graph: &Graph, options: &RunOptions, x: &Tensor, kernel: &str) -> Vec<f32> {
        let mut runner = ModelRunner::from_graph(graph.clone(), options).expect("available");
        let results = runner.run(&[("x", x)]).expect("runs");
        let steps = runner.steps();
        let norm = steps.iter().find(|step| step.kind == "group_norm");
        let found = &norm.expect("one").kernel;
        assert!(found.ends_with(kernel), "{found}");
        results[0].1.to_f32()
    }

    #[test]
    fn instances_side_by_side_have_the_bits_of_instances_apart() {
        let op = Op::InstanceNormalization(InstanceNormalization { epsilon: 1e-5 });
        for shape in [[2, 5, 12], [1, 16, 35], [3, 37, 18], [1, 64, 3]] {
            let x = drawn(&shape, 3);
            for isa in Isa::available() {
                let options = RunOptions::new().with_isa(isa).with_threads(2);
                let graph = network(op.clone(), shape, true);
                let apart = transposed(&x, shape);
                let want = run(&graph, &options, &apart, "-f32-group-norm");
                let graph = network(op.clone(), shape, false);
                let got = run(&graph, &options, &x, "-f32-group-norm-channels-last");
                assert!(got == want, "{shape:?} on {isa}");
            }
        }
    }

    #[test]
    fn groups_side_by_side_match_the_reference_on_any_number_of_threads() {
        for (shape, groups) in [
            ([2, 6, 12], 3),
            ([1, 48, 35], 2),
            ([2, 40, 18], 1),
            ([1, 64, 15], 16),
        ] {
            let params = GroupNormalization {
                epsilon: 1e-5,
                groups,
            };
            let graph = network(Op::GroupNormalization(params), shape, false);
            let x = drawn(&shape, 3);
            let bound = bind(&graph, &[]).expect("fixed shapes");
            let want = reference::run(&bound, &[("x", &x)]).expect("runs")[0]
                .1
                .to_f32();
            for isa in Isa::available() {
                let on = |threads| {
                    let options = RunOptions::new().with_isa(isa).with_threads(threads);
                    run(&graph, &options, &x, "-f32-group-norm-channels-last")
                };
                let got = on(1);
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() <= 1e-5, "{got} for {want} on {isa}");
                }
                assert!(on(3) == got, "{shape:?} on {isa}");
            }
        }
    }
}
