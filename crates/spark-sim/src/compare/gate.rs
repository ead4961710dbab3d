//! The comparison itself: tests of metrics and events, adjustment, decision.

use super::adjust::{benjamini_hochberg, holm};
use super::exact::{mcnemar, upper_share};
use super::pairing::{
    Change, EventData, MetricData, Pair, event_data, metric_data, n_repeated, pairs,
};
use super::sign_flip::SubsetMeans;
use super::verdict::{Shown, families_for_margin, least_families, least_flips, worse_sign};
use super::{
    CompareOptions, Comparison, Decision, Doubt, EventCase, EventComparison, Finding,
    MetricComparison, NewEvents, Regression,
};
use crate::SimError;
use crate::metric::{CATALOGUE, EVENTS, EventInfo, Margin, MetricInfo, Role};
use crate::run::RunReport;
use std::collections::HashSet;

/// Compares two runs of the same scenarios, replicate by replicate.
///
/// # Errors
///
/// [`SimError::NotTheSameScenarios`] if numbers, names, families or replicates of scenarios differ, and
/// [`SimError::OtherScenarios`] if both runs say what their scenarios are ([`RunReport::scenarios`]) and these differ;
/// [`SimError::NoMetric`] for a margin of an unknown metric; [`SimError::OutOfRange`] for a margin
/// that is negative or not finite, a level outside (0, 0.5), a share outside [0, 1], or flips
/// outside 100 to a million; [`SimError::TooFewFlips`] for a level that so few flips never reach.
pub fn compare(
    baseline: &RunReport,
    candidate: &RunReport,
    options: &CompareOptions,
) -> Result<Comparison, SimError> {
    check(baseline, candidate)?;
    check_options(options)?;
    let pairs = pairs(baseline, candidate);
    let mut tested = Vec::new();
    let mut coverage = Vec::new();
    for info in CATALOGUE.iter().filter(|info| info.role != Role::Event) {
        let data = metric_data(&pairs, info);
        coverage.push(Coverage::new(info, &data));
        tested.extend(Tested::new(info, data, options));
    }
    let counted: Vec<Counted<'_>> = EVENTS
        .iter()
        .map(|info| Counted::new(info, event_data(&pairs, info)))
        .collect();
    let adjusted = Adjusted::new(&tested, &counted);
    let mut comparison = Comparison {
        baseline: baseline.algorithm.clone(),
        candidate: candidate.algorithm.clone(),
        decision: Decision::Pass,
        alpha: options.alpha,
        n_scenarios: pairs.chunk_by(|a, b| a.index == b.index).count(),
        n_drives: pairs.len(),
        n_compared: 0,
        n_families: 0,
        n_repeated: n_repeated(&pairs, baseline),
        failed_in_both: Vec::new(),
        not_applicable: Vec::new(),
        not_measured: Vec::new(),
        metrics: tested
            .iter()
            .enumerate()
            .map(|(i, metric)| metric.comparison(&adjusted, i, options))
            .collect(),
        events: counted
            .iter()
            .zip(&adjusted.events)
            .map(|(event, &p_adjusted)| event.comparison(p_adjusted))
            .collect(),
        regressions: regressions(&tested, &counted),
    };
    let mut families = HashSet::new();
    for replicates in pairs.chunk_by(|a, b| a.index == b.index) {
        let finished = |pair: &Pair<'_>| pair.baseline.is_ok() && pair.candidate.is_ok();
        if replicates.iter().any(finished) {
            comparison.n_compared += 1;
            families.insert(replicates[0].family);
        } else if replicates
            .iter()
            .all(|pair| pair.baseline.is_err() && pair.candidate.is_err())
        {
            let name = replicates[0].name.to_owned();
            comparison.failed_in_both.push(name);
        }
    }
    comparison.n_families = families.len();
    // Where nobody finished, nothing is known of any metric.
    if comparison.n_compared > 0 {
        let names = |is: fn(&Coverage) -> bool| -> Vec<&'static str> {
            let those = coverage.iter().filter(|metric| is(metric));
            those.map(|metric| metric.info.name).collect()
        };
        comparison.not_applicable = names(|metric| !metric.applies);
        comparison.not_measured = names(|metric| metric.applies && metric.n_families == 0);
    }
    let findings = findings(&comparison, &tested, &counted, options);
    comparison.decision = if findings.is_empty() {
        let n_hypotheses = adjusted.n_hypotheses;
        undecided_or_pass(&comparison, &tested, &coverage, n_hypotheses, options)
    } else {
        Decision::Fail { because: findings }
    };
    Ok(comparison)
}

