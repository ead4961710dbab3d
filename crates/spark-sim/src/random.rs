//! Random numbers that are a function of (seed, stream, counter): Philox4x32-10.
//!
//! ```text
//! block(seed, stream, counter) -> 4 words       no state, no order, no sharing
//! ```
//!
//! What a scenario draws at a step depends on its seed and that step only, so noise
//! is the same whatever thread, batch or order it is computed in.
//!
//! Source: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as 1, 2, 3*
//! (SC 2011); checked against its known-answer vectors. Not for cryptography.

/// Counter-based generator; `Copy`, because its state is its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    stream: u64,
    counter: u64,
}

impl Philox {
    /// A generator at the beginning of a stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self {
            seed,
            stream,
            counter: 0,
        }
    }

    /// The same stream at another position; one position yields one block.
    #[must_use]
    pub fn at(self, counter: u64) -> Self {
        Self { counter, ..self }
    }

    /// The four random words at this position of the stream.
    pub fn block(self) -> [u32; 4] {
        const MULTIPLIER: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
        const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
        let low = |x: u64| x as u32;
        let high = |x: u64| (x >> 32) as u32;
        let mut x = [
            low(self.counter),
            high(self.counter),
            low(self.stream),
            high(self.stream),
        ];
        let mut key = [low(self.seed), high(self.seed)];
        for _ in 0..10 {
            let products = [
                MULTIPLIER[0] * u64::from(x[0]),
                MULTIPLIER[1] * u64::from(x[2]),
            ];
            x = [
                high(products[1]) ^ x[1] ^ key[0],
                low(products[1]),
                high(products[0]) ^ x[3] ^ key[1],
                low(products[0]),
            ];
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        x
    }

    /// The next uniform number in [0, 1), a multiple of 2^-53.
    pub fn next_uniform(&mut self) -> f64 {
        let [a, b, ..] = self.advance();
        let bits = (u64::from(a) << 32 | u64::from(b)) >> 11;
        bits as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// The next uniform number in [low, high).
    pub fn next_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next_uniform()
    }

    /// The next index below `n`, which must not be 0. The bias is below n / 2^64.
    pub fn next_index(&mut self, n: usize) -> usize {
        let [a, b, ..] = self.advance();
        let word = u64::from(a) << 32 | u64::from(b);
        ((u128::from(word) * n as u128) >> 64) as usize
    }

    /// The next number from the standard normal distribution.
    pub fn next_normal(&mut self) -> f64 {
        let [a, b, ..] = self.advance();
        let bits = (u64::from(a) << 32 | u64::from(b)) >> 11;
        inverse_normal((bits as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64))
    }

    fn advance(&mut self) -> [u32; 4] {
        let block = self.block();
        self.counter = self.counter.wrapping_add(1);
        block
    }
}

/// Quantile of the standard normal distribution; relative error below 1.2e-9.
///
/// Rational approximations by Acklam (2003): one in the middle, one for the tails.
fn inverse_normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    const TAIL: f64 = 0.02425;
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    if p < TAIL {
        let q = (-2.0 * natural_log(p)).sqrt();
        horner(&C, q) / (horner(&D, q) * q + 1.0)
    } else if p > 1.0 - TAIL {
        -inverse_normal(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / (horner(&B, r) * r + 1.0)
    }
}

/// Natural logarithm of a positive normal number, from basic operations only, so
/// that noise has the same bits whatever the platform's mathematical library.
fn natural_log(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7FF) as i64 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    // ln m = 2 artanh((m - 1)/(m + 1)) for m in [1, 2): the ratio is at most 1/3.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..20)
        .rev()
        .fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_paper() {
        let check = |counter: [u64; 2], key: u64, want: [u32; 4]| {
            let philox = Philox::new(key, counter[1]).at(counter[0]);
            assert_eq!(philox.block(), want);
        };
        check(
            [0, 0],
            0,
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        );
        check(
            [u64::MAX, u64::MAX],
            u64::MAX,
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        );
        check(
            [0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e],
            0x299f_31d0_a409_3822,
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_distribution() {
        let mut random = Philox::new(7, 0);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| random.next_normal()).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        assert!(moment(1).abs() < 0.01);
        assert!((moment(2) - 1.0).abs() < 0.02);
        assert!((moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn quantiles_of_the_normal_distribution() {
        for (p, want) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813),
            (1e-9, -5.997_807_015_008_182),
        ] {
            assert!((inverse_normal(p) - want).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn uniform_numbers_stay_in_range_and_indices_below_n() {
        let mut random = Philox::new(1, 2);
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.next_uniform()));
            assert!(random.next_index(7) < 7);
        }
    }
}
