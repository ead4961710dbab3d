//! Element-wise nodes: folded into a GEMM or convolution, or joined into pointwise programs.
//!
//! ```text
//! deferred(out) = expression over views; an element-wise reader of the same shape takes it
//! over where `defer` says so, any other reader makes it a Pointwise step
//! ```

use super::*;
use crate::graph::{
    BatchNormalization, Binary, Cast, CastLike, Clip, CountedDropout, OneHot, Trilu, Unary,
    Variadic, Where,
};
use crate::tensor::DType;

/// A program grows no longer than this; a longer chain is cut into two steps.
const MAX_NODES: usize = 64;
/// A program reads no more operands than this.
const MAX_INPUTS: usize = 12;
/// Operations of a program on bytes that every reader computes anew: those of a dequantisation are five.
const LIGHT_NODES: usize = 6;

/// Nodes an expression is built from: operands given, result returned.
pub(super) type Build<'b> = &'b mut dyn FnMut(&mut Expression, &[u16]) -> u16;

impl Lower for Unary {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.unary(node, *self, out))
    }
}

impl Lower for Binary {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.binary(node, *self, out))
    }
}

impl Lower for Variadic {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.variadic(node, *self, out))
    }
}

impl Lower for Where {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            let ids = [0, 1, 2].map(|i| l.operand(node, i));
            let [c, a, b] = ids;
            l.defer(&node.name, out, &[c?, a?, b?], &mut |e, x| {
                e.push(PointOp::Select, &[x[0], x[1], x[2]])
            })
        })
    }
}

impl Lower for Clip {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.clip(node, out))
    }
}

impl Lower for Cast {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.cast(node, out))
    }
}

impl Lower for CastLike {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.cast(node, out))
    }
}

impl Lower for CountedDropout {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| {
            let (x, pass) = (l.operand(node, 0)?, l.operand(node, 1)?);
            let (mut x, pass) = (l.view(x)?, l.view(pass)?);
            let order = x.memory_order();
            if !x.is_dense_in(&order) {
                x = l.copied(&node.name, &x, &order);
            }
            let y = l.dense_buffer(Storage::F32, &x.shape(), &order);
            let step = DropoutStep {
                x,
                pass,
                y: y.clone(),
                op: *self,
            };
            l.emit(&node.name, Step::Dropout(step));
            Ok(y)
        })
    }
}

impl Lower for BatchNormalization {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.batch_norm(node, self.epsilon, out))
    }
}

impl Lower for Trilu {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.trilu(node, self.upper, out))
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        let first = written.len().saturating_sub(2);
        elements(&written[first..]).saturating_mul(8)
    }
}

impl Lower for OneHot {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| l.one_hot(node, self.axis, out))
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        let longest = written.iter().copied().max().unwrap_or(0);
        longest.saturating_mul(16)
    }
}

