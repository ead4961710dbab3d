//! The operands of a node before data flows, with the checks that every operator starts with.
//!
//! Deliberately absent: what any one operator wants of them (`crate::operators`).

use crate::graph::types::{OpError, TensorType};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData, checked_elements};

/// The reason of the error where integers meet zero, for whoever evaluates an operator: none has a
/// quotient or remainder by zero, and zero no negative power.
pub const DIVIDED_BY_ZERO: &str = "integer division by zero";

/// An [`OpError`] from a format string.
macro_rules! op_error {
    ($($arg:tt)*) => {
        $crate::graph::OpError { reason: format!($($arg)*) }
    };
}
pub(crate) use op_error;

/// What is known of an operand before data flows.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Type of its elements.
    pub dtype: DType,
    /// Extent of every axis; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements, if the operand is constant.
    pub constant: Option<&'a Tensor>,
}

impl<'a> Operand<'a> {
    /// An operand whose elements are known, so that results may depend on them.
    pub fn constant(tensor: &'a Tensor) -> Self {
        Self {
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            constant: Some(tensor),
        }
    }

    /// Its element type and shape.
    pub fn ty(&self) -> TensorType {
        TensorType {
            dtype: self.dtype,
            shape: self.shape.to_vec(),
        }
    }

    /// Number of axes; 0 for a scalar.
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; the shape was checked on entry.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The operands of one node, with the checks every operator starts with.
pub(crate) struct Operands<'a> {
    pub(crate) list: &'a [Option<Operand<'a>>],
    pub(crate) n_outputs: usize,
}

impl<'a> Operands<'a> {
    /// Between `min` and `max` operands and between 1 and `max_outputs` results.
    pub(crate) fn expect(&self, min: usize, max: usize, max_outputs: usize) -> Result<(), OpError> {
        // Trailing operands may be spelled out as absent.
        let given = self
            .list
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |i| i + 1);
        if given < min || given > max {
            let want = if min == max {
                format!("{min}")
            } else {
                format!("{min} to {max}")
            };
            return Err(op_error!("takes {want} operands, got {given}"));
        }
        if self.n_outputs == 0 || self.n_outputs > max_outputs {
            return Err(op_error!(
                "makes up to {max_outputs} results, {} wanted",
                self.n_outputs
            ));
        }
        Ok(())
    }

    pub(crate) fn optional(&self, index: usize) -> Option<Operand<'a>> {
        self.list.get(index).copied().flatten()
    }

    pub(crate) fn required(&self, index: usize, what: &str) -> Result<Operand<'a>, OpError> {
        self.optional(index)
            .ok_or_else(|| op_error!("operand {index} (`{what}`) is missing"))
    }
}

/// `axis` counted from the front.
///
/// # Errors
///
/// [`OpError`] unless `-rank <= axis < rank`.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    let signed_rank = rank as i64;
    if axis < -signed_rank || axis >= signed_rank {
        return Err(op_error!("axis {axis} is out of range for {rank} axes"));
    }
    Ok(if axis < 0 { axis + signed_rank } else { axis } as usize)
}

/// Every axis counted from the front, in the order given.
///
/// # Errors
///
/// As [`resolve_axis`]; also if one is named twice.
pub fn resolve_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
    let mut seen = vec![false; rank];
    let mut resolved = Vec::with_capacity(axes.len().min(rank));
    for &axis in axes {
        let at = resolve_axis(axis, rank)?;
        if std::mem::replace(&mut seen[at], true) {
            return Err(op_error!("axis {axis} is named twice"));
        }
        resolved.push(at);
    }
    Ok(resolved)
}

/// The shape two operands broadcast to, by NumPy's rule.
///
/// # Errors
///
/// [`OpError`] where two extents differ and neither is 1.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Vec<usize>, OpError> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |i| shape[i])
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(op_error!("shapes {a:?} and {b:?} do not broadcast")),
        })
        .collect()
}

/// The most axes a value may have, as in NumPy.
const MAX_RANK: usize = 64;

/// Refuses shapes of too many axes, and those of which [`checked_elements`] has no number.
pub(crate) fn check_size(shape: &[usize]) -> Result<(), OpError> {
    if shape.len() > MAX_RANK {
        return Err(op_error!(
            "{} axes, at most {MAX_RANK} are supported",
            shape.len()
        ));
    }
    match checked_elements(shape) {
        Some(_) => Ok(()),
        None => Err(op_error!(
            "shape {shape:?} has more than {MAX_ELEMENTS} elements"
        )),
    }
}

