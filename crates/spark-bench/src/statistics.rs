//! What a list of durations says.
//!
//! ```text
//! percentile p of n sorted samples s[0..n]:
//!   position = p / 100 * (n - 1);  linear between s[floor] and s[ceil]
//! ```
//!
//! That is the definition of NumPy's default and of Hyndman and Fan (1996), type 7:
//! 0 gives the smallest sample, 100 the largest, 50 the median.

use std::time::Duration;

/// Latencies of one model in one setting, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Arithmetic mean of the samples.
    pub mean_ms: f64,
    /// Median: the 50th percentile.
    pub p50_ms: f64,
    /// 95th percentile, interpolated between samples.
    pub p95_ms: f64,
    /// 99th percentile, interpolated between samples.
    pub p99_ms: f64,
    /// Shortest of the samples.
    pub min_ms: f64,
    /// Longest of the samples.
    pub max_ms: f64,
}

impl Latency {
    /// The figures of `samples`, or `None` without any.
    pub fn of(samples: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().map(|d| milliseconds(*d)).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min_ms, &max_ms) = (sorted.first()?, sorted.last()?);
        Some(Self {
            mean_ms: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50_ms: percentile(&sorted, 50.0),
            p95_ms: percentile(&sorted, 95.0),
            p99_ms: percentile(&sorted, 99.0),
            min_ms,
            max_ms,
        })
    }

    /// Runs per second, one after the other: the inverse of the mean.
    pub fn throughput_per_s(&self) -> f64 {
        1000.0 / self.mean_ms
    }
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Percentile `percent` (0 to 100) of `sorted`, which is ascending and not empty.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let position = percent / 100.0 * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-9, "got {got}, want {want}");
    }

    #[test]
    fn percentiles_interpolate_between_samples() {
        let sorted: Vec<f64> = (1..=5).map(f64::from).collect();
        close(percentile(&sorted, 0.0), 1.0);
        close(percentile(&sorted, 50.0), 3.0);
        close(percentile(&sorted, 95.0), 4.8);
        close(percentile(&sorted, 99.0), 4.96);
        close(percentile(&sorted, 100.0), 5.0);
        close(percentile(&[7.0], 99.0), 7.0);
        close(percentile(&[1.0, 2.0], 50.0), 1.5);
    }

    #[test]
    fn figures_do_not_depend_on_the_order_of_samples() {
        let samples = [30, 10, 20, 40].map(Duration::from_millis);
        let latency = Latency::of(&samples).expect("four samples");
        close(latency.mean_ms, 25.0);
        close(latency.p50_ms, 25.0);
        close(latency.min_ms, 10.0);
        close(latency.max_ms, 40.0);
        close(latency.throughput_per_s(), 40.0);
    }

    #[test]
    fn no_samples_give_no_figures() {
        assert_eq!(Latency::of(&[]), None);
    }
}
