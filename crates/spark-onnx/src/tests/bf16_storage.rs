//! Buffers held as bf16 in 16 bits: the bits of plans that hold them in f32 words, on every operator, on networks, and on
//! the driving models.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use spark_onnx::cpu::{Executor, Isa, Pool, in_words};
use spark_onnx::graph::{
    Binary, Concat, Conv, Dim, Gemm, Graph, Op, Padding, Pool as PoolOp, PoolKind, StaticGraph,
    Unary, ValueId, bind,
};
use spark_onnx::plan::{Plan, Storage, lower};
use spark_onnx::precision::{Arithmetic, Bf16Products, Wanted};
use spark_onnx::{DType, ModelError, Precision, Tensor, file};
use spark_onnx_graph::samples::every_operator;
use spark_testing::{numbers, test_data};

use super::networks::{attentive, convolutional};
use super::operators::cases;

/// Whether this processor has products of pairs; what is tested here is nowhere else.
fn has_pairs() -> bool {
    let layout = spark_gemm::PackedLayout::bf16_dot(Isa::detect());
    let has = layout == Some(spark_gemm::PackedLayout::Bf16Dot);
    if !has {
        eprintln!("skipped: this processor has no dot products of pairs");
    }
    has
}

/// `bound` in bf16 on both sides, on the first set of the processor.
fn executor(bound: &StaticGraph, threads: usize) -> Result<Executor, ModelError> {
    let plan = lower(bound)?;
    let formats = Wanted::from(Precision::Bf16).assign(&plan);
    let arithmetic = Arithmetic {
        bf16_products: Bf16Products::DotProduct,
        ..Arithmetic::default()
    };
    let pool = Arc::new(Pool::new(threads));
    Executor::with_precisions(plan, Isa::detect(), pool, &formats, arithmetic)
}

/// Buffers of `plan` that have 16 bits.
fn narrow(plan: &Plan) -> usize {
    let buffers = plan.buffers.iter();
    buffers.filter(|b| b.storage == Storage::Bf16).count()
}

