//! Any bytes as an ONNX model: refused when read or written, or read back and written again.
//!
//! ```text
//! bytes ──parse──> graph ──to_bytes──> file ──parse──> graph ──to_bytes──> the same file
//! ```
//!
//! The first inputs are models of one or two operators, in protocol buffers written here. Numbers
//! of fields: `onnx.proto` of ONNX. Deliberately absent: constants in files beside the model; the same
//! bytes for floats of 4 and 8 bits, which each writing puts between casts of its own.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_onnx_graph::file;
use spark_onnx_graph::graph::{Graph, Op};

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let Ok(graph) = file::parse(bytes, None) else { return };
        // A graph that cannot be written is refused with a reason too.
        let Ok(written) = file::to_bytes(&graph) else { return };
        let again = file::parse(&written, None).expect("a file of our own");
        let written_again = file::to_bytes(&again).expect("written before");
        if !has_small_floats(&graph) {
            assert_eq!(written_again, written);
        }
    }
);

/// Whether floats of 4 or 8 bits are rounded to, also in bodies.
fn has_small_floats(graph: &Graph) -> bool {
    let nodes = graph.nodes.iter().any(|node| match &node.op {
        Op::RoundFloat(_) => true,
        Op::QuantizeLinear(op) => op.float.is_some(),
        Op::DequantizeLinear(op) => op.float.is_some(),
        _ => false,
    });
    nodes || graph.bodies.iter().any(|body| has_small_floats(body))
}

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if !std::path::Path::new(&folder).is_dir() {
        return;
    }
    for (name, bytes) in seeds() {
        if let Err(error) = file::parse(&bytes, None) {
            panic!("the first input {name} is refused: {error}");
        }
        let _ = std::fs::write(format!("{folder}/seed-{name}"), bytes);
    }
}

fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for op in [
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Softmax",
        "Flatten",
        "Transpose",
        "Identity",
        "Shape",
    ] {
        seeds.push((op.to_owned(), model(&node(op, &["x"], &[]), &[])));
    }
    for op in ["Add", "Mul", "Div", "Sub", "Pow", "Equal", "Concat"] {
        let axis = if op == "Concat" {
            vec![integer("axis", 1)]
        } else {
            Vec::new()
        };
        seeds.push((
            op.to_owned(),
            model(&node(op, &["x", "c"], &axis), &[floats("c", &[1, 3, 4, 4])]),
        ));
    }
    let kernel = [
        integers("pads", &[1, 1, 1, 1]),
        integers("strides", &[2, 2]),
    ];
    let weights = [floats("w", &[2, 3, 3, 3]), floats("b", &[2])];
    seeds.push((
        "Conv".to_owned(),
        model(&node("Conv", &["x", "w", "b"], &kernel), &weights),
    ));
    let pool = [integers("kernel_shape", &[2, 2])];
    seeds.push((
        "MaxPool".to_owned(),
        model(&node("MaxPool", &["x"], &pool), &[]),
    ));
    let to = [numbers("to", &[3, 16])];
    seeds.push((
        "Reshape".to_owned(),
        model(&node("Reshape", &["x", "to"], &[]), &to),
    ));
    let wide = [floats("w", &[4, 5])];
    seeds.push((
        "MatMul".to_owned(),
        model(&node("MatMul", &["x", "w"], &[]), &wide),
    ));
    let ranges = [
        numbers("from", &[0]),
        numbers("until", &[2]),
        numbers("axes", &[1]),
    ];
    seeds.push((
        "Slice".to_owned(),
        model(
            &node("Slice", &["x", "from", "until", "axes"], &[]),
            &ranges,
        ),
    ));
    let at = [numbers("at", &[0, 2])];
    seeds.push((
        "Gather".to_owned(),
        model(&node("Gather", &["x", "at"], &[integer("axis", 1)]), &at),
    ));
    let constant = node("ConstantOfShape", &["shape"], &[]);
    seeds.push((
        "ConstantOfShape".to_owned(),
        model(&constant, &[numbers("shape", &[2, 3])]),
    ));
    seeds
}

/// A field of one number.
fn varint(field: u64, mut value: u64) -> Vec<u8> {
    let mut bytes = vec![(field << 3) as u8];
    if field > 15 {
        bytes = vec![(field << 3) as u8 & 0x7f | 0x80, (field >> 4) as u8];
    }
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of bytes: a text, a message, packed numbers.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = varint(number, content.len() as u64);
    bytes[0] |= 2;
    bytes.extend(content);
    bytes
}

fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn integer(name: &str, value: u64) -> Vec<u8> {
    joined(&[field(1, name.as_bytes()), varint(3, value), varint(20, 2)])
}

fn integers(name: &str, values: &[u64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|value| varint(8, *value)).collect();
    joined(&[field(1, name.as_bytes()), values, varint(20, 7)])
}

fn node(op: &str, inputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs
        .iter()
        .flat_map(|name| field(1, name.as_bytes()))
        .collect();
    let attributes: Vec<u8> = attributes
        .iter()
        .flat_map(|attribute| field(5, attribute))
        .collect();
    joined(&[
        inputs,
        field(2, b"y"),
        field(3, b"n"),
        field(4, op.as_bytes()),
        attributes,
    ])
}

fn tensor(name: &str, data_type: u64, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| varint(1, *dim)).collect();
    joined(&[
        dims,
        varint(2, data_type),
        field(8, name.as_bytes()),
        field(9, raw),
    ])
}

fn floats(name: &str, dims: &[u64]) -> Vec<u8> {
    let n: u64 = dims.iter().product();
    let raw: Vec<u8> = (0..n)
        .flat_map(|idx| (idx as f32 * 0.25 - 1.0).to_le_bytes())
        .collect();
    tensor(name, 1, dims, &raw)
}

fn numbers(name: &str, values: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensor(name, 7, &[values.len() as u64], &raw)
}

fn value(name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims
        .iter()
        .flat_map(|dim| field(1, &varint(1, *dim)))
        .collect();
    let tensor = joined(&[varint(1, 1), field(2, &dims)]);
    joined(&[field(1, name.as_bytes()), field(2, &field(1, &tensor))])
}

/// A model of one node that takes `x` and gives `y`.
fn model(node: &[u8], constants: &[Vec<u8>]) -> Vec<u8> {
    let constants: Vec<u8> = constants
        .iter()
        .flat_map(|constant| field(5, constant))
        .collect();
    let graph = joined(&[
        field(1, node),
        field(2, b"g"),
        constants,
        field(11, &value("x", &[1, 3, 4, 4])),
        field(12, &field(1, b"y")),
    ]);
    joined(&[varint(1, 8), field(7, &graph), field(8, &varint(2, 17))])
}
