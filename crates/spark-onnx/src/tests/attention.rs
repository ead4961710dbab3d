//! Attention against the reference interpreter: shapes, masks and orders of axes drawn at random,
//! and scores that are no numbers.
//!
//! ```text
//! y = softmax(q k' / sqrt d  [+ mask])  v        heads side by side before and after
//! ```
//!
//! Every graph must become one step, or the test would show that of something else.

use proptest::prelude::*;
use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{
    Binary, Dim, Graph, MatMul, Op, Pad, PadMode, Reshape, Softmax, StaticGraph, Transpose,
    ValueId, Where, bind,
};
use spark_onnx::plan::{Plan, Step, lower};
use spark_onnx::precision::{Arithmetic, Bf16Products, Wanted};
use spark_onnx::{DType, Precision, Tensor, reference};
use std::sync::Arc;

use super::operators::{cases, compare};
use spark_testing::numbers;

/// What keeps queries from attending to keys.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hides {
    Nothing,
    /// `[queries, keys]`, added to the scores of every head.
    Added,
    /// `[keys]`, 0 where a key is hidden.
    Keys,
    /// `[queries, keys]`, 0 where a key is hidden.
    Pairs,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    /// Of queries and keys.
    depth: usize,
    /// Of values and results.
    width: usize,
    hides: Hides,
}

const USUAL: Case = Case {
    batch: 1,
    heads: 2,
    queries: 30,
    keys: 37,
    depth: 8,
    width: 12,
    hides: Hides::Nothing,
};

fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

fn transposed(graph: &mut Graph, name: &str, perm: [usize; 4], x: ValueId) -> ValueId {
    let perm = Some(perm.to_vec());
    graph.add_node(name, Op::Transpose(Transpose { perm }), &[Some(x)])
}