impl Lowering<'_> {
    /// `to` is `from`, whatever has become of it.
    pub(super) fn alias(&mut self, from: ValueId, to: ValueId) -> Result<(), OpError> {
        if self.readers[from.0] > 1 || matches!(self.values[from.0], Lowered::Nothing) {
            let view = self.view(from)?;
            self.set(to, view);
            return Ok(());
        }
        self.values[to.0] = self.values[from.0].clone();
        if let Some(&producer) = self.producer.get(&from) {
            self.producer.insert(to, producer);
        }
        Ok(())
    }

    fn unary(&mut self, node: &Node, op: Unary, out: ValueId) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        if op == Unary::Identity {
            return self.alias(x, out);
        }
        let dtype = self.ty(x).dtype;
        if op == Unary::BitwiseNot {
            return self.defer(&node.name, out, &[x], &mut |e, x| {
                let ones = e.push(PointOp::ConstantI64(-1), &[]);
                bit_nodes(e, PointOp::BitXor, [x[0], ones], dtype)
            });
        }
        if dtype.is_float() {
            if let Some(activation) = Self::activation_of(op)
                && self.fuse_activation(&node.name, x, out, activation)
            {
                return Ok(());
            }
        } else if dtype == DType::U64
            || !matches!(
                op,
                Unary::Abs | Unary::Neg | Unary::Sign | Unary::Relu | Unary::Not
            )
        {
            return fail(format!("{op:?} of {dtype} is not supported"));
        }
        self.defer(&node.name, out, &[x], &mut |e, x| {
            let y = e.push(PointOp::Unary(op), &[x[0]]);
            wrapped(e, y, dtype)
        })
    }

    fn binary(&mut self, node: &Node, op: Binary, out: ValueId) -> Result<(), OpError> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (dtype, b_dtype) = (self.ty(a).dtype, self.ty(b).dtype);
        if let Some(point) = on_bits(op, dtype) {
            return self.defer(&node.name, out, &[a, b], &mut |e, x| {
                bit_nodes(e, point, [x[0], x[1]], dtype)
            });
        }
        if dtype == DType::U64 {
            return fail("u64 arithmetic is not supported");
        }
        if dtype.is_float() {
            let point = match op {
                Binary::Add => Some(PointOp::Add),
                Binary::Sub => Some(PointOp::Sub),
                Binary::Mul => Some(PointOp::Mul),
                Binary::Div => Some(PointOp::Div),
                _ => None,
            };
            if let Some(point) = point
                && self.fuse_constant(&node.name, a, b, out, point)
            {
                return Ok(());
            }
            if let Some(point @ (PointOp::Add | PointOp::Mul)) = point
                && self.fuse_constant(&node.name, b, a, out, point)
            {
                return Ok(());
            }
            if op == Binary::Add && self.fuse_residual(&node.name, a, b, out) {
                return Ok(());
            }
        }
        self.defer(&node.name, out, &[a, b], &mut |e, x| {
            if dtype.is_float() || b_dtype.is_float() {
                binary_nodes(e, op, x[0], x[1], dtype)
            } else {
                whole_nodes(e, op, [x[0], x[1]], dtype, node)
            }
        })
    }

    fn variadic(&mut self, node: &Node, op: Variadic, out: ValueId) -> Result<(), OpError> {
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let Some(&first) = ids.first() else {
            return fail("no operand");
        };
        let dtype = self.ty(first).dtype;
        let point = match op {
            Variadic::Sum | Variadic::Mean => PointOp::Add,
            Variadic::Max => PointOp::Max,
            Variadic::Min => PointOp::Min,
        };
        if ids.len() == 2 && op == Variadic::Sum && dtype.is_float() {
            let (a, b) = (ids[0], ids[1]);
            if self.fuse_residual(&node.name, a, b, out) {
                return Ok(());
            }
        }
        if dtype == DType::U64 {
            return fail("u64 arithmetic is not supported");
        }
        let n = ids.len();
        self.defer(&node.name, out, &ids, &mut |e, x| {
            let mut y = x[0];
            for &x in &x[1..] {
                y = e.push(point, &[y, x]);
            }
            if op == Variadic::Mean {
                let count = e.push(PointOp::ConstantF32(n as f32), &[]);
                y = e.push(PointOp::Div, &[y, count]);
            }
            if n == 1 {
                y = e.push(PointOp::Unary(Unary::Identity), &[y]);
            }
            y
        })
    }

    fn clip(&mut self, node: &Node, out: ValueId) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        let (low, high) = (self.optional(node, 1), self.optional(node, 2));
        let dtype = self.ty(x).dtype;
        if dtype == DType::U64 {
            return fail("u64 arithmetic is not supported");
        }
        let bound = |id: Option<ValueId>, default: f32| match id {
            None => Some(default),
            Some(id) => self
                .constant(id)
                .and_then(|t| t.to_f64().first().map(|&v| v as f32)),
        };
        if dtype.is_float()
            && let Some(low) = bound(low, f32::NEG_INFINITY)
            && let Some(high) = bound(high, f32::INFINITY)
        {
            let activation = Activation::Clamp { low, high };
            if self.fuse_activation(&node.name, x, out, activation) {
                return Ok(());
            }
            return self.defer(&node.name, out, &[x], &mut |e, x| {
                e.push(PointOp::Clamp { low, high }, &[x[0]])
            });
        }
        let mut ids = vec![x];
        ids.extend(low);
        ids.extend(high);
        let (has_low, has_high) = (low.is_some(), high.is_some());
        self.defer(&node.name, out, &ids, &mut |e, x| {
            let mut y = x[0];
            if has_low {
                y = e.push(PointOp::Max, &[y, x[1]]);
            }
            if has_high {
                y = e.push(PointOp::Min, &[y, x[x.len() - 1]]);
            }
            if y == x[0] {
                y = e.push(PointOp::Unary(Unary::Identity), &[y]);
            }
            y
        })
    }

    fn cast(&mut self, node: &Node, out: ValueId) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        let (from, to) = (self.ty(x).dtype, self.ty(out).dtype);
        if from == DType::F64 || to == DType::F64 {
            tracing::debug!(node = %node.name, "f64 values are carried as f32");
        }
        let steps = cast_operations(from, to);
        if steps.is_empty() {
            return self.alias(x, out);
        }
        self.defer(&node.name, out, &[x], &mut |e, x| {
            steps.iter().fold(x[0], |y, &op| e.push(op, &[y]))
        })
    }

    fn batch_norm(&mut self, node: &Node, epsilon: f32, out: ValueId) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        let ids = [1, 2, 3, 4].map(|i| self.operand(node, i));
        let [gamma, beta, mean, variance] = ids;
        let ids = [gamma?, beta?, mean?, variance?];
        let mut vectors = Vec::with_capacity(4);
        for id in ids {
            match self.constant(id) {
                Some(t) => vectors.push(t.to_f64()),
                None => {
                    return self.computed_batch_norm(
                        node,
                        [x, ids[0], ids[1], ids[2], ids[3]],
                        epsilon,
                        out,
                    );
                }
            }
        }
        let scale: Vec<f64> = (0..vectors[0].len())
            .map(|c| vectors[0][c] / (vectors[3][c] + f64::from(epsilon)).sqrt())
            .collect();
        let shift: Vec<f64> = (0..scale.len())
            .map(|c| vectors[1][c] - vectors[2][c] * scale[c])
            .collect();
        let channels_second = self
            .sole_channel_axis(x)
            .is_some_and(|axis| axis == 1 && self.ty(x).shape[1] == scale.len());
        if channels_second && self.fuse_affine(&node.name, x, out, Some(&scale), Some(&shift)) {
            return Ok(());
        }
        let mut shape = vec![1; self.ty(x).shape.len().saturating_sub(1)];
        if let Some(first) = shape.first_mut() {
            *first = scale.len();
        }
        let narrow = |v: Vec<f64>| v.into_iter().map(|x| x as f32).collect::<Vec<f32>>();
        let scale = self.f32_constant(narrow(scale), &shape);
        let shift = self.f32_constant(narrow(shift), &shape);
        let views = vec![self.view(x)?, scale, shift];
        self.defer_views(&node.name, out, views, &mut |e, x| {
            let y = e.push(PointOp::Mul, &[x[0], x[1]]);
            e.push(PointOp::Add, &[y, x[2]])
        })
    }

    /// A batch normalisation by statistics that are themselves computed, as where weights are
    /// standardised: `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
    fn computed_batch_norm(
        &mut self,
        node: &Node,
        ids: [ValueId; 5],
        epsilon: f32,
        out: ValueId,
    ) -> Result<(), OpError> {
        let mut views = vec![self.view(ids[0])?];
        let mut shape = vec![1; views[0].rank().saturating_sub(1)];
        for &id in &ids[1..] {
            let vector = self.view(id)?;
            if let Some(first) = shape.first_mut() {
                *first = vector.len();
            }
            views.push(self.reshaped(&node.name, vector, &shape));
        }
        self.defer_views(&node.name, out, views, &mut |e, x| {
            let [x, scale, bias, mean, variance] = [x[0], x[1], x[2], x[3], x[4]];
            let centred = e.push(PointOp::Sub, &[x, mean]);
            let epsilon = e.push(PointOp::ConstantF32(epsilon), &[]);
            let above_zero = e.push(PointOp::Add, &[variance, epsilon]);
            let deviation = e.push(PointOp::Unary(Unary::Sqrt), &[above_zero]);
            let normal = e.push(PointOp::Div, &[centred, deviation]);
            let scaled = e.push(PointOp::Mul, &[normal, scale]);
            e.push(PointOp::Add, &[scaled, bias])
        })
    }

    fn trilu(&mut self, node: &Node, upper: bool, out: ValueId) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        let k = match self.optional(node, 1) {
            Some(id) => self.constant_i64(id, "k")?.first().copied().unwrap_or(0),
            None => 0,
        };
        let shape = self.ty(x).shape.clone();
        let [.., rows, columns] = shape[..] else {
            return fail("a triangle needs two axes");
        };
        let mut mask = Vec::with_capacity(rows * columns);
        for i in 0..rows as i64 {
            for j in 0..columns as i64 {
                let keep = if upper { j - i >= k } else { j - i <= k };
                mask.push(f32::from(u8::from(keep)));
            }
        }
        let mask = self.f32_constant(mask, &[rows, columns]);
        let views = vec![mask, self.view(x)?];
        let wide = self.storage(&views[1]) == Storage::I64;
        self.defer_views(&node.name, out, views, &mut |e, x| {
            let zero = match wide {
                true => e.push(PointOp::ConstantI64(0), &[]),
                false => e.push(PointOp::ConstantF32(0.0), &[]),
            };
            e.push(PointOp::Select, &[x[0], x[1], zero])
        })
    }

    fn one_hot(&mut self, node: &Node, axis: i64, out: ValueId) -> Result<(), OpError> {
        let (indices, values) = (self.operand(node, 0)?, self.operand(node, 2)?);
        let rank = self.ty(out).shape.len();
        let axis = axis_index(axis, rank)?;
        let depth = self.ty(out).shape[axis];
        // Positions are compared as f32, which holds no odd number beyond 2^24.
        if depth > 1 << 23 {
            return fail(format!("{depth} positions, at most 2^23 are supported"));
        }
        let mut index = self.view(indices)?;
        let wide = self.storage(&index) == Storage::I64;
        let fractional = self.ty(indices).dtype.is_float();
        index.axes.insert(
            axis,
            Axis {
                extent: 1,
                stride: 0,
            },
        );
        let mut shape = vec![1; rank];
        shape[axis] = depth;
        let positions: Vec<f32> = (0..depth).map(|i| i as f32).collect();
        let positions = self.f32_constant(positions, &shape);
        let values = self.view(values)?;
        let (off, on) = (values.sliced(0, 0, 1, 1), values.sliced(0, 1, 1, 1));
        let views = vec![index, positions, off, on];
        self.defer_views(&node.name, out, views, &mut |e, x| {
            let whole = match fractional {
                true => e.push(PointOp::ToI64, &[x[0]]),
                false => x[0],
            };
            let index = match wide || fractional {
                true => e.push(PointOp::ToF32, &[whole]),
                false => whole,
            };
            // A negative index counts from the end; anything else outside matches nothing.
            let zero = e.push(PointOp::ConstantF32(0.0), &[]);
            let depth = e.push(PointOp::ConstantF32(depth as f32), &[]);
            let negative = e.push(PointOp::Less, &[index, zero]);
            let from_end = e.push(PointOp::Add, &[index, depth]);
            let index = e.push(PointOp::Select, &[negative, from_end, index]);
            let hit = e.push(PointOp::Equal, &[index, x[1]]);
            e.push(PointOp::Select, &[hit, x[3], x[2]])
        })
    }

    /// Defers `out = build(operands)`, taking over deferred operands of the same shape that
    /// nothing else reads, or that are light, as long as the expression is not too long.
    pub(super) fn defer(
        &mut self,
        name: &str,
        out: ValueId,
        operands: &[ValueId],
        build: Build<'_>,
    ) -> Result<(), OpError> {
        let shape = self.ty(out).shape.clone();
        let mut deferred = Deferred {
            expression: Expression::default(),
            inputs: Vec::new(),
            name: name.to_owned(),
        };
        let mut registers = Vec::with_capacity(operands.len());
        for &id in operands {
            let constant = self.constant(id).filter(|t| t.len() == 1).cloned();
            let register = match (&self.values[id.0], constant) {
                (_, Some(scalar)) => {
                    let op = match constant_data(&scalar) {
                        ConstantData::F32(v) => PointOp::ConstantF32(v[0]),
                        ConstantData::I64(v) => PointOp::ConstantI64(v[0]),
                    };
                    deferred.expression.push(op, &[])
                }
                (Lowered::Deferred(inner), _)
                    if (self.readers[id.0] == 1 || self.is_light(inner))
                        && self.ty(id).shape == shape
                        && inner.expression.nodes.len() + deferred.expression.nodes.len()
                            < MAX_NODES
                        && inner.inputs.len() + deferred.inputs.len() < MAX_INPUTS =>
                {
                    let inner = inner.clone();
                    let inputs: Vec<u16> = inner
                        .inputs
                        .into_iter()
                        .map(|view| input_number(&mut deferred.inputs, view))
                        .collect();
                    deferred.expression.append(&inner.expression, &inputs)
                }
                _ => {
                    let view = self.held(id)?.broadcast_to(&shape);
                    let kind = register_kind(self.storage(&view));
                    let number = input_number(&mut deferred.inputs, view);
                    deferred.expression.load(number, kind)
                }
            };
            registers.push(register);
        }
        build(&mut deferred.expression, &registers);
        self.values[out.0] = Lowered::Deferred(deferred);
        Ok(())
    }

    /// Whether it is computed anew for every reader: a few operations on bytes, such as a dequantisation, cost less
    /// than to write and read the floats.
    fn is_light(&self, deferred: &Deferred) -> bool {
        let is_byte = |view: &View| self.storage(view).is_byte();
        deferred.expression.nodes.len() <= LIGHT_NODES
            && !deferred.inputs.is_empty()
            && deferred.inputs.iter().all(is_byte)
    }

    /// Defers `out = build(views)`.
    pub(super) fn defer_views(
        &mut self,
        name: &str,
        out: ValueId,
        views: Vec<View>,
        build: Build<'_>,
    ) -> Result<(), OpError> {
        let shape = self.ty(out).shape.clone();
        let mut deferred = Deferred {
            expression: Expression::default(),
            inputs: Vec::new(),
            name: name.to_owned(),
        };
        let mut registers = Vec::with_capacity(views.len());
        for view in views {
            let kind = register_kind(self.storage(&view));
            let number = input_number(&mut deferred.inputs, view.broadcast_to(&shape));
            registers.push(deferred.expression.load(number, kind));
        }
        build(&mut deferred.expression, &registers);
        self.values[out.0] = Lowered::Deferred(deferred);
        Ok(())
    }
}

