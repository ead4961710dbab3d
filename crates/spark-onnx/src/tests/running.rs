//! What a run may not do: take memory, or depend on the number of threads.

use std::sync::Arc;

use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{
    Conv, Dim, Flatten, Gemm, GlobalPool, Graph, Op, Padding, PoolKind, Unary, bind,
};
use spark_onnx::plan::lower;
use spark_onnx::precision::{Arithmetic, Wanted};
use spark_onnx::zoo::Stream;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor, zoo};

use spark_testing::Watch;

/// The networks of the zoo, each with every kind of step it has.
fn networks() -> [(&'static str, Graph); 3] {
    [
        ("driving_vision", zoo::driving_vision(1)),
        ("driving_policy", zoo::driving_policy(1)),
        ("dmonitoring", zoo::dmonitoring(1)),
    ]
}

fn executor(graph: &Graph, isa: Isa, threads: usize, precision: Precision) -> Executor {
    let bound = bind(graph, &[]).expect("the zoo's shapes are fixed");
    let plan = lower(&bound).expect("lowers");
    let pool = Arc::new(Pool::new(threads));
    let formats = Wanted::from(precision).assign(&plan);
    let arithmetic = Arithmetic::default();
    let mut executor =
        Executor::with_precisions(plan, isa, pool, &formats, arithmetic).expect("fits");
    for i in 0..executor.plan().inputs.len() {
        let port = &executor.plan().inputs[i];
        let (dtype, shape) = (port.dtype, port.shape.clone());
        let n: usize = shape.iter().product();
        let scale = if dtype == DType::U8 { 1.0 } else { 251.0 };
        let values: Vec<f64> = (0..n).map(|i| (i * 37 % 251) as f64 / scale).collect();
        let tensor = Tensor::from_f64(dtype, shape, values).expect("fits");
        executor.set_input(i, &tensor).expect("fits");
    }
    executor
}

#[test]
fn a_run_takes_no_memory() {
    for (name, graph) in networks() {
        for isa in Isa::available() {
            for precision in Precision::ALL {
                let mut executor = executor(&graph, isa, 1, precision);
                let watch = Watch::start();
                executor.run().expect("runs");
                assert_eq!(watch.requests(), 0, "{name} in {precision} on {isa:?}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for (name, graph) in networks() {
        let outputs = |threads| -> Vec<Vec<u32>> {
            let mut executor = executor(&graph, Isa::detect(), threads, Precision::Fp32);
            executor.run().expect("runs");
            let ports = 0..executor.plan().outputs.len();
            let bits = |i| {
                let tensor = executor.output(i).expect("fits");
                tensor.to_f32().iter().map(|v| v.to_bits()).collect()
            };
            ports.map(bits).collect()
        };
        let want = outputs(1);
        assert!(want.iter().flatten().any(|&bits| bits != 0));
        for threads in [2, 3, 7] {
            assert!(outputs(threads) == want, "{name} on {threads} threads");
        }
    }
}

fn drawn(name: &str, shape: &[usize]) -> Tensor {
    let stream = Stream::new(0, name);
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n as u64).map(|i| stream.signed_unit(i)).collect();
    Tensor::from_f32(shape, values).expect("fits")
}

/// Convolutions of three kinds, a pool and a product, for any number of pictures.
fn open_batch() -> Graph {
    let mut graph = Graph::default();
    let dims = [
        Dim::Symbol("N".to_owned()),
        Dim::Known(3),
        Dim::Known(20),
        Dim::Known(24),
    ];
    let mut x = graph.add_input("x", DType::F32, dims.to_vec());
    for (name, shape, groups, stride) in [
        ("dense", [16, 3, 3, 3], 1, 2),
        ("depthwise", [16, 1, 3, 3], 16, 1),
        ("pointwise", [40, 16, 1, 1], 1, 1),
    ] {
        let weights = graph.add_constant(format!("{name}.w"), drawn(name, &shape));
        let conv = Conv {
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            padding: Padding::Explicit(vec![shape[2] / 2; 4]),
            groups,
        };
        x = graph.add_node(name, Op::Conv(conv), &[Some(x), Some(weights)]);
        let relu = format!("{name}.relu");
        x = graph.add_node(relu, Op::Unary(Unary::Relu), &[Some(x)]);
    }
    x = graph.add_node(
        "pool",
        Op::GlobalPool(GlobalPool {
            kind: PoolKind::Average,
        }),
        &[Some(x)],
    );
    x = graph.add_node("flat", Op::Flatten(Flatten { axis: 1 }), &[Some(x)]);
    let weights = graph.add_constant("head.w", drawn("head", &[40, 10]));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    x = graph.add_node("head", Op::Gemm(gemm), &[Some(x), Some(weights)]);
    graph.outputs.push(x);
    graph
}

#[test]
fn a_batch_gives_the_bits_of_its_pictures_one_by_one() {
    let pictures = drawn("pictures", &[64, 3, 20, 24]).to_f32();
    let part = |first: usize, n: usize| {
        let size = 3 * 20 * 24;
        let values = pictures[first * size..(first + n) * size].to_vec();
        Tensor::from_f32([n, 3, 20, 24], values).expect("fits")
    };
    for threads in [1, 2] {
        let options = RunOptions::new()
            .precision(spark_onnx::Precision::Fp32)
            .threads(threads);
        let mut runner = ModelRunner::from_graph(open_batch(), &options).expect("fp32");
        let mut run = |x: Tensor| -> Vec<u32> {
            let outputs = runner.run(&[("x", &x)]).expect("any batch");
            assert_eq!(outputs[0].1.shape(), [x.shape()[0], 10]);
            outputs[0].1.to_f32().iter().map(|v| v.to_bits()).collect()
        };
        let one_by_one: Vec<u32> = (0..64).flat_map(|i| run(part(i, 1))).collect();
        assert!(one_by_one.iter().any(|&bits| bits != 0));
        for n in [1, 2, 3, 5, 8, 16, 31, 64] {
            assert!(
                run(part(0, n)) == one_by_one[..n * 10],
                "a batch of {n}, {threads} threads"
            );
        }
    }
}
