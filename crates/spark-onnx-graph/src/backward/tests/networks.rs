//! Whole networks: values that are read twice, wanted values in between, values that are detached.

use super::super::with_gradients;
use super::largest_difference;
use crate::graph::{Binary, Conv, Dim, Graph, Op, Padding, Reduce, ReduceKind, Unary, bind};
use crate::reference::gradient::tests::networks::{
    Net, OF_BLOCK, OF_PICTURE, fake_quantisation, squeeze_and_excitation, transformer_block,
};
use crate::reference::gradient::tests::random;
use crate::reference::gradient::{GradientOptions, gradients};
use crate::reference::run_wide;
use crate::tensor::{DType, Tensor};
use crate::{file, simplify};

/// Holds the gradients in operators against the reference's.
#[track_caller]
fn check(net: &Net, wanted: &[&str], options: GradientOptions) {
    let bound = bind(&net.graph, &[]).expect("binds");
    let outputs: Vec<&str> = bound
        .outputs()
        .iter()
        .map(|&id| bound.value(id).name.as_str())
        .collect();
    let given: Vec<Tensor> = bound
        .outputs()
        .iter()
        .enumerate()
        .map(|(i, &id)| random(&bound.value(id).ty.shape, 900 + i as u64))
        .collect();
    let by_output: Vec<(&str, &Tensor)> = outputs.iter().copied().zip(&given).collect();
    let want = gradients(&bound, &net.given(), &by_output, wanted, options).expect("has gradients");

    let trained = with_gradients(&bound, wanted, &outputs, &[], options).expect("is written");
    let constants: Vec<(&str, Tensor)> = wanted
        .iter()
        .filter_map(|&name| {
            let value = bound.values().iter().find(|value| value.name == name)?;
            Some((name, Tensor::clone(value.constant.as_deref()?)))
        })
        .collect();
    let mut inputs = net.given();
    inputs.extend(constants.iter().map(|(name, tensor)| (*name, tensor)));
    inputs.extend(
        trained
            .output_gradients
            .iter()
            .map(String::as_str)
            .zip(&given),
    );
    // As it is, simplified, and written to a file and read again.
    let whole = bind(&trained.graph, &[]).expect("binds");
    let bytes = file::to_bytes(&trained.graph).expect("is ONNX");
    let read = bind(&file::parse(&bytes, None).expect("reads"), &[]).expect("binds");
    let again = bind(&trained.clone().recomputed().graph, &[]).expect("binds");
    for graph in [simplify(whole.clone()), read, again, whole] {
        let results = run_wide(&graph, &inputs).expect("runs");
        let got = &results[outputs.len()..];
        assert_eq!(got.len(), want.len());
        for ((name, got), (of, want)) in got.iter().zip(&want) {
            assert_eq!(*name, format!("grad.{of}"));
            let difference = largest_difference(&got.to_f64(), &want.to_f64());
            assert!(difference < 1e-12, "{name}: {difference:e}");
        }
    }
}

#[test]
fn a_convolutional_network_with_squeeze_and_excitation() {
    check(
        &squeeze_and_excitation(),
        &OF_PICTURE,
        GradientOptions::default(),
    );
    // Fewer wanted, fewer nodes.
    check(
        &squeeze_and_excitation(),
        &["w2"],
        GradientOptions::default(),
    );
}

#[test]
fn a_transformer_block() {
    check(&transformer_block(), &OF_BLOCK, GradientOptions::default());
}

#[test]
fn fake_quantisation_goes_straight_through() {
    for straight_through in [false, true] {
        check(
            &fake_quantisation(),
            &["x", "scale"],
            GradientOptions { straight_through },
        );
    }
}

/// `y = exp(a x) * (a x)`, with `p = a x`.
fn product() -> Graph {
    let mut graph = Graph::default();
    let known = || vec![Dim::Known(2)];
    let x = graph.add_input("x", DType::F64, known());
    let a = graph.add_constant("a", random(&[2], 3));
    let p = graph.add_node("p", Op::Binary(Binary::Mul), &[Some(a), Some(x)]);
    let e = graph.add_node("e", Op::Unary(Unary::Exp), &[Some(p)]);
    let y = graph.add_node("y", Op::Binary(Binary::Mul), &[Some(e), Some(p)]);
    graph.outputs = vec![y];
    graph
}

/// The gradients by `wanted` at x = (1, 2), of a loss that is the sum of y.
fn found(wanted: &[&str], detached: &[&str]) -> Vec<Vec<f64>> {
    let bound = bind(&product(), &[]).expect("binds");
    let options = GradientOptions::default();
    let trained = with_gradients(&bound, wanted, &["y"], detached, options).expect("is written");
    let x = Tensor::from_f64(DType::F64, [2], vec![1.0, 2.0]).expect("two");
    let ones = Tensor::from_f64(DType::F64, [2], vec![1.0; 2]).expect("two");
    let a = random(&[2], 3);
    let mut inputs = vec![("x", &x), (trained.output_gradients[0].as_str(), &ones)];
    if wanted.contains(&"a") {
        inputs.push(("a", &a));
    }
    let bound = bind(&trained.graph, &[]).expect("binds");
    let results = run_wide(&bound, &inputs).expect("runs");
    results[1..].iter().map(|(_, t)| t.to_f64()).collect()
}

