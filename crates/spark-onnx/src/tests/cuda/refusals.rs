//! What is refused, and by which words.

use std::collections::BTreeMap;

use spark_mem::Device;
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Binary, CumSum, Dim, Gather, Graph, Op, Reduce, ReduceKind};
use spark_onnx::{DType, ModelError, Precision, RunOptions, Tensor};
use spark_testing::driver::Persona;

use super::calls::tiny;
use super::{on, options, tensor};

#[test]
fn devices_that_are_no_gpu_are_refused() {
    let error = CudaSession::from_graph(tiny(), &Device::host(), &RunOptions::new()).unwrap_err();
    assert!(
        matches!(error, ModelError::DeviceUnavailable { .. }),
        "{error}"
    );
}

#[test]
fn other_precisions_are_refused() {
    on(Persona::Spark, |_, device| {
        let single = BTreeMap::from([("product".to_owned(), Precision::Fp16)]);
        let all = [
            options(Precision::Fp8),
            options(Precision::Bf16),
            options(Precision::Fp32).with_by_step(single),
        ];
        for options in all {
            let error = CudaSession::from_graph(tiny(), device, &options).unwrap_err();
            assert!(
                matches!(error, ModelError::PrecisionUnavailable { .. }),
                "{error}"
            );
        }
    });
}

/// A graph with an input `x` of `shape` and one node.
fn one_node(shape: Vec<Dim>, op: Op, others: &[Tensor]) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, shape);
    let mut operands = vec![Some(x)];
    for (number, other) in others.iter().enumerate() {
        operands.push(Some(
            graph.add_constant(format!("c{number}"), other.clone()),
        ));
    }
    let y = graph.add_node("the_node", op, &operands);
    graph.outputs.push(y);
    graph
}

#[test]
fn a_step_without_a_kernel_is_named() {
    on(Persona::Spark, |_, device| {
        let axis = Tensor::from_i64([], vec![0]).expect("one");
        let sum = Op::CumSum(CumSum {
            exclusive: false,
            reverse: false,
        });
        let graph = one_node(vec![Dim::Known(4)], sum, &[axis]);
        let error = CudaSession::from_graph(graph, device, &options(Precision::Fp32)).unwrap_err();
        let ModelError::StepUnsupported {
            node, step, device, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (&node[..], &step[..], *device),
            ("the_node", "cumsum", "cuda")
        );
    });
}

/// 300 times 255 is beyond what 16 bits hold, and wraps in 8.
#[test]
fn sums_of_bytes_are_refused() {
    on(Persona::Spark, |_, device| {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::U8, vec![Dim::Known(300)]);
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            keep_dims: true,
            noop_with_empty_axes: false,
        });
        let y = graph.add_node("the_sum", sum, &[Some(x)]);
        graph.outputs.push(y);
        for precision in [Precision::Fp32, Precision::Fp16] {
            let error = CudaSession::from_graph(graph.clone(), device, &options(precision));
            let error = error.unwrap_err();
            assert!(
                matches!(&error, ModelError::StepUnsupported { node, .. } if node.starts_with("the_sum")),
                "{error}"
            );
        }
    });
}

#[test]
fn open_shapes_are_refused() {
    on(Persona::Spark, |_, device| {
        let shape = vec![Dim::Symbol("n".to_owned())];
        let graph = one_node(shape, Op::Binary(Binary::Add), &[tensor(&[1], 1)]);
        let error = CudaSession::from_graph(graph, device, &options(Precision::Fp32)).unwrap_err();
        assert!(matches!(error, ModelError::InputOpen { .. }), "{error}");
    });
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    on(Persona::Card, |_, device| {
        let mut session =
            CudaSession::from_graph(tiny(), device, &options(Precision::Fp32)).expect("loads");
        let (x, other) = (tensor(&[3, 5], 1), tensor(&[5, 3], 1));
        let missing = session.run(&[]).unwrap_err();
        assert!(
            matches!(missing, ModelError::InputMissing { .. }),
            "{missing}"
        );
        let twice = session.run(&[("x", &x), ("x", &x)]).unwrap_err();
        assert!(matches!(twice, ModelError::InputTwice { .. }), "{twice}");
        let unknown = session.run(&[("x", &x), ("z", &x)]).unwrap_err();
        assert!(
            matches!(unknown, ModelError::InputUnknown { .. }),
            "{unknown}"
        );
        let shape = session.run(&[("x", &other)]).unwrap_err();
        assert!(matches!(shape, ModelError::InputShape { .. }), "{shape}");
        session.run(&[("x", &x)]).expect("goes on");
    });
}

#[test]
fn an_index_outside_of_its_axis_is_an_error_of_its_node() {
    on(Persona::Card, |_, device| {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
        let index = graph.add_input("index", DType::I64, vec![Dim::Known(2)]);
        let gather = Op::Gather(Gather { axis: 0 });
        let y = graph.add_node("the_node", gather, &[Some(x), Some(index)]);
        graph.outputs.push(y);
        let mut session =
            CudaSession::from_graph(graph, device, &options(Precision::Fp32)).expect("loads");
        let x = tensor(&[4], 1);
        for (at, is_inside) in [
            (3, true),
            (4, false),
            (-4, true),
            (-5, false),
            (i64::MIN, false),
        ] {
            let index = Tensor::from_i64([2], vec![0, at]).expect("two");
            match session.run(&[("x", &x), ("index", &index)]) {
                Ok(_) => assert!(is_inside, "{at}"),
                Err(ModelError::IndexOutside {
                    node,
                    index,
                    extent,
                }) => {
                    assert_eq!(
                        (&node[..], index, extent, is_inside),
                        ("the_node", at, 4, false)
                    );
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn an_integer_divided_by_zero_is_an_error_of_its_node() {
    on(Persona::Card, |_, device| {
        let mut graph = Graph::default();
        let [a, b] = ["a", "b"].map(|name| graph.add_input(name, DType::I64, vec![Dim::Known(2)]));
        let y = graph.add_node("the_node", Op::Binary(Binary::Div), &[Some(a), Some(b)]);
        graph.outputs.push(y);
        let mut session =
            CudaSession::from_graph(graph, device, &options(Precision::Fp32)).expect("loads");
        let of = |values: [i64; 2]| Tensor::from_i64([2], values.to_vec()).expect("two");
        let (a, zero, three) = (of([7, -7]), of([3, 0]), of([3, 2]));
        let error = session.run(&[("a", &a), ("b", &zero)]).unwrap_err();
        let ModelError::Operator { node, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(node, "the_node");
        let outputs = session.run(&[("a", &a), ("b", &three)]).expect("goes on");
        assert_eq!(outputs[0].1.as_i64(), Some(&[2, -3][..]));
    });
}
