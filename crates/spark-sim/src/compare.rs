//! Is the candidate better than the baseline? Paired by scenario, with confidence intervals.
//!
//! ```text
//! for every scenario both finished:  delta = candidate - baseline      per metric
//! mean delta, 95 % interval by bootstrap over scenarios
//! verdict   better | worse   the interval excludes 0
//!           undecided        it does not
//! regression in a scenario   worse by more than the metric's threshold
//! ```
//!
//! Pairing removes what scenarios have in common, so a thousand scenarios show a
//! difference that means over two separate groups would hide. The bootstrap draws
//! scenarios with replacement from a counter-based generator: the same results give the
//! same intervals. Scenarios that failed or collided in one run only are listed apart.
//!
//! Source: Efron, Tibshirani, *An Introduction to the Bootstrap* (1993), percentile interval.

use crate::SimError;
use crate::metric::{CATALOGUE, Direction, MetricInfo, Metrics};
use crate::random::Philox;
use crate::run::RunReport;
use serde::Serialize;

/// How to compare.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Bootstrap draws.
    pub n_resamples: usize,
    /// Of the interval, in (0, 1).
    pub confidence: f64,
    /// Of the draws.
    pub seed: u64,
    /// Smallest worsening that counts as a regression in one scenario: a metric's name, an
    /// absolute part in its unit, and a part relative to the baseline. Metrics not listed
    /// use `default_threshold`.
    pub thresholds: Vec<(String, f64, f64)>,
    /// Absolute and relative part for all other metrics.
    pub default_threshold: (f64, f64),
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            n_resamples: 2000,
            confidence: 0.95,
            seed: 0,
            thresholds: Vec::new(),
            default_threshold: (1e-6, 0.05),
        }
    }
}

/// What a difference amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the good side of 0.
    Better,
    /// The interval lies on the bad side of 0.
    Worse,
    /// The interval contains 0.
    Undecided,
}

impl Verdict {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Undecided => "undecided",
        }
    }
}

/// One metric of both algorithms.
#[derive(Debug, Clone, Serialize)]
pub struct MetricComparison {
    /// Name.
    pub metric: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Scenarios in which both have it.
    pub n: usize,
    /// Mean of the baseline.
    pub baseline: f64,
    /// Mean of the candidate.
    pub candidate: f64,
    /// Mean of candidate minus baseline.
    pub delta: f64,
    /// Of the baseline, in per cent; absent for a baseline of 0.
    pub change_percent: Option<f64>,
    /// Interval of the mean delta.
    pub interval: [f64; 2],
    /// What it amounts to.
    pub verdict: Verdict,
    /// Scenarios that got worse by more than the threshold.
    pub n_regressions: usize,
}

/// One scenario that got worse.
#[derive(Debug, Clone, Serialize)]
pub struct Regression {
    /// Its place in the input.
    pub index: usize,
    /// Its name.
    pub scenario: String,
    /// What got worse.
    pub metric: &'static str,
    /// Value of the baseline.
    pub baseline: f64,
    /// Value of the candidate.
    pub candidate: f64,
    /// How many thresholds it got worse by; the list is sorted by this.
    pub severity: f64,
}

/// Both algorithms, side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// Scenarios run.
    pub n_scenarios: usize,
    /// Scenarios that both finished.
    pub n_compared: usize,
    /// In the order of the catalogue; metrics that no scenario has are left out.
    pub metrics: Vec<MetricComparison>,
    /// Worst first.
    pub regressions: Vec<Regression>,
    /// Scenarios that only the candidate failed, with the reason.
    pub new_failures: Vec<(String, String)>,
    /// Scenarios that only the baseline failed.
    pub fixed_failures: Vec<String>,
    /// Scenarios in which only the candidate collided.
    pub new_collisions: Vec<String>,
    /// Scenarios in which only the baseline collided.
    pub fixed_collisions: Vec<String>,
}

impl Comparison {
    /// Whether nothing speaks against the candidate: no metric worse, no new failure or collision.
    pub fn passes(&self) -> bool {
        self.new_failures.is_empty()
            && self.new_collisions.is_empty()
            && self.metrics.iter().all(|m| m.verdict != Verdict::Worse)
    }
}