#[test]
fn what_is_detached_is_taken_for_fixed() {
    let a = random(&[2], 3).to_f64();
    let p: Vec<f64> = a.iter().zip([1.0, 2.0]).map(|(a, x)| a * x).collect();
    let of = |slope: &dyn Fn(f64) -> f64| -> Vec<f64> {
        p.iter()
            .zip([1.0, 2.0])
            .map(|(&p, x)| slope(p) * x)
            .collect()
    };
    let close = |got: &[f64], want: &[f64]| largest_difference(got, want) < 1e-12;
    assert!(close(&found(&["a"], &[])[0], &of(&|p| p.exp() * (1.0 + p))));
    assert!(close(&found(&["a"], &["e"])[0], &of(&|p| p.exp())));
    assert_eq!(found(&["a"], &["p"])[0], [0.0, 0.0]);
}

#[test]
fn values_in_between_and_outputs_have_gradients_too() {
    let got = found(&["p", "y", "x"], &[]);
    let a = random(&[2], 3).to_f64();
    let p: Vec<f64> = a.iter().zip([1.0, 2.0]).map(|(a, x)| a * x).collect();
    let by_p: Vec<f64> = p.iter().map(|p| p.exp() * (1.0 + p)).collect();
    let by_x: Vec<f64> = by_p.iter().zip(&a).map(|(g, a)| g * a).collect();
    assert!(largest_difference(&got[0], &by_p) < 1e-12);
    assert_eq!(got[1], [1.0, 1.0]);
    assert!(largest_difference(&got[2], &by_x) < 1e-12);
}

#[test]
fn wanted_constants_are_inputs_and_others_stay() {
    let bound = bind(&squeeze_and_excitation().graph, &[]).expect("binds");
    let trained = with_gradients(&bound, &["w2"], &["y"], &[], GradientOptions::default());
    let trained = trained.expect("is written");
    let graph = &trained.graph;
    let names: Vec<&str> = graph
        .inputs
        .iter()
        .map(|&id| graph.value(id).name.as_str())
        .collect();
    assert_eq!(names, ["x", "w2", "grad_output.y"]);
    assert_eq!(trained.gradients, ["grad.w2"]);
    // Nothing in front of the gate is differentiated: its own gradient is a product.
    let convolutions = graph
        .nodes
        .iter()
        .filter(|node| node.op.name().starts_with("Conv"));
    assert_eq!(convolutions.count(), 3);
}

/// A network of one convolution or reduction, with its weight, if any, as what is wanted too.
fn one(op: impl Into<Op>, shape: &[usize], weight: Option<&[usize]>) -> Net {
    let mut graph = Graph::default();
    let dims = shape.iter().map(|&extent| Dim::Known(extent)).collect();
    let x = graph.add_input("x", DType::F64, dims);
    let mut operands = vec![Some(x)];
    operands.extend(weight.map(|shape| Some(graph.add_constant("w", random(shape, 7)))));
    let y = graph.add_node("y", op.into(), &operands);
    graph.outputs.push(y);
    let x = random(shape, 3);
    Net {
        graph,
        inputs: vec![("x".to_owned(), x)],
    }
}

/// Taps that lie wholly beside the picture, and pictures without a pixel.
#[test]
fn windows_that_reach_beyond_everything() {
    let conv = |dilations: &[usize], padding| Conv {
        strides: Vec::new(),
        dilations: dilations.to_vec(),
        padding,
        groups: 1,
    };
    let pads = |pad: usize| Padding::Explicit(vec![pad; 4]);
    for (op, x, w) in [
        (conv(&[], pads(2)), [1, 2, 1, 1], [3, 2, 5, 5]),
        (conv(&[2, 2], pads(2)), [2, 2, 1, 1], [3, 2, 3, 3]),
        (conv(&[], pads(3)), [1, 2, 2, 2], [3, 2, 7, 7]),
        (conv(&[], pads(4)), [1, 2, 2, 2], [3, 2, 3, 3]),
    ] {
        let net = one(op, &x, Some(&w));
        check(&net, &["x", "w"], GradientOptions::default());
    }
    let empty = one(
        conv(&[], Padding::SameUpper),
        &[1, 2, 0, 3],
        Some(&[3, 2, 2, 2]),
    );
    let bound = bind(&empty.graph, &[]).expect("binds");
    let trained = with_gradients(&bound, &["x", "w"], &["y"], &[], GradientOptions::default());
    bind(&trained.expect("is written").graph, &[]).expect("binds");
}

