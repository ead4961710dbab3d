//! What the layouts share: taking tensors out of a file with the type and shape they must have.

use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;

use super::container::{File, Metadata, Stored};
use super::scheme::{Expected, InputRule, Scheme};
use super::{Entry, Inputs, Plain, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::{MiniFormat, e8m0};

/// A file being taken apart: every tensor is either part of a weight or plain.
pub(super) struct Reader<'f, 'a> {
    pub(super) file: &'f File<'a>,
    used: BTreeSet<&'f str>,
    entries: BTreeMap<String, Entry>,
}

/// A matrix of codes or scales.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) data: &'a [u8],
}

impl<'f, 'a> Reader<'f, 'a> {
    pub(super) fn new(file: &'f File<'a>) -> Self {
        Self {
            file,
            used: BTreeSet::new(),
            entries: BTreeMap::new(),
        }
    }

    /// A tensor if it is there; it then counts as used.
    pub(super) fn find(&mut self, name: &str) -> Option<(Stored<'a>, &'f [usize])> {
        let (key, (stored, shape)) = self.file.tensors.get_key_value(name)?;
        self.used.insert(key);
        Some((*stored, shape))
    }

    /// A tensor that another one needs.
    pub(super) fn need(
        &mut self,
        name: &str,
        needed_by: &str,
    ) -> Result<(Stored<'a>, &'f [usize]), QuantError> {
        self.find(name).ok_or_else(|| QuantError::MissingTensor {
            name: name.to_owned(),
            needed_by: needed_by.to_owned(),
        })
    }

