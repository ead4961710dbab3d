//! May the candidate replace the baseline? A gate with a stated rate of false alarms.
//!
//! ```text
//! pair by scenario; average replicates into their scenario, scenarios into their family
//! for every metric k, over the F families:
//!   D = worsening of the candidate, capped                        M[k] = margin of non-inferiority
//!   p_ni     sign flips against "worse by M or more"              y = D - M
//!   p_worse  sign flips against "no worse"; p_better, p_beyond likewise
//!   interval: every mean that the same flips do not reject
//!   beside:  share of families worse by more than M, with its exact upper limit (skewed worsenings)
//! for every event e (failure, collision, off the road, limit of grip, near misses), over families:
//!   p_event  exact McNemar: more of it against fewer
//! Holm over p_worse of the primary metrics and p_event      (those that nothing can reject left out)
//!
//! fail        a primary metric is worse (Holm) and not shown to be within its margin,
//!             or an event is more frequent (Holm), or the policy on new events is broken
//! undecided   else, if a primary metric is not shown to be within its margin (p_ni > alpha),
//!             or was measured on a part of the suite only, families are too few for anything
//!             to fail, too little was compared, or a severe event is more frequent, if not
//!             beyond chance
//! pass        else
//! ```
//!
//! What may be claimed, at `alpha` = 0.05:
//!
//! - A candidate that is the baseline, run with other noise, fails with at most 5 % probability,
//!   exactly, for any number of families: its worsenings are symmetric, McNemar's test is exact,
//!   and Holm holds for any dependence. Run with the same noise, it never fails. Of one metric,
//!   an interval that leaves out zero comes about in 5 % of such runs, less often where most
//!   families show no difference at all.
//! - A candidate with some primary metric at or beyond its margin passes with at most 5 %
//!   probability if that metric's worsenings are symmetric around their mean. All primaries must
//!   pass, so no correction for their number is needed (intersection-union). If rare families
//!   worsen much, the probability is larger: see `sign_flip`. Look at the share beside it.
//! - Among secondary metrics the expected share of false differences is at most 5 % under
//!   positive dependence (Benjamini-Hochberg). They decide nothing.
//!
//! What is not claimed: that the scenarios are a sample of anybody's traffic (a deterministic
//! suite has no chance in it but the choice of its scenarios); that "undecided" is "the same"; any
//! level after looking early, after repeating a failed gate with other seeds, or on scenarios the
//! candidate was tuned on; that zero events in n families mean a rate below 3/n with more than 95 %.
//!
//! Answers depend on the two runs and the options only: one thread, draws from a counter.
//!
//! Sources: beside each part in `sign_flip`, `exact` and `adjust`; margins in `metric::CATALOGUE`;
//! intersection-union tests: Berger, Technometrics 24 (1982).

mod adjust;
mod exact;
mod gate;
mod pairing;
mod sign_flip;
mod summary;
#[cfg(test)]
mod tests;
mod verdict;

pub use gate::compare;
pub use summary::{MetricSummary, summarise};
pub use verdict::{Decision, Doubt, Finding, Verdict};

use crate::metric::{Margin, Role};
use serde::Serialize;

/// What a new event in a single scenario means: a severe one (a failure, a collision, a car off
/// the road) by [`CompareOptions::new_events`], a near miss by
/// [`CompareOptions::new_near_misses`]. That it fails the candidate is a policy and no test: chance is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewEvents {
    /// It fails the candidate where both drove with the same noise, because then the candidate
    /// made the difference. With other noise the exact test decides, which keeps the stated rate
    /// of false alarms.
    #[default]
    FailWithSameNoise,
    /// It fails the candidate. Two runs of one controller with other noise then fail as often as
    /// chance makes an event.
    Fail,
    /// The exact test decides.
    Test,
}

/// How to compare. All of it is to be chosen before the runs.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Probability of a false finding, below 0.5. Intervals are at `1 - alpha`, two-sided.
    pub alpha: f64,
    /// Margins by name of the metric, instead of the catalogue's.
    pub margins: Vec<(String, Margin)>,
    /// What a new severe event means.
    pub new_events: NewEvents,
    /// What a new near miss means: a time to collision below 1.5 s or a time gap below 0.9 s that
    /// the baseline did not have, or a drive at the limit of grip, where the metric is worse by more than
    /// its margin.
    pub new_near_misses: NewEvents,
    /// Least share of the scenarios that both must have driven, and least share of the pairs of
    /// finished drives on which every primary metric must have been measured. Drives that end in
    /// a collision have none but the closest approaches; pairs in which only the baseline
    /// collided count neither way.
    pub least_compared: f64,
    /// Sign flips beyond 14 families; up to there, all. The smallest p-value is one in so many,
    /// which Holm multiplies by the number of questions: at least that number by `alpha`.
    pub n_flips: usize,
    /// Seed of the sign flips that are drawn.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            margins: Vec::new(),
            new_events: NewEvents::default(),
            new_near_misses: NewEvents::default(),
            least_compared: 0.9,
            n_flips: 9999,
            seed: 0,
        }
    }
}

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
