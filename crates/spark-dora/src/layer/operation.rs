//! One adapted layer as a candle operation of two arguments: the input, and all variables flat.
//!
//! ```text
//! variables   [A | B | magnitude | bias]      the last only if it is trained
//! forward     saves the DoRA scale and, unless it went through the effective weight, h = s A x;
//!             the result itself serves the magnitude's gradient
//! backward    gradients of all variables in one flat tensor, which candle splits again
//! ```

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, CustomOp2, Layout, Shape, Tensor};

use crate::base::{Base, WeightRows};
use crate::kernel::conv::{Channels, Group, Window, prefers_effective};
use crate::kernel::linear::{DoraScales, Finding, finds_dora_scales};
use crate::kernel::magnitude::{RowSums, dora_scales};
use crate::kernel::{Gradients, LowRank, Real, Rows, conv, effective, linear, magnitude};
use crate::slice::{contiguous, with_slice};

use super::factors::{Factors, NormCache};

/// What is computed with the weight.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// `x` is `[.., in]`.
    Linear(linear::Shape),
    /// `x` is `[batch, channels, height, width]`, of so many groups.
    Conv { window: Window, groups: usize },
}

/// One adapted layer as an operation of candle: the frozen side, and what the variables are.
pub(crate) struct Adapted<T> {
    form: Form,
    base: Base,
    /// Added to every result; not trained.
    frozen_bias: Option<Vec<T>>,
    /// Whether the variables end in a bias.
    trains_bias: bool,
    outputs: usize,
    depth: usize,
    rank: usize,
    scaling: T,
    has_magnitude: bool,
    norms: Arc<NormCache>,
    /// Shape of the result.
    result: Shape,
    saved: Mutex<Option<Saved<T>>>,
}

/// From the forward pass for the backward pass.
struct Saved<T> {
    h: Vec<T>,
    dora_scales: Option<Vec<T>>,
    norms: Arc<[f64]>,
}

/// The variables as slices.
struct Variables<'a, T> {
    low: LowRank<'a, T>,
    magnitude: Option<&'a [T]>,
    bias: Option<&'a [T]>,
}

impl<T: Real> Adapted<T> {
    /// For a weight of `[outputs, depth]` under `factors`.
    pub(crate) fn new(
        form: Form,
        base: &Base,
        factors: &Factors,
        (bias, trains_bias): (Option<&Tensor>, bool),
        result: Shape,
    ) -> candle_core::Result<Self> {
        let dims = base.dims();
        let frozen_bias = match bias {
            Some(bias) if !trains_bias => Some(bias.to_vec1()?),
            _ => None,
        };
        Ok(Self {
            form,
            base: base.clone(),
            frozen_bias,
            trains_bias,
            outputs: dims[0],
            depth: dims[1..].iter().product(),
            rank: factors.rank(),
            scaling: T::from_f64(factors.scaling()),
            has_magnitude: factors.magnitude().is_some(),
            norms: factors.cache().clone(),
            result,
            saved: Mutex::new(None),
        })
    }

    fn split<'a>(&'a self, flat: &'a [T]) -> Variables<'a, T> {
        let (a, rest) = flat.split_at(self.rank * self.depth);
        let (b, rest) = rest.split_at(self.outputs * self.rank);
        let (magnitude, bias) = match self.has_magnitude {
            true => rest.split_at(self.outputs),
            false => (rest, rest),
        };
        Variables {
            low: LowRank {
                a,
                b,
                rank: self.rank,
                scaling: self.scaling,
            },
            magnitude: self.has_magnitude.then_some(magnitude),
            bias: match self.trains_bias {
                true => Some(bias),
                false => self.frozen_bias.as_deref(),
            },
        }
    }