fn check(baseline: &RunReport, candidate: &RunReport) -> Result<(), SimError> {
    let (b, c) = (&baseline.results, &candidate.results);
    let differs = b.iter().zip(c).position(|(b, c)| {
        (b.index, b.replicate, &b.name, &b.family) != (c.index, c.replicate, &c.name, &c.family)
    });
    if b.len() != c.len() || differs.is_some() {
        return Err(SimError::NotTheSameScenarios {
            baseline: b.len(),
            candidate: c.len(),
            first_difference: differs.unwrap_or(b.len().min(c.len())),
        });
    }
    match (&baseline.scenarios, &candidate.scenarios) {
        (Some(b), Some(c)) if b != c => Err(SimError::OtherScenarios {
            baseline: b.clone(),
            candidate: c.clone(),
        }),
        _ => Ok(()),
    }
}

fn check_options(options: &CompareOptions) -> Result<(), SimError> {
    let out_of_range = |what, got, want| Err(SimError::OutOfRange { what, got, want });
    if !(options.alpha > 0.0 && options.alpha < 0.5) {
        return out_of_range("level (alpha)", options.alpha, "between 0 and 0.5");
    }
    if !(0.0..=1.0).contains(&options.least_compared) {
        let got = options.least_compared;
        return out_of_range("least share compared", got, "between 0 and 1");
    }
    if !(100..=1_000_000).contains(&options.n_flips) {
        let got = options.n_flips as f64;
        return out_of_range("sign flips", got, "between 100 and a million");
    }
    let primaries = CATALOGUE.iter().filter(|info| info.role == Role::Primary);
    let least = least_flips(primaries.count() + EVENTS.len(), options.alpha);
    if options.n_flips < least {
        return Err(SimError::TooFewFlips {
            n_flips: options.n_flips,
            alpha: options.alpha,
            least,
        });
    }
    for (name, margin) in &options.margins {
        let known = |info: &MetricInfo| info.name == name && info.role != Role::Event;
        if !CATALOGUE.iter().any(known) {
            return Err(SimError::NoMetric { name: name.clone() });
        }
        for got in [margin.absolute, margin.relative] {
            if !(got.is_finite() && got >= 0.0) {
                return out_of_range("margin", got, "finite and not negative");
            }
        }
    }
    Ok(())
}

/// How much of the suite a metric was measured on.
struct Coverage {
    info: &'static MetricInfo,
    applies: bool,
    n_due: usize,
    n_measured: usize,
    n_families: usize,
}

impl Coverage {
    fn new(info: &'static MetricInfo, data: &MetricData<'_>) -> Self {
        Self {
            info,
            applies: data.applies,
            n_due: data.n_due,
            n_measured: data.n_measured,
            n_families: data.families.len(),
        }
    }

    /// Why so little of it decides nothing. `needed` families are what the gate can fail with; a
    /// suite that has fewer is doubted as a whole.
    fn doubt(&self, needed: usize, n_families: usize, least_share: f64) -> Option<Doubt> {
        let metric = self.info.name;
        // Rounded up, but not for the rounding of a product such as 0.9 times 50.
        let needed_drives = (least_share * self.n_due as f64 - 1e-9).ceil().max(1.0) as usize;
        if self.n_measured < needed_drives {
            return Some(Doubt::RarelyMeasured {
                metric,
                n_measured: self.n_measured,
                n_drives: self.n_due,
                needed: needed_drives,
            });
        }
        let too_few = self.n_families < needed && n_families >= needed;
        too_few.then_some(Doubt::MeasuredInTooFewFamilies {
            metric,
            n_families: self.n_families,
            needed,
        })
    }
}

/// A metric with its tests.
struct Tested<'a> {
    info: &'static MetricInfo,
    data: MetricData<'a>,
    margin: f64,
    /// Means over families: baseline, candidate, worsening.
    means: [f64; 3],
    flips: SubsetMeans,
    p_worse: f64,
    p_better: f64,
    p_beyond: f64,
    p_non_inferior: f64,
    p_not_superior: f64,
}

