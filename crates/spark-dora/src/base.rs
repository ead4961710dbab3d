//! The frozen weight under an adapter.
//!
//! ```text
//! Dense    a candle tensor, shared with the layer it came from
//! Packed   NVFP4, FP8, INT8 ... of spark-quant, converted to f32 a few rows at a time (QDoRA)
//! ```
//!
//! Both are read as rows `[out, K]`: a row is what produces one output.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use spark_quant::packed::Scales;
use spark_quant::{ExecutionPolicy, PackedTensor};

use crate::error::{DoraError, Result};
use crate::finite;
use crate::kernel::Real;
use crate::slice::with_slice;

/// Gives the rows of a weight, some at a time.
pub(crate) trait WeightRows<T> {
    /// Calls `f(first row, rows, their elements)` for consecutive runs of rows that make up the weight.
    fn for_each(&self, f: &mut dyn FnMut(usize, usize, &[T]));
}

/// Rows that lie in memory.
pub(crate) struct DenseRows<'a, T> {
    /// The weight, `[rows, columns]` row-major.
    pub(crate) data: &'a [T],
    /// Rows in `data`; there may be none.
    pub(crate) rows: usize,
}

impl<T: Real> WeightRows<T> for DenseRows<'_, T> {
    fn for_each(&self, f: &mut dyn FnMut(usize, usize, &[T])) {
        f(0, self.rows, self.data);
    }
}

/// Rows that are converted to f32 when they are needed.
struct PackedRows<'a>(&'a [PackedTensor]);

impl<T: Real> WeightRows<T> for PackedRows<'_> {
    fn for_each(&self, f: &mut dyn FnMut(usize, usize, &[T])) {
        let mut first = 0;
        for piece in self.0 {
            let mut values = vec![0.0f32; piece.n_values()];
            piece
                .dequantize_into(ExecutionPolicy::detect(), &mut values)
                .expect("the buffer has the length of the piece");
            f(first, piece.n_rows(), &T::from_f32s(values));
            first += piece.n_rows();
        }
    }
}

/// A packed weight, cut into runs of rows so that each can be converted alone.
#[derive(Debug)]
pub(crate) struct PackedBase {
    pieces: Vec<PackedTensor>,
    shape: [usize; 2],
    size_bytes: usize,
    device: Device,
}

impl PackedBase {
    /// Calls `f` with all codes and scales that are bytes.
    pub(crate) fn for_each_code(&self, mut f: impl FnMut(&[u8])) {
        for piece in &self.pieces {
            f(piece.codes());
            match piece.scales() {
                Scales::Nvfp4 { block, tensor } => {
                    f(block);
                    f(&tensor.to_le_bytes());
                }
                Scales::Mx(scales) => f(scales),
                Scales::F32 { values, .. } => values.iter().for_each(|v| f(&v.to_le_bytes())),
            }
        }
    }
}

/// A frozen weight `[out, ...]`.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// In memory, contiguous, detached so that no gradient reaches it.
    Dense(Tensor),
    /// Of shape `[out, in]`, blocks along the inputs, no rotation pending.
    Packed(Arc<PackedBase>),
}

impl Base {
    /// A dense weight; it is detached, so that no gradient reaches it.
    pub(crate) fn dense(weight: &Tensor) -> Result<Self> {
        Ok(Self::Dense(weight.detach().contiguous()?))
    }

    /// A dense weight of finite numbers.
    pub(crate) fn finite(name: &str, weight: &Tensor) -> Result<Self> {
        finite::check(name, weight)?;
        Self::dense(weight)
    }

    /// A packed weight `[out, in]` with blocks along the inputs, of finite numbers.
    pub(crate) fn packed(name: &str, weight: &PackedTensor, device: &Device) -> Result<Self> {
        let &[rows, depth] = weight.shape() else {
            return Err(DoraError::Shape {
                name: name.to_owned(),
                got: weight.shape().to_vec(),
                want: vec![weight.n_rows(), weight.depth()],
            });
        };
        if weight.axis() != 1 {
            return Err(DoraError::Setting {
                name: "axis".to_owned(),
                value: weight.axis() as f64,
                want: "1: blocks along the inputs",
            });
        }
        let pieces = row_pieces(weight)?;
        let mut first = None;
        WeightRows::<f32>::for_each(&PackedRows(&pieces), &mut |row, _, values| {
            let here = values.iter().position(|v| !v.is_finite());
            first = first.or(here.map(|index| row * depth + index));
        });
        if let Some(index) = first {
            return Err(finite::not_finite(name, index));
        }
        Ok(Self::Packed(Arc::new(PackedBase {
            pieces,
            shape: [rows, depth],
            size_bytes: weight.size_bytes(),
            device: device.clone(),
        })))
    }

