//! Products whose both sides have 16 bits, by the processor's own instructions: against the f64
//! reference on operands that the format holds exactly, and refused where there are none. Products
//! of f32 arithmetic on fp16 weights: the bits of f32, for every number of rows.

use half::{bf16, f16};
use spark_onnx::cpu::Isa;
use spark_onnx::graph::{Conv, Dim, Graph, MatMul, Op, Padding, bind};
use spark_onnx::precision::{Bf16Products, Fp16Products};
use spark_onnx::{DType, ModelError, ModelRunner, Precision, RunOptions, Tensor, reference};
use spark_testing::numbers;

/// Both sides of every product in `precision`, on the first set of the processor.
fn both_sides(precision: Precision) -> RunOptions {
    RunOptions::new()
        .with_precision(precision)
        .with_isa(Isa::detect())
        .with_bf16_products(Bf16Products::DotProduct)
        .with_fp16_products(Fp16Products::BothSides)
}

/// Values below 1 that `precision` holds.
fn values(seed: u64, shape: &[usize], precision: Precision) -> Tensor {
    let round = |v: f32| match precision {
        Precision::Bf16 => bf16::from_f32(v).to_f32(),
        _ => f16::from_f32(v).to_f32(),
    };
    let values = numbers(shape.iter().product(), seed).into_iter().map(round);
    Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
}

/// One operator on `x` and constant weights of these shapes.
fn network(op: Op, x: &[usize], w: &[usize], precision: Precision) -> (Graph, Tensor) {
    let mut graph = Graph::default();
    let dims = x.iter().map(|&extent| Dim::Known(extent)).collect();
    let input = graph.add_input("x", DType::F32, dims);
    let weights = graph.add_constant("w", values(1, w, precision));
    let y = graph.add_node("product", op, &[Some(input), Some(weights)]);
    graph.outputs.push(y);
    (graph, values(2, x, precision))
}

fn convolution(kernel: usize, stride: usize) -> Op {
    Op::Conv(Conv {
        strides: vec![stride; 2],
        dilations: vec![1; 2],
        padding: Padding::Explicit(vec![kernel / 2; 4]),
        groups: 1,
    })
}

