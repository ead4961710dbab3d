//! One node of a file, as the functions that translate operators see it.
//!
//! A translator reads operands and parameters through a [`Call`] and ends it with
//! [`Call::finish`]. Parameters no translator asked for are an error: what is not
//! understood may change the result.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use super::builder::Builder;
use crate::ModelError;
use crate::file::error::OnnxError;
use crate::file::tensors::{HeldTensor, read_tensor};
use crate::graph::{Binary, BodyId, CastLike, Graph, Node, Op, Unary, Value, ValueId};
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::{
    AttributeProto, ConstantSource, FlatNode, NarrowType, attribute_type as kind,
};

/// One node under translation.
pub(crate) struct Call<'c, 'f> {
    pub(crate) builder: &'c mut Builder,
    pub(crate) node: &'c FlatNode<'c>,
    pub(crate) source: &'c mut ConstantSource<'f>,
    inputs: Vec<Option<ValueId>>,
    /// Bit per attribute, set once it was read.
    read: Cell<[u64; 4]>,
    n_steps: usize,
    bodies: Bodies<'c>,
}

/// The graphs that a node holds, as bodies.
#[derive(Default)]
pub(crate) struct Bodies<'c> {
    /// By the names of their parameters.
    pub(crate) list: Vec<(&'c str, ImportedBody)>,
    /// Values of the graph around them that each is given, after those of its own declaration.
    pub(crate) captured: Vec<ValueId>,
}

/// A graph that a node holds, once it is imported.
pub(crate) struct ImportedBody {
    /// Its inputs are those declared, then the captured values.
    pub(crate) graph: Graph,
    /// How many are declared.
    pub(crate) n_given: usize,
    /// Element types of what it makes, as far as they are known.
    pub(crate) dtypes: Vec<Option<DType>>,
}

