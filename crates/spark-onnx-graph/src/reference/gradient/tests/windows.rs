//! Random windows: convolutions, pools, resizing, recurrent networks.

use super::{Choices, check, check_results, f64s, ints, positive, random};
use crate::graph::{
    AspectRatio, Cell, Conv, ConvTranspose, CoordinateTransform, Direction, GlobalPool,
    GridPadding, GridSample, Interpolation, NearestRounding, Op, Padding, Pool, PoolKind,
    Recurrent, Resize, Unary,
};
use crate::tensor::{Tensor, TensorData};

/// Extents of all spatial axes, from one on and up to `most` more.
fn extents(choices: &mut Choices, rank: usize, least: usize, most: usize) -> Vec<usize> {
    (0..rank).map(|_| least + choices.below(most)).collect()
}

#[test]
fn convolutions_of_random_windows() {
    let mut choices = Choices(1000);
    for seed in 0..30 {
        let rank = 1 + choices.below(3);
        let groups = choices.one_of(&[1, 1, 2, 3]);
        let (group_in, group_out) = (1 + choices.below(2), 1 + choices.below(2));
        let kernel = extents(&mut choices, rank, 1, 3);
        let spatial = extents(&mut choices, rank, if rank < 3 { 5 } else { 4 }, 2);
        let padding = match seed % 5 {
            3 => Padding::SameUpper,
            4 => Padding::SameLower,
            _ => Padding::Explicit(extents(&mut choices, 2 * rank, 0, 3)),
        };
        let conv = Conv {
            strides: extents(&mut choices, rank, 1, 3),
            dilations: extents(&mut choices, rank, 1, 2),
            padding,
            groups,
        };
        let x = [&[1 + choices.below(2), groups * group_in], &spatial[..]].concat();
        let w = [&[groups * group_out, group_in], &kernel[..]].concat();
        let bias = (seed % 2 == 0).then(|| random(&[w[0]], seed));
        check(
            conv,
            &[Some(random(&x, seed)), Some(random(&w, seed + 1)), bias],
        );
    }
}

#[test]
fn transposed_convolutions_of_random_windows() {
    let mut choices = Choices(2000);
    for seed in 0..24 {
        let rank = 1 + choices.below(3);
        let groups = choices.one_of(&[1, 1, 2, 3]);
        let (group_in, group_out) = (1 + choices.below(2), 1 + choices.below(2));
        let kernel = extents(&mut choices, rank, 2, 2);
        let spatial = extents(&mut choices, rank, 2, 3);
        let strides = extents(&mut choices, rank, 1, 2);
        let transpose = ConvTranspose {
            output_padding: strides.iter().map(|&s| choices.below(s)).collect(),
            output_shape: None,
            conv: Conv {
                dilations: extents(&mut choices, rank, 1, 2),
                padding: Padding::Explicit(extents(&mut choices, 2 * rank, 0, 2)),
                strides,
                groups,
            },
        };
        let x = [&[1 + choices.below(2), groups * group_in], &spatial[..]].concat();
        let w = [&[groups * group_in, group_out], &kernel[..]].concat();
        let bias = (seed % 2 == 0).then(|| random(&[groups * group_out], seed));
        let operands = [Some(random(&x, seed)), Some(random(&w, seed + 1)), bias];
        check(transpose, &operands);
    }
}

#[test]
fn pools_of_random_windows() {
    let mut choices = Choices(3000);
    for seed in 0..30 {
        let rank = 1 + choices.below(3);
        let kernel = extents(&mut choices, rank, 2, 2);
        let spatial = extents(&mut choices, rank, 5, 2);
        let kind = choices.one_of(&[PoolKind::Max, PoolKind::Average]);
        let pool = Pool {
            kind,
            strides: extents(&mut choices, rank, 1, 3),
            dilations: extents(&mut choices, rank, 1, 2),
            padding: match seed % 5 {
                4 => Padding::SameUpper,
                _ => Padding::Explicit(extents(&mut choices, 2 * rank, 0, 2)),
            },
            count_include_pad: kind == PoolKind::Average && seed % 2 == 0,
            ceil_mode: seed % 3 == 0,
            kernel,
        };
        let x = random(&[&[1, 2], &spatial[..]].concat(), seed);
        check(pool, &[Some(x.clone())]);
        check(GlobalPool { kind }, &[Some(x)]);
    }
}

#[test]
fn resizing_in_every_mode() {
    let scales = |values: &[f32]| Tensor::from_f32([values.len()], values.to_vec()).ok();
    let x = random(&[1, 2, 4, 5], 1);
    for mode in [
        Interpolation::Nearest,
        Interpolation::Linear,
        Interpolation::Cubic,
    ] {
        for transform in [
            CoordinateTransform::HalfPixel,
            CoordinateTransform::HalfPixelSymmetric,
            CoordinateTransform::PytorchHalfPixel,
            CoordinateTransform::AlignCorners,
            CoordinateTransform::Asymmetric,
            CoordinateTransform::TfCropAndResize,
        ] {
            for (factors, rounding) in [
                ([1.0, 1.0, 2.0, 1.6], NearestRounding::RoundPreferFloor),
                ([1.0, 1.0, 0.5, 2.5], NearestRounding::Ceil),
                ([1.0, 1.5, 0.75, 0.4], NearestRounding::Floor),
            ] {
                let is_smooth = mode != Interpolation::Nearest;
                let resize = Resize {
                    mode,
                    transform,
                    rounding,
                    cubic_coeff: -0.75,
                    exclude_outside: mode == Interpolation::Cubic && factors[2] < 1.0,
                    extrapolation: 3.0,
                    antialias: is_smooth && factors[1] > 1.0,
                    axes: None,
                    aspect: AspectRatio::Stretch,
                };
                let region = [0.0, 0.0, 0.2, -0.1, 1.0, 1.0, 0.8, 0.9];
                let region = match transform {
                    CoordinateTransform::TfCropAndResize => scales(&region),
                    _ => None,
                };
                check(resize, &[Some(x.clone()), region, scales(&factors)]);
            }
        }
    }
}

