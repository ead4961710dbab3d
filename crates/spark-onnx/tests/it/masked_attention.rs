//! Queries that may attend to no key: zeros from the operator Attention, in every precision and
//! on every path, and no number from a softmax that a file spells out itself.
//!
//! ```text
//! scores = q k' [+ mask, or -infinity where it is false]      y = weights(scores) v
//! weights: MaskedSoftmax, which Attention is made of, or Softmax
//! ```
//!
//! Truth: ONNX, operator Attention ("a fully-masked query row produces a zero output row, not
//! NaN"); onnxruntime gives the same, and NaN for a Softmax of nothing but minus infinity.

use spark_onnx::graph::{
    Binary, Dim, Graph, MaskedSoftmax, MatMul, Op, Softmax, Transpose, Where, bind,
};
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor, reference};

const SOFTMAX: Op = Op::Softmax(Softmax {
    axis: -1,
    log: false,
    flatten: false,
});

const HEADS: usize = 2;
const WIDTH: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum MaskKind {
    Bool,
    Float,
}

#[derive(Debug, Clone)]
struct Case {
    weights: Op,
    mask: MaskKind,
    queries: usize,
    keys: usize,
    /// Whether the weights are a result too, so that no step joins the whole.
    apart: bool,
}

fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// Which key a query sees: none in every third row from the first on.
fn sees(query: usize, key: usize) -> bool {
    !query.is_multiple_of(3) && (key + query).is_multiple_of(2)
}

impl Case {
    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let steps = [("q", self.queries), ("k", self.keys), ("v", self.keys)];
        let [q, k, v] = steps.map(|(name, steps)| {
            graph.add_input(name, DType::F32, known(&[1, HEADS, steps, WIDTH]))
        });
        let perm = Some(vec![0, 1, 3, 2]);
        let k = graph.add_node("columns", Op::Transpose(Transpose { perm }), &[Some(k)]);
        let scores = graph.add_node("scores", Op::MatMul(MatMul), &[Some(q), Some(k)]);
        let mask_shape = known(&[self.queries, self.keys]);
        let scores = match self.mask {
            MaskKind::Bool => {
                let mask = graph.add_input("mask", DType::Bool, mask_shape);
                let hidden = Tensor::from_f32([], vec![f32::NEG_INFINITY]).expect("one value");
                let hidden = graph.add_constant("hidden", hidden);
                graph.add_node(
                    "masked",
                    Op::Where(Where),
                    &[Some(mask), Some(scores), Some(hidden)],
                )
            }
            MaskKind::Float => {
                let mask = graph.add_input("mask", DType::F32, mask_shape);
                let add = Op::Binary(Binary::Add);
                graph.add_node("masked", add, &[Some(scores), Some(mask)])
            }
        };
        let weights = graph.add_node("weights", self.weights.clone(), &[Some(scores)]);
        let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(weights), Some(v)]);
        graph.outputs.push(y);
        if self.apart {
            graph.outputs.push(weights);
        }
        graph
    }

    fn inputs(&self) -> Vec<(&'static str, Tensor)> {
        let steps = [("q", self.queries), ("k", self.keys), ("v", self.keys)];
        let mut inputs: Vec<(&str, Tensor)> = steps
            .into_iter()
            .map(|(name, steps)| {
                let n = HEADS * steps * WIDTH;
                let values = (0..n).map(|i| ((i * 37 + 11) % 17) as f32 / 8.0 - 1.0);
                let shape = [1, HEADS, steps, WIDTH];
                let tensor = Tensor::from_f32(shape, values.collect()).expect("fits");
                (name, tensor)
            })
            .collect();
        let pairs = (0..self.queries).flat_map(|q| (0..self.keys).map(move |k| sees(q, k)));
        let value = |seen: bool| match (self.mask, seen) {
            (MaskKind::Bool, seen) => f64::from(u8::from(seen)),
            (MaskKind::Float, true) => 0.25,
            (MaskKind::Float, false) => f64::NEG_INFINITY,
        };
        let dtype = match self.mask {
            MaskKind::Bool => DType::Bool,
            MaskKind::Float => DType::F32,
        };
        let shape = [self.queries, self.keys];
        let mask = Tensor::from_f64(dtype, shape, pairs.map(value).collect()).expect("fits");
        inputs.push(("mask", mask));
        inputs
    }

    /// The greatest distance from the interpreter that `precision` may have.
    fn check(&self, precision: Precision, tolerance: f32) {
        let (graph, inputs) = (self.graph(), self.inputs());
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (*n, t)).collect();
        let bound = bind(&graph, &[]).expect("fixed shapes");
        let want = reference::run(&bound, &given).expect("runs");
        let options = RunOptions::new().with_threads(1).with_precision(precision);
        let mut runner = ModelRunner::from_graph(graph, &options).expect("prepares");
        let got = runner.run(&given).expect("runs");
        let joined = runner.steps().iter().any(|step| step.kind == "attention");
        assert_eq!(joined, !self.apart, "{self:?}");
        let is_zero = self.weights == Op::MaskedSoftmax(MaskedSoftmax);
        for ((_, got), (_, want)) in got.iter().zip(&want) {
            let width = want.shape()[3];
            let rows = got
                .to_f32()
                .chunks(width)
                .map(<[f32]>::to_vec)
                .collect::<Vec<_>>();
            for (row, (got, want)) in rows.iter().zip(want.to_f32().chunks(width)).enumerate() {
                let query = row % self.queries;
                let hidden = (0..self.keys).all(|key| !sees(query, key));
                for (got, want) in got.iter().zip(want) {
                    let right = match (hidden, is_zero) {
                        (true, true) => *got == 0.0 && *want == 0.0,
                        (true, false) => got.is_nan() && want.is_nan(),
                        (false, _) => (got - want).abs() <= tolerance,
                    };
                    assert!(
                        right,
                        "{self:?} in {precision}, query {query}: {got}, not {want}"
                    );
                }
            }
        }
    }
}

fn every_case(weights: &Op, mut check: impl FnMut(Case)) {
    let lengths = [
        (1, 1),
        (3, 2),
        (5, 4),
        (30, 7),
        (25, 8),
        (50, 16),
        (4, 17),
        (73, 33),
        (2, 70),
    ];
    for (queries, keys) in lengths {
        for mask in [MaskKind::Bool, MaskKind::Float] {
            for apart in [false, true] {
                let weights = weights.clone();
                check(Case {
                    weights,
                    mask,
                    queries,
                    keys,
                    apart,
                });
            }
        }
    }
}

#[test]
fn attention_of_queries_that_see_nothing_is_zero_in_every_precision() {
    every_case(&Op::MaskedSoftmax(MaskedSoftmax), |case| {
        case.check(Precision::Fp32, 1e-5);
        for precision in [
            Precision::Bf16,
            Precision::Fp16,
            Precision::Fp8,
            Precision::Fp4,
        ] {
            case.check(precision, 0.05);
        }
    });
}

#[test]
fn a_softmax_that_a_file_spells_out_stays_no_number_where_all_is_hidden() {
    every_case(&SOFTMAX, |case| {
        case.check(Precision::Fp32, 1e-5);
        case.check(Precision::Bf16, 0.05);
    });
}
