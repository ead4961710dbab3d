//! A plan while it is made: what became of every value, and the steps and buffers so far.
//!
//! ```text
//! value of the graph   nothing yet | a view of a buffer | an expression that no step computes yet
//! impl Lower for Op    reads operands as views, adds steps, says what its results are
//! ```
//!
//! Deliberately absent: the operators, which are in the files beside this one by family.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Node, OpError, StaticGraph, TensorType, ValueId};
use crate::plan::pointwise::{Expression, PointOp, RegisterKind};
use crate::plan::step::{CopyStep, PointwiseStep, Step, int8_storage};
use crate::plan::{Buffer, BufferId, ConstantData, Place, Plan, PlannedStep, Storage, View};
use crate::tensor::{Tensor, TensorData};

/// An operator that has steps. Every parameter struct of an operator is one.
pub(super) trait Lower {
    /// Adds the steps of `node`, whose operator this is, and says what its results are.
    ///
    /// # Errors
    ///
    /// [`OpError`] for a form of it that no step exists for.
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError>;

    /// Whether its steps work on pictures, and so want them channels-last.
    fn works_on_images(&self) -> bool {
        false
    }

    /// Bytes of the tables and masks that this makes at most, from the shapes of the first operand
    /// and of the first result.
    fn table_bytes(&self, _read: &[usize], _written: &[usize]) -> usize {
        0
    }
}

/// An element-wise result that no step computes yet.
#[derive(Debug, Clone)]
pub(super) struct Deferred {
    pub(super) expression: Expression,
    pub(super) inputs: Vec<View>,
    pub(super) name: String,
}

/// Bytes that stand for `(x - zero) * scale`.
pub(super) struct Dequantised {
    pub(super) x: View,
    pub(super) zero: f32,
    pub(super) scale: f32,
}

/// What became of a graph value.
#[derive(Debug, Clone)]
pub(super) enum Lowered {
    Nothing,
    View(View),
    Deferred(Deferred),
}

/// The step that makes a value, and the value's axis along which its channels lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Producer {
    pub(super) step: usize,
    pub(super) channel_axis: usize,
}

pub(super) struct Lowering<'g> {
    pub(super) graph: &'g StaticGraph,
    pub(super) plan: Plan,
    pub(super) values: Vec<Lowered>,
    /// Values that are there as bytes, perhaps as floats as well.
    pub(super) bytes: HashMap<ValueId, View>,
    /// Readers of every value, the caller counted as one.
    pub(super) readers: Vec<usize>,
    /// The GEMM or convolution a value comes from, while its epilogue may still grow.
    pub(super) producer: HashMap<ValueId, Producer>,
    /// Bytes of the constants made so far.
    pub(super) constant_bytes: usize,
    /// Bytes of the tables of the steps made so far.
    pub(super) table_bytes: usize,
    /// Labels of steps that were given out.
    pub(super) labels: usize,
    /// Constants already given a buffer, by address and storage.
    pub(super) constants: HashMap<(usize, Storage), BufferId>,
}

pub(super) fn fail<T>(reason: impl Into<String>) -> Result<T, OpError> {
    Err(OpError {
        reason: reason.into(),
    })
}

impl<'g> Lowering<'g> {
    pub(super) fn new(graph: &'g StaticGraph) -> Self {
        let mut readers = vec![0; graph.values().len()];
        for id in graph.nodes().iter().flat_map(|n| n.inputs.iter().flatten()) {
            readers[id.0] += 1;
        }
        for id in graph.outputs() {
            readers[id.0] += 1;
        }
        Self {
            graph,
            plan: Plan::default(),
            values: vec![Lowered::Nothing; graph.values().len()],
            bytes: HashMap::new(),
            readers,
            producer: HashMap::new(),
            constant_bytes: 0,
            table_bytes: 0,
            labels: 0,
            constants: HashMap::new(),
        }
    }