/// The outputs of `executor`, or why it stopped; twice, as a plan that spoils its operands shows the second time.
fn outputs(executor: &mut Executor, inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>, String> {
    for _ in 0..2 {
        for (i, port) in executor.plan().inputs.clone().iter().enumerate() {
            let found = inputs.iter().find(|(name, _)| *name == port.name);
            let (_, tensor) = found.ok_or("input not given")?;
            executor.set_input(i, tensor).map_err(|e| e.to_string())?;
        }
        executor.run().map_err(|e| e.to_string())?;
    }
    let n_outputs = executor.plan().outputs.len();
    let all = (0..n_outputs).map(|i| executor.output(i).map_err(|e| e.to_string()));
    all.collect()
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    let bits = |tensor: &Tensor| tensor.to_f64().into_iter().map(f64::to_bits).collect();
    tensors.iter().map(bits).collect()
}

/// Compares both ways of holding, on one thread and on three; gives the number of buffers with 16 bits.
fn compare(graph: &Graph, inputs: &[(String, Tensor)]) -> Result<usize, String> {
    let shapes: Vec<(&str, Vec<usize>)> = inputs
        .iter()
        .map(|(name, t)| (name.as_str(), t.shape().to_vec()))
        .collect();
    let bound = bind(graph, &shapes).map_err(|e| e.to_string())?;
    let mut n_narrow = 0;
    for threads in [1, 3] {
        let mut wide = match in_words(|| executor(&bound, threads)) {
            Ok(wide) => wide,
            Err(_) if executor(&bound, threads).is_err() => return Ok(0),
            Err(error) => return Err(format!("in words alone: {error}")),
        };
        assert_eq!(narrow(wide.plan()), 0);
        let mut other = executor(&bound, threads).map_err(|e| e.to_string())?;
        n_narrow = narrow(other.plan());
        match (outputs(&mut wide, inputs), outputs(&mut other, inputs)) {
            (Ok(want), Ok(got)) if bits(&got) == bits(&want) => {}
            (Ok(_), Ok(_)) => return Err(format!("other bits on {threads} threads")),
            (want, got) if want.as_ref().err() == got.as_ref().err() => {}
            (want, got) => return Err(format!("{:?} for {:?}", got.err(), want.err())),
        }
    }
    Ok(n_narrow)
}

fn given(name: &str, shape: &[usize], seed: u64) -> (String, Tensor) {
    let values = numbers(shape.iter().product(), seed);
    let tensor = Tensor::from_f32(shape, values).expect("fits");
    (name.to_owned(), tensor)
}

#[test]
fn every_operator_gives_the_bits_of_words() {
    if !has_pairs() {
        return;
    }
    for sample in every_operator() {
        if let Err(e) = compare(&sample.graph, &sample.inputs) {
            panic!("{}: {e}", sample.name);
        }
    }
}

#[test]
fn networks_give_the_bits_of_words() {
    if !has_pairs() {
        return;
    }
    let img: Vec<f64> = (0..12 * 96 * 96).map(|i| f64::from(i * 37 % 251)).collect();
    let img = Tensor::from_f64(DType::U8, [1, 12, 96, 96], img).expect("fits");
    let convolutional = compare(&convolutional(), &[("img".to_owned(), img)]);
    assert!(convolutional.expect("the same bits") >= 4);
    let inputs = [given("tokens", &[1, 150, 64], 3), given("side", &[1, 2], 4)];
    assert!(compare(&attentive(), &inputs).expect("the same bits") >= 2);
}

/// A graph of convolutions that are all read by others.
struct Net {
    graph: Graph,
    seed: u64,
}

impl Net {
    fn constant(&mut self, shape: &[usize]) -> Option<ValueId> {
        self.seed += 1;
        let (name, tensor) = given(&format!("c{}", self.seed), shape, self.seed);
        Some(self.graph.add_constant(name, tensor))
    }

    fn node(&mut self, op: Op, inputs: &[Option<ValueId>]) -> ValueId {
        let name = format!("n{}", self.graph.nodes.len());
        self.graph.add_node(name, op, inputs)
    }

    fn conv(&mut self, x: ValueId, [from, to, kernel, stride, groups]: [usize; 5]) -> ValueId {
        let w = self.constant(&[to, from / groups, kernel, kernel]);
        let b = self.constant(&[to]);
        let conv = Conv {
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            padding: Padding::Explicit(vec![kernel / 2; 4]),
            groups,
        };
        self.node(Op::Conv(conv), &[Some(x), w, b])
    }
}

proptest! {
    #![proptest_config(cases(24))]

    /// Odd depths, borders, groups, late residuals, functions, joined and pooled channels, operands that repeat.
    #[test]
    fn convolutions_give_the_bits_of_words(
        n in 1usize..3, c in 1usize..20, mid in 1usize..40, h in 3usize..12, w in 3usize..12,
        kernel in prop_oneof![Just(1usize), Just(3), Just(5)], stride in 1usize..3,
        late in any::<bool>(), pool in prop_oneof![Just(PoolKind::Max), Just(PoolKind::Average)], seed in any::<u32>(),
    ) {
        if has_pairs() {
            let mut net = Net { graph: Graph::default(), seed: u64::from(seed) };
            let dims = [n, c, h, w].map(Dim::Known).to_vec();
            let x = net.graph.add_input("x", DType::F32, dims);
            let stem = net.conv(x, [c, mid, kernel, 1, 1]);
            let stem = net.node(Op::Unary(Unary::Elu { alpha: 1.0 }), &[Some(stem)]);
            let deep = net.conv(stem, [mid, mid, kernel, 1, 1]);
            let deep = match late {
                true => net.node(Op::Unary(Unary::Sigmoid), &[Some(deep)]),
                false => deep,
            };
            let sum = net.node(Op::Binary(Binary::Add), &[Some(deep), Some(stem)]);
            let sum = net.node(Op::Unary(Unary::Relu), &[Some(sum)]);
            let each = net.conv(sum, [mid, mid, 3, stride, mid]);
            let gate = net.conv(each, [mid, mid, 1, 1, 1]);
            let gated = net.node(Op::Binary(Binary::Mul), &[Some(gate), Some(each)]);
            let halves = net.conv(gated, [mid, 2 * mid, 1, 1, 1]);
            let parts = net.conv(halves, [2 * mid, 2 * mid, 3, 1, 2]);
            let joined = net.node(Op::Concat(Concat { axis: 1 }), &[Some(parts), Some(gated)]);
            let pooled = net.node(Op::Pool(PoolOp {
                kind: pool,
                kernel: vec![3; 2],
                strides: vec![1; 2],
                dilations: vec![1; 2],
                padding: Padding::Explicit(vec![1; 4]),
                ceil_mode: false,
                count_include_pad: false,
            }), &[Some(joined)]);
            let last = net.conv(pooled, [3 * mid, 7, 1, 1, 1]);
            let wide = net.conv(last, [7, 5, kernel, 1, 1]);
            net.graph.outputs.push(wide);
            let narrow = compare(&net.graph, &[given("x", &[n, c, h, w], 9)]);
            prop_assert!(matches!(narrow, Ok(4..)), "{narrow:?}");
        }
    }

    #[test]
    fn linear_layers_give_the_bits_of_words(
        m in 1usize..70, k in 1usize..40, mid in 1usize..70, n in 1usize..40, seed in any::<u32>(),
    ) {
        if has_pairs() {
            let mut net = Net { graph: Graph::default(), seed: u64::from(seed) };
            let mut x = net.graph.add_input("x", DType::F32, [m, k].map(Dim::Known).to_vec());
            for [from, to] in [[k, mid], [mid, mid], [mid, n]] {
                let gemm = Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true };
                let (w, b) = (net.constant(&[to, from]), net.constant(&[to]));
                x = net.node(Op::Gemm(gemm), &[Some(x), w, b]);
                x = net.node(Op::Unary(Unary::Tanh), &[Some(x)]);
            }
            net.graph.outputs.push(x);
            let narrow = compare(&net.graph, &[given("x", &[m, k], 9)]);
            prop_assert!(matches!(narrow, Ok(3)), "{narrow:?}");
        }
    }
}

/// The recorded models, as users run them.
#[test]
fn driving_models_give_the_bits_of_words() {
    if !has_pairs() {
        return;
    }
    for model in [
        "dmonitoring_0_8_5",
        "dmonitoring_0_8_9",
        "supercombo_0_7_4_random_fp16",
    ] {
        let Some(path) = test_data(&format!("data/models/{model}.onnx")) else {
            return;
        };
        let graph = file::load(Path::new(&path)).expect("reads");
        let bound = bind(&graph, &[]).expect("fixed shapes");
        let plan = lower(&bound).expect("lowers");
        let inputs: Vec<(String, Tensor)> = plan
            .inputs
            .iter()
            .map(|port| {
                let values = numbers(port.shape.iter().product(), 5).into_iter();
                let values = values.map(f64::from).collect();
                let tensor = Tensor::from_f64(port.dtype, port.shape.clone(), values);
                (port.name.clone(), tensor.expect("fits"))
            })
            .collect();
        let narrow = compare(&graph, &inputs).expect("the same bits");
        assert!(narrow > 20, "{model}: {narrow} buffers");
    }
}
