//! A graph with symbols becomes one with fixed shapes, constants folded.
//!
//! ```text
//! symbols = {}
//! for each input:  declared dims + given shape -> fixed shape   ("batch" -> 1, everywhere)
//! for each node:   infer(op, operand types) -> result types
//!                  Identity: its result becomes another name of its operand
//!                  Shape, Size, or all operands constant: evaluate now
//!                  If, Loop, Scan: what they do takes their place (`control`)
//!                  otherwise keep the node
//! ```
//!
//! Shapes often hang on constants that only folding reveals
//! (`Shape -> Gather -> Concat -> Reshape`), so both happen in one pass.
//!
//! Deliberately absent: every other simplification; those need no shapes or
//! prefer them all known.

mod at_run_time;
mod control;
mod declared;

use std::collections::HashSet;
use std::sync::Arc;

use self::declared::bind_inputs;
pub(crate) use self::declared::{describe_dims, may_be};
use super::check::check;
use super::infer::{Operand, op_error, shape_part};
use super::{
    Cast, Dim, Graph, Node, Op, OpError, RandomLike, Shape, Size, StaticGraph, StaticValue,
    TensorType, Unary, Value, ValueId,
};
use crate::ModelError;
use crate::budget;
use crate::operators::infer;
use crate::reference::gradient::{GradientKind, GradientOptions, kind_of};
use crate::reference::{self, Unevaluated};
use crate::tensor::{DType, Tensor};

/// The most bytes all values of a bound graph may take together.
const MAX_TOTAL_BYTES: usize = 16 << 30;

/// Bytes that folded constants may hold at any time, beyond those of the graph.
const MAX_FOLDED_BYTES: usize = 256 << 20;

/// Multiply-adds or element moves spent on folding, beyond four per byte of the
/// graph's constants; about a second in the interpreter. More is left to the executors.
const MAX_FOLDING_WORK: usize = 1 << 28;

/// What a random number takes, in the same.
const WORK_PER_RANDOM: usize = 32;

/// `graph` for inputs of the given shapes.
///
/// Equal symbols become equal extents. Inputs not listed take their declared
/// shape, which must be fixed or follow from the symbols of the others. Everything else is inferred: an element type that
/// is declared for another value must agree, and so must the fixed extents declared for an
/// output. Shapes declared for values in between are passed over.
///
/// Nodes whose operands are all constant are evaluated by the reference
/// interpreter and disappear, unless that would take more than 256 MiB beyond
/// twice the graph's own constants, more than the budget of [`bind_within`], or long; then they stay. Operators of an
/// embedder's own always stay.
///
/// # Errors
///
/// [`ModelError::InputUnknown`] or [`ModelError::InputShape`] where `input_shapes`
/// does not fit the declaration; [`ModelError::InputUndeclared`] for an input
/// without an element type; [`ModelError::Graph`] for a graph that breaks an invariant of
/// [`Graph`]; [`ModelError::Operator`] where [`infer`] refuses a node;
/// [`ModelError::Declaration`] where a value is declared otherwise than it is inferred;
/// [`ModelError::GraphTooLarge`] if all values together exceed 16 GiB.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::DType;
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Unary, bind};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Symbol("batch".to_owned()), Dim::Known(3)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
/// graph.outputs.push(y);
///
/// let bound = bind(&graph, &[("x", vec![8, 3])])?;
/// assert_eq!(bound.value(y).ty.shape, [8, 3]);
/// let open = bind(&graph, &[]).unwrap_err();
/// assert_eq!(open.to_string(), "input `x` is declared [batch, 3]: give its shape");
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn bind(graph: &Graph, input_shapes: &[(&str, Vec<usize>)]) -> Result<StaticGraph, ModelError> {
    bind_within(
        graph,
        input_shapes,
        budget::default_bytes(graph.source_bytes()),
    )
}

/// [`bind`] with a budget of memory: `budget_bytes` bound what folding takes here, and what
/// [`reference::run`] and a plan of the result take later.
///
/// [`bind`] takes the smaller of half the memory that the process can still get, control groups
/// included, and 64 times the bytes of the file (of the constants, for a graph without a file)
/// plus 1 GiB.
///
/// # Errors
///
/// As [`bind`].
pub fn bind_within(
    graph: &Graph,
    input_shapes: &[(&str, Vec<usize>)],
    budget_bytes: usize,
) -> Result<StaticGraph, ModelError> {
    bind_with_values(graph, input_shapes, &[], budget_bytes)
}

