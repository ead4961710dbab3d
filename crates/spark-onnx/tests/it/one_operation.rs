//! Element-wise networks of one operation, around the lengths of their blocks.

use spark_onnx::cpu::Isa;
use spark_onnx::graph::{Binary, Dim, Graph, Op, Unary};
use spark_onnx::{DType, Model, RunOptions, Tensor};
use spark_testing::numbers;

fn run(op: Op, operands: &[Vec<f32>], isa: Isa, threads: usize) -> Vec<f32> {
    let mut graph = Graph::default();
    let n = operands[0].len();
    let ids: Vec<_> = (0..operands.len())
        .map(|i| Some(graph.add_input(format!("x{i}"), DType::F32, vec![Dim::Known(n)])))
        .collect();
    let y = graph.add_node("y", op, &ids);
    graph.outputs.push(y);
    let options = RunOptions::new().with_isa(isa).with_threads(threads);
    let model = Model::from_graph(graph, &options).expect("plans");
    let tensors: Vec<Tensor> = operands
        .iter()
        .map(|values| Tensor::from_f32([n], values.clone()).expect("fits"))
        .collect();
    let names: Vec<String> = (0..tensors.len()).map(|i| format!("x{i}")).collect();
    let given: Vec<_> = names.iter().map(String::as_str).zip(&tensors).collect();
    model
        .session()
        .run(&given)
        .expect("runs")
        .swap_remove(0)
        .1
        .to_f32()
}

#[test]
fn every_element_is_computed_once_whatever_the_length() {
    for n in [1, 15, 255, 256, 257, 4095, 4096, 4097, 40_000] {
        let mut x = numbers(n, 1);
        // What is no number stays one.
        x[n / 2] = f32::NAN;
        let other = numbers(n, 2);
        for isa in Isa::available() {
            for threads in [1, 3] {
                let bits = |values: Vec<f32>| -> Vec<u32> {
                    values.into_iter().map(f32::to_bits).collect()
                };
                let of = |op: Op| bits(run(op, std::slice::from_ref(&x), isa, threads));
                let each = |f: fn(f32) -> f32| bits(x.iter().map(|&v| f(v)).collect());
                let relu = each(|v| if 0.0 > v { 0.0 } else { v });
                assert!(of(Op::Unary(Unary::Relu)) == relu, "{isa:?} {n}");
                assert!(of(Op::Unary(Unary::Neg)) == each(|v| -v), "{isa:?} {n}");
                assert!(of(Op::Unary(Unary::Abs)) == each(f32::abs), "{isa:?} {n}");
                let sum = run(
                    Op::Binary(Binary::Add),
                    &[x.clone(), other.clone()],
                    isa,
                    threads,
                );
                let want = x.iter().zip(&other).map(|(a, b)| a + b).collect();
                assert!(bits(sum) == bits(want), "{isa:?} {n}");
            }
        }
    }
}
