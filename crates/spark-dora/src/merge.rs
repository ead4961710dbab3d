//! Merging: plain layers that compute what the adapted ones do.
//!
//! ```text
//! W' = g (W + s B A)     formed in f64, rounded once to the base's type; the base is not touched
//! ```
//!
//! The norms in `g` are of the variables' type, as the layer has them: with f32 variables a weight is off by their rounding, 1e-7 of it.
//!
//! Taking an adapter off again needs no arithmetic: an adapted layer keeps its base (`base()`). From
//! merged weights alone it cannot be done, since the norms of `W + s B A` are not in them.

use candle_core::{DType, Device, Tensor};
use candle_nn::Module;

use crate::base::Base;
use crate::error::{DoraError, Result};
use crate::kernel::{effective as weights, magnitude};
use crate::layer::factors::Factors;
use crate::layer::with_base::Core;

/// A plain layer made of an adapted one.
#[derive(Clone, Debug)]
pub struct Merged<L> {
    /// The plain layer, with the update in its weight.
    pub layer: L,
    /// How it differs from its base.
    pub report: MergeReport,
}

/// What merging did to a weight.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct MergeReport {
    /// Largest change of an element.
    pub max_change: f64,
    /// Length of the change over the length of the base weight.
    pub relative_change: f64,
    /// Largest error from rounding to the base's type.
    pub max_rounding: f64,
}

/// How far two layers' results are apart.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Equivalence {
    /// Largest difference of an element.
    pub max_abs: f64,
    /// That, over the largest absolute value of `want`.
    pub relative: f64,
}

/// Compares two layers on `x`.
///
/// A result that is not finite makes both figures NaN, which no bound admits.
///
/// # Errors
///
/// [`DoraError::Candle`] if a layer refuses `x`, [`DoraError::Shape`] if they give other shapes.
///
/// # Examples
///
/// ```
/// use candle_core::{Device, Tensor};
/// use candle_nn::Linear;
/// use spark_dora::equivalence;
///
/// let layer = |value: f32| -> candle_core::Result<Linear> {
///     Ok(Linear::new(Tensor::full(value, (1, 2), &Device::Cpu)?, None))
/// };
/// let x = Tensor::ones((1, 2), candle_core::DType::F32, &Device::Cpu)?;
/// let difference = equivalence(&layer(1.5)?, &layer(1.0)?, &x)?;
/// assert_eq!((difference.max_abs, difference.relative), (1.0, 0.5));
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
pub fn equivalence(got: &impl Module, want: &impl Module, x: &Tensor) -> Result<Equivalence> {
    let (got, want) = (got.forward(x)?, want.forward(x)?);
    crate::base::check_shape("result", got.dims(), want.dims())?;
    let values = |t: &Tensor| -> Result<Vec<f64>> {
        let flat = t.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        Ok(flat.flatten_all()?.to_vec1()?)
    };
    let (got, want) = (values(&got)?, values(&want)?);
    let largest = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(0.0f64, |a, b| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b.abs())
            }
        })
    };
    let max_abs = largest(&mut got.iter().zip(&want).map(|(g, w)| g - w));
    let scale = largest(&mut want.iter().copied());
    Ok(Equivalence {
        max_abs,
        relative: if max_abs == 0.0 { 0.0 } else { max_abs / scale },
    })
}

/// The merged weight of a layer, in the base's type and shape.
pub(crate) fn weight(core: &Core) -> Result<(Tensor, MergeReport)> {
    effective(&core.base, &core.factors)
}

/// `g (W + s B A)` for a base given as rows.
pub(crate) fn effective(base: &Base, factors: &Factors) -> Result<(Tensor, MergeReport)> {
    let dense = base.to_tensor()?;
    // What the change is measured against: the weight that was adapted.
    let offered = match factors.initial() {
        Some(initial) => initial.base.to_tensor()?,
        None => dense.clone(),
    };
    let own = dense.dtype();
    let values = |t: Option<&Tensor>| -> Result<Vec<f64>> {
        Ok(match t {
            Some(t) => t
                .to_device(&Device::Cpu)?
                .to_dtype(DType::F64)?
                .flatten_all()?
                .to_vec1()?,
            None => Vec::new(),
        })
    };
    let weight = values(Some(&dense))?;
    let (a, b) = (values(factors.a())?, values(factors.b())?);
    let depth = dense.dims()[1..].iter().product();
    let mut v = weights::updated(&weight, factors.low_rank(&a, &b), depth);
    let merged = match factors.magnitude() {
        None => v,
        Some(m) => {
            let norms = factors.row_norms(|| Ok(base.clone()))?;
            let dora_scales = magnitude::dora_scales(&values(Some(m))?, &norms);
            weights::scale(&mut v, Some(&dora_scales), depth);
            v
        }
    };
    let rounded = Tensor::from_slice(&merged, dense.dims(), &Device::Cpu)?.to_dtype(own)?;
    let after = values(Some(&rounded))?;
    let before = values(Some(&offered))?;
    if let Some(index) = after.iter().position(|v| !v.is_finite()) {
        return Err(DoraError::NotFinite {
            name: "merged weight".to_owned(),
            index,
        });
    }
    let largest = |a: &[f64], b: &[f64]| {
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        differences.fold(0.0, f64::max)
    };
    let change: f64 = after
        .iter()
        .zip(&before)
        .map(|(a, b)| (a - b).powi(2))
        .sum();
    let length: f64 = before.iter().map(|b| b * b).sum();
    let report = MergeReport {
        max_change: largest(&after, &before),
        relative_change: if change == 0.0 {
            0.0
        } else {
            (change / length).sqrt()
        },
        max_rounding: largest(&after, &merged),
    };
    Ok((rounded.to_device(dense.device())?, report))
}
