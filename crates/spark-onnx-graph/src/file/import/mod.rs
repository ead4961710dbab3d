//! From the messages of a file to a [`Graph`] in normal form.
//!
//! ```text
//! flatten functions -> inputs and constants -> order the nodes -> translate each -> outputs
//! ```
//!
//! One small function per operator or few of them, in `crate::operators`, takes a node of any
//! operator-set version to the form of the newest: parameters that later became operands become
//! constants here, and operators that are short for others are spelled out. Forms that it does not
//! know it refuses. But for writing, nothing behind this module knows a version.
//!
//! A constant that is listed among the inputs too, as all are before IR version 4 and
//! as overridable ones are after, is a constant and no input.
//!
//! Deliberately absent: shape inference and folding; they need the shapes of inputs.

pub(crate) mod builder;
pub(crate) mod call;
mod custom;

use std::collections::HashSet;

use builder::Builder;
use call::{Bodies, Call, ImportedBody};

use super::error::OnnxError;
use super::registry::OperatorRegistry;
use super::tensors::{held_dtype, read_sparse_tensor, read_tensor};
use crate::ModelError;
use crate::graph::{Dim, Graph, Value, ValueId};
use crate::operators;
use crate::tensor::DType;
use spark_onnx_proto::{
    ConstantSource, FlatGraph, FlatNode, GraphProto, MAX_RANK, ModelProto, NarrowType, ProtoError,
    TypeProto, ValueInfoProto, execution_order, flatten, is_graph, text,
};

/// Names of all operators [`super::parse`] takes, sorted, with their domain where it is
/// not the standard one.
pub fn supported_operators() -> Vec<String> {
    let mut names: Vec<String> = operators::standard()
        .map(|(name, _)| (*name).to_owned())
        .chain(operators::microsoft().map(|(name, _)| format!("com.microsoft::{name}")))
        .collect();
    names.sort();
    names
}

/// The operators whose names are most like `name`, the most like first.
fn nearest_names(name: &str) -> Vec<String> {
    /// More would be read by nobody.
    const NAMED: usize = 3;
    let lower = name.to_lowercase();
    let mut ranked: Vec<(f64, String)> = supported_operators()
        .into_iter()
        .map(|known| {
            let bare = known.rsplit("::").next().unwrap_or(&known).to_lowercase();
            (strsim::jaro_winkler(&lower, &bare), known)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(NAMED);
    ranked.into_iter().map(|(_, known)| known).collect()
}

/// Translates a whole model, which may hold operators of `registry` too.
pub(super) fn import(
    mut model: ModelProto<'_>,
    source: &mut ConstantSource<'_>,
    registry: &OperatorRegistry,
) -> Result<Graph, ModelError> {
    let graph = model.graph.as_deref_mut().ok_or(ProtoError::NoGraph)?;
    let initializers = std::mem::take(&mut graph.initializer);
    let sparse_initializers = std::mem::take(&mut graph.sparse_initializer);

    let nodes = flatten(&model)?;
    let graph = model.graph.as_deref().ok_or(ProtoError::NoGraph)?;
    let mut taken = call::names_of(&nodes);
    taken.extend(initializers.iter().map(|t| text(&t.name).to_owned()));
    taken.extend(graph.input.iter().map(|v| text(&v.name).to_owned()));
    let mut builder = Builder::new(text(&graph.name), taken, operators::result_dtype);
    builder.graph.metadata = model
        .metadata_props
        .iter()
        .map(|e| (text(&e.key).to_owned(), text(&e.value).to_owned()))
        .collect();

    for proto in initializers {
        let name = new_name(&builder, "constant", text(&proto.name))?;
        let (tensor, narrow) = read_tensor(proto, source)?;
        let id = builder.named_constant(&name, tensor);
        builder.set_narrow(id, narrow);
    }
    for proto in sparse_initializers {
        let name = proto.values.as_ref().map_or("", |v| text(&v.name));
        let name = new_name(&builder, "constant", name)?;
        let (tensor, narrow) = read_sparse_tensor(proto, source)?;
        let id = builder.named_constant(&name, tensor);
        builder.set_narrow(id, narrow);
    }
    add_inputs(&mut builder, graph)?;

    let order = execution_order(&nodes, |name| builder.find(name).is_some())?;
    for index in order {
        translate(&mut builder, &nodes[index], source, registry)?;
    }
    add_outputs(&mut builder, graph)?;
    declare_types(&mut builder, graph)?;
    Ok(builder.graph)
}

fn new_name(builder: &Builder, what: &'static str, name: &str) -> Result<String, OnnxError> {
    if name.is_empty() {
        return Err(OnnxError::Value {
            what,
            name: String::new(),
            reason: "it has no name".to_owned(),
        });
    }
    if builder.find(name).is_some() {
        return Err(ProtoError::Duplicate {
            what,
            name: name.to_owned(),
        }
        .into());
    }
    Ok(name.to_owned())
}

fn translate(
    builder: &mut Builder,
    node: &FlatNode<'_>,
    source: &mut ConstantSource<'_>,
    registry: &OperatorRegistry,
) -> Result<(), ModelError> {
    let Some((_, translator)) = operators::translator_of(node.domain, node.op_type) else {
        if let Some(make) = registry.maker(node.domain, node.op_type) {
            let mut call = Call::new(builder, node, source, Bodies::default());
            return custom::translate(&mut call, make);
        }
        let hint = if node.attributes.iter().any(|(_, a)| is_graph(a)) {
            " (it holds graphs, as only If, Loop and Scan may)"
        } else if node.op_type.contains("Sequence") || node.op_type.starts_with("Optional") {
            " (it works on sequences or optional values, and they are not)"
        } else if node.op_type.starts_with("String") {
            " (it works on texts, and they are not)"
        } else {
            ""
        };
        return Err(call::unsupported(node, hint, nearest_names(node.op_type)));
    };
    let bodies = import_bodies(builder, node, source, registry)?;
    let mut call = Call::new(builder, node, source, bodies);
    translator(&mut call)?;
    call.all_read()
}

/// The graphs that `node` holds. What any of them reads of the graph around is an input of all.
fn import_bodies<'n>(
    outer: &Builder,
    node: &'n FlatNode<'n>,
    source: &mut ConstantSource<'_>,
    registry: &OperatorRegistry,
) -> Result<Bodies<'n>, ModelError> {
    let mut bodies = Bodies::default();
    if node.graphs.is_empty() {
        return Ok(bodies);
    }
    let mut seen = HashSet::new();
    let names: Vec<&str> = node
        .captures()
        .map(AsRef::as_ref)
        .filter(|name| seen.insert(*name))
        .collect();
    for name in &names {
        bodies
            .captured
            .push(outer.find(name).ok_or_else(|| ProtoError::Dangling {
                user: format!("a graph of node `{}` ({})", node.name, node.qualified()),
                name: (*name).to_owned(),
            })?);
    }
    for (parameter, flat) in &node.graphs {
        let captured = names.iter().copied().zip(bodies.captured.iter().copied());
        let body = import_body((outer, &node.name), flat, captured, source, registry)?;
        bodies.list.push((parameter, body));
    }
    Ok(bodies)
}

