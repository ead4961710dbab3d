//! What a checkpoint is made of, whatever its layout.

use safetensors::Dtype;

use crate::error::QuantError;
use crate::packed::PackedTensor;

/// Key of this crate's entry in a safetensors header.
pub const METADATA_KEY: &str = "spark_quant";

/// Whose names and conventions a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// NVIDIA ModelOpt: NVFP4, MXFP4, MXFP8, FP8.
    ModelOpt,
    /// compressed-tensors (vLLM): NVFP4, MXFP4, MXFP6, MXFP8, FP8, INT8.
    CompressedTensors,
    /// `quant_method: fp8`, as of DeepSeek-V3: FP8 with a scale per block or per tensor.
    Fp8,
    /// The small float types of safetensors itself, logical shapes; every format of this crate.
    Native,
}

impl Layout {
    /// Name of the layout as reports show it; it does not change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelOpt => "modelopt",
            Self::CompressedTensors => "compressed-tensors",
            Self::Fp8 => "fp8",
            Self::Native => "native",
        }
    }
}

/// How the inputs of a layer are quantized when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Inputs {
    /// Not quantized: a layer takes its inputs as they come.
    #[default]
    Unquantized,
    /// With this calibrated scale, a multiplier.
    Calibrated(f32),
    /// With scales found while running.
    Dynamic,
}

/// A quantized weight of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Codes and scales of `[rows, depth]`, depth the last axis.
    pub packed: PackedTensor,
    /// Shape of the original; its product is rows times depth.
    pub shape: Vec<usize>,
    /// How this layer's inputs are quantized. The native layout and GGUF have no place for it.
    pub inputs: Inputs,
}

/// A tensor that is not quantized.
#[derive(Debug, Clone, PartialEq)]
pub struct Plain {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Shape. Held against type and data when it is written.
    pub shape: Vec<usize>,
    /// The elements, little-endian and row-major.
    pub data: Vec<u8>,
}

impl Plain {
    /// An f32 tensor.
    ///
    /// # Errors
    ///
    /// [`QuantError::ShapeOverflow`]; [`QuantError::LengthMismatch`] unless there are as many values
    /// as the shape says.
    pub fn from_f32(values: &[f32], shape: &[usize]) -> Result<Self, QuantError> {
        let overflow = || QuantError::ShapeOverflow {
            shape: shape.to_vec(),
        };
        let n_values = shape
            .iter()
            .try_fold(1usize, |n, &extent| n.checked_mul(extent))
            .ok_or_else(overflow)?;
        QuantError::check_length("values", values.len(), n_values)?;
        Ok(Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            data: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        })
    }

    /// The values of an F32, F16 or BF16 tensor, converted to f32 exactly; `None` for other types.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let pairs = || {
            self.data
                .as_chunks::<2>()
                .0
                .iter()
                .map(|&bytes| u16::from_le_bytes(bytes))
        };
        match self.dtype {
            Dtype::F32 => Some(
                self.data
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&bytes| f32::from_le_bytes(bytes))
                    .collect(),
            ),
            Dtype::F16 => Some(
                pairs()
                    .map(|bits| half::f16::from_bits(bits).to_f32())
                    .collect(),
            ),
            Dtype::BF16 => Some(
                pairs()
                    .map(|bits| half::bf16::from_bits(bits).to_f32())
                    .collect(),
            ),
            _ => None,
        }
    }
}

/// A tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Packed codes and scales.
    Quantized(Weight),
    /// Anything else, as it is.
    Plain(Plain),
}