/// [`bind_within`] for inputs of which some have these elements and no others, so that shapes may hang on
/// them, or branches ([`deciding_inputs`](super::deciding_inputs)). They stay inputs of the network, and
/// [`reference::run`] refuses to run it with other elements.
///
/// # Errors
///
/// As [`bind`]; [`ModelError::InputType`] or [`ModelError::InputShape`] if a value is not what its input is.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Reshape, bind, bind_with_values};
/// use spark_onnx_graph::{DType, Tensor};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(6)]);
/// let shape = graph.add_input("shape", DType::I64, vec![Dim::Known(2)]);
/// let reshape = Op::Reshape(Reshape { allow_zero: false });
/// let y = graph.add_node("y", reshape, &[Some(x), Some(shape)]);
/// graph.outputs.push(y);
///
/// assert!(bind(&graph, &[]).is_err()); // the result's shape depends on `shape`
/// let three_by_two = Arc::new(Tensor::from_i64([2], vec![3, 2])?);
/// let bound = bind_with_values(&graph, &[], &[("shape", three_by_two)], 1 << 20)?;
/// assert_eq!(bound.value(y).ty.shape, [3, 2]);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn bind_with_values(
    graph: &Graph,
    input_shapes: &[(&str, Vec<usize>)],
    values: &[(&str, Arc<Tensor>)],
    budget_bytes: usize,
) -> Result<StaticGraph, ModelError> {
    let constants = graph.values.iter().map(|v| v.constant.clone()).collect();
    bind_with(graph, constants, input_shapes, values, budget_bytes)
}

/// [`bind_within`] for the shapes that the inputs declare, with the constants taken out of `graph`: each
/// goes as soon as nothing reads it any more, such as one of f16 that was converted to f32. So a network
/// with fixed shapes takes little more memory than its weights while it is made ready.
///
/// `graph` keeps its nodes and declarations, for [`check_input_shapes`], but cannot be bound again; so it
/// is after an error too.
///
/// # Errors
///
/// As [`bind`].
pub fn bind_taking(graph: &mut Graph, budget_bytes: usize) -> Result<StaticGraph, ModelError> {
    let values = graph.values.iter_mut();
    let constants = values.map(|v| v.constant.take()).collect();
    bind_with(graph, constants, &[], &[], budget_bytes)
}

fn bind_with(
    graph: &Graph,
    constants: Vec<Option<Arc<Tensor>>>,
    input_shapes: &[(&str, Vec<usize>)],
    values: &[(&str, Arc<Tensor>)],
    budget_bytes: usize,
) -> Result<StaticGraph, ModelError> {
    let is_constant: Vec<bool> = constants.iter().map(Option::is_some).collect();
    check(graph, &is_constant)?;
    let inputs = bind_inputs(graph, input_shapes)?;
    let mut binder = Binder::new(graph, constants, inputs, budget_bytes)?;
    let fixed = binder.fix_inputs(values)?;
    binder.all_nodes()?;
    let mut bound = binder.finish();
    bound.fixed_inputs = fixed;
    Ok(bound)
}

/// Refuses shapes that the inputs of `graph` do not admit, without binding it: equal symbols must get
/// equal extents, and an input that is not listed must have a declared shape that is fixed or follows
/// from the symbols of the others.
///
/// # Panics
///
/// If an input is no value of the graph, which [`check_graph`](super::check_graph) would have refused.
///
/// # Errors
///
/// [`ModelError::InputUnknown`], [`ModelError::InputShape`], [`ModelError::InputUndeclared`] or
/// [`ModelError::InputOpen`].
pub fn check_input_shapes(
    graph: &Graph,
    input_shapes: &[(&str, Vec<usize>)],
) -> Result<(), ModelError> {
    bind_inputs(graph, input_shapes).map(drop)
}

/// The shape of every input of `graph` where those listed have these: an input that is not listed has its
/// declared shape, which must be fixed or follow from the symbols of the others.
///
/// # Panics
///
/// As [`check_input_shapes`].
///
/// # Errors
///
/// As [`check_input_shapes`].
pub fn input_shapes(
    graph: &Graph,
    given: &[(&str, Vec<usize>)],
) -> Result<Vec<Vec<usize>>, ModelError> {
    let types = bind_inputs(graph, given)?;
    Ok(types.into_iter().map(|ty| ty.shape).collect())
}

