//! What all layers but embeddings share: a frozen base, its bias, the adapter's variables.

use candle_core::{DType, Result, Shape, Tensor};

use super::factors::{Factors, named};
use super::operation::{Adapted, Form};
use crate::base::{Base, check_shape};
use crate::dropout::Dropout;
use crate::finite;

/// A base with its bias and variables: what all layers but embeddings share.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) base: Base,
    pub(crate) bias: Option<Tensor>,
    pub(crate) factors: Factors,
    pub(crate) dropout: Dropout,
}

impl Core {
    /// Norms of the rows under the magnitudes.
    pub(crate) fn row_norms(&self) -> crate::error::Result<Vec<f64>> {
        let norms = self.factors.row_norms(|| Ok(self.base.clone()))?;
        Ok(norms.to_vec())
    }

    /// Whether the kernels of this crate can compute with `x`.
    pub(crate) fn has_kernels(&self, x: &Tensor) -> bool {
        x.device().is_cpu()
            && self.base.device().is_cpu()
            && x.dtype() == self.base.dtype()
            && matches!(x.dtype(), DType::F32 | DType::F64)
    }

    /// Whether the bias is trained: it is, if it is a variable.
    fn trains_bias(&self) -> bool {
        self.bias.as_ref().is_some_and(Tensor::track_op)
    }

    /// The adapted layer by this crate's kernels.
    pub(crate) fn run(&self, x: &Tensor, form: Form, result: Shape) -> Result<Tensor> {
        let x = x.contiguous()?;
        let trains_bias = self.trains_bias();
        let bias = (self.bias.as_ref(), trains_bias);
        let flat = self
            .factors
            .flat(self.bias.as_ref().filter(|_| trains_bias), x.dtype())?;
        let (base, factors) = (&self.base, &self.factors);
        match x.dtype() {
            DType::F64 => x.apply_op2(
                &flat,
                Adapted::<f64>::new(form, base, factors, bias, result)?,
            ),
            _ => x.apply_op2(
                &flat,
                Adapted::<f32>::new(form, base, factors, bias, result)?,
            ),
        }
    }
}

/// A base weight and its bias, refused unless they fit and are finite numbers.
pub(crate) fn checked_base(
    layer: &str,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> crate::error::Result<Base> {
    check_bias(layer, weight.dims(), bias)?;
    Base::finite(&named(layer, "weight"), weight)
}

/// Refuses a bias that does not fit a weight of these `dims`, or is not of finite numbers.
pub(crate) fn check_bias(
    layer: &str,
    dims: &[usize],
    bias: Option<&Tensor>,
) -> crate::error::Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    let name = named(layer, "bias");
    check_shape(&name, bias.dims(), dims.get(..1).unwrap_or_default())?;
    finite::check(&name, bias)
}
