//! What is refused, and before anything is run.

use super::super::{GradientError, GradientOptions, differentiate, gradients};
use super::{f64s, ints};
use crate::ModelError;
use crate::graph::{
    ArgReduce, Binary, Cast, Dim, Graph, MatMul, Op, PoolKind, RegionEdges, Reshape, RoiAlign,
    Shape, StaticGraph, Transpose, Unary, bind, bind_within,
};
use crate::reference::run_wide;
use crate::tensor::{DType, Tensor};
use spark_testing::Watch;

/// Gradients by `wanted`, all inputs and output gradients ones.
fn found(graph: &StaticGraph, wanted: &[&str]) -> Result<Vec<Vec<f64>>, GradientError> {
    let ones = |id| {
        let value = graph.value(id);
        let n = value.ty.shape.iter().product();
        let tensor = Tensor::from_f64(value.ty.dtype, value.ty.shape.clone(), vec![1.0; n]);
        (value.name.as_str(), tensor.expect("ones"))
    };
    let inputs: Vec<(&str, Tensor)> = graph.inputs().iter().map(|&id| ones(id)).collect();
    let outputs: Vec<(&str, Tensor)> = graph.outputs().iter().map(|&id| ones(id)).collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, t)| (*name, t)).collect();
    let outputs: Vec<(&str, &Tensor)> = outputs.iter().map(|(name, t)| (*name, t)).collect();
    let found = gradients(graph, &inputs, &outputs, wanted, GradientOptions::default())?;
    Ok(found
        .into_iter()
        .map(|(_, tensor)| tensor.to_f64())
        .collect())
}

fn roi_align() -> Op {
    Op::RoiAlign(RoiAlign {
        kind: PoolKind::Average,
        edges: RegionEdges::OutputHalfPixel,
        cells: [2, 2],
        samples: 1,
        scale: 1.0,
    })
}

/// `y = roi_align(x, regions + w) * v`.
fn sampled() -> StaticGraph {
    let mut graph = Graph::default();
    let known = |shape: &[usize]| shape.iter().map(|&d| Dim::Known(d)).collect();
    let x = graph.add_input("x", DType::F32, known(&[1, 1, 4, 4]));
    let regions = graph.add_input("regions", DType::F32, known(&[1, 4]));
    let w = graph.add_constant("w", Tensor::from_f32([1], vec![0.5]).expect("one"));
    let v = graph.add_constant("v", Tensor::from_f32([1], vec![3.0]).expect("one"));
    let which = graph.add_constant("which", ints(&[0]));
    let moved = graph.add_node("moved", Op::Binary(Binary::Add), &[Some(regions), Some(w)]);
    let operands = [Some(x), Some(moved), Some(which)];
    let taken = graph.add_node("taken", roi_align(), &operands);
    let y = graph.add_node("y", Op::Binary(Binary::Mul), &[Some(taken), Some(v)]);
    graph.outputs.push(y);
    bind(&graph, &[]).expect("binds")
}

#[test]
fn an_operator_without_a_gradient_is_named() {
    let error = found(&sampled(), &["v", "w"]).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "node `taken` (RoiAlign) has no gradient by its operand 1: where its regions lie is not differentiated"
    );
    let GradientError::NoGradient {
        node, op, operand, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (node.as_str(), op.as_str(), operand),
        ("taken", "RoiAlign", 1)
    );
}

#[test]
fn what_is_not_behind_a_wanted_value_is_not_differentiated() {
    // Every sample is an average of ones.
    let by_v = found(&sampled(), &["v", "x"]).expect("regions are not behind them");
    assert_eq!(by_v[0], [4.0]);
    assert_eq!(by_v[1].iter().sum::<f64>(), 12.0);
}

