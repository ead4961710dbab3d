//! A network in f32 and the same network with some layers rounded, side by side on the same inputs. Where lengths of
//! results hang on values it is what stands before these, the head.
//!
//! Deliberately absent: the order in which layers are looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use spark_onnx_graph::join_quantised;
use spark_quant::block::RoundTrip;
use spark_quant::calibration::{Observer, StaticFormat};
use spark_quant::{ExecutionPolicy, QuantError};

use super::chosen::{refused, weights, weights_mut};
use super::rounding::Rounder;
use super::sample::Sample;
use super::settings::CalibrationOptions;
use crate::cpu::{Executor, ProductInputs};
use crate::graph::{Graph, bind_within, deciding_inputs};
use crate::options::RunOptions;
use crate::plan::{CalibratedWeights, Plan, Weights, lower};
use crate::precision::recipes::GemmRecipes;
use crate::precision::{Wanted, choosable};
use crate::stages::head_of;
use crate::{ModelError, Precision, Tensor};

/// What a layer gets, on all batches.
pub(super) struct LayerInputs {
    /// In the f32 network.
    pub(super) exact: Sample,
    /// In the other, before its inputs are rounded.
    pub(super) rounded: Sample,
    /// Of all values of the other.
    pub(super) observer: Observer,
}

/// The network in f32, and what has become of it.
pub(super) struct Networks<'a> {
    /// With weights, and what was chosen for the layers that are done.
    pub(super) plan: Plan,
    exact: Executor,
    pub(super) rounded: Executor,
    /// By batch, in the order of the plan's inputs.
    pub(super) batches: Vec<Vec<&'a Tensor>>,
    pub(super) options: &'a RunOptions,
    pub(super) policy: ExecutionPolicy,
}

