//! A format per layer, each layer calibrated: as few bytes as an error at the outputs allows.
//!
//! ```text
//! every third batch judges, the others calibrate
//! for each layer, for each of its formats:  that layer alone in it, fp4 and fp8 calibrated; run some judging batches
//!     cost = mean over output parts of (squared error / squared value)
//! spark-quant chooses:  fewest bytes with a summed cost under a limit
//! calibrate the choice in turn, run all judging batches
//!     not as good as asked for? lower the limit; better? raise it; some tries, and the fewest bytes are taken
//! ```
//!
//! A layer with fewer rows of inputs than it is deep can be rounded such that nothing is lost on these rows: on the
//! batches that it was calibrated on its error says nothing.
//!
//! The same as `precision::mixed` with layers that are calibrated, on many inputs instead of one.

use std::collections::BTreeMap;

use spark_quant::analysis::{Choice, ErrorMeasure, Layer, PlanBudget, PrecisionPlan, Sensitivity};

use super::chosen::{Calibration, refused, weights};
use super::networks::Networks;
use super::run::in_turn;
use super::settings::CalibrationOptions;
use crate::graph::Graph;
use crate::options::RunOptions;
use crate::plan::Weights;
use crate::precision::mixed::CANDIDATES;
use crate::precision::stored::stored_bytes;
use crate::precision::{OutputErrors, OutputParts, decibels};
use crate::{ModelError, Precision, Tensor};

/// Choices that are calibrated and run as a whole.
const TRIES: usize = 8;
/// The most that one try changes the limit by.
const MOST: f64 = 16.0;
/// A choice so much better than asked for, as a ratio of costs, is good enough.
const SLACK: f64 = 0.9;
/// Of so many batches, one judges.
const EVERY: usize = 3;
/// Batches on which a layer alone is judged.
const TRIAL_BATCHES: usize = 64;

/// A mixed plan with its calibration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CalibratedMix {
    /// Bytes, as the format stores them, and cost of every format of every layer, each calibrated alone.
    pub sensitivity: Sensitivity,
    /// Which format each layer gets, with what it costs by the sensitivities.
    pub plan: PrecisionPlan,
    /// What was chosen for the layers in fp8 and fp4, with the formats of all others.
    pub calibration: Calibration,
    /// Signal to error of the whole choice on the batches that judged, averaged in power over the parts of the outputs.
    pub sqnr_db: f64,
    /// Bytes of all weights and biases of the network, each layer's as its format stores them: what this processor holds
    /// can be more.
    pub stored_bytes: usize,
}

