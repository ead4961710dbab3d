//! Gradients against outside truth, those that PyTorch computed of PEFT's DoRA layers in f32; and of real models.

use std::collections::BTreeMap;

use spark_onnx_graph::graph::{
    Binary, Conv, Dim, Graph, MatMul, Op, Padding, Reshape, StaticGraph, Transpose, ValueId, bind,
};
use spark_onnx_graph::reference::gradient::{GradientError, GradientOptions, gradients};
use spark_onnx_graph::{DType, ModelError, Tensor, file, reference};
use spark_testing::{numbers, test_data};

use crate::reference::{read_tensors, relative_error};

/// Largest difference that f32 accounts for, of a largest element of 1.
const F32: f64 = 1e-5;

fn reshaped(graph: &mut Graph, name: &str, x: ValueId, shape: &[usize]) -> ValueId {
    let extents = shape.iter().map(|&d| d as i64).collect();
    let extents = Tensor::from_i64([shape.len()], extents).expect("a list");
    let extents = graph.add_constant(format!("{name}.shape"), extents);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    graph.add_node(name, reshape, &[Some(x), Some(extents)])
}

/// A case of the file by the names of its tensors, and a convolution unless it is a linear layer.
fn check(tensors: &BTreeMap<String, Tensor>, case: &str, scaling: f64, conv: Option<Conv>) {
    let of = |name: &str| tensors.get(&format!("{case}.{name}"));
    let given = |name: &str| of(name).unwrap_or_else(|| panic!("{case} has no {name}"));
    let mut graph = Graph::default();
    let names = ["x", "A", "B", "m"];
    let [x, a, b, m] = names.map(|name| {
        let shape = given(name).shape().iter().map(|&d| Dim::Known(d)).collect();
        graph.add_input(name, DType::F64, shape)
    });
    let shape = given("W").shape().to_vec();
    let (rows, rest) = (shape[0], shape[1..].iter().product::<usize>());
    let rank = given("A").shape()[0];

    // W + s B A as a matrix, and the norms of its rows, through which no gradient goes.
    let [w, a_values, b_values] = ["W", "A", "B"].map(|name| given(name).to_f64());
    let updated = |row: usize, column: usize| {
        let terms = (0..rank).map(|k| b_values[row * rank + k] * a_values[k * rest + column]);
        w[row * rest + column] + scaling * terms.sum::<f64>()
    };
    let norm = |row: usize| {
        let squares = (0..rest).map(|column| updated(row, column) * updated(row, column));
        squares.sum::<f64>().sqrt()
    };
    let mut constant = |name: &str, shape: Vec<usize>, values: Vec<f64>| {
        let tensor = Tensor::from_f64(DType::F64, shape, values).expect("fits");
        Some(graph.add_constant(name, tensor))
    };
    let w = constant("W", vec![rows, rest], w.clone());
    let norms = constant("norms", vec![rows, 1], (0..rows).map(norm).collect());
    let factor = constant("scaling", vec![], vec![scaling]);
    let bias = of("b").and_then(|bias| constant("b", vec![rows], bias.to_f64()));
    let mul = Op::Binary(Binary::Mul);
    let a = reshaped(&mut graph, "A2", a, &[rank, rest]);
    let b = reshaped(&mut graph, "B2", b, &[rows, rank]);
    let m = reshaped(&mut graph, "m2", m, &[rows, 1]);
    let product = graph.add_node("BA", Op::MatMul(MatMul), &[Some(b), Some(a)]);
    let scaled = graph.add_node("sBA", mul.clone(), &[Some(product), factor]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[w, Some(scaled)]);
    let gain = graph.add_node("gain", Op::Binary(Binary::Div), &[Some(m), norms]);
    let weights = graph.add_node("weights", mul, &[Some(gain), Some(sum)]);
    let y = if let Some(conv) = conv {
        let weights = reshaped(&mut graph, "filters", weights, &shape);
        graph.add_node("y", Op::Conv(conv), &[Some(x), Some(weights), bias])
    } else {
        let turned = Op::Transpose(Transpose { perm: None });
        let turned = graph.add_node("turned", turned, &[Some(weights)]);
        let y = graph.add_node("xW", Op::MatMul(MatMul), &[Some(x), Some(turned)]);
        match bias {
            Some(_) => graph.add_node("y", Op::Binary(Binary::Add), &[Some(y), bias]),
            None => y,
        }
    };
    graph.outputs.push(y);
    let output = graph.value(y).name.clone();

    let graph = bind(&graph, &[]).expect("binds");
    let inputs = names.map(|name| (name, given(name)));
    let dy = [(output.as_str(), given("G"))];
    let found = gradients(&graph, &inputs, &dy, &names, GradientOptions::default());
    for ((name, got), wanted) in found
        .expect("has gradients")
        .iter()
        .zip(["gx", "gA", "gB", "gm"])
    {
        let want = given(wanted);
        assert_eq!(got.shape(), want.shape(), "{case}: {name}");
        let error = relative_error(&got.to_f64(), &want.to_f64());
        assert!(error <= F32, "{case}: {wanted} is {error:e} off");
    }
}

