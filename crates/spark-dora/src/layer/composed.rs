//! The layers from candle's own operations: half precision, and devices without kernels here.
//!
//! ```text
//! linear   y = base(x) + (g - 1) (base(x) - b) + g s B A x      the base in its own type
//! conv     y = base(x) + (conv(x, g V) - conv(x, W))            V = W + s B A, in f32
//! ```
//!
//! The base's result is computed as the plain layer computes it and the rest added in f32, so that an
//! adapter that changes nothing (`g = 1`, `B = 0`) gives the base's bits in every type.

use candle_core::{DType, Device, Result, Tensor};

use super::factors::Factors;
use super::with_base::Core;
use crate::dropout::Dropout;

/// Type the adapter computes in beside a base of type `dtype`.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// `g`, `[out]`, with the norm as a constant.
pub(crate) fn dora_scale(
    factors: &Factors,
    rows: impl FnOnce() -> crate::error::Result<crate::base::Base>,
    dtype: DType,
    device: &Device,
) -> Result<Option<Tensor>> {
    let Some(magnitude) = factors.magnitude() else {
        return Ok(None);
    };
    let norms = factors.row_norms(rows)?;
    let magnitude = magnitude.flatten_all()?.to_dtype(dtype)?;
    let zero: Vec<u8> = norms.iter().map(|&n| u8::from(n as f32 == 0.0)).collect();
    let safe: Vec<f64> = norms
        .iter()
        .zip(&zero)
        .map(|(&n, &z)| if z == 1 { 1.0 } else { n })
        .collect();
    let any_zero = zero.contains(&1);
    let safe = Tensor::new(safe, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)?;
    let dora_scale = (magnitude / safe)?;
    if !any_zero {
        return Ok(Some(dora_scale));
    }
    // A row of length zero has no direction and is passed as it is.
    let zero = Tensor::new(zero, device)?;
    Ok(Some(
        zero.where_cond(&dora_scale.ones_like()?, &dora_scale)?,
    ))
}

/// A linear layer by candle's own operations, for types and devices without kernels here.
pub(crate) fn linear(core: &Core, x: &Tensor) -> Result<Tensor> {
    let weight = core.base.to_tensor()?;
    let base = candle_nn::Module::forward(&candle_nn::Linear::new(weight, None), x)?;
    let own = base.dtype();
    let dtype = wide(own);
    let unbiased = base.to_dtype(dtype)?;
    let with_bias = match &core.bias {
        Some(bias) => base.broadcast_add(&bias.to_dtype(own)?)?,
        None => base,
    };
    let mut y = with_bias.to_dtype(dtype)?;
    let dora_scale = dora_scale(&core.factors, || Ok(core.base.clone()), dtype, x.device())?;
    if let (Some(a), Some(b)) = (core.factors.a(), core.factors.b()) {
        let (a, b) = (a.to_dtype(dtype)?, b.to_dtype(dtype)?);
        let h = x.to_dtype(dtype)?.contiguous()?.broadcast_matmul(&a.t()?)?;
        let update = (h.broadcast_matmul(&b.t()?)? * core.factors.scaling())?;
        y = match &dora_scale {
            Some(dora_scale) => (y + update.broadcast_mul(dora_scale)?)?,
            None => (y + update)?,
        };
    }
    if let Some(dora_scale) = &dora_scale {
        y = (y + unbiased.broadcast_mul(&(dora_scale - 1.0)?)?)?;
    }
    y.to_dtype(own)
}

/// A convolution; `apply(x, weight)` is candle's.
pub(crate) fn conv(
    core: &Core,
    x: &Tensor,
    apply: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let weight = core.base.to_tensor()?;
    let base = apply(x, &weight)?;
    let own = base.dtype();
    let dtype = wide(own);
    let channels = weight.dim(0)?;
    let along = |t: &Tensor| -> Result<Tensor> {
        let mut shape = vec![1; base.rank()];
        shape[1] = channels;
        t.reshape(shape)
    };
    let frozen = weight.to_dtype(dtype)?.flatten_from(1)?;
    let mut change = frozen.clone();
    if let (Some(a), Some(b)) = (core.factors.a(), core.factors.b()) {
        let a = a.to_dtype(dtype)?.flatten_from(1)?;
        let b = b
            .to_dtype(dtype)?
            .reshape((channels, core.factors.rank()))?;
        change = (change + (b.matmul(&a)? * core.factors.scaling())?)?;
    }
    if let Some(dora_scale) =
        dora_scale(&core.factors, || Ok(core.base.clone()), dtype, x.device())?
    {
        change = change.broadcast_mul(&dora_scale.unsqueeze(1)?)?;
    }
    let change = (change - frozen)?.reshape(weight.dims())?;
    let biased = match &core.bias {
        Some(bias) => base.broadcast_add(&along(&bias.to_dtype(own)?)?)?,
        None => base.clone(),
    };
    let update = apply(&x.to_dtype(dtype)?, &change)?;
    (biased.to_dtype(dtype)? + update)?.to_dtype(own)
}

/// Training with dropout: the update and the scale see a thinned input, the base the whole one.
///
/// ```text
/// y = adapted(d) + W (x - d)      d = dropout(x) of this step
/// ```
pub(crate) fn with_dropout(
    core: &Core,
    x: &Tensor,
    step: u64,
    adapted: impl Fn(&Core, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if core.dropout.is_none() {
        return adapted(core, x);
    }
    let thinned = core.dropout.thin(x, step)?;
    let base = Core {
        base: core.base.clone(),
        bias: None,
        factors: Factors::none(),
        dropout: Dropout::NONE,
    };
    let rest = adapted(&base, &(x - &thinned)?)?;
    adapted(core, &thinned)? + rest
}
