//! Tensors to block formats: which scale each block gets, and how its values round.
//!
//! ```text
//! tensor, axis --> rows of whole blocks (last block of a row padded with zeros)
//!
//! format  values per scale        scale           bits per value at whole blocks
//! NVFP4   16 along the axis       E4M3 * f32      4.5
//! MX      32 along the axis       E8M0            4.25, 6.25, 8.25
//! INT8    a row or the tensor     f32             8 + 32/row
//! FP8     row, tensor, rectangle  f32             8 + 32/block
//! ```
//!
//! [`Quantizer`] is the entry. Everything is defined in [`reference`](mod@crate::reference) and equal
//! to it bit for bit. Deliberately absent: four-bit integers and codebook formats.

pub mod hadamard;
pub(crate) mod mx;
pub(crate) mod nvfp4;
pub(crate) mod plain;
mod policy;
mod round_trip;
pub(crate) mod rows;
pub mod stochastic;

#[cfg(test)]
mod tests;

use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;
use crate::simd::Cpu;

pub use hadamard::Rotation;
pub use policy::NonFinite;
pub use round_trip::RoundTrip;

/// Which of the two published NVFP4 formulas is followed, to the last bit (all steps in f32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nvfp4Formula {
    /// NVIDIA ModelOpt: `s = e4m3(clamp(amax / (6 ts), 2^-9, 448))`, `code = e2m1(w / (s ts))`;
    /// a block of zeros gets scale 1.
    #[default]
    ModelOpt,
    /// torchao: `s = e4m3(clamp((amax / 6) / ts, 2^-6, 448))`, `code = e2m1(w * ((1 / ts) / s))`;
    /// a block of zeros gets scale `2^-6`.
    TorchAo,
}

/// How an NVFP4 block scale is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScaleSearch {
    /// The largest magnitude maps to 6.
    #[default]
    Amax,
    /// The largest magnitude maps to 6 or to 4, whichever leaves the smaller squared error. The
    /// tensor scale leaves room for the second choice: it is `amax / (6 * 256)` (arXiv 2512.02010).
    FourOverSix,
    /// Every E4M3 scale from four codes below the amax choice to seven above it; the one with the
    /// smallest squared error, the smaller scale on a tie.
    Sweep,
}

/// How the power-of-two scale of an MX block follows from its largest magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MxScale {
    /// `2^(floor(log2 amax) - emax)`: the OCP specification.
    #[default]
    Floor,
    /// `2^(ceil(log2 amax) - emax)`.
    Ceil,
    /// `2^ceil(log2(amax / max))`: nothing saturates; what cuBLAS documents for MXFP8.
    RoundUp,
    /// As `Floor` after rounding amax to the element's mantissa width, halves up.
    Even,
    /// The best of the `Floor` choice and its two neighbours by squared error.
    Mse,
}

/// Which values share one f32 scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// The whole tensor.
    Tensor,
    /// One row along the axis.
    Row,
    /// A rectangle of rows by values along the axis, cut short at the edges.
    Block {
        /// Rows per scale.
        rows: usize,
        /// Values along the axis per scale.
        depth: usize,
    },
}

/// A format and how its scales are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// E2M1 in blocks of 16, E4M3 block scales, one f32 tensor scale.
    Nvfp4 {
        /// Whose arithmetic is followed.
        formula: Nvfp4Formula,
        /// How block scales are chosen.
        search: ScaleSearch,
    },
    /// Any small float in blocks of 32 with E8M0 scales.
    Mx {
        /// Format of the elements.
        format: MiniFormat,
        /// How block scales are chosen.
        scale: MxScale,
    },
    /// Signed bytes -127..=127, f32 scale `amax / 127`, `code = round_even(w / scale)`.
    Int8 {
        /// Which values share a scale.
        granularity: Granularity,
    },
    /// E4M3 or E5M2, f32 scale `amax / max`, `code = format(w / scale)`.
    Fp8 {
        /// E4M3 or E5M2.
        format: MiniFormat,
        /// Which values share a scale.
        granularity: Granularity,
    },
}

impl Recipe {
    /// NVFP4 with ModelOpt's formula and amax scales.
    pub const NVFP4: Self = Self::Nvfp4 {
        formula: Nvfp4Formula::ModelOpt,
        search: ScaleSearch::Amax,
    };
    /// NVFP4 with the scale sweep: about 1.3 dB better than amax on Gaussian weights.
    pub const NVFP4_SWEEP: Self = Self::Nvfp4 {
        formula: Nvfp4Formula::ModelOpt,
        search: ScaleSearch::Sweep,
    };
    /// MXFP4 with the better of three exponents.
    pub const MXFP4: Self = Self::Mx {
        format: MiniFormat::E2m1,
        scale: MxScale::Mse,
    };
    /// MXFP6 E2M3, exponents rounded up.
    pub const MXFP6: Self = Self::Mx {
        format: MiniFormat::E2m3,
        scale: MxScale::RoundUp,
    };
    /// MXFP8 E4M3, exponents rounded up.
    pub const MXFP8: Self = Self::Mx {
        format: MiniFormat::E4m3,
        scale: MxScale::RoundUp,
    };
    /// INT8 with one scale per row.
    pub const INT8: Self = Self::Int8 {
        granularity: Granularity::Row,
    };
    /// FP8 E4M3 with one scale per row.
    pub const FP8: Self = Self::Fp8 {
        format: MiniFormat::E4m3,
        granularity: Granularity::Row,
    };

