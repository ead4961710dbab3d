//! Programs of elements at the edges of their types: integers of all signs, up to the ends of 64 bits; and floats that are no
//! ordinary numbers, zeros of both signs, and ties of narrower formats.
//!
//! ```text
//! the reference   the same values, integers and comparisons exactly
//! the CPU         the same bits, so that the sign of a zero counts; one NaN is as good as another
//! ```

use std::collections::BTreeSet;

use spark_mem::Device;
use spark_onnx::graph::{
    Binary, Cast, Dim, Graph, Op, QuantizeLinear, Unary, ValueId, Variadic, Where, bind,
};
use spark_onnx::{DType, ModelRunner, Precision, Tensor, TensorData, reference};
use spark_testing::driver::Persona;

use super::{CudaSession, on, options};
use crate::tests::operators::same;

/// A graph and values of its inputs.
pub(super) type Case = (Graph, Vec<(String, Tensor)>);

fn input(case: &mut Case, name: &str, value: Tensor) -> ValueId {
    let shape = value.shape().iter().map(|&n| Dim::Known(n)).collect();
    let id = case.0.add_input(name, value.dtype(), shape);
    case.1.push((name.to_owned(), value));
    id
}

fn output(graph: &mut Graph, name: String, op: Op, operands: &[ValueId]) {
    let operands: Vec<_> = operands.iter().copied().map(Some).collect();
    let y = graph.add_node(name, op, &operands);
    graph.outputs.push(y);
}

/// Functions of integers, of every pair from the two lists.
pub(super) fn integers_of_all_signs() -> Case {
    let mut case = Case::default();
    for (dtype, least) in [(DType::I32, i64::from(i32::MIN)), (DType::I64, i64::MIN)] {
        let tensor = |shape: &[usize], values: &[i64]| match dtype {
            DType::I64 => Tensor::from_i64(shape, values.to_vec()),
            _ => Tensor::new(
                shape.to_vec(),
                TensorData::I32(values.iter().map(|&value| value as i32).collect()),
            ),
        };
        let most = -(least + 1);
        let all = [
            least,
            least + 1,
            -9,
            -6,
            -5,
            -1,
            0,
            1,
            5,
            6,
            9,
            most - 1,
            most,
        ];
        let others = [least, -6, -3, -1, 1, 3, 6, most];
        let a = tensor(&[all.len()], &all).expect("fits");
        let b = tensor(&[others.len(), 1], &others).expect("fits");
        let a = input(&mut case, &format!("a of {dtype}"), a);
        let b = input(&mut case, &format!("b of {dtype}"), b);
        let mut output = |op: Op, operands: &[ValueId]| {
            output(&mut case.0, format!("{op:?} of {dtype}"), op, operands);
        };
        for function in [Unary::Abs, Unary::Neg, Unary::Sign, Unary::Relu] {
            output(Op::Unary(function), &[a]);
        }
        for function in [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::Mod { fmod: false },
            Binary::Mod { fmod: true },
            Binary::Equal,
            Binary::Less,
            Binary::LessOrEqual,
            Binary::Greater,
            Binary::GreaterOrEqual,
        ] {
            output(Op::Binary(function), &[a, b]);
        }
        for function in [Variadic::Max, Variadic::Min] {
            output(Op::Variadic(function), &[a, b]);
        }
    }
    case
}