/// Chooses formats, and calibrates them, such that the signal-to-error ratio, averaged in power over the parts of the
/// outputs, is at least `min_sqnr_db` on a third of the `batches`, the second, fifth and so on, which only judge.
/// `settings` say how scales and weights are chosen; their formats are not looked at. `progress` gets layers done and
/// layers in all, first of the trials and then of each choice.
///
/// `parts` are those of every output that has as many values as they were made for; any other output, and without
/// `parts` every output, is one part. Where lengths of results hang on values (NonMaxSuppression, NonZero), outputs are what is
/// made before these.
///
/// # Errors
///
/// As [`calibrate`](super::calibrate), [`ModelError::Calibration`] for fewer than two batches, and [`ModelError::Mix`] if
/// nothing that was tried keeps to the bound.
pub fn calibrate_mixed(
    graph: &Graph,
    batches: &[Vec<(&str, &Tensor)>],
    parts: Option<&OutputParts>,
    options: &RunOptions,
    settings: &CalibrationOptions,
    min_sqnr_db: f64,
    mut progress: impl FnMut(usize, usize),
) -> Result<CalibratedMix, ModelError> {
    let mut networks = Networks::new(graph, batches, options)?;
    let judges = networks.hold_back(EVERY);
    if judges.is_empty() {
        let why = "one batch cannot both calibrate and judge";
        return Err(refused(&graph.name, why));
    }
    let reference = judges.iter().map(|batch| networks.exact_outputs(batch));
    let reference: Vec<Vec<Vec<f32>>> = reference.collect::<Result<_, _>>()?;
    let outputs = networks.plan.outputs.iter();
    let lengths = outputs.map(|port| (port.name.as_str(), port.shape.iter().product()));
    let errors = OutputErrors::new(lengths, parts);
    let mut trial = Trial {
        errors,
        judges,
        reference,
        settings,
    };
    let layers = networks.candidates();
    if layers.is_empty() {
        return Err(refused(
            &graph.name,
            "no layer with a name and weights of its own can have another format",
        ));
    }
    let mut measured = Vec::new();
    for &index in &layers {
        measured.push(trial.layer(&mut networks, index)?);
        progress(measured.len(), layers.len());
    }
    let sensitivity = Sensitivity { layers: measured };
    let fixed_bytes = bytes_without(&networks, &layers);
    let wanted = 10f64.powf(-min_sqnr_db / 10.0);
    let mut search = Search::new(wanted);
    let mut best: Option<CalibratedMix> = None;
    let mut tried: Vec<(Vec<usize>, f64)> = Vec::new();
    for _ in 0..TRIES {
        let Ok(plan) = sensitivity.plan(PlanBudget::Cost(search.limit)) else {
            break;
        };
        let picks: Vec<usize> = plan.picks.iter().map(|pick| pick.candidate).collect();
        let known = tried.iter().find(|(tried, _)| *tried == picks);
        let cost = match known {
            Some(&(_, cost)) => cost,
            None => {
                let formats = picks.iter().map(|&pick| CANDIDATES[pick]);
                let formats: Vec<_> = layers.iter().copied().zip(formats).collect();
                let (calibration, cost) = trial.whole(&mut networks, &formats, &mut progress)?;
                if cost <= wanted
                    && best
                        .as_ref()
                        .is_none_or(|best| plan.bytes < best.plan.bytes)
                {
                    best = Some(CalibratedMix {
                        sensitivity: sensitivity.clone(),
                        stored_bytes: fixed_bytes + plan.bytes,
                        plan,
                        calibration,
                        sqnr_db: decibels(cost),
                    });
                }
                tried.push((picks, cost));
                cost
            }
        };
        if search.is_done(cost) {
            break;
        }
    }
    best.ok_or(ModelError::Mix {
        wanted: min_sqnr_db,
        best: decibels(search.least),
    })
}

/// Bytes of weights and biases of all steps but `layers`, each weight once.
fn bytes_without(networks: &Networks<'_>, layers: &[usize]) -> usize {
    let (mut seen, mut bytes) = (Vec::new(), 0);
    for (index, planned) in networks.plan.steps.iter().enumerate() {
        if layers.contains(&index) {
            continue;
        }
        let identity = weights(planned).and_then(Weights::identity);
        if identity.as_ref().is_none_or(|own| !seen.contains(own)) {
            bytes += planned.step.weight_bytes();
        }
        seen.extend(identity);
    }
    bytes
}

/// The limit on the summed cost of layers alone that makes the cost of all of them together what is wanted.
struct Search {
    wanted: f64,
    /// To be tried next.
    limit: f64,
    /// The largest limit that kept to what is wanted, and the smallest that did not.
    kept: Option<f64>,
    missed: Option<f64>,
    /// The smallest cost seen.
    least: f64,
}

impl Search {
    fn new(wanted: f64) -> Self {
        Self {
            wanted,
            limit: wanted,
            kept: None,
            missed: None,
            least: f64::INFINITY,
        }
    }

    /// Whether `cost`, of the limit last tried, is what is wanted; if not, chooses the next limit.
    fn is_done(&mut self, cost: f64) -> bool {
        self.least = self.least.min(cost);
        let ratio = self.wanted / cost;
        if cost <= self.wanted {
            self.kept = Some(self.limit);
            if ratio * SLACK <= 1.0 {
                return true;
            }
        } else {
            self.missed = Some(self.limit);
        }
        self.limit = match (self.kept, self.missed) {
            (Some(kept), Some(missed)) => (kept * missed).sqrt(),
            // A cost that is no number asks for as little as can be.
            _ if ratio.is_nan() => self.limit / MOST,
            _ => self.limit * (ratio * SLACK.sqrt()).clamp(1.0 / MOST, MOST),
        };
        !(self.limit > 0.0 && self.limit.is_finite())
    }
}

