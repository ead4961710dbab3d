//! Activations through a format and back, in place, without taking memory.
//!
//! ```text
//! largest = RoundTrip::largest(values)        every part of the tensor, on any thread; then the most
//! trip    = RoundTrip::new(recipe, largest)
//! trip.apply(rows, depth)                     any whole rows, on any thread
//! ```
//!
//! The result is that of [`Quantizer::round_trip`](super::Quantizer::round_trip), bit for bit: the
//! same kernels, a piece of a few thousand values at a time, whose codes lie on the stack.
//!
//! Deliberately absent: scales of rows and rectangles, MX, INT8, searches, rotation.

use crate::error::QuantError;
use crate::simd::ExecutionPolicy;

use super::nvfp4::{self, BLOCK, MaxBits};
use super::plain::{self, Element};
use super::{Granularity, Nvfp4Formula, Recipe, ScaleSearch};

/// Values of a piece.
const PIECE: usize = 4096;

/// What a tensor with a known largest magnitude goes through.
///
/// # Examples
///
/// ```
/// use spark_quant::block::RoundTrip;
/// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
/// let mut values: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
/// let want = Quantizer::new(Recipe::NVFP4).round_trip(ExecutionPolicy::detect(), &values, &[2, 32], 1)?;
/// let largest = RoundTrip::largest(ExecutionPolicy::detect(), &values)?;
/// RoundTrip::new(Recipe::NVFP4, largest)?.apply(ExecutionPolicy::detect(), &mut values, 32)?;
/// assert_eq!(values, want);
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    kind: Kind,
    /// One scale for all values.
    tensor: f32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Nvfp4(Nvfp4Formula),
    Plain(Element),
}

impl RoundTrip {
    /// Largest magnitude of some values; 0 of none.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotFinite`] with the position in `values` of the first that is not.
    pub fn largest(policy: ExecutionPolicy, values: &[f32]) -> Result<f32, QuantError> {
        let bits = policy.run(MaxBits(values));
        let largest = f32::from_bits(bits);
        if largest.is_finite() {
            return Ok(largest);
        }
        let mut positions = values.iter().enumerate();
        let (index, &value) = positions
            .find(|(_, value)| !value.is_finite())
            .unwrap_or((0, &f32::NAN));
        Err(QuantError::NotFinite { index, value })
    }

    /// The round trip of `recipe` for a tensor whose largest magnitude is `largest`.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] unless `recipe` is NVFP4 by the largest magnitude, or FP8 with one
    /// scale per tensor; [`QuantError::NotFinite`] if `largest` is not.
    pub fn new(recipe: Recipe, largest: f32) -> Result<Self, QuantError> {
        if !largest.is_finite() {
            return Err(QuantError::NotFinite {
                index: 0,
                value: largest,
            });
        }
        match recipe {
            Recipe::Nvfp4 {
                formula,
                search: ScaleSearch::Amax,
            } => Ok(Self {
                kind: Kind::Nvfp4(formula),
                tensor: nvfp4::tensor_scale(largest, ScaleSearch::Amax),
            }),
            Recipe::Fp8 {
                format,
                granularity: Granularity::Tensor,
            } if format.spec().bits() == 8 => {
                let element = Element::Float(format);
                Ok(Self {
                    kind: Kind::Plain(element),
                    tensor: element.scale(largest),
                })
            }
            other => Err(QuantError::Unsupported {
                operation: "a round trip in place",
                format: format!("{other:?}"),
            }),
        }
    }

    /// The same with a scale that was chosen before: what code 1.0 stands for, of FP8, or the tensor's, of NVFP4.
    ///
    /// # Errors
    ///
    /// As [`RoundTrip::new`], and [`QuantError::Scale`] for a scale that is not above zero and finite, or of NVFP4
    /// below `2^-112`.
    pub fn with_scale(recipe: Recipe, scale: f32) -> Result<Self, QuantError> {
        let trip = Self::new(recipe, 0.0)?;
        let least = match trip.kind {
            Kind::Nvfp4(_) => nvfp4::MIN_TENSOR_SCALE,
            Kind::Plain(_) => f32::MIN_POSITIVE,
        };
        if !(scale >= least && scale.is_finite()) {
            return Err(QuantError::Scale {
                index: 0,
                value: scale,
                want: "finite scale, not too small for its reciprocal",
            });
        }
        Ok(Self {
            tensor: scale,
            ..trip
        })
    }

