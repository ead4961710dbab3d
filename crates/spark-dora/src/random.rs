//! Seeded random numbers: the same seed and layer name give the same initial values everywhere.
//!
//! SplitMix64: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

/// A stream of numbers of its own for every name.
pub(crate) struct Random(u64);

impl Random {
    /// The stream `name` of `seed`.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `len` values, uniform in `[-bound, bound)`.
    pub(crate) fn uniform(&mut self, len: usize, bound: f64) -> Vec<f64> {
        (0..len)
            .map(|_| (2.0 * self.unit() - 1.0) * bound)
            .collect()
    }

    /// `len` normal values, by Box and Muller's method.
    pub(crate) fn normal(&mut self, len: usize, deviation: f64) -> Vec<f64> {
        let one = |_| {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.unit()).cos() * deviation
        };
        (0..len).map(one).collect()
    }
}