fn import_body<'n>(
    (outer, holder): (&Builder, &str),
    flat: &FlatGraph<'_>,
    captured: impl Iterator<Item = (&'n str, ValueId)>,
    source: &mut ConstantSource<'_>,
    registry: &OperatorRegistry,
) -> Result<ImportedBody, ModelError> {
    let mut taken = call::names_of(&flat.nodes);
    taken.extend(flat.constants.iter().map(|(name, _)| name.to_string()));
    taken.extend(flat.inputs.iter().map(|(name, _)| name.to_string()));
    let mut builder = Builder::new(holder, taken, operators::result_dtype);
    for (name, value) in &flat.inputs {
        let (dtype, _) = declared_type("input", value)?;
        let name = new_name(&builder, "input", name)?;
        let id = builder.body_input(&name, dtype, None);
        builder.set_narrow(id, narrow_type(value));
    }
    let own: HashSet<&str> = flat.captures.iter().map(AsRef::as_ref).collect();
    for (name, id) in captured {
        source.charge("a node", size_of::<Value>() + 3 * name.len())?;
        // What another body of the node reads may be the name of something else in this one.
        let name = match own.contains(name) {
            true => name.to_owned(),
            false => builder.unique(name),
        };
        builder.body_input(&name, None, Some((outer, id)));
    }
    for (name, proto) in &flat.constants {
        let name = new_name(&builder, "constant", name)?;
        let (tensor, narrow) = read_tensor((*proto).clone(), source)?;
        let id = builder.named_constant(&name, tensor);
        builder.set_narrow(id, narrow);
    }
    let order = execution_order(&flat.nodes, |name| builder.find(name).is_some())?;
    for index in order {
        translate(&mut builder, &flat.nodes[index], source, registry)?;
    }
    let mut dtypes = Vec::with_capacity(flat.outputs.len());
    for (name, value) in &flat.outputs {
        let Some(id) = builder.find(name) else {
            return Err(ProtoError::Dangling {
                user: format!("the list of outputs of a graph of node `{holder}`"),
                name: name.to_string(),
            }
            .into());
        };
        let (declared, _) = declared_type("output", value)?;
        dtypes.push(builder.dtype(id).or(declared));
        builder.graph.outputs.push(id);
    }
    Ok(ImportedBody {
        n_given: flat.inputs.len(),
        graph: builder.graph,
        dtypes,
    })
}

fn add_inputs(builder: &mut Builder, graph: &GraphProto<'_>) -> Result<(), OnnxError> {
    let mut seen = HashSet::new();
    for value in &graph.input {
        let name = text(&value.name);
        if !seen.insert(name) {
            return Err(ProtoError::Duplicate {
                what: "input",
                name: name.to_owned(),
            }
            .into());
        }
        if builder.find(name).is_some() {
            continue;
        }
        let (dtype, shape) = declared_type("input", value)?;
        let Some(dtype) = dtype else {
            return Err(OnnxError::Value {
                what: "input",
                name: name.to_owned(),
                reason: "its element type is not stated".to_owned(),
            });
        };
        let name = new_name(builder, "input", name)?;
        let id = builder.input(&name, dtype, shape);
        builder.set_narrow(id, narrow_type(value));
    }
    Ok(())
}