/// Functions of floats for which NaN, infinities, the signs of zeros or ties are a case of their own.
pub(super) fn floats_at_the_edges() -> Case {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let ordinary = [0.0, 0.5, 1.0, 2.5, 6.0, 300.0, 1e30, f32::MAX];
    // Half way between two numbers of bf16, below an even and below an odd one, and beside them; the same of f16.
    let (of_bf16, of_f16) = (2f32.powi(-8), 2f32.powi(-11));
    let ties = [
        1.0 + of_bf16,
        1.0 + 3.0 * of_bf16,
        1.0 + of_f16,
        1.0 + 3.0 * of_f16,
        65_520.0,
    ];
    let beside = ties.map(|tie| [tie.next_down(), tie.next_up()]);
    let small = [
        f32::from_bits(1),
        f32::from_bits(0x8000),
        f32::from_bits(0x1_8000),
        2f32.powi(-25),
    ];
    let positive = ordinary
        .iter()
        .chain(&ties)
        .chain(beside.as_flattened())
        .chain(&small);
    let both = positive.flat_map(|&value| [value, -value]);
    let all: Vec<f32> = both.chain([nan, inf, -inf]).collect();
    let others = vec![nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5];

    let mut case = Case::default();
    let of_f32 = |shape: &[usize], values| Tensor::from_f32(shape, values).expect("fits");
    let condition = Tensor::new(vec![2, 1, 1], TensorData::Bool(vec![false, true]));
    let condition = input(&mut case, "condition", condition.expect("fits"));
    let a = input(&mut case, "a", of_f32(&[all.len()], all));
    let b = input(&mut case, "b", of_f32(&[others.len(), 1], others));
    let graph = &mut case.0;
    for function in [Variadic::Max, Variadic::Min] {
        for operands in [[a, b], [b, a]] {
            let name = format!("{function:?}, {}", operands[0].0);
            output(graph, name, Op::Variadic(function), &operands);
        }
    }
    for function in [
        Binary::Div,
        Binary::Mod { fmod: false },
        Binary::Mod { fmod: true },
        Binary::Equal,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
    ] {
        let op = Op::Binary(function);
        output(graph, format!("{function:?}"), op, &[a, b]);
    }
    for function in [
        Unary::Abs,
        Unary::Neg,
        Unary::Sign,
        Unary::Relu,
        Unary::Round,
        Unary::IsNaN,
        Unary::IsInf,
    ] {
        output(graph, format!("{function:?}"), Op::Unary(function), &[a]);
    }
    for to in [DType::I64, DType::BF16, DType::F16, DType::Bool] {
        output(graph, format!("Cast to {to}"), Op::Cast(Cast { to }), &[a]);
    }
    output(
        graph,
        "Where".to_owned(),
        Op::Where(Where),
        &[condition, a, b],
    );
    let scale = graph.add_constant("scale", of_f32(&[], vec![0.5]));
    for zero in [TensorData::I8(vec![3]), TensorData::U8(vec![3])] {
        let name = format!("QuantizeLinear {}", graph.outputs.len());
        let zero = Tensor::new(vec![], zero).expect("one");
        let zero = graph.add_constant(format!("zero of {name}"), zero);
        let op = Op::QuantizeLinear(QuantizeLinear::along(1));
        output(graph, name, op, &[a, scale, zero]);
    }
    case
}

/// Whether two tensors hold the same bits, or NaN in the same places.
fn same_bits(got: &Tensor, want: &Tensor) -> Result<(), String> {
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Err(format!("{:?} for {:?}", got.shape(), want.shape()));
    }
    if let (TensorData::I64(got), TensorData::I64(want)) = (got.data(), want.data()) {
        let differs = got.iter().zip(want).position(|(got, want)| got != want);
        return match differs {
            Some(at) => Err(format!("element {at}: {}, the CPU {}", got[at], want[at])),
            None => Ok(()),
        };
    }
    for (at, (got, want)) in got.to_f64().iter().zip(want.to_f64()).enumerate() {
        if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
            return Err(format!("element {at}: {got:?}, the CPU {want:?}"));
        }
    }
    Ok(())
}

/// Runs a case on the device, compares it with the reference and, to the bit, with the CPU; says which kernels computed it.
pub(super) fn agrees(
    device: &Device,
    (graph, inputs): &Case,
) -> Result<BTreeSet<&'static str>, String> {
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let bound = bind(graph, &[]).map_err(|e| format!("bind: {e}"))?;
    let wanted = reference::run(&bound, &given);
    let wanted = wanted.map_err(|e| format!("reference: {e}"))?;
    let options = options(Precision::Fp32);
    let runner = ModelRunner::from_graph(graph.clone(), &options);
    let cpu = runner.and_then(|mut runner| runner.run(&given));
    let cpu = cpu.map_err(|e| format!("the CPU: {e}"))?;
    let session = CudaSession::from_graph(graph.clone(), device, &options);
    let mut session = session.map_err(|e| format!("load: {e}"))?;
    let got = session.run(&given).map_err(|e| format!("run: {e}"))?;
    let each = got.iter().zip(&cpu).zip(&wanted);
    let differ = each.filter_map(|(((name, got), (_, cpu)), (_, want))| {
        let done = same_bits(got, cpu).and_then(|()| same(got, want, 1e-6));
        done.err().map(|error| format!("{name}: {error}"))
    });
    let differ: Vec<String> = differ.collect();
    if !differ.is_empty() {
        return Err(differ.join("\n"));
    }
    Ok(session.steps().iter().map(|step| step.kernel).collect())
}

#[test]
fn integers_of_all_signs_are_those_of_the_cpu() {
    on(Persona::Card, |_, device| {
        let kernels = agrees(device, &integers_of_all_signs()).unwrap_or_else(|e| panic!("{e}"));
        assert!(kernels.contains("plan_program"), "{kernels:?}");
    });
}

#[test]
fn floats_at_the_edges_are_those_of_the_cpu() {
    on(Persona::Card, |_, device| {
        let kernels = agrees(device, &floats_at_the_edges()).unwrap_or_else(|e| panic!("{e}"));
        assert!(kernels.contains("plan_program"), "{kernels:?}");
    });
}
