//! What records of named tensors have in common, and their elements as bytes.
//!
//! ```text
//! layout   groups of parts: name, type, shape       a sample has two groups, inputs and targets
//! record   the elements of every part, little-endian, in this order
//! ```
//!
//! Deliberately absent: where records are kept, and how many there are.

use std::io::{self, Write};

use half::{bf16, f16};
use spark_onnx_graph::{DType, Tensor, TensorData};

use crate::error::{Result, TrainError};

/// A tensor with its name.
pub(crate) type Named = (String, Tensor);

/// Tensors as sessions take them.
pub(crate) fn lent(tensors: &[Named]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// What one tensor is in every record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl Part {
    fn of((name, tensor): &Named) -> Self {
        Self {
            name: name.clone(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        }
    }

    /// Bytes of its elements; nothing if they are more than memory could have.
    pub(crate) fn checked_bytes(&self) -> Option<usize> {
        let mut extents = self.shape.iter();
        let n = extents.try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
        n.checked_mul(self.dtype.size_bytes())
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size_bytes()
    }
}

/// What all records have in common.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Layout {
    pub(crate) groups: Vec<Vec<Part>>,
}

impl Layout {
    fn of(groups: &[&[Named]]) -> Self {
        let parts = |group: &&[Named]| group.iter().map(Part::of).collect();
        Self {
            groups: groups.iter().map(parts).collect(),
        }
    }

    /// Takes the first record's layout, and refuses record `n` if its own is another one.
    pub(crate) fn hold_against(
        first: &mut Option<Self>,
        groups: &[&[Named]],
        n: usize,
    ) -> Result<()> {
        let layout = Self::of(groups);
        let first = first.get_or_insert_with(|| layout.clone());
        match *first == layout {
            true => Ok(()),
            false => Err(first.unlike(&layout, n)),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.groups.iter().flatten()
    }

    /// Bytes of a record.
    pub(crate) fn bytes(&self) -> usize {
        self.parts().map(Part::bytes).sum()
    }

    /// The same of a layout that somebody else wrote down; nothing if they are more than memory could have.
    pub(crate) fn checked_bytes(&self) -> Option<usize> {
        let mut parts = self.parts();
        parts.try_fold(0usize, |sum, part| sum.checked_add(part.checked_bytes()?))
    }

    /// What keeps record `n` of another layout from standing beside those of this one.
    fn unlike(&self, other: &Self, n: usize) -> TrainError {
        let named = |layout: &Self, name: &str| layout.parts().find(|p| p.name == name).cloned();
        let missing = self
            .parts()
            .find(|part| named(other, &part.name).as_ref() != Some(*part));
        let more = other.parts().find(|part| named(self, &part.name).is_none());
        let name = missing.or(more).or(other.parts().next());
        let name = name.map_or(String::new(), |part| part.name.clone());
        TrainError::UnlikeSamples {
            first: 0,
            other: n,
            want: named(self, &name).map_or(Vec::new(), |part| part.shape),
            got: named(other, &name).map(|part| part.shape),
            name,
        }
    }

    /// The record of these bytes, which are as many as a record has.
    pub(crate) fn record(&self, bytes: &[u8]) -> Result<Vec<Vec<Named>>> {
        let mut rest = bytes;
        let mut groups = Vec::with_capacity(self.groups.len());
        for parts in &self.groups {
            let mut tensors = Vec::with_capacity(parts.len());
            for part in parts {
                let (own, behind) = rest.split_at(part.bytes());
                rest = behind;
                let tensor = Tensor::new(part.shape.clone(), of_bytes(part.dtype, own))?;
                tensors.push((part.name.clone(), tensor));
            }
            groups.push(tensors);
        }
        Ok(groups)
    }
}

/// Writes a record's elements.
pub(crate) fn write(groups: &[&[Named]], to: &mut impl Write) -> io::Result<()> {
    for (_, tensor) in groups.iter().copied().flatten() {
        to.write_all(&to_bytes(tensor.data()))?;
    }
    Ok(())
}

/// `of_types!(f)` is `f!` of the kinds of elements with their types, but for truths.
macro_rules! of_types {
    ($with:ident) => {
        $with!(F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64,
               U8 u8, U16 u16, U32 u32, U64 u64)
    };
}

fn to_bytes(data: &TensorData) -> Vec<u8> {
    macro_rules! bytes {
        ($($kind:ident $ty:ty),*) => {
            match data {
                $(TensorData::$kind(values) => {
                    // By the element: byte by byte takes several times as long.
                    let mut bytes = Vec::with_capacity(size_of_val(values.as_slice()));
                    for value in values {
                        bytes.extend_from_slice(&value.to_le_bytes());
                    }
                    bytes
                })*
                TensorData::Bool(values) => values.iter().map(|&v| u8::from(v)).collect(),
            }
        };
    }
    of_types!(bytes)
}

/// Elements of whole bytes of them.
fn of_bytes(dtype: DType, bytes: &[u8]) -> TensorData {
    macro_rules! elements {
        ($($kind:ident $ty:ty),*) => {
            match dtype {
                $(DType::$kind => {
                    let (elements, _) = bytes.as_chunks();
                    TensorData::$kind(elements.iter().map(|&e| <$ty>::from_le_bytes(e)).collect())
                })*
                DType::Bool => TensorData::Bool(bytes.iter().map(|&v| v != 0).collect()),
            }
        };
    }
    of_types!(elements)
}
