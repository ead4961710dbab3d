//! Models that lie, contradict themselves or ask for too much: each gives its error.

use std::borrow::Cow;

use spark_onnx_graph::file::{self, OnnxError, ProtoError};
use spark_onnx_graph::{ModelError, Tensor};
use spark_onnx_proto::Packed;
use spark_onnx_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto,
    TensorProto, TypeProto, ValueInfoProto, attribute_type, data_type,
};

use crate::samples::messages::{
    constant, graph, graph_attribute, int, ints, model, node, operator_set, text, typed_value,
    value,
};

/// A model that loads; each test spoils one thing.
fn sound() -> ModelProto<'static> {
    let nodes = vec![
        node("Relu", &["x"], &["a"], vec![]),
        node("Add", &["a", "w"], &["y"], vec![]),
    ];
    let weights = Tensor::from_f32([2], vec![1.0, 2.0]).expect("a list");
    let graph = GraphProto {
        initializer: vec![constant("w", &weights)],
        ..graph(&[1, 2], nodes)
    };
    model(13, graph)
}

pub(crate) fn spoiled(spoil: impl FnOnce(&mut GraphProto<'static>)) -> Vec<u8> {
    let mut model = sound();
    spoil(model.graph.as_deref_mut().expect("it has a graph"));
    model.encode()
}

#[track_caller]
fn refused(bytes: &[u8]) -> ModelError {
    file::parse(bytes, None).expect_err("refused")
}

#[track_caller]
fn check(bytes: &[u8], wanted: &[&str]) {
    let message = refused(bytes).to_string();
    for part in wanted {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn the_unspoiled_model_loads() {
    file::parse(&sound().encode(), None).expect("loads");
}

// The wire format; `spark-onnx-proto` has the rest.

#[test]
fn an_empty_file_has_no_graph() {
    check(&[], &["no graph"]);
    let mut model = sound();
    model.graph = None;
    check(&model.encode(), &["no graph"]);
}

#[test]
fn every_truncation_is_an_error_or_a_smaller_model() {
    let bytes = sound().encode();
    for end in 0..bytes.len() {
        if let Ok(graph) = file::parse(&bytes[..end], None) {
            // Only what stands behind the graph can be missing.
            assert_eq!(graph.nodes.len(), 2);
        }
    }
}

// Versions.

#[test]
fn file_format_version_is_unknown() {
    for version in [0, 2, 15, -1, i64::MAX] {
        let mut model = sound();
        model.ir_version = Some(version);
        check(&model.encode(), &["IR version", &version.to_string()]);
    }
}

#[test]
fn operator_set_is_missing_or_unknown() {
    let mut model = sound();
    model.opset_import.clear();
    check(&model.encode(), &["Relu", "imports no operator set"]);
    for version in [29, 0, -3] {
        model.opset_import = vec![operator_set("ai.onnx", version)];
        check(
            &model.encode(),
            &["operator set", &version.to_string(), "between 1 and 28"],
        );
    }
}

#[test]
fn operator_set_is_stated_twice() {
    let mut model = sound();
    model.opset_import.push(operator_set("ai.onnx", 14));
    check(&model.encode(), &["operator set", "twice"]);
}

#[test]
fn unknown_operator_names_node_operator_version_and_alternatives() {
    let bytes = spoiled(|g| {
        g.node[0].op_type = text("Frobnicate");
        g.node[0].name = text("odd");
    });
    check(
        &bytes,
        &[
            "`odd`",
            "ai.onnx::Frobnicate",
            "operator set 13",
            "`file::supported_operators`",
        ],
    );
    // Misspelt, or of the other domain.
    for (name, nearest) in [
        (
            "BatchNormalisation",
            "nearest names are BatchNormalization,",
        ),
        ("matmul", "nearest names are MatMul,"),
        ("FusedMatmul", "com.microsoft::FusedMatMul"),
    ] {
        check(&spoiled(|g| g.node[0].op_type = text(name)), &[nearest]);
    }
    let mut model = sound();
    model.opset_import.push(operator_set("my.domain", 3));
    let graph = model.graph.as_deref_mut().expect("it has a graph");
    graph.node[0].domain = text("my.domain");
    check(&model.encode(), &["my.domain::Relu", "operator set 3"]);
}

#[test]
fn control_flow_sequences_and_texts_say_so() {
    let bytes = spoiled(|g| {
        g.node[0].op_type = text("SequenceMap");
        let body = graph_attribute("body", GraphProto::default());
        g.node[0].attribute.push(body);
    });
    check(&bytes, &["ai.onnx::SequenceMap", "only If, Loop and Scan"]);
    check(
        &spoiled(|g| g.node[0].op_type = text("SequenceConstruct")),
        &["sequences"],
    );
    check(
        &spoiled(|g| g.node[0].op_type = text("StringNormalizer")),
        &["texts"],
    );
    let bytes = spoiled(|g| g.initializer[0].data_type = Some(data_type::STRING));
    check(&bytes, &["`w`", "texts"]);
    let bytes = spoiled(|g| {
        g.input[0].r#type = Some(Box::new(TypeProto {
            sequence_type: Some(Cow::Borrowed(&[])),
            ..TypeProto::default()
        }));
    });
    check(&bytes, &["`x`", "sequences"]);
}

