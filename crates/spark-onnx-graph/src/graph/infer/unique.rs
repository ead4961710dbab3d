//! Which elements, or slices, of a tensor are alike.
//!
//! How many differ says the shape of the result of Unique, so that inference needs it as much as evaluation does.

use std::cmp::Ordering;

use super::{op_error, resolve_axis};
use crate::graph::{OpError, Unique};
use crate::tensor::{Tensor, for_each_dtype};

/// The slices of a tensor that differ, in the order in which they are given.
pub(crate) struct Distinct {
    /// Position of the first slice of each kind.
    pub(crate) first: Vec<usize>,
    /// How many slices are of each kind.
    pub(crate) count: Vec<usize>,
    /// The kind of every slice.
    pub(crate) kind: Vec<usize>,
}

/// The kinds of slices along the axis of `op`, or of elements. What is no number is one kind, above all numbers.
///
/// # Errors
///
/// [`OpError`] for an axis out of range.
pub(crate) fn distinct(op: Unique, x: &Tensor) -> Result<Distinct, OpError> {
    let (n, inner) = match op.axis {
        None => (x.len(), 1),
        Some(axis) => {
            let axis = resolve_axis(axis, x.shape().len())?;
            (x.shape()[axis], x.shape()[axis + 1..].iter().product())
        }
    };
    if x.is_empty() && n > 0 {
        return Err(op_error!(
            "slices of shape {:?} have no elements",
            x.shape()
        ));
    }
    Ok(for_each_dtype!(x.data(), values => grouped(values, n, inner, op.sorted)))
}

/// Slice `i` of `n` is elements `(outer n + i) inner + rest`.
fn grouped<T: PartialOrd>(values: &[T], n: usize, inner: usize, sorted: bool) -> Distinct {
    let row = n * inner;
    let outer = values.len().checked_div(row).unwrap_or(0);
    let compare = |&a: &usize, &b: &usize| {
        let places = (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i)));
        let orders = places.map(|(o, i)| {
            let at = |slice: usize| &values[o * row + slice * inner + i];
            by_value(at(a), at(b))
        });
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let mut order: Vec<usize> = (0..n).collect();
    // Equal ones stay in their order, so that the first of a kind is its first slice.
    order.sort_by(compare);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for slice in order {
        match groups.last_mut() {
            Some(group) if compare(&group[0], &slice) == Ordering::Equal => group.push(slice),
            _ => groups.push(vec![slice]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let mut kind = vec![0; n];
    for (number, group) in groups.iter().enumerate() {
        for &slice in group {
            kind[slice] = number;
        }
    }
    Distinct {
        first: groups.iter().map(|group| group[0]).collect(),
        count: groups.iter().map(Vec::len).collect(),
        kind,
    }
}

fn by_value<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |v: &T| v.partial_cmp(v).is_none();
    let order = a.partial_cmp(b);
    order.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}