    /// Takes `rows`, each of `depth` values, through the format and back. Blocks run along a row; a
    /// last one that is short is treated as padded with zeros.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotAMultiple`] unless `rows` is whole rows; it is then untouched. A magnitude
    /// beyond the largest one is the caller's mistake and becomes the format's largest.
    pub fn apply(
        &self,
        policy: ExecutionPolicy,
        rows: &mut [f32],
        depth: usize,
    ) -> Result<(), QuantError> {
        if rows.is_empty() {
            return Ok(());
        }
        if depth == 0 || !rows.len().is_multiple_of(depth) {
            return Err(QuantError::NotAMultiple {
                what: "values",
                got: rows.len(),
                multiple: depth,
            });
        }
        match self.kind {
            Kind::Nvfp4(formula) if depth.is_multiple_of(BLOCK) => {
                self.blocks(policy, formula, rows);
            }
            Kind::Nvfp4(formula) => {
                for row in rows.chunks_exact_mut(depth) {
                    let (whole, rest) = row.split_at_mut(depth / BLOCK * BLOCK);
                    self.blocks(policy, formula, whole);
                    let mut padded = [0.0; BLOCK];
                    padded[..rest.len()].copy_from_slice(rest);
                    self.blocks(policy, formula, &mut padded);
                    rest.copy_from_slice(&padded[..rest.len()]);
                }
            }
            Kind::Plain(element) => {
                let mut codes = [0; PIECE];
                for values in rows.chunks_mut(PIECE) {
                    let codes = &mut codes[..values.len()];
                    plain::encode(policy, values, codes, self.tensor, element);
                    policy.run(plain::Dequantize {
                        codes,
                        values,
                        scale: self.tensor,
                        element,
                        stream: false,
                    });
                }
            }
        }
        Ok(())
    }