// Names.

#[test]
fn name_leads_nowhere() {
    let bytes = spoiled(|g| g.node[1].input[0] = "nobody".into());
    check(&bytes, &["`nobody`", "Add"]);
    check(
        &spoiled(|g| g.output[0].name = text("nobody")),
        &["`nobody`", "outputs"],
    );
}

#[test]
fn two_nodes_make_the_same_value() {
    check(
        &spoiled(|g| g.node[0].output[0] = "y".into()),
        &["`y`", "twice"],
    );
    let bytes = spoiled(|g| g.node[0].output = vec!["a".into(), "a".into()]);
    check(&bytes, &["`a`", "twice"]);
}

#[test]
fn a_node_makes_an_input_or_a_constant() {
    check(
        &spoiled(|g| g.node[0].output[0] = "x".into()),
        &["`x`", "twice"],
    );
    check(
        &spoiled(|g| g.node[0].output[0] = "w".into()),
        &["`w`", "twice"],
    );
}

#[test]
fn constants_inputs_or_outputs_share_a_name() {
    let bytes = spoiled(|g| g.initializer.push(g.initializer[0].clone()));
    check(&bytes, &["constant `w`", "twice"]);
    let bytes = spoiled(|g| g.input.push(g.input[0].clone()));
    check(&bytes, &["input `x`", "twice"]);
    let bytes = spoiled(|g| g.output.push(g.output[0].clone()));
    check(&bytes, &["output `y`", "twice"]);
}

#[test]
fn constants_and_inputs_have_no_name() {
    check(
        &spoiled(|g| g.initializer[0].name = None),
        &["constant", "no name"],
    );
    check(&spoiled(|g| g.input[0].name = None), &["input", "no name"]);
}

#[test]
fn nodes_form_a_cycle() {
    let bytes = spoiled(|g| g.node[0].input[0] = "y".into());
    check(&bytes, &["cycle", "Relu_0", "Add_1"]);
    let bytes = spoiled(|g| g.node[0].input[0] = "a".into());
    check(&bytes, &["cycle", "Relu_0"]);
}

#[test]
fn a_graph_without_outputs() {
    check(&spoiled(|g| g.output.clear()), &["no output"]);
}

#[test]
fn a_node_without_results() {
    let bytes = spoiled(|g| {
        g.node.push(node("Relu", &["x"], &[], vec![]));
    });
    check(&bytes, &["Relu", "no result"]);
}

// Tensors.

#[test]
fn shape_product_overflows() {
    let bytes = spoiled(|g| g.initializer[0].dims = vec![i64::MAX, i64::MAX, i64::MAX]);
    check(&bytes, &["`w`", "too many elements"]);
    let bytes = spoiled(|g| g.initializer[0].dims = vec![1 << 40]);
    check(&bytes, &["`w`", "too many elements"]);
    let bytes = spoiled(|g| g.input[0] = value("x", &[1 << 40, 1 << 40]));
    check(&bytes, &["`x`", "too many elements"]);
}

#[test]
fn extent_is_negative() {
    check(
        &spoiled(|g| g.initializer[0].dims = vec![-2]),
        &["`w`", "-2"],
    );
    check(
        &spoiled(|g| g.input[0] = value("x", &[1, -7])),
        &["`x`", "-7"],
    );
}

#[test]
fn too_many_axes() {
    check(
        &spoiled(|g| g.initializer[0].dims = vec![1; 1000]),
        &["`w`", "1000 axes"],
    );
    check(
        &spoiled(|g| g.input[0] = value("x", &[1; 1000])),
        &["`x`", "1000 axes"],
    );
}

#[test]
fn data_does_not_fill_the_shape() {
    check(
        &spoiled(|g| g.initializer[0].dims = vec![3]),
        &["`w`", "8 bytes", "12"],
    );
    let bytes = spoiled(|g| {
        g.initializer[0].raw_data = None;
        g.initializer[0].float_data = Packed(vec![1.0]);
    });
    check(&bytes, &["`w`", "1 elements"]);
    check(
        &spoiled(|g| g.initializer[0].raw_data = None),
        &["`w`", "0 elements"],
    );
}

