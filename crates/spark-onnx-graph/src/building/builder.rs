//! A graph under construction that knows the type of every value.
//!
//! Deliberately absent: simplification, which is [`bind`](crate::graph::bind)'s and
//! [`simplify`](crate::simplify)'s, of the finished graph.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::graph::infer::op_error;
use crate::graph::{
    Binary, Cast, ConstantOfShape, Dim, Expand, Graph, Node, Op, OpError, Operand, Reduce,
    ReduceKind, Reshape, Slice, TensorType, Transpose, Unary, Value, ValueId, Variadic, Where,
    infer,
};
use crate::tensor::{DType, Tensor};

/// A value of the graph, or why there is none.
pub(crate) type Built = Result<ValueId, OpError>;

pub(crate) struct Builder {
    graph: Graph,
    types: Vec<TensorType>,
    names: HashSet<String>,
    /// What names of new values begin with, and how many have it.
    prefix: String,
    counts: HashMap<String, usize>,
    numbers: HashMap<(u64, DType), ValueId>,
    lists: HashMap<Vec<i64>, ValueId>,
    /// Bytes that tables may still take.
    room_bytes: usize,
}

impl Builder {
    /// On top of a graph whose values have these types.
    pub(crate) fn new(graph: Graph, types: Vec<TensorType>, room_bytes: usize) -> Self {
        let values = graph.values.iter().map(|value| value.name.clone());
        let nodes = graph.nodes.iter().map(|node| node.name.clone());
        Self {
            names: values.chain(nodes).collect(),
            graph,
            types,
            prefix: String::new(),
            counts: HashMap::new(),
            numbers: HashMap::new(),
            lists: HashMap::new(),
            room_bytes,
        }
    }

    /// What follows has names that begin so.
    pub(crate) fn name_after(&mut self, prefix: String) {
        self.prefix = prefix;
    }

    pub(crate) fn into_graph(self) -> Graph {
        self.graph
    }

    /// With the type of every value.
    pub(crate) fn into_parts(self) -> (Graph, Vec<TensorType>) {
        (self.graph, self.types)
    }

    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// A name that begins with `wish` and is nobody's, taken.
    pub(crate) fn take_name(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        while !self.names.insert(name.clone()) {
            let count = self.counts.entry(wish.to_owned()).or_insert(0);
            *count += 1;
            name = format!("{wish}.{count}");
        }
        name
    }

    pub(crate) fn ty(&self, id: ValueId) -> &TensorType {
        &self.types[id.0]
    }

    pub(crate) fn shape(&self, id: ValueId) -> Vec<usize> {
        self.types[id.0].shape.clone()
    }

    pub(crate) fn dtype(&self, id: ValueId) -> DType {
        self.types[id.0].dtype
    }

    /// The elements, if the value is a constant.
    pub(crate) fn constant_of(&self, id: ValueId) -> Option<Arc<Tensor>> {
        self.graph.value(id).constant.clone()
    }