/// What the pass over the nodes keeps.
struct Binder<'g> {
    graph: &'g Graph,
    /// Type of every value seen so far.
    types: Vec<Option<TensorType>>,
    /// Elements of every constant that something may still read.
    constants: Vec<Option<Arc<Tensor>>>,
    /// The value that stands for each value; itself unless an Identity made it.
    alias: Vec<ValueId>,
    /// Reads still to come, by nodes and by the caller.
    reads_left: Vec<usize>,
    /// Nodes kept, operands already renamed.
    nodes: Vec<Node>,
    /// Bytes of all values so far.
    total_bytes: usize,
    /// Which constants were folded here.
    folded: Vec<bool>,
    /// Which values such constants were computed from.
    folded_from: Vec<bool>,
    /// Bytes of folded constants that are still held, and how many may be.
    folded_bytes: usize,
    folding_limit: usize,
    /// Bytes that binding and running may take.
    budget_bytes: usize,
    /// Multiply-adds or moves spent on folding, and how many may be.
    folding_work: usize,
    work_limit: usize,
    /// Which values the caller gets.
    is_output: Vec<bool>,
    /// Values that bodies put in place have beyond those of the graph, and all names once there are some.
    added: Vec<Value>,
    names: HashSet<String>,
    /// What nodes that were kept run.
    bodies: Vec<Arc<StaticGraph>>,
    /// Levels of bodies around this graph.
    depth: usize,
    /// Whether one of them runs again and again.
    repeats: bool,
    /// What bodies took so far, about.
    expanded_bytes: usize,
    /// Bodies, by address, that were found too long to be taken apart: tried again by every loop around
    /// them, the work would double with each.
    too_long: HashSet<usize>,
}

impl<'g> Binder<'g> {
    fn new(
        graph: &'g Graph,
        constants: Vec<Option<Arc<Tensor>>>,
        inputs: Vec<TensorType>,
        budget_bytes: usize,
    ) -> Result<Self, ModelError> {
        let n_values = graph.values.len();
        let constant_type = |constant: &Arc<Tensor>| TensorType {
            dtype: constant.dtype(),
            shape: constant.shape().to_vec(),
        };
        let constant_types: Vec<Option<TensorType>> = constants
            .iter()
            .map(|constant| constant.as_ref().map(constant_type))
            .collect();
        let mut binder = Self {
            graph,
            types: vec![None; n_values],
            constants,
            alias: (0..n_values).map(ValueId).collect(),
            reads_left: vec![0; n_values],
            nodes: Vec::with_capacity(graph.nodes.len()),
            total_bytes: 0,
            folded: vec![false; n_values],
            folded_from: vec![false; n_values],
            folded_bytes: 0,
            folding_limit: 0,
            budget_bytes,
            folding_work: 0,
            work_limit: 0,
            is_output: vec![false; n_values],
            added: Vec::new(),
            names: HashSet::new(),
            bodies: Vec::new(),
            depth: 0,
            repeats: false,
            expanded_bytes: 0,
            too_long: HashSet::new(),
        };
        for (id, ty) in constant_types.into_iter().enumerate() {
            if let Some(ty) = ty {
                binder.declare(ValueId(id), ty);
            }
        }
        // Weights stored as f16 and converted to f32 in the graph take twice their size again.
        binder.folding_limit = binder
            .total_bytes
            .saturating_mul(2)
            .saturating_add(MAX_FOLDED_BYTES);
        binder.work_limit = binder
            .total_bytes
            .saturating_mul(4)
            .saturating_add(MAX_FOLDING_WORK);
        for (&id, ty) in graph.inputs.iter().zip(inputs) {
            binder.declare(id, ty);
        }
        for id in &graph.outputs {
            binder.is_output[id.0] = true;
        }
        let node_reads = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
        for &ValueId(id) in node_reads.chain(&graph.outputs) {
            binder.reads_left[id] += 1;
        }
        binder.check_total()?;
        Ok(binder)
    }

    /// The value behind `id`, of the graph or of a body put in place.
    fn value(&self, ValueId(id): ValueId) -> &Value {
        let values = &self.graph.values;
        values
            .get(id)
            .unwrap_or_else(|| &self.added[id - values.len()])
    }

