//! Elements and slices that differ.
//!
//! Which they are is worked out where the result's shape is (`crate::graph::infer`).

use super::index::Lines;
use super::movement::{pick, positions};
use super::operator::{Evaluate, Evaluated, Inputs, Working, times};
use crate::graph::infer::distinct;
use crate::graph::{TensorType, Unique, resolve_axis};

impl Evaluate for Unique {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        let x = inputs.get(0)?;
        let distinct = distinct(*self, x)?;
        let mut sources = vec![(0, 0); types[0].shape.iter().product()];
        match self.axis {
            None => {
                for (to, &from) in sources.iter_mut().zip(&distinct.first) {
                    *to = (0, from);
                }
            }
            Some(axis) => {
                let axis = resolve_axis(axis, x.shape().len())?;
                let Lines { extent, inner, .. } = Lines::new(&types[0].shape, axis);
                let from = Lines::new(x.shape(), axis);
                for (at, source) in sources.iter_mut().enumerate() {
                    let (outer, slice) = (at / inner / extent, at / inner % extent);
                    let first = distinct.first[slice];
                    source.1 = (outer * from.extent + first) * inner + at % inner;
                }
            }
        }
        let mut results = vec![pick(&[x], &sources, &types[0])?];
        let lists = [distinct.first, distinct.kind, distinct.count];
        for (ty, list) in types[1..].iter().zip(lists) {
            results.push(positions(ty, list)?);
        }
        Ok(results)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 128))
    }
}