impl<'a> Tested<'a> {
    fn new(
        info: &'static MetricInfo,
        data: MetricData<'a>,
        options: &CompareOptions,
    ) -> Option<Self> {
        let n = data.families.len();
        if n == 0 {
            return None;
        }
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n as f64;
        let families = &data.families;
        let means = [
            mean(&mut families.iter().map(|f| f.baseline)),
            mean(&mut families.iter().map(|f| f.candidate)),
            mean(&mut families.iter().map(|f| f.worsening)),
        ];
        let listed = options.margins.iter().find(|(name, _)| name == info.name);
        let margin: Margin = listed.map_or(info.margin, |(_, margin)| *margin);
        let margin = margin.at(means[0]);
        let worsenings: Vec<f64> = families.iter().map(|f| f.worsening).collect();
        let flips = SubsetMeans::of(&worsenings, options.n_flips, options.seed);
        Some(Self {
            info,
            margin,
            means,
            p_worse: flips.p_above(0.0),
            p_better: flips.p_below(0.0),
            p_beyond: flips.p_above(margin),
            p_non_inferior: flips.p_below(margin),
            p_not_superior: flips.p_above(-margin),
            flips,
            data,
        })
    }

    fn is_primary(&self) -> bool {
        self.info.role == Role::Primary
    }

    /// Whether some signs of its worsenings could reject something.
    fn says_something(&self) -> bool {
        self.data.families.iter().any(|f| f.worsening != 0.0)
    }

    fn p_difference(&self) -> f64 {
        (2.0 * self.p_worse.min(self.p_better)).min(1.0)
    }

    fn comparison(
        &self,
        adjusted: &Adjusted,
        i: usize,
        options: &CompareOptions,
    ) -> MetricComparison {
        let alpha = options.alpha;
        let [baseline, candidate, worsening] = self.means;
        let sign = worse_sign(self.info);
        let delta = sign * worsening;
        let ends = self
            .flips
            .lower(0.5 * alpha)
            .zip(self.flips.upper(0.5 * alpha));
        let interval = ends.map(|(low, high)| match self.info.direction {
            crate::metric::Direction::Lower => [low, high],
            crate::metric::Direction::Higher => [-high, -low],
        });
        let n_families = self.data.families.len();
        let is_beyond = |worsening: f64| worsening > self.margin;
        let families = self.data.families.iter();
        let n_families_beyond = families.filter(|f| is_beyond(f.worsening)).count();
        let scenarios = self.data.scenarios.iter();
        let n_regressions = scenarios.filter(|(_, v)| is_beyond(v.worsening)).count();
        MetricComparison {
            metric: self.info.name,
            unit: self.info.unit,
            role: self.info.role,
            n: self.data.scenarios.len(),
            n_families,
            n_none: self.data.n_none,
            n_cut_short: self.data.n_cut_short,
            baseline,
            candidate,
            delta,
            change_percent: (baseline != 0.0).then(|| 100.0 * delta / baseline.abs()),
            interval,
            margin: self.margin,
            worse_by_at_most: self.flips.upper(alpha),
            p_difference: self.p_difference(),
            p_non_inferior: self.p_non_inferior,
            p_worse: self.p_worse,
            p_adjusted: adjusted.shown_p[i],
            verdict: self.shown(adjusted, i, alpha).verdict(),
            n_families_beyond,
            share_beyond_at_most: upper_share(n_families_beyond, n_families, alpha),
            n_regressions,
        }
    }

    fn shown(&self, adjusted: &Adjusted, i: usize, alpha: f64) -> Shown {
        let worse = adjusted.worse[i] <= alpha;
        Shown {
            better: adjusted.better[i] <= alpha,
            worse,
            beyond: worse && adjusted.beyond[i] <= alpha,
            not_inferior: self.p_non_inferior <= alpha,
            not_superior: self.p_not_superior <= alpha,
        }
    }

    /// Standard deviation of the families' worsenings.
    fn sd(&self) -> f64 {
        let [.., mean] = self.means;
        let n = self.data.families.len();
        let squares = self.data.families.iter();
        let sum: f64 = squares.map(|f| (f.worsening - mean).powi(2)).sum();
        (sum / (n.max(2) - 1) as f64).sqrt()
    }
}

/// An event with its test.
struct Counted<'a> {
    info: &'static EventInfo,
    data: EventData<'a>,
    p: f64,
}

impl<'a> Counted<'a> {
    fn new(info: &'static EventInfo, data: EventData<'a>) -> Self {
        let [n_new, n_fixed] = data.n_families;
        let p = mcnemar(n_new, n_fixed);
        Self { info, data, p }
    }

    fn comparison(&self, p_adjusted: f64) -> EventComparison {
        let case = |change: &Change<'_>, is_new: bool| {
            let pair = change.pair;
            let failed = if is_new {
                &pair.candidate
            } else {
                &pair.baseline
            };
            EventCase {
                index: pair.index,
                scenario: pair.name.to_owned(),
                seed: pair.seed,
                reason: failed.as_ref().err().cloned(),
            }
        };
        EventComparison {
            event: self.info.name,
            meaning: self.info.meaning,
            is_severe: self.info.is_severe,
            baseline: self.data.n_drives[0],
            candidate: self.data.n_drives[1],
            new: self.data.new.iter().map(|c| case(c, true)).collect(),
            fixed: self.data.fixed.iter().map(|c| case(c, false)).collect(),
            n_families: self.data.n_families,
            p: self.p,
            p_adjusted,
        }
    }
}

