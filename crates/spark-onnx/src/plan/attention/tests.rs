//! Which groups of steps become one attention.

use crate::Tensor;
use crate::graph::{
    Binary, Dim, Graph, MatMul, Op, Reshape, Softmax, Transpose, ValueId, Where, bind,
};
use crate::plan::{ArenaLayout, AttentionStep, Mask, Plan, Step, lower};
use crate::tensor::DType;

const HEADS: usize = 3;
const QUERIES: usize = 5;
const KEYS: usize = 7;
const WIDTH: usize = 4;

/// How an attention is written down.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    /// Queries times a constant, then the product.
    ScaledQueries,
    /// Queries and keys times a constant each.
    ScaledBoth,
    /// The product divided by a constant.
    DividedScores,
    /// The product times a constant, plus a mask.
    AddedMask,
    /// Scores that are not seen replaced.
    Seen,
    /// A mask added before the factor.
    MaskThenScale,
    /// The softmax is a result as well.
    WeightsWanted,
    /// The scores are a result as well.
    ScoresWanted,
    /// The softmax runs over the queries.
    OverQueries,
}

fn dims(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

fn scalar(graph: &mut Graph, name: &str, value: f32) -> ValueId {
    let tensor = Tensor::from_f32(Vec::new(), vec![value]).expect("one value");
    graph.add_constant(name, tensor)
}

fn graph(spelling: Spelling) -> Graph {
    let mut graph = Graph::default();
    let input = |graph: &mut Graph, name: &str, steps: usize| {
        // As a projection leaves it: heads side by side.
        let x = graph.add_input(name, DType::F32, dims(&[steps, HEADS * WIDTH]));
        let shape = [1, steps, HEADS, WIDTH].map(|n| n as i64);
        let shape = Tensor::from_i64([4], shape.to_vec()).expect("four values");
        let shape = graph.add_constant(format!("{name}.shape"), shape);
        let reshape = Op::Reshape(Reshape { allow_zero: false });
        let inputs = [Some(x), Some(shape)];
        let x = graph.add_node(format!("{name}.split"), reshape, &inputs);
        let perm = Some(vec![0, 2, 1, 3]);
        graph.add_node(
            format!("{name}.heads"),
            Op::Transpose(Transpose { perm }),
            &[Some(x)],
        )
    };
    let mut q = input(&mut graph, "q", QUERIES);
    let mut k = input(&mut graph, "k", KEYS);
    let v = input(&mut graph, "v", KEYS);
    let half = scalar(&mut graph, "half", 0.5);
    let binary = |graph: &mut Graph, name: &str, op: Binary, a: ValueId, b: ValueId| {
        graph.add_node(name, Op::Binary(op), &[Some(a), Some(b)])
    };
    if matches!(spelling, Spelling::ScaledQueries | Spelling::ScaledBoth) {
        q = binary(&mut graph, "q.scaled", Binary::Mul, q, half);
    }
    if spelling == Spelling::ScaledBoth {
        k = binary(&mut graph, "k.scaled", Binary::Mul, k, half);
    }
    let perm = Some(vec![0, 1, 3, 2]);
    k = graph.add_node(
        "k.transposed",
        Op::Transpose(Transpose { perm }),
        &[Some(k)],
    );
    let mut scores = graph.add_node("scores", Op::MatMul(MatMul), &[Some(q), Some(k)]);
    match spelling {
        Spelling::ScoresWanted => graph.outputs.push(scores),
        Spelling::DividedScores => {
            let two = scalar(&mut graph, "two", 2.0);
            scores = binary(&mut graph, "divided", Binary::Div, scores, two);
        }
        Spelling::AddedMask | Spelling::MaskThenScale => {
            let mask = graph.add_input("mask", DType::F32, dims(&[QUERIES, KEYS]));
            if spelling == Spelling::AddedMask {
                scores = binary(&mut graph, "scaled", Binary::Mul, half, scores);
                scores = binary(&mut graph, "masked", Binary::Add, scores, mask);
            } else {
                scores = binary(&mut graph, "masked", Binary::Add, scores, mask);
                scores = binary(&mut graph, "scaled", Binary::Mul, half, scores);
            }
        }
        Spelling::Seen => {
            let seen = graph.add_input("seen", DType::Bool, dims(&[1, 1, 1, KEYS]));
            let hidden = scalar(&mut graph, "hidden", f32::NEG_INFINITY);
            let inputs = [Some(seen), Some(scores), Some(hidden)];
            scores = graph.add_node("masked", Op::Where(Where), &inputs);
        }
        _ => {}
    }
    let softmax = Softmax {
        axis: if spelling == Spelling::OverQueries {
            2
        } else {
            -1
        },
        log: false,
        flatten: false,
    };
    let weights = graph.add_node("softmax", Op::Softmax(softmax), &[Some(scores)]);
    if spelling == Spelling::WeightsWanted {
        graph.outputs.push(weights);
    }
    let mixed = graph.add_node("mix", Op::MatMul(MatMul), &[Some(weights), Some(v)]);
    let perm = Some(vec![0, 2, 1, 3]);
    let joined = graph.add_node("joined", Op::Transpose(Transpose { perm }), &[Some(mixed)]);
    let shape = Tensor::from_i64([2], vec![QUERIES as i64, -1]).expect("two values");
    let shape = graph.add_constant("shape", shape);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let flat = graph.add_node("flat", reshape, &[Some(joined), Some(shape)]);
    graph.outputs.push(flat);
    graph
}

fn plan(spelling: Spelling) -> Plan {
    let bound = bind(&graph(spelling), &[]).expect("fixed shapes");
    lower(&bound).expect("lowers")
}

/// The attention of a plan that is nothing else.
#[track_caller]
fn alone(spelling: Spelling) -> AttentionStep {
    let plan = plan(spelling);
    let kinds: Vec<&str> = plan.steps.iter().map(|s| s.step.kind()).collect();
    match &plan.steps[..] {
        [planned] => match &planned.step {
            Step::Attention(step) => step.clone(),
            _ => panic!("{kinds:?}"),
        },
        _ => panic!("{kinds:?}"),
    }
}

#[test]
fn factors_and_the_joining_of_heads_become_part_of_it() {
    for (spelling, scale) in [
        (Spelling::ScaledQueries, 0.5),
        (Spelling::ScaledBoth, 0.25),
        (Spelling::DividedScores, 0.5),
    ] {
        let step = alone(spelling);
        assert_eq!((step.scale, &step.mask), (scale, &Mask::None));
        assert_eq!(step.extents(), [QUERIES, KEYS, WIDTH, WIDTH]);
        assert_eq!(step.batches(), HEADS);
        // Read where the projections left them and written where the next one reads.
        let row = (HEADS * WIDTH) as isize;
        for view in [&step.q, &step.k, &step.v, &step.y] {
            let strides: Vec<isize> = view.axes[1..].iter().map(|a| a.stride).collect();
            assert_eq!(strides, [WIDTH as isize, row, 1]);
        }
        let macs = HEADS * QUERIES * KEYS * 2 * WIDTH;
        assert_eq!(Step::Attention(step).macs(), macs as u64);
    }
}

#[test]
fn masks_become_part_of_it() {
    let step = alone(Spelling::AddedMask);
    assert_eq!(step.scale, 0.5);
    match &step.mask {
        Mask::Added(mask) => assert_eq!(mask.shape(), [1, HEADS, QUERIES, KEYS]),
        other => panic!("{other:?}"),
    }
    match alone(Spelling::Seen).mask {
        Mask::Seen { seen, hidden } => {
            assert_eq!(hidden, f32::NEG_INFINITY);
            assert_eq!(seen.shape(), [1, HEADS, QUERIES, KEYS]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_something_else_reads_or_another_order_stays_apart() {
    for spelling in [
        Spelling::MaskThenScale,
        Spelling::WeightsWanted,
        Spelling::ScoresWanted,
        Spelling::OverQueries,
    ] {
        let plan = plan(spelling);
        let has_softmax = plan.steps.iter().any(|s| s.step.kind() == "softmax");
        let joined = plan.steps.iter().any(|s| s.step.kind() == "attention");
        assert!(has_softmax && !joined);
    }
}

#[test]
fn operands_live_until_the_step_ends() {
    // In the arena the scores take no memory.
    let plan = plan(Spelling::ScaledQueries);
    let operands = HEADS * (QUERIES + 2 * KEYS + QUERIES) * WIDTH * 4;
    let arena = ArenaLayout::of(&plan, 64, |_| false);
    assert!(arena.bytes >= operands);
    assert!(arena.bytes < operands + 4 * 64);
}
