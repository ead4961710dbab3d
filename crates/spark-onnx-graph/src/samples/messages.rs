//! Builds the messages of ONNX files by hand, as exporters write them.

use crate::file::tensors::write_tensor;
use crate::tensor::Tensor;
use spark_onnx_proto::Text;
use spark_onnx_proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type as kind,
    data_type,
};

pub(crate) fn text(value: &'static str) -> Option<Text<'static>> {
    Some(Text::Borrowed(value))
}

fn attribute(name: &'static str, r#type: i32) -> AttributeProto<'static> {
    AttributeProto {
        name: text(name),
        r#type: Some(r#type),
        ..AttributeProto::default()
    }
}

pub(crate) fn int(name: &'static str, value: i64) -> AttributeProto<'static> {
    AttributeProto {
        i: Some(value),
        ..attribute(name, kind::INT)
    }
}

pub(crate) fn ints(name: &'static str, values: &[i64]) -> AttributeProto<'static> {
    AttributeProto {
        ints: values.to_vec(),
        ..attribute(name, kind::INTS)
    }
}

pub(crate) fn float(name: &'static str, value: f32) -> AttributeProto<'static> {
    AttributeProto {
        f: Some(value),
        ..attribute(name, kind::FLOAT)
    }
}

pub(crate) fn floats(name: &'static str, values: &[f32]) -> AttributeProto<'static> {
    AttributeProto {
        floats: values.to_vec(),
        ..attribute(name, kind::FLOATS)
    }
}

pub(crate) fn string(name: &'static str, value: &'static str) -> AttributeProto<'static> {
    AttributeProto {
        s: Some(value.as_bytes().into()),
        ..attribute(name, kind::STRING)
    }
}

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "this crate's own tests write models with it")
)]
pub(crate) fn graph_attribute(
    name: &'static str,
    graph: GraphProto<'static>,
) -> AttributeProto<'static> {
    AttributeProto {
        g: Some(Box::new(graph)),
        ..attribute(name, kind::GRAPH)
    }
}

pub(crate) fn tensor_attribute(name: &'static str, value: &Tensor) -> AttributeProto<'static> {
    AttributeProto {
        t: Some(Box::new(constant("", value))),
        ..attribute(name, kind::TENSOR)
    }
}

/// A constant that owns its elements.
pub(crate) fn constant(
    name: &'static str,
    value: &Tensor,
) -> spark_onnx_proto::TensorProto<'static> {
    let written = write_tensor(name, value);
    spark_onnx_proto::TensorProto {
        dims: written.dims.clone(),
        data_type: written.data_type,
        name: text(name),
        raw_data: written.raw_data.map(|bytes| bytes.into_owned().into()),
        ..Default::default()
    }
}

pub(crate) fn node(
    op_type: &'static str,
    inputs: &[&'static str],
    outputs: &[&'static str],
    attributes: Vec<AttributeProto<'static>>,
) -> NodeProto<'static> {
    NodeProto {
        input: inputs.iter().map(|n| Text::Borrowed(*n)).collect(),
        output: outputs.iter().map(|n| Text::Borrowed(*n)).collect(),
        op_type: text(op_type),
        attribute: attributes,
        ..NodeProto::default()
    }
}

/// A value of f32 with fixed extents; -1 stands for the symbol `N`.
pub(crate) fn value(name: &'static str, shape: &[i64]) -> ValueInfoProto<'static> {
    typed_value(name, data_type::FLOAT, shape)
}

pub(crate) fn typed_value(
    name: &'static str,
    elem_type: i32,
    shape: &[i64],
) -> ValueInfoProto<'static> {
    let dim = |&extent: &i64| match extent {
        -1 => DimensionProto {
            dim_param: text("N"),
            ..DimensionProto::default()
        },
        extent => DimensionProto {
            dim_value: Some(extent),
            ..DimensionProto::default()
        },
    };
    let shape = TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
    };
    ValueInfoProto {
        name: text(name),
        r#type: Some(Box::new(TypeProto {
            tensor_type: Some(Box::new(TensorTypeProto {
                elem_type: Some(elem_type),
                shape: Some(Box::new(shape)),
            })),
            ..TypeProto::default()
        })),
        ..ValueInfoProto::default()
    }
}

pub(crate) fn operator_set(domain: &'static str, version: i64) -> OperatorSetIdProto<'static> {
    OperatorSetIdProto {
        domain: text(domain),
        version: Some(version),
    }
}

pub(crate) fn model(opset: i64, graph: GraphProto<'static>) -> ModelProto<'static> {
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![operator_set("", opset)],
        graph: Some(Box::new(graph)),
        ..ModelProto::default()
    }
}

/// A graph from `x` of f32 to `y`, both of the given shape.
pub(crate) fn graph(shape: &[i64], nodes: Vec<NodeProto<'static>>) -> GraphProto<'static> {
    GraphProto {
        name: text("g"),
        node: nodes,
        input: vec![value("x", shape)],
        output: vec![ValueInfoProto {
            name: text("y"),
            ..ValueInfoProto::default()
        }],
        ..GraphProto::default()
    }
}