/// P-values adjusted for the number of questions, in the order of metrics and events.
struct Adjusted {
    worse: Vec<f64>,
    better: Vec<f64>,
    beyond: Vec<f64>,
    /// What is reported as adjusted.
    shown_p: Vec<f64>,
    events: Vec<f64>,
    /// Questions that could fail the candidate.
    n_hypotheses: usize,
}

impl Adjusted {
    fn new(tested: &[Tested<'_>], counted: &[Counted<'_>]) -> Self {
        let n = tested.len();
        let primary: Vec<usize> = (0..n)
            .filter(|&i| tested[i].is_primary() && tested[i].says_something())
            .collect();
        let secondary: Vec<usize> = (0..n).filter(|&i| !tested[i].is_primary()).collect();
        let known: Vec<usize> = (0..counted.len())
            .filter(|&i| counted[i].data.n_families != [0, 0])
            .collect();
        // A question whose every worsening is zero has p = 1 whatever the signs: it is left out.
        let metrics = |p: &dyn Fn(&Tested<'_>) -> f64| -> Vec<f64> {
            primary.iter().map(|&i| p(&tested[i])).collect()
        };
        let worse = metrics(&|t| t.p_worse);
        let events = known.iter().map(|&i| counted[i].p);
        let joint = holm(&worse.into_iter().chain(events).collect::<Vec<_>>());
        let (worse, events) = joint.split_at(primary.len());
        let mut adjusted = Self {
            worse: vec![1.0; n],
            better: vec![1.0; n],
            beyond: vec![1.0; n],
            shown_p: vec![1.0; n],
            events: vec![1.0; counted.len()],
            n_hypotheses: joint.len(),
        };
        place(&mut adjusted.worse, &primary, worse);
        place(&mut adjusted.events, &known, events);
        let better = holm(&metrics(&|t| t.p_better));
        place(&mut adjusted.better, &primary, &better);
        for &i in &primary {
            adjusted.shown_p[i] = adjusted.worse[i].min(adjusted.better[i]);
        }
        let beyond = holm(&metrics(&|t| t.p_beyond));
        place(&mut adjusted.beyond, &primary, &beyond);

        let of_secondary = |p: &dyn Fn(&Tested<'_>) -> f64| -> Vec<f64> {
            let p: Vec<f64> = secondary.iter().map(|&i| p(&tested[i])).collect();
            benjamini_hochberg(&p)
        };
        let different = of_secondary(&|t| t.p_difference());
        place(&mut adjusted.shown_p, &secondary, &different);
        let beyond = of_secondary(&|t| t.p_beyond);
        place(&mut adjusted.beyond, &secondary, &beyond);
        for (&i, &p) in secondary.iter().zip(&different) {
            let is_worse = tested[i].p_worse < tested[i].p_better;
            adjusted.worse[i] = if is_worse { p } else { 1.0 };
            adjusted.better[i] = if is_worse { 1.0 } else { p };
        }
        adjusted
    }
}

fn place(all: &mut [f64], places: &[usize], values: &[f64]) {
    for (&i, &value) in places.iter().zip(values) {
        all[i] = value;
    }
}

