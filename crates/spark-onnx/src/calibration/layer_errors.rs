//! What a calibration does to each layer, measured on inputs that it has not seen.
//!
//! ```text
//! for each layer:  x   what it gets in f32         W   its weights
//!                  x^  what it gets with the layers before it calibrated, rounded as the layer rounds
//!                  inputs   |x^ before rounding|^2 / |rounding|^2
//!                  outputs  |W x|^2 / |W x - Q x^|^2
//! ```

use std::sync::Arc;

use spark_quant::analysis::ErrorMeasure;
use spark_quant::block::RoundTrip;

use super::chosen::{Calibration, refused, weights};
use super::integers::IntegerNetwork;
use super::networks::{LayerInputs, Networks, failed};
use super::rounding::output_db;
use crate::graph::Graph;
use crate::options::RunOptions;
use crate::plan::CalibratedWeights;
use crate::precision::recipes::GemmRecipes;
use crate::{ModelError, Precision, Tensor};

/// What rounding does to one layer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerError {
    /// Name of the step.
    pub name: String,
    /// Its format.
    pub precision: Precision,
    /// Signal to error of its inputs in decibels: what rounding them loses; errors of layers before are not in it.
    pub input_db: f64,
    /// Signal to error of its outputs in decibels, before bias and activation (int8: after both, rounded): against the
    /// f32 network, with the errors of all layers before it.
    pub output_db: f64,
}

/// Measures the layers of `calibration` on `batches`, in the order in which they run. `options` say instruction set,
/// threads, memory and whether activations are rounded at all; `progress` gets layers done and layers in all.
///
/// Give batches that the calibration was not made on: of a layer with fewer rows of inputs than it is deep, rounding
/// can fit the rows that it has seen without loss.
///
/// # Errors
///
/// As [`calibrate`](super::calibrate), and [`ModelError::Calibration`] for a calibration of another network.
pub fn layer_errors(
    graph: &Graph,
    batches: &[Vec<(&str, &Tensor)>],
    options: &RunOptions,
    calibration: &Calibration,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<LayerError>, ModelError> {
    if calibration.is_of_integers() {
        let network = IntegerNetwork::of(graph, calibration)?;
        let errors: Vec<LayerError> = network
            .errors(batches, options)?
            .into_iter()
            .map(|error| LayerError {
                name: error.name,
                precision: Precision::Int8,
                input_db: error.input_db,
                output_db: error.output_db,
            })
            .collect();
        progress(errors.len(), errors.len());
        return Ok(errors);
    }
    let mut networks = Networks::new(graph, batches, options)?;
    calibration.apply(&mut networks.plan.clone())?;
    let formats = calibration.formats();
    let formats: std::collections::BTreeMap<String, Precision> = formats
        .map(|(name, precision)| (name.to_owned(), precision))
        .collect();
    let candidates = networks.candidates().into_iter();
    let layers: Vec<(usize, String, Precision)> = candidates
        .filter_map(|index| {
            let name = &networks.plan.steps[index].name;
            Some((index, name.clone(), *formats.get(name)?))
        })
        .collect();
    let mut errors = Vec::new();
    for (done, (index, name, precision)) in layers.iter().enumerate() {
        let chosen = calibration.layer(name);
        if let Some(chosen) = &chosen {
            let inputs = networks.inputs(*index)?;
            errors.push(error_of(&networks, *index, *precision, &inputs, chosen)?);
        }
        networks.set(*index, *precision, chosen)?;
        progress(done + 1, layers.len());
    }
    Ok(errors)
}

fn error_of(
    networks: &Networks<'_>,
    index: usize,
    precision: Precision,
    inputs: &LayerInputs,
    chosen: &Arc<CalibratedWeights>,
) -> Result<LayerError, ModelError> {
    let step = &networks.plan.steps[index];
    let (name, policy) = (&step.name, networks.policy);
    let no_weights = || refused(name, "the step has no weights in one group");
    let weights = weights(step).ok_or_else(no_weights)?;
    let failed = |source| failed(name, source);
    let recipes = GemmRecipes::of(precision, networks.options.arithmetic.activations);
    let mut rounded = inputs.rounded.clone();
    let recipe = recipes.ok_or_else(no_weights)?.activations;
    if let Some((recipe, scale)) = recipe.zip(chosen.input_scale) {
        let trip = RoundTrip::with_scale(recipe, scale).map_err(failed)?;
        let channels = weights.in_per_group;
        trip.apply(policy, &mut rounded.rows, channels)
            .map_err(failed)?;
    }
    let samples = (&inputs.exact, &rounded);
    Ok(LayerError {
        name: name.clone(),
        precision,
        input_db: ErrorMeasure::between(&inputs.rounded.rows, &rounded.rows)
            .map_err(failed)?
            .sqnr_db(),
        output_db: output_db(weights, samples, &chosen.packed, policy).map_err(failed)?,
    })
}
