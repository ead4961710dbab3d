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
//! Eight-bit integers are a network of their own, in ONNX's form, which [`quantise`] writes.
//!
//! Deliberately absent: training; batches of different shapes; biases, which stay in f32 as they are; layers
//! that `precision` keeps in fp32.

mod chosen;
mod integers;
mod layer_errors;
mod mixed;
mod networks;
mod rounding;
mod run;
mod sample;
mod settings;

pub use chosen::Calibration;
pub use integers::{IntegerNetwork, IntegerOptions, KeptProduct, ProductError, quantise};
pub use layer_errors::{LayerError, layer_errors};
pub use mixed::{CalibratedMix, calibrate_mixed};
pub use run::calibrate;
pub use settings::{CalibrationOptions, WeightRounding};