/// Compares two runs of the same scenarios.
///
/// # Errors
///
/// [`SimError::NotTheSameScenarios`] if numbers or names of scenarios differ;
/// [`SimError::OutOfRange`] for no resample, more than a million, or a confidence outside (0, 1).
pub fn compare(
    baseline: &RunReport,
    candidate: &RunReport,
    options: &CompareOptions,
) -> Result<Comparison, SimError> {
    check(baseline, candidate, options)?;
    let mut comparison = Comparison {
        baseline: baseline.algorithm.clone(),
        candidate: candidate.algorithm.clone(),
        n_scenarios: baseline.results.len(),
        n_compared: 0,
        metrics: Vec::new(),
        regressions: Vec::new(),
        new_failures: Vec::new(),
        fixed_failures: Vec::new(),
        new_collisions: Vec::new(),
        fixed_collisions: Vec::new(),
    };
    let mut pairs: Vec<(usize, &Metrics, &Metrics)> = Vec::new();
    for (index, (b, c)) in baseline.results.iter().zip(&candidate.results).enumerate() {
        match (&b.outcome, &c.outcome) {
            (Ok(b_metrics), Ok(c_metrics)) => {
                pairs.push((index, b_metrics, c_metrics));
                match (b_metrics.collision, c_metrics.collision) {
                    (None, Some(_)) => comparison.new_collisions.push(c.name.clone()),
                    (Some(_), None) => comparison.fixed_collisions.push(c.name.clone()),
                    _ => {}
                }
            }
            (Ok(_), Err(error)) => {
                comparison
                    .new_failures
                    .push((c.name.clone(), error.to_string()));
            }
            (Err(_), Ok(_)) => comparison.fixed_failures.push(c.name.clone()),
            (Err(_), Err(_)) => {}
        }
    }
    comparison.n_compared = pairs.len();
    for info in CATALOGUE {
        let values: Vec<(usize, f64, f64)> = pairs
            .iter()
            .filter_map(|(index, b, c)| Some((*index, (info.read)(b)?, (info.read)(c)?)))
            .collect();
        if values.is_empty() {
            continue;
        }
        let first_regression = comparison.regressions.len();
        note_regressions(
            &mut comparison.regressions,
            info,
            &values,
            baseline,
            options,
        );
        let n_regressions = comparison.regressions.len() - first_regression;
        comparison
            .metrics
            .push(compare_metric(info, &values, n_regressions, options));
    }
    comparison.regressions.sort_by(|a, b| {
        b.severity
            .total_cmp(&a.severity)
            .then(a.index.cmp(&b.index))
    });
    Ok(comparison)
}

fn check(
    baseline: &RunReport,
    candidate: &RunReport,
    options: &CompareOptions,
) -> Result<(), SimError> {
    let (b, c) = (&baseline.results, &candidate.results);
    let differs = b.iter().zip(c).position(|(b, c)| b.name != c.name);
    if b.len() != c.len() || differs.is_some() {
        return Err(SimError::NotTheSameScenarios {
            baseline: b.len(),
            candidate: c.len(),
            first_difference: differs.unwrap_or(b.len().min(c.len())),
        });
    }
    if !(1..=1_000_000).contains(&options.n_resamples) {
        return Err(SimError::OutOfRange {
            what: "bootstrap resamples",
            got: options.n_resamples as f64,
            want: "between 1 and a million",
        });
    }
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        return Err(SimError::OutOfRange {
            what: "confidence",
            got: options.confidence,
            want: "between 0 and 1",
        });
    }
    Ok(())
}

/// By how much a candidate is worse than a baseline; negative when better.
fn worsening(direction: Direction, baseline: f64, candidate: f64) -> f64 {
    match direction {
        Direction::Lower => candidate - baseline,
        Direction::Higher => baseline - candidate,
    }
}

