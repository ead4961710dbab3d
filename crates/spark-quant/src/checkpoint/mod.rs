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
//! fp8                   X.weight F8_E4M3        X.weight_scale_inv F32 [N/128, K/128]
//!
//! folder   config.json, hf_quant_config.json --> scheme: layout, and what every weight must be
//!          model.safetensors, or the files of model.safetensors.index.json --> one set of tensors
//! ```
//!
//! Mixing the two conventions for the tensor scale gives garbage without any other sign, so each layout
//! has its own module and each reads only its own names. In a folder the configuration's `quant_method`
//! says which, and tensors that contradict it are refused; a file alone is judged by its own metadata,
//! then by names that only one layout has. Reading a file that this crate wrote gives the same weights. What
//! the layouts cannot say (shapes of more than two dimensions, exact tensor scales behind a reciprocal)
//! lies in the file's metadata under [`METADATA_KEY`], which other programs ignore.
//!
//! Sources: ModelOpt 0.47, compressed-tensors 0.20, DeepSeek-V3's FP8, safetensors 0.8, ggml.
//! Deliberately absent: writing GGUF, zero points, sparse weights, shared 16x16 scales of training.

mod compressed_tensors;
pub mod config;
mod container;
mod entry;
mod folder;
mod fp8;
pub mod gguf;
mod modelopt;
mod native;
mod parts;
mod scheme;

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use safetensors::Dtype;

use crate::error::QuantError;

pub use entry::{Entry, Inputs, Layout, METADATA_KEY, Plain, Weight};

use container::{File, Metadata, Outgoing, Writable};
use scheme::{Grid, Scheme};

/// Named tensors, quantized and not.
///
/// # Examples
///
/// ```
/// use spark_quant::checkpoint::{Checkpoint, Entry, Inputs, Layout, Weight};
/// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
///
/// let packed = Quantizer::new(Recipe::NVFP4).quantize(ExecutionPolicy::detect(), &[0.5; 64], &[2, 32], 1)?;
/// let weight = Weight { packed, shape: vec![2, 32], inputs: Inputs::Dynamic };
/// let mut checkpoint = Checkpoint::default();
/// checkpoint.entries.insert("fc.weight".to_owned(), Entry::Quantized(weight));
/// let bytes = checkpoint.to_bytes(Layout::CompressedTensors)?;
/// let (read, layout) = Checkpoint::from_bytes(&bytes)?;
/// assert_eq!(layout, Layout::CompressedTensors);
/// assert!(read.entries.contains_key("fc.weight"));
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoint {
    /// Tensors by name; quantized ones by the name of the weight they stand for.
    pub entries: BTreeMap<String, Entry>,
}

