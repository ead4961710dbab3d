//! Integers of 16 bits and more in layers of floats: the interpreter's answer, or a refusal that names
//! the node. Such integers are held in 64 bits, which no kernel of products and interpolations reads.

use spark_onnx::graph::{
    AspectRatio, Binary, CoordinateTransform, Dim, Einsum, Gather, Gemm, Graph, Interpolation,
    MatMul, NearestRounding, Op, Reshape, Resize, ValueId, bind,
};
use spark_onnx::{DType, Model, ModelError, ModelRunner, RunOptions, Tensor, reference};

const WIDE: [DType; 6] = [
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
];

fn tensor(dtype: DType, shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    let values = (0..n).map(|i| (i * 5 % 11) as f64).collect();
    Tensor::from_f64(dtype, shape.to_vec(), values).expect("fits")
}

/// A graph under construction, and what it is fed.
struct Made {
    graph: Graph,
    inputs: Vec<(String, Tensor)>,
}

impl Made {
    fn new() -> Self {
        Self {
            graph: Graph::default(),
            inputs: Vec::new(),
        }
    }

    fn operand(&mut self, is_constant: bool, dtype: DType, shape: &[usize]) -> Option<ValueId> {
        let name = format!("v{}", self.graph.values.len());
        let tensor = tensor(dtype, shape);
        if is_constant {
            return Some(self.graph.add_constant(name, tensor));
        }
        let dims = shape.iter().map(|&n| Dim::Known(n)).collect();
        let id = self.graph.add_input(&*name, dtype, dims);
        self.inputs.push((name, tensor));
        Some(id)
    }

    fn node(&mut self, op: Op, inputs: &[Option<ValueId>]) -> Option<ValueId> {
        let name = format!("n{}", self.graph.nodes.len());
        Some(self.graph.add_node(name, op, inputs))
    }

