//! [`Quantizer`]: a recipe, applied to tensors.

use super::buffers::Buffers;
use super::hadamard::Rotation;
use super::policy::{self, NonFinite};
use super::recipe::{Granularity, Recipe, Rounding};
use super::{mx, nvfp4, plain, rows, stochastic};
use crate::error::QuantError;
use crate::packed::{PackedTensor, Scales};
use crate::simd::ExecutionPolicy;

/// The memory of a tensor that is no longer needed.
fn buffers_of(old: PackedTensor) -> Buffers {
    let (codes, scales) = old.into_parts();
    let scales = match scales {
        Scales::Nvfp4 { block, .. } => block,
        Scales::Mx(scales) => scales,
        Scales::F32 { .. } => Vec::new(),
    };
    Buffers { codes, scales }
}

/// A recipe together with everything else that decides the codes.
///
/// # Examples
///
/// ```
/// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
/// let weights: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
/// let packed = Quantizer::new(Recipe::NVFP4).quantize(ExecutionPolicy::detect(), &weights, &[2, 32], 1)?;
/// assert_eq!(packed.size_bytes(), 64 * 9 / 16 + 4); // 4.5 bits per weight and the tensor scale
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quantizer {
    /// Number format, which values share a scale, and how the scale is chosen.
    pub recipe: Recipe,
    /// How scaled values become codes.
    pub rounding: Rounding,
    /// What happens to NaN and infinity.
    pub non_finite: NonFinite,
    /// Rotation along the axis before quantizing, undone by dequantizing.
    pub rotation: Option<Rotation>,
}

