//! The worst case within bounds, by the cross-entropy method.
//!
//! ```text
//! mean, spread = middle and half width of the bounds
//! repeat: draw a population of parameter sets around the mean
//!         run them all in one batch
//!         move mean and spread to those of the worst fifth
//! ```
//!
//! Source: Rubinstein, Kroese, *The Cross-Entropy Method* (2004). It finds a bad case, with
//! no promise that it is the worst. The same seed finds the same one.

use super::{Parameter, Scenario};
use crate::SimError;
use crate::control::AlgorithmFactory;
use crate::metric::{Direction, MetricInfo, Metrics};
use crate::random::Philox;
use crate::run::Simulator;

/// What to vary, and for how long to look.
#[derive(Debug, Clone)]
pub struct Search {
    /// The scenario whose other parameters stay as they are.
    pub base: Scenario,
    /// What varies, between which bounds.
    pub bounds: Vec<(Parameter, [f64; 2])>,
    /// Scenarios that are drawn and run per round.
    pub population: usize,
    /// Number of rounds; each draws around the worst scenarios of the round before.
    pub n_rounds: usize,
    /// Seed of what is drawn; the same one finds the same scenario.
    pub seed: u64,
}

/// Most scenarios of a round, and most rounds.
const MOST: usize = 1_000_000;

/// How dangerous a drive was, as a score: hitting hard is worst, and short of that, a short time to collision.
///
/// 100 and the closing speed in m/s of a collision; else 10 s less the shortest time to collision, of which 10 s count as
/// none.
pub fn danger(metrics: &Metrics) -> f64 {
    const NONE_S: f64 = 10.0;
    match &metrics.collision {
        Some(collision) => 100.0 + collision.closing_speed,
        None => NONE_S - metrics.ttc_min.map_or(NONE_S, |ttc| ttc.min(NONE_S)),
    }
}

/// How bad a drive was by one metric, as a score: the larger, the worse. A drive without the metric counts as the best
/// of all.
pub fn badness(info: &MetricInfo, metrics: &Metrics) -> f64 {
    match ((info.read)(metrics), info.direction) {
        (None, _) => f64::NEG_INFINITY,
        (Some(value), Direction::Lower) => value,
        (Some(value), Direction::Higher) => -value,
    }
}

/// The worst scenario found.
#[derive(Debug, Clone)]
pub struct SearchOutcome {
    /// The scenario, ready to be run again.
    pub scenario: Scenario,
    /// What varied, and its values there.
    pub values: Vec<(Parameter, f64)>,
    /// Its score, the highest that was found.
    pub score: f64,
    /// The worst score of each round.
    pub rounds: Vec<f64>,
    /// Number of scenarios that were drawn.
    pub n_runs: usize,
    /// How many of these were no valid scenarios and were passed over, such as cars put into each other.
    pub n_invalid: usize,
    /// What was wrong with the first of them.
    pub first_invalid: Option<String>,
}

impl Search {
    /// Looks for the scenario with the highest score.
    ///
    /// A scenario that fails to run counts as infinitely bad if its controller failed or its
    /// metrics are not finite, and is passed over if it was invalid.
    ///
    /// # Errors
    ///
    /// [`SimError::Score`] if `score` answers NaN, which is neither bad nor good;
    /// [`SimError::OutOfRange`] without bounds, with bounds that are not ordered and finite or beyond what the parameter
    /// can be, with fewer than 5 per round, no round, or more than a million of either; [`SimError::VariedTwice`] for
    /// bounds that are given twice, of which one would undo the other; [`SimError::NothingToVary`] for a parameter that
    /// changes nothing about the base; [`SimError::NothingRan`] if no scenario was valid.
    pub fn run(
        &self,
        simulator: &Simulator,
        factory: &dyn AlgorithmFactory,
        score: impl Fn(&Metrics) -> f64,
    ) -> Result<SearchOutcome, SimError> {
        self.run_with_progress(simulator, factory, score, |_| {})
    }

