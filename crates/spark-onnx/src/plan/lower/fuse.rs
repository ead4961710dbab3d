//! Element-wise nodes folded backwards into the GEMM or convolution that made their operand.
//!
//! ```text
//! y = conv(x) * s[c] + t[c]      weights *= s per output channel; bias = bias * s + t
//! y = f(conv(x))                 epilogue.activation = f
//! y = conv(x) + z                epilogue.residual = z, if z is made before the convolution runs
//! ```
//!
//! Only one all of whose results go to this one node is touched.

use std::sync::Arc;

use super::*;
use crate::graph::Unary;

impl Lowering<'_> {
    /// The GEMM or convolution that made `id`, if nothing else reads `id`.
    fn sole_producer(&self, id: ValueId) -> Option<usize> {
        let producer = (self.readers[id.0] == 1).then(|| self.producer.get(&id))?;
        producer.map(|p| p.step)
    }

    /// Whether nothing follows the bias of the step yet.
    fn is_affine(&self, step: usize) -> bool {
        self.gemm_of(step)
            .is_some_and(|(_, e)| e.residual.is_none() && e.activation == Activation::None)
    }

    /// Weights and epilogue of the GEMM or convolution that `step` is, if it is one.
    fn gemm_of(&self, step: usize) -> Option<(&Weights, &Epilogue)> {
        match &self.plan.steps[step].step {
            Step::Conv(s) => Some((&s.weights, &s.epilogue)),
            Step::Linear(s) => Some((&s.weights, &s.epilogue)),
            _ => None,
        }
    }

    /// The same, to be changed.
    fn gemm_of_mut(&mut self, step: usize) -> Option<(&mut Weights, &mut Epilogue)> {
        match &mut self.plan.steps[step].step {
            Step::Conv(s) => Some((&mut s.weights, &mut s.epilogue)),
            Step::Linear(s) => Some((&mut s.weights, &mut s.epilogue)),
            _ => None,
        }
    }

    /// The output of the step now belongs to value `to`.
    fn take_over(&mut self, name: &str, from: ValueId, to: ValueId, step: usize) {
        self.values[to.0] = self.values[from.0].clone();
        if let Some(&producer) = self.producer.get(&from) {
            self.producer.insert(to, producer);
        }
        self.plan.steps[step].name = name.to_owned();
    }

    /// Values of constant `id` per channel of a result of shape `shape` whose
    /// channels lie along `axis`; `None` if it varies along another axis.
    fn per_channel(&self, id: ValueId, shape: &[usize], axis: usize) -> Option<Vec<f64>> {
        let tensor = self.constant(id)?;
        let missing = shape.len().checked_sub(tensor.shape().len())?;
        let mut extent = 1;
        for (i, &d) in tensor.shape().iter().enumerate() {
            if d != 1 {
                (i + missing == axis && d == shape[axis]).then_some(())?;
                extent = d;
            }
        }
        let values = tensor.to_f64();
        Some(match extent {
            1 => vec![values[0]; shape[axis]],
            _ => values,
        })
    }

    /// The channel axis of `id` if a GEMM or convolution that nothing else reads made it.
    pub(super) fn sole_channel_axis(&self, id: ValueId) -> Option<usize> {
        self.sole_producer(id)?;
        self.producer.get(&id).map(|p| p.channel_axis)
    }

    /// `to = from * scale + shift` per channel; either may be left out.
    pub(super) fn fuse_affine(
        &mut self,
        name: &str,
        from: ValueId,
        to: ValueId,
        scale: Option<&[f64]>,
        shift: Option<&[f64]>,
    ) -> bool {
        let Some(step) = self.sole_producer(from).filter(|&s| self.is_affine(s)) else {
            return false;
        };
        let Some((weights, epilogue)) = self.gemm_of_mut(step) else {
            return false;
        };
        let n = weights.groups * weights.out_per_group;
        let mut bias: Vec<f64> = match &epilogue.bias {
            Some(b) => b.iter().map(|&v| f64::from(v)).collect(),
            None => vec![0.0; n],
        };
        if let Some(scale) = scale {
            weights.scale(scale.to_vec());
            bias.iter_mut().zip(scale).for_each(|(b, s)| *b *= s);
        }
        if let Some(shift) = shift {
            bias.iter_mut().zip(shift).for_each(|(b, t)| *b += t);
        }
        if epilogue.bias.is_some() || shift.is_some() {
            epilogue.bias = Some(Arc::new(bias.into_iter().map(|b| b as f32).collect()));
        }
        self.take_over(name, from, to, step);
        true
    }

    /// Folds `to = from op constant` into the step that made `from`.
    pub(super) fn fuse_constant(
        &mut self,
        name: &str,
        from: ValueId,
        constant: ValueId,
        to: ValueId,
        op: PointOp,
    ) -> bool {
        if self.ty(from).shape != self.ty(to).shape {
            return false;
        }
        let Some(axis) = self.sole_channel_axis(from) else {
            return false;
        };
        let Some(values) = self.per_channel(constant, &self.ty(to).shape, axis) else {
            return false;
        };
        match op {
            PointOp::Add => self.fuse_affine(name, from, to, None, Some(&values)),
            PointOp::Sub => {
                let negated: Vec<f64> = values.iter().map(|v| -v).collect();
                self.fuse_affine(name, from, to, None, Some(&negated))
            }
            PointOp::Mul => self.fuse_affine(name, from, to, Some(&values), None),
            PointOp::Div if values.iter().all(|&v| v != 0.0) => {
                let inverse: Vec<f64> = values.iter().map(|v| 1.0 / v).collect();
                self.fuse_affine(name, from, to, Some(&inverse), None)
            }
            _ => false,
        }
    }

    /// Folds `to = activation(from)` into the step that made `from`.
    pub(super) fn fuse_activation(
        &mut self,
        name: &str,
        from: ValueId,
        to: ValueId,
        activation: Activation,
    ) -> bool {
        let Some(step) = self.sole_producer(from) else {
            return false;
        };
        let Some((_, epilogue)) = self.gemm_of_mut(step) else {
            return false;
        };
        if epilogue.activation != Activation::None {
            return false;
        }
        epilogue.activation = activation;
        epilogue.residual_first = true;
        self.take_over(name, from, to, step);
        true
    }

    /// Folds `to = a + b` into the step that made the later of the two.
    pub(super) fn fuse_residual(
        &mut self,
        name: &str,
        a: ValueId,
        b: ValueId,
        to: ValueId,
    ) -> bool {
        let shape = &self.ty(to).shape;
        if a == b || &self.ty(a).shape != shape || &self.ty(b).shape != shape {
            return false;
        }
        let later = |x: ValueId| self.sole_producer(x);
        let (from, other) = match (later(a), later(b)) {
            (Some(i), Some(j)) if j > i => (b, a),
            (Some(_), _) => (a, b),
            (None, Some(_)) => (b, a),
            (None, None) => return false,
        };
        let Some(step) = self.sole_producer(from) else {
            return false;
        };
        let (Lowered::View(view), Lowered::View(residual)) =
            (&self.values[from.0], &self.values[other.0])
        else {
            return false;
        };
        let (view, residual) = (view.clone(), residual.clone());
        if self.storage(&residual) != Storage::F32 || !self.made_before(residual.buffer, step) {
            return false;
        }
        if self
            .gemm_of(step)
            .is_none_or(|(_, epilogue)| epilogue.residual.is_some())
        {
            return false;
        }
        // The step sees the value through its own axes; map the residual the same way.
        let (step, mapped) = match self.residual_for(step, &view, &residual) {
            Some(mapped) => (step, mapped),
            None => {
                let Some(copied) = self.copied_before(name, step, &view, &residual) else {
                    return false;
                };
                copied
            }
        };
        let Some((_, epilogue)) = self.gemm_of_mut(step) else {
            return false;
        };
        epilogue.residual_first = epilogue.activation == Activation::None;
        epilogue.residual = Some(mapped);
        self.take_over(name, from, to, step);
        true
    }

    /// A copy of `residual` that lies as `value` does, made before `step`, and where the step and
    /// the residual as it sees it are then. Only for what leaves elements out: a copy of less than
    /// all costs less than adding in a pass of its own.
    fn copied_before(
        &mut self,
        name: &str,
        step: usize,
        value: &View,
        residual: &View,
    ) -> Option<(usize, View)> {
        let whole = self.plan.buffers[residual.buffer.0].len;
        (2 * residual.len() <= whole).then_some(())?;
        let copy = View {
            buffer: self.buffer(Storage::F32, self.plan.buffers[value.buffer.0].len),
            ..value.clone()
        };
        let mapped = self.residual_for(step, value, &copy)?;
        let planned = PlannedStep {
            name: name.to_owned(),
            step: Step::Copy(CopyStep {
                x: residual.clone(),
                y: copy,
            }),
        };
        self.plan.steps.insert(step, planned);
        for producer in self.producer.values_mut() {
            producer.step += usize::from(producer.step >= step);
        }
        Some((step + 1, mapped))
    }

    /// Whether nothing from `step` on writes `buffer`.
    fn made_before(&self, buffer: BufferId, step: usize) -> bool {
        !self.plan.steps[step..]
            .iter()
            .any(|p| p.step.views_written().iter().any(|v| v.buffer == buffer))
    }

    fn residual_for(&self, step: usize, value: &View, residual: &View) -> Option<View> {
        let y = match &self.plan.steps[step].step {
            Step::Conv(s) => &s.y,
            Step::Linear(s) => &s.y,
            _ => return None,
        };
        let mapped = if value.axes == y.axes {
            residual.clone()
        } else {
            // Same elements under another shape: only if the residual lies just as the value does.
            let same = value
                .axes
                .iter()
                .zip(&residual.axes)
                .all(|(v, r)| v.extent == 1 || v.stride == r.stride);
            if !same {
                return None;
            }
            View {
                buffer: residual.buffer,
                offset: residual.offset + y.offset - value.offset,
                axes: y.axes.clone(),
            }
        };
        let channel = match &self.plan.steps[step].step {
            Step::Conv(_) => 1,
            _ => mapped.rank() - 1,
        };
        let c = mapped.axes[channel];
        (c.extent == 1 || c.stride == 1).then_some(mapped)
    }

    /// The activation a unary operator is, in the form steps apply it.
    pub(super) fn activation_of(op: Unary) -> Option<Activation> {
        match op {
            Unary::Relu => Some(Activation::Clamp {
                low: 0.0,
                high: f32::INFINITY,
            }),
            Unary::LeakyRelu { .. }
            | Unary::ThresholdedRelu { .. }
            | Unary::Elu { .. }
            | Unary::Selu { .. }
            | Unary::Celu { .. }
            | Unary::Sigmoid
            | Unary::HardSigmoid { .. }
            | Unary::HardSwish
            | Unary::Tanh
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Mish
            | Unary::Gelu { .. }
            | Unary::Swish { .. }
            | Unary::Erf
            | Unary::Exp
            | Unary::Abs
            | Unary::Neg
            | Unary::Sqrt => Some(Activation::Function(op)),
            _ => None,
        }
    }
}
