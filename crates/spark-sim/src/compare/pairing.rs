//! Pairs of drives, and what they say about a metric or an event, by scenario and family.
//!
//! ```text
//! pair       baseline and candidate: the same scenario, the same replicate
//! scenario   mean over its replicates
//! family     mean over its scenarios          the unit of every test; of those that state none,
//!            the scenarios of one name are one
//!
//! capped value of a closest approach:   none -> cap, above the cap -> cap, collision -> 0
//! shorter than the other or than the scenario, without a collision   -> a failure
//! distance to drive, where nobody says it                            -> the farther of both
//! ```

use super::verdict::worse_sign;
use crate::metric::{CATALOGUE, EventInfo, MetricInfo, Metrics};
use crate::run::{RunReport, ScenarioResult};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// One side of a pair: its metrics, or why there are none.
type Side<'a> = Result<Cow<'a, Metrics>, String>;

/// Drives that differ in length by less than this share are of one length.
const SAME_LENGTH: f64 = 1e-6;

/// One drive of each side.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    /// Place of the scenario in the input.
    pub(super) index: usize,
    pub(super) family: usize,
    pub(super) name: &'a str,
    /// Of the candidate's noise.
    pub(super) seed: u64,
    /// Whether both had the same noise.
    pub(super) same_noise: bool,
    pub(super) baseline: Side<'a>,
    pub(super) candidate: Side<'a>,
}

impl Pair<'_> {
    fn both(&self) -> Option<[&Metrics; 2]> {
        match (&self.baseline, &self.candidate) {
            (Ok(baseline), Ok(candidate)) => Some([baseline.as_ref(), candidate.as_ref()]),
            _ => None,
        }
    }
}

/// A result's side: a drive with metrics that no drive can have is a failure of its scenario.
fn side(result: &ScenarioResult) -> Side<'_> {
    let metrics = result.outcome.as_ref().map_err(ToString::to_string)?;
    match metrics.impossible() {
        None => Ok(Cow::Borrowed(metrics)),
        Some((metric, got)) => Err(format!("the drive's {metric} is {got}")),
    }
}

/// Both sides. A drive that ended before its scenario did, and not in a collision, is a failure:
/// a tenth of a second is no drive of twenty.
fn sides<'a>(baseline: &'a ScenarioResult, candidate: &'a ScenarioResult) -> [Side<'a>; 2] {
    let mut sides = [side(baseline), side(candidate)];
    let lasted = |side: &Side<'_>| side.as_ref().map_or(0.0, |m| m.duration_s);
    let longest = lasted(&sides[0]).max(lasted(&sides[1]));
    for side in &mut sides {
        let Ok(metrics) = side else { continue };
        let lasts = metrics.duration_requested_s.unwrap_or(longest);
        let driven = metrics.duration_s;
        if metrics.collision.is_none() && driven < (1.0 - SAME_LENGTH) * lasts {
            let reason =
                format!("the drive ended after {driven} s of {lasts} s without a collision");
            *side = Err(reason);
        }
    }
    if let [Ok(b), Ok(c)] = &mut sides
        && (b.distance_requested_m.is_none() || c.distance_requested_m.is_none())
    {
        let known = b.distance_requested_m.or(c.distance_requested_m);
        let to_drive = known.unwrap_or_else(|| b.distance_m.max(c.distance_m));
        for metrics in [b, c] {
            metrics.to_mut().distance_requested_m = Some(to_drive);
        }
    }
    sides
}

/// Pairs two reports whose scenarios agree.
pub(super) fn pairs<'a>(baseline: &'a RunReport, candidate: &'a RunReport) -> Vec<Pair<'a>> {
    let mut families = HashMap::new();
    let results = baseline.results.iter().zip(&candidate.results);
    results
        .map(|(b, c)| {
            let [baseline, candidate] = sides(b, c);
            // A name listed twice is no second piece of evidence.
            let own = c.family.is_none().then_some(c.name.as_str());
            let n_families = families.len();
            let family = *families
                .entry((c.family.as_deref(), own))
                .or_insert(n_families);
            Pair {
                index: c.index,
                family,
                name: &c.name,
                seed: c.seed,
                same_noise: b.seed == c.seed,
                baseline,
                candidate,
            }
        })
        .collect()
}