/// What choices are judged by.
struct Trial<'a> {
    /// Of no run.
    errors: OutputErrors,
    judges: Vec<Vec<&'a Tensor>>,
    /// By judge and output.
    reference: Vec<Vec<Vec<f32>>>,
    settings: &'a CalibrationOptions,
}

impl Trial<'_> {
    /// Bytes and cost of every format of one layer, all others in f32.
    fn layer(&mut self, networks: &mut Networks<'_>, index: usize) -> Result<Layer, ModelError> {
        let inputs = networks.inputs(index)?;
        let planned = networks.plan.steps[index].clone();
        let n_values = planned.step.weight_bytes() / size_of::<f32>();
        let mut choices = Vec::new();
        for (candidate, precision) in CANDIDATES.into_iter().enumerate() {
            if !networks.can_have(index, precision) {
                continue;
            }
            let chosen = match precision {
                Precision::Fp8 | Precision::Fp4 => {
                    Some(networks.choose(index, &inputs, precision, self.settings)?)
                }
                _ => None,
            };
            networks.set(index, precision, chosen)?;
            let (measure, cost) = self.cost(networks, TRIAL_BATCHES)?;
            choices.push(Choice {
                candidate,
                label: precision.name().to_owned(),
                bytes: stored_bytes(&planned.step, precision),
                measure,
                cost,
            });
        }
        networks.set(index, Precision::Fp32, None)?;
        Ok(Layer {
            name: planned.name,
            n_values,
            choices,
        })
    }

    /// Calibrates a whole choice in turn, and what it costs; the network is in f32 again after it.
    fn whole(
        &mut self,
        networks: &mut Networks<'_>,
        formats: &[(usize, Precision)],
        progress: &mut impl FnMut(usize, usize),
    ) -> Result<(Calibration, f64), ModelError> {
        let is_narrow = |precision| matches!(precision, Precision::Fp8 | Precision::Fp4);
        let mut narrow = Vec::new();
        for &(index, precision) in formats {
            match is_narrow(precision) {
                true => narrow.push((index, precision)),
                false => networks.set(index, precision, None)?,
            }
        }
        let n_narrow = narrow.len();
        let mut calibration = in_turn(networks, &narrow, self.settings, |done| {
            progress(done, n_narrow)
        })?;
        for &(index, precision) in formats.iter().filter(|(_, p)| !is_narrow(*p)) {
            let name = networks.plan.steps[index].name.clone();
            calibration.leave(name, precision);
        }
        let (_, cost) = self.cost(networks, usize::MAX)?;
        for &(index, _) in formats {
            networks.set(index, Precision::Fp32, None)?;
        }
        Ok((calibration, cost))
    }

    /// Error of all output values of the first judge, and the mean over parts on up to `n` judges, evenly chosen.
    fn cost(
        &self,
        networks: &mut Networks<'_>,
        n: usize,
    ) -> Result<(ErrorMeasure, f64), ModelError> {
        let mut errors = self.errors.clone();
        let n_judges = self.judges.len();
        let n = n.min(n_judges);
        let mut first = None;
        for i in 0..n {
            let judge = i * n_judges / n;
            let got = networks.rounded_outputs(&self.judges[judge])?;
            errors.add(&got, &self.reference[judge]);
            first.get_or_insert(got);
        }
        let got = first.unwrap_or_default().concat();
        let want = self.reference.first().map(|all| all.concat());
        let measure = ErrorMeasure::between(&want.unwrap_or_default(), &got);
        let measure = measure.map_err(|source| ModelError::Quantise {
            node: "all".to_owned(),
            source: source.into(),
        })?;
        Ok((measure, errors.mean_ratio()))
    }
}

impl CalibratedMix {
    /// Layers by format.
    pub fn n_layers(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for pick in &self.plan.picks {
            *counts.entry(CANDIDATES[pick.candidate].name()).or_default() += 1;
        }
        counts
    }
}
