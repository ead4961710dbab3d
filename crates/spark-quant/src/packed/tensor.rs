//! [`PackedTensor`]: a quantized tensor that knows its shape and axis.

use std::borrow::Cow;

use super::format::{PackedFormat, Scales};
use crate::block::plain::{self, Element};
use crate::block::rows::{Extent, scatter};
use crate::block::{Rotation, mx, nvfp4};
use crate::error::QuantError;
use crate::scalar::slice::STREAM_BYTES;
use crate::simd::ExecutionPolicy;
use crate::threads::{Granule2, for_parts, zip_parts_from_2};

/// A quantized tensor: shape, axis, codes, scales.
///
/// # Examples
///
/// ```
/// use spark_quant::{ExecutionPolicy, PackedFormat, Quantizer, Recipe};
///
/// let weights = [0.25; 3 * 32];
/// let packed = Quantizer::new(Recipe::NVFP4).quantize(ExecutionPolicy::detect(), &weights, &[3, 32], 1)?;
/// assert_eq!(packed.format(), PackedFormat::Nvfp4);
/// assert_eq!((packed.n_rows(), packed.depth()), (3, 32));
/// assert_eq!(packed.codes().len(), 3 * 32 / 2); // four bits each
/// let back = packed.dequantize(ExecutionPolicy::detect())?;
/// assert!(back.iter().all(|value| (value - 0.25).abs() < 1e-3));
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PackedTensor {
    shape: Vec<usize>,
    axis: usize,
    format: PackedFormat,
    codes: Vec<u8>,
    scales: Scales,
    rotation: Option<Rotation>,
    /// Whether every scale can be used in a dot product.
    usable: bool,
}

impl PackedTensor {
    /// Puts together parts whose sizes are known to agree.
    pub(crate) fn assemble(
        shape: &[usize],
        axis: usize,
        format: PackedFormat,
        codes: Vec<u8>,
        scales: Scales,
        rotation: Option<Rotation>,
    ) -> Self {
        let usable = scales.find_unusable().is_none();
        Self {
            shape: shape.to_vec(),
            axis,
            format,
            codes,
            scales,
            rotation,
            usable,
        }
    }

    /// A tensor from codes and scales laid out as this module describes.
    ///
    /// # Errors
    ///
    /// [`QuantError::ShapeOverflow`] or [`QuantError::Axis`] for an impossible shape;
    /// [`QuantError::LengthMismatch`] if codes or scales do not follow from it;
    /// [`QuantError::NotFinite`] if an FP8 code is NaN or infinite;
    /// [`QuantError::Scale`] if a scale is NaN, infinite, negative, or (where it is f32) zero;
    /// [`QuantError::Unsupported`] if the scales are not of the format's kind.
    pub fn from_parts(
        shape: &[usize],
        axis: usize,
        format: PackedFormat,
        codes: Vec<u8>,
        scales: Scales,
    ) -> Result<Self, QuantError> {
        let extent = Extent::new(shape, axis)?;
        let padded = extent.depth.next_multiple_of(format.block());
        QuantError::check_length(
            "codes",
            codes.len(),
            extent.n_rows() * padded / 8 * format.code_bits()
                + extent.n_rows() * padded % 8 * format.code_bits() / 8,
        )?;
        let n_blocks = extent.n_rows() * (padded / format.block());
        match (&scales, format) {
            (Scales::Nvfp4 { block, .. }, PackedFormat::Nvfp4) => {
                QuantError::check_length("block scales", block.len(), n_blocks)?;
            }
            (Scales::Mx(scales), PackedFormat::Mx(_)) => {
                QuantError::check_length("block scales", scales.len(), n_blocks)?;
            }
            (Scales::F32 { values, block }, PackedFormat::Int8 | PackedFormat::Fp8(_))
                if block[0] > 0 && block[1] > 0 =>
            {
                let want = extent.n_rows().div_ceil(block[0]) * extent.depth.div_ceil(block[1]);
                QuantError::check_length("scales", values.len(), want)?;
            }
            _ => {
                return Err(QuantError::Unsupported {
                    operation: "scales of this kind",
                    format: format.to_string(),
                });
            }
        }
        if let PackedFormat::Fp8(element) = format
            && element.spec().bits() != 8
        {
            return Err(QuantError::Unsupported {
                operation: "FP8 packing",
                format: element.to_string(),
            });
        }
        if let PackedFormat::Fp8(element) | PackedFormat::Mx(element) = format
            && element.spec().bits() == 8
            && let Some(index) = codes
                .iter()
                .position(|&code| !element.decode(code).is_finite())
        {
            return Err(QuantError::NotFinite {
                index,
                value: element.decode(codes[index]),
            });
        }
        match scales.find_unusable() {
            Some(error) => Err(error),
            None => Ok(Self::assemble(shape, axis, format, codes, scales, None)),
        }
    }