/// In f32 the sum's logarithm has lost what tells large numbers apart; their differences have not.
#[test]
fn the_logarithm_of_a_sum_of_large_exponentials() {
    let op = Reduce {
        kind: ReduceKind::LogSumExp,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    for size in [1e3, 1e8, 1e30] {
        let net = one(op, &[4], None);
        let bound = bind(&net.graph, &[]).expect("binds");
        let options = GradientOptions::default();
        let trained = with_gradients(&bound, &["x"], &["y"], &[], options).expect("is written");
        let x = Tensor::from_f64(DType::F64, [4], vec![size; 4]).expect("fits");
        let dy = Tensor::from_f64(DType::F64, Vec::new(), vec![1.0]).expect("fits");
        let inputs = [("x", &x), (trained.output_gradients[0].as_str(), &dy)];
        let results = run_wide(&bind(&trained.graph, &[]).expect("binds"), &inputs);
        assert_eq!(results.expect("runs")[1].1.to_f64(), [0.25; 4], "{size:e}");
    }
}

/// `h = tanh(h w)`, so many times.
fn chain(n: usize) -> Graph {
    let mut graph = Graph::default();
    let mut h = graph.add_input("x", DType::F32, vec![Dim::Known(4), Dim::Known(8)]);
    for layer in 0..n {
        let weight = random(&[8, 8], layer as u64).to_f64();
        let weight = Tensor::from_f64(DType::F32, vec![8, 8], weight).expect("fits");
        let w = graph.add_constant(format!("w{layer}"), weight);
        let matmul = Op::MatMul(crate::graph::MatMul);
        h = graph.add_node(format!("product{layer}"), matmul, &[Some(h), Some(w)]);
        h = graph.add_node(format!("h{layer}"), Op::Unary(Unary::Tanh), &[Some(h)]);
    }
    graph.outputs.push(h);
    graph
}

/// The most bytes of results that are held at once where each goes behind its last reader.
fn most_held(graph: &Graph) -> usize {
    let bound = bind(graph, &[]).expect("binds");
    let bytes = |id: &crate::graph::ValueId| {
        let ty = &bound.value(*id).ty;
        ty.shape.iter().product::<usize>() * ty.dtype.size_bytes()
    };
    let nodes = bound.nodes();
    let mut last = std::collections::BTreeMap::new();
    for (position, node) in nodes.iter().enumerate() {
        for id in node.inputs.iter().chain(&node.outputs).flatten() {
            last.insert(*id, position);
        }
    }
    for id in bound.outputs() {
        last.insert(*id, nodes.len());
    }
    let (mut held, mut most) = (0, 0);
    for (position, node) in nodes.iter().enumerate() {
        held += node.outputs.iter().flatten().map(bytes).sum::<usize>();
        most = most.max(held);
        let ended = node.inputs.iter().chain(&node.outputs).flatten();
        let ended: std::collections::BTreeSet<_> =
            ended.filter(|id| last[id] == position).collect();
        let made = ended.into_iter().filter(|id| {
            let mut all = nodes.iter().flat_map(|node| node.outputs.iter().flatten());
            all.any(|made| made == *id)
        });
        held -= made.map(bytes).sum::<usize>();
    }
    most
}

#[test]
fn results_that_are_computed_again_give_the_same_bits_in_less_memory() {
    let net = chain(36);
    let bound = bind(&net, &[]).expect("binds");
    let outputs = ["h35"];
    let trained = with_gradients(
        &bound,
        &["x", "w0", "w20"],
        &outputs,
        &[],
        GradientOptions::default(),
    );
    let trained = trained.expect("is written");
    let again = trained.clone().recomputed();
    assert_eq!(again.gradients, trained.gradients);
    let count = |graph: &Graph, ends: &str| {
        graph
            .nodes
            .iter()
            .filter(|node| node.name.ends_with(ends))
            .count()
    };
    // The last block is run once, and what crosses into a block is kept.
    let n_again = count(&again.graph, ".again");
    assert!((20..70).contains(&n_again), "{n_again}");
    let [whole, less] = [&trained, &again].map(|graph| most_held(&graph.graph));
    // Every `h` is held, 36; in blocks of about six, six and six.
    assert!(2 * less < whole, "{less} of {whole} bytes");

    let (x, dy) = (random(&[4, 8], 7), random(&[4, 8], 8));
    let weights: Vec<Tensor> = ["w0", "w20"]
        .iter()
        .map(|name| {
            let mut values = net.values.iter();
            let value = values.find(|value| value.name == *name).expect("is there");
            Tensor::clone(value.constant.as_deref().expect("is a constant"))
        })
        .collect();
    let f32s = |tensor: &Tensor| {
        Tensor::from_f64(DType::F32, tensor.shape().to_vec(), tensor.to_f64()).expect("fits")
    };
    let (x, dy) = (f32s(&x), f32s(&dy));
    let given = [
        ("x", &x),
        ("w0", &weights[0]),
        ("w20", &weights[1]),
        (trained.output_gradients[0].as_str(), &dy),
    ];
    let results = |graph: &Graph| {
        let bound = bind(graph, &[]).expect("binds");
        run_wide(&bound, &given).expect("runs")
    };
    assert_eq!(results(&trained.graph), results(&again.graph));
}