    /// Makes inputs known that have these elements in every run.
    fn fix_inputs(
        &mut self,
        values: &[(&str, Arc<Tensor>)],
    ) -> Result<Vec<(ValueId, Arc<Tensor>)>, ModelError> {
        let graph = self.graph;
        let mut fixed = Vec::with_capacity(values.len());
        for (name, tensor) in values {
            let mut inputs = graph.inputs.iter();
            let Some(&id) = inputs.find(|&&id| graph.value(id).name == *name) else {
                return Err(ModelError::InputUnknown {
                    name: (*name).to_owned(),
                });
            };
            let Some(ty) = &self.types[id.0] else {
                continue;
            };
            if ty.dtype != tensor.dtype() {
                return Err(ModelError::InputType {
                    name: (*name).to_owned(),
                    got: tensor.dtype(),
                    want: ty.dtype,
                });
            }
            if ty.shape != tensor.shape() {
                return Err(ModelError::InputShape {
                    name: (*name).to_owned(),
                    got: tensor.shape().to_vec(),
                    want: format!("{:?}", ty.shape),
                });
            }
            self.constants[id.0] = Some(Arc::clone(tensor));
            fixed.push((id, Arc::clone(tensor)));
        }
        Ok(fixed)
    }

    fn all_nodes(&mut self) -> Result<(), ModelError> {
        let graph = self.graph;
        for node in &graph.nodes {
            if node.op.is_control_flow() {
                self.control(node)?;
            } else {
                self.node(node)
                    .map_err(|OpError { reason }| ModelError::Operator {
                        node: node.name.clone(),
                        op: node.op.name().to_owned(),
                        reason,
                    })?;
            }
            self.check_total()?;
            self.check_declarations(node)?;
        }
        Ok(())
    }

    fn declare(&mut self, ValueId(id): ValueId, ty: TensorType) {
        self.total_bytes = self.total_bytes.saturating_add(ty.size_bytes());
        self.types[id] = Some(ty);
    }

    fn check_total(&self) -> Result<(), ModelError> {
        match self.total_bytes <= MAX_TOTAL_BYTES {
            true => Ok(()),
            false => Err(ModelError::GraphTooLarge {
                bytes: self.total_bytes,
                limit: MAX_TOTAL_BYTES,
            }),
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), OpError> {
        let inputs: Vec<Option<ValueId>> = node
            .inputs
            .iter()
            .map(|id| id.map(|ValueId(id)| self.alias[id]))
            .collect();
        let types = {
            let operands = self.operands(&inputs)?;
            infer(&node.op, &operands, node.outputs.len())?
        };
        let results = self.fold(node, &inputs, &types)?;
        for (index, (id, ty)) in node.outputs.iter().zip(&types).enumerate() {
            let Some(id) = *id else { continue };
            self.declare(id, ty.clone());
            if let Some(results) = &results {
                self.folded[id.0] = true;
                self.folded_bytes += results[index].size_bytes();
                self.constants[id.0] = Some(Arc::clone(&results[index]));
            }
        }
        if results.is_some() {
            self.note_folded(node, &inputs, &types);
            for &id in node.inputs.iter().flatten() {
                self.release(id);
            }
        } else if !self.forward_identity(node, &inputs) {
            self.nodes.push(Node {
                inputs,
                ..node.clone()
            });
        }
        Ok(())
    }

    /// Remembers what the results of a folded node hang on: floats that they are no steps of.
    fn note_folded(&mut self, node: &Node, inputs: &[Option<ValueId>], types: &[TensorType]) {
        let result = types.first().map_or(DType::F32, |ty| ty.dtype);
        for (operand, id) in inputs.iter().enumerate() {
            let Some(ValueId(id)) = *id else { continue };
            let holds_floats = self.types[id]
                .as_ref()
                .is_some_and(|ty| ty.dtype.is_float());
            let kind = kind_of(&node.op, operand, result, GradientOptions::default());
            self.folded_from[id] |= holds_floats && kind != GradientKind::Zero;
        }
    }

    /// Holds what is declared of a node's results against what was inferred.
    fn check_declarations(&self, node: &Node) -> Result<(), ModelError> {
        for &id in node.outputs.iter().flatten() {
            let (value, is_output) = (self.value(id), self.is_output[id.0]);
            let Some(ty) = &self.types[id.0] else {
                continue;
            };
            let dims = value.shape.as_deref().filter(|_| is_output);
            let fits = dims.is_none_or(|dims| may_be(dims, &ty.shape))
                && value.dtype.is_none_or(|dtype| dtype == ty.dtype);
            if !fits {
                let dtype = value.dtype.unwrap_or(ty.dtype);
                let with_shape = |dtype: DType, shape: String| match dims {
                    Some(_) => format!("{dtype} {shape}"),
                    None => dtype.to_string(),
                };
                let inferred: Vec<Dim> = ty.shape.iter().map(|&n| Dim::Known(n)).collect();
                return Err(ModelError::Declaration {
                    what: if is_output { "output" } else { "value" },
                    name: value.name.clone(),
                    declared: with_shape(dtype, dims.map_or_else(String::new, describe_dims)),
                    inferred: with_shape(ty.dtype, describe_dims(&inferred)),
                });
            }
        }
        Ok(())
    }

    fn operands(&self, inputs: &[Option<ValueId>]) -> Result<Vec<Option<Operand<'_>>>, OpError> {
        inputs
            .iter()
            .map(|id| {
                let Some(ValueId(id)) = *id else {
                    return Ok(None);
                };
                let ty = self.types[id].as_ref().ok_or_else(|| OpError {
                    reason: format!(
                        "operand `{}` comes from nowhere",
                        self.value(ValueId(id)).name
                    ),
                })?;
                Ok(Some(Operand {
                    dtype: ty.dtype,
                    shape: &ty.shape,
                    constant: self.constants[id].as_deref(),
                }))
            })
            .collect()
    }

