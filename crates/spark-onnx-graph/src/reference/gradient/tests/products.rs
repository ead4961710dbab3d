//! Random shapes of products, element-wise functions, normalisations and reductions.

use super::{Choices, check, check_results, f64s, ints, positive, random, scaled};
use crate::graph::{
    BatchNormalization, Binary, CastLike, Clip, CumProd, CumSum, Einsum, Gemm, GroupNormalization,
    InstanceNormalization, LayerNormalization, LpNormalization, Lrn, MatMul, Op, Reduce,
    ReduceKind, RmsNormalization, Softmax, Unary, Variadic, Where,
};
use crate::tensor::{DType, Tensor};

/// A shape that broadcasts to `shape`: some axes 1, some leading ones left out.
fn broadcast(choices: &mut Choices, shape: &[usize]) -> Vec<usize> {
    let first = choices.below(shape.len() + 1);
    let axes = shape[first..].iter();
    axes.map(|&d| if choices.below(3) == 0 { 1 } else { d })
        .collect()
}

#[test]
fn matmul_of_random_shapes() {
    let mut choices = Choices(100);
    for seed in 0..24 {
        let batch: Vec<usize> = (0..choices.below(3))
            .map(|_| 1 + choices.below(3))
            .collect();
        let [m, n, k] = [(); 3].map(|()| 1 + choices.below(4));
        let a = [&broadcast(&mut choices, &batch)[..], &[m, k]].concat();
        let b = [&broadcast(&mut choices, &batch)[..], &[k, n]].concat();
        let (a, b) = match seed % 6 {
            4 => (vec![k], b),
            5 => (a, vec![k]),
            _ => (a, b),
        };
        check(
            MatMul,
            &[Some(random(&a, seed)), Some(random(&b, seed + 50))],
        );
    }
}

#[test]
fn gemm_of_random_shapes() {
    let mut choices = Choices(200);
    for seed in 0..16 {
        let [m, n, k] = [(); 3].map(|()| 1 + choices.below(5));
        let gemm = Gemm {
            alpha: choices.one_of(&[1.0, 0.5, -2.0]),
            beta: choices.one_of(&[1.0, 3.0]),
            trans_a: seed % 2 == 1,
            trans_b: seed % 4 > 1,
        };
        let a = if gemm.trans_a { [k, m] } else { [m, k] };
        let b = if gemm.trans_b { [n, k] } else { [k, n] };
        let c = broadcast(&mut choices, &[m, n]);
        let c = (seed % 3 > 0).then(|| random(&c, seed + 9));
        check(
            gemm,
            &[Some(random(&a, seed)), Some(random(&b, seed + 5)), c],
        );
    }
}

#[test]
fn einstein_sums() {
    for (equation, shapes) in [
        ("ij,jk->ik", vec![vec![2, 3], vec![3, 4]]),
        ("bij,bjk->ikb", vec![vec![2, 3, 2], vec![2, 2, 4]]),
        ("ij->", vec![vec![3, 4]]),
        ("ij->ji", vec![vec![3, 4]]),
        ("i,j,k->ijk", vec![vec![2], vec![3], vec![2]]),
        ("...ij,...jk", vec![vec![2, 1, 2, 3], vec![4, 3, 2]]),
        ("ab,bc,cd->ad", vec![vec![2, 3], vec![3, 2], vec![2, 4]]),
        ("bhqd,bhkd->bhqk", vec![vec![1, 2, 3, 4], vec![1, 2, 5, 4]]),
        // An extent of 1 broadcasts.
        ("ij,ij->ij", vec![vec![3, 1], vec![1, 4]]),
    ] {
        let equation = equation.to_owned();
        let operands = shapes.iter().zip(0..).map(|(s, i)| Some(random(s, i)));
        check(Einsum { equation }, &operands.collect::<Vec<_>>());
    }
}