#[test]
fn it_is_refused_before_anything_is_run() {
    // The input is missing as well, which only a run would notice.
    let graph = sampled();
    let dy = Tensor::from_f32([1, 1, 2, 2], vec![1.0; 4]).expect("four");
    let error = gradients(
        &graph,
        &[],
        &[("y", &dy)],
        &["w"],
        GradientOptions::default(),
    );
    assert!(
        matches!(error, Err(GradientError::NoGradient { .. })),
        "{error:?}"
    );
    let error = gradients(
        &graph,
        &[],
        &[("y", &dy)],
        &["v"],
        GradientOptions::default(),
    );
    let is_missing =
        |e: &GradientError| matches!(e, GradientError::Model(ModelError::InputMissing { .. }));
    assert!(error.as_ref().is_err_and(is_missing), "{error:?}");
}

#[test]
fn ways_that_are_zero_by_definition_end_there() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3)]);
    let positions = ArgReduce {
        max: true,
        axis: 0,
        keep_dims: true,
        select_last: false,
    };
    let at = graph.add_node("at", positions.into(), &[Some(x)]);
    let at = graph.add_node("float", Op::Cast(Cast { to: DType::F32 }), &[Some(at)]);
    let floor = graph.add_node("floor", Op::Unary(Unary::Floor), &[Some(x)]);
    let above = graph.add_node("above", Op::Binary(Binary::Add), &[Some(floor), Some(at)]);
    let y = graph.add_node("y", Op::Binary(Binary::Add), &[Some(above), Some(x)]);
    graph.outputs = vec![above, y];
    let graph = bind(&graph, &[]).expect("binds");
    assert_eq!(found(&graph, &["x"]).expect("zeros and ones")[0], [1.0; 3]);
    assert_eq!(found(&graph, &["float", "x"]).expect("of both")[0], [6.0]);
}

#[test]
fn constants_that_were_folded_are_refused() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(2)]);
    let weights = || Tensor::from_f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]).expect("four");
    let w = graph.add_constant("w", weights());
    let shared = graph.add_constant("shared", weights());
    graph.add_constant("unread", weights());
    let turn = || Op::Transpose(Transpose { perm: None });
    let turned = graph.add_node("turned", turn(), &[Some(w)]);
    let also_turned = graph.add_node("also_turned", turn(), &[Some(shared)]);
    let mut y = x;
    for (name, factor) in [("a", turned), ("b", shared), ("c", also_turned)] {
        y = graph.add_node(name, MatMul.into(), &[Some(y), Some(factor)]);
    }
    // Of an input the shape alone is folded.
    let whole = Op::Shape(Shape {
        start: 0,
        end: None,
    });
    let shape = graph.add_node("shape", whole, &[Some(x)]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(y), Some(shape)]);
    graph.outputs.push(y);
    let graph = bind(&graph, &[]).expect("binds");
    for name in ["w", "shared"] {
        let error = found(&graph, &[name]).expect_err("folded");
        assert!(
            matches!(&error, GradientError::Folded { name: n } if n == name),
            "{error}"
        );
    }
    let error = found(&graph, &["unread"]).expect_err("unread");
    assert!(matches!(error, GradientError::Unread { .. }), "{error}");
    // What they were folded into is there.
    let folded = found(&graph, &["turned", "x"]).expect("has gradients");
    assert!(folded.iter().flatten().all(|g| *g != 0.0), "{folded:?}");
}

