//! Mean and products of the inputs of a layer, in memory that does not grow with their number.
//!
//! ```text
//! k      the first input, of which all are taken off: means far from zero then cost no digits
//! sums   sum of (x - k)
//! gram   sum of (x - k)(x - k)^T, the triangle below the diagonal
//! scatter = gram - sums sums^T / count      what the inputs vary, around their mean
//! ```
//!
//! Each element is one chain of additions in the order of the inputs, so bits depend neither on how these are cut into
//! batches nor on threads.

use std::ops::Range;

use crate::kernel::threads::{cut, for_each, runs, worth};

/// Inputs that are added at a time: so many stay near while every row of the triangle passes.
const AT_ONCE: usize = 64;

/// What is known of the inputs of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    count: u64,
    origin: Vec<f64>,
    sums: Vec<f64>,
    /// Row `i` has `i + 1` elements.
    gram: Vec<Vec<f64>>,
}

impl Moments {
    /// Of no inputs of this many columns.
    pub(super) fn new(columns: usize) -> Self {
        Self {
            count: 0,
            origin: Vec::new(),
            sums: vec![0.0; columns],
            gram: (1..=columns).map(|len| vec![0.0; len]).collect(),
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.sums.len()
    }

    /// Inputs that were added.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds inputs, `[.., columns]`, which are finite.
    pub(super) fn add(&mut self, inputs: &[f64]) {
        let columns = self.columns();
        for some in inputs.chunks(AT_ONCE * columns) {
            if self.origin.is_empty() {
                self.origin = some[..columns].to_vec();
            }
            let rows = some.chunks_exact(columns);
            let moved = rows.flat_map(|x| x.iter().zip(&self.origin).map(|(x, k)| x - k));
            let moved: Vec<f64> = moved.collect();
            self.add_moved(&moved);
            self.count += (some.len() / columns) as u64;
        }
    }

    fn add_moved(&mut self, inputs: &[f64]) {
        let columns = self.columns();
        for x in inputs.chunks_exact(columns) {
            self.sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        }
        let threads = worth(inputs.len() * columns / 2);
        // Rows at the end are longer; short runs even that out.
        let runs = runs(columns, 1, threads * threads);
        let parts = cut(&mut self.gram, &runs, 1);
        let parts: Vec<(Range<usize>, &mut [Vec<f64>])> = runs.iter().cloned().zip(parts).collect();
        for_each(threads, parts, |(run, rows)| {
            for (i, row) in run.zip(rows) {
                for x in inputs.chunks_exact(columns) {
                    let by = x[i];
                    row.iter_mut().zip(x).for_each(|(sum, x)| *sum += by * x);
                }
            }
        });
    }

    /// The sum of squares that the scatter is what is left of.
    pub(super) fn size(&self) -> f64 {
        self.gram.iter().filter_map(|row| row.last()).sum()
    }

    /// What the inputs vary around their mean, `[columns, columns]`.
    pub(super) fn scatter(&self) -> Vec<f64> {
        let columns = self.columns();
        let mut scatter = vec![0.0; columns * columns];
        let count = self.count.max(1) as f64;
        for (i, row) in self.gram.iter().enumerate() {
            for (j, sum) in row.iter().enumerate() {
                let value = sum - self.sums[i] * self.sums[j] / count;
                scatter[i * columns + j] = value;
                scatter[j * columns + i] = value;
            }
        }
        scatter
    }
}