    /// The results, if they can and may be known now.
    fn fold(
        &mut self,
        node: &Node,
        inputs: &[Option<ValueId>],
        types: &[TensorType],
    ) -> Result<Option<Vec<Arc<Tensor>>>, OpError> {
        if let Some(tensor) = self.shape_constant(&node.op, inputs) {
            return Ok(Some(vec![Arc::new(tensor)]));
        }
        if let (Op::RandomLike(op), [ty]) = (&node.op, types) {
            return self.draw(op, ty).map(|tensor| Some(vec![Arc::new(tensor)]));
        }
        // It may count its runs, or draw lots.
        if matches!(node.op, Op::Custom(_)) {
            return Ok(None);
        }
        // Of the second operand of a CastLike the type alone matters, and that is known.
        let (op, inputs) = match (&node.op, types) {
            (Op::CastLike(_), [ty]) => (&Op::Cast(Cast { to: ty.dtype }), &inputs[..1]),
            (op, _) => (op, inputs),
        };
        let mut tensors = Vec::with_capacity(inputs.len());
        for id in inputs {
            match id {
                None => tensors.push(None),
                Some(ValueId(id)) => match &self.constants[*id] {
                    Some(tensor) => tensors.push(Some(Arc::clone(tensor))),
                    None => return Ok(None),
                },
            }
        }
        // Another name of a constant costs nothing.
        if let (Op::Unary(Unary::Identity), [Some(same)]) = (op, &tensors[..]) {
            return Ok(Some(vec![Arc::clone(same)]));
        }
        let new_bytes: usize = types.iter().map(TensorType::size_bytes).sum();
        let tensors: Vec<Option<&Tensor>> = tensors.iter().map(Option::as_deref).collect();
        let work = reference::folding_work(op, &tensors, types);
        if self.folded_bytes.saturating_add(new_bytes) > self.folding_limit
            || self.folding_work.saturating_add(work) > self.work_limit
        {
            tracing::debug!(
                node = node.name,
                new_bytes,
                work,
                "left unfolded: too large"
            );
            return Ok(None);
        }
        self.folding_work += work;
        let left = self.budget_bytes.saturating_sub(self.folded_bytes);
        match reference::evaluate_within(op, &tensors, node.outputs.len(), left) {
            Ok(results) => Ok(Some(results.into_iter().map(Arc::new).collect())),
            Err(Unevaluated::Memory { bytes }) => {
                tracing::debug!(node = node.name, bytes, "left unfolded: too much memory");
                Ok(None)
            }
            Err(Unevaluated::Refused(error)) => Err(error),
            Err(Unevaluated::Custom(source)) => Err(op_error!("{source}")),
        }
    }

