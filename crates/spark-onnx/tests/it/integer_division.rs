//! Division, remainders and powers of integers: every type, folded and run, and the divisors that
//! there is no answer for.
//!
//! ```text
//! a / 0, a % 0, 0^-n     an error that names the node, at load where the zero is a constant
//! least / -1             wraps to the least number itself; its remainder is 0
//! ```

use spark_onnx::graph::{Binary, Dim, Graph, Op, bind};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, reference};

const SIGNED: [DType; 4] = [DType::I8, DType::I16, DType::I32, DType::I64];
const UNSIGNED: [DType; 3] = [DType::U8, DType::U16, DType::U32];

const DIVISIONS: [Binary; 3] = [
    Binary::Div,
    Binary::Mod { fmod: false },
    Binary::Mod { fmod: true },
];

/// Smallest and greatest value.
fn range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size_bytes() as u32;
    match SIGNED.contains(&dtype) {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

fn tensor(dtype: DType, values: &[i128]) -> Tensor {
    let shape = [values.len()];
    match dtype {
        DType::I64 => Tensor::from_i64(shape, values.iter().map(|&v| v as i64).collect()),
        _ => Tensor::from_f64(dtype, shape, values.iter().map(|&v| v as f64).collect()),
    }
    .expect("fits")
}

/// `a op b`, then a product with one, which joins the division's step; the divisor an input or a
/// constant.
fn graph(op: Binary, a: &Tensor, b: &Tensor, b_is_constant: bool) -> Graph {
    let mut graph = Graph::default();
    let known = |t: &Tensor| t.shape().iter().map(|&n| Dim::Known(n)).collect();
    let x = graph.add_input("a", a.dtype(), known(a));
    let y = match b_is_constant {
        true => graph.add_constant("b", b.clone()),
        false => graph.add_input("b", b.dtype(), known(b)),
    };
    let quotient = graph.add_node("quotient", Op::Binary(op), &[Some(x), Some(y)]);
    let one = graph.add_constant("one", tensor(a.dtype(), &[1]));
    let product = Op::Binary(Binary::Mul);
    let product = graph.add_node("product", product, &[Some(quotient), Some(one)]);
    graph.outputs.push(product);
    graph
}

type Outcome = Result<Tensor, ModelError>;

/// What interpreter, executor and folding make of it.
fn outcomes(op: Binary, a: &Tensor, b: &Tensor, b_is_constant: bool) -> [Outcome; 3] {
    let graph = graph(op, a, b, b_is_constant);
    let mut given = vec![("a", a)];
    if !b_is_constant {
        given.push(("b", b));
    }
    let first = |outputs: Vec<(String, Tensor)>| outputs.into_iter().next().expect("one").1;
    let interpreted = bind(&graph, &[]).and_then(|bound| reference::run(&bound, &given));
    let executed = ModelRunner::from_graph(graph.clone(), &RunOptions::new().with_threads(2))
        .and_then(|mut runner| runner.run(&given));
    let mut constant = graph;
    for (name, tensor) in given {
        let id = constant.values.iter().position(|v| v.name == name);
        constant.values[id.expect("there")].constant = Some(tensor.clone().into());
    }
    constant.inputs.clear();
    let folded = bind(&constant, &[]).and_then(|bound| {
        assert!(bound.nodes().is_empty(), "all is constant");
        reference::run(&bound, &[])
    });
    [interpreted, executed, folded].map(|outcome| outcome.map(first))
}

#[track_caller]
fn gives(op: Binary, a: &Tensor, b: &Tensor, want: &Tensor) {
    for b_is_constant in [false, true] {
        for (way, got) in ["interpreted", "executed", "folded"]
            .into_iter()
            .zip(outcomes(op, a, b, b_is_constant))
        {
            let got = got.unwrap_or_else(|e| panic!("{op:?} of {}, {way}: {e}", a.dtype()));
            assert_eq!(got, *want, "{op:?} of {}, {way}", a.dtype());
        }
    }
}

/// Every way and both kinds of divisors must give one and the same error.
#[track_caller]
fn divides_by_zero(op: Binary, a: &Tensor, b: &Tensor) {
    for b_is_constant in [false, true] {
        for outcome in outcomes(op, a, b, b_is_constant) {
            let error = outcome.expect_err("a division by zero");
            let ModelError::Operator {
                node,
                op: name,
                reason,
            } = &error
            else {
                panic!("{error}");
            };
            let op = Op::Binary(op);
            let want = ("quotient", op.name(), "integer division by zero");
            assert_eq!((node.as_str(), name.as_str(), reason.as_str()), want);
        }
    }
}

#[test]
fn dividing_an_integer_by_zero_is_an_error_that_names_the_node() {
    for dtype in SIGNED.into_iter().chain(UNSIGNED) {
        for op in DIVISIONS {
            for n in [1, 5, 300] {
                let a = tensor(dtype, &vec![7; n]);
                let mut divisors = vec![2; n];
                divisors[n - 1] = 0;
                divides_by_zero(op, &a, &tensor(dtype, &divisors));
            }
            let nothing = tensor(dtype, &[]);
            gives(op, &nothing, &nothing, &nothing);
        }
    }
}

#[test]
fn a_constant_divisor_of_zero_is_refused_before_anything_runs() {
    for op in DIVISIONS {
        let (a, b) = (tensor(DType::I32, &[1, 2]), tensor(DType::I32, &[3, 0]));
        let bound = bind(&graph(op, &a, &b, true), &[]);
        let error = bound.expect_err("a zero").to_string();
        assert!(
            error.contains("`quotient`") && error.contains("by zero"),
            "{error}"
        );
    }
}

#[test]
fn the_least_integer_divided_by_minus_one_wraps_and_leaves_nothing() {
    for dtype in SIGNED {
        let (least, greatest) = range(dtype);
        let a = tensor(dtype, &[least, greatest, least, 0]);
        let b = tensor(dtype, &[-1, -1, least, least]);
        gives(
            Binary::Div,
            &a,
            &b,
            &tensor(dtype, &[least, -greatest, 1, 0]),
        );
        for fmod in [false, true] {
            gives(Binary::Mod { fmod }, &a, &b, &tensor(dtype, &[0; 4]));
        }
    }
}

#[test]
fn quotients_and_remainders_of_every_type_are_exact_at_the_ends_of_its_range() {
    for dtype in SIGNED.into_iter().chain(UNSIGNED) {
        let (least, greatest) = range(dtype);
        let ends = [least, least + 1, -3, -1, 0, 1, 2, 7, greatest - 1, greatest];
        let inside = |v: &&i128| (least..=greatest).contains(*v);
        let numbers: Vec<i128> = ends.iter().filter(inside).copied().collect();
        let divisors = numbers.iter().filter(|v| **v != 0);
        let pairs: Vec<(i128, i128)> = divisors
            .flat_map(|&b| numbers.iter().map(move |&a| (a, b)))
            .filter(|&(a, b)| (a, b) != (least, -1))
            .collect();
        let of = |f: &dyn Fn(i128, i128) -> i128| {
            tensor(
                dtype,
                &pairs.iter().map(|&(a, b)| f(a, b)).collect::<Vec<_>>(),
            )
        };
        let (a, b) = (of(&|a, _| a), of(&|_, b| b));
        gives(Binary::Div, &a, &b, &of(&|a, b| a / b));
        gives(Binary::Mod { fmod: true }, &a, &b, &of(&|a, b| a % b));
        let floored = of(&|a, b| a - b * (a as f64 / b as f64).floor() as i128);
        if dtype.size_bytes() < 8 {
            gives(Binary::Mod { fmod: false }, &a, &b, &floored);
        }
    }
}

#[test]
fn powers_of_integers_wrap_and_zero_has_no_negative_one() {
    let a = tensor(DType::I64, &[3, -3, 2, 2, 1, -1, -1, 7, 0]);
    let b = tensor(DType::I64, &[41, 39, 63, 64, -5, -5, -4, -1, 0]);
    let three = 3i128.pow(41) as i64;
    let want = [
        three as i128,
        -(3i128.pow(39)),
        i64::MIN.into(),
        0,
        1,
        -1,
        1,
        0,
        1,
    ];
    gives(Binary::Pow, &a, &b, &tensor(DType::I64, &want));
    for dtype in SIGNED {
        let (a, b) = (tensor(dtype, &[2, 0]), tensor(dtype, &[2, -1]));
        divides_by_zero(Binary::Pow, &a, &b);
        let (least, _) = range(dtype);
        let bits = 8 * dtype.size_bytes() as i128;
        let (a, b) = (
            tensor(dtype, &[2, 2, -2]),
            tensor(dtype, &[bits - 1, bits, 3]),
        );
        gives(Binary::Pow, &a, &b, &tensor(dtype, &[least, 0, -8]));
    }
}

#[test]
fn floats_divided_by_zero_are_infinite_or_no_number_as_ever() {
    let f = |values: &[f32]| Tensor::from_f32([values.len()], values.to_vec()).expect("fits");
    let (a, b) = (f(&[1.0, -1.0, 0.0]), f(&[0.0, 0.0, 0.0]));
    for outcome in outcomes(Binary::Div, &a, &b, false) {
        let got = outcome.expect("floats have infinities").to_f32();
        assert_eq!(got[..2], [f32::INFINITY, f32::NEG_INFINITY]);
        assert!(got[2].is_nan());
    }
}

#[test]
fn remainders_of_floats_have_the_divisors_sign_unless_c_is_asked() {
    let f = |values: &[f32]| Tensor::from_f32([values.len()], values.to_vec()).expect("fits");
    let (a, b) = (
        f(&[5.5, -5.5, 5.5, -5.5, 3.0, -3.0]),
        f(&[2.0, 2.0, -2.0, -2.0, f32::INFINITY, f32::INFINITY]),
    );
    let floored = f(&[1.5, 0.5, -0.5, -1.5, 3.0, f32::INFINITY]);
    gives(Binary::Mod { fmod: false }, &a, &b, &floored);
    gives(
        Binary::Mod { fmod: true },
        &a,
        &b,
        &f(&[1.5, -1.5, 1.5, -1.5, 3.0, -3.0]),
    );
}

/// Of two divisions of one step the first node is named, whichever block of elements meets its zero first.
#[test]
fn the_first_node_that_divides_by_zero_is_named_on_any_number_of_threads() {
    let n = 1 << 18;
    let mut divisors = [vec![1_i64; n], vec![1_i64; n]];
    divisors[0][n - 1] = 0;
    divisors[1][0] = 0;
    let mut graph = Graph::default();
    let [a, b, d] =
        ["a", "b", "d"].map(|name| graph.add_input(name, DType::I64, vec![Dim::Known(n)]));
    let first = graph.add_node("first", Op::Binary(Binary::Div), &[Some(a), Some(b)]);
    let second = graph.add_node("second", Op::Binary(Binary::Div), &[Some(first), Some(d)]);
    graph.outputs.push(second);
    let tensor = |values: Vec<i64>| Tensor::from_i64([n], values).expect("fits");
    let given = [vec![7; n], divisors[0].clone(), divisors[1].clone()].map(tensor);
    for threads in [1, 2, 3] {
        let options = RunOptions::new().with_threads(threads);
        let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("plans");
        let inputs = [("a", &given[0]), ("b", &given[1]), ("d", &given[2])];
        let error = runner.run(&inputs).expect_err("two zeros").to_string();
        assert!(error.contains("`first`"), "{threads} threads: {error}");
    }
}