    /// As [`Search::run`]; `progress` gets the number of scenarios done so far.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn run_with_progress(
        &self,
        simulator: &Simulator,
        factory: &dyn AlgorithmFactory,
        score: impl Fn(&Metrics) -> f64,
        mut progress: impl FnMut(usize),
    ) -> Result<SearchOutcome, SimError> {
        // What is between them must be a number too.
        let ordered = |[low, high]: [f64; 2]| low <= high && (high - low).is_finite();
        let sizes = [
            (
                "parameters to search",
                self.bounds.len(),
                1..=MOST,
                "at least 1",
            ),
            (
                "scenarios per round",
                self.population,
                5..=MOST,
                "5 to a million",
            ),
            ("rounds", self.n_rounds, 1..=MOST, "1 to a million"),
        ];
        for (what, got, range, want) in sizes {
            if !range.contains(&got) {
                let got = got as f64;
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        let mut varied = self
            .bounds
            .iter()
            .map(|(parameter, _)| parameter)
            .enumerate();
        if let Some((_, twice)) = varied.find(|(at, it)| {
            let mut before = self.bounds.iter().take(*at);
            before.any(|(other, _)| other == *it)
        }) {
            let parameter = format!("{twice:?}");
            return Err(SimError::VariedTwice { parameter });
        }
        if let Some((_, bad)) = self.bounds.iter().find(|(_, bounds)| !ordered(*bounds)) {
            return Err(SimError::OutOfRange {
                what: "lower bound of a search",
                got: bad[0],
                want: "finite and not above the upper bound",
            });
        }
        for (parameter, bounds) in &self.bounds {
            parameter.check_in(&self.base)?;
            bounds
                .iter()
                .try_for_each(|bound| parameter.check(*bound))?;
            let [low, high] = parameter.within(*bounds);
            if low > high {
                return Err(SimError::OutOfRange {
                    what: "lower bound of an index",
                    got: bounds[0],
                    want: "a whole number between the bounds",
                });
            }
        }
        let mut mean: Vec<f64> = self
            .bounds
            .iter()
            .map(|(_, [l, h])| 0.5 * (l + h))
            .collect();
        let mut spread: Vec<f64> = self
            .bounds
            .iter()
            .map(|(_, [l, h])| 0.5 * (h - l))
            .collect();
        let mut worst: Option<(f64, Scenario, Vec<f64>)> = None;
        let mut rounds = Vec::with_capacity(self.n_rounds);
        let (mut n_invalid, mut first_invalid) = (0, None);
        for round in 0..self.n_rounds {
            let draws = self.draw(round, &mean, &spread);
            let scenarios: Vec<Scenario> = draws.iter().map(|draw| self.build(draw)).collect();
            let before = round * self.population;
            let report = simulator.run_with_progress(&scenarios, factory, |n| progress(before + n));
            let mut scored: Vec<(f64, usize)> = Vec::new();
            for (i, result) in report.results.iter().enumerate() {
                match &result.outcome {
                    Ok(metrics) => match score(metrics) {
                        nan if nan.is_nan() => {
                            let scenario = result.name.clone();
                            return Err(SimError::Score { scenario });
                        }
                        score => scored.push((score, i)),
                    },
                    Err(invalid @ crate::run::ScenarioError::Invalid(_)) => {
                        n_invalid += 1;
                        first_invalid.get_or_insert_with(|| invalid.to_string());
                    }
                    Err(_) => scored.push((f64::INFINITY, i)),
                }
            }
            scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let Some(&(best_score, best)) = scored.first() else {
                continue;
            };
            rounds.push(best_score);
            let is_worse = |(score, ..): &(f64, _, _)| best_score > *score;
            if worst.as_ref().is_none_or(is_worse) {
                worst = Some((best_score, scenarios[best].clone(), draws[best].clone()));
            }
            let n_elite = (scored.len() / 5).max(1);
            for axis in 0..self.bounds.len() {
                let elite = || scored[..n_elite].iter().map(|&(_, i)| draws[i][axis]);
                let centre = elite().sum::<f64>() / n_elite as f64;
                let variance = elite().map(|x| (x - centre).powi(2)).sum::<f64>() / n_elite as f64;
                let [low, high] = self.bounds[axis].1;
                mean[axis] = centre;
                // Never quite zero, so that a lucky first round does not end the search.
                spread[axis] = variance.sqrt().max(0.01 * (high - low));
            }
        }
        let (score, scenario, values) = worst.ok_or_else(|| SimError::NothingRan {
            why: first_invalid.clone().unwrap_or_default(),
        })?;
        let parameters = self.bounds.iter().map(|(parameter, _)| *parameter);
        Ok(SearchOutcome {
            scenario,
            values: parameters.zip(values).collect(),
            score,
            rounds,
            n_runs: self.population * self.n_rounds,
            n_invalid,
            first_invalid,
        })
    }

    fn draw(&self, round: usize, mean: &[f64], spread: &[f64]) -> Vec<Vec<f64>> {
        (0..self.population)
            .map(|member| {
                let stream = (round * self.population + member) as u64;
                let mut random = Philox::new(self.seed, stream);
                let axes = self.bounds.iter().zip(mean).zip(spread);
                axes.map(|(((parameter, [low, high]), mean), spread)| {
                    let [low, high] = parameter.within([*low, *high]);
                    parameter.nearest(match round {
                        0 => random.next_in(low, high),
                        _ => (mean + spread * random.next_normal()).clamp(low, high),
                    })
                })
                .collect()
            })
            .collect()
    }

    fn build(&self, values: &[f64]) -> Scenario {
        let mut scenario = self.base.clone();
        let bounds = self.bounds.iter().zip(values);
        let values: Vec<(Parameter, f64)> = bounds
            .map(|((parameter, _), &value)| (*parameter, value))
            .collect();
        Parameter::apply_all(&mut scenario, &values);
        for (parameter, value) in values {
            scenario
                .name
                .push_str(&format!(" {parameter:?}={value:.4}"));
        }
        scenario
    }
}
