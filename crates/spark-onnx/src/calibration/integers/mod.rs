//! A network in f32 as one of eight-bit integers, in ONNX's own form, from real inputs.
//!
//! ```text
//! x ──────────── Conv ─ Relu ── y       x ─ Quantize ─ Dequantize ─┐
//! w, b ──────────┘               =>        w_q ─ Dequantize ─ Conv ─ Relu ─ Quantize ─ Dequantize ── y
//!                                          b_q ─ Dequantize ─┘
//!
//! 1. observe    x and y of every product, in f32, on all batches  ──> scale, zero point: u8
//! 2. for each product, in the order in which they run:
//!       what it gets in f32, and what it gets after those before became integers
//!       weights rounded: i8, a scale per output channel                              as `weights` says
//!       bias, moved or not, whole in the scale of the sums: i32
//!       Quantize and Dequantize written around it
//! ```
//!
//! What comes out is a graph like any other: a file of it runs in onnxruntime on the same products of integers, and here
//! `spark-onnx-graph`'s `join_quantised` makes each product one of integers when a model is made. Its form is that of
//! onnxruntime's static quantisation (QDQ): bytes without a sign for activations, with one for weights.
//!
//! A product (Conv, Gemm, MatMul) is taken if its weights are a constant in f32, f16 or bf16, and its result is no output of
//! the network: outputs stay as exact as f32 has them. First constants in 16 bits become f32, products in 16 bits products in
//! f32 between casts, and batch normalisation on constants is folded into the convolution
//! before it (`prepared`). Whatever else reads the result reads it after its round trip; where
//! only the operand of a product is rounded, others read it exact.
//!
//! The same choice as a [`Calibration`](super::Calibration) runs the network in f32 with the same bits (`application`).
//!
//! Deliberately absent: products in bodies of control flow and behind lengths that values say, bytes for elementwise operators, pooling and
//! concatenation between products (they read and write f32), activations in signed bytes around zero, which is the only
//! form that some runtimes take.

mod application;
mod folding;
mod insertion;
mod names;
mod network;
mod prepared;
mod probe;
mod products;
mod readers;
mod rows;
mod stored;
mod weights;
mod widening;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use spark_quant::ExecutionPolicy;
use spark_quant::calibration::{Observer, ScaleMethod, StaticFormat};

use self::application::Ports;
pub(crate) use self::application::of_integers;
use self::insertion::Insertion;
pub use self::network::{IntegerNetwork, ProductError};
use self::prepared::prepared;
use self::probe::Probe;
use self::products::Product;
pub use self::products::{KeptProduct, products_behind_values};
use self::rows::Rows;
use super::chosen::refused;
use super::integer_layer::{ByteScale, IntegerLayer};
use super::networks::failed;
use super::settings::WeightRounding;
use crate::graph::{Graph, ValueId, check_graph};
use crate::options::{RunOptions, has_integers};
use crate::{ModelError, Tensor};

/// How a network becomes one of integers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct IntegerOptions {
    /// How the range of activations is chosen.
    pub scales: ScaleMethod,
    /// How weights are rounded.
    pub weights: WeightRounding,
    /// Products that stay in f32, by name of the node.
    pub kept: BTreeSet<String>,
}

impl Default for IntegerOptions {
    /// Scales by the least squared error, weights rounded for their inputs, every product.
    fn default() -> Self {
        Self {
            scales: ScaleMethod::MeanSquaredError,
            weights: WeightRounding::default(),
            kept: BTreeSet::new(),
        }
    }
}

impl IntegerOptions {
    /// Chooses ranges of activations this way.
    #[must_use]
    pub fn with_scales(mut self, scales: ScaleMethod) -> Self {
        self.scales = scales;
        self
    }

    /// Rounds weights this way.
    #[must_use]
    pub fn with_weights(mut self, weights: WeightRounding) -> Self {
        self.weights = weights;
        self
    }

    /// Leaves these products in f32, by name of the node.
    #[must_use]
    pub fn with_kept(mut self, kept: BTreeSet<String>) -> Self {
        self.kept = kept;
        self
    }
}

