//! Spelled out they compute the same.

use super::*;
use crate::graph::{Dim, Graph, Padding, bind};
use crate::reference::run;
use crate::tensor::{DType, Tensor};
use spark_testing::numbers;

fn random(shape: &[usize], seed: u64) -> Tensor {
    let values = numbers(shape.iter().product(), seed)
        .into_iter()
        .map(f64::from);
    Tensor::from_f64(DType::F64, shape, values.collect()).expect("fits")
}

/// Holds the graph of one convolution against its spelling; its operands are inputs but for constants.
#[track_caller]
fn check(op: impl Into<Op>, operands: &[Tensor], constants: &[usize]) {
    let mut graph = Graph::default();
    let ids: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, tensor)| {
            let dims = tensor.shape().iter().map(|&d| Dim::Known(d)).collect();
            Some(match constants.contains(&i) {
                true => graph.add_constant(format!("x{i}"), tensor.clone()),
                false => graph.add_input(format!("x{i}"), DType::F64, dims),
            })
        })
        .collect();
    let op = op.into();
    let y = graph.add_node("y", op.clone(), &ids);
    let z = graph.add_node("z", Op::Unary(crate::graph::Unary::Neg), &[Some(y)]);
    graph.outputs = vec![y, z];
    let names: Vec<String> = (0..operands.len()).map(|i| format!("x{i}")).collect();
    let inputs: Vec<(&str, &Tensor)> = names
        .iter()
        .enumerate()
        .filter(|(i, _)| !constants.contains(i))
        .map(|(i, name)| (name.as_str(), &operands[i]))
        .collect();
    let bound = bind(&graph, &[]).expect("binds");
    let want = run(&bound, &inputs).expect("runs");
    let spelled = spell_out_computed_weights(bound).expect("is spelled out");
    assert!(
        spelled
            .nodes()
            .iter()
            .all(|node| !is_computed(&spelled, node))
    );
    let got = run(&spelled, &inputs).expect("runs");
    for ((name, got), (of, want)) in got.iter().zip(&want) {
        assert_eq!((name, got.shape()), (of, want.shape()));
        let pairs = got.to_f64().into_iter().zip(want.to_f64());
        let worst = pairs.fold(0.0, |m: f64, (g, w)| m.max((g - w).abs()));
        assert!(worst < 1e-12, "{op:?}: {worst:e}");
    }
}

fn conv(strides: &[usize], dilations: &[usize], padding: Padding, groups: usize) -> Conv {
    Conv {
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        padding,
        groups,
    }
}

#[test]
fn convolutions_of_every_kind() {
    let explicit = |pads: &[usize]| Padding::Explicit(pads.to_vec());
    let cases = [
        (
            conv(&[], &[], explicit(&[]), 1),
            vec![1, 4, 5, 6],
            vec![3, 4, 1, 1],
        ),
        (
            conv(&[2, 1], &[1, 2], explicit(&[1, 2, 0, 1]), 1),
            vec![2, 4, 9, 8],
            vec![3, 4, 3, 2],
        ),
        (
            conv(&[3, 2], &[], Padding::SameUpper, 2),
            vec![2, 4, 7, 8],
            vec![6, 2, 3, 3],
        ),
        (
            conv(&[2, 2], &[], explicit(&[1; 4]), 4),
            vec![1, 4, 8, 8],
            vec![4, 1, 3, 3],
        ),
        (
            conv(&[1, 1], &[], Padding::SameLower, 2),
            vec![1, 2, 5, 5],
            vec![6, 1, 2, 2],
        ),
        (
            conv(&[2], &[3], explicit(&[2, 3]), 1),
            vec![2, 3, 11],
            vec![2, 3, 3],
        ),
        (
            conv(&[1, 2, 1], &[], explicit(&[1; 6]), 1),
            vec![1, 2, 4, 4, 3],
            vec![2, 2, 2, 3, 2],
        ),
        // Few outputs.
        (
            conv(&[], &[], explicit(&[1; 4]), 1),
            vec![2, 8, 5, 6],
            vec![2, 8, 3, 3],
        ),
        (
            conv(&[2, 1], &[1, 2], explicit(&[1, 2, 0, 1]), 1),
            vec![2, 9, 9, 8],
            vec![1, 9, 3, 2],
        ),
        (
            conv(&[1, 1], &[], explicit(&[0, 3, 0, 3]), 1),
            vec![1, 4, 3, 2],
            vec![1, 4, 2, 5],
        ),
        // No outputs, and no inputs.
        (
            conv(&[], &[], explicit(&[1; 4]), 1),
            vec![1, 2, 3, 3],
            vec![0, 2, 3, 3],
        ),
        (
            conv(&[], &[], explicit(&[1; 4]), 1),
            vec![1, 0, 3, 3],
            vec![2, 0, 3, 3],
        ),
        // The last elements of x are under no window.
        (
            conv(&[3, 3], &[], Padding::Valid, 1),
            vec![1, 1, 8, 8],
            vec![2, 1, 3, 3],
        ),
    ];
    for (op, x, w) in cases {
        let operands = [random(&x, 1), random(&w, 2), random(&[w[0]], 3)];
        check(op.clone(), &operands, &[]);
        check(op.clone(), &operands[..2], &[0]);
        // Only the bias is computed.
        check(op, &operands, &[1]);
    }
}

