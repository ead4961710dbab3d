//! Operators whose every result element is some operand's element.
//!
//! ```text
//! each operator says, for every result position, (which operand, which element)
//! pick(operands, those) copies them, whatever the element type
//! ```

use super::index::{Lines, broadcast_strides, for_each_position, offset, strides};
use super::numbers::{from_whole, whole_numbers};
use super::operator::{Evaluate, Evaluated, Inputs, Working, make, one};
use crate::graph::infer::op_error;
use crate::graph::{
    Concat, DepthToSpace, Expand, Flatten, Gather, GatherElements, GatherNd, OpError, Pad, PadMode,
    Reshape, Slice, SpaceToDepth, Split, Squeeze, TensorType, Tile, Transpose, Trilu, Unsqueeze,
    resolve_axis, resolve_pads, resolve_slice,
};
use crate::tensor::{Tensor, TensorData};

/// The tensor whose element `i` is element `sources[i].1` of tensor `sources[i].0`.
pub(super) fn pick(
    tensors: &[&Tensor],
    sources: &[(usize, usize)],
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    macro_rules! pick_from {
        ($($variant:ident)*) => {
            match tensors.first().map(|t| t.data()) {
                $(Some(TensorData::$variant(_)) => {
                    let mut slices = Vec::with_capacity(tensors.len());
                    for tensor in tensors {
                        let TensorData::$variant(slice) = tensor.data() else {
                            return Err(op_error!("operands of different types"));
                        };
                        slices.push(slice);
                    }
                    TensorData::$variant(sources.iter().map(|&(t, i)| slices[t][i]).collect())
                })*
                None => return Err(op_error!("no operands")),
            }
        };
    }
    make(
        ty,
        pick_from!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool),
    )
}

/// [`pick`] from one tensor: `source` gives the element for every result position.
fn pick_by_position(
    x: &Tensor,
    ty: &TensorType,
    mut source: impl FnMut(&[usize]) -> usize,
) -> Result<Tensor, OpError> {
    let mut sources = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| sources.push((0, source(at))));
    pick(&[x], &sources, ty)
}

impl Evaluate for Reshape {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| make(ty, inputs.get(0)?.data().clone()))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.reshaped()
    }
}

impl Evaluate for Flatten {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| make(ty, inputs.get(0)?.data().clone()))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.reshaped()
    }
}

impl Evaluate for Squeeze {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| make(ty, inputs.get(0)?.data().clone()))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.reshaped()
    }
}

impl Evaluate for Unsqueeze {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| make(ty, inputs.get(0)?.data().clone()))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.reshaped()
    }
}