    /// A matrix of bytes of one of the given types.
    pub(super) fn matrix(
        &mut self,
        name: &str,
        needed_by: &str,
        types: &[Dtype],
    ) -> Result<Matrix<'a>, QuantError> {
        let (stored, shape) = self.need(name, needed_by)?;
        if !types.contains(&stored.dtype) {
            return Err(wrong_tensor(
                name,
                "type",
                stored.dtype,
                format!("{types:?}"),
            ));
        }
        let &[rows, columns] = shape else {
            return Err(wrong_tensor(name, "shape", shape, "two dimensions"));
        };
        Ok(Matrix {
            rows,
            columns,
            data: stored.data,
        })
    }

    /// All values of a small float tensor; E8M0 codes as the powers of two they are.
    pub(super) fn floats(
        &mut self,
        name: &str,
        needed_by: &str,
    ) -> Result<(Vec<f32>, &'f [usize]), QuantError> {
        let (stored, shape) = self.need(name, needed_by)?;
        if stored.dtype == Dtype::F8_E8M0 {
            let values = stored.data.iter().map(|&code| e8m0::decode(code));
            return Ok((values.collect(), shape));
        }
        let plain = Plain {
            dtype: stored.dtype,
            shape: Vec::new(),
            data: stored.data.to_vec(),
        };
        let values = plain
            .to_f32()
            .ok_or_else(|| wrong_tensor(name, "type", stored.dtype, "F32, F16, BF16 or F8_E8M0"))?;
        Ok((values, shape))
    }

    /// A single value, shape `[]` or `[1]`.
    pub(super) fn scalar(&mut self, name: &str, needed_by: &str) -> Result<f32, QuantError> {
        let (values, shape) = self.floats(name, needed_by)?;
        match values.as_slice() {
            &[value] => Ok(value),
            _ => Err(wrong_tensor(name, "shape", shape, "one value")),
        }
    }

    /// A single positive finite value.
    pub(super) fn scale(&mut self, name: &str, needed_by: &str) -> Result<f32, QuantError> {
        let value = self.scalar(name, needed_by)?;
        if value.is_finite() && value > 0.0 {
            Ok(value)
        } else {
            let want = "finite scale above zero";
            Err(QuantError::Scale {
                index: 0,
                value,
                want,
            }
            .in_tensor(name))
        }
    }

    /// How a layer's inputs are treated, from the tensors that may hold their scale.
    fn inputs(
        &mut self,
        weight: &str,
        names: &[(String, Convention)],
        rule: InputRule,
        scheme: Option<&Scheme>,
    ) -> Result<Inputs, QuantError> {
        let found = names
            .iter()
            .find(|(name, _)| self.file.tensors.contains_key(name));
        let Some((name, convention)) = found else {
            return match (rule, names.first()) {
                (InputRule::Calibrated, Some((name, _))) => Err(QuantError::MissingTensor {
                    name: name.clone(),
                    needed_by: weight.to_owned(),
                }),
                (InputRule::Dynamic, _) => Ok(Inputs::Dynamic),
                (InputRule::Otherwise(_), _) if self.file.is_own => {
                    let dynamic = self.file.metadata.dynamic_inputs.contains(weight);
                    Ok(if dynamic {
                        Inputs::Dynamic
                    } else {
                        Inputs::Unquantized
                    })
                }
                (InputRule::Otherwise(inputs), _) => Ok(inputs),
                _ => Ok(Inputs::Unquantized),
            };
        };
        if let (InputRule::Unquantized | InputRule::Dynamic, Some(scheme)) = (rule, scheme) {
            let want = if rule == InputRule::Dynamic {
                "a calibrated scale, as the tensor is there"
            } else {
                "quantized inputs, as the tensor is there"
            };
            return Err(QuantError::Setting {
                method: scheme.method().to_owned(),
                field: format!("activations of `{weight}`"),
                value: format!("without `{name}`"),
                want: want.to_owned(),
            });
        }
        let value = self.scale(name, weight)?;
        Ok(Inputs::Calibrated(convention.multiplier(value)))
    }

    /// Takes the tensors of one weight out of the file, checks them against what is expected, and adds
    /// the weight.
    pub(super) fn weight(
        &mut self,
        names: &Names,
        expected: Expected,
        scheme: Option<&Scheme>,
    ) -> Result<(), QuantError> {
        let Expected { format, grid, .. } = expected;
        let (bits, want) = match format {
            PackedFormat::Nvfp4 | PackedFormat::Mx(MiniFormat::E2m1) => (4, Dtype::U8),
            PackedFormat::Mx(MiniFormat::E2m3 | MiniFormat::E3m2) => (6, Dtype::U8),
            PackedFormat::Int8 => (8, Dtype::I8),
            PackedFormat::Mx(_) | PackedFormat::Fp8(_) => (8, Dtype::F8_E4M3),
        };
        let codes_name = &names.codes;
        let (stored, _) = self.need(codes_name, &names.weight)?;
        if stored.dtype != want {
            return Err(wrong_tensor(
                codes_name,
                "type",
                stored.dtype,
                format!("{want:?} for {format}"),
            ));
        }
        let codes = self.matrix(codes_name, codes_name, &[want])?;
        let values = codes.columns.checked_mul(8).filter(|n| n % bits == 0);
        let depth = values
            .ok_or_else(|| wrong_tensor(codes_name, "shape", codes.columns, "whole values"))?
            / bits;
        let rows = codes.rows;
        let (scale, scale_shape) = self.need(&names.scale, codes_name)?;
        let blocks = |types: &[Dtype]| {
            let want = [rows, depth / format.block()];
            if !types.contains(&scale.dtype) {
                let want = format!("{types:?} for {format}");
                Err(wrong_tensor(&names.scale, "type", scale.dtype, want))
            } else if depth.is_multiple_of(format.block()) && scale_shape == want {
                Ok(scale.data.to_vec())
            } else {
                let want = format!("{want:?} for {rows} by {depth} weights");
                Err(wrong_tensor(&names.scale, "shape", scale_shape, want))
            }
        };
        let scales = match format {
            PackedFormat::Nvfp4 => {
                let block = blocks(&[Dtype::F8_E4M3])?;
                let Some((name, convention)) = &names.tensor_scale else {
                    return Err(unsupported_here("NVFP4", codes_name));
                };
                let stored = self.scale(name, codes_name)?;
                // The reciprocal of a reciprocal is not always the number one started from.
                let exact = self.file.metadata.tensor_scales.get(&names.weight);
                let exact = exact.map(|&bits| f32::from_bits(bits)).filter(|scale| {
                    *convention == Convention::Divisor
                        && (1.0 / scale).to_bits() == stored.to_bits()
                });
                let tensor = exact.unwrap_or_else(|| convention.multiplier(stored));
                Scales::Nvfp4 { block, tensor }
            }
            PackedFormat::Mx(_) => Scales::Mx(blocks(&[Dtype::U8, Dtype::F8_E8M0])?),
            PackedFormat::Fp8(_) | PackedFormat::Int8 => {
                let (values, shape) = self.floats(&names.scale, codes_name)?;
                let block = grid.rectangle(&names.scale, shape, [rows, depth])?;
                Scales::F32 { values, block }
            }
        };
        let inputs = self.inputs(&names.weight, &names.inputs, expected.inputs, scheme)?;
        self.zero_points(names)?;
        self.add(
            &names.weight,
            [rows, depth],
            format,
            codes.data,
            scales,
            inputs,
        )
    }

    /// Zero points that are all zero say nothing; others are refused.
    fn zero_points(&mut self, names: &Names) -> Result<(), QuantError> {
        let base = names.module();
        for name in ["weight_zero_point", "input_zero_point"] {
            let name = format!("{base}.{name}");
            let Some((stored, _)) = self.find(&name) else {
                continue;
            };
            if stored.data.iter().any(|&byte| byte != 0) {
                return Err(wrong_tensor(&name, "value", "not zero", "zeros only"));
            }
        }
        Ok(())
    }

    /// Adds a weight; its original shape comes from the metadata or is the matrix itself.
    pub(super) fn add(
        &mut self,
        name: &str,
        [rows, depth]: [usize; 2],
        format: PackedFormat,
        codes: &[u8],
        scales: Scales,
        inputs: Inputs,
    ) -> Result<(), QuantError> {
        let packed = PackedTensor::from_parts(&[rows, depth], 1, format, codes.to_vec(), scales)
            .map_err(|error| error.in_tensor(name))?;
        let packed = match self.file.metadata.rotations.get(name) {
            Some(&(size, seed)) => packed
                .with_rotation(size, seed)
                .map_err(|error| error.in_tensor(name))?,
            None => packed,
        };
        let shape = match self.file.metadata.shapes.get(name) {
            Some(shape) => {
                check_original(name, shape, [rows, depth])?;
                shape.clone()
            }
            None => vec![rows, depth],
        };
        self.entries.insert(
            name.to_owned(),
            Entry::Quantized(Weight {
                packed,
                shape,
                inputs,
            }),
        );
        Ok(())
    }

    /// Everything not used becomes plain, unless it belongs to something that was not understood.
    pub(super) fn finish(
        self,
        scheme: Option<&Scheme>,
    ) -> Result<BTreeMap<String, Entry>, QuantError> {
        let is_quantized = |entries: &BTreeMap<String, Entry>, name: &str| {
            matches!(entries.get(name), Some(Entry::Quantized(_)))
        };
        for (name, (stored, _)) in &self.file.tensors {
            if self.used.contains(name.as_str()) {
                continue;
            }
            if let Some((module, part)) = name.rsplit_once('.') {
                let weight = format!("{module}.weight");
                if PARTS.contains(&part) && is_quantized(&self.entries, &weight) {
                    let got = format!("`{part}` of a quantized weight");
                    return Err(wrong_tensor(name, "role", got, "one that its format has"));
                }
                if ORPHANS.contains(&part) && !self.file.tensors.contains_key(&weight) {
                    return Err(QuantError::MissingTensor {
                        name: weight,
                        needed_by: name.clone(),
                    });
                }
            }
            if scheme.is_some() && stored.dtype.bitsize() <= 8 && is_small_float(stored.dtype) {
                let want = "one beside scales that the layout names";
                return Err(wrong_tensor(name, "type", stored.dtype, want));
            }
        }
        if let Some(scheme) = scheme {
            scheme.check_plain(self.entries.len(), |module| {
                let name = format!("{module}.weight");
                self.file.tensors.contains_key(&name) && !is_quantized(&self.entries, &name)
            })?;
        }
        self.into_entries()
    }

    /// Everything not used becomes plain.
    pub(super) fn into_entries(mut self) -> Result<BTreeMap<String, Entry>, QuantError> {
        for (name, (stored, shape)) in &self.file.tensors {
            if self.used.contains(name.as_str()) {
                continue;
            }
            let plain = Plain {
                dtype: stored.dtype,
                shape: shape.clone(),
                data: stored.data.to_vec(),
            };
            if self
                .entries
                .insert(name.clone(), Entry::Plain(plain))
                .is_some()
            {
                return Err(wrong_tensor(
                    name,
                    "name",
                    "used by a quantized weight too",
                    "a name of its own",
                ));
            }
        }
        Ok(self.entries)
    }
}

