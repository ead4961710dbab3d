//! Control flow while shapes are fixed: a body that will run for certain takes the place of its node.
//!
//! ```text
//! If, condition known         the branch that is taken
//! Loop, Scan of few steps     body, body, body, ...   each with what is known of its operands
//! ```
//!
//! A body is bound as a graph of its own, its inputs typed, and constant where the operands are, and then
//! put in the place of the node: values under new names, results under the node's. So everything behind
//! sees a plain graph. A condition often hangs on shapes alone, as exporters check ranks and extents;
//! the branch that is not taken is not looked at.
//!
//! What is not known before a run stays a node (`at_run_time`).
//!
//! Files come from strangers, and bodies multiply: what is put into a graph is counted
//! ([`MAX_EXPANDED_BYTES`]), a loop of many nodes is not taken apart ([`MAX_UNROLLED_NODES`]).

use std::collections::HashMap;
use std::sync::Arc;

use super::super::check::check;
use super::super::control::MAX_BODY_DEPTH;
use super::super::definition::{Graph, Node, Value, ValueId};
use super::super::infer::resolve_axis;
use super::super::op::{BodyId, Concat, Gather, If, Loop, Op, Scan, Unary, Unsqueeze};
use super::Binder;
use crate::ModelError;
use crate::graph::{OpError, ScanAxis, StaticGraph, StaticValue, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

/// Nodes that a loop may become.
const MAX_UNROLLED_NODES: usize = 1 << 13;

/// Names and nodes that all bodies may take together while they are bound and put in place, about.
const MAX_EXPANDED_BYTES: usize = 128 << 20;

/// The same for one loop that is taken apart.
const MAX_UNROLLED_BYTES: usize = 8 << 20;

/// What a body is given for one of its inputs, as far as it is known.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) ty: TensorType,
    pub(super) constant: Option<Arc<Tensor>>,
}

impl Given {
    pub(super) fn scalar(data: TensorData) -> Result<Self, ModelError> {
        let tensor = Tensor::new(Vec::new(), data)?;
        Ok(Self {
            ty: TensorType {
                dtype: tensor.dtype(),
                shape: Vec::new(),
            },
            constant: Some(Arc::new(tensor)),
        })
    }

    /// Of the same type, with elements that only a run knows.
    pub(super) fn unknown(&self) -> Self {
        Self {
            ty: self.ty.clone(),
            constant: None,
        }
    }

    pub(super) fn output(body: &StaticGraph, index: usize) -> Self {
        let value = body.value(body.outputs[index]);
        Self {
            ty: value.ty.clone(),
            constant: value.constant.clone(),
        }
    }
}

pub(super) fn refuse<T>(node: &Node, reason: impl Into<String>) -> Result<T, ModelError> {
    Err(ModelError::Operator {
        node: node.name.clone(),
        op: node.op.name().to_owned(),
        reason: reason.into(),
    })
}

pub(super) fn refused(node: &Node) -> impl Fn(OpError) -> ModelError + '_ {
    |OpError { reason }| ModelError::Operator {
        node: node.name.clone(),
        op: node.op.name().to_owned(),
        reason,
    }
}

/// The one element of a condition.
pub(super) fn truth(node: &Node, given: &Given) -> Result<Option<bool>, ModelError> {
    if given.ty.dtype != DType::Bool || given.ty.shape.iter().any(|&extent| extent != 1) {
        let TensorType { dtype, shape } = &given.ty;
        return refuse(node, format!("its condition is {dtype} of shape {shape:?}"));
    }
    Ok(match given.constant.as_deref().map(Tensor::data) {
        Some(TensorData::Bool(values)) => values.first().copied(),
        _ => None,
    })
}

/// The one element of a count of iterations.
fn count(node: &Node, given: &Given) -> Result<Option<i64>, ModelError> {
    if given.ty.dtype != DType::I64 || given.ty.shape.iter().any(|&extent| extent != 1) {
        let TensorType { dtype, shape } = &given.ty;
        return refuse(node, format!("its count is {dtype} of shape {shape:?}"));
    }
    Ok(match given.constant.as_deref().map(Tensor::data) {
        Some(TensorData::I64(values)) => values.first().copied(),
        _ => None,
    })
}