#[test]
fn functions_of_one_operand_over_all_their_branches() {
    for function in [
        Unary::Identity,
        Unary::Abs,
        Unary::Neg,
        Unary::Exp,
        Unary::Sin,
        Unary::Cos,
        Unary::Atan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Asinh,
        Unary::Erf,
        Unary::Relu,
        Unary::LeakyRelu { alpha: 0.125 },
        Unary::ThresholdedRelu { alpha: 1.25 },
        Unary::Elu { alpha: 1.5 },
        Unary::Selu {
            alpha: 1.5,
            gamma: 1.25,
        },
        Unary::Celu { alpha: 0.75 },
        Unary::Sigmoid,
        Unary::HardSigmoid {
            alpha: 0.25,
            beta: 0.375,
        },
        Unary::HardSwish,
        Unary::Tanh,
        Unary::Softplus,
        Unary::Softsign,
        Unary::Mish,
        Unary::Gelu { tanh: false },
        Unary::Gelu { tanh: true },
        Unary::Swish { alpha: 1.702 },
        Unary::Shrink {
            lambda: 0.5,
            bias: 0.25,
        },
    ] {
        // 40 numbers from -5 to 5: a quarter apart, off the kinks, which are multiples of an eighth.
        let values = (0..40).map(|i| f64::from(i) * 0.25 - 4.96).collect();
        check(function, &[Some(f64s(&[5, 8], values))]);
    }
}

#[test]
fn functions_of_several_operands_with_broadcasting() {
    let mut choices = Choices(300);
    for seed in 0..20 {
        let shape: Vec<usize> = (0..1 + choices.below(3))
            .map(|_| 1 + choices.below(4))
            .collect();
        let other = broadcast(&mut choices, &shape);
        let (a, b) = (random(&shape, seed), positive(&other, seed + 30));
        for function in [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::PRelu,
        ] {
            check(function, &[Some(a.clone()), Some(b.clone())]);
        }
        check(Binary::Mul, &[Some(b.clone()), Some(a.clone())]);
        check(
            Binary::Pow,
            &[Some(positive(&shape, seed)), Some(random(&other, seed))],
        );
        // Quotients of 2.2 to 2.8 and more or less one: off the whole numbers.
        let (low, high) = (
            scaled(&random(&shape, seed), 0.05),
            scaled(&positive(&other, seed), 0.01),
        );
        let low = f64s(&shape, low.to_f64().iter().map(|v| v + 2.5).collect());
        let high = f64s(&other, high.to_f64().iter().map(|v| v + 1.0).collect());
        for fmod in [false, true] {
            let function = Binary::Mod { fmod };
            check(function, &[Some(low.clone()), Some(high.clone())]);
            check(function, &[Some(scaled(&low, -1.0)), Some(high.clone())]);
        }
        let third = f64s(&[], vec![0.123]);
        for function in [Variadic::Sum, Variadic::Mean, Variadic::Max, Variadic::Min] {
            check(
                function,
                &[
                    Some(a.clone()),
                    Some(scaled(&b, 0.777)),
                    Some(third.clone()),
                ],
            );
            check(function, &[Some(a.clone())]);
        }
        let condition = random(&broadcast(&mut choices, &shape), seed + 2).to_f64();
        let shape_of_condition = [condition.len()];
        if condition.len() == *shape.last().unwrap_or(&1) || condition.len() == 1 {
            let condition = Tensor::from_f64(
                DType::Bool,
                shape_of_condition,
                condition.iter().map(|v| f64::from(*v > 0.0)).collect(),
            );
            let operands = [condition.ok(), Some(a.clone()), Some(b)];
            assert!(check_results(&Op::Where(Where), &operands, 1) > 0);
        }
        check(CastLike, &[Some(a), Some(f64s(&[1], vec![0.0]))]);
    }
}

#[test]
fn clipping_and_its_bounds() {
    let x = random(&[3, 7], 4);
    let bound = |v: f64| Some(f64s(&[], vec![v]));
    let (low, high) = (bound(-0.3337), bound(0.4441));
    for operands in [
        [low.clone(), high.clone()],
        [None, high.clone()],
        [low.clone(), None],
        // The upper bound wins.
        [high, low],
    ] {
        let operands = [Some(x.clone()), operands[0].clone(), operands[1].clone()];
        check(Clip, &operands);
    }
}

