//! The challenge's random numbers: a seed from a segment's name, and the generator of numpy's legacy interface.
//!
//! ```text
//! seed = int(md5(name), 16) % 10000        MD5 picks, and protects nothing
//! np.random.seed(seed); np.random.random_sample()
//! ```
//!
//! Source: Matsumoto, Nishimura (1998), `genrand_res53`, for the 53 bits of a sample.

use md5::{Digest as _, Md5};
use rand_mt::Mt;

/// The challenge's seed of a segment: the digest of its name, read as one big-endian number, of which the last four
/// decimal digits are taken.
pub(super) fn seed_of(name: &str) -> u64 {
    let digest = Md5::digest(name.as_bytes());
    let digits = digest.into_iter();
    digits.fold(0, |rest, byte| (rest * 256 + u64::from(byte)) % 10_000)
}

/// Numbers as `numpy.random` draws them after `numpy.random.seed`.
#[derive(Debug, Clone)]
pub(super) struct Draws(Mt);

impl Draws {
    pub(super) fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// Uniform in [0, 1) with 53 bits, as `numpy.random.random_sample`.
    pub(super) fn uniform(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }
}