/// Refuses an operand that does not broadcast to `target` as it stands.
pub(crate) fn check_broadcasts_to(
    what: &str,
    shape: &[usize],
    target: &[usize],
) -> Result<(), OpError> {
    match broadcast_shapes(shape, target) {
        Ok(joint) if joint == target => Ok(()),
        _ => Err(op_error!(
            "`{what}` of shape {shape:?} does not broadcast to {target:?}"
        )),
    }
}

pub(crate) fn check_shape(what: &str, shape: &[usize], want: &[usize]) -> Result<(), OpError> {
    if shape == want {
        return Ok(());
    }
    Err(op_error!("`{what}` has shape {shape:?}, wanted {want:?}"))
}

pub(crate) fn check_rank(what: &str, operand: &Operand<'_>, want: usize) -> Result<(), OpError> {
    if operand.rank() == want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have {want} axes",
        operand.shape
    ))
}

pub(crate) fn check_rank_at_least(
    what: &str,
    operand: &Operand<'_>,
    want: usize,
) -> Result<(), OpError> {
    if operand.rank() >= want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have at least {want} axes",
        operand.shape
    ))
}

/// One element, whatever the rank: ONNX says scalar, exporters also write `[1]`.
pub(crate) fn check_scalar(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.len() == 1 {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` of shape {:?} must have one element",
        operand.shape
    ))
}

pub(crate) fn check_same_dtype(
    what: &str,
    operand: &Operand<'_>,
    want: DType,
) -> Result<(), OpError> {
    if operand.dtype == want {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted {want} as of the first operand",
        operand.dtype
    ))
}

pub(crate) fn check_float(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype.is_float() {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted a float type",
        operand.dtype
    ))
}

pub(crate) fn check_numeric(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype != DType::Bool {
        return Ok(());
    }
    Err(op_error!("`{what}` is bool, wanted a number type"))
}

pub(crate) fn check_bool(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype == DType::Bool {
        return Ok(());
    }
    Err(op_error!("`{what}` is {}, wanted bool", operand.dtype))
}

pub(crate) fn check_whole(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if operand.dtype.is_float() || operand.dtype == DType::Bool {
        return Err(op_error!(
            "`{what}` is {}, wanted an integer type",
            operand.dtype
        ));
    }
    Ok(())
}

/// i32 or i64, as ONNX wants of index operands.
pub(crate) fn check_index(what: &str, operand: &Operand<'_>) -> Result<(), OpError> {
    if matches!(operand.dtype, DType::I32 | DType::I64) {
        return Ok(());
    }
    Err(op_error!(
        "`{what}` is {}, wanted i32 or i64",
        operand.dtype
    ))
}

/// The elements of a constant i32 or i64 operand of at most one axis.
pub(crate) fn constant_ints(what: &str, operand: &Operand<'_>) -> Result<Vec<i64>, OpError> {
    check_index(what, operand)?;
    if operand.rank() > 1 {
        return Err(op_error!(
            "`{what}` of shape {:?} must have one axis",
            operand.shape
        ));
    }
    match operand.constant.map(Tensor::data) {
        Some(TensorData::I64(v)) => Ok(v.clone()),
        Some(TensorData::I32(v)) => Ok(v.iter().map(|&x| i64::from(x)).collect()),
        _ => Err(op_error!(
            "`{what}` must be constant: the result's shape depends on it"
        )),
    }
}

/// The single element of a constant i32 or i64 operand.
pub(crate) fn constant_int(what: &str, operand: &Operand<'_>) -> Result<i64, OpError> {
    check_scalar(what, operand)?;
    Ok(constant_ints(what, operand)?[0])
}

/// One result of the given type.
pub(crate) fn one(dtype: DType, shape: impl Into<Vec<usize>>) -> Result<Vec<TensorType>, OpError> {
    Ok(vec![TensorType {
        dtype,
        shape: shape.into(),
    }])
}

/// Constant extents, none negative.
pub(crate) fn constant_extents(what: &str, operand: &Operand<'_>) -> Result<Vec<usize>, OpError> {
    constant_ints(what, operand)?
        .into_iter()
        .map(|v| {
            usize::try_from(v)
                .ok()
                .filter(|&v| v <= MAX_ELEMENTS)
                .ok_or_else(|| op_error!("`{what}` holds {v}, wanted 0 to {MAX_ELEMENTS}"))
        })
        .collect()
}