#[test]
fn normalisations_of_random_shapes() {
    let mut choices = Choices(400);
    for seed in 0..12 {
        let epsilon = choices.one_of(&[1e-5, 1e-2]);
        let channels = choices.one_of(&[2, 4, 6]);
        let mut shape = vec![1 + choices.below(2), channels];
        shape.extend((0..1 + choices.below(2)).map(|_| 2 + choices.below(3)));
        let x = Some(random(&shape, seed));
        let (scale, bias) = (
            positive(&[channels], seed + 1),
            random(&[channels], seed + 2),
        );
        let affine = [x.clone(), Some(scale.clone()), Some(bias.clone())];
        let mut statistics = affine.to_vec();
        statistics.extend([
            Some(random(&[channels], seed + 3)),
            Some(positive(&[channels], seed + 4)),
        ]);
        check(BatchNormalization { epsilon }, &statistics);
        check(InstanceNormalization { epsilon }, &affine);
        let groups = choices.one_of(&[1, 2, channels]);
        check(GroupNormalization { epsilon, groups }, &affine);
        let axis = choices.below(shape.len());
        let scale = broadcast(&mut choices, &shape);
        let operands = [
            x.clone(),
            Some(positive(&scale, seed)),
            Some(random(&scale, seed)),
        ];
        let n_bias = if seed % 2 == 0 { 3 } else { 2 };
        let axis = axis as i64;
        check(LayerNormalization { axis, epsilon }, &operands[..n_bias]);
        check(RmsNormalization { axis, epsilon }, &operands[..2]);
        // Of a line of one element the direction is all that is left.
        if shape[axis as usize] > 1 {
            for p in [1, 2] {
                check(LpNormalization { axis, p }, &operands[..1]);
            }
        }
        let lrn = Lrn {
            alpha: 0.5,
            beta: 0.75,
            bias: 2.0,
            size: 1 + choices.below(5),
        };
        check(lrn, &operands[..1]);
        for (log, flatten) in [(false, false), (true, false), (false, true), (true, true)] {
            let softmax = Softmax { axis, log, flatten };
            // A softmax of one element is 1, whatever it is.
            let extents = if flatten {
                &shape[axis as usize..]
            } else {
                &shape[axis as usize..][..1]
            };
            if extents.iter().product::<usize>() > 1 {
                check(softmax, &[x.as_ref().map(|x| scaled(x, 2.0))]);
            }
        }
    }
}

#[test]
fn reductions_of_random_axes() {
    let mut choices = Choices(500);
    for seed in 0..10 {
        let shape: Vec<usize> = (0..1 + choices.below(3))
            .map(|_| 1 + choices.below(4))
            .collect();
        let mut axes: Vec<i64> = (0..shape.len() as i64).collect();
        axes.retain(|_| choices.below(2) == 0);
        for kind in [
            ReduceKind::Sum,
            ReduceKind::Mean,
            ReduceKind::Max,
            ReduceKind::Min,
            ReduceKind::Prod,
            ReduceKind::L1,
            ReduceKind::L2,
            ReduceKind::SumSquare,
            ReduceKind::LogSum,
            ReduceKind::LogSumExp,
        ] {
            let reduce = Reduce {
                kind,
                keep_dims: choices.below(2) == 0,
                noop_with_empty_axes: false,
            };
            let x = match kind {
                ReduceKind::LogSum => positive(&shape, seed),
                // The length of a number near 0 bends a lot.
                ReduceKind::L2 => scaled(&positive(&shape, seed), -1.0),
                _ => random(&shape, seed),
            };
            check(reduce, &[Some(x), Some(ints(&axes))]);
        }
        let axis = Tensor::from_i64([], vec![choices.below(shape.len()) as i64]).ok();
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let x = Some(random(&shape, seed + 1));
            let sum = Op::CumSum(CumSum { exclusive, reverse });
            let product = Op::CumProd(CumProd { exclusive, reverse });
            // Along an axis of 1, nothing is left of what leaves the element itself out.
            for op in [sum, product] {
                check_results(&op, &[x.clone(), axis.clone()], 1);
            }
        }
    }
}