fn findings(
    comparison: &Comparison,
    tested: &[Tested<'_>],
    counted: &[Counted<'_>],
    options: &CompareOptions,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for event in counted {
        let policy = if event.info.is_severe {
            options.new_events
        } else {
            options.new_near_misses
        };
        let metric = tested
            .iter()
            .find(|metric| event.info.metric == Some(metric.info.name));
        let margin = metric.map_or(0.0, |metric| metric.margin);
        let breaks_policy = |change: &&Change<'_>| {
            let never_before = change.shares[0] == 0.0;
            let beyond_margin = change.worsening.is_some_and(|worsening| worsening > margin);
            never_before
                && (event.info.metric.is_none() || beyond_margin)
                && match policy {
                    NewEvents::Fail => true,
                    NewEvents::FailWithSameNoise => change.pair.same_noise,
                    NewEvents::Test => false,
                }
        };
        let new = event.data.new.iter().filter(breaks_policy);
        let scenarios: Vec<String> = new.map(|c| c.pair.name.to_owned()).collect();
        if !scenarios.is_empty() {
            let event = event.info.name;
            findings.push(Finding::NewEvent { event, scenarios });
        }
    }
    let more = |event: &&super::EventComparison| event.p_adjusted <= options.alpha;
    for event in comparison.events.iter().filter(more) {
        findings.push(Finding::MoreEvents {
            event: event.event,
            n_new: event.n_families[0],
            n_fixed: event.n_families[1],
        });
    }
    let worse = |m: &&MetricComparison| m.role == Role::Primary && m.verdict.is_worse();
    for metric in comparison.metrics.iter().filter(worse) {
        findings.push(Finding::Worse {
            metric: metric.metric,
            worsening: metric.delta.abs(),
            at_most: metric.worse_by_at_most,
            margin: metric.margin,
            unit: metric.unit,
        });
    }
    findings
}

fn undecided_or_pass(
    comparison: &Comparison,
    tested: &[Tested<'_>],
    coverage: &[Coverage],
    n_hypotheses: usize,
    options: &CompareOptions,
) -> Decision {
    let mut because = Vec::new();
    // No input reaches the panic: no more questions are asked than `check_options` counted, and
    // from `m / alpha` flips on the smallest p-value, 1 / (1 + flips), is below `alpha / m`.
    let needed = least_families(n_hypotheses, options.alpha, options.n_flips)
        .expect("check_options refuses levels that the flips cannot reach");
    let (n_compared, n_scenarios) = (comparison.n_compared, comparison.n_scenarios);
    if n_compared == 0 {
        because.push(Doubt::NothingCompared);
    } else if (n_compared as f64) < options.least_compared * n_scenarios as f64 {
        because.push(Doubt::TooFewCompared {
            n_compared,
            n_scenarios,
        });
    }
    if comparison.n_families < needed {
        because.push(Doubt::TooFewFamilies {
            n_families: comparison.n_families,
            needed,
            n_repeated: comparison.n_repeated,
        });
    }
    for event in comparison.events.iter().filter(|event| event.is_severe) {
        let [n_new, n_fixed] = event.n_families;
        if n_new > n_fixed {
            because.push(Doubt::MoreEvents {
                event: event.event,
                n_new,
                n_fixed,
            });
        }
    }
    let decides = |metric: &&Coverage| metric.applies && metric.info.role == Role::Primary;
    because.extend(
        coverage.iter().filter(decides).filter_map(|metric| {
            metric.doubt(needed, comparison.n_families, options.least_compared)
        }),
    );
    for metric in tested.iter().filter(|metric| metric.is_primary()) {
        if metric.p_non_inferior > options.alpha {
            let (n, [.., mean]) = (metric.data.families.len(), metric.means);
            because.push(Doubt::NotWithinMargin {
                metric: metric.info.name,
                needed: families_for_margin(
                    mean,
                    metric.sd(),
                    metric.margin,
                    n,
                    options.alpha,
                    options.n_flips,
                )
                .map(|families| families.max(needed)),
            });
        }
    }
    if because.is_empty() {
        return Decision::Pass;
    }
    let families_needed = because.iter().filter_map(Doubt::families_needed).max();
    Decision::Undecided {
        because,
        families_needed,
    }
}

/// New severe events first, then whatever got worse by more than its margin.
fn regressions(tested: &[Tested<'_>], counted: &[Counted<'_>]) -> Vec<Regression> {
    let severe = counted.iter().filter(|event| event.info.is_severe);
    let mut all: Vec<Regression> = severe
        .flat_map(|event| event.data.new.iter().map(move |change| (event, change)))
        .map(|(event, change)| Regression {
            index: change.pair.index,
            scenario: change.pair.name.to_owned(),
            what: event.info.name,
            baseline: change.shares[0],
            candidate: change.shares[1],
            margins: None,
        })
        .collect();
    let n_events = all.len();
    for metric in tested {
        let worse = |worsening: f64| worsening > metric.margin;
        let scenarios = metric.data.scenarios.iter();
        for (pair, values) in scenarios.filter(|(_, v)| worse(v.worsening)) {
            all.push(Regression {
                index: pair.index,
                scenario: pair.name.to_owned(),
                what: metric.info.name,
                baseline: values.baseline,
                candidate: values.candidate,
                // A margin of zero makes every worsening count, however small.
                margins: Some(values.worsening / metric.margin.max(1e-9)),
            });
        }
    }
    all[n_events..].sort_by(|a, b| {
        let margins = |r: &Regression| r.margins.unwrap_or(0.0);
        margins(b)
            .total_cmp(&margins(a))
            .then(a.index.cmp(&b.index))
    });
    all
}