impl Quantizer {
    /// `recipe` with nearest-even rounding, non-finite weights refused, no rotation.
    pub const fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            rounding: Rounding::NearestEven,
            non_finite: NonFinite::Error,
            rotation: None,
        }
    }

    /// Packs `values`, row-major of `shape`, with blocks along `axis`.
    ///
    /// # Shapes
    ///
    /// `values` holds the product of `shape`. Blocks run along `axis`; a last block that is short is
    /// padded with zeros, which never change its scale.
    ///
    /// # Errors
    ///
    /// [`QuantError::ShapeOverflow`], [`QuantError::Axis`], [`QuantError::LengthMismatch`] for
    /// inconsistent arguments; [`QuantError::NotFinite`] under [`NonFinite::Error`];
    /// [`QuantError::NotAMultiple`] if a rotation does not divide the axis;
    /// [`QuantError::Unsupported`] for FP8 of a format that has no eight bits, or empty rectangles.
    pub fn quantize(
        &self,
        policy: ExecutionPolicy,
        values: &[f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<PackedTensor, QuantError> {
        self.pack_tensor(policy, values, shape, axis, Buffers::default())
    }

    /// The same in the memory of a tensor that is no longer needed, so that packing one tensor after
    /// another allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`]; `old` is gone either way.
    pub fn quantize_reusing(
        &self,
        policy: ExecutionPolicy,
        values: &[f32],
        shape: &[usize],
        axis: usize,
        old: PackedTensor,
    ) -> Result<PackedTensor, QuantError> {
        self.pack_tensor(policy, values, shape, axis, buffers_of(old))
    }

    fn pack_tensor(
        &self,
        policy: ExecutionPolicy,
        values: &[f32],
        shape: &[usize],
        axis: usize,
        old: Buffers,
    ) -> Result<PackedTensor, QuantError> {
        let extent = rows::Extent::new(shape, axis)?;
        QuantError::check_length("values", values.len(), extent.n_values())?;
        self.check_recipe(&extent)?;
        let format = self.recipe.format();
        let padded_depth = extent.depth.next_multiple_of(format.block());
        let mut rows = rows::gather(values, &extent, padded_depth)?;
        if let Some(rotation) = self.rotation {
            QuantError::check_multiple("axis length", extent.depth, rotation.size())?;
            rotation.apply(policy, rows.to_mut());
        }
        let shape_of_rows = plain::RowShape {
            n_rows: extent.n_rows(),
            depth: padded_depth,
        };
        let (codes, scales) = match self.pack(policy, &rows, shape_of_rows, old) {
            Some(packed) => packed,
            None => self.pack_non_finite(policy, rows.to_mut(), shape_of_rows, &extent)?,
        };
        Ok(PackedTensor::assemble(
            shape,
            axis,
            format,
            codes,
            scales,
            self.rotation,
        ))
    }

    /// The value that stands for `values` after a round trip: quantized, then dequantized.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub fn round_trip(
        &self,
        policy: ExecutionPolicy,
        values: &[f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<Vec<f32>, QuantError> {
        self.quantize(policy, values, shape, axis)?
            .dequantize(policy)
    }

    /// The same in place.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`]; `values` is then untouched.
    pub fn round_trip_in_place(
        &self,
        policy: ExecutionPolicy,
        values: &mut [f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<(), QuantError> {
        self.quantize(policy, values, shape, axis)?
            .dequantize_into(policy, values)
    }

    fn check_recipe(&self, extent: &rows::Extent) -> Result<(), QuantError> {
        if let Recipe::Fp8 { format, .. } = self.recipe
            && format.spec().bits() != 8
        {
            return Err(QuantError::Unsupported {
                operation: "FP8 quantization",
                format: format.to_string(),
            });
        }
        if let Recipe::Fp8 { granularity, .. } | Recipe::Int8 { granularity } = self.recipe
            && let Granularity::Block { rows, depth } = granularity
            && (rows == 0 || depth == 0)
        {
            let format = format!("{rows} by {depth} rectangles of {} rows", extent.n_rows());
            return Err(QuantError::Unsupported {
                operation: "quantization",
                format,
            });
        }
        Ok(())
    }

    /// Codes and scales of rows of whole blocks, or nothing if a value is not finite.
    fn pack(
        &self,
        policy: ExecutionPolicy,
        rows: &[f32],
        shape: plain::RowShape,
        old: Buffers,
    ) -> Option<(Vec<u8>, Scales)> {
        use plain::Element;
        let (mut codes, scales) = match self.recipe {
            Recipe::Nvfp4 { formula, search } => {
                nvfp4::quantize(policy, rows, formula, search, old)?
            }
            Recipe::Mx { format, scale } => mx::quantize(policy, rows, format, scale, old)?,
            Recipe::Int8 { granularity } => {
                plain::quantize(policy, rows, shape, Element::Int8, granularity, old)?
            }
            Recipe::Fp8 {
                format,
                granularity,
            } => plain::quantize(
                policy,
                rows,
                shape,
                Element::Float(format),
                granularity,
                old,
            )?,
        };
        if let Rounding::Stochastic { seed } = self.rounding {
            stochastic::recode(self.recipe, rows, shape, &scales, seed, &mut codes);
        }
        Some((codes, scales))
    }

    /// Applies the policy for values that are not finite.
    fn pack_non_finite(
        &self,
        policy: ExecutionPolicy,
        rows: &mut [f32],
        shape: plain::RowShape,
        extent: &rows::Extent,
    ) -> Result<(Vec<u8>, Scales), QuantError> {
        let bad: Vec<usize> = (0..rows.len()).filter(|&i| !rows[i].is_finite()).collect();
        match (self.non_finite, bad.first()) {
            (NonFinite::Error, Some(&i)) => {
                let index = extent.index_of(i / shape.depth, i % shape.depth);
                return Err(QuantError::NotFinite {
                    index,
                    value: rows[i],
                });
            }
            (NonFinite::Clamp, _) => policy::clamp(rows),
            (NonFinite::Pass, _) => policy::zero(rows, &bad),
            (NonFinite::Error, None) => {}
        }
        let Some((codes, mut scales)) = self.pack(policy, rows, shape, Buffers::default()) else {
            unreachable!("every value was made finite above");
        };
        if self.non_finite == NonFinite::Pass {
            for i in bad {
                scales.poison(i / shape.depth, i % shape.depth, shape.depth);
            }
        }
        Ok((codes, scales))
    }
}