#[test]
fn element_does_not_fit_its_type() {
    for (number, element) in [
        (data_type::UINT8, 256),
        (data_type::INT8, 128),
        (data_type::FLOAT16, -1),
        (data_type::UINT16, 65536),
    ] {
        let bytes = spoiled(|g| {
            g.initializer[0].raw_data = None;
            g.initializer[0].data_type = Some(number);
            g.initializer[0].int32_data = Packed(vec![0, element]);
        });
        check(&bytes, &["`w`", &element.to_string(), "does not fit"]);
    }
}

#[test]
fn element_type_is_missing_or_unknown() {
    check(
        &spoiled(|g| g.initializer[0].data_type = None),
        &["not stated"],
    );
    check(
        &spoiled(|g| g.initializer[0].data_type = Some(99)),
        &["99 does not exist"],
    );
    check(
        &spoiled(|g| g.initializer[0].data_type = Some(24)),
        &["float8e8m0"],
    );
    check(
        &spoiled(|g| g.input[0] = typed_value("x", 0, &[1])),
        &["`x`", "not stated"],
    );
    let bytes = spoiled(|g| {
        g.input[0] = ValueInfoProto {
            name: text("x"),
            ..ValueInfoProto::default()
        };
    });
    check(&bytes, &["`x`", "not stated"]);
}

#[test]
fn tensors_in_pieces_are_refused() {
    check(
        &spoiled(|g| g.initializer[0].segment = Some(Cow::Borrowed(&[]))),
        &["pieces"],
    );
}

fn sparse(dims: &[i64], indices: &[i64], shape: &[i64]) -> Vec<u8> {
    let values = Tensor::from_f32([2], vec![5.0, 6.0]).expect("a list");
    let indices = TensorProto {
        dims: shape.to_vec(),
        data_type: Some(data_type::INT64),
        int64_data: Packed(indices.to_vec()),
        ..TensorProto::default()
    };
    let proto = SparseTensorProto {
        values: Some(Box::new(constant("w", &values))),
        indices: Some(Box::new(indices)),
        dims: dims.to_vec(),
    };
    spoiled(|g| {
        g.initializer.clear();
        g.sparse_initializer.push(proto);
    })
}

#[test]
fn sparse_constants_become_dense() {
    for bytes in [
        sparse(&[2, 2], &[1, 2], &[2]),
        sparse(&[2, 2], &[0, 1, 1, 0], &[2, 2]),
    ] {
        let graph = file::parse(&bytes, None).expect("loads");
        let dense = graph.values.iter().find_map(|v| v.constant.as_deref());
        let want = Tensor::from_f32([2, 2], vec![0.0, 5.0, 6.0, 0.0]).expect("four");
        assert_eq!(dense, Some(&want));
    }
}

#[test]
fn sparse_constants_that_lie() {
    check(&sparse(&[2, 2], &[1, 4], &[2]), &["`w`", "index 4"]);
    check(&sparse(&[2, 2], &[1, -1], &[2]), &["`w`", "index -1"]);
    check(
        &sparse(&[2, 2], &[0, 2, 0, 0], &[2, 2]),
        &["`w`", "index 2"],
    );
    check(&sparse(&[2, 2], &[1], &[1]), &["`w`", "indices of shape"]);
    check(
        &sparse(&[1 << 20, 1 << 20], &[1, 2], &[2]),
        &["`w`", "too many elements"],
    );
    // Under the limit on elements, over the one on memory.
    let error = refused(&sparse(&[1 << 15, 1 << 15], &[1, 2], &[2]));
    assert!(
        matches!(
            error,
            ModelError::Onnx(OnnxError::Proto(ProtoError::Memory { .. }))
        ),
        "{error}"
    );
}

// Nodes.

#[test]
fn attribute_is_of_the_wrong_kind() {
    let bytes = spoiled(|g| {
        g.node[0] = node("Elu", &["x"], &["a"], vec![int("alpha", 1)]);
    });
    check(&bytes, &["Elu", "`alpha`", "kind 2, 1 wanted"]);
    let bytes = spoiled(|g| {
        let untyped = AttributeProto {
            name: text("alpha"),
            f: Some(1.0),
            ..AttributeProto::default()
        };
        g.node[0] = node("Elu", &["x"], &["a"], vec![untyped]);
    });
    check(&bytes, &["Elu", "`alpha`", "kind 0"]);
}

#[test]
fn attribute_is_unknown_or_stated_twice() {
    let bytes = spoiled(|g| g.node[0].attribute.push(int("slope", 1)));
    check(&bytes, &["Relu", "`slope`"]);
    let bytes = spoiled(|g| g.node[0].attribute = vec![int("a", 1), int("a", 2)]);
    check(&bytes, &["attribute `a`", "Relu_0", "twice"]);
    let bytes = spoiled(|g| {
        g.node[0].attribute = (0..300).map(|i| int("a", i)).collect();
    });
    check(&bytes, &["attributes", "300"]);
}