    /// Shape of the weight, `[out, ...]`.
    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Self::Dense(weight) => weight.dims(),
            Self::Packed(packed) => &packed.shape,
        }
    }

    /// Element type the base computes in.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Dense(weight) => weight.dtype(),
            Self::Packed(..) => DType::F32,
        }
    }

    /// Device that the weight lies on, or that was given for a packed one.
    pub(crate) fn device(&self) -> &Device {
        match self {
            Self::Dense(weight) => weight.device(),
            Self::Packed(packed) => &packed.device,
        }
    }

    /// Bytes that the weight takes as it is stored.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Dense(w) => w.elem_count() * w.dtype().size_in_bytes(),
            Self::Packed(packed) => packed.size_bytes,
        }
    }

    /// As a tensor; a packed weight is converted to f32.
    pub(crate) fn to_tensor(&self) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => Ok(weight.clone()),
            Self::Packed(packed) => {
                let mut values = Vec::with_capacity(packed.shape.iter().product());
                for piece in &packed.pieces {
                    values.extend(piece.dequantize(ExecutionPolicy::detect())?);
                }
                Ok(Tensor::from_vec(values, &packed.shape, &packed.device)?)
            }
        }
    }

    /// Calls `f` with the rows.
    pub(crate) fn with_rows<T: Real, R>(
        &self,
        f: impl FnOnce(&dyn WeightRows<T>) -> R,
    ) -> candle_core::Result<R> {
        match self {
            Self::Packed(packed) => Ok(f(&PackedRows(&packed.pieces))),
            Self::Dense(weight) => with_slice(weight, |data| {
                let rows = weight.dim(0)?;
                Ok(f(&DenseRows { data, rows }))
            }),
        }
    }
}

/// Rows per piece of a packed weight: filling the inputs' block once per piece costs little beside
/// multiplying that many rows, and as f32 they take little memory.
const PIECE_ROWS: usize = 256;

/// The weight cut into runs of rows, where its scales allow it.
fn row_pieces(weight: &PackedTensor) -> Result<Vec<PackedTensor>> {
    let rows = weight.n_rows();
    let tall_blocks = match weight.scales() {
        Scales::F32 { block, .. } => !PIECE_ROWS.is_multiple_of(block[0]),
        _ => false,
    };
    if rows <= PIECE_ROWS || tall_blocks {
        return Ok(vec![weight.clone()]);
    }
    let code_bytes = weight.codes().len() / rows;
    let pieces = (0..rows).step_by(PIECE_ROWS).map(|first| {
        let here = PIECE_ROWS.min(rows - first);
        let codes = weight.codes()[first * code_bytes..][..here * code_bytes].to_vec();
        let part = |scales: &[u8]| {
            let per_row = scales.len() / rows;
            scales[first * per_row..][..here * per_row].to_vec()
        };
        let scales = match weight.scales() {
            Scales::Nvfp4 { block, tensor } => Scales::Nvfp4 {
                block: part(block),
                tensor: *tensor,
            },
            Scales::Mx(scales) => Scales::Mx(part(scales)),
            Scales::F32 { values, block } => {
                let across = values.len() / rows.div_ceil(block[0]);
                let values =
                    &values[first / block[0] * across..][..here.div_ceil(block[0]) * across];
                Scales::F32 {
                    values: values.to_vec(),
                    block: *block,
                }
            }
        };
        let shape = vec![here, weight.depth()];
        let piece = PackedTensor::from_parts(&shape, 1, weight.format(), codes, scales)?;
        Ok(match weight.rotation() {
            Some(rotation) => piece.with_rotation(rotation.size(), rotation.seed())?,
            None => piece,
        })
    });
    pieces.collect()
}

/// Refuses a tensor of another shape.
pub(crate) fn check_shape(name: &str, got: &[usize], want: &[usize]) -> Result<()> {
    if got == want {
        return Ok(());
    }
    Err(DoraError::Shape {
        name: name.to_owned(),
        got: got.to_vec(),
        want: want.to_vec(),
    })
}
