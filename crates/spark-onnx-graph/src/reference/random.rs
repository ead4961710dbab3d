//! Random numbers of a seed, as [`RandomLike`] says.
//!
//! The logarithm and the cosine are series of sums, products and quotients, which every machine rounds alike;
//! those of a system's library are not the same everywhere.

use std::f64::consts::{LN_2, SQRT_2, TAU};

use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::infer::op_error;
use crate::graph::{CountedDropout, Distribution, OpError, RandomLike, TensorType};
use crate::tensor::{DType, Tensor, TensorData};

impl Evaluate for RandomLike {
    fn evaluate(&self, _: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| drawn(self, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

impl Evaluate for CountedDropout {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            let mut x = inputs.get(0)?.to_f64();
            let mask = mask(self, inputs, x.len())?;
            x.iter_mut().zip(mask).for_each(|(x, factor)| *x *= factor);
            from_floats(ty, x)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.written(), 8))
    }
}

/// What the elements of `x` are multiplied by.
pub(super) fn mask(
    op: &CountedDropout,
    inputs: Inputs<'_>,
    len: usize,
) -> Result<Vec<f64>, OpError> {
    let pass = match inputs.get(1)?.data() {
        TensorData::I64(pass) if pass.len() == 1 => pass[0] as u64,
        _ => return Err(op_error!("`pass` is no i64 of one element")),
    };
    let factor = |i: usize| match op.words([i as u64 / 4], pass)[i % 4][0] {
        word if u64::from(word) < op.threshold() => 0.0,
        _ => f64::from(op.kept()),
    };
    Ok((0..len).map(factor).collect())
}

/// The numbers of a result of this type.
pub(crate) fn drawn(op: &RandomLike, ty: &TensorType) -> Result<Tensor, OpError> {
    let n: usize = ty.shape.iter().product();
    let start = mix(u64::from(op.seed.to_bits()));
    let unit =
        |at: u64, digits: u32| (bits(start, at) >> (64 - digits)) as f64 / 2f64.powi(digits as i32);
    let digits = match ty.dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let number = |i: u64| match op.distribution {
        Distribution::Uniform { low, high } => {
            let (low, high) = (f64::from(low), f64::from(high));
            low + unit(i, digits) * (high - low)
        }
        Distribution::Normal { mean, scale } => {
            let above_zero = unit(2 * i, 53) + 2f64.powi(-53);
            let radius = (-2.0 * ln(above_zero)).sqrt();
            f64::from(mean) + f64::from(scale) * (radius * cos_of_turns(unit(2 * i + 1, 53)))
        }
    };
    from_floats(ty, (0..n as u64).map(number).collect())
}

/// Output `at` of the generator that begins at `start`.
fn bits(start: u64, at: u64) -> u64 {
    let steps = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(start.wrapping_add(steps))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `c[0] + c[1] x + c[2] x^2 + ...` for `terms` coefficients.
fn series(x: f64, terms: u32, coefficient: impl Fn(u32) -> f64) -> f64 {
    (0..terms)
        .rev()
        .fold(0.0, |sum, k| sum * x + coefficient(k))
}

/// The natural logarithm of a normal number above 0: with `x = m 2^e`, m about 1, and `s = (m - 1) / (m + 1)`,
/// `e ln 2 + 2 (s + s^3 / 3 + s^5 / 5 + ...)`.
fn ln(x: f64) -> f64 {
    let mut exponent = (x.to_bits() >> 52) as i64 - 1023;
    let mut m = f64::from_bits(x.to_bits() & ((1 << 52) - 1) | 1023 << 52);
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let sum = series(s * s, 12, |k| 1.0 / f64::from(2 * k + 1));
    exponent as f64 * LN_2 + 2.0 * s * sum
}

/// `cos(2 pi turns)` for turns of 0 up to 1, by a series about the nearest quarter.
fn cos_of_turns(turns: f64) -> f64 {
    let quarter = (turns * 4.0 + 0.5).floor();
    let angle = (turns - quarter / 4.0) * TAU;
    let square = angle * angle;
    // 1 / k!, with the signs of sine and cosine.
    let inverse_factorial = |k: u32| {
        let product: f64 = (1..=k).map(f64::from).product();
        if k / 2 % 2 == 1 {
            -1.0 / product
        } else {
            1.0 / product
        }
    };
    let cos = || series(square, 10, |k| inverse_factorial(2 * k));
    let sin = || angle * series(square, 10, |k| inverse_factorial(2 * k + 1));
    match quarter as u32 % 4 {
        0 => cos(),
        1 => -sin(),
        2 => -cos(),
        _ => sin(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(distribution: Distribution, seed: f32, dtype: DType, n: usize) -> Vec<f64> {
        let op = RandomLike {
            distribution,
            dtype: Some(dtype),
            seed,
        };
        let shape = vec![n];
        let tensor = drawn(&op, &TensorType { dtype, shape });
        tensor.expect("numbers").to_f64()
    }

    const UNIT: Distribution = Distribution::Uniform {
        low: 0.0,
        high: 1.0,
    };
    const NORMAL: Distribution = Distribution::Normal {
        mean: 0.0,
        scale: 1.0,
    };

    #[test]
    fn the_generator_is_splitmix64() {
        // Of its published reference code, begun at 0.
        assert_eq!(mix(0), 0);
        assert_eq!(bits(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(bits(0, 1), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn the_series_are_the_functions() {
        for i in 1..=4096 {
            let x = f64::from(i) / 4096.0;
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * (1.0 - x.ln()), "ln {x}");
            let error = cos_of_turns(x) - (x * TAU).cos();
            assert!(error.abs() < 1e-15, "cos of {x} turns");
        }
        assert!((ln(2f64.powi(-53)) + 53.0 * LN_2).abs() < 1e-13);
    }

    #[test]
    fn numbers_of_every_type_stay_below_one() {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let numbers = like(UNIT, 3.0, dtype, 5000);
            assert!(numbers.iter().all(|v| (0.0..1.0).contains(v)), "{dtype}");
        }
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let n = 100_000;
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / n as f64;
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            (mean, squares / n as f64)
        };
        let (mean, variance) = moments(&like(UNIT, 1.0, DType::F32, n));
        // Four deviations of a mean of so many.
        assert!((mean - 0.5).abs() < 4.0 * (1.0 / 12.0 / n as f64).sqrt());
        assert!((variance - 1.0 / 12.0).abs() < 0.002);
        let (mean, variance) = moments(&like(NORMAL, 1.0, DType::F32, n));
        assert!(mean.abs() < 4.0 / (n as f64).sqrt());
        assert!((variance - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_seed_gives_its_numbers_and_no_others() {
        let a = like(NORMAL, 1.0, DType::F64, 4);
        assert_eq!(a, like(NORMAL, 1.0, DType::F64, 9)[..4]);
        assert_ne!(a, like(NORMAL, 2.0, DType::F64, 4));
    }
}
