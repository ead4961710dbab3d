//! A format per layer: as few bytes as an error at the outputs allows.
//!
//! ```text
//! for each layer, for each format:  run the network with that layer alone in that format
//!     cost = mean over output parts of (squared error / squared value), on real inputs
//! spark-quant chooses:  fewest bytes with a summed cost under the limit
//! run the choice: not as good as asked for? halve the limit, choose again
//! ```
//!
//! Bytes are those that a format stores (`stored`), not those that this processor holds: where many rows share weights
//! in fp16 it holds them in f32, and a choice by that would leave in f32 what fp16 halves elsewhere.
//!
//! Errors of several layers add up only roughly, which is why the choice is run before it is
//! believed. Deliberately absent: bf16, whose activations belong to a layer's neighbours, so
//! that no layer can be judged alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use spark_onnx_graph::join_quantised;
use spark_quant::analysis::{Choice, ErrorMeasure, Layer, PlanBudget, PrecisionPlan, Sensitivity};

use super::output_errors::{OutputErrors, decibels};
use super::stored::stored_bytes;
use super::{OutputParts, StepPrecision, Wanted, choosable};
use crate::cpu::{Executor, Pool};
use crate::graph::{Graph, bind_within};
use crate::options::RunOptions;
use crate::plan::{Plan, lower};
use crate::stages::head_of;
use crate::{ModelError, Precision, Tensor};

/// Formats a mixed plan chooses from, cheapest first.
pub const CANDIDATES: [Precision; 4] = [
    Precision::Fp4,
    Precision::Fp8,
    Precision::Fp16,
    Precision::Fp32,
];

/// Times the limit on the cost is halved before giving up.
const TRIES: usize = 12;

/// A plan, what it was chosen from, and what it was found to do.
#[derive(Debug, Clone)]
pub struct Mixed {
    /// Bytes, as the format stores them, and cost of every format of every layer.
    pub sensitivity: Sensitivity,
    /// Which format each layer gets, with what it costs by the sensitivities.
    pub plan: PrecisionPlan,
    /// The same by name of the step.
    pub by_step: BTreeMap<String, Precision>,
    /// Signal to error of the whole choice on the given inputs, averaged over the parts of
    /// the outputs.
    pub sqnr_db: f64,
}

/// Chooses formats such that the signal-to-error ratio, averaged in power over the parts of the
/// outputs, is at least `min_sqnr_db` on `inputs`. `progress` gets layers done and layers in all.
///
/// `parts` are those of every output that has as many values as they were made for; any other
/// output, and without `parts` every output, is one part. Where lengths of results hang on values (NonMaxSuppression, NonZero),
/// outputs are what is made before these: a box more or less has no error that could be measured.
///
/// # Errors
///
/// Those of planning and running the network; [`ModelError::Mix`] if nothing keeps to the bound,
/// which for a number means an output that is not finite.
pub fn choose(
    graph: &Graph,
    inputs: &[(&str, &Tensor)],
    parts: Option<&OutputParts>,
    options: &RunOptions,
    min_sqnr_db: f64,
    mut progress: impl FnMut(usize, usize),
) -> Result<Mixed, ModelError> {
    let mut trial = Trial::new(graph, inputs, parts, options)?;
    let layers = choosable(&trial.plan);
    let n_layers = layers.len();
    let mut measured = Vec::new();
    for index in layers {
        measured.push(trial.measure(index)?);
        progress(measured.len(), n_layers);
    }
    let sensitivity = Sensitivity { layers: measured };
    let wanted = 10f64.powf(-min_sqnr_db / 10.0);
    let refuse = |best: f64| ModelError::Mix {
        wanted: min_sqnr_db,
        best: decibels(best),
    };
    let (mut limit, mut best) = (wanted, f64::INFINITY);
    for _ in 0..TRIES {
        let Ok(plan) = sensitivity.plan(PlanBudget::Cost(limit)) else {
            return Err(refuse(best));
        };
        let by_step = plan
            .picks
            .iter()
            .map(|pick| (pick.name.clone(), CANDIDATES[pick.candidate]))
            .collect();
        let cost = trial.cost_of(&by_step)?;
        best = best.min(cost);
        if cost <= wanted {
            return Ok(Mixed {
                sensitivity,
                plan,
                by_step,
                sqnr_db: decibels(cost),
            });
        }
        limit /= 2.0;
    }
    Err(refuse(best))
}

