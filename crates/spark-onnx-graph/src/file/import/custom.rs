//! Nodes of operators that an embedder has registered.

use super::call::{Call, Translated};
use crate::ModelError;
use crate::file::registry::Make;
use crate::graph::{AttributeValue, Custom, CustomAttributes, Op};
use spark_onnx_proto::{AttributeProto, attribute_type as kind};

/// Makes the node's operator of its attributes, all of which are handed on.
pub(super) fn translate(call: &mut Call<'_, '_>, make: &Make) -> Translated {
    let node = call.node;
    let mut attributes = Vec::with_capacity(node.attributes.len());
    for (name, attribute) in &node.attributes {
        attributes.push(((*name).to_owned(), value(call, name, attribute)?));
    }
    let attributes: CustomAttributes = attributes.into_iter().collect();
    let operator = make(&attributes).map_err(|source| call.error(source.to_string()))?;
    let custom = Custom::new(node.domain, node.op_type, attributes, operator);
    call.finish_as_is(Op::Custom(custom.with_version(node.opset)))
}

fn value(
    call: &mut Call<'_, '_>,
    name: &str,
    attribute: &AttributeProto<'_>,
) -> Result<AttributeValue, ModelError> {
    // A function that is called often repeats the attributes of its nodes.
    let n_bytes = 3 * name.len() + 8 * attribute.ints.len() + 4 * attribute.floats.len();
    let texts = attribute.s.iter().chain(&attribute.strings);
    let n_bytes = texts.fold(n_bytes, |n, text| n + size_of::<String>() + text.len());
    call.source
        .charge("an attribute", size_of::<AttributeValue>() + n_bytes)?;
    let value = match attribute.r#type {
        Some(kind::INT) => call.int(name)?.map(AttributeValue::Int),
        Some(kind::FLOAT) => call.float(name)?.map(AttributeValue::Float),
        Some(kind::STRING) => call.text(name)?.map(|v| AttributeValue::Text(v.to_owned())),
        Some(kind::TENSOR) => call.tensor(name)?.map(AttributeValue::Tensor),
        Some(kind::INTS) => call.ints(name)?.map(|v| AttributeValue::Ints(v.to_vec())),
        Some(kind::FLOATS) => call
            .floats(name)?
            .map(|v| AttributeValue::Floats(v.to_vec())),
        Some(kind::STRINGS) => call.texts(name)?.map(|v| {
            let texts = v.into_iter().map(str::to_owned);
            AttributeValue::Texts(texts.collect())
        }),
        _ => None,
    };
    value.ok_or_else(|| {
        call.error(format!(
            "attribute `{name}` is of kind {}, which an operator of one's own cannot have",
            attribute.r#type.unwrap_or_default()
        ))
    })
}
