//! Dropout by counting: which elements are dropped follows from (seed, layer, step, index) alone.
//!
//! ```text
//! key       64 bits from the seed and the layer's name
//! counter   [index / 4, low, high | step, low, high]
//! words     Philox4x32-10(counter, key); element i has word i % 4
//! kept      word >= probability * 2^32, then divided by 1 - probability
//! ```
//!
//! No state is kept, so masks do not depend on threads, on the order of calls or on what ran before, and
//! a training that is resumed at a step goes on with that step's masks.
//!
//! Philox: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.

use candle_core::{Device, Result, Tensor};

use crate::random::Random;

/// The dropout of one layer: which elements of its inputs a pass of training drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    probability: f64,
    key: u64,
}

impl Dropout {
    /// No input is dropped: probability 0.
    pub(crate) const NONE: Self = Self {
        probability: 0.0,
        key: 0,
    };

    /// The dropout of `layer`; `probability` is in `0..1`.
    pub(crate) fn new(probability: f64, seed: u64, layer: &str) -> Self {
        Self {
            probability,
            key: Random::new(seed, layer).next(),
        }
    }

    /// How likely an element is dropped, in `0..1`.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The key of the generator where a network that somebody else runs uses the layer for the `nth` time in a pass. The layer's own
    /// key is the first, 0; a candle layer that is called twice in a step drops the same places twice.
    pub fn key(&self, nth: usize) -> u64 {
        match nth {
            0 => self.key,
            _ => Random::new(self.key, &nth.to_string()).next(),
        }
    }

    /// Whether nothing is ever dropped.
    pub(crate) fn is_none(&self) -> bool {
        self.probability == 0.0
    }

    /// `x` with elements dropped and the others made larger, so that the expectation stays.
    ///
    /// The mask is made on the host and copied to the device of `x`.
    pub(crate) fn thin(&self, x: &Tensor, step: u64) -> Result<Tensor> {
        let mask = self.mask(x.elem_count(), step);
        let mask = Tensor::from_vec(mask, x.dims(), &Device::Cpu)?;
        x * mask.to_dtype(x.dtype())?.to_device(x.device())?
    }

    /// What elements `0..len`, row-major, are multiplied by at a step.
    pub fn mask(&self, len: usize, step: u64) -> Vec<f32> {
        let threshold = (self.probability * (1u64 << 32) as f64).round() as u64;
        let kept = (1.0 / (1.0 - self.probability)) as f32;
        let [step_low, step_high] = halves(step);
        let mut mask = Vec::with_capacity(len.next_multiple_of(4));
        for block in 0..len.div_ceil(4) as u64 {
            let [low, high] = halves(block);
            let words = philox([low, high, step_low, step_high], halves(self.key));
            mask.extend(words.map(|word| {
                if u64::from(word) < threshold {
                    0.0
                } else {
                    kept
                }
            }));
        }
        mask.truncate(len);
        mask
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Philox4x32 with ten rounds.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let multiply = |a: u32, b: u32| halves(u64::from(a) * u64::from(b));
    for _ in 0..10 {
        let [low0, high0] = multiply(0xd251_1f53, counter[0]);
        let [low1, high1] = multiply(0xcd9e_8d57, counter[2]);
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
        key[0] = key[0].wrapping_add(0x9e37_79b9);
        key[1] = key[1].wrapping_add(0xbb67_ae85);
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' library Random123 (`kat_vectors`).
    #[test]
    fn philox_gives_its_authors_words() {
        let ones = u32::MAX;
        for (counter, key, want) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [ones; 4],
                [ones; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), want);
        }
    }

    /// `count` successes of `n` tries of probability `p`, within five standard deviations.
    #[track_caller]
    fn check_rate(what: &str, count: usize, n: usize, p: f64) {
        let deviation = (p * (1.0 - p) / n as f64).sqrt();
        let rate = count as f64 / n as f64;
        assert!(
            (rate - p).abs() <= 5.0 * deviation,
            "{what}: {rate}, not {p}"
        );
    }

    #[test]
    fn masks_drop_at_the_rate_and_are_independent_over_steps_layers_and_seeds() {
        let n = 200_000;
        for p in [0.05, 0.3, 0.9] {
            let base = Dropout::new(p, 7, "a").mask(n, 3);
            let dropped = base.iter().filter(|&&v| v == 0.0).count();
            check_rate("dropped", dropped, n, p);
            let others = [
                ("step", Dropout::new(p, 7, "a").mask(n, 4)),
                ("far step", Dropout::new(p, 7, "a").mask(n, 3 + (1 << 32))),
                ("layer", Dropout::new(p, 7, "b").mask(n, 3)),
                ("seed", Dropout::new(p, 8, "a").mask(n, 3)),
            ];
            for (what, other) in others {
                let both = base
                    .iter()
                    .zip(&other)
                    .filter(|(a, b)| **a == 0.0 && **b == 0.0);
                check_rate(what, both.count(), n, p * p);
            }
        }
        let keys = [0, 1, 2].map(|nth| Dropout::new(0.3, 7, "a").key(nth));
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        let short = Dropout::new(0.3, 7, "a").mask(101, 3);
        assert_eq!(short, Dropout::new(0.3, 7, "a").mask(n, 3)[..101]);
    }
}