    /// Extents of the tensor.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Axis along which blocks run.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// What the bytes mean.
    pub fn format(&self) -> PackedFormat {
        self.format
    }

    /// Codes, rows of whole blocks.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Scales that the codes are multiplied by, laid out as [`Scales`] says.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The same codes and scales, read as rotated before they were quantized.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] or [`QuantError::NotAMultiple`] if runs of `size` do not exist or do
    /// not divide the axis.
    pub fn with_rotation(self, size: usize, seed: u64) -> Result<Self, QuantError> {
        let rotation = Rotation::new(size, seed)?;
        QuantError::check_multiple("axis length", self.depth(), size)?;
        Ok(Self {
            rotation: Some(rotation),
            ..self
        })
    }

    /// Codes and scales, taken out.
    pub fn into_parts(self) -> (Vec<u8>, Scales) {
        (self.codes, self.scales)
    }

    /// Rotation applied before quantizing.
    pub fn rotation(&self) -> Option<Rotation> {
        self.rotation
    }

    /// Number of runs along the axis.
    pub fn n_rows(&self) -> usize {
        self.extent().n_rows()
    }

    /// Values per run along the axis, which is the depth of a matmul.
    pub fn depth(&self) -> usize {
        self.shape[self.axis]
    }

    /// Number of values, without the padding of the last blocks.
    pub fn n_values(&self) -> usize {
        self.extent().n_values()
    }

    /// Bytes of codes and scales.
    pub fn size_bytes(&self) -> usize {
        self.codes.len() + self.scales.size_bytes()
    }