/// An operator's name and the function that translates it.
pub(crate) type Translator = (&'static str, fn(&mut Call<'_, '_>) -> Translated);

/// What a translator returns.
pub(crate) type Translated = Result<(), ModelError>;

impl<'c, 'f> Call<'c, 'f> {
    /// Looks the operands up; all exist, for the caller has sorted the nodes.
    pub(crate) fn new(
        builder: &'c mut Builder,
        node: &'c FlatNode<'c>,
        source: &'c mut ConstantSource<'f>,
        bodies: Bodies<'c>,
    ) -> Self {
        let find = |name: &str| builder.find(name);
        let mut inputs: Vec<_> = node.inputs.iter().map(|n| find(n)).collect();
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        Self {
            builder,
            node,
            source,
            inputs,
            read: Cell::new([0; 4]),
            n_steps: 0,
            bodies,
        }
    }

    /// The version of the operator set.
    pub(crate) fn opset(&self) -> i64 {
        self.node.opset
    }

    /// Name of the operator within its domain.
    pub(crate) fn op_type(&self) -> &'c str {
        self.node.op_type
    }

    /// Refuses a node of a version before `since`, which had another form of the operator.
    pub(crate) fn form_since(&self, since: i64) -> Translated {
        if self.node.opset >= since {
            return Ok(());
        }
        Err(self.error(format!(
            "its form of operator set {} is not supported, that of {since} is",
            self.node.opset
        )))
    }

    /// An error about this node.
    pub(crate) fn error(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Operator {
            node: self.node.name.clone(),
            op: self.node.qualified(),
            reason: reason.into(),
        }
    }

    // Operands.

    /// All operands, without missing ones at the end.
    pub(crate) fn inputs(&self) -> Vec<Option<ValueId>> {
        self.inputs.clone()
    }

    /// All operands, missing ones at the end included.
    pub(crate) fn all_inputs(&self) -> Vec<Option<ValueId>> {
        let mut inputs = self.inputs.clone();
        inputs.resize(self.node.inputs.len(), None);
        inputs
    }

    /// An operand that may be left out.
    pub(crate) fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// An operand that must be there.
    pub(crate) fn required(&self, index: usize) -> Result<ValueId, ModelError> {
        self.input(index)
            .ok_or_else(|| self.error(format!("operand {index} is missing")))
    }

    /// Checks the number of operands and that the first `min` are there.
    pub(crate) fn operands(&self, min: usize, max: usize) -> Result<(), ModelError> {
        let got = self.inputs.len();
        if got > max {
            return Err(self.error(format!("{got} operands, at most {max} wanted")));
        }
        (0..min).try_for_each(|i| self.required(i).map(drop))
    }

    /// The type of an operand in the file, where it is held as a wider one.
    pub(crate) fn narrow(&self, index: usize) -> Option<NarrowType> {
        self.builder.narrow(self.input(index)?)
    }

    /// Notes that the node's first result is of this type in the file.
    pub(crate) fn set_narrow_result(&mut self, narrow: NarrowType) {
        let result = self.node.outputs.first();
        if let Some(id) = result.and_then(|name| self.builder.find(name)) {
            self.builder.set_narrow(id, Some(narrow));
        }
    }

    /// Elements of an operand that must be a constant.
    pub(crate) fn constant(&self, index: usize) -> Option<&Tensor> {
        self.builder.constant_of(self.input(index)?)
    }

    // Results.

    /// Whether the result is asked for.
    pub(crate) fn wants(&self, output: usize) -> bool {
        self.node.outputs.get(output).is_some_and(|o| !o.is_empty())
    }

    /// Refuses results from `first` on.
    pub(crate) fn only_results(&self, first: usize) -> Result<(), ModelError> {
        match (first..self.node.outputs.len()).find(|&i| self.wants(i)) {
            Some(i) => Err(self.error(format!("result {i} is not supported"))),
            None => Ok(()),
        }
    }

    // Parameters.

    fn attribute(&self, name: &str) -> Option<&'c AttributeProto<'c>> {
        let index = self.node.attributes.iter().position(|(n, _)| *n == name)?;
        let mut read = self.read.get();
        read[index / 64] |= 1 << (index % 64);
        self.read.set(read);
        Some(self.node.attributes[index].1)
    }

    /// The parameter if its kind is `wanted`. Files of IR version 1 and 2 leave the kind out;
    /// those are not read, so a missing kind is as wrong as another one.
    fn typed(&self, name: &str, wanted: i32) -> Result<Option<&'c AttributeProto<'c>>, ModelError> {
        match self.attribute(name) {
            Some(a) if a.r#type != Some(wanted) => Err(self.error(format!(
                "attribute `{name}` is of kind {}, {wanted} wanted",
                a.r#type.unwrap_or_default()
            ))),
            other => Ok(other),
        }
    }

    /// Marks parameters as read that do not change the result.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.attribute(name);
        }
    }

    /// The attribute `name` as an integer; `None` if the node lacks it.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, ModelError> {
        Ok(self
            .typed(name, kind::INT)?
            .map(|a| a.i.unwrap_or_default()))
    }

    /// An integer with a default.
    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, ModelError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer that is 0 or 1.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, ModelError> {
        Ok(self.int(name)?.map_or(default, |v| v != 0))
    }

    /// An integer that is a count, at least 1.
    pub(crate) fn count(&self, name: &str, default: usize) -> Result<usize, ModelError> {
        match self.int(name)? {
            None => Ok(default),
            Some(v) => usize::try_from(v)
                .ok()
                .filter(|&v| v > 0)
                .ok_or_else(|| self.error(format!("attribute `{name}` is {v}"))),
        }
    }

    /// The attribute `name` as a number; `None` if the node lacks it.
    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, ModelError> {
        Ok(self
            .typed(name, kind::FLOAT)?
            .map(|a| a.f.unwrap_or_default()))
    }

    /// A number with a default.
    pub(crate) fn float_or(&self, name: &str, default: f32) -> Result<f32, ModelError> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// The attribute `name` as a list of integers; `None` if the node lacks it.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<&'c [i64]>, ModelError> {
        Ok(self.typed(name, kind::INTS)?.map(|a| a.ints.as_slice()))
    }

    /// Integers that are extents, none negative.
    pub(crate) fn extents(&self, name: &str) -> Result<Option<Vec<usize>>, ModelError> {
        let Some(values) = self.ints(name)? else {
            return Ok(None);
        };
        let extent = |&v: &i64| {
            usize::try_from(v).map_err(|_| self.error(format!("attribute `{name}` holds {v}")))
        };
        values
            .iter()
            .map(extent)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The attribute `name` as a list of numbers; `None` if the node lacks it.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<&'c [f32]>, ModelError> {
        Ok(self.typed(name, kind::FLOATS)?.map(|a| a.floats.as_slice()))
    }

    /// The attribute `name` as text; `None` if the node lacks it.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'c str>, ModelError> {
        match self.typed(name, kind::STRING)? {
            None => Ok(None),
            Some(a) => std::str::from_utf8(a.s.as_deref().unwrap_or_default())
                .map(Some)
                .map_err(|_| self.error(format!("attribute `{name}` is not UTF-8 text"))),
        }
    }

    /// The attribute `name` as a list of texts; `None` if the node lacks it.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'c str>>, ModelError> {
        let Some(a) = self.typed(name, kind::STRINGS)? else {
            return Ok(None);
        };
        let list = a.strings.iter().map(|s| std::str::from_utf8(s));
        list.collect::<Result<_, _>>()
            .map(Some)
            .map_err(|_| self.error(format!("attribute `{name}` is not UTF-8 text")))
    }

    /// The attribute `name` as a tensor; `None` if the node lacks it.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Option<Tensor>, ModelError> {
        match self.held_tensor(name)? {
            Some((_, Some(_))) => Err(self.error(format!(
                "attribute `{name}` is of a type that is held as a wider one"
            ))),
            held => Ok(held.map(|(tensor, _)| tensor)),
        }
    }

    /// The same, and its type in the file where that is held as a wider one.
    pub(crate) fn held_tensor(&mut self, name: &str) -> Result<Option<HeldTensor>, ModelError> {
        match self.typed(name, kind::TENSOR)?.map(|a| a.t.as_deref()) {
            None => Ok(None),
            Some(None) => Err(self.error(format!("attribute `{name}` holds no tensor"))),
            Some(Some(proto)) => Ok(Some(read_tensor(proto.clone(), self.source)?)),
        }
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &str,
        default: T,
        words: &[(&str, T)],
    ) -> Result<T, ModelError> {
        let Some(got) = self.text(name)? else {
            return Ok(default);
        };
        match words.iter().find(|(word, _)| *word == got) {
            Some(&(_, value)) => Ok(value),
            None => {
                let known: Vec<_> = words.iter().map(|(w, _)| *w).collect();
                let known = known.join(", ");
                Err(self.error(format!("attribute `{name}` is `{got}`, not one of {known}")))
            }
        }
    }

    /// The graph of the attribute `name`, which only nodes of control flow have.
    pub(crate) fn body(&mut self, name: &str) -> Result<ImportedBody, ModelError> {
        self.typed(name, kind::GRAPH)?;
        let list = &mut self.bodies.list;
        match list.iter().position(|(known, _)| *known == name) {
            Some(at) => Ok(list.swap_remove(at).1),
            None => Err(self.error(format!("attribute `{name}` holds no graph"))),
        }
    }

    // What a node becomes.

    /// Adds a body to the graph.
    pub(crate) fn add_body(&mut self, body: ImportedBody) -> BodyId {
        let bodies = &mut self.builder.graph.bodies;
        bodies.push(Arc::new(body.graph));
        BodyId(bodies.len() - 1)
    }

    /// [`Self::finish`] of a node of control flow: what its bodies capture are operands too, and the
    /// element types of its results are `dtypes`.
    pub(crate) fn finish_control(
        &mut self,
        op: Op,
        mut inputs: Vec<Option<ValueId>>,
        dtypes: Vec<Option<DType>>,
    ) -> Translated {
        inputs.extend(self.bodies.captured.iter().copied().map(Some));
        self.finish(op, inputs)?;
        for (name, dtype) in self.node.outputs.iter().zip(dtypes) {
            if let Some(id) = self.builder.find(name) {
                self.builder.set_dtype(id, dtype);
            }
        }
        Ok(())
    }

    /// A constant made from parameters; `suffix` tells which.
    pub(crate) fn new_constant(
        &mut self,
        suffix: &str,
        tensor: Tensor,
    ) -> Result<ValueId, ModelError> {
        let name = self.made_name(suffix)?;
        self.source.charge("a constant", tensor.size_bytes())?;
        Ok(self.builder.named_constant(&name, tensor))
    }

    /// A name for a value that is not in the file, paid for: short nodes of a file may
    /// become many values.
    fn made_name(&mut self, suffix: &str) -> Result<String, ModelError> {
        let base = format!("{}/{suffix}", self.node.name);
        let n_bytes = size_of::<Node>() + size_of::<Value>() + 5 * base.len();
        self.source.charge("a node", n_bytes)?;
        Ok(self.builder.unique(&base))
    }

    /// A list of integers as a constant.
    pub(crate) fn new_ints(&mut self, suffix: &str, values: &[i64]) -> Result<ValueId, ModelError> {
        let tensor = Tensor::from_i64([values.len()], values.to_vec())?;
        self.new_constant(suffix, tensor)
    }

    /// A scalar of the element type of `like`, even where that is only known later.
    pub(crate) fn scalar_like(
        &mut self,
        suffix: &str,
        value: f64,
        like: ValueId,
    ) -> Result<ValueId, ModelError> {
        if let Some(dtype) = self.builder.dtype(like) {
            let tensor = Tensor::from_f64(dtype, [], vec![value])?;
            return self.new_constant(suffix, tensor);
        }
        let tensor = Tensor::from_f64(DType::F32, [], vec![value])?;
        let scalar = self.new_constant(suffix, tensor)?;
        self.step(Op::CastLike(CastLike), &[Some(scalar), Some(like)])
    }

    /// A node before the last, of one result.
    pub(crate) fn step(
        &mut self,
        op: Op,
        inputs: &[Option<ValueId>],
    ) -> Result<ValueId, ModelError> {
        self.n_steps += 1;
        let name = self.made_name(&format!("step{}", self.n_steps))?;
        let output = self.builder.result(&name);
        self.builder.node(Node {
            name,
            op,
            inputs: inputs.to_vec(),
            outputs: vec![Some(output)],
        });
        Ok(output)
    }

    /// A product, a sum and the like before the last node.
    pub(crate) fn binary_step(
        &mut self,
        op: Binary,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, ModelError> {
        self.step(Op::Binary(op), &[Some(a), Some(b)])
    }

    /// The last node, which makes the results of the node in the file.
    pub(crate) fn finish(&mut self, op: Op, inputs: Vec<Option<ValueId>>) -> Translated {
        let names = &self.node.outputs;
        let mut outputs: Vec<Option<ValueId>> = Vec::with_capacity(names.len());
        for name in names {
            let n_bytes = size_of::<Node>() + size_of::<Value>() + 3 * name.len();
            self.source.charge("a node", n_bytes)?;
            outputs.push((!name.is_empty()).then(|| self.builder.result(name)));
        }
        while outputs.last() == Some(&None) {
            outputs.pop();
        }
        if outputs.is_empty() {
            return Err(self.error("it has no result"));
        }
        self.builder.node(Node {
            name: self.node.name.clone(),
            op,
            inputs,
            outputs,
        });
        Ok(())
    }

    /// A last node of several: it makes result `output` of the node in the file, where that is asked for.
    pub(crate) fn finish_result(
        &mut self,
        output: usize,
        op: Op,
        inputs: Vec<Option<ValueId>>,
    ) -> Translated {
        if !self.wants(output) {
            return Ok(());
        }
        let name = &self.node.outputs[output];
        let n_bytes = size_of::<Node>() + size_of::<Value>() + 3 * name.len();
        self.source.charge("a node", n_bytes)?;
        let result = self.builder.result(name);
        self.builder.node(Node {
            name: match output {
                0 => self.node.name.clone(),
                _ => format!("{}/{name}", self.node.name),
            },
            op,
            inputs,
            outputs: vec![Some(result)],
        });
        Ok(())
    }

    /// [`Self::finish_result`] of a value that is there already.
    pub(crate) fn finish_value(&mut self, output: usize, value: ValueId) -> Translated {
        let same = Op::Unary(Unary::Identity);
        self.finish_result(output, same, vec![Some(value)])
    }

    /// The operator on the node's own operands.
    pub(crate) fn finish_as_is(&mut self, op: Op) -> Translated {
        let inputs = self.inputs();
        self.finish(op, inputs)
    }

    /// Refuses parameters nobody has asked for.
    pub(crate) fn all_read(&self) -> Translated {
        let read = self.read.get();
        let unread = (0..self.node.attributes.len()).find(|i| read[i / 64] >> (i % 64) & 1 == 0);
        match unread {
            Some(i) => Err(self.error(format!(
                "attribute `{}` is not known for operator set {}",
                self.node.attributes[i].0, self.node.opset
            ))),
            None => Ok(()),
        }
    }
}

/// Every name that stands in a graph of a file, to be avoided by made names.
pub(crate) fn names_of(nodes: &[FlatNode<'_>]) -> HashSet<String> {
    let names = nodes.iter().flat_map(|n| {
        let own = n.inputs.iter().chain(&n.outputs);
        own.chain(n.captures())
    });
    names.map(ToString::to_string).collect()
}

/// Refuses an operator that is not known, with the reason where there is one.
pub(crate) fn unsupported(
    node: &FlatNode<'_>,
    hint: &'static str,
    nearest: Vec<String>,
) -> ModelError {
    OnnxError::UnknownOperator {
        node: node.name.clone(),
        op: match node.domain {
            "" => format!("ai.onnx::{}", node.op_type),
            _ => node.qualified(),
        },
        opset: node.opset,
        hint,
        nearest,
    }
    .into()
}
