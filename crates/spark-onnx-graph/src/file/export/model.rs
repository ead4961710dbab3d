//! From a [`Graph`] to the messages of a file.
//!
//! ```text
//! each node -> one NodeProto (crate::operators); Softmax over flattened axes, and with zeros for
//!              hidden rows -> several
//! each constant -> an initializer with raw data, in the file or in a second one (save.rs)
//! ```
//!
//! Files are of operator set 21, which every runtime of the last years reads, or, where the graph holds
//! an operator that 21 lacks, of the first that has it (23 for RMSNormalization, 24 for Swish, 26 for CumProd).
//!
//! Deliberately absent: shapes with symbols that the graph does not declare. An output's
//! shape is written where it is declared, or follows from inputs of fixed shapes.

use std::collections::{BTreeMap, HashSet};

use super::graph::{Scope, constant_bytes, domain_versions, element_types, operator_set};
use crate::ModelError;
use crate::file::error::OnnxError;
use crate::file::tensors::{number_of, write_tensor};
use crate::graph::{Dim, Graph, Value, bind};
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::{
    DimensionProto, GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TensorTypeProto, Text, TypeProto, ValueInfoProto,
};

/// Version of the file format; the first that operator set 21 came with.
const IR_VERSION: i64 = 10;

/// Most bytes of constants in one file: protocol buffers end at 2 GiB, and nodes take some.
pub(super) const MAX_INLINE_BYTES: usize = 1_900_000_000;

/// Writes a graph as the bytes of an ONNX file.
///
/// # Errors
///
/// [`OnnxError::NeedsFile`] if the constants take more than 1.9 GB, which only [`save`](super::save())
/// can write; [`OnnxError::Export`] for what ONNX cannot express.
pub fn to_bytes(graph: &Graph) -> Result<Vec<u8>, ModelError> {
    let n_bytes = constant_bytes(graph);
    if n_bytes > MAX_INLINE_BYTES {
        return Err(OnnxError::NeedsFile {
            bytes: n_bytes,
            limit: MAX_INLINE_BYTES,
        }
        .into());
    }
    let model = to_model(graph, &mut |name, tensor| Ok(write_tensor(name, tensor)))?;
    Ok(model.encode())
}

/// How a constant gets into the file.
pub(super) type WriteConstant<'w, 'g> =
    dyn FnMut(&'g str, &'g Tensor) -> Result<TensorProto<'g>, ModelError> + 'w;

pub(super) fn to_model<'g>(
    graph: &'g Graph,
    write_constant: &mut WriteConstant<'_, 'g>,
) -> Result<ModelProto<'g>, ModelError> {
    let mut out = GraphProto {
        name: text(if graph.name.is_empty() {
            "graph"
        } else {
            &graph.name
        }),
        ..GraphProto::default()
    };
    for value in &graph.values {
        if let Some(tensor) = &value.constant {
            out.initializer.push(write_constant(&value.name, tensor)?);
        }
    }
    let mut taken: HashSet<String> = graph.values.iter().map(|v| v.name.clone()).collect();
    taken.insert(String::new());
    let scope = Scope {
        graph,
        names: graph
            .values
            .iter()
            .map(|v| Text::Borrowed(&*v.name))
            .collect(),
        dtypes: element_types(graph, &[]),
    };
    out.node = scope.nodes(&mut taken)?;
    let dtypes = scope.dtypes;
    for id in &graph.inputs {
        out.input
            .push(value_info(graph.value(*id), dtypes[id.0], "input")?);
    }
    let shapes = output_shapes(graph);
    for (id, shape) in graph.outputs.iter().zip(shapes) {
        let mut info = value_info(graph.value(*id), dtypes[id.0], "output")?;
        let ty = info.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
        if let (Some(ty), Some(shape)) = (ty, shape) {
            ty.shape
                .get_or_insert_with(|| Box::new(fixed_shape(&shape)));
        }
        out.output.push(info);
    }
    let mut versions = BTreeMap::from([("", operator_set(graph))]);
    domain_versions(graph, &mut versions)?;
    let opset_import = versions
        .into_iter()
        .map(|(domain, version)| OperatorSetIdProto {
            domain: text(domain),
            version: Some(version),
        });
    Ok(ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: text("spark"),
        producer_version: text(env!("CARGO_PKG_VERSION")),
        opset_import: opset_import.collect(),
        metadata_props: graph
            .metadata
            .iter()
            .map(|(key, value)| StringStringEntryProto {
                key: text(key),
                value: text(value),
            })
            .collect(),
        graph: Some(Box::new(out)),
        ..ModelProto::default()
    })
}

fn text(value: &str) -> Option<Text<'_>> {
    Some(Text::Borrowed(value))
}

/// Shapes of the outputs, if some are not declared and all follow from the inputs'.
fn output_shapes(graph: &Graph) -> Vec<Option<Vec<usize>>> {
    let n_outputs = graph.outputs.len();
    let mut outputs = graph.outputs.iter();
    if outputs.all(|id| graph.value(*id).shape.is_some()) {
        return vec![None; n_outputs];
    }
    match bind(graph, &[]) {
        Ok(bound) => bound
            .outputs
            .iter()
            .map(|id| Some(bound.value(*id).ty.shape.clone()))
            .collect(),
        // Symbols among the inputs' extents; readers infer what they need.
        Err(_) => vec![None; n_outputs],
    }
}

fn fixed_shape(shape: &[usize]) -> TensorShapeProto<'static> {
    let dim = |&extent: &usize| DimensionProto {
        dim_value: Some(extent as i64),
        ..DimensionProto::default()
    };
    TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
    }
}

fn value_info<'g>(
    value: &'g Value,
    dtype: Option<DType>,
    what: &'static str,
) -> Result<ValueInfoProto<'g>, OnnxError> {
    let Some(dtype) = dtype else {
        return Err(OnnxError::Value {
            what,
            name: value.name.clone(),
            reason: "its element type is not known".to_owned(),
        });
    };
    let dimension = |dim: &'g Dim| match dim {
        Dim::Known(extent) => DimensionProto {
            dim_value: Some(*extent as i64),
            ..DimensionProto::default()
        },
        Dim::Symbol(name) => DimensionProto {
            dim_param: text(name),
            ..DimensionProto::default()
        },
        Dim::Unknown => DimensionProto::default(),
    };
    let shape = value.shape.as_ref().map(|dims| {
        Box::new(TensorShapeProto {
            dim: dims.iter().map(dimension).collect(),
        })
    });
    Ok(ValueInfoProto {
        name: text(&value.name),
        r#type: Some(Box::new(TypeProto {
            tensor_type: Some(Box::new(TensorTypeProto {
                elem_type: Some(number_of(dtype)),
                shape,
            })),
            ..TypeProto::default()
        })),
        ..ValueInfoProto::default()
    })
}
