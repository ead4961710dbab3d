//! Mean and products of the inputs of a layer, in memory that does not grow with their number.
//!
//! ```text
//! k        the first input, of which all are taken off: y = x - k
//! block    64 inputs one after the other, the last maybe fewer; m their mean, n their number
//! scatter  sum of (y - m)(y - m)^T of each block                       what inputs vary, around the mean of all
//!          + (m - mean)(m - mean)^T n before / (before + n)            mean: of those before
//! ```
//!
//! No sum of squares is taken from another, so that inputs far from zero, or from the first of them, cost the scatter no digits; what
//! inputs cost is the last bit of y. Each element is one chain of additions in the order of the inputs, so bits depend neither on how these
//! are cut into batches nor on threads.
//!
//! Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979).

use std::ops::Range;

use crate::kernel::threads::{cut, for_each, runs, worth};

/// Inputs of a block: so many stay near while every row of the triangle passes.
const AT_ONCE: usize = 64;

/// What is known of the inputs of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    /// Inputs of whole blocks.
    count: u64,
    origin: Vec<f64>,
    /// Of whole blocks, from the origin.
    mean: Vec<f64>,
    /// The scatter of whole blocks, the triangle below the diagonal: row `i` has `i + 1` elements.
    triangle: Vec<Vec<f64>>,
    /// Inputs of the block that is not whole yet, from the origin.
    waiting: Vec<f64>,
}

/// What a block adds.
struct Block {
    /// Rows whose products are added to the scatter.
    rows: Vec<f64>,
    mean: Vec<f64>,
    count: u64,
}

impl Moments {
    /// Of no inputs of this many columns.
    pub(super) fn new(columns: usize) -> Self {
        Self {
            count: 0,
            origin: Vec::new(),
            mean: vec![0.0; columns],
            triangle: (1..=columns).map(|len| vec![0.0; len]).collect(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Inputs that were added.
    pub(super) fn count(&self) -> u64 {
        self.count + (self.waiting.len() / self.columns().max(1)) as u64
    }

    /// Adds inputs, `[.., columns]`, which are finite.
    pub(super) fn add(&mut self, inputs: &[f64]) {
        let columns = self.columns();
        for x in inputs.chunks_exact(columns) {
            if self.origin.is_empty() {
                self.origin = x.to_vec();
            }
            let moved = x.iter().zip(&self.origin).map(|(x, k)| x - k);
            self.waiting.extend(moved);
            if self.waiting.len() == AT_ONCE * columns {
                let block = self.block();
                self.waiting.clear();
                let triangle = self.triangle.iter_mut().map(Vec::as_mut_slice);
                add_products(triangle.collect(), &block.rows);
                self.count += block.count;
                self.mean = block.mean;
            }
        }
    }

    /// What the inputs that wait add as a block, with the mean of all then.
    fn block(&self) -> Block {
        let columns = self.columns();
        let count = self.waiting.len() / columns.max(1);
        let mut mean = vec![0.0; columns];
        let inputs = || self.waiting.chunks_exact(columns.max(1));
        // From the first of them: the mean of inputs that are the same is them.
        let first = &self.waiting[..columns.min(self.waiting.len())];
        for y in inputs() {
            let moved = y.iter().zip(first).map(|(y, first)| y - first);
            mean.iter_mut().zip(moved).for_each(|(sum, y)| *sum += y);
        }
        let of_first = mean.iter_mut().zip(first);
        of_first.for_each(|(sum, first)| *sum = first + *sum / count as f64);
        let moved = inputs().flat_map(|y| y.iter().zip(&mean).map(|(y, mean)| y - mean));
        let mut rows: Vec<f64> = moved.collect();
        let (before, own) = (self.count as f64, count as f64);
        if self.count > 0 && count > 0 {
            let all = before + own;
            let by = (before / all * own).sqrt();
            let apart = mean.iter().zip(&self.mean).map(|(own, of)| own - of);
            let apart: Vec<f64> = apart.collect();
            rows.extend(apart.iter().map(|d| d * by));
            let new = self
                .mean
                .iter()
                .zip(&apart)
                .map(|(of, d)| of + d * own / all);
            mean = new.collect();
        }
        Block {
            rows,
            mean,
            count: count as u64,
        }
    }

    /// What the inputs vary around their mean, `[columns, columns]`.
    pub(super) fn scatter(&self) -> Vec<f64> {
        let columns = self.columns();
        let block = self.block();
        let mut scatter = vec![0.0; columns * columns];
        let rows = scatter.chunks_exact_mut(columns.max(1)).enumerate();
        let mut rows: Vec<&mut [f64]> = rows.map(|(i, row)| &mut row[..=i]).collect();
        for (row, own) in rows.iter_mut().zip(&self.triangle) {
            row.copy_from_slice(own);
        }
        add_products(rows, &block.rows);
        for i in 0..columns {
            for j in 0..i {
                scatter[j * columns + i] = scatter[i * columns + j];
            }
        }
        scatter
    }
}

/// Adds the products of each of these inputs with itself to a triangle, by its rows.
fn add_products(mut triangle: Vec<&mut [f64]>, inputs: &[f64]) {
    let columns = triangle.len();
    let threads = worth(inputs.len() * columns / 2);
    // Rows at the end are longer; short runs even that out.
    let runs = runs(columns, 1, threads * threads);
    let parts = cut(&mut triangle, &runs, 1);
    let parts: Vec<(Range<usize>, &mut [&mut [f64]])> = runs.iter().cloned().zip(parts).collect();
    for_each(threads, parts, |(run, rows)| {
        for (i, row) in run.zip(rows) {
            for x in inputs.chunks_exact(columns) {
                let by = x[i];
                row.iter_mut().zip(x).for_each(|(sum, x)| *sum += by * x);
            }
        }
    });
}