#[test]
fn recurrent_networks_with_all_operands() {
    let gru = |linear_before_reset| Cell::Gru {
        linear_before_reset,
    };
    let mut choices = Choices(4000);
    for (seed, cell, n_gates) in [
        (1, Cell::Rnn, 1),
        (2, gru(false), 3),
        (3, gru(true), 3),
        (4, Cell::Lstm, 4),
    ] {
        for (direction, n_directions) in [
            (Direction::Forward, 1),
            (Direction::Reverse, 1),
            (Direction::Bidirectional, 2),
        ] {
            let batch_first = choices.below(2) == 0;
            let (steps, batch, width, hidden) = (3, 2, 2, 3);
            let per_direction = match cell {
                Cell::Rnn => vec![Unary::Softsign],
                Cell::Gru { .. } => vec![Unary::Sigmoid, Unary::Softsign],
                Cell::Lstm => vec![Unary::Sigmoid, Unary::Tanh, Unary::Softsign],
            };
            let op = Op::Recurrent(Recurrent {
                cell,
                direction,
                hidden,
                activations: match seed % 2 {
                    0 => per_direction.repeat(n_directions),
                    _ => Vec::new(),
                },
                batch_first,
            });
            let turned = |[t, n, rest]: [usize; 3]| match batch_first {
                true => [n, t, rest],
                false => [t, n, rest],
            };
            let lengths = Tensor::new(vec![batch], TensorData::I32(vec![3, 2])).ok();
            let gates = n_gates * hidden;
            let state = turned([n_directions, batch, hidden]);
            let mut operands = vec![
                Some(random(&turned([steps, batch, width]), seed)),
                Some(random(&[n_directions, gates, width], seed + 10)),
                Some(random(&[n_directions, gates, hidden], seed + 20)),
                Some(random(&[n_directions, 2 * gates], seed + 30)),
                lengths,
                Some(random(&state, seed + 40)),
            ];
            if cell == Cell::Lstm {
                operands.push(Some(random(&state, seed + 50)));
                operands.push(Some(random(&[n_directions, 3 * hidden], seed + 60)));
            }
            let n_results = if cell == Cell::Lstm { 3 } else { 2 };
            let weights: usize = operands.iter().skip(1).flatten().map(Tensor::len).sum();
            // All weights have a gradient but those of lengths.
            assert!(check_results(&op, &operands, n_results) >= weights - batch);
        }
    }
}

#[test]
fn determinants_also_of_singular_matrices() {
    use crate::graph::Det;
    check(Det, &[Some(random(&[2, 3, 3], 5))]);
    check(Det, &[Some(positive(&[1, 1], 5))]);
    // Two equal rows.
    let singular = vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0, -1.0, 0.5, 4.0];
    check(Det, &[Some(f64s(&[3, 3], singular))]);
}

#[test]
fn values_of_one_hot_and_range() {
    use crate::graph::{OneHot, Range};
    let depth = Tensor::from_i64([], vec![4]).ok();
    let values = Some(f64s(&[2], vec![-1.0, 2.0]));
    check(
        OneHot { axis: -1 },
        &[Some(ints(&[0, 3, -1, 9])), depth, values],
    );
    let scalar = |v: f64| Some(f64s(&[], vec![v]));
    check(Range, &[scalar(1.0), scalar(4.2), scalar(0.5)]);
}

/// `g`, moved so far that on no axis of these extents its position is near an element or the middle of two, where slopes
/// jump.
fn off_elements(mut g: f64, extents: &[usize]) -> f64 {
    let is_near = |g: f64| {
        extents.iter().any(|&n| {
            let n = n as f64;
            let positions = [(g + 1.0) / 2.0 * (n - 1.0), ((g + 1.0) * n - 1.0) / 2.0];
            let near = |at: f64| (2.0 * at - (2.0 * at).round()).abs() < 0.01;
            positions.into_iter().any(near)
        })
    };
    while is_near(g) {
        g += 0.003;
    }
    g
}

fn grid(shape: &[usize], reach: f64, extents: &[usize]) -> Tensor {
    let values = random(shape, 3).to_f64().into_iter();
    let values = values.map(|g| off_elements(g * reach, extents));
    f64s(shape, values.collect())
}

#[test]
fn sampling_at_positions_inside_and_outside() {
    for mode in [
        Interpolation::Nearest,
        Interpolation::Linear,
        Interpolation::Cubic,
    ] {
        for padding in [
            GridPadding::Zeros,
            GridPadding::Border,
            GridPadding::Reflection,
        ] {
            for align_corners in [false, true] {
                let op = GridSample {
                    mode,
                    padding,
                    align_corners,
                };
                let places = grid(&[2, 3, 4, 2], 1.7, &[4, 5]);
                check(op, &[Some(random(&[2, 2, 4, 5], 1)), Some(places)]);
                if mode != Interpolation::Cubic {
                    let places = grid(&[1, 2, 2, 3, 3], 1.4, &[3, 4]);
                    check(op, &[Some(random(&[1, 2, 3, 4, 3], 2)), Some(places)]);
                }
            }
        }
    }
}