/// Position of `view` among `inputs`, added if new.
fn input_number(inputs: &mut Vec<View>, view: View) -> u16 {
    if let Some(at) = inputs.iter().position(|v| *v == view) {
        return at as u16;
    }
    inputs.push(view);
    (inputs.len() - 1) as u16
}

/// Integer arithmetic wraps at the width of its type.
pub(super) fn wrapped(e: &mut Expression, y: u16, dtype: DType) -> u16 {
    let (bits, signed) = match dtype {
        DType::I8 => (8, true),
        DType::U8 => (8, false),
        DType::I16 => (16, true),
        DType::U16 => (16, false),
        DType::I32 => (32, true),
        DType::U32 => (32, false),
        _ => return y,
    };
    e.push(PointOp::Wrap { bits, signed }, &[y])
}

/// What works on the bits of integers, those of 64 unsigned ones too.
fn on_bits(op: Binary, dtype: DType) -> Option<PointOp> {
    Some(match op {
        Binary::BitwiseAnd => PointOp::BitAnd,
        Binary::BitwiseOr => PointOp::BitOr,
        Binary::BitwiseXor => PointOp::BitXor,
        Binary::BitShift { right: false } => PointOp::ShiftLeft,
        Binary::BitShift { right: true } => PointOp::ShiftRight {
            logical: dtype == DType::U64,
        },
        _ => return None,
    })
}

