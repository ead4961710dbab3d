//! Nodes as the messages of a file, and the bodies that they run.
//!
//! ```text
//! If(c, x)   bodies: inputs x'     ->     node If(c), attribute then_branch: a graph without inputs,
//!                                         whose nodes read `x` by its name outside
//! ```
//!
//! Names within bodies are made new where the graph around has them.

use std::collections::{BTreeMap, HashSet};

use super::attributes::Attributes;
use super::nodes::NodeExport;
use crate::file::error::OnnxError;
use crate::file::tensors::write_tensor;
use crate::graph::{BodyId, Graph, Node, Op, ScanAxis, ValueId};
use crate::operators;
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::{GraphProto, NodeProto, TensorProto, Text, ValueInfoProto};

/// Bytes all constants take, those of bodies too.
pub(super) fn constant_bytes(graph: &Graph) -> usize {
    let constants = graph.values.iter().filter_map(|v| v.constant.as_deref());
    let own: usize = constants.map(Tensor::size_bytes).sum();
    let bodies = graph.bodies.iter().map(|body| constant_bytes(body));
    own + bodies.sum::<usize>()
}

/// The operator set of a file of `graph`.
pub(super) fn operator_set(graph: &Graph) -> i64 {
    let own = operators::operator_set(graph.nodes.iter().map(|node| &node.op));
    let bodies = graph.bodies.iter().map(|body| operator_set(body));
    bodies.fold(own, i64::max)
}

/// The versions of other domains that operators of `graph` are of.
///
/// # Errors
///
/// [`OnnxError::Export`] where two are of different versions of one domain, which a file has one of.
pub(super) fn domain_versions<'g>(
    graph: &'g Graph,
    versions: &mut BTreeMap<&'g str, i64>,
) -> Result<(), OnnxError> {
    for node in &graph.nodes {
        let Op::Custom(op) = &node.op else { continue };
        if op.domain().is_empty() {
            continue;
        }
        let version = *versions.entry(op.domain()).or_insert(op.version());
        if version != op.version() {
            return Err(OnnxError::Export {
                node: node.name.clone(),
                reason: format!(
                    "it is of version {} of domain `{}`, another node of version {version}",
                    op.version(),
                    op.domain()
                ),
            });
        }
    }
    let mut bodies = graph.bodies.iter();
    bodies.try_for_each(|body| domain_versions(body, versions))
}

/// Element type of every value of `graph`, declared, given for inputs, or following from operators.
pub(super) fn element_types(graph: &Graph, given: &[Option<DType>]) -> Vec<Option<DType>> {
    let mut dtypes: Vec<Option<DType>> = graph.values.iter().map(|v| v.dtype).collect();
    for (id, given) in graph.inputs.iter().zip(given) {
        dtypes[id.0] = dtypes[id.0].or(*given);
    }
    for node in &graph.nodes {
        let of_body = results_of_body(graph, node, &dtypes);
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(id) = output.filter(|id| dtypes[id.0].is_none()) else {
                continue;
            };
            let operand = |i: usize| dtypes[node.inputs.get(i).copied().flatten()?.0];
            dtypes[id.0] = match node.op.is_control_flow() {
                true => of_body.get(index).copied().flatten(),
                false => operators::result_dtype(&node.op, index, &operand),
            };
        }
    }
    dtypes
}

/// Element types of what a node of control flow makes.
fn results_of_body(graph: &Graph, node: &Node, dtypes: &[Option<DType>]) -> Vec<Option<DType>> {
    let Some(Form { skipped, .. }) = Form::of(&node.op) else {
        return Vec::new();
    };
    let bodies = node.op.bodies();
    let Some(body) = bodies.first().and_then(|id| graph.bodies.get(id.0)) else {
        return Vec::new();
    };
    let given = given_dtypes(node, dtypes);
    let inner = element_types(body, &given);
    let outputs = body.outputs.iter().skip(skipped);
    outputs.map(|id| inner[id.0]).collect()
}

/// Element types that the bodies of `node` are given.
fn given_dtypes(node: &Node, dtypes: &[Option<DType>]) -> Vec<Option<DType>> {
    let dtype_of = |id: &Option<ValueId>| id.and_then(|id| dtypes[id.0]);
    let operands = node.inputs.iter().map(dtype_of);
    match &node.op {
        Op::If(_) => operands.skip(1).collect(),
        Op::Loop(_) => {
            let first = [Some(DType::I64), Some(DType::Bool)];
            first.into_iter().chain(operands.skip(2)).collect()
        }
        _ => operands.collect(),
    }
}

/// How a node of control flow stands in a file.
struct Form {
    /// Operands that stand at the node; the others are seen from inside.
    n_operands: usize,
    /// Inputs of the bodies that are declared.
    n_given: usize,
    /// Outputs of the bodies that are no results.
    skipped: usize,
    /// Attributes that hold the bodies.
    parameters: Vec<(&'static str, BodyId)>,
}

impl Form {
    fn of(op: &Op) -> Option<Self> {
        Some(match op {
            Op::If(op) => Self {
                n_operands: 1,
                n_given: 0,
                skipped: 0,
                parameters: vec![
                    ("then_branch", op.then_branch),
                    ("else_branch", op.else_branch),
                ],
            },
            Op::Loop(op) => Self {
                n_operands: 2 + op.carried,
                n_given: 2 + op.carried,
                skipped: 1,
                parameters: vec![("body", op.body)],
            },
            Op::Scan(op) => Self {
                n_operands: op.carried + op.inputs.len(),
                n_given: op.carried + op.inputs.len(),
                skipped: 0,
                parameters: vec![("body", op.body)],
            },
            _ => return None,
        })
    }
}

/// A graph that is written, with what its values are called in the file.
pub(super) struct Scope<'g> {
    pub(super) graph: &'g Graph,
    pub(super) names: Vec<Text<'g>>,
    pub(super) dtypes: Vec<Option<DType>>,
}