/// The network in f32, one layer of which can be something else.
struct Trial<'a> {
    plan: Plan,
    executor: Executor,
    pool: Arc<Pool>,
    options: &'a RunOptions,
    inputs: Vec<&'a Tensor>,
    /// Of no run.
    errors: OutputErrors,
    reference: Vec<Vec<f32>>,
}

impl<'a> Trial<'a> {
    fn new(
        graph: &Graph,
        given: &[(&str, &'a Tensor)],
        parts: Option<&OutputParts>,
        options: &'a RunOptions,
    ) -> Result<Self, ModelError> {
        let shapes: Vec<(&str, Vec<usize>)> = given
            .iter()
            .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
            .collect();
        let budget_bytes = options.budget_bytes(graph);
        // As a model takes it: what is quantised in the file stays so.
        let mut joined = graph.clone();
        join_quantised(&mut joined);
        let plan = lower(&bind_within(&head_of(joined)?, &shapes, budget_bytes)?)?;
        let inputs = plan.inputs.iter().map(|port| {
            let found = given.iter().find(|(name, _)| *name == port.name);
            let missing = || ModelError::InputMissing {
                name: port.name.clone(),
            };
            found.map(|(_, tensor)| *tensor).ok_or_else(missing)
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let lengths = plan
            .outputs
            .iter()
            .map(|port| (port.name.as_str(), port.shape.iter().product()));
        let errors = OutputErrors::new(lengths, parts);
        let (isa, pool) = options.isa_and_pool();
        let executor = Executor::new(plan.clone(), isa, Arc::clone(&pool))?;
        let mut trial = Self {
            plan,
            executor,
            pool,
            options,
            inputs,
            errors,
            reference: Vec::new(),
        };
        trial.reference = outputs(&mut trial.executor, &trial.inputs)?;
        Ok(trial)
    }

    /// Bytes and cost of every format of one layer.
    fn measure(&mut self, index: usize) -> Result<Layer, ModelError> {
        let planned = self.plan.steps[index].clone();
        let mut choices = Vec::new();
        for (candidate, precision) in CANDIDATES.into_iter().enumerate() {
            let wanted = super::assign(&planned.step, precision, "under trial");
            if wanted.precision != precision {
                continue;
            }
            self.set(index, wanted)?;
            let got = outputs(&mut self.executor, &self.inputs)?;
            let (want, got_flat) = (self.reference.concat(), got.concat());
            let measure = ErrorMeasure::between(&want, &got_flat);
            choices.push(Choice {
                candidate,
                label: precision.name().to_owned(),
                bytes: stored_bytes(&planned.step, precision),
                measure: measure.map_err(|source| ModelError::Quantise {
                    node: planned.name.clone(),
                    source: source.into(),
                })?,
                cost: self.cost(&got),
            });
        }
        self.set(
            index,
            super::assign(&planned.step, Precision::Fp32, "under trial"),
        )?;
        Ok(Layer {
            name: planned.name.clone(),
            n_values: planned.step.weight_bytes() / size_of::<f32>(),
            choices,
        })
    }

    fn set(&mut self, index: usize, wanted: StepPrecision) -> Result<(), ModelError> {
        let step = &self.plan.steps[index].step;
        self.executor
            .set_precision(index, step, wanted, self.options.arithmetic)
    }

    /// What a whole plan costs.
    fn cost_of(&self, by_step: &BTreeMap<String, Precision>) -> Result<f64, ModelError> {
        let wanted = Wanted {
            by_step: by_step.clone(),
            ..Wanted::from(Precision::Fp32)
        };
        let precisions = wanted.assign(&self.plan);
        let isa = self.executor.isa();
        let (plan, pool) = (self.plan.clone(), Arc::clone(&self.pool));
        let arithmetic = self.options.arithmetic;
        let mut executor = Executor::with_precisions(plan, isa, pool, &precisions, arithmetic)?;
        Ok(self.cost(&outputs(&mut executor, &self.inputs)?))
    }

    /// Mean over parts of the squared error over the squared reference.
    fn cost(&self, got: &[Vec<f32>]) -> f64 {
        let mut errors = self.errors.clone();
        errors.add(got, &self.reference);
        errors.mean_ratio()
    }
}

fn outputs(executor: &mut Executor, inputs: &[&Tensor]) -> Result<Vec<Vec<f32>>, ModelError> {
    for (i, tensor) in inputs.iter().enumerate() {
        executor.set_input(i, *tensor)?;
    }
    executor.run()?;
    let ports = 0..executor.plan().outputs.len();
    ports.map(|i| Ok(executor.output(i)?.to_f32())).collect()
}