fn add_outputs(builder: &mut Builder, graph: &GraphProto<'_>) -> Result<(), OnnxError> {
    let mut seen = HashSet::new();
    for value in &graph.output {
        let name = text(&value.name);
        let Some(id) = builder.find(name) else {
            return Err(ProtoError::Dangling {
                user: "the list of outputs".to_owned(),
                name: name.to_owned(),
            }
            .into());
        };
        if !seen.insert(id) {
            return Err(ProtoError::Duplicate {
                what: "output",
                name: name.to_owned(),
            }
            .into());
        }
        builder.graph.outputs.push(id);
    }
    if builder.graph.outputs.is_empty() {
        return Err(OnnxError::Value {
            what: "graph",
            name: builder.graph.name.clone(),
            reason: "it has no output".to_owned(),
        });
    }
    Ok(())
}

/// Notes the types the file declares for outputs and values in between. An element type that
/// contradicts the graph is refused here where the operators' types are known without shapes, and
/// else when the graph is bound. Inputs and constants state their types themselves; what is said
/// of them once more counts for outputs only.
fn declare_types(builder: &mut Builder, graph: &GraphProto<'_>) -> Result<(), ModelError> {
    let inputs: HashSet<ValueId> = builder.graph.inputs.iter().copied().collect();
    for (what, value) in graph
        .value_info
        .iter()
        .map(|v| ("value", v))
        .chain(graph.output.iter().map(|v| ("output", v)))
    {
        let (dtype, shape) = declared_type(what, value)?;
        // Exporters leave declarations of values they have optimised away.
        let Some(id) = builder.find(text(&value.name)) else {
            continue;
        };
        let inferred = builder.dtype(id);
        let declared = &mut builder.graph.values[id.0];
        let is_result = declared.constant.is_none() && !inputs.contains(&id);
        if let (Some(dtype), Some(inferred)) = (dtype, inferred)
            && dtype != inferred
            && (is_result || what == "output")
        {
            return Err(ModelError::Declaration {
                what,
                name: declared.name.clone(),
                declared: dtype.to_string(),
                inferred: inferred.to_string(),
            });
        }
        if is_result {
            declared.dtype = dtype.or(declared.dtype);
            declared.shape = shape.or(declared.shape.take());
        }
    }
    Ok(())
}

fn declared_type(
    what: &'static str,
    value: &ValueInfoProto<'_>,
) -> Result<(Option<DType>, Option<Vec<Dim>>), OnnxError> {
    let fail = |reason: String| OnnxError::Value {
        what,
        name: text(&value.name).to_owned(),
        reason,
    };
    let Some(declared) = value.r#type.as_deref() else {
        return Ok((None, None));
    };
    let Some(tensor) = declared.tensor_type.as_deref() else {
        return match not_a_tensor(declared) {
            Some(kind) => Err(fail(format!("{kind} are not supported"))),
            None => Ok((None, None)),
        };
    };
    let dtype = match tensor.elem_type {
        None | Some(0) => None,
        Some(number) => Some(held_dtype(number).map_err(|problem| fail(problem.to_string()))?),
    };
    let Some(shape) = tensor.shape.as_deref() else {
        return Ok((dtype, None));
    };
    if shape.dim.len() > MAX_RANK {
        return Err(fail(format!(
            "{} axes, the limit is {MAX_RANK}",
            shape.dim.len()
        )));
    }
    let mut dims = Vec::with_capacity(shape.dim.len());
    for dim in &shape.dim {
        dims.push(match (dim.dim_value, text(&dim.dim_param)) {
            // Some exporters write -1 for an extent they do not know.
            (Some(-1), _) | (None, "") => Dim::Unknown,
            (Some(extent), _) => Dim::Known(
                usize::try_from(extent)
                    .map_err(|_| fail(format!("extent {extent} in its shape")))?,
            ),
            (None, symbol) => Dim::Symbol(symbol.to_owned()),
        });
    }
    let known: Vec<usize> = dims
        .iter()
        .map(|d| if let Dim::Known(n) = d { *n } else { 1 })
        .collect();
    if crate::tensor::checked_elements(&known).is_none() {
        return Err(fail("its shape has too many elements".to_owned()));
    }
    Ok((dtype, Some(dims)))
}

/// The type that a value is declared to have in the file, where it is held as a wider one.
fn narrow_type(value: &ValueInfoProto<'_>) -> Option<NarrowType> {
    let tensor = value.r#type.as_deref()?.tensor_type.as_deref()?;
    NarrowType::from_number(tensor.elem_type?)
}

fn not_a_tensor(declared: &TypeProto<'_>) -> Option<&'static str> {
    if declared.sequence_type.is_some() {
        Some("sequences")
    } else if declared.map_type.is_some() {
        Some("maps")
    } else if declared.optional_type.is_some() {
        Some("optional values")
    } else if declared.sparse_tensor_type.is_some() {
        Some("sparse values")
    } else {
        None
    }
}