    fn forward(&self, x: &[T], flat: &[T]) -> candle_core::Result<Vec<T>> {
        let variables = self.split(flat);
        let (y, saved) = match (self.form, variables.magnitude) {
            (Form::Linear(shape), Some(m)) if finds_dora_scales::<T>(shape, self.rank) => {
                match self.norms.find(variables.low) {
                    Some(norms) => self.forward_with(x, &variables, Some(norms))?,
                    None => self.forward_finding(shape, x, &variables, m)?,
                }
            }
            (_, Some(_)) => {
                let norms = self.norms.get(|| Ok(self.base.clone()), variables.low)?;
                self.forward_with(x, &variables, Some(norms))?
            }
            (_, None) => self.forward_with(x, &variables, None)?,
        };
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved);
        Ok(y)
    }

    /// With norms that are known.
    fn forward_with(
        &self,
        x: &[T],
        variables: &Variables<'_, T>,
        norms: Option<Arc<[f64]>>,
    ) -> candle_core::Result<(Vec<T>, Saved<T>)> {
        let dora_scales = match (variables.magnitude, &norms) {
            (Some(m), Some(norms)) => Some(dora_scales(m, norms)),
            _ => None,
        };
        let dora_scale = dora_scales.as_deref();
        let (y, h) = self.base.with_rows(|weight| match self.form {
            Form::Linear(shape) => {
                let dora_scale = dora_scale.map_or(DoraScales::None, DoraScales::Known);
                linear::forward(shape, x, weight, variables.low, dora_scale, variables.bias)
            }
            Form::Conv { window, groups } => {
                self.conv_forward((window, groups), x, weight, variables, dora_scale)
            }
        })?;
        let norms = norms.unwrap_or_default();
        Ok((
            y,
            Saved {
                h,
                dora_scales,
                norms,
            },
        ))
    }

    /// With norms found on the way.
    fn forward_finding(
        &self,
        shape: linear::Shape,
        x: &[T],
        variables: &Variables<'_, T>,
        magnitude: &[T],
    ) -> candle_core::Result<(Vec<T>, Saved<T>)> {
        let squares = self.norms.squares::<T>(&self.base)?;
        let mut norms = Vec::with_capacity(self.outputs);
        let mut dora_scales = Vec::with_capacity(self.outputs);
        let finding = DoraScales::Found(Finding {
            magnitude,
            squares: &squares,
            norms: &mut norms,
            dora_scales: &mut dora_scales,
        });
        let (y, h) = self.base.with_rows(|weight| {
            linear::forward(shape, x, weight, variables.low, finding, variables.bias)
        })?;
        let saved = Saved {
            h,
            dora_scales: Some(dora_scales),
            norms: self.norms.keep(variables.low, norms),
        };
        Ok((y, saved))
    }

    /// Whether a convolution goes through the effective weight.
    fn by_effective_weight(&self, window: &Window, groups: usize) -> bool {
        groups > 1 || prefers_effective(window, self.outputs)
    }

    fn conv_forward(
        &self,
        (window, groups): (Window, usize),
        x: &[T],
        weight: &dyn WeightRows<T>,
        variables: &Variables<'_, T>,
        dora_scale: Option<&[T]>,
    ) -> (Vec<T>, Vec<T>) {
        let (low, bias) = (variables.low, variables.bias);
        let mut y = vec![T::zero(); self.result.elem_count()];
        let mut h = Vec::new();
        weight.for_each(&mut |_, _, w| {
            if !self.by_effective_weight(&window, groups) {
                let group = self.group(&window, groups, 0, w);
                h = conv::forward(window, x, group, low, Rows { dora_scale, bias }, &mut y);
                return;
            }
            let effective = self.effective(w, low, dora_scale);
            for index in 0..groups {
                let group = self.group(&window, groups, index, &effective);
                let rows = Rows {
                    dora_scale: None,
                    bias: bias.map(|b| &b[group.output.first..]),
                };
                conv::forward(window, x, group, none(), rows, &mut y);
            }
        });
        (y, h)
    }

    /// The effective weight; the base itself where nothing is adapted.
    fn effective<'a>(
        &self,
        w: &'a [T],
        low: LowRank<'_, T>,
        dora_scale: Option<&[T]>,
    ) -> Cow<'a, [T]> {
        match (low.rank, dora_scale) {
            (0, None) => Cow::Borrowed(w),
            _ => Cow::Owned(effective::weight(w, low, dora_scale, self.depth)),
        }
    }

    /// Group `index` of a convolution with weights `[outputs, depth]`.
    fn group<'a>(
        &self,
        window: &Window,
        groups: usize,
        index: usize,
        weight: &'a [T],
    ) -> Group<'a, T> {
        let outputs = self.outputs / groups;
        Group {
            input: Channels {
                total: window.channels * groups,
                first: window.channels * index,
            },
            output: Channels {
                total: self.outputs,
                first: outputs * index,
            },
            weight: &weight[index * outputs * self.depth..][..outputs * self.depth],
            outputs,
        }
    }

    /// Gradients of the input and of the flat variables.
    fn backward(
        &self,
        (x, flat): (&[T], &[T]),
        (y, dy): (&[T], &[T]),
        wants_x: bool,
    ) -> candle_core::Result<(Option<Vec<T>>, Vec<T>)> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(saved) = saved.as_ref() else {
            candle_core::bail!("backward before forward")
        };
        let variables = self.split(flat);
        let pass = Pass {
            op: self,
            x,
            y,
            dy,
            variables: &variables,
            saved,
        };
        let (gradients, dm, sums) = self.base.with_rows(|weight| match self.form {
            Form::Linear(shape) => pass.linear(shape, weight, wants_x),
            Form::Conv { window, groups: 1 } => pass.conv(window, weight, wants_x),
            Form::Conv { window, groups } => pass.grouped((window, groups), weight, wants_x),
        })?;
        let mut flat_gradient = Vec::with_capacity(flat.len());
        flat_gradient.extend(gradients.a);
        flat_gradient.extend(gradients.b);
        if self.has_magnitude {
            flat_gradient.extend(dm.into_iter().map(T::from_f64));
        }
        if self.trains_bias {
            flat_gradient.extend(sums.iter().map(|s| T::from_f64(s.bias)));
        }
        // A layer without variables has one element that stands for them.
        flat_gradient.resize(flat.len(), T::zero());
        Ok((gradients.x, flat_gradient))
    }
}

