//! The habits of exporters, rebuilt with our own writer.

use spark_onnx_graph::graph::{Binary, Dim, Op, Unary, bind};
use spark_onnx_graph::{DType, Tensor, TensorData, file, reference};
use spark_onnx_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto,
    attribute_type, data_type,
};

use crate::samples::messages::{
    constant, float, graph, int, ints, model, node, operator_set, text, typed_value, value,
};

fn list(values: &[f32]) -> Tensor {
    Tensor::from_f32([values.len()], values.to_vec()).expect("a list")
}

fn half_list(values: &[f32]) -> Tensor {
    let halves = values.iter().map(|&v| half::f16::from_f32(v)).collect();
    Tensor::new(vec![values.len()], TensorData::F16(halves)).expect("a list")
}

/// The first output for the input `name`.
#[track_caller]
fn run(model: &ModelProto<'_>, name: &str, x: &Tensor) -> Tensor {
    let graph = file::parse(&model.encode(), None).expect("reads");
    let bound = bind(&graph, &[(name, x.shape().to_vec())]).expect("binds");
    let mut outputs = reference::run(&bound, &[(name, x)]).expect("runs");
    outputs.swap_remove(0).1
}

#[test]
fn pytorch_names_with_slashes_and_outputs_in_any_order() {
    // The nodes stand in reverse order.
    let nodes = vec![
        NodeProto {
            name: text("/act/Relu"),
            ..node("Relu", &["/conv1/Conv_output_0"], &["y"], vec![])
        },
        NodeProto {
            name: text("/conv1/Conv"),
            ..node("Neg", &["x"], &["/conv1/Conv_output_0"], vec![])
        },
    ];
    let y = run(&model(17, graph(&[2], nodes)), "x", &list(&[-1.0, 1.0]));
    assert_eq!(y, list(&[1.0, 0.0]));
}

#[test]
fn dynamo_symbols_metadata_and_declarations_of_values_that_are_gone() {
    let pair = |key, value| StringStringEntryProto {
        key: text(key),
        value: text(value),
    };
    let mut net = model(
        18,
        graph(
            &[-1, 2],
            vec![NodeProto {
                metadata_props: vec![pair("pkg.torch.onnx.name_scopes", "['']")],
                ..node("Relu", &["x"], &["y"], vec![])
            }],
        ),
    );
    net.metadata_props.push(pair("author", "someone"));
    let inner = net.graph.as_deref_mut().expect("a graph");
    inner.value_info.push(value("gone", &[-1, 9]));
    inner.output[0] = value("y", &[-1, 2]);
    let read = file::parse(&net.encode(), None).expect("reads");
    assert_eq!(read.metadata["author"], "someone");
    let symbol = vec![Dim::Symbol("N".to_owned()), Dim::Known(2)];
    assert_eq!(read.value(read.inputs[0]).shape, Some(symbol.clone()));
    assert_eq!(read.value(read.outputs[0]).shape, Some(symbol));
}

