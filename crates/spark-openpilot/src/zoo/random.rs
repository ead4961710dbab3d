//! Weights from a seed, the same bytes on every machine.
//!
//! ```text
//! key(tensor) = fnv1a64(name) mixed with the seed
//! bits(i)     = splitmix64(key + i * 0x9e3779b97f4a7c15)
//! u(i)        = (2 * (top 23 bits as signed) + 1) / 2^23        in (-1, 1), exact in f32
//! weight(i)   = u(i) * bound                                    one IEEE multiplication
//! ```
//!
//! Counter-based: a weight depends on the seed, its tensor's name and its
//! position only, so inserting a layer leaves all other layers as they were.
//! Only integer operations and correctly rounded f32 ones are used, hence x86
//! and ARM agree bit for bit.
//!
//! SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014. FNV-1a: Fowler, Noll, Vo.
//!
//! Deliberately absent: normal deviates (their logarithms and sines differ
//! between C libraries) and any cryptographic claim.

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of reproducible random numbers, addressed by position.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream called `name` of `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self {
            key: mix(hash ^ mix(seed.wrapping_add(GOLDEN_GAMMA))),
        }
    }

    /// The 64 random bits at `position`.
    pub fn bits(self, position: u64) -> u64 {
        mix(self
            .key
            .wrapping_add(position.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
    }

    /// A value strictly inside (-1, 1), uniform over 2^23 evenly spaced points around zero.
    pub fn signed_unit(self, position: u64) -> f32 {
        let steps = (self.bits(position) >> 41) as i32 - (1 << 22);
        (2 * steps + 1) as f32 / (1 << 23) as f32
    }

    /// A value strictly inside (`low`, `high`) up to rounding.
    pub fn uniform(self, position: u64, low: f32, high: f32) -> f32 {
        low + (high - low) * (0.5 + 0.5 * self.signed_unit(position))
    }

    /// A whole number in `0..n`; `n` must not be zero. The bias is below `n / 2^32`.
    pub fn below(self, position: u64, n: u32) -> u32 {
        (((self.bits(position) >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of SplitMix64 seeded with 1234567, as the authors' test vector gives them.
        let stream = Stream { key: 1_234_567 };
        let got: Vec<u64> = (0..3).map(|i| stream.bits(i)).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn values_have_the_mean_and_variance_of_a_uniform_distribution() {
        let stream = Stream::new(7, "layer.weight");
        let n = 100_000u64;
        let values: Vec<f64> = (0..n).map(|i| f64::from(stream.signed_unit(i))).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0 / 3.0).abs() < 0.005, "variance {variance}");
        assert!(values.iter().all(|v| v.abs() < 1.0 && *v != 0.0));
    }

    #[test]
    fn seed_and_name_both_matter() {
        let a = Stream::new(1, "a").bits(0);
        assert_ne!(a, Stream::new(2, "a").bits(0));
        assert_ne!(a, Stream::new(1, "b").bits(0));
        assert_eq!(a, Stream::new(1, "a").bits(0));
    }

    #[test]
    fn whole_numbers_stay_below_their_bound() {
        let stream = Stream::new(3, "pixels");
        let mut seen = [false; 8];
        for i in 0..1000 {
            seen[stream.below(i, 8) as usize] = true;
        }
        assert_eq!(seen, [true; 8]);
    }
}