impl<'g> Scope<'g> {
    /// The nodes of the graph; `taken` has all names of the file so far.
    pub(super) fn nodes(
        &self,
        taken: &mut HashSet<String>,
    ) -> Result<Vec<NodeProto<'g>>, OnnxError> {
        let mut out = Vec::with_capacity(self.graph.nodes.len());
        for node in &self.graph.nodes {
            self.node(node, taken, &mut out)?;
        }
        Ok(out)
    }

    fn name_of(&self, id: &Option<ValueId>) -> Text<'g> {
        id.map_or(Text::Borrowed(""), |id| self.names[id.0].clone())
    }

    fn node(
        &self,
        node: &'g Node,
        taken: &mut HashSet<String>,
        out: &mut Vec<NodeProto<'g>>,
    ) -> Result<(), OnnxError> {
        let failed = |reason: String| OnnxError::Export {
            node: node.name.clone(),
            reason,
        };
        let inputs: Vec<Text<'g>> = node.inputs.iter().map(|id| self.name_of(id)).collect();
        let form = Form::of(&node.op);
        let (operands, captured) = match &form {
            Some(form) => inputs.split_at(form.n_operands.min(inputs.len())),
            None => (&inputs[..], &[][..]),
        };
        let mut attributes = Attributes::default();
        for (parameter, id) in form.iter().flat_map(|form| &form.parameters) {
            let Some(body) = self.graph.bodies.get(id.0) else {
                return Err(failed(format!("its body {} does not exist", id.0)));
            };
            let n_given = form.as_ref().map_or(0, |form| form.n_given);
            let given = given_dtypes(node, &self.dtypes);
            let body = within(body, n_given, captured, &given, taken)?;
            attributes = attributes.graph(parameter, body);
        }
        if let Op::Scan(op) = &node.op {
            let axes = |axes: &[ScanAxis]| axes.iter().map(|a| a.axis).collect();
            let directions =
                |axes: &[ScanAxis]| axes.iter().map(|a| i64::from(a.is_reversed)).collect();
            attributes = attributes
                .int("num_scan_inputs", op.inputs.len() as i64)
                .ints("scan_input_axes", axes(&op.inputs))
                .ints("scan_input_directions", directions(&op.inputs))
                .ints("scan_output_axes", axes(&op.outputs))
                .ints("scan_output_directions", directions(&op.outputs));
        }
        let first = node.inputs.first().copied().flatten();
        let mut export = NodeExport {
            name: &node.name,
            first_dtype: first.and_then(|id| self.dtypes[id.0]),
            inputs: operands.to_vec(),
            outputs: node.outputs.iter().map(|id| self.name_of(id)).collect(),
            names: taken,
            out,
        };
        match form {
            Some(_) => export.finish(node.op.name(), attributes),
            None => operators::export(&node.op, &mut export),
        }
        .map_err(failed)
    }
}

/// A body as a graph of a file, which sees `captured` by name, its last inputs.
fn within<'g>(
    body: &'g Graph,
    n_given: usize,
    captured: &[Text<'g>],
    given: &[Option<DType>],
    taken: &mut HashSet<String>,
) -> Result<GraphProto<'g>, OnnxError> {
    let mut names: Vec<Option<Text<'g>>> = vec![None; body.values.len()];
    for (id, name) in body.inputs.iter().skip(n_given).zip(captured) {
        names[id.0] = Some(name.clone());
    }
    let named = body.values.iter().zip(names);
    let names = named.map(|(value, name)| match name {
        Some(name) => name,
        None => unique(&value.name, taken),
    });
    let scope = Scope {
        graph: body,
        names: names.collect(),
        dtypes: element_types(body, given),
    };
    let mut out = GraphProto {
        name: Some(Text::Borrowed("body")),
        node: scope.nodes(taken)?,
        ..GraphProto::default()
    };
    for (value, name) in body.values.iter().zip(&scope.names) {
        if let Some(tensor) = &value.constant {
            out.initializer.push(TensorProto {
                name: Some(name.clone()),
                ..write_tensor("", tensor)
            });
        }
    }
    let named = |name: Text<'g>| ValueInfoProto {
        name: Some(name),
        ..ValueInfoProto::default()
    };
    for id in body.inputs.iter().take(n_given) {
        out.input.push(named(scope.names[id.0].clone()));
    }
    let mut made: HashSet<ValueId> = HashSet::new();
    made.extend(body.nodes.iter().flat_map(|n| n.outputs.iter().flatten()));
    for id in &body.outputs {
        let name = scope.names[id.0].clone();
        if made.remove(id) {
            out.output.push(named(name));
            continue;
        }
        // What a graph hands through, or out twice, has a name of its own in a file.
        let copy = unique(&name, taken).into_owned();
        out.node.push(NodeProto {
            input: vec![name],
            output: vec![Text::Owned(copy.clone())],
            name: Some(Text::Owned(copy.clone())),
            op_type: Some(Text::Borrowed("Identity")),
            ..NodeProto::default()
        });
        out.output.push(named(Text::Owned(copy)));
    }
    Ok(out)
}

/// A name close to `base` that nothing in the file has.
fn unique<'g>(base: &str, taken: &mut HashSet<String>) -> Text<'g> {
    let mut name = base.to_owned();
    while !taken.insert(name.clone()) {
        name = format!("{base}_{}", taken.len());
    }
    Text::Owned(name)
}
