//! Files that lie, contradict themselves or ask for too much: each gives its error; sound ones come
//! back byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::*;

/// A model of one node and one constant.
fn sound() -> ModelProto<'static> {
    let node = NodeProto {
        input: vec!["x".into(), "w".into()],
        output: vec!["y".into()],
        op_type: Some("Add".into()),
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        initializer: vec![pair([1.0, 2.0])],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto {
            version: Some(21),
            ..OperatorSetIdProto::default()
        }],
        graph: Some(Box::new(graph)),
        ..ModelProto::default()
    }
}

/// The constant `w`, of two numbers.
fn pair(values: [f32; 2]) -> TensorProto<'static> {
    TensorProto {
        dims: vec![2],
        data_type: Some(data_type::FLOAT),
        name: Some("w".into()),
        raw_data: Some(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        ..TensorProto::default()
    }
}

#[track_caller]
fn refused(bytes: &[u8]) -> ProtoError {
    ModelProto::decode(bytes).expect_err("refused")
}

#[track_caller]
fn check_wire(bytes: &[u8], wanted: WireProblem) {
    match refused(bytes) {
        ProtoError::Wire { problem, .. } => assert_eq!(problem, wanted),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn check_constant(spoil: impl FnOnce(&mut TensorProto<'static>), wanted: &str) {
    let mut proto = pair([1.0, 2.0]);
    spoil(&mut proto);
    let error = read_constant(proto, &mut ConstantSource::of_bytes(&[], None));
    assert_eq!(error.expect_err("refused").to_string(), wanted);
}

#[test]
fn a_model_comes_back_as_it_was_written() {
    let bytes = sound().encode();
    let model = ModelProto::decode(&bytes).expect("of our own");
    assert_eq!(model, sound());
    assert_eq!(model.encode(), bytes);
}

#[test]
fn every_truncation_is_an_error_or_a_smaller_model() {
    let bytes = sound().encode();
    for end in 0..bytes.len() {
        if let Ok(model) = ModelProto::decode(&bytes[..end]) {
            assert_eq!(model.encode(), bytes[..end]);
        }
    }
}

#[test]
fn varint_overflows() {
    check_wire(
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02,
        ],
        WireProblem::VarintOverflow,
    );
    check_wire(&[0xff; 20], WireProblem::VarintOverflow);
}

#[test]
fn varint_is_cut_off() {
    check_wire(&[0x08, 0xff], WireProblem::Truncated);
}

#[test]
fn length_points_beyond_the_end() {
    let length = u64::MAX >> 1;
    let mut bytes = vec![0x3a];
    bytes.extend([0xff; 8]);
    bytes.push(0x7f);
    check_wire(&bytes, WireProblem::Length { length, left: 0 });
    check_wire(&[0x3a, 5, 1], WireProblem::Length { length: 5, left: 1 });
}

#[test]
fn fixed_numbers_are_cut_off() {
    check_wire(&[0x0d, 1, 2], WireProblem::Truncated);
    check_wire(&[0x09, 1, 2], WireProblem::Truncated);
}

#[test]
fn groups_are_refused() {
    check_wire(&[0x0b], WireProblem::WireType(3));
    check_wire(&[0x0c], WireProblem::WireType(4));
    check_wire(&[0x0f], WireProblem::WireType(7));
}

#[test]
fn field_number_zero() {
    check_wire(&[0x00, 0x00], WireProblem::FieldNumber(0));
}

#[test]
fn graph_is_a_number() {
    check_wire(&[0x38, 0x01], WireProblem::FieldType(7));
}

#[test]
fn name_is_not_utf8() {
    check_wire(&[0x12, 2, 0xc3, 0x28], WireProblem::Text(2));
}

#[test]
fn packed_floats_end_within_a_number() {
    // graph { initializer { float_data: 3 bytes } }
    check_wire(
        &[0x3a, 7, 0x2a, 5, 0x22, 3, 0, 0, 0],
        WireProblem::FieldType(4),
    );
}

#[test]
fn a_pointer_of_git_lfs_is_named_as_such() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let error = ModelProto::decode(pointer).expect_err("no model");
    assert!(matches!(error, ProtoError::LfsPointer));
    assert!(error.to_string().contains("git lfs pull"));
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = sound().encode();
    // Field 1000 in each wire type there is.
    bytes.extend([0xc0, 0x3e, 0x05]);
    bytes.extend([0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend([0xc2, 0x3e, 2, 9, 9]);
    bytes.extend([0xc5, 0x3e, 1, 2, 3, 4]);
    assert_eq!(ModelProto::decode(&bytes).expect("loads"), sound());
}

#[test]
fn graphs_within_graphs_within_graphs() {
    // graph { node { attribute { g { node { ... } } } } }, inside out.
    let mut graph = Vec::new();
    for _ in 0..20_000 {
        let mut wrapped = graph;
        for key in [0x32, 0x2a, 0x0a] {
            let mut outer = vec![key];
            let mut length = wrapped.len();
            while length >= 0x80 {
                outer.push(length as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            outer.append(&mut wrapped);
            wrapped = outer;
        }
        graph = wrapped;
        if graph.len() > 100_000 {
            break;
        }
    }
    let mut bytes = vec![0x3a];
    let mut length = graph.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(graph);
    check_wire(&bytes, WireProblem::Depth(100));
}

#[test]
fn millions_of_empty_messages() {
    // Two bytes each for nodes of some hundred bytes.
    let n = 4 << 20;
    let mut bytes = vec![0x3a];
    let mut length = 2 * n;
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend([0x0a, 0x00].repeat(n));
    let error = refused(&bytes);
    assert!(matches!(error, ProtoError::Memory { .. }), "{error}");
}

// What the messages mean.

#[test]
fn nodes_are_flattened_and_ordered() {
    let mut model = sound();
    let graph = model.graph.as_deref_mut().expect("it has a graph");
    let mut first = graph.node[0].clone();
    first.input = vec!["y".into(), "w".into()];
    first.output = vec!["z".into()];
    graph.node.insert(0, first);
    let nodes = flatten(&model).expect("versions that are read");
    let is_given = |name: &str| ["x", "w"].contains(&name);
    assert_eq!(execution_order(&nodes, is_given).expect("no cycle"), [1, 0]);
    let error = execution_order(&nodes, |name| name == "w").expect_err("nobody makes x");
    assert!(matches!(error, ProtoError::Dangling { .. }), "{error}");
    model.graph = None;
    assert!(matches!(flatten(&model), Err(ProtoError::NoGraph)));
}

#[test]
fn constants_hold_what_their_shape_says() {
    check_constant(
        |t| t.dims = vec![3],
        "tensor `w`: 8 bytes of data, 3 elements of f32 take 12",
    );
    check_constant(|t| t.dims = vec![-2], "tensor `w`: extent -2 in shape [-2]");
    check_constant(
        |t| t.dims = vec![1 << 20, 1 << 20],
        "tensor `w`: shape [1048576, 1048576] has too many elements",
    );
    check_constant(
        |t| t.raw_data = None,
        "tensor `w`: 0 elements of f32, its shape holds 2",
    );
    check_constant(
        |t| t.segment = Some(Cow::Borrowed(&[])),
        "tensor `w`: tensors in pieces are not supported",
    );
    check_constant(
        |t| t.data_type = Some(8),
        "tensor `w`: texts are not supported",
    );
    check_constant(
        |t| t.data_type = Some(24),
        "tensor `w`: element type float8e8m0 is not supported",
    );
    check_constant(
        |t| t.data_type = Some(99),
        "tensor `w`: element type 99 does not exist",
    );
    check_constant(
        |t| t.data_type = None,
        "tensor `w`: its element type is not stated",
    );
}

#[test]
fn element_types_and_numbers_are_one_to_one() {
    for number in -1..40 {
        if let Ok(element_type) = ElementType::from_number(number) {
            assert_eq!(element_type.number(), number);
        }
    }
}

#[test]
fn a_constant_beside_the_model_stays_in_its_folder() {
    let outside = |t: &mut TensorProto<'static>| {
        t.raw_data = None;
        t.data_location = Some(1);
        t.external_data = vec![StringStringEntryProto {
            key: Some("location".into()),
            value: Some("../w".into()),
        }];
    };
    let mut proto = pair([1.0, 2.0]);
    outside(&mut proto);
    let folder = std::env::temp_dir();
    let error = read_constant(proto, &mut ConstantSource::of_bytes(&[], Some(&folder)));
    assert_eq!(
        error.expect_err("refused").to_string(),
        "tensor `w`: external data `../w`: the path does not stay in the model's folder"
    );
    check_constant(
        outside,
        "tensor `w`: external data `../w`: the model was not read from a folder",
    );
}

#[test]
fn a_replaced_constant_changes_nothing_else() {
    let mut bytes = sound().encode();
    bytes.extend([0xc0, 0x3e, 0x05]); // field 1000, unknown
    let new = BTreeMap::from([("w".to_owned(), [3.0, 4.0])]);
    let edited = replace_constants(&bytes, &new, |_, values| pair(*values)).expect("a constant");
    let differ: Vec<usize> = (0..bytes.len())
        .filter(|&i| bytes[i] != edited[i])
        .collect();
    assert_eq!(edited.len(), bytes.len());
    assert!(differ.len() <= 8 && !differ.is_empty(), "{differ:?}");
    let unknown = BTreeMap::from([("v".to_owned(), [3.0, 4.0])]);
    let error = replace_constants(&bytes, &unknown, |_, values| pair(*values));
    assert_eq!(
        error.expect_err("refused").to_string(),
        "the list of replacements needs `v`, which is no input, constant or result of any node"
    );
    let error = replace_constants(&bytes, &new, |_, values| TensorProto {
        dims: vec![2, 1],
        ..pair(*values)
    });
    assert_eq!(
        error.expect_err("refused").to_string(),
        "tensor `w`: shape [2, 1] and type f32 cannot replace shape [2] and type number 1"
    );
}
