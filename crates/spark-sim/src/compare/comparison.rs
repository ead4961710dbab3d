//! Both algorithms, side by side: what a comparison answers.
//!
//! ```text
//! Comparison ── metrics[]: MetricComparison
//!            ├─ events[]: EventComparison ── new[], fixed[]: EventCase
//!            └─ regressions[]: Regression
//! ```

use super::verdict::{Decision, Verdict};
use crate::metric::Role;
use serde::Serialize;

/// One metric of both algorithms. Means are over families; values are capped as in the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Name of the metric in [`crate::metric::CATALOGUE`].
    pub metric: &'static str,
    /// Unit of the metric; `1` for ratios.
    pub unit: &'static str,
    /// What the metric is for: whether it decides.
    pub role: Role,
    /// Scenarios in which both have it.
    pub n: usize,
    /// Families of these scenarios: the number of independent pieces of evidence.
    pub n_families: usize,
    /// Drives of baseline and candidate without a value, counted as the cap: nobody came near.
    pub n_none: [usize; 2],
    /// Pairs of drives left out because one ended in a collision.
    pub n_cut_short: usize,
    /// Mean of the baseline.
    pub baseline: f64,
    /// Mean of the candidate.
    pub candidate: f64,
    /// Mean of candidate minus baseline.
    pub delta: f64,
    /// Of the baseline, in per cent; absent for a baseline of 0.
    pub change_percent: Option<f64>,
    /// Interval of the mean delta at `1 - alpha`; absent if families are too few to reject any.
    pub interval: Option<[f64; 2]>,
    /// How much worse it may be.
    pub margin: f64,
    /// How much worse it is at most, at one-sided level `alpha`; below the margin, it passes.
    pub worse_by_at_most: Option<f64>,
    /// Two-sided, against no difference; not adjusted.
    pub p_difference: f64,
    /// One-sided, against "worse by the margin or more"; not adjusted.
    pub p_non_inferior: f64,
    /// One-sided, against "no worse"; not adjusted.
    pub p_worse: f64,
    /// Adjusted: for a primary metric the one-sided p of the direction it went, by Holm; for a
    /// secondary one `p_difference`, by Benjamini-Hochberg.
    pub p_adjusted: f64,
    /// What it amounts to, by adjusted p-values.
    pub verdict: Verdict,
    /// Families that are worse by more than the margin.
    pub n_families_beyond: usize,
    /// Largest share of such families that this leaves possible, exact, at one-sided level `alpha`.
    pub share_beyond_at_most: f64,
    /// Scenarios that are worse by more than the margin.
    pub n_regressions: usize,
}

/// A scenario in which one side has an event and the other has not, or less often.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventCase {
    /// Place of the scenario in the input.
    pub index: usize,
    /// Name of the scenario.
    pub scenario: String,
    /// The candidate's noise in the first drive that differs.
    pub seed: u64,
    /// Why the drive failed, if it did.
    pub reason: Option<String>,
}

/// One event of both algorithms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventComparison {
    /// Name of the event in [`crate::metric::EVENTS`].
    pub event: &'static str,
    /// What it means, in words for people.
    pub meaning: &'static str,
    /// Whether a single new one matters.
    pub is_severe: bool,
    /// Drives of the baseline with the event.
    pub baseline: usize,
    /// Drives of the candidate with the event.
    pub candidate: usize,
    /// Scenarios where the candidate has more.
    pub new: Vec<EventCase>,
    /// Scenarios where the candidate has fewer. They weigh against the new ones in the test and
    /// excuse nothing else.
    pub fixed: Vec<EventCase>,
    /// Families with more, and with fewer.
    pub n_families: [usize; 2],
    /// Exact, one-sided, against "not more frequent"; not adjusted.
    pub p: f64,
    /// Adjusted by Holm, together with the primary metrics.
    pub p_adjusted: f64,
}

/// One scenario that got worse.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regression {
    /// Its place in the input.
    pub index: usize,
    /// Name of the scenario.
    pub scenario: String,
    /// The event or the metric.
    pub what: &'static str,
    /// Value of the baseline; of an event, its share of the drives.
    pub baseline: f64,
    /// Value of the candidate.
    pub candidate: f64,
    /// How many margins it got worse by; absent for an event.
    pub margins: Option<f64>,
}

/// Both algorithms, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// What becomes of the candidate.
    pub decision: Decision,
    /// Probability of a false finding.
    pub alpha: f64,
    /// Number of scenarios that were run.
    pub n_scenarios: usize,
    /// Drives of each side.
    pub n_drives: usize,
    /// Scenarios that both finished at least once, in a collision or not. Of how many a metric
    /// speaks, it says itself.
    pub n_compared: usize,
    /// Families of these. Scenarios that state none are one family if they bear one name.
    pub n_families: usize,
    /// Scenarios that state no family and bear the name of another one.
    pub n_repeated: usize,
    /// Scenarios that both failed, which say nothing.
    pub failed_in_both: Vec<String>,
    /// Metrics that no finished drive has, such as the gap to a car ahead where there was none.
    pub not_applicable: Vec<&'static str>,
    /// Metrics that apply and were measured nowhere, because every pair was cut short. A primary
    /// one leaves the gate undecided.
    pub not_measured: Vec<&'static str>,
    /// In the order of the catalogue, without those of the two lists above.
    pub metrics: Vec<MetricComparison>,
    /// In the order of [`crate::metric::EVENTS`].
    pub events: Vec<EventComparison>,
    /// New severe events first, then metrics by how many margins they are worse.
    pub regressions: Vec<Regression>,
}

impl Comparison {
    /// Whether the candidate may go in: [`Decision::Pass`] and nothing else.
    pub fn passes(&self) -> bool {
        self.decision == Decision::Pass
    }

    /// An event's comparison, by its name in [`crate::metric::EVENTS`].
    pub fn event(&self, name: &str) -> Option<&EventComparison> {
        self.events.iter().find(|event| event.event == name)
    }

    /// A metric's comparison, by name; absent if no scenario has the metric.
    pub fn metric(&self, name: &str) -> Option<&MetricComparison> {
        self.metrics.iter().find(|metric| metric.metric == name)
    }
}
