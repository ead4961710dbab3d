//! Graph to plan, one operator family per file.
//!
//! ```text
//! for node in graph:
//!     data movement     -> a view where strides can say it, else Copy steps
//!     element-wise      -> folded into the product before it (bias, scale, activation, residual),
//!                          else deferred and joined with the element-wise nodes around it
//!     everything else   -> one step, its operands brought into the layout the step asks for
//! ```
//!
//! A batch normalisation, a layer scale or a bias after a product is a scale and a
//! shift per channel, and both fold into the weights by the same two rules.

mod conv;
mod elementwise;
mod fuse;
mod matmul;
mod movement;
mod norm;
mod recurrent;
mod reduce;
mod resize;
mod reuse;

use std::collections::HashMap;
use std::sync::Arc;

use super::pointwise::{Expression, RegisterKind};
use super::*;
use crate::ModelError;
use crate::graph::{Node, Op, OpError, StaticGraph, TensorType, ValueId};
use crate::tensor::{DType, Tensor, TensorData};

/// Lowers a graph whose shapes are fixed.
///
/// # Errors
///
/// [`ModelError::Operator`] for an operator or form of it no step exists for, naming
/// the node: more than 8 axes, convolutions over three spatial axes, shapes that
/// depend on values. [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] if its arena,
/// constants and outputs, or a table made on the way, take more than the graph's budget or the
/// system has. [`ModelError::BeyondF32`] for constants that would become infinities.
pub(crate) fn lower(graph: &StaticGraph) -> Result<Plan, ModelError> {
    let mut graph = graph.clone();
    super::patterns::join(&mut graph);
    super::subsample::subsample(&mut graph);
    let mut lowering = Lowering::new(&graph);
    lowering.inputs()?;
    lowering.constants_fit_f32()?;
    for node in &graph.nodes {
        if lowering.nothing(node) {
            continue;
        }
        let held = lowering.constant_bytes.saturating_add(lowering.table_bytes);
        super::budget::check_node(&graph, node, held)?;
        lowering
            .node(node)
            .map_err(|e: OpError| ModelError::Operator {
                node: node.name.clone(),
                op: node.op.name().to_owned(),
                reason: e.reason,
            })?;
    }
    lowering.outputs()?;
    let mut plan = lowering.plan;
    super::attention::join(&mut plan);
    reuse::write_in_place(&mut plan);
    if let Some(planned) = plan.wrongly_held() {
        return Err(ModelError::Operator {
            node: planned.name.clone(),
            op: planned.step.kind().to_owned(),
            reason: "no kernel for integers of 16 bits and more".to_owned(),
        });
    }
    let arena = Arena::of(&plan);
    for (buffer, offset) in plan.buffers.iter_mut().zip(arena.offsets) {
        if let (Place::Arena { offset_bytes }, Some(offset)) = (&mut buffer.place, offset) {
            *offset_bytes = offset;
        }
    }
    plan.arena_bytes = arena.bytes;
    plan.budget_bytes = graph.budget_bytes;
    plan.take_budget()?;
    Ok(plan)
}

/// An element-wise result that no step computes yet.
#[derive(Debug, Clone)]
struct Deferred {
    expression: Expression,
    inputs: Vec<View>,
    name: String,
}

/// What became of a graph value.
#[derive(Debug, Clone)]
enum Lowered {
    Nothing,
    View(View),
    Deferred(Deferred),
}

/// The step that makes a value, and the value's axis along which its channels lie.
#[derive(Debug, Clone, Copy)]
struct Producer {
    step: usize,
    channel_axis: usize,
}

struct Lowering<'g> {
    graph: &'g StaticGraph,
    plan: Plan,
    values: Vec<Lowered>,
    /// Readers of every value, the caller counted as one.
    readers: Vec<usize>,
    /// The product a value comes from, while its epilogue may still grow.
    producer: HashMap<ValueId, Producer>,
    /// Bytes of the constants made so far.
    constant_bytes: usize,
    /// Bytes of the tables of the steps made so far.
    table_bytes: usize,
    /// Constants already given a buffer, by address and storage.
    constants: HashMap<(usize, Storage), BufferId>,
}

fn fail<T>(reason: impl Into<String>) -> Result<T, OpError> {
    Err(OpError {
        reason: reason.into(),
    })
}

