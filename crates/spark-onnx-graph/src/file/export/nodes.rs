//! Nodes of a file while they are written.

use std::collections::HashSet;

use super::attributes::Attributes;
use crate::tensor::DType;
use spark_onnx_proto::{NodeProto, Text};

/// One node of a graph on its way into a file, where it may become several.
pub(crate) struct NodeExport<'w, 'g> {
    /// Name of the node in the graph.
    pub(crate) name: &'g str,
    /// Element type of the first operand, as far as it is known.
    pub(crate) first_dtype: Option<DType>,
    /// Operands of the node that [`Self::finish`] writes.
    pub(crate) inputs: Vec<Text<'g>>,
    /// Results of the node in the graph.
    pub(crate) outputs: Vec<Text<'g>>,
    /// Names that values of the file have.
    pub(crate) names: &'w HashSet<String>,
    /// The nodes of the file so far.
    pub(crate) out: &'w mut Vec<NodeProto<'g>>,
}

impl<'g> NodeExport<'_, 'g> {
    /// A name close to that of the first result that no value has.
    pub(crate) fn made(&self, suffix: &str) -> Text<'g> {
        let base = &self.outputs[0];
        let mut name = format!("{base}/{suffix}");
        while self.names.contains(name.as_str()) {
            name.push('_');
        }
        Text::Owned(name)
    }

    /// Writes a node before the last, of one result.
    pub(crate) fn step(
        &mut self,
        name: String,
        op_type: &'g str,
        attributes: Attributes<'g>,
        inputs: Vec<Text<'g>>,
        output: Text<'g>,
    ) {
        let name = Text::Owned(name);
        self.push(name, op_type, attributes, inputs, vec![output]);
    }

    /// Writes the last node, which has the name and the results of the one in the graph.
    pub(crate) fn finish(
        &mut self,
        op_type: &'g str,
        attributes: Attributes<'g>,
    ) -> Result<(), String> {
        self.finish_in("", op_type, attributes)
    }

    /// [`Self::finish`] with an operator of another domain.
    pub(crate) fn finish_in(
        &mut self,
        domain: &'g str,
        op_type: &'g str,
        attributes: Attributes<'g>,
    ) -> Result<(), String> {
        let (inputs, outputs) = (
            std::mem::take(&mut self.inputs),
            std::mem::take(&mut self.outputs),
        );
        let name = Text::Borrowed(self.name);
        self.push(name, op_type, attributes, inputs, outputs);
        if let Some(node) = self.out.last_mut().filter(|_| !domain.is_empty()) {
            node.domain = Some(Text::Borrowed(domain));
        }
        Ok(())
    }

    fn push(
        &mut self,
        name: Text<'g>,
        op_type: &'g str,
        attributes: Attributes<'g>,
        input: Vec<Text<'g>>,
        output: Vec<Text<'g>>,
    ) {
        self.out.push(NodeProto {
            input,
            output,
            name: Some(name),
            op_type: Some(Text::Borrowed(op_type)),
            attribute: attributes.0,
            ..NodeProto::default()
        });
    }
}