/// Scenarios that state no family and bear the name of another one.
pub(super) fn n_repeated(pairs: &[Pair<'_>], baseline: &RunReport) -> usize {
    let states_none = pairs.iter().zip(&baseline.results);
    let own: HashSet<(usize, &str)> = states_none
        .filter(|(_, result)| result.family.is_none())
        .map(|(pair, _)| (pair.index, pair.name))
        .collect();
    let names: HashSet<&str> = own.iter().map(|(_, name)| *name).collect();
    own.len() - names.len()
}

/// Sums that become a mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    n: usize,
    sums: [f64; 3],
}

impl Mean {
    fn add(&mut self, values: [f64; 3]) {
        self.n += 1;
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum += value;
        }
    }

    fn get(self) -> Option<[f64; 3]> {
        (self.n > 0).then(|| self.sums.map(|sum| sum / self.n as f64))
    }
}

/// A metric of both sides: of a drive, a scenario or a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values {
    pub(super) baseline: f64,
    pub(super) candidate: f64,
    /// How much worse the candidate is; negative when better.
    pub(super) worsening: f64,
}

impl Values {
    fn from_means([baseline, candidate, worsening]: [f64; 3]) -> Self {
        Self {
            baseline,
            candidate,
            worsening,
        }
    }
}

/// What a metric says.
pub(super) struct MetricData<'a> {
    /// Whether any finished drive has it.
    pub(super) applies: bool,
    /// Pairs of finished drives in which it was to be measured: all but those in which only the
    /// baseline ended in a collision, which is no fault of the candidate's.
    pub(super) n_due: usize,
    /// Pairs of drives in which it was.
    pub(super) n_measured: usize,
    /// Place, name, seed, and means over replicates, in the order of the input.
    pub(super) scenarios: Vec<(&'a Pair<'a>, Values)>,
    /// Means over scenarios, in the order of first mention.
    pub(super) families: Vec<Values>,
    /// Drives of baseline and candidate that had no value of their own.
    pub(super) n_none: [usize; 2],
    /// Pairs left out because a drive ended in a collision.
    pub(super) n_cut_short: usize,
}

/// The metric of every pair that both finished; without scenarios and families if no drive has
/// it, or if every pair was cut short.
pub(super) fn metric_data<'a>(pairs: &'a [Pair<'a>], info: &MetricInfo) -> MetricData<'a> {
    let mut data = MetricData {
        applies: false,
        n_due: 0,
        n_measured: 0,
        scenarios: Vec::new(),
        families: Vec::new(),
        n_none: [0; 2],
        n_cut_short: 0,
    };
    let n_families = pairs.iter().map(|pair| pair.family + 1).max().unwrap_or(0);
    let mut families = vec![Mean::default(); n_families];
    for replicates in pairs.chunk_by(|a, b| a.index == b.index) {
        let mut mean = Mean::default();
        for sides in replicates.iter().filter_map(Pair::both) {
            let is_none = sides.map(|m| (info.read)(m).is_none());
            data.applies |= is_none != [true, true];
            let [baseline_hit, candidate_hit] = sides.map(|m| m.collision.is_some());
            if !info.is_approach && (baseline_hit || candidate_hit) {
                data.n_cut_short += 1;
                data.n_due += usize::from(candidate_hit);
                continue;
            }
            data.n_due += 1;
            for (n_none, is_none) in data.n_none.iter_mut().zip(is_none) {
                *n_none += usize::from(is_none);
            }
            let [Some(baseline), Some(candidate)] = sides.map(|m| value(info, m)) else {
                continue;
            };
            data.n_measured += 1;
            let worsening = worse_sign(info) * (candidate - baseline);
            mean.add([baseline, candidate, worsening]);
        }
        if let Some(means) = mean.get() {
            families[replicates[0].family].add(means);
            let values = Values::from_means(means);
            data.scenarios.push((&replicates[0], values));
        }
    }
    if data.applies {
        let means = families.into_iter().filter_map(Mean::get);
        data.families = means.map(Values::from_means).collect();
    } else {
        data.scenarios.clear();
    }
    data
}

/// How much worse the candidate's drive is.
fn worsening(info: &MetricInfo, sides: [&Metrics; 2]) -> Option<f64> {
    let [baseline, candidate] = sides.map(|metrics| value(info, metrics));
    Some(worse_sign(info) * (candidate? - baseline?))
}

/// A drive's value as it is compared.
fn value(info: &MetricInfo, metrics: &Metrics) -> Option<f64> {
    if info.is_approach && metrics.collision.is_some() {
        return Some(0.0);
    }
    match (info.cap, (info.read)(metrics)) {
        (Some(cap), None) => Some(cap),
        (Some(cap), Some(value)) => Some(value.min(cap)),
        (None, value) => value,
    }
}

/// A scenario in which an event happens to one side more often than to the other.
#[derive(Debug, Clone)]
pub(super) struct Change<'a> {
    /// The first replicate in which they differ.
    pub(super) pair: &'a Pair<'a>,
    /// Share of drives with the event, baseline and candidate.
    pub(super) shares: [f64; 2],
    /// Largest worsening of the event's metric among the replicates that newly have the event and
    /// no collision, which is an event of its own; absent without such a one, and for an event
    /// that is no threshold of a metric.
    pub(super) worsening: Option<f64>,
}

