//! What the layouts share: taking tensors out of a file with the type and shape they must have.

use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;

use super::container::{File, Metadata, Stored};
use super::{Entry, Plain, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};

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

pub(super) fn wrong(
    name: &str,
    what: &'static str,
    got: impl std::fmt::Debug,
    want: impl Into<String>,
) -> QuantError {
    QuantError::TensorLayout {
        name: name.to_owned(),
        what,
        got: format!("{got:?}"),
        want: want.into(),
    }
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
            return Err(wrong(name, "type", stored.dtype, format!("{types:?}")));
        }
        let &[rows, columns] = shape else {
            return Err(wrong(name, "shape", shape, "two dimensions"));
        };
        Ok(Matrix {
            rows,
            columns,
            data: stored.data,
        })
    }

    /// All values of a small float tensor.
    pub(super) fn floats(
        &mut self,
        name: &str,
        needed_by: &str,
    ) -> Result<(Vec<f32>, &'f [usize]), QuantError> {
        let (stored, shape) = self.need(name, needed_by)?;
        let plain = Plain {
            dtype: stored.dtype,
            shape: Vec::new(),
            data: stored.data.to_vec(),
        };
        let values = plain
            .to_f32()
            .ok_or_else(|| wrong(name, "type", stored.dtype, "F32, F16 or BF16"))?;
        Ok((values, shape))
    }

    /// A single value, shape `[]` or `[1]`.
    pub(super) fn scalar(&mut self, name: &str, needed_by: &str) -> Result<f32, QuantError> {
        let (values, shape) = self.floats(name, needed_by)?;
        match values.as_slice() {
            &[value] => Ok(value),
            _ => Err(wrong(name, "shape", shape, "one value")),
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

    /// The input scale `name`, if the file has one, through `convert`.
    pub(super) fn input_scale(
        &mut self,
        name: &str,
        convert: impl Fn(f32) -> f32,
    ) -> Result<Option<f32>, QuantError> {
        if !self.file.tensors.contains_key(name) {
            return Ok(None);
        }
        self.scale(name, name).map(|value| Some(convert(value)))
    }

    /// Adds a weight; its original shape comes from the metadata or is the matrix itself.
    pub(super) fn add(
        &mut self,
        name: &str,
        [rows, depth]: [usize; 2],
        format: PackedFormat,
        codes: &[u8],
        scales: Scales,
        input_scale: Option<f32>,
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
                let product = shape
                    .iter()
                    .try_fold(1usize, |n, &extent| n.checked_mul(extent));
                if product != rows.checked_mul(depth) {
                    return Err(wrong(
                        name,
                        "original shape",
                        shape,
                        format!("{rows} times {depth} values"),
                    ));
                }
                shape.clone()
            }
            None => vec![rows, depth],
        };
        self.entries.insert(
            name.to_owned(),
            Entry::Quantized(Weight {
                packed,
                shape,
                input_scale,
            }),
        );
        Ok(())
    }

    /// Everything not used becomes plain.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, Entry>, QuantError> {
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
                return Err(wrong(
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
    QuantError::check_length("shape", weight.shape.iter().product(), rows * depth)?;
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

/// Rectangles of an FP8 or INT8 scale tensor: one value, one per row, or 128 by 128.
pub(super) fn rectangles(
    name: &str,
    n_values: usize,
    shape: &[usize],
    [rows, depth]: [usize; 2],
) -> Result<[usize; 2], QuantError> {
    let (whole_rows, whole_depth) = (rows.max(1), depth.max(1));
    if n_values == 1 && (shape.len() < 2 || rows != 1) {
        return Ok([whole_rows, whole_depth]);
    }
    match shape {
        [n] | [n, 1] if *n == rows => Ok([1, whole_depth]),
        [n, m] if *n == rows.div_ceil(128) && *m == depth.div_ceil(128) => Ok([128, 128]),
        _ => Err(wrong(
            name,
            "shape",
            shape,
            format!("[], [{rows}], [{rows}, 1] or one scale per 128 by 128 of {rows} by {depth}"),
        )),
    }
}

/// Values and stored shape of f32 scales, the inverse of [`rectangles`].
pub(super) fn scale_tensor(
    scales: &Scales,
    [rows, depth]: [usize; 2],
) -> Option<(&[f32], Vec<usize>)> {
    let Scales::F32 { values, block } = scales else {
        return None;
    };
    if block[1] >= depth && block[0] >= rows {
        Some((values, vec![]))
    } else if block[1] >= depth && block[0] == 1 {
        Some((values, vec![rows, 1]))
    } else if *block == [128, 128] {
        Some((values, vec![rows.div_ceil(128), depth.div_ceil(128)]))
    } else {
        None
    }
}