#[test]
fn names_types_and_shapes_are_checked() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    let whole = graph.add_node("whole", Op::Cast(Cast { to: DType::I32 }), &[Some(x)]);
    let y = graph.add_node("y", Op::Unary(Unary::Exp), &[Some(x)]);
    graph.outputs = vec![y, whole];
    let graph = bind(&graph, &[]).expect("binds");
    let x = Tensor::from_f32([2], vec![1.0; 2]).expect("two");
    let run = |dy: &[(&str, &Tensor)], wanted: &str| {
        gradients(
            &graph,
            &[("x", &x)],
            dy,
            &[wanted],
            GradientOptions::default(),
        )
    };
    let error = run(&[("y", &x)], "z").expect_err("unknown");
    assert!(
        matches!(error, GradientError::ValueUnknown { .. }),
        "{error}"
    );
    let error = run(&[("y", &x)], "whole").expect_err("whole");
    assert!(matches!(error, GradientError::NotFloat { .. }), "{error}");
    for names in [&["x"][..], &["y", "y"]] {
        let given: Vec<(&str, &Tensor)> = names.iter().map(|&name| (name, &x)).collect();
        let error = run(&given, "x").expect_err("no such output");
        assert!(
            matches!(error, GradientError::OutputUnknown { .. }),
            "{error}"
        );
    }
    for wrong in [f64s(&[3], vec![1.0; 3]), ints(&[1, 1])] {
        let error = run(&[("y", &wrong)], "x").expect_err("does not fit");
        assert!(
            matches!(error, GradientError::OutputGradient { .. }),
            "{error}"
        );
    }
    // No gradient of any output is one of zeros.
    assert_eq!(run(&[], "x").expect("zeros")[0].1.to_f64(), [0.0; 2]);
}

#[test]
fn one_operator_says_why() {
    let x = f64s(&[1, 1, 2, 2], vec![1.0; 4]);
    let regions = f64s(&[1, 4], vec![0.0, 0.0, 2.0, 2.0]);
    let which = ints(&[0]);
    let options = GradientOptions::default();
    let operands = [Some(&x), Some(&regions), Some(&which)];
    let refused = |dy: &Tensor, operand| {
        let error = differentiate(&roi_align(), &operands, &[Some(dy)], operand, options);
        error.expect_err("refused").reason
    };
    let why = "RoiAlign has no gradient: where its regions lie is not differentiated";
    assert_eq!(refused(&x, 1), why);
    assert_eq!(refused(&x, 3), "operand 3 is missing");
    for sample in [-1, 1, i64::MAX] {
        let which = ints(&[sample]);
        let operands = [Some(&x), Some(&regions), Some(&which)];
        let error = differentiate(&roi_align(), &operands, &[Some(&x)], 0, options);
        let want = format!("`batch_indices` names samples [{sample}], there are 1");
        assert_eq!(error.expect_err("refused").reason, want);
    }
    let shape = "the gradient of result 0 has shape [1, 4], the result [1, 1, 2, 2]";
    assert_eq!(refused(&regions, 0), shape);
    let floor = Op::Unary(Unary::Floor);
    let zeros = differentiate(&floor, &[Some(&x)], &[Some(&x)], 0, options);
    assert_eq!(zeros.expect("zeros").to_f64(), [0.0; 4]);
}

#[test]
fn memory_is_held_against_the_budget() {
    const N: usize = 1000;
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F64, vec![Dim::Known(N)]);
    let mut y = x;
    for i in 0..40 {
        y = graph.add_node(format!("n{i}"), Op::Unary(Unary::Tanh), &[Some(y)]);
    }
    graph.outputs.push(y);
    let ones = f64s(&[N], vec![1.0; N]);
    let (mut n_refused, mut n_passed) = (0, 0);
    for budget in (1..40).map(|i| i * (16 << 10)) {
        let graph = bind_within(&graph, &[], budget).expect("binds");
        let runs = run_wide(&graph, &[("x", &ones)]).is_ok();
        let watch = Watch::start();
        let found = gradients(
            &graph,
            &[("x", &ones)],
            &[("n39", &ones)],
            &["x"],
            GradientOptions::default(),
        );
        let peak = watch.peak();
        match found {
            Ok(_) => {
                n_passed += 1;
                // Names, lists of values and nodes beside.
                assert!(peak <= budget + (32 << 10), "{peak} bytes, budget {budget}");
            }
            Err(GradientError::Model(ModelError::OverBudget { .. })) => {
                n_refused += usize::from(runs)
            }
            Err(error) => panic!("{error}"),
        }
    }
    // The way back needs all values of the way forth.
    assert!(
        n_refused > 0 && n_passed > 0,
        "{n_refused} refused, {n_passed} passed"
    );
}