/// What is known about an event.
pub(super) struct EventData<'a> {
    /// Drives with the event.
    pub(super) n_drives: [usize; 2],
    /// Scenarios where the candidate has more.
    pub(super) new: Vec<Change<'a>>,
    /// Scenarios where the candidate has fewer.
    pub(super) fixed: Vec<Change<'a>>,
    /// Families with more, and with fewer.
    pub(super) n_families: [usize; 2],
}

/// The event in every pair in which it can be known.
pub(super) fn event_data<'a>(pairs: &'a [Pair<'a>], event: &EventInfo) -> EventData<'a> {
    let mut data = EventData {
        n_drives: [0; 2],
        new: Vec::new(),
        fixed: Vec::new(),
        n_families: [0; 2],
    };
    let n_families = pairs.iter().map(|pair| pair.family + 1).max().unwrap_or(0);
    let mut families = vec![Mean::default(); n_families];
    let metric = CATALOGUE
        .iter()
        .find(|info| event.metric == Some(info.name));
    for replicates in pairs.chunk_by(|a, b| a.index == b.index) {
        let (mut mean, mut counts) = (Mean::default(), [0; 2]);
        let (mut first_difference, mut largest) = (None, None);
        for pair in replicates {
            let happened = match event.happened {
                None => Some([pair.baseline.is_err(), pair.candidate.is_err()]),
                Some(happened) => pair.both().map(|sides| sides.map(happened)),
            };
            let Some([baseline, candidate]) = happened.map(|both| both.map(usize::from)) else {
                continue;
            };
            counts[0] += baseline;
            counts[1] += candidate;
            let (b, c) = (baseline as f64, candidate as f64);
            mean.add([b, c, c - b]);
            if baseline != candidate && first_difference.is_none() {
                first_difference = Some(pair);
            }
            if candidate > baseline
                && let (Some(info), Some(sides)) = (metric, pair.both())
                && sides[1].collision.is_none()
                && let Some(now) = worsening(info, sides)
            {
                largest = Some(largest.map_or(now, |most: f64| most.max(now)));
            }
        }
        let Some(means) = mean.get() else {
            continue;
        };
        families[replicates[0].family].add(means);
        data.n_drives[0] += counts[0];
        data.n_drives[1] += counts[1];
        let [baseline, candidate, _] = means;
        if let Some(pair) = first_difference
            && counts[0] != counts[1]
        {
            let side = if counts[1] > counts[0] {
                &mut data.new
            } else {
                &mut data.fixed
            };
            side.push(Change {
                pair,
                shares: [baseline, candidate],
                worsening: largest,
            });
        }
    }
    for [_, _, more] in families.into_iter().filter_map(Mean::get) {
        // Sums of shares of a few drives: what is not zero is far above rounding.
        data.n_families[0] += usize::from(more > 1e-9);
        data.n_families[1] += usize::from(more < -1e-9);
    }
    data
}