fn note_regressions(
    regressions: &mut Vec<Regression>,
    info: &MetricInfo,
    values: &[(usize, f64, f64)],
    report: &RunReport,
    options: &CompareOptions,
) {
    let listed = options
        .thresholds
        .iter()
        .find(|(name, ..)| name == info.name);
    let (absolute, relative) = listed.map_or(options.default_threshold, |(_, a, r)| (*a, *r));
    for &(index, baseline, candidate) in values {
        let threshold = absolute + relative * baseline.abs();
        let worse = worsening(info.direction, baseline, candidate);
        if worse > threshold {
            regressions.push(Regression {
                index,
                scenario: report.results[index].name.clone(),
                metric: info.name,
                baseline,
                candidate,
                severity: worse / threshold.max(1e-12),
            });
        }
    }
}

fn compare_metric(
    info: &MetricInfo,
    values: &[(usize, f64, f64)],
    n_regressions: usize,
    options: &CompareOptions,
) -> MetricComparison {
    let n = values.len() as f64;
    let baseline = values.iter().map(|v| v.1).sum::<f64>() / n;
    let candidate = values.iter().map(|v| v.2).sum::<f64>() / n;
    let deltas: Vec<f64> = values.iter().map(|v| v.2 - v.1).collect();
    let delta = deltas.iter().sum::<f64>() / n;
    let interval = bootstrap_interval(&deltas, options);
    let verdict = match (info.direction, interval) {
        (_, [low, high]) if low <= 0.0 && high >= 0.0 => Verdict::Undecided,
        (Direction::Lower, [_, high]) if high < 0.0 => Verdict::Better,
        (Direction::Higher, [low, _]) if low > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    };
    MetricComparison {
        metric: info.name,
        unit: info.unit,
        n: values.len(),
        baseline,
        candidate,
        delta,
        change_percent: (baseline != 0.0).then(|| 100.0 * delta / baseline.abs()),
        interval,
        verdict,
        n_regressions,
    }
}

/// Percentile interval of the mean.
fn bootstrap_interval(deltas: &[f64], options: &CompareOptions) -> [f64; 2] {
    if deltas.iter().all(|&d| d == deltas[0]) {
        return [deltas[0]; 2];
    }
    let mut means: Vec<f64> = (0..options.n_resamples)
        .map(|resample| resampled_mean(deltas, options.seed, resample as u64))
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - options.confidence);
    let at = |share: f64| means[(share * (means.len() - 1) as f64).round() as usize];
    [at(tail), at(1.0 - tail)]
}

/// Mean of as many draws with replacement as there are values: one block, four draws.
fn resampled_mean(values: &[f64], seed: u64, resample: u64) -> f64 {
    let n = values.len();
    let random = Philox::new(seed, resample);
    let mut sum = 0.0;
    for first in (0..n).step_by(4) {
        let words = random.at(first as u64 / 4).block();
        for word in words.into_iter().take(n - first) {
            sum += values[((u64::from(word) * n as u64) >> 32) as usize];
        }
    }
    sum / n as f64
}

/// Means, extremes and counts over scenarios.
#[derive(Debug, Clone, Serialize)]
pub struct MetricSummary {
    /// Name.
    pub metric: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Scenarios that have it.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation over scenarios.
    pub std: f64,
    /// Smallest.
    pub min: f64,
    /// Half of the scenarios are below.
    pub median: f64,
    /// Nineteen of twenty scenarios are below.
    pub p95: f64,
    /// Largest.
    pub max: f64,
}