    /// Block scales in the 128x4 layout of tensor cores, for NVFP4 and MX.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for formats with f32 scales.
    pub fn swizzled_scales(&self) -> Result<Vec<u8>, QuantError> {
        let (Scales::Nvfp4 { block: scales, .. } | Scales::Mx(scales)) = &self.scales else {
            return Err(QuantError::Unsupported {
                operation: "swizzling scales",
                format: self.format.to_string(),
            });
        };
        let rows = self.n_rows();
        super::swizzle::swizzle(scales, rows, scales.len().checked_div(rows).unwrap_or(0))
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            outer: self.shape[..self.axis].iter().product(),
            depth: self.shape[self.axis],
            inner: self.shape[self.axis + 1..].iter().product(),
        }
    }

    /// Values per run with padding.
    pub(crate) fn padded_depth(&self) -> usize {
        self.depth().next_multiple_of(self.format.block())
    }

    /// Refuses scales that a dot product cannot use.
    pub(crate) fn check_usable(&self) -> Result<(), QuantError> {
        if self.usable {
            Ok(())
        } else {
            self.scales.find_unusable().map_or(Ok(()), Err)
        }
    }

    /// The values, row-major of [`PackedTensor::shape`].
    ///
    /// # Errors
    ///
    /// Does not fail for tensors of this crate; the type leaves room for storage that can.
    pub fn dequantize(&self, policy: ExecutionPolicy) -> Result<Vec<f32>, QuantError> {
        let mut values = vec![0.0; self.n_values()];
        self.dequantize_into(policy, &mut values)?;
        Ok(values)
    }

    /// The same into a caller's buffer.
    ///
    /// # Conversion
    ///
    /// `code * scale` in f32, one rounding; for NVFP4 `code * (block scale * tensor scale)`. NaN scales
    /// give NaN. A rotation is undone, which rounds once per step of its butterflies.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] if `values` has another length; it is then untouched.
    pub fn dequantize_into(
        &self,
        policy: ExecutionPolicy,
        values: &mut [f32],
    ) -> Result<(), QuantError> {
        let extent = self.extent();
        QuantError::check_length("values", values.len(), extent.n_values())?;
        let padded = self.padded_depth();
        if extent.is_contiguous(padded) {
            self.dequantize_rows(policy, values);
        } else {
            let mut rows = vec![0.0; extent.n_rows() * padded];
            self.dequantize_rows(policy, &mut rows);
            scatter(&rows, &extent, padded, values);
        }
        Ok(())
    }

    /// Rows of whole blocks, rotation undone.
    fn dequantize_rows(&self, policy: ExecutionPolicy, rows: &mut [f32]) {
        let stream = size_of_val(rows) > STREAM_BYTES && self.rotation.is_none();
        match &self.scales {
            Scales::Nvfp4 { block, tensor } => {
                let granule = Granule2 {
                    src: 256,
                    dst: [128, 16],
                };
                zip_parts_from_2(
                    policy,
                    &self.codes,
                    block,
                    rows,
                    granule,
                    |codes, scales, values| {
                        policy.run(nvfp4::Dequantize {
                            codes,
                            scales,
                            tensor: *tensor,
                            values,
                            stream,
                        });
                    },
                );
            }
            Scales::Mx(scales) => {
                let PackedFormat::Mx(format) = self.format else {
                    return;
                };
                let granule = Granule2 {
                    src: mx::BLOCK,
                    dst: [mx::code_bytes(format, mx::BLOCK), 1],
                };
                zip_parts_from_2(
                    policy,
                    &self.codes,
                    scales,
                    rows,
                    granule,
                    |codes, scales, values| {
                        policy.run(mx::Dequantize {
                            format,
                            codes,
                            scales,
                            values,
                            stream,
                        });
                    },
                );
            }
            Scales::F32 {
                values: scales,
                block,
            } => self.dequantize_plain(policy, scales, *block, rows, stream),
        }
        if let Some(rotation) = self.rotation {
            rotation.undo(policy, rows);
        }
    }

    fn dequantize_plain(
        &self,
        policy: ExecutionPolicy,
        scales: &[f32],
        block: [usize; 2],
        rows: &mut [f32],
        stream: bool,
    ) {
        let depth = self.depth();
        if depth == 0 {
            return;
        }
        let element = match self.format {
            PackedFormat::Fp8(format) => Element::Float(format),
            _ => Element::Int8,
        };
        let n_across = depth.div_ceil(block[1]);
        let bytes = size_of_val(rows);
        for_parts(policy, rows, depth, bytes, |first_row, rows| {
            for (i, values) in rows.chunks_exact_mut(depth).enumerate() {
                let row = first_row + i;
                let codes = &self.codes[row * depth..(row + 1) * depth];
                let scales = &scales[row / block[0] * n_across..][..n_across];
                let runs = codes
                    .chunks(block[1])
                    .zip(values.chunks_mut(block[1]))
                    .zip(scales);
                for ((codes, values), &scale) in runs {
                    policy.run(plain::Dequantize {
                        codes,
                        values,
                        scale,
                        element,
                        stream,
                    });
                }
            }
        });
    }

    /// Codes of row `row`, one per byte, padding left out.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row_codes(&self, row: usize) -> Cow<'_, [u8]> {
        assert!(row < self.n_rows(), "row {row} of {}", self.n_rows());
        let row_bytes = self.padded_depth() * self.format.code_bits() / 8;
        let bytes = &self.codes[row * row_bytes..(row + 1) * row_bytes];
        match self.format.code_bits() {
            8 => Cow::Borrowed(&bytes[..self.depth()]),
            4 => Cow::Owned(
                (0..self.depth())
                    .map(|i| bytes[i / 2] >> (4 * (i % 2)) & 15)
                    .collect(),
            ),
            _ => {
                let mut codes = vec![0; self.padded_depth()];
                super::bits::unpack_sixes(bytes, &mut codes);
                codes.truncate(self.depth());
                Cow::Owned(codes)
            }
        }
    }
}