/// Operands of a layer without A and B.
fn none<'a, T: Real>() -> LowRank<'a, T> {
    LowRank {
        a: &[],
        b: &[],
        rank: 0,
        scaling: T::zero(),
    }
}

/// Everything that one backward pass reads.
struct Pass<'a, T> {
    op: &'a Adapted<T>,
    x: &'a [T],
    y: &'a [T],
    dy: &'a [T],
    variables: &'a Variables<'a, T>,
    saved: &'a Saved<T>,
}

type Parts<T> = (Gradients<T>, Vec<f64>, Vec<RowSums>);

impl<T: Real> Pass<'_, T> {
    fn linear(&self, shape: linear::Shape, weight: &dyn WeightRows<T>, wants_x: bool) -> Parts<T> {
        let dora_scale = self.saved.dora_scales.as_deref();
        let low = self.variables.low;
        let data = (self.x, self.dy, self.saved.h.as_slice());
        let gradients = linear::backward(shape, data, weight, low, dora_scale, wants_x);
        if !self.needs_sums() {
            return (gradients, Vec::new(), Vec::new());
        }
        let bias = self.variables.bias;
        let sums = magnitude::column_sums(self.y, self.dy, bias, shape.outputs);
        let dm = self.magnitude_gradient(&sums, weight, |j, v| {
            let tokens = self
                .x
                .chunks(shape.inputs)
                .zip(self.dy[j..].iter().step_by(shape.outputs));
            let terms = tokens.map(|(x, dy)| {
                let u: f64 = x.iter().zip(v).map(|(x, v)| x.to_f64() * v.to_f64()).sum();
                dy.to_f64() * u
            });
            terms.sum()
        });
        (gradients, dm, sums)
    }

    fn conv(&self, window: Window, weight: &dyn WeightRows<T>, wants_x: bool) -> Parts<T> {
        let op = self.op;
        let low = self.variables.low;
        let dora_scale = self.saved.dora_scales.as_deref();
        let mut gradients = self.empty(wants_x);
        let data = (self.x, self.dy, self.saved.h.as_slice());
        weight.for_each(&mut |_, _, w| {
            if op.by_effective_weight(&window, 1) {
                let effective = op.effective(w, low, dora_scale);
                let group = op.group(&window, 1, 0, &effective);
                let data = (self.x, self.dy);
                conv::backward_effective(window, data, group, low, dora_scale, &mut gradients);
            } else {
                let group = op.group(&window, 1, 0, w);
                conv::backward(window, data, group, low, dora_scale, &mut gradients);
            }
        });
        if !self.needs_sums() {
            return (gradients, Vec::new(), Vec::new());
        }
        let pixels = window.out[0] * window.out[1];
        let bias = self.variables.bias;
        let sums = conv::channel_sums(self.y, self.dy, bias, (op.outputs, pixels));
        let dm = self.magnitude_gradient(&sums, weight, |j, v| {
            let input = Channels {
                total: window.channels,
                first: 0,
            };
            let u = conv::unscaled(window, self.x, input, v);
            let planes = self.dy.chunks(pixels).skip(j).step_by(op.outputs);
            let terms = u.iter().zip(planes.flatten());
            terms.map(|(u, dy)| u.to_f64() * dy.to_f64()).sum()
        });
        (gradients, dm, sums)
    }

    fn grouped(
        &self,
        (window, groups): (Window, usize),
        weight: &dyn WeightRows<T>,
        wants_x: bool,
    ) -> Parts<T> {
        let op = self.op;
        let depth = op.depth;
        let low = self.variables.low;
        let dora_scale = self.saved.dora_scales.as_deref();
        let mut gradients = self.empty(wants_x);
        let mut dm = Vec::new();
        weight.for_each(&mut |_, _, w| {
            let v = effective::updated(w, low, depth);
            let mut effective = v.clone();
            effective::scale(&mut effective, dora_scale, depth);
            let mut dw = Vec::with_capacity(v.len());
            for index in 0..groups {
                let group = op.group(&window, groups, index, &effective);
                dw.extend(conv::weight_gradient(window, self.x, self.dy, group));
                if wants_x {
                    let data = (self.x, self.dy, [].as_slice());
                    let mut of_group = Gradients {
                        x: gradients.x.take(),
                        a: Vec::new(),
                        b: Vec::new(),
                    };
                    conv::backward(window, data, group, none(), None, &mut of_group);
                    gradients.x = of_group.x;
                }
            }
            (gradients.a, gradients.b) = effective::factor_gradients(&dw, low, dora_scale, depth);
            if op.has_magnitude {
                dm = effective::magnitude_gradient(&dw, &v, &self.saved.norms, depth);
            }
        });
        let pixels = window.out[0] * window.out[1];
        let sums = match op.trains_bias {
            true => conv::channel_sums(self.y, self.dy, None, (op.outputs, pixels)),
            false => Vec::new(),
        };
        (gradients, dm, sums)
    }

    fn needs_sums(&self) -> bool {
        self.op.has_magnitude || self.op.trains_bias
    }

    fn empty(&self, wants_x: bool) -> Gradients<T> {
        let low = self.variables.low;
        Gradients {
            x: wants_x.then(|| vec![T::zero(); self.x.len()]),
            a: vec![T::zero(); low.a.len()],
            b: vec![T::zero(); low.b.len()],
        }
    }

    /// `dm`; `product(j, row j of V)` is `sum(dy_j u_j)` for rows whose sums do not give it.
    fn magnitude_gradient(
        &self,
        sums: &[RowSums],
        weight: &dyn WeightRows<T>,
        product: impl Fn(usize, &[T]) -> f64,
    ) -> Vec<f64> {
        let Some(magnitude) = self.variables.magnitude else {
            return Vec::new();
        };
        let norms = &self.saved.norms;
        let bias = |j: usize| self.variables.bias.map_or(T::zero(), |b| b[j]);
        let from_sums = |j: usize| sums[j].magnitude_gradient(magnitude[j], norms[j], bias(j));
        let mut dm: Vec<Option<f64>> = (0..sums.len()).map(from_sums).collect();
        if dm.iter().any(Option::is_none) {
            let depth = self.op.depth;
            weight.for_each(&mut |first, n_rows, w| {
                for j in (first..first + n_rows).filter(|&j| from_sums(j).is_none()) {
                    let low = self.variables.low;
                    let row = &w[(j - first) * depth..][..depth];
                    let b = &low.b[j * low.rank..][..low.rank];
                    let v = effective::updated(row, LowRank { b, ..low }, depth);
                    dm[j] = Some(product(j, &v) / norms[j]);
                }
            });
        }
        dm.into_iter().map(|d| d.unwrap_or(0.0)).collect()
    }
}

impl<T: Real> CustomOp2 for Adapted<T> {
    fn name(&self) -> &'static str {
        "dora"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        flat: &CpuStorage,
        flat_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let x = contiguous(T::cpu_storage_as_slice(x)?, x_layout)?;
        let flat = contiguous(T::cpu_storage_as_slice(flat)?, flat_layout)?;
        let y = self.forward(x, flat)?;
        Ok((T::to_cpu_storage_owned(y), self.result.clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        flat: &Tensor,
        y: &Tensor,
        dy: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let (dy, device) = (dy.contiguous()?, x.device());
        let (dx, gradient) = with_slice(x, |x_data| {
            with_slice(flat, |flat| {
                with_slice(y, |y| {
                    with_slice(&dy, |dy| {
                        self.backward((x_data, flat), (y, dy), x.track_op())
                    })
                })
            })
        })?;
        let dx = dx
            .map(|dx| Tensor::from_vec(dx, x.shape(), device))
            .transpose()?;
        let gradient = Tensor::from_vec(gradient, flat.shape(), device)?;
        Ok((dx, Some(gradient)))
    }
}