#[test]
fn transposed_convolutions_of_every_kind() {
    let explicit = |pads: &[usize]| Padding::Explicit(pads.to_vec());
    let cases = [
        (
            conv(&[], &[], explicit(&[]), 1),
            vec![],
            vec![1, 4, 5, 6],
            vec![4, 3, 2, 2],
        ),
        (
            conv(&[2, 3], &[], explicit(&[1, 0, 1, 2]), 1),
            vec![1, 0],
            vec![2, 4, 4, 3],
            vec![4, 3, 3, 3],
        ),
        // Few inputs.
        (
            conv(&[], &[], explicit(&[1; 4]), 1),
            vec![],
            vec![2, 1, 5, 6],
            vec![1, 5, 3, 3],
        ),
        (
            conv(&[2, 3], &[1, 2], explicit(&[1, 0, 1, 2]), 1),
            vec![1, 0],
            vec![2, 2, 4, 3],
            vec![2, 9, 3, 2],
        ),
        (
            conv(&[2, 2], &[2, 1], explicit(&[]), 2),
            vec![],
            vec![1, 4, 3, 3],
            vec![4, 2, 2, 3],
        ),
        (
            conv(&[2, 2], &[], Padding::SameUpper, 4),
            vec![],
            vec![1, 4, 3, 3],
            vec![4, 1, 3, 3],
        ),
        (
            conv(&[3], &[], explicit(&[0, 1]), 1),
            vec![2],
            vec![2, 3, 4],
            vec![3, 2, 2],
        ),
    ];
    for (conv, output_padding, x, w) in cases {
        let n_results = w[1] * conv.groups;
        let op = ConvTranspose {
            conv,
            output_padding,
            output_shape: None,
        };
        let operands = [random(&x, 1), random(&w, 2), random(&[n_results], 3)];
        check(op.clone(), &operands, &[]);
        check(op.clone(), &operands[..2], &[0]);
        check(op, &operands, &[1]);
    }
}

/// A window of so many taps would be that many nodes.
#[test]
fn a_very_large_window_is_left_as_it_is() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F64, [1, 1, 2000].map(Dim::Known).to_vec());
    let w = graph.add_input("w", DType::F64, [1, 1, 1025].map(Dim::Known).to_vec());
    let op = conv(&[], &[], Padding::Valid, 1);
    let y = graph.add_node("y", op.into(), &[Some(x), Some(w)]);
    graph.outputs = vec![y];
    let bound = bind(&graph, &[]).expect("binds");
    let left = spell_out_computed_weights(bound).expect("is left");
    assert_eq!(left.nodes().len(), 1);
}

/// Windows wider than the picture, of which taps lie wholly beside it; pictures and results without a pixel.
#[test]
fn windows_that_reach_beyond_everything() {
    let pads = |pads: &[usize]| Padding::Explicit(pads.to_vec());
    for (op, x, w) in [
        (conv(&[], &[], pads(&[2; 4]), 1), [1, 2, 1, 1], [3, 2, 5, 5]),
        (
            conv(&[], &[2, 2], pads(&[2; 4]), 1),
            [2, 2, 1, 1],
            [3, 2, 3, 3],
        ),
        (conv(&[], &[], pads(&[3; 4]), 2), [1, 2, 2, 2], [4, 1, 7, 7]),
        (
            conv(&[2, 1], &[], pads(&[4, 0, 4, 0]), 2),
            [1, 2, 1, 3],
            [2, 1, 3, 3],
        ),
        (
            conv(&[], &[], Padding::SameUpper, 1),
            [1, 2, 0, 3],
            [3, 2, 2, 2],
        ),
        (
            conv(&[2, 2], &[], Padding::SameLower, 2),
            [0, 2, 3, 3],
            [2, 1, 2, 2],
        ),
    ] {
        check(op, &[random(&x, 1), random(&w, 2)], &[]);
    }
    for (padding, x, w) in [
        (pads(&[1, 2]), vec![1, 2, 1], vec![2, 4, 5]),
        (pads(&[4, 0]), vec![1, 2, 2], vec![2, 1, 5]),
        (pads(&[3, 3, 3, 3]), vec![2, 2, 3, 3], vec![2, 1, 5, 5]),
    ] {
        for groups in [1, 2] {
            let op = ConvTranspose {
                conv: conv(&[], &[], padding.clone(), groups),
                output_padding: Vec::new(),
                output_shape: None,
            };
            check(op, &[random(&x, 3), random(&w, 4)], &[]);
        }
    }
}