/// `graph` with its products on eight-bit integers, chosen on `batches`, each of which has all inputs by name.
///
/// `options` say threads, instruction set and memory; their precision, formats of steps and calibration are not looked
/// at. `progress` gets products done and products in all. Every product runs both networks up to itself again, which
/// takes no memory but time; products that are rounded to the nearest need none of it.
///
/// # Errors
///
/// [`ModelError::Calibration`] without batches, for a name to be kept that no node has, where no product can be one of
/// integers, and for activations that are not finite; [`ModelError::InputMissing`] and [`ModelError::InputUnknown`] for a
/// batch; those of planning and running the network.
///
/// # Examples
///
/// ```
/// use spark_onnx::calibration::{IntegerOptions, quantise};
/// use spark_onnx::graph::{Dim, Graph, MatMul, Op, Unary};
/// use spark_onnx::{DType, Model, Precision, RunOptions, Tensor, file};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(64), Dim::Known(32)]);
/// let w = Tensor::from_f32([32, 8], (0..256).map(|i| (i as f32 * 0.7).sin()).collect())?;
/// let w = graph.add_constant("w", w);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
/// graph.outputs.push(y);
///
/// let frame = |seed: usize| (0..2048).map(|i| ((i * 7919 + seed) % 997) as f32 / 500.0 - 1.0).collect();
/// let frames = [Tensor::from_f32([64, 32], frame(0))?, Tensor::from_f32([64, 32], frame(500))?];
/// let batches: Vec<_> = frames.iter().map(|frame| vec![("x", frame)]).collect();
/// let (seen, fresh) = batches.split_at(1);
/// let options = RunOptions::new();
/// let made = quantise(&graph, seen, &options, &IntegerOptions::default(), |_, _| ())?;
/// assert!(made.errors(fresh, &options)?[0].output_db > 35.0);
///
/// let file = file::to_bytes(&made.graph)?; // ONNX
/// let mut session = Model::from_bytes(&file, &options)?.session();
/// session.run(&fresh[0])?;
/// assert!(session.steps().iter().any(|step| step.kind == "int8_linear"));
///
/// // The same products without that file.
/// let chosen = options.with_precision(Precision::Int8).with_calibration(made.calibration());
/// let mut same = Model::from_graph(graph, &chosen)?.session();
/// assert_eq!(same.run(&fresh[0])?, session.run(&fresh[0])?);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
pub fn quantise(
    graph: &Graph,
    batches: &[Vec<(&str, &Tensor)>],
    options: &RunOptions,
    wanted: &IntegerOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<IntegerNetwork, ModelError> {
    if batches.is_empty() {
        return Err(refused(&graph.name, "there are no inputs to calibrate on"));
    }
    check_graph(graph)?;
    let graph = &prepared(graph)?;
    let (products, kept) = products::of(graph, &wanted.kept)?;
    if products.is_empty() {
        return Err(refused(&graph.name, &none_of(graph, &kept)));
    }
    let policy = ExecutionPolicy::detect();
    let scales = scales(graph, &products, batches, options, wanted.scales)?;
    let mut made = Insertion::new(graph);
    let mut ports = Vec::with_capacity(products.len());
    for (number, product) in products.iter().enumerate() {
        let (input, output) = (scales[&product.x], scales[&product.y]);
        let operand = made.round_trip(product.x, input)?;
        let rounded = match wanted.weights {
            WeightRounding::Nearest => weights::nearest(policy, product, input.scale),
            WeightRounding::Compensated => {
                let rows = |graph, operand| rows(graph, operand, product, batches, options);
                let (exact, rounded) = (rows(graph, product.x)?, rows(made.graph(), operand)?);
                weights::compensated(policy, product, input.scale, (&exact, &rounded))
            }
        };
        let failed = |source| failed(&product.name, source);
        let rounded = rounded.map_err(failed)?;
        let layer = IntegerLayer {
            input,
            output,
            weights: rounded.packed(product).map_err(failed)?,
            bias: rounded.bias,
            chosen_for: product.digest(),
        };
        ports.push(Ports {
            rounded_y: made.replace(product, &layer)?,
            name: product.name.clone(),
            x: product.x,
            y: product.y,
            layer: Arc::new(layer),
        });
        progress(number + 1, products.len());
    }
    Ok(IntegerNetwork {
        graph: made.finish(),
        kept,
        original: graph.clone(),
        products: ports,
    })
}

/// Why no product can be of integers.
fn none_of(graph: &Graph, kept: &[KeptProduct]) -> String {
    let reasons = kept.iter().take(3);
    let reasons: Vec<String> = reasons
        .map(|product| format!("`{}`: {}", product.name, product.reason))
        .collect();
    match reasons.is_empty() {
        true if has_integers(graph) => {
            format!(
                "its products are {} as products of integers",
                products::QUANTISED
            )
        }
        true => "it has no Conv, Gemm or MatMul that could be of integers".to_owned(),
        false => format!("no product can be of integers; {}", reasons.join("; ")),
    }
}

/// Scales of what enters and leaves the products.
fn scales(
    graph: &Graph,
    products: &[Product],
    batches: &[Vec<(&str, &Tensor)>],
    options: &RunOptions,
    method: ScaleMethod,
) -> Result<BTreeMap<ValueId, ByteScale>, ModelError> {
    let values = products.iter().flat_map(|product| [product.x, product.y]);
    let mut observers: BTreeMap<ValueId, Observer> =
        values.map(|id| (id, Observer::new(1))).collect();
    let ids: Vec<ValueId> = observers.keys().copied().collect();
    let policy = ExecutionPolicy::detect();
    let mut probe = Probe::new(graph, &ids, options)?;
    for batch in batches {
        for (observer, tensor) in observers.values_mut().zip(probe.values(batch)?) {
            let observed = observer.observe(policy, &tensor.to_f32());
            observed.map_err(|source| failed(&graph.name, source))?;
        }
    }
    let chosen = observers.into_iter().map(|(id, observer)| {
        let name = &graph.value(id).name;
        let seen = observer.tensor();
        let n = seen.n_nan + seen.n_infinite;
        if n > 0 {
            let reason = format!("{n} of its values are not finite on these batches");
            return Err(refused(name, &reason));
        }
        let chosen = method.choose(&observer, StaticFormat::Uint8Asymmetric);
        let chosen = chosen.map_err(|source| failed(name, source))?;
        let bytes = ByteScale::of(&chosen);
        let bytes = bytes.ok_or_else(|| refused(name, "no scale that bytes can have"))?;
        Ok((id, bytes))
    });
    chosen.collect()
}

/// Rows of what `product` gets as `operand` of `graph`, evenly over the batches.
fn rows(
    graph: &Graph,
    operand: ValueId,
    product: &Product,
    batches: &[Vec<(&str, &Tensor)>],
    options: &RunOptions,
) -> Result<Rows, ModelError> {
    let mut rows = Rows::new(product, batches.len());
    let mut probe = Probe::new(graph, &[operand], options)?;
    for batch in batches {
        if !probe.values(batch)?.iter().all(|tensor| rows.add(tensor)) {
            return Err(refused(
                &product.name,
                "its operand does not fit its weights",
            ));
        }
    }
    Ok(rows)
}
