//! Operators whose parameters do not fit their operands: refused by name, in no time and little memory.

use spark_onnx_graph::graph::bind;
use spark_onnx_graph::{Tensor, file};
use spark_onnx_proto::{AttributeProto, GraphProto};

use crate::samples::messages::{constant, graph, int, model, node};

/// A node on `x` of this shape and constants.
#[track_caller]
fn check(
    op_type: &'static str,
    shape: &[i64],
    constants: &[(&'static str, Tensor)],
    attributes: Vec<AttributeProto<'static>>,
    wanted: &str,
) {
    let mut inputs = vec!["x"];
    inputs.extend(constants.iter().map(|(name, _)| *name));
    let nodes = vec![node(op_type, &inputs, &["y"], attributes)];
    let graph = GraphProto {
        initializer: constants.iter().map(|(n, t)| constant(n, t)).collect(),
        ..graph(shape, nodes)
    };
    let bytes = model(21, graph).encode();
    let bound = file::parse(&bytes, None).and_then(|graph| bind(&graph, &[]));
    let error = bound.expect_err(wanted).to_string();
    assert!(error.contains(wanted), "{op_type}: {error}");
}

fn number(name: &'static str, value: i64) -> (&'static str, Tensor) {
    let tensor = Tensor::from_i64([], vec![value]);
    (name, tensor.expect("a scalar"))
}

fn floats(name: &'static str, shape: &[usize]) -> (&'static str, Tensor) {
    let n = shape.iter().product();
    (
        name,
        Tensor::from_f32(shape, vec![1.0; n]).expect("fills its shape"),
    )
}

#[test]
fn transforms_of_no_points_or_of_the_last_axis() {
    let with = |length, axis| [number("n", length), number("a", axis)];
    for length in [0, -3, i64::MIN, 1 << 40] {
        check(
            "DFT",
            &[2, 4, 1],
            &with(length, 1),
            vec![],
            "a transform of",
        );
    }
    check("DFT", &[2, 4, 1], &with(1 << 31, 1), vec![], "more than");
    check(
        "DFT",
        &[2, 4, 1],
        &with(4, -1),
        vec![],
        "the last axis cannot",
    );
    for axis in [3, -4, i64::MIN] {
        check("DFT", &[2, 4, 1], &with(4, axis), vec![], "out of range");
    }
    check(
        "DFT",
        &[2, 0, 1],
        &with(4, 1),
        vec![],
        "nothing to transform",
    );
    check(
        "DFT",
        &[2, 4, 3],
        &with(4, 1),
        vec![],
        "a last axis of 1 or 2",
    );
    let one_sided = || vec![int("onesided", 1)];
    check(
        "DFT",
        &[2, 4, 2],
        &with(4, 1),
        one_sided(),
        "one side of complex",
    );
    let back = || vec![int("onesided", 1), int("inverse", 1)];
    check("DFT", &[2, 4, 1], &with(4, 1), back(), "one side of real");
    check("DFT", &[2, 1, 2], &[], back(), "a transform of 0 points");
}

#[test]
fn frames_that_do_not_fit_the_signal() {
    let window = |n| floats("w", &[n]);
    for step in [0, -2] {
        let constants = [number("s", step), window(4)];
        check("STFT", &[1, 9, 1], &constants, vec![], "at least 1");
    }
    for signal in [1, 3, 5] {
        let constants = [number("s", 3), window(6)];
        check("STFT", &[1, signal, 1], &constants, vec![], "out of range");
    }
    let constants = [number("s", 3), window(4), number("n", 5)];
    check("STFT", &[1, 9, 1], &constants, vec![], "broadcast");
}

#[test]
fn lists_and_axes_of_compress_that_do_not_fit() {
    let flags = |values: &[f64], shape: &[usize]| {
        let flags = Tensor::from_f64(spark_onnx_graph::DType::Bool, shape, values.to_vec());
        [("c", flags.expect("fills its shape"))]
    };
    let axis = |axis| vec![int("axis", axis)];
    for outside in [2, -3, i64::MAX] {
        check(
            "Compress",
            &[2, 3],
            &flags(&[1.0], &[1]),
            axis(outside),
            "out of range",
        );
    }
    let long = flags(&[0.0, 0.0, 1.0], &[3]);
    check("Compress", &[2, 3], &long, axis(0), "out of range");
    let square = flags(&[1.0; 4], &[2, 2]);
    check("Compress", &[2, 3], &square, axis(0), "is not 1");
    check(
        "Compress",
        &[2, 3],
        &[floats("c", &[2])],
        axis(0),
        "must be bool",
    );
}

#[test]
fn blocks_that_do_not_fit_and_matrices_that_are_not_square() {
    let blocks = |n, axis| vec![int("block_size", n), int("axis", axis)];
    let scales = [floats("s", &[2, 2])];
    check(
        "QuantizeLinear",
        &[2, 4],
        &scales,
        blocks(-1, 1),
        "`block_size` is -1",
    );
    check(
        "QuantizeLinear",
        &[2, 4],
        &scales,
        blocks(1, 1),
        "wanted [2, 4]",
    );
    check(
        "QuantizeLinear",
        &[2, 4],
        &scales,
        blocks(i64::MAX, 1),
        "wanted [2, 1]",
    );
    check(
        "QuantizeLinear",
        &[2, 4],
        &scales,
        blocks(2, 2),
        "out of range",
    );
    check(
        "QuantizeLinear",
        &[2, 4],
        &scales,
        vec![],
        "without a block size",
    );
    check("Det", &[2, 3], &[], vec![], "must be square");
    check("Det", &[2], &[], vec![], "must be square");
    check("Unique", &[2, 3], &[], vec![], "must be constant");
}
