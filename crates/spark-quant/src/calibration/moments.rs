//! Second moments of a product's inputs, as they are and as they arrive rounded.
//!
//! ```text
//! rows x [row][input], exact       cross[i][j]   = mean of x[i] x^[j]
//! rows x^, the same, rounded       rounded[i][j] = mean of x^[i] x^[j]
//!
//! inputs  |-- part --|-- part --|-- part --|      at most 1024 each, so that memory and time are bounded;
//!                                                 what lies between two parts is left out
//! ```
//!
//! This is all that rounding weights for their inputs needs to know of them ([`compensate`](super::compensate)),
//! however many rows there were. Eight rows are added in f32, the sums of eight in f64: results do not depend on the
//! instruction set or the number of threads, but in their last digits on how rows are cut into calls.
//!
//! Deliberately absent: first moments; a bias is not changed.

use std::ops::Range;

use crate::error::QuantError;
use crate::simd::{ExecutionPolicy, Kernel, Simd};
use crate::threads::for_parts;

/// Most inputs whose products with each other are kept.
const MAX_PART: usize = 1024;
/// Rows whose products are added in f32.
const TOGETHER: usize = 8;

/// Second moments of the inputs of one matrix product.
#[derive(Debug, Clone)]
pub struct InputMoments {
    depth: usize,
    n_rows: u64,
    parts: Vec<Part>,
}

/// Those of some neighbouring inputs, as sums.
#[derive(Debug, Clone)]
struct Part {
    inputs: Range<usize>,
    /// `[i][j]`, of rounded and rounded inputs.
    rounded: Vec<f64>,
    /// `[i][j]`, of exact and rounded inputs.
    cross: Vec<f64>,
}

/// The means of one part, `[i][j]`.
pub(super) struct PartMeans {
    pub(super) inputs: Range<usize>,
    pub(super) rounded: Vec<f64>,
    pub(super) cross: Vec<f64>,
}

impl InputMoments {
    /// Of rows of `depth` inputs, none seen yet. Takes at most 16 KiB per input.
    pub fn new(depth: usize) -> Self {
        let n_parts = depth.div_ceil(MAX_PART);
        let starts = (0..n_parts).map(|part| depth * part / n_parts);
        let ends = (1..=n_parts).map(|part| depth * part / n_parts);
        let parts = starts.zip(ends).map(|(start, end)| {
            let len = end - start;
            Part {
                inputs: start..end,
                rounded: vec![0.0; len * len],
                cross: vec![0.0; len * len],
            }
        });
        Self {
            depth,
            n_rows: 0,
            parts: parts.collect(),
        }
    }

    /// Inputs of a row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Rows that were seen.
    pub fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// Takes in rows `[row][input]`: `exact` as the unrounded network computes them, `rounded` as they enter the
    /// product of the rounded one.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotAMultiple`] unless `exact` is whole rows, [`QuantError::LengthMismatch`] unless `rounded` is as
    /// long, [`QuantError::NotFinite`] for a value that is not. Nothing is taken in then.
    pub fn observe(
        &mut self,
        policy: ExecutionPolicy,
        exact: &[f32],
        rounded: &[f32],
    ) -> Result<(), QuantError> {
        QuantError::check_length("rounded", rounded.len(), exact.len())?;
        if exact.is_empty() {
            return Ok(());
        }
        QuantError::check_multiple("exact", exact.len(), self.depth)?;
        for values in [exact, rounded] {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(QuantError::NotFinite {
                    index,
                    value: values[index],
                });
            }
        }
        let depth = self.depth;
        for part in &mut self.parts {
            let len = part.inputs.len();
            let work_bytes = exact.len() * len;
            for (left, sums) in [(rounded, &mut part.rounded), (exact, &mut part.cross)] {
                for_parts(policy, sums, len, work_bytes, |first, sums| {
                    policy.run(AddProducts {
                        left,
                        right: rounded,
                        depth,
                        inputs: part.inputs.clone(),
                        first,
                        sums,
                    });
                });
            }
        }
        self.n_rows += (exact.len() / depth) as u64;
        Ok(())
    }

    /// The means of every part.
    pub(super) fn means(&self) -> impl Iterator<Item = PartMeans> {
        let n = self.n_rows.max(1) as f64;
        let mean = move |sums: &[f64]| sums.iter().map(|sum| sum / n).collect();
        self.parts.iter().map(move |part| PartMeans {
            inputs: part.inputs.clone(),
            rounded: mean(&part.rounded),
            cross: mean(&part.cross),
        })
    }
}

/// `sums[i - first][j] += sum over rows of left[row][i] right[row][j]`, for some `i` and all `j` of a part.
struct AddProducts<'a> {
    left: &'a [f32],
    right: &'a [f32],
    depth: usize,
    inputs: Range<usize>,
    first: usize,
    sums: &'a mut [f64],
}

impl Kernel for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let len = self.inputs.len();
        let block = self.depth * TOGETHER;
        for (left, right) in self.left.chunks(block).zip(self.right.chunks(block)) {
            let n_rows = left.len() / self.depth;
            // Rows that are not there count as zeros.
            let zeros = [0.0; MAX_PART];
            let mut rows = [&zeros[..len]; TOGETHER];
            for (r, row) in rows.iter_mut().enumerate().take(n_rows) {
                *row = &right[r * self.depth..][self.inputs.clone()];
            }
            let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
            for (i, sums) in self.sums.chunks_exact_mut(len).enumerate() {
                let mut c = [0.0; TOGETHER];
                for (r, c) in c.iter_mut().enumerate().take(n_rows) {
                    *c = left[r * self.depth + self.inputs.start + self.first + i];
                }
                for j in 0..len {
                    let low = (c[0] * r0[j] + c[1] * r1[j]) + (c[2] * r2[j] + c[3] * r3[j]);
                    let high = (c[4] * r4[j] + c[5] * r5[j]) + (c[6] * r6[j] + c[7] * r7[j]);
                    sums[j] += f64::from(low + high);
                }
            }
        }
    }
}