/// Nodes of `graph` and of all bodies in it; bodies may be shared, so each is counted once and added often.
fn nodes_within(graph: &Graph, counted: &mut HashMap<*const Graph, usize>) -> usize {
    let mut nodes = graph.nodes.len();
    for body in &graph.bodies {
        let address = Arc::as_ptr(body);
        let inner = match counted.get(&address) {
            Some(&inner) => inner,
            None => nodes_within(body, counted),
        };
        counted.insert(address, inner);
        nodes = nodes.saturating_add(inner);
    }
    nodes
}

/// What binding `graph`, or putting it in place, takes about.
fn expanded_bytes(graph: &Graph) -> usize {
    /// Beside the name: types, shapes, positions.
    const EACH: usize = 256;
    let values = graph.values.iter().map(|value| value.name.len() + EACH);
    let nodes = graph.nodes.iter().map(|node| {
        let operands = node.inputs.len() + node.outputs.len();
        node.name.len() + EACH + 16 * operands
    });
    values.chain(nodes).fold(EACH, usize::saturating_add)
}

impl Binder<'_> {
    /// Puts what a node of control flow does in its place.
    pub(super) fn control(&mut self, node: &Node) -> Result<(), ModelError> {
        let inputs = self.renamed(node);
        let results = match &node.op {
            Op::If(op) => self.branch(node, *op, &inputs)?,
            Op::Loop(op) => self.repeat(node, *op, &inputs)?,
            Op::Scan(op) => self.scan(node, op, &inputs)?,
            _ => return refuse(node, "it is no control flow"),
        };
        let Some(results) = results else {
            return Ok(());
        };
        if results.len() < node.outputs.len() {
            let (got, want) = (results.len(), node.outputs.len());
            return refuse(node, format!("makes {got} results, {want} are wanted"));
        }
        self.name_results(node, &results);
        for &id in node.inputs.iter().flatten() {
            self.release(id);
        }
        Ok(())
    }

    /// What the branch that is taken makes; nothing where the node stays.
    fn branch(
        &mut self,
        node: &Node,
        op: If,
        inputs: &[Option<ValueId>],
    ) -> Result<Option<Vec<ValueId>>, ModelError> {
        let ids = present(node, inputs)?;
        let given = self.given(node, &ids)?;
        let ([condition, captured @ ..], [_, ids @ ..]) = (&given[..], &ids[..]) else {
            return refuse(node, "its condition is missing");
        };
        let Some(is_true) = truth(node, condition)? else {
            self.keep_if(node, op, inputs.to_vec(), captured)?;
            return Ok(None);
        };
        let taken = match is_true {
            true => op.then_branch,
            false => op.else_branch,
        };
        let bound = self.bind_body(node, taken, captured)?;
        check_makes(node, &bound, node.outputs.len())?;
        self.put_in_place(node, &node.name, bound, ids).map(Some)
    }

    fn repeat(
        &mut self,
        node: &Node,
        op: Loop,
        inputs: &[Option<ValueId>],
    ) -> Result<Option<Vec<ValueId>>, ModelError> {
        let (Some([limit, condition]), Some(rest)) = (inputs.get(..2), inputs.get(2..)) else {
            return refuse(node, "its count and condition are missing");
        };
        let ids = present(node, rest)?;
        if ids.len() < op.carried {
            return refuse(
                node,
                format!("{} values, {} carried", ids.len(), op.carried),
            );
        }
        let given = self.given(node, &ids)?;
        let limit = match limit {
            None => Some(i64::MAX),
            Some(id) => count(node, &self.known(node, *id)?)?,
        };
        let goes_on = match condition {
            None => Some(true),
            Some(id) => truth(node, &self.known(node, *id)?)?,
        };
        let limit = match (limit, goes_on) {
            (_, Some(false)) => Some(0),
            (limit, _) => limit.map(|limit| limit.max(0) as u64),
        };
        let rounds = match (limit, goes_on) {
            (Some(limit), Some(_)) => self.rounds(node, op, limit, &given)?,
            _ => None,
        };
        let Some(rounds) = rounds else {
            let length = limit.filter(|_| goes_on.is_some());
            let length = length.and_then(|length| usize::try_from(length).ok());
            self.keep_loop(node, op, inputs.to_vec(), &given, length)?;
            return Ok(None);
        };
        let (mut carried, captured) = (ids[..op.carried].to_vec(), &ids[op.carried..]);
        let stacked = self
            .n_outputs(node, op.body)?
            .saturating_sub(1 + op.carried);
        let mut slices = vec![Vec::with_capacity(rounds.len()); stacked];
        let runs = rounds.len();
        for (round, bound) in rounds.into_iter().enumerate() {
            let name = format!("{}/{round}", node.name);
            let number = Given::scalar(TensorData::I64(vec![round as i64]))?;
            let number = self.add_given(&name, number);
            let goes_on = Given::scalar(TensorData::Bool(vec![true]))?;
            let goes_on = self.add_given(&name, goes_on);
            let operands = [&[number, goes_on], &carried[..], captured].concat();
            let made = self.put_in_place(node, &name, bound, &operands)?;
            carried = made[1..=op.carried].to_vec();
            for (slices, made) in slices.iter_mut().zip(&made[1 + op.carried..]) {
                slices.push(*made);
            }
        }
        let first = ScanAxis {
            axis: 0,
            is_reversed: false,
        };
        for (index, slices) in slices.into_iter().enumerate() {
            let whole = if runs == 0 {
                let number = Given::scalar(TensorData::I64(vec![0]))?.unknown();
                let goes_on = Given::scalar(TensorData::Bool(vec![true]))?.unknown();
                let operands = [&[number, goes_on], &given[..]].concat();
                self.nothing(node, op.body, &operands, 1 + op.carried + index, first)?
            } else {
                self.stack(node, slices, first)?
            };
            carried.push(whole);
        }
        Ok(Some(carried))
    }

    /// The body bound for every iteration, if there are few and how many is known.
    fn rounds(
        &mut self,
        node: &Node,
        op: Loop,
        limit: u64,
        given: &[Given],
    ) -> Result<Option<Vec<StaticGraph>>, ModelError> {
        let address = Arc::as_ptr(&self.body(node, op.body)?) as usize;
        if self.too_long.contains(&address) {
            return Ok(None);
        }
        let most = MAX_UNROLLED_NODES / self.weight(node, op.body)?;
        let before = self.expanded_bytes;
        let (mut carried, captured) = (given[..op.carried].to_vec(), &given[op.carried..]);
        let mut rounds = Vec::new();
        while (rounds.len() as u64) < limit {
            if rounds.len() == most || self.expanded_bytes - before > MAX_UNROLLED_BYTES {
                self.too_long.insert(address);
                return Ok(None);
            }
            let number = Given::scalar(TensorData::I64(vec![rounds.len() as i64]))?;
            let goes_on = Given::scalar(TensorData::Bool(vec![true]))?;
            let operands = [&[number, goes_on], &carried[..], captured].concat();
            let bound = self.bind_body(node, op.body, &operands)?;
            check_makes(node, &bound, 1 + op.carried)?;
            check_carried(node, &bound, 1, &carried)?;
            carried = (1..=op.carried).map(|i| Given::output(&bound, i)).collect();
            let goes_on = truth(node, &Given::output(&bound, 0))?;
            rounds.push(bound);
            match goes_on {
                Some(true) => {}
                Some(false) => break,
                None if rounds.len() as u64 == limit => break,
                None => return Ok(None),
            }
        }
        Ok(Some(rounds))
    }

    fn scan(
        &mut self,
        node: &Node,
        op: &Scan,
        inputs: &[Option<ValueId>],
    ) -> Result<Option<Vec<ValueId>>, ModelError> {
        let ids = present(node, inputs)?;
        let (from, to) = (op.carried, op.carried + op.inputs.len());
        if op.inputs.is_empty() || ids.len() < to {
            return refuse(node, format!("{} operands, {to} wanted", ids.len()));
        }
        let given = self.given(node, &ids)?;
        let scanned = self.scanned(node, op, &given[from..to])?;
        let length = scanned[0].length;
        if length > MAX_UNROLLED_NODES / self.weight(node, op.body)? {
            let slices = scanned.into_iter().map(|scanned| scanned.slice);
            let slices = (slices.collect(), length);
            self.keep_scan(node, op, inputs.to_vec(), &given, slices)?;
            return Ok(None);
        }
        let (mut carried, captured) = (ids[..from].to_vec(), &ids[to..]);
        let mut slices = vec![Vec::with_capacity(length); op.outputs.len()];
        for round in 0..length {
            let name = format!("{}/{round}", node.name);
            let mut operands = carried.clone();
            for (scanned, &whole) in scanned.iter().zip(&ids[from..to]) {
                let at = scanned.position(round);
                let at = Given::scalar(TensorData::I64(vec![at as i64]))?;
                let at = self.add_given(&name, at);
                let axis = scanned.axis as i64;
                operands.push(self.add_node(node, Op::Gather(Gather { axis }), &[whole, at])?);
            }
            operands.extend(captured);
            let before = self.given(node, &carried)?;
            let given = self.given(node, &operands)?;
            let bound = self.bind_body(node, op.body, &given)?;
            check_makes(node, &bound, from + op.outputs.len())?;
            check_carried(node, &bound, 0, &before)?;
            let made = self.put_in_place(node, &name, bound, &operands)?;
            carried = made[..from].to_vec();
            for (slices, made) in slices.iter_mut().zip(&made[from..]) {
                slices.push(*made);
            }
        }
        for (index, (slices, axis)) in slices.into_iter().zip(&op.outputs).enumerate() {
            let whole = if length == 0 {
                let slices = scanned.iter().map(|scanned| scanned.slice.clone());
                let operands = given[..from].iter().map(Given::unknown);
                let captured = given[to..].iter().cloned();
                let operands: Vec<Given> = operands.chain(slices).chain(captured).collect();
                self.nothing(node, op.body, &operands, from + index, *axis)?
            } else {
                self.stack(node, slices, *axis)?
            };
            carried.push(whole);
        }
        Ok(Some(carried))
    }

    /// How the scanned operands are taken apart, all into as many slices.
    fn scanned(&self, node: &Node, op: &Scan, given: &[Given]) -> Result<Vec<Scanned>, ModelError> {
        let mut all: Vec<Scanned> = Vec::with_capacity(given.len());
        for (axis, given) in op.inputs.iter().zip(given) {
            let shape = &given.ty.shape;
            let at = resolve_axis(axis.axis, shape.len()).map_err(refused(node))?;
            let length = shape[at];
            if let Some(first) = all.first().filter(|first| first.length != length) {
                let want = first.length;
                return refuse(
                    node,
                    format!("{length} slices of one operand, {want} of another"),
                );
            }
            let mut rest = shape.clone();
            rest.remove(at);
            all.push(Scanned {
                axis: at,
                length,
                is_reversed: axis.is_reversed,
                slice: Given {
                    ty: TensorType {
                        dtype: given.ty.dtype,
                        shape: rest,
                    },
                    constant: None,
                },
            });
        }
        Ok(all)
    }

    /// A stacked result of no slices; the body says what each would be.
    fn nothing(
        &mut self,
        node: &Node,
        body: BodyId,
        given: &[Given],
        output: usize,
        axis: ScanAxis,
    ) -> Result<ValueId, ModelError> {
        let bound = self.bind_body(node, body, given)?;
        check_makes(node, &bound, output + 1)?;
        let TensorType { dtype, mut shape } = Given::output(&bound, output).ty;
        let at = resolve_axis(axis.axis, shape.len() + 1).map_err(refused(node))?;
        shape.insert(at, 0);
        let empty = Tensor::zeros(dtype, shape.clone())?;
        let empty = Given {
            ty: TensorType { dtype, shape },
            constant: Some(Arc::new(empty)),
        };
        Ok(self.add_given(&node.name, empty))
    }

    /// `slices` along a new axis.
    fn stack(
        &mut self,
        node: &Node,
        mut slices: Vec<ValueId>,
        axis: ScanAxis,
    ) -> Result<ValueId, ModelError> {
        let rank = match slices.first() {
            Some(first) => self.known(node, *first)?.ty.shape.len() + 1,
            None => return refuse(node, "no slices"),
        };
        let at = resolve_axis(axis.axis, rank).map_err(refused(node))? as i64;
        if axis.is_reversed {
            slices.reverse();
        }
        let axes = Given {
            ty: TensorType {
                dtype: DType::I64,
                shape: vec![1],
            },
            constant: Some(Arc::new(Tensor::from_i64([1], vec![at])?)),
        };
        let axes = self.add_given(&node.name, axes);
        for slice in &mut slices {
            *slice = self.add_node(node, Op::Unsqueeze(Unsqueeze), &[*slice, axes])?;
        }
        self.add_node(node, Op::Concat(Concat { axis: at }), &slices)
    }

    // What bodies are made of.

    /// The operands of `node` as the nodes that are kept read them.
    fn renamed(&self, node: &Node) -> Vec<Option<ValueId>> {
        let ids = node.inputs.iter();
        ids.map(|id| id.map(|ValueId(id)| self.alias[id])).collect()
    }

    fn known(&self, node: &Node, id: ValueId) -> Result<Given, ModelError> {
        match &self.types[id.0] {
            Some(ty) => Ok(Given {
                ty: ty.clone(),
                constant: self.constants[id.0].clone(),
            }),
            None => refuse(
                node,
                format!("operand `{}` comes from nowhere", self.value(id).name),
            ),
        }
    }

    fn given(&self, node: &Node, ids: &[ValueId]) -> Result<Vec<Given>, ModelError> {
        ids.iter().map(|&id| self.known(node, id)).collect()
    }

    fn body(&self, node: &Node, BodyId(id): BodyId) -> Result<Arc<Graph>, ModelError> {
        match self.graph.bodies.get(id) {
            Some(body) => Ok(Arc::clone(body)),
            None => refuse(
                node,
                format!("its body is {id}, there are {}", self.graph.bodies.len()),
            ),
        }
    }

    /// Nodes that an iteration of a body becomes, at least 1.
    fn weight(&self, node: &Node, body: BodyId) -> Result<usize, ModelError> {
        let body = self.body(node, body)?;
        Ok(nodes_within(&body, &mut HashMap::new()).max(1))
    }

    fn n_outputs(&self, node: &Node, body: BodyId) -> Result<usize, ModelError> {
        Ok(self.body(node, body)?.outputs.len())
    }

    fn charge(&mut self, node: &Node, bytes: usize) -> Result<(), ModelError> {
        self.expanded_bytes = self.expanded_bytes.saturating_add(bytes);
        match self.expanded_bytes <= MAX_EXPANDED_BYTES {
            true => Ok(()),
            false => refuse(
                node,
                format!("graphs within the graph become more than {MAX_EXPANDED_BYTES} bytes"),
            ),
        }
    }

    /// A body as a graph of its own, for inputs of which this much is known.
    pub(super) fn bind_body(
        &mut self,
        node: &Node,
        id: BodyId,
        given: &[Given],
    ) -> Result<StaticGraph, ModelError> {
        if self.depth == MAX_BODY_DEPTH {
            return refuse(
                node,
                format!("graphs are nested more than {MAX_BODY_DEPTH} deep"),
            );
        }
        let body = self.body(node, id)?;
        self.charge(node, expanded_bytes(&body))?;
        let constants: Vec<_> = body.values.iter().map(|v| v.constant.clone()).collect();
        let is_constant: Vec<bool> = constants.iter().map(Option::is_some).collect();
        check(&body, &is_constant)?;
        if body.inputs.len() != given.len() {
            let (wanted, got) = (body.inputs.len(), given.len());
            return refuse(
                node,
                format!("its body takes {wanted} values, {got} are given"),
            );
        }
        for (&input, given) in body.inputs.iter().zip(given) {
            let value = body.value(input);
            if let Some(want) = value.dtype.filter(|&want| want != given.ty.dtype) {
                let (name, got) = (&value.name, given.ty.dtype);
                return refuse(
                    node,
                    format!("`{name}` of its body is {want}, {got} is given"),
                );
            }
        }
        let types = given.iter().map(|given| given.ty.clone()).collect();
        let mut binder = Binder::new(&body, constants, types, self.budget_bytes)?;
        for (&input, given) in body.inputs.iter().zip(given) {
            binder.constants[input.0] = given.constant.clone();
        }
        // All limits are of the whole.
        binder.depth = self.depth + 1;
        binder.repeats = self.repeats || !matches!(node.op, Op::If(_));
        binder.expanded_bytes = self.expanded_bytes;
        binder.total_bytes = binder.total_bytes.saturating_add(self.total_bytes);
        (binder.folded_bytes, binder.folding_limit) = (self.folded_bytes, self.folding_limit);
        (binder.folding_work, binder.work_limit) = (self.folding_work, self.work_limit);
        binder.too_long = std::mem::take(&mut self.too_long);
        binder.all_nodes()?;
        self.too_long = std::mem::take(&mut binder.too_long);
        self.expanded_bytes = binder.expanded_bytes;
        self.folded_bytes = binder.folded_bytes;
        self.folding_work = binder.folding_work;
        Ok(binder.finish())
    }

    /// Adds the nodes of `bound`, whose inputs stand for `operands`, and gives what they make.
    fn put_in_place(
        &mut self,
        node: &Node,
        prefix: &str,
        bound: StaticGraph,
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>, ModelError> {
        let mut places: Vec<Option<ValueId>> = vec![None; bound.values.len()];
        for (input, &operand) in bound.inputs.iter().zip(operands) {
            places[input.0] = Some(operand);
        }
        let n_bodies = self.bodies.len();
        self.bodies.extend(bound.bodies);
        for inner in bound.nodes {
            let Node {
                name,
                mut op,
                mut inputs,
                mut outputs,
            } = inner;
            // What the body hands out under another name.
            if let (Op::Unary(Unary::Identity), [Some(source)], [Some(result)]) =
                (&op, &inputs[..], &outputs[..])
            {
                let place = self.place(node, prefix, &bound.values, &mut places, *source)?;
                places[result.0] = Some(place);
                continue;
            }
            for id in inputs.iter_mut().flatten() {
                *id = self.place(node, prefix, &bound.values, &mut places, *id)?;
                self.reads_left[id.0] += 1;
            }
            for id in outputs.iter_mut().flatten() {
                *id = self.place(node, prefix, &bound.values, &mut places, *id)?;
            }
            for body in op.bodies_mut() {
                body.0 += n_bodies;
            }
            self.nodes.push(Node {
                name: format!("{prefix}/{name}"),
                op,
                inputs,
                outputs,
            });
            self.check_total()?;
        }
        let outputs = bound.outputs.iter();
        outputs
            .map(|&id| self.place(node, prefix, &bound.values, &mut places, id))
            .collect()
    }

    /// The value that stands for one of a body.
    fn place(
        &mut self,
        node: &Node,
        prefix: &str,
        values: &[StaticValue],
        places: &mut [Option<ValueId>],
        id: ValueId,
    ) -> Result<ValueId, ModelError> {
        if let Some(place) = places[id.0] {
            return Ok(place);
        }
        let value = &values[id.0];
        let name = format!("{prefix}/{}", value.name);
        self.charge(node, 512 + 2 * name.len())?;
        let place = self.add_value(name, Some(value.ty.clone()), value.constant.clone());
        places[id.0] = Some(place);
        Ok(place)
    }

    fn add_given(&mut self, name: &str, given: Given) -> ValueId {
        self.add_value(format!("{name}/constant"), Some(given.ty), given.constant)
    }

    /// Adds a value under a name close to `name`.
    fn add_value(
        &mut self,
        name: String,
        ty: Option<TensorType>,
        constant: Option<Arc<Tensor>>,
    ) -> ValueId {
        if self.names.is_empty() {
            let names = self.graph.values.iter().map(|value| value.name.clone());
            self.names = names.collect();
        }
        let mut unique = name.clone();
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}_{}", self.names.len());
        }
        let id = ValueId(self.types.len());
        self.added.push(Value {
            name: unique,
            dtype: None,
            shape: None,
            constant: None,
        });
        self.types.push(None);
        self.constants.push(constant);
        self.alias.push(id);
        self.reads_left.push(0);
        self.folded.push(false);
        self.folded_from.push(false);
        self.is_output.push(false);
        if let Some(ty) = ty {
            self.declare(id, ty);
        }
        id
    }

    /// Adds a node of one result, which is folded where that can be.
    fn add_node(
        &mut self,
        node: &Node,
        op: Op,
        operands: &[ValueId],
    ) -> Result<ValueId, ModelError> {
        let name = format!("{}/{}", node.name, op.name());
        self.charge(node, 1024 + 4 * name.len() + 16 * operands.len())?;
        let result = self.add_value(name.clone(), None, None);
        // One more each meanwhile, as others still to come may read them too.
        for id in operands {
            self.reads_left[id.0] += 2;
        }
        let inner = Node {
            name,
            op,
            inputs: operands.iter().copied().map(Some).collect(),
            outputs: vec![Some(result)],
        };
        self.node(&inner).map_err(refused(node))?;
        for id in operands {
            self.reads_left[id.0] -= 1;
        }
        self.check_total()?;
        Ok(result)
    }

    /// Makes `made` the results of `node`.
    fn name_results(&mut self, node: &Node, made: &[ValueId]) {
        for (result, made) in node.outputs.iter().zip(made) {
            let Some(result) = *result else { continue };
            let made = self.alias[made.0];
            if let Some(ty) = self.types[made.0].clone() {
                self.declare(result, ty);
            }
            if let Some(constant) = &self.constants[made.0] {
                self.constants[result.0] = Some(Arc::clone(constant));
            } else if self.is_output[result.0] {
                self.reads_left[made.0] += 1;
                self.nodes.push(Node {
                    name: self.value(result).name.clone(),
                    op: Op::Unary(Unary::Identity),
                    inputs: vec![Some(made)],
                    outputs: vec![Some(result)],
                });
            } else {
                self.alias[result.0] = made;
            }
        }
    }
}