impl Checkpoint {
    /// Reads a safetensors file from memory and says which layout it has: the one it names in its own
    /// metadata, or else the one that its names and types suggest. FP8 and MXFP8 have the same names in
    /// ModelOpt and compressed-tensors, and the same values. A file without quantized tensors reads as
    /// [`Layout::Native`].
    ///
    /// # Errors
    ///
    /// [`QuantError::Safetensors`] for a damaged or lying header; [`QuantError::TensorLayout`],
    /// [`QuantError::MissingTensor`] or [`QuantError::InTensor`] if tensors do not fit together, a scale
    /// is zero, NaN or infinite, or an FP8 weight is NaN.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, Layout), QuantError> {
        let file = File::parse(bytes)?;
        let layout = Self::layout_of(&file);
        Self::from_file(&file, layout, None)
    }

    /// Reads a safetensors file from memory as a `quantization_config` says.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::from_bytes`]; [`QuantError::Setting`] for a setting that is not known, is not
    /// read here, or contradicts the tensors.
    pub fn from_bytes_as(
        bytes: &[u8],
        config: &serde_json::Value,
    ) -> Result<(Self, Layout), QuantError> {
        let scheme = Scheme::parse(config)?;
        Self::from_file(&File::parse(bytes)?, scheme.layout, Some(&scheme))
    }

    fn from_file(
        file: &File<'_>,
        layout: Layout,
        scheme: Option<&Scheme>,
    ) -> Result<(Self, Layout), QuantError> {
        if let (Some(scheme), Some(own)) = (scheme, &file.metadata.layout)
            && own != layout.name()
        {
            return Err(QuantError::Setting {
                method: scheme.method().to_owned(),
                field: "quant_method".to_owned(),
                value: format!("{:?}", layout.name()),
                want: format!("`{own}`, the layout that the tensors' file names"),
            });
        }
        let entries = match layout {
            Layout::ModelOpt => modelopt::read(file, scheme)?,
            Layout::CompressedTensors => compressed_tensors::read(file, scheme)?,
            Layout::Fp8 => fp8::read(file, scheme)?,
            Layout::Native => native::read(file)?,
        };
        Ok((Self { entries }, layout))
    }

    /// Reads a safetensors file alone, without the configuration that may lie beside it; a whole
    /// checkpoint is read by [`Checkpoint::read_folder`].
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::from_bytes`]; [`QuantError::Io`] if the file cannot be read or is no regular
    /// file.
    pub fn read(path: &Path) -> Result<(Self, Layout), QuantError> {
        let bytes = container::read_file(path)?;
        Self::from_bytes(&bytes)
    }

    /// The bytes of a safetensors file in `layout`. What [`Checkpoint::from_bytes`] would not read is
    /// not written.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] if the layout has no place for a format or a rotation,
    /// [`QuantError::NotAMultiple`] if it has none for a short last block; [`QuantError::TensorLayout`]
    /// for a tensor whose data do not fit its type and shape, a weight whose shape does not fit its
    /// codes, and names that the layout uses otherwise; all that reading refuses, such as the
    /// [`QuantError::Scale`] of inputs that is no finite number above zero.
    pub fn to_bytes(&self, layout: Layout) -> Result<Vec<u8>, QuantError> {
        let file = self.outgoing(layout)?;
        let mut bytes = Vec::new();
        file.write_to(&mut bytes)
            .map_err(QuantError::io(Path::new("memory")))?;
        Ok(bytes)
    }

    /// Writes a safetensors file in `layout`: first under another name, then renamed, so that `path`
    /// is either the old file or the whole new one.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::to_bytes`], before the file is touched; [`QuantError::Io`] if writing fails.
    pub fn write(&self, path: &Path, layout: Layout) -> Result<(), QuantError> {
        let file = self.outgoing(layout)?;
        container::write_file(path, |out| file.write_to(out))
    }

    fn outgoing(&self, layout: Layout) -> Result<Writable<'_>, QuantError> {
        let (file, metadata) = self.unchecked(layout)?;
        self.check_reads_back(&file, &metadata, layout)?;
        Ok(file)
    }

    /// The same for a folder, whose configuration has to agree with the tensors.
    fn outgoing_with(
        &self,
        layout: Layout,
        config: &serde_json::Value,
    ) -> Result<Writable<'_>, QuantError> {
        let (file, metadata) = self.unchecked(layout)?;
        let scheme = Scheme::parse(config)?;
        Self::from_file(&file.as_file(&metadata), scheme.layout, Some(&scheme))?;
        Ok(file)
    }

    fn unchecked(&self, layout: Layout) -> Result<(Writable<'_>, Metadata), QuantError> {
        let (mut tensors, mut metadata) = (Vec::new(), Metadata::default());
        if layout == Layout::Fp8 {
            self.check_fp8_inputs()?;
            metadata.fp8_block = self.fp8_block()?;
        }
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
                        Layout::Fp8 => fp8::write,
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
        Ok((Writable::new(tensors, &metadata)?, metadata))
    }

    /// Refuses what reading would refuse, by reading it: alone, or as the configuration says that goes
    /// with it.
    fn check_reads_back(
        &self,
        file: &Writable<'_>,
        metadata: &Metadata,
        layout: Layout,
    ) -> Result<(), QuantError> {
        let Err(alone) = self.check_reads_alone(file, metadata) else {
            return Ok(());
        };
        // Only the configuration says how groups, and blocks of other sizes than 128, are cut.
        let is_cut = |weight| matches!(Grid::of(weight), Grid::Group(_) | Grid::Block(_));
        if !self.quantized().any(|(_, weight)| is_cut(weight)) {
            return Err(alone);
        }
        let config = self.quantization_config(layout);
        let scheme = config.and_then(|config| Scheme::parse(&config).ok());
        let file = file.as_file(metadata);
        let with_config = scheme.map(|scheme| Self::from_file(&file, scheme.layout, Some(&scheme)));
        match with_config {
            Some(Ok(_)) => Ok(()),
            _ => Err(alone),
        }
    }

    /// Reads one module after the other, so that no more than one of them is in memory twice: only
    /// tensors of one module can be parts of one weight. A plain tensor that is alone in its module
    /// can be none, whatever its data.
    fn check_reads_alone(
        &self,
        file: &Writable<'_>,
        metadata: &Metadata,
    ) -> Result<(), QuantError> {
        let mut file = file.as_file(metadata);
        let layout = Self::layout_of(&file);
        let mut modules: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
        for (name, tensor) in std::mem::take(&mut file.tensors) {
            let module = name.rsplit_once('.').map_or("", |(module, _)| module);
            let tensors = modules.entry(module.to_owned()).or_default();
            tensors.insert(name, tensor);
        }
        let mut weights_back = BTreeSet::new();
        for tensors in modules.into_values() {
            let is_one = tensors.len() == 1;
            file.tensors = tensors;
            if is_one {
                for (tensor, _) in file.tensors.values_mut() {
                    tensor.data = &[];
                }
            }
            let (read, _) = Self::from_file(&file, layout, None)?;
            for (name, entry) in read.entries {
                if matches!(entry, Entry::Quantized(_)) {
                    weights_back.insert(name);
                }
            }
        }
        let is_lost = |entry: &(&String, &Entry)| {
            matches!(entry.1, Entry::Quantized(_)) && !weights_back.contains(entry.0)
        };
        match self.entries.iter().find(is_lost) {
            None => Ok(()),
            Some((name, _)) => Err(QuantError::TensorLayout {
                name: name.clone(),
                what: "role",
                got: format!("that of a plain tensor in the {} layout", layout.name()),
                want: "a weight: another tensor has a name of that layout".to_owned(),
            }),
        }
    }

    fn layout_of(file: &File<'_>) -> Layout {
        for layout in [Layout::Native, Layout::CompressedTensors, Layout::Fp8] {
            if file.metadata.layout.as_deref() == Some(layout.name()) {
                return layout;
            }
        }
        let has = |name: &str| file.tensors.contains_key(name);
        let weight_of_scale = |name: &str| {
            let weight = name.strip_suffix("_scale").filter(|weight| has(weight));
            weight.map(|weight| file.tensors[weight].0.dtype)
        };
        let is_compressed = |name: &String| {
            name.ends_with(".weight_packed")
                || name.ends_with(".weight_global_scale")
                || weight_of_scale(name) == Some(Dtype::I8)
        };
        if file.tensors.keys().any(is_compressed) {
            Layout::CompressedTensors
        } else if file.tensors.keys().any(|name| name.ends_with(fp8::INVERSE)) {
            Layout::Fp8
        } else if file
            .tensors
            .keys()
            .any(|name| weight_of_scale(name).is_some())
        {
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