impl<'g> Lowering<'g> {
    fn new(graph: &'g StaticGraph) -> Self {
        let mut readers = vec![0; graph.values.len()];
        for id in graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten()) {
            readers[id.0] += 1;
        }
        for id in &graph.outputs {
            readers[id.0] += 1;
        }
        Self {
            graph,
            plan: Plan::default(),
            values: vec![Lowered::Nothing; graph.values.len()],
            readers,
            producer: HashMap::new(),
            constant_bytes: 0,
            table_bytes: 0,
            constants: HashMap::new(),
        }
    }

    /// Images enter channels-last: the edge copies anyway, so the transpose is free.
    fn inputs(&mut self) -> Result<(), ModelError> {
        for &id in &self.graph.inputs {
            let value = self.graph.value(id);
            if value.ty.shape.len() > MAX_RANK {
                return Err(ModelError::Operator {
                    node: value.name.clone(),
                    op: "input".to_owned(),
                    reason: format!("{} axes, at most {MAX_RANK}", value.ty.shape.len()),
                });
            }
            if value.ty.dtype == DType::F64 {
                tracing::warn!(input = %value.name, "f64 values are carried as f32");
            }
            let view = self.image_buffer(Storage::of(value.ty.dtype), &value.ty.shape);
            self.values[id.0] = Lowered::View(view.clone());
            self.plan.inputs.push(Port {
                name: value.name.clone(),
                dtype: value.ty.dtype,
                shape: value.ty.shape.clone(),
                view,
            });
        }
        Ok(())
    }

    /// Constants that nodes read; what folding left behind is not computed with.
    fn constants_fit_f32(&self) -> Result<(), ModelError> {
        for (value, &readers) in self.graph.values.iter().zip(&self.readers) {
            let constant = value.constant.as_ref().filter(|_| readers > 0);
            if let Some(beyond) = constant.and_then(|c| c.first_beyond_f32()) {
                return Err(ModelError::BeyondF32 {
                    what: "constant",
                    name: value.name.clone(),
                    value: beyond,
                });
            }
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<(), ModelError> {
        for &id in &self.graph.outputs {
            let view = self.view(id).map_err(|e| ModelError::Operator {
                node: self.graph.value(id).name.clone(),
                op: "output".to_owned(),
                reason: e.reason,
            })?;
            let value = self.graph.value(id);
            self.plan.outputs.push(Port {
                name: value.name.clone(),
                dtype: value.ty.dtype,
                shape: value.ty.shape.clone(),
                view,
            });
        }
        Ok(())
    }

    /// Whether no result of `node`, all of as many axes as there may be, has an element; then they
    /// are set, and no step makes them.
    fn nothing(&mut self, node: &Node) -> bool {
        let results = || node.outputs.iter().flatten();
        let shapes = results().map(|&id| &self.graph.value(id).ty.shape[..]);
        let is_nothing = results().all(|&id| self.ty(id).shape.len() <= MAX_RANK)
            && node.op.computes_nothing(shapes);
        if is_nothing {
            for &id in results() {
                let ty = self.ty(id);
                let empty = self.image_buffer(Storage::of(ty.dtype), &ty.shape);
                self.set(id, empty);
            }
        }
        is_nothing
    }

    fn node(&mut self, node: &Node) -> Result<(), OpError> {
        for id in node.outputs.iter().flatten() {
            if self.ty(*id).shape.len() > MAX_RANK {
                return fail(format!(
                    "result has {} axes, at most {MAX_RANK}",
                    self.ty(*id).shape.len()
                ));
            }
        }
        match &node.op {
            Op::Unary(_) | Op::Binary(_) | Op::Variadic(_) | Op::Where | Op::Clip => {
                self.elementwise(node)
            }
            Op::Cast { .. }
            | Op::CastLike
            | Op::QuantizeLinear { .. }
            | Op::DequantizeLinear { .. }
            | Op::BatchNormalization { .. }
            | Op::Trilu { .. }
            | Op::OneHot { .. } => self.elementwise(node),
            Op::Conv(params) => self.conv(node, params),
            Op::ConvTranspose(params) => self.conv_transpose(node, params),
            Op::Pool(params) => self.pool(node, params),
            Op::GlobalPool(kind) => self.global_pool(node, *kind),
            Op::Gemm(params) => self.gemm(node, *params),
            Op::MatMul => self.matmul(node),
            Op::Einsum { equation } => self.einsum(node, equation),
            Op::LayerNormalization { axis, epsilon } => {
                self.layer_norm(node, *axis, *epsilon, NormKind::MeanVariance)
            }
            Op::RmsNormalization { axis, epsilon } => {
                self.layer_norm(node, *axis, *epsilon, NormKind::MeanSquare)
            }
            Op::InstanceNormalization { epsilon } => self.group_norm(node, None, *epsilon),
            Op::GroupNormalization { epsilon, groups } => {
                self.group_norm(node, Some(*groups), *epsilon)
            }
            Op::LpNormalization { axis, p } => self.lp_norm(node, *axis, *p),
            Op::Lrn {
                alpha,
                beta,
                bias,
                size,
            } => self.lrn(node, *alpha, *beta, *bias, *size),
            Op::Softmax(params) => self.softmax(node, *params, false),
            Op::MaskedSoftmax => self.softmax(node, norm::MASKED_SOFTMAX, true),
            Op::Recurrent(params) => self.recurrent(node, params),
            Op::Reduce(params) => self.reduce(node, *params),
            Op::ArgReduce(params) => self.arg_reduce(node, *params),
            Op::TopK { axis, largest, .. } => self.top_k(node, *axis, *largest),
            Op::CumSum { exclusive, reverse } => self.cum_sum(node, *exclusive, *reverse),
            Op::Resize(params) => self.resize(node, params),
            Op::GridSample {
                mode,
                padding,
                align_corners,
            } => self.grid_sample(node, *mode, *padding, *align_corners),
            _ => self.movement(node),
        }
    }

    fn ty(&self, id: ValueId) -> &'g TensorType {
        &self.graph.value(id).ty
    }

    /// Operand `index` of `node`, which must be there.
    fn operand(&self, node: &Node, index: usize) -> Result<ValueId, OpError> {
        match node.inputs.get(index).copied().flatten() {
            Some(id) => Ok(id),
            None => fail(format!("operand {index} is missing")),
        }
    }

    fn optional(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.inputs.get(index).copied().flatten()
    }

    /// Result `index` of `node`, if wanted.
    fn result(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.outputs.get(index).copied().flatten()
    }

    /// The elements of a constant value.
    fn constant(&self, id: ValueId) -> Option<&'g Arc<Tensor>> {
        self.graph.value(id).constant.as_ref()
    }

    /// The elements of an operand that must be constant, as i64.
    fn constant_i64(&self, id: ValueId, what: &str) -> Result<Vec<i64>, OpError> {
        match self.constant(id).map(|tensor| tensor.data()) {
            Some(TensorData::I64(v)) => Ok(v.clone()),
            Some(TensorData::I32(v)) => Ok(v.iter().map(|&x| i64::from(x)).collect()),
            Some(_) => fail(format!("{what} is not an integer tensor")),
            None => fail(format!(
                "{what} is not constant, so the shape depends on values"
            )),
        }
    }

    fn buffer(&mut self, storage: Storage, len: usize) -> BufferId {
        self.plan.buffers.push(Buffer {
            storage,
            len,
            place: Place::Arena { offset_bytes: 0 },
        });
        BufferId(self.plan.buffers.len() - 1)
    }

    fn constant_buffer(&mut self, data: ConstantData) -> BufferId {
        let (storage, len) = match &data {
            ConstantData::F32(v) => (Storage::F32, v.len()),
            ConstantData::I64(v) => (Storage::I64, v.len()),
        };
        self.constant_bytes += len * storage.size_bytes();
        self.plan.buffers.push(Buffer {
            storage,
            len,
            place: Place::Constant(data),
        });
        BufferId(self.plan.buffers.len() - 1)
    }

    /// A fresh dense buffer with axes in `order`, outermost first.
    fn dense_buffer(&mut self, storage: Storage, shape: &[usize], order: &[usize]) -> View {
        let buffer = self.buffer(storage, shape.iter().product());
        View::dense(buffer, shape, order)
    }

    fn row_major_buffer(&mut self, storage: Storage, shape: &[usize]) -> View {
        self.dense_buffer(storage, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    /// Channels-last for shapes of three axes and more that could be images, else row-major.
    fn image_buffer(&mut self, storage: Storage, shape: &[usize]) -> View {
        self.dense_buffer(storage, shape, &image_order(shape.len()))
    }

    fn emit(&mut self, name: &str, step: Step) -> usize {
        self.table_bytes = self.table_bytes.saturating_add(step.table_bytes());
        self.plan.steps.push(PlannedStep {
            name: name.to_owned(),
            step,
        });
        self.plan.steps.len() - 1
    }

    fn set(&mut self, id: ValueId, view: View) {
        self.values[id.0] = Lowered::View(view);
    }

    /// The elements of `id` as a view, computing them now if they were deferred.
    fn view(&mut self, id: ValueId) -> Result<View, OpError> {
        if let Lowered::View(view) = &self.values[id.0] {
            return Ok(view.clone());
        }
        if let Lowered::Deferred(deferred) = &self.values[id.0] {
            let deferred = deferred.clone();
            let view = self.emit_pointwise(deferred, &self.ty(id).shape);
            self.set(id, view.clone());
            return Ok(view);
        }
        let Some(tensor) = self.graph.value(id).constant.clone() else {
            return fail(format!(
                "value `{}` is read before it is made",
                self.graph.value(id).name
            ));
        };
        let view = self.constant_view(&tensor);
        self.set(id, view.clone());
        Ok(view)
    }

    fn constant_view(&mut self, tensor: &Arc<Tensor>) -> View {
        let storage = Storage::of(tensor.dtype());
        let key = (Arc::as_ptr(tensor) as usize, storage);
        let buffer = match self.constants.get(&key) {
            Some(&buffer) => buffer,
            None => {
                let buffer = self.constant_buffer(constant_data(tensor));
                self.constants.insert(key, buffer);
                buffer
            }
        };
        let shape = tensor.shape();
        View::dense(buffer, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    /// A constant vector as a row-major view of `shape`.
    fn f32_constant(&mut self, values: Vec<f32>, shape: &[usize]) -> View {
        let buffer = self.constant_buffer(ConstantData::F32(Arc::new(values)));
        View::dense(buffer, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    fn storage(&self, view: &View) -> Storage {
        self.plan.buffers[view.buffer.0].storage
    }

    /// Copies `view` into a fresh buffer with axes in `order`.
    fn copied(&mut self, name: &str, view: &View, order: &[usize]) -> View {
        let y = self.dense_buffer(self.storage(view), &view.shape(), order);
        self.emit(
            name,
            Step::Copy(CopyStep {
                x: view.clone(),
                y: y.clone(),
            }),
        );
        y
    }

    /// `view` with unit stride along `axis`, copied with that axis innermost if need be.
    fn unit_stride(&mut self, name: &str, view: View, axis: usize) -> View {
        if view.axes[axis].extent == 1 || view.axes[axis].stride == 1 {
            return view;
        }
        let mut order: Vec<usize> = (0..view.rank()).filter(|&a| a != axis).collect();
        order.push(axis);
        self.copied(name, &view, &order)
    }

    /// `view` under another shape, copied to row-major order first if strides cannot say it.
    fn reshaped(&mut self, name: &str, view: View, shape: &[usize]) -> View {
        if let Some(v) = view.reshaped(shape) {
            return v;
        }
        let order: Vec<usize> = (0..view.rank()).collect();
        let dense = self.copied(name, &view, &order);
        View::dense(dense.buffer, shape, &(0..shape.len()).collect::<Vec<_>>())
    }
}

/// Batch, then the spatial axes, then channels; row-major below three axes.
fn image_order(rank: usize) -> Vec<usize> {
    if rank < 3 {
        return (0..rank).collect();
    }
    let mut order = vec![0];
    order.extend(2..rank);
    order.push(1);
    order
}

fn constant_data(tensor: &Tensor) -> ConstantData {
    match Storage::of(tensor.dtype()) {
        Storage::F32 => ConstantData::F32(Arc::new(tensor.to_f32())),
        Storage::I64 => ConstantData::I64(Arc::new(match tensor.data() {
            TensorData::I64(v) => v.clone(),
            TensorData::U64(v) => v.iter().map(|&x| x as i64).collect(),
            _ => tensor.to_f64().into_iter().map(|x| x as i64).collect(),
        })),
    }
}

/// The register kind elements of `storage` are loaded into.
fn register_kind(storage: Storage) -> RegisterKind {
    match storage {
        Storage::F32 => RegisterKind::F32,
        Storage::I64 => RegisterKind::I64,
    }
}

/// A possibly negative axis as a position below `rank`.
fn axis_index(axis: i64, rank: usize) -> Result<usize, OpError> {
    let index = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&index) {
        return Ok(index as usize);
    }
    fail(format!("axis {axis} of {rank} axes"))
}