/// A scanned operand.
struct Scanned {
    axis: usize,
    length: usize,
    is_reversed: bool,
    slice: Given,
}

impl Scanned {
    /// The position of slice `round`.
    fn position(&self, round: usize) -> usize {
        match self.is_reversed {
            true => self.length - 1 - round,
            false => round,
        }
    }
}

/// Operands none of which is left out.
fn present(node: &Node, ids: &[Option<ValueId>]) -> Result<Vec<ValueId>, ModelError> {
    match ids.iter().copied().collect::<Option<Vec<ValueId>>>() {
        Some(ids) => Ok(ids),
        None => refuse(node, "an operand is missing"),
    }
}

/// Refuses a body that makes less than is wanted.
pub(super) fn check_makes(node: &Node, bound: &StaticGraph, want: usize) -> Result<(), ModelError> {
    let got = bound.outputs.len();
    match got >= want {
        true => Ok(()),
        false => refuse(
            node,
            format!("its body makes {got} values, {want} are wanted"),
        ),
    }
}

/// Refuses carried values, from output `from` on, that change their element type.
fn check_carried(
    node: &Node,
    bound: &StaticGraph,
    from: usize,
    carried: &[Given],
) -> Result<(), ModelError> {
    for (index, before) in carried.iter().enumerate() {
        let (was, is) = (before.ty.dtype, Given::output(bound, from + index).ty.dtype);
        if was != is {
            return refuse(node, format!("carried value {index} is {was}, then {is}"));
        }
    }
    Ok(())
}
