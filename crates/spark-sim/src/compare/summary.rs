//! One run's metrics in figures: means, spread, extremes.

use crate::metric::{CATALOGUE, Metrics};
use crate::run::RunReport;
use serde::Serialize;

/// Means, extremes and counts over scenarios.
#[derive(Debug, Clone, Serialize)]
pub struct MetricSummary {
    /// Name of the metric in [`crate::metric::CATALOGUE`].
    pub metric: &'static str,
    /// Unit of the metric; `1` for ratios.
    pub unit: &'static str,
    /// Scenarios that have it.
    pub n: usize,
    /// Arithmetic mean over scenarios.
    pub mean: f64,
    /// Standard deviation over scenarios.
    pub std: f64,
    /// Smallest value of a scenario.
    pub min: f64,
    /// Half of the scenarios are below.
    pub median: f64,
    /// Nineteen of twenty scenarios are below.
    pub p95: f64,
    /// Largest value of a scenario.
    pub max: f64,
}

/// Every metric that some finished drive has. Metrics that are not finite are left out with their drive.
pub fn summarise(report: &RunReport) -> Vec<MetricSummary> {
    let outcomes = report.results.iter().map(|r| r.outcome.as_ref());
    let finished: Vec<&Metrics> = outcomes
        .filter_map(Result::ok)
        .filter(|metrics| metrics.not_finite().is_none())
        .collect();
    CATALOGUE
        .iter()
        .filter_map(|info| {
            let mut values: Vec<f64> = finished.iter().filter_map(|m| (info.read)(m)).collect();
            if values.is_empty() {
                return None;
            }
            values.sort_by(f64::total_cmp);
            let n = values.len();
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let at = |share: f64| values[(share * (n - 1) as f64).round() as usize];
            Some(MetricSummary {
                metric: info.name,
                unit: info.unit,
                n,
                mean,
                std: variance.sqrt(),
                min: values[0],
                median: at(0.5),
                p95: at(0.95),
                max: values[n - 1],
            })
        })
        .collect()
}
