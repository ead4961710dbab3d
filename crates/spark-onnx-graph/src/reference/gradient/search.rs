//! Gradients of operators that choose by size.

use super::super::index::Lines;
use super::super::operator::{Evaluate, Working, times};
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated, no_operand, zero_by_definition};
use crate::graph::infer::op_error;
use crate::graph::{ArgReduce, TensorType, TopK, resolve_axis};
use crate::tensor::DType;

/// Each value that was chosen hands its gradient to where it stood.
impl Differentiate for TopK {
    fn kind(&self, asked: Asked) -> GradientKind {
        asked.first_alone()
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let Some(values) = at.types.first() else {
            return Err(no_operand(operand));
        };
        let indices = TensorType {
            dtype: DType::I64,
            shape: values.shape.clone(),
        };
        let results = self.evaluate(at.inputs, &[values.clone(), indices])?;
        let places = results.get(1).and_then(|indices| indices.as_i64());
        let places = places.ok_or_else(|| op_error!("no indices"))?;
        let mut gradient = at.zeros(0)?;
        // On the indices alone nothing hangs.
        let Ok(dy) = at.dy() else {
            return Ok(gradient);
        };
        let axis = resolve_axis(self.axis, values.shape.len())?;
        let mut chosen = Vec::new();
        Lines::new(&values.shape, axis).for_each(|line| chosen.push(line.to_vec()));
        let mut chosen = chosen.iter();
        Lines::new(at.shape(0)?, axis).for_each(|line| {
            for &result in chosen.next().into_iter().flatten() {
                gradient[line[places[result] as usize]] += dy[result];
            }
        });
        Ok(gradient)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let elements = working.read().saturating_add(working.written());
        working.computed_with(times(elements, 256))
    }
}

zero_by_definition!(ArgReduce);