    /// Random numbers, of whose operand the shape alone matters.
    fn draw(&mut self, op: &RandomLike, ty: &TensorType) -> Result<Tensor, OpError> {
        if self.repeats {
            return Err(op_error!(
                "random numbers that each iteration draws anew are not supported"
            ));
        }
        let (new_bytes, n) = (ty.size_bytes(), ty.shape.iter().product::<usize>());
        // Numbers as f64, and of their type.
        let working = n.saturating_mul(8).saturating_add(new_bytes);
        let left = self.budget_bytes.saturating_sub(self.folded_bytes);
        let work = self
            .folding_work
            .saturating_add(n.saturating_mul(WORK_PER_RANDOM));
        if self.folded_bytes.saturating_add(new_bytes) > self.folding_limit
            || work > self.work_limit
            || working > left
            || !budget::can_get(working)
        {
            return Err(op_error!("{n} random numbers are more than are drawn"));
        }
        self.folding_work = work;
        reference::drawn(op, ty)
    }

    /// What `Shape` and `Size` give: their operand's elements do not matter.
    fn shape_constant(&self, op: &Op, inputs: &[Option<ValueId>]) -> Option<Tensor> {
        let ValueId(id) = (*inputs.first()?)?;
        let shape = &self.types[id].as_ref()?.shape;
        match op {
            Op::Shape(Shape { start, end }) => {
                let part: Vec<i64> = shape_part(shape, *start, *end)
                    .iter()
                    .map(|&d| d as i64)
                    .collect();
                Tensor::from_i64([part.len()], part).ok()
            }
            Op::Size(Size) => {
                Tensor::from_i64([], vec![shape.iter().product::<usize>() as i64]).ok()
            }
            _ => None,
        }
    }

    /// One read of a value is done for good; constants go with the last one.
    fn release(&mut self, ValueId(id): ValueId) {
        self.reads_left[id] -= 1;
        if self.reads_left[id] == 0
            && let Some(constant) = self.constants[id].take()
            && self.folded[id]
        {
            self.folded_bytes -= constant.size_bytes();
        }
    }

    /// Makes an Identity's result another name of its operand, unless the caller
    /// knows it by its own; whether it did. Operands of such nodes are never
    /// constant, for then the node is folded.
    fn forward_identity(&mut self, node: &Node, inputs: &[Option<ValueId>]) -> bool {
        let (Op::Unary(Unary::Identity), [Some(source)], [Some(result)]) =
            (&node.op, inputs, &node.outputs[..])
        else {
            return false;
        };
        if self.is_output[result.0] {
            return false;
        }
        self.alias[result.0] = *source;
        true
    }

    /// Lets the node that makes `x` in `x -> Identity -> output` make `output`
    /// itself, where the caller does not know `x`.
    fn merge_output_identities(&mut self) {
        let mut made = vec![false; self.types.len()];
        for ValueId(id) in self.nodes.iter().flat_map(|n| n.outputs.iter().flatten()) {
            made[*id] = true;
        }
        let mut renamed: Vec<ValueId> = (0..made.len()).map(ValueId).collect();
        self.nodes.retain(|node| {
            let (Op::Unary(Unary::Identity), [Some(source)], [Some(result)]) =
                (&node.op, &node.inputs[..], &node.outputs[..])
            else {
                return true;
            };
            let free = made[source.0] && !self.is_output[source.0] && renamed[source.0] == *source;
            if free {
                renamed[source.0] = *result;
            }
            !free
        });
        for node in &mut self.nodes {
            for ValueId(id) in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
                *id = renamed[*id].0;
            }
        }
    }

    fn finish(mut self) -> StaticGraph {
        self.merge_output_identities();
        let values = (self.graph.values.iter().chain(&self.added).zip(self.types))
            .zip(self.constants.into_iter().zip(self.reads_left))
            .map(|((value, ty), (constant, reads_left))| StaticValue {
                name: value.name.clone(),
                // A value that nothing makes is read by nothing either.
                ty: ty.unwrap_or(TensorType {
                    dtype: DType::F32,
                    shape: vec![0],
                }),
                constant: constant.filter(|_| reads_left > 0),
            })
            .collect();
        StaticGraph {
            values,
            nodes: self.nodes,
            inputs: self.graph.inputs.clone(),
            outputs: self.graph.outputs.clone(),
            bodies: self.bodies,
            fixed_inputs: Vec::new(),
            folded_from: self.folded_from,
            budget_bytes: self.budget_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
