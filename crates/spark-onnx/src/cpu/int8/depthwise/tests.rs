//! Every kernel against sums made one by one.

use std::sync::Arc;

use spark_testing::numbers;

use super::instructions::DepthwiseKernel;
use super::packing::{Numbers, Row};
use super::run::run;
use crate::DType;
use crate::plan::{
    Activation, Axis, BufferId, Int8Step, Int8Weights, KnownQuantisation, Quantisation, View,
    WeightOrder, Weights, Window,
};
use crate::tensor::Tensor;

const WIDTH: usize = 7;

/// A row of `WIDTH` results of `channels`, of a window of `taps` in a row.
fn step(channels: usize, taps: usize, y_type: DType) -> (Int8Step, KnownQuantisation) {
    let view = |extents: [usize; 4]| View {
        axes: extents.map(|extent| Axis { extent, stride: 1 }).to_vec(),
        ..View::dense(BufferId(0), &[], &[])
    };
    let bounds = match y_type {
        DType::I8 => (-100, 127),
        _ => (0, 255),
    };
    let known = KnownQuantisation {
        x_zero: 131,
        w_zero: Arc::default(),
        bias: Arc::new((0..channels as i32).map(|c| 500 * c - 900).collect()),
        multipliers: Arc::new((0..channels).map(|c| 0.001 * (c + 1) as f32).collect()),
        y_zero: bounds.0 + 90,
        bounds,
        float_bias: Arc::default(),
        activation: Activation::None,
    };
    let none = Tensor::zeros(DType::I8, [channels, 1, 1, taps]).expect("fits");
    let extents = [channels, taps, 1, 1];
    let weights = Weights::new(Arc::new(none), 0, WeightOrder::OutputsFirst, extents);
    let step = Int8Step {
        x: view([1, channels, 1, WIDTH + taps - 1]),
        y: view([1, channels, 1, WIDTH]),
        x_type: DType::U8,
        weights: Int8Weights::Known(weights),
        w_type: DType::I8,
        window: Window {
            kernel: [1, taps],
            stride: [1, 1],
            dilation: [1, 1],
            pad: [0, 0],
        },
        quantisation: Quantisation::Known(known.clone()),
        y_type,
    };
    (step, known)
}

#[test]
fn every_kernel_has_the_bytes_of_sums_made_one_by_one() {
    for (channels, taps, most, y_type) in [
        (16, 9, 127.0, DType::U8),
        (48, 9, 127.0, DType::I8),
        (5, 1, 127.0, DType::U8),
        (80, 25, 255.0, DType::I8),
        (33, 12, 255.0, DType::U8),
    ] {
        let pitch = usize::next_multiple_of(channels, 16);
        let (step, known) = step(channels, taps, y_type);
        let weights = numbers(channels * taps, 7).into_iter();
        let weights: Vec<i16> = weights.map(|v| (v * most) as i16).collect();
        let len = pitch * (WIDTH + taps + 8);
        let x: Vec<u8> = numbers(len, 5)
            .into_iter()
            .map(|v| (v * 127.0 + 128.0) as u8)
            .collect();
        let mut want = Vec::new();
        for at in 0..WIDTH * pitch {
            let channel = at % pitch;
            if channel >= channels {
                want.push(None);
                continue;
            }
            let products = (0..taps).map(|tap| {
                let x = i32::from(x[at + tap * pitch]) - known.x_zero;
                x * i32::from(weights[channel * taps + tap])
            });
            let sum = known.bias[channel] + products.sum::<i32>();
            let value = (sum as f32 * known.multipliers[channel]).round_ties_even();
            let value = value as i32 + known.y_zero;
            want.push(Some(value.clamp(known.bounds.0, known.bounds.1) as u8));
        }
        let kernels = DepthwiseKernel::available(most < 128.0);
        assert!(
            kernels.len() > usize::from(cfg!(any(target_arch = "x86_64", target_arch = "aarch64")))
        );
        for kernel in kernels {
            let numbers = Numbers::new(kernel, &step, &known, &weights, pitch);
            let mut taps: Vec<*const u8> = (0..taps).map(|tap| x[tap * pitch..].as_ptr()).collect();
            taps.resize(numbers.steps * kernel.taps_of_step(), x.as_ptr());
            let blocks = (WIDTH * pitch).div_ceil(kernel.block());
            let mut y = vec![0; blocks * kernel.block()];
            let row = Row {
                numbers: &numbers,
                taps: &taps,
                first: 0,
                last: blocks,
                y: y.as_mut_ptr(),
            };
            // SAFETY: taps have eight pixels more than are read, and the result has whole blocks.
            unsafe { run(kernel, &row) };
            for (at, want) in want.iter().enumerate() {
                let Some(want) = want else {
                    continue;
                };
                assert_eq!(y[at], *want, "{kernel:?} of {channels} channels, byte {at}");
            }
        }
    }
}
