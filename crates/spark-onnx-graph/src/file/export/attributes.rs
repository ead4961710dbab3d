//! Parameters of an operator as the attributes of a node.

use crate::file::tensors::write_tensor;
use crate::tensor::Tensor;
use spark_onnx_proto::{AttributeProto, Bytes, GraphProto, Text, attribute_type as kind};

/// Parameters as they stand in a file.
#[derive(Default)]
pub(crate) struct Attributes<'g>(pub(crate) Vec<AttributeProto<'g>>);

impl<'g> Attributes<'g> {
    fn with(mut self, name: &'static str, r#type: i32, value: AttributeProto<'g>) -> Self {
        self.0.push(AttributeProto {
            name: Some(Text::Borrowed(name)),
            r#type: Some(r#type),
            ..value
        });
        self
    }

    pub(crate) fn int(self, name: &'static str, value: i64) -> Self {
        let value = AttributeProto {
            i: Some(value),
            ..AttributeProto::default()
        };
        self.with(name, kind::INT, value)
    }

    pub(crate) fn flag(self, name: &'static str, value: bool) -> Self {
        self.int(name, i64::from(value))
    }

    pub(crate) fn float(self, name: &'static str, value: f32) -> Self {
        let value = AttributeProto {
            f: Some(value),
            ..AttributeProto::default()
        };
        self.with(name, kind::FLOAT, value)
    }

    pub(crate) fn text(self, name: &'static str, value: &'g str) -> Self {
        let value = AttributeProto {
            s: Some(Bytes::Borrowed(value.as_bytes())),
            ..AttributeProto::default()
        };
        self.with(name, kind::STRING, value)
    }

    pub(crate) fn ints(self, name: &'static str, values: Vec<i64>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            ints: values,
            ..AttributeProto::default()
        };
        self.with(name, kind::INTS, value)
    }

    pub(crate) fn extents(self, name: &'static str, values: &[usize]) -> Self {
        self.ints(name, values.iter().map(|&v| v as i64).collect())
    }

    pub(crate) fn floats(self, name: &'static str, values: Vec<f32>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            floats: values,
            ..AttributeProto::default()
        };
        self.with(name, kind::FLOATS, value)
    }

    pub(crate) fn texts(self, name: &'static str, values: Vec<&'static str>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            strings: values
                .into_iter()
                .map(|v| Bytes::Borrowed(v.as_bytes()))
                .collect(),
            ..AttributeProto::default()
        };
        self.with(name, kind::STRINGS, value)
    }

    pub(crate) fn graph(self, name: &'static str, value: GraphProto<'g>) -> Self {
        let value = AttributeProto {
            g: Some(Box::new(value)),
            ..AttributeProto::default()
        };
        self.with(name, kind::GRAPH, value)
    }

    pub(crate) fn tensor(self, name: &'static str, value: &'g Tensor) -> Self {
        let value = AttributeProto {
            t: Some(Box::new(write_tensor("", value))),
            ..AttributeProto::default()
        };
        self.with(name, kind::TENSOR, value)
    }
}
