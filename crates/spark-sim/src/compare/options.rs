//! What a comparison is asked: levels, margins, and what new events mean.
//!
//! Deliberately absent: which metrics decide. That is the catalogue's.

use crate::metric::Margin;

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
#[non_exhaustive]
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

impl CompareOptions {
    /// With this probability of a false finding.
    #[must_use]
    pub fn with_alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// With a margin of the metric of this name, instead of the catalogue's.
    #[must_use]
    pub fn with_margin(mut self, metric: impl Into<String>, margin: Margin) -> Self {
        self.margins.push((metric.into(), margin));
        self
    }

    /// With this meaning of a new severe event.
    #[must_use]
    pub fn with_new_events(mut self, new_events: NewEvents) -> Self {
        self.new_events = new_events;
        self
    }

    /// With this meaning of a new near miss.
    #[must_use]
    pub fn with_new_near_misses(mut self, new_near_misses: NewEvents) -> Self {
        self.new_near_misses = new_near_misses;
        self
    }

    /// With this least share of scenarios, and of measured pairs, that makes a comparison.
    #[must_use]
    pub fn with_least_compared(mut self, share: f64) -> Self {
        self.least_compared = share;
        self
    }

    /// With this many sign flips where not all can be tried.
    #[must_use]
    pub fn with_n_flips(mut self, n_flips: usize) -> Self {
        self.n_flips = n_flips;
        self
    }

    /// With this seed of the sign flips.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}
