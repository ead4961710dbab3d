//! Parameters of random numbers.

use crate::tensor::DType;

/// Parameters of [`Op::RandomLike`](crate::graph::Op::RandomLike), which takes no values of its operand.
///
/// # Determinism
///
/// The same seed gives the same numbers, in every run, in every node and on every machine; only a file that
/// states no seed gives every node a seed of its own, from the name of its result. Number `i` of a tensor, in
/// row-major order from 0, hangs on the seed and on `i` alone:
///
/// ```text
/// mix(z)   z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;  z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
/// bits(i)  mix(mix(bits of the f32 seed) + (i + 1) * 0x9e3779b97f4a7c15)          64 bits, sums wrap
/// unit(i)  the p highest bits of bits(i), times 2^-p        p: 53 for f64, 24 for f32, 11 for f16, 8 for bf16
/// uniform  low + unit(i) * (high - low)
/// normal   mean + scale * sqrt(-2 ln a) cos(2 pi b)         a: (the 53 highest bits of bits(2 i) + 1) * 2^-53,
///                                                           b: the 53 highest bits of bits(2 i + 1), times 2^-53
/// ```
///
/// computed in f64 without any function of the system's, and rounded once to the type of the result.
///
/// # Source
///
/// `bits` is SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014). The normal
/// numbers are Box and Muller's (1958).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomLike {
    /// How the numbers are spread.
    pub distribution: Distribution,
    /// Result type, a float type; the operand's where left out.
    pub dtype: Option<DType>,
    /// What the numbers follow from.
    pub seed: f32,
}

/// How random numbers are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Alike from `low` up to `high`, which rounding may reach where `low` is not 0.
    Uniform {
        /// The smallest number.
        low: f32,
        /// Where the numbers end, not below `low`.
        high: f32,
    },
    /// A normal distribution.
    Normal {
        /// Mean of the distribution.
        mean: f32,
        /// Standard deviation, not below 0.
        scale: f32,
    },
}

/// Parameters of [`Op::CountedDropout`](crate::graph::Op::CountedDropout): which elements are zero follows from the key, the
/// pass and their places alone, so that no state is kept and no mask. It is no operator of ONNX, and no file has it.
///
/// ```text
/// words      Philox4x32-10 of counter [place / 4, low, high | pass, low, high] by the key; place i, row-major, has word i % 4
/// dropped    word < probability * 2^32, rounded
/// kept       times 1 / (1 - probability), rounded to f32
/// ```
///
/// The gradient by `x` is the same operator on that of the result.
///
/// # Source
///
/// Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountedDropout {
    /// How likely an element is dropped, in `0..1`.
    pub probability: f64,
    /// What tells the masks of one node from those of others.
    pub key: u64,
}

impl CountedDropout {
    /// What an element is kept at and above, of the 2^32 words that there are.
    pub fn threshold(&self) -> u64 {
        (self.probability * (1u64 << 32) as f64).round() as u64
    }

    /// What kept elements are multiplied by.
    pub fn kept(&self) -> f32 {
        (1.0 / (1.0 - self.probability)) as f32
    }

    /// The words of places `4 * block` and the three behind it, for each of some blocks.
    #[inline(always)]
    pub fn words<const N: usize>(&self, blocks: [u64; N], pass: u64) -> [[u32; N]; 4] {
        let [pass_low, pass_high] = halves(pass);
        let (low, high) = (blocks.map(|block| block as u32), blocks.map(high_half));
        philox([low, high, [pass_low; N], [pass_high; N]], halves(self.key))
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, high_half(value)]
}

#[inline(always)]
fn high_half(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Philox4x32 with ten rounds, of counters side by side, which compilers make vectors of.
#[inline(always)]
fn philox<const N: usize>(mut counter: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    for _ in 0..10 {
        let [a, b, c, d] = &mut counter;
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            let first = 0xd251_1f53 * u64::from(*a);
            let second = 0xcd9e_8d57 * u64::from(*c);
            (*a, *b) = (high_half(second) ^ *b ^ key[0], second as u32);
            (*c, *d) = (high_half(first) ^ *d ^ key[1], first as u32);
        }
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
            let side_by_side = philox(counter.map(|word| [7, word]), key);
            assert_eq!(side_by_side.map(|words| words[1]), want);
        }
    }

    #[test]
    fn places_passes_and_keys_have_words_of_their_own() {
        let of = |key, block, pass| {
            let op = CountedDropout {
                probability: 0.5,
                key,
            };
            op.words([block], pass)
        };
        let far = 1 << 32;
        let all = [
            of(7, 3, 5),
            of(7, 5, 3),
            of(7, 3 + far, 5),
            of(7, 3, 5 + far),
            of(7 + far, 3, 5),
            of(8, 3, 5),
        ];
        for (position, words) in all.iter().enumerate() {
            assert!(!all[..position].contains(words), "{position}");
        }
    }
}
