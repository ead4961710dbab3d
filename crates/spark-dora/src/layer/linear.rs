//! `y = g (x W^T + s x A^T B^T) + b`, with `g = m / |W + s B A|` per output.

use candle_core::{Result as CandleResult, Shape, Tensor};
use candle_nn::{Linear, Module, VarBuilder};
use spark_quant::PackedTensor;

use super::composed;
use super::factors::{FactorShapes, Factors, named};
use super::initial::{self, Initial};
use super::operation::Form;
use super::train::TrainModule;
use super::with_base::{Core, check_bias, checked_base};
use crate::base::{Base, check_shape};
use crate::config::LayerConfig;
use crate::dropout::Dropout;
use crate::error::Result;
use crate::kernel::linear::Shape as LinearShape;
use crate::merge::{self, Merged};

/// A linear layer under DoRA, LoRA, or a trained magnitude.
///
/// # Shapes
///
/// Input `[.., in]`, output `[.., out]`; A `[rank, in]`, B `[out, rank]`, magnitude `[out]`.
///
/// # Gradients
///
/// The input, A, B and the magnitude get one; the base weight never does. The bias gets one if it is a
/// variable. The norm is held constant (ICML 2024 paper, section 4.3).
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Linear, Module, VarBuilder, VarMap};
/// use spark_dora::{DoraLinear, LayerConfig};
///
/// let base = Linear::new(Tensor::randn(0f32, 1.0, (12, 8), &Device::Cpu)?, None);
/// let variables = VarMap::new();
/// let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
/// let layer = DoraLinear::from_linear(&base, &LayerConfig::dora(4), vb.pp("fc"))?;
///
/// let x = Tensor::randn(0f32, 1.0, (3, 8), &Device::Cpu)?;
/// let gradients = layer.forward(&x)?.sqr()?.sum_all()?.backward()?;
/// assert!(variables.all_vars().iter().all(|v| gradients.get(v).is_some()));
/// assert!(gradients.get(base.weight()).is_none());
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DoraLinear {
    core: Core,
}

fn shapes(base: &Base) -> Result<FactorShapes> {
    let dims = base.dims();
    if dims.len() != 2 {
        check_shape("weight", dims, &[0, 0])?;
    }
    Ok(FactorShapes::of_weight(dims))
}