/// The operator in `precision` against the reference, if the processor has the instruction; else
/// it must be refused, and what is fastest be something else.
#[track_caller]
fn check(op: Op, x: &[usize], w: &[usize], depth: usize, precision: Precision) {
    let (graph, input) = network(op, x, w, precision);
    let options = both_sides(precision);
    let mut runner = match ModelRunner::from_graph(graph.clone(), &options) {
        Ok(runner) => runner,
        Err(ModelError::PrecisionUnavailable { .. }) => {
            let fastest = RunOptions::new().with_precision(precision);
            let runner = ModelRunner::from_graph(graph, &fastest).expect("another way");
            let kernel = &runner.steps()[0].kernel;
            assert!(kernel.contains("-f32"), "{kernel}");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let kernel = &runner.steps()[0].kernel;
    let (operands, instructions): (_, &[_]) = match precision {
        Precision::Bf16 => ("-bf16-", &["-dot", "-mmla"]),
        _ => ("-f16-", &["-fmlal"]),
    };
    assert!(kernel.contains(operands), "{kernel}");
    assert!(instructions.iter().any(|i| kernel.ends_with(i)), "{kernel}");
    let got = runner.run(&[("x", &input)]).expect("runs");
    let bound = bind(&graph, &[]).expect("fixed shapes");
    let want = reference::run(&bound, &[("x", &input)]).expect("runs");
    // Products of values below 1; each of `depth` additions is off by at most a unit in the last
    // place of a sum of at most `depth`.
    let bound = (depth * depth) as f64 * f64::from(f32::EPSILON);
    let pairs = got[0].1.to_f64().into_iter().zip(want[0].1.to_f64());
    for (index, (got, want)) in pairs.enumerate() {
        let off = (got - want).abs();
        assert!(
            off <= bound,
            "{precision}, {x:?} by {w:?}, {index}: {off:e} of {bound:e}"
        );
    }
}

#[test]
fn sixteen_bit_products_of_matrices_match_the_reference() {
    for precision in [Precision::Bf16, Precision::Fp16] {
        for (m, k, n) in [
            (1, 64, 33),
            (3, 1, 5),
            (8, 7, 12),
            (25, 50, 100),
            (200, 18, 4),
        ] {
            check(Op::MatMul(MatMul), &[m, k], &[k, n], k, precision);
        }
    }
}

#[test]
fn sixteen_bit_products_of_convolutions_match_the_reference() {
    for precision in [Precision::Bf16, Precision::Fp16] {
        for (channels, out) in [(1, 1), (3, 20), (6, 13), (16, 40)] {
            for (kernel, stride) in [(1, 1), (3, 1), (3, 2), (5, 2)] {
                let (x, w) = ([1, channels, 7, 9], [out, channels, kernel, kernel]);
                let depth = channels * kernel * kernel;
                check(convolution(kernel, stride), &x, &w, depth, precision);
            }
        }
    }
}

#[test]
fn fp16_weights_give_the_bits_of_f32_for_every_number_of_rows() {
    for isa in Isa::available() {
        for m in [1, 5, 16, 17, 70, 128, 129] {
            for (k, n) in [(7, 12), (64, 33), (37, 130)] {
                let (graph, input) = network(Op::MatMul(MatMul), &[m, k], &[k, n], Precision::Fp16);
                let run = |precision| {
                    let options = RunOptions::new()
                        .with_precision(precision)
                        .with_isa(isa)
                        .with_threads(2);
                    let options = options.with_fp16_products(Fp16Products::WeightsOnly);
                    let runner = ModelRunner::from_graph(graph.clone(), &options);
                    let mut runner = runner.expect("f32 arithmetic is everywhere");
                    let outputs = runner.run(&[("x", &input)]).expect("runs");
                    (outputs, runner.steps()[0].kernel.clone())
                };
                let (want, _) = run(Precision::Fp32);
                let (got, kernel) = run(Precision::Fp16);
                assert!(got == want, "{m} rows of {k} by {n} on {isa:?}");
                let algorithm = if m > 128 { "gemm-wide" } else { "gemm" };
                assert_eq!(kernel, format!("{isa}-f32xf16-{algorithm}"), "{m} rows");
            }
        }
    }
}

#[test]
fn sixteen_bit_products_do_not_depend_on_the_number_of_threads() {
    for precision in [Precision::Bf16, Precision::Fp16] {
        for (op, x, w) in [
            (Op::MatMul(MatMul), vec![50, 37], vec![37, 60]),
            (convolution(3, 1), vec![1, 6, 24, 20], vec![40, 6, 3, 3]),
        ] {
            let (graph, input) = network(op, &x, &w, precision);
            let run = |threads| {
                let options = both_sides(precision).with_threads(threads);
                let runner = ModelRunner::from_graph(graph.clone(), &options);
                let outputs = runner.map(|mut runner| runner.run(&[("x", &input)]));
                outputs.map(|outputs| outputs.expect("runs"))
            };
            let Ok(want) = run(1) else {
                eprintln!("skipped: this processor has no products of {precision}");
                continue;
            };
            for threads in [2, 3, 7] {
                let got = run(threads).expect("as on one");
                assert!(got == want, "{precision} on {threads} threads");
            }
        }
    }
}

#[test]
fn sixteen_bit_products_round_activations_to_nearest_even() {
    // Halfway between two values of each format, and just above.
    let ties = [
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        1.0 + 1.0 / 2048.0,
        1.0 + 1.0 / 2047.0,
    ];
    for precision in [Precision::Bf16, Precision::Fp16] {
        let (graph, _) = network(Op::MatMul(MatMul), &[4, 1], &[1, 1], precision);
        let mut graph = graph;
        let one = Tensor::from_f32([1, 1], vec![1.0]).expect("fits");
        for value in &mut graph.values {
            if value.constant.is_some() {
                value.constant = Some(std::sync::Arc::new(one.clone()));
            }
        }
        let Ok(mut runner) = ModelRunner::from_graph(graph, &both_sides(precision)) else {
            eprintln!("skipped: this processor has no products of {precision}");
            continue;
        };
        let x = Tensor::from_f32([4, 1], ties.to_vec()).expect("fits");
        let got = runner.run(&[("x", &x)]).expect("runs")[0].1.to_f32();
        let want = ties.map(|v| match precision {
            Precision::Bf16 => bf16::from_f32(v).to_f32(),
            _ => f16::from_f32(v).to_f32(),
        });
        assert_eq!(got, want, "{precision}");
    }
}
