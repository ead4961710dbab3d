//! Observers and choices against naive versions that keep every sample.

mod choices;
mod compensating;
mod hostile;
mod observing;
mod weights;

use crate::ExecutionPolicy;
use crate::block::stochastic::philox;

use super::Observer;

/// Independent uniform values in the open interval from 0 to 1.
fn uniform(seed: u64, n: usize) -> Vec<f64> {
    let words = (0..n.div_ceil(4) as u64).flat_map(|i| philox(seed, i));
    words
        .map(|word| (f64::from(word) + 0.5) / 4_294_967_296.0)
        .take(n)
        .collect()
}

fn gaussian(seed: u64, n: usize) -> Vec<f32> {
    let pairs = uniform(seed, 2 * n);
    let normal =
        |pair: &[f64]| (-2.0 * pair[0].ln()).sqrt() * (std::f64::consts::TAU * pair[1]).cos();
    pairs
        .chunks_exact(2)
        .map(|pair| normal(pair) as f32)
        .collect()
}

fn laplace(seed: u64, n: usize) -> Vec<f32> {
    let quantile = |u: f64| {
        if u < 0.5 {
            (2.0 * u).ln()
        } else {
            -(2.0 * (1.0 - u)).ln()
        }
    };
    uniform(seed, n)
        .into_iter()
        .map(|u| quantile(u) as f32)
        .collect()
}

/// Student's t with three degrees of freedom: a normal value over the root of a mean of three squares.
fn student(seed: u64, n: usize) -> Vec<f32> {
    let normal = gaussian(seed, 4 * n);
    let ratio = |four: &[f32]| {
        let square: f64 = four[1..].iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        (f64::from(four[0]) / (square / 3.0).sqrt()) as f32
    };
    normal.chunks_exact(4).map(ratio).collect()
}

fn relu(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| x.max(0.0)).collect()
}

fn observe(n_channels: usize, values: &[f32]) -> Observer {
    let mut observer = Observer::new(n_channels);
    observer
        .observe(ExecutionPolicy::detect(), values)
        .expect("whole rows");
    observer
}

#[track_caller]
fn assert_close(got: f64, want: f64, absolute: f64, relative: f64) {
    assert!(
        (got - want).abs() <= absolute + relative * want.abs(),
        "got {got:e}, want {want:e}"
    );
}
