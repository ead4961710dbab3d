//! Operators of an embedder's own, as any other operator: its name, types, its node in a file.

use super::operator::{Exported, Inferred, KnownDType, OPERATOR_SET, Operator};
use super::translator_of;
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::Translator;
use crate::file::tensors::write_tensor;
use crate::graph::infer::{Operands, op_error};
use crate::graph::{AttributeValue, Custom};
use crate::tensor::DType;
use spark_onnx_proto::{AttributeProto, Bytes, Text, attribute_type as kind};

impl Operator for Custom {
    /// A registry knows it, no table.
    const IMPORTS: &'static [Translator] = &[];

    fn name(&self) -> &'static str {
        "custom"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        let inferred = self.operator().infer(operands.list, operands.n_outputs);
        let types = inferred.map_err(|source| op_error!("{source}"))?;
        match types.len() == operands.n_outputs {
            true => Ok(types),
            false => Err(op_error!(
                "it tells the types of {} results, {} are wanted",
                types.len(),
                operands.n_outputs
            )),
        }
    }

    fn deciding_operands(&self) -> &[usize] {
        self.operator().deciding_operands()
    }

    /// Only operands with their shapes tell.
    fn result_dtype(&self, _output: usize, _operand: KnownDType<'_>) -> Option<DType> {
        None
    }

    fn attributes(&self) -> Exported<'_> {
        let attributes = Custom::attributes(self).iter();
        Ok(Attributes(
            attributes
                .map(|(name, value)| written(name, value))
                .collect(),
        ))
    }

    fn operator_set(&self) -> i64 {
        match self.domain() {
            "" => self.version().max(OPERATOR_SET),
            _ => OPERATOR_SET,
        }
    }

    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        // A reader would take it for the one that it knows.
        if translator_of(self.domain(), Custom::name(self)).is_some() {
            let op = self.qualified().to_owned();
            return Err(ModelError::OperatorTaken { op }.to_string());
        }
        let attributes = Operator::attributes(self)?;
        node.finish_in(self.domain(), Custom::name(self), attributes)
    }
}

fn written<'g>(name: &'g str, value: &'g AttributeValue) -> AttributeProto<'g> {
    let mut attribute = AttributeProto {
        name: Some(Text::Borrowed(name)),
        ..AttributeProto::default()
    };
    attribute.r#type = Some(match value {
        AttributeValue::Int(value) => {
            attribute.i = Some(*value);
            kind::INT
        }
        AttributeValue::Float(value) => {
            attribute.f = Some(*value);
            kind::FLOAT
        }
        AttributeValue::Text(value) => {
            attribute.s = Some(Bytes::Borrowed(value.as_bytes()));
            kind::STRING
        }
        AttributeValue::Tensor(value) => {
            attribute.t = Some(Box::new(write_tensor("", value)));
            kind::TENSOR
        }
        AttributeValue::Ints(values) => {
            attribute.ints.clone_from(values);
            kind::INTS
        }
        AttributeValue::Floats(values) => {
            attribute.floats.clone_from(values);
            kind::FLOATS
        }
        AttributeValue::Texts(values) => {
            let values = values.iter();
            attribute.strings = values.map(|v| Bytes::Borrowed(v.as_bytes())).collect();
            kind::STRINGS
        }
    });
    attribute
}