impl DoraLinear {
    /// Adapts `linear`, with variables taken from `vb` or made in it.
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::RankZero`], [`crate::DoraError::RankTooLarge`] and
    /// [`crate::DoraError::Setting`] for a configuration that fits no weight of this shape;
    /// [`crate::DoraError::NotFinite`] for a weight, a bias or stored variables that hold NaN or infinities;
    /// [`crate::DoraError::Unsupported`] if `vb` has another type than f32 and f64;
    /// [`crate::DoraError::Candle`] if it holds other shapes.
    pub fn from_linear(linear: &Linear, config: &LayerConfig, vb: VarBuilder<'_>) -> Result<Self> {
        Self::from_initial(linear, config, vb, None)
    }

    /// The same, begun with these A and B, where they were taken from the weight.
    pub(crate) fn from_initial(
        linear: &Linear,
        config: &LayerConfig,
        vb: VarBuilder<'_>,
        initial: Option<(Tensor, Tensor)>,
    ) -> Result<Self> {
        let base = checked_base(&vb.prefix(), linear.weight(), linear.bias())?;
        Self::on(base, linear.bias().cloned(), config, &vb, initial)
    }

    /// QDoRA: the base stays packed, `[out, in]` with blocks along the inputs, and is converted to f32 some
    /// rows at a time. Variables are f32.
    ///
    /// # Errors
    ///
    /// As [`DoraLinear::from_linear`]; [`crate::DoraError::Quant`] for a tensor packed otherwise.
    pub fn from_packed(
        weight: &PackedTensor,
        bias: Option<Tensor>,
        config: &LayerConfig,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let layer = vb.prefix();
        check_bias(&layer, weight.shape(), bias.as_ref())?;
        let base = Base::packed(&named(&layer, "weight"), weight, vb.device())?;
        Self::on(base, bias, config, &vb, None)
    }

    fn on(
        base: Base,
        bias: Option<Tensor>,
        config: &LayerConfig,
        vb: &VarBuilder<'_>,
        initial: Option<(Tensor, Tensor)>,
    ) -> Result<Self> {
        let shapes = shapes(&base)?;
        let initial = match initial {
            Some((a, b)) => Some(Initial {
                a,
                b,
                base: base.clone(),
            }),
            None => initial::of_weight(&base, config, vb)?,
        };
        let base = match &initial {
            Some(initial) => {
                let residual = initial.residual(&base.to_tensor()?, config.scaling())?;
                Base::finite(&named(&vb.prefix(), "weight"), &residual)?
            }
            None => base,
        };
        let factors = Factors::new(|| Ok(base.clone()), &shapes, config, vb, initial)?;
        Ok(Self {
            core: Core {
                base,
                bias,
                factors,
                dropout: Dropout::new(config.dropout, config.seed, &vb.prefix()),
            },
        })
    }

    /// A layer of given tensors: `(A, B)` and the magnitude, with `scaling` as the factor of `B A`.
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::Shape`] for tensors that do not fit the weight,
    /// [`crate::DoraError::NotFinite`] for a weight or a bias that holds NaN or infinities,
    /// [`crate::DoraError::Setting`] for a scaling that f32 does not hold.
    pub fn from_tensors(
        linear: &Linear,
        low_rank: Option<(Tensor, Tensor)>,
        magnitude: Option<Tensor>,
        scaling: f64,
    ) -> Result<Self> {
        let base = checked_base("", linear.weight(), linear.bias())?;
        let factors = Factors::from_parts(&shapes(&base)?, low_rank, magnitude, scaling)?;
        Ok(Self {
            core: Core {
                base,
                bias: linear.bias().cloned(),
                factors,
                dropout: Dropout::NONE,
            },
        })
    }

    /// The trained variables: A, B and the magnitude, as far as the layer has them.
    pub fn factors(&self) -> &Factors {
        &self.core.factors
    }

    /// Norms of the rows of `W + s B A` for the present factors, which magnitudes stand over; a row of length zero has the factor
    /// 1 instead. They are kept until the factors change.
    ///
    /// # Errors
    ///
    /// As candle's; [`crate::DoraError::Quant`] if a packed base cannot be converted to f32.
    pub fn row_norms(&self) -> Result<Vec<f64>> {
        self.core.row_norms()
    }

    /// The weight that stays under A and B, where it is not the layer's own: what is left of that if A and B began as parts of it.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn frozen(&self) -> Result<Option<Tensor>> {
        let is_other = self.core.factors.initial().is_some();
        is_other.then(|| self.core.base.to_tensor()).transpose()
    }

    /// What [`TrainModule::forward_train`] drops of its inputs.
    pub fn dropout(&self) -> Dropout {
        self.core.dropout
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// A plain layer that computes the same: `W' = g (W + s B A)`, formed in f64, rounded once to the
    /// base's type (f32 for a packed base).
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::NotFinite`] if a merged weight is not a finite number.
    pub fn merge(&self) -> Result<Merged<Linear>> {
        let (weight, report) = merge::weight(&self.core)?;
        let layer = Linear::new(weight, self.core.bias.clone());
        Ok(Merged { layer, report })
    }

    /// The layer as it was before adaptation; a bias that is trained has its present values.
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::Quant`] if a packed base cannot be converted to f32.
    pub fn base(&self) -> Result<Linear> {
        let base = match self.core.factors.initial() {
            Some(initial) => &initial.base,
            None => &self.core.base,
        };
        Ok(Linear::new(base.to_tensor()?, self.core.bias.clone()))
    }

    fn compute(core: &Core, x: &Tensor) -> CandleResult<Tensor> {
        if !core.has_kernels(x) {
            return composed::linear(core, x);
        }
        let [outputs, inputs] = [0, 1].map(|axis| core.base.dims()[axis]);
        let dims = x.dims();
        let Some((&last, leading)) = dims.split_last() else {
            candle_core::bail!("a linear layer needs at least one axis")
        };
        if last != inputs {
            candle_core::bail!("input {dims:?} to a weight of [{outputs}, {inputs}]")
        }
        let shape = LinearShape {
            tokens: leading.iter().product(),
            inputs,
            outputs,
        };
        let result = Shape::from([leading, &[outputs]].concat());
        core.run(x, Form::Linear(shape), result)
    }
}

impl TrainModule for DoraLinear {
    fn forward_train(&self, x: &Tensor, step: u64) -> CandleResult<Tensor> {
        composed::with_dropout(&self.core, x, step, Self::compute)
    }
}

impl Module for DoraLinear {
    /// Evaluates the layer, without dropout; [`TrainModule::forward_train`] has it.
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        Self::compute(&self.core, x)
    }
}