/// `op` of the bits of two integers; 8 of them are held as f32, which has none.
fn bit_nodes(e: &mut Expression, op: PointOp, operands: [u16; 2], dtype: DType) -> u16 {
    let is_narrow = Storage::of(dtype) == Storage::F32;
    let [a, b] = operands.map(|x| match e.nodes[x as usize].kind {
        RegisterKind::I64 => x,
        RegisterKind::F32 => e.push(PointOp::ToI64, &[x]),
    });
    let y = e.push(op, &[a, b]);
    let y = wrapped(e, y, dtype);
    if is_narrow {
        return e.push(PointOp::ToF32, &[y]);
    }
    y
}

/// `op` of two integers of which the first, and the result unless it is a truth, is `dtype`.
/// Divisions and powers are of i64, also where 8 bits are held as f32.
fn whole_nodes(e: &mut Expression, op: Binary, [a, b]: [u16; 2], dtype: DType, node: &Node) -> u16 {
    let point = match op {
        Binary::Div => PointOp::Div,
        Binary::Pow => PointOp::Pow,
        Binary::Mod { fmod: true } => PointOp::RemainderTruncated,
        Binary::Mod { fmod: false } => PointOp::RemainderFloored,
        _ => return binary_nodes(e, op, a, b, dtype),
    };
    let held = e.nodes[a as usize].kind;
    let [a, b] = [a, b].map(|x| match e.nodes[x as usize].kind {
        RegisterKind::I64 => x,
        RegisterKind::F32 => e.push(PointOp::ToI64, &[x]),
    });
    let y = e.push_division(point, &[a, b], (&node.name, node.op.name()));
    let y = wrapped(e, y, dtype);
    match held {
        RegisterKind::I64 => y,
        RegisterKind::F32 => e.push(PointOp::ToF32, &[y]),
    }
}