    /// Name of the format and of the scale choice where it is not the first one.
    pub fn label(self) -> String {
        let name = self.format().name();
        match self {
            Self::Nvfp4 {
                search: ScaleSearch::Sweep,
                ..
            } => format!("{name}_sweep"),
            Self::Nvfp4 {
                search: ScaleSearch::FourOverSix,
                ..
            } => format!("{name}_four_over_six"),
            Self::Int8 {
                granularity: Granularity::Tensor,
            }
            | Self::Fp8 {
                granularity: Granularity::Tensor,
                ..
            } => {
                format!("{name}_tensor")
            }
            _ => name.to_owned(),
        }
    }

    /// The packed format this recipe produces.
    pub const fn format(self) -> PackedFormat {
        match self {
            Self::Nvfp4 { .. } => PackedFormat::Nvfp4,
            Self::Mx { format, .. } => PackedFormat::Mx(format),
            Self::Int8 { .. } => PackedFormat::Int8,
            Self::Fp8 { format, .. } => PackedFormat::Fp8(format),
        }
    }
}

/// How a scaled value becomes a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// To the nearest code, ties to the even one.
    #[default]
    NearestEven,
    /// Up or down at random, with the probability that makes the expectation exact; see
    /// [`stochastic`].
    Stochastic {
        /// Seed of the counter-based generator: same seed, same codes.
        seed: u64,
    },
}

/// Memory to write codes and byte scales into; whatever it holds is overwritten.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) codes: Vec<u8>,
    pub(crate) scales: Vec<u8>,
}

impl Buffers {
    fn of(old: PackedTensor) -> Self {
        let (codes, scales) = old.into_parts();
        let scales = match scales {
            Scales::Nvfp4 { block, .. } => block,
            Scales::Mx(scales) => scales,
            Scales::F32 { .. } => Vec::new(),
        };
        Self { codes, scales }
    }
}

/// A recipe together with everything else that decides the codes.
///
/// # Examples
///
/// ```
/// use spark_quant::{Cpu, Quantizer, Recipe};
/// let weights: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
/// let packed = Quantizer::new(Recipe::NVFP4).quantize(Cpu::detect(), &weights, &[2, 32], 1)?;
/// assert_eq!(packed.size_bytes(), 64 * 9 / 16 + 4); // 4.5 bits per weight and the tensor scale
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quantizer {
    /// Format and scales.
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
        cpu: Cpu,
        values: &[f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<PackedTensor, QuantError> {
        self.pack_tensor(cpu, values, shape, axis, Buffers::default())
    }

    /// The same in the memory of a tensor that is no longer needed, so that packing one tensor after
    /// another allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`]; `old` is gone either way.
    pub fn quantize_reusing(
        &self,
        cpu: Cpu,
        values: &[f32],
        shape: &[usize],
        axis: usize,
        old: PackedTensor,
    ) -> Result<PackedTensor, QuantError> {
        self.pack_tensor(cpu, values, shape, axis, Buffers::of(old))
    }

    fn pack_tensor(
        &self,
        cpu: Cpu,
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
            rotation.apply(cpu, rows.to_mut());
        }
        let shape_of_rows = plain::RowShape {
            n_rows: extent.n_rows(),
            depth: padded_depth,
        };
        let (codes, scales) = match self.pack(cpu, &rows, shape_of_rows, old) {
            Some(packed) => packed,
            None => self.pack_non_finite(cpu, rows.to_mut(), shape_of_rows, &extent)?,
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
        cpu: Cpu,
        values: &[f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<Vec<f32>, QuantError> {
        self.quantize(cpu, values, shape, axis)?.dequantize(cpu)
    }

    /// The same in place.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`]; `values` is then untouched.
    pub fn round_trip_in_place(
        &self,
        cpu: Cpu,
        values: &mut [f32],
        shape: &[usize],
        axis: usize,
    ) -> Result<(), QuantError> {
        self.quantize(cpu, values, shape, axis)?
            .dequantize_into(cpu, values)
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
        cpu: Cpu,
        rows: &[f32],
        shape: plain::RowShape,
        old: Buffers,
    ) -> Option<(Vec<u8>, Scales)> {
        use plain::Element;
        let (mut codes, scales) = match self.recipe {
            Recipe::Nvfp4 { formula, search } => nvfp4::quantize(cpu, rows, formula, search, old)?,
            Recipe::Mx { format, scale } => mx::quantize(cpu, rows, format, scale, old)?,
            Recipe::Int8 { granularity } => {
                plain::quantize(cpu, rows, shape, Element::Int8, granularity, old)?
            }
            Recipe::Fp8 {
                format,
                granularity,
            } => plain::quantize(cpu, rows, shape, Element::Float(format), granularity, old)?,
        };
        if let Rounding::Stochastic { seed } = self.rounding {
            stochastic::recode(self.recipe, rows, shape, &scales, seed, &mut codes);
        }
        Some((codes, scales))
    }

    /// Applies the policy for values that are not finite.
    fn pack_non_finite(
        &self,
        cpu: Cpu,
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
        let Some((codes, mut scales)) = self.pack(cpu, rows, shape, Buffers::default()) else {
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
