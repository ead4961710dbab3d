//! Small networks of every operator, and files damaged on purpose: for tests of an engine.
//!
//! ```text
//! every_operator() -> Sample { graph, inputs }      one node each; the reference says what is right
//! DamagedFiles::new(samples, files).mutant(n) -> bytes    a file that may be refused, and must do no harm
//! ```
//!
//! Behind the feature `samples`, as no program needs them. Everything is the same in every run.
//!
//! Deliberately absent: whole networks, and tolerances, which are the engine's.

mod computing;
mod control;
mod damage;
mod integers;
pub(crate) mod messages;
mod moving;
mod sample;
pub(crate) mod spelled_out;
pub(crate) mod versions;

pub use damage::DamagedFiles;
pub use sample::Sample;

/// Graphs of one node that together hold every operator, in every variant that is written differently
/// in a file.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::{graph::bind, reference, samples};
///
/// for sample in samples::every_operator() {
///     let given: Vec<_> = sample.inputs.iter().map(|(name, x)| (name.as_str(), x)).collect();
///     let want = reference::run(&bind(&sample.graph, &[])?, &given)?;
///     assert_eq!(want.len(), sample.graph.outputs.len()); // an engine compares its own with these
/// }
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn every_operator() -> Vec<Sample> {
    let mut samples = sample::Samples::default();
    computing::add(&mut samples);
    moving::add(&mut samples);
    integers::add(&mut samples);
    control::add(&mut samples);
    samples.finish()
}
