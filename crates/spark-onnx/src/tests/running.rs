//! What a run may not do: take memory, or depend on the pictures beside one. That whole networks do not
//! depend on the number of threads is tested in `spark-openpilot`.

use std::collections::BTreeSet;
use std::sync::Arc;

use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{
    Conv, Dim, Flatten, Gemm, GlobalPool, Graph, Op, Padding, PoolKind, Unary, bind,
};
use spark_onnx::plan::lower;
use spark_onnx::precision::{Arithmetic, Wanted};
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_testing::{Watch, numbers};

use super::networks::{attentive, convolutional};

fn networks() -> [(&'static str, Graph); 2] {
    [
        ("convolutional", convolutional()),
        ("attentive", attentive()),
    ]
}

fn executor(graph: &Graph, isa: Isa, threads: usize, precision: Precision) -> Executor {
    let bound = bind(graph, &[]).expect("shapes are fixed");
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

/// How the steps of whole driving networks are computed: in fp32 and in the formats whose kernels do not
/// depend on the processor.
#[test]
fn the_networks_have_the_steps_of_driving_models() {
    let always = [
        ("attention", "f32-tiled-attention"),
        ("conv", "f32-fused-depthwise"),
        ("copy", "f32-copy"),
        ("depthwise", "f32-depthwise"),
        ("depthwise", "f32-fused-depthwise"),
        ("linear", "f32-gemm"),
        ("norm", "f32-row-norm"),
        ("pointwise", "f32-fused-pointwise"),
        ("reduce", "f32-reduce"),
    ];
    let fused = "f32-fused-depthwise";
    let (fp8, fp4) = ("fp8-panels", "fp4-panels");
    for isa in Isa::available() {
        for (precision, more) in [
            (Precision::Fp32, vec![("linear", fused)]),
            (Precision::Fp8, vec![("conv", fp8), ("linear", fp8)]),
            (Precision::Fp4, vec![("conv", fp4), ("linear", fp4)]),
        ] {
            let options = RunOptions::new()
                .with_precision(precision)
                .with_isa(isa)
                .with_threads(1);
            let steps = networks().into_iter().flat_map(|(_, graph)| {
                let runner = ModelRunner::from_graph(graph, &options).expect("available");
                runner.steps()
            });
            let found: BTreeSet<_> = steps.map(|step| (step.kind, step.kernel)).collect();
            for &(kind, kernel) in always.iter().chain(&more) {
                assert!(
                    found.contains(&(kind, format!("{isa}-{kernel}"))),
                    "{kind}, {kernel} in {precision} on {isa}: {found:#?}"
                );
            }
        }
    }
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

fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// Convolutions of three kinds, a pool and a matmul, for any number of pictures.
fn open_batch() -> Graph {
    let mut graph = Graph::default();
    let dims = [
        Dim::Symbol("N".to_owned()),
        Dim::Known(3),
        Dim::Known(20),
        Dim::Known(24),
    ];
    let mut x = graph.add_input("x", DType::F32, dims.to_vec());
    for (seed, name, shape, groups, stride) in [
        (1, "dense", [16, 3, 3, 3], 1, 2),
        (2, "depthwise", [16, 1, 3, 3], 16, 1),
        (3, "pointwise", [40, 16, 1, 1], 1, 1),
    ] {
        let weights = graph.add_constant(format!("{name}.w"), drawn(seed, &shape));
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
    let weights = graph.add_constant("head.w", drawn(4, &[40, 10]));
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
    let pictures = drawn(5, &[64, 3, 20, 24]).to_f32();
    let part = |first: usize, n: usize| {
        let size = 3 * 20 * 24;
        let values = pictures[first * size..(first + n) * size].to_vec();
        Tensor::from_f32([n, 3, 20, 24], values).expect("fits")
    };
    for threads in [1, 2] {
        let options = RunOptions::new()
            .with_precision(spark_onnx::Precision::Fp32)
            .with_threads(threads);
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
