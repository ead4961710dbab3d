//! The directions in which the inputs of a layer vary most.
//!
//! ```text
//! scatter = V diag(variance) V^T       largest variance first
//! share_i = variance_i / sum of all    PEFT's explained variance ratio, sorted
//! sign    the element of each direction that is largest in size, the first of several, is above zero
//! ```
//!
//! The inputs' mean is taken off, and signs are chosen, as in `IncrementalPCA` of PEFT 0.21.2.

use super::moments::Moments;
use crate::kernel::symmetric::{Eigen, largest};

/// Principal directions of inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Directions {
    /// `[count, columns]`, each of length 1, largest variance first. Fewer than were asked for if the inputs vary in no
    /// more directions.
    pub vectors: Vec<f64>,
    /// Of the inputs' variance, the part that lies in each direction.
    pub shares: Vec<f64>,
    /// Of the inputs without their mean, by direction.
    pub singular_values: Vec<f64>,
    /// Elements of an input.
    pub columns: usize,
}

impl Directions {
    /// The first `count` of them, or as many as there are.
    pub(super) fn of(moments: &Moments, count: usize) -> Self {
        let columns = moments.columns();
        let scatter = moments.scatter();
        let total: f64 = (0..columns).map(|i| scatter[i * columns + i]).sum();
        let Eigen {
            values,
            mut vectors,
        } = largest(scatter, columns, count);
        // Below this there is rounding: of the decomposition, and of sums of so many terms.
        let terms = (moments.count() as f64).sqrt();
        let bound = total * f64::EPSILON * (columns as f64 + terms);
        let count = count.min(columns);
        let count = values[..count].iter().take_while(|&&v| v > bound).count();
        vectors.truncate(count * columns);
        for vector in vectors.chunks_exact_mut(columns) {
            let largest = vector
                .iter()
                .fold(0.0f64, |most, v| match v.abs() > most.abs() {
                    true => *v,
                    false => most,
                });
            if largest < 0.0 {
                vector.iter_mut().for_each(|v| *v = -*v);
            }
        }
        let values = &values[..count];
        Self {
            vectors,
            shares: values.iter().map(|v| v / total).collect(),
            singular_values: values.iter().map(|v| v.sqrt()).collect(),
            columns,
        }
    }

    /// The first `count` of them.
    pub(super) fn first(&self, count: usize) -> Self {
        let count = count.min(self.count());
        Self {
            vectors: self.vectors[..count * self.columns].to_vec(),
            shares: self.shares[..count].to_vec(),
            singular_values: self.singular_values[..count].to_vec(),
            columns: self.columns,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shares.len()
    }

    /// One of them.
    pub fn vector(&self, index: usize) -> &[f64] {
        &self.vectors[index * self.columns..][..self.columns]
    }
}