    pub(super) fn ty(&self, id: ValueId) -> &'g TensorType {
        &self.graph.value(id).ty
    }

    /// Operand `index` of `node`, which must be there.
    pub(super) fn operand(&self, node: &Node, index: usize) -> Result<ValueId, OpError> {
        match node.inputs.get(index).copied().flatten() {
            Some(id) => Ok(id),
            None => fail(format!("operand {index} is missing")),
        }
    }

    pub(super) fn optional(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.inputs.get(index).copied().flatten()
    }

    /// Result `index` of `node`, if wanted.
    pub(super) fn result(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.outputs.get(index).copied().flatten()
    }

    /// The elements of a constant value.
    pub(super) fn constant(&self, id: ValueId) -> Option<&'g Arc<Tensor>> {
        self.graph.value(id).constant.as_ref()
    }

    /// The elements of an operand that must be constant, as i64.
    pub(super) fn constant_i64(&self, id: ValueId, what: &str) -> Result<Vec<i64>, OpError> {
        match self.constant(id).map(|tensor| tensor.data()) {
            Some(TensorData::I64(v)) => Ok(v.clone()),
            Some(TensorData::I32(v)) => Ok(v.iter().map(|&x| i64::from(x)).collect()),
            Some(_) => fail(format!("{what} is not an integer tensor")),
            None => fail(format!(
                "{what} is not constant, so the shape depends on values"
            )),
        }
    }

    pub(super) fn buffer(&mut self, storage: Storage, len: usize) -> BufferId {
        self.plan.buffers.push(Buffer {
            storage,
            len,
            place: Place::Arena,
        });
        BufferId(self.plan.buffers.len() - 1)
    }

    pub(super) fn constant_buffer(&mut self, data: ConstantData) -> BufferId {
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
    pub(super) fn dense_buffer(
        &mut self,
        storage: Storage,
        shape: &[usize],
        order: &[usize],
    ) -> View {
        let buffer = self.buffer(storage, shape.iter().product());
        View::dense(buffer, shape, order)
    }

    pub(super) fn row_major_buffer(&mut self, storage: Storage, shape: &[usize]) -> View {
        self.dense_buffer(storage, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    /// Channels-last for shapes of three axes and more that could be images, else row-major.
    pub(super) fn image_buffer(&mut self, storage: Storage, shape: &[usize]) -> View {
        self.dense_buffer(storage, shape, &image_order(shape.len()))
    }

    pub(super) fn emit(&mut self, name: &str, step: Step) -> usize {
        self.table_bytes = self.table_bytes.saturating_add(step.table_bytes());
        self.plan.steps.push(PlannedStep {
            name: name.to_owned(),
            step,
        });
        self.plan.steps.len() - 1
    }

    pub(super) fn set(&mut self, id: ValueId, view: View) {
        self.values[id.0] = Lowered::View(view);
    }

    /// The bytes that `id` is dequantised from by one scale, if no step does so yet.
    pub(super) fn dequantised(&self, id: ValueId) -> Option<Dequantised> {
        let Lowered::Deferred(deferred) = &self.values[id.0] else {
            return None;
        };
        let [x] = &deferred.inputs[..] else {
            return None;
        };
        self.storage(x).is_byte().then_some(())?;
        let node = |at: u16| deferred.expression.nodes[usize::from(at)];
        let constant = |at: u16| match node(at).op {
            PointOp::ConstantF32(value) => Some(value),
            _ => None,
        };
        let is_load = |at: u16| matches!(node(at).op, PointOp::Load(_));
        let last = deferred.expression.nodes.last()?;
        (last.op == PointOp::Mul).then_some(())?;
        let (scale, centred) = (constant(last.args[1])?, last.args[0]);
        let zero = match node(centred).op {
            PointOp::Load(_) => 0.0,
            PointOp::Sub if is_load(node(centred).args[0]) => constant(node(centred).args[1])?,
            _ => return None,
        };
        let x = x.clone();
        Some(Dequantised { x, zero, scale })
    }

    /// `id` is there as `view`, bytes or not.
    pub(super) fn set_held(&mut self, id: ValueId, view: View) {
        match self.storage(&view).is_byte() {
            true => _ = self.bytes.insert(id, view),
            false => self.set(id, view),
        }
    }

    /// The elements of `id` as a view, computing them now if they were deferred.
    pub(super) fn view(&mut self, id: ValueId) -> Result<View, OpError> {
        if let Lowered::View(view) = &self.values[id.0] {
            return Ok(view.clone());
        }
        if let Lowered::Deferred(deferred) = &self.values[id.0] {
            let deferred = deferred.clone();
            let view = self.emit_pointwise(deferred, &self.ty(id).shape);
            self.set(id, view.clone());
            return Ok(view);
        }
        if let Some(bytes) = self.bytes.get(&id).cloned() {
            let y = self.dense_buffer(Storage::F32, &bytes.shape(), &bytes.memory_order());
            let step = CopyStep {
                x: bytes,
                y: y.clone(),
            };
            self.emit(&self.graph.value(id).name, Step::Copy(step));
            self.set(id, y.clone());
            return Ok(y);
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

    /// Value `id`, of 8-bit integers, as bytes; made of floats if it is there as such alone, with the axes in
    /// `order` then. What is computed only now is computed as bytes, and lies as its operands do.
    pub(super) fn bytes(&mut self, id: ValueId, order: &[usize]) -> Result<View, OpError> {
        if let Some(bytes) = self.bytes.get(&id) {
            return Ok(bytes.clone());
        }
        let value = self.graph.value(id);
        let storage = int8_storage(value.ty.dtype);
        let bytes = match std::mem::replace(&mut self.values[id.0], Lowered::Nothing) {
            Lowered::Deferred(deferred) => {
                self.emit_pointwise_as(deferred, &value.ty.shape, storage)
            }
            other => {
                self.values[id.0] = other;
                let x = self.view(id)?;
                let y = self.dense_buffer(storage, &x.shape(), order);
                let step = CopyStep { x, y: y.clone() };
                self.emit(&value.name, Step::Copy(step));
                y
            }
        };
        self.bytes.insert(id, bytes.clone());
        Ok(bytes)
    }

    /// Value `id` as bytes if it is there as such, or is of 8-bit integers and computed only now; else as it is
    /// held otherwise.
    pub(super) fn held(&mut self, id: ValueId) -> Result<View, OpError> {
        match self.is_byte(id) {
            true => self.bytes(id, &[]),
            false => self.view(id),
        }
    }

    /// Whether value `id` is there as bytes, or is of 8-bit integers and computed only now.
    pub(super) fn is_byte(&self, id: ValueId) -> bool {
        let is_byte = int8_storage(self.ty(id).dtype).is_byte();
        let is_deferred = matches!(self.values[id.0], Lowered::Deferred(_));
        self.bytes.contains_key(&id) || (is_byte && is_deferred)
    }

    pub(super) fn constant_view(&mut self, tensor: &Arc<Tensor>) -> View {
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
    pub(super) fn f32_constant(&mut self, values: Vec<f32>, shape: &[usize]) -> View {
        let buffer = self.constant_buffer(ConstantData::F32(Arc::new(values)));
        View::dense(buffer, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    pub(super) fn storage(&self, view: &View) -> Storage {
        self.plan.buffers[view.buffer.0].storage
    }

    /// Copies `view` into a fresh buffer with axes in `order`.
    pub(super) fn copied(&mut self, name: &str, view: &View, order: &[usize]) -> View {
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
    pub(super) fn unit_stride(&mut self, name: &str, view: View, axis: usize) -> View {
        if view.axes[axis].extent == 1 || view.axes[axis].stride == 1 {
            return view;
        }
        let mut order: Vec<usize> = (0..view.rank()).filter(|&a| a != axis).collect();
        order.push(axis);
        self.copied(name, &view, &order)
    }

    /// `view` under another shape, copied to row-major order first if strides cannot say it.
    pub(super) fn reshaped(&mut self, name: &str, view: View, shape: &[usize]) -> View {
        if let Some(v) = view.reshaped(shape) {
            return v;
        }
        let order: Vec<usize> = (0..view.rank()).collect();
        let dense = self.copied(name, &view, &order);
        View::dense(dense.buffer, shape, &(0..shape.len()).collect::<Vec<_>>())
    }

    /// Lowers an operator by its one result; nothing where it is not wanted.
    pub(super) fn lower_result(
        &mut self,
        node: &Node,
        lower: impl FnOnce(&mut Self, ValueId) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        match self.result(node, 0) {
            Some(out) => lower(self, out),
            None => Ok(()),
        }
    }

    /// [`Self::lower_result`] of an operator whose result is a view.
    pub(super) fn lower_view(
        &mut self,
        node: &Node,
        lower: impl FnOnce(&mut Self, ValueId) -> Result<View, OpError>,
    ) -> Result<(), OpError> {
        self.lower_result(node, |lowering, out| {
            let view = lower(lowering, out)?;
            lowering.set_held(out, view);
            Ok(())
        })
    }

    /// Emits the step that computes a deferred result; it lies in memory as the first
    /// operand that is read in full does.
    pub(super) fn emit_pointwise(&mut self, deferred: Deferred, shape: &[usize]) -> View {
        let storage = match deferred.expression.result_kind() {
            RegisterKind::F32 => Storage::F32,
            RegisterKind::I64 => Storage::I64,
        };
        self.emit_pointwise_as(deferred, shape, storage)
    }

    /// The same with its result held as `storage`, into which it fits.
    fn emit_pointwise_as(&mut self, deferred: Deferred, shape: &[usize], storage: Storage) -> View {
        let full = |v: &&View| v.axes.iter().all(|a| a.extent == 1 || a.stride != 0);
        let order = match deferred.inputs.iter().find(full) {
            Some(view) => view.memory_order(),
            None => image_order(shape.len()),
        };
        let y = self.dense_buffer(storage, shape, &order);
        let program = deferred.expression.compile();
        self.emit(
            &deferred.name,
            Step::Pointwise(PointwiseStep {
                inputs: deferred.inputs,
                y: y.clone(),
                program,
            }),
        );
        y
    }
}

/// Batch, then the spatial axes, then channels; row-major below three axes.
pub(super) fn image_order(rank: usize) -> Vec<usize> {
    if rank < 3 {
        return (0..rank).collect();
    }
    let mut order = vec![0];
    order.extend(2..rank);
    order.push(1);
    order
}

pub(super) fn constant_data(tensor: &Tensor) -> ConstantData {
    match Storage::of(tensor.dtype()) {
        Storage::F32 | Storage::I8 | Storage::U8 | Storage::Bf16 => {
            ConstantData::F32(Arc::new(tensor.to_f32()))
        }
        Storage::I64 => ConstantData::I64(Arc::new(match tensor.data() {
            TensorData::I64(v) => v.clone(),
            TensorData::U64(v) => v.iter().map(|&x| x as i64).collect(),
            _ => tensor.to_f64().into_iter().map(|x| x as i64).collect(),
        })),
    }
}

/// The register kind elements of `storage` are loaded into.
pub(super) fn register_kind(storage: Storage) -> RegisterKind {
    match storage {
        Storage::F32 => RegisterKind::F32,
        Storage::I64 => RegisterKind::I64,
        Storage::I8 | Storage::U8 | Storage::Bf16 => RegisterKind::F32,
    }
}

/// A possibly negative axis as a position below `rank`.
pub(super) fn axis_index(axis: i64, rank: usize) -> Result<usize, OpError> {
    let index = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&index) {
        return Ok(index as usize);
    }
    fail(format!("axis {axis} of {rank} axes"))
}

/// The number of elements of a shape, which may be more than there can be.
pub(super) fn elements(shape: &[usize]) -> usize {
    shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
}