    /// Whether the runner computes it; then it must agree with the interpreter.
    #[track_caller]
    fn computed(mut self, what: &str, out: Option<ValueId>) -> bool {
        self.graph.outputs.extend(out);
        let given: Vec<_> = self.inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        // Types that the operator does not take are refused before they are held anyhow.
        let Ok(bound) = bind(&self.graph, &[]) else {
            let runner = ModelRunner::from_graph(self.graph, &RunOptions::new());
            assert!(runner.is_err(), "{what}");
            return false;
        };
        let want = reference::run(&bound, &given).expect("interprets");
        let runner =
            ModelRunner::from_graph(self.graph.clone(), &RunOptions::new().with_threads(1));
        match runner.and_then(|mut runner| runner.run(&given)) {
            Ok(got) => {
                assert_eq!(got[0].1, want[0].1, "{what}");
                true
            }
            Err(ModelError::Operator { node, reason, .. }) => {
                assert!(node.starts_with('n'), "{what}: {node}");
                assert!(reason.contains("integers"), "{what}: {reason}");
                false
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

#[test]
fn products_of_wide_integers_are_right_or_refused() {
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    });
    let einsum = |equation: &str| {
        Op::Einsum(Einsum {
            equation: equation.to_owned(),
        })
    };
    for dtype in WIDE {
        for (a_is_constant, b_is_constant) in [(false, false), (false, true), (true, false)] {
            for (op, a, b) in [
                (Op::MatMul(MatMul), [3, 4].as_slice(), [4, 5].as_slice()),
                (Op::MatMul(MatMul), &[2, 3, 4], &[4, 5]),
                (Op::MatMul(MatMul), &[2, 3, 4], &[2, 4, 5]),
                (Op::MatMul(MatMul), &[4], &[4]),
                (gemm.clone(), &[3, 4], &[5, 4]),
                (einsum("ij,jk->ik"), &[3, 4], &[4, 5]),
            ] {
                let mut made = Made::new();
                let what = format!("{op:?} {dtype:?} {a_is_constant} {b_is_constant}");
                let a = made.operand(a_is_constant, dtype, a);
                let b = made.operand(b_is_constant, dtype, b);
                let y = made.node(op, &[a, b]);
                made.computed(&what, y);
            }
        }
        let mut made = Made::new();
        let x = made.operand(false, dtype, &[3, 4]);
        let y = made.node(einsum("ij->i"), &[x]);
        let takes = !matches!(dtype, DType::I16 | DType::U16);
        assert_eq!(
            made.computed("a sum", y),
            takes,
            "{dtype:?}: sums are exact"
        );
    }
}

#[test]
fn a_product_of_integers_is_no_table_of_positions() {
    // Read as 64 bits where 32 are held, positions would lie beyond the memory there is.
    let mut made = Made::new();
    let x = made.operand(false, DType::F32, &[64, 2]);
    let a = made.operand(false, DType::I64, &[64, 1]);
    let b = made.operand(false, DType::I64, &[1, 64]);
    let product = made.node(Op::MatMul(MatMul), &[a, b]);
    let shape = made
        .graph
        .add_constant("flat", Tensor::from_i64([1], vec![4096]).expect("one"));
    let flat = made.node(
        Op::Reshape(Reshape { allow_zero: false }),
        &[product, Some(shape)],
    );
    let y = made.node(Op::Gather(Gather { axis: 0 }), &[x, flat]);
    made.graph.outputs.extend(y);
    let error = ModelRunner::from_graph(made.graph, &RunOptions::new());
    let error = error.expect_err("refused");
    assert!(error.to_string().contains("integers"), "{error}");
}

#[test]
fn wide_integers_between_positions_are_right_or_refused() {
    let resize = |mode, nearest| {
        Op::Resize(Resize {
            mode,
            transform: CoordinateTransform::HalfPixel,
            rounding: nearest,
            cubic_coeff: -0.75,
            exclude_outside: false,
            extrapolation: 0.0,
            antialias: false,
            axes: None,
            aspect: AspectRatio::Stretch,
        })
    };
    let floor = NearestRounding::RoundPreferFloor;
    for dtype in WIDE {
        for mode in [
            Interpolation::Nearest,
            Interpolation::Linear,
            Interpolation::Cubic,
        ] {
            let mut made = Made::new();
            let x = made.operand(false, dtype, &[1, 2, 4, 4]);
            let sizes = Tensor::from_i64([4], vec![1, 2, 7, 3]).expect("four");
            let sizes = Some(made.graph.add_constant("sizes", sizes));
            let y = made.node(resize(mode, floor), &[x, None, None, sizes]);
            let is_computed = made.computed(&format!("{mode:?} {dtype:?}"), y);
            assert!(
                is_computed || mode != Interpolation::Nearest,
                "copies are exact"
            );
        }
    }
}

/// The product wraps before the next operation of a joined step sees it.
#[test]
fn a_slope_times_the_least_integer_wraps() {
    for (dtype, least) in [
        (DType::I8, f64::from(i8::MIN)),
        (DType::I16, f64::from(i16::MIN)),
        (DType::I32, f64::from(i32::MIN)),
    ] {
        let tensor = |value| Tensor::from_f64(dtype, vec![1], vec![value]).expect("fits");
        let mut graph = Graph::default();
        let x = graph.add_input("x", dtype, vec![Dim::Known(1)]);
        let slope = graph.add_input("slope", dtype, vec![Dim::Known(1)]);
        let zero = graph.add_constant("zero", tensor(0.0));
        let y = graph.add_node("y", Op::Binary(Binary::PRelu), &[Some(x), Some(slope)]);
        let is_less = graph.add_node("z", Op::Binary(Binary::Less), &[Some(y), Some(zero)]);
        graph.outputs.push(is_less);
        let model = Model::from_graph(graph, &RunOptions::new()).expect("plans");
        let (x, slope) = (tensor(least), tensor(-1.0));
        let results = model
            .session()
            .run(&[("x", &x), ("slope", &slope)])
            .expect("runs");
        // -least is beyond the type, and wraps to the least again.
        assert_eq!(results[0].1.to_f64(), [1.0], "{dtype:?}");
    }
}