impl<'a> Networks<'a> {
    pub(super) fn new(
        graph: &Graph,
        batches: &[Vec<(&str, &'a Tensor)>],
        options: &'a RunOptions,
    ) -> Result<Self, ModelError> {
        let Some(first) = batches.first() else {
            return Err(refused(&graph.name, "there are no inputs to calibrate on"));
        };
        // As a model takes it: what is quantised in the file already stays so.
        let mut joined = graph.clone();
        join_quantised(&mut joined);
        let head = head_of(joined)?;
        if let Some(&number) = deciding_inputs(&head).first() {
            let name = &graph.value(graph.inputs[number]).name;
            let reason = format!("input `{name}` decides shapes: make it a constant first");
            return Err(refused(&graph.name, &reason));
        }
        let known = |name: &str| graph.inputs.iter().any(|&id| graph.value(id).name == name);
        let mut names = batches.iter().flatten();
        if let Some((name, _)) = names.find(|(name, _)| !known(name)) {
            return Err(ModelError::InputUnknown {
                name: (*name).to_owned(),
            });
        }
        let shapes: Vec<(&str, Vec<usize>)> = first
            .iter()
            .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
            .collect();
        let plan = lower(&bind_within(&head, &shapes, options.budget_bytes(graph))?)?;
        let batches = batches.iter().enumerate().map(|(number, batch)| {
            let ports = plan.inputs.iter().map(|port| {
                let found = batch.iter().find(|(name, _)| *name == port.name);
                let missing = || ModelError::InputMissing {
                    name: port.name.clone(),
                };
                let (_, tensor) = found.ok_or_else(missing)?;
                if tensor.shape() != port.shape {
                    let reason = format!(
                        "input `{}` of batch {number} is {:?}, of the first {:?}",
                        port.name,
                        tensor.shape(),
                        port.shape
                    );
                    return Err(refused(&graph.name, &reason));
                }
                Ok(*tensor)
            });
            ports.collect::<Result<Vec<_>, ModelError>>()
        });
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let (isa, pool) = options.isa_and_pool();
        let executor = || Executor::new(plan.clone(), isa, Arc::clone(&pool));
        let (exact, rounded) = (executor()?, executor()?);
        Ok(Self {
            exact,
            rounded,
            plan,
            batches,
            options,
            policy: ExecutionPolicy::detect(),
        })
    }

    /// The layers to be calibrated, with the format of each.
    pub(super) fn layers(
        &self,
        wanted: &CalibrationOptions,
    ) -> Result<Vec<(usize, Precision)>, ModelError> {
        let steps = &self.plan.steps;
        let unknown = |name: &&String| !steps.iter().any(|step| step.name == **name);
        if let Some(name) = wanted.by_step.keys().find(unknown) {
            return Err(refused(name, "the network has no step of this name"));
        }
        let mut by_step = wanted.by_step.iter();
        if let Some((name, _)) = by_step.find(|(_, p)| **p == Precision::Int8) {
            return Err(refused(name, "int8 is for all layers, not for single ones"));
        }
        let formats = Wanted {
            precision: narrow(wanted.precision)?,
            by_step: wanted.by_step.clone(),
            calibrated: BTreeMap::new(),
        };
        let formats = formats.assign(&self.plan);
        let layers = self.candidates().into_iter();
        let layers: Vec<_> = layers
            .map(|index| (index, formats[index].precision))
            .filter(|(_, precision)| matches!(precision, Precision::Fp8 | Precision::Fp4))
            .collect();
        match layers.is_empty() {
            true => Err(refused(
                "all",
                "no layer with a name and weights of its own can be in fp8 or fp4",
            )),
            false => Ok(layers),
        }
    }

    /// Steps whose format can be chosen one by one, and whose weights are theirs alone: of those that another step
    /// reads too, a choice for each would take more memory, not less.
    pub(super) fn candidates(&self) -> Vec<usize> {
        let steps = &self.plan.steps;
        let all: Vec<_> = steps
            .iter()
            .filter_map(|step| weights(step)?.identity())
            .collect();
        let is_alone = |index: &usize| {
            let own = weights(&steps[*index]).and_then(Weights::identity);
            own.is_some_and(|own| all.iter().filter(|other| **other == own).count() == 1)
        };
        choosable(&self.plan).into_iter().filter(is_alone).collect()
    }

    /// Whether layer `index` can be in `precision`.
    pub(super) fn can_have(&self, index: usize, precision: Precision) -> bool {
        let step = &self.plan.steps[index].step;
        Wanted::from(precision).assign_one(step).precision == precision
    }

    /// The inputs of layer `index` on all batches.
    pub(super) fn inputs(&mut self, index: usize) -> Result<LayerInputs, ModelError> {
        let name = &self.plan.steps[index].name;
        let no_weights = || refused(name, "the step has no weights in one group");
        let weights = weights(&self.plan.steps[index]).ok_or_else(no_weights)?;
        let mut inputs = LayerInputs {
            exact: Sample::new(weights, self.batches.len()),
            rounded: Sample::new(weights, self.batches.len()),
            observer: Observer::new(weights.in_per_group),
        };
        let not_run = || {
            refused(
                name,
                "control flow passes it by on one of the batches; give it fp32",
            )
        };
        for batch in &self.batches {
            let lent = before(&mut self.exact, batch, index)?;
            inputs.exact.add(&lent.ok_or_else(not_run)?);
            let lent = before(&mut self.rounded, batch, index)?.ok_or_else(not_run)?;
            let observer = &mut inputs.observer;
            lent.for_each_pixel(|channels| observer.observe(self.policy, channels))
                .map_err(|source| failed(name, source))?;
            inputs.rounded.add(&lent);
        }
        let seen = inputs.observer.tensor();
        match seen.n_nan + seen.n_infinite {
            0 => Ok(inputs),
            n => {
                let reason = format!("{n} of its inputs are not finite on these batches");
                Err(refused(name, &reason))
            }
        }
    }

    /// Chooses scales and codes of layer `index` in `precision`.
    pub(super) fn choose(
        &self,
        index: usize,
        inputs: &LayerInputs,
        precision: Precision,
        settings: &CalibrationOptions,
    ) -> Result<Arc<CalibratedWeights>, ModelError> {
        let step = &self.plan.steps[index];
        let no_weights = || refused(&step.name, "the step has no weights in one group");
        let weights = weights(step).ok_or_else(no_weights)?;
        let recipes = GemmRecipes::of(precision, self.options.arithmetic.activations);
        let recipes = recipes.ok_or_else(no_weights)?;
        let failed = |source| failed(&step.name, source);
        let mut rounded = inputs.rounded.clone();
        let input_scale = match recipes.activations {
            None => None,
            Some(recipe) => {
                let format = match precision {
                    Precision::Fp4 => StaticFormat::Nvfp4,
                    _ => StaticFormat::E4m3,
                };
                let chosen = settings.scales.choose(&inputs.observer, format);
                let chosen = chosen.map_err(failed)?;
                let trip = RoundTrip::with_scale(recipe, chosen.scale).map_err(failed)?;
                trip.apply(self.policy, &mut rounded.rows, weights.in_per_group)
                    .map_err(failed)?;
                Some(chosen.scale)
            }
        };
        let samples = (&inputs.exact, &rounded);
        let rounder = Rounder {
            policy: self.policy,
            weights,
            precision,
            recipe: recipes.weights,
        };
        let packed = rounder.round(settings.weights, samples, self.batches.len());
        let packed = packed.map_err(failed)?;
        Ok(Arc::new(CalibratedWeights {
            packed,
            input_scale,
            chosen_for: weights.digest(),
        }))
    }

    /// Runs layer `index` in `precision` from here on, with what was chosen for it.
    pub(super) fn set(
        &mut self,
        index: usize,
        precision: Precision,
        chosen: Option<Arc<CalibratedWeights>>,
    ) -> Result<(), ModelError> {
        let planned = &mut self.plan.steps[index];
        if let Some(weights) = weights_mut(planned) {
            weights.set_calibrated(chosen);
        }
        let wanted = Wanted::from(precision).assign_one(&planned.step);
        self.rounded
            .set_precision(index, &planned.step, wanted, self.options.arithmetic)
    }

    /// Takes every `every`-th batch away, to be judged by, if two or more are there.
    pub(super) fn hold_back(&mut self, every: usize) -> Vec<Vec<&'a Tensor>> {
        let (mut kept, mut held_back) = (Vec::new(), Vec::new());
        for (number, batch) in std::mem::take(&mut self.batches).into_iter().enumerate() {
            match number % every == 1 {
                true => held_back.push(batch),
                false => kept.push(batch),
            }
        }
        self.batches = kept;
        held_back
    }

    /// What the f32 network gives for one batch.
    pub(super) fn exact_outputs(&mut self, batch: &[&Tensor]) -> Result<Vec<Vec<f32>>, ModelError> {
        outputs(&mut self.exact, batch)
    }

    /// What the network as it is now gives for one batch.
    pub(super) fn rounded_outputs(
        &mut self,
        batch: &[&Tensor],
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        outputs(&mut self.rounded, batch)
    }
}

pub(super) fn failed(name: &str, source: QuantError) -> ModelError {
    ModelError::Quantise {
        node: name.to_owned(),
        source: source.into(),
    }
}

fn outputs(executor: &mut Executor, batch: &[&Tensor]) -> Result<Vec<Vec<f32>>, ModelError> {
    for (i, tensor) in batch.iter().enumerate() {
        executor.set_input(i, *tensor)?;
    }
    executor.run()?;
    let ports = 0..executor.plan().outputs.len();
    ports.map(|i| Ok(executor.output(i)?.to_f32())).collect()
}

/// `precision`, if a calibration knows it.
fn narrow(precision: Precision) -> Result<Precision, ModelError> {
    match precision {
        Precision::Fp32 | Precision::Fp8 | Precision::Fp4 => Ok(precision),
        _ => Err(ModelError::PrecisionUnavailable {
            precision,
            device: "a calibration",
            available: "fp8, fp4, int8",
        }),
    }
}

/// Runs `executor` up to step `index`, and lends what that gets.
fn before<'a>(
    executor: &'a mut Executor,
    batch: &[&Tensor],
    index: usize,
) -> Result<Option<ProductInputs<'a>>, ModelError> {
    for (i, tensor) in batch.iter().enumerate() {
        executor.set_input(i, *tensor)?;
    }
    executor.run_before(index)
}