/// Tensors beside a weight that change what it is; left over, they were not understood.
const PARTS: &[&str] = &[
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "weight_global_scale",
    "weight_packed",
    "weight_shape",
    "weight_g_idx",
    "input_scale",
    "input_global_scale",
    "pre_quant_scale",
    "svdquant_lora_a",
    "svdquant_lora_b",
];

/// Parts of a weight that are of no use without it.
const ORPHANS: &[&str] = &[
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "weight_global_scale",
];

fn is_small_float(dtype: Dtype) -> bool {
    !matches!(dtype, Dtype::BOOL | Dtype::U8 | Dtype::I8)
}

/// Whether a stored scale multiplies or divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    Multiplier,
    Divisor,
}

impl Convention {
    pub(super) fn multiplier(self, stored: f32) -> f32 {
        match self {
            Self::Multiplier => stored,
            Self::Divisor => 1.0 / stored,
        }
    }
}

/// Names that the tensors of one weight have in a layout.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The weight they stand for, `X.weight`.
    pub(super) weight: String,
    pub(super) codes: String,
    pub(super) scale: String,
    /// Name of the tensor scale, and which way round it is meant; only NVFP4 has one.
    pub(super) tensor_scale: Option<(String, Convention)>,
    /// Where the scale of calibrated inputs may be; the first is the usual place.
    pub(super) inputs: Vec<(String, Convention)>,
}