impl Evaluate for Transpose {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| transpose(self.perm.as_deref(), inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn transpose(
    perm: Option<&[usize]>,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let rank = x.shape().len();
    let perm = perm.map_or_else(|| (0..rank).rev().collect(), <[usize]>::to_vec);
    let own = strides(x.shape());
    let permuted: Vec<usize> = perm.iter().map(|&axis| own[axis]).collect();
    pick_by_position(x, ty, |at| offset(at, &permuted))
}

impl Evaluate for Concat {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| concat(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn concat(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let axis = resolve_axis(axis, ty.shape.len())?;
    let tensors = (0..inputs.0.len())
        .map(|i| inputs.get(i))
        .collect::<Result<Vec<_>, _>>()?;
    // Which tensor, and which position in it, every position of the axis comes from.
    let mut origin = Vec::with_capacity(ty.shape[axis]);
    for (which, tensor) in tensors.iter().enumerate() {
        origin.extend((0..tensor.shape()[axis]).map(|position| (which, position)));
    }
    let strides: Vec<Vec<usize>> = tensors.iter().map(|t| strides(t.shape())).collect();
    let mut sources = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| {
        let (which, position) = origin[at[axis]];
        let mut at = at.to_vec();
        at[axis] = position;
        sources.push((which, offset(&at, &strides[which])));
    });
    pick(&tensors, &sources, ty)
}

impl Evaluate for Split {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        split(self.axis, inputs, types)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn split(axis: i64, inputs: Inputs<'_>, types: &[TensorType]) -> Result<Vec<Tensor>, OpError> {
    let x = inputs.get(0)?;
    let axis = resolve_axis(axis, x.shape().len())?;
    let strides = strides(x.shape());
    let mut begin = 0;
    types
        .iter()
        .map(|ty| {
            let part = pick_by_position(x, ty, |at| offset(at, &strides) + begin * strides[axis]);
            begin += ty.shape[axis];
            part
        })
        .collect()
}

impl Evaluate for Slice {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| slice(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn slice(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let operand = |i| {
        inputs
            .operand(i)
            .ok_or_else(|| op_error!("operand {i} is missing"))
    };
    let slices = resolve_slice(
        x.shape(),
        operand(1)?,
        operand(2)?,
        inputs.operand(3),
        inputs.operand(4),
    )?;
    let strides = strides(x.shape());
    pick_by_position(x, ty, |at| {
        let taken = at
            .iter()
            .zip(&slices)
            .map(|(&i, s)| (s.start as i64 + i as i64 * s.step) as usize);
        taken
            .zip(&strides)
            .map(|(position, stride)| position * stride)
            .sum()
    })
}

/// Every index counted from the front.
///
/// # Errors
///
/// [`OpError`] unless each lies in `-extent..extent`.
pub(super) fn resolve_indices(indices: &Tensor, extent: usize) -> Result<Vec<usize>, OpError> {
    whole_numbers(indices)
        .ok_or_else(|| op_error!("indices are {}", indices.dtype()))?
        .into_iter()
        .map(|index| resolve_index(index, extent))
        .collect()
}

pub(super) fn resolve_index(index: i128, extent: usize) -> Result<usize, OpError> {
    let from_front = if index < 0 {
        index + extent as i128
    } else {
        index
    };
    usize::try_from(from_front)
        .ok()
        .filter(|&i| i < extent)
        .ok_or_else(|| op_error!("index {index} is out of range for an axis of {extent}"))
}

impl Evaluate for Gather {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| gather(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn gather(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, indices) = (inputs.get(0)?, inputs.get(1)?);
    let axis = resolve_axis(axis, x.shape().len())?;
    let lines = Lines::new(x.shape(), axis);
    let indices = resolve_indices(indices, lines.extent)?;
    let mut sources = Vec::with_capacity(ty.shape.iter().product());
    for outer in 0..lines.outer {
        for &index in &indices {
            for inner in 0..lines.inner {
                sources.push((0, (outer * lines.extent + index) * lines.inner + inner));
            }
        }
    }
    pick(&[x], &sources, ty)
}

impl Evaluate for GatherElements {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| gather_elements(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn gather_elements(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, indices) = (inputs.get(0)?, inputs.get(1)?);
    let axis = resolve_axis(axis, x.shape().len())?;
    let mut indices = resolve_indices(indices, x.shape()[axis])?.into_iter();
    let strides = strides(x.shape());
    pick_by_position(x, ty, |at| {
        let index = indices.next().unwrap_or_default();
        offset(at, &strides) - at[axis] * strides[axis] + index * strides[axis]
    })
}

impl Evaluate for GatherNd {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| gather_nd(self.batch_dims, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn gather_nd(batch_dims: usize, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, indices) = (inputs.get(0)?, inputs.get(1)?);
    let starts = nd_starts(x.shape(), indices, batch_dims)?;
    let depth = indices.shape()[indices.shape().len() - 1];
    let rest: usize = x.shape()[batch_dims + depth..].iter().product();
    let sources: Vec<(usize, usize)> = starts
        .into_iter()
        .flat_map(|start| (start..start + rest).map(|source| (0, source)))
        .collect();
    pick(&[x], &sources, ty)
}

/// Where in `x` the part begins that each index tuple, the last axis of `indices`, names.
pub(super) fn nd_starts(
    x_shape: &[usize],
    indices: &Tensor,
    batch_dims: usize,
) -> Result<Vec<usize>, OpError> {
    let values = whole_numbers(indices).ok_or_else(|| op_error!("indices are not whole"))?;
    let (outer, depth) = match indices.shape() {
        [outer @ .., depth] => (outer, *depth),
        [] => return Err(op_error!("`indices` is a scalar")),
    };
    let strides = strides(x_shape);
    let mut starts = Vec::new();
    let mut result = Ok(());
    let mut tuple = 0;
    for_each_position(outer, |at| {
        let mut start = offset(&at[..batch_dims], &strides[..batch_dims]);
        for k in 0..depth {
            match resolve_index(values[tuple * depth + k], x_shape[batch_dims + k]) {
                Ok(index) => start += index * strides[batch_dims + k],
                Err(error) => result = Err(error),
            }
        }
        tuple += 1;
        starts.push(start);
    });
    result.map(|()| starts)
}

impl Evaluate for Expand {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| expand(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn expand(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let strides = broadcast_strides(x.shape(), &ty.shape);
    pick_by_position(x, ty, |at| offset(at, &strides))
}

impl Evaluate for Tile {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| tile(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn tile(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let strides = strides(x.shape());
    pick_by_position(x, ty, |at| {
        let within = at.iter().zip(x.shape()).map(|(&i, &extent)| i % extent);
        within.zip(&strides).map(|(i, stride)| i * stride).sum()
    })
}

impl Evaluate for Pad {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| pad(self.mode, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

/// Negative pads cut off first; what is left is then reflected, repeated or wrapped
/// as often as needed.
fn pad(mode: PadMode, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let pads = inputs
        .operand(1)
        .ok_or_else(|| op_error!("`pads` is missing"))?;
    let pads = resolve_pads(mode, x.shape(), pads, inputs.operand(3))?;
    let zero = Tensor::zeros(x.dtype(), []).map_err(|e| op_error!("{e}"))?;
    let fill = inputs.optional(2).unwrap_or(&zero);
    let strides = strides(x.shape());
    let mut sources = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| {
        let mut source = Some(0);
        for (axis, &i) in at.iter().enumerate() {
            let first = (-pads[axis].begin).max(0);
            let kept = x.shape()[axis] as i64 - first - (-pads[axis].end).max(0);
            let position = pad_source(mode, i as i64 - pads[axis].begin.max(0), kept);
            source = source
                .zip(position)
                .map(|(s, p)| s + (first + p) as usize * strides[axis]);
        }
        sources.push(match source {
            Some(source) => (0, source),
            None => (1, 0),
        });
    });
    pick(&[x, fill], &sources, ty)
}

/// Which of `extent` elements stands at `position`, counted from the first element;
/// none outside in constant mode.
fn pad_source(mode: PadMode, position: i64, extent: i64) -> Option<i64> {
    if (0..extent).contains(&position) {
        return Some(position);
    }
    match mode {
        PadMode::Constant => None,
        PadMode::Edge => Some(position.clamp(0, extent - 1)),
        PadMode::Wrap => Some(position.rem_euclid(extent)),
        PadMode::Reflect if extent == 1 => Some(0),
        PadMode::Reflect => {
            // There and back again, the two ends once each.
            let period = 2 * (extent - 1);
            let phase = position.rem_euclid(period);
            Some(phase.min(period - phase))
        }
    }
}

impl Evaluate for DepthToSpace {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| depth_to_space(self.block, self.crd, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn depth_to_space(
    block: usize,
    crd: bool,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let strides = strides(x.shape());
    let channels = ty.shape[1];
    pick_by_position(x, ty, |at| {
        let (row_in_block, column_in_block) = (at[2] % block, at[3] % block);
        let place = row_in_block * block + column_in_block;
        let channel = if crd {
            at[1] * block * block + place
        } else {
            place * channels + at[1]
        };
        offset(&[at[0], channel, at[2] / block, at[3] / block], &strides)
    })
}

impl Evaluate for SpaceToDepth {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| space_to_depth(self.block, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn space_to_depth(block: usize, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let strides = strides(x.shape());
    let channels = x.shape()[1];
    pick_by_position(x, ty, |at| {
        let (place, channel) = (at[1] / channels, at[1] % channels);
        let row = at[2] * block + place / block;
        let column = at[3] * block + place % block;
        offset(&[at[0], channel, row, column], &strides)
    })
}

impl Evaluate for Trilu {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| trilu(self.upper, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn trilu(upper: bool, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let diagonal = match inputs.optional(1) {
        Some(k) => whole_numbers(k)
            .and_then(|k| k.first().copied())
            .unwrap_or(0),
        None => 0,
    };
    let zero = Tensor::zeros(x.dtype(), []).map_err(|e| op_error!("{e}"))?;
    let rank = ty.shape.len();
    let mut sources = Vec::with_capacity(x.len());
    for_each_position(&ty.shape, |at| {
        let above = at[rank - 1] as i128 - at[rank - 2] as i128 - diagonal;
        let kept = if upper { above >= 0 } else { above <= 0 };
        sources.push(if kept { (0, sources.len()) } else { (1, 0) });
    });
    pick(&[x, &zero], &sources, ty)
}

/// `values` as the inferred i64 result.
pub(super) fn positions(ty: &TensorType, values: Vec<usize>) -> Result<Tensor, OpError> {
    from_whole(ty, values.into_iter().map(|v| v as i128).collect())
}