#[test]
fn attribute_refers_to_no_function() {
    let bytes = spoiled(|g| {
        g.node[0].attribute.push(AttributeProto {
            name: text("alpha"),
            ref_attr_name: text("outer"),
            r#type: Some(attribute_type::FLOAT),
            ..AttributeProto::default()
        });
    });
    check(&bytes, &["`alpha`", "`outer`"]);
}

#[test]
fn operands_are_too_few_or_too_many() {
    check(
        &spoiled(|g| g.node[1].input.truncate(1)),
        &["Add", "operand 1 is missing"],
    );
    check(
        &spoiled(|g| g.node[1].input[0] = "".into()),
        &["Add", "operand 0 is missing"],
    );
    check(
        &spoiled(|g| g.node[0].input.push("w".into())),
        &["Relu", "2 operands"],
    );
}

// Functions.

fn function(name: &'static str, nodes: Vec<NodeProto<'static>>) -> FunctionProto<'static> {
    FunctionProto {
        name: text(name),
        domain: text("my"),
        input: vec!["p".into()],
        output: vec!["q".into()],
        node: nodes,
        opset_import: vec![operator_set("", 13), operator_set("my", 1)],
        ..FunctionProto::default()
    }
}

fn with_functions(functions: Vec<FunctionProto<'static>>) -> Vec<u8> {
    let mut model = sound();
    model.opset_import.push(operator_set("my", 1));
    model.functions = functions;
    let graph = model.graph.as_deref_mut().expect("it has a graph");
    graph.node[0] = my("f0", "x", "a");
    model.encode()
}

fn my(name: &'static str, input: &'static str, output: &'static str) -> NodeProto<'static> {
    NodeProto {
        domain: text("my"),
        ..node(name, &[input], &[output], vec![])
    }
}

#[test]
fn a_function_calls_itself() {
    check(
        &with_functions(vec![function("f0", vec![my("f0", "p", "q")])]),
        &["my::f0", "deep"],
    );
}

#[test]
fn functions_multiply() {
    // Each level calls the next a hundred times; twenty levels would be 10^40 nodes.
    const NAMES: [&str; 20] = [
        "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13",
        "f14", "f15", "f16", "f17", "f18", "f19",
    ];
    let level = |index: usize| {
        let body = match NAMES.get(index + 1) {
            Some(next) => (0..100)
                .map(|_| NodeProto {
                    output: Vec::new(),
                    ..my(next, "p", "q")
                })
                .collect(),
            None => vec![],
        };
        function(NAMES[index], body)
    };
    check(
        &with_functions((0..20).map(level).collect()),
        &["number of nodes"],
    );
}

#[test]
fn functions_are_defined_twice_or_called_wrongly() {
    let body = || vec![node("Relu", &["p"], &["q"], vec![])];
    let bytes = with_functions(vec![function("f0", body()), function("f0", body())]);
    check(&bytes, &["function `my::f0`", "twice"]);
    let mut narrow = function("f0", body());
    narrow.input.clear();
    check(&with_functions(vec![narrow]), &["operands of a call"]);
    let mut silent = function("f0", body());
    silent.output.clear();
    check(&with_functions(vec![silent]), &["results of a call"]);
    let unmade = function("f0", vec![node("Relu", &["p"], &["other"], vec![])]);
    check(&with_functions(vec![unmade]), &["`a`", "Add"]);
}

/// Nodes `Col2Im(x, im, bl)` for blocks of `block * block`.
fn laid(
    n_nodes: usize,
    block: i64,
    attributes: &dyn Fn() -> Vec<AttributeProto<'static>>,
) -> Vec<u8> {
    let nodes = (0..n_nodes).map(|i| NodeProto {
        output: vec![match i {
            0 => Cow::Borrowed("y"),
            _ => Cow::Owned(format!("y{i}")),
        }],
        ..node("Col2Im", &["x", "im", "bl"], &[], attributes())
    });
    let list = |values: [i64; 2]| Tensor::from_i64([2], values.to_vec()).expect("a list");
    let (image, blocks) = (list([64, 64]), list([block; 2]));
    let graph = GraphProto {
        initializer: vec![constant("im", &image), constant("bl", &blocks)],
        ..graph(&[1, 1024, 1089], nodes.collect())
    };
    model(18, graph).encode()
}

#[test]
fn tables_that_nodes_are_given_are_paid_for() {
    // Each takes four MiB, and some forty bytes of the file.
    check(&laid(200, 32, &Vec::new), &["a constant needs more than"]);
}

#[test]
fn as_many_blocks_as_no_number_counts_are_refused() {
    let pads = || vec![ints("pads", &[0, 1, i64::MAX, 0])];
    check(&laid(1, 2, &pads), &["do not fit an image"]);
}
