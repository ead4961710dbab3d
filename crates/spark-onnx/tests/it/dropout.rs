//! Dropout by counting, in every layout and on every instruction set: the reference's bits.

use spark_onnx::graph::{CountedDropout, Dim, Graph, Op, Slice, Transpose, bind};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, reference};
use spark_simd::Isa;

/// `x`, moved so that it lies in another order or with gaps, dropped.
fn network(shape: &[usize], moved: Option<Op>, probability: f64) -> Graph {
    let mut graph = Graph::default();
    let known = shape.iter().map(|&extent| Dim::Known(extent));
    let mut x = graph.add_input("x", DType::F32, known.collect());
    let pass = graph.add_input("pass", DType::I64, Vec::new());
    if let Some(op) = moved {
        let mut operands = vec![Some(x)];
        if matches!(op, Op::Slice(_)) {
            for (name, value) in [
                ("starts", 1),
                ("ends", i64::MAX),
                ("axes", -1),
                ("steps", 2),
            ] {
                let list = Tensor::from_i64([1], vec![value]).unwrap();
                operands.push(Some(graph.add_constant(name, list)));
            }
        }
        x = graph.add_node("moved", op, &operands);
    }
    let op = CountedDropout {
        probability,
        key: 0x0123_4567_89ab_cdef,
    };
    let y = graph.add_node("y", op.into(), &[Some(x), Some(pass)]);
    graph.outputs.push(y);
    graph
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_f32().iter().map(|v| v.to_bits()).collect()
}

#[track_caller]
fn check(shape: &[usize], moved: Option<Op>, probability: f64, pass: i64) -> Tensor {
    let graph = network(shape, moved, probability);
    let len: usize = shape.iter().product();
    let values = (0..len).map(|i| (i % 97) as f32 * 0.37 - 13.0);
    let x = Tensor::from_f32(shape.to_vec(), values.collect()).unwrap();
    let pass = Tensor::from_i64([], vec![pass]).unwrap();
    let inputs = [("x", &x), ("pass", &pass)];
    let bound = bind(&graph, &[]).expect("binds");
    let want = reference::run(&bound, &inputs).expect("runs").remove(0).1;
    for isa in Isa::available() {
        for threads in [1, 2, 3] {
            let options = RunOptions::new().with_threads(threads).with_isa(isa);
            let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("plans");
            let got = runner.run(&inputs).expect("runs").remove(0).1;
            assert_eq!(got.shape(), want.shape());
            assert!(
                bits(&got) == bits(&want),
                "{shape:?}, {isa}, {threads} threads"
            );
        }
    }
    want
}

#[test]
fn every_layout_has_the_masks_of_the_models_order() {
    let transpose = |perm: &[usize]| {
        Some(Op::Transpose(Transpose {
            perm: Some(perm.to_vec()),
        }))
    };
    for (shape, moved) in [
        (vec![3, 70_001], None),
        (vec![257], None),
        (vec![], None),
        // Channels last: pixels in fours, a rest of them, and pixels that are no multiple of four.
        (vec![2, 6, 10, 37], transpose(&[0, 3, 1, 2])),
        (vec![2, 6, 6, 40], transpose(&[0, 3, 1, 2])),
        (vec![1, 64, 65, 24], transpose(&[0, 3, 1, 2])),
        (vec![2, 5, 5, 33], transpose(&[0, 3, 1, 2])),
        (vec![300, 170], transpose(&[1, 0])),
        (vec![5, 6, 7, 8], transpose(&[2, 0, 3, 1])),
        (vec![4, 9, 11], Some(Op::Slice(Slice))),
    ] {
        check(&shape, moved, 0.3, 9);
    }
}

#[test]
fn passes_and_probabilities_that_are_large_or_small() {
    let none = check(&[40, 50], None, 0.0, 4).to_f32();
    assert!(none.iter().all(|v| *v != 0.0));
    let some = check(&[40, 50], None, 1e-3, -1).to_f32();
    let n_dropped = some.iter().filter(|v| **v == 0.0).count();
    assert!((1..=9).contains(&n_dropped), "{n_dropped} of 2000");
    let all = check(&[40, 50], None, 1.0 - 1e-12, i64::MIN).to_f32();
    assert!(all.iter().all(|v| *v == 0.0));
}

#[test]
fn what_is_no_probability_or_pass_is_refused() {
    for probability in [1.0, -0.1, f64::NAN, f64::INFINITY] {
        let graph = network(&[2, 3], None, probability);
        let error = bind(&graph, &[]).unwrap_err().to_string();
        assert!(error.contains("wanted one in 0..1"), "{error}");
    }
    for (dtype, shape) in [(DType::F32, vec![]), (DType::I64, vec![2])] {
        let mut graph = network(&[2, 3], None, 0.5);
        let pass = graph.inputs[1];
        graph.values[pass.0].dtype = Some(dtype);
        graph.values[pass.0].shape = Some(shape.iter().map(|&n| Dim::Known(n)).collect());
        let error = bind(&graph, &[]).unwrap_err().to_string();
        assert!(error.contains("pass"), "{error}");
    }
    let error = spark_onnx::file::to_bytes(&network(&[2, 3], None, 0.5)).unwrap_err();
    assert!(error.to_string().contains("training"), "{error}");
}