    /// Values of whole blocks, a piece at a time.
    fn blocks(&self, policy: ExecutionPolicy, formula: Nvfp4Formula, values: &mut [f32]) {
        let (mut codes, mut scales) = ([0; PIECE / 2], [0; PIECE / BLOCK]);
        for values in values.chunks_mut(PIECE) {
            let codes = &mut codes[..values.len() / 2];
            let scales = &mut scales[..values.len() / BLOCK];
            policy.run(nvfp4::Quantize {
                values,
                codes,
                scales,
                tensor: self.tensor,
                formula,
                search: ScaleSearch::Amax,
                stream: false,
            });
            policy.run(nvfp4::Dequantize {
                codes,
                scales,
                tensor: self.tensor,
                values,
                stream: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantizer;
    use crate::scalar::MiniFormat;

    const E4M3: Recipe = Recipe::Fp8 {
        format: MiniFormat::E4m3,
        granularity: Granularity::Tensor,
    };

    /// Numbers of many magnitudes, a row of zeros among them.
    fn drawn(n_rows: usize, depth: usize) -> Vec<f32> {
        let mut state = 0x9e37_79b9_u32;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let mut values: Vec<f32> = (0..n_rows * depth)
            .map(|_| (draw() as f32 / 2.0_f32.powi(31) - 1.0) * 10.0_f32.powi(draw() as i32 % 5))
            .collect();
        values[..depth].fill(0.0);
        values
    }

    #[test]
    fn a_scale_chosen_before_clips_what_is_beyond_it() {
        let policy = ExecutionPolicy::detect();
        for (recipe, least) in [
            (Recipe::NVFP4, nvfp4::MIN_TENSOR_SCALE),
            (E4M3, f32::MIN_POSITIVE),
        ] {
            let values = drawn(8, 32);
            let largest = RoundTrip::largest(policy, &values).expect("finite");
            let trip = RoundTrip::new(recipe, largest).expect("known");
            let (mut want, mut got) = (values.clone(), values.clone());
            trip.apply(policy, &mut want, 32).expect("whole rows");
            let fixed = RoundTrip::with_scale(recipe, trip.tensor).expect("known");
            fixed.apply(policy, &mut got, 32).expect("whole rows");
            assert_eq!(got, want);
            let small = RoundTrip::with_scale(recipe, trip.tensor / 64.0).expect("known");
            let mut clipped = values;
            small.apply(policy, &mut clipped, 32).expect("whole rows");
            let most = clipped.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            assert!(most <= 1.001 * largest / 64.0, "{most} of {largest}");
            for bad in [0.0, -1.0, f32::NAN, f32::INFINITY, least / 2.0] {
                let refused = RoundTrip::with_scale(recipe, bad);
                assert!(matches!(refused, Err(QuantError::Scale { .. })), "{bad}");
            }
        }
        let unknown = RoundTrip::with_scale(Recipe::INT8, 1.0);
        assert!(matches!(unknown, Err(QuantError::Unsupported { .. })));
    }

    #[test]
    fn pieces_and_rows_have_the_bits_of_the_whole_tensor() {
        let formulas = [Nvfp4Formula::ModelOpt, Nvfp4Formula::TorchAo];
        let nvfp4 = formulas.map(|formula| Recipe::Nvfp4 {
            formula,
            search: ScaleSearch::Amax,
        });
        for policy in ExecutionPolicy::every_level() {
            for recipe in [nvfp4[0], nvfp4[1], E4M3] {
                for (n_rows, depth) in [(3, 16), (5, 7), (9, 40), (70, 256), (3, 5000), (2, 1)] {
                    let values = drawn(n_rows, depth);
                    let shape = [n_rows, depth];
                    let want = Quantizer::new(recipe).round_trip(policy, &values, &shape, 1);
                    let largest = RoundTrip::largest(policy, &values).expect("finite");
                    let trip = RoundTrip::new(recipe, largest).expect("supported");
                    let mut got = values;
                    // In two parts, as two threads would.
                    let (first, second) = got.split_at_mut(n_rows / 2 * depth);
                    trip.apply(policy, second, depth).expect("whole rows");
                    trip.apply(policy, first, depth).expect("whole rows");
                    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    let want = bits(&want.expect("finite"));
                    assert!(
                        bits(&got) == want,
                        "{recipe:?} {shape:?} {:?}",
                        policy.level()
                    );
                }
            }
        }
    }

    #[test]
    fn zeros_alone_stay_zeros() {
        let policy = ExecutionPolicy::one_thread();
        for recipe in [Recipe::NVFP4, E4M3] {
            let mut values = [0.0; 48];
            let largest = RoundTrip::largest(policy, &values).expect("finite");
            let trip = RoundTrip::new(recipe, largest).expect("supported");
            trip.apply(policy, &mut values, 24).expect("whole rows");
            assert_eq!(values, [0.0; 48]);
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let policy = ExecutionPolicy::one_thread();
        let error = RoundTrip::largest(policy, &[1.0, f32::NEG_INFINITY, f32::NAN]);
        let is_second =
            |e: &QuantError| matches!(e, QuantError::NotFinite { index: 1, value } if *value < 0.0);
        assert!(error.as_ref().is_err_and(is_second), "{error:?}");
        assert!(RoundTrip::new(Recipe::NVFP4_SWEEP, 1.0).is_err());
        assert!(RoundTrip::new(Recipe::FP8, 1.0).is_err());
        assert!(RoundTrip::new(Recipe::NVFP4, f32::INFINITY).is_err());
        let trip = RoundTrip::new(Recipe::NVFP4, 1.0).expect("supported");
        let mut values = [0.3; 17];
        assert!(trip.apply(policy, &mut values, 16).is_err());
        assert!(trip.apply(policy, &mut values, 0).is_err());
        assert_eq!(values, [0.3; 17]);
    }
}