#[test]
fn adapters_of_layers_have_pytorchs_gradients() {
    let Some(path) = test_data("truth/peft/peft_dora.safetensors") else {
        return;
    };
    let tensors = read_tensors(&path);
    let conv = |strides: &[usize], pads: &[usize]| {
        Some(Conv {
            strides: strides.to_vec(),
            dilations: vec![],
            padding: Padding::Explicit(pads.to_vec()),
            groups: 1,
        })
    };
    check(&tensors, "linear", 2.0, None);
    check(&tensors, "linear_rs_nobias", 4.0, None);
    check(&tensors, "conv3x3_s2", 2.0, conv(&[2, 2], &[1; 4]));
    check(&tensors, "conv1x1", 2.0, conv(&[], &[]));
    check(&tensors, "conv1d", 2.0, conv(&[], &[1; 2]));
}

/// A tensor of f32 for each of these values, of random numbers.
fn random(graph: &StaticGraph, values: &[ValueId], seed: u64) -> Vec<(String, Tensor)> {
    let values = values.iter().zip(seed..).map(|(&id, seed)| {
        let value = graph.value(id);
        let n = value.ty.shape.iter().product();
        let numbers = numbers(n, seed).into_iter().map(f64::from).collect();
        let tensor = Tensor::from_f64(value.ty.dtype, value.ty.shape.clone(), numbers);
        (value.name.clone(), tensor.expect("fits"))
    });
    values.collect()
}

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

#[test]
fn nothing_in_driving_models_is_without_a_gradient() {
    for model in [
        "dmonitoring_0_8_5",
        "dmonitoring_0_8_9",
        "supercombo_0_7_4_random_fp16",
    ] {
        let Some(path) = test_data(&format!("data/models/{model}.onnx")) else {
            return;
        };
        let graph = bind(&file::load(&path).expect("loads"), &[]).expect("binds");
        let dy = random(&graph, graph.outputs(), 1);
        let names = graph
            .inputs()
            .iter()
            .map(|&id| graph.value(id).name.as_str());
        let names: Vec<&str> = names.collect();
        // Refusals come before the inputs that are missing here.
        let error = gradients(&graph, &[], &lent(&dy), &names, GradientOptions::default());
        let is_missing = matches!(
            error,
            Err(GradientError::Model(ModelError::InputMissing { .. }))
        );
        assert!(is_missing, "{model}: {error:?}");
    }
}

#[test]
fn a_driver_monitoring_model_has_the_slope_of_its_loss() {
    let Some(path) = test_data("data/models/dmonitoring_0_8_9.onnx") else {
        return;
    };
    let graph = bind(&file::load(&path).expect("loads"), &[]).expect("binds");
    let inputs = random(&graph, graph.inputs(), 10);
    let dy = random(&graph, graph.outputs(), 20);
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let options = GradientOptions::default();
    let found = gradients(&graph, &lent(&inputs), &lent(&dy), &names, options);
    let found = found.expect("has gradients");

    // Along the gradient, where the loss changes most. Inputs are f32, so that the step is what is left of it.
    let all = found.iter().flat_map(|(_, gradient)| gradient.to_f64());
    let largest = all.fold(0.0, |m: f64, g| m.max(g.abs()));
    let moved = |distance: f64| -> Vec<(String, Tensor)> {
        let pairs = inputs.iter().zip(&found);
        let pairs = pairs.map(|((name, x), (_, gradient))| {
            let steps = gradient
                .to_f64()
                .into_iter()
                .map(|g| g / largest * distance);
            let values = x.to_f64().into_iter().zip(steps).map(|(x, step)| x + step);
            let values: Vec<f64> = values.collect();
            let tensor = Tensor::from_f64(x.dtype(), x.shape(), values).expect("fits");
            (name.clone(), tensor)
        });
        pairs.collect()
    };
    let loss = |inputs: &[(String, Tensor)]| -> Vec<f64> {
        let outputs = reference::run_wide(&graph, &lent(inputs)).expect("runs");
        let terms = outputs.iter().zip(&dy).flat_map(|((_, y), (_, dy))| {
            let products = y.to_f64().into_iter().zip(dy.to_f64());
            products.map(|(y, dy)| y * dy).collect::<Vec<_>>()
        });
        terms.collect()
    };
    // The error falls with the step, as kinks within it do: 3e-4 for 1e-4, 3e-5 for 1e-5.
    let (before, after) = (moved(-1e-6), moved(1e-6));
    let differences = loss(&after).into_iter().zip(loss(&before));
    let difference: f64 = differences.map(|(after, before)| after - before).sum();
    let steps = after.iter().zip(&before).zip(&found);
    let expected = steps.map(|(((_, after), (_, before)), (_, gradient))| {
        let steps = after.to_f64().into_iter().zip(before.to_f64());
        let terms = steps.zip(gradient.to_f64());
        let terms = terms.map(|((after, before), g)| (after - before) * g);
        terms.sum::<f64>()
    });
    let expected: f64 = expected.sum();
    let error = (difference - expected).abs() / expected.abs();
    eprintln!("slope {difference:e}, expected {expected:e}: {error:.1e}");
    assert!(
        error <= 1e-5,
        "{difference:e}, expected {expected:e}: {error:.1e}"
    );
}