#[test]
fn functions_are_replaced_by_their_bodies() {
    let reference = AttributeProto {
        name: text("alpha"),
        ref_attr_name: text("slope"),
        r#type: Some(attribute_type::FLOAT),
        ..AttributeProto::default()
    };
    let inner = FunctionProto {
        name: text("Leaky"),
        domain: text("my.lib"),
        input: vec!["p".into()],
        output: vec!["q".into(), "same".into()],
        attribute: vec!["slope".into()],
        node: vec![
            node("Neg", &["p"], &["t"], vec![]),
            node("LeakyRelu", &["t"], &["q"], vec![reference]),
            node("Identity", &["p"], &["same"], vec![]),
        ],
        opset_import: vec![operator_set("", 18)],
        ..FunctionProto::default()
    };
    let call = |inputs: &[&'static str], outputs: &[&'static str], attributes| NodeProto {
        domain: text("my.lib"),
        ..node("Leaky", inputs, outputs, attributes)
    };
    // The outer function hands its operand through and has a default of its own.
    let outer = FunctionProto {
        name: text("Twice"),
        domain: text("my.lib"),
        input: vec!["p".into(), "unused".into()],
        output: vec!["r".into(), "p".into()],
        attribute_proto: vec![float("slope", 0.5)],
        node: vec![
            call(
                &["p"],
                &["t"],
                vec![AttributeProto {
                    name: text("slope"),
                    ref_attr_name: text("slope"),
                    r#type: Some(attribute_type::FLOAT),
                    ..AttributeProto::default()
                }],
            ),
            call(&["t"], &["r"], vec![float("slope", 0.25)]),
        ],
        // An older set than the model's.
        opset_import: vec![operator_set("", 13), operator_set("my.lib", 1)],
        ..FunctionProto::default()
    };
    let nodes = vec![
        NodeProto {
            domain: text("my.lib"),
            ..node("Twice", &["x"], &["a", "t"], vec![])
        },
        node("Add", &["a", "t"], &["y"], vec![]),
    ];
    let mut net = model(18, graph(&[2], nodes));
    net.opset_import.push(operator_set("my.lib", 1));
    net.functions = vec![inner, outer];
    // x = 4: -4 * 0.5 = -2, then 2; x = -4: 4, then -4 * 0.25 = -1. Then x is added.
    let y = run(&net, "x", &list(&[4.0, -4.0]));
    assert_eq!(y, list(&[6.0, -5.0]));
    let read = file::parse(&net.encode(), None).expect("reads");
    let mut names: Vec<&str> = read.values.iter().map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn keras_names_with_colons_transposes_and_a_symbolic_batch() {
    let weights = Tensor::from_f32([1, 2, 1, 1], vec![1.0, 10.0]).expect("four axes");
    let nodes = vec![
        node(
            "Transpose",
            &["image:0"],
            &["adjusted_input1"],
            vec![ints("perm", &[0, 3, 1, 2])],
        ),
        node(
            "Conv",
            &["adjusted_input1", "conv2d/kernel:0"],
            &["convolution_output"],
            vec![
                ints("kernel_shape", &[1, 1]),
                ints("dilations", &[1, 1]),
                ints("strides", &[1, 1]),
                int("group", 1),
                AttributeProto {
                    s: Some(b"VALID".as_slice().into()),
                    r#type: Some(attribute_type::STRING),
                    name: text("auto_pad"),
                    ..AttributeProto::default()
                },
            ],
        ),
        node(
            "Clip",
            &["convolution_output", "low", ""],
            &["clipped"],
            vec![],
        ),
        node(
            "Transpose",
            &["clipped"],
            &["y"],
            vec![ints("perm", &[0, 2, 3, 1])],
        ),
    ];
    let net = ModelProto {
        ir_version: Some(6),
        opset_import: vec![operator_set("", 11), operator_set("ai.onnx.ml", 1)],
        ..model(
            11,
            GraphProto {
                initializer: vec![
                    constant("conv2d/kernel:0", &weights),
                    constant("low", &Tensor::from_f32([], vec![0.0]).expect("a scalar")),
                ],
                input: vec![value("image:0", &[-1, 1, 2, 2])],
                ..graph(&[1], nodes)
            },
        )
    };
    let x = Tensor::from_f32([1, 1, 2, 2], vec![1.0, 2.0, -3.0, -4.0]).expect("an image");
    let y = run(&net, "image:0", &x);
    assert_eq!(
        y,
        Tensor::from_f32([1, 1, 2, 1], vec![21.0, 0.0]).expect("an image")
    );
}

#[test]
fn constants_listed_as_inputs_are_no_inputs() {
    let mut net = model(
        9,
        GraphProto {
            initializer: vec![constant("w", &list(&[10.0, 20.0]))],
            ..graph(&[2], vec![node("Add", &["x", "w"], &["y"], vec![])])
        },
    );
    net.ir_version = Some(3);
    let inner = net.graph.as_deref_mut().expect("a graph");
    inner.input.push(value("w", &[2]));
    let read = file::parse(&net.encode(), None).expect("reads");
    assert_eq!(read.inputs.len(), 1);
    assert_eq!(run(&net, "x", &list(&[1.0, 2.0])), list(&[11.0, 22.0]));
}

#[test]
fn half_precision_models_cast_at_their_borders() {
    let nodes = vec![
        node(
            "Cast",
            &["x"],
            &["x16"],
            vec![int("to", i64::from(data_type::FLOAT16))],
        ),
        node("Mul", &["x16", "w"], &["m"], vec![]),
        // An operator kept in f32, as the converter does for those it distrusts.
        node(
            "Cast",
            &["m"],
            &["m32"],
            vec![int("to", i64::from(data_type::FLOAT))],
        ),
        node("Softplus", &["m32"], &["s32"], vec![]),
        node(
            "Cast",
            &["s32"],
            &["s16"],
            vec![int("to", i64::from(data_type::FLOAT16))],
        ),
        node(
            "Cast",
            &["s16"],
            &["y"],
            vec![int("to", i64::from(data_type::FLOAT))],
        ),
    ];
    let net = model(
        13,
        GraphProto {
            initializer: vec![constant("w", &half_list(&[0.1, 2.0]))],
            ..graph(&[2], nodes)
        },
    );
    let y = run(&net, "x", &list(&[10.0, 0.0]));
    let want = [1.3125f32, 0.693_359_4];
    for (got, want) in y.to_f32().iter().zip(want) {
        assert!((got - want).abs() < 2e-3, "{got} {want}");
    }
}

#[test]
fn old_clip_takes_the_type_of_a_half_precision_operand() {
    let nodes = vec![
        node(
            "Cast",
            &["x"],
            &["h"],
            vec![int("to", i64::from(data_type::FLOAT16))],
        ),
        node(
            "Clip",
            &["h"],
            &["y"],
            vec![float("min", 0.0), float("max", 6.0)],
        ),
    ];
    let y = run(&model(9, graph(&[2], nodes)), "x", &list(&[-1.0, 7.0]));
    assert_eq!(y, half_list(&[0.0, 6.0]));
}

#[test]
fn every_element_type_is_read_from_lists_and_from_bytes() {
    let values = [0.0, 1.0, 3.0];
    for (number, dtype) in [
        (data_type::FLOAT, DType::F32),
        (data_type::DOUBLE, DType::F64),
        (data_type::FLOAT16, DType::F16),
        (data_type::BFLOAT16, DType::BF16),
        (data_type::INT8, DType::I8),
        (data_type::INT16, DType::I16),
        (data_type::INT32, DType::I32),
        (data_type::INT64, DType::I64),
        (data_type::UINT8, DType::U8),
        (data_type::UINT16, DType::U16),
        (data_type::UINT32, DType::U32),
        (data_type::UINT64, DType::U64),
        (data_type::BOOL, DType::Bool),
    ] {
        let tensor = Tensor::from_f64(dtype, [3], values.to_vec()).expect("a list");
        let raw = constant("w", &tensor);
        let mut lists = raw.clone();
        lists.raw_data = None;
        match dtype {
            DType::F32 => lists.float_data.0 = vec![0.0, 1.0, 3.0],
            DType::F64 => lists.double_data.0 = values.to_vec(),
            DType::I64 => lists.int64_data.0 = vec![0, 1, 3],
            DType::U32 | DType::U64 => lists.uint64_data.0 = vec![0, 1, 3],
            DType::F16 => lists.int32_data.0 = vec![0, 0x3c00, 0x4200],
            DType::BF16 => lists.int32_data.0 = vec![0, 0x3f80, 0x4040],
            _ => lists.int32_data.0 = vec![0, 1, 3],
        }
        assert_eq!(raw.data_type, Some(number));
        for proto in [raw, lists] {
            let net = model(
                13,
                GraphProto {
                    initializer: vec![proto],
                    output: vec![typed_value("w", number, &[3])],
                    ..graph(&[3], vec![])
                },
            );
            let read = file::parse(&net.encode(), None).expect("reads");
            let value = read.value(read.outputs[0]);
            assert_eq!(value.constant.as_deref(), Some(&tensor), "{dtype}");
        }
    }
}

#[test]
fn a_quantiser_mixes_scalars_and_lists_of_one() {
    let zero = Tensor::from_f64(DType::U8, [], vec![128.0]).expect("a scalar");
    let nodes = vec![
        node("QuantizeLinear", &["x", "scale", "zero"], &["q"], vec![]),
        node("DequantizeLinear", &["q", "scale", "zero"], &["y"], vec![]),
    ];
    let net = model(
        13,
        GraphProto {
            initializer: vec![constant("scale", &list(&[0.5])), constant("zero", &zero)],
            ..graph(&[3], nodes)
        },
    );
    let y = run(&net, "x", &list(&[0.4, -1.3, 1000.0]));
    assert_eq!(y, list(&[0.5, -1.5, 63.5]));
}

#[test]
fn empty_names_are_operands_left_out() {
    let nodes = vec![node("Clip", &["x", "", "high"], &["y"], vec![])];
    let net = model(
        13,
        GraphProto {
            initializer: vec![constant(
                "high",
                &Tensor::from_f32([], vec![1.0]).expect("a scalar"),
            )],
            ..graph(&[2], nodes)
        },
    );
    let read = file::parse(&net.encode(), None).expect("reads");
    assert_eq!(read.nodes[0].inputs[1], None);
    assert_eq!(run(&net, "x", &list(&[-5.0, 5.0])), list(&[-5.0, 1.0]));
}

#[test]
fn nodes_without_names_get_some() {
    let nodes = vec![
        node("Relu", &["x"], &["a"], vec![]),
        node("Mul", &["a", "a"], &["y"], vec![]),
    ];
    let read = file::parse(&model(13, graph(&[2], nodes)).encode(), None).expect("reads");
    let nodes: Vec<(&str, &Op)> = read
        .nodes
        .iter()
        .map(|n| (n.name.as_str(), &n.op))
        .collect();
    assert_eq!(
        nodes,
        [
            ("Relu_0", &Op::Unary(Unary::Relu)),
            ("Mul_1", &Op::Binary(Binary::Mul))
        ]
    );
}
