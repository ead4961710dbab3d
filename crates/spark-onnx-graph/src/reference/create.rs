//! Operators that make elements from shapes, counts and positions.

use super::index::{Lines, for_each_position, strides};
use super::movement::{pick, positions};
use super::numbers::{Numbers, from_floats, from_whole};
use super::operator::{Evaluate, Evaluated, Inputs, Working, make, one, times};
use crate::graph::infer::{for_each_non_zero, op_error, shape_part};
use crate::graph::{
    ConstantOfShape, EyeLike, NonZero, OneHot, OpError, Range, Shape, Size, TensorType,
    resolve_axis,
};
use crate::tensor::{Tensor, TensorData};

impl Evaluate for Shape {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| shape(self.start, self.end, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn shape(
    start: i64,
    end: Option<i64>,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    positions(ty, shape_part(inputs.get(0)?.shape(), start, end).to_vec())
}

impl Evaluate for Size {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| size(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn size(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    positions(ty, vec![inputs.get(0)?.len()])
}

impl Evaluate for ConstantOfShape {
    fn evaluate(&self, _: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| constant_of_shape(&self.value, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.moved()
    }
}

fn constant_of_shape(value: &Tensor, ty: &TensorType) -> Result<Tensor, OpError> {
    let n = ty.shape.iter().product();
    pick(&[value], &vec![(0, 0); n], ty)
}

impl Evaluate for Range {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| range(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn range(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (start, delta) = (Numbers::of(inputs.get(0)?), Numbers::of(inputs.get(2)?));
    let n = ty.shape[0];
    match (start, delta) {
        (Numbers::Float(start), Numbers::Float(delta)) => {
            from_floats(ty, (0..n).map(|i| start[0] + i as f64 * delta[0]).collect())
        }
        (Numbers::Whole(start), Numbers::Whole(delta)) => from_whole(
            ty,
            (0..n).map(|i| start[0] + i as i128 * delta[0]).collect(),
        ),
        _ => Err(op_error!("bounds differ in type")),
    }
}

impl Evaluate for OneHot {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| one_hot(self.axis, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// Indices count from the end where negative; outside `-depth..depth` nothing is hot.
/// Float indices and depths truncate.
fn one_hot(axis: i64, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (indices, values) = (inputs.get(0)?, inputs.get(2)?);
    let axis = resolve_axis(axis, ty.shape.len())?;
    let lines = Lines::new(&ty.shape, axis);
    let hot: Vec<i128> = match Numbers::of(indices) {
        Numbers::Whole(values) => values,
        Numbers::Float(values) => values.into_iter().map(|v| v as i128).collect(),
    };
    // `values` is [off, on].
    let mut sources = vec![(0, 0); ty.shape.iter().product()];
    let mut indices = hot.into_iter();
    lines.for_each(|line| {
        let index = indices.next().unwrap_or_default();
        let from_front = if index < 0 {
            index + line.len() as i128
        } else {
            index
        };
        if let Some(&at) = usize::try_from(from_front).ok().and_then(|i| line.get(i)) {
            sources[at] = (0, 1);
        }
    });
    pick(&[values], &sources, ty)
}

impl Evaluate for NonZero {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| non_zero(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let found = times(working.written().max(1), 8);
        working.reshaped().saturating_add(found)
    }
}

fn non_zero(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let mut found = Vec::with_capacity(ty.shape[1]);
    for_each_non_zero(x, |at| found.push(at));
    let mut places = Vec::with_capacity(found.len() * x.shape().len());
    for (stride, &extent) in strides(x.shape()).into_iter().zip(x.shape()) {
        places.extend(found.iter().map(|at| (at / stride % extent) as i64));
    }
    make(ty, TensorData::I64(places))
}

impl Evaluate for EyeLike {
    fn evaluate(&self, _: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| eye_like(self.k, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn eye_like(k: i64, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut values = Vec::with_capacity(ty.shape.iter().product());
    for_each_position(&ty.shape, |at| {
        values.push(i128::from(at[1] as i128 - at[0] as i128 == i128::from(k)));
    });
    from_whole(ty, values)
}
