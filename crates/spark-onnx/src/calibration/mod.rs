//! Formats of eight and four bits made accurate on real inputs, without training.
//!
//! ```text
//! network, batches of real inputs
//!    │  layer by layer, in the order in which they run
//!    │     f32 network ──────────────> x    what the layer gets
//!    │     layers before it rounded ──> x^   what it gets then ──> a fixed scale, rounded with it
//!    │     weights rounded so that  Q x^ ~ W x                     (spark-quant: compensate)
//!    v
//! Calibration: codes, scales, a scale for the inputs, by step ──> RunOptions::with_calibration
//!                                                             ──> a file, read again
//! ```
//!
//! Without it, activations are rounded with a scale that follows their largest magnitude in every run, and each
//! weight to the nearest value. A calibration fixes the first, which saves a pass over the activations of fp8 and fp4, and
//! rounds weights for the inputs that they meet; where that holds on batches held back, a layer makes up for the rounding
//! of its inputs and of the layers before it as well.
//!
//! Eight-bit integers ([`Precision::Int8`](crate::Precision::Int8)) have no other way, unless the file has products
//! on them itself: nothing else runs in them without a calibration. They are chosen for the graph, not for its plan: [`quantise`] gives a network in ONNX's own form, for files,
//! and a [`Calibration`] that makes the same network of the one in f32.
//!
//! Deliberately absent: training; for fp8 and fp4 also batches of different shapes, biases, which stay in f32 as they
//! are, and layers that `precision` keeps in fp32.

mod chosen;
mod file;
mod fit;
mod integer_layer;
mod integers;
mod layer_errors;
mod mixed;
mod networks;
mod rounding;
mod run;
mod sample;
mod settings;

pub use chosen::Calibration;
pub use integer_layer::{ByteScale, IntegerLayer};
pub(crate) use integers::of_integers;
pub use integers::{
    IntegerNetwork, IntegerOptions, KeptProduct, ProductError, products_behind_values, quantise,
};
pub use layer_errors::{LayerError, layer_errors};
pub use mixed::{CalibratedMix, calibrate_mixed};
pub use run::calibrate;
pub use settings::{CalibrationOptions, WeightRounding};