    pub(crate) fn operand(&self, id: ValueId) -> Operand<'_> {
        let ty = &self.types[id.0];
        Operand {
            dtype: ty.dtype,
            shape: &ty.shape,
            constant: self.graph.value(id).constant.as_deref(),
        }
    }

    pub(crate) fn input(&mut self, wish: &str, ty: TensorType) -> ValueId {
        let name = self.take_name(wish);
        let id = self.value(name, ty, None);
        self.graph.inputs.push(id);
        id
    }

    /// A value under a name of its own as an output of the graph; gives the name.
    pub(crate) fn output(&mut self, wish: &str, id: ValueId) -> Result<String, OpError> {
        let name = self.take_name(wish);
        let named = self.unary(Unary::Identity, id)?;
        let made = std::mem::replace(&mut self.graph.values[named.0].name, name.clone());
        self.names.remove(&made);
        self.graph.outputs.push(named);
        Ok(name)
    }

    /// Makes a value of the graph, which nothing makes yet, of another.
    pub(crate) fn make(&mut self, value: ValueId, of: ValueId) -> Result<(), OpError> {
        let name = self.graph.value(of).name.clone();
        let made = self.graph.nodes.iter_mut().rev();
        let mut made = made.filter(|node| node.name == name);
        match made.next() {
            // What was made last is made under the other's name instead.
            Some(node) if node.outputs == [Some(of)] => node.outputs[0] = Some(value),
            _ => self.graph.nodes.push(Node {
                name,
                op: Op::Unary(Unary::Identity),
                inputs: vec![Some(of)],
                outputs: vec![Some(value)],
            }),
        }
        Ok(())
    }

    fn value(&mut self, name: String, ty: TensorType, constant: Option<Arc<Tensor>>) -> ValueId {
        let shape = ty.shape.iter().map(|&extent| Dim::Known(extent)).collect();
        let id = self.graph.add_value(Value {
            name,
            dtype: Some(ty.dtype),
            shape: Some(shape),
            constant,
        });
        self.types.push(ty);
        id
    }

    pub(crate) fn constant(&mut self, tensor: Tensor) -> ValueId {
        let prefix = self.prefix.clone();
        let name = self.take_name(&prefix);
        let ty = TensorType {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        };
        self.value(name, ty, Some(Arc::new(tensor)))
    }

    /// Asks for room for a table of so many numbers, with what makes it, before it is made.
    pub(crate) fn take(&mut self, extents: &[usize]) -> Result<(), OpError> {
        const BYTES: usize = 32;
        let n = extents.iter();
        let bytes = n.fold(BYTES, |n: usize, &extent| n.saturating_mul(extent));
        match self.room_bytes.checked_sub(bytes) {
            Some(room) => self.room_bytes = room,
            None => {
                let room = self.room_bytes;
                return Err(op_error!(
                    "a table of {bytes} bytes, {room} of the budget are left"
                ));
            }
        }
        Ok(())
    }

    /// Floats of a type, as a constant.
    pub(crate) fn floats(&mut self, dtype: DType, shape: &[usize], values: Vec<f64>) -> Built {
        let tensor = Tensor::from_f64(dtype, shape, values);
        Ok(self.constant(tensor.map_err(|error| op_error!("{error}"))?))
    }

    /// Whole numbers of a shape, as a constant.
    pub(crate) fn whole(&mut self, shape: &[usize], values: Vec<i64>) -> Built {
        let tensor = Tensor::from_i64(shape, values);
        Ok(self.constant(tensor.map_err(|error| op_error!("{error}"))?))
    }

    /// A list of whole numbers, one constant for all that have the same.
    pub(crate) fn list(&mut self, values: Vec<i64>) -> Built {
        if let Some(&id) = self.lists.get(&values) {
            return Ok(id);
        }
        let id = self.whole(&[values.len()], values.clone())?;
        self.lists.insert(values, id);
        Ok(id)
    }

    /// One number, in the type of `like`.
    pub(crate) fn number(&mut self, value: f64, like: ValueId) -> Built {
        let dtype = self.dtype(like);
        let key = (value.to_bits(), dtype);
        if let Some(&id) = self.numbers.get(&key) {
            return Ok(id);
        }
        let id = self.floats(dtype, &[], vec![value])?;
        self.numbers.insert(key, id);
        Ok(id)
    }

    /// As many zeros as `shape` has elements.
    pub(crate) fn zeros(&mut self, dtype: DType, shape: &[usize]) -> Built {
        let value = Tensor::zeros(dtype, [1]).map_err(|error| op_error!("{error}"))?;
        let extents = self.list(shape.iter().map(|&extent| extent as i64).collect())?;
        self.op(ConstantOfShape { value }, &[extents])
    }

    /// The one result of an operator.
    pub(crate) fn op(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> Built {
        let operands: Vec<_> = operands.iter().map(|&id| Some(id)).collect();
        Ok(self.ops(op, &operands, 1)?[0])
    }

    /// All results of an operator.
    pub(crate) fn ops(
        &mut self,
        op: impl Into<Op>,
        operands: &[Option<ValueId>],
        n_results: usize,
    ) -> Result<Vec<ValueId>, OpError> {
        let op = op.into();
        let typed: Vec<_> = operands
            .iter()
            .map(|id| id.map(|id| self.operand(id)))
            .collect();
        let types = infer(&op, &typed, n_results)?;
        let prefix = self.prefix.clone();
        let results: Vec<ValueId> = types
            .into_iter()
            .map(|ty| {
                let name = self.take_name(&prefix);
                self.value(name, ty, None)
            })
            .collect();
        let name = self.graph.value(results[0]).name.clone();
        self.graph.nodes.push(Node {
            name,
            op,
            inputs: operands.to_vec(),
            outputs: results.iter().map(|&id| Some(id)).collect(),
        });
        Ok(results)
    }

    pub(crate) fn unary(&mut self, f: Unary, x: ValueId) -> Built {
        self.op(f, &[x])
    }

    pub(crate) fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> Built {
        self.op(f, &[a, b])
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> Built {
        self.binary(Binary::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: ValueId, b: ValueId) -> Built {
        self.binary(Binary::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> Built {
        self.binary(Binary::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: ValueId, b: ValueId) -> Built {
        self.binary(Binary::Div, a, b)
    }

    pub(crate) fn sum(&mut self, terms: &[ValueId]) -> Built {
        match terms {
            [one] => Ok(*one),
            terms => self.op(Variadic::Sum, terms),
        }
    }

    pub(crate) fn add_number(&mut self, x: ValueId, value: f64) -> Built {
        let value = self.number(value, x)?;
        self.add(x, value)
    }

    pub(crate) fn times(&mut self, x: ValueId, factor: f64) -> Built {
        if factor == 1.0 {
            return Ok(x);
        }
        let factor = self.number(factor, x)?;
        self.mul(x, factor)
    }

    /// `value - x`.
    pub(crate) fn number_less(&mut self, value: f64, x: ValueId) -> Built {
        let value = self.number(value, x)?;
        self.sub(value, x)
    }

    pub(crate) fn square(&mut self, x: ValueId) -> Built {
        self.mul(x, x)
    }

    /// Compares with a number.
    pub(crate) fn compare(&mut self, f: Binary, x: ValueId, value: f64) -> Built {
        let value = self.number(value, x)?;
        self.binary(f, x, value)
    }

    pub(crate) fn select(
        &mut self,
        condition: ValueId,
        then: ValueId,
        otherwise: ValueId,
    ) -> Built {
        self.op(Where, &[condition, then, otherwise])
    }

    /// `x` where the condition is true, a number elsewhere.
    pub(crate) fn keep_where(&mut self, condition: ValueId, x: ValueId, otherwise: f64) -> Built {
        let otherwise = self.number(otherwise, x)?;
        self.select(condition, x, otherwise)
    }

    /// `x` where the condition is false, a number elsewhere.
    pub(crate) fn keep_unless(&mut self, condition: ValueId, x: ValueId, otherwise: f64) -> Built {
        let otherwise = self.number(otherwise, x)?;
        self.select(condition, otherwise, x)
    }

    pub(crate) fn cast(&mut self, x: ValueId, to: DType) -> Built {
        match self.dtype(x) == to {
            true => Ok(x),
            false => self.op(Cast { to }, &[x]),
        }
    }

    pub(crate) fn reshape(&mut self, x: ValueId, shape: &[usize]) -> Built {
        if self.ty(x).shape == shape {
            return Ok(x);
        }
        let extents = self.list(shape.iter().map(|&extent| extent as i64).collect())?;
        self.op(Reshape { allow_zero: true }, &[x, extents])
    }

    pub(crate) fn transpose(&mut self, x: ValueId, perm: Vec<usize>) -> Built {
        match perm.iter().enumerate().all(|(i, &axis)| i == axis) {
            true => Ok(x),
            false => self.op(Transpose { perm: Some(perm) }, &[x]),
        }
    }

    pub(crate) fn expand(&mut self, x: ValueId, shape: &[usize]) -> Built {
        if self.ty(x).shape == shape {
            return Ok(x);
        }
        let extents = self.list(shape.iter().map(|&extent| extent as i64).collect())?;
        self.op(Expand, &[x, extents])
    }

    /// Reduced axes stay with extent 1.
    pub(crate) fn reduce(&mut self, kind: ReduceKind, x: ValueId, axes: &[usize]) -> Built {
        if axes.is_empty() {
            return Ok(x);
        }
        let axes = self.list(axes.iter().map(|&axis| axis as i64).collect())?;
        let op = Reduce {
            kind,
            keep_dims: true,
            noop_with_empty_axes: false,
        };
        self.op(op, &[x, axes])
    }

    /// The sum over what broadcasting made of a value of this shape.
    pub(crate) fn sum_to(&mut self, x: ValueId, shape: &[usize]) -> Built {
        let from = self.shape(x);
        let n_new = from.len().saturating_sub(shape.len());
        let axes: Vec<usize> = (0..from.len())
            .filter(|&axis| from[axis] != 1 && (axis < n_new || shape[axis - n_new] == 1))
            .collect();
        let x = self.reduce(ReduceKind::Sum, x, &axes)?;
        self.reshape(x, shape)
    }

    /// Elements `begin..end` along an axis.
    pub(crate) fn slice(&mut self, x: ValueId, axis: usize, begin: usize, end: usize) -> Built {
        if (begin, end) == (0, self.ty(x).shape[axis]) {
            return Ok(x);
        }
        let begin = self.list(vec![begin as i64])?;
        let end = self.list(vec![end as i64])?;
        let axis = self.list(vec![axis as i64])?;
        self.op(Slice, &[x, begin, end, axis])
    }
}
