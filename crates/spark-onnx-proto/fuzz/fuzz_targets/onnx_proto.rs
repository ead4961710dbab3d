//! Any bytes as the messages of an ONNX file: refused, or written, read back and written as the same bytes.
//!
//! ```text
//! bytes ──decode──> model ──encode──> file ──decode──> model ──encode──> the same file
//!                     └─ functions, order of nodes, constants: refused or read
//! ```
//!
//! Bytes are compared, not messages, because a number that is none differs from itself.
//! Deliberately absent: constants in files beside the model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_onnx_proto::{
    ConstantSource, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, Packed, TensorProto,
    data_type, execution_order, flatten, read_constant, read_sparse_constant,
};

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let Ok(model) = ModelProto::decode(bytes) else { return };
        let written = model.encode();
        let again = ModelProto::decode(&written).expect("a file of our own");
        assert_eq!(again.encode(), written);
        if let Ok(nodes) = flatten(&model) {
            let _ = execution_order(&nodes, |name| name.len() < 2);
        }
        let mut source = ConstantSource::of_bytes(bytes, None);
        let Some(graph) = again.graph else { return };
        for constant in graph.initializer {
            let _ = read_constant(constant, &mut source);
        }
        for constant in graph.sparse_initializer {
            let _ = read_sparse_constant(constant, &mut source);
        }
    }
);

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if !std::path::Path::new(&folder).is_dir() {
        return;
    }
    for (name, raw) in [("raw", true), ("list", false)] {
        let _ = std::fs::write(format!("{folder}/seed-{name}"), model(raw).encode());
    }
}

/// A model of one node and one constant, whose elements are bytes or a list.
fn model(raw: bool) -> ModelProto<'static> {
    let constant = TensorProto {
        dims: vec![2],
        data_type: Some(data_type::FLOAT),
        name: Some("w".into()),
        raw_data: raw.then(|| vec![0; 8].into()),
        float_data: Packed(if raw { Vec::new() } else { vec![1.0, 2.0] }),
        ..TensorProto::default()
    };
    let node = NodeProto {
        input: vec!["x".into(), "w".into()],
        output: vec!["yy".into()],
        op_type: Some("Add".into()),
        ..NodeProto::default()
    };
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { version: Some(21), ..Default::default() }],
        graph: Some(Box::new(GraphProto {
            node: vec![node],
            initializer: vec![constant],
            ..GraphProto::default()
        })),
        ..ModelProto::default()
    }
}
