//! Operators that move elements: repeated, left out, filled.

use std::slice::from_ref;

use super::{Choices, check, check_results, f64s, ints, random};
use crate::graph::{
    Concat, Dft, Expand, Gather, GatherElements, GatherNd, Op, Pad, PadMode, ScatterElements,
    ScatterNd, ScatterReduction, Slice, Split, Tile, TopK, Transpose,
};
use crate::tensor::Tensor;

fn index(shape: &[usize], values: &[i64]) -> Option<Tensor> {
    Tensor::from_i64(shape, values.to_vec()).ok()
}

#[test]
fn elements_that_are_read_often_have_the_sum() {
    let x = Some(random(&[3, 4], 1));
    check(
        Gather { axis: 0 },
        &[x.clone(), index(&[2, 3], &[2, 0, 2, -1, 2, 0])],
    );
    check(Gather { axis: 1 }, &[x.clone(), index(&[], &[1])]);
    check(
        GatherElements { axis: 1 },
        &[x.clone(), index(&[2, 3], &[0, 0, 3, -1, 3, 3])],
    );
    check(
        GatherNd { batch_dims: 0 },
        &[x.clone(), index(&[3, 2], &[0, 1, 2, 3, 0, 1])],
    );
    check(Expand, &[Some(random(&[3, 1], 2)), Some(ints(&[2, 3, 5]))]);
    check(Tile, &[x, Some(ints(&[2, 3]))]);
}

#[test]
fn parts_and_orders_of_random_shapes() {
    let mut choices = Choices(700);
    for seed in 0..12 {
        let shape: Vec<usize> = (0..3).map(|_| 2 + choices.below(3)).collect();
        let x = Some(random(&shape, seed));
        let perm = choices.one_of(&[vec![0, 2, 1], vec![2, 0, 1], vec![1, 2, 0]]);
        check(Transpose { perm: Some(perm) }, from_ref(&x));
        let step = choices.one_of(&[1, 2, -1, -2]);
        let (start, end) = if step > 0 { (0, 9) } else { (-1, i64::MIN) };
        let slice = [start, end, choices.below(3) as i64, step].map(|v| Some(ints(&[v])));
        check(Slice, &[from_ref(&x), &slice[..]].concat());
        let mode = choices.one_of(&[
            PadMode::Constant,
            PadMode::Reflect,
            PadMode::Edge,
            PadMode::Wrap,
        ]);
        let pads: Vec<i64> = (0..6).map(|_| choices.below(3) as i64 - 1).collect();
        let fill = Some(f64s(&[], vec![0.75]));
        check_results(
            &Op::Pad(Pad { mode }),
            &[x.clone(), Some(ints(&pads)), fill],
            1,
        );
        let other = [shape[0], shape[1] + 1, shape[2]];
        check(
            Concat { axis: 1 },
            &[x.clone(), Some(random(&other, seed)), x.clone()],
        );
        let lengths = Some(ints(&[1, shape[2] as i64 - 1]));
        assert!(check_results(&Op::Split(Split { axis: -1 }), &[x.clone(), lengths], 2) > 0);
        for largest in [true, false] {
            let top = TopK {
                axis: choices.below(3) as i64,
                largest,
                sorted: true,
            };
            assert!(check_results(&Op::TopK(top), &[x.clone(), Some(ints(&[2]))], 2) > 0);
        }
    }
}

#[test]
fn what_a_constant_border_is_filled_with_has_a_gradient() {
    let mode = PadMode::Constant;
    let fill = Some(f64s(&[], vec![0.75]));
    let op = Op::Pad(Pad { mode });
    let x = Some(random(&[2, 2], 3));
    // 2 x 2 elements, of the number one.
    assert_eq!(
        check_results(&op, &[x, Some(ints(&[1, 0, 0, 2])), fill], 1),
        5
    );
}

#[test]
fn updates_that_meet_in_one_place() {
    for reduction in [
        ScatterReduction::None,
        ScatterReduction::Add,
        ScatterReduction::Mul,
        ScatterReduction::Max,
        ScatterReduction::Min,
    ] {
        let (x, updates) = (random(&[4, 2], 1).to_f64(), random(&[3, 2], 8).to_f64());
        let x = f64s(&[4, 2], x.iter().map(|v| v + 0.0123).collect());
        let updates = Some(f64s(&[3, 2], updates));
        let op = ScatterElements { axis: 0, reduction };
        let indices = index(&[3, 2], &[1, 0, 1, 3, -3, 0]);
        check(op, &[Some(x.clone()), indices, updates.clone()]);
        let indices = index(&[3, 1], &[2, 0, 2]);
        check(ScatterNd { reduction }, &[Some(x), indices, updates]);
    }
}

#[test]
fn fourier_transforms_of_every_length() {
    for length in 1..7i64 {
        let points = Tensor::from_i64([], vec![length]).ok();
        for (parts, inverse, one_sided) in [
            (1, false, true),
            (1, false, false),
            (2, false, false),
            (1, true, false),
            (2, true, false),
            (2, true, true),
        ] {
            for extent in [2, 4, 5] {
                let x = Some(random(&[2, extent, parts], 1));
                check(Dft { inverse, one_sided }, &[x, points.clone()]);
            }
        }
    }
}