/// Every metric that some finished scenario has.
pub fn summarise(report: &RunReport) -> Vec<MetricSummary> {
    let finished: Vec<&Metrics> = report
        .results
        .iter()
        .filter_map(|r| r.outcome.as_ref().ok())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Latency, ScenarioError, ScenarioResult};

    fn report(name: &str, errors: &[f64]) -> RunReport {
        let results = errors
            .iter()
            .enumerate()
            .map(|(index, &lateral_error_rmse)| ScenarioResult {
                index,
                name: format!("s{index}"),
                outcome: Ok(Metrics {
                    lateral_error_rmse,
                    ..Metrics::default()
                }),
                trace: None,
            });
        RunReport {
            algorithm: name.to_owned(),
            results: results.collect(),
            latency: Latency::default(),
            wall_s: 1.0,
            n_agent_steps: 0,
            n_on_gpu: 0,
            device: "test".to_owned(),
        }
    }

    fn rmse(comparison: &Comparison) -> &MetricComparison {
        &comparison.metrics[0]
    }

    #[test]
    fn pairing_finds_a_small_difference_among_large_ones() {
        let mut random = Philox::new(1, 0);
        let base: Vec<f64> = (0..400).map(|_| random.next_in(0.0, 10.0)).collect();
        let better: Vec<f64> = base
            .iter()
            .map(|x| x - 0.01 + 0.02 * random.next_normal())
            .collect();
        let found = compare(
            &report("a", &base),
            &report("b", &better),
            &CompareOptions::default(),
        )
        .expect("comparable");
        let metric = rmse(&found);
        assert_eq!(metric.verdict, Verdict::Better);
        // Standard error 0.02 / sqrt(400) = 0.001, so the interval is about +-0.002 wide.
        let width = metric.interval[1] - metric.interval[0];
        assert!((0.003..0.005).contains(&width), "{metric:?}");
        assert!(found.passes());
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_claim() {
        let options = CompareOptions {
            n_resamples: 400,
            ..CompareOptions::default()
        };
        let mut n_covered = 0;
        for trial in 0..300 {
            let mut random = Philox::new(2, trial);
            let deltas: Vec<f64> = (0..60).map(|_| 0.5 + random.next_normal()).collect();
            let [low, high] = bootstrap_interval(
                &deltas,
                &CompareOptions {
                    seed: trial,
                    ..options.clone()
                },
            );
            n_covered += usize::from(low <= 0.5 && 0.5 <= high);
        }
        assert!((270..=297).contains(&n_covered), "{n_covered} of 300");
    }

    #[test]
    fn identical_runs_are_undecided_and_have_no_regression() {
        let a = report("a", &[1.0, 2.0, 3.0]);
        let found = compare(
            &a,
            &report("b", &[1.0, 2.0, 3.0]),
            &CompareOptions::default(),
        )
        .expect("comparable");
        assert_eq!(rmse(&found).verdict, Verdict::Undecided);
        assert_eq!(rmse(&found).interval, [0.0, 0.0]);
        assert!(found.regressions.is_empty() && found.passes());
    }

    #[test]
    fn regressions_are_listed_worst_first_beyond_their_threshold() {
        let base = report("a", &[1.0, 1.0, 1.0, 1.0]);
        let candidate = report("b", &[1.04, 1.2, 0.5, 2.0]);
        let found = compare(&base, &candidate, &CompareOptions::default()).expect("comparable");
        let listed: Vec<&str> = found
            .regressions
            .iter()
            .map(|r| r.scenario.as_str())
            .collect();
        assert_eq!(listed, ["s3", "s1"]);
        let strict = CompareOptions {
            thresholds: vec![("lateral_error_rmse".to_owned(), 0.01, 0.0)],
            ..CompareOptions::default()
        };
        let found = compare(&base, &candidate, &strict).expect("comparable");
        assert_eq!(found.regressions.len(), 3);
    }

    #[test]
    fn failures_on_one_side_are_listed_and_not_compared() {
        let base = report("a", &[1.0, 1.0]);
        let mut candidate = report("b", &[1.0, 1.0]);
        candidate.results[1].outcome = Err(ScenarioError::StateNotFinite { step_idx: 3 });
        let found = compare(&base, &candidate, &CompareOptions::default()).expect("comparable");
        assert_eq!(found.n_compared, 1);
        assert_eq!(found.new_failures[0].0, "s1");
        assert!(!found.passes());
    }

    #[test]
    fn runs_of_different_scenarios_are_not_compared() {
        let error = compare(
            &report("a", &[1.0]),
            &report("b", &[1.0, 2.0]),
            &CompareOptions::default(),
        );
        assert!(matches!(error, Err(SimError::NotTheSameScenarios { .. })));
    }
}
