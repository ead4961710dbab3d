//! Numbers for tests: the same on every machine, other ones for another seed.
//!
//! Marsaglia's xorshift with 64 bits of state ("Xorshift RNGs", Journal of Statistical Software 8, 2003), of
//! which the upper 24 become a number. Good enough to fill tensors, and for nothing else.

/// `n` numbers in `-1.0..1.0`, which depend on `seed` alone.
pub fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}