impl Case {
    /// Names, steps and widths of the operands, which have heads side by side.
    fn operands(&self) -> [(&'static str, usize, usize); 3] {
        [
            ("q", self.queries, self.depth),
            ("k", self.keys, self.depth),
            ("v", self.keys, self.width),
        ]
    }

    fn mask_shape(&self) -> Vec<usize> {
        match self.hides {
            Hides::Nothing => Vec::new(),
            Hides::Keys => vec![self.keys],
            Hides::Added | Hides::Pairs => vec![self.queries, self.keys],
        }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let [q, k, v] = self.operands().map(|(name, steps, width)| {
            let flat = [self.batch * steps, self.heads * width];
            let x = graph.add_input(name, DType::F32, known(&flat));
            let split = [self.batch, steps, self.heads, width].map(|n| n as i64);
            let split = Tensor::from_i64([4], split.to_vec()).expect("four values");
            let split = graph.add_constant(format!("{name}.shape"), split);
            let reshape = Op::Reshape(Reshape { allow_zero: false });
            let inputs = [Some(x), Some(split)];
            let x = graph.add_node(format!("{name}.split"), reshape, &inputs);
            transposed(&mut graph, &format!("{name}.heads"), [0, 2, 1, 3], x)
        });
        let k = transposed(&mut graph, "k.columns", [0, 1, 3, 2], k);
        let mut scores = graph.add_node("scores", Op::MatMul(MatMul), &[Some(q), Some(k)]);
        let scale = Tensor::from_f32([], vec![1.0 / (self.depth as f32).sqrt()]);
        let scale = graph.add_constant("scale", scale.expect("one value"));
        let inputs = [Some(scores), Some(scale)];
        scores = graph.add_node("scaled", Op::Binary(Binary::Mul), &inputs);
        scores = match self.hides {
            Hides::Nothing => scores,
            Hides::Added => {
                let mask = graph.add_input("mask", DType::F32, known(&self.mask_shape()));
                let inputs = [Some(scores), Some(mask)];
                graph.add_node("masked", Op::Binary(Binary::Add), &inputs)
            }
            Hides::Keys | Hides::Pairs => {
                let seen = graph.add_input("mask", DType::Bool, known(&self.mask_shape()));
                let hidden = Tensor::from_f32([], vec![f32::NEG_INFINITY]).expect("one value");
                let hidden = graph.add_constant("hidden", hidden);
                let inputs = [Some(seen), Some(scores), Some(hidden)];
                graph.add_node("masked", Op::Where(Where), &inputs)
            }
        };
        let softmax = Op::Softmax(Softmax {
            axis: -1,
            log: false,
            flatten: false,
        });
        let weights = graph.add_node("softmax", softmax, &[Some(scores)]);
        let mixed = graph.add_node("mixed", Op::MatMul(MatMul), &[Some(weights), Some(v)]);
        let joined = transposed(&mut graph, "joined", [0, 2, 1, 3], mixed);
        graph.outputs.push(joined);
        graph
    }

    fn inputs(&self, seed: u64) -> Vec<(String, Tensor)> {
        let mut inputs = Vec::new();
        for (i, (name, steps, width)) in self.operands().into_iter().enumerate() {
            let shape = [self.batch * steps, self.heads * width];
            let values = numbers(shape.iter().product(), seed ^ (i as u64 + 1));
            // Scores far enough apart for weights of many sizes.
            let values = values.into_iter().map(|v| 4.0 * v).collect();
            let tensor = Tensor::from_f32(shape, values).expect("fits");
            inputs.push((name.to_owned(), tensor));
        }
        let shape = self.mask_shape();
        let drawn = numbers(shape.iter().product(), seed ^ 9);
        let mask = match self.hides {
            Hides::Nothing => return inputs,
            Hides::Added => {
                let hidden = |v: f32| if v < -0.5 { -1e4 } else { v };
                Tensor::from_f32(shape, drawn.into_iter().map(hidden).collect())
            }
            Hides::Keys | Hides::Pairs => {
                let seen = drawn.into_iter().map(|v| f64::from(u8::from(v > -0.5)));
                Tensor::from_f64(DType::Bool, shape, seen.collect())
            }
        };
        inputs.push(("mask".to_owned(), mask.expect("fits")));
        inputs
    }
}

/// The plan, which must be one attention.
#[track_caller]
fn attention(bound: &StaticGraph) -> Plan {
    let plan = lower(bound).expect("lowers");
    let kinds: Vec<&str> = plan.steps.iter().map(|s| s.step.kind()).collect();
    assert_eq!(kinds, ["attention"]);
    plan
}

#[track_caller]
fn check(case: Case, inputs: &[(String, Tensor)]) {
    let graph = case.graph();
    attention(&bind(&graph, &[]).expect("fixed shapes"));
    if let Err(e) = compare(&graph, inputs, 2e-5) {
        panic!("{case:?}: {e}");
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn attention_of_any_shape_agrees_with_the_reference(
        (batch, heads) in (1usize..3, 1usize..5),
        (queries, keys) in (1usize..80, 1usize..80),
        (depth, width) in (1usize..40, 1usize..70),
        hides in prop_oneof![
            Just(Hides::Nothing), Just(Hides::Added), Just(Hides::Keys), Just(Hides::Pairs),
        ],
        seed in any::<u64>(),
    ) {
        let case = Case { batch, heads, queries, keys, depth, width, hides };
        check(case, &case.inputs(seed));
    }
}

#[test]
fn rows_of_which_all_is_hidden_or_something_is_no_number_are_nan() {
    let case = Case {
        hides: Hides::Pairs,
        ..USUAL
    };
    let mut inputs = case.inputs(3);
    let nan_row = 5;
    let hidden_row = 26;
    let mut q = inputs[0].1.to_f32();
    q[nan_row * case.heads * case.depth] = f32::NAN;
    inputs[0].1 = Tensor::from_f32(inputs[0].1.shape(), q).expect("fits");
    let mut seen = inputs[3].1.to_f64();
    seen[hidden_row * case.keys..(hidden_row + 1) * case.keys].fill(0.0);
    inputs[3].1 = Tensor::from_f64(DType::Bool, case.mask_shape(), seen).expect("fits");
    check(case, &inputs);

    let bound = bind(&case.graph(), &[]).expect("fixed shapes");
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let want = reference::run(&bound, &given).expect("runs");
    let row = case.heads * case.width;
    let n_nan = want[0].1.to_f32().iter().filter(|v| v.is_nan()).count();
    assert_eq!(n_nan, row + case.width, "one row, and one head of another");
}

#[test]
fn padding_around_an_attention_is_written_before_it() {
    let mut graph = USUAL.graph();
    let joined = graph.outputs.pop().expect("one output");
    let pads = Tensor::from_i64([8], vec![0, 1, 0, 2, 0, 3, 1, 0]).expect("eight values");
    let pads = graph.add_constant("pads", pads);
    let padded = graph.add_node(
        "padded",
        Op::Pad(Pad {
            mode: PadMode::Constant,
        }),
        &[Some(joined), Some(pads)],
    );
    graph.outputs.push(padded);
    let plan = lower(&bind(&graph, &[]).expect("fixed shapes")).expect("lowers");
    assert!(plan.steps.iter().any(|s| s.step.kind() == "attention"));
    if let Err(e) = compare(&graph, &USUAL.inputs(5), 2e-5) {
        panic!("{e}");
    }
}

fn run(bound: &StaticGraph, isa: Isa, threads: usize, precision: Precision) -> Vec<f32> {
    let plan = attention(bound);
    let pool = Arc::new(Pool::new(threads));
    let formats = Wanted::from(precision).assign(&plan);
    let arithmetic = Arithmetic {
        bf16_products: Bf16Products::MultiplyAdd,
        ..Arithmetic::default()
    };
    let mut executor =
        Executor::with_precisions(plan, isa, pool, &formats, arithmetic).expect("prepares");
    let inputs = USUAL.inputs(11);
    for i in 0..executor.plan().inputs.len() {
        let name = executor.plan().inputs[i].name.clone();
        let (_, tensor) = inputs.iter().find(|(n, _)| *n == name).expect("given");
        executor.set_input(i, tensor).expect("fits");
    }
    executor.run().expect("runs");
    executor.output(0).expect("reads").to_f32()
}

#[test]
fn bits_of_an_attention_do_not_depend_on_the_number_of_threads() {
    let bound = bind(&USUAL.graph(), &[]).expect("fixed shapes");
    for isa in Isa::available() {
        for precision in [Precision::Fp32, Precision::Bf16] {
            let want = run(&bound, isa, 1, precision);
            for threads in [2, 3, 7] {
                let got = run(&bound, isa, threads, precision);
                let same = got
                    .iter()
                    .zip(&want)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa:?} in {precision} on {threads} threads");
            }
        }
    }
}

#[test]
fn bf16_rounds_operands_and_weights_and_no_more() {
    let bound = bind(&USUAL.graph(), &[]).expect("fixed shapes");
    let Some(Step::Attention(step)) = attention(&bound).steps.pop().map(|s| s.step) else {
        panic!("an attention");
    };
    assert_eq!(step.extents(), [30, 37, 8, 12]);
    for isa in Isa::available() {
        let exact = run(&bound, isa, 1, Precision::Fp32);
        let rounded = run(&bound, isa, 1, Precision::Bf16);
        let errors = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs());
        // NaN stays, which `f32::max` would drop.
        let greatest = errors.fold(0.0f32, |a, b| if b > a || b.is_nan() { b } else { a });
        // Scores reach 40 and values 4. Operands are within 2^-9: scores within 0.2, weights
        // within a fifth.
        assert!(greatest > 1e-3 && greatest < 0.8, "{isa:?}: {greatest}");
    }
}
