//! Figures to report besides the loss; they have no gradient.

use candle_core::{DType, Tensor};

use crate::error::Result;

/// Mean distance of predictions from targets, in their unit.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn mean_absolute(prediction: &Tensor, target: &Tensor) -> Result<f64> {
    let distance = (prediction.detach() - target.detach())?.abs()?;
    Ok(distance.to_dtype(DType::F64)?.mean_all()?.to_scalar()?)
}

/// The fraction of predictions within `limit` of their targets. NaN is not within.
///
/// # Errors
///
/// As candle's, for shapes that differ.
pub fn within(prediction: &Tensor, target: &Tensor, limit: f64) -> Result<f64> {
    let distance = (prediction.detach() - target.detach())?.abs()?;
    let distance: Vec<f64> = distance.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
    let near = distance.iter().filter(|&&d| d <= limit).count();
    Ok(near as f64 / distance.len().max(1) as f64)
}