impl Names {
    /// Name of the module.
    pub(super) fn module(&self) -> &str {
        self.weight.strip_suffix(".weight").unwrap_or(&self.weight)
    }
}

impl Reader<'_, '_> {
    /// Reads a weight as the configuration says, or, without one, as its tensors suggest.
    pub(super) fn weight_of(
        &mut self,
        scheme: Option<&Scheme>,
        names: impl Fn(PackedFormat) -> Names,
        suggested: impl Fn() -> Result<Expected, QuantError>,
    ) -> Result<(), QuantError> {
        let Some(scheme) = scheme else {
            let expected = suggested()?;
            return self.weight(&names(expected.format), expected, None);
        };
        let module = names(PackedFormat::Int8).module().to_owned();
        let mut first_error = None;
        for expected in scheme.weights_of(&module)? {
            match self.weight(&names(expected.format), expected, Some(scheme)) {
                Ok(()) => return Ok(()),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// An error about a format whose parts a layout has no names for.
fn unsupported_here(format: &str, name: &str) -> QuantError {
    wrong_tensor(name, "format", format, "one of this layout")
}

/// Holds the shape that a weight is said to have against the matrix of its codes, whose size exists.
fn check_original(
    name: &str,
    shape: &[usize],
    [rows, depth]: [usize; 2],
) -> Result<(), QuantError> {
    let product = shape
        .iter()
        .try_fold(1usize, |n, &extent| n.checked_mul(extent));
    if product.is_some() && product == rows.checked_mul(depth) {
        return Ok(());
    }
    let want = format!("{rows} times {depth} values");
    Err(wrong_tensor(name, "original shape", shape, want))
}

/// The matrix a weight is stored as; refuses what no layout but the native one can say.
pub(super) fn matrix_of(
    name: &str,
    weight: &Weight,
    metadata: &mut Metadata,
) -> Result<[usize; 2], QuantError> {
    let packed = &weight.packed;
    if packed.axis() + 1 != packed.shape().len() {
        let format = format!(
            "blocks along axis {} of {:?}",
            packed.axis(),
            packed.shape()
        );
        return Err(QuantError::Unsupported {
            operation: "writing",
            format,
        });
    }
    let (rows, depth) = (packed.n_rows(), packed.depth());
    QuantError::check_multiple("depth", depth, packed.format().block())?;
    check_original(name, &weight.shape, [rows, depth])?;
    if weight.shape != [rows, depth] {
        metadata
            .shapes
            .insert(name.to_owned(), weight.shape.clone());
    }
    Ok([rows, depth])
}

/// Refuses weights that are rotated, in layouts that cannot say so.
pub(super) fn refuse_rotation(weight: &Weight) -> Result<(), QuantError> {
    match weight.packed.rotation() {
        Some(rotation) => {
            let format = format!("weights rotated by runs of {}", rotation.size());
            Err(QuantError::Unsupported {
                operation: "writing in this layout",
                format,
            })
        }
        None => Ok(()),
    }
}

/// Refuses a layout that has no place for a format.
pub(super) fn unsupported(operation: &'static str, weight: &Weight) -> QuantError {
    QuantError::Unsupported {
        operation,
        format: weight.packed.format().to_string(),
    }
}

/// Values of f32 scales; nothing for other kinds.
pub(super) fn scale_values(scales: &Scales) -> Option<&[f32]> {
    match scales {
        Scales::F32 { values, .. } => Some(values),
        _ => None,
    }
}
