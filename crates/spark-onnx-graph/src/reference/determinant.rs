//! Determinants, by elimination: the product of the pivots, each the greatest that is left in its column.

use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::{Det, TensorType};

impl Evaluate for Det {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            let x = inputs.get(0)?;
            let n = x.shape().last().copied().unwrap_or(0);
            let count: usize = ty.shape.iter().product();
            let values = x.to_f64();
            let matrices = (0..count).map(|i| values[i * n * n..][..n * n].to_vec());
            from_floats(ty, matrices.map(|matrix| determinant(matrix, n)).collect())
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }

    fn reads_per_result(&self, working: &Working<'_>) -> usize {
        let n = working
            .shapes()
            .first()
            .and_then(|shape| shape.last().copied());
        let n = n.unwrap_or(0);
        n.saturating_mul(n).saturating_mul(n)
    }
}

/// Of a matrix without rows it is 1, the product of nothing.
pub(super) fn determinant(mut a: Vec<f64>, n: usize) -> f64 {
    let mut product = 1.0;
    for k in 0..n {
        let column = k..n;
        let greatest = column.max_by(|&i, &j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs()));
        let pivot = greatest.unwrap_or(k);
        if pivot != k {
            for j in 0..n {
                a.swap(pivot * n + j, k * n + j);
            }
            product = -product;
        }
        let head = a[k * n + k];
        product *= head;
        if head == 0.0 {
            return product;
        }
        for i in k + 1..n {
            let factor = a[i * n + k] / head;
            for j in k..n {
                a[i * n + j] -= factor * a[k * n + j];
            }
        }
    }
    product
}
