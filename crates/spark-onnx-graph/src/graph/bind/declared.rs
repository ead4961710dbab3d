//! What inputs are declared as, and given.
//!
//! ```text
//! declared [batch, 3], given [8, 3]    batch = 8, everywhere
//! declared [batch], given nothing      [8], where another input says what batch is
//! ```
//!
//! Deliberately absent: what follows from the inputs, which is found node by node.

use std::collections::BTreeMap;

use super::super::{Dim, Graph, TensorType, Value};
use crate::ModelError;
use crate::tensor::{MAX_ELEMENTS, checked_elements};

/// The fixed type of every input.
pub(super) fn bind_inputs(
    graph: &Graph,
    input_shapes: &[(&str, Vec<usize>)],
) -> Result<Vec<TensorType>, ModelError> {
    for (index, (name, _)) in input_shapes.iter().enumerate() {
        if input_shapes[..index]
            .iter()
            .any(|(before, _)| before == name)
        {
            return Err(ModelError::InputTwice {
                name: (*name).to_owned(),
            });
        }
        if !graph.inputs.iter().any(|&id| graph.value(id).name == *name) {
            return Err(ModelError::InputUnknown {
                name: (*name).to_owned(),
            });
        }
    }
    let given = |value: &Value| {
        input_shapes
            .iter()
            .find(|(name, _)| *name == value.name)
            .map(|(_, shape)| shape)
    };
    let mut symbols = BTreeMap::new();
    for &id in &graph.inputs {
        let value = graph.value(id);
        if let Some(shape) = given(value) {
            bind_symbols(value, shape, &mut symbols)?;
        }
    }
    graph
        .inputs
        .iter()
        .map(|&id| {
            let value = graph.value(id);
            let dtype = value.dtype.ok_or_else(|| ModelError::InputUndeclared {
                name: value.name.clone(),
            })?;
            let shape = match given(value) {
                Some(shape) => shape.clone(),
                None => declared_shape(value, &symbols)?,
            };
            if checked_elements(&shape).is_none() {
                return Err(ModelError::InputShape {
                    name: value.name.clone(),
                    got: shape,
                    want: format!("at most {MAX_ELEMENTS} elements"),
                });
            }
            Ok(TensorType { dtype, shape })
        })
        .collect()
}

/// Checks a given shape against the declared one and learns its symbols.
fn bind_symbols<'g>(
    value: &'g Value,
    shape: &[usize],
    symbols: &mut BTreeMap<&'g str, usize>,
) -> Result<(), ModelError> {
    let Some(dims) = &value.shape else {
        return Ok(());
    };
    let fits = dims.len() == shape.len()
        && dims.iter().zip(shape).all(|(dim, &extent)| match dim {
            Dim::Known(known) => *known == extent,
            Dim::Symbol(name) => *symbols.entry(name).or_insert(extent) == extent,
            Dim::Unknown => true,
        });
    match fits {
        true => Ok(()),
        false => {
            let mut error = input_shape_error(value, shape);
            if let ModelError::InputShape { want, .. } = &mut error {
                for (name, extent) in symbols {
                    if dims.contains(&Dim::Symbol((*name).to_owned())) {
                        want.push_str(&format!(" with {name} = {extent}"));
                    }
                }
            }
            Err(error)
        }
    }
}

/// The shape of an input that was not given one.
fn declared_shape(
    value: &Value,
    symbols: &BTreeMap<&str, usize>,
) -> Result<Vec<usize>, ModelError> {
    let open = || ModelError::InputOpen {
        name: value.name.clone(),
        declared: value
            .shape
            .as_deref()
            .map_or_else(|| "any".to_owned(), describe_dims),
    };
    value
        .shape
        .as_ref()
        .ok_or_else(open)?
        .iter()
        .map(|dim| match dim {
            Dim::Known(extent) => Ok(*extent),
            Dim::Symbol(name) => symbols.get(name.as_str()).copied().ok_or_else(open),
            Dim::Unknown => Err(open()),
        })
        .collect()
}

fn input_shape_error(value: &Value, shape: &[usize]) -> ModelError {
    ModelError::InputShape {
        name: value.name.clone(),
        got: shape.to_vec(),
        want: value
            .shape
            .as_deref()
            .map_or_else(|| "any".to_owned(), describe_dims),
    }
}

/// A declared shape for messages, such as `[1, batch, ?]`.
pub(crate) fn describe_dims(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Known(extent) => extent.to_string(),
            Dim::Symbol(name) => name.clone(),
            Dim::Unknown => "?".to_owned(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

/// Whether `dims` may stand for `shape`: as many axes, and all fixed extents equal.
pub(crate) fn may_be(dims: &[Dim], shape: &[usize]) -> bool {
    let fits = |(dim, extent): (&Dim, &usize)| !matches!(dim, Dim::Known(n) if n != extent);
    dims.len() == shape.len() && dims.iter().zip(shape).all(fits)
}
