//! Random Hadamard rotation: spreads outliers over a block before it is quantized.
//!
//! ```text
//! y = (1/sqrt d) H_d diag(signs) x        per run of d values, d = 16, 32, 64, 128
//! x = diag(signs) (1/sqrt d) H_d y        H is its own inverse up to the factor
//! ```
//!
//! A dot product does not change when both sides are rotated, so activations rotated the same way
//! meet rotated weights. The butterflies run in a fixed order, so the bits do not depend on the
//! processor. On weights in NVFP4 a rotation costs a little accuracy and in MXFP4 it gains some on
//! heavy tails: measure before using it.

use crate::error::QuantError;
use crate::simd::{ExecutionPolicy, Kernel, Simd};
use crate::threads::for_parts;

use super::stochastic::philox;

/// A Hadamard rotation with random signs along the quantized axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rotation {
    size: usize,
    seed: u64,
}

impl Rotation {
    /// A rotation of runs of `size` values, signs drawn from `seed`.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] unless `size` is 16, 32, 64 or 128.
    pub fn new(size: usize, seed: u64) -> Result<Self, QuantError> {
        if [16, 32, 64, 128].contains(&size) {
            Ok(Self { size, seed })
        } else {
            Err(QuantError::Unsupported {
                operation: "Hadamard rotation",
                format: format!("runs of {size}"),
            })
        }
    }

    /// Values per run that are rotated together: 16, 32, 64 or 128.
    pub const fn size(self) -> usize {
        self.size
    }

    /// Seed of the signs.
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Signs of a run, `size` of them.
    pub fn signs(self) -> Vec<f32> {
        let words = (0..).flat_map(|counter| philox(self.seed, counter));
        words
            .take(self.size)
            .map(|word| if word >> 31 == 1 { -1.0 } else { 1.0 })
            .collect()
    }

    /// Rotates every run of `values` in place.
    ///
    /// # Panics
    ///
    /// If the length is no multiple of [`Rotation::size`].
    pub fn apply(self, policy: ExecutionPolicy, values: &mut [f32]) {
        self.run(policy, values, false);
    }

    /// Undoes [`Rotation::apply`] up to f32 rounding.
    ///
    /// # Panics
    ///
    /// As [`Rotation::apply`].
    pub fn undo(self, policy: ExecutionPolicy, values: &mut [f32]) {
        self.run(policy, values, true);
    }

    fn run(self, policy: ExecutionPolicy, values: &mut [f32], inverse: bool) {
        assert!(
            values.len().is_multiple_of(self.size),
            "{} values are no whole runs of {}",
            values.len(),
            self.size
        );
        let signs = &self.signs();
        let bytes = size_of_val(values);
        for_parts(policy, values, self.size, bytes, |_, values| {
            match self.size {
                16 => policy.run(Rotate::<16> {
                    values,
                    signs,
                    inverse,
                }),
                32 => policy.run(Rotate::<32> {
                    values,
                    signs,
                    inverse,
                }),
                64 => policy.run(Rotate::<64> {
                    values,
                    signs,
                    inverse,
                }),
                _ => policy.run(Rotate::<128> {
                    values,
                    signs,
                    inverse,
                }),
            }
        });
    }
}

struct Rotate<'a, const D: usize> {
    values: &'a mut [f32],
    signs: &'a [f32],
    inverse: bool,
}

impl<const D: usize> Kernel for Rotate<'_, D> {
    type Output = ();

    /// Plain loops of fixed length: the compiler vectorizes them for the level it is entered with.
    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Some(signs) = self.signs.first_chunk::<D>() else {
            return;
        };
        let scale = 1.0 / (D as f32).sqrt();
        for run in self.values.as_chunks_mut::<D>().0 {
            if !self.inverse {
                for i in 0..D {
                    run[i] *= signs[i];
                }
            }
            let mut width = 1;
            while width < D {
                for pair in 0..D / 2 {
                    let low = pair / width * 2 * width + pair % width;
                    let (a, b) = (run[low], run[low + width]);
                    run[low] = a + b;
                    run[low + width] = a - b;
                }
                width *= 2;
            }
            for i in 0..D {
                run[i] *= if self.inverse {
                    scale * signs[i]
                } else {
                    scale
                };
            }
        }
    }
}