fn binary_nodes(e: &mut Expression, op: Binary, a: u16, b: u16, dtype: DType) -> u16 {
    match op {
        Binary::Add => {
            let y = e.push(PointOp::Add, &[a, b]);
            wrapped(e, y, dtype)
        }
        Binary::Sub => {
            let y = e.push(PointOp::Sub, &[a, b]);
            wrapped(e, y, dtype)
        }
        Binary::Mul => {
            let y = e.push(PointOp::Mul, &[a, b]);
            wrapped(e, y, dtype)
        }
        Binary::Div => {
            let y = e.push(PointOp::Div, &[a, b]);
            wrapped(e, y, dtype)
        }
        Binary::Pow => {
            // The exponent may be of another kind than the base, which names the result's.
            let kinds = [a, b].map(|x| e.nodes[x as usize].kind);
            let as_float = |e: &mut Expression, x, kind| match kind {
                RegisterKind::I64 if kinds[0] != kinds[1] => e.push(PointOp::ToF32, &[x]),
                _ => x,
            };
            let (a, b) = (as_float(e, a, kinds[0]), as_float(e, b, kinds[1]));
            let y = e.push(PointOp::Pow, &[a, b]);
            // An integer to a power that is none: saturated, as a cast is.
            cast_operations(DType::F32, dtype)
                .iter()
                .fold(y, |y, &op| e.push(op, &[y]))
        }
        Binary::Mod { fmod: true } => e.push(PointOp::RemainderTruncated, &[a, b]),
        Binary::Mod { fmod: false } => e.push(PointOp::RemainderFloored, &[a, b]),
        Binary::PRelu => {
            let y = e.push(PointOp::PRelu, &[a, b]);
            wrapped(e, y, dtype)
        }
        Binary::And => e.push(PointOp::And, &[a, b]),
        Binary::Or => e.push(PointOp::Or, &[a, b]),
        Binary::Xor => e.push(PointOp::Xor, &[a, b]),
        // Lowered before, from `on_bits`.
        Binary::BitwiseAnd | Binary::BitwiseOr | Binary::BitwiseXor | Binary::BitShift { .. } => a,
        Binary::Equal => e.push(PointOp::Equal, &[a, b]),
        Binary::Less => e.push(PointOp::Less, &[a, b]),
        Binary::LessOrEqual => e.push(PointOp::LessOrEqual, &[a, b]),
        Binary::Greater => e.push(PointOp::Less, &[b, a]),
        Binary::GreaterOrEqual => e.push(PointOp::LessOrEqual, &[b, a]),
    }
}

