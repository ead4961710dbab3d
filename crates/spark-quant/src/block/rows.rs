//! Any axis of a tensor as rows of whole blocks.
//!
//! ```text
//! tensor [outer, axis, inner]     row (o, i) = tensor[o, 0..axis, i]
//! rows   [outer * inner, padded]  zeros after the last value
//! ```

use std::borrow::Cow;

use crate::error::QuantError;

/// A shape seen from one of its axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) outer: usize,
    pub(crate) depth: usize,
    pub(crate) inner: usize,
}

impl Extent {
    pub(crate) fn new(shape: &[usize], axis: usize) -> Result<Self, QuantError> {
        if axis >= shape.len() {
            return Err(QuantError::Axis {
                axis,
                rank: shape.len(),
            });
        }
        // The f32 bytes of a padded tensor must be addressable, whichever axis is padded.
        let addressable = shape
            .iter()
            .try_fold(4usize, |n, &extent| n.checked_mul(extent.max(1)))
            .and_then(|n| n.checked_mul(64))
            .is_some_and(|n| n <= isize::MAX as usize);
        if !addressable {
            return Err(QuantError::ShapeOverflow {
                shape: shape.to_vec(),
            });
        }
        Ok(Self {
            outer: shape[..axis].iter().product(),
            depth: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        })
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.outer * self.inner
    }

    pub(crate) fn n_values(&self) -> usize {
        self.n_rows() * self.depth
    }

    /// Position in the tensor of value `k` of row `row`.
    pub(crate) fn index_of(&self, row: usize, k: usize) -> usize {
        let (outer, inner) = (row / self.inner, row % self.inner);
        (outer * self.depth + k) * self.inner + inner
    }

    /// Whether rows lie in the tensor as they are, given their padded length.
    pub(crate) fn is_contiguous(&self, padded_depth: usize) -> bool {
        self.inner == 1 && self.depth == padded_depth
    }
}

/// Rows of `padded_depth` values; the tensor itself if it already is that.
pub(crate) fn gather<'a>(
    values: &'a [f32],
    extent: &Extent,
    padded_depth: usize,
) -> Result<Cow<'a, [f32]>, QuantError> {
    if extent.is_contiguous(padded_depth) {
        return Ok(Cow::Borrowed(values));
    }
    let mut rows = vec![0.0; extent.n_rows() * padded_depth];
    for (row, out) in rows.chunks_exact_mut(padded_depth.max(1)).enumerate() {
        let first = extent.index_of(row, 0);
        let source = values[first.min(values.len())..]
            .iter()
            .step_by(extent.inner.max(1));
        for (out, value) in out[..extent.depth].iter_mut().zip(source) {
            *out = *value;
        }
    }
    Ok(Cow::Owned(rows))
}

/// Inverse of [`gather`]; the padding is dropped.
pub(crate) fn scatter(rows: &[f32], extent: &Extent, padded_depth: usize, values: &mut [f32]) {
    for (row, source) in rows.chunks_exact(padded_depth.max(1)).enumerate() {
        let first = extent.index_of(row, 0);
        for (k, value) in source[..extent.depth].iter().enumerate() {
            values[first + k * extent.inner] = *value;
        }
    }
}
