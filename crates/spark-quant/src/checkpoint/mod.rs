//! Quantized weights in files that other programs read.
//!
//! ```text
//! file --container--> named tensors --layout--> Checkpoint { name -> packed weight or plain tensor }
//!
//! ModelOpt              X.weight U8 [N, K/2]   X.weight_scale F8_E4M3 [N, K/16]
//!   NVFP4               X.weight_scale_2 F32: the tensor scale, a multiplier
//! compressed-tensors    X.weight_packed U8     X.weight_scale F8_E4M3
//!   NVFP4               X.weight_global_scale F32 [1]: its reciprocal, a divisor
//! native                X.weight F4, F6_*, F8_* of the logical shape, X.weight_scale, X.weight_tensor_scale
//! GGUF (read only)      blocks of 32 or 64 values with their scales inside
//! ```
//!
//! Mixing the two conventions for the tensor scale gives garbage without any other sign, so each layout
//! has its own module and each reads only its own names. Reading a file that this crate wrote gives the
//! same bits. What the layouts cannot say (shapes of more than two dimensions, exact tensor scales behind
//! a reciprocal) lies in the file's metadata under [`METADATA_KEY`], which other programs ignore.
//!
//! Sources: NVIDIA ModelOpt's exported Hugging Face checkpoints, compressed-tensors 0.20, safetensors
//! 0.8, ggml. Deliberately absent: writing GGUF, zero points, shared 16x16 scales of training.

mod compressed_tensors;
pub mod config;
mod container;
pub mod gguf;
mod modelopt;
mod native;
mod parts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::Dtype;

use crate::error::QuantError;
use crate::packed::PackedTensor;

use container::{File, Metadata, Outgoing};

/// Key of this crate's entry in a safetensors header.
pub const METADATA_KEY: &str = "spark_quant";

/// Whose names and conventions a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// NVIDIA ModelOpt: NVFP4, MXFP4, MXFP8, FP8.
    ModelOpt,
    /// compressed-tensors (vLLM): NVFP4, MXFP4, MXFP8, FP8, INT8.
    CompressedTensors,
    /// The small float types of safetensors itself, logical shapes; every format of this crate.
    Native,
}

impl Layout {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelOpt => "modelopt",
            Self::CompressedTensors => "compressed-tensors",
            Self::Native => "native",
        }
    }
}

/// A quantized weight of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Codes and scales of `[rows, depth]`, depth the last axis.
    pub packed: PackedTensor,
    /// Shape of the original; its product is rows times depth.
    pub shape: Vec<usize>,
    /// Scale for this layer's inputs, as a multiplier, if they were calibrated.
    pub input_scale: Option<f32>,
}

/// A tensor that is not quantized.
#[derive(Debug, Clone, PartialEq)]
pub struct Plain {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    /// Little-endian elements.
    pub data: Vec<u8>,
}

impl Plain {
    /// An f32 tensor.
    pub fn from_f32(values: &[f32], shape: &[usize]) -> Self {
        let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            data,
        }
    }

    /// The values of an F32, F16 or BF16 tensor, widened exactly; nothing for other types.
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

/// Named tensors, quantized and not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoint {
    /// Tensors by name; quantized ones by the name of the weight they stand for.
    pub entries: BTreeMap<String, Entry>,
}

impl Checkpoint {
    /// Reads a safetensors file from memory and says which layout it has. A file without quantized
    /// tensors reads as [`Layout::Native`].
    ///
    /// # Errors
    ///
    /// [`QuantError::Safetensors`] for a damaged or lying header; [`QuantError::TensorLayout`],
    /// [`QuantError::MissingTensor`] or [`QuantError::InTensor`] if tensors do not fit together, a scale
    /// is zero, NaN or infinite, or an FP8 weight is NaN.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, Layout), QuantError> {
        let file = File::parse(bytes)?;
        let layout = Self::layout_of(&file);
        let entries = match layout {
            Layout::ModelOpt => modelopt::read(&file)?,
            Layout::CompressedTensors => compressed_tensors::read(&file)?,
            Layout::Native => native::read(&file)?,
        };
        Ok((Self { entries }, layout))
    }

    /// Reads a safetensors file.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::from_bytes`]; [`QuantError::Io`] if the file cannot be read or is no regular
    /// file.
    pub fn read(path: &Path) -> Result<(Self, Layout), QuantError> {
        let bytes = container::read_file(path)?;
        Self::from_bytes(&bytes)
    }

    /// The bytes of a safetensors file in `layout`.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] if the layout has no place for a format or a rotation,
    /// [`QuantError::NotAMultiple`] if it has none for a short last block.
    pub fn to_bytes(&self, layout: Layout) -> Result<Vec<u8>, QuantError> {
        let (tensors, metadata) = self.outgoing(layout)?;
        let mut bytes = Vec::new();
        container::write_to(&mut bytes, tensors, &metadata)
            .map_err(QuantError::io(Path::new("memory")))?;
        Ok(bytes)
    }

    /// Writes a safetensors file in `layout`: first under another name, then renamed, so that `path`
    /// is either the old file or the whole new one.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::to_bytes`]; [`QuantError::Io`] if writing fails.
    pub fn write(&self, path: &Path, layout: Layout) -> Result<(), QuantError> {
        let (tensors, metadata) = self.outgoing(layout)?;
        container::write_file(path, |file| container::write_to(file, tensors, &metadata))
    }

    fn outgoing(&self, layout: Layout) -> Result<(Vec<Outgoing<'_>>, Metadata), QuantError> {
        let (mut tensors, mut metadata) = (Vec::new(), Metadata::default());
        for (name, entry) in &self.entries {
            match entry {
                Entry::Plain(plain) => {
                    tensors.push(Outgoing::new(
                        name.clone(),
                        plain.dtype,
                        plain.shape.clone(),
                        plain.data.as_slice(),
                    ));
                }
                Entry::Quantized(weight) => {
                    let write = match layout {
                        Layout::ModelOpt => modelopt::write,
                        Layout::CompressedTensors => compressed_tensors::write,
                        Layout::Native => native::write,
                    };
                    let before = tensors.len();
                    write(name, weight, &mut tensors, &mut metadata)
                        .map_err(|error| error.in_tensor(name))?;
                    debug_assert!(tensors.len() > before, "a weight is at least one tensor");
                }
            }
        }
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let name = pair[0].name.clone();
            let (got, want) = ("used twice".to_owned(), "a name of its own".to_owned());
            return Err(QuantError::TensorLayout {
                name,
                what: "name",
                got,
                want,
            });
        }
        Ok((tensors, metadata))
    }

    fn layout_of(file: &File<'_>) -> Layout {
        if file.metadata.layout == Some(Layout::Native.name().to_owned()) {
            return Layout::Native;
        }
        let by_scale = |name: &str| {
            name.strip_suffix("_scale")
                .is_some_and(|weight| file.tensors.contains_key(weight))
        };
        if file.metadata.layout == Some(Layout::CompressedTensors.name().to_owned())
            || file.tensors.keys().any(|name| {
                name.ends_with(".weight_packed") || name.ends_with(".weight_global_scale")
            })
        {
            Layout::CompressedTensors
        } else if file.tensors.keys().any(|name| by_scale(name)) {
            Layout::ModelOpt
        } else {
            Layout::Native
        }
    }

    /// Bytes of codes, scales and plain tensors.
    pub fn size_bytes(&self) -> usize {
        let size = |entry: &Entry| match entry {
            Entry::Quantized(weight) => weight.packed.size_bytes(),
            Entry::Plain(plain) => plain.data.len(),
        };
        self.entries.values().map(size).sum()
    }
}