/// What turns a held element of `from` into a held element of `to`.
fn cast_operations(from: DType, to: DType) -> Vec<PointOp> {
    let wrap = |bits, signed| PointOp::Wrap { bits, signed };
    let wide = |d: DType| Storage::of(d) == Storage::I64;
    if from == to {
        return Vec::new();
    }
    let mut ops = Vec::new();
    match to {
        DType::Bool => ops.push(PointOp::ToBool),
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 => {
            match from {
                DType::U64 => ops.push(PointOp::U64ToF32),
                from if wide(from) => ops.push(PointOp::ToF32),
                _ => {}
            }
            match to {
                DType::F16 => ops.push(PointOp::RoundF16),
                DType::BF16 => ops.push(PointOp::RoundBf16),
                _ => {}
            }
        }
        DType::I8 | DType::U8 => {
            let signed = to == DType::I8;
            if wide(from) {
                ops.extend([wrap(8, signed), PointOp::ToF32]);
            } else if from.is_float() {
                let saturate = PointOp::Saturate { bits: 8, signed };
                ops.extend([PointOp::ToI64, saturate, PointOp::ToF32]);
            } else if from != DType::Bool {
                ops.push(wrap(8, signed));
            }
        }
        DType::U64 if from.is_float() => ops.push(PointOp::ToU64),
        _ => {
            if !wide(from) {
                ops.push(PointOp::ToI64);
            }
            let (bits, signed) = match to {
                DType::I16 => (16, true),
                DType::U16 => (16, false),
                DType::I32 => (32, true),
                DType::U32 => (32, false),
                _ => return ops,
            };
            ops.push(match from.is_float() {
                true => PointOp::Saturate { bits, signed },
                false => wrap(bits, signed),
            });
        }
    }
    ops
}
