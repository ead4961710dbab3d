//! Chooses scales and rounds weights, layer by layer, on real inputs.
//!
//! ```text
//! for each layer that can be narrow, in the order in which they run:
//!     for each batch:  f32 network up to the layer      -> rows x
//!                      network with what was chosen     -> rows x^, all values to an observer
//!     scale  = the method's, of all x^                  x^ = rounded with it
//!     Q      = weights rounded so that Q x^ ~ W x, as `rounding` says
//!     the layer runs with both from here on
//! ```
//!
//! Each layer runs both networks up to itself again, which takes no memory but time: half of (layers x batches) runs
//! of either network.
//!
//! Deliberately absent: what rounding does to each layer (`layer_errors`) and at the outputs (`mixed`).

use std::sync::Arc;

use super::chosen::{Calibration, refused};
use super::integers::{IntegerOptions, quantise};
use super::networks::Networks;
use super::settings::CalibrationOptions;
use crate::graph::Graph;
use crate::options::RunOptions;
use crate::{ModelError, Precision, Tensor};

/// Calibrates a network on `batches`, each of which has all inputs by name, all of the same shapes (but for int8).
///
/// Left alone are layers that share their name with another step, for nothing could tell them apart, or their weights,
/// which would be held twice, and those that control flow may pass by. In int8, which is [`quantise`]'s choice, left alone is
/// what [`IntegerNetwork::kept`](super::IntegerNetwork::kept) says and what `by_step` gives fp32. `options` say
/// instruction set, threads, memory and whether activations are rounded at all; their precision is not looked at.
/// `progress` gets layers done and layers in all. What stands behind results whose length values say (NonMaxSuppression,
/// NonZero) has its weights in the options' precision.
///
/// # Errors
///
/// [`ModelError::Calibration`] without batches, for batches of several shapes, for inputs whose elements decide shapes, and
/// where no layer can have the format; [`ModelError::InputMissing`] and [`ModelError::InputUnknown`] for a batch;
/// [`ModelError::PrecisionUnavailable`] for formats other than fp8, fp4 and int8; those of planning and running the network.
///
/// # Examples
///
/// ```
/// use spark_onnx::calibration::{CalibrationOptions, calibrate, layer_errors};
/// use spark_onnx::graph::{Dim, Graph, MatMul, Op};
/// use spark_onnx::{DType, Model, Precision, RunOptions, Tensor};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(64), Dim::Known(32)]);
/// let w = Tensor::from_f32([32, 8], (0..256).map(|i| (i as f32 * 0.7).sin()).collect())?;
/// let w = graph.add_constant("w", w);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// graph.outputs.push(y);
///
/// let frame = |seed: usize| (0..2048).map(|i| ((i * 7919 + seed) % 997) as f32 / 500.0 - 1.0).collect();
/// let frames = [Tensor::from_f32([64, 32], frame(0))?, Tensor::from_f32([64, 32], frame(500))?];
/// let batches: Vec<_> = frames.iter().map(|frame| vec![("x", frame)]).collect();
/// let options = RunOptions::new();
/// let (seen, fresh) = batches.split_at(1);
/// let chosen = calibrate(&graph, seen, &options, &CalibrationOptions::new(Precision::Fp4), |_, _| ())?;
/// let errors = layer_errors(&graph, fresh, &options, &chosen, |_, _| ())?;
/// assert!(errors[0].output_db > 12.0, "{errors:?}");
///
/// let mut session = Model::from_graph(graph, &options.with_calibration(chosen))?.session();
/// session.run(&fresh[0])?;
/// assert_eq!(session.steps()[0].precision, Precision::Fp4);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
pub fn calibrate(
    graph: &Graph,
    batches: &[Vec<(&str, &Tensor)>],
    options: &RunOptions,
    wanted: &CalibrationOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Calibration, ModelError> {
    if wanted.precision == Precision::Int8 {
        let made = quantise(graph, batches, options, &of_integers(wanted)?, progress)?;
        return Ok(made.calibration());
    }
    let mut networks = Networks::new(graph, batches, options)?;
    let layers = networks.layers(wanted)?;
    in_turn(&mut networks, &layers, wanted, |done| {
        progress(done, layers.len())
    })
}

/// `wanted` for products of integers, beside which there is only fp32.
fn of_integers(wanted: &CalibrationOptions) -> Result<IntegerOptions, ModelError> {
    let mut others = wanted.by_step.iter();
    if let Some((name, precision)) = others.find(|(_, p)| **p != Precision::Fp32) {
        let reason = format!("{precision} beside int8, where fp32 alone can be");
        return Err(refused(name, &reason));
    }
    Ok(IntegerOptions::default()
        .with_scales(wanted.scales)
        .with_weights(wanted.weights)
        .with_kept(wanted.by_step.keys().cloned().collect()))
}

/// Chooses for `layers` in their order, each on what those before make of the inputs, and leaves the network so.
pub(super) fn in_turn(
    networks: &mut Networks<'_>,
    layers: &[(usize, Precision)],
    wanted: &CalibrationOptions,
    mut done: impl FnMut(usize),
) -> Result<Calibration, ModelError> {
    let mut calibration = Calibration::default();
    for (number, &(index, precision)) in layers.iter().enumerate() {
        let inputs = networks.inputs(index)?;
        let chosen = networks.choose(index, &inputs, precision, wanted)?;
        networks.set(index, precision, Some(Arc::clone(&chosen)))?;
        calibration.insert(networks.plan.steps[index].name.clone(), chosen);
        done(number + 1);
    }
    Ok(calibration)
}
