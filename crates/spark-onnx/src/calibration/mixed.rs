//! A format per layer, each layer calibrated: as few bytes as an error at the outputs allows.
//!
//! ```text
//! for each layer, for fp4, fp8, fp16:  calibrate that layer alone, run some batches
//!     cost = mean over output parts of (squared error / squared value)
//! spark-quant chooses:  fewest bytes with a summed cost under the limit
//! calibrate the choice in turn, run all batches: not as good as asked for? halve the limit, choose again
//! ```
//!
//! The same as `precision::mixed` with layers that are calibrated, on many inputs instead of one.

use std::collections::BTreeMap;

use spark_quant::analysis::{Choice, ErrorMeasure, Layer, PlanBudget, PrecisionPlan, Sensitivity};

use super::networks::Networks;
use super::run::{Calibrated, in_turn};
use super::settings::CalibrationOptions;
use crate::graph::Graph;
use crate::options::RunOptions;
use crate::precision::mixed::CANDIDATES;
use crate::precision::{OutputErrors, OutputParts};
use crate::{ModelError, Precision, Tensor};

/// Times the limit on the cost is halved before giving up.
const TRIES: usize = 12;
/// Batches on which a layer alone is judged.
const TRIAL_BATCHES: usize = 4;

/// A mixed plan with its calibration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CalibratedMix {
    /// Bytes and cost of every format of every layer, each calibrated alone.
    pub sensitivity: Sensitivity,
    /// Which format each layer gets, with what it costs by the sensitivities.
    pub plan: PrecisionPlan,
    /// What was chosen for the layers in fp8 and fp4, with the formats of all others.
    pub calibrated: Calibrated,
    /// Signal to error of the whole choice on the batches, averaged in power over the parts of the outputs.
    pub sqnr_db: f64,
}

/// Chooses formats, and calibrates them, such that the signal-to-error ratio, averaged in power over the parts of the
/// outputs, is at least `min_sqnr_db` on `batches`. `settings` say how scales and weights are chosen; their formats
/// are not looked at. `progress` gets layers done and layers in all, first of the trials and then of each choice.
///
/// `parts` are those of every output that has as many values as they were made for; any other output, and without
/// `parts` every output, is one part.
///
/// # Errors
///
/// As [`calibrate`](super::calibrate), and [`ModelError::Mix`] if nothing keeps to the bound.
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
    let all = 0..networks.batches.len();
    let reference: Vec<Vec<Vec<f32>>> = all
        .map(|batch| networks.exact_outputs(batch))
        .collect::<Result<_, _>>()?;
    let outputs = networks.plan.outputs.iter();
    let lengths = outputs.map(|port| (port.name.as_str(), port.shape.iter().product()));
    let errors = OutputErrors::new(lengths, parts);
    let mut trial = Trial {
        errors,
        reference,
        settings,
    };
    let layers = networks.candidates();
    let mut measured = Vec::new();
    for &index in &layers {
        measured.push(trial.layer(&mut networks, index)?);
        progress(measured.len(), layers.len());
    }
    let sensitivity = Sensitivity { layers: measured };
    let wanted = 10f64.powf(-min_sqnr_db / 10.0);
    let (mut limit, mut best) = (wanted, f64::INFINITY);
    for _ in 0..TRIES {
        let Ok(plan) = sensitivity.plan(PlanBudget::Cost(limit)) else {
            break;
        };
        let picked = plan.picks.iter().map(|pick| CANDIDATES[pick.candidate]);
        let formats: Vec<(usize, Precision)> = layers.iter().copied().zip(picked).collect();
        let (calibrated, cost) = trial.whole(&mut networks, &formats, &mut progress)?;
        best = best.min(cost);
        if cost <= wanted {
            return Ok(CalibratedMix {
                sensitivity,
                plan,
                calibrated,
                sqnr_db: -10.0 * cost.log10(),
            });
        }
        limit /= 2.0;
    }
    Err(ModelError::Mix {
        wanted: min_sqnr_db,
        best: -10.0 * best.log10(),
    })
}

/// What choices are judged by.
struct Trial<'a> {
    /// Of no run.
    errors: OutputErrors,
    /// By batch and output.
    reference: Vec<Vec<Vec<f32>>>,
    settings: &'a CalibrationOptions,
}

impl Trial<'_> {
    /// Bytes and cost of every format of one layer, all others in f32.
    fn layer(&mut self, networks: &mut Networks<'_>, index: usize) -> Result<Layer, ModelError> {
        let inputs = networks.inputs(index)?;
        let name = networks.plan.steps[index].name.clone();
        let n_values = networks.plan.steps[index].step.weight_bytes() / size_of::<f32>();
        let mut choices = Vec::new();
        for (candidate, precision) in CANDIDATES.into_iter().enumerate() {
            if !networks.can_have(index, precision) {
                continue;
            }
            let chosen = match precision {
                Precision::Fp8 | Precision::Fp4 => {
                    let (chosen, _) = networks.choose(index, &inputs, precision, self.settings)?;
                    Some(chosen)
                }
                _ => None,
            };
            networks.set(index, precision, chosen)?;
            let (measure, cost) = self.cost(networks, TRIAL_BATCHES)?;
            choices.push(Choice {
                candidate,
                label: precision.name().to_owned(),
                bytes: networks.rounded.step_weight_bytes(index),
                measure,
                cost,
            });
        }
        networks.set(index, Precision::Fp32, None)?;
        Ok(Layer {
            name,
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
    ) -> Result<(Calibrated, f64), ModelError> {
        let is_narrow = |precision| matches!(precision, Precision::Fp8 | Precision::Fp4);
        let mut narrow = Vec::new();
        for &(index, precision) in formats {
            match is_narrow(precision) {
                true => narrow.push((index, precision)),
                false => networks.set(index, precision, None)?,
            }
        }
        let n_narrow = narrow.len();
        let mut calibrated = in_turn(networks, &narrow, self.settings, |done| {
            progress(done, n_narrow)
        })?;
        for &(index, precision) in formats.iter().filter(|(_, p)| !is_narrow(*p)) {
            let name = networks.plan.steps[index].name.clone();
            calibrated.calibration.leave(name, precision);
        }
        let (_, cost) = self.cost(networks, usize::MAX)?;
        for &(index, _) in formats {
            networks.set(index, Precision::Fp32, None)?;
        }
        Ok((calibrated, cost))
    }

    /// Error of all output values of the first batch, and the mean over parts on up to `n` batches, evenly chosen.
    fn cost(
        &self,
        networks: &mut Networks<'_>,
        n: usize,
    ) -> Result<(ErrorMeasure, f64), ModelError> {
        let mut errors = self.errors.clone();
        let n_batches = self.reference.len();
        let n = n.min(n_batches);
        let mut first = None;
        for i in 0..n {
            let batch = i * n_batches / n;
            let got = networks.rounded_outputs(batch)?;
            errors.add(&got, &self.reference[batch]);
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
